"""What a map saves: tables, shapes, a picture and a report, each with what it is of; against plain pandas."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely
from PIL import Image

from pipelines import PosteriorDraws
from pipelines.views.release import Release

from .map_reader import Reader, expected

pytestmark = pytest.mark.slow

ZONES = {"09": "Connecticut", "25": "Massachusetts"}


@pytest.fixture(scope="module")
def opened(browser: Any, layered_file: Path) -> Iterator[Reader]:
    with Reader(browser, layered_file) as reader:
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    opened.reset()
    opened.page.select_option("#level", "trct")
    yield opened
    assert opened.complaints == []


def saved(reader: Reader, button: str) -> tuple[str, bytes]:
    with reader.page.expect_download() as waiting:
        reader.page.click(f"#{button}")
    return waiting.value.suggested_filename, Path(waiting.value.path()).read_bytes()


def table(content: bytes) -> pd.DataFrame:
    codes = dict.fromkeys(["code", "home_code", "work_code"], "str")
    return pd.read_csv(io.BytesIO(content), dtype=codes, keep_default_na=False)


def check_source(source: Any, release: Release, chosen: str, counted: str) -> None:
    certificate = hashlib.sha256((release.public / "certificate.json").read_bytes()).hexdigest()
    assert source["synthetic"] == "Synthetic workers, not real people"
    assert source["release"] == release.certificate.release.name
    assert f"odsynth {release.certificate.software.version}" in source["version"]
    assert (source["certificate_sha256"], source["chosen"]) == (certificate, chosen)
    assert source["counted"] == counted


def totals(release: Release, rows: pd.DataFrame, side: str) -> pd.Series:
    units = release.geography.unit_of("trct", rows[side].to_numpy())
    jobs = rows["jobs"].groupby(units).sum()
    return jobs.reindex(range(release.geography.n_units("trct")), fill_value=0)


def test_the_table_of_areas(reader: Reader, layered: Release) -> None:
    geography = layered.geography
    real = ~geography.is_external(geography.starts("trct"))
    code = str(geography.codes("trct")[real][0])
    words = {"SE03": layered.counts["SE03"]}
    reader.hold()
    for count in words:
        reader.page.select_option("#count", count)
        for side, chosen, column, rows, end in (
            ("work", "", "jobs", expected(layered, count=count), "work"),
            ("home", "", "residents", expected(layered, count=count), "home"),
            ("work", code, "live_here", expected(layered, work=("trct", code), count=count), "home"),
            ("home", code, "work_here", expected(layered, home=("trct", code), count=count), "work"),
        ):
            reader.page.keyboard.press("Escape")
            reader.pick_side(side)
            if chosen:
                reader.search(chosen)
            name, content = saved(reader, "save-csv")
            assert name == f"demo-region-2019-all-jobs_synthetic_map-{side}-trct.csv"
            found = table(content)
            assert found[column].tolist() == totals(layered, rows, end).tolist()
            of = reader.text("chosen") + f" (trct:{code})" if chosen else ""
            for _, row in found.iterrows():
                check_source(row, layered, of, words[count])
            inside = found[found["level"] == "trct"]
            assert inside["code"].tolist() == geography.codes("trct")[real].tolist()
            outside = found[found["level"] == "external zone"].set_index("code")["name"].to_dict()
            assert outside == ZONES
            bare = [name.partition("(")[0] for name in inside["name"]]  # counties are written out
            assert bare == [name.partition("(")[0] for name in layered.names["trct"][real]]
    reader.pick_side("both")
    found = table(saved(reader, "save-csv")[1])
    to = totals(layered, expected(layered, work=("trct", code), count=count), "home")
    off = totals(layered, expected(layered, home=("trct", code), count=count), "work")
    own = int(geography.unit_number("trct", [code])[0])
    to[own] = off[own] = 0  # who stays
    assert (found["come_from_here"].tolist(), found["go_to_here"].tolist()) == (to.tolist(), off.tolist())


def test_the_drawn_lines(reader: Reader, layered: Release) -> None:
    rows = layered.unit_flows("trct", "trct").rename(columns={"S000": "jobs"})
    rows = rows[rows["home"] != rows["work"]]
    reader.hold()
    reader.slide(30)
    least, drawn, _ = reader.flow_words()
    found = table(saved(reader, "save-flows")[1])
    assert len(found) == drawn == (rows["jobs"] >= least).sum() > 5
    codes = dict(enumerate(layered.geography.codes("trct")))
    codes |= {unit: code[:2] for unit, code in codes.items() if code.endswith("9" * 9)}
    known = {(codes[row.home], codes[row.work]): row.jobs for row in rows.itertuples()}
    pairs = zip(found["home_code"], found["work_code"], strict=True)
    assert [known[pair] for pair in pairs] == found["jobs"].tolist()
    check_source(found.iloc[0], layered, "", layered.counts["S000"])
    reader.search("Connecticut")
    reader.pick_side("work")
    nothing = table(saved(reader, "save-flows")[1])
    assert list(nothing)[:5] == ["home_code", "home_name", "work_code", "work_name", "jobs"]
    assert nothing.empty


def test_the_shapes(reader: Reader, layered: Release) -> None:
    name, content = saved(reader, "save-geojson")
    assert name == "demo-region-2019-all-jobs_synthetic_map-work-trct.geojson"
    check_source(json.loads(content)["odsynth"], layered, "", layered.counts["S000"])
    found = gpd.read_file(io.BytesIO(content)).set_index("code")
    shapes = gpd.read_parquet(layered.public / "geo" / "trct.parquet").set_index("trct")
    jobs = dict(zip(layered.geography.codes("trct"), totals(layered, expected(layered), "work"), strict=True))
    assert found["jobs"].to_dict() == {code: jobs[code] for code in shapes.index}
    true = shapes.geometry.reindex(found.index)
    off = found.geometry.symmetric_difference(true).to_crs("EPSG:6933").area
    assert (off / true.to_crs("EPSG:6933").area).max() < 0.05
    reader.page.select_option("#level", "tabblk2010")
    found = gpd.read_file(io.BytesIO(saved(reader, "save-geojson")[1]))
    places = layered.places("tabblk2010").set_index("code")["longitude"].reindex(found["code"])
    assert np.allclose(found.geometry.x, places, atol=1e-6)


def test_the_name_of_a_file_is_no_formula_in_a_table(reader: Reader, layered: Release) -> None:
    """A spreadsheet would calculate it; numbers below 0 stay numbers."""
    places = layered.places("tabblk2010")[["longitude", "latitude"]].dropna()
    outline = shapely.geometry.mapping(shapely.box(*places.min(), *places.max()).buffer(0.1))
    name = "=1+1.geojson"
    file = {"name": name, "mimeType": "application/geo+json", "buffer": json.dumps(outline).encode()}
    reader.page.set_input_files("#file", file)
    reader.page.locator("#chosen", has_text=name).wait_for()
    assert set(table(saved(reader, "save-csv")[1])["chosen"]) == {f"'{name}"}


def test_the_picture(reader: Reader) -> None:
    """The map as it is on the screen, with lines above and below it."""
    reader.sharpen()
    seen = reader.page.locator("canvas.maplibregl-canvas").evaluate("(c) => [c.width, c.height]")
    picture = Image.open(io.BytesIO(saved(reader, "save-png")[1])).convert("RGB")
    assert picture.width == seen[0]
    assert seen[1] + 50 < picture.height < seen[1] + 300
    legend = reader.page.locator("#legend-classes i").first
    colour = legend.evaluate("(i) => getComputedStyle(i).backgroundColor")
    counts = {f"rgb{rgb}": n for n, rgb in picture.getcolors(2**24) or ()}
    assert counts[colour] > 150  # areas of the class, and its swatch


def test_the_report(reader: Reader, layered: Release, tmp_path: Path) -> None:
    """One page of A4, of several areas too; the panel is as before."""
    page = reader.page
    codes = layered.geography.codes("trct")[:3]
    reader.search(codes[0])
    for more in (*codes[1:], "warwick", "02903"):
        page.fill("#search", more)
        page.press("#search", "Shift+Enter")
    reader.pick_side("both")
    page.evaluate("window.print = () => {}")
    page.click("#report")
    paper = page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper)) == 1
    assert "report" not in (page.get_attribute("body", "class") or "")
    page.click("#report")
    page.emulate_media(media="print")
    for shown in ("chosen", "balance-table", "top", "profile-bars", "rose", "distances", "source", "chips"):
        assert page.is_visible(f"#{shown}"), shown
    for hidden in ("certificate", "accuracy", "downloads", "search-form", "several"):
        assert not page.is_visible(f"#{hidden}"), hidden
    source = reader.text("source")
    assert hashlib.sha256((layered.public / "certificate.json").read_bytes()).hexdigest() in source
    assert layered.certificate.release.name in source
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")


def test_intervals_are_in_the_tables(browser: Any, bounded: tuple[PosteriorDraws, Path]) -> None:
    draws, file = bounded
    residents = draws.flows("trct", None).astype({"home": str}).set_index("home")[["low", "high"]]
    flows = draws.flows("trct", "trct").astype({"home": str, "work": str}).set_index(["home", "work"])
    with Reader(browser, file) as reader:
        reader.hold()
        reader.page.select_option("#level", "trct")
        reader.pick_side("home")
        found = table(saved(reader, "save-csv")[1])
        found["code"] = draws.release.geography.codes("trct")
        for row in found[found["residents"] > 0].itertuples():
            assert [row.low, row.high] == residents.loc[row.code].tolist()
        inside = table(saved(reader, "save-flows")[1]).query("home_code.str.len() == 11")
        assert len(inside)
        for row in inside.itertuples():
            assert [row.low, row.high] == flows.loc[(row.home_code, row.work_code), ["low", "high"]].tolist()
