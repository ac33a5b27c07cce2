"""What the catalog shows of complete, withdrawn, incomplete and damaged versions."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pipelines
from pipelines.service import ServiceError
from pipelines.service.public import catalog as module
from pipelines.service.public.catalog import Catalog

from ..helpers import NAME, settings_of

Open = Callable[[Path], Catalog]


@pytest.fixture
def open_catalog(tmp_path: Path) -> Iterator[Open]:
    opened = []

    def make(state: Path) -> Catalog:
        opened.append(Catalog(settings_of(FOLDER=state)))
        return opened[-1]

    yield make
    for catalog in opened:
        catalog.stop()


def refused(call: Callable[[], object]) -> ServiceError:
    with pytest.raises(ServiceError) as error:
        call()
    assert "/" not in error.value.detail.replace("/api/v1/releases", "")  # no path of the server
    return error.value


def test_what_changes_is_seen_after_a_refresh(
    open_catalog: Open, new_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_KEPT_SECONDS", 3600)
    catalog, place = open_catalog(new_state), new_state / "published"
    catalog.find_usable(NAME, "v1")
    pipelines.erratum(place, NAME, "v1", "Second county: wrong name.")
    assert catalog.version(NAME, "v1").state.errata == ()
    catalog.refresh()
    assert [remark.text for remark in catalog.find_usable(NAME, "v1").state.errata] == [
        "Second county: wrong name."
    ]
    pipelines.withdraw(place, NAME, "v1", "A mistake.")
    catalog.refresh()
    found = catalog.version(NAME, "v1")
    assert found.status == "withdrawn"
    assert found.certificate is not None
    error = refused(lambda: catalog.find_usable(NAME, "v1"))
    assert (error.status, error.error) == (410, "withdrawn")
    assert "A mistake." in error.detail


def test_a_corrected_title_is_shown(
    open_catalog: Open,
    new_state: Path,
    small_release: pipelines.Release,
    config_text: Callable[..., str],
    tmp_path: Path,
) -> None:
    text = config_text({"release.name": "Right title", "release.out": "corrected"})
    config = pipelines.parse_config(text, tmp_path, "right.toml")
    pipelines.correct(small_release.public, config, "The title was wrong.")
    done = pipelines.publish(tmp_path / "corrected", new_state / "published", version="v9")
    certificate = open_catalog(new_state).find_usable(done.name, "v9").certificate
    assert certificate is not None
    assert certificate.release.name == "Right title"


def test_nobody_sees_what_was_read_before_a_refresh(
    open_catalog: Open, new_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A withdrawal while another thread is reading: who asks after it waits for a new reading."""
    catalog, reading, go_on = open_catalog(new_state), threading.Event(), threading.Event()
    real = module.published

    def slow(place: Path) -> object:
        states = real(place)
        reading.set()
        assert go_on.wait(30)
        return states

    monkeypatch.setattr(module, "published", slow)
    first = threading.Thread(target=catalog.versions)
    first.start()
    assert reading.wait(30)
    pipelines.withdraw(new_state / "published", NAME, "v1", "A mistake.")
    refreshed = threading.Thread(target=catalog.refresh)
    refreshed.start()
    go_on.set()
    first.join()
    refreshed.join()
    assert catalog.version(NAME, "v1").status == "withdrawn"


def test_the_place_is_read_only_when_it_has_changed(
    open_catalog: Open, new_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again while it may still change within the same tick of the clock."""
    clock, reads, real = [100.0], [0], module.published

    def counted(place: Path) -> object:
        reads[0] += 1
        return real(place)

    monkeypatch.setattr(module, "published", counted)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    for path in (new_state, *new_state.rglob("*")):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    catalog, folder = open_catalog(new_state), new_state / "published" / NAME / "v1"
    lists = []

    def looked() -> list[str]:
        clock[0] += module._KEPT_SECONDS + 0.1
        lists.append(catalog.once("list", lambda versions: repr([v.status for v in versions]).encode()))
        return [version.status for version in catalog.versions()]

    assert [looked() for _ in range(5)] == [["complete"]] * 5
    assert reads == [1]
    assert len(set(lists)) == 1
    content = (folder / "README.md").read_bytes()
    for change, status in (
        ((folder / "README.md").unlink, "damaged"),
        (lambda: (folder / "README.md").write_bytes(content), "complete"),
        (lambda: (folder / "SHA256SUMS").write_bytes(b"x"), "damaged"),
        (lambda: pipelines.withdraw(new_state / "published", NAME, "v1", "A mistake."), "withdrawn"),
    ):
        change()
        assert looked() == [status]
        assert status.encode() in lists[-1]
    assert reads[0] > 4  # what is new is read again until it is settled
    for path in (new_state, *new_state.rglob("*")):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    looked()
    before = reads[0]
    assert [looked() for _ in range(3)] == [["withdrawn"]] * 3
    assert reads[0] == before


def test_versions_that_nobody_published_make_nobody_read(
    open_catalog: Open, new_state: Path, small_release: pipelines.Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was published just now is found at once all the same."""
    clock, reads, real = [100.0], [0], module.published

    def counted(place: Path) -> object:
        reads[0] += 1
        return real(place)

    monkeypatch.setattr(module, "published", counted)
    monkeypatch.setattr(module, "_KEPT_SECONDS", 1e9)
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    for path in (new_state, *new_state.rglob("*")):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    catalog = open_catalog(new_state)
    for name, version in ((NAME, "v2"), ("nothing", "v1"), ("..", "."), ("/", "etc"), ("\0", "v1")):
        for _ in range(3):
            clock[0] += 1
            assert refused(lambda n=name, v=version: catalog.version(n, v)).status == 404  # type: ignore[misc]
    assert reads == [1]
    pipelines.publish(small_release.public.parent, new_state / "published", version="v2")
    clock[0] += 1
    assert catalog.find_usable(NAME, "v2")
    assert reads == [2]


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a file is missing": lambda folder: (folder / "README.md").unlink(),
    "other checksums": lambda folder: edit(folder / "SHA256SUMS", "a", "b"),
    "another certificate": lambda folder: edit(folder / "certificate.json", '"epsilon": "', '"epsilon": "0'),
    "no certificate": lambda folder: (folder / "certificate.json").unlink(),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_version_is_shown_and_not_given_out(open_catalog: Open, new_state: Path, how: str) -> None:
    DAMAGE[how](new_state / "published" / NAME / "v1")
    catalog = open_catalog(new_state)
    [version] = catalog.versions()
    assert version.status == "damaged"
    assert refused(lambda: catalog.find_usable(NAME, "v1")).status == 503
    assert refused(lambda: catalog.file(version, "README.md")).status == 503


def test_a_file_that_was_changed_is_not_given_out(open_catalog: Open, new_state: Path) -> None:
    """Of the same length, and after it was given out before: the catalog's own listing cannot see it."""
    catalog, path = open_catalog(new_state), new_state / "published" / NAME / "v1" / "README.md"
    version = catalog.find_usable(NAME, "v1")
    catalog.file(version, "README.md")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"synthetic", b"genuine!!"))
    assert refused(lambda: catalog.file(version, "README.md")).status == 503
    path.unlink()
    assert refused(lambda: catalog.file(version, "README.md")).status == 503
    other = path.with_name("elsewhere")
    other.write_bytes(content)
    path.symlink_to(other)
    assert refused(lambda: catalog.file(version, "README.md")).status == 503


def test_an_incomplete_version_is_not_shown(open_catalog: Open, new_state: Path) -> None:
    (new_state / "published" / NAME / "v1" / "SHA256SUMS").unlink()
    assert open_catalog(new_state).versions() == []


def test_checksums_cannot_name_a_file_outside(open_catalog: Open, new_state: Path) -> None:
    """Whoever can write into the place of publications still cannot have a file of the state given out."""
    secret = new_state / "secret"
    secret.write_text("CANARY")
    folder = new_state / "published" / NAME / "v1"
    (folder / "link").symlink_to(secret)
    digest = hashlib.sha256(b"CANARY").hexdigest()
    sums = folder / "SHA256SUMS"
    sums.write_text(sums.read_text() + f"{digest}  ../../../secret\n{digest}  {secret}\n{digest}  link\n")
    record = folder.with_name("v1.publication.json")
    said = json.loads(record.read_text()) | {"sha256": hashlib.sha256(sums.read_bytes()).hexdigest()}
    record.write_text(json.dumps(said))
    catalog = open_catalog(new_state)
    [version] = catalog.versions()
    for name in ("../../../secret", str(secret), "link"):
        assert refused(lambda name=name: catalog.file(version, name)).status in (404, 503)  # type: ignore[misc]
