"""Publication: the public folder and nothing else, once, and never half without saying so."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import pipelines
import synth
from helpers import forge
from pipelines import VerificationError, verify
from pipelines.publishing import destination as places
from pipelines.publishing import publishing
from pipelines.publishing.destination import PublishError
from pipelines.publishing.publishing import Published, erratum, publish, published, withdraw
from pipelines.release.certificate import parse_certificate
from pipelines.release.signing import generate_keys, read_private_key, sign, write_public_key
from pipelines.release.verification import VerificationReport
from pipelines.release.witness import add_statement, sign_statement
from pipelines.storage.checksums import CHECKSUMS, sha256_of

pytestmark = pytest.mark.quick

NAME = "demo-region-2019-all-jobs"
SECRET = b"CANARY-of-the-confidential-folder"
POUR = places._pour


class _Plain(MemoryFileSystem):  # type: ignore[misc]
    """A storage that cannot create a file exclusively."""

    protocol = ("plain",)
    store: dict[str, Any] = {}  # noqa: RUF012 - as in the parent
    pseudo_dirs: list[str] = [""]  # noqa: RUF012

    def _open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        if "x" in mode:
            raise NotImplementedError
        return super()._open(path, mode=mode, **kwargs)


fsspec.register_implementation("plain", _Plain, clobber=True)


@pytest.fixture
def out(public_copy: Path) -> Path:
    """A release of the test's own, with a confidential folder full of canaries."""
    folder = public_copy.parent / "release"
    folder.mkdir()
    public_copy.rename(folder / "public")
    (folder / "confidential").mkdir(mode=0o700)
    for name in ("run.json", "SHA256SUMS", ".hidden", "certificate.json"):
        (folder / "confidential" / name).write_bytes(SECRET)
    (folder / ".unfinished").write_bytes(SECRET)
    return folder


@pytest.fixture(autouse=True)
def empty_memory() -> Iterator[None]:
    yield
    for kind in (MemoryFileSystem, _Plain):
        kind.store.clear()
        kind.pseudo_dirs[:] = [""]


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare tests that are about storage the verification, which others test."""
    monkeypatch.setattr(publishing, "verify", lambda *_: ())


storage = pytest.mark.usefixtures("trusted")


@pytest.fixture(params=["folder", "file", "memory", "plain"])
def destination(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return {
        "folder": str(tmp_path / "web" / "data"),
        "file": f"file://{tmp_path}/web",
        "memory": "memory://web/data",
        "plain": "plain://web",
    }[request.param]


@pytest.fixture
def web(tmp_path: Path) -> Path:
    return tmp_path / "web"


@pytest.fixture
def other(out: Path) -> Path:
    """The same release signed: another content under the same title."""
    folder = Path(shutil.copytree(out, out.with_name("signed")))
    private, _ = generate_keys(out.with_name("keys"))
    public, key = folder / "public", read_private_key(private)
    write_public_key(key, public)
    forge(
        public, json.loads((public / "certificate.json").read_text())
    )  # whose read-me says that it is signed
    sign(key, public)
    return folder


def content(folder: str | Path) -> dict[str, bytes]:
    """All files below a folder or URL."""
    fs, root = fsspec.url_to_fs(str(folder))
    fs.invalidate_cache()
    return {path.removeprefix(root).lstrip("/"): fs.cat_file(path) for path in fs.find(root)}


def refused(work: Callable[[], object]) -> str:
    with pytest.raises(PublishError) as caught:
        work()
    return str(caught.value)


def version_of(out: Path) -> str:
    return f"2019-JT00-{sha256_of(out / 'public' / CHECKSUMS)[:12]}"


def not_published(out: Path, web: Path, match: str, key: Path | None = None) -> None:
    """The release does not verify, so the destination is not even made."""
    with pytest.raises(VerificationError, match=match):
        publish(out, web, key=key)
    assert not web.exists()


@contextmanager
def copying(pour: Callable[[Path, Any, str], object]) -> Iterator[None]:
    """Copy files by another function meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(places, "_pour", pour)
        yield


def interrupted(files: int, *arguments: Any, **options: Any) -> None:
    """Publish, but stop, as by Ctrl-C, in the middle of the file that comes after so many."""
    left = iter(range(files))

    def stop(source: Path, target: Any, expected: str) -> None:
        if next(left, None) is None:
            target.write(source.read_bytes()[:7])
            raise KeyboardInterrupt
        POUR(source, target, expected)

    with pytest.raises(KeyboardInterrupt), copying(stop):
        publish(*arguments, **options)


# --- what is published


def test_the_public_folder_arrives_and_nothing_else(out: Path, destination: str) -> None:
    done = publish(out, destination)
    assert isinstance(done, Published)
    version = version_of(out)
    assert (done.name, done.version, done.status, done.new) == (NAME, version, "complete", True)
    expected = {f"{NAME}/{version}/{name}": data for name, data in content(out / "public").items()}
    there = content(destination)
    record = there.pop(f"{NAME}/{version}.publication.json")
    assert done.sha256.encode() in record
    assert there == expected
    assert SECRET not in record + b"".join(there.values())
    assert content(done.location) == content(out / "public")


def test_what_arrived_can_be_verified(out: Path, other: Path, web: Path) -> None:
    for release in (out, other):
        assert [check.name for check in verify(Path(publish(release, web).location))][-1] == "for release"


@storage
def test_what_arrived_has_the_time_of_the_certificate(out: Path, web: Path) -> None:
    version = Path(publish(out, web).location)
    stated = json.loads((version / "certificate.json").read_text())["created"]
    found = {path.stat().st_mtime for path in (version, *version.rglob("*"))}
    assert found == {datetime.fromisoformat(stated).timestamp()}


@storage
def test_publishing_again_writes_nothing(out: Path, destination: str) -> None:
    first = publish(out, destination)
    before = content(destination)
    again = publish(out, destination)
    assert (again.new, again.version, again.begun) == (False, first.version, first.begun)
    assert content(destination) == before


def test_a_witness_who_signs_later_needs_another_version(out: Path, web: Path, tmp_path: Path) -> None:
    publish(out, web)
    public, key = out / "public", read_private_key(generate_keys(tmp_path / "ann")[0])
    certificate = parse_certificate((public / "certificate.json").read_bytes())
    seal = (public / CHECKSUMS).read_bytes()
    add_statement(public, sign_statement(certificate, seal, key, ledger=False))
    with pytest.raises(PublishError, match="before a witness signed"):
        publish(out, web)
    assert publish(out, web, version="witnessed").status == "complete"


@storage
def test_neither_the_release_nor_what_is_published_is_touched_again(out: Path, web: Path) -> None:
    def state() -> dict[Path, tuple[int, int]]:
        paths = (out, *out.rglob("*"), web, *web.rglob("*"))
        return {path: (path.stat().st_mtime_ns, path.stat().st_mode) for path in paths if path.exists()}

    before = state()
    publish(out, web)
    after = state()
    assert after.items() >= before.items()
    publish(out, web)
    again = state()
    # A record is tried under a temporary name in the folder of versions; nothing inside the version moves.
    del after[web / NAME], again[web / NAME]
    assert again == after


@storage
def test_other_content_has_another_version(out: Path, other: Path, destination: str) -> None:
    versions = {publish(release, destination).version for release in (out, other)}
    assert versions == {version_of(out), version_of(other)}
    assert len(versions) == 2
    assert {state.version for state in published(destination)} == versions


@storage
def test_a_version_name_stands_for_one_content(out: Path, other: Path, destination: str) -> None:
    publish(out, destination, version="1.0")
    before = content(destination)
    assert "stands for another content" in refused(lambda: publish(other, destination, version="1.0"))
    assert content(destination) == before
    assert publish(other, destination, version="1.1").status == "complete"


def test_signatures_are_published_and_the_signer_is_checked(out: Path, other: Path, web: Path) -> None:
    own, stranger = other.with_name("keys") / "signing-key.pub", generate_keys(out.parent / "more")[1]
    not_published(other, web, "somebody else signed", stranger)
    not_published(out, web, "missing", own)
    done = publish(other, web, key=own)
    assert {"certificate.json.sig", "SHA256SUMS.sig"} <= set(content(done.location))


def test_published_files_can_be_read_by_everybody(out: Path, web: Path) -> None:
    before = os.umask(0o077)
    try:
        publish(out, web)
    finally:
        os.umask(before)
    for path in (web, *web.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o755 if path.is_dir() else 0o644), path


# --- what is not


def test_what_does_not_verify_is_not_published(out: Path, web: Path) -> None:
    with (out / "public" / "README.md").open("a") as file:
        file.write("more\n")
    not_published(out, web, r"README\.md has been changed")


def test_what_is_not_for_release_is_not_published(
    small_config: Callable[..., pipelines.ReleaseConfig], clean_source: object, web: Path
) -> None:
    seeded = pipelines.run(small_config(), key=synth.RunKey.from_seed(1))
    not_published(seeded.out, web, "for release: no")


def test_files_that_do_not_belong_stop_the_publication(out: Path, web: Path) -> None:
    for name in ("notes.txt", ".hidden", "plan/.nfs01", "plan/SHA256SUMS", ".git/config"):
        path = out / "public" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(SECRET)
        not_published(out, web, re.escape(name))
        path.unlink()


@pytest.mark.parametrize("name", ["run.json", "README.md", "plan", "more"])
def test_links_are_not_followed(name: str, out: Path, web: Path) -> None:
    path = out / "public" / name
    if path.is_dir():
        path.rename(out / "confidential" / name)
    elif path.exists():
        path.unlink()
    path.symlink_to(out / "confidential" / name, target_is_directory=True)
    not_published(out, web, "is a link")


def test_only_the_folder_of_a_release_is_published(out: Path, web: Path) -> None:
    with pytest.raises(PublishError, match="name the folder of the release, around it"):
        publish(out / "public", web)
    (out / "public").rename(out / "elsewhere")
    (out / "public").symlink_to("elsewhere")
    assert "is a link" in refused(lambda: publish(out, web))
    assert not web.exists()


@pytest.mark.parametrize("how", ["file", "link", "sums", "certificate"])
def test_a_change_after_verification_is_not_published(
    how: str, out: Path, destination: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = out / "public"

    def verify_then_change(folder: Path, key: Path | None) -> VerificationReport:
        report = verify(folder, key)
        if how == "sums":
            (public / CHECKSUMS).write_bytes((public / CHECKSUMS).read_bytes() + b"0  confidential\n")
        elif how == "link":
            (public / "README.md").rename(out / "confidential" / "README.md")  # even to the same bytes
            (public / "README.md").symlink_to(out / "confidential" / "README.md")
        else:
            (public / {"file": "README.md", "certificate": "certificate.json"}[how]).write_bytes(SECRET)
        return report

    monkeypatch.setattr(publishing, "verify", verify_then_change)
    refused(lambda: publish(out, destination))
    there = content(destination)
    assert not any(name.endswith(("SHA256SUMS", "README.md")) for name in there)
    assert SECRET not in b"".join(there.values())


def test_a_release_is_not_published_into_or_around_itself(out: Path) -> None:
    before = content(out.parent)
    for place in ("public", "confidential/web", ".", ".."):
        assert "lies inside the release" in refused(lambda place=place: publish(out, out / place))
        assert content(out.parent) == before


# --- interruptions


@storage
@pytest.mark.parametrize("files", [0, 1, 6, -2, -1])
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_an_interrupted_publication_says_so_and_is_completed(
    files: int, kind: str, out: Path, web: Path
) -> None:
    """After so many files, or, where the number is negative, so many before the end."""
    destination = str(web) if kind == "folder" else "memory://web"
    interrupted(files % len(content(out / "public")), out, destination)
    (state,) = published(destination)
    # Storage that writes in place may be left with the beginning of SHA256SUMS; that is no complete version.
    assert state.status == ("damaged" if kind == "memory" and files == -1 else "incomplete")
    done = publish(out, destination)
    assert (done.status, done.new, done.begun) == ("complete", True, state.begun)
    assert content(done.location) == content(out / "public")
    assert set(content(destination)) == {
        f"{NAME}/{done.version}.publication.json",
        *(f"{NAME}/{done.version}/{name}" for name in content(out / "public")),
    }
    assert publish(out, destination).new is False


@storage
def test_what_had_arrived_is_not_copied_again(out: Path, destination: str) -> None:
    interrupted(9, out, destination)
    copied: list[str] = []
    with copying(lambda s, t, e: (copied.append(s.name), POUR(s, t, e))):
        publish(out, destination)
    assert len(copied) == len(content(out / "public")) - 9
    assert copied[-1] == CHECKSUMS


@storage
def test_an_interrupted_version_is_not_taken_over_by_other_content(
    out: Path, other: Path, destination: str
) -> None:
    interrupted(3, out, destination, version="1")
    assert "stands for another content" in refused(lambda: publish(other, destination, version="1"))
    assert publish(out, destination, version="1").status == "complete"


def test_a_killed_publication_is_completed(out: Path, web: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from pipelines.publishing import destination, publishing\n"
        "pour, left = destination._pour, iter(range(5))\n"
        "def kill(source, target, expected):\n"
        "    if next(left, None) is None:\n"
        "        target.write(b'half'); target.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    pour(source, target, expected)\n"
        "destination._pour = kill\n"
        "publishing.publish(Path(sys.argv[1]), sys.argv[2])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(out), str(web)], check=False)
    assert done.returncode == -signal.SIGKILL
    (state,) = published(web)
    assert state.status == "incomplete"
    assert len(content(state.location)) == 5, "whole files only"
    shutil.copy(out / "public" / CHECKSUMS, Path(state.location).parent)
    assert published(web)[0].status == "incomplete", "only the version's own SHA256SUMS counts"
    assert content(publish(out, web).location) == content(out / "public")


@storage
@pytest.mark.parametrize("name", ["README.md", CHECKSUMS])
def test_what_arrives_is_read_back(name: str, out: Path, destination: str) -> None:
    """A storage that says yes and keeps something else."""

    def lose_the_end(source: Path, target: Any, expected: str) -> None:
        if source.name == name:
            target.write(source.read_bytes()[:-1])
        else:
            POUR(source, target, expected)

    with copying(lose_the_end):
        message = refused(lambda: publish(out, destination))
    assert f"{name} is not what was published, or did not arrive" in message
    assert published(destination)[0].status == ("damaged" if name == CHECKSUMS else "incomplete")
    assert publish(out, destination).status == "complete"


@storage
def test_a_full_disk_is_one_clear_error(out: Path, web: Path) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with copying(full):
        assert "No space left on device" in refused(lambda: publish(out, web))
    assert published(web)[0].status == "incomplete"
    assert not list(web.rglob(".partial-*"))


# --- what happened at the destination


@storage
def test_damage_is_listed_and_never_repaired_silently(out: Path, web: Path) -> None:
    done = publish(out, web)
    readme, sums = Path(done.location, "README.md"), Path(done.location, CHECKSUMS)
    original = readme.read_bytes()
    readme.write_bytes(b"changed")
    assert "README.md is not what was published" in refused(lambda: publish(out, web))
    assert readme.read_bytes() == b"changed"
    readme.unlink()
    assert published(web)[0].status == "damaged"
    assert "README.md" in refused(lambda: publish(out, web))
    readme.write_bytes(original)
    sums.write_bytes(sums.read_bytes() + b"x")
    assert published(web)[0].status == "damaged"
    assert CHECKSUMS in refused(lambda: publish(out, web))


@storage
def test_files_put_into_a_version_are_found(out: Path, destination: str) -> None:
    done = publish(out, destination, version="1")
    fs, root = fsspec.url_to_fs(destination)
    fs.pipe_file(f"{root}/{NAME}/1/plan/note.txt", b"x")
    assert "plan/note.txt does not belong" in refused(lambda: publish(out, destination, version="1"))
    assert done.status == "complete"


@storage
def test_what_stands_where_a_folder_must_be_is_named(out: Path, web: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name, named in (("file/below", "file: a file"), ("link", "link: a symbolic link to nowhere")):
        assert f"{named} is where" in refused(lambda name=name: publish(out, tmp_path / name))


@storage
def test_a_folder_that_is_there_already_is_left_alone(out: Path, web: Path) -> None:
    folder = web / NAME / "1"
    shutil.copytree(out / "public", folder)
    assert "was not published by this program" in refused(lambda: publish(out, web, version="1"))
    assert list(folder.parent.iterdir()) == [folder]


@storage
@pytest.mark.parametrize("left", [b"", b'{"format": "odsynth pub'])
def test_a_publication_cut_off_at_its_first_file_is_completed(
    left: bytes, out: Path, other: Path, destination: str
) -> None:
    fs, root = fsspec.url_to_fs(destination)
    fs.makedirs(f"{root}/{NAME}", exist_ok=True)
    fs.pipe_file(f"{root}/{NAME}/1.publication.json", left)
    assert published(destination)[0].status == "incomplete"
    done = publish(out, destination, version="1")
    assert (done.status, done.new) == ("complete", True)
    assert published(destination) == (publish(out, destination, version="1"),)
    assert "stands for another content" in refused(lambda: publish(other, destination, version="1"))


@storage
def test_a_damaged_record_stands_in_the_way(out: Path, web: Path) -> None:
    done = publish(out, web)
    Path(f"{done.location}.publication.json").write_bytes(b"")
    assert "stands for another content" in refused(lambda: publish(out, web))
    assert published(web)[0].status == "damaged"


@storage
def test_the_list_of_an_empty_or_missing_destination_is_empty(destination: str, web: Path) -> None:
    assert published(destination) == ()
    web.mkdir(exist_ok=True)
    # The last as a kill leaves it: a record that has not got its name.
    for name in (
        "a.publication.json",
        "x/readme.txt",
        "X Y/1.publication.json",
        "x/-1.publication.json",
        "x/.partial-1/1.publication.json",
    ):
        (web / name).parent.mkdir(parents=True, exist_ok=True)
        (web / name).write_text("{}")
    assert published(web) == ()


# --- withdrawal and errata


@storage
def test_withdrawal_is_recorded_beside_and_deletes_nothing(out: Path, destination: str) -> None:
    done = publish(out, destination)
    before = content(destination)
    state = withdraw(
        destination, "Demo region 2019, all jobs", done.version, "  Wrong crosswalk, für Rhode Island.\n"
    )
    assert state.status == "withdrawn"
    assert state.withdrawn is not None
    assert state.withdrawn.text == "Wrong crosswalk, für Rhode Island."
    moment = datetime.fromisoformat(state.withdrawn.date)
    assert abs((datetime.now(UTC) - moment).total_seconds()) < 60
    assert published(destination) == (state,)
    after = content(destination)
    assert set(after) - set(before) == {f"{NAME}/{done.version}.withdrawn.json"}
    assert {name: after[name] for name in before} == before
    refused(lambda: withdraw(destination, NAME, done.version, "again"))
    assert content(destination) == after
    assert "was withdrawn" in refused(lambda: publish(out, destination))
    assert content(destination) == after


@storage
def test_a_damaged_withdrawal_still_withdraws(out: Path, web: Path) -> None:
    done = publish(out, web)
    Path(f"{done.location}.withdrawn.json").write_bytes(b"{")
    (state,) = published(web)
    assert state.status == "withdrawn"
    assert state.withdrawn is not None
    assert "cannot be read" in state.withdrawn.text


@storage
def test_errata_are_numbered_and_kept(out: Path, destination: str) -> None:
    version = publish(out, destination).version
    for number in range(1, 4):
        state = erratum(destination, NAME, version, f"note {number}")
    assert [remark.text for remark in state.errata] == ["note 1", "note 2", "note 3"]
    assert state.status == "complete"
    assert {name for name in content(destination) if "erratum" in name} == {
        f"{NAME}/{version}.erratum-{number:03}.json" for number in range(1, 4)
    }
    withdraw(destination, NAME, version, "enough")
    assert len(erratum(destination, NAME, version, "note 4").errata) == 4
    assert publishing.published(destination)[0].errata[-1].text == "note 4"


@storage
def test_errata_stay_in_order_after_the_thousandth(out: Path, web: Path) -> None:
    done = publish(out, web)
    for number in (999, 1000, 2):
        Path(f"{done.location}.erratum-{number:03}.json").write_text(f'{{"text": "{number}"}}')
    assert [remark.text for remark in published(web)[0].errata] == ["2", "999", "1000"]


@storage
def test_versions_whose_names_begin_alike_are_not_mixed_up(out: Path, other: Path, destination: str) -> None:
    publish(out, destination, version="1")
    publish(other, destination, version="1.0")
    publish(out, destination, version="1.erratum-001")
    withdraw(destination, NAME, "1", "x")
    erratum(destination, NAME, "1.0", "y")
    states = {state.version: (state.status, len(state.errata)) for state in published(destination)}
    assert states == {"1": ("withdrawn", 0), "1.0": ("complete", 1), "1.erratum-001": ("complete", 0)}


@storage
@pytest.mark.parametrize("remark", [withdraw, erratum])
def test_remarks_need_a_version_and_a_text(
    remark: Callable[..., Published], out: Path, destination: str
) -> None:
    version = publish(out, destination).version
    before = content(destination)
    assert "no such version" in refused(lambda: remark(destination, NAME, "2019", "text"))
    assert "no such version" in refused(lambda: remark(destination, "other", version, "text"))
    assert "empty" in refused(lambda: remark(destination, NAME, version, " \n"))
    assert content(destination) == before


# --- several at once


@storage
@pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
def test_errata_at_the_same_time_are_all_kept(
    links: bool, out: Path, web: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_links)
    version = publish(out, web).version
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda i: erratum(web, NAME, version, f"note {i}"), range(16)))
    (state,) = published(web)
    assert sorted(remark.text for remark in state.errata) == sorted(f"note {i}" for i in range(16))


def _no_links(source: object, target: object) -> None:
    raise OSError(95, "Operation not supported")


@storage
def test_one_withdrawal_wins(out: Path, web: Path) -> None:
    version = publish(out, web).version

    def attempt(i: int) -> str | None:
        try:
            state = withdraw(web, NAME, version, f"reason {i}")
        except PublishError:
            return None
        assert state.withdrawn is not None
        return state.withdrawn.text

    with ThreadPoolExecutor(8) as pool:
        won = [text for text in pool.map(attempt, range(8)) if text]
    assert len(won) == 1
    withdrawn = published(web)[0].withdrawn
    assert withdrawn is not None
    assert withdrawn.text == won[0]


@storage
def test_publishing_the_same_at_the_same_time_is_one_publication(out: Path, web: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: publish(out, web), range(4)))
    assert {state.status for state in done} == {"complete"}
    assert len({state.begun for state in done}) == 1
    assert content(done[0].location) == content(out / "public")
    assert not list(web.rglob(".partial-*"))


@storage
def test_two_contents_racing_for_a_version_give_one(out: Path, other: Path, web: Path) -> None:
    def attempt(release: Path) -> Path | None:
        try:
            publish(release, web, version="1")
        except PublishError:
            return None
        return release

    with ThreadPoolExecutor(4) as pool:
        won = {release for release in pool.map(attempt, [out, other] * 2) if release}
    assert len(won) == 1
    assert content(web / NAME / "1") == content(won.pop() / "public")


# --- names and destinations


@storage
def test_bad_version_names_are_refused(out: Path, web: Path) -> None:
    bad = ("", "..", ".hidden", "a/b", "a b", "-x", "1.json", "1.withdrawn.json", "é", "x" * 101, "a\n")
    for version in bad:
        assert "cannot be a version" in refused(lambda v=version: publish(out, web, version=v))
        assert "cannot be a version" in refused(lambda v=version: withdraw(web, NAME, v, "x"))
    for version in ("latest", "Latest"):
        assert "has a meaning in addresses" in refused(lambda v=version: publish(out, web, version=v))
    assert not web.exists()


def test_names_become_safe_folders() -> None:
    for name, slug in (
        ("Rhode Island, 2019 (JT00)", "rhode-island-2019-jt00"),
        ("  Zürich / Genève ", "zurich-geneve"),
        ("../../etc", "etc"),
        ("通勤", f"release-{hashlib.sha256('通勤'.encode()).hexdigest()[:8]}"),
    ):
        assert publishing.folder_name(name) == publishing.folder_name(slug) == slug


@storage
def test_unusable_destinations_are_one_clear_error(out: Path) -> None:
    who = "user:PASSWORD@"
    for url in ("", f"nosuch://{who}host/x", "simplecache::memory://x", f"http://{who}127.0.0.1:9/x"):
        message = refused(lambda url=url: publish(out, url))
        assert "PASSWORD" not in message
        assert "\n" not in message


def test_storage_options_reach_the_storage(out: Path) -> None:
    seen: dict[str, Any] = {}

    class Asked(_Plain):
        protocol = ("asked",)

        def __init__(self, **options: Any) -> None:
            seen.update(options)
            super().__init__()

    fsspec.register_implementation("asked", Asked, clobber=True)
    publish(out, "asked://web", storage_options={"token": "t"})
    assert seen["token"] == "t"
