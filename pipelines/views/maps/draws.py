"""Posterior draws inside a map, from which its program takes the interval of any sum of areas."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from geo_data.od_files import count_columns
from pipelines.views.changes.areas import ComparedAreas
from pipelines.views.changes.counting import shape_of
from pipelines.views.changes.sides import Side
from pipelines.views.intervals.carrying import without_history
from pipelines.views.intervals.reading import PosteriorDraws
from pipelines.views.release import Release

_FOR_UNBIASED = 1 / 8  # of the limit, that draws leave to unbiased estimates
_LEAST_BYTES = 0.1  # that a count takes in a page: where not even these have room, a table is not finished


@dataclass(frozen=True, eq=False)
class DrawTable:
    """A count of jobs by home, and by work unless they are counted wherever they are, in every draw."""

    column: str  # Of the release's counts
    home: str  # Level of the homes
    work: str | None  # Level of the workplaces
    # ``rows``: cells of each work unit; ``home`` of each cell, rising in a work unit; ``counts``: of each
    # cell in all draws, cell after cell; or, if they are unbiased, an estimate and its variance
    arrays: dict[str, np.ndarray]
    # Whether its noise is that of its release alone, and not of earlier ones too, which a later release of a
    # series has for evidence
    apart: bool = False
    # Whether it has what noisy counts say of each cell, and no draws: differences follow it
    # (`synth.posterior.differences`)
    unbiased: bool = False

    @cached_property
    def size(self) -> int:
        """Length in a page, in bytes, about."""
        return sum(len(gzip.compress(values.tobytes(), 1)) for values in self.arrays.values()) * 4 // 3


def all_draws(release: Release, levels: Sequence[str], limit: int, *, compared: bool) -> list[DrawTable]:
    """Return `draw_tables` of a release; of one that is `compared` also what noisy counts say of the cells.

    One with a history also has both without it: their noise is independent of that of earlier releases.
    """
    if not compared:
        return draw_tables(release.draws(), levels, limit)
    if not release.plan.history:
        return _compared(release, levels, limit)
    tables = _compared(release, levels, limit // 2)
    rest = limit - sum(table.size for table in tables)
    with TemporaryDirectory() as folder:
        apart = without_history(release, Path(folder) / "apart")
        return tables + [replace(table, apart=True) for table in _compared(apart, levels, rest)]


def _compared(release: Release, levels: Sequence[str], limit: int) -> list[DrawTable]:
    tables = draw_tables(release.draws(), levels, round(limit * (1 - _FOR_UNBIASED)))
    rest = limit - sum(table.size for table in tables)
    side = Side("A", release, ComparedAreas(release.geography, release.geography))
    for table in [table for table in tables if table.column == "S000"]:
        unbiased = _unbiased(side, table.home, table.work)
        if unbiased is not None and unbiased.size <= rest:
            tables.append(unbiased)
            rest -= unbiased.size
    return tables


def _unbiased(side: Side, home: str, work: str | None) -> DrawTable | None:
    """Return what noisy counts say of each cell of a table; None where they do not tell every cell."""
    shape = shape_of(side, home, work)
    sums = side.unbiased(shape)
    if sums is None:
        return None
    works, _, homes = shape.parts(sums.number)
    known = np.zeros((shape.widths[0], shape.widths[2]), np.bool_)
    known[works, homes] = True
    # A work unit without jobs has no cells. Of any other, homes are lacking where none can be, or where a
    # measured cell is cut, which would make sums biased.
    can = ~side.nobody(home, works=False)
    if not known[known.any(axis=1)][:, can].all():
        return None
    arrays = {
        "rows": smallest(np.bincount(works, minlength=shape.widths[0])),
        "home": smallest(homes),
        "counts": np.column_stack([sums.value, sums.variance]).astype(np.float32).ravel(),
    }
    return DrawTable("S000", home, work, arrays, unbiased=True)


def draw_tables(draws: PosteriorDraws, levels: Sequence[str], limit: int) -> list[DrawTable]:
    """Return residents, flows, and flows by attribute, as far as they have room in the limit.

    They are of the level of the first table of the release, which areas.csv and flows.csv are added up from,
    or of a coarser one with room; then there are flows between finer units. Sums are of the first that fits.
    """
    attributes: list[tuple[str, ...]] = [(), *((name,) for name in draws.release.categories)]
    after = levels.index(unit) + 1 if (unit := str(draws.tables[0].home)) in levels else len(levels)
    tables: list[DrawTable] = []
    for flows, breakdowns in ((False, attributes), (True, attributes[:1]), (True, attributes[1:])):
        for level in reversed(levels[:after]):
            work = level if flows else None
            present = [by for by in breakdowns if draws.has(level, work, by)]
            room = limit - sum(table.size for table in tables)
            tables_by = list(_within(draws, level, work, present, room))
            if present and len(tables_by) == len(present):
                tables += [table for part in tables_by for table in part]
                break
    for level in levels[after:]:
        if draws.has(level, level):
            tables += _tables(draws, level, level, (), limit - sum(table.size for table in tables)) or []
    return tables


def _within(
    draws: PosteriorDraws, home: str, work: str | None, attributes: Sequence[tuple[str, ...]], limit: int
) -> Iterator[list[DrawTable]]:
    """Yield the tables by each attribute as long as they have room."""
    for by in attributes:
        if (tables := _tables(draws, home, work, by, limit)) is None:
            return
        limit -= sum(table.size for table in tables)
        yield tables


def _tables(
    draws: PosteriorDraws, home: str, work: str | None, by: tuple[str, ...], limit: int
) -> list[DrawTable] | None:
    """Return the table of each category; None where they have no room."""
    categories = draws.release.categories
    columns = count_columns(categories)[by[0]] if by else ["S000"]
    n_works = 1 if work is None else draws.release.geography.n_units(work)
    cells = draws.cells(home, work, by)
    if cells.counts.size * _LEAST_BYTES > limit:
        return None
    code = cells.categories[0] if by else np.zeros_like(cells.home)
    tables = []
    for number, column in enumerate(columns):
        chosen = np.flatnonzero(code == number)  # in the order of work and home
        arrays = {
            "rows": np.bincount(cells.work[chosen], minlength=n_works),
            "home": cells.home[chosen],
            "counts": cells.counts[:, chosen].T.ravel(),
        }
        tables.append(DrawTable(column, home, work, {k: smallest(v) for k, v in arrays.items()}))
    return tables if sum(table.size for table in tables) <= limit else None


def smallest(values: np.ndarray) -> np.ndarray:
    """Return non-negative integers in the smallest unsigned type that a browser has an array for."""
    largest = int(values.max(initial=0))
    return values.astype(next(t for t in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(t).max))


def draws_meta(release: Release, tables: Sequence[DrawTable]) -> dict[str, Any]:
    """Say what a page's program has to know of tables."""
    draws, plan, counts = release.draws(), release.plan, release.counts
    estimated = []  # Counts of which jobs by workplace are estimates
    if plan.workplaces:
        secret = {*plan.policy.secret}
        estimated = [name for name in counts if not secret or secret & {*draws.attributes_of(name)}]
    return {
        "n": draws.draws,
        "low": 0,  # which of the draws of a number, in their order, are the ends of its interval
        "high": draws.draws - 1,
        "estimated": estimated,
        "history": plan.history is not None,
        "tables": [
            {name: getattr(table, name) for name in ("column", "home", "work", "apart", "unbiased")}
            for table in tables
        ],
    }
