"""The whole truth of a small pool: every histogram, coin and output at once, in integers.

The same sums as `reference.Urn.distribution`, shared so that a complete grid is affordable: all probabilities
of a pool are integers over one denominator, and the coins enter only through which cells have workers and
which were drawn. tests/synth/test_truth.py holds it against the reference and against the definitions.

Where a ratio of two of these integers is compared with a bound, the quotient in floating point decides only
if it is not equal to the bound's: Python rounds the quotient of two integers correctly, so it never falls
when the exact ratio grows. Equal quotients are compared as integers.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from . import reference
from .reference import Histogram, Urn

Ratio = tuple[float, int, int]  # quotient correctly rounded, numerator, denominator
NO_LOSS: Ratio = (1.0, 1, 1)


@cache
def histograms(total: int, cells: int) -> tuple[Histogram, ...]:
    return tuple(reference.histograms(total, cells))


@cache
def supports(total: int, cells: int) -> tuple[int, ...]:
    """The cells that are not empty, as bits, of each histogram."""
    return tuple(sum(1 << c for c, x in enumerate(h) if x) for h in histograms(total, cells))


@cache
def multinomials(total: int, cells: int) -> tuple[int, ...]:
    return tuple(map(reference.multinomial, histograms(total, cells)))


@cache
def neighbours(total: int, cells: int) -> tuple[tuple[int, int], ...]:
    """Every two histograms of which one is the other with one worker moved, once each."""
    place = {h: number for number, h in enumerate(histograms(total, cells))}
    return tuple(
        (place[h], place[other])
        for h in place
        for i, j in itertools.permutations(range(cells), 2)
        if h[i] and place[h] < place[other := tuple(x - (c == i) + (c == j) for c, x in enumerate(h))]
    )


@cache
def ranks(
    workers: int, draws: int, strata: tuple[tuple[Fraction, Fraction], ...]
) -> tuple[list[Fraction], list[list[list[int]]]]:
    """Return all gains of cells of some strata, ascending; and the place there of each stratum, x and s."""
    gains = [
        [[cell_gain(x, s, stratum) for s in range(draws + 1)] for x in range(workers + 1)]
        for stratum in strata
    ]
    levels = sorted({gain for rows in gains for row in rows for gain in row})
    place = {gain: number for number, gain in enumerate(levels)}
    return levels, [[[place[gain] for gain in row] for row in rows] for rows in gains]


@cache
def cell_gain(count: int, s: int, stratum: tuple[Fraction, Fraction]) -> Fraction:
    return reference.cell_gain(count, s, *stratum)


@dataclass(frozen=True)
class Direction:
    """One ordered pair of neighbours: outputs more likely under the first, largest ratio first."""

    ratios: list[Ratio]
    keys: list[float]  # minus the quotients, which ascend
    here: list[int]  # sums of the probabilities of the first so many outputs, under both inputs
    there: list[int]

    @staticmethod
    def of(ratios: list[Ratio]) -> Direction:
        ratios.sort(reverse=True)
        return Direction(
            ratios,
            [-quotient for quotient, _, _ in ratios],
            list(itertools.accumulate((x for _, x, _ in ratios), initial=0)),
            list(itertools.accumulate((y for _, _, y in ratios), initial=0)),
        )

    def divergence(self, key: float, top: int, bottom: int) -> int:
        """The sum of (here - odds there)^+, times the denominators, for odds = top / bottom > 1."""
        position = bisect_left(self.keys, -key)
        total = bottom * self.here[position] - top * self.there[position]
        while position < len(self.keys) and self.keys[position] == -key:
            _, x, y = self.ratios[position]
            total += max(0, bottom * x - top * y)
            position += 1
        return total


class Truth:
    """P(s | h) of one pool for all h and s, and the largest losses, bad masses and divergences.

    Attributes
    ----------
    urn : Urn
    mass : list of list of int
        P(s | h) times `denominator`, in the order of `histograms`.
    levels : list of Fraction
        The gains e^U at which some output stops being bad for some histogram, ascending.
    level : list of list of int
        Of every h and s the place in `levels` of the smallest gain at which s is not bad.
    """

    def __init__(self, urn: Urn) -> None:
        self.urn = urn
        self.inputs, self.outputs = histograms(urn.n, urn.k), histograms(urn.m, urn.k)
        self.mass, self.denominator = masses(urn)
        for row in self.mass:
            assert sum(row) == self.denominator
            assert min(row) > 0
        strata = list(urn.strata)
        self.levels, of_strata = ranks(urn.n, urn.m, tuple(strata))
        cells = zip(urn.prior, urn.retention, strict=True)
        rank = [of_strata[strata.index(cell)] for cell in cells]
        self.level = [
            [max(row[c] for row, c in zip(rows, s, strict=True)) for s in self.outputs]
            for rows in ([rank[c][x] for c, x in enumerate(h)] for h in self.inputs)
        ]
        self._directions: list[Direction] = []
        # of every h and s, the largest loss against any neighbour, either sign, as odds
        self.loss: list[list[Ratio]] = [[NO_LOSS] * len(self.outputs) for _ in self.inputs]
        self._compare_neighbours()

    def _compare_neighbours(self) -> None:
        for h, other in neighbours(self.urn.n, self.urn.k):
            forward: list[Ratio] = []
            back: list[Ratio] = []
            one, two = self.loss[h], self.loss[other]
            for s, (x, y) in enumerate(zip(self.mass[h], self.mass[other], strict=True)):
                if x == y:
                    continue
                ratio = (x / y, x, y) if x > y else (y / x, y, x)
                (forward if x > y else back).append(ratio)
                if ratio[0] >= one[s][0] and exceeds(ratio, one[s]):
                    one[s] = ratio
                if ratio[0] >= two[s][0] and exceeds(ratio, two[s]):
                    two[s] = ratio
            self._directions += [Direction.of(forward), Direction.of(back)]
        self._directions.sort(key=lambda direction: direction.keys[:1] or [0.0])

    @property
    def pairs(self) -> int:
        """Ordered pairs of neighbours."""
        return len(self._directions)

    def bad_mass(self, gain: Fraction) -> Fraction:
        """The largest P(some block loss exceeds ln gain | h) over h."""
        first = bisect_right(self.levels, gain)
        return Fraction(
            max(
                sum(mass for mass, level in zip(*rows, strict=True) if level >= first)
                for rows in zip(self.mass, self.level, strict=True)
            ),
            self.denominator,
        )

    def largest_loss(self, gain: Fraction | None = None) -> Fraction:
        """e^(largest loss), of all outputs or of those that are not bad at a gain."""
        first = len(self.levels) if gain is None else bisect_right(self.levels, gain)
        _, top, bottom = self._loss_below[first]
        return Fraction(top, bottom)

    @cached_property
    def _loss_below(self) -> list[Ratio]:
        """The largest loss of all outputs below each level."""
        worst = [NO_LOSS] * len(self.levels)
        for losses, levels in zip(self.loss, self.level, strict=True):
            for ratio, level in zip(losses, levels, strict=True):
                if exceeds(ratio, worst[level]):
                    worst[level] = ratio
        return list(itertools.accumulate(worst, lambda x, y: y if exceeds(y, x) else x, initial=NO_LOSS))

    def excess_mass(self, odds: Fraction) -> Fraction:
        """The largest P(some neighbour's loss exceeds ln odds | h) over h: the true delta of pdp."""
        key = float(odds)
        bound = key, odds.numerator, odds.denominator
        if not exceeds(self._loss_below[-1], bound):
            return Fraction(0)
        return Fraction(
            max(
                sum(m for m, ratio in zip(*rows, strict=True) if ratio[0] >= key and exceeds(ratio, bound))
                for rows in zip(self.mass, self.loss, strict=True)
            ),
            self.denominator,
        )

    def divergence(self, odds: Fraction) -> Fraction:
        """The largest sup_A P(A | h) - odds P(A | h') over ordered neighbours, odds > 1."""
        key, top, bottom = float(odds), odds.numerator, odds.denominator
        worst = 0
        for direction in self._directions:
            if not direction.keys or -direction.keys[0] < key:
                break  # the directions come by falling largest ratio
            worst = max(worst, direction.divergence(key, top, bottom))
        return Fraction(worst, bottom * self.denominator)


def exceeds(one: Ratio, other: Sequence[float | int]) -> bool:
    """Whether a ratio is larger than another, exactly."""
    return one[0] > other[0] or (one[0] == other[0] and one[1] * other[2] > other[1] * one[2])


def masses(urn: Urn) -> tuple[list[list[int]], int]:
    """P(s | h) times a common denominator, and the denominator."""
    n, m, k = urn.n, urn.m, urn.k
    q = math.lcm(*(a.denominator for a in urn.prior))
    prior = [int(q * a) for a in urn.prior]
    # q^s rising(x + a, s) of each cell; the powers of q cancel, because the draws of all cells are m
    tops = [
        [[math.prod(q * x + a + q * i for i in range(s)) for s in range(m + 1)] for x in range(n + 1)]
        for a in prior
    ]
    subsets = range(1 << k)
    weights = [q * n + sum(a for c, a in enumerate(prior) if kept >> c & 1) for kept in subsets]
    bottoms = [math.prod(weight + q * i for i in range(m)) for weight in weights]
    common = math.lcm(*bottoms)
    coins = math.prod(f.denominator for f in urn.retention)
    # shares[occupied][drawn]: the sum over all coins that keep what is occupied or drawn of P(coins) / bottom
    shares: dict[int, list[int]] = {}
    for occupied in set(supports(n, k)):
        share = [
            math.prod(
                coin(f, bool(kept >> c & 1), bool(occupied >> c & 1)) for c, f in enumerate(urn.retention)
            )
            * (common // bottoms[kept])
            for kept in subsets
        ]
        for c in range(k):  # sums over all supersets
            for kept in subsets:
                if not kept >> c & 1:
                    share[kept] += share[kept | 1 << c]
        shares[occupied] = [share[occupied | drawn] for drawn in subsets]
    outputs = list(zip(histograms(m, k), multinomials(m, k), supports(m, k), strict=True))
    result = []
    for h, occupied in zip(histograms(n, k), supports(n, k), strict=True):
        rows, share = [tops[c][x] for c, x in enumerate(h)], shares[occupied]
        result.append(
            [
                orders * share[drawn] * math.prod(row[c] for row, c in zip(rows, s, strict=True))
                for s, orders, drawn in outputs
            ]
        )
    return result, common * coins


def coin(f: Fraction, kept: bool, occupied: bool) -> int:
    """P(a cell is kept, or is not), times the denominator of its retention."""
    if occupied:
        return f.denominator if kept else 0
    return f.numerator if kept else f.denominator - f.numerator
