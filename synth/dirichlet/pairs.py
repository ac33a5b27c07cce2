"""The exact hockey-stick divergence of neighbours, where there is no pruning.

It is what `record_delta_bound` bounds. For pools that are small, or of few cells, the largest over all pairs
can be computed, and replaces the bound; for one pair it tells how tight the bound is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from synth.dirichlet.few_cells import summable
from synth.dirichlet.losses import PoolClass
from synth.tails import Arithmetic, rational, ways

_MOST_TERMS = 2000  # of all sums of a class of any cells; with more, the bound has to do


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

    @cached_property
    def losing_weight(self) -> Fraction:
        """Weight of the cell i under h."""
        return self.losing + self.losing_prior

    @cached_property
    def weight(self) -> Fraction:
        """Weight of the whole urn."""
        return self.losing_weight + self.gaining + self.gaining_prior + self.rest

    @cached_property
    def scale(self) -> Fraction:
        """That of `synth.tails.ways`."""
        return Fraction(self.draws) / (self.weight + self.draws)


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
    The counts of cells i, j and all others are Dirichlet-multinomial with three categories. At most about
    m^2/2 terms: for m up to a few hundred.
    """
    number, m = arithmetic.number, pair.draws
    odds, w_j = arithmetic.exp(number(epsilon)), number(pair.gaining + pair.gaining_prior)
    losing_ways, total = _ways(pair, pair.losing_weight, arithmetic), _ways(pair, pair.weight, arithmetic)[m]
    gaining_ways, rest = (
        _ways(pair, w, arithmetic) for w in (pair.weight - pair.losing_weight - pair.rest, pair.rest)
    )
    result = number(0)
    for s_i, gained in _losses(pair, odds, arithmetic):
        # With no other cells, s_j is what is left.
        for s_j in range(m - s_i + 1) if pair.rest else (m - s_i,):
            part = 1 - odds * (1 + s_j / w_j) / gained
            if part < 0:
                break  # and so are those that follow
            ordered = losing_ways[s_i] * gaining_ways[s_j] * rest[m - s_i - s_j]
            result = result + ordered * arithmetic.larger(number(0), part)
    return result / total


def _alone(pair: Pair, epsilon: Fraction, arithmetic: Arithmetic) -> Any:
    """Bound `pair_delta` by what it were if nothing were drawn from the cell that gains."""
    number, m = arithmetic.number, pair.draws
    odds = arithmetic.exp(number(epsilon))
    losing_ways, total = _ways(pair, pair.losing_weight, arithmetic), _ways(pair, pair.weight, arithmetic)[m]
    remaining = _ways(pair, pair.weight - pair.losing_weight, arithmetic)
    parts = (
        losing_ways[s] * remaining[m - s] * arithmetic.larger(number(0), 1 - odds / gained)
        for s, gained in _losses(pair, odds, arithmetic)
    )
    return sum(parts, number(0)) / total


def _losses(pair: Pair, odds: Any, arithmetic: Arithmetic) -> Iterator[tuple[int, Any]]:
    """Yield the draws of the losing cell whose own loss may be above epsilon, and e to the power of it."""
    base = rational(pair.losing - 1 + pair.losing_prior)
    first = max(0, int((arithmetic.lower(odds) - 1) * base))
    for s in range(first, pair.draws + 1):
        yield s, arithmetic.number(1 + s / base)


def _ways(pair: Pair, weight: Fraction, arithmetic: Arithmetic) -> list[Any]:
    return ways(pair.draws, weight, pair.scale, arithmetic)


def largest_pair_delta(
    pool_class: PoolClass,
    epsilon: Fraction,
    arithmetic: Arithmetic,
    alike: bool = False,
) -> Any | None:
    """Return the largest divergence of any two neighbours in any pool of a class, if that is feasible.

    Lemma 12 of docs/privacy.md.

    Parameters
    ----------
    pool_class, arithmetic
        As for `synth.dirichlet.losses.failure_bound`.
    epsilon : Fraction
        At least 0.
    alike : bool
        Whether every pool of the class has exactly n_max slots, m_max draws and these cells. The sums then
        go further, where cells are few.

    Returns
    -------
    float, flint.arb or None
        None where cells may be pruned, and where the sums have too many terms. Exact for a class of pools
        with the same sizes and cells; otherwise a bound for each of them.

    Notes
    -----
    Pairs are taken by the falling bound of the losing cell alone, until the largest divergence is above that
    of all that are left.
    """
    c = pool_class
    terms = c.n_max * (c.n_max + 1) // 2 * (c.m_max + 1) * (c.m_max + 2) // 2 * len(_strata_of_pairs(c))
    if not c.keeps_all or (terms > _MOST_TERMS and not (alike and summable(c))):
        return None
    bounds = [(_alone(pair, epsilon, arithmetic), pair) for pair in _of_class(c)]
    bounds.sort(key=lambda row: arithmetic.lower(row[0]), reverse=True)
    worst = arithmetic.number(0)
    for bound, pair in bounds:
        if not bound < worst:
            worst = arithmetic.larger(worst, pair_delta(pair, epsilon, arithmetic))
    return worst


def _strata_of_pairs(c: PoolClass) -> list[tuple[int, int]]:
    """Return the strata of the losing and the gaining cell of every pair."""
    present = [s for s, k in enumerate(c.cells) if k]
    return [(i, j) for i in present for j in present if i != j or c.cells[i] > 1]


@lru_cache(maxsize=1)  # a certificate asks again for every epsilon of a person's curve
def _of_class(c: PoolClass) -> list[Pair]:
    """Return the pairs of a class of which one has the largest divergence."""
    prior = [Fraction(a, c.denominator) for a in c.prior]
    smallest = min(a for a, k in zip(prior, c.cells, strict=True) if k)
    pairs = []
    for i, j in _strata_of_pairs(c):
        left = [max(k - (s == i) - (s == j), 0) for s, k in enumerate(c.cells_min)]
        other_prior = sum((a * k for a, k in zip(prior, left, strict=True)), Fraction(0))
        for losing in range(1, c.n_max + 1):
            workers = max(c.n_min - losing, 0)
            if sum(c.cells) > 2:  # the other workers are in a third cell
                rest = workers + max(other_prior, smallest if workers else Fraction(0))
                pairs.append(Pair(losing, 0, prior[i], prior[j], rest, c.m_max))
            if not other_prior:  # there may be none
                pairs.append(Pair(losing, workers, prior[i], prior[j], Fraction(0), c.m_max))
    return pairs
