"""How often intervals of posterior draws hold the truth, by table, size and attribute.

Usage: python benchmarks/interval_coverage.py [--draws 40] [--epsilon 8.6 ...] [--case demo ...] [--write]

For each case, mechanism and epsilon a release is planned and run as anybody's would be, and posterior draws
are made from its public folder alone (`pipelines.write_intervals`). Every count of a table, and of sums of
its areas, has an interval of 90 %. Printed, or put into docs/intervals.md, is how often it holds the truth:
by lot (`synth.intervals.held_by_lot`, which is to be 90 % at any size), and in brackets as a closed interval
of whole numbers. Sizes are those of the mean of the draws, rounded; cells that are 0 in every draw and in
truth are left out.

The code was developed while looking at Rhode Island (LODES plays the truth) and at the demo's region; the
simulated nation and Leeds (a census plays the truth) were looked at when it was done.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

import geo_data
import pipelines
from geo_data.jobs import JobRecords
from pipelines.config.loading import ReleaseConfig, parse_config
from pipelines.planning.public_inputs import job_source
from pipelines.running.demo import demo_inputs
from synth.intervals import held_by_lot, intervals

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "intervals.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
CASES = ("demo", "Rhode Island", "nation", "Leeds")
CUT = "Rhode Island by block"  # for tables by home block and by ZIP areas, which cut tracts
JOBS = 600_000  # of the simulated nation
MICRODATA = """[jobs]
format = "microdata"
file = "../../shared/data/ri_2019/ri_microdata_2019.csv.gz"
home = "home"
work = "work"
attributes = ["age", "earnings", "industry"]

[geography]
"""
LEAST, MANY = 85, 30  # what is named beside a table: shares below, of as many counts
SIZES = ((0, 0), (1, 9), (10, 99), (100, 2**62))
Ints = NDArray[np.int64]


def configuration(name: str, mechanism: str, epsilon: str, folder: Path) -> ReleaseConfig:
    """Return the configuration of a case, with another mechanism and epsilon; cells are never left out."""
    examples = ROOT / "examples"
    if name == "Rhode Island":
        before, after = (examples / "rhode_island.toml").read_text(encoding="utf-8").split("[jobs]\n")
        text = before + MICRODATA + after.split("[geography]\n")[1]
    elif name == CUT:
        text = (examples / "rhode_island.toml").read_text(encoding="utf-8")
        text = text.replace("[geography]\n", '[geography]\nnon_nesting_areas = ["zcta"]\n')
        for home, work in (("trct", "trct"), ("zcta", "zcta"), ("tabblk2010", "trct")):
            text += f'[[workload]]\nhome = "{home}"\nwork = "{work}"\n'
    elif name == "Leeds":
        text = (examples / "leeds.toml").read_text(encoding="utf-8")
    else:
        path = demo_inputs(folder) if name == "demo" else geo_data.simulate_nation(folder, JOBS)
        text, examples = path.read_text(encoding="utf-8"), path.parent
    values = {"epsilon": epsilon, "delta": "0" if mechanism == "geometric" else "1e-5"}
    for key, value in values.items():
        text = re.sub(rf'(?m)^{key} = "[^"]*"', f'{key} = "{value}"', text)
    text = re.sub(r"(?m)^(mechanism|retention_min) = .*\n", "", text)
    text = text.replace("[release]\n", f'[release]\nmechanism = "{mechanism}"\n')
    if "[plan]" in text and mechanism == "dirichlet":
        text = text.replace("[plan]\n", '[plan]\nretention_min = "1"\n')
    return parse_config(text, examples, f"{name}.toml").with_out(folder / "release")


class Coverage:
    """Counts how often the intervals of a release hold the truth."""

    def __init__(self, draws: pipelines.PosteriorDraws, truth: dict[str | None, JobRecords]) -> None:
        self._draws, self._truth = draws, truth
        self._random = np.random.default_rng(1)

    def line(self, name: str, home: str, work: str | None, attribute: str | None = None) -> str:
        """Return the row of a table."""
        draws, geography = self._draws, self._draws.release.geography
        truth = self._truth[attribute]
        wide = geography.n_units(home)
        names = () if attribute is None else (attribute,)
        key = np.zeros(len(truth), np.int64)
        if work is not None:
            key += geography.unit_of(work, truth.work)
        for each in names:
            key = key * len(draws.release.categories[each]) + truth.attributes[each]
        true, jobs = np.unique(key * wide + geography.unit_of(home, truth.home), return_counts=True)
        rows, missed = np.zeros((len(SIZES), 3)), true.size
        for cells in draws.cells(home, work, names):
            key = cells.work
            for each, codes in zip(names, cells.categories, strict=True):
                key = key * len(draws.release.categories[each]) + codes
            key = key * wide + cells.home
            at = np.minimum(np.searchsorted(true, key), true.size - 1)
            own = np.where(true[at] == key, jobs[at], 0)
            missed -= int((own > 0).sum())
            low, high = intervals(cells.counts)
            lot = held_by_lot(own, cells.counts, self._random)
            closed = (low <= own) & (own <= high)
            size = np.rint(cells.counts.mean(axis=0))
            for row, (least, most) in zip(rows, SIZES, strict=True):
                some = (least <= size) & (size <= most)
                row += [some.sum(), lot[some].sum(), closed[some].sum()]
        rows[0, 0] += missed  # true counts that are 0 in every draw
        parts = [
            f"{100 * lot / n:.1f} ({100 * closed / n:.1f}) of {n:,.0f}" if n else "none"
            for n, lot, closed in rows
        ]
        return f"| {name} | {' | '.join(parts)} |"


def tables(draws: pipelines.PosteriorDraws, unit: str) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield the tables that are looked at: name, home level, work level, attribute."""
    levels = draws.release.levels
    area = levels[max(0, levels.index(unit) - 1)]
    yield "unit to unit", unit, unit, None
    yield "unit to work block", unit, levels[-1], None
    if draws.home_level == levels[-1]:
        yield "home block to unit", levels[-1], unit, None
    if draws.home_level != unit:
        yield "finer unit to finer unit", draws.home_level, draws.home_level, None
    for kind in draws.release.geography.non_nesting_areas:
        yield f"{kind} to {kind}", kind, kind, None
        yield f"{kind} to unit", kind, unit, None
        yield f"unit to {kind}", unit, kind, None
        yield f"residents of {kind}", kind, None, None
    for name in draws.attributes:
        yield f"residents of a unit by {name}", unit, None, name
    for name in draws.attributes:
        yield f"unit to unit by {name}", unit, unit, name
    yield "residents of a unit", unit, None, None
    yield "unit to area", unit, area, None
    yield "area to unit", area, unit, None
    yield "area to area", area, area, None


def measure_coverage(name: str, mechanism: str, epsilon: str, draws: int) -> Iterator[str]:
    """Make a release and its draws; yield the lines of a table."""
    with tempfile.TemporaryDirectory() as scratch:
        config = configuration(name, mechanism, epsilon, Path(scratch))
        release = pipelines.run(config)
        pipelines.write_intervals(release.public, draws=draws)
        opened, plan = pipelines.intervals(release.public), release.plan
        source = job_source(config, plan.geography)
        truth: dict[str | None, JobRecords] = {each: source.records((each,)) for each in opened.attributes}
        truth[None] = source.records()
        what = "; ".join(f"{words} ({float(share):.0%})" for words, share in plan.tables) or (
            f"{plan.numeric.pools.n_pools:,} urns"
            + (f" by {' and '.join(plan.pools.pooling.by)}" if plan.pools.pooling.by else "")
        )
        yield f"### {name}, {mechanism}, epsilon {epsilon}"
        yield ""
        yield f"Published: {what}."
        yield ""
        yield "| home to work | 0 | 1 to 9 | 10 to 99 | 100 and more |"
        yield "| --- | --- | --- | --- | --- |"
        coverage = Coverage(opened, truth)
        for table in tables(opened, plan.level):
            yield coverage.line(*table)
        yield ""


def ranges(lines: Iterable[str]) -> Iterator[str]:
    """Yield a table of the lowest and highest shares of all releases, by kind of table and size."""
    found: dict[str, list[list[float]]] = {}
    for line in lines:
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(SIZES) and not name.startswith(("---", "home to")):
            rows = found.setdefault(re.sub(r" by \w+$", " by an attribute", name), [[] for _ in SIZES])
            for row, cell in zip(rows, cells, strict=True):
                match = re.match(r"([\d.]+) .* of ([\d,]+)$", cell)
                if match and int(match[2].replace(",", "")) >= MANY:
                    row.append(float(match[1]))
    yield f"Lowest and highest of all releases below, where a release has {MANY} counts or more of the size:"
    yield ""
    yield "| home to work | 0 | 1 to 9 | 10 to 99 | 100 and more |"
    yield "| --- | --- | --- | --- | --- |"
    for name, rows in found.items():
        yield f"| {name} | {' | '.join(f'{min(r):.0f} to {max(r):.0f}' if r else 'none' for r in rows)} |"
    yield ""


def with_summaries(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines, and after each table which of its sizes have intervals that hold the truth too seldom."""
    low: list[str] = []
    for line in lines:
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        found = [re.match(r"([\d.]+) .* of ([\d,]+)$", cell) for cell in cells]
        for size, match in zip(("0", "1 to 9", "10 to 99", "100 and more"), found, strict=False):
            if match and float(match[1]) < LEAST and int(match[2].replace(",", "")) >= MANY:
                low.append(f"{name}, {size}: {match[1]}")
        if not line and len(low) > 1 and low[0] == "table":
            yield f"\nBelow {LEAST} %, of {MANY} counts or more: {'; '.join(low[1:])}."
        elif not line and low == ["table"]:
            yield f"\nNone is below {LEAST} %, of {MANY} counts or more."
        if line.startswith("| ---"):
            low = ["table"]
        elif not line:
            low = []
        yield line


@click.command()
@click.option("--draws", type=click.IntRange(min=19), default=40, show_default=True)
@click.option("--epsilon", multiple=True, default=("8.6", "4.6", "2", "1"), show_default=True)
@click.option("--case", "cases", multiple=True, type=click.Choice([*CASES, CUT]), default=CASES)
@click.option("--mechanism", multiple=True, default=("geometric", "dirichlet"), show_default=True)
@click.option("--write", is_flag=True, help="Put the tables into docs/intervals.md.")
def main(
    draws: int, epsilon: tuple[str, ...], cases: tuple[str, ...], mechanism: tuple[str, ...], write: bool
) -> None:
    """Print a table for each case, mechanism and epsilon."""
    lines = []
    for name in cases:
        for which in mechanism:
            for one in epsilon:
                for line in measure_coverage(name, which, one, draws):
                    lines.append(line)
                    click.echo(line)
    if write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        page = (
            before
            + BEGIN
            + "\n".join(["", *ranges(lines), *with_summaries(lines)])
            + "\n"
            + END
            + rest.split(END)[1]
        )
        PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
