"""Water and main roads on a map, for orientation, from files that whoever makes the map names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import shapely

import geo_data
from pipelines.views.release import Release

_AROUND = 0.15  # of the region's larger side: so far beyond it
_DETAIL = 1 / 5000  # of that side; finer detail is left out, as of the areas
_DECIMALS = 5
_PLACES = 250_000  # which take about 3 MB of a map
_KINDS = {"water": ("Polygon", "LineString"), "roads": ("LineString",)}
_SIMPLE = {"LinearRing": "LineString"}


@dataclass(frozen=True)
class Backdrop:
    """Files of shapes that are drawn over the areas of a map, and choose nothing."""

    attribution: str  # Who made them, as their licence asks to be named: stands on the map
    # Polygons and lines: GeoPackage, FlatGeobuf, or whatever else GDAL reads, or GeoParquet
    water: Path | None = None
    roads: Path | None = None  # Lines


def backdrop_shapes(
    release: Release, backdrop: Backdrop, bounds: tuple[float, float, float, float]
) -> dict[str, list[list[Any]]]:
    """Return what is drawn of the files, near the region and simplified, as GeoJSON geometries."""
    shapes = {}
    for kind, kinds_of_shapes in _KINDS.items():
        path = getattr(backdrop, kind)
        if path is not None:
            shapes[kind] = _shapes(release, path, kind, kinds_of_shapes, bounds)
    return shapes


def _shapes(
    release: Release,
    path: Path,
    kind: str,
    kinds_of_shapes: tuple[str, ...],
    bounds: tuple[float, float, float, float],
) -> list[Any]:
    west, south, east, north = bounds
    side = max(east - west, north - south)
    geometry = np.asarray(_read(path).to_crs("EPSG:4326").array)
    geometry = shapely.force_2d(geometry[~(shapely.is_missing(geometry) | shapely.is_empty(geometry))])
    geometry = shapely.transform(geometry, lambda xy: np.column_stack([release.unbroken(xy[:, 0]), xy[:, 1]]))
    around = _AROUND * side
    # It takes any shape, invalid ones too, and in little time.
    clipped = shapely.clip_by_rect(geometry, west - around, south - around, east + around, north + around)
    simple = shapely.simplify(clipped, _DETAIL * side, preserve_topology=False)
    parts = shapely.get_parts(shapely.get_parts(simple))  # of collections, those of several
    kinds = np.array([_SIMPLE.get(part.geom_type, part.geom_type) for part in parts], object)
    size = np.where(kinds == "Polygon", np.sqrt(shapely.area(parts)), shapely.length(parts))
    # What is no larger than a pixel or two is not seen.
    parts = parts[np.isin(kinds, kinds_of_shapes) & (size > 2 * _DETAIL * side)]
    if not parts.size:
        raise geo_data.InputError(
            path,
            f"there are no {' or '.join(name.lower() + 's' for name in kinds_of_shapes)} near the region",
            fix=f"name a file with {kind} of the region",
        )
    if (places := int(shapely.get_num_coordinates(parts).sum())) > _PLACES:
        raise geo_data.InputError(
            path,
            f"its {kind} have {places:,} corners near the region, and a map holds {_PLACES:,}",
            fix="leave small shapes out: keep main roads, or the larger waters",
        )
    rounded = shapely.transform(parts, lambda xy: np.round(xy, _DECIMALS))
    return [shapely.geometry.mapping(part) for part in rounded]


def _read(path: Path) -> gpd.GeoSeries:
    if not path.is_file():
        raise geo_data.InputError(path, "there is no such file", fix="check the path")
    try:
        if path.suffix == ".parquet":
            shapes = gpd.read_parquet(path, page_checksum_verification=True).geometry
        else:
            shapes = gpd.read_file(path).geometry
    except Exception:
        raise geo_data.InputError(
            path,
            "this is no file of shapes",
            fix="name a GeoPackage, FlatGeobuf or another file that GDAL reads",
        ) from None
    if shapes.crs is None:
        raise geo_data.InputError(
            path, "no coordinate reference system is named", fix="write it into the file, such as EPSG:4326"
        )
    return shapes
