"""Several releases, several records, several implicates: against enumeration of the joint outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent, LaplaceDpEvent
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.composition import Cost, compose, group_privacy, one_urn_implicates, record_share
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
        for cost, most in zip(together, (epsilon, delta), strict=True):
            assert most * (1 - Fraction(1, 10**9)) <= cost <= most
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


# --- both accounts: plain sums and zCDP

AMOUNTS = st.fractions(0, 5, max_denominator=60)
CHANCES = st.fractions(0, Fraction(1, 50), max_denominator=10**6)
COSTS = st.builds(Cost.of, AMOUNTS, CHANCES, st.none() | AMOUNTS)
Parts = dict[Any, float]
DELTAS = st.integers(1, 60).map(lambda k: Fraction(1, 2**k))


@given(st.lists(st.tuples(AMOUNTS, CHANCES, st.none() | AMOUNTS), max_size=12))
@settings(max_examples=60, deadline=None)
def test_both_accounts_are_the_sums_that_others_compute(
    releases: list[tuple[Fraction, Fraction, Fraction | None]],
) -> None:
    cost = Cost.of_all(Cost.of(*release) for release in releases)
    assert cost[:2] == (sum(e for e, _, _ in releases), min(1, sum(d for _, d, _ in releases)))
    assert cost.rho_delta == min(1, sum(d for _, d, rho in releases if rho is None))
    with mpmath.workdps(80):

        def number(x: Fraction) -> mpmath.mpf:
            return mpmath.mpf(x.numerator) / x.denominator

        rho = mpmath.fsum(
            number(e) * mpmath.tanh(number(e) / 2) if rho is None else number(rho) for e, _, rho in releases
        )
        assert 0 <= number(cost.rho) - rho <= rho * mpmath.mpf(10) ** -50 + mpmath.mpf(10) ** -70


@given(st.lists(COSTS, max_size=8), COSTS, DELTAS, DELTAS, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_epsilons_grow_with_releases_and_records_and_fall_with_delta(
    costs: list[Cost], another: Cost, delta: Fraction, more: Fraction, times: int
) -> None:
    cost, both = Cost.of_all(costs), Cost.of_all([*costs, another])
    for account in (0, 1):

        def at(paid: Cost, delta: Fraction, times: int, account: int = account) -> Fraction | float:
            found = paid.epsilons_at(delta, times)[account]
            return math.inf if found is None else found

        # Orders are found with floats, so that zCDP is monotone to their last digits only.
        slack = 1 + Fraction(account, 10**6)
        here = at(cost, delta, times) / slack - Fraction(account, 10**6)
        assert here <= at(both, delta, times)
        assert here <= at(cost, delta, times + 1)
        assert here <= at(cost, delta * (1 - more), times)
        if not cost.delta:
            assert at(cost, Fraction(0), times) == (
                times * cost.epsilon if account == 0 else (math.inf if cost.rho else 0)
            )


@pytest.mark.parametrize("sigmas", [[3, 5, 8] * 4, [Fraction(1, 2)]], ids=str)
@pytest.mark.parametrize("scales", [[], [3, 5] * 3], ids=str)
def test_zcdp_is_above_the_exact_composition_and_not_far(sigmas: list[Fraction], scales: list[int]) -> None:
    """Gaussian and Laplace noise together, as `dp_accounting` composes their privacy loss distributions."""
    events: list[DpEvent] = [GaussianDpEvent(float(s)) for s in sigmas]
    exactly = PLDAccountant()
    exactly.compose(ComposedDpEvent([*events, *(LaplaceDpEvent(s) for s in scales)]))
    delta = Fraction(1, 10**6)
    gaussian = [Cost.of(Fraction(50), delta, 1 / Fraction(2 * s * s)) for s in sigmas]
    pure = [Cost.of(Fraction(1, s), Fraction(0)) for s in scales]
    found = Cost.of_all([*gaussian, *pure]).epsilons_at(delta)[1]
    assert found is not None
    truth = exactly.get_epsilon(float(delta))
    assert truth <= float(found) <= 1.3 * truth


def test_an_adaptive_path_costs_what_the_dearest_path_costs(truth: dict[Histogram, dict]) -> None:
    """What follows a first output depends on it: one urn, two or none. Every path is within the budget."""
    urn = Urn(3, 2, (A, Fraction(1)), (Fraction(1), F))
    epsilon = Fraction(3, 2)
    delta = worst(urn, truth, exp_up(epsilon) * (1 - Fraction(1, 2**100)))
    one = Cost.of(epsilon, delta)
    after = {output: number % 3 for number, output in enumerate(urn.distribution((2, 1)))}

    def joint(p: dict[Any, Fraction]) -> dict[Any, Fraction]:
        outputs = {(s,): mass for s, mass in p.items()}
        for step in (1, 2):
            outputs = {
                (*path, s): mass * q
                for path, mass in outputs.items()
                for s, q in (p.items() if after[path[0]] >= step else [(None, Fraction(1))])
            }
        return outputs

    released = {h: joint(p) for h, p in truth.items()}
    together = Cost.of_all([one] * 3)
    for chance in (Fraction(1, 4), Fraction(1, 3), Fraction(2, 5)):
        asked = together.rho_delta + chance * (1 - together.rho_delta)
        found = [e for e in together.epsilons_at(asked) if e is not None]
        for e in found:
            assert worst(urn, released, exp_up(e) * (1 - Fraction(1, 2**100))) <= asked
        assert len(found) == 2


def parts(p: Parts, q: Parts, epsilon: float) -> tuple[Parts, Parts]:
    """The functions a and b of the proof of Lemma 52, for two distributions."""
    odds = math.exp(epsilon)
    a = {s: min(p[s], odds * q[s]) for s in p}
    b = {s: min(q[s], odds * p[s]) for s in p}
    if (sums := (sum(a.values()), sum(b.values())))[0] < sums[1]:
        return parts(q, p, epsilon)[::-1]
    t = (sums[0] - sums[1]) / (sums[0] - sums[1] / odds)
    return {s: (1 - t) * a[s] + t * b[s] / odds for s in p}, b


def check_parts(releases: list[tuple[Parts, Parts, Cost]]) -> None:
    """Lemma 52 for each release; Lemma 53 for the first and one of the others that it chooses, or none."""
    steps = [parts(p, q, float(cost.epsilon)) for p, q, cost in releases]
    costs = [cost for _, _, cost in releases]
    first, outputs = costs[0], releases[0][0]
    by_turns = {s: 1 + number % len(releases) for number, s in enumerate(outputs)}  # the last number is none
    assert len(set(by_turns.values())) == len(releases)
    for (a, b), (p_r, q_r, cost) in zip(steps, releases, strict=True):
        assert min(sum(a.values()), sum(b.values())) >= 1 - float(cost.rho_delta) - 1e-12
        assert max(a[s] - p_r[s] for s in a) <= 1e-12 >= max(b[s] - q_r[s] for s in b)
    for second, (one, other) in itertools.product((by_turns, dict.fromkeys(outputs, 1)), ((0, 1), (1, 0))):
        paths = [Cost.of_all([first, *costs[k : k + 1]]) for k in set(second.values())]
        rho, lost = (float(max(path[k] for path in paths)) for k in (2, 3))
        sums = [*(sum(step[one].values()) for step in steps), 1.0]
        assert sum(steps[0][one][s] * sums[k] for s, k in second.items()) >= 1 - lost - 1e-12
        for order in (1.001, 1.5, 2.0, 5.0, 15.0):
            moments = [moment(step[one], step[other], order) for step in steps]
            for each, cost in zip(moments, costs, strict=True):
                assert sum(each.values()) <= math.exp(order * (order - 1) * float(cost.rho)) * (1 + 1e-12)
            after = [*(sum(each.values()) for each in moments), 1.0]
            together = sum(moments[0][s] * after[k] for s, k in second.items())
            assert together <= math.exp(order * (order - 1) * rho) * (1 + 1e-12)


@pytest.mark.parametrize("epsilons", [(0.5, 0.5, 0.5), (1.0, 0.2, 1.5), (2.0, 1.0, 0.1)], ids=str)
def test_the_parts_of_the_proofs_have_their_sums_for_an_urn(
    urn: Urn, truth: dict[Histogram, dict], epsilons: tuple[float, ...]
) -> None:
    costs = [
        Cost.of(e, worst(urn, truth, exp_up(e) * (1 - Fraction(1, 2**100)))) for e in map(Fraction, epsilons)
    ]
    for h in truth:
        for g in urn.neighbours(h):
            p, q = ({s: float(mass) for s, mass in truth[x].items()} for x in (h, g))
            check_parts([(p, q, cost) for cost in costs])


@pytest.mark.parametrize("delta", ["0", "1e-3", "1/3"])
@pytest.mark.parametrize("epsilons", [(0.1, 0.1), (1.0, 0.25, 1.5), (2.0, 1.0, 0.5)], ids=str)
def test_the_parts_of_the_proofs_have_their_sums_for_the_worst_mechanism(
    epsilons: tuple[float, ...], delta: str
) -> None:
    """It says all with probability delta, and else answers at random; here the bounds are nearly reached."""
    releases = []
    for epsilon in epsilons:
        cost = Cost.of(Fraction(epsilon), Fraction(delta))
        lie = (1 - float(cost.delta)) / (1 + math.exp(epsilon))
        p = {"all": float(cost.delta), "yes": lie * math.exp(epsilon), "no": lie, "all'": 0.0}
        q = dict(zip(p, reversed([*p.values()]), strict=True))
        releases.append((p, q, cost))
        near = moment(*parts(p, q, epsilon), 1.001)
        reached = math.log(sum(near.values()) / (1 - float(cost.delta))) / (1.001 * 0.001)
        assert reached == pytest.approx(float(cost.rho), rel=0.01)
    check_parts(releases)


def moment(a: Parts, b: Parts, order: float) -> Parts:
    return {s: a[s] ** order * b[s] ** (1 - order) if a[s] else 0.0 for s in a}


def test_an_account_that_has_no_epsilon_says_so() -> None:
    tiny, pure, large = Fraction(1, 10**6), Cost.of(Fraction(3), Fraction(0)), Fraction(10**6)
    rare = Cost.of(Fraction(3), tiny)
    assert pure.epsilons_at(Fraction(0)) == (3, None)
    assert pure.epsilons_at(Fraction(0), 5) == (15, None)
    assert rare.epsilons_at(tiny) == (3, None)
    assert rare.epsilons_at(tiny / 2) == (None, None)
    assert rare.epsilons_at(Fraction(1, 2), 2)[1] is None  # approximate zCDP of a group is not proved here
    assert Cost.of_all([]).epsilons_at(Fraction(0)) == (0, 0)
    assert Cost.of_all([Cost.of(large, Fraction(0))] * 2).epsilons_at(tiny, 1000) == (2 * 1000 * large, None)
    assert Cost.of(large, tiny).epsilons_at(Fraction(1, 2), 2) == (None, None)
    with pytest.raises(TypeError, match="rho must be an exact number"):
        Cost.of(Fraction(1), Fraction(0), 0.5)  # type: ignore[arg-type]
