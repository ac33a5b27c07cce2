"""Names and polygons of units in a release: configured, checked, kept, verified, and never drawn from."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geo_data
import pipelines
import synth
from helpers import alone, refused, same_key, seal_again, words_of_release
from pipelines import ConfigError, Release, resume, run, verify
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.release.csv_tables import NAME_CSV
from pipelines.release.names import NAME_FILE, check_names, read_names, write_names
from pipelines.release.polygons import check_polygons, polygon_file, write_polygons
from pipelines.running import run as runs
from pipelines.views.labels import unit_names

Configs = Callable[..., pipelines.ReleaseConfig]
HOSTILE = '</script><img src=x onerror="x">, "quoted" & \'single\' $x$ {{ 1 }}'
NAMELESS: dict[str, object] = {"geography.names": {}}
NAMES: dict[str, object] = {"geography.names": {"trct": "trctname"}}
FROM_SHAPES = {"geography.polygons.0.name": "NAME"}
WITHOUT: dict[str, object] = {"geography.polygons": []}
NO_PLACES = {"geography.latitude": None, "geography.longitude": None}
TRACTS = {"level": "trct", "file": "tracts.geojson", "code": "GEOID"}
TRCT = polygon_file("trct")


# --- configuration


def test_what_can_be_said_of_names(small_config: Configs) -> None:
    assert small_config().geography.names is None
    assert small_config(NAMELESS).geography.names == {}
    config = small_config(NAMES)
    assert config.geography.names == {"trct": "trctname"}
    assert config.public == small_config().public  # words for maps are no part of a plan


def test_faults_of_names(small_config: Configs) -> None:
    for change, words in [
        ({"names": "trctname"}, 'geography.names: "trctname": Input should be a valid dictionary; write a'),
        ({"names": {"trct": 5}}, "geography.names.trct: 5: Input should be a valid string; write it in"),
        ({"names": {"trct": " "}}, 'geography.names.trct: " " is not allowed'),
        ({"names": {"tract": "trctname"}}, 'geography.names: "tract" is not a level of the geography'),
        ({"names": {"trct": "bgrp"}}, 'geography: "bgrp" is named 2 times'),
        ({"names": {"trct": "x", "cty": "x"}}, 'geography: "x" is named 2 times'),
        (
            {"names": {"bgrp": "x"}, "groupings": {"bgrp": 4}},
            'geography.names: "bgrp" is a grouping, whose units have no names',
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            small_config({f"geography.{name}": value for name, value in change.items()})
        assert any(words in problem for problem in caught.value.problems), caught.value


def test_names_from_two_files(small_config: Configs) -> None:
    assert small_config(FROM_SHAPES).public == small_config().public
    with pytest.raises(ConfigError, match=r'geography\.names: "trct" has names in geography\.polygons too'):
        small_config(NAMES, FROM_SHAPES)


def test_faults_of_polygons(small_config: Configs) -> None:
    for change, words in [
        ({"polygons.0.level": "tract"}, 'geography.polygons #1.level: "tract" is not a level'),
        ({"polygons.0.code": None}, "geography.polygons #1.code: missing; add a line code = ..."),
        ({"polygons.0.colour": "x"}, "the keys here are level, file, code"),
        (
            {"polygons.0.code": 5},
            "geography.polygons #1.code: 5: Input should be a valid string; write it in quotes",
        ),
        ({"polygons": {"level": "trct"}}, "write [[geography.polygons]] above its keys, in double"),
        ({"polygons": [5]}, "5: Input should be a table; write [[geography.polygons]] above its keys"),
        ({"code": "x"}, "it belongs to [[geography.polygons]]"),
        (
            {"polygons": [TRACTS, TRACTS]},
            'geography.polygons: "trct" has 2 tables; name one file for each level',
        ),
    ]:
        with pytest.raises(ConfigError) as caught:
            small_config({f"geography.{name}": value for name, value in change.items()})
        assert any(words in problem for problem in caught.value.problems), caught.value


def test_levels_are_told_from_the_configuration(small_config: Configs) -> None:
    assert small_config().geography.polygon_levels == ("trct",)
    assert small_config(WITHOUT).geography.polygon_levels == ()
    assert small_config(NO_PLACES).geography.polygon_levels == ("trct", "tabblk2010")


# --- a run


def test_a_release_keeps_names(small_release: Release, small_region: dict[str, Path]) -> None:
    given = pd.read_csv(small_region["crosswalk"], dtype="str")
    public = pipelines.open_release(small_release.public)
    for level in ("st", "cty", "trct", "bgrp"):
        expected = given.drop_duplicates(level).set_index(level)[f"{level}name"]
        codes = public.geography.codes(level)
        assert public.names[level].tolist() == expected[codes].tolist()
    assert not public.names["tabblk2010"].any()
    assert f"- `{NAME_FILE}`: names of" in words_of_release(small_release.public)
    manifest = json.loads((small_release.public / "MANIFEST.json").read_text(encoding="utf-8"))
    assert NAME_FILE in [entry["path"] for entry in manifest["files"]]
    checks = {check.name: check.detail for check in verify(small_release.public)}
    assert checks["names"] == "1 of 1 st, 2 of 2 cty, 6 of 6 trct, 6 of 6 bgrp"
    assert (small_release.public / NAME_FILE).stat().st_mode & 0o777 == 0o644


def test_external_zones_have_names(zoned_release: Release, tmp_path: Path) -> None:
    names = pd.read_parquet(zoned_release.public / NAME_FILE).set_index(["level", "code"])["name"]
    for level, code in (("st", "09"), ("cty", "09999"), ("trct", "09999999999")):
        assert names[level, code] == "Connecticut"
    frame = pd.DataFrame({"oa": ["E1", "E2"], "lad": ["L1", "L2"], "lat": [53.0, 54.0], "lon": [-1.0, -2.0]})
    frame.to_csv(tmp_path / "oa.csv", index=False)
    geography = geo_data.read_crosswalk(
        tmp_path / "oa.csv",
        block="oa",
        levels=["lad"],
        centroid=("lat", "lon"),
        external_zones=["W"],
    )
    for language, words in (("en", "outside the region"), ("de", "außerhalb der Region")):
        write_names({}, geography, tmp_path, language)
        assert pd.read_parquet(tmp_path / NAME_FILE).to_numpy().tolist() == [
            ["lad", "W9", f"{words}: W"],
            ["oa", "W9", f"{words}: W"],
        ]


def test_without_names_and_polygons_the_same_is_drawn(small_release: Release, small_config: Configs) -> None:
    bare = run(small_config(NAMELESS, WITHOUT), key=same_key()).public
    opened = pipelines.open_release(bare)
    assert opened.unit_flows("trct", "trct").equals(small_release.unit_flows("trct", "trct"))
    assert not any(names.any() for names in opened.names.values())
    readme = words_of_release(bare)
    assert not any((bare / name).exists() for name in (NAME_FILE, "geo"))
    assert not any(word in readme for word in (NAME_FILE, "shapes"))


def test_shapes_of_blocks_are_kept_and_names_come_from_a_file_of_shapes(
    small_config: Configs, small_region: dict[str, Path], clean_source: object, tmp_path: Path
) -> None:
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    points = gpd.points_from_xy(crosswalk["blklondd"], crosswalk["blklatdd"], crs="EPSG:4326")
    blocks, tracts = tmp_path / "blocks.parquet", tmp_path / "tracts.geojson"
    gpd.GeoDataFrame(crosswalk, geometry=shapely.buffer(points, 0.001), crs="EPSG:4326").to_parquet(blocks)
    frame = gpd.read_file(small_region["tracts"]).sort_values("GEOID")
    frame.assign(NAME=[HOSTILE, *"ABCD", None]).to_file(tracts)
    files: dict[str, object] = {"geography.file": blocks, "geography.polygons.0.file": tracts}
    public = pipelines.open_release(run(small_config(NO_PLACES, files, FROM_SHAPES)).public)
    shapes = public.polygons("tabblk2010")
    assert shapes is not None
    assert shapes["unit"].tolist() == list(range(120))
    assert public.polygons("trct") is not None
    assert public.polygons("cty") is None
    assert public.names["trct"].tolist() == [HOSTILE, *"ABCD", ""]  # instead of the crosswalk's
    assert public.names["cty"].all()
    assert alone(public.public) is None


def test_lines_of_the_read_me_map_jobs_where_finer_areas_alone_have_shapes(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    points = gpd.points_from_xy(crosswalk["blklondd"], crosswalk["blklatdd"], crs="EPSG:4326")
    blocks = tmp_path / "blocks.parquet"
    gpd.GeoDataFrame(crosswalk, geometry=shapely.buffer(points, 0.001), crs="EPSG:4326").to_parquet(blocks)
    release = run(small_config(NO_PLACES, WITHOUT, {"geography.file": blocks}))
    monkeypatch.chdir(release.public)
    (lines,) = re.findall(r"```python\n(.*?)```", words_of_release(release.public), re.DOTALL)
    found: dict[str, Any] = {}
    exec(lines, found)
    shapes = found["shapes"]
    jobs = release.flows("trct").groupby("work")["S000"].sum()
    assert shapes["jobs"].dropna().to_dict() == pytest.approx(jobs.to_dict())
    assert shapes.loc[crosswalk["trct"][0]].geometry.contains(points[0])


def test_a_missing_column_is_found_before_anything_confidential_is_read(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "keep_homes", lambda *_: pytest.fail("homes were read"))
    with pytest.raises(geo_data.InputError, match="missing columns: label"):
        run(small_config({"geography.names": {"trct": "label"}}))


def test_a_resumed_run_has_names_and_polygons_without_reading_them_again(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [Path(shutil.copy(small_region[name], tmp_path)) for name in ("crosswalk", "tracts")]
    config = small_config({"geography.file": files[0], "geography.polygons.0.file": files[1]})
    with monkeypatch.context() as patch:
        patch.setattr(runs, "write_public", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run(config, key=synth.RunKey.from_seed(1))
    for path in files:
        path.unlink()
    public = resume(config.release.out).public
    assert len(gpd.read_parquet(public / polygon_file("trct"))) == 6
    names = pipelines.open_release(public).names["cty"]
    assert names.tolist() == ["Centre County, DM", "Shore County 1, DM"]


def test_written_and_read_again(small_geography: geo_data.Geography, tmp_path: Path) -> None:
    names = {"trct": np.array([HOSTILE, "", "Mayagüez", "3", "a\u202eb", "x" * 500], object)}
    write_names(names, small_geography, tmp_path)
    read = read_names(tmp_path, small_geography)
    assert read["trct"].tolist() == names["trct"].tolist()
    assert [level for level, found in read.items() if found.any()] == ["trct"]
    assert check_names(tmp_path, small_geography) == "5 of 6 trct"


def test_what_is_of_no_unit_is_left_out(small_geography: geo_data.Geography, tmp_path: Path) -> None:
    """Before it is verified, a file may hold anything."""
    columns = {"level": ["cty", "cty", "none"], "code": ["99999", "03001", "1"], "name": ["a", None, "c"]}
    pq.write_table(pa.table(columns), tmp_path / NAME_FILE)
    assert not any(names.any() for names in read_names(tmp_path, small_geography).values())


def test_names_with_a_county_in_brackets_have_the_whole_name_of_it(small_release: Release) -> None:
    """So that a tract of Providence County is not taken for one of the city."""
    public = pipelines.open_release(small_release.public)
    of_tract = public.geography.unit_of("cty", public.geography.starts("trct"))
    for county, short, whole in (
        ("Providence County, RI", "118 (Providence, RI)", "118 (Providence County, RI)"),
        ("Providence County, RI", "0 (Tract 9902, Providence, RI)", "0 (Tract 9902, Providence County, RI)"),
        ("St. Mary Parish, LA", "401 (St. Mary, LA)", "401 (St. Mary Parish, LA)"),
        # Nothing that is not the county, and nothing twice
        ("Providence County, RI", "118 (Providence County, RI)", "118 (Providence County, RI)"),
        ("Providence County, RI", "118 (Provid, RI)", "118 (Provid, RI)"),
        ("Providence County, RI", "118 (Kent, RI)", "118 (Kent, RI)"),
        ("Providence County, RI", "118 (Providence, MA)", "118 (Providence, MA)"),
        ("Providence County, RI", "Providence, RI", "Providence, RI"),
        ("", "118 (Providence, RI)", "118 (Providence, RI)"),
        ("Providence County, RI", "", ""),
    ):
        public.names["cty"][:], public.names["trct"][:] = county, short
        assert unit_names(public, "trct").tolist() == [whole] * of_tract.size
        assert unit_names(public, "trct", np.array([1])).tolist() == [whole]
        assert set(public.names["trct"]) == {short}  # the file says what it says


def test_states_have_names_of_their_own(small_release: Release) -> None:
    """Of external zones too; but what the crosswalk says comes first."""
    public = pipelines.open_release(small_release.public)
    assert unit_names(public, "st").tolist() == ["Demo State"]
    public.names["st"][:] = ""
    assert unit_names(public, "st").tolist() == [""]  # 03 is no state
    assert unit_names(public, "cty").tolist() == public.names["cty"].tolist()


def test_a_release_keeps_polygons(small_release: Release, small_region: dict[str, Path]) -> None:
    kept = gpd.read_parquet(small_release.public / TRCT)
    given = gpd.read_file(small_region["tracts"]).sort_values("GEOID", ignore_index=True)
    assert kept.crs == "EPSG:4326"
    assert kept["trct"].tolist() == given["GEOID"].tolist()
    assert shapely.equals(kept.geometry.to_numpy(), given.geometry.to_numpy()).all()
    readme = words_of_release(small_release.public)
    assert f"- `{TRCT}`: shapes of public units, for maps" in readme
    manifest = json.loads((small_release.public / "MANIFEST.json").read_text(encoding="utf-8"))
    assert TRCT in [entry["path"] for entry in manifest["files"]]
    checks = {check.name: check.detail for check in verify(small_release.public)}
    assert checks["polygons"] == "6 of 6 trct"
    assert (small_release.public / "geo").stat().st_mode & 0o777 == 0o755
    assert (small_release.public / TRCT).stat().st_mode & 0o777 == 0o644


def test_notes_are_published_with_the_plan(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "five.geojson"
    gpd.read_file(small_region["tracts"]).iloc[1:].to_file(path)
    config = small_config({"geography.polygons.0.file": path})
    assert "five.geojson: 1 unit of trct has no shape, of 6" in read_public_inputs(config).notes


def test_they_are_checked_before_anything_confidential_is_read(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = gpd.read_file(small_region["tracts"])
    path = tmp_path / "bad.geojson"
    frame.assign(GEOID=frame["GEOID"].str.lstrip("0")).to_file(path)
    config = small_config({"geography.polygons.0.file": path})
    monkeypatch.setattr(runs, "keep_homes", lambda *_: pytest.fail("homes were read"))
    with pytest.raises(geo_data.InputError, match="6 rows have trct codes that lost"):
        run(config)
    assert not list(config.release.out.parent.iterdir())
    with pytest.raises(geo_data.InputError, match="6 rows have trct codes that lost"):
        read_public_inputs(config)  # so that `odsynth plan` says it too


# --- verification


def with_names(*names: str | None) -> Callable[[pa.Table], pa.Table]:
    """The first names are others."""
    return lambda t: t.set_column(2, "name", pa.array([*names, *t["name"].to_pylist()[len(names) :]]))


HARM: dict[str, list[Callable[[pa.Table], pa.Table]]] = {
    "columns are not level, code, name": [
        lambda t: t.rename_columns(["level", "code", "words"]),
        lambda t: t.append_column("note", t["name"]),
    ],
    "column name is of another type": [lambda t: t.set_column(2, "name", pa.array(range(len(t))))],
    "the file has notes of its own": [lambda t: t.replace_schema_metadata({"note": "x"})],
    "it is empty": [lambda t: t.slice(0, 0)],
    "levels are not those of the geography": [
        lambda t: t.set_column(0, "level", pa.array(["x"] * len(t))),
        lambda t: t.take(list(range(len(t)))[::-1]),
    ],
    "codes are not units of cty, each once and in order": [
        lambda t: t.take([0, 2, 1, *range(3, len(t))]),
        lambda t: t.take([0, 1, 1, *range(2, len(t))]),
    ],
    "codes are not units of st": [lambda t: t.set_column(1, "code", pa.array(["x"] * len(t)))],
    "names are missing, blank, not on one line or begin like a formula": [
        *(
            with_names(None),
            with_names(""),
            with_names("two\nlines"),
            with_names(" padded"),
            with_names("=1+1"),
        ),
    ],
}


def test_what_is_not_as_it_was_written_is_found(
    small_release: Release, small_geography: geo_data.Geography, tmp_path: Path
) -> None:
    written = pq.read_table(small_release.public / NAME_FILE)
    for words, changes in HARM.items():
        for change in changes:
            pq.write_table(change(written), tmp_path / NAME_FILE)
            with pytest.raises(ValueError, match=words):
                check_names(tmp_path, small_geography)


def test_names_that_were_taken_away_are_missed(public_copy: Path) -> None:
    (public_copy / NAME_FILE).unlink()
    assert f"files: {NAME_FILE} is missing" in str(refused(public_copy))
    seal_again(public_copy)
    assert f"texts: files are missing, or do not belong to a release of this kind: {NAME_CSV}" in str(
        refused(public_copy)
    )
    (public_copy / NAME_CSV).unlink()
    seal_again(public_copy)
    assert "texts: README.md is not the text" in str(refused(public_copy))


# --- verification of polygons

BOW_TIE = shapely.Polygon([(-40, 40), (-39, 41), (-39, 40), (-40, 41)])


def first(shape: shapely.Geometry) -> Callable[[gpd.GeoDataFrame], gpd.GeoDataFrame]:
    """The first shape is another."""
    return lambda f: f.set_geometry([shape, *f.geometry[1:]], crs=f.crs)


HARM_OF_SHAPES: dict[str, list[Callable[[gpd.GeoDataFrame], gpd.GeoDataFrame]]] = {
    "codes are not units of trct, each once and in order": [
        lambda f: f.assign(trct=f["trct"].str[1:]),
        lambda f: f.assign(trct=f["trct"].iloc[0]),
        lambda f: f.iloc[::-1],
    ],
    "shapes are not valid polygons": [first(BOW_TIE), first(shapely.Point(0, 0)), first(shapely.Polygon())],
}


def test_shapes_that_maps_cannot_rely_on(
    small_release: Release, small_geography: geo_data.Geography, tmp_path: Path
) -> None:
    written = gpd.read_parquet(small_release.public / TRCT)
    for words, changes in HARM_OF_SHAPES.items():
        for change in changes:
            write_polygons({"trct": change(written)}, tmp_path)
            with pytest.raises(ValueError, match=words):
                check_polygons(tmp_path, small_geography, ("trct",))


def test_what_geopandas_writes_by_itself_is_refused(
    small_release: Release, small_geography: geo_data.Geography, tmp_path: Path
) -> None:
    """Its notes are those of several libraries; and another reference system, or column, is no map's."""
    written = gpd.read_parquet(small_release.public / TRCT)
    (tmp_path / TRCT).parent.mkdir()
    for frame, words in (
        (written.assign(note="x"), "columns are not trct, geometry"),
        (written, "has notes of its own"),
        (written.to_crs("EPSG:6933"), "has notes of its own"),
        (written.assign(secret="lives here").set_index("secret"), "columns are not trct, geometry"),
        (written.set_geometry(shapely.force_3d(written.geometry.array, 7.0)), "has notes of its own"),
    ):
        frame.to_parquet(tmp_path / TRCT)
        with pytest.raises(ValueError, match=words):
            check_polygons(tmp_path, small_geography, ("trct",))


def noted(change: Callable[[dict[str, object], dict[str, object]], None]) -> Callable[[pa.Table], pa.Table]:
    """The notes of GeoParquet, and in them those of the shapes, are others."""

    def other(table: pa.Table) -> pa.Table:
        geo = json.loads(table.schema.metadata[b"geo"])
        change(geo, geo["columns"]["geometry"])
        return table.replace_schema_metadata({"geo": json.dumps(geo)})

    return other


NOTES: list[Callable[[pa.Table], pa.Table]] = [
    noted(lambda _, shapes: shapes.pop("crs") and None),
    noted(lambda _, shapes: shapes.update(crs={**shapes["crs"], "area": "where they live"})),  # type: ignore[dict-item]
    noted(lambda _, shapes: shapes.update(bbox=[-180.0, -90.0, 180.0, 90.0])),
    noted(lambda _, shapes: shapes.update(geometry_types=[])),
    noted(lambda geo, _: geo.update(creator="where they live")),
    lambda table: table.replace_schema_metadata(None),
    lambda table: table.replace_schema_metadata({**table.schema.metadata, "ARROW:schema": "where they live"}),
    lambda table: table.replace_schema_metadata(
        {"geo": table.schema.metadata[b"geo"].replace(b'"WGS 84"', b'"WGS  84"')}
    ),
    lambda table: table.set_column(0, "trct", table["trct"].cast(pa.string())),
    lambda table: table.cast(
        pa.schema([field.with_nullable(False) for field in table.schema], table.schema.metadata)
    ),
    lambda table: table.cast(
        pa.schema(
            [table.schema.field(0), table.schema.field(1).with_metadata({"ARROW:extension:name": "home"})],
            table.schema.metadata,
        )
    ),
]


def test_notes_that_do_not_follow_from_the_shapes(
    small_release: Release, small_geography: geo_data.Geography, tmp_path: Path
) -> None:
    written = pq.read_table(small_release.public / TRCT)
    (tmp_path / TRCT).parent.mkdir()
    for change in NOTES:
        pq.write_table(change(written), tmp_path / TRCT, compression="zstd")
        with pytest.raises((ValueError, pa.ArrowInvalid)):
            check_polygons(tmp_path, small_geography, ("trct",))


def test_what_verify_says_of_polygons(public_copy: Path) -> None:
    path = public_copy / TRCT
    written = gpd.read_parquet(path)
    pq.write_table(pq.read_table(path), path, compression="zstd", use_dictionary=False)
    seal_again(public_copy)
    assert refused(public_copy).check == "bytes"
    path.write_text("shapes", encoding="utf-8")
    seal_again(public_copy)
    assert "polygons: cannot be checked" in str(refused(public_copy))
    write_polygons({"trct": written.iloc[2:]}, public_copy)
    seal_again(public_copy)
    assert "4 of 6 trct" in [check.detail for check in verify(public_copy)]
