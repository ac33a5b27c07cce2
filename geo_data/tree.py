"""The hierarchy of blocks as arrays, and cuts through it.

A cut is a sorted array of first blocks. It descends from "everything" level by level: nodes that a rule wants
fine are replaced by their children, down to the deepest level of the rule, where they become cells of their
own. The others end where they are, and neighbouring siblings that end may be joined to one cell, because
neighbours are contiguous in the order of the blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import ArrayLike, NDArray

from geo_data import _kernels
from geo_data.model import PublicModel

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_ROOM = 2**23  # cells of the cuts that a tree keeps


@dataclass(frozen=True, eq=False)
class Measure:
    """What is to be cut: a measure on the model's units, and its sums, which all cuts of it share."""

    of_units: Float64

    @cached_property
    def before(self) -> Float64:
        """The measure of all units before each, shape (n_units + 1,): the last is that of all."""
        return np.asarray(_kernels.running(self.of_units[None])[0])


class Tree:
    """Nodes of each depth, their children, and how a measure on the model's units falls on them.

    Depth 0 is one node, everything; then come the levels of the geography, and the blocks last.

    Its units carry the measures; inside a unit they follow the public weights. `starts` has the first block
    of each node, by depth; `unit_depth` is that of the model's units.
    """

    def __init__(self, model: PublicModel) -> None:
        geography = model.geography
        names = [*geography.levels, geography.block_level]
        self.starts = [np.zeros(1, np.int64)] + [geography.starts(name).astype(np.int64) for name in names]
        self.unit_depth = names.index(model.level) + 1
        ends = [np.append(starts[1:], geography.n_blocks) for starts in self.starts]
        # One entry more than nodes at each depth, so that a node's children end where the next one's begin.
        children = [
            np.append(np.searchsorted(finer, coarser), finer.size)
            for coarser, finer in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        padded = [np.append(starts, geography.n_blocks) for starts in self.starts]
        self._starts = np.concatenate(padded)
        self._children = np.concatenate(children)
        self._depth_offset = np.cumsum([0] + [starts.size for starts in padded])
        self._longest = max(int(np.diff(first).max()) for first in children)
        # Where every node begins: the unit, and how much of the unit comes before it.
        units, past = self.starts[self.unit_depth], ends[self.unit_depth]
        running = np.append(0, np.cumsum(model.weights)).astype(np.float64)
        self._unit = np.searchsorted(units, self._starts, side="right").astype(np.uint32) - np.uint32(1)
        weight = running[past] - running[units]
        self._part = (running[self._starts] - running[units][self._unit]) / weight[self._unit]
        self._kept: dict[tuple[int, float, float, int], tuple[NDArray[np.int32], NDArray[np.uint8]]] = {}
        self._room = _ROOM

    def up_to(self, measure: Measure, blocks: Int64) -> Float64:
        """Return the measure of all blocks before each block given, in [0, n_blocks]."""
        node = self._depth_offset[-2] + blocks
        unit = self._unit[node]
        return np.asarray(measure.before[unit] + measure.of_units[unit] * self._part[node])

    def doublings(self, measure: Measure, cells: NDArray[np.int32], end: int, most: int) -> NDArray[np.uint8]:
        """Return how often the mean of cells must be doubled to give the measure of each.

        Rounded; 0 where it is less than the mean.

        Rounded; 0 where it is less than the mean. `end` is the block past the last cell; numbers above `most`
        are it.
        """
        offset = self._depth_offset[-2]
        arguments = self._unit[offset:], self._part[offset:], measure.of_units, measure.before
        return np.asarray(_kernels.doublings(cells, end, *arguments, most))

    def cut(
        self, measure: Measure, least: float, run: float, deepest: int | None = None
    ) -> NDArray[np.int32]:
        """Return the first block of every cell.

        A node is wanted fine where its measure is at least `least` > 0, and becomes cells at the depth
        `deepest`, by default that of the blocks. Siblings in a row that are not are joined to cells of about
        the measure `run`: 0 joins none, and infinity all.
        """
        deepest = len(self.starts) - 1 if deepest is None else deepest
        return self._cuts(measure.of_units[None], np.zeros(1, np.int64), least, run, 0, deepest)[1]

    def cuts(
        self, shares: Float64, row: Int64, least: Float64, run: Float64, most: int
    ) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
        """Return many a `cut`, of rows of shares, and the `doublings` of their cells.

        Cut i is of ``shares[row[i]]``, `row` rising, with ``least[i]`` and ``run[i]``. Returned are how many
        cells each has, the first block of each, cut after cut, and their doublings.
        """
        return self._cuts(shares, row, least, run, most, len(self.starts) - 1)

    def cuts_once(
        self, units: NDArray[np.int32], shares: Float64, row: Int64, least: Float64, run: Float64, most: int
    ) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
        """Return the `cuts` of the model's shares of destinations, whose units are given.

        They are kept where they were asked before: candidate plans have most of their cuts in common.
        """
        keys = [*zip(units[row].tolist(), least.tolist(), run.tolist(), repeat(most), strict=False)]
        new = [i for i, key in enumerate(keys) if key not in self._kept]
        counts, cells, doublings = self.cuts(shares, row[new], least[new], run[new], most)
        ends = np.cumsum(counts)
        pieces = zip(np.split(cells, ends), np.split(doublings, ends), strict=True)
        made = dict(zip((keys[i] for i in new), pieces, strict=False))
        if cells.size <= self._room:
            self._kept |= made
            self._room -= cells.size
        pieces_of_cut = [made.get(key) or self._kept[key] for key in keys]
        return (
            np.array([cells_of_cut.size for cells_of_cut, _ in pieces_of_cut], np.int64),
            np.concatenate([cells_of_cut for cells_of_cut, _ in pieces_of_cut]),
            np.concatenate([doubled for _, doubled in pieces_of_cut]),
        )

    def _cuts(
        self, shares: Float64, row: Int64, least: ArrayLike, run: ArrayLike, most: int, deepest: int
    ) -> tuple[Int64, NDArray[np.int32], NDArray[np.uint8]]:
        counts, cells, doublings = _kernels.cuts(
            self._starts,
            self._children,
            self._depth_offset,
            self._longest,
            self._unit,
            self._part,
            shares,
            row,
            np.full(row.shape, least),
            np.full(row.shape, run),
            deepest,
            most,
        )
        return counts, cells, doublings
