"""Commutes of an area: its workers or its residents, how far they travel and in which direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
from numpy.typing import NDArray

from geo_data.arguments import expect
from geo_data.distance import bearing, distance_km
from pipelines.release.reader import PublicRelease, PublicReleaseError, with_codes
from pipelines.views.area_names import areas_like

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

    Examples
    --------
    >>> import pipelines
    >>> release = pipelines.read_public_release("out/demo/public")
    >>> pipelines.find_area(release, "03001").level
    'cty'
    """
    expect(release, PublicRelease, "release", "read_public_release")
    for level in release.levels:
        unit = release.geography.find_unit(level, code)
        if unit >= 0:
            return Area(level, unit, code)
    if named := areas_like(release, code, release.levels):
        raise PublicReleaseError(f"{code!r} is not the code of an area. Fix: name it by its code: {named}")
    example = release.geography.codes(release.levels[-1])[0]
    raise PublicReleaseError(
        f"there is no area {code!r} at any level ({', '.join(release.levels)}); codes are text, with their "
        f"leading zeros, as in {example!r}"
    )


def area_flows(
    release: PublicRelease, area: Area | str | None = None, of: Side = "workers", count: str = "S000"
) -> pd.DataFrame:
    """Return the flows from block to block of those who work, or live, in an area.

    Parameters
    ----------
    release : PublicRelease
    area : Area, str or None
        A code is that of `find_area`; None is the whole release. Of an area only its own rows are read.
    of : {"workers", "residents"}
        Those who work in the area, or those who live in it.
    count : str
        Of `PublicRelease.counts`.

    Returns
    -------
    DataFrame
        A row for each pair of blocks with jobs: ``work`` and ``home`` (codes of the blocks, text), ``jobs``
        (int64, above 0).

    Raises
    ------
    PublicReleaseError
        If there is no such area or count.

    Examples
    --------
    >>> import pipelines
    >>> release = pipelines.read_public_release("out/demo/public")
    >>> flows = pipelines.area_flows(release, "03001")
    >>> flows.columns.to_list()
    ['work', 'home', 'jobs']
    >>> flows["work"].str[:5].unique().tolist()
    ['03001']
    """
    expect(release, PublicRelease, "release", "read_public_release")
    block = release.levels[-1]
    found = find_area(release, area) if isinstance(area, str) else area
    return with_codes(area_block_flows(release, found, of, count), release.geography, block, block)


def area_block_flows(
    release: PublicRelease, area: Area | None, of: Side = "workers", count: str = "S000"
) -> pd.DataFrame:
    """Return `area_flows` with blocks as `geo_data.Geography` numbers them (int32) in place of codes."""
    block, geography = release.levels[-1], release.geography
    if count not in release.counts:
        raise PublicReleaseError(f"there is no count {count!r}; there are: {', '.join(release.counts)}")
    if area is None:
        flows = release.unit_flows(block, block, [count]).rename(columns={count: "jobs"})
    else:
        blocks = np.flatnonzero(geography.units_of_blocks(area.level) == area.unit)
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
        Columns ``home`` and ``work``: codes of the places, as `PublicRelease.flows` gives them, or positions
        in the tables of places.
    homes, works : DataFrame
        Places of the two levels (`PublicRelease.places`).

    Returns
    -------
    DataFrame
        The flows with ``km`` (geodesic), and ``to_work`` and ``to_home``, the direction of the one as seen
        from the other in degrees clockwise from north. All NaN for external zones, which have no
        place; directions also where home and work are one place.
    """
    expect(flows, pd.DataFrame, "flows", "PublicRelease.flows")
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
    found = pd.Index(places["code"]).get_indexer(areas)
    if (found < 0).any():
        raise PublicReleaseError(f"there is no place of the area {areas[found < 0].iloc[0]!r}")
    return found
