"""Noisy counts that noise hardly gives, where the public size of their group tells what it must have been.

A noisy count lies between 0 and the size of its group but for its noise, and the counts of a group add up to
its size but for theirs: the *residual*. What is rare here has a probability below 2^-64, whatever the
confidential counts are. docs/privacy.md has the proofs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synth.tails import rigorous

Int64 = NDArray[np.int64]

_BITS = 64
_ODDS = 2.0 ** np.arange(1, 65)  # v of Lemma 42 that are tried


def noise_limit(ratio: Fraction) -> int:
    """Return how far above the size of its group, or below 0, a noisy count may be.

    One that is farther is rare, by Lemma 42 of docs/privacy.md.
    """
    with rigorous() as balls:
        far = (_BITS + 1) * balls.log(balls.number(2)) / balls.log(balls.number(1 / ratio))
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
    return any(_rare(_log_tail(ratio, k, residual)) for k, residual in largest.items())


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
    sizes, groups = np.unique(cells, return_counts=True)
    with rigorous() as balls:
        p = balls.number(ratio)
        sixth, third, half = ((1 - p) ** 2 / (1 + c * p + p * p) for c in (-1, 1, 2))
        zero = [(1 + 2 * sixth**k + 2 * third**k + half**k) / 6 for k in sizes.tolist()]
        roughly = np.array([*map(float, zero)])
        tried = [groups @ np.log1p(roughly * (v - 1)) - zeros * math.log(v) for v in _ODDS]
        v = balls.number(int(_ODDS[np.argmin(tried)]))
        each = (int(n) * balls.log(1 + b * (v - 1)) for n, b in zip(groups, zero, strict=True))
        return _rare(sum(each, -zeros * balls.log(v)))


def _rare(log_bound: Any) -> bool:
    """Say whether a probability is below 2^-64, by a ball with an upper bound of its logarithm."""
    with rigorous() as balls:
        return bool(log_bound < -_BITS * balls.log(balls.number(2)))
