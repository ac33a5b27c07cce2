"""Tails: every rigorous upper end lies on or above the exact tail, and not far above."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import flint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.tails import (
    BALL,
    FLOAT,
    PRECISION_BITS,
    REST,
    chernoff_bound,
    fraction,
    rational,
    rigorous,
    tail_bound,
    upper_fraction,
)

from .reference import beta_binomial_tail

SLACK = 1 + Fraction(1, 2**19)
WEIGHTS = [Fraction(1, 1000), Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(7, 3), Fraction(20)]
RESTS = [
    Fraction(1, 50),
    Fraction(1, 3),
    Fraction(99, 100),
    Fraction(1),
    Fraction(3, 2),
    Fraction(9),
    Fraction(250),
]


def ball_tail(draws: int, weight: Fraction, rest: Fraction, threshold: int) -> Fraction:
    with rigorous() as balls:
        return upper_fraction(tail_bound(draws, weight, rest, threshold, balls))


def test_tail_is_above_the_exact_one_and_close() -> None:
    for draws, weight, rest in itertools.product([0, 1, 2, 5, 17, 40], WEIGHTS, RESTS):
        for threshold in sorted({-1, 0, 1, 3, draws // 2, draws - 1, draws, draws + 1}):
            exact_tail = beta_binomial_tail(draws, weight, rest, threshold)
            upper = ball_tail(draws, weight, rest, threshold)
            assert exact_tail <= upper <= exact_tail * SLACK
            assert tail_bound(draws, weight, rest, threshold, FLOAT) == pytest.approx(
                float(exact_tail), rel=1e-5
            )


@settings(max_examples=150, deadline=None)
@given(
    draws=st.integers(0, 60),
    weight=st.fractions(Fraction(1, 10**9), 100, max_denominator=10**9),
    rest=st.fractions(Fraction(1, 10**9), 500, max_denominator=10**9),
    threshold=st.integers(-2, 62),
)
def test_tail_is_above_the_exact_one_for_any_weights(
    draws: int, weight: Fraction, rest: Fraction, threshold: int
) -> None:
    exact_tail = beta_binomial_tail(draws, weight, rest, threshold)
    assert exact_tail <= ball_tail(draws, weight, rest, threshold) <= exact_tail * SLACK


def test_tail_of_larger_pools() -> None:
    for draws, weight, rest, threshold in [
        (400, Fraction(1, 5), Fraction(400), 10),  # ends by the geometric remainder, w < 1
        (400, Fraction(9, 5), Fraction(400), 25),  # ... and w > 1
        (600, Fraction(1, 10**6), Fraction(2), 500),
        (300, Fraction(150), Fraction(1, 100), 299),
    ]:
        exact_tail = beta_binomial_tail(draws, weight, rest, threshold)
        assert exact_tail <= ball_tail(draws, weight, rest, threshold) <= exact_tail * SLACK


def test_the_geometric_remainder_is_what_ends_a_long_sum() -> None:
    # A tail of 100,000 possible terms that is far too small to be the trivial 1.
    assert 0 < ball_tail(100_000, Fraction(1, 2), Fraction(100_000), 60) < Fraction(1, 10**12)
    # The longer sum is the tighter one: all are upper bounds of the same tail, within the promised share.
    shares = (Fraction(1, 2**60), fraction(REST), Fraction(1, 4), Fraction(2**20))
    for case in [(100_000, Fraction(1, 2), Fraction(100_000), 60), (900, Fraction(70), Fraction(900), 80)]:
        with rigorous() as balls:
            bounds = [upper_fraction(tail_bound(*case, balls, rest_share=share)) for share in shares]
        for share, bound, longer in zip(shares[1:], bounds[1:], bounds, strict=False):
            assert longer < bound <= bounds[0] * (1 + share)


def test_a_tail_of_too_many_terms_is_one() -> None:
    # Heavy tail: rest < 1, so no ratio falls, and more terms than are summed.
    assert ball_tail(10_000, Fraction(1, 2), Fraction(1, 2), 100) == 1
    assert tail_bound(10_000, Fraction(1, 2), Fraction(1, 2), 100, FLOAT) == 1


def test_edges_are_exact() -> None:
    for arithmetic in [FLOAT, BALL]:
        w, b = Fraction(1, 3), Fraction(5, 2)
        assert tail_bound(7, w, b, 7, arithmetic) == 0
        assert tail_bound(7, w, b, 8, arithmetic) == 0
        assert tail_bound(0, w, b, 0, arithmetic) == 0
        assert tail_bound(7, w, b, -1, arithmetic) == 1
        assert tail_bound(7, w, Fraction(0), 6, arithmetic) == 1
        assert tail_bound(7, w, Fraction(0), 7, arithmetic) == 0


def test_upper_fraction_is_exact_and_not_below() -> None:
    with rigorous() as balls:
        assert upper_fraction(flint.arb(0)) == 0
        assert upper_fraction(flint.arb(5) / 8) == Fraction(5, 8)
        assert upper_fraction(flint.arb(2) ** 400) == 2**400
        assert upper_fraction(flint.arb(2) ** -400) == Fraction(1, 2**400)
        assert upper_fraction(flint.arb(-3)) == 0
        for value in (Fraction(1, 3), Fraction(10**40, 7), Fraction(1, 10**50)):
            upper = upper_fraction(balls.number(value))
            assert value < upper < value * (1 + Fraction(1, 2 ** (PRECISION_BITS - 2)))


def test_upper_fraction_takes_the_whole_radius() -> None:
    assert upper_fraction(flint.arb(1, 0.25)) >= Fraction(5, 4)
    assert upper_fraction(flint.arb(-1, 1.25)) >= Fraction(1, 4)


def test_nothing_is_certified_from_a_ball_that_is_not_finite() -> None:
    for ball in [
        flint.arb("nan"),
        flint.arb("inf"),
        flint.arb("-inf"),
        flint.arb(0).log(),
        1 / flint.arb(0, 1),
    ]:
        with pytest.raises(ArithmeticError, match="not finite"):
            upper_fraction(ball)


def test_precision_is_set_and_restored() -> None:
    before = flint.ctx.prec
    with rigorous():
        assert flint.ctx.prec == PRECISION_BITS
        with rigorous(64):
            assert flint.ctx.prec == 64
        assert flint.ctx.prec == PRECISION_BITS
    assert flint.ctx.prec == before
    with pytest.raises(ZeroDivisionError), rigorous():
        raise ZeroDivisionError
    assert flint.ctx.prec == before


@given(st.fractions(), st.integers(53, 300))
def test_a_ball_holds_the_fraction_it_was_made_from(value: Fraction, bits: int) -> None:
    with rigorous(bits) as balls:
        ball = balls.number(value)
        assert ball.contains(flint.fmpq(value.numerator, value.denominator))


def test_chernoff_bounds_every_tail_it_claims() -> None:
    for draws, gain, prior in itertools.product(
        [10, 25], [Fraction(3, 2), Fraction(2), Fraction(4)], [Fraction(1, 10), Fraction(1), Fraction(3)]
    ):
        n = 30
        slope, claimed = gain - 1, 0
        ratio = Fraction(draws) / (n + prior)
        for x in range(2, 6):
            start = slope * (x - 1 + prior)
            with rigorous() as balls:
                bound = chernoff_bound(*map(rational, (start, x + prior, ratio, slope)), balls)
                if bound is None:
                    continue
                upper = upper_fraction(bound)
            claimed += 1
            for j in range(41):
                threshold = start + slope * j
                # the claim is for every W >= n + prior that the urn can have; the smallest is the worst
                rest = max(n + prior, x + prior + j) - (x + prior + j)
                largest = threshold.numerator // threshold.denominator
                assert beta_binomial_tail(draws, x + prior + j, rest, largest) <= upper
        assert claimed == 4 or gain < 4 or draws > 10


def test_chernoff_says_when_it_has_no_bound() -> None:
    # The threshold is below the mean, so no z > 1 helps.
    assert chernoff_bound(*map(flint.fmpq, (1, 5, 1, 1)), FLOAT) is None
    # r (z - 1) >= 1 cannot be reached by the minimiser, but one slope too flat is refused:
    assert chernoff_bound(*map(flint.fmpq, (20, 2, 1)), flint.fmpq(1, 100), FLOAT) is None


@given(
    st.fractions(Fraction(1, 10), 50, max_denominator=100),
    st.fractions(Fraction(1, 10), 20, max_denominator=100),
    st.fractions(Fraction(1, 10), 3, max_denominator=100),
    st.fractions(Fraction(1, 10), 10, max_denominator=100),
)
def test_chernoff_float_is_close_to_its_ball(t: Fraction, w: Fraction, r: Fraction, slope: Fraction) -> None:
    given = [rational(x) for x in (t, w, r, slope)]
    with rigorous() as balls:
        ball = chernoff_bound(*given, balls)
    approximate = chernoff_bound(*given, FLOAT)
    assert (ball is None) == (approximate is None)
    if ball is not None:
        assert math.isclose(float(ball), approximate, rel_tol=1e-9)
