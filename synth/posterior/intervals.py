"""Intervals of counts from posterior draws of them.

Any sum of counts of an implicate is a posterior draw of that sum, so its interval is between two quantiles of
its draws. Counts are whole numbers: an interval that is closed holds more than its level where counts are
small.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEVEL = Fraction(9, 10)


def quantiles(draws: NDArray[Any], level: Fraction = LEVEL) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ends of equal-tailed closed intervals: two of the draws, in their order.

    Parameters
    ----------
    draws : ndarray, shape (n_draws, ...)
        Posterior draws of numbers.
    level : Fraction
        In (0, 1): of so many of the ranks that a further draw may have, it is in the interval.

    Returns
    -------
    low, high : ndarray, shape (...)

    Raises
    ------
    ValueError
        If the level is not in (0, 1), or draws are so few that no interval between two of them has it.
    """
    outside = _outside(draws.shape[0], level)
    ordered = np.partition(draws, (outside, draws.shape[0] - 1 - outside), axis=0)
    return ordered[outside], ordered[-1 - outside]


def _outside(draws: int, level: Fraction) -> int:
    """Return how many draws lie below an interval, and above it.

    A further draw is as likely to have each of draws + 1 ranks; one that is outside has one rank more than
    there are draws outside, at each end.
    """
    if not 0 < level < 1:
        raise ValueError("the level of an interval must be in (0, 1)")
    outside = math.floor((draws + 1) * (1 - level) / 2) - 1
    if outside < 0:
        raise ValueError(
            f"an interval of level {level} needs at least {math.ceil(2 / (1 - level)) - 1} draws"
        )
    return outside
