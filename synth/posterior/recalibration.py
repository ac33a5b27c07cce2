"""Recalibration: sums of posterior draws over many areas, brought to what noisy counts say of these sums.

Draws of single cells borrow strength from a public model. Where it errs alike in many neighbouring cells, the
sum over these is farther from the truth than its draws are from each other. The unbiased estimate of the sum
knows: its error has a known variance and nothing else. So sums over blocks of cells are compared with their
unbiased estimates, from small blocks to large ones.

Take a sum whose draws have mean x and variance s, and whose unbiased estimate y has the variance v. Were the
model right, x would be the mean of a normal prior with mean m and variance P, and of y: with w = P / (P + v),
s = w v and x = m + w (y - m), which give m and P. How far y is from m in all blocks of a size tells by which
factor P is too small. With the larger P the mean and the variance of each sum follow again, and the draws of
its cells are scaled to these. The factor is never below 1: draws that are too far apart are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth.plan import Table
from synth.posterior.evidence import URN, Evidence

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_FEWEST_BLOCKS = 10  # that say how wrong a model is
_FEWEST_JOBS = 3.0  # of a block, in the mean of its draws: in smaller ones draws are good as they are
_MOST_KNOWN = 0.95  # of the variance of an unbiased estimate, that draws may have
_LEAST_KNOWN = 0.05
_CELLS_AT_ONCE = 2**21  # of groups that are looked at together


@dataclass(frozen=True, eq=False)
class DrawnFlows:
    """Posterior draws of the jobs from home units to work units.

    Attributes
    ----------
    home, work : ndarray of int64, shape (n_pairs,)
        Numbers of units. Each pair once, rising by work unit and then by home unit.
    counts : ndarray of float32, shape (n_draws, n_pairs)
    """

    home: Int64
    work: Int64
    counts: Float32


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks of pairs of units: every home area with every work area.

    Attributes
    ----------
    home, work : ndarray of int64, shape (n_units,)
        Area of each home unit, and of each work unit, from 0.
    """

    home: Int64
    work: Int64

    def of(self, home: Int64, work: Int64) -> Int64:
        """Return the number of the block of each pair of areas, which are broadcast."""
        return work * (int(self.home.max()) + 1) + home


@dataclass(frozen=True, eq=False)
class MeasuredFlows:
    """The first measured table of a release: what was published of the homes of each group of jobs.

    Attributes
    ----------
    table : Table
    evidence : Evidence
    first, last : ndarray of int64, shape (n_cells of all domains,)
        Home units that each cell begins and ends in.
    work : ndarray of int64, shape (n_groups,)
        Work unit of each group.
    exact : bool
        Whether the size of each group is the true number of its jobs.
    """

    table: Table
    evidence: Evidence
    first: Int64
    last: Int64
    work: Int64
    exact: bool

    def sums(self, scales: Sequence[Blocks]) -> list[BlockSums]:
        """Return what is known of the jobs of blocks, by scale.

        Blocks with a part of a cell are left out: nothing unbiased tells how the cell divides.
        """
        parts: list[list[BlockSums]] = [[] for _ in scales]
        cut: list[list[Int64]] = [[] for _ in scales]
        for domain in np.unique(self.table.domain).tolist():
            cells = slice(*self.table.domains.offsets[domain : domain + 2])
            homes = [_AreasOfCells.of(blocks.home, self.first[cells], self.last[cells]) for blocks in scales]
            for groups in self._runs(domain):
                estimates = self.evidence.unbiased(self.table, groups)
                for k, (blocks, home) in enumerate(zip(scales, homes, strict=True)):
                    work = blocks.work[self.work[groups]]
                    parts[k].append(self._sums_of(groups, estimates, home, blocks, work))
                    cut[k].append(blocks.of(home.cut, np.unique(work)[:, np.newaxis]).ravel())
        return [
            BlockSums.joined(of_scale).without(np.concatenate(numbers))
            for of_scale, numbers in zip(parts, cut, strict=True)
        ]

    def _runs(self, domain: int) -> Iterator[Int64]:
        """Yield the groups of a domain, as many at once as memory is for."""
        groups = np.flatnonzero(self.table.domain == domain)
        most = max(1, _CELLS_AT_ONCE // int(self.table.k[groups[0]]))
        yield from np.split(groups, np.arange(most, groups.size, most))

    def _sums_of(
        self,
        groups: Int64,
        unbiased: tuple[Float64, Float64, Float64],
        home: _AreasOfCells,
        blocks: Blocks,
        work: Int64,
    ) -> BlockSums:
        n, sizes = self.table.n[groups][:, np.newaxis], home.sizes
        value, variance, slope = (home.gather(values) for values in unbiased)
        if self.evidence.kind != URN and self.exact:  # noise that is known to add up to something is less
            value = value + (n - value.sum(axis=1, keepdims=True)) * sizes / sizes.sum()
            variance = variance * (1 - sizes / sizes.sum())
        jobs = np.clip(value, 0, n)
        variance = variance + slope / sizes * jobs * (1 - jobs / n)
        number = blocks.of(home.areas, work[:, np.newaxis])
        of_groups = BlockSums(number.ravel(), value.ravel(), variance.ravel())
        return BlockSums.joined([of_groups])  # most groups share their work area with others


class BlockSums(NamedTuple):
    """Unbiased estimates of the jobs of blocks, and their variances, shape (n_blocks,) each."""

    number: Int64
    value: Float64
    variance: Float64

    @classmethod
    def joined(cls, parts: Sequence[BlockSums]) -> BlockSums:
        """Return the sums of parts whose errors are independent, each block once, rising."""
        number, value, variance = (np.concatenate(column) for column in zip(*parts, strict=True))
        distinct, position = np.unique(number, return_inverse=True)
        sums = (np.bincount(position, column).astype(np.float64) for column in (value, variance))
        return cls(distinct, *sums)

    def without(self, cut: Int64) -> BlockSums:
        """Return the other blocks."""
        whole = ~np.isin(self.number, cut)
        return BlockSums(self.number[whole], self.value[whole], self.variance[whole])


class _AreasOfCells(NamedTuple):
    """Areas that the cells of a domain begin in, how many cells each has, and which areas cells cut.

    `order` has the cells area after area, and those of each begin at `begin`.
    """

    areas: Int64
    sizes: Float64
    order: Int64
    begin: Int64
    cut: Int64

    @classmethod
    def of(cls, area: Int64, first: Int64, last: Int64) -> _AreasOfCells:
        """Return those of cells that begin and end in some units, whose areas are given."""
        order = np.argsort(area[first], kind="stable")
        areas, begin, sizes = np.unique(area[first][order], return_index=True, return_counts=True)
        changes = np.append(0, np.cumsum(area[1:] != area[:-1]))
        divided = np.flatnonzero(changes[first] != changes[last])
        units = [area[first[cell] : last[cell] + 1] for cell in divided.tolist()]
        cut = np.unique(np.concatenate([area[:0], *units]))
        return cls(areas, sizes.astype(np.float64), order, begin, cut)

    def gather(self, values: Float64) -> Float64:
        """Add up cells, along the last axis, by area."""
        return np.asarray(np.add.reduceat(values[:, self.order], self.begin, axis=1))


def recalibrated(flows: DrawnFlows, measured: MeasuredFlows, scales: Sequence[Blocks]) -> Float32:
    """Return draws of flows whose sums over blocks are as uncertain as their unbiased estimates say.

    Parameters
    ----------
    flows : DrawnFlows
        Of at least two draws.
    measured : MeasuredFlows
        If it is exact, jobs of work units stay as they are in every draw.
    scales : sequence of Blocks
        From small blocks to large ones.

    Returns
    -------
    ndarray of float32, shape (n_draws, n_pairs)
        Not negative, and 0 where `flows` has 0.
    """
    counts = flows.counts.astype(np.float64)
    jobs = _by(flows.work, counts)
    for blocks, known in zip(scales, measured.sums(scales), strict=True):
        number, of_pair = np.unique(
            blocks.of(blocks.home[flows.home], blocks.work[flows.work]), return_inverse=True
        )
        sums = _by(of_pair, counts)
        _, here, there = np.intersect1d(number, known.number, assume_unique=True, return_indices=True)
        factor = np.ones(sums.shape)
        factor[:, here] = _scaling(sums[:, here], known.value[there], known.variance[there])
        counts *= factor[:, of_pair]
        if measured.exact:
            now = _by(flows.work, counts)
            counts *= np.divide(jobs, now, out=np.ones(jobs.shape), where=now > 0)[:, flows.work]
    return counts.astype(np.float32)


def _by(label: NDArray[np.integer], counts: Float64) -> Float64:
    """Add up the counts of each draw by label."""
    return np.stack([np.bincount(label, row) for row in counts])


def _scaling(sums: Float64, value: Float64, variance: Float64) -> Float64:
    """Return by what to multiply the draws of sums, shape (n_draws, n_blocks)."""
    mean, spread = sums.mean(axis=0), sums.var(axis=0, ddof=1)
    spread = np.maximum(spread, _LEAST_KNOWN * variance)
    some = (variance > 0) & (mean > _FEWEST_JOBS)
    result = np.ones(sums.shape)
    if np.count_nonzero(some) < _FEWEST_BLOCKS:
        return result
    x, y, v = mean[some], value[some], variance[some]
    s = np.minimum(_smoothed(spread[some], x, v), _MOST_KNOWN * v)
    w = s / v
    prior = s / (1 - w)
    middle = x - w / (1 - w) * (y - x)
    weight = 1 / (prior + v) ** 2
    wider = float((((y - middle) ** 2 - v) * prior * weight).sum() / (prior**2 * weight).sum())
    prior = prior * max(wider, 1.0)
    w = prior / (prior + v)
    new = middle + w * (y - middle) + (sums[:, some] - x) * np.sqrt(w * v / s)
    result[:, some] = np.divide(
        np.maximum(new, 0.0), sums[:, some], out=np.ones(new.shape), where=sums[:, some] > 0
    )
    return result


def _smoothed(spread: Float64, mean: Float64, variance: Float64) -> Float64:
    """Return variances that follow sizes and noise by power laws: few draws say little of a single one."""
    columns = np.stack([np.ones(mean.size), np.log(mean), np.log(variance)], axis=1)
    power = np.linalg.lstsq(columns, np.log(spread), rcond=None)[0]
    smooth = np.exp(columns @ power)
    return np.asarray(smooth * (spread.sum() / smooth.sum()))
