"""The auditor against the sampler that ships and against samplers that are broken on purpose.

Usage: python benchmarks/attacks.py [--runs N] [--seed N]

Prints one Markdown row per case: the epsilon and delta that are promised for one record, the auditor's lower
bound for what was really sampled (`audit`, confidence 1 - 10^-6 each), and what follows. The broken
samplers are the shipped kernel with one edit of its source, compiled anew, or the shipped one driven wrongly.
All plans are small: that is where a black box can see anything. Takes less than two minutes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import click
import numba
import numpy as np
from numpy.typing import NDArray

import synth
from synth.auditing import AuditResult, Sampler, audit
from synth.composition import compose
from synth.dirichlet import urn
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.parameters import DirichletParameters
from synth.dirichlet.urn import Urns, sample_cells
from synth.randomness import RunKey, WordStream

RUNS = 1_000_000
CONFIDENCE = 1 - Fraction(1, 10**6)
Q = 10**9
Cells = NDArray[np.int32]
HALF, SURE = Fraction(1, 2), Fraction(1)

# Off-by-ones of the kernel: a piece of its source and what replaces it.
NOISE_LATE = ("workers = q * n", "workers = q * n + 1")
NOISE_EARLY = ("workers = q * n", "workers = q * n - 1")
NOISE_SHORT = ("starts[s + 1] - starts[s])\n        t =", "starts[s + 1] - starts[s] - 1)\n        t =")
COIN_KIND = ("v < coin[s, 0]", "v <= coin[s, 0]")
COIN_HARD = ("v < coin[s, 0]", "v + 1 < coin[s, 0]")
LAST_DRAW = ("workers + noise + q * t)", "workers + noise + q * max(t - 1, 0))")


@dataclass(frozen=True)
class Setting:
    """A certified plan of one pool, and two neighbouring inputs."""

    plan: synth.Plan
    guarantee: synth.Guarantee
    urns: Urns
    before: Cells
    after: Cells


@dataclass(frozen=True)
class Case:
    """One row: what is sampled, from which plan, and which epsilon it is held against.

    `broken` says whether the sampler differs from what is certified; `exceeds` whether the auditor is
    expected to prove so. `cost` is the promise that the bound is compared with: the plan's certificate, or
    for several releases what is claimed for them. `slow` divides the runs.
    """

    name: str
    setting: Setting
    sampler: Sampler
    broken: bool = False
    exceeds: bool = False
    cost: tuple[Fraction, Fraction] | None = None
    slow: int = 1

    @property
    def promise(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that the audit is held against: one record's (epsilon, delta)-DP."""
        g = self.setting.guarantee
        return self.cost or (g.record_epsilon, g.record_delta)

    def audited(self, runs: int, key: RunKey | None) -> AuditResult:
        """Run the auditor."""
        s = self.setting
        return audit(
            s.urns, s.before, s.after, runs=runs // self.slow, delta=self.promise[1], confidence=CONFIDENCE,
            sampler=self.sampler, key=key,
        )  # fmt: skip


def setting(
    before: list[int],
    after: list[int],
    strata: list[int],
    retention: tuple[Fraction, ...] = (SURE,),
    *,
    epsilon: str,
    delta: str = "0",
) -> Setting:
    """Calibrate and certify a plan of one pool as the program does, with as many draws as workers."""
    domains, pools = _one_pool(len(before), strata)
    plan = synth.MECHANISMS["dirichlet"].calibrate(
        pools, domains, retention, synth.Target(Fraction(epsilon), Fraction(delta))
    )
    return _certified(plan, before, after)


def whole_setting(before: list[int], after: list[int], cells: int, prior: int) -> Setting:
    """Certify a plan whose priors are whole numbers (q = 1), so that one unit of weight is a lot.

    Epsilon is that of pure differential privacy, 1 + m / a.
    """
    n = len(before)
    domains, pools = _one_pool(n, [0] * cells)
    gain = 1 + Fraction(n, prior)
    one = PoolClass(n, n, n, (cells,), (cells,), (cells,), gain, (prior,), (SURE,), 1)
    with synth.tails.rigorous() as balls:
        epsilon = synth.tails.upper_fraction(balls.log(balls.number(gain)))
    parameters = DirichletParameters((one,))
    plan = synth.Plan(
        "dirichlet", synth.Target(epsilon, 0), pools, domains, np.zeros(1, np.int32), parameters
    )
    return _certified(plan, before, after)


def _one_pool(n: int, strata: list[int]) -> tuple[synth.Domains, synth.Pools]:
    k = len(strata)
    domains = synth.Domains(k, np.array([0, k]), np.arange(k, dtype=np.int32), np.array(strata, np.uint8))
    return domains, synth.Pools(np.array([n]), np.array([n]), np.zeros(1, np.int32))


def _certified(plan: synth.Plan, before: list[int], after: list[int]) -> Setting:
    mechanism = synth.MECHANISMS["dirichlet"]
    guarantee = mechanism.certify(plan)
    if not guarantee.meets(plan):
        raise SystemExit("a plan does not certify")
    urns = mechanism.urns(plan, slice(0, 1))
    return Setting(plan, guarantee, urns, np.array(before, np.int32), np.array(after, np.int32))


def edited(*edits: tuple[str, str]) -> Sampler:
    """Return `sample_cells` with a kernel whose source was edited, compiled anew.

    Each pair is a piece of the source, which must be there exactly once, and what replaces it.
    """
    return _edited(edits)


@cache
def _edited(edits: tuple[tuple[str, str], ...]) -> Sampler:
    source = inspect.getsource(urn._draw.py_func)  # type: ignore[attr-defined]
    source = source.removeprefix("@_compiled\n")
    for old, new in edits:
        if source.count(old) != 1:
            raise LookupError(f"not there exactly once: {old!r}")
        source = source.replace(old, new)
    space: dict[str, Any] = {name: getattr(urn, name) for name in dir(urn) if not name.startswith("__")}
    exec(compile(source, "edited kernel", "exec"), space)
    space["_draw"] = numba.njit(nogil=True)(space["_draw"])
    exec("from __future__ import annotations\n" + inspect.getsource(urn.sample_cells), space)
    made: Sampler = space["sample_cells"]
    return made


def with_urns(change: Callable[[Urns], Urns]) -> Sampler:
    """Return the shipped sampler, given other urns than the plan's."""

    def sampler(urns: Urns, cells: Cells, stream: WordStream) -> Cells:
        return sample_cells(change(urns), cells, stream)

    return sampler


def tenth(urns: Urns) -> Urns:
    """Use a tenth of the prior."""
    return urns._replace(prior=urns.prior // 10)


def no_noise_where_nobody_lives(urns: Urns) -> Urns:
    """Give every coin the probability 0, so that only cells with workers are in the urn."""
    return urns._replace(coin=np.array([[0, 1]] * len(urns.coin)))


def two_releases(change: Callable[[Urns], Urns]) -> Sampler:
    """Return a sampler that releases the same records twice, the second time from changed urns."""

    def sampler(urns: Urns, cells: Cells, stream: WordStream) -> Cells:
        drawn = [sample_cells(which, cells, stream) for which in (urns, change(urns))]
        return np.stack(drawn, axis=1)

    return sampler


def two_releases_of_one_seed(change: Callable[[Urns], Urns]) -> Sampler:
    """Return the same with the second release drawn from the random words of the first, pool by pool.

    Pools are drawn one at a time: in a batch, the two would fall out of step at the first rejected word.
    """

    def sampler(urns: Urns, cells: Cells, stream: WordStream) -> Cells:
        pools, n = urns.domain.size, int(urns.offsets[1])
        first = urns._replace(
            offsets=urns.offsets[:2],
            draw_offsets=urns.draw_offsets[:2],
            prior=urns.prior[:1],
            domain=urns.domain[:1],
        )
        both = (first, change(first))
        keys = stream.words(4 * pools).reshape(pools, 4)
        drawn = [
            [sample_cells(which, cells[p * n : (p + 1) * n], WordStream(keys[p].tobytes())) for which in both]
            for p in range(pools)
        ]
        return np.array(drawn, np.int32).swapaxes(1, 2).reshape(-1, 2)

    return sampler


def other_prior(urns: Urns) -> Urns:
    """Use five quarters of the prior: a second release that is certified, at a smaller epsilon."""
    return urns._replace(prior=urns.prior * 5 // 4)


def half_prior(urns: Urns) -> Urns:
    """Use half of the prior: a second release that is certified, at a larger epsilon."""
    return urns._replace(prior=urns.prior // 2)


def honest() -> list[Case]:
    """The shipped sampler under certificates with and without pruning."""
    one = setting([0], [1], [0] * 3, epsilon="1.6")
    return [
        Case("as shipped, n = 1", one, sample_cells),
        Case(
            "as shipped, n = 1, pruning 1/2", setting([0], [1], [0] * 3, (HALF,), epsilon="3"), sample_cells
        ),
        Case("as shipped, n = 2", setting([0, 0], [0, 1], [0] * 5, epsilon="2"), sample_cells),
        Case(
            "as shipped, n = 2, mixed pruning",
            setting([3, 0], [3, 1], [0, 1, 1, 0], (SURE, Fraction(1, 4)), epsilon="4"),
            sample_cells,
        ),
        Case(
            "as shipped, n = 5, pruning 1/2",
            setting([0] * 5, [0] * 4 + [1], [0] * 5, (HALF,), epsilon="3", delta="1e-3"),
            sample_cells,
        ),
        Case(
            "as shipped, n = 20",
            setting([0] + [1] * 19, [2] + [1] * 19, [0] * 8, epsilon="3", delta="1e-4"),
            sample_cells,
        ),
    ]


def far_block() -> Setting:
    """Return the tutorial's example: of twenty workers, only one comes from a far block, cell 7."""
    return setting([0] * 10 + [1] * 9 + [7], [0] * 10 + [1] * 10, [0] * 8, epsilon="3", delta="1e-4")


def broken() -> list[Case]:
    """Samplers that do not do what is certified."""
    pruned = setting([0, 1], [0, 2], [0, 0, 1, 1], (SURE, HALF), epsilon="4")
    one = setting([0], [1], [0] * 3, epsilon="1.6")
    return [
        Case(
            "(1) noise only on blocks that occur",
            far_block(),
            with_urns(no_noise_where_nobody_lives),
            True,
            True,
        ),
        Case(
            "(2) empty cells always dropped, no coins",
            pruned,
            edited(("_KEPT if v < coin[s, 0] else _PRUNED", "_PRUNED")),
            True,
            True,
        ),
        Case("(3) a tenth of the prior", one, with_urns(tenth), True, True),
        Case("(3) a tenth of the prior, pruning", pruned, with_urns(tenth), True, True),
        *composed(one),
        *off_by_one(pruned),
    ]


def composed(one: Setting) -> list[Case]:
    """Two releases of the same records, against the price of one and against the price of two."""
    four = setting([1], [0], [0] * 4, epsilon="2")
    both = two_costs(one, other_prior)
    return [
        Case("(4) two releases, priced as one", one, two_releases(other_prior), True, True, two_costs(one)),
        Case("(4) two releases, priced by compose", one, two_releases(other_prior), cost=both),
        Case(
            "(6) two releases with one seed, priced by compose",
            four,
            two_releases_of_one_seed(half_prior),
            True,
            True,
            two_costs(four, half_prior),
            slow=20,
        ),
    ]


def two_costs(first: Setting, *changes: Callable[[Urns], Urns]) -> tuple[Fraction, Fraction]:
    """Return the composed cost of a release of one draw without pruning, and of others from changed urns."""
    costs = [(first.guarantee.epsilon, first.guarantee.delta)]
    for change in changes:
        urns = change(first.urns)
        gain = 1 + Fraction(urns.denominator, int(urns.prior.min()))
        with synth.tails.rigorous() as balls:
            costs.append((synth.tails.upper_fraction(balls.log(balls.number(gain))), Fraction(0)))
    return compose(costs)


def off_by_one(pruned: Setting) -> list[Case]:
    """One off-by-one each in the ranges of the kernel."""
    whole = whole_setting([0], [1], 3, 1)
    three = whole_setting([2, 2, 0], [2, 2, 1], 3, 2)
    last = whole_setting([0], [2], 3, 1)
    return [
        Case("(5) noise begins one unit late, q = 1", whole, edited(NOISE_LATE), True, True),
        Case(
            "(5) noise begins one unit late, q = 10^9",
            setting([0], [1], [0] * 3, epsilon="1.6"),
            edited(NOISE_LATE),
            True,
        ),
        Case("(5) noise begins one unit early, q = 1", three, edited(NOISE_EARLY), True),
        Case("(5) noise ends one cell early", last, edited(NOISE_SHORT), True, True),
        Case("(5) coin kept one value too often", pruned, edited(COIN_KIND), True),
        Case("(5) coin kept one value too rarely", pruned, edited(COIN_HARD), True, True),
        Case(
            "(5) last draw never copied",
            three,
            edited(LAST_DRAW),
            True,
            True,
        ),
    ]


def verdict(case: Case, result: AuditResult) -> str:
    """Return what follows from an audit."""
    caught = result.epsilon > case.promise[0]
    if not case.broken:
        return "EXCEEDS ITS CERTIFICATE" if caught else "within"
    return "caught" if caught else "not caught"


def row(case: Case, runs: int, key: RunKey | None) -> tuple[str, AuditResult]:
    """Return a row of the table and the audit behind it."""
    result = case.audited(runs, key)
    epsilon, delta = case.promise
    cells = [
        case.name,
        synth.decimal_up(epsilon, 4),
        synth.decimal_up(delta, 2),
        synth.decimal_down(result.epsilon, 4),
        f"{result.likely:,} to {result.unlikely:,}",
        verdict(case, result),
    ]
    return "| " + " | ".join(cells) + " |", result


@click.command()
@click.option("--runs", default=RUNS, show_default=True, help="Runs on each of the two inputs.")
@click.option("--seed", type=int, help="A seed, for a table that can be printed again.")
def main(runs: int, seed: int | None) -> None:
    """Audit every case and print the table."""
    print(f"{runs:,} runs on each input (the row with one seed a 20th), half of them to choose the event;")
    print("confidence 1 - 10^-6 a row.\n")
    print("| what is sampled | epsilon promised | delta | epsilon audited | event counts | verdict |")
    print("|---|---|---|---|---|---|")
    for case in (*honest(), *broken()):
        key = None if seed is None else RunKey.from_seed(seed)
        print(row(case, runs, key)[0], flush=True)


if __name__ == "__main__":
    main()
