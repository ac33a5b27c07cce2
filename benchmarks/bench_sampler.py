"""The sampler on Rhode Island's pools: planned cells, eight million cells, and numpy beside it on all blocks.

The pools are drawn again with every pool on a domain of eight million cells: with the noise mass of each pool
unchanged, and with the prior of each cell unchanged, so that there is nothing but noise, without pruning and
with it (where every proposal throws a coin, and 1/f proposals make a draw). Then with all blocks as cells, as
a dense numpy implementation does it; both have the same distribution, so they fill about as many pairs of
pool and block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from conftest import Measure, Planned

import synth
from synth.dirichlet.urn import Urns, sample_cells

TABLE = "Sampler: Rhode Island's pools, one core"
CELLS = 8_000_000
DENSE_PRIOR = 0.001
PLANNED = "planned cells"
NUMPY = "all blocks as cells: numpy, dense gamma and multinomial"


def bench_planned_cells(rhode_island: Planned, measure: Measure) -> None:
    measure(TABLE, PLANNED, draws(rhode_island.urns, rhode_island.cells), workers=rhode_island.cells.size)


@pytest.mark.parametrize("name", ["same noise mass", "all noise, retention 1", "all noise, same retention"])
def bench_eight_million_cells(rhode_island: Planned, measure: Measure, name: str) -> None:
    urns = {
        "same noise mass": same_mass,
        "all noise, retention 1": flat,
        "all noise, same retention": same_prior,
    }[name](rhode_island.urns)
    # Places of the workers in the large domain: any will do.
    cells = np.random.default_rng(0).integers(0, CELLS, rhode_island.cells.size, dtype=np.int32)
    measure(TABLE, f"{CELLS:,} cells, {name}", draws(urns, cells), workers=cells.size, against=PLANNED)


def bench_all_blocks_numpy(rhode_island: Planned, measure: Measure) -> None:
    blocks, n = rhode_island.plan.geography.n_blocks, rhode_island.plan.pools.n
    rng, pairs = np.random.default_rng(2), []

    def dense() -> None:
        start, distinct = 0, 0
        for size in n.tolist():
            weight = np.full(blocks, DENSE_PRIOR)
            np.add.at(weight, rhode_island.homes[start : start + size], 1.0)
            theta = rng.standard_gamma(weight)
            distinct += np.count_nonzero(rng.multinomial(size, theta / theta.sum()))
            start += size
        pairs.append(distinct)

    figures = {"cells": f"{blocks:,}", "prior": DENSE_PRIOR}
    workers = rhode_island.cells.size
    record = measure(TABLE, NUMPY, dense, rounds=3, warm=False, workers=workers, **figures)
    record["pairs of pool and block filled"] = f"{round(np.mean(pairs)):,}"


def bench_all_blocks_sampler(rhode_island: Planned, measure: Measure) -> None:
    blocks, n = rhode_island.plan.geography.n_blocks, rhode_island.plan.pools.n
    urns = flat(rhode_island.urns)._replace(
        cells_by_stratum=np.arange(blocks, dtype=np.int32),
        stratum_offsets=np.array([[0, blocks]]),
        prior=np.full((n.size, 1), DENSE_PRIOR * rhode_island.urns.denominator, np.int64),
    )
    draw = draws(urns, rhode_island.homes)
    figures = {"cells": f"{blocks:,}", "prior": DENSE_PRIOR}
    record = measure(
        TABLE, "all blocks as cells: odsynth", draw, workers=rhode_island.cells.size, against=NUMPY, **figures
    )
    pool = np.repeat(np.arange(n.size), n)
    record["pairs of pool and block filled"] = f"{np.unique(pool * blocks + draw()).size:,}"


def draws(urns: Urns, cells: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a call that draws all workers."""
    key = synth.RunKey.generate()
    return lambda: sample_cells(urns, cells, key.stream("benchmark", 0))


def same_prior(urns: Urns) -> Urns:
    """Put every pool on one domain of CELLS cells whose strata have the shares that they have now."""
    sizes = np.diff(urns.stratum_offsets, axis=1).sum(axis=0)
    bounds = np.round(np.cumsum(sizes) / sizes.sum() * CELLS).astype(np.int64)
    order = np.random.default_rng(1).permutation(CELLS).astype(np.int32)
    return urns._replace(
        domain=np.zeros_like(urns.domain),
        cells_by_stratum=order,
        stratum_offsets=np.concatenate([[0], bounds])[None, :].astype(np.int64),
        prior=np.maximum(urns.prior, 1),
    )


def flat(urns: Urns) -> Urns:
    """Put every pool on one domain of CELLS cells with retention 1 and the prior that it now has there."""
    return urns._replace(
        domain=np.zeros_like(urns.domain),
        coin=urns.coin[:1],
        cells_by_stratum=np.arange(CELLS, dtype=np.int32),
        stratum_offsets=np.array([[0, CELLS]]),
        prior=urns.prior.max(axis=1, keepdims=True),
    )


def same_mass(urns: Urns) -> Urns:
    """As `same_prior`, with the noise mass of every pool what it is now (at least one unit a cell)."""
    now = (urns.prior * np.diff(urns.stratum_offsets, axis=1)[urns.domain]).sum(axis=1)
    large = same_prior(urns)
    sizes = np.diff(large.stratum_offsets, axis=1)[0]
    scale = now / (large.prior * sizes).sum(axis=1)
    return large._replace(prior=np.maximum((large.prior * scale[:, None]).astype(np.int64), 1))
