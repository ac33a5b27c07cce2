"""Several releases, several records, several implicates: against enumeration of the joint outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import synth
from synth.composition import compose, group_privacy, one_urn_implicates, record_share
from synth.tails import exp_up

from .reference import Histogram, Urn, divergence

pytestmark = pytest.mark.quick

A, F = Fraction(1, 2), Fraction(1, 2)


@pytest.fixture(scope="module")
def urn() -> Urn:
    return Urn(3, 2, (A, Fraction(1)), (Fraction(1), F))


@pytest.fixture(scope="module")
def truth(urn: Urn) -> dict[Histogram, dict[Histogram, Fraction]]:
    return {h: urn.distribution(h) for h in urn.histograms()}


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
    with pytest.raises(ValueError, match="at most 1,000"):
        group_privacy(Fraction(2), Fraction(1, 9), 2**31)
    with pytest.raises(ValueError, match="too many digits"):
        group_privacy(Fraction(10**12), Fraction(1, 9), 2)


def test_the_share_of_a_record_costs_a_person_no_more_than_is_given_and_hardly_less() -> None:
    for epsilon, delta, records in itertools.product(
        (Fraction(8), Fraction("0.3"), Fraction(43, 5)),
        (Fraction(0), Fraction(1, 10**5), Fraction(1, 3)),
        (1, 2, 7),
    ):
        share = record_share(epsilon, delta, records)
        together = group_privacy(*share, records)
        for cost, given in zip(together, (epsilon, delta), strict=True):
            assert given * (1 - Fraction(1, 10**9)) <= cost <= given
    with pytest.raises(TypeError, match="exact number"):
        record_share(8.6, Fraction(0), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        record_share(Fraction(1), Fraction(0), 0)
    assert record_share(Fraction(10**12), Fraction(0), 2) == (100, 0)  # of a budget; no record costs more


def test_nothing_and_too_much() -> None:
    assert compose([]) == (0, 0)
    assert compose([(Fraction(1), Fraction(2, 3))] * 2) == (2, 1)


def test_floats_are_refused() -> None:
    for number in (lambda: compose([(8.6, 0)]), lambda: compose([(1, 1e-5)])):  # type: ignore[list-item]
        with pytest.raises(TypeError, match="must be an exact number"):
            number()
    for epsilon, delta in ((8.6, 0), (1, 1e-5)):
        with pytest.raises(TypeError, match="must be an exact number"):
            group_privacy(epsilon, delta, 2)  # type: ignore[arg-type]


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

    def smallest_epsilon(pools: synth.Pools, delta: Fraction) -> Fraction:
        tiny = Fraction(1, 10**6)
        with pytest.raises(synth.BudgetTooSmallError) as refused:
            mechanism.calibrate(pools, domains, (Fraction(1),), synth.Target(tiny, delta), prior=prior)
        assert refused.value.smallest is not None
        return refused.value.smallest

    one = smallest_epsilon(pools, delta / 2)
    wide = one_urn_implicates(pools, 2)
    assert wide.m.tolist() == [40, 100]
    assert wide.n.tolist() == [20, 50]
    cut = smallest_epsilon(wide, delta)
    assert one < cut < compose([(one, delta / 2)] * 2)[0]
    with pytest.raises(ValueError, match="at least one"):
        one_urn_implicates(pools, 0)


# --- a release whose plan is made of the one before


def pdp_delta(urn: Urn, truth: dict[Histogram, dict], odds: Fraction) -> Fraction:
    """The largest probability of an output whose loss against some neighbour is above ln(odds)."""

    def bad(p: Fraction, others: list[Fraction]) -> bool:
        return any(p > odds * q or q > odds * p for q in others)

    return max(
        sum((p for y, p in truth[h].items() if bad(p, [truth[g][y] for g in urn.neighbours(h)])), Fraction(0))
        for h in truth
    )


@pytest.mark.parametrize(("loss", "before"), [(worst, "1/2"), (pdp_delta, "13/25")], ids=["dp", "pdp"])
def test_a_release_planned_from_the_one_before_costs_the_sum(
    loss: Callable[..., Fraction], before: str
) -> None:
    """All pairs of outputs; after each first output another urn, with another epsilon and delta.

    The bound is the largest sum over first outputs. The sum that takes the second urn to be the one that the
    first was expected to lead to, as for releases that know nothing of each other, is exceeded.
    """
    first = Urn(2, 2, (Fraction(3), Fraction(3)), (Fraction(1), Fraction(1)))
    expected, other = (
        Urn(2, m, (a, a), (f, f)) for m, a, f in ((1, Fraction(6), Fraction(1)), (3, A, Fraction(1)))
    )

    def chosen(s: Histogram) -> tuple[Urn, Fraction]:
        """As a planner may that sees two workers in one cell: less noise there, and more epsilon for it."""
        return (other, Fraction(7, 5)) if max(s) == first.m else (expected, Fraction(1, 5))

    def delta(urn: Urn, epsilon: Fraction) -> Fraction:
        return loss(urn, {h: urn.distribution(h) for h in urn.histograms()}, _below(exp_up(epsilon)))

    least = Fraction(before)
    outputs = first.distribution((1, 1))
    costs = {
        s: compose([(least, delta(first, least)), (e, delta(u, e))]) for s in outputs for u, e in [chosen(s)]
    }
    both = {
        h: {
            (s, t): p * q
            for s, p in first.distribution(h).items()
            for t, q in chosen(s)[0].distribution(h).items()
        }
        for h in first.histograms()
    }
    epsilon, bound = (max(column) for column in zip(*costs.values(), strict=True))
    assert 0 < loss(first, both, exp_up(epsilon)) <= bound < 1
    blind = costs[1, 1]
    assert loss(first, both, exp_up(blind[0])) > blind[1]
    assert loss(first, both, exp_up(epsilon)) > blind[1], "nor is it enough to take the largest epsilon"


def _below(odds: Fraction) -> Fraction:
    return odds * (1 - Fraction(1, 2**100))
