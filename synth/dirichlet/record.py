"""The guarantee of one person: (epsilon, delta)-differential privacy, a curve of it, and pure epsilon.

For one pair of neighbours h and h' = h - e_i + e_j and one direction, only the cell i that loses the
worker can carry a loss above zero beyond the pruning loss V, so

    P(s | h) / P(s | h') <= g(s_i),   g(s) = e^V (1 + s/(x_i - 1 + a)) (1/f if x_i = 1 and s > 0),

and the hockey-stick divergence at epsilon is at most E[ (1 - e^epsilon / g(s_i))^+ ]. The other direction
is the same with the roles of i and j exchanged, so the maximum over cells and counts serves both.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import flint

from synth.dirichlet.losses import PoolClass, Stratum, bad_threshold, shortfall_bound, strata
from synth.dirichlet.pairs import largest_pair_delta
from synth.dirichlet.pruning import pruning_gain
from synth.tails import Arithmetic, tail_bound


def record_delta_bound(
    pool_class: PoolClass,
    epsilon: Fraction,
    arithmetic: Arithmetic,
    alike: bool = False,
) -> Any:
    """Bound the delta at which any pool of a class is (epsilon, delta)-differentially private.

    Lemma 10 of docs/privacy.md.

    Parameters
    ----------
    pool_class, arithmetic
        As for `synth.dirichlet.losses.failure_bound`.
    epsilon : Fraction
        Any epsilon > 0, not only the certified one.
    alike : bool
        As for `synth.dirichlet.pairs.largest_pair_delta`.

    Returns
    -------
    float or flint.arb
        eta + max_{c, x >= 1} E[ (1 - e^epsilon / g(s))^+ ]; trivially 1 where e^(epsilon - V) <= 1. Without
        pruning, for pools that are small or of few cells, the exact divergence of the worst pair
        (`synth.dirichlet.pairs.largest_pair_delta`).

    Notes
    -----
    (1 - e^epsilon / g)^+ does not fall with s, and s grows stochastically with m and falls with W, so the
    corner of the class bounds all its pools.
    """
    number = arithmetic.number
    pruning, present, shortfall = _at_any_epsilon(pool_class, arithmetic, flint.ctx.prec)
    odds = arithmetic.exp(number(epsilon)) / pruning
    if arithmetic.lower(odds) <= 1:
        return number(1)
    worst = number(0)
    for stratum in present:
        worst = arithmetic.larger(worst, worst_cell_delta(stratum, odds, arithmetic))
    bound = worst + shortfall
    exact = largest_pair_delta(pool_class, epsilon, arithmetic, alike)
    return bound if exact is None or bound < exact else exact


@lru_cache(maxsize=1)  # a certificate asks again for every epsilon of a person's curve
def _at_any_epsilon(
    pool_class: PoolClass,
    arithmetic: Arithmetic,
    _precision: int,
) -> tuple[Any, list[Stratum], Any]:
    pruning = pruning_gain(pool_class, arithmetic)
    # Cells of larger priors that are kept for sure are never worse (Lemma 35).
    present = strata(pool_class, lightest=True)
    return pruning, present, shortfall_bound(pool_class, arithmetic)


def worst_cell_delta(stratum: Stratum, odds: Any, arithmetic: Arithmetic) -> Any:
    """Bound E[(1 - odds / g(x, s))^+] over all counts x >= 1 of a cell, in an urn as light as is likely.

    Lemma 35 of docs/privacy.md.

    Parameters
    ----------
    stratum : Stratum
    odds : float or flint.arb
        e^(epsilon - V) > 1; g is the loss of the cell without V.
    arithmetic : Arithmetic

    Returns
    -------
    float or flint.arb
        That of x = 1 or, if urns with all workers in the cell may be lighter, of x = n_min if that is larger.
    """
    number, n_min = arithmetic.number, stratum.pool_class.n_min
    worst = nothing = number(0)
    lighter = stratum.rest(n_min) + n_min < stratum.rest(1) + 1
    for x in (1, n_min) if lighter else (1,):
        base = number(x - 1 + stratum.prior)
        kept = number(stratum.retention) if x == 1 else number(1)

        def value(s: int, base: Any = base, kept: Any = kept) -> Any:
            return arithmetic.larger(nothing, 1 - odds / ((1 + s / base) / kept))

        threshold = bad_threshold(x, stratum.prior, stratum.retention, arithmetic.lower(odds))
        weight, rest = x + stratum.prior, stratum.rest(x)
        delta = tail_bound(stratum.pool_class.m_max, weight, rest, threshold, arithmetic, value)
        worst = arithmetic.larger(worst, delta)
    return worst


def presence_delta_bound(
    pool_class: PoolClass,
    epsilon: Fraction,
    arithmetic: Arithmetic,
) -> Any:
    """Bound delta for another home of one record and for one record more or less, at the same epsilon.

    Lemma 30 of docs/privacy.md.

    Parameters
    ----------
    pool_class
        Its limits n_min and n_max are of the records of its pools, which are confidential.
    epsilon, arithmetic
        As for `record_delta_bound`.

    Returns
    -------
    float or flint.arb
        `record_delta_bound`; with pruning at least 1 - e^epsilon / (e^V (1 + m / W)), W the smallest certain
        weight of an urn.
    """
    bound = record_delta_bound(pool_class, epsilon, arithmetic)
    if pool_class.keeps_all:
        return bound
    number = arithmetic.number
    weight = pool_class.n_min + pool_class.certain_mass
    gained = pruning_gain(pool_class, arithmetic) * number(1 + Fraction(pool_class.m_max) / weight)
    return arithmetic.larger(bound, 1 - arithmetic.exp(number(epsilon)) / gained)


def pure_gain(pool_class: PoolClass, arithmetic: Arithmetic) -> Any:
    """Return e^epsilon of the pure epsilon-differential privacy (delta 0) of any pool of a class.

    Lemma 11 of docs/privacy.md.

    max_s (1 + m/a_s) / f_s times e^V: no output at all loses more. The maximum over x is at x = 1.
    """
    worst = max((1 + pool_class.m_max / s.prior) / s.retention for s in strata(pool_class))
    return arithmetic.number(worst) * pruning_gain(pool_class, arithmetic)
