"""Decoarsening: a block inside its cell for every synthetic worker, by public weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth.plan import Domains
from synth.randomness import WordStream, uniform_below

__all__ = ["draw_blocks"]


def draw_blocks(
    domains: Domains,
    domain: NDArray[np.int32],
    cells: NDArray[np.int32],
    weights: NDArray[np.int64],
    stream: WordStream,
) -> NDArray[np.int32]:
    """Draw a block of each cell with probability proportional to its public weight, exactly.

    Lemma 18 of docs/privacy.md.

    It looks at drawn cells and public numbers only, so it costs no privacy (mechanism document,
    section 2, step 4).

    Parameters
    ----------
    domains : Domains
    domain, cells : ndarray of int32, shape (n,)
        Domain and cell (inside it) of each synthetic worker.
    weights : ndarray of int64, shape (n_blocks,)
        Public weights, at least 1; their sum is below 2^63.
    stream : WordStream

    Returns
    -------
    ndarray of int32, shape (n,)
        Block numbers.
    """
    cumulative = np.concatenate([np.zeros(1, np.int64), np.cumsum(weights)])
    first, stop = domains.bounds(domain, cells)
    place = cumulative[first] + uniform_below(cumulative[stop] - cumulative[first], stream)
    return (np.searchsorted(cumulative, place, side="right") - 1).astype(np.int32)
