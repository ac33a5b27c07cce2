"""Controlled rounding: whole jobs from an estimate, so that tables stay within one.

Of a place's expected jobs, rows by cells, every row keeps its public size, and each of these goes to the
whole number below or above it (`synth.posterior.flows.round_flow`):

- the place's total in every cell, and in every area of cells that a table does not divide;
- the total of every part of the rows (`JobGroups.steps`) in every cell;
- the jobs of every row in every cell and every such area.

Where rows are many and some of them have the same expected shares, these are one row, and its whole jobs are
divided among them afterwards (`synth.posterior.flows.divide`).

A release has the likelier of the two wherever the others allow: one job in a cell that expects 0.9, and none
where 0.1 are expected, by which its tables lose less than by lots that keep expectations. So that units of
homes do not lose jobs that way, which all places expect a few of, what places before gave a unit too little
or too much of counts for later ones. Of several implicates each is rounded by lots.

Tables that do not fit in (attributes by home, over all work areas) are steered: parts are rounded first,
then each shares out its whole jobs among its rows (`synth.posterior.flows.share_out`), and what earlier
parts gave a cell of such a table too little or too much of makes it more or less likely in later ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.arrays import offsets_of
from synth.geometric.projection import shuffled
from synth.posterior.estimation import Estimate
from synth.posterior.flows import divide, expect_shares, round_flow, share_out
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_MOST_OFF = 1.01  # jobs: one, and what sums of floats and of parts of a job may be off
# What a job that a unit lacks counts, beside the part of one by which a cell is nearer to a whole number.
# With 0, 0.3 and 1 Rhode Island at epsilon 4.6 loses .0134, .0126 and .0126 of residents by tract and
# earnings, and .0594, .0595 and .0599 of flows between tracts.
_STEER_UNITS = 0.3
_STEER = 2.0  # how strongly: what lacks one job, and expects few, is e^2 times as likely


class Rounding:
    """Rounds an estimate place by place, remembering what crossing tables still lack.

    Lemma 21 of docs/privacy.md.

    Parameters
    ----------
    estimate : Estimate
    units : ndarray of int64, optional
        First block of each unit of homes: the likelier whole numbers are taken, and what units lack is
        remembered. By default expectations are kept, by lot.
    """

    def __init__(self, estimate: Estimate, units: Int64 | None = None) -> None:
        self._estimate, self._units = estimate, units
        self._of_units = np.zeros(0 if units is None else units.size)
        groups = estimate.groups
        nodes = [groups.place, *groups.steps, np.arange(groups.n.size, dtype=np.int32)]
        self._steered = [k for k, member in enumerate(groups.member) if not _is_one(member, nodes)]
        cells = [estimate.tables[k].offsets[-1] for k in self._steered]
        self._bounds = offsets_of(np.array(cells, np.int64))
        self._lacking = np.zeros(int(self._bounds[-1]))
        self._load = np.zeros_like(self._lacking)

    def place(self, position: int, stream: WordStream) -> Int64:
        """Return the whole jobs of the rows of a place in its cells, shape (n_rows, n_cells)."""
        expected, n, steps, areas = self._expected(position)
        first = _finest(steps) if self._steered else np.arange(n.size)
        sums, sizes = np.add.reduceat(expected, first, axis=0), np.add.reduceat(n, first)
        steps = [step[first] for step in (steps[:-1] if self._steered else steps)]
        unit = self._unit_of(position)
        lacking = None if unit is None else _STEER_UNITS * self._of_units[unit]
        counts = round_flow(sums, sizes, steps, areas, stream, lacking)
        if unit is not None:
            np.add.at(self._of_units, unit, (sums - counts).sum(axis=0))
        if not self._steered:
            return counts
        return self._shared_out(position, counts, np.append(first, n.size), expected, stream)

    def _unit_of(self, position: int) -> Int64 | None:
        """Return the unit that each cell of a place begins in, where units are steered."""
        if self._units is None:
            return None
        return np.searchsorted(self._units, self._estimate.layouts[position].cuts, side="right") - 1

    def _expected(self, position: int) -> tuple[Float64, Int64, list[Int64], list[Int64]]:
        """Return expected jobs of a place, sizes of its rows, its nested parts, and areas of its cells."""
        groups, rows = self._estimate.groups, self._estimate.groups.rows(position)
        steps = [_numbered(step[rows]) for step in groups.steps]
        areas = self._estimate.layouts[position].areas()
        return self._estimate.rows(position), groups.n[rows], steps, areas

    def homes(
        self,
        position: int,
        stream: WordStream,
        parts: Sequence[Int64] | None = None,
        areas: Sequence[Int64] = (),
    ) -> Int32:
        """Return the home cell of every job of a place, row after row, in random order inside each.

        Cells are numbers in the domain of the place in `synth.posterior.estimation.Estimate.domains`. Where
        rows have `parts` that nothing tells apart, such as work blocks, their jobs by row, whole jobs are
        divided among these, in nested `areas` of the cells, too, coarse ones first, shape (n_cells,) each
        (`synth.posterior.flows.divide`); then the order is random inside each part.
        """
        counts = self.place(position, stream)
        if parts is None:
            n = self._estimate.groups.n[self._estimate.groups.rows(position)]
            return _in_random_order(counts, n, stream)
        homes = []
        for row, sizes in zip(counts, parts, strict=True):
            cells = np.flatnonzero(row).astype(np.int32)
            within = [_numbered(area[cells]) for area in areas]
            homes.append(cells[_in_random_order(divide(row[cells], sizes, within, stream), sizes, stream)])
        return np.concatenate(homes)

    def allows(
        self,
        position: int,
        homes: Int32,
        parts: Sequence[Int64] | None = None,
        areas: Sequence[Int64] = (),
        *,
        by_slot: bool = True,
    ) -> bool:
        """Say whether `homes` could have returned these.

        That is, whether every sum that is kept is the whole number below or above what is expected, and every
        row has what it can have been given of its part. Of rows that share out whole jobs which they cannot
        share so, only the sums are looked at; of all rows, if it is not known which row each home is of, but
        only which part of the place (`JobGroups.steps`): not `by_slot`.
        """
        expected, n, steps, cell_areas = self._expected(position)
        row = np.repeat(np.arange(n.size), n)
        counts = _counted(row, homes, expected.shape)
        off = counts - expected
        if by_slot and not self._steered:
            fits = _are_near(off, steps, cell_areas)
        else:
            first = _finest(steps)
            coarse = [step[first] for step in steps[:-1]]
            fits = _are_near(
                np.add.reduceat(off, first, axis=0), coarse, cell_areas, rows=self._steered != []
            )
            if by_slot and fits:
                fits = _shares_fit(counts, n, np.append(first, n.size), expected)
        if parts is None or not (by_slot and fits):
            return fits
        for sizes, inside in zip(parts, np.split(homes, np.cumsum(n)[:-1]), strict=True):
            cells, which = np.unique(inside, return_inverse=True)
            counts_of_parts = _counted(
                np.repeat(np.arange(sizes.size), sizes), which, (sizes.size, cells.size)
            )
            due = np.outer(sizes / sizes.sum(), counts_of_parts.sum(axis=0))
            if not _are_near(counts_of_parts - due, (), [_numbered(area[cells]) for area in areas]):
                return False
        return True

    def _shared_out(
        self, position: int, counts: Int64, first: Int64, expected: Float64, stream: WordStream
    ) -> Int64:
        """Share out the counts of each part among its rows, remembering after each what tables lack."""
        groups, layout = self._estimate.groups, self._estimate.layouts[position]
        n = groups.n[groups.rows(position)]
        start = layout.start[self._steered] + self._bounds[:-1, np.newaxis]
        which = layout.which[self._steered]
        result = np.zeros(expected.shape, np.int64)
        for part, (begin, stop) in enumerate(zip(first[:-1].tolist(), first[1:].tolist(), strict=True)):
            rows, cells = slice(begin, stop), np.flatnonzero(counts[part])
            layout_of_rows = start[:, rows], which[:, rows], layout.cell
            part_counts = counts[part, cells]
            if stop - begin > 1:
                pull = _pull(self._lacking, self._load, *layout_of_rows, expected[rows], cells)
                result[begin:stop, cells] = share_out(
                    part_counts, n[rows], expected[begin:stop, cells], _STEER * pull, stream
                )
            else:
                result[begin, cells] = part_counts
            _remember(self._lacking, *layout_of_rows, expected[rows], result[rows])
        return result


def _shares_fit(counts: Int64, n: Int64, first: Int64, expected: Float64) -> bool:
    """Say whether rows are near to what is expected of them in every part in which they can be."""
    far = np.abs(counts - expected).max(axis=1) > _MOST_OFF
    for begin, stop in zip(first[:-1].tolist(), first[1:].tolist(), strict=True):
        if stop - begin > 1 and far[begin:stop].any():
            rows, whole = slice(begin, stop), counts[begin:stop].sum(axis=0)
            cells = np.flatnonzero(whole)
            some = expected[rows, cells]
            if _are_near(expect_shares(whole[cells], n[rows], some, np.zeros_like(some)) - some, (), ()):
                return False
    return True


def _is_one(member: Int32, nodes: Sequence[Int32]) -> bool:
    """Say whether the groups of a table are the parts of one of the divisions, which are runs of rows."""
    groups = np.unique(member).size
    for node in nodes:
        new = np.diff(node) != 0
        # As many runs as groups, and no group in two runs: then each run has a group of its own.
        if groups == np.count_nonzero(new) + 1 and not np.any((np.diff(member) != 0) & ~new):
            return True
    return False


def _in_random_order(counts: Int64, n: Int64, stream: WordStream) -> Int32:
    """Return the cell of every job, row after row."""
    return shuffled(counts.ravel(), np.arange(n.size + 1) * counts.shape[1], n, stream)


def _counted(row: Int64, cell: NDArray[np.integer], shape: tuple[int, int]) -> Int64:
    """Count jobs by row and cell."""
    return np.bincount(row * shape[1] + cell, minlength=shape[0] * shape[1]).reshape(shape)


def _heads(part: Int64) -> Int64:
    """Return the first row of each part, or the first cell of each area."""
    return np.flatnonzero(np.diff(part, prepend=-1))


def _finest(steps: Sequence[Int64]) -> Int64:
    """Return the first row of each part of the finest step; a place without steps is one part."""
    return _heads(steps[-1]) if steps else np.zeros(1, np.int64)


def _are_near(
    off: NDArray[np.number], steps: Sequence[Int64], areas: Sequence[Int64], *, rows: bool = True
) -> bool:
    """Say whether no sum that `round_flow` keeps is off by more than a job; of `rows` in areas, if asked."""
    total = off.sum(axis=0, keepdims=True)
    sums = [total, off, *(np.add.reduceat(off, _heads(step), axis=0) for step in steps)]
    for area in areas:
        sums += [
            np.add.reduceat(values, _heads(area), axis=1) for values in ((total, off) if rows else (total,))
        ]
    return all(np.abs(values).max(initial=0) <= _MOST_OFF for values in sums)


def _numbered(values: Int32 | Int64) -> Int64:
    return np.cumsum(np.append(0, np.diff(values) > 0))


@_compiled
def _pull(lacking, load, start, which, cell, expected, columns):  # type: ignore[no-untyped-def]
    """Return what tables lack over what some rows may give of it, shape (n_rows, n_columns)."""
    result = np.zeros((start.shape[1], columns.size))
    for k in range(start.shape[0]):
        for r in range(start.shape[1]):
            cells = cell[which[k, r]]
            for c in columns:
                load[start[k, r] + cells[c]] += expected[r, c]
        for r in range(start.shape[1]):
            cells = cell[which[k, r]]
            for i in range(columns.size):
                i_cell = start[k, r] + cells[columns[i]]
                result[r, i] += min(2.0, max(-2.0, lacking[i_cell] / (1.0 + load[i_cell])))
        for r in range(start.shape[1]):
            cells = cell[which[k, r]]
            for c in columns:
                load[start[k, r] + cells[c]] = 0.0
    return result


@_compiled
def _remember(lacking, start, which, cell, expected, counts):  # type: ignore[no-untyped-def]
    """Add what was expected of some rows, and take off what they were given."""
    for k in range(start.shape[0]):
        for r in range(start.shape[1]):
            cells = cell[which[k, r]]
            for c in range(cells.size):
                lacking[start[k, r] + cells[c]] += expected[r, c] - counts[r, c]
