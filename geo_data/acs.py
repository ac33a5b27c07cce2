"""County-to-county commuting flows of the American Community Survey (ACS), as they are published."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pandas as pd

from geo_data.auxiliary import Flows, check_estimates, locate_units, standard_errors, sum_flows
from geo_data.errors import InputError, refuse_any
from geo_data.geography import Geography
from geo_data.tables import margins, numbers

__all__ = ["read_acs"]

_FLOW, _MARGIN = "Workers in Commuting Flow", "Margin of Error"
_AREA = ("State FIPS", "County FIPS", "State", "County")  # the beginnings of names differ between editions
_COLUMNS = (*_AREA, *_AREA, _FLOW, _MARGIN)
# Home, and a workplace in the United States; other countries have codes above 099, and may have no county.
_CODES = r"(\d\d \d{3}) (?:0(\d\d (?:\d{3})?)|[1-9]\d\d .*)"
_SAVE = "save the sheet of the published workbook as CSV UTF-8, all its lines, with its codes as text"


def read_acs(path: str | os.PathLike[str], geography: Geography, *, level: str) -> Flows:
    """Read the table of residence county to workplace county flows, as of 2011-2015 and 2016-2020.

    Parameters
    ----------
    path : str or path
        The sheet of the published workbook, saved as CSV: titles; a header line with state code, county
        code, state and county of the residence, the same four of the workplace, flow and margin of error;
        rows; footnotes. State codes have two digits for residences and three for workplaces (44 and 044).
    geography : Geography
    level : str
        The level of the geography whose units are counties.

    Returns
    -------
    Flows
        With standard errors, NaN where the margin is blank or asterisks. Workplaces in other countries or
        without a county are outside the geography and counted in `dropped`.

    Raises
    ------
    InputError
        A file fault; no header line of this table; rows cut short; codes that lost their leading zeros;
        flows or margins negative or no number; a pair twice; no row in the geography.
    ValueError
        If there is no such level.
    """
    table = _read(path)
    codes = table.iloc[:, 0].str.cat(table.iloc[:, [1, 4, 5]], sep=" ")
    refuse_any(
        path,
        "rows do not have the codes of the published table, two and three digits of the residence and "
        "three and three of the workplace (44, 007, 044, 007): lost leading zeros?",
        (~codes.str.fullmatch(_CODES)).sum(),
        fix=_SAVE,
    )
    areas = codes.str.extract(_CODES).fillna("")
    homes, works = (areas[side].str.replace(" ", "") for side in areas)
    flow = numbers(path, _FLOW, table[_FLOW])
    check_estimates(path, _FLOW, flow, codes[works != ""].to_frame())
    return sum_flows(
        path,
        geography,
        (level, level),
        locate_units(geography, level, homes, path=path, column="County FIPS"),
        locate_units(geography, level, works, path=path, column="County FIPS"),
        flow.to_numpy(),
        standard_error=standard_errors(margins(path, _MARGIN, table[_MARGIN])),
    )


def _read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the rows between header and footnotes as text."""
    if not Path(path).is_file():
        raise InputError(path, "there is no such file", fix="check the path in the configuration")
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            lines = [[cell.strip() for cell in line] for line in csv.reader(file, strict=True)]
    except (UnicodeDecodeError, csv.Error):
        lines = []
    # Raised after the handler: a chained error would carry the file's content along.
    if not lines:
        raise InputError(path, "the file is empty or not CSV in UTF-8", fix=_SAVE)
    header = next((number for number, line in enumerate(lines) if _is_header(line)), len(lines))
    rows = lines[header + 1 :]
    while rows and not any(rows[-1][1:]):  # a footnote has its first cell only
        rows.pop()
    if not rows:
        raise InputError(
            path,
            f"no line is the header of the table, with rows below it: {', '.join(_COLUMNS)}",
            fix="use the table of residence county to workplace county flows; " + _SAVE,
        )
    refuse_any(
        path,
        f"rows have fewer than {len(_COLUMNS)} fields",
        sum(len(row) < len(_COLUMNS) for row in rows),
        fix=_SAVE,
    )
    names = [*range(len(_COLUMNS) - 2), _FLOW, _MARGIN]
    return pd.DataFrame([row[: len(_COLUMNS)] for row in rows], columns=names, dtype="str")


def _is_header(line: list[str]) -> bool:
    names = [" ".join(cell.split()).lower() for cell in line]  # cells may have line breaks
    return len(names) >= len(_COLUMNS) and all(
        part.lower() in name for part, name in zip(_COLUMNS, names, strict=False)
    )
