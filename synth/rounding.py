"""Controlled rounding: whole jobs from an estimate, so that tables stay within one and expectations are kept.

Counts are rounded from the top down. The total of every cell of a place is rounded first, by systematic sampling
(`synth.projection.round_counts`), so that every run of cells is within one of its expectation. Then the rows
of the place share out these whole counts: by the parts of each step, and at last row by row. Each such division is
a matrix with given row and column sums; what it expects is fitted to both sums and then rounded so that both
are kept exactly and every entry goes to the whole number below or above it, with the right expectation.

That is done by cancelling cycles: of entries that are not whole, some form a cycle through rows and columns;
adding and subtracting by turns along it keeps all sums, and one of the two directions is drawn so that expectations are kept,
until an entry is whole. Entries that are not whole and have no cycle form a forest, and as its leaves
would have to be whole, in the end there are none.

Tables that cross these steps (attributes by home, over all work areas) are steered: what earlier divisions gave
a cell too little or too much of makes later ones more or less likely, by a factor that is the same in all rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth.estimation import Estimate
from synth.projection import offsets_of, round_counts
from synth.randomness import WordStream

__all__ = ["Rounding", "share_out"]

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_UNIT = 2**24  # parts of a job in which expectations are held
_STEER = 2.0  # how strongly: a cell that is one job short is e^2 times as likely
_FITS = 60  # rounds of fitting a matrix to its sums, at most


class Rounding:
    """Rounds an estimate place by place, remembering what crossing tables still lack.

    Parameters
    ----------
    estimate : Estimate
    """

    def __init__(self, estimate: Estimate) -> None:
        self._estimate = estimate
        groups = estimate.groups
        nodes = [groups.place, *groups.steps, np.arange(groups.n.size)]
        self._steered = [k for k, member in enumerate(groups.member) if not _is_one(member, nodes)]
        cells = [estimate.tables[k].offsets[-1] for k in self._steered]
        self._bounds = offsets_of(np.array(cells, np.int64))
        self._lacking = np.zeros(int(self._bounds[-1]))
        self._load = np.zeros_like(self._lacking)

    def place(self, position: int, stream: WordStream) -> Int64:
        """Return the whole jobs of the rows of a place in its cells.

        Parameters
        ----------
        position : int
            Of the place; places that are rounded by the same object know of each other.
        stream : WordStream

        Returns
        -------
        ndarray of int64, shape (n_rows, n_cells)
            Each row adds up to its jobs.
        """
        groups, own = self._estimate.groups, self._estimate.groups.rows(position)
        expected = self._estimate.rows(position)
        n, ends = groups.n[own], self._estimate.layouts[position].ends()
        counts = _totals(expected.sum(axis=0), int(n.sum()), ends, stream)[np.newaxis]
        part = np.zeros(n.size, np.int64)
        for step in groups.steps:
            finer = _numbered(step[own])
            first = np.flatnonzero(np.append(True, np.diff(finer) > 0))
            if first.size > counts.shape[0]:
                parts = np.add.reduceat(expected, first, axis=0)
                counts = share_out(counts, part[first], np.add.reduceat(n, first), parts, ends, stream)
                part = finer
        if self._steered:
            return self._one_by_one(position, counts, part, expected, stream)
        return share_out(counts, part, n, expected, ends, stream)

    def _one_by_one(
        self, position: int, counts: Int64, part: Int64, expected: Float64, stream: WordStream
    ) -> Int64:
        """Share out the counts of each part among its rows, remembering after each what tables lack."""
        estimate = self._estimate
        layout, n = estimate.layouts[position], estimate.groups.n[estimate.groups.rows(position)]
        first = np.append(np.flatnonzero(np.append(True, np.diff(part) > 0)), n.size)
        result = np.zeros(expected.shape, np.int64)
        ends = layout.ends()
        for parent, (begin, stop) in enumerate(zip(first[:-1].tolist(), first[1:].tolist(), strict=True)):
            rows = slice(begin, stop)
            columns = np.flatnonzero(counts[parent])
            at = self._starts(position, rows)
            if stop - begin > 1:
                which = layout.which[self._steered, rows]
                pull = _pull(self._lacking, self._load, at, which, layout.cell, expected[rows], columns)
                own = [np.unique(np.searchsorted(columns, level)) for level in ends]
                result[begin:stop, columns] = share_out(
                    counts[parent : parent + 1, columns],
                    np.zeros(stop - begin, np.int64),
                    n[rows],
                    expected[begin:stop, columns],
                    own,
                    stream,
                    _STEER * pull,
                )
            else:
                result[begin] = counts[parent]
            _remember(
                self._lacking, at, layout.which[self._steered, rows], layout.cell, expected[rows], result[rows]
            )
        return result

    def _starts(self, position: int, rows: slice) -> Int64:
        """Return where what steered tables lack begins for some rows of a place, (n_steered, n_rows)."""
        start = self._estimate.layouts[position].start[self._steered, rows]
        return start + self._bounds[:-1, np.newaxis]


def share_out(
    counts: Int64,
    parent: Int64,
    n: Int64,
    expected: Float64,
    ends: Sequence[Int64],
    stream: WordStream,
    pull: Float64 | None = None,
) -> Int64:
    """Divide whole counts among rows of given sizes.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_parents, n_cells)
        What the rows of each parent have together.
    parent : ndarray of int64, shape (n_rows,)
        Rising from 0; every parent has a row.
    n : ndarray of int64, shape (n_rows,)
        Jobs of each row; those of a parent's rows add up to its counts.
    expected : ndarray of float64, shape (n_rows, n_cells)
        Not negative. Of each entry the whole part is kept, and the odds of one more are changed by factors of rows
        and columns until both sums are right; where that cannot be, the entries themselves are.
    ends : sequence of ndarray of int64
        Nested divisions of the cells (`Layout.ends`). A row's count is rounded in the parts of the first one, then
        each part is divided by those of the next.
    stream : WordStream
    pull : ndarray of float64, shape (n_rows, n_cells), optional
        Logarithms of further factors of these odds.

    Returns
    -------
    ndarray of int64, shape (n_rows, n_cells)
        Rows add up to `n`, and those of a parent to its counts; each entry is the whole number below or above the
        fitted one, which is its expectation.
    """
    first = np.append(np.flatnonzero(np.append(True, np.diff(parent) > 0)), n.size).astype(np.int64)
    sizes, within = n[:, np.newaxis], np.array([0, counts.shape[1]])
    for i, own in enumerate(ends):
        if i == len(ends) - 1:
            columns, parts, odds = counts, expected, pull
        else:
            columns, parts = (np.add.reduceat(values, own[:-1], axis=1) for values in (counts, expected))
            odds = None if pull is None else pull[:, own[:-1]]
        factors = np.ones((1, 1)) if odds is None else np.exp(odds)
        sizes = _shared_out(columns, first, sizes, parts, factors, np.searchsorted(own, within), stream)
        within = own
    return sizes


def _shared_out(
    counts: Int64,
    first: Int64,
    n: Int64,
    expected: Float64,
    factors: Float64,
    ends: Int64,
    stream: WordStream,
) -> Int64:
    """Divide counts among rows whose sums over each run of columns are given, shape (n_rows, n_runs)."""
    result = np.zeros(expected.shape, np.int64)
    words = np.zeros(0, np.int64)
    done, position, size = 0, 0, 64
    problems = counts.shape[0] * (ends.size - 1)
    while True:
        more = stream.words(size).view(np.int64) & np.int64(2**62 - 1)
        words = np.concatenate([words[position:], more])
        done, position = _share_out(
            counts, first, n, expected, factors, ends, words, result, done
        )
        if done == problems:
            return result
        size = min(4 * size, 2**18)


def _totals(expected: Float64, n: int, ends: Sequence[Int64], stream: WordStream) -> Int64:
    """Round the totals of a place's cells, parts of the first division first."""
    sums, within = np.array([n]), np.array([0, expected.size])
    for own in ends:
        parts = np.add.reduceat(expected, own[:-1])
        sums = _rounded(parts, np.searchsorted(own, within), sums, stream)
        within = own
    return sums


def _rounded(expected: Float64, ends: Int64, sums: Int64, stream: WordStream) -> Int64:
    """Round the cells of every run, brought to its whole sum, by systematic sampling."""
    chosen = np.repeat(sums > 0, np.diff(ends))
    n, offsets = sums[sums > 0], offsets_of(np.diff(ends)[sums > 0])
    mass = _totals_in_units(expected[chosen], offsets, n)
    result = np.zeros(expected.size, np.int64)
    result[chosen] = round_counts(mass, offsets, np.full(n.size, _UNIT), n, n, stream)
    return result


def _is_one(member: Int32, nodes: Sequence[NDArray[np.integer]]) -> bool:
    """Say whether the groups of a table are the parts of one of the divisions."""
    groups = np.unique(member).size
    for node in nodes:
        pairs = np.unique(np.stack([member, node]), axis=1).shape[1]
        if pairs == groups == np.unique(node).size:
            return True
    return False


def _numbered(values: NDArray[np.integer]) -> Int64:
    return np.cumsum(np.append(0, np.diff(values) > 0))


@_compiled
def _pull(lacking, load, start, which, cell, expected, columns):  # type: ignore[no-untyped-def]
    """Return what tables lack in some cells of some rows over what these rows may give, (n_rows, n_columns)."""
    result = np.zeros((start.shape[1], columns.size))
    for k in range(start.shape[0]):
        for r in range(start.shape[1]):
            own = cell[which[k, r]]
            for c in columns:
                load[start[k, r] + own[c]] += expected[r, c]
        for r in range(start.shape[1]):
            own = cell[which[k, r]]
            for i in range(columns.size):
                at = start[k, r] + own[columns[i]]
                result[r, i] += min(2.0, max(-2.0, lacking[at] / (1.0 + load[at])))
        for r in range(start.shape[1]):
            own = cell[which[k, r]]
            for c in columns:
                load[start[k, r] + own[c]] = 0.0
    return result


@_compiled
def _remember(lacking, start, which, cell, expected, counts):  # type: ignore[no-untyped-def]
    """Add what was expected of some rows, and take off what they were given."""
    for k in range(start.shape[0]):
        for r in range(start.shape[1]):
            own = cell[which[k, r]]
            for c in range(own.size):
                lacking[start[k, r] + own[c]] += expected[r, c] - counts[r, c]


@_compiled
def _share_out(counts, first, n, expected, factors, ends, words, result, done):  # type: ignore[no-untyped-def]
    """Go on from problem `done` until words run out; return the problems done and the words used for them."""
    used = 0
    columns = np.empty(counts.shape[1], np.int64)
    members = np.empty(n.shape[0], np.int64)
    runs = ends.size - 1
    for problem in range(done, counts.shape[0] * runs):
        parent, run = problem // runs, problem % runs
        rows, width = 0, 0
        for r in range(first[parent], first[parent + 1]):
            if n[r, run] > 0:
                members[rows] = r
                rows += 1
        for c in range(ends[run], ends[run + 1]):
            if counts[parent, c] > 0:
                columns[width] = c
                width += 1
        if rows <= 1 or width <= 1:
            for q in range(rows):
                for i in range(width):
                    result[members[q], columns[i]] = counts[parent, columns[i]] if rows == 1 else n[members[q], run]
            continue
        sums, across = np.empty(width, np.int64), np.empty(rows, np.int64)
        values, odds = np.empty((rows, width)), np.empty((rows, width))
        for q in range(rows):
            across[q] = n[members[q], run]
        for i in range(width):
            sums[i] = counts[parent, columns[i]]
            for q in range(rows):
                # So small that it decides only where all other entries are 0.
                values[q, i] = expected[members[q], columns[i]] + 1e-30 * across[q]
                odds[q, i] = _odds(values[q, i])
                if factors.size > 1:
                    odds[q, i] *= factors[members[q], columns[i]]
        _fit(values, odds, across, sums)
        mass = _whole_parts(values, across, sums)
        position = _round(mass, words, used)
        if position < 0:
            return problem, used
        used = position
        for q in range(rows):
            for i in range(width):
                result[members[q], columns[i]] = mass[q, i] // _UNIT
    return counts.shape[0] * runs, used


@_compiled
def _odds(value):  # type: ignore[no-untyped-def]
    """Return the odds that a value is rounded up."""
    part = value - math.floor(value)
    return part / (1.0 - part)


@_compiled
def _nearer(odds, scale, wanted):  # type: ignore[no-untyped-def]
    """Return a factor for odds, by a step of Newton from `scale`, that brings their chances nearer to a sum."""
    total, spread, some = 0.0, 0.0, 0
    for value in odds:
        chance = value * scale / (1.0 + value * scale)
        total += chance
        spread += chance * (1.0 - chance)
        some += value > 0.0
    if wanted <= 0.0:
        return 0.0
    if wanted >= some:
        return 1e30
    return scale * math.exp(min(3.0, max(-3.0, (wanted - total) / max(spread, 1e-12))))


@_compiled
def _totals_in_units(expected, offsets, n):  # type: ignore[no-untyped-def]
    """Bring runs of values to whole sums, by the odds of their parts, and return them in parts of a job."""
    mass = np.empty(expected.size, np.int64)
    for run in range(n.size):
        first, stop = offsets[run], offsets[run + 1]
        values = expected[first:stop].copy()
        odds = np.empty(values.size)
        whole = 0.0
        for i in range(values.size):
            odds[i] = _odds(values[i])
            whole += math.floor(values[i])
        if 0.0 <= n[run] - whole <= (odds > 0.0).sum():
            scale = 1.0
            for _ in range(_FITS):
                scale = _nearer(odds, scale, n[run] - whole)
            for i in range(values.size):
                values[i] = math.floor(values[i]) + odds[i] * scale / (1.0 + odds[i] * scale)
        running, before = 0.0, 0
        total = values.sum() if values.sum() > 0.0 else 1.0
        for i in range(values.size):
            running += values[i]
            upto = min(int(running / total * (n[run] * _UNIT)), n[run] * _UNIT)
            if i == values.size - 1:
                upto = n[run] * _UNIT
            mass[first + i] = upto - before
            before = upto
    return mass


@_compiled
def _fit(values, odds, n, sums):  # type: ignore[no-untyped-def]
    """Bring values to the sums of rows and columns, by the odds of their parts if that can be."""
    rows, width = values.shape
    short, over = n.astype(np.float64), sums.astype(np.float64)
    some, most = np.zeros(rows), np.zeros(width)
    for r in range(rows):
        for i in range(width):
            whole = math.floor(values[r, i])
            short[r] -= whole
            over[i] -= whole
            some[r] += odds[r, i] > 0.0
            most[i] += odds[r, i] > 0.0
    if short.min() < 0.0 or over.min() < 0.0 or (some - short).min() < 0.0 or (most - over).min() < 0.0:
        _scale(values, n, sums)
        return
    down = np.ones(width)
    across = np.ones(rows)
    line, column = np.empty(width), np.empty(rows)
    for _ in range(_FITS):
        for r in range(rows):
            for i in range(width):
                line[i] = odds[r, i] * down[i]
            across[r] = _nearer(line, across[r], short[r])
        off = 0.0
        for i in range(width):
            total = 0.0
            for r in range(rows):
                column[r] = odds[r, i] * across[r]
                total += column[r] * down[i] / (1.0 + column[r] * down[i])
            off = max(off, abs(total - over[i]))
            down[i] = _nearer(column, down[i], over[i])
        if off < 1e-5:
            break
    for r in range(rows):
        for i in range(width):
            value = odds[r, i] * across[r] * down[i]
            values[r, i] = math.floor(values[r, i]) + value / (1.0 + value)


@_compiled
def _scale(values, n, sums):  # type: ignore[no-untyped-def]
    """Scale rows and columns by turns until both have their sums."""
    rows, width = values.shape
    for _ in range(_FITS):
        for r in range(rows):
            total = 0.0
            for i in range(width):
                total += values[r, i]
            for i in range(width):
                values[r, i] *= n[r] / total
        off = 0.0
        for i in range(width):
            total = 0.0
            for r in range(rows):
                total += values[r, i]
            off = max(off, abs(total - sums[i]))
            for r in range(rows):
                values[r, i] *= sums[i] / total
        if off < 1e-5:
            break


@_compiled
def _whole_parts(values, n, sums):  # type: ignore[no-untyped-def]
    """Return the values in whole parts of a job, with both sums exact."""
    rows, width = values.shape
    mass = np.empty((rows, width), np.int64)
    left = np.empty(rows, np.int64)
    for r in range(rows):
        total = 0.0
        for i in range(width):
            total += values[r, i]
        factor = min(1.0, n[r] / total) * _UNIT
        left[r] = n[r] * _UNIT
        for i in range(width):
            mass[r, i] = int(values[r, i] * factor)
            left[r] -= mass[r, i]
    for r in range(rows):  # rounding of floats could have made a row a part too large
        i = 0
        while left[r] < 0:
            taken = min(mass[r, i], -left[r])
            mass[r, i] -= taken
            left[r] += taken
            i += 1
    r = 0
    for i in range(width):
        total = 0
        for q in range(rows):
            total += mass[q, i]
        missing = sums[i] * _UNIT - total
        q = 0
        while missing < 0:
            taken = min(mass[q, i], -missing)
            mass[q, i] -= taken
            left[q] += taken
            missing += taken
            r = min(r, q)
            q += 1
        sums[i] = missing
    # What is missing in columns is what is left in rows.
    r = 0
    for i in range(width):
        while sums[i] > 0:
            while left[r] == 0:
                r += 1
            given = min(sums[i], left[r])
            mass[r, i] += given
            left[r] -= given
            sums[i] -= given
    return mass


@_compiled
def _round(mass, words, position):  # type: ignore[no-untyped-def]
    """Make every entry whole by cancelling cycles; return the next position, or -1 when words run out."""
    rows, width = mass.shape
    above = np.full(rows + width, -1, np.int64)  # the forest: each node's parent; columns come after rows
    seen = np.full(rows + width, -1, np.int64)
    path = np.empty(2 * (rows + width), np.int64)  # lower ends of the edges of a cycle, signed by their turn
    for i in range(width):
        for r in range(rows):
            if mass[r, i] % _UNIT == 0:
                continue
            column = rows + i
            mark = r * width + i
            node = r
            while node >= 0:
                seen[node] = mark
                node = above[node]
            meeting = column
            while meeting >= 0 and seen[meeting] != mark:
                meeting = above[meeting]
            if meeting >= 0:
                up, down = _UNIT - mass[r, i] % _UNIT, mass[r, i] % _UNIT
                length = 0
                for end in (r, column):
                    node, turn = end, -1
                    while node != meeting:
                        a, b = node, above[node]
                        part = (mass[a, b - rows] if a < rows else mass[b, a - rows]) % _UNIT
                        if turn > 0:
                            up, down = min(up, _UNIT - part), min(down, part)
                        else:
                            up, down = min(up, part), min(down, _UNIT - part)
                        path[2 * length], path[2 * length + 1] = node, turn
                        length += 1
                        turn = -turn
                        node = b
                drawn, position = _bounded(words, position, up + down)
                if drawn < 0:
                    return -1
                move = up if drawn < down else -down
                mass[r, i] += move
                for step in range(length):
                    a, turn = path[2 * step], path[2 * step + 1]
                    b = above[a]
                    if a < rows:
                        mass[a, b - rows] += turn * move
                        part = mass[a, b - rows] % _UNIT
                    else:
                        mass[b, a - rows] += turn * move
                        part = mass[b, a - rows] % _UNIT
                    if part == 0:
                        above[a] = -1
            if mass[r, i] % _UNIT != 0:
                # Hang the column's tree, turned so that the column is its root, under the row.
                node, under = column, r
                while node >= 0:
                    following = above[node]
                    above[node] = under
                    under, node = node, following
    return position
