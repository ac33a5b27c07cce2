"""Slow, obvious, exact: the mechanism and the sums of docs/privacy.md in rational arithmetic.

Nothing here uses `synth` for a number, so that a test that compares the two compares two derivations.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

Histogram = tuple[int, ...]
Distribution = dict[Histogram, Fraction]


def rising(x: Fraction | int, count: int) -> Fraction:
    """x (x+1) ... (x+count-1)."""
    return math.prod((Fraction(x) + i for i in range(count)), start=Fraction(1))


def histograms(total: int, cells: int) -> Iterator[Histogram]:
    """All histograms of `total` workers over `cells` cells."""
    if cells == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in histograms(total - first, cells - 1):
            yield (first, *rest)


def divergence(p: Mapping[Any, Fraction], q: Mapping[Any, Fraction], odds: Fraction) -> Fraction:
    """The sum of what is more likely by p than odds times by q."""
    return sum((max(Fraction(0), mass - odds * q[s]) for s, mass in p.items()), Fraction(0))


def multinomial(s: Histogram) -> int:
    return math.factorial(sum(s)) // math.prod(map(math.factorial, s))


@dataclass(frozen=True)
class Urn:
    """One pool with its own prior and retention for every cell."""

    n: int
    m: int
    prior: tuple[Fraction, ...]
    retention: tuple[Fraction, ...]

    @property
    def k(self) -> int:
        return len(self.prior)

    @cached_property
    def strata(self) -> Counter[tuple[Fraction, Fraction]]:
        """How many cells have a prior and a retention, in order."""
        return Counter(sorted(zip(self.prior, self.retention, strict=True)))

    def histograms(self) -> list[Histogram]:
        return list(histograms(self.n, self.k))

    def neighbours(self, h: Histogram) -> Iterator[Histogram]:
        """h - e_i + e_j for all i != j."""
        for i, j in itertools.permutations(range(self.k), 2):
            if h[i]:
                yield tuple(x - (c == i) + (c == j) for c, x in enumerate(h))

    def coins(self, h: Histogram) -> Iterator[tuple[tuple[bool, ...], Fraction]]:
        """Every outcome of step 1: which cells are kept, with what probability."""
        choices = [
            [(True, Fraction(1))] if x or f == 1 else [(True, f), (False, 1 - f)]
            for x, f in zip(h, self.retention, strict=True)
        ]
        for outcome in itertools.product(*choices):
            yield tuple(kept for kept, _ in outcome), math.prod((p for _, p in outcome), start=Fraction(1))

    def distribution(self, h: Histogram) -> Distribution:
        """P(s | h), literally: all coins first, then Dirichlet-multinomial over the kept cells."""
        total: Distribution = {s: Fraction(0) for s in histograms(self.m, self.k)}
        q = math.lcm(*(a.denominator for a in self.prior))
        for kept, chance in self.coins(h):
            weights = tuple(
                q * x + int(q * a) if keep else 0 for x, a, keep in zip(h, self.prior, kept, strict=True)
            )
            bottom = _steps(sum(weights), q, self.m)
            for s in total:
                top = multinomial(s) * math.prod(_steps(w, q, c) for w, c in zip(weights, s, strict=True))
                if top:
                    total[s] += chance * Fraction(top, bottom)
        return total


@cache
def _steps(weight: int, q: int, count: int) -> int:
    """q^count rising(weight / q, count), an integer; 0 for a cell that is not there."""
    return math.prod(weight + q * i for i in range(count))


def beta_binomial_tail(draws: int, weight: Fraction, rest: Fraction, threshold: int) -> Fraction:
    """P(s > threshold), s ~ BetaBinomial(draws, weight, rest), as a plain sum."""
    q = math.lcm(weight.denominator, rest.denominator)
    w, r = int(q * weight), int(q * rest)
    masses = (
        math.comb(draws, s) * _steps(w, q, s) * _steps(r, q, draws - s)
        for s in range(max(0, threshold + 1), draws + 1)
    )
    return Fraction(sum(masses), _steps(w + r, q, draws))


def block_gain(x: int, s: int, prior: Fraction, retention: Fraction) -> Fraction:
    """e^u for a cell whose count goes from x to x + 1 (Lemma 1)."""
    if x == 0:
        return (1 + s / prior) / retention if s else Fraction(1)
    return 1 + s / (x + prior)


def cell_gain(count: int, s: int, prior: Fraction, retention: Fraction) -> Fraction:
    """Largest e^u of a cell with `count` workers, over gaining one and losing one."""
    gains = [block_gain(count, s, prior, retention)]
    if count:
        gains.append(block_gain(count - 1, s, prior, retention))
    return max(gains)


def is_bad(urn: Urn, h: Histogram, s: Histogram, gain: Fraction) -> bool:
    """Whether some block loss exceeds U* = ln gain."""
    return any(cell_gain(*cell) > gain for cell in zip(h, s, urn.prior, urn.retention, strict=True))


def pruning_gain(urn: Urn, *, certain: bool = False) -> Fraction:
    """e^V of Lemma 2: rational, since m is an integer. With `certain`, with the mass of retention 1."""
    sure = sum((a for a, f in zip(urn.prior, urn.retention, strict=True) if f == 1 and certain), Fraction(0))
    base = urn.n + max(min(urn.prior), sure)
    return max(
        f + (1 - f) * rising(base + a, urn.m) / rising(base, urn.m)
        for a, f in zip(urn.prior, urn.retention, strict=True)
    )


SMALL = 16  # up to here the worst composition is asked for, not n max T(x)/x


def failure(urn: Urn, gain: Fraction, kept: Fraction = Fraction(0)) -> tuple[Fraction, Fraction]:
    """F and the person's delta by brute force over x: the smaller of a bound by workers and one by cells.

    The urn holds the document's W, or the prior mass `kept` if that is more.
    """
    smallest = min(urn.prior)
    per_worker = person = zero = per_cell = Fraction(0)
    rises: list[list[Fraction]] = []
    for a, f in zip(urn.prior, urn.retention, strict=True):
        tails = []
        for x in range(urn.n + 1):
            rest = urn.n - x + max(kept - a, smallest if x < urn.n else Fraction(0))
            # the largest s that is not bad, found by asking for every s
            threshold = max(s for s in range(urn.m + 1) if cell_gain(x, s, a, f) <= gain or s == 0)
            tails.append(beta_binomial_tail(urn.m, x + a, Fraction(rest), threshold))
        empty, occupied = f * tails[0], tails[1:]
        zero += empty
        per_cell += max(empty, *occupied)
        person = max(person, *occupied)
        per_worker = max(per_worker, *(tail / x for x, tail in enumerate(occupied, start=1)))
        rises.append([tail - empty for tail in tails])
    by_workers = urn.n * per_worker if urn.n > SMALL else worst_composition(urn.n, rises)
    return min(by_workers + zero, per_cell), person


def worst_composition(workers: int, rises: Sequence[Sequence[Fraction]]) -> Fraction:
    """The largest sum of rises over all ways to put at most so many workers into cells: every partition."""

    @cache
    def most(left: int, largest: int) -> Fraction:
        sums = [rise[x] + most(left - x, x) for x in range(1, min(left, largest) + 1) for rise in rises]
        return max(sums, default=Fraction(0)) if max(sums, default=Fraction(0)) > 0 else Fraction(0)

    return most(workers, workers)


def chi_square_p(observed: Sequence[int] | NDArray[np.int64], expected: Sequence[float]) -> float:
    """Upper tail probability of Pearson's statistic."""
    statistic = sum((o - e) ** 2 / e for o, e in zip(np.asarray(observed).tolist(), expected, strict=True))
    freedom = len(expected) - 1
    return float(flint.arb(statistic / 2).gamma_upper(flint.arb(freedom) / 2, 1))
