"""The public model: the documented formula, by hand and against a slow implementation with dictionaries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from geo_data import Flows, Geography, PublicModel, build_model

LEVELS = ("region", "area")


def geography(areas: list[int], regions: list[int]) -> Geography:
    """Return a geography: `areas` are blocks in each area, `regions` are areas in each region."""
    first_area = np.cumsum([0, *areas])[:-1]
    first_region = first_area[np.cumsum([0, *regions])[:-1]]
    n = sum(areas)
    return Geography(
        block_level="block",
        blocks=np.array([f"b{i:03}" for i in range(n)], dtype=object),
        levels=LEVELS,
        unit_codes=(
            np.array([f"r{i}" for i in range(len(regions))], dtype=object),
            np.array([f"a{i}" for i in range(len(areas))], dtype=object),
        ),
        unit_starts=(first_region.astype(np.int32), first_area.astype(np.int32)),
        latitude=np.zeros(n),
        longitude=np.zeros(n),
    )


def flows(origin_level: str, destination_level: str, table: dict[tuple[int, int], float]) -> Flows:
    """Return a table from (origin, destination) pairs."""
    pairs = list(table)
    return Flows(
        origin_level,
        destination_level,
        np.array([o for o, _ in pairs], np.int32),
        np.array([d for _, d in pairs], np.int32),
        np.array(list(table.values()), float),
        {"origin": 0, "destination": 0, "rows": 0},
        "table.csv",
    )


def all_shares(model: PublicModel) -> np.ndarray:
    return model.shares(np.arange(model.n_groups, dtype=np.int32))


# --- by hand


def test_one_table_by_hand() -> None:
    # Weights 1, 3 in area 0 and 4, 8 in area 1. To area 0: 9 workers, all from area 0; s = 3.
    places = geography([2, 2], [2])
    weights = np.array([1, 3, 4, 8])
    model = build_model(places, [flows("area", "area", {(0, 0): 9.0, (1, 0): 0.0})], weights)
    assert model.origin_level == "area"
    np.testing.assert_array_equal(model.group_of_block, [0, 0, 1, 1])
    # P(area 0) = (9 + 3 * 4/16) / 12; the other destination has no flow: weights alone.
    np.testing.assert_allclose(all_shares(model), [[9.75 / 12, 2.25 / 12], [0.25, 0.75]], rtol=1e-15)
    np.testing.assert_array_equal(model.covered(np.array([0, 1], np.int32)), [True, False])


def test_coarse_then_fine_by_hand() -> None:
    # Regions {area 0, area 1} and {area 2}; all weights 1, one block an area.
    places = geography([1, 1, 1], [2, 1])
    coarse = flows("region", "region", {(0, 0): 3.0, (1, 0): 1.0})  # F = 4, s = 2
    fine = flows("area", "area", {(0, 0): 16.0})  # inside region 0: F = 16, s = 4
    # The fine table is given first: the model orders them.
    model = build_model(places, [fine, coarse], np.ones(3, np.int64))
    region0 = (3 + 2 * 2 / 3) / 6
    inside = np.array([(16 + 4 * 0.5) / 20, (0 + 4 * 0.5) / 20])
    shares = all_shares(model)
    np.testing.assert_allclose(shares[0], [*(region0 * inside), 1 - region0], rtol=1e-14)
    # Area 1 has no row of its own in the fine table: the coarse one still speaks for it.
    np.testing.assert_allclose(shares[1], [region0 / 2, region0 / 2, 1 - region0], rtol=1e-14)
    # Region 1 is a destination of nothing.
    np.testing.assert_allclose(shares[2], [1 / 3] * 3, rtol=1e-14)
    np.testing.assert_array_equal(model.covered(np.arange(3, dtype=np.int32)), [True, True, False])


def test_without_tables_there_is_one_group_and_one_unit() -> None:
    places = geography([2, 1], [1, 1])
    model = build_model(places, [], np.array([1, 2, 3]))
    assert (model.n_groups, model.origin_level) == (1, None)
    np.testing.assert_array_equal(all_shares(model), [[1.0]])
    np.testing.assert_array_equal(model.covered(np.zeros(1, np.int32)), [False])


def test_two_tables_of_one_level_blend_in_order() -> None:
    """Both share the coarser unit's mass out anew; the second smooths towards the first."""
    places = geography([1, 1], [2])
    first, second = flows("area", "region", {(0, 0): 1.0}), flows("area", "area", {(1, 1): 4.0})
    model = build_model(places, [first, second], np.ones(2, np.int64))
    after_first = np.array([(1 + 0.5) / 2, 0.5 / 2])
    after_second = (np.array([0, 4]) + 2 * after_first) / 6
    np.testing.assert_allclose(all_shares(model), [after_first, after_second], rtol=1e-15)


@pytest.mark.parametrize("weights", [[1, 1], [1, 1, 0], [1, -1, 1]])
def test_weights_must_be_positive_and_one_a_block(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="every block needs a public weight"):
        build_model(geography([3], [1]), [], np.array(weights))


# --- against a slow implementation


def slow_shares(
    places: Geography, tables: tuple[Flows, ...], weights: np.ndarray, block: int
) -> tuple[dict[int, float], bool]:
    """P(u | the destination of `block`) in dictionaries, straight from the module's docstring."""
    unit = {name: places.unit_of(name, np.arange(places.n_blocks)).tolist() for name in (*LEVELS, "block")}
    unit[""] = [0] * places.n_blocks
    level, previous = "", ""
    share: dict[int, float] = {0: 1.0}
    covered = False
    for table in tables:
        if table.origin_level != level:
            level, previous = table.origin_level, level
            weight: dict[tuple[str, int], float] = {}
            for b, w in enumerate(weights.tolist()):
                for name in (level, previous):
                    weight[name, unit[name][b]] = weight.get((name, unit[name][b]), 0) + w
            parent = {unit[level][b]: unit[previous][b] for b in range(places.n_blocks)}
            share = {u: share[g] * weight[level, u] / weight[previous, g] for u, g in parent.items()}
        here = unit[table.destination_level][block]
        flow = dict.fromkeys(parent, 0.0)
        for o, d, f in zip(
            table.origin.tolist(), table.destination.tolist(), table.flow.tolist(), strict=True
        ):
            if d == here:
                flow[o] += f
        covered = covered or any(flow.values())
        total: dict[int, float] = {}
        mass: dict[int, float] = {}
        for u, g in parent.items():
            total[g] = total.get(g, 0.0) + flow[u]
            mass[g] = mass.get(g, 0.0) + share[u]
        for u, g in parent.items():
            if total[g] > 0:
                s = math.sqrt(total[g])
                share[u] = mass[g] * (flow[u] + s * share[u] / mass[g]) / (total[g] + s)
    return share, covered


@dataclass(frozen=True)
class Case:
    areas: list[int]
    regions: list[int]
    weights: list[int]
    tables: list[tuple[str, str, dict[tuple[int, int], float]]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    regions = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    areas = draw(st.lists(st.integers(1, 3), min_size=sum(regions), max_size=sum(regions)))
    size = {"region": len(regions), "area": len(areas), "block": sum(areas)}
    tables = []
    for _ in range(draw(st.integers(0, 4))):
        origin, destination = draw(st.tuples(*[st.sampled_from(sorted(size))] * 2))
        pair = st.tuples(st.integers(0, size[origin] - 1), st.integers(0, size[destination] - 1))
        flow = st.one_of(st.just(0.0), st.integers(1, 2000).map(float), st.floats(0.01, 50))
        tables.append((origin, destination, draw(st.dictionaries(pair, flow, min_size=1, max_size=12))))
    weights = draw(st.lists(st.integers(1, 10**9), min_size=sum(areas), max_size=sum(areas)))
    return Case(areas, regions, weights, tables)


@given(cases())
@example(Case([1], [1], [7], [("block", "block", {(0, 0): 0.0})]))
def test_agrees_with_the_slow_implementation(case: Case) -> None:
    places, weights = geography(case.areas, case.regions), np.array(case.weights)
    model = build_model(places, [flows(*table) for table in case.tables], weights)
    shares = all_shares(model)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert (shares > 0).all()  # every home stays possible
    covered = model.covered(np.arange(model.n_groups, dtype=np.int32))
    for block, group in enumerate(model.group_of_block.tolist()):
        expected, reached = slow_shares(places, model.tables, weights, block)
        np.testing.assert_allclose(shares[group], [expected[u] for u in sorted(expected)], rtol=1e-9)
        assert covered[group] == reached


@given(cases())
def test_any_subset_of_groups_in_any_order_gives_the_same_rows(case: Case) -> None:
    places = geography(case.areas, case.regions)
    model = build_model(places, [flows(*table) for table in case.tables], np.array(case.weights))
    whole = all_shares(model)
    backwards = np.arange(model.n_groups, dtype=np.int32)[::-2]
    np.testing.assert_array_equal(model.shares(backwards), whole[backwards])
