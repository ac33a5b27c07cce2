"""Auxiliary flows: public tables of who commutes where, at any level of the geography on either side."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from geo_data.errors import InputError
from geo_data.geography import Geography
from geo_data.tables import read_table

__all__ = ["Flows", "locate_units", "read_flows"]


@dataclass(frozen=True, eq=False)
class Flows:
    """A public table of flows between units of the geography.

    Parameters
    ----------
    origin_level, destination_level : str
        Levels of the two sides (or the block level).
    origin, destination : ndarray of int32, shape (F,)
        Unit numbers at these levels; no pair comes twice.
    flow : ndarray of float64, shape (F,)
        Commuters or jobs, >= 0. Units of different tables differ; shares can be compared.
    dropped : dict of str to int
        Rows of the file outside the geography: ``"origin"``, ``"destination"`` and ``"rows"`` (either).
    source : str
        The file as configured.
    standard_error : ndarray of float64, shape (F,), or None
        Standard error of each flow, NaN where unknown; None for counts.
    same_jobs : bool
        The table counts the same jobs as the release, so that its totals can be compared with theirs.
    """

    origin_level: str
    destination_level: str
    origin: npt.NDArray[np.int32]
    destination: npt.NDArray[np.int32]
    flow: npt.NDArray[np.float64]
    dropped: dict[str, int]
    source: str
    standard_error: npt.NDArray[np.float64] | None = None
    same_jobs: bool = False

    def __len__(self) -> int:
        return len(self.flow)

    def __repr__(self) -> str:
        return (
            f"<Flows: {len(self):,} pairs {self.origin_level} to {self.destination_level}, "
            f"{self.flow.sum():,.0f} in all; {self.dropped['rows']:,} rows outside the geography; "
            f"{self.source}>"
        )


def read_flows(
    path: str | os.PathLike[str],
    geography: Geography,
    *,
    origin: str,
    origin_level: str,
    destination: str,
    destination_level: str,
    flow: str,
) -> Flows:
    """Read an auxiliary table of flows.

    Parameters
    ----------
    path : str or path
        CSV, csv.gz or Parquet with one row per pair; further columns are ignored.
    geography : Geography
    origin, destination : str
        Columns of unit codes, text.
    origin_level, destination_level : str
        The levels these codes belong to.
    flow : str
        Column of the flow; "1,234" is read as 1234.

    Returns
    -------
    Flows
        The rows with both ends in the geography or its outside areas, sorted, one for each pair of units.

    Raises
    ------
    InputError
        A file fault; flows missing, negative or no number; a pair twice; codes that lost their leading
        zeros; no row in the geography.
    ValueError
        If there is no such level.
    """
    if origin == destination:
        raise InputError(path, f"one column is named for origin and destination: {origin}", cure="name two")
    frame = read_table(path, {origin: "code", destination: "code", flow: "number"})
    negative = int((frame[flow] < 0).sum())
    if negative:
        raise InputError(path, "flows are negative", column=flow, count=negative, cure="correct the table")
    duplicates = int(frame.duplicated([origin, destination]).sum())
    if duplicates:
        raise InputError(
            path,
            "rows repeat a pair that has a row already",
            count=duplicates,
            cure="keep one row per pair: the table may hold several years, groups or levels",
        )
    origins = locate_units(geography, origin_level, frame[origin], path=path, column=origin)
    destinations = locate_units(
        geography, destination_level, frame[destination], path=path, column=destination
    )
    inside = (origins >= 0) & (destinations >= 0)
    if not inside.any():
        raise InputError(
            path,
            f"no row has origin and destination in the geography ({origin_level} to {destination_level})",
            cure="name the levels of this table, or use the table of the geography's region and vintage",
        )
    # Several rows may fall into the same outside area.
    pairs, pair = np.unique(
        origins[inside].astype(np.int64) * geography.n_units(destination_level) + destinations[inside],
        return_inverse=True,
    )
    return Flows(
        origin_level=origin_level,
        destination_level=destination_level,
        origin=(pairs // geography.n_units(destination_level)).astype(np.int32),
        destination=(pairs % geography.n_units(destination_level)).astype(np.int32),
        flow=np.bincount(pair, frame[flow].to_numpy(dtype=np.float64)[inside], pairs.size).astype(np.float64),
        dropped={
            "origin": int((origins < 0).sum()),
            "destination": int((destinations < 0).sum()),
            "rows": int((~inside).sum()),
        },
        source=os.fspath(path),
    )


def locate_units(
    geography: Geography, level: str, codes: pd.Series, *, path: str | os.PathLike[str], column: str
) -> npt.NDArray[np.int32]:
    """Return the unit number of every code of a public table, -1 where it is outside the geography.

    Parameters
    ----------
    geography : Geography
    level : str
    codes : Series of str, shape (n,)
    path, column : str
        Named in errors.

    Returns
    -------
    ndarray of int32, shape (n,)

    Raises
    ------
    InputError
        Where codes are outside the geography only because they lost their leading zeros.
    ValueError
        If there is no such level.
    """
    numbers = geography.locate_unit(level, codes)
    length = max(len(code) for code in geography.codes(level))
    outside = codes[numbers < 0]
    padded = outside[outside.str.isdigit()].str.zfill(length)
    lost = int((geography.unit_number(level, padded) >= 0).sum())
    if lost:
        raise InputError(
            path,
            f"rows have {level} codes that lost their leading zeros",
            column=column,
            count=lost,
            cure="keep geocodes as text in the program that wrote the file",
        )
    return numbers
