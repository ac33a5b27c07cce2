"""Rhode Island, table by table: what each mechanism is expected to lose in the default workload, and loses.

Usage: python benchmarks/workload.py [--page benchmarks/workload.md]

Plans the jobs of Rhode Island, one row a job with three attributes, at several epsilon, with each mechanism
and with what the planner chooses; draws once; guesses homes as somebody does who knows all others; prints a
table for each epsilon. LODES plays the confidential truth, and is itself public, so that what a release loses
may be printed.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from pipelines.planning.guesses import ExpectedGuess, Guesses, expected_guess, guess_homes
from pipelines.planning.simulation import SimulatedUtility, simulate_utility
from pipelines.plans.plan import batches
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


@dataclass(frozen=True, eq=False)
class Tried:
    """A plan of the planner: what it is expected to lose in each table and loses; guesses of homes."""

    plan: ReleasePlan
    expected: SimulatedUtility
    reached: Losses
    expected_guess: ExpectedGuess
    guesses: Guesses


def tried(subject: Subject, epsilon: str, mechanism: str) -> Tried:
    """Plan, and draw."""
    plan = subject.plan(epsilon, mechanism)
    expected = simulate_utility(plan, subject.inputs.model)
    true, slots = subject.true_jobs(plan), plan.pools.slots
    drawn = CountedJobs(slots.work, draw(plan, true.home), slots.attributes)
    reached = subject.workload.losses(true, drawn)
    guesses = guess_homes(plan, batches(plan), true.home, synth.RunKey.generate())
    guess = expected_guess(plan)
    assert guess is not None
    assert guesses is not None
    return Tried(plan, expected, reached, guess, guesses)


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
        either = next(iter(found.values()))
        for i, first in enumerate(either.expected.workload):
            cells = [first.table.name, f"{first.public_model:.3f}"]
            for trial in found.values():
                loss = trial.expected.workload[i]
                mark = "" if loss.carried else " (not carried)"
                cells += [f"{loss.loss:.3f}{mark}", f"{trial.reached[i]:.3f}", f"{loss.no_privacy:.3f}"]
            rows.append(cells)
        cells = ["weighted mean", ""]
        for trial in found.values():
            reached = subject.workload.objective(trial.reached)
            cells += [f"{trial.expected.objective:.3f}", f"{reached:.3f}", ""]
        guessed = ["homes guessed right, at most", f"{either.guesses.public.mean():.3f}"]
        for trial in found.values():
            guessed += [f"{trial.expected_guess.released:.3f}", f"{trial.guesses.released.mean():.3f}", ""]
        words = "; ".join(f"{name}: {plan_in_words(trial.plan)}" for name, trial in found.items())
        parts.append(f"**Epsilon {one}** ({words})\n\n{table(head, [*rows, cells, guessed])}")
        click.echo(parts[-1])
    if page is not None:
        fill(page, COMMAND, "\n\n".join(parts))


if __name__ == "__main__":
    main()
