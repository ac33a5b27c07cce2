"""What was aimed at on Rhode Island, what today's plans reach, and how near their forecasts are.

Usage: python benchmarks/goals.py [--epsilon 4.6]

Plans every workload that has aims (study_methods.GOALS, study_page.goal_table), draws each plan some times
from the true jobs, as the utility study does, and prints its table of aims: reached (aimed at), bold where
more is lost. Then, for every plan, the forecast of each table of its workload beside what is reached.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
from report import table
from study_methods import GOALS, Subject, plan_in_words
from study_page import Results, goal_table
from utility_study import CSV, EPSILONS, study
from workload import configuration

from pipelines.planning.simulation import simulate_utility

DEFAULT = ("geometric", "dirichlet")  # for the default workload


def forecasts(subject: Subject, results: Results) -> list[list[str]]:
    """Return a row for each plan and table: forecast, reached, and by how much the forecast is more."""
    rows = []
    for epsilon in results.epsilons:
        for name in (*DEFAULT, *GOALS):
            plan = GOALS[name].draft(subject, epsilon).plan if name in GOALS else subject.plan(epsilon, name)
            assert plan is not None
            click.echo(f"epsilon {epsilon}, {name}: {plan_in_words(plan)}", err=True)
            for one in simulate_utility(plan, subject.inputs.model).workload:
                found = results.mean(name, epsilon, one.table.name)
                apart = one.loss / found - 1
                cells = [one.table.name, f"{one.loss:.4f}", f"{found:.4f}", f"{apart:+.1%}"]
                rows.append([epsilon, name, *cells, "more than 15 %" if abs(apart) > 0.15 else ""])
    return rows


@click.command()
@click.option("--epsilon", multiple=True, default=EPSILONS, show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True)
def main(epsilon: tuple[str, ...], repetitions: int) -> None:
    """Plan, draw, and print both tables."""
    subject = Subject.of(configuration())
    methods = (*DEFAULT, *(f"{name}_before" for name in DEFAULT))  # (c) and (d) are what (a) and (b) aim at
    with tempfile.TemporaryDirectory() as folder:
        study(subject, Path(folder) / CSV, epsilon, repetitions, methods=methods)
        results = Results.read(Path(folder) / CSV)
    click.echo(f"{goal_table(results)}\n")
    head = ["epsilon", "plan", "table", "forecast", "reached", "apart", ""]
    click.echo(table(head, forecasts(subject, results)))


if __name__ == "__main__":
    main()
