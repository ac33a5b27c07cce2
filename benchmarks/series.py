"""What yearly releases under one cap cost and lose, with geometric and with discrete Gaussian noise.

Usage: python benchmarks/series.py [--years 10] [--jobs 3000] [--page benchmarks/series.md]

First the variance of the noise of a count, in one measured table, for several numbers of releases under a
cap: of geometric noise by plain sums, and of discrete Gaussian noise by zCDP and by Lemma 56. Then two
calendars of the demo region, each with the same cap, are released year by year by `odsynth due`: one shares
epsilon, the other rho. Both have the same jobs in every year, so that years differ by noise alone. Loss is
the total variation of flows between tracts, from the true jobs, which are generated.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
import tomlkit
from report import fill, table, this_machine

import pipelines
import synth
from pipelines.ledger.budgets import gaussian_epsilon
from pipelines.planning.public_inputs import job_source
from pipelines.plans.utility import cell_variation
from pipelines.running.demo import demo_inputs
from synth.concentrated import rho_within
from synth.gaussian.composition import gaussian_rho_within
from synth.gaussian.parameters import GaussianParameters
from synth.geometric.mechanism import calibrated_noise

COMMAND = "python benchmarks/series.py"
CAPS, NUMBERS = ("8.6", "4", "2", "1"), (1, 2, 5, 10, 20)
CAP, DELTA = Fraction("8.6"), Fraction("1e-5")
NOISE = [
    "cap at delta 0.00001",
    "releases",
    "geometric, by sums",
    "Gaussian, by zCDP",
    "Gaussian, by Lemma 56",
]
YEAR = ["calendar", "year", "debit", "epsilon of all until then", "loss of tract flows"]
SCHEDULE = """\
base = "demo.toml"
start = 2022-01-01
cron = "0 6 1 2 *"
period = "year"
shares = {years}

[set]
"release.name" = "Demo {{year}}, {name}"
"release.year" = "{{year}}"
"release.out" = "out/{name}-{{year}}"
"""


@click.command()
@click.option("--years", default=10, show_default=True)
@click.option("--jobs", default=3_000, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Page to put the tables into.")
def main(years: int, jobs: int, page: Path | None) -> None:
    """Compute, release, and print."""
    rho = gaussian_rho_within(CAP, DELTA, years)
    budgets = {
        "geometric": {"epsilon": str(CAP), "delta": "0"},
        "Gaussian": {"rho": synth.decimal_down(rho), "delta": "0"},
    }
    rows: list[list[str]] = []
    for name, budget in budgets.items():
        with tempfile.TemporaryDirectory() as folder:
            rows += released(Path(folder), name, budget, years, jobs)
    text = "\n\n".join(
        [
            this_machine(),
            "**Variance of a count**",
            table(NOISE, [[*row] for row in variances()]),
            f"**{years} years within epsilon {float(CAP)} at delta 0.00001, {jobs:,} jobs of residents**",
            table(YEAR, rows),
        ]
    )
    print(text)
    if page is not None:
        fill(page, COMMAND, text)


def variances() -> Iterator[list[str]]:
    """Yield a row for each cap and number of releases."""
    for cap in map(Fraction, CAPS):
        for number in NUMBERS:
            found = [
                calibrated_noise(cap / number),
                GaussianParameters.of_rho(rho_within(cap, DELTA) / number),
                GaussianParameters.of_rho(gaussian_rho_within(cap, DELTA, number) / number),
            ]
            yield [f"{float(cap):g}", str(number), *(f"{noise.law.variance:.3g}" for noise in found)]


def released(folder: Path, name: str, budget: dict[str, Any], years: int, jobs: int) -> Iterator[list[str]]:
    """Release a calendar year by year, and yield a row for each."""
    config = demo_inputs(folder, tracts=30, blocks=1000, jobs=jobs)
    tables = tomlkit.parse(config.read_text()).unwrap()
    del tables["release"]["mechanism"], tables["plan"]
    for key in ("file", "aux"):  # their names say a year
        named = config.parent / tables["jobs"][key]
        named.rename(named.with_name(f"{key}.csv.gz"))
        tables["jobs"][key] = str(named.with_name(f"{key}.csv.gz"))
    tables["ledger"] = {"file": str(folder / "ledger.sqlite"), "data_set": "demo", **budget}
    config.write_text(tomlkit.dumps(tables))
    calendar = config.parent / "calendar"
    calendar.mkdir()
    schedule = SCHEDULE.format(years=years, name=name).replace('"demo.toml"', '"../demo.toml"')
    if name == "geometric":
        schedule += '"release.mechanism" = "geometric"\n'
    (calendar / "demo.toml").write_text(schedule)
    for year in range(2022, 2022 + years):
        summary = pipelines.due(calendar, now=datetime(year, 3, 1, tzinfo=UTC))
        if summary.failed:
            raise click.ClickException(summary.text())
        release = pipelines.open_release(config.parent / "out" / f"{name}-{year - 1}" / "public")
        (account,) = pipelines.Ledger(folder / "ledger.sqlite").accounts()
        rhos = [entry.rho for entry, _ in account.releases]
        known = [*account.spent.epsilons_at(DELTA), gaussian_epsilon(rhos, DELTA)]
        entry, _ = account.releases[-1]
        debit = f"epsilon {synth.decimal_up(entry.epsilon or Fraction(0), 4)}"
        yield [
            name,
            str(year - 1),
            debit if entry.rho is None else f"rho {synth.decimal_up(entry.rho, 4)}",
            synth.decimal_up(min(epsilon for epsilon in known if epsilon is not None), 4),
            f"{loss(release):.3f}",
        ]


def loss(release: pipelines.Release) -> float:
    """Return the share of jobs that flows between tracts count elsewhere."""
    config = pipelines.load_config(release.out.parent.parent / "demo.toml")
    truth, geography = job_source(config, release.geography).records(), release.geography
    flows = release.unit_flows(geography.block_level, geography.block_level)
    rows = (np.repeat(flows[side].to_numpy(), flows["S000"]) for side in ("work", "home"))
    cells = []
    for work, home in ((truth.work, truth.home), tuple(rows)):
        unit = geography.unit_of("trct", work).astype(np.int64)
        cells.append(unit * geography.n_units("trct") + geography.unit_of("trct", home))
    return cell_variation(*cells)


if __name__ == "__main__":
    main()
