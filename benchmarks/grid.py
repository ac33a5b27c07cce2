"""Plans beside settings made by hand: what the planner finds in each place, and the best of a grid.

Usage: python benchmarks/grid.py [--place demo ...] [--epsilon 2 ...] [--anew] [--page benchmarks/grid.md]

The mechanism is left open. Settings made by hand are all combinations of mechanism, cells, pools, strata and
shares of a small table in a grid that is not the planner's. Strata and small tables are combined with those
pairs of cells and pools, four at most, that lose without them no more than a quarter above the best of the
mechanism. Settings are tried on the sample on which the planner tries measured tables. The best three are
then tried beside the plan on other proxy truth of all jobs, and the best of these is compared with it, by the
objective of the planner.

Results are kept in out/benchmarks/grid.json with the last commit that changed the program, place by place.
What is kept is not measured again, unless --anew is given; --page puts all that is kept into a page.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
from minnesota import simulate_minnesota
from places import inputs_of
from planning import DRAWN_JOBS, loss
from report import commit_measured, fill, table

import pipelines
import synth
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.search import choose
from pipelines.planning.sweep import changed
from pipelines.planning.trials import Trial, draw_sample, thread_map
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.workload import Workload, resolve_workload
from pipelines.running.demo import demo_inputs

RESULTS = Path(__file__).parent.parent / "out" / "benchmarks" / "grid.json"
COMMAND = "python benchmarks/grid.py"
EPSILONS = ("8.6", "4.6", "2", "1")
SAMPLE_JOBS = 40_000  # as the planner tries measured tables on
CELLS_AND_POOLS = 4  # most pairs that are combined with all else
FINALISTS = 3  # of the grid are tried on all jobs: on a sample the best may be so by chance
HOPEFUL = 1.25  # times the least loss: others would have to gain a fifth more than the best by all else


def demo(folder: Path) -> Path:
    """Make the demo region, with a configuration that any mechanism can have."""
    path = demo_inputs(folder / "demo")
    lines = path.read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(("mechanism", "retention_min"))]
    path.write_text("\n".join(kept), encoding="utf-8")
    return path


# The quickest first.
PLACES: dict[str, Callable[[Path], Path]] = {
    **{place: partial(inputs_of, place) for place in ("Leeds", "country", "country, no census")},
    "demo": demo,
    "region": partial(inputs_of, "region"),
    "Minnesota": lambda folder: simulate_minnesota(folder / "minnesota"),
    "Rhode Island": partial(inputs_of, "Rhode Island"),
}


@click.command()
@click.option("--place", "places", type=click.Choice([*PLACES]), multiple=True, default=[*PLACES])
@click.option("--epsilon", "epsilons", multiple=True, default=EPSILONS, show_default=True)
@click.option("--anew", is_flag=True, help="Measure also what is kept.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(places: tuple[str, ...], epsilons: tuple[str, ...], anew: bool, page: Path | None) -> None:
    """Plan, try settings, compare, keep, and print."""
    commit = commit_measured()
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        for place in places:
            wanted = [epsilon for epsilon in epsilons if anew or f"{place}; {epsilon}" not in kept]
            if not wanted:
                continue
            config = pipelines.load_config(PLACES[place](Path(folder)))
            for epsilon in wanted:
                row = kept[f"{place}; {epsilon}"] = compared(changed(config, {"epsilon": epsilon}))
                row["commit"] = commit
                RESULTS.parent.mkdir(parents=True, exist_ok=True)
                RESULTS.write_text(json.dumps(kept, indent=1), encoding="utf-8")
                click.echo(f"{place}, {epsilon}: {row}", err=True)
    text = shown(kept)
    click.echo(text)
    if page is not None:
        fill(page, COMMAND, text)


def compared(config: pipelines.ReleaseConfig) -> dict[str, Any]:
    """Return the plan, the best of the grid, and what both lose."""
    inputs = read_public_inputs(config)
    chosen = choose(config, inputs)
    losses = tried_by_hand(config, inputs)
    finalists = sorted(losses, key=losses.__getitem__)[:FINALISTS]
    lost = {choices: expected(config, inputs, choices) for choices in {chosen, *finalists}}
    best = min(finalists, key=lost.__getitem__)
    return {
        "plan": in_words(chosen),
        "loses": lost[chosen],
        "best by hand": in_words(best),
        "by hand loses": lost[best],
        "tried": len(losses),
    }


def tried_by_hand(config: pipelines.ReleaseConfig, inputs: PublicInputs) -> dict[Choices, float]:
    """Return what each setting of the grid loses on a sample of proxy truth, of all mechanisms."""
    geography, level, slots = inputs.geography, inputs.model.level, inputs.slots
    jobs = slots.jobs(geography.n_blocks)
    workload = resolve_workload(config.workload, inputs.model.geography, level, slots, inputs.policy.secret)
    names, most = tuple(slots.attributes), int(jobs.max()) + 1
    trial = Trial.of(config, inputs, draw_sample(inputs, jobs, jobs > 0, SAMPLE_JOBS, workload, names))
    levels = [*geography.levels, geography.block_level]
    finer = levels[levels.index(level) :]
    pools = [(level, 1), *product(finer[:-1], (100, most))]
    together = [names] if config.jobs.format == "microdata" and len(names) > 1 else []
    strata = [(), *((name,) for name in names), *together]
    losses: dict[Choices, float] = {}
    for mechanism in config.mechanisms:
        measures = "tables" in synth.MECHANISMS[mechanism].settings
        growing = [tuple(2.0 ** (e + i // 2) for i in range(most.bit_length())) for e in (-8, -5, -2)]
        sizes: list[tuple[float, ...]] = [(0.125,), (1.0,), (8.0,)] if measures else growing
        cells = [*((size, None) for size in sizes), *(((), name) for name in finer)]
        first = [
            Choices(*pool, size, (), cell_level, mechanism=mechanism)
            for pool, (size, cell_level) in product(pools, cells)
        ]
        losses |= zip(first, thread_map(trial, first), strict=True)
        most_lost = HOPEFUL * min(losses[choices] for choices in first)
        hopeful = sorted(first, key=losses.__getitem__)[:CELLS_AND_POOLS]
        hopeful = [choices for choices in hopeful if losses[choices] <= most_lost]
        tables = [()] if not measures else [(), *small_tables(workload, together or strata[1:] or [()])]
        further = [
            replace(choices, pool_by=by, tables=small)
            for choices, by, small in product(hopeful, strata, tables)
            if config.jobs.format == "microdata" or len({*by, *(name for t in small for name in t.by)}) <= 1
        ]
        new = [choices for choices in further if choices not in losses]
        losses |= zip(new, thread_map(trial, new), strict=True)
    return losses


def small_tables(workload: Workload, attributes: list[tuple[str, ...]]) -> list[tuple[TableChoice, ...]]:
    """Return small tables of residents, each with some shares of epsilon."""
    homes = {table.home for table in workload.tables if table.work is None} or {workload.level}
    shares = map(Fraction, ("0.08", "0.25", "0.6"))
    return [(TableChoice(None, by, home, share),) for home, by, share in product(homes, attributes, shares)]


def expected(config: pipelines.ReleaseConfig, inputs: PublicInputs, choices: Choices) -> float:
    """Return what choices are expected to lose, on proxy truth of all jobs that no search saw."""
    plan = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
    draws = range(max(1, DRAWN_JOBS // len(inputs.slots)))
    return float(np.mean([loss(plan, inputs, None, plan.pools.slots.attributes, seed) for seed in draws]))


def in_words(choices: Choices) -> str:
    """Return choices in few words."""
    cells = choices.cell_level or "T " + " ".join(f"{t:g}" for t in choices.thresholds[:1])
    tables = "".join(f"; {'+'.join(t.by) or 'all'} at {t.home} {float(t.share):.2f}" for t in choices.tables)
    alone = choices.pool_below == 1
    pools = "single blocks" if alone else f"{choices.pool_level} below {choices.pool_below}"
    strata = f" by {'+'.join(choices.pool_by)}" if choices.pool_by else ""
    return f"{choices.mechanism}: {cells}; {pools}{strata}{tables}"


def shown(kept: dict[str, dict[str, Any]]) -> str:
    """Return all that is kept as a table, and the place where the grid comes off best."""
    head = ["place, epsilon", "plan", "loses", "best by hand", "loses", "plan / by hand", "tried", "commit"]
    rows, ratios = [], {}
    for place, epsilon in product(PLACES, EPSILONS):
        row = kept.get(f"{place}; {epsilon}")
        if row is None:
            continue
        name = f"{place}, {epsilon}"
        ratios[name] = row["loses"] / row["by hand loses"]
        rows.append(
            [
                name,
                row["plan"],
                f"{row['loses']:.4f}",
                row["best by hand"],
                f"{row['by hand loses']:.4f}",
                f"{ratios[name]:.3f}",
                f"{row['tried']:,}",
                row["commit"],
            ]
        )
    worst = max(ratios, key=ratios.__getitem__)
    return f"{table(head, rows)}\n\nHighest of {len(rows)}: {ratios[worst]:.3f}, of {worst}."


if __name__ == "__main__":
    main()
