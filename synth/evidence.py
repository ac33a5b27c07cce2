"""What was published of confidential counts: noisy counts, or draws from urns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synth.conditional import NOISE, URN
from synth.measured import MeasuredTable
from synth.plan import Table

__all__ = ["Evidence"]

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Evidence:
    """What was published of the counts of a table's cells.

    Attributes
    ----------
    kind : int
        `synth.conditional.NOISE` or `URN`.
    seen : ndarray of int64, shape (n_cells,)
        Noisy counts, or draws.
    parameter : ndarray of float64, shape (n_cells,)
        p, or the prior a of the urn.
    keep : ndarray of float64, shape (n_cells,)
        Retention: the probability that a cell without jobs was in the urn.
    """

    kind: int
    seen: Int64
    parameter: Float64
    keep: Float64

    @classmethod
    def noise(cls, table: MeasuredTable, noisy: Int64) -> Evidence:
        """Return that of noisy counts, shape (n_cells,)."""
        return cls(NOISE, noisy, np.full(noisy.size, table.ratio), np.ones(noisy.size))

    @classmethod
    def urn(cls, drawn: Int64, prior: Float64, retention: Float64) -> Evidence:
        """Return that of resampled draws, by cell: number of draws, a, and retention."""
        return cls(URN, drawn, prior, retention)

    def unbiased(self, table: Table) -> tuple[Float64, Float64, Float64]:
        """Return unbiased estimates of the counts, and the constant part of their variances and a job's.

        Parameters
        ----------
        table : Table

        Returns
        -------
        value, variance, slope : ndarray of float64, shape (n_cells,)
            An estimate of x jobs has the variance `variance` + x `slope`, about.
        """
        if self.kind == NOISE:
            p = self.parameter
            return self.seen.astype(np.float64), 2 * p / (1 - p) ** 2, np.zeros(p.size)
        size = np.repeat(table.n, table.k).astype(np.float64)
        total = size + np.repeat(np.add.reduceat(self.parameter * self.keep, table.offsets[:-1]), table.k)
        drawn = np.repeat(np.add.reduceat(self.seen, table.offsets[:-1]), table.k)
        unit = total / drawn * (1 + (drawn - 1) / (total + 1))
        return self.seen * total / drawn - self.parameter, self.parameter * unit, unit
