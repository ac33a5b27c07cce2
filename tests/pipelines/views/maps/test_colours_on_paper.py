"""Pictures that leave the screen: areas have the colours that the legend gives to them, in both schemes."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import pipelines
from pipelines.views.release import Release

from .map_reader import LAPTOP, PHONE, Reader, bounds_of, by_code, expected, free_point, tract_shapes
from .test_download import saved

pytestmark = pytest.mark.slow

ALONE = """() => {
    const { map } = document.getElementById("map");
    for (const layer of ["flow", "casing", "arrow", "label", "zone-name"]) {
        map.setLayoutProperty(layer, "visibility", "none");
    }
}"""
LEGEND = """() => [...document.querySelectorAll("#legend-classes li")]
    .map((entry) => [entry.textContent, getComputedStyle(entry.querySelector("i")).backgroundColor])"""
# Of places on the paper, as CSS writes them.
ON_PAPER = """(places) => {
    const [{ map }, paper] = [document.getElementById("map"), document.getElementById("paper")];
    const { data } = paper.getContext("2d").getImageData(0, 0, paper.width, paper.height);
    const scale = paper.width / map.getContainer().clientWidth;
    return places.map((place) => {
        const { x, y } = map.project(place);
        const at = 4 * (Math.round(y * scale) * paper.width + Math.round(x * scale));
        const [r, g, b] = data.subarray(at);
        return `rgb(${r}, ${g}, ${b})`;
    });
}"""

CLOSER = """() => {
    const { map } = document.getElementById("map");
    map.jumpTo({ zoom: map.getZoom() + 1, bearing: 20 });
}"""
# Colours of the same places in the window and, as the browser's own print begins, on the paper.
BOTH = """() => {
    const colours = (canvas) => {
        const { width, height } = canvas;
        const context = Object.assign(document.createElement("canvas"), { width, height }).getContext("2d");
        context.drawImage(canvas, 0, 0);
        const steps = Array.from({ length: 20 }, (_, step) => (step + 0.5) / 20);
        return steps.flatMap((y) => steps.map((x) =>
            [...context.getImageData(Math.round(x * width), Math.round(y * height), 1, 1).data]));
    };
    const window = colours(document.getElementById("map").map.redraw().getCanvas());
    dispatchEvent(new Event("beforeprint"));
    const paper = colours(document.getElementById("paper"));
    dispatchEvent(new Event("afterprint"));
    return [window, paper];
}"""


def check_colours(mapped: Release, colours: dict[str, str], legend: list[tuple[str, str]]) -> None:
    """Compare the colour of each tract with that of the class that its jobs are in."""
    jobs = by_code(mapped, expected(mapped), "work", "trct")
    classes = [(bounds_of(words), colour) for words, colour in legend]
    assert len({colour for _, colour in classes}) == len(classes) > 3
    for code, colour in colours.items():
        wanted = [of for (low, high), of in classes if low <= jobs.get(code, 0) <= high]
        assert [colour] == wanted, code
    assert len(set(colours.values())) >= 3


def test_more_is_blue_and_less_is_red_in_both_schemes() -> None:
    """However bright: the largest differences of either sign were nearly one colour on a dark screen."""
    style = Path(pipelines.__file__).parent / "views" / "maps" / "map.css"
    for sign, bluer in (("more", True), ("less", False)):
        colours = re.findall(rf"--{sign}-\d: #(..)..(..);", style.read_text(encoding="utf-8"))
        assert [int(blue, 16) > int(red, 16) for red, blue in colours] == [bluer] * 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_are_those_of_the_legend(browser: Any, map_file: Path, mapped: Release, scheme: str) -> None:
    """Of the saved picture, of the print and of the report."""
    shapes = tract_shapes(mapped)
    points = {code: point for code in shapes.index if (point := free_point(shapes, code)) is not None}
    with Reader(browser, map_file, LAPTOP, color_scheme=scheme) as reader:
        page = reader.page
        page.select_option("#level", "trct")
        page.evaluate(ALONE)
        reader.sharpen()
        pixels = {code: reader.pixel_of(point) for code, point in points.items()}
        height = page.locator("canvas.maplibregl-canvas").evaluate("(canvas) => canvas.height")
        picture = Image.open(io.BytesIO(saved(reader, "save-png")[1])).convert("RGB")
        words = page.evaluate(LEGEND)
        top = next(
            y
            for y in range(picture.height)
            if picture.getpixel((picture.width - 1, y)) != picture.getpixel((0, 0))
        )
        assert picture.height - top > height
        saved_colours = {
            code: "rgb{}".format(picture.getpixel((round(at["x"]), round(at["y"]) + top)))
            for code, at in pixels.items()
        }
        check_colours(mapped, saved_colours, words)
        page.evaluate("window.print = () => dispatchEvent(new Event('beforeprint'))")
        for way in ("print", "report"):
            page.evaluate(f"document.getElementById('{way}').click()")
            found = page.evaluate(ON_PAPER, list(points.values()))
            check_colours(mapped, dict(zip(points, found, strict=True)), page.evaluate(LEGEND))
            assert page.get_attribute("html", "data-theme") == "light"
            west, south, east, north = shapes.total_bounds
            box = page.locator("#map").bounding_box()
            (left, bottom), (right, top) = (
                reader.pixel_of(corner).values() for corner in ((west, south), (east, north))
            )
            # The region has a good part of the height, or of the width, of its picture.
            assert max((bottom - top) / box["height"], (right - left) / box["width"]) > 0.4
            page.evaluate("window.dispatchEvent(new Event('afterprint'))")
            assert page.get_attribute("html", "data-theme") == scheme


@pytest.mark.parametrize("size", [PHONE, LAPTOP, (1900, 700)], ids=["phone", "laptop", "wide"])
def test_paper_has_what_the_window_shows(browser: Any, map_file: Path, size: tuple[int, int]) -> None:
    """Of a part of the region just that, at once: more would be drawn some frames later."""
    with Reader(browser, map_file, size) as reader:
        page = reader.page
        page.select_option("#level", "trct")
        page.evaluate(ALONE)
        page.evaluate(CLOSER)
        reader.still()
        on_screen, on_paper = page.evaluate(BOTH)
        assert len({*map(tuple, on_screen)}) > 3
        same = np.equal(on_screen, on_paper).all(axis=1)
        assert same.mean() > 0.9  # borders are as thick on a smaller picture
