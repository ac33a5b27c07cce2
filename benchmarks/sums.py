"""How often intervals that a release carries hold sums and differences, and what they cost.

Usage: python benchmarks/sums.py [--case "Rhode Island" ...] [--epsilon 8.6 ...] [--releases 3]
           [--page benchmarks/sums.md]

Releases are made as anybody's would be, all of an epsilon by one plan, and read from their public folders
alone. Counted are flows between units of the public model, residents of a unit, and sums over neighbours, a
unit and those nearest to it, 2 to 39 in all, as homes and as workplaces; each with an interval of 90 %. So
are differences of two such sums and, where jobs by workplace are estimates, these, alone and by each
attribute that the draws have. The estimate, the mean of the draws, stands beside the sum of released rows.
A row is the share of intervals that hold the truth, ties decided at random, and of single releases the lowest
and the highest. Seconds and bytes are what the step and the files add to the run and to the folder. The
region is what `odsynth simulate --kind region` writes.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
from by_lot import held_by_lot
from numpy.typing import NDArray
from plain_noise import region as census
from plain_noise import true_jobs
from report import commit_measured, fill, table
from whole_records import configuration as of_rhode_island

import geo_data
import pipelines
from geo_data.geography import Geography
from pipelines import Release
from pipelines.config.loading import ReleaseConfig
from pipelines.plans.workload import CountedJobs
from pipelines.release.intervals import AREAS_FILE, FLOWS_FILE, INTERVALS_FILE, interval_tables, read_draws
from pipelines.running.steps import Step

ROOT = Path(__file__).parent.parent
COMMAND = "python benchmarks/sums.py"
CASES = {"Rhode Island": "homes", "records": "records", "earnings": "homes and earnings", "census": "",
         "census, mode secret": "", "Leeds": "", "region": "",
         "Rhode Island, resampled": "homes, resampled"}  # fmt: skip
SUMS, MOST = 400, 40  # sums of neighbours, of fewer units than so many
SIZES = {"0": 0.5, "1 to 9": 9.5, "10 to 99": 99.5, "100 to 999": 999.5, "1,000 and more": np.inf}
HEAD = [
    "case",
    "epsilon",
    "sums",
    "size",
    "counts",
    "held",
    "single releases",
    "error of the estimate",
    "error of the rows added up",
]
COST = [
    "case",
    "epsilon",
    "seconds of planning",
    "seconds of the run without",
    "seconds of intervals",
    "folder without, MB",
    "intervals.parquet, MB",
    "areas.csv and flows.csv, MB",
]
FEW = 25  # counts of a size in all releases, below which nothing is said
Float64 = NDArray[np.float64]


@click.command()
@click.option("--case", "cases", multiple=True, default=tuple(CASES), type=click.Choice([*CASES]))
@click.option("--epsilon", "epsilons", multiple=True, default=("8.6", "2", "1"), show_default=True)
@click.option("--releases", default=3, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(cases: tuple[str, ...], epsilons: tuple[str, ...], releases: int, page: Path | None) -> None:
    """Plan, draw, count, and print."""
    found, costs = [], []
    with tempfile.TemporaryDirectory() as name:
        for case in cases:
            for epsilon in epsilons:
                folder = Path(name) / f"{len(costs)}"
                folder.mkdir()
                config = configuration(case, epsilon, folder)
                begun = time.perf_counter()
                plan = pipelines.plan(config, folder / "plan")
                planning = time.perf_counter() - begun
                for number in range(releases):
                    release = pipelines.run(config.with_out(folder / str(number)), plan=plan.folder)
                    if number == 0:
                        true = true_jobs(release, config)
                        costs.append([case, epsilon, f"{planning:.1f}", *cost(release)])
                    for counts in (*counted(release, true), *jobs_counted(release, true, number)):
                        found.append(counts.assign(case=case, epsilon=epsilon, release=number))
                click.echo(" | ".join(costs[-1]), err=True)
    text = (
        f"Commit {commit_measured()}, {releases} releases of each plan.\n\n{table(HEAD, shares(found))}\n\n"
    )
    text += f"What it costs, of the first release:\n\n{table(COST, costs)}"
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def configuration(case: str, epsilon: str, folder: Path) -> ReleaseConfig:
    """Return the configuration of a case."""
    if case == "Leeds":
        text = (ROOT / "examples" / "leeds.toml").read_text(encoding="utf-8")
        text = re.sub(r"(?m)^epsilon = .*", f'epsilon = "{epsilon}"', text).replace(
            '"dirichlet"', '"geometric"'
        )
        text = text.replace("../../shared", str(ROOT.parent / "shared"))
    elif case.startswith("census"):
        return census(case, folder, epsilon)
    elif case == "region":
        path = geo_data.simulate_region(folder / case)
        text = re.sub(r"(?m)^epsilon = .*", f'epsilon = "{epsilon}"', path.read_text(encoding="utf-8"))
        folder = path.parent
    else:
        text = of_rhode_island(epsilon, CASES[case])
    return pipelines.parse_config(text, folder, "sums.toml")


def cost(release: Release) -> list[str]:
    """Return seconds and megabytes of a release, without what intervals took of them and that."""
    seconds = json.loads((release.out / "confidential" / "run.json").read_text(encoding="utf-8"))["seconds"]
    drawn = seconds.pop(Step.DESCRIBE.value)
    sizes = {p.name: p.stat().st_size / 1e6 for p in release.public.rglob("*") if p.is_file()}
    added = sizes[INTERVALS_FILE], sizes[AREAS_FILE] + sizes[FLOWS_FILE]
    rest = sum(sizes.values()) - sum(added)
    return [f"{value:.1f}" for value in (sum(seconds.values()), drawn, rest, *added)]


def counted(release: Release, jobs: CountedJobs) -> Iterator[pd.DataFrame]:
    """Yield counts of each kind: mean of the draws, whether held, and errors of estimate and rows."""
    plan, geography = release.plan, release.plan.geography
    draws = read_draws(plan, interval_tables(plan)[0], release.public)
    n = geography.n_units(plan.level)
    drawn = np.zeros((len(draws.counts), n, n))
    drawn[:, draws.home, draws.work] = draws.counts
    rows = release.unit_flows(plan.level, plan.level, ["S000"])
    released = np.zeros((n, n))
    released[rows["home"], rows["work"]] = rows["S000"]
    unit, true = geography.units_of_blocks(plan.level), np.zeros((n, n))
    np.add.at(true, (unit[jobs.home], unit[jobs.work]), 1)
    inside = np.flatnonzero(~geography.is_external(geography.starts(plan.level)))
    random = np.random.default_rng(5)
    near = nearest(geography, plan.level, inside)

    def some() -> NDArray[np.int64]:
        """Return a unit and its nearest."""
        unit = int(random.integers(inside.size))
        return inside[near[unit, : int(random.integers(2, min(MOST, inside.size)))]]

    tables = drawn, true[np.newaxis], released[np.newaxis]
    pairs = [(some(), some()) for _ in range(SUMS)]
    flows = [np.array([t[:, a][:, :, b].sum(axis=(1, 2)) for a, b in pairs]).T for t in tables]
    living = [np.array([t[:, a].sum(axis=(1, 2)) for a, _ in pairs]).T for t in tables]
    half = SUMS // 2
    kinds = {
        "unit to unit": [t[:, inside][:, :, inside].reshape(len(t), -1) for t in tables],
        "residents of a unit": [t[:, inside].sum(axis=2) for t in tables],
        "neighbours to neighbours": flows,
        "residents of neighbours": living,
        "difference of flows": [t[:, :half] - t[:, half:] for t in flows],
        "difference of residents": [t[:, :half] - t[:, half:] for t in living],
    }
    for kind, (of_draws, (truth,), (rows_added,)) in kinds.items():
        yield compared(kind, of_draws, truth, rows_added, random)


def jobs_counted(release: Release, true: CountedJobs, seed: int) -> Iterator[pd.DataFrame]:
    """Yield the same of estimated jobs by workplace: alone, and by each attribute that draws have."""
    if not release.plan.workplaces:
        return
    draws, geography, random = release.draws(), release.geography, np.random.default_rng(seed)
    secret = release.plan.policy.secret  # by all else jobs are public
    (released,) = release.job_records(tuple(release.categories))
    levels = geography.levels[: geography.levels.index(release.plan.level) + 1]
    for by in [(name,) for name in secret] or [(), *((name,) for name in release.categories)]:
        work = next((level for level in reversed(levels) if draws.has(levels[0], level, by)), None)
        if work is None:
            continue
        shape = *(len(release.categories[name]) for name in by), geography.n_units(work)
        cells = draws.cells(levels[0], work, by)
        of_cell = np.ravel_multi_index((*cells.categories, cells.work), shape)
        of_draws = np.stack([np.bincount(of_cell, row, np.prod(shape)) for row in cells.counts])
        truth, rows = (
            np.bincount(
                np.ravel_multi_index(
                    (*(jobs.attributes[name] for name in by), geography.unit_of(work, jobs.work)), shape
                ),
                minlength=np.prod(shape),
            )
            for jobs in (true, released)
        )
        name = "jobs of a unit" if work == release.plan.level else f"jobs of a {work}"
        yield compared(f"{name} by {by[0]}" if by else name, of_draws, truth, rows, random)


def compared(
    kind: str, of_draws: Float64, truth: Float64, rows: Float64, random: np.random.Generator
) -> pd.DataFrame:
    """Return what there is to say of some sums: of their draws, the truth, and released rows added up."""
    present = (of_draws != 0).any(axis=0) | (truth != 0)
    held = held_by_lot(truth[present], of_draws[:, present], random)
    mean = of_draws.mean(axis=0)
    errors = {"error": (mean - truth)[present], "rows": (rows - truth)[present]}
    return pd.DataFrame({"sums": kind, "mean": np.abs(mean[present]), "held": held, **errors})


def nearest(geography: Geography, level: str, units: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order of units around each, nearest first, shape (n_units, n_units)."""
    of_block = geography.units_of_blocks(level)
    points = pd.DataFrame({"unit": of_block, "y": geography.latitude, "x": geography.longitude})
    centre = points.groupby("unit").mean().reindex(units)
    x, y = centre["x"] * np.cos(np.radians(centre["y"].mean())), centre["y"]
    distance = np.hypot(*(np.subtract.outer(v.to_numpy(), v.to_numpy()) for v in (x, y)))
    return np.argsort(distance, axis=1, kind="stable")


def shares(found: list[pd.DataFrame]) -> list[list[str]]:
    """Return a row for each case, kind and size."""
    counts = pd.concat(found)
    size = np.searchsorted([*SIZES.values()], counts["mean"])
    counts = counts.assign(size=np.array([*SIZES])[size], order=size)
    rows = []
    for key, some in counts.groupby(["case", "epsilon", "sums", "order", "size"], sort=True):
        if len(some) >= FEW:
            single = some.groupby("release")["held"].mean()
            errors = [f"{float(np.sqrt((some[name] ** 2).mean())):,.1f}" for name in ("error", "rows")]
            held = f"{some['held'].mean():.1%}", f"{single.min():.0%} to {single.max():.0%}"
            rows.append([key[0], key[1], key[2], key[4], f"{len(some):,}", *held, *errors])
    return rows


if __name__ == "__main__":
    main()
