"""Distances and directions between places."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from pyproj import Geod

EARTH_RADIUS_KM = 6371.0088
"""Mean radius of the earth (IUGG)."""


@cache
def _wgs84() -> Geod:
    from pyproj import Geod

    return Geod(ellps="WGS84")


def distance_km(
    latitude1: npt.ArrayLike, longitude1: npt.ArrayLike, latitude2: npt.ArrayLike, longitude2: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the geodesic distance between points on the WGS84 ellipsoid.

    Degrees, of shapes that broadcast together, to kilometres. Karney's algorithm as in GeographicLib, by
    `pyproj.Geod.inv`; accurate to nanometres.
    """
    return _inverse(latitude1, longitude1, latitude2, longitude2)[2] / 1000.0


def bearing(
    latitude1: npt.ArrayLike, longitude1: npt.ArrayLike, latitude2: npt.ArrayLike, longitude2: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Return the direction in which the geodesic from first to second points sets out.

    Degrees clockwise from north, 0 to 360; NaN where a point is NaN, or both are the same.
    """
    azimuth, _, metres = _inverse(latitude1, longitude1, latitude2, longitude2)
    return np.where(metres > 0, azimuth % 360.0, np.nan)


def _inverse(*coordinates: npt.ArrayLike) -> tuple[npt.NDArray[np.float64], ...]:
    """Solve the inverse geodesic problem: forward and back azimuths in degrees, distance in metres."""
    lat1, lon1, lat2, lon2 = (np.array(v, dtype=np.float64) for v in np.broadcast_arrays(*coordinates))
    solved = _wgs84().inv(lon1.ravel(), lat1.ravel(), lon2.ravel(), lat2.ravel())
    return tuple(np.asarray(values, dtype=np.float64).reshape(lat1.shape) for values in solved)


def unit_vectors(latitude: npt.ArrayLike, longitude: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return points as unit vectors from the centre of a spherical earth.

    Degrees, shape (n,), to shape (n, 3).
    """
    north, east = np.radians(latitude), np.radians(longitude)
    return np.stack([np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)], axis=-1)
