"""Whole counts of the cells of a group, drawn from their posterior given that they add up to its size.

A count x is negative binomial a priori, with odds z: what a Poisson count is whose mean is gamma. What was
published of its cell has a likelihood, one of two:

- a noisy count y, with p^|y - x| (two-sided geometric noise);
- d draws from an urn with the prior a, with Gamma(x + a + d) / Gamma(x + a). A cell that may have been pruned
  was in the urn with the probability of its retention where it has no jobs.

Both are products over cells but for the sum, which is public. So the distribution of sums of the first cells
is found cell by cell, and counts are drawn backwards from the last one: exactly, but for what floats and
windows of eight standard deviations leave out.
"""

from __future__ import annotations

import math

import numpy as np

from synth._words import compiled as _compiled

NOISE, URN = 0, 1

_TINY = 1e-11  # part of a count's posterior that may be left out at either end
_DEVIATIONS = 8.0


@_compiled
def _up(kind, x, seen, par, keep, shape, z):  # type: ignore[no-untyped-def]
    """Return the weight of x + 1 over that of x."""
    ratio = (shape + x) / (x + 1.0) * z
    if kind == NOISE:
        return ratio * par if x >= seen else ratio / par
    if seen > 0:
        ratio *= (x + par + seen) / (x + par)
        if x == 0:
            ratio /= keep
    return ratio


@_compiled
def _weights(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, shape, z, n, guess, out
):  # fmt: skip
    """Write a count's posterior weights, which add up to 1; return the count of the first, and how many."""
    start = min(max(guess, 0), n)
    # From the guess to where weights are largest, so that they do not overflow.
    while start < n and _up(kind, start, seen, par, keep, shape, z) > 1.0:
        start += 1
    while start > 1 and _up(kind, start - 1, seen, par, keep, shape, z) < 1.0:
        start -= 1
    low, high = start, start
    total, weight = 1.0, 1.0
    # Weights below the guess are written backwards in the second half.
    half = out.size // 2
    size_up = 1
    out[half] = 1.0
    while high < n and half + size_up < out.size:
        ratio = _up(kind, high, seen, par, keep, shape, z)
        weight *= ratio
        if weight < _TINY * total and ratio < 1.0:
            break
        out[half + size_up] = weight
        total += weight
        size_up += 1
        high += 1
    weight = 1.0
    while low > 0 and start - low < half:
        ratio = 1.0 / _up(kind, low - 1, seen, par, keep, shape, z)
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
def _all_weights(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, shape, z, n, guess, lows, starts, flat, out,
):  # fmt: skip
    """Write the weights of all cells; return mean and variance of their sum, or -1 if there is no room."""
    mean, spread, at = 0.0, 0.0, 0
    for c in range(seen.size):
        low, size = _weights(kind, seen[c], par[c], keep[c], shape[c], z, n, guess[c], out)
        if at + size > flat.size:
            return mean, -1.0
        first, second = 0.0, 0.0
        for i in range(size):
            flat[at + i] = out[i]
            first += out[i] * i
            second += out[i] * i * i
        lows[c], starts[c] = low, at
        at += size
        mean += low + first
        spread += max(second - first * first, 0.0)
    starts[seen.size] = at
    return mean, spread


@_compiled
def solve(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, shape, odds, n, guess, tilt, lows, starts, flat, out,
):  # fmt: skip
    """Find a tilt under which the sum is near n, and its weights; return tilt, mean and variance."""
    # Counts end at n, so that tilts may be larger than where they would not: as far as floats hold.
    low, high = -60.0, min(30.0, 500.0 / n) - math.log(odds * (par[0] if kind == NOISE else 1.0))
    mean, spread = 0.0, 0.0
    for _ in range(60):
        mean, spread = _all_weights(
            kind, seen, par, keep, shape, odds * math.exp(tilt), n, guess, lows, starts, flat, out
        )
        if spread < 0.0:
            return tilt, mean, spread
        if abs(mean - n) <= 0.3 + math.sqrt(spread):
            break
        if mean > n:
            high = tilt
        else:
            low = tilt
        step = tilt + min(1.5, max(-1.5, (n - mean) / max(spread, 1e-9)))
        tilt = step if low < step < high else (low + high) / 2
    return tilt, mean, spread


@_compiled
def forward(  # type: ignore[no-untyped-def]
    lows, starts, flat, n, mean, spread, begin, stop, first, table,
):  # fmt: skip
    """Find the distribution of the sum of the first cells, on windows; return False if `table` is too small.

    The sums of cells 0..c have chances `table[first[c] + s - begin[c]]` for s from begin[c], below stop[c].
    """
    k = lows.size
    so_far, variance, at = 0.0, 0.0, 0
    previous = 0
    for c in range(k):
        size = starts[c + 1] - starts[c]
        m, v = 0.0, 0.0
        for i in range(size):
            w = flat[starts[c] + i]
            m += w * i
            v += w * i * i
        v -= m * m
        so_far += lows[c] + m
        variance += max(v, 0.0)
        middle = so_far + (n - mean) * (variance / spread if spread > 0.0 else 0.0)
        wide = _DEVIATIONS * math.sqrt(variance) + 3.0
        begin[c] = max(0, math.floor(middle - wide))
        stop[c] = min(n, math.ceil(middle + wide)) + 1
        if c == 0:
            before_begin, before_stop = 0, 1
        else:
            before_begin, before_stop = begin[c - 1], stop[c - 1]
        # No narrower than what cells of one possible count ask for.
        if size == 1:
            begin[c] = max(0, before_begin + lows[c])
            stop[c] = min(n + 1, before_stop + lows[c])
        stop[c] = max(stop[c], begin[c] + 1)
        first[c] = at
        if at + stop[c] - begin[c] > table.size:
            return False
        total = 0.0
        for s in range(begin[c], stop[c]):
            value = 0.0
            # x = low + i, and the sum before is s - x.
            least = max(0, s - lows[c] - (before_stop - 1))
            most = min(size - 1, s - lows[c] - before_begin)
            for i in range(least, most + 1):
                before = 1.0 if c == 0 else table[previous + s - lows[c] - i - before_begin]
                value += flat[starts[c] + i] * before
            table[at + s - begin[c]] = value
            total += value
        if total > 0.0:
            for s in range(begin[c], stop[c]):
                table[at + s - begin[c]] /= total
        previous = at
        at += stop[c] - begin[c]
    return True


@_compiled
def backward(  # type: ignore[no-untyped-def]
    lows, starts, flat, n, begin, stop, first, table, random, counts,
):  # fmt: skip
    """Draw counts that add up to n; return False where the windows leave none."""
    left = n
    for c in range(lows.size - 1, -1, -1):
        size = starts[c + 1] - starts[c]
        if size == 1:
            counts[c] = lows[c]
            left -= lows[c]
            continue
        total = 0.0
        if c == 0:
            counts[0] = left
            left = 0
            continue
        for i in range(size):
            s = left - lows[c] - i
            if begin[c - 1] <= s < stop[c - 1]:
                total += flat[starts[c] + i] * table[first[c - 1] + s - begin[c - 1]]
        if total <= 0.0:
            return False
        u = random.random() * total
        chosen = -1
        for i in range(size):
            s = left - lows[c] - i
            if begin[c - 1] <= s < stop[c - 1]:
                chosen = i
                u -= flat[starts[c] + i] * table[first[c - 1] + s - begin[c - 1]]
                if u < 0.0:
                    break
        counts[c] = lows[c] + chosen
        left -= counts[c]
    return left == 0


@_compiled
def independent(lows, starts, flat, n, random, counts):  # type: ignore[no-untyped-def]
    """Draw every count by itself, and share out what the sum lacks by variance, as normal counts would."""
    k = lows.size
    lacking = n
    variance = np.empty(k)
    for c in range(k):
        size = starts[c + 1] - starts[c]
        counts[c] = lows[c]
        variance[c] = 0.0
        if size > 1:
            u, first, second, chosen = random.random(), 0.0, 0.0, -1
            for i in range(size):
                w = flat[starts[c] + i]
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
        position, given = random.random() * step, 0
        for c in range(k):
            if sign < 0 and counts[c] == 0:
                continue
            position += variance[c]
            units = int(position / step)
            position -= units * step
            if sign < 0:
                units = min(units, counts[c])
            units = min(units, abs(lacking) - given)
            counts[c] += sign * units
            given += units
        lacking -= sign * given
    return lacking == 0


@_compiled
def _log_evidence(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, shape, z, rest, n, guess, out,
):  # fmt: skip
    """Return the logarithm of what the prior makes of what was published of a cell.

    The draws of a cell are taken as a negative binomial number, with the chance 1 - `rest` of one more: such
    numbers, given their sum, are those of an urn.
    """
    low, size = _weights(kind, seen, par, keep, shape, z * rest, n, guess, out)
    best = 0
    for i in range(size):
        if out[i] > out[best]:
            best = i
    x = low + best
    value = math.lgamma(shape + x) - math.lgamma(shape) - math.lgamma(x + 1.0)
    value += shape * math.log(1.0 - z) + x * math.log(z * rest)
    if kind == NOISE:
        value += abs(seen - x) * math.log(par)
    else:
        value += math.lgamma(x + par + seen) - math.lgamma(x + par)
        if x == 0 and seen > 0:
            value += math.log(keep)
    return value - math.log(out[best])


@_compiled
def group_evidence(  # type: ignore[no-untyped-def]
    kind, seen, par, keep, expected, n, concentration,
):  # fmt: skip
    """Return the logarithm of what a concentration makes of a group, its cells taken as independent."""
    out = np.empty(2 * min(n, 2**15) + 64)
    z = n / (n + concentration)
    total, rest, scale = 0.0, 1.0, 1.0
    if kind == URN:
        drawn, weight = 0.0, float(n)
        for c in range(seen.size):
            drawn += seen[c]
            weight += par[c] * keep[c]
        rest, scale = weight / (weight + drawn), n / drawn
    for c in range(seen.size):
        shape = concentration * max(expected[c] / n, 1e-9)
        guess = seen[c] if kind == NOISE else int(seen[c] * scale)
        total += _log_evidence(kind, seen[c], par[c], keep[c], shape, z, rest, n, guess, out)
    return total
