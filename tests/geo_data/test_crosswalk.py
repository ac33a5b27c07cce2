"""Reading crosswalks: repairs by the documented rule, and everything that cannot be repaired."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import read_crosswalk
from geo_data.crosswalk import group_places
from geo_data.unknown_codes import misspelled

pytestmark = pytest.mark.quick

HEADER = "tabblk2010,st,cty,trct,bgrp,blklatdd,blklondd\n"


def us_rows(n: int = 100) -> list[list[str]]:
    blocks = [f"03001000{100 * (1 + i // 50):03d}1{i:03d}" for i in range(n)]
    return [[b, b[:2], b[:5], b[:11], b[:12], "40.5", "-40.25"] for b in blocks]


def text(rows: list[list[str]]) -> str:
    return HEADER + "".join(",".join(row) + "\n" for row in rows)


def test_clean_crosswalk_needs_no_repair(write, read_geography):
    geography = read_geography(write(text(us_rows())))
    assert geography.repairs == ()
    assert [geography.n_units(level) for level in geography.levels] == [1, 1, 2, 2]
    assert geography.block_level == "tabblk2010"
    assert geography.latitude[0] == 40.5
    assert geography.longitude[0] == -40.25


def test_rows_that_disagree_with_their_block_are_reported_and_derived(write, read_geography):
    rows = us_rows()
    rows[10][1:4] = ["25", "25005", "25005012300"]
    rows[60][3] = "03001000100"
    geography = read_geography(write(text(rows)))
    assert [line.split(" disagreed")[0] for line in geography.repairs] == [
        "level st: 1 of 100 rows",
        "level cty: 1 of 100 rows",
        "level trct: 2 of 100 rows",
    ]
    clean = read_geography(write(text(us_rows()), "clean.csv"))
    for level in clean.levels:
        assert geography.codes(level).tolist() == clean.codes(level).tolist()
        assert geography.starts(level).tolist() == clean.starts(level).tolist()


def test_a_tract_of_which_only_a_row_that_disagrees_is_there(write, read_geography):
    """As where a crosswalk of a state is cut to some of its tracts."""
    rows = [*us_rows(), ["030030002001000", "03", "03001", "03001000100", "030030002001", "40.5", "-40.25"]]
    rows.append(["030030003001000", "03", "03003", "03003000300", "030030003001", "40.5", "-40.25"])
    assert read_geography(write(text(rows))).codes("trct").tolist()[2:] == ["03003000200", "03003000300"]


@pytest.mark.parametrize(("wrong", "repaired"), [(5, True), (6, False)])
def test_five_percent_is_the_limit_of_repair(write, read_geography, refused, wrong, repaired):
    rows = us_rows()
    for row in rows[:wrong]:
        row[2] = "09009"  # tracts of these rows now lie in two counties, unless the county is repaired
    path = write(text(rows))
    if repaired:
        assert "5 of 100" in read_geography(path).repairs[0]
    else:
        with refused(path, "units lie in more than one unit of cty", column="trct", count=1):
            read_geography(path)


def test_other_codes_and_levels_from_any_columns(write):
    path = write(
        "zone,region,district,lat,lon\n"
        'E02000009,North,"Town, The",53.8,-1.5\n'
        'E02000001,North,"Town, The",53.9,-1.6\n'
        "W02000005,South,Hill,51.5,-3.2\n"
    )
    geography = read_crosswalk(path, block="zone", levels=["region", "district"], centroid=("lat", "lon"))
    assert geography.blocks.tolist() == ["E02000001", "E02000009", "W02000005"]
    assert geography.codes("district").tolist() == ["Town, The", "Hill"]
    assert geography.starts("region").tolist() == [0, 2]
    assert geography.repairs == ()


def test_short_codes_of_several_places(write, read_geography, refused):
    rows = [[block, block[:2], block[:5], block[5:11], *rest] for block, _, _, _, *rest in us_rows()]
    path = write(text(rows + [["03003" + row[0][5:], "03", "03003", *row[3:]] for row in rows]))
    (note,) = read_geography(path, levels=["st", "trct"]).repairs
    assert note.startswith("level trct: 2 units are several places")
    with refused(path, "units lie in more than one unit of cty: 000100, 000200", column="trct", count=2):
        read_geography(path, levels=["cty", "trct"])
    assert read_geography(write(text(rows)), levels=["st", "trct"]).repairs == ()


def test_levels_in_the_wrong_order_do_not_nest(write, read_geography, refused):
    path = write(text(us_rows()))
    with refused(path, "units lie in more than one unit of trct", column="cty", count=1):
        read_geography(path, levels=("trct", "cty"))


def test_duplicate_blocks(write, read_geography, refused, canary):
    rows = us_rows()
    for row in rows[:3]:
        row[0] = canary
    path = write(text(rows))
    with refused(path, "rows repeat a block", column="tabblk2010", count=2):
        read_geography(path)


@pytest.mark.parametrize(
    ("position", "value", "match", "column"),
    [
        (5, "", "values are missing", "blklatdd"),
        (0, "03001000100100.0", "decimal numbers", "tabblk2010"),
    ],
)
def test_values_that_are_none(write, read_geography, refused, position, value, match, column):
    rows = us_rows()
    rows[4][position] = value
    path = write(text(rows))
    with refused(path, match, column=column, count=1):
        read_geography(path)


def test_units_that_lost_leading_zeros(write, read_geography, refused):
    rows = us_rows()
    for row in rows:
        row[2] = row[2].lstrip("0")
    path = write(text(rows))
    with refused(path, "codes lost their leading zeros", column="cty", count=100):
        read_geography(path)


def crosswalk_of(write, codes, levels=None):
    """Read blocks with these codes, in units of one level or none."""
    units = levels or ["x"] * len(codes)
    rows = [f"{code},{unit},46.{i},6.{i}\n" for i, (code, unit) in enumerate(zip(codes, units, strict=True))]
    return read_crosswalk(
        write("".join(["zone,unit,lat,lon\n", *rows])),
        block="zone",
        levels=["unit"] if levels else [],
        centroid=("lat", "lon"),
    )


@pytest.mark.parametrize("codes", [["1", "22", "261", "6810"], ["301", "2004"], ["7", "12", "12A", "13B"]])
def test_numbers_of_any_length(write, codes):
    geography = crosswalk_of(write, codes)
    assert geography.blocks.tolist() == sorted(codes)
    spelled = pd.Series([code.zfill(5) for code in codes])
    ((which, rule, _),) = misspelled(geography, "zone", spelled)
    assert which.tolist() == spelled.str.isdigit().tolist()
    assert "leading zeros, which the zone codes of the geography do not have" in rule


@pytest.mark.parametrize(
    ("codes", "levels", "match", "count"),
    [
        (["1004", "1005", "10006", "2A004"], None, "lost leading zeros", 2),
        (["1004", "10006"], ["01", "10"], "lost leading zeros", 1),
        (["90010201001000", "250010101001000"], None, "lost leading zeros", 1),
        (["1", "0001", "0002"], None, "differ from another code in leading zeros only", 1),
        (["1004", "01006"], None, "lost leading zeros", 1),
    ],
)
def test_numbers_that_lost_zeros(write, refused, tmp_path, codes, levels, match, count):
    with refused(tmp_path / "table.csv", match, column="zone", count=count):
        crosswalk_of(write, codes, levels)


def test_units_with_letters_that_lost_zeros(write, refused, tmp_path):
    with refused(tmp_path / "table.csv", "lost their leading zeros", column="unit", count=1):
        crosswalk_of(write, ["01004", "2A004"], ["1", "2A"])


@pytest.mark.parametrize("code", ["NO PLACE", "NO FIXED PLACE"])
def test_what_is_in_no_unit_is_not_put_into_one(write, code):
    codes = [f"{1 + i // 20:04}{i:04}" for i in range(40)]
    geography = crosswalk_of(write, [*codes, code], [*(block[:4] for block in codes), "9999"])
    assert geography.codes("unit").tolist() == ["0001", "0002", "9999"]
    assert geography.repairs == ()


@pytest.mark.parametrize(("position", "column", "value"), [(5, "blklatdd", "90.5"), (6, "blklondd", "-181")])
def test_coordinates_out_of_range(write, read_geography, refused, position, column, value):
    rows = us_rows()
    rows[7][position] = value
    path = write(text(rows))
    with refused(path, "coordinates are outside", column=column, count=1):
        read_geography(path)


def placed(places, state="03", unit=6):
    """Write census blocks with these places, so many in each tract."""
    codes = [f"{state}001{i // unit:06}1{i:03}" for i in range(len(places))]
    return text([[c, c[:2], c[:5], c[:11], c[:12], *map(str, p)] for c, p in zip(codes, places, strict=True)])


PLACES = [(41.5 + i // 6 / 10 + i % 3 / 100, 12.5 + i % 6 / 100) for i in range(36)]


@pytest.mark.parametrize(
    "mistake",
    [
        lambda lat, lon: (lat, -lon),
        lambda lat, lon: (-lat, lon),
        lambda lat, lon: (-lat, -lon),
        lambda lat, lon: (lon, lat),
        lambda lat, lon: (0, 0),
    ],
)
@pytest.mark.parametrize("wrong", [[2], range(4, 8), range(6)], ids=["one", "in two tracts", "a whole tract"])
def test_mistaken_places(write, read_geography, refused, mistake, wrong):
    path = write(placed([mistake(*place) if i in wrong else place for i, place in enumerate(PLACES)]))
    with refused(path, "blocks lie at 0, 0, or far from their unit", count=len(wrong)):
        read_geography(path)


def test_degrees_with_three_decimals_are_no_thousands(write, read_geography):
    geography = read_geography(write(placed([(f"{lat:.3f}", f"{lon:.3f}") for lat, lon in PLACES])))
    assert geography.latitude.tolist() == [round(lat, 3) for lat, _ in PLACES]


def test_all_signs_lost(write, read_geography, refused):
    """Blocks agree with each other, and not with where Rhode Island is."""
    path = write(placed([(lat, 59 + lon) for lat, lon in PLACES], "44"))
    with refused(path, "blocks lie at 0, 0, or far from their unit", count=36):
        read_geography(path)


def test_coordinates_exchanged(write, read_geography, refused):
    path = write(placed([(lon - 84, lat) for lat, lon in PLACES]))
    with refused(path, "coordinates are outside -60 to 84 degrees", column="blklatdd", count=36):
        read_geography(path)
    with refused(path, "by their names, column"):
        read_crosswalk(path, block="tabblk2010", levels=[], centroid=("blklondd", "blklatdd"))


def test_real_islands_are_no_mistakes(write, read_geography):
    """As in the Aleutians: Attu is beyond 180 degrees and, mirrored, between Adak and Atka."""
    adak = [(51.88 + i / 1000, -176.65 + i / 1000) for i in range(20)]
    path = write(placed([*adak, (52.9, 172.9), (52.2, -174.2)], "02", unit=30))
    (note,) = read_geography(path).repairs
    assert note.startswith("1 block lies far from the rest of the unit")
    assert "020010000001020" in note


def test_an_antarctic_station(write, read_geography):
    path = write(placed([(-45.87, 170.5)] * 6 + [(-77.85, 166.68)]))
    assert read_geography(path).n_blocks == 7


def test_one_column_for_two_purposes(write, read_geography, refused):
    path = write(text(us_rows()))
    with refused(path, "one column is named for two purposes"):
        read_geography(path, levels=("st", "tabblk2010"))


Refused = Callable[..., AbstractContextManager[None]]


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 4), st.integers(0, 1000))
def test_every_parent_has_its_parts_and_they_are_even(n: int, parts: int, parents: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parent = rng.integers(0, parents, n)
    group = group_places(rng.uniform(50, 55, n), rng.uniform(-3, 3, n), parent, parts)
    assert set(group) == set(range(group.max() + 1))
    for one in np.unique(parent):
        sizes = np.bincount(group[parent == one])[np.unique(group[parent == one])]
        assert sizes.size == min(parts, (parent == one).sum())
        assert sizes.max() - sizes.min() <= max(1, np.ceil(np.log2(parts)))
        assert not set(group[parent == one]) & set(group[parent != one])


def test_neighbours_are_together() -> None:
    # Two rows of four, long from west to east: first cut between the second and the third column.
    east, north = (g.ravel().astype(float) for g in np.meshgrid(np.arange(4), np.arange(2) / 10))
    group = group_places(north, east, np.zeros(8, np.int64), 2)
    assert group.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert group_places(north, east, np.zeros(8, np.int64), 4).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    # A degree of longitude is short near the pole: the same shape, now long from south to north.
    group = group_places(89.8 + north, east / 2, np.zeros(8, np.int64), 2)
    assert group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


ZONES = "zone,ward,lat,lon\n" + "".join(f"E{i:03},W{i // 6},{50 + i / 100},{i % 3}\n" for i in range(24))


def test_groupings_are_levels_that_nest(write: Callable[..., Path]) -> None:
    path = write(ZONES)
    geography = read_crosswalk(
        path, block="zone", levels=("ward", "part"), centroid=("lat", "lon"), groupings={"part": 2}
    )
    assert geography.n_units("ward") == 4
    assert geography.codes("part").tolist() == [f"part{i}" for i in range(8)]
    every = np.arange(geography.n_blocks)
    assert np.bincount(geography.unit_of("part", every)).tolist() == [3] * 8
    alone = read_crosswalk(
        path,
        block="zone",
        levels=("area", "part"),
        centroid=("lat", "lon"),
        groupings={"area": 3, "part": 4},
    )
    assert (alone.n_units("area"), alone.n_units("part")) == (3, 12)


def test_a_grouping_that_cuts_through_units_is_refused(write: Callable[..., Path], refused: Refused) -> None:
    path = write(ZONES)
    with refused(path, "units lie in more than one unit of area", column="ward", count=4):
        read_crosswalk(
            path,
            block="zone",
            levels=("area", "ward"),
            centroid=("lat", "lon"),
            groupings={"area": 3},
        )


def test_external_zones_longer_than_blocks_are_refused(tmp_path: Path, refused: Refused) -> None:
    """They would be cut, and jobs there would have the codes of another zone."""
    path = tmp_path / "zones.csv"
    path.write_text("zone,latitude,longitude\nZ01,50.0,7.0\nZ02,50.1,7.1\n", encoding="utf-8")
    with refused(path, "external zones W-HOME are longer than the codes of blocks, which have 3 characters"):
        read_crosswalk(
            path,
            block="zone",
            levels=(),
            centroid=("latitude", "longitude"),
            external_workplaces={"W-HOME": "at home", "W-N": "no fixed place"},
        )
