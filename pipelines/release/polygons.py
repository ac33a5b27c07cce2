"""Polygons of public units in a release: which levels have them, keeping them, checking them.

They are context for maps and figures. No worker is drawn by them, so the plan does not hold them: its
configuration names the files that they came from, and the checksums of the release cover what was kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from geo_data.geography import Geography
from pipelines.storage.parquet_form import Kind, any_kind, check_form, is_text

if TYPE_CHECKING:  # many a release has no polygons, and geopandas takes its time
    import geopandas as gpd

__all__ = [
    "POLYGON_FOLDER",
    "check_polygons",
    "polygon_file",
    "rewrite_polygons",
    "write_polygons",
]

POLYGON_FOLDER = "geo"


def polygon_file(level: str) -> str:
    """Return the name of the file with the shapes of the units of a level, in the public folder."""
    return f"{POLYGON_FOLDER}/{level}.parquet"


def write_polygons(shapes: Mapping[str, gpd.GeoDataFrame], folder: Path) -> None:
    """Write polygons, by level, into the public folder: one file a level."""
    for level, frame in shapes.items():
        path = folder / polygon_file(level)
        path.parent.mkdir(exist_ok=True)
        _write(frame, path)


def rewrite_polygons(path: Path, target: Any) -> None:
    """Write what a file of polygons holds to another file, as `write_polygons` would."""
    import geopandas as gpd

    _write(gpd.read_parquet(path), target)


def _write(frame: gpd.GeoDataFrame, target: Any) -> None:
    frame.to_parquet(target, index=False, compression="zstd")


def check_polygons(folder: Path, geography: Geography, levels: tuple[str, ...]) -> str:
    """Check that the polygons in a public folder are what maps rely on, and say what was found.

    Each of the levels must have a file.

    Raises
    ------
    ValueError
        If a file is missing or of another form, has codes that are not of its level or come twice, another
        reference system than EPSG:4326, or shapes that are not valid polygons.
    """
    import geopandas as gpd
    import shapely

    found = []
    for level in levels:
        name = polygon_file(level)
        if not (folder / name).is_file():
            raise ValueError(f"{name} is missing")
        form: dict[str, Kind] = {level: is_text, "geometry": any_kind}
        check_form(folder / name, form, frozenset({b"geo", b"pandas"}))
        frame = gpd.read_parquet(folder / name)
        unit = geography.unit_number(level, frame[level])
        if (np.diff(unit, prepend=-1) <= 0).any():
            raise ValueError(f"{name}: codes are not units of {level}, each once and in order")
        if frame.crs is None or frame.crs.to_epsg() != 4326:
            raise ValueError(f"{name}: the reference system is not EPSG:4326")
        shapes = frame.geometry.to_numpy()
        polygons = np.isin(shapely.get_type_id(shapes), [3, 6])  # polygon and multipolygon
        flat = polygons & ~shapely.has_z(shapes)
        if not (flat & shapely.is_valid(shapes) & ~shapely.is_empty(shapes)).all():
            raise ValueError(f"{name}: shapes are not valid polygons in the plane")
        stored = pq.read_table(folder / name, columns=["geometry"])["geometry"]
        if stored.to_pylist() != shapely.to_wkb(shapes, flavor="iso").tolist():
            raise ValueError(f"{name}: shapes are written in another way, or have more behind them")
        found.append(f"{len(frame):,} of {geography.n_units(level):,} {level}")
    return ", ".join(found)
