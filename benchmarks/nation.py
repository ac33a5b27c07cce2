"""Releasing a nation: time and memory of `odsynth plan`, of `odsynth run` with it, and of `odsynth verify`.

Usage: python benchmarks/nation.py [--workers 140000000] [--mechanism dirichlet] [--folder FOLDER]

Simulates a country of the size of the United States (`odsynth simulate`, not counted): 51 states, 3,142
counties, 73,000 tracts, 7.7 million blocks, 2.3 million work blocks, 140 million jobs, a county table and a
tract table of an earlier release. Then three commands run as a user starts them, whole, one after the other,
for each mechanism:

- `odsynth plan` reads the public inputs, chooses, certifies, tries the plan on homes drawn from the public
  model, draws the picture, and writes plan and report;
- `odsynth run --plan` reads that plan, certifies it again, reads and sorts the homes, measures and estimates
  or resamples, writes, checks;
- `odsynth verify` checks the public folder, as anybody may.

Prints a table. A folder that is given is kept; a nation that is in it already is taken, whatever its size.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import click
import processes
import psutil
import pyarrow.parquet as pq
from report import table

ODSYNTH = [sys.executable, "-m", "pipelines.cli"]
MECHANISMS = ("geometric", "dirichlet")  # the one with more steps first: rows are in its order
PAUSE = 0.5  # seconds between two looks at the memory


@click.command()
@click.option("--workers", default=140_000_000)
@click.option(
    "--mechanism", "mechanisms", type=click.Choice(MECHANISMS), multiple=True, help="By default both."
)
@click.option("--folder", type=click.Path(path_type=Path), help="Kept; by default a temporary one.")
def main(workers: int, mechanisms: tuple[str, ...], folder: Path | None) -> None:
    """Simulate, plan, run, verify and print."""
    mechanisms = mechanisms or MECHANISMS
    with kept(folder) as where:
        config = where / "nation.toml"
        for out in (release(where, mechanism) for mechanism in mechanisms):
            if out.exists():
                raise click.ClickException(f"{out}: a release is there already; remove it")
        if not config.exists():
            simulate = [*ODSYNTH, "simulate", str(where), "--workers", str(workers)]
            subprocess.run(simulate, check=True, stdout=subprocess.DEVNULL)
        columns = [dict(column(where, mechanism)) for mechanism in mechanisms]
    names = dict.fromkeys(name for found in columns for name in found)
    print(table(["", *mechanisms], ([name, *(found.get(name, "") for found in columns)] for name in names)))


def release(where: Path, mechanism: str) -> Path:
    """Return the output folder of a mechanism."""
    return where / f"release-{mechanism}"


def column(where: Path, mechanism: str) -> Iterator[tuple[str, str]]:
    """Make the release of a mechanism, and yield what is said of it, by row."""
    config, out = where / f"{mechanism}.toml", release(where, mechanism)
    said = (where / "nation.toml").read_text(encoding="utf-8")
    here = f'out = "{out.name}"\nmechanism = "{mechanism}"'
    config.write_text(said.replace('out = "release"', here), encoding="utf-8")
    took = {
        name: measured([*ODSYNTH, *command])
        for name, command in {
            "plan": ["plan", str(config)],
            "run --plan": ["run", str(config), "--plan", f"{out}-plan"],
            "verify": ["verify", str(out / "public")],
        }.items()
    }
    yield from sizes(out)
    for name, (seconds, gigabytes) in took.items():
        yield f"`odsynth {name}`: whole", f"{seconds / 60:.1f} minutes"
        yield f"`odsynth {name}`: peak memory, all processes together", f"{gigabytes:.2f} GB"
    yield from steps(out)


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """Give a folder to work in, a temporary one by default."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def measured(command: list[str]) -> tuple[float, float]:
    """Run a command.

    Returns
    -------
    tuple of float
        Wall seconds, and the peak of its resident memory in GB: of the process as the kernel counts it, or of
        the process and all that it started, added up twice a second, if that is more. What they share is
        counted in each.
    """
    peak = 0
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(processes.measured, command)
        while not running.done():
            peak = max(peak, sum(map(resident, psutil.Process().children(recursive=True))))
            time.sleep(PAUSE)
    usage = running.result()
    if usage.status:
        raise click.ClickException(f"{' '.join(command)} ended with status {usage.status}: {usage.errors}")
    return usage.seconds, max(peak / processes.GB, usage.gigabytes)


def resident(process: psutil.Process) -> int:
    """Return the resident memory of a process in bytes, 0 if it has ended."""
    try:
        return int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        return 0


def sizes(out: Path) -> Iterator[tuple[str, str]]:
    """Yield how large everything is."""
    public = out / "public"
    totals = json.loads((public / "certificate.json").read_text(encoding="utf-8"))["totals"]
    blocks = pq.read_metadata(public / "plan" / "blocks.parquet").num_rows
    (od,) = (path for path in public.glob("*_od_main_*") if path.is_dir())
    yield "jobs", f"{totals['records']:,}"
    yield "blocks of the domain", f"{blocks:,}"
    yield "pools; domains; cells", "; ".join(f"{totals[name]:,}" for name in ("pools", "domains", "cells"))
    yield "tasks that draw", f"{sum(1 for _ in od.iterdir()):,}"
    yield "size of the plan; of the release with it", f"{size(public / 'plan')}; {size(public)}"


def size(folder: Path) -> str:
    """Return the size of all files in a folder."""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.0f} MB"


def steps(out: Path) -> Iterator[tuple[str, str]]:
    """Yield the time of each step of the run, as it is kept inside the agency."""
    log = (out / "confidential" / "run.json").read_text(encoding="utf-8")
    for name, seconds in json.loads(log)["seconds"].items():
        yield f"of the run: {name[0].lower()}{name[1:]}", f"{seconds:.0f} s"


if __name__ == "__main__":
    main()
