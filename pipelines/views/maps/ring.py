"""Where a map draws external zones: on a ring around the region, as near to their directions as can be."""

from __future__ import annotations

import numpy as np
import shapely
from numpy.typing import NDArray

from geo_data.distance import bearing

Float64 = NDArray[np.float64]

_MARGIN = 0.12  # of the ring around the region, as a part of its larger side
_FULL = 0.6  # of the ring that many zones may fill; the rest lets them be nearer to their directions
_ROOMY = 16  # so many zones and fewer are never closer than this part of the ring


def ring_places(
    latitude: Float64, longitude: Float64, weight: Float64, bounds: tuple[float, float, float, float]
) -> Float64:
    """Place external zones around a region."""
    west, south, east, north = bounds
    middle = ((south + north) / 2, (west + east) / 2)
    squeeze = np.cos(np.radians(middle[0]))  # of a degree of longitude
    box = shapely.box(west * squeeze, south, east * squeeze, north)
    margin = max(_MARGIN * max((east - west) * squeeze, north - south), 0.01)
    ring = shapely.LineString(box.buffer(margin).exterior.coords)
    if np.isfinite(latitude).all():
        centre = np.array([middle[1] * squeeze, middle[0]])
        turn = np.radians(bearing(*middle, latitude, longitude))
        ends = centre + 10 * ring.length * np.column_stack([np.sin(turn), np.cos(turn)])
        rays = shapely.linestrings([[centre, end] for end in ends])
        position = _apart(
            shapely.line_locate_point(ring, shapely.intersection(rays, ring)), weight, ring.length
        )
    else:
        position = np.arange(latitude.size) * (ring.length / max(1, latitude.size))
    x, y = shapely.get_coordinates(shapely.line_interpolate_point(ring, position % ring.length)).T
    return np.column_stack([x / squeeze, y])


def _apart(direction: Float64, weight: Float64, length: float) -> Float64:
    """Return places on a ring, as near to those wanted as can be, in their order, with room between them."""
    from scipy.optimize import isotonic_regression  # takes its time

    n = direction.size
    order = np.argsort(direction, kind="stable")
    gaps = np.diff(np.append(direction[order], direction[order[:1]] + length))
    order = np.roll(order, -1 - int(np.argmax(gaps)))  # the ring is cut open where it is emptiest
    line = direction[order] + np.where(direction[order] < direction[order[0]], length, 0.0)
    for room in (min(length / _ROOMY, _FULL * length / n), length / n):
        steps = room * np.arange(n)
        position = isotonic_regression(line - steps, weights=weight[order]).x + steps
        if position[-1] - position[0] <= length - room * (1 - 1e-9):
            break
    else:
        position = steps + np.average(line - steps, weights=weight[order])
    result = np.empty(n)
    result[order] = position
    return result
