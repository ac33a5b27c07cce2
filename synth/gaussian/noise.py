"""Discrete Gaussian noise: an exact sampler, and noisy counts that such noise hardly gives.

Integers z have a probability proportional to e^(-z^2/(2 sigma^2)), for a rational sigma^2. What a residual
is, and what is called rare, `synth.geometric.noise` says. docs/privacy.md has the proofs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import flint
import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth.noise import is_rare, log_chance_of_zeros
from synth.randomness import WordStream
from synth.tails import Arithmetic, rigorous

Int64 = NDArray[np.int64]

LEAST_VARIANCE, MOST_VARIANCE = Fraction(1, 128), 2**24
"""Of the parameter sigma^2: at the least one, noise is 0 but once in 10^27 counts."""

_ROOM = 2**62  # of the denominator of a chance, so that a remainder below it fits a word twice
_MAX_WORDS = 2**20
_WORDS_OF_ONE = 24  # about what a value takes
_TERMS = 45  # of sums over waves; all others are below e^-300


def check_variance(numerator: int, denominator: int) -> None:
    """Check that noise of sigma^2 = a/b can be drawn.

    Raises
    ------
    ValueError
        If sigma^2 is not from 1/128 to 2^24, or 2 a b t^2 is above 2^62, t = 1 + floor(sigma).
    """
    if denominator < 1 or not LEAST_VARIANCE * denominator <= numerator <= MOST_VARIANCE * denominator:
        raise ValueError("the noise of the plan needs a sigma^2 from 1/128 to 2^24")
    if not fits(numerator, denominator):
        raise ValueError("the sigma^2 of the plan has too many digits for the sampler")


def fits(numerator: int, denominator: int) -> bool:
    """Say whether the sampler's numbers for sigma^2 = a/b fit its words."""
    return 2 * numerator * denominator * _scale(numerator, denominator) ** 2 <= _ROOM


def _scale(numerator: int, denominator: int) -> int:
    """Return t, 1 + sigma rounded down: the scale of proposals."""
    return math.isqrt(numerator // denominator) + 1


def gaussian_noise(size: int, numerator: int, denominator: int, stream: WordStream) -> Int64:
    """Draw independent integers z with P(z) proportional to e^(-z^2/(2 sigma^2)), exactly.

    Lemma 49 of docs/privacy.md.

    Parameters
    ----------
    size : int
        How many.
    numerator, denominator : int
        sigma^2 = a/b, as `check_variance` has it.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (size,)
    """
    check_variance(numerator, denominator)
    noise, done, words = np.empty(size, np.int64), 0, np.empty(0, np.int64)
    scale = _scale(numerator, denominator)
    while done < size:
        # The top bit of a word is never used (bounds are at most 2^62).
        more = stream.words(min(_MAX_WORDS, _WORDS_OF_ONE * (size - done) + 64)).view(np.int64)
        words = np.concatenate([words, more])
        done, used = _draw(numerator, denominator, scale, words, noise, done)
        words = words[used:]
    return noise


@_compiled
def _draw(numerator, denominator, scale, words, noise, done):  # type: ignore[no-untyped-def]
    """Go on until all values are drawn or words run out; return how many are drawn, and how many words used.

    The words of a value for which there are too few are not used: with more after them they are read again.
    To go on with other words instead would favour values that take few.
    """
    used = 0
    while done < noise.size:
        state, value, position = _value(numerator, denominator, scale, words, used)
        if state < 0:
            break
        noise[done] = value
        done, used = done + 1, position
    return done, used


@_compiled
def _value(numerator, denominator, scale, words, position):  # type: ignore[no-untyped-def]
    """Propose values with P(y) proportional to e^(-|y|/t) until one is accepted; -1 if words run out."""
    while True:
        u, position = _bounded(words, position, scale)
        if u < 0:
            return -1, 0, position
        yes, position = _happens(u, scale, words, position)
        if yes < 0:
            return -1, 0, position
        if yes == 0:
            continue
        far = u
        yes = 1
        while yes == 1:
            yes, position = _happens(1, 1, words, position)
            far += scale * yes
        if yes < 0:
            return -1, 0, position
        sign, position = _bounded(words, position, 2)
        if sign < 0:
            return -1, 0, position
        if sign == 1 and far == 0:
            continue
        # Accepted with the chance e^(-(|y| - sigma^2/t)^2 / (2 sigma^2)), of which this is the exponent.
        whole, rest = _square_over(
            abs(far * scale * denominator - numerator), 2 * numerator * denominator * scale * scale
        )
        yes = 1
        while yes == 1 and whole > 0:
            yes, position = _happens(1, 1, words, position)
            whole -= 1
        if yes == 1:
            yes, position = _happens(rest, 2 * numerator * denominator * scale * scale, words, position)
        if yes < 0:
            return -1, 0, position
        if yes == 1:
            return 0, far - 2 * far * sign, position


@_compiled
def _happens(numerator, denominator, words, position):  # type: ignore[no-untyped-def]
    """Return 1 with the chance e^-g, else 0, or -1 if words run out; g, a ratio, is at most 1.

    The first turn k with a chance of g/k that fails is odd with just this probability.
    """
    turn = 1
    while True:
        if numerator < denominator:
            u, position = _bounded(words, position, denominator)
            if u < 0:
                return -1, position
            if u >= numerator:
                return turn % 2, position
        if turn > 1:
            u, position = _bounded(words, position, turn)
            if u < 0:
                return -1, position
            if u > 0:
                return turn % 2, position
        turn += 1


@_compiled
def _square_over(root, denominator):  # type: ignore[no-untyped-def]
    """Return whole part and remainder of root^2 / denominator; both below 2^62, as the square need not be."""
    if root < 2**31:
        square = root * root
        return square // denominator, square % denominator
    whole, rest = 0, 0
    for bit in range(62, -1, -1):  # root times root, by the bits of the first
        whole, rest = 2 * whole, 2 * rest
        if rest >= denominator:
            whole, rest = whole + 1, rest - denominator
        if (root >> bit) & 1:
            whole, rest = whole + root // denominator, rest + root % denominator
            if rest >= denominator:
                whole, rest = whole + 1, rest - denominator
    return whole, rest


def gaussian_limit(variance: Fraction) -> int:
    """Return how far above the size of its group, or below 0, a noisy count may be.

    One that is farther is rare, by Lemma 51 of docs/privacy.md.
    """
    with rigorous() as balls:
        far = (2 * balls.number(variance) * 65 * balls.log(balls.number(2))).sqrt()
        return math.floor(float(far.upper()) * (1 + 1e-9))


def rare_gaussian_residuals(variance: Fraction, cells: Int64, residuals: Int64) -> bool:
    """Say whether the noise of a group hardly adds up to its residual, for any of some groups.

    Lemma 51 of docs/privacy.md.

    Parameters
    ----------
    variance : Fraction
        sigma^2.
    cells, residuals : ndarray of int64, shape (n_groups,)
        Number of cells of each group, and the sum of its noisy counts less its size.
    """
    far = np.abs(residuals)
    if not far.size:
        return False
    worst = int(np.argmax(far.astype(float) ** 2 / cells))  # the bound is a function of this number
    exponent = Fraction(int(far[worst])) ** 2 / (2 * int(cells[worst]) * variance)
    with rigorous() as balls:
        return is_rare(balls.log(balls.number(2)) - balls.number(exponent))


def rare_gaussian_zeros(variance: Fraction, cells: Int64, zeros: int) -> bool:
    """Say whether noise hardly lets so many of some groups add up to exactly their sizes.

    Lemma 51 of docs/privacy.md.

    Parameters
    ----------
    variance : Fraction
        sigma^2.
    cells : ndarray of int64, shape (n_groups,)
        Number of cells of each group.
    zeros : int
        How many of the groups have the residual 0.
    """
    with rigorous() as balls:
        waves = tuple(_wave(variance, Fraction(j, 6), balls) for j in (1, 2, 3))
        return is_rare(log_chance_of_zeros(waves, cells, zeros))


def _wave(variance: Fraction, part: Fraction, balls: Arithmetic) -> Any:
    """Return a ball with an upper bound of E cos(2 pi f z), f a part of a turn."""
    rate = 2 * flint.arb.pi() ** 2 * balls.number(variance)
    turns = range(-_TERMS, _TERMS + 1)
    above = sum(balls.exp(-rate * balls.number((m - part) ** 2)) for m in turns)
    below = sum(balls.exp(-rate * balls.number(m * m)) for m in turns)
    rest = 2 * balls.exp(-rate * _TERMS**2) / (1 - balls.exp(-rate * _TERMS))
    return (above + rest) / below
