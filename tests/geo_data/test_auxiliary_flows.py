"""Auxiliary flows: any level on either side, rows from elsewhere reported, wrong tables refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from geo_data import read_flows

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
    assert flows.dropped["rows"] == 0
    assert flows.flow.sum() > 0


def test_parquet_gives_the_same(demo_region, demo_geography, tmp_path):
    path = tmp_path / "f.parquet"
    pd.read_csv(demo_region["county_flows"], dtype={"h_county": "str", "w_county": "str"}).to_parquet(path)
    one, two = (read_flows(p, demo_geography, **NAMES) for p in (demo_region["county_flows"], path))
    assert one.origin.tolist() == two.origin.tolist()
    assert one.flow.tolist() == two.flow.tolist()


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        ("03001,03001,-5,1\n", "flows are negative", "flow", 1),
        ("99001,03001,-5,1\n03001,03001,5,1\n", "flows are negative", "flow", 1),
        ("03001,03001,,1\n", "missing or blank", "flow", 1),
        ("03001,03001,CANARY,1\n", "not finite numbers", "flow", 1),
        ("03001,03001,5,1\n03001,03001,6,1\n", "rows repeat a pair", None, 1),
        ("99001,99001,5,1\n99001,99001,6,1\n03001,03001,1,1\n", "rows repeat a pair", None, 1),
        (",03001,5,1\n", "missing or blank", "h_county", 1),
        ("3001,03001,5,1\n3001,03003,5,1\n", "lost their leading zeros", "h_county", 2),
        ("03001,3003,5,1\n03001,03003,5,1\n", "lost their leading zeros", "w_county", 1),
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
    with refused(path, "one column is named for origin and destination"):
        read_flows(path, demo_geography, **{**NAMES, "origin": "w_county"})
    with refused(path, "missing columns: workers; the file has: h_county, w_county, flow, moe"):
        read_flows(path, demo_geography, **{**NAMES, "flow": "workers"})
