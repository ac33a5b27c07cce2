"""Attackers who do not know everything, simulated, against their bounds: Lemma 34 of docs/privacy.md.

Usage: python benchmarks/attackers.py [--runs N] [--seed N]

An attacker has a belief about the homes of a pool and wonders whether one job's home is in cell 0 or in cell
1. Homes are drawn as the belief says, given one or the other, and the pool is released with the job and
without it, by the sampler that ships. On one half of the runs the attacker chooses the releases that say
most; on the other half they are counted in the four cases, and the four probabilities are bounded
(`synth.auditing.proportion_bounds`, confidence 1 - 10^-6 together). What follows is a lower bound of the
change of odds, from draws alone. Prints one Markdown row per attacker: the bound of a class, what was found,
and whether it is above; it has to be above where the attacker is stronger than the class. Less than a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import click
import numpy as np
from numpy.typing import NDArray

import synth
from synth.auditing import proportion_bounds
from synth.dirichlet.attackers import KNOWLEDGE, Attackers, largest_changes
from synth.dirichlet.parameters import DirichletParameters
from synth.dirichlet.urn import Urns, sample_cells

RUNS = 400_000
ERROR = Fraction(1, 10**6)
HERE, THERE = 0, 1  # the two cells between which the attacker wonders
NOWHERE = 0.001  # the weight of a belief that nobody lives in a cell, about
SURE, HALF = Fraction(1), Fraction(1, 2)


@dataclass(frozen=True)
class Case:
    """An attacker, and the class whose bound it is held against.

    Attributes
    ----------
    name : str
    plan : synth.Plan
        Of one pool whose cells are alike.
    attackers : Attackers
        The class.
    known : int
        Other jobs whose homes are known: all in the last cell.
    belief : tuple of float
        sigma.
    stronger : bool
        Whether the attacker is not of the class, and expected to show it.
    """

    name: str
    plan: synth.Plan
    attackers: Attackers
    known: int
    belief: tuple[float, ...]
    stronger: bool = False

    @property
    def bound(self) -> Fraction:
        """The largest change of odds for the class."""
        [change] = largest_changes(self.plan, [self.attackers])
        return change.odds

    def found(self, runs: int, seed: int | None = None) -> Fraction:
        """Return a lower bound of the change of odds for this attacker, from draws; at least 1."""
        rng = np.random.default_rng(seed)
        key = synth.RunKey.generate() if seed is None else synth.RunKey.from_seed(seed)
        worlds = list(product((HERE, THERE), (True, False)))
        choosing, counting = (
            [
                self._released(runs // 2, home, there, rng, key, f"{half}-{home}-{there}")
                for home, there in worlds
            ]
            for half in ("choose", "count")
        )
        event = self._telling(choosing)
        hits = [int(np.isin(outputs, event).sum()) for outputs in counting]
        low, high = zip(*(proportion_bounds(runs // 2, n, ERROR / 4) for n in hits), strict=True)
        here_in, here_out, there_in, there_out = range(4)
        return max(Fraction(1), low[here_in] * low[there_out] / (high[here_out] * high[there_in]))

    def _released(
        self, runs: int, home: int, there: bool, rng: np.random.Generator, key: synth.RunKey, stage: str
    ) -> NDArray[np.int64]:
        """Return the number of each release, of a pool with the job or without it."""
        pools, k = self.plan.pools, len(self.belief)
        n, m = int(pools.n[0]), int(pools.m[0])
        belief = np.array(self.belief)
        belief[-1] += self.known
        belief[home] += 1  # whoever believes that it is there believes more in others there, too
        unknown = n - 1 - self.known
        workers = rng.multinomial(unknown, rng.dirichlet(belief, runs))
        workers[:, -1] += self.known
        if there:
            workers[:, home] += 1
        size = n if there else n - 1
        cells = np.repeat(np.tile(np.arange(k, dtype=np.int32), runs), workers.ravel())
        drawn = sample_cells(self._urns(runs, size), cells, key.stream(stage, 0)).reshape(runs, m)
        counts = np.stack([(drawn == c).sum(axis=1) for c in range(k)])
        return np.asarray((m + 1) ** np.arange(k) @ counts)

    def _urns(self, runs: int, size: int) -> Urns:
        urns = synth.MECHANISMS["dirichlet"].urns(self.plan, slice(0, 1))
        return urns._replace(
            offsets=np.arange(runs + 1, dtype=np.int64) * size,
            draw_offsets=np.arange(runs + 1, dtype=np.int64) * urns.draw_offsets[1],
            prior=np.repeat(urns.prior, runs, axis=0),
            domain=np.repeat(urns.domain, runs),
        )

    @staticmethod
    def _telling(worlds: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Return the releases that together change odds most, as far as so many runs can show.

        They are those of which each by itself seems to change them most; the bound is of any set of releases.
        """
        size = max(int(outputs.max()) for outputs in worlds) + 1
        hits = np.array([np.bincount(outputs, minlength=size) for outputs in worlds])
        order = np.argsort(-_ratio(hits + 0.5))
        together = hits[:, order].cumsum(axis=1)
        spread = 3 * np.sqrt(together + 1.0)
        sign = np.array([[-1], [1], [1], [-1]])
        best = int(_ratio(np.maximum(together + sign * spread, 1e-9)).argmax())
        return order[: best + 1]


def _ratio(hits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return changes of odds from hits with and without the job, if it is here and if it is there."""
    ratio: NDArray[np.float64] = hits[0] * hits[3] / (hits[1] * hits[2])
    return ratio


def plan_of(n: int, cells: int, epsilon: str, retention: Fraction = SURE) -> synth.Plan:
    """Return the plan of one pool with as many draws as jobs, of pure differential privacy."""
    domains = synth.Domains(
        cells, np.array([0, cells]), np.arange(cells, dtype=np.int32), np.zeros(cells, np.uint8)
    )
    pools = synth.Pools(np.array([n]), np.array([n]), np.zeros(1, np.int32))
    return synth.MECHANISMS["dirichlet"].calibrate(
        pools, domains, (retention,), synth.Target(Fraction(epsilon), Fraction(0))
    )


def noise(plan: synth.Plan) -> float:
    """Return the prior of every cell of a plan."""
    assert isinstance(plan.parameters, DirichletParameters)
    return plan.parameters.classes[0].prior[0] / plan.parameters.denominator


def cases() -> list[Case]:
    """An attacker of each class, and others that are stronger."""
    found = []
    for name, plan in (
        ("4 jobs", plan_of(4, 3, "2.4")),
        ("4 jobs, pruning 1/2", plan_of(4, 3, "3.5", HALF)),
        ("8 jobs", plan_of(8, 3, "2.4")),
    ):
        n, a = int(plan.pools.n[0]), noise(plan)
        for knowledge in KNOWLEDGE:
            attackers = Attackers(knowledge)
            found.append(Case(f"{name}: {knowledge}", plan, attackers, attackers.known(n), (NOWHERE, a, a)))
        tables = Attackers("public tables only")
        stubborn = Attackers("public tables only", Fraction(1))
        belief = (NOWHERE, 0.1, 0.899)
        found += [
            Case(f"{name}: public tables only, as sure as 1 home", plan, stubborn, 0, belief),
            Case(f"{name}: as sure as 1,000", plan, stubborn, 0, (NOWHERE, 100, 900), True),
            Case(f"{name}: knows all but one", plan, tables, n - 1, (NOWHERE, a, a), True),
        ]
    return found


@click.command()
@click.option("--runs", default=RUNS, show_default=True, help="Runs in each of the four cases.")
@click.option("--seed", type=int, help="A seed, for a table that can be printed again.")
def main(runs: int, seed: int | None) -> None:
    """Simulate every attacker and print the table."""
    print("| attacker | bound of the class | found in draws | above the bound |")
    print("|---|---:|---:|---|")
    for case in cases():
        bound, found = case.bound, case.found(runs, seed)
        above = "yes" if found > bound else "no"
        if (found > bound) != case.stronger:
            above += " (NOT AS EXPECTED)"
        print(
            f"| {case.name} | {synth.decimal_up(bound, 4)} | {synth.decimal_down(found, 4)} | {above} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
