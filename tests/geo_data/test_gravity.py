"""Gravity: great-circle distances, shares against loops, and decays found again in flows made from them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from geo_data import Geography
from geo_data.gravity import Centres, Decay, centres, fit_decay

from .plain import EARTH_KM, Places, geography, gravity

Float64 = NDArray[np.float64]
ONE_METRE = 1e-3  # unit vectors lose about 0.1 m to rounding
latitudes, longitudes = st.floats(-89, 89), st.floats(-180, 180)
decays = st.builds(Decay, st.floats(0, 3), st.floats(0.5, 100))


def blocks_at(latitude: Sequence[float], longitude: Sequence[float]) -> Geography:
    """Return a geography in which every block is an area, all of one region."""
    return geography([1] * len(latitude), [len(latitude)], latitude, longitude)


def ones(n: int) -> NDArray[np.int64]:
    return np.ones(n, np.int64)


# --- decay and centres by hand


def test_centre_and_spread_by_hand() -> None:
    """Weights 1 and 3 at 0 and 90 degrees east: the centre is at atan(3), the mean vector sqrt(10)/4 long."""
    found = centres(geography([2, 1], [2], [0, 0, 90], [0, 90, 0]), "area", np.array([1, 3, 7]))
    expected = np.array([[1, 3, 0], [0, 0, math.sqrt(10)]]) / math.sqrt(10)
    np.testing.assert_allclose(found.vectors, expected, atol=1e-15)
    chords = [2 - 2 / math.sqrt(10), 2 - 6 / math.sqrt(10)]  # squared, from the centre to either block
    assert found.spread[0] == pytest.approx(EARTH_KM * math.sqrt((chords[0] + 3 * chords[1]) / 4), rel=1e-12)
    assert found.spread[1] < ONE_METRE


def test_what_has_no_place_is_as_far_as_the_farthest() -> None:
    found = centres(blocks_at([0, 0, 0, math.nan], [0, 1, 3, math.nan]), "area", ones(4))
    degree = EARTH_KM * math.pi / 180
    distance = found.distance_km(np.array([0, 1, 3]))
    np.testing.assert_allclose(distance[:2], np.array([[0, 1, 3, 3], [1, 0, 2, 2]]) * degree, atol=ONE_METRE)
    np.testing.assert_array_equal(distance[2], 0.0)
    weight = np.array([4.0, 2.0, 1.0, 3.0])
    pull = found.pull(np.array([1, 3]), Decay(2.0, 1.0), weight)
    assert pull[0, 3] == pytest.approx(3 * pull[0, 2], rel=1e-12)
    # From nowhere nothing is nearer than anything else.
    np.testing.assert_allclose(pull[1], weight / 10, rtol=1e-15)


# --- shares


@given(st.data())
def test_shares_agree_with_loops(data: st.DataObject) -> None:
    areas = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=6))
    n = sum(areas)
    # Blocks kilometres apart, so that the 0.1 m of rounding are nothing; some areas without a place.
    latitude = [float(x) for x in data.draw(st.lists(st.integers(-60, 60), min_size=n, max_size=n))]
    longitude = [float(x) for x in data.draw(st.lists(st.integers(-80, 80), min_size=n, max_size=n))]
    for area in data.draw(st.sets(st.integers(0, len(areas) - 1))):
        first = sum(areas[:area])
        latitude[first : first + areas[area]] = [math.nan] * areas[area]
    weights = data.draw(st.lists(st.integers(1, 10**6), min_size=n, max_size=n))
    places, decay = geography(areas, [len(areas)], latitude, longitude), data.draw(decays)
    units = np.array(data.draw(st.lists(st.integers(0, len(areas) - 1), min_size=1, max_size=8)))
    found = centres(places, "area", np.array(weights))
    weight = np.add.reduceat(np.array(weights, float), places.starts("area").astype(np.int64))

    shares = found.pull(units, decay, weight)
    plain, where = gravity(places, "area", weights, decay), Places.of(places, "area", weights)
    np.testing.assert_allclose(shares, [plain[d] for d in units], rtol=1e-3)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    distance = found.distance_km(units)
    np.testing.assert_allclose(distance, [where.distances(d) for d in units], atol=ONE_METRE)
    # The compiled loop and numpy: the same numbers, one destination at a time or all at once.
    dense = weight * decay.pull(distance)
    np.testing.assert_allclose(shares, dense / dense.sum(axis=1, keepdims=True), rtol=1e-3)
    alone = [found.pull(units[[i]], decay, weight)[0] for i in range(units.size)]
    np.testing.assert_array_equal(shares, alone)


def test_what_is_read_off_a_table_is_right_to_a_millionth() -> None:
    """From a mile to 15,000 km, for decays at the ends of what is fitted (`fit_decay`) and between."""
    east = [0.0, *np.geomspace(0.02, 135, 400)]
    found = centres(blocks_at([0.0] * len(east), east), "area", ones(len(east)))
    for decay in (Decay(6.0, 0.05), Decay(6.0, 100.0), Decay(0.5, 3.0)):
        due = decay.pull(found.distance_km(np.zeros(1, int)))
        pull = found.pull(np.zeros(1, int), decay, np.ones(len(east)))
        np.testing.assert_allclose(pull[0] / pull[0, 1], due[0] / due[0, 1], rtol=1e-6)


# --- the fit


def county(seed: int) -> tuple[Float64, Float64]:
    """Return weights of 60 units in a square of 60 km, and the distances of 30 of them from all."""
    rng = np.random.default_rng(seed)
    north, east = 41 + rng.uniform(0, 0.54, 60), -71 + rng.uniform(0, 0.72, 60)
    found = centres(blocks_at(north.tolist(), east.tolist()), "area", ones(60))
    spread = Centres(found.vectors, rng.uniform(0.2, 1.0, 60))
    return rng.integers(100, 5000, 60).astype(float), spread.distance_km(np.arange(30))


def expected_flows(decay: Decay, weight: Float64, distance: Float64) -> Float64:
    """Flows of 1000 to 4000 workers a destination, straight from the formula."""
    pull = weight * (distance + decay.offset) ** -decay.exponent
    return np.asarray(pull / pull.sum(axis=1, keepdims=True) * np.linspace(1000, 4000, len(pull))[:, None])


def everywhere(flow: Float64) -> NDArray[np.bool_]:
    return np.ones(flow.shape, bool)


TRUTHS = [Decay(0.8, 10.0), Decay(1.5, 2.0), Decay(2.5, 0.5), Decay(4.0, 20.0)]


@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_the_decay_of_drawn_flows_is_found(truth: Decay) -> None:
    """Within four standard errors, taken from the curvature of the log-likelihood of the 75 000 draws."""
    weight, distance = county(2)
    rate = expected_flows(truth, weight, distance)
    flow = np.random.default_rng(3).poisson(rate).astype(float)
    found = fit_decay(flow, everywhere(flow), weight, distance)
    share = rate / rate.sum(axis=1, keepdims=True)
    # Scores of a pair: derivatives of log share by exponent and by log offset, centred in each row.
    slopes = [-np.log(distance + truth.offset), -truth.exponent * truth.offset / (distance + truth.offset)]
    centred = [slope - (share * slope).sum(axis=1, keepdims=True) for slope in slopes]
    information = np.array([[(rate * a * b).sum() for a in centred] for b in centred])
    error = np.sqrt(np.diag(np.linalg.inv(information)))
    assert abs(found.exponent - truth.exponent) < 4 * error[0] + 0.01
    assert abs(math.log(found.offset / truth.offset)) < 4 * error[1] + 0.02


def test_only_pairs_about_which_the_table_speaks_count() -> None:
    weight, distance = county(4)
    truth = Decay(1.5, 2.0)
    flow = expected_flows(truth, weight, distance)
    inside = np.random.default_rng(5).random(flow.shape) < 0.5
    found = fit_decay(np.where(inside, flow, 1e6), inside, weight, distance)
    assert found.exponent == pytest.approx(truth.exponent, rel=0.01)


def test_a_coarse_table_is_compared_with_added_up_shares() -> None:
    weight, distance = county(6)
    truth = Decay(1.5, 2.0)

    def by_three(shares: Float64) -> Float64:
        return np.add.reduceat(
            np.add.reduceat(shares, np.arange(0, 60, 3), axis=1), np.arange(0, 30, 2), axis=0
        )

    shares = expected_flows(truth, weight, distance)
    flow = by_three(shares / shares.sum(axis=1, keepdims=True)) * np.linspace(100, 900, 15)[:, None]
    found = fit_decay(flow, everywhere(flow), weight, distance, by_three)
    assert found.exponent == pytest.approx(truth.exponent, rel=0.01)
    assert found.offset == pytest.approx(truth.offset, rel=0.03)


def a_table(seed: int) -> tuple[Float64, NDArray[np.bool_], Float64, Float64]:
    """Return flows that follow a decay, that vary by more than chance, or that follow nothing."""
    rng = np.random.default_rng(seed)
    origins, rows = int(rng.integers(2, 20)), int(rng.integers(1, 12))
    weight, distance = np.exp(rng.normal(0, 2, origins)), rng.uniform(0, 50, (rows, origins))
    truth = Decay(float(rng.uniform(0, 6)), float(np.exp(rng.uniform(-3, 4.6))))
    rate = expected_flows(truth, weight, distance)
    if seed % 3 == 1:
        rate *= rng.gamma(0.5, 2, rate.shape)
    elif seed % 3 == 2:
        rate = 2000 * rng.dirichlet(np.full(origins, 0.3), rows)
    inside = rng.random(rate.shape) < (0.6 if seed % 2 else 1.0)
    flow = rng.poisson(rate * np.exp(rng.uniform(-4, 1, (rows, 1)))).astype(float)
    inside[:, :2], flow[0, 0] = True, flow[0, 0] + 1  # so that it has something to tell
    return flow, inside, weight, distance


@pytest.mark.parametrize("seed", range(18))
def test_the_search_comes_as_low_as_one_of_scipy(seed: int) -> None:
    """Downhill from the same grid; a ten-millionth is what rounding to four digits costs."""
    table = flow, inside, weight, distance = a_table(seed)
    seen = inside & (flow > 0)

    def loss(point: Sequence[float]) -> float:
        pull = weight * Decay(point[0], math.exp(point[1])).pull(distance)
        share = pull / (pull * inside).sum(axis=1, keepdims=True)
        return -float((flow[seen] * np.log(share[seen])).sum() / flow[seen].sum())

    bounds = [(0.0, 6.0), (math.log(0.05), math.log(100.0))]
    start = min(itertools.product(*(np.linspace(*ends, 7) for ends in bounds)), key=loss)
    near = minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    tight = {"xatol": 1e-5, "fatol": 1e-12}
    least = minimize(loss, near, method="Nelder-Mead", bounds=bounds, options=tight).fun
    found = fit_decay(*table)
    assert loss([found.exponent, math.log(found.offset)]) < least + 1e-7


def test_a_way_down_from_no_decay_is_seen_at_any_offset() -> None:
    """Where a decay of 0 is better than one of 1, but not than one between, at the offset that suits it."""
    weight, distance = county(7)
    truth = Decay(0.3, 40.0)
    flow = expected_flows(truth, weight, distance)
    found = fit_decay(flow, everywhere(flow), weight, distance)
    assert found.exponent == pytest.approx(truth.exponent, abs=0.01)


@pytest.mark.parametrize(
    ("flow", "inside", "distance"),
    [
        ([[0.0, 0.0]], [[True, True]], [[1.0, 2.0]]),
        ([[3.0, 5.0]], [[False, False]], [[1.0, 2.0]]),
        ([[3.0, 5.0]], [[True, True]], [[2.0, 2.0]]),
        ([[3.0, 5.0]], [[True, False]], [[1.0, 2.0]]),
    ],
    ids=["no flow", "silent", "no distances", "one origin"],
)
def test_a_table_with_nothing_to_tell_gives_no_decay(
    flow: list[list[float]], inside: list[list[bool]], distance: list[list[float]]
) -> None:
    assert fit_decay(np.array(flow), np.array(inside), np.ones(2), np.array(distance)) == Decay()


@pytest.mark.parametrize(("flow", "least", "most"), [(np.eye(2), 2, 6), (1 - np.eye(2), 0, 0)])
def test_extreme_flows_stay_in_bounds(flow: Float64, least: float, most: float) -> None:
    distance = np.array([[0.0, 10.0], [10.0, 0.0]])
    assert least <= fit_decay(flow, everywhere(flow), np.ones(2), distance).exponent <= most
