"""Posterior, fit and rounding of measured tables written a second time: plain Python, slow and obvious."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from synth.geometric.measured import MeasuredTable, count_cells
from synth.noise import Law
from synth.posterior.counts import Deviations
from synth.randomness import WordStream

MOST = 250  # counts beyond have no weight in the cases of the tests


def gaussian(variance: float) -> Law:
    """The law of discrete Gaussian noise."""
    return Law(math.exp(-1 / (2 * variance)), math.exp(-1 / variance))


def log_odds(z: float | NDArray[np.integer], law: Law) -> float | NDArray[np.float64]:
    """Logarithm of how likely noise is, over that of none."""
    far = abs(z)
    return far * math.log(law.first) + far * (far - 1) / 2 * math.log(law.fall)


def at_least(d: int, law: Law) -> float:
    """The chance of noise that is d or more, or -d or less, for d above 0."""
    odds = [math.exp(log_odds(z, law)) for z in range(6000)]
    return 2 * math.fsum(odds[d:]) / (2 * math.fsum(odds) - 1)


@cache
def log_weights(y: int, mean: float, n: int, deviations: Deviations, p: Law, most: int) -> list[float]:
    """Logarithms of posterior weights of x = 0, 1, ..., `most`: negative binomials times noise of y - x."""
    near, far, share = deviations
    every = []
    for kappa, chance in ((near, 1 - share), (far, share)):
        shape, z = kappa * mean / n, n / (n + kappa)
        every.append(
            [
                math.lgamma(shape + x) - math.lgamma(shape) - math.lgamma(x + 1)
                + shape * math.log(1 - z) + x * math.log(z) + log_odds(y - x, p) + math.log(chance)
                for x in range(most + 1)
            ]
        )  # fmt: skip
    return [max(pair) + math.log1p(math.exp(min(pair) - max(pair))) for pair in zip(*every, strict=True)]


def weights(y: int, mean: float, n: int, deviations: Deviations, p: Law, tilt: float) -> list[float]:
    """The weights times e^(tilt x), the largest brought to 1."""
    logs = [value + tilt * x for x, value in enumerate(log_weights(y, mean, n, deviations, p, n))]
    largest = max(logs)
    return [math.exp(value - largest) for value in logs]


def mean_of(w: Sequence[float]) -> float:
    return sum(x * weight for x, weight in enumerate(w)) / sum(w)


def limits_of(ys: Sequence[int], n: int, p: Law) -> list[tuple[int, int]]:
    """By cell, the least and the most that a count can be: noise is farther once in a million times."""
    far = next(d for d in itertools.count() if at_least(d + 1, p) <= 1e-6)
    while True:
        limits = [(max(0, y - far), max(0, min(n, y + far))) for y in ys]
        if sum(low for low, _ in limits) <= n <= sum(max(0, y + far) for y in ys):
            return limits
        far += 1


def clipped_means(
    ys: Sequence[int], means: Sequence[float], n: int, deviations: Deviations, p: Law, tilt: float
) -> list[float]:
    return [
        min(max(mean_of(weights(y, m, n, deviations, p, tilt)), low), high)
        for y, m, (low, high) in zip(ys, means, limits_of(ys, n, p), strict=True)
    ]


def tilt_of(ys: Sequence[int], means: Sequence[float], n: int, deviations: Deviations, p: Law) -> float:
    """By bisection, the tilt with which posterior means, as limits have them, add up to n."""
    low, high = -60.0, -math.log(p.first * n / (n + deviations.far)) + 30 - n * math.log(p.fall)
    for _ in range(50):
        middle = (low + high) / 2
        total = sum(clipped_means(ys, means, n, deviations, p, middle))
        low, high = (low, middle) if total > n else (middle, high)
    return low


def posterior_means(
    ys: Sequence[int], means: Sequence[float], n: int, deviations: Deviations, p: Law
) -> list[float]:
    return clipped_means(ys, means, n, deviations, p, tilt_of(ys, means, n, deviations, p))


def losses(
    choices: Sequence[float],
    ys: Sequence[int],
    means: Sequence[float],
    n: int,
    deviations: Deviations,
    p: Law,
) -> list[dict[float, float]]:
    """By cell, the expected absolute error of each choice under the tilted posterior."""
    tilt = tilt_of(ys, means, n, deviations, p)
    every = [weights(y, m, n, deviations, p, tilt) for y, m in zip(ys, means, strict=True)]
    return [{j: sum(abs(x - j) * v for x, v in enumerate(w)) / sum(w) for j in choices} for w in every]


def log_likelihood(
    ys: Sequence[int], means: Sequence[float], n: int, deviations: Deviations, p: Law
) -> float:
    pairs = zip(ys, means, strict=True)
    return sum(math.log(sum(map(math.exp, log_weights(y, m, n, deviations, p, MOST)))) for y, m in pairs)


def fitted(
    seed: list[list[float]],
    n: Sequence[int],
    tables: Sequence[tuple[list[list[int]], list[float]]],
    rounds: int = 4000,
) -> list[list[float]]:
    """Proportional fitting, entry by entry: rows to n, sums of entries with one label to its target."""
    x = [list(row) for row in seed]
    for _ in range(rounds):
        for labels, targets in tables:
            sums = [0.0] * len(targets)
            for row, own in zip(x, labels, strict=True):
                for value, label in zip(row, own, strict=True):
                    sums[label] += value
            x = [
                [v * targets[i] / sums[i] if sums[i] else 0.0 for v, i in zip(row, own, strict=True)]
                for row, own in zip(x, labels, strict=True)
            ]
        x = [[v * size / sum(row) for v in row] for row, size in zip(x, n, strict=True)]
    return x


def subsets(
    x: Sequence[Sequence[Fraction]], steps: Sequence[int], areas: Sequence[int]
) -> Iterator[list[tuple[int, int]]]:
    """The entries of every sum that rounding keeps within one."""
    rows, cells = range(len(x)), range(len(x[0]))
    yield from ([(r, c)] for r, c in itertools.product(rows, cells))
    yield from ([(r, c) for r in rows] for c in cells)
    yield from ([(r, c) for r in rows if steps[r] == part] for part in set(steps) for c in cells)
    yield from ([(r, c) for c in cells if areas[c] == area] for area in set(areas) for r in rows)
    yield from ([(r, c) for r in rows for c in cells if areas[c] == area] for area in set(areas))


def measure(
    table: MeasuredTable, group: NDArray[np.int32], homes: NDArray[np.int32], stream: WordStream
) -> NDArray[np.int64]:
    """Count the jobs of each cell, and add noise to every count."""
    counts = count_cells(table, group, homes)
    return counts + table.parameters.draw(counts.size, stream)
