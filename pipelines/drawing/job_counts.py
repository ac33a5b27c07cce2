"""Noisy numbers of jobs by work area: of tables of workplaces, and those that tables of homes add up to.

All of it follows from noisy counts and public numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from geo_data.jobs import Slots
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import combination_of, combined
from synth.arrays import find_keys
from synth.geometric.measured import MeasuredTable
from synth.posterior.estimation import Cells

Int64 = NDArray[np.int64]

_AT_A_TIME = 2**24  # noisy counts that are added up


class JobCounts(NamedTuple):
    """Noisy numbers of jobs of every combination of some attributes in every area.

    Attributes
    ----------
    by : tuple of str
    area : ndarray of int64, shape (n_blocks,)
        That of each block of the geography, -1 where it is in none.
    counts : ndarray of int64, shape (n_combinations, n_areas)
    variance : float
        Of one of them, about.
    """

    by: tuple[str, ...]
    area: Int64
    counts: Int64
    variance: float


class HomeGroups(NamedTuple):
    """The groups of jobs whose homes a table counts: of combinations of some attributes in areas.

    Attributes
    ----------
    by, area
        As of `JobCounts`.
    known : ndarray of bool, shape (n_combinations, n_areas)
        Where there is a group.
    """

    by: tuple[str, ...]
    area: Int64
    known: NDArray[np.bool_]


def counted_workplaces(plan: ReleasePlan, noisy: Sequence[Int64]) -> list[JobCounts]:
    """Return the noisy counts of every table of workplaces."""
    counted = []
    for counts, measured, table in zip(noisy, plan.workplaces, plan.numeric.workplaces, strict=True):
        rows = counts.reshape(-1, measured.areas)
        area = _units(plan, measured.choice.work)
        counted.append(JobCounts(measured.choice.by, area, rows, table.parameters.variance))
    return counted


def counted_homes(
    grouped: ReleasePlan, of_homes: Sequence[Cells]
) -> tuple[list[HomeGroups], list[JobCounts]]:
    """Return the groups of every table of homes, and what the noisy counts of each add up to."""
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
            (groups.choice.by, _units(grouped, groups.choice.work), *groups.areas_and_combinations())
            for groups in grouped.secondary
        ),
    ]
    all_groups, counted = [], []
    tables = grouped.mechanism.tables(grouped.numeric)
    for (by, area, of_group, combination), table, counts in zip(keyed, tables, of_homes, strict=True):
        shape = prod(len(categories[name]) for name in by), int(max(area.max(), of_group.max())) + 1
        known, sums = np.zeros(shape, np.bool_), np.zeros(shape, np.int64)
        known[combination, of_group] = True
        sums[combination, of_group] = _sums(table, counts)
        all_groups.append(HomeGroups(by, area, known))
        counted.append(JobCounts(by, area, sums, table.parameters.variance * float(table.k.mean())))
    return all_groups, counted


def largest_slots(slots: Slots, groups: Sequence[HomeGroups]) -> tuple[Int64, Int64]:
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


def _units(plan: ReleasePlan, level: str | None) -> Int64:
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
