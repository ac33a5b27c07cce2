"""Flow tables of the Census Transportation Planning Products (CTPP, Part 3), as they are downloaded."""

from __future__ import annotations

import os
from collections.abc import Mapping

import pandas as pd

from geo_data.auxiliary import Flows, check_estimates, locate_units, standard_errors, sum_flows
from geo_data.errors import InputError, refuse_any
from geo_data.geography import Geography, check_table
from geo_data.tables import margins, numbers, read_table

_COMPONENT = "00US"  # stands between a summary level and the codes


def read_ctpp(
    path: str | os.PathLike[str],
    geography: Geography,
    levels: Mapping[str, str | tuple[str, str]],
    *,
    table: str | None = None,
    line: int = 1,
) -> list[Flows]:
    """Read the flows of a CTPP table, such as ``TX_2006thru2010_A302100.csv`` (all workers).

    Parameters
    ----------
    path : str or path
        CSV, csv.gz or Parquet with the columns GEOID, TBLID, LINENO, EST and MOE; further columns are
        ignored. A GEOID is a summary level, ``00US``, the code of the residence and that of the workplace:
        ``C4300US4400144007`` is from county 44001 to county 44007.
    geography : Geography
    levels : mapping of str to str or tuple of str
        The summary levels to read, and the level or non-nesting area that each has: ``{"C43": "cty"}``;
        that of residences and that of workplaces where they differ: ``{"C50": ("stplc", "cty")}``.
        Rows of other summary levels are ignored.
    table : str, optional
        The TBLID to read; needed where the file has several.
    line : int
        The LINENO to read: 1 is the total. Rows of other lines are ignored.

    Returns
    -------
    list of Flows
        One for each summary level, in the order of `levels`, with standard errors, NaN where the margin is
        blank or asterisks. Estimates of zero are kept.

    Raises
    ------
    InputError
        A file fault; several tables, or none of the one named; no row of the line or of a summary level;
        codes of another length than those of the level; estimates or margins negative or no number; a pair
        twice; no row in the geography.
    ValueError
        If the geography has no such level.

    Notes
    -----
    Of the tables of 2012-2016 and 2017-2021 the tract level misses the workers whose workplace is only
    known to a coarser level, about a fifth. Read a coarser level of the same file beside it: the public
    model weighs what both say of the shares of coarse origins.
    """
    check_table(path, geography)
    frame = read_table(
        path, {"GEOID": "code", "TBLID": "label", "LINENO": "count", "EST": "text", "MOE": "text"}
    )
    refuse_any(
        path,
        "rows have a GEOID that is not of the form C4300US4400144007",
        ~frame["GEOID"].str.fullmatch(r"[A-Z0-9]{5,9}US\S*"),
        column="GEOID",
        fix="use the file as it was published",
    )
    frame = _of_table(path, frame, table)
    frame = frame[frame["LINENO"] == line]
    if frame.empty:
        raise InputError(
            path,
            f"no row has line {line}",
            column="LINENO",
            fix="name the line of the total (key line)",
        )
    summary = frame["GEOID"].str[:3].where(frame["GEOID"].str[3 : 3 + len(_COMPONENT)] == _COMPONENT)
    present = sorted(summary[summary.str.fullmatch(r"C\d\d", na=False)].unique())
    for name in levels:
        if name not in present:
            raise InputError(
                path,
                f"no row has summary level {name}; the file has: {', '.join(present) or 'none'}",
                column="GEOID",
                fix="name summary levels of the file, or use the file that has them",
            )
    return [
        _flows(
            path, geography, frame[summary == name], name, (sides, sides) if isinstance(sides, str) else sides
        )
        for name, sides in levels.items()
    ]


def _of_table(path: str | os.PathLike[str], frame: pd.DataFrame, table: str | None) -> pd.DataFrame:
    if table is None:
        several = frame["TBLID"].nunique()
        if several > 1:
            raise InputError(
                path,
                "tables are in this file",
                column="TBLID",
                count=several,
                fix="name the table of all workers (key table), such as A302100",
            )
        return frame
    frame = frame[frame["TBLID"] == table]
    if frame.empty:
        raise InputError(
            path,
            f"no row has table {table}",
            column="TBLID",
            fix="name a table of the file (key table), or leave the key out if the file has one table",
        )
    return frame


def _flows(
    path: str | os.PathLike[str],
    geography: Geography,
    rows: pd.DataFrame,
    summary: str,
    levels: tuple[str, str],
) -> Flows:
    codes = rows["GEOID"].str[len(summary) + len(_COMPONENT) :]
    first, second = map(geography.longest, levels)
    wrong = codes.str.len() != first + second
    if wrong.any():
        two = (
            f"two codes of {first} characters, as {levels[0]} codes have"
            if levels[0] == levels[1]
            else f"codes of {first} and {second} characters, as {levels[0]} and {levels[1]} codes have"
        )
        refuse_any(
            path,
            f"rows of summary level {summary} do not have {two}",
            wrong,
            column="GEOID",
            fix="name the level of this summary level, and use the file as it was published",
        )
    estimates = numbers(path, "EST", rows["EST"])
    check_estimates(path, "EST", estimates, rows[["GEOID"]])
    return sum_flows(
        path,
        geography,
        levels,
        locate_units(geography, levels[0], codes.str[:first], path=path, column="GEOID", flow=estimates),
        locate_units(geography, levels[1], codes.str[first:], path=path, column="GEOID"),
        estimates.to_numpy(),
        standard_error=standard_errors(path, margins(path, "MOE", rows["MOE"])),
        part=summary,
    )
