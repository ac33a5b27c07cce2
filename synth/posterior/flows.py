"""Matrices of expected jobs rounded to whole ones: sums are kept, and expectations or what is likeliest.

An entry is a flow from its cell to its row. What flows into a node flows out of it, but for whole amounts.
Among flows that are not whole there is a cycle, or they are a forest, whose leaves would have to be whole.
Along a cycle an amount is added to flows that are passed forwards and taken from those passed backwards:
the largest that makes one of them whole, in the one direction or the other. In the end all are whole:
controlled rounding (Cox 1987), also of sums of entries that are flows between the nodes of two trees.

The direction is chosen by lot, such that expectations are kept; or it is the one in which more is gained than
lost, where a flow whose part over a whole number is f gains 2 f - 1 by a job more: the expected error is then
nowhere larger than by lot, mostly smaller, and lots decide between equals.

Amounts are held in whole parts of a job, so that sums and chances are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth._words import inlined as _inlined
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_UNIT = 2**24  # parts of a job in which amounts are held
_PART = _UNIT - 1  # mask of what is not whole: amounts are never negative
_ABOVE, _HELD, _CODE, _COST, _MARK = range(5)  # columns of a forest
_NONE = np.zeros(0, np.int64)  # costs, where lots decide alone
_FITS = 60  # rounds of fitting a matrix to its sums, at most


def round_flow(
    expected: Float64,
    n: Int64,
    steps: Sequence[Int64],
    areas: Sequence[Int64],
    stream: WordStream,
    lacking: Float64 | None = None,
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
    lacking : ndarray of float64, shape (n_cells,), optional
        Jobs that each cell was given too few of before. Then entries and sums become the nearest whole
        numbers as far as all can, and cells that lack jobs rather get more; lots decide between equals. By
        default expectations are kept.

    Returns
    -------
    ndarray of int64, shape (n_rows, n_cells)
    """
    mass = np.empty(expected.shape, np.int64)
    _in_parts(expected, n, mass)
    costs = _NONE if lacking is None else np.rint(-_UNIT * lacking).astype(np.int64)
    return _rounded(mass, steps, areas, costs, 64, stream)


def divide(counts: Int64, n: Int64, areas: Sequence[Int64], stream: WordStream) -> Int64:
    """Divide whole counts of cells among rows of given sizes, in proportion to these.

    Lemma 23 of docs/privacy.md.

    Parameters
    ----------
    counts : ndarray of int64, shape (n_cells,)
        At least 1 each; they add up to as much as `n`.
    n : ndarray of int64, shape (n_rows,)
    areas : sequence of ndarray of int64, shape (n_cells,) each
        As for `round_flow`.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n_rows, n_cells)
        With both sums. Each entry, and each sum of a row over an area, is the whole number below or above its
        part, which is its expectation, but for 2^-24 of a job for each cell.
    """
    mass = _whole_sums(np.outer(n / n.sum(), counts), n, counts.copy())
    return _rounded(mass, (), areas, _NONE, 16, stream)


def share_out(counts: Int64, n: Int64, expected: Float64, pull: Float64, stream: WordStream) -> Int64:
    """Share out whole counts of cells among rows of given sizes.

    Parameters
    ----------
    counts, n, expected, pull
        As for `expect_shares`.
    stream : WordStream

    Returns
    -------
    ndarray of int64, shape (n_rows, n_cells)
        With both sums. Each entry is the whole number below or above that of `expect_shares`, which is its
        expectation.
    """
    return _rounded(_parts_of(counts, n, expected, pull), (), (), _NONE, 16, stream)


def expect_shares(counts: Int64, n: Int64, expected: Float64, pull: Float64) -> Float64:
    """Fit expected jobs to whole counts of cells and to the sizes of rows.

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

    Returns
    -------
    ndarray of float64, shape (n_rows, n_cells)
        With both sums.
    """
    return _parts_of(counts, n, expected, pull) / _UNIT


def _parts_of(counts: Int64, n: Int64, expected: Float64, pull: Float64) -> Int64:
    """Return what `expect_shares` does in parts of a job. Of arrays of one order numba compiles once."""
    parts: Int64 = _fitted(np.ascontiguousarray(expected), np.exp(pull), n, counts)
    return parts


def _rounded(
    mass: Int64,
    steps: Sequence[Int64],
    areas: Sequence[Int64],
    costs: Int64,
    least: int,
    stream: WordStream,
) -> Int64:
    """Round with so many words and more, and with twice as many each time that they do not suffice."""
    trees = [
        np.array([*nested], np.int64).reshape(len(nested), size)
        for nested, size in zip((steps, areas), mass.shape, strict=True)
    ]
    words = _words(stream, least + int(np.count_nonzero(mass & _PART)) * 3 // 2)
    while True:
        result = np.asarray(_flow(mass, *trees, costs, words))
        if result[0, 0] >= 0:
            return result
        words = np.concatenate([words, _words(stream, words.size)])


def _words(stream: WordStream, size: int) -> Int64:
    return stream.words(size).view(np.int64) & np.int64(2**62 - 1)


@_compiled
def _in_parts(expected, n, mass):  # type: ignore[no-untyped-def]
    """Hold expectations in parts of one job, rows with their exact sums."""
    mass[:] = 0
    for r in range(n.size):
        if n[r] == 0:
            continue
        total = expected[r].sum()
        running, before = 0.0, 0
        for c in range(expected.shape[1]):
            running += expected[r, c]
            upto = min(int(running / total * (n[r] * _UNIT)), n[r] * _UNIT)
            mass[r, c] = upto - before
            before = upto
        last = expected.shape[1] - 1
        while last > 0 and expected[r, last] == 0.0:
            last -= 1
        mass[r, last] += n[r] * _UNIT - before  # what floats left over, where anything is expected


@_inlined
def _insert(edge, new, forest, whole, words, position):  # type: ignore[no-untyped-def]
    """Add an edge that is not whole to a forest of such edges, and cancel the cycle that it closes, if any.

    Parameters
    ----------
    edge : tuple of int
        The nodes that it goes from and to (tail, head); the part of its amount that is over a whole number,
        more than 0 and less than `_UNIT`; twice the number of the entry that it is, -1 for a sum of them; and
        what it costs to add to it.
    new : int
        Of the edge; another one at each call.
    forest : ndarray of int64, shape (n_nodes, 5)
        For each node the node above it, -1 at first; of the edge to that, the part that flows upwards, its
        code, whose last bit is turned where the edge goes downwards, and what it costs to add to that part;
        and a mark.
    whole : ndarray of int64, shape (n_entries,)
        Entries rounded down. Those that come out rounded up get one more.
    words : ndarray of int64
        Random words.
    position : int
        Where unused words begin.

    Returns
    -------
    int
        The next position, or -1 when words run out.
    """
    tail, head, part, code, cost = edge
    # Climb from both ends by turns, up to a node that is above both: with the edge, both ways are the cycle.
    first, second, meeting = head, tail, -1
    while first >= 0 or second >= 0:
        if first >= 0:
            if forest[first, _MARK] == new:
                meeting = first
                break
            forest[first, _MARK] = new
            first = forest[first, _ABOVE]
        if second >= 0:
            if forest[second, _MARK] == new:
                meeting = second
                break
            forest[second, _MARK] = new
            second = forest[second, _ABOVE]
    if meeting >= 0:
        up, down, total = _UNIT - part, part, cost
        node = head
        while node != meeting:
            held = forest[node, _HELD]
            up, down, total = min(up, _UNIT - held), min(down, held), total + forest[node, _COST]
            node = forest[node, _ABOVE]
        node = tail
        while node != meeting:
            held = forest[node, _HELD]
            up, down, total = min(up, held), min(down, _UNIT - held), total - forest[node, _COST]
            node = forest[node, _ABOVE]
        if total == 0:
            drawn, position = _bounded(words, position, up + down)
            if drawn < 0:
                return -1
            move = up if drawn < down else -down
        else:
            move = up if total < 0 else -down
        part += move
        for side in range(2):  # up from the head, and down to the tail
            node = head if side == 0 else tail
            while node != meeting:
                following, of = forest[node, _ABOVE], forest[node, _CODE]
                held = forest[node, _HELD] + move
                forest[node, _HELD] = held
                if held == 0 or held == _UNIT:
                    forest[node, _ABOVE] = -1
                    if of >= 0 and (held == 0) == (of & 1 == 1):
                        whole[of >> 1] += 1
                node = following
            move = -move
        if part == 0 or part == _UNIT:
            if part != 0 and code >= 0:
                whole[code >> 1] += 1
            return position
    # Hang the tree of the tail, turned so that the tail is its root, under the head.
    node, under = tail, head
    while node >= 0:
        following, held, of = forest[node, _ABOVE], forest[node, _HELD], forest[node, _CODE]
        of_held = forest[node, _COST]
        forest[node, _ABOVE], forest[node, _HELD], forest[node, _CODE] = under, part, code
        forest[node, _COST] = cost
        node, under, part, code, cost = following, node, _UNIT - held, of ^ 1, -of_held
    return position


@_compiled
def _note(edges, size, tail, head, part, code, cost):  # type: ignore[no-untyped-def]
    """Append an edge, with what it costs beyond its part; return how many there are."""
    edges[size, 0], edges[size, 1], edges[size, 2] = tail, head, part
    edges[size, 3], edges[size, 4] = code, cost
    return size + 1


@_compiled
def _flow(mass, steps, areas, costs, words):  # type: ignore[no-untyped-def]
    """Round by cancelling cycles; the first entry is -1 when words run out.

    Edges come cell by cell, each sum after its parts, so that cycles are short. Those of a cell are
    noted first: to compile `_insert` into each place that has an edge takes several times as long.
    """
    rows, width = mass.shape
    levels, divisions = areas.shape[0], steps.shape[0]
    # Nodes: one above all, areas by level, cells, parts in a cell by step; rows, areas of a row by level.
    first_area, first_part = np.empty(levels + 1, np.int64), np.empty(divisions + 1, np.int64)
    first_of_row = np.empty(levels + 1, np.int64)
    nodes = 1
    for i in range(levels):
        first_area[i] = nodes
        nodes += areas[i, -1] + 1
    first_area[levels] = nodes
    nodes += width
    for j in range(divisions):
        first_part[j] = nodes
        nodes += (steps[j, -1] + 1) * width
    row = nodes
    nodes += rows
    for i in range(levels):
        first_of_row[i] = nodes
        nodes += (areas[i, -1] + 1) * rows
    forest = np.full((nodes, 5), -1, np.int64)
    result = mass // _UNIT
    whole = result.reshape(rows * width)
    of_part = np.zeros(divisions, np.int64)
    of_area, of_row = np.zeros(levels, np.int64), np.zeros((levels, rows), np.int64)
    failed = np.full((1, 1), -1, np.int64)
    new, position, costly = 0, 0, costs.size > 0
    edges = np.empty((rows * (1 + divisions + levels) + 1 + levels, 5), np.int64)
    for c in range(width):
        in_cell, size = 0, 0
        for r in range(rows):
            amount = mass[r, c]
            in_cell += amount
            part = amount & _PART
            if part != 0:
                tail, head = first_area[levels] + c, row + r
                if divisions:
                    tail = first_part[divisions - 1] + steps[divisions - 1, r] * width + c
                if levels:
                    head = first_of_row[levels - 1] + areas[levels - 1, c] * rows + r
                code = 2 * (r * width + c)
                size = _note(edges, size, tail, head, part, code, 0)
            for i in range(levels):
                of_row[i, r] += amount
            for j in range(divisions):
                of_part[j] += amount
            for j in range(divisions - 1, -1, -1):
                if r == rows - 1 or steps[j, r + 1] != steps[j, r]:
                    part = of_part[j] & _PART
                    if part != 0:
                        tail = first_area[levels] + c
                        if j:
                            tail = first_part[j - 1] + steps[j - 1, r] * width + c
                        head = first_part[j] + steps[j, r] * width + c
                        size = _note(edges, size, tail, head, part, -1, 0)
                    of_part[j] = 0
        part = in_cell & _PART
        if part != 0:
            tail = first_area[levels - 1] + areas[levels - 1, c] if levels else 0
            head = first_area[levels] + c
            size = _note(edges, size, tail, head, part, -1, costs[c] if costly else 0)
        for i in range(levels):
            of_area[i] += in_cell
        for i in range(levels - 1, -1, -1):
            if c < width - 1 and areas[i, c + 1] == areas[i, c]:
                continue
            for r in range(rows):
                part = of_row[i, r] & _PART
                if part != 0:
                    tail = first_of_row[i] + areas[i, c] * rows + r
                    head = first_of_row[i - 1] + areas[i - 1, c] * rows + r if i else row + r
                    size = _note(edges, size, tail, head, part, -1, 0)
                of_row[i, r] = 0
            part = of_area[i] & _PART
            if part != 0:
                tail = first_area[i - 1] + areas[i - 1, c] if i else 0
                head = first_area[i] + areas[i, c]
                size = _note(edges, size, tail, head, part, -1, 0)
            of_area[i] = 0
        for i in range(size):
            tail, head, part, code, cost = edges[i, 0], edges[i, 1], edges[i, 2], edges[i, 3], edges[i, 4]
            cost = _UNIT - 2 * part + cost if costly else 0
            position = _insert((tail, head, part, code, cost), new, forest, whole, words, position)
            if position < 0:
                return failed
            new += 1
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
def _nearer(odds, scale, target):  # type: ignore[no-untyped-def]
    """Return a factor for odds, by a step of Newton from `scale`, that brings chances nearer to a sum."""
    total, spread, some = 0.0, 0.0, 0
    for value in odds:
        chance = value * scale / (1.0 + value * scale)
        total += chance
        spread += chance * (1.0 - chance)
        some += value > 0.0
    if target <= 0.0:
        return 0.0
    if target >= some:
        return 1e30
    return scale * math.exp(min(3.0, max(-3.0, (target - total) / max(spread, 1e-12))))


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
            moved = min(missing[i], left[r])
            mass[r, i] += moved
            left[r] -= moved
            missing[i] -= moved
    return mass
