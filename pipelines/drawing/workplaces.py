"""From noisy counts of workplaces to slots: how many jobs a release has of each work block and category.

All of it is post-processing of noisy counts, which may be published, and of public numbers. It is the same
whoever does it: where lots decide between whole numbers, they are always those of one public key.

Coarse numbers come first: all jobs by combination of categories, then these in units of the public model,
then the jobs of each block of a unit. Each is estimated from the noisy counts of its tables and what is
expected, and adds up to the one before. Of the combinations of a block only sums are known; they are as
public data let expect, brought to these sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.jobs import Slots
from pipelines.config.fields import MOST
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import codes_of, combination_of
from synth.arrays import find_keys, offsets_of, segment_indices
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.geometric.parameters import GeometricParameters
from synth.geometric.projection import project
from synth.posterior.counts import expect_anywhere, least_loss, likeliest_deviations, sampled_groups
from synth.posterior.estimation import estimate
from synth.posterior.flows import round_flow

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_PUBLIC_LOTS = 55  # the seed of lots that everybody may draw again: nothing confidential depends on them
_MOST_OFF = 1.01  # jobs: one, and what sums of floats and of parts of a job may be off
_ANYWHERE = 1e-6  # jobs that are expected in every block in which anybody may work
_ROUNDS = 20  # of bringing jobs of combinations in blocks to both of their sums


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
        At least one. Those of a combination in a unit of the public model, of a block, and of a combination
        in a block are within one of what is expected of them.
    """
    workplaces = _Workplaces(plan, noisy)
    stream = synth.RunKey.from_seed(_PUBLIC_LOTS).stream("workplaces", 0)
    in_units = round_flow(workplaces.in_units, workplaces.n, (), (), stream)
    parts: list[tuple[Int64, Int32, Int64]] = []
    for unit in workplaces.in_blocks(in_units):
        counts = round_flow(unit.expected, unit.n, (), (), stream)
        row, column = np.nonzero(counts)
        parts.append((workplaces.kinds[unit.kinds[row]], unit.blocks[column], counts[row, column]))
    kind, block, count = (np.concatenate(column) for column in zip(*parts, strict=True))
    categories = plan.pools.slots.categories
    alike = Slots.of_codes(block, codes_of(kind, categories), categories)
    order = alike.order()
    return alike.take(order).repeat(count[order])


def slots_fit(plan: ReleasePlan, noisy: Sequence[Int64], slots: Slots) -> bool:
    """Say whether `estimate_slots` could have returned these slots, if floats added up otherwise."""
    workplaces = _Workplaces(plan, noisy)
    alike, times = slots.counted()
    combination, none = combination_of(alike, plan.pools.slots.categories)
    kind, known = find_keys(workplaces.kinds, combination)
    block, inside = find_keys(workplaces.blocks, alike.work)
    if none.any() or not (known.all() and inside.all()):
        return False
    of_unit = np.searchsorted(workplaces.first, block, side="right") - 1
    in_units = np.zeros(workplaces.in_units.shape, np.int64)
    np.add.at(in_units, (kind, of_unit), times)
    if not np.array_equal(in_units.sum(axis=1), workplaces.n) or not _is_near(in_units, workplaces.in_units):
        return False
    bounds = np.searchsorted(of_unit, np.arange(workplaces.first.size + 1))
    for unit in workplaces.in_blocks(in_units):
        some = slice(bounds[unit.number], bounds[unit.number + 1])
        counts = np.zeros((workplaces.kinds.size, unit.blocks.size), np.int64)
        np.add.at(counts, (kind[some], block[some] - workplaces.first[unit.number]), times[some])
        if not _is_near(counts[unit.kinds], unit.expected):
            return False
    return True


class _Unit(NamedTuple):
    """Expected jobs of a unit: of some combinations, of which there are n each, in blocks."""

    number: int
    kinds: NDArray[np.intp]
    n: Int64
    blocks: Int32
    expected: Float64


class _Workplaces:
    """What is expected of workplaces, from all noisy counts.

    Attributes
    ----------
    kinds, n : ndarray of int64, shape (n_kinds,)
        Combinations of categories of which there are jobs, rising, and how many.
    blocks : ndarray of int32, shape (n_blocks,)
        In which somebody may work, rising.
    first : ndarray of int64, shape (n_units,)
        Where those of each unit of the public model begin.
    in_units : ndarray of float64, shape (n_kinds, n_units)
        Expected jobs of each combination in each unit.
    """

    def __init__(self, plan: ReleasePlan, noisy: Sequence[Int64]) -> None:
        geography, slots = plan.geography, plan.pools.slots
        self._plan, self._noisy = plan, noisy
        n = self._sizes()
        self.kinds = np.flatnonzero(n)
        self.n = n[self.kinds]
        everywhere = np.arange(geography.n_blocks, dtype=np.int32)
        self.blocks = everywhere[~geography.nobody_works]
        unit = geography.unit_of(plan.level, self.blocks)
        self._units, self.first = np.unique(unit, return_index=True)
        alike, self._times = slots.counted()
        # Of attributes, and of the blocks of a unit, nothing is known where there is no table of workplaces.
        self._listed = plan.config.workplaces is not None
        self._kind = combination_of(alike, slots.categories)[0] * self._listed
        self._block = np.searchsorted(self.blocks, alike.work)
        self._of_block = [
            (k, np.unique(self._groups(workplaces.choice.by), return_inverse=True)[1])
            for k, workplaces in enumerate(plan.workplaces)
            if workplaces.choice.work == geography.block_level
        ]
        self.in_units = self._fit()

    def _sizes(self) -> Int64:
        """Return whole jobs of every combination, from the tables that tell them apart; the sum, from all."""
        categories = self._plan.pools.slots.categories
        self.kinds = np.arange(self._noisy[0].size)
        sums, counts, variances, of_counts = [], [], [], []
        for noisy, workplaces, table in zip(
            self._noisy, self._plan.workplaces, self._plan.numeric.workplaces, strict=True
        ):
            variance = 2 * table.ratio / (1 - table.ratio) ** 2
            sums.append(noisy.sum(keepdims=True))
            variances.append(variance * noisy.size)
            if {*workplaces.choice.by} == {*categories}:
                rows = noisy.reshape(-1, workplaces.areas).sum(axis=1)
                counts.append(rows[self._groups(workplaces.choice.by)])
                of_counts.append(variance * workplaces.areas)
        return _whole_sizes(_mean(counts, of_counts), int(_mean(sums, variances)[0]))

    def _groups(self, by: Sequence[str]) -> Int64:
        """Return the group of each combination by some attributes."""
        categories = self._plan.pools.slots.categories
        codes, group = codes_of(self.kinds, categories), np.zeros(self.kinds.size, np.int64)
        for name in by:
            group = group * len(categories[name]) + codes[name]
        return group

    def _fit(self) -> Float64:
        """Fit jobs of combinations in units to noisy counts of units and larger areas."""
        plan, geography = self._plan, self._plan.geography
        size, n_units = np.diff(np.append(self.first, self.blocks.size)), geography.n_units(plan.level)
        prior = np.zeros((self.kinds.size, n_units))
        prior[:, self._units] = _ANYWHERE * size
        unit = self._units[np.searchsorted(self.first, self._block, side="right") - 1]
        if self._listed:
            row, some = find_keys(self.kinds, self._kind)
            np.add.at(prior, (row[some], unit[some]), self._times[some])
        else:
            prior += np.bincount(unit, self._times, n_units)
        tables: list[MeasuredTable] = []
        counts: list[Int64] = []
        member: list[NDArray[np.intp]] = []
        start = geography.starts(plan.level).astype(np.int32)
        for k, (workplaces, table) in enumerate(zip(plan.workplaces, plan.numeric.workplaces, strict=True)):
            present, group = np.unique(self._groups(workplaces.choice.by), return_inverse=True)
            level = workplaces.choice.work
            if level == geography.block_level:
                cuts = np.arange(n_units, dtype=np.int32)
                values, parameters = self._added_up(k, present, n_units)
            elif level is not None and geography.lie_within(plan.level, level):
                cuts = np.searchsorted(start, geography.starts(level)).astype(np.int32)
                values = self._noisy[k].reshape(-1, workplaces.areas)[present].ravel()
                parameters = table.parameters
            else:
                continue
            domains = synth.Domains.of_cells(n_units, [cuts], plan.policy)
            jobs = np.bincount(group, self.n).astype(np.int64)
            tables.append(MeasuredTable(jobs, np.zeros(jobs.size, np.int32), domains, parameters))
            counts.append(values)
            member.append(group)
        if tables:
            order = sorted(range(len(tables)), key=lambda k: -int(tables[k].offsets[-1]))
            groups = JobGroups(
                self.n,
                np.arange(self.kinds.size, dtype=np.int32),
                np.stack([member[k] for k in order]).astype(np.int32),
            )

            def shares(place: int, cuts: Int32) -> Float64:
                cells = np.add.reduceat(prior[place], cuts)
                return np.asarray(cells / cells.sum())

            fit = estimate([tables[k] for k in order], [counts[k] for k in order], groups, shares)
            for place in range(self.kinds.size):
                cuts = fit.layouts[place].cuts
                cell = np.searchsorted(cuts, np.arange(n_units), side="right") - 1
                scale = fit.rows(place)[0] / np.maximum(np.add.reduceat(prior[place], cuts), 1e-300)
                prior[place] *= scale[cell]
        return _scaled(prior[:, self._units], self.n)

    def _added_up(self, k: int, present: Int64, n_units: int) -> tuple[Int64, GeometricParameters]:
        """Return noisy counts of blocks added up to units, and noise as large as theirs is in the mean."""
        workplaces, p = self._plan.workplaces[k], self._plan.numeric.workplaces[k].ratio
        values = self._noisy[k].reshape(-1, workplaces.areas)[present][:, self.blocks]
        counts = np.zeros((present.size, n_units), np.int64)
        counts[:, self._units] = np.add.reduceat(values, self.first, axis=1)
        variance = 2 * p / (1 - p) ** 2 * self.blocks.size / self.first.size
        larger = 1 + 1 / variance - ((1 + 1 / variance) ** 2 - 1) ** 0.5
        numerator = max(1, int(larger / (1 + larger) * 2**40))
        return counts.ravel(), GeometricParameters(numerator, 2**40 - numerator)

    def in_blocks(self, in_units: Int64) -> Iterator[_Unit]:
        """Yield what is expected in the blocks of each unit that has jobs, given whole jobs in units."""
        ends = np.append(self.first, self.blocks.size)
        measured = [(group, self._likely(k, group, in_units)) for k, group in self._of_block]
        order = np.argsort(self._block, kind="stable")
        bounds = np.searchsorted(self._block[order], ends)
        for unit in np.flatnonzero(in_units.sum(axis=0)).tolist():
            inside = slice(int(ends[unit]), int(ends[unit + 1]))
            kinds = np.flatnonzero(in_units[:, unit])
            expected = np.full((kinds.size, inside.stop - inside.start), _ANYWHERE)
            if self._listed:
                rows = order[bounds[unit] : bounds[unit + 1]]
                row, some = find_keys(self.kinds[kinds], self._kind[rows])
                rows, row = rows[some], row[some]
                np.add.at(expected, (row, self._block[rows] - inside.start), self._times[rows])
            n = in_units[kinds, unit]
            targets = [(group[kinds], likely[:, inside]) for group, likely in measured]
            yield _Unit(unit, kinds, n, self.blocks[inside], _brought_to(_scaled(expected, n), n, targets))

    def _likely(self, k: int, group: NDArray[np.intp], in_units: Int64) -> Float64:
        """Return the likely jobs of each group of combinations in each block, (n_groups, n_blocks)."""
        workplaces, ratio = self._plan.workplaces[k], self._plan.numeric.workplaces[k].ratio
        present = np.unique(self._groups(workplaces.choice.by))
        noisy = self._noisy[k].reshape(-1, workplaces.areas)[present][:, self.blocks].ravel()
        n = np.zeros((present.size, self.first.size), np.int64)
        prior = np.full((present.size, self.blocks.size), _ANYWHERE)
        np.add.at(n, group, in_units)
        if self._listed:
            row, some = find_keys(self.kinds, self._kind)
            np.add.at(prior, (group[row[some]], self._block[some]), self._times[some])
        k_of = np.tile(np.diff(np.append(self.first, self.blocks.size)), present.size)
        jobs, expected = n.ravel(), prior.ravel()
        expected *= np.repeat(jobs / np.add.reduceat(expected, offsets_of(k_of)[:-1]), k_of)
        there = jobs > 0  # a group of no jobs tells nothing
        cells = np.repeat(there, k_of)
        noisy, offsets, jobs = noisy[cells], offsets_of(k_of[there]), jobs[there]
        likely = expect_anywhere(expected[cells], offsets, jobs)
        sample = sampled_groups(jobs, noisy.size)
        sampled = segment_indices(offsets[sample], np.diff(offsets)[sample])
        ends = offsets_of(np.diff(offsets)[sample])
        deviations = likeliest_deviations(noisy[sampled], ends, likely[sampled], jobs[sample], ratio)
        result = np.zeros(cells.size)
        result[cells] = least_loss(noisy, offsets, likely, jobs, deviations, ratio)
        return result.reshape(present.size, self.blocks.size)


def _brought_to(expected: Float64, n: Int64, measured: Sequence[tuple[NDArray[np.intp], Float64]]) -> Float64:
    """Bring rows to sums of groups of them, column by column, and last to their own sums."""
    for _ in range(_ROUNDS if measured else 0):
        for group, target in measured:
            sums = np.zeros(target.shape)
            np.add.at(sums, group, expected)
            expected = expected * (target / np.maximum(sums, 1e-300))[group]
        expected = _scaled(expected, n)
    return expected


def _mean(counts: Sequence[Int64], variances: Sequence[float]) -> Int64:
    """Return the mean of noisy counts of the same, the more certain the heavier, in whole numbers."""
    precision = 1 / np.array(variances)
    weights = np.rint(precision / precision.sum() * 2**20).astype(np.int64)  # so that floats decide nothing
    weights[0] += 2**20 - weights.sum()
    return np.asarray((weights @ np.stack(counts) + 2**19) >> 20, np.int64)


def _whole_sizes(noisy: Int64, total: int) -> Int64:
    """Return the nearest whole numbers of at least 0, with a sum if that can be."""
    total = min(max(1, total), MOST)
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
