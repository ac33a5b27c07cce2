"""The public model: where the workers of a destination are expected to live, from public tables only.

Notation: d is a group of destination blocks that no auxiliary table tells apart, u a unit of origin
blocks, g the unit that contains u at the level of the previous table of a coarser level (all blocks, if
there is none), w the public weight (population).

The model starts with P(u | d) = w(u) / w(all) and is refined by one table after another, coarse origin
levels first:

    P(u | d)  <-  P(g | d) * ( F(u, d) + s P(u | g, d) ) / ( F(g, d) + s ),      s = sqrt(F(g, d)),

wherever the table has a flow F(g, d) > 0, and is left alone elsewhere. So a coarse table gives the
totals and a finer one the shares inside them, and a destination on which no table says anything falls
back on the public weights. s is the number of pseudo-workers that is minimax for a multinomial share
under squared error (Steinhaus 1957; Trybula 1958): large tables are believed, small ones smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geo_data.auxiliary import Flows
from geo_data.geography import Geography

__all__ = ["PublicModel", "build_model"]


@dataclass(frozen=True, eq=False)
class PublicModel:
    """P(origin | destination group) under public tables and weights.

    Attributes
    ----------
    geography : Geography
    tables : tuple of Flows
        In the order in which they are applied.
    weights : ndarray of int64, shape (n_blocks,)
        Public weight of each block, at least 1.
    origin_level : str or None
        Finest origin level of any table; below it, shares follow the weights. None without tables.
    group_of_block : ndarray of int32, shape (n_blocks,)
        Destination group of each block.
    """

    geography: Geography
    tables: tuple[Flows, ...]
    weights: NDArray[np.int64]
    origin_level: str | None
    group_of_block: NDArray[np.int32]

    @property
    def n_groups(self) -> int:
        """Number of destination groups."""
        return int(self.group_of_block.max()) + 1

    def shares(self, groups: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return P(u | d) for units u of `origin_level` and the groups d given.

        Parameters
        ----------
        groups : ndarray of int32, shape (g,)

        Returns
        -------
        ndarray of float64, shape (g, n_units)
            Rows add to 1 (n_units is 1 without tables).
        """
        blocks = self._first_blocks[groups]
        starts = np.zeros(1, np.int64)
        parents = starts
        current = np.ones((groups.size, 1))
        level: str | None = None
        for table in self.tables:
            if table.origin_level != level:
                parents, level = starts, table.origin_level
                starts = self.geography.starts(level).astype(np.int64)
                weight = np.add.reduceat(self.weights, starts).astype(float)
                parent = np.searchsorted(parents, starts, side="right") - 1
                within = weight / np.bincount(parent, weight)[parent]
                current = current[:, parent] * within
            first_child = np.searchsorted(starts, parents)
            parent = np.searchsorted(parents, starts, side="right") - 1
            destination = self.geography.unit_of(table.destination_level, blocks)
            flow = _rows(table, destination, starts.size)
            total = np.add.reduceat(flow, first_child, axis=1)
            mass = np.add.reduceat(current, first_child, axis=1)
            pseudo = np.sqrt(total)
            with np.errstate(divide="ignore", invalid="ignore"):
                blended = (flow * mass[:, parent] + pseudo[:, parent] * current) / (total + pseudo)[:, parent]
            current = np.where(total[:, parent] > 0, blended, current)
        return current

    def covered(self, groups: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Say of each group whether any table has a flow to it; the others use the weights alone."""
        blocks = self._first_blocks[groups]
        found = np.zeros(groups.size, bool)
        for table in self.tables:
            reached = np.unique(table.destination[table.flow > 0])
            found |= np.isin(self.geography.unit_of(table.destination_level, blocks), reached)
        return found

    @property
    def _first_blocks(self) -> NDArray[np.int32]:
        return np.unique(self.group_of_block, return_index=True)[1].astype(np.int32)


def build_model(geography: Geography, tables: Sequence[Flows], weights: NDArray[np.int64]) -> PublicModel:
    """Order the tables from coarse to fine and find the groups of destinations that they tell apart.

    Parameters
    ----------
    geography : Geography
    tables : sequence of Flows
        Auxiliary flows, any number, any levels.
    weights : ndarray of int64, shape (n_blocks,)
        Public weights, at least 1.

    Returns
    -------
    PublicModel

    Raises
    ------
    ValueError
        If there is not one positive weight a block.
    """
    if weights.shape != (geography.n_blocks,) or weights.min() < 1:
        raise ValueError("every block needs a public weight of at least 1")
    rank = [*geography.levels, geography.block_level].index
    ordered = tuple(sorted(tables, key=lambda t: (rank(t.origin_level), rank(t.destination_level))))
    every_block = np.arange(geography.n_blocks, dtype=np.int32)
    if ordered:
        finest = max((t.destination_level for t in ordered), key=rank)
        group = geography.unit_of(finest, every_block)
    else:
        group = np.zeros_like(every_block)
    return PublicModel(geography, ordered, weights, ordered[-1].origin_level if ordered else None, group)


def _rows(table: Flows, destination: NDArray[np.int32], n_units: int) -> NDArray[np.float64]:
    """Return the table's flows to each destination given, shape (len(destination), n_units)."""
    unique, position = np.unique(destination, return_inverse=True)
    dense = np.zeros((unique.size, n_units))
    row = np.searchsorted(unique, table.destination)
    row[row == unique.size] = 0
    here = unique[row] == table.destination
    np.add.at(dense, (row[here], table.origin[here]), table.flow[here])
    return dense[position]
