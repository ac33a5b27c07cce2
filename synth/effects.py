"""Effects: what expected counts of many cells have in common, drawn from its posterior given sums of counts.

A public model errs alike in many cells: all homes of an area, or all commutes between two counties. One
factor for each label of a family of labels stands for that; its scale is measured on the same sums. Errors of
single sums are about normal, so that one factor after another is drawn given the others (Gibbs).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["Family", "Sums", "draw_effects", "scaled", "spread_of"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_BURN = 40  # draws that are thrown away
_LEAST = 1e-3  # factor


@dataclass(eq=False)
class Family:
    """Labels of sums, each of which has one factor.

    Attributes
    ----------
    label : ndarray of int64, shape (n_sums,)
    size : int
        Number of labels.
    outside : ndarray of bool, shape (n_sums,)
        Sums of homes outside the region, of which public tables know less. A label has no others beside them.
    scale : ndarray of float64, shape (2,)
        Standard deviation of factors around 1, inside the region and outside; `draw_effects` measures it.
    """

    label: Int64
    size: int
    outside: NDArray[np.bool_]
    scale: Float64 = field(default_factory=lambda: np.full(2, 0.3))

    @cached_property
    def kind(self) -> Int64:
        """1 for each label of homes outside the region, 0 for the others."""
        kind = np.zeros(self.size, np.int64)
        kind[self.label] = self.outside
        return kind


@dataclass(frozen=True, eq=False)
class Sums:
    """Estimates of counts, and what is expected of them.

    Attributes
    ----------
    value, variance, slope : ndarray of float64, shape (n_sums,)
        As `synth.evidence.Evidence.unbiased` gives them.
    expected : ndarray of float64, shape (n_sums,)
        Positive; adds up to n for each owner.
    n : ndarray of float64, shape (n_sums,)
        Jobs of the owner.
    owner : ndarray of int64, shape (n_sums,)
        Whose size is public.
    """

    value: Float64
    variance: Float64
    slope: Float64
    expected: Float64
    n: Float64
    owner: Int64

    def noise(self, mean: Float64) -> Float64:
        """Return the variances of the estimates of counts that are about `mean`."""
        return self.variance + self.slope * mean

    def by(self, label: Int64, expected: Float64) -> Sums:
        """Return sums over labels, each of one owner and rising from 0, of which so much is expected.

        Parameters
        ----------
        label : ndarray of int64, shape (n_sums,)
        expected : ndarray of float64, shape (n_sums,)
        """
        total: Float64 = np.bincount(label, expected).astype(np.float64)
        slope = np.bincount(label, self.slope * expected) / np.maximum(total, 1e-300)
        first = np.flatnonzero(np.append(True, np.diff(label) > 0))
        value: Float64 = np.bincount(label, self.value).astype(np.float64)
        variance: Float64 = np.bincount(label, self.variance).astype(np.float64)
        return Sums(value, variance, slope, total, self.n[first], self.owner[first])


def spread_of(mean: Float64, n: Float64, concentration: float) -> Float64:
    """Return the variances of Dirichlet-multinomial counts."""
    mean = np.maximum(mean, 1e-9)
    return mean * np.maximum(1 - mean / n, 1e-3) * (n + concentration) / (1 + concentration)


def scaled(sums: Sums, families: list[Family], values: list[Float64]) -> Float64:
    """Return expected counts times their factors, adding up to n for each owner again."""
    now = sums.expected.copy()
    for family, value in zip(families, values, strict=True):
        now *= value[family.label]
    return now * (sums.n / np.bincount(sums.owner, now)[sums.owner])


def draw_effects(
    sums: Sums, concentration: float, families: list[Family], draws: int, random: np.random.Generator
) -> list[Float32]:
    """Draw the factors of every family.

    Parameters
    ----------
    sums : Sums
    concentration : float
        Of counts around what is expected of them.
    families : list of Family
        Coarse ones first; their scales are set.
    draws : int
    random : numpy.random.Generator

    Returns
    -------
    list of ndarray of float32, shape (n_draws, family size)
    """
    values = [np.ones(family.size) for family in families]
    result = [np.empty((draws, family.size), np.float32) for family in families]
    for turn in range(-_BURN, draws):
        for family, value in zip(families, values, strict=True):
            now = scaled(sums, families, values)
            spread = spread_of(now, sums.n, concentration) + sums.noise(now)
            base = now / value[family.label]
            known = np.bincount(family.label, base * base / spread, family.size)
            wanted = np.bincount(family.label, base * sums.value / spread, family.size)
            jobs = np.bincount(family.label, base, family.size)
            variance = family.scale[family.kind] ** 2
            prior = 1 / (variance + 1 / np.maximum(jobs, 1.0))
            # Gamma of the same mean and variance: a normal one cut off at 0 would be too large in the mean.
            middle = np.maximum((wanted + prior) / (known + prior), 0.02)
            shape = middle**2 * (known + prior)
            value[:] = np.maximum(random.standard_gamma(shape) * middle / shape, _LEAST)
            if turn < 0:
                weight = known / (known + 1 / variance)
                square = np.bincount(family.kind, weight * (value - 1) ** 2, 2)
                found = np.sqrt(square / np.maximum(np.bincount(family.kind, weight, 2), 1e-9))
                family.scale = np.clip(found, 1e-2, 2.0)
        if turn >= 0:
            for kept, value in zip(result, values, strict=True):
                kept[turn] = value
    return result
