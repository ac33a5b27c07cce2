"""The privacy loss of Dirichlet resampling with pruning, and the probability that it is exceeded.

Lemmas 1 and 3 to 7 of docs/privacy.md. A class of pools shares the prior numerators A_s (over one
denominator q), the retentions f_s and the gain G = e^U*, a rational number, so that every threshold
of the bad event is decided in exact arithmetic and a logarithm is taken only at the very end.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import flint

from synth.tails import REST, Arithmetic, chernoff_bound, rational, tail_bound

_SMALL = 16  # pools of at most so many slots: the worst composition is found exactly
MAX_COUNTS = 2000
"""Counts x whose tails are summed before the bound gives up (and says 1)."""

_QUICK = flint.fmpq(2**20)  # the geometric rest where a range may be left out: next to nothing is summed
_MORE = 1 + REST  # what may be left of a tail that was summed, beside it

Exact = TypeVar("Exact", Fraction, flint.fmpq)


@dataclass(frozen=True)
class PoolClass:
    """Pools that share one bound: what is true of all of them, and the numbers they use.

    Attributes
    ----------
    n_min, n_max : int
        Every pool of the class has n_min <= n <= n_max slots.
    m_max : int
        Every pool of the class has at most this many draws.
    cells : tuple of int
        Per retention stratum, the largest number of cells of any pool of the class.
    cells_min : tuple of int
        Per retention stratum, the smallest number of cells of any pool of the class.
    kept : tuple of int
        Per retention stratum, the number of cells that the bound takes to be in the urn, at most
        cells_min. All are where the retention is 1; elsewhere the probability that fewer are
        (`shortfall_bound`) is part of the bound.
    gain : Fraction
        G = e^U*, the largest block loss that is not bad, as odds; > 1.
    prior : tuple of int
        Per retention stratum, the numerator A_s of the prior a_s = A_s / q; >= 1.
    retention : tuple of Fraction
        f_s per stratum, the same for all classes of a plan.
    denominator : int
        q, the same for all classes of a plan.
    """

    n_min: int
    n_max: int
    m_max: int
    cells: tuple[int, ...]
    cells_min: tuple[int, ...]
    kept: tuple[int, ...]
    gain: Fraction
    prior: tuple[int, ...]
    retention: tuple[Fraction, ...]
    denominator: int

    def __repr__(self) -> str:
        return f"<PoolClass: {self.n_min:,} to {self.n_max:,} slots, up to {sum(self.cells):,} cells>"

    @property
    def keeps_all(self) -> bool:
        """Whether all cells are in the urn for sure."""
        return all(f == 1 for f, k in zip(self.retention, self.cells, strict=True) if k)

    @property
    def certain_mass(self) -> Fraction:
        """The prior mass of the cells in `kept` whose retention is 1."""
        kept = zip(self.prior, self.kept, self.retention, strict=True)
        return Fraction(sum(a * k for a, k, f in kept if f == 1), self.denominator)


def bad_threshold(count: int, prior: Exact, retention: Exact, gain: Exact) -> int:
    """Return the largest number of draws s from a cell that is not bad.

    Lemma 1 of docs/privacy.md.

    Parameters
    ----------
    count : int
        x, the workers in the cell.
    prior, retention : fmpq or Fraction
        a_c > 0 and f_c in (0, 1] of the cell.
    gain : fmpq or Fraction
        G = e^U*.

    Returns
    -------
    int
        Draws s > this (and s > 0) are bad. Equality is not bad: the loss is then exactly U*.

    Notes
    -----
    x >= 2: ln(1 + s/(x - 1 + a)) <= U*; x in {0, 1}: ln(1 + s/a) + ln(1/f) <= U*.
    """
    # Exact, and rounded down: `int` cuts off what is behind the point.
    if count >= 2:
        return max(0, int((gain - 1) * (count - 1 + prior)))
    return max(0, int((retention * gain - 1) * prior))


def empty_threshold(pool_class: PoolClass) -> int:
    """Return t, the smallest `bad_threshold` of an empty cell of any stratum of the class.

    Lemma 1 of docs/privacy.md.
    """
    gain = rational(pool_class.gain)
    return min(
        bad_threshold(0, flint.fmpq(a, pool_class.denominator), rational(f), gain)
        for a, f, k in zip(pool_class.prior, pool_class.retention, pool_class.cells, strict=True)
        if k
    )


def failure_bound(
    pool_class: PoolClass,
    arithmetic: Arithmetic,
    enough: Any = None,
    lightest: bool = False,
) -> tuple[Any, Any]:
    """Bound the probability of the bad event for any pool of the class and any histogram.

    Lemma 7 of docs/privacy.md.

    Parameters
    ----------
    pool_class : PoolClass
    arithmetic : Arithmetic
        `FLOAT` for a search, `BALL` for a certificate.
    enough : float or flint.arb, optional
        Above it, all are 1: where cells without workers alone are above it, nothing else is looked at.
    lightest : bool
        Whether cells that are kept for sure are all taken to have the smallest of their priors, whose tails
        are the largest as a rule: for a search, as nothing is proved then.

    Returns
    -------
    failure, person : float or flint.arb
        The pool's delta, F = eta + the smaller of two bounds of the worst histogram:
        n max_{c, 1 <= x <= n} T_c(x)/x + sum_c f_c T_c(0), where workers are what is scarce (for small pools
        the worst composition itself, `worst_composition`), and
        sum_c max(f_c T_c(0), max_{x >= 1} T_c(x)), where cells are. And
        eta + max_{c, x >= 1} T_c(x), which bounds the delta of one person's (eps, delta)-DP.

    Notes
    -----
    T_c(x) is the tail beyond `bad_threshold` at the smallest weight the urn can have: max(n_min, x)
    real workers, and the larger of the prior mass of `PoolClass.kept` and the cell's own prior with,
    when another worker must exist (x < n_min), the smallest prior. The urn is lighter than that with
    probability at most eta (`shortfall_bound`).
    """
    number = arithmetic.number
    zero_cells, per_worker, per_cell, person = number(0), number(0), number(0), number(0)
    gain, present = rational(pool_class.gain), strata(pool_class, lightest=lightest)
    tails = []
    for stratum in present:
        threshold = bad_threshold(0, stratum.prior, stratum.retention, gain)
        tails.append(tail_bound(pool_class.m_max, stratum.prior, stratum.rest(0), threshold, arithmetic))
        zero_cells = zero_cells + number(stratum.cells) * number(stratum.retention) * tails[-1]
    if enough is not None and zero_cells > enough:
        return number(1), number(1)
    for stratum, tail in zip(present, tails, strict=True):
        kept, cells = number(stratum.retention), number(stratum.cells)
        ratio, largest = worst_occupied_cell(stratum, gain, arithmetic)
        per_cell = per_cell + cells * arithmetic.larger(kept * tail, largest)
        per_worker, person = arithmetic.larger(per_worker, ratio), arithmetic.larger(person, largest)
    shortfall = shortfall_bound(pool_class, arithmetic)
    if pool_class.n_max <= _SMALL:
        by_workers = zero_cells + worst_composition(pool_class, arithmetic)
    else:
        by_workers = number(pool_class.n_max) * per_worker + zero_cells
    worst = by_workers if by_workers < per_cell else per_cell
    return worst + shortfall, person + shortfall


def worst_composition(pool_class: PoolClass, arithmetic: Arithmetic) -> Any:
    """Return by how much occupied cells can raise the probability of a bad one, over all histograms.

    Lemma 7 of docs/privacy.md.

    Returns
    -------
    float or flint.arb
        max over at most n_max workers, in cells of any strata, of the sum of T_s(x) - f_s T_s(0) over the
        occupied cells; at least 0. Exact where every stratum has a cell for each worker, else a bound.
    """
    number, draws, gain = arithmetic.number, pool_class.m_max, rational(pool_class.gain)
    rises = []
    for stratum in strata(pool_class):
        tails = [
            tail_bound(
                draws,
                x + stratum.prior,
                stratum.rest(x),
                bad_threshold(x, stratum.prior, stratum.retention, gain),
                arithmetic,
            )
            for x in range(pool_class.n_max + 1)
        ]
        empty = number(stratum.retention) * tails[0]
        rises.append([tail - empty for tail in tails])
    # best[w]: the most that w workers can add, some of whom may be left out.
    best = [number(0)]
    for workers in range(1, pool_class.n_max + 1):
        most = best[-1]
        for rise in rises:
            for x in range(1, workers + 1):
                most = arithmetic.larger(most, best[workers - x] + rise[x])
        best.append(most)
    return best[-1]


def shortfall_bound(pool_class: PoolClass, arithmetic: Arithmetic) -> Any:
    """Bound eta, the probability that fewer cells than `PoolClass.kept` are in the urn, in any stratum.

    Lemma 4 of docs/privacy.md.

    Notes
    -----
    A cell with workers is in the urn for sure, an empty one with probability f, independently; so the
    number in the urn is at least Binomial(cells_min, f) in distribution. With p = (kept - 1)/cells_min
    below f, P(Binomial <= kept - 1) <= exp(-cells_min KL(p, f)), KL the relative entropy of coins
    (Chernoff 1952).
    """
    number, log = arithmetic.number, arithmetic.log
    total = number(0)
    for f, cells, kept in zip(pool_class.retention, pool_class.cells_min, pool_class.kept, strict=True):
        if f == 1 or kept == 0:
            continue
        p = Fraction(kept - 1, cells)
        if p >= f:
            return number(1)
        entropy = number(1 - p) * log(number((1 - p) / (1 - f)))
        if p > 0:
            entropy = entropy + number(p) * log(number(p / f))
        total = total + arithmetic.exp(-number(cells) * entropy)
    return total


class Stratum(NamedTuple):
    """The cells of one retention stratum in the pools of a class, for the bounds of this module.

    Attributes
    ----------
    pool_class : PoolClass
    cells : int
        Largest number of these cells in a pool.
    prior, retention : fmpq
        a and f of these cells.
    alone : fmpq
        Prior mass of the cells of `PoolClass.kept` beside one of these, at least 0.
    with_others : fmpq
        The same where another cell has a worker: at least the smallest prior of any cell of the class.
    """

    pool_class: PoolClass
    cells: int
    prior: flint.fmpq
    retention: flint.fmpq
    alone: flint.fmpq
    with_others: flint.fmpq

    def rest(self, count: int) -> flint.fmpq:
        """Return a lower bound of W - w for a cell of the stratum with `count` workers.

        Lemma 3 of docs/privacy.md.
        """
        other_workers = self.pool_class.n_min - count
        return self.with_others + other_workers if other_workers > 0 else self.alone


def strata(pool_class: PoolClass, *, lightest: bool = False) -> list[Stratum]:
    """Return the strata that have cells in a class.

    With `lightest`, all cells that are kept for sure are in one, as if they had the smallest of their priors.
    """
    rows, q = (
        zip(pool_class.cells, pool_class.prior, pool_class.retention, strict=True),
        pool_class.denominator,
    )
    present = [(k, a, f) for k, a, f in rows if k]
    smallest = min([a for _, a, _ in present])
    mass = sum(map(operator.mul, pool_class.prior, pool_class.kept))
    if lightest:
        sure = [row for row in present if row[2] == 1]
        if len(sure) > 1:
            coins = [row for row in present if row[2] != 1]
            present = [(sum([k for k, _, _ in sure]), min([a for _, a, _ in sure]), sure[0][2]), *coins]
    return [
        Stratum(
            pool_class,
            k,
            flint.fmpq(a, q),
            rational(f),
            flint.fmpq(max(mass - a, 0), q),
            flint.fmpq(max(mass - a, smallest), q),
        )
        for k, a, f in present
    ]


def worst_occupied_cell(stratum: Stratum, gain: flint.fmpq, arithmetic: Arithmetic) -> tuple[Any, Any]:
    """Bound max T(x)/x and max T(x) over all counts 1 <= x <= n_max of a cell.

    Lemma 6 and Lemma 36 of docs/privacy.md.

    Parameters
    ----------
    stratum : Stratum
    gain : fmpq
        G > 1; T(x) is the tail beyond `bad_threshold` for this gain.
    arithmetic : Arithmetic

    Returns
    -------
    per_worker, largest : float or flint.arb
        The same as if the tail of every count were summed.

    Notes
    -----
    Counts are looked at upwards, in ranges. A range is left out if one quick bound of all its tails is below
    both maxima; a range that is not is halved, down to the counts that share a threshold, of which the last
    is summed. This ends when the threshold passes m_max (no draw can be bad from there on), when x passes
    n_max, or when one Chernoff bound for all further x is below both maxima.
    """
    number, counts = arithmetic.number, Counts(stratum, gain, arithmetic)
    most, draws = stratum.pool_class.n_max, stratum.pool_class.m_max
    per_worker = largest = counts.tail(1, 1)
    x, width, summed, last_checked = 2, 1, 1, 0
    while x <= most and counts.threshold(x) < draws:
        if 4 * x >= 5 * last_checked:  # at every x it would take most of the time
            if counts.ended(x, per_worker, largest):
                break
            last_checked = x
        if summed >= MAX_COUNTS or (most > MAX_COUNTS and counts.never_end):
            return arithmetic.larger(per_worker, number(1) / x), number(1)
        alike = counts.last_alike(x)
        last = max(min(x + width - 1, most), alike)
        quick = counts.tail(x, last, _QUICK) * number(_MORE)  # no smaller than what is summed, either
        if quick <= largest and quick / x <= per_worker:
            x, width = last + 1, width + max(width // 4, 1)
            continue
        if last > alike:
            width //= 2
            continue
        tail = counts.tail(x, alike)
        if not tail / x <= per_worker:
            alike, tail = x, counts.tail(x, x)
            per_worker = arithmetic.larger(per_worker, tail / x)
        largest = arithmetic.larger(largest, tail)
        x, summed = alike + 1, summed + 1
    return per_worker, largest


class Counts:
    """The counts of workers that a cell may have: their thresholds, and bounds of their tails."""

    def __init__(self, stratum: Stratum, gain: flint.fmpq, arithmetic: Arithmetic) -> None:
        self._stratum, self._gain, self._arithmetic = stratum, gain, arithmetic

    @cached_property
    def _ratio(self) -> flint.fmpq:
        c = self._stratum.pool_class
        return c.m_max / (c.n_min + self._stratum.prior + self._stratum.alone)

    @property
    def never_end(self) -> bool:
        """Whether `ended` is false for every x: the mean of the draws is never below the threshold."""
        return self._gain - 1 <= self._ratio

    def threshold(self, x: int) -> int:
        """Return `bad_threshold` of a count."""
        return bad_threshold(x, self._stratum.prior, self._stratum.retention, self._gain)

    def last_alike(self, x: int) -> int:
        """Return the last count that has the threshold of the count x >= 2."""
        next_one = (self.threshold(x) + 1) / (self._gain - 1) - self._stratum.prior + 1
        return min(int(next_one.ceil()) - 1, self._stratum.pool_class.n_max)

    def tail(self, first: int, last: int, rest_share: flint.fmpq = REST) -> Any:
        """Bound the tails of all counts of a range (`tail_bound`)."""
        return tail_bound(
            self._stratum.pool_class.m_max,
            last + self._stratum.prior,
            self._stratum.rest(last),
            self.threshold(first),
            self._arithmetic,
            None,
            rest_share,
        )

    def ended(self, x: int, per_worker: Any, largest: Any) -> bool:
        """Say whether `chernoff_bound`, of all counts from x >= 2 on, is below both maxima."""
        slope, prior = self._gain - 1, self._stratum.prior
        beyond = chernoff_bound(slope * (x - 1 + prior), x + prior, self._ratio, slope, self._arithmetic)
        return beyond is not None and bool(beyond / x < per_worker and beyond < largest)
