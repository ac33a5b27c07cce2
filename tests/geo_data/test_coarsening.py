"""Coarsening: "split a node while its expected public count is at least a threshold", against recursion."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from geo_data import Coarsening, Flows, Geography, build_model, coarsen, retention_grid

Cell = tuple[int, Fraction]  # first block, expected count


def geography(areas: list[int], regions: list[int]) -> Geography:
    """Return a geography: `areas` are blocks in each area, `regions` are areas in each region."""
    first_area = np.cumsum([0, *areas])[:-1]
    first_region = first_area[np.cumsum([0, *regions])[:-1]]
    n = sum(areas)
    return Geography(
        block_level="block",
        blocks=np.array([f"b{i:03}" for i in range(n)], dtype=object),
        levels=("region", "area"),
        unit_codes=(
            np.array([f"r{i}" for i in range(len(regions))], dtype=object),
            np.array([f"a{i}" for i in range(len(areas))], dtype=object),
        ),
        unit_starts=(first_region.astype(np.int32), first_area.astype(np.int32)),
        latitude=np.zeros(n),
        longitude=np.zeros(n),
    )


def area_flows(origin: list[int], destination: list[int], flow: list[float]) -> Flows:
    return Flows(
        "area",
        "area",
        np.array(origin, np.int32),
        np.array(destination, np.int32),
        np.array(flow, float),
        {"origin": 0, "destination": 0, "rows": 0},
        "table.csv",
    )


def cuts_of(coarse: Coarsening, pool: int) -> list[int]:
    domain = coarse.domain[pool]
    return coarse.cuts[coarse.offsets[domain] : coarse.offsets[domain + 1]].tolist()


def strata_of(coarse: Coarsening, pool: int) -> list[Fraction]:
    domain = coarse.domain[pool]
    codes = coarse.stratum[coarse.offsets[domain] : coarse.offsets[domain + 1]]
    return [coarse.retention[code] for code in codes]


def one_pool(
    places: Geography, weights: list[int], n: int, threshold: Fraction | int, f_min: str = "1"
) -> Coarsening:
    model = build_model(places, [], np.array(weights))
    work, size = np.zeros(1, np.int32), np.array([n])
    return coarsen(model, work, size, Fraction(threshold), Fraction(f_min))


# --- by hand


def test_a_node_is_split_at_exactly_the_threshold() -> None:
    # 8 workers over weights 4 + 4 (region 0: areas of one block) and 8 (region 1: one area of two blocks).
    places = geography([1, 1, 2], [2, 1])
    weights = [4, 4, 4, 4]
    assert cuts_of(one_pool(places, weights, 8, Fraction(8)), 0) == [0, 2]
    assert cuts_of(one_pool(places, weights, 8, Fraction("8.001")), 0) == [0]
    assert cuts_of(one_pool(places, weights, 8, Fraction(4)), 0) == [0, 1, 2, 3]
    assert cuts_of(one_pool(places, weights, 8, Fraction("4.001")), 0) == [0, 2]


def test_only_the_full_side_is_split() -> None:
    places = geography([2, 2], [1, 1])
    coarse = one_pool(places, [7, 7, 1, 1], 16, 4)
    assert cuts_of(coarse, 0) == [0, 1, 2]


def test_extreme_thresholds() -> None:
    places = geography([3, 2, 4], [2, 1])
    weights = [1] * 9
    assert cuts_of(one_pool(places, weights, 2**20, 10**9), 0) == [0]
    assert cuts_of(one_pool(places, weights, 1, Fraction(1, 10**9)), 0) == list(range(9))


def test_single_child_chains_end_in_one_cell() -> None:
    """A region of one area of one block is one cell, however often it is split."""
    places = geography([1, 1], [1, 1])
    assert cuts_of(one_pool(places, [1, 1], 64, Fraction(1, 100)), 0) == [0, 1]
    assert cuts_of(one_pool(geography([1], [1]), [5], 64, Fraction(1, 100)), 0) == [0]


def test_without_levels_the_only_split_is_into_blocks() -> None:
    places = Geography("block", np.array(["a", "b", "c"], dtype=object), (), (), (), np.zeros(3), np.zeros(3))
    assert cuts_of(one_pool(places, [1, 1, 1], 4, 4), 0) == [0, 1, 2]
    assert cuts_of(one_pool(places, [1, 1, 1], 4, 5), 0) == [0]


def test_sizes_are_rounded_down_to_powers_of_two() -> None:
    places = geography([2, 2], [1, 1])
    model = build_model(places, [], np.ones(4, np.int64))
    n = np.array([1, 2, 3, 4, 5, 7, 8, 2**20 - 1, 2**20, 2**31 - 1])
    coarse = coarsen(model, np.zeros(n.size, np.int32), n, Fraction(1), Fraction(1))
    expected = [2 ** (int(v).bit_length() - 1) for v in n]
    assert coarse.size[coarse.domain].tolist() == expected
    assert coarse.size.size == len(set(expected))


def test_uncovered_pools_are_counted() -> None:
    places = geography([1, 1, 1], [2, 1])
    model = build_model(places, [area_flows([0, 1], [0, 1], [5.0, 0.0])], np.ones(3, np.int64))
    work = np.array([0, 0, 1, 2, 2], np.int32)
    coarse = coarsen(model, work, np.array([1, 9, 1, 1, 9]), Fraction(1), Fraction(1))
    assert coarse.uncovered_pools == 3  # a row with flow 0 covers nothing
    assert coarse.group[coarse.domain].tolist() == work.tolist()


# --- retention


def test_retention_grid() -> None:
    half = Fraction(1, 2)
    assert retention_grid(Fraction(1)) == (1,)
    assert retention_grid(half) == (1, half)
    assert retention_grid(Fraction(3, 10)) == (1, half, Fraction(3, 10))
    assert retention_grid(Fraction(1, 8)) == (1, half, half**2, half**3)
    for outside in (Fraction(0), Fraction(-1, 2), Fraction(3, 2), Fraction(1, 2**41)):
        with pytest.raises(ValueError, match="smallest retention"):
            retention_grid(outside)


def test_retention_is_rounded_up_to_the_grid() -> None:
    # One worker over blocks of 1/2, 1/4, 1/8, 1/8: each block is a cell at threshold 1.
    places = geography([1, 1, 1, 1], [4])
    weights = [8, 4, 2, 2]
    quarter, half = Fraction(1, 4), Fraction(1, 2)
    cut = Fraction(1, 100)
    assert strata_of(one_pool(places, weights, 1, cut, "1"), 0) == [1, 1, 1, 1]
    # Expected counts on the grid are kept, below f_min clipped.
    assert strata_of(one_pool(places, weights, 1, cut, "1/4"), 0) == [half, quarter, quarter, quarter]
    assert strata_of(one_pool(places, weights, 1, cut, "1/8"), 0) == [half, quarter, quarter / 2, quarter / 2]
    # 3/10 lies between 1/4 and 1/2: 1/4 is clipped up to it, 1/2 stays.
    assert strata_of(one_pool(places, weights, 1, cut, "3/10"), 0) == [half, *[Fraction(3, 10)] * 3]
    # Twice the workers: expected 1, 1/2, 1/4, 1/4.
    assert strata_of(one_pool(places, weights, 2, cut, "3/10"), 0) == [1, half, *[Fraction(3, 10)] * 2]
    # Between grid points: up. Expected 1/3 each.
    assert strata_of(one_pool(geography([3], [1]), [1, 1, 1], 1, cut, "1/8"), 0) == [half] * 3


# --- against recursion


def slow_cells(
    places: Geography, share: list[Fraction], weights: list[int], size: int, threshold: Fraction
) -> Iterator[Cell]:
    """Split recursively. `share` is P(area | destination); below the area, weights."""
    names = ["region", "area", "block"]
    bounds = {name: [*places.starts(name).tolist(), places.n_blocks] for name in names}
    area = places.unit_of("area", np.arange(places.n_blocks)).tolist()

    def expected(first: int, stop: int) -> Fraction:
        total = Fraction(0)
        for block in range(first, stop):
            inside = sum(w for w, a in zip(weights, area, strict=True) if a == area[block])
            total += size * share[area[block]] * Fraction(weights[block], inside)
        return total

    def split(first: int, stop: int, depth: int) -> Iterator[Cell]:
        count = expected(first, stop)
        # Ties are public and harmless, but floats and fractions may disagree on them.
        assume(count == 0 or abs(count / threshold - 1) > Fraction(1, 10**9))
        if count < threshold or depth == len(names):
            yield first, count
            return
        inner = [b for b in bounds[names[depth]] if first <= b <= stop]
        for a, b in itertools.pairwise(inner):
            yield from split(a, b, depth + 1)

    yield from split(0, places.n_blocks, 0)


@given(st.data())
def test_agrees_with_recursion(data: st.DataObject) -> None:
    regions = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    areas = data.draw(st.lists(st.integers(1, 4), min_size=sum(regions), max_size=sum(regions)))
    places = geography(areas, regions)
    weights = data.draw(st.lists(st.integers(1, 50), min_size=sum(areas), max_size=sum(areas)))
    area = st.integers(0, len(areas) - 1)
    pairs = data.draw(st.lists(st.tuples(area, area), unique=True, min_size=1, max_size=10))
    flow = data.draw(st.lists(st.integers(0, 300).map(float), min_size=len(pairs), max_size=len(pairs)))
    model = build_model(places, [area_flows(*map(list, zip(*pairs, strict=True)), flow)], np.array(weights))
    pools = data.draw(
        st.lists(st.tuples(st.integers(0, sum(areas) - 1), st.integers(1, 500)), min_size=1, max_size=6)
    )
    threshold = data.draw(st.fractions(Fraction(1, 50), 40, max_denominator=50))
    f_min = data.draw(st.sampled_from(["1", "1/2", "3/10", "1/16", "1/100"]))
    work, n = (np.array(column) for column in zip(*pools, strict=True))

    coarse = coarsen(model, work.astype(np.int32), n, threshold, Fraction(f_min))

    assert coarse.retention == retention_grid(Fraction(f_min))
    for pool, (block, size) in enumerate(pools):
        group = model.group_of_block[block]
        assert coarse.group[coarse.domain[pool]] == group
        share = [Fraction(p) for p in model.shares(np.array([group], np.int32))[0].tolist()]
        octave = 2 ** (size.bit_length() - 1)
        cells = list(slow_cells(places, share, weights, octave, threshold))
        cuts = cuts_of(coarse, pool)
        assert cuts == [first for first, _ in cells]
        assert cuts[0] == 0
        assert cuts == sorted(set(cuts))
        assert cuts[-1] < places.n_blocks
        for (_, count), f in zip(cells, strata_of(coarse, pool), strict=True):
            assume(all(abs(count / g - 1) > Fraction(1, 10**9) for g in coarse.retention))
            assert f == min(g for g in coarse.retention if g >= min(max(count, Fraction(f_min)), 1))


def test_many_groups_agree_with_one_at_a_time() -> None:
    """Groups are worked on 64 at a time; nobody may see the seam."""
    count = 150
    places = geography([2] * count, [50] * 3)
    rng = np.random.default_rng(1)
    pairs = np.unique(rng.integers(0, count, (600, 2)), axis=0)
    table = area_flows(pairs[:, 0].tolist(), pairs[:, 1].tolist(), rng.integers(1, 40, len(pairs)).tolist())
    model = build_model(places, [table], rng.integers(1, 9, 2 * count))
    work, n = rng.integers(0, 2 * count, 400).astype(np.int32), rng.integers(1, 300, 400)
    whole = coarsen(model, work, n, Fraction(1), Fraction(1, 4))
    for pool in range(0, 400, 7):
        alone = coarsen(model, work[[pool]], n[[pool]], Fraction(1), Fraction(1, 4))
        assert cuts_of(whole, pool) == cuts_of(alone, 0)
        assert strata_of(whole, pool) == strata_of(alone, 0)
