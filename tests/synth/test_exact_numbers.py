"""Exact numbers at the edges: what is read is what was written, and decimals are rounded the safe way."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.rationals import decimal_down, decimal_up, exact

pytestmark = pytest.mark.quick

positive = st.one_of(
    st.fractions(min_value=Fraction(1, 10**12), max_value=10**12),
    st.builds(lambda n, e: Fraction(n) * Fraction(10) ** e, st.integers(1, 10**15), st.integers(-40, 30)),
    st.builds(lambda p, e: Fraction(p, 3) * Fraction(10) ** e, st.integers(1, 10**6), st.integers(-40, 30)),
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8.6", Fraction(43, 5)),
        ("1e-5", Fraction(1, 100000)),
        ("1E+2", Fraction(100)),
        ("1/3", Fraction(1, 3)),
        (" 2 / 6 ", Fraction(1, 3)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("-0.1", Fraction(-1, 10)),
        ("+7", Fraction(7)),
        ("0", Fraction(0)),
        ("  12\n", Fraction(12)),
        ("0.1000000000000000055511151231257827", Fraction(1000000000000000055511151231257827, 10**34)),
    ],
)
def test_text_is_read_exactly(text: str, value: Fraction) -> None:
    assert exact(text) == value
    assert type(exact(text)) is Fraction


@pytest.mark.parametrize("value", [0, 3, -(10**30), Fraction(2, 7)])
def test_integers_and_fractions_pass(value: int | Fraction) -> None:
    assert exact(value) == value
    assert type(exact(value)) is Fraction


@pytest.mark.parametrize(
    "value", [0.5, 1.0, float("nan"), np.float64(2.0), True, False, None, Decimal("1.5"), b"1", [1], 1j]
)
def test_everything_else_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match=f"epsilon must be an exact number .* not {type(value).__name__}"):
        exact(value, "epsilon")  # type: ignore[arg-type]


def test_junk_is_refused() -> None:
    junk = (
        "| |abc|nan|inf|-inf|1,5|1_000|0x10|1e|e5|.|1.5/2|1/2/3|1/-3|--1|1e5.0|8.6 %|1 2|1 .5|- 1|1e99999|½"
    )
    for text in junk.split("|"):
        with pytest.raises(ValueError, match="delta is not a number"):
            exact(text, "delta")


def test_a_zero_denominator_is_refused() -> None:
    for text in ["1/0", "0/0", "-3 / 0"]:
        with pytest.raises(ValueError, match="prior has a zero denominator"):
            exact(text, "prior")


@settings(max_examples=40)
@given(st.fractions())
def test_text_of_a_fraction_is_read_back(value: Fraction) -> None:
    assert exact(str(value)) == value


def significant(text: str) -> int:
    return len(text.replace(".", "").strip("0"))


@settings(max_examples=40)
@given(positive, st.integers(1, 30))
def test_decimals_enclose_the_value(value: Fraction, digits: int) -> None:
    up, down = exact(decimal_up(value, digits)), exact(decimal_down(value, digits))
    assert 0 < down <= value <= up
    for text in (decimal_up(value, digits), decimal_down(value, digits)):
        assert re.fullmatch(r"(0|[1-9]\d*)(\.\d*[1-9])?", text)
        assert significant(text) <= digits


@settings(max_examples=40)
@given(positive, st.integers(1, 30))
def test_decimals_are_the_nearest_on_their_side(value: Fraction, digits: int) -> None:
    # The unit in the last of `digits` places of the value: neighbouring decimals are one apart.
    exponent = 0
    while Fraction(10) ** exponent <= value:
        exponent += 1
    while Fraction(10) ** (exponent - 1) > value:
        exponent -= 1
    unit = Fraction(10) ** (exponent - digits)
    up, down = exact(decimal_up(value, digits)), exact(decimal_down(value, digits))
    assert up - value < unit
    assert value - down < unit
    assert (up / unit).denominator == (down / unit).denominator == 1


@settings(max_examples=40)
@given(st.integers(1, 10**12), st.integers(-30, 20))
def test_a_decimal_that_fits_is_kept(mantissa: int, exponent: int) -> None:
    value = Fraction(mantissa) * Fraction(10) ** exponent
    assert exact(decimal_up(value, 13)) == exact(decimal_down(value, 13)) == value


def test_printed_examples() -> None:
    for value, digits, up, down in [
        (Fraction(43, 5), 12, "8.6", "8.6"),
        (Fraction(1, 3), 3, "0.334", "0.333"),
        (Fraction(2, 3), 1, "0.7", "0.6"),
        (Fraction(99999, 10000), 3, "10", "9.99"),
        (Fraction(99999), 2, "100000", "99000"),
        (Fraction(1, 10**9) + Fraction(1, 10**25), 12, "0.00000000100000000001", "0.000000001"),
        (Fraction(1, 10**40), 12, "0." + "0" * 39 + "1", "0." + "0" * 39 + "1"),
        (Fraction(1234567), 3, "1240000", "1230000"),
        (Fraction(0), 5, "0", "0"),
        (Fraction(100), 12, "100", "100"),
    ]:
        assert decimal_up(value, digits) == up
        assert decimal_down(value, digits) == down


def test_negative_numbers_are_not_printed() -> None:
    for printed in (decimal_up, decimal_down):
        with pytest.raises(ValueError, match="of at least 0"):
            printed(Fraction(-1, 10))
