"""Search inside stretches of one long array: cells of a domain, blocks of a cell."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled

__all__ = ["last_at_most"]


def last_at_most(
    values: NDArray[Any], wanted: NDArray[Any], first: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the last place of each stretch whose value is at most what is wanted.

    `numpy.searchsorted` looks through all of an array every time, and misses the cache at most steps.

    Parameters
    ----------
    values : ndarray of int, shape (n_values,)
        Rising inside every stretch.
    wanted : ndarray of int, shape (n,)
        Not less than the first value of the stretch.
    first, stop : ndarray of int64, shape (n,)
        The stretch of each entry, ``first:stop``; not empty. The value at `first` is not looked at.

    Returns
    -------
    ndarray of int64, shape (n,)
        In ``first:stop``.
    """
    places = np.empty(wanted.shape, np.int64)
    _search(values, wanted, first, stop, places)
    return places


@_compiled
def _search(values, wanted, first, stop, places):  # type: ignore[no-untyped-def]
    for i in range(wanted.size):
        low, high = first[i], stop[i]
        while high - low > 1:
            middle = (low + high) // 2
            if values[middle] <= wanted[i]:
                low = middle
            else:
                high = middle
        places[i] = low
