"""Releasing a nation: time and memory of drawing, writing and checking 140 million jobs, the plan given.

Usage: python benchmarks/nation_run.py [--workers 140000000] [--folder FOLDER]

Simulates (`odsynth simulate`), then begins a run in a process of its own, which is killed as soon as it has
planned and sorted the homes into batches: from there `odsynth resume` does everything that a given plan
leaves to do. Its time, its steps, and the peak memory of its process are printed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

import geo_data
from pipelines.staging import Staging

ODSYNTH = [sys.executable, "-m", "pipelines.cli"]


@click.command()
@click.option("--workers", default=140_000_000)
@click.option("--folder", type=click.Path(path_type=Path), help="Kept; by default a temporary one.")
def main(workers: int, folder: Path | None) -> None:
    """Simulate, begin, resume and print."""
    print(f"{workers:,} workers", flush=True)
    where = Path(tempfile.mkdtemp()) if folder is None else folder
    try:
        config, out = where / "nation.toml", where / "release"
        if not config.exists():
            geo_data.simulate_nation(where, workers)
        if not Staging.of(out).begun:
            begin(config, Staging.of(out))
        start = time.perf_counter()
        process = subprocess.Popen([*ODSYNTH, "resume", str(out)], stdout=subprocess.DEVNULL)
        usage = os.wait4(process.pid, 0)[2]
        minutes = (time.perf_counter() - start) / 60
        print(f"{workers:,} workers, plan given: {minutes:.1f} minutes, {usage.ru_maxrss / 1e6:.2f} GB")
        log = json.loads((out / "confidential" / "run.json").read_text(encoding="utf-8"))
        for name, seconds in log["seconds"].items():
            print(f"  {name}: {seconds:.0f} s")
    finally:
        if folder is None:
            shutil.rmtree(where, ignore_errors=True)


def begin(config: Path, staging: Staging) -> None:
    """Run until the first draw; print how long planning took, and reading and sorting the homes after it."""
    start = time.perf_counter()
    process = subprocess.Popen([*ODSYNTH, "run", str(config)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    planned = None
    for line in process.stderr:  # a line a step
        if line.startswith("Reading the confidential"):
            planned = time.perf_counter()
        elif planned is not None:
            break
    sorted_ = time.perf_counter()
    if planned is None or not staging.begun:
        raise SystemExit("the run ended before it began to draw")
    process.send_signal(signal.SIGKILL)
    usage = os.wait4(process.pid, 0)[2]
    print(f"planned: {(planned - start) / 60:.1f} minutes")
    print(
        f"homes read and sorted: {sorted_ - planned:.0f} s; peak memory so far {usage.ru_maxrss / 1e6:.2f} GB"
    )


if __name__ == "__main__":
    main()
