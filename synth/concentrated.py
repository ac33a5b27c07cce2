"""Zero-concentrated differential privacy (zCDP), and what it says as other guarantees.

A mechanism is rho-zCDP if, for all neighbours and every order alpha > 1, the Renyi divergence of its outputs
is at most alpha rho. The rho of releases of the same records add up, which costs less than their epsilons do.
Every number here is an exact fraction, and every bound is rounded to the safe side. Orders are found with
floats, as any order gives a bound; the bound itself is computed in balls. docs/privacy.md has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from synth.rationals import MAX_RECORDS, exact
from synth.tails import Arithmetic, rigorous, upper_fraction

LARGEST = 10**6
"""Of rho and epsilon: nobody wants such a guarantee."""

LEAST_DELTA = Fraction(1, 2**128)
"""Smaller bounds of delta are rounded up to it: nobody needs their millions of digits."""


def compose_rho(rhos: Iterable[Fraction]) -> Fraction:
    """Return the rho of releases of the same records taken together, which is the sum.

    Lemma 46 of docs/privacy.md.

    Parameters
    ----------
    rhos : iterable of Fraction
        Rho of each release, which may be chosen after those before it were seen.

    Raises
    ------
    TypeError
        If a number is a float.
    """
    return sum((_rho(rho) for rho in rhos), Fraction(0))


def rho_of_group(rho: Fraction, records: int) -> Fraction:
    """Return the rho of a person with several records, which is c^2 times that of one.

    Lemma 46 of docs/privacy.md.

    Parameters
    ----------
    rho : Fraction
        Of one record.
    records : int
        c, from 1 to 1,000.

    Raises
    ------
    TypeError
        If rho is a float.
    ValueError
        If `records` is below 1 or above 1,000.
    """
    if not 1 <= records <= MAX_RECORDS:
        raise ValueError(f"a person must have at least one record, and at most {MAX_RECORDS:,}")
    return records**2 * _rho(rho)


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """Return the rho of every epsilon-differentially private mechanism: epsilon tanh(epsilon/2), rounded up.

    Lemma 47 of docs/privacy.md. It is below epsilon^2/2, and no smaller number holds for all such mechanisms.

    Parameters
    ----------
    epsilon : Fraction
        At least 0.

    Raises
    ------
    TypeError
        If epsilon is a float.
    ValueError
        If epsilon is negative, or above 10^6.
    """
    epsilon = checked(epsilon, "epsilon")
    with rigorous() as balls:
        x = balls.number(epsilon)
        return upper_fraction(x * (x / 2).tanh())


def pure_within(rho: Fraction) -> Fraction:
    """Return about the largest epsilon with which all epsilon-DP mechanisms are rho-zCDP, never more.

    Parameters
    ----------
    rho : Fraction
        At least 0.

    Returns
    -------
    Fraction
        `rho_of_pure` it is at most rho.

    Raises
    ------
    TypeError
        If rho is a float.
    ValueError
        If rho is negative, or above 10^6 - 2.
    """
    rho = _rho(rho)
    # epsilon tanh(epsilon/2) is more than rho at rho + 2, as 1 - tanh(x) is below 2 e^(-2x).
    return Fraction(0) if rho == 0 else largest(lambda epsilon: rho_of_pure(epsilon) <= rho, rho + 2)


def delta_of(rho: Fraction, epsilon: Fraction) -> Fraction:
    """Return a delta with which rho-zCDP is (epsilon, delta)-differential privacy, rounded up.

    Lemma 45 of docs/privacy.md, at about the best order.

    Parameters
    ----------
    rho, epsilon : Fraction
        At least 0.

    Returns
    -------
    Fraction
        From 2^-128 to 1; 0 only where rho is.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is negative, or above 10^6.
    """
    rho, epsilon = _rho(rho), checked(epsilon, "epsilon")
    if rho == 0:
        return Fraction(0)
    slope, height = float(rho), float(epsilon)

    # What log delta rises by with alpha - 1: below 0 up to the best order, above 0 from there on.
    more = _root(lambda more: (1 + 2 * more) * slope - height - math.log1p(1 / more))
    with rigorous() as balls:
        m, r, e = (balls.number(x) for x in (more, rho, epsilon))
        log = m * ((1 + m) * r - e - balls.log(1 + 1 / m)) - balls.log(1 + m)
        return _stated(log, balls)


def epsilon_of(rho: Fraction, delta: Fraction) -> Fraction:
    """Return an epsilon with which rho-zCDP is (epsilon, delta)-differential privacy, rounded up.

    Lemma 45 of docs/privacy.md, at about the best order.

    Parameters
    ----------
    rho : Fraction
        At least 0.
    delta : Fraction
        Above 0, unless rho is 0.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is negative, rho is above 10^6, or delta is 0 and rho is not: there is no such epsilon.
    """
    rho, delta = _rho(rho), checked_delta(delta, rho)
    if rho == 0 or delta >= 1:
        return Fraction(0)
    slope, rare = float(rho), math.log(delta.denominator) - math.log(delta.numerator)

    # What epsilon rises by with alpha - 1, times (alpha - 1)^2.
    more = _root(lambda more: more * more * slope - rare + math.log1p(more))
    with rigorous() as balls:
        m, r = balls.number(more), balls.number(rho)
        rest = (balls.log(balls.number(1 / delta)) - balls.log(1 + m)) / m
        return upper_fraction((1 + m) * r - balls.log(1 + 1 / m) + rest)


def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Return about the largest rho with which rho-zCDP is (epsilon, delta)-differential privacy, never more.

    Parameters
    ----------
    epsilon : Fraction
        At least 0.
    delta : Fraction
        Above 0 and below 1.

    Returns
    -------
    Fraction
        `epsilon_of` it is at most epsilon.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is not in its range.
    """
    epsilon = checked(epsilon, "epsilon")
    return largest(lambda rho: epsilon_of(rho, delta) <= epsilon, epsilon)


def probabilistic_delta_of(rho: Fraction, epsilon: Fraction, neighbours: int = 1) -> Fraction:
    """Return a delta of (epsilon, delta)-probabilistic differential privacy by rho-zCDP, rounded up.

    Lemma 48 of docs/privacy.md.

    Parameters
    ----------
    rho, epsilon : Fraction
        At least 0.
    neighbours : int
        How many neighbours with another distribution of outputs an input has at most: the bad set serves all
        of them. With 1 this is about two given inputs.

    Returns
    -------
    Fraction
        From 2^-128 to 1; 0 only where rho is.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is negative or above 10^6, or there are no neighbours.
    """
    rho, epsilon, neighbours = _rho(rho), checked(epsilon, "epsilon"), _count(neighbours)
    if rho == 0:
        return Fraction(0)
    if epsilon <= rho:
        return Fraction(1)
    with rigorous() as balls:
        r, e = balls.number(rho), balls.number(epsilon)
        log = balls.log(balls.number(neighbours)) - (e - r) ** 2 / (4 * r) + balls.log(1 + balls.exp(-e))
        return _stated(log, balls)


def probabilistic_epsilon_of(rho: Fraction, delta: Fraction, neighbours: int = 1) -> Fraction:
    """Return an epsilon of (epsilon, delta)-probabilistic differential privacy by rho-zCDP, rounded up.

    Lemma 48 of docs/privacy.md.

    Parameters
    ----------
    rho : Fraction
        At least 0.
    delta : Fraction
        Above 0, unless rho is 0.
    neighbours : int
        As for `probabilistic_delta_of`.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is negative, rho is above 10^6, delta is 0 and rho is not, or there are no neighbours.
    """
    rho, delta, neighbours = _rho(rho), checked_delta(delta, rho), _count(neighbours)
    if rho == 0 or delta >= 1:
        return Fraction(0)
    with rigorous() as balls:
        r, rare = balls.number(rho), balls.log(balls.number(neighbours / delta))
        least = r + 2 * (r * rare).sqrt()
        return upper_fraction(r + 2 * (r * (rare + balls.log(1 + balls.exp(-least)))).sqrt())


def probabilistic_rho_within(epsilon: Fraction, delta: Fraction, neighbours: int = 1) -> Fraction:
    """Return about the largest rho with (epsilon, delta)-probabilistic differential privacy, never more.

    Parameters
    ----------
    epsilon, delta, neighbours
        As for `probabilistic_epsilon_of`; delta is above 0 and below 1.

    Returns
    -------
    Fraction
        `probabilistic_epsilon_of` it is at most epsilon.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is not in its range.
    """
    epsilon = checked(epsilon, "epsilon")
    return largest(lambda rho: probabilistic_epsilon_of(rho, delta, neighbours) <= epsilon, epsilon)


def largest(fits: Callable[[Fraction], bool], most: Fraction) -> Fraction:
    """Return the largest number that fits, to a part in 2^40, rounded down; none above `most` is tried."""
    if most == 0 or fits(most):
        return most
    high = most
    while not fits(high / 2):
        high /= 2
        if high < most / 2**200:
            return Fraction(0)
    low = high / 2
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _root(rising: Callable[[float], float]) -> Fraction:
    """Return about where a function of alpha - 1 that rises is 0, or an end of what is looked at."""
    low, high = -40.0, 60.0  # logarithms
    for _ in range(70):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(math.exp(middle)) > 0 else (middle, high)
    return Fraction(math.exp(low))


def _stated(log_delta: Any, balls: Arithmetic) -> Fraction:
    """Return a delta, from 2^-128 to 1, by a ball of its logarithm: e^-(10^9) as a fraction fills memory."""
    if log_delta < balls.log(balls.number(LEAST_DELTA)):
        return LEAST_DELTA
    if log_delta > 0:
        return Fraction(1)
    return min(max(upper_fraction(balls.exp(log_delta)), LEAST_DELTA), Fraction(1))


def _rho(rho: Fraction) -> Fraction:
    return checked(rho, "rho")


def checked(value: Fraction, name: str) -> Fraction:
    """Return a rho or an epsilon as an exact number from 0 to 10^6; refuse any other."""
    number = exact(value, name)
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{name} must be at least 0 and at most {LARGEST:,}")
    return number


def checked_delta(delta: Fraction, rho: Fraction) -> Fraction:
    """Return a delta as an exact number; refuse 0 beside a rho above 0."""
    number = exact(delta, "delta")
    if number < 0 or (number == 0 and rho > 0):
        raise ValueError("delta must be above 0: zCDP has no epsilon with a delta of 0")
    return number


def _count(neighbours: int) -> int:
    if neighbours < 1:
        raise ValueError("an input must have at least one neighbour")
    return neighbours
