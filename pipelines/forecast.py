"""What a plan is expected to do to the data, found out on pseudo-truth drawn from the public model.

The whole pipeline runs, with the sampler that ships, on homes that are nobody's: what it loses there is
the expected error after noise, resampling and decoarsening under the public model.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.planning import ReleasePlan
from pipelines.sampling import batches, sample_batch
from pipelines.utility import destination_commute_error, mean_commute, total_variation

__all__ = ["Forecast", "draw_trial", "forecast"]


@dataclass(frozen=True)
class Forecast:
    """Expected utility of a plan under the public model (`pipelines.utility` defines the measures).

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
    """

    total_variation: float
    block_variation: float
    mean_commute_error: float
    destination_error: float
    noise_share: float

    def as_dict(self) -> dict[str, float]:
        """Return the measures by name."""
        return asdict(self)

    @property
    def objective(self) -> float:
        """What the planner minimises: the mean of the two total variations."""
        return (self.total_variation + self.block_variation) / 2


def draw_trial(release: ReleasePlan, homes: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """Draw the synthetic homes of pseudo-truth; nothing is confidential, so the key may be seeded."""
    key = synth.RunKey.from_seed(seed)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(release.pools.n)])
    parts = [
        sample_batch(release, pools, homes[offsets[pools.start] : offsets[pools.stop]], key, i)
        for i, pools in enumerate(batches(release))
    ]
    return np.concatenate(parts)


def forecast(release: ReleasePlan, model: geo_data.PublicModel, seed: int = 0) -> Forecast:
    """Run a plan on pseudo-truth and measure what it loses.

    Parameters
    ----------
    release : ReleasePlan
    model : geo_data.PublicModel
        That the plan was made from.
    seed : int
        Of pseudo-truth and trial draw.

    Returns
    -------
    Forecast
    """
    geography, work = release.geography, release.pools.slots.work
    homes = geo_data.pseudo_homes(model, work, seed)
    synthetic = draw_trial(release, homes, seed)
    means = [mean_commute(geography, work, h) for h in (homes, synthetic)]
    return Forecast(
        total_variation=total_variation(geography, release.level, work, homes, synthetic),
        block_variation=total_variation(
            geography, release.level, work, homes, synthetic, destination_level=geography.block_level
        ),
        mean_commute_error=means[1] / means[0] - 1 if means[0] > 0 else 0.0,
        destination_error=destination_commute_error(geography, work, homes, synthetic),
        noise_share=release.mechanism.noise_share(release.plan),
    )
