"""The sampler: exact draws from the pruned Polya urns of a batch of pools.

Lemma 16 of docs/privacy.md. The urn of a pool holds q n integer weight of real workers, the
prior numerator A_s of every cell, and q for every earlier draw. No floating point touches a draw.
`sample_cells` is the one function of this mechanism that sees confidential origins next to randomness.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled
from synth.randomness import WordStream

_DONE, _NEED_WORDS, _NEED_TABLE = 0, 1, 2
# Positions in the state array, what an interrupted call needs to go on.
_POOL, _DRAW, _PENDING, _WORD, _FILLED, _SIZE = 0, 1, 2, 3, 4, 5
_MAX_WORDS = 2**20

_EMPTY, _PRUNED, _KEPT = 0, 1, 2


class Urns(NamedTuple):
    """The urns of a batch of pools.

    Attributes
    ----------
    denominator : int
        q.
    offsets : ndarray of int64, shape (n_pools + 1,)
        Real workers of pool p stand at ``offsets[p]:offsets[p + 1]``.
    draw_offsets : ndarray of int64, shape (n_pools + 1,)
        Draws of pool p stand at ``draw_offsets[p]:draw_offsets[p + 1]`` of the result.
    prior : ndarray of int64, shape (n_pools, n_strata)
        Prior numerators A_s.
    coin : ndarray of int64, shape (n_strata, 2)
        Retention of each stratum as numerator and denominator.
    domain : ndarray of int32, shape (n_pools,)
        Row of each pool's domain in `stratum_offsets`.
    cells_by_stratum : ndarray of int32
        Cells of all domains, each domain's ordered by stratum.
    stratum_offsets : ndarray of int64, shape (n_rows, n_strata + 1)
        Cells of row d and stratum s stand at ``stratum_offsets[d, s]:stratum_offsets[d, s + 1]``.

    Notes
    -----
    q (n + m) + sum_s A_s k_s must be below 2^62 for every pool; calibration and certification check it.
    """

    denominator: int
    offsets: NDArray[np.int64]
    draw_offsets: NDArray[np.int64]
    prior: NDArray[np.int64]
    coin: NDArray[np.int64]
    domain: NDArray[np.int32]
    cells_by_stratum: NDArray[np.int32]
    stratum_offsets: NDArray[np.int64]


def sample_cells(urns: Urns, cells: NDArray[np.int32], stream: WordStream) -> NDArray[np.int32]:
    """Draw the synthetic workers' cells of a batch of pools.

    Lemma 16 of docs/privacy.md.

    Parameters
    ----------
    urns : Urns
        Public: from the plan.
    cells : ndarray of int32, shape (n_records,)
        **Confidential**: the cell of every real worker, pool after pool.
    stream : WordStream
        Key stream of this batch's "urn" stage.

    Returns
    -------
    ndarray of int32, shape (n_draws,)
        The cell of every synthetic worker, pool after pool. The draws of a pool are exchangeable, so
        giving the t-th draw to the t-th slot of the pool is a uniformly random assignment.

    Raises
    ------
    ValueError
        If the number of workers is not what the plan says, or a cell is not one of the pool's domain.
    """
    if cells.shape != (urns.offsets[-1],):
        raise ValueError("the number of workers of a batch is not the number of slots of its pools")
    k = np.diff(urns.stratum_offsets[:, [0, -1]], axis=1)[urns.domain, 0]
    if cells.size and (cells.min() < 0 or np.any(cells >= np.repeat(k, np.diff(urns.offsets)))):
        raise ValueError("a worker is in a cell that the domain of the pool does not have")
    drawn = np.empty(int(urns.draw_offsets[-1]), np.int32)
    state = np.zeros(6, np.int64)
    state[_PENDING] = -1
    table = np.zeros((2, 1024), np.int32)
    words = np.empty(0, np.int64)
    while True:
        status = _draw(urns, cells, words, state, table, drawn)
        if status == _DONE:
            return drawn
        if status == _NEED_TABLE:
            size = int(state[_SIZE])
            larger = np.zeros((2, max(2 * size, table.shape[1])), np.int32)
            _rehash(table, size, larger, 2 * size)
            table, state[_SIZE] = larger, 2 * size
            continue
        remaining = drawn.size - int(urns.draw_offsets[state[_POOL]]) - int(state[_DRAW])
        # About 1.5 words a draw; the top bit is never used (bounds are below 2^62).
        words = stream.words(min(_MAX_WORDS, 2 * remaining + 64)).view(np.int64)
        state[_WORD] = 0


@_compiled
def _slot(table, size, cell):  # type: ignore[no-untyped-def]
    """Return the place of `cell` in the open-addressing table: its own, or the free one for it."""
    last = size - 1
    place = (cell * 2654435761) & last
    while table[1, place] != _EMPTY and table[0, place] != cell:
        place = (place + 1) & last
    return place


@_compiled
def _rehash(table, size, larger, larger_size):  # type: ignore[no-untyped-def]
    for i in range(min(size, table.shape[1])):
        if table[1, i] != _EMPTY:
            place = _slot(larger, larger_size, table[0, i])
            larger[0, place] = table[0, i]
            larger[1, place] = table[1, i]


@_compiled
def _draw(urns, cells, words, state, table, drawn):  # type: ignore[no-untyped-def]
    """Go on with the batch until it is done, words run out, or the table of known cells is half full.

    The table holds, for the current pool, the cells that have workers and the cells whose coin has
    been thrown; it is filled at the first noise draw that needs a coin, and no larger than the pool
    asks for, since it is cleared after every pool. A noise value whose coin could not be thrown yet is
    kept in the state: throwing it away would favour values without coins.
    """
    q, offsets, draw_offsets, prior, coin, domain, cells_by_stratum, stratum_offsets = urns
    n_strata = coin.shape[0]
    while state[_POOL] < domain.size:
        pool = state[_POOL]
        first, n = offsets[pool], offsets[pool + 1] - offsets[pool]
        base, m = draw_offsets[pool], draw_offsets[pool + 1] - draw_offsets[pool]
        starts = stratum_offsets[domain[pool]]
        workers = q * n
        noise = 0
        for s in range(n_strata):
            noise += prior[pool, s] * (starts[s + 1] - starts[s])
        t = state[_DRAW]
        while t < m:
            z = state[_PENDING]
            state[_PENDING] = -1
            if z < 0:
                z, state[_WORD] = _bounded(words, state[_WORD], workers + noise + q * t)
                if z < 0:
                    state[_DRAW] = t
                    return _NEED_WORDS
            if z < workers:
                drawn[base + t] = cells[first + z // q]
                t += 1
                continue
            y = z - workers
            if y >= noise:
                drawn[base + t] = drawn[base + (y - noise) // q]
                t += 1
                continue
            s = 0
            while y >= prior[pool, s] * (starts[s + 1] - starts[s]):
                y -= prior[pool, s] * (starts[s + 1] - starts[s])
                s += 1
            cell = y // prior[pool, s]
            if starts[s + 1] - starts[s] < starts[n_strata] - starts[0]:
                # Cells of a domain of one stratum are in order; the look-up would only miss the cache.
                cell = cells_by_stratum[starts[s] + cell]
            if coin[s, 0] < coin[s, 1]:
                if state[_FILLED] == 0 and state[_SIZE] == 0:
                    state[_SIZE] = 32
                    while state[_SIZE] < 4 * n:
                        state[_SIZE] *= 2
                if state[_SIZE] > table.shape[1] or 2 * state[_FILLED] >= state[_SIZE]:
                    state[_DRAW], state[_PENDING] = t, z
                    return _NEED_TABLE
                if state[_FILLED] == 0:
                    for i in range(n):
                        place = _slot(table, state[_SIZE], cells[first + i])
                        if table[1, place] == _EMPTY:
                            table[0, place], table[1, place] = cells[first + i], _KEPT
                            state[_FILLED] += 1
                place = _slot(table, state[_SIZE], cell)
                if table[1, place] == _EMPTY:
                    v, state[_WORD] = _bounded(words, state[_WORD], coin[s, 1])
                    if v < 0:
                        state[_DRAW], state[_PENDING] = t, z
                        return _NEED_WORDS
                    table[0, place] = cell
                    table[1, place] = _KEPT if v < coin[s, 0] else _PRUNED
                    state[_FILLED] += 1
                if table[1, place] == _PRUNED:
                    continue  # not in the urn: draw again
            drawn[base + t] = cell
            t += 1
        if state[_SIZE] > 0:
            table[1, : state[_SIZE]] = _EMPTY
            state[_FILLED] = 0
            state[_SIZE] = 0
        state[_POOL] = pool + 1
        state[_DRAW] = 0
    return _DONE
