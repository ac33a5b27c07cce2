"""The delta of one record: divergences of pairs, and the worst count, against enumeration and a library."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_two_probability_mass_functions

import synth
from synth.composition import compose
from synth.dirichlet.losses import Stratum, strata
from synth.dirichlet.pairs import Pair, largest_pair_delta, pair_delta
from synth.dirichlet.record import record_delta_bound, worst_cell_delta
from synth.tails import FLOAT, exp_up, fraction, rigorous, upper_fraction

from ..builders import make_class
from ..reference import Histogram, Urn, beta_binomial_tail, rising

pytestmark = pytest.mark.quick

EPSILONS = [Fraction(0), Fraction(1, 5), Fraction(1), Fraction(5, 2)]
CLOSE = 1 + Fraction(1, 2**18)
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
    twice = below.self_compose(2)
    for e in EPSILONS:
        epsilon, delta = compose([(e, Fraction(max(pair_delta(p, e, FLOAT) for p in both(pair))))] * 2)
        assert twice.get_delta_for_epsilon(float(epsilon)) <= float(delta) + 1e-12


def test_no_divergence_beyond_the_largest_loss() -> None:
    pair = Pair(1, 0, Fraction(1, 2), Fraction(1, 2), Fraction(3), 4)
    largest = 1 + pair.draws / pair.losing_prior  # all draws from the cell that loses
    epsilon = Fraction(math.log(largest)).limit_denominator(10**6) + Fraction(1, 10**5)
    assert exp_up(epsilon) > largest
    with rigorous() as balls:
        assert upper_fraction(pair_delta(pair, epsilon, balls)) == 0
        assert upper_fraction(pair_delta(pair, epsilon - Fraction(1, 10**4), balls)) > 0


# --- the worst count of workers, against every count


def expected_excess(stratum: Stratum, x: int, odds: Fraction) -> Fraction:
    """E[(1 - odds / g)^+] of Lemma 10, term by term."""
    a, f, m = fraction(stratum.prior), fraction(stratum.retention), stratum.pool_class.m_max
    total, above = Fraction(0), Fraction(0)
    for s in range(m, 0, -1):
        tail = beta_binomial_tail(m, x + a, fraction(stratum.rest(x)), s - 1)
        gained = (1 + s / a) / f if x == 1 else 1 + s / (x - 1 + a)
        total += (tail - above) * max(Fraction(0), 1 - odds / gained)
        above = tail
    return total


def test_no_count_of_workers_is_worse_than_the_ones_that_are_looked_at() -> None:
    worst = set()
    for sizes, prior, kept, f, odds in itertools.product(
        ((1, 1), (2, 2), (2, 7), (7, 7)),
        (2, 11, 40),
        (0, 2, 4),
        (Fraction(1), Fraction(1, 3)),
        (Fraction(11, 10), Fraction(3)),
    ):
        c = make_class(*sizes, 6, (4,), odds, (prior,), kept=(kept,), retention=(f,))
        (stratum,) = strata(c)
        true = [expected_excess(stratum, x, odds) for x in range(1, sizes[1] + 1)]
        worst.add((true.index(max(true)) + 1, sizes[0]))
        with rigorous() as balls:
            found = upper_fraction(worst_cell_delta(stratum, balls.number(odds), balls))
        assert max(true) <= found <= max(true) * CLOSE
        assert abs(worst_cell_delta(stratum, float(odds), FLOAT) - max(true)) < 1e-6
    assert worst == {(1, 1), (1, 2), (2, 2), (1, 7), (7, 7)}  # one worker, or all in the lightest urn


def test_no_cell_that_is_kept_is_worse_than_those_of_the_smallest_prior() -> None:
    """In urns whose weight the larger priors raise, and in others; of cells with coins larger ones may be."""
    retention, found = (Fraction(1), Fraction(1), Fraction(1, 3), Fraction(1, 3)), set()
    for sizes, priors, kept, odds in itertools.product(
        ((1, 1), (2, 3), (5, 5)),
        ((4, 2, 3, 9), (300, 11, 40, 12)),
        ((0, 0, 0, 0), (1, 2, 1, 0)),
        (Fraction(11, 10), Fraction(3)),
    ):
        c = make_class(*sizes, 6, (1, 2, 1, 1), odds, priors, kept=kept, retention=retention)
        every, smallest = (strata(c, lightest=some) for some in (False, True))
        assert [(one.prior, one.cells) for one in smallest] == [
            (one.prior, cells) for one, cells in zip(every[1:], (3, 1, 1), strict=True)
        ]
        worst = {
            one.prior: max(expected_excess(one, x, odds) for x in range(1, sizes[1] + 1)) for one in every
        }
        assert worst[every[0].prior] < worst[every[1].prior]
        found.add(worst[max(one.prior for one in every[2:])] > worst[min(one.prior for one in every[2:])])
    assert found == {False, True}


def one_pool(n: int, k: int) -> synth.Plan:
    """The plan of a pool of n jobs and k cells at epsilon 1/2 and delta 1e-5."""
    domains = synth.Domains(k, np.array([0, k]), np.arange(k), np.zeros(k, np.uint8))
    pools = synth.Pools(np.array([n]), np.array([n]), np.zeros(1, np.int32))
    target = synth.Target(Fraction(1, 2), Fraction(1, 10**5))
    return synth.MECHANISMS["dirichlet"].calibrate(pools, domains, (Fraction(1),), target)


def test_a_large_pool_gets_the_smallest_prior() -> None:
    """Its tails are of thousands of counts, and float tails of priors a little larger are 0."""
    plan, d = one_pool(200_000, 10), synth.MECHANISMS["dirichlet"]
    now = d.certify(plan)
    assert Fraction(9, 10) * plan.target.delta < now.delta <= plan.target.delta
    assert now.record_delta < plan.target.delta
