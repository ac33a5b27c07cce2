"""Categories of secret attributes, fitted to noisy counts: with all others they add up to public numbers.

Workplaces and the other attributes of every job are public then, and so is the number of jobs of each
*group*, those with the same public categories, in each block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.drawing.job_counts import JobCounts, UnitEntries, units_of_blocks
from pipelines.drawing.workplace_fit import (
    LEAST_PART,
    ROUNDS,
    Kept,
    UnitFit,
    WorkplaceFit,
    is_near,
    keeping,
    scaled,
)
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import codes_of, combination_of, combined
from synth.arrays import find_keys
from synth.posterior.flows import round_flow
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class PublicTotals:
    """Public numbers of jobs of each group in each block.

    Parameters
    ----------
    plan : ReleasePlan
        With secret attributes.
    blocks : ndarray of int32, shape (n_blocks,)
        In which somebody may work, rising.
    ends : ndarray of int64, shape (n_units + 1,)
        Where the blocks of each unit begin, and the last ones end.

    Attributes
    ----------
    in_units : ndarray of int64, shape (n_groups, n_units)
    """

    def __init__(self, plan: ReleasePlan, blocks: NDArray[np.int32], ends: Int64) -> None:
        slots, secret = plan.pools.slots, plan.policy.secret
        self._categories, self._secret = slots.categories, [n for n in slots.categories if n in secret]
        self._public = plan.public_categories
        self._wide = prod(map(len, secret.values()))
        alike, times = slots.counted()
        self._groups, group = np.unique(combination_of(alike, self._public)[0], return_inverse=True)
        block = np.searchsorted(blocks, alike.work)
        self._entries = UnitEntries(group, block, times, ends)
        self.in_units = np.zeros((self._groups.size, ends.size - 1), np.int64)
        np.add.at(self.in_units, (group, np.searchsorted(ends, block, side="right") - 1), times)
        self._area = units_of_blocks(plan, plan.level)
        self._unit = self._area[blocks[ends[:-1]]]

    def in_blocks(self, unit: int) -> Int64:
        """Return the jobs of each group in each block of a unit, shape (n_groups, n_blocks)."""
        return self._entries.dense(unit, self._groups.size)

    def group(self, kinds: Int64) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the group of each combination of all categories, and whether there is one."""
        codes = codes_of(kinds, self._categories)
        of_kinds = combined({name: codes[name] for name in self._public}, self._public, kinds.size)
        return find_keys(self._groups, of_kinds)

    def counts(self) -> JobCounts:
        """Return the jobs of each unit as counts that have no noise."""
        shape = prod(map(len, self._public.values())), int(self._area.max()) + 1
        counts = np.zeros(shape, np.int64)
        counts[np.ix_(self._groups, self._unit)] = self.in_units
        return JobCounts(tuple(self._public), self._area, counts, np.ones(shape, np.bool_), 0.0)

    def turned(self, values: NDArray[Any], kinds: Int64) -> NDArray[Any]:
        """Return a row of secret categories for each group and area, from values by combination and area."""
        rows = np.zeros((self._groups.size, values.shape[1], self._wide), values.dtype)
        rows[self.group(kinds)[0], :, self._column(kinds)] = values
        return rows.reshape(-1, self._wide)

    def turned_back(self, rows: NDArray[Any], kinds: Int64) -> NDArray[Any]:
        """Return values by combination and area, from such rows."""
        whole = rows.reshape(self._groups.size, -1, self._wide)
        return np.asarray(whole[self.group(kinds)[0], :, self._column(kinds)])

    def _column(self, kinds: Int64) -> Int64:
        codes = codes_of(kinds, self._categories)
        return combined({name: codes[name] for name in self._secret}, self._categories, kinds.size)


class CategoryFit(WorkplaceFit):
    """What is expected of categories of secret attributes, from noisy counts.

    As of `WorkplaceFit`; but jobs of each group in each block are as many as there are, and `n` is only what
    is expected of a combination.
    """

    @cached_property
    def _totals(self) -> PublicTotals:
        return PublicTotals(self._plan, self.blocks, self._ends)

    def _telling(self, of_work: Sequence[JobCounts]) -> list[JobCounts]:
        secret = self._plan.policy.secret.keys()
        tables = super()._telling([*(t for t in of_work if secret & {*t.by}), self._totals.counts()])
        return [table for table in tables if table.variance > 0]  # what has no noise corrected the others

    def _known(self, kinds: Int64, total: int) -> Iterator[tuple[Int64, int]]:
        group, there = self._totals.group(kinds)
        for number, jobs in enumerate(self._totals.in_units.sum(axis=1).tolist()):
            yield kinds[there & (group == number)], jobs

    def _sizes(self, of_work: Sequence[JobCounts], kept: Kept, expected: Float64) -> Int64:
        """Return what is expected of every combination: a job at least where the first estimate has it.

        Else jobs of a block might be left with no combination that all tables have a group for.
        """
        n = super()._sizes(of_work, kept, expected)
        n[kept.present] = np.maximum(n[kept.present], 1)
        return n

    def _possible(self, unit: int) -> NDArray[np.bool_]:
        """Combinations may be where their group has jobs, too."""
        group, there = self._totals.group(self.kinds)
        jobs = self._totals.in_blocks(unit)[np.where(there, group, 0)]
        return super()._possible(unit) & (jobs > 0) & there[:, np.newaxis]

    def _prior_of_unit(self, unit: int) -> Float64:
        return np.asarray(np.where(self._possible(unit), self._prior_of_blocks(unit), 0.0).sum(axis=1))

    def _prior_of_blocks(self, unit: int) -> Float64:
        """Of the jobs of a group every category has as many as the others, or the share that is expected."""
        group = self._totals.group(self.kinds)[0]
        expected = np.ones(self.kinds.size)
        if self._informed:
            expected = self._public.dense(unit, self.kinds.size).sum(axis=1) + 1 / expected.size
        share = expected / np.bincount(group, expected)[group]
        return np.asarray(self._totals.in_blocks(unit)[group] * share[:, np.newaxis])

    def _complete_in_units(self, expected: Float64) -> Float64:
        return self._complete(self._fewest(), expected, self._totals.in_units, self.kinds)

    def _complete_in_blocks(self, unit: UnitFit) -> UnitFit:
        totals, kinds = self._totals.in_blocks(unit.number), self.kinds[unit.kinds]
        prior = np.where(self._possible(unit.number), self._prior_of_blocks(unit.number), 0.0)
        # Jobs of a group must be somewhere, also where tables say that a block has none.
        expected = np.maximum(unit.expected, LEAST_PART * prior[unit.kinds])
        for _ in range(ROUNDS):
            rows = scaled(self._totals.turned(expected, kinds), totals.ravel())
            expected = scaled(self._totals.turned_back(rows, kinds), unit.n)
        return unit._replace(expected=self._complete(self._fewest_in_blocks(unit), expected, totals, kinds))

    def _complete(self, fewest: Int64, expected: Float64, totals: Int64, kinds: Int64) -> Float64:
        """Bring expected jobs of combinations in areas to public numbers of groups, and to the fewest."""
        least, rows = (self._totals.turned(values, kinds) for values in (fewest, expected))
        n = totals.ravel()
        return self._totals.turned_back(keeping(least, scaled(rows, n), n), kinds)

    def _whole_in_units(self, stream: WordStream) -> NDArray[Any]:
        return self.in_units

    def _whole_in_blocks(self, unit: UnitFit, stream: WordStream) -> Int64:
        totals, kinds = self._totals.in_blocks(unit.number), self.kinds[unit.kinds]
        fewest = self._totals.turned(self._fewest_in_blocks(unit), kinds)
        above = np.maximum(self._totals.turned(unit.expected, kinds) - fewest, 0.0)
        group = np.repeat(np.arange(totals.shape[0]), totals.shape[1])
        whole = fewest + round_flow(above, totals.ravel() - fewest.sum(axis=1), (group,), (), stream)
        return self._totals.turned_back(whole, kinds)

    def _allowed_in_units(self, whole: Int64) -> NDArray[Any] | None:
        return self.in_units

    def _allow_in_blocks(self, unit: UnitFit, counts: Int64) -> bool:
        totals, kinds = self._totals.in_blocks(unit.number), self.kinds[unit.kinds]
        rows = self._totals.turned(counts, self.kinds)
        exact = np.array_equal(rows.sum(axis=1), totals.ravel())
        return exact and is_near(rows, self._totals.turned(unit.expected, kinds))
