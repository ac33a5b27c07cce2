"""Several areas, areas that cut across levels, outlines and files: what they count, against plain pandas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import shapely
from pyproj import Geod

from pipelines.views.release import Release

from .map_reader import LAPTOP, PHONE, Reader
from .truth import EDGES, numbers, share, with_distances

pytestmark = pytest.mark.slow

DEEP = 50_000  # so many inside of each other


@pytest.fixture(scope="module")
def blocks(layered: Release) -> pd.DataFrame:
    """Those of the region: places, and the areas that they are in."""
    table = pd.read_parquet(layered.public / "plan" / "blocks.parquet").set_index("tabblk2010")
    return table[table["latitude"].notna()]


@pytest.fixture(scope="module")
def jobs(layered: Release) -> pd.DataFrame:
    files = [pd.read_parquet(path) for path in layered.public.glob("*_od_*.parquet")]
    return with_distances(pd.concat(files, ignore_index=True), layered.public)


@pytest.fixture(scope="module")
def opened(browser: Any, layered_file: Path) -> Iterator[Reader]:
    with Reader(browser, layered_file, LAPTOP) as reader:  # where clicks on the map meet what they should
        reader.page.click("#several summary")
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    opened.reset()
    opened.page.select_option("#level", "trct")
    yield opened
    assert opened.complaints == []


def words(reader: Reader, element: str) -> list[float]:
    return [float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", reader.text(element))]


def check_distances(reader: Reader, rows: pd.DataFrame, count: str) -> None:
    """Mean, median, classes of distance, and who has none."""
    placed = rows[rows["km"].notna() & (rows[count] > 0)].sort_values("km")
    near, beyond = placed[count].sum(), rows.loc[rows["zone"] != "", count]
    assert words(reader, "placed") == [near]
    assert words(reader, "commute-of") == ([beyond.sum()] if beyond.sum() else [])
    zones = [float(row[1].replace(",", "")) for row in reader.table("external-zones-table")]
    there = beyond.groupby(rows["zone"]).sum() if beyond.sum() else beyond[:0]
    assert zones == sorted(there[there > 0], reverse=True)
    if not near:
        return
    half = np.searchsorted(placed[count].cumsum(), near / 2)
    assert reader.number("mean") == pytest.approx(np.average(placed["km"], weights=placed[count]), abs=0.051)
    assert reader.number("median") == pytest.approx(placed["km"].iloc[half], abs=0.061)
    in_class = np.searchsorted(EDGES, placed["km"], side="right")
    bars = [numbers(line)[-1] for line in reader.text("distances").splitlines() if "%" in line]
    sums = [placed.loc[in_class == k, count].sum() for k in range(len(EDGES) + 1)]
    assert bars == pytest.approx([share(n, near) for n in sums], abs=0.051)


def check_selection(reader: Reader, jobs: pd.DataFrame, chosen: pd.Index) -> None:
    """Everything about who comes, leaves and stays, and who they are, from each side."""
    lives, works = jobs["h_geocode"].isin(chosen), jobs["w_geocode"].isin(chosen)
    count = reader.page.input_value("#count")
    sums = [jobs.loc[rows, count].sum() for rows in (works & ~lives, works & lives, lives & ~works)]
    come, stay, leave = sums
    for side, rows in {"work": works, "home": lives, "both": lives | works}.items():
        reader.pick_side(side)
        shown = [float(row[1].replace(",", "")) for row in reader.table("balance-table")]
        assert shown == [come + stay, come, stay, stay + leave, stay, leave, come + stay + leave]
        assert reader.number("jobs") == jobs.loc[rows, count].sum(), side
        check_distances(reader, jobs[rows], count)
        assert words(reader, "profile-of") == [jobs.loc[rows, "S000"].sum()]
        bars = reader.text("profile-bars").splitlines()
        shares = [float(line.removesuffix(" %")) for line in bars if line.endswith(" %")]
        columns = [name for name in jobs if re.fullmatch("S[AEI]0[123]", name)]
        everybody = max(jobs.loc[rows, "S000"].sum(), 1)
        assert shares == pytest.approx(
            [100 * jobs.loc[rows, c].sum() / everybody for c in columns], abs=0.051
        )
        # Origins and destinations, by tract
        tracts = {side: jobs[side].str[:11] for side in ("h_geocode", "w_geocode")}
        real = ~jobs["h_geocode"].str.endswith("9" * 13)
        origins = (
            jobs[works & real & ~(lives if side == "both" else False)]
            .groupby(tracts["h_geocode"])[count]
            .sum()
        )
        ends = jobs[lives & ~(works if side == "both" else False)].groupby(tracts["w_geocode"])[count].sum()
        expected = {"work": origins, "home": ends, "both": origins.add(ends, fill_value=0)}[side]
        expected = expected[expected > 0]
        codes = reader.codes("top")
        for code, row in zip(codes, reader.table("top"), strict=True):
            numbers = [float(cell.replace(",", "")) for cell in row[1:-1]]
            pair = [origins.get(code, 0), ends.get(code, 0)] if side == "both" else [expected[code]]
            assert numbers == pair, (side, code)
            of = come + leave if side == "both" else jobs.loc[rows, count].sum()
            assert float(row[-1].removesuffix(" %")) == pytest.approx(100 * expected[code] / of, abs=0.051)
        assert [expected[code] for code in codes] == expected.nlargest(10).tolist()
        # Lines to areas that it does not overlap, external zones among them
        cut = chosen.str[:11].unique()
        flows = [jobs[works].groupby(tracts["h_geocode"])[count].sum()] if side != "home" else []
        flows += [jobs[lives].groupby(tracts["w_geocode"])[count].sum()] if side != "work" else []
        between = pd.concat([found[~found.index.isin(cut) & (found > 0)] for found in flows])
        least, lines = words(reader, "threshold-words")[0], reader.features("flows")
        drawn = sorted(line["properties"]["jobs"] for line in lines)
        assert drawn == sorted(between[between >= least])
        # Of these and of who has none
        rest = jobs.loc[rows, count].sum() - between.sum()
        said = (
            [len(drawn), len(between), share(sum(drawn), between.sum()), between.sum()]
            if len(between)
            else []
        )
        said += [rest, share(rest, between.sum() + rest)] if rest else []
        assert words(reader, "flow-count") == pytest.approx(said, abs=0.051), side


def counted(reader: Reader) -> int:
    return int(words(reader, "counts-of")[0])


def test_several_areas(reader: Reader, jobs: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """By search with Shift or the button, by the switch, by click; taken away by chip, by click, and all."""
    codes = sorted(blocks.index.str[:11].unique())
    page, chosen = reader.page, codes[:3]
    reader.hold()
    reader.search(chosen[0])
    page.fill("#search", chosen[1])
    page.press("#search", "Shift+Enter")
    page.fill("#search", chosen[2])
    page.click("#search-add")
    assert reader.text("chosen") == "3 areas"
    page.select_option("#count", "SE03")
    check_selection(reader, jobs, blocks.index[blocks.index.str[:11].isin(chosen)])
    page.select_option("#count", "S000")
    page.locator("#chips button").nth(1).focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.ariaLabel").startswith("Remove ")
    check_selection(reader, jobs, blocks.index[blocks.index.str[:11].isin([chosen[0], chosen[2]])])
    reader.pick_side("work")
    page.check("#add")
    page.locator(f"#top button[data-code='{chosen[0]}']").click()  # which is chosen
    assert reader.chosen().endswith(chosen[2])
    reader.search(chosen[1])
    assert reader.text("chosen") == "2 areas"
    page.uncheck("#add")
    reader.search(chosen[0])
    page.fill("#search", chosen[0])
    page.press("#search", "Shift+Enter")  # which is chosen already
    assert reader.text("chosen") == "The whole region"
    assert not page.is_visible("#balance")
    assert not page.is_visible("#side-both")


# The name of an external zone lies over a place in the window.
NAME_OVER = """async ([x, y]) => {
    const { map } = document.getElementById("map");
    const zones = await map.getSource("zones").getData();
    zones.features[0].geometry.coordinates = map.unproject([x - 40, y]).toArray();
    zones.features[0].properties.anchor = "left";
    map.getSource("zones").setData(zones);
}"""
UNDER = """([x, y]) => {
    const { map } = document.getElementById("map");
    return map.queryRenderedFeatures([x, y], { layers: ["zone-name"] }).length;
}"""


def test_a_click_adds_with_a_key_or_the_switch(reader: Reader, layered: Release) -> None:
    reader.page.select_option("#level", "tabblk2010")
    reader.still()
    places = layered.places("tabblk2010").dropna()
    pixels = [reader.pixel_of((row.longitude, row.latitude)) for row in places.itertuples()]
    xy = np.array([[pixel["x"], pixel["y"]] for pixel in pixels])
    apart = np.linalg.norm(xy[:, None] - xy, axis=2) + 1e9 * np.eye(len(xy))
    low, high = np.quantile(xy, (0.2, 0.8), axis=0)
    inside = np.all((low < xy) & (xy < high), axis=1)  # away from the ring
    free = np.argsort(-apart.min(axis=1) * inside)[:3]
    a, b, c = xy[free].tolist()

    def click(at: list[float]) -> None:
        reader.still()  # circles that are being drawn anew cannot be met
        reader.page.mouse.click(*at)

    click(a)
    first = reader.text("chosen")
    for key, at in (("Shift", b), ("Control", c)):
        reader.page.keyboard.down(key)
        click(at)
        reader.page.keyboard.up(key)
    assert reader.text("chosen") == "3 areas"
    reader.page.check("#add")
    click(b)
    click(c)
    assert reader.text("chosen") == first
    reader.page.uncheck("#add")
    click(b)
    second = reader.text("chosen")
    assert second != first
    reader.page.evaluate(NAME_OVER, c)
    reader.still()
    assert reader.page.evaluate(UNDER, c) == 1
    click(c)
    assert reader.text("chosen") not in (first, second)
    assert not reader.page.is_checked("input[value=home]")  # as it would be for an external zone


def test_areas_that_cut_across_the_levels(reader: Reader, jobs: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """Found by name and code, with names; they count their blocks, which the page says."""
    reader.hold()
    for typed, column, code, name in (
        ("warwick", "ctycsub", "4400374300", "Warwick city (Kent, RI)"),
        ("02903", "zcta", "02903", "ZIP code area 02903"),
    ):
        assert reader.type(typed)[0][0] == name
        reader.page.keyboard.press("Enter")
        inside = blocks.index[blocks[column] == code]
        assert reader.text("chosen") == name
        assert counted(reader) == len(inside)
        # Its border holds its blocks, and not others; blocks themselves are not drawn.
        assert reader.features("dots") == []
        held = within(blocks, shapely.geometry.shape(reader.features("selected")[0]["geometry"]))
        assert len(held.symmetric_difference(inside)) <= 0.03 * len(inside)
    assert reader.type("99999") == []  # which stands for none
    reader.page.fill("#search", "warwick")
    reader.page.press("#search", "Shift+Enter")
    union = blocks.index[(blocks["ctycsub"] == "4400374300") | (blocks["zcta"] == "02903")]
    check_selection(reader, jobs, union)
    assert counted(reader) == len(union)


def within(blocks: pd.DataFrame, shape: Any) -> pd.Index:
    return blocks.index[shapely.contains_xy(shape, blocks["longitude"], blocks["latitude"])]


def test_a_drawn_outline(reader: Reader, jobs: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """By clicks, with Finish, Enter or a double click; by taps on a phone; Escape leaves all as it was."""
    page = reader.page
    west, east = blocks["longitude"].quantile([0.1, 0.7])
    south, north = blocks["latitude"].quantile([0.15, 0.8])
    corners = [
        (west, south),
        (east, south),
        ((west + east) / 2, (south + north) / 2),
        (east, north),
        (west, north),
    ]
    reader.still()
    for finish in ("button", "Enter", "double"):
        page.click("#clear") if page.is_visible("#clear") else None
        page.click("#draw")
        pixels = [reader.pixel_of(corner) for corner in corners]
        for pixel in pixels[: -1 if finish == "double" else None]:
            page.mouse.click(pixel["x"], pixel["y"])
            page.wait_for_timeout(450)  # or two of them are a double click
        if finish == "button":
            page.click("#draw")
        elif finish == "Enter":
            page.locator(".maplibregl-canvas").focus()
            page.keyboard.press("Enter")
        else:
            page.mouse.dblclick(pixels[-1]["x"], pixels[-1]["y"])
        assert reader.text("chosen") == "Drawn outline"
        drawn = reader.features("selected")[0]["geometry"]["coordinates"][0][0]
        assert np.abs(np.array(drawn[:-1]) - corners).max() < 0.01
        inside = within(blocks, shapely.Polygon(drawn))
        assert 10 < len(inside) == counted(reader) < len(blocks)
        if finish == "button":
            check_selection(reader, jobs, inside)
            assert "whose centroid is inside" in reader.text("counts-of")
    before = reader.text("jobs")
    page.click("#draw")
    page.mouse.click(pixels[0]["x"], pixels[0]["y"])
    page.click("#draw")
    assert "three corners" in reader.text("tool-words")
    page.keyboard.press("Escape")
    assert (reader.text("jobs"), page.is_visible("#tool-words")) == (before, False)
    assert page.inner_text("#draw") == "Draw an outline"


def test_outlines_by_touch(browser: Any, layered_file: Path, blocks: pd.DataFrame) -> None:
    with Reader(browser, layered_file, PHONE, has_touch=True) as reader:
        page = reader.page
        reader.still()
        page.click("#several summary")
        page.click("#draw")
        places = blocks[["longitude", "latitude"]].quantile([0.1, 0.9]).to_numpy()
        (west, south), (east, north) = places.tolist()
        for corner in ((west, south), (east, south), (west, north)):
            pixel = reader.pixel_of(corner)
            page.touchscreen.tap(pixel["x"], pixel["y"])
            page.wait_for_timeout(450)
        page.click("#draw")
        drawn = reader.features("selected")[0]["geometry"]["coordinates"][0][0]
        assert counted(reader) == len(within(blocks, shapely.Polygon(drawn))) > 5
        page.check("#add")
        page.click("#around-place")
        pixel = reader.pixel_of((east, north))
        page.touchscreen.tap(pixel["x"], pixel["y"])
        reader.page.wait_for_selector("#chips li")
        assert page.locator("#chips li").count() == 2
        assert reader.complaints == []


def test_a_radius(reader: Reader, jobs: pd.DataFrame, blocks: pd.DataFrame, layered: Release) -> None:
    """Around a place on the map, and around the chosen area by keys alone."""
    page = reader.page
    middle = blocks[["longitude", "latitude"]].median().tolist()
    reader.still()
    page.fill("#radius", "4.5")
    page.click("#around-place")
    pixel = reader.pixel_of(tuple(middle))
    page.mouse.click(pixel["x"], pixel["y"])
    assert reader.text("chosen").startswith("4.5 km around ")
    reader.hold()
    (key,) = reader.address()["chosen"]
    south, east, radius = (float(n) for n in re.findall(r"[-\d.]+", key))
    assert radius == 4.5
    n = len(blocks)
    km = Geod(ellps="WGS84").inv([east] * n, [south] * n, blocks["longitude"], blocks["latitude"])[2]
    km = np.array(km) / 1000
    check_selection(reader, jobs, blocks.index[km < 4.5])
    assert reader.features("dots") == []  # but its border
    assert len(reader.features("selected")) == 1
    assert abs(east - middle[0]) < 0.01
    code = blocks.index[0][:11]
    reader.search(code)
    page.locator("#radius").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    place = layered.places("trct").set_index("code").loc[code]
    km = Geod(ellps="WGS84").inv(
        [place["longitude"]] * n, [place["latitude"]] * n, blocks["longitude"], blocks["latitude"]
    )[2]
    check_selection(reader, jobs, blocks.index[np.array(km) < 3000])
    page.fill("#radius", "-1")
    page.click("#around-chosen")
    assert "above 0" in reader.text("tool-words")


def test_a_file_of_outlines(reader: Reader, jobs: pd.DataFrame, blocks: pd.DataFrame) -> None:
    """Holes and several polygons; a file that is not right is refused with the rule, and nothing changes."""
    reader.hold()
    (west, south), (east, north) = blocks[["longitude", "latitude"]].quantile([0.1, 0.9]).to_numpy().tolist()
    x, y = (west + east) / 2, (south + north) / 2
    shape = shapely.box(west, south, x, north).difference(
        shapely.box(west, south, (west + x) / 2, y).buffer(-0.001)
    )
    shape = shapely.MultiPolygon([shape, shapely.box((x + east) / 2, y, east, north)])
    feature = {"type": "Feature", "properties": {}, "geometry": shapely.geometry.mapping(shape)}
    collection = {"type": "FeatureCollection", "features": [feature]}
    turned = json.loads(json.dumps(collection))
    for polygon in turned["features"][0]["geometry"]["coordinates"]:
        for ring in polygon:
            for place in ring:
                place[0] += 360
    for content in (collection, feature, feature["geometry"], turned):
        give(reader, json.dumps(content))
        assert reader.text("chosen") == "mine.geojson"
        inside = within(blocks, shape)
        assert counted(reader) == len(inside) > 10
    check_selection(reader, jobs, inside)
    before = reader.text("jobs")
    square = [[west, south], [east, south], [east, north], [west, south]]
    for content, rule in (
        ("PK\x03\x04", "it is not JSON"),
        ('{"type": "Point", "coordinates": [0, 0]}', "there is no polygon in it"),
        ("null", "there is no polygon in it"),
        (
            '{"type": "Polygon", "coordinates": [[[300000, 80000], [1, 1], [2, 2], [300000, 80000]]]}',
            "not degrees",
        ),
        (
            '{"type": "Polygon", "coordinates": [[["a", 1], [1, 1], [2, 2], [3, 3]]]}',
            "a ring that is no list",
        ),
        ('{"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}', "no centroid of a block"),
        (
            json.dumps({"crs": {"name": "EPSG:3857"}, "type": "Polygon", "coordinates": [square]}),
            "another reference system",
        ),
        (f'{{"crs": {"[" * DEEP}{"]" * DEEP}, "type": "Point"}}', "another reference system"),
        (DEEP * '{"type": "FeatureCollection", "features": [' + DEEP * "]}", "there is no polygon in it"),
        (DEEP * '{"type": "Feature", "geometry": ' + "null" + DEEP * "}", "there is no polygon in it"),
    ):
        give(reader, content)
        assert reader.text("tool-words").startswith("mine.geojson: ")
        assert rule in reader.text("tool-words")
        assert reader.text("jobs") == before


def give(reader: Reader, content: str) -> None:
    file = {"name": "mine.geojson", "mimeType": "application/geo+json", "buffer": content.encode()}
    reader.page.evaluate("document.getElementById('tool-words').textContent = 'waiting'")
    reader.page.set_input_files("#file", file)
    reader.page.wait_for_selector("#tool-words:not(:text-is('waiting'))", state="attached")
