"""One auxiliary table as a step of the public model: its rows, its parents, and the factors it asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from geo_data import _kernels
from geo_data.auxiliary import Flows
from geo_data.geography import Geography

Float64 = NDArray[np.float64]
Int = NDArray[np.integer]
Int64 = NDArray[np.int64]
T = TypeVar("T")

TRIAL = 128  # most destinations of a trial, on which threads would wait for one interpreter
_ROUNDS = 300  # of proportional fitting, at most; it converges geometrically
_REACHED = 1e-9  # relative distance from the targets at which it ends
FEWEST_JOBS = 1e-9  # weight of a destination without jobs in an average over destinations


@dataclass(frozen=True, eq=False)
class ModelTable:
    """A table of flows beside the units of the model."""

    same_jobs: bool  # the table counts the same jobs as the release
    origin_starts: NDArray[np.int64]  # first unit of the model in each origin unit of the table; shape (o,)
    # first origin unit in each parent: the units of the coarser table before it; shape (p,)
    parent_starts: NDArray[np.int64]
    destination: NDArray[np.int32]  # the table's destination unit of each unit of the model; shape (n_units,)
    flow: sparse.csr_matrix  # F; shape (destination units, o)
    # m(g, D) f(o | g, D): how many of the m workers asked live in o; shape (destination units, o)
    sample: sparse.csr_matrix
    # m(D) / F(D): how many workers asked a unit of flow is, in the whole row; shape (destination units,)
    worth: Float64
    direct: bool  # the table's destinations are the model's own units
    # kappa and lambda, of the model before this table
    concentration: float = 0.0
    between: float = 0.0
    # for a coarser destination level: what proportional fitting found; shape (destination units, o)
    factor: Float64 | None = None

    @classmethod
    def of(cls, tables: Sequence[Flows], geography: Geography, level: str) -> list[ModelTable]:
        """Prepare tables that are ordered from coarse to fine origins."""
        units = geography.starts(level).astype(np.int64)
        result: list[ModelTable] = []
        for i, table in enumerate(tables):
            coarser = [t.origin_level for t in tables[:i] if t.origin_level != table.origin_level]
            blocks = geography.starts(table.origin_level).astype(np.int64)
            parents = geography.starts(coarser[-1]).astype(np.int64) if coarser else np.zeros(1, np.int64)
            parent_starts = np.searchsorted(blocks, parents)
            parent = np.searchsorted(parent_starts, np.arange(blocks.size), side="right") - 1
            flow, sample, worth = matrices(table, geography, parent)
            result.append(
                cls(
                    same_jobs=table.same_jobs,
                    origin_starts=np.searchsorted(units, blocks),
                    parent_starts=parent_starts,
                    destination=geography.unit_of(table.destination_level, units),
                    flow=flow,
                    sample=sample,
                    worth=worth,
                    direct=table.destination_level == level,
                )
            )
        return result

    def reached(self, destinations: Int) -> NDArray[np.bool_]:
        """Say of each destination whether the table has a flow to it."""
        some = np.asarray(self.flow.sum(axis=1)).ravel() > 0
        return np.asarray(some[self.destination[destinations]])

    def flows(self, destinations: Int) -> tuple[NDArray[np.int64], Float64, Float64]:
        """Return the table's row of each destination, and those of `flow` and `sample`, shape (rows, o)."""
        rows, row = np.unique(self.destination[destinations], return_inverse=True)
        return row, self.flow[rows].toarray(), self.sample[rows].toarray()

    def by_origin(self, shares: Float64) -> Float64:
        """Add shares of units of the model up to origin units of the table, shape (g, o)."""
        return np.asarray(_kernels.added_up(shares, self.origin_starts))

    def by_parent(self, values: Float64) -> Float64:
        """Add values of origin units up to parents, shape (g, p)."""
        return np.asarray(_kernels.added_up(values, self.parent_starts))

    def spread(self, values: Float64) -> Float64:
        """Repeat values of parents for each of their origin units, shape (g, o)."""
        length = np.diff(np.append(self.parent_starts, self.origin_starts.size))
        return np.repeat(values, length, axis=1)

    def inside(self, flow: Float64) -> NDArray[np.bool_]:
        """Say of each pair whether the table speaks about it: its parent has a flow."""
        return np.asarray(self.spread(self.by_parent(flow)) > 0)

    def averaging(self, row: Int, jobs: Float64, rows: int) -> Callable[[Float64], Float64]:
        """Return what averages shares over the destinations of each row, by jobs, at the table's origins."""
        weight = np.maximum(jobs, FEWEST_JOBS)
        matrix = sparse.csr_matrix((weight, (row, np.arange(row.size))), shape=(rows, row.size))
        total = matrix @ np.ones((row.size, 1))
        return lambda shares: np.asarray(matrix @ self.by_origin(shares) / total)

    def applied(self, shares: Float64, destinations: Int, jobs: Float64) -> Float64:
        """Return shares of the model after this table, shape (g, n_units), in the memory of `shares`."""
        rows = self.destination[destinations]
        if self.factor is None and self.origin_starts.size == shares.shape[1]:  # nothing to spread
            self._retarget(shares, rows, jobs[rows])
            return shares
        current = self.by_origin(shares)
        if self.factor is not None:
            factor = self.factor[rows]
            factor /= (current * factor).sum(axis=1, keepdims=True)
        else:
            target = current.copy()
            self._retarget(target, rows, jobs[rows])
            factor = _times(target, current)
        _kernels.scale(shares, self.origin_starts, factor)
        return shares

    def balanced(self, shares: Callable[[Int], Float64], jobs: Float64) -> ModelTable:
        """Return the table with the factors that give its coarse destinations their targets.

        `shares` gives P(u | d) of the model so far, shape (g, n_units), of destinations in groups of any
        size.
        """
        factor = np.ones(self.flow.shape)
        weight = np.maximum(jobs, FEWEST_JOBS)
        first = np.searchsorted(self.destination, np.arange(factor.shape[0] + 1))

        def fit(row: int) -> None:
            members = np.arange(first[row], first[row + 1])
            parts = np.array_split(members, -(-members.size // at_a_time(weight.size)))
            current = np.concatenate([self.by_origin(shares(part)) for part in parts])
            weights_of_row = weight[members] / weight[members].sum()
            target = weights_of_row[None] @ current
            self._retarget(target, np.array([row]), jobs[members].sum(keepdims=True))
            factor[row] = proportional_fit(current, weights_of_row, target[0])

        # Rows of the table on all processors: the destinations of one share no factor with those of another.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fit, np.flatnonzero(np.diff(self.flow.indptr)).tolist()))
        return replace(self, factor=factor)

    def _retarget(self, shares: Float64, rows: Int, jobs: Float64) -> None:
        """Turn shares at the table's origins into T(o | D) of rows of the table, in place."""
        flow = self.flow
        table = _kernels.TableRows(
            self.parent_starts, flow.indptr, flow.indices, flow.data, self.sample.data, self.worth
        )
        numbers = rows.astype(np.int64)
        _kernels.retarget(shares, table, numbers, jobs, self.concentration, self.between, self.same_jobs)


def matrices(
    table: Flows, geography: Geography, parent: Int
) -> tuple[sparse.csr_matrix, sparse.csr_matrix, Float64]:
    """Return `flow`, `sample` and `worth` of a table (see `ModelTable`), from the parent of each origin."""
    shape = (geography.n_units(table.destination_level), geography.n_units(table.origin_level))
    cells = (table.destination, table.origin)
    flow = sparse.csr_matrix((table.flow, cells), shape=shape)
    squares = sparse.csr_matrix((table.variance, cells), shape=shape)
    flow.sort_indices()  # so that both have the same entries in the same order
    squares.sort_indices()
    row = np.repeat(np.arange(shape[0]), np.diff(flow.indptr))
    group = np.unique(row * (parent.max() + 1) + parent[flow.indices], return_inverse=True)[1]
    sample = flow.data * _worth(group, flow.data, squares.data, group.size)[group]
    worth = _worth(row, flow.data, squares.data, shape[0])
    return flow, sparse.csr_matrix((sample, flow.indices, flow.indptr), shape=shape), worth


def moments(drawn: Float64, m: Float64, p: Float64) -> Float64:
    """Return the sums of w m p (1 - p), w m^2 p (1 - p) and w (drawn - m p)^2, w = 1 / (1 + m p).

    Without w the largest counts decide alone. Those of one large city, off by far, would have it that pairs
    without a flow have nobody.
    """
    weighted = 1.0 / (1.0 + m * p)
    chance = weighted * m * p * (1.0 - p)
    return np.array([chance.sum(), (m * chance).sum(), (weighted * (drawn - m * p) ** 2).sum()])


def proportional_fit(current: Float64, weight: Float64, target: Float64) -> Float64:
    """Return the factor of each origin that gives destinations together their target.

    `current` has the shares of o origins of each of k destinations, whose weights add to 1.
    """
    factor = np.ones(target.size)
    for _ in range(_ROUNDS):
        # The shares of a destination add to 1 again: a number of each row, so that no share is written.
        step = _times(target, factor * ((weight / (current @ factor)) @ current))
        if np.abs(step - 1.0).max() < _REACHED:
            break
        factor *= step
    return factor


def _times(target: Float64, current: Float64) -> Float64:
    """Return by what to multiply to get from the one to the other; 1 where nobody can live."""
    return np.asarray(np.divide(target, current, out=np.ones(target.shape), where=current > 0))


def _worth(group: Int, flow: Float64, variance: Float64, groups: int) -> Float64:
    """Return of each group of entries how many workers asked a unit of its flow is."""
    total, error = (np.bincount(group, values, groups) for values in (flow, variance))
    return np.divide(total, error, out=np.ones(groups), where=error > 0)


def at_a_time(n_units: int) -> int:
    """Return how many destinations are handled together: 4 to 16, with shares of 4 MB if that is between."""
    return max(4, min(16, 2**19 // n_units))


def in_batches(work: Callable[[slice], T], n: int, n_units: int) -> list[T]:
    """Do some work for the shares of all of n destinations, some at a time, on all processors.

    Results are in order. The work is numpy and compiled code, which lets threads run side by side.
    """
    size = at_a_time(n_units)
    batches = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    if n <= TRIAL:
        return [work(batch) for batch in batches]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(work, batches))


@dataclass(frozen=True, eq=False)
class _Classes:
    """The origins of one destination area, as the table tells them apart.

    One class for each origin with an entry and one for all others that the table names, parent after parent,
    as far as parents have a flow; the last class is all the rest, about which the table is silent.
    """

    label: Int64  # the class of each origin area; shape (o,)
    starts: Int64  # the first class of each parent, and of the rest; shape (parents + 1,)
    entries: Int64  # the classes with an entry; shape (e,)
    # F, and how many of the m workers asked live there; shape (e,)
    flow: Float64
    sample: Float64

    def parent(self, label: Int64) -> Int64:
        """Return the parent of classes, as a position in `starts`."""
        return np.searchsorted(self.starts, label, side="right") - 1

    @property
    def matrix(self) -> sparse.csr_matrix:
        """What adds origin areas up to classes, shape (o, classes)."""
        n = self.label.size
        shape = (n, int(self.starts[-1]) + 1)
        return sparse.csr_matrix((np.ones(n), (np.arange(n), self.label)), shape=shape)


@dataclass(frozen=True, eq=False)
class Row:
    """What the model says of the workers of one destination area of a table, before the table."""

    area: int
    jobs: Float64  # its public jobs in each of the k units that it touches; shape (k,)
    # of the workers in each of these units, the part from each class of origins; shape (k, classes)
    shares: Float64
    # the sums of the moment equation, inside parents and between them; shape (3,)
    within: Float64
    between: Float64


@dataclass(frozen=True, eq=False)
class AreaTable:
    """A table of flows between areas, beside the units of the model that they cut."""

    same_jobs: bool  # the table counts the same jobs as the release
    # w(g | u): the part of a unit's public weight in each origin area; shape (n_units, o)
    origin: sparse.csr_matrix
    # w(G | d): the part of a unit's public jobs in each destination area; shape (n_units, destination areas)
    destination: sparse.csr_matrix
    jobs: Float64  # of each unit, above 0; shape (n_units,)
    parent: Int64  # the parent of each origin area; -1 where the table never names the area; shape (o,)
    # F, and m(g, D) f(o | g, D): how many of the m workers asked live in o; shape (destination areas, o)
    flow: sparse.csr_matrix
    sample: sparse.csr_matrix
    worth: Float64  # how many workers asked a unit of flow is, in the whole row; shape (destination areas,)
    # kappa and lambda, of the model before this table
    concentration: float = 0.0
    between: float = 0.0
    # what proportional fitting found, for every destination area to which the table has a flow; shape
    # (classes,)
    factors: Mapping[int, Float64] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: Flows,
        geography: Geography,
        level: str,
        parent_level: str | None,
        weights: Int64,
        jobs: Int64,
    ) -> AreaTable:
        """Prepare a table; `weights` and `jobs` are of blocks."""
        blocks = np.arange(geography.n_blocks)
        unit, home = (geography.unit_of(name, blocks) for name in (level, table.origin_level))
        n_origins = geography.n_units(table.origin_level)
        parent = np.zeros(n_origins, np.int64)
        if parent_level is not None:  # where most of the area's weight lies
            above = geography.unit_of(parent_level, blocks)
            shape = (n_origins, geography.n_units(parent_level))
            parent = sparse.csr_matrix((weights, (home, above)), shape=shape).argmax(axis=1)
            parent = np.asarray(parent, np.int64).ravel()
        flow, sample, worth = matrices(table, geography, parent)
        total = np.bincount(unit, jobs)
        measure = np.where(total[unit] > 0, jobs, FEWEST_JOBS)  # a unit without jobs is cut by its blocks
        work = geography.unit_of(table.destination_level, blocks)
        return cls(
            same_jobs=table.same_jobs,
            origin=_parts(unit, home, weights, (total.size, n_origins)),
            destination=_parts(unit, work, measure, (total.size, flow.shape[0])),
            jobs=np.maximum(total, FEWEST_JOBS),
            parent=np.where(np.bincount(table.origin, minlength=n_origins) > 0, parent, -1),
            flow=flow,
            sample=sample,
            worth=worth,
        )

    def reached(self, destinations: Int) -> NDArray[np.bool_]:
        """Say of each destination whether the table has a flow to an area of it."""
        return np.asarray(self.destination[destinations] @ self._has_flow() > 0)

    def flows(self, destinations: Int) -> tuple[sparse.csr_matrix, Float64, Float64]:
        """Return the jobs of destinations in each row that they reach, and `flow` and `sample` there."""
        jobs = self.destination[destinations].multiply(self.jobs[destinations][:, None]).T.tocsr()
        rows = np.flatnonzero((np.diff(jobs.indptr) > 0) & self._has_flow())
        return jobs[rows], self.flow[rows].toarray(), self.sample[rows].toarray()

    def inside(self, flow: Float64) -> NDArray[np.bool_]:
        """Say of each pair whether the table speaks about it: of a named origin, whose parent has a flow."""
        n = self.parent.size
        parents = sparse.csr_matrix((np.ones(n), (np.arange(n), np.maximum(self.parent, 0))))
        return np.asarray((flow @ parents @ parents.T > 0) & (self.parent >= 0))

    def averaging(self, row: sparse.csr_matrix, jobs: Float64, rows: int) -> Callable[[Float64], Float64]:
        """Return what averages shares over the destinations of each row, by jobs, at the table's origins."""
        total = row.sum(axis=1)
        return lambda shares: np.asarray(row @ (shares @ self.origin) / total)

    def rows(self, shares: Callable[[Int], Float64]) -> list[Row]:
        """Return what the model so far says about every row with a flow.

        `shares` gives P(u | d) of the model so far, shape (g, n_units), of destinations in groups of any
        size.
        """
        columns = self.destination.tocsc()

        def look(area: int) -> Row:
            block = slice(columns.indptr[area], columns.indptr[area + 1])
            units = columns.indices[block]
            jobs = columns.data[block] * self.jobs[units]
            classes = self._classes(area)
            adding, mean, class_shares = classes.matrix, np.zeros(self.parent.size), []
            for part in np.array_split(np.arange(units.size), -(-units.size // at_a_time(self.jobs.size))):
                distribution = shares(units[part]) @ self.origin
                mean += jobs[part] @ distribution
                class_shares.append(distribution @ adding)
            inside = classes.label < classes.starts[-1]
            parent = classes.parent(classes.label[inside])
            share = np.bincount(parent, mean[inside])
            found_there = np.zeros(adding.shape[1])
            found_there[classes.entries] = classes.sample
            drawn = found_there[classes.label[inside]]  # in a class of others nobody was found
            sampled = np.bincount(parent, drawn).astype(np.float64)[parent]
            parts = np.bincount(classes.parent(classes.entries), classes.flow) * self.worth[area]
            return Row(
                area=area,
                jobs=jobs,
                shares=np.concatenate(class_shares),
                within=moments(drawn, sampled, mean[inside] / share[parent]),
                between=moments(parts, np.full(parts.size, parts.sum()), share / share.sum()),
            )

        has_flow = np.flatnonzero(self._has_flow() & (np.diff(columns.indptr) > 0))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(look, has_flow.tolist()))

    def fitted(self, rows: list[Row]) -> AreaTable:
        """Return the table with the factors that give its destination areas their targets."""

        def fit(row: Row) -> Float64:
            classes, weight = self._classes(row.area), row.jobs / row.jobs.sum()
            current = weight @ row.shares
            target = current.copy()
            table = _kernels.TableRows(
                classes.starts,
                np.array([0, classes.entries.size], np.int32),
                classes.entries.astype(np.int32),
                classes.flow,
                classes.sample,
                self.worth[[row.area]],
            )
            only, jobs = np.zeros(1, np.int64), row.jobs.sum(keepdims=True)
            _kernels.retarget(
                target[None], table, only, jobs, self.concentration, self.between, self.same_jobs
            )
            some = current > 0  # there may be no others, and no rest
            factor = np.ones(current.size)
            factor[some] = proportional_fit(row.shares[:, some], weight, target[some])
            return factor

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            factors = dict(zip((row.area for row in rows), pool.map(fit, rows), strict=True))
        return replace(self, factors=factors)

    def applied(self, shares: Float64, destinations: Int, jobs: Float64) -> Float64:
        """Return shares of the model after this table, shape (g, n_units), in the memory of `shares`."""
        parts = self.destination[destinations].tocsc()
        change = np.zeros(shares.shape)
        for area in np.flatnonzero(np.diff(parts.indptr)).tolist():
            factor = self.factors.get(area)
            units = None if factor is None else self.origin @ factor[self._classes(area).label]
            for entry in range(parts.indptr[area], parts.indptr[area + 1]):
                i, part = parts.indices[entry], parts.data[entry]
                change[i] += part if units is None else part * units / (shares[i] * units).sum()
        shares *= change
        return shares

    def _has_flow(self) -> NDArray[np.bool_]:
        """Say of each destination area whether the table has a flow to it."""
        return np.asarray(self.flow.sum(axis=1)).ravel() > 0

    def _classes(self, area: int) -> _Classes:
        entries_of_area = slice(self.flow.indptr[area], self.flow.indptr[area + 1])
        origin, flow, sample = (
            self.flow.indices[entries_of_area],
            self.flow.data[entries_of_area],
            self.sample.data[entries_of_area],
        )
        covered = np.unique(self.parent[origin[flow > 0]])
        kept = np.isin(self.parent[origin], covered)
        position = np.searchsorted(covered, self.parent[origin[kept]])
        order = np.argsort(position, kind="stable")
        starts = np.append(0, np.cumsum(np.bincount(position, minlength=covered.size) + 1))
        entries = np.arange(order.size) + position[order]
        label = np.full(self.parent.size, starts[-1])
        some = np.isin(self.parent, covered)
        label[some] = starts[np.searchsorted(covered, self.parent[some]) + 1] - 1
        label[origin[kept][order]] = entries
        return _Classes(label, starts, entries, flow[kept][order], sample[kept][order])


def _parts(unit: Int, area: Int, measure: Int | Float64, shape: tuple[int, int]) -> sparse.csr_matrix:
    """Return the part of every unit's measure in each area."""
    some = measure > 0
    parts = measure[some] / np.bincount(unit, measure)[unit[some]]
    return sparse.csr_matrix((parts, (unit[some], area[some])), shape=shape)
