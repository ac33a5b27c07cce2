"""The pruning loss against its definition in fractions, and against integrals by another method."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import cache

import flint
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.dirichlet import pruning
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.pruning import pruning_gain, quick_pruning_gain
from synth.tails import FLOAT, rigorous, upper_fraction

from .. import reference
from ..builders import make_class
from ..reference import Urn, rising

CLOSE = 1 + Fraction(1, 10**8)
Q = 20 * 19 * 18 * 17 * 16 * 15 * 14 * 13 * 12 * 11

fractions_of_one = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 4), Fraction(3, 10)])
priors = st.fractions(Fraction(1, 20), 6, max_denominator=20)
strata_of_cells = st.lists(
    st.tuples(priors, fractions_of_one, st.integers(1, 60)), min_size=1, max_size=3
).filter(lambda strata: sum(k for _, _, k in strata) > 1)

Strata = list[tuple[Fraction, Fraction, int]]


def of_strata(n: int, m: int, strata: Strata) -> PoolClass:
    """The class of one pool."""
    a, f, k = zip(*strata, strict=True)
    return make_class(n, n, m, k, Fraction(2), tuple(int(x * Q) for x in a), retention=f, denominator=Q)


def gains(n: int, m: int, strata: Strata) -> tuple[Fraction, float]:
    """The upper end of e^V of one pool, and what a search takes it to be."""
    pool_class = of_strata(n, m, strata)
    with rigorous() as balls:
        upper = upper_fraction(pruning_gain(pool_class, balls))
    return upper, pruning_gain(pool_class, FLOAT)


def integrated(n: int, m: int, strata: Strata) -> Fraction:
    """The upper end of e^V by Arb's integration."""
    with rigorous():
        return upper_fraction(integral_gain(n, m, strata))


def integral_gain(n: int, m: int, strata: Strata) -> flint.arb:
    """e^V by its definition, all pairs of strata, in x = exp(-t)."""
    worst = flint.arb(1)
    for (i, (a_i, _, k_i)), (j, (a_j, f_j, _)) in itertools.product(enumerate(strata), repeat=2):
        if f_j == 1 or (i == j and k_i == 1):
            continue
        others = [(a, f, k - (s == i) - (s == j)) for s, (a, f, k) in enumerate(strata)]
        base = n + a_i + sum(a * k for a, f, k in others if f == 1)
        coins = tuple(sorted(other for other in others if other[1] < 1 and other[2]))
        ratio = integral(Fraction(base), m, coins) / integral(base + a_j, m, coins)
        worst = worst.max(ball(f_j) + ball(1 - f_j) * ratio)
    return worst


@cache
def integral(mass: Fraction, m: int, strata: tuple[tuple[Fraction, Fraction, int], ...]) -> flint.arb:
    """Of x^(mass-1) (1-x)^(m-1) prod (1 - f + f x^a)^k over [0, 1]."""
    base, coins = ball(mass), [(ball(a), ball(f), k) for a, f, k in strata]

    def density(t: flint.acb, _: bool) -> flint.acb:
        value = (-base * t).exp() * (1 - (-t).exp()) ** (m - 1)
        for a, f, k in coins:
            value *= (1 - f + f * (-a * t).exp()) ** k
        return value

    # Beyond t = end the density is at most exp(-base t), and its integral at most exp(-base end) / base.
    end, tolerance = 64, flint.arb(2) ** -40
    inside = flint.acb.integral(
        density, 0, end, rel_tol=tolerance, abs_tol=flint.arb(2) ** -4000, eval_limit=100_000
    ).real
    return inside + (-base * end).exp() / base * flint.arb(0.5, 0.5)


def ball(value: Fraction | int) -> flint.arb:
    value = Fraction(value)
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def coin_factor(urn: Urn, sure: frozenset[int]) -> Fraction:
    """D(h): the expectation of 1/rising(W, m) over the coins of the cells neither occupied nor drawn."""
    total = Fraction(0)
    free = [c for c in range(urn.k) if c not in sure]
    for kept in itertools.product((False, True), repeat=len(free)):
        chance = Fraction(1)
        weight = urn.n + sum(a for c, a in enumerate(urn.prior) if c not in free)
        for c, is_kept in zip(free, kept, strict=True):
            chance *= urn.retention[c] if is_kept else 1 - urn.retention[c]
            weight += urn.prior[c] if is_kept else 0
        total += chance / rising(Fraction(weight), urn.m)
    return total


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 4),
    st.lists(st.tuples(priors, fractions_of_one), min_size=2, max_size=4),
)
def test_it_is_the_largest_ratio_there_is(n: int, m: int, cells: list[tuple[Fraction, Fraction]]) -> None:
    urn = Urn(n, m, *zip(*cells, strict=True))  # type: ignore[arg-type]
    sizes = range(1, min(m, urn.k) + 1)
    drawn = [frozenset(s) for size in sizes for s in itertools.combinations(range(urn.k), size)]
    known = cache(lambda sure: coin_factor(urn, sure))
    occupied = {h: frozenset(c for c, x in enumerate(h) if x) for h in urn.histograms()}
    factor = {(h, s): known(occupied[h] | s) for h in occupied for s in drawn}
    true = max(factor[h, s] / factor[g, s] for h, s in factor for g in urn.neighbours(h))
    strata = [(a, f, 1) for a, f in cells]
    upper, searched = gains(n, m, strata)
    assert true <= upper <= true * CLOSE
    assert searched == pytest.approx(float(upper), rel=1e-11)
    assert abs(integrated(n, m, strata) - true) < 1e-9  # so that the larger pools may be held against it
    assert (true == 1) == all(f == 1 for f in urn.retention)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 200), st.integers(1, 200), strata_of_cells)
def test_it_is_the_integral(n: int, m: int, strata: Strata) -> None:
    exact = integrated(n, m, strata)
    upper, searched = gains(n, m, strata)
    assert exact / CLOSE <= upper <= exact * CLOSE
    assert searched == pytest.approx(float(upper), rel=1e-11)


@pytest.mark.parametrize(
    ("n", "m", "strata"),
    [
        (1000, 1000, [("1/2", "1", 30), ("1/2", "1/2", 30), ("1", "189/5000", 300)]),
        (1000, 1000, [("3", "189/5000", 2000)]),
        (1, 1000, [("3", "189/5000", 2000)]),  # nearly all is noise
        (1000, 1, [("3", "189/5000", 2000)]),
        (1, 1, [("5000", "1/2", 2000), ("1/100", "1/3", 300)]),  # two scales in one density
        (3, 200, [("400", "1/1000", 200), ("1/10", "1/2", 50)]),  # two maxima
        (1000, 1000, [("1", "1", 1), ("1000", "1/2", 1)]),  # x^a_j has its weight where the density is low
    ],
)
def test_extreme_pools(n: int, m: int, strata: list[tuple[str, str, int]]) -> None:
    exact_strata = [(Fraction(a), Fraction(f), k) for a, f, k in strata]
    exact = integrated(n, m, exact_strata)
    upper, searched = gains(n, m, exact_strata)
    assert exact / CLOSE <= upper <= exact * CLOSE
    assert searched == pytest.approx(float(upper), rel=1e-11)


@pytest.mark.parametrize(("error", "cut"), [(2.0, 28.0), (21.0, 1.0), (2.0, 1.0)])
@pytest.mark.parametrize(("n", "m", "k"), [(1, 1, 5), (4, 9, 40), (60, 2, 200)])
def test_rough_sums_are_still_bounds(
    monkeypatch: pytest.MonkeyPatch, error: float, cut: float, n: int, m: int, k: int
) -> None:
    strata = [(Fraction(1, 2), Fraction(1, 2), k), (Fraction(3), Fraction(1, 10), k)]
    fine, _ = gains(n, m, strata)
    pruning._largest_gain.cache_clear()
    monkeypatch.setattr(pruning, "_ERROR", error)
    monkeypatch.setattr(pruning, "_CUT", cut)
    rough, _ = gains(n, m, strata)
    pruning._largest_gain.cache_clear()
    assert fine < rough < 10 * fine  # far apart, or cut early: what is added for that is seen


def test_it_says_so_when_the_sums_cannot_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "_cuts", lambda *_: (0, 1))  # the density has its maximum beyond
    pruning._largest_gain.cache_clear()
    with pytest.raises(ArithmeticError, match="cannot be cut"):
        gains(3, 3, [(Fraction(1), Fraction(1, 2), 9)])


def test_large_pools_do_not_overflow() -> None:
    strata = [(Fraction(50), Fraction(1, 4), 1000)]
    upper, searched = gains(2_000_000, 2_000_000, strata)
    # Where it matters most hardly an empty cell was kept, and the urn holds n alone: (1 + m/n)^50.
    assert float(upper) == pytest.approx(0.75 * 2**50, rel=0.01)
    assert searched == pytest.approx(float(upper), rel=1e-9)
    upper, searched = gains(1, 10**6, [(Fraction(10**6), Fraction(1, 2), 5)])
    assert searched == float("inf")
    assert upper > 10**308


def test_the_documents_bound_is_never_below() -> None:
    for n, m, strata in [
        (1, 1, [(Fraction(1), Fraction(1, 2), 9)]),
        (7, 5, [(Fraction(1), Fraction(1), 2), (Fraction(2), Fraction(1, 4), 6)]),
    ]:
        cells = tuple(a for a, _, k in strata for _ in range(k))
        kept = tuple(f for _, f, k in strata for _ in range(k))
        assert gains(n, m, strata)[0] < reference.pruning_gain(Urn(n, m, cells, kept), certain=True)


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(0, 3)),
    st.integers(1, 5),
    st.lists(
        st.tuples(priors, fractions_of_one, st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=2
    ).filter(lambda strata: sum(fewest + more for *_, fewest, more in strata) > 1),
)
def test_a_class_has_the_loss_of_its_worst_pool(
    sizes: tuple[int, int], m: int, strata: list[tuple[Fraction, Fraction, int, int]]
) -> None:
    a, f, fewest, more = zip(*strata, strict=True)
    n, spread = sizes
    most = tuple(k + extra for k, extra in zip(fewest, more, strict=True))
    numerators = tuple(int(x * Q) for x in a)
    c = make_class(
        n, n + spread, m, most, Fraction(2), numerators, cells_min=fewest, retention=f, denominator=Q
    )
    with rigorous() as balls:
        bound = upper_fraction(pruning_gain(c, balls))
    cells = itertools.product(*(range(low, high + 1) for low, high in zip(fewest, most, strict=True)))
    members = [
        gains(size, draws, [s for s in zip(a, f, k, strict=True) if s[2]])[0]
        for size, draws, k in itertools.product({n, n + spread}, {1, m}, cells)
        if sum(k)
    ]
    assert max(members) / CLOSE <= bound <= max(members) * CLOSE  # the class is no worse than a pool of it


def test_no_pruning_no_pruning_loss() -> None:
    half = Fraction(1, 2)
    with rigorous() as balls:
        for m, cells, retention in [
            (5, (4, 2), (Fraction(1), Fraction(1))),
            (5, (4, 0), (Fraction(1), half)),  # a stratum without cells has no coins either,
            (5, (1,), (half,)),  # where there is one cell there is no neighbour,
            (0, (4,), (half,)),  # nor is anything lost where nothing is drawn
        ]:
            c = make_class(3, 3, m, cells, Fraction(2), (7, 9)[: len(cells)], retention=retention)
            assert pruning_gain(c, balls) == pruning_gain(c, FLOAT) == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 300), st.integers(1, 300), strata_of_cells)
def test_the_quick_bound_is_above(n: int, m: int, strata: Strata) -> None:
    pool_class = of_strata(n, m, strata)
    with rigorous() as balls:
        quick = upper_fraction(quick_pruning_gain(pool_class, balls))
        exact = upper_fraction(pruning_gain(pool_class, balls))  # which other tests hold against integrals
    assert quick * CLOSE >= exact


def test_the_quick_bound_is_near_where_pools_have_dozens_of_workers() -> None:
    pool_class = of_strata(
        40, 40, [(Fraction(1, 225), Fraction(1), 20), (Fraction(1, 112), Fraction(1, 2), 150)]
    )
    with rigorous() as balls:
        quick = quick_pruning_gain(pool_class, balls)
        assert pruning_gain(pool_class, balls) < quick
        assert upper_fraction(quick) < gains(
            40, 40, [(Fraction(1, 225), Fraction(1), 20), (Fraction(1, 112), Fraction(1, 2), 150)]
        )[0] * Fraction(10001, 10000)
