"""The mechanism as one object: plans that certify, plans that are refused, and samples of their pools."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from synth.dirichlet.calibration import MAX_WEIGHT, BudgetTooSmallError
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.mechanism import Dirichlet
from synth.dirichlet.parameters import DirichletParameters
from synth.mechanism import ClassGuarantee, Guarantee
from synth.plan import Domains, Plan, Pools, Target
from synth.randomness import RunKey

from ..builders import make_class, pools
from ..reference import chi_square_p

pytestmark = pytest.mark.quick

MECHANISM = Dirichlet()
RETENTION = (Fraction(1), Fraction(1, 2))


def domains(*strata: list[int]) -> Domains:
    """Domains with one block a cell at the front; each domain by the strata of its cells."""
    offsets = np.cumsum([0, *map(len, strata)], dtype=np.int64)
    cuts = np.concatenate([np.arange(len(s), dtype=np.int32) for s in strata])
    return Domains(
        max(map(len, strata)) + 3, offsets, cuts, np.concatenate([np.array(s, np.uint8) for s in strata])
    )


SOME = pools((5, 5, 0), (12, 12, 1), (12, 20, 1), (1, 1, 0), (80, 80, 1), (82, 70, 0))
TWO = domains([0, 1, 1, 0], [1] * 30 + [0] * 2)


def some_plan(epsilon: str = "5", delta: str = "1e-3", prior: Fraction | None = None) -> Plan:
    return MECHANISM.calibrate(SOME, TWO, RETENTION, Target(Fraction(epsilon), Fraction(delta)), prior=prior)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Pools, Domains, tuple[Fraction, ...], Target]:
    retention = tuple(
        draw(st.lists(st.sampled_from([Fraction(1), Fraction(1, 2), Fraction(1, 9)]), min_size=1, max_size=3))
    )
    stratum = st.integers(0, len(retention) - 1)
    lists = draw(st.lists(st.lists(stratum, min_size=1, max_size=25), min_size=1, max_size=3))
    size = st.one_of(st.integers(1, 5), st.integers(1, 150))
    rows = draw(st.lists(st.tuples(size, size, st.integers(0, len(lists) - 1)), min_size=1, max_size=6))
    epsilon = draw(st.fractions(1, 12, max_denominator=10))
    delta = draw(st.sampled_from([Fraction(0), Fraction(1, 10**10), Fraction(1, 10**5), Fraction(1, 20)]))
    return pools(*rows), domains(*lists), retention, Target(epsilon, delta)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(requests())
def test_calibrated_plans_certify_what_was_asked(
    request: tuple[Pools, Domains, tuple[Fraction, ...], Target],
) -> None:
    epsilon, delta = request[-1].epsilon, request[-1].delta
    try:
        plan = MECHANISM.calibrate(*request)
    except BudgetTooSmallError:
        assume(False)
    guarantee = MECHANISM.certify(plan)
    assert guarantee.epsilon <= epsilon
    assert guarantee.delta <= delta
    assert guarantee.record_delta <= delta
    # the run's totals are those of its classes
    assert guarantee.epsilon == max(c.epsilon for c in guarantee.classes)
    assert guarantee.delta == sum(c.pools * c.delta for c in guarantee.classes)
    assert guarantee.record_delta == max(c.record_delta for c in guarantee.classes)
    assert sum(c.pools for c in guarantee.classes) == plan.pools.n_pools
    for c in guarantee.classes:
        assert abs(c.block_loss + c.pruning_loss - c.epsilon) < Fraction(1, 2**180)
        assert c.delta <= delta * c.n_min / plan.pools.n_records
    # and what is stored certifies the same
    read = MECHANISM.parameters_from_json(json.loads(json.dumps(plan.parameters.to_json())))
    assert read == plan.parameters
    assert MECHANISM.certify(replace(plan, parameters=read)) == guarantee
    assert 0 < MECHANISM.noise_share(plan) < 1


def test_the_run_adds_delta_over_pools_and_takes_the_largest_epsilon() -> None:
    row = ClassGuarantee(3, 1, 1, 1, (1,), Fraction(1), Fraction(1, 100), Fraction(1, 200))
    other = replace(row, pools=5, epsilon=Fraction(2), delta=Fraction(1, 50), record_delta=Fraction(1, 500))
    total = Guarantee.of_classes([row, other], Fraction(3), [(Fraction(4), Fraction(0))])
    assert (total.epsilon, total.delta, total.record_delta) == (2, Fraction(13, 100), Fraction(1, 200))
    assert (total.record_epsilon, total.curve) == (3, ((4, 0),))
    assert Guarantee.of_classes([replace(row, pools=101)], Fraction(3), []).delta == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"retention": ()}, "retention must be in"),
        ({"retention": (Fraction(1), Fraction(0))}, "retention must be in"),
        ({"retention": (Fraction(1), Fraction(11, 10))}, "retention must be in"),
        ({"retention": (Fraction(1),)}, "stratum that was not given"),
        ({"prior": Fraction(0)}, "prior must be positive"),
        ({"prior": Fraction(-1, 3)}, "prior must be positive"),
    ],
)
def test_numbers_outside_their_domain_are_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"retention": RETENTION, "target": Target(Fraction(5), Fraction(1, 1000))}
    with pytest.raises(ValueError, match=message):
        MECHANISM.calibrate(SOME, TWO, **(arguments | change))


@pytest.mark.parametrize(
    ("retention", "delta", "prior"),
    [
        ((Fraction(1), Fraction(1, 100)), Fraction(1, 1000), None),  # f G > 1 needs eps > ln 100
        ((Fraction(1), Fraction(1, 2)), Fraction(0), Fraction(3)),
        ((Fraction(1), Fraction(1)), Fraction(0), Fraction(1)),
    ],
)
def test_a_small_budget_is_refused_with_the_smallest_that_would_do(
    retention: tuple[Fraction, ...], delta: Fraction, prior: Fraction | None
) -> None:
    def calibrate(epsilon: Fraction) -> Plan:
        return MECHANISM.calibrate(SOME, TWO, retention, Target(epsilon, delta), prior=prior)

    with pytest.raises(BudgetTooSmallError, match="smallest epsilon that would do is") as refused:
        calibrate(Fraction(1, 2))
    smallest = refused.value.smallest
    assert smallest is not None
    guarantee = MECHANISM.certify(calibrate(smallest))
    assert guarantee.epsilon <= smallest
    assert guarantee.delta <= delta
    with pytest.raises(BudgetTooSmallError):
        calibrate(smallest * Fraction(99, 100))
    # what is printed, four digits rounded up, would do as well
    printed = Fraction(str(refused.value).split()[-1])
    assert printed >= smallest
    assert MECHANISM.certify(calibrate(printed)).epsilon <= printed


def test_a_budget_that_nothing_meets_says_so() -> None:
    huge = pools((2**45, 2**45, 0))  # q (n + m) alone does not fit
    with pytest.raises(BudgetTooSmallError, match="no epsilon up to 100 would do") as refused:
        MECHANISM.calibrate(huge, domains([0]), (Fraction(1),), Target(Fraction(1), Fraction(0)))
    assert refused.value.smallest is None


def test_a_fixed_prior_is_the_prior_of_every_cell() -> None:
    plan = some_plan("8", "1e-3", Fraction("1.25"))
    guarantee = MECHANISM.certify(plan)
    for c in guarantee.classes:
        assert all(a == Fraction("1.25") for a, k in zip(c.prior, c.cells, strict=True) if k)
    assert guarantee.epsilon <= 8
    assert guarantee.delta <= Fraction(1, 1000)


def tampered(**change: Any) -> Callable[[DirichletParameters], DirichletParameters]:
    """Change every class."""
    return lambda p: replace(p, classes=tuple(replace(c, **change) for c in p.classes))


def with_class(
    make: Callable[[PoolClass], PoolClass],
) -> Callable[[DirichletParameters], DirichletParameters]:
    return lambda p: replace(p, classes=tuple(map(make, p.classes)))


@pytest.mark.parametrize(
    ("tamper", "message"),
    [
        (with_class(lambda c: replace(c, n_min=c.n_min + 1)), "outside the limits of their class"),
        (with_class(lambda c: replace(c, n_max=c.n_max - 1)), "outside the limits of their class"),
        (with_class(lambda c: replace(c, m_max=c.m_max - 1)), "outside the limits of their class"),
        (
            with_class(lambda c: replace(c, cells=(c.cells[0] - 1, c.cells[1]))),
            "outside the limits of their class",
        ),
        (with_class(lambda c: replace(c, cells=(c.cells[0], 0))), "outside the limits of their class"),
        (tampered(prior=(10**9, 0)), "a cell without a prior"),
        (tampered(prior=(-1, 10**9)), "a cell without a prior"),
        (tampered(gain=Fraction(1)), "gain of at most 1"),
        (tampered(gain=Fraction(1, 2)), "gain of at most 1"),
        (tampered(prior=(MAX_WEIGHT, 1)), "do not fit the sampler"),
        (tampered(prior=(2**61, 2**61)), "do not fit the sampler"),
        (tampered(denominator=2**60), "do not fit the sampler"),
        (lambda p: replace(p, classes=p.classes[:-1]), "class that the plan does not have"),
        (tampered(retention=(Fraction(1),)), "stratum that the plan does not have"),
        (tampered(retention=(Fraction(1), Fraction(3, 2))), r"in \(0, 1\]"),
        (tampered(retention=(Fraction(1), Fraction(0))), r"in \(0, 1\]"),
    ],
)
def test_a_tampered_plan_is_refused(
    tamper: Callable[[DirichletParameters], DirichletParameters], message: str
) -> None:
    plan = some_plan()
    assert isinstance(plan.parameters, DirichletParameters)
    with pytest.raises(ValueError, match=message):
        MECHANISM.certify(replace(plan, parameters=tamper(plan.parameters)))


def test_a_pool_in_the_class_of_another_size_is_refused() -> None:
    plan = some_plan()
    moved = plan.pool_class.copy()
    moved[[0, 4]] = moved[[4, 0]]
    with pytest.raises(ValueError, match="2 pools are outside the limits of their class"):
        MECHANISM.certify(replace(plan, pool_class=moved))


def test_a_plan_with_less_noise_or_more_gain_certifies_less() -> None:
    plan = some_plan()
    parameters, honest = plan.parameters, MECHANISM.certify(plan)
    assert isinstance(parameters, DirichletParameters)
    less = with_class(lambda c: replace(c, prior=tuple(a - a // 5 for a in c.prior)))(parameters)
    assert MECHANISM.certify(replace(plan, parameters=less)).delta > Fraction(plan.target.delta)
    more = with_class(lambda c: replace(c, gain=c.gain * 2))(parameters)
    assert MECHANISM.certify(replace(plan, parameters=more)).epsilon > plan.target.epsilon
    rarer = tampered(retention=(Fraction(1), Fraction(1, 3)))(parameters)
    dishonest = MECHANISM.certify(replace(plan, parameters=rarer))
    assert dishonest.epsilon > honest.epsilon
    assert dishonest.delta > honest.delta


def test_parameters_of_another_mechanism_are_refused() -> None:
    class Other:
        def to_json(self) -> dict[str, Any]:
            return {}

    plan = replace(some_plan(), parameters=Other())
    with pytest.raises(TypeError, match="not one of Dirichlet resampling"):
        MECHANISM.certify(plan)


def hand_made(prior: tuple[int, int]) -> Plan:
    """Two domains of five cells (strata interleaved) and of three; a class for each."""
    made = domains([1, 0, 1, 0, 1], [0, 0, 1])
    classes = tuple(
        make_class(1, 9, 9, cells, Fraction(2), a, retention=(Fraction(1), Fraction(1, 3)), denominator=1000)
        for cells, a in (((2, 3), prior), ((2, 1), (2 * prior[0], 3 * prior[1])))
    )
    rows = pools((2, 3, 0), (1, 1, 1), (4, 5, 0), (1, 2, 1), (3, 3, 1))
    klass = np.array([0, 1, 0, 1, 1], np.int32)
    return Plan("dirichlet", Target(1, 0), rows, made, klass, DirichletParameters(classes))


def test_a_slice_of_pools_draws_from_its_own_workers() -> None:
    # Next to no noise: every draw copies a worker of its own pool.
    plan = hand_made((1, 1))
    homes = np.array([0, 0, 1, 2, 2, 2, 2, 0, 2, 2, 2], np.int32)
    expected = {
        (0, 5): [0] * 3 + [1] + [2] * 5 + [0] * 2 + [2] * 3,
        (1, 3): [1] + [2] * 5,
        (3, 5): [0] * 2 + [2] * 3,
    }
    offsets = np.concatenate([[0], plan.pools.n.cumsum()])
    for (start, stop), cells in expected.items():
        agree = 0
        for seed in range(50):
            stream = RunKey.from_seed(seed).stream("urn", start)
            drawn = MECHANISM.sample(plan, slice(start, stop), homes[offsets[start] : offsets[stop]], stream)
            assert drawn.dtype == np.int32
            agree += drawn.tolist() == cells
        assert agree >= 40
    with pytest.raises(ValueError, match="number of workers"):
        MECHANISM.sample(plan, slice(1, 3), homes, RunKey.from_seed(0).stream("urn", 0))


def test_a_slice_of_pools_has_noise_of_its_own_domain() -> None:
    # Nothing but noise: one draw of each pool, from the cells of its domain in proportion to their priors.
    made = domains([1, 0, 1, 0, 1], [0, 0, 1])
    share = (10**15, 3 * 10**15)
    classes = tuple(
        make_class(1, 1, 1, cells, Fraction(2), share, denominator=1) for cells in ((2, 3), (2, 1))
    )
    each = 60_000
    rows = pools(*[(1, 1, p % 2) for p in range(2 * each + 1)])
    klass = rows.domain.copy()
    plan = Plan("dirichlet", Target(1, 0), rows, made, klass, DirichletParameters(classes))
    stream = RunKey.from_seed(5).stream("urn", 1)
    drawn = MECHANISM.sample(plan, slice(1, 2 * each + 1), np.zeros(2 * each, np.int32), stream)
    for of, weights in ((drawn[1::2], [3, 1, 3, 1, 3]), (drawn[0::2], [1, 1, 3])):
        counts = np.bincount(of, minlength=len(weights))
        assert chi_square_p(counts, [each * w / sum(weights) for w in weights]) > 1e-4
