"""Exports for models of travel: MATSim, lines for routing, ActivitySim."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import geopandas as gpd
import numpy as np
import openmatrix
import pandas as pd
import pyogrio
import pyproj
import pytest
import shapely

from geo_data.od_files import LODES_CATEGORIES
from pipelines import Release, open_release
from pipelines.views.exports import matsim, spatial
from pipelines.views.exports import workers as workers_of_exports
from pipelines.views.exports.source import ExportError, Source
from pipelines.views.exports.workers import Workers

Exporter = Callable[..., tuple[Path, Source]]
POPULATION = "demo_population_JT00_2019.xml.gz"
TRIPS = "demo_trips_JT00_2019.geojson"

# population_v6.dtd: what is in an element, in which order; attributes that must be there, and that may.
CHILDREN = {
    "population": "(attributes )?(person )*",
    "person": "(attributes )?(plan )*",
    "attributes": "(attribute )*",
    "plan": "activity (leg activity )*",  # the DTD says less, its comment this
}
ATTRIBUTES = {
    "population": ({}, {"desc"}),
    "person": ({"id"}, {"sex", "age", "license", "car_avail", "employed"}),
    "attribute": ({"name", "class"}, set()),
    "plan": ({}, {"score", "type", "selected"}),
    "activity": ({"type"}, {"x", "y", "link", "facility", "start_time", "end_time", "max_dur"}),
    "leg": ({"mode"}, {"dep_time", "trav_time"}),
}


def population(path: Path) -> pd.DataFrame:
    """Read a population as its format says, by person: attributes of the worker, and points."""
    with gzip.open(path) as file:
        root = ElementTree.parse(file).getroot()
    for element in root.iter():
        children = "".join(f"{child.tag} " for child in element)
        assert re.fullmatch(CHILDREN.get(element.tag, ""), children), element.tag
        needed, allowed = ATTRIBUTES.get(element.tag, (set(), set()))
        assert set(needed) <= set(element.attrib) <= {*needed, *allowed}
    persons = {}
    for person in root.iterfind("person"):
        plan = [activity.attrib for activity in person.iterfind("plan/activity")]
        assert [activity["type"] for activity in plan] == ["home", "work", "home"]
        assert plan[0] == plan[2]
        persons[int(person.attrib["id"])] = {
            **{attribute.attrib["name"]: attribute.text for attribute in person.iterfind("attributes/*")},
            **{f"{end['type']}_{axis}": float(end[axis]) for end in plan[:2] for axis in ("x", "y")},
        }
    return pd.DataFrame.from_dict(persons, orient="index")


def inside(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[~rows["h_geocode"].str.endswith("9" * 13)]


def test_matsim_has_every_worker_with_a_place(exported: Exporter, public: Path, rows: pd.DataFrame) -> None:
    folder, source = exported("matsim")
    persons = population(folder / POPULATION)
    expected = inside(rows)
    pairs = expected.groupby(["h_geocode", "w_geocode"])["S000"].sum()
    assert persons.groupby(["home", "work"]).size().to_dict() == pairs.to_dict()
    for name, categories in LODES_CATEGORIES.items():
        counts = {category: int(expected[category].sum()) for category in categories}
        assert Counter(persons[name]) == {key: value for key, value in counts.items() if value}
        alone = expected[expected["S000"] == 1].set_index(["h_geocode", "w_geocode"])
        single = persons.set_index(["home", "work"])[name].loc[pairs[pairs == 1].index]
        assert single.to_dict() == alone[list(categories)].idxmax(axis=1).loc[single.index].to_dict()
    shapes = gpd.read_parquet(public / "geo" / "trct.parquet").to_crs(Workers(source).crs)
    polygons = shapes.set_index("trct").geometry
    for side in ("home", "work"):
        tract = persons[side].str[:11]
        drawn = persons[tract.isin(polygons.index)]
        points = gpd.points_from_xy(drawn[f"{side}_x"], drawn[f"{side}_y"])
        around = polygons.loc[tract[drawn.index]].buffer(0.1)  # coordinates are rounded
        assert shapely.covers(around.to_numpy(), np.asarray(points)).all()
        assert len(set(map(str, points))) > 0.9 * len(drawn)
    readme = (folder / "README.txt").read_text(encoding="utf-8")
    left_out = rows["S000"].sum() - len(persons)
    assert f"Synthetic workers in the file: {len(persons):,} of 600." in readme
    assert f"{left_out:,} of 600 workers are left out" in readme
    beyond = (~persons[["home", "work"]].apply(lambda codes: codes.str[:11].isin(polygons.index))).sum().sum()
    assert f"{beyond:,} points are centroids of blocks" in readme
    assert "Trust: " in readme
    assert Workers(source).crs.to_string() in readme


def test_codes_of_attributes_have_labels(exported: Exporter) -> None:
    labels = open_release(exported("matsim")[1].release.public).counts
    persons = population(exported("matsim")[0] / POPULATION)
    trips = pyogrio.read_dataframe(exported("trips")[0] / TRIPS)
    for table in (persons, trips):
        for name in LODES_CATEGORIES:
            assert table[f"{name}_label"].tolist() == table[name].map(labels).tolist()
        assert "home_name" not in table  # blocks of LODES have no names


def test_matsim_tools_read_it(exported: Exporter) -> None:
    tools = pytest.importorskip("matsim")
    path = exported("matsim")[0] / POPULATION
    plans = tools.plan_reader_dataframe(str(path))
    persons = population(path)
    assert plans.persons["id"].astype(int).tolist() == persons.index.tolist()
    assert plans.persons["SA"].tolist() == persons["SA"].tolist()
    assert len(plans.activities) == 3 * len(plans.plans) == 3 * len(persons)
    homes = plans.activities.iloc[::3]
    assert homes["x"].astype(float).tolist() == persons["home_x"].tolist()


def test_points_are_the_same_again(public: Path, exported: Exporter, tmp_path: Path) -> None:
    """Also in batches of another size, and in a sample; with another seed they are others."""
    folder = exported("matsim")[0]
    whole = population(folder / POPULATION)
    for name, options in (("again", {}), ("other", {"seed": 1}), ("sample", {"sample": 0.1})):
        open_release(public).export(["matsim", "trips"], tmp_path / name, **options)
    for name in ("matsim", "trips"):
        for path in (exported(name)[0]).iterdir():
            assert (tmp_path / "again" / name / path.name).read_bytes() == path.read_bytes()
    other = population(tmp_path / "other" / "matsim" / POPULATION)
    pd.testing.assert_frame_equal(whole[["home", "work"]], other[["home", "work"]])
    assert (whole["home_x"] != other["home_x"]).mean() > 0.8
    sample = population(tmp_path / "sample" / "matsim" / POPULATION)
    assert abs(len(sample) - len(whole) / 10) <= 1
    pd.testing.assert_frame_equal(sample, whole.loc[sample.index])
    assert len(pyogrio.read_dataframe(tmp_path / "sample" / "trips" / TRIPS)) == len(sample)
    block = "tabblk2010"
    parts = [
        list(Workers(Source(open_release(public), block, block, tmp_path, batch_rows=rows)).batches())
        for rows in (7, 100_000)
    ]
    assert max(len(table) for table, _ in parts[0]) <= 7
    np.testing.assert_array_equal(*(np.vstack([points for _, points in part]) for part in parts))
    pd.testing.assert_frame_equal(
        *(
            pd.concat([table[["worker", "home", "work"]] for table, _ in part], ignore_index=True)
            for part in parts
        )
    )


def test_trips_are_lines_between_the_same_points(exported: Exporter) -> None:
    folder, source = exported("trips")
    trips = pyogrio.read_dataframe(folder / TRIPS).set_index("worker")
    persons = population(exported("matsim")[0] / POPULATION)
    together = persons.loc[trips.index]
    for column in ("home", "work", "SA", "SE", "SI"):
        assert trips[column].tolist() == together[column].tolist()
    to_metres = pyproj.Transformer.from_crs("EPSG:4326", Workers(source).crs, always_xy=True)
    ends = shapely.get_coordinates(trips.geometry.array).reshape(-1, 4)
    expected = together[["home_x", "home_y", "work_x", "work_y"]].to_numpy()
    for at in (0, 2):
        metres = np.column_stack(to_metres.transform(*ends[:, at : at + 2].T))
        np.testing.assert_allclose(metres, expected[:, at : at + 2], atol=0.2)
    without = len(persons) - len(trips)
    said = f"{without:,} of these workers have no line" in (folder / "README.txt").read_text(encoding="utf-8")
    assert said == (without > 0)


def test_too_many_trips_are_refused(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spatial, "MOST_TRIPS", 100)
    with pytest.raises(ExportError, match=r"trips: more than 100 workers .* Fix: give a smaller sample"):
        open_release(public).export(["trips"], tmp_path)
    assert not list(tmp_path.iterdir())
    open_release(public).export(["trips"], tmp_path, sample=0.1)


def test_points_in_slivers_are_counted(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of polygons that a draw in the box around them hardly ever hits."""
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    path = copy / "geo" / "trct.parquet"
    tracts = gpd.read_parquet(path)
    west, south, east, north = tracts.geometry.bounds.to_numpy().T
    corners = [(west, south), (west + 1e-5, south), (east, north)]
    tracts.geometry = shapely.polygons(np.stack([np.column_stack(corner) for corner in corners], axis=1))
    tracts.to_parquet(path)
    monkeypatch.setattr(workers_of_exports, "_TURNS", 5)
    workers = Workers(Source(open_release(copy), "tabblk2010", "tabblk2010", tmp_path))
    points = np.vstack([points for _, points in workers.batches()])
    assert np.isfinite(points).all()
    assert 0 < workers.in_slivers <= 2 * len(points) - workers.at_centroid
    assert any(f"{workers.in_slivers:,} points are in the middle" in text for text in workers.remarks())


def test_without_shapes_points_are_centroids(public: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    shutil.rmtree(copy / "geo")
    open_release(copy).export(["matsim", "trips"], tmp_path)
    persons = population(tmp_path / "matsim" / POPULATION)
    assert persons[["home", "home_x", "home_y"]].drop_duplicates()["home"].is_unique
    assert "The release has no shapes" in (tmp_path / "matsim" / "README.txt").read_text(encoding="utf-8")
    same = (persons["home"] == persons["work"]).sum()
    assert len(pyogrio.read_dataframe(tmp_path / "trips" / TRIPS)) == len(persons) - same


def test_whole_records_stay_together(
    census_releases: Callable[[str], Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a release with a row for each job, a worker has all attributes of one row."""
    release = census_releases("live or work")
    source = Source(release, release.levels[-1], release.levels[-1], tmp_path, batch_rows=1000)
    workers = Workers(source)
    table = pd.concat([part for part, _ in workers.batches()], ignore_index=True)
    jobs, places = release.jobs(), release.areas(release.levels[-1]).set_index("code")["external"]
    outside = jobs["home"].map(places) | jobs["work"].map(places)
    assert outside.any()
    columns = ["home", "work", *release.categories]
    expected = jobs.loc[~outside, columns]
    assert Counter(map(tuple, table[columns].to_numpy())) == Counter(map(tuple, expected.to_numpy()))
    assert (workers.all, workers.placed) == (len(jobs), len(expected))
    assert not any("put together at random" in remark for remark in workers.remarks())
    taken = next(iter(release.categories))  # as if MATSim had a meaning of its own for the name
    monkeypatch.setattr(matsim, "_OF_MATSIM", {taken})
    release.export("matsim", tmp_path)
    (path,) = (tmp_path / "matsim").glob("*.xml.gz")
    persons = population(path)
    readme = (tmp_path / "matsim" / "README.txt").read_text(encoding="utf-8")
    assert f"{taken} is {taken}_category" in readme
    persons = persons.rename(columns={f"{taken}_category": taken})
    assert persons[columns].to_numpy().tolist() == table[columns].to_numpy().tolist()


def test_activitysim(exported: Exporter, rows: pd.DataFrame, tract_flows: pd.Series) -> None:
    folder, source = exported("activitysim")
    zones = pd.read_csv(folder / "land_use.csv", dtype={"code": "str"}, index_col="zone_id")
    flows = pd.read_csv(folder / "workplace_flows.csv", dtype={"home": "str", "work": "str"})
    codes = source.release.areas("trct")
    for side, number in (("home", "home_zone_id"), ("work", "workplace_zone_id")):
        assert flows[side].tolist() == zones["code"].loc[flows[number]].tolist()
        assert flows[f"{side}_name"].tolist() == zones["name"].loc[flows[number]].tolist()
    assert zones["code"].tolist() == codes["code"][~codes["external"]].tolist()
    home, work = (rows[f"{side}_geocode"].str[:11] for side in "hw")
    from_outside = home.str.endswith("9" * 9)
    for name, by, who in (
        ("TOTEMP", work, slice(None)),
        ("workers", home, ~from_outside),
        ("from_outside", work, from_outside),
    ):
        expected = rows[who].groupby(by[who])["S000"].sum()
        assert (
            zones.set_index("code")[name].to_dict() == expected.reindex(zones["code"], fill_value=0).to_dict()
        )
    assert (zones["to_outside"] == 0).all()
    share = (zones["from_outside"] / zones["TOTEMP"]).fillna(0)
    np.testing.assert_allclose(zones["share_from_outside"], share, atol=1e-6)
    named = flows.assign(
        work=zones["code"].loc[flows["workplace_zone_id"]].array,
        home=zones["code"].loc[flows["home_zone_id"]].array,
    )
    truth = tract_flows[~tract_flows.index.get_level_values("home").str.endswith("9" * 9)]
    assert named.set_index(["work", "home"])["S000"].to_dict() == truth.to_dict()
    assert flows["S000"].sum() + zones["from_outside"].sum() == rows["S000"].sum()
    assert flows["SE02"].sum() == rows["SE02"][~from_outside].sum()
    assert f"{truth.sum():,} live and work in the zones" in " ".join(
        (folder / "README.txt").read_text(encoding="utf-8").split()
    )
    matrix = exported("omx")[0] / "demo_flows_trct_to_trct_JT00_2019.omx"
    with openmatrix.open_file(str(matrix)) as file:
        row = file.mapping("zone")
        values = file["S000"][:]
    cells = values[flows["home_zone_id"].map(row), flows["workplace_zone_id"].map(row)]
    assert cells.tolist() == flows["S000"].tolist()


def test_activitysim_reads_it(exported: Exporter, tmp_path: Path) -> None:
    workflow = pytest.importorskip("activitysim.core.workflow")
    reading = pytest.importorskip("activitysim.core.input")
    for name in ("configs", "data", "output"):
        (tmp_path / name).mkdir()
    table = {"tablename": "land_use", "filename": "land_use.csv", "index_col": "zone_id"}
    settings = {"inherit_settings": False, "input_table_list": [table]}
    (tmp_path / "configs" / "settings.yaml").write_text(json.dumps(settings), encoding="utf-8")
    path = Path(shutil.copy(exported("activitysim")[0] / "land_use.csv", tmp_path / "data"))
    zones = reading.read_input_table(workflow.State.make_default(tmp_path), "land_use")
    assert zones["TOTEMP"].to_dict() == pd.read_csv(path, index_col="zone_id")["TOTEMP"].to_dict()


def test_activitysim_counts_who_works_outside(
    census_releases: Callable[[str], Release], tmp_path: Path
) -> None:
    release = census_releases("live or work")
    level = release.levels[0]
    release.export("activitysim", tmp_path, home_level=level)
    zones = pd.read_csv(tmp_path / "activitysim" / "land_use.csv", dtype={"code": "str"}).set_index("code")
    flows = release.flows(level)
    outside = release.areas(level).set_index("code")["external"]
    goes = flows[flows["work"].map(outside) & ~flows["home"].map(outside)].groupby("home")["S000"].sum()
    comes = flows[~flows["work"].map(outside) & flows["home"].map(outside)].groupby("work")["S000"].sum()
    assert zones["to_outside"].to_dict() == goes.reindex(zones.index, fill_value=0).to_dict()
    assert zones["from_outside"].to_dict() == comes.reindex(zones.index, fill_value=0).to_dict()
    assert goes.sum() > 0 < comes.sum()


def test_what_has_no_meaning_is_refused(public: Path, tmp_path: Path) -> None:
    for formats, options, words in (
        (["matsim", "csv"], {"seed": 3}, "csv: the format has no points of single workers"),
        (["omx"], {"sample": 0.1}, "omx: the format has no points of single workers"),
        (["matsim"], {"sample": 0}, "sample 0: it must be a share above 0"),
        (["trips"], {"seed": -1}, "seed -1: it must be a whole number from 0"),
        (["trips"], {"home_level": "cty"}, "trips: the format has blocks, and no other level"),
        (["activitysim"], {"home_level": "cty", "work_level": "trct"}, "activitysim: .* give one level"),
    ):
        with pytest.raises(ExportError, match=words):
            open_release(public).export(formats, tmp_path / "new", **options)
        assert not (tmp_path / "new").exists()
