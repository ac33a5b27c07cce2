"""Exact numbers at the edges: text in, fractions inside, decimals rounded the safe way; and limits."""

from __future__ import annotations

import re
from fractions import Fraction

_NUMBER = re.compile(
    r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*|\s*[+-]?[0-9]+\s*/\s*[0-9]+\s*"
)
# Whoever sends a plan writes the numbers in it: no text may stand for one that takes for ever.
_LONGEST = 2_000


# The largest numbers that a plan may ask for; larger ones are refused before they are used.
MAX_EPSILON = 100
"""The least noise that samplers have costs a measured table 2 ln(2^62) = 86, an urn without pruning 35."""

MAX_RECORDS = 1_000
"""Of one person: the delta of each further one is a term of a sum."""

MAX_DENOMINATOR = 2**62 - 1
"""Of the probability with which an empty cell is kept: one word throws the coin."""


def exact(value: str | int | Fraction, name: str = "value") -> Fraction:
    """Return `value` as an exact fraction; a float is refused.

    Parameters
    ----------
    value : str, int or Fraction
        Text such as ``"8.6"``, ``"1e-5"`` or ``"1/3"``, of at most 2,000 characters and with an exponent
        of at most three digits; an integer; a fraction.
    name : str
        What the number is called in an error message.

    Returns
    -------
    Fraction

    Raises
    ------
    TypeError
        If `value` is a float (or any other type): a float is not the number that was written.
    ValueError
        If the text is not a number.

    Examples
    --------
    >>> import synth
    >>> synth.exact("1e-5", "delta")
    Fraction(1, 100000)
    >>> synth.exact(0.1, "epsilon")
    Traceback (most recent call last):
    ...
    TypeError: epsilon must be an exact number given as text, ...
    """
    if isinstance(value, bool) or not isinstance(value, (str, int, Fraction)):
        raise TypeError(
            f'{name} must be an exact number given as text, such as "8.6" or "1/3", '
            f"not {type(value).__name__}: a float is not the number that was written"
        )
    if isinstance(value, str):
        if len(value) > _LONGEST or not _NUMBER.fullmatch(value):
            raise ValueError(f"{name} is not a number: {value[:60]!r}")
        try:
            return Fraction(value.replace(" ", ""))
        except ZeroDivisionError:
            raise ValueError(f"{name} has a zero denominator: {value!r}") from None
    return Fraction(value)


def decimal_up(value: Fraction, digits: int = 12) -> str:
    """Return the smallest decimal with `digits` significant digits that is at least `value`.

    Parameters
    ----------
    value : Fraction
        Not negative.
    digits : int
        Significant digits, at least 1.

    Returns
    -------
    str
        A plain decimal such as ``"8.6"`` or ``"0.0000099"``; never ``"0"`` for a positive value.

    Examples
    --------
    >>> from fractions import Fraction
    >>> import synth
    >>> synth.decimal_up(Fraction(1, 3), 3), synth.decimal_down(Fraction(1, 3), 3)
    ('0.334', '0.333')
    """
    return _decimal(value, digits, up=True)


def decimal_down(value: Fraction, digits: int = 12) -> str:
    """Return the largest decimal with `digits` significant digits that is at most `value`.

    See `decimal_up` for parameters and form.
    """
    return _decimal(value, digits, up=False)


def _decimal(value: Fraction, digits: int, *, up: bool) -> str:
    if value < 0:
        raise ValueError("only numbers of at least 0 are printed")
    if value == 0:
        return "0"
    # Of the last digit kept: value is scaled to an integer of `digits` digits. A guess; the loops mend it.
    exponent = (value.numerator.bit_length() - value.denominator.bit_length()) * 3 // 10 - digits
    top = 10**digits
    n, d = _over_power(value, exponent)
    while n >= top * d:
        exponent += 1
        n, d = _over_power(value, exponent)
    while 10 * n < top * d:
        exponent -= 1
        n, d = _over_power(value, exponent)
    whole = -(-n // d) if up else n // d
    if exponent >= 0:
        return str(whole * 10**exponent)
    text = str(whole).rjust(1 - exponent, "0")
    return (text[:exponent] + "." + text[exponent:]).rstrip("0").rstrip(".")


def _over_power(value: Fraction, exponent: int) -> tuple[int, int]:
    """Return numerator and denominator of value / 10^exponent; reducing them would take most of the time."""
    return value.numerator * 10 ** max(-exponent, 0), value.denominator * 10 ** max(exponent, 0)


def check_budget(epsilon: Fraction, delta: Fraction) -> None:
    """Check that a plan can have this budget; e^epsilon is a fraction with as many bits as epsilon.

    Raises
    ------
    ValueError
        If not.
    """
    if not 0 < epsilon <= MAX_EPSILON or not 0 <= delta < 1:
        raise ValueError(f"epsilon must be positive and at most {MAX_EPSILON}, and delta in [0, 1)")
