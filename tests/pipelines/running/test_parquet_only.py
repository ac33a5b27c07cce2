"""A release without CSV: folders of Parquet files, the same rows, and a verifier that misses nothing."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import pipelines
from helpers import copies, refused, released_files, seal_again
from pipelines import VerificationError, verify
from pipelines.release.layout import public_files, without_parts
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.storage.checksums import CHECKSUMS, checksum_lines

from .helpers import Configs, interrupted, seeded

WITHOUT = {"release.csv": False}
MANY = {"run.batch_jobs": 200}


@pytest.fixture
def config(small_config: Configs, microdata_jobs: Callable[..., object]) -> Configs:
    jobs = microdata_jobs("parquet")
    return lambda *more: small_config(jobs, MANY, *more)


@pytest.fixture(scope="module")
def both(
    config_text: Callable[..., str],
    microdata_jobs: Callable[..., object],
    tmp_path_factory: pytest.TempPathFactory,
) -> list[pipelines.Release]:
    """A release without CSV and one with it, by the same key. Copy them before changing them."""
    texts = (config_text(microdata_jobs("parquet"), MANY, change) for change in (WITHOUT, {}))
    folder = tmp_path_factory.mktemp
    return [seeded(pipelines.parse_config(text, folder("both"), "both.toml"), 4) for text in texts]


@pytest.fixture
def parquet_only(both: list[pipelines.Release]) -> pipelines.Release:
    return both[0]


def test_the_rows_are_those_of_a_release_with_csv(both: list[pipelines.Release]) -> None:
    public, other = (release.public for release in both)
    for name in ("demo_od_main_JT00_2019.parquet", "demo_jobs_main_JT00_2019.parquet"):
        assert len(list((public / name).iterdir())) > 2
        parts, whole = (pd.read_parquet(folder / name) for folder in (public, other))
        pd.testing.assert_frame_equal(
            parts.drop(columns="createdate", errors="ignore"),
            whole.drop(columns="createdate", errors="ignore"),
        )
    assert not list(public.rglob("*.csv*"))
    assert "a folder of Parquet files" in (public / "README.md").read_text()


def test_readers_need_not_know(both: list[pipelines.Release]) -> None:
    parts, whole = (pipelines.open_release(release.public) for release in both)
    assert parts.rows["main"].count_rows() == whole.rows["main"].count_rows()
    for levels in (("trct", "bgrp"), ("bgrp", "bgrp")):
        flows = (one.unit_flows(*levels, ["S000", "age_old"]) for one in (parts, whole))
        pd.testing.assert_frame_equal(*flows)


def test_it_verifies_and_lists_its_files(parquet_only: pipelines.Release) -> None:
    assert {"files", "plan", "guarantee", "data", "texts"} <= passed(parquet_only.public)
    listed = without_parts(public_files(parquet_only.public))
    assert listed == released_files(parquet_only.public)


def passed(public: Path) -> set[str]:
    """Return the checks before the verdict, which is that a seeded run is not for release."""
    names: set[str] = set()
    with pytest.raises(VerificationError, match="for release"):
        names.update(check.name for check in verify(public))
    return names


def parts_of(public: Path, kind: str) -> list[Path]:
    return sorted(public.glob(f"*_{kind}_main_*.parquet/*"))


def test_a_missing_part_is_missed(parquet_only: pipelines.Release, tmp_path: Path) -> None:
    cases = itertools.product(("od", "jobs"), (0, 1, -1))
    for (kind, which), public in zip(cases, copies(parquet_only.public, tmp_path), strict=False):
        parts_of(public, kind)[which].unlink()
        assert refused(public).check == "files"
        seal_again(public)
        assert refused(public).check in {"data", "texts"}


def in_another_order(public: Path, kind: str) -> None:
    first, second, *_ = parts_of(public, kind)
    swap = first.with_name("swap")
    first.rename(swap)
    second.rename(first)
    swap.rename(second)


def twice(public: Path) -> None:
    parts = parts_of(public, "od")
    shutil.copy(parts[-1], parts[-1].with_name(f"part-{len(parts):06}.parquet"))


def in_one_file(public: Path) -> None:
    folder = parts_of(public, "od")[0].parent
    whole = pq.read_table(folder)
    shutil.rmtree(folder)
    pq.write_table(whole.replace_schema_metadata(), folder)


def changed(public: Path) -> None:
    part = parts_of(public, "od")[1]
    table = pq.read_table(part)
    count = table["S000"].to_pandas().copy()
    count.iloc[0] += 1
    at = table.column_names.index("S000")
    pq.write_table(table.set_column(at, table.schema.field(at), [count.to_numpy()]), part)


def test_other_parts_are_refused(parquet_only: pipelines.Release, tmp_path: Path) -> None:
    orders = (lambda public, kind=kind: in_another_order(public, kind) for kind in ("od", "jobs"))
    harms = (*orders, twice, in_one_file, changed)
    folders = copies(parquet_only.public, tmp_path)
    for harm, public in zip(harms, folders, strict=False):
        harm(public)
        seal_again(public)
        assert refused(public).check == "data"
    public = next(folders)
    (parts_of(public, "od")[0].parent / "more.parquet").write_bytes(b"PAR1")  # no part
    seal_again(public)
    assert refused(public).check in {"data", "texts"}


def test_a_run_that_failed_while_it_wrote_can_be_resumed(config: Configs) -> None:
    """The parts that were put into the public folder already are still the run's own."""
    wanted = config(WITHOUT)
    interrupted(wanted, releasing, "verify_run")
    assert list(RunFolder.of(wanted.release.out).public.glob("*.parquet/part-000000.parquet"))
    release = pipelines.resume(wanted.release.out)
    assert {"data", "texts"} <= passed(release.public)
    assert not list(release.out.rglob("*.npy"))


def test_disks_without_links_get_copies(config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    release = seeded(config(WITHOUT), 4)
    assert {"data", "texts"} <= passed(release.public)


def test_gaps_in_the_numbers_of_parts_are_seen() -> None:
    names = ["a.parquet/part-000000.parquet", "a.parquet/part-000002.parquet", "plan/plan.json"]
    assert without_parts(names) == names
    assert without_parts([names[0], "a.parquet/part-000001.parquet", "x"]) == ["a.parquet", "x"]


def test_checksums_name_every_part(parquet_only: pipelines.Release) -> None:
    lines = (parquet_only.public / CHECKSUMS).read_text().splitlines(keepends=True)
    for part in parts_of(parquet_only.public, "od"):
        assert any(line.endswith(f"{part.parent.name}/{part.name}\n") for line in lines)
    assert lines == checksum_lines(dict(reversed(line.rstrip("\n").split("  ", 1)) for line in lines))
