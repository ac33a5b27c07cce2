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
import base64
import functools
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
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

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
Value = Callable[[int], Decimal]
Coins = tuple[Fraction, Fraction, int]  # prior, retention and number of cells


class WrongError(Exception):
    """A check failed; the text says why."""


class ImpossibleError(Exception):
    """A check could not be carried out; the text says why."""


def need(true: bool, otherwise: str) -> None:
    """Fail with a reason unless something is true."""
    if not true:
        raise WrongError(otherwise)


def must(where: str, be: dict[str, bool]) -> None:
    """Fail with the first of some reasons that is not kept."""
    for otherwise, true in be.items():
        need(true, f"{where}: {otherwise}")


# --- arithmetic: `check_guarantee` sets the context UP, so operators of decimals round up; what has to be
# --- rounded down says DOWN


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
    over, under = (high, low) if to is UP else (low, high)
    return to.divide(over[before + k], under[before])


# --- draws from an urn (Lemmas 3, 5 and 6); weights are whole numbers over q


def draws(m: int, w: int, rest: int, q: int, first: int = 0) -> Iterator[tuple[int, Decimal]]:
    """Yield s and P(s), rounded up, from `first` on: a beta-binomial of m draws and weights w and rest."""
    if first > m:
        return
    if rest == 0:
        yield m, ONE
        return
    ways = rising(1, 1, m, UP) / DOWN.multiply(rising(1, 1, first, DOWN), rising(1, 1, m - first, DOWN))
    p = ways * (rising(w, q, first, UP) * rising(rest, q, m - first, UP)) / rising(w + rest, q, m, DOWN)
    for s in range(first, m):
        yield s, p
        p = p * ((m - s) * (w + q * s)) / ((q * (m - s - 1) + rest) * (s + 1))
    yield m, p


def tail(m: int, w: int, rest: int, q: int, first: int, value: Value | None = None) -> Decimal:
    """Bound E[value(s); s >= first], by default P(s >= first); `value` is at most 1 (Lemma 5)."""
    result = ZERO
    for s, p in draws(m, w, rest, q, first):
        result += p if value is None else p * value(s)
        if rest >= q and s < m and (s - first) % 8 == 7:
            r = Fraction(q * (m - s), q * (m - s - 1) + rest) * max(q * (s + 1), w + q * s) / (q * (s + 1))
            # A bound of all further terms takes their place once it is a negligible share.
            if r < 1 and (more := p * up(r / (1 - r))) <= result * Decimal("1e-20"):
                return result + more
    return min(ONE, result)


def surplus(odds: Decimal, base: int, q: int, s: int, b: int = 1, other: int = 0) -> Decimal:
    """Return (1 - odds (1 + other/b)/(1 + s/base))^+, rounded up; weights are over q."""
    kept = DOWN.divide(DOWN.multiply(odds, Decimal(base * (b + q * other))), Decimal(b * (base + q * s)))
    return max(ZERO, 1 - kept)


# --- Dirichlet resampling: one class of pools (docs/plan-format.md)


class Stratum(NamedTuple):
    """Cells of one prior (over q) and retention in the pools of a class."""

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
        columns = [row["prior"], retention, row["cells"], row["cells_min"], row["kept"]]
        strata = tuple(Stratum(*one) for one in zip(*columns) if one[2])
        n_min, n_max, m, gain = row["n_min"], row["n_max"], row["m_max"], Fraction(row["gain"])
        whole = [n_min, n_max, m, q, *(x for s in strata for x in (s.prior, s.most, s.fewest, s.kept))]
        fits = all(type(x) is int for x in whole) and 1 <= n_min <= n_max and m >= 1 and gain > 1
        fits = fits and all(len(column) == len(retention) for column in columns)
        for s in strata:
            fits = fits and s.prior > 0 and 0 < s.retention <= 1 and s.most >= s.fewest >= s.kept >= 0
        need(fits, "plan.json: a class of pools has numbers that no class can have")
        return cls(n_min, n_max, m, gain, q, strata)

    @property
    def pruned(self) -> bool:
        """Whether some cell may be left out."""
        return any(s.retention < 1 for s in self.strata)

    @property
    def ratio(self) -> Decimal:
        """What no ratio of probabilities is above (Lemma 11)."""
        worst = max((1 + Fraction(self.m * self.q, s.prior)) / s.retention for s in self.strata)
        return pruning(self) * up(worst)

    def weight(self, s: Stratum, x: int) -> int:
        """Return the least likely weight of an urn that holds a cell with x workers (Lemmas 3 and 4)."""
        other = min(one.prior for one in self.strata) if x < self.n_min else 0
        likely = sum(one.prior * one.kept for one in self.strata)
        return self.q * max(self.n_min, x) + max(s.prior + other, likely)

    def fine(self, s: Stratum, x: int, gain: Fraction) -> int:
        """Return the largest number of draws from a cell with x workers whose loss is not above ln gain."""
        base, kept = (x - 1, Fraction(1)) if x >= 2 else (0, s.retention)
        return max(0, math.floor((kept * gain - 1) * (base + Fraction(s.prior, self.q))))

    def bad(self, s: Stratum, x: int, gain: Fraction, lost: bool = False) -> Decimal:
        """Bound the probability T_c(x) of more draws than that, or what they lose, E[(1 - gain/g)^+]."""
        w, coin = self.q * x + s.prior, down(gain * (s.retention if x == 1 else 1))
        value = (lambda n: surplus(coin, w - self.q, self.q, n)) if lost else None
        return tail(self.m, w, self.weight(s, x) - w, self.q, self.fine(s, x, gain) + 1, value)

    def later(self, s: Stratum, x: int, gain: Fraction) -> Decimal:
        """Bound T_c of x >= 2 and of all larger counts (Lemma 6); 1 where it does not apply."""
        t, w = (gain - 1) * (x - 1 + Fraction(s.prior, self.q)), x + Fraction(s.prior, self.q)
        r = Fraction(self.m * self.q, min(self.weight(s, y) for y in (x, max(x, self.n_min))))
        z = Fraction(float(t * (1 + r) / (r * (w + t)))).limit_denominator(10**6)
        if z <= 1 or r * (z - 1) >= 1:
            return ONE
        of_z, of_w = log(down(z), DOWN), log(down(1 - r * (z - 1)), DOWN)
        if DOWN.add(DOWN.multiply(down(gain - 1), of_z), of_w) <= 0:
            return ONE
        return min(ONE, exp(-DOWN.add(DOWN.multiply(down(t), of_z), DOWN.multiply(up(w), of_w)), UP))

    def occupied(self, s: Stratum, gain: Fraction, lost: bool = False) -> dict[int, Decimal]:
        """Return T_c(x), or what is lost, for x >= 1, until all that follow are below what there was."""
        found, most, share = {}, ZERO, ZERO
        for x in range(1, self.n_max + 1):
            if x > 1 and self.fine(s, x, gain) >= self.m:
                break
            if x > 1 and self.later(s, x, gain) <= min(most, DOWN.multiply(share, Decimal(x))):
                break
            found[x] = self.bad(s, x, gain, lost)
            most, share = max(most, found[x]), max(share, DOWN.divide(found[x], Decimal(x)))
        return found


def shortfall(c: PoolClass) -> Decimal:
    """Return eta: how likely some stratum has fewer cells in the urn than are counted on (Lemma 4)."""
    result = ZERO
    for s in c.strata:
        if s.retention < 1 and s.kept:
            p = Fraction(s.kept - 1, s.fewest)
            if p >= s.retention:
                return ONE
            # exp(-k KL(p, f)) = (f/p)^(kp) ((1-f)/(1-p))^(k(1-p)), and both exponents are whole.
            light = (s.kept - 1) * log(up(s.retention / p), UP) if p else ZERO
            heavy = (s.fewest - s.kept + 1) * log(up((1 - s.retention) / (1 - p)), UP)
            result += exp(light + heavy, UP)
    return result


@functools.lru_cache(maxsize=4096)
def failure(c: PoolClass) -> Decimal:
    """Return F, a bound of the probability of a bad cell for any histogram (Lemma 7)."""
    empty = per_worker = per_cell = ZERO
    gains = [ZERO] * (c.n_max + 1 if c.n_max <= 16 else 0)
    for s in c.strata:
        coin = up(s.retention) * c.bad(s, 0, c.gain)
        occupied = c.occupied(s, c.gain)
        empty += s.most * coin
        per_worker = max(per_worker, *(found / x for x, found in occupied.items()))
        per_cell += s.most * max(coin, *occupied.values())
        for x in range(1, len(gains)):  # of these every one: the sum of several small ones may be large
            gains[x] = max(gains[x], c.bad(s, x, c.gain) - coin)
    best = [ZERO] * len(gains)
    for n in range(1, len(gains)):
        best[n] = max(best[n - 1], *(best[n - x] + gains[x] for x in range(1, n + 1)))
    by_workers = empty + (best[-1] if gains else c.n_max * per_worker)
    return min(ONE, shortfall(c) + min(by_workers, per_cell))


@functools.lru_cache(maxsize=4096)
def pruning(c: PoolClass) -> Decimal:
    """Return e^V, V the pruning loss (Lemma 2)."""
    result = ONE
    for j, i in itertools.product(c.strata, c.strata):
        if j.retention < 1 and (i is not j or i.most >= 2):
            others = [(s, max(0, s.fewest - (s is i) - (s is j))) for s in c.strata]
            sure = sum(s.prior * k for s, k in others if s.retention == 1)
            coins = [(Fraction(s.prior, c.q), s.retention, k) for s, k in others if s.retention < 1 and k]
            base = c.n_min + Fraction(i.prior + sure, c.q)
            moment = inverse_moment(base, c.m, coins, Fraction(j.prior, c.q))
            result = max(result, up(j.retention) + up(1 - j.retention) * moment)
    return result


def inverse_moment(base: Fraction, m: int, coins: list[Coins], a: Fraction) -> Decimal:
    """Return 1/E[x^a] for the density of Lemma 2, rounded up, by the sums of Lemma 25."""
    whole = base + sum(b * k for b, _, k in coins)
    more = whole + a
    size = m * log(up(1 + more / m), UP) + up(more) * log(up(1 + m / more), UP)
    d = Fraction(min(1.2, math.sqrt(60 / float(size)))).limit_denominator(10**6)
    c = 1 - d * d / 2
    bound = exp(up(1 - c) * size, UP) / down(c)  # C
    # Steps and points have few digits, so that points are at exactly equal distances.
    t = Fraction(f"{6.28 * float(d) / (float(log(bound, UP)) + 35):.8g}")
    e = 2 * bound / DOWN.subtract(exp(down(Fraction("6.2831853") * d / t), DOWN), ONE)

    def number(x: Fraction, to: Context) -> Decimal:
        return up(x) if to is UP else down(x)

    def at(u: Decimal, extra: Fraction, to: Context, back: Context) -> Decimal:
        """Return f(u) x^extra, rounded up or down."""
        # near = -ln x = ln(1 + e^-u), and -ln(1 - x) = near + u.
        near = log(back.add(ONE, exp(-u, back)), back)
        lost = back.add(back.multiply(number(base + extra + m, back), near), back.multiply(Decimal(m), u))
        result = -lost
        for b, f, k in coins:
            x = exp(-back.multiply(number(b, back), near), to)
            coin = to.add(number(1 - f, to), to.multiply(number(f, to), x))
            result = to.add(result, to.multiply(Decimal(k), log(coin, to)))
        return exp(result, to)

    # f rises up to the one, and falls from the other.
    rises, falls = log(down(base / m), DOWN), log(up(whole / m), UP)
    middle = Fraction(f"{float(rises + falls) / 2:.8f}")
    above = below = ZERO
    for sign, rate in ((1, Fraction(m)), (-1, base)):
        geometric = 1 / DOWN.subtract(ONE, exp(-down(t * rate / 2), UP))
        # v: from here on it certainly falls as fast as that.
        v = log(up((2 * whole + m) / m), UP) if sign > 0 else log(down(base / (base + 2 * m)), DOWN)
        for point in itertools.count(0 if sign > 0 else 1):
            u = down(middle + sign * point * t)
            f = at(u, Fraction(0), UP, DOWN)
            above, below = above + f, DOWN.add(below, at(u, a, DOWN, UP))
            if u >= falls if sign > 0 else u <= rises:
                left = f * (1 + max(ZERO, sign * (v - u)) / down(t) + geometric)
                if left <= above * Decimal("1e-14"):
                    above += left
                    break
    return (1 + e) / DOWN.subtract(ONE, e) * (above / below)


# --- one record (Lemmas 10 to 12)


def record_deltas(c: PoolClass, epsilon: Fraction, presence: bool) -> Iterator[Decimal]:
    """Yield bounds of the delta of one record at an epsilon: a quick one, and if there is one a smaller."""
    yield record_delta(c, epsilon, presence)
    few = sum(s.most for s in c.strata) <= 5 and c.m <= 400
    if not c.pruned and (few or c.n_max * c.m <= 100):  # elsewhere no certificate is by Lemma 12
        yield pairs_delta(c, epsilon)


@functools.lru_cache(maxsize=4096)
def record_delta(c: PoolClass, epsilon: Fraction, presence: bool) -> Decimal:
    """Bound delta by what one cell loses (Lemma 10; Lemma 30 for one record more or less)."""
    e_v, asked = pruning(c), exp(down(epsilon), DOWN)
    odds = DOWN.divide(asked, e_v)
    if odds <= 1:
        return ONE
    bound = shortfall(c) + max(max(c.occupied(s, Fraction(odds), lost=True).values()) for s in c.strata)
    if presence and c.pruned:
        sure = sum(s.prior * s.kept for s in c.strata if s.retention == 1)
        gained = e_v * up(1 + Fraction(c.m * c.q, c.n_min * c.q + sure))
        bound = max(bound, 1 - DOWN.divide(asked, gained))
    return min(ONE, bound)


@functools.lru_cache(maxsize=4096)
def pairs_delta(c: PoolClass, epsilon: Fraction) -> Decimal:
    """Bound delta by the worst pair of cells, without pruning (Lemma 12)."""
    odds, exact = exp(down(epsilon), DOWN), ZERO
    for s in c.strata:
        for x, alone in c.occupied(s, Fraction(odds), lost=True).items():
            if alone > exact:  # no pair has more than its first cell by itself
                exact = max(exact, *(pair(c, x, s, other, odds) for other in c.strata))
    return exact


def pair(c: PoolClass, x: int, i: Stratum, j: Stratum, odds: Decimal) -> Decimal:
    """Bound the divergence of neighbours, a worker going from a cell with x to one of another (Lemma 12)."""
    if i is j and i.most < 2:
        return ZERO
    others = [(s.prior, max(0, s.fewest - (s is i) - (s is j))) for s in c.strata]
    known, more = sum(prior * k for prior, k in others), c.q * max(0, c.n_min - x)
    third = max(known, min(s.prior for s in c.strata) if more else 0)  # where the other workers are
    cases = [(0, more + third)] if sum(s.most for s in c.strata) > 2 else []
    cases += [(more, 0)] if not any(k for _, k in others) else []
    return max(divergence(c, c.q * x + i.prior, more_j + j.prior, rest, odds) for more_j, rest in cases)


def divergence(c: PoolClass, w: int, b: int, rest: int, odds: Decimal) -> Decimal:
    """Return E[(1 - e^epsilon (1 + s_j/b)/(1 + s_i/(w - 1)))^+], rounded up."""
    q, base, result = c.q, w - c.q, ZERO
    for s, p in draws(c.m, w, b + rest, q, math.floor((Fraction(odds) - 1) * Fraction(base, q)) + 1):
        last = math.ceil((Fraction(base + q * s, base) / Fraction(odds) - 1) * Fraction(b, q))
        for other, given in draws(c.m - s, b, rest, q):
            if other > last:  # no value is above 0 from here on
                break
            result += p * given * surplus(odds, base, q, s, b, other)
    return result


# --- pools of few cells (Lemma 32)


@functools.lru_cache(maxsize=4096)
def few_cells(c: PoolClass) -> Decimal:
    """Bound the probability of a bad loss of pools that all have these slots, draws and cells."""
    cells = [s for s in c.strata for _ in range(s.most)]
    found = []
    for h in histograms(c.n_max, cells):
        alone = ZERO
        for p, w in urns(c, cells, h):
            first = {i: c.fine(cells[i], h[i], c.gain) + 1 for i in w}
            bad = (tail(c.m, w[i], sum(w.values()) - w[i], c.q, first[i]) for i in w)
            alone += up(p) * sum(bad, ZERO)
        found.append((alone, h))
        if len(found) > 20_000:
            return ONE
    largest = ZERO
    for alone, h in sorted(found, reverse=True):
        if alone <= largest:  # each cell by itself is never less likely to be bad than together with others
            break
        largest = max(largest, sum((up(p) * together(c, cells, h, w) for p, w in urns(c, cells, h)), ZERO))
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


def urns(c: PoolClass, cells: list[Stratum], h: tuple[int, ...]) -> Iterator[tuple[Fraction, dict[int, int]]]:
    """Yield how likely it is that these cells are in the urn, and their weights."""
    coins = [(Fraction(1), Fraction(0)) if x else (s.retention, 1 - s.retention) for x, s in zip(h, cells)]
    for left_out in itertools.product((False, True), repeat=len(cells)):
        p = math.prod((coin[out] for coin, out in zip(coins, left_out)), start=Fraction(1))
        if p:
            yield p, {i: c.q * h[i] + cells[i].prior for i, out in enumerate(left_out) if not out}


def together(c: PoolClass, cells: list[Stratum], h: tuple[int, ...], w: dict[int, int]) -> Decimal:
    """Return the sum of Lemma 32 for an urn."""
    whole, result = sum(w.values()), ZERO

    def factor(i: int, s: int, arrives: bool) -> Fraction:
        """Return r_i(s) if a worker arrives, and else l_i(s)."""
        before = c.q * (h[i] if arrives else max(0, h[i] - 1)) + cells[i].prior
        coin = cells[i].retention if s and h[i] == (0 if arrives else 1) else 1
        return Fraction(before + c.q * s, before) / coin

    for i in w:
        partners = [d for d in range(len(cells)) if d != i and (h[i] or h[d])]
        for s, p in draws(c.m, w[i], whole - w[i], c.q, c.fine(cells[i], h[i], c.gain) + 1):
            limit, share = factor(i, s, not h[i]) / c.gain, ZERO
            for d in partners:
                if share >= 1 or d not in w:
                    share = ONE
                    break
                for other, given in draws(c.m - s, w[d], whole - w[i] - w[d], c.q):
                    if factor(d, other, h[i] > 0) >= limit:
                        break
                    share += given
            result += p * min(ONE, share)
    return result


# --- what a certificate says of its plan (docs/formats.md, Certificate)

# SHA-256 (its first half) of all sentences of certificates, as `said` takes it: with what it is said of, and
# N for the number of records of a person or of implicates. Other words could promise anything.
WORDS = """
    6dba803102f65934b2b35aefac42518d 600eae1338a2df1f5e044f7c00bac3a2 96d97f1fccae2c7ce94fe3db98d79640
    ba1be0842067d4c8914ca68c1dfd4707 7edbb78ac1b9ec6d0b18efea43ab9430 96f888b205f9a95def452defc4c7b510
    bfdc7f27678887e7e70f0674735ea3b9 90adeb4f5d75aba2296220b8032b9488 ee7b0c1e55e083f6e1fc33617d44ccd6
    713e6831f9da839e4fef35b2e4acd100 21bacc3d9e290f5464ad319479f5f880 86f5a9d32bff4a9be338217528de56f1
    334b73256f0940c481a3296d7593ee57 8a510bc3ef75f7c8de1a4b8b340eda3f 99445f30b65af8f6a58d71befbe9d30f
    d492b89c66b7d6d91b9e690ec72746ce 1ab90362bf141506474c1bec73e9e4ab 53dc44cad1e7b5db54e667df7944300f
    7785d90c015c6de95eaefb6f76fc8371 6d6d1595955cd6b4b77d5f8ef47676d4 af9dc4ae10bc58fab2eefc2fbd1c2d25
    d7153abb9e52f560b95f1bb60093440f 6177036c34159b20e46a080b6fcb42ae 46a3d66abfbf93385df0cb41eaed89c2
"""
SIGNATURES = {"certificate.json": "certificate.json.sig", "SHA256SUMS": "SHA256SUMS.sig"}
TABLES = ("blocks", "domains", "pools", "shares", "slots")


def said(words: Any, *of: Any, number: int | None = None, level: str | None = None) -> Any:
    """Return words, which must be known to be said of something; a number of things or a level is in them."""
    general = words if number is None else re.sub(rf"\b{number} (?=[a-z])", "N ", words)
    text = json.dumps([*of, general], sort_keys=True)
    if level is not None:  # it stands in quotation marks
        text = text.replace(json.dumps(f'"{level}"')[1:-1], "L")
    found = hashlib.sha256(text.encode()).hexdigest()[:32]
    need(found in WORDS.split(), f"certificate.json: {of[0]}: not in words that are known here")
    return words


def read_json(path: Path, written: bool = True, in_order: bool = False) -> Any:
    """Read a document, in which no name may stand twice, and which odsynth may have to have written."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        need(len({name for name, _ in pairs}) == len(pairs), f"{path.name} says a thing twice")
        return dict(pairs)

    text = path.read_text(encoding="utf-8")
    document = json.loads(text, object_pairs_hook=once)
    due = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=in_order) + "\n"
    need(text == due or not written, f"{path.name} is not written as odsynth does")
    return document


def same(where: str, stated: dict[str, Any], expected: dict[str, Any]) -> None:
    """Fail unless fields of a document are what they should be, names inside them in the same order."""
    for name, value in expected.items():
        need(json.dumps(stated[name]) == json.dumps(value), f"{where}: {name} is not what the plan gives")


class Claims:
    """Compares numbers of a certificate with bounds; `factor` is the largest stated number over its bound."""

    def __init__(self) -> None:
        self.factor, self.count = ONE, 0

    def check(self, name: str, stated: str, bounds: Iterable[Decimal]) -> Decimal:
        """Return the first bound that a number reaches; it must be no more than `FACTOR` above it."""
        need(stated == twelve_digits(Fraction(stated)), f"certificate.json: {name} has not twelve digits")
        value, bound = Decimal(stated), ZERO
        for bound in bounds:
            if value >= bound:
                ratio = UP.divide(value, bound) if bound else ONE if value == 0 else Decimal("Infinity")
                more = f"certificate.json: {name} is {stated}, more than the plan gives: {bound:.12g}"
                need(ratio <= up(FACTOR), more)
                self.factor, self.count = max(self.factor, ratio), self.count + 1
                return bound
        raise WrongError(f"certificate.json: {name} is {stated}, and the plan gives only {bound:.12g}")

    def pair(self, name: str, stated: dict[str, str], epsilon: Decimal, delta: Decimal) -> dict[str, str]:
        """Check an epsilon and a delta, and return them as they are stated."""
        self.check(f"{name}.epsilon", stated["epsilon"], [epsilon])
        self.check(f"{name}.delta", stated["delta"], [delta])
        return {"epsilon": stated["epsilon"], "delta": stated["delta"]}


@dataclass
class Plan:
    """A plan and its tables (docs/plan-format.md)."""

    document: dict[str, Any]
    tables: dict[str, pa.Table]

    def column(self, table: str, name: str) -> list[Any]:
        """Return a column."""
        return self.tables[table][name].to_pylist()

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that the plan quotes."""
        return dict(self.document["configuration"])

    @property
    def policy(self) -> str | None:
        """The level whose units are the parts of homes, in which the policy lets no neighbours differ."""
        policy = self.config.get("privacy", {}).get("policy")
        return None if policy is None else str(policy["partition"])

    @property
    def parts(self) -> list[int]:
        """The first block of each part; all blocks are one without a policy."""
        codes = [] if self.policy is None else self.column("blocks", self.policy)
        return [0, *(i for i, pair in enumerate(zip(codes, codes[1:]), 1) if pair[0] != pair[1])]

    def first_of_part(self, blocks: pa.Array) -> pa.Array:
        """Return the code of the first block in the part of each block."""
        known = pa.array(self.column("blocks", self.document["geography"]["block"]), pa.string())
        ends = [*self.parts[1:], len(known)]
        first = [a for a, b in zip(self.parts, ends) for _ in range(b - a)]
        return known.take(pa.array(first, pa.int64())).take(pc.index_in(blocks, value_set=known))

    @property
    def slot_parts(self) -> list[int]:
        """The first block of the part of homes of each row of slots, which is that of its pool's domain."""
        first, domain = [cuts[0] for cuts in self.column("domains", "cuts")], self.column("pools", "domain")
        return [first[domain[pool]] for pool in self.column("slots", "pool")]

    @property
    def implicates(self) -> tuple[int, int]:
        """The number of implicates, and of independent runs that they come from."""
        number, source = (self.config["release"][name] for name in ("implicates", "implicate_source"))
        return number, number if source == "independent-runs" else 1

    @property
    def classes(self) -> list[PoolClass]:
        """The classes of pools of Dirichlet resampling."""
        parameters = self.document["parameters"]
        retention = [Fraction(f) for f in parameters["retention"]]
        return [PoolClass.of(row, retention, parameters["denominator"]) for row in parameters["classes"]]

    @property
    def external_codes(self) -> pa.Array:
        """Codes of the blocks that are external zones: prefixes filled up with 9s."""
        geography = self.document["geography"]
        longest = max(map(len, self.column("blocks", geography["block"])))
        return pa.array([zone.ljust(longest, "9") for zone in geography["external_zones"]], pa.string())

    @property
    def files(self) -> dict[str, str]:
        """Names of the data files of each implicate (docs/formats.md, Data)."""
        release, jobs = self.config["release"], self.config["jobs"]
        kinds = {"od_main": True, "od_aux": bool(self.document["geography"]["external_zones"])}
        kinds["jobs_main"] = jobs["format"] == "microdata" and len(jobs["attributes"]) > 1
        tail = f"{release['job_type']}_{release['year']}"
        return {kind: f"{release['state']}_{kind}_{tail}" for kind, there in kinds.items() if there}

    @property
    def folders(self) -> list[str]:
        """The folders of the implicates, each with a slash at its end."""
        number, _ = self.implicates
        return [f"implicate-{i + 1:02}/" for i in range(number)] if number > 1 else [""]

    @property
    def counts(self) -> dict[str, dict[str, str]]:
        """The columns that count jobs, by attribute and category."""
        lodes = {f"S{kind}": [f"S{kind}0{k}" for k in (1, 2, 3)] for kind in "AEI"}
        attributes = self.document["attributes"].items()
        return {n: {c: c if lodes.get(n) == of else f"{n}_{c}" for c in of} for n, of in attributes}


# Of a class of pools or a measured table: its limits, bounds, exact numbers, and the parts of its loss.
Row = tuple[dict[str, Any], dict[str, Iterable[Decimal]], dict[str, list[str]], dict[str, list[Decimal]]]


def check_guarantee(plan: Plan, stated: dict[str, Any]) -> Claims:
    """Compute every bound of a certificate again from the plan, and compare its fields with what follows."""
    claims = Claims()
    with localcontext(UP):
        same("certificate.json", stated, expected_guarantee(plan, stated, claims))
    return claims


def expected_guarantee(plan: Plan, stated: dict[str, Any], claims: Claims) -> dict[str, Any]:
    """Return what a certificate must say of its plan; numbers as it states them, once they are proved."""
    document, (number, runs), pair = plan.document, plan.implicates, claims.pair
    first, dirichlet = stated["format"][-1] == "1", document["mechanism"] == "dirichlet"
    asked, allowed = Fraction(document["epsilon"]), Fraction(document["delta"])
    user, record = (stated["person"], "person_delta") if first else (stated["user_level"], "record_delta")
    curve = (user if first else stated["record_level"])["curve"]
    presence, records = stated.get("presence"), plan.config["jobs"].get("records_per_worker", 1)

    # Classes or tables, and the run as a whole (Lemmas 8, 11, 13, 26 and 33).
    made = dirichlet_rows(plan, record, presence) if dirichlet else table_rows(plan, record)
    further = document["parameters"].get("further", [])
    due = len(document["parameters"]["classes"]) if dirichlet else 1 + len(further)
    need(len(stated["classes"]) == due, "certificate.json: classes are not those of the plan")
    rows, reached, delta = [], [], ZERO
    for one, (limits, bounds, exact, parts) in zip(stated["classes"], made):
        found = {n: claims.check(f"classes.{n}", one[n], of) for n, of in {**bounds, **parts}.items()}
        rows.append({**limits, **{n: one[n] for n in bounds}, **exact, **{n: one[n] for n in parts}})
        delta += limits["pools"] * found["delta"]
        reached.append(found)
    together: Callable[..., Decimal] = max if dirichlet else sum
    losses = {n: together(found[n] for found in reached) for n in ("epsilon", *parts)}
    epsilon, delta = runs * losses.pop("epsilon"), min(ONE, runs * delta)
    for name, loss in losses.items():
        claims.check(f"losses.{name}", stated["losses"][name], [loss])
    classes = plan.classes if dirichlet else []
    pure = runs * log(max(c.ratio for c in classes), UP) if dirichlet else epsilon
    if pure < epsilon and not first:
        epsilon, delta = pure, ZERO

    # One record: at what was asked for, and at other points of the curve.
    own = up(runs * asked), min(ONE, runs * max(found[record] for found in reached))
    at = [asked * Fraction(k, 4) for k in (2, 3, 4, 5, 6) if dirichlet and not (first and k == 4)]
    at = [e for e in at if up(runs * e) < pure]
    if not (asked in at or (first and dirichlet)):
        own = pure, ZERO
    need(len(curve) == len(at) + 1, "certificate.json: curve has not the points that the plan gives")
    points = []
    for e, one in zip(at, curve):
        enough = DOWN.divide(Decimal(one["delta"]), Decimal(runs))
        d = own[1] if e == asked else min(ONE, runs * delta_at(classes, e, enough, presence is not None))
        claims.check("curve.delta", one["delta"], [d])
        points.append({"epsilon": twelve_digits(runs * e), "delta": one["delta"]})
    points.append(pair("curve", curve[-1], pure, ZERO))
    shown, d = own if document["guarantee"] == "dp" else (epsilon, delta)
    need(shown <= up(runs * asked) and d <= up(runs * allowed), "the plan costs more than was requested")

    def of_person(name: str, one: dict[str, Any], e: Decimal, d: Decimal) -> dict[str, str]:
        more = sum((exp(k * e, UP) for k in range(1, records)), ONE)  # Lemma 14
        return pair(name, one, records * e, min(ONE, d * more))

    guarantee, n, m = document["guarantee"], plan.column("pools", "n"), plan.column("pools", "m")
    cuts, source = plan.column("domains", "cuts"), plan.config["release"]["implicate_source"]
    totals = len(n), sum(n), sum(m) * runs // number, len(cuts), sum(map(len, cuts))
    words = said(user["statement"], "user_level", number=records)
    holder = {**of_person("user_level", user, *own), "records": records, "statement": words}
    case = stated["format"][-1], document["mechanism"], presence is not None, stated.get("population")
    level = plan.policy
    words = said(stated["implicates"]["words"], source if number > 1 else "one", number=number)
    expected = {
        "mechanism": document["mechanism"],
        "definition": said(stated["definition"], "definition", *case, level=level),
        "requested": {
            "epsilon": twelve_digits(runs * asked),
            "delta": twelve_digits(runs * allowed),
            "guarantee": guarantee,
            "words": said(stated["requested"]["words"], guarantee),
        },
        "run": pair("run", stated["run"], epsilon, delta),
        "losses": {name: stated["losses"][name] for name in losses},
        "implicates": {"number": number, "source": source, "words": words},
        "totals": dict(zip(("pools", "records", "synthetic_workers", "domains", "cells"), totals)),
        "classes": rows,
        "arithmetic": said(stated["arithmetic"], "arithmetic"),
    }
    if first:
        return {**expected, "person": {**holder, "curve": points}}
    one = points[at.index(asked)] if asked in at else pair("record_level", stated["record_level"], *own)
    expected.update(user_level=holder, record_level={**one, "curve": points})
    if level is not None:  # Lemma 35
        policy, above = stated["policy"], document["geography"]["levels"]
        units = [[*dict.fromkeys(plan.column("blocks", n))] for n in above[: above.index(level) + 1]]
        digests = (hashlib.sha256("\n".join(of).encode()).hexdigest()[:16] for of in units)
        name = "partition " + "/".join(map(":".join, zip(above, digests)))
        words = {n: said(policy[n], "policy", n, level=level) for n in ("words", "symbols")}
        expected["policy"] = {"name": name, "partition": level, "parts": len(plan.parts), **words}
    if presence is not None:  # Lemmas 28 and 29
        half = Decimal(1 if dirichlet else 2)
        expected["presence"] = {
            "statement": said(presence["statement"], "presence", number=records),
            "run": pair("presence.run", presence["run"], epsilon / half, delta),
            "record_level": pair("presence.record_level", presence["record_level"], own[0] / half, own[1]),
            "user_level": of_person("presence.user_level", presence["user_level"], own[0] / half, own[1]),
        }
    return expected


def delta_at(classes: list[PoolClass], epsilon: Fraction, enough: Decimal, presence: bool) -> Decimal:
    """Return the largest delta of any class; what is no more than enough is not looked at closer."""
    largest = bound = ZERO
    for c in classes:
        _TABLES.clear()
        for bound in record_deltas(c, epsilon, presence):
            if bound <= enough:
                break
        largest = max(largest, bound)
    return largest


def dirichlet_rows(plan: Plan, record: str, presence: Any) -> Iterator[Row]:
    """Yield what is true of each class of Dirichlet resampling."""
    parameters, asked = plan.document["parameters"], Fraction(plan.document["epsilon"])
    classes, of_pools = plan.classes, plan.column("pools", "class")
    check_membership(plan, classes)
    pools, of_m = Counter(of_pools), Counter(zip(of_pools, plan.column("pools", "m")))
    for number, (c, row) in enumerate(zip(classes, parameters["classes"])):
        _TABLES.clear()
        alike = of_m[number, c.m] == pools[number] and c.n_min == c.n_max and row["cells"] == row["cells_min"]
        few = alike and not presence and 2 <= sum(row["cells"]) <= 5 and c.m <= 400
        limits = {name: row[name] for name in ("n_min", "n_max", "m_max", "cells")}
        bounds: dict[str, Iterable[Decimal]] = {
            "epsilon": [log(up(c.gain) * pruning(c), UP)],
            "delta": itertools.chain([failure(c)], (few_cells(c) for _ in range(few))),
            record: record_deltas(c, asked, presence is not None),
        }
        prior = [str(Fraction(a, c.q)) for a in row["prior"]]
        exact = {"prior": prior, "retention": [str(Fraction(f)) for f in parameters["retention"]]}
        losses = {"block_loss_U": [log(up(c.gain), UP)], "pruning_loss_V": [log(pruning(c), UP)]}
        yield {"pools": pools[number], **limits}, bounds, exact, losses


def check_membership(plan: Plan, classes: list[PoolClass]) -> None:
    """Check that every pool is inside the limits of its class (Lemmas 9 and 29)."""
    parameters, known = plan.document["parameters"], plan.config.get("workplaces")
    strata = range(len(parameters["retention"]))
    counts = [[own.count(s) for s in strata] for own in plan.column("domains", "stratum")]
    sizes = [len(cuts) for cuts in plan.column("domains", "cuts")]
    need([*map(sum, counts)] == sizes, "plan: a cell is of a stratum that there is not")
    for n, m, domain, number in zip(*(plan.column("pools", name) for name in ("n", "m", "domain", "class"))):
        need(0 <= number < len(classes), "plan: a pool is of a class that there is not")
        c, row, least, most = classes[number], parameters["classes"][number], Fraction(n), Fraction(n)
        if known is not None:
            least, most = Fraction(known["fewest"]) * n, Fraction(known["most"]) * n
        inside = c.n_min <= max(1, math.floor(least)) and math.ceil(most) <= c.n_max and m <= c.m
        limits = zip(row["cells_min"], counts[domain], row["cells"])
        need(inside and all(a <= k <= b for a, k, b in limits), "plan: a pool is outside its class's limits")


def table_rows(plan: Plan, record: str) -> Iterator[Row]:
    """Yield what is true of each measured table of geometric noise (Lemmas 20 and 33)."""
    parameters = plan.document["parameters"]
    need(set(plan.column("pools", "class")) == {0}, "plan: a pool is of a class that there is not")
    sizes, n = [len(cuts) for cuts in plan.column("domains", "cuts")], plan.column("pools", "n")
    tables = [(n, max(plan.column("pools", "m")), max(sizes[d] for d in plan.column("pools", "domain")))]
    for table in plan.document["choices"].get("tables", []):
        jobs = groups(plan, table)
        own = plan.first_of_part(plan.tables["blocks"][plan.document["geography"]["block"]].combine_chunks())
        pairs = {*zip(own.to_pylist(), plan.column("blocks", table["home"]))}
        tables.append((jobs, max(jobs), max(Counter(part for part, _ in pairs).values())))
    noises = [parameters, *parameters.get("further", [])]
    need(len(noises) == len(tables), "plan.json: parameters.further are not those of choices.tables")
    for (n, most, cells), noise in zip(tables, noises):
        p, q = noise["numerator"], noise["denominator"]
        need(type(p) is int and type(q) is int and 0 < p < q, "plan.json: a ratio is not between 0 and 1")
        loss = 2 * log(up(Fraction(q, p)), UP)
        limits = {"pools": len(n), "n_min": min(n), "n_max": max(n), "m_max": most, "cells": [cells]}
        ratio = {"ratio": [str(Fraction(p, q))]}
        yield limits, {"epsilon": [loss], "delta": [ZERO], record: [ZERO]}, ratio, {"noise_loss": [loss]}


def groups(plan: Plan, table: dict[str, Any]) -> list[int]:
    """Count the jobs of each group of a further measured table, from public slots."""
    slots, block, level = plan.tables["slots"], plan.document["geography"]["block"], table["work"]
    works = {} if level is None else dict(zip(plan.column("blocks", block), plan.column("blocks", level)))
    found: Counter[tuple[str, ...]] = Counter()
    columns = (slots[name].to_pylist() for name in ("count", "work", *table["by"]))
    for part, count, work, *kind in zip(plan.slot_parts, *columns):
        found[(works.get(work, ""), *kind, part)] += count
    return [*found.values()]


# --- the folder: checksums, signature, certificate, plan (docs/formats.md, Folder)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            found.update(piece)
    return found.hexdigest()


def check_files(folder: Path) -> str:
    """Compare every file with SHA256SUMS and MANIFEST.json."""
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(found.items()):
        need(not path.is_symlink(), f"{name} is a link, not a file")
        holds = path.is_file() or (path.is_dir() and any(path.iterdir()))
        need(holds, f"{name} is neither a file nor a folder that holds one")
    apart = {"SHA256SUMS", *SIGNATURES.values()}
    actual = {n: sha256(path) for n, path in sorted(found.items()) if path.is_file() and n not in apart}
    lines = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    stated = {name: value for value, _, name in (line.partition("  ") for line in lines)}
    for name in sorted({*actual, *stated}):
        need(name in actual, f"{name} is missing")
        need(name in stated, f"{name} does not belong to the release")
        need(actual[name] == stated[name], f"{name} has been changed, or SHA256SUMS has")
    sums = "".join(f"{value}  {name}\n" for name, value in actual.items()).encode()
    need((folder / "SHA256SUMS").read_bytes() == sums, "SHA256SUMS is not written as sha256sum does")
    certificate, described = read_json(folder / "certificate.json"), actual.keys() - {"MANIFEST.json"}
    files = [{"path": n, "bytes": found[n].stat().st_size, "sha256": actual[n]} for n in sorted(described)]
    expected = {name: certificate[name] for name in ("release", "plan_sha256", "created")}
    expected.update(format="odsynth manifest 1", files=files)
    agrees = read_json(folder / "MANIFEST.json", written=False) == expected
    need(agrees, "MANIFEST.json does not describe this release")
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
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        how = (
            "the signature needs the Python library cryptography, or openssl: openssl pkeyutl -verify -pubin "
            "-inkey KEY -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig, and the same for certificate.json"
        )
        if key is not None:
            raise ImpossibleError(how) from None
        return f"NOT CHECKED: {how}"
    pem = (folder / parts[0]).read_bytes()
    if key is not None and not key.is_file():
        raise ImpossibleError(f"{key} is not a file")
    others = key is not None and key.read_bytes().split() != pem.split()
    need(not others, f"{parts[0]} is not the key {key}: somebody else signed")
    # RFC 8410: the 32 bytes of an Ed25519 key stand after 12 that are always the same, here in Base64.
    form = rb"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA([+/0-9A-Za-z]{43}=)\n-----END PUBLIC KEY-----\n"
    found = re.fullmatch(form, pem)
    if found is None:
        raise WrongError(f"{parts[0]} is not an Ed25519 key in PEM, or more than one")
    own = Ed25519PublicKey.from_public_bytes(base64.b64decode(found[1]))
    for name, signature in signed.items():
        try:
            own.verify((folder / signature).read_bytes(), (folder / name).read_bytes())
        except InvalidSignature:
            raise WrongError(f"{signature} is not a signature of {name} by {parts[0]}") from None
    whose = "given" if key else "in the folder; WHOSE that is, was not checked (give --key)"
    return f"signed by the key {whose}"


# Fields of a certificate, in their order, by format.
LEVELS = {"1": "person", "2": "record_level user_level presence population"}
LEVELS["3"] = LEVELS["2"]  # which has a policy besides
FIELDS = (
    "format release mechanism definition requested run {} losses implicates totals classes arithmetic "
    "plan_sha256 software randomness created for_release not_for_release_because"
)
VERSION = r"[0-9][0-9A-Za-z.!+_-]{0,63}"


def check_certificate(folder: Path, stated: dict[str, Any], plan: Plan) -> str:
    """Check the form of the certificate, and that it is of this plan."""
    version = str(stated.get("format")).replace("odsynth certificate ", "")
    need(version in LEVELS, "certificate.json: this is a format that this file does not know")
    names = FIELDS.format(LEVELS[version]).split() + ["policy"] * (version == "3")
    need((version == "3") == (plan.policy is not None), "certificate.json: the plan has another policy")
    need([*stated] == names, "certificate.json: the fields are not those of its format, in their order")
    config, software, dependencies = plan.config, stated["software"], stated["software"]["dependencies"]
    commit, modified, secure = software["commit"], software["modified"], stated["randomness"]["secure"]
    population, bill = config["jobs"].get("population"), ["sbom_sha256"] if version != "1" else []
    residents = None if plan.document["geography"]["external_zones"] else "residents"
    forms = [(stated["created"], r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), (software["version"], VERSION)]
    forms += [(name, "[0-9A-Za-z._-]{1,64}") for name in dependencies]
    forms += [(of, VERSION) for of in dependencies.values()]
    hashes = ((commit, "[0-9a-f]{7,64}"), (software.get("sbom_sha256"), "[0-9a-f]{64}"))
    for text, form in [*forms, *(one for one in hashes if one[0] is not None)]:
        need(re.fullmatch(form, text) is not None, f"certificate.json: a field is not like {form}")
    truths = secure in (True, False) and modified in (True, False, None)
    need(truths, "certificate.json: secure or modified is neither true nor false")
    reasons = [] if secure else ["the run was seeded: its randomness is not secret"]
    reasons += ["the commit of the program is unknown"] if commit is None else []
    reasons += ["the program differs from its commit"] if modified or (commit and modified is None) else []
    expected = {
        "release": {name: config["release"][name] for name in ("name", "state", "year", "job_type")},
        "plan_sha256": sha256(folder / "plan" / "plan.json"),
        "software": {
            **{name: software[name] for name in ("version", "commit", "modified", *bill)},
            "dependencies": dict(sorted(dependencies.items())),
        },
        "randomness": {
            "secure": secure,
            "source": "the operating system's generator" if secure else "a seed (tests only)",
            "derivation": "HKDF-SHA256 for each stage and batch, ChaCha20 key streams, rejection sampling",
        },
        "for_release": not reasons,
        "not_for_release_because": reasons,
    }
    same("certificate.json", stated, expected)
    same("plan.json", plan.document, {"format": f"odsynth plan {version}"})
    if version != "1":
        tables = (stated["presence"] is None) == (config.get("workplaces") is None)
        need(tables, "certificate.json: presence is there if there is a public table of workplaces")
        whole = stated["population"] == population == residents
        need(whole, "population: without external zones, and only then, jobs are of residents")
    return f"{stated['format']}, all fields present; it is of this plan"


def read_table(path: Path, codes: bool = False) -> pa.Table:
    """Read a Parquet file, or a folder of parts; text, also in codes, and whole numbers in one width each."""

    def wide(of: pa.DataType) -> pa.DataType:
        coded = codes and pa.types.is_dictionary(of)
        text = coded or pa.types.is_string(of) or pa.types.is_large_string(of)
        return pa.string() if text else pa.int64() if pa.types.is_integer(of) else of

    tables = [pq.read_table(part) for part in (sorted(path.iterdir()) if path.is_dir() else [path])]
    for schema in (one.schema for one in tables):
        notes = schema.metadata or any(field.metadata for field in schema)
        need(not notes, f"{path.name} carries notes beside its rows")
    table = pa.concat_tables(tables)
    schema = pa.schema([(field.name, wide(field.type)) for field in table.schema])
    return table.cast(schema).combine_chunks()


def every(condition: Any) -> bool:
    """Say whether something is true of every row."""
    return pc.all(condition, skip_nulls=False).as_py() is True


def read_plan(folder: Path) -> Plan:
    """Read a plan and its tables, which must be those that plan.json names; in the names of format 2."""
    below = folder / "plan"
    document = read_json(below / "plan.json", in_order=True)
    need(set(document["files"]) == {f"{name}.parquet" for name in TABLES}, "plan.json: files are others")
    for name, stated in document["files"].items():
        need(sha256(below / name) == stated, f"plan/{name} is not the table that plan.json names")
    if document["format"] == "odsynth plan 1":
        document["geography"]["external_zones"] = document["geography"].pop("outside")
    return Plan(document, {name: read_table(below / f"{name}.parquet", codes=True) for name in TABLES})


def check_plan(plan: Plan) -> str:
    """Check that a plan agrees with itself and with the configuration that it quotes."""
    document, config, geography = plan.document, plan.config, plan.document["geography"]
    pooling, block, (number, runs) = document["pooling"], geography["block"], plan.implicates
    keys = "attributes choices configuration delta epsilon files format geography guarantee mechanism "
    keys += "model_level notes parameters pooling"
    asked = [Fraction(config["privacy"][n]) == runs * Fraction(document[n]) for n in ("epsilon", "delta")]
    pools_by = [config["plan"].get(f"pool_{n}") in (None, pooling[n]) for n in ("by", "level", "below")]
    shares = [Fraction(table["share"]) for table in document["choices"].get("tables", [])]
    other = "not what its configuration asks for"
    checks = {
        "it has other fields": sorted(document) == keys.split(),
        f"epsilon and delta: {other}": all(asked),
        f"guarantee: {other}": document["guarantee"] == config["privacy"]["guarantee"],
        f"mechanism: {other}": config["release"].get("mechanism") in (None, document["mechanism"]),
        f"geography: {other}": all(geography[n] == config["geography"][n] for n in ("block", "levels")),
        f"pooling: {other}": all(pools_by),
        "shares of epsilon leave nothing": sum(shares) < 1,
    }
    must("plan.json", checks)
    expected = {
        "blocks": [block, *geography["levels"], "latitude", "longitude", "weight"],
        "domains": ["destination", "size", "cuts", "stratum"],
        "shares": ["destination", "unit", "share"],
        "pools": ["place", "shared", *pooling["by"], "n", "m", "domain", "class"],
        "slots": ["pool", "work", *document["attributes"], "count"],
    }
    areas = config["geography"].get("non_nesting_areas", [])
    for name, columns in expected.items():
        found = [c for c in plan.tables[name].column_names if name != "blocks" or c not in areas]
        need(found == columns, f"plan/{name}.parquet has other columns")

    blocks, pools, slots, domains = (plan.tables[name] for name in ("blocks", "pools", "slots", "domains"))
    codes = [*zip(*(blocks[name].to_pylist() for name in (*geography["levels"], block)))]
    checks = {
        "it is not in order": codes == sorted(codes),
        "a block comes twice": len({code for *_, code in codes}) == len(codes),
        "a weight is below 1": every(pc.greater(blocks["weight"], 0)),
    }
    must("plan/blocks.parquet", checks)
    ends = dict(zip(plan.parts, [*plan.parts[1:], len(codes)]))
    for cuts, strata in zip(domains["cuts"].to_pylist(), domains["stratum"].to_pylist()):
        end = ends.get(cuts[0], 0)
        rising = all(a < b for a, b in zip([-1, *cuts], [*cuts, end]))
        need(rising and len(strata) == len(cuts), "plan/domains.parquet: cells are not runs of blocks")

    # Every pool is of one place, and its jobs are slots there, with the attributes that the pool is by.
    known, place, n = blocks[block].combine_chunks(), pools["place"], pools["n"]
    pool, work, level = slots["pool"], slots["work"], blocks[pooling["level"]]
    jobs = summed(slots.select(["pool", "count"]), ["pool"])
    due = pa.table({"pool": pa.array(range(len(pools)), pa.int64()), "count": n})
    unit, own = (level.take(pc.index_in(codes, value_set=known)) for codes in (work, place))
    near = pc.and_(pools["shared"].take(pool), pc.equal(unit, own.take(pool)))
    there = [pc.or_(near, pc.equal(work, place.take(pool)))]
    there += [pc.equal(slots[name], pools[name].take(pool)) for name in pooling["by"]]
    kinds = [pc.is_in(slots[name], value_set=pa.array(of)) for name, of in document["attributes"].items()]
    inside = pc.invert(pc.is_in(work, value_set=plan.external_codes))
    first = {i: cuts[0] for i, cuts in enumerate(domains["cuts"].to_pylist())}
    named = (pools[name].to_pylist() for name in ("place", "shared", *pooling["by"]))
    of_pool = {*zip(map(first.get, pools["domain"].to_pylist()), *named)}
    checks = {
        "slots: they are not in the order of the pools": every(pc.greater_equal(pool[1:], pool[:-1])),
        "slots: a job is in an external zone": every(inside),
        "slots: a row is of no job": every(pc.greater(slots["count"], 0)),
        "slots: a job is not of its pool": all(map(every, there)),
        "slots: an attribute has other categories": all(map(every, kinds)),
        "pools: a pool comes twice": len(of_pool) == len(pools),
        "pools: n is not the number of slots": jobs.equals(due),
        "pools: m is not n for each implicate": every(pc.equal(pools["m"], pc.multiply(n, number // runs))),
        "pools: there is no such domain": set(pools["domain"].to_pylist()) <= {*range(len(domains))},
    }
    must("plan", checks)
    return f"{len(pools):,} pools with {pc.sum(n).as_py():,} jobs agree with each other and the configuration"


# --- data (docs/formats.md, Data)


def check_names(folder: Path, plan: Plan) -> str:
    """Check that there are the files of such a release and no others."""
    config, (_, runs), csv = plan.config, plan.implicates, plan.config["release"]["csv"]
    due = {"README.md", "certificate.json", "certificate.schema.json", "MANIFEST.json", "SHA256SUMS"}
    due |= {"plan/plan.json", *(f"plan/{name}.parquet" for name in TABLES)}
    due |= {f"geo/{one['level']}.parquet" for one in config["geography"].get("polygons") or []}
    for below, (kind, name) in itertools.product(plan.folders, plan.files.items()):
        due |= {f"{below}{name}.parquet", *([f"{below}{name}.csv.gz"] if csv and kind != "jobs_main" else [])}
    if plan.document["mechanism"] == "geometric" and plan.document["format"] != "odsynth plan 1":
        tables = range(len(plan.document["choices"].get("tables", [])) + 1)
        runs_below = [f"run-{i + 1}/" for i in range(runs)] if runs > 1 else [""]
        due |= {f"measurements/{below}table-{k + 1}.parquet" for below in runs_below for k in tables}
    optional = {"names.parquet", "verify.py", "accuracy.json", "signing-key.pub", *SIGNATURES.values()}
    optional |= {"datapackage.json", "croissant.json", "dcat-us.json"}
    parts: dict[str, list[str]] = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, last = path.relative_to(folder).as_posix(), path.parent.relative_to(folder).as_posix()
        parts.setdefault(last if last.endswith(".parquet") else name, []).append(path.name)
    other = sorted((parts.keys() ^ due) - optional)
    need(not other, f"a release of this kind has other files: {', '.join(other)}")
    for name, found in parts.items():
        numbered = [f"part-{i:06}.parquet" for i in range(len(found))]
        parted = name in due and found == numbered
        need(parted or not (folder / name).is_dir(), f"{name} has other parts")
    return "the files are those of such a release"


def summed(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the sums of all other columns, by these, in their order."""
    counts = [name for name in table.column_names if name not in keys]
    found = table.group_by(keys).aggregate([(name, "sum") for name in counts])
    found = found.sort_by([(key, "ascending") for key in keys])
    return found.select([*keys, *(f"{name}_sum" for name in counts)]).rename_columns([*keys, *counts])


def counted(table: pa.Table, plan: Plan, keys: dict[str, str], count: Any) -> pa.Table:
    """Count jobs in all, and by each category of each attribute, as the columns of OD files do."""
    columns = {key: table[name] for key, name in keys.items()} | {"S000": count}
    for name, of in plan.counts.items():
        for category, column in of.items():
            columns[column] = pc.if_else(pc.equal(table[name], category), count, 0)
    return summed(pa.table(columns), [*keys])


def check_data(folder: Path, plan: Plan, stated: dict[str, Any]) -> str:
    """Compare the data files with the plan's slots: totals of every work block by every attribute."""
    files, slots, ends = plan.files, plan.tables["slots"], ["w_geocode", "h_geocode"]
    attributes, pairs = [*plan.document["attributes"]], 0
    known = pa.array(plan.column("blocks", plan.document["geography"]["block"]), pa.string())
    slots = slots.append_column("home", known.take(pa.array(plan.slot_parts, pa.int64())))
    public = counted(slots, plan, {"w_geocode": "work", "h_geocode": "home"}, slots["count"])
    for below in plan.folders:
        kinds = [kind for kind in ("od_main", "od_aux") if kind in files]
        od = pa.concat_tables([check_od(folder / below, kind, plan) for kind in kinds])
        day = every(pc.equal(od["createdate"], stated["created"][:10].replace("-", "")))
        need(day, f"{files['od_main']}.parquet: createdate is not the day that certificate.json states")
        od = od.drop(["createdate"])
        of_part = od.set_column(1, "h_geocode", plan.first_of_part(od["h_geocode"]))
        by = "work block" if plan.policy is None else "work block and part of homes"
        equal = summed(of_part, ends).equals(public)
        need(equal, f"{files['od_main']}.parquet: totals by {by} are not those of the plan's slots")
        pairs += od.num_rows
        if "jobs_main" in files:
            name = f"{below}{files['jobs_main']}.parquet"
            jobs = read_table(folder / name)
            need(jobs.column_names == [*ends, *attributes], f"{name} has other columns")
            numbers = [i for i, n in enumerate(slots["count"].to_pylist()) for _ in range(n)]
            due = slots.take(pa.array(numbers, pa.int64())).select(["work", *attributes])
            equal = jobs.drop(["h_geocode"]).equals(due.rename_columns(["w_geocode", *attributes]))
            need(equal, f"{name}: the jobs are not the plan's slots")
            found = counted(jobs, plan, {end: end for end in ends}, pa.array([1] * jobs.num_rows, pa.int64()))
            need(found.equals(summed(od, ends)), f"{name} and the OD files hold different commutes")
    counts, blocks = public.num_columns - 2, len(pc.unique(public["w_geocode"]))
    return f"{pairs:,} pairs; the totals of {blocks:,} work blocks by {counts} counts are the plan's"


def check_od(folder: Path, kind: str, plan: Plan) -> pa.Table:
    """Check the rows of an OD file by themselves, and return them."""
    path = folder / f"{plan.files[kind]}.parquet"
    table, name, columns = read_table(path), path.name, plan.counts
    counts = ["S000", *(c for of in columns.values() for c in of.values())]
    due = [("w_geocode", pa.string()), ("h_geocode", pa.string()), *((c, pa.int64()) for c in counts)]
    need(table.schema.equals(pa.schema([*due, ("createdate", pa.string())])), f"{name} has other columns")
    known = pa.array(plan.column("blocks", plan.document["geography"]["block"]), pa.string())
    work, home = (pc.index_in(table[c], value_set=known).cast(pa.int64()) for c in ("w_geocode", "h_geocode"))
    need(work.null_count == home.null_count == 0, f"{name} has blocks that are not in the geography")
    outside = pc.is_in(table["h_geocode"], value_set=plan.external_codes)
    right = every(pc.equal(outside, kind == "od_aux"))
    need(right, f"{name} has homes that belong in the other of the main and aux file")
    key = pc.add(pc.multiply(work, len(known)), home)
    need(every(pc.greater(key[1:], key[:-1])), f"{name}: rows are not in order, or a pair comes twice")
    most = sum(plan.column("slots", "count"))
    possible = [pc.greater_equal(table[c], int(c == "S000")) for c in counts]
    possible += [pc.less_equal(table[c], most) for c in counts]
    added = (functools.reduce(pc.add, (table[c] for c in of.values())) for of in columns.values())
    possible += [pc.equal(jobs, table["S000"]) for jobs in added]
    need(all(map(every, possible)), f"{name} has counts that no jobs can have")
    if plan.config["release"]["csv"]:
        rows = zip(*(table[name].to_pylist() for name in table.column_names))
        lines = (",".join(map(str, row)) for row in itertools.chain([table.column_names], rows))
        with gzip.open(path.with_suffix(".csv.gz"), "rt", encoding="utf-8", newline="") as text:
            equal = all(a == b for a, b in itertools.zip_longest((f"{line}\n" for line in lines), text))
        need(equal, f"{name} and the CSV file hold different rows")
    return table


def check_texts(folder: Path, stated: dict[str, Any]) -> str:
    """Compare the numbers in the read-me with the certificate's."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    user = stated.get("user_level") or stated["person"]
    for said in (
        f"# {stated['release']['name']}\n",
        f"{stated['totals']['synthetic_workers']:,} **synthetic** workers",
        f"\nEpsilon {stated['run']['epsilon']}, delta {stated['run']['delta']}.\n",
        f"with epsilon {user['epsilon']} and delta {user['delta']}.",
        "**for publication**" if stated["for_release"] else "**Not for release**",
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


def verify(folder: Path, key: Path | None = None, only: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the name of each check and what it found; the first that fails raises `WrongError`."""
    if not folder.is_dir():
        raise ImpossibleError(f"{folder} is not a folder")
    if not only:
        yield "files", check_files(folder)
    yield "signature", check_signature(folder, key, only)
    stated, plan = read_json(folder / "certificate.json"), read_plan(folder)
    yield "certificate", check_certificate(folder, stated, plan)
    yield "plan", check_plan(plan)
    claims, run = check_guarantee(plan, stated), stated["run"]
    excess = f"the largest excess of one over its proof is {float(claims.factor - 1):.1e} of it"
    proved = f"all {claims.count} bounds are proved again from the plan; {excess}"
    yield "guarantee", f"epsilon {run['epsilon']}, delta {run['delta']}: {proved}"
    if not only:
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
    only = "the certificate and the plan, not the data"
    parser.add_argument("--certificate-only", action="store_true", help=only)
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
