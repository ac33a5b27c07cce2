"""The one function that sees homes beside randomness: the mechanism on a batch of pools, and spreading.

A run hands it the confidential homes; simulated utility hands it homes drawn from the public model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.planning.plan import ReleasePlan

__all__ = ["sample_batch"]


def sample_batch(
    plan: ReleasePlan, pools: slice, homes: NDArray[np.int32], key: synth.RunKey, batch: int, run: int = 0
) -> NDArray[np.int32]:
    """Run the mechanism on a batch of pools, and return the home blocks of the synthetic workers.

    Parameters
    ----------
    plan : ReleasePlan
    pools : slice
        Consecutive pools.
    homes : ndarray of int32
        **Confidential**: home block of every real worker of these pools, pool after pool.
    key : synth.RunKey
    batch : int
        Number of the batch.
    run : int
        Number of the run of the mechanism, below `Implicates.runs`. Each run of a batch has streams of its
        own.

    Returns
    -------
    ndarray of int32, shape (n_implicates, n_slots)
        A row for each implicate that is cut from a run, slot after slot: the t-th draw of a pool belongs to
        its t-th slot.
    """
    numeric = plan.numeric
    domain = np.repeat(numeric.pools.domain[pools], numeric.pools.n[pools])
    cells = numeric.domains.locate(domain, homes)
    of_run = f" {run}" if run else ""  # the first run has the streams of a release of one implicate
    drawn = plan.mechanism.sample(numeric, pools, cells, key.stream(f"urn{of_run}", batch))
    domain = np.repeat(numeric.pools.domain[pools], numeric.pools.m[pools])
    stream = key.stream(f"blocks{of_run}", batch)
    blocks = synth.draw_blocks(numeric.domains, domain, drawn, plan.cumulative_weights, plan.shares, stream)
    return plan.implicates.cut(blocks, numeric.pools.n[pools])
