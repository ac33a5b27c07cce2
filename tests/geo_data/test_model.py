"""The public model: the documented formulas, by hand and against a slow implementation with dictionaries."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import geo_data._model_tables
import geo_data.model
from geo_data import Flows, Geography, PublicModel
from geo_data.gravity import Decay

from . import plain
from .plain import Table, all_shares, build, flows, geography

Float64 = NDArray[np.float64]


def before_tables(model: PublicModel) -> list[list[float]]:
    """P(u | d) of gravity alone (tests/geo_data/test_gravity.py has it)."""
    return [[float(x) for x in row] for row in all_shares(replace(model, _stages=()))]


def kappas(model: PublicModel) -> list[tuple[float, float]]:
    """The concentrations measured on its tables, in the order in which they are applied."""
    return [(stage.concentration, stage.between) for stage in model._stages]


@pytest.fixture
def kappa_is_6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geo_data.model, "_differences", lambda model, stage: (6.0, 6.0, model.deviation))


def precise(table: Table, workers: float) -> Table:
    """Return standard errors with which every row is worth a number of workers."""
    errors = {}
    for o, d in table:
        row = [f for (_, other), f in table.items() if other == d]
        errors[o, d] = sum(row) / math.sqrt(workers * len(row))
    return errors


# --- by hand


def test_without_tables_shares_are_public_weights() -> None:
    model = build(geography([2, 1], [1, 1]), [], [1, 2, 5], [4, 0, 7])
    assert (model.n_units, model.level, model.decay) == (2, "area", Decay())
    assert model.jobs.tolist() == [4, 7]
    assert model.concentration == 200
    np.testing.assert_allclose(all_shares(model), [[3 / 8, 5 / 8]] * 2, rtol=1e-15)
    np.testing.assert_array_equal(model.covered(np.arange(2)), [False, False])
    np.testing.assert_array_equal(model.units(np.array([0, 1, 2], np.int32)), [0, 0, 1])


@pytest.mark.usefixtures("kappa_is_6")
def test_one_table_by_hand() -> None:
    """Weights 4 and 12; to area 0, 9 workers of whom 6 and 3, worth m = 4 workers."""
    table, silent = {(0, 0): 6.0, (1, 0): 3.0}, {(0, 1): 0.0}
    own = flows("area", "area", table | silent, precise(table, 4) | silent)
    model = build(geography([2, 2], [2]), [own], [1, 3, 4, 8])
    expected = [(4 * 6 / 9 + 6 * 0.25) / 10, (4 * 3 / 9 + 6 * 0.75) / 10]
    np.testing.assert_allclose(all_shares(model), [expected, [0.25, 0.75]], rtol=1e-12)
    np.testing.assert_array_equal(model.covered(np.array([0, 1, 0])), [True, False, True])


@pytest.mark.usefixtures("kappa_is_6")
def test_coarse_then_fine_by_hand() -> None:
    """Regions of two areas and one; one table gives the share of region 0, the other those inside."""
    places = geography([1, 1, 1], [2, 1])
    coarse_table, fine_table = {(0, 0): 3.0, (1, 0): 1.0}, {(0, 0): 12.0, (1, 0): 4.0}
    coarse = flows("region", "region", coarse_table, precise(coarse_table, 16))
    fine = flows("area", "area", fine_table, precise(fine_table, 4))
    # The fine table is given first: the model orders them.
    model = build(places, [fine, coarse])
    assert model.tables == (coarse, fine)
    region = (16 * 3 / 4 + 6 * 2 / 3) / 22
    inside = np.array([4 * 12 / 16 + 6 * 0.5, 4 * 4 / 16 + 6 * 0.5]) / 10
    shares = all_shares(model)
    np.testing.assert_allclose(shares[0], [*(region * inside), 1 - region], rtol=1e-12)
    # Area 1 has no row of its own in the fine table: the coarse one still speaks for it.
    np.testing.assert_allclose(shares[1], [region / 2, region / 2, 1 - region], rtol=1e-12)
    np.testing.assert_allclose(shares[2], [1 / 3] * 3, rtol=1e-12)
    np.testing.assert_array_equal(model.covered(np.arange(3)), [True, True, False])


@pytest.mark.usefixtures("kappa_is_6")
@pytest.mark.parametrize(("jobs", "n"), [(49, 49), (3, 16), (16, 16)])
def test_the_same_jobs_leave_the_rest_to_where_a_table_is_silent(jobs: int, n: int) -> None:
    """Regions 0 and 1: a coarse table first; the fine one covers region 0 alone, with 16 of 49 jobs."""
    places = geography([1, 1, 1], [2, 1])
    coarse, fine = {(0, 0): 3.0, (1, 0): 1.0}, {(0, 0): 12.0, (1, 0): 4.0}
    tables = [
        flows("region", "area", coarse, precise(coarse, 16)),
        flows("area", "area", fine, precise(fine, 4), same=True),
    ]
    shares = all_shares(build(places, tables, jobs=[jobs, 1, 1]))
    covered = (16 * 3 / 4 + 6 * 2 / 3) / 22
    share = (16 + 6 * covered) / (n + 6)
    inside = np.array([4 * 12 / 16 + 6 * 0.5, 4 * 4 / 16 + 6 * 0.5]) / 10
    np.testing.assert_allclose(shares[0], [*(share * inside), 1 - share], rtol=1e-12)


def test_a_margin_that_is_unknown_is_that_of_a_count() -> None:
    table = {(0, 0): 6.0, (1, 0): 3.0}
    half = flows("area", "area", table, {(0, 0): 2.0, (1, 0): math.nan})
    whole = flows("area", "area", table, {(0, 0): 2.0, (1, 0): math.sqrt(3)})
    places = geography([1, 1], [2])
    np.testing.assert_allclose(
        all_shares(build(places, [half])), all_shares(build(places, [whole])), rtol=1e-12
    )


def test_outside_areas_are_far_and_keep_a_share() -> None:
    places = geography([1] * 3, [2, 1], [0, 0, math.nan], [0, 1, math.nan])
    model = build(places, [], [2, 1, 1])
    np.testing.assert_allclose(all_shares(model)[0], [0.5, 0.25, 0.25], rtol=1e-12)
    degree = plain.EARTH_KM * math.pi / 180
    np.testing.assert_allclose(
        model.distance_km(np.array([0, 1])), [[0, degree, degree], [degree, 0, degree]], atol=1e-3
    )


# --- errors


@pytest.mark.parametrize("weights", [[1, 1], [1, 1, 0], [1, -1, 1]])
def test_weights_must_be_positive_and_one_a_block(weights: list[int]) -> None:
    with pytest.raises(ValueError, match="every block needs a public weight of at least 1"):
        build(geography([3], [1]), [], weights)


@pytest.mark.parametrize("levels", [("area", "region"), ("region", "area"), ("block", "block")])
def test_a_table_finer_than_the_model_is_refused(levels: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="an auxiliary table is finer than the level of the model, region"):
        build(geography([3], [1]), [flows(*levels, {(0, 0): 1.0})], level="region")


# --- what a further table is worth


def test_a_further_unbiased_table_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of a known truth, in every set and order: one more never loses."""
    monkeypatch.setattr(geo_data.model, "_decay", lambda model, stage: Decay(1.5, 3.0))
    rng = np.random.default_rng(12)
    n, size = 32, 8
    east = np.sort(-71 + rng.uniform(0, 0.6, n))  # so that regions lie side by side
    places = geography([1] * n, [size] * (n // size), (41 + rng.uniform(0, 0.3, n)).tolist(), east.tolist())
    weights, jobs = rng.integers(50, 5000, n).tolist(), rng.integers(20, 900, n)
    regions = np.repeat(np.arange(n // size), size)
    habits = rng.gamma(4, 1 / 4, (n // size, n // size))[regions][:, regions]
    expected = (np.array(plain.gravity(places, "area", weights, Decay(1.5, 3.0))) * habits).reshape(
        n, -1, size
    )
    between = np.array([rng.dirichlet(60 * row / row.sum()) for row in expected.sum(axis=2)])
    within = [[rng.dirichlet(60 * part / part.sum()) for part in row] for row in expected]
    truth = (between[:, :, None] * np.array(within)).reshape(n, n)

    def sample(part: float, level: str = "area", same: bool = False) -> Flows:
        """Ask a part of the workers: margins as of a survey, none where it is all of them."""
        k = {"area": 1, "region": size}[level]
        asked = rng.poisson(truth * jobs[:, None] * part).reshape(n // k, k, n // k, k).sum(axis=(1, 3))
        table = {(o, d): asked[d, o] / part for d, o in np.argwhere(asked).tolist()}
        errors = None if same else {pair: math.sqrt(flow / part) for pair, flow in table.items()}
        return flows(level, level, table, errors, same=same)

    tables = [sample(0.5, "region"), sample(0.02), sample(0.1), sample(1.0, same=True)]
    loss = {}
    for k in range(1, len(tables) + 1):
        for chosen in itertools.combinations(tables, k):
            shares, other = (
                all_shares(build(places, order, weights, jobs.tolist())) for order in (chosen, chosen[::-1])
            )
            np.testing.assert_array_equal(shares, other)
            loss[frozenset(chosen)] = float((np.abs(shares - truth) * jobs[:, None]).sum())
    for chosen, table in itertools.product(loss, tables):
        assert loss[chosen | {table}] <= loss[chosen]


# --- against a slow implementation


@dataclass(frozen=True)
class Case:
    places: Geography
    weights: list[int]
    jobs: list[int]
    tables: list[Flows]
    level: str

    def model(self) -> PublicModel:
        return build(self.places, self.tables, self.weights, self.jobs, self.level)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    regions = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    areas = draw(st.lists(st.integers(1, 2), min_size=sum(regions), max_size=sum(regions)))
    n, level = sum(areas), draw(st.sampled_from(["area", "block", "region"]))
    size = {"region": len(regions), "area": len(areas), "block": n}
    allowed = list(size)[: list(size).index(level) + 1]
    tables = []
    for _ in range(draw(st.integers(0, 3))):
        origin, destination = draw(st.tuples(*[st.sampled_from(allowed)] * 2))
        pair = st.tuples(st.integers(0, size[origin] - 1), st.integers(0, size[destination] - 1))
        flow = st.one_of(st.just(0.0), st.integers(1, 2000).map(float), st.floats(0.01, 50))
        table = draw(st.dictionaries(pair, flow, min_size=1, max_size=12))
        share = st.floats(0.1, 2)
        errors = {pair: draw(share) * math.sqrt(f + 1) for pair, f in table.items()}
        tables.append(flows(origin, destination, table, errors, same=draw(st.booleans())))
    north, east = (draw(st.lists(st.integers(0, 40), min_size=n, max_size=n)) for _ in range(2))
    weights = draw(st.lists(st.integers(1, 10**6), min_size=n, max_size=n))
    jobs = draw(st.lists(st.integers(0, 60), min_size=n, max_size=n).filter(any))
    places = geography(areas, regions, [41 + y / 50 for y in north], [-71 + x / 50 for x in east])
    return Case(places, weights, jobs, tables, level)


@given(cases(), st.lists(st.integers(0, 100), max_size=6))
def test_agrees_with_the_slow_implementation(case: Case, wanted: list[int]) -> None:
    """Of any batch of destinations, and in whatever order tables are given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geo_data._model_tables, "_REACHED", 1e-13)  # until nothing moves, as the slow one
        model, other = case.model(), replace(case, tables=case.tables[::-1]).model()
    shares = all_shares(model)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    assert (shares > 0).all()  # every home stays possible
    start = before_tables(model)
    expected = plain.model_shares(case.places, case.level, model.tables, case.jobs, start, kappas(model))
    np.testing.assert_allclose(shares, expected, rtol=1e-9)
    some = {
        (table.destination_level, int(d))
        for table in case.tables
        for d, f in zip(table.destination, table.flow, strict=True)
        if f > 0
    }
    batch = np.array(wanted, np.int64) % model.n_units
    np.testing.assert_array_equal(model.shares(batch), shares[batch])
    if len({(t.origin_level, t.destination_level, t.workers) for t in case.tables}) == len(case.tables) > 1:
        assert (other.decay, other.concentration) == (model.decay, model.concentration)
        np.testing.assert_array_equal(all_shares(other), shares)
    names = {table.destination_level for table in case.tables}
    for unit, block in enumerate(case.places.starts(case.level).tolist()):
        reached = any((name, int(case.places.unit_of(name, block))) in some for name in names)
        assert model.covered(np.array([unit])).tolist() == [reached]


# --- proportional fitting


def county(seed: int, destinations: int = 24) -> tuple[Geography, list[int], list[int]]:
    """Return areas of one block within 50 km, their weights and jobs."""
    rng = np.random.default_rng(seed)
    north, east = 41 + rng.uniform(0, 0.5, destinations), -71 + rng.uniform(0, 0.6, destinations)
    places = geography([1] * destinations, [destinations // 4] * 4, north.tolist(), east.tolist())
    return places, rng.integers(50, 5000, destinations).tolist(), rng.integers(0, 900, destinations).tolist()


def test_many_destinations_of_one_row_are_fitted_together() -> None:
    """More than are handled at a time: 150 destinations of one region, beside a smaller one."""
    rng = np.random.default_rng(7)
    east = np.append(-71 + rng.uniform(0, 0.6, 150), -70.4 + rng.uniform(0, 0.6, 10))
    places = geography([1] * 160, [150, 10], [41.0] * 160, east.tolist())
    weights, jobs = rng.integers(50, 5000, 160).tolist(), rng.integers(1, 90, 160).tolist()
    table = {(0, 0): 9000.0, (1, 0): 300.0, (0, 1): 200.0, (1, 1): 400.0}
    model = build(places, [flows("region", "region", table, dict.fromkeys(table, 9.0))], weights, jobs)
    assert model.decay.exponent > 0.5
    expected = plain.model_shares(places, "area", model.tables, jobs, before_tables(model), kappas(model))
    np.testing.assert_allclose(all_shares(model), expected, rtol=1e-9)


# --- decay and concentration


def expected_table(places: Geography, weights: list[int], decay: Decay, size: float) -> Table:
    rows = plain.gravity(places, "area", weights, decay)
    return {(o, d): size * p for d, row in enumerate(rows) for o, p in enumerate(row)}


def test_the_decay_is_fitted_to_the_finest_table() -> None:
    """A coarser table, of other habits, has no say in it."""
    places, weights, _ = county(3)
    fine = expected_table(places, weights, Decay(1.7, 3.0), 400)
    odd = {(o, d): 900.0 for o, d in itertools.product(range(4), range(4)) if o != d}
    tables = [
        flows("area", "area", fine, dict.fromkeys(fine, 1.0)),
        flows("region", "region", odd, dict.fromkeys(odd, 1.0)),
    ]
    model = build(places, tables, weights)
    assert model.decay.exponent == pytest.approx(1.7, rel=0.05)
    assert model.decay.offset == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("kappa", [5.0, 40.0])
def test_the_concentration_of_drawn_destinations_is_found(kappa: float) -> None:
    """Rows of Dirichlet-multinomial draws: 160 destinations, so within 15 %."""
    rng = np.random.default_rng(8)
    north, east = 41 + rng.uniform(0, 0.5, 160), -71 + rng.uniform(0, 0.6, 160)
    places = geography([1] * 160, [160], north.tolist(), east.tolist())
    weights = rng.integers(50, 5000, 160).tolist()
    rows = plain.gravity(places, "area", weights, Decay(1.5, 3.0))
    drawn = np.array([rng.multinomial(500, rng.dirichlet(kappa * np.array(row))) for row in rows])
    table = {(o, d): float(f) for d, row in enumerate(drawn) for o, f in enumerate(row)}
    model = build(places, [flows("area", "area", table)], weights)
    assert model.concentration == pytest.approx(kappa, rel=0.15)


def test_the_concentration_solves_its_equation() -> None:
    """With an earlier, coarser table: sums run over its units, and P is that before the finest."""
    places, weights, jobs = county(9)
    jobs = [job + 1 for job in jobs]
    rng = np.random.default_rng(10)
    coarse = {(o, d): float(rng.integers(1, 3000)) for o in range(4) for d in range(4)}
    fine = {(o, d): float(rng.poisson(rng.gamma(2, 5))) for o in range(24) for d in range(24)}
    early = flows("region", "region", coarse, dict.fromkeys(coarse, 9.0))
    model = build(places, [early, flows("area", "area", fine)], weights, jobs)
    before = plain.model_shares(places, "area", [early], jobs, before_tables(model), kappas(model))
    observed, expected = 0.0, 0.0
    for d, region in itertools.product(range(24), range(4)):
        group = range(6 * region, 6 * region + 6)
        F, P = sum(fine[o, d] for o in group), sum(before[d][o] for o in group)
        p = [before[d][o] / P for o in group]
        for o, q in zip(group, p, strict=True):
            observed += (fine[o, d] - F * q) ** 2 / (1 + F * q)
            chance = F * q * (1 - q) / (1 + F * q)
            expected += chance * (F + model.concentration) / (1 + model.concentration)
    assert 1 < model.concentration < 100
    # kappa is rounded to a tenth.
    assert observed == pytest.approx(expected, rel=0.05 / model.concentration + 1e-6)


@pytest.mark.parametrize(
    ("table", "kappa"), [({(0, 0): 1e4, (1, 0): 1.0}, 1.0), ({(0, 0): 5e3, (1, 0): 5e3}, 1e6)]
)
def test_the_concentration_has_bounds(table: Table, kappa: float) -> None:
    model = build(geography([1, 1], [2]), [flows("area", "area", table)])
    assert model.concentration == pytest.approx(kappa, rel=1e-9)


@pytest.mark.parametrize("jobs", [[0, 5], [5, 5]])
def test_a_table_without_flows_or_jobs_tells_nothing(jobs: list[int]) -> None:
    table = {(1, 0): 7.0 if jobs[0] == 0 else 0.0}
    model = build(geography([1, 1], [2]), [flows("area", "area", table)], jobs=jobs)
    assert (model.decay, model.concentration) == (Decay(), 200)
