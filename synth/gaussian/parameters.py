"""The numbers of discrete Gaussian noise: in a plan, and in its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synth.gaussian.noise import (
    LEAST_VARIANCE,
    check_variance,
    fits,
    gaussian_limit,
    gaussian_noise,
    rare_gaussian_residuals,
    rare_gaussian_zeros,
)
from synth.mechanism import ClassGuarantee
from synth.noise import Law, Noise
from synth.randomness import WordStream
from synth.rationals import decimal_down

Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class GaussianParameters(Noise):
    """The calibrated numbers of a plan: sigma^2 of each measured table, as a ratio of integers.

    P(noise = z) is proportional to e^(-z^2/(2 sigma^2)). From sigma^2 = 1 on, this is the variance but for a
    part of 10^-6; below, the variance is smaller.
    """

    def __repr__(self) -> str:
        numbers = ", ".join(decimal_down(ratio, 6) for ratio in self.ratios)
        return f"<GaussianParameters: sigma^2 {numbers}; rounded down, the attributes are exact>"

    @property
    def law(self) -> Law:
        """The law of the first table, in floats."""
        rate = self.denominator / self.numerator
        return Law(math.exp(-rate / 2), math.exp(-rate))

    @property
    def rho(self) -> Fraction:
        """Of the first table, for another home of one job: it changes two counts by one."""
        return 1 / self.ratio

    @classmethod
    def of_rho(cls, rho: Fraction) -> GaussianParameters:
        """Return the least noise of at most this rho that the sampler has numbers for."""
        wanted = max(1 / rho, LEAST_VARIANCE)
        for bits in range(40, -1, -1):
            numerator = math.ceil(wanted * 2**bits)
            if fits(numerator, 2**bits):
                return cls(numerator, 2**bits)
        raise ValueError("the noise is larger than the sampler is made for")

    @classmethod
    def of_variance(cls, variance: float) -> GaussianParameters:
        """Return numbers of noise of about a variance, above 0: for estimates."""
        return cls.of_rho(1 / Fraction(variance))

    @classmethod
    def least(cls) -> GaussianParameters:
        """Return noise that is 0 but once in 2^91 counts."""
        return cls(*LEAST_VARIANCE.as_integer_ratio())

    def check(self) -> None:
        """Check that noise of sigma^2 can be drawn (`check_variance`)."""
        check_variance(self.numerator, self.denominator)

    def draw(self, size: int, stream: WordStream) -> Int64:
        """Draw independent noise of the first table, exactly (`gaussian_noise`)."""
        return gaussian_noise(size, self.numerator, self.denominator, stream)

    def limit(self) -> int:
        """Return `gaussian_limit`."""
        return gaussian_limit(self.ratio)

    def rare_residuals(self, cells: Int64, residuals: Int64) -> bool:
        """Say what `rare_gaussian_residuals` says."""
        return rare_gaussian_residuals(self.ratio, cells, residuals)

    def rare_zeros(self, cells: Int64, zeros: int) -> bool:
        """Say what `rare_gaussian_zeros` says."""
        return rare_gaussian_zeros(self.ratio, cells, zeros)


@dataclass(frozen=True, repr=False)
class GaussianClass(ClassGuarantee):
    """The guarantee of the counts of one measured table.

    Attributes
    ----------
    sigma_squared, rho : Fraction
        Of its noise; and what this table adds to the rho of neighbours that differ in it, 0 if none do.
    """

    of_all_records: ClassVar[bool] = True
    sigma_squared: Fraction
    rho: Fraction

    @property
    def numbers(self) -> dict[str, tuple[Fraction, ...]]:
        """The parameter of the noise, and rho."""
        return {"sigma_squared": (self.sigma_squared,), "rho": (self.rho,)}
