"""Check a release of odsynth without odsynth: python verify.py FOLDER [--key KEY] [--certificate-only].

It needs Python 3.9 or later and pyarrow, and for signatures the library `cryptography`. It was written from
docs/privacy.md, docs/formats.md and docs/plan-format.md of the project, and shares no code with the program
that makes releases. Every bound of the certificate is computed again from the plan; the names of lemmas are
those of docs/privacy.md. Numbers are fractions, or decimals of 50 digits whose every operation is rounded up,
or every operation down, so that what is computed is never below the truth. What is left of a sum is below
10^-18 of it, and is added.

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
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError:
    print("NOT CHECKED  this needs the Python library pyarrow: python -m pip install pyarrow")
    raise SystemExit(2) from None

__all__ = ["main", "verify"]

FACTOR = Decimal("1.00001")
"""A number of the certificate may be this many times what is computed here: sums are cut off elsewhere."""

TERMS = 4096
"""odsynth says of a sum of more terms that it is at most 1; it sums fewer digits than are summed here."""

UP = Context(prec=50, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
DOWN = Context(prec=50, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
ZERO, ONE = Decimal(0), Decimal(1)
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
    return UP.divide(x.numerator, x.denominator)


def down(x: Fraction) -> Decimal:
    """Return a decimal that is not above x."""
    return DOWN.divide(x.numerator, x.denominator)


def exp(x: Decimal) -> Decimal:
    """Return what is not below e^x; Python's is rounded to the nearest, so the next one is past it."""
    return UP.next_plus(UP.exp(x))


def log(x: Decimal) -> Decimal:
    """Return what is not below ln x."""
    return ZERO if x == 1 else UP.next_plus(UP.ln(x))


def twelve_digits(x: Fraction) -> str:
    """Return the smallest decimal of twelve digits that is at least x, as certificates have it."""
    rounded = Context(prec=12, rounding=ROUND_CEILING).divide(x.numerator, x.denominator)
    return format(rounded.normalize(), "f")


@functools.lru_cache(maxsize=128)
def ways(w: int, q: int, m: int, low: bool = False) -> list[Decimal]:
    """Return w (w + q) ... (w + (k - 1) q) / (k! q^k) for k = 0, ..., m, rounded up or down.

    Of m draws from an urn with cells of weights w, w', ... over q, there are k, k', ... from these with a
    probability of ways(w)[k] ways(w')[k'] ... / ways(w + w' + ...)[m].
    """
    to, products = DOWN if low else UP, [ONE]
    for k in range(m):
        products.append(to.divide(to.multiply(products[k], w + q * k), q * (k + 1)))
    return products


@functools.lru_cache(maxsize=4096)
def log_gamma(z: Decimal) -> Decimal:
    """Return ln Gamma(z) and a constant, right to 10^-30 for z below 10^12: Stirling's series."""
    product = ONE
    while z < 256:  # so that the first term of the series that is left out is below 10^-37
        product, z = product * z, z + 1
    parts: tuple[int | Fraction, ...] = 12, -360, 1260, -1680, 1188, Fraction(-360360, 691), 156
    series = sum((1 / (up(part) * z ** (2 * i + 1)) for i, part in enumerate(parts)), ZERO)
    return (z - Decimal("0.5")) * z.ln() - z + series - product.ln()


def draws(w: int, rest: int, q: int, m: int, k: int) -> Decimal:
    """Bound how likely k of m draws are from a cell of weight w, all others weigh rest (both over q)."""

    def log_ways(a: int, k: int) -> Decimal:
        z = Decimal(a) / q
        return log_gamma(z + k) - log_gamma(z) - log_gamma(ONE + k) + log_gamma(ONE)

    if not rest:
        return Decimal(k == m)
    return exp(log_ways(w, k) + log_ways(rest, m - k) - log_ways(w + rest, m) + Decimal("1e-25"))


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
        fits = all(type(x) is int for x in whole) and 1 <= n_min <= n_max and m >= 1 and gain > 1 and q > 0
        fits = fits and all(len(column) == len(retention) for column in columns) and strata != ()
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

    @property
    def likely(self) -> int:
        """What cells without workers weigh together in an urn as light as is likely (Lemmas 3 and 4)."""
        return sum(s.prior * s.kept for s in self.strata)

    def factor(self, s: Stratum, x: int) -> tuple[int, Fraction]:
        """Return b and f of g(k) = (1 + q k/b)/f, k > 0, the loss of a cell with x workers (Lemma 1)."""
        return self.q * max(0, x - 1) + s.prior, s.retention if x <= 1 else Fraction(1)

    def fine(self, s: Stratum, x: int, gain: Fraction) -> int:
        """Return the largest number of draws from a cell with x workers whose loss is not above ln gain."""
        b, f = self.factor(s, x)
        return max(0, math.floor((f * gain - 1) * b / self.q))

    def bad(
        self, s: Stratum, x: int, gain: Fraction, most: int = 0, enough: Decimal = ZERO, lost: bool = False
    ) -> Decimal:
        """Bound how likely more draws are than are fine, for all counts from x to `most`, or what is lost.

        That is T_c(x) of Lemma 7, or E[(1 - gain/g)^+] of Lemma 10. Both grow with the weight of the cell,
        and fall with that of all others and with the draws that are fine. Of a range it need only be known
        whether the bound is above what is enough: from there on it may be 1.
        """
        q, m, (b, f), most = self.q, self.m, self.factor(s, x), max(x, most)
        another = min(one.prior for one in self.strata) if most < self.n_min else 0
        w, rest = q * most + s.prior, q * max(0, self.n_min - most) + max(another, self.likely - s.prior)
        first, kept, result = self.fine(s, x, gain) + 1, down(gain * f * b), ZERO
        if rest < q and m - first > TERMS:  # nearly all draws are from this cell, and terms need not fall
            return ONE
        p = draws(w, rest, q, m, first) if first <= m else ZERO
        for k in range(first, min(m, first + 4 * TERMS) + 1):
            result += p * (1 - DOWN.divide(kept, b + q * k)) if lost else p
            if k == m or (x < most and result > enough):
                break
            # From here on terms grow by no more than `growth`, if the others weigh 1 or more.
            below = (k + 1) * (rest + q * (m - k - 1))
            growth = Decimal(max(w + q * k, q * k + q) * (m - k)) / below if rest >= q else ONE
            left = p * growth / DOWN.subtract(ONE, growth) if growth < 1 else ONE
            if left <= max(result * Decimal("1e-18"), enough - result):
                return min(ONE, result + left)
            p = p * ((w + q * k) * (m - k)) / below if below else ONE
        return min(ONE, result) if m - first <= 4 * TERMS and (x == most or result <= enough) else ONE

    def occupied(self, s: Stratum) -> tuple[Decimal, Decimal]:
        """Return the largest T_c(x), and the largest T_c(x)/x, of all x >= 1 (Lemma 36)."""
        worst = share = self.bad(s, 1, self.gain)
        ranges = [(2, self.n_max)] if self.n_max > 1 else []
        while ranges and (s.most * worst < 1 or self.n_max * share < 1):  # else F is 1 as it is
            least, most = ranges.pop()
            enough, middle = min(worst, DOWN.multiply(share, least)), (least + most) // 2
            bound = self.bad(s, least, self.gain, most, enough)
            if bound > enough and least < most:
                ranges += [(middle + 1, most), (least, middle)]
            elif bound > enough:
                worst, share = max(worst, bound), max(share, bound / least)
        return worst, share


def shortfall(c: PoolClass) -> Decimal:
    """Return eta: how likely some stratum has fewer cells in the urn than are counted on (Lemma 4)."""
    result = ZERO
    for s in c.strata:
        if s.retention < 1 and s.kept:
            p = Fraction(s.kept - 1, s.fewest)
            if p >= s.retention:
                return ONE
            # exp(-k KL(p, f)) = (f/p)^(kp) ((1-f)/(1-p))^(k(1-p)), and both exponents are whole.
            light = (s.kept - 1) * log(up(s.retention / p)) if p else ZERO
            result += exp(light + (s.fewest - s.kept + 1) * log(up((1 - s.retention) / (1 - p))))
    return result


@functools.lru_cache(maxsize=4096)
def failure(c: PoolClass) -> Decimal:
    """Return F, a bound of the probability of a bad cell for any histogram (Lemma 7)."""
    empty = per_worker = per_cell = ZERO
    gains = [ZERO] * (c.n_max + 1 if c.n_max <= 16 else 0)
    for s in c.strata:
        coin, (worst, share) = up(s.retention) * c.bad(s, 0, c.gain), c.occupied(s)
        empty += s.most * coin
        per_worker = max(per_worker, share)
        per_cell += s.most * max(coin, worst)
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
            coins = [(Fraction(s.prior, c.q), s.retention, k) for s, k in others if s.retention < 1]
            base = c.n_min + Fraction(i.prior + sure, c.q)
            moment = inverse_moment(base, c.m, coins, Fraction(j.prior, c.q))
            result = max(result, up(j.retention) + up(1 - j.retention) * moment)
    return result


def inverse_moment(base: Fraction, m: int, coins: list[Coins], a: Fraction) -> Decimal:
    """Bound 1/E[x^a] for the density of Lemma 2, by sums over points at equal distances (Lemma 25, d = 1).

    There c is 1/2 and C = 2 e^(s/2), so that with t = 12.5/(s + 86) the part e is below 10^-18. All terms are
    positive and every operation is right to 49 digits, so exponents below 10^8 leave 35: far more than the
    part by which the result is raised.
    """
    whole = base + sum(b * k for b, _, k in coins)
    size = m * log(up(1 + (whole + a) / m)) + up(whole + a) * log(up(1 + m / (whole + a)))
    t = Decimal(f"{12.5 / (float(size) + 86):.6g}")  # of few digits, so that its multiples are exact
    powers = [(up(b), up(1 - f), up(f), k) for b, f, k in coins]
    first = int((up(base / m).ln() + up(whole / m).ln()) / (2 * t))
    above = below = ZERO
    # It falls to the right from `turn` on, and from `steep` on as fast as that; and so to the left.
    right = (1, Fraction(m), whole / m, (2 * whole + m) / m)
    for sign, rate, turn, steep in (right, (-1, base, base / m, base / (base + 2 * m))):
        geometric = 1 / (1 - (-t * up(rate) / 2).exp())
        for point in itertools.count(first if sign > 0 else first - 1, sign):
            u = point * t
            z = (-u).exp()
            x = 1 / (1 + z)
            f = x ** up(base) * (x * z) ** m
            for b, out, kept, k in powers:
                f *= (out + kept * x**b) ** k
            above, below = above + f, below + f * x ** up(a)
            left = f * (1 + max(ZERO, sign * (up(steep).ln() - u)) / t + geometric)
            if sign * (u - up(turn).ln()) >= 0 and left <= above * Decimal("1e-18"):
                above += left
                break
    return above / below * (1 + Decimal("1e-17"))


def unsummed(c: PoolClass) -> list[Decimal]:
    """Return what may be stated of a probability by which sums may be too long: that it is at most 1."""
    return [ONE] if c.m > TERMS else []


# --- one record (Lemmas 10 to 12)


def record_deltas(c: PoolClass, epsilon: Fraction, presence: bool) -> Iterator[Decimal]:
    """Yield bounds of the delta of one record at an epsilon: a quick one, and if there is one a smaller."""
    yield record_delta(c, epsilon, presence)
    few = sum(s.most for s in c.strata) <= 5 and c.m <= 400
    if not c.pruned and (few or c.n_max * c.m <= 100):  # elsewhere no certificate is by Lemma 12
        yield pairs_delta(c, epsilon)
    yield from unsummed(c)


@functools.lru_cache(maxsize=4096)
def record_delta(c: PoolClass, epsilon: Fraction, presence: bool) -> Decimal:
    """Bound delta by what one cell loses (Lemma 10; Lemma 30 for one record more or less)."""
    odds = DOWN.divide(ONE, exp(up(-epsilon)) * pruning(c))
    if odds <= 1:
        return ONE
    bound = ZERO
    for s in c.strata:  # Lemma 35: of one worker, or of all if then the urn is lighter
        lighter = c.n_min > 1 and c.likely - s.prior < min(one.prior for one in c.strata)
        for x in (1, c.n_min) if lighter else (1,):
            bound = max(bound, c.bad(s, x, Fraction(odds), lost=True))
    bound += shortfall(c)
    if presence and c.pruned:
        sure = sum(s.prior * s.kept for s in c.strata if s.retention == 1)
        bound = max(bound, 1 - DOWN.divide(odds, up(1 + Fraction(c.m * c.q, c.n_min * c.q + sure))))
    return min(ONE, bound)


@functools.lru_cache(maxsize=4096)
def pairs_delta(c: PoolClass, epsilon: Fraction) -> Decimal:
    """Bound delta by the worst pair of cells, one with x workers losing one, without pruning (Lemma 12)."""
    odds, worst, q = DOWN.divide(ONE, exp(up(-epsilon))), ZERO, c.q
    for i, j, x in itertools.product(c.strata, c.strata, range(1, c.n_max + 1)):
        if (i is j and i.most < 2) or c.bad(i, x, Fraction(odds), lost=True) <= worst:
            continue  # no pair loses more than its first cell by itself
        known = sum(s.prior * max(0, s.fewest - (s is i) - (s is j)) for s in c.strata)
        more = q * max(0, c.n_min - x)  # the other workers: in a third cell, or in j if there is none
        third = more + max(known, min(s.prior for s in c.strata) if more else 0)
        cases = [(j.prior, third)] if sum(s.most for s in c.strata) > 2 else []
        for b, rest in [*cases, (j.prior + more, 0)] if not known else cases:
            w, result = q * x + i.prior, ZERO
            own, other, others = (ways(one, q, c.m) for one in (w, b, rest))
            for s in range(c.fine(i, x, Fraction(odds)) + 1, c.m + 1):
                for t in range(c.m - s + 1):
                    kept = DOWN.divide(DOWN.multiply(odds, (w - q) * (b + q * t)), b * (w - q + q * s))
                    if kept >= 1:  # and so it is from here on
                        break
                    result += own[s] * other[t] * others[c.m - s - t] * (1 - kept)
            worst = max(worst, result / ways(w + b + rest, q, c.m, True)[c.m])
    return worst


# --- pools of few cells (Lemma 32)


@functools.lru_cache(maxsize=4096)
def few_cells(c: PoolClass) -> Decimal:
    """Bound the probability of a bad loss of pools that all have these slots, draws and cells."""
    cells, n = [s for s in c.strata for _ in range(s.most)], c.n_max
    k, worst = len(cells), ZERO
    if math.comb(n + k - 1, k - 1) > 10**6:  # no certificate is by sums over so many
        return ONE
    for bars in itertools.combinations(range(n + k - 1), k - 1):
        h = [b - a - 1 for a, b in zip((-1, *bars), (*bars, n + k - 1))]
        if all(x <= y for x, y, s, t in zip(h, h[1:], cells, cells[1:]) if s is t):  # up to exchanges
            worst = max(worst, bad_losses(c, cells, h))
    return min(ONE, worst)


def bad_losses(c: PoolClass, cells: list[Stratum], h: list[int]) -> Decimal:
    """Return the sum of Lemma 32 for a histogram."""
    q, m, result = c.q, c.m, ZERO
    kept = [Fraction(1) if x else s.retention for s, x in zip(cells, h)]
    for urn in itertools.product(*((True,) if f == 1 else (True, False) for f in kept)):
        p = up(math.prod(f if there else 1 - f for f, there in zip(kept, urn)))
        w = {i: q * h[i] + cells[i].prior for i, there in enumerate(urn) if there}
        whole, bad = sum(w.values()), ZERO
        for i in w:
            own, rest, (b, f) = ways(w[i], q, m), ways(whole - w[i], q, m), c.factor(cells[i], h[i])
            others = [d for d in range(len(h)) if d != i and (h[i] or h[d])]
            for s in range(c.fine(cells[i], h[i], c.gain) + 1, m + 1):
                odds, here = (1 + Fraction(q * s, b)) / f / c.gain, ZERO
                for d in others:
                    if d not in w:  # it was not drawn from, whatever s is
                        here = rest[m - s]
                        break
                    b_d, f_d = c.factor(cells[d], h[d] + 1 if h[i] else h[d])
                    most = min(m - s, max(0, math.ceil((f_d * odds - 1) * b_d / q) - 1))
                    other, third = ways(w[d], q, m), ways(whole - w[i] - w[d], q, m)
                    here += sum((other[t] * third[m - s - t] for t in range(most + 1)), ZERO)
                bad += own[s] * min(here, rest[m - s])
        result += p * bad / ways(whole, q, m, True)[m]
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
    3c3495e89ca30f679f0bf06b69dd7c0a e10dff8b718047c3b8897365c4b1c098 7756c38d166534b9cfd68aab04c4a9e5
    f2d8a89b2f7a4014d16756cc7b6ff180 2149dc4d7d7d31dddbf69f35c0aa4afe 8e9e75f0471b182f3d3fead52f4c0961
    60ec865a82cd1129edebae9870416e5a 15bb911efebcafb2865064b19f11f9d8 db063649a23600dd63db54fd2e7debdf
    bee03bbd6dbe7efa6345fbad6d61a0b5 7538efedccdfddcd31d2dcc79fe8b73b e229d8caf9d32168a653244156779012
    a0ace2e79f5fc778ff7f4ced644af778 471f715fb5b58f0dda9c089b5762ef0d 380faf86e4bd59187a65670f821b63bc
    7a664f6fec7fcde1ff223b3b6e3ca6c6 2e523b4e0e107d8d342c050495a44a96
"""
SIGNATURES = {"certificate.json": "certificate.json.sig", "SHA256SUMS": "SHA256SUMS.sig"}
DEGREES = ("latitude", "longitude")
TABLES = ("blocks", "domains", "pools", "shares", "slots")


def said(words: Any, *of: Any, number: int | None = None, names: dict[str, str] | None = None) -> Any:
    """Return words, which must be known to be said of something; a number of things or names are in them."""
    general = words if number is None else re.sub(rf"\b{number} (?=[a-z])", "N ", words)
    text = json.dumps([*of, general], sort_keys=True)
    for name, letter in (names or {}).items():
        text = text.replace(json.dumps(name)[1:-1], letter)
    found = hashlib.sha256(text.encode()).hexdigest()[:32]
    need(found in WORDS.split(), f"certificate.json: {of[0]}: not in words that are known here")
    return words


class Claims:
    """Compares numbers of a certificate with bounds; `factor` is the largest stated number over its bound."""

    def __init__(self) -> None:
        self.factor, self.count = ONE, 0

    def check(self, name: str, stated: str, bounds: Iterable[Decimal]) -> Decimal:
        """Return the first bound that a number reaches; it must be no more than `FACTOR` above it."""
        value, bound, exact = Decimal(stated), ZERO, stated == twelve_digits(Fraction(stated))
        for bound in bounds:
            ratio = value / bound if bound else ONE if not value else Decimal("Infinity")
            if exact and value >= bound and ratio <= FACTOR:
                self.factor, self.count = max(self.factor, ratio), self.count + 1
                return bound
        raise WrongError(f"certificate.json: {name} is {stated}, and the plan gives {bound:.12g}")

    def pair(self, name: str, stated: dict[str, str], epsilon: Decimal, delta: Decimal) -> dict[str, str]:
        """Check an epsilon and a delta, and return them as they are stated."""
        self.check(f"{name}.epsilon", stated["epsilon"], [epsilon])
        self.check(f"{name}.delta", stated["delta"], [delta])
        return {"epsilon": stated["epsilon"], "delta": stated["delta"]}


class Near:
    """Edges between blocks within a distance: how far each block reaches, and how long ways are (Lemma 39).

    Below node v of a tree are 2 v and 2 v + 1. It has the box of its points, empty where all were taken.
    """

    def __init__(self, km: str, *degrees: list[float]) -> None:
        self.km, n, half = km, len(degrees[0]), min(float(Fraction(km)) / (2 * 6371.0088), math.pi / 2)
        self.square, self.size = (2 * math.sin(half) + 5e-12) ** 2, 1 << (n - 1).bit_length()
        places = [[math.radians(angle) for angle in both] for both in zip(*degrees)]
        self.at = [(math.cos(y) * math.cos(x), math.cos(y) * math.sin(x), math.sin(y)) for y, x in places]
        leaves = [[(x, x) for x in at if x == x] for at in self.at] + [[]] * (self.size - n)
        self.boxes: list[Any] = [[]] * self.size + leaves
        self.grow(range(self.size - 1, 0, -1))
        self.reach, self.steps = [next(self.of(i), i) for i in range(n)], 0
        for root in range(n):  # all that ways lead to, edge after edge, until none is left
            layer, edges = [root] if self.boxes[self.size + root] else [], 0
            self.take(layer)
            while layer:
                self.steps, edges = max(self.steps, 2 * edges), edges + 1
                layer = [there for here in layer for there in self.take([*self.of(here)])]

    def grow(self, nodes: Iterable[int]) -> None:
        """Make the boxes of nodes from those below."""
        for v in nodes:
            below = zip(*(box for box in self.boxes[2 * v : 2 * v + 2] if box))
            self.boxes[v] = [(min(a for a, _ in axis), max(b for _, b in axis)) for axis in below]

    def of(self, block: int) -> Iterator[int]:
        """Yield the blocks near one that were not taken, the last one first."""
        nodes, (x, y, z) = [1], self.at[block]
        while nodes:
            v = nodes.pop()
            aside = [max(a - p, p - b, 0) ** 2 for p, (a, b) in zip((x, y, z), self.boxes[v])]
            if aside and sum(aside) <= self.square:
                nodes += [2 * v, 2 * v + 1] if v < self.size else []
                yield from [v - self.size] if v >= self.size else []

    def take(self, blocks: list[int]) -> list[int]:
        """Return blocks, once they were taken."""
        for v in (block + self.size for block in blocks):
            self.boxes[v] = []
            self.grow(v >> k for k in range(1, v.bit_length()))
        return blocks


@dataclass
class Plan:
    """A plan and its tables (docs/plan-format.md), in the names of format 2."""

    document: dict[str, Any]
    tables: dict[str, dict[str, list[Any]]]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration that the plan quotes."""
        return dict(self.document["configuration"])

    @property
    def implicates(self) -> tuple[int, int]:
        """The number of implicates, and of independent runs that they come from."""
        number, source = (self.config["release"][name] for name in ("implicates", "implicate_source"))
        return number, number if source == "independent-runs" else 1

    @property
    def places(self) -> tuple[list[str], set[str]]:
        """Codes of all blocks, and of those that are external zones: prefixes filled up with 9s."""
        geography = self.document["geography"]
        codes = self.tables["blocks"][geography["block"]]
        longest = max(map(len, codes))
        return codes, {zone.ljust(longest, "9") for zone in geography["external_zones"]}

    @property
    def policy(self) -> str:
        """The level whose units are the parts of homes, which neighbours keep (Lemma 37); none is empty."""
        return str(self.config.get("privacy", {}).get("policy", {}).get("partition", ""))

    @property
    def secret(self) -> dict[str, list[str]]:
        """The attributes that are as secret as homes are, with their categories (Lemma 41)."""
        return dict(self.config.get("privacy", {}).get("policy", {}).get("attribute", {}))

    @property
    def copies(self) -> int:
        """Combinations of these categories; cells are runs of so many copies of all blocks."""
        return math.prod(map(len, self.secret.values()))

    @property
    def attributes(self) -> dict[str, list[str]]:
        """The other attributes, which slots have."""
        return {name: of for name, of in self.document["attributes"].items() if name not in self.secret}

    @functools.cached_property
    def near(self) -> Near | None:
        """The blocks between which neighbours may differ, where the policy is a distance (Lemma 39)."""
        km = self.config.get("privacy", {}).get("policy", {}).get("distance_km")
        return None if km is None else Near(km, *(self.tables["blocks"][n] for n in DEGREES))

    @property
    def parts(self) -> list[int]:
        """For each block the first block of its part; without a policy all blocks are one."""
        level, first, found = self.policy, 0, list[int]()
        blocks = self.tables["blocks"]
        units = blocks[level] if level else [""] * len(self.places[0])
        farthest = [-1, *itertools.accumulate(self.near.reach, max)] if self.near else []
        for i, unit in enumerate(units):
            new = farthest[i] < i if self.near else i > 0 and unit != units[i - 1]
            first = i if new else first
            found.append(first)
        return found

    @property
    def slot_parts(self) -> list[int]:
        """The same of the homes of each row of slots, which is that of the domain of its pool."""
        cuts, domain = self.tables["domains"]["cuts"], self.tables["pools"]["domain"]
        return [cuts[domain[pool]][0] for pool in self.tables["slots"]["pool"]]

    @property
    def files(self) -> list[dict[str, str]]:
        """The data files of each implicate by their kinds, without endings (docs/formats.md, Data)."""
        release, jobs, (number, _) = self.config["release"], self.config["jobs"], self.implicates
        kinds = {"od_main": True, "od_aux": bool(self.document["geography"]["external_zones"])}
        kinds["jobs_main"] = jobs["format"] == "microdata" and len(jobs["attributes"]) > 1
        folders = [f"implicate-{i + 1:02}/" for i in range(number)] if number > 1 else [""]
        name = f"{release['state']}_{{}}_{release['job_type']}_{release['year']}"
        return [{kind: below + name.format(kind) for kind in kinds if kinds[kind]} for below in folders]


def check_guarantee(plan: Plan, stated: dict[str, Any]) -> Claims:
    """Compute every bound of a certificate again from the plan, and compare its fields with what follows."""
    claims = Claims()
    with localcontext(UP):
        same("certificate.json", stated, expected_guarantee(plan, stated, claims))
    return claims


def same(where: str, stated: dict[str, Any], expected: dict[str, Any]) -> None:
    """Fail unless fields of a document are what they should be, names inside them in the same order."""
    for name, value in expected.items():
        need(json.dumps(stated[name]) == json.dumps(value), f"{where}: {name} is not what the plan gives")


def expected_guarantee(plan: Plan, stated: dict[str, Any], claims: Claims) -> dict[str, Any]:
    """Return what a certificate must say of its plan; numbers as it states them, once they are proved."""
    document, (number, runs), pair = plan.document, plan.implicates, claims.pair
    first, dirichlet = stated["format"][-1] == "1", document["mechanism"] == "dirichlet"
    asked, allowed = Fraction(document["epsilon"]), Fraction(document["delta"])
    user, curve = stated["user_level"], stated["record_level"]["curve"]
    presence, records = stated["presence"] or {}, plan.config["jobs"].get("records_per_worker", 1)
    near = bool(presence)

    # Classes or tables, and the run as a whole (Lemmas 8, 11, 13, 26 and 33). Iterators are bounds.
    classes = pool_classes(plan) if dirichlet else []
    made = dirichlet_rows(plan, classes, near) if dirichlet else table_rows(plan)
    due = len(classes) or 1 + len(document["parameters"].get("further", []))
    need(len(stated["classes"]) == due, "certificate.json: classes are not those of the plan")
    rows, reached, delta = [], [], ZERO
    for one, row in zip(stated["classes"], made):
        bounds = {n: of for n, of in row.items() if isinstance(of, Iterator)}
        found = {n: claims.check(f"classes.{n}", one[n], of) for n, of in bounds.items()}
        rows.append({n: one[n] if n in found else of for n, of in row.items()})
        reached.append(found)
        delta += row["pools"] * found["delta"]
    together: Callable[..., Decimal] = max if dirichlet else sum
    losses = {n: together(one[n] for one in reached) for n in reached[0] if "loss" in n}
    for name, loss in losses.items():
        claims.check(f"losses.{name}", stated["losses"][name], [loss])
    alone = [[k == i for k in range(due)] for i in range(due)] if dirichlet else changed(plan)
    added = (sum((one["epsilon"] for one, there in zip(reached, of) if there), ZERO) for of in alone)
    epsilon, delta = runs * max(added), min(ONE, runs * delta)
    ratios = (max((1 + Fraction(c.m * c.q, s.prior)) / s.retention for s in c.strata) for c in classes)
    pure = max((runs * log(pruning(c) * up(ratio)) for c, ratio in zip(classes, ratios)), default=epsilon)
    if pure < epsilon and not first:
        epsilon, delta = pure, ZERO

    # One record: at what was asked for, and at other points of the curve.
    own = up(runs * asked), min(ONE, runs * max(one["record_delta"] for one in reached))
    at = [asked * Fraction(k, 4) for k in (2, 3, 4, 5, 6) if dirichlet and not (first and k == 4)]
    at = [e for e in at if up(runs * e) < pure]
    if not (asked in at or (first and dirichlet)):
        own = pure, ZERO
    need(len(curve) == len(at) + 1, "certificate.json: curve has not the points that the plan gives")
    points = []
    for e, one in zip(at, curve):
        enough = DOWN.divide(Decimal(one["delta"]), runs)
        of_classes = (next((d for d in record_deltas(c, e, near) if d <= enough), ONE) for c in classes)
        bound = own[1] if e == asked else min(ONE, runs * max(of_classes))
        claims.check("curve.delta", one["delta"], [bound, *itertools.chain(*map(unsummed, classes))])
        points.append({"epsilon": twelve_digits(runs * e), "delta": one["delta"]})
    points.append(pair("curve", curve[-1], pure, ZERO))
    budget, cost = (runs * asked, runs * allowed), own if document["guarantee"] == "dp" else (epsilon, delta)
    need(all(one <= up(most) for one, most in zip(cost, budget)), "the plan costs more than was requested")

    def of_person(name: str, one: dict[str, Any], e: Decimal, d: Decimal) -> dict[str, str]:
        more = sum((exp(k * e) for k in range(1, records)), ONE)  # Lemma 14
        return pair(name, one, records * e, min(ONE, d * more))

    guarantee, n, m = document["guarantee"], plan.tables["pools"]["n"], plan.tables["pools"]["m"]
    requested = dict(zip(("epsilon", "delta", "guarantee"), (*map(twelve_digits, budget), guarantee)))
    cuts, source = plan.tables["domains"]["cuts"], plan.config["release"]["implicate_source"]
    totals = len(n), sum(n), sum(m) * runs // number, len(cuts), sum(map(len, cuts))
    words = said(user["statement"], "user_level", number=records)
    holder = {**of_person("user_level", user, *own), "records": records, "statement": words}
    level = points[at.index(asked)] if asked in at else {}
    if not level and not first:
        level = pair("record_level", stated["record_level"], *own)
    protected, half = None, Decimal(1 if dirichlet else 2)
    if near:  # Lemmas 28 and 29
        half_own, words = (own[0] / half, own[1]), said(presence["statement"], "presence", number=records)
        protected = {
            "statement": words,
            "run": pair("presence.run", presence["run"], epsilon / half, delta),
            "record_level": pair("presence.record_level", presence["record_level"], *half_own),
            "user_level": of_person("presence.user_level", presence["user_level"], *half_own),
        }
    case = stated["format"][-1], document["mechanism"], near, stated["population"]
    of_implicates = said(stated["implicates"]["words"], source if number > 1 else "one", number=number)
    policy, names = policy_of(plan, stated) if "policy" in stated else ({}, {})
    return {
        **({"policy": policy} if policy else {}),
        "mechanism": document["mechanism"],
        "definition": said(stated["definition"], "definition", *case, names=names),
        "requested": {**requested, "words": said(stated["requested"]["words"], guarantee)},
        "run": pair("run", stated["run"], epsilon, delta),
        "record_level": {**level, "curve": points},
        "user_level": holder,
        "presence": protected,
        "losses": {name: stated["losses"][name] for name in losses},
        "implicates": {"number": number, "source": source, "words": of_implicates},
        "totals": dict(zip(("pools", "records", "synthetic_workers", "domains", "cells"), totals)),
        "classes": rows,
        "arithmetic": said(stated["arithmetic"], "arithmetic"),
    }


def policy_of(plan: Plan, stated: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return what a certificate says of a policy (Lemmas 37 and 39), and letters for names in its words."""
    blocks, geography, parts = plan.tables["blocks"], plan.document["geography"], len(set(plan.parts))
    if near := plan.near:
        places, km, steps = zip(*(blocks[n] for n in (geography["block"], *DEGREES))), near.km, near.steps
        lines = ["\n".join(f"{block} {north!r} {east!r}" for block, north, east in places)]
        names = {f"{km} km": "D", f"most {steps} steps": "S", f"into {parts} parts": "P"}
        numbers, before = {"distance_km": km, "parts": parts, "most_steps": steps}, [f"distance {km}"]
    elif secret := plan.secret:
        before, lines = [quote(n, safe="") for n in secret], ["\n".join((n, *secret[n])) for n in secret]
        numbers, names = {"attributes": secret}, {" and ".join(f'"{n}"' for n in secret): "A"}
    else:
        before = geography["levels"][: geography["levels"].index(plan.policy) + 1]
        lines = ["\n".join(dict.fromkeys(blocks[n])) for n in before]
        numbers, names = {"partition": plan.policy, "parts": parts}, {f'"{plan.policy}"': "L"}
    digests = (hashlib.sha256(text.encode()).hexdigest()[:16] for text in lines)
    name = ("" if near else "attribute " if secret else "partition ") + "/".join(
        map(":".join, zip(before, digests))
    )
    texts = {n: said(stated["policy"][n], "policy", n, names=names) for n in ("words", "symbols")}
    return {"name": name, **numbers, **texts}, names


def pool_classes(plan: Plan) -> list[PoolClass]:
    """Return the classes of Dirichlet resampling; every pool must be in its own (Lemmas 9 and 29)."""
    parameters, known = plan.document["parameters"], plan.config.get("workplaces")
    retention, found = [Fraction(f) for f in parameters["retention"]], parameters["classes"]
    classes = [PoolClass.of(row, retention, parameters["denominator"]) for row in found]
    counts = [[own.count(s) for s in range(len(retention))] for own in plan.tables["domains"]["stratum"]]
    sizes = [len(cuts) for cuts in plan.tables["domains"]["cuts"]]
    need([*map(sum, counts)] == sizes, "plan: a cell is of a stratum that there is not")
    fewest, most = (Fraction(known[name]) if known else 1 for name in ("fewest", "most"))
    for n, m, domain, number in zip(*(plan.tables["pools"][name] for name in ("n", "m", "domain", "class"))):
        need(0 <= number < len(classes), "plan: a pool is of a class that there is not")
        c, cells = classes[number], zip(found[number]["cells_min"], counts[domain], found[number]["cells"])
        inside = c.n_min <= max(1, math.floor(fewest * n)) and math.ceil(most * n) <= c.n_max and m <= c.m
        need(inside and all(a <= k <= b for a, k, b in cells), "plan: a pool is outside its class's limits")
    return classes


def dirichlet_rows(plan: Plan, classes: list[PoolClass], near: bool) -> Iterator[dict[str, Any]]:
    """Yield what is true of each class of Dirichlet resampling."""
    parameters, asked = plan.document["parameters"], Fraction(plan.document["epsilon"])
    of_pools = plan.tables["pools"]["class"]
    pools, of_m = Counter(of_pools), Counter(zip(of_pools, plan.tables["pools"]["m"]))
    for number, (c, row) in enumerate(zip(classes, parameters["classes"])):
        alike = of_m[number, c.m] == pools[number] and c.n_min == c.n_max and row["cells"] == row["cells_min"]
        few = alike and not near and 2 <= sum(row["cells"]) <= 5 and c.m <= 400
        yield {
            "pools": pools[number],
            **{name: row[name] for name in ("n_min", "n_max", "m_max", "cells")},
            "epsilon": iter([log(up(c.gain) * pruning(c))]),
            "delta": itertools.chain((bound(c) for bound in (failure, few_cells)[: 1 + few]), unsummed(c)),
            "record_delta": record_deltas(c, asked, near),
            "prior": [str(Fraction(a, c.q)) for a in row["prior"]],
            "retention": [str(Fraction(f)) for f in parameters["retention"]],
            "block_loss_U": iter([log(up(c.gain))]),
            "pruning_loss_V": iter([log(pruning(c))]),
        }


def table_rows(plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield what is true of each measured table of geometric noise (Lemmas 20 and 33)."""
    parameters = plan.document["parameters"]
    need(set(plan.tables["pools"]["class"]) == {0}, "plan: a pool is of a class that there is not")
    sizes, n = [len(cuts) for cuts in plan.tables["domains"]["cuts"]], plan.tables["pools"]["n"]
    tables = [(n, max(plan.tables["pools"]["m"]), max(sizes[d] for d in plan.tables["pools"]["domain"]))]
    for table in plan.document["choices"].get("tables", []):
        block, jobs = plan.document["geography"]["block"], Counter[tuple[Any, ...]]()
        names = [block, table["work"]] if table["work"] else []  # None: wherever they are
        area = dict(zip(*(plan.tables["blocks"][name] for name in names)))
        columns = (plan.tables["slots"][c] for c in ("count", "work", *table["by"]))
        for part, count, work, *kind in zip(plan.slot_parts, *columns):
            jobs[(area.get(work, ""), *kind, part)] += count
        homes = {*zip(plan.parts, plan.tables["blocks"][table["home"]])}
        cells = plan.copies * max(Counter(part for part, _ in homes).values())
        tables.append(([*jobs.values()], max(jobs.values()), cells))
    noises = [parameters, *parameters.get("further", [])]
    need(len(noises) == len(tables), "plan.json: parameters.further are not those of choices.tables")
    for (n, most, cells), noise, own in zip(tables, noises, zip(*changed(plan))):
        p, q = noise["numerator"], noise["denominator"]
        need(type(p) is int and type(q) is int and 0 < p < q, "plan.json: a ratio is not between 0 and 1")
        loss = 2 * log(up(Fraction(q, p))) if any(own) else ZERO
        limits = {"pools": len(n), "n_min": min(n), "n_max": max(n), "m_max": most, "cells": [cells]}
        bounds = {"epsilon": iter([loss]), "delta": iter([ZERO]), "record_delta": iter([ZERO])}
        yield {**limits, **bounds, "ratio": [str(Fraction(p, q))], "noise_loss": iter([loss])}


def changed(plan: Plan) -> list[tuple[bool, ...]]:
    """Return of edges from each block to the last one it reaches which tables they change (Lemma 40)."""
    further = plan.document["choices"].get("tables", [])
    if not plan.near:
        return [(True,) * (1 + len(further))]
    cuts = [sorted({*itertools.chain(*plan.tables["domains"]["cuts"])})]
    for units in (plan.tables["blocks"][table["home"]] for table in further):
        cuts.append([i for i in range(1, len(units)) if units[i] != units[i - 1]])
    ends = enumerate(plan.near.reach)
    return [*{tuple(bisect_right(own, a) < bisect_right(own, b) for own in cuts) for a, b in ends}]


# --- the folder: checksums, signature, certificate, plan (docs/formats.md, Folder)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path: Path, in_order: bool = False) -> Any:
    """Read a document as odsynth writes it; a name that stands twice would not be written again."""
    text = path.read_text(encoding="utf-8")
    document = json.loads(text)
    due = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=in_order) + "\n"
    need(text == due, f"{path.name} is not written as odsynth does")
    return document


def check_files(folder: Path) -> str:
    """Compare every file with SHA256SUMS and MANIFEST.json."""
    found = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*"))}
    for name, path in found.items():
        holds = path.is_file() or (path.is_dir() and any(path.iterdir()))
        must(name, {"a link, not a file": not path.is_symlink(), "neither a file nor a full folder": holds})
    apart = {"SHA256SUMS", *SIGNATURES.values()}
    actual = {n: sha256(path) for n, path in sorted(found.items()) if path.is_file() and n not in apart}
    text = (folder / "SHA256SUMS").read_bytes().decode()
    stated = {line[66:]: line[:64] for line in text.splitlines()}
    for name in sorted({*actual, *stated}):
        need(name in actual, f"{name} is missing")
        need(name in stated, f"{name} does not belong to the release")
        need(actual[name] == stated[name], f"{name} has been changed, or SHA256SUMS has")
    sums = "".join(f"{value}  {name}\n" for name, value in actual.items())
    certificate, described = read_json(folder / "certificate.json"), sorted(actual.keys() - {"MANIFEST.json"})
    expected = {name: certificate[name] for name in ("release", "plan_sha256", "created")}
    files = [{"path": n, "bytes": found[n].stat().st_size, "sha256": actual[n]} for n in described]
    manifest = {"format": "odsynth manifest 1", **expected, "files": files}
    need(text == sums, "SHA256SUMS is not written as sha256sum does")
    need(read_json(folder / "MANIFEST.json") == manifest, "MANIFEST.json does not describe this release")
    return f"{len(actual)} files are those of SHA256SUMS and MANIFEST.json"


def check_signature(folder: Path, key: Path | None, certificate_only: bool) -> str:
    """Check the signatures by the key that was given, or by the one in the folder."""
    signed = {name: file for name, file in SIGNATURES.items() if name[0] == "c" or not certificate_only}
    missing = [name for name in ("signing-key.pub", *signed.values()) if not (folder / name).is_file()]
    if len(missing) > len(signed) and key is None:
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
    pem = (folder / "signing-key.pub").read_bytes()
    own = key is None or key.read_bytes().split() == pem.split()
    need(own, f"signing-key.pub is not the key {key}: somebody else signed")
    # RFC 8410: the 32 bytes of an Ed25519 key stand after 12 that are always the same, here in Base64.
    form = rb"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA([+/0-9A-Za-z]{43}=)\n-----END PUBLIC KEY-----\n"
    found = re.fullmatch(form, pem)
    if found is None:
        raise WrongError("signing-key.pub is not an Ed25519 key in PEM, or more than one")
    for name, signature in signed.items():
        try:
            public = Ed25519PublicKey.from_public_bytes(base64.b64decode(found[1]))
            public.verify((folder / signature).read_bytes(), (folder / name).read_bytes())
        except InvalidSignature:
            raise WrongError(f"{signature} is not a signature of {name} by signing-key.pub") from None
    whose = "given" if key else "in the folder; WHOSE that is, was not checked (give --key)"
    return f"signed by the key {whose}"


def check_certificate(folder: Path, stated: dict[str, Any], plan: Plan) -> str:
    """Check what a certificate says beside its guarantee, and that it is of this plan."""
    config, software, secure = plan.config, stated["software"], stated["randomness"]["secure"]
    dependencies, commit, modified = software["dependencies"], software["commit"], software["modified"]
    forms = {
        r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"': [stated["created"]],
        '"[0-9][0-9A-Za-z.!+_-]{0,63}"': [software["version"], *dependencies.values()],
        '"[0-9A-Za-z._-]{1,64}"': dependencies,
        'null|"[0-9a-f]{7,64}"': [commit],
        'null|"[0-9a-f]{64}"': [software["sbom_sha256"]],
        "true|false": [secure],
        "true|false|null": [modified],
    }
    for form, texts in forms.items():
        fits = all(re.fullmatch(form, json.dumps(text)) for text in texts)
        need(fits, f"certificate.json: a field is not like {form}")
    because = {
        "the run was seeded: its randomness is not secret": not secure,
        "the commit of the program is unknown": commit is None,
        "the program differs from its commit": modified or (modified is None and commit is not None),
    }
    reasons = [words for words, true in because.items() if true]
    zones, people = plan.document["geography"]["external_zones"], config["jobs"].get("population")
    residents = None if zones or stated["format"][-1] == "1" else "residents"
    expected = {
        "release": {name: config["release"][name] for name in ("name", "state", "year", "job_type")},
        "population": residents,
        "plan_sha256": sha256(folder / "plan" / "plan.json"),
        "software": {
            **{name: software[name] for name in ("version", "commit", "modified", "sbom_sha256")},
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
    need(people == residents, "population: of residents if, and only if, there are no external zones")
    known = bool(config.get("workplaces")) == bool(stated["presence"])
    need(known, "presence: it is there if, and only if, there is a public table of workplaces")
    same("certificate.json", stated, expected)
    return f"{stated['format']}, all fields present; it is of this plan"


def batches(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, list[Any]]]:
    """Yield the columns of a Parquet file, or of a folder of parts, some rows at a time."""
    for part in sorted(path.iterdir()) if path.is_dir() else [path]:
        file = pq.ParquetFile(part)
        schema, inexact = file.schema_arrow, DEGREES
        checks = {
            "it carries notes beside its rows": not (schema.metadata or any(f.metadata for f in schema)),
            "it has other columns": schema.names == (columns or [*dict.fromkeys(schema.names)]),
            "it has fractions": all(f.name in inexact for f in schema if pa.types.is_floating(f.type)),
        }
        must(path.name, checks)
        yield {f.name: [] for f in schema}
        yield from (batch.to_pydict() for batch in file.iter_batches())


# Fields of a certificate, in their order.
FIELDS = (
    "format release mechanism definition requested run record_level user_level presence population losses "
    "implicates totals classes arithmetic plan_sha256 software randomness created for_release "
    "not_for_release_because"
)


def read_release(folder: Path) -> tuple[dict[str, Any], Plan]:
    """Read a certificate and its plan, whose tables must be those that it names, in the form of format 2."""
    stated, below = read_json(folder / "certificate.json"), folder / "plan"
    document = read_json(below / "plan.json", in_order=True)
    formats = [stated.get("format"), document.get("format")]
    known = formats in ([f"odsynth certificate {k}", f"odsynth plan {k - (k > 3)}"] for k in (1, 2, 3, 4, 5))
    need(known, f"{formats}: these are formats that this file does not know")
    if formats[0][-1] == "1":
        person = stated.pop("person")
        levels = {"record_level": {"curve": person.pop("curve")}, "user_level": person}
        stated = {**dict.fromkeys(FIELDS.split()), **stated, **levels}
        names, dependencies = {"person_delta": "record_delta"}, stated["software"].pop("dependencies")
        stated["classes"] = [{names.get(n, n): x for n, x in row.items()} for row in stated["classes"]]
        stated["software"].update(sbom_sha256=None, dependencies=dependencies)
        document["geography"]["external_zones"] = document["geography"].pop("outside")
    fields = FIELDS.split() + ["policy"] * (formats[0][-1] in "345")
    need([*stated] == fields, "certificate.json: fields are not those of its format, in their order")
    need(set(document["files"]) == {f"{name}.parquet" for name in TABLES}, "plan.json: files are others")
    plan = Plan(document, {name: {} for name in TABLES})
    for name, table in plan.tables.items():
        hashed = document["files"][f"{name}.parquet"]
        need(sha256(below / f"{name}.parquet") == hashed, f"plan/{name}.parquet is not what plan.json names")
        for batch in batches(below / f"{name}.parquet"):
            for column, values in batch.items():
                table.setdefault(column, []).extend(values)
    own = [bool(plan.policy), plan.near is not None, bool(plan.secret)]
    need(own == [formats[0][-1] == k for k in "345"], "certificate.json: the plan has another policy")
    return stated, plan


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
        "secret attributes are others": plan.secret.items() <= document["attributes"].items(),
    }
    expected = {
        "blocks": [block, *geography["levels"], "latitude", "longitude", "weight"],
        "domains": ["destination", "size", "cuts", "stratum"],
        "shares": ["destination", "unit", "share"],
        "pools": ["place", "shared", *pooling["by"], "n", "m", "domain", "class"],
        "slots": ["pool", "work", *plan.attributes, "count"],
    }
    areas = config["geography"].get("non_nesting_areas", [])
    for name, columns in expected.items():
        found = [c for c in plan.tables[name] if name != "blocks" or c not in areas]
        checks[f"plan/{name}.parquet has other columns"] = found == columns
    must("plan.json", checks)

    blocks, domains = plan.tables["blocks"], plan.tables["domains"]
    codes, cells = [*zip(*(blocks[name] for name in (*geography["levels"], block)))], domains["cuts"]
    need(not plan.policy or plan.policy in geography["levels"], "plan.json: its policy is of no level")
    last_of_part = dict(zip(plan.parts * plan.copies, range(len(codes) * plan.copies)))
    pools = [*zip(*(plan.tables["pools"][name] for name in expected["pools"]))]
    checks = {
        "blocks: they are not in order": codes == sorted(codes),
        "blocks: a block comes twice": len(set(blocks[block])) == len(codes),
        "blocks: a weight is below 1": min(blocks["weight"]) > 0,
        "domains: a cell has no stratum": [*map(len, cells)] == [*map(len, domains["stratum"])],
        "domains: cells are not runs of blocks": all(
            all(a < b for a, b in zip(cuts, [*cuts[1:], last_of_part.get(cuts[0], -1) + 1])) for cuts in cells
        ),
        "pools: m is not n for each implicate": all(m == n * number // runs for *_, n, m, _, _ in pools),
        "pools: there is no such domain": all(0 <= pool[-2] < len(cells) for pool in pools),
    }
    must("plan", checks)
    of_part = {(*pool[:-4], cells[pool[-2]][0]) for pool in pools}
    need(len(of_part) == len(pools), "plan: pools: a pool comes twice")

    # Every pool is of one place, and its jobs are slots there, with the attributes that the pool is by.
    unit, external = dict(zip(blocks[block], blocks[pooling["level"]])), plan.places[1]
    jobs, last, attributes = [0] * len(pools), 0, plan.attributes
    for number, work, *kinds, count in zip(*(plan.tables["slots"][name] for name in expected["slots"])):
        kind, (place, shared, *by, _, _, _, _) = dict(zip(attributes, kinds)), pools[number]
        checks = {
            "they are not in the order of the pools": number >= last,
            "a job is in an external zone": work not in external,
            "a row is of no job": count > 0,
            "a job is not of its pool": (work == place or (shared and unit[work] == unit[place]))
            and by == [kind[name] for name in pooling["by"]],
            "an attribute has other categories": all(kind[name] in of for name, of in attributes.items()),
        }
        must("plan: slots", checks)
        jobs[number], last = jobs[number] + count, number
    need(jobs == plan.tables["pools"]["n"], "plan: pools: n is not the number of slots")
    return f"{len(pools):,} pools with {sum(jobs):,} jobs agree with each other and the configuration"


# --- data (docs/formats.md, Data)


def check_names(folder: Path, plan: Plan) -> str:
    """Check that there are the files of such a release and no others."""
    config, (_, runs), csv = plan.config, plan.implicates, plan.config["release"]["csv"]
    due = {"README.md", "certificate.json", "certificate.schema.json", "MANIFEST.json", "SHA256SUMS"}
    due |= {"plan/plan.json", *(f"plan/{name}.parquet" for name in TABLES)}
    due |= {f"geo/{one['level']}.parquet" for one in config["geography"].get("polygons") or []}
    for kind, name in itertools.chain(*(files.items() for files in plan.files)):
        due |= {f"{name}.parquet", *([f"{name}.csv.gz"] if csv and kind != "jobs_main" else [])}
    if plan.document["mechanism"] == "geometric" and plan.document["format"] != "odsynth plan 1":
        tables = range(len(plan.document["choices"].get("tables", [])) + 1)
        below = [f"run-{i + 1}/" for i in range(runs)] if runs > 1 else [""]
        due |= {f"measurements/{run}table-{k + 1}.parquet" for run in below for k in tables}
    optional = {"names.parquet", "verify.py", "accuracy.json", "signing-key.pub", *SIGNATURES.values()}
    optional |= {"attackers.md", "datapackage.json", "croissant.json", "dcat-us.json"}
    found = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    parted = {path.parent for path in found if path.parent.as_posix() in due}
    for folder_of_parts in parted:
        parts = sorted(path.name for path in found if path.parent == folder_of_parts)
        numbered = [f"part-{i:06}.parquet" for i in range(len(parts))]
        need(parts == numbered, f"{folder_of_parts} has other parts")
    names = {(path.parent if path.parent in parted else path).as_posix() for path in found}
    other = sorted((names ^ due) - optional)
    need(not other, f"a release of this kind has other files: {', '.join(other)}")
    return "the files are those of such a release"


def rows(path: Path, columns: list[str], csv: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a data file, which must have these columns, and the CSV file the same rows."""
    held = (tuple(row) for batch in batches(path, columns) for row in zip(*batch.values()))
    if not csv:
        yield from held
        return
    with gzip.open(path.with_suffix(".csv.gz"), "rt", encoding="utf-8", newline="") as lines:
        need(next(lines, "") == ",".join(columns) + "\n", f"{path.name} and the CSV file hold different rows")
        for row, line in itertools.zip_longest(held, lines):
            same = row is not None and line == ",".join(map(str, row)) + "\n"
            need(same, f"{path.name} and the CSV file hold different rows")
            yield row


def check_data(folder: Path, plan: Plan, stated: dict[str, Any]) -> str:
    """Compare the data files with the plan's slots: totals of every work block by every attribute."""
    attributes, slots, (codes, external) = plan.document["attributes"], plan.tables["slots"], plan.places
    order, day, pairs = {code: i for i, code in enumerate(codes)}, stated["created"][:10].replace("-", ""), 0
    # Counts are in all, and by each category of each attribute.
    place = {of: i + 1 for i, of in enumerate((name, c) for name in attributes for c in attributes[name])}
    ends = [*itertools.accumulate(map(len, attributes.values()), initial=1)]
    lodes = {f"S{kind}": [f"S{kind}0{k}" for k in (1, 2, 3)] for kind in "AEI"}
    counts = [c if lodes.get(name) == attributes[name] else f"{name}_{c}" for name, c in place]
    jobs = [*zip(plan.slot_parts, slots["work"], *(slots[name] for name in plan.attributes), slots["count"])]
    known = [0, *(at for (name, _), at in place.items() if name in plan.attributes)]  # no slot has the others

    parts = plan.parts
    public: Counter[tuple[str, int, int]] = Counter()
    for part, work, *kinds, count in jobs:
        for at in (0, *(place[of] for of in zip(plan.attributes, kinds))):
            public[work, part, at] += count
    for files in plan.files:
        totals: Counter[tuple[str, int, int]] = Counter()
        commutes: Counter[tuple[str, str, int]] = Counter()
        for kind in ("od_main", "od_aux") if "od_aux" in files else ("od_main",):
            name, before = f"{files[kind]}.parquet", (-1, -1)
            columns = ["w_geocode", "h_geocode", "S000", *counts, "createdate"]
            for work, home, *n, created in rows(folder / name, columns, plan.config["release"]["csv"]):
                pair = order.get(work, -1), order.get(home, -1)
                checks = {
                    "has blocks that are not in the geography": min(pair) >= 0,
                    "has homes that belong in the other file": (home in external) == (kind == "od_aux"),
                    "is not in order, or has a pair twice": pair > before,
                    "has counts that no jobs can have": n[0] >= 1
                    and min(n) >= 0
                    and all(sum(n[a:b]) == n[0] for a, b in zip(ends, ends[1:])),
                    "was not created when certificate.json was": created == day,
                }
                must(name, checks)
                pairs, before = pairs + 1, pair
                for at, count in enumerate(n):
                    if count:
                        totals[work, parts[pair[1]], at] += count * (at in known)
                        if "jobs_main" in files:
                            commutes[work, home, at] += count
        by = "work block and part of homes" if plan.policy or plan.near else "work block"
        need(+totals == public, f"{name}: totals by {by} are not those of the plan's slots")
        if "jobs_main" in files:
            name = f"{files['jobs_main']}.parquet"
            due = (slot for *slot, count in jobs for _ in range(count))
            for row, slot in itertools.zip_longest(rows(folder / name, [*columns[:2], *attributes]), due):
                same = [x for n, x in zip(attributes, (row or [])[2:]) if n in plan.attributes]
                alike = row is not None and [parts[order.get(row[1], 0)], row[0], *same] == slot
                need(alike, f"{name}: the jobs are not the plan's slots")
                for at in (0, *(place[of] for of in zip(attributes, row[2:]))):
                    commutes[row[0], row[1], at] -= 1
            need(not any(commutes.values()), f"{name} and the OD files hold different commutes")
    blocks = len({work for work, _, _ in public})
    return f"{pairs:,} pairs; the totals of {blocks:,} work blocks by {len(known)} counts are the plan's"


def check_texts(folder: Path, stated: dict[str, Any]) -> str:
    """Compare the numbers in the read-me with the certificate's."""
    text, user = (folder / "README.md").read_text(encoding="utf-8"), stated["user_level"]
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
    "the other words of README.md, attackers.md, the numbers of accuracy.json, the shapes and names for maps,"
    " the schema, and the records for machines (datapackage.json, croissant.json, dcat-us.json)",
    "the settings that plan.json quotes beyond epsilon, delta, geography, pooling and the jobs' attributes",
    "whether a file carries more than its rows in how they are encoded, or an implicate is a copy of another",
]


def verify(folder: Path, key: Path | None = None, only: bool = False) -> Iterator[tuple[str, str]]:
    """Yield the name of each check and what it found; the first that fails raises `WrongError`."""
    if not folder.is_dir() or not (key is None or key.is_file()):
        raise ImpossibleError(f"{folder} is not a folder, or {key} is not a file")
    if not only:
        yield "files", check_files(folder)
    yield "signature", check_signature(folder, key, only)
    stated, plan = read_release(folder)
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
    except ImpossibleError as error:
        print(f"NOT CHECKED  {error}")
        return 2
    except Exception as error:
        unread = f"cannot be read as a release: {type(error).__name__}: "
        print(f"FAILED  {'' if isinstance(error, WrongError) else unread}{error}")
        return 1
    skipped = ["checksums, data and read-me (--certificate-only)"] if given.certificate_only else []
    print("\nNot checked here (odsynth verify does more):")
    print("\n".join(f"  - {line}" for line in skipped + NOT_CHECKED))
    return 0


if __name__ == "__main__":
    sys.exit(main())
