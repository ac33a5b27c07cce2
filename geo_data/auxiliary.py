"""Auxiliary flows: public tables of who commutes where, at any level or non-nesting area on either side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
from numpy.typing import NDArray

from geo_data.errors import InputError, first_codes, refuse_any, refuse_repeated
from geo_data.geography import Geography, check_table
from geo_data.tables import Kind, read_table
from geo_data.unknown_codes import misspelled, other_vintage

_MOST = 10**12  # commuters of a flow, and of a table
_TOTAL = 0.9  # of its parts: survey estimates do not add up, and some parts are suppressed
_Z90 = 1.645  # margins of error of United States surveys are half a 90 % confidence interval


@dataclass(frozen=True, eq=False)
class Flows:
    """A public table of flows between units of the geography.

    Parameters
    ----------
    origin_level, destination_level : str
        Levels of the two sides (or the block level, or non_nesting_areas).
    origin, destination : ndarray of int32, shape (F,)
        Unit numbers at these levels; no pair comes twice. None has a zone in which nobody lives, or works.
    flow : ndarray of float64, shape (F,)
        Commuters or jobs, >= 0. Units of different tables differ; shares can be compared.
    dropped : dict of str to int
        Rows of the file outside the geography: ``"origin"``, ``"destination"`` and ``"rows"`` (either).
    source : str
        The file as configured, and in brackets the part of it.
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

    @property
    def variance(self) -> npt.NDArray[np.float64]:
        """Squared standard error of each flow; where it is unknown, that of a count: its size."""
        error = self.standard_error
        return self.flow if error is None else np.where(np.isnan(error), self.flow, error**2)

    @property
    def workers(self) -> float:
        """Size of a count that is as uncertain as the whole table."""
        variance = float(self.variance.sum())
        return float(self.flow.sum()) ** 2 / variance if variance > 0 else float(self.flow.sum())

    def __repr__(self) -> str:
        return (
            f"<Flows: {len(self):,} pairs {self.origin_level} to {self.destination_level}, "
            f"{self.flow.sum():,.0f} in all; {self.dropped['rows']:,} rows outside the geography; "
            f"{self.source}>"
        )


def read_flows(
    path: str | os.PathLike[str],
    geography: Geography,
    levels: tuple[str, str],
    *,
    origin: str | Sequence[str],
    destination: str | Sequence[str],
    flow: str,
    margin: str | None = None,
    decimal_point: bool = False,
) -> Flows:
    """Read an auxiliary table of flows.

    Parameters
    ----------
    path : str or path
        CSV, csv.gz or Parquet with one row per pair; further columns are ignored.
    geography : Geography
    levels : (str, str)
        The level, or non_nesting_areas, of the codes of origins, and of destinations.
    origin, destination : str or sequence of str
        Columns of unit codes, text. The texts of several columns are joined: state and county, say.
    flow : str
        Column of the flow; "1,234" is read as 1234.
    margin : str, optional
        Column of the margin of error at 90 %; "+/-56" is read as 56, blank, NA and asterisks as unknown.
    decimal_point : bool
        A point in the flow is a decimal mark, also where it may be one of thousands (1.000).

    Returns
    -------
    Flows
        The rows with a destination in the geography and an origin there or in an external zone, sorted, one
        for each pair of units.

    Raises
    ------
    InputError
        A file fault; flows or margins negative, no number or above 10^12; flows missing; a pair twice; codes
        that lost their leading zeros; joined codes of another length than those of the level; no row in the
        geography.
    ValueError
        If there is no such level.
    """
    check_table(path, geography)
    origins = (origin,) if isinstance(origin, str) else tuple(origin)
    destinations = (destination,) if isinstance(destination, str) else tuple(destination)
    names = [*origins, *destinations, flow, *([] if margin is None else [margin])]
    refuse_repeated(path, names)
    columns: dict[str, Kind] = {**dict.fromkeys((*origins, *destinations), "code")}
    columns[flow] = "decimal" if decimal_point else "number"
    if margin is not None:
        columns[margin] = "margin"
    frame = read_table(path, columns)
    homes = _joined(path, geography, levels[0], frame[list(origins)])
    works = _joined(path, geography, levels[1], frame[list(destinations)])
    check_estimates(path, flow, frame[flow], pd.DataFrame({"origin": homes, "destination": works}))
    return sum_flows(
        path,
        geography,
        levels,
        locate_units(geography, levels[0], homes, path=path, column=str(homes.name), flow=frame[flow]),
        locate_units(geography, levels[1], works, path=path, column=str(works.name)),
        frame[flow].to_numpy(),
        standard_error=None if margin is None else standard_errors(path, frame[margin]),
    )


def check_estimates(path: str | os.PathLike[str], column: str, flow: pd.Series, pairs: pd.DataFrame) -> None:
    """Refuse flows that are negative or too large, and pairs of codes that come twice.

    File and column are named in errors; the index of the rows are their numbers in the file, from 0.
    """
    fix = "correct the table: a flow is 0 or more"
    refuse_any(path, "flows are negative", flow < 0, column=column, fix=fix)
    _refuse_large(path, "flows", flow, column)
    if not (flow > 0).any():
        rule = "all flows are 0, so the table says nothing"
        raise InputError(path, rule, column=column, fix="name the column of the flow, or leave the table out")
    if flow.max() < 1:
        rule = "all flows are below 1, as shares are, and flows are numbers of workers"
        raise InputError(path, rule, column=column, fix="multiply the shares by the number of workers")
    refuse_any(
        path,
        "rows repeat a pair of home and workplace of an earlier row",
        pairs.duplicated(),
        fix="keep one row per pair; the table may hold several years, groups or levels",
    )


def standard_errors(path: str | os.PathLike[str], margin: pd.Series) -> npt.NDArray[np.float64]:
    """Return the standard errors of margins of error at 90 %, float64 of shape (n,); NaN stays."""
    _refuse_large(path, "margins of error", margin.fillna(0), str(margin.name))
    return margin.to_numpy(dtype=np.float64) / _Z90


def _refuse_large(path: str | os.PathLike[str], quantity: str, values: pd.Series, column: str) -> None:
    """Refuse values that are more than there can be, and whose sums and squares floats do not hold."""
    large, fix = values > _MOST, "correct the table: it has more people than there are"
    refuse_any(path, f"{quantity} are above {_MOST:,}", large, column=column, fix=fix)
    if values.astype(np.float64).sum() > _MOST:
        raise InputError(path, f"the {quantity} add up to more than {_MOST:,}", column=column, fix=fix)


def sum_flows(
    path: str | os.PathLike[str],
    geography: Geography,
    levels: tuple[str, str],
    origins: npt.NDArray[np.int32],
    destinations: npt.NDArray[np.int32],
    flow: npt.NDArray[np.float64],
    *,
    standard_error: npt.NDArray[np.float64] | None = None,
    part: str = "",
) -> Flows:
    """Add the flows of rows between the same two units.

    Unit numbers are -1 where a row is outside the geography. The result is sorted by origin and destination.
    Variances add; in a sum, a flow with an unknown error (NaN) counts as the model counts it, with its size
    as variance. External zones in which nobody lives, or works, are left out. Refused if no row is left, or
    if a flow begins, or ends, in an area where the geography says that nobody lives, or works.
    """
    sides = [
        ("uninhabited", "live", levels[0], origins, geography.nobody_lives),
        ("without_work", "work", levels[1], destinations, geography.nobody_works),
    ]
    known = []
    for key, verb, level, units, closed in sides:
        of_blocks, external = geography.units_of_blocks(level), geography.is_external(np.arange(closed.size))
        is_open = np.bincount(of_blocks, ~closed) > 0
        inside = np.bincount(of_blocks, ~external) > 0
        known.append(np.where(is_open[units] & (units >= 0), units, np.int32(-1)))
        refuse_any(
            path,
            f"rows have jobs of people who {verb} in an area of geography.{key}, where nobody does",
            int(((units >= 0) & (flow > 0) & ~is_open[units] & inside[units]).sum()),
            fix=f"correct geography.{key}, or remove these rows",
        )
    origins, destinations = known
    inside = (origins >= 0) & (destinations >= 0)
    if not inside.any():
        raise InputError(
            path,
            f"no row has origin and destination in the geography ({levels[0]} to {levels[1]}); the origin is "
            f"unknown in {int((origins < 0).sum()):,} of {len(inside):,} rows, the destination in "
            f"{int((destinations < 0).sum()):,}",
            fix="name the levels of this table, or use the table of your region and vintage",
        )
    frame = pd.DataFrame({"origin": origins, "destination": destinations, "flow": flow}).astype(
        {"flow": np.float64}
    )
    if standard_error is not None:
        frame["known"] = ~np.isnan(standard_error)
        frame["variance"] = np.where(frame["known"], standard_error**2, frame["flow"])
    sums = frame[inside].groupby(["origin", "destination"]).sum().reset_index()
    return Flows(
        origin_level=levels[0],
        destination_level=levels[1],
        origin=sums["origin"].to_numpy(dtype=np.int32),
        destination=sums["destination"].to_numpy(dtype=np.int32),
        flow=sums["flow"].to_numpy(),
        dropped={
            "origin": int((origins < 0).sum()),
            "destination": int((destinations < 0).sum()),
            "rows": int((~inside).sum()),
        },
        source=f"{os.fspath(path)} ({part})" if part else os.fspath(path),
        standard_error=(
            None if standard_error is None else np.sqrt(sums["variance"].where(sums["known"] > 0)).to_numpy()
        ),
    )


def locate_units(
    geography: Geography,
    level: str,
    codes: pd.Series,
    *,
    path: str | os.PathLike[str],
    column: str,
    flow: pd.Series | None = None,
) -> npt.NDArray[np.int32]:
    """Return the unit number of every code of a public table, -1 where it is outside the geography.

    Codes in external zones have the unit of the zone. Refused where codes are no units only because of how
    they are spelled, or seem to be of another vintage (`other_vintage`); with flows, where a code is a whole
    external zone (25 or 25000) and others are its parts (25005), of which it seems to be the total.
    """
    index, distinct = pd.factorize(codes)
    texts = pd.Series(distinct, dtype="str")
    # Asked of codes in external zones too: county 4013 begins like a state, and is 04013 in another one.
    for which, rule, fix in misspelled(geography, level, texts):
        refuse_any(path, rule, pd.Series(which[index], codes.index), column=column, fix=fix)
    numbers = geography.locate_unit(level, texts)
    for which, rule, fix in other_vintage(geography, level, texts, np.bincount(index), numbers >= 0):
        fix += "; if the vintage is the same, remove the rows of units that the crosswalk does not have"
        refuse_any(path, rule, pd.Series(which[index], codes.index), column=column, fix=fix)
    if flow is not None:
        outside = np.isin(numbers, geography.unit_of(level, geography.external_blocks))
        sums = pd.Series(np.bincount(index, flow, len(texts))[outside], texts[outside])
        _refuse_totals(path, column, sums, geography.external_zones, geography.longest(level))
    return numbers[index]


def _refuse_totals(
    path: str | os.PathLike[str], column: str, sums: pd.Series, zones: Sequence[str], longest: int
) -> None:
    """Refuse codes that are totals of others in the same column, from the flow of each external code."""
    codes = {*sums.index}
    for zone in zones:
        whole = {zone, zone.ljust(longest, "0")}
        for total in sorted(whole & codes):
            parts = sums[sums.index.str.startswith(zone) & ~sums.index.isin(whole)]
            if len(parts) and sums[total] >= _TOTAL * parts.sum():
                raise InputError(
                    path,
                    f"{total} seems to be the total of {first_codes([*parts.index])}, so people would count "
                    "twice",
                    column=column,
                    fix=f"remove the rows of totals, or the rows of their parts; if {total} is an area of "
                    "its own, name it in geography.external_zones",
                )


def _joined(path: str | os.PathLike[str], geography: Geography, level: str, parts: pd.DataFrame) -> pd.Series:
    """Return the codes that columns make together, named after them; of one column, that column."""
    if len(parts.columns) == 1:
        return parts.iloc[:, 0]
    for name, column in parts.items():
        lengths = column.str.len()
        refuse_any(
            path,
            "codes are shorter than others of this column, and may have lost leading zeros",
            lengths < lengths.max(),
            column=str(name),
            fix="keep geocodes as text in the program that wrote the file",
        )
    joined = parts.iloc[:, 0].str.cat(parts.iloc[:, 1:]).rename(" + ".join(parts.columns))
    length = geography.longest(level)
    refuse_any(
        path,
        f"rows have joined codes that do not have the {length} characters of {level} codes",
        joined.str.len() != length,
        column=str(joined.name),
        fix="name all parts of a code in their order, and write each as text with its leading zeros; a state "
        "has two digits",
    )
    return joined


def read_lodes_flows(
    path: str | os.PathLike[str],
    geography: Geography,
    levels: tuple[str, str],
    *,
    aux: str | os.PathLike[str] | None = None,
) -> Flows:
    """Read an earlier LODES release and count its jobs by units of the geography.

    Parameters
    ----------
    path : str or path
        The main file, such as ``ri_od_main_JT00_2018.csv.gz``: CSV, csv.gz or Parquet with the columns
        w_geocode, h_geocode and S000; further columns are ignored.
    geography : Geography
        Its blocks must be of the vintage of the file.
    levels : (str, str)
        The level to which homes are added up, and that of workplaces.
    aux : str or path, optional
        The aux file of the same release: jobs of people who live elsewhere. Homes in external zones of the
        geography are located there.

    Returns
    -------
    Flows
        Exact counts, without standard errors. Rows whose blocks are not in the geography are left out and
        counted in `dropped`, those of both files together.

    Raises
    ------
    InputError
        A file fault; counts that are no whole numbers; a pair twice, in one file or in both; codes that lost
        their leading zeros, or are of another vintage (`other_vintage`); no row in the geography.
    ValueError
        If there is no such level.
    """
    check_table(path, geography)
    if aux is not None and Path(aux) == Path(path):
        fix = "name two files, or no aux file"
        raise InputError(path, "one file is named as the main and as the aux file", fix=fix)
    parts = [_lodes_rows(file, geography) for file in (path, aux) if file is not None]
    pairs = pd.concat([frame[["h_geocode", "w_geocode"]] for frame, *_ in parts])
    refuse_any(
        path,
        "pairs of home and workplace are in the main and in the aux file, so jobs may count twice",
        pairs.duplicated().sum(),
        fix="name the aux file of the same release as aux, or no aux file",
    )
    home, work = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return sum_flows(
        path,
        geography,
        levels,
        geography.unit_of(levels[0], home),
        geography.unit_of(levels[1], work),
        np.concatenate([frame["S000"].to_numpy() for frame, *_ in parts]),
    )


def _lodes_rows(
    path: str | os.PathLike[str], geography: Geography
) -> tuple[pd.DataFrame, NDArray[np.int32], NDArray[np.int32]]:
    """Return every row, with the block numbers of its home and workplace, -1 outside the geography."""
    frame = read_table(path, {"h_geocode": "code", "w_geocode": "code", "S000": "count"})
    check_estimates(path, "S000", frame["S000"], frame[["h_geocode", "w_geocode"]])
    home, work = (
        locate_units(geography, geography.block_level, frame[column], path=path, column=column)
        for column in ("h_geocode", "w_geocode")
    )
    return frame, home, work
