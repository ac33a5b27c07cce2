"""Recalibration: sums of posterior draws over many areas, brought to what noisy counts say of these sums.

Draws of single cells borrow strength from a public model. Where it errs alike in many neighbouring cells, the
sum over these is farther from the truth than its draws are from each other. The unbiased estimate of the sum
knows: its error has a known variance and nothing else. So sums over blocks of cells are compared with their
unbiased estimates, from small blocks to large ones.

Take a sum whose draws have mean x and variance s, and whose unbiased estimate y has the variance v. Were the
model right, x would be the mean of a normal prior with mean m and variance P, and of y: with w = P / (P + v),
s = w v and x = m + w (y - m), which give m and P. How far y is from m in all blocks of a size tells by which
factor P is too small. With the larger P the mean and the variance of each sum follow again, and the draws of
its cells are moved to these, uncertain cells most. The factor is never below 1: draws that are too far apart
are left.

Blocks may cut cells. Then x and s are of draws whose cells divide as those of the estimate do (`UnitShares`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth.arrays import sums_by
from synth.plan import Table
from synth.posterior.evidence import URN, Evidence

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_FEWEST_BLOCKS = 10  # that say how wrong a model is
_FEWEST_JOBS = 3.0  # of a block, in the mean of its draws: in smaller ones draws are good as they are
_MOST_KNOWN = 0.95  # of the variance of an unbiased estimate, that draws may have
_LEAST_KNOWN = 0.05
_CELLS_AT_ONCE = 2**21  # of groups, in parts by unit, that are looked at together
_NOBODY = 1e-6  # jobs of a part of a cell that nobody was drawn in


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
        Home units that each cell begins and ends in; if these differ, it has all blocks of both.
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

    def runs(self) -> Iterator[tuple[Int64, CellParts]]:
        """Yield groups that have the same cells, as many at once as memory is for, and these cells."""
        for domain in np.unique(self.table.domain).tolist():
            cells = slice(*self.table.domains.offsets[domain : domain + 2])
            parts = CellParts.of(self.first[cells], self.last[cells])
            groups = np.flatnonzero(self.table.domain == domain)
            most = max(1, _CELLS_AT_ONCE // parts.unit.size)
            for some in np.split(groups, np.arange(most, groups.size, most)):
                yield some, parts

    def sums(self, scales: Sequence[Blocks], shares: UnitShares | None = None) -> list[BlockSums]:
        """Return what is known of the jobs of blocks, by scale, if cells divide by these shares.

        Without shares, blocks with a part of a cell are left out: nothing unbiased tells how that divides.
        """
        sums: list[list[BlockSums]] = [[] for _ in scales]
        for groups, parts in self.runs():
            unbiased = self.evidence.unbiased(self.table, groups)
            work, of_group = np.unique(self.work[groups], return_inverse=True)
            share = np.repeat(parts.equal(), work.size, axis=0) if shares is None else shares.of(work, parts)
            for blocks, of_scale in zip(scales, sums, strict=True):
                areas = _Areas.of(blocks.home, parts, share, of_group)
                number = blocks.of(areas.numbers, blocks.work[self.work[groups]][:, np.newaxis])
                value, variance = self._estimates(groups, unbiased, areas)
                if shares is None:
                    value[:, areas.cut()] = np.nan
                of_groups = BlockSums(number.ravel(), value.ravel(), variance.ravel())
                of_scale.append(BlockSums.joined([of_groups]))  # most groups share their work area
        return [BlockSums.joined(of_scale).known() for of_scale in sums]

    def _estimates(
        self, groups: Int64, unbiased: tuple[Float64, Float64, Float64], areas: _Areas
    ) -> tuple[Float64, Float64]:
        """Return estimates of the jobs that groups have in areas, and their variances."""
        seen, of_noise, of_job = unbiased
        n, each = self.table.n[groups][:, np.newaxis], np.ones((1, seen.shape[1]))
        value, variance = areas.sums(seen), areas.sums(of_noise, squared=True)
        size = areas.sums(each)  # in cells
        if self.evidence.kind != URN and self.exact:  # noise that is known to add up to something is less
            value += (n - seen.sum(axis=1, keepdims=True)) * size / each.size
            variance *= 1 - size**2 / areas.sums(each, squared=True) / each.size
        multinomial = np.clip(areas.sums(seen, squared=True), 0, n) - np.clip(value, 0, n) ** 2 / n
        return value, variance + areas.sums(of_job) / size * np.maximum(multinomial, 0)


class CellParts(NamedTuple):
    """The cells of a domain in parts by home unit: the cell and the unit of each part, rising."""

    cell: Int64
    unit: Int64

    @classmethod
    def of(cls, first: Int64, last: Int64) -> CellParts:
        """Return those of cells that begin and end in some units."""
        cell = np.repeat(np.arange(first.size), last - first + 1)
        return cls(cell, first[cell] + np.arange(cell.size) - np.searchsorted(cell, cell))

    def equal(self) -> Float64:
        """Return equal shares of the parts of each cell, shape (1, n_parts)."""
        return (1 / np.bincount(self.cell)[self.cell])[np.newaxis]


class UnitShares:
    """How the jobs of cells divide among units: as the mean of draws has it, by work unit.

    Of a cell of several units nothing is known but their sum. So an estimate of a block that cuts cells is
    compared with draws whose cells divide alike, and the rest of the block is left as it was drawn.
    """

    def __init__(self, flows: DrawnFlows, measured: MeasuredFlows) -> None:
        self._home = flows.home
        self._mean = np.append(flows.counts.mean(axis=0, dtype=np.float64), 0.0)  # and of pairs not drawn
        self._units = int(max(flows.home.max(), measured.last.max())) + 1
        self._first = np.searchsorted(flows.work, np.arange(int(measured.work.max()) + 2))
        entries: list[tuple[Int64, Int64, Float64, Int64]] = []
        cells = 0
        for groups, parts in measured.runs():
            work, of_group = np.unique(measured.work[groups], return_inverse=True)
            pairs = self._pairs(work, parts)
            row, part = np.nonzero(pairs >= 0)
            jobs = np.bincount(of_group, measured.table.n[groups]).astype(np.int64)
            distinct, cell = np.unique(row * parts.unit.size + parts.cell[part], return_inverse=True)
            entries.append((pairs[row, part], cell + cells, self.of(work, parts)[row, part], jobs[row]))
            cells += distinct.size
        self._pair, self._cell, share, jobs = map(np.concatenate, zip(*entries, strict=True))
        # Groups of a work unit may have other cells: each is taken to have its part of all homes.
        self._share = share * jobs / np.bincount(self._pair, jobs)[self._pair]

    def _pairs(self, work: Int64, parts: CellParts) -> Int64:
        """Return the pair of each part of cells and work unit, -1 if it was not drawn."""
        pairs = np.full((work.size, self._units), -1)
        for row, begin, stop in zip(pairs, self._first[work], self._first[work + 1], strict=True):
            row[self._home[begin:stop]] = np.arange(begin, stop)
        return pairs[:, parts.unit]

    def of(self, work: Int64, parts: CellParts) -> Float64:
        """Return the share of each part in its cell, by work unit."""
        jobs = self._mean[self._pairs(work, parts)] + _NOBODY
        cells = np.flatnonzero(np.append(True, np.diff(parts.cell) != 0))
        return np.asarray(jobs / np.add.reduceat(jobs, cells, axis=1)[:, parts.cell])

    def alike(self, counts: Float64) -> Float64:
        """Return draws of pairs whose cells keep their jobs and divide by these shares."""
        result = np.empty_like(counts)
        for row, divided in zip(counts, result, strict=True):
            cells = np.bincount(self._cell, row[self._pair])
            divided[:] = np.bincount(self._pair, self._share * cells[self._cell], row.size)
        return result


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

    def known(self) -> BlockSums:
        """Return those that have estimates."""
        known = np.isfinite(self.value)
        return BlockSums(self.number[known], self.value[known], self.variance[known])


class _Areas(NamedTuple):
    """The cells of groups in parts by area: areas, rising, the first part of each, cells, and shares."""

    numbers: Int64
    begin: Int64
    cell: Int64
    share: Float64

    @classmethod
    def of(cls, area: Int64, parts: CellParts, share: Float64, of_group: Int64) -> _Areas:
        """Return those of areas of units, given the shares of parts by work unit, and those of groups."""
        order = np.lexsort((parts.cell, area[parts.unit]))
        cell, number = parts.cell[order], area[parts.unit[order]]
        first = np.flatnonzero(np.append(True, (np.diff(number) != 0) | (np.diff(cell) != 0)))
        numbers, begin = np.unique(number[first], return_index=True)
        shares = np.add.reduceat(share[:, order], first, axis=1)
        return cls(numbers, begin, cell[first], shares[of_group])

    def cut(self) -> NDArray[np.bool_]:
        """Say of each area whether it has a part of a cell only."""
        return np.asarray(np.logical_or.reduceat((self.share < 1 - 1e-9).any(axis=0), self.begin))

    def sums(self, values: Float64, squared: bool = False) -> Float64:
        """Add up the parts of cells, along the last axis, by area, times shares or their squares."""
        share = self.share**2 if squared else self.share
        return np.asarray(np.add.reduceat(values[:, self.cell] * share, self.begin, axis=1))


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
    jobs, shares = sums_by(flows.work, counts), UnitShares(flows, measured)
    for blocks, known in zip(scales, measured.sums(scales, shares), strict=True):
        number, of_pair = np.unique(
            blocks.of(blocks.home[flows.home], blocks.work[flows.work]), return_inverse=True
        )
        alike = sums_by(of_pair, shares.alike(counts))
        _, here, there = np.intersect1d(number, known.number, assume_unique=True, return_indices=True)
        moves = np.zeros(alike.shape)
        moves[:, here] = _moves(alike[:, here], known.value[there], known.variance[there])
        # As in a normal distribution: what becomes known of a sum moves its parts by their variances.
        parts = counts.var(axis=0, ddof=1) * (counts > 0)
        whole = sums_by(of_pair, parts)
        moves = np.divide(moves, whole, out=np.zeros(alike.shape), where=whole > 0)
        counts = np.maximum(counts + moves[:, of_pair] * parts, 0.0)
        if measured.exact:
            now = sums_by(flows.work, counts)
            counts *= np.divide(jobs, now, out=np.ones(jobs.shape), where=now > 0)[:, flows.work]
    return counts.astype(np.float32)


def _moves(sums: Float64, value: Float64, variance: Float64) -> Float64:
    """Return what to add to the draws of sums, shape (n_draws, n_blocks)."""
    mean, spread = sums.mean(axis=0), sums.var(axis=0, ddof=1)
    spread = np.maximum(spread, _LEAST_KNOWN * variance)
    some = (variance > 0) & (mean > _FEWEST_JOBS)
    result = np.zeros(sums.shape)
    if np.count_nonzero(some) < _FEWEST_BLOCKS:
        return result
    x, y, v = mean[some], value[some], variance[some]
    drawn = _smoothed(spread[some], x, v)
    s = np.minimum(drawn, _MOST_KNOWN * v)
    w = s / v
    prior = s / (1 - w)
    middle = x - w / (1 - w) * (y - x)
    weight = 1 / (prior + v) ** 2
    wider = float((((y - middle) ** 2 - v) * prior * weight).sum() / (prior**2 * weight).sum())
    prior = prior * max(wider, 1.0)
    w = prior / (prior + v)
    apart = np.sqrt(np.maximum(w * v / drawn, 1.0))
    result[:, some] = middle + w * (y - middle) + (sums[:, some] - x) * apart - sums[:, some]
    return result


def _smoothed(spread: Float64, mean: Float64, variance: Float64) -> Float64:
    """Return variances that follow sizes and noise by power laws: few draws say little of a single one."""
    columns = np.stack([np.ones(mean.size), np.log(mean), np.log(variance)], axis=1)
    power = np.linalg.lstsq(columns, np.log(spread), rcond=None)[0]
    smooth = np.exp(columns @ power)
    return np.asarray(smooth * (spread.sum() / smooth.sum()))
