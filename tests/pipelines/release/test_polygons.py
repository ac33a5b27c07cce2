"""Polygons in a release: configured, checked before homes are read, kept, verified, and never drawn from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import geopandas as gpd
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geo_data
import pipelines
import synth
from helpers import refused, seal_again
from pipelines import ConfigError, Release, VerificationError, run, verify
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.release.polygons import polygon_file, write_polygons
from pipelines.running import run as runs

pytestmark = pytest.mark.quick

Configs = Callable[..., pipelines.ReleaseConfig]
WITHOUT: dict[str, object] = {"geography.polygons": []}
NO_PLACES = {"geography.latitude": None, "geography.longitude": None}
TRACTS = {"level": "trct", "file": "tracts.geojson", "code": "GEOID"}
TRCT = polygon_file("trct")


# --- configuration


def test_faults_of_the_table(small_config: Configs) -> None:
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
            'geography.polygons: "trct" has 2 tables; name one file for a level',
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


def test_a_release_keeps_them(small_release: Release, small_region: dict[str, Path]) -> None:
    kept = gpd.read_parquet(small_release.public / TRCT)
    given = gpd.read_file(small_region["tracts"]).sort_values("GEOID", ignore_index=True)
    assert kept.crs == "EPSG:4326"
    assert kept["trct"].tolist() == given["GEOID"].tolist()
    assert shapely.equals(kept.geometry.to_numpy(), given.geometry.to_numpy()).all()
    readme = (small_release.public / "README.md").read_text(encoding="utf-8")
    assert f"- `{TRCT}`: shapes of public units, for maps" in readme
    manifest = json.loads((small_release.public / "MANIFEST.json").read_text(encoding="utf-8"))
    assert TRCT in [entry["path"] for entry in manifest["files"]]
    checks = {check.name: check.detail for check in verify(small_release.public)}
    assert checks["polygons"] == "6 of 6 trct"
    assert (small_release.public / "geo").stat().st_mode & 0o777 == 0o755
    assert (small_release.public / TRCT).stat().st_mode & 0o777 == 0o644


def test_without_them_the_same_is_drawn(small_config: Configs, clean_source: object) -> None:
    folders = [run(small_config(change), key=synth.RunKey.from_seed(1)).public for change in ({}, WITHOUT)]
    one, other = (pipelines.open_release(folder).unit_flows("trct", "trct") for folder in folders)
    assert one.equals(other)
    assert not (folders[1] / "geo").exists()
    assert "shapes" not in (folders[1] / "README.md").read_text(encoding="utf-8")
    with pytest.raises(VerificationError, match="for release"):  # it was drawn with a key for tests
        assert "polygons" not in [check.name for check in verify(folders[1])]


def test_a_geography_of_polygons_keeps_those_of_its_blocks(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    crosswalk = pd.read_csv(small_region["crosswalk"], dtype="str")
    points = gpd.points_from_xy(crosswalk["blklondd"], crosswalk["blklatdd"], crs="EPSG:4326")
    blocks = tmp_path / "blocks.parquet"
    gpd.GeoDataFrame(crosswalk, geometry=shapely.buffer(points, 0.001), crs="EPSG:4326").to_parquet(blocks)
    release = run(small_config(NO_PLACES, {"geography.file": blocks}), key=synth.RunKey.from_seed(1))
    public = pipelines.open_release(release.public)
    shapes = public.polygons("tabblk2010")
    assert shapes is not None
    assert shapes["unit"].tolist() == list(range(120))
    assert public.polygons("trct") is not None
    assert public.polygons("cty") is None


def test_notes_are_published_with_the_plan(
    small_config: Configs, small_region: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "five.geojson"
    gpd.read_file(small_region["tracts"]).iloc[1:].to_file(path)
    config = small_config({"geography.polygons.0.file": path})
    assert "five.geojson: 1 of 6 units of trct have no shape" in read_public_inputs(config).notes


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


BOW_TIE = shapely.Polygon([(-40, 40), (-39, 41), (-39, 40), (-40, 41)])


def first(shape: shapely.Geometry) -> Callable[[gpd.GeoDataFrame], gpd.GeoDataFrame]:
    """The first shape is another."""
    return lambda f: f.set_geometry([shape, *f.geometry[1:]], crs=f.crs)


HARM: dict[str, list[Callable[[gpd.GeoDataFrame], gpd.GeoDataFrame]]] = {
    "codes are not units of trct, each once and in order": [
        lambda f: f.assign(trct=f["trct"].str[1:]),
        lambda f: f.assign(trct=f["trct"].iloc[0]),
        lambda f: f.iloc[::-1],
    ],
    "shapes are not valid polygons": [first(BOW_TIE), first(shapely.Point(0, 0)), first(shapely.Polygon())],
}


def test_shapes_that_maps_cannot_rely_on(public_copy: Path) -> None:
    path = public_copy / TRCT
    written = gpd.read_parquet(path)
    for words, changes in HARM.items():
        for change in changes:
            write_polygons({"trct": change(written)}, public_copy)
            seal_again(public_copy)
            error = refused(public_copy)
            assert error.check == "polygons"
            assert words in str(error)


def test_what_geopandas_writes_by_itself_is_refused(public_copy: Path) -> None:
    """Its notes are those of several libraries; and another reference system, or column, is no map's."""
    path = public_copy / TRCT
    written = gpd.read_parquet(path)
    for frame, words in (
        (written.assign(note="x"), "columns are not trct, geometry"),
        (written, "has notes of its own"),
        (written.to_crs("EPSG:6933"), "has notes of its own"),
    ):
        frame.to_parquet(path, index=False)
        seal_again(public_copy)
        assert words in str(refused(public_copy))


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


def test_notes_that_do_not_follow_from_the_shapes(public_copy: Path) -> None:
    path = public_copy / TRCT
    written = pq.read_table(path)
    for change in NOTES:
        pq.write_table(change(written), path, compression="zstd")
        seal_again(public_copy)
        assert refused(public_copy).check == "polygons"


def test_bytes_that_no_note_names(public_copy: Path) -> None:
    path = public_copy / TRCT
    pq.write_table(pq.read_table(path), path, compression="zstd", use_dictionary=False)
    seal_again(public_copy)
    assert refused(public_copy).check == "bytes"


def test_a_file_that_is_no_parquet(public_copy: Path) -> None:
    (public_copy / TRCT).write_text("shapes", encoding="utf-8")
    seal_again(public_copy)
    assert "polygons: cannot be checked" in str(refused(public_copy))


def test_shapes_of_some_units_only_are_fine(public_copy: Path) -> None:
    path = public_copy / TRCT
    write_polygons({"trct": gpd.read_parquet(path).iloc[2:]}, public_copy)
    seal_again(public_copy)
    assert "4 of 6 trct" in [check.detail for check in verify(public_copy)]
