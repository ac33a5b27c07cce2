"""Every number beside a map, in many states of it, against plain pandas on the released files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines import PosteriorDraws
from pipelines.views.release import Release

from .map_reader import Reader
from .truth import DIGITS, EDGES, SAME_PLACE, Truth, ends, numbers, share, with_distances

pytestmark = pytest.mark.slow

WORDS = {"st": "state", "cty": "county", "trct": "tract", "bgrp": "block group", "tabblk2010": "block"}
ZONES = {"09": "Connecticut", "25": "Massachusetts"}
UNTOLD = "No interval of shares by age, earnings: the draws in this page do not tell these jobs apart."


@pytest.fixture(scope="module")
def jobs(mapped: Release) -> pd.DataFrame:
    """The rows of the released files, with zones of homes beyond the region, and distances of others."""
    files = [*mapped.public.glob("*_od_*.parquet")]
    rows = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    assert rows["S000"].sum() == mapped.certificate.totals.synthetic_workers
    return with_distances(rows, mapped.public)


@pytest.fixture(scope="module")
def reader(browser: Any, map_file: Path) -> Iterator[Reader]:
    with Reader(browser, map_file) as reader:
        reader.page.locator("details", has=reader.page.locator("#rose-table")).locator("summary").click()
        yield reader
        assert reader.complaints == []


# Everything that the panel says, in one go: words by the ids of elements, rows of tables, lines on the map.
PANEL = """async () => {
    const words = {}, tables = {};
    for (const element of document.querySelectorAll("[id]")) {
        if (!element.checkVisibility()) continue;
        words[element.id] = element.innerText.replaceAll("\\u00a0", " ");
        if (element.matches("table")) {
            const cells = (row) => [...row.querySelectorAll("td")].map((cell) => cell.innerText);
            tables[element.id] = [...element.rows].slice(1).map(cells);
        }
    }
    const codes = [...document.querySelectorAll("#top button")].map(({ dataset }) => dataset.code);
    const { features } = await document.getElementById("map").map.getSource("flows").getData();
    return JSON.stringify({ words, tables, codes, lines: features.length });
}"""


def check_state(
    reader: Reader, jobs: pd.DataFrame, side: str, level: str, chosen: tuple[str, str] | None, count: str
) -> None:
    near = "w_geocode" if side == "work" else "h_geocode"
    rows = jobs[jobs[count] > 0]
    code = chosen[1] if chosen else ""
    if chosen:
        rows = rows[rows[near].str.startswith(code)]
    panel = json.loads(reader.page.evaluate(PANEL))
    text: dict[str, str] = panel["words"]
    total, placed = rows[count].sum(), rows.dropna(subset="km").sort_values("km")
    digits, word = DIGITS[level], WORDS[level]

    # Headline
    assert numbers(text["jobs"])[0] == total
    assert numbers(text["commute-of"]) == ([total - placed[count].sum()] if len(placed) < len(rows) else [])
    if len(placed):
        assert numbers(text["mean"])[0] == pytest.approx(
            np.average(placed["km"], weights=placed[count]), abs=0.051
        )
        half = np.searchsorted(placed[count].cumsum(), placed[count].sum() / 2)
        assert numbers(text["median"])[0] == pytest.approx(placed["km"].iloc[half], abs=0.061)
    else:
        assert text["mean"] == text["median"] == "–"

    # Flows: between two areas that do not overlap
    home, work = (rows[name].str[:digits] for name in ("h_geocode", "w_geocode"))
    if chosen:
        other = home if side == "work" else work
        stay = other.str.startswith(code) if digits >= len(code) else other == code[:digits]
        flows = rows[count][~stay].groupby(other[~stay]).sum()
        own = "the chosen area itself" if digits >= len(code) else f"the {word} that the chosen area lies in"
    else:
        stay = home == work
        flows = rows[count][~stay].groupby([home[~stay], work[~stay]]).sum()
        own = f"the {word} where they work"
    inside, between = rows[count][stay].sum(), flows.sum()
    threshold, said = numbers(text["threshold-words"])[0], text["flow-count"]
    drawn = flows[flows >= threshold]
    expected = [len(drawn), len(flows), share(drawn.sum(), between), between] if len(flows) else []
    expected += [inside, share(inside, inside + between)] if inside else []
    assert numbers(said) == pytest.approx(expected, abs=0.051), said
    assert (own in said) == (inside > 0), said
    assert panel["lines"] == len(drawn)

    # Areas at the other end, or of the side itself where nothing is chosen
    homes = (side == "work") == bool(chosen)
    end = rows["h_geocode" if homes else "w_geocode"][rows["zone"] == ""] if homes else rows["w_geocode"]
    areas = rows[count][end.index].groupby(end.str[:digits]).sum().sort_values(ascending=False)
    top = [numbers(" ".join(row[1:])) for row in panel["tables"]["top"]]
    assert [n for n, _ in top] == [areas[found] for found in panel["codes"]] == areas.head(10).tolist()
    assert [part for _, part in top] == pytest.approx([share(n, total) for n in areas.head(10)], abs=0.051)
    beyond = total - areas.sum()
    counted = [10, len(areas)] if len(areas) > 10 else [len(areas)]
    assert numbers(text["top-count"]) == pytest.approx(
        [*counted, *([beyond, share(beyond, total)] if beyond else [])], abs=0.051
    )

    # External zones
    zones = rows[rows["zone"] != ""].groupby("zone")[count].sum()
    shown = {row[0]: numbers(" ".join(row[1:])) for row in panel["tables"].get("external-zones-table", [])}
    assert ("external-zones" in text) == (len(zones) > 0)
    assert shown == {ZONES[zone]: pytest.approx([n, share(n, total)], abs=0.051) for zone, n in zones.items()}

    # Distances and directions
    assert numbers(text["placed"]) == [placed[count].sum()]
    still = placed[placed["km"] == 0][count].sum()
    assert numbers(text.get("no-direction", "")) == ([still, 0] if still else [])  # which count as distance 0
    bars = [numbers(line)[-1] for line in text["distances"].splitlines() if "%" in line]
    classes = (
        placed[count].groupby(np.searchsorted(EDGES, placed["km"], side="right")).sum().reindex(range(5))
    )
    everybody = max(placed[count].sum(), 1)
    assert bars == pytest.approx([share(n, everybody) for n in classes.fillna(0)], abs=0.051)
    assert (
        sum(sum(numbers(" ".join(row[1:]))) for row in panel["tables"]["rose-table"])
        == placed[count].sum() - still
    )

    # What is shown is what is said
    sides = {None: ("Where people work", "Where people live")}.get(
        chosen and "", ("Where its workers live", "Where its residents work")
    )
    assert (text["side-work"], text["side-home"]) == sides
    assert text["legend-title"] == f"{'Residents' if homes else 'Jobs'} by {word}"


def test_every_number_of_the_panel(reader: Reader, jobs: pd.DataFrame) -> None:
    inside = jobs[jobs["zone"] == ""]
    busy = {side: str(inside.groupby(side)["S000"].sum().idxmax()) for side in ("w_geocode", "h_geocode")}
    reader.hold()
    for side, code in (("work", busy["w_geocode"]), ("home", busy["h_geocode"])):
        choices = [None, ("st", code[:2]), ("cty", code[:5]), ("trct", code[:11]), ("tabblk2010", code)]
        choices += [("st", zone) for zone in (ZONES if side == "home" else ())]
        for chosen in choices:
            reader.page.keyboard.press("Escape")
            if chosen:
                reader.search(chosen[1])
            reader.pick_side(side)
            levels = DIGITS if chosen is None or chosen[0] == "trct" else ("cty", "bgrp")
            for count, level in [*(("S000", level) for level in levels), ("SE03", "trct")]:
                reader.page.select_option("#count", count)
                reader.page.select_option("#level", level)
                check_state(reader, jobs, side, level, chosen, count)
    reader.reset()


def test_every_interval(
    browser: Any, jobs: pd.DataFrame, mapped: Release, bounded: tuple[PosteriorDraws, Path]
) -> None:
    """Between two of the draws of a sum: of flows, of several areas together, shares, means, zones."""
    draws, file = bounded
    truth = Truth(draws)
    inside = jobs[jobs["zone"] == ""]
    busy = inside["w_geocode"].str[:11].value_counts().index[:2].tolist()
    with Reader(browser, file) as reader:

        def shown() -> Any:
            return json.loads(reader.page.evaluate(PANEL))

        reader.page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        reader.page.select_option("#level", "trct")
        assert "public totals, and exact" in reader.text("jobs-interval")
        reader.pick_side("home")
        for code, row in zip(shown()["codes"], shown()["tables"]["top"], strict=True):
            assert numbers(row[2]) == ends(truth.of(code, None))

        # Under the pointer: the largest flow, which lies over the others, and an area
        def under_pointer(place: tuple[float, float]) -> list[str]:
            reader.still()
            pixel = reader.pixel_of(place)
            reader.page.mouse.move(pixel["x"], pixel["y"])
            return reader.page.locator(".maplibregl-popup-content").inner_text().splitlines()

        codes = mapped.geography.codes("trct")

        def ends_of(line: dict[str, Any]) -> list[str]:
            return [codes[line["properties"][end]] for end in ("home", "work")]

        # Of zones the mark may lie over the line.
        lines = [line for line in reader.features("flows") if ends_of(line)[0][:2] not in ZONES]
        flow = max(lines, key=lambda line: line["properties"]["jobs"])
        pair = ends_of(flow)
        found = numbers(under_pointer(tuple(flow["geometry"]["coordinates"][10]))[0])
        assert found == [flow["properties"]["jobs"], *ends(truth.of(*pair))]
        reader.page.evaluate(
            "document.getElementById('map').map.setLayoutProperty('flow', 'visibility', 'none')"
        )
        place = mapped.places("trct").dropna().iloc[0]
        words = under_pointer((place["longitude"], place["latitude"]))
        area = next(code for code in codes if code in "".join(filter(str.isdigit, "".join(words[:2]))))
        (residents,) = (numbers(line)[1:] for line in words if "live here" in line)
        assert residents == ends(truth.of(area, None))

        # Of a county, of an external zone, and of two tracts together
        reader.hold()
        for side, choice in (
            ("work", [busy[0][:5]]),
            ("home", ["25"]),
            ("work", busy),
            ("home", busy),
            ("both", busy),
        ):
            reader.page.keyboard.press("Escape")
            reader.search(choice[0])
            for code in choice[1:]:
                reader.page.fill("#search", code)
                reader.page.press("#search", "Shift+Enter")
            reader.pick_side(side)
            panel = shown()
            text, tables = panel["words"], panel["tables"]
            assert "90 % of the posterior draws" in text["top-count"]
            others = [code for code in truth.codes if not code.startswith(tuple(choice))]
            stay = truth.of(choice, choice)
            come, leave = truth.of(others, choice), truth.of(choice, others)
            balance = [numbers(row[1])[1:] for row in tables["balance-table"]]
            expected = [come, stay, stay + leave, stay, leave, come + stay + leave]
            assert balance == [[], *map(ends, expected)]
            if side == "both":
                assert numbers(text["jobs-interval"])[:2] == ends(expected[-1])
            elif side == "home":
                assert numbers(text["jobs-interval"])[:2] == ends(stay + leave)
            for code, row in zip(panel["codes"], tables["top"], strict=True):
                if side == "both":
                    rest = [] if code in choice else [code]
                    both = [truth.of(rest, choice), truth.of(choice, rest)]
                    assert [numbers(cell)[1:] for cell in row[1:3]] == [*map(ends, both)]
                else:
                    pair = (code, choice) if side == "work" else (choice, code)
                    assert numbers(row[2]) == ends(truth.of(*pair))
            for row in tables.get("external-zones-table", []):
                (zone,) = (zone for zone, name in ZONES.items() if name == row[0])
                assert numbers(row[1])[1:] == ends(truth.of(zone, None if choice == [zone] else choice))
            check_commutes(truth, jobs, side, choice, text, tables["rose-table"])
        reader.pick_side("home")
        of_industry = [truth.residents(column, busy) for column in ("SI01", "SI02", "SI03")]
        bars = reader.text("profile-bars").splitlines()
        found = [numbers(line)[1:] for line in bars if "(" in line]
        shares = [100 * each / sum(of_industry) for each in of_industry]
        assert found == [pytest.approx(ends(each), abs=0.051) for each in shares]
        assert reader.text("profile-of").endswith(UNTOLD)

        # Two of them: the same draws tell both
        first, second = busy
        reader.page.keyboard.press("Escape")
        reader.search(second)
        reader.page.click("#keep")
        reader.search(first)
        shown_of = [
            [numbers(cell.replace("−", "-"))[1:] for cell in row[1:]]
            for row in reader.table("comparison-table")
        ]
        others = {code: [each for each in truth.codes if not each.startswith(code)] for code in busy}
        pairs: list[list[np.ndarray]] = [
            [truth.of(others[code], code) for code in busy],
            [truth.of(code, code) for code in busy],
            [truth.of(code, None) for code in busy],
            [truth.of(code, others[code]) for code in busy],
        ]
        for at in ("work", "home"):
            both = [truth.commutes(jobs, at, [code]) for code in busy]
            for what in ("mean", "median"):
                pairs.append([getattr(each, what) for each in both if each is not None])
        assert shown_of[0] == [[], [], []]  # public totals
        for cells, sums in zip(shown_of[1:9], pairs, strict=True):
            expected_ends = [ends(each) for each in (*sums, sums[0] - sums[1])]
            assert cells == [pytest.approx(each, abs=0.061) for each in expected_ends]
        residents = [[truth.residents(f"SI0{i}", [code]) for i in (1, 2, 3)] for code in busy]
        for i, cells in enumerate(shown_of[15:18]):
            a, b = (100 * each[i] / sum(each) for each in residents)
            assert cells == [pytest.approx(ends(each), abs=0.051) for each in (a, b, a - b)]
        assert "90 % of the posterior draws" in reader.text("comparison-words")
        reader.page.click("#end-comparison")

        # Draws by block there are none of
        reader.page.keyboard.press("Escape")
        reader.search(str(inside["h_geocode"].mode()[0]))
        assert (
            reader.text("jobs-interval") == "No interval: the draws in this page are of whole block groups."
        )
        assert "posterior" not in reader.text("top-count") + reader.text("commute-of")
        why = "the draws in this page are of whole block groups."
        for element, of in {
            "top-count": "",
            "commute-of": " of distances and directions",
            "balance-words": " of who comes, stays, leaves and lives here",
        }.items():
            assert reader.text(element).endswith(f"No interval{of}: {why}"), element
        why = "of shares by industry: the draws in this page are of whole tracts."
        assert reader.text("profile-of").endswith(f"{UNTOLD} No interval {why}")
        assert reader.complaints == []


def check_commutes(
    truth: Truth,
    jobs: pd.DataFrame,
    side: str,
    choice: list[str],
    text: dict[str, str],
    rose: list[list[str]],
) -> None:
    """Mean, median, distances and directions in each draw."""
    expected = truth.commutes(jobs, side, choice)
    said = text["commute-of"]
    if expected is None:
        assert "posterior draws" not in said
        assert "No interval of distances and directions: in a posterior draw nobody" in said
        assert "(" not in text["placed"] + text["distances"]
        return
    mean, median = (ends(each) for each in (expected.mean, expected.median))
    found = numbers(said.split("Mean")[1])[:4]
    assert found == pytest.approx([*mean, *median], abs=0.011)
    assert numbers(text["placed"])[1:3] == pytest.approx(ends(expected.jobs), abs=0.51)
    bars = [numbers(line)[-2:] for line in text["distances"].splitlines() if "%" in line]
    for at, bar in enumerate(bars):
        assert bar == pytest.approx(ends(100 * expected.counted(distance=at) / expected.jobs), abs=0.051)
    for direction, row in enumerate(rose):
        for at, cell in enumerate(row[1:]):
            jobs_there = expected.counted(direction=direction, distance=at)
            assert numbers(cell)[1:] == pytest.approx(ends(jobs_there), abs=0.51)
    if "one block:" in text.get("no-direction", ""):
        still = ends(expected.counted(direction=SAME_PLACE))
        assert numbers(text["no-direction"])[1:3] == pytest.approx(still, abs=0.51)


def test_an_external_zone_is_an_area(reader: Reader, jobs: pd.DataFrame) -> None:
    """It is found, chosen by a click on the map and drawn; nobody works there."""
    reader.reset()
    place = {
        feature["properties"]["name"]: feature["geometry"]["coordinates"]
        for feature in reader.features("zones")
    }
    assert set(place) == {*ZONES.values()}
    for zone, name in ZONES.items():
        reader.hold()
        assert reader.type(name[:6]) == [[name, f"External zone {zone}"]]
        for typed in (name, name[:6].upper(), f"External zone {zone}", zone):
            reader.search(typed)
            assert reader.chosen() == f"{name}Externalzone{zone}", typed
            assert reader.page.is_checked("input[value=home]")
            reader.page.click("#clear")
            reader.pick_side("work")
        reader.reset()
        reader.still()
        pixel = reader.pixel_of(tuple(place[name]))
        reader.page.mouse.move(pixel["x"], pixel["y"])
        residents = jobs[jobs["zone"] == zone]["S000"].sum()
        words = reader.page.locator(".maplibregl-popup-content").inner_text().splitlines()
        assert words == [name, f"External zone {zone}", f"{residents:,} workers live here", "0 jobs are here"]
        reader.page.mouse.click(pixel["x"], pixel["y"])
        assert reader.text("chosen") == name
        assert reader.number("jobs") == residents
        assert not reader.page.is_visible("#nobody")
        reader.pick_side("work")
        assert reader.number("jobs") == 0
        assert reader.page.is_visible("#nobody")
        assert reader.text("flow-count") == "There are no flows to draw."
        reader.page.click("#clear")
        reader.pick_side("work")
        reader.page.locator("#external-zones-table button", has_text=name).click()
        assert reader.text("chosen") == name
        reader.page.click("#clear")
    reader.reset()


def test_it_opens_at_areas_of_the_region(reader: Reader, mapped: Release) -> None:
    """Nearest to a hundred of them; external zones are none."""
    n = {level: mapped.places(level)["latitude"].notna().sum() for level in mapped.levels}
    reader.reset()
    assert reader.page.input_value("#level") == min(n, key=lambda level: abs(np.log(n[level] / 100)))
