"""Auxiliary flows: any level on either side, rows from elsewhere reported, wrong tables refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from geo_data import Geography, InputError, read_crosswalk, read_flows

HEADER = "h_county,w_county,flow,moe\n"
NAMES = {
    "origin": "h_county",
    "origin_level": "cty",
    "destination": "w_county",
    "destination_level": "cty",
    "flow": "flow",
}


def test_levels_may_differ(demo_geography, write):
    tract = demo_geography.codes("trct")[4]
    block = demo_geography.blocks[17]
    path = write(f'from,extra,to,jobs\n{tract},?,{block},"1,234.5"\n')
    flows = read_flows(
        path,
        demo_geography,
        origin="from",
        origin_level="trct",
        destination="to",
        destination_level="tabblk2010",
        flow="jobs",
    )
    assert (flows.origin.tolist(), flows.destination.tolist(), flows.flow.tolist()) == ([4], [17], [1234.5])
    assert flows.origin.dtype == flows.destination.dtype == np.int32
    assert (flows.origin_level, flows.destination_level) == ("trct", "tabblk2010")
    assert flows.source == str(path)
    assert len(flows) == 1


def test_rows_outside_are_dropped_and_counted(demo_geography, write):
    path = write(
        HEADER + "03001,03001,10,1\n99001,03001,5,1\n03001,99001,6,1\n99001,99001,7,1\n03003,03001,0,1\n"
    )
    flows = read_flows(path, demo_geography, **NAMES)
    assert flows.dropped == {"origin": 2, "destination": 2, "rows": 3}
    assert flows.flow.tolist() == [10.0, 0.0]
    assert flows.origin.tolist() == [0, 1]
    assert "2 pairs cty to cty, 10 in all; 3 rows outside the geography" in repr(flows)


def test_demo_tables(demo_region, demo_geography):
    flows = read_flows(demo_region["county_flows"], demo_geography, **NAMES)
    elsewhere = pd.read_csv(demo_region["county_flows"], dtype="str")["h_county"].str[:2] != "03"
    assert flows.dropped["rows"] == elsewhere.sum() > 0
    assert flows.flow.sum() > 0


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        ("03001,03001,-5,1\n", "flows are negative", "flow", 1),
        ("03001,03001,0.6,1\n03003,03001,0.4,1\n", "all flows are below 1: shares", "flow", None),
        ("99001,03001,-5,1\n03001,03001,5,1\n", "flows are negative", "flow", 1),
        ("03001,03001,,1\n", "missing or blank", "flow", 1),
        ("03001,03001,CANARY,1\n", "not finite numbers", "flow", 1),
        ("03001,03001,5,1\n03001,03001,6,1\n", "rows repeat a pair", None, 1),
        ("99001,99001,5,1\n99001,99001,6,1\n03001,03001,1,1\n", "rows repeat a pair", None, 1),
        (",03001,5,1\n", "missing or blank", "h_county", 1),
        ("3001,03001,5,1\n3001,03003,5,1\n", "lost their leading zeros", "h_county", 2),
        ("03001,3003,5,1\n03001,03003,5,1\n", "lost their leading zeros", "w_county", 1),
        ("0500000US03001,03001,5,1\n", "begin with a summary level", "h_county", 1),
        ("03001.0,03001,5,1\n", "decimal numbers", "h_county", 1),
        ("99001,99001,5,1\n", "no row has origin and destination in the geography (cty to cty)", None, None),
    ],
)
def test_bad_tables(demo_geography, write, refused, rows, match, column, count):
    path = write(HEADER + rows)
    with refused(path, match, column=column, count=count):
        read_flows(path, demo_geography, **NAMES)


def test_codes_of_another_level(demo_region, demo_geography, refused):
    path = demo_region["county_flows"]
    with refused(path, "no row has origin and destination in the geography (trct to cty)"):
        read_flows(path, demo_geography, **{**NAMES, "origin_level": "trct"})


def test_bad_names(demo_region, demo_geography, refused):
    path = demo_region["county_flows"]
    with pytest.raises(ValueError, match="no level 'county'; the geography has: st, cty"):
        read_flows(path, demo_geography, **{**NAMES, "origin_level": "county"})
    with refused(path, "one column is named for two purposes: w_county"):
        read_flows(path, demo_geography, **{**NAMES, "origin": "w_county"})
    with refused(path, "missing columns: workers; the file has: h_county, w_county, flow, moe"):
        read_flows(path, demo_geography, **{**NAMES, "flow": "workers"})


# --- margins of error

MARGIN = {**NAMES, "margin": "moe"}


def test_margins_become_standard_errors(demo_geography, write):
    path = write(
        HEADER + '03001,03001,"1,000","+/-1,645"\n03001,03003,20,+/-56\n03003,03001,0,\n03003,03003,7,***\n'
    )
    flows = read_flows(path, demo_geography, **MARGIN)
    assert flows.flow.tolist() == [1000.0, 20.0, 0.0, 7.0]
    assert flows.standard_error.dtype == np.float64
    np.testing.assert_allclose(flows.standard_error, [1000.0, 56 / 1.645, np.nan, np.nan])
    assert read_flows(path, demo_geography, **NAMES).standard_error is None


def test_margins_of_parquet_numbers(demo_geography, tmp_path):
    path = tmp_path / "f.parquet"
    table = {"h_county": ["03001", "03003"], "w_county": ["03001", "03001"], "flow": [5, 6]}
    pd.DataFrame({**table, "moe": [32.9, None]}).to_parquet(path)
    flows = read_flows(path, demo_geography, **MARGIN)
    np.testing.assert_allclose(flows.standard_error, [20.0, np.nan])


@pytest.mark.parametrize(
    ("rows", "match", "count"),
    [
        ("03001,03001,5,-1\n03001,03003,5,+/--2\n", "margins of error are negative", 2),
        ("03001,03001,5,CANARY\n03001,03003,5,+/-\n", "not finite numbers", 1),
        ("03001,03001,5,inf\n03001,03003,5,1e3\n", "not finite numbers", 1),
        ('03001,03001,5,"1,5"\n', "not finite numbers", 1),
    ],
)
def test_bad_margins(demo_geography, write, refused, rows, match, count):
    path = write(HEADER + rows)
    with refused(path, match, column="moe", count=count):
        read_flows(path, demo_geography, **MARGIN)


def test_a_column_may_not_be_flow_and_margin(demo_region, demo_geography, refused):
    path = demo_region["county_flows"]
    with refused(path, "one column is named for two purposes: flow"):
        read_flows(path, demo_geography, **{**MARGIN, "margin": "flow"})


def test_one_or_a_thousand_workers(demo_geography, write):
    path = write(HEADER + "03001,03001,1.000,1.000\n03001,03003,12.345,2.125\n")
    with pytest.raises(InputError, match="as one or a thousand is"):
        read_flows(path, demo_geography, **MARGIN)
    assert read_flows(path, demo_geography, **MARGIN, decimal_point=True).flow.tolist() == [1, 12.345]


# --- external zones


@pytest.fixture
def wide(demo_region: dict[str, Path]) -> Geography:
    """The demo region with all other states as external zones."""
    return read_crosswalk(
        demo_region["crosswalk"],
        block="tabblk2010",
        levels=("st", "cty", "trct", "bgrp"),
        latitude="blklatdd",
        longitude="blklondd",
        external_zones=["us-states"],
    )


def test_variances_of_one_outside_area_add(wide, write):
    rows = [
        "25001,03001,100,16.45",  # 10 and 7.5 workers of standard error: together 12.5
        "25003,03001,50,12.3375",
        "09001,03001,36,",  # unknown beside known: as the model takes it, its size is its variance
        "09003,03001,40,13.16",
        "36001,03001,5,***",  # all unknown
        "36005,03001,6,",
        "03001,03001,9,1.645",
    ]
    flows = read_flows(write(HEADER + "\n".join(rows) + "\n"), wide, **MARGIN)
    found = {
        str(wide.codes("cty")[home]): (flow, error)
        for home, flow, error in zip(flows.origin, flows.flow, flows.standard_error, strict=True)
    }
    assert found.keys() == {"03001", "09999", "25999", "36999"}
    assert found["25999"] == (150.0, pytest.approx(12.5))
    assert found["09999"] == (76.0, pytest.approx((36 + 8**2) ** 0.5))
    assert found["03001"] == (9.0, pytest.approx(1.0))
    assert found["36999"][0] == 11.0
    assert np.isnan(found["36999"][1])


def test_nobody_works_in_an_outside_area(wide, write, refused):
    path = write(HEADER + "03001,25001,9,1\n25001,25001,8,1\n25001,03001,7,1\n")
    flows = read_flows(path, wide, **NAMES)
    assert flows.flow.tolist() == [7.0]
    assert flows.dropped == {"origin": 0, "destination": 2, "rows": 2}
    path = write(HEADER + "03001,25001,9,1\n25001,25001,8,1\n")
    with refused(path, "no row has origin and destination in the geography (cty to cty)"):
        read_flows(path, wide, **NAMES)


def test_lost_zeros_are_not_another_state(wide, write, refused):
    """County 4013 begins like Oklahoma (40) and is 04013, in Arizona; county 3001 is of the region itself."""
    path = write(HEADER + "4013,03001,5,1\n3001,03001,5,1\n25001,03001,5,1\n25,03001,5,1\n")
    with refused(path, "lost their leading zeros", column="h_county", count=2):
        read_flows(path, wide, **NAMES)
    flows = read_flows(write(HEADER + "25001,03001,5,1\n25,03001,3,1\n"), wide, **NAMES)
    assert flows.flow.tolist() == [8.0]  # the code of an area itself is a short code, and right


@pytest.mark.parametrize("total", ["25", "25000"])
def test_a_total_beside_its_parts_would_count_twice(wide, write, refused, total):
    parts = "25001,03001,60,1\n25003,03003,40,1\n09001,03001,5,1\n"
    for flow in (100, 95):  # of what is suppressed, the total has more; of estimates, less
        path = write(HEADER + parts + f"{total},03001,{flow},1\n")
        with refused(path, f"{total} seems to be the total of 25001", column="h_county"):
            read_flows(path, wide, **NAMES)
    rest = read_flows(write(HEADER + parts + f"{total},03001,7,1\n"), wide, **NAMES)  # no county known
    assert sorted(rest.flow) == [5, 40, 67]
    alone = read_flows(write(HEADER + f"{total},03001,7,1\n09001,03001,5,1\n"), wide, **NAMES)
    assert sorted(alone.flow) == [5, 7]


# --- codes in several columns

PARTS = "hs,hc,ws,wc,n\n"
JOIN = {
    "origin": ["hs", "hc"],
    "origin_level": "cty",
    "destination": ("ws", "wc"),
    "destination_level": "cty",
    "flow": "n",
}


def test_codes_in_several_columns_are_joined(demo_geography, write):
    path = write(PARTS + "03,001,03,003,5\n03,003,03,003,6\n25,017,03,003,7\n")
    flows = read_flows(path, demo_geography, **JOIN)
    assert (flows.origin.tolist(), flows.destination.tolist()) == ([0, 1], [1, 1])
    assert flows.flow.tolist() == [5.0, 6.0]
    assert flows.dropped["rows"] == 1
    single = read_flows(path, demo_geography, **{**JOIN, "destination": ["ws"], "destination_level": "st"})
    assert single.flow.tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        # In some rows of the column, in all of them, in the other column.
        ("03,1,03,001,5\n03,013,03,001,5\n03,3,03,001,5\n", "shorter than others of this column", "hc", 2),
        ("03,1,03,001,5\n03,3,03,001,5\n", "joined codes that are not of 5 characters", "hs + hc", 2),
        ("3,001,03,001,5\n25,001,03,001,5\n", "shorter than others of this column", "hs", 1),
        ("03,001,3,001,5\n03,003,3,001,5\n", "joined codes that are not of 5 characters", "ws + wc", 2),
        ("03,001,003,001,5\n", "or a state of three digits?", "ws + wc", 1),
        ("03,,03,001,5\n", "missing or blank", "hc", 1),
        ("03,001,03,001,5\n03,001,03,001,6\n", "rows repeat a pair", None, 1),
        ("25,001,03,001,5\n", "no row has origin and destination in the geography", None, None),
    ],
)
def test_bad_joined_codes(demo_geography, write, refused, rows, match, column, count):
    path = write(PARTS + rows)
    with refused(path, match, column=column, count=count):
        read_flows(path, demo_geography, **JOIN)


def test_columns_are_joined_for_one_purpose(write, demo_geography, refused):
    path = write(PARTS + "03,001,03,001,5\n")
    with refused(path, "one column is named for two purposes: hs"):
        read_flows(path, demo_geography, **{**JOIN, "destination": ["hs", "wc"]})


# --- real data
