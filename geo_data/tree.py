"""The hierarchy of blocks as arrays, and cuts through it.

A cut is a sorted array of first blocks. It descends from "everything" level by level: nodes that a rule
splits are replaced by their children, the others end there, and neighbouring siblings that end may be joined
to one cell, because neighbours are contiguous in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from geo_data.model import PublicModel

__all__ = ["Tree"]

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Tree:
    """Nodes of each depth, their children, and how a measure on the model's units falls on them.

    Depth 0 is one node, everything; then come the levels of the geography, and the blocks last.

    Parameters
    ----------
    model : PublicModel
        Its units carry the measures; inside a unit they follow the public weights.

    Attributes
    ----------
    starts : list of ndarray of int64
        Per depth, the first block of each node.
    unit_depth : int
        Depth of the model's units.
    """

    def __init__(self, model: PublicModel) -> None:
        geography = model.geography
        names = [*geography.levels, geography.block_level]
        self.starts = [np.zeros(1, np.int64)] + [geography.starts(name).astype(np.int64) for name in names]
        self.unit_depth = names.index(model.level) + 1
        self._first_child = [
            np.append(np.searchsorted(finer, coarser), finer.size)
            for coarser, finer in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        self._n_blocks = geography.n_blocks
        self._units = self.starts[self.unit_depth]
        cumulative = np.append(0, np.cumsum(model.weights)).astype(np.float64)
        ends = np.append(self._units[1:], self._n_blocks)
        self._before = cumulative
        self._unit_weight = cumulative[ends] - cumulative[self._units]

    def up_to(self, measure: Float64, cumulative: Float64, blocks: Int64) -> Float64:
        """Return the measure of all blocks before each block given.

        Parameters
        ----------
        measure, cumulative : ndarray of float64, shape (n_units,) and (n_units + 1,)
            Measure of each unit, and their running total from 0.
        blocks : ndarray of int64
            In [0, n_blocks].
        """
        unit = np.searchsorted(self._units, np.minimum(blocks, self._n_blocks - 1), side="right") - 1
        part = (self._before[blocks] - self._before[self._units[unit]]) / self._unit_weight[unit]
        return np.asarray(cumulative[unit] + measure[unit] * part)

    def cut(
        self,
        measure: Float64,
        split: Callable[[Float64, int], NDArray[np.bool_]],
        run: float,
    ) -> NDArray[np.int32]:
        """Return the first block of every cell.

        Parameters
        ----------
        measure : ndarray of float64, shape (n_units,)
            Not negative.
        split : callable
            Given the measures of nodes and their depth, which are split. Blocks never are.
        run : float
            Siblings in a row that are not split are joined to cells of about this measure: 0 joins none, and
            infinity all.
        """
        cumulative = np.append(0.0, np.cumsum(measure))
        nodes = np.zeros(1, np.int64)
        sibling = np.zeros(1, np.int64)
        cells = []
        for depth, starts in enumerate(self.starts):
            stops = np.append(starts[1:], self._n_blocks)[nodes]
            mass = self.up_to(measure, cumulative, stops) - self.up_to(measure, cumulative, starts[nodes])
            divided = np.zeros(nodes.size, bool)
            if depth < len(self._first_child):
                divided = split(mass, depth)
            cells.append(starts[nodes[_heads(mass, divided, sibling, run)]])
            if not divided.any():
                break
            children = self._first_child[depth]
            begin, end = children[nodes[divided]], children[nodes[divided] + 1]
            length = end - begin
            sibling = np.repeat(np.arange(length.size), length)
            nodes = begin[sibling] + np.arange(sibling.size) - (np.cumsum(length) - length)[sibling]
        return np.sort(np.concatenate(cells)).astype(np.int32)


def _heads(mass: Float64, divided: NDArray[np.bool_], sibling: Int64, run: float) -> NDArray[np.bool_]:
    """Say which of the nodes that end are the first of their cell."""
    ended = ~divided
    if run == 0:
        return ended
    # A stretch is a row of siblings that end. It becomes as many cells of equal measure as fit best.
    first = ended & np.append(True, divided[:-1] | (sibling[1:] != sibling[:-1]))
    stretch = np.cumsum(first) - 1
    stretch[divided] = -1
    inside = stretch[ended]
    if inside.size == 0:
        return ended
    weight = mass[ended]
    total = np.bincount(inside, weight)
    cells = np.maximum(np.rint(total / run), 1.0)
    running = np.cumsum(weight)
    before = running - weight / 2 - (np.cumsum(total) - total)[inside]
    with np.errstate(divide="ignore", invalid="ignore"):
        number = np.floor(np.where(total[inside] > 0, before / total[inside] * cells[inside], 0.0))
    new = np.append(True, (np.diff(inside) != 0) | (np.diff(number) != 0))
    heads = np.zeros(mass.size, bool)
    heads[np.flatnonzero(ended)[new]] = True
    return heads
