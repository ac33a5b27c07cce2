"""Places that are mistaken: latitude and longitude exchanged, a sign lost, 0 for what is not known."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.distance import EARTH_RADIUS_KM, unit_vectors
from geo_data.errors import counted, first_codes, refuse_any
from geo_data.external_zones import CENSUS_DIGITS, STATES
from geo_data.geography import Geography

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]

_LEAST = 5  # places that another is compared with
_FAR_KM, _FAR_FROM_STATE_KM = 50.0, 1000.0  # what is nearer does little harm
# In distances from the middle of a group within which half of it lies, and in distances from the middle of a
# shape to its corners. Real islands are as far, but none of them is near as soon as it is mirrored.
_FAR, _NEAR, _FAR_FROM_SHAPE = 20.0, 2.0, 5.0
_TELLING = 5.0  # times as far is worth a note


def check_places(path: str | os.PathLike[str], geography: Geography, levels: Sequence[str]) -> list[str]:
    """Refuse blocks whose place is mistaken, and return a note on those that are far from their unit.

    Blocks are compared with those of their finest unit that has enough, units with others of the unit above,
    and states with where they are. A place is mistaken if it is far from its group and would be near the
    middle with latitude and longitude exchanged or another sign, or if it is 0, 0.
    """
    inside = ~geography.is_external(np.arange(geography.n_blocks))
    latitude, longitude = geography.latitude[inside], geography.longitude[inside]
    numbers = [geography.units_of_blocks(level)[inside] for level in levels]
    units = [np.cumsum(np.diff(number, prepend=number[:1]) != 0) for number in numbers]
    points = unit_vectors(latitude, longitude)
    mistaken, away = _in_groups(points, units)
    mistaken |= (latitude == 0) & (longitude == 0)
    for depth in reversed(range(len(levels))):
        first = _first(units[depth])
        middles = _directions(np.add.reduceat(points, first))
        wrong, _ = _in_groups(middles, [unit[first] for unit in units[:depth]])
        if not depth and geography.longest(geography.block_level) == CENSUS_DIGITS:
            wrong |= _in_states(middles, geography.codes(levels[0])[numbers[0][first]])
        mistaken |= wrong[units[depth]]
    blocks = np.flatnonzero(inside)
    return _report(path, geography, blocks[mistaken], blocks[away & ~mistaken])


def check_places_in_shapes(
    path: str | os.PathLike[str],
    geography: Geography,
    level: str,
    units: NDArray[np.integer],
    bounds: Float64,
) -> list[str]:
    """Compare blocks with the shapes of their units, as `check_places` does with each other.

    `bounds` are west, south, east and north of the shapes of `units`, degrees, shape (n, 4).
    """
    west, south, east, north = bounds.T
    middle = unit_vectors((south + north) / 2, (west + east) / 2)
    size = np.maximum(_km(middle, unit_vectors(south, west)), _km(middle, unit_vectors(north, west)))
    shape = np.full(geography.n_units(level), -1)
    shape[units] = np.arange(len(units))
    blocks = np.flatnonzero(shape[geography.units_of_blocks(level)] >= 0)
    blocks = blocks[~geography.is_external(blocks)]
    shape = shape[geography.unit_of(level, blocks)]
    middle, size = middle[shape], size[shape]
    points = unit_vectors(geography.latitude[blocks], geography.longitude[blocks])
    far = np.maximum(_FAR_FROM_SHAPE * size, _FAR_KM)
    mistaken = _mirrored(points, middle, size, far)
    away = (_km(points, middle) > far) & ~mistaken
    return _report(path, geography, blocks[mistaken], blocks[away])


def _report(
    path: str | os.PathLike[str],
    geography: Geography,
    mistaken: NDArray[np.intp],
    away: NDArray[np.intp],
) -> list[str]:
    refuse_any(
        path,
        "blocks lie at 0, 0, or far from their unit and near it with latitude and longitude exchanged or "
        f"another sign: {first_codes(geography.block_codes.take(mistaken).to_pylist())}",
        mistaken.size,
        fix="correct latitude and longitude in the crosswalk, or name the right columns in geography",
    )
    codes = first_codes(geography.block_codes.take(away).to_pylist())
    return [counted(away.size, f"blocks lie far from the rest of the unit: {codes}")] if away.size else []


def _mirrored(points: Float64, centre: Float64, near: Float64, far: Float64) -> Bool:
    """Return which places are far from a centre, but near with degrees exchanged or of the other sign."""
    result = np.zeros(len(points), bool)
    distant = np.flatnonzero(_km(points, centre) > far)
    x, y, z = points[distant].T
    north, east = np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))
    for latitude, longitude in ((north, -east), (-north, east), (-north, -east), (east, north)):
        fits = _km(unit_vectors(latitude, longitude), centre[distant]) <= near[distant]
        result[distant] |= fits & (np.abs(latitude) <= 90)
    return result


def _in_groups(points: Float64, units: Sequence[NDArray[np.intp]]) -> tuple[Bool, Bool]:
    """Compare places with those of their unit at the last level where it has enough, or else with all.

    Returns which are mistaken, and which are far away.
    """
    compared = np.arange(len(points))
    if units:  # most are so small that none of their places is far from another
        first = _first(units[-1])
        low, high = (side.reduceat(points, first) for side in (np.minimum, np.maximum))
        small = (_km(low, high) <= _FAR_KM) & (np.bincount(units[-1]) >= _LEAST)
        compared = compared[~small[units[-1]]]
    group = np.zeros(compared.size, np.int64)
    for unit in units:
        enough = np.bincount(unit) >= _LEAST
        group = np.where(enough[unit[compared]], group.max(initial=0) + 1 + unit[compared], group)
    number = np.unique(group, return_inverse=True)[1]
    mistaken, away = np.zeros((2, len(points)), bool)
    centre = _directions(pd.DataFrame(points[compared]).groupby(number).transform("median").to_numpy())
    km = _km(points[compared], centre)
    usual = pd.Series(km).groupby(number).transform("median").to_numpy()
    far = np.where(np.bincount(number)[number] >= _LEAST, np.maximum(_FAR * usual, _FAR_KM), np.inf)
    mistaken[compared] = _mirrored(points[compared], centre, _NEAR * usual, far)
    away[compared] = km > _TELLING * far
    return mistaken, away


def _first(unit: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the first place of each unit."""
    return np.flatnonzero(np.diff(unit, prepend=-1))


def _in_states(points: Float64, codes: NDArray[np.object_]) -> Bool:
    """Compare the places of units of the United States with the centres of their states."""
    if not {code[:2] for code in codes} <= STATES.keys():  # of another country
        return np.zeros(len(points), bool)
    states = [STATES[code[:2]] for code in codes]
    centre = unit_vectors([state.latitude for state in states], [state.longitude for state in states])
    far = np.full(len(points), _FAR_FROM_STATE_KM)
    return _mirrored(points, centre, _km(points, centre) / 10, far)


def _directions(points: Float64) -> Float64:
    """Return the places on the ground above points inside the earth."""
    length: Float64 = np.linalg.norm(points, axis=1, keepdims=True)
    return points / length


def _km(points: Float64, others: Float64) -> Float64:
    """Return distances in a straight line, which are nearly those on the ground where it matters."""
    distance: Float64 = np.linalg.norm(points - others, axis=1)
    return distance * EARTH_RADIUS_KM
