"""Cuts through the hierarchy: by hand, and against recursion in rational numbers."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geo_data import Geography, build_model
from geo_data.coarsening import Measure, Tree

from .plain import block_measure, cut, geography

INF = math.inf
LEVEL_NAMES = ("region", "area", "block")


def tree_of(places: Geography, weights: list[int], level: str = "area") -> Tree:
    return Tree(build_model(places, [], np.array(weights), np.ones(len(weights), np.int64), level))


def cells(
    tree: Tree, measure: list[float], least: float, run: float, deepest: int | None = None
) -> list[int]:
    found = tree.cut(Measure(np.array(measure, float)), least, run, deepest)
    assert found.dtype == np.int32
    return [int(first) for first in found]


# --- the tree


def test_nodes_of_every_depth() -> None:
    tree = tree_of(geography([2, 1, 3], [2, 1]), [1] * 6)
    assert [starts.tolist() for starts in tree.starts] == [[0], [0, 3], [0, 2, 3], [0, 1, 2, 3, 4, 5]]
    assert tree.unit_depth == 2
    assert tree_of(geography([2, 1], [2]), [1] * 3, "region").unit_depth == 1
    assert tree_of(geography([2, 1], [2]), [1] * 3, "block").unit_depth == 3


def test_measure_before_a_block_by_hand() -> None:
    """Two areas of measure 4 and 6; inside, weights 1, 3 and 1, 1, 4."""
    tree = tree_of(geography([2, 3], [2]), [1, 3, 1, 1, 4])
    found = tree.up_to(Measure(np.array([4.0, 6.0])), np.arange(6))
    np.testing.assert_allclose(found, [0, 1, 4, 5, 6, 10], rtol=1e-15)


# --- by hand


def test_a_node_is_split_at_exactly_the_least_measure() -> None:
    tree = tree_of(geography([1, 1, 2], [2, 1]), [4] * 4)
    measure = [2.0, 2.0, 4.0]
    assert cells(tree, measure, 8.0, 0.0) == [0, 2]
    assert cells(tree, measure, 8.001, 0.0) == [0]
    assert cells(tree, measure, 4.0, 0.0) == [0, 1, 2, 3]
    assert cells(tree, measure, 4.001, 0.0) == [0, 2]


def test_siblings_are_joined_to_cells_of_about_the_run() -> None:
    """Eight blocks of measure 1 below one area of measure 8, which alone is wanted fine."""
    tree = tree_of(geography([8], [1]), [1] * 8)
    assert cells(tree, [8.0], 4.0, 0.0) == list(range(8))
    assert cells(tree, [8.0], 4.0, 1.0) == list(range(8))
    assert cells(tree, [8.0], 4.0, 2.0) == [0, 2, 4, 6]
    assert cells(tree, [8.0], 4.0, 4.0) == [0, 4]
    # 8 / 3 is rounded to 3 cells: of blocks 0 to 2, 3 and 4, 5 to 7, by their middles.
    assert cells(tree, [8.0], 4.0, 3.0) == [0, 3, 5]
    assert cells(tree, [8.0], 4.0, 100.0) == [0]
    assert cells(tree, [8.0], 4.0, INF) == [0]


def test_without_levels_the_only_split_is_into_blocks() -> None:
    places = Geography("block", pa.array("abc"), (), (), (), np.zeros(3), np.zeros(3))
    tree = tree_of(places, [1, 1, 1], "block")
    assert cells(tree, [1.0, 2.0, 1.0], 4.0, 0.0) == [0, 1, 2]
    assert cells(tree, [1.0, 2.0, 1.0], 4.0, 2.0) == [0, 1]
    assert cells(tree, [1.0, 2.0, 1.0], 5.0, 0.0) == [0]


@pytest.mark.parametrize("run", [0.0, 1.0, 2.5, INF])
def test_many_nodes_and_cells(run: float) -> None:
    """More of both than a kernel makes room for at first: 300 areas wanted fine, thousands of cells."""
    rng = np.random.default_rng(1)
    areas = rng.integers(1, 12, 300).tolist()
    places, weights = geography(areas, [150, 100, 50]), rng.integers(1, 10**6, sum(areas)).tolist()
    measure = rng.uniform(0.5, 20, 300)
    exact = block_measure(places, "area", measure.tolist(), weights)
    expected = cut(places, exact, Fraction(1), Fraction(run) if run < INF else run, 3)
    found = cells(tree_of(places, weights), measure.tolist(), 1.0, run)
    assert found == expected
    assert len(found) > 600


# --- against recursion

measures = st.one_of(st.just(0.0), st.integers(0, 60).map(float), st.floats(0, 50))
runs = st.one_of(st.just(0.0), st.just(INF), st.floats(0.01, 60), st.integers(1, 20).map(float))


@given(st.data())
def test_agrees_with_recursion(data: st.DataObject) -> None:
    regions = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    areas = data.draw(st.lists(st.integers(1, 5), min_size=sum(regions), max_size=sum(regions)))
    places = geography(areas, regions)
    n, level = sum(areas), data.draw(st.sampled_from(LEVEL_NAMES))
    weights = data.draw(st.lists(st.integers(1, 50), min_size=n, max_size=n))
    units = places.n_units(level)
    measure = data.draw(st.lists(measures, min_size=units, max_size=units))
    least, run = data.draw(st.floats(0.02, 40)), data.draw(runs)
    deepest = data.draw(st.sampled_from([0, 1, 2, 3]))

    tree, exact = tree_of(places, weights, level), block_measure(places, level, measure, weights)
    running = [float(x) for x in itertools.accumulate([Fraction(0), *exact])]
    np.testing.assert_allclose(
        tree.up_to(Measure(np.array(measure)), np.arange(n + 1)), running, rtol=1e-12, atol=1e-12
    )

    found = cells(tree, measure, least, run, deepest)
    assert found[0] == 0
    assert found == sorted(set(found))
    expected = cut(places, exact, Fraction(least), Fraction(run) if run < INF else run, deepest)
    assert found == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 12))
@example([0, 0, 5, 0], 7)
def test_joined_cells_are_of_about_the_run(blocks: list[int], run: int) -> None:
    """Every stretch has as many cells as fit best, at most, each within the size of one block of its part."""
    tree = tree_of(geography([len(blocks)], [1]), [1] * len(blocks), "block")
    whole, largest = sum(blocks), max(blocks)
    if whole == 0 or largest == whole:
        return
    found = cells(tree, [float(b) for b in blocks], largest + 0.5, float(run))
    if whole < largest + 0.5:
        assert found == [0]
        return
    pieces = max(1, round(whole / run))
    assert len(found) <= pieces
    for a, b in itertools.pairwise([*found, len(blocks)]):
        assert sum(blocks[a:b]) <= whole / pieces + largest


def test_cuts_of_rows_are_those_of_each_row() -> None:
    tree = tree_of(geography([2, 3], [2]), [1, 3, 1, 1, 4])
    shares = np.array([[0.4, 0.6], [0.9, 0.1], [0.5, 0.5]])
    row = np.array([0, 0, 0, 1, 2, 2])
    limits = np.array([(0.3, 0.3), (0.3, 0.3), (0.3, 0.0), (0.3, 0.0), (0.01, 0.01), (0.1, 0.1)]).T.copy()
    counts, found, doublings = tree.cuts(shares, row, *limits, most=3)
    assert counts.sum() == found.size == doublings.size > 2 * 5, "there is room for more than two cuts"
    pieces = (np.split(array, np.cumsum(counts)[:-1]) for array in (found, doublings))
    for r, least, run, own, doubled in zip(row, *limits, *pieces, strict=True):
        alone = tree.cut(Measure(shares[r]), least, run)
        assert own.tolist() == alone.tolist()
        assert doubled.tolist() == tree.doublings(Measure(shares[r]), alone, 5, 3).tolist()
    none = tree.cuts(shares, np.zeros(0, np.int64), np.zeros(0), np.zeros(0), 3)
    assert [array.size for array in none] == [0, 0, 0]


def test_cuts_are_kept_while_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tree_of(geography([2, 3], [2]), [1, 3, 1, 1, 4])
    made: list[int] = []
    plain = Tree.cuts

    def counted(
        self: Tree, shares: np.ndarray, row: np.ndarray, *more: np.ndarray | int
    ) -> tuple[np.ndarray, ...]:
        made.append(row.size)
        return plain(self, shares, row, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Tree, "cuts", counted)
    units, shares, row = np.array([7, 9], np.int32), np.array([[0.4, 0.6], [0.9, 0.1]]), np.array([0, 0, 1])

    def check(*limits: float) -> None:
        least = np.array(limits)
        kept, own = (
            tree.cuts_once(units, shares, row, least, least, 3),
            plain(tree, shares, row, least, least, 3),
        )
        assert [array.tolist() for array in kept] == [array.tolist() for array in own]

    for limits in (0.3, 0.2, 0.3), (0.3, 0.2, 0.3), (0.3, 0.1, 0.3):
        check(*limits)
    assert made == [3, 0, 1], "each once"
    tree._room = 0
    check(0.05, 0.1, 0.3)
    check(0.05, 0.1, 0.3)
    assert made[3:] == [1, 1], "no more is kept"
