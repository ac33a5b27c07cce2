"""Rhode Island under a policy: what each mechanism loses in every table, beside "full" at the same epsilon.

Usage: python benchmarks/policies.py [--distances] [--epsilon 8.6 ...] [--page benchmarks/policies.md]

With --distances: what measured tables cost together under policies of distances, beside "full".
Otherwise it plans the jobs of Rhode Island, one row a job with three attributes, under "full", under a
partition by county and under a distance of 16 km, with each mechanism; draws from the true jobs some times
over; and prints a table for each epsilon. LODES plays the confidential
truth, and is itself public, so that what a release loses may be printed.
"""

from __future__ import annotations

import tempfile
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
from report import fill, table
from study_measures import MEAN, Truth
from study_methods import Subject, draw, plan_in_words
from workload import configuration

import geo_data
import synth
from pipelines.config.policies import DistancePolicy
from pipelines.config.sections import PrivacySettings
from pipelines.planning.public_inputs import read_geography
from pipelines.plans.plan import policy_of
from pipelines.plans.workload import CountedJobs
from synth.geometric.mechanism import changed_tables, joint_loss

COMMAND = "python benchmarks/policies.py"
DISTANCES = {"Rhode Island": ("0.1", "0.5", "1", "4", "16"), "demo region": ("0.3", "1", "4", "16")}
TABLES = {  # cells of tables that are measured together, with equal shares
    "blocks": ("block",),
    "blocks, tracts": ("block", "trct"),
    "blocks, tracts, counties": ("block", "trct", "cty"),
}
POLICIES: dict[str, Any] = {
    "full": "full",
    "by county": {"partition": "cty"},
    "16 km": {"distance_km": "16"},
}


@click.command()
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--repetitions", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--distances", is_flag=True, help="Only what tables cost under policies of distances.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(epsilon: tuple[str, ...], repetitions: int, distances: bool, page: Path | None) -> None:
    """Plan, draw, and print a table for each epsilon."""
    if distances:
        found = costs()
        click.echo(found)
        if page is not None:
            fill(page, f"{COMMAND} --distances", found)
        return
    subjects = {}
    config = configuration()
    settings = config.privacy.model_dump(mode="json")
    for name, policy in POLICIES.items():
        privacy = PrivacySettings.model_validate(settings | {"policy": policy})
        subjects[name] = Subject.of(config.model_copy(update={"privacy": privacy}))
    parts = []
    for one in epsilon:
        losses, words = {}, []
        for mechanism in sorted(synth.MECHANISMS):
            for name, subject in subjects.items():
                plan = subject.plan(one, mechanism)
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


def costs() -> str:
    """Return a table: what measured tables cost together, as a share of what they cost under full."""
    with tempfile.TemporaryDirectory() as folder:
        files = geo_data.write_demo_region(folder)
        demo = geo_data.read_crosswalk(
            files["crosswalk"],
            block="tabblk2010",
            levels=["cty", "trct"],
            centroid=("blklatdd", "blklondd"),
        )
    geographies = {"Rhode Island": read_geography(configuration()), "demo region": demo}
    rows = []
    for region, geography in geographies.items():
        for km in DISTANCES[region]:
            privacy = SimpleNamespace(policy=DistancePolicy(distance_km=km))
            asked = SimpleNamespace(secret={}, privacy=privacy)
            policy = policy_of(asked, geography)
            cells = {level: synth_domains(geography, level, policy) for level in ("block", "trct", "cty")}
            shares = []
            for levels in TABLES.values():
                sets = changed_tables([cells[level] for level in levels])
                shares.append(joint_loss(sets, [Fraction(1, len(levels))] * len(levels)))
            rows.append(
                [
                    f"{region}, {km} km",
                    f"{policy.n_parts:,}",
                    f"{policy.steps:,}",
                    *(f"{one:.0%}" for one in map(float, shares)),
                ]
            )
    return table(["", "parts", "most steps", *TABLES], rows)


def synth_domains(geography: geo_data.Geography, level: str, policy: synth.Policy) -> synth.Domains:
    """Return the units of a level as cells, divided by part."""
    starts = geography.starts(geography.block_level if level == "block" else level)
    return synth.Domains.of_parts(geography.n_blocks, starts, policy)


def lost(subject: Subject, plan: Any, repetitions: int) -> dict[str, float]:
    """Return what draws of a plan lose in each table, and in their weighted mean, on average."""
    origins, slots = subject.true_jobs(plan), plan.pools.slots
    true = CountedJobs(origins.work, origins.home, origins.attributes)
    truth = Truth(true, subject.workload)
    found = [
        truth.losses(CountedJobs(slots.work, drawn, slots.attributes))
        for drawn in (draw(plan, origins.home) for _ in range(repetitions))
    ]
    names = [*(name for name in found[0] if name != MEAN), MEAN]
    return {name: float(np.mean([one[name] for one in found])) for name in names}


if __name__ == "__main__":
    main()
