"""How many Dask tasks draw a release: some hundreds to two thousand, whatever the number of pools.

Rhode Island's pools are its own. Larger numbers stand for plans that are not made here: their pools are work
blocks of sizes drawn from Rhode Island's, each with an urn of its own, which is all that the number of tasks
depends on.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from conftest import Measure, Planned

import pipelines
from pipelines.plans.plan import batches

TABLE = "Dask tasks that draw a release"


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
        TABLE,
        name,
        lambda: batches(plan),
        rounds=3,
        pools=f"{n.size:,}",
        tasks=f"{len(cut):,}",
        **{"jobs in the largest": f"{largest:,}"},
    )
