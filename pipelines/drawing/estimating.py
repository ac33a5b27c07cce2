"""From noisy counts of a plan's measured tables to a home for every slot.

All of it is post-processing of noisy counts, which may be published, and of public numbers. Homes are
counted and get their noise in `pipelines.drawing.sampling`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.geography import Geography
from pipelines.plans.measured import MeasuredGroups, TableChoice
from pipelines.plans.plan import ReleasePlan, batches, slots_of
from pipelines.plans.workload import workload_of
from synth.arrays import segment_indices
from synth.block_sampling import OriginShares, draw_blocks
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.posterior.estimation import (
    Cells,
    Estimate,
    Learned,
    NewCells,
    Run,
    estimate,
    fit_factors,
    measure_deviations,
    restore,
)
from synth.posterior.history import CarriedCounts, add_history
from synth.posterior.learning import Counted, Factors, Pieces, learn_factors
from synth.posterior.rounding import Rounding

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_MOST_KEPT = 2**26  # expected jobs of one place, rows by cells, that are held for tables that are kept
_TAUGHT = 2**22  # cells, cut where units begin, that teach the public model at most: about 200 MB
_LEAST_SHARE = 1e-12  # of a place's jobs in a cell: counts may show somebody where nobody is expected
_MEASURED = 2**19  # cells of places in which it is looked at how far counts are from it, at most
_BAND_PLACES = 64  # whose distances to all units are looked at for bands, which
_BAND_PARTS = [*(2.0 ** -np.arange(12, 0, -1)).tolist(), 0.75, 0.9]  # end where so many of them are nearer
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
            tables.append(replace(table.some(some), n=n))
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

    def with_history(self, noisy: Sequence[Cells]) -> tuple[JobLayout, list[Cells]]:
        """Add what the plan has of earlier years to noisy counts, each of which then has its own variance.

        Nothing changes where the plan has no history, or it is added already.
        """
        if self._plan.history is None or self.tables[0].variances is not None:
            return self, [*noisy]
        layout = copy(self)
        layout.tables, counts = _add_history(self._plan, self.tables, noisy, self._plan.history.counts)
        return layout, counts

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


def _add_history(
    plan: ReleasePlan,
    tables: Sequence[MeasuredTable],
    noisy: Sequence[Cells],
    carried: Sequence[CarriedCounts],
) -> tuple[tuple[MeasuredTable, ...], list[Cells]]:
    """Return tables and their noisy counts with what is carried over from earlier years to their groups."""
    config = plan.config
    assert plan.history is not None
    assert config.history is not None
    years, changing = plan.history.years_to(config.release.year), config.history.changing
    rate = None if changing is None else 2 * float(changing)  # as many come as leave
    added = [
        add_history(table, counts[:], of_table, years, rate)
        for table, counts, of_table in zip(tables, noisy, carried, strict=True)
    ]
    of_cells = (replace(table, variances=own) for table, (_, own) in zip(tables, added, strict=True))
    return tuple(of_cells), [means for means, _ in added]


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
    for table in workload_of(plan).tables:
        if table.home is None or table.home not in geography.levels or table.work not in (None, *levels):
            continue
        names = dict.fromkeys((*plan.choices.pool_by, *table.attributes))
        kinds = int(np.prod([len(slots.categories[name]) for name in names], dtype=np.int64))
        rows = np.minimum(jobs, blocks * kinds)
        wide = geography.n_units(table.home)
        # Of all units, as a plan is tried on some of them, and then must keep what the whole can.
        all_rows = float(rows[rows > 0].mean()) * geography.n_units(plan.level)
        if int(rows.max()) * wide <= _MOST_KEPT and all_rows * wide <= _MOST_ROUNDED:
            kept.append(TableChoice(table.work, table.attributes, table.home, Fraction(0)))
    return tuple(dict.fromkeys(kept))


def estimate_factors(
    plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Cells], new: NewCells
) -> list[Cells]:
    """Fit expected homes to noisy counts of every table; return the factor of each cell of each table.

    Only runs of pools are in memory, of the first table, for which `new` makes room. Where it is the only
    one, the places of a run are fitted as if there were no others, and a run by each processor; several
    tables are fitted together as a whole.
    """
    first, learned = layout.tables[0], learn_from_batches(plan, layout, noisy)
    if not plan.secondary:
        factors = new("factors", int(first.offsets[-1]))

        def fit(part: slice) -> None:
            (factors[_cells(first, part)],) = estimate_part(plan, layout, noisy, part, learned)

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
    learned = learned._replace(margins=_margins(plan, [slice(None)] * len(layout.tables)))
    return fit_factors(layout.tables, noisy, groups, PublicModel(plan), runs, new, learned)


def learn_from_batches(plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Cells]) -> Learned:
    """Return what `learn` learns from batches that are spread over a plan."""
    parts = batches(plan)
    rows = layout.rows(parts[:: -(-int(layout.tables[0].offsets[-1]) // _TAUGHT)], kept=False)
    return learn(plan, rows, layout.choose(rows, noisy)[0], measured=not plan.secondary)


def estimate_part(
    plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Cells], part: slice, learned: Learned
) -> list[NDArray[Any]]:
    """Return what `estimate_factors` finds for one of the `batches` of a plan with one table."""
    rows = layout.rows([part], kept=False)
    counts, groups = layout.choose(rows, noisy), rows.groups.merged(1)
    factors = fit_factors(rows.measured, counts, groups, PublicModel(plan), learned=learned)
    return [values[:] for values in factors]


def _cells(table: MeasuredTable, groups: slice) -> slice:
    return slice(int(table.offsets[groups.start]), int(table.offsets[groups.stop]))


def estimate_homes(plan: ReleasePlan, rows: JobRows, noisy: Sequence[Cells]) -> Estimate:
    """Fit the expected homes of some rows, as if there were no others, to their noisy counts."""
    if plan.history is not None:
        parts = zip(plan.history.counts, plan.mechanism.tables(plan.numeric), rows.chosen, strict=True)
        carried = [counts.some(table, groups) for counts, table, groups in parts]
        measured, noisy = _add_history(plan, rows.measured, noisy, carried)
        rows = replace(rows, tables=(*measured, *rows.tables[len(measured) :]))
    learned = learn(plan, rows, noisy[0][:])._replace(margins=_margins(plan, rows.chosen))
    return estimate(rows.tables, noisy, rows.groups, PublicModel(plan), learned)


def _margins(plan: ReleasePlan, chosen: Sequence[Int64 | slice]) -> tuple[Int64, ...]:
    """Return the margins of some groups of each table but the first."""
    return tuple(groups.margins()[:, some] for groups, some in zip(plan.secondary, chosen[1:], strict=True))


def restore_estimate(plan: ReleasePlan, rows: JobRows, factors: Sequence[Float64]) -> Estimate:
    """Return the estimate of some rows from the factors of their cells (`JobLayout.choose`)."""
    return restore(rows.tables, factors, rows.groups, PublicModel(plan))


class _Distances(NamedTuple):
    """Where units are, and where bands of distances between them end.

    Centres of units are vectors from that of the earth, NaN for zones outside the region. Ends are squared
    lengths of straight lines; each band has half as many pairs of units as the next.
    """

    centres: Float64
    ends: Float64

    @classmethod
    def of(cls, geography: Geography, level: str, weights: Int64) -> _Distances:
        """Return those of a level, made once for all plans that are tried."""
        kept = _DISTANCES.setdefault(geography, {}).get(level)
        if kept is not None and kept[0] is weights:
            return kept[1]
        from geo_data.gravity import centres  # loads Numba, which takes longer than to import the rest

        vectors = centres(geography, level, weights).vectors
        places = np.linspace(0, len(vectors) - 1, min(_BAND_PLACES, len(vectors))).astype(int).tolist()
        square = np.concatenate([_squares(vectors, place) for place in places])
        square = square[square > 0]  # nor those without a place
        ends = np.unique(np.quantile(square, _BAND_PARTS)) if square.size else np.zeros(0)
        made = cls(vectors, ends)
        _DISTANCES[geography][level] = weights, made
        return made


_DISTANCES: WeakKeyDictionary[Geography, dict[str, tuple[Int64, _Distances]]] = WeakKeyDictionary()


class PublicModel:
    """The shares of the public model of a plan, of any cells; times what noisy counts taught it.

    Parameters
    ----------
    plan : ReleasePlan
    factors : Factors, optional
        By unit of every copy of the blocks, and by band: of distances from place to home; the last but one of
        zones outside the region, the last of homes in the unit of the place.

    Attributes
    ----------
    n_bands, n_units : int
    """

    def __init__(self, plan: ReleasePlan, factors: Factors | None = None) -> None:
        shares, cumulative = plan.destination_shares, plan.cumulative_weights
        ends = np.append(shares.starts[1:], plan.geography.n_blocks)
        self._plan, self._shares, self._factors = plan, shares, factors
        self._unit_weight = np.maximum(cumulative[ends] - cumulative[shares.starts], 1)
        self._parts, self._stops = plan.policy.n_parts, plan.policy.ends(plan.geography.n_blocks)
        # Of cells that were looked at last: places in a row mostly have the same.
        self._last: tuple[Int32, int, tuple[Int64, Float64, Float64]] | None = None
        self.n_units = shares.starts.size

    @cached_property
    def _distances(self) -> _Distances:
        plan = self._plan
        return _Distances.of(plan.geography, plan.level, plan.weights)

    @property
    def n_bands(self) -> int:
        """Those of distances, and two."""
        return self._distances.ends.size + 3

    def _bands(self, place: int, units: NDArray[np.integer]) -> Int64:
        unit = units % len(self._distances.centres)
        square = _squares(self._distances.centres, place, unit)
        band = np.searchsorted(self._distances.ends, square, side="right").astype(np.int64)
        band[np.isnan(square)] = self.n_bands - 2
        band[unit == place] = self.n_bands - 1
        return band

    def listed(self, places: Int32) -> Int64:
        """Return how many units the model has homes in, of those who work in each of some places."""
        row = np.searchsorted(self._plan.destinations, places // self._parts)
        return np.diff(self._shares.offsets)[row]

    def _listed(self, place: int) -> tuple[Int32, Float64]:
        """Return the units that the model has homes in, of those who work in a place, and their shares."""
        shares, unit = self._shares, place // self._parts
        row = int(np.searchsorted(self._plan.destinations, unit))
        entries = slice(int(shares.offsets[row]), int(shares.offsets[row + 1]))
        listed, share = shares.unit[entries], shares.share[entries].astype(np.float64)
        if self._factors is not None:
            share *= self._factors.band[self._bands(unit, listed)] * self._factors.unit[listed]
        return listed, share

    def _ends(self, cuts: Int32, stop: int) -> tuple[Int64, Float64, Float64]:
        """Return the unit that each cell begins in, and the last one ends in, and how far into it.

        And the least share of each cell.
        """
        last = self._last  # which other threads may replace
        if last is None or last[0] is not cuts or last[1] != stop:
            starts, cumulative = self._shares.starts, self._plan.cumulative_weights
            bounds = np.append(cuts, stop).astype(np.int64)
            unit = np.minimum(np.searchsorted(starts, bounds, side="right"), starts.size) - 1
            part = (cumulative[bounds] - cumulative[starts[unit]]) / self._unit_weight[unit]
            least = np.where(np.diff(cumulative[bounds]) > 0, _LEAST_SHARE, 0.0)
            last = self._last = cuts, stop, (unit, part, least)
        return last[2]

    def __call__(self, place: int, cuts: Int32) -> Float64:
        """Return the shares of the cells of a place, for the first block of each cell.

        They are above 0, however few are expected, but where nobody can live.
        """
        share = self.expected(place, cuts)
        return np.maximum(share, self._ends(cuts, int(self._stops[place % self._parts]))[2])

    def expected(self, place: int, cuts: Int32) -> Float64:
        """Return the shares that are expected, of many cells none."""
        units, share = self._listed(place)
        listed = np.zeros(self.n_units)
        listed[units] = share
        stop = int(self._stops[place % self._parts])
        unit, part, _ = self._ends(cuts, stop)
        before = np.append(0.0, np.cumsum(listed))
        inside = np.diff(before[unit] + listed[unit] * part)
        if self._parts > 1 and not inside.sum() > 0:  # the model expects nobody of this part
            cumulative = self._plan.cumulative_weights
            inside = np.diff(cumulative[np.append(cuts, stop)]).astype(np.float64)
        return inside / (inside.sum() if self._parts > 1 else before[-1])

    def bands(self, place: int, cuts: Int32) -> Int64:
        """Return the band of the unit that each cell of a place begins in."""
        unit = np.searchsorted(self._shares.starts, cuts, side="right") - 1
        return self._bands(place // self._parts, unit)

    def pieces(self, place: int, cuts: Int32) -> Pieces:
        """Return the cells of a place, cut where units begin, as far as the model expects anybody there."""
        units, _ = self._listed(place)
        stop = int(self._stops[place % self._parts])
        starts = self._shares.starts[units]
        fine = np.union1d(cuts, starts[(starts > cuts[0]) & (starts < stop)]).astype(np.int32)
        share = self.expected(place, fine)
        some = np.flatnonzero(share > 0)
        cell = np.searchsorted(cuts, fine[some], side="right") - 1
        unit = np.searchsorted(self._shares.starts, fine[some], side="right") - 1
        return Pieces(cell, share[some], unit, self._bands(place // self._parts, unit))


def _squares(vectors: Float64, place: int, units: NDArray[np.integer] | slice = slice(None)) -> Float64:
    """Return the squared length of the straight lines from a unit to others, of a sphere of radius 1."""
    return np.asarray(np.maximum(2.0 - 2.0 * (vectors[units] @ vectors[place]), 0.0))


def learn(plan: ReleasePlan, rows: JobRows, counts: NDArray[Any], *, measured: bool = False) -> Learned:
    """Teach the public model what noisy counts of the first table show, of some rows.

    If `measured`, it is also found out how far counts are from it.
    """
    public, table = PublicModel(plan), rows.measured[0]
    groups = JobGroups(rows.groups.n, rows.groups.place, rows.groups.member[:1]).merged(1)
    cells = np.add.reduceat(table.k[groups.member[0]], groups.starts[:-1])
    size = cells + np.diff(groups.starts) * public.listed(groups.place[groups.starts[:-1]])
    counted = [
        group
        for i in teaching_places(size).tolist()
        for group in _counted_alike(public, table, groups, counts, i)
    ]
    model = PublicModel(plan, learn_factors(counted, public.n_bands, public.n_units))
    if not measured:
        return Learned(model)
    sample = np.arange(0, groups.n_places, -(-int(cells.sum()) // _MEASURED))
    row = segment_indices(groups.starts[sample], np.diff(groups.starts)[sample])
    which, member = np.unique(groups.member[0, row], return_inverse=True)
    some = JobGroups(groups.n[row], groups.place[row], member[np.newaxis].astype(np.int32))
    part = table.some(which)
    noisy = counts[segment_indices(table.offsets[which], table.k[which])]
    return Learned(model, measure_deviations(part, noisy, some, model))


def teaching_places(size: Int64) -> Int64:
    """Return places, spread over all of them, whose counts teach the public model: as many as memory is for.

    `size` is about the number of `PublicModel.pieces` of each.
    """
    return np.arange(0, size.size, -(-int(size.sum()) // _TAUGHT))


def _counted_alike(
    model: PublicModel, table: MeasuredTable, groups: JobGroups, counts: Int64, position: int
) -> Iterator[Counted]:
    """Yield the noisy counts of a place, added up over groups that are counted in the same cells."""
    member = groups.member[0, groups.rows(position)]
    domain, cuts = table.domain[member], table.domains
    for d in np.unique(domain).tolist():
        alike = member[domain == d]
        cells = segment_indices(table.offsets[alike], table.k[alike]).reshape(alike.size, -1)
        place = int(groups.place[groups.starts[position]])
        pieces = model.pieces(place, cuts.cuts[cuts.offsets[d] : cuts.offsets[d + 1]])
        yield Counted(pieces, counts[cells].sum(axis=0), int(table.n[alike].sum()))


def drawn_cells(plan: ReleasePlan, rows: JobRows, fit: Estimate) -> tuple[synth.Domains, OriginShares]:
    """Return the cells that whole jobs are given to, a domain for each place, and shares by domain."""
    place = rows.groups.place[rows.groups.starts[:-1]] // plan.policy.n_parts
    row = np.searchsorted(plan.destinations, place).astype(np.int32)
    return fit.domains(plan.geography.n_blocks), plan.destination_shares.for_domains(row)


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
    starts = plan.destination_shares.starts
    rounding = Rounding(fit, starts if plan.implicates.of_run == 1 else None)
    stream = key.stream(f"rounding{implicate}", batch)
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
