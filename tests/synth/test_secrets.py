"""Secret attributes: origins in copies of the blocks, the whole truth of small runs, what implies what."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from synth.block_sampling import OriginShares
from synth.dirichlet.mechanism import Dirichlet
from synth.dirichlet.parameters import DirichletParameters
from synth.geometric.measured import count_cells
from synth.geometric.mechanism import Geometric
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.policy import FULL, Policy, implies
from synth.tails import exp_up

from .noise_reference import largest_ratio
from .reference import Urn

POLICY = Policy("attribute pay:0", FULL.parts, secret={"pay": ("low", "high")})
BLOCKS = 3
CUTS = (0, 1)  # of one copy
Job = tuple[int, int]  # block and category
Jobs = tuple[Job, ...]
Law = Callable[[Jobs], dict[object, Fraction]]
EVERY: list[Job] = [*itertools.product(range(BLOCKS), range(2))]


def domains(cuts: tuple[int, ...] = CUTS, policy: Policy = POLICY) -> Domains:
    own = policy.in_copies(np.array(cuts, np.int32), BLOCKS)
    return Domains(policy.copies * BLOCKS, [0, own.size], own, np.zeros(own.size, np.uint8), policy)


def origins(jobs: Jobs) -> np.ndarray:
    homes, pay = np.array(jobs).T
    return POLICY.origins(homes.astype(np.int32), {"pay": pay}, BLOCKS)


@cache
def counts(jobs: Jobs, cuts: tuple[int, ...] = CUTS) -> tuple[int, ...]:
    """Jobs in the cells of a table, as a run counts them."""
    table = Table([len(jobs)], [0], domains(cuts))
    return tuple(count_cells(table, np.zeros(len(jobs), np.int32), origins(jobs)).tolist())


def neighbours(jobs: Jobs) -> Iterator[Jobs]:
    """Another home, another category, or both, of one job."""
    for i, other in itertools.product(range(len(jobs)), EVERY):
        if other != jobs[i]:
            yield (*jobs[:i], other, *jobs[i + 1 :])


def violations(law: Law, jobs: int, odds: Fraction, delta: Fraction) -> int:
    """Inputs of which outputs that lose more than ln odds against some neighbour are likelier than delta."""
    known = {one: law(one) for one in itertools.product(EVERY, repeat=jobs)}
    wrong = 0
    for one, here in known.items():
        there = [known[other] for other in neighbours(one)]
        bad = [
            p
            for s, p in here.items()
            if any(not (q := other.get(s, Fraction(0))) or p > odds * q or q > odds * p for other in there)
        ]
        wrong += sum(bad, Fraction(0)) > delta
    return wrong


def test_origins_are_pairs_and_cells_are_units_in_every_copy() -> None:
    policy = replace(POLICY, secret={"age": ("a", "b", "c"), "pay": ("low", "high")})
    every = np.array([*itertools.product(range(3), range(2), range(BLOCKS))], np.int32)
    codes = {"age": every[:, 0], "pay": every[:, 1]}
    numbers = policy.origins(every[:, 2].copy(), codes, BLOCKS)
    assert numbers.tolist() == [*range(6 * BLOCKS)], "one number for each pair, categories slowest"
    homes, back = policy.split(numbers, BLOCKS)
    assert homes.tolist() == every[:, 2].tolist()
    assert {name: own.tolist() for name, own in back.items()} == {n: c.tolist() for n, c in codes.items()}
    assert policy.in_copies(np.array([0, 2]), BLOCKS).tolist() == [
        copy * BLOCKS + first for copy in range(6) for first in (0, 2)
    ]
    assert FULL.split(numbers, BLOCKS) == (numbers, {}), "without secrets nothing is copied"
    assert FULL.origins(numbers, {}, BLOCKS) is numbers
    with pytest.raises(ValueError, match="copies of all blocks"):
        Domains(BLOCKS, [0, 1], [0], [0], POLICY)


def test_shares_are_the_same_in_every_copy() -> None:
    one = OriginShares(
        np.array([0, 2]), np.array([0, 1, 3]), np.array([1, 0, 1]), np.array([5, 2, 3]), np.array([1])
    )
    copied = one.in_copies(2, BLOCKS)
    assert copied.starts.tolist() == [0, 2, 3, 5]
    rows = [dict(zip(copied.unit[a:b].tolist(), copied.share[a:b].tolist(), strict=True)) for a, b in (
        (copied.offsets[0], copied.offsets[1]), (copied.offsets[1], copied.offsets[2])
    )]  # fmt: skip
    assert rows == [{1: 5, 3: 5}, {0: 2, 1: 3, 2: 2, 3: 3}]
    assert one.in_copies(1, BLOCKS) is one


# --- the whole truth: all pairs of all jobs, all outputs


def resampling(plan: Plan, draws: int, seen: Callable[[Jobs], object] = lambda jobs: None) -> Law:
    """P(draws | jobs) by the reference and the plan's own numbers; beside them what `seen` makes of jobs."""
    parameters = plan.parameters
    assert isinstance(parameters, DirichletParameters)
    prior = Fraction(parameters.classes[0].prior[0], parameters.denominator)
    k = int(plan.domains.n_cells[0])

    def law(jobs: Jobs) -> dict[object, Fraction]:
        urn = Urn(len(jobs), draws, (prior,) * k, (parameters.retention[0],) * k)
        return {(s, seen(jobs)): p for s, p in urn.distribution(counts(jobs)).items() if p}

    return law


def test_resampling_holds_for_another_home_another_category_and_both() -> None:
    n = np.array([2])
    one, half, some = Fraction(1), Fraction(1, 2), Fraction(1, 20)
    for retention, epsilon, delta in ((one, 2, Fraction(0)), (half, 4, Fraction(0)), (half, 2, some)):
        plan = Dirichlet().calibrate(
            Pools(n, n, [0]), domains(), (retention,), Target(Fraction(epsilon), delta)
        )
        guarantee = Dirichlet().certify(plan)
        odds = exp_up(guarantee.epsilon)
        assert guarantee.delta <= delta
        assert violations(resampling(plan, 2), 2, odds, guarantee.delta) == 0
        every = Fraction(1) - Fraction(1, 10**9)
        # Planted: numbers of jobs by the secret attribute, as slots have public ones.
        margins = resampling(plan, 2, lambda jobs: sum(pay for _, pay in jobs))
        assert violations(margins, 2, odds, every)
        # Planted: of one home block alone the category is in a public table.
        some = resampling(plan, 2, lambda jobs: tuple(pay for home, pay in jobs if home == 0))
        assert violations(some, 2, odds, every)
        if not delta:  # Planted: an urn that draws more often than the bound is for.
            assert violations(resampling(plan, 6), 2, odds, guarantee.delta)


def test_noise_of_several_tables_holds_and_is_reached() -> None:
    coarse = (0,)  # of one copy: a table of the categories alone
    n = np.array([2])
    for share in (Fraction(1, 10), Fraction(1, 2)):
        plan = Geometric().calibrate(
            Pools(n, n, [0]),
            domains(),
            (Fraction(1),),
            Target(Fraction(2), Fraction(0)),
            secondary=[(Table(n, [0], domains(coarse)), share)],
        )
        odds = exp_up(Geometric().certify(plan).epsilon)
        parameters = plan.parameters
        assert isinstance(parameters, GeometricParameters)

        def largest(
            one: Jobs,
            other: Jobs,
            ratios: tuple[Fraction, ...] = parameters.ratios,
            tables: tuple[tuple[int, ...], ...] = (CUTS, coarse),
        ) -> Fraction:
            factor = Fraction(1)
            for p, cuts in zip(ratios, tables, strict=True):
                for x, z in zip(counts(one, cuts), counts(other, cuts), strict=True):
                    factor *= largest_ratio(x, z, p)
            return factor

        pairs = [(one, other) for one in itertools.product(EVERY, repeat=2) for other in neighbours(one)]
        found = {pair: largest(*pair) for pair in pairs}
        small = Fraction(1, 10**6)
        assert odds * (1 - small) < max(found.values()) <= odds, "it is reached"
        moved = {"home": Fraction(0), "pay": Fraction(0)}
        for (one, other), ratio in found.items():
            ((a, b),) = [(x, y) for x, y in zip(one, other, strict=True) if x != y]
            if a[0] == b[0] or a[1] == b[1]:
                kind = "pay" if a[0] == b[0] else "home"
                moved[kind] = max(moved[kind], ratio)
        # Another home alone changes no table of categories; another category alone changes both tables.
        assert moved["home"] < moved["pay"] == max(found.values())
        # Planted: noise for a table in which another category moves nobody, as where it is public.
        weaker = (parameters.ratios[0], parameters.ratios[1] ** 2)
        assert any(largest(*pair, weaker) > odds for pair in pairs)
        # Planted: a third table, by category, that no share of epsilon is for.
        third = (*parameters.ratios, parameters.ratios[1])
        assert any(largest(*pair, third, (CUTS, coarse, coarse)) > odds for pair in pairs)


def test_a_plan_has_one_policy_of_attributes() -> None:
    n = np.array([2])
    plan = Geometric().calibrate(
        Pools(n, n, [0]), domains(), (Fraction(1),), Target(Fraction(1), Fraction(0))
    )
    with pytest.raises(ValueError, match="cells under the policy of the pools"):
        replace(plan, secondary=(Table(n, [0], domains(policy=FULL)),))
    with pytest.raises(ValueError, match="go with no secret attributes"):
        replace(plan, target=replace(plan.target, record_range=RecordRange(1, 1)))


# --- composition


def test_a_policy_of_attributes_implies_those_of_homes_and_of_fewer_attributes() -> None:
    """And so it is for all pairs of inputs: the neighbours of what is implied are neighbours of the other."""
    both, age, pay = "attribute age:1/pay:2", "attribute age:1", "attribute pay:2"
    homes = ["full", "parts st:1/cty:2", "distance 16:0"]
    for other in (*homes, age, pay, both):
        assert implies(both, other)
        assert implies(age, other) == (other in (*homes, age))
    for other in homes:
        assert not implies(other, age)
    assert not implies(age, "attribute age:3"), "other categories"
    assert not implies("attribute age:1", "attribute age:11")
    secret = {"age": "xy", "pay": "lh"}
    jobs = [*itertools.product(range(2), "xy", "lh")]  # home, age, pay: one job

    def pairs(hidden: set[str]) -> set[tuple[object, object]]:
        at = [0, *(i + 1 for i, name in enumerate(secret) if name in hidden)]
        return {
            (one, other)
            for one, other in itertools.permutations(jobs, 2)
            if all(one[i] == other[i] for i in range(3) if i not in at)
        }

    for one, other in itertools.product([{"age", "pay"}, {"age"}, {"pay"}, set[str]()], repeat=2):
        names = [
            f"attribute {'/'.join(f'{name}:0' for name in sorted(some))}" if some else "full"
            for some in (one, other)
        ]
        assert implies(*names) == (pairs(other) <= pairs(one))
    assert Counter(map(len, map(pairs, ({"age", "pay"}, set())))) == {56: 1, 8: 1}
