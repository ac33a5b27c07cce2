"""GeoParquet, GeoPackage, FlatGeobuf, GeoJSON and PMTiles, each opened by a reader that is not ours."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import geojson_pydantic
import geopandas as gpd
import mapbox_vector_tile
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pyogrio
import pyproj
import pytest
import shapely
from pmtiles.reader import MemorySource, MmapSource, Reader, all_tiles
from pmtiles.tile import Compression, TileType

from pipelines import open_release
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import polygon_file
from pipelines.views.exports.kepler import write_kepler
from pipelines.views.exports.source import Source
from pipelines.views.exports.spatial import write_flatgeobuf, write_geojson
from pipelines.views.exports.tables import write_flowmap

Exporter = Callable[..., tuple[Path, Source]]
ZONES, FLOWS = "demo_zones_trct_JT00_2019", "demo_flows_trct_to_trct_JT00_2019"
EXTERNAL = ["09999999999", "25999999999"]
SHAPELESS = 3  # two external zones, and the tract that the polygons lack


def check_totals(zones: pd.DataFrame, flows: pd.Series) -> None:
    """Zones have codes as text, and the workers that the rows of the release have."""
    assert zones["code"].str.fullmatch(r"\d{11}").all()
    assert zones["code"].is_unique
    counted = zones.set_index("code")
    for side in ("home", "work"):
        expected = flows.groupby(side).sum().reindex(counted.index, fill_value=0)
        assert counted[f"{side}_S000"].tolist() == expected.tolist()
        groups = counted[[f"{side}_SA0{number}" for number in (1, 2, 3)]].sum(axis=1)
        assert groups.tolist() == expected.tolist()


def check_flows(table: pd.DataFrame, flows: pd.Series) -> None:
    found = table.astype({"work": "str", "home": "str"}).set_index(["work", "home"])["S000"]
    pd.testing.assert_series_equal(found.sort_index(), flows.sort_index(), check_dtype=False)


def drawn(flows: pd.Series) -> pd.Series:
    """Flows that can be lines."""
    work, home = (flows.index.get_level_values(side) for side in ("work", "home"))
    return flows[(work != home) & ~home.isin(EXTERNAL)]


def test_geoparquet(exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported("geoparquet")
    zones = gpd.read_parquet(folder / f"{ZONES}.parquet")
    check_totals(zones, tract_flows)
    assert zones.crs == pyproj.CRS("EPSG:4326")
    assert zones.geometry.isna().sum() == SHAPELESS
    assert zones.attrs["plan_sha256"] == source.release.certificate.plan_sha256
    given = gpd.read_parquet(source.release.public / "geo" / "trct.parquet").set_index("trct").geometry
    assert zones.dropna().set_index("code").geometry.geom_equals(given).all()
    flows = pq.read_table(folder / f"{FLOWS}.parquet")
    assert flows.schema.metadata[b"epsilon"] == source.release.certificate.run.epsilon.encode()
    assert not {"geometry", "geo"} & {*flows.column_names, *map(bytes.decode, flows.schema.metadata)}
    check_flows(flows.to_pandas(), tract_flows)


def test_geoparquet_has_the_metadata_of_version_1_1(exported: Exporter) -> None:
    path = exported("geoparquet")[0] / f"{ZONES}.parquet"
    schema = pq.read_schema(path)
    geo = json.loads(schema.metadata[b"geo"])
    assert (geo["version"], geo["primary_column"]) == ("1.1.0", "geometry")
    column = geo["columns"]["geometry"]
    assert (column["encoding"], column["geometry_types"]) == ("WKB", ["Polygon"])
    # In GeoParquet the order is longitude, latitude whatever the CRS says, as in OGC:CRS84.
    assert pyproj.CRS.from_json_dict(column["crs"]).equals("EPSG:4326", ignore_axis_order=True)
    corners = ("xmin", "ymin", "xmax", "ymax")
    assert column["covering"] == {"bbox": {corner: ["bbox", corner] for corner in corners}}
    zones = pd.read_parquet(path)
    shapes = shapely.from_wkb(zones["geometry"])
    boxes = pd.json_normalize(zones["bbox"][shapes != None])[list(corners)]  # noqa: E711 - elementwise
    np.testing.assert_allclose(boxes, shapely.bounds(shapes[shapes != None]))  # noqa: E711


def test_duckdb_queries_geoparquet(exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported("geoparquet")
    path = str(folder / f"{FLOWS}.parquet")
    with duckdb.connect() as database:
        rows = database.execute("SELECT work, home, S000 FROM read_parquet(?)", [path]).fetchall()
        check_flows(pd.DataFrame(rows, columns=["work", "home", "S000"]), tract_flows)
        said = dict(database.execute("SELECT key, value FROM parquet_kv_metadata(?)", [path]).fetchall())
    assert {key: said[key.encode()].decode() for key in source.about} == source.about


def test_geoparquet_is_read_in_part(exported: Exporter) -> None:
    path = exported("geoparquet")[0] / f"{ZONES}.parquet"
    whole = gpd.read_parquet(path).dropna()
    box = tuple(whole.geometry.iloc[0].bounds)
    part = gpd.read_parquet(path, bbox=box)
    assert set(part["code"]) == set(whole["code"][whole.intersects(shapely.box(*box))])
    assert len(part) < len(whole)


def test_geopackage(exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported("geopackage")
    path = folder / f"{FLOWS}.gpkg"
    kinds = {"zones_trct": "Polygon", "blocks": "Point", "flows": None, "names": None}
    assert dict(pyogrio.list_layers(path).tolist()) == kinds
    zones = pyogrio.read_dataframe(path, layer="zones_trct")
    check_totals(zones, tract_flows)
    assert zones.crs == pyproj.CRS("EPSG:4326")
    assert zones.geometry.isna().sum() == SHAPELESS
    flows = pyogrio.read_dataframe(path, layer="flows")
    assert not isinstance(flows, gpd.GeoDataFrame)
    check_flows(flows, tract_flows)
    for layer in kinds:
        metadata = pyogrio.read_info(path, layer=layer)["layer_metadata"]
        assert metadata["plan_sha256"] == source.release.certificate.plan_sha256
        assert metadata["DESCRIPTION"] == source.sentence


def test_a_geopackage_has_blocks_names_and_the_shapes_of_other_levels(
    public: Path, exported: Exporter
) -> None:
    folder, source = exported("geopackage", "cty", "cty")
    (path,) = folder.glob("*.gpkg")
    shapes = pyogrio.read_dataframe(path, layer="shapes_trct")
    areas = source.release.areas("trct")
    assert shapes["code"].tolist() == areas["code"].tolist()
    assert shapes["name"].fillna("").tolist() == areas["name"].tolist()
    stored = gpd.read_parquet(public / polygon_file("trct")).set_index("trct")
    placed = shapes[shapes["code"].isin(stored.index)].set_index("code")
    assert placed.geometry.geom_equals(stored.geometry.loc[placed.index]).all()
    blocks = pyogrio.read_dataframe(path, layer="blocks")
    expected = pd.read_parquet(public / "plan" / "blocks.parquet").astype({"trct": "str"})
    assert blocks["tabblk2010"].tolist() == expected["tabblk2010"].tolist()
    assert blocks["trct"].tolist() == expected["trct"].tolist()
    inside = expected["longitude"].notna()
    assert blocks.geometry[inside].x.tolist() == expected["longitude"][inside].tolist()
    assert blocks.geometry[~inside].isna().all()
    assert (~inside).sum() == 2
    names = pyogrio.read_dataframe(path, layer="names")
    assert names.to_numpy().tolist() == pd.read_parquet(public / NAME_FILE).to_numpy().tolist()


def test_geopackage_is_one(exported: Exporter) -> None:
    """SQLite agrees: the file is sound, says what it is, and has an index of the zones in space."""
    path = exported("geopackage")[0] / f"{FLOWS}.gpkg"
    assert path.read_bytes()[68:72] == b"GPKG"
    database = sqlite3.connect(path)
    try:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        contents = "SELECT table_name, data_type, srs_id FROM gpkg_contents ORDER BY table_name"
        found = database.execute(contents).fetchall()
        assert [row[:2] for row in found] == [
            ("blocks", "features"),
            ("flows", "attributes"),
            ("names", "attributes"),
            ("zones_trct", "features"),
        ]
        assert found[0][2] == found[-1][2] == 4326
        index = "SELECT table_name FROM gpkg_extensions WHERE extension_name = 'gpkg_rtree_index'"
        assert sorted(database.execute(index).fetchall()) == [("blocks",), ("zones_trct",)]
        assert database.execute("SELECT typeof(home), typeof(S000) FROM flows").fetchone() == (
            "text",
            "integer",
        )
    finally:
        database.close()


@pytest.mark.parametrize(("name", "suffix"), [("flatgeobuf", "fgb"), ("geojson", "geojson")])
def test_zones_and_lines(name: str, suffix: str, exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported(name)
    zones = pyogrio.read_dataframe(folder / f"{ZONES}.{suffix}")
    check_totals(zones, tract_flows)
    assert len(zones) == source.release.geography.n_units("trct") - SHAPELESS
    lines = pyogrio.read_dataframe(folder / f"{FLOWS}.{suffix}")
    assert zones.crs == lines.crs == pyproj.CRS("EPSG:4326")
    check_flows(lines.drop(columns="geometry"), drawn(tract_flows))
    points = source.release.places("trct").set_index("code")
    for end, side in enumerate(("home", "work")):
        expected = points.loc[lines[side], ["longitude", "latitude"]].to_numpy()
        found = shapely.get_coordinates(shapely.get_point(lines.geometry.array, end))
        np.testing.assert_allclose(found, expected, atol=1e-6)
    missing = tract_flows.sum() - drawn(tract_flows).sum()
    readme = (folder / "README.txt").read_text(encoding="utf-8")
    assert f"{missing:,} of 600 workers have no line" in readme
    assert f"are left out: {SHAPELESS} of {source.release.geography.n_units('trct')}" in readme


def test_flatgeobuf_is_read_in_part(exported: Exporter) -> None:
    folder, source = exported("flatgeobuf")
    path = folder / f"{ZONES}.fgb"
    info = pyogrio.read_info(path)
    assert info["capabilities"]["fast_spatial_filter"]
    assert info["layer_metadata"]["DESCRIPTION"] == source.sentence
    whole = pyogrio.read_dataframe(path)
    box = tuple(whole.geometry.iloc[0].bounds)
    part = pyogrio.read_dataframe(path, bbox=box)
    assert set(part["code"]) == set(whole["code"][whole.intersects(shapely.box(*box))])


def test_geojson_is_rfc_7946(exported: Exporter) -> None:
    folder, source = exported("geojson")
    for stem in (ZONES, FLOWS):
        text = (folder / f"{stem}.geojson").read_text(encoding="utf-8")
        collection = geojson_pydantic.FeatureCollection.model_validate_json(text)
        document = json.loads(text)
        assert "crs" not in document, "RFC 7946 knows one CRS"
        assert document["description"] == source.sentence
        for feature in collection.features:
            geometry = shapely.from_geojson(feature.geometry.model_dump_json())
            if geometry.geom_type == "Polygon":
                assert geometry.exterior.is_ccw
            west, south, east, north = geometry.bounds
            assert -180 <= west <= east <= 180
            assert -90 <= south <= north <= 90


def test_pmtiles_says_what_it_is(exported: Exporter) -> None:
    folder, source = exported("pmtiles")
    with (folder / f"{ZONES}.pmtiles").open("rb") as file:
        reader = Reader(MmapSource(file))
        header, metadata = reader.header(), reader.metadata()
    assert (header["tile_type"], header["tile_compression"]) == (TileType.MVT, Compression.GZIP)
    west, south, east, north = source.zones["trct"].total_bounds
    first = int(np.log2(360 / max(east - west, north - south))) - 2  # as seen on a phone
    assert (header["min_zoom"], header["max_zoom"]) == (first, 10)
    extent = [header[f"{key}_e7"] / 1e7 for key in ("min_lon", "min_lat", "max_lon", "max_lat")]
    np.testing.assert_allclose(extent, source.zones["trct"].total_bounds, atol=1e-5)
    assert metadata["description"] == source.sentence
    (layer,) = metadata["vector_layers"]
    assert layer["id"] == "zones"
    assert layer["fields"] == source.meanings_of(source.zones["trct"])
    assert set(layer["fields"]) == set(source.zones["trct"].columns) - {"geometry"}
    assert metadata | source.about == metadata
    # Nothing is between or behind the parts that the header names, as `pmtiles verify` demands.
    parts = ("root", "metadata", "leaf_directory", "tile_data")
    end = 127
    for part in parts:
        assert header[f"{part}_offset"] == end
        end += header[f"{part}_length"]
    assert (folder / f"{ZONES}.pmtiles").stat().st_size == end


def test_every_zoom_has_every_zone(exported: Exporter, tract_flows: pd.Series) -> None:
    path = exported("pmtiles")[0] / f"{ZONES}.pmtiles"
    found: dict[int, list[dict[str, object]]] = {}
    with path.open("rb") as file:
        for (zoom, _, _), content in all_tiles(MmapSource(file)):
            features = mapbox_vector_tile.decode(gzip.decompress(content))["zones"]["features"]
            found.setdefault(zoom, []).extend(feature["properties"] for feature in features)
    assert max(found) == 10
    for properties in found.values():
        check_totals(pd.DataFrame(properties).drop_duplicates(), tract_flows)


def test_every_zone_is_where_it_should_be(exported: Exporter, public: Path) -> None:
    """At the closest zoom, the tile under a zone's middle has the zone around that point."""
    shapes = gpd.read_parquet(public / "geo" / "trct.parquet").to_crs("EPSG:3857")
    half = np.pi * 6378137.0  # of the width of the world in Web Mercator
    archive = MemorySource((exported("pmtiles")[0] / f"{ZONES}.pmtiles").read_bytes())
    for code, shape in zip(shapes["trct"], shapes.geometry, strict=True):
        middle = shape.representative_point()
        x, y = (middle.x + half) / (2 * half) * 2**10, (half - middle.y) / (2 * half) * 2**10
        content = Reader(archive).get(10, int(x), int(y))
        assert content is not None
        options = {"y_coord_down": True}
        layer = mapbox_vector_tile.decode(gzip.decompress(content), default_options=options)["zones"]
        point = shapely.Point((x % 1) * layer["extent"], (y % 1) * layer["extent"])
        around = [
            feature["properties"]["code"]
            for feature in layer["features"]
            if shapely.from_geojson(json.dumps(feature["geometry"])).buffer(2).covers(point)
        ]
        assert code in around


def test_polygons_of_parts_else_points(exported: Exporter, public: Path) -> None:
    """Tracts have polygons: those of a county are put together, blocks have none."""
    folder, source = exported("geoparquet", "cty", "tabblk2010")
    homes = gpd.read_parquet(folder / "demo_zones_cty_JT00_2019.parquet")
    works = gpd.read_parquet(folder / "demo_zones_tabblk2010_JT00_2019.parquet")
    tracts = gpd.read_parquet(public / "geo" / "trct.parquet")
    counties = tracts.dissolve(tracts["trct"].str[:5]).geometry
    assert homes["code"][homes.geometry.notna()].tolist() == counties.index.tolist()
    for shape, expected in zip(homes.geometry.dropna(), counties, strict=True):
        assert shape.symmetric_difference(expected).area < 1e-4 * expected.area
    assert homes["home_S000"].sum() == works["work_S000"].sum() == 600
    assert "work_S000" not in homes
    geography = source.release.geography
    inside = works.geometry.notna()
    assert works["code"][~inside].tolist() == [f"{code:9<15}" for code in geography.external_zones]
    np.testing.assert_array_equal(works.geometry[inside].x, geography.longitude[inside])


def test_across_the_antimeridian(public: Path, tmp_path: Path) -> None:
    """Lines do not go round the earth; points are where they are known to be."""
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    shutil.rmtree(copy / "geo")  # polygons are where the region was
    near = open_release(copy)
    there = near.geography.longitude + 180 - np.nanmean(near.geography.longitude)
    longitude = np.where(there > 180, there - 360, there)
    release = open_release(copy)
    vars(release)["geography"] = replace(near.geography, longitude=longitude)
    source = Source(release, "cty", "bgrp", tmp_path)
    for write in (write_flatgeobuf, write_geojson, write_kepler, write_flowmap):
        write(source, tmp_path)
    for suffix in ("fgb", "geojson"):
        lines = pyogrio.read_dataframe(tmp_path / f"demo_flows_cty_to_bgrp_JT00_2019.{suffix}").geometry
        assert shapely.length(lines.to_numpy()).max() < 5
        zones = pyogrio.read_dataframe(tmp_path / f"demo_zones_bgrp_JT00_2019.{suffix}").geometry
        assert zones.x.min() < -175 < 175 < zones.x.max()
        assert zones.x.abs().max() <= 180
    assert (lines.geom_type == "MultiLineString").any()  # cut at 180 degrees, as RFC 7946 wants
    document = json.loads((tmp_path / "kepler.gl.json").read_text(encoding="utf-8"))
    data = document["datasets"][0]["data"]
    arcs = pd.DataFrame(data["allData"], columns=[field["name"] for field in data["fields"]])
    assert (arcs["home_longitude"] - arcs["work_longitude"]).abs().max() < 5
    assert document["config"]["config"]["mapState"]["zoom"] > 6
    locations = pd.read_csv(tmp_path / "locations.csv")
    assert np.ptp(locations["lon"]) < 5


def test_two_levels_are_two_layers(exported: Exporter) -> None:
    for name in ("geopackage", "flatgeobuf", "geojson", "pmtiles"):
        folder, _ = exported(name, "cty", "trct")
        layers = {
            (layer if name == "geopackage" else path.name, geometry)
            for path in folder.iterdir()
            if path.suffix != ".txt"
            for layer, geometry in pyogrio.list_layers(path).tolist()
        }
        assert sum("zones_" in layer for layer, _ in layers) == 2
        assert {geometry for layer, geometry in layers if "zones_cty" in layer} <= {"MultiPolygon", "Unknown"}
