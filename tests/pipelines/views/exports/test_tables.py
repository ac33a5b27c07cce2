"""CSV files, read by pandas and by the standard library."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from codecs import BOM_UTF8
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyogrio
import pytest

from pipelines import open_release
from pipelines.views.exports.source import ExportError, Source
from pipelines.views.exports.tables import write_csv, write_zone_table

pytestmark = pytest.mark.quick

DOCS = Path(__file__).resolve().parents[4] / "docs" / "exports.md"
FLOWS = "demo_flows_trct_to_trct_JT00_2019.csv"

Exporter = Callable[..., tuple[Path, Source]]


def test_csv_at_any_pair_of_levels(exported: Exporter, rows: pd.DataFrame) -> None:
    length = {"st": 2, "cty": 5, "trct": 11, "bgrp": 12, "tabblk2010": 15}
    for home, work in ("trct", "trct"), ("cty", "bgrp"), ("tabblk2010", "st"), ("tabblk2010", "tabblk2010"):
        folder, source = exported("csv", home, work)
        path = folder / f"demo_flows_{home}_to_{work}_JT00_2019.csv"
        words = dict.fromkeys(["work", "home", "work_name", "home_name"], "str")
        found = pd.read_csv(path, dtype=words, keep_default_na=False)
        named = {"work": source.release.areas(work), "home": source.release.areas(home)}
        for side, areas in named.items():
            names = areas.set_index("code")["name"]
            assert (f"{side}_name" in found) == (names != "").any()
            if f"{side}_name" in found:  # also those of external zones
                assert found[f"{side}_name"].tolist() == names.loc[found[side]].tolist()
        found = found.drop(columns=["home_name", "work_name"], errors="ignore")
        assert list(found.columns) == ["work", "home", *source.columns]
        found = found.drop(columns=source.columns[len(source.counts) :])
        keys = [rows["w_geocode"].str[: length[work]], rows["h_geocode"].str[: length[home]]]
        expected = rows.groupby(keys)[source.counts].sum().rename_axis(["work", "home"]).reset_index()
        pd.testing.assert_frame_equal(found.sort_values(["work", "home"], ignore_index=True), expected)


def test_csv_as_bytes(public: Path, tmp_path: Path) -> None:
    """One line a flow with leading zeros, whatever the system; the same again, byte for byte."""
    source = Source(open_release(public), "trct", "trct", tmp_path, batch_rows=7)
    write_csv(source, tmp_path)
    path = tmp_path / "demo_flows_trct_to_trct_JT00_2019.csv"
    content = path.read_bytes().decode()
    assert "\r" not in content
    lines = list(csv.reader(content.splitlines()))
    assert {len(line) for line in lines} == {4 + len(source.columns)}
    assert {line[0][:2] for line in lines[1:]} == {"03"}
    assert {line[1][:2] for line in lines[1:]} == {"03", "09", "25"}


def test_zones_are_in_the_order_of_their_numbers(
    public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(open_release(public), "cty", "cty", tmp_path)
    codes = source.release.geography.codes("cty")
    monkeypatch.setattr(Source, "numbers", lambda *_: np.arange(len(codes), 0, -1, np.int32))
    table = pd.read_csv(write_zone_table(source, "cty", tmp_path)[0], dtype={"code": "str"})
    assert table["zone"].tolist() == [*range(1, len(codes) + 1)]
    assert table["code"].tolist() == codes[::-1].tolist()


def test_blocks_and_names_are_those_of_the_release(public: Path, exported: Exporter) -> None:
    folder, _ = exported("csv", "cty", "cty")
    for name in ("blocks", "names"):
        found = (folder / f"demo_{name}_JT00_2019.csv").read_text(encoding="utf-8")
        assert found == (public / f"{name}.csv").read_text(encoding="utf-8")


def test_draws_are_those_of_the_release(public: Path, exported: Exporter) -> None:
    folder, _ = exported("csv", "cty", "cty")
    draws = pd.read_parquet(public / "intervals.parquet")
    texts = dict.fromkeys(draws.select_dtypes(exclude="number"), "str")
    found = pd.read_csv(folder / "demo_intervals_JT00_2019.csv", dtype=texts)
    pd.testing.assert_frame_equal(found, draws, check_dtype=False)


def test_every_column_of_every_file_is_explained(exported: Exporter) -> None:
    """For who opens them in a spreadsheet, and reads no JSON."""
    folder, _ = exported("csv", "cty", "cty")
    said = pd.read_csv(folder / "demo_columns_JT00_2019.csv")
    for path in folder.glob("*.csv"):
        columns = pd.read_csv(path, nrows=0).columns.tolist()
        if path.name != "demo_columns_JT00_2019.csv":
            assert said["column"][said["file"] == path.name].tolist() == columns
    assert said["meaning"].notna().all()
    assert said.set_index("column")["meaning"]["SA01"].startswith("age 29 or younger")


def test_decimal_commas_for_excel(exported: Exporter, public: Path, tmp_path: Path) -> None:
    """The same table again, as a spreadsheet of Germany or France reads it, and GDAL."""
    open_release(public).export("csv", tmp_path, home_level="trct", decimal_comma=True)
    codes = dict.fromkeys(["work", "home", "code"], "str")
    paths = sorted((tmp_path / "csv").glob("*.csv"))
    assert len(paths) == 6
    codes |= dict.fromkeys(["tabblk2010", "st", "cty", "trct", "bgrp"], "str")
    for path in paths:
        content = path.read_bytes()
        assert content.startswith(BOM_UTF8)
        assert content.count(BOM_UTF8) == 1
        table = pd.read_csv(path, sep=";", decimal=",", dtype=codes, encoding="utf-8-sig")
        plain = pd.read_csv(exported("csv")[0] / path.name, dtype=codes)
        pd.testing.assert_frame_equal(table, plain)
        metadata = json.loads(path.with_name(f"{path.name}-metadata.json").read_text(encoding="utf-8"))
        assert metadata["dialect"] == {"delimiter": ";"}
        by_gdal = pyogrio.read_dataframe(path)
        for name in set(plain) & {"home_S000", "S000", "estimate", "latitude", "longitude"}:
            np.testing.assert_allclose(by_gdal[name].astype(float), plain[name])
    assert "semicolons between columns" in (tmp_path / "csv" / "README.txt").read_text(encoding="utf-8")
    with pytest.raises(ExportError, match="omx: decimal commas are for spreadsheets"):
        open_release(public).export(["csv", "omx"], tmp_path / "new", decimal_comma=True)


ROWS = re.compile(r"^\| (pandas|DuckDB|R) \| `(.*?)` \| `(.*?)` \|$", re.MULTILINE)


def test_the_lines_of_the_document_read_the_flows(
    public: Path, exported: Exporter, tmp_path: Path, tract_flows: pd.Series
) -> None:
    open_release(public).export("csv", tmp_path, home_level="trct", decimal_comma=True)
    files = (exported("csv")[0] / FLOWS, tmp_path / "csv" / FLOWS)
    lines = {tool: texts for tool, *texts in ROWS.findall(DOCS.read_text(encoding="utf-8"))}
    assert set(lines) == {"pandas", "DuckDB", "R"}
    for number, file in enumerate(files):
        code = {tool: texts[number].replace("FILE", file.as_posix()) for tool, texts in lines.items()}
        tables = [eval(code["pandas"], {"pandas": pd})]
        with duckdb.connect() as database:
            tables.append(database.sql(code["DuckDB"]).df())
        if shutil.which("Rscript"):
            script = tmp_path / "read.R"
            again = (tmp_path / "again.csv").as_posix()
            script.write_text(f'write.csv({code["R"]}, "{again}", row.names=FALSE)\n', encoding="utf-8")
            subprocess.run(["Rscript", str(script)], check=True, capture_output=True)
            tables.append(pd.read_csv(again, dtype={"home": "str", "work": "str"}))
        for table in tables:
            read = table.astype({"work": "str", "home": "str"}).set_index(["work", "home"])["S000"]
            pd.testing.assert_series_equal(read.sort_index(), tract_flows.sort_index(), check_dtype=False)


def test_flowmap(exported: Exporter, tract_flows: pd.Series) -> None:
    folder, source = exported("flowmap")
    locations = pd.read_csv(folder / "locations.csv", dtype={"id": "str", "name": "str"})
    flows = pd.read_csv(folder / "flows.csv", dtype={"origin": "str", "dest": "str"})
    assert list(locations.columns) == ["id", "name", "lat", "lon"]
    assert list(flows.columns) == ["origin", "dest", "count"]
    assert locations["id"].is_unique
    assert locations.notna().all(axis=None)
    assert flows["origin"].isin(locations["id"]).all()
    assert flows["dest"].isin(locations["id"]).all()
    inside = tract_flows[~tract_flows.index.get_level_values("home").str.endswith("999999999")]
    found = flows.set_index(["dest", "origin"])["count"].rename_axis(["work", "home"]).rename("S000")
    pd.testing.assert_series_equal(found.sort_index(), inside.sort_index())
    assert (flows["origin"] == flows["dest"]).any(), "flows inside a zone are flows"
    places = source.release.places("trct").set_index("code").loc[locations["id"]]
    assert (places["latitude"].to_numpy() - locations["lat"]).abs().max() < 1e-6
    assert (places["longitude"].to_numpy() - locations["lon"]).abs().max() < 1e-6
    missing = tract_flows.sum() - inside.sum()
    assert f"{missing:,} workers are left out" in (folder / "README.txt").read_text(encoding="utf-8")


def test_flowmap_of_two_levels_keeps_their_codes_apart(exported: Exporter) -> None:
    folder, source = exported("flowmap", "cty", "st")
    locations, flows = (pd.read_csv(folder / f"{name}.csv", dtype="str") for name in ("locations", "flows"))
    assert locations["id"].str.startswith(("cty:03", "st:03")).all()
    names = pd.concat([source.zones[level].dropna()[["code", "name"]] for level in ("cty", "st")])
    expected = names["name"].where(names["name"] != "", names["code"])
    assert locations["name"].tolist() == expected.tolist()
    assert "Centre County, DM" in set(locations["name"])
    assert flows["origin"].str.startswith("cty:").all()
    assert flows["dest"].isin(locations["id"]).all()
    assert int(flows["count"].astype(int).sum()) == sum(
        flows["S000"][~flows["home"].isin(source.release.places("cty").query("latitude.isna()").index)].sum()
        for flows in source.flows()
    )
