"""From noisy counts of measured tables to expected homes of every job group: deterministic, and free of cost.

What the public model expects in a cell, and what earlier tables made of it, is the prior of a table's
counts; their posterior means (`synth.posterior`) are the table's targets. The expected jobs of a row (a job
group) in a cell are in factor form,

    n_row P(cell | place) prod_k f_k[group of the row, cell of the table] / normaliser of the row,

and iterative proportional fitting finds the factors with which every table has its targets. So the memory
of a fit is one number for each measured cell, and the rows of one place.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.measured import JobGroups, Layout, MeasuredTable, layouts
from synth.plan import Domains, Table
from synth.posterior import least_loss, measured_concentration, posterior
from synth.projection import offsets_of, project

__all__ = ["Estimate", "Prior", "estimate", "restore"]

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

Prior = Callable[[int, Int32], Float64]
"""Gives the share of a place's workers that live in each cell, for the first block of each cell."""

_PARTS = 4  # of the places, which threads add up side by side
_FEW_ROWS = 4096  # of which are added up before threads have begun
_ROUNDS = 12  # of fitting, at most
_NEAR = 2e-3  # part of the jobs that may be off their targets


@dataclass(eq=False)
class Estimate:
    """Expected homes in factor form, made by `estimate`.

    Attributes
    ----------
    tables : sequence of Table
        The measured ones first.
    groups : JobGroups
    layouts : list of Layout
        One for each place.
    shares : list of ndarray of float64
        By place, the prior share of each of its cells.
    concentrations : list of float
        By measured table, the concentration that was found; none without a prior.
    """

    tables: Sequence[Table]
    groups: JobGroups
    layouts: list[Layout]
    shares: list[Float64]
    concentrations: list[float]
    _factors: Float64  # of the cells of all measured tables, one table after another
    _bounds: Int64  # where those of each table begin, and the last ones end

    def rows(self, position: int) -> Float64:
        """Return the expected jobs of the rows of a place in its cells.

        Parameters
        ----------
        position : int
            Of the place.

        Returns
        -------
        ndarray of float64, shape (n_rows, n_cells)
            Not negative; each row adds up to its jobs.
        """
        layout, n = self.layouts[position], self.groups.n[self.groups.rows(position)]
        values = np.empty((n.size, layout.cuts.size))
        _expect(self.shares[position], n, self._factors, *self._places(layout), values)
        return values

    def domains(self, n_blocks: int) -> Domains:
        """Return the cells of all places, domain after domain in the order of places."""
        cuts = np.concatenate([layout.cuts for layout in self.layouts])
        offsets = offsets_of(np.array([layout.cuts.size for layout in self.layouts], np.int64))
        return Domains(n_blocks, offsets, cuts, np.zeros(cuts.size, np.uint8))

    def margins(self) -> list[Float64]:
        """Return the expected jobs in each cell of each measured table, shape (n_cells of the table,)."""
        # Always in the same parts, which are added up in order: the same bits on any number of threads.
        ends = np.linspace(0, len(self.layouts), min(_PARTS, len(self.layouts)) + 1).astype(int).tolist()
        parts = list(itertools.starmap(range, itertools.pairwise(ends)))
        if self.groups.n.size < _FEW_ROWS:
            totals = list(map(self._margins_of, parts))
        else:
            with ThreadPoolExecutor(_PARTS) as threads:
                totals = list(threads.map(self._margins_of, parts))
        for other in totals[1:]:
            totals[0] += other
        return np.split(totals[0], self._bounds[1:-1])

    def _margins_of(self, places: range) -> Float64:
        total = np.zeros(int(self._bounds[-1]))
        for position in places:
            layout, n = self.layouts[position], self.groups.n[self.groups.rows(position)]
            _add_up(self.shares[position], n, self._factors, *self._places(layout), total)
        return total

    @property
    def factors(self) -> list[Float64]:
        """The factor of each cell of each measured table, from which `restore` makes the estimate again."""
        return np.split(self._factors, self._bounds[1:-1])

    def scale(self, k: int, by: Float64) -> None:
        """Multiply the factors of measured table k."""
        self._factors[self._bounds[k] : self._bounds[k + 1]] *= by

    def refined(self, tables: Sequence[Table], groups: JobGroups, prior: Prior | None) -> Estimate:
        """Return the same estimate for finer rows and cells: the prior inside those of the fit."""
        parts = layouts(tables, groups)
        return replace(
            self, tables=tables, groups=groups, layouts=parts, shares=_shares(parts, groups, prior)
        )

    def _places(self, layout: Layout) -> tuple[Int64, Int32, Int32]:
        measured = self._bounds.size - 1
        return layout.start[:measured] + self._bounds[:-1, np.newaxis], layout.which[:measured], layout.cell


def estimate(
    tables: Sequence[Table], noisy: Sequence[Int64], groups: JobGroups, prior: Prior | None
) -> Estimate:
    """Fit expected homes to the noisy counts of the measured tables and to the public size of every row.

    Lemma 21 of docs/privacy.md.

    Each table in turn meets what the tables before it, and the prior, expect; where tables disagree, later
    ones have the last word, as their posteriors know the earlier ones.

    Parameters
    ----------
    tables : sequence of Table
        First those that are measured, the ones with most cells before others; then tables that nobody
        measures, but rounding is to keep.
    noisy : sequence of ndarray of int64
        Noisy counts of each measured table, at its offsets.
    groups : JobGroups
        Of all tables.
    prior : Prior, optional
        Without it nothing is expected of any cell, and the targets of a table are the nearest counts that
        add up (`synth.projection.project`).

    Returns
    -------
    Estimate
    """
    measured = [table for table in tables if isinstance(table, MeasuredTable)]
    if len(noisy) != len(measured) or measured != list(tables[: len(measured)]) or not measured:
        raise ValueError("measured tables come first, at least one, and each has its noisy counts")
    merged = groups.merged(len(measured))
    parts = layouts(measured, merged)
    bounds = offsets_of(np.array([table.offsets[-1] for table in measured]))
    fit = Estimate(
        measured, merged, parts, _shares(parts, merged, prior), [], np.ones(int(bounds[-1])), bounds
    )
    targets: list[Float64] = []
    variances: list[Float64] = []
    jobs = float(groups.n.sum())
    for k, table in enumerate(measured):
        expected = fit.margins()[k]
        if prior is None:
            mass, unit = project(noisy[k], table.offsets, table.n)
            target, variance = mass / np.repeat(unit, table.k), np.ones(mass.size)
        else:
            target, variance, concentration = _target(
                table, noisy[k], expected, merged.place, merged.member[k]
            )
            fit.concentrations.append(concentration)
        targets.append(target)
        variances.append(variance)
        if k:
            _agree(measured[: k + 1], targets, variances)
        fit.scale(k, _ratio(targets[k], expected))
        for turn in range(k * _ROUNDS):
            now = fit.margins()[: k + 1]
            off = [float(np.abs(a - b).sum()) for a, b in zip(now, targets, strict=True)]
            if max(off) < _NEAR * jobs:
                break
            j = turn % (k + 1)
            fit.scale(j, _ratio(targets[j], now[j]))
    return fit.refined(tables, groups, prior)


def restore(
    tables: Sequence[Table], factors: Sequence[Float64], groups: JobGroups, prior: Prior | None
) -> Estimate:
    """Return an estimate from its factors, of all of its places or of some.

    Parameters
    ----------
    tables, groups, prior
        As for `estimate`, of these places.
    factors : sequence of ndarray of float64
        Of the cells of each measured table, at its offsets (`Estimate.factors`).
    """
    parts = layouts(tables, groups)
    bounds = offsets_of(np.array([values.size for values in factors]))
    return Estimate(tables, groups, parts, _shares(parts, groups, prior), [], np.concatenate(factors), bounds)


def _shares(parts: Sequence[Layout], groups: JobGroups, prior: Prior | None) -> list[Float64]:
    if prior is None:
        return [np.ones(layout.cuts.size) for layout in parts]
    places = groups.place[groups.starts[:-1]].tolist()
    return [prior(place, layout.cuts) for place, layout in zip(places, parts, strict=True)]


def _agree(tables: Sequence[MeasuredTable], targets: list[Float64], variances: list[Float64]) -> None:
    """Change the targets of earlier tables so that homes add up as in the last one.

    All tables hold the same jobs, so the totals of home areas that are unions of cells in every domain are
    the same in truth. A cell takes the part of a difference that its variance has in the total's, as the
    mean of independent normal counts whose sum is learned does.
    """
    every = [table.domains for table in tables]
    common = every[0].cuts[: every[0].offsets[1]]
    for domains in every:
        for d in range(domains.n_domains):
            common = common[np.isin(common, domains.cuts[domains.offsets[d] : domains.offsets[d + 1]])]
    wanted = np.zeros(common.size)
    _area_totals(targets[-1], *_areas(tables[-1], common), wanted)
    for table, target, variance in zip(tables[:-1], targets[:-1], variances[:-1], strict=True):
        places = _areas(table, common)
        spread = np.zeros(common.size)
        _area_totals(variance, *places, spread)
        for _ in range(5):
            total = np.zeros(common.size)
            _area_totals(target, *places, total)
            _move(target, variance, table.n, *places, (wanted - total) / np.maximum(spread, 1e-12))


def _areas(table: Table, common: Int32) -> tuple[Int64, Int64, Int64]:
    """Return where a table's groups and their domains begin, and the area of each cell of a domain."""
    area = np.searchsorted(common, table.domains.cuts, side="right") - 1
    return table.offsets, table.domains.offsets[table.domain], area.astype(np.int64)


def _ratio(target: Float64, now: Float64) -> Float64:
    return np.divide(target, now, out=np.zeros_like(now), where=now > 0)


def _target(
    table: MeasuredTable, noisy: Int64, expected: Float64, place: Int32, member: Int32
) -> tuple[Float64, Float64, float]:
    """Return posterior means and variances of a table's cells, and the concentration measured on it.

    Groups of one place and domain tell what to expect of each other: the others' posterior means are added
    to the expected shares, which are worth as many jobs as the concentration.
    """
    concentration = measured_concentration(noisy, table.offsets, expected, table.n, table.ratio)
    mean, variance = posterior(noisy, table.offsets, expected, table.n, concentration, table.ratio)
    kin = _kin(table, place, member)
    if kin is None:
        if _are_places(place, member):
            mean = least_loss(noisy, table.offsets, expected, table.n, concentration, table.ratio)
        return mean, variance, concentration
    profile = np.empty_like(mean)
    _profiles(mean, expected, table.offsets, table.n, kin, concentration, profile)
    concentration = measured_concentration(noisy, table.offsets, profile, table.n, table.ratio)
    mean, variance = posterior(noisy, table.offsets, profile, table.n, concentration, table.ratio)
    return mean, variance, concentration


def _kin(table: MeasuredTable, place: Int32, member: Int32) -> Int64 | None:
    """Return a number for each group that groups of one place and domain share, or None where none do."""
    low = np.full(table.n.size, np.iinfo(np.int64).max)
    high = np.full(table.n.size, -1, np.int64)
    np.minimum.at(low, member, place.astype(np.int64))
    np.maximum.at(high, member, place.astype(np.int64))
    if np.any(low != high):
        return None  # a group of several places
    key = low * table.domains.n_domains + table.domain
    kin: Int64 = np.unique(key, return_inverse=True)[1].astype(np.int64)
    return None if kin.max() + 1 == kin.size else kin


def _are_places(place: Int32, member: Int32) -> bool:
    """Say whether the groups of a table are the places: nobody then reads sums of groups."""
    pairs = np.unique(np.stack([place, member]), axis=1).shape[1]
    return bool(pairs == np.unique(place).size == np.unique(member).size)


@_compiled
def _expected_row(share, jobs, factors, start, which, cell, r, row):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(row.size):
        row[c] = share[c]
    for k in range(start.shape[0]):
        begin, own = start[k, r], cell[which[k, r]]
        for c in range(row.size):
            row[c] *= factors[begin + own[c]]
    for c in range(row.size):
        total += row[c]
    if total > 0.0:
        for c in range(row.size):
            row[c] *= jobs / total
    else:
        row[:] = jobs / row.size


@_compiled
def _expect(share, n, factors, start, which, cell, values):  # type: ignore[no-untyped-def]
    for r in range(n.size):
        _expected_row(share, n[r], factors, start, which, cell, r, values[r])


@_compiled
def _add_up(share, n, factors, start, which, cell, total):  # type: ignore[no-untyped-def]
    row = np.empty(share.size)
    for r in range(n.size):
        _expected_row(share, n[r], factors, start, which, cell, r, row)
        for k in range(start.shape[0]):
            begin, own = start[k, r], cell[which[k, r]]
            for c in range(row.size):
                total[begin + own[c]] += row[c]


@_compiled
def _area_totals(values, offsets, begin, area, total):  # type: ignore[no-untyped-def]
    for g in range(offsets.size - 1):
        for i in range(offsets[g + 1] - offsets[g]):
            total[area[begin[g] + i]] += values[offsets[g] + i]


@_compiled
def _move(target, variance, n, offsets, begin, area, missing):  # type: ignore[no-untyped-def]
    """Add to each count its variance times what its area misses, and bring groups back to their sizes."""
    for g in range(n.size):
        total = 0.0
        for i in range(offsets[g + 1] - offsets[g]):
            c = offsets[g] + i
            target[c] = max(target[c] + variance[c] * missing[area[begin[g] + i]], 0.01 * target[c])
            total += target[c]
        for c in range(offsets[g], offsets[g + 1]):
            target[c] *= n[g] / total


@_compiled
def _profiles(mean, expected, offsets, n, kin, concentration, profile):  # type: ignore[no-untyped-def]
    """Expect of each group what the others of its kin show, beside what was expected of it before."""
    families = kin.max() + 1
    first = np.full(families, -1, np.int64)
    size, width = np.zeros(families, np.int64), np.zeros(families, np.int64)
    for g in range(n.size):
        width[kin[g]] = offsets[g + 1] - offsets[g]
        size[kin[g]] += n[g]
    at = 0
    for f in range(families):
        first[f] = at
        at += width[f]
    total = np.zeros(at)
    for g in range(n.size):
        for i in range(offsets[g + 1] - offsets[g]):
            total[first[kin[g]] + i] += mean[offsets[g] + i]
    for g in range(n.size):
        f = kin[g]
        jobs = concentration + size[f] - n[g]
        for i in range(offsets[g + 1] - offsets[g]):
            c = offsets[g] + i
            others = max(0.0, total[first[f] + i] - mean[c])
            profile[c] = n[g] * (concentration * expected[c] / n[g] + others) / jobs
