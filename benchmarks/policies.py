"""Rhode Island under a policy: what each mechanism loses in every table, beside "full" at the same epsilon.

Usage: python benchmarks/policies.py [--epsilon 8.6 ...] [--page docs/policies.md]

Plans the jobs of Rhode Island, one row a job with three attributes, under "full" and under a partition by
county, with each mechanism; draws from the true jobs some times over; and prints a table for each epsilon.
LODES plays the confidential truth, and is itself public, so that what a release loses may be printed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from report import fill, table
from study_measures import MEAN, Truth
from study_methods import Subject, draw, plan_in_words
from workload import configuration

import synth
from pipelines.planning.workload import CountedJobs

COMMAND = "python benchmarks/policies.py"
POLICIES: dict[str, Any] = {"full": "full", "by county": {"partition": "cty"}}


@click.command()
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(epsilon: tuple[str, ...], repetitions: int, page: Path | None) -> None:
    """Plan, draw, and print a table for each epsilon."""
    subjects = {}
    for name, policy in POLICIES.items():
        config = configuration()
        privacy = config.privacy.model_copy(update={"policy": policy})
        subjects[name] = Subject.of(config.model_copy(update={"privacy": privacy}))
    parts = []
    for one in epsilon:
        losses, words = {}, []
        for mechanism in sorted(synth.MECHANISMS):
            for name, subject in subjects.items():
                plan = subject.planned(one, mechanism)
                losses[f"{mechanism}, {name}"] = lost(subject, plan, repetitions)
                words.append(f"{mechanism}, {name}: {plan_in_words(plan)}")
        names = [*next(iter(losses.values()))]
        rows = [[what, *(f"{found[what]:.3f}" for found in losses.values())] for what in names]
        head = ["table", *losses]
        parts.append(f"**Epsilon {one}** ({'; '.join(words)})\n\n{table(head, rows)}")
        click.echo(parts[-1])
    if page is not None:
        drawn = f"Mean of {repetitions} draws." if repetitions > 1 else "One draw."
        fill(page, COMMAND, "\n\n".join([drawn, *parts]))


def lost(subject: Subject, plan: Any, repetitions: int) -> dict[str, float]:
    """Return what draws of a plan lose in each table, and in their weighted mean, on average."""
    true, slots = subject.true_jobs(plan), plan.pools.slots
    truth = Truth(true, subject.workload)
    drawn = [
        truth.losses(CountedJobs(slots.work, draw(plan, true.home), slots.attributes))
        for _ in range(repetitions)
    ]
    names = [*(name for name in drawn[0] if name != MEAN), MEAN]
    return {name: float(np.mean([one[name] for one in drawn])) for name in names}


if __name__ == "__main__":
    main()
