"""The pruning loss V: what may change because an empty cell is in the urn only by its coin.

Summed over the coins of the empty cells that were not drawn, the likelihood of an output has the factor D =
E[1 / rising(W, m)], W the weight of the urn; V is the largest |ln D(h)/D(h')| of any neighbours and output.
With 1/rising(W, m) = (1/(m-1)!) * integral of x^(W-1) (1-x)^(m-1) over [0, 1],

    e^V = max over cells i != j, f_j < 1, of  f_j + (1 - f_j) / E[x^a_j],

x distributed on [0, 1] with density proportional to x^(B-1) (1-x)^(m-1) prod_c (1 - f_c + f_c x^a_c), where
B = n + a_i + the prior mass of the other cells with retention 1, and c runs over the cells that are neither i
nor j and have retention below 1. In u = ln(x / (1 - x)) the density is analytic and falls exponentially on
both sides: its values at equal distances, added up, are its integral up to an error that is exponentially
small and has a bound (Lemma 25 of docs/privacy.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from synth.dirichlet.losses import PoolClass
from synth.tails import BALL, FLOAT, Arithmetic, rational

_PI = Fraction(157, 50)  # below pi
_STRIP = 1.2  # at most so far from the real line the density is looked at; below sqrt(2)
_ERROR = 21.0  # the relative error of a sum is about e^-21 ...
_CUT = 28.0  # ... and it is cut where the density is e^-28 of what it was
_STEPS = 64  # of w towards an outermost maximum
_AWAY = np.append(0.0, np.sqrt(2.0) ** np.arange(64))  # steps from there at which a cut is tried

_Given = Any  # of flint, whose sums are quick, or, in a search, a float
_Strata = tuple[tuple[_Given, _Given, int, int], ...]  # prior, retention, most and fewest cells
_Coins = tuple[tuple[_Given, _Given], ...]  # prior and retention of the strata with retention below 1
_Vector = NDArray[Any]  # of floats or of balls


_NUMBERS: dict[Arithmetic, Callable[[float | Fraction], _Given]] = {FLOAT: float, BALL: rational}
_VECTORS: dict[Arithmetic, tuple[Callable[..., Any], Callable[..., Any]]] = {
    FLOAT: (np.exp, np.log),
    BALL: (np.frompyfunc(BALL.exp, 1, 1), np.frompyfunc(BALL.log, 1, 1)),
}


def pruning_gain(pool_class: PoolClass, arithmetic: Arithmetic) -> Any:
    """Return e^V, V the largest pruning loss of any pool of the class.

    Lemma 2 of docs/privacy.md.

    Returns
    -------
    float or flint.arb
        1 where every retention is 1; infinite where a float cannot hold it. With `BALL`, the upper end is at
        least e^V of every pool of the class, and no more than a part in 10^8 above the e^V of a pool with
        the fewest workers, the fewest cells and the most draws.

    Raises
    ------
    ArithmeticError
        If it cannot be proved where the sums may be cut.
    """
    if not pool_class.m_max or pool_class.keeps_all:
        return arithmetic.number(1)
    strata = _strata(pool_class, arithmetic)
    return _largest_gain(pool_class.n_min, pool_class.m_max, strata, arithmetic, flint.ctx.prec)


def quick_pruning_gain(pool_class: PoolClass, arithmetic: Arithmetic) -> Any:
    """Bound `pruning_gain` by no sums: as if no other cell had a coin.

    Lemma 25 of docs/privacy.md.

    Returns
    -------
    float or flint.arb
        Not below it; where pools have dozens of workers, by less than a part in a thousand above it.
    """
    number, lgamma, m = arithmetic.number, arithmetic.lgamma, pool_class.m_max
    strata = _strata(pool_class, arithmetic)
    coins, worst = [(a, f) for a, f, _, _ in strata if f < 1], number(1)
    for pair in _worst_pairs(pool_class.n_min, strata):
        (a, f), base = coins[pair.coin], pair.base
        before, after = lgamma(number(base)) - lgamma(number(base + a)), lgamma(number(base + m))
        ratio = arithmetic.exp(before + lgamma(number(base + a + m)) - after)
        worst = arithmetic.larger(worst, number(f) + number(1 - f) * ratio)
    return worst


def _strata(pool_class: PoolClass, arithmetic: Arithmetic) -> _Strata:
    quick, q = arithmetic is FLOAT, pool_class.denominator
    return tuple(
        (a / q if quick else flint.fmpq(a, q), _NUMBERS[arithmetic](f), most, fewest)
        for a, f, most, fewest in zip(
            pool_class.prior, pool_class.retention, pool_class.cells, pool_class.cells_min, strict=True
        )
        if most
    )


@lru_cache(maxsize=2048)  # asked for every epsilon of a person's curve, and then of attackers
def _largest_gain(n: int, m: int, strata: _Strata, arithmetic: Arithmetic, _precision: int) -> Any:
    number, worst = arithmetic.number, arithmetic.number(1)
    coins = tuple((a, f) for a, f, _, _ in strata if f < 1)
    pairs = _worst_pairs(n, strata)
    for pair, ratio in zip(pairs, moment_ratios(m, coins, pairs, arithmetic), strict=True):
        f = coins[pair.coin][1]
        worst = arithmetic.larger(worst, number(f) + number(1 - f) * ratio)
    return worst


@dataclass(frozen=True)
class _Pair:
    """What the density depends on for one i and j.

    Attributes
    ----------
    base : Fraction or float
        B.
    others : tuple of int
        Cells that are neither i nor j, for each stratum with retention below 1.
    coin : int
        The stratum of j among those.
    """

    base: _Given
    others: tuple[int, ...]
    coin: int = 0


def _worst_pairs(n: int, strata: _Strata) -> list[_Pair]:
    """Return those that may be worst, each in the smallest pool of the class that has i and j."""
    sure = [s for s, (_, f, _, fewest) in enumerate(strata) if f == 1 and fewest]
    coins = [s for s, (_, f, _, _) in enumerate(strata) if f < 1]
    pairs = []
    for j in coins:
        for i in sure[:1] or range(len(strata)):  # no i is worse than one that is in every urn of every pool
            if i == j and strata[j][2] == 1:
                continue
            others = [max(fewest - (s == i) - (s == j), 0) for s, (_, _, _, fewest) in enumerate(strata)]
            certain = sum(a * k for (a, f, _, _), k in zip(strata, others, strict=True) if f == 1)
            pairs.append(_Pair(n + strata[i][0] + certain, tuple(others[s] for s in coins), coins.index(j)))
    return pairs


def moment_ratios(m: int, coins: _Coins, pairs: list[_Pair], arithmetic: Arithmetic) -> list[Any]:
    """Return an upper bound of 1 / E[x^a_j] for each pair.

    Lemma 25 of docs/privacy.md.
    """
    if not pairs:
        return []
    number = arithmetic.number
    fewest, most = _extreme(pairs, min), _extreme(pairs, max)
    step, error = _step(m, _whole(most, coins) + max(a for a, _ in coins), arithmetic)
    first, last = _cuts(m, coins, pairs, fewest, most, step)
    exact = _NUMBERS[arithmetic](step)
    before, after = _tails(m, coins, fewest, most, exact, (first, last), arithmetic)
    points = number(exact) * np.arange(first, last + 1)
    densities, powers = _log_densities(points, m, coins, pairs, arithmetic)
    ratios = []
    for pair, logs in zip(pairs, densities, strict=True):
        density, scale = _scaled(logs, arithmetic)
        with_power, power_scale = _scaled(logs + powers[pair.coin], arithmetic)
        total = density.sum() + before * density[0] + after * density[-1]
        ratio = total / with_power.sum() * arithmetic.exp(number(scale - power_scale))
        ratios.append(ratio * (1 + error) / (1 - error))
    return ratios


def _scaled(logs: _Vector, arithmetic: Arithmetic) -> tuple[_Vector, _Given]:
    """Return exponentials of which the largest is about 1, and the logarithm of what they were divided by."""
    largest = float(logs.max()) if arithmetic is FLOAT else max(map(float, logs))
    scale = _NUMBERS[arithmetic](largest)
    return _VECTORS[arithmetic][0](logs - arithmetic.number(scale)), scale


def _extreme(pairs: list[_Pair], extreme: Callable[[Iterable[Any]], Any]) -> _Pair:
    """Return the smallest, or largest, base and numbers of cells of any pair."""
    others = zip(*(pair.others for pair in pairs), strict=True)
    return _Pair(extreme(pair.base for pair in pairs), tuple(map(extreme, others)))


def _whole(pair: _Pair, coins: _Coins) -> _Given:
    """Return the weight of an urn that every cell but j is in."""
    return pair.base + sum(k * a for k, (a, _) in zip(pair.others, coins, strict=True))


def _log_densities(
    points: _Vector, m: int, coins: _Coins, pairs: list[_Pair], arithmetic: Arithmetic
) -> tuple[list[_Vector], list[_Vector]]:
    """Return the logarithms of the density of u for each pair, and of x^a for each of the coins."""
    number, (exp, log) = arithmetic.number, _VECTORS[arithmetic]
    log_x = -log(1 + exp(-points))
    powers = [number(a) * log_x for a, _ in coins]
    factors = [
        log(number(1 - f) + number(f) * exp(power)) for (_, f), power in zip(coins, powers, strict=True)
    ]
    most = _extreme(pairs, max).others
    common = m * (log_x - points)
    for k, factor in zip(most, factors, strict=True):
        common = common + k * factor
    densities = []
    for pair in pairs:
        density = common + number(pair.base) * log_x
        for k, others, factor in zip(most, pair.others, factors, strict=True):
            if k > others:  # in the strata of i and j
                density = density - (k - others) * factor
        densities.append(density)
    return densities, powers


def _step(m: int, weight: _Given, arithmetic: Arithmetic) -> tuple[float, Any]:
    """Return the distance of neighbouring points, and a bound of the relative error of the sums."""

    def entropy(arithmetic: Arithmetic) -> Any:
        number, log = arithmetic.number, arithmetic.log
        return m * log(number(1 + weight / m)) + number(weight) * log(number(1 + m / weight))

    near = entropy(FLOAT)
    to_number = _NUMBERS[arithmetic]
    height = to_number(min(_STRIP, math.sqrt(2 * _ERROR / near)))
    cosine = 1 - height**2 / 2  # at most the cosine
    room = _ERROR + math.log(4 / cosine) + float(1 - cosine) * near
    step = float(np.float32(2 * float(_PI) * float(height) / room))  # few bits: multiples are exact
    number, exp = arithmetic.number, arithmetic.exp
    strip = exp(number(1 - cosine) * entropy(arithmetic)) / number(cosine)
    return step, 2 * strip / (exp(number(to_number(2 * _PI) * height / to_number(step))) - 1)


def _weights(start: _Given, pair: _Pair, m: int, coins: _Coins, arithmetic: Arithmetic) -> Iterable[Any]:
    """Go from a weight w towards an outermost maximum of the density, where ln(w / m) is u.

    From the base upwards, or from the whole downwards; no maximum is passed.
    """
    number, exp, log = arithmetic.number, arithmetic.exp, arithmetic.log
    weight = number(start)
    for _ in range(_STEPS):
        yield weight
        log_x = log(weight / (weight + m))
        weight = number(pair.base)
        for k, (a, f) in zip(pair.others, coins, strict=True):
            power = number(f) * exp(number(a) * log_x)
            weight = weight + k * number(a) * power / (number(1 - f) + power)


def _cuts(
    m: int, coins: _Coins, pairs: list[_Pair], fewest: _Pair, most: _Pair, step: float
) -> tuple[int, int]:
    """Return the first and the last point, in steps: on the outer sides of all maxima, and low enough."""
    # What is divided by is the integral of density times x^a_j, which has its maxima further on.
    most = replace(most, base=most.base + max(a for a, _ in coins))
    away = np.minimum(step * _AWAY, 200.0)
    cuts = []
    for pair, start, side in ((fewest, fewest.base, -1), (most, _whole(most, coins), 1)):
        outermost = math.inf
        for weight in _weights(start, pair, m, coins, FLOAT):
            before, outermost = outermost, math.log(weight / m)
            if abs(outermost - before) < step:
                break
        densities, powers = _log_densities(outermost + side * away, m, coins, pairs, FLOAT)
        densities += [logs + powers[p.coin] for p, logs in zip(pairs, densities, strict=True)]
        low = np.all([logs < logs[0] - _CUT for logs in densities], axis=0)
        cuts.append((outermost + side * away[np.argmax(low)]) / step)
    return math.floor(cuts[0]) - 1, math.ceil(cuts[1]) + 1


def _tails(
    m: int,
    coins: _Coins,
    fewest: _Pair,
    most: _Pair,
    step: _Given,
    cuts: tuple[int, int],
    arithmetic: Arithmetic,
) -> tuple[Any, Any]:
    """Bound the sums before the first and after the last point, as multiples of the density there.

    Raises
    ------
    ArithmeticError
        If it cannot be proved that the density falls outwards from there.
    """
    number, exp, log = arithmetic.number, arithmetic.exp, arithmetic.log
    base, whole = fewest.base, _whole(most, coins)
    first, last = (number(cut * step) for cut in cuts)
    if not (
        any(first < log(weight / m) for weight in _weights(base, fewest, m, coins, arithmetic))
        and any(last > log(weight / m) for weight in _weights(whole, most, m, coins, arithmetic))
    ):
        raise ArithmeticError("the integrals of the pruning loss cannot be cut: the precision is too low")
    # From here on outwards the logarithm of the density falls with at least half of its last slope.
    steep = log(number(base / (base + 2 * m))), log(number((2 * whole + m) / m))
    multiples = []
    for distance, slope in ((first - steep[0], base / 2), (steep[1] - last, _NUMBERS[arithmetic](m / 2))):
        flat = arithmetic.larger(number(0), distance / number(step)) + 1
        multiples.append(flat + 1 / (1 - exp(-number(slope * step))))
    return multiples[0], multiples[1]
