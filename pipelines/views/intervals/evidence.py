"""From a public folder to posterior draws of the home of every job: what was published, and the public model.

All of it is in the folder: noisy counts in `measurements`, or draws from urns in the OD files; in `plan` the
cells, the certified prior and retention of the urns, and the shares of the public model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
from numpy.typing import NDArray

import synth
from geo_data.geography import Geography
from geo_data.jobs import Slots
from geo_data.od_files import count_columns
from geo_data.proxy_truth import Assumptions, attribute_concentrations
from pipelines.drawing.estimating import JobLayout, PublicModel, teaching_places
from pipelines.plans.measured import MeasuredGroups, TableChoice
from pipelines.plans.plan import ReleasePlan
from pipelines.release.description import file_names
from pipelines.release.intervals import interval_tables
from pipelines.release.measurements import measurement_files, read_measurements
from pipelines.storage.parquet_form import FormError
from pipelines.views.folder import WHOLE_COPY, PublicReleaseError, blame_release, not_as_released
from pipelines.views.release import Release
from synth.arrays import find_keys
from synth.dirichlet.parameters import DirichletParameters
from synth.geometric.measured import JobGroups, MeasuredTable
from synth.posterior.estimation import Cells
from synth.posterior.evidence import URN, Evidence
from synth.posterior.implicates import Areas, Attributes, BlockDraws, Implicates, Published
from synth.posterior.learning import Counted, Factors, Pieces, learn_factors
from synth.posterior.recalibration import MeasuredFlows

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_ROWS = 1 << 18  # of a data file that are in memory
_CELLS = 1 << 24  # of measured tables that are read at once
_WIDER = 1.5  # residents differ by attributes less evenly than proxy truth has it: found on two regions


@dataclass(frozen=True, eq=False)
class PlaceDraws:
    """Posterior draws of the homes of some jobs."""

    rows: slice  # The rows of `JobDraws` whose jobs these are
    homes: Int32  # Home unit, or block, of each job, row after row


class JobDraws:
    """Posterior draws of the home of every job of a release."""

    def __init__(
        self, release: Release, draws: int, key: synth.RunKey, done: Callable[[int, int], None]
    ) -> None:
        plan = release.plan
        self.plan, self.draws, geography, policy = plan, draws, plan.geography, plan.policy
        slots, levels = plan.pools.slots, [*geography.levels, geography.block_level]
        self.tables = interval_tables(plan)
        homes = [_level_of(geography, str(table.home)) for table in self.tables]
        self.home_level = max([plan.level, *homes], key=levels.index)
        # Blocks are drawn inside these units afterwards: nothing tells the blocks of a job's unit apart.
        coarser = [level for level in homes if level != geography.block_level]
        self._unit_level = max([plan.level, *coarser], key=levels.index)
        looked_at = (*plan.attributes, *(name for t in self.tables for name in t.attributes))
        names = [name for name in dict.fromkeys(looked_at) if name in slots.attributes]

        def starts_of(areas: str) -> Int32:
            return geography.starts(areas).astype(np.int32)

        # Places: units of the model, parted where pools have different cells, or homes in different parts.
        self.work_level = level = work_level(plan)
        # Of slots of a pool that are alike the first, and how many these are: a nation has few such runs.
        _, times = slots.counted()
        first = np.union1d(np.cumsum(times) - times, plan.pools.offsets[:-1])
        times, alike = np.diff(np.append(first, len(slots))), slots.take(first)
        pool = np.searchsorted(plan.pools.offsets, first, side="right").astype(np.int32) - 1
        domain = plan.numeric.pools.domain[pool].astype(np.int64)
        unit = geography.unit_of(level, alike.work).astype(np.int64)
        pairs, place = np.unique(unit * (domain.max() + 1) + domain, return_inverse=True)
        unit_of_place = (pairs // (domain.max() + 1)).astype(np.int32)
        codes = [alike.attributes[name].astype(np.int64) for name in names]
        key_of = np.stack([place, alike.work, pool, *codes])
        order = np.lexsort(key_of[::-1])
        keys = key_of[:, order]
        start = np.flatnonzero(np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0)))
        row = order[start]
        head = first[row]
        self.work = slots.work[head]
        self.attributes = {name: slots.attributes[name][head] for name in names}
        self.jobs = np.add.reduceat(times[order], start)

        tables, evidence = _published(release)
        member = [pool[row], *(groups.find(slots.take(head)) for groups in plan.secondary)]
        categories = {
            k: np.stack([slots.attributes[name][head][first] for name in choice.by]).astype(np.int64)
            for k, choice in enumerate(plan.choices.tables, 1)
            for first in [np.unique(member[k], return_index=True)[1]]
            if len(choice.by) > 1
        }
        self.measured = _measured_flows(plan, level, tables[0], evidence[0])
        cuts = _common_cuts(tables[0])
        differ = attribute_concentrations(geography, plan.level, slots)
        variances: dict[int, NDArray[np.float64]] = {}
        # Homes that are no units of a level are sums of units, or parts in which units are alike.
        tables_read = [
            (t.work, t.attributes, t.home if t.home in geography.levels else plan.level) for t in self.tables
        ]
        # And flows that differ by each attribute
        tables_read += [(plan.level, (name,), plan.level) for name in names]
        for choice in dict.fromkeys(tables_read):
            groups = MeasuredGroups(TableChoice(*choice, Fraction(1, 2)), slots, geography, policy)
            starts = starts_of(choice[2])
            if choice[0] is not None and set(choice[1]) <= set(plan.pools.pooling.by):
                starts = np.intersect1d(cuts, starts)  # sums of what pools say of their cells, which are many
            if choice[0] == geography.block_level:
                variances[len(tables)] = np.full(groups.table.n.size, Assumptions().blocks.common)
            if choice[1]:
                variances[len(tables)] = _differences(groups.find(slots), choice[1], slots, differ)
            tables.append(_table(groups.table.n, groups.table.domain, starts, plan))
            member.append(groups.find(slots.take(head)))
        # A table of whole places, for its cells: homes are told apart by unit.
        part = plan.numeric.domains.part[pairs % (domain.max() + 1)]
        tables.append(_table(np.bincount(place, times), part, starts_of(self._unit_level), plan))
        member.append(place[row].astype(np.int32))

        above = levels[max(0, levels.index(level) - 1)]
        work_area = geography.unit_of(above, geography.starts(level)[unit_of_place]).astype(np.int64)
        groups_of_jobs = JobGroups(self.jobs, place[row].astype(np.int32), np.stack(member).astype(np.int32))
        published = Published(tables, evidence, groups_of_jobs)
        prior = _Prior(plan, level, unit_of_place, part).learned(published)
        areas = Areas(
            work_area,
            starts_of(above),
            starts_of(plan.level),
            np.unique(unit_of_place, return_inverse=True)[1].astype(np.int64),
            geography.external_blocks.astype(np.int32),
            prior.bands,
        )
        labels = np.stack([plan.pools.place, *plan.pools.strata.values()]).astype(np.int64)
        self._implicates = Implicates(
            published,
            prior,
            areas,
            Attributes(variances, categories, labels),
            draws,
            key.stream("intervals", 0),
            done,
        )
        self._groups = groups_of_jobs
        self._closed = np.logical_and.reduceat(geography.nobody_lives, geography.starts(self.home_level))
        self._moves = key.stream("moved homes", 0)
        self._blocks = None
        if self.home_level != self._unit_level:
            # As proxy truth has it: around the public weights of the blocks of a unit.
            total = np.add.reduceat(plan.weights, geography.starts(plan.level))
            of_block = total[geography.units_of_blocks(plan.level)]
            part = np.divide(plan.weights, of_block, out=np.zeros(of_block.size), where=of_block > 0)
            stream = key.stream("blocks of intervals", 0)
            self._blocks = BlockDraws(Assumptions().homes * part, draws, stream)

    def places(self) -> Iterator[PlaceDraws]:
        """Yield the draws of all jobs, place by place, once."""
        geography = self.plan.geography
        domains = self._implicates.domains()
        unit = geography.unit_of(self._unit_level, domains.cuts)
        for i, cells in enumerate(self._implicates.places()):
            rows = self._groups.rows(i)
            if self._blocks is None:
                homes = unit[domains.offsets[i] + cells]
            else:
                cuts = domains.cuts[domains.offsets[i] : domains.offsets[i + 1]]
                homes = self._blocks.draw(cuts, int(domains.ends[i]), cells)
            yield PlaceDraws(rows, self._moved(homes))
        del self._implicates  # a gigabyte, which the tables need

    def _moved(self, homes: Int32) -> Int32:
        """Give jobs with homes where nobody can live the homes of others of their place, in the same draw.

        Noise alone may have put somebody there.
        """
        for row, closed in zip(homes, self._closed[homes], strict=True):
            if closed.any() and not closed.all():
                others = row[~closed]
                row[closed] = others[self._moves.words(int(closed.sum())) % np.uint64(others.size)]
        return homes


def measured_flows(release: Release) -> MeasuredFlows:
    """Return what the first table that was measured, or the urns, say of flows between units."""
    (table, *_), (evidence, *_) = _published(release)
    return _measured_flows(release.plan, work_level(release.plan), table, evidence)


def work_level(plan: ReleasePlan) -> str:
    """Return the level of the units of work of which pools tell, that of the public model or coarser."""
    levels = [*plan.geography.levels, plan.geography.block_level]
    shared = [plan.pools.pooling.level] if plan.pools.shared.any() else []
    return min([plan.level, *shared], key=levels.index)


def _published(release: Release) -> tuple[list[synth.Table], list[Evidence]]:
    """Return the tables that were measured, or that of the urns, and what was published of them."""
    plan, numeric = release.plan, release.plan.numeric
    if not plan.measures:
        urns = synth.Table(numeric.pools.n, numeric.pools.domain, numeric.domains)
        return [urns], [_drawn(release, plan, urns)]
    missing = [name for name in measurement_files(plan)[0] if not (release.public / name).is_file()]
    if missing:
        rule = f"there is no {missing[0]}, the noisy counts that intervals are made from"
        raise PublicReleaseError(f"{release.public}: {rule}. Fix: {WHOLE_COPY}")
    layout = JobLayout(plan)
    try:
        stored = read_measurements(release.public, plan, layout)[0]
        layout, added = layout.with_history(stored)
        if layout.tables[0].variances is None:
            noisy = [_read_counts(plan, *part) for part in zip(stored, layout.tables, strict=True)]
        else:
            noisy = [counts[:] for counts in added]
    except FormError as error:
        raise not_as_released(release.public, error) from error
    evidence = [Evidence.noise(table, counts) for table, counts in zip(layout.tables, noisy, strict=True)]
    return [*layout.tables], evidence


def _read_counts(plan: ReleasePlan, stored: Cells, table: MeasuredTable) -> NDArray[np.integer]:
    """Return the noisy counts of a table, as small as they may be: there may be hundreds of millions."""
    farthest = int(table.n.max()) + table.parameters.limit()
    # Of estimated jobs nothing tells how far noisy counts may be from them.
    kind = np.min_scalar_type(-1 - farthest) if plan.fills_slots else np.dtype(np.int64)
    counts = np.empty(int(table.offsets[-1]), kind)
    for begin in range(0, counts.size, _CELLS):
        counts[begin : begin + _CELLS] = stored[begin : begin + _CELLS]
    return counts


def _measured_flows(
    plan: ReleasePlan, work_level: str, table: synth.Table, evidence: Evidence
) -> MeasuredFlows:
    """Return what was published of homes in units of the public model, and of work in units of a level."""
    geography, domains = plan.geography, table.domains
    stop = np.append(domains.cuts[1:], 0)
    stop[domains.offsets[1:] - 1] = domains.ends
    first, last = (
        geography.unit_of(plan.level, block % geography.n_blocks).astype(np.int64)
        for block in (domains.cuts, stop - 1)
    )
    work = geography.unit_of(work_level, plan.pools.block).astype(np.int64)
    return MeasuredFlows(table, evidence, first, last, work, exact=plan.fills_slots)


class _Prior:
    """The public model by number of place: that of its unit, or the mean of those in it.

    Parameters
    ----------
    plan : ReleasePlan
    level : str
        Of the units that places are, or are parts of.
    unit_of_place, part_of_place : ndarray of int32, shape (n_places,)
        The unit, and the part that homes are in.
    factors : Factors, optional
    """

    def __init__(
        self,
        plan: ReleasePlan,
        level: str,
        unit_of_place: Int32,
        part_of_place: Int32,
        factors: Factors | None = None,
    ) -> None:
        geography, slots, policy = plan.geography, plan.pools.slots, plan.policy
        self._of = plan, level, unit_of_place, part_of_place
        self._model = PublicModel(plan, factors)
        key = geography.unit_of(plan.level, slots.work).astype(np.int64) * policy.n_parts + slots.home_part
        finer, jobs = np.unique(key, return_counts=True)
        unit, part = np.divmod(finer, policy.n_parts)
        owner = geography.unit_of(level, geography.starts(plan.level)[unit])
        # By place, units of the model and how many of the jobs of all of these are in each.
        self._finer: list[tuple[list[int], list[float]]] = []
        for of_place, homes in zip(unit_of_place.tolist(), part_of_place.tolist(), strict=True):
            some = np.flatnonzero((owner == of_place) & (part == homes))
            self._finer.append((finer[some].tolist(), (jobs[some] / jobs[some].sum()).tolist()))

    def __call__(self, place: int, cuts: Int32) -> NDArray[np.float64]:
        """Return the shares of the cells of a place, for the first block of each cell."""
        shares = [
            weight * self._model.expected(unit, cuts)
            for unit, weight in zip(*self._finer[place], strict=True)
        ]
        return np.asarray(np.sum(shares, axis=0))

    def bands(self, place: int, cuts: Int32) -> Int64:
        """Return the band of each cell of a place, as seen from the unit that has most of its jobs."""
        units, weights = self._finer[place]
        return self._model.bands(units[int(np.argmax(weights))], cuts)

    def learned(self, published: Published) -> _Prior:
        """Return the model times factors of bands that what was published of the first table teaches it.

        Those of units of homes, and what is uncertain of both, `Implicates` finds out itself.
        """
        table, evidence, members = published.tables[0], published.evidence[0], published.members()
        size = [
            int(table.k[groups[0]] + self._model.listed(np.array(units, np.int32)).sum())
            for groups, (units, _) in zip(members, self._finer, strict=True)
        ]
        counted = []
        for place in teaching_places(np.array(size, np.int64)).tolist():
            groups = members[place]
            counts = evidence.unbiased(table, groups)[0].sum(axis=0)
            cells = slice(*table.domains.offsets[table.domain[groups[0]] :][:2].tolist())
            pieces = self._pieces(place, table.domains.cuts[cells])
            counted.append(Counted(pieces, counts, int(table.n[groups].sum())))
        model = self._model
        band = learn_factors(counted, model.n_bands, model.n_units).band
        return _Prior(*self._of, Factors(band, np.ones(model.n_units)))

    def _pieces(self, place: int, cuts: Int32) -> Pieces:
        """Return the cells of a place, cut where units begin, again for each unit of the model in it."""
        cut = [self._model.pieces(unit, cuts) for unit in self._finer[place][0]]
        share = [pieces.share * weight for pieces, weight in zip(cut, self._finer[place][1], strict=True)]
        return Pieces(
            np.concatenate([pieces.cell for pieces in cut]),
            np.concatenate(share),
            np.concatenate([pieces.unit for pieces in cut]),
            np.concatenate([pieces.band for pieces in cut]),
        )


def _level_of(geography: Geography, areas: str) -> str:
    """Return the level of some areas; of non-nesting ones the coarsest whose units they gather."""
    if areas not in geography.non_nesting_areas:
        return areas
    nested = (level for level in geography.levels if geography.lie_within(level, areas))
    return next(nested, geography.block_level)


def _table(n: NDArray[Any], part: Int32, cuts: NDArray[Any], plan: ReleasePlan) -> synth.Table:
    """Return a table of groups, each of homes of a part, whose cells begin at some cuts and at its begin."""
    domains = synth.Domains.of_parts(plan.geography.n_blocks, cuts, plan.policy)
    return synth.Table(n.astype(np.int64), part.astype(np.int32), domains)


def _differences(
    group: Int32, attributes: Sequence[str], slots: Slots, concentrations: Mapping[str, float]
) -> NDArray[np.float64]:
    """Return how far jobs of each group are taken to be from all: relative variances of Dirichlet shares."""
    first = np.unique(group, return_index=True)[1]
    variance = np.zeros(first.size)
    for name in attributes:
        codes = slots.attributes[name]
        share = np.bincount(codes) / codes.size
        variance += 1 / (concentrations[name] * share[codes[first]])
    return _WIDER * variance


def _common_cuts(table: synth.Table) -> Int32:
    """Return the cuts that all domains of a part have: sums of their cells are known only between these."""
    domains = table.domains
    cuts, times = np.unique(domains.cuts, return_counts=True)
    return cuts[times == np.bincount(domains.part)[domains.policy.part(cuts)]].astype(np.int32)


def _drawn(release: Release, plan: ReleasePlan, table: synth.Table) -> Evidence:
    """Count what was drawn from every urn by cell, in all data sets that were cut from the first run."""
    numeric = plan.numeric
    parameters = numeric.parameters
    if not isinstance(parameters, DirichletParameters):
        rule = "its mechanism measures no tables and is not Dirichlet resampling, so it has no intervals"
        raise PublicReleaseError(f"{release.public}: {rule}. Fix: use its counts without intervals")
    # Cells of all urns may be tens of millions: the smallest type that holds their draws.
    kind = np.min_scalar_type(-1 - int(numeric.pools.m.max()))
    counts, drawn = np.zeros(int(table.offsets[-1]), kind), np.zeros(table.n.size, np.int64)
    for below in plan.implicates.folders[: plan.implicates.of_run]:
        for pool, home, jobs in _released(release, plan, below):
            if pool.size and (pool.min() < 0 or home.min() < 0):
                rule = "the data have jobs that are not in the plan"
                raise PublicReleaseError(f"{release.public}: {rule}. Fix: {WHOLE_COPY}")
            cell = numeric.domains.locate(table.domain[pool], home)
            np.add.at(counts, table.offsets[pool] + cell, jobs.astype(kind))
            np.add.at(drawn, pool, jobs)  # as they are: the small type holds what a plan draws, and no more
    if not np.array_equal(drawn, numeric.pools.m):
        raise PublicReleaseError(
            f"{release.public}: the data do not have the jobs of the plan. Fix: {WHOLE_COPY}"
        )
    classes = [np.array(urns.prior, np.float64) / parameters.denominator for urns in parameters.classes]
    strata, retention = len(classes[0]), np.array([float(f) for f in parameters.retention])
    classes_of_cells = np.empty(counts.size, np.min_scalar_type(strata * len(classes)))
    for i, (domain, pool_class) in enumerate(
        zip(table.domain.tolist(), numeric.pool_class.tolist(), strict=True)
    ):
        stratum = numeric.domains.stratum[slice(*numeric.domains.offsets[domain : domain + 2])]
        classes_of_cells[slice(*table.offsets[i : i + 2])] = pool_class * strata + stratum.astype(np.int64)
    return Evidence(URN, counts, classes_of_cells, np.concatenate(classes), np.tile(retention, len(classes)))


def _released(release: Release, plan: ReleasePlan, below: str) -> Iterator[tuple[Int64, Int32, Int64]]:
    """Yield pool, home and number of jobs of the rows of a data set."""
    names, by = file_names(plan.config), plan.pools.pooling.by
    geography, slots = plan.geography, plan.pools.slots
    pool = np.repeat(np.arange(plan.pools.n.size), plan.pools.n)
    if len(by) > 1:  # told apart by the file of jobs only, whose rows are the slots in their order
        begin = 0
        for frame in _frames(release, below + names["jobs_parquet"], ["h_geocode"]):
            pools = pool[begin : begin + len(frame)]
            begin += len(frame)
            if pools.size < len(frame):
                rule = "there are more jobs than the plan has"
                raise PublicReleaseError(f"{release.public}: {rule}. Fix: {WHOLE_COPY}")
            home = geography.number(frame["h_geocode"])
            yield pools, home, np.ones(pools.size, np.int64)
        return
    columns = count_columns(slots.categories)[by[0]] if by else ("S000",)
    slots_alike, times = slots.counted()
    category: Any = slots_alike.attributes[by[0]] if by else 0

    def key(category: Any, work: NDArray[Any], part: NDArray[Any]) -> Int64:
        return (work.astype(np.int64) * plan.policy.n_parts + part) * len(columns) + category

    keys, first = np.unique(key(category, slots_alike.work, slots_alike.home_part), return_index=True)
    pool_of = pool[(np.cumsum(times) - times)[first]]
    for kind in ("od_parquet", "aux_parquet"):
        if kind in names:
            for frame in _frames(release, below + names[kind], ["w_geocode", "h_geocode", *columns]):
                work, home = (geography.number(frame[name]) for name in ("w_geocode", "h_geocode"))
                for code, name in enumerate(columns):
                    jobs = frame[name].to_numpy().astype(np.int64)
                    nonzero = np.flatnonzero(jobs > 0)
                    row_keys = key(code, work[nonzero], plan.policy.part(home[nonzero]))
                    position, there = find_keys(keys, row_keys)
                    yield (
                        np.where(there, pool_of[position], -1),
                        home[nonzero],
                        jobs[nonzero],
                    )


def _frames(release: Release, name: str, columns: list[str]) -> Iterator[pd.DataFrame]:
    path = release.public / name
    with blame_release(path):
        for batch in ds.dataset(path, format="parquet").to_batches(columns=columns, batch_size=_ROWS):
            yield batch.to_pandas()
