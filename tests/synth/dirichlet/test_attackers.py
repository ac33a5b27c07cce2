"""Attackers with less than all knowledge: bounds against every output of small pools, and against draws.

The benchmark's simulated attackers (`benchmarks/attackers.py`) are here with fewer runs.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import flint
import numpy as np
import pytest

import synth
from helpers import ROOT, load
from synth.dirichlet import attackers
from synth.dirichlet.attackers import KNOWLEDGE, Attackers, best_share, largest_change, largest_changes
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.parameters import DirichletParameters
from synth.dirichlet.record import pure_gain
from synth.tails import fraction, rational, rigorous, upper_fraction

from ..grid import class_of
from ..reference import Histogram, Urn, histograms, multinomial, rising

benchmark: Any = load("benchmarks/attackers.py")
NOBODY = Fraction(1, 10**8)  # the weight of a belief that nobody lives in a cell, about
Q = 30
F = Fraction


@cache
def distribution(urn: Urn, workers: Histogram) -> list[flint.fmpq]:
    return [rational(p) for p in urn.distribution(workers).values()]


def released(
    urn: Urn, belief: tuple[Fraction, ...], known: Histogram, home: int, *, there: bool
) -> list[flint.fmpq]:
    """P(output) as somebody sees it who takes the job's home to be in a cell: with the job, or without."""
    total = [flint.fmpq(0)] * len(distribution(urn, (urn.n, *[0] * (urn.k - 1))))
    pool = replace(urn, n=urn.n if there else urn.n - 1)
    after = [b + y + (c == home) for c, (b, y) in enumerate(zip(belief, known, strict=True))]
    unknown = urn.n - 1 - sum(known)
    for others in histograms(unknown, urn.k):
        ways = multinomial(others) * math.prod(rising(b, x) for b, x in zip(after, others, strict=True))
        share = rational(ways / rising(sum(after), unknown))
        workers = (x + y + (there and c == home) for c, (x, y) in enumerate(zip(others, known, strict=True)))
        total = [x + share * p for x, p in zip(total, distribution(pool, tuple(workers)), strict=True)]
    return total


@cache
def change(urn: Urn, belief: tuple[Fraction, ...], known: Histogram) -> Fraction:
    """The largest change of odds of any two homes by any output, by the definition."""
    with_job, without = (
        [released(urn, belief, known, home, there=there) for home in range(urn.k)] for there in (True, False)
    )
    return max(
        fraction(with_job[i][s] * without[j][s] / (without[i][s] * with_job[j][s]))
        for s in range(len(without[0]))
        for i, j in itertools.permutations(range(urn.k), 2)
    )


def bound(pool_class: PoolClass, who: Attackers) -> Fraction:
    with rigorous() as balls:
        return upper_fraction(largest_change(pool_class, who, balls))


def beliefs(urn: Urn, stubbornness: Fraction | None) -> list[tuple[Fraction, ...]]:
    """Beliefs of a class, among them some near to the worst: that nobody lives in a cell."""
    found = []
    for nobody in range(urn.k):
        if stubbornness is None:
            found.append(tuple(NOBODY if c == nobody else a for c, a in enumerate(urn.prior)))
        else:
            one = [NOBODY] * urn.k
            one[nobody - 1] = stubbornness - (urn.k - 1) * NOBODY
            found += [tuple(one), (stubbornness / urn.k,) * urn.k]
    return found


URNS = [
    Urn(n, m, tuple(a for a, _ in cells), tuple(f for _, f in cells))
    for (n, m), cells in [
        ((2, 3), [(F(1, 2), F(1))] * 2),
        ((2, 3), [(F(1, 10), F(1, 2))] * 3),
        ((3, 2), [(F(1, 2), F(1))] * 3),
        ((3, 3), [(F(2), F(1, 2)), (F(1, 3), F(1))]),
        ((3, 2), [(F(1), F(1, 4)), (F(1, 2), F(1)), (F(1, 2), F(1))]),
        ((4, 4), [(F(1, 5), F(1))] * 2),
        ((4, 2), [(F(1, 5), F(1)), (F(2), F(1)), (F(2), F(1))]),
        ((5, 3), [(F(1, 10), F(1, 2))] * 2),
    ]
]


def test_no_output_of_a_small_pool_tells_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a factor is said to be exact, some belief comes as near to it as its numbers allow."""
    exact = 0
    for urn, (knowledge, sure) in itertools.product(
        URNS, itertools.product(KNOWLEDGE, (None, F(1, 2), F(3)))
    ):
        who = Attackers(knowledge, sure)
        pool_class = class_of(urn, F(2), denominator=Q)
        largest = bound(pool_class, who)
        monkeypatch.setattr(attackers, "_SMALL", 0)  # as in large pools
        assert largest <= bound(pool_class, who)
        monkeypatch.undo()
        worst = max(
            change(urn, belief, known)
            for belief in beliefs(urn, sure)
            for known in histograms(who.known(urn.n), urn.k)
        )
        assert worst <= largest, (urn, who)
        if attackers._exact(pool_class, who):
            exact += 1
            assert worst > largest * (1 - F(1, 10**5)), (urn, who)
    assert exact > 20


def test_a_class_is_bounded_by_its_worst_pool() -> None:
    for prior, retention in ((6, F(1)), (6, F(1, 2))):
        wide = PoolClass(
            1, 40, 50, (9,), (7,), (7 if retention == 1 else 0,), F(2), (prior,), (retention,), Q
        )
        for knowledge, sure in itertools.product(KNOWLEDGE, (None, F(1, 10), F(5))):
            who = Attackers(knowledge, sure)
            largest = bound(wide, who)
            for n, m, k in ((1, 50, 9), (2, 1, 7), (3, 50, 9), (20, 50, 8), (40, 2, 7)):
                one = replace(wide, n_min=n, n_max=n, m_max=m, cells=(k,), cells_min=(k,), kept=(0,))
                assert bound(one, who) <= largest


def test_who_knows_more_or_is_surer_gains_more_up_to_pure_epsilon() -> None:
    for size in (12, 4_000):
        pool_class = PoolClass(size, size, size, (40,), (40,), (40,), F(2), (15,), (F(1),), Q)
        with rigorous() as balls:
            pure = upper_fraction(pure_gain(pool_class, balls))
        levels = [None, F(20), F(10**3), F(10**9)]  # the noise of all cells but one is 19.5
        gains = [
            [bound(pool_class, Attackers(knowledge, sure)) for sure in levels]
            for knowledge in reversed(KNOWLEDGE)
        ]
        assert gains[-1] == [pure] * 4
        for row in [*gains, *map(list, zip(*gains, strict=True))]:
            assert row == sorted(row)
        assert all(pure * F(99, 100) < row[-1] <= pure for row in gains)
        assert gains[0][0] < 4 < pure / 4


def test_large_pools_have_the_formula_of_the_lemma() -> None:
    """1 + (S + b + m)/(u + a), where no belief is above the noise of its cell."""
    n, k, a = 2_000, 30, F(15, Q)
    pool_class = PoolClass(n, n, n, (k,), (k,), (k,), F(2), (15,), (F(1),), Q)
    for knowledge in list(KNOWLEDGE)[1:]:
        who = Attackers(knowledge)
        known, unknown = who.known(n), who.unknown(n)
        formula = 1 + ((k - 1) * a + known + n) / (unknown + a)
        assert 0 <= bound(pool_class, who) - formula < F(1, 10**40)


@pytest.mark.parametrize("n", [40, 3_000])
def test_cells_with_larger_priors_tell_no_more_of_a_large_pool(n: int) -> None:
    """They are left out, so what they would tell is looked at here."""
    cells, prior = (20, 2, 3), (1, 120, 15)
    pool_class = PoolClass(n, n, n, cells, cells, cells, F(200), prior, (F(1),) * 3, Q)
    asked = [attackers._Cells(k, flint.fmpq(a, Q), flint.fmpq(1)) for k, a in zip(cells, prior, strict=True)]
    present = attackers._Present.of(asked)
    for who in (Attackers(knowledge, sure) for knowledge in list(KNOWLEDGE)[1:] for sure in (None, F(50))):
        with rigorous() as balls:
            gains = [balls.number(1)]
            for one in asked:
                others = attackers._Others.of(pool_class, present, one, who)
                gains.append(attackers._gain(pool_class, one, others, gains[0], balls))
            every = upper_fraction(max(gains, key=balls.lower))
            assert abs(every - bound(pool_class, who)) < F(1, 10**40)
            assert len(set(map(balls.lower, gains))) > 2  # or nothing would be compared


@pytest.mark.parametrize("retention", [F(1), F(1, 2)])
def test_the_most_of_several_classes_is_that_of_one_of_them(retention: Fraction) -> None:
    """Classes that cannot gain more are left out; what is left is the same, and the first that has it."""
    n = np.array([1, 2, 2, 3, 8, 15, 40, 41, 60, 400])
    cells = np.arange(12, dtype=np.int32)
    domains = synth.Domains(12, np.array([0, 12]), cells, np.zeros(12, np.uint8))
    pools = synth.Pools(n, n, np.zeros(n.size, np.int32))
    plan = synth.MECHANISMS["dirichlet"].calibrate(
        pools, domains, (retention,), synth.Target(F(8), F(1, 1000))
    )
    assert isinstance(plan.parameters, DirichletParameters)
    classes = [plan.parameters.classes[i] for i in plan.pool_class]
    everybody = [Attackers(knowledge, sure) for knowledge in KNOWLEDGE for sure in (None, F(1), F(100))]
    for who in everybody:
        with rigorous() as balls:
            each = [upper_fraction(largest_change(c, who, balls)) for c in classes]
        for some in (n > 0, n > 1, n < 40, n == 41):
            [change] = largest_changes(plan, [who], some)
            [first] = largest_changes(plan, [who], np.arange(n.size) == each.index(max(np.array(each)[some])))
            assert change.odds == max(np.array(each)[some])
            assert change.exact == first.exact
    assert attackers.some_exact(plan, everybody) == (retention == 1)


def test_where_there_is_one_cell_there_is_nothing_to_learn() -> None:
    one = PoolClass(3, 3, 3, (1,), (1,), (1,), F(2), (15,), (F(1),), Q)
    assert bound(one, Attackers("all but one job")) == 1


CASES = {case.name: case for case in benchmark.cases()}


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("4 jobs:")])
def test_simulated_attackers_find_what_their_class_may_and_stronger_ones_more(name: str) -> None:
    case = CASES[name]
    bounded, found = case.bound, case.found(50_000, seed=1)
    assert (found > bounded) == case.stronger
    assert found > 1 + (bounded - 1) / 10, "an attacker who finds nothing shows nothing"


def test_the_page_has_every_case_as_expected() -> None:
    page = (ROOT / "benchmarks" / "attackers.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (.+?) \|.*\| (yes|no) \|$", page, re.MULTILINE))
    assert rows == {name: "yes" if case.stronger else "no" for name, case in CASES.items()}


def test_shares_of_correct_guesses() -> None:
    assert best_share(F(1), 10) == F(1, 10)
    assert best_share(F(9), 10) == F(1, 2)
    assert best_share(F(7), 1) == 1


def test_what_has_no_bound_is_refused() -> None:
    plan = benchmark.plan_of(4, 3, "2.4")
    who = Attackers("one co-worker")
    ranged = replace(plan, target=replace(plan.target, record_range=synth.RecordRange(F(1, 2), F(2))))
    noisy = synth.MECHANISMS["geometric"].calibrate(
        plan.pools, plan.domains, (F(1),), synth.Target(F(2), F(0))
    )
    for other in (ranged, noisy):
        with pytest.raises(ValueError, match="whose numbers of jobs are public"):
            largest_changes(other, [who])
    outside = replace(plan, pools=replace(plan.pools, m=np.array([9])))
    with pytest.raises(ValueError, match="outside the limits of their class"):
        largest_changes(outside, [who])
    with pytest.raises(ValueError, match="is one of all but one job, a random half"):
        Attackers("everything")
    with pytest.raises(ValueError, match="must be positive"):
        Attackers("one co-worker", F(0))
