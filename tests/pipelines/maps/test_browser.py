"""The map in a real browser without a network: what it asks for, what it shows, how it is used."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas as gpd
import pandas as pd
import pytest
from PIL import Image

from pipelines.maps import write_map
from pipelines.public_release import PublicRelease

from .map_reader import LAPTOP, PHONE, Reader, by_code, expected, mean_km, median_km

pytestmark = pytest.mark.slow


@pytest.fixture
def reader(browser: Any, map_file: Path) -> Iterator[Reader]:
    with Reader(browser, map_file) as reader:
        yield reader
        assert reader.complaints == []


def busiest(release: PublicRelease, side: str, level: str = "trct") -> str:
    return str(by_code(release, expected(release), side, level).index[0])


def tract_shapes(release: PublicRelease) -> gpd.GeoSeries:
    """By code; plane, as they are drawn."""
    shapes = gpd.read_parquet(release.folder / "geo" / "trct.parquet").set_index("trct").geometry
    return shapes.set_crs(None, allow_override=True)


def free_point(shapes: gpd.GeoSeries, code: str) -> tuple[float, float] | None:
    """A place that is in the shape of this code only."""
    free = shapes[code].difference(shapes.drop(code).union_all())
    if free.area < 0.2 * shapes[code].area:
        return None
    point = free.representative_point()
    return point.x, point.y


def bounds_of(words: str) -> tuple[int, int]:
    """The smallest and the largest count of a class in the legend."""
    low, _, high = words.replace(",", "").replace("none", "0").partition("–")
    return int(low), int(high or low)


def check_summary(reader: Reader, rows: pd.DataFrame) -> None:
    assert reader.number("jobs") == rows["jobs"].sum()
    assert reader.number("mean") == pytest.approx(mean_km(rows), abs=0.051)
    assert reader.number("median") == pytest.approx(median_km(rows), abs=0.061)


def check_top(reader: Reader, partners: pd.Series) -> None:
    shown = reader.top()
    assert list(shown.values()) == partners.head(10).tolist()
    assert all(partners[code] == jobs for code, jobs in shown.items())


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


def test_the_whole_region(reader: Reader, mapped: PublicRelease) -> None:
    rows = expected(mapped)
    check_summary(reader, rows)
    check_top(reader, by_code(mapped, rows, "work", reader.page.input_value("#level")))
    assert "not real people" in reader.text("panel")


@pytest.mark.parametrize("level", ["cty", "trct", "bgrp", "tabblk2010"])
def test_a_workplace_that_is_searched(reader: Reader, mapped: PublicRelease, level: str) -> None:
    code = busiest(mapped, "work", level)
    reader.page.select_option("#level", "trct")
    reader.search(code)
    rows = expected(mapped, work=(level, code))
    assert code in reader.text("chosen").replace(" ", "")
    check_summary(reader, rows)
    check_top(reader, by_code(mapped, rows, "home", "trct"))


def test_a_residence_that_is_searched(reader: Reader, mapped: PublicRelease) -> None:
    code = busiest(mapped, "home")
    reader.pick_side("home")
    reader.page.select_option("#level", "trct")
    check_top(reader, by_code(mapped, expected(mapped), "home", "trct"))
    reader.search(code)
    rows = expected(mapped, home=("trct", code))
    check_summary(reader, rows)
    check_top(reader, by_code(mapped, rows, "work", "trct"))


def test_a_workplace_that_is_clicked(reader: Reader, mapped: PublicRelease) -> None:
    reader.page.select_option("#level", "trct")
    reader.still()
    code = busiest(mapped, "work")
    point = free_point(tract_shapes(mapped), code)
    assert point is not None
    pixel = reader.pixel_of(point)
    reader.page.mouse.click(pixel["x"], pixel["y"])
    assert code in reader.text("chosen").replace(" ", "")
    check_summary(reader, expected(mapped, work=("trct", code)))


def test_the_pointer_is_told_what_is_under_it(reader: Reader, mapped: PublicRelease) -> None:
    reader.page.select_option("#level", "trct")
    reader.slide(100)
    reader.still()
    rows = expected(mapped)
    shapes = tract_shapes(mapped)
    homes, works = (by_code(mapped, rows, side, "trct") for side in ("home", "work"))
    told = 0
    for code in shapes.index:
        point = free_point(shapes, code)
        if point is None:
            continue
        pixel = reader.pixel_of(point)
        reader.page.mouse.move(pixel["x"], pixel["y"])
        words = reader.page.locator(".maplibregl-popup-content").inner_text().replace("\xa0", "")
        if words.startswith("Tract"):  # not a flow that passes
            here = f"{homes.get(code, 0):,} workers live here {works.get(code, 0):,} jobs are here"
            assert words.split() == f"Tract {code} {here}".split()
            told += 1
    assert told >= 3


def test_another_level_keeps_the_choice(reader: Reader, mapped: PublicRelease) -> None:
    code = busiest(mapped, "work")
    rows = expected(mapped, work=("trct", code))
    reader.search(code)
    for level, word in (("bgrp", "block group"), ("tabblk2010", "block"), ("cty", "county"), ("st", "state")):
        reader.page.select_option("#level", level)
        check_summary(reader, rows)
        check_top(reader, by_code(mapped, rows, "home", level))
        assert reader.text("legend-title").endswith(f"by {word}")


@pytest.mark.parametrize(
    "count", ["SE03", *(pytest.param(c, marks=pytest.mark.deep) for c in ("SA01", "SI02"))]
)
def test_the_attributes(reader: Reader, mapped: PublicRelease, count: str) -> None:
    reader.page.select_option("#count", count)
    check_summary(reader, expected(mapped, count=count))
    code = busiest(mapped, "work")
    reader.search(code)
    rows = expected(mapped, work=("trct", code), count=count)
    check_summary(reader, rows)
    reader.page.select_option("#level", "trct")
    check_top(reader, by_code(mapped, rows, "home", "trct"))


def test_miles(reader: Reader, mapped: PublicRelease) -> None:
    reader.page.select_option("#unit", "mi")
    assert reader.text("mean").endswith(" mi")
    assert reader.number("mean") == pytest.approx(mean_km(expected(mapped)) / 1.609344, abs=0.051)
    assert "under 5 mi" in reader.text("distances")


def test_the_wind_rose(reader: Reader, mapped: PublicRelease) -> None:
    code = busiest(mapped, "work")
    reader.search(code)
    rows = expected(mapped, work=("trct", code)).dropna()
    reader.page.locator("#rose-table").locator("xpath=ancestor::details").locator("summary").click()
    table = pd.DataFrame(reader.table("rose-table")).set_index(0).apply(pd.to_numeric)
    away = rows[rows["km"] > 0]
    by_distance = pd.cut(away["km"], [0, 5, 10, 20, 50, 1e5], right=False)
    assert table.sum().tolist() == away["jobs"].groupby(by_distance, observed=False).sum().tolist()
    # Seen from the workplace: homes that lie more to the north than to the east or west.
    geography = mapped.geography
    north = geography.latitude[away["home"]] - geography.latitude[away["work"]]
    east = geography.longitude[away["home"]] - geography.longitude[away["work"]]
    clearly = (north > 0) & (abs(east) < 0.2 * north)
    assert table.loc["N"].sum() >= away["jobs"][clearly].sum()
    assert table.loc[["SE", "S", "SW"]].sum().sum() <= away["jobs"][north < 0].sum()


def test_workers_from_outside(reader: Reader, mapped: PublicRelease) -> None:
    code = busiest(mapped, "work")
    reader.search(code)
    rows = expected(mapped, work=("trct", code))
    beyond = rows[mapped.geography.is_outside(rows["home"].to_numpy())]
    shown = {name: int(jobs) for name, jobs, _ in reader.table("outside-table")}
    states = mapped.geography.blocks[beyond["home"]].astype(str).astype("U2")
    names = pd.Series(states).map({"09": "Connecticut", "25": "Massachusetts"}).to_numpy()
    assert shown == beyond["jobs"].groupby(names).sum().to_dict()
    assert shown


def test_the_slider(reader: Reader, mapped: PublicRelease) -> None:
    reader.page.select_option("#level", "trct")
    geography = mapped.geography
    rows = mapped.flows("trct", "trct").rename(columns={"S000": "jobs"})
    outside = geography.unit_of("trct", geography.outside_blocks)
    flows = rows[(rows["home"] != rows["work"]) & ~rows["home"].isin(outside)]["jobs"]
    seen = []
    for position in (0, 30, 60, 100):
        reader.slide(position)
        threshold, drawn, every = reader.flow_words()
        assert (drawn, every) == ((flows >= threshold).sum(), len(flows))
        reader.still()
        lines = "document.getElementById('map').map.getSource('flows').getData()"
        assert len(reader.page.evaluate(f"{lines}.then((data) => data.features)")) == drawn
        seen.append((threshold, drawn))
    assert seen[0] == (1, len(flows))
    assert seen[-1][0] == flows.max()
    assert sorted(seen) == seen


def test_colours_mean_what_the_legend_says(reader: Reader, mapped: PublicRelease) -> None:
    """The pixels of every tract, with the flows taken away."""
    reader.page.select_option("#level", "trct")
    reader.search(busiest(mapped, "work"))
    reader.page.evaluate(
        """() => {
            const { map } = document.getElementById("map");
            for (const layer of ["flow", "casing", "chosen-line", "chosen-halo"]) {
                map.setLayoutProperty(layer, "visibility", "none");
            }
        }"""
    )
    reader.still()
    entries = reader.page.locator("#legend-classes li").all()
    legend = [
        (entry.inner_text(), entry.locator("i").evaluate("(i) => getComputedStyle(i).backgroundColor"))
        for entry in entries
    ]
    partners = by_code(mapped, expected(mapped, work=("trct", busiest(mapped, "work"))), "home", "trct")
    image = Image.open(io.BytesIO(reader.page.screenshot())).convert("RGB")
    shapes = tract_shapes(mapped)
    checked = 0
    for code in shapes.index:
        point = free_point(shapes, code)
        if point is None:
            continue
        pixel = reader.pixel_of(point)
        colour = "rgb{}".format(image.getpixel((round(pixel["x"]), round(pixel["y"]))))
        words = next((words for words, of_class in legend if of_class == colour), None)
        assert words is not None, (code, colour, legend)
        low, high = bounds_of(words)
        assert low <= partners.get(code, 0) <= high
        checked += 1
    assert checked >= 3


def test_keys(reader: Reader, mapped: PublicRelease) -> None:
    page = reader.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip the map"
    page.keyboard.press("Enter")
    page.keyboard.type(busiest(mapped, "work"))
    page.keyboard.press("Enter")
    assert reader.text("chosen-kind") == "Workplace"
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")  # the first one may close the list of suggestions
    assert reader.text("chosen") == "The whole region"
    page.locator("#top button").first.focus()
    page.keyboard.press("Enter")
    assert reader.text("chosen-kind") == "Workplace"
    page.locator(".maplibregl-canvas").focus()
    before = page.evaluate("document.getElementById('map').map.getCenter().lng")
    page.keyboard.press("ArrowRight")
    reader.still()
    assert page.evaluate("document.getElementById('map').map.getCenter().lng") > before


def test_everything_has_a_name(reader: Reader) -> None:
    """Every control that Tab reaches can be read out."""
    nameless = reader.page.evaluate(
        """() => {
            const controls = document.querySelectorAll("button, input, select, summary, a[href], canvas");
            const named = (e) => e.ariaLabel || e.labels?.length || e.textContent.trim() || e.title;
            return [...controls].filter((e) => e.ariaHidden !== "true" && !named(e)).map((e) => e.outerHTML);
        }"""
    )
    assert nameless == []


def test_a_code_that_is_not_there(reader: Reader) -> None:
    reader.search("xyz")
    assert reader.page.locator("#not-found").is_visible()
    assert reader.text("chosen") == "The whole region"


def brightness(reader: Reader) -> float:
    image = Image.open(io.BytesIO(reader.page.screenshot())).convert("L")
    return sum(value * n for value, n in enumerate(image.histogram())) / (image.width * image.height)


def test_dark_and_light(browser: Any, map_file: Path) -> None:
    with Reader(browser, map_file, color_scheme="dark") as reader:
        reader.still()
        dark = brightness(reader)
        reader.page.click("#theme")
        reader.still()
        assert dark < 80 < 160 < brightness(reader)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_it_fits(browser: Any, map_file: Path, size: tuple[int, int]) -> None:
    with Reader(browser, map_file, size) as reader:
        assert reader.page.evaluate("document.documentElement.scrollWidth") <= size[0]
        for element in ("map", "search", "level", "threshold", "top", "rose"):
            box = reader.page.locator(f"#{element}").bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= size[0]
        # Both where the reader is and on the map itself.
        assert reader.page.locator(".note").is_visible()
        assert "not real people" in reader.page.inner_text("#map")
        reader.page.click("#fold")
        assert not reader.page.locator("#panel").is_visible()
        assert "not real people" in reader.page.inner_text("#map")


def test_the_certificate(reader: Reader, mapped: PublicRelease) -> None:
    words = reader.text("certificate")
    certificate = mapped.certificate
    assert certificate.plan_sha256 in words
    assert "epsilon 8.6" in words
    assert "for publication" in words


def test_paper(reader: Reader, mapped: PublicRelease, tmp_path: Path) -> None:
    reader.search(busiest(mapped, "work"))
    reader.still()
    where = "(({ map }) => [map.getZoom(), map.getCanvas().width])(document.getElementById('map'))"
    before = reader.page.evaluate(where)
    paper = reader.page.pdf()
    assert paper.startswith(b"%PDF")
    colours = reader.page.evaluate(
        """() => {
            const paper = document.getElementById("paper");
            const { data } = paper.getContext("2d").getImageData(0, 0, paper.width, paper.height);
            return new Set(new Uint32Array(data.buffer)).size;
        }"""
    )
    assert colours > 10  # what is printed is a map, and not an empty sheet
    reader.still()
    assert reader.page.evaluate(where) == before


def test_without_graphics(browser: Any, map_file: Path, mapped: PublicRelease) -> None:
    """Where the map cannot be drawn, the panel still answers."""
    reader = Reader(browser, map_file)
    reader.page.add_init_script("HTMLCanvasElement.prototype.getContext = () => null")
    with reader:
        assert reader.page.locator("#no-map").is_visible()
        code = busiest(mapped, "work")
        reader.search(code)
        check_summary(reader, expected(mapped, work=("trct", code)))


def test_without_shapes(browser: Any, shapeless: PublicRelease, library: Path) -> None:
    with Reader(browser, write_map(shapeless.folder)) as reader:
        reader.page.select_option("#level", "trct")
        assert reader.page.locator("#legend-cells").is_visible()
        reader.still()
        code = busiest(shapeless, "work")
        place = shapeless.places("trct").set_index("code").loc[code]
        pixel = reader.pixel_of((place["longitude"], place["latitude"]))
        reader.page.mouse.click(pixel["x"], pixel["y"])
        assert code in reader.text("chosen").replace(" ", "")
        assert reader.complaints == []
