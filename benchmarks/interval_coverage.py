"""How often intervals of posterior implicates hold the truth, by level, size and attribute table.

Usage: python benchmarks/interval_coverage.py [--draws 100] [--epsilon 8.6 ...] [--case "Rhode Island" ...]

For each case, mechanism and epsilon, one release of the confidential truth is drawn: noisy counts of tables
(geometric: unit by unit of the public model and, where there are attributes, 30 % of epsilon on attribute
combinations by home unit), or draws from an urn for each unit (dirichlet, delta 1e-5). From what would be
published of it, `synth.implicates` draws implicates, and every count of a table, and of sums of its areas,
has an interval of 90 %. Printed is how often it holds the truth: by lot (`synth.intervals.held_by_lot`, which
is to be 90 % at any size), and in brackets as a closed interval of whole numbers. Sizes are those of the mean
of the draws, rounded; cells that are 0 in every draw and in truth are left out.

The code was developed while looking at Rhode Island (LODES plays the truth). Leeds (the census of 2011; the
model has no auxiliary table) and the demo's region were not looked at before.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

import pipelines
import synth
from pipelines.config.loading import ReleaseConfig, parse_config
from pipelines.planning.public_inputs import job_source, read_public_inputs
from pipelines.running.demo import demo_inputs
from synth.evidence import Evidence
from synth.implicates import Implicates
from synth.intervals import held_by_lot, intervals
from synth.measured import JobGroups, MeasuredTable, measure

ROOT = Path(__file__).parent.parent
CASES = ("Rhode Island", "Leeds", "demo")
MICRODATA = """[jobs]
format = "microdata"
file = "../../shared/data/ri_2019/ri_microdata_2019.csv.gz"
home = "home"
work = "work"
attributes = ["age", "earnings", "industry"]

[geography]
"""
SIZES = ((0, 0), (1, 9), (10, 99), (100, 2**62))
SHARE = Fraction(3, 10)  # of epsilon, for attributes by home
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """A confidential truth and its public model, in numbers of blocks and units.

    Attributes
    ----------
    work, home : ndarray, shape (n_jobs,)
    attributes : dict of ndarray, shape (n_jobs,)
    unit, county : ndarray, shape (n_blocks,)
        Unit of the public model, and an area of several, of every block.
    shares : ndarray of float64, shape (n_units, n_units)
        Of home units, by work unit.
    """

    work: Ints
    home: Ints
    attributes: dict[str, Ints]
    unit: Ints
    county: Ints
    shares: NDArray[np.float64]


def read(name: str) -> Case:
    """Read a case."""
    examples = ROOT / "examples"
    with tempfile.TemporaryDirectory() as folder:
        if name == "demo":
            return _case(pipelines.load_config(demo_inputs(Path(folder))))
        if name == "Leeds":
            return _case(pipelines.load_config(examples / "leeds.toml"))
    before, after = (examples / "rhode_island.toml").read_text(encoding="utf-8").split("[jobs]\n")
    text = before + MICRODATA + after.split("[geography]\n")[1]
    return _case(parse_config(text, examples, "rhode_island.toml"))


def _case(config: ReleaseConfig) -> Case:
    inputs = read_public_inputs(config)
    geography, model = inputs.geography, inputs.model
    names = tuple(inputs.slots.attributes)
    if config.jobs.format == "lodes":
        names = names[:1]  # such files have no jobs by several attributes
    records = job_source(config, geography).records(names)
    blocks = np.arange(geography.n_blocks)
    above = geography.levels[max(0, geography.levels.index(model.level) - 1)]
    return Case(
        records.work.astype(np.int64),
        records.home.astype(np.int64),
        {key: value.astype(np.int64) for key, value in records.attributes.items()},
        geography.unit_of(model.level, blocks).astype(np.int64),
        geography.unit_of(above, blocks).astype(np.int64),
        model.shares(np.arange(model.n_units)),
    )


def starts(label: Ints) -> NDArray[np.int32]:
    """Return where runs of a label begin."""
    return np.flatnonzero(np.append(True, np.diff(label) != 0)).astype(np.int32)


class Release:
    """One release of a case: its job groups, and what is published of them."""

    def __init__(self, case: Case, mechanism: str, epsilon: Fraction, draws: int) -> None:
        unit = case.unit[case.work]
        combination = np.zeros(case.work.size, np.int64)
        for codes in case.attributes.values():
            combination = combination * (codes.max() + 1) + codes
        self.order = np.lexsort((combination, case.work, unit))
        keys = np.stack([unit, case.work, combination])[:, self.order]
        first = np.flatnonzero(np.append(True, (np.diff(keys) != 0).any(axis=0)))
        cuts = starts(case.unit)
        units = synth.Domains(case.unit.size, np.array([0, cuts.size]), cuts, np.zeros(cuts.size, np.uint8))
        measured, kept = [unit], [case.work]
        if case.attributes:
            most = list(case.attributes.values())
            kept += [unit * (codes.max() + 1) + codes for codes in most] + most
            if mechanism == "geometric":
                measured.append(combination)
        key = synth.RunKey.from_seed(1)
        tables: list[synth.plan.Table] = []
        member, evidence = [], []
        for k, label in enumerate(measured + kept):
            group = np.unique(label[self.order], return_inverse=True)[1].astype(np.int32)
            n = np.bincount(group).astype(np.int64)
            table = synth.plan.Table(n, np.zeros(n.size, np.int32), units)
            member.append(group[first])
            if k < len(measured):
                share = Fraction(1) if len(measured) == 1 else (1 - SHARE, SHARE)[k]
                homes = case.home[self.order].astype(np.int32)
                table, seen = self._publish(table, mechanism, epsilon * share, group, homes, key, k)
                evidence.append(seen)
            tables.append(table)
        jobs = np.diff(np.append(first, self.order.size))
        self.groups = JobGroups(jobs, unit[self.order][first].astype(np.int32), np.stack(member))
        place = self.groups.place[self.groups.starts[:-1]]

        def prior(of: int, cells: NDArray[np.int32]) -> NDArray[np.float64]:
            return case.shares[of][case.unit[cells]]

        areas = starts(case.county)
        county = np.searchsorted(areas, cuts[place], side="right") - 1
        stream = key.stream("implicates", 0)
        self.implicates = Implicates(tables, evidence, self.groups, prior, county, areas, draws, stream)

    def _publish(
        self,
        table: synth.plan.Table,
        mechanism: str,
        epsilon: Fraction,
        group: NDArray[np.int32],
        homes: NDArray[np.int32],
        key: synth.RunKey,
        k: int,
    ) -> tuple[synth.plan.Table, Evidence]:
        pools = synth.Pools(table.n, table.n, table.domain)
        sampler = synth.MECHANISMS[mechanism]
        delta = Fraction(1, 10**5) if mechanism == "dirichlet" else Fraction(0)
        plan = sampler.calibrate(pools, table.domains, (Fraction(1),), epsilon, delta)
        if mechanism == "geometric":
            noised = MeasuredTable(table.n, table.domain, table.domains, plan.parameters)
            return noised, Evidence.noise(noised, measure(noised, group, homes, key.stream("noise", k)))
        order = np.argsort(group, kind="stable")
        cells = table.domains.locate(np.zeros(homes.size, np.int32), homes[order])
        drawn = sampler.sample(plan, slice(0, table.n.size), cells, key.stream("urn", 0))
        counts = np.bincount(np.repeat(table.offsets[:-1], table.n) + drawn, minlength=int(table.offsets[-1]))
        classes = plan.parameters.classes
        priors = np.array([c.prior[0] for c in classes])[plan.pool_class] / plan.parameters.denominator
        return table, Evidence.urn(counts, np.repeat(priors, table.k), np.ones(counts.size))

    def draws(self) -> Iterator[tuple[Ints, NDArray[np.int32]]]:
        """Yield, place by place, jobs of the case, and the first block of their home cell in every draw."""
        ends = np.append(0, np.cumsum(self.groups.n))
        offsets = self.implicates.domains(2**31 - 1)
        for i in range(self.groups.n_places):
            rows = self.groups.rows(i)
            cells = self.implicates.place(i)
            yield self.order[ends[rows.start] : ends[rows.stop]], offsets.cuts[offsets.offsets[i] + cells]


class Coverage:
    """Counts how often intervals hold the truth."""

    def __init__(self) -> None:
        self.found: dict[str, NDArray[np.float64]] = {}
        self._random = np.random.default_rng(1)

    def add(self, name: str, truth: Ints, drawn: Ints) -> None:
        """Add the cells of a table: truth of shape (n_cells,), draws of shape (n_draws, n_cells)."""
        some = (drawn.max(axis=0) > 0) | (truth > 0)
        truth, drawn = truth[some], drawn[:, some]
        low, high = intervals(drawn)
        lot = held_by_lot(truth, drawn, self._random)
        closed = (low <= truth) & (truth <= high)
        size = np.rint(drawn.mean(axis=0))
        rows = self.found.setdefault(name, np.zeros((len(SIZES), 3)))
        for row, (least, most) in zip(rows, SIZES, strict=True):
            own = (least <= size) & (size <= most)
            row += [own.sum(), lot[own].sum(), closed[own].sum()]

    def lines(self) -> Iterator[str]:
        """Yield a row for each table."""
        for name, rows in self.found.items():
            parts = [
                f"{100 * lot / n:.1f} ({100 * closed / n:.1f}) of {n:,.0f}" if n else "none"
                for n, lot, closed in rows
            ]
            yield f"| {name} | {' | '.join(parts)} |"


def table(rows: Ints, cells: NDArray[np.integer], n_rows: int, n_cells: int) -> Ints:
    """Count jobs by row and cell, flat; with a leading axis of draws if cells have one."""
    flat = rows * n_cells + cells
    if flat.ndim == 1:
        return np.bincount(flat, minlength=n_rows * n_cells)
    return np.stack([np.bincount(one, minlength=n_rows * n_cells) for one in flat])


def measure_coverage(case: Case, release: Release, draws: int) -> Coverage:
    """Add up all tables of a release: those of one place as it comes, others in the end."""
    result = Coverage()
    n_units, n_areas = int(case.unit.max()) + 1, int(case.county.max()) + 1
    crossing: dict[str, tuple[Ints, Ints]] = {}

    def keep(name: str, rows: Ints, n_rows: int, truth: Ints, homes: Ints, n_cells: int) -> None:
        if name not in crossing:
            size = n_rows * n_cells
            crossing[name] = np.zeros(size, np.int64), np.zeros((draws, size), np.int64)
        crossing[name][0][:] += table(rows, truth, n_rows, n_cells)
        crossing[name][1][:] += table(rows, homes, n_rows, n_cells)

    for jobs, blocks in release.draws():
        true, home = case.unit[case.home[jobs]], case.unit[blocks]
        far, true_far = case.county[blocks], case.county[case.home[jobs]]
        work, area = case.work[jobs], case.county[case.work[jobs]]
        none = np.zeros(jobs.size, np.int64)
        local = {"unit to unit": (none, 1), "unit to work block": numbered(work)}
        local |= {
            f"unit to unit by {name}": (codes[jobs], int(codes.max()) + 1)
            for name, codes in case.attributes.items()
        }
        for name, (rows, size) in local.items():
            result.add(name, table(rows, true, size, n_units), table(rows, home, size, n_units))
        result.add("area to unit", table(none, true_far, 1, n_areas), table(none, far, 1, n_areas))
        for name, codes in case.attributes.items():
            keep(f"residents of a unit by {name}", codes[jobs], int(codes.max()) + 1, true, home, n_units)
        keep("residents of a unit", none, 1, true, home, n_units)
        keep("unit to area", area, n_areas, true, home, n_units)
        keep("area to area", area, n_areas, true_far, far, n_areas)
    for name, (truth, drawn) in crossing.items():
        result.add(name, truth, drawn)
    return result


def numbered(labels: Ints) -> tuple[Ints, int]:
    """Return labels numbered from 0, and how many there are."""
    found, number = np.unique(labels, return_inverse=True)
    return number, found.size


@click.command()
@click.option("--draws", type=click.IntRange(min=20), default=100, show_default=True)
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--case", "cases", multiple=True, type=click.Choice(CASES), default=CASES)
@click.option("--mechanism", multiple=True, default=("geometric", "dirichlet"), show_default=True)
def main(draws: int, epsilon: tuple[str, ...], cases: tuple[str, ...], mechanism: tuple[str, ...]) -> None:
    """Print a table for each case, mechanism and epsilon."""
    for name in cases:
        case = read(name)
        for which in mechanism:
            for one in epsilon:
                begin = time.perf_counter()
                release = Release(case, which, Fraction(one), draws)
                found = measure_coverage(case, release, draws)
                click.echo(f"\n{name}, {which}, epsilon {one} ({time.perf_counter() - begin:.0f} s):\n")
                click.echo(
                    "| home to work | 0 | 1 to 9 | 10 to 99 | 100 and more |\n| --- | --- | --- | --- | --- |"
                )
                for line in found.lines():
                    click.echo(line)


if __name__ == "__main__":
    main()
