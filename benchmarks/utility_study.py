"""Mechanisms compared on one plan at the same privacy: the study of docs/utility-study.md.

Usage: python benchmarks/utility_study.py [--python ENVIRONMENT/bin/python]

Draws every method of study_methods.py at every epsilon, some times over, from the true jobs of Rhode Island
2019 (LODES, which plays the confidential truth and is public), and measures what each loses. Writes a row a
draw to docs/utility-study.csv; the page docs/utility-study.md and its figures are made from that file, with
all their numbers. `--page-only` makes them without drawing. The environment with the general tool is the one
of comparison.py; without it, that method is "not run".
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from processes import measured
from study_measures import MEASURES, Truth
from study_methods import Draft, Subject, drafts, draw, facts, flows, true_homes
from study_page import write_page

import pipelines
from pipelines.views.evaluation.flow_measures import add_up

ROOT = Path(__file__).parent.parent
TOOL = Path(__file__).parent / "comparison_tools.py"
MINUTES, GIGABYTES = 5.0, 16.0
EPSILONS = ("1", "2", "4.6", "8.6")
CSV, PAGE, FIGURES = "utility-study.csv", "utility-study.md", "images"
FACTS = ("pools", "cells", "noise", "certified_delta")
COLUMNS = ["epsilon", "method", "repetition", "note", *FACTS, *MEASURES]


@click.command()
@click.option("--config", type=click.Path(path_type=Path), default=ROOT / "examples" / "rhode_island.toml")
@click.option("--docs", type=click.Path(path_type=Path, file_okay=False), default=ROOT / "docs")
@click.option("--epsilon", multiple=True, default=EPSILONS, show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--python", help="Python of the environment that has mbi.")
@click.option("--page-only", is_flag=True, help="Make the page from the results of an earlier run.")
def main(
    config: Path, docs: Path, epsilon: tuple[str, ...], repetitions: int, python: str | None, page_only: bool
) -> None:
    """Draw, measure, and write results, figures and page."""
    begin = time.perf_counter()
    if not page_only:
        subject = Subject.of(pipelines.load_config(config))
        results = study(subject, epsilon, repetitions, python)
        results.to_csv(docs / CSV, index=False, float_format="%.6g", lineterminator="\n")
    write_page(docs / CSV, docs / PAGE, docs / FIGURES)
    click.echo(f"{docs / PAGE} written in {time.perf_counter() - begin:.0f} s")


def study(
    subject: Subject, epsilons: Sequence[str], repetitions: int, python: str | None = None
) -> pd.DataFrame:
    """Return a row a draw: of every method, at every epsilon."""
    truth = Truth(
        subject.inputs.geography,
        flows(subject.inputs.geography, subject.records.work, subject.records.home),
    )
    rows = []
    for epsilon in epsilons:
        for draft in drafts(subject, epsilon):
            rows += [one | {"epsilon": epsilon} for one in drawn(subject, truth, draft, repetitions)]
            click.echo(f"epsilon {epsilon}, {draft.method}: {draft.note or 'drawn'}", err=True)
        rows += [
            one | {"epsilon": epsilon}
            for one in general(truth, epsilon, float(subject.config.privacy.delta), repetitions, python)
        ]
    return pd.DataFrame(rows, columns=COLUMNS)


def drawn(subject: Subject, truth: Truth, draft: Draft, repetitions: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of one plan."""
    row: dict[str, Any] = {"method": draft.method, "note": draft.note, "certified_delta": draft.delta}
    if draft.plan is None:
        yield row | {"repetition": 0}
        return
    plan = draft.plan
    homes = true_homes(subject, plan)
    for i in range(repetitions):
        table = flows(plan.geography, plan.pools.slots.work, draw(plan, homes))
        yield row | facts(plan) | truth.compare(table) | {"repetition": i + 1}


def general(
    truth: Truth, epsilon: str, delta: float, repetitions: int, python: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the general tool, which gets homes and workplaces as tracts."""
    row: dict[str, Any] = {"method": "mbi"}
    if python is None:
        yield row | {"repetition": 0, "note": "not run: its environment was not given"}
        return
    block, tract = (truth.levels[name] for name in ("block", "tract"))
    table = add_up(truth.flows, truth.geography, (block, block), (tract, tract))
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "true.parquet", Path(folder) / "synthetic.parquet"
        jobs = table.loc[table.index.repeat(table["S000"]), ["home", "work"]]
        jobs.astype(np.int64).to_parquet(source, index=False)
        command = [python, str(TOOL), "mbi", str(source), str(target), epsilon, str(delta)]
        for i in range(repetitions):
            usage = measured(command, seconds=60 * MINUTES, gigabytes=GIGABYTES)
            if usage.status:
                last = (usage.errors.splitlines() or [f"status {usage.status}"])[-1]
                yield row | {"repetition": 0, "note": f"not run: {last[:80]}"}
                return
            counted = pd.read_parquet(target).value_counts(["work", "home"]).rename("S000").reset_index()
            found = truth.compare_tracts(counted.sort_values(["work", "home"], ignore_index=True))
            yield row | {"repetition": i + 1, "note": "", "certified_delta": math.nan} | found


if __name__ == "__main__":
    main()
