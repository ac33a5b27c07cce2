"""Outside areas: coarse public areas beyond the geography in which workers may live.

An outside area is named by a prefix of geocodes, such as "25" for the state of Massachusetts. In the
geography it is one block, whose code and whose units' codes are the prefix filled up with 9s, as LODES fills
codes that are missing: block 259999999999999, tract 25999999999, state 25.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["US_STATES", "fill", "longest_prefix", "outside_areas"]

_UNUSED = {3, 7, 14, 43, 52, 57, 58, 59, 61, 62, 63, 64, 65, 67, 68, 70, 71, 73, 74, 75, 76, 77}

_EVERY_STATE = "us-states"

US_STATES = tuple(f"{number:02}" for number in range(1, 79) if number not in _UNUSED)
"""FIPS codes of the states, the District of Columbia, and the territories of the United States."""


def outside_areas(areas: Sequence[str], blocks: pd.Series) -> tuple[str, ...]:
    """Return the outside areas of a geography.

    Parameters
    ----------
    areas : sequence of str
        Prefixes; "us-states" stands for all of `US_STATES` of which the geography has no block.
    blocks : Series of str
        Codes of the geography's blocks.

    Returns
    -------
    tuple of str
        Sorted.
    """
    states = set(US_STATES) - set(blocks.str[:2]) if _EVERY_STATE in areas else ()
    return tuple(sorted([*(area for area in areas if area != _EVERY_STATE), *states]))


def fill(area: str, length: int) -> str:
    """Return the code of an outside area at a level whose codes have a length: cut, or filled up with 9s."""
    return area[:length].ljust(length, "9")


def longest_prefix(codes: pd.Series, areas: Sequence[str]) -> NDArray[np.int64]:
    """Return the position of the longest area that each code begins with, -1 where none does.

    Parameters
    ----------
    codes : Series of str, shape (n,)
    areas : sequence of str

    Returns
    -------
    ndarray of int64, shape (n,)
    """
    found = np.full(len(codes), -1, np.int64)
    index = pd.Index(list(areas), dtype="str")
    for length in sorted({len(area) for area in areas}):  # the longest last, so that it stays
        at = index.get_indexer(pd.Index(codes.str[:length]))
        found = np.where(at >= 0, at, found)
    return found
