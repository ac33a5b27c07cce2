"""Auxiliary flows: any level on either side, rows from elsewhere reported, wrong tables refused."""

from __future__ import annotations

import numpy as np
import pytest

from geo_data import Geography, LodesJobs, read_flows, read_lodes_flows

HEADER = "h_county,w_county,flow,moe\n"
NAMES = {
    "origin": "h_county",
    "destination": "w_county",
    "levels": ("cty", "cty"),
    "flow": "flow",
}


def test_levels_may_differ(demo_geography, write):
    tract = demo_geography.codes("trct")[4]
    block = demo_geography.blocks[17]
    path = write(f'from,extra,to,jobs\n{tract},?,{block},"1,234.5"\n')
    flows = read_flows(
        path,
        demo_geography,
        ("trct", "tabblk2010"),
        origin="from",
        destination="to",
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


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        ("03001,03001,-5,1\n", "flows are negative", "flow", 1),
        ("03001,03001,0.6,1\n03003,03001,0.4,1\n", "all flows are below 1, as shares are", "flow", None),
        ("99001,03001,-5,1\n03001,03001,5,1\n", "flows are negative", "flow", 1),
        ("03001,03001,5,1\n03001,03001,6,1\n", "rows repeat a pair", None, 1),
        ("99001,99001,5,1\n99001,99001,6,1\n03001,03001,1,1\n", "rows repeat a pair", None, 1),
        ("3001,03001,5,1\n3001,03003,5,1\n", "lost their leading zeros", "h_county", 2),
        ("03001,3003,5,1\n03001,03003,5,1\n", "lost their leading zeros", "w_county", 1),
        ("0500000US03001,03001,5,1\n", "begin with a summary level", "h_county", 1),
        ("99001,99001,5,1\n", "no row has origin and destination in the geography (cty to cty)", None, None),
    ],
)
def test_bad_tables(demo_geography, write, refused, rows, match, column, count):
    path = write(HEADER + rows)
    with refused(path, match, column=column, count=count):
        read_flows(path, demo_geography, **NAMES)


def test_bad_names(demo_region, demo_geography, refused):
    path = demo_region["county_flows"]
    with pytest.raises(ValueError, match="no level 'county'; the geography has: st, cty"):
        read_flows(path, demo_geography, **{**NAMES, "levels": ("county", "cty")})
    for twice in ({"origin": "w_county"}, {"origin": ["h_county", "w_county"]}, {"margin": "w_county"}):
        with refused(path, "one column is named for two purposes: w_county"):
            read_flows(path, demo_geography, **NAMES | twice)
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


@pytest.mark.parametrize(
    ("rows", "match", "count"),
    [
        ("03001,03001,5,-1\n03001,03003,5,+/--2\n", "margins of error are negative", 2),
        ("03001,03001,5,CANARY\n03001,03003,5,+/-\n", "not finite numbers", 1),
        ("03001,03001,5,inf\n03001,03003,5,1e3\n", "not finite numbers", 1),
    ],
)
def test_bad_margins(demo_geography, write, refused, rows, match, count):
    path = write(HEADER + rows)
    with refused(path, match, column="moe", count=count):
        read_flows(path, demo_geography, **MARGIN)


# --- external zones


@pytest.fixture
def wide(demo_region, read_geography):
    """The demo region with all other states as external zones."""
    return read_geography(demo_region["crosswalk"], external_zones=("us-states",))


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
    "destination": ("ws", "wc"),
    "levels": ("cty", "cty"),
    "flow": "n",
}


def test_codes_in_several_columns_are_joined(demo_geography, write):
    path = write(PARTS + "03,001,03,003,5\n03,003,03,003,6\n25,017,03,003,7\n")
    flows = read_flows(path, demo_geography, **JOIN)
    assert (flows.origin.tolist(), flows.destination.tolist()) == ([0, 1], [1, 1])
    assert flows.flow.tolist() == [5.0, 6.0]
    assert flows.dropped["rows"] == 1
    single = read_flows(path, demo_geography, **{**JOIN, "destination": ["ws"], "levels": ("cty", "st")})
    assert single.flow.tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        # In some rows of the column, in all of them, in the other column.
        ("03,1,03,001,5\n03,013,03,001,5\n03,3,03,001,5\n", "shorter than others of this column", "hc", 2),
        ("03,1,03,001,5\n03,3,03,001,5\n", "joined codes that do not have the 5 characters of", "hs + hc", 2),
        ("3,001,03,001,5\n25,001,03,001,5\n", "shorter than others of this column", "hs", 1),
        (
            "03,001,3,001,5\n03,003,3,001,5\n",
            "joined codes that do not have the 5 characters of",
            "ws + wc",
            2,
        ),
        ("03,001,003,001,5\n", "a state has two digits", "ws + wc", 1),
    ],
)
def test_bad_joined_codes(demo_geography, write, refused, rows, match, column, count):
    path = write(PARTS + rows)
    with refused(path, match, column=column, count=count):
        read_flows(path, demo_geography, **JOIN)


LODES_HEADER = "w_geocode,h_geocode,S000,more\n"
LEVELS = ("st", "cty", "trct", "bgrp")
TRACTS = "trct", "trct"


@pytest.fixture
def blocks(demo_geography: Geography) -> list[str]:
    return [str(code) for code in demo_geography.blocks]


def lodes(*rows: tuple[str, str, object]) -> str:
    return LODES_HEADER + "".join(f"{work},{home},{jobs},?\n" for work, home, jobs in rows)


def test_demo_release_agrees_with_its_records(demo_region, demo_geography):
    flows = read_lodes_flows(demo_region["od"], demo_geography, ("trct", "cty"))
    records = LodesJobs(demo_region["od"], demo_geography).records()
    table = np.zeros((6, 2))
    home, work = demo_geography.unit_of("trct", records.home), demo_geography.unit_of("cty", records.work)
    np.add.at(table, (home, work), 1)
    assert len(flows) == np.count_nonzero(table)
    np.testing.assert_array_equal(flows.flow, table[flows.origin, flows.destination])
    assert flows.flow.sum() == len(records) == 600
    assert (flows.origin_level, flows.destination_level) == ("trct", "cty")
    assert flows.dropped == {"origin": 0, "destination": 0, "rows": 0}
    assert flows.standard_error is None
    assert flows.origin.dtype == flows.destination.dtype == np.int32
    assert flows.source == str(demo_region["od"])


def test_rows_outside_are_counted(write, demo_geography, blocks):
    rows = [
        (blocks[0], blocks[1], 1),
        (blocks[0], "250010101001001", 2),
        ("250010101001001", blocks[0], 3),
        ("250010101001001", "250010101001001", 4),
    ]
    flows = read_lodes_flows(write(lodes(*rows)), demo_geography, TRACTS)
    assert flows.flow.tolist() == [1.0]
    assert flows.dropped == {"origin": 2, "destination": 2, "rows": 3}


def test_homes_of_the_aux_file_are_in_outside_areas(write, read_geography, demo_region, blocks):
    wide = read_geography(demo_region["crosswalk"], external_zones=("25", "25017"))
    main = write(lodes((blocks[0], blocks[1], 1), (blocks[-1], blocks[-1], 4)), "main.csv")
    aux = write(
        lodes(
            (blocks[0], "250010101001001", 10),
            (blocks[1], "250030101001001", 20),
            (blocks[0], "250170101001001", 40),
            (blocks[0], "360010101001001", 80),
        ),
        "aux.csv.gz",
    )
    flows = read_lodes_flows(main, wide, ("cty", "st"), aux=aux)
    found = dict(zip(wide.codes("cty")[flows.origin], flows.flow, strict=True))
    assert found == {"03001": 1, "03003": 4, "25999": 30, "25017": 40}
    assert flows.dropped == {"origin": 1, "destination": 0, "rows": 1}
    assert flows.source == str(main)


def test_the_release_of_another_state(write, read_geography, demo_region, demo_geography, refused):
    path = write(lodes(("250010101001001", "250010101001001", 3)))
    for geography in (
        demo_geography,
        read_geography(demo_region["crosswalk"], external_zones=("us-states",)),
    ):
        with refused(path, "no row has origin and destination in the geography (trct to trct)"):
            read_lodes_flows(path, geography, TRACTS)


def test_another_census_is_not_taken_for_an_outside_area(write, read_geography, demo_region, blocks, refused):
    wide = read_geography(demo_region["crosswalk"], external_zones=("03005",))
    path = write(lodes((blocks[0], f"{blocks[0][:11]}9999", 1), (blocks[0], blocks[1], 1)))
    with refused(path, "as in a file of another vintage", column="h_geocode", count=1):
        read_lodes_flows(path, wide, TRACTS)
    path = write(lodes((blocks[0], "030050101001001", 1), (blocks[0], blocks[1], 1)))
    flows = read_lodes_flows(path, wide, ("cty", "cty"))
    assert wide.codes("cty")[flows.origin].tolist() == ["03001", "03005"]


@pytest.mark.parametrize(
    ("row", "match", "column", "count"),
    [
        ("{b},{a},-1,?", "not whole numbers", "S000", 1),
        ("{a},{a},1,?", "rows repeat a pair", None, 1),
        ("{b},{short},1,?", "lost their leading zeros", "h_geocode", 1),
        ("{short},{b},1,?", "lost their leading zeros", "w_geocode", 1),
    ],
    ids=range(4),
)
def test_bad_files(write, demo_geography, blocks, refused, row, match, column, count):
    a, b = blocks[:2]
    path = write(lodes((a, a, 1)) + row.format(a=a, b=b, short=a.lstrip("0")) + "\n")
    with refused(path, match, column=column, count=count):
        read_lodes_flows(path, demo_geography, TRACTS)


def test_faults_of_the_aux_file_name_it(write, demo_geography, blocks, refused):
    main = write(lodes((blocks[0], blocks[1], 1)), "main.csv")
    aux = write(lodes((blocks[0], blocks[1], "x")), "aux.csv")
    with refused(aux, "not whole numbers", column="S000", count=1):
        read_lodes_flows(main, demo_geography, TRACTS, aux=aux)
    with refused(main, "one file is named as the main and as the aux file"):
        read_lodes_flows(main, demo_geography, TRACTS, aux=str(main))
