"""Noisy numbers of jobs by work area: of tables of workplaces, and those that tables of homes add up to.

All of it follows from noisy counts and public numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geo_data.jobs import Slots
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import codes_of, combination_of, combined
from synth.arrays import find_keys
from synth.geometric.measured import MeasuredTable
from synth.posterior.estimation import Cells

Int64 = NDArray[np.int64]

_AT_A_TIME = 2**24  # noisy counts that are added up
_PARTS = 2**20  # of a job, in which corrections are counted
_LEAST = 1.0  # variance: numbers that contradict each other are not to be met exactly


class UnitEntries:
    """Numbers of some rows, such as combinations, and blocks, of which a unit has those between two ends."""

    def __init__(self, row: Int64, block: Int64, value: Int64, ends: Int64) -> None:
        order = np.argsort(block, kind="stable")
        self._row, self._block, self._value = row[order], block[order], value[order]
        self._ends, self._bounds = ends, np.searchsorted(self._block, ends)

    def dense(self, unit: int, rows: int) -> Int64:
        """Return those of a unit, shape (rows, blocks of the unit)."""
        some = slice(*self._bounds[unit : unit + 2].tolist())
        result = np.zeros((rows, int(self._ends[unit + 1] - self._ends[unit])), np.int64)
        np.add.at(result, (self._row[some], self._block[some] - self._ends[unit]), self._value[some])
        return result


class JobCounts(NamedTuple):
    """Noisy numbers of jobs of combinations of some attributes in areas.

    Attributes
    ----------
    by : tuple of str
    area : ndarray of int64, shape (n_blocks,)
        That of each block of the geography, -1 where it is in none.
    counts : ndarray of int64, shape (n_combinations, n_areas)
        Of every combination in every area; 0 where it is not `known`.
    known : ndarray of bool, shape (n_combinations, n_areas)
    variance : float
        Of one of them, about.
    """

    by: tuple[str, ...]
    area: Int64
    counts: Int64
    known: NDArray[np.bool_]
    variance: float

    def inside(self, blocks: NDArray[np.integer]) -> JobCounts:
        """Return the counts of areas that have one of some blocks."""
        known = np.zeros(self.known.shape, np.bool_)
        known[:, self.area[blocks]] = True
        return self._replace(counts=np.where(known, self.counts, 0), known=known)

    def parts(
        self, by: tuple[str, ...], area: Int64, categories: Mapping[str, tuple[str, ...]]
    ) -> tuple[NDArray[np.bool_], tuple[Int64, Int64]] | None:
        """Return which counts are of jobs in other cells, and of which: combination of `by`, and area.

        None if a cell of this table is in several of these.
        """
        inside = (self.area >= 0) & (area >= 0)
        area_of = np.full(self.counts.shape[1], -1)
        area_of[self.area[inside]] = area[inside]
        if not {*by} <= {*self.by} or not np.array_equal(area_of[self.area[inside]], area[inside]):
            return None
        codes = codes_of(np.arange(self.counts.shape[0]), {name: categories[name] for name in self.by})
        group = combined({name: codes[name] for name in by}, categories, self.counts.shape[0])
        known = self.known & (area_of >= 0)
        row, column = np.nonzero(known)
        return known, (group[row], area_of[column])


def counted_workplaces(plan: ReleasePlan, noisy: Sequence[Int64]) -> list[JobCounts]:
    """Return the noisy counts of every table of workplaces."""
    counted = []
    for counts, measured, table in zip(noisy, plan.workplaces, plan.numeric.workplaces, strict=True):
        rows = counts.reshape(-1, measured.areas)
        area = units_of_blocks(plan, measured.choice.work)
        known = np.ones(rows.shape, np.bool_)
        counted.append(JobCounts(measured.choice.by, area, rows, known, table.parameters.variance))
    return counted


def counted_homes(grouped: ReleasePlan, of_homes: Sequence[Cells]) -> list[JobCounts]:
    """Return what the noisy counts of every group of every table of homes add up to."""
    pools, categories = grouped.pools, grouped.pools.slots.categories
    places, place = np.unique(pools.place, return_inverse=True)
    position, some = find_keys(places, pools.place_of_blocks(grouped.geography))
    keyed = [
        (
            pools.pooling.by,
            np.where(some, position, -1),
            place,
            combined(pools.strata, categories, place.size),
        ),
        *(
            (groups.choice.by, units_of_blocks(grouped, groups.choice.work), *groups.areas_and_combinations())
            for groups in grouped.secondary
        ),
    ]
    counted = []
    tables = grouped.mechanism.tables(grouped.numeric)
    for (by, area, of_group, combination), table, counts in zip(keyed, tables, of_homes, strict=True):
        shape = prod(len(categories[name]) for name in by), int(max(area.max(), of_group.max())) + 1
        known, sums = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
        known[combination, of_group] = True
        sums[combination, of_group] = _sums(table, counts)
        variance = max(_LEAST, table.parameters.variance * float(table.k.mean()))
        counted.append(JobCounts(by, area, sums, known, variance))
    return counted


def reconciled(counted: Sequence[JobCounts], categories: Mapping[str, tuple[str, ...]]) -> list[JobCounts]:
    """Return fewer tables, of which none counts what another one adds up to.

    Where a table counts what some independent counts of another add up to, the sum is best the mean of both
    by precision, and each count takes its part of the difference (least squares). All that a table tells is
    then in the one that it corrected. Tables with few cells are corrected first, and correct others then.
    """
    tables = {k: counted[k] for k in sorted(range(len(counted)), key=lambda k: counted[k].counts.size)}
    told = set()
    for position, k in enumerate(tables):
        for i in [*tables][:position]:
            corrected = _corrected(tables[k], tables[i], categories)
            if corrected is not None:
                tables[k] = corrected
                told.add(i)
    return [tables[k] for k in range(len(counted)) if k not in told]


def _corrected(
    fine: JobCounts, coarse: JobCounts, categories: Mapping[str, tuple[str, ...]]
) -> JobCounts | None:
    """Return the counts of a table corrected by another's; None unless cells of that consist of its cells."""
    parts = fine.parts(coarse.by, coarse.area, categories)
    if parts is None or fine.variance == 0:  # what has no noise is corrected already
        return None if parts is None else fine
    known, cell = parts
    sums, size = np.zeros(coarse.counts.shape, np.int64), np.zeros(coarse.counts.shape, np.int64)
    np.add.at(sums, cell, fine.counts[known])
    np.add.at(size, cell, 1)
    together = np.maximum(size, 1) * fine.variance + coarse.variance
    part = np.rint(_PARTS * fine.variance / together).astype(np.int64)
    moved = ((part * (coarse.counts - sums))[cell] + _PARTS // 2) // _PARTS  # floats decide nothing
    counts = fine.counts.copy()
    counts[known] += np.where(coarse.known[cell], moved, 0)
    usual = float(size[size > 0].mean()) if known.any() else 1.0
    others = (usual - 1) * fine.variance + coarse.variance
    return fine._replace(counts=counts, variance=fine.variance * others / (fine.variance + others))


def largest_slots(slots: Slots, groups: Sequence[JobCounts]) -> tuple[Int64, Int64]:
    """Return combination and block, each pair once, of the slots that are most in each group."""
    alike, times = slots.counted()
    kind, _ = combination_of(alike, slots.categories)
    order = np.argsort(-times, kind="stable")
    chosen = []
    for table in groups:
        codes = {name: alike.attributes[name] for name in table.by}
        group = combined(codes, slots.categories, len(alike)) * table.known.shape[1] + table.area[alike.work]
        chosen.append(order[np.unique(group[order], return_index=True)[1]])
    largest = np.unique(np.concatenate(chosen))
    return kind[largest], alike.work[largest].astype(np.int64)


def units_of_blocks(plan: ReleasePlan, level: str | None) -> Int64:
    """Return the unit of a level that each block is in."""
    if level is None:
        return np.zeros(plan.geography.n_blocks, np.int64)
    return plan.geography.units_of_blocks(level).astype(np.int64)


def _sums(table: MeasuredTable, counts: Cells) -> Int64:
    """Return the sum of the counts of each group; only some are in memory at a time."""
    sums, offsets = np.empty(table.n.size, np.int64), table.offsets
    ends = np.searchsorted(offsets, np.arange(_AT_A_TIME, int(offsets[-1]), _AT_A_TIME))
    for begin, stop in pairwise(np.unique([0, *ends, table.n.size]).tolist()):
        some = counts[int(offsets[begin]) : int(offsets[stop])]
        sums[begin:stop] = np.add.reduceat(some, offsets[begin:stop] - offsets[begin])
    return sums
