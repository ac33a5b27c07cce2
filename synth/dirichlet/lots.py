"""Lots: which records a pool goes on with, where it has more than the bounds of its plan are for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.randomness import WordStream, uniform_below
from synth.segments import segment_indices


def leave_out(sizes: NDArray[np.int64], most: NDArray[np.int64], stream: WordStream) -> NDArray[np.int64]:
    """Choose the records that stay: all of a pool that has few enough, else a uniformly random subset.

    Lemma 31 of docs/privacy.md.

    Parameters
    ----------
    sizes : ndarray of int64, shape (n_pools,)
        **Confidential**: records of each pool; they stand pool after pool.
    most : ndarray of int64, shape (n_pools,)
        The most that may stay of each pool, at least 0.
    stream : WordStream
        Key stream of this batch's "lots" stage.

    Returns
    -------
    ndarray of int64
        **Confidential**: positions of the records that stay, pool after pool; ``min(sizes, most)`` of each.

    Notes
    -----
    Without replacement, by exchanging (Fisher and Yates): the t-th that stays is uniform among those that are
    left. Of a pool that nothing is left out of, no random number is asked for.
    """
    stay = np.minimum(sizes, most)
    ends = np.cumsum(sizes)
    begin = ends - sizes
    crowded = np.flatnonzero(sizes > most)
    position = np.arange(int(sizes.sum()))
    first = np.repeat(begin[crowded], stay[crowded])
    place = np.arange(first.size) - np.repeat(np.cumsum(stay[crowded]) - stay[crowded], stay[crowded])
    left = np.repeat(sizes[crowded], stay[crowded]) - place
    _exchange(position, first + place, first + place + uniform_below(left, stream))
    return position[segment_indices(begin, stay)]


@_compiled
def _exchange(values, here, there):  # type: ignore[no-untyped-def]
    for t in range(here.size):
        values[here[t]], values[there[t]] = values[there[t]], values[here[t]]
