"""Public tables of how jobs are shared among the categories of an attribute, by area or everywhere."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.auxiliary import locate_units
from geo_data.errors import InputError, refuse_any, refuse_repeated
from geo_data.geography import Geography, check_table
from geo_data.tables import Kind, read_table

Float64 = NDArray[np.float64]

_EVEN = 0.01  # part of all jobs that any category may have


def read_shares(
    path: str | os.PathLike[str],
    geography: Geography,
    categories: Sequence[str],
    *,
    category: str,
    count: str,
    level: str | None = None,
    area: str | None = None,
    decimal_point: bool = False,
) -> Float64:
    """Read how the jobs of each block are expected to be shared among the categories of an attribute.

    Parameters
    ----------
    path : str or path
        CSV, csv.gz or Parquet with one row per category, or per area and category; further columns are
        ignored, and a row that is not there counts as 0.
    geography : Geography
    categories : sequence of str
        All that there are.
    category, count : str
        Columns of the category, and of the number or share of jobs.
    level, area : str, optional
        Level of the areas, and column of their codes, text. Left out, the table is of all areas together.
    decimal_point : bool
        A point in a number is a decimal mark, also where it may be one of thousands (1.000).

    Returns
    -------
    ndarray of float64, shape (n_blocks, n_categories)
        Rows add up to 1. Blocks of areas of which the table has no jobs get the shares of the whole table. A
        hundredth is divided evenly, so that every share is above 0.

    Raises
    ------
    InputError
        A file fault; numbers missing, negative or all 0; a category or an area that there is not, or twice.
    """
    check_table(path, geography)
    codes: dict[str, Kind] = {} if area is None else {area: "code"}
    refuse_repeated(path, [*codes, category, count])
    number: Kind = "decimal" if decimal_point else "number"
    frame = read_table(path, {**codes, category: "label", count: number})
    fix = "correct the table: a number is 0 or more"
    refuse_any(path, "numbers are negative", frame[count] < 0, column=count, fix=fix)
    kind = pd.Index(categories).get_indexer(pd.Index(frame[category]))
    refuse_any(
        path,
        "rows have a category that the configuration does not list",
        pd.Series(kind < 0),
        column=category,
        fix="list the category in [[attribute]], or correct the table",
    )
    unit, of_block = np.zeros(len(frame), np.int32), np.zeros(geography.n_blocks, np.int32)
    if level is not None and area is not None:
        unit = locate_units(geography, level, frame[area], path=path, column=area)
        of_block = geography.units_of_blocks(level)
        refuse_any(
            path,
            f"rows have an area that is no {level} of the geography",
            pd.Series(unit < 0),
            column=area,
            fix="name the level of this table, or remove these rows",
        )
    refuse_any(
        path,
        "rows repeat a category of an earlier row",
        pd.DataFrame({"unit": unit, "kind": kind}).duplicated(),
        column=category,
        fix="keep one row per category; if there is a column of areas, name it, and keep one row per area "
        "and category",
    )
    if not (most := frame[count].max()):
        rule, fix = "all numbers are 0, so the table says nothing", "name the column of the numbers"
        raise InputError(path, rule, column=count, fix=f"{fix}, or leave the table out")
    jobs = np.zeros((int(of_block.max()) + 1, len(categories)))
    jobs[unit, kind] = frame[count] / most
    total, everywhere = jobs.sum(axis=1, keepdims=True), jobs.sum(axis=0)
    shares = np.where(total > 0, jobs / np.where(total > 0, total, 1.0), everywhere / everywhere.sum())
    return ((1 - _EVEN) * shares + _EVEN / len(categories))[of_block]
