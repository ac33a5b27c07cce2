"""Many external zones on a map: three that matter and one elsewhere, in lines, tables and files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pipelines.views.release import Release

from .map_reader import Reader
from .test_download import saved, table
from .truth import Truth, ends, numbers

pytestmark = pytest.mark.slow

NAMES = {
    "25": "Massachusetts",
    "09": "Connecticut",
    "36": "New York",
    "23": "Maine",
    "33": "New Hampshire",
    "50": "Vermont",
}
ELSEWHERE = "Elsewhere (3 external zones)"


@pytest.fixture(scope="module")
def opened(browser: Any, scattered: Release, library: Path) -> Iterator[Reader]:
    with Reader(browser, scattered.map()) as reader:
        yield reader


@pytest.fixture
def reader(opened: Reader) -> Iterator[Reader]:
    opened.reset()
    opened.page.select_option("#level", "trct")
    opened.page.locator("#external-zones-others").evaluate("(part) => { part.open = false; }")
    yield opened
    assert opened.complaints == []


@pytest.fixture(scope="module")
def from_zones(scattered: Release) -> pd.DataFrame:
    """Jobs by state of the home, where it is a zone, and tract of the work."""
    codes = scattered.geography.codes("trct").astype(str)
    flows = scattered.unit_flows("trct", "trct")
    rows = pd.DataFrame({"zone": codes[flows["home"]], "work": codes[flows["work"]], "jobs": flows["S000"]})
    rows["zone"] = rows["zone"].str[:2]
    return rows[rows["zone"].isin(list(NAMES)) & (rows["jobs"] > 0)]


@pytest.fixture(scope="module")
def main(from_zones: pd.DataFrame) -> list[str]:
    """The three with most jobs."""
    return list(from_zones.groupby("zone")["jobs"].sum().nlargest(3).index)


@pytest.fixture(scope="module")
def minor(main: list[str]) -> list[str]:
    """The others."""
    return sorted(set(NAMES) - set(main))


def drawn_zones(reader: Reader) -> list[str]:
    return sorted(feature["properties"]["name"] for feature in reader.features("zones"))


def test_only_zones_with_a_line_are_drawn(reader: Reader, scattered: Release, main: list[str]) -> None:
    """And those that are chosen; lines between areas inside lie above theirs."""
    reader.slide(0)
    assert drawn_zones(reader) == sorted([*(NAMES[zone] for zone in main), "Elsewhere"])
    codes = scattered.geography.codes("trct").astype(str)
    for line in reader.features("flows"):
        inside = codes[line["properties"]["home"]][:2] not in NAMES
        assert (line["properties"]["order"] > 1) == inside
    reader.slide(100)
    lines = reader.features("flows")
    assert len(drawn_zones(reader)) < 4
    assert bool(drawn_zones(reader)) == reader.page.is_visible("#legend-zones")
    assert bool(drawn_zones(reader)) == any(line["properties"]["order"] <= 1 for line in lines)
    reader.page.locator("#external-zones-others summary").click()
    reader.page.locator("#external-zones-others-table button").first.click()
    reader.slide(100)
    assert drawn_zones(reader) == ["Elsewhere"]  # where the chosen one lies


def test_lines_from_elsewhere_are_one(reader: Reader, from_zones: pd.DataFrame, minor: list[str]) -> None:
    """For each workplace, with the jobs, the codes and the interval of all of them."""
    reader.slide(0)
    lines = table(saved(reader, "save-flows")[1])
    lines = lines[lines["home_name"] == ELSEWHERE].set_index("work_code")["jobs"]
    expected = from_zones[from_zones["zone"].isin(minor)].groupby("work")["jobs"].sum()
    assert lines.to_dict() == expected.to_dict()
    code = str(expected.idxmax())
    reader.search(code)
    reader.slide(0)
    (line,) = table(saved(reader, "save-flows")[1]).query("home_name == @ELSEWHERE").itertuples()
    assert line.jobs == expected[code]
    assert len(line.home_code.split()) == len(minor)


def test_intervals_of_elsewhere(
    reader: Reader, scattered: Release, from_zones: pd.DataFrame, minor: list[str]
) -> None:
    """Of a line and of the row of the table: those of the sums, and not sums of those of each zone."""
    truth = Truth(scattered.draws())
    code = str(from_zones["work"].mode()[0])
    reader.search(code)
    reader.slide(0)
    (line,) = table(saved(reader, "save-flows")[1]).query("home_name == @ELSEWHERE").itertuples()
    assert [float(line.low), float(line.high)] == ends(truth.of(minor, code))
    (row,) = (row for row in reader.table("external-zones-table") if row[0] == ELSEWHERE)
    jobs = from_zones[(from_zones["work"] == code) & from_zones["zone"].isin(minor)]["jobs"].sum()
    assert numbers(row[1]) == [jobs, *ends(truth.of(minor, code))]


def test_tables_fold_what_is_elsewhere(
    reader: Reader, from_zones: pd.DataFrame, main: list[str], minor: list[str]
) -> None:
    """Three and a sum; each of the others is one click away, and can be chosen."""
    jobs = from_zones.groupby("zone")["jobs"].sum()
    rows = {row[0]: numbers(row[1])[0] for row in reader.table("external-zones-table")}
    assert rows == {**{NAMES[zone]: jobs[zone] for zone in main}, ELSEWHERE: jobs[minor].sum()}
    assert not reader.page.locator("#external-zones-others-table").is_visible()
    reader.page.locator("#external-zones-others summary").click()
    others = reader.table("external-zones-others-table")
    assert sorted(numbers(row[1])[0] for row in others) == sorted(jobs[minor])
    reader.page.locator("#external-zones-others-table button", has_text=others[0][0]).click()
    assert reader.text("chosen") == others[0][0]
    assert reader.number("jobs") == numbers(others[0][1])[0]


def test_a_click_on_elsewhere_opens_the_table(reader: Reader) -> None:
    """It stands for several zones: none of them is chosen."""
    reader.slide(0)
    reader.still()
    (zone,) = (each for each in reader.features("zones") if each["properties"]["name"] == "Elsewhere")
    pixel = reader.pixel_of(zone["geometry"]["coordinates"])
    reader.page.mouse.move(pixel["x"], pixel["y"])
    assert ELSEWHERE in reader.page.inner_text(".maplibregl-popup-content")
    reader.page.mouse.click(pixel["x"], pixel["y"])
    assert reader.page.locator("#external-zones-others-table").is_visible()
    assert reader.text("chosen") == "The whole region"
