"""Proxy truth: homes drawn from the public model, on which a plan can be tried without confidential data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geo_data.model import PublicModel

__all__ = ["proxy_homes"]

_AT_A_TIME = 64  # destinations whose shares are held at once


def proxy_homes(model: PublicModel, work: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
    """Draw a home for every job under the public model, as far from it as destinations are.

    The shares of each destination unit are Dirichlet(kappa P(. | d)), and those of each of its work blocks
    Dirichlet(kappa times the unit's): blocks differ from their unit as units differ from the model. Homes are
    draws from the block's shares; inside a unit they follow the public weights.

    Parameters
    ----------
    model : PublicModel
    work : ndarray of int32, shape (n,)
        Public work block of each job.
    seed : int
        Nothing confidential is drawn, so the generator is an ordinary one.

    Returns
    -------
    ndarray of int32, shape (n,)
        Home blocks.
    """
    generator = np.random.default_rng(seed)
    order = np.argsort(work, kind="stable")
    unit_of_job = model.units(work[order])
    units, first = np.unique(unit_of_job, return_index=True)
    last = np.append(first[1:], work.size)
    # A block's jobs, one after another: the i-th copies an earlier one with probability i / (kappa + i), and
    # is new otherwise. That is the block's Dirichlet, its shares not written down (Blackwell, MacQueen 1973).
    begins = np.flatnonzero(np.append(True, np.diff(work[order]) != 0))
    begin = np.repeat(begins, np.diff(np.append(begins, work.size)))
    place = np.arange(work.size) - begin
    new = generator.random(work.size) * (model.concentration + place) < model.concentration
    source = np.where(
        new, np.arange(work.size), begin + (generator.random(work.size) * place).astype(np.int64)
    )
    while np.any(source[source] != source):
        source = source[source]
    home_units = np.empty(work.size, np.int64)
    for at in range(0, units.size, _AT_A_TIME):
        batch = slice(at, at + _AT_A_TIME)
        for shares, low, high in zip(model.shares(units[batch]), first[batch], last[batch], strict=True):
            own = np.cumsum(_dirichlet(generator, model.concentration * shares))
            drawn = np.searchsorted(own, generator.random(high - low) * own[-1], side="right")
            home_units[low:high] = np.minimum(drawn, model.n_units - 1)
    home_units = home_units[source]
    starts = model.geography.starts(model.level).astype(np.int64)
    running = np.append(0, np.cumsum(model.weights))
    ends = np.append(starts[1:], model.geography.n_blocks)
    before, after = running[starts[home_units]], running[ends[home_units]]
    weight = before + generator.integers(0, after - before)
    homes = np.empty(work.size, np.int32)
    homes[order] = np.searchsorted(running, weight, side="right") - 1
    return homes


def _dirichlet(generator: np.random.Generator, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    gamma = generator.standard_gamma(alpha)
    total = gamma.sum()
    # Gammas of tiny shapes may all underflow; the mean is then as good as any.
    return gamma / total if total > 0 else alpha / alpha.sum()
