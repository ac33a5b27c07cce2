"""The exact hockey-stick divergence of neighbours, where there is no pruning.

It is what `record_delta_bound` bounds. For small pools the largest over all pairs can be computed, and
replaces the bound; for one pair it tells how tight the bound is.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from synth.losses import PoolClass
from synth.tails import Arithmetic

__all__ = ["Pair", "largest_pair_delta", "pair_delta"]

_MOST_TERMS = 2000  # of all sums of a class; with more, the bound has to do


@dataclass(frozen=True)
class Pair:
    """Neighbours h and h' = h - e_i + e_j in a pool without pruning.

    Attributes
    ----------
    losing, gaining : int
        Workers in the cells i and j under h; x_i >= 1, x_j >= 0.
    losing_prior, gaining_prior : Fraction
        a_i and a_j, > 0.
    rest : Fraction
        Weight of all other cells, real workers and prior, >= 0.
    draws : int
        m.
    """

    losing: int
    gaining: int
    losing_prior: Fraction
    gaining_prior: Fraction
    rest: Fraction
    draws: int

    @property
    def turned(self) -> Pair:
        """The pair in the other direction: from h' to h."""
        return Pair(
            self.gaining + 1,
            self.losing - 1,
            self.gaining_prior,
            self.losing_prior,
            self.rest,
            self.draws,
        )


def pair_delta(pair: Pair, epsilon: Fraction, arithmetic: Arithmetic) -> Any:
    """Return sup_A P(A | h) - e^epsilon P(A | h') for one direction.

    Lemma 12 of docs/privacy.md.

    Parameters
    ----------
    pair : Pair
    epsilon : Fraction
        At least 0.
    arithmetic : Arithmetic
        `FLOAT`, or `BALL` for an enclosure.

    Returns
    -------
    float or flint.arb
        sum over (s_i, s_j) of P(s | h) (1 - e^epsilon / g(s))^+ with
        g = (1 + s_i/(x_i - 1 + a_i)) / (1 + s_j/(x_j + a_j)).

    Notes
    -----
    The counts of cells i, j and all others are Dirichlet-multinomial with three categories. About m^2/2
    terms: for m up to a few hundred.
    """
    number, lgamma, exp = arithmetic.number, arithmetic.lgamma, arithmetic.exp
    m = pair.draws
    before = pair.losing - 1 + pair.losing_prior
    weights = (before + 1, pair.gaining + pair.gaining_prior, pair.rest)
    w_i, w_j, w_r = (number(w) for w in weights)
    total = number(sum(weights))
    odds = exp(number(epsilon))
    gained = [1 + s / number(before) for s in range(m + 1)]
    lost = [1 + s / w_j for s in range(m + 1)]
    factorial = [lgamma(number(s + 1)) for s in range(m + 1)]

    def rising(w: Any, zero: bool) -> list[Any]:
        if zero:  # rising(0, s) is 1 for s = 0 and 0 otherwise; no other s is asked for
            return [number(0)]
        return [lgamma(w + s) - lgamma(w) - factorial[s] for s in range(m + 1)]

    r_i, r_j, r_r = rising(w_i, False), rising(w_j, False), rising(w_r, pair.rest == 0)
    scale = factorial[m] - lgamma(total + m) + lgamma(total)
    result = number(0)
    for s_i in range(m + 1):
        # With no other cells, s_j is what is left.
        for s_j in range(m - s_i + 1) if pair.rest else (m - s_i,):
            part = 1 - odds * lost[s_j] / gained[s_i]
            if part < 0:
                continue
            mass = exp(scale + r_i[s_i] + r_j[s_j] + r_r[m - s_i - s_j])
            result = result + mass * arithmetic.larger(number(0), part)
    return result


def largest_pair_delta(
    pool_class: PoolClass,
    retention: tuple[Fraction, ...],
    denominator: int,
    epsilon: Fraction,
    arithmetic: Arithmetic,
) -> Any | None:
    """Return the largest divergence of any two neighbours in any pool of a class, if that is feasible.

    Lemma 12 of docs/privacy.md.

    Parameters
    ----------
    pool_class, retention, denominator, arithmetic
        As for `synth.losses.failure_bound`.
    epsilon : Fraction
        At least 0.

    Returns
    -------
    float, flint.arb or None
        None where cells may be pruned, and where the sums have too many terms. Exact for a class of pools
        with the same sizes and cells; otherwise a bound for each of them.
    """
    c = pool_class
    present = [s for s, k in enumerate(c.cells) if k]
    pairs = [(i, j) for i in present for j in present if i != j or c.cells[i] > 1]
    terms = c.n_max * (c.n_max + 1) // 2 * (c.m_max + 1) * (c.m_max + 2) // 2 * len(pairs)
    if terms > _MOST_TERMS or any(retention[s] < 1 for s in present):
        return None
    prior = [Fraction(a, denominator) for a in c.prior]
    smallest = min(prior[s] for s in present)
    worst = arithmetic.number(0)
    for i, j in pairs:
        left = [max(k - (s == i) - (s == j), 0) for s, k in enumerate(c.cells_min)]
        others = sum((a * k for a, k in zip(prior, left, strict=True)), Fraction(0))
        for losing in range(1, c.n_max + 1):
            for gaining in range(c.n_max - losing + 1):
                workers = max(c.n_min - losing - gaining, 0)
                if workers and sum(c.cells) == 2:
                    continue  # there is no third cell for them
                rest = workers + max(others, smallest if workers else Fraction(0))
                pair = Pair(losing, gaining, prior[i], prior[j], rest, c.m_max)
                worst = arithmetic.larger(worst, pair_delta(pair, epsilon, arithmetic))
    return worst
