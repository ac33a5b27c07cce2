"""Coarsening: the rules by hand, against recursion and loops, retention, and integer shares."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from geo_data import Geography, PublicModel, build_model
from geo_data.coarsening import (
    SHARE_SCALE,
    Coarsening,
    Measure,
    Rule,
    Tree,
    balanced,
    by_distance,
    by_share,
    by_threshold,
    by_units,
    coarsen,
    retention_grid,
)
from geo_data.geography import Partition
from synth import Domains
from synth.block_sampling import OriginShares

from .plain import TIE, block_measure, cut, flows, geography

HALF = Fraction(1, 2)


def model_of(places: Geography, weights: list[int], level: str = "area") -> PublicModel:
    """Return the model of public weights alone: no table, and so no decay."""
    return build_model(places, [], np.array(weights), np.ones(len(weights), np.int64), level)


def local_model(seed: int, areas: int, blocks: int) -> PublicModel:
    """Return a model in which every destination has shares of its own."""
    rng = np.random.default_rng(seed)
    n = areas * blocks
    north, east = 41 + rng.uniform(0, 1, n), -71 + rng.uniform(0, 1, n)
    places = geography([blocks] * areas, [areas // 2, areas - areas // 2], north.tolist(), east.tolist())
    pairs = {(int(o), int(d)) for o, d in rng.integers(0, areas, (4 * areas, 2))}
    table = {pair: float(rng.integers(1, 40)) for pair in sorted(pairs)}
    errors = {pair: float(rng.uniform(1, 5)) for pair in table}
    weights, jobs = rng.integers(1, 9, n), rng.integers(0, 30, n)
    return build_model(places, [flows("area", "area", table, errors)], weights, jobs, "area")


def one_pool(model: PublicModel, n: int, rule: Rule, f_min: str = "1", block: int = 0) -> Coarsening:
    return coarsen(model, np.array([block], np.int32), np.array([n]), rule, Fraction(f_min))


def cells_of(coarse: Coarsening, pool: int = 0) -> list[int]:
    domain = coarse.domain[pool]
    return [int(first) for first in coarse.cuts[coarse.offsets[domain] : coarse.offsets[domain + 1]]]


def retention_of(coarse: Coarsening, pool: int = 0) -> list[Fraction]:
    domain = coarse.domain[pool]
    codes = coarse.stratum[coarse.offsets[domain] : coarse.offsets[domain + 1]]
    return [coarse.retention[code] for code in codes]


def listed(coarse: Coarsening, pool: int = 0) -> dict[int, int]:
    row = coarse.row[coarse.domain[pool]]
    here = slice(coarse.share_offsets[row], coarse.share_offsets[row + 1])
    return dict(zip(coarse.share_unit[here].tolist(), coarse.share[here].tolist(), strict=True))


# --- rules by hand


@pytest.mark.parametrize("make", [balanced, by_threshold])
def test_the_threshold_is_that_of_the_pool_size(make: object) -> None:
    asked: list[float] = []

    def threshold(size: float) -> float:
        asked.append(size)
        return {4: 1.0, 8: 100.0}[int(size)]

    model = model_of(geography([4], [1]), [1] * 4)
    coarse = coarsen(model, np.zeros(2, np.int32), np.array([7, 8]), make(threshold), Fraction(1))  # type: ignore[operator]
    assert sorted(asked) == [4, 8]
    assert [cells_of(coarse, pool) for pool in (0, 1)] == [[0, 1, 2, 3], [0]]


def test_distance_keeps_blocks_of_near_units_apart() -> None:
    """Areas at 0, 1, 2, 30, 31 and 3 degrees east; a degree on the equator is 111.2 km."""
    east = [0.0, 0.0, 1.0, 2.0, 30.0, 31.0, 31.0, 3.0, 3.0]
    places = geography([2, 1, 1, 1, 2, 2], [3, 2, 1], [0.0] * 9, east)
    model = model_of(places, [1] * 9)
    assert cells_of(one_pool(model, 1, by_distance(model, 112.0))) == [0, 1, 2, 3, 4]
    assert cells_of(one_pool(model, 1, by_distance(model, 111.0))) == [0, 1, 2, 4]
    assert cells_of(one_pool(model, 1, by_distance(model, 334.0))) == [0, 1, 2, 3, 4, 7, 8]
    # Seen from area 3, at 30 degrees, its neighbour is near; everything else ends as far up as it can.
    assert cells_of(one_pool(model, 1, by_distance(model, 112.0), block=4)) == [0, 4, 5, 6, 7]
    assert cells_of(one_pool(model, 1, by_distance(model, 1e5))) == list(range(9))


def test_units_are_cells_for_every_pool() -> None:
    """Against a loop over the blocks: one cell begins where a unit of the level does, wherever the pool is.

    Areas that cut across units change nothing. Of a level whose cells hold several units of the model, each
    destination has a domain, for its shares; else all have one. The shares are kept in either case.
    """
    rng = np.random.default_rng(6)
    for _ in range(60):
        regions = rng.integers(1, 4, rng.integers(1, 4)).tolist()
        areas = rng.integers(1, 5, sum(regions)).tolist()
        n_blocks = sum(areas)
        towns = Partition(np.array(["t0", "t1"], dtype=object), np.arange(n_blocks, dtype=np.int32) % 2)
        places = replace(geography(areas, regions), non_nesting_areas={"town": towns})
        weights, jobs = rng.integers(1, 9, n_blocks), np.ones(n_blocks, np.int64)
        model = build_model(places, [], weights, jobs, "area")
        with pytest.raises(ValueError, match="the blocks of each area of town must follow each other"):
            by_units(places, "town")
        place, n = rng.integers(0, n_blocks, 7).astype(np.int32), rng.integers(1, 999, 7)
        unit_of = {level: places.unit_of(level, np.arange(n_blocks)).tolist() for level in ("region", "area")}
        unit_of["block"] = list(range(n_blocks))
        plain = coarsen(model, place, n, balanced(lambda size: 1), Fraction(1))
        for level, unit in unit_of.items():
            expected = [b for b in range(n_blocks) if b == 0 or unit[b] != unit[b - 1]]
            coarse = coarsen(model, place, n, by_units(places, level), Fraction(1))
            for pool in range(7):
                assert cells_of(coarse, pool) == expected
                assert level != "region" or listed(coarse, pool) == listed(plain, pool)
            own = sorted({unit_of["area"][block] for block in place})
            inside = level != "region" or max(regions) == 1
            assert coarse.unit.tolist() == (own[:1] if inside else own)
            assert set(coarse.size.tolist()) == {1}
            for mine, theirs in ((coarse.share_offsets, plain.share_offsets), (coarse.share, plain.share)):
                assert mine.tolist() == theirs.tolist()


def test_units_are_of_a_level_and_may_be_pruned() -> None:
    """Retention is by expected workers, so that with it destinations and sizes have cells of their own."""
    model = model_of(geography([2, 1, 1], [2, 1]), [2, 2, 2, 2])
    rule = by_units(model.geography, "area")
    coarse = coarsen(model, np.zeros(2, np.int32), np.array([1, 2]), rule, Fraction(1, 4))
    assert [cells_of(coarse, pool) for pool in (0, 1)] == [[0, 2, 3]] * 2
    quarter = Fraction(1, 4)
    assert [retention_of(coarse, pool) for pool in (0, 1)] == [[HALF, quarter, quarter], [1, HALF, HALF]]
    with pytest.raises(ValueError, match="there is no level 'ward'"):
        by_units(model.geography, "ward")


# --- sizes, domains, retention


def test_retention_grid() -> None:
    assert [*retention_grid(Fraction(1))] == [1]
    assert [*retention_grid(HALF)] == [1, HALF]
    assert [*retention_grid(Fraction(3, 10))] == [1, HALF, Fraction(3, 10)]
    assert [*retention_grid(Fraction(1, 8))] == [1, HALF, HALF**2, HALF**3]
    assert len(retention_grid(Fraction(1, 2**40))) == 41
    for outside in (Fraction(0), Fraction(-1, 2), Fraction(3, 2), Fraction(1, 2**41)):
        with pytest.raises(ValueError, match=r"smallest retention must be in \(0, 1\] and at least 2\^-40"):
            retention_grid(outside)
    with pytest.raises(TypeError, match="the smallest retention must be an exact number"):
        retention_grid(0.3)  # type: ignore[arg-type]


def test_cells_of_more_than_the_mean_have_larger_priors() -> None:
    """Blocks of 32, 4, 2, 1 and 1 of 40 workers, each a cell: 4, 1/2, 1/4, 1/8 and 1/8 of the mean."""
    model, n = model_of(geography([1] * 5, [5]), [32, 4, 2, 1, 1]), np.array([40])
    place, first = np.zeros(1, np.int32), by_threshold(lambda size: 0.01)

    def strata(rule: Rule, f_min: str = "1") -> tuple[list[Fraction], list[int]]:
        coarse = coarsen(model, place, n, rule, Fraction(f_min), larger_priors=True)
        assert len(coarse.retention) == len(coarse.multiple)
        return retention_of(coarse), [coarse.multiple[code] for code in coarse.stratum.tolist()]

    assert strata(first) == ([1] * 5, [4, 1, 1, 1, 1])
    # Joined to cells of about 4: 32, and 4 and 4 of the mean of 40/3, which is 2.4 times the mean.
    assert strata(balanced(lambda size: 4)) == ([1] * 3, [2, 1, 1])
    assert strata(balanced(lambda size: 100)) == ([1], [1])
    # Without being asked for, and where cells are not made by size, all are alike.
    assert strata(by_units(model.geography, "area")) == ([1] * 5, [1] * 5)
    assert coarsen(model, place, n, first, Fraction(1)).multiple == (1,)
    # Cells that a coin may leave out have no larger prior: fewer workers than one are expected.
    n = np.array([1])
    assert strata(first, "1/8") == (
        [1, Fraction(1, 8), Fraction(1, 8), Fraction(1, 8), Fraction(1, 8)],
        [4, 1, 1, 1, 1],
    )
    # Halves of powers of two are rounded by the logarithm; and there is a largest one.
    for weights, times in [([14, 5, 5, 5, 5], 2), ([13, 9, 9, 9, 9], 1), ([2000, *[1] * 999], 256)]:
        model, n = model_of(geography([1] * len(weights), [len(weights)]), weights), np.array([2**20])
        assert strata(first)[1] == [times] + [1] * (len(weights) - 1)


@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 500), st.sampled_from([0.5, 2.0, 9.0]))
def test_priors_grow_with_what_is_expected(seed: int, areas: int, n: int, threshold: float) -> None:
    """As the rule says it, in plain arithmetic."""
    model = local_model(seed, areas, 2)
    coarse = coarsen(
        model,
        np.zeros(1, np.int32),
        np.array([n]),
        balanced(lambda _: threshold),
        Fraction(1),
        larger_priors=True,
    )
    (shares,) = model.shares(np.array([0]))
    running = np.append(
        0, np.cumsum(block_measure(model.geography, "area", shares, model.weights)).astype(float)
    )
    ratio = np.diff(running[np.append(coarse.cuts, 2 * areas)]) * coarse.cuts.size
    exact = np.log2(np.maximum(ratio, 1))
    assume((np.abs(exact % 1 - 0.5) > TIE).all())
    assert np.array(coarse.multiple)[coarse.stratum].tolist() == (2 ** np.rint(exact)).tolist()


# --- against recursion

thresholds = st.floats(0.05, 40)


@given(st.data())
def test_agrees_with_recursion(data: st.DataObject) -> None:
    regions = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    areas = data.draw(st.lists(st.integers(1, 4), min_size=sum(regions), max_size=sum(regions)))
    n_blocks, n_areas = sum(areas), len(areas)
    east = [float(x) for x in data.draw(st.permutations(range(n_blocks)))]
    places = geography(areas, regions, [50.0] * n_blocks, east)
    weights = data.draw(st.lists(st.integers(1, 50), min_size=n_blocks, max_size=n_blocks))
    pair = st.tuples(*[st.integers(0, n_areas - 1)] * 2)
    table = data.draw(st.dictionaries(pair, st.integers(0, 300).map(float), max_size=10))
    tables = [flows("area", "area", table, dict.fromkeys(table, 3.0))] if table else []
    model = build_model(places, tables, np.array(weights), np.ones(n_blocks, np.int64), "area")
    pools = data.draw(
        st.lists(st.tuples(st.integers(0, n_blocks - 1), st.integers(1, 500)), min_size=1, max_size=6)
    )
    least, kind = (
        data.draw(thresholds),
        data.draw(st.sampled_from(["balanced", "threshold", "distance", "share"])),
    )
    reach, f_min = (
        data.draw(st.floats(1, 3000)),
        Fraction(data.draw(st.sampled_from(["1", "1/2", "3/10", "1/100"]))),
    )
    rule = {
        "balanced": balanced(lambda size: least),
        "threshold": by_threshold(lambda size: least),
        "distance": by_distance(model, reach),
        "share": by_share(0.9),
    }[kind]
    block, n = (np.array(column) for column in zip(*pools, strict=True))

    coarse = coarsen(model, block.astype(np.int32), n, rule, f_min)

    assert coarse.retention == retention_grid(f_min)
    for pool, (place, size) in enumerate(pools):
        unit = int(places.unit_of("area", place))
        octave = 2 ** (size.bit_length() - 1)
        assert (coarse.unit[coarse.domain[pool]], coarse.size[coarse.domain[pool]]) == (unit, octave)
        shares = model.shares(np.array([unit]))[0].tolist()
        expected = [octave * share for share in block_measure(places, "area", shares, weights)]
        if kind in ("balanced", "threshold"):
            firsts = cut(places, expected, Fraction(least), Fraction(least) if kind == "balanced" else 0, 3)
        else:
            distance = model.distance_km(np.array([unit]))[0].tolist()
            ranked = sorted(range(n_areas), key=lambda u: -shares[u])
            enough = next(i for i in range(n_areas + 1) if sum(shares[u] for u in ranked[:i]) > 0.9 - 1e-12)
            near = (
                [x <= reach for x in distance]
                if kind == "distance"
                else [u in ranked[:enough] for u in range(n_areas)]
            )
            kept = block_measure(places, "area", [float(x) for x in near], weights)
            firsts = cut(places, kept, Fraction(1, 10**9), math.inf, 3 if kind == "distance" else 2)
        cells = cells_of(coarse, pool)
        assert cells == firsts
        assert cells[0] == 0
        assert cells == sorted(set(cells))
        for a, b, f in zip(cells, [*cells[1:], n_blocks], retention_of(coarse, pool), strict=True):
            count = sum(expected[a:b])
            assume(all(abs(count / g - 1) > TIE for g in coarse.retention))
            assert f == min(g for g in coarse.retention if g >= min(max(count, f_min), 1))
        whole = {u: round(SHARE_SCALE * share) for u, share in enumerate(shares) if SHARE_SCALE * share > 0.5}
        assert listed(coarse, pool) == whole
        assert abs(sum(whole.values()) - SHARE_SCALE) <= n_areas / 2


def test_coarsening_fits_the_arrays_of_synth() -> None:
    """Cells partition the blocks, and a unit is drawn by shares only in cells of whole units."""
    model = local_model(2, 20, 3)
    rng = np.random.default_rng(3)
    place, n = rng.integers(0, 60, 90).astype(np.int32), rng.integers(1, 300, 90)
    coarse = coarsen(model, place, n, balanced(lambda size: 1.5), Fraction(1, 4))
    domains = Domains(60, coarse.offsets, coarse.cuts, coarse.stratum)
    units = model.geography.starts("area").astype(np.int64)
    OriginShares(units, coarse.share_offsets, coarse.share_unit, coarse.share, coarse.row)
    for domain in range(domains.n_domains):
        cells = domains.locate(np.full(60, domain, np.int32), np.arange(60, dtype=np.int32))
        assert sorted(set(cells.tolist())) == list(range(int(domains.n_cells[domain])))
        assert (np.diff(cells) >= 0).all()
        bounds: NDArray[np.int64] = np.append(
            coarse.cuts[coarse.offsets[domain] : coarse.offsets[domain + 1]], 60
        )
        for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            assert (a % 3 == 0 and b % 3 == 0) or a // 3 == (b - 1) // 3


@pytest.mark.parametrize("kind", ["balanced", "distance"])
def test_many_units_agree_with_one_at_a_time(kind: str) -> None:
    """Units are worked on 64 at a time; nobody may see the seam."""
    model = local_model(4, 150, 2)
    rule = balanced(lambda size: 1.0) if kind == "balanced" else by_distance(model, 30.0)
    rng = np.random.default_rng(5)
    place, n = rng.integers(0, 300, 400).astype(np.int32), rng.integers(1, 300, 400)
    whole = coarsen(model, place, n, rule, Fraction(1, 4))
    for pool in range(0, 400, 7):
        alone = one_pool(model, int(n[pool]), rule, "1/4", int(place[pool]))
        assert cells_of(whole, pool) == cells_of(alone)
        assert retention_of(whole, pool) == retention_of(alone)
        assert listed(whole, pool) == listed(alone)


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


def test_many_nodes_and_cells() -> None:
    """More of both than a kernel makes room for at first: 300 areas wanted fine, thousands of cells."""
    run, rng = 2.5, np.random.default_rng(1)
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
def test_cuts_agree_with_recursion(data: st.DataObject) -> None:
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
