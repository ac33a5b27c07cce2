"""What can be refused is refused before homes are read, all at once; what is paid can be finished."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import geo_data
from pipelines import ConfigError, LedgerError, Release, ReleaseConfig, load_plan, plan, run
from pipelines.plans import form
from pipelines.plans.storage import save_plan
from pipelines.release.signing import SigningError, generate_keys
from pipelines.running import report
from pipelines.running import run as releasing
from pipelines.running.preflight import check_ready, load_back, space_needed

from .helpers import Configs, left_over
from .hostile_names import Case, outcome, try_names


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Homes may not be read."""
    monkeypatch.setattr(releasing, "keep_homes", lambda *_: pytest.fail("homes were read"))


@pytest.mark.parametrize(("system", "unit"), [("linux", 1024), ("darwin", 1)])
def test_peak_memory_is_in_bytes(system: str, unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report.sys, "platform", system)
    monkeypatch.setattr(report.resource, "getrusage", lambda _: SimpleNamespace(ru_maxrss=1_000_000))
    assert report.peak_memory() == 1_000_000 * unit


def test_everything_is_said_at_once(paid_config: Configs, tmp_path: Path, small_region: Any) -> None:
    jobs = Path(shutil.copy(small_region["od"], tmp_path / "open.csv.gz"))
    jobs.chmod(0o644)
    (tmp_path / "file").touch()
    config = paid_config(
        {
            "jobs.file": jobs,
            "weights.file": tmp_path / "none.csv",
            "auxiliary.0.file": tmp_path / "neither.csv",
            "signature.key": tmp_path / "none.pem",
            "ledger.file": tmp_path / "nowhere" / "book",
            "release.out": tmp_path / "file" / "out",
        }
    )
    for begin in (plan, run):
        with pytest.raises(ConfigError) as caught:
            begin(config)
        said = "\n".join(caught.value.problems)
        for words in (
            "none.csv: there is no such file",
            "neither.csv: there is no such file",
            "open.csv.gz: everybody on this machine can read",
            "none.pem: there is no such key",
            "nowhere: the ledger's folder does not exist",
            r"file/out: the output folder, or a file in it, cannot be made: .* \(file\)",
        ):
            assert len(re.findall(words, said)) == 1, (words, said)
        assert len(caught.value.problems) == 6
    assert not [*tmp_path.rglob(".*")]


def test_one_problem_keeps_its_kind(paid_config: Configs, tmp_path: Path) -> None:
    check_ready(paid_config())
    for change, kind in (
        ({"signature.key": tmp_path / "none.pem"}, SigningError),
        ({"ledger.file": tmp_path / "nowhere" / "book"}, LedgerError),
        ({"weights.file": tmp_path / "none.csv"}, geo_data.InputError),
        ({"ledger.file": tmp_path / ("b" * 300)}, LedgerError),
        ({"signature.key": tmp_path / ("k" * 300)}, SigningError),
        ({"release.out": tmp_path / ("o" * 300)}, ConfigError),
    ):
        with pytest.raises(kind):
            check_ready(paid_config(change))


def test_a_ledger_that_could_not_be_debited_is_refused_unread(
    paid_config: Configs, book: Path, tmp_path: Path, unread: None
) -> None:
    """Whatever the debit would refuse: here a journal whose name is too long, and a clock that went back."""
    with pytest.raises(LedgerError, match=r"the ledger.* cannot be used"):
        plan(paid_config({"ledger.file": tmp_path / ("b" * 250)}))
    check_ready(paid_config())
    assert not book.exists()
    assert not [*tmp_path.glob(".partial-*")]


def test_a_budget_that_does_not_suffice_is_refused_unread(
    paid_config: Configs, book: Path, unread: None, tmp_path: Path
) -> None:
    config = paid_config({"ledger.epsilon": "8"})
    with pytest.raises(LedgerError, match="does not allow this release"):
        run(config)
    assert not book.exists()
    planned = plan(config)  # which says so, and is no run
    with pytest.raises(LedgerError, match="does not allow this release"):
        run(config, plan=planned.folder)
    assert left_over(config) == [planned.folder.name]


def test_the_output_folder_is_tried_out(paid_config: Configs, book: Path, unread: None) -> None:
    for change in (
        {"release.state": "x" * 230},
        {"release.state": "x" * 235, "release.csv": False},
        {"release.out": "x" * 244},
        {"release.out": "y/" + "x" * 250},
        {"release.out": book},
    ):
        config = paid_config(change)
        for begin in (plan, run):
            with pytest.raises(
                ConfigError, match=r"cannot be made: File name too long|the ledger has this path"
            ):
                begin(config)
        assert not [*book.parent.rglob(".*")]


def test_a_full_disk_is_seen_before_homes_are_read(
    paid_config: Configs, unread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: used._replace(free=1_000_000))
    config = paid_config()
    with pytest.raises(ConfigError, match=r"may take 10 MB there, and 1 MB are free"):
        run(config)
    assert left_over(config) == []


def test_the_space_reckoned_with_is_more_than_a_release_takes(small_release: Release) -> None:
    written = [path for path in small_release.public.rglob("*.*") if path.is_file()]
    data = sum(path.stat().st_size for path in written if "_od_" in path.name)
    jobs = small_release.plan.numeric.pools.n_records
    assert 2 * data + 12 * jobs < space_needed(small_release.plan) - 10_000_000 + 4 * 12_000  # small files
    assert space_needed(small_release.plan) < 10_000_000 + 100 * jobs


def test_the_public_half_of_another_key_is_noticed(paid_config: Configs, tmp_path: Path) -> None:
    key, public = generate_keys(tmp_path / "keys")
    check_ready(paid_config({"signature.key": key}))
    _, other = generate_keys(tmp_path / "others")
    shutil.copy(other, public)
    with pytest.raises(SigningError, match=r"not the public key of signing-key\.pem"):
        check_ready(paid_config({"signature.key": key}))
    with pytest.raises(SigningError, match="this is not a file"):
        check_ready(paid_config({"signature.key": "/dev/null"}))


def test_a_stored_plan_is_read_back(
    small_config: Configs,
    small_release: Release,
    tmp_path: Path,
    unread: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored, config = small_release.public / "plan", small_config()
    digest = small_release.certificate.plan_sha256
    before = sorted(small_release.public.iterdir())
    assert load_back(config, stored, digest).numeric.pools.n_records == 600
    with pytest.raises(ConfigError, match=r"read back .*\(plan\.json is another\), and nothing was paid"):
        load_back(config, stored, "0" * 64)
    with pytest.raises(ConfigError, match=r"read back .*\(pooling below\)"):
        load_back(small_config({"plan.pool_below": 9}), stored, digest)
    assert sorted(small_release.public.iterdir()) == before
    made = load_plan(stored)

    def damaged(made: Any, folder: Path) -> str:
        digest = save_plan(made, folder)
        (folder / "slots.parquet").write_bytes(b"")
        return digest

    from pipelines.running import report

    for module, begin in ((releasing, run), (report, plan)):
        config = small_config()
        with monkeypatch.context() as patch:
            patch.setattr(module, "save_plan", damaged)
            with pytest.raises(ConfigError, match=r"slots\.parquet: the file is not the one"):
                begin(config)
        assert left_over(config) == []
    monkeypatch.setattr(form, "sha256_of", lambda _: pytest.fail("read back for its hash"))
    assert save_plan(made, tmp_path / "again") == digest


def test_names_that_could_never_be_finished_are_refused(
    paid_config: Configs, microdata: Any, microdata_jobs: Callable[..., Any]
) -> None:
    """At once, and with the configuration: nothing needs to be read to know them."""
    with pytest.raises(ConfigError) as caught:
        paid_config(
            microdata_jobs("csv", attributes=["place", "Shared", "POOL", "n", "age", "Age"]),
            {
                "geography.levels": ["st", "cty", "Cty", "trct", "geometry"],
                "release.name": "x" * 179,
                "ledger.data_set": "jobs\u200b",
                "ledger.period": " 2026",
            },
        )
    said = [line.removeprefix("small.toml: ") for line in caught.value.problems]
    assert [line.split(":")[0] for line in said] == [
        "release.name",
        *(["jobs.attributes"] * 5 + ["geography"] * 2),
        *("ledger.data_set", "ledger.period"),
    ]
    assert said[0].endswith("cannot be stored; write 1 to 178 printable characters on one line, without "
                            "spaces at either end")  # fmt: skip
    assert '"age" and "Age" differ in capitals only; rename one' in said[5]
    assert '"geometry" is the name of a column of the release' in said[7]


def test_codes_of_blocks_that_csv_cannot_hold_are_refused_unread(
    british: Callable[..., ReleaseConfig], unread: None
) -> None:
    """The tables quote them; LODES files do not."""
    config = british()
    for name in ("oa.csv", "jobs.csv"):
        path = config.geography.file.with_name(name)
        path.write_text(re.sub(r"\bE00010001\b", '"E,0001"', path.read_text()))
    with pytest.raises(geo_data.InputError, match=r"column oa: 1 code.* comma.*csv = false"):
        run(config)


def test_what_was_once_paid_and_lost(tmp_path: Path) -> None:
    """Every configuration that was found to pay and never to finish."""
    found = {
        ("attribute.sex", "place"): "refused",
        ("attribute.sex", "shared"): "refused",
        ("level.trt", "geometry"): "refused",
        ("release.state", "x" * 230): "refused",
        ("blockcode", 'a"b'): "refused",
        ("zone", "a,b"): "refused",
        ("ledger.file", "out"): "refused",
        ("category.sex", "a\0b"): "finished",
    }
    for number, ((key, name), kind) in enumerate(found.items()):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        case = Case(random.Random(1), folder)
        polygons = [{"level": "trt", "file": "tracts.parquet", "code": "k"}]
        case.tables["geography"]["polygons"] = polygons
        case.tables["release"]["csv"] = True
        case.tables["jobs"]["attributes"] = ["sex", "trade"]
        case.tables["plan"]["pool_by"] = ["sex"]
        case.put(key, name)
        assert outcome(case)[0] == kind, (key, name)


def test_hostile_names_are_refused_or_finished() -> None:
    """In a few runs; `test_many_hostile_names` tries more."""
    said: list[str] = []
    counts = try_names(5, 10, said.append)
    kinds = {kind for _, kind in counts}
    assert kinds == {"finished", "refused"}, [line for line in said if not line.startswith(("fin", "ref"))]


@pytest.mark.deep
def test_many_hostile_names() -> None:
    said: list[str] = []
    counts = try_names(6, 600, said.append)
    # A table with one column twice can be written by nobody: such a case says nothing.
    unwritten = sum(number for (_, kind), number in counts.items() if kind == "not written")
    kinds = {kind for _, kind in counts} - {"not written"}
    assert kinds == {"finished", "refused"}, [line for line in said if not line.startswith(("fin", "ref"))]
    assert unwritten <= 6
