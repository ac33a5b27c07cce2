"""Tables of flows of a release: read from its files in parts, named by area, with distances.

Such a table has columns ``work`` and ``home``, numbers of areas (int32) or their codes (text), and counts
(int64); a row is a pair of areas, in the geography's order of work and then home.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pyarrow.dataset as ds
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray

import geo_data
from geo_data.distance import bearing, distance_km
from pipelines.views.folder import WHOLE_COPY, PublicReleaseError, blame_release

if TYPE_CHECKING:
    from pipelines.views.release import Area, Release

PAIR = ["work", "home"]
"""Columns that say which flow a row is."""

_AT_ONCE = 4  # groups of rows, of about 100,000 jobs each, that are in memory


def flow_batches(
    release: Release,
    home_level: str,
    work_level: str,
    counts: Sequence[str],
    kinds: Sequence[str],
    areas: Mapping[str, Area],
) -> Iterator[pd.DataFrame]:
    """Yield flows in parts (`Release.flow_batches`)."""
    for level in (home_level, work_level):
        release.check_level(level)
    for names, present, noun in ((counts, release.counts, "count"), (kinds, release.rows, "kind of rows")):
        if unknown := [name for name in names if name not in present]:
            raise PublicReleaseError(f"there is no {noun} {unknown[0]!r}; there are: {', '.join(present)}")
    condition = _rows_in(release, areas)
    flows_of = partial(_flows_of, release.geography, (home_level, work_level), list(counts), condition)
    read = delayed(flows_of, pure=False, traverse=False)
    waiting = {kind: _groups(release.rows[kind], condition) for kind in kinds or release.rows}
    reached = dict.fromkeys(waiting, -1)  # the work unit in which each kind's rows stopped
    columns = dict.fromkeys(PAIR, np.array([], np.int32)) | dict.fromkeys(counts, np.array([], np.int64))
    gathered = pd.DataFrame(columns)
    while waiting:
        kind_behind = min(waiting, key=reached.__getitem__)
        groups = list(islice(waiting[kind_behind], _AT_ONCE))
        read_tables = compute(*map(read, groups), scheduler="threads")
        tables = [table for table in read_tables if len(table)]
        for table in tables:
            if table["work"].iloc[0] < reached[kind_behind]:
                rule = f"{kind_behind} rows are not in the order of their work blocks"
                raise PublicReleaseError(f"{rule}, in which they were released. Fix: {WHOLE_COPY}")
            reached[kind_behind] = table["work"].iloc[-1]
        if not groups:
            del waiting[kind_behind]
        gathered = _add([gathered, *tables])
        if waiting:
            complete = gathered["work"].searchsorted(min(reached[kind] for kind in waiting))
            if complete:
                yield gathered[:complete]
                gathered = gathered[complete:]
    yield gathered


def _rows_in(release: Release, areas: Mapping[str, Area]) -> pc.Expression | None:
    """Return which rows have their home, and their workplace, in areas."""
    condition = None
    for side, area in areas.items():
        blocks = np.flatnonzero(release.geography.units_of_blocks(area.level) == area.unit)
        inside = ds.field(f"{side[0]}_geocode").isin(list(release.geography.blocks[blocks]))
        condition = inside if condition is None else condition & inside
    return condition


def _groups(rows: ds.Dataset, condition: pc.Expression | None) -> Iterator[ds.Fragment]:
    """Yield the groups of rows of files, in order, that may have rows of which a condition is true."""
    for fragment in rows.get_fragments():
        with blame_release(Path(fragment.path)):
            groups = fragment.split_by_row_group(condition)
        yield from groups


def _flows_of(
    geography: geo_data.Geography,
    levels: tuple[str, str],
    counts: list[str],
    condition: pc.Expression | None,
    group: ds.Fragment,
) -> pd.DataFrame:
    """Add up the jobs of a group of rows."""
    with blame_release(Path(group.path)):
        table = group.to_table(columns=["w_geocode", "h_geocode", *counts], filter=condition).to_pandas(
            categories=["w_geocode", "h_geocode"]
        )
        pairs = {
            "work": _units(geography, table["w_geocode"], levels[1]),
            "home": _units(geography, table["h_geocode"], levels[0]),
        }
        frame = pd.DataFrame({**pairs, **{name: table[name] for name in counts}})
        return frame.groupby(PAIR, as_index=False).sum()


def _units(geography: geo_data.Geography, codes: pd.Series, level: str) -> np.ndarray:
    block = geography.number(pd.Series(codes.cat.categories, dtype="str"))
    if (block < 0).any():
        raise ValueError("there are blocks that are not in the plan's geography")
    return geography.unit_of(level, block)[codes.cat.codes]


def _add(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True).groupby(PAIR, as_index=False).sum()


def with_codes(
    flows: pd.DataFrame, geography: geo_data.Geography, home_level: str, work_level: str
) -> pd.DataFrame:
    """Return flows between numbered units with the codes of the units, as text."""
    named = {
        side: pd.array(geography.codes(level), dtype="str").take(flows[side].to_numpy())
        for side, level in (("work", work_level), ("home", home_level))
    }
    return flows.assign(**named)


def with_units(
    flows: pd.DataFrame, geography: geo_data.Geography, home_level: str, work_level: str
) -> pd.DataFrame:
    """Return flows between areas with their numbers in place of codes; numbers stay as they are."""
    numbered = {}
    for side, level in (("work", work_level), ("home", home_level)):
        if not pd.api.types.is_integer_dtype(flows[side]):
            numbered[side] = geography.unit_number(level, flows[side])
            if (unknown := numbered[side] < 0).any():
                code = flows[side][unknown].iloc[0]
                raise PublicReleaseError(f"there is no {level} {code!r}; name areas of the release by code")
    return flows.assign(**numbered)


def add_travel(flows: pd.DataFrame, homes: pd.DataFrame, works: pd.DataFrame) -> pd.DataFrame:
    """Add ``km``, and ``to_work`` and ``to_home`` (degrees clockwise from north); NaN where there is none."""
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
        area = areas[position < 0].iloc[0]
        raise PublicReleaseError(f"there is no place of the area {area!r}; add its row to the places")
    return position
