"""What releases that all have discrete Gaussian noise cost together: less than zCDP alone says of them.

Discrete Gaussian noise is nearly a rounded Gaussian of a little less variance, and Gaussians that are chosen
one after the other have exactly the curve of one. So such releases have about the curve of a Gaussian, and
not only the bound that their Renyi divergences give. docs/privacy.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import flint

from synth.concentrated import checked, checked_delta, largest
from synth.rationals import exact
from synth.tails import Arithmetic, rigorous, upper_fraction

_CLOSE = 12  # C of Lemma 55: the larger, the nearer is the rounded Gaussian, and the less variance it has
_STEPS = 48  # bits of an epsilon


def gaussian_epsilon_of(rhos: Iterable[Fraction], delta: Fraction, times: int = 1) -> Fraction | None:
    """Return an epsilon of releases that all have discrete Gaussian noise, rounded up.

    Lemma 56 of docs/privacy.md.

    Parameters
    ----------
    rhos : iterable of Fraction
        Rho of each release, as its certificate has it.
    delta : Fraction
        Above 0, unless there is no rho.
    times : int
        For a person with so many times the records that rho is about.

    Returns
    -------
    Fraction or None
        None where a rho is above 1: its noise is too small for the lemma.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is negative, or delta is 0 and a rho is not.
    """
    values = [rho for rho in (checked(rho, "rho") for rho in rhos) if rho]
    delta = checked_delta(delta, sum(values, Fraction(0)))
    if not values or delta >= 1:
        return Fraction(0)
    if max(values) > 1:
        return None
    with rigorous() as balls:
        mass = times**2 * sum(count * _mass(rho, balls) for rho, count in _counted(values))
        near = 10 * times**2 * balls.exp(balls.number(-_CLOSE)) * balls.number(sum(values, Fraction(0)))
        allowed = balls.number(delta) * balls.exp(-near)
        high = Fraction(1)
        while not _curve(mass, high, balls) <= allowed:
            high *= 2
        low, step = Fraction(0), high
        for _ in range(_STEPS):
            step /= 2
            low = low if _curve(mass, low + step, balls) <= allowed else low + step
        return upper_fraction(balls.number(low + step) + 2 * near)


def gaussian_rho_within(epsilon: Fraction, delta: Fraction, releases: int) -> Fraction:
    """Return about the largest rho that so many equal releases with discrete Gaussian noise may share.

    Parameters
    ----------
    epsilon : Fraction
        Above 0, at most 100.
    delta : Fraction
        Above 0 and below 1.
    releases : int
        Each has noise of a rho of at most this part of the sum, and at most 1.

    Returns
    -------
    Fraction
        `gaussian_epsilon_of` such releases is at most epsilon.

    Raises
    ------
    TypeError
        If a number is a float.
    ValueError
        If a number is not in its range.
    """
    epsilon = exact(epsilon, "epsilon")
    if not 0 < epsilon <= 100 or releases < 1:
        raise ValueError("epsilon must be above 0 and at most 100, and there must be at least one release")

    def fits(rho: Fraction) -> bool:
        together = gaussian_epsilon_of([rho / releases] * releases, delta)
        return together is not None and together <= epsilon

    return largest(fits, min(epsilon, Fraction(releases)))


def _counted(values: list[Fraction]) -> list[tuple[Fraction, int]]:
    return [(value, values.count(value)) for value in dict.fromkeys(values)]


def rounding_variance(variance: Fraction, balls: Arithmetic) -> Any:
    """Return a ball of s^2, by which a rounded Gaussian varies less than discrete Gaussian noise.

    Lemma 55 of docs/privacy.md.
    """
    return (_CLOSE + balls.log(balls.number(variance))) / (2 * flint.arb.pi() ** 2)


def _mass(rho: Fraction, balls: Arithmetic) -> Any:
    """Return a ball of m: the squared distance of the Gaussians of one release."""
    r = balls.number(rho)
    return 2 * r / (1 - r * rounding_variance(1 / rho, balls))


def _curve(mass: Any, epsilon: Fraction, balls: Arithmetic) -> Any:
    """Return a ball of the delta of Gaussians at a squared distance."""
    e, root = balls.number(epsilon), mass.sqrt()
    near, far = ((e / root + side * root / 2) / balls.number(2).sqrt() for side in (-1, 1))
    return (near.erfc() - balls.exp(e) * far.erfc()) / 2
