"""Pools of millions of jobs at small epsilon: what planning and releasing them takes.

Usage: python benchmarks/large_pools.py [--zones 62] [--jobs 8800000] [--largest 2100000] [--page PAGE]

Makes up a region of so many zones, from a file with a row for each pair of zones. Work is concentrated: the
k-th zone has the jobs of the largest over a power of k. At each epsilon `odsynth plan`, `odsynth run --plan`,
and `odsynth run`, which plans first, are processes of their own, of Dirichlet resampling: an urn is a zone,
and cells are all zones. Beside them stands what calibrating and certifying the pools takes by itself, in a
process that is running.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import pandas as pd
import report
from numpy.typing import NDArray
from processes import completed

import synth

COMMAND = "python benchmarks/large_pools.py"
ODSYNTH = (sys.executable, "-m", "pipelines.cli")
EPSILONS = ("2", "0.5", "0.1")
DELTA = "1e-5"
CONFIG = """
[release]
name = "A region of large zones"
state = "zones"
year = 2019
job_type = "JT00"
out = "release-{epsilon}"
mechanism = "dirichlet"

[privacy]
protects = "home"
epsilon = "{epsilon}"
delta = "{delta}"

[jobs]
format = "microdata"
file = "jobs.csv"
home = "home"
work = "work"
count = "count"
population = "residents"

[geography]
file = "zones.csv"
block = "zone"
levels = ["region"]
latitude = "lat"
longitude = "lon"

[plan]
coarsening = "units"
cell_level = "zone"
pool_level = "zone"
pool_below = 1
"""


@click.command()
@click.option("--zones", default=62)
@click.option("--jobs", default=8_800_000)
@click.option("--largest", default=2_100_000)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(zones: int, jobs: int, largest: int, page: Path | None) -> None:
    """Make the region, plan and release it, and print."""
    sizes = concentrated(zones, jobs, largest)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        write_region(sizes, where)
        for epsilon in EPSILONS:
            config = where / f"{epsilon}.toml"
            config.write_text(CONFIG.format(epsilon=epsilon, delta=DELTA), encoding="utf-8")
            config.chmod(0o600)
            plan = str(where / f"plan-{epsilon}")
            took = [once("plan", str(config), "--out", plan), once("run", str(config), "--plan", plan)]
            took.append(once("run", str(config), "--out", str(where / f"planned-{epsilon}")))
            rows.append([epsilon, report.seconds(calibrated(sizes, epsilon)), *map(report.seconds, took)])
    verbs = (f"`odsynth {verb}`, whole" for verb in ("plan", "run --plan", "run"))
    header = ["epsilon", "calibrating and certifying", *verbs]
    text = (
        f"{zones} zones, {sizes.sum():,} jobs, the largest pool {sizes.max():,}; seconds of processors.\n\n"
    )
    text += report.table(header, rows)
    print(text)
    if page is not None:
        report.fill(page, COMMAND, f"{report.this_machine()}\n\n{text}")


def concentrated(zones: int, jobs: int, largest: int) -> NDArray[np.int64]:
    """Return the jobs of each zone: the largest over a power of its rank, so that they add up."""
    low, high = 0.0, 50.0
    for _ in range(60):
        power = (low + high) / 2
        sizes = np.maximum(1, largest / np.arange(1.0, zones + 1) ** power).astype(np.int64)
        low, high = (power, high) if sizes.sum() > jobs else (low, power)
    return sizes


def write_region(sizes: NDArray[np.int64], where: Path) -> None:
    """Write the zones, on a grid, and their jobs: homes are nearer zones more often."""
    zones = sizes.size
    side = int(np.ceil(np.sqrt(zones)))
    x, y = np.arange(zones) % side, np.arange(zones) // side
    codes = [f"z{i:03d}" for i in range(zones)]
    places = {"zone": codes, "region": ["r"] * zones, "lat": 50 + y / 5, "lon": x / 3}
    pd.DataFrame(places).to_csv(where / "zones.csv", index=False)
    near = np.exp(-np.hypot(x[:, None] - x, y[:, None] - y))
    rng = np.random.default_rng(1)
    counts = np.array([rng.multinomial(n, p / p.sum()) for n, p in zip(sizes, near, strict=True)])
    work, home = np.nonzero(counts)
    file = where / "jobs.csv"
    jobs = {"home": [codes[h] for h in home], "work": [codes[w] for w in work], "count": counts[work, home]}
    pd.DataFrame(jobs).to_csv(file, index=False)
    file.chmod(0o600)


def calibrated(sizes: NDArray[np.int64], epsilon: str) -> float:
    """Return the processor time of calibrating and certifying the pools."""
    zones, mechanism = sizes.size, synth.MECHANISMS["dirichlet"]
    pools = synth.Pools(sizes, sizes, np.zeros(zones, np.int32))
    cells = np.arange(zones)
    domains = synth.Domains(zones, np.array([0, zones]), cells, np.zeros(zones, np.uint8))
    begin = time.process_time()
    one = synth.exact("1")
    mechanism.certify(
        mechanism.calibrate(pools, domains, (one,), synth.Target(synth.exact(epsilon), synth.exact(DELTA)))
    )
    return time.process_time() - begin


def once(*command: str) -> float:
    return completed([*ODSYNTH, *command]).processor


if __name__ == "__main__":
    main()
