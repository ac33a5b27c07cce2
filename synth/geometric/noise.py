"""Two-sided geometric noise: an exact sampler, and noisy counts that such noise hardly gives.

Integers z have a probability proportional to p^|z|, for a rational p. A noisy count lies between 0 and the
public size of its group but for its noise, and the counts of a group add up to its size but for theirs: the
*residual*. What is called rare has a probability below 2^-64, whatever the confidential counts are.
docs/privacy.md has the proofs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth.noise import RARE_BITS, is_rare, log_chance_of_zeros
from synth.randomness import WordStream, events, geometric_up_to
from synth.tails import rigorous

Int64 = NDArray[np.int64]

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


def added_noise(size: int, strong: Fraction, weak: Fraction, stream: WordStream) -> NDArray[np.int64]:
    """Draw independent integers that make noise of one ratio noise of a larger one, exactly.

    Lemma 57 of docs/privacy.md: most counts of tiers that are near each other stay as they are, the others
    get whole noise of the larger ratio.

    Parameters
    ----------
    size : int
        How many.
    strong, weak : Fraction
        p of the noise that is there, and of the larger noise that it shall be.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (size,)

    Raises
    ------
    ValueError
        If the noise would not be larger, or cannot be drawn (`check_ratio`).
    """
    if not 0 < strong < weak < 1:
        raise ValueError("a weaker tier needs a larger ratio than a stronger one")
    added = np.zeros(size, np.int64)
    changed = np.flatnonzero(~events(unchanged_chance(strong, weak), size, stream))
    added[changed] = two_sided_noise(changed.size, weak.numerator, weak.denominator, stream)
    return added


def unchanged_chance(strong: Fraction, weak: Fraction) -> Fraction:
    """Return how likely `added_noise` leaves a count as it is.

    Lemma 57 of docs/privacy.md.
    """
    return strong / weak * ((1 - weak) / (1 - strong)) ** 2


def refined_noise(noise: Int64, strong: Fraction, weak: Fraction, stream: WordStream) -> NDArray[np.int64]:
    """Draw noise of one ratio, given what it is together with `added_noise` of a larger one, exactly.

    Lemma 58 of docs/privacy.md.

    Parameters
    ----------
    noise : ndarray of int64, shape (n,)
        **Confidential**: noise of the larger ratio, independent of each other.
    strong, weak : Fraction
        p of the noise that is drawn, and of the noise that is given.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n,)
        **Confidential.**

    Raises
    ------
    ValueError
        If the noise would not be smaller.
    """
    if not 0 < strong < weak < 1:
        raise ValueError("a refined release needs a smaller ratio than the one before")
    distance, both = np.abs(noise), strong * weak
    outside = strong * (weak - strong) / (1 - both)
    drawn = np.zeros(noise.size, np.int64)
    before = events(outside / (1 + outside), noise.size, stream)
    drawn[~before] = geometric_up_to(strong / weak, distance[~before], stream)
    beyond = np.flatnonzero(~before & (drawn == distance))
    beyond = beyond[events(outside, beyond.size, stream)]
    further = np.concatenate([np.flatnonzero(before), beyond])
    steps = 1 + geometric_up_to(both, np.full(further.size, 2**62), stream)
    drawn[further] += np.where(before[further], -steps, steps)
    return np.where(noise < 0, -drawn, drawn)


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


def noise_limit(ratio: Fraction) -> int:
    """Return how far above the size of its group, or below 0, a noisy count may be.

    One that is farther is rare, by Lemma 42 of docs/privacy.md.
    """
    with rigorous() as balls:
        far = (RARE_BITS + 1) * balls.log(balls.number(2)) / balls.log(balls.number(1 / ratio))
        return math.floor(float(far.upper()) * (1 + 1e-9))


def rare_residuals(ratio: Fraction, cells: Int64, residuals: Int64) -> bool:
    """Say whether the noise of a group hardly adds up to its residual, for any of some groups.

    Lemma 42 of docs/privacy.md.

    Parameters
    ----------
    ratio : Fraction
        p.
    cells, residuals : ndarray of int64, shape (n_groups,)
        Number of cells of each group, and the sum of its noisy counts less its size.
    """
    p, far = float(ratio), np.abs(residuals)
    # Of all others no u shows that they are rare.
    some = np.flatnonzero((1 - p) ** 2 * far.astype(float) ** 2 > 179 * p * cells)
    largest: dict[int, int] = {}
    for k, residual in zip(cells[some].tolist(), far[some].tolist(), strict=True):
        largest[k] = max(residual, largest.get(k, 0))
    return any(is_rare(_log_tail(ratio, k, residual)) for k, residual in largest.items())


def _log_tail(ratio: Fraction, k: int, residual: int) -> Any:
    """Return a ball with an upper bound of the logarithm of how likely so large a residual is."""
    p, a = float(ratio), residual / k
    root = math.hypot(a * (1 - p * p), 2 * p)
    u = Fraction((a * (1 + p * p) + root) / (2 * p * (1 + a)))  # about where the bound is smallest
    u = u if ratio * u < 1 else (1 - Fraction(1, 2**30)) / ratio
    with rigorous() as balls:
        log = [balls.log(balls.number(x)) for x in (2, 1 - ratio, 1 - ratio * u, 1 - ratio / u, u)]
        return log[0] + k * (2 * log[1] - log[2] - log[3]) - residual * log[4]


def rare_zeros(ratio: Fraction, cells: Int64, zeros: int) -> bool:
    """Say whether noise hardly lets so many of some groups add up to exactly their sizes.

    Lemma 42 of docs/privacy.md.

    Parameters
    ----------
    ratio : Fraction
        p.
    cells : ndarray of int64, shape (n_groups,)
        Number of cells of each group.
    zeros : int
        How many of the groups have the residual 0.
    """
    with rigorous() as balls:
        p = balls.number(ratio)
        waves = tuple((1 - p) ** 2 / (1 + c * p + p * p) for c in (-1, 1, 2))
        return is_rare(log_chance_of_zeros(waves, cells, zeros))
