"""The exact divergence of a pair: against enumeration, against the bound, against another library."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions

from synth.composition import compose_curves
from synth.dirichlet.pairs import Pair, largest_pair_delta, pair_delta
from synth.dirichlet.record import record_delta_bound
from synth.tails import FLOAT, exp_up, rigorous, upper_fraction

from ..builders import make_class
from ..reference import Histogram, Urn, rising

pytestmark = pytest.mark.quick

EPSILONS = [Fraction(0), Fraction(1, 5), Fraction(1), Fraction(5, 2)]
PRIORS = [Fraction(1, 10), Fraction(1, 2), Fraction(2)]


def pair_of(urn: Urn, h: Histogram) -> Pair:
    """The pair in which a worker of cell 0 moves to cell 1."""
    rest = sum((x + a for x, a in zip(h[2:], urn.prior[2:], strict=True)), Fraction(0))
    return Pair(h[0], h[1], urn.prior[0], urn.prior[1], rest, urn.m)


def both(pair: Pair) -> tuple[Pair, Pair]:
    """A pair, and the same in the other direction."""
    p = pair
    return p, Pair(p.gaining + 1, p.losing - 1, p.gaining_prior, p.losing_prior, p.rest, p.draws)


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
                    forward, back = (pair_delta(p, epsilon, balls) for p in both(pair))
                    odds = balls.exp(balls.number(epsilon))
                    for computed, p, q in ((forward, here, there), (back, there, here)):
                        exact = balls.number(0)
                        for s, mass in p.items():
                            exact += balls.larger(
                                balls.number(0), balls.number(mass) - odds * balls.number(q[s])
                            )
                        assert abs(computed - exact) < balls.number(Fraction(1, 2**120))
                    if epsilon:
                        bound = upper_fraction(record_delta_bound(c, epsilon, balls))
                        assert upper_fraction(forward) <= bound * (1 + Fraction(1, 2**100))
                        assert upper_fraction(back) <= bound * (1 + Fraction(1, 2**100))
                assert pair_delta(pair, epsilon, FLOAT) == pytest.approx(float(forward), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("priors", [("1/10", "1/10"), ("1/2", "2"), ("1/2", "1/2", "1/10")], ids=str)
@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 3), (2, 2), (3, 2), (3, 4)])
def test_the_largest_pair_is_the_largest_of_the_enumeration(n: int, m: int, priors: tuple[str, ...]) -> None:
    urn = Urn(n, m, tuple(map(Fraction, priors)), (Fraction(1),) * len(priors))
    strata = sorted(set(urn.prior))
    counts = tuple(urn.prior.count(x) for x in strata)
    c = make_class(n, n, m, counts, Fraction(2), tuple(int(10 * x) for x in strata), kept=counts)
    of = {h: urn.distribution(h) for h in urn.histograms()}
    for epsilon in EPSILONS[1:]:
        with rigorous() as balls:
            odds = balls.exp(balls.number(epsilon))
            true = balls.number(0)
            for h in urn.histograms():
                for g in urn.neighbours(h):
                    parts = (balls.number(p) - odds * balls.number(of[g][s]) for s, p in of[h].items())
                    true = balls.larger(true, sum((balls.larger(balls.number(0), x) for x in parts), 0))
            largest = largest_pair_delta(c, epsilon, balls)
            assert largest is not None
            assert abs(largest - true) < balls.number(Fraction(1, 2**120))
            # and this is what a certificate says
            assert upper_fraction(record_delta_bound(c, epsilon, balls)) <= upper_fraction(largest)


def test_the_largest_pair_of_a_class_bounds_its_pools() -> None:
    wide = make_class(1, 4, 3, (2, 3), Fraction(2), (5, 20), cells_min=(0, 1))
    with rigorous() as balls:
        bound = largest_pair_delta(wide, Fraction(1), balls)
        assert bound is not None
        for n, m, a, b in itertools.product((1, 2, 4), (1, 3), (0, 2), (1, 3)):
            if a + b > 1:
                c = make_class(n, n, m, (a, b), Fraction(2), (5, 20))
                inside = largest_pair_delta(c, Fraction(1), balls)
                assert inside is not None
                assert upper_fraction(inside) <= upper_fraction(bound)


def test_what_is_not_feasible_is_left_to_the_bound() -> None:
    with rigorous() as balls:
        for n, f in ((2, Fraction(1, 2)), (50, Fraction(1))):
            c = make_class(n, n, n, (3,), Fraction(2), (5,), retention=(f,))
            assert largest_pair_delta(c, Fraction(1), balls) is None


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
    below, pld = (
        from_two_probability_mass_functions(
            *log, pessimistic_estimate=pessimistic, value_discretization_interval=step, symmetric=False
        )
        for pessimistic in (False, True)
    )
    for epsilon in EPSILONS[1:]:
        ours = max(pair_delta(p, epsilon, FLOAT) for p in both(pair))
        # pessimistic: their losses are rounded up to the next multiple of the step
        coarser = max(pair_delta(p, epsilon - Fraction(step), FLOAT) for p in both(pair))
        theirs = pld.get_delta_for_epsilon(float(epsilon))
        assert ours - 1e-9 <= theirs <= coarser + 1e-9
    # two releases: what adding up says is never less than the composed losses, which are rounded down here
    curve = [(e, Fraction(max(pair_delta(p, e, FLOAT) for p in both(pair)))) for e in EPSILONS]
    twice, together = below.self_compose(2), compose_curves([curve] * 2)
    assert len(together) > len(curve)
    for epsilon, delta in together:
        assert twice.get_delta_for_epsilon(float(epsilon)) <= float(delta) + 1e-12


def test_no_divergence_beyond_the_largest_loss() -> None:
    pair = Pair(1, 0, Fraction(1, 2), Fraction(1, 2), Fraction(3), 4)
    largest = 1 + pair.draws / pair.losing_prior  # all draws from the cell that loses
    epsilon = Fraction(math.log(largest)).limit_denominator(10**6) + Fraction(1, 10**5)
    assert exp_up(epsilon) > largest
    with rigorous() as balls:
        assert upper_fraction(pair_delta(pair, epsilon, balls)) == 0
        assert upper_fraction(pair_delta(pair, epsilon - Fraction(1, 10**4), balls)) > 0
