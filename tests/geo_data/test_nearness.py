"""Which blocks lie within a distance of each other: as all pairs say, and as verify.py finds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from scipy.sparse.csgraph import shortest_path

from geo_data.distance import EARTH_RADIUS_KM, unit_vectors
from geo_data.nearness import nearness
from pipelines.release.verify import Near


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
        reach, steps, every = nearness(latitude, longitude, km)
        alone = Near(km, latitude.tolist(), longitude.tolist())
        assert (alone.reach, alone.steps) == (reach.tolist(), steps)

        points = unit_vectors(latitude, longitude)
        chord = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
        near = 2 * EARTH_RADIUS_KM * np.arcsin(chord / 2) <= float(km)
        near |= np.eye(n, dtype=bool)
        assert reach.tolist() == [int(np.flatnonzero(row).max()) for row in near]
        assert every == near.all()
        ways = shortest_path(near.astype(float), unweighted=True)
        longest = int(ways[np.isfinite(ways)].max())
        assert longest <= steps <= 2 * longest
        outcomes.add((every, steps > 4))
    assert len(outcomes) >= 3


def test_all_of_the_earth_and_a_distance_that_is_reached() -> None:
    latitude, longitude = np.array([0.0, 0.0, 90.0, -90.0]), np.array([0.0, 180.0, 0.0, 0.0])
    assert nearness(latitude, longitude, Fraction(30_000))[1:] == (2, True)
    quarter = Fraction(np.pi * EARTH_RADIUS_KM / 2)
    for km, reach in ((quarter, [3, 3, 2, 3]), (quarter - Fraction(1, 10**6), [0, 1, 2, 3])):
        assert nearness(latitude, longitude, km)[0].tolist() == reach
