"""Noisy counts of earlier years: as certain as is said, better than one, late with nothing that opens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from synth.gaussian.parameters import GaussianParameters
from synth.geometric.measured import MeasuredTable
from synth.geometric.parameters import GeometricParameters
from synth.noise import Noise
from synth.plan import Domains
from synth.policy import FULL
from synth.posterior.evidence import Evidence
from synth.posterior.history import CarriedCounts, add_history

HOMES = 40
VARIANCE = 9.0


def table_of(counts: np.ndarray, noise: Noise) -> MeasuredTable:
    """A table of groups that are counted in the same cells, one a home area."""
    domains = Domains.of_cells(HOMES, [np.arange(HOMES, dtype=np.int32)], FULL)
    return MeasuredTable(counts.sum(axis=1), np.zeros(len(counts), np.int32), domains, noise)


def years(rng: np.random.Generator, groups: int, number: int, changing: float) -> list[np.ndarray]:
    """Counts of each year: of the jobs of a cell a share leaves, and a Poisson number comes."""
    rate = rng.gamma(0.8, 8.0, (groups, HOMES)) + 0.05
    counts = [rng.poisson(rate) + np.eye(groups, HOMES, dtype=np.int64)]
    for _ in range(number - 1):
        counts.append(rng.binomial(counts[-1], 1 - changing) + rng.poisson(changing * rate))
    return counts


@pytest.mark.parametrize(
    "noise", [GaussianParameters.of_variance(VARIANCE), GeometricParameters.of_variance(VARIANCE)]
)
def test_variances_are_right_and_fall(noise: Noise) -> None:
    rng = np.random.default_rng(1)
    carried, variances = None, []
    for counts in years(rng, 50, 6, 0.1):
        table = table_of(counts, noise)
        noisy = counts.ravel() + np.rint(rng.normal(0, table.law.variance**0.5, counts.size)).astype(np.int64)
        mean, variance = noisy.astype(float), np.full(counts.size, table.law.variance)
        if carried is not None:
            mean, variance = add_history(table, noisy, carried, 1, None)
        off = (mean - counts.ravel()) ** 2
        assert (off / variance).mean() == pytest.approx(1, abs=0.12)
        assert (mean - counts.ravel()).mean() == pytest.approx(0, abs=0.15)
        variances.append(float(off.mean()))
        carried = CarriedCounts(table.n, mean, variance)
    assert variances[-1] < 0.5 * variances[0]


def test_without_change_years_are_averaged() -> None:
    counts = np.full((1, HOMES), 20)
    table = table_of(counts, GaussianParameters.of_variance(VARIANCE))
    rng = np.random.default_rng(2)
    first, second = (counts.ravel() + rng.integers(-4, 5, HOMES) for _ in range(2))
    carried = CarriedCounts(table.n, first.astype(float), np.full(HOMES, table.law.variance))
    mean, variance = add_history(table, second, carried, 1, 0.0)
    assert variance == pytest.approx(table.law.variance / 2)
    assert mean == pytest.approx((first + second) / 2)


def planted(rng: np.random.Generator) -> tuple[np.ndarray, MeasuredTable, CarriedCounts]:
    """A year's counts, their table, and what is carried over to it, of counts that were the same."""
    counts = rng.poisson(6.0, (30, HOMES)) + 1
    table = table_of(counts, GaussianParameters.of_variance(VARIANCE))
    carried = CarriedCounts(
        table.n, counts.ravel() + rng.normal(0, 1.5, counts.size), np.full(counts.size, 2.25)
    )
    return counts, table, carried


def test_a_plant_is_counted_as_if_there_were_no_history() -> None:
    """Also the rest of its work area, whose size has grown, is as it was."""
    rng = np.random.default_rng(3)
    counts, _, carried = planted(rng)
    counts[4, 7] += 500
    table = table_of(counts, GaussianParameters.of_variance(VARIANCE))
    noisy = counts.ravel() + np.rint(rng.normal(0, 3, counts.size)).astype(np.int64)
    mean, variance = (values.reshape(counts.shape) for values in add_history(table, noisy, carried, 1, None))
    assert mean[4, 7] == noisy.reshape(counts.shape)[4, 7]
    assert variance[4, 7] == pytest.approx(table.law.variance)
    rest = np.delete(mean[4] - counts[4], 7)
    assert abs(rest.mean()) < 1
    assert rest.std() < 3


def test_an_estate_is_counted_though_each_flow_grows_a_little() -> None:
    rng = np.random.default_rng(4)
    counts, _, carried = planted(rng)
    counts[:, 9] += rng.multinomial(200, np.full(30, 1 / 30))
    table = table_of(counts, GaussianParameters.of_variance(VARIANCE))
    noisy = counts.ravel() + np.rint(rng.normal(0, 3, counts.size)).astype(np.int64)
    mean, variance = (values.reshape(counts.shape) for values in add_history(table, noisy, carried, 1, None))
    assert abs(mean[:, 9].sum() - counts[:, 9].sum()) < 3 * variance[:, 9].sum() ** 0.5
    assert variance[:, 9] == pytest.approx(table.law.variance)


def test_a_group_that_was_not_there_has_its_noisy_counts() -> None:
    rng = np.random.default_rng(5)
    counts, table, carried = planted(rng)
    noisy = counts.ravel() + rng.integers(-4, 5, counts.size)
    carried.n[3] = 0
    mean, variance = (values.reshape(counts.shape) for values in add_history(table, noisy, carried, 1, None))
    assert mean[3].tolist() == noisy.reshape(counts.shape)[3].tolist()
    assert variance[3] == pytest.approx(table.law.variance)
    assert (variance[2] < table.law.variance).all()


def test_change_counts_for_every_year_between() -> None:
    rng = np.random.default_rng(6)
    counts, table, carried = planted(rng)
    noisy = counts.ravel()
    _, one = add_history(table, noisy, carried, 1, 0.2)
    _, three = add_history(table, noisy, carried, 3, 0.2)
    assert (three >= one).all()
    assert three.mean() > 1.2 * one.mean()


def test_evidence_of_counts_with_history_has_their_variances() -> None:
    """But for what rounding to whole counts adds."""
    counts, table, carried = planted(np.random.default_rng(7))
    mean, variance = add_history(table, counts.ravel(), carried, 1, None)
    evidence = Evidence.noise(replace(table, variances=variance), mean)
    value, spread, slope = evidence.unbiased(table)
    assert np.abs(value - mean).max() <= 0.5
    assert spread == pytest.approx(variance + 1 / 12, rel=0.03)
    assert not slope.any()
