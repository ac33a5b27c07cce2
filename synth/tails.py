"""Upper bounds on beta-binomial tails, one code for the float search and the rigorous certificate.

The number of draws an urn makes from one cell is BetaBinomial(m, w, W - w), where m is the number
of draws, w the weight of the cell and W the weight of the urn. Every function here takes an
`Arithmetic`: with `FLOAT` it is quick and approximate (a search may use it), with `BALL` every
operation is a rigorous enclosure and the upper end of the result is a proven bound (a certificate
must use it). SciPy's tails are not used: they were found to lie below the exact value in about half
of the settings tried. The proofs are Lemmas 5 and 6 of docs/privacy.md.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import flint

PRECISION_BITS = 192
"""Working precision of the ball arithmetic; stated in every certificate."""

_precision = threading.RLock()
_MAX_TERMS = 4096  # a tail that needs more terms than this is bounded by 1: it is of no use to a plan
REST = flint.fmpq(1, 2**20)
"""The geometric rest of a tail may be this share of what was summed."""


@dataclass(frozen=True)
class Arithmetic:
    """The operations the bounds need, in one number system.

    Attributes
    ----------
    number : callable
        Converts a fraction, of Python or of flint, or an integer.
    lgamma, exp, log : callable
        Log-gamma on x > 0, exponential, natural logarithm.
    larger : callable
        The larger of two numbers; of two balls, a ball that holds it.
    lower : callable
        The lower end of a number, as an exact fraction of flint.
    """

    number: Callable[[Fraction | flint.fmpq | int], Any]
    lgamma: Callable[[Any], Any]
    exp: Callable[[Any], Any]
    log: Callable[[Any], Any]
    larger: Callable[[Any, Any], Any]
    lower: Callable[[Any], flint.fmpq]


def fraction(value: flint.fmpq) -> Fraction:
    """Return a fraction of flint as one of Python."""
    return Fraction(int(value.numerator), int(value.denominator))


def rational(value: Fraction | float) -> flint.fmpq:
    """Return a number as a fraction of flint: as exact as one of Python, in a tenth of the time."""
    return flint.fmpq(*value.as_integer_ratio())


def _ball(value: Fraction | flint.fmpq | int) -> flint.arb:
    # Bounds ask for very many numbers, most of them whole or already flint's.
    if isinstance(value, (int, flint.fmpq)):
        return flint.arb(value)
    return flint.arb(rational(value))


def _float_exp(value: float) -> float:
    return math.exp(value) if value < 700.0 else math.inf


FLOAT = Arithmetic(float, math.lgamma, _float_exp, math.log, max, rational)
"""Approximate, for searches."""

BALL = Arithmetic(
    _ball,
    flint.arb.lgamma,
    flint.arb.exp,
    flint.arb.log,
    flint.arb.max,
    lambda x: x.lower().fmpq(),
)
"""Rigorous (Arb balls through python-flint); use inside `rigorous`."""


@contextmanager
def rigorous(bits: int = PRECISION_BITS) -> Iterator[Arithmetic]:
    """Set the ball precision for the block and give `BALL`.

    The precision is a global of python-flint; a lock lets one thread at a time be in such a block, so that
    the precision that a certificate states is the one that was used.
    """
    with _precision, flint.ctx.workprec(bits):
        yield BALL


def upper_fraction(ball: flint.arb) -> Fraction:
    """Return the upper end of a ball as an exact fraction; negative ends are raised to zero.

    Raises
    ------
    ArithmeticError
        If the ball is not finite: the bound says nothing and nothing may be certified from it.
    """
    if not ball.is_finite():
        raise ArithmeticError("a bound is not finite at the working precision")
    return max(fraction(ball.upper().fmpq()), Fraction(0))


def exp_up(value: Fraction) -> Fraction:
    """Return an upper bound of e^value, within 2^-180 of it.

    Raises
    ------
    ValueError
        If the value is above 10^6: it has as many bits as a fraction.
    """
    if value > 10**6:
        raise ValueError("e^epsilon has too many digits for an epsilon above 10^6")
    with rigorous() as balls:
        return upper_fraction(balls.exp(balls.number(value)))


def ways(draws: int, weight: Fraction, scale: Fraction, arithmetic: Arithmetic) -> list[Any]:
    """Return scale^s rising(weight, s) / s! for s from 0 to draws.

    The probability of the counts of an urn's cells is the product of theirs, divided by that of the whole urn
    for all draws; the scale cancels. With m / (W + m) floats hold them for some hundred draws.

    Parameters
    ----------
    draws : int
        m, at least 0.
    weight : Fraction
        At least 0; 0 is that of no cell.
    scale : Fraction
    arithmetic : Arithmetic
        `FLOAT` or `BALL`.
    """
    w, step = arithmetic.number(weight), arithmetic.number(scale)
    terms = [arithmetic.number(1)]
    for s in range(draws):
        terms.append(terms[-1] * ((w + s) * step / (s + 1)))
    return terms


def tail_bound(
    draws: int,
    weight: Fraction | flint.fmpq,
    rest: Fraction | flint.fmpq,
    threshold: int,
    arithmetic: Arithmetic,
    value: Callable[[int], Any] | None = None,
    rest_share: flint.fmpq = REST,
) -> Any:
    """Bound P(s > threshold), or the expectation of a value there, for s ~ BetaBinomial(draws, weight, rest).

    Lemma 5 of docs/privacy.md.

    Parameters
    ----------
    draws : int
        m, at least 0.
    weight : Fraction or fmpq
        w > 0, the weight of the cell.
    rest : Fraction or fmpq
        W - w >= 0, the weight of the rest of the urn; 0 means that every draw takes the cell.
    threshold : int
        The largest number of draws that is not in the tail; may be negative.
    arithmetic : Arithmetic
        `FLOAT` or `BALL`.
    value : callable, optional
        v(s) in [0, 1], not falling with s; bounds E[v(s); s > threshold] instead of P(s > threshold).
    rest_share : fmpq
        The geometric rest may be this share of what was summed: with more, a larger bound in less time.

    Returns
    -------
    float or flint.arb
        With `BALL`, a ball whose upper end is a proven upper bound, at most `rest_share` of itself above
        the exact tail where the tail falls, and 1 where more than 4096 terms would be needed.

    Notes
    -----
    Masses are summed from threshold + 1 by the ratio of neighbours

        p(s+1) / p(s) = (m - s)/(m - s - 1 + rest) * (w + s)/(s + 1).

    For rest >= 1 the first factor falls with s; the second falls when w >= 1 and is below 1
    otherwise. So once the product r of the first factor and max(1, second factor) is below 1, all
    that is left is at most p(s) r / (1 - r). (For w < 1 the ratios themselves need not fall.)
    """
    one = arithmetic.number(1)
    if threshold >= draws:
        return arithmetic.number(0)
    if rest == 0:
        return one if value is None else value(draws)
    if threshold < 0:
        return one
    lgamma, number = arithmetic.lgamma, arithmetic.number
    w, b = number(weight), number(rest)
    first = threshold + 1
    log_mass = (
        lgamma(number(draws + 1)) - lgamma(number(first + 1)) - lgamma(number(draws - first + 1))
        + lgamma(w + first) + lgamma(b + (draws - first)) - lgamma(w + b + draws)
        - lgamma(w) - lgamma(b) + lgamma(w + b)
    )  # fmt: skip
    mass = arithmetic.exp(log_mass)
    total = mass if value is None else mass * value(first)
    share = number(rest_share)
    falls, steep = b >= 1, not w < 1  # of balls the sides on which the bound holds
    for s in range(first, min(draws, first + _MAX_TERMS)):
        left = (draws - s) / (b + (draws - s - 1))
        right = (w + s) / (s + 1)
        if falls:
            ratio = left * right if steep else left
            if ratio < 1:
                remainder = mass * ratio / (1 - ratio)
                if remainder <= total * share:  # of floats both may be 0
                    return _at_most_one(total + remainder, one)
        mass = mass * left * right
        total = total + (mass if value is None else mass * value(s + 1))
    return _at_most_one(total, one) if draws - first <= _MAX_TERMS else one


def _at_most_one(value: Any, one: Any) -> Any:
    return value if value < one else one


def chernoff_bound(
    threshold: flint.fmpq, weight: flint.fmpq, ratio: flint.fmpq, slope: flint.fmpq, arithmetic: Arithmetic
) -> Any | None:
    """Bound P(s > t + slope j) for weights weight + j, all j >= 0 at once, or say that it cannot.

    Lemma 6 of docs/privacy.md.

    Parameters
    ----------
    threshold : fmpq
        t > 0, the threshold at j = 0.
    weight : fmpq
        w > 0, the weight of the cell at j = 0.
    ratio : fmpq
        r, an upper bound on m / W for every j.
    slope : fmpq
        Growth of the threshold with each unit of weight.
    arithmetic : Arithmetic
        `FLOAT` or `BALL`.

    Returns
    -------
    float, flint.arb or None
        A bound valid for every j >= 0, or None when this method has none.

    Notes
    -----
    s given p is Binomial(m, p), so E z^s <= E exp(m (z-1) p). The Beta(w, W-w) moments of p are
    rising(w, i)/rising(W, i) <= rising(w, i)/W^i, hence E z^s <= (1 - r(z-1))^-w for r(z-1) < 1 and
    P(s >= t) <= z^-t (1 - r(z-1))^-w. One z serves all j when the bound falls with j, that is when
    slope ln z + ln(1 - r(z-1)) >= 0. z is the minimiser at j = 0.
    """
    z = threshold * (1 + ratio) / (ratio * (weight + threshold))
    z = flint.fmpq((z * 2**30).floor(), 2**30)  # of few bits; any z will do
    if z <= 1 or ratio * (z - 1) >= 1:
        return None
    log_z = arithmetic.log(arithmetic.number(z))
    log_rest = arithmetic.log(arithmetic.number(1 - ratio * (z - 1)))
    if not arithmetic.number(slope) * log_z + log_rest > 0:
        return None
    return arithmetic.exp(-arithmetic.number(threshold) * log_z - arithmetic.number(weight) * log_rest)
