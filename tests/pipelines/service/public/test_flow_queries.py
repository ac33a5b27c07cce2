"""Flow queries: the same numbers as the release's own, whatever is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines.release.reader import PublicRelease, PublicReleaseError
from pipelines.service.public import flow_queries
from pipelines.service.public.flow_queries import FlowQuestion, FlowTables, ask_flows
from pipelines.service.public.flow_tables import write_flow_tables

from ..helpers import NAME

Configs = Callable[..., pipelines.ReleaseConfig]


@pytest.fixture(scope="module")
def release(small_release: pipelines.Release) -> PublicRelease:
    return pipelines.read_public_release(small_release.public)


@pytest.fixture(scope="module")
def tables(
    release: PublicRelease, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[FlowTables, Path]]:
    path = tmp_path_factory.mktemp("tables") / "flows.duckdb"
    write_flow_tables(release, path)
    opened = FlowTables()
    yield opened, path
    opened.close()


@pytest.fixture
def ask(release: PublicRelease, tables: tuple[FlowTables, Path]) -> Callable[..., object]:
    def answer(**question: object) -> object:
        with tables[0].cursor(tables[1]) as cursor:
            return ask_flows(release, cursor, FlowQuestion(**question))  # type: ignore[arg-type]

    return answer


def test_every_area_of_every_level_has_the_flows_of_the_release(
    release: PublicRelease, ask: Callable[..., object]
) -> None:
    for of in ("workers", "residents"):
        own, other = ("work", "home") if of == "workers" else ("home", "work")
        for k, (level, other_level) in enumerate((a, b) for a in release.levels for b in release.levels):
            count = list(release.counts)[k % len(release.counts)]
            flows = release.unit_flows(
                **{f"{own}_level": level, f"{other}_level": other_level}, counts=[count]
            )
            flows = flows[flows[count] > 0]
            codes, other_codes = release.geography.codes(level), release.geography.codes(other_level)
            for unit in {0, len(codes) // 2, len(codes) - 1}:
                expected = flows[flows[own] == unit].sort_values([count, other], ascending=[False, True])
                said = ask(
                    area=codes[unit], of=of, level=level, other_level=other_level, attribute=count, top=1_000
                )
                assert (said.jobs, said.areas) == (expected[count].sum(), len(expected))
                assert [flow.code for flow in said.flows] == list(other_codes[expected[other]])
                assert [flow.jobs for flow in said.flows] == list(expected[count])
                fewer = ask(
                    area=codes[unit], of=of, level=level, other_level=other_level, attribute=count, top=3
                )
                assert fewer.flows == said.flows[:3]
                assert (fewer.jobs, fewer.areas) == (said.jobs, said.areas)


def test_levels_have_defaults(release: PublicRelease, ask: Callable[..., object]) -> None:
    said = ask(area=release.geography.codes("cty")[1], of="workers")
    assert (said.area.level, said.other_level) == ("cty", "cty")


def test_what_the_release_does_not_have(release: PublicRelease, ask: Callable[..., object]) -> None:
    for question, message in (
        ({"area": "no such code"}, "there is no area 'no such code' at any level"),
        ({"area": "1'; DROP TABLE flows; --"}, "there is no area"),
        ({"area": "99", "level": "cty"}, "there is no area of this code at the level cty"),
        ({"level": "w0"}, "there is no such level; there are: st, cty"),
        ({"other_level": "h0 FROM flows; --"}, "there is no such level"),
        ({"attribute": "c0"}, "there is no such attribute; there are: S000, SA01"),
        ({"implicate": 2}, "there is no such implicate; there are 1"),
        ({"implicate": 0}, "there is no such implicate"),
    ):
        with pytest.raises(PublicReleaseError, match=message.split("'")[0]):
            ask(**{"area": release.geography.codes("st")[0], "of": "workers", **question})


def test_implicates_are_kept_apart(small_config: Configs, tmp_path: Path) -> None:
    """Each has flows of its own, and the same number of workers at every workplace."""
    made = pipelines.run(small_config({"release.implicates": 2}))
    first, second = (pipelines.read_public_release(made.public, number) for number in (1, 2))
    write_flow_tables(first, tmp_path / "flows.duckdb")
    tables = FlowTables()
    level = first.levels[-2]
    with tables.cursor(tmp_path / "flows.duckdb") as cursor:
        for release in (first, second):
            flows = release.unit_flows(level, level)
            for unit in np.unique(flows["work"])[:3]:
                code = first.geography.codes(level)[unit]
                said = ask_flows(
                    first,
                    cursor,
                    FlowQuestion(code, "workers", level, implicate=release.implicate, top=1_000),
                )
                mine = flows[flows["work"] == unit]
                assert {flow.code: flow.jobs for flow in said.flows} == dict(
                    zip(first.geography.codes(level)[mine["home"]], mine["S000"], strict=True)
                )
    tables.close()


def test_data_of_another_geography_are_refused(public_copy: Path, tmp_path: Path) -> None:
    import pandas as pd

    path = next(public_copy.glob("*_od_*.parquet"))
    table = pd.read_parquet(path)
    table.loc[0, "h_geocode"] = "999999999999999"
    table.to_parquet(path, index=False)
    with pytest.raises(PublicReleaseError, match="blocks that are not in the plan"):
        write_flow_tables(pipelines.read_public_release(public_copy), tmp_path / "flows.duckdb")


def test_tables_are_read_only_and_few_are_open(
    release: PublicRelease, tables: tuple[FlowTables, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_queries, "_OPEN", 1)
    opened, content = FlowTables(), tables[1].read_bytes()
    question = FlowQuestion(release.geography.codes("st")[0], "workers")
    answers = []
    for name in ("a.duckdb", "b.duckdb", "a.duckdb"):
        (tmp_path / name).write_bytes(content)
        with opened.cursor(tmp_path / name) as cursor:
            answers.append(ask_flows(release, cursor, question))
            with pytest.raises(Exception, match="read-only"):
                cursor.execute("DELETE FROM flows")
            with pytest.raises(Exception, match="disabled"):
                cursor.execute("SELECT * FROM read_csv('/etc/hostname')")
    assert answers[0] == answers[1] == answers[2]
    assert opened._connection.cache_info().currsize == 1
    opened.close()


def test_flows_have_intervals_where_draws_lie_beside_the_version(
    new_state: Path, make_app: Callable[..., FastAPI], base: str, page: str
) -> None:
    folder = new_state / "published" / NAME / "v1"
    query = {"work_level": "cty", "home_level": "trct", "attribute": "SE03", "top": 3}
    code = pipelines.read_public_release(folder).geography.codes("cty")[1]
    home = pipelines.read_public_release(folder).geography.codes("trct")[0]
    with TestClient(make_app(new_state)) as client:
        before = client.get(f"{base}/flows", params={"work": code, **query})
        assert "low" not in before.json()["flows"][0]
        files = pipelines.write_intervals(folder, new_state / "intervals", draws=19)
        beside = folder.with_name("v1.draws.parquet")
        beside.write_bytes(files["draws"].read_bytes())
        answer = client.get(f"{base}/flows", params={"work": code, **query})
        assert answer.headers["ETag"] != before.headers["ETag"]
        said = pipelines.intervals(folder, beside).flows("trct", "cty", "SE")
        said = said[(said["work"] == code) & (said["SE"] == "SE03")].set_index("home")
        for flow in answer.json()["flows"]:
            assert (flow["low"], flow["high"]) == tuple(said.loc[flow["code"], ["low", "high"]])
        assert "docs/intervals.md" in answer.json()["about_intervals"]
        assert "low" in client.get(f"{base}/flows", params={"home": home}).json()["flows"][0]
        fine = {"work": code, "home_level": "tabblk2010"}
        assert "low" not in client.get(f"{base}/flows", params=fine).json()["flows"][0]
        shown = client.get(f"{page}/flows", params={"area": code, "level": "trct"}).text
        assert "docs/intervals.md" in shown
        beside.write_bytes(beside.read_bytes()[:-50])
        broken = client.get(f"{base}/flows", params={"work": code, **query})
        assert broken.json() == before.json()
        assert str(new_state) not in broken.text
    assert [version["version"] for version in client.get("/api/v1/releases").json()["releases"]] == ["v1"]
