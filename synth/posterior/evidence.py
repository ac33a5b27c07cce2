"""Evidence of confidential counts, and whole counts of a group's cells drawn from their posterior given it.

A count x is negative binomial a priori, with odds z: what a Poisson count is whose mean is gamma. What was
published of its cell has a likelihood:

- a noisy count y, with p^|y - x| (two-sided geometric noise) or e^(c (y - x)^2) (discrete Gaussian noise);
- d draws from an urn with the prior a, with Gamma(x + a + d) / Gamma(x + a). A cell that may have been pruned
  was in the urn with the probability of its retention where it has no jobs.

All are products over cells but for the sum, the size of the group, which is public. So the distribution of
sums of the first cells is found cell by cell, and counts are drawn backwards from the last one: exactly, but
for what floats and windows of eight standard deviations leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.geometric.measured import MeasuredTable
from synth.noise import Law
from synth.plan import Table

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

GEOMETRIC, URN, GAUSSIAN = 0, 1, 2

_STEP = 0.01  # between logarithms of variances
_TINY = 1e-11  # part of a count's posterior that may be left out at either end
_DEVIATIONS = 8.0
_LARGEST = 300.0  # logarithm of odds: floats end beyond its double
_LARGE_VARIANCE = 16.0  # of a sum, beyond which counts are drawn independently


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was published of the counts of a table's cells.

    There are tens of millions of cells, but few kinds of them.

    Attributes
    ----------
    kind : int
        `GEOMETRIC`, `URN` or `GAUSSIAN`.
    seen : ndarray of int, shape (n_cells,)
        Noisy counts, or draws.
    which : ndarray of int, shape (n_cells,)
        The kind of each cell, from 0.
    parameter : ndarray of float64, shape (n_kinds,)
        p, the prior a of the urn, or c.
    keep : ndarray of float64, shape (n_kinds,)
        Retention: the probability that a cell without jobs was in the urn.
    """

    kind: int
    seen: NDArray[np.integer]
    which: NDArray[np.integer]
    parameter: Float64
    keep: Float64

    @classmethod
    def noise(cls, table: MeasuredTable, noisy: NDArray[Any]) -> Evidence:
        """Return that of noisy counts, shape (n_cells,).

        Of those with a variance of their own the whole numbers next to them, as if of Gaussian noise.
        """
        if table.variances is not None:
            # Kinds are variances a hundredth apart; what rounding adds is uniform.
            steps = np.rint(np.log(table.variances + 1 / 12) / _STEP)
            kinds, which = np.unique(steps, return_inverse=True)
            kind_of_cell = which.astype(np.min_scalar_type(kinds.size))
            parameter = parameter_of_variance(GAUSSIAN, np.exp(kinds * _STEP))
            seen = np.rint(noisy).astype(np.int64)
            return cls(GAUSSIAN, seen, kind_of_cell, parameter, np.ones(kinds.size))
        first, fall = table.law
        kind, number = (GEOMETRIC, first) if fall == 1 else (GAUSSIAN, math.log(first))
        return cls(kind, noisy, np.zeros(noisy.size, np.uint8), np.array([number]), np.ones(1))

    def of(self, cells: slice | Int64) -> tuple[Int64, Float64, Float64]:
        """Return what was seen of some cells, their parameter, and their retention."""
        which = self.which[cells]
        return self.seen[cells].astype(np.int64), self.parameter[which], self.keep[which]

    @cached_property
    def _variance(self) -> Float64:
        """The variance of noise of each kind."""
        return np.array([noise_like(self.kind, number).variance for number in self.parameter.tolist()])

    def unbiased(
        self, table: Table, groups: NDArray[np.integer] | None = None
    ) -> tuple[Float64, Float64, Float64]:
        """Return unbiased estimates of the counts, and the constant part of their variances and a job's.

        Parameters
        ----------
        table : Table
        groups : ndarray of int, shape (n_groups,), optional
            Of the table, with as many cells each. By default all cells of noisy counts, in a row.

        Returns
        -------
        value, variance, slope : ndarray of float64, shape (n_groups, n_cells), or (n_cells,) of all
            An estimate of a count that is about x, of n jobs, has the variance `variance` + x (1 - x/n)
            `slope`, about. An urn of one job says where that is nearly surely: it has next to no slope.
        """
        cells: slice | Int64 = slice(None)
        if groups is not None:
            cells = table.offsets[groups][:, np.newaxis] + np.arange(table.k[groups[0]])
        seen, parameter, keep = self.of(cells)
        if self.kind != URN:
            return seen.astype(np.float64), self._variance[self.which[cells]], np.zeros(seen.shape)
        if groups is None:
            raise ValueError("draws from urns can be read by group only")
        total = table.n[groups] + (parameter * keep).sum(axis=1)
        drawn = seen.sum(axis=1)
        unit = (total / drawn * (1 + (drawn - 1) / (total + 1)))[:, np.newaxis]
        total, each = total[:, np.newaxis], (total / drawn)[:, np.newaxis]
        part = parameter / total
        # Most cells are empty, and an empty one has its prior as often as it was kept.
        value = seen * each - parameter * keep
        return value, parameter * unit * (1 - part), unit * np.maximum(1 - 1 / total - 2 * part, 0)


def noise_like(kind: int, parameter: float) -> Law:
    """Return the law of noise that evidence of a kind has, by its parameter."""
    return Law(parameter) if kind == GEOMETRIC else Law(math.exp(parameter), math.exp(2 * parameter))


def parameter_of_variance(kind: int, variance: Float64) -> Float64:
    """Return the parameters of noise of such a kind that has about these variances."""
    if kind == GEOMETRIC:
        return variance / (variance + 1 + np.sqrt(2 * variance + 1))
    return -1 / (2 * variance)


class Counts(NamedTuple):
    """What is known of the counts of a group's cells.

    Attributes
    ----------
    kind : int
        `GEOMETRIC`, `URN` or `GAUSSIAN`.
    seen : ndarray of int64, shape (n_cells,)
        Noisy counts, or draws.
    parameter, retention : ndarray of float64, shape (n_cells,)
        As `Evidence` has them.
    shape : ndarray of float64, shape (n_cells,)
        Of the negative binomial prior.
    guess : ndarray of int64, shape (n_cells,)
        About what the counts are.
    """

    kind: int
    seen: Int64
    parameter: Float64
    retention: Float64
    shape: Float64
    guess: Int64


class Scratch(NamedTuple):
    """Room for the posterior weights of cells, and for the distributions of the sums of the first ones.

    Cell c has the weights `weight[start[c] + i]` of the counts `low[c] + i`. The sum of the cells up to it
    has the chances `chance[first[c] + s - begin[c]]` of s from `begin[c]`, below `stop[c]`. `single` is for
    the weights of one cell.
    """

    low: Int64
    start: Int64
    weight: Float64
    begin: Int64
    stop: Int64
    first: Int64
    chance: Float64
    single: Float64


@_compiled
def scratch_for(cells, n):  # type: ignore[no-untyped-def]
    """Return room for so many cells of groups of at most n jobs."""
    low, begin = np.empty(cells, np.int64), np.empty(cells, np.int64)
    stop, first = np.empty(cells, np.int64), np.empty(cells, np.int64)
    weight, chance = np.empty(64 * cells + 1024), np.empty(64 * cells + 1024)
    single = np.empty(2 * min(n, 2**15) + 64)
    return Scratch(low, np.empty(cells + 1, np.int64), weight, begin, stop, first, chance, single)


@_compiled
def draw_counts(cells, odds, n, tilt, scratch, random, counts):  # type: ignore[no-untyped-def]
    """Draw the counts of a group's cells, which add up to n.

    Parameters
    ----------
    cells : Counts
    odds : float
        z of the prior.
    n : int
    tilt : float
        A logarithm by which the odds may be off, so that the expected sum is n: that of the draw before.
    scratch : Scratch
    random : numpy.random.Generator
    counts : ndarray of int64, shape (n_cells,)
        The result.

    Returns
    -------
    done : bool
        Whether they were drawn; if not, windows left none.
    tilt : float
    scratch : Scratch
        Larger, where there was not enough room.
    """
    solved, mean, variance = _solve(cells, odds, n, tilt, scratch)
    while variance < 0.0:
        scratch = _larger(scratch, 2, 1)
        solved, mean, variance = _solve(cells, odds, n, tilt, scratch)
    if variance > _LARGE_VARIANCE:
        return _draw_independent(n, scratch, random, counts), solved, scratch
    while not _forward(counts.size, n, mean, variance, scratch):
        scratch = _larger(scratch, 1, 2)
    return _backward(n, scratch, random, counts), solved, scratch


@_compiled
def _larger(scratch, weights, chances):  # type: ignore[no-untyped-def]
    """Return room that is so many times as large; the weights of cells are kept where it is not."""
    low, start, weight, begin, stop, first, chance, single = scratch
    if weights > 1:
        weight = np.empty(weights * weight.size)
    if chances > 1:
        chance = np.empty(chances * chance.size)
    return Scratch(low, start, weight, begin, stop, first, chance, single)


@_compiled
def _up(kind, x, seen, parameter, retention, shape, z):  # type: ignore[no-untyped-def]
    """Return the weight of the count x + 1 over that of x: numbers, as it is called most often of all."""
    ratio = (shape + x) / (x + 1.0) * z
    if kind == GEOMETRIC:
        return ratio * parameter if x >= seen else ratio / parameter
    if kind == GAUSSIAN:
        return ratio * math.exp(min(max(parameter * (2 * (x - seen) + 1), -_LARGEST), _LARGEST))
    if seen > 0:
        ratio *= (x + parameter + seen) / (x + parameter)
        if x == 0:
            ratio /= retention
    return ratio


@_compiled
def _weights(cells, c, z, n, out):  # type: ignore[no-untyped-def]
    """Write a count's posterior weights, which add up to 1; return the count of the first, and how many."""
    kind, seen, parameter = cells.kind, cells.seen[c], cells.parameter[c]
    retention, shape = cells.retention[c], cells.shape[c]
    start = min(max(cells.guess[c], 0), n)
    # From the guess to where weights are largest, so that they do not overflow.
    while start < n and _up(kind, start, seen, parameter, retention, shape, z) > 1.0:
        start += 1
    while start > 1 and _up(kind, start - 1, seen, parameter, retention, shape, z) < 1.0:
        start -= 1
    low, high = start, start
    total, weight = 1.0, 1.0
    # Weights below the guess are written backwards in the second half.
    half = out.size // 2
    size_up = 1
    out[half] = 1.0
    while high < n and half + size_up < out.size:
        ratio = _up(kind, high, seen, parameter, retention, shape, z)
        weight *= ratio
        if weight < _TINY * total and ratio < 1.0:
            break
        out[half + size_up] = weight
        total += weight
        size_up += 1
        high += 1
    weight = 1.0
    while low > 0 and start - low < half:
        ratio = 1.0 / _up(kind, low - 1, seen, parameter, retention, shape, z)
        weight *= ratio
        if weight < _TINY * total and ratio < 1.0 and low > 16:
            break
        low -= 1
        out[half - (start - low)] = weight
        total += weight
    size = high - low + 1
    first = half - (start - low)
    for i in range(size):
        out[i] = out[first + i] / total
    return low, size


@_compiled
def _all_weights(cells, z, n, scratch):  # type: ignore[no-untyped-def]
    """Write the weights of all cells; return mean and variance of their sum, or -1 if there is no room."""
    low, start, weight, out = scratch.low, scratch.start, scratch.weight, scratch.single
    mean, variance, end = 0.0, 0.0, 0
    for c in range(cells.seen.size):
        least, size = _weights(cells, c, z, n, out)
        if end + size > weight.size:
            return mean, -1.0
        first, second = 0.0, 0.0
        for i in range(size):
            weight[end + i] = out[i]
            first += out[i] * i
            second += out[i] * i * i
        low[c], start[c] = least, end
        end += size
        mean += least + first
        variance += max(second - first * first, 0.0)
    start[cells.seen.size] = end
    return mean, variance


@_compiled
def _solve(cells, odds, n, tilt, scratch):  # type: ignore[no-untyped-def]
    """Find a tilt under which the sum is near n, and its weights; return tilt, mean and variance."""
    # Counts end at n, so that tilts may be larger than where they would not: as far as floats hold.
    limit = math.log(odds * (cells.parameter[0] if cells.kind == GEOMETRIC else 1.0))
    low, high = -60.0, (60.0 if cells.kind == GAUSSIAN else min(30.0, 500.0 / n)) - limit
    mean, variance = 0.0, 0.0
    for _ in range(60):
        mean, variance = _all_weights(cells, odds * math.exp(tilt), n, scratch)
        if variance < 0.0:
            return tilt, mean, variance
        if abs(mean - n) <= 0.3 + math.sqrt(variance):
            break
        if mean > n:
            high = tilt
        else:
            low = tilt
        step = tilt + min(1.5, max(-1.5, (n - mean) / max(variance, 1e-9)))
        tilt = step if low < step < high else (low + high) / 2
    return tilt, mean, variance


@_compiled
def _forward(cells, n, mean, variance, scratch):  # type: ignore[no-untyped-def]
    """Find the distributions of the sums of the first cells; return False if there is no room for them."""
    low, start, weight, begin, stop, first, chance, _ = scratch
    mean_so_far, variance_so_far, end = 0.0, 0.0, 0
    previous = 0
    for c in range(cells):
        size = start[c + 1] - start[c]
        m, v = 0.0, 0.0
        for i in range(size):
            w = weight[start[c] + i]
            m += w * i
            v += w * i * i
        v -= m * m
        mean_so_far += low[c] + m
        variance_so_far += max(v, 0.0)
        middle = mean_so_far + (n - mean) * (variance_so_far / variance if variance > 0.0 else 0.0)
        wide = _DEVIATIONS * math.sqrt(variance_so_far) + 3.0
        begin[c] = max(0, math.floor(middle - wide))
        stop[c] = min(n, math.ceil(middle + wide)) + 1
        if c == 0:
            before_begin, before_stop = 0, 1
        else:
            before_begin, before_stop = begin[c - 1], stop[c - 1]
        # No narrower than what cells of one possible count ask for.
        if size == 1:
            begin[c] = max(0, before_begin + low[c])
            stop[c] = min(n + 1, before_stop + low[c])
        stop[c] = max(stop[c], begin[c] + 1)
        first[c] = end
        if end + stop[c] - begin[c] > chance.size:
            return False
        total = 0.0
        for s in range(begin[c], stop[c]):
            value = 0.0
            # x = low + i, and the sum before is s - x.
            least = max(0, s - low[c] - (before_stop - 1))
            most = min(size - 1, s - low[c] - before_begin)
            for i in range(least, most + 1):
                before = 1.0 if c == 0 else chance[previous + s - low[c] - i - before_begin]
                value += weight[start[c] + i] * before
            chance[end + s - begin[c]] = value
            total += value
        if total > 0.0:
            for s in range(begin[c], stop[c]):
                chance[end + s - begin[c]] /= total
        previous = end
        end += stop[c] - begin[c]
    return True


@_compiled
def _backward(n, scratch, random, counts):  # type: ignore[no-untyped-def]
    """Draw counts that add up to n; return False where the windows leave none."""
    low, start, weight, begin, stop, first, chance, _ = scratch
    left = n
    for c in range(counts.size - 1, -1, -1):
        size = start[c + 1] - start[c]
        if size == 1:
            counts[c] = low[c]
            left -= low[c]
            continue
        total = 0.0
        if c == 0:
            counts[0] = left
            left = 0
            continue
        for i in range(size):
            s = left - low[c] - i
            if begin[c - 1] <= s < stop[c - 1]:
                total += weight[start[c] + i] * chance[first[c - 1] + s - begin[c - 1]]
        if total <= 0.0:
            return False
        u = random.random() * total
        chosen = -1
        for i in range(size):
            s = left - low[c] - i
            if begin[c - 1] <= s < stop[c - 1]:
                chosen = i
                u -= weight[start[c] + i] * chance[first[c - 1] + s - begin[c - 1]]
                if u < 0.0:
                    break
        counts[c] = low[c] + chosen
        left -= counts[c]
    return left == 0


@_compiled
def _draw_independent(n, scratch, random, counts):  # type: ignore[no-untyped-def]
    """Draw every count by itself, and share out what the sum lacks by variance, as normal counts would."""
    low, start, weight = scratch.low, scratch.start, scratch.weight
    k = counts.size
    lacking = n
    variance = np.empty(k)
    for c in range(k):
        size = start[c + 1] - start[c]
        counts[c] = low[c]
        variance[c] = 0.0
        if size > 1:
            u, first, second, chosen = random.random(), 0.0, 0.0, -1
            for i in range(size):
                w = weight[start[c] + i]
                first += w * i
                second += w * i * i
                u -= w
                if u < 0.0 and chosen < 0:
                    chosen = i
            if chosen < 0:
                chosen = size - 1
            counts[c] += chosen
            variance[c] = max(second - first * first, 0.0)
        lacking -= counts[c]
    for _ in range(50):
        if lacking == 0:
            return True
        sign = 1 if lacking > 0 else -1
        total = 0.0
        for c in range(k):
            if sign > 0 or counts[c] > 0:
                total += variance[c]
        if total <= 0.0:
            return False
        step = total / abs(lacking)
        position, shared = random.random() * step, 0
        for c in range(k):
            if sign < 0 and counts[c] == 0:
                continue
            position += variance[c]
            units = int(position / step)
            position -= units * step
            if sign < 0:
                units = min(units, counts[c])
            units = min(units, abs(lacking) - shared)
            counts[c] += sign * units
            shared += units
        lacking -= sign * shared
    return lacking == 0


@_compiled
def _log_evidence(cells, c, z, rest, n, out):  # type: ignore[no-untyped-def]
    """Return the logarithm of what the prior makes of what was published of a cell.

    The draws of a cell are taken as a negative binomial number, with the chance 1 - `rest` of one more: such
    numbers, given their sum, are those of an urn.
    """
    low, size = _weights(cells, c, z * rest, n, out)
    seen, parameter, shape = cells.seen[c], cells.parameter[c], cells.shape[c]
    best = 0
    for i in range(size):
        if out[i] > out[best]:
            best = i
    x = low + best
    value = math.lgamma(shape + x) - math.lgamma(shape) - math.lgamma(x + 1.0)
    value += shape * math.log(1.0 - z) + x * math.log(z * rest)
    if cells.kind == GEOMETRIC:
        value += abs(seen - x) * math.log(parameter)
    elif cells.kind == GAUSSIAN:
        value += (seen - x) * (seen - x) * parameter
    else:
        value += math.lgamma(x + parameter + seen) - math.lgamma(x + parameter)
        if x == 0 and seen > 0:
            value += math.log(cells.retention[c])
    return value - math.log(out[best])


@_compiled
def group_evidence(  # type: ignore[no-untyped-def]
    kind, seen, parameter, retention, expected, n, concentration,
):  # fmt: skip
    """Return the logarithm of what a concentration makes of a group, its cells taken as independent."""
    out = np.empty(2 * min(n, 2**15) + 64)
    z = n / (n + concentration)
    total, rest, scale = 0.0, 1.0, 1.0
    if kind == URN:
        drawn, weight = 0.0, float(n)
        for c in range(seen.size):
            drawn += seen[c]
            weight += parameter[c] * retention[c]
        rest, scale = weight / (weight + drawn), n / drawn
    shape, guess = np.empty(seen.size), np.empty(seen.size, np.int64)
    for c in range(seen.size):
        shape[c] = concentration * max(expected[c] / n, 1e-9)
        guess[c] = int(seen[c] * scale) if kind == URN else seen[c]
    cells = Counts(kind, seen, parameter, retention, shape, guess)
    for c in range(seen.size):
        total += _log_evidence(cells, c, z, rest, n, out)
    return total
