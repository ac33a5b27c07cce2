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
from report import fill, table
from study_methods import draw

import geo_data
import pipelines
import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.planning.public_inputs import PublicInputs, job_source
from pipelines.planning.sweep import changed
from pipelines.planning.workload import CountedJobs, resolve_workload

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


def tried(
    config: ReleaseConfig, inputs: PublicInputs, records: geo_data.JobRecords
) -> tuple[pipelines.ReleasePlan, pipelines.SimulatedUtility, np.ndarray]:
    """Return the plan of a configuration, what it is expected to lose, and what a draw of it loses."""
    plan = pipelines.make_plan(config, inputs)
    expected = pipelines.simulate_utility(plan, inputs.model)
    order = geo_data.order_records(plan.pools, plan.geography, records)
    attributes = {name: codes[order] for name, codes in records.attributes.items()}
    true = CountedJobs(records.work[order], records.home[order], attributes)
    slots = plan.pools.slots
    workload = resolve_workload(plan.configuration, plan.geography, plan.level, slots)
    drawn = CountedJobs(slots.work, draw(plan, true.home), slots.attributes)
    return plan, expected, workload.losses(true, drawn)


def pools(plan: pipelines.ReleasePlan) -> str:
    """Return what the planner chose, in words."""
    chosen = plan.choices
    by = f"by {' and '.join(chosen.pool_by)}" if chosen.pool_by else "not by attributes"
    if plan.tables:
        return "; ".join(f"{words}, {float(share):.0%} of epsilon" for words, share in plan.tables)
    return f"pools {by}, shared below {chosen.pool_below:,} jobs in a unit of {chosen.pool_level}"


@click.command()
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(epsilon: tuple[str, ...], page: Path | None) -> None:
    """Plan, draw, and print a table for each epsilon."""
    config = configuration()
    inputs = pipelines.read_public_inputs(config)
    records = job_source(config, inputs.geography).records(tuple(inputs.slots.attributes))
    parts = []
    for one in epsilon:
        found = {
            name: tried(changed(config, {"epsilon": one, "mechanism": name}), inputs, records)
            for name in sorted(synth.MECHANISMS)
        }
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
        for plan, expected, reached in found.values():
            workload = resolve_workload(plan.configuration, plan.geography, plan.level, plan.pools.slots)
            cells += [f"{expected.objective:.3f}", f"{workload.objective(reached):.3f}", ""]
        words = "; ".join(f"{name}: {pools(plan)}" for name, (plan, _, _) in found.items())
        parts.append(f"**Epsilon {one}** ({words})\n\n{table(head, [*rows, cells])}")
        click.echo(parts[-1])
    if page is not None:
        fill(page, COMMAND, "\n\n".join(parts))


if __name__ == "__main__":
    main()
