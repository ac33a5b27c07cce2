"""The address of a map says what is seen: links, Back, Undo, reload."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import geopandas as gpd
import pytest
import shapely

from pipelines.views.release import Release, open_release

from .map_reader import Reader, expected

pytestmark = pytest.mark.slow

SEEN = ("chosen", "jobs", "balance-table", "top-title", "legend-title", "mean", "chips", "counts-of")


@pytest.fixture(scope="module")
def opened(browser: Any, layered_file: Path) -> Iterator[Reader]:
    with Reader(browser, layered_file, permissions=["clipboard-read", "clipboard-write"]) as reader:
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    opened.reset()
    yield opened
    assert opened.complaints == []


def seen(reader: Reader) -> list[str]:
    words = [reader.text(element) if reader.page.is_visible(f"#{element}") else "" for element in SEEN]
    return [*words, *(reader.page.input_value(f"#{choice}") for choice in ("level", "count", "unit"))]


def test_a_link_shows_the_same(reader: Reader, browser: Any, layered_file: Path, layered: Release) -> None:
    """Level, side, filter, unit, areas of all kinds, the part of the map. `test_two_choices` reloads."""
    page = reader.page
    code = layered.geography.codes("trct")[0]
    page.evaluate("document.getElementById('several').open = true")
    page.select_option("#level", "cty")
    page.select_option("#count", "SA02")
    page.select_option("#unit", "mi")
    reader.search(code)
    for more in ("warwick", "02903"):
        page.fill("#search", more)
        page.press("#search", "Shift+Enter")
    page.check("#add")
    page.fill("#radius", "2")
    page.click("#around-chosen")
    places = layered.places(layered.levels[-1]).dropna()
    west, east = places["longitude"].min() - 1, places["longitude"].max() + 1
    ring = shapely.to_geojson(shapely.box(west, -80, east, places["latitude"].quantile(0.3)))
    page.set_input_files("#file", {"name": "a b:c;.json", "mimeType": "text/plain", "buffer": ring.encode()})
    page.wait_for_selector("#chips li:nth-child(5)")
    reader.pick_side("both")
    page.click("#zoom")
    page.click("#theme")  # the reader's own, and no part of what is seen
    address = reader.address()
    assert address["chosen"][0] == f"trct:{code}"
    assert len(address["chosen"]) == 5
    before, url = seen(reader), page.url
    assert "dark" not in url
    with Reader(browser, layered_file, link="#" + urlsplit(url).fragment) as other:
        assert (seen(other), other.address()) == (before, address)
        assert other.complaints == []


def test_back_and_undo(reader: Reader, layered: Release) -> None:
    """Each choice is a step; the part of the map that is seen is none."""
    page = reader.page
    assert page.is_disabled("#undo")
    states, codes = [], layered.geography.codes("trct")[:2]
    for step in (
        lambda: page.select_option("#level", "cty"),
        lambda: reader.search(codes[0]),
        lambda: reader.pick_side("both"),
        lambda: page.select_option("#count", "SE01"),
        lambda: reader.search(codes[1]),
    ):
        states.append((seen(reader), reader.address()))
        step()
        page.click(".maplibregl-ctrl-zoom-in")
        reader.still()
    reader.address()
    for back, (state, address) in zip(
        (
            lambda: page.click("#undo"),
            lambda: page.go_back(),
            lambda: page.keyboard.press("Control+z"),
            lambda: page.click("#undo"),
            lambda: page.go_back(),
        ),
        reversed(states),
        strict=True,
    ):
        back()
        reader.settle()
        assert seen(reader) == state
        now = reader.address()
        assert {**now, "view": 0} == {**address, "view": 0}
    assert page.is_disabled("#undo")
    page.go_forward()
    assert page.input_value("#level") == "cty"
    rows = expected(layered, work=("trct", codes[0]))
    page.go_forward()
    reader.settle()
    assert reader.number("jobs") == rows["jobs"].sum()


def test_a_link_that_is_not_of_this_map(browser: Any, layered_file: Path) -> None:
    """What it does not know is left out, and said."""
    strange = (
        "#level=trct&side=both&count=X&chosen=trct:1&chosen=circle:a,b+3&chosen=file:zz&chosen=outline:1,2"
    )
    with Reader(browser, layered_file, link=strange) as reader:
        assert "4 of the areas in the link are not in this map" in reader.text("tool-words")
        assert reader.text("chosen") == "The whole region"
        assert reader.page.is_checked("input[value=work]")
        assert reader.complaints == []


@pytest.mark.parametrize(
    "words",
    [
        "view=91,0,8",
        "view=90,0,8",
        "view=40,1e9,8",
        "view=,,",
        "view=40,-40,1e300",
        "view=40,-40,NaN",
        "view=__proto__",
        "count=__proto__",
        "count=constructor",
        "unit=__proto__",
        "density=__proto__",
        "side=__proto__",
        "chosen=__proto__",
        "chosen=trct:__proto__",
        "chosen=circle:89,0+1",
        "chosen=circle:1e300,0+1",
        "chosen=outline:-1e9,-1e9+1e9,-1e9+0,1e9",
        "chosen=file:__proto__",
    ],
)
def test_a_link_that_cannot_be(reader: Reader, words: str) -> None:
    """Is left out, in the part that cannot be; the page shows what it showed."""
    before = seen(reader)
    reader.page.goto(reader.file.as_uri() + f"#level={reader.page.input_value('#level')}&{words}")
    reader.address()
    assert seen(reader) == before
    assert ("1 of the areas in the link is not in this map" in reader.text("tool-words")) == (
        "chosen" in words
    )
    reader.search("0")
    reader.still()
    assert reader.number("jobs") > 0


def test_a_link_that_says_nothing_of_a_map(reader: Reader, browser: Any, layered_file: Path) -> None:
    before = seen(reader)
    for words in ("#search", "#level=nothing", "#%", "#level"):  # in the open page
        reader.page.goto(reader.file.as_uri() + words)
        assert seen(reader) == before
    with Reader(browser, layered_file, link="#%") as other:
        assert seen(other) == before
        assert other.complaints == []


def test_a_link_to_a_level_of_noise_warns_first(browser: Any, noisy_file: Path) -> None:
    with Reader(browser, noisy_file, link="#level=tabblk2010") as reader:
        assert reader.page.is_visible("#warning")
        assert reader.page.input_value("#level") != "tabblk2010"
        reader.page.click("#warning-show")
        assert reader.page.input_value("#level") == "tabblk2010"


def test_the_link_is_copied(reader: Reader) -> None:
    reader.page.click("#link")
    reader.page.wait_for_selector("#tool-words:has-text('is copied')")
    assert reader.page.evaluate("navigator.clipboard.readText()") == reader.page.url
    assert "level=" in reader.page.url


def test_densities_are_shown_at_first_where_sizes_differ(
    browser: Any, layered: Release, library: Path, tmp_path: Path
) -> None:
    """Not by the largest and the smallest tenth; what the reader ticks stays."""
    for factor, dense in ((4, True), (2, False)):
        public = tmp_path / f"x{factor}" / "public"
        shutil.copytree(layered.public, public)
        path = public / "geo" / "trct.parquet"
        shapes = gpd.read_parquet(path)
        middle = shapes.to_crs("EPSG:6933").centroid.to_crs("EPSG:4326")
        sizes = [0.002 * (factor if i % 2 else 1) for i in range(len(shapes))]
        shapes.geometry = [point.buffer(size, cap_style=3) for point, size in zip(middle, sizes, strict=True)]
        shapes.to_parquet(path)
        with Reader(browser, open_release(public).map(), as_opened=True) as reader:
            reader.page.select_option("#level", "trct")
            assert reader.page.is_checked("#density") == dense
            assert ("per km²" in reader.text("legend-title")) == dense
            reader.page.click("#density")
            reader.page.select_option("#level", "cty")
            reader.page.select_option("#level", "trct")
            assert reader.page.is_checked("#density") != dense
            if not dense:  # by now it is ticked; of a choice, colours are numbers
                assert "per km²" in reader.text("legend-title")
                reader.search(layered.geography.codes("trct")[0])
                assert "per km²" not in reader.text("legend-title")
                assert not reader.page.is_visible("#density")
