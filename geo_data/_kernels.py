"""The loops of planning that run for every pair of destination and origin, compiled, without the GIL."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Nodes(NamedTuple):
    """A hierarchy of blocks: nodes of depth t stand at ``depth_offset[t]`` and following.

    One entry more follows the nodes of a depth: a node ends where the next one begins. No node has more than
    `longest` children.
    """

    starts: Int64  # the first block of each
    children: Int64  # the first child of each, as a number of the next depth
    depth_offset: Int64
    longest: int
    unit: NDArray[np.uint32]  # the unit of the model in which each begins
    part: Float64  # how much of that unit comes before it


class TableRows(NamedTuple):
    """Rows of a table of flows: the entries of one are ``indptr[row]:indptr[row + 1]``."""

    parent_starts: Int64  # the first origin of each parent
    indptr: NDArray[np.int32]
    indices: NDArray[np.int32]  # origins, sorted
    flow: Float64
    sample: Float64
    worth: Float64  # of each row


_STEPS = 11  # bits of a squared chord that tell points of a table apart, in each octave
_REST = 52 - _STEPS  # bits of its mantissa that tell between which of them it is
_FIRST = 1023 - 52  # exponent of the shortest: 0.1 m, what rounding makes of nothing


def by_chord(radius: float, exponent: float, offset: float) -> Float64:
    """Return (delta + offset)^-exponent at the squared chords between which `pull` is linear.

    They follow each other as floating-point numbers do, from 2^-52 to 4, 2,048 in each octave. What lies
    between them is right to a millionth for any decay that is fitted, but beyond 15,000 km.
    """
    points = np.arange(_FIRST << _STEPS, (1025 << _STEPS) + 2, dtype=np.int64)
    chord = np.sqrt((points << _REST).view(np.float64))
    return np.asarray((2.0 * radius * np.arcsin(np.minimum(chord / 2.0, 1.0)) + offset) ** -exponent)


@numba.njit(cache=True, nogil=True)
def pull(
    x: Float64,
    y: Float64,
    z: Float64,
    self_pull: Float64,
    units: Int64,
    weight: Float64,
    table: Float64,
) -> Float64:
    """Return w(u) times what `table` (`by_chord`) says of u and d, for every unit u, rows adding to 1.

    d are the `units`; `x`, `y`, `z` are places on the unit sphere, and `self_pull` says what each d is to
    itself. A unit without a place is as far as the farthest that has one.
    """
    n = x.size
    result = np.empty((units.size, n))
    chord, placed = np.empty(n), ~np.isnan(x)
    bits = chord.view(np.uint64)  # so that no index is asked whether it is negative
    rest, first = np.uint64(_REST), np.uint64(_FIRST << _STEPS)
    below = np.uint64((1 << _REST) - 1)
    whole = placed.all()
    fourth = n // 4
    # Loops over plain arrays without a branch, of which the compiler makes vectors.
    for row in range(units.size):
        d, shares_of_d = units[row], result[row]
        x_d, y_d, z_d = x[d], y[d], z[d]
        for u in range(n):
            square = 2.0 - 2.0 * (x_d * x[u] + y_d * y[u] + z_d * z[u])
            chord[u] = square if square > 2.0**-52 else 2.0**-52  # also of NaN
        for u in range(n):
            point = (bits[u] >> rest) - first
            between = np.int64(bits[u] & below) * 2.0**-_REST
            shares_of_d[u] = (table[point] + between * (table[point + np.uint64(1)] - table[point])) * weight[
                u
            ]
        shares_of_d[d] = self_pull[row] * weight[d]
        if not whole:
            least = np.inf
            for u in range(n):
                if placed[u] and placed[d] and weight[u] > 0.0:
                    least = min(least, shares_of_d[u] / weight[u])
            for u in range(n):
                if not (placed[u] and placed[d]):
                    shares_of_d[u] = weight[u] if least == np.inf else least * weight[u]
        # In four sums, none of which waits for another.
        total, second, third, last = 0.0, 0.0, 0.0, 0.0
        for u in range(fourth):
            total += shares_of_d[u]
            second += shares_of_d[fourth + u]
            third += shares_of_d[2 * fourth + u]
            last += shares_of_d[3 * fourth + u]
        for u in range(4 * fourth, n):
            total += shares_of_d[u]
        part = 1.0 / (total + second + third + last)
        for u in range(n):
            shares_of_d[u] *= part
    return result


@numba.njit(cache=True, nogil=True)
def added_up(shares: Float64, starts: Int64) -> Float64:
    """Return the sums of the parts of every row, shape (g, parts); a part ends where the next one begins."""
    result = np.empty((shares.shape[0], starts.size))
    for i in range(shares.shape[0]):
        for p in range(starts.size):
            total = 0.0
            for u in range(starts[p], starts[p + 1] if p + 1 < starts.size else shares.shape[1]):
                total += shares[i, u]
            result[i, p] = total
    return result


@numba.njit(cache=True, nogil=True)
def rounded(shares: Float64, scale: float) -> tuple[Int64, NDArray[np.int32], NDArray[np.int32]]:
    """Return how many units of each row have a share that is not rounded to 0, these, and their shares.

    Shares are whole numbers of 1 / `scale`.
    """
    count = np.zeros(shares.shape[0], np.int64)
    for i in range(shares.shape[0]):
        row, n_kept = shares[i], 0
        for u in range(row.size):
            n_kept += row[u] * scale + 0.5 >= 1.0
        count[i] = n_kept
    unit, share = np.empty(count.sum(), np.int32), np.empty(count.sum(), np.int32)
    k = 0
    for i in range(shares.shape[0]):
        row = shares[i]
        for u in range(row.size):
            if row[u] * scale + 0.5 >= 1.0:
                unit[k], share[k] = u, np.floor(row[u] * scale + 0.5)
                k += 1
    return count, unit, share


@numba.njit(cache=True, nogil=True)
def retarget(
    shares: Float64,
    table: TableRows,
    rows: Int64,
    jobs: Float64,
    kappa: float,
    between: float,
    same_jobs: bool,
) -> None:
    """Turn P(o | D) into T(o | D), steps 2 and 3 of `geo_data.model`, of some rows of a table, in place.

    `shares`, shape (g, o), rows adding to 1, is the model so far at the table's origins; row i of it belongs
    to row ``rows[i]`` of the table. Parents of whom the table says nothing are not even read, if they stay as
    they are.
    """
    parent_starts, indptr, indices = table.parent_starts, table.indptr, table.indices
    flow, sample, worth = table.flow, table.sample, table.worth
    n_origins, n_parents = shares.shape[1], parent_starts.size
    ends = np.append(parent_starts[1:], n_origins)
    # Of every parent: its share so far, workers asked there, and of those of the whole row.
    mass, total, part = np.empty(n_parents), np.empty(n_parents), np.empty(n_parents)
    for i in range(rows.size):
        first, stop = indptr[rows[i]], indptr[rows[i] + 1]
        k, seen, covered, sampled = first, 0.0, 0.0, 0.0
        for p in range(n_parents):
            mass[p], total[p], part[p] = 0.0, 0.0, 0.0
            while k < stop and indices[k] < ends[p]:
                seen += flow[k]
                part[p] += flow[k] * worth[rows[i]]
                total[p] += sample[k]
                k += 1
            if total[p] > 0.0:
                for o in range(parent_starts[p], ends[p]):
                    mass[p] += shares[i, o]
                covered += mass[p]
                sampled += part[p]
        # What the table speaks about becomes as many times what it was, and all else. The share of all else
        # is added up: few digits of 1 - here are right where a table speaks about nearly everything.
        spoken, silent, elsewhere = 1.0, 1.0, 0.0
        if same_jobs and seen > 0.0 and covered > 0.0:
            for p in range(n_parents):
                if total[p] == 0.0:
                    for o in range(parent_starts[p], ends[p]):
                        elsewhere += shares[i, o]
            if elsewhere > 1e-9:
                unseen, among = max(jobs[i] - seen, 0.0), max(jobs[i], seen) + kappa
                spoken = (seen / covered + kappa) / among
                silent = (unseen / elsewhere + kappa) / among
        k = first
        for p in range(n_parents):
            times, posterior = silent, 0.0
            if total[p] > 0.0:
                share = spoken * (covered * part[p] + between * mass[p]) / (sampled + between)
                posterior = share / (total[p] + kappa)
                times = posterior * kappa / mass[p]
            if times != 1.0:
                for o in range(parent_starts[p], ends[p]):
                    shares[i, o] *= times
            while k < stop and indices[k] < ends[p]:
                shares[i, indices[k]] += posterior * sample[k]
                k += 1


@numba.njit(cache=True, nogil=True)
def scale(shares: Float64, starts: Int64, factor: Float64) -> None:
    """Multiply the parts of every row by their factors, shape (g, parts), in place."""
    for i in range(shares.shape[0]):
        for p in range(starts.size):
            times = factor[i, p]
            for u in range(starts[p], starts[p + 1] if p + 1 < starts.size else shares.shape[1]):
                shares[i, u] *= times


@numba.njit(cache=True, nogil=True)
def running(measures: Float64) -> Float64:
    """Return the sums of what comes before each entry of each row, and of all, shape (g, n + 1)."""
    g, n = measures.shape
    result = np.empty((g, n + 1))
    # Two rows side by side, as each sum waits for the one before it; the last of an odd number beside itself.
    for i in range(0, g, 2):
        j = min(i + 1, g - 1)
        first_sum, second_sum = 0.0, 0.0
        for u in range(n):
            result[i, u], result[j, u] = first_sum, second_sum
            first_sum += measures[i, u]
            second_sum += measures[j, u]
        result[i, n], result[j, n] = first_sum, second_sum
    return result


@numba.njit(cache=True, nogil=True)
def doublings(
    cells: NDArray[np.int32],
    end: int,
    unit: NDArray[np.uint32],
    part: Float64,
    measure: Float64,
    sums: Float64,
    most: int,
) -> NDArray[np.uint8]:
    """Return how often the mean of cells must be doubled to give the measure of each (`Tree.doublings`).

    `unit` and `part` are of blocks, as those of nodes are for `cuts`; `sums` is `running` of `measure`.
    """
    result = np.zeros(cells.size, np.uint8)
    if most == 0:
        return result
    first = sums[unit[cells[0]]] + measure[unit[cells[0]]] * part[cells[0]]
    mean = (sums[unit[end]] + measure[unit[end]] * part[end] - first) / cells.size
    before = first
    for i in range(cells.size):
        past = cells[i + 1] if i + 1 < cells.size else end
        after = sums[unit[past]] + measure[unit[past]] * part[past]
        limit = mean * 2.0**0.5
        while result[i] < most and after - before >= limit > 0.0:
            result[i] += 1
            limit *= 2.0
        before = after
    return result


@numba.njit(cache=True, nogil=True)
def _cut(
    nodes: Nodes,
    measure: Float64,
    sums: Float64,
    least: float,
    run: float,
    deepest: int,
    middle: Float64,
    cells: NDArray[np.int32],
) -> int:
    """Write the first block of every cell of a cut into `cells`, and return how many there are.

    `sums` is `running` of `measure`. `middle` has room for as many numbers as a node has children, `cells`
    for one more than there are blocks.
    """
    starts, children, depth_offset, _, unit, part = nodes
    count = 0
    # Depth first, which is the order of the blocks: the siblings here[t]:stop[t] are to be done at depth t.
    position, stop = np.zeros(deepest + 1, np.int64), np.ones(deepest + 1, np.int64)
    depth = 0
    while depth >= 0:
        node, past = depth_offset[depth] + position[depth], depth_offset[depth] + stop[depth]
        before = sums[unit[node]] + measure[unit[node]] * part[node]
        first, length, total = node, 0, 0.0
        while node < past:
            after = sums[unit[node + 1]] + measure[unit[node + 1]] * part[node + 1]
            mass = after - before
            if mass < least:
                middle[length] = total + mass / 2.0
                total += mass
                length += 1
            elif length == 0 and depth == deepest:  # a cell of its own
                cells[count] = starts[node]
                count += 1
                first = node + 1
            else:
                break  # after the stretch before it
            before = after
            node += 1
        # A stretch of siblings that end becomes as many cells of equal measure as fit best.
        if length > 0 and run == 0.0:
            for j in range(length):
                cells[count + j] = starts[first + j]
            count += length
        elif length > 0:
            cells[count] = starts[first]
            count += 1
            pieces = np.rint(total / run)
            if pieces > 1.0:
                for j in range(length):  # one of no measure at the end is beyond the last
                    middle[j] = min(np.floor(middle[j] / total * pieces), pieces - 1.0)
                for j in range(1, length):
                    cells[count] = starts[first + j]
                    count += middle[j] != middle[j - 1]
        position[depth] = node - depth_offset[depth]
        if node == past:
            depth -= 1
        elif depth < deepest:
            position[depth] += 1
            depth += 1
            position[depth], stop[depth] = children[node], children[node + 1]
    return count


@numba.njit(cache=True, nogil=True)
def cuts(
    nodes: Nodes,
    shares: Float64,
    row: Int64,
    least: Float64,
    run: Float64,
    deepest: int,
    most: int,
) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
    """Return how many cells each cut of rows of `shares` has, their first blocks, and their `doublings`.

    Cut i (`Tree.cut`) is of ``shares[row[i]]`` with ``least[i]`` and ``run[i]``. One that is asked for again
    right after itself is not made again: a row's are in order of size, and many have the same limits.
    """
    n_blocks, blocks = nodes.starts[-1], nodes.depth_offset[-2]
    unit, part = nodes.unit[blocks:], nodes.part[blocks:]
    counts, middle = np.zeros(row.size, np.int64), np.empty(nodes.longest)
    cells, doubled, filled = np.empty(2 * n_blocks, np.int32), np.empty(2 * n_blocks, np.uint8), 0
    sums = running(shares)
    for i in range(row.size):
        if cells.size - filled <= n_blocks:  # there may be as many as blocks
            cells, doubled = np.append(cells, cells), np.append(doubled, doubled)
        if i > 0 and row[i] == row[i - 1] and least[i] == least[i - 1] and run[i] == run[i - 1]:
            count = counts[i] = counts[i - 1]
            cells[filled : filled + count] = cells[filled - count : filled]
            doubled[filled : filled + count] = doubled[filled - count : filled]
            filled += count
            continue
        measure, sums_before = shares[row[i]], sums[row[i]]
        count = _cut(nodes, measure, sums_before, least[i], run[i], deepest, middle, cells[filled:])
        counts[i] = count
        doubled[filled : filled + count] = doublings(
            cells[filled : filled + count], n_blocks, unit, part, measure, sums_before, most
        )
        filled += count
    return counts, cells[:filled].copy(), doubled[:filled].copy()
