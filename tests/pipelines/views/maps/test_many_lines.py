"""Many flows as fewer lines, and names on the map: what they are, against plain pandas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines.views.maps import page as page_module
from pipelines.views.release import Release

from .map_reader import LAPTOP, Reader

pytestmark = pytest.mark.slow

NEAR = 72
ZOOM_BY = """(step) => {
    const { map } = document.getElementById("map");
    map.jumpTo({ zoom: map.getZoom() + step });
}"""


def cells_of(places: np.ndarray, zoom: float) -> pd.Series:
    """The cell of a grid of so many pixels that each place is in, in the projection of the map."""
    x = (places[:, 0] + 180) / 360
    sine = np.sin(np.radians(places[:, 1]))
    y = 0.5 - np.arctanh(sine) / (2 * np.pi)
    size = NEAR / (512 * 2**zoom)
    return (
        pd.Series(np.floor(x / size).astype(int)).astype(str)
        + ","
        + np.floor(y / size).astype(int).astype(str)
    )


def test_ends_near_each_other_are_one(
    browser: Any, library: Path, mapped: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each zoom; the jobs of all lines, and of those that have none, are those of all flows."""
    read = page_module._text

    def fewer(name: str) -> str:
        return read(name).replace("var MOST_LINES = 1e3;", "var MOST_LINES = 100;")

    monkeypatch.setattr(page_module, "_text", fewer)
    flows = mapped.unit_flows("tabblk2010", "tabblk2010")
    flows = flows[flows["home"] != flows["work"]]
    with Reader(browser, mapped.map(tmp_path / "map.html"), LAPTOP) as reader:
        page = reader.page
        page.select_option("#level", "tabblk2010")
        reader.slide(0)
        places = mapped.places("tabblk2010")[["longitude", "latitude"]].to_numpy(copy=True)
        zones = {feature["id"]: feature["geometry"]["coordinates"] for feature in reader.features("zones")}
        places[[*zones]] = [*zones.values()]
        seen = []
        for step in (0, 1.5, -1):
            page.evaluate(ZOOM_BY, step)
            reader.still()
            zoom = page.evaluate("document.getElementById('map').map.getZoom()")
            cell = cells_of(places, zoom)
            cell[[*zones]] = [f"zone {unit}" for unit in zones]
            ends = [cell[flows[end]].to_numpy() for end in ("home", "work")]
            away = ends[0] != ends[1]
            sums = flows["S000"][away].groupby([ends[0][away], ends[1][away]]).agg(["sum", "count"])
            near, drawn = flows["S000"][~away].sum(), sums.nlargest(300, "sum")
            lines = [line["properties"] for line in reader.features("flows")]
            assert sorted(line["jobs"] for line in lines) == sorted(drawn["sum"])
            assert [line["jobs"] for line in lines] == sorted(drawn["sum"], reverse=True)
            if len(sums) <= 300:
                assert sorted((line["jobs"], line["n"]) for line in lines) == sorted(
                    map(tuple, sums.to_numpy().tolist())
                )
            words = [
                float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", reader.text("flow-count"))
            ]
            share = 100 * drawn["sum"].sum() / flows["S000"].sum()
            assert words[:3] == [len(flows), len(flows), len(lines)]
            assert words[3:5] == [pytest.approx(share, abs=0.051), flows["S000"].sum()]
            assert words[5:6] == ([near] if near else words[5:6])
            assert 10 < len(lines) < len(flows)
            seen.append(len(lines))
        assert len(set(seen)) > 1
        # Each end is the middle of its areas, weighted by jobs
        line = reader.features("flows")[0]
        x, y = line["geometry"]["coordinates"][0]
        homes = pd.Series(np.concatenate([ends[0], ends[1]]))
        units = np.concatenate([flows["home"], flows["work"]])
        jobs = np.concatenate([flows["S000"], flows["S000"]])
        middles = [
            np.average(places[units[homes == name]], axis=0, weights=jobs[homes == name])
            for name in homes.unique()
        ]
        assert min(np.abs(np.array(middles) - [x, y]).max(axis=1)) < 1e-5
        reader.slide(100)  # few: every line is a flow again
        assert len(reader.features("flows")) == reader.flow_words()[1] < 100
        assert reader.complaints == []


def test_names_on_the_map(browser: Any, layered_file: Path, layered: Release) -> None:
    """Of counties and towns, without what stands behind them; none on another; they can be put away."""
    with Reader(browser, layered_file, LAPTOP) as reader:
        names = {feature["properties"]["name"] for feature in reader.features("labels")}
        inside = ~layered.geography.is_external(layered.geography.starts("cty"))
        counties = {re.sub(r", [A-Z]{2}$", "", name) for name in layered.names["cty"][inside] if name}
        assert names >= {"Warwick", "Westerly"}
        assert counties <= names
        assert all(re.search("[A-Za-z]{2}", name) for name in names)
        # Where there is room for one: towns before counties, those of more jobs and residents first.
        order = [feature["properties"]["name"] for feature in reader.features("labels")]
        blocks = pd.read_parquet(layered.public / "plan" / "blocks.parquet")
        rows = layered.unit_flows(layered.levels[-1], layered.levels[-1])
        people = pd.concat([rows.set_index(side)["S000"] for side in ("home", "work")]).groupby(level=0).sum()
        size = people.groupby(blocks["ctycsub"].reindex(people.index)).sum()
        assert size["4400374300"] != size["4400378440"]
        first = "Warwick" if size["4400374300"] > size["4400378440"] else "Westerly"
        assert order[0] == first
        assert set(order[:2]) == {"Warwick", "Westerly"}
        rendered = """() => document.getElementById("map").map
            .queryRenderedFeatures({ layers: ["label"] }).map(({ properties }) => properties.name)"""
        reader.still()
        shown = reader.page.evaluate(rendered)
        assert set(shown) <= names
        assert len(shown) > 0
        reader.page.uncheck("#labels")
        reader.still()
        assert reader.page.evaluate(rendered) == []
        reader.page.check("#labels")
        reader.page.click("#theme")
        reader.still()
        assert set(reader.page.evaluate(rendered)) == set(shown)
        assert reader.complaints == []
