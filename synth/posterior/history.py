"""Noisy counts of earlier years as evidence of this year's: they are paid for, and using them costs nothing.

What is known of a cell's count in the year before, from noisy counts of all years so far, is a mean and a
variance. A year later the count is another: some jobs left the cell, about as many came. So the mean is
carried over, times the growth of the public size of its group, and the variance grows by that of the change:
what changes of a count x is about Poisson, of variance

    (rate years + |growth - 1|) x,

where the rate is known, or measured on the noisy counts themselves: their squared differences from what was
carried over, less what noise explains. This year's noisy count is then weighed with the carried one by
precision, as by a Kalman filter (Kalman 1960) that knows nothing of any model.

What opens or closes must not be smoothed away. A cell whose noisy count is farther from the carried one than
noise and change explain has no history; nor do the cells of a home area whose sum is farther than sums of
other areas are. Growth of their groups is that of the other cells. All of it sees noisy counts and public
sizes only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.arrays import segment_indices
from synth.geometric.measured import MeasuredTable

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_FAR = 4.0  # standard deviations: areas and cells that did not jump are so far once in 16,000, as is
_RARE = 6e-5  # noise that is as far as this is rare
_ROUNDS = 4  # of looking for jumps, each of which changes what grew and changed
_MOST_CHANGE = 2.0  # all jobs left, and others came
_MEDIAN = 0.4549  # of the square of a standard normal variable
_LEAST = 1e-9


@dataclass(frozen=True, eq=False)
class CarriedCounts:
    """What noisy counts of earlier years say of the cells of a table, as it was in the last of these.

    Attributes
    ----------
    n : ndarray of int64, shape (n_groups,)
        Public size of each group then; 0 where nothing is carried over.
    mean, variance : ndarray of float64, shape (n_cells,)
        Of the count of each cell then.
    """

    n: Int64
    mean: Float64
    variance: Float64

    def some(self, table: MeasuredTable, groups: Int64) -> CarriedCounts:
        """Return those of some groups of their table."""
        cells = segment_indices(table.offsets[groups], table.k[groups])
        return CarriedCounts(self.n[groups], self.mean[cells], self.variance[cells])


def add_history(
    table: MeasuredTable, noisy: Int64, carried: CarriedCounts, years: int, rate: float | None
) -> tuple[Float64, Float64]:
    """Weigh noisy counts with what earlier years say of them.

    Parameters
    ----------
    table : MeasuredTable
    noisy : ndarray of int64, shape (n_cells,)
    carried : CarriedCounts
        Of the same groups and cells.
    years : int
        Since then.
    rate : float, optional
        How much of the variance of a Poisson number the change of a year has: 2 c where a share c of jobs
        leaves each cell and as many come. By default it is measured.

    Returns
    -------
    mean, variance : ndarray of float64, shape (n_cells,)
        Without the prior of any model: they are unbiased but for what history is late with.
    """
    noise, reach = table.law.variance, table.law.reach(_RARE)
    group = np.repeat(np.arange(table.n.size), table.k)
    known, area = (carried.n > 0)[group], _areas(table)
    near, usable, expected, variance = known, known, carried.mean, carried.variance
    for _ in range(_ROUNDS):
        growth = _growth(table, noisy, carried, known & ~usable, group)[group]
        expected, certain = carried.mean * growth, carried.variance * growth**2
        shift, opened = _growth_of_areas(noisy - expected, expected, certain + noise, area, near)
        jobs = (expected + np.sqrt(expected**2 + certain)) / 2  # above 0, as nobody is sure of an empty cell
        expected = expected + jobs * shift[area]
        off, certain = noisy - expected, certain + np.abs(growth - 1) * jobs
        before, usable = usable, near & ~opened[area]
        change = _change(off, certain + noise, jobs, usable) if rate is None else rate * years
        variance = certain + change * jobs
        near = known & (growth > 0) & (off**2 <= _FAR**2 * variance + reach**2)
        usable = near & ~opened[area]
        if np.array_equal(usable, before):
            break
    precision = 1 / np.maximum(variance, _LEAST)
    total = precision + 1 / noise
    mean = (expected * precision + noisy / noise) / total
    return np.where(usable, mean, noisy), np.where(usable, 1 / total, noise)


def _areas(table: MeasuredTable) -> Int64:
    """Number the home areas in which the cells of a table begin."""
    index = segment_indices(table.domains.offsets[table.domain], table.k)
    return np.unique(table.domains.cuts[index], return_inverse=True)[1].astype(np.int64)


def _growth(
    table: MeasuredTable, noisy: Int64, carried: CarriedCounts, jumped: NDArray[np.bool_], group: Int64
) -> Float64:
    """Return by how much sizes of groups grew, but for jobs of cells that jumped; 0 if nothing is left."""
    now = table.n - np.bincount(group, np.where(jumped, noisy, 0), table.n.size)
    before = carried.n - np.bincount(group, np.where(jumped, carried.mean, 0.0), table.n.size)
    some = (now > 0) & (before > 0)
    return np.where(some, now / np.where(some, before, 1.0), 0.0)


def _growth_of_areas(
    off: Float64, expected: Float64, variance: Float64, area: Int64, usable: NDArray[np.bool_]
) -> tuple[Float64, NDArray[np.bool_]]:
    """Return by how much homes of each area are taken to have grown, and which areas grew as no other did.

    By what sums of differences say, as far as areas differ by more than noise. How far they do, medians say,
    which no single area moves.
    """
    jobs, misses, noise = (
        np.bincount(area, np.where(usable, values, 0.0))
        for values in (np.maximum(expected, 0.0), off, variance)
    )
    some = jobs > 0
    if not some.any():
        return np.zeros(jobs.size), np.zeros(jobs.size, bool)
    growth, uncertain = np.zeros(jobs.size), np.ones(jobs.size)
    growth[some], uncertain[some] = misses[some] / jobs[some], noise[some] / jobs[some] ** 2
    usual = max(0.0, float(np.median(growth[some] ** 2) / _MEDIAN - np.median(uncertain[some])))
    opened = np.abs(growth) > _FAR * np.sqrt(usual + uncertain)
    return np.where(opened, 0.0, growth * usual / (usual + uncertain)), opened & some


def _change(off: Float64, certain: Float64, jobs: Float64, usable: NDArray[np.bool_]) -> float:
    """Return how much of a Poisson variance change has: squares of differences beyond what is certain."""
    excess = float((off**2 - certain)[usable].sum())
    return float(np.clip(excess / max(float(jobs[usable].sum()), _LEAST), 0.0, _MOST_CHANGE))
