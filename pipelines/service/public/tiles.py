"""Vector tiles of areas: made once of each level, and read from a PMTiles archive."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pyogrio
from pmtiles.reader import MmapSource, Reader

from pipelines.service.public.areas import Areas, Shapes, read_areas
from pipelines.service.public.flow_queries import FlowTables
from pipelines.storage.durable import sync_tree
from pipelines.views.release import Release

LAYER = "areas"
"""The layer of a tile."""

CLOSEST_ZOOM = 10
"""Of a tile: one of 40 km in steps of 10 m; viewers enlarge it further."""

_LARGEST_TILE = 2_000_000_000  # bytes, beyond all: at a smaller limit GDAL makes tiles coarser
_MOST_AREAS = 50_000  # of a level that has tiles; of more, tiles from afar would hold all of them
_COLORS = ("#f7fbff", "#c6dbef", "#6baed6", "#2171b5", "#08306b")  # ColorBrewer, Blues


def write_tiles(release: Release, flows: Path, folder: Path) -> None:
    """Write an archive for each level, and each kind of areas that cut across them."""
    folder.mkdir()
    tables = FlowTables(flows)
    for level in release.kinds_of_areas:
        if release.geography.n_units(level) <= _MOST_AREAS:
            areas = read_areas(release, tables, level)
            frame = gpd.GeoDataFrame(
                areas.table.select(["code", "name", "home_S000", "work_S000"]).to_pandas(),
                geometry=Shapes.of(release, areas).shapes,
                crs="EPSG:4326",
            )
            placed = frame[frame.geometry.notna()]
            if len(placed):
                _write(placed, archive(folder, level))
    sync_tree(folder)


def _write(frame: gpd.GeoDataFrame, path: Path) -> None:
    west, south, east, north = frame.total_bounds
    degrees = max(east - west, north - south, 0.01)
    # All areas are a quarter as wide as a tile; from afar small ones vanish.
    first = int(np.clip(np.floor(np.log2(360 / degrees)) - 2, 0, CLOSEST_ZOOM))
    pyogrio.write_dataframe(
        frame,
        path,
        layer=LAYER,
        driver="PMTiles",
        MINZOOM=first,
        MAXZOOM=CLOSEST_ZOOM,
        MAX_SIZE=_LARGEST_TILE,
        MAX_FEATURES=len(frame),
    )


def archive(folder: Path, level: str) -> Path:
    """Return where the tiles of a level are in the folder that `write_tiles` made, if it has any."""
    return folder / f"{level}.pmtiles"


def zoom_levels(folder: Path, level: str) -> tuple[int, int] | None:
    """Return the first and the last zoom level of the tiles of a level; None if it has none."""
    try:
        with archive(folder, level).open("rb") as file:
            header = Reader(MmapSource(file)).header()
    except FileNotFoundError:
        return None
    return int(header["min_zoom"]), int(header["max_zoom"])


def read_tile(path: Path, z: int, x: int, y: int) -> bytes | None:
    """Return a tile; None if nothing is in it."""
    with path.open("rb") as file:
        tile = Reader(MmapSource(file)).get(z, x, y)
    return None if tile is None else gzip.decompress(tile)


def tile_json(path: Path, level: str, title: str, tiles: str, note: str) -> dict[str, Any]:
    """Return the TileJSON 3.0 of an archive."""
    with path.open("rb") as file:
        header = Reader(MmapSource(file)).header()
    bounds = [header[f"{side}_e7"] / 1e7 for side in ("min_lon", "min_lat", "max_lon", "max_lat")]
    fields = {
        "code": "Code of the area",
        "name": "Name of the area",
        "home_S000": "Who lives there and works",
        "work_S000": "Who works there",
    }
    return {
        "tilejson": "3.0.0",
        "name": f"{title}: {level}",
        "description": note,
        "tiles": [tiles],
        "minzoom": header["min_zoom"],
        "maxzoom": header["max_zoom"],
        "bounds": bounds,
        "vector_layers": [{"id": LAYER, "fields": fields}],
    }


def style(described: dict[str, Any], areas: Areas, kind: str) -> dict[str, Any]:
    """Return a MapLibre style: areas, darker where more people work."""
    jobs = areas.table.column("work_S000").to_numpy()
    steps = np.unique(np.quantile(jobs, [0.2, 0.4, 0.6, 0.8], method="higher") if jobs.size else [])
    # Classes without numbers below their first step are left out.
    starts = [0, *steps[steps > 0].tolist()]
    about, value = {"source": LAYER, "source-layer": LAYER}, ["get", "work_S000"]
    layers: list[dict[str, Any]] = []
    # A layer for each class, with a filter: QGIS 3.22 draws no colours that depend on a number.
    for k, (least, below, color) in enumerate(zip(starts, [*starts[1:], None], _COLORS, strict=False)):
        within = ["all", [">=", value, least], *([] if below is None else [["<", value, below]])]
        paint: dict[str, Any] = {"fill-color": color, "fill-opacity": 0.8}
        if kind == "point":
            paint = {"circle-color": color, "circle-radius": 3, "circle-stroke-color": "#555555"}
            paint["circle-stroke-width"] = 0.5
        drawn = "circle" if kind == "point" else "fill"
        layers += [{"id": f"{drawn}-{k + 1}", "type": drawn, **about, "filter": within, "paint": paint}]
    if kind == "polygon":
        layers += [
            {"id": "line", "type": "line", **about, "paint": {"line-color": "#555555", "line-width": 0.5}}
        ]
    west, south, east, north = described["bounds"]
    return {
        "version": 8,
        "name": described["name"],
        "center": [(west + east) / 2, (south + north) / 2],
        "zoom": described["minzoom"] + 1,
        "sources": {
            LAYER: {
                "type": "vector",
                **{key: described[key] for key in ("tiles", "minzoom", "maxzoom", "bounds")},
            }
        },
        "layers": layers,
    }
