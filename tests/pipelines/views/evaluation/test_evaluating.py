"""Evaluation end to end: where it writes, who can read it, what is in it, and that nothing else changes."""

from __future__ import annotations

import base64
import html
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyproj import Geod

import geo_data
import pipelines
import synth
from geo_data.pools import group_records
from pipelines.cli.main import main
from pipelines.plans.utility import mean_commute, total_variation
from pipelines.storage.durable import whole_folder
from pipelines.views.evaluation import evaluating
from pipelines.views.evaluation.charts import CHARTS
from pipelines.views.evaluation.measuring import MEASURES

from .conftest import Evaluation, contents

LEVELS = ["cty", "trct", "bgrp", "tabblk2010"]


def test_every_measure_is_documented() -> None:
    page = (Path(__file__).resolve().parents[4] / "docs" / "evaluation.md").read_text(encoding="utf-8")
    assert [name for name in MEASURES if f"`{name}`" not in page] == []


def value(measures: pd.DataFrame, name: str, level: str, group: str = "all") -> float:
    keys = (measures["measure"] == name) & (measures["level"] == level) & (measures["group"] == group)
    assert keys.sum() == 1
    return float(measures.loc[keys, "value"].iloc[0])


def test_measures_of_the_small_release(
    closed: Evaluation, small_release: pipelines.Release, small_region: dict[str, Path]
) -> None:
    measures = closed.measures
    assert list(measures.columns) == ["compared_with", "measure", "level", "group", "value"]
    assert set(measures["measure"]) == set(MEASURES) - {"implicate_deviation"}  # there is one
    assert not measures.duplicated(["measure", "level", "group"]).any()
    # The measures that compare jobs one by one, on the same tables.
    geography, pools = small_release.plan.geography, small_release.plan.pools
    sources = [small_region["od"], small_release.public / "demo_od_main_JT00_2019.parquet"]
    true, synthetic = (
        group_records(pools, geography, geo_data.LodesJobs(path, geography).records()) for path in sources
    )
    work = pools.slots.work
    for level in LEVELS:
        expected = total_variation(geography, level, work, true, synthetic)
        assert value(measures, "total_variation", level) == pytest.approx(expected)
        assert value(measures, "common_part", level) == pytest.approx(1 - expected)
        assert value(measures, "workplace_variation", level) == 0
    block = "tabblk2010"
    assert value(measures, "mean_commute_reference", block) == pytest.approx(
        mean_commute(geography, work, true)
    )
    assert value(measures, "mean_commute_release", block) == pytest.approx(
        mean_commute(geography, work, synthetic)
    )
    assert value(measures, "destinations", block) == np.unique(work).size
    # The tables that the release is for, each beside two baselines.
    assert value(measures, "workload_loss", "trct to trct") == value(measures, "total_variation", "trct")
    of_workload = measures[measures["measure"].str.startswith("workload")]
    names = ["trct to trct", "bgrp to bgrp", f"trct to {block}"]
    names += [f"residents of trct by {name}" for name in ("SA", "SE", "SI")]
    assert list(dict.fromkeys(of_workload["level"]))[:-1] == names
    assert len(of_workload) == 4 * (len(names) + 1)
    assert (of_workload["value"].between(0, 1)).all()
    jobs = [geo_data.LodesJobs(path, geography).records(("SE",)) for path in sources]
    counts = [
        np.bincount(geography.unit_of("trct", one.home) * 3 + one.attributes["SE"], minlength=99)
        for one in jobs
    ]
    expected = np.abs(counts[0] - counts[1]).sum() / 2 / work.size
    assert value(measures, "workload_loss", "residents of trct by SE") == pytest.approx(expected)
    assert value(measures, "total_variation", "cty") < value(measures, "total_variation", block)


def test_a_release_of_itself_is_perfect(out: Path) -> None:
    measures = pipelines.open_release(out).evaluate(out / "public" / "demo_od_main_JT00_2019.csv.gz")
    zero = ["total_variation", "jensen_shannon", "lost_pairs", "spurious_jobs", "residence_error"]
    zero += ["earth_movers_distance", "destination_absolute_error", "query_error", "pmse"]
    for name in zero:
        assert measures.loc[measures["measure"] == name, "value"].abs().max() == pytest.approx(0, abs=1e-9), (
            name
        )
    for name in ("common_part", "top_recall", "query_share"):
        assert measures.loc[measures["measure"] == name, "value"].min() == pytest.approx(1), name


def test_what_is_derived_from_the_truth_is_closed(closed: Evaluation) -> None:
    out, folder = closed.out, closed.folder
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    names = {path.name for path in folder.iterdir()}
    assert names == {"report.html", "measures.parquet", "verdict.txt", "verdict.json"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    assert contents(out / "public") == closed.public_before
    assert not [path.name for path in out.iterdir() if path.name not in ("public", "confidential")]
    assert b"CONFIDENTIAL" in pq.read_schema(folder / "measures.parquet").metadata[b"odsynth"]
    pipelines.verify(out / "public")


def test_a_truth_that_everybody_can_read_is_refused(
    out: Path, config_file: Path, small_region: dict[str, Path]
) -> None:
    before = small_region["od"].stat().st_mode
    small_region["od"].chmod(0o604)
    try:
        with pytest.raises(pipelines.ConfigError, match="everybody on this machine can read"):
            pipelines.open_release(out).evaluate(config_file)
    finally:
        small_region["od"].chmod(before)


def test_again_replaces_and_leaves_nothing(
    closed: Evaluation, small_region: dict[str, Path], tmp_path: Path
) -> None:
    out = Path(shutil.copytree(closed.out, tmp_path / "release"))
    before = (out / "confidential" / "evaluation").stat().st_ino
    again = pipelines.open_release(out).evaluate(small_region["od"])  # the configuration names no other truth
    assert (out / "confidential" / "evaluation").stat().st_ino != before
    pd.testing.assert_frame_equal(closed.measures, again)  # no chance is in it
    stored = pd.read_parquet(out / "confidential" / "evaluation" / "measures.parquet")
    pd.testing.assert_frame_equal(again, stored, check_dtype=False)
    assert not [path for path in (out / "confidential").iterdir() if path.name.startswith(".")]


def test_writers_of_one_report_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Each puts its own in the place of whatever is there; the last one stays, whole."""
    table = pa.table({"value": [1.0]}).replace_schema_metadata({b"odsynth": evaluating._MARK[True]})

    target = tmp_path / "evaluation"

    def write(number: int) -> None:
        with whole_folder(target, check=lambda: evaluating._check_replaceable(target, True)) as made:
            pq.write_table(table, made / "measures.parquet")
            (made / "report.html").write_text("whole", encoding="utf-8")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(50)))
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation"]
    assert (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8") == "whole"


def test_never_into_a_public_folder(out: Path, config_file: Path) -> None:
    (out / "link").symlink_to(out / "public")
    shutil.copytree(out / "public", out / "published")
    before = contents(out)
    for place in ("public", "public/new", "public/plan", "link/new", "published/new"):
        with pytest.raises(pipelines.ConfigError, match="inside the public folder"):
            pipelines.open_release(out).evaluate(config_file, out / place)
        with pytest.raises(pipelines.ConfigError, match="inside the public folder"):
            pipelines.open_release(out).evaluate_public([config_file], out / place)
    assert contents(out) == before


def test_a_linked_confidential_folder_is_seen(out: Path, config_file: Path) -> None:
    shutil.rmtree(out / "confidential")
    (out / "confidential").symlink_to(out / "public")
    before = contents(out / "public")
    with pytest.raises(pipelines.ConfigError, match="inside the public folder"):
        pipelines.open_release(out).evaluate(config_file)
    assert contents(out / "public") == before


def test_nothing_else_is_replaced(out: Path, opened: Evaluation, config_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "notes.txt").write_text("kept", encoding="utf-8")
    with pytest.raises(pipelines.ConfigError, match="is no confidential evaluation"):
        pipelines.open_release(out).evaluate(config_file, folder)
    assert (folder / "notes.txt").read_text(encoding="utf-8") == "kept"
    # A public report may be on its way to readers: a confidential one does not take its place.
    shutil.copytree(opened.folder, tmp_path / "open")
    with pytest.raises(pipelines.ConfigError, match="is no confidential evaluation"):
        pipelines.open_release(out).evaluate(config_file, tmp_path / "open")


def test_report_stands_alone(closed: Evaluation) -> None:
    page = closed.page
    assert page.count("CONFIDENTIAL") >= 4  # title, banner, watermark, margin of printed pages
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|<script|<link|url\(", page)
    assert re.findall(r'(?:src|href)="(?!data:image/svg\+xml;base64,)', page) == []
    assert page.count("<figure>") == len(CHARTS)
    for about in [MEASURES[name] for name in set(MEASURES) - {"implicate_deviation"}]:
        if not about.title.startswith(("Mean commute to", "Destinations")):
            assert html.escape(about.title, quote=False).replace("'", "&#39;") in page
    assert "nan" not in page.split("<figure>")[0]
    assert "not the truth" not in page
    assert "several levels" not in page, "there may be one"
    # Levels have the names of their units, not of columns of the crosswalk.
    assert '<th class="number" scope="col">block group</th>' in page
    assert not re.search(r"\b(trct|bgrp|tabblk2010)\b", page)


def test_pictures_name_nothing_outside(closed: Evaluation) -> None:
    pictures = [base64.b64decode(part).decode() for part in re.findall(r"base64,([^\"]+)", closed.page)]
    assert pictures
    for picture in pictures:
        # The names of the formats of a picture are addresses; nothing is fetched from them.
        addresses = set(re.findall(r"https?://[^\"]+", picture))
        assert addresses == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_another_truth_is_noticed(out: Path, small_region: dict[str, Path], tmp_path: Path) -> None:
    table = pd.read_csv(small_region["od"], dtype={"w_geocode": str, "h_geocode": str})
    table.iloc[: len(table) // 2].to_csv(tmp_path / "half.csv", index=False)
    pipelines.open_release(out).evaluate(tmp_path / "half.csv", tmp_path / "half")
    assert "this is not the truth it was made from" in (tmp_path / "half" / "report.html").read_text(
        encoding="utf-8"
    )


def test_public_evaluation(opened: Evaluation, config_file: Path) -> None:
    page, measures = opened.page, opened.measures
    assert "PUBLIC" in page
    assert "CONFIDENTIAL" not in page
    assert "may be published" in page
    assert contents(opened.out / "public") == opened.public_before
    # As the umask of the tests has it: public files are as open as their owner's others
    modes = [path.stat().st_mode & 0o777 for path in (opened.folder, opened.folder / "report.html")]
    assert modes == [0o750, 0o640]
    names = ["demo_acs_county_flows.csv", "demo_lodes2018_tract_flows.csv"]
    assert measures["compared_with"].unique().tolist() == names
    assert str(config_file.parent) not in page
    assert measures.loc[measures["compared_with"] == names[0], "level"].unique().tolist() == ["cty"]
    assert b"PUBLIC" in pq.read_schema(opened.folder / "measures.parquet").metadata[b"odsynth"]


def rows_of(page: str) -> dict[str, list[str]]:
    """The rows of all tables of a report, or a part of one, by their first cell."""
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in page.split("<tr>")]
    return {html.unescape(found[0]): [html.unescape(cell) for cell in found[1:]] for found in cells if found}


def larger_areas(flows: pd.Series, digits: int) -> pd.MultiIndex:
    """The larger areas, whose codes have so many digits, of both ends of flows between codes."""
    return pd.MultiIndex.from_arrays([flows.index.get_level_values(end).str[:digits] for end in (0, 1)])


def test_a_public_report_knows_of_no_truth_and_counts_right(
    opened: Evaluation, small_region: dict[str, Path]
) -> None:
    """Each number against plain pandas on the released file and the survey; a difference is no error."""
    page = opened.page.replace("a difference from it is no error of the release", "")
    words = re.sub(r"(?s)<style>.*?</style>|base64,[^\"]+|<[^>]+>", " ", page)
    assert not re.search(r"\b(reality|truth|true|wrong|errors?)\b", words, re.IGNORECASE)
    public = opened.out / "public"
    released = pd.read_parquet(public / "demo_od_main_JT00_2019.parquet")
    blocks = pd.read_parquet(public / "plan" / "blocks.parquet")
    parts = dict(zip(("county", "tract"), opened.page.split("<h2>Compared with ")[1:], strict=True))
    for word, table, digits, above in (("county", "county_flows", 5, 2), ("tract", "tract_flows", 11, 5)):
        level, many = {"county": ("cty", "counties"), "tract": ("trct", "tracts")}[word]
        survey = pd.read_csv(small_region[table], dtype=str)
        survey.columns = ["home", "work", "jobs", *survey.columns[3:]]
        points = blocks.groupby(level)[["longitude", "latitude"]].mean()
        survey = survey[survey["home"].isin(points.index) & survey["work"].isin(points.index)]
        survey = survey.astype({"jobs": float}).groupby(["home", "work"])["jobs"].sum()
        ends = [released[side].str[:digits] for side in ("h_geocode", "w_geocode")]
        jobs = released["S000"].groupby(ends).sum()
        jobs.index.names = survey.index.names
        jobs = jobs[larger_areas(jobs, above).isin(larger_areas(survey, above))]  # where it shows anybody
        both = pd.concat({"survey": survey / survey.sum(), "jobs": jobs / jobs.sum()}, axis=1).fillna(0)
        there, here = both["survey"] > 0, both["jobs"] > 0
        home, work = (points.loc[both.index.get_level_values(i)] for i in (0, 1))
        km = Geod(ellps="WGS84").inv(*home.to_numpy().T, *work.to_numpy().T)[2] / 1000
        expected = {
            "Total variation distance": (both["survey"] - both["jobs"]).abs().sum() / 2,
            "Lost pairs": (there & ~here).sum() / there.sum(),
            "Jobs in lost pairs": both["survey"][~here].sum(),
            "Spurious pairs": (here & ~there).sum() / here.sum(),
            "Jobs in spurious pairs": both["jobs"][~there].sum(),
            f"Mean commute, compared with, between points of {many}": (both["survey"] * km).sum(),
            f"Mean commute, release, between points of {many}": (both["jobs"] * km).sum(),
        }
        rows = rows_of(parts[word])
        for name, number in expected.items():
            # The finest level is the last before the words.
            of_commutes = name.startswith("Mean")
            assert rows[name][-2] == (f"{number:,.2f} km" if of_commutes else f"{100 * number:.1f} %"), name


def test_public_evaluation_reads_no_job(
    opened: Evaluation, config_text: Callable[..., str], small_release: pipelines.Release, tmp_path: Path
) -> None:
    """The confidential file need not even be there."""
    path = tmp_path / "elsewhere.toml"
    path.write_text(config_text(jobs=tmp_path / "absent.csv.gz"), encoding="utf-8")
    public = Path(shutil.copytree(small_release.public, tmp_path / "alone" / "public"))
    again = pipelines.open_release(public).evaluate_public([path], tmp_path / "again")
    pd.testing.assert_frame_equal(opened.measures, again)


def test_the_truth_is_no_public_table(out: Path, small_region: dict[str, Path], tmp_path: Path) -> None:
    copied = shutil.copy(small_region["od"], tmp_path / "harmless.csv.gz")
    with pytest.raises(geo_data.InputError, match="confidential input"):
        pipelines.open_release(out).evaluate_public([Path(copied)])
    assert not (out / "evaluation").exists()


@pytest.mark.parametrize("recorded", [True, False], ids=["run.json", "no run.json"])
def test_the_truth_in_other_bytes_is_no_public_table(
    out: Path, small_region: dict[str, Path], config_text: Callable[..., str], tmp_path: Path, recorded: bool
) -> None:
    """Unpacked, in another order, or a part of it: totals at workplaces tell, whatever the bytes."""
    if not recorded:
        (out / "confidential" / "run.json").unlink()
    table = pd.read_csv(small_region["od"], dtype={"w_geocode": str, "h_geocode": str})
    versions = {"unpacked": table, "sorted": table.sort_values("h_geocode"), "part": table[: len(table) // 2]}
    for name, version in versions.items():
        version.to_csv(tmp_path / f"{name}.csv", index=False)
        with pytest.raises(geo_data.InputError, match="seems to have confidential jobs"):
            pipelines.open_release(out).evaluate_public([tmp_path / f"{name}.csv"])
    # Also where a configuration calls it an auxiliary table. Copied checksums do not make it a release.
    posing = tmp_path / "posing"
    posing.mkdir()
    for name in (out / "public" / "SHA256SUMS", out / "public" / "certificate.json", tmp_path / "sorted.csv"):
        shutil.copy(name, posing)
    levels = {"origin_level": "trct", "destination_level": "trct"}
    auxiliary = [{"format": "lodes", "file": str(posing / "sorted.csv")} | levels]
    (tmp_path / "planned.toml").write_text(config_text({"auxiliary": auxiliary}), encoding="utf-8")
    with pytest.raises(geo_data.InputError, match="seems to have confidential jobs") as error:
        pipelines.open_release(out).evaluate_public([tmp_path / "planned.toml"])
    assert "sorted.csv" in str(error.value)
    assert not (out / "evaluation").exists()


def test_an_earlier_release_of_the_same_jobs_is_public(out: Path, tmp_path: Path) -> None:
    """Its totals are those of the truth, too; its public folder says what it is."""
    file = out / "public" / "demo_od_main_JT00_2019.csv.gz"
    measures = pipelines.open_release(out).evaluate_public([file])
    assert value(measures, "total_variation", "bgrp") == pytest.approx(0)
    with pytest.raises(geo_data.InputError, match="beside the SHA256SUMS"):
        pipelines.open_release(out).evaluate_public([Path(shutil.copy(file, tmp_path))])


def test_last_years_release(out: Path, small_region: dict[str, Path], tmp_path: Path) -> None:
    table = pd.read_csv(small_region["od"], dtype={"w_geocode": str, "h_geocode": str})
    table.iloc[10:].assign(S000=table["S000"] + 1).to_csv(tmp_path / "earlier.csv", index=False)
    measures = pipelines.open_release(out).evaluate_public([tmp_path / "earlier.csv"])
    assert value(measures, "total_variation", "bgrp") > 0
    assert "tabblk2010" not in set(measures["level"])


def test_pairs_that_a_table_never_shows_are_left_out(
    out: Path, config_text: Callable[..., str], small_geography: geo_data.Geography, tmp_path: Path
) -> None:
    """A table of flows within counties says nothing of those between them."""
    release = pipelines.open_release(out / "public")
    flows = release.unit_flows("trct", "trct")
    county = small_geography.unit_of("cty", small_geography.starts("trct"))
    within = flows[county[flows["work"]] == county[flows["home"]]]
    codes = small_geography.codes("trct")
    pd.DataFrame(
        {"h": codes[within["home"]], "w": codes[within["work"]], "n": within["S000"].to_numpy()}
    ).to_csv(tmp_path / "within.csv", index=False)
    table = {"format": "flows", "file": str(tmp_path / "within.csv"), "flow": "n"}
    table |= {"origin": "h", "origin_level": "trct", "destination": "w", "destination_level": "trct"}
    config = out.parent / "within.toml"
    config.write_text(config_text({"auxiliary": [table]}), encoding="utf-8")
    measures = pipelines.open_release(out).evaluate_public([config])
    assert value(measures, "total_variation", "trct") == pytest.approx(0, abs=1e-12)
    share = 1 - within["S000"].sum() / flows["S000"].sum()
    assert share > 0  # some commute across a county line, in whatever was drawn
    assert f"{share:.1%} of the release" in (out / "evaluation" / "report.html").read_text(encoding="utf-8")


def test_tables_of_areas_that_cut_across_the_levels(
    cut_release: pipelines.Release,
    small_region: dict[str, Path],
    strips: dict[str, object],
    config_text: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Losses are of every table of the workload; public tables of such areas are not compared."""
    measures = cut_release.evaluate(small_region["od"], tmp_path / "closed")
    losses = measures[measures["measure"] == "workload_loss"]
    names = ["stplc to stplc", "residents of stplc by SE", "tabblk2010 to trct", "trct to stplc"]
    assert list(losses["level"])[: len(names)] == names
    assert losses["value"].between(0, 1).all()
    rows = ["h,w,n", "0311000,0312000,5", "0312000,0312000,7", ""]
    (tmp_path / "places.csv").write_text("\n".join(rows))
    table = {"format": "flows", "file": str(tmp_path / "places.csv"), "flow": "n"}
    table |= {"origin": "h", "origin_level": "stplc", "destination": "w", "destination_level": "stplc"}
    (tmp_path / "places.toml").write_text(config_text(strips, {"auxiliary": [table]}), encoding="utf-8")
    with pytest.raises(geo_data.InputError, match="no public table"):
        cut_release.evaluate_public([tmp_path / "places.toml"])


def test_no_public_table(out: Path, config_text: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "none.toml").write_text(config_text({"auxiliary": []}), encoding="utf-8")
    with pytest.raises(geo_data.InputError, match="no public table"):
        pipelines.open_release(out).evaluate_public([tmp_path / "none.toml"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of a release of jobs in one ward of two, in its output folder's parent."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "places.csv").write_text("b,ward,lat,lon\na,u,1,1\nb,v,1,1.1\nc,v,1,1.2\n")
    _tiny_jobs(folder, ["b,c,young", "c,b,old", "b,b,old"] * 9)
    (folder / "tiny.toml").write_text(TINY)
    pipelines.run(pipelines.load_config(folder / "tiny.toml"))
    return folder


TINY = """
release = { name = "Tiny", state = "tiny", year = 2020, out = "out", mechanism = "geometric" }
privacy = { protects = "home", epsilon = "4", delta = "0" }
geography = { file = "places.csv", block = "b", levels = ["ward"], latitude = "lat", longitude = "lon" }

[jobs]
format = "microdata"
file = "jobs.csv"
home = "h"
work = "w"
attributes = ["age"]
population = "residents"
"""


def _tiny_jobs(folder: Path, rows: list[str]) -> None:
    (folder / "jobs.csv").write_text("\n".join(["h,w,age", *rows, ""]))
    (folder / "jobs.csv").chmod(0o600)


@pytest.mark.parametrize(
    ("rows", "measured"),
    [
        (["a,a,old"], True),
        (["a,b,old"] * 27, True),  # as many as there are, elsewhere
        (["b,c,1", "c,b,2", "b,b,2"] * 9, False),
        (["b,c,1", *["b,c,old"] * 9], False),
    ],
    ids=["one job", "all alike", "other categories", "a further category"],
)
def test_a_truth_that_has_nothing_in_common(tiny: Path, rows: list[str], measured: bool) -> None:
    _tiny_jobs(tiny, rows)
    measures = pipelines.open_release(tiny / "out").evaluate(tiny / "tiny.toml")
    losses = measures[measures["measure"] == "workload_loss"]
    by_age = losses["level"].str.endswith("by age")
    assert losses["value"][by_age].notna().tolist() == [measured] * by_age.sum()
    assert losses["value"][~by_age].between(0, 1).all()


def test_a_public_table_that_has_nothing_in_common(tiny: Path) -> None:
    (tiny / "flows.csv").write_text("h,w,n\na,a,5\n")
    flows = 'format = "flows"\nfile = "flows.csv"\nflow = "n"\norigin = "h"\norigin_level = "b"\n'
    flows += 'destination = "w"\ndestination_level = "b"\n'
    (tiny / "tables.toml").write_text(f"{TINY}\n[[auxiliary]]\n{flows}")
    with pytest.raises(geo_data.InputError, match="no pair of larger areas in common"):
        pipelines.open_release(tiny / "out").evaluate_public([tiny / "tables.toml"])


def test_jobs_of_another_geography(out: Path, tmp_path: Path, small_region: dict[str, Path]) -> None:
    table = pd.read_csv(small_region["od"], dtype=str)
    table["h_geocode"] = "99" + table["h_geocode"].str[2:]
    table.to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(geo_data.InputError, match="not in the geography") as error:
        pipelines.open_release(out).evaluate(tmp_path / "other.csv")
    assert not any(code in str(error.value) for code in table["h_geocode"])


def test_microdata_and_canaries(
    microdata_jobs: Callable[..., object],
    config_text: Callable[..., str],
    canary: str,
    clean_source: object,
    tmp_path: Path,
) -> None:
    """Codes of workers stand in every row of the truth, and nowhere in what is printed or written."""
    text = config_text(microdata_jobs("parquet"))
    release = pipelines.run(pipelines.parse_config(text, tmp_path, "micro.toml"))
    (tmp_path / "micro.toml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(main, ["evaluate", str(release.out), "--truth", str(tmp_path / "micro.toml")])
    assert result.exit_code == 0, result.output
    written = b"".join(path.read_bytes() for path in (release.out / "confidential" / "evaluation").iterdir())
    assert canary not in result.output
    assert canary.encode() not in written
    blocks = [code.encode() for code in pipelines.open_release(release.public).geography.blocks]
    assert not any(code in written for code in blocks)  # nor is any block singled out
    # Nothing is said about the truth but where the report is.
    told = result.output.replace(str(release.out), "")
    assert not re.search(r"\d", told)


def test_command(out: Path, config_file: Path, small_region: dict[str, Path]) -> None:
    run = CliRunner()
    neither = run.invoke(main, ["evaluate", str(out)])
    both = run.invoke(main, ["evaluate", str(out), "--truth", str(config_file), "--public", str(config_file)])
    assert (neither.exit_code, both.exit_code) == (2, 2)
    released = out / "public" / "demo_od_main_JT00_2019.csv.gz"
    result = run.invoke(main, ["evaluate", str(out), "--public", str(released)])
    assert result.exit_code == 0, result.output
    assert f"Written {out / 'evaluation'}" in result.output
    refused = run.invoke(
        main, ["evaluate", str(out), "--truth", str(small_region["od"]), "--to", str(out / "public" / "x")]
    )
    assert refused.exit_code == 1
    assert "inside the public folder" in refused.output
    absent = run.invoke(main, ["evaluate", str(out.parent / "none"), "--truth", str(config_file)])
    assert absent.exit_code == 1
    assert "there is no certificate.json" in absent.output


LEEDS = Path(__file__).resolve().parents[4] / "examples" / "leeds.toml"


def test_workers_from_external_zones_are_counted(
    zoned_release: pipelines.Release, zoned_config: Path, tmp_path: Path
) -> None:
    measures = zoned_release.evaluate(zoned_config, tmp_path / "closed")
    geography = zoned_release.plan.geography
    block = geography.block_level
    assert value(measures, "workplace_variation", block) == 0
    assert 0 < value(measures, "residence_variation", "st") < 0.2
    # Means are over those whose home has a place, as in the measure that compares jobs one by one.
    public = pipelines.open_release(zoned_release.public)
    flows = public.unit_flows(block, block)
    homes, work = (np.repeat(flows[side], flows["S000"]).to_numpy() for side in ("home", "work"))
    assert geography.is_external(homes).any()
    expected = mean_commute(geography, work, homes)
    assert value(measures, "mean_commute_release", block) == pytest.approx(expected)
    zoned_release.evaluate_public([zoned_config], tmp_path / "open")
    page = (tmp_path / "open" / "report.html").read_text(encoding="utf-8")
    assert "left out of all measures of commutes" in page
    assert "Distances of all jobs" not in page


def test_one_file_is_not_the_truth_of_two(zoned_release: pipelines.Release, zoned_config: Path) -> None:
    with pytest.raises(geo_data.InputError, match="workers who live in external zones"):
        zoned_release.evaluate(zoned_config.parent / "main.csv.gz")


def test_one_file_of_two_is_not_public(
    zoned_release: pipelines.Release, zoned_config: Path, tmp_path: Path
) -> None:
    """Not even in other bytes: its totals are below those of the release, and nowhere above."""
    jobs = pd.read_csv(zoned_config.parent / "main.csv.gz", dtype={"w_geocode": "str", "h_geocode": "str"})
    jobs.to_csv(tmp_path / "main.csv", index=False)
    with pytest.raises(geo_data.InputError, match="seems to have confidential jobs"):
        zoned_release.evaluate_public([tmp_path / "main.csv"])
    released = zoned_release.public / "demo_od_main_JT00_2019.csv.gz"
    zoned_release.evaluate_public([released], tmp_path / "open")


@pytest.mark.slow
def test_leeds(shared_data: Path, clean_source: object, tmp_path: Path) -> None:
    # With a seed: now and then the noise of a large cell is seen by many of the queries.
    config = pipelines.load_config(LEEDS).with_out(tmp_path / "release")
    release = pipelines.run(config, key=synth.RunKey.from_seed(1))
    measures = release.evaluate(LEEDS)
    zone = "geo_code"
    truth = pd.read_csv(shared_data / "leeds_2011" / "leeds_msoa_od_2011.csv").rename(columns={"all": "true"})
    found = pd.read_parquet(release.public / "leeds_od_main_JT01_2011.parquet", columns=None)
    both = truth.merge(
        found, left_on=["geo_code1", "geo_code2"], right_on=["h_geocode", "w_geocode"], how="outer"
    )
    both = both[["true", "S000"]].fillna(0)
    distance = (both["true"] - both["S000"]).abs().sum() / 2 / both["true"].sum()
    assert value(measures, "total_variation", zone) == pytest.approx(distance)
    assert 0.01 < distance < 0.12
    lost = (both["true"] > 0) & (both["S000"] == 0)
    assert value(measures, "lost_pairs", zone) == pytest.approx(lost.sum() / (both["true"] > 0).sum())
    assert value(measures, "mean_commute_reference", zone) == pytest.approx(5.47, abs=0.01)
    assert value(measures, "earth_movers_distance", zone) < 0.3
    assert value(measures, "query_share", zone, "rho 1") > 0.9
