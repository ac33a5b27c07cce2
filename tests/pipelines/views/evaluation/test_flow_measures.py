"""Measures of two tables of flows: by hand, against slow loops, and what must hold of any tables."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import geo_data
from pipelines.views.evaluation.flow_measures import (
    add_up,
    common_part_of_commuters,
    implicate_variance,
    jensen_shannon_divergence,
    lost_pairs,
    side_error,
    side_variation,
    top_flows_recall,
    total_variation_distance,
)

Cells = dict[tuple[int, int], int]
TABLES = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(1, 9), min_size=1, max_size=12
)
DISTANCES = [
    total_variation_distance,
    jensen_shannon_divergence,
    side_variation,
]


def table(cells: Cells) -> pd.DataFrame:
    """Return a table of flows; keys are (work, home)."""
    rows = [(work, home, jobs) for (work, home), jobs in sorted(cells.items())]
    frame = pd.DataFrame(rows, columns=["work", "home", "S000"])
    return frame.astype({"work": np.int32, "home": np.int32, "S000": np.int64})


A = table({(0, 0): 6, (0, 1): 2, (1, 1): 2})
B = table({(0, 0): 4, (0, 1): 4, (2, 1): 2})


def test_by_hand() -> None:
    assert total_variation_distance(A, B) == pytest.approx(0.4)
    assert common_part_of_commuters(A, B) == pytest.approx(0.6)
    assert lost_pairs(A, B) == (pytest.approx(1 / 3), pytest.approx(0.2))
    assert side_variation(A, B) == pytest.approx(0.2)
    assert side_error(A, B) == 2
    assert side_variation(A, B, "work") == pytest.approx(0.2)
    disjoint = table({(3, 3): 10})
    assert total_variation_distance(A, disjoint) == 1
    assert jensen_shannon_divergence(A, disjoint) == pytest.approx(1)
    assert common_part_of_commuters(A, disjoint) == 0
    assert lost_pairs(A, disjoint) == (1, 1)


def test_largest_flows() -> None:
    truth = table({(0, 0): 9, (0, 1): 8, (1, 0): 7, (1, 1): 1})
    release = table({(0, 0): 9, (0, 1): 1, (1, 0): 8, (2, 2): 2})
    assert top_flows_recall(truth, release, 1) == 1
    assert top_flows_recall(truth, release, 2) == 0.5
    assert top_flows_recall(truth, release, 3) == pytest.approx(2 / 3)
    # Two of four equal flows are a half of each, whatever the order of rows.
    equal = table({(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 1})
    assert top_flows_recall(equal, table({(1, 1): 5, (1, 0): 4}), 2) == pytest.approx(0.5)


def test_variance_between_implicates() -> None:
    found = implicate_variance([A, B, table({(0, 0): 5})])
    counts = {(0, 0): [6, 4, 5], (0, 1): [2, 4, 0], (1, 1): [2, 0, 0], (2, 1): [0, 2, 0]}
    assert list(zip(found["work"], found["home"], strict=True)) == sorted(counts)
    for row, values in zip(found.itertuples(), counts.values(), strict=True):
        assert (row.mean, row.variance) == (np.mean(values), pytest.approx(np.var(values, ddof=1)))
    with pytest.raises(ValueError, match="at least two"):
        implicate_variance([A])


def test_add_up() -> None:
    geography = geo_data.Geography(
        block_level="block",
        block_codes=pa.array("abcd"),
        levels=("area",),
        unit_codes=(np.array(["x", "y"], dtype=object),),
        unit_starts=(np.array([0, 3], np.int32),),
        latitude=np.zeros(4),
        longitude=np.zeros(4),
    )
    flows = table({(0, 1): 1, (0, 2): 2, (2, 3): 4, (3, 0): 8})
    both = add_up(flows, geography, ("block", "block"), ("area", "area"))
    assert (
        both.to_numpy().tolist() == table({(0, 0): 3, (0, 1): 4, (1, 0): 8})[both.columns].to_numpy().tolist()
    )
    homes = add_up(flows, geography, ("block", "block"), ("area", "block"))
    expected = table({(0, 0): 3, (2, 1): 4, (3, 0): 8})
    assert homes[["work", "home", "S000"]].to_numpy().tolist() == expected.to_numpy().tolist()


@settings(max_examples=40)
@given(TABLES, TABLES)
def test_against_slow_loops(one: Cells, two: Cells) -> None:
    first, second = table(one), table(two)
    n, m = sum(one.values()), sum(two.values())
    pairs = one.keys() | two.keys()
    p, q = ({pair: cells.get(pair, 0) / size for pair in pairs} for cells, size in ((one, n), (two, m)))
    variation = sum(abs(p[pair] - q[pair]) for pair in pairs) / 2
    assert total_variation_distance(first, second) == pytest.approx(variation)
    divergence = 0.0
    for pair in pairs:
        middle = (p[pair] + q[pair]) / 2
        divergence += sum(x * math.log2(x / middle) / 2 for x in (p[pair], q[pair]) if x)
    assert jensen_shannon_divergence(first, second) == pytest.approx(divergence, abs=1e-9)
    common = 2 * sum(min(one.get(pair, 0), two.get(pair, 0)) for pair in pairs) / (n + m)
    assert common_part_of_commuters(first, second) == pytest.approx(common)
    lost = [pair for pair in one if pair not in two]
    jobs = sum(one[pair] for pair in lost)
    assert lost_pairs(first, second) == pytest.approx((len(lost) / len(one), jobs / n))
    homes: list[Counter[int]] = [Counter(), Counter()]
    for counter, cells in zip(homes, (one, two), strict=True):
        for (_, home), count in cells.items():
            counter[home] += count
    units = homes[0].keys() | homes[1].keys()
    error = sum(abs(homes[0][unit] - homes[1][unit]) for unit in units) / len(units)
    assert side_error(first, second) == pytest.approx(error)


@settings(max_examples=40)
@given(TABLES, TABLES)
def test_properties(one: Cells, two: Cells) -> None:
    first, second = table(one), table(two)
    for distance in DISTANCES:
        assert distance(first, first) == pytest.approx(0, abs=1e-12)
        assert distance(first, second) == pytest.approx(distance(second, first))
        assert -1e-12 <= distance(first, second) <= 1 + 1e-12
    assert common_part_of_commuters(first, first) == 1
    assert lost_pairs(first, first) == (0, 0)
    # Adding up cannot make tables differ more.
    assert side_variation(first, second) <= total_variation_distance(first, second) + 1e-12
    for k in (1, 3, 100):
        assert top_flows_recall(first, first, k) == pytest.approx(1)
        assert 0 <= top_flows_recall(first, second, k) <= 1


@given(TABLES)
def test_common_part_and_variation_agree_for_equal_totals(cells: Cells) -> None:
    first = table(cells)
    second = first.assign(home=(first["home"] + 1) % 5)
    sides = (common_part_of_commuters, total_variation_distance)
    assert sum(measure(first, second) for measure in sides) == pytest.approx(1)
