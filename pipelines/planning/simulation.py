"""What a plan is expected to do to the data, found out on proxy truth drawn from the public model.

The whole pipeline runs, with the sampler that ships, on homes that are nobody's: what it loses there is
the expected error after noise, resampling and block sampling under the public model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

import geo_data
import synth
from geo_data.arguments import check_type
from geo_data.geography import Geography
from geo_data.proxy_truth import attribute_concentrations, proxy_categories, proxy_origins, proxy_workplaces
from pipelines.drawing.procedures import Procedure, pools_of, procedure_of, split_homes
from pipelines.drawing.sampling import draw_from_model, measure
from pipelines.drawing.workplaces import estimate_again, estimate_slots
from pipelines.planning.trials import ParallelMap
from pipelines.plans.accuracy import (
    ExpectedAccuracy,
    SizeClass,
    expected_accuracy,
    expected_sizes,
    improves_on_model,
    reported_tables,
)
from pipelines.plans.plan import ReleasePlan, batches, slots_of, spread
from pipelines.plans.utility import (
    cell_variation,
    commutes,
    destination_commute_error,
    mean_km,
    squared_error,
)
from pipelines.plans.workload import CountedJobs, Table, workload_of
from pipelines.storage.progress import Progress, ProgressCounter


@dataclass(frozen=True)
class ExpectedLoss:
    """What is expected to be lost in one table of the workload, on proxy truth.

    Attributes
    ----------
    table : Table
    loss : float
        With the plan.
    public_model : float
        With homes drawn from the public model alone, which sees nothing confidential.
    no_privacy : float
        With the plan's pools or tables and no noise (`draw_without_noise`).
    """

    table: Table
    loss: float
    public_model: float
    no_privacy: float

    def __repr__(self) -> str:
        return (
            f"<ExpectedLoss: {self.table.name}: {self.loss:.3f}; public model alone {self.public_model:.3f}, "
            f"no privacy {self.no_privacy:.3f}>"
        )

    @property
    def carried(self) -> bool:
        """Whether the release says more of the table than public data do (`improves_on_model`)."""
        return improves_on_model(self.loss, self.public_model)

    def as_dict(self) -> dict[str, Any]:
        """Return it as it stands in the forecast of a plan."""
        return {
            "table": self.table.name,
            "home": self.table.home,
            "work": self.table.work,
            "attributes": list(self.table.attributes),
            "weight": str(self.table.weight),
            "loss": self.loss,
            "public_model": self.public_model,
            "no_privacy": self.no_privacy,
            "carried": self.carried,
        }


@dataclass(frozen=True)
class SimulatedUtility:
    """Expected utility of a plan under the public model (`pipelines.plans.utility` defines the measures).

    Attributes
    ----------
    total_variation : float
        Between tables of flows between units of the model's level.
    block_variation : float
        The same from units to work blocks.
    mean_commute_error : float
        Relative error of the mean commute, signed.
    destination_error : float
        Median relative error of the mean commute of work blocks with at least 100 jobs; NaN if there is none.
    noise_share : float
        Expected share of synthetic workers drawn as noise; where tables are measured, of noise in the counts
        of pools.
    objective : float
        What the planner minimises: the weighted mean loss over the workload (`pipelines.plans.workload`).
    jobs : int
        Jobs that were tried, in each world of proxy truth.
    workload : tuple of ExpectedLoss
        Each table that the release is for.
    accuracy : ExpectedAccuracy
        How far the numbers of each table, and of flows at each level, are off, by their size.
    """

    total_variation: float
    block_variation: float
    mean_commute_error: float
    destination_error: float
    noise_share: float
    objective: float
    jobs: int
    workload: tuple[ExpectedLoss, ...]
    accuracy: ExpectedAccuracy

    def __repr__(self) -> str:
        losses = "; ".join(f"{expected.table.name} {expected.loss:.3f}" for expected in self.workload)
        return (
            f"<SimulatedUtility: expected loss {self.objective:.4f} (weighted mean of {losses}), "
            f"mean commute off by {self.mean_commute_error:+.1%}; tried on {self.jobs:,} jobs>"
        )

    @property
    def _measures(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("workload", "accuracy")}

    def columns(self) -> dict[str, float]:
        """Return the measures as columns of a table, with three for each table of the workload."""
        columns = self._measures
        for expected in self.workload:
            columns[f"loss: {expected.table.name}"] = expected.loss
            columns[f"public model: {expected.table.name}"] = expected.public_model
            columns[f"no privacy: {expected.table.name}"] = expected.no_privacy
        return columns

    def as_dict(self) -> dict[str, Any]:
        """Return the measures by name; one that has no value is None."""
        measures = {name: None if value != value else value for name, value in self._measures.items()}
        tables = [table.as_dict() for table in self.workload]
        return measures | {"workload": tables, "accuracy": self.accuracy.as_dict()}


_TRIAL_JOBS = 1_000_000
_MOST_WORLDS = 3  # of proxy truth, whose losses are averaged where a plan has few jobs
_FEW_CELLS = 2**24  # of the pools of a plan; two draws of one with more are not held at once
_TRIAL_CELLS = 2**24  # of several tables, which are fitted together in memory when they are tried


def draw_public_model(
    plan: ReleasePlan, seed: int, tried: slice | NDArray[np.int64] = slice(None)
) -> NDArray[np.int32]:
    """Return homes that are drawn from the public model alone: what is known without confidential data."""
    places = plan.pools.block[pools_of(plan, tried)]
    part = plan.pools.slots.home_part[tried]
    return draw_from_model(plan, places, part, synth.RunKey.from_seed(seed).stream("public model", 0))


def draw_without_noise(plan: ReleasePlan, homes: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """Return homes as a plan would release them without privacy: of its pools or tables, without noise."""
    return procedure_of(plan).draw_without_noise(batches(plan), homes, synth.RunKey.from_seed(seed))


@dataclass(frozen=True, eq=False)
class _BatchTrial:
    """Draws the batches of a trial, each by itself, wherever it is sent; all of it is public."""

    plan: ReleasePlan
    homes: NDArray[np.int32]
    parts: list[slice]
    seed: int

    @cached_property
    def _procedure(self) -> Procedure:
        return procedure_of(self.plan)

    def __call__(self, task: tuple[bool, int]) -> NDArray[np.int32]:
        """Return what is drawn with noise, or without, of a batch."""
        noisy, i = task
        homes, key = split_homes(self.plan, self.homes, self.parts)[i], synth.RunKey.from_seed(self.seed)
        return self._procedure.draw_batch(self.parts[i], homes, key, i, noisy=noisy)


def simulate_utility(
    plan: ReleasePlan,
    model: geo_data.PublicModel,
    homes: npt.ArrayLike | None = None,
    *,
    attributes: Mapping[str, npt.ArrayLike] | None = None,
    seed: int = 0,
    parallel_map: ParallelMap | None = None,
    progress: Progress | None = None,
) -> SimulatedUtility:
    """Run a plan, or a part of it, on proxy truth and measure what it loses.

    A plan of more than a million jobs is tried on batches, spread over it, of about so many jobs; fewer,
    where several tables would have too many cells in memory.

    Parameters
    ----------
    plan : ReleasePlan
    model : geo_data.PublicModel
        That the plan was made from.
    homes : array_like of int, shape (n_slots,), optional
        Public homes (origins) to try the plan on, slot after slot; by default drawn from the model.
    attributes : mapping of str to array_like of int, shape (n_slots,) each, optional
        Categories of the jobs that these homes are of; by default those of the slots.
    seed : int
        Of proxy truth and trial draw; of further worlds, which are drawn where all together have at most
        half a million jobs and no homes are given, those that follow. Losses and measures are means over
        them.
    parallel_map : callable, optional
        Where one table is measured: how batches are drawn; called, as `map` is, with a function and items. By
        default by threads of this process.
    progress : Progress, optional
        Told how many parts of this are done, and how many there are.

    Returns
    -------
    SimulatedUtility
    """
    worlds = _worlds(plan) if homes is None else 1
    draws = ("released", "public", "without_noise")
    check_type(plan, ReleasePlan, "plan", "make_plan")
    check_type(model, geo_data.PublicModel, "model", "geo_data.build_model")
    trials = (_trial(plan, model, seed + i, parallel_map, homes, attributes) for i in range(worlds))
    trial, sizes, lost, measured = _tried(trials, worlds, draws, progress, with_measures=True)
    of_workload = lost[:3, : len(trial.workload.tables)]
    return SimulatedUtility(
        total_variation=measured[0],
        block_variation=measured[1],
        mean_commute_error=measured[2],
        destination_error=measured[3],
        noise_share=plan.mechanism.noise_share(plan.numeric),
        objective=trial.workload.objective(of_workload[0]),
        jobs=len(trial.true),
        workload=tuple(
            ExpectedLoss(table, *of_table)
            for table, of_table in zip(trial.workload.tables, of_workload.T.tolist(), strict=True)
        ),
        accuracy=trial.accuracy(lost[[0, 1, -1]], sizes),
    )


def simulate_accuracy(
    plan: ReleasePlan,
    model: geo_data.PublicModel,
    parallel_map: ParallelMap | None,
    progress: Progress | None,
) -> ExpectedAccuracy:
    """Return the accuracy of `simulate_utility` without what only somebody who chooses a plan asks for."""
    worlds = _worlds(plan)
    trials = (_trial(plan, model, i, parallel_map) for i in range(worlds))
    trial, sizes, lost, _ = _tried(trials, worlds, ("released", "public"), progress)
    return trial.accuracy(lost, sizes)


def _tried(
    trials: Iterable[_Trial],
    worlds: int,
    draws: Sequence[str],
    progress: Progress | None,
    *,
    with_measures: bool = False,
) -> tuple[_Trial, list[list[SizeClass]], NDArray[np.float64], list[float]]:
    """Try a plan in one world after the other.

    Return the first with the sizes of its numbers, by table that is reported; and means over all of losses
    of each draw and squared errors of the first, (draws + 1, tables), and of measures.
    """
    losses: list[NDArray[np.float64]] = []
    measured = []
    for trial in trials:
        if not losses:
            done = ProgressCounter(progress, worlds * trial.count_parts(draws))
        drawn = trial.draw([getattr(trial, name) for name in draws], done)
        lost, sizes_of_tables = trial.losses(drawn, sized=not losses)
        if not losses:
            first, sizes = trial, sizes_of_tables
        losses.append(lost)
        measured.append(trial.measures(drawn[0]) if with_measures else [])
        done()
    return first, sizes, np.mean(losses, axis=0), np.mean(measured, axis=0).tolist()


def _worlds(plan: ReleasePlan) -> int:
    """Return in how many worlds a plan is tried: of few areas one has residents by luck."""
    return max(1, min(_MOST_WORLDS, _TRIAL_JOBS // 2 // len(plan.pools.slots)))


class _Trial:
    """What a plan is tried on, and what is drawn of it: jobs of some batches of a plan.

    Parameters
    ----------
    plan : ReleasePlan
        With the slots that a release has.
    geography : Geography
        With the non-nesting areas of the workload.
    parts : list of slice
        The batches that are tried.
    true : CountedJobs
        Jobs of their work units.
    homes : ndarray of int32
        Of the slots of these batches, to draw from.
    public : (ReleasePlan, ndarray of int64)
        The plan and those of its slots that are known without confidential data.
    seed : int
    parallel_map : callable, optional
        As of `simulate_utility`.
    """

    def __init__(
        self,
        plan: ReleasePlan,
        geography: Geography,
        parts: list[slice],
        true: CountedJobs,
        homes: NDArray[np.int32],
        public: tuple[ReleasePlan, NDArray[np.int64]],
        seed: int,
        parallel_map: ParallelMap | None,
    ) -> None:
        self._plan, self._geography, self._parts, self._seed = plan, geography, parts, seed
        self._homes, self._public, self.true = homes, public, true
        self.workload = workload_of(plan)
        tried = slots_of(plan, parts)
        self._jobs = plan.pools.slots.take(tried, [*true.attributes.keys() & plan.pools.slots.attributes])
        self.share = tried.size / len(plan.pools.slots)
        self._procedure = procedure_of(plan)
        self._parallel_map = parallel_map if self._procedure.worth_sending else None
        self._batch_trial = _BatchTrial(plan, homes, parts, seed)

    def losses(
        self, drawn: Sequence[CountedJobs], *, sized: bool
    ) -> tuple[NDArray[np.float64], list[list[SizeClass]]]:
        """Return what each draw loses in every reported table, and squared errors of the first, below.

        And the sizes of its numbers, if asked.
        """
        losses: list[list[float]] = []
        sizes: list[list[SizeClass]] = []
        tables = tuple(table for table, _ in reported_tables(self.workload))
        reported = replace(self.workload, tables=tables)
        compared = reported.compare(self.true, drawn, self.share)
        for table, (lost, cells) in zip(tables, compared, strict=True):
            losses.append([*lost, squared_error(*cells[:2])])
            if sized:
                sizes.append(expected_sizes(reported, table, cells, (self.true, drawn[0]), self.share))
        return np.transpose(losses), sizes

    def accuracy(self, errors: NDArray[np.float64], sizes: Sequence[list[SizeClass]]) -> ExpectedAccuracy:
        """Return the sheet of `expected_accuracy`."""
        return expected_accuracy(self.workload, len(self.true), errors, sizes, self._plan)

    def measures(self, released: CountedJobs) -> list[float]:
        """Return total and block variation, error of the mean commute, and that of destinations."""
        true, geography, level = self.true, self._geography, self._plan.level
        km = [commutes(geography, jobs.work, jobs.home) for jobs in (true, released)]
        means = [mean_km(lengths) for lengths in km]
        flows = (Table(level, work, (), Fraction(0)) for work in (level, geography.block_level))
        return [
            *(cell_variation(*self.workload.cells(table, (true, released))) for table in flows),
            means[1] / means[0] - 1 if means[0] > 0 else 0.0,
            destination_commute_error(true.work, km[0], released.work, km[1]),
        ]

    def count_parts(self, draws: Sequence[str]) -> int:
        """Return how often `draw` calls `done` for such draws, and once more for what is measured of them."""
        of_each = self._procedure.stages(len(self._parts))
        return sum(1 if name == "public" else of_each for name in draws) + 1

    def draw(
        self,
        draws: Sequence[Callable[[Callable[[], None]], CountedJobs]],
        done: Callable[[], None],
    ) -> list[CountedJobs]:
        """Draw side by side, as compiled code leaves the interpreter free; no draw depends on another."""
        # Nothing may change in the plan, as by keeping what was computed of it, while it is sent elsewhere.
        together = self._plan.numeric.k.sum() <= _FEW_CELLS and self._parallel_map is None
        with ThreadPoolExecutor(2 if together else 1) as threads:
            return list(threads.map(lambda draw: draw(done), draws))

    def _at_slots(self, homes: NDArray[np.int32]) -> CountedJobs:
        return CountedJobs(self._jobs.work, homes, self._jobs.attributes)

    def _each_batch(self, draw: ParallelMap, done: Callable[[], None], *, noisy: bool) -> CountedJobs:
        batches_drawn = []
        for drawn in draw(self._batch_trial, [(noisy, i) for i in range(len(self._parts))]):
            batches_drawn.append(drawn)
            done()
        return self._at_slots(np.concatenate(batches_drawn))

    def released(self, done: Callable[[], None]) -> CountedJobs:
        if self._parallel_map is not None:
            return self._each_batch(self._parallel_map, done, noisy=True)
        key = synth.RunKey.from_seed(self._seed)
        return self._at_slots(self._procedure.draw(self._parts, self._homes, key, done)[0])

    def public(self, done: Callable[[], None]) -> CountedJobs:
        plan, tried = self._public
        slots = plan.pools.slots.take(tried, [*self._jobs.attributes])
        drawn = draw_public_model(plan, self._seed, tried)
        done()
        return CountedJobs(slots.work, drawn, slots.attributes)

    def without_noise(self, done: Callable[[], None]) -> CountedJobs:
        if self._parallel_map is not None:
            return self._each_batch(self._parallel_map, done, noisy=False)
        key = synth.RunKey.from_seed(self._seed)
        return self._at_slots(self._procedure.draw_without_noise(self._parts, self._homes, key, done))


def _trial(
    plan: ReleasePlan,
    model: geo_data.PublicModel,
    seed: int,
    parallel_map: ParallelMap | None,
    homes: npt.ArrayLike | None = None,
    attributes: Mapping[str, npt.ArrayLike] | None = None,
) -> _Trial:
    """Return a trial of a plan; parameters are those of `simulate_utility`."""
    if plan.workplaces and homes is None:
        return _RecordTrial(plan, model, seed)
    parts = _tried_parts(plan)
    tried = slots_of(plan, parts)
    jobs = plan.pools.slots.take(tried)
    drawn = _proxy_homes(plan, model, jobs, seed) if homes is None else np.asarray(homes)[tried]
    names = [name for name in workload_of(plan).attributes if name in jobs.attributes]
    codes: dict[str, NDArray[Any]] = {
        name: jobs.attributes[name] if attributes is None else np.asarray(attributes[name])[tried]
        for name in names
    }
    true = CountedJobs(jobs.work, drawn, codes)
    return _Trial(plan, model.geography, parts, true, drawn, (plan, tried), seed, parallel_map)


def _tried_parts(plan: ReleasePlan) -> list[slice]:
    """Return the batches on which a plan is tried."""
    part = _TRIAL_JOBS / len(plan.pools.slots)
    if plan.secondary:
        part = min(part, _TRIAL_CELLS / int(plan.numeric.k.sum()))
    return spread(batches(plan), part)


def _proxy_homes(
    plan: ReleasePlan, model: geo_data.PublicModel, jobs: geo_data.Slots, seed: int
) -> NDArray[np.int32]:
    """Return homes of some jobs, drawn from the public model."""
    names = [name for name in workload_of(plan).attributes if name in jobs.attributes]
    concentrations = attribute_concentrations(
        model.geography, model.level, plan.pools.slots, plan.config.unknown_attributes
    )
    attributes = {name: jobs.attributes[name] for name in names}
    return proxy_origins(model, jobs.work, jobs.home_part, plan.policy, seed, attributes, concentrations)


class _RecordTrial(_Trial):
    """A trial of more than homes: workplaces are measured, and slots estimated, before homes are."""

    def __init__(self, planned: ReleasePlan, model: geo_data.PublicModel, seed: int) -> None:
        expected, geography = planned.pools.slots, planned.geography
        unit = np.asarray(geography.units_of_blocks(planned.level))
        if planned.policy.secret:
            true = proxy_categories(expected, [*planned.policy.secret], unit, seed)
        else:
            true = proxy_workplaces(expected, unit, seed, listed=planned.config.workplaces is not None)
        key, nowhere = synth.RunKey.from_seed(seed), np.zeros(len(true), np.int32)
        records = geo_data.JobRecords(true.work, nowhere, true.attributes)
        tables = zip(planned.workplaces, planned.numeric.workplaces, strict=True)
        noisy = [measure(cells.count(records), table, key, k) for k, (cells, table) in enumerate(tables)]
        plan = planned.with_slots(estimate_slots(planned, noisy))
        parts = _tried_parts(plan)
        of_slots = unit[plan.pools.slots.work]
        left_out = np.setdiff1d(of_slots, of_slots[slots_of(plan, parts)])
        inside = ~np.isin(unit[true.work], left_out)
        true = true.take(np.flatnonzero(inside | ~inside.any()))
        homes = _proxy_homes(planned, model, true, seed)
        names = [name for name in workload_of(planned).attributes if name in true.attributes]
        attributes = {name: true.attributes[name] for name in names}
        jobs = CountedJobs(true.work, homes, attributes)
        public = planned, np.flatnonzero(~np.isin(unit[expected.work], left_out))
        super().__init__(plan, model.geography, parts, jobs, homes, public, seed, None)
        self._records = geo_data.JobRecords(true.work, homes, true.attributes)

        def again(grouped: ReleasePlan, of_homes: Sequence[NDArray[np.int64]]) -> ReleasePlan:
            return grouped.with_jobs(estimate_again(planned, noisy, grouped, of_homes))

        # A part of the homes says nothing of the others' workplaces: then the first slots stay.
        self._again = again if sum(part.stop - part.start for part in parts) == plan.pools.n.size else None

    def count_parts(self, draws: Sequence[str]) -> int:
        """Return how often `draw` calls `done` for such draws, and once more."""
        drawn = 3 if self._plan.measures else len(self._parts)
        return sum(1 if name == "public" else drawn for name in draws) + 1

    def released(self, done: Callable[[], None]) -> CountedJobs:
        return self._drawn(done)

    def without_noise(self, done: Callable[[], None]) -> CountedJobs:
        return self._drawn(done, noisy=False)

    def _drawn(self, done: Callable[[], None], *, noisy: bool = True) -> CountedJobs:
        plan, homes = self._procedure.draw_records(
            self._parts,
            self._records,
            synth.RunKey.from_seed(self._seed),
            self._again,
            done,
            noisy=noisy,
        )
        slots = plan.pools.slots.take(slots_of(plan, self._parts), [*self._jobs.attributes])
        return CountedJobs(slots.work, homes, slots.attributes)
