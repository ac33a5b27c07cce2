"""Effects: what expected counts of many cells have in common, drawn from its posterior given sums of counts.

A public model errs alike in many cells: all homes of an area, or all commutes between two counties. One
factor for each label of a family of labels stands for that, and one for each sum by itself. Most factors are
near 1 and a few far from it, so each has one of several variances, how often which is found from the same
sums: a single normal distribution would draw what is far from the model nearer to it than its counts say. A
model may expect too few or too many jobs of nearly all zones far away: factors of one family may have other
means. Sums count like Poisson counts of the same relative variance beside a background that stands for their
noise. Given how many of them are of a factor, it is drawn from a gamma distribution, one after another given
the others (Gibbs), the shared ones without those of single sums; and the sums of an owner add up to its jobs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import find_keys
from synth.posterior._gamma import gamma as _gamma
from synth.posterior._gamma import log_rising as _log_rising

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

# How much public tables know: of homes in the larger area of their workplace (and of homes whatever their
# workplace), in other areas, and outside the region.
SAME, OTHER, OUTSIDE = range(3)
_STRATA = 3
_BURN = 20  # draws that are thrown away
_LEAST = 1e-4  # factor
# Kinds of factors: means, and standard deviations over the mean. Those around 1 vary more where few jobs are
# expected; the others are of homes that the model has far too many jobs of, or too few.
_MEANS = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.1, 0.3, 3.0, 10.0, 30.0])
_SCALES = np.array([0.03, 0.1, 0.3, 0.7, 1.5, 4.0, 0.7, 0.7, 0.7, 0.7, 0.7])
# Labels that each kind counts for beforehand: few labels are no ground to take some of them for nobody.
_PRIOR_LABELS = np.array([0.5, 0.5, 0.5, 0.5, 0.1, 0.02, 0.5, 0.5, 0.5, 0.5, 0.5])
_SIZES = 5  # classes of labels, by what is expected of them: below 1 job, 10, 100, 1,000, and more
_SURE_DEVIATIONS = 3.0  # standard deviations
_FEW = 10.0  # expected jobs below which a label is the farther from them, the fewer they are
_SHARED_LABELS = 5.0  # labels that the chances of all sizes count for in those of one size
_TRIES = 4  # of a quick way to draw one of the variances, before the one that always ends
_NEGLIGIBLE_NOISE = 1e-3  # noise, over the variance of a Poisson count, that is as good as none
_INDEPENDENT_STEPS = 2  # factors that are tried in each turn as if nothing were known of them
_HALF = 1e-7, 6e4  # what a float of 16 bits holds


class _Estimates(NamedTuple):
    """Of sums (`Sums`): where those of each owner begin, and the end; its jobs; what is known of each sum."""

    start: Int64
    n: Float64
    concentration: float
    value: Float32
    variance: Float32
    slope: Float32


class Likelihood(NamedTuple):
    """What sums tell of a factor that is about so large, or of several ones.

    Attributes
    ----------
    precision : float or ndarray of float64
        What sums, weighted by their precision, would be if the factor were 1; and their variance.
    weighted : float or ndarray of float64
        What they are.
    noise : float or ndarray of float64
        The part of the variance that they have whatever the factor is.
    about : float or ndarray of float64
    """

    precision: Any
    weighted: Any
    noise: Any
    about: Any


class _Factors(NamedTuple):
    """Factors of the labels of a family, and what they are drawn from.

    Of each label by what its variance is larger, its class, its factor, and kind and variance of that. By
    class the chances of kinds, added up, and how many labels have which.
    """

    wider: Float32
    size: NDArray[np.uint8]
    value: Float64
    kind: NDArray[np.uint8]
    variance: Float32
    up_to: Float64
    tally: Float64


class Family:
    """Labels of sums, each of which has one factor.

    Parameters
    ----------
    label : ndarray of int, shape (n_sums,)
        Not negative.
    stratum : ndarray of int, shape (n_sums,)
        `SAME`, `OTHER` or `OUTSIDE`: how near factors are to 1 is measured for each. Of all sums of a label.
    far : bool, optional
        Whether factors of most labels may be far from 1 on one side. Of the families of a model one may.
    areas : bool, optional
        Whether labels are of many sums, of a larger area, so that nearly all of those inside have jobs.

    Attributes
    ----------
    label : ndarray of int32, shape (n_sums,)
        In the same order, but numbered from 0 without gaps.
    stratum : ndarray of int64, shape (n_labels,)
    scale : ndarray of float64, shape (n_strata,)
        Standard deviation of factors around 1, by stratum; `draw_effects` measures it.
    chances : list of ndarray of float64, shape (n_strata * sizes, kinds)
        Of the kinds of factors, by what is expected of them, in each draw; `draw_effects` sets them.
    values : list of ndarray of float16, shape (n_labels,)
        The factors in each draw, but for those of single sums; `draw_effects` sets them.
    """

    def __init__(
        self,
        label: NDArray[np.integer],
        stratum: NDArray[Any],
        far: bool = False,
        areas: bool = False,
    ) -> None:
        self._labels, number = np.unique(label, return_inverse=True)
        self.label: Int32 = number.astype(np.int32)
        self.stratum = np.zeros(self._labels.size, np.int64)
        self.stratum[self.label] = stratum
        self.far, self.areas = far, areas
        self.scale: Float64 = np.full(_STRATA, 0.3)
        self.chances: list[Float64] = []
        self.values: list[NDArray[np.float16]] = []

    def factors_of(self, label: Int64, jobs: Float64, stratum: Int64, random: np.random.Generator) -> Float32:
        """Return the factors of labels in each draw: those that sums have were drawn with them."""
        result = self.unknown(jobs, stratum, random)
        if not self.values:
            return result
        number, drawn = find_keys(self._labels, label)
        for row, values in zip(result, self.values, strict=True):
            row[drawn] = values[number[drawn]]
        return result

    def unknown(self, jobs: Float64, stratum: Int64, random: np.random.Generator) -> Float32:
        """Draw factors of labels of which nothing is known, as far from 1 as those that were drawn.

        Shape (n_draws, n_labels); `jobs` are expected of each.
        """
        if not self.chances:
            raise RuntimeError("draw_effects has not drawn the factors of this family yet")
        result = np.empty((len(self.chances), jobs.size), np.float32)
        up_to = np.cumsum(self.chances, axis=2)
        _unknown(_wider(jobs), stratum * _SIZES + _sizes(jobs), up_to, random, result)
        return result


@dataclass(frozen=True, eq=False)
class Sums:
    """Estimates of counts, and what is expected of them.

    Attributes
    ----------
    value, variance, slope : ndarray of float, shape (n_sums,)
        As `synth.posterior.evidence.Evidence.unbiased` gives them.
    expected : ndarray of float64, shape (n_sums,)
        Positive; adds up to n for each owner.
    n : ndarray of float64, shape (n_sums,)
        Jobs of the owner.
    owner : ndarray of int64, shape (n_sums,)
        Whose size is public. Sums of an owner stand together.
    """

    value: NDArray[np.floating]
    variance: NDArray[np.floating]
    slope: NDArray[np.floating]
    expected: Float64
    n: Float64
    owner: Int64

    def noise(self, mean: Float64) -> Float64:
        """Return the variances of the estimates of counts that are about `mean`."""
        return self.variance + self.slope * mean * np.maximum(1 - mean / self.n, 0)

    def times(self, factor: NDArray[np.floating]) -> Float64:
        """Return expected counts times a factor each, adding up to n for each owner again."""
        now = self.expected * factor
        return now * (self.n / np.bincount(self.owner, now)[self.owner])

    def by(self, label: Int64, expected: Float64) -> Sums:
        """Return sums over labels, each of one owner and rising from 0, of which so much is expected."""
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


def product(families: Sequence[Family], values: Sequence[Float64]) -> Float64:
    """Return the product of the factors of every sum, by family and label."""
    result: Float64 = np.ones(families[0].label.size)
    for family, value in zip(families, values, strict=True):
        result *= value[family.label]
    return result


@dataclass(frozen=True, eq=False)
class Effects:
    """Draws of the factors of families.

    Attributes
    ----------
    factor : ndarray of float16, shape (n_draws, n_sums)
        The product of the factors of every sum; those of an owner may all be multiplied by a number.
    last : list of ndarray of float64, shape (n_labels,) each
        The last draw of the factors of each family.
    """

    factor: NDArray[np.float16]
    last: list[Float64]


def draw_effects(
    sums: Sums,
    concentration: float,
    families: Sequence[Family],
    draws: int,
    random: np.random.Generator,
    done: Callable[[int, int], None] = lambda _, __: None,
    burn: int = _BURN,
) -> Effects:
    """Draw the factors of every family.

    Parameters
    ----------
    sums : Sums
    concentration : float
        Of counts around what is expected of them with all factors.
    families : sequence of Family
        Coarse ones first, and last that of single sums, in their order, whose factors are unknown while
        others are drawn. Their scales and chances are set.
    draws : int
    random : numpy.random.Generator
    done : callable, optional
        Told how many turns are done, and how many there are.
    burn : int, optional
        Draws that are thrown away: few are enough where no family shares its sums with another.
    """
    *shared, single = drawn = [_Mixture(sums, family) for family in families]
    first = np.flatnonzero(np.append(True, np.diff(sums.owner) != 0))
    numbers = (np.asarray(values, np.float32) for values in (sums.value, sums.variance, sums.slope))
    start = np.append(first, sums.owner.size)
    estimates = _Estimates(start, sums.n[first], concentration, *numbers)
    # Owners in two runs of about as many sums, side by side, whatever processors there are.
    middle = int(np.searchsorted(start, sums.owner.size / 2))
    runs = list(zip((0, middle), (middle, first.size), random.spawn(2), strict=True))
    factor = np.empty((draws, sums.n.size), np.float16)
    now = sums.times(np.ones(sums.n.size))
    for turn in range(-burn, draws):
        for mixture in shared:
            # Factors of single sums are drawn afterwards: here they are a part of what sums vary by.
            mixture.draw(estimates, now, single.variance, random)
        single.draw_sums(estimates, now, runs, random)
        if turn >= 0:
            factor[turn] = np.clip(now / sums.expected * single.value, *_HALF)
            for mixture in drawn:
                mixture.note()
            for mixture, family in zip(shared, families, strict=False):
                family.values.append(np.clip(mixture.value, *_HALF).astype(np.float16))
        _draw_scales(estimates, now, single.value, random)
        done(turn + burn + 1, draws + burn)
    for mixture in drawn:
        mixture.finish()
    return Effects(factor, [mixture.value for mixture in drawn])


def _sizes(jobs: Float64) -> Int64:
    """Return the class of labels of which so many jobs are expected."""
    size: Int64 = np.floor(np.log10(np.maximum(jobs, 1e-9))).astype(np.int64) + 1
    return np.clip(size, 0, _SIZES - 1)


def _wider(jobs: Float64) -> Float64:
    """Return by what the variances of labels are larger, of which so many jobs are expected."""
    return np.asarray(1 + _FEW / np.maximum(jobs, 0.01))


@_compiled
def _multiply(now, label, ratio):  # type: ignore[no-untyped-def]
    """Multiply what is expected by a number for each label."""
    for i in range(now.size):
        now[i] *= ratio[label[i]]


@_compiled
def _draw_scales(estimates, now, single, random):  # type: ignore[no-untyped-def]
    """Draw the scale of what is expected of each owner, given all of its factors: so that it has n jobs.

    Counts that add up to n are Poisson counts times a scale whose distribution is gamma, of shape n. Given
    the scale, factors of an owner are independent, and they may be drawn side by side.
    """
    for o in range(estimates.n.size):
        total = 0.0
        for i in range(estimates.start[o], estimates.start[o + 1]):
            total += now[i] * single[i]
        scale = _gamma(estimates.n[o], random) / total
        for i in range(estimates.start[o], estimates.start[o + 1]):
            now[i] *= scale


@_compiled
def _weigh(mean, variance, slope, alone):  # type: ignore[no-untyped-def]
    """Return one over the variance of an estimate of a count that is about `mean`, with that of the count.

    As of a Poisson count (`_draw_scales`). `slope` is of both.
    """
    return 1.0 / (alone * mean * mean + variance + max(mean, 1e-9) * slope)


@_compiled
def _about(precision, weighted):  # type: ignore[no-untyped-def]
    """Return about where a factor is: as sums and a prior of variance 1 tell, or what sums are sure of.

    Estimates vary more than Poisson counts, so they count for less. How much they do is looked at there.
    """
    about = max((weighted + 1.0) / (precision + 1.0), 0.02)
    if weighted <= 0.0:
        return about
    return max(about, (weighted - _SURE_DEVIATIONS * math.sqrt(precision)) / max(precision, 1e-300))


@_compiled
def _add_up(estimates, alone, label, now, over, likelihood):  # type: ignore[no-untyped-def]
    """Add up, by label, what sums tell of factors that are about so large; `over` is 1 over the last ones."""
    precision, weighted, noise, about = likelihood
    precision[:] = 0.0
    weighted[:] = 0.0
    noise[:] = 0.0
    for o in range(estimates.n.size):
        wide = (estimates.n[o] + estimates.concentration) / (1.0 + estimates.concentration)
        for i in range(estimates.start[o], estimates.start[o + 1]):
            j = label[i]
            base = now[i] * over[j]
            variance = estimates.variance[i]
            weight = base * _weigh(base * about[j], variance, estimates.slope[i] + wide, alone[i])
            precision[j] += base * weight
            weighted[j] += estimates.value[i] * weight
            noise[j] += weight * weight * variance


@_compiled
def _set_about(likelihood):  # type: ignore[no-untyped-def]
    for j in range(likelihood.about.size):
        likelihood.about[j] = _about(likelihood.precision[j], likelihood.weighted[j])


@_compiled
def _shape(j, wider):  # type: ignore[no-untyped-def]
    """Return the shape of the gamma distribution of factors of a kind."""
    return 1.0 / (_SCALES[j] ** 2 * (wider if _MEANS[j] == 1.0 else 1.0))


@_compiled
def _variance(j, wider):  # type: ignore[no-untyped-def]
    """Return the variance of factors of a kind around 1."""
    return _MEANS[j] ** 2 / _shape(j, wider) + (_MEANS[j] - 1.0) ** 2


@_compiled
def _which(up_to, random):  # type: ignore[no-untyped-def]
    """Draw one of some kinds of factors, whose chances add up to these numbers."""
    u, j = random.random(), 0
    for k in range(up_to.size - 1):
        j += u >= up_to[k]
    return j


@_compiled
def _which_given(x, e, wider, up_to, likely, random):  # type: ignore[no-untyped-def]
    """Draw one of some kinds of factors given a count and its exposure."""
    if x <= 0.0:
        # The likelihood of no count is (1 + e / shape)^-shape, between exp(-e) and 1: it is the probability
        # with which a variance that its chance alone gave is kept.
        for _ in range(_TRIES):
            j = _which(up_to, random)
            u = random.random()
            if u < 1.0 - e * _MEANS[j]:
                return j
            shape = _shape(j, wider)
            if u < math.exp(-shape * math.log1p(e * _MEANS[j] / shape)):
                return j
    best = -np.inf
    for j in range(up_to.size):
        shape = _shape(j, wider)
        value = -(shape + x) * math.log1p(e * _MEANS[j] / shape)
        if x > 0.0:
            value += _log_rising(shape, x) - x * math.log(shape / _MEANS[j])
        likely[j] = value
        best = max(best, value)
    total, before = 0.0, 0.0
    for j in range(up_to.size):
        total += (up_to[j] - before) * math.exp(likely[j] - best)
        before = up_to[j]
        likely[j] = total
    u, j = random.random() * total, 0
    while j < up_to.size - 1 and u >= likely[j]:
        j += 1
    return j


@_compiled
def _draw_one(x, e, wider, up_to, likely, random):  # type: ignore[no-untyped-def]
    """Draw one of some kinds of factors and a factor, given a count and its exposure."""
    j = _which_given(x, e, wider, up_to, likely, random)
    shape = _shape(j, wider)
    return j, max(_gamma(shape + x, random) / (shape / _MEANS[j] + e), _LEAST)


@_compiled
def _draw_next(likelihood, wider, up_to, likely, random, kind, value):  # type: ignore[no-untyped-def]
    """Draw a factor, and its kind, from those of the draw before, given what sums tell of it.

    A sum has the variance of a count, and that of noise. It is taken for a Poisson count of the factor and of
    a background: one of the mean that has the variance of the noise, which is taken off the estimate. So
    where there is but noise a factor may be 0 whatever the noise is; as a count of the factor alone, any
    positive noise would say that it is not, and a negative one would say no more than none.
    """
    precision, weighted, noise, about = likelihood
    of_counts = max(precision - noise, _NEGLIGIBLE_NOISE * precision)  # in proportion to the factor
    ratio = precision * about / of_counts
    x, e, background = weighted * ratio, precision * ratio, noise * ratio * ratio
    if background < _NEGLIGIBLE_NOISE:
        return _draw_one(max(x, 0.0), e, wider, up_to, likely, random)
    x = max(x + background, 0.0)
    # Metropolis steps from the prior: taken where noise hides what sums tell.
    for _ in range(_INDEPENDENT_STEPS):
        j = _which(up_to, random)
        shape = _shape(j, wider)
        other = max(_gamma(shape, random) / shape * _MEANS[j], _LEAST)
        gain = x * math.log((e * other + background) / (e * value + background)) - e * (other - value)
        if gain >= 0.0 or random.random() < math.exp(gain):
            kind, value = j, other
    # Of whole counts those that are of the factor are drawn; what is left of x says whether a draw is taken.
    whole = math.floor(x + 0.5)
    before = e * value + background
    counts = random.binomial(whole, e * value / before) if whole > 0 else 0
    j, other = _draw_one(float(counts), e, wider, up_to, likely, random)
    gain = (x - whole) * math.log((e * other + background) / before)
    if gain >= 0.0 or random.random() < math.exp(gain):
        kind, value = j, other
    return kind, value


@_compiled
def _draw_label(i, likelihood, factors, likely, random):  # type: ignore[no-untyped-def]
    """Draw the variance of a label, and its factor."""
    size, wider = factors.size[i], factors.wider[i]
    j, factors.value[i] = _draw_next(
        likelihood, wider, factors.up_to[size], likely, random, factors.kind[i], factors.value[i]
    )
    factors.kind[i] = j
    factors.tally[size, j] += 1.0
    factors.variance[i] = _variance(j, wider)


@_compiled
def _draw_labels(likelihood, factors, random):  # type: ignore[no-untyped-def]
    """Draw for each label one of its variances, and its factor."""
    likely = np.empty(_SCALES.size)
    precision, weighted, noise, about = likelihood
    for i in range(precision.size):
        of_label = Likelihood(precision[i], weighted[i], noise[i], about[i])
        _draw_label(i, of_label, factors, likely, random)


@_compiled
def _draw_sums(estimates, begin, end, now, counted, factors, random):  # type: ignore[no-untyped-def]
    """Draw the same for the single sums of some owners; noise of those that are `counted` counts as jobs."""
    likely = np.empty(_SCALES.size)
    for o in range(begin, end):
        wide = (estimates.n[o] + estimates.concentration) / (1.0 + estimates.concentration)
        for i in range(estimates.start[o], estimates.start[o + 1]):
            about, last, weight, precision, weighted = factors.value[i], 0.0, 0.0, 0.0, 0.0
            variance, slope = estimates.variance[i], estimates.slope[i] + wide
            for _ in range(2):
                weight = now[i] * _weigh(now[i] * about, variance, slope, 0.0)
                precision, weighted, last = now[i] * weight, estimates.value[i] * weight, about
                about = _about(precision, weighted)
            noise = 0.0 if counted[i] else weight * weight * variance
            _draw_label(i, Likelihood(precision, weighted, noise, last), factors, likely, random)


@_compiled
def _unknown(wider, size, up_to, random, values):  # type: ignore[no-untyped-def]
    """Draw factors of which there are no counts, again and again."""
    for d in range(values.shape[0]):
        for i in range(values.shape[1]):
            j = _which(up_to[d, size[i]], random)
            shape = _shape(j, wider[i])
            values[d, i] = max(_gamma(shape, random) / shape * _MEANS[j], _LEAST)


class _Mixture:
    """Factors of a family: gamma with mean 1, of one of several variances, the chances of which are drawn.

    Most labels are about what is expected of them, a few far from it, and more of those of which little is
    expected: chances are of a size of their own, near those of all sizes.
    """

    def __init__(self, sums: Sums, family: Family) -> None:
        self._family, self.label = family, family.label
        family.chances, family.values = [], []  # of an earlier call: draws of one release are not another's
        self._jobs: Float64 = np.bincount(family.label, sums.expected).astype(np.float64)
        self._size = (family.stratum * _SIZES + _sizes(self._jobs)).astype(np.uint8)
        self._wider = _wider(self._jobs).astype(np.float32)
        # Families of which all may be far from the model would take each other's factors.
        near = int((_MEANS == 1.0).sum())
        kinds = _MEANS.size if family.far else near
        self._may_be = np.ones((_STRATA * _SIZES, kinds))
        if family.areas:
            # Most factors of the widest kind are about 0: products of several would have nobody in areas of
            # which noise hides the jobs. Few jobs come from outside.
            self._may_be[: OUTSIDE * _SIZES, near - 1] = 0.0
        self._chances = _PRIOR_LABELS[:kinds] * self._may_be
        self._chances /= self._chances.sum(axis=1, keepdims=True)
        self.variance = (_SCALES[2] ** 2 * self._wider).astype(np.float32)
        # Jobs from zones outside are spread over places more evenly than kinds of factors have it, which let
        # many places have nobody of a zone where noise hides it: there noise still counts as jobs.
        self._counted = (family.stratum == OUTSIDE) & (not family.far)
        self._kind = np.full(self._jobs.size, 2, np.uint8)
        self.value = np.ones(self._jobs.size)
        self._noted = np.zeros(_STRATA)

    def draw(self, estimates: _Estimates, now: Float64, alone: Float32, random: np.random.Generator) -> None:
        """Draw the factors, given sums of which `now` is expected; change that with them.

        `alone` is the relative variance of each sum by itself.
        """
        before = self.value.copy()
        precision, weighted, noise = np.empty((3, before.size))
        likelihood = Likelihood(precision, weighted, noise, before.copy())
        _add_up(estimates, alone, self.label, now, 1 / before, likelihood)
        _set_about(likelihood)
        _add_up(estimates, alone, self.label, now, 1 / before, likelihood)
        noise[self._counted] = 0.0
        factors = self._factors()
        _draw_labels(likelihood, factors, random)
        _multiply(now, self.label, self.value / before)
        self._draw_chances(factors.tally, random)

    def draw_sums(
        self,
        estimates: _Estimates,
        now: Float64,
        runs: Sequence[tuple[int, int, np.random.Generator]],
        random: np.random.Generator,
    ) -> None:
        """Draw the factors of single sums, runs of owners side by side; `now` is expected without them."""

        def draw(run: tuple[int, int, np.random.Generator]) -> Float64:
            factors = self._factors()
            _draw_sums(estimates, run[0], run[1], now, self._counted, factors, run[2])
            return factors.tally

        with ThreadPoolExecutor(len(runs)) as threads:
            self._draw_chances(np.sum(list(threads.map(draw, runs)), axis=0), random)

    def _factors(self) -> _Factors:
        up_to = np.cumsum(self._chances, axis=1)
        tally = np.zeros(self._chances.shape)
        return _Factors(self._wider, self._size, self.value, self._kind, self.variance, up_to, tally)

    def _draw_chances(self, tally: Float64, random: np.random.Generator) -> None:
        """Draw the chances of the variances, given how many labels of each size have which."""
        for kind in range(_STRATA):
            some = slice(kind * _SIZES, (kind + 1) * _SIZES)
            shared = random.dirichlet(tally[some].sum(axis=0) + _PRIOR_LABELS[: tally.shape[1]])
            self._chances[some] = random.standard_gamma(tally[some] + _SHARED_LABELS * shared + 1e-3)
        self._chances *= self._may_be
        self._chances /= self._chances.sum(axis=1, keepdims=True)

    def note(self) -> None:
        """Remember the variances of this draw, and give the family its chances."""
        self._noted += np.bincount(self._family.stratum, self._jobs * self.variance, _STRATA)
        self._family.chances.append(self._chances.copy())

    def finish(self) -> None:
        """Set the scale of the family: the standard deviation of its factors, by jobs."""
        jobs = np.bincount(self._family.stratum, self._jobs, _STRATA) * len(self._family.chances)
        self._family.scale = np.clip(np.sqrt(self._noted / np.maximum(jobs, 1e-9)), 1e-2, 2.0)
