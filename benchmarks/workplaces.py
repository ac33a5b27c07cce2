"""Rhode Island with public workplaces of its own, beside the same release without: its costs, what it hides.

Usage: python benchmarks/workplaces.py [--page benchmarks/workplaces.md]

The public table is that of examples/workplaces.py: totals times a factor between 0.85 and 1.15 for each work
block. LODES plays the confidential truth, and is itself public, so that what a release hides may be printed.
Total variations are between shares of all jobs. "Table alone" is what the public table costs before any
privacy: the true homes of each work block, weighted to the table's total.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np
from report import fill, table

import geo_data
import pipelines
import synth
from pipelines.planning.public_inputs import job_source, read_geography

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
COMMAND = "python benchmarks/workplaces.py"
EXACT = ("", "")
CASES = [
    (mechanism, epsilon, span)
    for mechanism, spans in {
        "dirichlet": [EXACT, ("0.8", "1.25"), ("1", "1"), ("0.5", "2")],
        "geometric": [EXACT, ("0.8", "1.25")],
    }.items()
    for epsilon in ("8.6", "2")
    for span in spans
]
HEAD = ["release", "epsilon", "presence", "noise", "left out, filled in", "flows", "homes", "own totals"]


def counts(
    geography: geo_data.Geography, homes: np.ndarray, works: np.ndarray, jobs: np.ndarray
) -> dict[str, np.ndarray]:
    """Return jobs by pair of tracts, by home tract and by work block; external zones are units too."""
    units = geography.n_units("trct")
    home, work = (geography.unit_of("trct", blocks) for blocks in (homes, works))
    return {
        "flows": np.bincount(home.astype(np.int64) * units + work, jobs, units * units),
        "homes": np.bincount(home, jobs, units),
        "work": np.bincount(works, jobs, geography.n_blocks),
    }


def variation(one: np.ndarray, other: np.ndarray) -> float:
    """Return the total variation between two tables of shares."""
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def row(
    name: str, truth: dict[str, np.ndarray], found: dict[str, np.ndarray], cells: Sequence[str] = ("",) * 4
) -> list[str]:
    """Return a row of the table."""
    present = truth["work"] > 0
    same = (truth["work"] == found["work"])[present].mean()
    losses = (f"{variation(truth[what], found[what]):.4f}" for what in ("flows", "homes"))
    return [name, *cells, *losses, f"{same:.1%}"]


@click.command()
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(page: Path | None) -> None:
    """Make the releases, compare them, and print."""
    from examples import workplaces

    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        public = folder / "ri_workplaces_2019.csv"
        workplaces.main(public)
        config = pipelines.load_config(ROOT / "examples" / "workplaces.toml")
        assert config.workplaces is not None
        config = config.model_copy(
            update={"workplaces": config.workplaces.model_copy(update={"file": public})}
        )
        geography = read_geography(config)
        records = job_source(config, geography).records()
        truth = counts(geography, records.home, records.work, np.ones(len(records)))
        slots = geo_data.LodesJobs(public, geography, homes=False).slots()
        totals = np.bincount(slots.work, minlength=geography.n_blocks)
        weight = (totals / np.maximum(truth["work"], 1))[records.work]
        rows.append(row("table alone", truth, counts(geography, records.home, records.work, weight)))
        for i, (mechanism, epsilon, span) in enumerate(CASES):
            made, out = changed(config, mechanism, epsilon, span), folder / str(i)
            release = pipelines.run(made.with_out(out))
            level = geography.block_level
            flows = pipelines.open_release(release.public).unit_flows(level, level)
            found = counts(geography, *(flows[side].to_numpy() for side in ("home", "work", "S000")))
            presence = release.plan.certify().presence
            cells = [
                epsilon,
                "not protected",
                f"{release.plan.mechanism.noise_share(release.plan.numeric):.1%}",
                "",
            ]
            what = "exact totals"
            if presence is not None:
                kept = json.loads((out / "confidential" / "totals.json").read_text(encoding="utf-8"))
                cells[1] = synth.decimal_up(presence.epsilon, 3)
                what = "public workplaces"
                if mechanism == "dirichlet":
                    what += f", {span[0]} to {span[1]} times"
                    cells[3] = f"{kept['jobs_left_out']:,}, {kept['homes_filled_in']:,}"
            rows.append(row(f"{mechanism}, {what}", truth, found, cells))
    text = f"{table(HEAD, rows)}\n\n{hidden(truth['work'], totals)}"
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def changed(
    config: pipelines.ReleaseConfig, mechanism: str, epsilon: str, span: tuple[str, str]
) -> pipelines.ReleaseConfig:
    """Return the configuration with another mechanism, epsilon and range, or without the public table."""
    workplaces = None
    if span != EXACT and config.workplaces is not None:
        fewest, most = map(synth.exact, span)
        workplaces = config.workplaces.model_copy(update={"fewest": fewest, "most": most})
    return config.model_copy(
        update={
            "release": config.release.model_copy(update={"mechanism": mechanism, "csv": False}),
            "privacy": config.privacy.model_copy(update={"epsilon": synth.exact(epsilon)}),
            "workplaces": workplaces,
        }
    )


def hidden(work: np.ndarray, totals: np.ndarray) -> str:
    """Say how far the public totals are from those of the file."""
    both = (work > 0) & (totals > 0)
    off = np.abs(totals / np.maximum(work, 1) - 1)[both & (work >= 100)]
    single = work == 1
    return (
        f"The file has {int(work.sum()):,} jobs at {(work > 0).sum():,} work blocks, the public table "
        f"{int(totals.sum()):,} at {(totals > 0).sum():,}. Of the {single.sum():,} blocks with one job "
        f"{(single & (totals == 0)).sum():,} are not in the table and {(single & (totals > 1)).sum():,} have "
        f"more; totals of at least 100 are off by {np.median(off):.1%} in the median."
    )


if __name__ == "__main__":
    main()
