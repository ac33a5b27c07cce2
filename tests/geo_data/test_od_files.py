"""Writing OD tables: LODES's own bytes, whatever the size of the file."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import Geography
from geo_data.lodes import LODES_COLUMNS
from geo_data.od_files import LODES_CATEGORIES, od_rows, write_od_csv

GOLDEN = """\
w_geocode,h_geocode,S000,SA01,SA02,SA03,SE01,SE02,SE03,SI01,SI02,SI03,createdate
030010001001001,030010001001001,2,1,0,1,0,2,0,1,1,0,20211018
030010001001001,030010001001003,1,0,1,0,0,0,1,0,0,1,20211018
030010001001002,030010001001001,1,0,0,1,1,0,0,1,0,0,20211018
"""


def geography(blocks) -> Geography:
    zeros = np.zeros(len(blocks))
    return Geography("tabblk2010", pa.array(blocks), (), (), (), zeros, zeros)


def golden_jobs():
    places = geography(["030010001001001", "030010001001002", "030010001001003"])
    work, home = np.array([1, 0, 0, 0], dtype=np.int32), np.array([0, 2, 0, 0], dtype=np.int32)
    codes = {"SA": [2, 1, 0, 2], "SE": [0, 2, 1, 1], "SI": [0, 2, 1, 0]}
    return places, work, home, {name: np.array(values, dtype=np.uint8) for name, values in codes.items()}


def od_table(*jobs) -> pd.DataFrame:
    return od_rows(*jobs).to_pandas()


def written(table, **options) -> bytes:
    buffer = io.BytesIO()
    write_od_csv(table, buffer, **{"createdate": "20211018", **options})
    return buffer.getvalue()


def test_golden_bytes():
    data = written(od_table(*golden_jobs(), LODES_CATEGORIES))
    assert gzip.decompress(data).decode() == GOLDEN
    # No flags (so no file name), no time: the same table is the same file anywhere and any time.
    assert data[:8] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00"


def test_path_and_file_object_give_the_same(tmp_path):
    table = od_table(*golden_jobs(), LODES_CATEGORIES)
    write_od_csv(table, tmp_path / "some_name.csv.gz", createdate="20211018")
    write_od_csv(table, str(tmp_path / "other.csv.gz"), createdate="20211018")
    expected = written(table)
    assert (tmp_path / "some_name.csv.gz").read_bytes() == expected
    assert (tmp_path / "other.csv.gz").read_bytes() == expected


def test_members_make_one_file():
    table = od_table(*golden_jobs(), LODES_CATEGORIES)
    data = written(table[:1]) + written(table[1:], header=False)
    assert gzip.decompress(data).decode() == GOLDEN


def test_other_attributes_carry_their_name():
    places, work, home, codes = golden_jobs()
    categories = {"mode": ("bus", "car"), "SA": ("young", "middle", "old")}
    table = od_table(places, work, home, {"mode": codes["SI"] > 0, "SA": codes["SA"]}, categories)
    assert list(table.columns[3:]) == ["mode_bus", "mode_car", "SA_young", "SA_middle", "SA_old"]
    assert table["mode_car"].tolist() == [1, 1, 0]


def test_rows_follow_the_geography_even_where_that_is_not_the_order_of_codes():
    places = geography(["z1", "a1", "m1"])  # as after sorting by a level that is no prefix
    table = od_table(places, np.array([2, 0, 1, 2]), np.array([1, 1, 0, 0]), {}, {})
    assert table["w_geocode"].tolist() == ["z1", "a1", "m1", "m1"]
    assert table["h_geocode"].tolist() == ["a1", "z1", "z1", "a1"]


def test_no_jobs():
    empty = np.array([], dtype=np.int32)
    table = od_table(geography(["a"]), empty, empty, dict.fromkeys(LODES_CATEGORIES, empty), LODES_CATEGORIES)
    assert gzip.decompress(written(table)).decode() == ",".join(LODES_COLUMNS) + "\n"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=40))
def test_counts_agree_with_pandas(jobs):
    places = geography(["a", "b", "c", "d"])
    work, home, codes = (np.array(column) for column in zip(*jobs, strict=True))
    table = od_table(places, work, home, {"k": codes}, {"k": ("x", "y", "z")})
    frame = pd.DataFrame({"w": places.blocks[work], "h": places.blocks[home], "k": codes})
    expected = frame.groupby(["w", "h"]).k.agg([len, *(lambda s, c=c: (s == c).sum() for c in range(3))])
    assert table.set_index(["w_geocode", "h_geocode"]).to_numpy().tolist() == expected.to_numpy().tolist()
    assert list(zip(table.w_geocode, table.h_geocode, strict=True)) == list(expected.index)


def test_bad_arrays():
    places, work, home, codes = golden_jobs()
    with pytest.raises(ValueError, match="differ in length"):
        od_table(places, work, home[1:], codes, LODES_CATEGORIES)
    with pytest.raises(ValueError, match=r"block numbers must lie in \[0, 3\)"):
        od_table(places, work - 1, home, codes, LODES_CATEGORIES)
    with pytest.raises(ValueError, match=r"block numbers must lie in \[0, 3\)"):
        od_table(places, work, home + 1, codes, LODES_CATEGORIES)
    with pytest.raises(ValueError, match=r"codes of SA must lie in \[0, 3\)"):
        od_table(places, work, home, {**codes, "SA": codes["SA"] + 1}, LODES_CATEGORIES)
    with pytest.raises(ValueError, match="different attributes"):
        od_table(places, work, home, {}, LODES_CATEGORIES)
    with pytest.raises(ValueError, match=r"two columns .* have the same name"):
        od_table(places, work, home, {"h": codes["SA"] % 2}, {"h": ("geocode", "other")})


def test_numbers_of_any_size():
    numbers = {"S000": [0, 9, 999], "SA01": [1, 1000, 2**62], "SA02": [-1, 5, 0]}
    text = gzip.decompress(written(pa.table(numbers), header=False)).decode()
    assert text == "0,1,-1,20211018\n9,1000,5,20211018\n999,4611686018427387904,0,20211018\n"


def test_rows_after_an_empty_chunk_follow_nothing_else():
    written(pa.table({"w_geocode": ["what was written before"] * 2000}), header=False)
    chunks = pa.chunked_array([pa.array([], pa.int64()), pa.array([5, 1000]), pa.array([], pa.int64())])
    text = gzip.decompress(written(pa.table({"S000": chunks}), header=True)).decode()
    assert text == "S000,createdate\n5,20211018\n1000,20211018\n"


@pytest.mark.parametrize("date", ["2021-10-18", "", "today", "202110181"])
def test_bad_date(date):
    with pytest.raises(ValueError, match="eight digits"):
        written(od_table(*golden_jobs(), LODES_CATEGORIES), createdate=date)


@pytest.mark.parametrize("code", ["CANARY,1", 'CANARY"', "CANARY\n"])
def test_codes_that_would_need_quotes(code):
    table = od_table(geography([code]), np.array([0]), np.array([0]), {}, {})
    with pytest.raises(ValueError, match="a comma, a quote or a line break") as caught:
        written(table)
    assert "CANARY" not in str(caught.value)
    assert caught.value.__context__ is None
    with pytest.raises(ValueError, match="a column name contains"):
        written(table.rename(columns={"S000": "S,000"}))
