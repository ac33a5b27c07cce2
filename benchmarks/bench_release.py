"""End to end, each command a process of its own: time, and peak memory of the whole process.

Rhode Island's real jobs, and a simulated country of 1.4 million (larger ones: nation.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import CONFIG, Measure

import geo_data

TABLE = "End to end: whole processes"
TIMES = 4  # of which the first is not counted
SIMULATED = 1_400_000


@pytest.fixture(scope="module", params=["Rhode Island", f"simulated, {SIMULATED:,} jobs"])
def released(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path, Path]:
    """Return the name of a release, its configuration, and the folder where its runs go."""
    folder = tmp_path_factory.mktemp("release")
    if request.param == "Rhode Island":
        request.getfixturevalue("rhode_island")  # skips where there are no data
        return request.param, CONFIG, folder
    return request.param, geo_data.simulate_nation(folder, SIMULATED), folder


def odsynth(*arguments: object) -> list[str]:
    """Return the arguments of Python that run a command of odsynth."""
    return ["-m", "pipelines.cli", *map(str, arguments)]


def bench_planning(released: tuple[str, Path, Path], measure_process: Measure) -> None:
    name, config, folder = released
    plan = odsynth("plan", config, "--out", folder / "plan")  # another one may be in the release's folder
    measure_process(TABLE, f"{name}: odsynth plan", [plan] * TIMES)


def bench_running(released: tuple[str, Path, Path], measure_process: Measure) -> None:
    name, config, folder = released
    commands = [odsynth("run", config, "--out", folder / str(i)) for i in range(TIMES)]
    measure_process(TABLE, f"{name}: odsynth run, from job records to checked release", commands)


def bench_verifying(released: tuple[str, Path, Path], measure_process: Measure) -> None:
    name, _, folder = released
    commands = [odsynth("verify", folder / "0" / "public")] * TIMES
    # The last check, after all others: a release of a program that was edited and not committed is not fit.
    measure_process(TABLE, f"{name}: odsynth verify", commands, accepted="for release: no")
