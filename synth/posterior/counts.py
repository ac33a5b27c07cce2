"""Posteriors of noisy counts, under a prior that is measured on the counts.

A count is taken to be negative binomial around what is expected in its cell, with kappa P as shape (P is
the cell's share of its group, kappa the concentration): what a Poisson count is whose mean is gamma. Most
counts are near to what is expected, and a few far from it: each has one of two concentrations, by lot. With
one for all, a count is overruled that is many deviations of its noise away from what was expected. Times the
likelihood of its noise (`synth.noise.Law`), up to the public size of its group, and tilted by one factor for
each group so that the means of its cells add up to that size, this is the posterior of the count. What noise
hardly ever does (`reach`) is ruled out. It costs no privacy: it sees noisy counts and public numbers only.

All sums run in one fixed order on one thread: the same counts give the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.noise import Law

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Counted = NDArray[np.int64] | NDArray[np.float64]

_GRID: list[float] = (2.0 ** np.arange(-1, 25)).tolist()  # concentrations, no larger than
_LARGEST = 2.0**14  # this but of groups of more jobs, which show more, and
_BEGIN = 4, 10  # the positions of those, far and near, that are tried first
_RARE = 1e-6  # chance, of either sign, with which noise is farther than a count may be from its noisy one
_ANYWHERE = 0.001  # the part of a group's jobs that is expected in all of its cells alike
_SAMPLE = 512  # groups, and
_SAMPLE_CELLS = 400_000  # cells to which concentrations are fitted, at most
_MULTIPLIED = 8  # counts up to which a rising factorial is multiplied out
_NOTHING = 1e-13
_LARGE = 1e200  # weights above are divided by it, with all that they were added to: floats end at 1e308
_AT_ONCE = 128  # cells whose moments a processor computes side by side, with
_SMALL = 4.0  # shapes below this
_LEAST = 1e-9  # prior mean of a cell, of which nobody can be sure that it is empty
_MOST_ODDS = 16.0  # logarithm of those that a count is near, or far
_MOST_TILT = 200.0  # with this and _LARGE floats hold each step
_SURE = 700.0  # logarithm of odds that are as good as certain: floats end beyond


class Deviations(NamedTuple):
    """How far counts are from what is expected of them.

    Attributes
    ----------
    near, far : float
        Concentrations; that of counts that are far is smaller.
    share : float
        Part of the counts that are far.
    """

    near: float
    far: float
    share: float


class _Moments(NamedTuple):
    """Of a group's counts: means and variances; and the limits within which means are kept."""

    mean: Float64
    variance: Float64
    low: Float64
    high: Float64


class _Parts(NamedTuple):
    """Of a group's counts if they are near (row 0) or far (row 1): what they are and how likely that is.

    Shapes; logarithms of sums of weights that are 1 at the noisy count; means and variances; logarithms of
    odds, untilted, that the noisy count is the count and is far, for it is and is near; the chance to be far;
    and room for the cells that no formula gives, and for the weights of the counts of a cell.
    """

    shape: Float64
    log_total: Float64
    mean: Float64
    variance: Float64
    odds: Float64
    far: Float64
    cells: Int64
    weights: Float64


def reach(law: Law) -> int:
    """Return how far a count may be from its noisy one: noise is farther with probability 10^-6 at most."""
    return law.reach(_RARE)


def posterior(
    noisy: Counted,
    offsets: Int64,
    expected: Float64,
    n: Int64,
    deviations: Deviations,
    law: Law,
    own: Float64 | None = None,
) -> tuple[Float64, Float64]:
    """Return posterior mean and variance of every count, means adding up to the public size in each group.

    Parameters
    ----------
    noisy : ndarray of int64 or float64, shape (n_cells,)
    offsets : ndarray of int64, shape (n_groups + 1,)
    expected : ndarray of float64, shape (n_cells,)
        Prior means; they add up to n in each group.
    n : ndarray of int64, shape (n_groups,)
    deviations : Deviations
    law : Law
        Of the noise.
    own : ndarray of float64, shape (n_cells,), optional
        The variance of each noisy count, which is then a mean of several and as if it had Gaussian noise. It
        is at most about that of the law.

    Returns
    -------
    mean, variance : ndarray of float64, shape (n_cells,)
        Means are within `reach` of noisy counts; where these cannot add up so, as near as all can be.
    """
    moments = np.empty((2, expected.size))
    # Writable as most are: numba would compile the same once more for arrays that are not.
    noisy, n = np.require(noisy, requirements="W"), np.require(n, requirements="W")
    _posterior(noisy, offsets, expected, n, deviations, law, _none(own), reach(law), moments)
    return moments[0], moments[1]


def bring_within_reach(values: Float64, noisy: Counted, offsets: Int64, n: Int64, law: Law) -> float:
    """Bring expected counts within reach of noisy ones, groups adding up to n; return how far they were off.

    Where counts of a group cannot add up so, they may be as far as they must.
    """
    return float(_bring_within_reach(values, noisy, offsets, n, reach(law)))


def least_loss(
    noisy: Counted,
    offsets: Int64,
    expected: Float64,
    n: Int64,
    deviations: Deviations,
    law: Law,
    own: Float64 | None = None,
) -> Float64:
    """Return whole counts whose expected absolute error is least, groups adding up to their public sizes.

    One job more in a cell of j jobs is right with the posterior probability that the cell has more than j.
    So those n jobs are taken for which this is largest: each cell gets the same quantile of its posterior.

    Parameters, shape and limits are those of `posterior`. Where probabilities are equal, jobs may be given in
    parts.
    """
    counts = np.empty_like(expected)
    _least_loss(noisy, offsets, expected, n, deviations, law, _none(own), reach(law), counts)
    return counts


def _none(own: Float64 | None) -> Float64:
    """Return what kernels take for the variances of cells: none where all have one law."""
    return np.empty(0) if own is None else own


def sampled_groups(n: Int64, cells: int) -> Int64:
    """Return the groups, rising, to which concentrations are fitted: a sample, large ones more often.

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


def likeliest_deviations(
    noisy: Counted, offsets: Int64, expected: Float64, n: Int64, law: Law, own: Float64 | None = None
) -> Deviations:
    """Return the deviations, of a grid of concentrations, under which noisy counts of groups are likeliest.

    The likelihood is climbed up to a peak. Beforehand one count counts as near, and one as far: so the share
    of either is above 0.
    """
    logs: dict[int, Float64] = {}
    # Sums go on up to a count. One beyond these is refused where sizes are public
    # (`synth.geometric.noise`); where they are not, it says no more than this.
    noisy = np.minimum(noisy, np.repeat(n + law.beyond(46), np.diff(offsets)))
    looked_at: dict[tuple[int, int], tuple[float, float]] = {}

    def log(i: int) -> Float64:
        if i not in logs:
            logs[i] = np.empty(noisy.size)
            _log_likelihoods(noisy, offsets, expected, n, _GRID[i], law, _none(own), logs[i])
        return logs[i]

    def look(pair: tuple[int, int]) -> float:
        if pair not in looked_at:
            far, near = map(log, pair)
            gain = np.exp(np.clip(far - near, -_SURE, _SURE)) - 1
            share = float(_likeliest_share(gain))
            looked_at[pair] = float(near.sum() + np.log1p(share * gain).sum()), share
        return looked_at[pair][0]

    most = len(_GRID) if n.max() > _LARGEST else _GRID.index(_LARGEST) + 1
    best, last = _BEGIN, (-1, -1)
    while best != last:
        last = far, near = best
        around = [last, (far - 1, near), (far + 1, near), (far, near - 1), (far, near + 1)]
        best = max((pair for pair in around if 0 <= pair[0] < pair[1] < most), key=look)
    return Deviations(_GRID[best[1]], _GRID[best[0]], looked_at[best][1])


@_compiled
def _likeliest_share(gain):  # type: ignore[no-untyped-def]
    """Return the share s under which the sum of log(1 + s gain), and of log s + log(1 - s), is largest."""
    low, high = -_MOST_ODDS, _MOST_ODDS  # logarithms of odds
    for _ in range(18):  # to a thousandth of the odds
        share = 1.0 / (1.0 + math.exp(-(low + high) / 2))
        slope = 1.0 / share - 1.0 / (1.0 - share)
        for value in gain:
            slope += value / (1.0 + share * value)
        if slope > 0:
            low = (low + high) / 2
        else:
            high = (low + high) / 2
    return 1.0 / (1.0 + math.exp(-(low + high) / 2))


@_compiled
def _expect_anywhere(expected, offsets, n, result):  # type: ignore[no-untyped-def]
    for g in range(n.size):
        anywhere = _ANYWHERE * n[g] / (offsets[g + 1] - offsets[g])
        for c in range(offsets[g], offsets[g + 1]):
            result[c] = (1.0 - _ANYWHERE) * expected[c] + anywhere


@_compiled
def log_rising(shape, count):  # type: ignore[no-untyped-def]
    """Return the logarithm of shape (shape + 1) ... (shape + count - 1)."""
    if count > _MULTIPLIED:
        return math.lgamma(shape + count) - math.lgamma(shape)
    product = 1.0
    for x in range(count):
        product *= shape + x
    return math.log(product)


@_compiled
def _law_of(law, own, c):  # type: ignore[no-untyped-def]
    """Return the law of the noise of a cell."""
    if own.size == 0:
        return law
    return Law(math.exp(-0.5 / own[c]), math.exp(-1.0 / own[c]))


@_compiled
def _nearest(noisy, most):  # type: ignore[no-untyped-def]
    """Return the count that there can be next to a noisy one."""
    return math.floor(min(max(noisy, 0), most) + 0.5)


@_compiled
def _first_step(far, law):  # type: ignore[no-untyped-def]
    """Return how much less likely noise is that is one more than `far`, if there are counts on that side."""
    if far <= -1:
        return 0.0  # the nearest count is the last one there
    return law.first if far == 0 else law.first * law.fall**far


@_compiled
def _moments(noisy, shape, z, law, most):  # type: ignore[no-untyped-def]
    """Return the log of the sum of weights of x up to `most`, over that of y, and mean and variance of x.

    Weights are C(shape + x - 1, x) z^x times the likelihood of the noisy count. y is the x next to it.
    """
    y = _nearest(noisy, most)
    total, first, second = 1.0, 0.0, 0.0  # moments of x - y
    weight, at_y, d, divided = 1.0, 1.0, 0, 0
    p = _first_step(y - noisy, law)
    while y + d < most:
        weight *= (shape + y + d) / (y + d + 1) * z * p
        d += 1
        p *= law.fall
        total += weight
        first += weight * d
        second += weight * d * d
        # At a count of 0 the factor may be tiny, and above 1 from there on.
        if weight * d * d < 1e-10 * total and (shape + y + d) * z * p < y + d + 1:
            break
        if weight > _LARGE:
            weight, at_y, divided = weight / _LARGE, at_y / _LARGE, divided + 1
            total, first, second = total / _LARGE, first / _LARGE, second / _LARGE
    weight, d, p = at_y, 0, _first_step(noisy - y, law)
    while d < y:
        weight *= (y - d) / (max(shape + y - d - 1, 1e-300) * z) * p
        d += 1
        p *= law.fall
        total += weight
        first -= weight * d
        second += weight * d * d
        if weight > _LARGE:
            weight, divided = weight / _LARGE, divided + 1
            total, first, second = total / _LARGE, first / _LARGE, second / _LARGE
        # Going down, weights may fall and rise again towards 0 only while this factor is above 1.
        if weight * d * d < 1e-10 * total and (y - d) * p < (shape + y - d - 1) * z:
            break
    mean = first / total
    return math.log(total) + divided * math.log(_LARGE), y + mean, max(second / total - mean * mean, 0.0)


@_compiled
def _moments_of_ones(cells, shape, z, p, most, log_total, mean, variance):  # type: ignore[no-untyped-def]
    """Fill in what `_moments` returns of cells with y = 1, bit for bit, of many at a time.

    For shapes below `_SMALL`, of which no weight is large, and noise whose steps are all p.
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
            log_total[cells[begin + i]] = math.log(of_all)
            mean[cells[begin + i]] = 1 + step
            variance[cells[begin + i]] = max((second[i] + down) / of_all - step * step, 0.0)


@_compiled
def _can_add_up(noisy, n, limit):  # type: ignore[no-untyped-def]
    """Say whether counts no farther than a limit from noisy ones can add up to n."""
    below, above = 0.0, 0.0
    for y in noisy:
        below += max(0, y - limit)
        above += max(0, y + limit)
    return below <= n <= above


@_compiled
def _least_limit(noisy, n, limit):  # type: ignore[no-untyped-def]
    """Return how far counts may be from noisy ones: no farther than a limit, if they can add up to n then."""
    high = limit
    while not _can_add_up(noisy, n, high):
        high = 2 * high + 1
    low = (high - 1) // 2
    while high > limit and high - low > 1:
        middle = (low + high) // 2
        if _can_add_up(noisy, n, middle):
            high = middle
        else:
            low = middle
    return high


@_compiled
def _reaches(n, shape, odds):  # type: ignore[no-untyped-def]
    """Say whether a negative binomial is n or more with a probability that Chernoff finds not negligible."""
    if odds * (n + shape) >= n:
        return True
    bound = shape * math.log((1.0 - odds) * (n + shape) / shape) + n * math.log(odds * (n + shape) / n)
    return bound > math.log(_NOTHING)


@_compiled
def _largest_below(n, shape, odds):  # type: ignore[no-untyped-def]
    """Return the largest of a shape, its half, a quarter and so on that does not reach n; 0 if none does."""
    if odds >= 1.0 or n * math.log(odds) > math.log(_NOTHING):
        return 0.0
    while _reaches(n, shape, odds):
        shape /= 2.0
    return shape


@_compiled
def _fill(noisy, n, z, law, own, kind, ones, others, parts):  # type: ignore[no-untyped-def]
    """Fill in what `_moments` returns of all cells of a group, if they are near or if they are far."""
    shape, cells = parts.shape[kind], parts.cells
    log_total, mean, variance = parts.log_total[kind], parts.mean[kind], parts.variance[kind]
    # Of smaller shapes no count is as large as its group; sums to no end are known of one law.
    p = law.first
    below = _largest_below(n, shape.max(), z * p) if law.fall == 1.0 and own.size == 0 else 0.0
    unlimited = below > 0.0
    if unlimited:
        rest = 1.0 - z * p
        log_rest = math.log(rest)
        for c in range(noisy.size):
            log_total[c] = -shape[c] * log_rest
            mean[c] = shape[c] * (z * p) / rest
            variance[c] = mean[c] / rest
            if shape[c] > below and noisy[c] <= 0:
                log_total[c], mean[c], variance[c] = _moments(noisy[c], shape[c], z, law, n)
        _moments_of_ones(cells[:ones], shape, z, p, n, log_total, mean, variance)
    for i in range(others if unlimited else 0, cells.size if unlimited else noisy.size):
        c = cells[i] if unlimited else i
        log_total[c], mean[c], variance[c] = _moments(noisy[c], shape[c], z, _law_of(law, own, c), n)


@_compiled
def _tilted(noisy, expected, n, deviations, law, own, limit, moments, parts):  # type: ignore[no-untyped-def]
    """Fill in moments of a group's counts, tilted so that means within limits add up to n; return odds."""
    mean, variance, low, high = moments
    shape, log_total, means, variances, odds, far, cells, _ = parts
    limit = _least_limit(noisy, n, limit)
    # A negative binomial of mean mu and shape kappa mu / n has the odds n / (n + kappa) in all cells.
    odds_near, odds_far = n / (n + deviations.near), n / (n + deviations.far)
    log_ratio = math.log(odds_far / odds_near)
    log_none = math.log(1.0 - odds_near), math.log(1.0 - odds_far)
    prior = math.log(deviations.share) - math.log(1.0 - deviations.share)
    # No more than floats hold; where each step is rarer than the one before, as much as the last one needs.
    steepest = law if own.size == 0 else _law_of(law, own, np.argmin(own))
    last = -limit * math.log(steepest.fall)
    most = min(30.0, 500.0 / n) if steepest.fall == 1.0 else min(30.0 + last, _MOST_TILT)
    top, bottom = -math.log(odds_far * steepest.first) + most, -min(60.0 + last, _MOST_TILT)
    tilt = min(0.0, -math.log(odds_far * steepest.first) / 2)
    ones, others = 0, cells.size  # from both ends of `cells`
    for c in range(noisy.size):
        share = max(expected[c], _LEAST) / n
        shape[0, c], shape[1, c] = deviations.near * share, deviations.far * share
        low[c], high[c] = max(0, noisy[c] - limit), max(0, min(noisy[c] + limit, n))
        odds[c] = prior + shape[1, c] * log_none[1] - shape[0, c] * log_none[0]
        y = _nearest(noisy[c], n)
        if y > 0:
            odds[c] += log_rising(shape[1, c], y) - log_rising(shape[0, c], y) + y * log_ratio
        if noisy[c] == 1 and shape[0, c] < _SMALL:  # then the other shape, too
            cells[ones] = c
            ones += 1
        elif noisy[c] > 0:
            others -= 1
            cells[others] = c
    z = 0.0
    for turn in range(61):
        z = math.exp(tilt)
        for kind in range(2):
            _fill(noisy, n, (odds_near, odds_far)[kind] * z, law, own, kind, ones, others, parts)
        total, spread = 0.0, 0.0
        for c in range(noisy.size):
            log_odds = odds[c] + log_total[1, c] - log_total[0, c]
            chance = 1.0 / (1.0 + math.exp(min(max(-log_odds, -_SURE), _SURE)))
            far[c] = chance
            between = means[1, c] - means[0, c]
            mean[c] = means[0, c] + chance * between
            variance[c] = (1.0 - chance) * (
                variances[0, c] + chance * between * between
            ) + chance * variances[1, c]
            total += min(max(mean[c], low[c]), high[c])
            if low[c] < mean[c] < high[c]:
                spread += variance[c]
        if turn == 60 or abs(total - n) <= 1e-5 * n:
            break
        if total > n:
            top = tilt
        else:
            bottom = tilt
        step = tilt + (n - total) / max(spread, 1e-12)
        tilt = step if bottom < step < top else (bottom + top) / 2
    return odds_near * z, odds_far * z


@_compiled
def _meet(mean, low, high, n):  # type: ignore[no-untyped-def]
    """Bring means into their limits, and all the same part of the way to these, so that they add up to n."""
    total, room = 0.0, 0.0
    for c in range(mean.size):
        mean[c] = min(max(mean[c], low[c]), high[c])
        total += mean[c]
    for c in range(mean.size):
        room += high[c] - mean[c] if total < n else mean[c] - low[c]
    part = min(1.0, abs(n - total) / max(room, 1e-300))
    for c in range(mean.size):
        mean[c] += part * (high[c] - mean[c] if total < n else low[c] - mean[c])


@_compiled
def _bring_within_reach(values, noisy, offsets, n, limit):  # type: ignore[no-untyped-def]
    most, off = np.diff(offsets).max(), 0.0
    low, high = np.empty(most), np.empty(most)
    for g in range(n.size):
        cells, k = slice(offsets[g], offsets[g + 1]), offsets[g + 1] - offsets[g]
        of_group, worst = _least_limit(noisy[cells], n[g], limit), 0.0
        for i, c in enumerate(range(offsets[g], offsets[g + 1])):
            low[i], high[i] = max(0, noisy[c] - of_group), max(0, min(noisy[c] + of_group, n[g]))
            worst = max(worst, low[i] - values[c], values[c] - high[i])
        if worst > 0.0:
            _meet(values[cells], low[:k], high[:k], n[g])
            off = max(off, worst)
    return off


@_compiled
def _room_for(most):  # type: ignore[no-untyped-def]
    """Return room for the parts of the largest group."""
    return _Parts(
        np.empty((2, most)), np.empty((2, most)), np.empty((2, most)), np.empty((2, most)), np.empty(most),
        np.empty(most), np.empty(most, np.int64), np.empty(2**16),
    )  # fmt: skip


@_compiled
def _some(parts, k):  # type: ignore[no-untyped-def]
    """Return the room for a group of k cells."""
    return _Parts(
        parts.shape[:, :k], parts.log_total[:, :k], parts.mean[:, :k], parts.variance[:, :k],
        parts.odds[:k], parts.far[:k], parts.cells, parts.weights,
    )  # fmt: skip


@_compiled
def _posterior(noisy, offsets, expected, n, deviations, law, own, limit, result):  # type: ignore[no-untyped-def]
    most = np.diff(offsets).max()
    room, low, high = _room_for(most), np.empty(most), np.empty(most)
    for g in range(n.size):
        cells, k = slice(offsets[g], offsets[g + 1]), offsets[g + 1] - offsets[g]
        moments = _Moments(result[0, cells], result[1, cells], low[:k], high[:k])
        of_cells = own[offsets[g] : min(offsets[g + 1], own.size)]  # none where there are none
        parts = _some(room, k)
        _tilted(noisy[cells], expected[cells], n[g], deviations, law, of_cells, limit, moments, parts)
        _meet(moments.mean, moments.low, moments.high, n[g])


@_compiled
def _rescaled(weight, log_scale, scale, log_large):  # type: ignore[no-untyped-def]
    """Move a large factor of a weight into its scale, and keep the logarithm of that."""
    if weight > _LARGE:
        return weight / _LARGE, log_scale + log_large, math.exp(log_scale + log_large)
    return weight, log_scale, scale


@_compiled
def _quantile(noisy, n, near, far, law, mean, level, weights):  # type: ignore[no-untyped-def]
    """Return how many j there are such that more than j has at least this posterior probability.

    `near` and `far` are shape, odds, and logarithm of the probability to be that and the noisy count.
    """
    if mean < level:  # Markov's inequality
        return 0
    y = _nearest(noisy, n)
    p = _first_step(y - noisy, law)
    log_large = math.log(_LARGE)
    first, second, log_first, log_second = 1.0, 1.0, near[2], far[2]
    near_scale, far_scale = math.exp(log_first), math.exp(log_second)
    weights[0], above = near_scale + far_scale, 0
    while above + 1 < weights.size and y + above < n and (weights[above] >= 1e-12 or above < mean - y):
        step = p / (y + above + 1)
        first *= (near[0] + y + above) * near[1] * step
        second *= (far[0] + y + above) * far[1] * step
        first, log_first, near_scale = _rescaled(first, log_first, near_scale, log_large)
        second, log_second, far_scale = _rescaled(second, log_second, far_scale, log_large)
        above += 1
        p *= law.fall
        weights[above] = near_scale * first + far_scale * second
    tail = 0.0
    for d in range(above, -1, -1):
        tail += weights[d]
        if tail >= level:
            return y + d
    first, second, log_first, log_second = 1.0, 1.0, near[2], far[2]
    near_scale, far_scale = math.exp(log_first), math.exp(log_second)
    p = _first_step(noisy - y, law)
    for d in range(y):
        step = (y - d) * p
        p *= law.fall
        first *= step / (max(near[0] + y - d - 1, 1e-300) * near[1])
        second *= step / (max(far[0] + y - d - 1, 1e-300) * far[1])
        first, log_first, near_scale = _rescaled(first, log_first, near_scale, log_large)
        second, log_second, far_scale = _rescaled(second, log_second, far_scale, log_large)
        tail += near_scale * first + far_scale * second
        if tail >= level:
            return y - d - 1
    return 0


@_compiled
def _quantiles(noisy, n, odds, law, own, level, moments, parts, counts):  # type: ignore[no-untyped-def]
    """Fill in the quantiles of a group's counts, within limits, and return their sum."""
    total = 0.0
    for c in range(noisy.size):
        log_far = math.log(max(parts.far[c], 1e-300)) - parts.log_total[1, c]
        log_near = math.log(max(1.0 - parts.far[c], 1e-300)) - parts.log_total[0, c]
        near, far = (parts.shape[0, c], odds[0], log_near), (parts.shape[1, c], odds[1], log_far)
        of_cell = _law_of(law, own, c)
        count = _quantile(noisy[c], n, near, far, of_cell, moments.mean[c], level, parts.weights)
        counts[c] = min(max(count, moments.low[c]), moments.high[c])
        total += counts[c]
    return total


@_compiled
def _least_loss(noisy, offsets, expected, n, deviations, law, own, limit, counts):  # type: ignore[no-untyped-def]
    most = np.diff(offsets).max()
    room, bounds, lower = _room_for(most), np.empty((4, most)), np.empty(most)
    for g in range(n.size):
        cells, k = slice(offsets[g], offsets[g + 1]), offsets[g + 1] - offsets[g]
        parts, upper = _some(room, k), counts[cells]
        moments = _Moments(bounds[0, :k], bounds[1, :k], bounds[2, :k], bounds[3, :k])
        of_cells = own[offsets[g] : min(offsets[g + 1], own.size)]
        odds = _tilted(noisy[cells], expected[cells], n[g], deviations, law, of_cells, limit, moments, parts)
        # As many at `high` or fewer, and more at `low`.
        low, high, level, total = 0.0, 1.0, 0.5, 0.0
        for _ in range(40):
            total = _quantiles(noisy[cells], n[g], odds, law, of_cells, level, moments, parts, upper)
            if total == n[g]:
                break
            if total > n[g]:
                low = level
            else:
                high = level
            level = (low + high) / 2
        if total != n[g]:
            # Those at the level are equal: each gets its part.
            over = _quantiles(noisy[cells], n[g], odds, law, of_cells, low, moments, parts, lower[:k])
            under = _quantiles(noisy[cells], n[g], odds, law, of_cells, high, moments, parts, upper)
            part = (n[g] - under) / max(over - under, 1.0)
            for c in range(k):
                upper[c] += part * (lower[c] - upper[c])
            if not under <= n[g] <= over:  # what is that unlikely no level tells apart
                _meet(upper, moments.low, moments.high, n[g])


@_compiled
def _log_likelihoods(noisy, offsets, expected, n, concentration, one_law, own, result):  # type: ignore[no-untyped-def]
    """Fill in the log-likelihood of each noisy count, but for what no concentration changes."""
    for g in range(n.size):
        z = n[g] / (n[g] + concentration)
        log_z, log_rest, log_none = math.log(z), math.log(1.0 - z), math.log(1.0 - z * one_law.first)
        for c in range(offsets[g], offsets[g + 1]):
            law = _law_of(one_law, own, c)
            shape = concentration * max(expected[c], _LEAST) / n[g]
            if noisy[c] <= 0 and law.fall == 1.0:
                result[c] = shape * (log_rest - log_none)
                continue
            y = _nearest(noisy[c], np.inf)
            p = _first_step(y - noisy[c], law)
            total, weight, at_y, d = 1.0, 1.0, 1.0, 0
            divided = 0
            while weight * (d + 1) >= 1e-10 * total:
                weight *= (shape + y + d) / (y + d + 1) * z * p
                d += 1
                p *= law.fall
                total += weight
                if weight > _LARGE:
                    weight, at_y, total = weight / _LARGE, at_y / _LARGE, total / _LARGE
                    divided += 1
            weight, d, p = at_y, 0, _first_step(noisy[c] - y, law)
            while d < y:
                weight *= (y - d) / (max(shape + y - d - 1, 1e-300) * z) * p
                d += 1
                p *= law.fall
                total += weight
                if weight > _LARGE:
                    weight, total = weight / _LARGE, total / _LARGE
                    divided += 1
                if weight * d < 1e-10 * total and (y - d) * p < (shape + y - d - 1) * z:
                    break
            result[c] = log_rising(shape, y) + shape * log_rest + y * log_z + math.log(total)
            if divided:
                result[c] += divided * math.log(_LARGE)
