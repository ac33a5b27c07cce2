"""The largest numbers that a plan may ask for; larger ones are refused before they are used."""

from __future__ import annotations

from fractions import Fraction

MAX_EPSILON = 100
"""The least noise that samplers have costs a measured table 2 ln(2^62) = 86, an urn without pruning 35."""

MAX_RECORDS = 1_000
"""Of one person: the delta of each further one is a term of a sum."""

MAX_DENOMINATOR = 2**62 - 1
"""Of the probability with which an empty cell is kept: one word throws the coin."""


def check_budget(epsilon: Fraction, delta: Fraction) -> None:
    """Check that a plan can have this budget; e^epsilon is a fraction with as many bits as epsilon.

    Raises
    ------
    ValueError
        If not.
    """
    if not 0 < epsilon <= MAX_EPSILON or not 0 <= delta < 1:
        raise ValueError(f"epsilon must be positive and at most {MAX_EPSILON}, and delta in [0, 1)")
