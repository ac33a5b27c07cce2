"""Releases beside plain noise on the tables that they are for: every table with an equal part of epsilon.

Usage: python benchmarks/plain_noise.py [--draws 3] [--page benchmarks/plain_noise.md]

Plain noise is what an office could do without a synthetic data set: two-sided geometric noise on every number
of each table, nonnegative counts, shares of their total. The generated census, Leeds and Rhode Island (a row
is a job with three attributes) are planned for the default workload. Whole records are protected, or homes
with one attribute. What is lost is a total variation from the truth, in the mean of some draws. The truth is
public or generated.
"""

from __future__ import annotations

import re
import tempfile
from math import prod
from pathlib import Path

import click
import numpy as np
from report import commit_measured, fill, table
from whole_records import configuration as rhode_island

import pipelines
from geo_data.jobs import join_records
from pipelines import Release, ReleaseConfig
from pipelines.planning.public_inputs import job_source
from pipelines.plans.workload import CountedJobs, workload_of
from pipelines.running.demo import CENSUS, demo_inputs
from pipelines.views.evaluation.workload_losses import workload_losses

ROOT = Path(__file__).parent.parent
COMMAND = "python benchmarks/plain_noise.py"
REGIONS = ("census", "census, mode secret", "Leeds", "Rhode Island", "Rhode Island, earnings secret")
HEAD = ["region", "table", "this release", "plain noise"]


@click.command()
@click.option("--draws", default=3, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the table into.")
def main(draws: int, page: Path | None) -> None:
    """Plan, draw, and print."""
    rows = []
    for name in REGIONS:
        with tempfile.TemporaryDirectory() as folder:
            config = region(name, Path(folder))
            planned = pipelines.plan(config, Path(folder) / "plan")
            lost = []
            for draw in range(draws):
                release = pipelines.run(config.with_out(Path(folder) / str(draw)), plan=planned.folder)
                lost.append(losses(release, config, draw))
            workload = workload_of(release.plan)
        means = np.mean(lost, axis=0)
        for words, row in zip(workload.names, means, strict=True):
            rows.append([name, words, *map("{:.4f}".format, row)])
        rows.append([name, "**mean**", *map("{:.4f}".format, means.mean(axis=0))])
    text = f"Epsilon 2, means of {draws} draws, commit {commit_measured()}.\n\n{table(HEAD, rows)}"
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def region(name: str, folder: Path, epsilon: str = "2") -> ReleaseConfig:
    """Return the configuration of a region, with whole records or homes and one attribute protected.

    That of Leeds has the epsilon of its file.
    """
    if name == "Leeds":
        return pipelines.load_config(ROOT / "examples" / "census.toml").with_out(folder / "out")
    place, _, secret = name.removesuffix(" secret").partition(", ")
    path, text = folder / "records.toml", rhode_island(epsilon, "records")
    if place == "census":
        path = demo_inputs(folder, which=CENSUS)
        text = re.sub("(?m)^epsilon = .*", f'epsilon = "{epsilon}"', path.read_text(encoding="utf-8"))
    if secret:
        lines = [line for line in text.splitlines() if not line.startswith(("protects", "expected_jobs"))]
        begin = lines.index("[privacy]") + 1
        text = "\n".join([*lines[:begin], f'protects = ["home", "{secret}"]', *lines[begin:]])
    return pipelines.parse_config(text, path.parent, path.name)


def losses(release: Release, config: ReleaseConfig, seed: int) -> list[tuple[float, float]]:
    """Return what a release, and what plain noise, loses in each table of its workload."""
    workload, geography, categories = workload_of(release.plan), release.geography, release.categories
    true = true_jobs(release, config)
    of_release = [
        loss
        for kind, *_, loss in workload_losses(release, job_source(config, geography))
        if kind == "workload_loss"
    ]
    epsilon, random = float(config.privacy.epsilon) / len(workload.tables), np.random.default_rng(seed)
    p = np.exp(-epsilon / 2)
    of_noise = []
    for of in workload.tables:
        (cells,) = workload.cells(of, [true])
        wide = 1 if of.home is None else geography.n_units(of.home)
        wide *= 1 if of.work is None else geography.n_units(of.work)
        counts = np.bincount(cells, minlength=wide * prod(len(categories[name]) for name in of.attributes))
        noise = random.geometric(1 - p, counts.size) - random.geometric(1 - p, counts.size)
        noisy = np.maximum(counts + noise, 0)
        of_noise.append(float(np.abs(noisy / noisy.sum() - counts / counts.sum()).sum() / 2))
    return [*zip(of_release, of_noise, strict=True)]


def true_jobs(release: Release, config: ReleaseConfig) -> CountedJobs:
    """Return the confidential jobs, with the codes of the release's categories."""
    categories = release.categories
    parts = job_source(config, release.geography).parts(tuple(categories), categories)
    records = join_records([*parts], tuple(categories))
    return CountedJobs(records.work, records.home, records.attributes)


if __name__ == "__main__":
    main()
