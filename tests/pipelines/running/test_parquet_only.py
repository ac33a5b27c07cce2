"""A release without CSV: folders of Parquet files, the same rows, and a verifier that misses nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import pipelines
from helpers import refused, same_key, words_of_release
from pipelines import Release, run
from pipelines.release.layout import without_parts
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.storage.checksums import CHECKSUMS, checksum_lines

from .forgeries import parts_of
from .helpers import Configs, interrupted, seeded
from .kinds import KIND

WITHOUT = {"release.csv": False}
MANY = {"run.batch_jobs": 200}


@pytest.fixture
def config(small_config: Configs, microdata_jobs: Callable[..., object]) -> Configs:
    jobs = microdata_jobs("parquet")
    return lambda *more: small_config(jobs, MANY, *more)


@pytest.fixture(scope="module")
def both(
    released: Callable[[str], Release],
    kind_config: Callable[..., pipelines.ReleaseConfig],
) -> list[Release]:
    """A release without CSV and one with it, by the same key."""
    with_csv = replace(KIND["parquet alone"], changes={})
    return [released("parquet alone"), run(kind_config(with_csv), key=same_key())]


def test_the_rows_are_those_of_a_release_with_csv(both: list[Release]) -> None:
    public, other = (release.public for release in both)
    for name in ("demo_od_main_JT00_2019.parquet", "demo_jobs_JT00_2019.parquet"):
        assert len(list((public / name).iterdir())) > 2
        parts, whole = (pd.read_parquet(folder / name) for folder in (public, other))
        pd.testing.assert_frame_equal(
            parts.drop(columns="createdate", errors="ignore"),
            whole.drop(columns="createdate", errors="ignore"),
        )
    assert not list(public.rglob("*.csv*"))
    assert "a folder of Parquet files" in words_of_release(public)


def test_readers_need_not_know(both: list[Release]) -> None:
    parts, whole = (pipelines.open_release(release.public) for release in both)
    assert parts.rows["main"].count_rows() == whole.rows["main"].count_rows()
    for levels in (("trct", "bgrp"), ("bgrp", "bgrp")):
        flows = (one.unit_flows(*levels, ["S000", "age_old"]) for one in (parts, whole))
        pd.testing.assert_frame_equal(*flows)


def test_a_run_that_failed_while_it_wrote_can_be_resumed(config: Configs) -> None:
    """The parts that were put into the public folder already are still the run's own."""
    wanted = config(WITHOUT)
    interrupted(wanted, releasing, "verify_run")
    assert list(RunFolder.of(wanted.release.out).public.glob("*.parquet/part-000000.parquet"))
    release = pipelines.resume(wanted.release.out)
    assert refused(release.public).check == "for release"  # after all others: the run is seeded
    assert not list(release.out.rglob("*.npy"))


def test_disks_without_links_get_copies(config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    release = seeded(config(WITHOUT), 4)
    assert refused(release.public).check == "for release"  # after all others: the run is seeded


def test_gaps_in_the_numbers_of_parts_are_seen() -> None:
    names = ["a.parquet/part-000000.parquet", "a.parquet/part-000002.parquet", "plan/plan.json"]
    assert without_parts(names) == names
    assert without_parts([names[0], "a.parquet/part-000001.parquet", "x"]) == ["a.parquet", "x"]


def test_checksums_name_every_part(released: Callable[[str], Release]) -> None:
    public = released("parquet alone").public
    lines = (public / CHECKSUMS).read_text().splitlines(keepends=True)
    for part in parts_of(public):
        assert any(line.endswith(f"{part.parent.name}/{part.name}\n") for line in lines)
    assert lines == checksum_lines(dict(reversed(line.rstrip("\n").split("  ", 1)) for line in lines))
