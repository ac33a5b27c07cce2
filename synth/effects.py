"""Effects: what expected counts of many cells have in common, drawn from its posterior given sums of counts.

A public model errs alike in many cells: all homes of an area, or all commutes between two counties. One
factor for each label of a family of labels stands for that, and one for each sum by itself. Most factors are
near 1 and a few far from it, so each has one of several variances, how often which is found from the same
sums: a single normal distribution would draw what is far from the model nearer to it than its counts say.
Sums count like Poisson counts of the same relative variance, so that one factor after another is drawn from
a gamma distribution given the others (Gibbs), the shared ones without those of single sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled

__all__ = ["Family", "Sums", "draw_effects", "scaled", "spread_of"]

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_BURN = 40  # draws that are thrown away
_LEAST = 1e-4  # factor
_SCALES = np.array([0.03, 0.1, 0.3, 0.7, 1.5, 4.0])  # standard deviations that are tried
_SIZES = 5  # classes of labels, by what is expected of them: below 1 job, 10, 100, 1,000, and more
_SURE = 3.0  # standard deviations
_FEW = 10.0  # expected jobs below which a label is the farther from them, the fewer they are
_PULL = 5.0  # labels that the chances of all sizes count for in those of one size


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
    chances : list of ndarray of float64, shape (2 * sizes, scales)
        Of the variances of factors, by what is expected of them, in each draw; `draw_effects` sets them.
    """

    label: Int64
    size: int
    outside: NDArray[np.bool_]
    scale: Float64 = field(default_factory=lambda: np.full(2, 0.3))
    chances: list[Float64] = field(default_factory=list)

    def unknown(self, jobs: Float64, outside: NDArray[np.bool_], random: np.random.Generator) -> Float32:
        """Draw factors of labels of which nothing is known, as far from 1 as those that were drawn.

        Parameters
        ----------
        jobs : ndarray of float64, shape (n,)
            That are expected.
        outside : ndarray of bool, shape (n,)
        random : numpy.random.Generator

        Returns
        -------
        ndarray of float32, shape (n_draws, n)
        """
        size, variances = outside * _SIZES + _sizes(jobs), _variances(jobs)
        result = np.empty((len(self.chances), jobs.size), np.float32)
        for row, chances in zip(result, self.chances, strict=True):
            up_to = np.cumsum(chances[size], axis=1)
            which = (random.random((jobs.size, 1)) >= up_to[:, :-1]).sum(axis=1)
            shape = 1 / variances[np.arange(jobs.size), which]
            row[:] = np.maximum(random.standard_gamma(shape) / shape, _LEAST)
        return result

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
        Of counts around what is expected of them with all factors.
    families : list of Family
        Coarse ones first, and last that of single sums, whose factors are unknown while others are drawn.
        Their scales are set.
    draws : int
    random : numpy.random.Generator

    Returns
    -------
    list of ndarray of float32, shape (n_draws, family size)
    """
    values = [np.ones(family.size) for family in families]
    result = [np.empty((draws, family.size), np.float32) for family in families]
    mixtures = []
    for family in families:
        jobs: Float64 = np.bincount(family.label, sums.expected, family.size).astype(np.float64)
        mixtures.append(_Mixture(family, jobs))
    *shared, (single, own) = list(zip(families, mixtures, strict=True))
    for turn in range(-_BURN, draws):
        for (family, mixture), value in zip(shared, values, strict=False):
            # Factors of single sums are drawn afterwards: here they are a part of what sums vary by.
            now = scaled(sums, families[:-1], values[:-1])
            alone = own.variance[single.label] * now * now
            value[:] = mixture.draw(*_told(sums, concentration, family, now, value, alone), random)
        now = scaled(sums, families[:-1], values[:-1])
        values[-1][:] = own.draw(
            *_told(sums, concentration, single, now * values[-1][single.label], values[-1], 0.0), random
        )
        if turn >= 0:
            for kept, family, value, mixture in zip(result, families, values, mixtures, strict=True):
                kept[turn] = value
                mixture.note(family)
    for family, mixture in zip(families, mixtures, strict=True):
        family.scale = mixture.scale
    return result


def _told(
    sums: Sums, concentration: float, family: Family, now: Float64, value: Float64, alone: Float64 | float
) -> tuple[Float64, Float64]:
    """Return what sums tell of the factors of a family: like Poisson counts, and those if factors were 1.

    Estimates vary more than Poisson counts, so they count for less. How much they do is looked at about where
    the factors are, as far as sums and a prior of variance 1 tell, or no less than sums are sure of.
    """
    label, size = family.label, family.size
    base = now / value[label]
    spread = spread_of(now, sums.n, concentration) + sums.noise(now) + alone
    known = np.bincount(label, base * base / spread, size)
    wanted = np.bincount(label, base * sums.value / spread, size)
    least = (wanted - _SURE * np.sqrt(known)) / np.maximum(known, 1e-300)
    about = np.maximum(np.maximum((wanted + 1) / (known + 1), least), 0.02)
    alone = alone * (about / value)[label] ** 2
    now = np.minimum(base * about[label], sums.n)
    spread = spread_of(now, sums.n, concentration) + sums.noise(now) + alone
    known = np.bincount(label, base * base / spread, size)
    wanted = np.bincount(label, base * sums.value / spread, size)
    return np.asarray(np.maximum(wanted, 0.0) * about), np.asarray(known * about, np.float64)


def _sizes(jobs: Float64) -> Int64:
    """Return the class of labels of which so many jobs are expected."""
    size: Int64 = np.floor(np.log10(np.maximum(jobs, 1e-9))).astype(np.int64) + 1
    return np.clip(size, 0, _SIZES - 1)


def _variances(jobs: Float64) -> Float64:
    """Return the relative variances of labels of which so many jobs are expected, shape (n, n_scales)."""
    return np.asarray(_SCALES**2 * (1 + _FEW / np.maximum(jobs, 0.01))[:, np.newaxis])


@_compiled
def _draw(counts, exposure, variances, chances, random, which, values):  # type: ignore[no-untyped-def]
    """Draw for each label one of its variances, and its factor."""
    likely = np.empty(variances.shape[1])
    for i in range(counts.size):
        x, e, best = counts[i], exposure[i], -np.inf
        for j in range(likely.size):
            shape = 1.0 / variances[i, j]
            value = -(shape + x) * math.log1p(e / shape)
            if x > 0.0:
                value += math.lgamma(shape + x) - math.lgamma(shape) - x * math.log(shape)
            likely[j] = value
            best = max(best, value)
        total = 0.0
        for j in range(likely.size):
            likely[j] = chances[i, j] * math.exp(likely[j] - best)
            total += likely[j]
        left, chosen = random.random() * total, likely.size - 1
        for j in range(likely.size):
            left -= likely[j]
            if left < 0.0:
                chosen = j
                break
        which[i] = chosen
        shape = 1.0 / variances[i, chosen]
        values[i] = max(random.standard_gamma(shape + x) / (shape + e), _LEAST)


class _Mixture:
    """Factors of a family: gamma with mean 1, of one of several variances, the chances of which are drawn.

    Most labels are about what is expected of them, a few far from it, and more of those of which little is
    expected: chances are of a size of their own, near those of all sizes.
    """

    def __init__(self, family: Family, jobs: Float64) -> None:
        self._kind, self._size = family.kind, family.kind * _SIZES + _sizes(jobs)
        self._jobs = jobs
        self._variances = _variances(jobs)
        self._chances = np.full((2 * _SIZES, _SCALES.size), 1 / _SCALES.size)
        self.variance = self._variances[:, 2].copy()
        self._noted = np.zeros(jobs.size)
        self._times = 0

    def draw(self, counts: Float64, exposure: Float64, random: np.random.Generator) -> Float64:
        """Draw the factors, given counts like Poisson ones and what is expected of them."""
        which, values = np.empty(counts.size, np.int64), np.empty(counts.size)
        _draw(counts, exposure, self._variances, self._chances[self._size], random, which, values)
        found = np.zeros(self._chances.shape)
        np.add.at(found, (self._size, which), 1.0)
        for kind in (0, 1):
            some = slice(kind * _SIZES, (kind + 1) * _SIZES)
            every = random.dirichlet(found[some].sum(axis=0) + 0.5)
            self._chances[some] = random.standard_gamma(found[some] + _PULL * every + 1e-3)
        self._chances /= self._chances.sum(axis=1, keepdims=True)
        self.variance = self._variances[np.arange(which.size), which]
        return values

    def note(self, family: Family) -> None:
        """Remember the variances of this draw, and give the family its chances."""
        self._noted += self.variance
        self._times += 1
        family.chances.append(self._chances.copy())

    @property
    def scale(self) -> Float64:
        """Standard deviation of factors, by jobs, inside the region and outside."""
        jobs = np.bincount(self._kind, self._jobs, 2)
        found = np.bincount(self._kind, self._jobs * self._noted, 2) / np.maximum(jobs, 1e-9) / self._times
        return np.clip(np.sqrt(found), 1e-2, 2.0)
