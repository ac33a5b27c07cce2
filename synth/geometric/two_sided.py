"""Exact two-sided geometric noise: integers z with probability proportional to p^|z|, for a rational p."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth.randomness import WordStream

_DONE, _VALUE = 0, 1  # positions in the state array: values finished, and the one that is growing
_MAX_WORDS = 2**20
_MOST_STEPS = 4_000  # of one value, expected: twice those of an epsilon of 1/1000


def check_ratio(numerator: int, denominator: int) -> None:
    """Check that noise of p = P/Q can be drawn, and ends.

    Raises
    ------
    ValueError
        If not 0 < P < Q, P + Q is above 2^62, or 1 - p below 1/4000.
    """
    if not 0 < numerator < denominator <= 2**62 - numerator:
        raise ValueError("the noise of the plan needs 0 < numerator < denominator, and a sum of at most 2^62")
    if denominator > _MOST_STEPS * (denominator - numerator):
        raise ValueError("the noise of the plan is larger than the sampler is made for")


def two_sided_noise(size: int, numerator: int, denominator: int, stream: WordStream) -> NDArray[np.int64]:
    """Draw independent integers z with P(z) proportional to p^|z|, exactly.

    Lemma 19 of docs/privacy.md.

    Parameters
    ----------
    size : int
        How many.
    numerator, denominator : int
        p = P/Q with 0 < P < Q and P + Q at most 2^62.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (size,)
    """
    check_ratio(numerator, denominator)
    noise = np.empty(size, np.int64)
    state = np.zeros(2, np.int64)
    while state[_DONE] < size:
        remaining = size - int(state[_DONE])
        # The top bit of a word is never used (bounds are at most 2^62).
        words = stream.words(min(_MAX_WORDS, remaining + 64)).view(np.int64)
        _draw(numerator, denominator, words, state, noise)
    return noise


@_compiled
def _draw(numerator, denominator, words, state, noise):  # type: ignore[no-untyped-def]
    """Go on until all values are drawn or words run out; a value that is growing is kept in the state."""
    position = 0
    while state[_DONE] < noise.size:
        if state[_VALUE] == 0:
            u, position = _bounded(words, position, numerator + denominator)
            if u < 0:
                return
            if u < 2 * numerator:
                state[_VALUE] = 1 if u < numerator else -1
                continue
        else:
            u, position = _bounded(words, position, denominator)
            if u < 0:
                return
            if u < numerator:
                state[_VALUE] += 1 if state[_VALUE] > 0 else -1
                continue
        noise[state[_DONE]] = state[_VALUE]
        state[_DONE] += 1
        state[_VALUE] = 0
