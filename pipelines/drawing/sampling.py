"""The functions that see homes beside randomness: `sample_batch` and, where tables are measured, `measure`.

Where a release is refined, `refine` stands in place of `measure`.

A run hands them the confidential homes; simulated utility hands them homes drawn from the public model.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.plans.plan import ReleasePlan
from synth.block_sampling import draw_blocks
from synth.geometric.measured import MeasuredTable
from synth.noise import Noise
from synth.randomness import WordStream, leave_out


def sample_batch(
    plan: ReleasePlan,
    pools: slice,
    homes: NDArray[np.int32],
    key: synth.RunKey,
    batch: int,
    run: int = 0,
    sizes: NDArray[np.int64] | None = None,
) -> NDArray[np.int32]:
    """Run the mechanism on a batch of pools, and return the homes (origins) of the synthetic workers.

    `homes`, and `sizes` where given, are **confidential**: the origin of every real worker of consecutive
    pools, and how many each pool has where that is not its slots
    (`synth.Plan.record_range`). Each run of the mechanism, below `Implicates.runs`, has streams of its own.
    Returned is a row for each implicate that is cut from a run, (n_implicates, n_slots): the t-th draw of a
    pool belongs to its t-th slot.
    """
    numeric, mechanism, of_run = plan.numeric, plan.mechanism, _of_run(run)
    if numeric.target.record_range is None:
        sizes = None  # every pool has its public number
    elif sizes is not None:
        limits = numeric.target.record_range.limits(numeric.pools.n[pools])
        homes, sizes = bring_into_range(plan, pools, homes, sizes, limits, key, batch, of_run)
    domain = np.repeat(numeric.pools.domain[pools], numeric.pools.n[pools] if sizes is None else sizes)
    cells = numeric.domains.locate(domain, homes)
    drawn = mechanism.sample(numeric, pools, cells, key.stream(f"urn{of_run}", batch), sizes)
    domain = np.repeat(numeric.pools.domain[pools], numeric.pools.m[pools])
    stream = key.stream(f"blocks{of_run}", batch)
    shares = plan.shares
    blocks = draw_blocks(numeric.domains, domain, drawn, plan.cumulative_weights, shares, stream)
    return plan.implicates.cut(blocks, numeric.pools.n[pools])


def measure(
    counts: NDArray[np.int64],
    table: MeasuredTable,
    key: synth.RunKey,
    number: int,
    batch: int = 0,
    run: int = 0,
) -> NDArray[np.int64]:
    """Return noisy counts of a measured table, or of some groups of it.

    Lemma 20 of docs/privacy.md; of discrete Gaussian noise, Lemma 50.

    `counts` are **confidential** (`synth.geometric.measured.count_cells`); what is returned may be published.
    The number of the table in the plan, of the batch that holds the groups, and of the run of the mechanism
    name a stream of its own.
    """
    return counts + table.parameters.draw(counts.size, _noise_stream(key, number, batch, run))


def weaken(
    noisy: NDArray[np.int64],
    stronger: Noise,
    table: MeasuredTable,
    key: synth.RunKey,
    number: int,
    batch: int = 0,
    run: int = 0,
) -> NDArray[np.int64]:
    """Return the noisy counts of a weaker tier, made of those of a stronger one: of nothing confidential.

    Lemma 57 of docs/privacy.md.

    `stronger` is the noise that the counts have; the table, its number, batch and run are those of `measure`,
    in the plan and by the key of the weaker tier.
    """
    return noisy + table.parameters.draw_added(stronger, noisy.size, _noise_stream(key, number, batch, run))


def refine(
    counts: NDArray[np.int64],
    noisy: NDArray[np.int64],
    weaker: Noise,
    table: MeasuredTable,
    key: synth.RunKey,
    number: int,
    batch: int = 0,
    run: int = 0,
) -> NDArray[np.int64]:
    """Return noisy counts of a measured table with less noise than those that were published before.

    Lemma 58 of docs/privacy.md.

    `counts` are **confidential**; `noisy` are theirs in the earlier release, whose noise is `weaker`. Other
    parameters are those of `measure`.
    """
    stream = _noise_stream(key, number, batch, run)
    return counts + table.parameters.draw_refined(noisy - counts, weaker, stream)


def _noise_stream(key: synth.RunKey, number: int, batch: int, run: int) -> WordStream:
    return key.stream(f"noise {number}{_of_run(run)}", batch)


def _of_run(run: int) -> str:
    return f" {run}" if run else ""  # the first run has the streams of a release of one implicate


def bring_into_range(
    plan: ReleasePlan,
    pools: slice,
    homes: NDArray[np.int32],
    sizes: NDArray[np.int64],
    limits: tuple[NDArray[np.int64], NDArray[np.int64]],
    key: synth.RunKey,
    batch: int,
    of_run: str = "",
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Give every pool a number of workers between the fewest and the most; return homes and numbers.

    Of more than the most, as many stay as that, chosen by lot; fewer than the fewest are filled up with homes
    from the public model. Both are independent of homes (Lemma 31 of docs/privacy.md).
    """
    least, most = limits
    homes = homes[leave_out(sizes, most, key.stream(f"lots{of_run}", batch))]
    sizes = np.minimum(sizes, most)
    missing = np.maximum(least - sizes, 0)
    if not missing.any():
        return homes, sizes
    places = np.repeat(plan.pools.block[pools], missing)
    part = plan.policy.part(places)  # the only one, as numbers of records are confidential
    more = draw_from_model(plan, places, part, key.stream(f"filling{of_run}", batch))
    pool = np.arange(sizes.size)
    order = np.argsort(np.concatenate([np.repeat(pool, sizes), np.repeat(pool, missing)]), kind="stable")
    return np.concatenate([homes, more])[order], sizes + missing


def draw_from_model(
    plan: ReleasePlan, places: NDArray[np.int32], part: NDArray[np.int32], stream: WordStream
) -> NDArray[np.int32]:
    """Draw a home block, or an origin, of each destination's block and part, from the public model alone."""
    # A block of a cell that holds all blocks of the part.
    count, policy = plan.destinations.size, plan.policy
    everywhere = synth.Domains(
        plan.geography.n_blocks,
        np.arange(count * policy.n_parts + 1, dtype=np.int64),
        np.tile(policy.parts, count),
        np.zeros(count * policy.n_parts, np.uint8),
        policy,
    )
    unit = plan.geography.unit_of(plan.level, places)
    domain = (np.searchsorted(plan.destinations, unit) * policy.n_parts + part).astype(np.int32)
    row = np.repeat(plan.destination_shares.row, policy.n_parts)
    shares, begin = plan.destination_shares.for_domains(row), np.flatnonzero(np.diff(domain, prepend=-1))
    times, cells = np.diff(begin, append=domain.size), np.zeros(begin.size, np.int32)
    weights = plan.cumulative_weights
    return draw_blocks(everywhere, domain[begin], cells, weights, shares, stream, times)
