"""How the categories of an attribute are spread over work areas, from public slots."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geo_data.jobs import Slots

Float64 = NDArray[np.float64]


def inside_share(slots: Slots, attribute: str) -> float:
    """Return the part of the variance of an attribute that is between jobs of one work block.

    In [0, 1]: 0 where all jobs of a block have one category, 1 where blocks differ by chance at most.
    """
    alike, times = slots.counted()
    counts, n, share = count_categories(alike, times, attribute, alike.work)
    several = n > 1
    inside = (n[several] ** 2 - (counts[several] ** 2).sum(axis=1)) / (n[several] - 1)
    of_all = float((share * (1 - share)).sum() * n[several].sum())
    return min(1.0, float(inside.sum()) / of_all) if of_all > 0 else 1.0


def count_categories(
    alike: Slots, times: NDArray[np.int64], attribute: str, place: NDArray[np.int32]
) -> tuple[Float64, Float64, Float64]:
    """Return jobs by place and category, of places with any; jobs by place; the share of each category.

    Of `Slots.counted`, and the place of each of them.
    """
    wide = len(alike.categories[attribute])
    places = int(place.max(initial=-1)) + 1
    cell = place.astype(np.int64) * wide + alike.attributes[attribute]
    counts = np.bincount(cell, times, places * wide).reshape(places, wide)
    table = counts[counts.any(axis=1)].astype(np.float64, copy=False)
    return table, table.sum(axis=1), table.sum(axis=0) / max(1, int(times.sum()))
