"""Calibrating and certifying plans: Rhode Island, and a million pools of mixed kinds. One core.

The million pools have sizes from 1 to 20,000 (heavy-tailed), domains of 5 to 2,000 cells in three retention
strata, and share 5,000 domains.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from conftest import Measure, Planned

import synth

TABLE = "Certifier: one core"
POOLS, DOMAINS = 1_000_000, 5_000
RETENTION = (Fraction(1), Fraction(1, 2), Fraction(1, 4))


def bench_certifying_rhode_island(rhode_island: Planned, measure: Measure) -> None:
    certifying("Rhode Island", rhode_island.plan.numeric, measure, rounds=3)


def bench_calibrating_a_million_pools(measure: Measure) -> None:
    pools, domains = many_pools()
    synth.dirichlet.mechanism._calibrated.cache_clear()
    measure(TABLE, "a million pools, calibrating", lambda: calibrated(pools, domains), rounds=1, warm=False)


def bench_certifying_a_million_pools(million: synth.Plan, measure: Measure) -> None:
    certifying("a million pools", million, measure, rounds=1)


def bench_a_million_pools_as_a_process(measure_process: Measure) -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import bench_certifier, synth
plan = bench_certifier.calibrated(*bench_certifier.many_pools())
synth.MECHANISMS[plan.mechanism].certify(plan)
"""
    command = ["-c", code]
    measure_process(TABLE, "a million pools, calibrating and certifying, whole process", [command] * 2)


@pytest.fixture(scope="module")
def million() -> synth.Plan:
    """Return the plan of the million pools."""
    return calibrated(*many_pools())


def certifying(name: str, plan: synth.Plan, measure: Measure, rounds: int) -> None:
    """Measure certification and record what is certified."""
    certify = synth.MECHANISMS[plan.mechanism].certify
    guarantee = certify(plan)

    def anew() -> None:
        synth.dirichlet.calibration.proved_loss.cache_clear()
        synth.dirichlet.mechanism._bounds.cache_clear()  # of a plan that this process has certified already
        certify(plan)

    measure(
        TABLE,
        f"{name}, certifying",
        anew,
        rounds=rounds,
        warm=False,
        pools=f"{plan.pools.n_pools:,}",
        classes=f"{len(guarantee.classes):,}",
        epsilon=f"{float(guarantee.epsilon):.6f}",
        delta=f"{float(guarantee.delta):.2e}",
    )


def calibrated(pools: synth.Pools, domains: synth.Domains) -> synth.Plan:
    """Return a plan at the epsilon and delta of Rhode Island."""
    return synth.MECHANISMS["dirichlet"].calibrate(pools, domains, RETENTION, synth.Target("8.6", "1e-5"))


def many_pools() -> tuple[synth.Pools, synth.Domains]:
    """Return pools and domains of mixed kinds."""
    rng = np.random.default_rng(1)
    blocks = 100_000
    cells = np.minimum(5 + rng.pareto(0.7, DOMAINS) * 10, 2000).astype(np.int64)
    cuts = [np.append(0, np.sort(rng.choice(blocks - 1, k - 1, replace=False)) + 1) for k in cells]
    offsets = np.append(0, np.cumsum(cells))
    stratum = rng.choice(len(RETENTION), offsets[-1], p=[0.3, 0.5, 0.2])
    domains = synth.Domains(blocks, offsets, np.concatenate(cuts).astype(np.int32), stratum.astype(np.uint8))
    n = np.minimum(1 + rng.pareto(1.0, POOLS) * 5, 20_000).astype(np.int64)
    return synth.Pools(n, n, rng.integers(0, DOMAINS, POOLS).astype(np.int32)), domains
