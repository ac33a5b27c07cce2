"""Choosing what the configuration leaves to the planner: the plan that loses least on proxy truth.

The objective is the expected loss over the workload (`pipelines.plans.workload`) after noise, estimates
or resampling, and block sampling under the public model, estimated by drawing (`pipelines.planning.trials`).
A candidate has a mechanism; cells, which are exactly the units of a level or have a size T for pools of each
class of sizes (powers of two); pools, of single work blocks or of blocks that share, of all jobs or by
attributes; and, where the mechanism measures tables, a small table of attributes by home beside that of the
pools, with its share of epsilon. From a few candidates that are far apart the search goes downhill, one of
these at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import cycle, product
from math import inf, log2
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.arguments import check_type
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import Section
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.trials import (
    SAMPLE_JOBS,
    ParallelMap,
    Sample,
    draw_sample,
    expected_loss,
    thread_map,
    try_candidate,
)
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices, ReleasePlan
from pipelines.plans.workload import Workload, resolve_workload
from pipelines.storage.progress import Progress, ProgressCounter

_POOL_BELOW = (1, 8, 32, 128, 512)  # limits that are tried
_SMALLEST, _LARGEST = -8, 8  # T between 2^-8 and 2^8 expected workers a cell
_FAR = 3, 1  # powers of two, in strides of which T is sought that may be far off
_FIRST = 4  # T is 2^4 or more at first where it is one for all pools
_EVERY = 2  # T is sought for one in so many size classes, and that of those between lies between
_FEWEST_JOBS = 2_000  # a size class with fewer takes what lies between its neighbours
_SHARES = tuple(map(Fraction, ("0.03", "0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "0.9")))  # of a small table
_FIRST_SHARE = Fraction("0.05")
_MORE_JOBS = 2 * SAMPLE_JOBS  # for those that resample: quick to try, and residents are less by chance
_HOPEFUL = 1.1  # pools of all jobs of a unit that lose more times as much are not given cells that suit them
_MANY_JOBS = 3 * _MORE_JOBS  # on which the last few of them are compared
_NEAR = 1.02  # what loses at most so many times as much may lose less on more jobs
_LAST = 3  # kinds of candidates that are compared so
_HOPELESS = 1.5  # a mechanism whose first candidates lose so many times as much is not searched further

_Way = Callable[[Choices], Iterable[Choices]]
_Sharing = tuple[str, int]
_Section = TypeVar("_Section", bound=Section)


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

    Notes
    -----
    Where no candidate that was tried can be certified, one of coarse cells is the choice: planning with it
    says why, and which epsilon would be enough for it.
    """
    jobs = inputs.slots.jobs(inputs.geography.n_blocks)
    geography, level, secret = inputs.model.geography, inputs.model.level, inputs.policy.secret
    workload = resolve_workload(config.workload, geography, level, inputs.slots, secret)

    def search(name: str) -> _Search:
        size = SAMPLE_JOBS if _measures(name) else _MORE_JOBS
        sample = draw_sample(inputs, jobs, jobs > 0, size, workload, tuple(inputs.slots.attributes))
        return _Search(config, inputs, sample, jobs, name, tried or ProgressCounter(), parallel_map)

    # Those that resample last: they lose more, as a rule, and are not searched far then.
    first, *others = sorted(config.mechanisms, key=lambda name: not _measures(name))
    common = search(first)  # on whose sample they are compared
    best = common.best()
    for name in others:
        other = search(name).best(_HOPELESS * common.value(best))
        best = min(best, other, key=common.value)
    return best


def _measures(mechanism: str) -> bool:
    return "tables" in synth.MECHANISMS[mechanism].settings


def _usual(ways: int) -> int:
    """Return about how many candidates are tried on the way down, as it was in regions of all sizes."""
    return 4 + ways


@dataclass(frozen=True, eq=False)
class _Trial:
    """Tries candidates on a sample on which one draw decides, so that none depends on another."""

    config: ReleaseConfig
    inputs: PublicInputs
    sample: Sample

    @classmethod
    def of(cls, config: ReleaseConfig, inputs: PublicInputs, sample: Sample) -> _Trial:
        """Return one that is as small as can be, as it may go to other processes, and all public."""
        _ = sample.homes  # drawn once, and not by each of them
        config = config.model_copy(update={"signature": None, "ledger": None})
        inputs = replace(inputs, slots=sample.slots, polygons={}, names={}, rows={})
        return cls(_without_folders(config), inputs, sample)

    def __call__(self, candidate: Choices) -> float:
        (found,) = try_candidate(self.config, self.inputs, self.sample, candidate)
        return found


def _without_folders(section: _Section) -> _Section:
    """Return a part of a configuration with names of files only: a folder's may say what is confidential."""

    def plain(value: object) -> object:
        match value:
            case Path():
                return Path(value.name)
            case Section():
                return _without_folders(value)
            case tuple():
                return tuple(map(plain, value))
        return value

    return section.model_copy(update={name: plain(value) for name, value in section})


class _Search:
    """The search for the plan of one mechanism that loses least.

    Parameters
    ----------
    config : ReleaseConfig
    inputs : PublicInputs
    sample : Sample
        On which candidates are tried.
    jobs : ndarray of int64, shape (n_blocks,)
        Of every work block.
    mechanism : str
    tried : ProgressCounter
        Told of each candidate that was tried.
    parallel_map : callable
        As for `make_plan`.
    """

    def __init__(
        self,
        config: ReleaseConfig,
        inputs: PublicInputs,
        sample: Sample,
        jobs: NDArray[np.int64],
        mechanism: str,
        tried: ProgressCounter,
        parallel_map: ParallelMap | None,
    ) -> None:
        self._config, self._inputs, self._sample, self._jobs = config, inputs, sample, jobs
        settings, level = config.plan, config.plan.pool_level or inputs.model.level
        self._measures = _measures(mechanism)
        # What is resampled is tried so soon that threads would wait for each other.
        self._told, self._parallel_map = tried, parallel_map or (thread_map if self._measures else map)
        self._whole = len(inputs.slots) <= SAMPLE_JOBS  # small, so that more can be tried
        self._by_size = settings.coarsening in (None, "balanced", "threshold")
        self._adaptive = self._by_size and settings.split_threshold is None
        self._strata = _strata(config, inputs)
        # Estimates take their time, and differ little between limits that are close.
        limits = _POOL_BELOW if self._whole or not self._measures else _POOL_BELOW[::2]
        self._sharing = _sharing(config, inputs, level, (*limits, int(jobs.max()) + 1))
        self._small = _small_tables(config, inputs, sample.workload) if self._measures else []
        self._fixed = Choices(
            level,
            settings.pool_below or 1,
            (float(settings.split_threshold or 1),),
            self._strata[0],
            mechanism=None if config.release.mechanism else mechanism,
        )
        self._tried: dict[Choices, float] = {}
        self._left = 1  # starts to search from, with the one at hand
        self._least: list[float] = []  # what the best of them loses, draw by draw

    def value(self, candidate: Choices) -> float:
        """Return what a candidate loses."""
        if candidate not in self._tried:
            found = self._try(candidate)
            self._tried[candidate] = float(np.mean(found))
            if not self._least or self._tried[candidate] < np.mean(self._least):
                self._least = found
        return self._tried[candidate]

    def _try(self, candidate: Choices) -> list[float]:
        found = try_candidate(self._config, self._inputs, self._sample, candidate, self._least)
        self._told()
        return found

    def _expect(self, more: int) -> None:
        """Say that about so many more will be tried from each start that is left."""
        self._told.expect(more * self._left)

    @cached_property
    def _trial(self) -> _Trial:
        return _Trial.of(self._config, self._inputs, self._sample)

    def _try_all(self, candidates: Iterable[Choices]) -> None:
        """Try candidates side by side, if one draw decides: what one loses has nothing to do with others."""
        new = [one for one in dict.fromkeys(candidates) if one not in self._tried]
        if self._sample.draws == 1 and len(new) > 1:
            for one, found in zip(new, self._parallel_map(self._trial, new), strict=True):
                self._told()
                self._tried[one] = found

    def _lowest(self, candidates: Iterable[Choices]) -> Choices:
        """Return the candidate that loses least, the first of those that are equal."""
        every = list(candidates)
        self._try_all(every)
        return min(every, key=self.value)

    def best(self, bound: float = inf) -> Choices:
        """Return the best candidate, or one that is above a bound where the first ones all are."""
        fixed, ends = self._fixed, list(dict.fromkeys((self._sharing[0], self._sharing[-1])))
        units = [
            replace(fixed, thresholds=(), cell_level=name)
            for name in _cell_levels(self._config, self._inputs, self._sample.workload)
        ]
        if bound < inf:
            first = [*units, *(replace(fixed, thresholds=(t,)) for t in (1.0, 16.0) if self._adaptive)]
            first = [_shared(cells, end) for cells in first or [fixed] for end in ends]
            self._told.expect(len(first))
            if self.value(quick := self._lowest(first)) > bound:
                return quick
        starts = units
        if self._config.plan.coarsening != "units":
            starts = [*self._of_size(units), *units]
        if (
            not self._adaptive
            and len(starts) == len(self._strata) == len(self._sharing) == 1
            and not self._small
        ):
            return starts[0]
        if self._whole:
            found = []
            for self._left in range(len(starts), 0, -1):
                found.append(self._best_of([starts[-self._left]], ends))
            best = min(found, key=self.value)
        else:
            best = self._best_of(starts, ends)
        if self._measures:
            return best
        if self._adaptive and self.value(best) == inf:
            return replace(fixed, thresholds=(2.0**_LARGEST,))
        return self._on_more_jobs(best)

    def _on_more_jobs(self, best: Choices) -> Choices:
        """Return the best of the kinds that are nearly as good, on more jobs.

        Of few jobs, what residents lose by chance hides what cells and pools are worth.
        """
        kinds: dict[tuple[object, ...], Choices] = {}
        for one in sorted(self._tried, key=self.value):
            if self.value(one) <= _NEAR * self.value(best):
                kinds.setdefault((one.pool_level, one.pool_below, one.pool_by, one.cell_level), one)
        last = [*kinds.values()][:_LAST]
        sample, inputs = self._sample, self._inputs
        if len(last) == 1 or sample.share == 1:
            return best
        names = tuple(inputs.slots.attributes)
        more = draw_sample(inputs, self._jobs, self._jobs > 0, _MANY_JOBS, sample.workload, names)

        self._told.expect(len(last))

        def value(one: Choices) -> float:
            found = expected_loss(self._config, inputs, more, one)
            self._told()
            return found

        return min(last, key=value)

    def _of_size(self, units: Sequence[Choices]) -> list[Choices]:
        """Return the candidate whose cells have a size, if it is worth a search.

        Counting in the units of a level costs nothing but noise, which estimates deal with: where units can
        be measured at all, cells of a size are tried in small regions only. Where they cannot, as there are
        too many of them, one T is enough (`_rescaled` finds it): noise does not depend on the pool's size.
        """
        if not self._adaptive:
            return [self._fixed]
        if self._measures and not self._whole:
            of_units = bool(units) and self.value(self._lowest(units)) < inf
            sizes = [replace(self._fixed, thresholds=(2.0**e,)) for e in range(_FIRST, _LARGEST + 1)]
            can_be = (one for one in sizes if self.value(one) < inf)
            return [] if of_units else [next(can_be, sizes[-1])]
        return [_thresholds(self._config, self._inputs, self._jobs, self._fixed, self._sample.workload)]

    def _best_of(self, starts: Sequence[Choices], ends: Sequence[_Sharing]) -> Choices:
        """Return the best candidate with any of these cells, going downhill from the best of a few."""
        small = [(), *((table,) for table in self._small if table.share == _FIRST_SHARE)]
        first = [
            replace(_shared(cells, end), tables=tables)
            for end, tables in product(ends, small)
            for cells in (starts if self._whole or end == ends[0] else starts[:1])
            if self._can_be(replace(cells, tables=tables))
        ]
        measured = [one for one in first if one.tables]
        self._expect(len(first) + (_usual(1) if measured else 0) + _usual(5))
        if measured and not self._whole:
            # Much depends on its share, which is found before other kinds are left behind.
            self._try_all(first)
            first.append(self._downhill(self._lowest(measured), [self._near_shares]))
        plain = self._lowest(first)
        apart = [_shared(replace(plain, tables=()), end) for end in (ends if self._whole else ends[-1:])]
        if self._adaptive and not self._measures and not self._whole:
            # What suits an urn of all jobs of a unit are other cells than those of an urn for every block.
            hopeless = _HOPEFUL * self.value(plain)
            apart = [one for one in apart if not hopeless < self.value(one) < inf]
            apart = [self._lowest([one, *self._rescaled(one, _FAR)]) for one in apart]
            first += apart
        first += [replace(one, pool_by=by) for one in apart for by in self._strata[1:]]
        ways: list[_Way] = [self._near_sharing, self._near_strata, self._near_tables]
        if len(starts) > 1:
            cells = [(one.thresholds, one.cell_level) for one in starts]
            ways.append(lambda own: [replace(own, thresholds=t, cell_level=level) for t, level in cells])
        if self._adaptive:
            ways.append(self._rescaled)
        if self._whole:
            # Each kind with what suits it, as the best of all may lead to another valley.
            every = (
                replace(_shared(cells, end), pool_by=by, tables=tables)
                for cells, end, by, tables in product(starts, ends, self._strata, small)
            )
            first = kinds = list(filter(self._can_be, every))
            self._expect(_usual(1) * len(kinds) + 3 * _usual(len(ways)))
            if self._measures:
                first = [self._downhill(one, [self._near_tables]) for one in kinds]
            elif starts[0].thresholds and self._adaptive:
                first = [*kinds, *(self._downhill(one, [self._rescaled]) for one in kinds)]
        self._try_all(first)
        begin = sorted(dict.fromkeys(first), key=self.value)[: 3 if self._whole else 1]
        self._expect(len(begin) * _usual(len(ways)))
        return min((self._downhill(one, ways) for one in begin), key=self.value)

    def _downhill(self, choices: Choices, ways: Sequence[_Way]) -> Choices:
        """Return where no way leads further down."""
        best, stuck = choices, 0
        for way in cycle(ways):
            found = self._lowest([*filter(self._can_be, way(best)), best])
            stuck = 0 if self.value(found) < self.value(best) else stuck + 1
            if self.value(found) < self.value(best):
                best = found
            if stuck >= len(ways):
                return best
        raise AssertionError("there are no ways")

    def _near_sharing(self, own: Choices) -> Iterator[Choices]:
        """Yield the candidates that share up to the limit next to its own, or the same at another level."""
        limits = sorted({limit for _, limit in self._sharing})
        at = limits.index(own.pool_below)
        for way in self._sharing:
            if abs(limits.index(way[1]) - at) <= 1:
                yield _shared(own, way)

    def _near_strata(self, own: Choices) -> Iterator[Choices]:
        return (replace(own, pool_by=by) for by in self._strata)

    def _near_tables(self, own: Choices) -> Iterator[Choices]:
        """Yield the candidates with the next shares of its small table, and without; from none the first."""
        yield replace(own, tables=())
        if not own.tables:
            yield from (replace(own, tables=(t,)) for t in self._small if t.share == _FIRST_SHARE)
        yield from self._near_shares(own)

    def _near_shares(self, own: Choices) -> Iterator[Choices]:
        for table in own.tables:
            at = _SHARES.index(table.share)
            for share in _SHARES[max(0, at - 1) : at + 2]:
                yield replace(own, tables=(replace(table, share=share),))

    def _can_be(self, own: Choices) -> bool:
        """Say whether its pools and tables can be had: jobs of LODES have one attribute at a time."""
        names = {*own.pool_by, *(name for table in own.tables for name in table.by)}
        return self._config.jobs.format == "microdata" or len(names) <= 1

    def _rescaled(self, own: Choices, strides: Sequence[int] = (1,)) -> list[Choices]:
        """Return the candidate with all T smaller or larger by the best factor, found in such strides.

        Of a small region, all of which was tried, size classes have few jobs, so the best single T is there
        too.
        """
        if own.cell_level is not None:
            return []

        def times(exponent: int) -> Choices:
            return replace(own, thresholds=tuple(t * 2.0**exponent for t in own.thresholds))

        def one(exponent: int) -> Choices:
            return replace(own, thresholds=(2.0**exponent,))

        found = [times(_descend(lambda e: self.value(times(e)), 0, strides))]
        if self._whole:
            middle = round(float(np.mean(np.log2(own.thresholds))))
            found.append(one(_descend(lambda e: self.value(one(e)), middle)))
        return found


def _shared(choices: Choices, sharing: _Sharing) -> Choices:
    """Return the choices with another way to share pools."""
    return replace(choices, pool_level=sharing[0], pool_below=sharing[1])


def _sharing(
    config: ReleaseConfig, inputs: PublicInputs, level: str, limits: tuple[int, ...]
) -> list[_Sharing]:
    """Return the ways to share that are tried: first none, last the most."""
    settings = config.plan
    if settings.pool_below is not None or settings.coarsening not in (None, "balanced", "threshold", "units"):
        return [(level, settings.pool_below or 1)]
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
    counted = [one for one in workload.tables if one.weight and (one.attributes or one.work is None)]
    homes = dict.fromkeys(t.home if t.home in levels else inputs.model.level for t in counted)
    names = dict.fromkeys(name for table in counted for name in table.attributes)
    # Whatever is secret by a policy every table is measured by, and no slot has it.
    public = [name for name in names if name in inputs.slots.attributes]
    every = (
        [tuple(public)] if config.jobs.format == "microdata" or not public else [(name,) for name in public]
    )
    return [TableChoice(None, by, home, share) for by, home, share in product(every, homes, _SHARES)]


def _cell_levels(config: ReleaseConfig, inputs: PublicInputs, workload: Workload) -> list[str]:
    """Return the levels whose units are tried as cells: the one asked for, or the model's and finer ones.

    Where homes of the whole workload are by coarser areas, the levels of these, too.
    """
    settings, own = config.plan, inputs.model.level
    if settings.coarsening == "units":
        return [settings.cell_level or own]
    if settings.coarsening is not None or settings.split_threshold is not None:
        return []
    levels = inputs.geography.levels
    if own not in levels:
        return [own]
    homes = {table.home for table in workload.tables if table.weight}
    lie_within = inputs.model.geography.lie_within
    coarse = [name for name in levels[: levels.index(own)] if all(lie_within(name, home) for home in homes)]
    return [own, *levels[levels.index(own) + 1 :], *coarse]


def _strata(config: ReleaseConfig, inputs: PublicInputs) -> list[tuple[str, ...]]:
    """Return the sets of attributes that are tried: the one asked for, or none, each, and, of microdata, all.

    Also attributes by which no table counts: smaller pools may be better for other tables.
    """
    if config.plan.pool_by is not None:
        return [config.plan.pool_by]
    names = tuple(inputs.slots.attributes)
    every = [names] if len(names) > 1 and config.jobs.format == "microdata" else []
    return [(), *((name,) for name in names), *every]


def _thresholds(
    config: ReleaseConfig,
    inputs: PublicInputs,
    jobs: NDArray[np.int64],
    start: Choices,
    workload: Workload,
) -> Choices:
    """Return T of every size class: the best of every other one, and what lies between for those between.

    Each search begins at the answer of the one before. On smaller samples: the loss is flat around the best
    T, and there are many classes.
    """
    flows = workload.of_flows()
    classes = int(log2(jobs.max())) + 1
    octave = np.full(jobs.size, -1)
    octave[jobs > 0] = np.log2(jobs[jobs > 0]).astype(int)
    found: dict[int, int] = {}
    exponent = 0
    for size in reversed(range(0, classes, _EVERY)):
        sample = draw_sample(inputs, jobs, octave == size, SAMPLE_JOBS // 4, flows, workload.attributes)
        if len(sample) < min(_FEWEST_JOBS, len(inputs.slots) // classes):
            continue
        exponent = _descend(
            lambda e, s=sample: expected_loss(  # type: ignore[misc]
                config, inputs, s, replace(start, pool_below=1, thresholds=(2.0**e,), pool_by=())
            ),
            exponent,
            (1,) if found else _FAR,
        )
        found[size] = exponent
    if not found:  # units have few jobs each
        return start
    sizes = sorted(found)
    exponents = np.rint(np.interp(range(classes), sizes, [found[size] for size in sizes]))
    return replace(start, thresholds=tuple((2.0**exponents).tolist()))


def _descend(value: Callable[[int], float], start: int, strides: Sequence[int] = (1,)) -> int:
    """Return the exponent of T where a loss has a minimum, walking downhill from a start.

    Smaller ones first: bounds for very few cells take long, and smaller pools have smaller cells. In strides
    that become smaller: long ones first pass over humps on the way to what is far. Where nothing can be had
    at the start, the walk begins at the first larger number where it can: larger cells are certified with
    less.
    """
    known: dict[int, float] = {}

    def at(point: int) -> float:
        if not _SMALLEST <= point <= _LARGEST:
            return inf
        if point not in known:
            known[point] = value(point)
        return known[point]

    best = start
    while at(best) == inf and best < _LARGEST:
        best += 1
    for stride in strides:
        step = -stride if at(best - stride) < at(best) else stride
        while at(best + step) < at(best):
            best += step
    return best
