"""How often the intervals of combined implicates hold the truth, with the samplers that ship.

Usage: python benchmarks/intervals.py

A third of a population has its home in the first of some cells, the others in the others, equally. 500 of its
jobs are sampled; implicates are drawn from them by the mechanism, each from a run of its own at its part of
epsilon and delta; `pipelines.combine` makes an interval of each. Prints the table of benchmarks/intervals.md.
Sampling and drawing are seeded: the same numbers every time.
"""

from __future__ import annotations

from fractions import Fraction

import click
import numpy as np

import pipelines
import synth
from synth.geometric.measured import JobGroups, count_cells
from synth.posterior.estimation import estimate
from synth.posterior.rounding import Rounding
from synth.randomness import WordStream

JOBS, SHARE = 500, 1 / 3
DELTA = Fraction(1, 10**5)
IMPLICATES = (2, 3, 5, 20)
CASES = [(name, cells, epsilon) for name in synth.MECHANISMS for cells in (2, 50) for epsilon in ("8.6", "2")]


def simulate(
    mechanism: str, cells: int, epsilon: str, implicates: int, repetitions: int
) -> tuple[float, float]:
    """Return how often 95 % intervals of the share hold it, and the mean of the estimates less the share.

    Epsilon, and delta 1e-5, are of all implicates together.
    """
    sampler = synth.MECHANISMS[mechanism]
    domains = synth.Domains(
        cells, np.array([0, cells]), np.arange(cells, dtype=np.int32), np.zeros(cells, np.uint8)
    )
    jobs = np.full(repetitions, JOBS)
    pools = synth.Pools(jobs, jobs, np.zeros(repetitions, np.int32))
    # A pool is a repetition; each is to have the delta of a release that has only this pool.
    price = Fraction(epsilon) / implicates, DELTA * repetitions / implicates
    plan = sampler.calibrate(pools, domains, (Fraction(1),), synth.Target(*price))
    shares = [SHARE, *[(1 - SHARE) / (cells - 1)] * (cells - 1)]
    counts = np.random.default_rng(1).multinomial(JOBS, shares, repetitions)
    homes = np.repeat(np.tile(np.arange(cells, dtype=np.int32), repetitions), counts.ravel())
    key = synth.RunKey.from_seed(1)
    drawn = [draw(plan, homes, key.stream("coverage", i)) for i in range(implicates)]
    estimates = np.array([(one.reshape(repetitions, JOBS) == 0).mean(axis=1) for one in drawn])
    combined = [pipelines.combine(q, q * (1 - q) / JOBS, "partially") for q in estimates.T]
    held = [one.interval[0] <= SHARE <= one.interval[1] for one in combined]
    return float(np.mean(held)), float(estimates.mean() - SHARE)


def draw(plan: synth.Plan, homes: np.ndarray, stream: WordStream) -> np.ndarray:
    """Return synthetic cells of all repetitions, by the code that draws a release."""
    pools, mechanism = plan.pools, synth.MECHANISMS[plan.mechanism]
    if not mechanism.tables(plan):
        return mechanism.sample(plan, slice(0, pools.n.size), homes, stream)
    (table,) = mechanism.tables(plan)
    row = np.arange(pools.n.size, dtype=np.int32)
    counts = count_cells(table, np.repeat(row, pools.n), homes)
    noisy = counts + table.parameters.draw(counts.size, stream)
    groups = JobGroups(pools.n, row, row[np.newaxis])
    rounding = Rounding(estimate([table], [noisy], groups, lambda _, cuts: np.full(cuts.size, 1 / cuts.size)))
    return np.concatenate([rounding.homes(i, stream) for i in row.tolist()])


@click.command()
@click.option("--repetitions", type=click.IntRange(min=1), default=1000, show_default=True)
def main(repetitions: int) -> None:
    """Print a row a case: the part of intervals that hold the truth, and in brackets the bias."""
    click.echo(f"| mechanism, cells, epsilon | {' | '.join(f'{m} implicates' for m in IMPLICATES)} |")
    click.echo("| --- " * (1 + len(IMPLICATES)) + "|")
    for case in CASES:
        found = [simulate(*case, m, repetitions) for m in IMPLICATES]
        row = [f"{held:.1%} ({bias:+.3f})".replace("%", " %") for held, bias in found]
        click.echo(f"| {', '.join(map(str, case))} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
