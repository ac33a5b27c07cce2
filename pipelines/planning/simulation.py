"""What a plan is expected to do to the data, found out on proxy truth drawn from the public model.

The whole pipeline runs, with the sampler that ships, on homes that are nobody's: what it loses there is
the expected error after noise, resampling and decoarsening under the public model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.planning.plan import ReleasePlan, batches
from pipelines.planning.sampling import sample_batch
from pipelines.planning.utility import destination_commute_error, mean_commute, total_variation

__all__ = ["SimulatedUtility", "objective", "simulate_utility"]


@dataclass(frozen=True)
class SimulatedUtility:
    """Expected utility of a plan under the public model (`pipelines.planning.utility` defines the measures).

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
        Expected share of synthetic workers drawn as noise.
    objective : float
        What the planner minimises (`objective`).
    jobs : int
        Jobs that were tried.
    """

    total_variation: float
    block_variation: float
    mean_commute_error: float
    destination_error: float
    noise_share: float
    objective: float
    jobs: int

    def as_dict(self) -> dict[str, float | None]:
        """Return the measures by name; one that has no value is None."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


_TRIAL_JOBS = 1_000_000


def _draw_trial(
    plan: ReleasePlan, homes: NDArray[np.int32], parts: list[slice], seed: int
) -> NDArray[np.int32]:
    """Draw the synthetic homes of some batches from homes that are nobody's, so the key may be seeded."""
    key = synth.RunKey.from_seed(seed)
    sizes = [int(plan.pools.n[part].sum()) for part in parts]
    halves = np.split(homes, np.cumsum(sizes)[:-1])
    return np.concatenate(
        [
            sample_batch(plan, part, own, key, i)[0]  # one implicate is as good as another
            for i, (part, own) in enumerate(zip(parts, halves, strict=True))
        ]
    )


def simulate_utility(
    plan: ReleasePlan,
    model: geo_data.PublicModel,
    homes: NDArray[np.int32] | None = None,
    *,
    seed: int = 0,
    trial_jobs: int = _TRIAL_JOBS,
    batch_jobs: int | None = None,
) -> SimulatedUtility:
    """Run a plan, or a part of it, on proxy truth and measure what it loses.

    Parameters
    ----------
    plan : ReleasePlan
    model : geo_data.PublicModel
        That the plan was made from.
    homes : ndarray of int32, shape (n_slots,), optional
        Public homes to try the plan on, slot after slot; by default drawn from the model.
    seed : int
        Of proxy truth and trial draw.
    trial_jobs : int
        A larger plan is tried on batches, spread over it, of about so many jobs.
    batch_jobs : int, optional
        Jobs of such a batch, as for a run.

    Returns
    -------
    SimulatedUtility
    """
    work, homes, synthetic = _tried(plan, model, homes, seed, trial_jobs, batch_jobs)
    geography = plan.geography
    flows, block_flows = _variations(plan, work, homes, synthetic)
    means = [mean_commute(geography, work, h) for h in (homes, synthetic)]
    return SimulatedUtility(
        total_variation=flows,
        block_variation=block_flows,
        mean_commute_error=means[1] / means[0] - 1 if means[0] > 0 else 0.0,
        destination_error=destination_commute_error(geography, work, homes, synthetic),
        noise_share=plan.mechanism.noise_share(plan.numeric),
        objective=_weighed(plan, flows, block_flows),
        jobs=work.size,
    )


def objective(
    plan: ReleasePlan, model: geo_data.PublicModel, seed: int, homes: NDArray[np.int32] | None = None
) -> float:
    """Return what the planner minimises.

    Where workers are drawn anew, the mean of its two total variations. For noise on counts,
    that of flows between units alone: it is what sharing pools makes smaller, up to one pool for all work
    blocks of a unit.

    Parameters
    ----------
    plan : ReleasePlan
    model : geo_data.PublicModel
        That the plan was made from.
    seed : int
        Of proxy truth and trial draw.
    homes : ndarray of int32, shape (n_slots,), optional
        As for `simulate_utility`.

    Returns
    -------
    float
        In [0, 1].
    """
    return _weighed(plan, *_variations(plan, *_tried(plan, model, homes, seed)))


def _weighed(plan: ReleasePlan, flows: float, block_flows: float) -> float:
    return (flows + block_flows) / 2 if plan.mechanism.resamples else flows


def _tried(
    plan: ReleasePlan,
    model: geo_data.PublicModel,
    homes: NDArray[np.int32] | None,
    seed: int,
    trial_jobs: int = _TRIAL_JOBS,
    batch_jobs: int | None = None,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return work blocks, proxy homes and synthetic homes of the jobs on which a plan is tried."""
    parts = _spread(batches(plan, batch_jobs), plan.pools.n, trial_jobs)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(plan.pools.n)])
    tried = np.concatenate([np.arange(offsets[part.start], offsets[part.stop]) for part in parts])
    work = plan.pools.slots.work[tried]
    homes = geo_data.proxy_homes(model, work, seed) if homes is None else homes[tried]
    return work, homes, _draw_trial(plan, homes, parts, seed)


def _variations(
    plan: ReleasePlan, work: NDArray[np.int32], homes: NDArray[np.int32], synthetic: NDArray[np.int32]
) -> tuple[float, float]:
    geography = plan.geography
    of_units = total_variation(geography, plan.level, work, homes, synthetic)
    level = geography.block_level
    return of_units, total_variation(geography, plan.level, work, homes, synthetic, destination_level=level)


def _spread(parts: list[slice], n: NDArray[np.int64], jobs: int) -> list[slice]:
    """Return as many batches, evenly spread, as hold about so many jobs."""
    wanted = max(1, round(len(parts) * jobs / int(n.sum())))
    if wanted >= len(parts):
        return parts
    return [parts[i] for i in np.unique(np.linspace(0, len(parts) - 1, wanted).astype(int))]
