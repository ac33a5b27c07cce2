"""Distances and directions of flows between places."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.distance import bearing, distance_km
from pipelines.views.release import PublicReleaseError


def add_travel(flows: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame) -> pd.DataFrame:
    """Add distance and directions to flows between places.

    The flows with ``km`` (geodesic), and ``to_work`` and ``to_home``, the direction of the one as seen from
    the other in degrees clockwise from north. All NaN for external zones, which have no place; directions
    also where home and work are one place.
    """
    home, work = (
        places[["latitude", "longitude"]].to_numpy()[_positions(flows[side], places)].T
        for side, places in (("home", homes), ("work", works))
    )
    return flows.assign(
        km=distance_km(*home, *work),
        to_work=bearing(*home, *work),
        to_home=bearing(*work, *home),
    )


def _positions(areas: pd.Series, places: pd.DataFrame) -> NDArray[np.intp]:
    """Return where the places of a column of areas stand in their table."""
    if pd.api.types.is_integer_dtype(areas):
        return areas.to_numpy()
    position = pd.Index(places["code"]).get_indexer(areas)
    if (position < 0).any():
        raise PublicReleaseError(f"there is no place of the area {areas[position < 0].iloc[0]!r}")
    return position
