"""Whole records: a release loses less than plain noise on the tables that it is for, in the mean of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

from helpers import ROOT, load, same_key
from pipelines import Release, ReleaseConfig, run
from pipelines.plans.measured import table_in_words


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    """benchmarks/plain_noise.py, which has these regions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield load("benchmarks/plain_noise.py")


@pytest.fixture(scope="module")
def made(
    benchmark: ModuleType, clean_source: object, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Release, ReleaseConfig]]:
    """Return the release of a region, which is made once, and its configuration."""

    @cache
    def release(name: str) -> tuple[Release, ReleaseConfig]:
        folder = tmp_path_factory.mktemp("region")
        config = benchmark.region(name, folder).with_out(folder / "release")
        return run(config, key=same_key()), config

    return release


@pytest.mark.parametrize(
    "name",
    [
        "census",
        "census, mode secret",
        "Leeds",
        *(
            pytest.param(name, marks=[pytest.mark.deep, pytest.mark.slow])
            for name in ("Rhode Island", "Rhode Island, earnings secret")
        ),
    ],
)
def test_less_is_lost_than_by_plain_noise(
    name: str,
    benchmark: ModuleType,
    made: Callable[[str], tuple[Release, ReleaseConfig]],
    shared_data: Path,
) -> None:
    release, config = made(name)
    of_release, of_noise = np.transpose(benchmark.losses(release, config, 7))
    assert 0 < of_release.mean() < of_noise.mean()


def test_intervals_of_jobs_by_workplace_hold_the_truth_nine_times_of_ten(
    benchmark: ModuleType, made: Callable[[str], tuple[Release, ReleaseConfig]], tmp_path: Path
) -> None:
    """Of the generated census: of all its areas and kinds of work, by mode and occupation."""
    release, config = made("census")
    true, geography, categories = benchmark.true_jobs(release, config), release.geography, release.categories
    files = release.write_intervals(tmp_path / "intervals")
    held = []
    for level, by in (("town", ()), ("zone", ()), ("town", ("occupation",)), ("zone", ("mode",))):
        table = pd.read_csv(files[table_in_words(None, level, by)], dtype={"work": "str"})
        told = table[table["low"].notna()]
        keys = {"work": geography.codes(level)[geography.unit_of(level, true.work)]}
        keys |= {name: np.array(categories[name], object)[true.attributes[name]] for name in by}
        counts = pd.DataFrame(keys).groupby([*keys]).size().rename("true")
        both = told.set_index([*keys]).join(counts).fillna({"true": 0})
        held.append((both["low"] <= both["true"]) & (both["true"] <= both["high"]))
        assert table["S000"].sum() == len(release.plan.pools.slots)
        assert (told["high"] - told["low"]).mean() < {"town": 300, "zone": 150}[level]
    assert 0.85 < np.concatenate(held).mean() < 0.97
    assert "90 times of 100" in files["read-me"].read_text(encoding="utf-8")


def test_modes_of_large_work_areas_are_within_two_points(
    benchmark: ModuleType, made: Callable[[str], tuple[Release, ReleaseConfig]]
) -> None:
    """Of the generated census at epsilon 2: of the ten with most jobs, those at home and of no place too."""
    release, config = made("census")
    true = benchmark.true_jobs(release, config)
    (released,) = release.job_records(("mode",))
    shares = []
    for jobs in (true, released):
        counts = np.zeros((release.geography.n_blocks, len(release.categories["mode"])))
        np.add.at(counts, (jobs.work, jobs.attributes["mode"]), 1)
        shares.append(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1))
    largest = np.argsort(-np.bincount(true.work))[:10]
    off = np.abs(shares[0] - shares[1])[largest]
    assert 0 < off.max() < 0.02
    outside = release.geography.is_external(largest)
    assert 1 <= outside.sum() < 10
