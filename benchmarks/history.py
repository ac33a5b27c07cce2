"""What the years before are worth: a series of releases of a generated panel, with its history and without.

Usage: python benchmarks/history.py [--case sums ...] [--years 10] [--page benchmarks/history.md]
       python benchmarks/history.py --released --case sums [--page benchmarks/history.md]

A panel (`odsynth simulate --years 10`) is measured year after year under a cap for life of epsilon 8.6: each
year costs a tenth, by plain sums or by zCDP. The plan of every year has those before it as history. Homes are
estimated from its noisy counts, and once more from the same counts without the history. The loss is that of
the accuracy sheet, the share of jobs that a table counts elsewhere. With --released, whole releases are made
and read from their public folders, and intervals are counted that hold the truth.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import click
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from by_lot import held_by_lot
from numpy.typing import NDArray
from report import commit_measured, fill, table

import geo_data
import pipelines
import synth
from geo_data.pools import PoolFinder
from pipelines.config.loading import ReleaseConfig
from pipelines.drawing.estimating import JobLayout, draw_homes, estimate_homes
from pipelines.drawing.sampling import measure
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import job_source, read_public_inputs
from pipelines.planning.search import make_plan
from pipelines.plans.plan import ReleasePlan, batches
from pipelines.release.intervals import interval_tables, read_draws
from pipelines.release.measurements import read_measurements
from pipelines.running.history import carried_over
from synth.concentrated import epsilon_of
from synth.geometric.measured import count_cells
from synth.posterior.estimation import Cells

ROOT = Path(__file__).parent.parent
COMMAND = "python benchmarks/history.py"
PICTURE = ROOT / "docs" / "images" / "history.svg"
DELTA = "1e-5"  # of all years together


class Case(NamedTuple):
    """A mechanism with what a year of ten may cost, and shares of workers who change."""

    words: str
    mechanism: str
    epsilon: str
    moving: float = 0.04
    changing: float = 0.06


CASES = {
    "sums": Case("geometric noise, plain sums", "geometric", "0.86"),
    "zcdp": Case("Gaussian noise, zCDP", "gaussian", "4.49"),
    "half": Case("geometric noise, half as many change", "geometric", "0.86", 0.02, 0.03),
    "many": Case("geometric noise, as many as in the United States", "geometric", "0.86", 0.117, 0.24),
}
PLAN = """
[plan]
coarsening = "units"
cell_level = "trct"
pool_level = "trct"
pool_below = 1000000
pool_by = []
"""
HISTORY = """
[history]
first = 2010
release = "{release}"
"""
YEARS = [
    "case",
    "year",
    "flows without",
    "with",
    "less",
    "residents without",
    "with history",
    "less than without",
]
TOTALS = ["case", "epsilon of all years", "variance of a noisy count"]
PLANTED = ["case", "what", "year", "truth", "without", "with", "interval"]
HELD = ["case", "year", "flows held", "residents held"]
RELEASED = f"{COMMAND} --released"
Int64 = NDArray[np.int64]


class Year(NamedTuple):
    """What was found in a year; flows are by home and work."""

    plan: ReleasePlan
    truth: Int64
    without: Int64
    released: Int64
    draws: Int64 | None = None

    def loss(self, flows: Int64, *, residents: bool = False) -> float:
        """Return the share of jobs that flows count elsewhere, or the numbers of residents."""
        off = flows - self.truth
        return float(np.abs(off.sum(axis=1) if residents else off).sum() / 2 / self.truth.sum())


@click.command()
@click.option("--case", "cases", multiple=True, default=tuple(CASES), type=click.Choice([*CASES]))
@click.option("--years", type=click.IntRange(5, 30), default=10, show_default=True)
@click.option("--released", is_flag=True, help="Make whole releases, and count what intervals hold.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(cases: tuple[str, ...], years: int, released: bool, page: Path | None) -> None:
    """Simulate, measure, count, and print."""
    random = np.random.default_rng(5)
    rows, totals, planted, curves, covered = [], [], [], {}, []
    for name in cases:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            panel = geo_data.simulate_panel(
                Path(folder) / "panel", years=years, moving=case.moving, changing=case.changing
            )
            configs = [configuration(panel, case, year) for year in range(2010, 2010 + years)]
            found = [*(of_releases(configs) if released else of_plans(configs))]
            truth = json.loads((panel.parent / "planted.json").read_text(encoding="utf-8"))
        curves[case.words] = [(one.loss(one.without), one.loss(one.released)) for one in found]
        totals.append([case.words, *spent([one.plan for one in found])])
        planted += [[case.words, *row] for row in of_planted(truth, found)]
        for year, one in enumerate(found, start=2010):
            rows.append([case.words, str(year), *losses(one), *losses(one, residents=True)])
            if one.draws is not None:
                covered.append([case.words, str(year), *held(one, random)])
    tables = (
        [(PLANTED, planted), (HELD, covered)]
        if released
        else [(TOTALS, totals), (YEARS, rows), (PLANTED, planted)]
    )
    text = "\n\n".join([f"Commit {commit_measured()}.", *(table(*one) for one in tables)])
    click.echo(text)
    if page is not None and not released:
        draw_picture(curves)
    if page is not None:
        fill(page, RELEASED if released else COMMAND, text)


def of_plans(configs: list[ReleaseConfig]) -> Iterator[Year]:
    """Yield what is estimated from the noisy counts of each year, by the plan that the first year has."""
    choices, before = None, None
    for number, config in enumerate(configs):
        inputs = read_public_inputs(config)
        if choices is None:
            choices = make_plan(config, inputs).choices
        plan = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
        records = job_source(config, plan.geography).records(plan.attributes)
        groups = [PoolFinder(plan.pools, plan.geography).find(records)]
        groups += [table.find(records) for table in plan.secondary]
        key, noisy = synth.RunKey.from_seed(number), []
        for k, (measured, group) in enumerate(zip(JobLayout(plan).tables, groups, strict=True)):
            counts = count_cells(measured, group.astype(np.int32), records.home)
            noisy.append(measure(counts, measured, key, k, 0))
        if before is not None:
            plan = carried_over(*before, "", plan)
        before = plan, noisy
        flows = (drawn(one, noisy) for one in (replace(plan, history=None), plan))
        yield Year(plan, flows_of(plan, records.home, records.work), *flows)


def of_releases(configs: list[ReleaseConfig]) -> Iterator[Year]:
    """Yield what whole releases have, each with the one before as history."""
    for config in configs:
        release = pipelines.run(config)
        plan = release.plan
        records = job_source(config, plan.geography).records(())
        noisy = read_measurements(release.public, plan, JobLayout(plan))[0]
        rows = release.unit_flows(plan.level, plan.level, ["S000"])
        read = read_draws(plan, interval_tables(plan)[0], release.public)
        n = plan.geography.n_units(plan.level)
        draws = np.zeros((len(read.counts), n, n), np.int64)
        draws[:, read.home, read.work] = read.counts
        released = np.zeros((n, n), np.int64)
        released[rows["home"], rows["work"]] = rows["S000"]
        without = drawn(replace(plan, history=None), noisy)
        yield Year(plan, flows_of(plan, records.home, records.work), without, released, draws)


def drawn(plan: ReleasePlan, noisy: Sequence[Cells]) -> Int64:
    """Return flows of homes that are estimated from noisy counts."""
    layout = JobLayout(plan)
    rows = layout.rows(batches(plan))
    fit = estimate_homes(plan, rows, layout.choose(rows, noisy))
    homes = draw_homes(plan, rows, fit, synth.RunKey.from_seed(0), 0)
    return flows_of(plan, homes, plan.pools.slots.work)


def flows_of(plan: ReleasePlan, home: NDArray[np.int32], work: NDArray[np.int32]) -> Int64:
    """Count jobs by units of the public model in which homes and workplaces lie."""
    n, unit = plan.geography.n_units(plan.level), plan.geography.units_of_blocks(plan.level)
    counts = np.zeros((n, n), np.int64)
    np.add.at(counts, (unit[home], unit[work]), 1)
    return counts


def configuration(panel: Path, case: Case, year: int, *, history: bool = True) -> ReleaseConfig:
    """Return the configuration of a year, with the history of those before or without."""
    text = panel.read_text(encoding="utf-8").partition("[ledger]")[0].replace("2010", str(year))
    for key, value in {"epsilon": case.epsilon, "delta": "1e-6"}.items():
        old = next(line for line in text.splitlines() if line.startswith(f"{key} ="))
        text = text.replace(old, f'{key} = "{value}"')
    text = text.replace("[release]\n", f'[release]\nmechanism = "{case.mechanism}"\ncsv = false\n')
    text += PLAN + (HISTORY.format(release=f"release-{year - 1}") if history else "")
    return pipelines.parse_config(text, panel.parent, panel.name)


def losses(found: Year, *, residents: bool = False) -> list[str]:
    """Return the loss without history and with it, and by how much it is less."""
    without, released = (found.loss(flows, residents=residents) for flows in (found.without, found.released))
    return [f"{without:.4f}", f"{released:.4f}", f"{1 - released / without:.1%}"]


def held(found: Year, random: np.random.Generator) -> list[str]:
    """Return how many intervals of 90 % hold the truth: of flows, and of residents."""
    assert found.draws is not None
    sums = (found.truth, found.draws), (found.truth.sum(axis=1), found.draws.sum(axis=2))
    return [f"{held_by_lot(truth, draws, random).mean():.1%}" for truth, draws in sums]


def spent(plans: list[ReleasePlan]) -> list[str]:
    """Return the epsilon of all years together, and the variance of the noise of the first table."""
    guarantees = [plan.certify() for plan in plans]
    epsilon = sum((guarantee.epsilon for guarantee in guarantees), Fraction(0))
    rhos = [guarantee.rho for guarantee in guarantees if guarantee.rho is not None]
    if len(rhos) == len(plans):
        epsilon = min(epsilon, epsilon_of(sum(rhos, Fraction(0)), Fraction(DELTA)))
    variance = JobLayout(plans[-1]).tables[0].law.variance
    return [synth.decimal_up(epsilon, 3), f"{variance:.1f}"]


def of_planted(truth: dict[str, Any], found: list[Year]) -> Iterator[list[str]]:
    """Yield a row for each planted change in its first two years."""
    codes = found[0].plan.geography.codes(found[0].plan.level).tolist()
    plant, estate = truth["plant"], truth["estate"]
    home, work = codes.index(plant["home_tract"]), codes.index(plant["work_tract"])
    place = codes.index(estate["home_tract"])

    def flow(flows: Int64) -> Int64:
        return np.asarray(flows[..., home, work])

    def residents(flows: Int64) -> Int64:
        return np.asarray(flows[..., place, :].sum(axis=-1))

    for what, year, pick in (
        ("flow to the plant", plant["year"], flow),
        ("residents of the estate's tract", estate["year"], residents),
    ):
        for later in range(2):
            one = found[year - 2010 + later]
            numbers = (f"{int(pick(flows)):,}" for flows in (one.truth, one.without, one.released))
            ends = "" if one.draws is None else f"{pick(one.draws).min():,} to {pick(one.draws).max():,}"
            yield [what, str(year + later), *numbers, ends]


def draw_picture(curves: dict[str, list[tuple[float, float]]]) -> None:
    """Draw the loss by year, without history and with it."""
    matplotlib.rcParams["svg.hashsalt"] = "odsynth"
    figure, axes = plt.subplots(
        1, len(curves), figsize=(3 * len(curves), 3.2), sharey=True, layout="constrained"
    )
    for axis, (words, values) in zip(np.atleast_1d(axes), curves.items(), strict=True):
        years = range(2010, 2010 + len(values))
        for which, (label, colour) in enumerate(
            (("without history", "#999999"), ("with history", "#1f5a8a"))
        ):
            axis.plot(years, [100 * value[which] for value in values], color=colour, label=label)
        axis.set(title=words.replace(", ", ",\n"), ylim=(0, None))
        axis.set_xticks([2010, 2010 + len(values) - 1])
    np.atleast_1d(axes)[0].set_ylabel("% of jobs in another flow\nbetween tracts")
    figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
