"""Choosing cells and pools: the plan that loses least on proxy truth, at the requested epsilon and delta.

The objective is the expected loss over the workload (`pipelines.planning.workload`) after noise, resampling
and decoarsening under the public model. It is estimated by drawing: proxy truth for a public sample of
destinations is sent through the pipeline itself. Pools are classed by size (powers of two); every class gets
the cell size T, a power of two, that minimises the loss in flows over its pools. Where the rule of the cells
is left open, cells that are exactly the units of a level are tried beside these. With either, attributes are
found whose categories have urns of their own, with the limit below which small work blocks share an urn; then
all T together are made smaller or larger.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, log2
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.assembling import assemble
from pipelines.planning.plan import Choices, ReleasePlan
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.simulation import objective
from pipelines.planning.workload import Workload, resolve_workload

__all__ = ["choose", "make_plan"]

_SAMPLE_JOBS = 40_000  # most jobs on which one candidate is tried
_MOST_DRAWS = 8
_SAMPLE_UNITS = 250  # most destination units that these jobs are in
_POOL_BELOW = (1, 8, 32, 128, 512)  # limits that are tried
_SMALLEST, _LARGEST = -8, 8  # T between 2^-8 and 2^8 expected workers a cell
_FEWEST_JOBS = 2_000  # a size class with fewer takes the threshold of its neighbour
_MOST_CELLS = 2**26  # of all pools of a sample: more take too long to try


@dataclass(frozen=True, eq=False)
class _Sample:
    """The slots of some destinations, by work block, on which candidates are tried."""

    slots: geo_data.Slots
    model: geo_data.PublicModel
    workload: Workload
    concentrations: Mapping[str, float]
    share: float
    """Of all slots."""
    draws: int = 1
    """How often a candidate is tried: in a small region one draw would decide by chance."""

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def seed(self) -> int:
        """Of proxy truth and trial draws."""
        return isqrt(len(self))

    @cached_property
    def homes(self) -> NDArray[np.int32]:
        """Homes of the slots drawn from the public model, (draws, n): the same for every candidate."""
        known = {name: self.slots.attributes[name] for name in self.workload.attributes}
        drawn = [
            geo_data.proxy_homes(self.model, self.slots.work, self.seed + i, known, self.concentrations)
            for i in range(self.draws)
        ]
        return np.stack(drawn)

    def homes_of(self, pools: geo_data.PoolTable) -> NDArray[np.int32]:
        """Return the homes in the order of a candidate's slots, each with a job like its own."""
        homes = np.empty_like(self.homes)
        homes[:, _order(pools.slots)] = self.homes[:, _order(self.slots)]
        return homes


def _order(slots: geo_data.Slots) -> NDArray[np.int64]:
    """Return the order by work block and attributes, in which jobs that are alike stay as they are."""
    return np.lexsort([*reversed(slots.attributes.values()), slots.work])


def make_plan(config: ReleaseConfig, inputs: PublicInputs | None = None) -> ReleasePlan:
    """Make the plan of a release.

    Parameters
    ----------
    config : ReleaseConfig
    inputs : PublicInputs, optional
        What `read_public_inputs` gave, to spare reading twice.

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
    inputs = inputs or read_public_inputs(config)
    return assemble(config, inputs, inputs.slots, choose(config, inputs), config.privacy.delta)


def choose(config: ReleaseConfig, inputs: PublicInputs) -> Choices:
    """Choose what the configuration leaves to the planner.

    Notes
    -----
    Where not even the coarsest candidate can be certified, that one is the choice: planning with it says why.
    """
    settings = config.plan
    jobs = np.bincount(inputs.slots.work, minlength=inputs.geography.n_blocks)
    level = settings.pool_level or inputs.model.level
    rule, by_size = settings.coarsening, settings.coarsening in (None, "balanced", "threshold")
    threshold, strata = float(settings.split_threshold or 1), _strata(config, inputs)
    fixed = Choices(level, settings.pool_below or 1, (threshold,), strata[0])
    adaptive = by_size and settings.split_threshold is None
    workload = resolve_workload(config.canonical(), inputs.model.geography, inputs.model.level, inputs.slots)
    sample = _sample(inputs, jobs, jobs > 0, _SAMPLE_JOBS, workload, tuple(inputs.slots.attributes))
    tried: dict[Choices, float] = {}

    def value(candidate: Choices) -> float:
        if candidate not in tried:
            tried[candidate] = _objective(config, inputs, sample, candidate)
        return tried[candidate]

    if adaptive:
        coarsest = replace(fixed, thresholds=(2.0**_LARGEST,))
        if value(coarsest) == float("inf"):
            return coarsest
    starts = [replace(fixed, thresholds=(), cell_level=name) for name in _cell_levels(config, inputs)]
    if rule != "units":
        starts.insert(0, _thresholds(config, inputs, jobs, fixed, workload) if adaptive else fixed)
    names = [*inputs.geography.levels, inputs.geography.block_level]
    finer = names[names.index(level) + 1 : -1] if settings.pool_level is None else []
    sharing = [(level, fixed.pool_below)]
    if settings.pool_below is None and (by_size or rule == "units"):
        # Noise and strata make small pools dear, so all work blocks of a unit may have to share.
        limits = (*_POOL_BELOW, int(jobs.max()) + 1)
        sharing = [(name, limit) for name in [level, *finer] for limit in limits[name != level :]]
    if not adaptive and len(starts) == len(strata) == len(sharing) == 1:
        return starts[0]
    whole = sample.share == 1  # small, so that more can be tried: T and sharing together, from other starts
    tops = []
    for cells in starts:
        rescales = adaptive and cells.cell_level is None
        start = min((replace(cells, pool_level=name, pool_below=limit) for name, limit in sharing), key=value)
        own: list[Choices] = []
        for by in strata:
            own.append(_shared_best(replace(start, pool_by=by), sharing, value))
            for name, limit in (sharing[0], sharing[-1]) if rescales and whole else ():
                other = replace(own[0], pool_by=by, pool_level=name, pool_below=limit)
                for begin in (own[-1], other):
                    scaled = min([begin, *_rescaled(begin, value, whole=True)], key=value)
                    own.append(_shared_best(scaled, sharing, value))
        best = min(own, key=value)
        tops.append(min([best, *_rescaled(best, value, whole=whole)], key=value) if rescales else best)
    return min(tops, key=value)


def _cell_levels(config: ReleaseConfig, inputs: PublicInputs) -> list[str]:
    """Return the levels whose units are tried as cells: the one asked for, or the model's and finer ones."""
    settings, own = config.plan, inputs.model.level
    if settings.coarsening == "units":
        return [settings.cell_level or own]
    if settings.coarsening is not None or settings.split_threshold is not None:
        return []
    levels = inputs.geography.levels
    return [own, *levels[levels.index(own) + 1 :]] if own in levels else [own]


def _shared_best(
    choices: Choices, sharing: list[tuple[str, int]], value: Callable[[Choices], float]
) -> Choices:
    """Return the choices with the best way to share, found downhill from theirs: limits step by step."""
    limits = sorted({limit for _, limit in sharing})
    best = choices
    while True:
        at = limits.index(best.pool_below)
        near = [way for way in sharing if abs(limits.index(way[1]) - at) <= 1]
        found = min((replace(best, pool_level=name, pool_below=limit) for name, limit in near), key=value)
        if value(found) >= value(best):
            return best
        best = found


def _strata(config: ReleaseConfig, inputs: PublicInputs) -> list[tuple[str, ...]]:
    """Return the sets of attributes that are tried: the one asked for, or none, each, and, of microdata, all.

    Also attributes by which no table counts: smaller pools may be better for other tables.
    """
    if config.plan.pool_by is not None:
        return [config.plan.pool_by]
    names = tuple(inputs.slots.attributes)
    every = [names] if len(names) > 1 and config.jobs.format == "microdata" else []
    return [(), *((name,) for name in names), *every]


def _rescaled(choices: Choices, value: Callable[[Choices], float], *, whole: bool) -> list[Choices]:
    """Return the choices with all T smaller or larger by the best factor.

    Of a small region, all of which was tried, size classes have few jobs, so the best single T is there too.
    """

    def times(exponent: int) -> Choices:
        return replace(choices, thresholds=tuple(t * 2.0**exponent for t in choices.thresholds))

    def one(exponent: int) -> Choices:
        return replace(choices, thresholds=(2.0**exponent,))

    # Smaller ones first: bounds for very few cells take long.
    found = [times(-_descend(lambda e: value(times(-e)), 0))]
    if whole:
        middle = round(float(np.mean(np.log2(choices.thresholds))))
        found.append(one(-_descend(lambda e: value(one(-e)), -middle)))
    return found


def _thresholds(
    config: ReleaseConfig,
    inputs: PublicInputs,
    jobs: NDArray[np.int64],
    start: Choices,
    workload: Workload,
) -> Choices:
    """Return the best T of every size class, each search beginning at the answer of the class before."""
    flows = workload.of_flows()
    classes = int(log2(jobs.max())) + 1
    octave = np.full(jobs.size, -1)
    octave[jobs > 0] = np.log2(jobs[jobs > 0]).astype(int)
    found: dict[int, int] = {}
    exponent = 0
    for size in reversed(range(classes)):
        sample = _sample(inputs, jobs, octave == size, _SAMPLE_JOBS, flows)
        if len(sample) < min(_FEWEST_JOBS, len(inputs.slots) // classes):
            continue
        exponent = _descend(
            lambda e, s=sample: _objective(  # type: ignore[misc]
                config, inputs, s, replace(start, pool_below=1, thresholds=(2.0**e,), pool_by=())
            ),
            exponent,
        )
        found[size] = exponent
    nearest = [min(found, key=lambda other: (abs(other - size), other)) for size in range(classes)]
    return replace(start, thresholds=tuple(2.0 ** found[size] for size in nearest))


def _descend(value: Callable[[int], float], start: int) -> int:
    """Return where a function of a whole number has a minimum, walking downhill from a start."""
    known: dict[int, float] = {}

    def at(point: int) -> float:
        if not _SMALLEST <= point <= _LARGEST:
            return float("inf")
        if point not in known:
            known[point] = value(point)
        return known[point]

    best = start
    step = 1 if at(start + 1) < at(start) else -1
    while at(best + step) < at(best):
        best += step
    return best


def _sample(
    inputs: PublicInputs,
    jobs: NDArray[np.int64],
    member: NDArray[np.bool_],
    size: int,
    workload: Workload,
    by: tuple[str, ...] = (),
) -> _Sample:
    """Return the slots of the member blocks of some destination units, spread evenly over all their jobs."""
    unit = inputs.model.units(np.arange(jobs.size, dtype=np.int32))
    of_unit = np.bincount(unit, np.where(member, jobs, 0), minlength=inputs.model.n_units)
    present = np.flatnonzero(of_unit)
    running = np.cumsum(of_unit[present])
    # As many units as hold the jobs wanted if all were of mean size, at even steps of the running total.
    wanted = min(_SAMPLE_UNITS, max(1, round(size * present.size / max(1, running[-1:].sum()))))
    if wanted < present.size:
        at = (np.arange(wanted) + 0.5) / wanted * running[-1]
        present = present[np.unique(np.searchsorted(running, at))]
    chosen = member & np.isin(unit, present)
    rows = chosen[inputs.slots.work]
    slots = inputs.slots
    named = tuple(dict.fromkeys((*workload.attributes, *by)))
    attributes = {name: slots.attributes[name][rows] for name in named}
    categories = {name: slots.categories[name] for name in named}
    return _Sample(
        geo_data.Slots(slots.work[rows], attributes, categories),
        inputs.model,
        workload,
        geo_data.attribute_concentrations(inputs.model, slots),
        int(np.count_nonzero(rows)) / len(slots),
        min(_MOST_DRAWS, max(1, _SAMPLE_JOBS // len(slots))),
    )


def _objective(config: ReleaseConfig, inputs: PublicInputs, sample: _Sample, choices: Choices) -> float:
    if len(sample) == 0:
        return 0.0
    delta = config.privacy.delta
    if config.privacy.guarantee == "pdp":  # its delta is shared by size
        delta = delta * len(sample) / len(inputs.slots)
    try:
        plan = assemble(config, inputs, sample.slots, choices, delta)
    except synth.BudgetTooSmallError:
        return float("inf")
    if plan.numeric.domains.n_cells[plan.numeric.pools.domain].sum() > _MOST_CELLS:
        return float("inf")
    homes = sample.homes_of(plan.pools)
    return fmean(
        objective(plan, sample.workload, sample.seed + i, own, sample.share) for i, own in enumerate(homes)
    )
