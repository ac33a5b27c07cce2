"""Public weights: exact integers, every block drawable, mismatches reported."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geo_data import read_crosswalk, read_weights
from geo_data.weights import uniform_weights


def read(path, geography, level="trct"):
    return read_weights(path, geography, level=level, area="GEOID", weight="POP10")


def test_population_is_spread_evenly(demo_region, demo_geography):
    weights = read(demo_region["population"], demo_geography)
    assert weights.report == ()
    assert weights.weights.dtype == np.int64
    assert len(weights.weights) == demo_geography.n_blocks
    tract = demo_geography.unit_of("trct", np.arange(demo_geography.n_blocks))
    for unit in range(demo_geography.n_units("trct")):
        assert len(set(weights.weights[tract == unit])) == 1
    # 2 people per job; rounding moves a tract by less than one millionth per block.
    assert abs(weights.weights.sum() - 1200 * 10**6) < demo_geography.n_blocks


@settings(max_examples=10, deadline=None)
@given(weight=st.one_of(st.integers(1, 10**9), st.decimals("0.01", 10**4, places=2)), n=st.integers(1, 9))
def test_fixed_point_rule(tmp_path_factory, weight, n):
    folder = tmp_path_factory.mktemp("w")
    (folder / "x.csv").write_text("b,a,y,x\n" + "".join(f"b{i},A,0,1\n" for i in range(n)))
    (folder / "w.csv").write_text(f"GEOID,POP10\nA,{weight}\n")
    geography = read_crosswalk(folder / "x.csv", block="b", levels=("a",), centroid=("y", "x"))
    exact = Fraction(weight) * 10**6 / n
    expected = max(1, int(exact + Fraction(1, 2)))
    assert read(folder / "w.csv", geography, "a").weights.tolist() == [expected] * n


def test_block_table(demo_geography, write):
    rows = "".join(f"{code},{number}\n" for number, code in enumerate(demo_geography.blocks))
    weights = read(write("GEOID,POP10\n" + rows), demo_geography, "tabblk2010").weights
    assert weights.tolist() == [max(1, number * 10**6) for number in range(120)]


def test_mismatches_are_reported(demo_geography, write):
    tract = demo_geography.codes("trct")[2]
    path = write(f"GEOID,POP10\n{tract},12.5\n99001000100,7\n99001000200,7\n")
    weights = read(path, demo_geography)
    assert weights.report == (
        f"{path}: 5 of 6 trct units have no weight: smallest used",
        f"{path}: 2 of 3 rows are outside the geography: ignored",
    )
    starts = [*demo_geography.starts("trct"), 120]
    assert (weights.weights[: starts[2]] == 1).all()
    assert weights.weights[starts[2]] == round(12.5e6 / (starts[3] - starts[2]))
    assert "5 of 6 trct units" in repr(weights)


def test_uniform(demo_geography):
    weights = uniform_weights(demo_geography)
    assert weights.weights.tolist() == [1] * 120
    assert weights.weights.dtype == np.int64
    assert repr(weights) == "<BlockWeights: 120 blocks; all matched>"


@pytest.mark.parametrize(
    ("rows", "match", "column", "count"),
    [
        ("03001000100,-1\n", "weights are negative", "POP10", 1),
        ("03001000100,\n", "missing or blank", "POP10", 1),
        ("03001000100,CANARY\n", "not finite numbers", "POP10", 1),
        ("03001000100,1\n03001000100,1\n", "rows repeat an area", "GEOID", 1),
        ("03001000100,1.000\n", "may be one or a thousand", "POP10", 1),
        ("3001000100,1\n", "lost their leading zeros", "GEOID", 1),
        ("99001000100,1\n", "no row has a trct of the geography", "GEOID", None),
        ("03001000100,0\n99001000100,7\n", "all weights in the geography are 0", "POP10", None),
        ("03001000100,999999999999\n03001000200,2\n", "add up to more than 1,000,000,000,000", "POP10", None),
    ],
)
def test_bad_tables(demo_geography, write, refused, rows, match, column, count):
    path = write("GEOID,POP10\n" + rows)
    with refused(path, match, column=column, count=count):
        read(path, demo_geography)


def test_a_weight_with_three_decimals(demo_geography, write):
    path = write("GEOID,POP10\n03001000100,1.500\n")
    columns = {"level": "trct", "area": "GEOID", "weight": "POP10"}
    weights = read_weights(path, demo_geography, **columns, decimal_point=True).weights
    blocks = np.diff(demo_geography.starts("trct"))[0]
    assert weights[0] == round(1.5e6 / blocks)


def test_bad_names(demo_region, demo_geography, refused):
    path = demo_region["population"]
    with pytest.raises(ValueError, match="no level 'tract'"):
        read(path, demo_geography, "tract")
    with refused(path, "one column is named for two purposes: GEOID"):
        read_weights(path, demo_geography, level="trct", area="GEOID", weight="GEOID")
    with refused(path, "missing columns: POP20; the file has: GEOID, POP10"):
        read_weights(path, demo_geography, level="trct", area="GEOID", weight="POP20")
