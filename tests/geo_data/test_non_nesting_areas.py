"""Partitions of the blocks: read from a crosswalk, and tables of their areas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from geo_data import Geography, read_crosswalk, read_ctpp, read_flows
from geo_data.geography import ordered_geography

# Blocks of two states, out of order; the places cut tracts, and 03's are also in two counties.
ROWS = [
    ("030010001001", "0300100010", "0312000", "0300100777", "77"),
    ("030010001002", "0300100010", "9999999", "0300100777", "77"),
    ("030010002001", "0300100020", "0312000", "0300100888", "88"),
    ("090010001001", "0900100010", "0912000", "0900100777", "88"),
    ("030030001001", "0300300010", "0312000", "0300300777", "25"),
]
COLUMNS = ("blk", "trct", "plc", "sub", "pod")


def read(path: Path, non_nesting_areas: tuple[str, ...], outside: tuple[str, ...] = ()) -> Geography:
    return read_crosswalk(
        path,
        block="blk",
        levels=("trct",),
        centroid=("lat", "lon"),
        external_zones=outside,
        non_nesting_areas=non_nesting_areas,
    )


def text(rows: list[tuple[str, ...]] = ROWS) -> str:
    return "\n".join(
        [",".join((*COLUMNS, "lat", "lon")), *(",".join((*row, "41", "-71")) for row in rows), ""]
    )


@pytest.fixture
def places(write: Callable[..., Path]) -> Geography:
    return read(write(text()), ("plc", "sub", "pod"))


def test_areas_of_blocks(places: Geography) -> None:
    assert places.blocks.tolist() == sorted(row[0] for row in ROWS)
    for name, column in (("plc", 2), ("sub", 3), ("pod", 4)):
        expected = [row[column] for row in sorted(ROWS)]
        codes = places.codes(name)
        assert codes[places.unit_of(name, np.arange(5))].tolist() == expected
        assert codes[places.units_of_blocks(name)].tolist() == expected
        with pytest.raises(ValueError, match="read-only"):  # kept for all who ask
            places.units_of_blocks(name)[0] = 0
        assert codes.tolist() == sorted(set(expected))
        assert places.unit_number(name, ["0312000", "77", "x"]).tolist() == [
            list(codes).index(code) if code in codes else -1 for code in ("0312000", "77", "x")
        ]
    assert places.levels == ("trct",)
    with pytest.raises(ValueError, match="no level 'place'; the geography has: trct, blk, plc, sub, pod"):
        places.codes("place")


def test_codes_that_lost_their_zeros(write: Callable[..., Path], refused: Callable) -> None:
    rows = [(*row[:2], row[2].lstrip("0"), *row[3:]) for row in ROWS]
    path = write(text(rows))
    with refused(path, "codes lost their leading zeros", column="plc", count=4):
        read(path, ("plc",))
    # Codes of any length are codes where padding does not make them begin as the block does.
    rows = [(*row[:2], "120" if i else "7", *row[3:]) for i, row in enumerate(ROWS)]
    assert read(write(text(rows)), ("plc",)).codes("plc").tolist() == ["120", "7"]
    assert read(write(text([(*row[:2], "99", *row[3:]) for row in ROWS])), ("plc",)).n_units("plc") == 1


def test_a_partition_is_complete_and_named_once(write: Callable[..., Path], refused: Callable) -> None:
    path = write(text([*ROWS[1:], (*ROWS[0][:2], "", *ROWS[0][3:])]))
    with refused(path, "values are missing or blank", column="plc", count=1):
        read(path, ("plc",))
    with refused(path, "one column is named for two purposes"):
        read(path, ("trct",))


def test_places_outside(write: Callable[..., Path]) -> None:
    """An area is found by as many characters as codes share with blocks: states of places, none of pods."""
    wide = read(write(text()), ("plc", "sub", "pod"), ("25", "25001", "44001"))
    assert "2599999" in wide.codes("plc")
    assert {"2599999999", "2500199999", "4400199999"} <= set(wide.codes("sub"))
    assert wide.codes("pod").tolist() == ["", "25", "77", "88"]
    state, inner, county = wide.unit_of("sub", wide.external_blocks).tolist()
    assert wide.locate_unit("sub", ["2500112345", "4400112345", "4400312345", "25"]).tolist() == [
        inner,
        county,
        -1,
        state,
    ]
    found = wide.locate_unit("plc", ["2512345", "2500123", "0312000", "4400123", "0312"])
    assert wide.codes("plc")[found[:3]].tolist() == ["2599999", "2599999", "0312000"]
    assert found[3:].tolist() == [-1, -1]
    assert wide.locate_unit("pod", ["25", "26"]).tolist() == [1, -1]


def test_areas_of_ordered_blocks(write: Callable[..., Path]) -> None:
    """As a plan stores them: with external zones, which codes of some areas tell and of others do not."""
    wide = read(write(text()), ("plc", "pod"), ("25", "44001"))
    units = wide.unit_of("trct", np.arange(wide.n_blocks))

    def stored(**blank: str) -> Geography:
        areas = {}
        for name, part in wide.non_nesting_areas.items():
            codes = part.codes[part.area]
            codes[wide.number([blank.get(name, "")])[0] if name in blank else []] = ""
            areas[name] = pa.chunked_array([codes.tolist()])
        return ordered_geography(
            "blk",
            pa.chunked_array([wide.blocks.tolist()]),
            {"trct": pa.chunked_array([pa.DictionaryArray.from_arrays(units, wide.codes("trct").tolist())])},
            wide.latitude,
            wide.longitude,
            areas,
            external_homes=wide.external_homes,
        )

    again = stored()
    for name, codes in (("plc", ["2512345", "2500123", "0312000", "4400123"]), ("pod", ["25", "77", "26"])):
        assert again.codes(name).tolist() == wide.codes(name).tolist()
        every = np.arange(wide.n_blocks)
        assert again.unit_of(name, every).tolist() == wide.unit_of(name, every).tolist()
        assert again.locate_unit(name, codes).tolist() == wide.locate_unit(name, codes).tolist()
    with pytest.raises(ValueError, match="blocks are in no area of plc"):
        stored(plc=ROWS[0][0])
    nested = {name: again.lie_within("trct", name) for name in ("trct", "blk", "plc", "pod")}
    assert nested == {"trct": True, "blk": False, "plc": False, "pod": True}


FLOWS = "home,work,n\n0312000,0312000,5\n0312000,0912000,2\n0399999,0312000,7\n0312000,0999999,8\n"


def flow_table(path: Path, geography: Geography) -> object:
    return read_flows(
        path,
        geography,
        ("plc", "plc"),
        origin="home",
        destination="work",
        flow="n",
    )


def test_tables_of_places(write: Callable[..., Path], refused: Callable, places: Geography) -> None:
    """Unknown places are counted; where all are unknown, one error says how many."""
    table = flow_table(write(FLOWS), places)
    assert table.flow.tolist() == [5, 2]
    assert places.codes("plc")[table.destination].tolist() == ["0312000", "0912000"]
    assert table.dropped == {"origin": 1, "destination": 1, "rows": 2}
    path = write(FLOWS.replace("0312000", "0355555"))
    with refused(path, "(plc to plc); the origin is unknown in 4 of 4 rows, the destination in 3"):
        flow_table(path, places)
    path = write(FLOWS.replace("0312000", "312000"))
    with refused(path, "rows have plc codes that lost their leading zeros", column="home", count=3):
        flow_table(path, places)


CTPP = "GEOID,TBLID,LINENO,EST,MOE\n"


def test_summary_levels_of_places(write: Callable[..., Path], refused: Callable, places: Geography) -> None:
    path = write(
        CTPP
        + "C4500US03120000912000,A302100,1,30,16.45\nC4500US03120002512000,A302100,1,9,9\n"
        + "C5000US03120000900100010,A302100,1,7,***\n"
    )
    tables = read_ctpp(path, places, {"C45": "plc", "C50": ("plc", "trct")})
    assert [(t.origin_level, t.destination_level) for t in tables] == [("plc", "plc"), ("plc", "trct")]
    assert [t.flow.tolist() for t in tables] == [[30], [7]]
    assert tables[1].destination.tolist() == places.unit_number("trct", ["0900100010"]).tolist()
    assert tables[0].dropped["rows"] == 1
    with refused(
        path,
        "C50 do not have codes of 10 and 7 characters, as trct and plc",
        column="GEOID",
        count=1,
    ):
        read_ctpp(write(CTPP + "C5000US0312000090010001,A302100,1,7,9\n"), places, {"C50": ("trct", "plc")})
