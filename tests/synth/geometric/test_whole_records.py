"""More than homes: tables of workplaces, then tables of homes whose groups follow from their noisy counts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from synth.geometric.measured import MeasuredTable
from synth.geometric.mechanism import Geometric, noise_loss, presence_loss
from synth.geometric.parameters import GeometricParameters
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.policy import FULL, Policy
from synth.tails import exp_up

from ..noise_reference import largest_ratio

MECHANISM = Geometric()
ANY = RecordRange(Fraction(4, 5), Fraction(5, 4))
RECORD = Target(Fraction(2), Fraction(0), record_range=ANY, protects="record")
SECRET = Policy("attribute pay:0", FULL.parts, secret={"pay": ("low", "high")})
KINDS = pytest.mark.parametrize("policy", [FULL, SECRET], ids=["whole records", "home and category"])
Record = tuple[int, int, int]  # work area, category, home
RECORDS: list[Record] = [*itertools.product(range(2), range(2), range(2))]
ROOM = range(-1, 3)  # noisy counts of workplaces that are looked at

# What a table may tell of a record: the cell that it is in.
WORKPLACES: list[Callable[[Record], object]] = [
    lambda r: "everybody",
    lambda r: r[0],
    lambda r: r[1],
    lambda r: r[:2],
]
HOMES: list[Callable[[Record], object]] = [
    lambda r: r[2],
    lambda r: (r[0], r[2]),
    lambda r: r,
    lambda r: r[:2],
]


def target_of(policy: Policy) -> Target:
    return Target(Fraction(2), Fraction(0)) if policy.secret else RECORD


def table(cells: int, jobs: int = 8, policy: Policy = FULL) -> Table:
    """A table of one group."""
    offsets, cuts = np.array([0, cells]), np.arange(cells, dtype=np.int32)
    domains = Domains(cells, offsets, cuts, np.zeros(cells, np.uint8), policy)
    return Table(np.array([jobs]), np.array([0], np.int32), domains)


def measured(cells: int, p: Fraction) -> MeasuredTable:
    one = table(cells)
    return MeasuredTable(one.n, one.domain, one.domains, GeometricParameters(p.numerator, p.denominator))


def plan_of(
    workplaces: list[tuple[int, Fraction]], homes: list[tuple[int, Fraction]], policy: Policy = FULL
) -> Plan:
    """A plan with these numbers of cells and ratios."""
    first, *others = [table(cells, policy=policy) for cells, _ in homes]
    (p, *more) = [GeometricParameters(q.numerator, q.denominator) for _, q in homes]
    return Plan(
        "geometric",
        target_of(policy),
        Pools(first.n, first.n, first.domain),
        first.domains,
        np.zeros(1, np.int32),
        GeometricParameters(p.numerator, p.denominator, tuple(more)),
        tuple(others),
        tuple(measured(cells, q) for cells, q in workplaces),
    )


def factors(
    record: Record | None,
    other: Record | None,
    workplaces: list[tuple[Callable[[Record], object], Fraction]],
    homes: list[tuple[Callable[[Record], object], Fraction]],
    least: int,
) -> Iterator[Fraction]:
    """Yield the largest ratios of probabilities of noisy counts, for each of some counts of workplaces.

    Of tables of homes only records are counted whose work area and category have a slot: the noisy count of
    the last table of workplaces there is `least` or more.
    """
    every = [sorted({of(r) for r in RECORDS}, key=repr) for of, _ in workplaces]
    cells = [(k, cell) for k, names in enumerate(every) for cell in names]
    for counts in itertools.product(ROOM, repeat=len(cells)):
        noisy = dict(zip(cells, counts, strict=True))
        factor = Fraction(1)
        for (k, cell), y in noisy.items():
            of, p = workplaces[k]
            x, z = (int(r is not None and of(r) == cell) for r in (record, other))
            factor *= p ** (abs(y - x) - abs(y - z))
        last = len(workplaces) - 1

        def has_slot(r: Record | None, noisy: dict[tuple[int, object], int] = noisy, k: int = last) -> bool:
            return r is not None and noisy[k, workplaces[k][0](r)] >= least

        for of, p in homes:
            x, z = (of(r) if r is not None and has_slot(r) else None for r in (record, other))
            if x != z:
                factor *= math.prod(
                    largest_ratio(a, b, p) for cell, a, b in ((x, 1, 0), (z, 0, 1)) if cell is not None
                )
        yield factor


@KINDS
@pytest.mark.parametrize("seed", [43, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(13))])
def test_no_output_tells_neighbours_further_apart_than_is_certified(seed: int, policy: Policy) -> None:
    """Pairs of records, and one record more or less, of random plans; most reach what is certified.

    Where homes and categories are protected, neighbours have the same workplace, and numbers are public.
    """
    random, near, of_work = Random(seed), [], WORKPLACES[2:] if policy.secret else WORKPLACES
    pairs_of = [(a, b) for a, b in itertools.permutations(RECORDS, 2) if not policy.secret or a[0] == b[0]]
    furthest = (RECORDS[0], RECORDS[3] if policy.secret else RECORDS[-1])
    for _ in range(300):
        workplaces = [(of, Fraction(1, random.randint(2, 9))) for of in random.sample(of_work, 1)]
        if len({workplaces[0][0](r) for r in RECORDS}) < 3 and random.random() < 0.5:
            workplaces.insert(0, (WORKPLACES[0], Fraction(2, 3)))
        homes = [(of, Fraction(1, random.randint(2, 9))) for of in random.sample(HOMES, random.randint(1, 2))]
        sizes = [[(len({of(r) for r in RECORDS}), p) for of, p in tables] for tables in (workplaces, homes)]
        guarantee = MECHANISM.certify(plan_of(*sizes, policy))
        pairs = [*random.sample(pairs_of, 3), furthest]
        least = random.choice([1, min(ROOM)])  # only some slots are there, or all are
        of_pairs = max(max(factors(*pair, workplaces, homes, least)) for pair in pairs)
        assert of_pairs <= exp_up(guarantee.epsilon)
        near.append(math.log(of_pairs) / float(guarantee.epsilon))
        assert (guarantee.presence is None) == bool(policy.secret)
        if guarantee.presence is None:
            continue
        for one_more in ((None, RECORDS[0]), (RECORDS[-1], None)):
            of_presence = max(factors(*one_more, workplaces, homes, least))
            assert of_presence <= exp_up(guarantee.presence.epsilon)
        assert math.log(of_presence) > float(guarantee.presence.epsilon) - 1e-9
    assert np.median(near) > 0.7  # a table of everybody, say, tells nothing of another record


@KINDS
def test_every_table_has_its_share_and_counts_fully(policy: Policy) -> None:
    """Also one with one cell a group, which tells nothing of homes but counts whole records."""
    pools = Pools(np.array([5, 3]), np.array([5, 3]), np.array([0, 0], np.int32))
    shares = [Fraction(1, 10), Fraction(1, 5)]
    plan = MECHANISM.calibrate(
        pools,
        table(1, policy=policy).domains,
        (Fraction(1),),
        target_of(policy),
        secondary=[(table(4, policy=policy), Fraction(3, 10))],
        workplaces=[(table(cells), share) for cells, share in zip((3, 12), shares, strict=True)],
    )
    guarantee = MECHANISM.certify(plan)
    ratios = [*plan.parameters.ratios, *(t.parameters.ratio for t in plan.workplaces)]  # type: ignore[attr-defined]
    assert [row.epsilon for row in guarantee.classes] == [*map(noise_loss, ratios)]
    for row, share in zip(guarantee.classes, (Fraction(2, 5), Fraction(3, 10), *shares), strict=True):
        assert 2 * share - Fraction(1, 10**15) < row.epsilon <= 2 * share
    assert guarantee.epsilon == sum(map(noise_loss, ratios)) <= 2
    presence = guarantee.presence and guarantee.presence.epsilon
    assert presence == (None if policy.secret else sum(map(presence_loss, ratios)))
    assert guarantee.meets(plan)


def test_workplaces_are_measured_where_more_than_homes_is_protected_and_only_there() -> None:
    with pytest.raises(ValueError, match="only where their number is"):
        Target(Fraction(2), Fraction(0), protects="record")
    with pytest.raises(ValueError, match='"home" or "record" must be protected'):
        Target(Fraction(2), Fraction(0), protects="worker")  # type: ignore[arg-type]
    plan = plan_of([(2, Fraction(1, 2))], [(2, Fraction(1, 2))])
    target = Target(Fraction(2), Fraction(0), record_range=ANY)
    with pytest.raises(ValueError, match="only where more than homes is protected"):
        Plan(
            plan.mechanism,
            target,
            plan.pools,
            plan.domains,
            plan.pool_class,
            plan.parameters,
            (),
            plan.workplaces,
        )
    secret = plan_of([(2, Fraction(1, 2))], [(2, Fraction(1, 2))], SECRET)
    with pytest.raises(ValueError, match="secret attributes must be measured before homes"):
        replace(secret, workplaces=())
    with pytest.raises(ValueError, match="go with no secret attributes"):
        replace(secret, target=target)
