"""A release without CSV: folders of Parquet files, the same rows, and a verifier that misses nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import pipelines
from helpers import refused, seal_again
from pipelines import VerificationError, verify
from pipelines.release.layout import (
    CHECKSUMS,
    checksum_lines,
    expected_files,
    public_files,
    without_parts,
)
from pipelines.release.names import NAME_FILE
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder

from .helpers import Configs, interrupted, seeded

WITHOUT = {"release.csv": False}


@pytest.fixture
def config(
    small_config: Configs, microdata: dict[str, Path], microdata_jobs: Callable[..., dict[str, object]]
) -> Configs:
    jobs = microdata_jobs(microdata["parquet"])
    return lambda *more: small_config(jobs, {"run.batch_jobs": 200}, *more)


@pytest.fixture
def parquet_only(config: Configs) -> pipelines.Release:
    return seeded(config(WITHOUT), 4)


def refusal(public: Path, sealed: bool = True) -> str:
    """The check that fails, when checksums and manifest are true of what is there."""
    if sealed:
        seal_again(public)
    check = refused(public).check
    assert check != "for release"
    return check


def test_the_rows_are_those_of_a_release_with_csv(parquet_only: pipelines.Release, config: Configs) -> None:
    both = seeded(config(), 4)
    for name in ("demo_od_main_JT00_2019.parquet", "demo_jobs_main_JT00_2019.parquet"):
        assert (parquet_only.public / name).is_dir()
        assert len(list((parquet_only.public / name).iterdir())) > 2
        parts, whole = pd.read_parquet(parquet_only.public / name), pd.read_parquet(both.public / name)
        pd.testing.assert_frame_equal(
            parts.drop(columns="createdate", errors="ignore"),
            whole.drop(columns="createdate", errors="ignore"),
        )
    assert not list(parquet_only.public.rglob("*.csv*"))
    assert "a folder of Parquet files" in (parquet_only.public / "README.md").read_text()


def test_readers_need_not_know(parquet_only: pipelines.Release, config: Configs) -> None:
    both = seeded(config(), 4)
    flows = [
        pipelines.read_public_release(release.public).flows("trct", "bgrp", ["S000", "age_old"])
        for release in (parquet_only, both)
    ]
    pd.testing.assert_frame_equal(*flows)


def test_it_verifies_and_lists_its_files(parquet_only: pipelines.Release) -> None:
    assert {"files", "plan", "guarantee", "data", "texts"} <= passed(parquet_only.public)
    listed = without_parts(public_files(parquet_only.public))
    assert listed == sorted([*expected_files(parquet_only.plan.configuration), NAME_FILE])


def passed(public: Path) -> set[str]:
    """Return the checks before the verdict, which is that a seeded run is not for release."""
    names: set[str] = set()
    with pytest.raises(VerificationError, match="for release"):
        names.update(check.name for check in verify(public))
    return names


def parts_of(public: Path, kind: str) -> list[Path]:
    return sorted(public.glob(f"*_{kind}_main_*.parquet/*"))


@pytest.mark.parametrize("kind", ["od", "jobs"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_missing_part_is_missed(parquet_only: pipelines.Release, kind: str, which: int) -> None:
    parts_of(parquet_only.public, kind)[which].unlink()
    assert refusal(parquet_only.public, sealed=False) == "files"
    assert refusal(parquet_only.public) in {"data", "texts"}


@pytest.mark.parametrize("kind", ["od", "jobs"])
def test_parts_in_another_order_are_refused(parquet_only: pipelines.Release, kind: str) -> None:
    first, second, *_ = parts_of(parquet_only.public, kind)
    swap = first.with_name("swap")
    first.rename(swap)
    second.rename(first)
    swap.rename(second)
    assert refusal(parquet_only.public) == "data"


def test_a_part_twice_is_refused(parquet_only: pipelines.Release) -> None:
    parts = parts_of(parquet_only.public, "od")
    shutil.copy(parts[-1], parts[-1].with_name(f"part-{len(parts):06}.parquet"))
    assert refusal(parquet_only.public) == "data"


def test_a_file_that_is_no_part_is_refused(parquet_only: pipelines.Release) -> None:
    (parts_of(parquet_only.public, "od")[0].parent / "more.parquet").write_bytes(b"PAR1")
    assert refusal(parquet_only.public) in {"data", "texts"}


def test_one_file_in_place_of_the_parts_is_refused(parquet_only: pipelines.Release) -> None:
    parts = parts_of(parquet_only.public, "od")
    whole = pq.read_table(parts[0].parent)
    shutil.rmtree(parts[0].parent)
    pq.write_table(whole.replace_schema_metadata(), parts[0].parent)
    assert refusal(parquet_only.public) == "data"


def test_a_changed_row_is_refused(parquet_only: pipelines.Release) -> None:
    part = parts_of(parquet_only.public, "od")[1]
    table = pq.read_table(part)
    count = table["S000"].to_pandas().copy()
    count.iloc[0] += 1
    at = table.column_names.index("S000")
    pq.write_table(table.set_column(at, table.schema.field(at), [count.to_numpy()]), part)
    assert refusal(parquet_only.public) == "data"


def test_a_run_that_failed_while_it_wrote_can_be_resumed(config: Configs) -> None:
    """The parts that were put into the public folder already are still the run's own."""
    wanted = config(WITHOUT)
    interrupted(wanted, releasing, "verify")
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
