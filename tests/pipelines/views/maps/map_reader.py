"""A reader of a map in a browser, and what the reader should find there, computed from the release."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import geopandas as gpd
import numpy as np
import pandas as pd

from geo_data.distance import distance_km
from helpers import COARSE_MAPS, PATIENCE
from pipelines.views.release import Release

LAPTOP, PHONE = (1366, 768), (390, 844)
WINDOW = (820, 500)  # a small one, which is drawn faster; still with the panel beside the map

# As it was when it was opened: kept in the page, and brought back by links, which draw it once for each.
KEEP = """() => {
    const { map } = document.getElementById("map");
    const camera = map && { center: map.getCenter(), zoom: map.getZoom(), bearing: map.getBearing() };
    window.first = { level: document.getElementById("level").value, camera };
}"""
RESET = """() => {
    const { map } = document.getElementById("map");
    const follow = (level) => {
        history.replaceState(null, "", `#level=${level}&side=work&count=S000&unit=km&density=0`);
        dispatchEvent(new PopStateEvent("popstate"));
    };
    follow("st"); // other flows in between: the slider too
    document.getElementById("clear").click();
    if (!document.getElementById("other").hidden) document.getElementById("end-other").click();
    if (document.getElementById("add").checked) document.getElementById("add").click();
    follow(window.first.level);
    map.getStyle().layers.forEach(({ id }) => map.setLayoutProperty(id, "visibility", "visible"));
    map.setPixelRatio(devicePixelRatio);
    map.jumpTo(window.first.camera);
}"""


# More than half of the time of a choice goes into frames of the map.
HOLD = """() => {
    if (window.held) return;
    window.held = { frame: requestAnimationFrame, waiting: [] };
    window.requestAnimationFrame = (draw) => held.waiting.push(draw);
}"""
GO_ON = """() => {
    if (!window.held) return;
    window.requestAnimationFrame = held.frame;
    held.waiting.forEach((draw) => requestAnimationFrame(draw));
    window.held = null;
}"""

CELLS = """(rows) => rows.map((row) =>
    [...row.querySelectorAll("td")].map((cell) => cell.innerText.replaceAll("\\u00a0", " ")))"""


class Reader:
    """A page of its own in the browser, offline but at a site; remembers requests and complaints."""

    def __init__(
        self,
        browser: Any,
        file: Path,
        size: tuple[int, int] = WINDOW,
        site: str = "",
        link: str = "",
        as_opened: bool = False,
        **context: Any,
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, offline=not site, **context
        )
        self.context.set_default_timeout(1000 * PATIENCE)
        self.context.add_init_script(COARSE_MAPS)
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", self._heard)
        self._as_opened = as_opened  # also with densities
        self.file, self._url = file, (site or file.as_uri()) + link

    def _heard(self, message: Any) -> None:
        # Reading pixels back from a graphics card that is none is slow, and says so.
        if message.type in ("error", "warning") and "GPU stall" not in message.text:
            self.complaints.append(message.text)

    def __enter__(self) -> Reader:
        self.page.goto(self._url)
        self.page.wait_for_selector("html[data-ready]", state="attached")
        self.page.evaluate(KEEP)
        if not self._as_opened and self.page.is_checked("#density"):  # tests of densities ask for them
            self.page.click("#density")
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()

    def reset(self) -> None:
        """Undo every choice; draw the map."""
        self.page.evaluate(GO_ON)
        self.page.evaluate(RESET)

    def hold(self) -> None:
        """Draw no map until `reset`: whoever asks for numbers beside it sees no picture."""
        self.page.evaluate(HOLD)

    def settle(self) -> None:
        """Wait by the page's own clock: what it was to do before then is done, however busy the machine."""
        self.page.evaluate("new Promise((done) => setTimeout(done, 250))")

    def address(self) -> dict[str, list[str]]:
        """What the address says of what is seen, once the page has written it."""
        self.settle()
        return parse_qs(urlsplit(self.page.url).fragment)

    def text(self, element: str) -> str:
        return self.page.inner_text(f"#{element}").replace("\xa0", " ")

    def number(self, element: str) -> float:
        return float(self.text(element).split()[0].replace(",", ""))

    def chosen(self) -> str:
        """Name and code of the chosen area, without spaces."""
        return (self.text("chosen") + self.text("chosen-code")).replace(" ", "")

    def search(self, code: str) -> None:
        self.page.fill("#search", code)
        self.page.press("#search", "Enter")

    def type(self, words: str) -> list[list[str]]:
        """Type into the empty search field, key by key; the lines of each area that is found."""
        self.page.fill("#search", "")
        self.page.locator("#search").press_sequentially(words)
        found = self.page.locator("#found li").all_inner_texts()
        return [lines.replace("\xa0", " ").removeprefix("+ add").strip().splitlines() for lines in found]

    def pick_side(self, side: str) -> None:
        self.page.locator(f"input[name=side][value={side}]").check(force=True)

    def table(self, element: str) -> list[list[str]]:
        """Rows of a table without its head."""
        rows: list[list[str]] = self.page.locator(f"#{element} tr").evaluate_all(CELLS)
        return rows[1:]

    def top(self) -> dict[str, float]:
        rows = zip(self.codes("top"), self.table("top"), strict=True)
        return {code: float(row[1].replace(",", "")) for code, row in rows}

    def codes(self, element: str) -> list[str]:
        """Codes of the areas in a table."""
        buttons = self.page.locator(f"#{element} button")
        codes: list[str] = buttons.evaluate_all("(all) => all.map(({ dataset }) => dataset.code)")
        return codes

    def flow_words(self) -> tuple[int, int, int]:
        """Threshold, flows drawn, all flows."""
        drawn, _, every, *_ = self.text("flow-count").replace(",", "").split()
        return int(self.number("threshold-words")), int(drawn), int(every)

    def slide(self, position: int) -> None:
        self.page.locator("#threshold").fill(str(position))

    def features(self, source: str) -> list[dict[str, Any]]:
        """What a source of the map holds."""
        data = f"document.getElementById('map').map.getSource('{source}').getData()"
        # As a text: playwright checks every value of anything else, for seconds.
        features: list[dict[str, Any]] = json.loads(
            self.page.evaluate(f"{data}.then(({{ features }}) => JSON.stringify(features))")
        )
        return features

    def still(self) -> None:
        """Wait until the map is drawn."""
        self.page.evaluate(
            """() => new Promise((done) => {
                const { map } = document.getElementById("map");
                map.once("idle", () => done()); // and not with the event, which has the whole map in it
                map.triggerRepaint();
            })"""
        )

    def sharpen(self) -> None:
        """Draw the map with a pixel for each of the window, for who looks at pixels."""
        self.page.evaluate("document.getElementById('map').map.setPixelRatio(1)")
        self.still()

    def pixel_of(self, place: tuple[float, float]) -> dict[str, float]:
        """Where in the window a longitude and latitude are."""
        return self.page.evaluate(
            """(place) => {
                const element = document.getElementById("map");
                const { left, top } = element.getBoundingClientRect();
                const { x, y } = element.map.project(place);
                return { x: left + x, y: top + y };
            }""",
            list(place),
        )


@lru_cache(maxsize=32)  # of each count
def _flows(release: Release, count: str) -> pd.DataFrame:
    block = release.levels[-1]
    return release.unit_flows(block, block, [count]).rename(columns={count: "jobs"})


def expected(
    release: Release,
    *,
    work: tuple[str, str] | None = None,
    home: tuple[str, str] | None = None,
    count: str = "S000",
) -> pd.DataFrame:
    """Rows of the release, block to block, by (level, code) of workplaces or homes: work, home, jobs, km."""
    geography = release.geography
    rows = _flows(release, count)
    for side, chosen in (("work", work), ("home", home)):
        if chosen:
            level, code = chosen
            unit = geography.unit_number(level, [code])[0]
            rows = rows[geography.unit_of(level, rows[side].to_numpy()) == unit]
    ends = [
        values[rows[side]]
        for side in ("home", "work")
        for values in (geography.latitude, geography.longitude)
    ]
    placed = np.isfinite(ends).all(axis=0)
    km = np.full(len(rows), np.nan)
    km[placed] = distance_km(*(values[placed] for values in ends))
    return rows.assign(km=km)[rows["jobs"] > 0]


def by_code(release: Release, rows: pd.DataFrame, side: str, level: str) -> pd.Series:
    """Jobs by the code of a level's units on one side, external zones left out."""
    geography = release.geography
    inside = rows[~geography.is_external(rows[side].to_numpy())]
    unit = geography.unit_of(level, inside[side].to_numpy())
    return inside["jobs"].groupby(geography.codes(level)[unit]).sum().sort_values(ascending=False)


def mean_km(rows: pd.DataFrame) -> float:
    placed = rows.dropna()
    return float(np.average(placed["km"], weights=placed["jobs"]))


def median_km(rows: pd.DataFrame) -> float:
    placed = rows.dropna().sort_values("km")
    return float(placed["km"].iloc[np.searchsorted(placed["jobs"].cumsum(), placed["jobs"].sum() / 2)])


def tract_shapes(release: Release) -> gpd.GeoSeries:
    """By code; plane, as they are drawn."""
    shapes = gpd.read_parquet(release.public / "geo" / "trct.parquet").set_index("trct").geometry
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
