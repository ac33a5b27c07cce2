"""Cancelling cycles: fractional flows on a graph become whole, every sum is kept, and so is every expectation.

Edges carry numbers in parts of one, `UNIT` to the whole. What flows into a node flows out of it, but for whole amounts.
Among edges that are not whole there is a cycle, or they are a forest, whose leaves would have to be whole. Along a cycle an
amount is added to edges that are passed forwards and taken from those passed backwards: the largest that makes
one of them whole, in the one direction or the other, by lot, such that expectations are kept.
"""

from __future__ import annotations

from synth._words import bounded as _bounded
from synth._words import compiled as _compiled

__all__ = ["UNIT", "insert"]

UNIT = 2**24
"""Parts of one in which amounts are held."""


@_compiled
def insert(new, tail, head, value, above, edge, seen, words, position):  # type: ignore[no-untyped-def]
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
    if value[new] % UNIT == 0:
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
        part = value[new] % UNIT
        up, down = UNIT - part, part
        for side in range(2):
            node = last if side == 0 else first
            while node != meeting:
                part = value[edge[node]] % UNIT
                # From the head up, and down to the tail.
                if (tail[edge[node]] == node) == (side == 0):
                    up, down = min(up, UNIT - part), min(down, part)
                else:
                    up, down = min(up, part), min(down, UNIT - part)
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
                if value[edge[node]] % UNIT == 0:
                    above[node] = -1
                node = following
    if value[new] % UNIT != 0:
        # Hang the tree of the tail, turned so that the tail is its root, under the head.
        node, under, by = first, last, new
        while node >= 0:
            following, before = above[node], edge[node]
            above[node], edge[node] = under, by
            node, under, by = following, node, before
    return position
