"""Codes that are those of a geography, but for how they are spelled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.geography import Geography

__all__ = ["misspelled"]

_AS_TEXT = "keep geocodes as text in the program that wrote the file"
_SUMMARY_LEVEL = "^[0-9]{7}US"  # begins identifiers of the United States Census Bureau


def misspelled(
    geography: Geography, level: str, codes: pd.Series
) -> Iterator[tuple[NDArray[np.bool_], str, str]]:
    """Yield each way in which codes are spelled otherwise than those of a level.

    Parameters
    ----------
    geography : Geography
    level : str
    codes : Series of str, shape (n,)

    Yields
    ------
    which : ndarray of bool, shape (n,)
        Codes of no unit that would be one's, or an external zone's, if they were spelled as the level's are.
    rule, fix : str
        As of `InputError`, of rows.
    """
    unknown = geography.unit_number(level, codes) < 0
    if not unknown.any():
        return
    texts, longest = codes[unknown], geography.longest(level)
    ways = [
        (
            texts.str.zfill(longest).where(texts.str.isdigit(), texts),
            f"rows have {level} codes that lost their leading zeros",
            _AS_TEXT,
        ),
        (
            texts.str.lstrip("0").where(texts.str.isdigit(), texts),
            f"rows have codes with leading zeros, which the {level} codes of the geography do not have",
            "write them alike in both files",
        ),
        (
            texts.str.replace(_SUMMARY_LEVEL, "", regex=True),
            f"rows have codes that begin with a summary level (1400000US, say), which {level} codes do not",
            'write the codes alone, without what ends in "US"',
        ),
    ]
    for spelled, rule, fix in ways:
        which = unknown.copy()
        which[unknown] = (spelled != texts) & (geography.locate_unit(level, spelled) >= 0)
        if which.any():
            yield which, rule, fix
