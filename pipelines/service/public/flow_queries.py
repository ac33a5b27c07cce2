"""Questions about the flows of a release: which areas, at which levels, which jobs; answers of any size.

A level is here also a kind of areas that cut across levels, such as towns (`Release.kinds_of_areas`).
Every answer, of the API in any format, of OGC API Features and of the pages, comes from `flow_batches`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from geo_data.od_files import count_columns
from pipelines.release.intervals import Estimates, estimates
from pipelines.service.parameters import separated
from pipelines.service.public.flow_tables import FlowTable
from pipelines.service.refusals import invalid, not_found
from pipelines.service.store import ServiceError
from pipelines.views.intervals.reading import Pairs, PosteriorDraws, coverage_words
from pipelines.views.release import Release
from pipelines.views.search import LIKE, areas_like, areas_named, find_areas

_OPEN = 8  # releases
_FIRST_ROWS, MOST_ROWS = 4_000, 50_000  # of the release that are added up at once: more and more
_SPREAD = 4  # keys for each row, up to which a place for every key is faster than sorting

Side = Literal["work", "home"]
SIDES: tuple[Side, ...] = ("work", "home")
Int64 = NDArray[np.int64]
T = TypeVar("T")
ABOUT_INTERVALS = " ".join(coverage_words())
"""What pages and answers say of intervals."""


@dataclass(frozen=True)
class FlowQuestion:
    """A question."""

    # Codes of areas, with their leading zeros, or names; each text may be several, with commas between
    # them: flows that end, and that begin, in one of them. Empty is everywhere
    work: tuple[str, ...] = ()
    home: tuple[str, ...] = ()
    # Levels between whose areas jobs are added up. By default that of the areas of its side (the coarsest
    # that has the first code, then kinds of areas that cut across levels), else that of the other side,
    # else `usual_level`. Areas may be of other levels, if they are made of whole areas of this one: then
    # the flows of all of these are meant
    work_level: str | None = None
    home_level: str | None = None
    attributes: tuple[str, ...] = ("S000",)  # Of `Release.counts`: which jobs. At least one
    implicate: int = 1  # Which of the release's synthetic data sets
    sums: tuple[Side, ...] = ()  # Sides all of whose areas are added up to one


@dataclass(frozen=True)
class Selection:
    """A question in numbers of units."""

    question: FlowQuestion
    release: Release
    levels: dict[Side, str]  # Of ``work`` and ``home``
    units: dict[Side, Int64 | None]  # Units of the two sides, rising; None is all

    @property
    def major(self) -> Side:
        """The side by which flows are sorted: that of the areas that were asked for, work before home."""
        return "home" if self.units["work"] is None and self.units["home"] is not None else "work"

    @property
    def minor(self) -> Side:
        """The other side."""
        return "work" if self.major == "home" else "home"

    @property
    def minor_units(self) -> NDArray[np.int32]:
        """The unit of each block at the level of the minor side."""
        return self.release.geography.units_of_blocks(self.levels[self.minor])

    def outside(self, side: Side) -> Selection:
        """Return the same with all other areas of a side."""
        level, units = self.levels[side], self.units[side]
        every = np.arange(self.release.geography.n_units(level))
        others = every[:0] if units is None else np.setdiff1d(every, units)
        return replace(self, units={**self.units, side: others})

    def areas(self, side: Side) -> Int64:
        """Return the unit of each block on a side, -1 outside of what is asked for; 0 where that is a sum."""
        of_block = self.release.geography.units_of_blocks(self.levels[side]).astype(np.int64)
        units, number = self.units[side], np.zeros_like(of_block) if side in self.question.sums else of_block
        return number if units is None else np.where(np.isin(of_block, units), number, -1)


@dataclass(frozen=True, eq=False)
class Flows:
    """Some flows."""

    units: dict[Side, Int64]  # Of both sides; 0 where a side is a sum
    counts: Int64  # At least one of a flow is above 0, unless it is the total
    # Of the first count, where there are draws of the areas (`with_estimates`)
    estimates: Estimates | None = None

    @property
    def size(self) -> int:
        """Number of flows."""
        return self.counts.shape[1]

    def take(self, which: NDArray[np.intp] | slice) -> Flows:
        """Return some of them."""
        told = self.estimates
        if told is not None:
            told = Estimates(told.estimate[which], told.low[which], told.high[which])
        units = {side: unit[which] for side, unit in self.units.items()}
        return Flows(units, self.counts[:, which], told)


class FlowTables:
    """The flow tables of a release, each opened once, when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._open, self._lock = folder, lru_cache(FlowTable), threading.Lock()

    def open(self, selection: Selection) -> FlowTable:
        """Return the file that answers a question."""
        level, geography = selection.levels[selection.major], selection.release.geography
        if level in geography.non_nesting_areas:  # which have no table: their blocks do
            level = geography.block_level
        size = geography.n_units(level), selection.release.implicates
        with self._lock:
            return self._open(self._folder, selection.major, level, *size)


def no_level(release: Release, name: str) -> ServiceError:
    """Return the error that a parameter names no level."""
    return not_found(f"{name}: there is no such level; there are: {', '.join(release.kinds_of_areas)}.")


def no_attribute(release: Release) -> ServiceError:
    """Return the error that a parameter names no count."""
    detail = f"attribute: there is no such attribute; there are: {', '.join(release.counts)}."
    return not_found(detail)


def select(release: Release, question: FlowQuestion) -> Selection:
    """Find what a question names."""
    codes_of = {
        side: _split_areas(release, texts) for side, texts in _sides(question.work, question.home).items()
    }
    levels_asked = _sides(question.work_level, question.home_level)
    for side, level in levels_asked.items():
        if level is not None and level not in release.kinds_of_areas:
            raise no_level(release, f"{side}_level")
    if any(name not in release.counts for name in question.attributes):
        raise no_attribute(release)
    if not 1 <= question.implicate <= release.implicates:
        detail = f"implicate: there is no such implicate; there are {release.implicates}, from 1."
        raise not_found(detail)
    of_areas = {side: _level_of(release, side, codes[0]) for side, codes in codes_of.items() if codes}
    levels_known = [
        levels_asked["work"] or of_areas.get("work"),
        levels_asked["home"] or of_areas.get("home"),
    ]
    default = next((level for level in levels_known if level is not None), None) or release.usual_level()
    levels = _sides(levels_known[0] or default, levels_known[1] or default)
    units = {side: _units(release, side, codes, levels[side]) for side, codes in codes_of.items()}
    return Selection(question, release, levels, units)


def _split_areas(release: Release, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes and names that texts have: what is between commas, but for one with commas."""
    parts: list[str] = []
    for text in texts:
        is_one = "," in text and any(find_areas(release, kind, text) for kind in release.kinds_of_areas)
        parts += [text] if is_one else separated([text])
    return tuple(dict.fromkeys(parts))


def _sides(work: T, home: T) -> dict[Side, T]:
    return {"work": work, "home": home}


def _level_of(release: Release, side: str, text: str) -> str:
    """The coarsest level that has a code, or else the first that has a name."""
    for find in (
        lambda level: release.geography.find_unit(level, text) >= 0,
        lambda level: areas_named(release, level, text),
    ):
        for level in release.kinds_of_areas:
            if find(level):
                return level
    example, levels = release.geography.codes(release.levels[0])[0], ", ".join(release.kinds_of_areas)
    like = areas_like(release, text, release.kinds_of_areas)
    detail = (
        f"{side}: there is no area of one of the codes or names at any level ({levels}). "
        + (f"Perhaps one of these is meant: {like}. " if like else "")
        + f"Codes are text, with their leading zeros, as in {example}; all codes and names are at "
        ".../areas?level=LEVEL."
    )
    raise not_found(detail)


def _units(release: Release, side: Side, codes: tuple[str, ...], level: str) -> Int64 | None:
    """The units of a level that are one of these areas, or lie in one."""
    if not codes:
        return None
    levels = release.levels
    coarser = levels[: levels.index(level)] if level in levels else levels
    kinds = [level, *reversed(coarser), *release.geography.non_nesting_areas]
    left, units_found = codes, []
    for kind in dict.fromkeys(kinds):
        units = {text: find_areas(release, kind, text) for text in left}
        for several in units.values():
            if len(several) > 1:
                choice = ", ".join(release.geography.codes(kind)[several[:LIKE]])
                raise invalid(
                    f"{side}: several areas of the level {kind} have this name. Give a code: {choice}."
                )
            units_found += [_inside(release, side, kind, unit, level) for unit in several]
        left = tuple(text for text, several in units.items() if not several)
    if left:
        finer = _level_of(release, side, left[0])
        raise invalid(
            f"{side}: an area of the level {finer} cannot be asked for with {side}_level={level}, which is "
            f"coarser. Leave {side}_level out, or name {finer} or a finer level."
        )
    return np.unique(np.concatenate(units_found))


def _inside(release: Release, side: Side, level: str, unit: int, part_level: str) -> Int64:
    """Units of a level, of which a unit of another, or the same, is made."""
    geography = release.geography
    if level == part_level:
        return np.array([unit], np.int64)
    if level in release.levels and part_level in release.levels:
        starts = geography.starts(level)
        after = starts[unit + 1] if unit + 1 < len(starts) else geography.n_blocks
        first, last = geography.unit_of(part_level, [starts[unit], after - 1])
        return np.arange(first, last + 1, dtype=np.int64)
    inside, of_block = geography.units_of_blocks(level) == unit, geography.units_of_blocks(part_level)
    units = np.unique(of_block[inside])
    if not inside[np.isin(of_block, units)].all():
        block = geography.block_level
        raise invalid(
            f"{side}: {level} {geography.codes(level)[unit]} is not made of whole areas of the level "
            f"{part_level}. Leave {side}_level out, or name {level} or {block}."
        )
    return units.astype(np.int64)


def flow_batches(
    tables: FlowTables,
    selection: Selection,
    after: tuple[int, ...] | None = None,
) -> Iterator[Flows]:
    """Yield the flows of a question, some at a time.

    Memory is bounded by what is added up at once, 50,000 rows or those of one area of the side in whose
    order flows are, of which there are at most as many as blocks.
    """
    if selection.question.sums:
        yield _summed(_batches(tables, selection), selection)
    else:
        yield from _batches(tables, selection, after)


def _batches(
    tables: FlowTables, selection: Selection, after: tuple[int, ...] | None = None
) -> Iterator[Flows]:
    major, table = selection.major, tables.open(selection)
    units = _major_units(selection)
    if after is not None:
        units = units[np.searchsorted(units, after[0]) :]
    begins, first, last = _pieces(table, selection, units)
    rows = np.append(0, np.cumsum(last - first))[begins[1:]]
    begin, most = 0, _FIRST_ROWS
    while begin < len(units):
        before = rows[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(rows, before + most, side="right")))
        some = slice(begins[begin], begins[end])
        place = np.repeat(np.arange(end - begin), np.diff(begins[begin : end + 1]))
        flows = _added_up(table, units[begin:end], place, first[some], last[some], selection)
        if after is not None and begin == 0:
            flows = flows.take((flows.units[major] != after[0]) | (flows.units[selection.minor] > after[1]))
        if flows.size:
            yield flows
        begin, most = end, min(4 * most, MOST_ROWS)


def rows_to_read(tables: FlowTables, selection: Selection) -> int:
    """Return how many rows the answer to a question is made of: what it costs."""
    _, first, last = _pieces(tables.open(selection), selection, _major_units(selection))
    return int((last - first).sum())


def _major_units(selection: Selection) -> Int64:
    units, level = selection.units[selection.major], selection.levels[selection.major]
    return np.arange(selection.release.geography.n_units(level)) if units is None else units


def _pieces(table: FlowTable, selection: Selection, units: Int64) -> tuple[Int64, Int64, Int64]:
    """What a table has for units: where the pieces of each begin and the last ones end, and their rows.

    Areas that cut across levels have a piece for each of their blocks.
    """
    release, level = selection.release, selection.levels[selection.major]
    pieces, begins = units, np.arange(len(units) + 1)
    if level in release.geography.non_nesting_areas:
        blocks, starts = _blocks_by_area(release, level)
        sizes = starts[units + 1] - starts[units]
        begins = np.append(0, np.cumsum(sizes))
        pieces = blocks[np.arange(begins[-1]) + np.repeat(starts[units] - begins[:-1], sizes)]
    return begins, *table.rows(selection.question.implicate, pieces)


@lru_cache(maxsize=4 * _OPEN)
def _blocks_by_area(release: Release, level: str) -> tuple[Int64, Int64]:
    """Blocks in the order of their areas, and where those of each area begin and the last ones end."""
    of_block = release.geography.units_of_blocks(level)
    sizes = np.bincount(of_block, minlength=release.geography.n_units(level))
    return np.argsort(of_block, kind="stable"), np.append(0, np.cumsum(sizes))


def _summed(batches: Iterator[Flows], selection: Selection) -> Flows:
    """Add up all areas of the sides that are to be sums."""
    kept = next((side for side in SIDES if side not in selection.question.sums), None)
    width = 1 if kept is None else selection.release.geography.n_units(selection.levels[kept])
    totals = np.zeros((len(selection.question.attributes), width), np.int64)
    for flows in batches:
        unit = np.zeros(flows.size, np.int64) if kept is None else flows.units[kept]
        for total, counts in zip(totals, flows.counts, strict=True):
            np.add.at(total, unit, counts)
    nonzero = np.flatnonzero(totals.any(axis=0)) if kept else np.zeros(1, np.intp)  # a total of 0 too
    units = {side: nonzero if side == kept else np.zeros_like(nonzero) for side in SIDES}
    return Flows(units, totals[:, nonzero])


def _added_up(
    table: FlowTable, units: Int64, place: Int64, first: Int64, last: Int64, selection: Selection
) -> Flows:
    """Add up rows of units: pieces from a first to before a last row, each of the unit at a place."""
    major, minor, names = selection.major, selection.minor, list(selection.release.counts)
    numbers = [names.index(name) for name in selection.question.attributes]
    # Rows of pieces that are neighbours are read at once.
    cuts = [0, *(np.flatnonzero(first[1:] != last[:-1]) + 1), len(first)]
    runs = [(int(first[i]), int(last[j - 1])) for i, j in itertools.pairwise(cuts)]
    minor_unit, *counts = (
        np.concatenate([table.column(name, *run) for run in runs])
        if len(runs) > 1
        else table.column(name, *runs[0])
        for name in ("other", *(f"c{number}" for number in numbers))
    )
    minor_unit = selection.minor_units[minor_unit]
    of_row = np.repeat(place, last - first) if len(units) > 1 else None
    wanted, wide = selection.units[minor], selection.release.geography.n_units(selection.levels[minor])
    if wanted is not None:
        mask = np.zeros(wide, bool)
        mask[wanted] = True
        kept = mask[minor_unit]
        minor_unit, counts = minor_unit[kept], [count[kept] for count in counts]
        of_row = None if of_row is None else of_row[kept]
    key = minor_unit if of_row is None else of_row * wide + minor_unit
    if len(units) * wide <= _SPREAD * key.size + 10_000:
        sums = [np.bincount(key, count) for count in counts]  # of doubles, exact up to 2**53
        keys = np.flatnonzero(np.logical_or.reduce(sums))
        added = np.array([total[keys] for total in sums], np.int64)
    else:
        keys, inverse = np.unique(key, return_inverse=True)
        added = np.array([np.bincount(inverse, count, keys.size) for count in counts], np.int64)
        some = added.any(axis=0)
        keys, added = keys[some], added[:, some]
    return Flows({major: units[keys // wide], minor: (keys % wide).astype(np.int64)}, added)


def has_bounds(selection: Selection, draws: PosteriorDraws | None) -> bool:
    """Say whether flows of a question have intervals: whether draws tell of all its areas."""
    if draws is None:
        return False
    attributes = draws.attributes_of(selection.question.attributes[0])
    return draws.has(selection.areas("home"), selection.areas("work"), attributes)


def about_bounds(selection: Selection, draws: PosteriorDraws | None) -> str | None:
    """Say what the intervals of a question are, or why it has none; nothing where a release has no draws."""
    if draws is None:
        return None
    if has_bounds(selection, draws):
        return ABOUT_INTERVALS
    return draws.why_none(draws.attributes_of(selection.question.attributes[0]))


def with_estimates(answers: Sequence[tuple[Selection, Flows]], draws: PosteriorDraws | None) -> list[Flows]:
    """Return flows of some questions with estimates of their first count: draws are read once for all."""
    found = [flows for _, flows in answers]
    if draws is None:
        return found
    asked: dict[int, Pairs] = {}
    for number, (selection, flows) in enumerate(answers):
        if flows.size and has_bounds(selection, draws):
            areas = selection.areas("home"), selection.areas("work")
            count = selection.question.attributes[0]
            asked[number] = Pairs(flows.units["home"], flows.units["work"], *areas, (count,))
    for (number, pairs), told in zip(asked.items(), draws.between_each([*asked.values()]), strict=True):
        found[number] = replace(found[number], estimates=told[pairs.counts[0]])
    return found


@dataclass(frozen=True)
class Estimate:
    """An estimate from draws, and the ends of its interval."""

    estimate: float
    low: int
    high: int


def estimated(selection: Selection, draws: PosteriorDraws | None) -> Estimate | None:
    """Return the estimate of the first count of a total; None where no draws tell of it."""
    if draws is None or not has_bounds(selection, draws):
        return None
    count = selection.question.attributes[0]
    names = draws.attributes_of(count)
    cells = draws.cells(selection.areas("home"), selection.areas("work"), names)
    counts = cells.counts
    if names:
        columns = list(count_columns(selection.release.categories)[names[0]])
        counts = counts[:, cells.categories[0] == columns.index(count)]
    (estimate,), (low,), (high,) = estimates(counts.sum(axis=1, keepdims=True))
    return Estimate(float(estimate), int(low), int(high))


@dataclass(frozen=True, eq=False)
class LargestFlows:
    """The largest flows of a question, and how much there is of all."""

    selection: Selection
    jobs: Int64  # Of all flows together
    number: int  # Of flows
    # The largest by their first count; of equal ones, those first that come first in the order of flows
    flows: Flows


def largest_flows(
    tables: FlowTables,
    selection: Selection,
    top: int,
) -> LargestFlows:
    """Find the largest flows of a question."""
    jobs, number = np.zeros(len(selection.question.attributes), np.int64), 0
    none = np.zeros(0, np.int64)
    best = Flows({"work": none, "home": none}, np.zeros((jobs.size, 0), np.int64))
    for flows in flow_batches(tables, selection):
        jobs += flows.counts.sum(axis=1)
        number += flows.size
        candidates = Flows(
            {side: np.concatenate([best.units[side], flows.units[side]]) for side in best.units},
            np.hstack([best.counts, flows.counts]),
        )
        best = candidates.take(_largest(candidates.counts[0], top))
    return LargestFlows(selection, jobs, number, best)


def _largest(jobs: Int64, top: int) -> NDArray[np.intp]:
    """Positions of the largest, and of equal ones the first; without sorting all."""
    rank = jobs * (jobs.size + 1) - np.arange(jobs.size)  # no two are equal
    chosen = np.argpartition(-rank, top)[:top] if jobs.size > top else np.arange(jobs.size)
    return chosen[np.argsort(-rank[chosen])]
