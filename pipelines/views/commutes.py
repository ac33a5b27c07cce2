"""Commutes of an area: its workers or its residents, how far they travel and in which direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow.dataset as ds

import geo_data
from pipelines.release.reader import PublicRelease, PublicReleaseError

__all__ = ["Area", "Side", "add_travel", "area_flows", "find_area"]

Side = Literal["workers", "residents"]


@dataclass(frozen=True)
class Area:
    """A unit of a level of a release.

    Attributes
    ----------
    level : str
    unit : int
        As `geo_data.Geography` numbers it.
    code : str
    """

    level: str
    unit: int
    code: str


def find_area(release: PublicRelease, code: str) -> Area:
    """Find the area of a code, at whatever level it is.

    Parameters
    ----------
    release : PublicRelease
    code : str
        Of a unit or a block; where several levels have it, the coarsest is meant.

    Returns
    -------
    Area

    Raises
    ------
    PublicReleaseError
        If no level has it.
    """
    for level in release.levels:
        unit = int(release.geography.unit_number(level, [code])[0])
        if unit >= 0:
            return Area(level, unit, code)
    example = release.geography.codes(release.levels[-1])[0]
    raise PublicReleaseError(
        f"there is no area {code!r} at any level ({', '.join(release.levels)}); codes are text, with their "
        f"leading zeros, as in {example!r}"
    )


def area_flows(
    release: PublicRelease, area: Area | None, of: Side = "workers", count: str = "S000"
) -> pd.DataFrame:
    """Return the flows from block to block of those who work, or live, in an area.

    Parameters
    ----------
    release : PublicRelease
    area : Area or None
        None is the whole release. Of an area only its own rows are read.
    of : {"workers", "residents"}
        Those who work in the area, or those who live in it.
    count : str
        Of `PublicRelease.counts`.

    Returns
    -------
    DataFrame
        A row for each pair of blocks with jobs: ``work`` and ``home`` (int32, block numbers), ``jobs``
        (int64, above 0).

    Raises
    ------
    PublicReleaseError
        If there is no such count.
    """
    block, geography = release.levels[-1], release.geography
    if count not in release.counts:
        raise PublicReleaseError(f"there is no count {count!r}; there are: {', '.join(release.counts)}")
    if area is None:
        flows = release.flows(block, block, [count]).rename(columns={count: "jobs"})
    else:
        blocks = np.flatnonzero(geography.unit_of(area.level, np.arange(geography.n_blocks)) == area.unit)
        column = ds.field("w_geocode" if of == "workers" else "h_geocode")
        rows = [
            data.to_table(
                columns=["w_geocode", "h_geocode", count], filter=column.isin(list(geography.blocks[blocks]))
            ).to_pandas()
            for data in release.rows.values()
        ]
        table = pd.concat(rows, ignore_index=True)
        flows = pd.DataFrame(
            {
                "work": geography.number(table["w_geocode"]),
                "home": geography.number(table["h_geocode"]),
                "jobs": table[count].astype(np.int64),
            }
        )
    return flows[flows["jobs"] > 0].reset_index(drop=True)


def add_travel(flows: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame) -> pd.DataFrame:
    """Add distance and directions to flows between places.

    Parameters
    ----------
    flows : DataFrame
        Columns ``home`` and ``work``: positions in the tables of places, as `PublicRelease.flows` gives them.
    homes, works : DataFrame
        Places of the two levels (`PublicRelease.places`).

    Returns
    -------
    DataFrame
        The flows with ``km`` (geodesic), and ``to_work`` and ``to_home``, the direction of the one as seen
        from the other in degrees clockwise from north. All NaN for external zones, which have no
        place; directions also where home and work are one place.
    """
    home, work = (
        places[["latitude", "longitude"]].to_numpy()[flows[side]].T
        for side, places in (("home", homes), ("work", works))
    )
    return flows.assign(
        km=geo_data.distance_km(*home, *work),
        to_work=geo_data.bearing(*home, *work),
        to_home=geo_data.bearing(*work, *home),
    )
