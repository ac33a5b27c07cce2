"""External zones on their ring: beyond the region, apart, in the order of their directions."""

from __future__ import annotations

import numpy as np
import pytest

from geo_data.distance import bearing
from geo_data.external_zones import STATES
from pipelines.views.maps.ring import ring_places

BOUNDS = (-71.9, 41.1, -71.1, 42.0)
MIDDLE = (41.55, -71.5)
OTHERS = [state for code, state in STATES.items() if code != "44"]


def turns(places: np.ndarray) -> np.ndarray:
    """Compass directions from the middle, as a plane map shows them."""
    squeeze = np.cos(np.radians(MIDDLE[0]))
    return np.degrees(np.arctan2((places[:, 0] - MIDDLE[1]) * squeeze, places[:, 1] - MIDDLE[0])) % 360


@pytest.mark.parametrize("n", [1, 2, 5, len(OTHERS)])
def test_zones_stand_around_the_region_in_the_order_of_their_directions(n: int) -> None:
    zones = sorted(OTHERS, key=lambda state: -state.residents)[:n]
    latitude, longitude = (np.array([getattr(s, axis) for s in zones]) for axis in ("latitude", "longitude"))
    places = ring_places(latitude, longitude, np.ones(n), BOUNDS)
    west, south, east, north = BOUNDS
    x, y = places.T
    assert ((x < west) | (x > east) | (y < south) | (y > north)).all()
    apart = np.abs(places[:, None] - places[None]).max(axis=2) + np.eye(n)
    assert apart.min() > 0.01
    shown, true = (np.argsort(angles) for angles in (turns(places), bearing(*MIDDLE, latitude, longitude)))
    start = shown.tolist().index(true[0])
    assert np.roll(shown, -start).tolist() == true.tolist()


def test_few_zones_stand_in_their_directions() -> None:
    latitude, longitude = np.array([42.3, 41.5]), np.array([-71.4, -72.9])
    places = ring_places(latitude, longitude, np.ones(2), BOUNDS)
    assert turns(places) == pytest.approx(bearing(*MIDDLE, latitude, longitude), abs=1)


def test_the_heaviest_zone_comes_nearest_to_its_direction() -> None:
    latitude, longitude = (np.array([getattr(s, axis) for s in OTHERS]) for axis in ("latitude", "longitude"))
    true = bearing(*MIDDLE, latitude, longitude)
    for heavy, state in enumerate(OTHERS):
        if state.name in ("Connecticut", "Massachusetts", "New York"):
            weight = np.where(np.arange(len(OTHERS)) == heavy, 1e6, 1.0)
            off = turns(ring_places(latitude, longitude, weight, BOUNDS))[heavy] - true[heavy]
            assert abs((off + 180) % 360 - 180) < 2, state.name


def test_zones_without_a_known_place_stand_evenly() -> None:
    places = ring_places(np.array([np.nan, 42.0, np.nan, 41.0]), np.full(4, -72.0), np.ones(4), BOUNDS)
    quarters = np.diff(np.sort(turns(places)), append=turns(places).min() + 360)
    assert (quarters > 45).all()
