"""Posterior draws inside a map, from which its program takes the interval of any sum of areas."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from geo_data.od_files import count_columns
from pipelines.views.intervals.reading import PosteriorDraws

_LEAST_BYTES = 0.1  # that a count takes in a page: where not even these have room, a table is not finished


@dataclass(frozen=True, eq=False)
class DrawTable:
    """A count of jobs by home, and by work unless they are counted wherever they are, in every draw."""

    column: str  # Of the release's counts
    home: str  # Level of the homes
    work: str | None  # Level of the workplaces
    # ``rows``: cells of each work unit; ``home`` of each cell, rising in a work unit; ``counts``: of each
    # cell in all draws, cell after cell
    arrays: dict[str, np.ndarray]

    @cached_property
    def size(self) -> int:
        """Length in a page, in bytes, about."""
        return sum(len(gzip.compress(values.tobytes(), 1)) for values in self.arrays.values()) * 4 // 3


def draw_tables(draws: PosteriorDraws, levels: Sequence[str], limit: int) -> list[DrawTable]:
    """Return residents, flows, and flows by attribute, each of the finest level with room in the limit."""
    covered = [level for level in levels if draws.has(level)]
    attributes = [(), *((name,) for name in draws.attributes)]
    tables: list[DrawTable] = []
    for flows, breakdowns in ((False, attributes), (True, attributes[:1]), (True, attributes[1:])):
        for level in reversed(covered):
            room = limit - sum(table.size for table in tables)
            tables_by = list(_within(draws, level, level if flows else None, breakdowns, room))
            if len(tables_by) == len(breakdowns):
                tables += [table for part in tables_by for table in part]
                break
    return tables


def _within(
    draws: PosteriorDraws, home: str, work: str | None, attributes: Sequence[tuple[str, ...]], limit: int
) -> Iterator[list[DrawTable]]:
    """Yield the tables by each attribute as long as they have room."""
    for by in attributes:
        tables = _tables(draws, home, work, by, limit)
        if tables is None or (limit := limit - sum(table.size for table in tables)) < 0:
            return
        yield tables


def _tables(
    draws: PosteriorDraws, home: str, work: str | None, by: tuple[str, ...], limit: int
) -> list[DrawTable] | None:
    """Return the table of each category; None where they are too large by far."""
    categories = draws.release.categories
    columns = count_columns(categories)[by[0]] if by else ["S000"]
    n_works = 1 if work is None else draws.release.geography.n_units(work)
    parts: list[tuple[np.ndarray, ...]] = []
    n_counts = 0
    for cells in draws.cells(home, work, by):
        n_counts += cells.counts.size
        if n_counts * _LEAST_BYTES > limit:
            return None
        code = cells.categories[0] if by else np.zeros_like(cells.home)
        parts.append((code, cells.work, cells.home, smallest(cells.counts.T)))
    code, works, homes = (np.concatenate([part[i] for part in parts]) for i in range(3))
    counts = np.concatenate([part[3] for part in parts])
    tables = []
    for number, column in enumerate(columns):
        chosen = np.flatnonzero(code == number)
        chosen = chosen[np.lexsort([homes[chosen], works[chosen]])]
        arrays = {
            "rows": np.bincount(works[chosen], minlength=n_works),
            "home": homes[chosen],
            "counts": counts[chosen].ravel(),
        }
        tables.append(DrawTable(column, home, work, {k: smallest(v) for k, v in arrays.items()}))
    return tables


def smallest(values: np.ndarray) -> np.ndarray:
    """Return non-negative integers in the smallest unsigned type that a browser has an array for."""
    largest = int(values.max(initial=0))
    return values.astype(next(t for t in (np.uint8, np.uint16, np.uint32) if largest <= np.iinfo(t).max))


def draws_meta(draws: PosteriorDraws, tables: Sequence[DrawTable]) -> dict[str, Any]:
    """Say what a page's program has to know of tables."""
    low, high = draws.between_draws
    return {
        "n": draws.draws,
        "low": low,
        "high": high,
        "tables": [{"column": t.column, "home": t.home, "work": t.work} for t in tables],
    }
