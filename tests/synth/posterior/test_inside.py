"""What is drawn inside cells, of which sums tell nothing, against what made them."""

from __future__ import annotations

import numpy as np
import pytest

from synth.posterior.effects import OTHER, OUTSIDE, SAME, Family, Sums, draw_effects
from synth.posterior.inside import Homes, Inside, Together, strata

AREA, UNIT, FINE = 2, 5, 9  # numbers of areas, units and fine cells


def family(stratum: int = SAME) -> Family:
    """A family of which chances are known: every factor has one variance."""
    found = Family(np.arange(3), np.full(3, stratum))
    found.chances = [np.eye(11)[[3] * 15][:, :6] for _ in range(40)]
    return found


def drawn_inside(places: np.ndarray, of_areas: list[Family], *of_homes: list[Family]) -> np.ndarray:
    """The factors of all fine cells in each place; places of a number have something in common."""
    unit = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4])
    area = np.array([0, 0, 0, 1, 1, 1, 1, 1, 1])
    homes = Homes(np.arange(FINE, dtype=np.int32), unit, area, np.zeros(FINE, np.bool_), UNIT, AREA)
    together = [Together(places, of_areas, of_homes[0], of_homes[-1])]
    inside = Inside(homes, [homes.first] * places.size, np.zeros(places.size, np.int64), together, 1, 40)
    every = np.arange(FINE)
    return np.stack([inside.weights(i, every, lambda _: np.full(FINE, 5.0)) for i in range(places.size)])


def test_places_of_a_group_have_the_same_factors_and_others_have_their_own() -> None:
    factors = drawn_inside(np.array([0, 0, 1, 2]), [family()], [family()])
    assert np.array_equal(factors[0], factors[1])
    for one, other in ((1, 2), (2, 3)):
        assert not np.isclose(factors[one], factors[other]).any()


def test_areas_units_and_fine_cells_have_a_factor_each_but_a_unit_of_one_cell_no_second_one() -> None:
    of_areas = drawn_inside(np.array([0]), [family()], [])[0]
    assert [np.unique(one).size for one in of_areas] == [AREA] * 40
    assert np.array_equal(of_areas[:, 0], of_areas[:, 2])
    of_homes = drawn_inside(np.array([0]), [], [family()])[0]
    assert [np.unique(one).size for one in of_homes] == [FINE] * 40
    # Fine cells of a unit agree in its factor, those that make up a unit have no more than that.
    many = np.concatenate([drawn_inside(np.array([i]), [], [family()])[0] for i in range(400)])
    logs = np.log(many)
    together = np.corrcoef(logs.T)
    assert together[0, 1] > 0.2
    assert together[3, 5] > 0.2
    assert abs(together[1, 2]) < 0.05
    assert logs[:, 2].var() < 0.75 * logs[:, 0].var()


def test_homes_are_told_apart_by_whether_they_are_outside_or_in_the_area_of_the_workplace() -> None:
    outside = np.array([False, False, True])
    homes = Homes(np.arange(3, dtype=np.int32), np.arange(3), np.array([0, 1, 1]), outside, 3, 2)
    assert homes.strata(np.arange(3), 0).tolist() == [SAME, OTHER, OUTSIDE]
    assert homes.strata(np.arange(3)).tolist() == strata(outside).tolist() == [SAME, SAME, OUTSIDE]


def test_what_sums_tell_of_a_label_holds_inside_cells_too() -> None:
    random = np.random.default_rng(4)
    label = np.tile(np.array([3, 8]), 50)
    expected = np.full(100, 50.0)
    value = np.where(label == 8, 80.0, 20.0)
    sums = Sums(value, np.full(100, 2.0), np.zeros(100), expected, np.full(100, 100.0), np.arange(100) // 2)
    none = np.zeros(100, np.int64)
    shared, single = Family(label, none), Family(np.arange(100), none)
    draw_effects(sums, 2.0**14, [shared, single], 40, random)
    labels = np.array([8, 5, 3]), np.full(3, 50.0), np.zeros(3, np.int64), random
    with pytest.raises(RuntimeError, match="has not drawn"):
        Family(label, none).factors_of(*labels)
    known = shared.factors_of(*labels)
    assert (known[:, 0] > 3 * known[:, 2]).all()
    assert np.array_equal(known[:, [2, 0]], np.array(shared.values, np.float32))
    assert np.unique(known[:, 1]).size == 40
    assert not np.isin(known[:, 1], known[:, [0, 2]]).any()
    assert single.values == []  # as many as there are sums, each of one place only


def test_a_unit_has_the_factor_inside_cells_that_it_has_with_the_same_places_elsewhere() -> None:
    known = Family(np.array([1 * UNIT + 2, 2 * UNIT + 4]), np.full(2, SAME))
    known.chances = family().chances
    known.values = [np.array([7.0, 11.0], np.float16)] * 40
    factors = drawn_inside(np.array([0, 1, 1, 2]), [], [known], [])
    for place, cells, value in ((1, [3, 4, 5], 7.0), (2, [3, 4, 5], 7.0), (3, [7, 8], 11.0)):
        assert (factors[place][:, cells] == value).all()
        factors[place][:, cells] = 0.0
    assert not np.isin(factors, [7.0, 11.0]).any()
