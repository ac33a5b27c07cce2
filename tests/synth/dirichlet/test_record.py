"""The delta of one record: the worst count of workers, against every count in rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

import synth
from synth.dirichlet.losses import Stratum, strata
from synth.dirichlet.record import worst_cell_delta
from synth.tails import FLOAT, fraction, rigorous, upper_fraction

from ..builders import make_class
from ..reference import beta_binomial_tail

CLOSE = 1 + Fraction(1, 2**18)


def expectation(stratum: Stratum, x: int, odds: Fraction) -> Fraction:
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
        true = [expectation(stratum, x, odds) for x in range(1, sizes[1] + 1)]
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
        worst = {one.prior: max(expectation(one, x, odds) for x in range(1, sizes[1] + 1)) for one in every}
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
