"""Check a release of odsynth without odsynth: python verify.py FOLDER [--key KEY] [--certificate-only].

It needs Python 3.9 or later and pyarrow, and for signatures the library `cryptography`. It was written from
docs/privacy.md, docs/formats.md and docs/plan-format.md of the project, and shares no code with the program
that makes releases. Every bound of the certificate is computed again from the plan; the names of lemmas are
those of docs/privacy.md. Numbers are fractions, or decimals of 50 digits whose every operation is rounded up,
or every operation down, so that what is computed is never below the truth.

Do not trust a copy of this file that lies beside the data that it is to check: take it from the project, or
compare its SHA-256 with what the project states.

Exit status: 0 all checks that could be carried out passed; 1 one failed; 2 a check could not be carried out.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError:
    print("NOT CHECKED  this needs the Python library pyarrow: python -m pip install pyarrow")
    raise SystemExit(2) from None

__all__ = ["main", "verify"]

FACTOR = Fraction(100_001, 100_000)
"""A number of the certificate may be this many times what is computed here: sums are cut off elsewhere."""

UP = Context(prec=50, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
DOWN = Context(prec=50, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
ZERO, ONE = Decimal(0), Decimal(1)
_TINY = Decimal("1e-20")  # share of a sum at which a bound of its rest takes the place of further terms
Value = Callable[[int], Decimal]


class WrongError(Exception):
    """A check failed; the text says why."""


class ImpossibleError(Exception):
    """A check could not be carried out; the text says why."""


def need(true: bool, otherwise: str) -> None:
    """Fail with a reason unless something is true."""
    if not true:
        raise WrongError(otherwise)


# --- arithmetic: upper and lower ends


def up(x: Fraction | int) -> Decimal:
    """Return a decimal that is not below x."""
    return UP.divide(Decimal(x.numerator), Decimal(x.denominator))


def down(x: Fraction | int) -> Decimal:
    """Return a decimal that is not above x."""
    return DOWN.divide(Decimal(x.numerator), Decimal(x.denominator))


def exp(x: Decimal, to: Context) -> Decimal:
    """Return e^x rounded up or down; Python's is rounded to the nearest, so the next one is past it."""
    return UP.next_plus(UP.exp(x)) if to is UP else max(ZERO, DOWN.next_minus(DOWN.exp(x)))


def log(x: Decimal, to: Context) -> Decimal:
    """Return ln x rounded up or down."""
    if x == 1:
        return ZERO
    return UP.next_plus(UP.ln(x)) if to is UP else DOWN.next_minus(DOWN.ln(x))


def power(x: Decimal, n: int, to: Context) -> Decimal:
    """Return x^n for x >= 0, every multiplication rounded up or down."""
    result = ONE
    while n:
        if n & 1:
            result = to.multiply(result, x)
        x, n = to.multiply(x, x), n >> 1
    return result


def total(values: Iterable[Decimal]) -> Decimal:
    """Return the sum, rounded up."""
    result = ZERO
    for value in values:
        result = UP.add(result, value)
    return result


def twelve_digits(x: Fraction) -> str:
    """Return the smallest decimal of twelve digits that is at least x, as certificates have it."""
    rounded = Context(prec=12, rounding=ROUND_CEILING).divide(Decimal(x.numerator), Decimal(x.denominator))
    text = format(rounded, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


_TABLES: dict[tuple[int, int], tuple[list[Decimal], list[Decimal]]] = {}


def rising(y: int, q: int, k: int, to: Context) -> Decimal:
    """Return y (y + q) ... (y + (k - 1) q), rounded up or down, from a table of products."""
    before, residue = divmod(y - 1, q)
    low, high = _TABLES.setdefault((residue, q), ([ONE], [ONE]))
    for i in range(len(low) - 1, before + k):
        factor = Decimal(residue + 1 + i * q)
        low.append(DOWN.multiply(low[-1], factor))
        high.append(UP.multiply(high[-1], factor))
    if to is UP:
        return UP.divide(high[before + k], low[before])
    return DOWN.divide(low[before + k], high[before])


# --- draws from an urn (Lemmas 3, 5 and 6); weights are whole numbers over q


def mass(m: int, s: int, w: int, rest: int, q: int) -> Decimal:
    """Return P(s) of a beta-binomial with m draws and weights w and rest, rounded up."""
    if rest == 0:
        return ONE if s == m else ZERO
    ways = UP.divide(rising(1, 1, m, UP), DOWN.multiply(rising(1, 1, s, DOWN), rising(1, 1, m - s, DOWN)))
    drawn = UP.multiply(rising(w, q, s, UP), rising(rest, q, m - s, UP))
    return UP.divide(UP.multiply(ways, drawn), rising(w + rest, q, m, DOWN))


def next_mass(p: Decimal, m: int, s: int, w: int, rest: int, q: int) -> Decimal:
    """Return P(s + 1) from P(s)."""
    ahead, behind = (m - s) * (w + q * s), (q * (m - s - 1) + rest) * (s + 1)
    return UP.divide(UP.multiply(p, Decimal(ahead)), Decimal(behind))


def tail(m: int, w: int, rest: int, q: int, first: int, value: Value | None = None) -> Decimal:
    """Bound E[value(s); s >= first], by default P(s >= first); `value` is at most 1 (Lemma 5)."""
    if first > m:
        return ZERO
    if rest <= 0:
        return ONE if value is None else value(m)
    result, p = ZERO, mass(m, first, w, rest, q)
    for s in range(first, m + 1):
        result = UP.add(result, p if value is None else UP.multiply(p, value(s)))
        if s == m:
            break
        if rest >= q and (s - first) % 8 == 7:
            second = max(Fraction(1), Fraction(w + q * s, q * (s + 1)))
            r = Fraction(q * (m - s), q * (m - s - 1) + rest) * second
            if r < 1 and (more := UP.multiply(p, up(r / (1 - r)))) <= UP.multiply(result, _TINY):
                return UP.add(result, more)
        p = next_mass(p, m, s, w, rest, q)
    return min(ONE, result)


def large_counts(t: Fraction, w: Fraction, r: Fraction, step: Fraction) -> Decimal:
    """Bound P(s >= t + step j) for weight w + j and all j >= 0 (Lemma 6); 1 where it does not apply."""
    z = Fraction(float(t * (1 + r) / (r * (w + t)))).limit_denominator(10**6)
    if z <= 1 or r * (z - 1) >= 1:
        return ONE
    of_z, of_w = log(down(z), DOWN), log(down(1 - r * (z - 1)), DOWN)
    if DOWN.add(DOWN.multiply(down(step), of_z), of_w) <= 0:
        return ONE
    exponent = DOWN.add(DOWN.multiply(down(t), of_z), DOWN.multiply(up(w), of_w))
    return min(ONE, exp(exponent.copy_negate(), UP))


# --- Dirichlet resampling: one class of pools


@dataclass(frozen=True)
class Stratum:
    """Cells of one prior and retention in the pools of a class; weights are whole numbers over q."""

    prior: int
    retention: Fraction
    most: int
    fewest: int
    kept: int


@dataclass(frozen=True)
class PoolClass:
    """The limits of a class of pools, and its numbers."""

    n_min: int
    n_max: int
    m: int
    gain: Fraction
    q: int
    strata: tuple[Stratum, ...]

    @classmethod
    def of(cls, row: dict[str, Any], retention: list[Fraction], q: int) -> PoolClass:
        """Read a class of plan.json."""
        numbers = zip(row["prior"], retention, row["cells"], row["cells_min"], row["kept"])
        strata = tuple(Stratum(*one) for one in numbers if one[2])
        made = cls(row["n_min"], row["n_max"], row["m_max"], Fraction(row["gain"]), q, strata)
        whole = [x for s in strata for x in (s.prior, s.most, s.fewest, s.kept)]
        need(
            all(type(x) is int for x in [made.n_min, made.n_max, made.m, q, *whole])
            and 1 <= made.n_min <= made.n_max
            and made.m >= 1
            and made.gain > 1
            and all(
                s.prior > 0 and 0 < s.retention <= 1 and s.most >= s.fewest >= s.kept >= 0 for s in strata
            )
            and len({len(row[name]) for name in ("prior", "cells", "cells_min", "kept")}) == 1
            and len(row["prior"]) == len(retention),
            "plan.json: a class of pools has numbers that no class can have",
        )
        return made

    @property
    def pruned(self) -> bool:
        """Whether some cell may be left out."""
        return any(s.retention < 1 for s in self.strata)

    def weight(self, s: Stratum, x: int) -> int:
        """Return the least likely weight of an urn that holds a cell with x workers (Lemmas 3 and 4)."""
        other = min(one.prior for one in self.strata) if x < self.n_min else 0
        likely = sum(one.prior * one.kept for one in self.strata)
        return self.q * max(self.n_min, x) + max(s.prior + other, likely)

    def fine(self, s: Stratum, x: int, gain: Fraction) -> int:
        """Return the largest number of draws from a cell with x workers whose loss is not above ln gain."""
        base = Fraction(s.prior, self.q)
        if x >= 2:
            return max(0, math.floor((gain - 1) * (x - 1 + base)))
        return max(0, math.floor((s.retention * gain - 1) * base))

    def bad(self, s: Stratum, x: int, gain: Fraction, value: Value | None = None) -> Decimal:
        """Bound the probability T_c(x) of more draws than that, or what `value` expects of them."""
        w = self.q * x + s.prior
        return tail(self.m, w, self.weight(s, x) - w, self.q, self.fine(s, x, gain) + 1, value)

    def counts_from(self, s: Stratum, x: int, gain: Fraction) -> Decimal:
        """Bound T_c of x >= 2 and of all larger counts."""
        base = Fraction(s.prior, self.q)
        lightest = min(self.weight(s, y) for y in (x, max(x, self.n_min)))
        ratio = Fraction(self.m * self.q, lightest)
        return large_counts((gain - 1) * (x - 1 + base), x + base, ratio, gain - 1)

    def occupied(
        self, s: Stratum, gain: Fraction, value: Callable[[int], Value] | None = None
    ) -> Iterator[tuple[int, Decimal]]:
        """Yield counts x >= 1 and their T_c(x), until all that follow are below what there was."""
        most = share = ZERO
        for x in range(1, self.n_max + 1):
            if x > 1 and self.fine(s, x, gain) >= self.m:
                return
            if x > 1 and most:
                rest = self.counts_from(s, x, gain)
                if rest <= most and UP.divide(rest, Decimal(x)) <= share:
                    return
            found = self.bad(s, x, gain, value and value(x))
            yield x, found
            most, share = max(most, found), max(share, DOWN.divide(found, Decimal(x)))


def shortfall(c: PoolClass) -> Decimal:
    """Return eta: how likely some stratum has fewer cells in the urn than are counted on (Lemma 4)."""
    result = ZERO
    for s in c.strata:
        if s.retention < 1 and s.kept:
            k, p = s.fewest, Fraction(s.kept - 1, s.fewest)
            if p >= s.retention:
                return ONE
            # exp(-k KL(p, f)) = (f/p)^(kp) ((1-f)/(1-p))^(k(1-p)), and both exponents are whole.
            light = power(up(s.retention / p), s.kept - 1, UP) if s.kept > 1 else ONE
            heavy = power(up((1 - s.retention) / (1 - p)), k - s.kept + 1, UP)
            result = UP.add(result, UP.multiply(light, heavy))
    return result


@lru_cache(maxsize=4096)
def failure(c: PoolClass) -> Decimal:
    """Return F, a bound of the probability of a bad cell for any histogram (Lemma 7)."""
    empty = per_worker = per_cell = ZERO
    gains = [ZERO] * (c.n_max + 1 if c.n_max <= 16 else 0)
    for s in c.strata:
        coin = UP.multiply(up(s.retention), c.bad(s, 0, c.gain))
        empty = UP.add(empty, UP.multiply(Decimal(s.most), coin))
        largest = coin
        for x, found in c.occupied(s, c.gain):
            largest = max(largest, found)
            per_worker = max(per_worker, UP.divide(found, Decimal(x)))
        per_cell = UP.add(per_cell, UP.multiply(Decimal(s.most), largest))
        for x in range(1, len(gains)):  # of these every one: the sum of several small ones may be large
            gains[x] = max(gains[x], UP.subtract(c.bad(s, x, c.gain), coin))
    if gains:
        best = [ZERO] * len(gains)
        for n in range(1, len(gains)):
            best[n] = max([best[n - 1], *(UP.add(best[n - x], gains[x]) for x in range(1, n + 1))])
        by_workers = UP.add(empty, best[-1])
    else:
        by_workers = UP.add(empty, UP.multiply(Decimal(c.n_max), per_worker))
    return min(ONE, UP.add(shortfall(c), min(by_workers, per_cell)))


@lru_cache(maxsize=4096)
def pruning(c: PoolClass) -> Decimal:
    """Return e^V, V the pruning loss (Lemma 2)."""
    result = ONE
    for j, i in itertools.product(c.strata, c.strata):
        if j.retention == 1 or (i is j and i.most < 2):
            continue
        others = [(s, max(0, s.fewest - (s is i) - (s is j))) for s in c.strata]
        sure = sum(s.prior * k for s, k in others if s.retention == 1)
        base = c.n_min + Fraction(i.prior + sure, c.q)
        coins = [(Fraction(s.prior, c.q), s.retention, k) for s, k in others if s.retention < 1 and k]
        moment = inverse_moment(base, c.m, coins, Fraction(j.prior, c.q))
        result = max(result, UP.add(up(j.retention), UP.multiply(up(1 - j.retention), moment)))
    return result


def inverse_moment(
    base: Fraction, m: int, coins: list[tuple[Fraction, Fraction, int]], a: Fraction
) -> Decimal:
    """Return 1/E[x^a] for the density of Lemma 2, rounded up, by the sums of Lemma 25."""
    whole = base + sum((b * k for b, _, k in coins), Fraction(0))
    more = whole + a
    size = UP.add(
        UP.multiply(Decimal(m), log(up(1 + more / m), UP)), UP.multiply(up(more), log(up(1 + m / more), UP))
    )
    d = Fraction(min(1.2, math.sqrt(60 / float(size)))).limit_denominator(10**6)
    c = 1 - d * d / 2
    bound = UP.divide(exp(UP.multiply(up(1 - c), size), UP), down(c))  # C
    # Steps and points have few digits, so that points are at exactly equal distances.
    t = Fraction(f"{6.28 * float(d) / (float(log(bound, UP)) + 35):.8g}")
    turns = down(Fraction("6.2831853") * d / t)
    e = UP.divide(UP.multiply(Decimal(2), bound), DOWN.subtract(exp(turns, DOWN), ONE))

    def number(x: Fraction, to: Context) -> Decimal:
        return up(x) if to is UP else down(x)

    def outermost(w: Decimal, to: Context, back: Context) -> Decimal:
        """Return a point up to which f rises (w from below, rounded down) or from which it falls."""
        for _ in range(64):
            of_x = log(to.divide(w, back.add(w, Decimal(m))), to)
            w = number(base, to)
            for b, f, k in coins:
                kept = to.multiply(number(f, to), exp(to.multiply(number(b, back), of_x), to))  # of_x <= 0
                part = to.divide(kept, back.add(number(1 - f, back), kept))
                w = to.add(w, to.multiply(part, number(b * k, to)))
        return log(to.divide(w, Decimal(m)), to)

    def at(u: Decimal, extra: Fraction, to: Context, back: Context) -> Decimal:
        """Return f(u) x^extra, rounded up or down."""
        # near = -ln x = ln(1 + e^-u), and -ln(1 - x) = near + u.
        near = log(back.add(ONE, exp(u.copy_negate(), back)), back)
        lost = back.add(back.multiply(number(base + extra + m, back), near), back.multiply(Decimal(m), u))
        result = exp(lost.copy_negate(), to)
        for b, f, k in coins:
            x = exp(back.multiply(number(b, back), near).copy_negate(), to)
            coin = to.add(number(1 - f, to), to.multiply(number(f, to), x))
            result = to.multiply(result, power(coin, k, to))
        return result

    rises, falls = outermost(down(base), DOWN, UP), outermost(up(whole), UP, DOWN)
    middle = Fraction(f"{float(rises + falls) / 2:.8f}")
    above = below = ZERO
    for sign, rate in ((1, Fraction(m)), (-1, base)):
        geometric = UP.divide(ONE, DOWN.subtract(ONE, exp(down(t * rate / 2).copy_negate(), UP)))
        # v: from here on it certainly falls as fast as that.
        v = log(up((2 * whole + m) / m), UP) if sign > 0 else log(down(base / (base + 2 * m)), DOWN)
        for point in itertools.count(0 if sign > 0 else 1):
            u = down(middle + sign * point * t)
            f = at(u, Fraction(0), UP, DOWN)
            above, below = UP.add(above, f), DOWN.add(below, at(u, a, DOWN, UP))
            if u >= falls if sign > 0 else u <= rises:
                distance = max(ZERO, UP.subtract(v, u) if sign > 0 else UP.subtract(u, v))
                rest = UP.add(UP.add(ONE, UP.divide(distance, down(t))), geometric)
                if (left := UP.multiply(f, rest)) <= UP.multiply(above, Decimal("1e-14")):
                    above = UP.add(above, left)
                    break
    ratio = UP.divide(UP.add(ONE, e), DOWN.subtract(ONE, e))
    return UP.multiply(ratio, UP.divide(above, below))


# --- one record (Lemmas 10 to 12)


def record_deltas(c: PoolClass, epsilon: Fraction, presence: bool) -> Iterator[Decimal]:
    """Yield bounds of the delta of one record at an epsilon: a quick one, and if there is one a smaller."""
    yield record_delta(c, epsilon, presence)
    few = sum(s.most for s in c.strata) <= 5 and c.m <= 400
    if not c.pruned and (few or c.n_max * c.m <= 100):  # elsewhere no certificate is by Lemma 12
        yield pairs_delta(c, epsilon)


def losing(c: PoolClass, s: Stratum, odds: Decimal) -> Callable[[int], Value]:
    """Return what a record loses with n draws from its cell of x workers: (1 - e^epsilon/(e^V g))^+."""

    def value(x: int) -> Value:
        before, keep = s.prior + c.q * (x - 1), s.retention if x == 1 else Fraction(1)
        of = DOWN.multiply(odds, down(keep * before))
        return lambda n: max(ZERO, UP.subtract(ONE, DOWN.divide(of, Decimal(before + c.q * n))))

    return value


@lru_cache(maxsize=4096)
def record_delta(c: PoolClass, epsilon: Fraction, presence: bool) -> Decimal:
    """Bound delta by what one cell loses (Lemma 10; Lemma 30 for one record more or less)."""
    e_v, asked = pruning(c), exp(down(epsilon), DOWN)
    odds = DOWN.divide(asked, e_v)
    if odds <= 1:
        return ONE
    found = (c.occupied(s, Fraction(odds), losing(c, s, odds)) for s in c.strata)
    bound = UP.add(shortfall(c), max(delta for one in found for _, delta in one))
    if presence and c.pruned:
        sure = sum(s.prior * s.kept for s in c.strata if s.retention == 1)
        gained = UP.multiply(e_v, up(1 + Fraction(c.m * c.q, c.n_min * c.q + sure)))
        bound = max(bound, UP.subtract(ONE, DOWN.divide(asked, gained)))
    return min(ONE, bound)


@lru_cache(maxsize=4096)
def pairs_delta(c: PoolClass, epsilon: Fraction) -> Decimal:
    """Bound delta by the worst pair of cells, without pruning (Lemma 12)."""
    odds, exact = exp(down(epsilon), DOWN), ZERO
    gain = Fraction(odds)
    for s in c.strata:
        value = losing(c, s, odds)
        for x in range(1, c.n_max + 1):
            if c.fine(s, x, gain) >= c.m or (x > 1 and c.counts_from(s, x, gain) <= exact):
                break
            if c.bad(s, x, gain, value(x)) > exact:  # no pair has more than its first cell by itself
                exact = max([exact, *(pair(c, x, s, other, odds) for other in c.strata)])
    return exact


def pair(c: PoolClass, x: int, i: Stratum, j: Stratum, odds: Decimal) -> Decimal:
    """Bound the divergence of neighbours, a worker going from a cell with x to one of another (Lemma 12)."""
    if i is j and i.most < 2:
        return ZERO
    others = sum(s.prior * max(0, s.fewest - (s is i) - (s is j)) for s in c.strata)
    more = c.q * max(0, c.n_min - x)
    third = max(others, min(s.prior for s in c.strata) if more else 0)  # where the other workers are
    cases = [(0, more + third)] if sum(s.most for s in c.strata) > 2 else []
    if sum(max(0, s.fewest - (s is i) - (s is j)) for s in c.strata) == 0:
        cases.append((more, 0))
    return max(divergence(c, c.q * x + i.prior, more_j + j.prior, rest, odds) for more_j, rest in cases)


def divergence(c: PoolClass, w: int, b: int, rest: int, odds: Decimal) -> Decimal:
    """Return E[(1 - e^epsilon (1 + s_j/b)/(1 + s_i/(w - 1)))^+], rounded up."""
    q, m, base, result = c.q, c.m, w - c.q, ZERO
    first = math.floor((Fraction(odds) - 1) * Fraction(base, q)) + 1
    p = mass(m, first, w, b + rest, q) if first <= m else ZERO
    for s in range(first, m + 1):
        part, left = ZERO, m - s
        # Not all: value <= 0 from here on.
        last = math.ceil((Fraction(base + q * s, base) / Fraction(odds) - 1) * Fraction(b, q))
        if rest == 0:
            part = surplus(odds, base, b, q, s, left) if left <= last else ZERO
        else:
            given = mass(left, 0, b, rest, q)
            for other in range(min(left, last) + 1):
                part = UP.add(part, UP.multiply(given, surplus(odds, base, b, q, s, other)))
                if other < left:
                    given = next_mass(given, left, other, b, rest, q)
        result = UP.add(result, UP.multiply(p, part))
        if s < m:
            p = next_mass(p, m, s, w, b + rest, q)
    return result


def surplus(odds: Decimal, base: int, b: int, q: int, s: int, other: int) -> Decimal:
    """Return (1 - e^epsilon (1 + other/b)/(1 + s/base))^+, rounded up."""
    kept = DOWN.divide(DOWN.multiply(odds, Decimal(base * (b + q * other))), Decimal(b * (base + q * s)))
    return max(ZERO, UP.subtract(ONE, kept))


# --- pools of few cells (Lemma 32)


@lru_cache(maxsize=4096)
def few_cells(c: PoolClass) -> Decimal:
    """Bound the probability of a bad loss of pools that all have these slots, draws and cells."""
    cells = [s for s in c.strata for _ in range(s.most)]
    found = []
    for h in histograms(c.n_max, cells):
        parts = list(urns(c, cells, h))
        found.append((total(UP.multiply(up(p), alone(c, cells, h, inside)) for p, inside in parts), h, parts))
        if len(found) > 20_000:
            return ONE
    largest = ZERO
    for bound, h, parts in sorted(found, key=lambda one: one[0], reverse=True):
        if bound <= largest:  # each cell by itself is never less likely to be bad than together with others
            break
        largest = max(largest, total(UP.multiply(up(p), together(c, cells, h, r)) for p, r in parts))
    return min(ONE, largest)


def histograms(n: int, cells: list[Stratum]) -> Iterator[tuple[int, ...]]:
    """Yield the ways to put n workers into cells, up to exchanges of cells that are alike."""
    if len(cells) == 1:
        yield (n,)
        return
    for x in range(n + 1):
        for others in histograms(n - x, cells[1:]):
            if cells[0] is not cells[1] or x <= others[0]:
                yield (x, *others)


def urns(c: PoolClass, cells: list[Stratum], h: tuple[int, ...]) -> Iterator[tuple[Fraction, list[int]]]:
    """Yield which cells are in the urn, and how likely that is."""
    choices = [(True,) if x or s.retention == 1 else (True, False) for x, s in zip(h, cells)]
    for kept in itertools.product(*choices):
        p = Fraction(1)
        for choice, keep, s in zip(choices, kept, cells):
            if len(choice) == 2:
                p *= s.retention if keep else 1 - s.retention
        yield p, [i for i, keep in enumerate(kept) if keep]


def alone(c: PoolClass, cells: list[Stratum], h: tuple[int, ...], inside: list[int]) -> Decimal:
    """Return how likely the cells of an urn are bad, each by itself."""
    w = {i: c.q * h[i] + cells[i].prior for i in inside}
    return total(
        tail(c.m, w[i], sum(w.values()) - w[i], c.q, c.fine(cells[i], h[i], c.gain) + 1) for i in inside
    )


def together(c: PoolClass, cells: list[Stratum], h: tuple[int, ...], inside: list[int]) -> Decimal:
    """Return the sum of Lemma 32 for an urn."""
    w = {i: c.q * h[i] + cells[i].prior for i in inside}
    whole, result = sum(w.values()), ZERO

    def factor(i: int, s: int, arrives: bool) -> Fraction:
        """Return r_i(s) if a worker arrives, and else l_i(s)."""
        before = c.q * (h[i] if arrives else max(0, h[i] - 1)) + cells[i].prior
        coin = cells[i].retention if s and h[i] == (0 if arrives else 1) else Fraction(1)
        return Fraction(before + c.q * s, before) / coin

    for i in inside:
        first = c.fine(cells[i], h[i], c.gain) + 1
        partners = [d for d in range(len(cells)) if d != i and (h[i] or h[d])]
        if first > c.m or not partners:
            continue
        p = mass(c.m, first, w[i], whole - w[i], c.q)
        for s in range(first, c.m + 1):
            limit, share = factor(i, s, not h[i]) / c.gain, ZERO
            for d in partners:
                if share >= 1:
                    break
                rest, left = whole - w[i] - w.get(d, 0), c.m - s
                if d not in w:
                    share = ONE
                elif rest == 0:
                    share = UP.add(share, ONE if factor(d, left, h[i] > 0) < limit else ZERO)
                else:
                    given = mass(left, 0, w[d], rest, c.q)
                    for other in range(left + 1):
                        if factor(d, other, h[i] > 0) >= limit:
                            break
                        share = UP.add(share, given)
                        if other < left:
                            given = next_mass(given, left, other, w[d], rest, c.q)
            result = UP.add(result, UP.multiply(p, min(ONE, share)))
            if s < c.m:
                p = next_mass(p, c.m, s, w[i], whole - w[i], c.q)
    return result


# --- what a certificate says of its plan


LODES = {kind: [f"S{kind}0{k}" for k in (1, 2, 3)] for kind in "AEI"}

# SHA-256 (its first half) of what has ever been said in words, as `digest` computes it, by format, mechanism,
# whether there is a `presence`, and population. Other words could promise anything.
DEFINITIONS = {
    ("1", "dirichlet", False, None): "01e780c29afec4dfec3af1682823b37f",
    ("1", "geometric", False, None): "68b4fb3a08314cc529b5b2ea07d39ea3",
    ("2", "dirichlet", False, None): "2d690712eafb4853cd26ed8961de8b17",
    ("2", "dirichlet", False, "residents"): "3e5a92776ece03381b9a1b39d4cbe2d9",
    ("2", "dirichlet", True, None): "9ba321a0400e65b87fd6a0df981aa7e0",
    ("2", "dirichlet", True, "residents"): "7fd6ebd4c4accb374f06bf597a7890df",
    ("2", "geometric", False, None): "026c06e22d5be3cef4c417c780e70644",
    ("2", "geometric", False, "residents"): "e27adde094220eea0ed611c81665aa5b",
    ("2", "geometric", True, None): "24868bfb22b8377f7ccf29f5d074d9ec",
    ("2", "geometric", True, "residents"): "4f69375d3a994c6e986c3d29d0fb38d5",
}
# Of the other sentences, with N for the number of records of a person or of implicates.
WORDS = {
    "pdp": "dbddf81c2b6777e5ab7e60a8443eca17",
    "dp": "09906e78d99f41859c3c824b50dcb8ee",
    "user": "403077f8721d79556d9f29be76708110",
    "presence": "b52f0f2ee82dab7f56626b0283ea3131",
    "one": "daae48cf014b8f752d6475f6d8e5635f",
    "one-urn": "fa332fb1aac188108bcb3a58201fff25",
    "independent-runs": "ff2872ae58b9476fdbdee8c9c8909b6f",
    "arithmetic": "fc67d992f889a21ead99009b780b574c",
}
SOURCES = {True: "the operating system's generator", False: "a seed (tests only)"}
TABLES = ("blocks", "domains", "pools", "shares", "slots")
SIGNATURES = {"certificate.json": "certificate.json.sig", "SHA256SUMS": "SHA256SUMS.sig"}


def digest(document: Any) -> str:
    """Return a digest of words."""
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]


def read_json(path: Path) -> Any:
    """Read a document; a name that stands there twice is an error."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len({name for name, _ in pairs}) == len(pairs), f"{path.name} says a thing twice")
        return dict(pairs)

    return json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=once)


def same(where: str, stated: Any, expected: Any) -> None:
    """Fail unless what is stated is what it should be."""
    need(stated == expected and type(stated) is type(expected), f"{where} is not what the plan gives")


class Claims:
    """Compares numbers of a certificate with bounds; `factor` is the largest stated number over its bound."""

    def __init__(self) -> None:
        self.factor, self.count = ONE, 0

    def check(self, name: str, stated: str, bounds: Iterable[Decimal]) -> Decimal:
        """Return the first bound that a number reaches; it must be no more than `FACTOR` above it."""
        need(re.fullmatch(r"\d+(\.\d+)?", stated) is not None, f"certificate.json: {name} is not a number")
        value, bound = Decimal(stated), ZERO
        for bound in bounds:
            if value >= bound:
                ratio = UP.divide(value, bound) if bound else ONE if value == 0 else Decimal("Infinity")
                more = f"certificate.json: {name} is {stated}, more than the plan gives: {bound:.12g}"
                need(ratio <= up(FACTOR), more)
                self.factor, self.count = max(self.factor, ratio), self.count + 1
                return bound
        raise WrongError(f"certificate.json: {name} is {stated}, and the plan gives only {bound:.12g}")


@dataclass
class Plan:
    """A plan and its tables."""

    document: dict[str, Any]
    tables: dict[str, pa.Table]

    def column(self, table: str, name: str) -> list[Any]:
        """Return a column."""
        return self.tables[table].column(name).to_pylist()

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that the plan quotes."""
        return dict(self.document["configuration"])

    @property
    def implicates(self) -> tuple[int, int]:
        """The number of implicates, and of independent runs that they come from."""
        release = self.config["release"]
        number = int(release["implicates"])
        return number, number if release["implicate_source"] == "independent-runs" else 1

    @property
    def records(self) -> int:
        """How many records a person may have."""
        return int(self.config["jobs"].get("records_per_worker", 1))


@dataclass
class Bounds:
    """What is proved of one run: upper ends. Those of `at` are of delta at an epsilon."""

    epsilon: Decimal
    delta: Decimal
    pure: Decimal
    at: Callable[[Fraction, Decimal], Decimal]


def check_guarantee(plan: Plan, stated: dict[str, Any]) -> Claims:
    """Compute every bound of a certificate again from the plan."""
    first = stated["format"] == "odsynth certificate 1"
    claims, document = Claims(), plan.document
    number, runs = plan.implicates
    records = plan.records
    asked, allowed = Fraction(document["epsilon"]), Fraction(document["delta"])
    user = stated["person"] if first else stated["user_level"]
    curve = user["curve"] if first else stated["record_level"]["curve"]
    presence = None if first else stated["presence"]
    check_words(plan, stated, user, presence)
    dirichlet = document["mechanism"] == "dirichlet"
    bounds = (dirichlet_rows if dirichlet else geometric_rows)(plan, stated, claims, presence is not None)
    times = Decimal(runs)
    pure = UP.multiply(times, bounds.pure)
    tight = not first and bounds.pure < bounds.epsilon  # Lemma 26
    epsilon = pure if tight else UP.multiply(times, bounds.epsilon)
    delta = ZERO if tight else min(ONE, UP.multiply(times, bounds.delta))
    requested = twelve_digits(runs * asked), twelve_digits(runs * allowed)
    given = stated["requested"]["epsilon"], stated["requested"]["delta"]
    same("certificate.json: requested", given, requested)

    def pair(name: str, one: dict[str, Any], e: Decimal, d: Decimal) -> None:
        claims.check(f"{name}.epsilon", one["epsilon"], [e])
        claims.check(f"{name}.delta", one["delta"], [d])

    pair("run", stated["run"], epsilon, delta)

    # One record, at what was asked for, and at the other points of the curve.
    def of_record(name: str, part: Fraction, one: dict[str, Any]) -> tuple[Decimal, Decimal]:
        e, share = part * asked, DOWN.divide(Decimal(one["delta"]), times)
        same(f"certificate.json: {name}.epsilon", one["epsilon"], twelve_digits(runs * e))
        d = min(ONE, UP.multiply(times, bounds.at(e, share)))
        claims.check(f"{name}.delta", one["delta"], [d])
        return up(runs * e), d

    parts = [Fraction(k, 4) for k in ((2, 3, 5, 6) if first else (2, 3, 4, 5, 6))] if dirichlet else []
    points = [part for part in parts if up(part * asked) < bounds.pure]
    need(len(curve) == len(points) + 1, "certificate.json: curve has not the points that the plan gives")
    own = None
    for part, one in zip(points, curve):
        found = of_record("curve", part, one)
        own = found if part == 1 else own
    pair("curve", curve[-1], pure, ZERO)
    if not first and own is None:
        own = (pure, ZERO)
        pair("record_level", stated["record_level"], *own)
    elif not first:
        point = curve[points.index(Fraction(1))]
        same("certificate.json: record_level", {**point, "curve": curve}, stated["record_level"])
    elif dirichlet:
        e = runs * asked
        largest = max(Decimal(row["person_delta"]) for row in stated["classes"])
        own = up(e), min(ONE, UP.multiply(times, bounds.at(asked, largest)))
    else:
        own = pure, ZERO

    def of_person(name: str, one: dict[str, Any], e: Decimal, d: Decimal) -> None:
        factor = total(exp(UP.multiply(Decimal(k), e), UP) for k in range(1, records))  # Lemma 14
        pair(name, one, UP.multiply(Decimal(records), e), min(ONE, UP.multiply(d, UP.add(ONE, factor))))

    assert own is not None
    of_person("person" if first else "user_level", user, *own)
    if presence is not None:  # Lemmas 28 and 29
        half = Decimal(1 if dirichlet else 2)
        pair("presence.run", presence["run"], UP.divide(epsilon, half), delta)
        pair("presence.record_level", presence["record_level"], UP.divide(own[0], half), own[1])
        of_person("presence.user_level", presence["user_level"], UP.divide(own[0], half), own[1])
    shown, d = own if document["guarantee"] == "dp" else (epsilon, delta)
    need(shown <= up(runs * asked) and d <= up(runs * allowed), "the plan costs more than was requested")
    n, cuts, drawn = plan.column("pools", "n"), plan.column("domains", "cuts"), sum(plan.column("pools", "m"))
    values = len(n), sum(n), drawn * runs // number, len(cuts), sum(map(len, cuts))
    names = ("pools", "records", "synthetic_workers", "domains", "cells")
    same("certificate.json: totals", stated["totals"], dict(zip(names, values)))
    return claims


def check_words(plan: Plan, stated: dict[str, Any], user: dict[str, Any], presence: Any) -> None:
    """Compare what is said in words, and what stands in the plan as it is, with what is known."""
    version, document, (number, _) = stated["format"][-1], plan.document, plan.implicates
    records, guarantee = plan.records, document["guarantee"]
    case = version, document["mechanism"], presence is not None, stated.get("population")
    known = digest(stated["definition"]) == DEFINITIONS.get(case)
    need(known, "certificate.json: definition is not in words that are known here")
    source = plan.config["release"]["implicate_source"]
    said = {
        guarantee: stated["requested"]["words"],
        "user": user["statement"].replace(f"at most {records} job", "at most N job"),
        source if number > 1 else "one": re.sub(rf"\b{number}\b", "N", stated["implicates"]["words"]),
        "arithmetic": stated["arithmetic"],
    }
    if presence is not None:
        said["presence"] = presence["statement"].replace(f"at most {records} job", "at most N job")
    for name, words in said.items():
        need(digest(words) == WORDS[name], f"certificate.json: {name}: not in words that are known here")
    facts = stated["mechanism"], stated["requested"]["guarantee"], user["records"]
    same(
        "certificate.json: mechanism, guarantee or records",
        facts,
        (document["mechanism"], guarantee, records),
    )
    implicates = {"number": number, "source": source, "words": stated["implicates"]["words"]}
    same("certificate.json: implicates", stated["implicates"], implicates)


def dirichlet_rows(plan: Plan, stated: dict[str, Any], claims: Claims, presence: bool) -> Bounds:
    """Check the classes of Dirichlet resampling."""
    parameters, asked = plan.document["parameters"], Fraction(plan.document["epsilon"])
    q, retention = parameters["denominator"], [Fraction(f) for f in parameters["retention"]]
    rows = parameters["classes"]
    classes = [PoolClass.of(row, retention, q) for row in rows]
    check_membership(plan, classes, rows, presence)
    pools = Counter(plan.column("pools", "class"))
    draws: dict[int, set[int]] = {}
    for number, m in zip(plan.column("pools", "class"), plan.column("pools", "m")):
        draws.setdefault(number, set()).add(m)
    need(len(stated["classes"]) == len(rows), "certificate.json: classes are not those of the plan")
    record = "person_delta" if stated["format"][-1] == "1" else "record_delta"
    losses: dict[str, Decimal] = {"block_loss_U": ZERO, "pruning_loss_V": ZERO}
    epsilon = delta = gain = ZERO
    for number, (c, row, one) in enumerate(zip(classes, rows, stated["classes"])):
        _TABLES.clear()
        expected = {name: row[name] for name in ("n_min", "n_max", "m_max", "cells")}
        expected["pools"] = pools[number]
        expected["prior"] = [str(Fraction(a, q)) for a in row["prior"]]
        expected["retention"] = [str(f) for f in retention]
        computed = {"epsilon", "delta", record, *losses}
        same("certificate.json: classes", {k: v for k, v in one.items() if k not in computed}, expected)
        e_v = pruning(c)
        parts = log(up(c.gain), UP), log(e_v, UP)
        for name, loss in zip(losses, parts):
            losses[name] = max(losses[name], claims.check(f"classes.{name}", one[name], [loss]))
        own = log(UP.multiply(up(c.gain), e_v), UP)
        epsilon = max(epsilon, claims.check("classes.epsilon", one["epsilon"], [own]))
        alike = c.n_min == c.n_max and row["cells"] == row["cells_min"] and draws.get(number) == {c.m}
        few = alike and not presence and 2 <= sum(row["cells"]) <= 5 and c.m <= 400
        found = itertools.chain([failure(c)], (few_cells(c) for _ in range(few)))
        fails = claims.check("classes.delta", one["delta"], found)
        delta = UP.add(delta, UP.multiply(Decimal(pools[number]), fails))
        claims.check(f"classes.{record}", one[record], record_deltas(c, asked, presence))
        worst = max((1 + Fraction(c.m * q, s.prior)) / s.retention for s in c.strata)
        gain = max(gain, UP.multiply(e_v, up(worst)))  # Lemma 11
    need(set(stated["losses"]) == set(losses), "certificate.json: losses are not those of the mechanism")
    for name, loss in losses.items():
        claims.check(f"losses.{name}", stated["losses"][name], [loss])

    def at(e: Fraction, enough: Decimal) -> Decimal:
        """Return the largest delta of any class; what is no more than enough is not looked at closer."""
        largest = ZERO
        for c in classes:
            _TABLES.clear()
            bound = ONE
            for bound in record_deltas(c, e, presence):
                if bound <= enough:
                    break
            largest = max(largest, bound)
        return largest

    return Bounds(epsilon, min(ONE, delta), log(gain, UP), at)


def geometric_rows(plan: Plan, stated: dict[str, Any], claims: Claims, presence: bool) -> Bounds:
    """Check the measured tables of geometric noise (Lemmas 20 and 33)."""
    parameters, record = plan.document["parameters"], "record_delta"
    record = "person_delta" if stated["format"][-1] == "1" else record
    n, cells = plan.column("pools", "n"), [len(cuts) for cuts in plan.column("domains", "cuts")]
    sizes = [(n, max(plan.column("pools", "m")), max(cells[d] for d in plan.column("pools", "domain")))]
    need(set(plan.column("pools", "class")) == {0}, "plan: a pool is of a class that there is not")
    for table in plan.document["choices"].get("tables", []):
        jobs = [*groups(plan, table).values()]
        sizes.append((jobs, max(jobs), len(set(plan.column("blocks", table["home"])))))
    noises = [parameters, *parameters.get("further", [])]
    same("certificate.json: classes", len(stated["classes"]), len(noises))
    same("plan.json: parameters.further", len(noises), len(sizes))
    loss = ZERO
    for one, noise, (sizes_of, most, k) in zip(stated["classes"], noises, sizes):
        p, q = noise["numerator"], noise["denominator"]
        need(type(p) is int and type(q) is int and 0 < p < q, "plan.json: a ratio is not between 0 and 1")
        ratio = Fraction(p, q)
        expected = {
            "pools": len(sizes_of),
            "n_min": min(sizes_of),
            "n_max": max(sizes_of),
            "m_max": most,
            "cells": [k],
            "delta": "0",
            record: "0",
            "ratio": [str(ratio)],
        }
        own = UP.multiply(Decimal(2), log(up(1 / ratio), UP))
        for name in ("epsilon", "noise_loss"):
            claims.check(f"classes.{name}", one[name], [own])
        same(
            "certificate.json: classes",
            {k: v for k, v in one.items() if k not in ("epsilon", "noise_loss")},
            expected,
        )
        loss = UP.add(loss, own)
    need(set(stated["losses"]) == {"noise_loss"}, "certificate.json: losses are not those of the mechanism")
    claims.check("losses.noise_loss", stated["losses"]["noise_loss"], [loss])
    return Bounds(loss, ZERO, loss, lambda e, enough: ZERO)


def groups(plan: Plan, table: dict[str, Any]) -> Counter[tuple[str, ...]]:
    """Count the jobs of each group of a further measured table, from public slots."""
    works = plan.column("slots", "work")
    if table["work"] is None:
        works = [""] * len(works)
    elif table["work"] != plan.document["geography"]["block"]:
        unit = dict(
            zip(
                plan.column("blocks", plan.document["geography"]["block"]),
                plan.column("blocks", table["work"]),
            )
        )
        works = [unit[code] for code in works]
    result: Counter[tuple[str, ...]] = Counter()
    for count, *key in zip(
        plan.column("slots", "count"), works, *(plan.column("slots", by) for by in table["by"])
    ):
        result[tuple(key)] += count
    return result


def check_membership(
    plan: Plan, classes: list[PoolClass], rows: list[dict[str, Any]], presence: bool
) -> None:
    """Check that every pool is inside the limits of its class (Lemmas 9 and 29)."""
    strata = len(plan.document["parameters"]["retention"])
    counts = [[own.count(s) for s in range(strata)] for own in plan.column("domains", "stratum")]
    need(
        all(sum(of) == len(own) for of, own in zip(counts, plan.column("domains", "stratum"))),
        "plan: a cell is of a stratum that there is not",
    )
    columns = ("n", "m", "domain", "class")
    for n, m, domain, number in zip(*(plan.column("pools", name) for name in columns)):
        need(0 <= number < len(classes), "plan: a pool is of a class that there is not")
        c, row, least, most = classes[number], rows[number], n, n
        if presence:
            known = plan.config["workplaces"]
            least, most = (
                max(1, math.floor(Fraction(known["fewest"]) * n)),
                math.ceil(Fraction(known["most"]) * n),
            )
        inside = c.n_min <= least and most <= c.n_max and m <= c.m
        limits = zip(row["cells_min"], counts[domain], row["cells"])
        need(
            inside and all(a <= k <= b for a, k, b in limits),
            "plan: a pool is outside the limits of its class",
        )


# --- the folder: checksums, signature, certificate, plan


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def check_files(folder: Path) -> str:
    """Compare every file with SHA256SUMS and MANIFEST.json."""
    for name in ("SHA256SUMS", "MANIFEST.json"):
        need((folder / name).is_file(), f"{name} is missing")
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(found.items()):
        need(not path.is_symlink(), f"{name} is a link, not a file")
        holds = path.is_file() or (path.is_dir() and any(path.iterdir()))
        need(holds, f"{name} is neither a file nor a folder that holds one")
    apart = {"SHA256SUMS", *SIGNATURES.values()}
    actual = {name: sha256(path) for name, path in found.items() if path.is_file() and name not in apart}
    sums = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    stated = {name: value for value, _, name in (line.partition("  ") for line in sums)}
    for name in sorted({*actual, *stated}):
        need(name in actual, f"{name} is missing")
        need(name in stated, f"{name} does not belong to the release")
        need(actual[name] == stated[name], f"{name} has been changed, or SHA256SUMS has")
    lines = "".join(f"{actual[name]}  {name}\n" for name in sorted(actual))
    need(
        (folder / "SHA256SUMS").read_bytes() == lines.encode(), "SHA256SUMS is not written as sha256sum does"
    )
    manifest, certificate = read_json(folder / "MANIFEST.json"), read_json(folder / "certificate.json")
    files = [
        {"path": name, "bytes": found[name].stat().st_size, "sha256": actual[name]}
        for name in sorted(actual)
        if name != "MANIFEST.json"
    ]
    of_certificate = {name: certificate[name] for name in ("release", "plan_sha256", "created")}
    expected = {"format": "odsynth manifest 1", **of_certificate, "files": files}
    need(manifest == expected, "MANIFEST.json does not describe this release")
    return f"{len(actual)} files are those of SHA256SUMS and MANIFEST.json"


def check_signature(folder: Path, key: Path | None, certificate_only: bool) -> str:
    """Check the signatures by the key that was given, or by the one in the folder."""
    signed = {name: file for name, file in SIGNATURES.items() if name[0] == "c" or not certificate_only}
    parts = ["signing-key.pub", *signed.values()]
    missing = [name for name in parts if not (folder / name).is_file()]
    if len(missing) == len(parts) and key is None:
        return "NOT SIGNED: nothing shows who made these data, nor that they were drawn as the plan says"
    need(not missing, f"not signed as was asked for: {', '.join(missing)} is missing")
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            PublicFormat,
            load_pem_public_key,
        )
    except ImportError:
        how = (
            "the signature needs the Python library cryptography, or openssl: openssl pkeyutl -verify -pubin "
            "-inkey KEY -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig, and the same for certificate.json"
        )
        if key is not None:
            raise ImpossibleError(how) from None
        return f"NOT CHECKED: {how}"

    def public_key(path: Path) -> Any:
        try:
            made = load_pem_public_key(path.read_bytes())
        except OSError as error:
            raise ImpossibleError(f"{path}: {error.strerror}") from None
        except (ValueError, UnsupportedAlgorithm):
            raise WrongError(f"{path.name} is not a public key in PEM") from None
        need(isinstance(made, Ed25519PublicKey), f"{path.name} is not an Ed25519 key")
        return made

    own = public_key(folder / parts[0])
    pem = own.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    need((folder / parts[0]).read_bytes() == pem, f"{parts[0]} holds more than a key")
    if key is not None:
        given = public_key(key).public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        need(given == pem, f"{parts[0]} is not the key {key}: somebody else signed")
    for name, signature in signed.items():
        try:
            own.verify((folder / signature).read_bytes(), (folder / name).read_bytes())
        except InvalidSignature:
            raise WrongError(f"{signature} is not a signature of {name} by {parts[0]}") from None
    if key is None:
        return "signed by the key in the folder; WHOSE that is, was not checked (give --key)"
    return "signed by the key given"


FIELDS = {
    "1": "format release mechanism definition requested run person losses implicates totals classes",
    "2": "format release mechanism definition requested run record_level user_level presence population "
    "losses implicates totals classes",
}
AFTER = " arithmetic plan_sha256 software randomness created for_release not_for_release_because"


def check_certificate(folder: Path, stated: dict[str, Any], plan: Plan) -> str:
    """Check the form of the certificate, and that it is of this plan."""
    path = folder / "certificate.json"
    version = {"odsynth certificate 1": "1", "odsynth certificate 2": "2"}.get(str(stated.get("format")))
    need(version is not None, "certificate.json: this is a format that this file does not know")
    names = (FIELDS[version or ""] + AFTER).split()
    need([*stated] == names, "certificate.json: the fields are not those of its format, in their order")
    text = json.dumps(stated, indent=1, ensure_ascii=False) + "\n"
    need(path.read_text(encoding="utf-8") == text, "certificate.json is not written as odsynth does")
    document, release = plan.document, plan.config["release"]
    same("plan.json: format", document["format"], f"odsynth plan {version}")
    need(
        sha256(folder / "plan" / "plan.json") == stated["plan_sha256"], "plan.json is not the certified plan"
    )
    subject = {name: release[name] for name in ("name", "state", "year", "job_type")}
    same("certificate.json: release", stated["release"], subject)
    zones = document["geography"].get("external_zones", document["geography"].get("outside"))
    if version == "2":
        population = plan.config["jobs"].get("population")
        same("certificate.json: population", stated["population"], population)
        whole = (
            "plan.json: without external zones, and only then, jobs are of residents, and the plan says so"
        )
        need((population == "residents") == (not zones), whole)
        public = plan.config.get("workplaces") is not None
        same("certificate.json: presence", stated["presence"] is not None, public)
    software, randomness = stated["software"], stated["randomness"]
    bill = ["sbom_sha256"] if version == "2" else []
    need(
        [*software] == ["version", "commit", "modified", *bill, "dependencies"]
        and all(re.fullmatch("[0-9a-f]{64}", software[name] or "0" * 64) for name in bill)
        and re.fullmatch(r"[0-9][0-9A-Za-z.!+_-]{0,63}", software["version"]) is not None
        and (software["commit"] is None or re.fullmatch("[0-9a-f]{7,64}", software["commit"]) is not None)
        and [*software["dependencies"]] == sorted(software["dependencies"])
        and all(re.fullmatch(r"[0-9A-Za-z._-]{1,64}", name) for name in software["dependencies"])
        and all(re.fullmatch(r"[0-9][0-9A-Za-z.!+_-]{0,63}", v) for v in software["dependencies"].values())
        and re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stated["created"]) is not None,
        "certificate.json: software or created is not of its form",
    )
    how = "HKDF-SHA256 for each stage and batch, ChaCha20 key streams, rejection sampling"
    secure = randomness.get("secure")
    source = {"secure": secure, "source": SOURCES.get(secure), "derivation": how}
    need(
        secure in (True, False) and randomness == source,
        "certificate.json: randomness is not as it is written",
    )
    reasons = [] if secure else ["the run was seeded: its randomness is not secret"]
    reasons += ["the commit of the program is unknown"] if software["commit"] is None else []
    if software["modified"] or (software["commit"] is not None and software["modified"] is None):
        reasons.append("the program differs from its commit")
    verdict = stated["for_release"], stated["not_for_release_because"]
    need(verdict == (not reasons, reasons), "certificate.json: for_release is not what its other fields give")
    return f"{stated['format']}, all fields present; it is of this plan"


def read_plan(folder: Path) -> Plan:
    """Read a plan and its tables, which must be those that plan.json names."""
    below = folder / "plan"
    document = read_json(below / "plan.json")
    text = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    need(
        (below / "plan.json").read_text(encoding="utf-8") == text, "plan.json is not written as odsynth does"
    )
    need(set(document["files"]) == {f"{name}.parquet" for name in TABLES}, "plan.json: files are others")
    for name, stated in document["files"].items():
        need(sha256(below / name) == stated, f"plan/{name} is not the table that plan.json names")
    return Plan(document, {name: pq.read_table(below / f"{name}.parquet") for name in TABLES})


def check_plan(plan: Plan) -> str:
    """Check that a plan agrees with itself and with the configuration that it quotes."""
    document, config, geography = plan.document, plan.config, plan.document["geography"]
    privacy, release, settings = config["privacy"], config["release"], config["plan"]
    pooling, choices = document["pooling"], document["choices"]
    number, runs = plan.implicates
    level, below = settings.get("pool_level"), settings.get("pool_below")
    by = settings.get("pool_by")
    asked = Fraction(privacy["epsilon"]), Fraction(privacy["delta"])
    keys = "attributes choices configuration delta epsilon files format geography guarantee mechanism"
    keys += " model_level notes parameters pooling"
    need(sorted(document) == keys.split(), "plan.json has other fields")
    for what, agree in {
        "epsilon and delta": asked
        == (Fraction(document["epsilon"]) * runs, Fraction(document["delta"]) * runs),
        "guarantee": document["guarantee"] == privacy["guarantee"],
        "mechanism": release.get("mechanism") in (None, document["mechanism"]),
        "geography": (geography["block"], geography["levels"])
        == (config["geography"]["block"], config["geography"]["levels"]),
        "pooling": by in (None, pooling["by"])
        and level in (None, pooling["level"])
        and below in (None, pooling["below"]),
        "shares of epsilon": sum(Fraction(t["share"]) for t in choices.get("tables", [])) < 1,
    }.items():
        need(agree, f"plan.json: {what}: not what its configuration asks for")
    expected = {
        "blocks": [geography["block"], *geography["levels"], "latitude", "longitude", "weight"],
        "domains": ["destination", "size", "cuts", "stratum"],
        "shares": ["destination", "unit", "share"],
        "pools": ["place", "shared", *pooling["by"], "n", "m", "domain", "class"],
        "slots": ["pool", "work", *document["attributes"], "count"],
    }
    areas = config["geography"].get("non_nesting_areas", [])
    for name, columns in expected.items():
        found = [
            column for column in plan.tables[name].column_names if name != "blocks" or column not in areas
        ]
        need(found == columns, f"plan/{name}.parquet has other columns")
    blocks = plan.column("blocks", geography["block"])
    position = {code: i for i, code in enumerate(blocks)}
    need(len(position) == len(blocks), "plan/blocks.parquet names a block twice")
    need(
        all(weight > 0 for weight in plan.column("blocks", "weight")),
        "plan/blocks.parquet: a weight is below 1",
    )
    codes = list(zip(*(plan.column("blocks", name) for name in (*geography["levels"], geography["block"]))))
    need(codes == sorted(codes), "plan/blocks.parquet is not in order")
    for cuts, strata in zip(plan.column("domains", "cuts"), plan.column("domains", "stratum")):
        rising = cuts[:1] == [0] and all(a < b for a, b in zip(cuts, cuts[1:])) and cuts[-1] < len(blocks)
        need(rising and len(strata) == len(cuts), "plan/domains.parquet: cells are not runs of blocks")
    of_level = dict(zip(blocks, plan.column("blocks", pooling["level"])))
    place, shared, n = (plan.column("pools", name) for name in ("place", "shared", "n"))
    own = [plan.column("pools", name) for name in pooling["by"]]
    need(len(set(zip(place, shared, *own))) == len(place), "plan/pools.parquet: a pool comes twice")
    jobs = [0] * len(place)
    outside = external_codes(plan)
    slots = [plan.column("slots", name) for name in ("pool", "work", "count")]
    of_slot = [plan.column("slots", name) for name in pooling["by"]]
    need(slots[0] == sorted(slots[0]), "plan/slots.parquet is not in the order of the pools")
    for pool, work, count, *kind in zip(*slots, *of_slot):
        need(
            work in position and work not in outside, "plan/slots.parquet: a job is not inside the geography"
        )
        need(count > 0 and 0 <= pool < len(place), "plan/slots.parquet: a row is not of a pool, or of no job")
        there = of_level[work] == of_level[place[pool]] if shared[pool] else work == place[pool]
        need(
            there and kind == [column[pool] for column in own], "plan/slots.parquet: a job is not of its pool"
        )
        jobs[pool] += count
    need(jobs == n, "plan/pools.parquet: n is not the number of slots")
    need(
        plan.column("pools", "m") == [x * (number // runs) for x in n],
        "plan/pools.parquet: m is not n for each implicate",
    )
    ends = {*range(plan.tables["domains"].num_rows)}
    need(set(plan.column("pools", "domain")) <= ends, "plan/pools.parquet names a domain that there is not")
    for name, categories in document["attributes"].items():
        need(
            set(plan.column("slots", name)) <= set(categories),
            f"plan/slots.parquet: {name} has other categories",
        )
    return f"{len(n):,} pools with {sum(n):,} jobs agree with each other and with the configuration quoted"


def external_codes(plan: Plan) -> set[str]:
    """Return the codes of the blocks that are external zones: prefixes filled up with 9s."""
    geography = plan.document["geography"]
    zones = geography.get("external_zones", geography.get("outside", []))
    longest = max(map(len, plan.column("blocks", geography["block"])))
    return {zone.ljust(longest, "9") for zone in zones}


# --- data


def count_columns(plan: Plan) -> dict[str, list[str]]:
    """Return the columns that count jobs, by attribute."""
    lodes = {"SA": LODES["A"], "SE": LODES["E"], "SI": LODES["I"]}
    return {
        name: [of if lodes.get(name) == of_all else f"{name}_{of}" for of in of_all]
        for name, of_all in plan.document["attributes"].items()
    }


def data_files(plan: Plan) -> dict[str, str]:
    """Return the names of the data files of each implicate."""
    release, jobs = plan.config["release"], plan.config["jobs"]
    tail = f"{release['job_type']}_{release['year']}"
    names = {"main": f"{release['state']}_od_main_{tail}"}
    if external_codes(plan):
        names["aux"] = f"{release['state']}_od_aux_{tail}"
    if jobs["format"] == "microdata" and len(jobs["attributes"]) > 1:
        names["jobs"] = f"{release['state']}_jobs_main_{tail}"
    return names


def check_names(folder: Path, plan: Plan) -> str:
    """Check that there are the files of such a release and no others."""
    config, csv = plan.config, bool(plan.config["release"]["csv"])
    number, runs = plan.implicates
    below = [f"implicate-{i + 1:02}/" for i in range(number)] if number > 1 else [""]
    names = data_files(plan)
    due = {f"{b}{name}.parquet" for b in below for name in names.values()}
    due |= {f"{b}{names[kind]}.csv.gz" for b in below for kind in names if csv and kind != "jobs"}
    due |= {
        "README.md",
        "certificate.json",
        "certificate.schema.json",
        "MANIFEST.json",
        "SHA256SUMS",
        "plan/plan.json",
    }
    due |= {f"plan/{name}.parquet" for name in TABLES}
    due |= {f"geo/{one['level']}.parquet" for one in config["geography"].get("polygons") or []}
    if plan.document["mechanism"] == "geometric" and plan.document["format"] == "odsynth plan 2":
        tables = len(plan.document["choices"].get("tables", [])) + 1
        runs_below = [f"run-{i + 1}/" for i in range(runs)] if runs > 1 else [""]
        due |= {f"measurements/{b}table-{k + 1}.parquet" for b in runs_below for k in range(tables)}
    records = {"datapackage.json", "croissant.json", "dcat-us.json"}
    optional = {
        *records,
        "names.parquet",
        "verify.py",
        "accuracy.json",
        "signing-key.pub",
        *SIGNATURES.values(),
    }
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            name, last = path.relative_to(folder).as_posix(), path.parent.relative_to(folder).as_posix()
            part = last.endswith(".parquet")
            found.setdefault(last if part else name, []).append(path.name if part else "")
    other = sorted((found.keys() ^ due) - optional)
    need(not other, f"a release of this kind has other files: {', '.join(other)}")
    for name, parts in found.items():
        numbered = [f"part-{i:06}.parquet" for i in range(len(parts))]
        need(
            parts in ([""], numbered) and (parts == [""]) != (name in due and (folder / name).is_dir()),
            f"{name} has other parts",
        )
    return "the files are those of such a release"


def rows(folder: Path, name: str) -> pa.Table:
    """Return the rows of a Parquet file, or of a folder of parts."""
    path = folder / f"{name}.parquet"
    parts = sorted(path.iterdir()) if path.is_dir() else [path]
    for part in parts:
        bare = not (pq.read_schema(part).metadata or {})
        need(bare, f"{name}.parquet: carries notes beside its rows")
    return pa.concat_tables([pq.read_table(part) for part in parts])


def check_data(folder: Path, plan: Plan, stated: dict[str, Any]) -> str:
    """Compare the data files with the plan's slots: totals of every work block by every attribute."""
    number, _ = plan.implicates
    below = [folder / f"implicate-{i + 1:02}" for i in range(number)] if number > 1 else [folder]
    files, columns = data_files(plan), count_columns(plan)
    counted = ["S000", *(name for of in columns.values() for name in of)]
    blocks = pa.array(plan.column("blocks", plan.document["geography"]["block"]), pa.string())
    outside = pa.array(sorted(external_codes(plan)), pa.string())
    public: dict[str, Counter[str]] = {}
    attributes = [plan.column("slots", name) for name in columns]
    for work, count, *kinds in zip(plan.column("slots", "work"), plan.column("slots", "count"), *attributes):
        of_block = public.setdefault(work, Counter())
        of_block["S000"] += count
        for (name, of), kind in zip(columns.items(), kinds):
            of_block[of[plan.document["attributes"][name].index(kind)]] += count
    most, pairs = sum(of["S000"] for of in public.values()), 0
    day = stated["created"][:10].replace("-", "")
    for place in below:
        tables = []
        for kind in ("main", "aux"):
            if kind not in files:
                continue
            name, table = files[kind], rows(place, files[kind])
            need(
                table.column_names == ["w_geocode", "h_geocode", *counted, "createdate"],
                f"{name}.parquet has other columns",
            )
            for column in table.column_names:
                whole = column in counted
                fits = (
                    pa.types.is_int64
                    if whole
                    else lambda t: pa.types.is_string(t) or pa.types.is_large_string(t)
                )
                bare = table.schema.field(column).metadata is None and table[column].null_count == 0
                need(
                    fits(table.schema.field(column).type) and bare,
                    f"{name}.parquet: {column} is of another kind",
                )
            table = table.cast(
                pa.schema([(c, pa.int64() if c in counted else pa.string()) for c in table.column_names])
            )
            check_rows(name, table, counted, columns, blocks, outside, kind == "aux", most, day)
            check_csv(place / f"{name}.csv.gz", table, plan)
            tables.append(table)
        od = pa.concat_tables(tables)
        sums = od.group_by("w_geocode").aggregate([(column, "sum") for column in counted]).to_pydict()
        found = {
            work: Counter({c: sums[f"{c}_sum"][i] for c in counted if sums[f"{c}_sum"][i]})
            for i, work in enumerate(sums["w_geocode"])
        }
        need(
            found == public,
            f"{files['main']}.parquet: totals by work block are not those of the plan's slots",
        )
        if "jobs" in files:
            check_jobs(place, files["jobs"], plan, od, columns)
        pairs += od.num_rows
    return (
        f"{pairs:,} pairs; the totals of {len(public):,} work blocks by {len(counted)} counts are the plan's"
    )


def check_rows(
    name: str,
    table: pa.Table,
    counted: list[str],
    columns: dict[str, list[str]],
    blocks: pa.Array,
    outside: pa.Array,
    aux: bool,
    most: int,
    day: str,
) -> None:
    """Check the rows of an OD file by themselves."""
    work, home = (pc.index_in(table[c], value_set=blocks) for c in ("w_geocode", "h_geocode"))
    known = work.null_count == 0 and home.null_count == 0
    need(known, f"{name}.parquet has blocks that are not in the geography")
    is_outside = pc.is_in(table["h_geocode"], value_set=outside)
    right = pc.all(pc.equal(is_outside, pa.scalar(aux))).as_py() is not False
    need(right, f"{name}.parquet has homes that belong in the other of the main and the aux file")
    key = pc.add(
        pc.multiply(work.cast(pa.int64()), pa.scalar(len(blocks))), home.cast(pa.int64())
    ).combine_chunks()
    rising = pc.all(pc.greater(key[1:], key[:-1])).as_py() is not False
    need(rising, f"{name}.parquet: rows are not in order, or a pair comes twice")
    fits = [pc.min_max(table[c]).as_py() for c in counted if table.num_rows]
    possible = all(of["min"] >= 0 and of["max"] <= most for of in fits) and (not fits or fits[0]["min"] >= 1)
    for of in columns.values() if possible else []:
        added = table[of[0]]
        for column in of[1:]:
            added = pc.add(added, table[column])
        possible = possible and pc.all(pc.equal(added, table["S000"])).as_py() is not False
    need(possible, f"{name}.parquet has counts that no jobs can have")
    today = pc.all(pc.equal(table["createdate"], pa.scalar(day))).as_py() is not False
    need(today, f"{name}.parquet: createdate is not the day that certificate.json states")


def check_csv(path: Path, table: pa.Table, plan: Plan) -> None:
    """Check that a CSV file has the rows of the Parquet file."""
    if not plan.config["release"]["csv"]:
        return
    columns = [table[name].to_pylist() for name in table.column_names]
    lines = itertools.chain(
        [",".join(table.column_names)], (",".join(map(str, row)) for row in zip(*columns))
    )
    with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
        equal = all(a == b for a, b in itertools.zip_longest((f"{line}\n" for line in lines), text))
    need(equal, f"{path.name} and the Parquet file hold different rows")


def check_jobs(folder: Path, name: str, plan: Plan, od: pa.Table, columns: dict[str, list[str]]) -> None:
    """Check that single jobs are the plan's slots, in order, and add up to the OD files."""
    table = rows(folder, name)
    need(table.column_names == ["w_geocode", "h_geocode", *columns], f"{name}.parquet has other columns")
    jobs = table.to_pydict()
    count = plan.column("slots", "count")
    for ours, theirs in zip(("work", *columns), ("w_geocode", *columns)):
        due = itertools.chain.from_iterable(map(itertools.repeat, plan.column("slots", ours), count))
        equal = all(a == b for a, b in itertools.zip_longest(due, jobs[theirs]))
        need(equal, f"{name}.parquet: the jobs are not the plan's slots")
    found: Counter[tuple[str, str, str]] = Counter()
    for attribute, of in columns.items():
        names = dict(zip(plan.document["attributes"][attribute], of))
        found.update(zip(jobs["w_geocode"], jobs["h_geocode"], map(names.__getitem__, jobs[attribute])))
    work, home = od["w_geocode"].to_pylist(), od["h_geocode"].to_pylist()
    counts = {c: od[c].to_pylist() for of in columns.values() for c in of}
    stated = {(w, h, c): x for c in counts for w, h, x in zip(work, home, counts[c]) if x}
    need(found == stated, f"{name}.parquet and the OD files hold different commutes")


def check_texts(folder: Path, stated: dict[str, Any]) -> str:
    """Compare the numbers in the read-me with the certificate's."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    user = stated.get("user_level") or stated["person"]
    fit = "**for publication**" if stated["for_release"] else "**Not for release**"
    for said in (
        f"# {stated['release']['name']}\n",
        f"{stated['totals']['synthetic_workers']:,} **synthetic** workers",
        f"\nEpsilon {stated['run']['epsilon']}, delta {stated['run']['delta']}.\n",
        f"with epsilon {user['epsilon']} and delta {user['delta']}.",
        fit,
    ):
        need(said in text, f"README.md does not say what certificate.json gives: {said.strip()}")
    return "README.md has the numbers of the certificate"


NOT_CHECKED = [
    "that the data were drawn as the plan says: for this the signer answers, if there is one",
    "that homes were estimated from the noisy counts in measurements/, where there are some",
    "the other words of README.md, the numbers of accuracy.json, the shapes and names for maps, the schema,"
    " and the records for machines (datapackage.json, croissant.json, dcat-us.json)",
    "the settings that plan.json quotes beyond epsilon, delta, geography, pooling and the jobs' attributes",
    "whether a file carries more than its rows in how they are encoded, or an implicate is a copy of another",
]


def verify(
    folder: Path, key: Path | None = None, certificate_only: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the name of each check and what it found; the first that fails raises `WrongError`."""
    if not folder.is_dir():
        raise ImpossibleError(f"{folder} is not a folder")
    if not certificate_only:
        yield "files", check_files(folder)
    yield "signature", check_signature(folder, key, certificate_only)
    stated, plan = read_json(folder / "certificate.json"), read_plan(folder)
    yield "certificate", check_certificate(folder, stated, plan)
    yield "plan", check_plan(plan)
    claims, run = check_guarantee(plan, stated), stated["run"]
    said = (
        f"epsilon {run['epsilon']}, delta {run['delta']}: all {claims.count} bounds are proved again from the"
    )
    excess = f"{float(claims.factor - 1):.1e}"
    yield "guarantee", f"{said} plan; the largest excess of one over its proof is {excess} of it"
    if not certificate_only:
        yield "names", check_names(folder, plan)
        yield "data", check_data(folder, plan, stated)
        yield "texts", check_texts(folder, stated)
    need(stated["for_release"], "not for release: " + "; ".join(stated["not_for_release_because"]))
    yield "for release", "yes"


def main(arguments: list[str] | None = None) -> int:
    """Print what was checked and what was not, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="public folder of a release")
    parser.add_argument("--key", type=Path, help="public key file of the signer, from elsewhere")
    parser.add_argument(
        "--certificate-only", action="store_true", help="the certificate and the plan, not the data"
    )
    given = parser.parse_args(arguments)
    try:
        for name, detail in verify(given.folder, given.key, given.certificate_only):
            print(f"{'note' if detail.startswith('NOT ') else 'ok':8}{name}: {detail}", flush=True)
    except WrongError as error:
        print(f"FAILED  {error}")
        return 1
    except ImpossibleError as error:
        print(f"NOT CHECKED  {error}")
        return 2
    except Exception as error:
        print(f"FAILED  cannot be read as a release: {type(error).__name__}: {error}")
        return 1
    skipped = ["checksums, data and read-me (--certificate-only)"] if given.certificate_only else []
    print("\nNot checked here (odsynth verify does more):")
    for line in skipped + NOT_CHECKED:
        print(f"  - {line}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
