"""What each export of a release weighs and takes; prints the tables of benchmarks/exports.md.

Usage: python benchmarks/exports.py PUBLIC [FORMAT ...] [--level LEVEL]
       python benchmarks/exports.py --workers N [FORMAT ...]

PUBLIC is the public folder of a release. Every format is exported at the level (by default the usual one), in
a process of its own: the time is that of reading the release, adding up its rows and writing, without the
start of Python; memory is the most that the process had. With --workers, the release is one of a generated
region of so many workers, with ten counts, at the level of its blocks.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines import open_release
from pipelines.views.exports.exporting import FORMATS
from pipelines.views.exports.spatial import MOST_TRIPS

ONE = "--one"
ODSYNTH = [sys.executable, "-m", "pipelines.cli"]
ATTRIBUTES = {
    "age": ["young", "middle", "old"],
    "earnings": ["low", "medium", "high"],
    "industry": ["goods", "trade", "services"],
}


def main() -> None:
    """Measure and print."""
    if sys.argv[1:2] == [ONE]:
        measure(Path(sys.argv[2]), *sys.argv[3:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", nargs="*")
    parser.add_argument("--level")
    parser.add_argument("--workers", type=int)
    given = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.workers:
            public, formats = simulated(Path(folder), given.workers), given.what
        else:
            public, formats = Path(given.what[0]), given.what[1:]
        release = open_release(public)
        level = given.level or (release.levels[-1] if given.workers else release.usual_level())
        rows = sum(dataset.count_rows() for dataset in release.rows.values())
        zones = release.geography.n_units(level)
        print(f"{release.certificate.release.name}, {rows:,} rows, {zones:,} zones ({level})\n")
        about = [] if given.workers else ["what for", "tool"]
        row("format", *about, "files", "size", "time", "memory")
        row(*["---"] * (5 + len(about)))
        too_many = {"trips"} if (given.workers or 0) > MOST_TRIPS else set()
        for name in formats or [name for name in FORMATS if name not in too_many]:
            levels = [] if FORMATS[name].blocks else [level]
            command = [sys.executable, __file__, ONE, str(public), name, *levels]
            found = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
            row(
                *([name] if given.workers else [f"`{name}`", FORMATS[name].meaning, FORMATS[name].tool]),
                found,
            )


def row(*cells: str) -> None:
    """Print a row of a table."""
    print(f"| {' | '.join(cells)} |", flush=True)


def measure(public: Path, name: str, level: str | None = None) -> None:
    """Export in one format and print number of files, size, time and memory as cells of the table."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        paths = open_release(public).export([name], Path(folder), home_level=level)[name]
        seconds = time.perf_counter() - begin
        sizes = [path.stat().st_size for path in paths if path.name != "README.txt"]
    # Of this process alone (Linux): what `resource` says begins with the memory of whoever started it.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    memory = 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
    print(f"{len(sizes)} | {sum(sizes) / 1e6:.2f} MB | {seconds:.1f} s | {memory / 1e9:.2f} GB")


def simulated(folder: Path, workers: int) -> Path:
    """Make a release of a generated region whose jobs have three attributes, in processes of their own."""
    nation, out = folder / "nation", folder / "release"
    subprocess.run([*ODSYNTH, "simulate", str(nation), "--workers", str(workers)], check=True)
    rng = np.random.default_rng(1)
    for path in (nation / "jobs").iterdir():
        jobs = pd.read_parquet(path)
        for name, values in ATTRIBUTES.items():
            jobs[name] = np.array(values, object)[rng.integers(0, len(values), len(jobs))]
        jobs.to_parquet(path)
    config = nation / "nation.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(
        text.replace('work = "work"', f'work = "work"\nattributes = {list(ATTRIBUTES)}'), "utf-8"
    )
    subprocess.run([*ODSYNTH, "run", str(config), "--out", str(out)], check=True)
    shutil.rmtree(nation)
    return out / "public"


if __name__ == "__main__":
    main()
