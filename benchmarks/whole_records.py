"""Rhode Island with whole records or an attribute protected, beside the same epsilon for homes alone.

Usage: python benchmarks/whole_records.py [--epsilon 2 ...] [--draws 3] [--page benchmarks/whole_records.md]

One row a job with three attributes, measured tables, and what the planner chooses. Whole records are
protected twice: with no public table of workplaces, and with one of last year, the true number of each work
block and kind of jobs times a factor between 0.85 and 1.15 for each block. All is also resampled, with the
guarantee that asks for least, "dp". Each plan is drawn some times; total variations are
means. LODES plays the confidential truth, and is itself public, so that they may be printed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import numpy as np
import pandas as pd
from report import commit_measured, fill, table
from workload import JOBS, ROOT

import pipelines
from pipelines import Release

COMMAND = "python benchmarks/whole_records.py"
ATTRIBUTES = {name: [f"{letters}0{i}" for i in (1, 2, 3)] for name, letters in
              (("age", "SA"), ("earnings", "SE"), ("industry", "SI"))}  # fmt: skip
DECLARED = "".join(
    f'[[attribute]]\nname = "{name}"\ncategories = {values}\n\n'.replace("'", '"')
    for name, values in ATTRIBUTES.items()
)
PROTECTED = (
    "homes",
    "homes, resampled",
    "homes and earnings",
    "homes and earnings, resampled",
    "records",
    "records, resampled",
    "records, with last year's table",
    "records, with last year's table, resampled",
)
HEAD = [
    "epsilon",
    "protected",
    "flows between tracts",
    "jobs by tract and earnings",
    "jobs by block",
    "residents by tract and earnings",
    "shares of epsilon for workplaces",
]


@click.command()
@click.option("--epsilon", "epsilons", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--draws", default=3, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the table into.")
def main(epsilons: tuple[str, ...], draws: int, page: Path | None) -> None:
    """Plan, draw, and print."""
    true = pd.read_csv(ROOT.parent / "shared/data/ri_2019/ri_microdata_2019.csv.gz", dtype="str")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        last_year(true, folder / "last_year.csv")
        for epsilon in epsilons:
            for protected in PROTECTED:
                rows.append([epsilon, protected, *compared(folder, epsilon, protected, draws, true)])
                click.echo(" | ".join(rows[-1]), err=True)
    text = f"Means of {draws} draws, commit {commit_measured()}.\n\n{table(HEAD, rows)}"
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def last_year(true: pd.DataFrame, path: Path) -> None:
    """Write a public table of workplaces."""
    jobs = true.groupby(["work", *ATTRIBUTES], as_index=False).size()
    blocks, block = np.unique(jobs["work"], return_inverse=True)
    factor = np.random.default_rng(0).uniform(0.85, 1.15, blocks.size)
    jobs["jobs"] = np.rint(jobs["size"] * factor[block]).astype(int)
    jobs.drop(columns="size").to_csv(path, index=False)


def configuration(epsilon: str, protected: str) -> str:
    """Return examples/rhode_island.toml with one row a job, and what is protected of it."""
    text = (ROOT / "examples" / "rhode_island.toml").read_text(encoding="utf-8")
    begin, end = text.index("[jobs]"), text.index("# The public geography")
    lines = (text[:begin] + JOBS + text[end:]).replace('"dirichlet"', '"geometric"').splitlines()
    lines = [f'epsilon = "{epsilon}"' if line.startswith("epsilon") else line for line in lines]
    if "resampled" in protected:
        lines = [line.replace('"geometric"', '"dirichlet"') for line in lines]
        lines.insert(lines.index("[privacy]") + 1, 'guarantee = "dp"')
    if protected.split(",")[0] != "homes":
        what = '["home", "earnings"]' if "earnings" in protected else '"record"'
        lines = [f"protects = {what}" if line.startswith("protects") else line for line in lines]
        lines.append(DECLARED)
    if "table" in protected:
        lines.append('[workplaces]\nfile = "last_year.csv"\ncount = "jobs"\n')
    return "\n".join(lines).replace("../../shared", str(ROOT.parent / "shared"))


def compared(folder: Path, epsilon: str, protected: str, draws: int, true: pd.DataFrame) -> list[str]:
    """Return the mean losses of some draws of a plan, and the shares of tables of workplaces."""
    config = pipelines.parse_config(configuration(epsilon, protected), folder, "records.toml")
    name = f"{epsilon}-{PROTECTED.index(protected)}"
    planned = pipelines.plan(config, folder / f"{name}-plan")
    losses = []
    for draw in range(draws):
        release = pipelines.run(config.with_out(folder / f"{name}-{draw}"), plan=planned.folder)
        losses.append(lost(release, true))
        shares = [str(float(choice.share)) for choice in release.plan.choices.workplaces]
    return [*(f"{loss:.4f}" for loss in np.mean(losses, axis=0)), ", ".join(shares)]


def lost(release: Release, true: pd.DataFrame) -> list[float]:
    """Return the total variation of each table of the page."""
    jobs = pd.read_parquet(next(release.public.glob("*_jobs_*.parquet")))
    jobs = jobs.rename(columns={"h_geocode": "home", "w_geocode": "work"})
    tables = (
        lambda t: [tract(t["home"]), tract(t["work"])],
        lambda t: [tract(t["work"]), t["earnings"]],
        lambda t: [t["work"]],
        lambda t: [tract(t["home"]), t["earnings"]],
    )
    result = []
    for keys in tables:
        counts = pd.concat([side.groupby(keys(side)).size() for side in (jobs, true)], axis=1).fillna(0)
        shares = counts / counts.sum()
        result.append(float((shares[0] - shares[1]).abs().sum() / 2))
    return result


def tract(blocks: pd.Series) -> pd.Series:
    """Return the tract of each block; the state of one in another state."""
    return blocks.str[:11].where(blocks.str.startswith("44"), blocks.str[:2])


if __name__ == "__main__":
    main()
