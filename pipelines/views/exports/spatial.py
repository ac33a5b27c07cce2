"""Files of geographic information systems: GeoParquet, GeoPackage, FlatGeobuf, GeoJSON, PMTiles.

The geometry of a zone is stored once, in the layer of zones; flows refer to it by code. FlatGeobuf and
GeoJSON are for drawing, so flows are straight lines there, of two points each.
"""

from __future__ import annotations

import gzip
import io
import itertools
import json
import shutil
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyogrio
import pyproj
import shapely

from pipelines.views.exports.source import ENDS, ExportError, Source, column_type
from pipelines.views.exports.workers import Workers

_CLOSEST_ZOOM = 10  # of vector tiles: one of 40 km in steps of 10 m; viewers enlarge it further
MOST_TRIPS = 1_000_000
"""Workers of `write_trips`: more lines are more than programs load as GeoJSON."""

_LARGEST_TILE = 2_000_000_000  # bytes, beyond all: at a smaller limit GDAL makes tiles coarser


def write_geoparquet(source: Source, folder: Path) -> list[str]:
    """Write the zones as GeoParquet 1.1 with a covering bounding box, and the flows as plain Parquet."""
    for level, zones in source.zones.items():
        described = zones.copy(deep=False)
        described.attrs = source.about
        written = io.BytesIO()
        described.to_parquet(written, index=False, schema_version="1.1.0", write_covering_bbox=True)
        table = pq.read_table(written)
        schema = pa.schema([_field(source.meanings, field) for field in table.schema])
        metadata = {**table.schema.metadata, **_key_values(source, zones)}
        table = pa.Table.from_arrays(table.columns, schema=schema.with_metadata(metadata))
        pq.write_table(table, folder / source.name(f"zones_{level}", "parquet"), compression="zstd")
    batches = _batches(source.meanings, source.flow_tables())
    metadata = _key_values(source, batches.schema.names)
    schema = batches.schema.with_metadata(metadata)
    with pq.ParquetWriter(
        folder / source.name(source.flows_name, "parquet"), schema, compression="zstd"
    ) as file:
        for batch in batches:
            file.write_batch(batch.replace_schema_metadata(metadata))
    return source.without_shape("no geometry")


def _key_values(source: Source, columns: Iterable[str]) -> dict[str, str]:
    return source.about | {"columns": json.dumps(source.meanings_of(columns), ensure_ascii=False)}


def write_geopackage(source: Source, folder: Path) -> list[str]:
    """Write one GeoPackage: layers of zones, further shapes and blocks; tables of flows and names."""
    path = folder / source.name(source.flows_name, "gpkg")
    for level, zones in source.zones.items():
        _write_zones(source, zones, path, f"zones_{level}", "GPKG", layer_metadata=source.about)
    flows = _batches(source.meanings, source.flow_tables())
    pyogrio.write_arrow(flows, path, layer="flows", driver="GPKG", layer_metadata=source.about)
    for level, shapes in source.other_shapes():
        _write_zones(source, shapes, path, f"shapes_{level}", "GPKG", layer_metadata=source.about)
    for name, tables, meanings in source.public_tables("blocks", "names"):
        placed = {"geometry_name": "geometry", "geometry_type": "Point", "crs": "EPSG:4326"}
        pyogrio.write_arrow(
            _batches(meanings, map(_with_points, tables) if name == "blocks" else tables),
            path,
            layer=name,
            driver="GPKG",
            layer_metadata=source.about,
            **(placed if name == "blocks" else {}),
        )
    return source.without_shape("no geometry")


def _with_points(blocks: pd.DataFrame) -> pd.DataFrame:
    """Return blocks with their points; external zones have none."""
    points = shapely.points(blocks[["longitude", "latitude"]].to_numpy(float))
    points[blocks["latitude"].isna()] = None
    return blocks.assign(geometry=shapely.to_wkb(points))


def write_flatgeobuf(source: Source, folder: Path) -> list[str]:
    """Write zones and flow lines as FlatGeobuf files with a spatial index."""

    def options(columns: Iterable[str]) -> dict[str, Any]:  # a column's meaning goes with the column
        title = {"TITLE": source.about["title"], "DESCRIPTION": source.sentence}
        return title | {"layer_metadata": source.about}

    return _write_layers(source, folder, "fgb", "FlatGeobuf", options)


def write_geojson(source: Source, folder: Path) -> list[str]:
    """Write zones and flow lines as GeoJSON (RFC 7946), with foreign members that say what they are."""

    def options(columns: Iterable[str]) -> dict[str, Any]:
        members = {"type": "FeatureCollection", **source.about, "columns": source.meanings_of(columns)}
        native = {"NATIVE_DATA": json.dumps(members), "NATIVE_MEDIA_TYPE": "application/vnd.geo+json"}
        return native | {"RFC7946": "YES"}

    return _write_layers(source, folder, "geojson", "GeoJSON", options)


def write_trips(source: Source, folder: Path) -> list[str]:
    """Write a line from home to workplace for each worker as GeoJSON, between points drawn in their areas."""
    workers = Workers(source)
    to_degrees = pyproj.Transformer.from_crs(workers.crs, "EPSG:4326", always_xy=True)
    without = 0

    def lines() -> Iterator[pd.DataFrame]:
        nonlocal without
        for table, points in workers.batches():
            if workers.drawn > MOST_TRIPS:
                raise ExportError(
                    f"trips: more than {MOST_TRIPS:,} workers are more than programs load as GeoJSON. Fix: "
                    "give a smaller sample, as with --sample 0.01"
                )
            longitude, latitude = to_degrees.transform(*points.reshape(-1, 2).T)
            degrees = np.column_stack([source.release.unbroken(longitude), latitude]).reshape(-1, 2, 2)
            long = (points[:, 0] != points[:, 1]).any(axis=1)
            without += int((~long).sum())
            shapes = shapely.linestrings(degrees[long]) if long.any() else np.array([], object)
            yield table[long].assign(geometry=shapely.to_wkb(shapes))

    members = {"type": "FeatureCollection", **workers.about, "columns": workers.meanings}
    pyogrio.write_arrow(
        _batches(source.meanings, lines()),
        folder / source.name("trips", "geojson"),
        layer="trips",
        driver="GeoJSON",
        geometry_name="geometry",
        geometry_type="LineString",
        crs="EPSG:4326",
        NATIVE_DATA=json.dumps(members),
        NATIVE_MEDIA_TYPE="application/vnd.geo+json",
        RFC7946="YES",
    )
    none = [str(source.say.lines_without_length(without))] if without else []
    return [*workers.remarks(), *none]


def write_pmtiles(source: Source, folder: Path) -> list[str]:
    """Write the zones as vector tiles in one PMTiles archive for each level."""
    for level, zones in source.placed_zones.items():
        path = folder / source.name(f"zones_{level}", "pmtiles")
        pyogrio.write_dataframe(
            zones,
            path,
            layer="zones",
            driver="PMTiles",
            MINZOOM=_first_zoom(zones),
            MAXZOOM=_CLOSEST_ZOOM,
            MAX_SIZE=_LARGEST_TILE,
            MAX_FEATURES=len(zones),
            NAME=source.about["title"],
            DESCRIPTION=source.sentence,
        )
        _describe_tiles(source, path, zones)
    return [source.say.projection, *source.without_shape("not in tiles")]


def _describe_tiles(source: Source, path: Path, zones: gpd.GeoDataFrame) -> None:
    """Put provenance and the meanings of columns, as TileJSON has them, into the metadata of an archive.

    An archive of PMTiles 3 has a header of 127 bytes, a directory, the metadata, further directories and the
    tiles; from byte 8 on, the header says where each of these four begins and how long it is. It is written
    anew with longer metadata, without a gap, so that checkers find every byte accounted for.
    """
    described = path.with_suffix(".described")
    with path.open("rb") as file, described.open("wb") as target:
        header = bytearray(file.read(127))
        numbers = struct.unpack("<8Q", header[8:72])
        root, old, leaves, tiles = ((numbers[i], numbers[i + 1]) for i in range(0, 8, 2))
        metadata = json.loads(gzip.decompress(_part(file, old)))
        for layer in metadata["vector_layers"]:
            layer["fields"] |= source.meanings_of(zones)
        new = gzip.compress(json.dumps(metadata | source.about, ensure_ascii=False).encode(), mtime=0)
        begin = root[0] + root[1]
        after = begin + len(new)
        header[8:72] = struct.pack(
            "<8Q", *root, begin, len(new), after, leaves[1], after + leaves[1], tiles[1]
        )
        target.write(header)
        target.seek(root[0])
        target.write(_part(file, root) + new + _part(file, leaves))
        file.seek(tiles[0])
        shutil.copyfileobj(file, target)
    described.replace(path)


def _part(file: BinaryIO, place: tuple[int, int]) -> bytes:
    file.seek(place[0])
    return file.read(place[1])


def _first_zoom(zones: gpd.GeoDataFrame) -> int:
    """Return the zoom at which all zones are a quarter as wide as a tile; from afar small ones vanish."""
    west, south, east, north = zones.total_bounds
    degrees = max(east - west, north - south, 0.01)
    return int(np.clip(np.floor(np.log2(360 / degrees)) - 2, 0, _CLOSEST_ZOOM))


def _write_layers(
    source: Source,
    folder: Path,
    suffix: str,
    driver: str,
    options: Callable[[Iterable[str]], dict[str, Any]],
) -> list[str]:
    """Write zones and lines, each to a file, without what has no geometry; with options of the driver."""
    for level, zones in source.placed_zones.items():
        path = folder / source.name(f"zones_{level}", suffix)
        _write_zones(source, zones, path, f"zones_{level}", driver, **options(zones))
    drawn = 0

    def lines() -> Iterator[pd.DataFrame]:
        nonlocal drawn
        for journeys in source.journeys():
            drawn += int(journeys["S000"].sum())
            points = journeys[ENDS].to_numpy().reshape(-1, 2, 2)
            shapes = shapely.linestrings(points) if len(points) else np.array([], object)
            yield journeys.drop(columns=ENDS).assign(geometry=shapely.to_wkb(shapes))

    batches = _batches(source.meanings, lines())
    pyogrio.write_arrow(
        batches,
        folder / source.name(source.flows_name, suffix),
        layer="flows",
        driver=driver,
        geometry_name="geometry",
        geometry_type="LineString",
        crs="EPSG:4326",
        **options(batches.schema.names),
    )
    return [*source.without_shape("left out"), *source.not_drawn(drawn)]


def _write_zones(
    source: Source, zones: gpd.GeoDataFrame, path: Path, layer: str, driver: str, **options: Any
) -> None:
    """Write a layer of zones; polygons are multipolygons where one of them is."""
    shapes = zones.geometry.to_numpy()
    kinds = set(zones.geom_type.dropna())
    if kinds == {"Polygon", "MultiPolygon"}:
        single = zones.geom_type.to_numpy() == "Polygon"
        shapes[single] = shapely.multipolygons(shapes[single][:, None])
        kinds = {"MultiPolygon"}
    table = pd.DataFrame(zones.drop(columns="geometry")).assign(geometry=shapely.to_wkb(shapes))
    pyogrio.write_arrow(
        _batches(source.meanings, iter([table])),
        path,
        layer=layer,
        driver=driver,
        geometry_name="geometry",
        geometry_type=kinds.pop() if len(kinds) == 1 else "Unknown",
        crs="EPSG:4326",
        **options,
    )


def _batches(meanings: Mapping[str, str], tables: Iterator[pd.DataFrame]) -> pa.RecordBatchReader:
    """Return a stream of tables, of which one at a time is in memory; columns have their meanings."""
    first = next(tables)
    schema = pa.schema([_field(meanings, pa.field(name, _kind(column))) for name, column in first.items()])
    batches = (
        pa.RecordBatch.from_pandas(table, schema, preserve_index=False)
        for table in itertools.chain([first], tables)
    )
    return pa.RecordBatchReader.from_batches(schema, batches)


def _kind(column: pd.Series) -> pa.DataType:
    if column.name == "geometry":
        return pa.binary()
    return {"integer": pa.int64(), "double": pa.float64(), "string": pa.string()}[column_type(column)]


def _field(meanings: Mapping[str, str], field: pa.Field) -> pa.Field:
    """Return a field with the meaning of its column, under the key from which GDAL takes it."""
    meaning = meanings.get(field.name)
    return field if meaning is None else field.with_metadata({"GDAL:OGR:comment": meaning})
