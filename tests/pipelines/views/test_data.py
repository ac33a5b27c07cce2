"""A release read as tables: from its folder, and the same from the address of a service."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest

import pipelines
from pipelines import PublicReleaseError

Configs = Callable[..., pipelines.ReleaseConfig]
DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "data-users.md"


def test_tables_are_those_of_the_release(small_release: pipelines.Release) -> None:
    data, release = pipelines.read(small_release.out), pipelines.read_public_release(small_release.public)
    assert pipelines.read(str(small_release.public)).levels == data.levels == release.levels
    assert "600 synthetic workers" in repr(data)
    workers = data.workers()
    assert len(workers) == release.certificate.totals.synthetic_workers
    rows = pd.concat([rows.to_table().to_pandas() for rows in release.rows.values()])
    pairs = ["w_geocode", "h_geocode"]
    expected = rows.groupby(pairs)["S000"].sum()
    assert workers.groupby(pairs).size().to_dict() == expected[expected > 0].to_dict()
    flows = data.flows("cty", "trct", ["S000", "SE03"])
    assert flows.equals(release.flows("cty", "trct", ["S000", "SE03"]))
    assert data.flows("cty").equals(data.flows("cty", "cty"))
    for level in data.levels:
        shapes = data.shapes(level)
        assert list(shapes["code"]) == list(release.geography.codes(level))
        assert (shapes.geometry.isna() == shapes["external"]).all()
        own_shapes = release.polygons(level)
        if own_shapes is not None:
            placed = shapes[~shapes["external"]]
            assert placed.geometry.geom_equals(own_shapes.set_index("unit").geometry).all()
    assert shapes.crs == "EPSG:4326"


def test_workers_have_their_attributes_where_the_release_knows_them(small_config: Configs) -> None:
    made = pipelines.run(small_config({"release.implicates": 2}))
    first, second = (pipelines.read(made.out, implicate=number) for number in (1, 2))
    assert not first.workers().equals(second.workers())
    assert not first.flows("trct").equals(second.flows("trct"))


def test_what_there_is_not(small_release: pipelines.Release, tmp_path: Path) -> None:
    data = pipelines.read(small_release.out)
    for call, message in (
        (lambda: pipelines.read(tmp_path), "there is no certificate.json"),
        (lambda: pipelines.read(small_release.out, implicate=2), "there is no implicate 2"),
        (lambda: data.flows("nowhere"), "there is no level 'nowhere'"),
        (lambda: data.flows("cty", attributes="S999"), "there is no count 'S999'"),
        (lambda: data.shapes("nowhere"), "there is no level 'nowhere'"),
        (lambda: pipelines.read("https://data.example.org/other"), "this is not the address of a version"),
        (lambda: pipelines.read("http://127.0.0.1:1/releases/a/b", cache=tmp_path), "does not answer"),
    ):
        with pytest.raises(PublicReleaseError, match=re.escape(message)):
            call()


def test_the_examples_of_the_document_run(small_release: pipelines.Release) -> None:
    """Those for Python and for DuckDB, on a folder instead of an address."""
    text = DOCUMENT.read_text()
    python, without = re.findall(r"```python\n(.*?)```", text, re.DOTALL)  # asked of the service in its tests
    assert 'read("https://' in python
    assert "import geopandas" in without
    code = re.sub(r'"https://[^"]+"', repr(str(small_release.out)), python)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (sql,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    folder = re.sub("'out/public/", f"'{small_release.public}/", sql)
    with duckdb.connect() as connection:
        rows = connection.sql(folder.split(";")[0]).fetchall()
    assert sum(row[-1] for row in rows) == small_release.certificate.totals.synthetic_workers
