"""Pools of few cells: the probability of a loss above epsilon, with the cell that gains a worker.

`synth.dirichlet.losses.failure_bound` takes a cell to be bad by its own draws alone. But who leaves a cell
comes to another one, whose draws make the loss smaller. Where cells are many, there is nearly always one
without workers and draws, which changes nothing. Where there are two, leaving it out costs orders of
magnitude.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product
from typing import Any

import flint

from synth.dirichlet.losses import PoolClass, bad_threshold, failure_bound
from synth.tails import FLOAT, Arithmetic, rational, ways

FEW = 5
"""Pools of at most so many cells have sums of their own, here and in `synth.dirichlet.pairs`."""

_MOST_DRAWS = 400  # of a pool; with more, the bounds for any number of cells have to do
_MOST_CASES = 6000  # histograms of a pool, about, times what coins may say, for the same reason

_Cell = tuple[int, int]  # stratum and workers
_Histogram = Counter[_Cell]  # how many cells of a stratum have so many workers
# What coins may say: its probability, how many cells of each stratum they leave out, the cells inside.
_Urn = tuple[Fraction, tuple[int, ...], _Histogram]


def loss_bound(
    pool_class: PoolClass,
    arithmetic: Arithmetic,
    alike: bool,
    enough: Any = None,
    lightest: bool = False,
) -> tuple[Any, Any]:
    """Bound the probability of a loss above U* + V, and the delta of one person at that loss.

    They are those of `synth.dirichlet.losses.failure_bound`; where pools are alike, the first is that of
    `few_cells_bound` if it is smaller.

    Parameters
    ----------
    pool_class, arithmetic
        As for `synth.dirichlet.losses.failure_bound`.
    alike : bool
        Whether every pool of the class has exactly n_max slots, m_max draws and these cells.
    enough, lightest
        As for `synth.dirichlet.losses.failure_bound`.
    """
    if not (alike and summable(pool_class)):
        return failure_bound(pool_class, arithmetic, enough, lightest)
    failure, person = failure_bound(pool_class, arithmetic)
    few = few_cells_bound(pool_class, arithmetic)
    return few if few is not None and few < failure else failure, person


def summable(pool_class: PoolClass) -> bool:
    """Say whether the cells and draws of a pool are few enough for sums over pairs of cells."""
    return 2 <= sum(pool_class.cells) <= FEW and pool_class.m_max <= _MOST_DRAWS


def few_cells_bound(
    pool_class: PoolClass,
    arithmetic: Arithmetic,
) -> Any | None:
    """Bound the probability of a loss above U* + V in pools of few cells.

    Lemma 32 of docs/privacy.md.

    Parameters
    ----------
    pool_class : PoolClass
        Every pool has exactly n_max slots, m_max draws and these cells.
    arithmetic
        As for `synth.dirichlet.losses.failure_bound`.

    Returns
    -------
    float, flint.arb or None
        The largest bound of any histogram; None where there are too many cells, draws or histograms.

    Notes
    -----
    Histograms are taken by the falling sum of the tails of their cells. Sums over pairs of cells are computed
    until the largest is above the tails of all histograms that are left.
    """
    c = pool_class
    k = sum(c.cells)
    histograms = math.comb(c.n_max + k - 1, k - 1) // math.prod(map(math.factorial, c.cells))
    coins = math.prod(x + 1 for x, f in zip(c.cells, c.retention, strict=True) if f < 1)
    if not summable(c) or histograms * coins > _MOST_CASES:
        return None
    sums = _Sums(c, arithmetic)
    bounds = [(sums.bound(urns, pairs=False), urns) for urns in _cases(c.n_max, c.cells, c.retention)]
    # Floats can be compared as they are: as fractions that would take most of the time of a search.
    lower = float if arithmetic is FLOAT else arithmetic.lower
    bounds.sort(key=lambda row: lower(row[0]), reverse=True)
    worst = arithmetic.number(0)
    for tails, urns in bounds:
        if not tails < worst:
            worst = arithmetic.larger(worst, sums.bound(urns, pairs=True))
    return worst


@lru_cache(maxsize=16)  # a search asks again and again, with other priors
def _cases(workers: int, cells: tuple[int, ...], retention: tuple[Fraction, ...]) -> list[list[_Urn]]:
    """Return of all histograms the urns that coins may leave."""
    return [list(_urns(h, retention)) for h in _histograms(workers, cells)]


def _urns(histogram: _Histogram, retention: tuple[Fraction, ...]) -> Iterator[_Urn]:
    coins = [(s, k) for (s, x), k in histogram.items() if not x and retention[s] < 1]
    for kept in product(*(range(k + 1) for _, k in coins)):
        chance, out, inside = Fraction(1), [0] * len(retention), histogram.copy()
        for (s, k), number in zip(coins, kept, strict=True):
            f = retention[s]
            chance *= math.comb(k, number) * f**number * (1 - f) ** (k - number)
            out[s] = k - number
            inside[s, 0] = number
        yield chance, tuple(out), +inside


def _histograms(workers: int, cells: tuple[int, ...]) -> list[_Histogram]:
    strata = [s for s, k in enumerate(cells) for _ in range(k)]

    def fill(place: int, left: int, most: int) -> Iterator[list[_Cell]]:
        stratum = strata[place]
        if place == len(strata) - 1:
            if left <= most:
                yield [(stratum, left)]
            return
        same_stratum = strata[place + 1] == stratum
        for x in range(min(left, most), -1, -1):
            for rest in fill(place + 1, left - x, x if same_stratum else left):
                yield [(stratum, x), *rest]

    return [Counter(cells) for cells in fill(0, workers, workers)]


class _Sums:
    """The sums over draws that the histograms of a class share.

    Weights are integers over q. An urn is named by its whole weight.
    """

    def __init__(self, pool_class: PoolClass, arithmetic: Arithmetic) -> None:
        self._class, self._retention, self._q = pool_class, pool_class.retention, pool_class.denominator
        self._arithmetic, self._zero = arithmetic, arithmetic.number(0)
        self._full = self._q * pool_class.n_max + sum(
            a * k for a, k in zip(pool_class.prior, pool_class.cells, strict=True)
        )
        m = pool_class.m_max
        self._scale = Fraction(m * self._q, self._full + m * self._q) if m else Fraction(1)
        self._ways_of: dict[int, list[Any]] = {}
        self._marginals: dict[tuple[int, _Cell], list[Any]] = {}
        self._tails: dict[tuple[int, _Cell], Any] = {}
        self._pairs: dict[tuple[int, _Cell, _Cell], list[Any]] = {}

    def bound(self, urns: list[_Urn], *, pairs: bool) -> Any:
        """Bound the probability of a bad output, of one histogram; without `pairs` by tails alone."""
        total = self._zero
        for chance, out, inside in urns:
            weight, missing = self._without(out), any(out)
            bad = self._zero
            for cell, times in inside.items():
                tail = self._tail(weight, cell)
                # To leave for a cell that is not in the urn has the whole loss.
                if tail and pairs and not (missing and cell[1]):
                    tail = sum(self._with_others(weight, cell, inside), self._zero)
                bad = bad + times * tail
            total = total + self._arithmetic.number(chance) * bad / self._ways(weight)[self._class.m_max]
        return total

    def _without(self, out: tuple[int, ...]) -> int:
        """Return the whole weight of the urn that has all cells but so many of each stratum."""
        return self._full - sum(a * k for a, k in zip(self._class.prior, out, strict=True))

    def _with_others(self, weight: int, cell: _Cell, inside: _Histogram) -> list[Any]:
        """Return, for each s above the threshold of a cell, a bound of P(s, and the loss is above U*)."""
        likely = self._marginal(weight, cell)
        joint = [self._zero] * len(likely)
        for other, times in inside.items():
            count = times - (other == cell)
            if count and (cell[1] or other[1]):  # nobody moves between two cells without workers
                joint = [x + count * y for x, y in zip(joint, self._pair(weight, cell, other), strict=True)]
        return [x if x < y else y for x, y in zip(joint, likely, strict=True)]

    def _of(self, cell: _Cell, *, gains: bool) -> tuple[int, Fraction]:
        """Return b and f of a cell's loss (1 + s/b)/f, when it loses a worker or gains one."""
        stratum, workers = cell
        base = (workers if gains else workers - 1) * self._q + self._class.prior[stratum]
        return base, self._retention[stratum] if workers == (not gains) else Fraction(1)

    def _weight(self, cell: _Cell) -> int:
        return cell[1] * self._q + self._class.prior[cell[0]]

    def _ways(self, weight: int) -> list[Any]:
        if weight not in self._ways_of:
            exact = Fraction(weight, self._q)
            self._ways_of[weight] = ways(self._class.m_max, exact, self._scale, self._arithmetic)
        return self._ways_of[weight]

    def _above(self, cell: _Cell) -> range:
        """Return each s above the threshold of a cell."""
        prior = flint.fmpq(self._class.prior[cell[0]], self._q)
        threshold = bad_threshold(
            cell[1], prior, rational(self._retention[cell[0]]), rational(self._class.gain)
        )
        return range(threshold + 1, self._class.m_max + 1)

    def _marginal(self, weight: int, cell: _Cell) -> list[Any]:
        """Return P(s), up to a factor, for each s above the threshold of a cell."""
        key = weight, cell
        if key not in self._marginals:
            cell_ways, other_ways = self._ways(self._weight(cell)), self._ways(weight - self._weight(cell))
            self._marginals[key] = [
                cell_ways[s] * other_ways[self._class.m_max - s] for s in self._above(cell)
            ]
        return self._marginals[key]

    def _tail(self, weight: int, cell: _Cell) -> Any:
        """Return their sum."""
        key = weight, cell
        if key not in self._tails:
            self._tails[key] = sum(self._marginal(weight, cell), self._zero)
        return self._tails[key]

    def _pair(self, weight: int, cell: _Cell, other: _Cell) -> list[Any]:
        """Return P(s, and the draws t of another cell have a loss above U*), for the same s."""
        key = weight, cell, other
        if key not in self._pairs:
            self._pairs[key] = list(self._joint(*key))
        return self._pairs[key]

    def _joint(self, weight: int, cell: _Cell, other: _Cell) -> Iterator[Any]:
        base, f = self._of(cell, gains=not cell[1])
        other_base, other_f = self._of(other, gains=bool(cell[1]))
        q, m = self._q, self._class.m_max
        cell_ways, other_ways = self._ways(self._weight(cell)), self._ways(self._weight(other))
        # Of the draws that are left for other cells, the most first.
        rest_ways = self._ways(weight - self._weight(cell) - self._weight(other))[::-1]
        # The loss is above U* for t = 0, and where (1 + s/b)/f > G (1 + t/b')/f': solved for t, in integers.
        ratio = other_f / (f * self._class.gain)
        up, down = ratio.numerator, ratio.denominator * base
        for s in self._above(cell):
            room = other_base * (up * (base + s * q) - down)
            most = min(max((room - 1) // (q * down), 0), m - s)
            yield cell_ways[s] * sum(
                map(operator.mul, other_ways[: most + 1], rest_ways[s : s + most + 1]), self._zero
            )
