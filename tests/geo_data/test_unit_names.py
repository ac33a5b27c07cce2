"""Names of units: from which columns they are read, which of several counts, and what is cleaned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from geo_data import Geography, InputError, read_crosswalk
from geo_data.polygons import read_polygons
from geo_data.texts import clean_names, unit_names

HOSTILE = "St \"Mary\", </script><b>& 'Co' $x$"


def table(**columns: list[str | None]) -> pd.DataFrame:
    """Six zones of two wards."""
    zones = {
        "zone": [f"Z{i}" for i in range(6)],
        "ward": ["W1"] * 3 + ["W2"] * 3,
        "lat": ["53.8"] * 6,
        "lon": ["-1.5"] * 6,
    }
    return pd.DataFrame({**zones, **columns})


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Geography]:
    def reader(frame: pd.DataFrame, path: Path | None = None, **more: object) -> Geography:
        if path is None:
            path = tmp_path / "zones.csv"
            frame.to_csv(path, index=False)
        named: dict = {"block": "zone", "levels": ("ward",), "centroid": ("lat", "lon"), **more}
        return read_crosswalk(path, **named)

    return reader


def test_columns_of_lodes_are_read_without_being_named(demo_geography: Geography) -> None:
    assert list(demo_geography.names) == ["st", "cty", "trct", "bgrp"]
    assert demo_geography.names["cty"].tolist() == ["Centre County, DM", "Shore County 1, DM"]
    for level, names in demo_geography.names.items():
        assert len(names) == demo_geography.n_units(level)


def test_columns_that_are_named(read: Callable[..., Geography]) -> None:
    frame = table(wardname=["A"] * 6, label=["North"] * 3 + ["South"] * 3, zonename=list("abcdef"))
    assert read(frame, names={"ward": "label"}).names["ward"].tolist() == ["North", "South"]
    assert list(read(frame, names={"ward": "label"}).names) == ["ward"]
    assert read(frame, names={}).names == {}
    assert read(frame).names["zone"].tolist() == list("abcdef")  # the blocks' too
    assert read(table()).names == {}


def test_a_level_is_no_name(read: Callable[..., Geography]) -> None:
    """A hierarchy may have a level that is called like the names of another."""
    frame = table(wardname=["A"] * 6)
    geography = read(frame, levels=("wardname", "ward"))
    assert geography.levels == ("wardname", "ward")
    assert geography.names == {}


def test_a_column_that_is_not_there(
    read: Callable[..., Geography], refused: Callable, tmp_path: Path
) -> None:
    with refused(tmp_path / "zones.csv", "missing columns: label"):
        read(table(), names={"ward": "label"})
    with refused(tmp_path / "zones.csv", "one column is named for two purposes"):
        read(table(), names={"ward": "zone"})


@pytest.mark.parametrize("name", [HOSTILE, "東京都", "3"])
def test_any_text_is_a_name(name: str, read: Callable[..., Geography]) -> None:
    assert read(table(wardname=[name] * 6)).names["ward"].tolist() == [name, name]


def test_names_in_another_encoding(read: Callable[..., Geography], tmp_path: Path) -> None:
    """A column that nobody used to read must not make a file unreadable."""
    path = tmp_path / "latin.csv"
    path.write_bytes(table(wardname=["Doña Ana"] * 6).to_csv(index=False).encode("cp1252"))
    assert read(table(), path).names["ward"].tolist() == ["Doña Ana"] * 2


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["North"] * 6).dictionary_encode(),
        pa.array(["North"] * 6, pa.large_string()),
        pa.chunked_array([["North"] * 2, ["South", "North", "North", "North"]]),
        pa.nulls(6),
        pa.array([7] * 6),
    ],
    ids=["dictionary", "large", "chunks", "nulls", "integers"],
)
def test_names_in_parquet(column: pa.Array, read: Callable[..., Geography], tmp_path: Path) -> None:
    frame = table().astype({"lat": float, "lon": float})
    path = tmp_path / "zones.parquet"
    pq.write_table(pa.Table.from_pandas(frame).append_column("wardname", column), path)
    expected = {"null": [], "int64": ["7"] * 2}.get(str(column.type), ["North"] * 2)
    assert read(frame, path).names.get("ward", np.array([])).tolist() == expected


def test_names_that_became_floats_are_refused(read: Callable[..., Geography], tmp_path: Path) -> None:
    """As numbers with a gap do: ward 7 would be called 7.0."""
    frame = table().astype({"lat": float, "lon": float}).assign(wardname=[7.0] * 5 + [np.nan])
    frame.to_parquet(tmp_path / "zones.parquet")
    with pytest.raises(InputError, match="a name cannot be stored as double"):
        read(frame, tmp_path / "zones.parquet")


def test_of_several_names_most_rows_decide(read: Callable[..., Geography]) -> None:
    frame = table(wardname=["B", "A", "B", "D", "C", None])
    geography = read(frame)
    assert geography.names["ward"].tolist() == ["B", "C"]  # C and D have a row each
    assert geography.repairs == ("level ward: 2 units have several names; most rows decide",)
    assert read(frame.iloc[::-1]).names["ward"].tolist() == ["B", "C"]


def test_rows_whose_code_was_repaired_are_not_asked(demo_region: dict[str, Path], tmp_path: Path) -> None:
    frame = pd.read_csv(demo_region["crosswalk"], dtype="str")
    wrong = frame["trct"].isin(frame["trct"].unique()[:1]) & (np.arange(len(frame)) % 20 == 0)
    frame.loc[wrong, ["cty", "ctyname"]] = ["99999", "Elsewhere"]
    path = tmp_path / "x.csv"
    frame.to_csv(path, index=False)
    geography = read_crosswalk(
        path, block="tabblk2010", levels=("st", "cty"), centroid=("blklatdd", "blklondd")
    )
    assert len(geography.repairs) == 1  # of the code; the names agree
    assert "Elsewhere" not in geography.names["cty"]


def test_what_is_no_name(read: Callable[..., Geography], tmp_path: Path) -> None:
    geography = read(table(wardname=[" \t ", None, "", "W2", "W2", "W2"]))
    assert geography.names == {}  # blanks; the code once more
    formulas = [
        "=HYPERLINK(1)",
        "-1+1",
        "+1",
        "@sum",
        " =- A",
        "A-B=C",
    ]  # a spreadsheet would calculate these
    assert [*clean_names(pd.Series(formulas))] == ["HYPERLINK(1)", "1+1", "1", "sum", "A", "A-B=C"]
    frame = table(wardname=["  Two\n lines\x00 ", "Two lines", None, None, None, None])
    frame = frame.astype({"lat": float, "lon": float})
    frame.to_parquet(tmp_path / "zones.parquet")  # in CSV, a row is a line
    geography = read(frame, tmp_path / "zones.parquet")
    assert geography.names["ward"].tolist() == ["Two lines", ""]
    assert geography.repairs == ()


def test_outside_areas_have_no_name(demo_region: dict[str, Path]) -> None:
    geography = read_crosswalk(
        demo_region["crosswalk"],
        block="tabblk2010",
        levels=("st", "cty"),
        centroid=("blklatdd", "blklondd"),
        external_zones=("01", "99"),
    )
    assert geography.codes("st").tolist() == ["01", "03", "99"]
    assert geography.names["st"].tolist() == ["", "Demo State", ""]
    assert geography.names["cty"].tolist() == ["", "Centre County, DM", "Shore County 1, DM", ""]


def test_names_of_a_file_of_polygons(tmp_path: Path) -> None:
    path = tmp_path / "zones.geojson"
    frame = gpd.GeoDataFrame(
        {"zone": ["Z2", "Z1", "Z9"], "zonename": [HOSTILE, None, "Nine"], "ward": ["W"] * 3},
        geometry=[shapely.box(x, 0, x + 1, 1) for x in range(3)],
        crs="EPSG:4326",
    )
    frame.to_file(path)
    geography = read_crosswalk(path, block="zone", levels=("ward",))
    assert geography.names["zone"].tolist() == ["", HOSTILE, "Nine"]
    assert read_crosswalk(path, block="zone", levels=(), names={}).names == {}
    frame.iloc[[2, 0, 1]].to_file(path)
    polygons = read_polygons(path, geography, level="zone", code="zone", name="zonename")
    assert polygons.names is not None
    assert polygons.names.tolist() == ["", HOSTILE, "Nine"]
    assert read_polygons(path, geography, level="zone", code="zone").names is None


LABELS = st.one_of(st.none(), st.sampled_from(["a", "b", " a ", "b\n", "", "U1", "c"]))


@given(st.lists(st.lists(LABELS, min_size=1, max_size=6), min_size=1, max_size=5))
def test_the_rule_in_plain_words(units: list[list[str | None]]) -> None:
    """The same as counting the rows of each unit, one by one."""
    rows = pd.Series([name for unit in units for name in unit], dtype="object").astype("category")
    starts = np.cumsum([0, *map(len, units[:-1])]).astype(np.int32)
    codes = np.array([f"U{i}" for i in range(len(units))], object)
    names, several = unit_names(rows, codes, starts)
    expected, more = [], 0
    for code, unit in zip(codes, units, strict=True):
        counts = pd.Series([" ".join(name.split()) for name in unit if name and name.strip()]).value_counts()
        most = min(counts[counts == counts.max()].index, default="")
        expected.append("" if most == code else most)
        more += len(counts) > 1
    assert names.tolist() == expected
    assert several == more
