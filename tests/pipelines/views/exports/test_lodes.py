"""LODES files, read by pandas and compared with the files of the release."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import pipelines
from geo_data.lodes import LODES_COLUMNS
from pipelines.views.exports.lodes import _remarks, write_lodes
from pipelines.views.exports.source import Source
from pipelines.views.pages import phrases
from pipelines.views.release import open_release

Exporter = Callable[..., tuple[Path, Source]]
TEXT = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")


def characteristics(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    names = {"S000": "C000", "SA01": "CA01", "SA02": "CA02", "SA03": "CA03"}
    names |= {"SE01": "CE01", "SE02": "CE02", "SE03": "CE03"}
    totals = rows.groupby(key)[list(names)].sum().rename(columns=names).reset_index()
    return totals.assign(createdate=rows["createdate"].iloc[0])


def test_od_is_that_of_the_release_byte_for_byte(exported: Exporter, public: Path) -> None:
    folder, _ = exported("lodes")
    for name in ("demo_od_main_JT00_2019.csv.gz", "demo_od_aux_JT00_2019.csv.gz"):
        assert gzip.decompress((folder / name).read_bytes()) == gzip.decompress((public / name).read_bytes())


def test_od_of_parquet_alone(public: Path, tmp_path: Path) -> None:
    """A release without csv.gz, whose Parquet is a folder of parts; read in batches smaller than a part."""
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    for kind in ("main", "aux"):
        path = copy / f"demo_od_{kind}_JT00_2019.parquet"
        path.with_name(f"demo_od_{kind}_JT00_2019.csv.gz").unlink()
        table = pq.read_table(path)
        path.unlink()
        path.mkdir()
        for number, start in enumerate(range(0, len(table), 70)):
            pq.write_table(table.slice(start, 70), path / f"part-{number:06}.parquet")
    write_lodes(Source(pipelines.open_release(copy), "st", "st", tmp_path, batch_rows=50), tmp_path)
    written = sorted(tmp_path.glob("*_od_*.csv.gz"))
    assert len(written) == 2
    for path in written:
        assert gzip.decompress(path.read_bytes()) == gzip.decompress((public / path.name).read_bytes())


def test_an_empty_aux_file_has_its_header(public: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    path = copy / "demo_od_aux_JT00_2019.parquet"
    pq.write_table(pq.read_table(path).slice(0, 0), path)
    open_release(copy).export(["lodes"], tmp_path)
    text = gzip.decompress((tmp_path / "lodes" / "demo_od_aux_JT00_2019.csv.gz").read_bytes()).decode()
    assert text == ",".join(LODES_COLUMNS) + "\n"


def test_wac_counts_every_job(exported: Exporter, rows: pd.DataFrame) -> None:
    folder, _ = exported("lodes")
    found = pd.read_csv(folder / "demo_wac_S000_JT00_2019.csv.gz", dtype=TEXT)
    pd.testing.assert_frame_equal(found, characteristics(rows, "w_geocode"))
    assert found["C000"].sum() == 600
    assert found["w_geocode"].str.fullmatch(r"03\d{13}").all()


def test_rac_counts_residents_inside(exported: Exporter, rows: pd.DataFrame) -> None:
    folder, _ = exported("lodes")
    found = pd.read_csv(folder / "demo_rac_S000_JT00_2019.csv.gz", dtype=TEXT)
    inside = rows[rows["h_geocode"].str.startswith("03")]
    assert 0 < len(inside) < len(rows)
    pd.testing.assert_frame_equal(found, characteristics(inside, "h_geocode"))


def test_what_is_left_out_is_said(exported: Exporter) -> None:
    readme = (exported("lodes")[0] / "README.txt").read_text(encoding="utf-8")
    assert "codes end in 9s" in readme
    assert "099999999999999 is Connecticut, 259999999999999 is Massachusetts." in readme
    folder, _ = exported("lodes")
    for file in ("rac", "wac"):
        path = folder / f"demo_{file}_S000_JT00_2019.csv.gz"
        lacking = json.loads(path.with_name(f"{path.name}-metadata.json").read_text())["notes"][1]
        assert lacking in readme
        for column in ("CNS01 to CNS20", "CR01", "CT01", "CD01", "CS01", "CFA01", "CFS01"):
            assert f"{column} " in lacking
        assert "CE01" not in lacking
        assert not pd.read_csv(path).isna().any(axis=None), "empty, which adds up to 0"


def test_the_crosswalk_has_areas_and_names(exported: Exporter) -> None:
    folder, source = exported("lodes")
    found = pd.read_csv(folder / "demo_xwalk.csv.gz", dtype="str")
    geography = source.release.geography
    inside = ~geography.is_external(np.arange(geography.n_blocks))
    assert found["tabblk2010"].tolist() == geography.blocks[inside].tolist()
    for level, length in (("st", 2), ("cty", 5), ("trct", 11), ("bgrp", 12)):
        assert (found[level] == found["tabblk2010"].str[:length]).all()
    counties = dict(zip(geography.codes("cty"), source.release.names["cty"], strict=True))
    assert found["ctyname"].tolist() == [counties[code] for code in found["cty"]]
    assert (found["ctyname"] != "").all()
    np.testing.assert_allclose(found["blklatdd"].astype(float), geography.latitude[inside])


def test_without_lodes_categories(british_exports: Path) -> None:
    wac = pd.read_csv(british_exports / "lodes" / "leeds_wac_S000_JT00_2021.csv.gz", dtype=TEXT)
    assert list(wac.columns) == ["w_geocode", "C000", "createdate"]
    assert wac["C000"].sum() == 300
    assert "RAC and WAC lack these columns of LODES: CA01, CA02" in (
        british_exports / "lodes" / "README.txt"
    ).read_text(encoding="utf-8")
    alike: Any = SimpleNamespace(
        release=SimpleNamespace(rows={"main": None}, geography=SimpleNamespace(external_workplaces={})),
        counts=["S000", "SA01", "SEX_f", "SIZE_1"],
        say=phrases("en"),
    )
    assert _remarks(alike, {})[-1].endswith("LODES does not have: SEX_f, SIZE_1.")


MEASURE = """
import resource, sys
from pathlib import Path
from pipelines.views.exports.exporting import export
export(Path(sys.argv[1]), sys.argv[3:], Path(sys.argv[2]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.deep
def test_a_large_release_is_streamed(public: Path, tmp_path: Path) -> None:
    """Ten times the rows, not ten times the memory."""

    def peak(copies: int) -> tuple[int, int]:
        copy = Path(shutil.copytree(public, tmp_path / f"{copies}" / "public"))
        path = copy / "demo_od_main_JT00_2019.parquet"
        table = pq.read_table(path)
        with pq.ParquetWriter(path, table.schema) as writer:
            for part in np.array_split(np.repeat(np.arange(len(table)), 150 * copies), copies):
                writer.write_table(table.take(part))
        rows = pq.read_metadata(path).num_rows
        out = tmp_path / f"{copies}" / "exports"
        command = [sys.executable, "-c", MEASURE, str(copy), str(out), "lodes", "csv"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ.copy())
        return rows, int(done.stdout) * (1 if sys.platform == "darwin" else 1024)

    (few, small), (many, large) = peak(4), peak(40)
    assert many == 10 * few
    # A row is 150 bytes in memory and half as much as text: whole, the difference would be 300 MB.
    assert large - small < 60 * (many - few), f"{(large - small) / 1e6:.0f} MB more for {many - few:,} rows"
