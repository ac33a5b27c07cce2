"""Calibration: what is found certifies, is the smallest that does, and a refusal says what would do."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.dirichlet import calibration
from synth.dirichlet.calibration import (
    MAX_WEIGHT,
    BudgetTooSmallError,
    Goal,
    calibrate_class,
    group_pools,
    smallest_epsilon,
)
from synth.dirichlet.losses import PoolClass, bad_threshold, failure_bound
from synth.dirichlet.pruning import pruning_gain
from synth.plan import Pools
from synth.tails import rigorous, upper_fraction

from ..builders import make_class

Q = 10**9
Int64 = NDArray[np.int64]


def one_class(
    n: int, cells: tuple[int, ...], retention: tuple[Fraction, ...] = (Fraction(1),), m: int | None = None
) -> PoolClass:
    sizes, none = (n, n, n if m is None else m), (0,) * len(cells)
    return make_class(*sizes, cells, Fraction(1), none, retention=retention, denominator=Q)


def certificate(found: PoolClass) -> tuple[Fraction, Fraction]:
    with rigorous() as balls:
        odds = balls.number(found.gain) * pruning_gain(found, balls)
        failure, _ = failure_bound(found, balls)
        return upper_fraction(balls.log(odds)), upper_fraction(failure)


def prior_for(draws: int) -> Callable[[int, int], int]:
    """For odds f G = top / bottom, the smallest prior with which so many draws are not bad."""
    return lambda top, bottom: math.ceil(Q * draws / (Fraction(top, bottom) - 1))


sizes = st.tuples(st.integers(1, 80), st.lists(st.integers(0, 200), min_size=1, max_size=3).filter(any))
retentions = st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 5), Fraction(9, 10)])
epsilons = st.fractions(Fraction(1, 2), 12, max_denominator=20)
deltas = st.sampled_from(
    [Fraction(0), Fraction(1, 10**9), Fraction(1, 10**5), Fraction(1, 100), Fraction(9, 10)]
)


@settings(max_examples=25, deadline=None)
@given(sizes, st.data(), epsilons, deltas)
def test_what_is_found_certifies_and_is_the_smallest(
    size: tuple[int, list[int]], data: st.DataObject, epsilon: Fraction, delta: Fraction
) -> None:
    n, cells = size
    f = tuple(data.draw(retentions) for _ in cells)
    wanted = one_class(n, tuple(cells), f, data.draw(st.sampled_from([n, 2 * n, max(1, n // 2)])))
    found = calibrate_class(wanted, Goal(epsilon, delta))
    if found is None:
        # Refused only where pure epsilon, which fails never, has no room either.
        assert calibration._with_gain(wanted, epsilon, prior_for(wanted.m_max), None, False) is None
        return
    reached, failure = certificate(found)
    assert reached <= epsilon
    assert reached >= epsilon - Fraction(1, 10**6)  # and the gain is not given away
    assert failure <= delta
    assert (found.n_min, found.n_max, found.m_max, found.cells) == (n, n, wanted.m_max, wanted.cells)
    # The same threshold in every stratum, and the prior is the smallest with it.
    present = [s for s, k in enumerate(cells) if k]
    thresholds = {bad_threshold(0, Fraction(found.prior[s], Q), f[s], found.gain) for s in present}
    (t,) = thresholds
    for s in present:
        assert bad_threshold(0, Fraction(found.prior[s] - 1, Q), f[s], found.gain) == t - 1
    # One step less is not certified (nor two).
    for less in range(max(1, t - 2), t):
        smaller = calibration._with_gain(wanted, epsilon, prior_for(less), None, False)
        assert smaller is None or certificate(smaller)[1] > delta


@settings(max_examples=25, deadline=None)
@given(sizes, st.data(), epsilons, deltas)
def test_a_multiple_of_the_smallest_prior_certifies_too(
    size: tuple[int, list[int]], data: st.DataObject, epsilon: Fraction, delta: Fraction
) -> None:
    """Whatever is added beyond the smallest prior, the stratum that has no more than that decides."""
    n, cells = size
    multiple = tuple(data.draw(st.sampled_from([1, 2, 64])) for _ in cells)
    f = tuple(data.draw(retentions) for _ in cells)
    wanted = one_class(n, tuple(cells), f)
    found = calibrate_class(wanted, Goal(epsilon, delta, multiple=multiple))
    if found is None:
        assert calibration._with_gain(wanted, epsilon, prior_for(n), multiple, False) is None
        return
    reached, failure = certificate(found)
    assert reached <= epsilon
    assert failure <= delta
    present = [s for s, k in enumerate(cells) if k]
    for s in present:
        assert found.prior[s] % multiple[s] == 0
    # Without multiples the same prior has the same threshold for an empty cell.
    thresholds = {
        bad_threshold(0, Fraction(found.prior[s] // multiple[s], Q), f[s], found.gain) for s in present
    }
    assert len(thresholds) == 1


def test_what_is_proved_once_depends_on_the_class_alone() -> None:
    found = calibrate_class(one_class(20, (30,)), Goal(Fraction(4), Fraction(1, 10**6)))
    assert found is not None
    seen = set()
    for bits in (64, 192, 400):  # of the arithmetic of whoever asks
        calibration.proved_loss.cache_clear()
        with rigorous(bits):
            seen.add(calibration.proved_loss(found, False))
    assert len(seen) == 1
    (proved,) = seen
    assert (proved.loss, proved.failure) == certificate(found)


def test_priors_fall_with_epsilon_and_with_delta() -> None:
    f = (Fraction(1), Fraction(1, 2))
    wanted = one_class(60, (40, 200), f)
    table = []
    for epsilon in ("6", "7", "8", "9.5", "12"):
        row = []
        for delta in ("0", "1e-12", "1e-6", "1e-3", "0.1"):
            found = calibrate_class(wanted, Goal(Fraction(epsilon), Fraction(delta)))
            assert found is not None
            rough = calibrate_class(wanted, Goal(Fraction(epsilon), Fraction(delta), rough=True))
            assert rough is not None
            # What a trial is made with: its quick bound is far off only where pruning takes most of epsilon.
            assert np.allclose(rough.prior, found.prior, rtol=0.04 if epsilon in ("6", "7") else 1e-3)
            row.append(found.prior)
        table.append(row)
    for s in (0, 1):
        prior = np.array([[p[s] for p in row] for row in table])
        assert np.all(np.diff(prior, axis=0) < 0)
        assert np.all(np.diff(prior, axis=1) <= 0)
        assert np.all(prior[:, 0] > prior[:, -1])


@pytest.mark.parametrize(("odds", "million"), [(5, 0.25), (10, 0.11), (20, 0.053), (50, 0.020)])
def test_theorem_1_of_the_paper(odds: int, million: float) -> None:
    # delta = 0 and no pruning: a >= m / (e^eps - 1); the tutorial prints millions for m = 10^6.
    m = 10**6
    found = calibrate_class(one_class(m, (10_000,)), Goal(Fraction(math.log(odds)), Fraction(0)))
    assert found is not None
    prior = Fraction(found.prior[0], Q)
    assert m / (odds - 1) <= prior <= m / (odds - 1) * (1 + 1e-6)
    assert round(float(prior) / 1e6, 3 if million < 0.1 else 2) == million


@pytest.mark.parametrize("f", [Fraction(1), Fraction(1, 4)], ids=str)
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_delta_zero_is_pure(n: int, f: Fraction) -> None:
    found = calibrate_class(one_class(n, (5,), (f,)), Goal(Fraction(6), Fraction(0)))
    assert found is not None
    assert bad_threshold(0, Fraction(found.prior[0], Q), f, found.gain) == n
    assert certificate(found)[1] == 0


@pytest.mark.parametrize("delta", ["0", "1e-400", "1e-310"])
@pytest.mark.parametrize("n", [100, 1000, 5000])
def test_a_delta_below_the_floats_is_not_refused(n: int, delta: str) -> None:
    # Pure epsilon is always there for the asking; float tails of large pools underflow to 0 long before m.
    found = calibrate_class(one_class(n, (5,)), Goal(Fraction(3), Fraction(delta)))
    assert found is not None
    reached, failure = certificate(found)
    assert reached <= 3
    assert failure <= Fraction(delta)


def test_a_fixed_prior_is_kept_or_refused() -> None:
    wanted = one_class(30, (10, 50), (Fraction(1), Fraction(1, 2)))
    best = calibrate_class(wanted, Goal(Fraction(5), Fraction(1, 1000)))
    assert best is not None
    enough = Fraction(max(best.prior), Q)
    fixed = calibrate_class(wanted, Goal(Fraction(5), Fraction(1, 1000), enough))
    assert fixed is not None
    assert fixed.prior == (max(best.prior),) * 2
    reached, failure = certificate(fixed)
    assert reached <= 5
    assert failure <= Fraction(1, 1000)
    assert (
        calibrate_class(wanted, Goal(Fraction(5), Fraction(1, 1000), Fraction(min(best.prior), 10 * Q)))
        is None
    )


def test_weights_that_do_not_fit_the_sampler_are_not_chosen() -> None:
    # pure epsilon with m = 10^6 asks for 250,000 a cell: 10^9 * 250,000 * k must stay below 2^62.
    most = MAX_WEIGHT // (Q * 250_001)
    wanted = one_class(10**6, (most - 10,))
    epsilon = Fraction(math.log(5))
    found = calibrate_class(wanted, Goal(epsilon, Fraction(0)))
    assert found is not None
    assert Q * 2 * 10**6 + found.prior[0] * found.cells[0] <= MAX_WEIGHT
    assert calibrate_class(one_class(10**6, (most + 10,)), Goal(epsilon, Fraction(0))) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 9000), st.integers(1, 9000)),
        min_size=1,
        max_size=60,
    )
)
def test_classes_hold_their_pools_and_no_more(rows: list[tuple[int, int, int, int]]) -> None:
    n, m, *k = np.array(rows, np.int64).T
    cells = np.stack(k, axis=1)
    for multiple in (None, (1, 1), (1, 8)):
        check_classes(n, m, cells, multiple)


def check_classes(n: Int64, m: Int64, cells: Int64, multiple: tuple[int, ...] | None) -> None:
    pools = Pools(n, m, np.zeros(n.size, np.int32))
    pool_class, classes = group_pools(pools, cells, (Fraction(1),) * 2, multiple=multiple)
    assert pool_class.dtype == np.int32
    assert set(pool_class.tolist()) == set(range(len(classes)))
    for i, c in enumerate(classes):
        inside = pool_class == i
        assert (c.n_min, c.n_max, c.m_max) == (n[inside].min(), n[inside].max(), m[inside].max())
        assert c.cells == tuple(cells[inside].max(axis=0).tolist())
        assert c.n_max == c.n_min if c.n_min <= 64 else c.n_max <= c.n_min * 1.06
        assert cells[inside].sum(axis=1).max() <= 4 * cells[inside].sum(axis=1).min()
        if multiple == (1, 8) and cells[inside].sum(axis=1).min() <= 5:
            assert c.cells == c.cells_min


@pytest.mark.parametrize("limit", ["0.7", "1.2345", "8.6", "0.0101", "63"])
def test_smallest_epsilon_is_smallest(limit: str) -> None:
    edge = Fraction(limit)
    found = smallest_epsilon(lambda e: e >= edge, Fraction(1, 100))
    assert found is not None
    assert edge <= found <= edge * Fraction(1011, 1000)  # three digits, rounded up


def test_no_epsilon_up_to_a_hundred() -> None:
    assert smallest_epsilon(lambda _: False, Fraction(1)) is None


def test_the_error_carries_the_epsilon() -> None:
    assert BudgetTooSmallError("x").smallest is None
    assert BudgetTooSmallError("x", lambda: Fraction(3)).smallest == 3
    assert str(BudgetTooSmallError("x", lambda: Fraction(3))) == "x; the smallest epsilon that would do is 3"
    assert str(BudgetTooSmallError("x", lambda: None)) == "x, and no epsilon up to 100 would do"
    assert issubclass(BudgetTooSmallError, ValueError)
