"""External zones: where workers from beyond the geography are kept, and where they are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import (
    Geography,
    LodesJobs,
    MicrodataJobs,
    read_crosswalk,
    read_weights,
)
from geo_data.external_zones import US_STATES, external_facts, fill, find_external_zones, longest_prefix

from .conftest import LEVELS, _read

Refused = Callable[..., AbstractContextManager[None]]
AREAS = ("09", "25", "25017")
FILLED = ["099999999999999", "250179999999999", "259999999999999"]
COUNTS = "S000,SA01,SA02,SA03,SE01,SE02,SE03,SI01,SI02,SI03"


def read(path: Path, outside: tuple[str, ...] = AREAS) -> Geography:
    return _read(path, external_zones=outside)


@pytest.fixture(scope="module")
def wide(demo_region: dict[str, Path]) -> Geography:
    """The demo region and three areas, one of them inside another."""
    return read(demo_region["crosswalk"])


def inside(geography: Geography) -> np.ndarray:
    return np.flatnonzero(~geography.is_external(np.arange(geography.n_blocks)))


def test_the_states_are_those_of_the_united_states() -> None:
    assert len(US_STATES) == 51 + 5  # with the District of Columbia; and the territories that have blocks
    assert {"01", "11", "25", "56", "60", "72", "78"} <= set(US_STATES)
    assert not {"03", "07", "14", "43", "52", "57"} & set(US_STATES)


def test_every_other_state_is_outside() -> None:
    areas = find_external_zones(["us-states"], pd.Series(["440010000000001", "250010000000001"]))
    assert set(US_STATES) - set(areas) == {"25", "44"}
    assert list(areas) == sorted(areas)
    both = find_external_zones(["25017", "us-states"], pd.Series(["440010000000001"]))
    assert set(both) == (set(US_STATES) - {"44"}) | {"25017"}


def test_populations_of_states_are_those_of_the_census() -> None:
    """As multiples of Rhode Island's; the states and the District of Columbia had 308,745,538 residents."""
    facts = external_facts(US_STATES[:51], ["440010000000001", "440070000000001"])
    assert round(facts.population.sum() * 1_052_567) == 308_745_538
    beyond = external_facts(["25", "25017", "2"], ["440010000000001"])
    assert np.isnan(beyond.population).tolist() == [False, True, True]
    assert np.isnan(beyond.latitude).tolist() == np.isnan(beyond.longitude).tolist() == [False, True, True]


@pytest.mark.parametrize("block", ["030010000000001", "440010001", "E00000001000000"])
def test_a_geography_of_no_state_knows_none(block: str) -> None:
    assert np.isnan(external_facts(["25"], ["440010000000001", block]).population).all()


def test_a_large_near_state_outweighs_others(write: Callable[..., Path]) -> None:
    """So that workers from beyond are expected in Massachusetts, not in Arizona."""
    rows = [f"44001000000000{i},44,44001,44001000000,440010000001,41.{i},-71.{i}" for i in range(1, 9)]
    header = "tabblk2010,st,cty,trct,bgrp,blklatdd,blklondd"
    geography = read(write("\n".join([header, *rows, ""])), ("04", "06", "09", "25", "36", "50001"))
    table = write("GEOID,POP10\n440010000001,1000\n", "weights.csv")
    weights = read_weights(table, geography, level="bgrp", area="GEOID", weight="POP10").weights
    assert (weights[inside(geography)] == 1000 * 10**6 / 8).all()
    arizona, california, connecticut, massachusetts, new_york, county = weights[geography.external_blocks]
    assert massachusetts > connecticut > new_york > california > arizona > county == 1
    assert 0.01 < massachusetts / (1000 * 10**6) < 1


def test_an_area_is_one_block_and_one_unit_of_every_level(wide: Geography, demo_geography: Geography) -> None:
    assert wide.external_zones == AREAS
    assert wide.blocks[wide.external_blocks].tolist() == [FILLED[0], FILLED[2], FILLED[1]]  # as in AREAS
    assert wide.n_blocks == demo_geography.n_blocks + 3
    assert wide.is_external(np.arange(wide.n_blocks)).sum() == 3
    for level in LEVELS:
        added = set(wide.codes(level)) - set(demo_geography.codes(level))
        assert added == {fill(area, len(demo_geography.codes(level)[0])) for area in AREAS}
        assert not set(wide.unit_of(level, inside(wide))) & set(wide.unit_of(level, wide.external_blocks))
    assert wide.unit_of("st", wide.external_blocks).tolist() == [1, 2, 2]  # both parts of one state
    assert np.isnan(wide.latitude[wide.external_blocks]).all()
    assert wide.points().geometry.is_empty.sum() == 3
    assert "3 external zones" in repr(wide)
    assert wide.blocks[inside(wide)].tolist() == demo_geography.blocks.tolist()
    assert wide.latitude[inside(wide)].tolist() == demo_geography.latitude.tolist()


def test_an_area_of_the_crosswalk_is_refused(demo_region: dict[str, Path], refused: Refused) -> None:
    path = demo_region["crosswalk"]
    with refused(path, "or of another zone", count=1):
        read(path, ("25", "25"))
    for length in (1, 15):  # an unknown code that begins so may be a wrong one
        with refused(path, "cover blocks of the crosswalk"):
            read(path, ("25", str(read(path, ()).blocks[0])[:length]))


def test_a_zone_may_cover_codes_without_a_hierarchy(write: Callable[..., Path], refused: Refused) -> None:
    rows = [f"E0200{i:04},{district},53.{i},-1.{i}\n" for i, district in enumerate(["E08", "E09", "W06"])]
    path = write("".join(["zone,lad,lat,lon\n", *rows]))
    columns = {"block": "zone", "centroid": ("lat", "lon")}
    geography = read_crosswalk(path, levels=["lad"], external_zones=["E", "W"], **columns)
    assert [line.split(" cover")[0] for line in geography.repairs] == ["external zones E"]
    with refused(path, "external zones have the code of an area of the crosswalk", count=1):
        read_crosswalk(path, levels=[], external_zones=["E02000001"], **columns)


@given(
    st.lists(st.text("0123", min_size=1, max_size=4), min_size=1, max_size=6, unique=True),
    st.lists(st.text("0123", max_size=6), min_size=1, max_size=20),
)
def test_the_longest_prefix_wins(areas: list[str], codes: list[str]) -> None:
    found = longest_prefix(pd.Series(codes, dtype="str"), areas)
    for code, position in zip(codes, found, strict=True):
        best = max((area for area in areas if code.startswith(area)), key=len, default=None)
        assert (areas[position] if position >= 0 else None) == best


def test_codes_of_any_level_are_located(wide: Geography) -> None:
    own = str(wide.codes("cty")[0])
    codes = pd.Series([own, "25017", "25021", "09003", "36001"])
    located = wide.locate_unit("cty", codes)
    names = [str(wide.codes("cty")[i]) if i >= 0 else None for i in located]
    assert names == [own, "25017", "25999", "09999", None]
    homes = ["250173000000001", "090010101011001", "360010101011001"]
    blocks = wide.locate_unit(wide.block_level, homes)
    assert [str(wide.blocks[i]) if i >= 0 else None for i in blocks] == [FILLED[1], FILLED[0], None]
    assert wide.unit_number("cty", ["25021"]).tolist() == [-1]  # as before: the geography's own codes only


def test_a_home_that_lost_its_leading_zero_is_not_put_into_another_state(
    wide: Geography, write: Callable[..., Path], refused: Refused
) -> None:
    own = str(wide.blocks[inside(wide)[0]])
    main = write(lodes((own, own)))
    short = "25" + "0" * 12  # 14 digits: state 02, not 25
    aux = write(lodes((own, short), (own, "250173000000001")), "aux.csv")
    with refused(
        aux, "begin like an external zone, but do not have 15 characters", column="h_geocode", count=1
    ):
        LodesJobs(main, wide, aux).records()
    lost = write(lodes((own, "90010101011001")), "lost.csv")  # of state 09, which is a zone
    with refused(lost, "lost their leading zeros", column="h_geocode", count=1):
        LodesJobs(main, wide, lost).records()
    elsewhere = write(lodes((own, "35204567")), "elsewhere.csv")  # of another country
    with refused(elsewhere, "not in the geography", column="h_geocode", count=1):
        LodesJobs(main, wide, elsewhere).records()


def lodes(*rows: tuple[str, str]) -> str:
    lines = [f"{work},{home},1,1,0,0,1,0,0,1,0,0,20190101" for work, home in rows]
    return "\n".join([f"w_geocode,h_geocode,{COUNTS},createdate", *lines, ""])


def test_main_and_aux_are_one_set_of_jobs(
    wide: Geography, write: Callable[..., Path], refused: Refused, canary: str
) -> None:
    a, b = (str(code) for code in wide.blocks[inside(wide)[[3, 40]]])
    main = write(lodes((a, b), (b, b)), "main.csv")
    aux = write(lodes((a, "250173000000001"), (a, "250210000000001"), (b, "090010101011001")), "aux.csv")
    jobs = LodesJobs(main, wide, aux)
    assert sorted(wide.blocks[jobs.slots().work]) == sorted([a, a, a, b, b])
    records = jobs.records()
    pairs = sorted(zip(wide.blocks[records.work], wide.blocks[records.home], strict=True))
    assert pairs == sorted([(a, b), (b, b), (a, FILLED[1]), (a, FILLED[2]), (b, FILLED[0])])

    # Slots must not tell which jobs are in which file: that depends on homes.
    moved = LodesJobs(
        write(lodes((a, b), (a, b), (a, b), (b, b)), "main2.csv"),
        wide,
        write(lodes((b, "090010101011001")), "aux2.csv"),
    )
    assert moved.slots().work.tolist() == jobs.slots().work.tolist()
    for name, codes in jobs.slots().attributes.items():
        assert moved.slots().attributes[name].tolist() == codes.tolist()

    elsewhere = write(lodes((a, canary)), "aux3.csv")
    with refused(elsewhere, "rows are not in the geography", column="h_geocode", count=1):
        LodesJobs(main, wide, elsewhere).records()
    misplaced = write(lodes((a, "250173000000001")), "main3.csv")
    with refused(misplaced, "not in the geography", column="h_geocode", count=1):
        LodesJobs(misplaced, wide, aux).records()
    nobody = write(lodes((FILLED[0], a)), "works.csv")
    with refused(nobody, "not in the geography", column="w_geocode", count=1):
        LodesJobs(nobody, wide).slots()
    home = write(lodes((a, b)), "aux4.csv")
    with refused(home, "aux file have homes in the geography", column="h_geocode", count=1):
        LodesJobs(main, wide, home).records()


def test_homes_of_one_zone_are_one_pair_where_they_are_written_alike(
    wide: Geography, write: Callable[..., Path], refused: Refused
) -> None:
    a, b = (str(code) for code in wide.blocks[inside(wide)[[3, 40]]])
    main = write(lodes((a, b), (b, b)), "main.csv")
    own = [(a, "250173000000001"), (a, "250173000000002"), (b, "250173000000001")]
    assert len(LodesJobs(main, wide, write(lodes(*own), "aux.csv")).records()) == 5
    again = write(lodes(*own, own[1]), "again.csv")
    with refused(again, "rows repeat an origin-destination pair", column="h_geocode", count=1):
        LodesJobs(main, wide, again).records()


def test_microdata_homes_may_be_outside(wide: Geography, write: Callable[..., Path]) -> None:
    own = str(wide.blocks[inside(wide)[0]])
    path = write(f"live,toil\n250173000000001,{own}\n090010101011001,{own}\n{own},{own}\n")
    records = MicrodataJobs(path, wide, home="live", work="toil").records()
    assert sorted(wide.blocks[records.home]) == sorted([FILLED[1], FILLED[0], own])
