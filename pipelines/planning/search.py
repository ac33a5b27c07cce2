"""Choosing cells and pools: the plan that loses least on proxy truth, at the requested epsilon and delta.

The objective (`simulation.objective`) is the expected total variation between true and synthetic
flows after noise, resampling and decoarsening under the public model: where workers are drawn anew, as the
mean of two tables, from units to units and from units to work blocks; for noise on counts, from units to
units. It is estimated by drawing: proxy truth for a public sample of destinations is sent through the
pipeline itself. Pools are classed by size (powers of two); every class gets the cell size T,
a power of two, that minimises the objective over its pools. Then the limit is found below which small work
blocks share an urn. Where the rule of the cells is left open, cells that are exactly the units of a level
are tried beside these, with every limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isqrt, log2

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.assembling import assemble
from pipelines.planning.plan import Choices, ReleasePlan
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.simulation import objective

__all__ = ["choose", "make_plan"]

_SAMPLE_JOBS = 40_000  # most jobs on which one candidate is tried
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

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def seed(self) -> int:
        """Of proxy truth and trial draws."""
        return isqrt(len(self))

    @cached_property
    def homes(self) -> NDArray[np.int32]:
        """Homes of the slots drawn from the public model: the same for every candidate."""
        return geo_data.proxy_homes(self.model, self.slots.work, self.seed)

    def homes_of(self, pools: geo_data.PoolTable) -> NDArray[np.int32]:
        """Return the homes in the order of a candidate's slots, which is by work block inside each pool."""
        homes = np.empty_like(self.homes)
        homes[np.argsort(pools.slots.work, kind="stable")] = self.homes
        return homes


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
    fixed = Choices(level, settings.pool_below or 1, (float(settings.split_threshold or 1),))
    adaptive = by_size and settings.split_threshold is None
    sample = _sample(inputs, jobs, jobs > 0, _SAMPLE_JOBS, settings.pool_by)
    if adaptive:
        coarsest = replace(fixed, thresholds=(2.0**_LARGEST,))
        if _objective(config, inputs, sample, coarsest) == float("inf"):
            return coarsest
    candidates = [replace(fixed, thresholds=(), cell_level=name) for name in _cell_levels(config, inputs)]
    if rule != "units":
        candidates.insert(0, _thresholds(config, inputs, jobs, fixed) if adaptive else fixed)
    if settings.pool_below is None and (by_size or rule == "units"):
        names = [*inputs.geography.levels, inputs.geography.block_level]
        finer = names[names.index(level) + 1 : -1] if settings.pool_level is None else []
        resamples = synth.MECHANISMS[config.release.mechanism].resamples
        # Noise and strata make small pools dear, so all work blocks of a unit may have to share.
        limits = _POOL_BELOW if resamples and not settings.pool_by else (*_POOL_BELOW, int(jobs.max()) + 1)
        candidates = [
            replace(candidate, pool_level=name, pool_below=limit)
            for candidate in candidates
            for name in [level, *finer]
            for limit in (limits if name == level else limits[1:])
        ]
    if len(candidates) == 1:
        return candidates[0]
    return min(candidates, key=lambda candidate: _objective(config, inputs, sample, candidate))


def _cell_levels(config: ReleaseConfig, inputs: PublicInputs) -> list[str]:
    """Return the levels whose units are tried as cells: the one asked for, or the model's and finer ones."""
    settings, own = config.plan, inputs.model.level
    if settings.coarsening == "units":
        return [settings.cell_level or own]
    if settings.coarsening is not None or settings.split_threshold is not None:
        return []
    levels = inputs.geography.levels
    return [own, *levels[levels.index(own) + 1 :]] if own in levels else [own]


def _thresholds(
    config: ReleaseConfig, inputs: PublicInputs, jobs: NDArray[np.int64], start: Choices
) -> Choices:
    """Return the best T of every size class, each search beginning at the answer of the class before."""
    classes = int(log2(jobs.max())) + 1
    octave = np.full(jobs.size, -1)
    octave[jobs > 0] = np.log2(jobs[jobs > 0]).astype(int)
    found: dict[int, int] = {}
    exponent = 0
    for size in reversed(range(classes)):
        sample = _sample(inputs, jobs, octave == size, _SAMPLE_JOBS)
        if len(sample) < min(_FEWEST_JOBS, len(inputs.slots) // classes):
            continue
        exponent = _descend(
            lambda e, s=sample: _objective(  # type: ignore[misc]
                config, inputs, s, replace(start, pool_below=1, thresholds=(2.0**e,))
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
    attributes = {name: slots.attributes[name][rows] for name in by}
    categories = {name: slots.categories[name] for name in by}
    return _Sample(geo_data.Slots(slots.work[rows], attributes, categories), inputs.model)


def _objective(config: ReleaseConfig, inputs: PublicInputs, sample: _Sample, choices: Choices) -> float:
    if len(sample) == 0:
        return 0.0
    delta = config.privacy.delta
    if config.privacy.guarantee == "pdp":  # its delta is shared by size
        delta = delta * len(sample) / len(inputs.slots)
    settings = config.plan.model_copy(update={"pool_by": tuple(sample.slots.attributes)})
    try:
        plan = assemble(config.model_copy(update={"plan": settings}), inputs, sample.slots, choices, delta)
    except synth.BudgetTooSmallError:
        return float("inf")
    if plan.numeric.domains.n_cells[plan.numeric.pools.domain].sum() > _MOST_CELLS:
        return float("inf")
    return objective(plan, inputs.model, sample.seed, sample.homes_of(plan.pools))
