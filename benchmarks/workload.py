"""Rhode Island, table by table: what each mechanism is expected to lose in the default workload, and loses.

Usage: python benchmarks/workload.py [--page docs/choosing.md]

Plans the jobs of Rhode Island, one row a job with three attributes, at several epsilon, with each mechanism
and with what the planner chooses; draws once; and prints a table for each epsilon. LODES plays the
confidential truth, and is itself public, so that what a release loses may be printed.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray
from report import fill, table
from study_methods import Subject, draw, plan_in_words

import pipelines
import synth
from pipelines import ReleasePlan
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.simulation import SimulatedUtility, simulate_utility
from pipelines.plans.workload import CountedJobs

Losses = NDArray[np.float64]
ROOT = Path(__file__).parent.parent
COMMAND = "python benchmarks/workload.py"
JOBS = """[jobs]
format = "microdata"
file = "../../shared/data/ri_2019/ri_microdata_2019.csv.gz"
home = "home"
work = "work"
attributes = ["age", "earnings", "industry"]

"""


def configuration() -> ReleaseConfig:
    """Return examples/rhode_island.toml with one row a job."""
    text = (ROOT / "examples" / "rhode_island.toml").read_text(encoding="utf-8")
    begin, end = text.index("[jobs]"), text.index("# The public geography")
    return pipelines.parse_config(text[:begin] + JOBS + text[end:], ROOT / "examples", "rhode_island.toml")


def tried(subject: Subject, epsilon: str, mechanism: str) -> tuple[ReleasePlan, SimulatedUtility, Losses]:
    """Return the planner's plan, what it is expected to lose in each table, and what a draw of it loses."""
    plan = subject.plan(epsilon, mechanism)
    expected = simulate_utility(plan, subject.inputs.model)
    true, slots = subject.true_jobs(plan), plan.pools.slots
    drawn = CountedJobs(slots.work, draw(plan, true.home), slots.attributes)
    return plan, expected, subject.workload.losses(true, drawn)


@click.command()
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(epsilon: tuple[str, ...], page: Path | None) -> None:
    """Plan, draw, and print a table for each epsilon."""
    subject = Subject.of(configuration())
    parts = []
    for one in epsilon:
        found = {name: tried(subject, one, name) for name in sorted(synth.MECHANISMS)}
        head = ["table", "public model alone"]
        for name in found:
            head += [f"{name}, expected", "reached", "no privacy"]
        rows = []
        for i, first in enumerate(next(iter(found.values()))[1].workload):
            cells = [first.table.name, f"{first.public_model:.3f}"]
            for _, expected, reached in found.values():
                loss = expected.workload[i]
                mark = "" if loss.carried else " (not carried)"
                cells += [f"{loss.loss:.3f}{mark}", f"{reached[i]:.3f}", f"{loss.no_privacy:.3f}"]
            rows.append(cells)
        cells = ["weighted mean", ""]
        for _, expected, reached in found.values():
            cells += [f"{expected.objective:.3f}", f"{subject.workload.objective(reached):.3f}", ""]
        words = "; ".join(f"{name}: {plan_in_words(plan)}" for name, (plan, _, _) in found.items())
        parts.append(f"**Epsilon {one}** ({words})\n\n{table(head, [*rows, cells])}")
        click.echo(parts[-1])
    if page is not None:
        fill(page, COMMAND, "\n\n".join(parts))


if __name__ == "__main__":
    main()
