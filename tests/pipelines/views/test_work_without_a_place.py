"""Work in external zones, at home say: no view measures, draws or words it as a commute."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
from pipelines import Release, open_release
from pipelines.plans.utility import mean_km
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.views.evaluation.comparison import _compare
from pipelines.views.exports.source import Source
from pipelines.views.figures.subject import FigureSubject
from pipelines.views.flows import add_travel
from pipelines.views.key_figures import key_figures
from pipelines.views.labels import ends_beyond, unit_names

from .maps.map_reader import Reader, expected
from .maps.truth import numbers

ENDS = ["live", "work", "live or work"]


@pytest.fixture(scope="module", params=ENDS)
def ends(request: pytest.FixtureRequest) -> str:
    """What workers do in the external zones of a release."""
    return str(request.param)


@pytest.fixture(scope="module")
def zoned(
    ends: str,
    zoned_release: Release,
    census_releases: Callable[[str], Release],
    tmp_path_factory: pytest.TempPathFactory,
) -> Release:
    """A release with such zones, without a forecast: no level is noise."""
    made = zoned_release if ends == "live" else census_releases(ends)
    folder = Path(shutil.copytree(made.public, tmp_path_factory.mktemp("zoned") / "public"))
    (folder / ACCURACY_FILE).unlink()
    return open_release(folder)


@pytest.fixture(scope="module")
def flows(zoned: Release) -> pd.DataFrame:
    """Its jobs between blocks; whether home and workplace are external zones."""
    flows = zoned.unit_flows(zoned.levels[-1], zoned.levels[-1])
    external = zoned.geography.is_external
    return flows.assign(lives=external(flows["home"].to_numpy()), works=external(flows["work"].to_numpy()))


def test_exports_say_whom_they_leave_out(
    ends: str, zoned: Release, flows: pd.DataFrame, tmp_path: Path
) -> None:
    level = zoned.levels[1]
    zoned.export(["flowmap", "geojson", "omx", "lodes", "csv"], tmp_path, home_level=level)
    said = {path.parent.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*/README.txt")}
    out = flows.loc[flows["lives"] | flows["works"], "S000"].sum()
    assert out > 0
    assert f"{out:,} workers are left out: they {ends} in external zones, which have no" in said["flowmap"]
    assert f", or they {ends} in an external zone, which has no place on a map." in said["geojson"]
    for end, verb in (("lives", "live"), ("works", "work")):
        beyond = flows.loc[flows[end], "S000"].sum()
        assert (beyond > 0) == (verb in ends)
        assert f" Workers who {verb} there: {beyond:,}." in said["geojson"]
    where = {"live": ", where nobody works.\n", "work": ", where nobody lives.\n", "live or work": ".\n"}
    assert f"External zones are zones, too{where[ends]}" in said["omx"]
    assert ("W-HOME is at home" in said["lodes"]) == ("work" in ends)
    assert ("W-HOME (at home)" in said["csv"]) == ("work" in ends)
    source = Source(zoned, level, level, tmp_path)
    drawn = sum(int(lines["S000"].sum()) for lines in source.journeys())
    units = [zoned.geography.unit_of(level, flows[side].to_numpy()) for side in ("home", "work")]
    assert drawn == flows.loc[~(flows["lives"] | flows["works"]) & (units[0] != units[1]), "S000"].sum()


def test_key_figures(ends: str, zoned: Release) -> None:
    figures = key_figures(zoned)
    assert figures is not None
    level = figures.level
    cells = zoned.draws().cells(level, level)
    flows = pd.DataFrame({"home": cells.home, "work": cells.work, "jobs": cells.counts.mean(axis=0)})
    shares = cells.counts / cells.counts.sum(axis=1, keepdims=True)
    inside = [
        ~zoned.geography.is_external(zoned.geography.starts(level))[flows[side]] for side in ("home", "work")
    ]
    other = (flows["home"] != flows["work"]).to_numpy()
    crossing = shares[:, other & inside[1]].sum(axis=1)
    assert figures.crossing.number == pytest.approx(crossing.mean()) != 0
    assert (figures.crossing.low, figures.crossing.high) == pytest.approx((crossing.min(), crossing.max()))
    assert figures.beyond == pytest.approx(shares[:, ~inside[1]].sum(axis=1).mean())
    assert (figures.kinds_of_work == "abroad, at home, no fixed place") == ("work" in ends)
    assert figures.largest is not None
    assert figures.largest.jobs.number == flows.loc[other & inside[0] & inside[1], "jobs"].max()


def test_figures_and_evaluation_say_who_has_a_distance(
    ends: str, zoned: Release, flows: pd.DataFrame
) -> None:
    subject = FigureSubject(zoned, None, "workers", "S000")
    placed = flows.loc[~(flows["lives"] | flows["works"]), "S000"].sum() / flows["S000"].sum()
    assert subject.share_of == f"share of the {placed:.1%} who {ends.replace(' or ', ' and ')} in the region"
    block = zoned.levels[-1]
    note, *_ = _compare(zoned, "itself", zoned.unit_flows(block, block), (block, block)).notes
    assert f"workers who {ends} there have no distance" in note
    places = zoned.places(block)
    travel = add_travel(flows, places, places)
    assert travel["km"].isna().equals(flows["lives"] | flows["works"])
    if ends != "live":
        at_home = FigureSubject(zoned, zoned.find_area("W-HOME"), "workers", "S000")
        assert at_home.place("en") == "the external zone “at home” (zone W-HOME)"


def test_map(
    ends: str, zoned: Release, flows: pd.DataFrame, library: Path, browser: Any, tmp_path: Path
) -> None:
    """Distances and lines are of jobs with both places; all others are counted, by zone."""
    file = zoned.map(tmp_path / "map.html")
    rows = expected(zoned)
    beyond = flows.loc[flows["lives"] | flows["works"], "S000"].sum()
    with Reader(browser, file) as reader:
        assert reader.number("mean") == pytest.approx(mean_km(rows["km"], rows["jobs"]), abs=0.06)
        assert f", without the {beyond:,} who {ends} in external zones." in reader.text("commute-of")
        assert reader.text("external-zones-title") == f"Workers who {ends} in external zones"
        geography = zoned.geography
        for column, end, side in (("Residents", "lives", "home"), ("Jobs", "works", "work")):
            head = reader.page.locator("#external-zones-table th").all_inner_texts()
            jobs = flows[flows[end]].groupby(side)["S000"].sum()
            assert (column in head) == (len(jobs) > 0)
            if column in head:
                shown = sum(
                    numbers(row[head.index(column)])[0] for row in reader.table("external-zones-table")
                )
                assert shown == jobs.sum()
        assert len(reader.table("external-zones-table")) <= len(geography.external_zones)
        no_line = flows.loc[flows["works"], "S000"].sum()
        assert (f" {no_line:,} (" in reader.text("flow-count")) or not no_line
        reader.slide(0)
        level = reader.page.input_value("#level")
        zones = set(geography.unit_of(level, geography.external_blocks).tolist())
        ends_of_lines = [line["properties"]["work"] for line in reader.features("flows")]
        assert ends_of_lines
        assert zones.isdisjoint(ends_of_lines)
        if ends != "live":
            look_at_work_at_home(reader, zoned, flows)
        assert reader.complaints == []


def look_at_work_at_home(reader: Reader, zoned: Release, flows: pd.DataFrame) -> None:
    """It is found by its name, has jobs and homes, and neither lines nor distances; nobody leaves for it."""
    geography = zoned.geography
    zone = geography.find_unit("zone", "W-HOME")
    reader.search("at home")
    assert reader.chosen() == "athomeExternalzoneW-HOME"
    assert reader.page.is_checked("input[value=work]")
    assert reader.number("jobs") == flows.loc[flows["work"] == zone, "S000"].sum()
    assert [reader.text(each) for each in ("mean", "median")] == ["–", "–"]
    assert reader.text("flow-count").startswith("There are no flows to draw.")
    assert reader.features("flows") == []
    assert not reader.page.is_visible("#balance")
    assert not reader.page.is_visible("#nobody")
    reader.pick_side("home")
    assert reader.text("nobody") == "This release has nobody who lives there."
    reader.page.click("#clear")
    town = geography.find_unit("town", "T01")
    of = {side: geography.unit_of("town", flows[side].to_numpy()) == town for side in ("home", "work")}
    reader.search("town T01")
    shown = {row[0]: numbers(row[1])[0] for row in reader.table("balance-table")}
    beyond = flows.loc[of["home"] & flows["works"], "S000"].sum()
    leave = flows.loc[of["home"] & ~of["work"] & ~flows["works"], "S000"].sum()
    assert beyond > 0
    assert shown["· work in external zones (abroad, at home, no fixed place)"] == beyond
    assert shown["· leave for work elsewhere"] == leave
    assert shown["Work or live here"] == flows.loc[of["home"] | of["work"], "S000"].sum()


@pytest.mark.parametrize(
    ("homes", "workplaces", "verb", "names"),
    [
        ((), {}, "", {}),
        (("X",), {}, "live", {}),
        ((), {"W-HOME": "at home", "X": "abroad"}, "work", {"W": "at home", "X": "abroad"}),
        (("X",), {"W-HOME": "at home"}, "live or work", {"W": "at home"}),
        # Of two zones whose codes are one where they are cut, both are said.
        ((), {"W-HOME": "at home", "W-NONE": "no fixed place"}, "work", {"W": "at home, no fixed place"}),
    ],
)
def test_zones_are_called_by_their_names(
    homes: tuple[str, ...], workplaces: dict[str, str], verb: str, names: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "zones.csv"
    places = {"latitude": [40.0, 40.1], "longitude": [-40.0, -40.1]}
    codes = {"zone": ["Z00001", "Z00002"], "town": ["T01", "T02"], "land": ["L", "L"]}
    pd.DataFrame({**codes, **places}).to_csv(path, index=False)
    geography = geo_data.read_crosswalk(
        path,
        block="zone",
        levels=("land", "town"),
        centroid=("latitude", "longitude"),
        external_zones=homes,
        external_workplaces=workplaces,
    )
    assert ends_beyond(geography) == verb
    lands = geography.codes("land")
    release: Any = SimpleNamespace(
        geography=geography, levels=("land", "town", "zone"), names={"land": np.full(len(lands), "", object)}
    )
    named = dict(zip(lands, unit_names(release, "land"), strict=True))
    assert {code: name for code, name in named.items() if name} == names
