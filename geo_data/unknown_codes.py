"""Why codes are no units of a geography: they are spelled otherwise, or of another vintage."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from geo_data.external_zones import CENSUS_DIGITS
from geo_data.geography import Geography

_AS_TEXT = "keep geocodes as text in the program that wrote the file"
_SUMMARY_LEVEL = "^[0-9]{7}US"  # begins identifiers of the United States Census Bureau

# Of rows, and of blocks: a few areas may always be missing from a crosswalk or a table.
_MOST_MISSING = 0.05
_FEWEST = 5  # rows of an area: chance does not lose all of so many
_CENSUS = {2, 5, 11}  # digits of the state, the county and the tract of a census block


def misspelled(
    geography: Geography, level: str, codes: pd.Series
) -> Iterator[tuple[npt.NDArray[np.bool_], str, str]]:
    """Yield each way in which codes are spelled otherwise than those of a level.

    Yields which codes of no unit would be one's, or an external zone's, if they were spelled as the level's
    are; and rule and fix of an `InputError` of rows.
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
            "write the codes in the same way in both files",
        ),
        (
            texts.str.replace(_SUMMARY_LEVEL, "", regex=True),
            f"rows have codes that begin with a summary level, such as 1400000US, unlike {level} codes",
            'write the codes without the part up to "US"',
        ),
    ]
    for spelled, rule, fix in ways:
        which = unknown.copy()
        which[unknown] = (spelled != texts) & (geography.locate_unit(level, spelled) >= 0)
        if which.any():
            yield which, rule, fix


def other_vintage(
    geography: Geography,
    level: str,
    codes: pd.Series,
    rows: npt.NDArray[np.integer],
    located: npt.NDArray[np.bool_],
) -> Iterator[tuple[npt.NDArray[np.bool_], str, str]]:
    """Yield, once at most, codes of units that the geography seems to have by other codes.

    A code that begins like an area of the geography should go on like one of its parts: it is lost if it does
    not. Table and crosswalk are of different vintages if

    1. more than 5 % of the rows in areas of the geography are lost, and in areas that lose more than 5 % of
       theirs, parts without a row have more than 5 % of the blocks (of a crosswalk of some parts of an area,
       these have rows); or
    2. of a coarsest area no part has a row, and at least 5 rows are lost.

    Codes come once each; `rows` counts the rows of each, and `located` says whether it is in the geography or
    in one of its external zones. Yields which are lost, and rule and fix of an `InputError` of rows.
    """
    if located.all():
        return
    units, blocks, lengths = _units_inside(geography, level)
    unknown = ~located & codes.str.len().isin(units.str.len().unique()).to_numpy()  # others are of no level
    for short, long in itertools.pairwise((*lengths, None)):
        areas, parts = units.str[:short], units.str[:long]
        area, part = codes.str[:short], codes.str[:long]
        inside = area.isin(areas.unique()).to_numpy()
        lost = inside & ~part.isin(parts.unique()).to_numpy() & unknown
        in_area, has_row = areas.isin(area.unique()).to_numpy(), parts.isin(part.unique()).to_numpy()
        of_area = pd.DataFrame({"lost": rows * lost, "all": rows}).groupby(area.to_numpy()).sum()
        divided = areas.isin(of_area.index[of_area["lost"] > _MOST_MISSING * of_area["all"]]).to_numpy()
        many_rows = rows[lost].sum() > _MOST_MISSING * rows[inside].sum()
        many_blocks = blocks[divided & ~has_row].sum() > _MOST_MISSING * blocks[in_area].sum()
        if not (many_rows and many_blocks):
            lost &= (short == lengths[0]) & ~area.isin(areas[has_row].unique()).to_numpy()
            lost_of_area = pd.Series(rows * lost).groupby(area.to_numpy()).transform("sum")
            lost &= lost_of_area.ge(_FEWEST).to_numpy()
        if lost.any():
            yield (
                lost,
                f"rows are in areas of the geography but in none of its {level} units, as in a file of "
                "another vintage",
                "use a file and a crosswalk of one vintage; LODES7 has blocks of 2010, LODES8 blocks of "
                "2020, Connecticut planning regions since 2022",
            )
            return


def _units_inside(geography: Geography, level: str) -> tuple[pd.Series, npt.NDArray[np.int64], list[int]]:
    """Return codes of a level, blocks of each, and lengths of the three coarsest areas that codes tell."""
    nested = level not in geography.non_nesting_areas
    starts = geography.starts(level if nested else geography.block_level)
    first_block = starts[~geography.is_external(starts)]
    codes = pd.Series(geography.codes(level)[geography.unit_of(level, first_block)], dtype="str")
    in_area = ~codes.str.fullmatch("9+").to_numpy() | nested  # as LODES fills the code of no place
    size = np.diff(np.append(starts, geography.n_blocks))[~geography.is_external(starts)]
    first_block, codes, size = first_block[in_area], codes[in_area], size[in_area]
    blocks = pd.Series(geography.block_codes.take(pa.array(first_block)), codes.index, dtype="str")
    lengths = _CENSUS if blocks.str.fullmatch(f"[0-9]{{{CENSUS_DIGITS}}}").all() else set[int]()
    for above in geography.levels[: (*geography.levels, level).index(level)]:
        areas = pd.Series(
            geography.codes(above)[geography.unit_of(above, first_block)], codes.index, dtype="str"
        )
        if (areas == blocks.str[: (length := int(areas.str.len().max()))]).all():
            lengths = lengths | {length}
    least = codes.str.len().min()
    agree = {n: codes.str[:n] == blocks.str[:n] for n in sorted(lengths) if n < least}
    nested_lengths = [n for n, prefixed in agree.items() if prefixed.mean() >= 1 - _MOST_MISSING][:3]
    prefixed = agree[nested_lengths[-1]] if nested_lengths else codes.notna()
    return codes[prefixed], size[prefixed], nested_lengths
