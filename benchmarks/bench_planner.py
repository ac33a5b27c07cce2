"""The planner on Rhode Island, step by step, and how many Dask tasks draw a release; no home is read.

The tasks are some hundreds to two thousand, whatever the number of pools. Rhode Island's pools are its own.
Larger numbers stand for plans that are not made here: their pools are work blocks of sizes drawn from Rhode
Island's, each with an urn of its own, which is all that the number of tasks depends on.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import Measure, Planned

import pipelines
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import choose
from pipelines.plans.plan import batches

TABLE = "Planner: Rhode Island"


def bench_reading(rhode_island: Planned, measure: Measure) -> None:
    config = rhode_island.config
    measure(
        TABLE,
        "reading geography, work blocks, weights and tables, fitting the public model",
        lambda: read_public_inputs(config),
        rounds=3,
        jobs=f"{rhode_island.plan.numeric.pools.n_records:,}",
    )


def bench_choosing(rhode_island: Planned, measure: Measure) -> None:
    config, inputs = rhode_island.config, rhode_island.inputs
    measure(TABLE, "choosing cells and pools", lambda: choose(config, inputs), rounds=3)


def bench_assembling(rhode_island: Planned, measure: Measure) -> None:
    config, inputs = rhode_island.config, rhode_island.inputs
    choices = choose(config, inputs)
    plan = rhode_island.plan.numeric
    measure(
        TABLE,
        "making the plan: domains, shares, calibration",
        lambda: assemble(config, inputs, inputs.slots, choices, config.privacy.delta),
        rounds=3,
        pools=f"{plan.pools.n_pools:,}",
        domains=f"{plan.domains.n_domains:,}",
    )


TASKS = "Dask tasks that draw a release"


def bench_tasks_of_rhode_island(rhode_island: Planned, measure: Measure) -> None:
    tasks(rhode_island.plan, "Rhode Island", measure)


@pytest.mark.parametrize("jobs", [1_400_000, 14_000_000, 140_000_000, 1_400_000_000])
def bench_tasks(rhode_island: Planned, measure: Measure, jobs: int) -> None:
    sizes = np.unique(rhode_island.inputs.slots.work, return_counts=True)[1]
    n = np.random.default_rng(3).choice(sizes, round(jobs / sizes.mean()))
    tasks(stand_in(n), f"{jobs:,} jobs", measure)


def stand_in(n: np.ndarray) -> pipelines.ReleasePlan:
    """Return what `batches` looks at of a plan with pools of these sizes, a work block each."""
    pools = SimpleNamespace(
        n=n,
        offsets=np.append(0, np.cumsum(n)),
        block=np.arange(n.size),
        shared=np.zeros(n.size, bool),
        slots=SimpleNamespace(work=SimpleNamespace(size=int(n.sum()))),
    )
    geography = SimpleNamespace(levels=(), block_level="block", unit_of=lambda _, block: block)
    return cast(pipelines.ReleasePlan, SimpleNamespace(pools=pools, geography=geography, measures=False))


def tasks(plan: Any, name: str, measure: Measure) -> None:
    """Record how many tasks there are, and how long the cutting takes."""
    cut = batches(plan)
    n = plan.pools.n
    largest = max(int(n[one].sum()) for one in cut)
    measure(
        TASKS,
        name,
        lambda: batches(plan),
        rounds=3,
        pools=f"{n.size:,}",
        tasks=f"{len(cut):,}",
        **{"jobs in the largest": f"{largest:,}"},
    )
