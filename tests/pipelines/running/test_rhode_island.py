"""Rhode Island 2019, the real data: what the documentation says of it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
from geo_data.od_files import LODES_CATEGORIES
from geo_data.pools import group_records
from helpers import with_values
from pipelines import Release, run, verify
from pipelines.config.loading import check_config
from pipelines.config.toml import read_toml
from pipelines.plans.storage import save_plan
from pipelines.plans.utility import commutes, destination_commute_error, mean_commute, total_variation

pytestmark = pytest.mark.slow

COUNTS = ["S000", *(name for names in LODES_CATEGORIES.values() for name in names)]
CONFIG = Path(__file__).resolve().parents[3] / "examples" / "rhode_island.toml"
TRUTH = ["ri_od_main_JT00_2019.csv.gz", "ri_od_aux_JT00_2019.csv.gz"]
CODES = {"w_geocode": "str", "h_geocode": "str"}


# Limits above what docs/planning.md shows, by mechanism and epsilon: total variation
# between tract flows, error of the mean commute, median error of the mean commute of destinations with at
# least 100 jobs, and total variation between the states in which those live who live elsewhere, of which the
# public model alone has 0.083.
LIMITS = {
    ("dirichlet", "8.6"): (0.145, 0.02, 0.10, 0.04),
    ("dirichlet", "4.6"): (0.175, 0.08, 0.12, 0.05),
    ("dirichlet", "2"): (0.24, 0.03, 0.18, 0.05),
    ("geometric", "8.6"): (0.003, 0.01, 0.10, 0.04),
    ("geometric", "4.6"): (0.016, 0.01, 0.10, 0.04),
    ("geometric", "2"): (0.054, 0.02, 0.10, 0.04),
    ("geometric", "1"): (0.1, 0.04, 0.10, 0.04),
}
# One release of the default says most; `make deep` has the others.
DEEP = LIMITS.keys() - {("dirichlet", "8.6")}
PARAMS = [
    pytest.param(key, id=" ".join(key), marks=[pytest.mark.deep] if key in DEEP else []) for key in LIMITS
]


@pytest.fixture(scope="module", params=PARAMS)
def release(
    request: pytest.FixtureRequest, rhode_island: Release, tmp_path_factory: pytest.TempPathFactory
) -> Release:
    if request.param not in DEEP:
        return rhode_island
    mechanism, epsilon = request.param
    changes = {"privacy.epsilon": epsilon}
    if mechanism == "geometric":
        changes |= {"release.mechanism": mechanism, "privacy.delta": "0"}
        changes |= {"workload": [{"home": "trct", "work": "trct"}]}  # the limits are of flows between tracts
    tables = with_values(read_toml(CONFIG), changes)
    config = check_config(tables, CONFIG.parent, CONFIG.name)
    return run(config.with_out(tmp_path_factory.mktemp("rhode-island") / "release"))


def limits_of(release: Release) -> tuple[float, float, float, float]:
    return LIMITS[release.plan.numeric.mechanism, release.certificate.requested.epsilon]


@pytest.fixture(scope="module")
def homes(release: Release, shared_data: Path) -> tuple[np.ndarray, np.ndarray]:
    """True and synthetic homes, pool after pool."""
    geography, by = release.plan.geography, release.plan.pools.pooling.by
    sources = [[folder / name for name in TRUTH] for folder in (shared_data / "ri_2019", release.public)]
    true, synthetic = (
        group_records(release.plan.pools, geography, geo_data.LodesJobs(main, geography, aux).records(by))
        for main, aux in sources
    )
    return true, synthetic


def test_cost(release: Release) -> None:
    certificate = release.certificate
    assert certificate.totals.records == certificate.totals.synthetic_workers == 476_789
    assert Fraction(certificate.run.epsilon) <= Fraction(certificate.requested.epsilon)
    assert (0 < Fraction(certificate.run.delta) <= Fraction("1e-5")) == (
        release.plan.numeric.mechanism == "dirichlet"
    )
    assert Fraction(certificate.run.delta) <= Fraction(certificate.requested.delta)


def test_utility(release: Release, homes: tuple[np.ndarray, np.ndarray]) -> None:
    geography, work = release.plan.geography, release.plan.pools.slots.work
    flows, commute, destinations, _ = limits_of(release)
    assert 0 < total_variation(geography, "trct", work, *homes) <= flows
    true, synthetic = (mean_commute(geography, work, h) for h in homes)
    assert true == pytest.approx(13.08, abs=0.005)
    assert synthetic == pytest.approx(true, rel=commute)
    km = [commutes(geography, work, h) for h in homes]
    assert 0 < destination_commute_error(work, km[0], work, km[1]) <= destinations


def test_verification(release: Release) -> None:
    assert [check.name for check in verify(release.public)][-1] == "for release"


def test_workers_from_other_states_are_kept(release: Release, shared_data: Path) -> None:
    """Of 476,789 jobs 70,737 are of people who live elsewhere, and where each lives is protected."""
    truth, found = (
        pd.read_csv(path / TRUTH[1], dtype=CODES) for path in (shared_data / "ri_2019", release.public)
    )
    assert found["S000"].sum() == pytest.approx(70_737, rel=0.07)
    true, ours = (jobs.groupby(jobs["h_geocode"].str[:2])["S000"].sum() for jobs in (truth, found))
    assert set(ours.index[ours > 100]) <= set(true.index)
    assert (
        0 < (true / true.sum()).sub(ours / ours.sum(), fill_value=0).abs().sum() / 2 < limits_of(release)[-1]
    )


def test_totals_by_work_block_are_the_public_ones(release: Release, shared_data: Path) -> None:
    truth, found = (
        pd.concat([pd.read_csv(path / name, dtype=CODES) for name in TRUTH])
        .groupby("w_geocode")[COUNTS]
        .sum()
        for path in (shared_data / "ri_2019", release.public)
    )
    assert len(found) == 8_505
    pd.testing.assert_frame_equal(found, truth)


def test_the_crosswalks_two_faulty_rows_are_reported(release: Release) -> None:
    text = (release.public / "plan" / "plan.json").read_text(encoding="utf-8")
    assert any("disagreed with their block code" in note for note in release.plan.notes)
    assert all(note in text for note in release.plan.notes)


def test_the_stored_plan_is_the_plan(release: Release, tmp_path: Path) -> None:
    loaded = pipelines.load_plan(release.public / "plan")
    assert save_plan(loaded, tmp_path / "again") == release.certificate.plan_sha256
