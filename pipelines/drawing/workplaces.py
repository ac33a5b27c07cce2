"""From noisy counts of workplaces to slots: how many jobs a release has of each work block and category.

All of it is post-processing of noisy counts, which may be published, and of public numbers. It is the same
whoever does it: where lots decide between whole numbers, they are always those of one public key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.jobs import Slots, narrow
from pipelines.config.fields import MOST
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import codes_of, combination_of
from synth.arrays import offsets_of
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.geometric.projection import project
from synth.posterior.estimation import estimate
from synth.posterior.flows import round_flow
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_PUBLIC_LOTS = 55  # the seed of lots that everybody may draw again: nothing confidential depends on them
_MOST_OFF = 1.01  # jobs: one, and what sums of floats and of parts of a job may be off
_ANYWHERE = 1e-6  # jobs that are expected in every block in which anybody may work


def estimate_slots(plan: ReleasePlan, noisy: Sequence[Int64]) -> Slots:
    """Estimate the jobs of each work block and combination of categories, in whole numbers.

    Parameters
    ----------
    plan : ReleasePlan
        With tables of workplaces, the first of them of all jobs by all attributes, wherever they are.
    noisy : sequence of ndarray of int64
        The noisy counts of each.

    Returns
    -------
    Slots
        At least one. Those of a combination, of a block, and of a combination in a unit of the public
        model are within one of what is expected of them.
    """
    return _Workplaces.of(plan).estimate(noisy)


def slots_fit(plan: ReleasePlan, noisy: Sequence[Int64], slots: Slots) -> bool:
    """Say whether slots could have been estimated from noisy counts of workplaces (`estimate_slots`)."""
    return _Workplaces.of(plan).fit(noisy, slots)


@dataclass(frozen=True, eq=False)
class _Workplaces:
    plan: ReleasePlan
    blocks: Int32  # in which somebody may work
    prior: Float64  # jobs that are expected of each combination in each of these blocks

    @classmethod
    def of(cls, plan: ReleasePlan) -> _Workplaces:
        geography, slots = plan.geography, plan.pools.slots
        everywhere = np.arange(geography.n_blocks, dtype=np.int32)
        blocks = everywhere[~geography.is_external(everywhere)]
        alike, times = slots.counted()
        combination, _ = combination_of(alike, slots.categories)
        kinds = plan.workplaces[0].combinations
        prior = np.zeros((kinds, geography.n_blocks))
        np.add.at(prior, (combination, alike.work), times)
        prior = prior[:, blocks]
        if plan.config.workplaces is None:  # of attributes, and of the blocks of a unit, nothing is known
            unit = geography.unit_of(plan.level, blocks)
            of_unit = np.bincount(unit, prior.mean(axis=0)) / np.maximum(np.bincount(unit), 1)
            prior = np.broadcast_to(of_unit[unit], prior.shape)
        return cls(plan, blocks, prior + _ANYWHERE)

    def estimate(self, noisy: Sequence[Int64]) -> Slots:
        kinds, n, expected = self._expect(noisy)
        counts = self._rounded(expected, n, synth.RunKey.from_seed(_PUBLIC_LOTS).stream("workplaces", 0))
        kind, block = np.nonzero(counts)
        categories = self.plan.pools.slots.categories
        codes = codes_of(kinds[kind], categories)
        alike = Slots(
            self.blocks[block],
            {name: narrow(codes[name], len(values)) for name, values in categories.items()},
            categories,
        )
        order = alike.order()
        return alike.take(order).repeat(counts[kind, block][order])

    def fit(self, noisy: Sequence[Int64], slots: Slots) -> bool:
        """Say whether `estimate` could have returned these slots, if floats added up otherwise elsewhere."""
        kinds, n, expected = self._expect(noisy)
        alike, times = slots.counted()
        combination, none = combination_of(alike, self.plan.pools.slots.categories)
        row = np.minimum(np.searchsorted(kinds, combination), kinds.size - 1)
        column = np.minimum(np.searchsorted(self.blocks, alike.work), self.blocks.size - 1)
        if none.any() or np.any(kinds[row] != combination) or np.any(self.blocks[column] != alike.work):
            return False
        counts = np.zeros(expected.shape, np.int64)
        np.add.at(counts, (row, column), times)
        first = self._first_of_units()
        in_units = np.add.reduceat(counts, first, axis=1)
        due = _scaled(np.add.reduceat(expected, first, axis=1), n)
        if not np.array_equal(counts.sum(axis=1), n) or not _is_near(in_units, due):
            return False
        return all(
            _is_near(counts[:, begin:stop], _scaled(expected[:, begin:stop], in_units[:, i]))
            for i, (begin, stop) in enumerate(zip(first, np.append(first[1:], self.blocks.size), strict=True))
        )

    def _expect(self, noisy: Sequence[Int64]) -> tuple[Int64, Int64, Float64]:
        """Return the combinations that occur, their jobs, and what is expected of them in blocks."""
        n = _whole_sizes(noisy[0])
        kinds = np.flatnonzero(n)
        n = n[kinds]
        return kinds, n, self._fit(kinds, n, noisy[1:]) if len(noisy) > 1 else self._expected(kinds, n)

    def _first_of_units(self) -> NDArray[np.intp]:
        unit = self.plan.geography.unit_of(self.plan.level, self.blocks)
        return np.flatnonzero(np.append(True, np.diff(unit) != 0))

    def _expected(self, kinds: Int64, n: Int64) -> Float64:
        prior = self.prior[kinds]
        return prior * (n / prior.sum(axis=1))[:, np.newaxis]

    def _fit(self, kinds: Int64, n: Int64, noisy: Sequence[Int64]) -> Float64:
        """Fit expected jobs of combinations of known numbers to noisy counts."""
        plan, geography = self.plan, self.plan.geography
        categories = plan.pools.slots.categories
        codes = codes_of(kinds, categories)
        tables: list[MeasuredTable] = []
        counts: list[Int64] = []
        member: list[NDArray[np.intp]] = []
        for measured, values in zip(plan.numeric.workplaces[1:], noisy, strict=True):
            workplaces = plan.workplaces[len(tables) + 1]
            group = np.zeros(kinds.size, np.int64)
            for name in workplaces.choice.by:
                group = group * len(categories[name]) + codes[name]
            present, row = np.unique(group, return_inverse=True)
            level = workplaces.choice.work
            starts = np.zeros(1, np.int32) if level is None else geography.starts(level).astype(np.int32)
            domains = synth.Domains.of_cells(geography.n_blocks, [starts], plan.policy)
            sizes = np.bincount(row, n).astype(np.int64)
            group_domain = np.zeros(present.size, np.int32)
            tables.append(MeasuredTable(sizes, group_domain, domains, measured.parameters))
            counts.append(values.reshape(-1, workplaces.areas)[present].ravel())
            member.append(row)
        finest = sorted(range(len(tables)), key=lambda k: -int(tables[k].offsets[-1]))
        groups = JobGroups(
            n, np.arange(kinds.size, dtype=np.int32), np.stack([member[k] for k in finest]).astype(np.int32)
        )
        prior = np.zeros((kinds.size, geography.n_blocks))
        prior[:, self.blocks] = self.prior[kinds]

        def shares(place: int, cuts: Int32) -> Float64:
            cells = np.add.reduceat(prior[place], cuts)
            return np.asarray(cells / cells.sum())

        fit = estimate([tables[k] for k in finest], [counts[k] for k in finest], groups, shares)
        expected = np.zeros((kinds.size, self.blocks.size))
        for place in range(kinds.size):
            cuts = fit.layouts[place].cuts
            within = np.maximum(np.add.reduceat(prior[place], cuts), 1e-300)
            cell = np.searchsorted(cuts, self.blocks, side="right") - 1
            expected[place] = fit.rows(place)[0][cell] * prior[place, self.blocks] / within[cell]
        return expected

    def _rounded(self, expected: Float64, n: Int64, stream: WordStream) -> Int64:
        """Round first combinations in units of the public model, then these in blocks."""
        first = self._first_of_units()
        in_units = round_flow(_scaled(np.add.reduceat(expected, first, axis=1), n), n, (), (), stream)
        counts = np.zeros(expected.shape, np.int64)
        for i, (begin, stop) in enumerate(zip(first, np.append(first[1:], self.blocks.size), strict=True)):
            rows = np.flatnonzero(in_units[:, i])
            if rows.size:
                inside = _scaled(expected[rows, begin:stop], in_units[rows, i])
                counts[rows, begin:stop] = round_flow(inside, in_units[rows, i], (), (), stream)
        return counts


def _whole_sizes(noisy: Int64) -> Int64:
    """Return the nearest whole numbers of at least 0, with the same sum if that can be."""
    total = min(max(1, int(noisy.sum())), MOST)
    mass, unit = project(noisy, offsets_of(np.array([noisy.size])), np.array([total]))
    whole, rest = np.divmod(mass, unit[0])
    whole[np.argsort(-rest, kind="stable")[: total - int(whole.sum())]] += 1
    return np.asarray(whole, np.int64)


def _scaled(expected: Float64, n: Int64) -> Float64:
    """Return rows that add up to n; a row of nothing is even."""
    sums = expected.sum(axis=1, keepdims=True)
    even = np.full(expected.shape, 1.0 / expected.shape[1])
    return np.where(sums > 0, expected / np.where(sums > 0, sums, 1.0), even) * n[:, np.newaxis]


def _is_near(counts: Int64, expected: Float64) -> bool:
    """Say whether counts, and their sums over combinations, are what is expected rounded down or up."""
    off = counts - expected
    return bool(np.abs(off).max(initial=0) < _MOST_OFF and np.abs(off.sum(axis=0)).max(initial=0) < _MOST_OFF)
