"""The numbers of two-sided geometric noise: in a plan, and in its guarantee."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import Any, ClassVar

from synth.mechanism import ClassGuarantee
from synth.rationals import decimal_down


@dataclass(frozen=True)
class GeometricParameters:
    """The calibrated numbers of a plan: p of each measured table, as a ratio of integers.

    Attributes
    ----------
    numerator, denominator : int
        0 < numerator < denominator; P(noise = z) is proportional to (numerator / denominator)^|z|.
    secondary : tuple of GeometricParameters
        The same of secondary tables (`Plan.secondary`), in their order.
    """

    numerator: int
    denominator: int
    secondary: tuple[GeometricParameters, ...] = ()

    def __repr__(self) -> str:
        ratios = ", ".join(decimal_down(ratio, 6) for ratio in self.ratios)
        return f"<GeometricParameters: ratios {ratios}; rounded down, the attributes are exact>"

    @property
    def ratio(self) -> Fraction:
        """The ratio p, of the first table."""
        return Fraction(self.numerator, self.denominator)

    @property
    def ratios(self) -> tuple[Fraction, ...]:
        """The ratio p of every table."""
        return (self.ratio, *(table.ratio for table in self.secondary))

    @property
    def variance(self) -> float:
        """The variance of the noise of the first table, 2 p / (1 - p)^2."""
        return float(2 * self.ratio / (1 - self.ratio) ** 2)

    @classmethod
    def of_variance(cls, variance: float) -> GeometricParameters:
        """Return numbers of noise of about a variance, above 0: for estimates."""
        half = 1 + 1 / variance  # of p + 1 / p
        ratio = 1 / (half + math.sqrt(half**2 - 1))
        return cls(min(max(1, int(ratio * 2**40)), 2**40 - 1), 2**40)

    def to_json(self) -> dict[str, Any]:
        """Return integers only; of one table as before there could be several."""
        first = {"numerator": self.numerator, "denominator": self.denominator}
        secondary = [table.to_json() for table in self.secondary]
        return {**first, "secondary": secondary} if secondary else first

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GeometricParameters:
        """Read what `to_json` returned; a float is a TypeError."""
        secondary = tuple(cls.from_json(table) for table in data.get("secondary", ()))
        if any(table.secondary for table in secondary):
            raise ValueError("a secondary table cannot have secondary tables")
        return cls(index(data["numerator"]), index(data["denominator"]), secondary)


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
