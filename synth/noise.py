"""The noise of the cells of a measured table: what every law of it offers, exactly and in floats.

There are two laws: two-sided geometric noise (`synth.geometric`) and discrete Gaussian noise
(`synth.gaussian`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from synth.randomness import WordStream
from synth.tails import rigorous

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

RARE_BITS = 64
"""What is called rare has a probability below 2^-64."""

_ODDS = 2.0 ** np.arange(1, 65)  # v of Lemma 42 that are tried
_NEGLIGIBLE = 92.0  # logarithm of odds: sums that leave out what is less likely are right to the last digit


class Law(NamedTuple):
    """How likely noise is, in floats: |z| + 1, of either sign, is first fall^|z| times as likely as |z|.

    Attributes
    ----------
    first : float
        In (0, 1).
    fall : float
        1 for two-sided geometric noise, first^2 for discrete Gaussian noise.
    """

    first: float
    fall: float = 1.0

    def beyond(self, log_odds: float) -> int:
        """Return the least |z| that is no likelier than e^-log_odds times 0."""
        bend = -math.log(self.fall) / 2
        slope = -math.log(self.first) - bend
        if bend == 0:
            return math.ceil(log_odds / slope)
        return math.ceil((math.sqrt(slope * slope + 4 * bend * log_odds) - slope) / (2 * bend))

    def chances(self) -> Float64:
        """Return the probabilities of 0, 1, 2 and so on, as far as they are not negligible."""
        far = np.arange(self.beyond(_NEGLIGIBLE) + 1.0)
        weights = np.exp(far * math.log(self.first) + far * (far - 1) / 2 * math.log(self.fall))
        chances: Float64 = weights / (2 * weights.sum() - 1)
        return chances

    def reach(self, rare: float) -> int:
        """Return how far noise is, but for a probability of at most `rare`."""
        p = self.first
        if self.fall == 1:
            beyond = math.log(rare * (1 + p) / 2) / math.log(p)  # 2 p^d / (1 + p) is that of d or more
            return max(0, math.ceil(beyond) - 1)
        tails = 2 * np.cumsum(self.chances()[::-1])[::-1]  # of d or more
        return int(np.count_nonzero(tails[1:] > rare))

    @property
    def cumulants(self) -> tuple[float, float]:
        """The second, which is the variance, and the fourth."""
        p = self.first
        if self.fall == 1:  # twice those of a geometric variable
            return 2 * p / (1 - p) ** 2, 2 * p * (1 + 4 * p + p * p) / (1 - p) ** 4
        chances = self.chances()
        squares = np.arange(float(chances.size)) ** 2
        variance = 2 * float(chances @ squares)
        return variance, 2 * float(chances @ squares**2) - 3 * variance**2

    @property
    def variance(self) -> float:
        """Of the noise of one cell."""
        return self.cumulants[0]

    @property
    def mean_above(self) -> float:
        """The mean of noise where what is below 0 counts as none."""
        p = self.first
        if self.fall == 1:
            return p / (1 - p * p)
        chances = self.chances()
        return float(chances @ np.arange(float(chances.size)))

    def likelier(self, noise: Int64) -> Float64:
        """Return how much likelier noise is that is one less."""
        up = 1 / (self.first * self.fall ** np.maximum(noise - 1.0, 0.0))
        return np.where(noise > 0, up, self.first * self.fall ** np.maximum(-noise, 0.0))


@dataclass(frozen=True)
class Noise(ABC):
    """The exact number of the noise of each measured table of a plan, as a ratio of integers.

    Attributes
    ----------
    numerator, denominator : int
        Of the first table. What the ratio says is said by the class.
    secondary : tuple of Noise
        The same of secondary tables (`Plan.secondary`), in their order.
    """

    numerator: int
    denominator: int
    secondary: tuple[Self, ...] = ()

    @property
    def ratio(self) -> Fraction:
        """The number of the first table."""
        return Fraction(self.numerator, self.denominator)

    @property
    def ratios(self) -> tuple[Fraction, ...]:
        """The number of every table."""
        return (self.ratio, *(table.ratio for table in self.secondary))

    @property
    def variance(self) -> float:
        """The variance of the noise of the first table."""
        return self.law.variance

    @property
    @abstractmethod
    def law(self) -> Law:
        """The law of the first table, in floats."""

    @classmethod
    @abstractmethod
    def of_variance(cls, variance: float) -> Self:
        """Return numbers of noise of about a variance, above 0: for estimates."""

    @classmethod
    @abstractmethod
    def least(cls) -> Self:
        """Return noise that is 0 but once in 2^59 counts, or in more."""

    @abstractmethod
    def check(self) -> None:
        """Check that the noise of the first table can be drawn; if not, a ValueError says why."""

    @abstractmethod
    def draw(self, size: int, stream: WordStream) -> Int64:
        """Draw independent noise of the first table, exactly."""

    def draw_added(self, stronger: Noise, size: int, stream: WordStream) -> Int64:
        """Draw what makes noise of the first table of a stronger release noise of this one, exactly.

        Only of a mechanism that has "tiers" (`Mechanism.settings`).
        """
        raise NotImplementedError("noise of this law is no noise of the same law with more added to it")

    def draw_refined(self, noise: Int64, weaker: Noise, stream: WordStream) -> Int64:
        """Draw noise of the first table, given what it became with what `weaker` noise added to it, exactly.

        The noise is **confidential**. Only of a mechanism that has "tiers" (`Mechanism.settings`).
        """
        raise NotImplementedError("noise of this law is no noise of the same law with more added to it")

    @abstractmethod
    def limit(self) -> int:
        """Return how far above the size of its group, or below 0, a noisy count may be.

        One that is farther is rare: noise gives it with a probability below 2^-64.
        """

    @abstractmethod
    def rare_residuals(self, cells: Int64, residuals: Int64) -> bool:
        """Say whether the noise of a group hardly adds up to its residual, for any of some groups.

        Parameters
        ----------
        cells, residuals : ndarray of int64, shape (n_groups,)
            Number of cells of each group, and the sum of its noisy counts less its size.
        """

    @abstractmethod
    def rare_zeros(self, cells: Int64, zeros: int) -> bool:
        """Say whether noise hardly lets so many of some groups add up to exactly their sizes.

        Parameters
        ----------
        cells : ndarray of int64, shape (n_groups,)
            Number of cells of each group.
        zeros : int
            How many of the groups have the residual 0.
        """

    def to_json(self) -> dict[str, Any]:
        """Return integers only; of one table as before there could be several."""
        first = {"numerator": self.numerator, "denominator": self.denominator}
        secondary = [table.to_json() for table in self.secondary]
        return {**first, "secondary": secondary} if secondary else first

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read what `to_json` returned; a float is a TypeError."""
        secondary = tuple(cls.from_json(table) for table in data.get("secondary", ()))
        if any(table.secondary for table in secondary):
            raise ValueError("a secondary table cannot have secondary tables")
        return cls(index(data["numerator"]), index(data["denominator"]), secondary)


def log_chance_of_zeros(waves: tuple[Any, Any, Any], cells: Int64, zeros: int) -> Any:
    """Return a ball with an upper bound of the logarithm of how likely so many groups have the residual 0.

    Lemma 42 of docs/privacy.md.

    Parameters
    ----------
    waves : tuple of ball
        E cos(j pi z/3) of the noise of a cell, j = 1, 2 and 3, at least.
    cells : ndarray of int64, shape (n_groups,)
        Number of cells of each group.
    zeros : int
        How many of the groups have the residual 0.
    """
    sizes, groups = np.unique(cells, return_counts=True)
    sixth, third, half = waves
    with rigorous() as balls:
        zero = [(1 + 2 * sixth**k + 2 * third**k + half**k) / 6 for k in sizes.tolist()]
        roughly = np.array([*map(float, zero)])
        tried = [groups @ np.log1p(roughly * (v - 1)) - zeros * math.log(v) for v in _ODDS]
        v = balls.number(int(_ODDS[np.argmin(tried)]))
        logs = (int(n) * balls.log(1 + b * (v - 1)) for n, b in zip(groups, zero, strict=True))
        return sum(logs, -zeros * balls.log(v))


def is_rare(log_bound: Any) -> bool:
    """Say whether a probability is below 2^-64, by a ball with an upper bound of its logarithm."""
    with rigorous() as balls:
        return bool(log_bound < -RARE_BITS * balls.log(balls.number(2)))
