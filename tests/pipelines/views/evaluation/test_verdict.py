"""The verdict on a release: computed from its numbers another way, and alike in text, JSON and report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import geo_data
import pipelines
from helpers import edit_json
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.certificate import this_software
from pipelines.views.evaluation.verdict import Verdict, is_inside, judge

from .conftest import Evaluation


@pytest.mark.parametrize(
    ("error", "forecast", "inside"),
    [
        (0.2, 0.2, True),
        (0.1, 0.2, True),  # better than promised
        (0.2299, 0.2, True),
        (0.2301, 0.2, False),
        (0.014, 0.01, True),  # half a point is nothing
        (0.0151, 0.01, False),
        (0.004, 0.0, True),
    ],
)
def test_inside(error: float, forecast: float, inside: bool) -> None:
    assert is_inside(error, forecast) is inside


def test_every_table_of_the_workload(
    closed: Evaluation, small_release: pipelines.Release, small_region: dict[str, Path]
) -> None:
    document = json.loads((closed.folder / "verdict.json").read_text(encoding="utf-8"))
    sheet = json.loads((closed.out / "public" / ACCURACY_FILE).read_text(encoding="utf-8"))
    promised = {one["table"]: one["loss"] for one in sheet["tables"] if one["workload"]}
    assert {one["table"]: one["forecast"] for one in document["tables"]} == promised
    # The error of two tables, counted here.
    geography = small_release.plan.geography
    sources = [small_region["od"], small_release.public / "demo_od_main_JT00_2019.parquet"]
    jobs = [geo_data.LodesJobs(path, geography).records(("SE",)) for path in sources]
    pairs = [
        pd.Series(zip(geography.unit_of("trct", j.home), geography.unit_of("trct", j.work), strict=True))
        for j in jobs
    ]
    residents = [
        pd.Series(zip(geography.unit_of("trct", j.home), j.attributes["SE"], strict=True)) for j in jobs
    ]
    for name, sides in {"trct to trct": pairs, "residents of trct by SE": residents}.items():
        counts = [side.value_counts() for side in sides]
        error = counts[0].sub(counts[1], fill_value=0).abs().sum() / 2 / len(jobs[0])
        [one] = [one for one in document["tables"] if one["table"] == name]
        assert one["error"] == pytest.approx(error)
        assert one["inside"] is bool(error <= max(1.15 * promised[name], promised[name] + 0.005))
    outside = sum(not one["inside"] for one in document["tables"])
    words = f"Outside what was promised: {outside} of 7" if outside else "Inside what was promised: all 7"
    assert document["verdict"].startswith(words)
    assert document["status"].startswith("CONFIDENTIAL")


def test_text_json_and_report_say_the_same(closed: Evaluation) -> None:
    document = json.loads((closed.folder / "verdict.json").read_text(encoding="utf-8"))
    text = (closed.folder / "verdict.txt").read_text(encoding="utf-8")
    page = closed.page
    assert text.startswith("CONFIDENTIAL")
    start = page[: page.index("Compared with")]
    for said in (text, start):
        assert document["verdict"] in said
    for one in document["tables"]:
        title = (
            one["table"]
            .replace("trct", "tract")
            .replace("bgrp", "block group")
            .replace("tabblk2010", "block")
        )
        line = next(line for line in text.splitlines() if line.startswith(f"{title}  "))
        numbers = [f"{100 * one[key]:.1f} %" for key in ("error", "forecast", "public_model", "no_privacy")]
        verdict = "inside" if one["inside"] else "outside"
        assert re.split(r"\s{2,}", line.strip()) == [title, *numbers, verdict]
        row = re.search(rf'<th scope="row">{title}</th>(.*?)</tr>', start)
        assert row is not None
        cells = re.findall(r">([^<]+)</td>", row.group(1))
        assert cells == [*numbers, verdict]


def test_headlines_are_of_one_level_each_and_queries_in_jobs(closed: Evaluation) -> None:
    document = json.loads((closed.folder / "verdict.json").read_text(encoding="utf-8"))
    rows = closed.measures.set_index(["measure", "level", "group"])["value"]
    for one in document["headlines"]:
        group = {None: "all", 24: "rho 1"}[one["within_jobs"]]
        assert rows[one["measure"], one["level"], group] == pytest.approx(one["value"]), one
    within = [one["within_jobs"] for one in document["headlines"] if one["measure"] == "query_share"]
    assert within == [24]  # the root of 600 is 24.5
    page = closed.page
    assert "Count queries answered within 24 jobs" in page
    assert "Count queries answered within 2 jobs" in page
    assert "rho" not in page
    text = (closed.folder / "verdict.txt").read_text(encoding="utf-8")
    assert re.search(r"^block: Count queries answered within 24 jobs: \d+\.\d %$", text, re.MULTILINE)
    assert re.search(r"^tract: Total variation distance: \d+\.\d %$", text, re.MULTILINE)


def test_a_release_that_breaks_its_promise(out: Path, small_region: dict[str, Path]) -> None:
    def promise(sheet: dict) -> None:
        sheet["tables"][0].update(loss=0.001, carried=True, noise=False)

    edit_json(out / "public" / ACCURACY_FILE, promise)
    pipelines.open_release(out).evaluate(small_region["od"])
    document = json.loads((out / "confidential" / "evaluation" / "verdict.json").read_text(encoding="utf-8"))
    assert document["verdict"].startswith("Outside what was promised: ")
    assert (document["tables"][0]["forecast"], document["tables"][0]["inside"]) == (0.001, False)


def test_a_release_that_promised_nothing(out: Path, small_region: dict[str, Path]) -> None:
    (out / "public" / ACCURACY_FILE).unlink()
    edit_json(out / "public" / "certificate.json", lambda one: one["software"].update(version="0.0.7"))
    pipelines.open_release(out).evaluate(small_region["od"])
    folder = out / "confidential" / "evaluation"
    document = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))
    assert document["verdict"].startswith("No table of the workload was both forecast and measured")
    assert {one["inside"] for one in document["tables"]} == {None}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "not forecast" in page
    assert f"odsynth {this_software().version}." in page, "who wrote the report, not who made the release"


@pytest.fixture(scope="session")
def joint(
    microdata_jobs: Callable[..., object],
    config_text: Callable[..., str],
    tmp_path_factory: pytest.TempPathFactory,
) -> pipelines.Release:
    """A release of jobs one by one for a table by two attributes, with its configuration beside it."""
    folder = tmp_path_factory.mktemp("joint")
    tables = [{"home": "trct", "attributes": ["SE", "sector"]}, {"home": "trct", "work": "trct"}]
    jobs = pd.read_parquet(microdata_jobs("parquet")["jobs"]["file"])  # type: ignore[index]
    jobs["SE"] = [f"SE0{i % 3 + 1}" for i in range(len(jobs))]
    jobs.to_parquet(folder / "jobs.parquet")
    (folder / "jobs.parquet").chmod(0o600)
    changes = microdata_jobs(folder / "jobs.parquet", attributes=["sector", "SE"])
    text = config_text(changes, {"workload": tables})
    (folder / "joint.toml").write_text(text, encoding="utf-8")
    return pipelines.run(pipelines.parse_config(text, folder, "joint.toml"))


def test_a_table_by_two_attributes_is_measured(joint: pipelines.Release, tmp_path: Path) -> None:
    folder = joint.out.parent
    joint.evaluate(folder / "joint.toml", tmp_path / "to")
    document = json.loads((tmp_path / "to" / "verdict.json").read_text(encoding="utf-8"))
    true = pd.read_parquet(folder / "jobs.parquet")
    [released] = map(pd.read_parquet, joint.public.glob("*_jobs_*.parquet"))
    sides = [
        frame.groupby([frame[home].str[:11].rename("home"), "SE", "sector"]).size()
        for frame, home in ((true, "live"), (released, "h_geocode"))
    ]
    error = sides[0].sub(sides[1], fill_value=0).abs().sum() / 2 / len(true)
    both, flows = document["tables"]
    assert both["error"] == pytest.approx(error)
    assert None not in [*both.values(), *flows.values()]


def test_a_truth_with_margins_measures_the_other_tables(joint: pipelines.Release, tmp_path: Path) -> None:
    """The released file of flows as the truth: each attribute is by itself there."""
    [margins] = joint.public.glob("*_od_main_*.csv.gz")
    table = pd.read_csv(margins, dtype={"w_geocode": str, "h_geocode": str})
    for column in (f"{a}0{i}" for a in ("SA", "SI") for i in (1, 2, 3)):
        table[column] = table["S000"] * column.endswith("1")
    table = table.filter(regex="geocode|^S|^createdate")
    table.to_csv(tmp_path / "margins.csv", index=False)
    joint.evaluate(tmp_path / "margins.csv", tmp_path / "to")
    document = json.loads((tmp_path / "to" / "verdict.json").read_text(encoding="utf-8"))
    assert [one["error"] for one in document["tables"]] == [None, 0]
    words = "all 1 table of the workload that was forecast and measured. Not measured: 1 table; the truth"
    assert words in document["verdict"]
    assert "not measured" in (tmp_path / "to" / "report.html").read_text(encoding="utf-8")


def test_public_comparisons_judge_nothing() -> None:
    measures = pd.DataFrame([], columns=["measure", "level", "group", "value"])
    assert judge(measures, (), 100.0) == Verdict((), ())
