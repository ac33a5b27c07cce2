"""How often intervals of `odsynth compare` hold what changed, and that nothing did, on a generated panel.

Usage: python benchmarks/changes.py [--panels 3] [--page benchmarks/changes.md]

A panel (`odsynth simulate --years 5`) is released every year at epsilon 0.86, once with the history of the
years before and once without. Releases of two and of four years apart are compared, and two of the same jobs.
Counted are intervals of 90 % that hold the true difference, ties decided at random: of all rows, of those
where nothing changed, and of the others; of flows between tracts by the mean of the two true counts, too.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
import pandas as pd
from by_lot import held_by_lot
from history import CASES, configuration
from numpy.typing import NDArray
from report import commit_measured, fill, table

import geo_data
import pipelines
from pipelines import Release
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.public_inputs import job_source
from pipelines.views.changes.comparing import apart, sides_of
from pipelines.views.changes.counting import drawn_changes, shape_of

COMMAND = "python benchmarks/changes.py"
YEARS = range(2010, 2015)
TABLES = {"flows between tracts": ("trct", "trct"), "residents of tracts": ("trct", None),
          "flows between block groups": ("bgrp", "bgrp")}  # fmt: skip
SIZES = {"0": 0.0, "below 10": 9.75, "10 to 99": 99.75, "100 to 999": 999.75, "1,000 and more": np.inf}
BY_SIZE = "flows between tracts"
FEW = 50  # rows, below which nothing is said
HEAD = ["releases", "table", "size", "rows", "held", "held, no change", "held, change", "width"]


class Made(NamedTuple):
    """A release, and what it was made by."""

    release: Release
    config: ReleaseConfig


@click.command()
@click.option("--panels", default=3, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the table into.")
def main(panels: int, page: Path | None) -> None:
    """Simulate, release, compare, count, and print."""
    found = []
    for seed in range(1, panels + 1):
        with tempfile.TemporaryDirectory() as folder:
            found += of_panel(Path(folder), seed)
    text = f"Commit {commit_measured()}, {panels} panels.\n\n{table(HEAD, shares(pd.concat(found)))}"
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def of_panel(folder: Path, seed: int) -> list[pd.DataFrame]:
    """Release the years of a panel, and return the rows of every comparison."""
    panel = geo_data.simulate_panel(folder / "panel", years=len(YEARS), seed=seed)
    case = CASES["sums"]
    series = {year: configuration(panel, case, year) for year in YEARS}
    alone = {
        name: configuration(panel, case, year, history=False).with_out(folder / name)
        for name, year in {"2010": 2010, "2012": 2012, "2014": 2014, "again": 2014}.items()
    }
    made = {year: Made(pipelines.run(config), config) for year, config in series.items()}
    single = {name: Made(pipelines.run(config), config) for name, config in alone.items()}
    pairs = {
        "the same jobs": (single["2014"], single["again"]),
        "two years": (single["2012"], single["2014"]),
        "four years": (single["2010"], single["2014"]),
        "two years, with history": (made[2012], made[2014]),
        "four years, with history": (made[2010], made[2014]),
    }
    random = np.random.default_rng(seed)
    return [
        rows.assign(releases=words, table=name)
        for words, pair in pairs.items()
        for name, rows in changes(folder, *pair, random).items()
    ]


def changes(folder: Path, a: Made, b: Made, random: np.random.Generator) -> dict[str, pd.DataFrame]:
    """Return the rows of each table: sizes, whether nothing changed, and whether that is held."""
    rows = {}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        sides = apart(sides_of(a.release, b.release), Path(scratch))
        for name, (home, work) in TABLES.items():
            shape = shape_of(sides[0], home, work)
            parts = [*drawn_changes(*sides, shape)]
            key = np.concatenate([part.key for part in parts])
            draws = np.concatenate([part.differences for part in parts], axis=1)
            one, other = (true_counts(made, home, work)[key] for made in (a, b))
            present = draws.any(axis=0) | (one > 0) | (other > 0)
            one, other, draws = one[present], other[present], draws[:, present]
            rows[name] = pd.DataFrame(
                {
                    "size": (one + other) / 2,
                    "same": one == other,
                    "held": held_by_lot(other - one, draws, random),
                    "width": np.ptp(draws, axis=0),
                }
            )
    return rows


def true_counts(made: Made, home: str, work: str | None) -> NDArray[np.int64]:
    """Return the true counts of a table, by key."""
    geography = made.release.geography
    records = job_source(made.config, geography).records(())
    homes, n = geography.units_of_blocks(home)[records.home].astype(np.int64), geography.n_units(home)
    if work is None:
        return np.bincount(homes, minlength=n)
    works = geography.units_of_blocks(work)[records.work].astype(np.int64)
    return np.bincount(works * n + homes, minlength=n * geography.n_units(work))


def shares(found: pd.DataFrame) -> list[list[str]]:
    """Return a row for each comparison and table, and one for each size of flows between tracts."""
    rows = []
    for (releases, name), every in found.groupby(["releases", "table"], sort=False):
        parts = {"all": every}
        if name == BY_SIZE:
            order = np.searchsorted([*SIZES.values()], every["size"])
            parts |= {size: every[order == number] for number, size in enumerate(SIZES)}
        for size, some in parts.items():
            if len(some) >= FEW:
                held = [some["held"], some["held"][some["same"]], some["held"][~some["same"]]]
                said = [f"{each.mean():.1%}" if len(each) >= FEW else "" for each in held]
                rows.append([releases, name, size, f"{len(some):,}", *said, f"{some['width'].mean():.1f}"])
    return rows


if __name__ == "__main__":
    main()
