"""Two choices side by side, and two releases: every number against plain pandas on the released files."""

from __future__ import annotations

import json
import shutil
from functools import lru_cache
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import pytest

from pipelines import PosteriorDraws
from pipelines.release.intervals import DRAWS, INTERVALS_FILE
from pipelines.views.maps import payload
from pipelines.views.maps.page import build_site_map
from pipelines.views.release import Release, open_release

from .map_reader import Reader, expected, mean_km, median_km
from .published_site import LIST, PublishedSite
from .truth import Truth, ends, numbers

pytestmark = pytest.mark.slow


@lru_cache(maxsize=16)
def facts(release: Release, code: str, count: str, side: str) -> list[float]:
    """What stands beside a tract: sums and lengths, and the shares of those of a side."""
    works = expected(release, work=("trct", code), count=count)
    lives = expected(release, home=("trct", code), count=count)
    here = release.geography.unit_number("trct", [code])[0]
    stay = works["jobs"][release.geography.unit_of("trct", works["home"].to_numpy()) == here].sum()
    come, leave = works["jobs"].sum() - stay, lives["jobs"].sum() - stay
    lengths = [
        f(rows) if len(rows.dropna()) else np.nan for rows in (works, lives) for f in (mean_km, median_km)
    ]
    ends = {side: ("trct", code)}
    sums = [expected(release, count=name, **ends)["jobs"].sum() for name in release.counts]
    shares = [100 * n / sums[0] if sums[0] else 0 for n in sums[1:]]
    return [come + stay, come, stay, stay + leave, leave, *lengths, *shares]


def check_columns(
    reader: Reader, release: Release, a: str, b: str, count: str = "S000", side: str = "work"
) -> None:
    """Numbers of two tracts, and of the first less the second."""
    one, other = (np.array(facts(release, code, count, side)) for code in (a, b))
    rows = reader.table("comparison-table")
    for at, true in enumerate((one, other, one - other), 1):
        shown = [numbers(row[at].splitlines()[0].replace("\u2212", "-")) for row in rows]
        assert shown == [[] if np.isnan(n) else [pytest.approx(n, abs=0.061)] for n in true]


def test_two_choices(browser: Any, map_file: Path, mapped: Release) -> None:
    flows = mapped.unit_flows("trct", "trct")
    jobs = flows[flows["home"] == flows["work"]].groupby("work")["S000"].sum().nlargest(2)
    a, b = mapped.geography.codes("trct")[jobs.index]
    with Reader(browser, map_file) as reader:
        page = reader.page
        reader.hold()
        assert not page.is_visible("#keep")
        reader.search(a)
        page.click("#keep")
        assert page.is_visible("#comparison")
        reader.search(b)
        for count in ("S000", "SE03"):
            page.select_option("#count", count)
            for side in ("work", "home"):
                reader.pick_side(side)
                check_columns(reader, mapped, b, a, count, side)
        page.click("#swap")
        check_columns(reader, mapped, a, b, "SE03", "home")
        before = reader.text("comparison-table")
        assert "beside" in reader.address()
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        assert reader.text("comparison-table") == before
        page.click("#clear")  # beside the whole region
        reader.pick_side("work")
        page.select_option("#count", "S000")
        inside = expected(mapped)
        known = ~mapped.geography.is_external(inside["home"].to_numpy())
        shown = [numbers(row[1].splitlines()[0]) for row in reader.table("comparison-table")][:5]
        total, stay = inside["jobs"].sum(), inside["jobs"][known].sum()
        assert shown == [[total], [total - stay], [stay], [stay], [0]]
        page.click("#end-comparison")
        assert not page.is_visible("#comparison")
        assert reader.complaints == []


def test_numbers_that_are_noise_are_grey(browser: Any, noisy_file: Path, noisy: Release) -> None:
    """Flows of units of such a level; not their totals, nor flows of a level that is none."""
    with Reader(browser, noisy_file) as reader:
        page = reader.page
        reader.hold()

        def colour(selector: str) -> str:
            return str(page.evaluate("(q) => getComputedStyle(document.querySelector(q)).color", selector))

        ink = colour("#top td:last-child")
        tract, group = noisy.geography.codes("trct")[0], noisy.geography.codes("bgrp")[0]
        reader.search(tract)
        assert colour("#balance-table td:nth-child(2)") == ink == colour("#top td:last-child")
        page.click("#keep")
        reader.search(group)
        grey = colour("#balance-table td:nth-child(2)")
        assert grey != ink
        column = "#comparison-table tr:nth-child({}) td:nth-child({})"
        assert [colour(column.format(row, 2)) for row in (2, 3, 4, 5)] == [ink, grey, grey, ink]
        assert [colour(column.format(row, 3)) for row in (2, 3, 4, 5)] == [ink] * 4
        assert "expected to be noise" in reader.text("comparison-words")
        assert colour("#top td:last-child") == ink  # by tract
        page.select_option("#level", "bgrp")
        page.click("#warning-show")
        assert colour("#top td:last-child") == grey
        assert reader.complaints == []


@pytest.fixture(scope="module")
def later(mapped: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Another release of the region: some flows twice as large, a third of them gone."""
    folder = Path(shutil.copytree(mapped.public, tmp_path_factory.mktemp("later") / "public"))
    for path in folder.glob("*_od_*.parquet"):
        rows = pd.read_parquet(path)
        counts = [name for name in rows if name[0] == "S"]
        rows.loc[rows.index % 5 == 0, counts] *= 2
        rows[rows.index % 3 != 1].to_parquet(path, index=False)
    # Its data are made up, so its draws are those of the first release in another order.
    drawn = pd.read_parquet(folder / INTERVALS_FILE)
    others = dict(zip(DRAWS, DRAWS[7:] + DRAWS[:7], strict=True))
    drawn.rename(columns=others)[drawn.columns].to_parquet(folder / INTERVALS_FILE, index=False)
    return open_release(folder)


def test_two_releases(
    browser: Any,
    map_file: Path,
    mapped: Release,
    later: Release,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    codes = mapped.geography.codes("trct")
    code = str(codes[0])
    file = later.map(tmp_path / "later.html")
    with Reader(browser, map_file) as reader:
        page = reader.page
        reader.hold()
        page.click("#several summary")
        page.select_option("#level", "trct")
        page.set_input_files("#other-file", {"name": "x.html", "mimeType": "text/html", "buffer": b"<p>"})
        page.wait_for_selector("#tool-words.warning")
        assert reader.text("tool-words").startswith("x.html: it is no map")
        page.set_input_files("#other-file", file)
        page.wait_for_selector("#other:not([hidden])")
        assert later.certificate.release.name in reader.text("other-title")
        for side, chosen, end in (
            ("work", None, "work"),
            ("home", None, "home"),
            ("work", code, "home"),
            ("home", code, "work"),
        ):
            page.keyboard.press("Escape")
            reader.pick_side(side)
            if chosen:
                reader.search(chosen)
            sums = []
            for release in (mapped, later):
                rows = expected(release, **({side: ("trct", chosen)} if chosen else {}))
                units = release.geography.unit_of("trct", rows[end].to_numpy())
                jobs = rows["jobs"].groupby(units).sum()
                sums.append(jobs.reindex(range(len(codes)), fill_value=0))
            here, there = sums
            difference = here - there
            total = here.sum() - there.sum()
            assert numbers(reader.text("other-words"))[:3] == [here.sum(), there.sum(), abs(total)]
            inside = ~mapped.geography.is_external(mapped.geography.starts("trct"))
            largest = difference[inside].abs().sort_values(ascending=False)
            rows = reader.table("other-table")
            assert len(rows) == min(10, (largest > 0).sum())
            found = [codes.tolist().index(code) for code in reader.codes("other-table")]
            assert difference[found].abs().tolist() == largest.head(len(rows)).tolist()
            for unit, (_, ours, theirs, less) in zip(found, rows, strict=True):
                signed = float(less.replace("−", "-").replace(",", ""))
                assert [*numbers(ours), *numbers(theirs), signed] == [
                    here[unit],
                    there[unit],
                    difference[unit],
                ]
            states = page.evaluate(
                """(n) => JSON.stringify(Array.from({ length: n }, (_, id) =>
                    document.getElementById("map").map.getFeatureState({ source: "areas", id }).colour))""",
                len(codes),
            )
            legend = {
                item.evaluate("(li) => li.querySelector('i').style.backgroundColor"): item.inner_text()
                for item in page.locator("#legend-classes li").all()
            }
            assert ": difference" in reader.text("legend-title")
            rgb = "(c) => { const i = document.createElement('i'); i.style.color = c; return i.style.color; }"
            fills = page.evaluate(f"(colours) => colours.map({rgb})", json.loads(states))
            for unit in np.flatnonzero(inside):
                words, value = legend[fills[unit]], difference[unit]
                if value == 0:
                    assert words == "no difference"
                else:
                    low, high = (numbers(words) * 2)[:2]
                    assert low <= abs(value) <= high
                    assert words.endswith("more here" if value > 0 else "fewer here")
        # An area that only the other map has: of those where residents of the choice work, the largest
        gone = there.drop(codes.tolist().index(code)).idxmax()
        packed = payload._json

        def renamed(texts: Any) -> bytes:
            texts["codes"]["trct"][gone] = "0" * 11
            return packed(texts)

        monkeypatch.setattr(payload, "_json", renamed)
        page.set_input_files("#other-file", later.map(tmp_path / "renamed.html"))
        page.locator("#other-words", has_text="not in").wait_for()
        said = [here.sum(), there.sum(), abs(total), there[gone]]
        assert numbers(reader.text("other-words"))[:4] == said
        page.click("#end-other")
        assert not page.is_visible("#other")
        assert "difference" not in reader.text("legend-title")
        assert reader.complaints == []


def in_draws(truth: Truth, side: str, chosen: str | None, area: str) -> np.ndarray:
    """What is mapped of an area, in each draw."""
    if chosen is None:
        return truth.of(area, None)
    if side == "both":
        beyond = [code for code in truth.tracts[0] if code.startswith(area) and not code.startswith(chosen)]
        return truth.of(beyond, chosen) + truth.of(chosen, beyond)
    return truth.of(area, chosen) if side == "work" else truth.of(chosen, area)


def three(here: Truth, there: Truth, side: str, chosen: str | None, area: str) -> list[list[float]]:
    """Intervals here, there, and of the difference: of as many draws as both have."""
    ours, theirs = (in_draws(truth, side, chosen, area) for truth in (here, there))
    both = min(len(ours), len(theirs))
    return [ends(ours), ends(theirs), ends(ours[:both] - theirs[:both])]


def test_intervals_of_two_releases(
    browser: Any, bounded: tuple[PosteriorDraws, Path], map_file: Path, later: Release, tmp_path: Path
) -> None:
    """Draws of one release less draws of the other, as many as both have; why there are none."""
    draws, file = bounded
    other = later.map(tmp_path / "later.html")
    here, there = Truth(draws), Truth(later.draws())
    code = str(draws.release.geography.codes("trct")[0])
    with Reader(browser, file) as reader:
        page = reader.page
        reader.hold()

        def words() -> str:
            return reader.text("other-words").replace("−", "-")

        page.select_option("#level", "trct")
        page.set_input_files("#other-file", map_file)
        page.wait_for_selector("#other:not([hidden])")
        assert words().endswith("No interval of differences: the other map was made without posterior draws.")
        page.set_input_files("#other-file", other)
        page.locator("#other-words", has_text="exact").wait_for()
        assert words().endswith("Jobs by place of work are public totals of each release, and exact.")
        for side, chosen in (("home", None), ("work", code), ("home", code), ("both", code)):
            page.keyboard.press("Escape")
            if chosen:
                reader.search(chosen)
            reader.pick_side(side)
            found = numbers(words().split("The tracts")[0])
            assert [found[1:3], found[4:6], found[7:9]] == three(here, there, side, chosen, "")
            codes = reader.codes("other-table")
            assert codes
            for area, row in zip(codes, reader.table("other-table"), strict=True):
                assert [numbers(cell.replace("−", "-"))[1:] for cell in row[1:]] == three(
                    here, there, side, chosen, area
                )
        with page.expect_download() as waiting:  # of who comes and goes, the last of them
            page.click("#save-csv")
        saved = pd.read_csv(waiting.value.path(), dtype={"code": str}).set_index("code")
        for area, row in saved[saved["level"] == "trct"].iterrows():
            assert row["difference"] == row["come_from_here"] + row["go_to_here"] - row["in_other_map"]
            limits = [
                row[f"{name}_{end}"] for name in ("in_other_map", "difference") for end in ("low", "high")
            ]
            _, theirs, less = three(here, there, "both", code, str(area))
            assert limits == [*theirs, *less]
        assert saved["other_map"].str.startswith(later.certificate.release.name).all()
        page.keyboard.press("Escape")
        page.select_option("#level", "tabblk2010")
        reader.pick_side("home")
        assert words().endswith(
            "No interval of differences: the draws in this page are of whole block groups."
        )
        assert reader.complaints == []


def test_a_published_version_beside_this_one(
    browser: Any, mapped: Release, later: Release, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of the site are offered, but this one and what is withdrawn; one in parts is read from its file."""
    here = build_site_map(mapped, versions=LIST)
    monkeypatch.setattr(payload, "_AT_ONCE", 1)
    there = build_site_map(later)  # made-up rows are not those of its plan, of which a list would ask
    assert there.parts
    names = [("demo", "1"), ("demo", "2"), ("demo", "3")]
    status = ["complete", "complete", "withdrawn"]
    entries = [
        {"name": name, "version": version, "title": "Demo region", "status": said}
        for (name, version), said in zip(names, status, strict=True)
    ]
    monkeypatch.setattr(
        PublishedSite,
        "pages",
        {
            LIST: json.dumps({"releases": entries}).encode(),
            "/releases/demo/1/map": here.page.encode(),
            "/releases/demo/2/map": there.page.encode(),
            **{f"/releases/demo/2/map/{name}": content for name, content in there.parts.items()},
        },
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), PublishedSite) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        site = f"http://127.0.0.1:{server.server_port}"
        with Reader(browser, Path(), site=f"{site}/releases/demo/1/map") as reader:
            page = reader.page
            assert not page.is_visible("#published")
            page.click("#several summary")
            page.wait_for_selector("#published option:nth-child(2)", state="attached")
            assert page.locator("#published option").all_inner_texts()[1:] == ["Demo region, version 2"]
            page.select_option("#published", label="Demo region, version 2")
            page.wait_for_selector("#other-table td")
            assert "difference" in reader.text("legend-title")
            # Lines do not hide the classes.
            assert reader.features("flows") == []
            assert not page.is_visible("#flows")
            page.click("#end-other")
            assert reader.features("flows") != []
            assert page.is_visible("#flows")
            del PublishedSite.pages["/releases/demo/2/map"]
            page.select_option("#published", label="Demo region, version 2")
            page.wait_for_selector("#tool-words.warning")
            assert reader.text("tool-words") == "Demo region, version 2: the site answered 404"
            assert {urlsplit(url).netloc for url in reader.requests if url.startswith("http")} == {
                urlsplit(site).netloc
            }
        server.shutdown()
