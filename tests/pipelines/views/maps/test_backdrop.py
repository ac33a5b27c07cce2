"""Water and roads on a map: clipped, simplified, drawn, put away, attributed; bad files are refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pytest
import shapely
from click.testing import CliRunner
from PIL import Image

import geo_data
from pipelines.cli.main import main
from pipelines.views.maps.backdrop import Backdrop, backdrop_shapes
from pipelines.views.release import Release

from .map_reader import Reader

BY = "Roads & <b>Waters</b> Office, 2019"


@pytest.fixture(scope="module")
def bounds(mapped: Release) -> tuple[float, float, float, float]:
    places = mapped.places(mapped.levels[-1]).dropna()
    (west, south), (east, north) = places[["longitude", "latitude"]].agg(["min", "max"]).to_numpy()
    return west, south, east, north


@pytest.fixture(scope="module")
def files(
    bounds: tuple[float, float, float, float], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """A lake, a pond that nobody would see, a far sea, a river; a road with far too many corners."""
    west, south, east, north = bounds
    folder, width = tmp_path_factory.mktemp("backdrop"), east - west
    lake = shapely.box(west, south, west + width / 3, north)
    pond = shapely.Point(east, north).buffer(width / 1e5)
    sea = shapely.box(west + 40, south, west + 50, north)
    river = shapely.LineString([(west, south), (east, north)])
    water = gpd.GeoSeries([lake, pond, sea, river, None], crs="EPSG:4326").to_crs("EPSG:3857")
    x = np.linspace(west - 30, east + 30, 50_000)
    road = shapely.LineString(np.column_stack([x, np.full(x.size, (south + north) / 2)]))
    paths = {"water": folder / "water.fgb", "roads": folder / "roads.gpkg"}
    water.to_file(paths["water"], SPATIAL_INDEX="NO")
    gpd.GeoSeries([road], crs="EPSG:4326").to_file(paths["roads"])
    return paths


def test_shapes_near_the_region_simplified(
    mapped: Release, bounds: tuple[float, float, float, float], files: dict[str, Path]
) -> None:
    west, south, east, north = bounds
    found = backdrop_shapes(mapped, Backdrop(BY, **files), bounds)
    side = max(east - west, north - south)
    near = shapely.box(west, south, east, north).buffer(0.16 * side, join_style="mitre")
    shapes = {kind: [shapely.geometry.shape(part) for part in parts] for kind, parts in found.items()}
    assert sorted(shape.geom_type for shape in shapes["water"]) == ["LineString", "Polygon"]
    assert all(near.covers(shape) for parts in shapes.values() for shape in parts)
    (lake,) = (shape for shape in shapes["water"] if shape.geom_type == "Polygon")
    assert lake.symmetric_difference(shapely.box(west, south, west + (east - west) / 3, north)).area < 1e-5
    (road,) = shapes["roads"]
    assert shapely.get_num_coordinates(road) == 2
    assert road.length == pytest.approx(east - west + 0.3 * side, rel=0.01)
    assert set(backdrop_shapes(mapped, Backdrop(BY, roads=files["roads"]), bounds)) == {"roads"}


def test_bad_files(
    mapped: Release, bounds: tuple[float, float, float, float], files: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "text.gpkg").write_text("no shapes")
    west, south, east, north = bounds
    far = gpd.GeoSeries([shapely.box(west + 40, south, west + 41, north)], crs="EPSG:4326")
    far.to_file(tmp_path / "far.gpkg")
    far.to_file(tmp_path / "plane.shp")
    (tmp_path / "plane.prj").unlink()
    y = np.random.default_rng(0).uniform(south, north, 300_000)
    x = np.random.default_rng(1).uniform(west, east, 300_000)
    wild = gpd.GeoSeries([shapely.LineString(np.column_stack([x, y]))], crs="EPSG:4326")
    wild.to_file(tmp_path / "wild.gpkg")
    for kind, path, rule in (
        ("water", tmp_path / "none.gpkg", "there is no such file"),
        ("water", tmp_path / "text.gpkg", "no file of shapes"),
        ("water", tmp_path / "plane.shp", "no coordinate reference system"),
        ("water", tmp_path / "far.gpkg", "there are no polygons or linestrings near the region"),
        ("roads", tmp_path / "far.gpkg", "there are no linestrings near the region"),
        ("roads", tmp_path / "wild.gpkg", "a map holds 250,000"),
    ):
        with pytest.raises(geo_data.InputError, match=rule) as caught:
            backdrop_shapes(mapped, Backdrop(BY, **{kind: path}), bounds)
        assert path.name in str(caught.value)


def test_the_command(mapped: Release, library: Path, files: dict[str, Path], tmp_path: Path) -> None:
    target = ["map", str(mapped.public), "--to", str(tmp_path / "map.html")]
    for some in (
        ["--water", str(files["water"])],
        ["--attribution", BY],
        ["--roads", "x", "--attribution", " "],
    ):
        result = CliRunner().invoke(main, [*target, *some])
        assert result.exit_code == 2
        assert "--water and --roads need --attribution" in result.output
    options = [f"--{kind}={path}" for kind, path in files.items()]
    result = CliRunner().invoke(main, [*target, *options, "--attribution", BY])
    assert result.exit_code == 0, result.output
    made = mapped.map(tmp_path / "same.html", backdrop=Backdrop(BY, **files))
    assert made.read_bytes() == (tmp_path / "map.html").read_bytes()


@pytest.mark.slow
def test_it_is_drawn(
    browser: Any,
    mapped: Release,
    map_file: Path,
    bounds: tuple[float, float, float, float],
    files: dict[str, Path],
    tmp_path: Path,
) -> None:
    """A lake in the colour of water over the areas; it lets clicks through; its box puts it away."""
    west, south, east, north = bounds
    with Reader(browser, mapped.map(tmp_path / "map.html", backdrop=Backdrop(BY, **files))) as reader:
        page = reader.page
        assert BY in page.inner_text("#map")
        assert page.locator("#map b").count() == 0
        page.select_option("#level", "trct")
        reader.slide(100)
        for theme in range(2):
            shades = []
            for _ in range(2):
                reader.still()
                pixel = reader.pixel_of((west + (east - west) / 6, north - 0.02 * (north - south)))
                image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                shades.append("#{:02x}{:02x}{:02x}".format(*image.getpixel((pixel["x"], pixel["y"]))))
                page.click("#backdrop")
            style = "getComputedStyle(document.documentElement).getPropertyValue('--water-body').trim()"
            assert shades[0] == page.evaluate(style) != shades[1], theme
            page.click("#theme")
        with page.expect_download() as waiting:
            page.click("#save-png")
        assert waiting.value.suggested_filename.endswith(".png")
        assert reader.complaints == []
    with Reader(browser, map_file) as reader:
        assert not reader.page.is_visible("#backdrop")
