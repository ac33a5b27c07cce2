"""The public model in integers: by what shares a synthetic worker of a large cell gets an origin unit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geo_data._model_tables import AT_A_TIME
from geo_data.model import PublicModel

__all__ = ["SHARE_SCALE", "integer_shares"]

SHARE_SCALE = 2**16
"""What the shares of a destination add up to, before rounding; a share below half of 1 is not listed."""


def integer_shares(
    model: PublicModel, destinations: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Return the model's shares of destinations as integers, without zeros.

    Parameters
    ----------
    model : PublicModel
    destinations : ndarray of int32, shape (r,)
        Units of the model's level.

    Returns
    -------
    offsets : ndarray of int64, shape (r + 1,)
    unit, share : ndarray of int32
        Row r stands at ``offsets[r]:offsets[r + 1]``.
    """
    counts, units, shares = [np.zeros(1, np.int64)], [], []
    for at in range(0, destinations.size, AT_A_TIME):
        scaled = np.rint(model.shares(destinations[at : at + AT_A_TIME]) * SHARE_SCALE).astype(np.int32)
        row, unit = np.nonzero(scaled)
        counts.append(np.bincount(row, minlength=scaled.shape[0]))
        units.append(unit.astype(np.int32))
        shares.append(scaled[row, unit])
    return np.cumsum(np.concatenate(counts)), np.concatenate(units), np.concatenate(shares)
