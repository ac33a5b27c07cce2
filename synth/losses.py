"""The privacy loss of Dirichlet resampling with pruning, and the probability that it is exceeded.

Lemmas 1 and 3 to 7 of docs/privacy.md. A class of pools shares the prior numerators A_s (over one
denominator q), the retentions f_s and the gain G = e^U*, a rational number, so that every threshold
of the bad event is decided in exact arithmetic and a logarithm is taken only at the very end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from synth.tails import Arithmetic, chernoff_bound, tail_bound

__all__ = [
    "PoolClass",
    "bad_threshold",
    "empty_threshold",
    "failure_bound",
    "shortfall_bound",
    "worst_composition",
]

_SMALL = 16  # pools of at most so many slots: the worst composition is found exactly
_MAX_COUNTS = 2000  # counts x evaluated one by one before the bound gives up (and says 1)


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
    """

    n_min: int
    n_max: int
    m_max: int
    cells: tuple[int, ...]
    cells_min: tuple[int, ...]
    kept: tuple[int, ...]
    gain: Fraction
    prior: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<PoolClass: {self.n_min:,} to {self.n_max:,} slots, up to {sum(self.cells):,} cells>"

    def kept_mass(
        self, denominator: int, retention: tuple[Fraction, ...], *, certain: bool = False
    ) -> Fraction:
        """Return the prior mass of the cells in `kept`; with `certain`, of those with retention 1 only."""
        total = sum(
            a * k for a, k, f in zip(self.prior, self.kept, retention, strict=True) if f == 1 or not certain
        )
        return Fraction(total, denominator)


def bad_threshold(count: int, prior: Fraction, retention: Fraction, gain: Fraction) -> int:
    """Return the largest number of draws s from a cell that is not bad.

    Lemma 1 of docs/privacy.md.

    Parameters
    ----------
    count : int
        x, the workers in the cell.
    prior, retention : Fraction
        a_c > 0 and f_c in (0, 1] of the cell.
    gain : Fraction
        G = e^U*.

    Returns
    -------
    int
        Draws s > this (and s > 0) are bad. Equality is not bad: the loss is then exactly U*.

    Notes
    -----
    x >= 2: ln(1 + s/(x - 1 + a)) <= U*; x in {0, 1}: ln(1 + s/a) + ln(1/f) <= U*.
    """
    # floor((G - 1)(x - 1 + a)), or floor((f G - 1) a), in integers: planning asks very often.
    a, q = prior.numerator, prior.denominator
    g, h = gain.numerator, gain.denominator
    if count >= 2:
        return max(0, (g - h) * ((count - 1) * q + a) // (h * q))
    f, k = retention.numerator, retention.denominator
    return max(0, (f * g - k * h) * a // (k * h * q))


def empty_threshold(pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int) -> int:
    """Return t, the smallest `bad_threshold` of an empty cell of any stratum of the class.

    Lemma 1 of docs/privacy.md.
    """
    return min(
        bad_threshold(0, Fraction(a, denominator), f, pool_class.gain)
        for a, f, k in zip(pool_class.prior, retention, pool_class.cells, strict=True)
        if k
    )


def failure_bound(
    pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int, arithmetic: Arithmetic
) -> tuple[Any, Any]:
    """Bound the probability of the bad event for any pool of the class and any histogram.

    Lemma 7 of docs/privacy.md.

    Parameters
    ----------
    pool_class : PoolClass
    retention : tuple of Fraction
        f_s per stratum.
    denominator : int
        q.
    arithmetic : Arithmetic
        `FLOAT` for a search, `BALL` for a certificate.

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
    for stratum in strata(pool_class, retention, denominator):
        kept, cells = number(stratum.retention), number(stratum.cells)
        threshold = bad_threshold(0, stratum.prior, stratum.retention, pool_class.gain)
        tail = tail_bound(pool_class.m_max, stratum.prior, stratum.rest(0), threshold, arithmetic)
        zero_cells = zero_cells + cells * kept * tail
        ratio, largest = worst_occupied_cell(stratum, pool_class.gain, arithmetic)
        per_cell = per_cell + cells * arithmetic.larger(kept * tail, largest)
        per_worker, person = arithmetic.larger(per_worker, ratio), arithmetic.larger(person, largest)
    shortfall = shortfall_bound(pool_class, retention, arithmetic)
    if pool_class.n_max <= _SMALL:
        by_workers = zero_cells + worst_composition(pool_class, retention, denominator, arithmetic)
    else:
        by_workers = number(pool_class.n_max) * per_worker + zero_cells
    worst = by_workers if by_workers < per_cell else per_cell
    return worst + shortfall, person + shortfall


def worst_composition(
    pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int, arithmetic: Arithmetic
) -> Any:
    """Return by how much occupied cells can raise the probability of a bad one, over all histograms.

    Lemma 7 of docs/privacy.md.

    Parameters
    ----------
    pool_class, retention, denominator, arithmetic
        As for `failure_bound`.

    Returns
    -------
    float or flint.arb
        max over at most n_max workers, in cells of any strata, of the sum of T_s(x) - f_s T_s(0) over the
        occupied cells; at least 0. Exact where every stratum has a cell for each worker, else a bound.
    """
    number, draws = arithmetic.number, pool_class.m_max
    rises = []
    for stratum in strata(pool_class, retention, denominator):
        tails = [
            tail_bound(
                draws,
                x + stratum.prior,
                stratum.rest(x),
                bad_threshold(x, stratum.prior, stratum.retention, pool_class.gain),
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


def shortfall_bound(pool_class: PoolClass, retention: tuple[Fraction, ...], arithmetic: Arithmetic) -> Any:
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
    for f, cells, kept in zip(retention, pool_class.cells_min, pool_class.kept, strict=True):
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


@dataclass(frozen=True)
class Stratum:
    """The cells of one retention stratum in the pools of a class, for the bounds of this module.

    Attributes
    ----------
    pool_class : PoolClass
    cells : int
        Largest number of these cells in a pool.
    prior, retention : Fraction
        a and f of these cells.
    smallest : Fraction
        Smallest prior of any cell of the class.
    mass : Fraction
        Prior mass of `PoolClass.kept`.
    """

    pool_class: PoolClass
    cells: int
    prior: Fraction
    retention: Fraction
    smallest: Fraction
    mass: Fraction

    def rest(self, count: int) -> Fraction:
        """Return a lower bound of W - w for a cell of the stratum with `count` workers.

        Lemma 3 of docs/privacy.md.
        """
        others = max(self.pool_class.n_min - count, 0)
        return others + (self._prior_with_others if others else self._prior_alone)

    @cached_property
    def _prior_with_others(self) -> Fraction:
        return max(self.mass - self.prior, self.smallest)

    @cached_property
    def _prior_alone(self) -> Fraction:
        return max(self.mass - self.prior, Fraction(0))


def strata(pool_class: PoolClass, retention: tuple[Fraction, ...], denominator: int) -> list[Stratum]:
    """Return the strata that have cells in a class."""
    present = [
        (k, Fraction(a, denominator), f)
        for k, a, f in zip(pool_class.cells, pool_class.prior, retention, strict=True)
        if k
    ]
    smallest = min(a for _, a, _ in present)
    mass = pool_class.kept_mass(denominator, retention)
    return [Stratum(pool_class, k, a, f, smallest, mass) for k, a, f in present]


def worst_occupied_cell(
    stratum: Stratum,
    gain: Fraction,
    arithmetic: Arithmetic,
    value: Callable[[int, int], Any] | None = None,
) -> tuple[Any, Any]:
    """Bound max T(x)/x and max T(x) over all counts 1 <= x <= n_max of a cell.

    Lemma 6 of docs/privacy.md.

    Parameters
    ----------
    stratum : Stratum
    gain : Fraction
        G > 1; T(x) is the tail beyond `bad_threshold` for this gain.
    arithmetic : Arithmetic
    value : callable, optional
        v(x, s) in [0, 1], not falling with s; T(x) is then the expectation of v over the tail.

    Returns
    -------
    per_worker, largest : float or flint.arb

    Notes
    -----
    Counts x are evaluated upwards. The loop ends when the threshold passes m_max (no draw can be bad from
    there on), when x passes n_max, or when one Chernoff bound for all further x is below both maxima.
    """
    number = arithmetic.number
    pool_class, prior = stratum.pool_class, stratum.prior
    draws = pool_class.m_max
    ratio = Fraction(draws) / (pool_class.n_min + max(stratum.mass, prior))
    per_worker, largest = number(0), number(0)
    for x in range(1, pool_class.n_max + 1):
        threshold = bad_threshold(x, prior, stratum.retention, gain)
        if x >= 2:
            if threshold >= draws:
                return per_worker, largest
            beyond = chernoff_bound((gain - 1) * (x - 1 + prior), x + prior, ratio, gain - 1, arithmetic)
            if beyond is not None and beyond / x < per_worker and beyond < largest:
                return per_worker, largest
        if x > _MAX_COUNTS:
            return arithmetic.larger(per_worker, number(1) / x), number(1)
        at_count = None if value is None else partial(value, x)
        tail = tail_bound(draws, x + prior, stratum.rest(x), threshold, arithmetic, at_count)
        per_worker, largest = arithmetic.larger(per_worker, tail / x), arithmetic.larger(largest, tail)
    return per_worker, largest
