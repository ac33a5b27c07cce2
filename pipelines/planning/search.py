"""Choosing what the configuration leaves to the planner: the plan that loses least on proxy truth.

A candidate has a mechanism, cells (the units of a level, or areas of T expected workers), pools (of single
work blocks or of blocks that share, of all jobs or by attributes), and perhaps a small table of residents
that is measured beside that of the pools, with a share of epsilon. Its loss is the mean loss over the
workload of its releases of proxy truth for a public sample of destinations (`pipelines.planning.trials`). The
search starts at the best of candidates that are far apart: the units of each level, and areas of few to many
expected workers in pools of single work blocks and in pools of all blocks of a unit. From there it changes
one choice at a time to whichever value loses least: a number to one of those near it, units to others or to
areas that lost least so far, anything else to any other; attributes of pools also without the small table,
and finer units also with pools that share more. It ends where no change loses less. A mechanism that is left
open is that which loses least where each one's search ends; one, or units, that lose half as much again as
the best start are not searched further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import cycle, product
from math import inf
from operator import attrgetter

import synth
from geo_data.arguments import check_type
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.trials import ParallelMap, Trial, draw_sample, thread_map
from pipelines.planning.workplaces import FEWEST_TOLD, WorkplaceShares
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices, ReleasePlan
from pipelines.plans.workload import Workload, resolve_workload
from pipelines.storage.progress import Progress, ProgressCounter

_POOL_LIMITS = (1, 32, 512)  # jobs below which work blocks share a pool, and more than any has
_SHARES = tuple(map(Fraction, ("0.03", "0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "0.9")))  # of a small table
_FIRST_SHARES = (Fraction("0.05"), Fraction("0.3"))
_HOPELESS = 1.5  # a mechanism or cells whose best start loses so many times as much are not searched further
_STEPS = (-2, -1, 1, 2)  # between values of T, which are powers of two
_SAMPLE_JOBS = 40_000  # about as many is a candidate tried on that measures tables
_RESAMPLED_JOBS = 120_000  # and one that resamples, which is quick: of few jobs residents are less by chance

_Move = Callable[[Choices], Iterable[Choices]]
_Sharing = tuple[str, int]
_Sizes = tuple[float, ...]


def make_plan(
    config: ReleaseConfig,
    inputs: PublicInputs | None = None,
    *,
    progress: Progress | None = None,
    parallel_map: ParallelMap | None = None,
) -> ReleasePlan:
    """Make the plan of a release.

    Parameters
    ----------
    config : ReleaseConfig
    inputs : PublicInputs, optional
        What `read_public_inputs` gave, to spare reading twice.
    progress : Progress, optional
        Told how many candidates have been tried, of an estimated total; then how many classes of pools are
        calibrated, and how many there are.
    parallel_map : callable, optional
        How candidates are tried: called, as `map` is, with a function and items. By default threads try two
        at once of those that measure tables; the plan is always the same.

    Returns
    -------
    ReleasePlan

    Raises
    ------
    geo_data.InputError
        If a public input is unusable.
    synth.BudgetTooSmallError
        If no prior certifies the requested epsilon and delta.
    """
    check_type(config, ReleaseConfig, "config", "load_config")
    inputs = read_public_inputs(config) if inputs is None else inputs
    check_type(inputs, PublicInputs, "inputs", "read_public_inputs")
    tried = ProgressCounter(progress)
    choices = choose(config, inputs, tried, parallel_map)
    tried.end()
    return assemble(config, inputs, inputs.slots, choices, config.privacy.delta, progress=progress)


def choose(
    config: ReleaseConfig,
    inputs: PublicInputs,
    tried: ProgressCounter | None = None,
    parallel_map: ParallelMap | None = None,
) -> Choices:
    """Choose what the configuration leaves to the planner.

    Where no candidate that was tried can be certified, one of the coarsest cells is the choice: planning with
    it says why, and which epsilon would be enough for it.
    """
    tried = tried or ProgressCounter()
    mechanisms = sorted(config.mechanisms, key=_measures, reverse=True)
    searches = [_Search(config, inputs, name, tried, parallel_map) for name in mechanisms]
    starts = [search.starts() for search in searches]
    if len(searches) == 1:
        return searches[0].best(starts[0])
    first = [best for best, *_ in starts]
    common = _common(searches, first)
    most = _HOPELESS * min(map(common.loss, first))
    hopeful = [i for i, best in enumerate(first) if common.loss(best) <= most]
    ends = [searches[i].best(starts[i]) for i in hopeful]
    return ends[0] if len(ends) == 1 else _common(searches, ends).best_of(ends)


def _common(searches: list[_Search], candidates: list[Choices]) -> _Search:
    """Return the search whose sample is the largest on which all of these can be tried."""
    last = searches[-1]
    return last if all(last.loss(choices) < inf for choices in candidates) else searches[0]


def _measures(mechanism: str) -> bool:
    return "tables" in synth.MECHANISMS[mechanism].settings


class _Search:
    """The search for the plan of one mechanism that loses least."""

    def __init__(
        self,
        config: ReleaseConfig,
        inputs: PublicInputs,
        mechanism: str,
        tried: ProgressCounter,
        parallel_map: ParallelMap | None,
    ) -> None:
        settings, level, slots = config.plan, inputs.model.level, inputs.slots
        jobs = slots.jobs(inputs.geography.n_blocks)
        measures, unknown = _measures(mechanism), config.unknown_attributes
        workload = resolve_workload(
            config.workload,
            inputs.model.geography,
            level,
            slots,
            unknown,
            records=config.protects_records,
        )
        size = _SAMPLE_JOBS if measures else _RESAMPLED_JOBS
        sample = draw_sample(inputs, jobs, jobs > 0, size, workload, tuple(slots.attributes))
        self._trial, self._tried = Trial.of(config, inputs, sample), tried
        self._losses: dict[Choices, float] = {}
        # What is resampled is tried so soon that threads would wait for each other.
        self._map = parallel_map or (thread_map if measures else map)
        self._one_attribute = config.jobs.format == "lodes"  # at a time is known of a job
        self._strata = _strata(config, inputs, () if measures else (*config.secret,))
        least, *larger = _POOL_LIMITS
        if config.protects_records and config.workplaces is None:
            least = FEWEST_TOLD
        limits = (least, *larger, int(jobs.max()) + 1)
        self._sharing = _sharing(config, inputs, settings.pool_level or level, limits)
        self._limits = sorted({limit for _, limit in self._sharing})
        self._tables = _small_tables(config, inputs, workload) if measures else []
        shares = WorkplaceShares(slots, inputs.geography, level, (*config.secret,), homes_tell=measures)
        self._workplaces = shares if config.measures_workplaces else None
        self._epsilon, self._workload = config.privacy.epsilon, workload
        fixed = Choices(
            settings.pool_level or level,
            settings.pool_below or least,
            (float(settings.split_threshold or 1),),
            self._strata[0],
            workplaces=self._workplaces.first if self._workplaces else (),
            mechanism=None if config.release.mechanism else mechanism,
        )
        self._units = [
            replace(fixed, thresholds=(), cell_level=name)
            for name in _cell_levels(config, inputs, workload, measures=measures)
        ]
        adaptive = settings.coarsening in (None, "balanced", "threshold") and settings.split_threshold is None
        self._scales = _scales(int(jobs.max()), measures) if adaptive else [[fixed.thresholds]]
        scales = [] if settings.coarsening == "units" else self._scales
        self._sized = [replace(fixed, thresholds=sizes) for scale in scales for sizes in scale[::-4]]
        self._measures = measures

    def starts(self) -> list[Choices]:
        """Return the best of candidates that are far apart, of equal ones the coarsest cells first.

        One, or as many as the sample has draws: a small region has several valleys, and is tried soon. Units
        that are hopeless here are not tried again.
        """
        # Cells of pools that are shared may be others than those of single work blocks. Where tables are
        # measured, pools that need not be shared are tried first: a small table takes over from small pools.
        alone, shared = (
            [_shared(cells, sharing) for cells in self._sized]
            for sharing in (self._sharing[0], self._sharing[-1])
        )
        units = [_shared(cells, self._sharing[0]) for cells in self._units]
        candidates = [*alone, *units]
        self._tried.expect(2 * len(candidates))
        if not self._measures or self.loss(self.best_of(candidates)) == inf:
            candidates = list(dict.fromkeys((*alone, *shared, *units)))
        self.best_of(candidates)
        best, *_ = starts = sorted(candidates, key=self._loss)
        most = _HOPELESS * self._loss(best)
        self._units = [cells for cells in self._units if self._loss(cells) <= most]
        return starts[: self._trial.sample.draws]

    def best(self, starts: Iterable[Choices]) -> Choices:
        """Return the best of where the search ends from each start."""
        return self.best_of([self.descend(start) for start in starts])

    def descend(self, best: Choices) -> Choices:
        """Return where no change of one choice loses less."""
        moves: list[_Move] = [
            self._other_tables, self._other_strata, self._other_sharing, self._other_cells, self._traded,
            self._other_workplaces,
        ]  # fmt: skip
        stuck = 0
        for move in cycle(moves):
            nearest = self.best_of([best, *filter(self._is_possible, move(best))])
            stuck = stuck + 1 if nearest == best else 0
            best = nearest
            if stuck == len(moves):
                break
        return best

    def best_of(self, candidates: Iterable[Choices]) -> Choices:
        """Return the candidate that loses least, the first of equal ones; one alone is not tried."""
        unique = list(dict.fromkeys(candidates))
        if len(unique) > 1:
            self._try(unique)
        return min(unique, key=self._loss)

    def _loss(self, choices: Choices) -> float:
        return self._losses.get(choices, inf)

    def loss(self, choices: Choices) -> float:
        """Return what a candidate loses."""
        self._try([choices])
        return self._losses[choices]

    def _try(self, candidates: list[Choices]) -> None:
        new = [choices for choices in candidates if choices not in self._losses]
        _ = self._trial.sample.homes  # drawn once, and not wherever candidates are tried
        for choices, loss in zip(new, self._map(self._trial, new), strict=True):
            self._tried()
            self._losses[choices] = self._with_workplaces(choices, loss)

    def _with_workplaces(self, choices: Choices, loss: float) -> float:
        """Add what is lost in tables of workplaces, of which trials have none, where these are measured."""
        if self._workplaces is None:
            return loss
        tables = self._workload.tables
        lost = [self._workplaces.loss(choices, self._epsilon, table) for table in tables]
        return loss + self._workload.objective(lost)

    def _other_cells(self, choices: Choices) -> Iterator[Choices]:
        """Yield those with T near its own, or, from units, of the areas that lost least; and with units."""
        scale = next((scale for scale in self._scales if choices.thresholds in scale), None)
        if scale is not None:
            number = scale.index(choices.thresholds)
            near = (number + step for step in _STEPS if 0 <= number + step < len(scale))
            yield from (replace(choices, thresholds=scale[i]) for i in near)
        areas = [] if scale is not None or self._measures else filter(attrgetter("thresholds"), self._losses)
        for other in (*sorted(areas, key=self._loss)[:1], *self._units):
            yield replace(choices, thresholds=other.thresholds, cell_level=other.cell_level)

    def _other_sharing(self, choices: Choices) -> Iterator[Choices]:
        """Yield those that share up to the next limit, or the same at another level."""
        number = self._limits.index(choices.pool_below)
        for sharing in self._sharing:
            if abs(self._limits.index(sharing[1]) - number) <= 1:
                yield _shared(choices, sharing)

    def _traded(self, choices: Choices) -> Iterator[Choices]:
        """Yield those with finer units in pools that share more, or coarser ones in pools that share less."""
        levels = [units.cell_level for units in self._units]
        if choices.cell_level not in levels:
            return
        cells, number = levels.index(choices.cell_level), self._limits.index(choices.pool_below)
        for step, sharing in product((-1, 1), self._sharing):
            if 0 <= cells + step < len(levels) and (self._limits.index(sharing[1]) - number) * step > 0:
                yield _shared(replace(choices, cell_level=levels[cells + step]), sharing)

    def _other_strata(self, choices: Choices) -> Iterator[Choices]:
        """Yield those with other strata, with its small table and without."""
        for by, tables in product(self._strata, dict.fromkeys((choices.tables, ()))):
            yield replace(choices, pool_by=by, tables=tables)

    def _other_tables(self, choices: Choices) -> Iterator[Choices]:
        """Yield those with another share of the small table, and without; or with a small table."""
        if not choices.tables:
            yield from (replace(choices, tables=(t,)) for t in self._tables if t.share in _FIRST_SHARES)
            return
        yield replace(choices, tables=())
        (table,) = choices.tables
        number = _SHARES.index(table.share)
        for share in _SHARES[max(0, number - 1) : number + 2]:
            yield replace(choices, tables=(replace(table, share=share),))

    def _other_workplaces(self, choices: Choices) -> Iterator[Choices]:
        """Yield those with another share of a table of workplaces."""
        if self._workplaces is not None:
            yield from (replace(choices, workplaces=w) for w in self._workplaces.near(choices.workplaces))

    def _is_possible(self, choices: Choices) -> bool:
        """Say whether shares leave some of epsilon, and jobs are known by all attributes together."""
        if sum(table.share for table in (*choices.tables, *choices.workplaces)) >= 1:
            return False
        names = {*choices.pool_by, *(name for table in choices.tables for name in table.by)}
        return not self._one_attribute or len(names) <= 1


def _scales(most: int, measures: bool) -> list[list[_Sizes]]:
    """Return the scales of T that are tried: one for all pools, or growing with the root of a pool's jobs.

    Noise of a mechanism that measures does not depend on the size of a pool. Where jobs are resampled, the
    best T of each size by itself grows about so in Rhode Island; one for all, if large, needs least epsilon.
    """
    scales: list[list[_Sizes]] = [
        [(2.0**exponent,) for exponent in (range(-4, 9) if measures else range(5, 9))]
    ]
    if not measures:
        classes = range(most.bit_length())
        scales.append([tuple(2.0 ** (exponent + i // 2) for i in classes) for exponent in range(-8, 5)])
    return scales


def _shared(choices: Choices, sharing: _Sharing) -> Choices:
    """Return the choices with another way to share pools."""
    return replace(choices, pool_level=sharing[0], pool_below=sharing[1])


def _sharing(
    config: ReleaseConfig, inputs: PublicInputs, level: str, limits: tuple[int, ...]
) -> list[_Sharing]:
    """Return the ways to share that are tried: first none, or the least, last the most."""
    settings = config.plan
    if settings.pool_below is not None or settings.coarsening not in (None, "balanced", "threshold", "units"):
        return [(level, settings.pool_below or limits[0])]
    names = [*inputs.geography.levels, inputs.geography.block_level]
    finer = names[names.index(level) + 1 : -1] if settings.pool_level is None else []
    # Noise and strata make small pools dear, so all work blocks of a unit may have to share.
    return [
        *((level, limit) for limit in limits[:1]),
        *((name, limit) for name in finer for limit in limits[1:]),
        *((level, limit) for limit in limits[1:]),
    ]


def _small_tables(config: ReleaseConfig, inputs: PublicInputs, workload: Workload) -> list[TableChoice]:
    """Return the small tables that are tried: residents by all attributes of the workload together.

    At the home level of tables that ask for attributes, or for residents wherever they work; of LODES jobs by
    one attribute at a time.
    """
    levels = inputs.geography.levels
    counted = [
        table
        for table in workload.tables
        if table.weight and table.home is not None and (table.attributes or table.work is None)
    ]
    homes = dict.fromkeys(str(t.home) if t.home in levels else inputs.model.level for t in counted)
    names = dict.fromkeys(name for table in counted for name in table.attributes)
    every = [tuple(names)] if config.jobs.format == "microdata" or not names else [(name,) for name in names]
    return [TableChoice(None, by, home, share) for by, home, share in product(every, homes, _SHARES)]


def _cell_levels(
    config: ReleaseConfig, inputs: PublicInputs, workload: Workload, *, measures: bool
) -> list[str]:
    """Return the levels whose units are tried as cells, coarse first: as asked, or the model's and finer.

    Single blocks are such where tables are measured; where jobs are resampled, areas of a small T are like
    them. Where homes of the whole workload are by coarser areas, the levels of these are tried, too.
    """
    settings, model_level = config.plan, inputs.model.level
    if settings.coarsening == "units":
        return [settings.cell_level or model_level]
    if settings.coarsening is not None or settings.split_threshold is not None:
        return []
    levels = inputs.geography.levels
    if model_level not in levels:
        return [model_level]
    homes = {table.home for table in workload.tables if table.weight and table.home is not None}
    lie_within = inputs.model.geography.lie_within
    coarse = [
        name for name in levels[: levels.index(model_level)] if all(lie_within(name, home) for home in homes)
    ]
    finest = [inputs.geography.block_level] if measures else []
    return [*coarse, *levels[levels.index(model_level) :], *finest]


def _strata(config: ReleaseConfig, inputs: PublicInputs, without: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return the sets of attributes that are tried: the one asked for, or none, each, and, of microdata, all.

    Also attributes by which no table counts: smaller pools may be better for other tables. `without` are
    attributes that divide no pool.
    """
    if config.plan.pool_by is not None:
        return [config.plan.pool_by]
    names = tuple(name for name in inputs.slots.attributes if name not in without)
    every = [names] if len(names) > 1 and config.jobs.format == "microdata" else []
    return [(), *((name,) for name in names), *every]
