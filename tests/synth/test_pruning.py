"""The pruning loss: the integral against the definition in fractions, the closed bound against both."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.pruning import exact_pruning_gain, pruning_gain
from synth.tails import FLOAT, rigorous, upper_fraction

from . import reference
from .builders import make_class
from .reference import Histogram, Urn, rising

CLOSE = 1 + Fraction(1, 2**18)
Q = 20 * 19 * 18 * 17 * 16 * 15 * 14 * 13 * 12 * 11

fractions_of_one = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(3, 10)])
priors = st.fractions(Fraction(1, 20), 6, max_denominator=20)
strata_of_cells = st.lists(
    st.tuples(priors, fractions_of_one, st.integers(1, 60)), min_size=1, max_size=3
).filter(lambda strata: sum(k for _, _, k in strata) > 1)


def certain(retention: tuple[Fraction, ...], cells: tuple[int, ...]) -> tuple[int, ...]:
    """The cells that are in every urn, by stratum."""
    return tuple(k if f == 1 else 0 for f, k in zip(retention, cells, strict=True))


def coin_factor(urn: Urn, h: Histogram, drawn: frozenset[int]) -> Fraction:
    """D(h): the expectation of 1/rising(W, m) over the coins of the empty cells that were not drawn."""
    total = Fraction(0)
    free = [c for c in range(urn.k) if not h[c] and c not in drawn]
    for kept in itertools.product((False, True), repeat=len(free)):
        chance = Fraction(1)
        weight = urn.n + sum(a for c, a in enumerate(urn.prior) if c not in free)
        for c, is_kept in zip(free, kept, strict=True):
            chance *= urn.retention[c] if is_kept else 1 - urn.retention[c]
            weight += urn.prior[c] if is_kept else 0
        total += chance / rising(Fraction(weight), urn.m)
    return total


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.lists(st.tuples(priors, fractions_of_one), min_size=2, max_size=4),
)
def test_the_integral_is_the_largest_ratio_there_is(
    n: int, m: int, cells: list[tuple[Fraction, Fraction]]
) -> None:
    urn = Urn(n, m, *zip(*cells, strict=True))  # type: ignore[arg-type]
    sizes = range(1, min(m, urn.k) + 1)
    drawn = [frozenset(s) for size in sizes for s in itertools.combinations(range(urn.k), size)]
    factor = {(h, s): coin_factor(urn, h, s) for h in urn.histograms() for s in drawn}
    true = max(factor[h, s] / factor[g, s] for h, s in factor for g in urn.neighbours(h))
    with rigorous():
        exact = exact_pruning_gain(n, m, [(a, f, 1) for a, f in cells])
        assert exact.rad() < 1e-9
        assert abs(exact - float(true)) < 1e-9
    assert (true == 1) == all(f == 1 for f in urn.retention)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), strata_of_cells)
def test_the_closed_bound_lies_between_the_exact_and_the_documents(
    n: int, m: int, strata: list[tuple[Fraction, Fraction, int]]
) -> None:
    a, f, k = zip(*strata, strict=True)
    c = make_class(n, n, m, k, Fraction(2), tuple(int(x * Q) for x in a), kept=certain(f, k))
    cells = tuple(prior for prior, _, count in strata for _ in range(count))
    kept = tuple(retention for _, retention, count in strata for _ in range(count))
    with rigorous() as balls:
        bound = pruning_gain(c, f, Q, balls)
        exact = exact_pruning_gain(n, m, strata)
        document = upper_fraction(balls.number(reference.pruning_gain(Urn(n, m, cells, kept), certain=True)))
        assert exact <= bound or (exact - bound).upper() < 1e-9  # equal where there are no coins to count on
        assert upper_fraction(bound) <= document * (1 + Fraction(1, 2**100))
        assert pruning_gain(c, f, Q, FLOAT) == pytest.approx(float(bound), rel=1e-9)


@pytest.mark.parametrize(
    ("n", "strata", "largest"),
    # the largest relative excess of V over the exact one that is allowed; looser is a defect
    [
        (20, [("1/20", "1/2", 200)], 0.01),
        (100, [("3/10", "1/2", 50)], 0.01),
        (100, [("2", "1/4", 30)], 0.02),
        (1000, [("1/2", "1", 30), ("1/2", "1/2", 30), ("1", "189/5000", 300)], 0.01),
        (1000, [("3", "189/5000", 2000)], 0.01),
    ],
)
def test_the_closed_bound_is_close(n: int, strata: list[tuple[str, str, int]], largest: float) -> None:
    exact_strata = [(Fraction(a), Fraction(f), k) for a, f, k in strata]
    a, f, k = zip(*exact_strata, strict=True)
    c = make_class(n, n, n, k, Fraction(2), tuple(int(x * Q) for x in a), kept=certain(f, k))
    with rigorous() as balls:
        exact = float(exact_pruning_gain(n, n, exact_strata).log())
        bound = float(pruning_gain(c, f, Q, balls).log())
        unknown = replace(c, cells_min=tuple(min(1, cells) for cells in k))
        alone = float(pruning_gain(unknown, f, Q, balls).log())
    assert exact < bound < exact * (1 + largest)
    assert alone > bound  # the cells that are counted on are what makes the difference


def test_large_pools_do_not_overflow() -> None:
    c = make_class(2_000_000, 2_000_000, 2_000_000, (1000,), Fraction(2), (50 * Q,))
    f = (Fraction(1, 4),)
    with rigorous() as balls:
        bound = pruning_gain(c, f, Q, balls)
        assert float(bound.log()) == pytest.approx(50 * 0.6931471805599453, rel=0.05)
    assert pruning_gain(c, f, Q, FLOAT) == pytest.approx(float(bound), rel=1e-4)


def test_a_class_bounds_each_of_its_pools() -> None:
    f = (Fraction(1), Fraction(1, 2))
    c = make_class(2, 9, 12, (3, 40), Fraction(2), (Q, Q // 2), cells_min=(0, 6))
    with rigorous() as balls:
        bound = pruning_gain(c, f, Q, balls)
        for n, m, sure, coins in itertools.product((2, 9), (1, 12), (0, 3), (6, 7, 40)):
            strata = [(Fraction(1), f[0], sure), (Fraction(1, 2), f[1], coins)]
            assert exact_pruning_gain(n, m, strata) < bound


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.lists(st.tuples(priors, fractions_of_one), min_size=1, max_size=4),
)
def test_without_coins_to_count_on_it_is_the_documents(
    n: int, m: int, strata: list[tuple[Fraction, Fraction]]
) -> None:
    urn = Urn(n, m, *zip(*strata, strict=True))  # type: ignore[arg-type]
    c = make_class(n, n, m, (1,) * urn.k, Fraction(2), tuple(int(a * Q) for a in urn.prior))
    assert all(Fraction(x, Q) == a for x, a in zip(c.prior, urn.prior, strict=True))
    true = reference.pruning_gain(urn)
    with rigorous() as balls:
        upper = upper_fraction(pruning_gain(c, urn.retention, Q, balls))
    assert true <= upper <= true * (1 + Fraction(1, 2**100))
    assert pruning_gain(c, urn.retention, Q, FLOAT) == pytest.approx(float(true), rel=1e-9)


def test_no_pruning_no_pruning_loss() -> None:
    c = make_class(3, 3, 5, (4, 2), Fraction(2), (7, 9))
    ones = (Fraction(1), Fraction(1))
    with rigorous() as balls:
        assert pruning_gain(c, ones, 10, balls) == 1
        # a stratum without cells has no coins either
        assert (
            pruning_gain(
                make_class(3, 3, 5, (4, 0), Fraction(2), (7, 9)), (*ones[:1], Fraction(1, 4)), 10, balls
            )
            == 1
        )
    assert pruning_gain(c, ones, 10, FLOAT) == 1


def test_pruning_gain_of_a_class_is_that_of_its_worst_member() -> None:
    c = make_class(2, 5, 6, (1, 1), Fraction(2), (5, 20))
    f = (Fraction(1, 2), Fraction(1, 4))
    with rigorous() as balls:
        upper = upper_fraction(pruning_gain(c, f, 10, balls))
    members = [Urn(n, m, (Fraction(1, 2), Fraction(2)), f) for n in range(2, 6) for m in range(1, 7)]
    assert max(map(reference.pruning_gain, members)) <= upper <= reference.pruning_gain(members[5]) * CLOSE
