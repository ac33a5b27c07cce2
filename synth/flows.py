"""Matrices of expected jobs rounded to whole ones: sums are kept, and so are expectations.

An entry is a flow from its cell to its row. What flows into a node flows out of it, but for whole amounts.
Among flows that are not whole there is a cycle, or they are a forest, whose leaves would have to be whole.
Along a cycle an amount is added to flows that are passed forwards and taken from those passed backwards:
the largest that makes one of them whole, in the one direction or the other, by lot, such that expectations
are kept. In the end all are whole: controlled rounding (Cox 1987), also of sums of entries that are flows
between the nodes of two trees.

Amounts are held in whole parts of a job, so that sums and chances are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth.randomness import WordStream

__all__ = ["round_flow", "share_out"]

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_UNIT = 2**24  # parts of a job in which amounts are held
_PART = _UNIT - 1  # mask of what is not whole: amounts are never negative
_FITS = 60  # rounds of fitting a matrix to its sums, at most


def round_flow(
    expected: Float64, n: Int64, steps: Sequence[Int64], areas: Sequence[Int64], stream: WordStream
) -> Int64:
    """Round expected jobs of rows in cells, with all sums that the two trees of this module name.

    Lemma 23 of docs/privacy.md.

    Parameters
    ----------
    expected : ndarray of float64, shape (n_rows, n_cells)
        Not negative; rows add up to `n`, but for errors of floats.
    n : ndarray of int64, shape (n_rows,)
    steps : sequence of ndarray of int64, shape (n_rows,) each
        Nested parts of the rows, coarse ones first, numbered from 0 and rising.
    areas : sequence of ndarray of int64, shape (n_cells,) each
        Nested areas of the cells, likewise.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n_rows, n_cells)
    """
    rows, width = expected.shape
    mass = np.empty((rows, width), np.int64)
    _in_parts(expected, n, mass)
    parts = np.array([*steps], np.int64).reshape(len(steps), rows)
    homes = np.array([*areas], np.int64).reshape(len(areas), width)
    words = np.zeros(0, np.int64)
    size = 64 + int(np.count_nonzero(mass & _PART)) * 3 // 2
    while True:
        words = np.concatenate([words, _words(stream, size)])
        result = _flow(mass, parts, homes, words)
        if result[0, 0] >= 0:
            return np.asarray(result)
        size = words.size


def share_out(counts: Int64, n: Int64, expected: Float64, pull: Float64, stream: WordStream) -> Int64:
    """Share out whole counts of cells among rows of given sizes.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        At least 1 each; they add up to as much as `n`.
    n : ndarray of int64, shape (n_rows,)
    expected : ndarray of float64, shape (n_rows, n_cells)
        Not negative. Of each entry the whole part is kept, and the odds of one more are changed by factors
        of rows and columns until both sums are right; where that cannot be, the entries themselves are.
    pull : ndarray of float64, shape (n_rows, n_cells)
        Logarithms of further factors of these odds.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n_rows, n_cells)
        With both sums. Each entry is the whole number below or above the fitted one, which is its
        expectation.
    """
    mass = _fitted(expected, np.exp(pull), n, counts)
    none = np.zeros((0, n.size), np.int64), np.zeros((0, counts.size), np.int64)
    words = np.zeros(0, np.int64)
    size = 16 + int(np.count_nonzero(mass & _PART)) * 3 // 2
    while True:
        words = np.concatenate([words, _words(stream, size)])
        result = _flow(mass, *none, words)
        if result[0, 0] >= 0:
            return np.asarray(result)
        size = words.size


def _words(stream: WordStream, size: int) -> Int64:
    return stream.words(size).view(np.int64) & np.int64(2**62 - 1)


@_compiled
def _in_parts(expected, n, mass):  # type: ignore[no-untyped-def]
    """Hold expectations in parts of one job, rows with their exact sums."""
    for r in range(n.size):
        total = expected[r].sum()
        running, before = 0.0, 0
        for c in range(expected.shape[1]):
            running += expected[r, c]
            upto = min(int(running / total * (n[r] * _UNIT)), n[r] * _UNIT)
            if c == expected.shape[1] - 1:
                upto = n[r] * _UNIT
            mass[r, c] = upto - before
            before = upto


@_compiled
def _insert(new, tail, head, value, above, edge, seen, words, position):  # type: ignore[no-untyped-def]
    """Add an edge to a forest of edges that are not whole, and cancel the cycle that it closes, if any.

    Parameters
    ----------
    new : int
        Number of the edge; numbers rise from 0 from call to call.
    tail, head, value : ndarray of int64, shape (n_edges,)
    above, edge, seen : ndarray of int64, shape (n_nodes,)
        The forest: the node above each, -1 at first, the edge to it, and a mark, -1 at first.
    words : ndarray of int64
        Random words.
    position : int
        Where unused words begin.

    Returns
    -------
    int
        The next position, or -1 when words run out.
    """
    if value[new] & _PART == 0:
        return position
    first, last = tail[new], head[new]
    node = last
    while node >= 0:
        seen[node] = new
        node = above[node]
    meeting = first
    while meeting >= 0 and seen[meeting] != new:
        meeting = above[meeting]
    if meeting >= 0:
        part = value[new] & _PART
        up, down = _UNIT - part, part
        for side in range(2):
            node = last if side == 0 else first
            while node != meeting:
                part = value[edge[node]] & _PART
                # From the head up, and down to the tail.
                if (tail[edge[node]] == node) == (side == 0):
                    up, down = min(up, _UNIT - part), min(down, part)
                else:
                    up, down = min(up, part), min(down, _UNIT - part)
                node = above[node]
        drawn, position = _bounded(words, position, up + down)
        if drawn < 0:
            return -1
        move = up if drawn < down else -down
        value[new] += move
        for side in range(2):
            node = last if side == 0 else first
            while node != meeting:
                following = above[node]
                value[edge[node]] += move if (tail[edge[node]] == node) == (side == 0) else -move
                if value[edge[node]] & _PART == 0:
                    above[node] = -1
                node = following
    if value[new] & _PART != 0:
        # Hang the tree of the tail, turned so that the tail is its root, under the head.
        node, under, by = first, last, new
        while node >= 0:
            following, before = above[node], edge[node]
            above[node], edge[node] = under, by
            node, under, by = following, node, before
    return position


@_compiled
def _flow(mass, steps, areas, words):  # type: ignore[no-untyped-def]
    """Round by cancelling cycles; the first entry is -1 when words run out.

    Edges come cell by cell, each sum after its parts, so that cycles are short.
    """
    rows, width = mass.shape
    levels, divisions = areas.shape[0], steps.shape[0]
    # Nodes: one above all, areas by level, cells, parts in a cell by step; rows, areas of a row by level.
    first_area, first_part = np.empty(levels + 1, np.int64), np.empty(divisions + 1, np.int64)
    first_of_row = np.empty(levels + 1, np.int64)
    nodes, edges = 1, rows * width + width
    for i in range(levels):
        first_area[i] = nodes
        nodes += areas[i, -1] + 1
        edges += (areas[i, -1] + 1) * (rows + 1)
    first_area[levels] = nodes
    nodes += width
    for j in range(divisions):
        first_part[j] = nodes
        nodes += (steps[j, -1] + 1) * width
        edges += (steps[j, -1] + 1) * width
    row = nodes
    nodes += rows
    for i in range(levels):
        first_of_row[i] = nodes
        nodes += (areas[i, -1] + 1) * rows
    tail, head, value = np.empty(edges, np.int64), np.empty(edges, np.int64), np.empty(edges, np.int64)
    above, edge, seen = (
        np.full(nodes, -1, np.int64),
        np.full(nodes, -1, np.int64),
        np.full(nodes, -1, np.int64),
    )
    number = np.full((rows, width), -1, np.int64)
    of_part = np.zeros(divisions, np.int64)
    of_area, of_row = np.zeros(levels, np.int64), np.zeros((levels, rows), np.int64)
    failed = np.full((1, 1), -1, np.int64)
    new, position = 0, 0
    for c in range(width):
        in_cell = 0
        for r in range(rows):
            amount = mass[r, c]
            in_cell += amount
            if amount & _PART != 0:
                last = divisions - 1
                tail[new] = (
                    first_part[last] + steps[last, r] * width + c if divisions else first_area[levels] + c
                )
                head[new] = row + r
                if levels:
                    head[new] = first_of_row[levels - 1] + areas[levels - 1, c] * rows + r
                value[new] = amount
                number[r, c] = new
                position = _insert(new, tail, head, value, above, edge, seen, words, position)
                if position < 0:
                    return failed
                new += 1
            for i in range(levels):
                of_row[i, r] += amount
            for j in range(divisions):
                of_part[j] += amount
            for j in range(divisions - 1, -1, -1):
                if r == rows - 1 or steps[j, r + 1] != steps[j, r]:
                    if of_part[j] & _PART != 0:
                        tail[new] = (
                            first_part[j - 1] + steps[j - 1, r] * width + c if j else first_area[levels] + c
                        )
                        head[new] = first_part[j] + steps[j, r] * width + c
                        value[new] = of_part[j]
                        position = _insert(new, tail, head, value, above, edge, seen, words, position)
                        if position < 0:
                            return failed
                        new += 1
                    of_part[j] = 0
        if in_cell & _PART != 0:
            tail[new] = first_area[levels - 1] + areas[levels - 1, c] if levels else 0
            head[new] = first_area[levels] + c
            value[new] = in_cell
            position = _insert(new, tail, head, value, above, edge, seen, words, position)
            if position < 0:
                return failed
            new += 1
        for i in range(levels):
            of_area[i] += in_cell
        for i in range(levels - 1, -1, -1):
            if c < width - 1 and areas[i, c + 1] == areas[i, c]:
                continue
            for r in range(rows):
                if of_row[i, r] & _PART != 0:
                    tail[new] = first_of_row[i] + areas[i, c] * rows + r
                    head[new] = first_of_row[i - 1] + areas[i - 1, c] * rows + r if i else row + r
                    value[new] = of_row[i, r]
                    position = _insert(new, tail, head, value, above, edge, seen, words, position)
                    if position < 0:
                        return failed
                    new += 1
                of_row[i, r] = 0
            if of_area[i] & _PART != 0:
                tail[new] = first_area[i - 1] + areas[i - 1, c] if i else 0
                head[new] = first_area[i] + areas[i, c]
                value[new] = of_area[i]
                position = _insert(new, tail, head, value, above, edge, seen, words, position)
                if position < 0:
                    return failed
                new += 1
            of_area[i] = 0
    result = np.empty((rows, width), np.int64)
    for r in range(rows):
        for c in range(width):
            result[r, c] = (mass[r, c] if number[r, c] < 0 else value[number[r, c]]) // _UNIT
    return result


@_compiled
def _fitted(expected, factors, n, sums):  # type: ignore[no-untyped-def]
    """Return expectations that have both sums, in parts of one job."""
    rows, width = expected.shape
    values, odds = np.empty((rows, width)), np.empty((rows, width))
    short, over = n.astype(np.float64), sums.astype(np.float64)
    some, most = np.zeros(rows), np.zeros(width)
    for r in range(rows):
        for i in range(width):
            # So small that it decides only where all other entries are 0.
            values[r, i] = expected[r, i] + 1e-30 * n[r]
            whole = math.floor(values[r, i])
            part = values[r, i] - whole
            odds[r, i] = part / (1.0 - part) * factors[r, i]
            short[r] -= whole
            over[i] -= whole
            some[r] += odds[r, i] > 0.0
            most[i] += odds[r, i] > 0.0
    if short.min() < 0.0 or over.min() < 0.0 or (some - short).min() < 0.0 or (most - over).min() < 0.0:
        _scale(values, n, sums)
    else:
        _tilt(values, odds, short, over)
    return _whole_sums(values, n, sums.copy())


@_compiled
def _nearer(odds, scale, wanted):  # type: ignore[no-untyped-def]
    """Return a factor for odds, by a step of Newton from `scale`, that brings chances nearer to a sum."""
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
def _tilt(values, odds, short, over):  # type: ignore[no-untyped-def]
    """Change the odds of the parts by factors of rows and columns until they have both sums."""
    rows, width = values.shape
    across, down = np.ones(rows), np.ones(width)
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
def _whole_sums(values, n, missing):  # type: ignore[no-untyped-def]
    """Return values in parts of one job, with both sums exact: what is missing goes where there is room."""
    rows, width = values.shape
    mass = np.empty((rows, width), np.int64)
    left = n * _UNIT
    missing *= _UNIT
    for r in range(rows):
        for i in range(width):
            part = min(int(values[r, i] * _UNIT), min(left[r], missing[i]))
            mass[r, i] = part
            left[r] -= part
            missing[i] -= part
    r = 0
    for i in range(width):
        while missing[i] > 0:
            while left[r] == 0:
                r += 1
            given = min(missing[i], left[r])
            mass[r, i] += given
            left[r] -= given
            missing[i] -= given
    return mass
