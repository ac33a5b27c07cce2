"""Areas that share land are one group, whatever file says so; a file of other areas is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import Geography, InputError, read_crosswalk, read_relationship, relationship
from geo_data.relationship import Links

Refused = Callable[..., AbstractContextManager[None]]

# Tracts and their blocks. In B, 0001 is split, 0002 and 0003 are merged, a block of 0005 went to 0004, 0006
# has another code, and 0007 is as it was.
COUNTY = "01001"
BLOCKS_OF_A = {f"000{i}": "12" for i in range(1, 5)} | {"0005": "123", "0006": "1", "0007": "1"}
MOVED = {"0001-2": "0101", "0003-1": "0002", "0003-2": "0002", "0005-1": "0004", "0006-1": "0106"}
BLOCK_NUMBER = {"0003-1": "3", "0003-2": "4", "0005-1": "3"}
GROUPS = [
    ({"0001"}, {"0001", "0101"}),
    ({"0002", "0003"}, {"0002"}),
    ({"0004", "0005"}, {"0004", "0005"}),
    ({"0006"}, {"0106"}),
    ({"0007"}, {"0007"}),
]
LAND = 10_000


def code(block: str) -> str:
    """Return the code of block 1 of tract 0001, in A: "0001-1"."""
    tract, number = block.split("-")
    return f"{COUNTY}00{tract}100{number}"


BLOCKS = [f"{tract}-{number}" for tract, numbers in BLOCKS_OF_A.items() for number in numbers]
PAIRS = [
    (code(block), code(f"{MOVED.get(block, block[:4])}-{BLOCK_NUMBER.get(block, block[-1])}"))
    for block in BLOCKS
]


def geography(folder: Path, blocks: Sequence[str], **options: object) -> Geography:
    path = folder / f"crosswalk{len([*folder.iterdir()])}.csv"
    rows = [f"{block},{block[:11]},{block[:5]},{i % 2},41.5,-71.5" for i, block in enumerate(blocks)]
    path.write_text("\n".join(["block,trct,cty,zone,lat,lon", *rows, ""]))
    return read_crosswalk(path, block="block", levels=("cty", "trct"), centroid=("lat", "lon"), **options)


@pytest.fixture
def a(tmp_path: Path) -> Geography:
    return geography(tmp_path, [one for one, _ in PAIRS], non_nesting_areas=("zone",))


@pytest.fixture
def b(tmp_path: Path) -> Geography:
    return geography(tmp_path, sorted({other for _, other in PAIRS}), non_nesting_areas=("zone",))


def census(pairs: Sequence[tuple[str, str, int, int]], years: tuple[int, int] = (2010, 2020)) -> str:
    """Return a block relationship file of the Census Bureau."""
    parts = ("STATE", "COUNTY", "TRACT", "BLK", "BLKSF", "AREALAND", "AREAWATER", "BLOCK_PART_FLAG")
    head = [f"{part}_{year}" for year in years for part in parts[:-1]]
    head.insert(7, "BLOCK_PART_FLAG_O")
    head += ["BLOCK_PART_FLAG_R", "AREALAND_INT", "AREAWATER_INT"]
    lines = ["|".join(head)]
    for one, other, land, water in pairs:
        sides = [[c[:2], c[2:5], c[5:11], c[11:], "", "1", "1", "p"] for c in (one, other)]
        lines.append("|".join([*sides[0], *sides[1], str(land), str(water)]))
    return "﻿" + "\r\n".join([*lines, ""])


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    return pd.DataFrame(rows, columns=[*columns]).to_csv(index=False)


def named_groups(links: Links, kind: str = "trct") -> list[tuple[set[str], set[str]]]:
    """Return the tracts of A and B in each group, by the four digits that tell them."""
    found = links.groups(kind)
    assert found is not None
    codes = [
        pd.Series(places.codes(kind)).str[-4:].groupby(groups).agg(set)
        for places, groups in zip(links.geographies, found, strict=True)
    ]
    return [*zip(*codes, strict=True)]


WHOLE = [(one, other, LAND, 0) for one, other in PAIRS]
BACK = [(other, one, LAND, 0) for one, other in PAIRS]
FORMS = {
    "Census Bureau": census(WHOLE),
    "Census Bureau, the other way round": census(BACK, (2020, 2010)),
    "NHGIS": table(["blk2010gj", "blk2010ge", "blk2020ge", "weight"], [("G", *pair, 1) for pair in PAIRS]),
    "ONS": table(["OA11CD", "CHNGIND", "OA21CD"], [(one, "X", other) for one, other in PAIRS]),
}


@pytest.mark.parametrize("form", FORMS)
def test_groups_are_what_was_split_merged_and_moved(
    a: Geography, b: Geography, tmp_path: Path, form: str
) -> None:
    path = tmp_path / "relationship.txt"
    path.write_text(FORMS[form], encoding="utf-8", newline="")
    links = read_relationship(path).link(a, b)
    assert named_groups(links) == GROUPS
    assert links.groups("cty") is not None
    assert links.groups("zone") is not None
    back = read_relationship(path).link(b, a)
    assert sorted(map(repr, named_groups(back))) == sorted(repr((y, x)) for x, y in GROUPS)


def test_columns_of_another_file_are_named(a: Geography, b: Geography, tmp_path: Path) -> None:
    path = tmp_path / "lookup.csv"
    tracts = {(one[:11], other[:11]) for one, other in PAIRS}
    path.write_text(table(["now", "then", "size"], [(other, one, 5) for one, other in sorted(tracts)]))
    links = read_relationship(path, ("then", "now"), "size").link(a, b)
    assert links.levels == ("trct", "trct")
    assert named_groups(links) == GROUPS
    assert links.groups("zone") is None  # which cuts tracts
    assert links.groups("block") is None
    with pytest.raises(InputError, match=r"codes of A are in the second column.*name the column of A first"):
        read_relationship(path, ("now", "then"), "size").link(a, b)


def test_all_rows_of_a_file_without_shares_are_links(a: Geography, b: Geography, tmp_path: Path) -> None:
    """Also that of two areas each of which is in a row with five others."""
    path = tmp_path / "lookup.csv"
    one, other = ([*dict.fromkeys(side[:11] for side in sides)] for sides in zip(*PAIRS, strict=True))
    rows = {(one[0], code) for code in other[:5]} | {(code, other[0]) for code in one[1:5]}
    rows |= {(code, other[5]) for code in one[5:]} | {(one[5], code) for code in other[6:]}
    path.write_text(table(["then", "now"], sorted(rows)))
    links = read_relationship(path, ("then", "now")).link(a, b)
    assert links.slight == 0
    assert links.slight_share == 0
    assert len(named_groups(links)) == 2


def test_strips_link_nothing_and_water_links_with_most(a: Geography, b: Geography, tmp_path: Path) -> None:
    """Neighbours would be linked one after another; but every block is linked with one."""
    path = tmp_path / "relationship.txt"
    neighbours = [(one, PAIRS[i + 1][1]) for i, (one, _) in enumerate(PAIRS[:-1])]
    neighbours = [pair for pair in neighbours if pair not in PAIRS]
    ocean, pier = (next(pair for pair in PAIRS if pair[0] == code(block)) for block in ("0005-3", "0007-1"))
    strips = [(*pair, LAND // 200, 0) for pair in neighbours if not {*pair} & {*ocean}]
    rows = [(*pair, 0 if pair == ocean else LAND, 500 if pair == ocean else 0) for pair in PAIRS]
    rows.append((ocean[0], pier[1], 0, 400))
    path.write_text(census([*rows, *strips]), encoding="utf-8")
    links = read_relationship(path).link(a, b)
    assert named_groups(links) == GROUPS
    assert links.slight == len(strips) + 1
    whole = LAND * (len(PAIRS) - 1) + len(strips) * (LAND // 200)
    assert links.slight_share == pytest.approx(len(strips) * (LAND // 200) / whole)
    path.write_text(census([*WHOLE, *((*pair, LAND // 2, 0) for pair in neighbours)]), encoding="utf-8")
    assert len(named_groups(read_relationship(path).link(a, b))) == 1


def test_corrected_borders_do_not_chain_tracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 36 tracts of 6 x 6 blocks of about 110 metres, every border moved by some metres at every block."""
    random, wide = np.random.default_rng(1), 36
    tract = (np.arange(wide)[:, np.newaxis] // 6 * 6 + np.arange(wide) // 6).ravel()
    codes = np.array([f"{COUNTY}{t:06}{i:04}" for i, t in enumerate(tract)])
    width, height = random.lognormal(np.log(110), 0.5, (2, wide))
    land = np.outer(height, width).ravel()
    place = np.arange(wide**2).reshape(wide, wide)
    strips = []
    for one, other, length in (
        (place[:, :-1], place[:, 1:], np.broadcast_to(height[:, np.newaxis], (wide, wide - 1))),
        (place[:-1], place[1:], np.broadcast_to(width, (wide - 1, wide))),
    ):
        border = tract[one] != tract[other]
        moved = random.normal(0, 3, border.sum())
        ends = np.where(moved > 0, (one[border], other[border]), (other[border], one[border]))
        strips.append((*ends, np.abs(moved) * length[border]))
    a, b, area = (np.concatenate(parts) for parts in zip(*strips, strict=True))
    same = np.maximum(land - np.bincount(a, area, land.size), land / 10)
    rows = [
        *zip(codes, codes, same.astype(int), strict=True),
        *zip(codes[a], codes[b], area.astype(int), strict=True),
    ]
    path = tmp_path / "relationship.csv"
    path.write_text(table(["old", "new", "land"], rows))
    places = geography(tmp_path, codes.tolist())
    file = read_relationship(path, ("old", "new"), "land")
    assert len(named_groups(file.link(places, places))) == 36
    monkeypatch.setattr(relationship, "LEAST", 0.01)
    assert len(named_groups(file.link(places, places))) == 1


def test_external_zones_are_linked_with_themselves(tmp_path: Path) -> None:
    a, b = (
        geography(tmp_path, blocks, external_zones=["02", "03"])
        for blocks in ([one for one, _ in PAIRS], sorted({other for _, other in PAIRS}))
    )
    path = tmp_path / "relationship.txt"
    path.write_text(census(WHOLE), encoding="utf-8")
    groups = read_relationship(path).link(a, b).groups("trct")
    assert groups is not None
    zones = [side[geo.unit_of("trct", geo.external_blocks)] for geo, side in zip((a, b), groups, strict=True)]
    assert zones[0].tolist() == zones[1].tolist()
    assert [np.count_nonzero(side == zone) for side in groups for zone in zones[0]] == [1] * 4


@given(st.data())
def test_groups_are_the_finest_that_links_do_not_leave(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 6))
    codes = [f"{COUNTY}00000{i}1000" for i in range(n)]
    one = geography(tmp_path_factory.mktemp("random"), codes)
    pairs = data.draw(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    pairs |= {(i, data.draw(st.integers(0, n - 1))) for i in range(n)}
    pairs |= {(data.draw(st.integers(0, n - 1)), i) for i in range(n)}
    units = np.array(sorted(pairs)).T
    found = Links((one, one), ("block", "block"), (units[0], units[1]), 0, 0.0).groups("trct")
    assert found is not None
    reach = np.zeros((2 * n, 2 * n), bool)
    reach[units[0], n + units[1]] = True
    reach |= reach.T | np.eye(2 * n, dtype=bool)
    for _ in range(2 * n):
        reach |= reach @ reach
    label = np.concatenate(found)
    assert np.array_equal(label[:, np.newaxis] == label, reach)
    assert [*dict.fromkeys(found[0])] == [*range(label.max() + 1)]


LOST = "codes that lost their leading zeros"
REFUSED = {
    "blocks missing": (
        census(WHOLE[1:]),
        {"column": "STATE_2010 to BLK_2010", "count": 1},
        "1 area of A .block. is in no row",
    ),
    "another state": (
        census([("44" + one[2:], "44" + other[2:], *rest) for one, other, *rest in WHOLE]),
        {"count": len(BLOCKS)},
        "whole file of the state",
    ),
    "a pair twice": (census([*WHOLE, WHOLE[0]]), {"count": 1}, "repeats? a pair"),
    "lost zeros": (
        table(["blk2010ge", "blk2020ge", "weight"], [(one.lstrip("0"), other, 1) for one, other in PAIRS]),
        {"column": "blk2010ge", "count": len(PAIRS)},
        LOST,
    ),
    "lost zeros of parts": (
        census(WHOLE).replace("|001|", "|1|"),
        {"column": "COUNTY_2010", "count": len(PAIRS)},
        LOST,
    ),
    "GISJOIN": (
        table(
            ["blk2010ge", "blk2020ge"], [(f"G{one[:2]}0{one[2:5]}0{one[5:]}", other) for one, other in PAIRS]
        ),
        {"column": "blk2010ge"},
        "GISJOIN",
    ),
    "negative land": (
        census([(*WHOLE[0][:2], -1, 0), *WHOLE[1:]]),
        {"column": "AREALAND_INT", "count": 1},
        "negative",
    ),
    "another form": ("a,b\n1,2\n", {}, "name its columns"),
    "bars and no such columns": ("a|b\n1|2\n", {}, "name its columns"),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_no_file_of_both_is_refused(a: Geography, b: Geography, tmp_path: Path, why: str) -> None:
    text, names, said = REFUSED[why]
    path = tmp_path / "relationship.txt"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(InputError, match=said) as caught:
        read_relationship(path).link(a, b)
    error = caught.value
    assert error.file == str(path)
    assert error.fix
    assert all(getattr(error, name) == value for name, value in names.items())


def test_codes_that_may_be_of_either_are_refused_until_named(a: Geography, tmp_path: Path) -> None:
    blocks = a.blocks.tolist()
    path = tmp_path / "relationship.csv"
    rotated = [*zip(blocks, [*blocks[1:], blocks[0]], strict=True)]
    path.write_text(table(["blk2010ge", "blk2020ge"], rotated))
    with pytest.raises(InputError, match=r"blk2010ge and blk2020ge both have all codes.*that of A first"):
        read_relationship(path).link(a, a)
    for columns, first in ((("blk2010ge", "blk2020ge"), 1), (("blk2020ge", "blk2010ge"), len(blocks) - 1)):
        links = read_relationship(path, columns).link(a, a)
        assert dict(zip(*links.units, strict=True))[0] == first
