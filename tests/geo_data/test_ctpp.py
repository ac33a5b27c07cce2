"""CTPP flow tables: several summary levels, lines and tables in one file; each wrong file refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from geo_data import Geography, build_model, read_ctpp

HEADER = "GEOID,TBLID,LINENO,EST,MOE,SOURCE\n"
OWN, OTHER = "03001", "03003"  # counties of the demo region


def county(home: str, work: str, est: object, moe: object = "", line: int = 1, table: str = "A302100") -> str:
    return f'"C4300US{home}{work}","{table}","{line}","{est}","{moe}","ACS"\n'


@pytest.fixture
def tracts(demo_geography: Geography) -> list[str]:
    return [str(code) for code in demo_geography.codes("trct")]


@pytest.fixture
def mixed(write: Callable[..., Path], tracts: list[str]) -> Path:
    """A file with states, counties and tracts, as the tool writes them."""
    return write(
        HEADER
        + '"C4200US0303","A302100","1","1,234","+/-56","ACS"\n'
        + county(OWN, OWN, "1,000", "+/-1,645")
        + county(OWN, OTHER, 0, "+/-16.45")
        + county(OTHER, OWN, 20, "***")
        + county("25001", OWN, 30, "")
        + county(OWN, "25001", 40, 2)
        + f"C5400US{tracts[0]}{tracts[1]},A302100,1,70,+/-33,ACS\n"
        + f"C5400US{tracts[5]}{tracts[0]},A302100,1,15,12,ACS\n"
        + f"C5400US{tracts[5]}25001000100,A302100,1,15,12,ACS\n"
        + "0400000US03,A302100,1,9,9,ACS\n"  # not a flow
    )


def test_summary_levels_of_one_file(demo_geography, mixed):
    counties, tract = read_ctpp(mixed, demo_geography, {"C43": "cty", "C54": "trct"})
    assert (counties.origin_level, counties.destination_level) == ("cty", "cty")
    assert list(zip(counties.origin, counties.destination, counties.flow, strict=True)) == [
        (0, 0, 1000.0),
        (0, 1, 0.0),
        (1, 0, 20.0),
    ]
    np.testing.assert_allclose(counties.standard_error, [1000.0, 10.0, np.nan])
    assert counties.dropped == {"origin": 1, "destination": 1, "rows": 2}
    assert (tract.origin_level, tract.destination_level) == ("trct", "trct")
    assert list(zip(tract.origin, tract.destination, tract.flow, strict=True)) == [(0, 1, 70.0), (5, 0, 15.0)]
    np.testing.assert_allclose(tract.standard_error, np.array([33, 12]) / 1.645)
    assert tract.dropped == {"origin": 0, "destination": 1, "rows": 1}
    assert (counties.source, tract.source) == (f"{mixed} (C43)", f"{mixed} (C54)")
    assert not counties.same_jobs
    assert not tract.same_jobs
    assert counties.origin.dtype == counties.destination.dtype == np.int32
    assert counties.flow.dtype == counties.standard_error.dtype == np.float64


def test_only_named_levels_are_read_in_the_order_named(demo_geography, mixed):
    names = [t.origin_level for t in read_ctpp(mixed, demo_geography, {"C54": "trct", "C42": "st"})]
    assert names == ["trct", "st"]
    (states,) = read_ctpp(mixed, demo_geography, {"C42": "st"})
    assert states.flow.tolist() == [1234.0]


def test_parquet_may_hold_numbers(demo_geography, tmp_path):
    path = tmp_path / "t.parquet"
    ids = [f"C4300US{OWN}{OWN}", f"C4300US{OWN}{OTHER}"]
    table = {"GEOID": ids, "TBLID": "A302100", "LINENO": 1, "EST": [5, 6], "MOE": [16.45, None]}
    pd.DataFrame(table).to_parquet(path)
    (flows,) = read_ctpp(path, demo_geography, {"C43": "cty"})
    assert flows.flow.tolist() == [5.0, 6.0]
    np.testing.assert_allclose(flows.standard_error, [10.0, np.nan])


def test_other_lines_are_ignored_whatever_they_hold(demo_geography, write):
    rows = county(OWN, OWN, 10) + county(OWN, OWN, 6, line=2) + county(OWN, OWN, "CANARY", "x", line=3)
    (flows,) = read_ctpp(write(HEADER + rows), demo_geography, {"C43": "cty"})
    assert flows.flow.tolist() == [10.0]
    (flows,) = read_ctpp(write(HEADER + rows), demo_geography, {"C43": "cty"}, line=2)
    assert flows.flow.tolist() == [6.0]


def test_one_of_several_tables_is_named(demo_geography, write, refused):
    path = write(HEADER + county(OWN, OWN, 10) + county(OWN, OWN, "250,000+", table="A304100"))
    (flows,) = read_ctpp(path, demo_geography, {"C43": "cty"}, table="A302100")
    assert flows.flow.tolist() == [10.0]
    with refused(path, "2 tables are in this file", column="TBLID", count=2):
        read_ctpp(path, demo_geography, {"C43": "cty"})
    with refused(path, "no row has table A302103", column="TBLID"):
        read_ctpp(path, demo_geography, {"C43": "cty"}, table="A302103")


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        (county(OWN, OWN, -3) + county(OWN, OTHER, -4), "flows are negative", "EST", 2),
        (county(OWN, OWN, "CANARY") + county(OTHER, OWN, 4), "not finite numbers", "EST", 1),
        (county(OWN, OWN, ""), "not finite numbers", "EST", 1),
        (county(OWN, OWN, 3, -5), "margins of error are negative", "MOE", 1),
        (county(OWN, OWN, 3) * 2, "rows repeat a pair", None, 1),
        (county(OWN, OWN, 3, line=2) * 2, "no row has line 1", "LINENO", None),
        (county("3001", "3001", 3), "do not have two codes of 5 characters", "GEOID", 1),
        (county("3001", OWN, 3) + county(OWN, OWN, 3), "do not have two codes of 5 characters", "GEOID", 1),
        (county(OWN, OWN + "000100", 3) + county(OWN, OWN, 3), "two codes of 5 characters", "GEOID", 1),
        (county(OWN, OWN, 3).replace("00US", "10US"), "level C43; the file has: none", "GEOID", None),
        (county(OWN, OWN, 3).replace("C43", "C44"), "level C43; the file has: C44", "GEOID", None),
        ("0500000US03001,A302100,1,9,9,ACS\n", "level C43; the file has: none", "GEOID", None),
        ("CANARY,A302100,1,9,9,ACS\n", "rows have a GEOID that is not of the form", "GEOID", 1),
    ],
    ids=range(13),
)
def test_bad_tables(demo_geography, write, refused, rows, match, column, count):
    path = write(HEADER + rows)
    with refused(path, match, column=column, count=count):
        read_ctpp(path, demo_geography, {"C43": "cty"})


def test_summary_level_of_another_level_of_the_geography(demo_geography, mixed, refused):
    match = "rows of summary level C43 do not have two codes of 11 characters, as trct codes have"
    with refused(mixed, match, column="GEOID", count=5):
        read_ctpp(mixed, demo_geography, {"C43": "trct"})
    with pytest.raises(ValueError, match="no level 'county'; the geography has: st, cty"):
        read_ctpp(mixed, demo_geography, {"C43": "county"})


def test_coarse_totals_and_fine_shares(demo_geography, write, tracts):
    """A tract table that is silent about county B leaves its share to the county table: 10 %."""
    first = [t for t in tracts if t.startswith(OWN)]
    work = first[0]
    rows = county(OWN, OWN, 900_000, 10) + county(OTHER, OWN, 100_000, 10)
    for home, flow in ((first[0], 30_000), (first[1], 10_000)):
        rows += f"C5400US{home}{work},A302100,1,{flow},10,ACS\n"
    tables = read_ctpp(write(HEADER + rows), demo_geography, {"C43": "cty", "C54": "trct"})
    ones = np.ones(demo_geography.n_blocks, np.int64)
    model = build_model(demo_geography, tables, ones, ones, "trct")
    (shares,) = model.shares(np.array([0]))
    county_of = demo_geography.unit_of("cty", demo_geography.starts("trct"))
    assert shares[county_of == 0].sum() == pytest.approx(0.9, abs=0.05)
    assert shares[0] / shares[1] == pytest.approx(3, rel=0.05)
