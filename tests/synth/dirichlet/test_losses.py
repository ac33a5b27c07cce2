"""Losses: thresholds, the pruning loss and the failure bound against exact rational arithmetic."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.dirichlet import losses
from synth.dirichlet.losses import PoolClass, bad_threshold, failure_bound
from synth.tails import FLOAT, REST, fraction, rational, rigorous, upper_fraction

from .. import reference
from ..builders import make_class
from ..reference import Urn, beta_binomial_tail, cell_gain

CLOSE = 1 + Fraction(1, 2**18)

fractions_of_one = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(3, 10)])
priors = st.fractions(Fraction(1, 20), 6, max_denominator=20)
gains = st.fractions(Fraction(21, 20), 30, max_denominator=20)


def single_class(urn: Urn, gain: Fraction) -> PoolClass:
    """The class of one pool, every cell its own stratum."""
    q = 100_000
    numerators = tuple(int(a * q) for a in urn.prior)
    assert all(Fraction(a, q) == b for a, b in zip(numerators, urn.prior, strict=True))
    sizes = urn.n, urn.n, urn.m, (1,) * urn.k
    return make_class(*sizes, gain, numerators, retention=urn.retention, denominator=q)


@given(st.integers(0, 30), priors, fractions_of_one, gains)
def test_threshold_is_the_last_draw_that_is_not_bad(x: int, a: Fraction, f: Fraction, gain: Fraction) -> None:
    s = bad_threshold(x, a, f, gain)
    assert s >= 0
    assert s == 0 or cell_gain(x, s, a, f) <= gain
    assert cell_gain(x, s + 1, a, f) > gain


def test_threshold_where_retention_eats_the_gain() -> None:
    # f G < 1: one draw from an empty cell is bad already, none is not.
    assert bad_threshold(0, Fraction(3), Fraction(1, 4), Fraction(2)) == 0
    assert bad_threshold(1, Fraction(3), Fraction(1, 4), Fraction(2)) == 0
    assert bad_threshold(2, Fraction(3), Fraction(1, 4), Fraction(2)) == 4


@settings(max_examples=120, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.lists(
        st.tuples(st.sampled_from([Fraction(x) for x in ("1/10", "1/2", "1", "2", "3.7")]), fractions_of_one),
        min_size=1,
        max_size=4,
    ),
    gains,
)
def test_failure_bound_of_one_pool_encloses_the_sum_by_brute_force(
    n: int, m: int, strata: list[tuple[Fraction, Fraction]], gain: Fraction
) -> None:
    urn = Urn(n, m, *zip(*strata, strict=True))  # type: ignore[arg-type]
    c = single_class(urn, gain)
    true_failure, true_person = reference.failure(urn, gain)
    with rigorous() as balls:
        failure, person = map(upper_fraction, failure_bound(c, balls))
    assert true_failure <= failure <= true_failure * CLOSE
    assert true_person <= person <= true_person * CLOSE
    assert failure_bound(c, FLOAT) == pytest.approx((float(true_failure), float(true_person)), rel=1e-5)


@pytest.mark.parametrize("gain", [Fraction(3, 2), Fraction(4), Fraction(20)], ids=str)
@pytest.mark.parametrize("f", [Fraction(1), Fraction(1, 2)], ids=str)
def test_failure_bound_of_a_class_is_above_every_member(gain: Fraction, f: Fraction) -> None:
    a, retention = (Fraction(1, 2), Fraction(2)), (f, Fraction(1, 4))
    c = make_class(3, 6, 7, (2, 2), gain, (5, 20), retention=retention)
    with rigorous() as balls:
        failure, person = map(upper_fraction, failure_bound(c, balls))
    for n, m in itertools.product(range(3, 7), range(1, 8)):
        for k in itertools.product(range(3), range(3)):
            if sum(k):
                cells = [s for s in (0, 1) for _ in range(k[s])]
                urn = Urn(n, m, tuple(a[s] for s in cells), tuple(retention[s] for s in cells))
                member = reference.failure(urn, gain)
                assert member[0] <= failure
                assert member[1] <= person


def test_leaving_out_ranges_of_counts_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The maxima are those of every count, and far fewer are summed in large pools."""
    summed = []
    original = losses.tail_bound

    def counted(*given: Any) -> Any:
        summed.append(given[-1] == REST)
        return original(*given)

    cases = [
        # fewest and most slots, draws, cells, gain, ten times the prior, retention, cells sure to be there
        (60, 60, 60, 3, Fraction(5, 2), 5, 1, 0),
        (60, 60, 60, 3, Fraction(5), 20, 1, 3),
        (40, 60, 70, 5, Fraction(12), 20, 2, 0),
        (25, 30, 60, 2, Fraction(3, 2), 4, 2, 0),  # bad more often, the more workers there are
        (1000, 1000, 1000, 30, Fraction(8, 5), 600, 1, 30),
        (700, 800, 800, 30, Fraction(6, 5), 2500, 1, 30),
    ]
    for fewest, most, draws, cells, gain, prior, inverse, kept in cases:
        c = make_class(
            fewest, most, draws, (cells,), gain, (prior,), kept=(kept,), retention=(Fraction(1, inverse),)
        )
        (stratum,) = losses.strata(c)
        with rigorous() as balls:
            tails = [losses.Counts(stratum, rational(gain), balls).tail(x, x) for x in range(1, most + 1)]
            every = (
                max(upper_fraction(tail / x) for x, tail in enumerate(tails, 1)),
                max(map(upper_fraction, tails)),
            )
            summed.clear()
            with monkeypatch.context() as patch:
                patch.setattr(losses, "tail_bound", counted)
                found = losses.worst_occupied_cell(stratum, rational(gain), balls)
            uppers = [upper_fraction(one) for one in found]  # at the precision of these balls
        for one, whole in zip(uppers, every, strict=True):
            assert whole <= one <= whole * (1 + Fraction(1, 2**40))  # a ball that holds two balls is wider
        assert 50 * sum(summed) < most or most < 700


def test_one_bound_is_above_the_tails_of_a_range_of_counts() -> None:
    for gain, prior, kept in itertools.product((Fraction(3, 2), Fraction(4)), (3, 25), (0, 3)):
        c = make_class(5, 9, 8, (3,), gain, (prior,), kept=(kept,), retention=(Fraction(1, 2),))
        (stratum,) = losses.strata(c)
        true = []
        for x in range(1, 10):
            threshold = bad_threshold(x, stratum.prior, stratum.retention, rational(gain))
            weights = fraction(x + stratum.prior), fraction(stratum.rest(x))
            true.append(beta_binomial_tail(8, *weights, threshold))
        with rigorous() as balls:
            counts = losses.Counts(stratum, rational(gain), balls)
            for first, last in itertools.combinations_with_replacement(range(1, 10), 2):
                assert max(true[first - 1 : last]) <= upper_fraction(counts.tail(first, last))
                if first > 1 and counts.last_alike(first) == last:
                    assert upper_fraction(counts.tail(first, last)) <= max(true[first - 1 : last]) * CLOSE


def test_a_bound_that_gives_up_says_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "MAX_COUNTS", 3)
    urn = Urn(9, 9, (Fraction(1, 2),) * 2, (Fraction(1),) * 2)
    gain = Fraction(3, 2)  # the largest tails are at large counts
    c = single_class(urn, gain)
    with rigorous() as balls:
        failure, person = map(upper_fraction, failure_bound(c, balls))
    true_failure, true_person = reference.failure(urn, gain)
    assert person == 1 >= true_person
    assert failure >= true_failure


def test_nothing_fails_where_no_draw_can_be_bad() -> None:
    # (f G - 1) a = m exactly: pure epsilon.
    retention = Fraction(1), Fraction(2, 7)
    with rigorous() as balls:
        for prior, nothing in ((10, True), (9, False)):
            c = make_class(4, 4, 6, (5, 3), Fraction(7), (prior, 60), retention=retention)
            assert [upper_fraction(x) == 0 for x in failure_bound(c, balls)] == [nothing] * 2
