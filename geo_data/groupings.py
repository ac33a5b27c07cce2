"""Levels made from places alone, for geographies without any: neighbouring blocks in groups of equal size."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


def group_places(latitude: Float64, longitude: Float64, parent: Int64, parts: int) -> Int64:
    """Divide every parent's places into parts, neighbours together.

    Places are in degrees; `parent` is the number of the unit of the coarser level that a place is in. A
    parent with fewer places than `parts` has as many parts as places. Returned is the number of the part,
    from 0: part after part, parent after parent.

    A set of places is cut in two across its longer side, in kilometres, so that the numbers of places are as
    the numbers of parts, and so on (a k-d tree). Places with equal coordinates stay in their order.
    """
    group = np.empty(parent.size, np.int64)
    n_groups = 0
    by_parent = np.argsort(parent, kind="stable")
    stack = [
        (places, min(parts, places.size))
        for places in reversed(np.split(by_parent, np.flatnonzero(np.diff(parent[by_parent])) + 1))
    ]
    while stack:
        places, pieces = stack.pop()
        if pieces == 1:
            group[places] = n_groups
            n_groups += 1
            continue
        north, east = latitude[places], longitude[places] * np.cos(np.radians(latitude[places].mean()))
        longer = north if np.ptp(north) >= np.ptp(east) else east
        order = places[np.argsort(longer, kind="stable")]
        first = pieces // 2
        cut = round(order.size * first / pieces)
        stack += [(order[cut:], pieces - first), (order[:cut], first)]
    return group
