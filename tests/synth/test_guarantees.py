"""One plan, several guarantees: which can be asked for, and what each costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synth
from synth.dirichlet.parameters import DirichletParameters
from synth.plan import GuaranteeName

MECHANISM = synth.MECHANISMS["dirichlet"]
RETENTION = (Fraction(1), Fraction(1, 2))
DELTA = Fraction(1, 10**5)


def inputs(sizes: list[int], cells: int = 12) -> tuple[synth.Pools, synth.Domains]:
    n = np.array(sizes)
    strata = (np.arange(cells) % 2).astype(np.uint8)
    domains = synth.Domains(cells, np.array([0, cells]), np.arange(cells, dtype=np.int32), strata)
    return synth.Pools(n, n, np.zeros(n.size, np.int32)), domains


def total_prior(plan: synth.Plan) -> list[int]:
    assert isinstance(plan.parameters, DirichletParameters)
    return [sum(c.prior) for c in plan.parameters.classes]


@settings(max_examples=12)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=6),
    st.sampled_from([Fraction(6), Fraction(8), Fraction(10)]),
    st.sampled_from([Fraction(1, 10**3), DELTA, Fraction(1, 10**9)]),
)
def test_what_is_asked_for_is_reached(sizes: list[int], epsilon: Fraction, delta: Fraction) -> None:
    for guarantee in ("pdp", "dp"):
        plan = MECHANISM.calibrate(*inputs(sizes), RETENTION, synth.Target(epsilon, delta, guarantee))
        reached = MECHANISM.certify(plan)
        assert plan.target.guarantee == guarantee
        assert reached.meets(plan)
        assert reached.record_epsilon == epsilon
        if guarantee == "dp":
            assert reached.record_delta <= delta
        else:
            assert reached.epsilon <= epsilon
            assert reached.delta <= delta
            assert reached.record_delta <= reached.delta


def test_a_gain_above_the_requested_epsilon_does_not_improve_a_persons_delta() -> None:
    """The tail beyond the gain is a delta at the gain, not at the epsilon that is asked for."""
    plan = MECHANISM.calibrate(
        *inputs([5, 5], cells=4), (Fraction(1),) * 2, synth.Target(Fraction(1), DELTA, "dp")
    )
    assert isinstance(plan.parameters, DirichletParameters)

    def forged(gain: Fraction, prior: int) -> synth.Guarantee:
        assert isinstance(plan.parameters, DirichletParameters)
        classes = tuple(
            replace(c, gain=gain, prior=tuple(prior for _ in c.prior)) for c in plan.parameters.classes
        )
        return MECHANISM.certify(replace(plan, parameters=replace(plan.parameters, classes=classes)))

    small = plan.parameters.denominator // 1000
    honest = forged(plan.parameters.classes[0].gain, small)
    assert honest.record_delta > Fraction(1, 2)
    inflated = forged(Fraction(10**9), small)
    assert inflated.record_delta >= honest.record_delta
    assert not inflated.meets(plan)


def test_one_person_needs_less_noise_than_the_run() -> None:
    given_to = inputs([1, 30, 400])
    run = MECHANISM.calibrate(*given_to, RETENTION, synth.Target(Fraction(8), DELTA, "pdp"))
    person = MECHANISM.calibrate(*given_to, RETENTION, synth.Target(Fraction(8), DELTA, "dp"))
    assert sum(total_prior(person)) < sum(total_prior(run))
    assert all(a <= b for a, b in zip(total_prior(person), total_prior(run), strict=True))
    certified = MECHANISM.certify(person)
    assert certified.meets(person)
    assert not certified.meets(replace(person, target=replace(person.target, guarantee="pdp")))


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
def test_delta_zero_asks_for_pure_differential_privacy(guarantee: GuaranteeName) -> None:
    plan = MECHANISM.calibrate(*inputs([1, 30]), RETENTION, synth.Target(Fraction(8), Fraction(0), guarantee))
    certified = MECHANISM.certify(plan)
    assert certified.delta == certified.record_delta == 0
    assert certified.curve[-1][0] <= 8
    assert certified.meets(plan)


def test_the_curve_rises_in_epsilon_falls_in_delta_and_ends_pure() -> None:
    plan = MECHANISM.calibrate(*inputs([1, 30, 400]), RETENTION, synth.Target(Fraction(8), DELTA))
    curve = MECHANISM.certify(plan).curve
    epsilons, deltas = zip(*curve, strict=True)
    assert list(epsilons) == sorted(set(epsilons))
    assert list(deltas) == sorted(deltas, reverse=True)
    assert deltas[-1] == 0 < deltas[0] <= 1
    assert any(e < 8 for e in epsilons)
    assert any(e > 8 for e in epsilons)
