"""All formats: where they go, what their read-me says, what is refused."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import geopandas as gpd
import mapbox_vector_tile
import openmatrix
import pandas as pd
import pyarrow.parquet as pq
import pyogrio
import pytest
from click.testing import CliRunner
from pmtiles.reader import MmapSource, all_tiles

import pipelines
from helpers import german_copy
from pipelines.cli.main import main
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.polygons import polygon_file
from pipelines.views import flows as flow_reader
from pipelines.views.exports.exporting import FORMATS, Format
from pipelines.views.exports.source import ExportError, Source
from pipelines.views.release import Release, open_release

Exporter = Callable[..., tuple[Path, Source]]
DOCS = Path(__file__).resolve().parents[4] / "docs" / "exports.md"


def all_files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_every_format_comes_with_what_must_be_known(public: Path, exported: Exporter) -> None:
    exports = exported("csv")[0].parent
    assert sorted(path.name for path in exports.iterdir()) == sorted(FORMATS)
    certificate = pipelines.open_release(public).certificate
    for name in FORMATS:
        paths = sorted((exports / name).iterdir())
        readme = (exports / name / "README.txt").read_text(encoding="utf-8")
        for words in (
            certificate.release.name,
            "SYNTHETIC",
            f"epsilon {certificate.run.epsilon}, delta {certificate.run.delta}",
            certificate.plan_sha256,
            "age 29 or younger" if name != "flowmap" else "\n  count  all jobs",
            *(path.name for path in paths if path.name != "README.txt"),
        ):
            assert words in readme, (name, words)
        assert ("are degrees" in readme) == (name not in ("pmtiles", "matsim")), name
        assert name != "flowmap" or "S000" not in readme
        assert len(paths) > 1, "a read-me of nothing"
    assert not list(exports.rglob("*.arrow")), "the file of flows is still there"


def flows_of(name: str, folder: Path) -> pd.DataFrame:
    """The flows of an export, as a reader of its format has them."""
    if name == "kepler":
        data = json.loads((folder / "kepler.gl.json").read_text(encoding="utf-8"))["datasets"][0]["data"]
        return pd.DataFrame(data["allData"], columns=[field["name"] for field in data["fields"]])
    (path,) = (path for path in folder.glob("*_flows_*") if path.suffix not in (".json", ".csvt"))
    if name == "csv":
        return pd.read_csv(path, dtype={"work": "str", "home": "str"})
    if name == "geoparquet":
        return pd.read_parquet(path)
    return pd.DataFrame(pyogrio.read_dataframe(path, layer="flows"))


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if form.intervals])
def test_estimates_are_those_of_the_file_of_flows(name: str, public: Path, exported: Exporter) -> None:
    """The same numbers, rounded alike; 0 where no draw has jobs."""
    pair, told = ["work", "home"], ["estimate", "low", "high"]
    file = pd.read_csv(public / "flows.csv", dtype={"work": "str", "home": "str"})
    said = file[file["level"] == "trct"].set_index(pair)[told]
    flows = flows_of(name, exported(name)[0]).set_index(pair)[told]
    assert (flows["estimate"] % 1 > 0).any(), "whole numbers alone say nothing of tenths"
    pd.testing.assert_frame_equal(
        flows, said.reindex(flows.index, fill_value=0), check_dtype=False, check_exact=True
    )


def test_a_release_that_may_not_be_published_says_so(public: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    text = (copy / "certificate.json").read_text(encoding="utf-8")
    reason = '"not_for_release_because": ["the run was seeded"]'
    text = text.replace('"for_release": true', '"for_release": false')
    text = re.sub(r'"not_for_release_because": \[\]', reason, text)
    (copy / "certificate.json").write_text(text, encoding="utf-8")
    open_release(copy).export(["csv", "kepler"])
    assert "NOT FOR RELEASE: the run was seeded." in (tmp_path / "exports/csv/README.txt").read_text()
    assert '"description":"NOT FOR RELEASE. ' in (tmp_path / "exports/kepler/kepler.gl.json").read_text()


ENGLISH_WORDS = re.compile(r"\b(the|of|and|is|are|with|by|jobs|homes|workers)\b")


def test_exports_of_a_german_release_are_german(zoned_release: Release, tmp_path: Path) -> None:
    release = open_release(german_copy(zoned_release.public, tmp_path))
    made = release.export([*FORMATS])
    for name, paths in made.items():
        (readme,) = (path.read_text(encoding="utf-8") for path in paths if path.name == "README.txt")
        said, files = readme.split("\nDateien:\n")
        said = said.replace(release.certificate.release.name, "")
        assert not ENGLISH_WORDS.findall(said), name
        assert "SYNTHETISCHE" in said
        assert ("Alter bis 29 Jahre" in files) == (name != "flowmap")
    (columns,) = tmp_path.glob("exports/csv/*flows*-metadata.json")
    described = json.loads(columns.read_text(encoding="utf-8"))
    assert described["@context"][1] == {"@language": "de"}
    meanings = [column["dc:description"] for column in described["tableSchema"]["columns"]]
    assert meanings[0] == "Code der Zone (Zählbezirk des Arbeitsorts), Text"


def test_nothing_is_overwritten(public: Path, tmp_path: Path) -> None:
    open_release(public).export(["csv"], tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "csv").iterdir()}
    with pytest.raises(ExportError, match=r"csv: a folder .* is there already\. Fix: move"):
        open_release(public).export(["flowmap", "csv"], tmp_path, home_level="cty")
    assert {path: path.read_bytes() for path in (tmp_path / "csv").iterdir()} == before
    assert all_files(tmp_path) == ["csv", *sorted(f"csv/{path.name}" for path in before)]
    with pytest.raises(ExportError, match=r"README\.txt: a file is where a folder must be"):
        open_release(public).export(["csv"], tmp_path / "csv" / "README.txt", home_level="cty")


def test_what_is_not_there_is_refused(public: Path, tmp_path: Path) -> None:
    for formats, levels, words in (
        (["csv", "shapefile"], {}, "there is no format 'shapefile'; there are: lodes, csv"),
        ([], {}, "no format is named"),
        (["csv"], {"work_level": "ward"}, "there is no level 'ward'; there are: st, cty, trct"),
        (["lodes"], {"home_level": "cty"}, "lodes: the format has blocks, and no other level"),
    ):
        with pytest.raises(ExportError, match=words):
            open_release(public).export(formats, tmp_path / "new", **levels)
        assert not (tmp_path / "new").exists()


def test_areas_that_cut_across_the_levels_are_none(cut_release: pipelines.Release, tmp_path: Path) -> None:
    with pytest.raises(
        ExportError, match="no level 'stplc', whose areas cut across the levels; there are: st"
    ):
        cut_release.export(["csv"], tmp_path, home_level="stplc")


def test_a_failure_leaves_nothing_half_written(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(source: Source, folder: Path) -> list[str]:
        (folder / "half").write_text("written")
        raise OSError("disk full")

    monkeypatch.setitem(FORMATS, "broken", Format("", "", fail))
    with pytest.raises(OSError, match="disk full"):
        open_release(public).export(["csv", "broken"], tmp_path)
    assert all_files(tmp_path) == []


def test_a_new_format_is_one_entry(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(source: Source, folder: Path) -> list[str]:
        (folder / "workers.txt").write_text(str(sum(flows["S000"].sum() for flows in source.flows())))
        return ["A remark."]

    monkeypatch.setitem(FORMATS, "sum", Format("the number of workers", "anything", write))
    open_release(public).export(["sum"], tmp_path)
    assert (tmp_path / "sum" / "workers.txt").read_text() == "600"
    assert "\nA remark.\n" in (tmp_path / "sum" / "README.txt").read_text()


def test_levels(public: Path, tmp_path: Path) -> None:
    for home, work, name in (
        (None, None, "trct_to_trct"),  # the only level with polygons
        ("cty", None, "cty_to_cty"),
        (None, "cty", "cty_to_cty"),
        ("tabblk2010", "st", "tabblk2010_to_st"),
    ):
        to = tmp_path / f"{home} {work}"
        open_release(public).export(["csv"], to, home_level=home, work_level=work)
        assert (to / "csv" / f"demo_flows_{name}_JT00_2019.csv").is_file()


def test_the_usual_level(public: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    assert pipelines.open_release(copy).usual_level() == "trct"
    (copy / polygon_file("trct")).rename(copy / polygon_file("tabblk2010"))
    assert pipelines.open_release(copy).usual_level() == "bgrp"  # flows between blocks are noise
    (copy / ACCURACY_FILE).unlink()
    release = pipelines.open_release(copy)
    assert release.usual_level() == "tabblk2010"
    assert release.usual_level(most_zones=30) == "st"  # blocks are too many
    (copy / polygon_file("tabblk2010")).unlink()
    assert release.usual_level(most_zones=30) == "st"  # 600 workers: no level has zones of 1,000
    counties = release.geography.n_units("cty")
    assert release.usual_level(most_zones=30, workers_per_zone=600 / counties) == "cty"


def test_a_level_of_noise_says_so(public: Path, tmp_path: Path) -> None:
    open_release(public).export(["csv", "lodes"], tmp_path / "fine", home_level="tabblk2010")
    open_release(public).export(["csv"], tmp_path / "usual")
    for path in tmp_path.glob("*/*/README.txt"):
        about = next(path.parent.glob("*-metadata.json")).read_text(encoding="utf-8")
        for text in (path.read_text(encoding="utf-8"), about):
            assert ("NOISE, as the release itself says: tabblk2010 to" in text) == ("fine" in path.parts)


def test_flows_are_written_in_batches(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files made of many small batches are those of one; no table is longer than a batch."""
    names = [name for name, form in FORMATS.items() if not (form.blocks or form.one_level)]
    names.remove("pmtiles")
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    for kind in ("main", "aux"):
        path = copy / f"demo_od_{kind}_JT00_2019.parquet"
        pq.write_table(pq.read_table(path), path, row_group_size=50)
    lengths: dict[str, list[int]] = {}

    def counted(method: Callable[..., Iterator[pd.DataFrame]]) -> Callable[..., Iterator[pd.DataFrame]]:
        def run(*arguments: object) -> Iterator[pd.DataFrame]:
            for batch in method(*arguments):
                lengths.setdefault(method.__name__, []).append(len(batch))
                yield batch

        return run

    def write(folder: Path, to: Path, **batches: int) -> None:
        to.mkdir()
        source = Source(pipelines.open_release(folder), "bgrp", "trct", to, **batches)
        for name in names:
            (to / name).mkdir()
            FORMATS[name].write(source, to / name)

    write(public, tmp_path / "one")
    monkeypatch.setattr(flow_reader, "_AT_ONCE", 1)
    monkeypatch.setattr(Source, "flows", counted(Source.flows))
    monkeypatch.setattr(Release, "flow_batches", counted(Release.flow_batches))
    write(copy, tmp_path / "many", batch_rows=7)
    assert max(lengths["flows"]) <= 7 < 30 < sum(lengths["flows"]) / len(names)
    assert max(lengths["flow_batches"]) <= 2 * 50  # a group of main and one of aux
    for path in (path for name in names for path in (tmp_path / "one" / name).iterdir()):
        again = tmp_path / "many" / path.relative_to(tmp_path / "one")
        if path.suffix == ".gpkg":
            tables = [pyogrio.read_dataframe(file, layer="flows") for file in (path, again)]
        elif path.suffix == ".parquet":
            tables = [pd.read_parquet(file) for file in (path, again)]
        else:
            unpacked = gzip.open if path.suffix == ".gz" else open
            with unpacked(path, "rb") as one, unpacked(again, "rb") as many:
                assert one.read() == many.read(), path
            continue
        pd.testing.assert_frame_equal(*tables)


def test_the_docs_have_every_format() -> None:
    """The table is the one that benchmarks/exports.py prints."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(name, form.meaning, form.tool) for name, form in FORMATS.items()]


def test_the_command_writes_several_formats(public: Path, tmp_path: Path) -> None:
    options = ["--format", "csv", "--format", "omx", "--to", str(tmp_path / "out"), "--home-level", "cty"]
    done = CliRunner().invoke(main, ["export", str(public), *options])
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()] == ["csv", "omx"]
    assert str(tmp_path / "out" / "csv") in done.output
    assert " kB " in done.output
    assert "0.00" not in done.output
    assert (tmp_path / "out" / "omx" / "demo_flows_cty_to_cty_JT00_2019.omx").is_file()


def test_codes_that_are_no_prefixes(british_exports: Path) -> None:
    assert {path.name for path in british_exports.iterdir()} == set(FORMATS)
    zones = british_exports / "csv" / "leeds_zones_lsoa_JT00_2021.csv"
    codes = pd.read_csv(zones, dtype={"code": "str"}).set_index("zone")["code"]
    assert codes.index.tolist() == [*range(1, len(codes) + 1)]
    assert not codes.is_monotonic_increasing


LEEDS = Path(__file__).resolve().parents[4] / "examples" / "leeds.toml"
COMMUTES = "geo_code_to_geo_code_JT01_2011"


@pytest.mark.slow
def test_leeds(shared_data: Path, clean_source: object, tmp_path: Path) -> None:
    release = pipelines.run(pipelines.load_config(LEEDS).with_out(tmp_path / "release"))
    zones = gpd.read_file(shared_data / "leeds_2011" / "leeds_msoa_zones.geojson")
    path = release.public / polygon_file("geo_code")
    path.parent.mkdir(exist_ok=True)
    zones.rename(columns={"msoa11cd": "geo_code"})[["geo_code", "geometry"]].to_parquet(path)
    found = release.export(list(FORMATS), tmp_path)
    assert set(found) == set(FORMATS)
    truth = pd.read_csv(shared_data / "leeds_2011" / "leeds_msoa_od_2011.csv")
    jobs = truth.groupby("geo_code2")["all"].sum().astype(int)

    file = tmp_path / "geopackage" / f"leeds_flows_{COMMUTES}.gpkg"
    layer = pyogrio.read_dataframe(file, layer="zones_geo_code").set_index("code")
    assert layer["work_S000"].to_dict() == jobs.reindex(layer.index, fill_value=0).to_dict()
    assert set(layer.geom_type) <= {"Polygon", "MultiPolygon"}
    given = zones.set_index("msoa11cd").to_crs("EPSG:27700").area.loc[layer.index]
    pd.testing.assert_series_equal(layer.to_crs("EPSG:27700").area, given, check_names=False, rtol=1e-9)

    tiles: dict[int, set[str]] = {}
    with (tmp_path / "pmtiles" / "leeds_zones_geo_code_JT01_2011.pmtiles").open("rb") as archive:
        for (zoom, _, _), content in all_tiles(MmapSource(archive)):
            features = mapbox_vector_tile.decode(gzip.decompress(content))["zones"]["features"]
            tiles.setdefault(zoom, set()).update(feature["properties"]["code"] for feature in features)
    assert all(codes == set(layer.index) for codes in tiles.values())  # also the small ones, also from afar

    with openmatrix.open_file(str(tmp_path / "omx" / f"leeds_flows_{COMMUTES}.omx")) as matrices:
        assert matrices.list_matrices() == ["S000"]
        zone = [code.decode() for code in matrices.root.zones.zone.code]
        columns = pd.Series(matrices["S000"][:].sum(axis=0), index=zone)
    assert columns[columns > 0].to_dict() == jobs[jobs > 0].to_dict()
