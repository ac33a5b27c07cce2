"""The workload: the tables that a release is for, their weights, and what is lost in each.

A table counts jobs by home area, work area and attributes. Its loss is the total variation distance between
the table of true homes and that of synthetic ones: the share of jobs that would have to be counted elsewhere.
Without a workload in the configuration the release is for these tables, in equal weights:

- flows between units of the public model's level;
- flows between units of the next finer level, which may be the block;
- from units to single work blocks;
- residents of units by each attribute, wherever they work, the attributes sharing one weight;
- flows between units by the most telling attribute (`most_telling`), or, where attributes are not public,
  by the first of these: what is not public nobody can compare.

The last two are there if jobs have attributes. Where whole records are protected there are also jobs by work
block, and jobs of units by each attribute, sharing one weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from geo_data.geography import Geography
from geo_data.jobs import Slots, count_categories, inside_share
from pipelines.config.sections import WorkloadTable
from pipelines.plans.measured import table_in_words
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.utility import cell_variation, count_variation

_MOST_CELLS = 2**62


@dataclass(frozen=True)
class Table:
    """A table that a release is for.

    Attributes
    ----------
    home : str or None
        Level, or kind of non-nesting area, of the home areas; None counts jobs wherever their workers live.
    work : str or None
        The same of the work areas; None counts jobs wherever they are.
    attributes : tuple of str
        By whose categories jobs are counted.
    weight : Fraction
    """

    home: str | None
    work: str | None
    attributes: tuple[str, ...]
    weight: Fraction

    @property
    def name(self) -> str:
        """What reports call it."""
        return table_in_words(self.home, self.work, self.attributes)


@dataclass(frozen=True, eq=False)
class CountedJobs:
    """Jobs, of which tables are counted.

    Attributes
    ----------
    work, home : ndarray of int32, shape (n,)
        Blocks.
    attributes : mapping of str to ndarray of int, shape (n,) each
        Codes of categories.
    """

    work: NDArray[np.int32]
    home: NDArray[np.int32]
    attributes: Mapping[str, npt.NDArray[np.integer]]

    def __len__(self) -> int:
        return len(self.work)


@dataclass(frozen=True, eq=False)
class Workload:
    """The tables that a release is for, and how they are counted.

    Attributes
    ----------
    tables : tuple of Table
    geography : Geography
        With the non-nesting areas that tables name.
    level : str
        Level of the public model: trial samples hold all jobs of some of its units.
    """

    tables: tuple[Table, ...]
    geography: Geography
    level: str

    @property
    def names(self) -> list[str]:
        """What reports call the tables."""
        return [table.name for table in self.tables]

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that any table counts by."""
        return tuple(dict.fromkeys(name for table in self.tables for name in table.attributes))

    def of_flows(self) -> Workload:
        """Return the tables without attributes, or all where every table has some."""
        flows = tuple(table for table in self.tables if not table.attributes and table.weight)
        return Workload(flows or self.tables, self.geography, self.level)

    def objective(self, losses: npt.ArrayLike) -> float:
        """Return the weighted mean of losses: what the planner minimises."""
        # Weights are exact in a configuration; here they only weigh estimates.
        total = sum(table.weight for table in self.tables)
        shares = [float(table.weight / total) for table in self.tables]
        return float(np.dot(shares, np.asarray(losses, np.float64)))

    def losses(self, true: CountedJobs, synthetic: CountedJobs, share: float = 1.0) -> NDArray[np.float64]:
        """Return the loss of each table."""
        return np.array([lost for (lost,), _ in self.compare(true, [synthetic], share)])

    def compare(
        self, true: CountedJobs, drawn: Sequence[CountedJobs], share: float = 1.0
    ) -> Iterator[tuple[list[float], list[NDArray[np.int64]]]]:
        """Yield for each table the loss of each of several draws, and the cells of all jobs.

        Noise of different units evens out in a sum over them, and what all have in common does not. With n
        jobs the loss is taken to be the root of b^2 + v / n; b and v follow from the loss of all jobs given
        and those of two halves of them.
        """
        sides = true, *drawn
        halves = self._halves(sides) if share < 1 and any(map(self.gathers, self.tables)) else []
        # Of v / n, as halves are not equal.
        larger = [len(true) / np.count_nonzero(in_half) for in_half, *_ in halves]
        more = float(np.mean(larger)) - 1 if halves else 0.0
        for table in self.tables:
            cells = self.cells(table, sides)
            losses = [cell_variation(cells[0], other) for other in cells[1:]]
            for i in range(len(drawn) if halves and self.gathers(table) else 0):
                pairs = [(cells[0][half[0]], cells[1 + i][half[1 + i]]) for half in halves]
                square = float(np.mean([cell_variation(*pair) ** 2 for pair in pairs]))
                chance = min(max((square - losses[i] ** 2) / more, 0.0), losses[i] ** 2)
                losses[i] = (losses[i] ** 2 - chance + chance * share) ** 0.5
            yield losses, cells

    def cells(self, table: Table, sides: Sequence[CountedJobs]) -> list[NDArray[np.int64]]:
        """Return the cell of a table that each job is in, for each side."""
        if table.home is None:
            return self._rows(table, sides, 1)
        area, wide = self.geography.units_of_blocks(table.home), self.geography.n_units(table.home)
        # Homes last: slots are sorted by work block, so that one is counted near where the one before was.
        rows = self._rows(table, sides, wide)
        return [begin + area.take(jobs.home) for begin, jobs in zip(rows, sides, strict=True)]

    def _rows(self, table: Table, sides: Sequence[CountedJobs], areas: int) -> list[NDArray[np.int64]]:
        """Return the first cell of each job's row, of work area and categories, for each side.

        Rows have as many cells as there are home areas.
        """
        codes: list[list[NDArray[Any]]] = [[] if table.work is None else [jobs.work] for jobs in sides]
        for side_codes, jobs in zip(codes, sides, strict=True):
            side_codes.extend(jobs.attributes[name] for name in table.attributes)
        same = (
            column is first
            for side_codes in codes
            for column, first in zip(side_codes, codes[0], strict=True)
        )
        if len(set(map(len, sides))) == 1 and all(same):
            codes = codes[:1]  # only homes differ, and all else is numbered once
        rows = [np.zeros(len(jobs), np.int64) for jobs in sides[: len(codes)]]
        span, size = areas, sum(map(len, sides))
        for i, column in reversed([*enumerate(zip(*codes, strict=True))]):
            of_sides: list[NDArray[np.integer]] = list(column)
            if i == 0 and table.work is not None:
                unit, wide = self.geography.units_of_blocks(table.work), self.geography.n_units(table.work)
                of_sides = [unit.take(values) for values in of_sides]
            else:
                wide = 1 + max(int(values.max(initial=0)) for values in of_sides)
            if wide < size < span * wide:  # numbered anew, as few may occur, it may be counted whole
                occurs = np.zeros(wide, bool)
                for values in of_sides:
                    occurs[values] = True
                number, wide = np.cumsum(occurs) - 1, int(occurs.sum())
                of_sides = [number.take(values) for values in of_sides]
            if span * wide >= _MOST_CELLS:  # of many attributes: numbered anew, only what occurs
                present, anew = np.unique(np.concatenate(rows), return_inverse=True)
                rows = np.split(anew * areas, np.cumsum([row.size for row in rows])[:-1])
                span = present.size * areas
            for row, values in zip(rows, of_sides, strict=True):
                row += values * np.int64(span)
            span *= wide
        return rows * (len(sides) // len(rows))

    def is_external(self, table: Table, jobs: CountedJobs) -> NDArray[np.bool_]:
        """Say of each job whether an area of a table that it is counted in has an external zone."""
        outside = np.zeros(len(jobs), np.bool_)
        for level, blocks in ((table.home, jobs.home), (table.work, jobs.work)):
            if level is not None:
                unit, zones = self.geography.units_of_blocks(level), self.geography.external_blocks
                outside |= np.isin(np.arange(self.geography.n_units(level)), unit[zones])[unit[blocks]]
        return outside

    def gathers(self, table: Table) -> bool:
        """Say whether a work area of a table may lie in several units of the level."""
        levels = [*self.geography.levels, self.geography.block_level]
        return table.work not in levels or levels.index(table.work) < levels.index(self.level)

    def _halves(self, sides: Sequence[CountedJobs]) -> list[list[NDArray[np.bool_]]]:
        """Cut the jobs in two by work unit, every other unit: say which jobs of every side are in each half.

        There are none where a half would be empty.
        """
        units = [self.geography.unit_of(self.level, jobs.work) for jobs in sides]
        occurs = np.bincount(units[0], minlength=self.geography.n_units(self.level)) > 0
        every_other = occurs & (np.cumsum(occurs) % 2 == 0)
        other = [every_other.take(unit) for unit in units]
        halves = [[~side for side in other], other]
        return halves if all(side.any() for half in halves for side in half) else []


def resolve_workload(
    tables: Iterable[WorkloadTable],
    geography: Geography,
    level: str,
    slots: Slots,
    unknown: Collection[str] = (),
    *,
    records: bool = False,
) -> Workload:
    """Return the workload of a configuration, or the default of what is there.

    Of `unknown` attributes nothing public tells how jobs differ in them: the default has tables of workplaces
    by each, and where whole `records` are protected of all jobs, too.
    """
    stated = tuple(Table(table.home, table.work, table.attributes, table.weight) for table in tables)
    if stated:
        return Workload(stated, geography, level)
    of_workplaces = [Table(None, geography.block_level, (), Fraction(1))] if records else []
    of_workplaces += [Table(None, level, (name,), Fraction(1, len(unknown))) for name in unknown]
    return Workload((*_default(geography, level, slots, tuple(unknown)), *of_workplaces), geography, level)


def workload_of(plan: ReleasePlan) -> Workload:
    """Return the tables that a plan is for."""
    config, slots = plan.config, plan.pools.slots
    unknown, records = config.unknown_attributes, config.protects_records
    return resolve_workload(config.workload, plan.geography, plan.level, slots, unknown, records=records)


def _default(geography: Geography, level: str, slots: Slots, unknown: tuple[str, ...]) -> tuple[Table, ...]:
    weight, block = Fraction(1), geography.block_level
    tables = [Table(level, level, (), weight)]
    if level != block:
        finer = [*geography.levels, block][[*geography.levels, block].index(level) + 1]
        tables.append(Table(finer, finer, (), weight))
        tables.append(Table(level, block, (), weight))
    names = sorted({*slots.attributes, *unknown})
    attribute_weight = Fraction(1, max(1, len(names)))
    tables += [Table(level, None, (name,), attribute_weight) for name in names]
    if telling := next(iter(unknown), None) or most_telling(geography, level, slots):
        tables.append(Table(level, level, (telling,), weight))
    return tuple(tables)


def most_telling(geography: Geography, level: str, slots: Slots) -> str | None:
    """Return the attribute by which flows say most that work blocks do not say already, from public slots.

    That is the one with the largest product of two numbers: how much its categories differ between work
    units (the mean total variation distance of a unit's jobs by category from all jobs, weighted by jobs),
    and how much of its variance is between jobs of one work block (`inside_share`). Of equal ones
    the first; None where jobs have no attributes.
    """
    best, most = None, -1.0
    alike, times = slots.counted()
    unit = geography.unit_of(level, alike.work)
    for name in slots.categories:
        counts, n, share = count_categories(alike, times, name, unit)
        expected = n[:, None] * share
        telling = count_variation(counts, expected) * inside_share(slots, name)
        if telling > most:
            best, most = name, telling
    return best
