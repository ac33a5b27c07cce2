"""The calibrations of the paper that this mechanism goes back to, kept for comparison.

A. Machanavajjhala, D. Kifer, J. Abowd, J. Gehrke and L. Vilhuber, "Privacy: Theory meets Practice on the
Map", ICDE 2008: its Theorem 1, and its condition for probabilistic differential privacy. No certificate rests
on this module. `paper_prior` uses floats, which is enough to say how much noise was asked for in 2008.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, cast

import numba

_STEPS = 60  # halvings of the bracket; it ends at the resolution of a float


def theorem1_prior(draws: int, gain: Fraction) -> Fraction:
    """Return the prior of the paper's Theorem 1: pure differential privacy without pruning.

    Parameters
    ----------
    draws : int
        m, at least 1.
    gain : Fraction
        e^epsilon, above 1.

    Returns
    -------
    Fraction
        m / (e^epsilon - 1), exactly: the smallest a with 1 + m/a <= e^epsilon.

    Raises
    ------
    ValueError
        If a number is outside its domain.
    """
    if draws < 1 or gain <= 1:
        raise ValueError("draws must be at least 1 and gain above 1")
    return Fraction(draws) / (gain - 1)


def paper_prior(n: int, draws: int, cells: int, gain: Fraction, delta: Fraction) -> float:
    """Return the prior of the paper's probabilistic calibration: one a for every cell, no pruning.

    With c = e^eps - 1, f(x) = min(m, c (a + max(x - 1, 0))) and alpha_2 = (k - 1) a, the smallest a with

        max_{0 <= x <= n} BetaBinomialMass(f(x); m, x + a, n - x + alpha_2)
            <= delta (e^eps - 2) / (2 k e^eps),

    where gamma functions extend the mass to f(x) that are not whole.

    Parameters
    ----------
    n, draws, cells : int
        n, m and k of the pool, at least 1.
    gain : Fraction
        e^epsilon, above 2 (the condition says nothing below).
    delta : Fraction
        Of the pool; in (0, 1).

    Returns
    -------
    float
        Never above `theorem1_prior`.

    Raises
    ------
    ValueError
        If a number is outside its domain.

    Notes
    -----
    Counts x with c (a + max(x - 1, 0)) >= m are passed over: no number of draws from such a cell exceeds
    f(x). The formula taken at its word asks for a small mass at m there, which no prior gives to a pool of
    one worker; so this reading is the one that is kinder to the paper.

    The maximum over x is taken from x = 0 upwards until the rest is smaller. With w = x + a >= 1 and
    (k - 1) a >= 1 the extended mass is log-concave in s, and from the first count with f(x) - 2 >=
    m (w - 1)/(W - 2), W = n + k a, it falls between f(x) - 1 and f(x). So it is at most P(s >= f(x) - 1), and
    the Chernoff bound of `synth.tails.chernoff_bound` covers that for all larger x at once. The condition is
    taken to hold for every a above the one that is returned, as it did in all cases that were tried.
    """
    if min(n, draws, cells) < 1 or gain <= 2 or not 0 < delta < 1:
        raise ValueError("n, draws and cells must be at least 1, gain above 2 and delta in (0, 1)")
    limit = math.log(float(delta * (gain - 2) / (2 * cells * gain)))
    odds = float(gain - 1)
    low, high = 0.0, float(theorem1_prior(draws, gain))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _holds(n, draws, cells, odds, middle, limit):
            high = middle
        else:
            low = middle
        if high - low <= 1e-9 * high:
            break
    return high


def _compiled(function: Callable[..., bool]) -> Callable[..., bool]:
    return cast("Callable[..., bool]", numba.njit(nogil=True, cache=True)(function))


@_compiled
def _holds(n: int, m: int, k: int, odds: float, a: float, limit: float) -> Any:
    """Say whether no mass at f(x), 0 <= x <= n, is above e^limit."""
    total = n + k * a
    fixed = math.lgamma(m + 1) - math.lgamma(total + m) + math.lgamma(total)
    ratio = m / total
    for x in range(n + 1):
        f = odds * (a + max(x - 1, 0))
        if f >= m:
            return True
        w = x + a
        b = total - w
        if b <= 0.0:  # the only cell gets all draws, and f < m
            return True
        log_mass = (
            fixed - math.lgamma(f + 1) - math.lgamma(m - f + 1)
            + math.lgamma(w + f) - math.lgamma(w)
            + math.lgamma(b + m - f) - math.lgamma(b)
        )  # fmt: skip
        if log_mass > limit:
            return False
        t = f - 1
        if x >= 1 and (k - 1) * a >= 1 and total > 2 and (odds - m / (total - 2)) * (w - 1) >= 2:
            z = t * (1 + ratio) / (ratio * (w + t))
            if z > 1 and ratio * (z - 1) < 1:
                rest = math.log(1 - ratio * (z - 1))
                if odds * math.log(z) + rest > 0 and -t * math.log(z) - w * rest < limit:
                    return True
    return True
