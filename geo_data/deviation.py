"""How far true shares are from expected ones: a relative variance that falls with the share.

Of a destination whose workers are expected to live in u with the share p, the true share is taken to be
p theta / sum(p theta), theta a variable of mean 1 and relative variance

    v(p) = common + 1 / (concentration p).

With common = 0 and gamma variables that is a Dirichlet distribution. It alone does not do: one that is as
uneven as real flows where shares are large leaves most small ones without anybody, and one that suits small
ones is nearly even in large ones. `geo_data.proxy_truth` draws lognormal variables between units, as gamma
variables of the same variance are 0 too often there, and gamma variables where a work block is compared with
its unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]

_LEAST = 1e-9  # relative variance below which nothing deviates


@dataclass(frozen=True)
class Deviation:
    """A relative variance of shares."""

    common: float  # of large shares, >= 0
    concentration: float  # > 0, perhaps infinite

    def shape(self, share: Float64) -> Float64:
        """Return 1 / v(p), the shape of theta, of shares in [0, 1]: 0 where p is 0, and at most 1e9."""
        variance = self.common * share + 1 / self.concentration
        return np.asarray(share / np.maximum(variance, np.maximum(_LEAST * share, np.finfo(float).tiny)))

    def left(self, share: Float64, sampled: Float64, clumps: Float64) -> Float64:
        """Return the relative variance of true shares where a table asked some workers.

        Shares deviate from expected ones by v(p) for good, and in every year, that of the table too, by
        `clumps`, of which another year tells nothing. The table's counts have the variance of chance besides:

            1 / (1 / v + 1 / (1 / asked + clumps)) + clumps.

        `share` is p, and `sampled` counts the workers asked who live there. Infinite where p is 0.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(1 / (self.shape(share) + sampled / (1 + sampled * clumps)) + clumps)

    def halved(self) -> Deviation:
        """Return half of it."""
        return Deviation(self.common / 2, self.concentration * 2)

    @classmethod
    def measured(cls, drawn: Float64, m: Float64, p: Float64) -> Deviation | None:
        """Fit to counts: of m workers asked, `drawn` were found where m p were expected.

        Two moment equations, sum w (drawn - m p)^2 = sum w (m p + (m p)^2 v(p)) with w = 1, in which large
        counts decide, and w = 1 / (1 + m p), in which small ones do.

        None where counts are expected nowhere, so that they tell nothing.
        """
        mean = m * p
        excess = (drawn - mean) ** 2 - mean
        weights = np.stack([np.ones(mean.size), 1 / (1 + mean)])
        sides = weights @ np.stack([mean**2, m * mean], axis=1)
        if not mean.any():
            return None
        common, inverse = _not_negative(sides, np.maximum(weights @ excess, 0.0))
        return cls(round(float(common), 4), round(1 / float(inverse), 1) if inverse > 0 else float("inf"))


def _not_negative(sides: Float64, moments: Float64) -> Float64:
    """Return the two numbers >= 0 with which sides >= 0, shape (2, 2), come nearest to what is wanted.

    Where both equations say the same, as where every p is alike, the first number is 0.
    """
    both, _, rank, _ = np.linalg.lstsq(sides, moments, rcond=1e-9)
    if rank == 2 and both.min() >= 0:
        return np.asarray(both)
    alone = np.diag(moments @ sides / (sides**2).sum(axis=0))  # one of them is 0
    if rank < 2:
        return np.asarray(alone[1])
    return min(alone, key=lambda candidate: float(np.linalg.norm(sides @ candidate - moments)))
