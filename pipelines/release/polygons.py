"""Polygons of public units in a release: which levels have them, keeping them, checking them.

They are context for maps and figures. No worker is drawn by them, so the plan does not hold them: its
configuration names the files that they came from, and the checksums of the release cover what was kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geo_data.geography import Geography
from pipelines.storage.parquet_form import Kind, any_kind, check_form, is_text, read_rows

if TYPE_CHECKING:  # it takes its time
    import geopandas as gpd

POLYGON_FOLDER = "geo"

_KINDS = {"MultiPolygon": 6, "Polygon": 3}  # as GeoParquet and GEOS name them

# EPSG:4326 as PROJ 9.6 writes it: libraries of other versions would say it otherwise, and files would differ.
_MEMBERS = ("Transit", "G730", "G873", "G1150", "G1674", "G1762", "G2139", "G2296")
_EPSG_4326 = {
    "$schema": "https://proj.org/schemas/v0.7/projjson.schema.json",
    "type": "GeographicCRS",
    "name": "WGS 84",
    "datum_ensemble": {
        "name": "World Geodetic System 1984 ensemble",
        "members": [{"name": f"World Geodetic System 1984 ({member})"} for member in _MEMBERS],
        "ellipsoid": {"name": "WGS 84", "semi_major_axis": 6378137, "inverse_flattening": 298.257223563},
        "accuracy": "2.0",
        "id": {"authority": "EPSG", "code": 6326},
    },
    "coordinate_system": {
        "subtype": "ellipsoidal",
        "axis": [
            {"name": "Geodetic latitude", "abbreviation": "Lat", "direction": "north", "unit": "degree"},
            {"name": "Geodetic longitude", "abbreviation": "Lon", "direction": "east", "unit": "degree"},
        ],
    },
    "id": {"authority": "EPSG", "code": 4326},
}


def polygon_file(level: str) -> str:
    """Return the name of the file with the shapes of the units of a level, in the public folder."""
    return f"{POLYGON_FOLDER}/{level}.parquet"


def write_polygons(shapes: Mapping[str, gpd.GeoDataFrame], folder: Path) -> None:
    """Write polygons, by level, into the public folder: one file a level."""
    for level, frame in shapes.items():
        path = folder / polygon_file(level)
        path.parent.mkdir(exist_ok=True)
        table = _table(level, pa.chunked_array([frame[level]]), frame.geometry.to_numpy())
        pq.write_table(table, path, compression="zstd")


def _table(level: str, codes: pa.ChunkedArray, shapes: NDArray[np.object_]) -> pa.Table:
    """Return GeoParquet 1.1, all of whose notes follow from the shapes."""
    import shapely  # many a release has no polygons

    kinds = shapely.get_type_id(shapes)
    geometry = {
        "encoding": "WKB",
        "crs": _EPSG_4326,
        "geometry_types": [name for name, kind in _KINDS.items() if (kinds == kind).any()],
        "bbox": shapely.total_bounds(shapes).tolist(),
    }
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": geometry}}
    stored = pa.array(shapely.to_wkb(shapes, flavor="iso"), pa.binary())
    columns = {level: codes.cast(pa.large_string()), "geometry": stored}
    return pa.table(columns, metadata={"geo": json.dumps(geo)})


def check_polygons(folder: Path, geography: Geography, levels: tuple[str, ...]) -> str:
    """Check that the polygons in a public folder are what maps rely on, and say what was found.

    Each of the levels must have a file.
    """
    import shapely

    counts = []
    for level in levels:
        name = polygon_file(level)
        path = folder / name
        if not path.is_file():
            raise ValueError(f"{name} is missing")
        form: dict[str, Kind] = {level: is_text, "geometry": any_kind}
        check_form(path, form, frozenset({b"geo"}))
        table = read_rows(path)
        codes, stored = table[level], table["geometry"].to_pylist()
        unit = geography.unit_number(level, codes)
        if (np.diff(unit, prepend=-1) <= 0).any():
            raise ValueError(f"{name}: codes are not units of {level}, each once and in order")
        shapes = shapely.from_wkb(np.array(stored, object))
        polygons = np.isin(shapely.get_type_id(shapes), [*_KINDS.values()])
        flat = polygons & ~shapely.has_z(shapes)
        if not (flat & shapely.is_valid(shapes) & ~shapely.is_empty(shapes)).all():
            raise ValueError(f"{name}: shapes are not valid polygons in the plane")
        if stored != shapely.to_wkb(shapes, flavor="iso").tolist():
            raise ValueError(f"{name}: shapes are written in another way, or other bytes follow them")
        if not table.equals(_table(level, codes, shapes), check_metadata=True):
            raise ValueError(f"{name}: the notes are not those of these shapes in EPSG:4326")
        counts.append(f"{len(shapes):,} of {geography.n_units(level):,} {level}")
    return ", ".join(counts)
