"""Where a map draws areas and zones: neighbours fit, cells have centroids, zones stand on a ring."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import shapely

from geo_data.distance import bearing
from geo_data.external_zones import STATES
from pipelines.views.maps.shapes import centroid_cells, geojson, level_shapes, ring_places
from pipelines.views.release import Release


def plane(shapes: gpd.GeoDataFrame) -> gpd.GeoSeries:
    return shapes.set_index("unit").geometry.set_crs(None, allow_override=True)


def wavy_tracts(release: Release) -> gpd.GeoDataFrame:
    """Stripes side by side, with far more corners than anybody can see; true neighbours."""
    codes = release.geography.codes("trct")
    y = np.linspace(40, 41, 4001)
    borders = [
        np.column_stack([i + 0.3 * np.sin(9 * y) + 0.00001 * np.cos(9e4 * y), y])
        for i in range(len(codes) + 1)
    ]
    shapes = [shapely.Polygon([*left, *right[::-1]]) for left, right in pairwise(borders)]
    return gpd.GeoDataFrame({"trct": codes}, geometry=shapes, crs="EPSG:4326")


@pytest.fixture
def stripes(shapeless: Release) -> Release:
    (shapeless.public / "geo").mkdir()
    wavy_tracts(shapeless).to_parquet(shapeless.public / "geo" / "trct.parquet")
    return shapeless


def test_neighbours_fit(stripes: Release) -> None:
    before = wavy_tracts(stripes)
    shapes = plane(level_shapes(stripes, ["trct"])["trct"])
    corners = shapely.get_num_coordinates(shapes.to_numpy())
    assert corners.sum() < shapely.get_num_coordinates(before.geometry.to_numpy()).sum() / 20
    assert shapely.coverage_is_valid(shapes.to_numpy())
    assert shapes.union_all().area == pytest.approx(shapes.area.sum(), rel=1e-9)
    truth = before.geometry.set_crs(None, allow_override=True)
    assert np.abs(shapes.area.to_numpy() - truth.area.to_numpy()).max() < 0.001 * truth.area.mean()


def test_a_level_above_is_put_together(stripes: Release) -> None:
    found = level_shapes(stripes, stripes.levels)
    assert set(found) == {"st", "cty", "trct"}
    tracts, counties = plane(found["trct"]), plane(found["cty"])
    geography = stripes.geography
    parent = geography.unit_of("cty", geography.starts("trct")[tracts.index])
    areas = tracts.area.groupby(parent).sum()
    assert counties.area.to_dict() == pytest.approx(areas.to_dict(), rel=1e-4)


def test_levels_that_the_map_leaves_out_may_still_give_shapes(stripes: Release) -> None:
    assert set(level_shapes(stripes, ["st", "cty"])) == {"st", "cty"}


def test_shapes_go_on_beyond_180_degrees(shapeless: Release) -> None:
    geography = shapeless.geography
    n = geography.n_units("trct")
    west = 180 - n // 2 + np.arange(n)
    west = np.where(west < 180, west, west - 360)
    boxes = shapely.box(west, 40, west + 1, 41)
    (shapeless.public / "geo").mkdir()
    shapes = gpd.GeoDataFrame({"trct": geography.codes("trct")}, geometry=boxes, crs="EPSG:4326")
    shapes.to_parquet(shapeless.public / "geo" / "trct.parquet")
    unit = geography.unit_of("trct", np.arange(geography.n_blocks))
    longitude = np.where(np.isfinite(geography.longitude), west[unit] + 0.5, np.nan)
    release = Release(shapeless.public)
    vars(release)["geography"] = replace(geography, longitude=longitude)
    drawn = plane(level_shapes(release, ["trct"])["trct"])
    assert drawn.union_all().geom_type == "Polygon"
    places = release.places("trct").dropna()
    np.testing.assert_allclose(drawn[places.index].centroid.x, places["longitude"])


def test_cells(shapeless: Release) -> None:
    geography, block = shapeless.geography, shapeless.levels[-1]
    cells = {level: plane(shapes) for level, shapes in centroid_cells(shapeless, shapeless.levels).items()}
    places = shapeless.places(block).dropna()
    points = shapely.points(places["longitude"], places["latitude"])
    for level, shapes in cells.items():
        unit = geography.unit_of(level, places.index.to_numpy())
        assert shapely.distance(shapes.loc[unit].to_numpy(), points).max() < 1e-9
        assert shapes.union_all().area == pytest.approx(shapes.area.sum(), rel=1e-6)  # none overlaps another
        assert set(shapes.index) == set(unit)


def test_cells_of_too_many_units(shapeless: Release) -> None:
    drawn = centroid_cells(shapeless, shapeless.levels, most_drawn=10)
    assert drawn
    assert all(len(shapes) <= 10 for shapes in drawn.values())
    assert centroid_cells(shapeless, shapeless.levels, most_drawn=0) == {}


def test_geojson(stripes: Release, tmp_path: Path) -> None:
    shapes = level_shapes(stripes, ["trct"])["trct"]
    written = geojson(shapes)
    assert [feature["id"] for feature in written["features"]] == shapes["unit"].tolist()
    read = gpd.GeoDataFrame.from_features(written)
    assert shapely.hausdorff_distance(read.geometry.to_numpy(), shapes.geometry.to_numpy()).max() < 1e-5
    assert shapely.coverage_is_valid(read.geometry.to_numpy())


# --- external zones on their ring

BOUNDS = (-71.9, 41.1, -71.1, 42.0)
MIDDLE = (41.55, -71.5)
OTHERS = [state for code, state in STATES.items() if code != "44"]


def turns(places: np.ndarray) -> np.ndarray:
    """Compass directions from the middle, as a plane map shows them."""
    squeeze = np.cos(np.radians(MIDDLE[0]))
    return np.degrees(np.arctan2((places[:, 0] - MIDDLE[1]) * squeeze, places[:, 1] - MIDDLE[0])) % 360


@pytest.mark.parametrize("n", [1, 2, 5, len(OTHERS)])
def test_zones_stand_around_the_region_in_the_order_of_their_directions(n: int) -> None:
    zones = sorted(OTHERS, key=lambda state: -state.residents)[:n]
    latitude, longitude = (np.array([getattr(s, axis) for s in zones]) for axis in ("latitude", "longitude"))
    places = ring_places(latitude, longitude, np.ones(n), BOUNDS)
    west, south, east, north = BOUNDS
    x, y = places.T
    assert ((x < west) | (x > east) | (y < south) | (y > north)).all()
    apart = np.abs(places[:, None] - places[None]).max(axis=2) + np.eye(n)
    assert apart.min() > 0.01
    shown, true = (np.argsort(angles) for angles in (turns(places), bearing(*MIDDLE, latitude, longitude)))
    start = shown.tolist().index(true[0])
    assert np.roll(shown, -start).tolist() == true.tolist()


def test_few_zones_stand_in_their_directions() -> None:
    latitude, longitude = np.array([42.3, 41.5]), np.array([-71.4, -72.9])
    places = ring_places(latitude, longitude, np.ones(2), BOUNDS)
    assert turns(places) == pytest.approx(bearing(*MIDDLE, latitude, longitude), abs=1)


def test_the_heaviest_zone_comes_nearest_to_its_direction() -> None:
    latitude, longitude = (np.array([getattr(s, axis) for s in OTHERS]) for axis in ("latitude", "longitude"))
    true = bearing(*MIDDLE, latitude, longitude)
    for heavy, state in enumerate(OTHERS):
        if state.name in ("Connecticut", "Massachusetts", "New York"):
            weight = np.where(np.arange(len(OTHERS)) == heavy, 1e6, 1.0)
            off = turns(ring_places(latitude, longitude, weight, BOUNDS))[heavy] - true[heavy]
            assert abs((off + 180) % 360 - 180) < 2, state.name


def test_zones_without_a_known_place_stand_evenly() -> None:
    places = ring_places(np.array([np.nan, 42.0, np.nan, 41.0]), np.full(4, -72.0), np.ones(4), BOUNDS)
    quarters = np.diff(np.sort(turns(places)), append=turns(places).min() + 360)
    assert (quarters > 45).all()
