"""Check a release of odsynth without odsynth: python verify.py FOLDER [--key KEY] [--witness KEY].

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
import csv
import functools
import gzip
import hashlib
import itertools
import json
import math
import re
import sys
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
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

FACTOR = Decimal("1.00001")
"""A number of the certificate may be this many times what is computed here: sums are cut off elsewhere."""

LARGEST = 2**28
"""Bytes of a document; the plan of a nation has a thousandth."""

TERMS = 4096
"""odsynth says of a sum of more terms that it is at most 1; it sums fewer digits than are summed here."""

UP = Context(prec=50, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
DOWN = Context(prec=50, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN)
ZERO, ONE = Decimal(0), Decimal(1)
Coins = tuple[Fraction, Fraction, int]  # prior, retention and number of cells
Document = dict[str, Any]


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
        if not true:
            raise WrongError(f"{where}: {otherwise}")


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


def log_below(x: Decimal) -> Decimal:
    """Return what is not above ln x."""
    return DOWN.next_minus(DOWN.ln(x))


def root(x: Decimal) -> Decimal:
    """Return what is not below the square root of x."""
    return UP.next_plus(UP.sqrt(x))


def rounded_up(x: Fraction, digits: int = 12) -> str:
    """Return the smallest decimal of so many digits that is at least x; certificates have twelve."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).divide(x.numerator, x.denominator)
    return format(rounded.normalize(), "f")


# --- numbers as texts (docs/formats.md): each has one form, and no other is read


def ratio(text: Any) -> Fraction:
    """Read a whole number, or a ratio in lowest terms."""
    form = "(0|[1-9][0-9]{0,999})(/[1-9][0-9]{0,999})?"
    x = Fraction(text) if type(text) is str and re.fullmatch(form, text) else None
    if x is None or text != str(x):
        raise WrongError(f"{json.dumps(text)[:80]} is not a whole number, or a ratio in lowest terms")
    return x


def configured(text: Any) -> Fraction:
    """Read a number of a configuration: a decimal of at most 30 digits, or else a ratio."""
    plain = type(text) is str and re.fullmatch(r"[0-9]{1,999}(\.[0-9]{1,999})?", text)
    x = Fraction(text) if plain else ratio(text)
    due = rounded_up(x, 30)
    need(text == (due if Fraction(due) == x else str(x)), f"{text[:80]} is not written as odsynth writes it")
    return x


def decimal(text: Any) -> Decimal:
    """Read a number of a certificate: a decimal of at most 12 digits."""
    form = r"(0|[1-9][0-9]*)(\.[0-9]*[1-9])?"
    is_decimal = type(text) is str and re.fullmatch(form, text) is not None
    is_decimal = is_decimal and len(text.replace(".", "").strip("0")) <= 12
    need(is_decimal, f"{json.dumps(text)[:80]} is not a decimal of 12 digits, as certificates have it")
    return Decimal(text)


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


class PoolClass(NamedTuple):
    """The limits of a class of pools, and its numbers."""

    n_min: int
    n_max: int
    m: int
    gain: Fraction
    q: int
    strata: tuple[Stratum, ...]

    @classmethod
    def of(cls, row: Document, retention: list[Fraction], q: int) -> PoolClass:
        """Read a class of plan.json."""
        columns = row["prior"], retention, row["cells"], row["cells_min"], row["kept"]
        strata = tuple(Stratum(*fields) for fields in zip(*columns) if fields[2])
        c = cls(row["n_min"], row["n_max"], row["m_max"], ratio(row["gain"]), q, strata)
        rising = [(1, c.n_min, c.n_max), (1, c.m), (1, q), *((0, s.kept, s.fewest, s.most) for s in strata)]
        rising += [(1, s.prior) for s in strata]
        fits = all(type(x) is int for numbers in rising for x in numbers) and all(
            [*numbers] == sorted(numbers) for numbers in rising
        )
        fits = fits and len({*map(len, columns)}) == 1 and strata != () and c.gain > 1
        fits = fits and all(0 < s.retention <= 1 for s in strata)
        # More no sampler holds, nor throws coins for.
        fits = fits and all(s.retention.denominator < 2**62 for s in strata)
        fits = fits and q * (c.n_max + c.m) + sum(s.prior * s.most for s in strata) <= 2**62
        need(fits, "plan.json: a class of pools has numbers that no class can have")
        return c

    @property
    def pruned(self) -> bool:
        """Whether some cell may be left out."""
        return any(s.retention < 1 for s in self.strata)

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
        another = min(stratum.prior for stratum in self.strata) if most < self.n_min else 0
        w, rest = q * most + s.prior, q * max(0, self.n_min - most) + max(another, self.likely - s.prior)
        first, kept, result = self.fine(s, x, gain) + 1, down(gain * f * b), ZERO
        if first > m:
            return ZERO
        ceiling = 1 - DOWN.divide(kept, b + q * m) if lost else ONE  # what is lost if all draws are from it
        if rest < q and m - first > TERMS:  # nearly all draws are from this cell, and terms need not fall
            return ceiling
        p, left = draws(w, rest, q, m, first), ceiling
        for k in range(first, min(m, first + 4 * TERMS) + 1):
            result += p * (1 - DOWN.divide(kept, b + q * k)) if lost else p
            if k == m or (x < most and result > enough):
                break
            # From here on terms grow by no more than `growth`, if the others weigh 1 or more.
            below = (k + 1) * (rest + q * (m - k - 1))
            growth = Decimal(max(w + q * k, q * k + q) * (m - k)) / below if rest >= q else ONE
            left = p * growth / DOWN.subtract(ONE, growth) if growth < 1 else ONE
            if left <= max(result * Decimal("1e-18"), enough - result):
                return min(ceiling, result + left)
            p = p * ((w + q * k) * (m - k)) / below if below else ONE
        else:
            return min(ceiling, result + left)
        return min(ceiling, result) if x == most or result <= enough else ceiling

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


def is_pruning_loss(loss: Decimal) -> Callable[[Any], bool]:
    """Return what says whether a number is V: odsynth bounds e^V to a part in 10^8, and V no better."""
    return lambda stated: loss <= decimal(stated) <= loss * FACTOR + Decimal("1e-8")


def inverse_moment(base: Fraction, m: int, coins: list[Coins], a: Fraction) -> Decimal:
    """Bound 1/E[x^a] for the density of Lemma 2, by sums over points at equal distances (Lemma 25, d = 1).

    There c is 1/2 and C = 2 e^(s/2), so that with t = 12.5/(s + 86) the part e is below 10^-18. All terms are
    positive and every operation, logarithms too, is right to 49 digits, so exponents below 10^8 leave 35: far
    more than the part by which the result is raised.
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
        turning, steepening = up(turn).ln(), up(steep).ln()
        for point in itertools.count(first if sign > 0 else first - 1, sign):
            u = point * t
            log_x = -(1 + (-u).exp()).ln()  # once: a power of Decimal takes the logarithm anew
            f = (up(base) * log_x + m * (log_x - u)).exp()
            for b, out, kept, k in powers:
                f *= (out + kept * (b * log_x).exp()) ** k
            above, below = above + f, below + f * (up(a) * log_x).exp()
            left = f * (1 + max(ZERO, sign * (steepening - u)) / t + geometric)
            if sign * (u - turning) >= 0 and left <= above * Decimal("1e-18"):
                above += left
                break
    return above / below * (1 + Decimal("1e-17"))


def in_turn(c: PoolClass, *bounds: Callable[[PoolClass], Decimal]) -> Iterator[Decimal]:
    """Yield bounds of a probability, the quick one first; last 1, where odsynth may say so of long sums."""
    yield from (bound(c) for bound in bounds)
    yield from [ONE] if c.m > TERMS else []


# --- one record (Lemmas 10 to 12)


def record_deltas(c: PoolClass, epsilon: Fraction, presence: bool) -> Iterator[Decimal]:
    """Return bounds of the delta of one record at an epsilon: a quick one, and if there is one a smaller."""
    quick = functools.partial(record_delta, epsilon=epsilon, presence=presence)
    smaller = functools.partial(pairs_delta, epsilon=epsilon)
    # Where sums are longer, no certificate is by Lemma 12.
    few = c.n_max * c.m <= 100 or (sum(s.most for s in c.strata) <= 5 and c.m <= 400)
    return in_turn(c, quick, smaller) if few and not c.pruned else in_turn(c, quick)


def pure_loss(c: PoolClass) -> Decimal:
    """Return the largest loss of all (Lemma 11)."""
    worst = max((1 + Fraction(c.m * c.q, s.prior)) / s.retention for s in c.strata)
    return log(pruning(c) * up(worst))


@functools.lru_cache(maxsize=4096)
def record_delta(c: PoolClass, epsilon: Fraction, presence: bool) -> Decimal:
    """Bound delta by what one cell loses (Lemma 10; Lemma 30 for one record more or less)."""
    odds = DOWN.divide(ONE, exp(up(-epsilon)) * pruning(c))
    if odds <= 1:
        return ONE
    bound = ZERO
    for s in c.strata:  # Lemma 35: of one worker, or of all if then the urn is lighter
        lighter = c.n_min > 1 and c.likely - s.prior < min(stratum.prior for stratum in c.strata)
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
        least_prior = sum(s.prior * max(0, s.fewest - (s is i) - (s is j)) for s in c.strata)
        more = q * max(0, c.n_min - x)  # the other workers: in a third cell, or in j if there is none
        third = more + max(least_prior, min(s.prior for s in c.strata) if more else 0)
        cases = [(j.prior, third)] if sum(s.most for s in c.strata) > 2 else []
        for b, rest in [*cases, (j.prior + more, 0)] if not least_prior else cases:
            w, result = q * x + i.prior, ZERO
            ways_i, ways_j, ways_rest = (ways(weight, q, c.m) for weight in (w, b, rest))
            for s in range(c.fine(i, x, Fraction(odds)) + 1, c.m + 1):
                for t in range(c.m - s + 1):
                    kept = DOWN.divide(DOWN.multiply(odds, (w - q) * (b + q * t)), b * (w - q + q * s))
                    if kept >= 1:  # and so it is from here on
                        break
                    result += ways_i[s] * ways_j[t] * ways_rest[c.m - s - t] * (1 - kept)
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
        p = up(math.prod(f if present else 1 - f for f, present in zip(kept, urn)))
        w = {i: q * h[i] + cells[i].prior for i, present in enumerate(urn) if present}
        whole, bad = sum(w.values()), ZERO
        for i in w:
            ways_i, rest, (b, f) = ways(w[i], q, m), ways(whole - w[i], q, m), c.factor(cells[i], h[i])
            others = [d for d in range(len(h)) if d != i and (h[i] or h[d])]
            for s in range(c.fine(cells[i], h[i], c.gain) + 1, m + 1):
                odds, bad_ways = (1 + Fraction(q * s, b)) / f / c.gain, ZERO
                for d in others:  # one that is not in the urn was not drawn from, whatever s is
                    b_d, f_d = c.factor(cells[d], h[d] + 1 if h[i] else h[d])
                    most = min(m - s, max(0, math.ceil((f_d * odds - 1) * b_d / q) - 1))
                    weight = w.get(d, 0)
                    other, third = ways(weight, q, m), ways(whole - w[i] - weight, q, m)
                    bad_ways += sum((other[t] * third[m - s - t] for t in range(most + 1)), ZERO)
                bad += ways_i[s] * min(bad_ways, rest[m - s])
        result += p * bad / ways(whole, q, m, True)[m]
    return result


# --- documents: every field is compared with what is due there

# SHA-256 (its first half) of all sentences of certificates, as `said` takes it: with what it is said of, and
# letters for the numbers and names in it. Other words could promise anything.
WORDS = """
    08aaed00d75d41d5d1876b2895abed9c 0b78df2f1ef3f02c0023acbd68381a7a 0c4d3191e67bdaf9a3de3a45f16100c8
    10310a4521669746c3fc7f609371f879 1313fa8a198a414a17a23d950819f3af 14398500e135d773143aa3a0e2bf9483
    1ab90362bf141506474c1bec73e9e4ab 20d8abb6010ce85c60aa5a8a276fb2e6 2aa3433a7c0705bcf719996b5a6f9265
    2bf6f064c3c653598482463d71662f1e 334b73256f0940c481a3296d7593ee57 339d65a5eb1e87e573e5d9bdb39886ed
    35f63e04b53aea40c1c9ac60fb26982a 364a126fb7cde08dc283b1c52bef1158 38cef9377c03979ca8622d5b877dbbf4
    3c3495e89ca30f679f0bf06b69dd7c0a 3fe10d3ffd294628550ec36057c3d847 40c263a7a6cf079880c66b551896bece
    4228b871bf12ff91755d64453cc5cdb0 471f715fb5b58f0dda9c089b5762ef0d 4829dc080c5b422dd4d0569fb9bca32f
    4b7c880bb0cb9332a68c3a176eebc9ea 4ea05db7192c62c358a2a04737a55eb7 531778807786718e27c276294b266e07
    53dc44cad1e7b5db54e667df7944300f 55d4e1d1f2eaf052408164bc6bd668f7 56bf99b878de0a032edd4ac5f0fa7caa
    5b62e19bab9b63650d1b83f1ed618083 60ec865a82cd1129edebae9870416e5a 6d6d1595955cd6b4b77d5f8ef47676d4
    713e6831f9da839e4fef35b2e4acd100 7785d90c015c6de95eaefb6f76fc8371 7cee6611aa4c4e640799e906baebc4fc
    81d778ab0a46a05cfed7eb79defd16b6 83ca46d226557283b128307d6679a8fb 86f5a9d32bff4a9be338217528de56f1
    8a510bc3ef75f7c8de1a4b8b340eda3f 8ae9ed81cb2d348ec788eb993679559e 8da329b42e91781dbbed61a6b5bacfd4
    8fcf265f5873d63e35556d2540557820 99445f30b65af8f6a58d71befbe9d30f 9ecd0a6c3acca3822389ccbc3ac23427
    a3f8cc7fb9abcbeb976ec5ebb06dac84 aa392cb22331956b493cede83f480200 aaa8114cb7996a03bacffbbbe6118305
    af8493781dde95f09fdfe204bde3e17e b9c1724df98a88a01df159ac30dee1ea ca00223c7f2df283fd3d44377b4d3fba
    cb6d08272729b502c98105034a956792 ce1dff682db5d65958a6c648cf740c5b d492b89c66b7d6d91b9e690ec72746ce
    d5ad4dac41be4efed12f485a23158e25 d64662f121ca49781e19d52748eb1cea d81355211cda1c5e85d287a97fddeedd
    df0888ff85fbf86eb058ff6a336bba0f e10dff8b718047c3b8897365c4b1c098 e803141aa0bd007052b70e89a5eb8f05
    e8616bb79873443b6e98764b1751bbcb ea12b707c8f575bae70d3544109d0258 ee701abfd2cd6d7fbae22456dcc0f70f
    ef2150ab7ba337472304891d1bbbab6e f45b0c656e380375fd526395b3674b40 f56407dad061a226cefd426aef326a7d
    f859e247b105f3ee4f6473b6a09c9ebc fc398c47401c1c98a4e6816ed38db7cf
"""


def like(form: str) -> Callable[[Any], bool]:
    """Return whether a value, written as JSON, has a form."""
    return lambda value: re.fullmatch(form, json.dumps(value)) is not None


def worded(*subject: Any, **letters: str) -> Callable[[Any], bool]:
    """Return whether words are known to be said of something; letters stand for what has these patterns."""

    def is_known(words: Any) -> bool:
        text = json.dumps([*subject, words], sort_keys=True)
        for letter, pattern in letters.items():
            text = re.sub(pattern, letter, text)
        return hashlib.sha256(text.encode()).hexdigest()[:32] in WORDS.split()

    return is_known


def follow(name: str, stated: Any, due: Any, ratios: list[Decimal]) -> Any:
    """Fail unless a field is what is due; return it with the bounds that its numbers reach in their place.

    Due may be a bound, or several of which one must be reached; a function that says whether the field is
    right; a value; or a list or a dictionary of these, whose names must be in the same order. Of a number
    that has a bound the ratio of the two is kept.
    """
    if isinstance(due, dict):
        fits = isinstance(stated, dict) and [*stated] == [*due]
        need(fits, f"{name}: its fields are not these, in this order: {', '.join(due)}")
        return {field: follow(f"{name}: {field}", stated[field], due[field], ratios) for field in due}
    if isinstance(due, list):
        need(isinstance(stated, list) and len(stated) == len(due), f"{name} is no list of {len(due)}")
        return [follow(name, *pair, ratios) for pair in zip(stated, due)]
    if isinstance(due, (Decimal, Iterator)):
        return reach(name, stated, [due] if isinstance(due, Decimal) else due, ratios)
    fits = due(stated) if callable(due) else json.dumps(stated) == json.dumps(due)
    need(fits, f"{name} is {json.dumps(stated)[:80]}, not what is due")
    return stated


def reach(name: str, stated: str, bounds: Iterable[Decimal], ratios: list[Decimal]) -> Decimal:
    """Return the first bound that a number reaches; it must be no more than `FACTOR` above it."""
    value, bound = decimal(stated), ZERO
    for bound in bounds:
        excess = value / bound if bound else ONE if not value else Decimal("Infinity")
        if value >= bound and excess <= FACTOR:
            ratios.append(excess)
            return bound
    raise WrongError(f"{name} is {stated}, and the plan gives {bound:.12g}")


# --- the plan (docs/plan-format.md)

SIGNATURES = {"certificate.json": "certificate.json.sig", "SHA256SUMS": "SHA256SUMS.sig"}
WITNESS = "witness.intoto.jsonl"
CORRECTED = {"README.md", "details.md", "attackers.md", "corrections.json", "MANIFEST.json"}
CORRECTED |= {"datapackage.json", "croissant.json", "dcat-ap.jsonld", "dcat-us.json"}
CORRECTED |= {"names.parquet", "names.csv", "areas.csv", "flows.csv"}
"""Files that a correction of words may change after a witness has signed."""
DEGREES = ("latitude", "longitude")
STATES = "us-states"
"""External zones: all states of which there is no block."""
MARGIN = 1e-11
"""What is added to the chord of a distance (docs/formats.md)."""
TABLES = ("blocks", "domains", "pools", "shares", "slots")
DRAWS = 19  # of every table in intervals.parquet
AS_CSV = {"blocks": "plan/blocks.parquet", "names": "names.parquet"}
"""Tables that are there as CSV, too, where data are."""
PLAN, CERTIFICATE = "odsynth plan 1.0", "odsynth certificate 1.0"
POLICIES = ("partition", "distance_km")
"""Kinds of policies other than "full"."""
SCHEMA = "aeb995ff5fd00fa6dfb5dd309f465bd9c890acb3c69ef1976c7326bd6243c976"
"""SHA-256 of the schema of certificates of this format."""
SCHEMA_BEFORE = "77944981a7c612c4930bde2fecc4da9de4c3440c777763c3b0a646a8bf963b00"
"""The same, before certificates had commitments."""
KEYS = {
    "configuration": "attribute auxiliary geography history jobs plan privacy release tiers weights"
    " workload workplaces",
    "geography": "block external_workplaces external_zones file groupings latitude levels longitude"
    " non_nesting_areas polygons uninhabited without_work",
    "history": "changing first release",
    "lodes": "aux file format population",
    "microdata": "attributes count decimal_point file format home population records_per_worker work worker",
    "plan": "cell_level coarsening distance_miles expected_jobs pool_below pool_by pool_level preset prior"
    " retention_min share split_threshold",
    "privacy": "delta epsilon guarantee policy protects",
    "release": "citation contact csv implicate_source implicates job_type language licence mechanism name"
    " publisher state year",
    "workplaces": "count fewest file most",
}
"""Keys of a configuration and of its tables; those of jobs by their format."""
LANGUAGES: dict[str, dict[str, Any]] = {
    "en": {
        "marks": {},
        "workers": "{} **synthetic** workers",
        "run": "\nEpsilon {}, delta {}.\n",
        "user": "with epsilon {} and delta {}.",
        "fit": "**for publication**",
        "unfit": "**Not for release**",
        "and": " and ",
        "steps": "most {} steps",
        "parts": "into {} parts",
    },
    "de": {
        "marks": {",": "\u00a0", ".": ","},
        "workers": "{} **synthetische** Erwerbstätige",
        "run": "\nEpsilon {}, Delta {}.\n",
        "user": "mit Epsilon {} und Delta {}.",
        "fit": "**freigegeben**",
        "unfit": "**Nicht freigegeben**",
        "and": " und ",
        "steps": "höchstens {} Schritte",
        "parts": "in {} Teile",
    },
}
"""What read-mes say in each language: sentences with numbers, and words around those of a policy."""


class Near:
    """Edges between blocks within a distance: how far each block reaches, and how long ways are (Lemma 39).

    Below node v of a tree are 2 v and 2 v + 1. It has the box of its points, empty where all were taken.
    """

    def __init__(self, km: str, *degrees: list[float]) -> None:
        self.km, n, half = km, len(degrees[0]), min(float(configured(km)) / (2 * 6371.0088), math.pi / 2)
        self.square, self.size = (2 * math.sin(half) + MARGIN) ** 2, 1 << (n - 1).bit_length()
        places = [[math.radians(angle) for angle in place] for place in zip(*degrees)]
        self.at = [(math.cos(y) * math.cos(x), math.cos(y) * math.sin(x), math.sin(y)) for y, x in places]
        leaves = [[(x, x) for x in point if x == x] for point in self.at] + [[]] * (self.size - n)
        self.boxes: list[Any] = [[]] * self.size + leaves
        self.grow(range(self.size - 1, 0, -1))
        self.reach, self.steps = [next(self.of(i), i) for i in range(n)], 0
        for root in range(n):  # all that ways lead to, edge after edge, until none is left
            layer, edges = self.take([root] if self.boxes[self.size + root] else []), 0
            while layer:
                self.steps, edges = max(self.steps, 2 * edges), edges + 1
                layer = [child for node in layer for child in self.take([*self.of(node)])]

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


def starts(units: list[Any]) -> list[int]:
    """Return where runs of equal units start."""
    return [i for i, unit in enumerate(units) if i == 0 or unit != units[i - 1]]


class Plan:
    """A plan and its tables, and what follows from both."""

    def __init__(
        self,
        document: Document,
        tables: dict[str, dict[str, list[Any]]],
        slots: dict[str, list[Any]] | None = None,
    ) -> None:
        self.document, self.tables, self.config = document, tables, document["configuration"]
        release, geography, blocks = self.config["release"], document["geography"], tables["blocks"]
        self.language = release["language"]
        known = f"plan.json: {json.dumps(self.language)[:80]} is no language known here"
        need(self.language in [*LANGUAGES], known)
        policy = self.config["privacy"]["policy"]
        policy = {} if policy == "full" else policy
        named = policy == {} or [*policy] in [[kind] for kind in POLICIES]
        need(named, f"plan.json: {json.dumps(policy)[:80]} is no policy known here")
        mechanism = document["mechanism"]
        is_known = mechanism in ("dirichlet", "geometric", "gaussian")
        need(is_known, f"plan.json: {json.dumps(mechanism)[:80]} is no mechanism known here")
        self.dirichlet, self.gaussian = mechanism == "dirichlet", mechanism == "gaussian"
        self.cuts = tables["domains"]["cuts"]
        self.record = self.config["privacy"]["protects"] == "record"  # all of it, not its home alone
        self.protected = self.record or self.config["workplaces"] is not None  # the numbers of records
        self.workplaces = document["choices"]["workplaces"]  # tables of them that are measured first
        # Jobs of the release: where workplaces were measured, those of the plan are only expected.
        self.slots = slots or tables.get("slots", {})
        self.records = records_of(self.config["jobs"])
        tiers = [(configured(epsilon), name) for name, epsilon in self.config["tiers"].items()]
        self.tiers = {name: epsilon for epsilon, name in sorted(tiers)}  # by rising epsilon
        # Implicates, and the independent runs that they come from.
        self.number = release["implicates"]
        self.runs = self.number if release["implicate_source"] == "independent-runs" else 1
        # External zones are prefixes filled up with 9s; where there are none, jobs are of residents.
        self.codes = blocks[geography["block"]]
        self.homes, places = geography["external_zones"], self.config["geography"]
        self.zones = sorted({*self.homes, *places["external_workplaces"]})
        longest = max(map(len, self.codes))
        self.external = {zone.ljust(longest, "9"): zone for zone in self.zones}
        self.population = None if self.homes else "residents"
        # Blocks in which nobody can live, or work: those of areas of a list, and zones of the other kind.
        levels = [blocks[name] for name in (geography["block"], *geography["levels"])]
        self.uninhabited, self.without_work = (
            {code for code, *areas in zip(self.codes, *levels) if not closed.isdisjoint(areas)}
            | {code for code, zone in self.external.items() if zone not in opened}
            for closed, opened in (
                ({*places["uninhabited"]}, self.homes),
                ({*places["without_work"]}, places["external_workplaces"]),
            )
        )
        # Under a policy: the level whose units are the parts of homes; or the attributes as secret as homes.
        protects, self.level = self.config["privacy"]["protects"], policy.get("partition")
        declared = {table["name"]: table["categories"] for table in self.config.get("attribute", [])}
        names = protects[1:] if isinstance(protects, list) else []
        listed = all(declared.get(name) for name in names) and not (names and policy)
        need(listed, "plan.json: secret attributes have no categories, or go with a policy")
        self.secret: dict[str, list[str]] = {name: declared[name] for name in sorted(names)}
        self.attributes: dict[str, list[str]] = document["attributes"]
        self.public = [name for name in self.attributes if name not in self.secret]
        self.estimated = self.record or bool(self.secret)  # the jobs that are released, from noisy counts
        self.changed_pools = 2 if self.dirichlet and self.record else 1  # in which a record may be (Lemma 44)
        self.near = None
        units = [""] * len(self.codes) if self.level is None else blocks[self.level]
        if "distance_km" in policy:
            self.near = Near(policy["distance_km"], *(blocks[n] for n in DEGREES))
            left = [i == far for i, far in enumerate(itertools.accumulate(self.near.reach, max))]
            units = [*itertools.accumulate(left[:-1], initial=0)]  # another one where no edge crosses
        begins = starts(units)
        self.parts = [begins[bisect_right(begins, i) - 1] for i in range(len(units))]  # first blocks of these

    @property
    def slot_parts(self) -> list[int]:
        """The part of the homes of each row of slots, which is that of the domain of its pool."""
        domain = self.tables["pools"]["domain"]
        return [self.cuts[domain[pool]][0] for pool in self.tables["slots"]["pool"]]

    @property
    def exact(self) -> Document:
        """Numbers of jobs by work block, part of the home and attributes: how many there are, and are 1."""
        slots, joint = self.tables["slots"], self.config["jobs"]["format"] == "microdata"
        places = [*zip(self.slot_parts, slots["work"])]
        numbers = Counter[tuple[Any, ...]]()
        for names in [self.public] if joint else [[], *([name] for name in self.public)]:
            for count, *kind in zip(slots["count"], places, *(slots[name] for name in names)):
                numbers[(*names, *kind)] += count
        one_job = [*numbers.values()].count(1)
        stated = {"attributes": self.public, "joint": joint}
        return {**stated, "numbers": len(numbers), "of_one_job": one_job}

    @property
    def range(self) -> list[Fraction]:
        """How many records a pool may have, as parts of its jobs: the fewest and the most."""
        listed = self.config["workplaces"] or ({"fewest": "0.8", "most": "1.25"} if self.record else {})
        return [configured(listed.get(name, "1")) for name in ("fewest", "most")]

    @property
    def largest_pool(self) -> int:
        """The jobs of the largest pool of the release: of a block, or of the small blocks of a unit."""
        pooling, jobs = self.document["pooling"], Counter[Any]()
        unit = dict(zip(self.codes, self.tables["blocks"][pooling["level"]]))
        of_block = jobs_by(self.slots, [])
        kinds = (self.slots[name] for name in pooling["by"])
        for count, work, *kind in zip(self.slots["count"], self.slots["work"], *kinds):
            alone = of_block[(work,)] >= pooling["below"]
            jobs[(work if alone else None, unit[work], *kind)] += count
        return max(jobs.values())

    @property
    def most_pools(self) -> int:
        """How many pools there can be, whatever jobs there are: of every block and every unit."""
        pooling = self.document["pooling"]
        places = len(self.codes) + len({*self.tables["blocks"][pooling["level"]]})
        return places * math.prod(len(self.attributes[name]) for name in pooling["by"])

    @property
    def files(self) -> list[dict[str, str]]:
        """The data files of each implicate by their kinds, without endings (docs/formats.md, Data)."""
        release, jobs = self.config["release"], self.config["jobs"]
        single = jobs["format"] == "microdata" and len(jobs["attributes"]) > 1
        kinds = {"od_main": True, "od_aux": bool(self.homes), "jobs": single}
        folders = [f"implicate-{i + 1:02}/" for i in range(self.number)] if self.number > 1 else [""]
        name = f"{release['state']}_{{}}_{release['job_type']}_{release['year']}"
        return [{kind: below + name.format(kind) for kind in kinds if kinds[kind]} for below in folders]


def records_of(jobs: Document) -> Any:
    """Return the most records that a person may have: a LODES file has one of each."""
    return 1 if jobs["format"] == "lodes" else jobs["records_per_worker"]


def configuration_of(config: Document) -> Document:
    """Return the form of a configuration: the keys of its tables, in order, whatever they hold."""
    keys, form = {**KEYS, "jobs": KEYS[config["jobs"]["format"]]}, {}
    for name in KEYS["configuration"].split():
        one_table = name in keys and config[name] is not None
        form[name] = dict.fromkeys(keys[name].split(), like(".*")) if one_table else like(".*")
    return form


def choices_of(plan: Plan) -> Document:
    """Return what a plan may say of its cells: what the configuration asks for, or else what was chosen."""
    asked_for, choices = plan.config["plan"], plan.document["choices"]
    threshold, level, thresholds = asked_for["split_threshold"], choices["cell_level"], choices["thresholds"]
    if asked_for["coarsening"] == "units":
        level = asked_for["cell_level"] or plan.document["model_level"]
    elif asked_for["coarsening"] or threshold:
        level = None
    if level or threshold:
        thresholds = [] if level else [repr(float(configured(threshold)))]
    form = {"cell_level": level, "tables": like(".*"), "thresholds": thresholds}
    return {**form, "workplaces": like(".*" if plan.estimated else r"\[\]")}


def check_plan(folder: Path, plan: Plan) -> str:
    """Check that a plan agrees with itself and with the configuration that it quotes."""
    document, config, tables = plan.document, plan.config, plan.tables
    privacy, geography, pooling = config["privacy"], config["geography"], document["pooling"]
    # What is null there, the planner chose.
    chosen = {
        name: value for name, value in {**config["plan"], **config["release"]}.items() if value is not None
    }
    due = {
        "attributes": like(".*"),
        "choices": choices_of(plan),
        "configuration": configuration_of(config),
        **{name: str(configured(privacy[name]) / plan.runs) for name in ("delta", "epsilon")},
        "files": {
            f"{name}.parquet": sha256(folder / "plan" / f"{name}.parquet") for name in sorted(plan.tables)
        },
        "format": PLAN,
        "geography": document["geography"] | {name: geography[name] for name in ("block", "levels")},
        "guarantee": privacy["guarantee"],
        "history": like(".*") if "history" in plan.tables else [],
        "mechanism": chosen.get("mechanism", document["mechanism"]),
        **dict.fromkeys(("model_level", "notes", "parameters"), like(".*")),
        "pooling": {name: chosen.get(f"pool_{name}", pooling[name]) for name in ("below", "by", "level")},
    }
    follow("plan.json", document, due, [])
    order = [*geography["levels"], geography["block"]]
    columns = {
        "blocks": [order[-1], *order[:-1], *geography["non_nesting_areas"], *DEGREES, "weight"],
        "domains": ["destination", "size", "cuts", "stratum"],
        "shares": ["destination", "unit", "share"],
        "pools": ["place", "shared", *pooling["by"], "n", "m", "domain", "class"],
        "slots": ["pool", "work", *plan.attributes, "count"],
        **({"history": ["table", "n", "mean", "variance"]} if "history" in tables else {}),
    }
    follow("columns of the plan", {name: [*tables[name]] for name in columns}, columns, [])

    blocks, domains, slots, cells = tables["blocks"], tables["domains"], tables["slots"], plan.cuts
    places, unit = [*zip(*(blocks[name] for name in order))], dict(zip(plan.codes, blocks[pooling["level"]]))
    after = dict(zip(plan.parts, itertools.count(1)))  # the end of each part, by its first block
    limits = [[*begins, after.get(begins[0], 0)] for begins in cells]
    strata = range(len(document["parameters"]["retention"] if plan.dirichlet else []))
    pools = [*zip(*(tables["pools"][name] for name in columns["pools"]))]
    of_work = [(table["work"], table["home"], *table["by"]) for table in plan.workplaces]
    shares = [ratio(table["share"]) for table in (*document["choices"]["tables"], *plan.workplaces)]
    people, zones = config["jobs"]["population"], {*geography["external_zones"]}
    areas = {*plan.codes}.union(*(blocks[name] for name in geography["levels"]))
    places_of = [*zip(plan.codes, *(blocks[name] for name in DEGREES))]
    checks = {
        "external zones are others": zones - {STATES} <= {*plan.homes}
        and (STATES in zones or {*plan.homes} == zones),
        "places are not degrees, or external zones have one": all(
            (north != north and east != east)
            if code in plan.external
            else abs(north) <= 90 and abs(east) <= 180
            for code, north, east in places_of
        ),
        "the model is of a level that there is not": document["model_level"] in order,
        "jobs are of residents if, and only if, there are no external zones": (plan.population or "all")
        == people,
        "shares of epsilon leave nothing": sum(shares) < 1,
        "tables of workplaces are not those of such a release": all(
            work in (None, *order) and home is None and {*by} <= {*plan.attributes}
            for work, home, *by in of_work
        )
        and (not plan.estimated or of_work[:1] == [(None, None, *plan.attributes)]),
        "more than homes is protected with discrete Gaussian noise": not plan.gaussian
        or not (plan.protected or plan.estimated),
        "tiers are of another mechanism or protect more than homes, or epsilon is of none": not plan.tiers
        or (
            document["mechanism"] == "geometric"
            and not plan.estimated
            and configured(privacy["epsilon"]) in plan.tiers.values()
            and 1 < len({*plan.tiers.values()}) == len(plan.tiers)
            and all(re.fullmatch("[a-z0-9_]{1,24}", name) for name in plan.tiers)
        ),
        "more than homes is protected under a policy, or drawn more than once": not plan.estimated
        or (privacy["policy"] == "full" and plan.number == 1),
        "pools that are resampled are by secret attributes": not plan.dirichlet
        or plan.secret.keys().isdisjoint(pooling["by"]),
        "the policy is of a level that there is not": plan.level is None or plan.level in order[:-1],
        "cells are of a level that there is not": document["choices"]["cell_level"] in (None, *order),
        "secret attributes are others": plan.secret.items() <= document["attributes"].items(),
        "blocks are not in order, each once": places == sorted(places) and len({*plan.codes}) == len(places),
        "weights are below 1 where somebody can live, or add up to 2^62": all(
            weight == 0 if code in plan.uninhabited else weight > 0
            for code, weight in zip(plan.codes, blocks["weight"])
        )
        and sum(blocks["weight"]) < 2**62,
        "cells are not runs of blocks": all(a < b for begins in limits for a, b in zip(begins, begins[1:])),
        "strata are not those of cells": [*map(len, cells)] == [*map(len, domains["stratum"])],
        "a cell is of no stratum": not strata
        or all(s in strata for cell in domains["stratum"] for s in cell),
        "m is not n for each implicate": all(m == n * plan.number // plan.runs for *_, n, m, _, _ in pools),
        "a pool is of no domain": all(0 <= pool[-2] < len(cells) for pool in pools),
        "a pool comes twice": len({(*pool[:-4], cells[pool[-2]][0]) for pool in pools}) == len(pools),
        "slots are not in the order of the pools": slots["pool"] == sorted(slots["pool"]),
        "an external zone has no block": plan.external.keys() <= {*plan.codes},
        "a job is where nobody can work": plan.without_work.isdisjoint(slots["work"]),
        "an area in which nobody can live or work is none": areas.issuperset(
            [*config["geography"]["uninhabited"], *config["geography"]["without_work"]]
        ),
        "a row of slots is of no job": min(slots["count"]) > 0,
        "an attribute has other categories": all(
            {*slots[n]} <= {*codes} for n, codes in plan.attributes.items()
        ),
    }
    must("plan", checks)

    # Every pool is of one place, and its jobs are slots there, with the attributes that the pool is by.
    jobs, attributes = Counter[int](), (slots[name] for name in pooling["by"])
    for number, work, count, *kinds in zip(slots["pool"], slots["work"], slots["count"], *attributes):
        place, shared, *by = pools[number][:-4]
        near = work == place or (shared and unit[work] == unit[place])
        need(near and by == kinds, "plan: a job is not of its pool")
        jobs[number] += count
    need(dict(enumerate(tables["pools"]["n"])) == jobs, "plan: n of a pool is not the number of its slots")
    return f"{len(pools):,} pools, {sum(slots['count']):,} jobs: they agree with the configuration"


# --- the certificate (docs/formats.md, Certificate)


def check_certificate(folder: Path, stated: Document, plan: Plan) -> str:
    """Compare every field of a certificate with what follows from its plan, or with its form."""
    software, secure, ratios = stated["software"], stated["randomness"]["secure"], list[Decimal]()
    commit, modified, version = software["commit"], software["modified"], '"[0-9][0-9A-Za-z.!+_-]{0,63}"'
    forms = {"version": version, "commit": 'null|"[0-9a-f]{7,64}"', "modified": "true|false|null"}
    forms["sbom_sha256"] = 'null|"[0-9a-f]{64}"'
    names = [name for name in sorted(software["dependencies"]) if re.fullmatch("[0-9A-Za-z._-]{1,64}", name)]
    because = {
        "the run was seeded: its randomness is not secret": not secure,
        "the commit of the program is unknown": commit is None,
        "the program differs from its commit": modified or (modified is None and commit is not None),
    }
    reasons = [words for words, true in because.items() if true]
    due = {
        "format": CERTIFICATE,
        "release": {name: plan.config["release"][name] for name in ("name", "state", "year", "job_type")},
        **guarantee(plan, stated, ratios),
        "plan_sha256": sha256(folder / "plan" / "plan.json"),
        "software": {
            **{name: like(form) for name, form in forms.items()},
            "dependencies": dict.fromkeys(names, like(version)),
        },
        "randomness": {
            "secure": like("true|false"),
            "source": "the operating system's generator" if secure else "a seed (tests only)",
            "derivation": "HKDF-SHA256 for each stage and batch, ChaCha20 key streams, rejection sampling",
        },
        **({"commitment": committed(stated["commitment"])} if "commitment" in stated else {}),
        "created": like(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"'),
        "for_release": not reasons,
        "not_for_release_because": reasons,
    }
    follow("certificate.json", stated, due, ratios)
    numbers = (
        f"epsilon {stated['run']['epsilon']}, delta {stated['run']['delta']}: all {len(ratios)} bounds are"
    )
    excess = f"the largest excess of one over its proof is {float(max(ratios) - 1):.1e} of it"
    return f"{numbers} proved again from the plan; {excess}"


def committed(stated: Any) -> Any:
    """Return the form of what a run committed to; runs of old versions, and plans, committed to nothing."""
    if stated is None:
        return None
    digest = "[0-9a-f]{64}"
    forms = {name: like(f'"{digest}"') for name in ("program", "input", "key")}
    paid = stated["debit"] is not None
    forms |= {"previous": like(f'null|"{digest}"' if paid else "null")}
    forms |= {"draw": like("[1-9][0-9]*" if paid else "null")}
    forms |= {name: like(f'null|"{digest}"') for name in ("witness", "debit")}
    return {**forms, "timestamp": like('null|"[A-Za-z0-9+/]+={0,2}"')}


def in_toto(kind: str, digests: dict[str, str], predicate: Document) -> bytes:
    """Return an in-toto statement as odsynth writes it."""
    subject = [{"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()]
    document: Document = {"_type": "https://in-toto.io/Statement/v1", "subject": subject}
    document |= {"predicateType": f"urn:odsynth:{kind}:1", "predicate": predicate}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def check_witness(folder: Path, stated: Document, key: Path | None) -> str:
    """Check the statements of witnesses: each signed by the key that it names, and about this release."""
    made, path, keys = stated.get("commitment") or {}, folder / WITNESS, list[str]()
    times = list[str]()
    required = made.get("witness")
    *lines, rest = (path.read_bytes() if path.is_file() else b"").decode().split("\n")
    need(not rest, f"{WITNESS} does not end in a line feed")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        if lines or key is not None or required:
            raise ImpossibleError("statements of witnesses need the Python library cryptography") from None
        return "NOT WITNESSED: no witness has repeated the run"
    actual = {name: sha256(folder / name) for name in sealed(folder)} if lines else {}
    changed = CORRECTED if "corrections.json" in actual else set[str]()

    def raw(file: Path) -> str:
        public, form = serialization.load_pem_public_key(file.read_bytes()), serialization.Encoding.Raw
        return public.public_bytes(form, serialization.PublicFormat.Raw).hex()

    need(bool(made) or not lines, f"{WITNESS} is about a commitment, and there is none")
    for line in lines:
        envelope = json.loads(line)
        payload, (signature,) = b64decode(envelope["payload"]), envelope["signatures"]
        document, kind = json.loads(payload), envelope["payloadType"]
        files = {subject["name"]: subject["digest"]["sha256"] for subject in document["subject"]}
        said = document["predicate"]
        signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(said["key"])).verify(
                b64decode(signature["sig"]), signed
            )
        except InvalidSignature:
            raise WrongError(f"{WITNESS}: a statement is not signed by the key that it names") from None
        form = payload == in_toto("witness", files, said) and kind == "application/vnd.in-toto+json"
        public_key = {"keytype": "ed25519", "keyval": {"public": said["key"]}, "scheme": "ed25519"}
        id = hashlib.sha256(json.dumps(public_key, separators=(",", ":")).encode()).hexdigest()
        signature = {"keyid": id, "sig": b64encode(b64decode(signature["sig"])).decode()}
        due_line = {"payload": b64encode(payload).decode(), "payloadType": kind, "signatures": [signature]}
        need(form and line == json.dumps(due_line), f"{WITNESS} is not written as odsynth does")
        of_witness = {"key": like('"[0-9a-f]{64}"'), "ledger": like("true|false"), "program": made["program"]}
        of_witness["time"] = like(r'"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"')
        due = {"commitment": commitment(stated), "debit": made["debit"], **of_witness}
        follow(f"{WITNESS}: a statement", said, due, [])
        other = sorted(n for n in {*files, *actual} - changed if files.get(n) != actual.get(n))
        need(not other, f"{WITNESS}: a witness made other files: {', '.join(other)}")
        keys.append(said["key"])
        times.append(said["time"])
    need(len({*keys}) == len(keys), f"{WITNESS}: a witness has signed twice")
    signer = folder / "signing-key.pub"
    need(not signer.is_file() or raw(signer) not in keys, f"{WITNESS}: the signer is no witness")
    for wanted in {required, key and raw(key)} - {None}:
        need(wanted in keys, "no statement by the witness who has to have repeated the run")
    if not keys:
        return "NOT WITNESSED: no witness has repeated the run"
    whose = "" if key else "; WHOSE that is, was not checked (give --witness)"
    who = ", ".join(f"{signed_by} at {time}" for signed_by, time in zip(keys, times))
    but = "but for words and names in corrections.json, and files that repeat them, " if changed else ""
    return f"the run was repeated, with the same files, {but}by the key {who}{whose}"


def commitment(stated: Document) -> str:
    """Return the SHA-256 of what a run committed to before it drew."""
    made = stated["commitment"]
    digests = {"plan": stated["plan_sha256"], **{name: made[name] for name in ("program", "input", "key")}}
    digests |= {"ledger": made["previous"]} if made["previous"] else {}
    predicate = {"created": stated["created"], "draw": made["draw"], "witness": made["witness"]}
    return hashlib.sha256(in_toto("commitment", digests, predicate)).hexdigest()


def check_said(folder: Path, stated: Document, repeated: bool) -> str:
    """Say what nothing in the folder shows, and who answers for it; a witness may have repeated the run."""
    drawn = "that the data were drawn by this plan, once, with fresh randomness"
    if repeated:
        drawn = "that the run key was random and chosen once"
    by = "by the signer" if (folder / "signing-key.pub").is_file() else "nobody has signed it"
    stamp = (stated.get("commitment") or {}).get("timestamp")
    stamp = "; the time-stamp was NOT CHECKED (odsynth verify --authority does)" if stamp else ""
    return f"{drawn}, and that the input was true: {by}{stamp}"


def of_records(epsilon: Decimal, delta: Decimal, c: int = 1) -> dict[str, Decimal]:
    """Return bounds of what is lost of c records (Lemma 14)."""
    if not delta or c == 1:
        return {"epsilon": c * epsilon, "delta": delta}
    if log(delta) + (c - 1) * epsilon > 1:  # the last term alone makes it 1
        return {"epsilon": c * epsilon, "delta": ONE}
    more = (exp(c * epsilon) - 1) / DOWN.subtract(DOWN.divide(ONE, exp(-epsilon)), ONE)
    return {"epsilon": c * epsilon, "delta": min(ONE, delta * more)}


def guarantee(plan: Plan, stated: Document, ratios: list[Decimal]) -> Document:
    """Return what a certificate must say of the guarantee of its plan; its classes are compared first."""
    document, runs, dirichlet = plan.document, plan.runs, plan.dirichlet
    epsilon_asked = ratio(document["epsilon"])
    # Classes or tables, and the run as a whole (Lemmas 8, 11, 13, 26, 33 and 40).
    classes = pool_classes(plan) if dirichlet else []
    noise = ratios_of(plan)
    if plan.gaussian:
        return gaussian_guarantee(plan, stated, noise, ratios)
    noises = [2 * log(up(1 / p)) for p in noise]
    sets = [(True,) * len(noises)] if plan.estimated or dirichlet else changed(plan)  # Lemma 43
    # What tables of workplaces leave of epsilon for a pool, and what both lose together (Lemma 44).
    of_work, pools = Fraction(sum(noises, ZERO) if dirichlet else 0), runs * plan.changed_pools
    epsilon_of_pool = (epsilon_asked - of_work) / plan.changed_pools

    def together(epsilon: Decimal | Fraction, delta: Decimal) -> tuple[Decimal, Decimal]:
        return up(of_work + pools * Fraction(epsilon)), min(ONE, pools * delta)

    rows = [*dirichlet_rows(plan, classes, epsilon_of_pool), *table_rows(plan, noise, noises, sets)]
    reached = follow("certificate.json: classes", stated["classes"], rows, ratios)
    losses: dict[str, Decimal] = {}
    for row in reached:
        for name in [name for name in row if "loss" in name]:
            before, loss = losses.get(name, ZERO), Decimal(row[name])
            losses[name] = before + loss if name == "noise_loss" else max(before, loss)
    pure = max(map(pure_loss, classes), default=ZERO)
    run: tuple[Decimal | Fraction, Decimal] = (pure, ZERO)  # of one pool
    record = run
    if dirichlet and (epsilon := max(row["epsilon"] for row in reached[: len(classes)])) <= pure:
        failures = [row["delta"] * (1 if plan.record else row["pools"]) for row in reached]
        delta = plan.most_pools * max(failures) if plan.record else sum(failures, ZERO)
        run = (epsilon, delta) if delta < 1 else run  # a delta of 1 says nothing

    # One record: at what was asked for, and at other points of the curve.
    epsilons = [epsilon_of_pool * Fraction(k, 4) for k in (2, 3, 4, 5, 6)]
    epsilons = [e for e in epsilons if together(e, ZERO)[0] < together(pure, ZERO)[0]]
    if epsilon_of_pool in epsilons:
        record = epsilon_of_pool, max(row["record_delta"] for row in reached)
    curve, points = stated["record_level"]["curve"], list[Document]()
    for e, point in zip(epsilons, curve):
        enough, bound = DOWN.divide(decimal(point["delta"]), pools), ZERO
        for c in classes:
            bound = max(bound, next((d for d in record_deltas(c, e, plan.protected) if d <= enough), ONE))
        bounds = (min(ONE, pools * bound), ONE)[: 1 + any(c.m > TERMS for c in classes)]
        points.append({"epsilon": rounded_up(of_work + pools * e), "delta": iter(bounds)})
    whole, record_cost = (together(run[0], ZERO)[0], min(ONE, runs * run[1])), together(*record)
    if not dirichlet:
        whole = record_cost = noise_loss(plan, noises, sets), ZERO
    points.append(of_records(together(pure, ZERO)[0] if dirichlet else whole[0], ZERO))
    presence = None
    if plan.protected:  # Lemmas 28, 29 and 44: noise costs half, and one pool is changed
        of_one_more = [(runs * sum(noises, ZERO) / 2, ZERO)] * 2
        if dirichlet:
            of_one_more = [
                (up(of_work / 2 + runs * Fraction(e)), min(ONE, runs * d)) for e, d in (run, record)
            ]
        presence = {
            "statement": worded("presence", N=rf"\b{plan.records}(?= [a-z])"),
            "run": of_records(*of_one_more[0]),
            "record_level": of_records(*of_one_more[1]),
            "user_level": of_records(*of_one_more[1], plan.records),
        }
    level = dict(zip(epsilons, curve)).get(epsilon_of_pool, of_records(*record_cost))
    numbers = {
        "run": of_records(*whole),
        "record_level": {**level, "curve": points, "rho": None},
        "user_level": of_records(*record_cost, plan.records),
        "presence": presence,
        "losses": losses,
    }
    return in_words(plan, stated, numbers, record_cost if document["guarantee"] == "dp" else whole)


def in_words(
    plan: Plan, stated: Document, bounds: Document, cost: tuple[Decimal | Fraction, Decimal]
) -> Document:
    """Return what a certificate must say, by the bounds of its plan, and what of them was asked for."""
    document, runs, kind = plan.document, plan.runs, plan.document["guarantee"]
    epsilon_asked, allowed = ratio(document["epsilon"]), ratio(document["delta"])
    fits = cost[0] <= up(runs * epsilon_asked) and cost[1] <= up(runs * allowed)
    need(fits, "the plan costs more than was requested")
    records, source = rf"\b{plan.records}(?= [a-z])", plan.config["release"]["implicate_source"]
    words = worded(source if plan.number > 1 else "one", N=rf"\b{plan.number}(?= [a-z])")
    user = "user_level of rho" if plan.gaussian and plan.records > 1 else "user_level"
    policy, letters = policy_of(plan)
    protects = "record" if plan.record else plan.protected
    case = policy and policy["kind"], document["mechanism"], protects, plan.population
    n, m, cuts = plan.tables["pools"]["n"], plan.tables["pools"]["m"], plan.cuts
    jobs = sum(plan.slots["count"])
    totals = (
        len(n),
        jobs,
        jobs if plan.estimated else sum(m) * runs // plan.number,
        len(cuts),
        sum(map(len, cuts)),
    )
    requested = {"epsilon": rounded_up(runs * epsilon_asked), "delta": rounded_up(runs * allowed)}
    return {
        "mechanism": document["mechanism"],
        "definition": worded("definition", *case, **letters),
        "requested": {**requested, "guarantee": kind, "words": worded(kind)},
        "run": bounds["run"],
        "record_level": bounds["record_level"],
        "user_level": bounds["user_level"] | {"records": plan.records, "statement": worded(user, N=records)},
        "protects": "record" if plan.record else "home",
        "presence": bounds["presence"],
        "population": plan.population,
        "policy": policy,
        "released_exactly": None if plan.protected else plan.exact,
        "losses": bounds["losses"],
        "implicates": {"number": plan.number, "source": source, "words": words},
        "tier": tier_of(plan),
        "totals": dict(zip(("pools", "records", "synthetic_workers", "domains", "cells"), totals)),
        "classes": stated["classes"],
        "arithmetic": worded("arithmetic"),
    }


def tier_of(plan: Plan) -> Document | None:
    """Return what a certificate must say of the tier that a release is of, if it is of one (Lemma 57)."""
    if not plan.tiers:
        return None
    epsilon = configured(plan.config["privacy"]["epsilon"])
    return {
        "name": next(name for name, of_tier in plan.tiers.items() if of_tier == epsilon),
        "epsilons": {name: rounded_up(of_tier) for name, of_tier in plan.tiers.items()},
        "coalition": {"epsilon": rounded_up(max(plan.tiers.values())), "delta": "0"},
        "words": worded("tier"),
    }


# --- discrete Gaussian noise (Lemmas 45, 48 and 50): rho is exact, and what it is as DP is rounded up


def gaussian_guarantee(
    plan: Plan, stated: Document, sigma_squared: list[Fraction], ratios: list[Decimal]
) -> Document:
    """Return what a certificate must say of a plan of discrete Gaussian noise; its classes come first."""
    document, runs, sets = plan.document, plan.runs, changed(plan)
    epsilon, delta = ratio(document["epsilon"]), ratio(document["delta"])
    neighbours = sum(plan.tables["pools"]["n"]) * len(plan.codes)
    of_table = [
        {**limits, **gaussian_run(rho, delta, neighbours), "record_delta": delta_of(rho, epsilon)}
        | {"sigma_squared": [str(number)], "rho": [str(rho)]}
        for limits, number, differ in zip(limits_of_tables(plan), sigma_squared, zip(*sets))
        for rho in [1 / number if any(differ) else Fraction(0)]
    ]
    follow("certificate.json: classes", stated["classes"], of_table, ratios)
    rho = max(sum((1 / x for x in itertools.compress(sigma_squared, one)), Fraction(0)) for one in sets)
    run = gaussian_run(rho, delta, neighbours)
    points = [
        {"epsilon": up(runs * e), "delta": min(ONE, runs * delta_of(rho, e))}
        for e in (epsilon * Fraction(k, 4) for k in (2, 3, 4, 5, 6))
    ]
    c = plan.records
    person = {
        "epsilon": up(c * runs * epsilon),
        "delta": points[2]["delta"] if c == 1 else delta_of(c * c * runs * rho, c * runs * epsilon),
    }
    bounds: Document = {
        # Delta of one run need not be a decimal; that of all of them is what was asked for.
        "run": {"epsilon": runs * run["epsilon"], "delta": min(ONE, up(runs * delta)) if rho else ZERO},
        "record_level": {**points[2], "curve": points, "rho": str(runs * rho)},
        "user_level": person,
        "presence": None,
        "losses": {},
    }
    cost = bounds["record_level" if document["guarantee"] == "dp" else "run"]
    return in_words(plan, stated, bounds, (cost["epsilon"], cost["delta"]))


def gaussian_run(rho: Fraction, delta: Fraction, neighbours: int) -> dict[str, Decimal]:
    """Return the pdp of a run at a delta, by how many neighbours an input has at most (Lemma 48)."""
    if not rho:
        return {"epsilon": ZERO, "delta": ZERO}
    need(delta > 0, "plan.json: discrete Gaussian noise has no guarantee with a delta of 0")
    rare = log(up(neighbours / delta))
    under = DOWN.sqrt(DOWN.multiply(down(rho), log_below(down(neighbours / delta))))
    least = DOWN.add(down(rho), DOWN.multiply(2, DOWN.next_minus(under)))
    epsilon = up(rho) + 2 * root(up(rho) * (rare + log(1 + exp(-least))))
    return {"epsilon": epsilon, "delta": up(delta)}


@functools.lru_cache(maxsize=4096)
def delta_of(rho: Fraction, epsilon: Fraction) -> Decimal:
    """Return a delta with which rho-zCDP is DP at an epsilon: Lemma 45, at about the best alpha."""
    if not rho:
        return ZERO
    slope, height = float(rho), float(epsilon)

    low, high = -40.0, 60.0  # logarithms of alpha - 1; with it log delta falls, and rises from the best on
    for _ in range(70):
        middle = (low + high) / 2
        rises = (1 + 2 * math.exp(middle)) * slope - height - math.log1p(math.exp(-middle))
        low, high = (low, middle) if rises > 0 else (middle, high)
    more = Decimal(f"{math.exp(low):.15g}")  # any above 0 will do
    kept = DOWN.add(down(epsilon), log_below(DOWN.add(ONE, DOWN.divide(ONE, more))))
    exponent = more * UP.subtract((1 + more) * up(rho), kept)
    delta = exp(UP.subtract(exponent, log_below(DOWN.add(ONE, more))))
    return min(ONE, max(delta, up(Fraction(1, 2**128))))  # no smaller one is stated


def policy_of(plan: Plan, language: str = "en") -> tuple[Document | None, dict[str, str]]:
    """Return what a certificate says of a policy (Lemmas 37, 39, 41).

    And letters for names in its words, in the language of a read-me, too.
    """
    blocks, parts, written = plan.tables["blocks"], len({*plan.parts}), LANGUAGES[language]
    if plan.near:
        kind, named, km, steps = "distance", "distance", plan.near.km, plan.near.steps
        places = zip(plan.codes, *(blocks[name] for name in DEGREES))
        lines = {km: [f"{block} {north!r} {east!r}" for block, north, east in places]}
        numbers = {"distance_km": km, "parts": parts, "most_steps": steps}
        names = {"D": in_marks(f"{km} km", language)}
        names |= {"S": written["steps"].format(steps), "P": written["parts"].format(parts)}
    elif plan.secret:
        kind, named, numbers = "attribute", "attribute", {"attributes": plan.secret}
        lines = {quote(name, safe=""): [name, *categories] for name, categories in plan.secret.items()}
        names = {"A": written["and"].join(f'"{name}"' for name in plan.secret)}
    elif plan.level:
        kind, named, numbers = "partition", "parts", {"partition": plan.level, "parts": parts}
        levels = plan.document["geography"]["levels"]
        above = levels[: levels.index(plan.level) + 1]
        pairs = {n: sorted(zip(plan.codes, blocks[n])) for n in above}
        lines = {n: [*map("\t".join, rows), *plan.zones] for n, rows in pairs.items()}
        names = {"L": f'"{plan.level}"'}
    else:
        return None, {}
    letters = {letter: re.escape(json.dumps(name)[1:-1]) for letter, name in names.items()}
    words = {name: worded("policy", name, **letters) for name in ("words", "symbols")}
    return {"kind": kind, "name": policy_name(named, lines), **numbers, **words}, letters


def policy_name(kind: str, lines: dict[str, list[str]]) -> str:
    """Return the name of a policy, by what the digest of each part of it is about."""
    digests = {name: hashlib.sha256("\n".join(part).encode()).hexdigest() for name, part in lines.items()}
    return f"{kind} {'/'.join(f'{name}:{digest[:16]}' for name, digest in digests.items())}"


def pool_classes(plan: Plan) -> list[PoolClass]:
    """Return the classes of Dirichlet resampling; every pool must be in its own (Lemmas 9 and 29)."""
    parameters = plan.document["parameters"]
    retention, rows = [*map(ratio, parameters["retention"])], parameters["classes"]
    classes = [PoolClass.of(row, retention, parameters["denominator"]) for row in rows]
    reached = dict.fromkeys(range(len(classes)), (0, 0))  # m is a multiple of n
    counts = [
        [strata.count(s) for s in range(len(retention))] for strata in plan.tables["domains"]["stratum"]
    ]
    fewest, most = plan.range
    for n, m, domain, number in zip(*(plan.tables["pools"][name] for name in ("n", "m", "domain", "class"))):
        need(0 <= number < len(classes), "plan: a pool is of a class that there is not")
        c, cells = classes[number], zip(rows[number]["cells_min"], counts[domain], rows[number]["cells"])
        inside = c.n_min <= max(1, math.floor(fewest * n)) and math.ceil(most * n) <= c.n_max and m <= c.m
        need(inside and all(a <= k <= b for a, k, b in cells), "plan: a pool is outside its class's limits")
        reached[number] = max(reached[number], (math.ceil(most * n), m))
    most_pools = plan.most_pools if plan.record else None
    need(parameters.get("most_pools") == most_pools, "plan.json: most_pools is not how many there can be")
    if plan.record:  # pools follow from noisy counts, so there is a class for each size up to the last
        starts = [1, *(c.m + 1 for c in classes)]
        fits = plan.largest_pool < starts[-1]
        for first, c, row in zip(starts, classes, rows):
            fits &= first <= c.m and c.n_min <= max(1, math.floor(fewest * first))
            fits &= math.ceil(most * c.m) <= c.n_max
            ranges = (zip(row["cells_min"], of_domain, row["cells"]) for of_domain in counts)
            fits &= all(a <= k <= b for cells in ranges for a, k, b in cells)
        need(fits, "plan: classes are not for pools of every size")
        return classes
    due = [(c.n_max, c.m) for c in classes]
    # Bounds of larger pools would be true, and take for ever.
    need([*reached.values()] == due, "plan: the limits of a class are not those of its pools")
    return classes


def dirichlet_rows(plan: Plan, classes: list[PoolClass], epsilon: Fraction) -> Iterator[Document]:
    """Yield what is true of each class of Dirichlet resampling, of which a pool has this epsilon."""
    parameters = plan.document["parameters"]
    of_pools = plan.tables["pools"]["class"]
    pools, of_m = Counter(of_pools), Counter(zip(of_pools, plan.tables["pools"]["m"]))
    for number, (c, row) in enumerate(zip(classes, parameters.get("classes", []))):
        alike = of_m[number, c.m] == pools[number] and c.n_min == c.n_max and row["cells"] == row["cells_min"]
        few = alike and not plan.protected and 2 <= sum(row["cells"]) <= 5 and c.m <= 400
        yield {
            "pools": pools[number],
            **{name: row[name] for name in ("n_min", "n_max", "m_max", "cells")},
            "epsilon": log(up(c.gain) * pruning(c)),
            "delta": in_turn(c, *(failure, few_cells)[: 1 + few]),
            "record_delta": record_deltas(c, epsilon, plan.protected),
            "prior": [str(Fraction(a, c.q)) for a in row["prior"]],
            "retention": parameters["retention"],
            "block_loss_U": log(up(c.gain)),
            "pruning_loss_V": is_pruning_loss(log(pruning(c))),
        }


def ratios_of(plan: Plan) -> list[Fraction]:
    """Return the ratio of the noise of each measured table: p, or sigma^2."""
    parameters, tables = plan.document["parameters"], plan.document["choices"]["tables"]
    of_homes = [] if plan.dirichlet else [parameters, *parameters.get("secondary", [])]
    every = *of_homes, *plan.workplaces
    numbers = [(table["numerator"], table["denominator"]) for table in every]
    fits = all(type(p) is int and p > 0 and type(q) is int and q > 0 for p, q in numbers)
    if plan.gaussian:  # a denominator of the sampler, 2 p q t^2, has a word, and sigma^2 limits
        scales = [1 + math.isqrt(p // q) for p, q in numbers] if fits else []
        fits = fits and all(q <= 128 * p and p <= 2**24 * q for p, q in numbers)
        fits = fits and all(2 * p * q * t * t <= 2**62 for (p, q), t in zip(numbers, scales))
    else:  # the sampler is made for sums of at most 2^62, and for steps of noise that end
        fits = fits and all(p + q <= 2**62 and 4000 * (q - p) >= q for p, q in numbers)
    need(fits, "plan.json: a ratio is none that noise is drawn with")
    due = 0 if plan.dirichlet else 1 + len(tables)
    need(len(of_homes) == due, "plan.json: parameters.secondary are not those of choices.tables")
    return [Fraction(p, q) for p, q in numbers]


def noise_loss(plan: Plan, noises: list[Decimal], sets: list[tuple[bool, ...]]) -> Decimal:
    """Return what neighbours lose in tables that they change together, or by one record more (Lemma 40)."""
    alone = sum(noises, ZERO) / 2 if plan.protected else ZERO
    return plan.runs * max(alone, *(sum(itertools.compress(noises, changed), ZERO) for changed in sets))


def measured(plan: Plan) -> list[dict[tuple[Any, ...], tuple[int, int]]]:
    """Return of each measured table the public size and the cells of each group, by how its row begins."""
    pools, slots, blocks = plan.tables["pools"], plan.tables["slots"], plan.tables["blocks"]
    sizes = enumerate(zip(pools["n"], (len(plan.cuts[domain]) for domain in pools["domain"])))
    tables: list[dict[tuple[Any, ...], tuple[int, int]]] = [{(pool,): size for pool, size in sizes}]
    for table in plan.document["choices"]["tables"]:
        area = dict(zip(plan.codes, blocks[table["work"]])) if table["work"] else {}
        cells = Counter(part for part, _ in {*zip(plan.parts, blocks[table["home"]])})
        kinds, jobs = (slots[name] for name in table["by"]), Counter[Any]()
        for work, *kind, part, count in zip(slots["work"], *kinds, plan.slot_parts, slots["count"]):
            jobs[(area.get(work, ""), *kind, part)] += count  # without a level of work, wherever they are
        tables.append({})
        for (*label, part), n in jobs.items():
            home = [plan.codes[part]] if len(cells) > 1 else []
            tables[-1][(*label, *home)] = n, cells[part]
    for table in plan.workplaces:
        areas = {*blocks[table["work"]]} if table["work"] else {""}
        kinds_of = math.prod(len(plan.attributes[name]) for name in table["by"])
        tables.append({(): (sum(slots["count"]), len(areas) * kinds_of)})
    return tables


def table_rows(
    plan: Plan, ratios: list[Fraction], noises: list[Decimal], sets: list[tuple[bool, ...]]
) -> Iterator[Document]:
    """Yield what is true of each measured table of geometric noise (Lemmas 20, 33 and 40)."""
    limits_of = limits_of_tables(plan)
    limits_of = limits_of[len(limits_of) - len(ratios) :]  # without homes, where these are resampled
    for limits, noise, ratio, changed in zip(limits_of, noises, ratios, zip(*sets)):
        loss = noise if any(changed) else ZERO
        bounds = {"epsilon": loss, "delta": ZERO, "record_delta": ZERO}
        yield {**limits, **bounds, "ratio": [str(ratio)], "noise_loss": loss}


def limits_of_tables(plan: Plan) -> list[Document]:
    """Return of each measured table how many groups it has, and of which sizes."""
    known = plan.dirichlet or {*plan.tables["pools"]["class"]} == {0}
    need(known, "plan: a pool is of a class that there is not")
    limits = []
    for i, table in enumerate(measured(plan)):
        n, size = zip(*table.values())
        most = max(n if i else plan.tables["pools"]["m"])
        sizes = {"n_min": min(n), "n_max": max(n), "m_max": most, "cells": [max(size)]}
        limits.append({"pools": len(n), **sizes})
    return limits


def changed(plan: Plan) -> list[tuple[bool, ...]]:
    """Return of edges from each block to the last one it reaches which tables they change (Lemma 40).

    Without a distance that is the last of its part.
    """
    blocks = plan.tables["blocks"]
    homes = [starts(blocks[table["home"]]) for table in plan.document["choices"]["tables"]]
    cuts = [sorted({*itertools.chain(*plan.cuts)}), *homes]
    begins = sorted({*plan.parts})
    last = [b - 1 for b in (*begins[1:], len(plan.codes))]
    ends = enumerate(plan.near.reach) if plan.near else zip(begins, last)
    return [*{tuple(bisect_right(cut, a) < bisect_right(cut, b) for cut in cuts) for a, b in ends}]


# --- noisy counts that noise hardly gives (Lemmas 42 and 51): what has a probability below 2^-64 is refused


def log_tail(p: Fraction, k: int, t: int) -> Decimal:
    """Bound the logarithm of how likely the noise of k cells adds up to t or more, or to -t or less."""
    r, a = float(p), t / k
    u = Fraction((a * (1 + r * r) + math.hypot(a * (1 - r * r), 2 * r)) / (2 * r * (1 + a)))
    u = u if p * u < 1 else (1 - Fraction(1, 2**30)) / p  # any between 1 and 1/p will do
    moment = 2 * log(up(1 - p)) + log(up(1 / (1 - p * u))) + log(up(1 / (1 - p / u)))
    return log(Decimal(2)) + k * moment + t * log(up(1 / u))


def waves(p: Fraction, gaussian: bool) -> list[Decimal]:
    """Bound E cos(j pi z/3) of the noise of a cell, for j = 1, 2, 3."""
    if not gaussian:
        return [up((1 - p) ** 2 / (1 + a * p + p * p)) for a in (-1, 1, 2)]
    terms, (low, high) = 45, (p * Fraction(x) for x in ("19.7392088021", "19.7392088022"))  # 2 pi^2 sigma^2
    rest = 2 * exp(up(-low * terms**2)) / DOWN.subtract(ONE, exp(up(-low * terms)))
    below = ONE
    for m in range(1, terms + 1):
        below = DOWN.add(below, DOWN.multiply(2, DOWN.next_minus(DOWN.exp(down(-high * m * m)))))
    sums = [
        sum((exp(up(-low * (m - Fraction(j, 6)) ** 2)) for m in range(-terms, terms + 1)), rest)
        for j in (1, 2, 3)
    ]
    return [above / below for above in sums]


def log_zeros(s: list[Decimal], sizes: Counter[int], zeros: int) -> Decimal:
    """Bound the logarithm of how likely so many of some groups, counted by their cells, have no noise."""
    b = {k: (1 + sum(w * UP.next_plus(x**k) for x, w in zip(s, (2, 2, 1)))) / 6 for k in sizes}

    def roughly(v: int) -> float:
        return sum(g * math.log1p(float(b[k]) * (v - 1)) for k, g in sizes.items()) - zeros * math.log(v)

    v = min((2**i for i in range(1, 65)), key=roughly)  # any above 1 will do
    return sum((g * log(1 + b[k] * (v - 1)) for k, g in sizes.items()), zeros * log(up(Fraction(1, v))))


def check_noise(folder: Path, plan: Plan) -> str:
    """Check the noisy counts of each table, whose groups have public sizes, against its noise."""
    rare, tables, cells = -64 * log(Decimal(2)), measured(plan), 0
    for run in [f"run-{i + 1}/" for i in range(plan.runs)] if plan.runs > 1 else [""]:
        for i, (table, p) in enumerate(zip(tables, ratios_of(plan))):
            name, due = f"measurements/{run}table-{i + 1}.parquet", dict(table)
            far = 65 * log(Decimal(2))
            limit = int(root(2 * up(p) * far) if plan.gaussian else far / -log(up(p)))
            sizes, largest, zeros = Counter[int](), Counter[int](), 0
            by = plan.document["choices"]["tables"][i - 1]["by"] if i else []
            home = ["home"] if i and len({*plan.parts}) > 1 else []
            columns = [*(["work", *by] if i else ["pool"]), *home, "noisy"]
            for *label, noisy in rows_of(folder / name, columns):
                n, k = due.pop((*label,), (0, 0))
                need(k > 0 and len(noisy) == k, f"{name}: the rows are not the groups that the plan measures")
                fits = all(type(y) is int and -limit <= y <= n + limit for y in noisy)
                need(fits, f"{name}: a noisy count has a probability below 2^-64 under the noise of the plan")
                r = abs(sum(noisy) - n)
                sizes[k], largest[k], zeros = sizes[k] + 1, max(largest[k], r), zeros + (r == 0)
            need(not due, f"{name}: the rows are not the groups that the plan measures")
            for k, r in largest.items():
                if plan.gaussian:
                    likely = Fraction(r * r) / (2 * k * p) <= Fraction(far)
                else:
                    likely = r * r * (1 - p) ** 2 <= 180 * k * p or log_tail(p, k, r) >= rare
                need(likely, f"{name}: the sum of a group has a probability below 2^-64 under its noise")
            likely = log_zeros(waves(p, plan.gaussian), sizes, zeros) >= rare
            need(likely, f"{name}: that {zeros:,} sums are exact has a probability below 2^-64 under noise")
            cells += sum(k * g for k, g in sizes.items())
    return f"none of {cells:,} noisy counts and their sums is rarer than 2^-64 under the noise of the plan"


# --- the folder (docs/formats.md, Folder)


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def no_fraction(text: str) -> None:
    """Refuse 1.0, 1e9 and NaN: numbers of these documents are whole, or texts."""
    raise WrongError(f"{text[:80]} is not a whole number")


def read_json(path: Path, in_order: bool = False) -> Any:
    """Read a document as odsynth writes it; a name that stands twice would not be written again."""
    need(path.stat().st_size <= LARGEST, f"{path.name} is larger than {LARGEST:,} bytes")
    text = path.read_bytes().decode()
    document = json.loads(text, parse_float=no_fraction, parse_constant=no_fraction)
    due = json.dumps(document, indent=1, ensure_ascii=False, sort_keys=in_order) + "\n"
    need(text == due, f"{path.name} is not written as odsynth does")
    return document


def sealed(folder: Path) -> list[str]:
    """Return the names of the files that SHA256SUMS covers."""
    names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted({*names} - {"SHA256SUMS", WITNESS, *SIGNATURES.values()})


def check_files(folder: Path) -> str:
    """Compare every file with SHA256SUMS and MANIFEST.json."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, path in sorted(paths.items()):
        holds = path.is_file() or (path.is_dir() and any(path.iterdir()))
        must(name, {"a link, not a file": not path.is_symlink(), "neither a file nor a full folder": holds})
    actual = {name: sha256(paths[name]) for name in sealed(folder)}
    due = [f"{value}  {name}\n" for name, value in actual.items()]
    sums = (folder / "SHA256SUMS").read_bytes().decode().splitlines(keepends=True)
    other = sorted({line[66:].strip() for line in {*sums} ^ {*due}})
    named = ", ".join(other) or "none, but it is written otherwise"
    need(sums == due, f"missing, changed or too many by SHA256SUMS: {named}")
    stated, described = read_json(folder / "certificate.json"), sorted(actual.keys() - {"MANIFEST.json"})
    files = [{"path": n, "bytes": paths[n].stat().st_size, "sha256": actual[n]} for n in described]
    same = {name: stated[name] for name in ("release", "plan_sha256", "created")}
    manifest = {"format": "odsynth manifest 1.0", **same, "files": files}
    follow("MANIFEST.json", read_json(folder / "MANIFEST.json"), manifest, [])
    return f"{len(actual)} files are those of SHA256SUMS and MANIFEST.json"


def check_signature(folder: Path, key: Path | None, certificate_only: bool) -> str:
    """Check the signatures by the key that was given, or by the one in the folder."""
    signed = {name: file for name, file in SIGNATURES.items() if name[0] == "c" or not certificate_only}
    missing = [name for name in ("signing-key.pub", *signed.values()) if not (folder / name).is_file()]
    if len(missing) > len(signed) and key is None:
        return "NOT SIGNED: nothing shows who made these data, nor that they were drawn as the plan says"
    need(not missing, f"not signed as was asked for: {', '.join(missing)} is missing")
    how = (
        "the signature needs the Python library cryptography, or openssl, once for each NAME that is signed: "
    )
    how += "openssl pkeyutl -verify -pubin -inkey KEY -rawin -in NAME -sigfile NAME.sig"
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        if key is not None:
            raise ImpossibleError(how) from None
        return f"NOT CHECKED: {how}"
    pem = (folder / "signing-key.pub").read_bytes()
    trusted = pem if key is None else key.read_bytes()
    need(trusted.split() == pem.split(), f"signing-key.pub is not the key {key}: somebody else signed")
    public, form = serialization.load_pem_public_key(pem), serialization.PublicFormat.SubjectPublicKeyInfo
    again = public.public_bytes(serialization.Encoding.PEM, form)
    if not isinstance(public, Ed25519PublicKey) or pem != again:
        raise WrongError("signing-key.pub is not an Ed25519 key in PEM, or more than one")
    for name, signature in signed.items():
        try:
            public.verify((folder / signature).read_bytes(), (folder / name).read_bytes())
        except InvalidSignature:
            raise WrongError(f"{signature} is not a signature of {name} by signing-key.pub") from None
    whose = "given" if key else "in the folder; WHOSE that is, was not checked (give --key)"
    return f"signed by the key {whose}"


def parquet(path: Path, columns: list[str] | None = None) -> Any:
    """Open a Parquet file, which must have these columns and carry nothing but rows."""
    file, name = pq.ParquetFile(path), path.name
    schema, groups = file.schema_arrow, range(file.metadata.num_row_groups)
    size = max(8 * file.metadata.num_rows, sum(file.metadata.row_group(i).total_byte_size for i in groups))
    need(size <= 2**26 + 200 * path.stat().st_size, f"{name}: more comes out of it than a release holds")
    noted = schema.metadata or any(f.metadata or not f.nullable for f in schema)
    need(not noted, f"{name} carries notes beside its rows")
    need(schema.names == (columns or [*dict.fromkeys(schema.names)]), f"{name} has other columns")
    need(all(f.name in DEGREES for f in schema if pa.types.is_floating(f.type)), f"{name} has fractions")
    return file


def read_release(folder: Path) -> tuple[Document, Plan]:
    """Read a certificate and its plan."""
    document = read_json(folder / "plan" / "plan.json", in_order=True)
    stated = read_json(folder / "certificate.json")
    for name, content, due in (("certificate.json", stated, CERTIFICATE), ("plan.json", document, PLAN)):
        other = f"{name}: its format is {str(content['format'])[:40]}, and this program reads {due}"
        need(content["format"] == due, f"{other}. Fix: use the verify.py of the version that wrote it")
    release, jobs = document["configuration"]["release"], document["configuration"]["jobs"]
    numbers = {99: release["implicates"], 2**31 - 1: records_of(jobs)}
    for most, number in numbers.items():
        need(type(number) is int and 1 <= number <= most, f"plan.json: {number} is not from 1 to {most:,}")
    history = document["configuration"]["history"]
    names = TABLES if history is None or history["first"] == release["year"] else (*TABLES, "history")
    tables = {name: parquet(folder / "plan" / f"{name}.parquet").read().to_pydict() for name in names}
    if not document["choices"]["workplaces"]:
        return stated, Plan(document, tables)
    columns = ["work", *document["attributes"], "count"]
    groups = [] if document["mechanism"] == "dirichlet" else ["groups"]
    for name in (*groups, "slots"):  # by the former homes were grouped, the latter are released
        slots = parquet(folder / "measurements" / f"{name}.parquet", columns).read().to_pydict()
        counts, kinds = slots["count"], [*zip(*(slots[name] for name in columns[:-1]))]
        good = min(counts, default=0) > 0 and len({*kinds}) == len(kinds)
        need(good, f"{name}.parquet: a row is of no job, or twice")
        plan = Plan(document, tables, slots)
        good = {*plan.codes} - plan.without_work >= {*slots["work"]}
        good &= all({*slots[name]} <= {*codes} for name, codes in plan.attributes.items())
        need(good, f"{name}.parquet: a job is where nobody can work, or of no category of the plan")
        good = plan.record or jobs_by(slots, plan.public) == jobs_by(tables["slots"], plan.public)
        need(good, f"{name}.parquet: jobs by what is public are not those of the plan")
    return stated, plan


def jobs_by(slots: dict[str, list[Any]], names: list[str]) -> Counter[tuple[Any, ...]]:
    """Count jobs by work block and some attributes."""
    jobs = Counter[tuple[Any, ...]]()
    for count, *kind in zip(slots["count"], slots["work"], *(slots[name] for name in names)):
        jobs[(*kind,)] += count
    return jobs


# --- data (docs/formats.md, Data)


def check_names(folder: Path, plan: Plan) -> str:
    """Check that there are the files of such a release and no others."""
    due = {"README.md", "certificate.json", "certificate.schema.json", "MANIFEST.json", "SHA256SUMS"}
    due |= {"verify.py", "attackers.md", "details.md", "datapackage.json", "croissant.json"}
    due |= {"dcat-ap.jsonld", "intervals.parquet"}
    due |= {"plan/plan.json", *(f"plan/{name}.parquet" for name in plan.tables)}
    geography = plan.config["geography"]
    shapes = [*geography["polygons"], *([] if geography["latitude"] else [{"level": geography["block"]}])]
    due |= {f"geo/{shape['level']}.parquet" for shape in shapes}
    for kind, name in itertools.chain(*(files.items() for files in plan.files)):
        with_csv = plan.config["release"]["csv"] and kind != "jobs"
        due |= {f"{name}.parquet", *([f"{name}.csv.gz"] if with_csv else [])}
    if plan.estimated:
        numbers = range(1, len(plan.workplaces) + 1)
        due |= {"measurements/slots.parquet", *([] if plan.dirichlet else ["measurements/groups.parquet"])}
        due |= {f"measurements/workplaces-{k}.parquet" for k in numbers}
    if not plan.dirichlet:
        tables = range(len(plan.document["choices"]["tables"]) + 1)
        below = [f"run-{i + 1}/" for i in range(plan.runs)] if plan.runs > 1 else [""]
        due |= {f"measurements/{run}table-{k + 1}.parquet" for run in below for k in tables}
    whole = {f"{name}.parquet" for files in plan.files for name in files.values()}
    in_parts = {name for name in whole if (folder / name).is_dir()}
    alike = in_parts == (set() if plan.config["release"]["csv"] else whole)
    need(alike, "without CSV every table is a folder of parts, and else none is")
    for name in in_parts:
        due ^= {name, *(f"{name}/part-{i:06}.parquet" for i, _ in enumerate((folder / name).iterdir()))}
    optional = {"names.parquet", "accuracy.json", "dcat-us.json", "signing-key.pub", *SIGNATURES.values()}
    optional |= {"corrections.json", WITNESS}
    if plan.config["release"]["csv"]:
        due |= {"areas.csv", "flows.csv"}
        due |= {f"{name}.csv" for name, path in AS_CSV.items() if (folder / path).is_file()}
    present = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    other = sorted((present ^ due) - optional)
    need(not other, f"a release of this kind has other files: {', '.join(other)}")
    due_schema = SCHEMA if "commitment" in read_json(folder / "certificate.json") else SCHEMA_BEFORE
    same = sha256(folder / "certificate.schema.json") == due_schema
    need(same, "certificate.schema.json is not that of its format")
    return "the files are those of such a release"


def rows_of(path: Path, columns: list[str], csv: bool = False) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a data file, which must have these columns, and the CSV file the same rows."""
    files = (parquet(part, columns) for part in (sorted(path.iterdir()) if path.is_dir() else [path]))
    batches = (batch.to_pydict() for file in files for batch in file.iter_batches())
    rows = (row for batch in batches for row in zip(*batch.values()))
    if not csv:
        yield from rows
        return
    with gzip.open(path.with_suffix(".csv.gz"), "rt", encoding="utf-8", newline="") as lines:
        for i, row in enumerate(itertools.chain([(*columns,)], rows)):
            line = ",".join(map(str, row)) + "\n"  # what is there is read no further
            need(lines.read(len(line)) == line, f"{path.name} and the CSV file hold different rows")
            yield from [row] if i else []
        need(not lines.read(1), f"{path.name} and the CSV file hold different rows")


def check_csv(folder: Path) -> str:
    """Compare tables that are there as CSV with those in Parquet."""
    present = [name for name in AS_CSV if (folder / f"{name}.csv").is_file()]
    for name in present:
        table = parquet(folder / AS_CSV[name])
        batches = (batch.to_pydict() for batch in table.iter_batches())
        due = (row for batch in batches for row in zip(*batch.values()))
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            for row, values in itertools.zip_longest(
                csv.reader(lines), itertools.chain([table.schema_arrow.names], due), fillvalue=()
            ):
                texts = ["" if value is None or value != value else str(value) for value in values]
                need([*row] == texts, f"{name}.csv and {AS_CSV[name]} hold different rows")
    return f"tables with the rows of Parquet: {', '.join(present) or 'none'}"


def check_intervals(folder: Path, plan: Plan) -> tuple[str, Any]:
    """Check the form of the draws of tables, and that each has all jobs of the release.

    Returns what was found, and the rows of the first table: of flows.
    """
    draws = [f"draw_{i + 1}" for i in range(DRAWS)]
    table = parquet(folder / "intervals.parquet", ["table", "home", "work", *plan.attributes, *draws])
    told = [plan.document["pooling"]["by"], *(t["by"] for t in plan.document["choices"]["tables"])]
    jobs: dict[str, list[int]] = {}
    found = [(name, kind) for kind in ("sum", "min") for name in draws]
    found += [(name, "count") for name in plan.attributes]
    first, flows = "", [table.schema_arrow.empty_table()]
    for batch in table.iter_batches():
        rows = pa.Table.from_batches([batch])
        names = rows["table"].to_pylist()
        first = first or next(iter(names), "")
        flows.append(rows.filter(pa.array([name == first for name in names], pa.bool_())))
        for part in rows.group_by("table").aggregate(found).to_pylist():
            need(min(part[f"{d}_min"] for d in draws) >= 0, "intervals.parquet has fewer jobs than none")
            by = {name for name in plan.attributes if part[f"{name}_count"]}
            rule = "tells homes apart by these attributes, so that their intervals are too short"
            known = any(by <= {*names} for names in told)
            need(known, f"intervals.parquet: {part['table']}: no pool and no measured table {rule}")
            before = jobs.get(part["table"], [0] * DRAWS)
            jobs[part["table"]] = [n + part[f"{d}_sum"] for n, d in zip(before, draws)]
    if not (plan.protected or plan.estimated):
        total = sum(plan.slots["count"])
        exact = all(n == total for sums in jobs.values() for n in sums)
        need(exact, "intervals.parquet: a draw has not all jobs of the plan")
    return f"{DRAWS} draws of {len(jobs)} tables", pa.concat_tables(flows)


def check_sums(folder: Path, plan: Plan, flows: Any) -> str:
    """Compare areas.csv and flows.csv with the sums of the draws of flows, by their level and those above."""
    if not plan.config["release"]["csv"]:
        return "no tables of areas and flows as CSV"
    draws, blocks = [f"draw_{i + 1}" for i in range(DRAWS)], plan.tables["blocks"]
    geography = plan.document["geography"]
    levels = [*geography["levels"], geography["block"]]
    level = flows["table"][0].as_py().partition(" to ")[0] if len(flows) else ""
    due: dict[tuple[str, ...], list[str]] = {}
    for above in levels[: levels.index(level) + 1] if level else []:
        unit = dict(zip(blocks[level], blocks[above]))
        ends = {side: [unit[code] for code in flows[side].to_pylist()] for side in ("home", "work")}
        part = pa.table({**ends, **{name: flows[name] for name in draws}})
        for sides, count in ((["home"], ["residents"]), (["work"], ["jobs"]), (["home", "work"], [])):
            for row in part.group_by(sides).aggregate([(name, "sum") for name in draws]).to_pylist():
                sums = [row[f"{name}_sum"] for name in draws]
                estimate = float(round(Fraction(sum(sums), DRAWS), 1))
                key = (above, *(row[side] for side in sides), *count)
                due[key] = [str(estimate), str(min(sums)), str(max(sums))]
    rows = len(due)
    columns = {"areas.csv": ("code", "count"), "flows.csv": ("home", "work")}
    for name, keys in columns.items():
        with (folder / name).open(encoding="utf-8", newline="") as lines:
            for line in csv.DictReader(lines):
                numbers = [line[column] for column in ("estimate", "low", "high")]
                stated = due.pop((line["level"], *(line[column] for column in keys)), None)
                need(stated == numbers, f"{name}: it is not what intervals.parquet gives")
    need(not due, "areas.csv and flows.csv lack rows that intervals.parquet gives")
    return f"{rows:,} rows of areas.csv and flows.csv follow from intervals.parquet"


def check_data(folder: Path, plan: Plan, stated: Document) -> str:
    """Compare the data files with the plan's slots: totals of every work block by every attribute."""
    attributes, slots, parts, pairs = plan.document["attributes"], plan.slots, plan.parts, 0
    order, day = {code: i for i, code in enumerate(plan.codes)}, stated["created"][:10].replace("-", "")
    # Columns of counts: of all jobs, and of each category of each attribute.
    lodes = {f"S{kind}": [f"S{kind}0{k}" for k in (1, 2, 3)] for kind in "AEI"}
    kinds = [(name, category) for name, categories in attributes.items() for category in categories]
    column = {
        kind: kind[1] if lodes.get(kind[0]) == attributes[kind[0]] else "_".join(kind) for kind in kinds
    }
    columns = ["w_geocode", "h_geocode", "S000", *column.values(), "createdate"]
    need(len({*columns}) == len(kinds) + 4, "plan: two columns of counts would have one name")
    ends = [*itertools.accumulate(map(len, attributes.values()), initial=1)]
    part = plan.parts[:1] * len(slots["work"]) if plan.estimated else plan.slot_parts
    jobs = [*zip(part, slots["work"], *(slots[name] for name in plan.attributes), slots["count"])]
    public: Counter[tuple[str, int, str]] = Counter()
    for part, work, *codes, count in jobs:
        for counted in ("S000", *(column[kind] for kind in zip(plan.attributes, codes))):
            public[work, part, counted] += count

    for files in plan.files:
        totals: Counter[tuple[str, int, str]] = Counter()
        commutes: Counter[tuple[str, str, str]] = Counter()
        for kind in [kind for kind in files if kind != "jobs"]:
            name, before = f"{files[kind]}.parquet", (-1, -1)
            for work, home, *n, created in rows_of(folder / name, columns, plan.config["release"]["csv"]):
                pair = order.get(work, -1), order.get(home, -1)
                whole = all(sum(n[a:b]) == n[0] for a, b in zip(ends, ends[1:]))
                checks = {
                    "has blocks that are not in the geography": min(pair) >= 0,
                    "has homes that belong in the other file": (home in plan.external) == (kind == "od_aux"),
                    "has homes where nobody can live": home not in plan.uninhabited,
                    "has jobs where nobody can work": work not in plan.without_work,
                    "is not in order, or has a pair twice": pair > before,
                    "has counts that no jobs can have": whole and n[0] >= 1 and min(n) >= 0,
                    "was not created when certificate.json was": created == day,
                }
                must(name, checks)
                pairs, before = pairs + 1, pair
                for counted, count in zip(columns[2:], n):
                    if count:
                        totals[work, parts[pair[1]], counted] += count
                    if count and "jobs" in files:
                        commutes[work, home, counted] += count
        need(totals == public, f"{name}: totals, by work block and part of homes, are not the plan's slots")
        if "jobs" in files:
            name = f"{files['jobs']}.parquet"
            due = (slot for *slot, count in jobs for _ in range(count))
            found = Counter[tuple[Any, ...]]()  # their order is that of pools, which the plan has not
            for row, slot in itertools.zip_longest(rows_of(folder / name, [*columns[:2], *attributes]), due):
                work, home, *of_job = row or ("", "")
                place = [parts[order.get(home, 0)], work, *of_job]
                found.update([(*place,)] if plan.estimated else [])
                alike = row is not None and slot is not None and (plan.estimated or place == slot)
                need(alike, f"{name}: the jobs are not the plan's slots")
                for counted in ("S000", *(column[kind] for kind in zip(attributes, of_job))):
                    commutes[work, home, counted] -= 1
            same = not plan.estimated or found == Counter({(*slot,): count for *slot, count in jobs})
            need(same, f"{name}: the jobs are not those of measurements/slots.parquet")
            need(not any(commutes.values()), f"{name} and the OD files hold different commutes")
    blocks, counts = len({work for work, _, _ in public}), len(column) + 1
    return f"{pairs:,} pairs; the totals of {blocks:,} work blocks by {counts} counts are those of the slots"


def corrected(folder: Path) -> Document:
    """Return the keys of [release] that hold instead of the plan's: words on which nothing else depends."""
    path = folder / "corrections.json"
    if not path.is_file():
        return {}
    document = read_json(path)
    due = {"format": "odsynth corrections 1.0", "release": like(".*"), "attribute": like(".*")}
    follow(path.name, document, {**due, "corrections": like(".*")}, [])
    of_release = {*document["release"]} - {"name", "licence", "publisher", "contact", "citation"}
    of_attribute = {*itertools.chain(*document["attribute"].values())} - {"meaning", "unit", "labels"}
    need(not of_release | of_attribute, f"{path.name} corrects what data or promises depend on")
    return document["release"]


def check_texts(folder: Path, stated: Document, plan: Plan) -> str:
    """Compare the read-me, in the language of the release, with the certificate."""
    title, year = corrected(folder).get("name", stated["release"]["name"]), str(stated["release"]["year"])
    title = title if year in title else f"{title}, {year}"  # which the names of a series need not have
    text = (folder / "README.md").read_text(encoding="utf-8")
    written, run, user = LANGUAGES[plan.language], stated["run"], stated["user_level"]
    workers = f"{stated['totals']['synthetic_workers']:,}"
    for sentence in (
        f"# {title}\n",
        written["workers"].format(in_marks(workers, plan.language)),
        *(
            written[name].format(*(in_marks(bounds[bound], plan.language) for bound in ("epsilon", "delta")))
            for name, bounds in (("run", run), ("user", user))
        ),
        written["fit" if stated["for_release"] else "unfit"],
    ):
        need(sentence in text, f"README.md does not say what certificate.json gives: {sentence.strip()}")
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    policy, letters = policy_of(plan, plan.language)
    cases = {"population": plan.population and plan.protected, "policy": policy and policy["kind"]}
    for what, case in cases.items():
        known = worded("README.md", plan.language, what, case, **letters)
        said = case is None or any(map(known, paragraphs))
        need(said, f"README.md leaves out what certificate.json says of its {what}")
    return "README.md has the numbers of the certificate, its population and its policy"


def in_marks(number: str, language: str) -> str:
    """Return a number with the marks of a language."""
    return number.translate(str.maketrans(LANGUAGES[language]["marks"]))


NOT_CHECKED = [
    "that homes and workplaces were estimated from the noisy counts in measurements/, where there are some",
    "the other words of README.md, details.md, attackers.md, the numbers of accuracy.json, the shapes and"
    " names for maps, and the records for machines (datapackage.json, croissant.json, dcat-ap.jsonld,"
    " dcat-us.json)",
    "how draws in intervals.parquet were made",
    "what corrections.json says, where there is one, beyond the title in README.md",
    "values that plan.json quotes beyond epsilon, delta, geography, cells, pooling and the jobs' attributes",
    "whether a file carries more than its rows in how they are encoded, or an implicate is a copy of another",
]


def verify(
    folder: Path, key: Path | None = None, only: bool = False, witness: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the name of each check and what it found; the first that fails raises `WrongError`."""
    if not folder.is_dir() or any(file and not file.is_file() for file in (key, witness)):
        raise ImpossibleError(f"{folder} is not a folder, or {key} or {witness} is not a file")
    if not only:
        yield "files", check_files(folder)
    yield "signature", check_signature(folder, key, only)
    stated, plan = read_release(folder)
    yield "plan", check_plan(folder, plan)
    with localcontext(UP):
        proved = check_certificate(folder, stated, plan)
    yield "certificate", f"{stated['format']}, all fields follow from the plan or have their form"
    yield "guarantee", proved
    if not only:
        yield "names", check_names(folder, plan)
        yield "CSV", check_csv(folder)
        # Where records need not be those of the slots, nothing tells what counts add up to.
        if not (plan.dirichlet or plan.protected or plan.estimated):
            with localcontext(UP):
                yield "noise", check_noise(folder, plan)
        yield "data", check_data(folder, plan, stated)
        drawn, flows = check_intervals(folder, plan)
        yield "intervals", drawn
        yield "sums", check_sums(folder, plan, flows)
        yield "texts", check_texts(folder, stated, plan)
        yield "proved", "that a draw by this plan costs at most what the certificate states"
        witnessed = check_witness(folder, stated, witness)
        yield "witnessed", witnessed
        yield "said", check_said(folder, stated, not witnessed.startswith("NOT "))
    need(stated["for_release"], "not for release: " + "; ".join(stated["not_for_release_because"]))
    yield "for release", "yes"


def main(arguments: list[str] | None = None) -> int:
    """Print what was checked and what was not, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("folder", type=Path, help="public folder of a release")
    parser.add_argument("--key", type=Path, help="public key file of the signer, from elsewhere")
    parser.add_argument("--witness", type=Path, help="public key file of the witness, from elsewhere")
    parser.add_argument("--certificate-only", action="store_true", help="the plan too, but not the data")
    options = parser.parse_args(arguments)
    try:
        for name, detail in verify(options.folder, options.key, options.certificate_only, options.witness):
            print(f"{'note' if detail.startswith('NOT ') else 'ok':8}{name}: {detail}", flush=True)
    except ImpossibleError as error:
        print(f"NOT CHECKED  {error}")
        return 2
    except Exception as error:
        unread = f"cannot be read as a release: {type(error).__name__}: "
        print(f"FAILED  {'' if isinstance(error, WrongError) else unread}{error}")
        return 1
    skipped = (
        ["checksums, data, read-me and witnesses (--certificate-only)"] if options.certificate_only else []
    )
    print("\nNot checked here (odsynth verify does more):")
    print("\n".join(f"  - {line}" for line in skipped + NOT_CHECKED))
    return 0


if __name__ == "__main__":
    sys.exit(main())
