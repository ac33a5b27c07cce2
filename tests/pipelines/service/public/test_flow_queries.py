"""Flow queries: the same numbers as the release's own, whatever is asked."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi import FastAPI
from markupsafe import escape
from starlette.requests import Request
from starlette.testclient import TestClient

import pipelines
from geo_data.geography import Partition
from geo_data.od_files import count_columns
from pipelines.service.public import flow_queries
from pipelines.service.public.answers import Paging, flow_ends, flow_id
from pipelines.service.public.areas import Shapes, read_areas
from pipelines.service.public.flow_queries import (
    FlowQuestion,
    Flows,
    FlowTables,
    flow_batches,
    largest_flows,
    select,
    with_estimates,
)
from pipelines.service.public.flow_tables import write_flow_tables
from pipelines.service.public.preparation import prepare
from pipelines.service.store import ServiceError
from pipelines.views.folder import PublicReleaseError
from pipelines.views.intervals.reading import PosteriorDraws
from pipelines.views.labels import unit_names
from pipelines.views.release import Release

from ..helpers import NAME, state_with

Configs = Callable[..., pipelines.ReleaseConfig]


@pytest.fixture(scope="module")
def release(small_release: pipelines.Release) -> Release:
    return pipelines.open_release(small_release.public)


@pytest.fixture(scope="module")
def folder(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "flows"
    write_flow_tables(release, path)
    return path


def with_kinds(release: Release, kinds: dict[str, Partition], names: dict[str, list[str]]) -> Release:
    """The release with areas that cut across its levels."""
    made = replace(release)
    made.__dict__["geography"] = replace(release.geography, non_nesting_areas=kinds)
    made.__dict__["names"] = release.names | {kind: np.array(those, object) for kind, those in names.items()}
    return made


@pytest.fixture(scope="module")
def crossed(release: Release) -> Release:
    """The release with areas of two kinds that cut across its levels; tracts lie in those of the second."""
    geography = release.geography
    blocks, tract = np.arange(geography.n_blocks), geography.unit_of("trct", np.arange(geography.n_blocks))
    kinds = {
        "strip": Partition(np.array(["", "s1", "s2", "s3"], object), (blocks % 4).astype(np.int32)),
        "town": Partition(np.array(["t1", "t2"], object), (tract % 2).astype(np.int32)),
    }
    names = {"strip": ["", "Upper, ME", "Lower", "Lower"], "town": ["Lower", "Old Town"]}
    return with_kinds(release, kinds, names)


Rows = list[tuple[int, ...]]


def rows_of(flows: Flows) -> Rows:
    """Work unit, home unit, and the counts."""
    return list(
        zip(*(flows.units[side].tolist() for side in ("work", "home")), *flows.counts.tolist(), strict=True)
    )


def all_rows(release: Release, folder: Path, question: FlowQuestion, **how: Any) -> Rows:
    parts = flow_batches(FlowTables(folder), select(release, question), **how)
    return [row for flows in parts for row in rows_of(flows)]


def expected(release: Release, home_level: str, work_level: str, *counts: str) -> Rows:
    """The release's own numbers."""
    flows = release.unit_flows(home_level, work_level, counts)
    return [
        row for row in flows[["work", "home", *counts]].itertuples(index=False, name=None) if any(row[2:])
    ]


def test_every_pair_of_levels_has_the_flows_of_the_release(
    release: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole, and those of areas of every level on both sides; in one part, and in many."""
    counts = list(release.counts)
    for most in (1, 250_000):
        monkeypatch.setattr(flow_queries, "_FIRST_ROWS", most)
        monkeypatch.setattr(flow_queries, "MOST_ROWS", most)
        for k, (work, home) in enumerate((a, b) for a in release.levels for b in release.levels):
            names = (counts[k % len(counts)], counts[(k + 1) % len(counts)])
            rows = expected(release, home, work, *names)
            levels = {"work_level": work, "home_level": home, "attributes": names}
            assert all_rows(release, folder, FlowQuestion(**levels)) == rows
            codes = {side: release.geography.codes(level) for side, level in (("work", work), ("home", home))}
            some = {side: {0, len(codes[side]) // 2, len(codes[side]) - 1} for side in codes}
            given = {side: tuple(codes[side][unit] for unit in units) for side, units in some.items()}
            for sides in (("work",), ("home",), ("work", "home")):
                question = FlowQuestion(**levels, **{side: given[side] for side in sides})
                mine = [r for r in rows if all(r[side == "home"] in some[side] for side in sides)]
                if sides == ("home",):
                    mine.sort(key=lambda row: row[1])
                assert all_rows(release, folder, question) == mine, (work, home, sides)


def test_areas_that_cut_across_levels(
    crossed: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their flows are those of their blocks, on either side, of some or all, in one part and in many."""
    geography = crossed.geography
    blocks = crossed.unit_flows("tabblk2010", "tabblk2010", ["S000", "SE03"])
    for most in (1, 250_000):
        monkeypatch.setattr(flow_queries, "_FIRST_ROWS", most)
        monkeypatch.setattr(flow_queries, "MOST_ROWS", most)
        for work, home in (("strip", "strip"), ("strip", "cty"), ("tabblk2010", "town"), ("town", "strip")):
            units = {
                "work": geography.unit_of(work, blocks["work"]),
                "home": geography.unit_of(home, blocks["home"]),
            }
            table = blocks.assign(**units).groupby(["work", "home"], as_index=False).sum()
            rows = list(table.itertuples(index=False, name=None))
            asked = {"work_level": work, "home_level": home, "attributes": ("S000", "SE03")}
            assert all_rows(crossed, folder, FlowQuestion(**asked)) == rows
            for side, level, column in (("work", work, 0), ("home", home, 1)):
                codes = tuple(geography.codes(level)[[-1, 1]])
                mine = [row for row in rows if row[column] in (1, len(geography.codes(level)) - 1)]
                mine.sort(key=lambda row: row[column])
                found = all_rows(crossed, folder, FlowQuestion(**asked, **{side: codes}))
                assert found == (mine if column else sorted(mine))
                for k in range(0, len(mine), 7):
                    after = (found[k][column], found[k][1 - column])
                    rest = FlowQuestion(**asked, **{side: codes})
                    assert all_rows(crossed, folder, rest, after=after) == found[k + 1 :]
    of = geography.unit_of("town", geography.starts("trct"))
    question = FlowQuestion(home=("t2",), home_level="trct", work_level="st")
    mine = [row for row in expected(crossed, "trct", "st", "S000") if of[row[1]] == 1]
    assert all_rows(crossed, folder, question) == sorted(mine, key=lambda row: row[1])


def test_rows_of_areas_that_cut_across_levels(crossed: Release, folder: Path) -> None:
    strips = read_areas(crossed, FlowTables(folder), "strip")
    geography, places = crossed.geography, crossed.places("strip")
    blocks = crossed.unit_flows("tabblk2010", "tabblk2010")
    expected = {
        "code": ["", "s1", "s2", "s3"],
        "name": ["outside the region", "Upper, ME", "Lower", "Lower"],
        "external": [False] * 4,
        "longitude": places["longitude"].round(6).tolist(),
        "latitude": places["latitude"].round(6).tolist(),
        **{
            f"{side}_S000": blocks["S000"].groupby(geography.unit_of("strip", blocks[side])).sum().tolist()
            for side in ("home", "work")
        },
    }
    assert strips.table.to_pydict() == expected
    shapes = Shapes.of(crossed, strips)
    assert (shapes.kind, [shape.x for shape in shapes.shapes]) == ("point", expected["longitude"])


def test_codes_may_hold_what_stands_between_them(release: Release, folder: Path) -> None:
    """In addresses of pages, in ids of flows, and in lists of areas."""
    geography = release.geography
    codes = np.array(["a,b", "a", "b:c", "%3A"], object)
    kinds = {"odd": Partition(codes, (np.arange(geography.n_blocks) % 4).astype(np.int32))}
    odd = with_kinds(release, kinds, {})
    for unit, code in enumerate(codes):
        assert select(odd, FlowQuestion((code,), work_level="odd")).units["work"] == [unit]
    pairs = [(work, home) for work in codes for home in codes]
    assert [tuple(flow_ends(flow_id(*pair))) for pair in pairs] == pairs
    assert flow_id("44007", "44009") == "44007:44009"
    rows = all_rows(odd, folder, FlowQuestion(work_level="odd", home_level="odd"))
    request = Request({"type": "http", "path": "/x", "query_string": b"limit=1", "headers": []})
    for row in rows:
        address = Paging(request, 1).next(*row[:2])
        after = address.partition("after=")[2]
        assert Paging(request, 1, after).units(4, 4) == row[:2]
    for after in ("", "1", "1.2.3", "4.0", "-1.0", "\u0661.0", "a,b.a"):
        with pytest.raises(ServiceError, match="after: "):
            Paging(request, 1, after).units(4, 4)


def test_sums_over_sides(crossed: Release, folder: Path) -> None:
    rows = np.array(expected(crossed, "trct", "cty", "S000", "SE03"))
    codes = tuple(crossed.geography.codes("trct")[:3])
    rows = rows[rows[:, 1] < 3]
    asked = {"home": codes, "work_level": "cty", "attributes": ("S000", "SE03")}
    for sums, column in ((("home",), 0), (("work",), 1), (("work", "home"), None)):
        keys = np.zeros(len(rows), int) if column is None else rows[:, column]
        mine = []
        for key in np.unique(keys):
            ends = [0, 0]
            if column is not None:
                ends[column] = int(key)
            mine.append((*ends, *rows[keys == key, 2:].sum(axis=0).tolist()))
        assert all_rows(crossed, folder, FlowQuestion(**asked, sums=sums)) == mine
        said = largest_flows(FlowTables(folder), select(crossed, FlowQuestion(**asked, sums=sums)), 1)
        assert rows_of(said.flows) == [max(mine, key=lambda row: row[2])]
    nobody = next(
        FlowQuestion(work=(work,), home=(home,), sums=("work", "home"))
        for work in crossed.geography.codes("trct")
        for home in crossed.geography.codes("trct")
        if not all_rows(crossed, folder, FlowQuestion(work=(work,), home=(home,)))
    )
    assert all_rows(crossed, folder, nobody) == [(0, 0, 0)], "a total has a row, of nobody too"


def test_areas_have_names(crossed: Release, folder: Path) -> None:
    county = unit_names(crossed, "cty")[1], crossed.geography.codes("cty")[1]
    for names, codes in (("old town", "t2"), ("UPPER, me", "s1"), ("Old Town,t1", "t2,t1"), county):
        found = [all_rows(crossed, folder, FlowQuestion(work=(given,))) for given in (names, codes)]
        assert found[0] == found[1] != []
    for question, status, message in (
        (
            FlowQuestion(work=("Lower",), work_level="strip"),
            422,
            "work: several areas of the level strip have this name. Give a code: s2, s3",
        ),
        (FlowQuestion(work=("old t",)), 404, "work: there is no area of one of the codes or names"),
        (
            FlowQuestion(work=("s1",), work_level="trct"),
            422,
            "work: strip s1 is not made of whole areas of the level trct",
        ),
        (
            FlowQuestion(work=("s1",), work_level="town"),
            422,
            "work: strip s1 is not made of whole areas of the level town",
        ),
    ):
        with pytest.raises(ServiceError) as error:
            select(crossed, question)
        assert (error.value.status, error.value.detail[: len(message)]) == (status, message)
        assert ("t2 (Old Town; town)" in error.value.detail) == (status == 404)


def test_levels_have_defaults(release: Release) -> None:
    codes = release.geography.codes
    for question, levels in (
        (FlowQuestion((codes("cty")[1],)), ("cty", "cty")),
        (FlowQuestion(home=(codes("trct")[1],)), ("trct", "trct")),
        (FlowQuestion((codes("cty")[1],), (codes("trct")[1],)), ("cty", "trct")),
        (FlowQuestion((codes("cty")[1],), work_level="trct"), ("trct", "trct")),
        (FlowQuestion(), (release.usual_level(),) * 2),
    ):
        found = select(release, question).levels
        assert (found["work"], found["home"]) == levels


def test_implicates_are_kept_apart(small_config: Configs, tmp_path: Path) -> None:
    """Each has flows of its own, and the same number of workers at every workplace."""
    made = pipelines.run(small_config({"release.implicates": 2}))
    opened = [pipelines.open_release(made.public, number) for number in (1, 2)]
    write_flow_tables(opened[0], tmp_path / "flows")
    level = opened[0].levels[-2]
    found = []
    for number, release in enumerate(opened, 1):
        question = FlowQuestion(work_level=level, home_level=level, implicate=number)
        found.append(all_rows(opened[0], tmp_path / "flows", question))
        assert found[-1] == expected(release, level, level, "S000")
    assert found[0] != found[1]


def test_data_of_another_geography_are_refused(public_copy: Path, tmp_path: Path) -> None:
    import pandas as pd

    path = next(public_copy.glob("*_od_*.parquet"))
    table = pd.read_parquet(path)
    table.loc[0, "h_geocode"] = "999999999999999"
    table.to_parquet(path, index=False)
    with pytest.raises(PublicReleaseError, match="blocks that are not in the plan"):
        write_flow_tables(pipelines.open_release(public_copy), tmp_path / "flows")


def test_flows_have_intervals_where_the_release_has_draws_of_them(
    industry_release: Release, tmp_path: Path, make_app: Callable[..., FastAPI], base: str, page: str
) -> None:
    new_state = state_with(industry_release, tmp_path / "state")
    folder = new_state / "published" / NAME / "v1"
    release = pipelines.open_release(folder)
    draws, codes = release.draws(), release.geography.codes
    by = next(table.attributes[0] for table in draws.tables if table.work and table.attributes)
    other = next(name for name in release.categories if name != by)
    columns = count_columns(release.categories)
    query = {"work_level": "cty", "home_level": "trct", "attribute": columns[by][-1], "top": 3}
    code, home = codes("cty")[1], codes("trct")[0]
    told = ["estimate", "low", "high"]
    with TestClient(make_app(new_state)) as client:

        def flows(**params: object) -> list[dict[str, Any]]:
            answer: list[dict[str, Any]] = client.get(f"{base}/flows", params=params).json()["flows"]
            return answer

        answer = client.get(f"{base}/flows", params={"work": code, **query})
        said = draws.flows("trct", "cty", by)
        said = said[(said["work"] == code) & (said[by] == release.categories[by][-1])].set_index("home")
        for flow in answer.json()["flows"]:
            assert [flow[name] for name in told] == said.loc[flow["home"], told].to_list()
        assert "need not lie in it" in answer.json()["about_intervals"]
        assert "low" in flows(home=home)[0]
        assert "low" not in flows(work=code, home_level="tabblk2010")[0], "there are no draws of home blocks"
        untold = {**query, "attribute": columns[other][0]}
        assert "low" not in flows(work=code, **untold)[0]
        said_why = f'Nothing that was published tells homes apart by "{other}"'
        assert said_why in client.get(f"{base}/flows", params=untold).json()["about_intervals"]
        some = codes("trct")[:3]
        of_some = draws.flows(dict.fromkeys(some, "all"), "cty").set_index("work")
        summed = flows(home=",".join(some), work_level="cty", sum="home")
        expected = of_some.loc[[flow["work"] for flow in summed], told].to_numpy().tolist()
        assert [[flow[name] for name in told] for flow in summed] == expected
        shown = client.get(f"{page}/flows", params={"area": code, "level": "trct"}).text
        assert "need not lie in it" in shown
        asked = {"area": code, "level": "trct", "attribute": untold["attribute"]}
        assert escape(said_why) in client.get(f"{page}/flows", params=asked).text
        assert interval_of_largest(draws) in home_page(client, folder)
    damaged_state = state_with(industry_release, tmp_path / "damaged")
    file = damaged_state / "published" / NAME / "v1" / "intervals.parquet"
    file.write_bytes(file.read_bytes()[:-50])
    (prepared,) = (damaged_state / "cache").glob("*/draws")
    shutil.rmtree(prepared)
    with TestClient(make_app(damaged_state)) as client:
        damaged = client.get(f"{base}/flows", params={"work": code, **query})
        assert [flow["S000" if "S000" in flow else columns[by][-1]] for flow in damaged.json()["flows"]]
        assert all(flow.get(name) is None for flow in damaged.json()["flows"] for name in told)
        assert str(damaged_state) not in damaged.text


def test_areas_across_have_intervals_if_they_are_made_of_areas_of_a_table(
    crossed: Release,
) -> None:
    draws, geography = crossed.draws(), crossed.geography
    starts = geography.starts("trct")
    towns = geography.codes("town")[geography.unit_of("town", starts)]
    expected = draws.flows(dict(zip(geography.codes("trct"), towns, strict=True)), "cty")
    expected = expected.set_index(["work", "home"])[["estimate", "low", "high"]]
    for home in ("town", "strip"):
        selection = select(crossed, FlowQuestion(work_level="cty", home_level=home))
        units = {"work": np.array([0, 1]), "home": np.array([0, 1])}
        (found,) = with_estimates([(selection, Flows(units, np.ones((1, 2), int)))], draws)
        assert (found.estimates is None) == (home == "strip")
        if found.estimates is not None:
            pairs = [(geography.codes("cty")[i], f"t{i + 1}") for i in range(2)]
            told = expected.reindex(pairs, fill_value=0).to_numpy()
            assert np.array_equal(np.transpose(found.estimates), told)


def interval_of_largest(draws: PosteriorDraws) -> str:
    """As the home page says it, of the largest commute between two counties."""
    flows = draws.flows("cty", "cty")
    inside = ~flows["home"].str.endswith("99")
    largest = flows[inside & (flows["home"] != flows["work"])].nlargest(1, "estimate").iloc[0]
    return f"Interval: {largest['low']:,} to {largest['high']:,}"


def home_page(client: TestClient, folder: Path) -> str:
    """As it is when everything has been prepared."""
    catalog = client.app.state.catalog  # type: ignore[attr-defined]
    prepare(folder, catalog.prepared(catalog.version(NAME, "v1").sha256))
    catalog.refresh()
    return client.get("/").text
