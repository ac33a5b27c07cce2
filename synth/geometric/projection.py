"""From noisy counts to synthetic workers: nearest counts, random order.

Nothing here is handed a confidential array: what these functions see are counts that already carry their
noise, public sizes, and fresh randomness. They work in integers, so that every step is what its lemma says.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import offsets_of
from synth.randomness import WordStream, exchange, uniform_below

MAX_MASS = 2**61
"""Largest k n of a group of k cells and n jobs: sums of its nearest counts then fit 63 bits."""

Int64 = NDArray[np.int64]


def project(noisy: Int64, offsets: Int64, n: Int64) -> tuple[Int64, Int64]:
    """Return the nearest non-negative counts that add up to n, pool by pool, as exact fractions.

    Lemma 22 of docs/privacy.md.

    Parameters
    ----------
    noisy : ndarray of int64, shape (n_cells,)
        Integers of any sign, pool after pool; those beyond 2^61 / k are first clipped to it.
    offsets : ndarray of int64, shape (n_pools + 1,)
        Cells of pool p stand at ``offsets[p]:offsets[p + 1]``; every pool has at least one.
    n : ndarray of int64, shape (n_pools,)
        At least 1, and n k at most `MAX_MASS`.

    Returns
    -------
    mass : ndarray of int64, shape (n_cells,)
        At least 0; adds up to unit * n in each pool. The nearest count of a cell is mass / unit.
    unit : ndarray of int64, shape (n_pools,)
        Number of cells that the nearest counts leave above 0.
    """
    mass, unit = np.empty_like(noisy), np.empty_like(n)
    _project(noisy, offsets, n, mass, unit)
    return mass, unit


def shuffled(counts: Int64, offsets: Int64, m: Int64, stream: WordStream) -> NDArray[np.int32]:
    """Return the cell of every worker, in uniformly random order inside each pool.

    Lemma 24 of docs/privacy.md.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        Workers of each cell, pool after pool; they add up to m in each.
    offsets : ndarray of int64, shape (n_pools + 1,)
        As for `project`.
    m : ndarray of int64, shape (n_pools,)
    stream : WordStream

    Returns
    -------
    ndarray of int32, shape (sum of m,)
        Cells, numbered from 0 in each pool.
    """
    first = np.repeat(offsets[:-1], np.diff(offsets))
    cells = np.repeat((np.arange(counts.size) - first).astype(np.int32), counts)
    begin, here = np.repeat(offsets_of(m)[:-1], m), np.arange(cells.size)
    exchange(cells, here, begin + uniform_below(here - begin + 1, stream))
    return cells


@_compiled
def _project(noisy, offsets, n, mass, unit):  # type: ignore[no-untyped-def]
    """Drop cells at or below the water level until none is (Michelot 1986); the level only rises."""
    for pool in range(n.size):
        first, last = offsets[pool], offsets[pool + 1]
        k = last - first
        limit = MAX_MASS // k
        above, total = k, 0
        for c in range(first, last):
            mass[c] = min(max(noisy[c], -limit), limit)
            total += mass[c]
        while True:
            # The water level is (total - n) / above.
            kept, sum_kept = 0, 0
            for c in range(first, last):
                if above * mass[c] > total - n[pool]:
                    kept += 1
                    sum_kept += mass[c]
            if kept == above:
                break
            above, total = kept, sum_kept
        for c in range(first, last):
            mass[c] = max(0, above * mass[c] - (total - n[pool]))
        unit[pool] = above
