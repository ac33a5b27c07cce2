"""What was published of confidential counts: noisy counts, or draws from urns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.geometric.measured import MeasuredTable
from synth.plan import Table
from synth.posterior.conditional import NOISE, URN

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was published of the counts of a table's cells.

    There are tens of millions of cells, but few kinds of them.

    Attributes
    ----------
    kind : int
        `synth.posterior.conditional.NOISE` or `URN`.
    seen : ndarray of int, shape (n_cells,)
        Noisy counts, or draws.
    which : ndarray of int, shape (n_cells,)
        The kind of each cell, from 0.
    parameter : ndarray of float64, shape (n_kinds,)
        p, or the prior a of the urn.
    keep : ndarray of float64, shape (n_kinds,)
        Retention: the probability that a cell without jobs was in the urn.
    """

    kind: int
    seen: NDArray[np.integer]
    which: NDArray[np.integer]
    parameter: Float64
    keep: Float64

    @classmethod
    def noise(cls, table: MeasuredTable, noisy: Int64) -> Evidence:
        """Return that of noisy counts, shape (n_cells,)."""
        return cls(NOISE, noisy, np.zeros(noisy.size, np.uint8), np.array([table.ratio]), np.ones(1))

    @classmethod
    def urn(
        cls, drawn: NDArray[np.integer], which: NDArray[np.integer], prior: Float64, retention: Float64
    ) -> Evidence:
        """Return that of resampled draws: number of draws and kind by cell; a and retention by kind."""
        return cls(URN, drawn, which, prior, retention)

    def of(self, cells: slice) -> tuple[Int64, Float64, Float64]:
        """Return what was seen of some cells, their parameter, and their retention."""
        which = self.which[cells]
        return self.seen[cells].astype(np.int64), self.parameter[which], self.keep[which]

    def unbiased(self, table: Table, group: int | None = None) -> tuple[Float64, Float64, Float64]:
        """Return unbiased estimates of the counts, and the constant part of their variances and a job's.

        Parameters
        ----------
        table : Table
        group : int, optional
            Of the table: whose cells. By default all cells of noisy counts.

        Returns
        -------
        value, variance, slope : ndarray of float64, shape (n_cells,)
            An estimate of a count that is about x, of n jobs, has the variance `variance` + x (1 - x/n)
            `slope`, about. An urn of one job says where that is nearly surely: it has next to no slope.
        """
        cells = slice(None) if group is None else slice(*table.offsets[group : group + 2])
        seen, parameter, keep = self.of(cells)
        if self.kind == NOISE:
            p = parameter
            return seen.astype(np.float64), 2 * p / (1 - p) ** 2, np.zeros(p.size)
        if group is None:
            raise ValueError("draws from urns are looked at group by group")
        total, drawn = float(table.n[group] + parameter @ keep), int(seen.sum())
        unit = total / drawn * (1 + (drawn - 1) / (total + 1))
        part = parameter / total
        value = seen * (total / drawn) - parameter
        return value, parameter * unit * (1 - part), unit * np.maximum(1 - 1 / total - 2 * part, 0)
