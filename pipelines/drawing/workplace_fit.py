"""Jobs of each combination of categories in each unit and block, fitted to noisy counts of workplaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.jobs import Slots
from pipelines.config.fields import MOST
from pipelines.drawing.job_counts import JobCounts, UnitEntries, reconciled
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import codes_of, combination_of, combined
from synth.arrays import find_keys, offsets_of, segment_indices
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.geometric.parameters import GeometricParameters
from synth.geometric.projection import project
from synth.posterior.counts import expect_anywhere, least_loss, likeliest_deviations, sampled_groups
from synth.posterior.estimation import estimate
from synth.posterior.flows import round_flow
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_PUBLIC_LOTS = 55  # the seed of lots that everybody may draw again: nothing confidential depends on them
_MOST_OFF = 1.01  # jobs: one, and what sums of floats and of parts of a job may be off
_ANYWHERE = 1e-6  # jobs that are expected in every block in which anybody may work
ROUNDS = 20  # of bringing jobs of combinations in blocks to both of their sums
LEAST_PART = 1e-9  # of what was expected of a cell stays, so that a row of nothing is none


class Kept(NamedTuple):
    """What slots that are estimated again must agree with.

    They are where there is a group of every table. Of each `combination` and `block` there is one at least.
    Combinations that are `present` are those of the first estimate, rising.
    """

    groups: Sequence[JobCounts]
    combination: Int64
    block: Int64
    present: Int64


_NONE = np.zeros(0, np.int64)
NO_GROUPS = Kept((), _NONE, _NONE, _NONE)


class _Target(NamedTuple):
    """Likely jobs of groups of combinations, by row, in areas of blocks, by column.

    `group` has the row of each combination, `area` the column of each block, -1 where it has none.
    """

    group: NDArray[np.intp]
    area: Int64
    likely: Float64

    def brought_to(
        self, expected: Float64, n: NDArray[Any], kinds: NDArray[np.intp], blocks: slice
    ) -> Float64:
        """Bring jobs of some combinations in the blocks of a unit to these sums, and last to their own."""
        areas, column = np.unique(self.area[blocks], return_inverse=True)
        target, group = np.where(areas >= 0, self.likely[:, areas], 0.0), self.group[kinds]
        for _ in range(ROUNDS):
            sums = np.zeros(target.shape)
            np.add.at(sums, (group[:, np.newaxis], column), expected)
            brought = expected * (target / np.maximum(sums, 1e-300))[group][:, column]
            expected = scaled(np.where(brought.any(axis=1, keepdims=True), brought, expected), n)
        return expected


class UnitFit(NamedTuple):
    """Expected jobs of a unit: of some combinations, of which there are n each, in blocks."""

    number: int
    kinds: NDArray[np.intp]
    n: NDArray[Any]
    blocks: slice
    expected: Float64


class WorkplaceFit:
    """What is expected of workplaces, from noisy counts.

    Attributes
    ----------
    kinds, n : ndarray of int64, shape (n_kinds,)
        Combinations of categories of which there are jobs, rising, and how many.
    blocks : ndarray of int32, shape (n_blocks,)
        In which somebody may work, rising.
    in_units : ndarray of float64, shape (n_kinds, n_units)
        Expected jobs of each combination in each unit of the public model that has such blocks.
    """

    def __init__(self, plan: ReleasePlan, of_work: Sequence[JobCounts], kept: Kept = NO_GROUPS) -> None:
        geography, slots = plan.geography, plan.pools.slots
        self._plan, self._categories = plan, slots.categories
        alike, times = slots.counted()
        combination = combination_of(alike, slots.categories)[0]
        # Of attributes, and of the blocks of a unit, nothing is known where no public table tells.
        self._listed, self._informed = plan.config.workplaces is not None, plan.config.informs_attributes
        self.blocks = np.flatnonzero(~geography.nobody_works).astype(np.int32)
        _, first, self._unit = np.unique(
            geography.unit_of(plan.level, self.blocks), return_index=True, return_inverse=True
        )
        self._n_units, self._ends = first.size, np.append(first, self.blocks.size)
        n = self._sizes(of_work, kept, np.bincount(combination, times).astype(np.float64))
        if kept.groups:
            # Counts of areas without a group are of jobs that go elsewhere, and of noise.
            pools = kept.groups[0]
            inside = np.flatnonzero(np.isin(pools.area, np.flatnonzero(pools.known.any(axis=0))))
            of_work = [*(table.inside(inside) for table in of_work), *kept.groups]
        self._counted = self._telling(of_work)
        self.kinds = np.flatnonzero(n)
        self.n = n[self.kinds]
        row, some = find_keys(self.kinds, combination * self._informed)
        block = np.searchsorted(self.blocks, alike.work)
        self._public = UnitEntries(row[some], block[some], times[some], self._ends)
        self._of_units = np.bincount(self._unit[block], times, self._n_units)
        row, block = np.searchsorted(self.kinds, kept.combination), np.searchsorted(self.blocks, kept.block)
        self._kept = UnitEntries(row, block, np.ones(row.size, np.int64), self._ends)
        self._groups = self._groups_of(kept)
        self.in_units = self._fit()

    def rounded(self, name: str) -> Slots:
        """Return whole jobs, by lots of this name."""
        stream = synth.RunKey.from_seed(_PUBLIC_LOTS).stream(name, 0)
        parts: list[tuple[Int64, Int32, Int64]] = []
        for unit in self._in_blocks(self._whole_in_units(stream)):
            counts = self._whole_in_blocks(unit, stream)
            row, column = np.nonzero(counts)
            parts.append((self.kinds[unit.kinds[row]], self.blocks[unit.blocks][column], counts[row, column]))
        kind, block, count = (np.concatenate(column) for column in zip(*parts, strict=True))
        alike = Slots.of_codes(block, codes_of(kind, self._categories), self._categories)
        order = alike.order()
        return alike.take(order).repeat(count[order])

    def allow(self, slots: Slots) -> bool:
        """Say whether these could be the whole jobs, if floats added up otherwise."""
        alike, times = slots.counted()
        combination, none = combination_of(alike, self._categories)
        kind, known = find_keys(self.kinds, combination)
        block, inside = find_keys(self.blocks, alike.work)
        if none.any() or not (known.all() and inside.all()):
            return False
        whole = np.zeros(self.in_units.shape, np.int64)
        np.add.at(whole, (kind, self._unit[block]), times)
        if (in_units := self._allowed_in_units(whole)) is None:
            return False
        counts = UnitEntries(kind, block, times, self._ends)
        return all(
            self._allow_in_blocks(unit, counts.dense(unit.number, self.kinds.size))
            for unit in self._in_blocks(in_units)
        )

    def _whole_in_units(self, stream: WordStream) -> NDArray[Any]:
        """Return jobs in units from which those in blocks follow."""
        return rounded_rows(self._fewest(), self.in_units, self.n, stream)

    def _whole_in_blocks(self, unit: UnitFit, stream: WordStream) -> Int64:
        return rounded_rows(self._fewest_in_blocks(unit), unit.expected, unit.n, stream)

    def _allowed_in_units(self, whole: Int64) -> NDArray[Any] | None:
        """Return what `_whole_in_units` did if these are whole jobs in units; None if they cannot be."""
        near = np.array_equal(whole.sum(axis=1), self.n) and is_near(whole, self.in_units)
        return whole if near else None

    def _allow_in_blocks(self, unit: UnitFit, counts: Int64) -> bool:
        """Say whether these could be what `_whole_in_blocks` returned, of all combinations."""
        return is_near(counts[unit.kinds], unit.expected)

    def _telling(self, of_work: Sequence[JobCounts]) -> list[JobCounts]:
        """Return the tables that tell something."""
        return reconciled(of_work, self._categories)

    def _known(self, kinds: Int64, total: int) -> Iterator[tuple[Int64, int]]:
        """Yield runs of some combinations whose number of jobs is known, and that number."""
        yield kinds, total

    def _sizes(self, of_work: Sequence[JobCounts], kept: Kept, expected: Float64) -> Int64:
        """Return whole jobs of every combination, from the tables of workplaces that tell them apart.

        Their sum follows from all of these tables. Tables of homes do not count those who are in no group.
        """
        self.kinds = np.arange(of_work[0].counts.size)
        sums, counts, variances, of_counts = [], [], [], []
        for table in of_work:
            sums.append(table.counts.sum(keepdims=True).ravel())
            variances.append(table.variance * table.counts.size)
            if {*table.by} == {*self._categories}:
                counts.append(table.counts.sum(axis=1)[self._group(table.by)])
                of_counts.append(table.variance * table.counts.shape[1])
        noisy, total = _mean(counts, of_counts), int(_mean(sums, variances)[0])
        total = min(max(1, total), MOST)
        if self._informed:
            public = np.zeros(noisy.size, np.int64)
            public[: expected.size] = expected * (total / expected.sum())
            noisy = _shrunk(noisy, public, 1 / sum(1 / variance for variance in of_counts))
        fewest = np.bincount(kept.combination, minlength=noisy.size)
        self._groups = self._groups_of(kept)
        somewhere = np.any([self._possible(unit).any(axis=1) for unit in range(self._n_units)], axis=0)
        n = np.zeros(noisy.size, np.int64)
        for kinds, number in self._known(np.flatnonzero(somewhere), total):
            above = number - int(fewest[kinds].sum())
            n[kinds] = fewest[kinds] + _whole_sizes(noisy[kinds] - fewest[kinds], max(0, above))
        return n

    def _group(self, by: Sequence[str]) -> Int64:
        """Return the combination of some attributes that each combination of all has."""
        codes = codes_of(self.kinds, self._categories)
        return combined({name: codes[name] for name in by}, self._categories, self.kinds.size)

    def _groups_of(self, kept: Kept) -> list[tuple[Int64, Int64, NDArray[np.bool_]]]:
        """Return of every table the group of each combination, areas of blocks, and where there are any."""
        return [(self._group(table.by), table.area[self.blocks], table.known) for table in kept.groups]

    def _possible(self, unit: int) -> NDArray[np.bool_]:
        """Say which combinations may be in which blocks of a unit, shape (n_kinds, n_blocks)."""
        blocks = slice(*self._ends[unit : unit + 2].tolist())
        possible = np.ones((self.kinds.size, blocks.stop - blocks.start), np.bool_)
        for group, area, known in self._groups:
            possible &= known[group][:, area[blocks]] & (area[blocks] >= 0)
        return possible

    def _fit(self) -> Float64:
        """Fit jobs of combinations in units to noisy counts of units and larger areas."""
        prior = np.empty((self.kinds.size, self._n_units))
        for unit in range(self._n_units):
            prior[:, unit] = self._prior_of_unit(unit)
        tables: list[MeasuredTable] = []
        counts: list[Int64] = []
        member: list[NDArray[np.intp]] = []
        for table in self._counted:
            areas = self._areas_of_units(table)
            if areas is None or areas[0].size == 1:
                continue
            cuts, values, parameters = areas
            present, group = np.unique(self._group(table.by), return_inverse=True)
            domains = synth.Domains.of_cells(self._n_units, [cuts], self._plan.policy)
            jobs = np.bincount(group, self.n).astype(np.int64)
            tables.append(MeasuredTable(jobs, np.zeros(jobs.size, np.int32), domains, parameters))
            counts.append(values[present].ravel())
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
                cell = np.searchsorted(cuts, np.arange(self._n_units), side="right") - 1
                scale = fit.rows(place)[0] / np.maximum(np.add.reduceat(prior[place], cuts), 1e-300)
                prior[place] *= np.maximum(scale[cell], LEAST_PART)
        return self._complete_in_units(prior)

    def _prior_of_unit(self, unit: int) -> Float64:
        """Return the jobs of each combination that public data let expect in a unit."""
        possible, jobs = self._possible(unit), self._of_units[unit] * np.ones(self.kinds.size)
        if self._informed:
            jobs = self._public.dense(unit, self.kinds.size).sum(axis=1)
        return np.where(possible.any(axis=1), _ANYWHERE * possible.shape[1] + jobs, 0.0)

    def _prior_of_blocks(self, unit: int) -> Float64:
        """Return the same in each of its blocks."""
        if not self._listed:
            return np.full(self._possible(unit).shape, _ANYWHERE)
        return np.asarray(_ANYWHERE + self._public.dense(unit, self.kinds.size), np.float64)

    def _complete_in_units(self, expected: Float64) -> Float64:
        """Bring expected jobs in units to their sums, and to the fewest."""
        return keeping(self._fewest(), scaled(expected, self.n), self.n)

    def _complete_in_blocks(self, unit: UnitFit) -> UnitFit:
        """Bring expected jobs in the blocks of a unit to the fewest."""
        return unit._replace(expected=keeping(self._fewest_in_blocks(unit), unit.expected, unit.n))

    def _fewest_in_blocks(self, unit: UnitFit) -> Int64:
        """Return how many jobs of each of its combinations each block of a unit has at least."""
        return self._kept.dense(unit.number, self.kinds.size)[unit.kinds]

    def _fewest(self) -> Int64:
        """Return how many jobs of each combination each unit has at least."""
        units = [self._kept.dense(unit, self.kinds.size).sum(axis=1) for unit in range(self._n_units)]
        return np.stack(units, axis=1)

    def _areas_of_units(self, table: JobCounts) -> tuple[Int32, Int64, GeometricParameters] | None:
        """Return the first unit of each area of a table, or of each unit, its counts, and their noise.

        Smaller areas are added up to units, with noise as large as theirs is in the mean. None if neither
        areas consist of units, nor units of areas.
        """
        area = table.area[self.blocks]
        low, high = (of.reduceat(area, self._ends[:-1]) for of in (np.minimum, np.maximum))
        if np.array_equal(low, high) and low.min() >= 0:
            cuts = np.flatnonzero(np.diff(low, prepend=-1)).astype(np.int32)
            return cuts, table.counts[:, low[cuts]], GeometricParameters.of_variance(table.variance)
        if (unit := self._units_of_areas(table)) is None:
            return None
        inside = np.flatnonzero(unit >= 0)
        values = np.zeros((self._n_units, table.counts.shape[0]), np.int64)
        np.add.at(values, unit[inside], table.counts[:, inside].T)
        variance = table.variance * inside.size / self._n_units
        return np.arange(self._n_units, dtype=np.int32), values.T, GeometricParameters.of_variance(variance)

    def _units_of_areas(self, table: JobCounts) -> Int64 | None:
        """Return the unit of each area of a table, -1 where nothing is known; None if one is in several."""
        area = table.area[self.blocks]
        unit = np.full(table.counts.shape[1] + 1, -1)  # the last one of blocks that are in no area
        unit[area] = self._unit
        if not np.array_equal(unit[area[area >= 0]], self._unit[area >= 0]):
            return None
        return np.where(table.known.any(axis=0), unit[:-1], -1)

    def _in_blocks(self, in_units: NDArray[Any]) -> Iterator[UnitFit]:
        """Yield what is expected in the blocks of each unit that has jobs, given jobs in units.

        Tables of areas that are smaller than units have their say one after the other: what is likely in the
        areas of one is what is to be expected of the next.
        """
        targets: list[_Target] = []
        for table in self._counted:
            area = table.area[self.blocks]
            unit_of_area = self._units_of_areas(table)
            if unit_of_area is None or np.bincount(unit_of_area[unit_of_area >= 0]).max() == 1:
                continue
            group = np.unique(self._group(table.by), return_inverse=True)[1]
            expected = np.zeros((int(group.max()) + 1, table.counts.shape[1] + 1))
            for unit in self._with_targets(in_units, targets):
                np.add.at(expected, (group[unit.kinds, np.newaxis], area[unit.blocks]), unit.expected)
            likely = self._likely(table, unit_of_area, in_units, expected[:, :-1])
            targets.append(_Target(group, area, likely))
        yield from map(self._complete_in_blocks, self._with_targets(in_units, targets))

    def _with_targets(self, in_units: NDArray[Any], targets: Sequence[_Target]) -> Iterator[UnitFit]:
        """Yield what is expected of units without a thought of what must be there."""
        for unit in np.flatnonzero(in_units.sum(axis=0)).tolist():
            blocks, kinds = slice(*self._ends[unit : unit + 2].tolist()), np.flatnonzero(in_units[:, unit])
            n = in_units[kinds, unit]
            prior = np.where(self._possible(unit), self._prior_of_blocks(unit), 0.0)
            expected = scaled(prior[kinds], n)
            for target in targets:
                expected = target.brought_to(expected, n, kinds, blocks)
            yield UnitFit(unit, kinds, n, blocks, expected)

    def _likely(
        self, table: JobCounts, unit_of_area: Int64, in_units: NDArray[Any], expected: Float64
    ) -> Float64:
        """Return the likely jobs of each group of combinations in each area, shape (n_groups, n_areas)."""
        present, group = np.unique(self._group(table.by), return_inverse=True)
        order = np.argsort(unit_of_area, kind="stable")[np.count_nonzero(unit_of_area < 0) :]
        sums = np.zeros((present.size, self._n_units), in_units.dtype)
        np.add.at(sums, group, in_units)
        n = np.rint(sums).astype(np.int64)
        k = np.tile(np.bincount(unit_of_area[order], minlength=self._n_units), present.size)
        jobs, noisy, means = n.ravel(), table.counts[present][:, order].ravel(), expected[:, order].ravel()
        there = (jobs > 0) & (k > 0)  # a group of no jobs tells nothing
        if not there.any():
            return expected
        cells = np.repeat(there, k)
        noisy, offsets, jobs = noisy[cells], offsets_of(k[there]), jobs[there]
        law = GeometricParameters.of_variance(table.variance).law
        likely = expect_anywhere(means[cells], offsets, jobs)
        sample = sampled_groups(jobs, noisy.size)
        sampled = segment_indices(offsets[sample], np.diff(offsets)[sample])
        ends = offsets_of(np.diff(offsets)[sample])
        deviations = likeliest_deviations(noisy[sampled], ends, likely[sampled], jobs[sample], law)
        counts = np.zeros(cells.size)
        counts[cells] = least_loss(noisy, offsets, likely, jobs, deviations, law)
        result = np.zeros(expected.shape)
        result[:, order] = counts.reshape(present.size, order.size)
        return result


def rounded_rows(fewest: Int64, expected: Float64, n: Int64, stream: WordStream) -> Int64:
    """Round rows that add up to n by lots, and to no less than the fewest."""
    above = np.maximum(expected - fewest, 0.0)
    return fewest + round_flow(above, n - fewest.sum(axis=1), (), (), stream)


def keeping(fewest: Int64, expected: Float64, n: NDArray[Any]) -> Float64:
    """Return rows that add up to n, with entries of at least so many, in proportion above these."""
    return fewest + scaled(np.maximum(expected - fewest, 0.0), n - fewest.sum(axis=1))


def _mean(counts: Sequence[Int64], variances: Sequence[float]) -> Int64:
    """Return the mean of noisy counts of the same, the more certain the heavier, in whole numbers."""
    precision = 1 / np.array(variances)
    weights = np.rint(precision / precision.sum() * 2**20).astype(np.int64)  # so that floats decide nothing
    weights[0] += 2**20 - weights.sum()
    return np.asarray((weights @ np.stack(counts) + 2**19) >> 20, np.int64)


def _shrunk(noisy: Int64, expected: Int64, variance: float) -> Int64:
    """Return noisy counts brought nearer to expected ones, the less the farther they are for their noise.

    From three counts on that errs less than noisy counts in the mean square, whatever is expected (James and
    Stein 1961).
    """
    off = noisy - expected
    square = sum(each * each for each in off.tolist())
    part = min(1.0, max(0, off.size - 2) * variance / max(1, square))
    return noisy - ((round(part * 2**20) * off + 2**19) >> 20)  # so that floats decide nothing


def _whole_sizes(noisy: Int64, total: int) -> Int64:
    """Return the nearest whole numbers of at least 0 with a sum."""
    if not total:
        return np.zeros(noisy.size, np.int64)
    mass, unit = project(noisy, offsets_of(np.array([noisy.size])), np.array([total]))
    whole, rest = np.divmod(mass, unit[0])
    whole[np.argsort(-rest, kind="stable")[: total - int(whole.sum())]] += 1
    return np.asarray(whole, np.int64)


def scaled(expected: Float64, n: NDArray[Any]) -> Float64:
    """Return rows that add up to n; a row of nothing is even."""
    sums = expected.sum(axis=1, keepdims=True)
    even = np.full(expected.shape, 1.0 / expected.shape[1])
    return np.where(sums > 0, expected / np.where(sums > 0, sums, 1.0), even) * n[:, np.newaxis]


def is_near(counts: Int64, expected: Float64) -> bool:
    """Say whether counts, and their sums over combinations, are what is expected rounded down or up."""
    off = counts - expected
    return bool(np.abs(off).max(initial=0) < _MOST_OFF and np.abs(off.sum(axis=0)).max(initial=0) < _MOST_OFF)
