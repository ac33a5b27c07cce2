"""What zCDP says as (probabilistic) differential privacy: rounded up, near the truth, and never below it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.concentrated import (
    compose_rho,
    delta_of,
    epsilon_of,
    probabilistic_delta_of,
    probabilistic_epsilon_of,
    probabilistic_rho_within,
    rho_of_group,
    rho_of_pure,
    rho_within,
)

pytestmark = pytest.mark.quick

RHOS = st.fractions(Fraction(1, 10**6), 200)
DELTAS = st.integers(1, 60).map(lambda k: Fraction(1, 2**k))
NEIGHBOURS = st.integers(1, 10**12)


@given(RHOS, DELTAS)
@settings(max_examples=60, deadline=None)
def test_epsilon_and_delta_are_inverse_and_one_order_proves_each(rho: Fraction, delta: Fraction) -> None:
    epsilon = epsilon_of(rho, delta)
    assert delta_of(rho, epsilon) <= delta * (1 + Fraction(1, 10**9))
    # No order of a fine grid does better than what is found, but for the digits of a float.
    orders = 1 + np.geomspace(1e-5, 1e12, 2000)
    rare = math.log(delta.denominator) - math.log(delta.numerator)
    bounds = orders * float(rho) + np.log1p(-1 / orders) + (rare - np.log(orders)) / (orders - 1)
    assert float(epsilon) <= max(0, bounds.min()) * (1 + 1e-9) + 1e-9


@given(RHOS, DELTAS, NEIGHBOURS)
@settings(max_examples=60, deadline=None)
def test_probabilistic_epsilon_and_delta_are_rounded_up(rho: Fraction, delta: Fraction, count: int) -> None:
    epsilon = probabilistic_epsilon_of(rho, delta, count)
    assert epsilon > rho
    found = probabilistic_delta_of(rho, epsilon, count)
    assert Fraction(9, 10) * delta <= found <= delta * (1 + Fraction(1, 2**150))
    assert probabilistic_epsilon_of(rho, delta, count) >= probabilistic_epsilon_of(rho, delta)


@given(st.fractions(Fraction(1, 1000), 50), DELTAS, NEIGHBOURS)
@settings(max_examples=30, deadline=None)
def test_the_largest_rho_fits_and_a_little_more_does_not(
    epsilon: Fraction, delta: Fraction, count: int
) -> None:
    more = 1 + Fraction(1, 10**9)
    rho = rho_within(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * more, delta) > epsilon or rho == epsilon
    rho = probabilistic_rho_within(epsilon, delta, count)
    assert probabilistic_epsilon_of(rho, delta, count) <= epsilon
    assert probabilistic_epsilon_of(rho * more, delta, count) > epsilon


@pytest.mark.parametrize("deviation", [0.5, 1.0, 4.0, 20.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
def test_dp_accounting_agrees_from_both_sides(deviation: float, delta: float) -> None:
    """Gaussian noise has rho = 1/(2 sigma^2): above its curve, and not above the best of some orders."""
    rho, event = 1 / (2 * Fraction(deviation) ** 2), GaussianDpEvent(deviation)
    epsilon = float(epsilon_of(rho, Fraction(delta)))
    exact = PLDAccountant().compose(event).get_epsilon(delta)
    of_orders = RdpAccountant().compose(event).get_epsilon(delta)
    assert 0.99 * exact < epsilon <= of_orders * (1 + 1e-9)
    assert epsilon < 1.5 * exact


@given(st.floats(1e-3, 30), st.floats(1e-4, 1e3))
@settings(max_examples=100, deadline=None)
def test_randomized_response_has_the_rho_of_pure_privacy(epsilon: float, more: float) -> None:
    rho, s = float(rho_of_pure(Fraction(epsilon))), more + 0.5
    log_cosh = [x + math.log1p(math.exp(-2 * x)) for x in (s * epsilon, epsilon / 2)]  # but for ln 2 of both
    divergence = (log_cosh[0] - log_cosh[1]) / more
    assert divergence <= (1 + more) * rho * (1 + 1e-9) + 1e-9
    assert rho <= epsilon**2 / 2


def test_no_smaller_rho_holds_for_randomized_response() -> None:
    odds = math.exp(2)
    kl = (odds - 1) / (odds + 1) * 2  # the limit of order 1
    assert float(rho_of_pure(Fraction(2))) == pytest.approx(kl, rel=1e-12)


def test_a_group_has_the_square_and_releases_the_sum() -> None:
    assert rho_of_group(Fraction(1, 3), 5) == Fraction(25, 3)
    assert compose_rho([Fraction(1, 3), Fraction(1, 6)]) == Fraction(1, 2)


def test_no_delta_has_thousands_of_digits() -> None:
    assert delta_of(Fraction(1, 10**9), Fraction(100)) == Fraction(1, 2**128)
    assert probabilistic_delta_of(Fraction(1, 10**9), Fraction(100), 10**9) == Fraction(1, 2**128)


def test_nothing_is_said_of_what_loses_nothing_or_cannot_be() -> None:
    assert epsilon_of(Fraction(0), Fraction(0)) == delta_of(Fraction(0), Fraction(0)) == 0
    assert delta_of(Fraction(1), Fraction(0)) <= 1
    assert probabilistic_delta_of(Fraction(2), Fraction(1)) == 1
    with pytest.raises(ValueError, match="no epsilon with a delta of 0"):
        epsilon_of(Fraction(1), Fraction(0))
    with pytest.raises(TypeError, match="a float is not"):
        epsilon_of(0.5, Fraction(1, 10))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 0"):
        delta_of(Fraction(-1), Fraction(1))
    with pytest.raises(ValueError, match="at most 1,000"):
        rho_of_group(Fraction(1), 1001)
