"""Trials: what a candidate plan loses over the workload, on homes drawn for some of the public jobs.

Proxy truth for a public sample of destinations is sent through the pipeline itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isqrt
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from geo_data.pools import PoolTable
from geo_data.proxy_truth import proxy_origins
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import Section
from pipelines.drawing.procedures import procedure_of
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs
from pipelines.plans.measured import MeasuredGroups
from pipelines.plans.plan import Choices, ReleasePlan, batches
from pipelines.plans.workload import CountedJobs, Table, Workload
from synth.arrays import segment_indices
from synth.geometric.measured import count_cells

_DRAWN_JOBS = 40_000  # of about as many a candidate is tried, in several draws of a smaller sample
_MOST_DRAWS = 4
_SAMPLE_UNITS = 250  # most destination units that these jobs are in
_FEWEST_UNITS = 20  # a few would decide by chance, and a small region is tried whole
_MOST_CELLS = 2**26  # of all pools of a sample: more take too long to try
_MOST_TOGETHER = 2**25  # the same, of several tables, which are fitted together in memory there
_THREADS = 2  # in which candidates are tried: more would take memory, and much of a trial is Python
_MOST_NOISE = 0.8  # in pools whose cells are single blocks: more is hopeless, and takes its time
_MOST_MEASURED = 2**29  # noisy counts of a release: of more, estimates take longer than all else

_S = TypeVar("_S")
_T = TypeVar("_T")
_Section = TypeVar("_Section", bound=Section)


class ParallelMap(Protocol):
    """Calls a function with each of some items, as `map` does; only public data are in either."""

    def __call__(self, function: Callable[[_S], _T], items: Sequence[_S], /) -> Iterable[_T]:
        """Return the results, in the order of the items."""


def thread_map(function: Callable[[_S], _T], items: Sequence[_S], /) -> Iterator[_T]:
    """Call the function by threads of this process."""
    with ThreadPoolExecutor(_THREADS) as threads:
        yield from threads.map(function, items)


@dataclass(frozen=True, eq=False)
class Sample:
    """The slots of some destinations, by work block, on which candidates are tried."""

    slots: geo_data.Slots
    model: geo_data.PublicModel
    workload: Workload
    policy: synth.Policy
    concentrations: Mapping[str, float]
    of: int
    """Number of all slots."""
    draws: int = 1
    """How often a candidate is tried: in a small region one draw would decide by chance."""

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def share(self) -> float:
        """Of all slots."""
        return len(self) / self.of

    @property
    def seed(self) -> int:
        """Of proxy truth and trial draws."""
        return isqrt(len(self))

    @cached_property
    def homes(self) -> NDArray[np.int32]:
        """Homes of the slots drawn from the public model, (draws, n): the same for every candidate."""
        public = {
            name: codes for name, codes in self.slots.attributes.items() if name in self.workload.attributes
        }
        work, part = self.slots.work, self.slots.home_part
        return np.stack(
            [
                proxy_origins(self.model, work, part, self.policy, seed, public, self.concentrations)
                for seed in range(self.seed, self.seed + self.draws)
            ]
        )

    @cached_property
    def _ordered_homes(self) -> NDArray[np.int32]:
        return self.homes[:, _order(self.slots)]

    def homes_of(self, pools: PoolTable) -> NDArray[np.int32]:
        """Return the homes in the order of a candidate's slots, each with a job like its own."""
        if pools.slots is self.slots:  # which most pools leave as they are
            return self.homes
        homes = np.empty_like(self.homes)
        homes[:, _order(pools.slots)] = self._ordered_homes
        return homes


def _order(slots: geo_data.Slots) -> NDArray[np.int64]:
    """Return the order by work block, part and attributes, in which jobs that are alike stay as they are."""
    alike, times = slots.counted()  # far fewer are sorted
    order = np.lexsort([*reversed(alike.attributes.values()), alike.home_part, alike.work])
    return segment_indices((np.cumsum(times) - times)[order], times[order])


def draw_sample(
    inputs: PublicInputs,
    jobs: NDArray[np.int64],
    member: NDArray[np.bool_],
    size: int,
    workload: Workload,
    by: tuple[str, ...] = (),
) -> Sample:
    """Return the slots of the member blocks of some destination units, spread evenly over all sizes."""
    unit = inputs.model.geography.units_of_blocks(inputs.model.level)
    of_unit = np.bincount(unit, np.where(member, jobs, 0), minlength=inputs.model.n_units)
    present = np.flatnonzero(of_unit)
    # One in so many, by size: what units lose depends on it most, and each counts by its jobs.
    present = present[np.argsort(of_unit[present], kind="stable")]
    share = size / max(1, int(of_unit.sum()))
    wanted = min(_SAMPLE_UNITS, max(_FEWEST_UNITS, round(share * present.size)))
    if wanted < present.size:
        present = present[((np.arange(wanted) + 0.5) * present.size / wanted).astype(np.int64)]
    slots, blocks = inputs.slots, np.flatnonzero(member & np.isin(unit, present)).astype(np.int32)
    # Slots are sorted by work block, so those of a block need not be looked for among all.
    first, last = (np.searchsorted(slots.work, blocks, side=side) for side in ("left", "right"))
    rows = segment_indices(first, last - first)
    named = tuple(name for name in dict.fromkeys((*workload.attributes, *by)) if name in slots.attributes)
    return Sample(
        slots.take(rows, named),
        inputs.model,
        workload,
        inputs.policy,
        inputs.concentrations,
        len(slots),
        min(_MOST_DRAWS, max(1, _DRAWN_JOBS // len(slots))),
    )


def expected_loss(config: ReleaseConfig, inputs: PublicInputs, sample: Sample, choices: Choices) -> float:
    """Return what a candidate loses over the workload: infinity where it cannot be had, or is too large."""
    if len(sample) == 0:
        return 0.0
    delta = config.privacy.delta
    if config.privacy.guarantee == "pdp" and not config.protects_records:  # its delta is shared by size
        delta = delta * len(sample) / sample.of
    try:
        plan = assemble(config, inputs, sample.slots, choices, delta, rough=True)
    except synth.BudgetTooSmallError:
        return inf
    if _is_too_large(plan, sample.share):
        return inf
    numeric = plan.mechanism.as_of_all(plan.numeric, sample.share)
    plan = plan if numeric is plan.numeric else replace(plan, numeric=numeric)
    draws = enumerate(sample.homes_of(plan.pools), start=sample.seed)
    return float(
        np.mean([sample.workload.objective(_losses(plan, sample, seed, homes)) for seed, homes in draws])
    )


@dataclass(frozen=True, eq=False)
class Trial:
    """Tries candidates on a sample, wherever it is sent: all of it is public."""

    config: ReleaseConfig
    inputs: PublicInputs
    sample: Sample

    @classmethod
    def of(cls, config: ReleaseConfig, inputs: PublicInputs, sample: Sample) -> Trial:
        """Return one that is as small as can be."""
        config = config.model_copy(update={"signature": None, "ledger": None, "witness": None})
        inputs = replace(inputs, slots=sample.slots, polygons={}, names={}, rows={})
        return cls(_without_folders(config), inputs, sample)

    def __call__(self, candidate: Choices) -> float:
        """Return what the candidate loses."""
        return expected_loss(self.config, self.inputs, self.sample, candidate)


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


def _losses(plan: ReleasePlan, sample: Sample, seed: int, homes: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return what one draw loses in each table of the workload."""
    slots, workload, parts = plan.pools.slots, sample.workload, batches(plan)
    key = synth.RunKey.from_seed(seed)
    drawn, fit = procedure_of(plan).draw(parts, homes, key)
    true, synthetic = (CountedJobs(slots.work, origins, slots.attributes) for origins in (homes, drawn))
    losses = workload.losses(true, synthetic, sample.share)
    if fit is not None and sample.share < 1:
        # Their noise is that of the whole, which more units do not even out; whole jobs would be too coarse.
        margins = fit.margins()[1:]
        for groups, choice, margin in zip(plan.secondary, plan.choices.tables, margins, strict=True):
            lost = margin - count_cells(groups.table, groups.find(slots), homes)
            for i, table in enumerate(workload.tables):
                told_apart, home = {*choice.by}, str(choice.home)
                counted = table.work is None and choice.work is None and {*table.attributes} <= told_apart
                if counted and table.home and plan.geography.lie_within(home, table.home):
                    losses[i] = _variation(plan, groups, table, lost)
    return losses


def _variation(plan: ReleasePlan, groups: MeasuredGroups, table: Table, lost: NDArray[np.float64]) -> float:
    """Return the total variation of a table of residents, from what is lost in each cell of a finer one."""
    slots, measured = plan.pools.slots, groups.table
    slot = np.zeros(measured.n.size, np.int64)
    slot[groups.find(slots)] = np.arange(len(slots))  # a slot of each group
    bounds, cuts = measured.domains.offsets, measured.domains.cuts
    cells = np.concatenate([cuts[bounds[d] : bounds[d + 1]] for d in measured.domain.tolist()])
    home = plan.geography.unit_of(str(table.home), cells).astype(np.int64)
    kinds = np.zeros(cells.size, np.int64)
    for name in table.attributes:
        categories = np.repeat(slots.attributes[name][slot].astype(np.int64), measured.k)
        kinds = kinds * len(slots.categories[name]) + categories
    kinds = kinds * (int(home.max()) + 1) + home
    return float(np.abs(np.bincount(kinds, lost)).sum() / 2 / len(slots))


def _is_too_large(plan: ReleasePlan, share: float) -> bool:
    cells = int(plan.numeric.k.sum())
    # What is drawn anew takes its time by jobs, of which a sample may have more for that.
    more = 1 if plan.measures else max(1, len(plan.pools.slots) / _DRAWN_JOBS)
    if cells > (_MOST_TOGETHER if plan.secondary else more * _MOST_CELLS):
        return True
    blocks = plan.choices.cell_level == plan.geography.block_level
    if plan.measures and blocks and plan.mechanism.noise_share(plan.numeric) > _MOST_NOISE:
        return True
    return plan.measures and cells > share * _MOST_MEASURED
