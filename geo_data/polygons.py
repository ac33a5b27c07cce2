"""Places of blocks from their polygons, where the geography is a file with geometry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import geopandas as gpd
import pandas as pd

from geo_data.errors import InputError

__all__ = ["read_polygons"]

_EQUAL_AREA = "EPSG:6933"  # cylindrical, of the whole world: centroids are taken in it
_DEGREES = "EPSG:4326"


def read_polygons(
    path: str | os.PathLike[str], codes: Sequence[str], latitude: str, longitude: str
) -> pd.DataFrame:
    """Read codes and centroids of a file with geometry.

    Parameters
    ----------
    path : str or path
        GeoParquet, GeoPackage, GeoJSON, a shapefile, or whatever else GDAL reads; one row a block.
    codes : sequence of str
        Columns of text to read.
    latitude, longitude : str
        Names that the columns of the centroid get.

    Returns
    -------
    DataFrame
        Columns `codes` as ``str``, `latitude` and `longitude` in degrees WGS84.

    Raises
    ------
    InputError
        No such file, one that cannot be read or has no rows; columns missing, numbers in place of text, or
        codes missing; geometry missing, or without a coordinate reference system.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(path, "there is no such file", cure="check the path in the configuration")
    with path.open("rb") as file:
        parquet = file.read(4) == b"PAR1"
    frame = None
    with suppress(Exception):  # those of several libraries, which quote the file's content
        frame = gpd.read_parquet(path) if parquet else gpd.read_file(path)
    if not isinstance(frame, gpd.GeoDataFrame) or frame.empty:
        raise InputError(
            path,
            "the file has no polygons that can be read",
            cure="give GeoParquet, GeoPackage, GeoJSON or a shapefile, or name latitude and longitude",
        )
    missing = [name for name in codes if name not in frame]
    if missing:
        raise InputError(
            path,
            f"there is no column {', '.join(missing)}",
            count=len(missing),
            cure=f"the columns are: {', '.join(str(name) for name in frame.columns)}",
        )
    for name in codes:
        if not pd.api.types.is_string_dtype(frame[name]):
            raise InputError(
                path,
                "codes are numbers",
                column=name,
                count=len(frame),
                cure="write codes as text, with their leading zeros",
            )
        blank = int((frame[name].isna() | (frame[name].str.strip() == "")).sum())
        if blank:
            raise InputError(path, "codes are missing", column=name, count=blank, cure="fill them in")
    geometry = frame.geometry
    empty = int((geometry.isna() | geometry.is_empty).sum())
    if empty:
        raise InputError(path, "rows have no geometry", count=empty, cure="leave them out, or give it")
    if geometry.crs is None:
        raise InputError(
            path, "no coordinate reference system is named", cure="write it into the file (EPSG:4326, say)"
        )
    centres = geometry.to_crs(_EQUAL_AREA).centroid.to_crs(_DEGREES)
    result = pd.DataFrame({name: frame[name].astype("str") for name in codes})
    return result.assign(**{latitude: centres.y.to_numpy(), longitude: centres.x.to_numpy()})
