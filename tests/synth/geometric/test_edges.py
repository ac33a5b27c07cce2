"""Policies of edges: what an edge changes, the whole truth of small runs, and ways of several edges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from synth.geometric.mechanism import Geometric, changed_tables, joint_loss, noise_loss
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.policy import Policy, implies, parts_of_reach
from synth.tails import exp_up

from ..noise_reference import largest_ratio

Edges = frozenset[tuple[int, int]]
BLOCKS = 5
PAIRS = tuple(itertools.combinations(range(BLOCKS), 2))
GRAPHS = [frozenset(one) for size in range(1, len(PAIRS) + 1) for one in itertools.combinations(PAIRS, size)]
CUTS = [
    (0, *one) for size in range(BLOCKS) for one in itertools.combinations(range(1, BLOCKS), size)
]  # all divisions of five blocks into cells


def policy_of(edges: Edges) -> Policy:
    reach = np.array([max([i, *(b for a, b in edges if a == i)]) for i in range(BLOCKS)], np.int32)
    return Policy("distance 1:0", parts_of_reach(reach), reach, steps=BLOCKS)


def domains(policy: Policy, cuts: tuple[int, ...]) -> Domains:
    own = [policy.within(np.array(cuts, np.int32), part) for part in range(policy.n_parts)]
    flat = np.concatenate(own)
    offsets = np.cumsum([0, *(one.size for one in own)])
    return Domains(BLOCKS, offsets, flat, np.zeros(flat.size, np.uint8), policy)


def apart(cuts: tuple[int, ...], a: int, b: int) -> bool:
    """Whether two blocks are in different cells."""
    return any(min(a, b) < cut <= max(a, b) for cut in cuts)


def partition(parts: tuple[int, ...]) -> tuple[Policy, Edges]:
    """A partition, and its edges: between any two blocks of a part."""
    policy = Policy("full" if len(parts) == 1 else "parts st:1", np.array(parts, np.int32))
    return policy, frozenset((a, b) for a, b in PAIRS if not apart(parts, a, b))


def test_what_edges_change_is_found_for_all_small_graphs_and_cells() -> None:
    """Of every graph and every division into cells, and every pair of these for some graphs."""
    sizes, rng = (Fraction(3), Fraction(5)), np.random.default_rng(5)
    for number, edges in enumerate(GRAPHS):
        policy = policy_of(edges)
        ends = {cut for cut in range(1, BLOCKS) if not any(a < cut <= b for a, b in edges)}
        assert policy.parts.tolist() == sorted({0, *ends}), "an edge never leaves a part, and parts are short"
        some = CUTS if number % 200 == 0 else [CUTS[i] for i in rng.integers(len(CUTS), size=2)]
        of_cuts = {cuts: domains(policy, cuts) for cuts in some}
        for first, second in itertools.combinations_with_replacement(some, 2):
            sets = changed_tables([of_cuts[first], of_cuts[second]])
            true = {(apart(first, a, b), apart(second, a, b)) for a, b in edges}
            true.add((False, False))
            assert joint_loss(sets, sizes) == max(joint_loss(frozenset({one}), sizes) for one in true)
            assert sets <= true
            if policy.n_parts == 1:  # pools of one table with different cells
                offsets, both = (
                    np.array([0, len(first), len(first) + len(second)]),
                    np.array([*first, *second]),
                )
                pooled = Domains(BLOCKS, offsets, both, np.zeros(both.size, np.uint8), policy)
                assert ((True,) in changed_tables([pooled])) == any(map(any, true))


def test_what_neighbours_of_a_partition_change_is_found_for_all_parts_and_cells() -> None:
    sizes = (Fraction(3), Fraction(5))
    for parts in CUTS:
        policy, edges = partition(parts)
        of_cuts = {cuts: domains(policy, cuts) for cuts in CUTS}
        for first, second in itertools.combinations_with_replacement(CUTS, 2):
            sets = changed_tables([of_cuts[first], of_cuts[second]])
            true = {(apart(first, a, b), apart(second, a, b)) for a, b in edges} | {(False, False)}
            assert joint_loss(sets, sizes) == max(joint_loss(frozenset({one}), sizes) for one in true)


def test_a_policy_of_edges_has_the_parts_that_its_edges_have() -> None:
    reach = np.array([1, 1, 3, 3], np.int32)
    assert Policy("distance 1:0", np.array([0, 2], np.int32), reach).n_parts == 2
    for parts, wrong, match in (
        ([0], reach, "shortest runs that no edge leaves"),
        ([0, 1], reach, "shortest runs that no edge leaves"),
        ([0], [1, 0], "itself, or come after it"),
        ([0], [0, 2], "itself, or come after it"),
    ):
        with pytest.raises(ValueError, match=match):
            Policy("distance 1:0", np.array(parts, np.int32), np.array(wrong, np.int32))
    path = plan_of(policy_of(frozenset(PAIRS)), [(0, 2)])
    with pytest.raises(ValueError, match="go with no policy of edges"):
        replace(path, target=replace(path.target, record_range=RecordRange(1, 1)))
    with pytest.raises(ValueError, match="edges of the policy are between other blocks"):
        Domains(
            3, np.array([0, 1]), np.zeros(1, np.int32), np.zeros(1, np.uint8), policy_of(frozenset(PAIRS))
        )


# --- the whole truth: all homes of a few jobs, all noisy counts


def plan_of(policy: Policy, cuts: list[tuple[int, ...]], epsilon: Fraction = Fraction(2)) -> Plan:
    """Two jobs of one work block in each part; of the tables all but the first have a fifth of epsilon."""
    n, domain = np.full(policy.n_parts, 2, np.int64), np.arange(policy.n_parts, dtype=np.int32)
    secondary = [(Table(n, domain, domains(policy, one)), Fraction(1, 5)) for one in cuts[1:]]
    return Geometric().calibrate(
        Pools(n, n, domain),
        domains(policy, cuts[0]),
        (Fraction(1),),
        Target(epsilon, Fraction(0)),
        secondary=secondary,
    )


def largest_odds(plan: Plan, cuts: list[tuple[int, ...]], a: int, b: int) -> Fraction:
    """The largest ratio of any noisy counts of all tables for two inputs, over all homes of the other job."""
    assert isinstance(plan.parameters, GeometricParameters)
    most = Fraction(0)
    for other in range(BLOCKS):
        odds = Fraction(1)
        for p, own in zip(plan.parameters.ratios, cuts, strict=True):
            here, there = (
                np.bincount(np.searchsorted(own, [home, other], "right") - 1, minlength=len(own)).tolist()
                for home in (a, b)
            )
            for x, z in zip(here, there, strict=True):
                odds *= largest_ratio(x, z, p)
        most = max(most, odds)
    return most


def cases() -> Iterator[tuple[Policy, Edges, list[tuple[int, ...]]]]:
    path: Edges = frozenset((i, i + 1) for i in range(BLOCKS - 1))
    two = frozenset({(0, 1), (2, 3), (3, 4)})
    torn: Edges = frozenset({(0, 2), (1, 3)})  # two components between each other, and a block alone
    policies = [(policy_of(edges), edges) for edges in (path, two, torn, frozenset(PAIRS))]
    for policy, edges in [*policies, *map(partition, ((0,), (0, 2), (0, 3, 4), (0, 1, 2, 3, 4)))]:
        yield policy, edges, [(0, 1, 2, 3, 4), (0, 2)]  # a hierarchy
        yield policy, edges, [(0, 2), (0, 1, 2, 3, 4)]
        yield policy, edges, [(0, 2, 3), (0, 1, 4)]  # two that no edge of a path changes together
        yield policy, edges, [(0, 1), (0, 4), (0, 2, 3)]
        yield policy, edges, [(0, 2), (0,)]
        yield policy, edges, [(0, 1, 2, 3, 4)]  # a flat histogram


def test_noise_holds_for_every_edge_is_reached_and_adds_up_along_ways() -> None:
    saved = set()
    for policy, edges, cuts in cases():
        plan = plan_of(policy, cuts)
        guarantee = Geometric().certify(plan)
        one_step = exp_up(guarantee.epsilon)
        found = {pair: largest_odds(plan, cuts, *pair) for pair in PAIRS}
        assert guarantee.meets(plan)
        if not any(apart(own, *pair) for own in cuts for pair in edges):
            assert (guarantee.epsilon, {found[pair] for pair in edges} - {1}) == (0, set()), "nothing is lost"
            continue
        assert max(found[pair] for pair in edges) <= one_step, (edges, cuts)
        assert max(found[pair] for pair in edges) > one_step * (1 - Fraction(1, 10**6)), "it is reached"
        assert Fraction(2) * (1 - Fraction(1, 10**6)) < guarantee.epsilon <= 2, "all of epsilon is used"
        # Ways of several edges, wherever there are some: shortest by Floyd and Warshall.
        steps = {(a, b): 0 if a == b else 1 if (min(a, b), max(a, b)) in edges else 99 for a, b in ALL}
        for c, (a, b) in itertools.product(range(BLOCKS), ALL):
            steps[a, b] = min(steps[a, b], steps[a, c] + steps[c, b])
        assert all(found[pair] <= one_step ** steps[pair] for pair in PAIRS if steps[pair] < 99)
        # Never more than under "full": what is saved is less noise for the same epsilon.
        full = Geometric().certify(
            replace(
                plan,
                domains=domains(FLAT, cuts[0]),
                pools=Pools(np.array([2]), np.array([2]), np.array([0], np.int32)),
                pool_class=np.zeros(1, np.int32),
                secondary=tuple(
                    Table(np.array([2]), np.array([0], np.int32), domains(FLAT, one)) for one in cuts[1:]
                ),
            )
        )
        of_tables = zip(map(noise_loss, plan.parameters.ratios), cuts, strict=True)  # type: ignore[attr-defined]
        assert guarantee.epsilon <= full.epsilon == sum(loss for loss, own in of_tables if own != (0,))
        assert (guarantee.epsilon == full.epsilon) or len(cuts) > 1, "a flat histogram saves nothing"
        if guarantee.epsilon < full.epsilon:
            saved.add((len(edges), len(cuts)))
    assert len(saved) >= 5


ALL = tuple(itertools.product(range(BLOCKS), repeat=2))
FLAT = Policy("full", np.zeros(1, np.int32))


def test_an_edge_that_is_left_out_is_found_out() -> None:
    """Planted: a reach without the longest edge certifies less than neighbours may lose."""
    cuts: list[tuple[int, ...]] = [(0, 2), (0, 3)]
    path: Edges = frozenset((i, i + 1) for i in range(BLOCKS - 1))
    edges = path | {(1, 3)}
    for known, wrong in ((edges, False), (path, True)):
        plan = plan_of(policy_of(known), cuts)
        odds = exp_up(Geometric().certify(plan).epsilon)
        assert (max(largest_odds(plan, cuts, *pair) for pair in edges) > odds) == wrong


def test_a_longer_distance_implies_shorter_ones_between_the_same_places() -> None:
    rising = ["full", "distance 16:ab", "distance 47/3:ab", "distance 1.5:ab"]
    for (i, one), (j, other) in itertools.product(enumerate(rising), repeat=2):
        assert implies(one, other) == (i <= j)
    for one in rising[1:]:
        for other in ("distance 1:ac", "parts st:1"):
            assert not implies(one, other)
        assert not implies("parts st:1", one)
