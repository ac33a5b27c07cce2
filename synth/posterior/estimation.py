"""From noisy counts of measured tables to expected homes of every job group: deterministic, and free of cost.

What the public model expects in a cell, and what earlier tables made of it, is the prior of a table's
counts; their posterior means (`synth.posterior.counts`) are the table's targets. The expected jobs of a row
(a job group) in a cell are in factor form,

    n_row P(cell | place) prod_k f_k[group of the row, cell of the table] / normaliser of the row,

and iterative proportional fitting finds the factors with which every table has its targets. The first table,
which may have billions of cells, is read and written in runs of places; so the memory of a fit is the cells
of one run, those of the other tables, and the rows of all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import offsets_of
from synth.geometric.measured import JobGroups, Layout, MeasuredTable, layouts
from synth.geometric.projection import project
from synth.plan import Domains, Table
from synth.posterior.counts import (
    Deviations,
    bring_within_reach,
    expect_anywhere,
    least_loss,
    likeliest_deviations,
    log_rising,
    posterior,
    sampled_groups,
)
from synth.posterior.learning import learn_margins

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

Prior = Callable[[int, Int32], Float64]
"""Gives the share of a place's workers that live in each cell, for the first block of each cell.

No factor makes jobs of nothing: it is above 0 wherever counts may show somebody.
"""


class Cells(Protocol):
    """A number for each cell of a table, of which some are read or written: an array, or a file."""

    def __getitem__(self, cells: slice, /) -> NDArray[Any]:
        """Return some of them; changing these need not change what is kept."""

    def __setitem__(self, cells: slice, values: NDArray[Any], /) -> None:
        """Keep other values."""


NewCells = Callable[[str, int], Cells]
"""Makes room for a number for each of so many cells, given a name that no other has."""


class Learned(NamedTuple):
    """What noisy counts of the first table teach before they are believed cell by cell.

    Attributes
    ----------
    prior : Prior
        The public model with what it was taught.
    deviations : tuple of Deviations
        How far counts of the first table are from it and, where groups are kin, from what the others of their
        kin show; empty where the fit is to find that out from its own groups.
    margins : tuple of ndarray of int64
        Of each further table, as for `learn_margins`, which teaches what is expected of it; or of none.
    """

    prior: Prior
    deviations: tuple[Deviations, ...] = ()
    margins: tuple[Int64, ...] = ()


class Run(NamedTuple):
    """Places that are fitted while others are not in memory, and the groups of the first table in them."""

    places: slice
    groups: slice


_PARTS = 4  # of the places, which threads add up side by side
_MOST_SHARES = 2**22  # cells of places whose layouts and shares are kept, and not made anew each time
_FEW_CELLS = 2**17  # of a run, where places may be in any runs
_FEW_ROWS = 4096  # of which are added up before threads have begun
_ROUNDS = 12  # of fitting, at most
_NEAR = 2e-3  # part of the jobs that may be off their targets
_MOST_FACTOR = 2.0**64  # tables that contradict each other raise one without end: products must stay finite
_LEAST_SPREAD = 1e-12  # of the total of an area: less is nothing
_NEAR_REACH = 1e-2  # jobs that a cell may be out of reach of its noisy count, where several tables are fitted


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
    """

    tables: Sequence[Table]
    groups: JobGroups
    layouts: list[Layout]
    shares: list[Float64]
    _factors: Float64  # of the cells of all measured tables, one table after another
    _bounds: Int64  # where those of each table begin, and the last ones end

    def rows(self, position: int) -> Float64:
        """Return the expected jobs of the rows of a place in its cells, shape (n_rows, n_cells)."""
        layout, n = self.layouts[position], self.groups.n[self.groups.rows(position)]
        values = np.empty((n.size, layout.cuts.size))
        _expect(self.shares[position], n, self._factors, *self._places(layout), values)
        return values

    def first_factors(self, prior: Prior) -> Float64:
        """Return the factors of the first table with which cells have the shares of another prior."""
        factors = self._factors[: self._bounds[1]].copy()
        others = _shares(self.layouts, self.groups, prior)
        for layout, share, other in zip(self.layouts, self.shares, others, strict=True):
            _first_factors(share, other, layout.start[0], layout.which[0], layout.cell, factors)
        return factors

    def domains(self, n_blocks: int) -> Domains:
        """Return the cells of all places, domain after domain in the order of places."""
        cells = [layout.cuts for layout in self.layouts]
        return Domains.of_cells(n_blocks, cells, self.tables[0].domains.policy)

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

    def _places(self, layout: Layout) -> tuple[Int64, Int32, Int32]:
        measured = self._bounds.size - 1
        return layout.start[:measured] + self._bounds[:-1, np.newaxis], layout.which[:measured], layout.cell


def estimate(
    tables: Sequence[Table],
    noisy: Sequence[Cells],
    groups: JobGroups,
    prior: Prior | None,
    learned: Learned | None = None,
) -> Estimate:
    """Fit expected homes to the noisy counts of the measured tables and to the public size of every row.

    Lemma 21 of docs/privacy.md.

    Parameters
    ----------
    tables : sequence of Table
        First those that are measured, as for `fit_factors`; then tables that nobody measures, but rounding is
        to keep.
    noisy : sequence of Cells
        Noisy counts of each measured table, at its offsets.
    groups : JobGroups
        Of all tables.
    prior, learned
        As for `fit_factors`.

    Returns
    -------
    Estimate
    """
    measured = [table for table in tables if isinstance(table, MeasuredTable)]
    if len(noisy) != len(measured) or measured != list(tables[: len(measured)]) or not measured:
        raise ValueError("at least one measured table must come first, each with its noisy counts")
    factors = fit_factors(measured, noisy, groups.merged(len(measured)), prior, learned=learned)
    return restore(tables, [values[:] for values in factors], groups, prior)


def _in_memory(name: str, cells: int) -> Cells:
    return np.empty(cells)


def fit_factors(
    tables: Sequence[MeasuredTable],
    noisy: Sequence[Cells],
    groups: JobGroups,
    prior: Prior | None,
    runs: Sequence[Run] | None = None,
    new: NewCells = _in_memory,
    learned: Learned | None = None,
) -> list[Cells]:
    """Find the factors of an estimate, from which `restore` makes it.

    Each table in turn meets what the tables before it, and the prior, expect; where tables disagree, later
    ones have the last word, as their posteriors know the earlier ones.

    Parameters
    ----------
    tables : sequence of MeasuredTable
        The one with most cells first.
    noisy : sequence of Cells
        Noisy counts of each, at its offsets.
    groups : JobGroups
        Of these tables, and merged: no two rows of a place have the same groups.
    prior : Prior, optional
        Without it nothing is expected of any cell, and the targets of a table are the nearest counts that
        add up (`synth.geometric.projection.project`).
    runs : sequence of Run, optional
        All places, and all groups of the first table, in order. The same runs give the same bits. By default
        one run; or many small ones, where nothing is added up over places.
    new : NewCells
        Where the numbers of the first table are kept; by default in memory.
    learned : Learned, optional
        By default the prior is taught nothing.

    Returns
    -------
    list of Cells
        The factor of each cell of each table.
    """
    groups.check(tables)
    runs = runs or _few_at_a_time(tables, groups)
    fit = _Fit(tables, groups, prior, runs, new, learned)
    targets: list[Cells] = []
    variances: list[Cells] = []
    for k in range(len(tables)):
        fit.expect()
        target, variance = fit.target(k, noisy[k])
        targets.append(target)
        variances.append(variance)
        if k:
            fit.agree(noisy, targets, variances)
        fit.scale(k, target)
        for turn in range(k * _ROUNDS):
            fit.expect()
            if max(fit.off(j, targets[j]) for j in range(k + 1)) < _NEAR * float(groups.n.sum()):
                break
            j = turn % (k + 1)
            fit.scale(j, targets[j])
    if len(tables) > 1:
        for _ in range(_ROUNDS):
            fit.expect()
            if max(fit.bring_within_reach(k, values) for k, values in enumerate(noisy)) < _NEAR_REACH:
                break
    return fit.factors


def measure_deviations(
    table: MeasuredTable, noisy: Cells, groups: JobGroups, prior: Prior
) -> tuple[Deviations, ...]:
    """Return what `Learned` has of a table, of which these are some groups, all of their places.

    Parameters are those of `fit_factors`, but that there is one table.
    """
    whole = Run(slice(0, groups.n_places), slice(0, table.n.size))
    fit = _Fit([table], groups, prior, [whole], _in_memory, None)
    fit.expect()
    return fit.deviations(noisy)


def _few_at_a_time(tables: Sequence[MeasuredTable], groups: JobGroups) -> list[Run]:
    """Return runs whose numbers stay in the cache of a processor while they are worked on, if that can be.

    It can where there is one table, each of whose groups is in one place: any runs give the same bits.
    """
    whole = Run(slice(0, groups.n_places), slice(0, tables[0].n.size))
    if len(tables) > 1 or not np.array_equal(groups.member[0], np.arange(tables[0].n.size)):
        return [whole]
    first = groups.starts  # of each place; rows are groups
    cells = tables[0].offsets[first]
    ends = np.unique(
        np.append(np.searchsorted(cells, np.arange(_FEW_CELLS, cells[-1], _FEW_CELLS)), first.size - 1)
    )
    return [
        Run(slice(a, b), slice(int(first[a]), int(first[b])))
        for a, b in itertools.pairwise([0, *ends.tolist()])
    ]


@dataclass(frozen=True, eq=False)
class _Part:
    """Groups of a table that are in memory together, and where their cells are among all of the table."""

    groups: slice
    cells: slice
    table: MeasuredTable

    @classmethod
    def of(cls, table: MeasuredTable, groups: slice) -> _Part:
        begin, stop = table.offsets[[groups.start, groups.stop]].tolist()
        return cls(groups, slice(begin, stop), table.some(groups))


class _Fit:
    """Factors of the cells of measured tables, on their way to meet targets."""

    def __init__(
        self,
        tables: Sequence[MeasuredTable],
        groups: JobGroups,
        prior: Prior | None,
        runs: Sequence[Run],
        new: NewCells,
        learned: Learned | None,
    ) -> None:
        self._tables, self._groups, self._prior, self._runs, self._new = tables, groups, prior, runs, new
        self._measured = () if learned is None else learned.deviations
        self._margins = () if learned is None else learned.margins
        first, *others = tables
        self._parts = [
            [_Part.of(first, run.groups) for run in runs],
            *([_Part.of(table, slice(0, table.n.size))] for table in others),
        ]
        self._known: dict[int, tuple[list[Layout], list[Float64]]] = {}
        self._room = _MOST_SHARES
        self.factors = [self._made("factors", k) for k in range(len(tables))]
        self._expected = [self._made("expected", k) for k in range(len(tables))]
        for k, parts in enumerate(self._parts):
            for part in parts:
                self.factors[k][part.cells] = np.ones(part.cells.stop - part.cells.start)
        if learned is not None:
            for number, part in enumerate(self._parts[0]):
                self.factors[0][part.cells] = self._of_run(number).first_factors(learned.prior)

    def _made(self, name: str, k: int) -> Cells:
        """Make room for the cells of a table: only the first may be too large for memory."""
        cells = int(self._tables[k].offsets[-1])
        return np.empty(cells) if k else self._new(name, cells)

    def expect(self) -> None:
        """Add up the expected jobs of every cell."""
        totals = [np.zeros(int(table.offsets[-1])) for table in self._tables[1:]]
        for number, part in enumerate(self._parts[0]):
            margins, *others = self._of_run(number).margins()
            self._expected[0][part.cells] = margins
            for total, some in zip(totals, others, strict=True):
                total += some
        for kept, total in zip(self._expected[1:], totals, strict=True):
            kept[:] = total

    def _of_run(self, number: int) -> Estimate:
        run, part = self._runs[number], self._parts[0][number]
        tables = [part.table, *self._tables[1:]]
        groups = self._groups.some(run.places)
        groups.member[0] -= part.groups.start
        factors = [self.factors[0][part.cells], *(values[:] for values in self.factors[1:])]
        if number in self._known:
            parts, shares = self._known[number]
        else:
            parts = layouts(tables, groups)
            shares = _shares(parts, groups, self._prior)
            self._room -= sum(share.size for share in shares)
            if self._room >= 0:
                self._known[number] = parts, shares
        bounds = offsets_of(np.array([values.size for values in factors]))
        return Estimate(tables, groups, parts, shares, np.concatenate(factors), bounds)

    def target(self, k: int, noisy: Cells) -> tuple[Cells, Cells]:
        """Return what counts of a table's cells are likely to be, and their variances if there are several.

        Groups of one place and domain tell what to expect of each other: the others' posterior means are
        added to the expected shares.
        """
        table, expected = self._tables[k], self._expected[k]
        target, variance = self._made("target", k), self._made("variance", k)
        if self._prior is None:
            for part in self._parts[k]:
                mass, unit = project(noisy[part.cells], part.table.offsets, part.table.n)
                target[part.cells], variance[part.cells] = (
                    mass / np.repeat(unit, part.table.k),
                    np.ones(mass.size),
                )
            return target, variance
        if k and self._margins and len(self._margins[k - 1]) > 1:
            expected = learn_margins(table, noisy[:], expected[:], self._margins[k - 1])
        place, member = self._groups.place, self._groups.member[k]
        kin = _kin(table, place, member)
        measured = self._measured if k == 0 else ()
        if kin is not None:
            deviations = measured[0] if measured else self._deviations(k, noisy, expected)
            self._expect_of_kin(k, noisy, expected, kin, deviations, target)
            expected = target  # what is in it by now
        if measured:
            deviations = measured[0] if kin is None else measured[-1]
        else:
            deviations = self._deviations(k, noisy, expected)
        whole = kin is None and _are_places(place, member)  # nobody reads sums of groups
        for part in self._parts[k]:
            counts, size, own = (noisy[part.cells], part.table.offsets), part.table.n, part.table.variances
            prior = expect_anywhere(expected[part.cells], part.table.offsets, size)
            if not whole or len(self._tables) > 1:
                mean, spread = posterior(*counts, prior, size, deviations, table.law, own)
                variance[part.cells] = spread
            if whole:
                mean = least_loss(*counts, prior, size, deviations, table.law, own)
            if not np.isfinite(mean).all():  # every row that has such a cell would come out uniform
                raise ArithmeticError(
                    "posteriors of noisy counts are not finite, which is a fault of odsynth"
                )
            target[part.cells] = mean
        return target, variance

    def _expect_of_kin(
        self, k: int, noisy: Cells, expected: Cells, kin: Int64, deviations: Deviations, profile: Cells
    ) -> None:
        """Expect of each group what was expected of it and what the others of its kin show."""
        law = self._tables[k].law
        for part in self._parts[k]:
            offsets, size, of = part.table.offsets, part.table.n, kin[part.groups]
            prior = expect_anywhere(expected[part.cells], offsets, size)
            own = part.table.variances
            mean, _ = posterior(noisy[part.cells], offsets, prior, size, deviations, law, own)
            shown = np.empty_like(mean)
            _profiles(mean, prior, offsets, size, of - of.min(), deviations, shown)
            profile[part.cells] = shown

    def deviations(self, noisy: Cells) -> tuple[Deviations, ...]:
        """Return what `Learned` has of the first table, all of which counts."""
        looks = [self._deviations(0, noisy, self._expected[0])]
        kin = _kin(self._tables[0], self._groups.place, self._groups.member[0])
        if kin is not None:
            profile = self._made("profile", 0)
            self._expect_of_kin(0, noisy, self._expected[0], kin, looks[0], profile)
            looks.append(self._deviations(0, noisy, profile))
        return tuple(looks)

    def _deviations(self, k: int, noisy: Cells, expected: Cells) -> Deviations:
        """Return the deviations that a sample of the groups shows."""
        table = self._tables[k]
        sample = sampled_groups(table.n, int(table.offsets[-1]))
        sampled: list[tuple[Int64, Float64]] = []
        for part in self._parts[k]:
            inside = sample[(sample >= part.groups.start) & (sample < part.groups.stop)] - part.groups.start
            if inside.size:
                counts, means = noisy[part.cells], expected[part.cells]
                for group in inside.tolist():
                    cells = slice(*part.table.offsets[group : group + 2].tolist())
                    sampled.append((counts[cells].copy(), means[cells].copy()))
        some, prior = map(np.concatenate, zip(*sampled, strict=True))
        offsets, n = offsets_of(table.k[sample]), table.n[sample]
        prior = expect_anywhere(prior, offsets, n)
        return likeliest_deviations(some, offsets, prior, n, table.law, table.some(sample).variances)

    def agree(self, noisy: Sequence[Cells], targets: Sequence[Cells], variances: Sequence[Cells]) -> None:
        """Change the targets of tables so that homes add up alike in all.

        All tables hold the same jobs, so the totals of home areas that are unions of cells in every domain
        are the same in truth: about the mean, weighted by precision, of that of the last table and those of
        noisy counts of the others. (Not of their targets: what a model has wrong of all homes of an area,
        these have wrong alike, which their variances do not say.) A cell takes the part of a difference that
        its variance has in the total's, as the mean of independent normal counts whose sum is learned does.
        """
        last = len(targets) - 1
        all_domains = [table.domains for table in self._tables[: last + 1]]
        cuts, bounds = all_domains[0].cuts, all_domains[0].offsets.tolist()
        first = np.unique(all_domains[0].part, return_index=True)[1].tolist()
        common = np.concatenate([cuts[bounds[d] : bounds[d + 1]] for d in first])  # of each part
        for domains in all_domains:
            of = domains.policy.part(common)
            for d in range(domains.n_domains):
                cuts = domains.cuts[domains.offsets[d] : domains.offsets[d + 1]]
                kept = np.isin(common, cuts) | (of != domains.part[d])
                common, of = common[kept], of[kept]
        precision, total = np.zeros(common.size), np.zeros(common.size)
        for k, (target, variance) in enumerate(zip(targets, variances, strict=True)):
            if k == last:
                of_total = self._area_totals(k, variance, common)
                sums = self._area_totals(k, target, common)
            else:
                of_total = self._noise_of_areas(k, common)
                sums = self._area_totals(k, noisy[k], common)
            precision += 1 / np.maximum(of_total, _LEAST_SPREAD)
            total += sums / np.maximum(of_total, _LEAST_SPREAD)
        total /= precision
        for k, (target, variance) in enumerate(zip(targets, variances, strict=True)):
            spread = np.maximum(self._area_totals(k, variance, common), _LEAST_SPREAD)
            for _ in range(5):
                missing = (total - self._area_totals(k, target, common)) / spread
                for part in self._parts[k]:
                    moved = target[part.cells]
                    _move(moved, variance[part.cells], part.table.n, *_areas(part.table, common), missing)
                    target[part.cells] = moved

    def _noise_of_areas(self, k: int, common: Int32) -> Float64:
        """Return the variance of the noise of each area's total."""
        total = np.zeros(common.size)
        for part in self._parts[k]:
            offsets, begin, area = _areas(part.table, common)
            _area_totals(part.table.noise_variances, offsets, begin, area, total)
        return total

    def _area_totals(self, k: int, values: Cells, common: Int32) -> Float64:
        total = np.zeros(common.size)
        for part in self._parts[k]:
            _area_totals(values[part.cells], *_areas(part.table, common), total)
        return total

    def scale(self, k: int, target: Cells) -> None:
        """Change the factors of a table so that what is expected of it is its target."""
        for part in self._parts[k]:
            factors = self.factors[k][part.cells]
            _scale(factors, target[part.cells], self._expected[k][part.cells])
            self.factors[k][part.cells] = factors

    def bring_within_reach(self, k: int, noisy: Cells) -> float:
        """Change factors where expected counts are out of reach of noisy ones; return by how far."""
        table, worst = self._tables[k], 0.0
        for part in self._parts[k]:
            expected = self._expected[k][part.cells]
            target = expected.copy()
            off = bring_within_reach(target, noisy[part.cells], part.table.offsets, part.table.n, table.law)
            if off > 0:
                factors = self.factors[k][part.cells]
                _scale(factors, target, expected)
                self.factors[k][part.cells] = factors
            worst = max(worst, off)
        return worst

    def off(self, k: int, target: Cells) -> float:
        """Return by how many jobs what is expected differs from a target."""
        cells = (part.cells for part in self._parts[k])
        return sum(float(np.abs(self._expected[k][of_part] - target[of_part]).sum()) for of_part in cells)


def restore(
    tables: Sequence[Table], factors: Sequence[Float64], groups: JobGroups, prior: Prior | None
) -> Estimate:
    """Return an estimate from its factors (`fit_factors`), of all of its places or of some."""
    groups.check(tables)
    parts = layouts(tables, groups)
    bounds = offsets_of(np.array([values.size for values in factors]))
    return Estimate(tables, groups, parts, _shares(parts, groups, prior), np.concatenate(factors), bounds)


def _shares(parts: Sequence[Layout], groups: JobGroups, prior: Prior | None) -> list[Float64]:
    if prior is None:
        return [np.ones(layout.cuts.size) for layout in parts]
    places = groups.place[groups.starts[:-1]].tolist()
    return [prior(place, layout.cuts) for place, layout in zip(places, parts, strict=True)]


def _areas(table: Table, common: Int32) -> tuple[Int64, Int64, Int64]:
    """Return where a table's groups and their domains begin, and the area of each cell of a domain."""
    area = np.searchsorted(common, table.domains.cuts, side="right") - 1
    return table.offsets, table.domains.offsets[table.domain], area.astype(np.int64)


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
        begin, cells = start[k, r], cell[which[k, r]]
        for c in range(row.size):
            row[c] *= factors[begin + cells[c]]
    for c in range(row.size):
        total += row[c]
    if total > 0.0:
        for c in range(row.size):
            row[c] *= jobs / total
    else:  # factors of several tables leave nobody anywhere
        for c in range(row.size):
            total += share[c]
        for c in range(row.size):
            row[c] = share[c] * jobs / total


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
            begin, cells = start[k, r], cell[which[k, r]]
            for c in range(row.size):
                total[begin + cells[c]] += row[c]


@_compiled
def _first_factors(share, other, start, which, cell, factors):  # type: ignore[no-untyped-def]
    total, of_other = np.empty(share.size), np.empty(share.size)
    for r in range(start.size):
        cells, begin = cell[which[r]], start[r]
        total[:] = 0.0
        of_other[:] = 0.0
        for c in range(share.size):
            total[cells[c]] += share[c]
            of_other[cells[c]] += other[c]
        for c in range(cells[-1] + 1):
            factors[begin + c] = of_other[c] / total[c] if total[c] > 0.0 else 0.0


@_compiled
def _scale(factors, target, now):  # type: ignore[no-untyped-def]
    for c in range(factors.size):
        factors[c] *= target[c] / now[c] if now[c] > 0.0 else 0.0
        factors[c] = min(factors[c], _MOST_FACTOR)


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
def _profiles(mean, expected, offsets, n, kin, deviations, profile):  # type: ignore[no-untyped-def]
    """Expect of each group what the others of its kin show, beside what was expected of it before.

    That is worth as many jobs as the one concentration in a cell that is near to it, and as the other in a
    cell that is far; which of the two a cell is, the jobs of the others tell.
    """
    families = kin.max() + 1
    first = np.full(families, -1, np.int64)
    size, width = np.zeros(families, np.int64), np.zeros(families, np.int64)
    for g in range(n.size):
        width[kin[g]] = offsets[g + 1] - offsets[g]
        size[kin[g]] += n[g]
    width_so_far = 0
    for f in range(families):
        first[f] = width_so_far
        width_so_far += width[f]
    total = np.zeros(width_so_far)
    for g in range(n.size):
        begin, of = offsets[g], first[kin[g]]
        for i in range(offsets[g + 1] - begin):
            total[of + i] += mean[begin + i]
    near, far, share = deviations.near, deviations.far, deviations.share
    for g in range(n.size):
        begin, of, jobs, whole = offsets[g], first[kin[g]], size[kin[g]] - n[g], 0.0
        if jobs == 0:
            profile[begin : offsets[g + 1]] = expected[begin : offsets[g + 1]]
            continue
        log_none = far * math.log(far / (far + jobs)) - near * math.log(near / (near + jobs))
        log_ratio = math.log((near + jobs) / (far + jobs))
        for i in range(offsets[g + 1] - begin):
            part = expected[begin + i] / n[g]
            others = max(0.0, total[of + i] - mean[begin + i])
            count = int(others + 0.5)  # mostly 0, of which no factorial is needed
            odds = part * log_none + count * log_ratio
            if count > 0:
                odds += log_rising(far * part, count) - log_rising(near * part, count)
            chance = share / (share + (1.0 - share) * math.exp(min(-odds, 700.0)))
            rate = (1.0 - chance) * (near * part + others) / (near + jobs)
            profile[begin + i] = rate + chance * (far * part + others) / (far + jobs)
            whole += profile[begin + i]
        for i in range(offsets[g + 1] - begin):
            profile[begin + i] *= n[g] / whole
