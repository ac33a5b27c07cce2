"""Geodesic distances and directions against values known from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

from geo_data.distance import bearing, distance_km


def test_known_distances():
    # A degree of longitude on the equator; the quarter meridian of WGS84.
    assert distance_km(0, 0, 0, 1) == pytest.approx(111.319491, abs=1e-6)
    assert distance_km(0, 0, 90, 0) == pytest.approx(10001.965729, abs=1e-6)
    assert distance_km(12.5, -7, 12.5, -7) == 0


def test_arguments_broadcast_and_stay_unchanged():
    latitude, longitude = np.zeros(3), np.array([0.0, 1.0, 2.0])
    got = distance_km(latitude[:, None], longitude[:, None], latitude, longitude)
    assert got.shape == (3, 3)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, got.T)
    assert (np.diag(got) == 0).all()
    assert longitude.tolist() == [0, 1, 2]
    assert distance_km([], [], [], []).shape == (0,)


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
