"""The pruning loss V: what may change because an empty cell is in the urn only by its coin.

Summed over the coins of the empty cells that were not drawn, the likelihood of an output has the factor
D = E[1 / rising(W, m)], W the weight of the urn; V bounds |ln D(h)/D(h')| over all neighbours and outputs.
With 1/rising(W, m) = (1/(m-1)!) * integral of x^(W-1) (1-x)^(m-1) over [0, 1], the worst ratio is

    e^V = max over cells i != j, f_j < 1, of  f_j + (1 - f_j) / E[x^a_j],

x distributed on [0, 1] with density proportional to x^(B-1) (1-x)^(m-1) prod_c (1 - f_c + f_c x^a_c), where
B = n + a_i + the prior mass of the other cells with retention 1, and c runs over the cells that are neither i
nor j and have retention below 1. `exact_pruning_gain` integrates; `pruning_gain` is a closed bound for plans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import flint

from synth.losses import PoolClass
from synth.tails import FLOAT, Arithmetic

__all__ = ["exact_pruning_gain", "pruning_gain"]

_DEVIATIONS = (3, 5, 8, 12)  # where the closed bound may cut: standard deviations of ln x below its mean
_RELATIVE = -40  # the integrals are computed to 2 to this power


def pruning_gain(
    pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int, arithmetic: Arithmetic
) -> Any:
    """Bound e^V, V the pruning loss, for any pool of the class.

    Lemma 2 of docs/privacy.md.

    Parameters
    ----------
    pool_class : PoolClass
    retention : tuple of Fraction
        f_s per stratum.
    denominator : int
        q.
    arithmetic : Arithmetic
        `FLOAT` for a search, `BALL` for a certificate.

    Returns
    -------
    float or flint.arb
        1 where every retention is 1; infinite where a float cannot hold it.

    Notes
    -----
    1 / E[x^a_j] is at most rho_j(B) and, for any x0 in (0, 1), rho_j(B + M) / (1 - p), where rho_j(W) =
    rising(W + a_j, m) / rising(W, m), M = sum_c f_c a_c x0^a_c / (1 - f_c + f_c x0^a_c), and p bounds the
    probability that x < x0. The smaller of the two is taken; which x0 is tried is a matter of floats, that
    the result is a bound is not. The fewest cells and workers and the most draws are the worst corner.
    """
    coins = [
        (Fraction(a, denominator), f, most, max(fewest - 2, 0))
        for a, f, most, fewest in zip(
            pool_class.prior, retention, pool_class.cells, pool_class.cells_min, strict=True
        )
        if f < 1 and most
    ]
    if not coins:
        return arithmetic.number(1)
    smallest = Fraction(
        min(a for a, k in zip(pool_class.prior, pool_class.cells, strict=True) if k), denominator
    )
    certain = pool_class.kept_mass(denominator, retention, certain=True)
    base = pool_class.n_min + max(smallest, certain)

    def bound(cut: tuple[Fraction, Fraction] | None, arithmetic: Arithmetic) -> Any:
        number, exp, log = arithmetic.number, arithmetic.exp, arithmetic.log
        weight, odds = number(base), number(1)
        if cut is not None:
            x0, theta = cut
            log_x0 = log(number(x0))
            for a, f, _, sure in coins:
                power = exp(number(a) * log_x0)
                share = number(f) * power / (number(1 - f) + number(f) * power)
                weight = weight + number(sure * a) * share
            rising = _log_rising(number(base), number(-theta), pool_class.m_max, arithmetic)
            below = exp(number(theta) * log_x0 - rising)
            if not below < 1:
                return None
            odds = 1 / (1 - below)
        worst = number(1)
        for a, f, _, _ in coins:
            rho = exp(_log_rising(weight, number(a), pool_class.m_max, arithmetic))
            worst = arithmetic.larger(worst, number(f) + number(1 - f) * rho * odds)
        return worst

    cuts = _cuts(base, pool_class.m_max) if any(sure for _, _, _, sure in coins) else []
    found = [(value, cut) for cut in [None, *cuts] if (value := bound(cut, FLOAT)) is not None]
    value, cut = min(found, key=lambda pair: pair[0])
    if arithmetic is FLOAT:
        return value
    rigorous = bound(cut, arithmetic)
    return bound(None, arithmetic) if rigorous is None else rigorous


def _log_rising(weight: Any, more: Any, draws: int, arithmetic: Arithmetic) -> Any:
    """Return ln( rising(weight + more, draws) / rising(weight, draws) )."""
    lgamma = arithmetic.lgamma
    return lgamma(weight + more + draws) + lgamma(weight) - lgamma(weight + more) - lgamma(weight + draws)


def _cuts(base: Fraction, draws: int) -> list[tuple[Fraction, Fraction]]:
    """Return some x0 to cut at, each with the exponent theta of Markov's inequality for x < x0.

    For x ~ Beta(base, draws), P(x < x0) <= x0^theta E[x^-theta]; the exponent that makes this least is close
    to the one for which x0 is the mean of Beta(base - theta, draws).
    """
    b = float(base)
    mean, deviation = b / (b + draws), math.sqrt(draws / b / (b + draws + 1))
    found = []
    for deviations in _DEVIATIONS:
        x0 = mean * math.exp(-deviations * deviation)
        theta = b - draws * x0 / (1 - x0)
        if 0 < theta < b and x0 > 0:
            found.append((Fraction(x0), Fraction(theta)))
    return found


def exact_pruning_gain(n: int, m: int, cells: Sequence[tuple[Fraction, Fraction, int]]) -> flint.arb:
    """Enclose e^V for one pool: the largest ratio D(h)/D(h') over all neighbours and outputs.

    Lemma 2 of docs/privacy.md.

    Parameters
    ----------
    n, m : int
        Slots and draws, >= 1.
    cells : sequence of (Fraction, Fraction, int)
        Prior, retention and number of cells of each stratum.

    Returns
    -------
    flint.arb
        1 where every retention is 1 or there is one cell only.

    Notes
    -----
    Integrals by the Arb library, with x = exp(-t); some milliseconds for each pair of strata. Not finite
    where they do not converge: pools of many thousand slots, for which `pruning_gain` is as good as exact.
    """
    worst = flint.arb(1)
    for i, (a_i, _, k_i) in enumerate(cells):
        for j, (a_j, f_j, k_j) in enumerate(cells):
            if f_j == 1 or not k_i or not k_j or (i == j and k_i == 1):
                continue
            others = [(a, f, k - (s == i) - (s == j)) for s, (a, f, k) in enumerate(cells)]
            base = n + a_i + sum(a * k for a, f, k in others if f == 1)
            coins = [(_ball(a), _ball(f), k) for a, f, k in others if f < 1 and k]
            ratio = _integral(_ball(base), m, coins) / _integral(_ball(base + a_j), m, coins)
            worst = worst.max(_ball(f_j) + _ball(1 - f_j) * ratio)
    return worst


def _integral(base: flint.arb, m: int, coins: list[tuple[flint.arb, flint.arb, int]]) -> flint.arb:
    """Integrate x^(base-1) (1-x)^(m-1) prod (1 - f + f x^a)^k over [0, 1]."""

    def density(t: flint.acb, _: bool) -> flint.acb:
        value = (-base * t).exp() * (1 - (-t).exp()) ** (m - 1)
        for a, f, k in coins:
            value *= (1 - f + f * (-a * t).exp()) ** k
        return value

    # Beyond t = end the density is at most exp(-base t), and its integral at most exp(-base end) / base.
    end = 64
    inside = flint.acb.integral(
        density, 0, end, rel_tol=flint.arb(2) ** _RELATIVE, abs_tol=flint.arb(2) ** -4000, eval_limit=100_000
    ).real
    rest = (-base * end).exp() / base
    return inside + rest * flint.arb(0.5, 0.5)


def _ball(value: Fraction | int) -> flint.arb:
    value = Fraction(value)
    return flint.arb(flint.fmpq(value.numerator, value.denominator))
