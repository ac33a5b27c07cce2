"""What the benchmarks share: the plan of Rhode Island, its jobs, and the whole command as a process."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import measured
from report import surroundings

import geo_data
import pipelines
import synth
from geo_data.pools import group_records
from pipelines.planning.public_inputs import PublicInputs, job_source, read_public_inputs
from synth.dirichlet.urn import Urns

CONFIG = Path(__file__).parent.parent / "examples" / "rhode_island.toml"

Measure = Callable[..., dict[str, object]]


def pytest_benchmark_update_machine_info(machine_info: dict[str, Any]) -> None:
    """Keep what the figures depend on besides the processor."""
    versions = {name: version(name) for name in ("numpy", "numba", "dask")}
    machine_info.update(surroundings(versions))


@dataclass(frozen=True)
class Planned:
    """A plan and the jobs that it is for: home block and cell of each, pool after pool."""

    config: pipelines.ReleaseConfig
    inputs: PublicInputs
    plan: pipelines.ReleasePlan
    homes: np.ndarray
    cells: np.ndarray
    urns: Urns


@pytest.fixture(scope="session")
def rhode_island() -> Planned:
    config = pipelines.load_config(CONFIG)
    try:
        inputs = read_public_inputs(config)
    except geo_data.InputError as error:
        pytest.skip(f"the data of Rhode Island are not here: {error}")
    plan = pipelines.make_plan(config, inputs)
    records = job_source(config, plan.geography).records(plan.attributes)
    homes = group_records(plan.pools, plan.geography, records)
    numeric = plan.numeric
    cells = numeric.domains.locate(np.repeat(numeric.pools.domain, numeric.pools.n), homes)
    return Planned(
        config, inputs, plan, homes, cells, synth.MECHANISMS["dirichlet"].urns(numeric, slice(0, None))
    )


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """Time a call, and record it as a row of a table.

    Takes the table, what the row is called, the call, how often to time it, and whether once more before, not
    timed (`warm`). `workers` are how many it draws, for a speed; `against` is the row of the same table that
    it is compared with, for a ratio; other arguments are figures to show beside the time. Returns those
    figures, to which more may be added.
    """

    def run(
        table: str,
        row: str,
        call: Callable[[], object],
        *,
        rounds: int = 5,
        warm: bool = True,
        workers: int | None = None,
        against: str | None = None,
        **figures: object,
    ) -> dict[str, object]:
        benchmark.group = table
        benchmark.extra_info.update(row=row, workers=workers, against=against, figures=figures)
        benchmark.pedantic(call, rounds=rounds, warmup_rounds=int(warm))
        return figures

    return run


@pytest.fixture
def measure_process(measure: Measure) -> Measure:
    """Time a Python command as a process of its own, and record the peak memory of the process too.

    Takes the table, the row, and the arguments of each time it is to run: the first is not timed. A command
    that fails ends the benchmark, unless it says `accepted`.
    """

    def run(
        table: str, row: str, commands: Sequence[Sequence[str]], *, accepted: str | None = None, **named: Any
    ) -> dict[str, object]:
        peaks, todo = [], iter(commands)

        def call() -> None:
            usage = measured([sys.executable, *next(todo)])
            if usage.status and (accepted is None or accepted not in usage.errors):
                raise RuntimeError(usage.errors)
            peaks.append(usage.gigabytes)

        figures = measure(table, row, call, rounds=len(commands) - 1, **named)
        figures["peak memory"] = f"{statistics.median(peaks):.2f} GB"
        return figures

    return run
