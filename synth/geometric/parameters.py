"""The numbers of two-sided geometric noise: in a plan, and in its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synth.geometric.noise import (
    added_noise,
    check_ratio,
    noise_limit,
    rare_residuals,
    rare_zeros,
    refined_noise,
    two_sided_noise,
)
from synth.mechanism import ClassGuarantee
from synth.noise import Law, Noise
from synth.randomness import WordStream
from synth.rationals import decimal_down

Int64 = NDArray[np.int64]


class GeometricParameters(Noise):
    """The calibrated numbers of a plan: p of each measured table, as a ratio of integers.

    0 < numerator < denominator, and P(noise = z) is proportional to (numerator / denominator)^|z|.
    """

    def __repr__(self) -> str:
        ratios = ", ".join(decimal_down(ratio, 6) for ratio in self.ratios)
        return f"<GeometricParameters: ratios {ratios}; rounded down, the attributes are exact>"

    @property
    def law(self) -> Law:
        """The law of the first table, in floats."""
        return Law(float(self.ratio))

    @classmethod
    def of_variance(cls, variance: float) -> GeometricParameters:
        """Return numbers of noise of about a variance, above 0: for estimates."""
        half = 1 + 1 / variance  # of p + 1 / p
        ratio = 1 / (half + math.sqrt(half**2 - 1))
        return cls(min(max(1, int(ratio * 2**40)), 2**40 - 1), 2**40)

    @classmethod
    def least(cls) -> GeometricParameters:
        """Return noise that is 0 but once in 2^59 counts."""
        return cls(1, 2**60)

    def check(self) -> None:
        """Check that noise of p can be drawn, and ends (`check_ratio`)."""
        check_ratio(self.numerator, self.denominator)

    def draw(self, size: int, stream: WordStream) -> Int64:
        """Draw independent noise of the first table, exactly (`two_sided_noise`)."""
        return two_sided_noise(size, self.numerator, self.denominator, stream)

    def draw_added(self, stronger: Noise, size: int, stream: WordStream) -> Int64:
        """Draw what makes a stronger release's noise of the first table this one (`added_noise`)."""
        return added_noise(size, stronger.ratio, self.ratio, stream)

    def draw_refined(self, noise: Int64, weaker: Noise, stream: WordStream) -> Int64:
        """Draw noise of the first table, given that of a weaker release (`refined_noise`)."""
        return refined_noise(noise, self.ratio, weaker.ratio, stream)

    def limit(self) -> int:
        """Return `noise_limit`."""
        return noise_limit(self.ratio)

    def rare_residuals(self, cells: Int64, residuals: Int64) -> bool:
        """Say what `synth.geometric.noise.rare_residuals` says."""
        return rare_residuals(self.ratio, cells, residuals)

    def rare_zeros(self, cells: Int64, zeros: int) -> bool:
        """Say what `synth.geometric.noise.rare_zeros` says."""
        return rare_zeros(self.ratio, cells, zeros)


@dataclass(frozen=True, repr=False)
class GeometricClass(ClassGuarantee):
    """The guarantee of the counts of one measured table.

    Attributes
    ----------
    ratio : Fraction
        p.
    """

    of_all_records: ClassVar[bool] = True
    ratio: Fraction

    @property
    def numbers(self) -> dict[str, tuple[Fraction, ...]]:
        """The ratio of neighbouring probabilities of the noise."""
        return {"ratio": (self.ratio,)}

    @property
    def losses(self) -> dict[str, Fraction]:
        """All of epsilon is spent on noise; nothing, where no neighbours are in different cells."""
        return {"noise_loss": self.epsilon}
