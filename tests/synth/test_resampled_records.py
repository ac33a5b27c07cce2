"""Whole records whose homes are resampled, exactly: noisy counts of workplaces, lots, filling up and urns.

Two pools whose numbers of records are measured with noise; how many draws each has follows from its noisy
count. All outputs of all small inputs are compared with what is certified, for a record that is another,
also in the other pool, and for one record more or less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from statistics import median

import numpy as np
import pytest

from synth.dirichlet.losses import PoolClass
from synth.dirichlet.mechanism import Dirichlet
from synth.dirichlet.parameters import DirichletParameters
from synth.geometric.measured import MeasuredTable
from synth.geometric.mechanism import noise_loss
from synth.geometric.parameters import GeometricParameters
from synth.mechanism import Guarantee
from synth.plan import Domains, Plan, Pools, RecordRange, Target
from synth.policy import FULL, Policy
from synth.tails import exp_up

from .noise_reference import mass
from .noise_reference import neighbours as moved
from .reference import Histogram, Urn, histograms
from .test_presence import Ranged, more_or_fewer

MECHANISM = Dirichlet()
RANGE = RecordRange(Fraction(1, 2), Fraction(3, 2))
SLOTS = (1, 3)  # of a pool
PALETTE = [Fraction(1, 4), Fraction(1), Fraction(3)]
LARGEST = 3  # noisy counts above this are looked at together, and so are those below 0
Numbers = np.ndarray[tuple[int], np.dtype[np.object_]]  # of exact numbers


def plan_of(prior: tuple[int, ...], gains: tuple[Fraction, ...], p: Fraction, epsilon: str) -> Plan:
    """A plan with a class for each number of slots, cells of retention 1, and one table of workplaces."""
    cells, n = len(prior), np.array(SLOTS)
    domains = Domains(cells, np.array([0, cells]), np.arange(cells), np.arange(cells).astype(np.uint8))
    fewest, most = RANGE.limits(n)
    ones, strata = (1,) * cells, (Fraction(1),) * cells
    classes = tuple(
        PoolClass(low, high, m, ones, ones, ones, gain, prior, strata, 4)
        for low, high, m, gain in zip(fewest.tolist(), most.tolist(), SLOTS, gains, strict=True)
    )
    counted = Domains(2, np.array([0, 2]), np.arange(2), np.zeros(2, np.uint8))
    noise = GeometricParameters(p.numerator, p.denominator)
    return Plan(
        "dirichlet",
        Target(epsilon, "1/100", record_range=RANGE, protects="record"),
        Pools(n, n, np.zeros(2, np.int32)),
        domains,
        np.arange(2, dtype=np.int32),
        DirichletParameters(classes, 2),
        workplaces=(MeasuredTable(np.array([3]), np.zeros(1, np.int32), counted, noise),),
    )


def small_plans(random: Random, count: int) -> Iterator[tuple[Plan, tuple[Fraction, ...], Fraction]]:
    for _ in range(count):
        prior = tuple(random.choice(PALETTE) for _ in range(2))
        gains = tuple(random.choice([Fraction(9, 5), Fraction(3), Fraction(20)]) for _ in SLOTS)
        p = Fraction(1, random.randint(2, 4))
        whole = tuple(int(4 * a) for a in prior)
        yield plan_of(whole, gains, p, random.choice(["5", "8"])), prior, p


def slots_of(noisy: int) -> int:
    return SLOTS[noisy >= 2]


def noise_of(records: int, p: Fraction) -> dict[int, Fraction]:
    """P(noisy count), those below 0 and above LARGEST taken together."""
    inside = {y: mass(y - records, p) for y in range(LARGEST + 1)}
    below = p ** (records + 1) / (1 + p)
    return {-1: below, **inside, LARGEST + 1: 1 - below - sum(inside.values())}


class Released:
    """What a pool may release, with its noisy count, for every histogram of up to so many records."""

    def __init__(self, prior: tuple[Fraction, ...], p: Fraction, records: int) -> None:
        fewest, most = RANGE.limits(np.array(SLOTS))
        retention = (Fraction(1),) * len(prior)
        pools = [
            Ranged(Urn(high, m, prior, retention), low, high)
            for low, high, m in zip(fewest.tolist(), most.tolist(), SLOTS, strict=True)
        ]
        self.inputs = [h for n in range(records + 1) for h in histograms(n, len(prior))]
        self.of: dict[Histogram, Numbers] = {}
        for h in self.inputs:
            of_slots = {pool.urn.m: pool.whole(h) for pool in pools}
            chances = [
                chance * share
                for noisy, chance in noise_of(sum(h), p).items()
                for share in of_slots[slots_of(noisy)].values()
            ]
            assert sum(chances) == 1
            self.of[h] = np.array(chances, object)

    def pairs(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield the outputs of both pools for each two inputs that differ in one whole record."""
        for h in self.inputs:
            fewer = [other for other in more_or_fewer(h) if sum(other) < sum(h)]
            for k in self.inputs:
                more = [other for other in more_or_fewer(k) if sum(other) > sum(k) and other in self.of]
                for left, entered in itertools.product(fewer, more):
                    yield self.together(h, k), self.together(left, entered)
            for left, there in itertools.product(fewer, self.inputs):
                for back in more_or_fewer(left):
                    if sum(back) == sum(h) and back != h:
                        yield self.together(h, there), self.together(back, there)

    def inside(self) -> Iterator[tuple[Numbers, list[Numbers]]]:
        """Yield the outputs of inputs whose pools need no lots, and those of such neighbours."""
        _, (most, *_) = RANGE.limits(np.array(SLOTS))
        pools = [h for h in self.inputs if 1 <= sum(h) <= most]
        every = list(itertools.product(pools, pools))
        for pair in every:
            others = [other for other in every if other != pair and is_one_record(pair, other)]
            yield self.together(*pair), [self.together(*other) for other in others]

    def one_more(self) -> Iterator[tuple[Numbers, Numbers]]:
        """The same of one pool for one record more or less; the other pool is as before."""
        for h in self.inputs:
            for other in more_or_fewer(h):
                if other in self.of:
                    yield self.of[h], self.of[other]

    def together(self, h: Histogram, k: Histogram) -> Numbers:
        return np.outer(self.of[h], self.of[k]).ravel()


def test_a_record_changes_two_pools_also_where_no_workplaces_are_measured() -> None:
    plan = plan_of((4, 4), (Fraction(3), Fraction(3)), Fraction(1, 3), "8")
    with_noise, without = (MECHANISM.certify(each) for each in (plan, replace(plan, workplaces=())))
    noise = noise_loss(Fraction(1, 3))
    assert with_noise.epsilon == without.epsilon + noise
    assert without.epsilon == 2 * max(row.epsilon for row in without.classes)


def is_one_record(pair: tuple[Histogram, Histogram], other: tuple[Histogram, Histogram]) -> bool:
    """Say whether two inputs differ in one whole record, or in whether it is there."""
    changes = [b - a for h, k in zip(pair, other, strict=True) for a, b in zip(h, k, strict=True)]
    return sum(map(abs, changes)) <= 2 and abs(sum(changes)) <= 1


def lost(one: Numbers, other: Numbers, odds: Fraction) -> Fraction:
    """The divergence of two distributions."""
    return sum((a - odds * b for a, b in zip(one, other, strict=True) if a > odds * b), Fraction(0))


def check(guarantee: Guarantee, released: Released) -> tuple[int, float]:
    """Compare a guarantee with every pair; return their number, and which part of pure epsilon is lost."""
    presence = guarantee.presence
    assert presence is not None
    curve = [(exp_up(epsilon), delta) for epsilon, delta in guarantee.curve]
    alone = exp_up(presence.record_epsilon), presence.record_delta
    pairs, worst = 0, Fraction(0)
    for one, other in released.pairs():
        pairs += 1
        largest = max(a / b for a, b in zip(one, other, strict=True))
        worst = max(worst, largest)
        assert largest <= curve[-1][0]
        for odds, delta in curve:
            assert largest <= odds or lost(one, other, odds) <= delta
    for one, other in released.one_more():
        assert lost(one, other, alone[0]) <= alone[1]
    return pairs, math.log(worst) / float(guarantee.curve[-1][0])


def failure(released: Released, epsilon: Fraction) -> Fraction:
    """Return how likely at most an input gives outputs that lose more than epsilon, against any neighbour."""
    odds, worst = exp_up(epsilon), Fraction(0)
    for one, others in released.inside():
        bad = np.zeros(one.size, bool)
        for other in others:
            bad |= (one > odds * other) | (other > odds * one)
        worst = max(worst, sum(one[bad], Fraction(0)))
    return worst


@pytest.mark.parametrize("seed", [44, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(12))])
def test_no_small_plan_loses_more_than_is_certified(seed: int) -> None:
    random, reached = Random(seed), list[float]()
    daily = seed == 44
    for plan, prior, p in small_plans(random, 4 if daily else 250):
        guarantee = MECHANISM.certify(plan).tightened()
        released = Released(prior, p, 2 if daily else 3)
        pairs, near = check(guarantee, released)
        assert failure(released, guarantee.epsilon) <= guarantee.delta
        assert failure(released, guarantee.epsilon / 3) > 0
        assert pairs > 50
        reached.append(near)
    assert median(reached) > 0.5, "the bound is far from the truth"


# --- homes with a secret category: noisy counts of categories, and an urn of a public number of records

SECRET = Policy("attribute pay:0", FULL.parts, secret={"pay": ("low", "high")})


def secret_plan(prior: tuple[int, ...], gain: Fraction, p: Fraction, n: int) -> Plan:
    """A plan of a pool of n records, whose categories are counted with noise."""
    cells, ones, strata = len(prior), (1,) * len(prior), (Fraction(1),) * len(prior)
    domains = Domains(
        cells, np.array([0, cells]), np.arange(cells), np.arange(cells).astype(np.uint8), SECRET
    )
    only = PoolClass(n, n, n, ones, ones, ones, gain, prior, strata, 4)
    counted = Domains(2, np.array([0, 2]), np.arange(2), np.zeros(2, np.uint8))
    noise = GeometricParameters(p.numerator, p.denominator)
    return Plan(
        "dirichlet",
        Target("6", "1/100"),
        Pools([n], [n], [0]),
        domains,
        np.zeros(1, np.int32),
        DirichletParameters((only,)),
        workplaces=(MeasuredTable(np.array([n]), np.zeros(1, np.int32), counted, noise),),
    )


def check_secret(guarantee: Guarantee, urn: Urn, p: Fraction) -> float:
    """Compare a guarantee with every other home and category of a record; return what part of it is lost."""
    released: dict[Histogram, Numbers] = {}
    for low in range(urn.n + 1):
        for first, second in itertools.product(histograms(low, urn.k), histograms(urn.n - low, urn.k)):
            homes = tuple(a + b for a, b in zip(first, second, strict=True))
            counts = [np.array([*noise_of(x, p).values()], object) for x in (low, urn.n - low)]
            drawn = np.array([*urn.distribution(homes).values()], object)
            released[(*first, *second)] = np.outer(np.outer(*counts), drawn).ravel()
    curve = [(exp_up(epsilon), delta) for epsilon, delta in guarantee.curve]
    odds, worst = exp_up(guarantee.epsilon), Fraction(0)
    for h, one in released.items():
        others = [released[h2] for h2 in moved(h)]
        bad = np.zeros(one.size, bool)
        for other in others:
            worst = max(worst, *(a / b for a, b in zip(one, other, strict=True)))
            assert all(lost(one, other, factor) <= delta for factor, delta in curve)
            bad |= (one > odds * other) | (other > odds * one)
        assert sum(one[bad], Fraction(0)) <= guarantee.delta
    return math.log(worst) / float(guarantee.curve[-1][0])


@pytest.mark.parametrize("seed", [45, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4))])
def test_no_home_with_a_secret_category_loses_more_than_is_certified(seed: int) -> None:
    random, reached = Random(seed), list[float]()
    for _ in range(25 if seed == 45 else 500):
        prior, n = tuple(random.choice(PALETTE) for _ in range(2)), random.randint(1, 3)
        gain, p = (
            random.choice([Fraction(9, 5), Fraction(3), Fraction(20)]),
            Fraction(1, random.randint(2, 4)),
        )
        guarantee = MECHANISM.certify(secret_plan(tuple(int(4 * a) for a in prior), gain, p, n)).tightened()
        assert guarantee.presence is None
        reached.append(check_secret(guarantee, Urn(n, n, prior, (Fraction(1),) * 2), p))
    assert median(reached) > 0.5, "the bound is far from the truth"
