"""What noisy counts tell of the public model, before they are believed cell by cell.

A model errs alike in many cells: in all homes of an area, in all commutes that are as long, in all homes that
are where the work is. Sums of noisy counts over such cells have little noise, so they teach it factors for
each of these: a commute between a place and a unit of homes is expected as often as the model says, times the
factor of its band (of distances, and one of homes in the place itself) and that of the unit, and scaled so
that a group has as many jobs as it has. A factor is drawn towards 1, the more, the less its sum tells. It
costs no privacy: it sees noisy counts, or counts that draws from urns let expect, and public numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth.geometric.measured import MeasuredTable

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_PRIOR_JOBS = 1.0  # that were as expected in each band beforehand: next to nothing, but never nothing
_TURNS = 3  # of bands, before units of homes have factors; two more after
_LEAST_VARIANCE = 1e-6  # of factors of units: smaller ones change nothing
_MARGIN_TURNS = 2  # of all attributes


class Pieces(NamedTuple):
    """Cells of one place, cut where units of homes begin.

    Attributes
    ----------
    cell : ndarray of int, shape (n_pieces,)
        The cell of each, from 0.
    share : ndarray of float64, shape (n_pieces,)
        What the public model has in it: all together need not be 1.
    unit, band : ndarray of int, shape (n_pieces,)
        The unit of homes, and the band of its way to the place.
    """

    cell: NDArray[np.integer]
    share: Float64
    unit: NDArray[np.integer]
    band: NDArray[np.integer]


class Counted(NamedTuple):
    """Groups of one place that are counted in the same cells, together: unbiased counts, and their jobs."""

    pieces: Pieces
    noisy: Int64 | Float64
    n: int


@dataclass(frozen=True, eq=False)
class Factors:
    """What the shares of a model are multiplied by.

    Attributes
    ----------
    band, unit : ndarray of float64, shape (n_bands,), (n_units,)
    """

    band: Float64
    unit: Float64


def learn_factors(counted: Sequence[Counted], n_bands: int, n_units: int) -> Factors:
    """Return the factors that noisy counts teach.

    Parameters
    ----------
    counted : sequence of Counted
    n_bands, n_units : int
    """
    sums = _Sums(counted)
    band, unit = np.ones(n_bands), np.ones(n_units)
    for _ in range(_TURNS):
        band = _drawn_nearer(band, sums.by(sums.band, band, unit), _PRIOR_JOBS)
    for _ in range(2):
        observed = sums.by(sums.unit, band, unit)
        unit = _drawn_nearer(unit, observed, 1 / max(_variance(unit, observed), _LEAST_VARIANCE))
        band = _drawn_nearer(band, sums.by(sums.band, band, unit), _PRIOR_JOBS)
    return Factors(band, unit)


class _Observed(NamedTuple):
    """By label: the ratio of counted jobs to expected ones, and how many expected jobs have its variance."""

    ratio: Float64
    jobs: Float64


class _Sums:
    """All pieces, one after another."""

    def __init__(self, counted: Sequence[Counted]) -> None:
        sizes = np.array([group.noisy.size for group in counted])
        first = np.repeat(np.cumsum(sizes) - sizes, [group.pieces.cell.size for group in counted])
        self._cell = np.concatenate([group.pieces.cell for group in counted]) + first
        self._share = np.concatenate([group.pieces.share for group in counted])
        self.unit = np.concatenate([group.pieces.unit for group in counted])
        self.band = np.concatenate([group.pieces.band for group in counted])
        self._noisy = np.concatenate([group.noisy for group in counted]).astype(np.float64)
        self._of = np.repeat(np.arange(sizes.size), [group.pieces.cell.size for group in counted])
        self._n = np.array([group.n for group in counted], np.float64)

    def by(self, label: Int64, band: Float64, unit: Float64) -> _Observed:
        """Add up by label. The variance of a ratio is seen from how far the cells are off."""
        share = self._share * band[self.band] * unit[self.unit]
        total = np.bincount(self._of, share, self._n.size)
        jobs = share * (self._n / total)[self._of]
        of_cell = np.bincount(self._cell, jobs, self._noisy.size)
        part = jobs / np.maximum(of_cell, 1e-300)[self._cell]
        off = part * (self._noisy - of_cell)[self._cell]
        size = (band if label is self.band else unit).size
        expected = np.bincount(label, jobs, size)
        ratio = 1 + np.bincount(label, off, size) / np.maximum(expected, 1e-300)
        squares = np.bincount(label, off * off, size)
        return _Observed(ratio, expected * expected / np.maximum(np.maximum(squares, expected), 1e-300))


def learn_margins(table: MeasuredTable, noisy: Int64, expected: Float64, margins: Int64) -> Float64:
    """Return what is expected of a table's cells, once their sums by single attributes have taught it.

    A model that knows nothing of an attribute errs alike in all cells of a home area and of one category,
    whatever their other attributes are.

    Parameters
    ----------
    table : MeasuredTable
    noisy : ndarray of int64, shape (n_cells,)
    expected : ndarray of float64, shape (n_cells,)
        Adds up to its size in each group.
    margins : ndarray of int64, shape (n_attributes, n_groups)
        By attribute a number that groups of one category have in common.
    """
    group = np.repeat(np.arange(table.n.size), table.k)
    position = np.arange(group.size) - table.offsets[group]
    variances = table.noise_variances
    sums = []  # of each attribute: the label of every cell, noisy sums by label, and the variances of these
    for margin in margins:
        kind = np.unique(margin * table.domains.n_domains + table.domain, return_inverse=True)[1]
        label = kind[group] * int(table.k.max()) + position
        sums.append((label, np.bincount(label, noisy), np.bincount(label, variances)))
    for label, counted, noise in sums * _MARGIN_TURNS:
        total = np.bincount(label, expected)
        ratio = counted / np.maximum(total, 1e-300)
        observed = _Observed(ratio, total * total / np.maximum(noise + total, 1e-300))
        ones = np.ones(total.size)
        factor = _drawn_nearer(ones, observed, 1 / max(_variance(ones, observed), _LEAST_VARIANCE))
        expected = expected * factor[label]
        expected *= (table.n / np.bincount(group, expected, table.n.size))[group]
    return expected


def _drawn_nearer(factor: Float64, observed: _Observed, prior: float) -> Float64:
    """Return new factors, as if beforehand so many jobs had been counted where as many were expected."""
    result: Float64 = (prior + np.maximum(observed.ratio, 0) * observed.jobs) / (
        prior + observed.jobs / factor
    )
    return result


def _variance(factor: Float64, observed: _Observed) -> float:
    """Return how much factors vary around 1 beyond their sums' own variance (DerSimonian and Laird 1986)."""
    jobs = observed.jobs / factor
    weight = np.where(observed.jobs > 0, jobs, 0)
    off = np.maximum(observed.ratio, 0) * factor - 1
    excess = float((weight * off * off).sum()) - np.count_nonzero(weight)
    return excess / max(float(weight.sum()), 1e-300)
