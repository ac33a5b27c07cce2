"""From noisy counts of a plan's measured tables to a home for every slot.

All of it is post-processing of noisy counts, which may be published, and of public numbers. Homes are
counted and get their noise in `pipelines.drawing.sampling`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.plans.measured import MeasuredGroups, TableChoice
from pipelines.plans.plan import ReleasePlan, batches, slots_of
from pipelines.plans.workload import resolve_workload
from synth.arrays import segment_indices
from synth.block_sampling import OriginShares, draw_blocks
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.posterior.estimation import Cells, Estimate, NewCells, Prior, Run, estimate, fit_factors, restore
from synth.posterior.rounding import Rounding

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_MOST_KEPT = 2**26  # expected jobs of one place, rows by cells, that are held for tables that are kept
_MOST_ROUNDED = 2**31  # the same of all places: rounding so many takes minutes


@dataclass(frozen=True, eq=False)
class JobRows:
    """The slots of some pools in rows of jobs that no table tells apart.

    Attributes
    ----------
    tables : tuple of synth.Table
        Their groups in the measured tables, that of the pools first; then those in the tables that rounding
        is to keep.
    chosen : tuple of ndarray of int64
        By measured table, the groups of the plan that these are.
    groups : JobGroups
        By work block and by the attributes of the tables, or, of a nation, by measured groups alone; places
        are units of the public model, each divided by the part that homes are in.
    slot : ndarray of int64, shape (n_slots,)
        The slot of each job, row after row, and inside a row part after part: its position among the slots of
        the pools.
    parts : tuple of ndarray of int64, optional
        By row, the jobs of the work blocks in it, where these are not rows of their own.
    """

    tables: tuple[synth.Table, ...]
    chosen: tuple[Int64, ...]
    groups: JobGroups
    slot: Int64
    parts: tuple[Int64, ...] | None = None

    @property
    def measured(self) -> tuple[MeasuredTable, ...]:
        """The tables that are measured."""
        return tuple(table for table in self.tables if isinstance(table, MeasuredTable))


class JobLayout:
    """The tables of a plan, and the rows of jobs that they do not tell apart.

    Parameters
    ----------
    plan : ReleasePlan
        Of a mechanism that measures tables.

    Attributes
    ----------
    tables : tuple of MeasuredTable
        That of the pools, then the further ones.
    whole_groups : bool
        Whether measured groups are rounded as a whole, and their homes divided among their work blocks
        afterwards: where there are so many of these that to round what is expected of each takes long.
    kept : tuple of TableChoice
        Tables of the workload that nobody measures: else rounding keeps them too, as far as one place's
        expected jobs fit into memory then, and those of all places do not take long.
    attributes : tuple of str
        Those by which some of these tables tell jobs apart.
    """

    def __init__(self, plan: ReleasePlan) -> None:
        self._plan = plan
        self.tables = plan.mechanism.tables(plan.numeric)
        self.whole_groups = _count_apart(plan) > _MOST_ROUNDED
        self.kept = () if self.whole_groups else _kept(plan)
        self.attributes = self._attributes(self.kept)

    def _attributes(self, kept: Sequence[TableChoice]) -> tuple[str, ...]:
        choices = self._plan.choices
        names = (name for table in (*choices.tables, *kept) for name in table.by)
        return tuple(dict.fromkeys((*choices.pool_by, *names)))

    def rows(self, parts: Sequence[slice], *, kept: bool = True) -> JobRows:
        """Return the rows of runs of pools, which are all pools of some places.

        With `kept` they tell apart what tables tell apart that nobody measures.
        """
        plan, geography = self._plan, self._plan.geography
        pools = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        slots, policy = plan.pools.slots.take(slots_of(plan, parts)), plan.policy
        more = self.kept if kept else ()
        names = self._attributes(more)
        units = geography.unit_of(plan.level, slots.work)
        homes = [slots.home_part, units] if policy.n_parts > 1 else []
        order = np.lexsort([*(slots.attributes[name] for name in reversed(names)), slots.work, *homes])
        work = slots.work[order]
        told_apart = [slots.attributes[name] for name in names] + homes
        keys = np.stack([work, *(codes[order].astype(np.int32) for codes in told_apart)])
        start = np.flatnonzero(np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0)))
        head = order[start]

        tables: list[synth.Table] = []
        chosen: list[Int64] = []
        member: list[NDArray[Any]] = []
        pool = np.repeat(pools, plan.pools.n[pools])
        for table, of in zip(
            self.tables, (pool, *(groups.find(slots) for groups in plan.secondary)), strict=True
        ):
            some, row = np.unique(of[head], return_inverse=True)
            n = np.bincount(np.searchsorted(some, of), minlength=some.size).astype(np.int64)
            tables.append(MeasuredTable(n, table.domain[some], table.domains, table.parameters))
            chosen.append(some.astype(np.int64))
            member.append(row)
        for choice in more:
            groups = MeasuredGroups(choice, slots, geography, policy)
            tables.append(groups.table)
            member.append(groups.find(slots)[head])

        levels = [*geography.levels, geography.block_level]
        finer = levels[levels.index(plan.level) + 1 :]
        place = (units[head] * policy.n_parts + slots.home_part[head]).astype(np.int32)
        rows = JobGroups(
            np.diff(np.append(start, order.size)),
            place,
            np.stack(member).astype(np.int32),
            tuple(_runs(place, geography.unit_of(level, slots.work[head])) for level in finer),
        )
        if not self.whole_groups:
            return JobRows(tuple(tables), tuple(chosen), rows, order)
        whole, row = rows.merge(len(tables))
        sizes = rows.n[np.argsort(row, kind="stable")]
        inside = tuple(np.split(sizes, np.cumsum(np.bincount(row))[:-1]))
        order = order[np.argsort(np.repeat(row, rows.n), kind="stable")]
        return JobRows(tuple(tables), tuple(chosen), whole, order, inside)

    def choose(self, rows: JobRows, values: Sequence[Cells]) -> list[NDArray[Any]]:
        """Return what the cells of some rows' groups have of one number for each cell of each table."""
        chosen = []
        for table, groups, cells in zip(self.tables, rows.chosen, values, strict=True):
            first, size = int(table.offsets[groups[0]]), table.k[groups]
            run = cells[first : int(table.offsets[groups[-1] + 1])]
            if groups.size <= groups[-1] - groups[0]:  # with others between them
                run = run[segment_indices(table.offsets[groups] - first, size)]
            chosen.append(run)
        return chosen


def _runs(*keys: NDArray[np.integer]) -> Int32:
    """Number the runs of entries in which no key changes."""
    changed = np.any([np.diff(key) != 0 for key in keys], axis=0)
    return np.append(0, np.cumsum(changed)).astype(np.int32)


def _count_apart(plan: ReleasePlan) -> int:
    """Return about how many expected jobs, rows of work blocks by cells, there are in all units."""
    alike = plan.pools.slots.counted()[0]
    units = np.unique(plan.geography.unit_of(plan.level, alike.work)).size
    # A plan is tried on some of the units, and must do then what it does with all.
    parts = plan.geography.n_units(plan.level) / units
    return int(len(alike) * parts * plan.numeric.k.mean())


def _kept(plan: ReleasePlan) -> tuple[TableChoice, ...]:
    geography, slots = plan.geography, plan.pools.slots
    levels = [*geography.levels, geography.block_level]
    kept = []
    alike, times = slots.counted()
    jobs = np.bincount(geography.unit_of(plan.level, alike.work), times)
    blocks = np.bincount(geography.unit_of(plan.level, np.unique(alike.work)))
    for table in resolve_workload(plan.config.workload, geography, plan.level, slots).tables:
        if table.home not in geography.levels or table.work not in (None, *levels):
            continue
        # Under a policy of attributes every table is by the secret ones, which rows of jobs do not have.
        public = tuple(name for name in table.attributes if name in slots.categories)
        names = dict.fromkeys((*plan.choices.pool_by, *public))
        kinds = int(np.prod([len(slots.categories[name]) for name in names], dtype=np.int64))
        rows = np.minimum(jobs, blocks * kinds)
        wide = geography.n_units(table.home) * plan.policy.copies
        # Of all units, as a plan is tried on some of them, and then must keep what the whole can.
        all_rows = float(rows[rows > 0].mean()) * geography.n_units(plan.level)
        if int(rows.max()) * wide <= _MOST_KEPT and all_rows * wide <= _MOST_ROUNDED:
            kept.append(TableChoice(table.work, public, table.home, Fraction(0)))
    return tuple(dict.fromkeys(kept))


def estimate_factors(
    plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Cells], new: NewCells
) -> list[Cells]:
    """Fit expected homes to noisy counts of every table; return the factor of each cell of each table.

    Only runs of pools are in memory, of the first table, for which `new` makes room. Where it is the only
    one, the places of a run are fitted as if there were no others, and a run by each processor; several
    tables are fitted together as a whole.
    """
    first = layout.tables[0]
    if not plan.secondary:
        factors = new("factors", int(first.offsets[-1]))

        def fit(part: slice) -> None:
            (factors[_cells(first, part)],) = estimate_part(plan, layout, noisy, part)

        with ThreadPoolExecutor(os.cpu_count()) as threads:  # most of it is compiled
            for _ in threads.map(fit, batches(plan)):
                pass
        return [factors]
    merged: list[JobGroups] = []
    runs: list[Run] = []
    places = 0
    for part in batches(plan):
        rows = layout.rows([part], kept=False)
        groups = rows.groups.merged(len(layout.tables))
        member = [chosen[group] for chosen, group in zip(rows.chosen, groups.member, strict=True)]
        merged.append(JobGroups(groups.n, groups.place, np.stack(member).astype(np.int32)))
        runs.append(Run(slice(places, places + groups.n_places), part))
        places += groups.n_places
    groups = JobGroups(
        np.concatenate([part.n for part in merged]),
        np.concatenate([part.place for part in merged]),
        np.concatenate([part.member for part in merged], axis=1),
    )
    return fit_factors(layout.tables, noisy, groups, public_prior(plan), runs, new)


def estimate_part(
    plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Cells], part: slice
) -> list[NDArray[Any]]:
    """Return what `estimate_factors` finds for one of the `batches` of a plan with one table."""
    rows = layout.rows([part], kept=False)
    counts = layout.choose(rows, noisy)
    factors = fit_factors(rows.measured, counts, rows.groups.merged(1), public_prior(plan))
    return [values[:] for values in factors]


def _cells(table: MeasuredTable, groups: slice) -> slice:
    return slice(int(table.offsets[groups.start]), int(table.offsets[groups.stop]))


def estimate_homes(plan: ReleasePlan, rows: JobRows, noisy: Sequence[Int64]) -> Estimate:
    """Fit the expected homes of some rows, as if there were no others, to their noisy counts."""
    return estimate(rows.tables, noisy, rows.groups, public_prior(plan))


def restore_estimate(plan: ReleasePlan, rows: JobRows, factors: Sequence[Float64]) -> Estimate:
    """Return the estimate of some rows from the factors of their cells (`JobLayout.choose`)."""
    return restore(rows.tables, factors, rows.groups, public_prior(plan))


def public_prior(plan: ReleasePlan) -> Prior:
    """Return the shares of the public model, of any cells."""
    shares, cumulative = plan.destination_shares, plan.cumulative_weights
    ends = np.append(shares.starts[1:], plan.n_origins)
    unit_weight = cumulative[ends] - cumulative[shares.starts]

    parts, stops = plan.policy.n_parts, plan.policy.ends(plan.n_origins)

    def ends_of(cuts: Int32, stop: int) -> tuple[Int64, Float64]:
        """Return the unit that each cell begins in, and the last one ends in, and how far into it."""
        bounds = np.append(cuts, stop).astype(np.int64)
        unit = np.minimum(np.searchsorted(shares.starts, bounds, side="right"), shares.starts.size) - 1
        return unit, (cumulative[bounds] - cumulative[shares.starts[unit]]) / unit_weight[unit]

    last: tuple[Int32, int, tuple[Int64, Float64]] | None = None  # places in a row mostly have the same cells

    def prior(place: int, cuts: Int32) -> Float64:
        nonlocal last
        row = int(np.searchsorted(plan.destinations, place // parts))
        entries = slice(int(shares.offsets[row]), int(shares.offsets[row + 1]))
        listed = np.zeros(shares.starts.size)
        listed[shares.unit[entries]] = shares.share[entries]
        stop = int(stops[place % parts])
        cells = last
        if cells is None or cells[0] is not cuts or cells[1] != stop:
            cells = last = cuts, stop, ends_of(cuts, stop)
        unit, part = cells[2]
        before = np.append(0.0, np.cumsum(listed))
        up_to = before[unit] + listed[unit] * part
        inside = np.diff(up_to)
        if parts > 1 and not inside.sum() > 0:  # the model expects nobody of this part
            inside = np.diff(cumulative[np.append(cuts, stop)]).astype(np.float64)
        return inside / (inside.sum() if parts > 1 else before[-1])

    return prior


def drawn_cells(plan: ReleasePlan, rows: JobRows, fit: Estimate) -> tuple[synth.Domains, OriginShares]:
    """Return the cells that whole jobs are given to, a domain for each place, and shares by domain."""
    place = rows.groups.place[rows.groups.starts[:-1]] // plan.policy.n_parts
    row = np.searchsorted(plan.destinations, place).astype(np.int32)
    return fit.domains(plan.n_origins), plan.destination_shares.for_domains(row)


def _units(plan: ReleasePlan, cuts: Int32) -> Int64:
    """Number the units of the public model that cells begin in, along the cells."""
    copy, block = np.divmod(cuts, plan.geography.n_blocks)
    return _runs(copy, plan.geography.unit_of(plan.level, block)).astype(np.int64)


def draw_homes(
    plan: ReleasePlan, rows: JobRows, fit: Estimate, key: synth.RunKey, batch: int, implicate: str = ""
) -> Int32:
    """Draw a home (an origin) for every slot of some rows from their estimate, slot after slot.

    An implicate other than the first has a further name of its streams.
    """
    rounding, stream = Rounding(fit), key.stream(f"rounding{implicate}", batch)
    drawn = [rounding.homes(i, stream, *within) for i, within in enumerate(_inside(plan, rows, fit))]
    domains, shares = drawn_cells(plan, rows, fit)
    stream = key.stream(f"blocks{implicate}", batch)
    blocks = draw_blocks(
        domains, _place_of(rows), np.concatenate(drawn), plan.cumulative_weights, shares, stream
    )
    homes = np.empty_like(blocks)
    homes[rows.slot] = blocks
    return homes


def homes_fit(plan: ReleasePlan, rows: JobRows, fit: Estimate, homes: Int32, *, by_slot: bool) -> bool:
    """Say whether `draw_homes` could have drawn these homes from an estimate (`synth.posterior.rounding`).

    `by_slot` says whether each slot has the origin that its attributes go with, or only one of its work block
    and part.
    """
    rounding, place = Rounding(fit), _place_of(rows)
    cells = drawn_cells(plan, rows, fit)[0].locate(place, homes[rows.slot])
    ends = np.cumsum(np.bincount(place))[:-1]
    places = zip(np.split(cells, ends), _inside(plan, rows, fit), strict=True)
    return all(
        rounding.allows(i, drawn, *within, by_slot=by_slot) for i, (drawn, within) in enumerate(places)
    )


def _place_of(rows: JobRows) -> Int32:
    """Return the place of each job, row after row: its position among those of the rows."""
    first = rows.groups.starts[:-1]
    return np.repeat(np.arange(first.size, dtype=np.int32), np.add.reduceat(rows.groups.n, first))


def _inside(
    plan: ReleasePlan, rows: JobRows, fit: Estimate
) -> Iterator[tuple[()] | tuple[Sequence[Int64], list[Int64]]]:
    """Yield for each place what of its rows is divided further, and the areas of cells that are kept then."""
    units: dict[int, Int64] = {}  # of cells that many places share
    for i in range(rows.groups.n_places):
        if rows.parts is None:
            yield ()
            continue
        cuts = fit.layouts[i].cuts
        if id(cuts) not in units:
            units[id(cuts)] = _units(plan, cuts)
        yield rows.parts[rows.groups.rows(i)], [units[id(cuts)]]
