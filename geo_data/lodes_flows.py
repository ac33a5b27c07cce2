"""An earlier LODES origin-destination release as an auxiliary table."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.arguments import check_type, path_of
from geo_data.auxiliary import Flows, check_estimates, locate_units, sum_flows
from geo_data.errors import InputError, refuse_any
from geo_data.geography import Geography
from geo_data.tables import read_table


def read_lodes_flows(
    path: str | os.PathLike[str],
    geography: Geography,
    *,
    origin_level: str,
    destination_level: str,
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
    origin_level, destination_level : str
        The levels to which homes and workplaces are added up.
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
    path_of(path, "path")
    check_type(geography, Geography, "geography", "read_crosswalk")
    if aux is not None and Path(aux) == Path(path):
        raise InputError(path, "one file is named as main and as aux file", fix="name two, or no aux file")
    parts = [_read(file, geography) for file in (path, aux) if file is not None]
    pairs = pd.concat([frame[["h_geocode", "w_geocode"]] for frame, *_ in parts])
    refuse_any(
        path,
        "pairs of home and workplace are in the main and in the aux file: the same jobs twice?",
        pairs.duplicated().sum(),
        fix="name the aux file of the same release as aux, or none",
    )
    home, work = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
    return sum_flows(
        path,
        geography,
        (origin_level, destination_level),
        geography.unit_of(origin_level, home),
        geography.unit_of(destination_level, work),
        np.concatenate([frame["S000"].to_numpy() for frame, *_ in parts]),
    )


def _read(
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
