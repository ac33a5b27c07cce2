"""Questions about the flows of a release: where an area's workers live, where its residents work."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.release.reader import PublicRelease, PublicReleaseError
from pipelines.views.commutes import Area, Side, find_area
from pipelines.views.intervals import PosteriorDraws
from pipelines.views.labels import unit_names

__all__ = ["Flow", "FlowAnswer", "FlowQuestion", "FlowTables", "ask_flows"]

_OPEN = 8  # releases
_MEMORY = "512MB"  # of each; beyond it DuckDB uses the disk


@dataclass(frozen=True)
class FlowQuestion:
    """A question.

    Attributes
    ----------
    area : str
        Code of an area, with its leading zeros.
    of : {"workers", "residents"}
        Those who work in the area, or those who live in it.
    level : str or None
        Level of the area; by default the coarsest that has the code.
    other_level : str or None
        Level of the homes of the workers, or of the workplaces of the residents; by default the area's.
    attribute : str
        Of `PublicRelease.counts`.
    implicate : int
        Which of the release's synthetic data sets.
    top : int
        How many flows to return, the largest first.
    """

    area: str
    of: Side
    level: str | None = None
    other_level: str | None = None
    attribute: str = "S000"
    implicate: int = 1
    top: int = 20


@dataclass(frozen=True)
class Flow:
    """Jobs between the area of the question and another.

    Attributes
    ----------
    code : str
        Of the other area.
    jobs : int
    external : bool
        Whether the other area is an external zone.
    name : str
        Of the other area; "" where the release has none.
    low, high : int or None
        Interval of the true number of jobs, where the publisher gave posterior draws of these homes.
    """

    code: str
    jobs: int
    external: bool
    name: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class FlowAnswer:
    """An answer.

    Attributes
    ----------
    area : Area
    name : str
        Of the area; "" where the release has none.
    other_level : str
    jobs : int
        Of the area, all flows together.
    areas : int
        How many flows there are.
    flows : tuple of Flow
        The largest; of equal ones, those first that come first in the geography.
    """

    area: Area
    name: str
    other_level: str
    jobs: int
    areas: int
    flows: tuple[Flow, ...]

    @property
    def bounded(self) -> bool:
        """Whether the flows have intervals."""
        return bool(self.flows) and self.flows[0].low is not None


class FlowTables:
    """The flow tables of releases (`flow_tables`), opened when they are asked for."""

    def __init__(self) -> None:
        self._connection = lru_cache(maxsize=_OPEN)(_connect)  # closed when the last cursor is
        self._lock = threading.Lock()

    def cursor(self, path: Path) -> duckdb.DuckDBPyConnection:
        """Return a connection for one thread; the file is opened once for all."""
        with self._lock:
            return self._connection(path).cursor()

    def close(self) -> None:
        """Close all files."""
        self._connection.cache_clear()


def ask_flows(
    release: PublicRelease,
    connection: duckdb.DuckDBPyConnection,
    ask: FlowQuestion,
    draws: PosteriorDraws | None = None,
) -> FlowAnswer:
    """Answer a question.

    Parameters
    ----------
    release : PublicRelease
    connection : DuckDBPyConnection
        To the flow tables of this release.
    ask : FlowQuestion
    draws : PosteriorDraws, optional
        Of this release: flows get intervals, unless homes are finer than those of the draws.

    Returns
    -------
    FlowAnswer

    Raises
    ------
    PublicReleaseError
        If the release has no such area, level, attribute or implicate.
    """
    levels, counts = release.levels, list(release.counts)
    for level in (ask.level, ask.other_level):
        if level is not None and level not in levels:
            raise PublicReleaseError(f"there is no such level; there are: {', '.join(levels)}")
    if ask.attribute not in counts:
        raise PublicReleaseError(f"there is no such attribute; there are: {', '.join(counts)}")
    if not 1 <= ask.implicate <= release.implicates:
        raise PublicReleaseError(f"there is no such implicate; there are {release.implicates}")
    area = _area(release, ask)
    other_level = ask.other_level or area.level
    own, other = levels.index(area.level), levels.index(other_level)
    table, here, there = ("flows", "w", "h") if ask.of == "workers" else ("residents", "h", "w")
    # Names of tables and columns are made of positions, and values are bound: nothing of the question is SQL.
    found = connection.execute(
        f"SELECT {there}{other} AS unit, sum(c{counts.index(ask.attribute)})::BIGINT AS jobs FROM {table} "
        f"WHERE implicate = ? AND {here}{own} = ? GROUP BY unit HAVING jobs > 0",
        [ask.implicate, area.unit],
    ).fetchnumpy()
    unit, jobs = (np.asarray(found[name], np.int64) for name in ("unit", "jobs"))
    codes, external = release.geography.codes(other_level), _external_units(release, other_level)
    largest = _largest(unit, jobs, ask.top)
    names = unit_names(release, other_level, unit[largest])
    bounds = _bounds(draws, ask, area, other_level, unit[largest])
    flows = tuple(
        Flow(str(codes[unit[i]]), int(jobs[i]), int(unit[i]) in external, str(name), low, high)
        for i, name, (low, high) in zip(largest.tolist(), names, bounds, strict=True)
    )
    name = str(unit_names(release, area.level, np.array([area.unit]))[0])
    return FlowAnswer(area, name, other_level, int(jobs.sum()), len(jobs), flows)


def _bounds(
    draws: PosteriorDraws | None, ask: FlowQuestion, area: Area, other_level: str, others: NDArray[np.int64]
) -> list[tuple[int | None, int | None]]:
    """Return the interval of the flow with each of the other areas, or None twice."""
    workers = ask.of == "workers"
    home_level, work_level = (other_level, area.level) if workers else (area.level, other_level)
    none: list[tuple[int | None, int | None]] = [(None, None)] * others.size
    if draws is None or not draws.has(home_level, ask.attribute) or not others.size:
        return none
    own = np.full(others.size, area.unit)
    home, work = (others, own) if workers else (own, others)
    pairs = pd.DataFrame({"work": work, "home": home})
    try:
        low, high = draws.between(pairs, home_level, work_level, ask.attribute)
    except PublicReleaseError:  # a damaged file of draws is no reason to answer nothing, nor to show its path
        return none
    return list(zip(low.tolist(), high.tolist(), strict=True))


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    # A question reads little: several threads for one cost it more time than they save.
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": _MEMORY,
        "threads": "1",
        "enable_external_access": "false",
    }
    return duckdb.connect(str(path), read_only=True, config=config)


def _largest(unit: NDArray[np.int64], jobs: NDArray[np.int64], top: int) -> NDArray[np.intp]:
    """Positions of the largest, and of equal ones those of the first units; without sorting all."""
    rank = jobs * (unit.max(initial=0) + 1) - unit  # no two are equal
    chosen = np.argpartition(-rank, top)[:top] if len(rank) > top else np.arange(len(rank))
    return chosen[np.argsort(-rank[chosen])]


def _area(release: PublicRelease, ask: FlowQuestion) -> Area:
    if ask.level is None:
        return find_area(release, ask.area)
    unit = int(release.geography.unit_number(ask.level, [ask.area])[0])
    if unit < 0:
        raise PublicReleaseError(f"there is no area of this code at the level {ask.level}")
    return Area(ask.level, unit, ask.area)


def _external_units(release: PublicRelease, level: str) -> frozenset[int]:
    geography = release.geography
    return frozenset(geography.unit_of(level, geography.external_blocks).tolist())
