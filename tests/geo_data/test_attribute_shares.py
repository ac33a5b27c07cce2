"""Public tables of shares of categories: every share is above 0, and what is wrong is said once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geo_data import read_crosswalk
from geo_data.attribute_shares import read_shares

MODES = ("bus", "car", "foot")
COLUMNS = {"category": "mode", "count": "n", "level": "trct", "area": "GEOID"}


def read(path, geography, **changes):
    return read_shares(path, geography, MODES, **{**COLUMNS, **changes})


@settings(max_examples=20, deadline=None)
@given(
    counts=st.lists(
        st.tuples(*[st.one_of(st.just(0.0), st.floats(0, 1e308))] * 3).filter(any), min_size=1, max_size=4
    )
)
def test_shares_are_those_of_the_table_nearly(tmp_path_factory, counts):
    """Of areas with numbers; others, and the last, which has no row, have those of the whole table."""
    folder, n = tmp_path_factory.mktemp("s"), len(counts) + 1
    (folder / "x.csv").write_text("b,a,y,x\n" + "".join(f"b{i},A{i},1,{i}\n" for i in range(n)))
    rows = [
        f"A{i},{mode},{x!r}\n" for i, row in enumerate(counts) for mode, x in zip(MODES, row, strict=True)
    ]
    (folder / "s.csv").write_text("GEOID,mode,n\n" + "".join(rows))
    geography = read_crosswalk(folder / "x.csv", block="b", levels=("a",), centroid=("y", "x"))
    shares = read(folder / "s.csv", geography, level="a", decimal_point=True)
    assert shares.shape == (n, 3)
    assert shares.sum(axis=1) == pytest.approx(np.ones(n))
    assert shares.min() > 0.003
    scaled = np.array(counts) / np.max(counts)
    everywhere = scaled.sum(axis=0) / scaled.sum()
    assert shares[-1] == pytest.approx(everywhere, abs=0.01)
    for share, row in zip(shares, scaled, strict=False):
        assert share == pytest.approx(row / row.sum() if row.sum() else everywhere, abs=0.01)


def test_a_table_of_the_whole_region(demo_geography, write):
    path = write("mode,n\ncar,0.75\nbus,0.25\n")
    shares = read(path, demo_geography, level=None, area=None)
    assert shares == pytest.approx(np.tile([0.25083, 0.74583, 0.00333], (120, 1)), abs=1e-5)


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        ("03001000100,car,-1\n", "numbers are negative", "n", 1),
        ("03001000100,car,\n", "missing or blank", "n", 1),
        ("03001000100,car,CANARY\n", "not finite numbers", "n", 1),
        ("03001000100,car,0\n", "all numbers are 0", "n", None),
        ("03001000100,CANARY,1\n", "rows have a category that the configuration does not", "mode", 1),
        ("03001000100,car,1\n03001000100,car,2\n", "rows repeat a category", "mode", 1),
        ("03001000100,car,1\n99001000100,car,2\n", "rows have an area that is no trct", "GEOID", 1),
        ("3001000100,car,1\n", "lost their leading zeros", "GEOID", 1),
        ("03001000100,car,1.000\n", "may be one or a thousand", "n", 1),
    ],
)
def test_bad_tables(demo_geography, write, refused, rows, match, column, count):
    path = write("GEOID,mode,n\n" + rows)
    with refused(path, match, column=column, count=count):
        read(path, demo_geography)
    with refused(path, "missing columns: jobs"):
        read(path, demo_geography, count="jobs")
