"""The map in a real browser without a network: what it asks for, what it shows, how it is used."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from pipelines.views.flows import add_travel
from pipelines.views.release import Release

from .map_reader import (
    LAPTOP,
    PHONE,
    Reader,
    bounds_of,
    by_code,
    expected,
    free_point,
    mean_km,
    median_km,
    tract_shapes,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def opened(browser: Any, map_file: Path) -> Iterator[Reader]:
    with Reader(browser, map_file, LAPTOP) as reader:
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Reader:
    """The page, opened once, as it was then."""
    opened.reset()
    return opened


@pytest.fixture(autouse=True)
def _no_complaint(opened: Reader) -> Iterator[None]:
    opened.complaints.clear()
    yield
    assert opened.complaints == []


# Of the map as it was printed, as CSS writes them.
PAPER_COLOURS = """() => {
    const paper = document.getElementById("paper");
    const { data } = paper.getContext("2d").getImageData(0, 0, paper.width, paper.height);
    const colours = new Set(new Uint32Array(data.buffer));
    return [...colours].map((n) => `rgb(${n & 255}, ${(n >> 8) & 255}, ${(n >> 16) & 255})`).join("\\n");
}"""


def busiest(release: Release, side: str, level: str = "trct") -> str:
    return str(by_code(release, expected(release), side, level).index[0])


def density_bounds(words: str) -> tuple[float, float]:
    """The same of a density, with room for what is rounded and for shapes that are simplified."""
    ends = [float(end) for end in re.findall(r"[\d.]+", words.replace(",", ""))]
    low, high = ends if len(ends) == 2 else (0.0, *(ends or [0.0]))
    return 0.94 * low, 1.06 * high


def check_summary(reader: Reader, rows: pd.DataFrame) -> None:
    assert reader.number("jobs") == rows["jobs"].sum()
    assert reader.number("mean") == pytest.approx(mean_km(rows), abs=0.051)
    assert reader.number("median") == pytest.approx(median_km(rows), abs=0.061)


def test_no_request_leaves(reader: Reader) -> None:
    reader.search("0")
    reader.page.select_option("#level", "tabblk2010")
    reader.still()
    assert reader.requests[0] == reader.file.as_uri()
    # The map's worker is made from the page's own text.
    assert all(url.startswith(("blob:", "data:")) for url in reader.requests[1:])


def test_the_browser_refuses_requests(reader: Reader, tmp_path: Path) -> None:
    """Even one that a changed page would make, to a file beside it."""
    other = reader.file.with_name("other.js")
    other.write_text("document.title = 'asked'")
    for element, attribute in (("script", "src"), ("img", "src"), ("iframe", "src")):
        refused = reader.page.evaluate(
            """([element, attribute, url]) => new Promise((done) => {
                const refused = (event) => done(event.effectiveDirective);
                document.addEventListener("securitypolicyviolation", refused, { once: true });
                const made = document.createElement(element);
                made[attribute] = url;
                document.body.append(made);
                setTimeout(() => done(null), 3000);
            })""",
            [element, attribute, other.as_uri()],
        )
        assert refused is not None, element
    assert reader.page.title() != "asked"
    reader.complaints.clear()  # the refusals


def test_a_workplace_that_is_clicked(reader: Reader, mapped: Release) -> None:
    reader.page.select_option("#level", "trct")
    reader.still()
    code = busiest(mapped, "work")
    point = free_point(tract_shapes(mapped), code)
    assert point is not None
    pixel = reader.pixel_of(point)
    reader.page.mouse.click(pixel["x"], pixel["y"])
    assert code in reader.chosen()
    check_summary(reader, expected(mapped, work=("trct", code)))


def test_the_pointer_is_told_what_is_under_it(reader: Reader, mapped: Release) -> None:
    reader.page.select_option("#level", "trct")
    reader.slide(100)
    reader.still()
    rows = expected(mapped)
    shapes = tract_shapes(mapped)
    homes, works = (by_code(mapped, rows, side, "trct") for side in ("home", "work"))
    names = dict(zip(mapped.geography.codes("trct"), mapped.names["trct"], strict=True))
    told = 0
    for code in shapes.index:
        point = free_point(shapes, code)
        if point is None:
            continue
        pixel = reader.pixel_of(point)
        reader.page.mouse.move(pixel["x"], pixel["y"])
        words = reader.page.locator(".maplibregl-popup-content").inner_text().replace("\xa0", "")
        if words.startswith(names[code]):  # not a flow that passes
            here = f"{homes.get(code, 0):,} workers live here {works.get(code, 0):,} jobs are here"
            assert words.split() == f"{names[code]} Tract {code} {here}".split()
            told += 1
    assert told >= 3


def test_a_filter_is_named_beside_every_number(reader: Reader, mapped: Release) -> None:
    words = "only: earnings of more than 3,333 dollars a month"
    places = ["summary", "legend", "top-title", "rose", "external-zones"]
    beside = "(id) => document.getElementById(id).closest('section, details').innerText.toLowerCase()"
    assert not [place for place in places if "only:" in reader.page.evaluate(beside, place)]
    reader.page.select_option("#level", "trct")
    reader.page.select_option("#count", "SE03")
    reader.still()
    assert [place for place in places if words in reader.page.evaluate(beside, place)] == places
    point = free_point(tract_shapes(mapped), busiest(mapped, "work"))
    assert point is not None
    pixel = reader.pixel_of(point)
    reader.page.mouse.move(pixel["x"], pixel["y"])
    assert words in reader.page.locator(".maplibregl-popup-content").inner_text().lower()
    reader.page.emulate_media(media="print")
    assert [place for place in places if words in reader.page.evaluate(beside, place)] == places
    reader.page.emulate_media(media="screen")
    reader.still()


def test_miles(reader: Reader, mapped: Release) -> None:
    reader.page.select_option("#unit", "mi")
    assert reader.text("mean").endswith(" mi")
    assert reader.number("mean") == pytest.approx(mean_km(expected(mapped)) / 1.609344, abs=0.051)
    assert "under 5 mi" in reader.text("distances")


def test_the_rose_diagram(reader: Reader, mapped: Release) -> None:
    code = busiest(mapped, "work")
    reader.search(code)
    rows = expected(mapped, work=("trct", code)).dropna()
    reader.page.locator("#rose-table").locator("xpath=ancestor::details").locator("summary").click()
    table = pd.DataFrame(reader.table("rose-table")).set_index(0).apply(pd.to_numeric)
    blocks = mapped.places(mapped.levels[-1])
    away = add_travel(rows[["work", "home", "jobs"]], blocks, blocks).dropna(subset="to_home")
    bounds = np.array([5, 10, 20, 50])
    eighths = away["to_home"].to_numpy() / 45
    direction, distance = np.rint(eighths).astype(int) % 8, np.searchsorted(bounds, away["km"], side="right")
    # The page takes the earth for a ball where it looks for directions: a commute at the border of two cells
    # may be in either.
    sure = (abs(eighths % 1 - 0.5) > 0.02) & (abs(away["km"].to_numpy()[:, None] - bounds) > 0.02).all(axis=1)
    cells = np.zeros((8, 5))
    np.add.at(cells, (direction[sure], distance[sure]), away["jobs"][sure])
    assert cells.sum() > 0.8 * away["jobs"].sum()
    assert len(np.unique(cells.sum(axis=1))) > 4  # or a rose that is turned might look the same
    assert (table.to_numpy() >= cells).all()
    assert table.to_numpy().sum() == away["jobs"].sum()


def test_the_slider(reader: Reader, mapped: Release) -> None:
    reader.hold()
    reader.page.select_option("#level", "trct")
    rows = mapped.unit_flows("trct", "trct").rename(columns={"S000": "jobs"})
    flows = rows[rows["home"] != rows["work"]]["jobs"]
    seen = []
    for position in (0, 30, 60, 100):
        reader.slide(position)
        threshold, drawn, every = reader.flow_words()
        assert (drawn, every) == ((flows >= threshold).sum(), len(flows))
        assert len(reader.features("flows")) == drawn
        seen.append((threshold, drawn))
    assert seen[0] == (1, len(flows))
    assert seen[-1][0] == flows.max()
    assert sorted(seen) == seen


def test_the_slider_stays_where_the_reader_put_it(reader: Reader) -> None:
    reader.hold()
    before = reader.flow_words()
    reader.slide(90)
    moved = reader.flow_words()
    assert moved != before
    reader.page.select_option("#unit", "mi")
    reader.page.click("#theme")
    reader.page.click("#theme")
    assert reader.flow_words() == moved


def test_lines_go_from_home_to_work(reader: Reader, mapped: Release) -> None:
    """They bend to the right, with arrows; the legend says how wide they are."""
    reader.hold()
    reader.page.select_option("#level", "trct")
    places = mapped.places("trct")[["longitude", "latitude"]].to_numpy(copy=True)
    zones = {feature["id"]: feature["geometry"]["coordinates"] for feature in reader.features("zones")}
    places[[*zones]] = [*zones.values()]
    lines, arrows = reader.features("flows"), reader.features("arrows")
    for line, arrow in zip(lines, arrows, strict=True):
        home, work = (places[line["properties"][end]] for end in ("home", "work"))
        points = np.array(line["geometry"]["coordinates"])
        np.testing.assert_allclose(points[[0, -1]], [home, work], atol=1e-6)
        (east, north), (x, y) = work - home, points[10] - home
        assert east * y - north * x < 0
        assert arrow["geometry"]["coordinates"] == pytest.approx(points[10].tolist())
        turn = np.degrees(np.arctan2(east * np.cos(np.radians(points[10][1])), north))
        assert arrow["properties"]["turn"] == pytest.approx(turn, abs=0.1)
    jobs = [line["properties"]["jobs"] for line in lines]
    ends = [f"{n:,} job{'' if n == 1 else 's'}" for n in dict.fromkeys((max(jobs), min(jobs)))]
    assert reader.text("legend-flows").splitlines() == ["from home to work", *ends]
    widest = reader.page.locator("#legend-flows .line").first.bounding_box()
    assert widest is not None
    assert widest["height"] == pytest.approx(6, abs=0.1)
    reader.search(busiest(mapped, "work"))
    assert reader.text("legend-flows").startswith("to the chosen workplace")
    assert not reader.page.locator("#legend-circles").is_visible()
    reader.page.select_option("#level", "tabblk2010")
    assert reader.page.locator("#legend-circles").is_visible()


@pytest.mark.parametrize(
    "dense", [pytest.param(False, id="number"), pytest.param(True, id="density", marks=pytest.mark.deep)]
)
def test_colours_mean_what_the_legend_says(reader: Reader, mapped: Release, dense: bool) -> None:
    """The pixels of every tract, with the flows taken away; of a choice they are numbers."""
    reader.page.select_option("#level", "trct")
    reader.page.set_checked("#density", dense)
    if not dense:
        reader.search(busiest(mapped, "work"))
    reader.page.evaluate(
        """() => {
            const { map } = document.getElementById("map");
            for (const layer of ["flow", "casing", "chosen-line", "chosen-halo"]) {
                map.setLayoutProperty(layer, "visibility", "none");
            }
        }"""
    )
    reader.sharpen()
    entries = reader.page.locator("#legend-classes li").all()
    legend = [
        (entry.inner_text(), entry.locator("i").evaluate("(i) => getComputedStyle(i).backgroundColor"))
        for entry in entries
    ]
    chosen = expected(mapped, work=("trct", busiest(mapped, "work")))
    numbers = (
        by_code(mapped, expected(mapped), "work", "trct")
        if dense
        else by_code(mapped, chosen, "home", "trct")
    )
    image = Image.open(io.BytesIO(reader.page.screenshot())).convert("RGB")
    shapes = tract_shapes(mapped)
    square_km = shapes.set_crs("EPSG:4326").to_crs("EPSG:6933").area / 1e6
    assert ("per km²" in reader.text("legend-title")) == dense
    checked = 0
    for code in shapes.index:
        point = free_point(shapes, code)
        if point is None:
            continue
        pixel = reader.pixel_of(point)
        colour = "rgb{}".format(image.getpixel((round(pixel["x"]), round(pixel["y"]))))
        words = next((words for words, of_class in legend if of_class == colour), None)
        assert words is not None, (code, colour, legend)
        if dense:
            low, high = density_bounds(words)
            assert low <= numbers.get(code, 0) / square_km[code] <= high
        else:
            low, high = bounds_of(words)
            assert low <= numbers.get(code, 0) <= high
        checked += 1
    assert checked >= 3


TAKEN_AWAY = """async () => {
    const { map } = document.getElementById("map");
    const card = map.getCanvas().getContext("webgl2").getExtension("WEBGL_lose_context");
    const back = new Promise((done) => map.once("webglcontextrestored", done));
    card.loseContext();
    await new Promise((done) => setTimeout(done, 100));
    card.restoreContext();
    await back;
    await new Promise((done) => map.once("style.load", () => done()));
}"""
ALONE = """() => {
    const { map } = document.getElementById("map");
    for (const layer of ["flow", "casing", "arrow", "zone-name", "label", "borders"]) {
        map.setLayoutProperty(layer, "visibility", "none");
    }
}"""


def test_circles_have_the_colours_of_the_legend(browser: Any, map_file: Path, mapped: Release) -> None:
    """At their middle nine tenths of it; also after the graphics card was away for a while."""
    places = mapped.places("tabblk2010").dropna().set_index("code")
    xy = places[["longitude", "latitude"]].to_numpy() * [np.cos(np.radians(places["latitude"].mean())), 1]
    apart = np.linalg.norm(xy[:, None] - xy, axis=2) + np.eye(len(xy))
    alone = places.index[np.argsort(-apart.min(axis=1))]  # others may lie over circles
    jobs = by_code(mapped, expected(mapped), "work", "tabblk2010").reindex(alone).dropna().head(3)
    with Reader(browser, map_file) as reader:
        reader.page.select_option("#level", "tabblk2010")
        legend = {
            bounds_of(words): item.evaluate("(i) => getComputedStyle(i.querySelector('i')).backgroundColor")
            for item in reader.page.locator("#legend-classes li").all()
            if (words := item.inner_text()) != "none"
        }
        reader.page.click("#legend summary")  # it lies over the middle of a small window
        for after, looked_at in (("", jobs), (TAKEN_AWAY, jobs.head(1))):
            if after:
                reader.page.evaluate(after)
            reader.page.evaluate(ALONE)
            for code, n in looked_at.items():
                at = places.loc[code]
                reader.page.evaluate(
                    "(center) => document.getElementById('map').map.jumpTo({ center, zoom: 16 })",
                    [at["longitude"], at["latitude"]],
                )
                reader.still()
                pixel = reader.pixel_of((at["longitude"], at["latitude"]))
                image = Image.open(io.BytesIO(reader.page.screenshot())).convert("RGB")
                seen = image.getpixel((round(pixel["x"]), round(pixel["y"])))
                (colour,) = (fill for (low, high), fill in legend.items() if low <= n <= high)
                parts = [int(part) for part in re.findall(r"\d+", colour)]
                assert all(
                    0.9 * part - 1 <= found <= 0.9 * part + 26.5
                    for part, found in zip(parts, seen, strict=True)
                )


def test_every_class_has_an_area(reader: Reader, mapped: Release) -> None:
    reader.hold()
    rows = expected(mapped)
    for level in mapped.levels:
        reader.page.select_option("#level", level)
        for side in ("work", "home"):
            reader.pick_side(side)
            # External zones, which are coloured like areas, may be larger than any.
            units = mapped.geography.unit_of(level, rows[side].to_numpy())
            values = rows["jobs"].groupby(units).sum()
            classes = [bounds_of(words) for words in reader.text("legend-classes").splitlines()[:-1]]
            assert all(values.between(*ends).any() for ends in classes), (level, side, classes)
            assert classes[0][1] == values.max()


def test_keys(reader: Reader, mapped: Release) -> None:
    page = reader.page
    page.evaluate(
        "document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')"
    )
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip the map"
    page.keyboard.press("Enter")
    page.keyboard.type(busiest(mapped, "work"))
    page.keyboard.press("Enter")
    assert reader.text("chosen-kind") == "Workplace"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")  # the first one may close the list of suggestions
    assert reader.text("chosen") == "The whole region"
    for button, kind in (("#top button", "Workplace"), ("#clear", "")):
        page.locator(button).first.focus()
        page.keyboard.press("Enter")
        assert reader.text("chosen-kind") == kind
        assert page.evaluate("document.activeElement.id") == "chosen"  # the button is gone; Tab goes on here
    page.locator(".maplibregl-canvas").focus()
    before = page.evaluate("document.getElementById('map').map.getCenter().lng")
    page.keyboard.press("ArrowRight")
    reader.still()
    assert page.evaluate("document.getElementById('map').map.getCenter().lng") > before


def test_a_code_that_is_not_there(reader: Reader) -> None:
    """Nor does a part that many codes have choose the first of them."""
    for typed, words in (
        ("xyz", "No area of this map has such a code or name"),
        ("0001", "Several areas have this"),
    ):
        reader.search(typed)
        assert words in reader.text("not-found")
        assert reader.text("chosen") == "The whole region"


def test_a_code_with_the_word_for_its_level(reader: Reader, mapped: Release) -> None:
    code = busiest(mapped, "work")
    reader.search(f"Tract {code[:2]} {code[2:5]} {code[5:]}")
    assert reader.chosen().endswith(f"Tract{code}")


def brightness(reader: Reader) -> float:
    image = Image.open(io.BytesIO(reader.page.screenshot())).convert("L")
    return sum(value * n for value, n in enumerate(image.histogram())) / (image.width * image.height)


@pytest.mark.deep
def test_dark_and_light(browser: Any, map_file: Path) -> None:
    """As the system has it, until the reader chooses; on paper always light."""
    with Reader(browser, map_file, PHONE, color_scheme="dark") as reader:
        page = reader.page
        page.select_option("#level", "trct")
        reader.still()
        dark = brightness(reader)
        page.evaluate(
            """() => addEventListener("beforeprint", () => {
                const { backgroundColor } = getComputedStyle(document.body);
                const swatches = [...document.querySelectorAll("#legend-classes i")];
                window.printed = [backgroundColor, ...swatches.map((i) => i.style.backgroundColor)];
            }, { once: true })"""
        )
        page.pdf()
        background, *swatches = page.evaluate("window.printed")
        on_paper = page.evaluate(PAPER_COLOURS).splitlines()
        assert background == "rgb(255, 255, 255)"
        assert len(set(swatches) & set(on_paper)) >= 3  # also the areas, in the colours of the legend
        assert page.get_attribute("html", "data-theme") == "dark"
        page.click("#theme")
        reader.still()
        assert dark < 80 < 160 < brightness(reader)
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
        assert page.get_attribute("html", "data-theme") == "light"


def check_fit(reader: Reader, size: tuple[int, int]) -> None:
    reader.still()
    shot = Image.open(io.BytesIO(reader.page.screenshot())).convert("RGB")
    assert shot.size == size
    boxes = {}
    for element in ("map", "search", "level", "threshold", "top", "rose", "legend", "fold"):
        box = reader.page.locator(f"#{element}").bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size[0]
        boxes[element] = box
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    shown = shot.crop((0, 0, int(boxes["map"]["width"]), int(boxes["map"]["height"])))
    assert len(shown.getcolors(maxcolors=2**24) or ()) > 100  # a map is drawn
    legend, fold = boxes["legend"], boxes["fold"]
    assert legend["x"] + legend["width"] < fold["x"] or legend["y"] + legend["height"] < fold["y"]
    # Both where the reader is and on the map itself.
    assert reader.page.locator(".note").is_visible()
    assert "not real people" in reader.page.inner_text("#map")


def test_it_fits_a_laptop(reader: Reader) -> None:
    check_fit(reader, LAPTOP)
    reader.page.click("#fold")
    assert not reader.page.locator("#panel").is_visible()
    assert "not real people" in reader.page.inner_text("#map")
    reader.page.click("#fold")
    assert reader.page.locator("#panel").is_visible()


def test_it_fits_a_phone(browser: Any, map_file: Path) -> None:
    with Reader(browser, map_file, PHONE) as reader:
        check_fit(reader, PHONE)
        reader.page.set_viewport_size({"width": 320, "height": 480})
        assert reader.page.evaluate("document.documentElement.scrollWidth") == 320


def test_the_sheet_of_errors_fits_a_phone(browser: Any, noisy_file: Path) -> None:
    """Also with the longest words that a row of it may have."""
    with Reader(browser, noisy_file, PHONE) as reader:
        row = reader.page.locator(".accuracy tbody th").first
        row.evaluate("(head) => { head.textContent = '1,000 or more, external zones'; }")
        reader.page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        assert reader.page.evaluate("document.documentElement.scrollWidth") == PHONE[0]


@pytest.mark.parametrize("size", [PHONE, (720, 450), LAPTOP], ids=["phone", "zoom", "laptop"])
def test_the_number_is_the_first_thing_in_view(
    browser: Any, map_file: Path, mapped: Release, size: tuple[int, int]
) -> None:
    """When the page opens and after a choice, beside or below the map; its heading has the whole line."""
    with Reader(browser, map_file, size) as reader:
        panel = reader.page.locator("#panel").bounding_box()
        for code in (None, busiest(mapped, "work")):
            if code is not None:
                reader.search(code)
            number, heading, shown = (
                reader.page.locator(f"#{name}").bounding_box() for name in ("jobs", "chosen", "map")
            )
            assert number["y"] + number["height"] <= size[1]
            assert number["y"] >= 0 if size == LAPTOP else number["y"] >= shown["y"] + shown["height"]
            assert heading["width"] > 0.85 * panel["width"]


def test_paper(reader: Reader, mapped: Release, tmp_path: Path) -> None:
    reader.search(busiest(mapped, "work"))
    reader.still()
    where = "(({ map }) => [map.getZoom(), map.getCanvas().width])(document.getElementById('map'))"
    before = reader.page.evaluate(where)
    paper = reader.page.pdf()
    assert paper.startswith(b"%PDF")
    assert len(reader.page.evaluate(PAPER_COLOURS).splitlines()) > 10  # a map, and not an empty sheet
    reader.page.emulate_media(media="print")
    assert reader.page.locator(".maplibregl-ctrl-compass").is_visible()
    sheet, shown, copy, legend = (
        reader.page.locator(name).bounding_box() for name in ("#panel", "#map", "#paper", "#legend")
    )
    assert shown == copy  # the picture fills its box, and the legend stands beside
    assert copy["x"] + copy["width"] < legend["x"] < sheet["x"] + 0.8 * sheet["width"]
    reader.page.emulate_media(media="screen")
    reader.still()
    reader.still()
    assert reader.page.evaluate(where) == before


def test_without_graphics(browser: Any, map_file: Path, mapped: Release) -> None:
    """Where the map cannot be drawn, the panel still answers."""
    reader = Reader(browser, map_file)
    reader.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    with reader:
        assert reader.page.locator("#no-map").is_visible()
        assert reader.page.locator("#still path").first.is_visible()  # a picture in its place
        assert not reader.page.locator("#opening").is_visible()
        code = busiest(mapped, "work")
        reader.search(code)
        check_summary(reader, expected(mapped, work=("trct", code)))


def test_without_shapes(browser: Any, shapeless: Release, library: Path) -> None:
    with Reader(browser, shapeless.map()) as reader:
        reader.page.select_option("#level", "trct")
        assert reader.page.locator("#legend-cells").is_visible()
        reader.still()
        code = busiest(shapeless, "work")
        place = shapeless.places("trct").set_index("code").loc[code]
        pixel = reader.pixel_of((place["longitude"], place["latitude"]))
        reader.page.mouse.click(pixel["x"], pixel["y"])
        assert code in reader.chosen()
        assert reader.complaints == []
