"""Pseudo-truth: homes drawn from the public model, on which a plan can be tried without confidential data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from geo_data._model_tables import AT_A_TIME
from geo_data.model import PublicModel

__all__ = ["pseudo_homes"]


def pseudo_homes(model: PublicModel, work: NDArray[np.int32], seed: int) -> NDArray[np.int32]:
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
    blocks, job, count = np.unique(work, return_inverse=True, return_counts=True)
    unit_of_block = model.units(blocks.astype(np.int32))
    units = np.unique(unit_of_block)
    home_units = np.empty(work.size, np.int64)
    drawn: list[NDArray[np.int64]] = []
    for at in range(0, units.size, AT_A_TIME):
        batch = units[at : at + AT_A_TIME]
        for unit, shares in zip(batch, model.shares(batch), strict=True):
            own = _dirichlet(generator, model.concentration * shares)
            for n in count[unit_of_block == unit]:
                block = _dirichlet(generator, model.concentration * own)
                drawn.append(np.repeat(np.arange(model.n_units), generator.multinomial(n, block)))
    home_units[np.argsort(job, kind="stable")] = np.concatenate(drawn)
    starts = model.geography.starts(model.level).astype(np.int64)
    running = np.append(0, np.cumsum(model.weights))
    ends = np.append(starts[1:], model.geography.n_blocks)
    low, high = running[starts[home_units]], running[ends[home_units]]
    place = low + generator.integers(0, high - low)
    return (np.searchsorted(running, place, side="right") - 1).astype(np.int32)


def _dirichlet(generator: np.random.Generator, alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    gamma = generator.standard_gamma(alpha)
    total = gamma.sum()
    # Gammas of tiny shapes may all underflow; the mean is then as good as any.
    return gamma / total if total > 0 else alpha / alpha.sum()
