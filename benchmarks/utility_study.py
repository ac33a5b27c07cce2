"""Methods compared table by table at the same privacy: the study of docs/utility-study.md.

Usage: python benchmarks/utility_study.py [--python ENVIRONMENT/bin/python]

Draws every method of study_methods.py at every epsilon, some times over, from the true jobs of Rhode Island
2019, one row a job with three attributes (LODES, which plays the confidential truth and is public), and
measures what each loses in every table of the default workload. Writes a row a draw to
docs/utility-study.csv as it comes; what that file has already is not drawn again, unless `--anew` is given.
The page docs/utility-study.md, its figure, and benchmarks/utility_study_tables.md are made from that file,
with all their numbers. The general tools need an environment of their own, as in comparison.py; without it
they are "not run":

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install mbi==2.0.0 inf-tda==0.1 opendp==0.12.1 pyarrow
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from processes import measured
from study_measures import GUESSES, MEAN, MEASURES, Truth, guess_figures
from study_methods import GOALS, METHODS, Draft, Subject, draw, plan_in_words
from study_office import DRAWN, OFFICES, Office, rule_of
from study_page import write_pages
from workload import configuration

import synth
from pipelines.planning.guesses import guess_homes
from pipelines.plans.plan import batches
from pipelines.plans.workload import CountedJobs

Int32 = NDArray[np.int32]
ROOT = Path(__file__).parent.parent
TOOLS = Path(__file__).parent / "comparison_tools.py"
MINUTES, GIGABYTES = 5.0, 16.0
EPSILONS = ("8.6", "4.6", "2", "1")
CSV, PAGE, FIGURES = "utility-study.csv", "utility-study.md", "images"
TABLES = ROOT / "benchmarks" / "utility_study_tables.md"


@click.command()
@click.option("--docs", type=click.Path(path_type=Path, file_okay=False), default=ROOT / "docs")
@click.option("--tables", type=click.Path(path_type=Path, dir_okay=False), default=TABLES)
@click.option("--epsilon", multiple=True, default=EPSILONS, show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--python", help="Python of the environment that has mbi and InfTDA.")
@click.option("--anew", is_flag=True, help="Draw also what the file of results has already.")
@click.option("--page-only", is_flag=True, help="Make the pages from the results of an earlier run.")
def main(
    docs: Path,
    tables: Path,
    epsilon: tuple[str, ...],
    repetitions: int,
    python: str | None,
    anew: bool,
    page_only: bool,
) -> None:
    """Draw, measure, and write results, figure and page."""
    begin = time.perf_counter()
    if not page_only:
        if anew:
            (docs / CSV).unlink(missing_ok=True)
        study(Subject.of(configuration()), docs / CSV, epsilon, repetitions, python)
    write_pages(docs / CSV, docs / PAGE, tables, docs / FIGURES)
    click.echo(f"{docs / PAGE} and {tables} written in {time.perf_counter() - begin:.0f} s")


def study(
    subject: Subject,
    results: Path,
    epsilons: Sequence[str],
    repetitions: int,
    python: str | None = None,
    methods: Iterable[str] | None = None,
) -> None:
    """Append a row a draw to a file of results: of every method, at every epsilon, that it does not have."""
    records = subject.records
    truth = Truth(CountedJobs(records.work, records.home, records.attributes), subject.workload)
    columns = [
        "epsilon",
        "method",
        "repetition",
        "note",
        "plan",
        MEAN,
        *truth.workload.names,
        *MEASURES,
        *GUESSES,
    ]
    if not results.exists():
        pd.DataFrame(columns=columns).to_csv(results, index=False, lineterminator="\n")
    known = pd.read_csv(results, dtype="str")
    done = {*zip(known["epsilon"], known["method"], strict=True)}
    wanted = itertools.product(epsilons, [*(methods or (*METHODS, *OFFICES)), *GOALS])
    for epsilon, method in wanted:
        if (epsilon, method) in done:
            continue
        begin = time.perf_counter()
        rows = [
            {"epsilon": epsilon, "method": method, "repetition": i, **row}
            for i, row in enumerate(drawn(subject, truth, method, epsilon, repetitions, python), 1)
        ]
        table = pd.DataFrame(rows, columns=columns)
        table.to_csv(results, mode="a", header=False, index=False, float_format="%.6g", lineterminator="\n")
        click.echo(f"epsilon {epsilon}, {method}: {time.perf_counter() - begin:.0f} s", err=True)


def drawn(
    subject: Subject, truth: Truth, method: str, epsilon: str, repetitions: int, python: str | None
) -> Iterator[dict[str, Any]]:
    """Yield what is measured of each draw of a method, or a row that says why there is none."""
    if method in OFFICES:
        plan = subject.plan(epsilon, "geometric")  # of which an office has the jobs and the public model
        for _ in range(repetitions if method in DRAWN else 1):
            yield Office(subject, plan).publish(rule_of(method, epsilon))
        return
    if method in METHODS and METHODS[method].make is None:
        yield from by_tool(subject, truth, method, epsilon, repetitions, python)
        return
    draft = (
        METHODS[method].make(subject, epsilon) if method in METHODS else GOALS[method].draft(subject, epsilon)
    )
    if draft.plan is None:
        yield {"note": draft.note}
        return
    slots, homes = draft.plan.pools.slots, subject.true_jobs(draft.plan).home
    attributes = {name: slots.attributes[name] for name in truth.workload.attributes}
    for seed in range(repetitions):
        jobs = CountedJobs(slots.work, draft.draw(draft.plan, homes, seed), attributes)
        row = {"plan": plan_in_words(draft.plan)} | truth.losses(jobs)
        if method not in GOALS:
            row |= truth.figures(jobs) | guessed(draft, method, homes)
        yield row


def guessed(draft: Draft, method: str, homes: Int32) -> dict[str, float]:
    """Return how often true homes are guessed right, at most; nothing where that is not computed."""
    plan = draft.plan
    assert plan is not None
    if draft.draw is not draw and method != "model":
        return {}
    found = guess_homes(plan, batches(plan), homes, synth.RunKey.generate())
    if found is None:
        return {}
    size = plan.pools.slots.jobs(plan.geography.n_blocks)[plan.pools.slots.work[found.slot]]
    figures = guess_figures(found.public if method == "model" else found.released, size)
    return figures | {"guess_all": figures["guess"]}


def by_tool(
    subject: Subject, truth: Truth, method: str, epsilon: str, repetitions: int, python: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the same of a general tool, which gets homes and workplaces as units of the model."""
    if python is None:
        yield {"note": "not run: its environment was not given"}
        return
    geography, level = truth.workload.geography, truth.workload.level
    first, delta = geography.starts(level), str(float(subject.config.privacy.delta))
    sides = {side: geography.unit_of(level, getattr(truth.jobs, side)) for side in ("home", "work")}
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "true.parquet", Path(folder) / "synthetic.parquet"
        pd.DataFrame(sides | {**truth.jobs.attributes}).astype(np.int64).to_parquet(source, index=False)
        command = [python, str(TOOLS), method, str(source), str(target), epsilon, delta]
        for _ in range(repetitions):
            usage = measured(command, seconds=60 * MINUTES, gigabytes=GIGABYTES)
            if usage.status:
                last = (usage.errors.splitlines() or [f"status {usage.status}"])[-1]
                yield {"note": f"not in {MINUTES:.0f} min" if usage.timed_out else f"not run: {last[:80]}"}
                return
            table = pd.read_parquet(target)
            attributes = {name: table[name].to_numpy() for name in truth.jobs.attributes if name in table}
            jobs = CountedJobs(first[table["work"]], first[table["home"]], attributes)
            yield truth.losses_of_units(jobs) | truth.figures_of_units(jobs)


if __name__ == "__main__":
    main()
