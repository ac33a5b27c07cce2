"""County-to-county commuting flows of the American Community Survey (ACS), as they are published."""

from __future__ import annotations

import csv
import io
import os
import re
from contextlib import suppress
from pathlib import Path

import pandas as pd

from geo_data.auxiliary import Flows, check_estimates, locate_units, standard_errors, sum_flows
from geo_data.delimited import NO_COMMAS, OTHER_MARKS, form_of, note_rows
from geo_data.errors import InputError, refuse_any
from geo_data.geography import Geography, check_table
from geo_data.tables import margins, numbers

_FLOW, _MARGIN = "Workers in Commuting Flow", "Margin of Error"
_AREA = ("State FIPS", "County FIPS", "State", "County")  # the beginnings of names differ between editions
_COLUMNS = (*_AREA, *_AREA, _FLOW, _MARGIN)
# Home, and a workplace in the United States; other countries have codes above 099, and may have no county.
_CODES = r"(\d\d \d{3}) (?:0(\d\d (?:\d{3})?)|[1-9]\d\d .*)"
_LARGEST = 2**28  # bytes; the published ones have a tenth
_SAVE = "save the whole sheet of the published workbook as CSV UTF-8, with its codes as text"


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
        A file fault; no header line of this table; rows of another width, or over several lines; codes
        that lost their leading zeros; flows or margins negative or no number; a pair twice; no row in
        the geography.
    ValueError
        If there is no such level.
    """
    check_table(path, geography)
    table = _read(path)
    codes = table.iloc[:, 0].str.cat(table.iloc[:, [1, 4, 5]], sep=" ")
    refuse_any(
        path,
        "rows do not have the codes of the published table with leading zeros, such as 44, 007 of the "
        "residence and 044, 007 of the workplace",
        ~codes.str.fullmatch(_CODES),
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
        locate_units(geography, level, homes, path=path, column="County FIPS", flow=flow),
        locate_units(geography, level, works, path=path, column="County FIPS"),
        flow.to_numpy(),
        standard_error=standard_errors(path, margins(path, _MARGIN, table[_MARGIN])),
    )


def _read(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Return the rows between header and footnotes as text; the index is the line of each, less 2."""
    lines = _lines(path)
    header = next((i for i, (_, line) in enumerate(lines) if _is_header(line)), len(lines))
    rows = lines[header + 1 :]
    footnotes = len(rows)
    while footnotes and not any(rows[footnotes - 1][1][1:]):  # a footnote has its first cell only
        footnotes -= 1
    rows = rows[:footnotes]
    if not rows:
        raise InputError(
            path,
            f"no line is the header of the table with rows below it ({', '.join(_COLUMNS)})",
            fix="use the table of residence county to workplace county flows; " + _SAVE,
        )
    numbers = pd.Index([end - 2 for end, _ in rows])
    width = max(len(lines[header][1]), len(_COLUMNS))
    refuse_any(
        path,
        "rows have fewer or more fields than the header",
        pd.Series([len(row) != width for _, row in rows], numbers),
        fix=_SAVE,
    )
    # Cells of the titles and the header may have line breaks, those of rows none: a quotation mark that is
    # not closed would take the rows that follow for one cell.
    before = [lines[header][0], *(end for end, _ in rows[:-1])]
    refuse_any(
        path,
        "rows have a line break inside a field, or a quotation mark that is not closed",
        pd.Series([end != above + 1 for (end, _), above in zip(rows, before, strict=True)], numbers),
        fix="remove blank lines and line breaks between rows; " + _SAVE,
    )
    note_rows(path, len(rows))
    names = [*range(len(_COLUMNS) - 2), _FLOW, _MARGIN]
    return pd.DataFrame([row[: len(_COLUMNS)] for _, row in rows], numbers, columns=names, dtype="str")


def _lines(path: str | os.PathLike[str]) -> list[tuple[int, list[str]]]:
    """Return the cells of each line of a sheet, and the number of the line at which they end."""
    form_of(path)
    fault, fix, text = "the file is not CSV in UTF-8", _SAVE, ""
    lines: list[tuple[int, list[str]]] = []
    if Path(path).stat().st_size > _LARGEST:
        fault = "the file is too large for this table"
    else:
        with suppress(UnicodeDecodeError):
            text = Path(path).read_bytes().decode("utf-8-sig")
    if "\0" in text or re.search(r"\r(?!\n)", text):
        fault = "there is a NUL byte, or a carriage return that does not end its line"
    elif text and not text.endswith("\n"):
        fault = "the last line has no line break at its end: the file may have been cut off"
    elif re.search(rf"{_AREA[0]}[^,\n]*[{OTHER_MARKS}]", text):
        fault, fix = NO_COMMAS
    else:
        with suppress(csv.Error):
            reader = csv.reader(io.StringIO(text, newline=""), strict=True)
            lines = [(reader.line_num, [cell.strip() for cell in line]) for line in reader]
    # Raised outside of handlers: a chained error would carry the file's content along.
    if not lines:
        raise InputError(path, fault, fix=fix)
    return lines


def _is_header(line: list[str]) -> bool:
    names = [" ".join(cell.split()).lower() for cell in line]  # cells may have line breaks
    return len(names) >= len(_COLUMNS) and all(
        part.lower() in name for part, name in zip(_COLUMNS, names, strict=False)
    )
