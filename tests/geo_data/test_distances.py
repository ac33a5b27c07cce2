"""Which blocks lie within a distance of each other: as all pairs say, and as verify.py of releases finds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from geo_data.distance import EARTH_RADIUS_KM, bearing, distance_km, unit_vectors
from geo_data.distance_graph import MARGIN, distance_graph
from pipelines.release.verify import Near, Plan, changed
from synth.geometric.mechanism import changed_tables
from synth.plan import Domains
from synth.policy import Policy, parts_of_reach
from synth.rationals import decimal_up


def test_the_verifier_has_the_same_margin() -> None:
    """Of blocks that are farther apart than the distance by a part of it, up to all and beyond."""
    km, chords = Fraction(1), np.sin(0.5 / EARTH_RADIUS_KM) + MARGIN / 2 * np.linspace(0, 1.2, 25)
    found = set()
    for angle in 2 * np.arcsin(chords):
        places = np.array([0.0, np.degrees(angle)]), np.zeros(2)
        reach, _, _ = distance_graph(*places, km)
        assert Near("1", *(degrees.tolist() for degrees in places)).reach == reach.tolist()
        found.add(int(reach[0]))
    assert found == {0, 1}


def test_it_is_what_all_pairs_say() -> None:
    """Also of blocks in one place, and without a place."""
    rng = np.random.default_rng(1)
    outcomes = set()
    for _ in range(150):
        n = int(rng.integers(1, 40))
        latitude, longitude = 41 + 0.3 * rng.random(n), -71 - 0.3 * rng.random(n)
        for degrees in (latitude, longitude):
            degrees[rng.permutation(n)[: n // 10]] = degrees[0]
        latitude[1 : n // 5] = longitude[1 : n // 5] = np.nan
        km = Fraction(int(rng.integers(1, 400)), 10)
        reach, steps, complete = distance_graph(latitude, longitude, km)
        alone = Near(decimal_up(km), latitude.tolist(), longitude.tolist())
        assert (alone.reach, alone.steps) == (reach.tolist(), steps)

        points = unit_vectors(latitude, longitude)
        chord = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
        near = 2 * EARTH_RADIUS_KM * np.arcsin(chord / 2) <= float(km)
        near |= np.eye(n, dtype=bool)
        assert reach.tolist() == [int(np.flatnonzero(row).max()) for row in near]
        assert complete == near.all()
        ways = shortest_path(near.astype(float), unweighted=True)
        longest = int(ways[np.isfinite(ways)].max())
        assert longest <= steps <= 2 * longest
        outcomes.add((complete, steps > 4))
    assert len(outcomes) >= 3


def test_the_verifier_finds_what_edges_change() -> None:
    """Of three tables of random areas."""
    rng, found = np.random.default_rng(4), set()
    for _ in range(100):
        n = int(rng.integers(3, 30))
        latitude, longitude = 41 + 0.1 * np.sort(rng.random(n)), np.zeros(n)
        km = Fraction(int(rng.integers(1, 20)), 10)
        reach, steps, _ = distance_graph(latitude, longitude, km)
        policy = Policy("distance", parts_of_reach(reach), reach, steps)
        units = np.sort(rng.integers(0, rng.integers(1, n), (3, n)), axis=1)
        cells = []
        for of_block in units:
            starts = np.flatnonzero(np.append(True, np.diff(of_block) != 0)).astype(np.int32)
            own = [policy.within(starts, part) for part in range(policy.n_parts)]
            offsets, cuts = np.cumsum([0, *map(len, own)]), np.concatenate(own)
            cells.append(Domains(n, offsets, cuts, np.zeros(cuts.size, np.uint8), policy))
        blocks = {"latitude": latitude.tolist(), "longitude": longitude.tolist()}
        blocks |= {"a": [str(i) for i in range(n)], "b": units[1].tolist(), "c": units[2].tolist()}
        document = {
            "format": "odsynth plan 1.0",
            "mechanism": "geometric",
            "configuration": {
                "jobs": {"format": "lodes"},
                "workplaces": None,
                "tiers": {},
                "privacy": {"policy": {"distance_km": decimal_up(km)}, "protects": "home"},
                "geography": {"external_workplaces": {}, "uninhabited": [], "without_work": []},
                "release": {"implicates": 1, "implicate_source": "one-urn", "language": "en"},
            },
            "attributes": {},
            "choices": {"tables": [{"home": "b"}, {"home": "c"}], "workplaces": []},
            "geography": {"block": "a", "levels": [], "external_zones": []},
        }
        of_domains = [own.tolist() for own in np.split(cells[0].cuts, cells[0].offsets[1:-1])]
        plan = Plan(document, {"blocks": blocks, "domains": {"cuts": of_domains}})
        sets = changed_tables(cells)
        assert set(changed(plan)) == sets
        assert len(set(plan.parts)) == policy.n_parts
        found.add(sets)
    assert len(found) > 10


def test_all_of_the_earth_and_a_distance_that_is_reached() -> None:
    latitude, longitude = np.array([0.0, 0.0, 90.0, -90.0]), np.array([0.0, 180.0, 0.0, 0.0])
    assert distance_graph(latitude, longitude, Fraction(30_000))[1:] == (2, True)
    quarter = Fraction(np.pi * EARTH_RADIUS_KM / 2)
    for km, reach in ((quarter, [3, 3, 2, 3]), (quarter - Fraction(1, 10**6), [0, 1, 2, 3])):
        assert distance_graph(latitude, longitude, km)[0].tolist() == reach


def test_known_distances():
    # A degree of longitude on the equator; the quarter meridian of WGS84.
    assert distance_km(0, 0, 0, 1) == pytest.approx(111.319491, abs=1e-6)
    assert distance_km(0, 0, 90, 0) == pytest.approx(10001.965729, abs=1e-6)
    assert distance_km(12.5, -7, 12.5, -7) == 0


def test_directions_of_the_compass():
    north, east = np.array([1.0, 0, -1, 0]), np.array([0.0, 1, 0, -1])
    np.testing.assert_allclose(bearing(0, 0, north, east), [0, 90, 180, 270], atol=1e-9)
    # Great circles: from London to Los Angeles one sets out to the north-west, and comes from the north-east.
    london, los_angeles = (51.5, -0.1), (34.05, -118.25)
    assert 310 < bearing(*london, *los_angeles) < 320
    assert 25 < bearing(*los_angeles, *london) < 40


def test_no_place_and_no_way_have_no_direction():
    got = bearing([10.0, 10.0, np.nan], 20.0, [10.0, 11.0, 10.0], 20.0)
    assert np.isnan(got).tolist() == [True, False, True]
