"""Posteriors of counts with two-sided geometric noise, under a prior that is measured on the counts.

A count is taken to be negative binomial around what is expected in its cell, with kappa P as shape (P is
the cell's share of its group, kappa the concentration): what a Poisson count is whose mean is gamma. Times
the likelihood p^|y - x| of the noise, up to the public size of its group, and tilted by one factor for each
group so that the means of its cells add up to that size, this is the posterior of the count. It costs no
privacy: it sees noisy counts and public numbers only.

All sums run in one fixed order on one thread: the same counts give the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_GRID: list[float] = (2.0 ** np.arange(-1, 15)).tolist()  # concentrations, and
_BEGIN = 10  # the position of that which is tried first
_ANYWHERE = 0.001  # the part of a group's jobs that is expected in all of its cells alike
_SAMPLE = 512  # groups, and
_SAMPLE_CELLS = 400_000  # cells to which a concentration is fitted, at most
_MULTIPLIED = 8  # counts up to which a rising factorial is multiplied out
_NOTHING = 1e-13
_LARGE = 1e200  # weights above are divided by it, with all that they were added to: floats end at 1e308
_AT_ONCE = 128  # cells whose moments a processor computes side by side, with
_SMALL = 4.0  # shapes below this
_LEAST = 1e-9  # prior mean of a cell, of which nobody can be sure that it is empty


class _Moments(NamedTuple):
    """Of a group's counts: shapes, means and variances; and room for the cells that no formula gives."""

    shape: Float64
    mean: Float64
    variance: Float64
    cells: Int64


def posterior(
    noisy: Int64, offsets: Int64, expected: Float64, n: Int64, concentration: float, ratio: float
) -> tuple[Float64, Float64]:
    """Return posterior mean and variance of every count, means adding up to the public size in each group.

    Parameters
    ----------
    noisy : ndarray of int64, shape (n_cells,)
    offsets : ndarray of int64, shape (n_groups + 1,)
    expected : ndarray of float64, shape (n_cells,)
        Prior means; they add up to n in each group.
    n : ndarray of int64, shape (n_groups,)
    concentration, ratio : float
        kappa and p.

    Returns
    -------
    mean, variance : ndarray of float64, shape (n_cells,)
    """
    mean, variance = np.empty_like(expected), np.empty_like(expected)
    _posterior(noisy, offsets, expected, n, concentration, ratio, mean, variance)
    return mean, variance


def least_loss(
    noisy: Int64, offsets: Int64, expected: Float64, n: Int64, concentration: float, ratio: float
) -> Float64:
    """Return whole counts whose expected absolute error is least, groups adding up to their public sizes.

    One job more in a cell of j jobs is right with the posterior probability that the cell has more than j.
    So those n jobs are taken for which this is largest: each cell gets the same quantile of its posterior.

    Parameters and shape are those of `posterior`. Where probabilities are equal, jobs may be given in parts.
    """
    counts = np.empty_like(expected)
    _least_loss(noisy, offsets, expected, n, concentration, ratio, counts)
    return counts


def sampled_groups(n: Int64, cells: int) -> Int64:
    """Return the groups, rising, to which a concentration is fitted: a sample, large ones more often.

    Parameters
    ----------
    n : ndarray of int64, shape (n_groups,)
    cells : int
        Of all groups together.
    """
    most = max(32, min(_SAMPLE, int(_SAMPLE_CELLS * n.size // max(1, cells))))
    if n.size <= most:
        return np.arange(n.size)
    cumulative = np.cumsum(n)
    rank = ((np.arange(most) + 0.5) / most * cumulative[-1]).astype(np.int64)
    return np.unique(np.searchsorted(cumulative, rank, side="right"))


def expect_anywhere(expected: Float64, offsets: Int64, n: Int64) -> Float64:
    """Return what is expected if a small part of each group's jobs may be anywhere.

    What is expected is never quite right, least of all where hardly anybody is expected. Without this even
    three jobs of noise would be likelier there than one that is real.

    Parameters and shape are those of `posterior`.
    """
    result = np.empty_like(expected)
    _expect_anywhere(expected, offsets, n, result)
    return result


def likeliest_concentration(noisy: Int64, offsets: Int64, expected: Float64, n: Int64, ratio: float) -> float:
    """Return the concentration, of a grid, under which the noisy counts of some groups are likeliest.

    The likelihood is climbed up to a peak.
    """
    logs: dict[int, float] = {}
    # Sums go on up to a count. One beyond these is refused where sizes are public
    # (`synth.geometric.noise`); where they are not, it says no more than this.
    noisy = np.minimum(noisy, np.repeat(n + math.ceil(-46 / math.log(ratio)), np.diff(offsets)))

    def log(i: int) -> float:
        if i not in logs:
            logs[i] = _log_likelihood(noisy, offsets, expected, n, _GRID[i], ratio)
        return logs[i]

    best, last = _BEGIN, -1
    while best != last:
        last = best
        best = max((i for i in (last, last - 1, last + 1) if 0 <= i < len(_GRID)), key=log)
    return _GRID[best]


@_compiled
def _expect_anywhere(expected, offsets, n, result):  # type: ignore[no-untyped-def]
    for g in range(n.size):
        anywhere = _ANYWHERE * n[g] / (offsets[g + 1] - offsets[g])
        for c in range(offsets[g], offsets[g + 1]):
            result[c] = (1.0 - _ANYWHERE) * expected[c] + anywhere


@_compiled
def _moments(y, shape, z, p, most):  # type: ignore[no-untyped-def]
    """Return mean and variance of x up to `most` with weights C(shape + x - 1, x) z^x p^|y - x|."""
    y = min(max(y, 0), most)  # others say the same of all x that there can be
    total, first, second = 1.0, 0.0, 0.0  # moments of x - y
    weight, at_y, d = 1.0, 1.0, 0
    while y + d < most:
        weight *= (shape + y + d) / (y + d + 1) * z * p
        d += 1
        total += weight
        first += weight * d
        second += weight * d * d
        if weight * d * d < 1e-10 * total:
            break
        if weight > _LARGE:
            weight, at_y = weight / _LARGE, at_y / _LARGE
            total, first, second = total / _LARGE, first / _LARGE, second / _LARGE
    weight, d = at_y, 0
    while d < y:
        weight *= (y - d) / (max(shape + y - d - 1, 1e-300) * z) * p
        d += 1
        total += weight
        first -= weight * d
        second += weight * d * d
        if weight > _LARGE:
            weight /= _LARGE
            total, first, second = total / _LARGE, first / _LARGE, second / _LARGE
        # Going down, weights may fall and rise again towards 0 only while this factor is above 1.
        if weight * d * d < 1e-10 * total and (y - d) * p < (shape + y - d - 1) * z:
            break
    mean = first / total
    return y + mean, max(second / total - mean * mean, 0.0)


@_compiled
def _moments_of_ones(cells, shape, z, p, most, mean, variance):  # type: ignore[no-untyped-def]
    """Fill in what `_moments` returns of cells with y = 1, bit for bit, of many at a time.

    For shapes below `_SMALL`, of which no weight is large.
    """
    base, weight, goes_on = np.empty(_AT_ONCE), np.empty(_AT_ONCE), np.empty(_AT_ONCE, np.int64)
    total, first, second = np.empty(_AT_ONCE), np.empty(_AT_ONCE), np.empty(_AT_ONCE)
    for begin in range(0, cells.size, _AT_ONCE):
        size = min(_AT_ONCE, cells.size - begin)
        for i in range(size):
            base[i] = shape[cells[begin + i]] + 1
            weight[i], goes_on[i], total[i], first[i], second[i] = 1.0, 1, 1.0, 0.0, 0.0
        d, some = 0.0, 1
        while some and 1.0 + d < most:
            some, d = 0, d + 1.0
            for i in range(size):
                weight[i] *= (base[i] + (d - 1.0)) / (d + 1.0) * z * p
                more = weight[i] if goes_on[i] else 0.0
                total[i] += more
                first[i] += more * d
                second[i] += more * d * d
                goes_on[i] &= not weight[i] * d * d < 1e-10 * total[i]
                some |= goes_on[i]
        for i in range(size):
            down = 1 / (max(base[i] - 1, 1e-300) * z) * p
            of_all = total[i] + down
            step = (first[i] - down) / of_all
            mean[cells[begin + i]] = 1 + step
            variance[cells[begin + i]] = max((second[i] + down) / of_all - step * step, 0.0)


@_compiled
def _tilted(noisy, expected, n, concentration, p, moments):  # type: ignore[no-untyped-def]
    """Fill in moments of a group's counts, tilted so that means add up to n; return odds and sum."""
    shape, mean, variance, some = moments
    # A negative binomial of mean mu and shape kappa mu / n has the odds n / (n + kappa) in all cells.
    odds = n / (n + concentration)
    high, low = -math.log(odds * p) + min(30.0, 500.0 / n), -60.0  # no more than floats hold
    tilt = min(0.0, -math.log(odds * p) / 2)
    ones, others = 0, some.size  # from both ends of `some`
    for c in range(noisy.size):
        shape[c] = concentration * max(expected[c], _LEAST) / n
        if noisy[c] == 1 and shape[c] < _SMALL:
            some[ones] = c
            ones += 1
        elif noisy[c] > 0:
            others -= 1
            some[others] = c
    z, total = 0.0, 0.0
    for turn in range(61):
        z = odds * math.exp(tilt)
        if (z * p) ** n < _NOTHING:  # nothing is lost if counts may be as large as they like
            rest = 1.0 - z * p
            for c in range(noisy.size):
                mean[c] = shape[c] * (z * p) / rest
                variance[c] = mean[c] / rest
            _moments_of_ones(some[:ones], shape, z, p, n, mean, variance)
            for c in some[others:]:
                mean[c], variance[c] = _moments(noisy[c], shape[c], z, p, n)
        else:
            for c in range(noisy.size):
                mean[c], variance[c] = _moments(noisy[c], shape[c], z, p, n)
        total, spread = 0.0, 0.0
        for c in range(noisy.size):
            total += mean[c]
            spread += variance[c]
        if turn == 60 or abs(total - n) <= 1e-7 * n:
            break
        if total > n:
            high = tilt
        else:
            low = tilt
        step = tilt + (n - total) / max(spread, 1e-12)
        tilt = step if low < step < high else (low + high) / 2
    return z, total


@_compiled
def _posterior(noisy, offsets, expected, n, concentration, p, mean, variance):  # type: ignore[no-untyped-def]
    most = np.diff(offsets).max()
    shape, some = np.empty(most), np.empty(most, np.int64)
    for g in range(n.size):
        cells = slice(offsets[g], offsets[g + 1])
        _, total = _tilted(
            noisy[cells], expected[cells], n[g], concentration, p,
            _Moments(shape, mean[cells], variance[cells], some),
        )  # fmt: skip
        for c in range(offsets[g], offsets[g + 1]):
            mean[c] *= n[g] / total


@_compiled
def _quantile(y, shape, z, p, most, mean, level, weights):  # type: ignore[no-untyped-def]
    """Return how many j there are such that more than j has at least this posterior probability."""
    if mean < level:  # Markov's inequality
        return 0
    y = min(max(y, 0), most)
    total, weight, at_y, above = 1.0, 1.0, 1.0, 0
    weights[0] = 1.0
    while above + 1 < weights.size and y + above < most and (weight >= 1e-12 * total or above < mean - y):
        weight *= (shape + y + above) / (y + above + 1) * z * p
        above += 1
        weights[above] = weight
        total += weight
        if weight > _LARGE:
            weight, at_y, total = weight / _LARGE, at_y / _LARGE, total / _LARGE
            weights[: above + 1] /= _LARGE
    below, weight = 0.0, at_y
    for d in range(y):
        weight *= (y - d) / (max(shape + y - d - 1, 1e-300) * z) * p
        below += weight
        if weight > _LARGE:
            weight, at_y = weight / _LARGE, at_y / _LARGE
            below, total = below / _LARGE, total / _LARGE
            weights[: above + 1] /= _LARGE
        if weight < 1e-12 * (total + below) and (y - d) * p < (shape + y - d - 1) * z:
            break
    total += below
    tail = 0.0
    for d in range(above, -1, -1):
        tail += weights[d]
        if tail >= level * total:
            return y + d
    weight = at_y
    for d in range(y):
        weight *= (y - d) / (max(shape + y - d - 1, 1e-300) * z) * p
        tail += weight
        if tail >= level * total:
            return y - d - 1
    return 0


@_compiled
def _least_loss(noisy, offsets, expected, n, concentration, p, counts):  # type: ignore[no-untyped-def]
    most = np.diff(offsets).max()
    shapes, some, mean, variance = np.empty(most), np.empty(most, np.int64), np.empty(most), np.empty(most)
    weights = np.empty(2**16)
    for g in range(n.size):
        first, cells = offsets[g], slice(offsets[g], offsets[g + 1])
        k = offsets[g + 1] - first
        z, sum_of_means = _tilted(
            noisy[cells], expected[cells], n[g], concentration, p,
            _Moments(shapes, mean[:k], variance[:k], some),
        )  # fmt: skip
        for i in range(k):
            mean[i] *= n[g] / sum_of_means
        # As many at `high` or fewer, and more at `low`.
        low, high, total = 0.0, 1.0, 0.0
        level = 0.5
        for _ in range(40):
            total = 0.0
            for c in range(offsets[g], offsets[g + 1]):
                counts[c] = _quantile(
                    noisy[c], shapes[c - first], z, p, n[g], mean[c - first], level, weights
                )
                total += counts[c]
            if total == n[g]:
                break
            if total > n[g]:
                low = level
            else:
                high = level
            level = (low + high) / 2
        if total != n[g]:
            # Those at the level are equal: each gets its part.
            over, under = 0.0, 0.0
            for c in range(offsets[g], offsets[g + 1]):
                counts[c] = _quantile(noisy[c], shapes[c - first], z, p, n[g], mean[c - first], high, weights)
                under += counts[c]
                over += _quantile(noisy[c], shapes[c - first], z, p, n[g], mean[c - first], low, weights)
            part = (n[g] - under) / max(over - under, 1.0)
            for c in range(offsets[g], offsets[g + 1]):
                more = (
                    _quantile(noisy[c], shapes[c - first], z, p, n[g], mean[c - first], low, weights)
                    - counts[c]
                )
                counts[c] += part * more


@_compiled
def _log_likelihood(noisy, offsets, expected, n, concentration, p):  # type: ignore[no-untyped-def]
    """Return the log-likelihood of noisy counts, but for what no concentration changes."""
    result = 0.0
    for g in range(n.size):
        z = n[g] / (n[g] + concentration)
        log_z, log_rest, log_none = math.log(z), math.log(1.0 - z), math.log(1.0 - z * p)
        for c in range(offsets[g], offsets[g + 1]):
            shape = concentration * max(expected[c], _LEAST) / n[g]
            y = noisy[c]
            if y <= 0:
                result += shape * (log_rest - log_none)
                continue
            total, weight, at_y, d = 1.0, 1.0, 1.0, 0
            divided = 0
            while weight * (d + 1) >= 1e-10 * total:
                weight *= (shape + y + d) / (y + d + 1) * z * p
                d += 1
                total += weight
                if weight > _LARGE:
                    weight, at_y, total = weight / _LARGE, at_y / _LARGE, total / _LARGE
                    divided += 1
            weight, d = at_y, 0
            while d < y:
                weight *= (y - d) / (max(shape + y - d - 1, 1e-300) * z) * p
                d += 1
                total += weight
                if weight > _LARGE:
                    weight, total = weight / _LARGE, total / _LARGE
                    divided += 1
                if weight * d < 1e-10 * total and (y - d) * p < (shape + y - d - 1) * z:
                    break
            if y <= _MULTIPLIED:
                for x in range(y):
                    total *= shape + x
            else:
                result += math.lgamma(shape + y) - math.lgamma(shape)
            result += shape * log_rest + y * log_z + math.log(total)
            if divided:
                result += divided * math.log(_LARGE)
    return result
