"""Tables of areas that cut the units of the model: by hand, and against a slow implementation with atoms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import geo_data.model
from geo_data import Flows, Geography, PublicModel
from geo_data._model_tables import AreaTable, proportional_fit
from geo_data.geography import Partition
from geo_data.gravity import Decay

from . import plain
from .plain import all_shares, build, flows, geography

Float64 = NDArray[np.float64]


def divided(places: Geography, area: Sequence[int], name: str = "place") -> Geography:
    """Return the geography with a partition: the area of each block, numbers from 0 up."""
    codes = np.array([f"p{i}" for i in range(max(area) + 1)], dtype=object)
    part = Partition(codes, np.array(area, np.int32))
    return replace(places, non_nesting_areas={**places.non_nesting_areas, name: part})


def before(model: PublicModel) -> PublicModel:
    """The model without its tables of areas."""
    return replace(model, _stages=tuple(s for s in model._stages if not isinstance(s, AreaTable)))


@pytest.fixture
def kappa_is_6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(geo_data.model, "_area_concentrations", lambda rows: (6.0, 6.0))


# --- by hand: areas 0 (blocks of weight 1 and 3) and 1 (4 and 8); place 0 is the first block, 2 the last

CUT = divided(geography([2, 2], [2]), [0, 1, 1, 2])
WEIGHTS = [1, 3, 4, 8]
# Of 9 workers 6 live in place 0 and 3 in place 1, where 1 and 7 of 8 are expected; place 2 is not named.
FACTORS = (0.5 * (6 + 6 * 1 / 8) / 15 / (1 / 16), 0.5 * (3 + 6 * 7 / 8) / 15 / (7 / 16))
MOVED = np.array([0.25 * (0.25 * FACTORS[0] + 0.75 * FACTORS[1]), 0.75 * (FACTORS[1] * 4 / 12 + 1 * 8 / 12)])


@pytest.mark.usefixtures("kappa_is_6")
def test_homes_in_places_that_cut_areas() -> None:
    table = flows("place", "area", {(0, 0): 6.0, (1, 0): 3.0})
    model = build(CUT, [table], WEIGHTS)
    np.testing.assert_allclose(all_shares(model), [MOVED, [0.25, 0.75]], rtol=1e-12)
    np.testing.assert_array_equal(model.covered(np.array([0, 1])), [True, False])
    assert model.concentration == 6.0


@pytest.mark.usefixtures("kappa_is_6")
def test_homes_and_works_in_places_that_cut_areas() -> None:
    """Of the jobs of area 0 three quarters are in place 0, to which the table has flows; of area 1 none."""
    table = flows("place", "place", {(0, 0): 6.0, (1, 0): 3.0, (1, 2): 0.0})
    model = build(CUT, [table], WEIGHTS, [3, 1, 4, 0])
    np.testing.assert_allclose(
        all_shares(model), [0.75 * MOVED + 0.25 * np.array([0.25, 0.75]), [0.25, 0.75]], rtol=1e-12
    )
    np.testing.assert_array_equal(model.covered(np.array([0, 1])), [True, False])


# --- against a slow implementation


@dataclass(frozen=True)
class Case:
    places: Geography
    weights: list[int]
    jobs: list[int]
    tables: list[Flows]

    def model(self, *tables: Flows) -> PublicModel:
        """Build the model without fitting the decay, which takes most of the time."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(geo_data.model, "_decay", lambda model, stage: Decay(1.5, 3.0))
            return build(self.places, tables or self.tables, self.weights, self.jobs)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    regions = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
    areas = draw(st.lists(st.integers(1, 3), min_size=sum(regions), max_size=sum(regions)))
    n = sum(areas)
    place = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    place = np.unique(place, return_inverse=True)[1].tolist()
    size = {"region": len(regions), "area": len(areas), "place": max(place) + 1}
    sides = [draw(st.sampled_from([("place", "place"), ("place", "area"), ("region", "place")]))]
    if draw(st.booleans()):
        sides.append(("region", "region"))
    tables = []
    for origin, destination in sides:
        pair = st.tuples(st.integers(0, size[origin] - 1), st.integers(0, size[destination] - 1))
        flow = st.one_of(st.just(0.0), st.integers(1, 2000).map(float))
        table = draw(st.dictionaries(pair, flow, min_size=1, max_size=9))
        errors = {pair: draw(st.floats(0.1, 2)) * math.sqrt(f + 1) for pair, f in table.items()}
        tables.append(flows(origin, destination, table, errors, same=draw(st.booleans())))
    north, east = (draw(st.lists(st.integers(0, 40), min_size=n, max_size=n)) for _ in range(2))
    weights = draw(st.lists(st.integers(1, 1000), min_size=n, max_size=n))
    jobs = draw(st.lists(st.integers(0, 60), min_size=n, max_size=n).filter(any))
    places = geography(areas, regions, [41 + y / 50 for y in north], [-71 + x / 50 for x in east])
    return Case(divided(places, place), weights, jobs, tables)


def slow(case: Case, model: PublicModel, old: Float64) -> Float64:
    """Step 5, from its statement: cut into atoms, fit, add up."""
    stage = model._stages[-1]
    table = model.tables[-1]
    places, blocks = case.places, np.arange(case.places.n_blocks)
    unit, home, work = (
        places.unit_of(name, blocks).tolist()
        for name in ("area", table.origin_level, table.destination_level)
    )
    n_units, total = model.n_units, np.bincount(unit, case.jobs)
    jobs = [j if total[u] else 1e-9 for j, u in zip(case.jobs, unit, strict=True)]
    earlier = [t.origin_level for t in model.tables[:-1]]
    above = places.unit_of("region", blocks).tolist() if earlier and table.origin_level == "place" else None
    if above is not None and places.n_units("region") >= places.n_units("place"):
        above = None
    named, parent = set(table.origin.tolist()), {}
    for g in sorted(set(home)):
        mass: dict[int, float] = {}
        for b in blocks.tolist():
            if home[b] == g:
                key = above[b] if above is not None else 0
                mass[key] = mass.get(key, 0) + case.weights[b]
        parent[g] = max(mass, key=lambda key: (mass[key], -key)) if g in named else -1 - g
    atoms = sorted({(u, g) for u, g in zip(unit, home, strict=True)})
    part = {
        (u, g): sum(w for w, v, h in zip(case.weights, unit, home, strict=True) if (v, h) == (u, g))
        / sum(w for w, v in zip(case.weights, unit, strict=True) if v == u)
        for u, g in atoms
    }
    result = np.zeros((n_units, n_units))
    for G in sorted(set(work)):
        weight = [
            sum(j for j, u, w in zip(jobs, unit, work, strict=True) if (u, w) == (d, G))
            for d in range(n_units)
        ]
        members = [d for d in range(n_units) if weight[d] > 0]
        if not members:
            continue
        weight = [weight[d] for d in members]
        rows = [[old[d, u] * part[u, g] for u, g in atoms] for d in members]
        entry = {
            int(o): f for o, d, f in zip(table.origin, table.destination, table.flow, strict=True) if d == G
        }
        if sum(entry.values()) > 0:
            prior = dict.fromkeys(parent, 0.0)
            for row, w in zip(rows, weight, strict=True):
                for (_, g), p in zip(atoms, row, strict=True):
                    prior[g] += w * p / sum(weight)
            goal = plain.target(table, G, prior, parent, sum(weight), (stage.concentration, stage.between))
            covered = {parent[g] for g, f in entry.items() if f > 0}
            # Numbers of classes: a place with an entry, the others of a parent, the rest.
            label = {
                g: -1 if parent[g] not in covered else g if g in entry else 1000 + parent[g] for g in parent
            }
            goals = dict.fromkeys(label.values(), 0.0)
            for g, share in goal.items():
                goals[label[g]] += share
            rows = plain.fit(rows, weight, [label[g] for _, g in atoms], goals, 300)
        for d, row, w in zip(members, rows, weight, strict=True):
            for (u, _), p in zip(atoms, row, strict=True):
                result[d, u] += w * p / sum(j for j, v in zip(jobs, unit, strict=True) if v == d)
    return result


@given(cases(), st.lists(st.integers(0, 100), max_size=6))
def test_agrees_with_the_slow_implementation(case: Case, wanted: list[int]) -> None:
    """Of any batch of destinations, and in whatever order tables are given."""
    model = case.model()
    old, shares = all_shares(before(model)), all_shares(model)
    assert (shares > 0).all()  # every home stays possible
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(shares, slow(case, model, old), rtol=1e-7)
    batch = np.array(wanted, np.int64) % model.n_units
    np.testing.assert_array_equal(model.shares(batch), shares[batch])
    if len(case.tables) > 1:
        np.testing.assert_array_equal(all_shares(replace(case, tables=case.tables[::-1]).model()), shares)


def between_places(model: PublicModel, weights: Sequence[int], jobs: Sequence[int]) -> Float64:
    """What a model expects from place to place."""
    places, blocks = model.geography, np.arange(model.geography.n_blocks)
    unit, place = (places.unit_of(name, blocks) for name in ("area", "place"))
    shares = all_shares(model)[unit][:, unit] * np.array(jobs)[:, None] * np.array(weights)
    shares /= np.bincount(unit, weights)[unit]
    result = np.zeros((places.n_units("place"),) * 2)
    np.add.at(result, (place[None, :], place[:, None]), shares)
    return result


@given(cases(), st.booleans())
def test_a_table_that_agrees_with_the_model_changes_nothing(case: Case, same: bool) -> None:
    case = replace(case, jobs=[job + 1 for job in case.jobs])
    survey = flows("region", "region", {(0, 0): 40.0})
    model = case.model(survey)
    expected = between_places(model, case.weights, case.jobs)
    table = {(g, G): float(expected[g, G]) for g, G in itertools.product(*map(range, expected.shape))}
    after = case.model(survey, flows("place", "place", table, same=same))
    np.testing.assert_allclose(all_shares(after), all_shares(model), rtol=1e-7)


def distance_from_targets(model: PublicModel, stage: AreaTable) -> float:
    """The least relative entropy to the model of flows between atoms that have the shares of a full table."""
    total = 0.0
    for row in stage.rows(model.shares):
        weight, now = row.jobs / row.jobs.sum(), row.shares[:, :-2]  # all origins have a class of their own
        target = stage.flow[[row.area]].toarray()[0]
        fitted = now * proportional_fit(now.copy(), weight, target / target.sum())
        fitted /= fitted.sum(axis=1, keepdims=True)
        total += float((row.jobs[:, None] * fitted * np.log(fitted / now)).sum())
    return total


@given(cases())
def test_the_model_comes_no_further_from_flows_with_the_targets(case: Case) -> None:
    """Alternating minimisation, of a table that shows all pairs and is taken at its word."""
    case = replace(case, jobs=[job + 1 for job in case.jobs])
    rng = np.random.default_rng(len(case.jobs))
    n = case.places.n_units("place")
    table = {pair: float(rng.integers(1, 50)) for pair in itertools.product(range(n), range(n))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geo_data.model, "_area_concentrations", lambda rows: (0.0, 0.0))
        model = case.model(flows("place", "place", table))
    (stage,) = model._stages
    assert isinstance(stage, AreaTable)
    start, end = (distance_from_targets(each, stage) for each in (before(model), model))
    assert end <= start + 1e-6 * (1 + start)


@pytest.mark.parametrize("levels", [("area", "area"), ("region", "region"), ("area", "region")])
def test_areas_that_are_units_are_the_units(levels: tuple[str, str]) -> None:
    """A partition that is a level gives what the level gives, where a table shows all pairs."""
    rng = np.random.default_rng(4)
    places = geography(
        [2] * 12, [3] * 4, (41 + rng.uniform(0, 0.5, 24)).tolist(), (-71 + rng.uniform(0, 0.6, 24)).tolist()
    )
    blocks = np.arange(24)
    names = dict(zip(("area", "region"), ("small", "large"), strict=True))
    for level, name in names.items():
        places = divided(places, places.unit_of(level, blocks).tolist(), name)
    weights, jobs = rng.integers(50, 5000, 24).tolist(), rng.integers(1, 900, 24).tolist()
    size = [places.n_units(level) for level in levels]
    table = {pair: float(rng.integers(1, 3000)) for pair in itertools.product(*map(range, size))}
    errors = {pair: float(rng.uniform(5, 50)) for pair in table}
    for same in (False, True):
        nested, cut = (
            build(places, [flows(*sides, table, errors, same=same)], weights, jobs)
            for sides in (levels, tuple(names[level] for level in levels))
        )
        assert cut.decay == nested.decay
        assert cut.concentration == nested.concentration
        np.testing.assert_allclose(all_shares(cut), all_shares(nested), rtol=1e-7)
