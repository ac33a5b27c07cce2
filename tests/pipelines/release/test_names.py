"""Names of units in a release: configured, kept, verified, and never part of the plan."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import geo_data
import pipelines
import synth
from helpers import refused, seal_again
from pipelines import ConfigError, Release, resume, run, verify
from pipelines.release.layout import public_files
from pipelines.release.names import NAME_FILE, check_names, read_names, write_names
from pipelines.release.polygons import polygon_file
from pipelines.running import run as runs
from pipelines.views.labels import unit_names

Configs = Callable[..., pipelines.ReleaseConfig]
HOSTILE = '</script><img src=x onerror="x">, "quoted" & \'single\' $x$ {{ 1 }}'
NAMELESS: dict[str, object] = {"geography.names": {}}
NAMES: dict[str, object] = {"geography.names": {"trct": "trctname"}}
FROM_SHAPES = {"geography.polygons.0.name": "NAME"}


# --- configuration


def test_what_can_be_said(small_config: Configs) -> None:
    assert small_config().geography.names is None
    assert small_config(NAMELESS).geography.names == {}
    config = small_config(NAMES)
    assert config.geography.names == {"trct": "trctname"}
    assert config.public == small_config().public  # words for maps are no part of a plan


def test_faults(small_config: Configs) -> None:
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


# --- a run


def test_a_release_keeps_them(small_release: Release, small_region: dict[str, Path]) -> None:
    given = pd.read_csv(small_region["crosswalk"], dtype="str")
    public = pipelines.open_release(small_release.public)
    for level in ("st", "cty", "trct", "bgrp"):
        expected = given.drop_duplicates(level).set_index(level)[f"{level}name"]
        codes = public.geography.codes(level)
        assert public.names[level].tolist() == expected[codes].tolist()
    assert not public.names["tabblk2010"].any()
    assert f"- `{NAME_FILE}`: names of" in (small_release.public / "README.md").read_text(encoding="utf-8")
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
        latitude="lat",
        longitude="lon",
        external_zones=["W"],
    )
    write_names({"lad": np.full(geography.n_units("lad"), "", object)}, geography, tmp_path)
    assert pd.read_parquet(tmp_path / NAME_FILE).to_numpy().tolist() == [
        ["lad", "W9", "outside the region: W"]
    ]


def test_they_change_nothing_else(small_config: Configs, clean_source: object, frozen_day: None) -> None:
    """Neither the plan nor a worker, of a release that has none."""
    folders = [run(small_config(change), key=synth.RunKey.from_seed(1)).public for change in ({}, NAMELESS)]
    named, nameless = (
        {name: (folder / name).read_bytes() for name in public_files(folder)} for folder in folders
    )
    del named[NAME_FILE]
    records = {"croissant.json", "datapackage.json"}
    assert {name for name in named if named[name] != nameless[name]} == {"README.md", *records}
    assert NAME_FILE not in nameless
    assert NAME_FILE.encode() not in nameless["README.md"]
    assert refused(folders[1]).check == "for release"  # it was drawn with a key for tests
    assert not any(names.any() for names in pipelines.open_release(folders[1]).names.values())


def test_names_from_a_file_of_shapes(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "tracts.geojson"
    frame = gpd.read_file(small_region["tracts"]).sort_values("GEOID")
    frame.assign(NAME=[HOSTILE, *"ABCD", None]).to_file(path)
    config = small_config({"geography.polygons.0.file": path}, FROM_SHAPES)
    release = run(config, key=synth.RunKey.from_seed(1))
    public = pipelines.open_release(release.public)
    assert public.names["trct"].tolist() == [HOSTILE, *"ABCD", ""]  # instead of the crosswalk's
    assert public.names["cty"].all()


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
    "names are missing, blank or not on one line": [
        *(with_names(None), with_names(""), with_names("two\nlines"), with_names(" padded")),
    ],
}


def test_what_is_not_as_it_was_written_is_found(public_copy: Path) -> None:
    path = public_copy / NAME_FILE
    written = pq.read_table(path)
    for words, changes in HARM.items():
        for change in changes:
            pq.write_table(change(written), path)
            seal_again(public_copy)
            error = refused(public_copy)
            assert error.check == "names"
            assert words in str(error)


def test_names_that_were_taken_away_are_missed(public_copy: Path) -> None:
    (public_copy / NAME_FILE).unlink()
    assert f"files: {NAME_FILE} is missing" in str(refused(public_copy))
    seal_again(public_copy)
    assert "texts: README.md is not the text" in str(refused(public_copy))
