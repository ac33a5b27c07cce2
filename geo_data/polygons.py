"""Polygons of public units: where blocks lie, and the shapes that maps of a release are drawn with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import geopandas as gpd
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from geo_data.delimited import note_rows, refuse_no_file
from geo_data.errors import InputError, counted, refuse_any
from geo_data.geography import Geography, check_table
from geo_data.outliers import check_places_in_shapes
from geo_data.texts import clean_names, plain_texts, refuse_spellings
from geo_data.unknown_codes import misspelled

_EQUAL_AREA = "EPSG:6933"  # cylindrical, of the whole world: centroids are taken in it
_DEGREES = "EPSG:4326"
# A file of another vintage or level has some codes in common with the geography; the right one has most.
_LEAST_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class Polygons:
    """Shapes of the units of a level."""

    # A row for each unit that has a shape, in the order of the geography: a column of codes (text) named like
    # the level, and valid polygons or multipolygons, EPSG:4326
    shapes: gpd.GeoDataFrame
    notes: tuple[str, ...]  # what was left out or mended, with counts
    # name of each unit of the level, "" where the file has none but its code; None if names were not asked
    # for; shape (U,)
    names: npt.NDArray[np.object_] | None = None

    def __repr__(self) -> str:
        return f"<Polygons: {len(self.shapes):,} shapes; {'; '.join(self.notes) or 'nothing to report'}>"


def read_polygons(
    path: str | os.PathLike[str], geography: Geography, *, level: str, code: str, name: str | None = None
) -> Polygons:
    """Read the shapes of the units of a level.

    GeoParquet, GeoPackage, GeoJSON, a shapefile, or whatever else GDAL reads; one row a unit, with columns of
    its `code` and perhaps its `name`. Shapes of units that the geography does not have are left out, and
    units may have none; both are noted. Invalid polygons are made valid. Refused are what `read_centroids`
    refuses; codes that lost their leading zeros, a unit twice, shapes for fewer than half of the units,
    coordinates that are not degrees once they are in EPSG:4326; blocks of the geography that lie far from the
    shape of their unit because of exchanged coordinates or a sign.
    """
    check_table(path, geography)
    path = Path(path)
    frame = _read(path, [code], [] if name is None else [name])
    unit = geography.unit_number(level, frame[code])
    _check_units(path, frame[code], unit, geography, level)
    inside = np.flatnonzero(unit >= 0)
    inside = inside[np.argsort(unit[inside], kind="stable")]
    geometry = shapely.force_2d(_polygons_of(path, frame.iloc[inside]).to_crs(_DEGREES).to_numpy())
    bounds = shapely.bounds(geometry)
    refuse_any(
        path,
        "shapes are outside the world",
        (~(np.abs(bounds) <= [180, 90, 180, 90]).all(axis=1)).sum(),
        fix="write the coordinate reference system of the coordinates into the file",
    )
    invalid = ~shapely.is_valid(geometry)
    geometry[invalid] = shapely.make_valid(geometry[invalid], method="structure", keep_collapsed=False)
    kept = ~shapely.is_empty(geometry)  # what has no area has no shape
    shapes = gpd.GeoDataFrame(
        {level: frame[code].to_numpy()[inside[kept]]}, geometry=geometry[kept], crs=_DEGREES
    ).astype({level: "str"})
    placed = _placed(geography, level)
    counts = {
        f"shapes are of no unit of {level}, and left out": len(frame) - inside.size,
        f"shapes of {level} are made valid": int(invalid.sum()),
        f"units of {level} have no shape, of {placed:,}": placed - len(shapes),
    }
    notes = tuple(f"{path.name}: {counted(count, remark)}" for remark, count in counts.items() if count)
    numbers, bounds = unit[inside][kept], shapely.bounds(geometry[kept])
    notes += tuple(check_places_in_shapes(path, geography, level, numbers, bounds))
    if name is None:
        return Polygons(shapes, notes)
    names = np.full(geography.n_units(level), "", object)
    names[unit[inside]] = clean_names(frame[name]).to_numpy(dtype=object)[inside]
    names[names == geography.codes(level)] = ""
    return Polygons(shapes, notes, names)


def read_centroids(
    path: str | os.PathLike[str],
    codes: Sequence[str],
    latitude: str,
    longitude: str,
    names: Sequence[str],
    optional: Sequence[str],
) -> pd.DataFrame:
    """Read codes, names and centroids of a file of polygons.

    One row a block: `codes` as ``str``, `names` (and those of `optional` that the file has) as categoricals,
    and the centroid in degrees WGS84 under the names given for it.
    """
    frame = _read(Path(path), codes, names)
    centres = _polygons_of(Path(path), frame).to_crs(_EQUAL_AREA).centroid.to_crs(_DEGREES)
    result = pd.DataFrame({name: frame[name].astype("str") for name in codes})
    for name in (*names, *(name for name in optional if name in frame)):
        result[name] = frame[name].astype("str").astype("category")
    return result.assign(**{latitude: centres.y.to_numpy(), longitude: centres.x.to_numpy()})


def _read(path: Path, codes: Sequence[str], names: Sequence[str]) -> gpd.GeoDataFrame:
    """Read a file whose columns `codes` must be text, and complete; those of names may be anything."""
    refuse_no_file(path)
    with path.open("rb") as file:
        parquet = file.read(4) == b"PAR1"
    frame = None
    with suppress(Exception):  # those of several libraries, which quote the file's content
        frame = gpd.read_parquet(path, page_checksum_verification=True) if parquet else gpd.read_file(path)
    if not isinstance(frame, gpd.GeoDataFrame) or frame.empty:
        raise InputError(
            path,
            "the file has no polygons that can be read",
            fix="name a GeoParquet, GeoPackage, GeoJSON or shapefile, or columns of latitude and longitude",
        )
    note_rows(path, len(frame))
    missing = [name for name in (*codes, *names) if name not in frame]
    if missing:
        raise InputError(
            path,
            f"missing columns: {', '.join(missing)}; the file has: {', '.join(map(str, frame.columns))}",
            fix="name the columns of this file, or use the file that has them",
        )
    for name in codes:
        if not pd.api.types.is_string_dtype(frame[name]):
            raise InputError(
                path,
                "codes are not text",
                column=name,
                count=len(frame),
                fix="write codes as text, with their leading zeros",
            )
        texts = pa.array(frame[name], pa.large_string())
        plain = plain_texts(texts)
        blank = (pc.fill_null(plain, "").to_pandas() == "").sum()
        refuse_any(path, "codes are missing", blank, column=name, fix="write the code of each row")
        refuse_spellings(path, name, pc.unique(texts), shown=True)
        frame[name] = plain.to_pandas().array
    return frame


def _polygons_of(path: Path, frame: gpd.GeoDataFrame) -> gpd.GeoSeries:
    """Return the polygons of rows, of which each must have one."""
    geometry = frame.geometry
    refuse_any(
        path,
        "rows have no geometry",
        (geometry.isna() | geometry.is_empty).sum(),
        fix="add the polygons, or remove these rows",
    )
    refuse_any(
        path,
        "rows have geometry that is no polygon",
        (~geometry.geom_type.isin(["Polygon", "MultiPolygon"])).sum(),
        fix="use polygons, or for points a table with columns of latitude and longitude",
    )
    if geometry.crs is None:
        raise InputError(
            path, "no coordinate reference system is named", fix="write it into the file, such as EPSG:4326"
        )
    return geometry


def _check_units(path: Path, codes: pd.Series, unit: np.ndarray, geography: Geography, level: str) -> None:
    """Refuse codes that are not meant for these units, or name one twice."""
    for which, rule, fix in misspelled(geography, level, codes.astype("str")):
        refuse_any(path, rule, which.sum(), column=str(codes.name), fix=fix)
    located = unit[unit >= 0]
    refuse_any(
        path,
        "rows repeat a unit of an earlier row",
        located.size - np.unique(located).size,
        column=str(codes.name),
        fix="join the polygons of each unit into one row",
    )
    placed = _placed(geography, level)
    if located.size < _LEAST_SHARE * placed:
        raise InputError(
            path,
            f"of {placed:,} units of {level} have a shape, which is too few",
            column=str(codes.name),
            count=located.size,
            fix="name shapes of this level and of the vintage of the geography, or leave them out",
        )


def _placed(geography: Geography, level: str) -> int:
    """Return how many units of a level are somewhere, unlike external zones."""
    return geography.n_units(level) - np.unique(geography.unit_of(level, geography.external_blocks)).size
