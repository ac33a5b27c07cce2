"""A release, opened: flows at every pair of levels, jobs, areas, meanings; against plain pandas."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pyogrio
import pytest

import pipelines
import synth
from geo_data.distance import distance_km
from helpers import edit_json, with_values
from pipelines import PublicReleaseError, Release, open_release
from pipelines.plans.form import PLAN_FORMAT
from pipelines.release.description import file_names
from pipelines.views import flows as flow_reader
from pipelines.views.flows import add_travel
from pipelines.views.labels import unit_names

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "data-users.md"
LEVELS = ("st", "cty", "trct", "bgrp", "tabblk2010")
CODES = {"w_geocode": "str", "h_geocode": "str"}
LENGTH = dict(zip(LEVELS, (2, 5, 11, 12, 15), strict=True))  # the levels of the demo region are prefixes


@pytest.fixture(scope="module")
def with_aux(zoned_release: Release) -> Release:
    return open_release(zoned_release.public)


def table(release: Release, kind: str = "od") -> pd.DataFrame:
    """The rows as anybody reads them: from the csv.gz."""
    name = file_names(release.config)[f"{kind}_csv"]
    return pd.read_csv(release.public / name, dtype=CODES)


def plain(rows: pd.DataFrame, home_level: str, work_level: str, counts: list[str]) -> pd.DataFrame:
    """Flows by the prefixes of codes."""
    keys = {
        "work": rows["w_geocode"].str[: LENGTH[work_level]],
        "home": rows["h_geocode"].str[: LENGTH[home_level]],
    }
    return rows[counts].groupby(list(keys.values())).sum().rename_axis(list(keys)).reset_index()


def named(release: Release, flows: pd.DataFrame, home_level: str, work_level: str) -> pd.DataFrame:
    """Flows with codes in place of numbers, in the order of codes."""
    codes = {"work": release.geography.codes(work_level), "home": release.geography.codes(home_level)}
    words = flows.assign(**{end: pd.Series(codes[end][flows[end]], dtype="str") for end in codes})
    return words.sort_values(["work", "home"], ignore_index=True)


# --- flows


def test_flows_are_those_of_the_csv(release: Release) -> None:
    counts, rows = ["S000", "SE03"], table(release)
    for home_level, work_level in itertools.product(("st", "trct", "tabblk2010"), repeat=2):
        flows = release.unit_flows(home_level, work_level, counts)
        assert list(flows.columns) == ["work", "home", *counts]
        assert flows[["work", "home"]].dtypes.eq(np.int32).all()
        assert flows[counts].dtypes.eq(np.int64).all()
        assert flows["S000"].sum() == 600
        pd.testing.assert_frame_equal(flows, flows.sort_values(["work", "home"], ignore_index=True))
        expected = plain(rows, home_level, work_level, counts)
        pd.testing.assert_frame_equal(named(release, flows, home_level, work_level), expected)


def test_row_groups_add_up(release: Release, public_copy: Path) -> None:
    path = public_copy / file_names(release.config)["od_parquet"]
    whole = pq.read_table(path)
    for table, rows in ((whole[:30], 1), (whole, 20)):
        pq.write_table(table, path, row_group_size=len(table))
        at_once = release if table is whole else open_release(public_copy)
        expected = {
            levels: at_once.unit_flows(*levels) for levels in (("trct", "trct"), ("tabblk2010", "st"))
        }
        pq.write_table(table, path, row_group_size=rows)
        assert pq.ParquetFile(path).num_row_groups == -(-len(table) // rows)
        again = open_release(public_copy)
        for levels, flows in expected.items():
            pd.testing.assert_frame_equal(again.unit_flows(*levels), flows)


def test_a_folder_of_parts_is_read_like_a_file(release: Release, public_copy: Path) -> None:
    path = public_copy / file_names(release.config)["od_parquet"]
    whole = pq.read_table(path)
    path.unlink()
    path.mkdir()
    for part, start in enumerate(range(0, len(whole), 60)):
        pq.write_table(whole.slice(start, 60), path / f"part-{part:03}.parquet", row_group_size=25)
    assert len(list(path.iterdir())) >= 5
    again = open_release(public_copy)
    for levels in itertools.product(("cty", "tabblk2010"), repeat=2):
        pd.testing.assert_frame_equal(again.unit_flows(*levels), release.unit_flows(*levels))


@pytest.mark.parametrize(("rows", "levels"), [(10, ("trct", "tabblk2010")), (40, ("tabblk2010", "trct"))])
def test_batches_of_flows(
    rows: int,
    levels: tuple[str, str],
    with_aux: Release,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A work unit is in one batch, and no more is read than what comes next."""
    monkeypatch.setattr(flow_reader, "_AT_ONCE", 1)
    folder = Path(shutil.copytree(with_aux.public, tmp_path / "public"))
    for kind in ("od", "aux"):
        path = folder / file_names(with_aux.config)[f"{kind}_parquet"]
        pq.write_table(pq.read_table(path), path, row_group_size=rows)
    release = open_release(folder)
    add, read = flow_reader._flows_of, []

    def noted(*arguments: Any) -> pd.DataFrame:
        read.append(add(*arguments))
        return read[-1]

    monkeypatch.setattr(flow_reader, "_flows_of", noted)
    batches, waiting = [], []
    for batch in release.flow_batches(*levels):
        batches.append(batch)
        reached = batch["work"].max() if len(batch) else np.inf
        waiting.append(sum((table["work"] > reached).any() for table in read))
    assert max(waiting) <= 2, "groups that were read long before they are needed"
    assert len(batches) >= 5
    ends = [(batch["work"].min(), batch["work"].max()) for batch in batches if len(batch)]
    assert all(last < first for (_, last), (first, _) in itertools.pairwise(ends))
    pd.testing.assert_frame_equal(pd.concat(batches, ignore_index=True), with_aux.unit_flows(*levels))


def test_rows_in_another_order_are_refused(release: Release, public_copy: Path) -> None:
    """Flows to a unit would be in two batches."""
    path = public_copy / file_names(release.config)["od_parquet"]
    whole = pq.read_table(path)
    pq.write_table(whole.take(np.arange(len(whole))[::-1]), path, row_group_size=50)
    with pytest.raises(PublicReleaseError, match="main rows are not in the order of their work blocks"):
        open_release(public_copy).unit_flows("trct", "trct")


def test_workers_from_outside_are_counted_with_the_others(with_aux: Release) -> None:
    assert list(with_aux.rows) == ["main", "aux"]
    main, aux = table(with_aux), table(with_aux, "aux")
    assert len(aux) > 0
    for kinds, rows in (((), pd.concat([main, aux])), (("main",), main), (("aux",), aux)):
        flows = with_aux.unit_flows("cty", "trct", kinds=kinds)
        keys = [rows["w_geocode"].str[:11], rows["h_geocode"].str[:5]]
        expected = rows["S000"].groupby(keys).sum().rename_axis(["work", "home"]).reset_index()
        pd.testing.assert_frame_equal(named(with_aux, flows, "cty", "trct"), expected)
    assert set(aux["h_geocode"].str[:5]) <= {"09999", "25999"}


def test_nobody_from_outside(with_aux: Release, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(with_aux.public, tmp_path / "public"))
    path = folder / file_names(with_aux.config)["aux_parquet"]
    pq.write_table(pq.read_schema(path).empty_table(), path)
    release = open_release(folder)
    none = release.unit_flows("trct", "trct", ["S000", "SA01"], kinds=["aux"])
    assert none.empty
    assert none.dtypes.astype(str).to_dict() == {
        "work": "int32",
        "home": "int32",
        "S000": "int64",
        "SA01": "int64",
    }
    main = with_aux.unit_flows("trct", "trct", kinds=["main"])
    pd.testing.assert_frame_equal(release.unit_flows("trct", "trct"), main)


def test_levels_need_no_prefixes(british_release: Release) -> None:
    made = open_release(british_release.public)
    assert made.levels == ("lad", "msoa", "lsoa", "oa")
    crosswalk = pd.read_csv(made.out.parent / "oa.csv", dtype="str").set_index("oa")
    rows = table(made)
    keys = [rows["w_geocode"].map(crosswalk["msoa"]), rows["h_geocode"].map(crosswalk["lad"])]
    expected = rows["S000"].groupby(keys).sum().rename_axis(["work", "home"]).reset_index()
    pd.testing.assert_frame_equal(named(made, made.unit_flows("lad", "msoa"), "lad", "msoa"), expected)


def test_distance_and_directions() -> None:
    places = pd.DataFrame({"latitude": [53.8, 53.9, np.nan], "longitude": [-1.5, -1.5, np.nan]})
    flows = pd.DataFrame({"work": [0, 1, 0, 0], "home": [1, 0, 0, 2], "jobs": [4, 3, 2, 1]}, dtype="int32")
    travel = add_travel(flows, places, places)
    assert travel["jobs"].tolist() == [4, 3, 2, 1]
    tenth = distance_km(53.8, -1.5, 53.9, -1.5)
    np.testing.assert_allclose(travel["km"], [tenth, tenth, 0, np.nan])
    np.testing.assert_allclose(travel["to_home"], [0, 180, np.nan, np.nan])
    np.testing.assert_allclose(travel["to_work"], [180, 0, np.nan, np.nan])


# --- what is known of units and counts


def test_a_release_says_what_it_has(release: Release, small_release: Release) -> None:
    assert release.levels == LEVELS
    assert release.certificate == small_release.certificate
    assert release.plan_document["format"] == PLAN_FORMAT
    assert release.categories == small_release.plan.pools.slots.categories
    assert list(release.rows) == ["main"]
    assert release.rows["main"].schema.names == ["w_geocode", "h_geocode", *release.counts, "createdate"]


def test_places_are_the_means_of_their_blocks(release: Release, small_region: dict[str, Path]) -> None:
    blocks = pd.read_csv(small_region["crosswalk"], dtype="str")
    for level in LEVELS:
        expected = blocks[["blklatdd", "blklondd"]].astype(float).groupby(blocks[level]).mean()
        places = release.places(level)
        assert places["code"].tolist() == expected.index.tolist() == release.geography.codes(level).tolist()
        assert places.index.tolist() == list(range(len(expected)))
        np.testing.assert_allclose(places["latitude"], expected["blklatdd"])
        np.testing.assert_allclose(places["longitude"], expected["blklondd"])


def test_places_across_the_antimeridian(release: Release) -> None:
    """As in the far west of Alaska: a mean of 173 E and 177 W is not near Greenwich."""
    near = release.geography
    shift = 180 - near.longitude.mean()
    there = near.longitude + shift
    geography = replace(near, longitude=np.where(there > 180, there - 360, there))
    assert np.ptp(geography.longitude) > 350
    far = Release(release.public)
    vars(far)["geography"] = geography
    for level in LEVELS:
        moved = far.places(level)["longitude"] - release.places(level)["longitude"] - shift
        np.testing.assert_allclose(moved % 360, moved.iloc[0] % 360, atol=1e-9)
        assert np.ptp(moved) < 1e-9  # all go on from one another
    extent, before = far.description.extent, release.description.extent
    assert extent is not None
    assert before is not None
    assert extent[2] - extent[0] == pytest.approx(before[2] - before[0])
    assert (extent[1], extent[3]) == (before[1], before[3])


def test_outside_areas_have_no_place(with_aux: Release) -> None:
    for level in LEVELS:
        places = with_aux.places(level).set_index("code")
        outside = [code for code in places.index if code.startswith(("09", "25"))]
        assert len(outside) == 2
        assert places.loc[outside].isna().all(axis=None)
        assert places.drop(outside).notna().all(axis=None)


def test_lodes_counts_have_their_meaning(release: Release) -> None:
    assert list(release.counts) == [
        c for c in table(release).columns if c not in ("w_geocode", "h_geocode", "createdate")
    ]
    assert release.counts["S000"] == "all jobs"
    assert release.counts["SE03"] == "earnings of more than 3,333 dollars a month"


def test_other_counts_are_told_from_attribute_and_category(
    small_config: Callable[..., pipelines.ReleaseConfig], microdata_jobs: Callable[..., object]
) -> None:
    labels = {"old": "55 or more"}
    meant = {"name": "age", "meaning": "age of the worker", "unit": "years", "labels": labels}
    about = {"release.publisher": "An office", "release.contact": "data@example.org", "attribute": [meant]}
    config = small_config(microdata_jobs("parquet"), about)
    made = open_release(pipelines.run(config, key=synth.RunKey.from_seed(1)).public)
    assert set(made.categories["age"]) == {"young", "middle", "old"}
    assert made.counts["age_old"] == "jobs whose age of the worker is 55 or more years"
    assert made.counts["age_young"] == "jobs whose age of the worker is young"
    assert made.counts["sector_field"] == "jobs whose sector is field"
    said = made.description
    assert (said.publisher, said.contact, said.licence) == ("An office", "data@example.org", None)
    assert said.citation.startswith("An office: Demo region 2019, all jobs. Synthetic data ")
    (age,) = (column for column in said.table("workers").columns if column.name == "age")
    assert age.unit == "years"
    assert age.labels == {"middle": "middle", "old": "55 or more", "young": "young"}
    rows = table(made)
    assert [*made.counts] == [c for c in rows.columns if c not in ("w_geocode", "h_geocode", "createdate")]
    flows = made.unit_flows("cty", "cty", ["age_old", "sector_field"])
    pd.testing.assert_frame_equal(
        named(made, flows, "cty", "cty"), plain(rows, "cty", "cty", ["age_old", "sector_field"])
    )


def test_shapes_are_numbered_like_units(release: Release) -> None:
    shapes = release.polygons("trct")
    assert shapes is not None
    assert shapes.crs == "EPSG:4326"
    assert shapes["unit"].tolist() == list(range(6))
    places = release.places("trct")
    inside = shapes.contains(
        type(shapes.geometry).from_xy(places["longitude"], places["latitude"], crs="EPSG:4326")
    )
    assert inside.all()
    assert release.polygons("bgrp") is None


# --- errors


def test_a_folder_that_is_no_release(public_copy: Path) -> None:
    for name in ("plan/plan.json", "certificate.json"):
        (public_copy / name).unlink()
        with pytest.raises(
            PublicReleaseError, match=rf"there is no {Path(name).name}. Fix: name the public folder"
        ):
            open_release(public_copy)


def test_a_certificate_cannot_name_a_place_to_write_to(public_copy: Path, tmp_path: Path) -> None:
    """Exports have the state in their names; the release may not have been verified."""
    edit_json(public_copy / "certificate.json", lambda c: c["release"].update(state=str(tmp_path / "evil")))
    with pytest.raises(PublicReleaseError, match="not a certificate of this program"):
        open_release(public_copy).export(["csv"], tmp_path / "exports")
    assert not list(tmp_path.glob("evil*"))


def test_a_plan_of_another_release(public_copy: Path) -> None:
    """The state in the plan names the files that are read."""
    path = public_copy / "plan" / "plan.json"
    whole = path.read_text(encoding="utf-8")
    for key, value in {"state": "other", "job_type": "JT01", "year": 2018, "name": "Another"}.items():
        path.write_text(whole, encoding="utf-8")
        edit_json(path, lambda p, new={key: value}: p["configuration"]["release"].update(new))
        with pytest.raises(
            PublicReleaseError, match=rf"{key} of the release is not that of certificate\.json"
        ):
            open_release(public_copy)


def test_levels_cannot_name_another_folder(public_copy: Path) -> None:
    path, blocks = public_copy / "plan" / "plan.json", public_copy / "plan" / "blocks.parquet"
    whole, table = json.loads(path.read_text(encoding="utf-8")), pq.read_table(blocks)
    for key, old in (("geography.levels.2", "trct"), ("geography.block", "tabblk2010")):
        for name in ("../trct", "a/b", "a\\b", "a\0b", ".hidden"):
            path.write_text(json.dumps(with_values(whole, {key: name})), encoding="utf-8")
            pq.write_table(
                table.rename_columns([name if c == old else c for c in table.column_names]), blocks
            )
            with pytest.raises(PublicReleaseError, match="cannot name a level: files are named after levels"):
                open_release(public_copy)


def test_rows_of_another_geography(public_copy: Path, release: Release, tmp_path: Path) -> None:
    path = public_copy / file_names(release.config)["od_parquet"]
    rows = pq.read_table(path).to_pandas()
    rows.loc[0, "h_geocode"] = "440070001011000"
    rows.to_parquet(path, index=False)
    with pytest.raises(PublicReleaseError, match="blocks that are not in the plan's geography") as caught:
        open_release(public_copy).unit_flows("trct", "trct")
    assert "44007" not in str(caught.value)


def test_nothing_but_the_public_folder_is_read(small_release: Release, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(small_release.public, tmp_path / "elsewhere"))
    assert open_release(moved).unit_flows("st", "st")["S000"].tolist() == [600]


# --- tables


def test_tables_are_those_of_the_release(small_release: Release) -> None:
    release = open_release(str(small_release.out))
    assert release.levels == open_release(small_release.public).levels
    assert (release.out, release.name, release.year) == (
        small_release.out,
        "Demo region 2019, all jobs",
        2019,
    )
    jobs = release.jobs()
    assert len(jobs) == release.certificate.totals.synthetic_workers
    rows = pd.concat([rows.to_table().to_pandas() for rows in release.rows.values()])
    expected = rows.groupby(["w_geocode", "h_geocode"])["S000"].sum()
    assert jobs.groupby(["work", "home"]).size().to_dict() == expected[expected > 0].to_dict()
    assert release.flows("cty").equals(release.flows("cty", "cty"))
    for level in release.levels:
        shapes = release.shapes(level)
        pd.testing.assert_frame_equal(pd.DataFrame(shapes.drop(columns="geometry")), release.areas(level))
        assert list(shapes["code"]) == list(release.geography.codes(level))
        assert (shapes.geometry.isna() == shapes["external"]).all()
        polygons = release.polygons(level)
        if polygons is not None:
            placed = shapes[~shapes["external"]]
            assert placed.geometry.geom_equals(polygons.set_index("unit").geometry).all()
    assert shapes.crs == "EPSG:4326"


def test_the_public_folder_stays_as_it_was_checked(public_copy: Path, tmp_path: Path) -> None:
    link, release = tmp_path / "link", open_release(public_copy)
    link.symlink_to(public_copy, target_is_directory=True)
    before = sorted(public_copy.rglob("*"))
    writers: tuple[Callable[[Path], object], ...] = (
        lambda to: release.map(to / "map.html"),
        lambda to: release.figure(to / "figure.svg"),
        lambda to: release.export("csv", to / "exports"),
    )
    places = (public_copy, link, public_copy / "geo", public_copy / "new" / ".." / "plan")
    for write, place in itertools.product(writers, places):
        with pytest.raises(PublicReleaseError, match="would make odsynth verify fail"):
            write(place)
    assert sorted(public_copy.rglob("*")) == before


def test_flows_of_an_area_are_its_part_of_all_flows(release: Release) -> None:
    block = release.levels[-1]
    flows = release.unit_flows(block, block, ["SE01"])
    for level, side in itertools.product(release.levels, ("work", "home")):
        busiest = release.geography.unit_of(level, flows["work"]).max()
        area = release.find_area(str(release.geography.codes(level)[busiest]))
        assert (area.level, area.unit) == (level, busiest)
        inside = flows[release.geography.unit_of(level, flows[side]) == busiest].reset_index(drop=True)
        assert len(inside) or level == block
        pd.testing.assert_frame_equal(release.unit_flows(block, block, ["SE01"], areas={side: area}), inside)
        assert len(release.flows(block, counts="SE01", **{side: area.code})) == len(inside)


def test_implicates_differ(small_config: Callable[..., pipelines.ReleaseConfig]) -> None:
    made = pipelines.run(small_config({"release.implicates": 2}))
    first, second = (open_release(made.out, number) for number in (1, 2))
    assert not first.jobs().equals(second.jobs())
    assert not first.flows("trct").equals(second.flows("trct"))


def test_what_there_is_not(small_release: Release, tmp_path: Path) -> None:
    release = open_release(small_release.out)
    tract, county = (str(release.geography.codes(level)[0]) for level in ("trct", "cty"))
    name, few = unit_names(release, "cty")[0], tract.lstrip("0")
    other, closed = "https://data.example.org/other", "http://127.0.0.1:1/releases/a/b"
    for call, message in (
        (lambda: open_release(tmp_path), "there is no certificate.json"),
        (lambda: open_release(small_release.out, 2), "there is no implicate 2"),
        (lambda: release.flows("nowhere"), "there is no level 'nowhere'"),
        (lambda: release.flows("cty", counts="S999"), "there is no count 'S999'; there are: S000"),
        (lambda: release.flows("cty", kinds="aux"), "there is no kind of rows 'aux'; there are: main"),
        (lambda: release.flows("cty", home="nowhere"), "at any level (st, cty, trct, bgrp, tabblk2010)"),
        (lambda: release.flows("cty", home=few), f"Fix: name it by its code: {tract} ("),
        (
            lambda: release.flows("cty", work=name),
            f"not the code of an area. Fix: name it by its code: {county}",
        ),
        (lambda: release.shapes("nowhere"), "there is no level 'nowhere'"),
        (lambda: open_release(other), "this is not the address of a version"),
        (lambda: open_release(closed, cache=tmp_path), "does not answer"),
    ):
        with pytest.raises(PublicReleaseError, match=re.escape(message)):
            call()


def _stay_in_one_county(release: Release) -> list[float]:
    """Return the percentage of those who live and work in one county, and the ends of its interval."""
    draws = pd.read_parquet(release.public / "intervals.parquet")
    pairs = draws[draws["table"] == "trct to trct"]
    counts = pairs.filter(like="draw_")
    one_county = pairs["home"].str[: LENGTH["cty"]] == pairs["work"].str[: LENGTH["cty"]]
    share = 100 * counts[one_county].sum() / counts.sum()
    return [share.mean(), share.min(), share.max()]


def test_the_examples_of_the_document_run(small_release: Release, tmp_path: Path) -> None:
    """Those for pandas, for Python and for DuckDB, on a folder instead of an address."""
    text = DOCUMENT.read_text()
    # The last is asked of the service in its tests.
    pandas, shapes, rows, python, without = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert 'open_release("https://' in python
    assert "import geopandas" in without
    (tmp_path / "public").symlink_to(small_release.public.resolve())
    for code in (pandas + shapes + rows + "print(flows.sum())", pandas):
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if code is pandas:
            found = [float(number) for number in done.stdout.split(":")[-1].split()]
            assert found == pytest.approx(_stay_in_one_county(small_release))
        else:
            assert done.stdout.split()[-1] == str(small_release.certificate.totals.synthetic_workers)
    residents = pyogrio.read_dataframe(tmp_path / "residents.gpkg")
    assert residents["estimate"].sum() > 0
    assert residents.geometry.notna().all()
    code = re.sub(r'"https://[^"]+"', repr(str(small_release.out)), python)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (sql,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    folder = re.sub("'public/", f"'{small_release.public}/", sql)
    flows, stay, _ = folder.split(";")
    with duckdb.connect() as connection:
        largest = connection.sql(flows).df()
        (found,) = connection.sql(stay).fetchall()
    assert largest["home"].str.len().eq(LENGTH["trct"]).all()
    assert largest["estimate"].is_monotonic_decreasing
    workers = small_release.certificate.totals.synthetic_workers
    assert [100 * number / workers for number in found] == pytest.approx(_stay_in_one_county(small_release))
    (copy,) = re.findall(r"`(COPY .*?;)`", text)
    with duckdb.connect() as connection:
        connection.sql(
            copy.replace("'public/", f"'{small_release.public}/").replace("'inter", f"'{tmp_path}/inter")
        )
    draws = pd.read_parquet(small_release.public / "intervals.parquet")
    texts = dict.fromkeys(draws.select_dtypes(exclude="number"), "str")
    again = pd.read_csv(tmp_path / "intervals.csv", dtype=texts)
    pd.testing.assert_frame_equal(again, draws, check_dtype=False)


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="Rscript is not on the PATH")
def test_the_r_of_the_document_runs(small_release: Release, tmp_path: Path) -> None:
    (tmp_path / "public").symlink_to(small_release.public.resolve())
    small_release.export("csv", tmp_path / "exports")
    flows, sums, rows = re.findall(r"```r\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    printed = []
    for code in (flows + sums, flows + sums + rows + 'cat("", sum(flows$S000), "\\n")\n'):
        script = tmp_path / "example.R"
        script.write_text(code)
        done = subprocess.run(["Rscript", script.name], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    found = [float(number) for number in printed[0].split(":")[-1].split()]
    assert found == pytest.approx(_stay_in_one_county(small_release), rel=1e-4)  # R prints 7 digits
    assert printed[1].split()[-1] == str(small_release.certificate.totals.synthetic_workers)
