"""Places and shapes from polygons: in any format and reference system; what is left out; clear refusals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

from geo_data import Geography, read_crosswalk
from geo_data.polygons import Polygons, read_polygons

Refused = Callable[..., AbstractContextManager[None]]


def squares() -> gpd.GeoDataFrame:
    """Four squares of a tenth of a degree near Leeds, in two districts."""
    corners = [(-1.6, 53.8), (-1.5, 53.8), (-1.6, 53.7), (-1.5, 53.7)]
    return gpd.GeoDataFrame(
        {"zone": ["E02", "E01", "E03", "E04"], "district": ["N", "N", "S", "S"]},
        geometry=[shapely.box(x, y, x + 0.1, y + 0.1) for x, y in corners],
        crs="EPSG:4326",
    )


@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "parquet", "shp"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:27700"])
def test_blocks_lie_at_the_centroids(suffix: str, crs: str, tmp_path: Path) -> None:
    path = tmp_path / f"zones.{suffix}"
    frame = squares() if suffix == "geojson" else squares().to_crs(crs)
    frame.to_parquet(path) if suffix == "parquet" else frame.to_file(path)
    geography = read_crosswalk(path, block="zone", levels=("district",))
    assert geography.blocks.tolist() == ["E01", "E02", "E03", "E04"]
    assert geography.codes("district").tolist() == ["N", "S"]
    np.testing.assert_allclose(geography.latitude, [53.85, 53.85, 53.75, 53.75], atol=1e-3)
    np.testing.assert_allclose(geography.longitude, [-1.45, -1.55, -1.55, -1.45], atol=1e-3)


def test_leeds_zones_lie_where_their_centroids_are_published(shared_data: Path) -> None:
    folder = shared_data / "leeds_2011"
    ours = read_crosswalk(folder / "leeds_msoa_zones.geojson", block="msoa11cd", levels=())
    theirs = read_crosswalk(
        folder / "leeds_msoa_centroids.csv", block="geo_code", levels=(), centroid=("lat", "lon")
    )
    assert ours.blocks.tolist() == theirs.blocks.tolist()
    # Theirs are weighted by population, so they may be some way off, but inside the same city.
    assert np.abs(ours.latitude - theirs.latitude).max() < 0.03
    assert np.abs(ours.longitude - theirs.longitude).max() < 0.06


def test_what_cannot_be_used_is_refused(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "zones.geojson"
    with refused(path, "there is no such file"):
        read_crosswalk(path, block="zone", levels=())
    path.write_text("zone,x\nE01,1\n", encoding="utf-8")
    with refused(path, "the file has no polygons that can be read"):
        read_crosswalk(path, block="zone", levels=())
    squares().to_file(path)
    with refused(path, "missing columns: ward"):
        read_crosswalk(path, block="zone", levels=("ward",))
    squares().assign(zone=range(4)).to_file(path)
    with refused(path, "codes are not text", column="zone", count=4):
        read_crosswalk(path, block="zone", levels=())
    parquet = tmp_path / "zones.parquet"
    squares().assign(zone=["E01", "E01\u200b", "E03", "E04"]).to_parquet(parquet)
    with refused(parquet, r"several spellings, which differ only in", column="zone", count=1):
        read_crosswalk(parquet, block="zone", levels=())
    squares().assign(zone=["E01", " ", None, "E04"]).to_parquet(parquet)
    with refused(parquet, "codes are missing", column="zone", count=2):
        read_crosswalk(parquet, block="zone", levels=())
    bare = squares()
    bare.geometry = [*bare.geometry[:3], None]
    bare.to_parquet(parquet)
    with refused(parquet, "rows have no geometry", count=1):
        read_crosswalk(parquet, block="zone", levels=())
    squares().set_crs(None, allow_override=True).to_parquet(parquet)
    with refused(parquet, "no coordinate reference system is named"):
        read_crosswalk(parquet, block="zone", levels=())
    points = squares().set_geometry(squares().to_crs("EPSG:6933").centroid.to_crs("EPSG:4326"))
    points.to_parquet(parquet)
    with refused(parquet, "rows have geometry that is no polygon", count=4):
        read_crosswalk(parquet, block="zone", levels=())


@pytest.fixture
def zones(tmp_path: Path) -> Geography:
    """The four squares as blocks of two districts, and an external zone."""
    path = tmp_path / "geography.parquet"
    squares().to_parquet(path)
    return read_crosswalk(path, block="zone", levels=("district",), external_zones=["E9"])


@pytest.fixture
def shapes_of(tmp_path: Path, zones: Geography) -> Callable[[gpd.GeoDataFrame], Polygons]:
    """Write shapes of zones, and read them."""

    def read(frame: gpd.GeoDataFrame) -> Polygons:
        path = tmp_path / "shapes.parquet"
        frame.to_parquet(path)
        return read_polygons(path, zones, level="zone", code="zone")

    return read


@pytest.mark.parametrize(("suffix", "crs"), [("geojson", "EPSG:4326"), ("shp", "EPSG:27700")])
def test_shapes_are_those_of_the_file(suffix: str, crs: str, tmp_path: Path, zones: Geography) -> None:
    path = tmp_path / f"zones.{suffix}"
    frame = squares() if suffix == "geojson" else squares().to_crs(crs)
    frame.to_parquet(path) if suffix == "parquet" else frame.to_file(path)
    read = read_polygons(path, zones, level="zone", code="zone")
    assert read.notes == ()
    assert read.shapes.crs == "EPSG:4326"
    assert list(read.shapes.columns) == ["zone", "geometry"]
    assert read.shapes["zone"].tolist() == ["E01", "E02", "E03", "E04"]
    expected = squares().set_index("zone").loc[read.shapes["zone"]].geometry.to_numpy()
    assert (shapely.area(read.shapes.geometry.to_numpy() ^ expected) < 1e-6).all()


def test_a_coarser_level(tmp_path: Path, zones: Geography) -> None:
    path = tmp_path / "districts.gpkg"
    squares().dissolve("district").reset_index().to_file(path)
    read = read_polygons(path, zones, level="district", code="district")
    assert read.notes == ()  # the external zone is nowhere, and no shape of it is missed
    assert read.shapes["district"].tolist() == ["N", "S"]
    np.testing.assert_allclose(shapely.area(read.shapes.geometry.to_numpy()), 0.02)


def test_what_does_not_fit_is_left_out_and_noted(shapes_of: Callable[..., Polygons]) -> None:
    frame = squares()[["zone", "geometry"]]
    stranger = frame.iloc[[0]].assign(zone="E77")
    read = shapes_of(pd.concat([frame.iloc[[3, 0, 1]], stranger]))
    assert read.shapes["zone"].tolist() == ["E01", "E02", "E04"]
    assert read.notes == (
        "shapes.parquet: 1 shape is of no unit of zone, and left out",
        "shapes.parquet: 1 unit of zone has no shape, of 4",
    )


def test_shapes_are_made_valid_polygons(shapes_of: Callable[..., Polygons]) -> None:
    frame = squares().set_index("zone", drop=False)
    x, y = -1.5, 53.8
    bow_tie = shapely.Polygon([(x, y), (x + 0.1, y + 0.1), (x + 0.1, y), (x, y + 0.1)])
    needle = shapely.Polygon([(-1.6, 53.7), (-1.5, 53.7), (-1.6, 53.7)])
    frame.loc["E01", "geometry"], frame.loc["E03", "geometry"] = bow_tie, needle
    frame.loc["E04", "geometry"] = shapely.force_3d(frame.loc["E04", "geometry"], 7)
    read = shapes_of(frame)
    assert read.shapes["zone"].tolist() == ["E01", "E02", "E04"]  # a needle has no area, and so no shape
    assert read.shapes.is_valid.all()
    assert not read.shapes.has_z.any()
    assert shapely.area(read.shapes.geometry[0]) == pytest.approx(0.005)
    assert read.notes == (
        "shapes.parquet: 2 shapes of zone are made valid",
        "shapes.parquet: 1 unit of zone has no shape, of 4",
    )


def test_shapes_that_cannot_be_meant_are_refused(
    tmp_path: Path, zones: Geography, shapes_of: Callable[..., Polygons], refused: Refused
) -> None:
    path = tmp_path / "shapes.parquet"
    frame = squares()[["zone", "geometry"]]
    with refused(path, "missing columns: ward"):
        shapes_of(frame)
        read_polygons(path, zones, level="zone", code="ward")
    with refused(path, "rows repeat a unit of an earlier row", column="zone", count=1):
        shapes_of(frame.assign(zone=["E01", "E01", "E03", "E04"]))
    with refused(path, "of 4 units of zone have a shape", column="zone", count=1):
        shapes_of(frame.assign(zone=["E01", "W02", "W03", "W04"]))
    with refused(path, "shapes are outside the world", count=4):
        shapes_of(frame.to_crs("EPSG:27700").set_crs("EPSG:4326", allow_override=True))


@pytest.mark.parametrize("mistake", [lambda lat, lon: (lat, -lon), lambda lat, lon: (lon, lat)])
def test_shapes_tell_that_all_places_are_mistaken(
    demo_region: dict[str, Path],
    demo_geography: Geography,
    refused: Refused,
    mistake: Callable[..., tuple[np.ndarray, np.ndarray]],
) -> None:
    latitude, longitude = mistake(demo_geography.latitude, demo_geography.longitude)
    wrong = replace(demo_geography, latitude=latitude, longitude=longitude)
    with refused(demo_region["tracts"], "blocks lie at 0, 0, or far from their unit", count=wrong.n_blocks):
        read_polygons(demo_region["tracts"], wrong, level="trct", code="GEOID")


@pytest.mark.parametrize(
    ("pattern", "put", "match"),
    [("^0", "", "lost their leading zeros"), ("^", "1400000US", "begin with a summary level")],
)
def test_codes_that_are_spelled_otherwise_are_told(
    tmp_path: Path,
    demo_region: dict[str, Path],
    demo_geography: Geography,
    refused: Refused,
    pattern: str,
    put: str,
    match: str,
) -> None:
    frame = gpd.read_file(demo_region["tracts"])
    path = tmp_path / "tracts.geojson"
    frame.assign(GEOID=frame["GEOID"].str.replace(pattern, put, regex=True)).to_file(path)
    with refused(path, match, column="GEOID", count=len(frame)):
        read_polygons(path, demo_geography, level="trct", code="GEOID")


def test_rhode_island_has_a_shape_for_every_tract_but_the_water(
    shared_data: Path, read_geography: Callable[..., Geography]
) -> None:
    folder = shared_data / "ri_2019"
    geography = read_geography(folder / "ri_xwalk.csv.gz")
    path = folder / "ri_tracts_2010vintage.geojson"
    read = read_polygons(path, geography, level="trct", code="GEOID")
    assert set(geography.codes("trct")) - set(read.shapes["trct"]) == {"44009990200"}
    assert read.notes == (f"{path.name}: 1 unit of trct has no shape, of 244",)
    inside = geography.points().sjoin(read.shapes, predicate="within")
    assert (inside["trct"] == inside["tabblk2010"].str[:11]).mean() > 0.99
