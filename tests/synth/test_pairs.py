"""The exact divergence of a pair: against enumeration, against the bound, against another library."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions

from synth.pairs import Pair, pair_delta
from synth.person import person_delta_bound
from synth.tails import FLOAT, exp_up, rigorous, upper_fraction

from .builders import make_class
from .reference import Histogram, Urn, rising

EPSILONS = [Fraction(0), Fraction(1, 5), Fraction(1), Fraction(5, 2)]
PRIORS = [Fraction(1, 10), Fraction(1, 2), Fraction(2)]


def pair_of(urn: Urn, h: Histogram) -> Pair:
    """The pair in which a worker of cell 0 moves to cell 1."""
    rest = sum((x + a for x, a in zip(h[2:], urn.prior[2:], strict=True)), Fraction(0))
    return Pair(h[0], h[1], urn.prior[0], urn.prior[1], rest, urn.m)


@pytest.mark.parametrize("a", PRIORS, ids=str)
@pytest.mark.parametrize("b", PRIORS, ids=str)
@pytest.mark.parametrize("cells", [2, 3])
def test_a_pair_equals_enumeration_and_stays_below_the_bound(a: Fraction, b: Fraction, cells: int) -> None:
    for n, m in itertools.product((1, 2, 3), (1, 3)):
        urn = Urn(n, m, (a, b, Fraction(1))[:cells], (Fraction(1),) * cells)
        strata = sorted(set(urn.prior))
        counts = tuple(urn.prior.count(x) for x in strata)
        numerators = tuple(int(10 * x) for x in strata)
        c = make_class(n, n, m, counts, Fraction(2), numerators, kept=counts)
        for h in urn.histograms():
            if not h[0]:
                continue
            moved = (h[0] - 1, h[1] + 1, *h[2:])
            here, there = urn.distribution(h), urn.distribution(moved)
            pair = pair_of(urn, h)
            for epsilon in EPSILONS:
                with rigorous() as balls:
                    forward, back = (pair_delta(p, epsilon, balls) for p in (pair, pair.turned))
                    odds = balls.exp(balls.number(epsilon))
                    for computed, p, q in ((forward, here, there), (back, there, here)):
                        exact = balls.number(0)
                        for s, mass in p.items():
                            exact += balls.larger(
                                balls.number(0), balls.number(mass) - odds * balls.number(q[s])
                            )
                        assert abs(computed - exact) < balls.number(Fraction(1, 2**120))
                    if epsilon:
                        bound = upper_fraction(
                            person_delta_bound(c, (Fraction(1),) * len(strata), 10, epsilon, balls)
                        )
                        assert upper_fraction(forward) <= bound * (1 + Fraction(1, 2**100))
                        assert upper_fraction(back) <= bound * (1 + Fraction(1, 2**100))
                assert pair_delta(pair, epsilon, FLOAT) == pytest.approx(float(forward), rel=1e-9, abs=1e-14)


def masses(weights: tuple[Fraction, ...], m: int) -> dict[tuple[int, ...], float]:
    """The Dirichlet-multinomial distribution over the counts of three categories."""
    total = sum(weights, Fraction(0))
    result = {}
    for i in range(m + 1):
        for j in range(m - i + 1):
            s = (i, j, m - i - j)
            ways = math.factorial(m) // math.prod(map(math.factorial, s))
            top = math.prod((rising(w, c) for w, c in zip(weights, s, strict=True)), start=Fraction(ways))
            result[s] = float(top / rising(total, m))
    return result


@pytest.mark.parametrize(
    ("losing", "gaining", "a", "b", "rest", "m"),
    [
        (1, 0, "1/2", "1/2", "3", 6),
        (2, 1, "1/10", "2", "1/2", 5),
        (1, 3, "2", "1", "10", 8),
        (4, 0, "1", "1/10", "5", 10),
    ],
)
def test_a_pair_and_two_releases_agree_with_another_library(
    losing: int, gaining: int, a: str, b: str, rest: str, m: int
) -> None:
    pair = Pair(losing, gaining, Fraction(a), Fraction(b), Fraction(rest), m)
    upper = masses((losing + pair.losing_prior, gaining + pair.gaining_prior, pair.rest), m)
    lower = masses((losing - 1 + pair.losing_prior, gaining + 1 + pair.gaining_prior, pair.rest), m)
    log = [{s: math.log(p) for s, p in d.items()} for d in (lower, upper)]
    step = 1e-4
    pld = from_two_probability_mass_functions(
        *log, pessimistic_estimate=True, value_discretization_interval=step, symmetric=False
    )
    twice = pld.self_compose(2)
    for epsilon in EPSILONS[1:]:
        ours = max(pair_delta(p, epsilon, FLOAT) for p in (pair, pair.turned))
        # pessimistic: their losses are rounded up to the next multiple of the step
        coarser = max(pair_delta(p, epsilon - Fraction(step), FLOAT) for p in (pair, pair.turned))
        theirs = pld.get_delta_for_epsilon(float(epsilon))
        assert ours - 1e-9 <= theirs <= coarser + 1e-9
        # two releases: what adding up says is never less than the truth of the composed losses
        assert twice.get_delta_for_epsilon(2 * float(epsilon)) <= 2 * ours + 2 * step


def test_no_divergence_beyond_the_largest_loss() -> None:
    pair = Pair(1, 0, Fraction(1, 2), Fraction(1, 2), Fraction(3), 4)
    largest = 1 + pair.draws / pair.losing_prior  # all draws from the cell that loses
    epsilon = Fraction(math.log(largest)).limit_denominator(10**6) + Fraction(1, 10**5)
    assert exp_up(epsilon) > largest
    with rigorous() as balls:
        assert upper_fraction(pair_delta(pair, epsilon, balls)) == 0
        assert upper_fraction(pair_delta(pair, epsilon - Fraction(1, 10**4), balls)) > 0
