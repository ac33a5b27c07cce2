"""Speed of the sampler on Rhode Island's pools, and what a domain of eight million cells costs.

Usage: python benchmarks/sampler.py

Prints synthetic workers per second on one core, median of several repetitions after the compile, and the
ratio of the same pools with every pool on a domain of eight million cells, measured in the same run: with the
noise mass of each pool unchanged, and with the prior of each cell unchanged, so that there is nothing but
noise, without pruning and with it (where every proposal throws a coin, and 1/f proposals make a draw). Then
the time of a dense numpy implementation with all blocks as cells; both have the same distribution, so they
should fill about as many pairs of pool and block.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import geo_data
import pipelines
import synth
from pipelines.public_inputs import job_source
from synth.urn import Urns, sample_cells

CONFIG = Path(__file__).parent.parent / "examples" / "rhode_island.toml"
CELLS = 8_000_000
REPETITIONS = 9
DENSE_PRIOR = 0.001


def main() -> None:
    """Measure and print."""
    config = pipelines.load_config(CONFIG)
    release = pipelines.make_plan(config)
    records = job_source(config, release.geography).records(config.plan.pool_by)
    homes = geo_data.group_records(release.pools, release.geography, records)
    plan = release.plan
    domain = np.repeat(plan.pools.domain, plan.pools.n)
    cells = plan.domains.locate(domain, homes)
    urns = synth.Dirichlet().urns(plan, slice(0, None))
    rng = np.random.default_rng(0)  # places of the workers in the large domain: any will do
    spread = rng.integers(0, CELLS, cells.size, dtype=np.int32)
    key = synth.RunKey.generate()

    def job(u: Urns, c: np.ndarray) -> Callable[[], object]:
        return lambda: sample_cells(u, c, key.stream("benchmark", 0))

    base = timed(job(urns, cells))
    print(f"Rhode Island, {plan.pools.n_pools:,} pools, {cells.size:,} workers")
    print(f"  {'planned domains':42} {cells.size / base / 1e6:6.1f} million workers a second and core")
    cases = {
        "same noise mass": same_mass(urns),
        "all noise, retention 1": flat(urns),
        "all noise, same retention": same_prior(urns),
    }
    for name, large in cases.items():
        seconds = timed(job(large, spread))
        print(
            f"  {f'{CELLS:,} cells, {name}':42} {cells.size / seconds / 1e6:6.1f} million;"
            f" {seconds / base:.2f} times the time"
        )

    dense(urns, homes, plan.pools.n, release.geography.n_blocks, job)


def dense(
    urns: Urns,
    homes: np.ndarray,
    n: np.ndarray,
    blocks: int,
    job: Callable[[Urns, np.ndarray], Callable[[], object]],
) -> None:
    """Compare with a dense gamma and multinomial of numpy on all blocks as cells, the same distribution."""
    prior = DENSE_PRIOR * urns.denominator
    ours = replace(
        flat(urns),
        cells_by_stratum=np.arange(blocks, dtype=np.int32),
        stratum_offsets=np.array([[0, blocks]]),
        prior=np.full((n.size, 1), prior, np.int64),
    )
    seconds = timed(job(ours, homes))
    drawn = np.asarray(job(ours, homes)())
    rng = np.random.default_rng(2)
    start, distinct = 0, 0
    begin = time.perf_counter()
    for size in n.tolist():
        weight = np.full(blocks, DENSE_PRIOR)
        np.add.at(weight, homes[start : start + size], 1.0)
        theta = rng.standard_gamma(weight)
        distinct += np.count_nonzero(rng.multinomial(size, theta / theta.sum()))
        start += size
    numpy_seconds = time.perf_counter() - begin
    pool = np.repeat(np.arange(n.size), n)
    print(f"All {blocks:,} blocks as cells, prior {DENSE_PRIOR}, no pruning")
    print(f"  {'the sampler':42} {seconds:9.3f} s; {len(np.unique(pool * blocks + drawn)):,} pairs")
    print(f"  {'numpy: gamma and multinomial, dense':42} {numpy_seconds:9.3f} s; {distinct:,} pairs")
    print(f"  {'ratio':42} {numpy_seconds / seconds:9.0f}")


def timed(run: Callable[[], object]) -> float:
    """Return the median wall time of a call, after one that is not counted."""
    run()
    times = []
    for _ in range(REPETITIONS):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def same_prior(urns: Urns) -> Urns:
    """Put every pool on one domain of CELLS cells whose strata have the shares that they have now."""
    sizes = np.diff(urns.stratum_offsets, axis=1).sum(axis=0)
    bounds = np.round(np.cumsum(sizes) / sizes.sum() * CELLS).astype(np.int64)
    order = np.random.default_rng(1).permutation(CELLS).astype(np.int32)
    return replace(
        urns,
        domain=np.zeros_like(urns.domain),
        cells_by_stratum=order,
        stratum_offsets=np.concatenate([[0], bounds])[None, :].astype(np.int64),
        prior=np.maximum(urns.prior, 1),
    )


def flat(urns: Urns) -> Urns:
    """Put every pool on one domain of CELLS cells with retention 1 and the prior that it now has there."""
    return replace(
        urns,
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
    return replace(large, prior=np.maximum((large.prior * scale[:, None]).astype(np.int64), 1))


if __name__ == "__main__":
    main()
