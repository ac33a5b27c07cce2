"""An earlier LODES release as an auxiliary table: added up, checked for its vintage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from geo_data import Geography, LodesJobs, read_crosswalk, read_lodes_flows

HEADER = "w_geocode,h_geocode,S000,more\n"
LEVELS = ("st", "cty", "trct", "bgrp")
TRACTS = {"origin_level": "trct", "destination_level": "trct"}


def read(path: Path, outside: Sequence[str] = ()) -> Geography:
    return read_crosswalk(
        path,
        block="tabblk2010",
        levels=LEVELS,
        latitude="blklatdd",
        longitude="blklondd",
        external_zones=outside,
    )


@pytest.fixture
def blocks(demo_geography: Geography) -> list[str]:
    return [str(code) for code in demo_geography.blocks]


def lodes(*rows: tuple[str, str, object]) -> str:
    return HEADER + "".join(f"{work},{home},{jobs},?\n" for work, home, jobs in rows)


def test_demo_release_agrees_with_its_records(demo_region, demo_geography):
    flows = read_lodes_flows(demo_region["od"], demo_geography, origin_level="trct", destination_level="cty")
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


def test_blocks_to_blocks(write, demo_geography, blocks):
    path = write(lodes((blocks[7], blocks[3], 2), (blocks[7], blocks[90], 5)))
    level = demo_geography.block_level
    flows = read_lodes_flows(path, demo_geography, origin_level=level, destination_level=level)
    assert (flows.origin.tolist(), flows.destination.tolist()) == ([3, 90], [7, 7])
    assert flows.flow.tolist() == [2.0, 5.0]


def test_rows_outside_are_counted(write, demo_geography, blocks):
    rows = [
        (blocks[0], blocks[1], 1),
        (blocks[0], "250010101001001", 2),
        ("250010101001001", blocks[0], 3),
        ("250010101001001", "250010101001001", 4),
    ]
    flows = read_lodes_flows(write(lodes(*rows)), demo_geography, **TRACTS)
    assert flows.flow.tolist() == [1.0]
    assert flows.dropped == {"origin": 2, "destination": 2, "rows": 3}


def test_homes_of_the_aux_file_are_in_outside_areas(write, demo_region, blocks):
    wide = read(demo_region["crosswalk"], ("25", "25017"))
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
    flows = read_lodes_flows(main, wide, origin_level="cty", destination_level="st", aux=aux)
    found = dict(zip(wide.codes("cty")[flows.origin], flows.flow, strict=True))
    assert found == {"03001": 1, "03003": 4, "25999": 30, "25017": 40}
    assert flows.dropped == {"origin": 1, "destination": 0, "rows": 1}
    assert flows.source == str(main)


def test_the_release_of_another_state(write, demo_region, demo_geography, refused):
    path = write(lodes(("250010101001001", "250010101001001", 3)))
    for geography in (demo_geography, read(demo_region["crosswalk"], ["us-states"])):
        with refused(path, "no row has origin and destination in the geography (trct to trct)"):
            read_lodes_flows(path, geography, **TRACTS)


@pytest.mark.parametrize("column", ["w_geocode", "h_geocode"])
def test_blocks_of_another_census(write, demo_geography, blocks, refused, column):
    """20 rows of which 2 are in the region's counties but no block of it; 18 elsewhere say nothing."""
    gone = [f"{block[:11]}9{i:03}" for i, block in enumerate(blocks[:2])]
    assert not set(gone) & set(blocks)
    codes = gone + blocks[2:20] + [f"2500101010{i:05}" for i in range(40)]
    other = blocks[100]
    pairs = [(code, other) if column == "w_geocode" else (other, code) for code in codes]
    path = write(lodes(*((*pair, 1) for pair in pairs)))
    match = "2 rows are in areas of the geography but in none of its tabblk2010 units"
    with refused(path, match, column=column, count=2):
        read_lodes_flows(path, demo_geography, **TRACTS)


def test_a_few_unknown_blocks_are_dropped(write, demo_geography, blocks):
    rows = [(blocks[i], blocks[i], 1) for i in range(19)] + [(blocks[0], f"{blocks[0][:11]}9999", 1)]
    flows = read_lodes_flows(write(lodes(*rows)), demo_geography, **TRACTS)  # 5 % are not more than 5 %
    assert flows.flow.sum() == 19
    assert flows.dropped == {"origin": 1, "destination": 0, "rows": 1}


def test_another_census_is_not_taken_for_an_outside_area(write, demo_region, blocks, refused):
    wide = read(demo_region["crosswalk"], ("03005",))
    path = write(lodes((blocks[0], f"{blocks[0][:11]}9999", 1), (blocks[0], blocks[1], 1)))
    with refused(path, "codes of another vintage?", column="h_geocode", count=1):
        read_lodes_flows(path, wide, **TRACTS)
    path = write(lodes((blocks[0], "030050101001001", 1), (blocks[0], blocks[1], 1)))
    flows = read_lodes_flows(path, wide, origin_level="cty", destination_level="cty")
    assert wide.codes("cty")[flows.origin].tolist() == ["03001", "03005"]


@pytest.mark.parametrize(
    ("row", "match", "column", "count"),
    [
        ("{b},{a},-1,?", "not whole numbers", "S000", 1),
        ("{b},{a},1.5,?", "not whole numbers", "S000", 1),
        ("{b},{a},CANARY,?", "not whole numbers", "S000", 1),
        ("{b},,1,?", "missing or blank", "h_geocode", 1),
        ("{a},{a},1,?", "rows repeat a pair", None, 1),
        ("{b},{short},1,?", "lost their leading zeros", "h_geocode", 1),
        ("{short},{b},1,?", "lost their leading zeros", "w_geocode", 1),
    ],
    ids=range(7),
)
def test_bad_files(write, demo_geography, blocks, refused, row, match, column, count):
    a, b = blocks[:2]
    path = write(lodes((a, a, 1)) + row.format(a=a, b=b, short=a.lstrip("0")) + "\n")
    with refused(path, match, column=column, count=count):
        read_lodes_flows(path, demo_geography, **TRACTS)


def test_faults_of_the_aux_file_name_it(write, demo_geography, blocks, refused):
    main = write(lodes((blocks[0], blocks[1], 1)), "main.csv")
    aux = write(lodes((blocks[0], blocks[1], "x")), "aux.csv")
    with refused(aux, "not whole numbers", column="S000", count=1):
        read_lodes_flows(main, demo_geography, **TRACTS, aux=aux)
    with refused(main, "one file is named as main and as aux file"):
        read_lodes_flows(main, demo_geography, **TRACTS, aux=str(main))


def test_bad_names(demo_region, demo_geography, refused):
    with pytest.raises(ValueError, match="no level 'tract'"):
        read_lodes_flows(demo_region["od"], demo_geography, origin_level="tract", destination_level="trct")
    path = demo_region["county_flows"]
    with refused(path, "missing columns: h_geocode, w_geocode, S000; the file has: 4 columns, none of these"):
        read_lodes_flows(path, demo_geography, **TRACTS)
