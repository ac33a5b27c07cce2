"""Questions about the flows of a release: which areas, at which levels, which jobs; answers of any size.

Every answer, of the API in any format, of OGC API Features and of the pages, comes from `flow_batches`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.release.reader import PublicRelease, PublicReleaseError
from pipelines.service.public.flow_tables import FlowTable
from pipelines.service.store import ServiceError
from pipelines.views.exports.source import usual_level
from pipelines.views.intervals import PosteriorDraws

__all__ = [
    "FlowQuestion",
    "FlowTables",
    "Flows",
    "LargestFlows",
    "Selection",
    "Side",
    "flow_batches",
    "invalid",
    "largest_flows",
    "no_level",
    "select",
]

_OPEN = 8  # releases
_FIRST_ROWS, _MOST_ROWS = 4_000, 250_000  # of the release that are added up at once: more and more
_SPREAD = 4  # keys for each row, up to which a place for every key is faster than sorting

Side = Literal["work", "home"]
Int64 = NDArray[np.int64]


@dataclass(frozen=True)
class FlowQuestion:
    """A question.

    Attributes
    ----------
    work, home : tuple of str
        Codes of areas, with their leading zeros: flows that end, and that begin, in one of them. Empty is
        everywhere.
    work_level, home_level : str or None
        Levels between whose areas jobs are added up. By default that of the areas of its side (the coarsest
        that has the first code), else that of the other side, else `usual_level`. Areas may be of coarser
        levels: then the flows of all areas in them are meant.
    attributes : tuple of str
        Of `PublicRelease.counts`: which jobs. At least one.
    implicate : int
        Which of the release's synthetic data sets.
    """

    work: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    work_level: str | None = None
    home_level: str | None = None
    attributes: tuple[str, ...] = ("S000",)
    implicate: int = 1


@dataclass(frozen=True)
class Selection:
    """A question in numbers of units.

    Attributes
    ----------
    question : FlowQuestion
    release : PublicRelease
    levels : dict of str to str
        Of ``work`` and ``home``.
    units : dict of str to (array of int64 or None)
        Units of the two sides, rising; None is all.
    """

    question: FlowQuestion
    release: PublicRelease
    levels: dict[Side, str]
    units: dict[Side, Int64 | None]

    @property
    def own(self) -> Side:
        """The side in whose order flows are: that of the areas that were asked for, work before home."""
        return "home" if self.units["work"] is None and self.units["home"] is not None else "work"

    @property
    def other(self) -> Side:
        """The other side."""
        return "work" if self.own == "home" else "home"

    @property
    def other_units(self) -> NDArray[np.int32]:
        """The unit of each block at the level of the other side."""
        return _of_blocks(self.release, self.levels[self.other])


@dataclass(frozen=True, eq=False)
class Flows:
    """Some flows.

    Attributes
    ----------
    units : dict of str to array of int64, shape (n,)
        Of both sides.
    counts : array of int64, shape (attributes, n)
        At least one of a flow is above 0.
    bounds : pair of arrays of int64, shape (n,), or None
        Intervals of the first count, where there are draws.
    """

    units: dict[Side, Int64]
    counts: Int64
    bounds: tuple[Int64, Int64] | None = None

    @property
    def size(self) -> int:
        """Number of flows."""
        return self.counts.shape[1]

    def take(self, which: NDArray[np.intp] | slice) -> Flows:
        """Return some of them."""
        bounds = None if self.bounds is None else (self.bounds[0][which], self.bounds[1][which])
        units = {side: unit[which] for side, unit in self.units.items()}
        return Flows(units, self.counts[:, which], bounds)


class FlowTables:
    """The flow tables of releases, opened when they are asked for."""

    def __init__(self) -> None:
        self._open = lru_cache(maxsize=10 * _OPEN)(FlowTable)
        self._lock = threading.Lock()

    def open(self, folder: Path, selection: Selection) -> FlowTable:
        """Return the file of a release that answers a question; it is opened once for all."""
        level = selection.levels[selection.own]
        size = selection.release.geography.n_units(level), selection.release.implicates
        with self._lock:
            return self._open(folder, selection.own, level, *size)

    def close(self) -> None:
        """Close all files."""
        self._open.cache_clear()


@lru_cache(maxsize=4 * _OPEN)
def _of_blocks(release: PublicRelease, level: str) -> NDArray[np.int32]:
    return release.geography.unit_of(level, np.arange(release.geography.n_blocks))


def invalid(detail: str) -> ServiceError:
    """Return the error that a parameter says something that cannot be answered."""
    return ServiceError(422, "invalid", detail)


def no_level(release: PublicRelease, name: str) -> ServiceError:
    """Return the error that a parameter names no level."""
    return ServiceError(
        404, "not_found", f"{name}: there is no such level; there are: {', '.join(release.levels)}."
    )


def select(release: PublicRelease, question: FlowQuestion) -> Selection:
    """Find what a question names.

    Raises
    ------
    ServiceError
        404 if the release has no such area, level, attribute or implicate; 422 if areas are finer than the
        level at which they are asked for.
    """
    given: dict[Side, tuple[str, ...]] = {"work": question.work, "home": question.home}
    asked: dict[Side, str | None] = {"work": question.work_level, "home": question.home_level}
    for side, level in asked.items():
        if level is not None and level not in release.levels:
            raise no_level(release, f"{side}_level")
    counts = list(release.counts)
    for name in question.attributes:
        if name not in release.counts:
            detail = f"attribute: there is no such attribute; there are: {', '.join(counts)}."
            raise ServiceError(404, "not_found", detail)
    if not 1 <= question.implicate <= release.implicates:
        detail = f"implicate: there is no such implicate; there are {release.implicates}, from 1."
        raise ServiceError(404, "not_found", detail)
    of_areas = {side: _level_of(release, side, codes[0]) for side, codes in given.items() if codes}
    known = [asked["work"] or of_areas.get("work"), asked["home"] or of_areas.get("home")]
    default = next((level for level in known if level is not None), None) or usual_level(release)
    levels: dict[Side, str] = {"work": known[0] or default, "home": known[1] or default}
    units = {side: _units(release, side, codes, levels[side]) for side, codes in given.items()}
    return Selection(question, release, levels, units)


def _level_of(release: PublicRelease, side: str, code: str) -> str:
    """The coarsest level that has a code."""
    for level in release.levels:
        if release.geography.find_unit(level, code) >= 0:
            return level
    example = release.geography.codes(release.levels[0])[0]
    detail = (
        f"{side}: there is no area of one of the codes at any level ({', '.join(release.levels)}); codes are "
        f"text, with their leading zeros, as in {example}. All codes are at .../areas?level=LEVEL."
    )
    raise ServiceError(404, "not_found", detail)


def _units(release: PublicRelease, side: Side, codes: tuple[str, ...], level: str) -> Int64 | None:
    """The units of a level that are one of these areas, or lie in one."""
    if not codes:
        return None
    left, found = codes, []
    for each in reversed(release.levels[: release.levels.index(level) + 1]):
        units = {code: release.geography.find_unit(each, code) for code in left}
        found += [_inside(release, each, unit, level) for unit in units.values() if unit >= 0]
        left = tuple(code for code, unit in units.items() if unit < 0)
    if left:
        finer = _level_of(release, side, left[0])
        raise invalid(
            f"{side}: an area of the level {finer} cannot be asked for with {side}_level={level}, which is "
            f"coarser. Leave {side}_level out, or name {finer} or a finer level."
        )
    return np.unique(np.concatenate(found))


def _inside(release: PublicRelease, level: str, unit: int, finer: str) -> Int64:
    """Units of a finer level, or the same, in a unit."""
    if level == finer:
        return np.array([unit], np.int64)
    starts = release.geography.starts(level)
    after = starts[unit + 1] if unit + 1 < len(starts) else release.geography.n_blocks
    first, last = release.geography.unit_of(finer, [starts[unit], after - 1])
    return np.arange(first, last + 1, dtype=np.int64)


def flow_batches(
    tables: FlowTables,
    folder: Path,
    selection: Selection,
    draws: PosteriorDraws | None = None,
    after: tuple[int, int] | None = None,
) -> Iterator[Flows]:
    """Yield the flows of a question, some at a time.

    Memory is bounded by what is added up at once, 250,000 rows or those of one area of the side in whose
    order flows are, of which there are at most as many as blocks.

    Parameters
    ----------
    tables : FlowTables
    folder : Path
        Of the tables of the release.
    selection : Selection
    draws : PosteriorDraws, optional
        Of this release: flows get intervals, unless homes are finer than those of the draws.
    after : pair of int, optional
        Units of the own and of the other side: only flows that come later.

    Yields
    ------
    Flows
        In the order of units of the own side, then of the other.
    """
    release, question, own = selection.release, selection.question, selection.own
    level = selection.levels[own]
    table = tables.open(folder, selection)
    units = selection.units[own]
    if units is None:
        units = np.arange(release.geography.n_units(level))
    if after is not None:
        units = units[np.searchsorted(units, after[0]) :]
    first, last = table.rows(question.implicate, units)
    rows = np.cumsum(last - first)
    begin, most = 0, _FIRST_ROWS
    while begin < len(units):
        before = rows[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(rows, before + most, side="right")))
        some = slice(begin, end)
        flows = _added_up(table, units[some], first[some], last[some], selection)
        if after is not None and begin == 0:
            flows = flows.take((flows.units[own] != after[0]) | (flows.units[selection.other] > after[1]))
        if flows.size:
            yield _with_bounds(flows, selection, draws)
        begin, most = end, min(4 * most, _MOST_ROWS)


def _added_up(table: FlowTable, units: Int64, first: Int64, last: Int64, selection: Selection) -> Flows:
    """Add up the rows of these units, from the first to before the last of each."""
    own, other, names = selection.own, selection.other, list(selection.release.counts)
    numbers = [names.index(name) for name in selection.question.attributes]
    # Rows of units that are neighbours are read at once.
    cuts = [0, *(np.flatnonzero(first[1:] != last[:-1]) + 1), len(units)]
    runs = [(int(first[i]), int(last[j - 1])) for i, j in itertools.pairwise(cuts)]
    there, *counts = (
        np.concatenate([table.column(name, *run) for run in runs])
        if len(runs) > 1
        else table.column(name, *runs[0])
        for name in ("other", *(f"c{number}" for number in numbers))
    )
    there = selection.other_units[there]
    place = np.repeat(np.arange(len(units)), last - first) if len(units) > 1 else None
    wanted, wide = selection.units[other], selection.release.geography.n_units(selection.levels[other])
    if wanted is not None:
        mask = np.zeros(wide, bool)
        mask[wanted] = True
        kept = mask[there]
        there, counts = there[kept], [count[kept] for count in counts]
        place = None if place is None else place[kept]
    key = there if place is None else place * wide + there
    if len(units) * wide <= _SPREAD * key.size + 10_000:
        sums = [np.bincount(key, count) for count in counts]  # of doubles, exact up to 2**53
        found = np.flatnonzero(np.logical_or.reduce(sums))
        added = np.array([each[found] for each in sums], np.int64)
    else:
        found, inverse = np.unique(key, return_inverse=True)
        added = np.array([np.bincount(inverse, count, found.size) for count in counts], np.int64)
        some = added.any(axis=0)
        found, added = found[some], added[:, some]
    return Flows({own: units[found // wide], other: (found % wide).astype(np.int64)}, added)


def _with_bounds(flows: Flows, selection: Selection, draws: PosteriorDraws | None) -> Flows:
    count, levels = selection.question.attributes[0], selection.levels
    if draws is None or not draws.has(levels["home"], count) or not flows.size:
        return flows
    pairs = pd.DataFrame({side: flows.units[side] for side in ("work", "home")})
    try:
        bounds = draws.between(pairs, levels["home"], levels["work"], count)
    except PublicReleaseError:  # a damaged file of draws is no reason to answer nothing, nor to show its path
        return flows
    return Flows(flows.units, flows.counts, bounds)


@dataclass(frozen=True, eq=False)
class LargestFlows:
    """The largest flows of a question, and how much there is of all.

    Attributes
    ----------
    selection : Selection
    jobs : array of int64, shape (attributes,)
        Of all flows together.
    number : int
        Of flows.
    flows : Flows
        The largest by their first count; of equal ones, those first that come first in the order of flows.
    """

    selection: Selection
    jobs: Int64
    number: int
    flows: Flows


def largest_flows(
    tables: FlowTables,
    folder: Path,
    selection: Selection,
    top: int,
    draws: PosteriorDraws | None = None,
) -> LargestFlows:
    """Find the largest flows of a question.

    Parameters
    ----------
    tables, folder, selection, draws
        As for `flow_batches`.
    top : int
        How many.
    """
    jobs, number = np.zeros(len(selection.question.attributes), np.int64), 0
    none = np.zeros(0, np.int64)
    best = Flows({"work": none, "home": none}, np.zeros((jobs.size, 0), np.int64))
    for flows in flow_batches(tables, folder, selection):
        jobs += flows.counts.sum(axis=1)
        number += flows.size
        both = Flows(
            {side: np.concatenate([best.units[side], flows.units[side]]) for side in best.units},
            np.hstack([best.counts, flows.counts]),
        )
        best = both.take(_largest(both.counts[0], top))
    return LargestFlows(selection, jobs, number, _with_bounds(best, selection, draws))


def _largest(jobs: Int64, top: int) -> NDArray[np.intp]:
    """Positions of the largest, and of equal ones the first; without sorting all."""
    rank = jobs * (jobs.size + 1) - np.arange(jobs.size)  # no two are equal
    chosen = np.argpartition(-rank, top)[:top] if jobs.size > top else np.arange(jobs.size)
    return chosen[np.argsort(-rank[chosen])]
