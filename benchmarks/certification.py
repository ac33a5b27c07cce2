"""Time and memory to calibrate and certify plans: Rhode Island, and a million pools of mixed kinds.

Usage: python benchmarks/certification.py

The million pools have sizes from 1 to 20,000 (heavy-tailed), domains of 5 to 2,000 cells in three retention
strata, and share 5,000 domains. One core.
"""

from __future__ import annotations

import resource
import time
from fractions import Fraction
from pathlib import Path

import numpy as np

import pipelines
import synth

CONFIG = Path(__file__).parent.parent / "examples" / "rhode_island.toml"
POOLS, DOMAINS = 1_000_000, 5_000
RETENTION = (Fraction(1), Fraction(1, 2), Fraction(1, 4))


def main() -> None:
    """Measure and print."""
    if CONFIG.exists():
        release = pipelines.make_plan(pipelines.load_config(CONFIG))
        report("Rhode Island", release.plan, None)
    pools, domains = many_pools(np.random.default_rng(1))
    begin = time.perf_counter()
    plan = synth.Dirichlet().calibrate(pools, domains, RETENTION, synth.exact("8.6"), synth.exact("1e-5"))
    report("A million pools", plan, time.perf_counter() - begin)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def many_pools(rng: np.random.Generator) -> tuple[synth.Pools, synth.Domains]:
    """Return pools and domains of mixed kinds."""
    blocks = 100_000
    cells = np.minimum(5 + rng.pareto(0.7, DOMAINS) * 10, 2000).astype(np.int64)
    cuts = [np.append(0, np.sort(rng.choice(blocks - 1, k - 1, replace=False)) + 1) for k in cells]
    offsets = np.append(0, np.cumsum(cells))
    stratum = rng.choice(len(RETENTION), offsets[-1], p=[0.3, 0.5, 0.2])
    domains = synth.Domains(blocks, offsets, np.concatenate(cuts).astype(np.int32), stratum.astype(np.uint8))
    n = np.minimum(1 + rng.pareto(1.0, POOLS) * 5, 20_000).astype(np.int64)
    return synth.Pools(n, n, rng.integers(0, DOMAINS, POOLS).astype(np.int32)), domains


def report(name: str, plan: synth.Plan, calibration: float | None) -> None:
    """Certify a plan and print how long it took."""
    begin = time.perf_counter()
    guarantee = synth.MECHANISMS[plan.mechanism].certify(plan)
    seconds = time.perf_counter() - begin
    made = "" if calibration is None else f"calibrated in {calibration:.1f} s, "
    print(
        f"{name}: {plan.pools.n_pools:,} pools in {len(guarantee.classes):,} classes, {made}"
        f"certified in {seconds:.1f} s: epsilon {float(guarantee.epsilon):.6f}, "
        f"delta {float(guarantee.delta):.2e}"
    )


if __name__ == "__main__":
    main()
