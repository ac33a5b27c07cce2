"""Measured tables: counts of jobs by group and home that get noise, and what groups they have in common.

A measured table divides the jobs into groups of public size, by work area and attributes, and for each
group the homes into cells, which are runs of blocks. Another home for one job moves one unit between two
cells of each table, so the losses of noisy counts of several tables add up, whatever is done with them
afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import segment_indices
from synth.noise import Law, Noise
from synth.plan import Table

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MeasuredTable(Table):
    """A table whose counts get noise.

    Attributes
    ----------
    parameters : Noise
        Of this table; its secondary tables are not looked at.
    variances : ndarray of float64, shape (n_cells,), optional
        Where noisy counts of earlier years were added to those of this table (`synth.posterior.history`),
        how uncertain each is: as if it had Gaussian noise of that variance.
    """

    parameters: Noise
    variances: NDArray[np.float64] | None = None

    @property
    def law(self) -> Law:
        """The law of the noise in floats, for estimates."""
        return self.parameters.law

    @property
    def noise_variances(self) -> NDArray[np.float64]:
        """The variance of the noise of each cell."""
        if self.variances is not None:
            return self.variances
        return np.full(int(self.offsets[-1]), self.law.variance)

    def some(self, groups: slice | NDArray[np.integer]) -> MeasuredTable:
        """Return the table of some of its groups, in the order given."""
        variances = self.variances
        if variances is not None:
            first, size = self.offsets[:-1][groups], self.k[groups]
            variances = variances[segment_indices(first, size)]
        return MeasuredTable(self.n[groups], self.domain[groups], self.domains, self.parameters, variances)


def count_cells(table: Table, group: Int32, homes: Int32) -> Int64:
    """Count the jobs of each cell.

    Parameters
    ----------
    table : Table
    group : ndarray of int32, shape (n_jobs,)
        Public group of each job.
    homes : ndarray of int32, shape (n_jobs,)
        **Confidential**: home block of each job.

    Returns
    -------
    ndarray of int64, shape (n_cells,)
        **Confidential**: counts at the offsets of the table. A group need not have its public number of
        jobs: where that is of a table of workplaces, the number of records is confidential.
    """
    index = table.offsets[group] + table.domains.locate(table.domain[group], homes)
    return np.bincount(index, minlength=int(table.offsets[-1])).astype(np.int64, copy=False)


def l1_distance(cells: Int64, others: Int64, n_cells: int) -> int:
    """Return the sum over all cells of how many more jobs one of two tables has there than the other.

    Parameters
    ----------
    cells, others : ndarray of int64, shape (n,), (m,)
        Cell of each job of either table, from 0 and below `n_cells`, which is not checked.
    n_cells : int
    """
    return int(_l1_distance(cells, others, n_cells))


@_compiled
def _l1_distance(cells, others, n_cells):  # type: ignore[no-untyped-def]
    more, total = np.zeros(n_cells, np.int32), 0
    for cell in cells:
        more[cell] += 1
    for cell in others:
        more[cell] -= 1
    for number in more:
        total += abs(number)
    return total


@dataclass(frozen=True, eq=False)
class JobGroups:
    """Jobs that no table tells apart: those of the same group in every table.

    Attributes
    ----------
    n : ndarray of int64, shape (n_rows,)
        Jobs of each, at least 1.
    place : ndarray of int32, shape (n_rows,)
        The public profile that their homes follow before anything is measured, such as the work area of the
        public model; rising, so that the rows of a place are consecutive.
    member : ndarray of int32, shape (n_tables, n_rows)
        Group of each row in each table.
    steps : tuple of ndarray of int32, shape (n_rows,) each
        Parts of a place in which counts are rounded before they are divided further, coarse ones first:
        work areas between the place and the row. Each rises over all rows and nests in the one before.
    """

    n: Int64
    place: Int32
    member: Int32
    steps: tuple[Int32, ...] = ()

    def __post_init__(self) -> None:
        if self.n.ndim != 1 or self.n.size == 0 or self.n.min() < 1 or self.place.shape != self.n.shape:
            raise ValueError("every job group must have at least one job, and a place")
        if self.member.ndim != 2 or self.member.shape[1] != self.n.size or self.member.shape[0] == 0:
            raise ValueError(
                "every row must have a group in every table, and there must be at least one table"
            )
        before = self.place
        if np.any(np.diff(before) < 0):
            raise ValueError("places must increase")
        for step in self.steps:
            if step.shape != self.n.shape or np.any(np.diff(step) < 0):
                raise ValueError("the parts of a step must increase over the rows")
            if np.any((np.diff(before) > 0) & (np.diff(step) == 0)):
                raise ValueError("the parts of a step must nest in the parts of the step before")
            before = step

    @cached_property
    def starts(self) -> Int64:
        """First row of each place, and the number of rows, shape (n_places + 1,)."""
        first = np.flatnonzero(np.append(True, np.diff(self.place) > 0))
        return np.append(first, self.n.size).astype(np.int64)

    @property
    def n_places(self) -> int:
        """Number of places that have jobs."""
        return self.starts.size - 1

    def rows(self, position: int) -> slice:
        """Return the rows of the place at a position."""
        return slice(int(self.starts[position]), int(self.starts[position + 1]))

    def some(self, places: slice) -> JobGroups:
        """Return the rows of some places, without steps; they share nothing with these."""
        rows = slice(int(self.starts[places.start]), int(self.starts[places.stop]))
        return JobGroups(self.n[rows], self.place[rows], self.member[:, rows].copy())

    def merged(self, tables: int) -> JobGroups:
        """Return the groups that the first tables do not tell apart, without steps."""
        return self.merge(tables)[0]

    def merge(self, tables: int) -> tuple[JobGroups, Int64]:
        """Return what `merged` does, and which of its rows each of these rows is in."""
        member = self.member[:tables]
        keys = np.concatenate([self.place[np.newaxis], member])
        _, index, row = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        n = np.zeros(index.size, np.int64)
        np.add.at(n, row.ravel(), self.n)
        return JobGroups(n, self.place[index], member[:, index]), row.ravel()

    def check(self, tables: Sequence[Table]) -> None:
        """Refuse tables whose groups do not have the jobs of these rows, in the order of `member`."""
        if len(tables) != self.member.shape[0]:
            raise ValueError("there must be one row of groups for every table")
        for table, member in zip(tables, self.member, strict=True):
            jobs = np.zeros(table.n.size, np.int64)
            np.add.at(jobs, member, self.n)
            if not np.array_equal(jobs, table.n):
                raise ValueError("the job groups do not make up the groups of a measured table")


@dataclass(frozen=True, eq=False)
class Layout:
    """The cells of a place, and where each of its rows finds them in the tables.

    Attributes
    ----------
    cuts : ndarray of int32, shape (n_cells,)
        First block of each cell: the common refinement of the domains of all its groups.
    start : ndarray of int64, shape (n_tables, n_rows)
        Where the counts of the row's group begin in each table.
    which : ndarray of int32, shape (n_tables, n_rows)
        The row of `cell` that is for this table and row.
    cell : ndarray of int32, shape (n_maps, n_cells)
        The cell of a table that holds each cell of the place, for every domain of every table.
    whole : tuple of int
        Rows of `cell` of the tables that have one domain in this place.
    """

    cuts: Int32
    start: Int64
    which: Int32
    cell: Int32
    whole: tuple[int, ...]

    def areas(self) -> list[Int64]:
        """Return nested areas of the cells, coarse ones first: those that a table has for all rows.

        Each is the number of every cell's area, rising from 0, shape (n_cells,).
        """
        chain: list[Int64] = []
        finer = np.arange(self.cuts.size)
        for cell in sorted((self.cell[i] for i in self.whole), key=lambda cells: -int(cells[-1])):
            starts = np.append(True, np.diff(cell) > 0)
            if 0 < cell[-1] < finer[-1] and not np.any(starts[1:] & (np.diff(finer) == 0)):
                finer = cell.astype(np.int64)
                chain.insert(0, finer)
        return chain


def layouts(tables: Sequence[Table], groups: JobGroups) -> list[Layout]:
    """Return the layout of every place, in order; places whose groups have the same domains share cells."""
    cache: dict[tuple[tuple[int, int], ...], tuple[Int32, Int32]] = {}
    return [_layout(tables, groups.member[:, groups.rows(i)], cache) for i in range(groups.n_places)]


def _layout(
    tables: Sequence[Table], member: Int32, cache: dict[tuple[tuple[int, int], ...], tuple[Int32, Int32]]
) -> Layout:
    table_domains: list[tuple[int, int]] = []  # a table and one of its domains
    rows_of, whole = [], []
    for k, (table, groups) in enumerate(zip(tables, member, strict=True)):
        domains, position = np.unique(table.domain[groups], return_inverse=True)
        rows_of.append(position + len(table_domains))
        if domains.size == 1:
            whole.append(len(table_domains))
        table_domains += [(k, d) for d in domains.tolist()]
    if (key := tuple(table_domains)) not in cache:
        cache[key] = _refined([_cuts(tables[k], d) for k, d in table_domains])
    cuts, cell = cache[key]
    return Layout(
        cuts,
        np.stack([table.offsets[groups] for table, groups in zip(tables, member, strict=True)]),
        np.stack(rows_of).astype(np.int32),
        cell,
        tuple(whole),
    )


def _refined(cuts: Sequence[Int32]) -> tuple[Int32, Int32]:
    """Return the cells that several domains have in common, and the cell of each domain that holds each."""
    if len(cuts) == 1:  # to find this by a sort takes a nation long
        return cuts[0], np.arange(cuts[0].size, dtype=np.int32)[np.newaxis]
    joint = np.unique(np.concatenate(cuts))
    cell = [np.searchsorted(starts, joint, side="right") - 1 for starts in cuts]
    return joint, np.stack(cell).astype(np.int32)


def _cuts(table: Table, domain: int) -> Int32:
    begin, stop = table.domains.offsets[domain : domain + 2].tolist()
    return table.domains.cuts[begin:stop]
