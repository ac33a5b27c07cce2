"""Threads or a cluster: what decides."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pipelines import ReleaseConfig, make_plan
from pipelines.drawing import local_workers

MANY = 10_000_000
GIB = 2**30


def nation(jobs: int = MANY) -> Any:
    """What `local_workers` looks at, of a plan of so many jobs: 100 MB of arrays."""
    array = np.broadcast_to(np.zeros(1, np.int8), 20_000_000)
    return SimpleNamespace(
        plan=SimpleNamespace(
            pools=SimpleNamespace(n_records=jobs), domains=SimpleNamespace(cuts=array, stratum=array)
        ),
        pools=SimpleNamespace(slots=SimpleNamespace(work=array, attributes={})),
        shares=SimpleNamespace(unit=array, share=array[:0]),
        cumulative_weights=array,
    )


def test_few_jobs_or_few_cores_are_for_threads() -> None:
    assert local_workers(nation(MANY - 1), cores=64, memory=64 * GIB) == 1
    assert local_workers(nation(), cores=7, memory=64 * GIB) == 1


@pytest.mark.parametrize(("cores", "workers"), [(8, 2), (15, 3), (64, 16)])
def test_one_process_for_four_cores(cores: int, workers: int) -> None:
    assert local_workers(nation(), cores=cores, memory=64 * GIB) == workers


@pytest.mark.parametrize(("memory", "workers"), [(64 * GIB, 16), (4 * 10**9, 5), (10**9, 1), (10**6, 1)])
def test_no_more_processes_than_memory_has_room_for(memory: int, workers: int) -> None:
    assert local_workers(nation(), cores=64, memory=memory) == workers


def test_the_memory_of_the_machine_is_asked_for() -> None:
    assert 1 <= local_workers(nation(), cores=64) <= 16


def test_a_real_plan_has_what_is_looked_at(
    small_config: Callable[..., ReleaseConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    release = make_plan(small_config())
    assert local_workers(release) == 1
    monkeypatch.setattr("pipelines.drawing._CLUSTER_JOBS", 1)
    assert local_workers(release, cores=8, memory=GIB) == 2
