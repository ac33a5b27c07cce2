"""How close a release is to the truth: measures on two sets of commutes of the same jobs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import geo_data

__all__ = ["mean_commute", "total_variation"]


def total_variation(
    geography: geo_data.Geography,
    level: str,
    work: NDArray[np.int32],
    homes: NDArray[np.int32],
    other_homes: NDArray[np.int32],
) -> float:
    """Return the total variation distance of two tables of flows between units of a level.

    Half the L1 distance between the two origin-destination tables as shares: 0 when equal, 1 when disjoint.

    Parameters
    ----------
    geography : geo_data.Geography
    level : str
    work : ndarray of int32, shape (n,)
        Work block of each job.
    homes, other_homes : ndarray of int32, shape (n,)
        Home blocks in the two tables.

    Returns
    -------
    float
        In [0, 1].
    """
    destination = geography.unit_of(level, work).astype(np.int64) * geography.n_units(level)
    pairs, position = np.unique(
        np.concatenate([destination + geography.unit_of(level, h) for h in (homes, other_homes)]),
        return_inverse=True,
    )
    counts = [np.bincount(half, minlength=pairs.size) for half in np.split(position, 2)]
    return float(np.abs(counts[0] - counts[1]).sum() / (2 * work.size))


def mean_commute(geography: geo_data.Geography, work: NDArray[np.int32], homes: NDArray[np.int32]) -> float:
    """Return the mean distance between home and work block centroids, in kilometres on the ellipsoid."""
    return float(
        geo_data.distance_km(
            geography.latitude[homes],
            geography.longitude[homes],
            geography.latitude[work],
            geography.longitude[work],
        ).mean()
    )
