"""Coarsening of the origin domain: which blocks an urn does not tell apart.

A domain is a cut through the hierarchy (all, then each level, then blocks). Since the blocks of a node
are contiguous, a cut is a sorted array of first blocks. Domains depend on public inputs only: the
public model, the destination's group, and the pool's public size.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from geo_data.geography import Geography
from geo_data.model import PublicModel

__all__ = ["Coarsening", "coarsen", "retention_grid"]

_GROUPS_AT_A_TIME = 64  # bounds the memory of the model's shares


@dataclass(frozen=True, eq=False)
class Coarsening:
    """The domains of all pools, in the arrays of `synth.Domains`.

    Attributes
    ----------
    offsets : ndarray of int64, shape (n_domains + 1,)
    cuts : ndarray of int32, shape (n_cells,)
        First block of each cell.
    stratum : ndarray of uint8, shape (n_cells,)
        Index into `retention`.
    retention : tuple of Fraction
        Retention of each stratum, falling from 1.
    domain : ndarray of int32, shape (n_pools,)
        Domain of each pool.
    group : ndarray of int32, shape (n_domains,)
        Destination group of each domain.
    size : ndarray of int64, shape (n_domains,)
        The pool size (a power of two) for which the domain was made.
    uncovered_pools : int
        Pools whose destination has no flow in any auxiliary table: public weights alone.
    """

    offsets: NDArray[np.int64]
    cuts: NDArray[np.int32]
    stratum: NDArray[np.uint8]
    retention: tuple[Fraction, ...]
    domain: NDArray[np.int32]
    group: NDArray[np.int32]
    size: NDArray[np.int64]
    uncovered_pools: int


def retention_grid(smallest: Fraction) -> tuple[Fraction, ...]:
    """Return the retentions a plan uses: 1, 1/2, 1/4, ... down to `smallest` (f_min).

    Raises
    ------
    ValueError
        If `smallest` is outside (0, 1] or more than 2^-40 away from use.
    """
    if not Fraction(1, 2**40) <= smallest <= 1:
        raise ValueError("the smallest retention must be in (0, 1] and at least 2^-40")
    grid = [Fraction(1)]
    while grid[-1] / 2 > smallest:
        grid.append(grid[-1] / 2)
    return tuple(grid) if smallest == 1 else (*grid, smallest)


def coarsen(
    model: PublicModel,
    work: NDArray[np.int32],
    n: NDArray[np.int64],
    threshold: Fraction,
    smallest_retention: Fraction,
) -> Coarsening:
    """Split a node of the hierarchy while its expected public count is at least a threshold.

    Parameters
    ----------
    model : PublicModel
    work : ndarray of int32, shape (n_pools,)
        Work block of each pool.
    n : ndarray of int64, shape (n_pools,)
        Public size of each pool. The expected count of a node is P(node | destination) times the
        largest power of two that is at most n, so that pools of similar size share a domain.
    threshold : Fraction
        Expected workers from which a node is split, > 0.
    smallest_retention : Fraction
        f_min. A cell's retention is its expected count clipped to [f_min, 1], rounded up to
        `retention_grid`.

    Returns
    -------
    Coarsening
    """
    group_of_pool = model.group_of_block[work]
    octave = np.floor(np.log2(n)).astype(np.int64)
    keys, domain = np.unique(group_of_pool.astype(np.int64) * 64 + octave, return_inverse=True)
    group, size = (keys // 64).astype(np.int32), np.int64(1) << (keys % 64)
    tree = _Tree(model)
    retention = retention_grid(smallest_retention)
    falling = -np.array([float(f) for f in retention])
    cuts, strata = [], []
    needed = np.unique(group)
    for at in range(0, needed.size, _GROUPS_AT_A_TIME):
        batch = needed[at : at + _GROUPS_AT_A_TIME]
        shares = model.shares(batch)
        for row, one in zip(shares, batch, strict=True):
            for s in size[np.searchsorted(group, one) : np.searchsorted(group, one, side="right")]:
                first, expected = tree.cut(row, float(s), float(threshold))
                cuts.append(first)
                # The last stratum whose retention is at least the expected count: rounded up.
                at_least = np.searchsorted(falling, -np.minimum(expected, 1.0), side="right") - 1
                strata.append(np.minimum(at_least, len(retention) - 1).astype(np.uint8))
    covered = model.covered(needed)
    uncovered = int((~covered[np.searchsorted(needed, group_of_pool)]).sum())
    return Coarsening(
        offsets=np.concatenate([[0], np.cumsum([c.size for c in cuts])]).astype(np.int64),
        cuts=np.concatenate(cuts),
        stratum=np.concatenate(strata),
        retention=retention,
        domain=domain.astype(np.int32),
        group=group,
        size=size,
        uncovered_pools=uncovered,
    )


class _Tree:
    """The hierarchy as arrays: nodes of each depth, their children, their expected share in O(1)."""

    def __init__(self, model: PublicModel) -> None:
        geography: Geography = model.geography
        names = [*geography.levels, geography.block_level]
        self.starts = [np.zeros(1, np.int64)] + [geography.starts(name).astype(np.int64) for name in names]
        self.first_child = [
            np.append(np.searchsorted(finer, coarser), finer.size)
            for coarser, finer in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]
        depth = 0 if model.origin_level is None else names.index(model.origin_level) + 1
        self._depth = depth
        units = self.starts[depth]
        weight = np.append(0, np.cumsum(model.weights)).astype(float)
        ends = np.append(units[1:], geography.n_blocks)
        unit_weight = weight[ends] - weight[units]
        # Depths up to the model's: nodes are ranges of its units. Below: a weighted part of one unit.
        self._unit_range, self._unit, self._part = {}, {}, {}
        for d, starts in enumerate(self.starts):
            stops = np.append(starts[1:], geography.n_blocks)
            if d <= depth:
                self._unit_range[d] = (np.searchsorted(units, starts), np.searchsorted(units, stops))
            else:
                self._unit[d] = np.searchsorted(units, starts, side="right") - 1
                self._part[d] = (weight[stops] - weight[starts]) / unit_weight[self._unit[d]]

    def cut(
        self, shares: NDArray[np.float64], size: float, threshold: float
    ) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Return first block and expected count of every cell, in block order."""
        cumulative = np.append(0.0, np.cumsum(shares))
        nodes = np.zeros(1, np.int64)
        first, expected = [], []
        for depth, starts in enumerate(self.starts):
            if depth <= self._depth:
                low, high = self._unit_range[depth]
                count = size * (cumulative[high[nodes]] - cumulative[low[nodes]])
            else:
                count = size * shares[self._unit[depth][nodes]] * self._part[depth][nodes]
            split = count >= threshold if depth < len(self.first_child) else np.zeros(nodes.size, bool)
            first.append(starts[nodes[~split]])
            expected.append(count[~split])
            if not split.any():
                break
            children = self.first_child[depth]
            begin, end = children[nodes[split]], children[nodes[split] + 1]
            length = end - begin
            nodes = np.repeat(begin - np.append(0, np.cumsum(length)[:-1]), length) + np.arange(length.sum())
        blocks = np.concatenate(first)
        order = np.argsort(blocks)
        return blocks[order].astype(np.int32), np.concatenate(expected)[order]
