"""Blocks as one sorted array: units are ranges, and lookups agree with a dictionary."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from geo_data import read_crosswalk


@st.composite
def hierarchies(draw):
    """Rows (block, coarse, fine) of a hierarchy with arbitrary codes, in arbitrary order."""
    n_fine = draw(st.integers(1, 6))
    coarse_of_fine = draw(st.lists(st.integers(0, 3), min_size=n_fine, max_size=n_fine))
    fine_of_block = draw(st.lists(st.integers(0, n_fine - 1), min_size=1, max_size=25))
    salt = draw(st.randoms(use_true_random=False))
    names = salt.sample(range(100, 999), 40)  # so that code order is not the order of creation
    rows = [
        (f"W{names[block]}", f"C{names[30 + coarse_of_fine[fine]]}", f"F{names[25 - fine]}")
        for block, fine in enumerate(fine_of_block)
    ]
    salt.shuffle(rows)
    return rows


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(rows=hierarchies())
def test_any_hierarchy_becomes_ranges(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("h") / "x.csv"
    path.write_text("b,coarse,fine,y,x\n" + "".join(f"{b},{c},{f},1,2\n" for b, c, f in rows))
    geography = read_crosswalk(path, block="b", levels=("coarse", "fine"), centroid=("y", "x"))

    assert geography.blocks.tolist() == [b for c, f, b in sorted((c, f, b) for b, c, f in rows)]
    reference = {b: number for number, b in enumerate(geography.blocks)}
    codes = [b for b, _, _ in rows]
    numbers = geography.number(codes)
    assert numbers.dtype == np.int32
    assert numbers.tolist() == [reference[b] for b in codes]
    for level, column in (("coarse", 1), ("fine", 2)):
        true_unit = {row[0]: row[column] for row in rows}
        starts, units = geography.starts(level), geography.codes(level)
        assert starts.dtype == np.int32
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        assert sorted(units) == sorted(set(true_unit.values()))
        for unit, (start, end) in enumerate(zip(starts, [*starts[1:], geography.n_blocks], strict=True)):
            assert {true_unit[b] for b in geography.blocks[start:end]} == {units[unit]}
        of_block = geography.unit_of(level, numbers)
        assert of_block.dtype == np.int32
        assert [units[u] for u in of_block] == [true_unit[b] for b in codes]
        assert geography.unit_number(level, list(units)).tolist() == list(range(geography.n_units(level)))
        assert [geography.find_unit(level, unit) for unit in units] == list(range(geography.n_units(level)))
    # Nesting: every start of a coarse unit is the start of a fine one.
    assert set(geography.starts("coarse")) <= set(geography.starts("fine"))


def test_unknown_codes_are_minus_one(demo_geography):
    assert demo_geography.number(["nowhere", demo_geography.blocks[3]]).tolist() == [-1, 3]
    assert demo_geography.unit_number("cty", ["99999", "03001"]).tolist() == [-1, 0]
    # Codes of digits are looked up as numbers, and nothing else that is one may be taken for a code.
    alike = ["99999", "03001", "3001", "003001", "+3001", "-3001", "3e001", "٠٣٠٠١"]
    alike += ["", " 3001", "3001 "]
    assert [demo_geography.find_unit("cty", code) for code in alike] == [-1, 0, *[-1] * 9]
    assert demo_geography.unit_number("cty", [*alike, None]).tolist() == [-1, 0, *[-1] * 10]
    assert demo_geography.unit_of("trct", [-1, 0]).tolist() == [-1, 0]
    assert demo_geography.unit_of("tabblk2010", [-1, 5]).tolist() == [-1, 5]


def test_unknown_level_is_refused_with_the_allowed_ones(demo_geography):
    for call in (
        lambda: demo_geography.unit_of("ward", [0]),
        lambda: demo_geography.unit_number("ward", ["x"]),
        lambda: demo_geography.find_unit("ward", "x"),
        lambda: demo_geography.codes("ward"),
        lambda: demo_geography.starts("ward"),
    ):
        with pytest.raises(ValueError, match="'ward'; the geography has: st, cty, trct, bgrp, tabblk2010"):
            call()


@pytest.mark.parametrize("number", [-2, 120])
def test_block_numbers_out_of_range(demo_geography, number):
    with pytest.raises(ValueError, match=r"\[-1, 120\)"):
        demo_geography.unit_of("trct", [number])


def test_points(demo_geography):
    points = demo_geography.points()
    assert points.crs == "EPSG:4326"
    assert points["tabblk2010"].tolist() == demo_geography.blocks.tolist()
    np.testing.assert_array_equal(points.geometry.x, demo_geography.longitude)
    np.testing.assert_array_equal(points.geometry.y, demo_geography.latitude)


def test_repr_says_what_matters(demo_geography):
    assert repr(demo_geography).startswith("<Geography: 1 st > 2 cty > 6 trct > ")
    assert repr(demo_geography).endswith("120 tabblk2010>")


def test_goes_to_workers_and_cannot_be_changed(demo_geography):
    demo_geography.number(["x"])
    again = pickle.loads(pickle.dumps(demo_geography))
    assert "_indexes" not in again.__dict__
    assert again.number(demo_geography.blocks).tolist() == list(range(120))
    with pytest.raises(AttributeError):
        demo_geography.levels = ()
