"""Files of geographic information systems: GeoParquet, GeoPackage, FlatGeobuf, GeoJSON, PMTiles.

The geometry of a zone is stored once, in the layer of zones; flows refer to it by code. FlatGeobuf and
GeoJSON are for drawing, so flows are straight lines there, of two points each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import shapely

from pipelines.views.exports.source import ENDS, Source

__all__ = ["write_flatgeobuf", "write_geojson", "write_geopackage", "write_geoparquet", "write_pmtiles"]

_CLOSEST_ZOOM = 10  # of vector tiles: one of 40 km in steps of 10 m; viewers enlarge it further
_LARGEST_TILE = 2_000_000_000  # bytes, beyond all: at a smaller limit GDAL makes tiles coarser


def write_geoparquet(source: Source, folder: Path) -> list[str]:
    """Write the zones as GeoParquet 1.1 with a covering bounding box, and the flows as plain Parquet."""
    for level, zones in source.zones.items():
        described = zones.copy(deep=False)
        described.attrs = source.about
        described.to_parquet(
            folder / source.name(f"zones_{level}", "parquet"),
            index=False,
            compression="zstd",
            schema_version="1.1.0",
            write_covering_bbox=True,
        )
    batches = _batches(source.flow_tables())
    schema = batches.schema.with_metadata(source.about)
    with pq.ParquetWriter(
        folder / source.name(source.flows_name, "parquet"), schema, compression="zstd"
    ) as file:
        for batch in batches:
            file.write_batch(batch.replace_schema_metadata(source.about))
    return source.without_shape("have no geometry")


def write_geopackage(source: Source, folder: Path) -> list[str]:
    """Write one GeoPackage: a layer of zones for each level, and the flows as a table without geometry."""
    path = folder / source.name(source.flows_name, "gpkg")
    for level, zones in source.zones.items():
        pyogrio.write_dataframe(
            zones,
            path,
            layer=f"zones_{level}",
            driver="GPKG",
            layer_metadata=source.about,
        )
    flows = _batches(source.flow_tables())
    pyogrio.write_arrow(flows, path, layer="flows", driver="GPKG", layer_metadata=source.about)
    return source.without_shape("have no geometry")


def write_flatgeobuf(source: Source, folder: Path) -> list[str]:
    """Write zones and flow lines as FlatGeobuf files with a spatial index."""
    return _write_layers(
        source, folder, "fgb", "FlatGeobuf", TITLE=source.about["title"], DESCRIPTION=source.sentence
    )


def write_geojson(source: Source, folder: Path) -> list[str]:
    """Write zones and flow lines as GeoJSON (RFC 7946)."""
    return _write_layers(source, folder, "geojson", "GeoJSON", RFC7946="YES", DESCRIPTION=source.sentence)


def write_pmtiles(source: Source, folder: Path) -> list[str]:
    """Write the zones as vector tiles in one PMTiles archive for each level."""
    for level, zones in source.placed_zones.items():
        pyogrio.write_dataframe(
            zones,
            folder / source.name(f"zones_{level}", "pmtiles"),
            layer="zones",
            driver="PMTiles",
            MINZOOM=_first_zoom(zones),
            MAXZOOM=_CLOSEST_ZOOM,
            MAX_SIZE=_LARGEST_TILE,
            MAX_FEATURES=len(zones),
            NAME=source.about["title"],
            DESCRIPTION=source.sentence,
        )
    projection = "Tiles are in Web Mercator (EPSG:3857), which their format demands."
    return [projection, *source.without_shape("are not in the tiles")]


def _first_zoom(zones: gpd.GeoDataFrame) -> int:
    """Return the zoom at which all zones are a quarter as wide as a tile; from afar small ones vanish."""
    west, south, east, north = zones.total_bounds
    degrees = max(east - west, north - south, 0.01)
    return int(np.clip(np.floor(np.log2(360 / degrees)) - 2, 0, _CLOSEST_ZOOM))


def _write_layers(source: Source, folder: Path, suffix: str, driver: str, **options: str) -> list[str]:
    """Write zones and lines, each to a file of its own, without what has no geometry."""
    for level, zones in source.placed_zones.items():
        path = folder / source.name(f"zones_{level}", suffix)
        pyogrio.write_dataframe(zones, path, layer=f"zones_{level}", driver=driver, **options)
    drawn = 0

    def lines() -> Iterator[pd.DataFrame]:
        nonlocal drawn
        for journeys in source.journeys():
            drawn += int(journeys["S000"].sum())
            points = journeys[ENDS].to_numpy().reshape(-1, 2, 2)
            shapes = shapely.linestrings(points) if len(points) else np.array([], object)
            yield journeys.drop(columns=ENDS).assign(geometry=shapely.to_wkb(shapes))

    pyogrio.write_arrow(
        _batches(lines(), geometry=pa.binary()),
        folder / source.name(source.flows_name, suffix),
        layer="flows",
        driver=driver,
        geometry_name="geometry",
        geometry_type="LineString",
        crs="EPSG:4326",
        **options,
    )
    return [*source.without_shape("are left out"), *source.not_drawn(drawn)]


def _batches(tables: Iterator[pd.DataFrame], **others: pa.DataType) -> pa.RecordBatchReader:
    """Return a stream of tables, of which one at a time is in memory; codes are text."""
    kinds = {"work": pa.string(), "home": pa.string(), **others}
    first = next(tables)
    schema = pa.schema([(name, kinds.get(name, pa.int64())) for name in first.columns.tolist()])
    batches = (
        pa.RecordBatch.from_pandas(table, schema, preserve_index=False)
        for table in itertools.chain([first], tables)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)
