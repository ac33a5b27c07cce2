"""Several releases, several records, several implicates: against enumeration of the joint outputs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import synth
from synth.composition import compose, group_privacy, one_urn_implicates
from synth.tails import exp_up

from .reference import Histogram, Urn

A, F = Fraction(1, 2), Fraction(1, 2)


@pytest.fixture(scope="module")
def urn() -> Urn:
    return Urn(3, 2, (A, Fraction(1)), (Fraction(1), F))


@pytest.fixture(scope="module")
def truth(urn: Urn) -> dict[Histogram, dict[Histogram, Fraction]]:
    return {h: urn.distribution(h) for h in urn.histograms()}


def divergence(p: dict[object, Fraction], q: dict[object, Fraction], odds: Fraction) -> Fraction:
    return sum((max(Fraction(0), mass - odds * q[s]) for s, mass in p.items()), Fraction(0))


def worst(urn: Urn, truth: dict[Histogram, dict], odds: Fraction, steps: int = 1) -> Fraction:
    """The largest divergence over inputs that differ in `steps` records."""
    pairs = {(h, h) for h in truth}
    for _ in range(steps):
        pairs = {(h, g) for h, middle in pairs for g in urn.neighbours(middle)}
    return max(divergence(truth[h], truth[g], odds) for h, g in pairs)


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3, 2)], ids=str)
def test_two_releases_cost_the_sum(urn: Urn, truth: dict[Histogram, dict], epsilon: Fraction) -> None:
    delta = worst(urn, truth, exp_up(epsilon) * (1 - Fraction(1, 2**100)))
    total_epsilon, total_delta = compose([(epsilon, delta)] * 2)
    assert (total_epsilon, total_delta) == (2 * epsilon, min(2 * delta, Fraction(1)))
    both = {h: {(s, t): p[s] * p[t] for s, t in itertools.product(p, p)} for h, p in truth.items()}
    assert worst(urn, both, exp_up(total_epsilon)) <= total_delta


@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(1), Fraction(3, 2)], ids=str)
@pytest.mark.parametrize("records", [2, 3])
def test_a_person_with_several_records(
    urn: Urn, truth: dict[Histogram, dict], epsilon: Fraction, records: int
) -> None:
    delta = worst(urn, truth, exp_up(epsilon) * (1 - Fraction(1, 2**100)))
    together = group_privacy(epsilon, delta, records)
    assert together[0] == records * epsilon
    assert worst(urn, truth, exp_up(together[0]), records) <= together[1]
    exact = float(delta) * sum(math.exp(i * float(epsilon)) for i in range(records))
    assert float(together[1]) == pytest.approx(min(1.0, exact), rel=1e-12)


def test_one_record_costs_what_it_costs_and_none_is_refused() -> None:
    assert group_privacy(Fraction(2), Fraction(1, 9), 1) == (2, Fraction(1, 9))
    with pytest.raises(ValueError, match="at least one"):
        group_privacy(Fraction(2), Fraction(1, 9), 0)


def test_nothing_and_too_much() -> None:
    assert compose([]) == (0, 0)
    assert compose([(Fraction(1), Fraction(2, 3))] * 2) == (2, 1)


def test_parts_of_one_urn_are_one_urn_with_more_draws(urn: Urn) -> None:
    # Exactly: the two halves of 2m draws have each the distribution of m draws, and together that of 2m.
    h = (2, 1)
    together = Urn(urn.n, 2 * urn.m, urn.prior, urn.retention).distribution(h)
    half = urn.distribution(h)
    for part, mass in half.items():
        # Draws are exchangeable: the first m of 2m are a simple random choice among them.
        share = sum(
            (
                p
                * math.prod(math.comb(x, y) for x, y in zip(s, part, strict=True))
                / math.comb(2 * urn.m, urn.m)
                for s, p in together.items()
            ),
            Fraction(0),
        )
        assert share == mass


def test_one_urn_cut_in_k_costs_less_epsilon_than_k_urns() -> None:
    n = np.array([20, 50])
    pools = synth.Pools(n, n, np.zeros(2, np.int32))
    domains = synth.Domains(6, np.array([0, 6]), np.arange(6, dtype=np.int32), np.zeros(6, np.uint8))
    mechanism, prior, delta = synth.MECHANISMS["dirichlet"], Fraction(1, 5), Fraction(1, 10**5)
    one = synth.smallest_epsilon_plan(mechanism, pools, domains, (Fraction(1),), delta / 2, prior)
    wide = one_urn_implicates(pools, 2)
    assert wide.m.tolist() == [40, 100]
    assert wide.n.tolist() == [20, 50]
    cut = synth.smallest_epsilon_plan(mechanism, wide, domains, (Fraction(1),), delta, prior)
    assert one.epsilon < cut.epsilon < compose([(one.epsilon, one.delta)] * 2)[0]
    with pytest.raises(ValueError, match="at least one"):
        one_urn_implicates(pools, 0)
