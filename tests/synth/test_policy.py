"""Policies of parts: what they divide, the whole truth of small runs under them, and what implies what."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from synth.dirichlet.mechanism import Dirichlet
from synth.dirichlet.parameters import DirichletParameters
from synth.geometric.mechanism import Geometric
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.policy import FULL, Policy, implies
from synth.tails import exp_up

from .noise_reference import largest_ratio
from .reference import Urn

# Five blocks in two parts; one cell of the second part has two blocks.
POLICY = Policy("parts area:0", np.array([0, 2], np.int32))
CUTS = [[0, 1], [2, 3]]
BLOCKS = 5
Homes = tuple[int, ...]
Output = tuple[tuple[int, ...], ...]
Law = Callable[[Homes], dict[Output, Fraction]]


def domains(policy: Policy = POLICY, cuts: list[list[int]] = CUTS) -> Domains:
    offsets, flat = np.cumsum([0, *map(len, cuts)]), np.array([c for own in cuts for c in own], np.int32)
    return Domains(BLOCKS, offsets, flat, np.zeros(flat.size, np.uint8), policy)


def pools(sizes: tuple[int, ...]) -> Pools:
    """A pool of each part."""
    n = np.array(sizes, np.int64)
    return Pools(n, n, np.arange(n.size, dtype=np.int32))


def test_domains_are_of_one_part() -> None:
    own = domains()
    assert own.part.tolist() == [0, 1]
    assert [x.tolist() for x in own.bounds(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))] == [
        [0, 1, 2, 3],
        [1, 2, 3, 5],
    ]
    assert own.locate(np.array([0, 1, 1], np.int32), np.array([1, 2, 4], np.int32)).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="another part than its domain"):
        own.locate(np.array([0], np.int32), np.array([2], np.int32))
    for cuts, match in (
        ([[0, 1], [3]], "must begin at the first block of a part"),
        ([[0, 2], [2]], "stay below the end of its part"),
        ([[0, 1, 2, 3]], "stay below the end of its part"),
    ):
        with pytest.raises(ValueError, match=match):
            domains(POLICY, cuts)
    for parts in ([], [1], [0, 0], [0, 3, 2]):
        with pytest.raises(ValueError, match="runs of blocks that begin at block 0 and increase"):
            Policy("partition", np.array(parts, np.int32))


def test_cells_of_all_blocks_are_cut_at_the_parts() -> None:
    for cuts in itertools.chain.from_iterable(itertools.combinations(range(1, 5), k) for k in range(5)):
        every = np.array([0, *cuts], np.int32)
        for part, (first, stop) in enumerate([(0, 2), (2, 5)]):
            assert POLICY.within(every, part).tolist() == sorted(
                {first, *cuts} & {*range(first, stop)} | {first}
            )
        assert FULL.within(every, 0) is every
    assert POLICY.part(np.arange(5)).tolist() == [0, 0, 1, 1, 1]
    assert FULL.part(np.arange(5)).tolist() == [0] * 5


def test_a_plan_has_one_policy() -> None:
    plan = Geometric().calibrate(pools((2, 3)), domains(), (Fraction(1),), Target(Fraction(1), Fraction(0)))
    with pytest.raises(ValueError, match="must be under the policy of the pools"):
        replace(plan, secondary=(Table(np.array([5]), np.array([0]), domains(FULL, [[0, 3]])),))
    with pytest.raises(ValueError, match="no public parts"):
        replace(plan, target=replace(plan.target, record_range=RecordRange(1, 1)))


# --- the whole truth: all homes of all jobs, and all outputs of all pools


def counts(homes: Homes, cuts: list[int], every: list[list[int]] = CUTS) -> tuple[int, ...]:
    """Jobs of a part in its cells."""
    stop = next((own[0] for own in every if own[0] > cuts[0]), BLOCKS)
    ends = [*cuts[1:], stop]
    return tuple(sum(first <= home < end for home in homes) for first, end in zip(cuts, ends, strict=True))


def resampling(
    plan: Plan, edit: Callable[[int, int], int] = lambda pool, n: n, every: list[list[int]] = CUTS
) -> Law:
    """P(draws of all pools | homes), by the reference and the plan's own numbers; `edit` plants a fault."""
    parameters = plan.parameters
    assert isinstance(parameters, DirichletParameters)
    (retention,) = parameters.retention

    @cache
    def law(homes: Homes) -> dict[Output, Fraction]:
        found: dict[Output, Fraction] = {(): Fraction(1)}
        for pool, cuts in enumerate(every):
            own = parameters.classes[plan.pool_class[pool]]
            prior = (Fraction(own.prior[0], parameters.denominator),) * len(cuts)
            h = counts(homes, cuts, every)
            urn = Urn(sum(h), edit(pool, sum(h)), prior, (retention,) * len(cuts))
            drawn = urn.distribution(h)
            found = {(*s, t): p * q for s, p in found.items() for t, q in drawn.items() if p * q}
        return found

    return law


def inputs(jobs: int) -> Iterator[Homes]:
    yield from itertools.product(range(BLOCKS), repeat=jobs)


def neighbours(homes: Homes, policy: Policy) -> Iterator[Homes]:
    part = policy.part(np.arange(BLOCKS))
    for i, other in itertools.product(range(len(homes)), range(BLOCKS)):
        if other != homes[i] and part[other] == part[homes[i]]:
            yield (*homes[:i], other, *homes[i + 1 :])


def violations(law: Law, policy: Policy, sizes: tuple[int, int], odds: Fraction, delta: Fraction) -> int:
    """Inputs of which outputs that lose more than ln odds against some neighbour are likelier than delta."""
    known = {homes: law(homes) for homes in inputs(sum(sizes)) if parts_of(homes) == sizes}
    assert known
    wrong = 0
    for homes, here in known.items():
        bad = set()
        for other in neighbours(homes, policy):
            there = known.get(other) or law(other)
            bad |= {s for s, p in here.items() if not (q := there.get(s, Fraction(0))) or p > odds * q}
            bad |= {s for s, q in there.items() if s in here and q > odds * here[s]}
        wrong += sum((here[s] for s in bad), Fraction(0)) > delta
    return wrong


def parts_of(homes: Homes) -> tuple[int, int]:
    first, second = np.bincount(POLICY.part(np.array(homes)), minlength=2).tolist()
    return first, second


def test_resampling_holds_for_all_neighbours_of_the_policy_and_for_no_others() -> None:
    for sizes, retention, epsilon, delta in itertools.product(
        [(1, 1), (2, 1), (1, 2)],
        [Fraction(1), Fraction(1, 2)],
        [Fraction(2), Fraction(4)],
        [Fraction(0), Fraction(1, 20)],
    ):
        plan = Dirichlet().calibrate(pools(sizes), domains(), (retention,), Target(epsilon, delta))
        guarantee = Dirichlet().certify(plan)
        odds, law = exp_up(guarantee.epsilon), resampling(plan)
        assert guarantee.delta <= delta
        assert violations(law, POLICY, sizes, odds, guarantee.delta) == 0
        every = Fraction(1) - Fraction(1, 10**9)
        # Planted: it is taken for the guarantee of "full". Every output tells of another part.
        assert violations(law, FULL, sizes, odds, every)
        # Planted: an urn that also draws the job of the other part; the bound is for fewer draws.
        if delta == 0 and sizes == (1, 1):
            more = resampling(plan, lambda pool, n: n + 4)
            assert violations(more, POLICY, sizes, odds, guarantee.delta)


def test_numbers_of_homes_in_parts_are_reproduced_by_every_output() -> None:
    plan = Dirichlet().calibrate(
        pools((2, 1)), domains(), (Fraction(1, 2),), Target(Fraction(3), Fraction(1, 9))
    )
    law = resampling(plan)
    for homes in inputs(3):
        if parts_of(homes) == (2, 1):
            assert all(tuple(map(sum, s)) == (2, 1) for s in law(homes))


def noise(plan: Plan, tables: list[list[list[int]]]) -> Callable[[Homes, Homes], Fraction]:
    """The largest ratio of any noisy counts of all tables, by table the cuts of each group of a part."""
    parameters = plan.parameters
    assert isinstance(parameters, GeometricParameters)

    def largest(homes: Homes, other: Homes) -> Fraction:
        factor = Fraction(1)
        for p, groups in zip(parameters.ratios, tables, strict=True):
            for cuts in groups:
                for x, z in zip(counts(homes, cuts), counts(other, cuts), strict=True):
                    factor *= largest_ratio(x, z, p)
        return factor

    return largest


def test_noise_of_several_tables_holds_for_all_neighbours_of_the_policy() -> None:
    fine, coarse = [[0, 1], [2, 3]], [[0], [2, 4]]
    small = Fraction(1, 10**6)
    for share in (Fraction(1, 10), Fraction(1, 2)):
        table = Table(np.array([2, 1]), np.array([0, 1]), domains(POLICY, coarse))
        plan = Geometric().calibrate(
            pools((2, 1)),
            domains(),
            (Fraction(1),),
            Target(Fraction(2), Fraction(0)),
            secondary=[(table, share)],
        )
        odds = exp_up(Geometric().certify(plan).epsilon)
        found: dict[bool, Fraction] = defaultdict(Fraction)
        for homes in inputs(3):
            if parts_of(homes) == (2, 1):
                ratio = noise(plan, [fine, coarse])
                for policy in (POLICY, FULL):
                    for other in neighbours(homes, policy):
                        found[policy is POLICY] = max(found[policy is POLICY], ratio(homes, other))
        assert found[True] <= odds
        assert found[True] > odds * (1 - small), "it is reached"
        # Who changes the part is found out by more: the public numbers themselves.
        weaker = replace(plan.parameters, numerator=1)  # type: ignore[type-var]
        stronger = noise(replace(plan, parameters=weaker), [fine, coarse])
        assert max(stronger((0, 0, 2), other) for other in neighbours((0, 0, 2), POLICY)) > odds


# --- composition


def test_a_policy_implies_those_whose_parts_divide_its_own() -> None:
    county, tract, others = "parts st:1/cty:2", "parts st:1/cty:2/trct:3", "parts st:1/cty:4"
    rising = ["full", county, tract]
    for (i, one), (j, other) in itertools.product(enumerate(rising), repeat=2):
        assert implies(one, other) == (i <= j)
    assert implies("full", others)
    for one in (county, tract):
        assert not implies(one, others)
        assert not implies(others, one)
    assert not implies("parts st:1/cty:2", "parts st:1/cty:22")


def test_the_sum_of_partitions_between_which_a_block_moved_is_infinite() -> None:
    """Each release keeps its epsilon; of both together no epsilon holds for the homes in the block."""
    moved, cuts = Policy("parts area:1", np.array([0, 3], np.int32)), [[0, 1, 2], [3]]
    laws = {}
    for policy, every in ((POLICY, CUTS), (moved, cuts)):
        plan = Dirichlet().calibrate(
            pools((1, 1)), domains(policy, every), (Fraction(1),), Target(Fraction(1), Fraction(0))
        )
        laws[policy.name] = resampling(plan, every=every)
        assert Dirichlet().certify(plan).epsilon <= 1
    assert not implies(POLICY.name, moved.name)
    assert not implies(moved.name, POLICY.name)
    homes = (1, 4)  # and the second, which may stand for 2 and 3 under the first policy, moves to 2
    assert (1, 2) in neighbours(homes, POLICY)
    here, there = laws[POLICY.name](homes), laws[POLICY.name]((1, 2))
    odds = exp_up(Fraction(1))
    assert here.keys() == there.keys()
    assert all(p <= odds * there[s] and there[s] <= odds * p for s, p in here.items())
    assert laws[moved.name](homes).keys().isdisjoint(laws[moved.name]((1, 2)))  # any output tells which


def test_the_sum_of_all_jobs_and_those_of_residents_is_of_homes_on_one_side() -> None:
    """Residents live in the first part, and their release is the first pool. Who moves out is found out."""
    every = [[0, 1, 2, 3]]
    whole = Dirichlet().calibrate(
        pools((2,)), domains(FULL, every), (Fraction(1),), Target(Fraction(1), Fraction(0))
    )
    divided = Dirichlet().calibrate(
        pools((1, 1)), domains(), (Fraction(1),), Target(Fraction(1), Fraction(0))
    )
    of_all, of_parts = resampling(whole, every=every), resampling(divided)

    def both(homes: Homes) -> dict[Output, Fraction]:
        found: dict[Output, Fraction] = defaultdict(Fraction)
        for (s, p), (t, q) in itertools.product(of_all(homes).items(), of_parts(homes).items()):
            found[(*s, t[0])] += p * q
        return found

    homes, odds = (0, 3), exp_up(Fraction(2))
    here = both(homes)
    for other in ((1, 3), (0, 4), (0, 2)):  # inside, and outside
        there = both(other)
        assert here.keys() == there.keys()
        assert all(p <= odds * there[s] and there[s] <= odds * p for s, p in here.items())
    for other in ((2, 3), (0, 1)):  # out of the geography, and into it
        assert here.keys().isdisjoint(both(other))


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
