"""The smallest epsilon and the smallest delta for a given prior."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import synth

RETENTION = (Fraction(1), Fraction(1, 2))
MECHANISM = synth.MECHANISMS["dirichlet"]


@pytest.fixture
def pools() -> synth.Pools:
    n = np.array([1, 5, 50])
    return synth.Pools(n, n, np.zeros(3, np.int32))


@pytest.fixture
def domains() -> synth.Domains:
    strata = np.repeat(np.array([0, 1], np.uint8), 5)
    return synth.Domains(10, np.array([0, 10]), np.arange(10, dtype=np.int32), strata)


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
def test_the_smallest_epsilon_certifies_and_a_smaller_one_does_not(
    guarantee: synth.GuaranteeName, pools: synth.Pools, domains: synth.Domains
) -> None:
    delta, prior = Fraction(1, 10**5), Fraction(1, 20)
    plan = synth.smallest_epsilon_plan(MECHANISM, pools, domains, RETENTION, delta, prior, guarantee)
    assert MECHANISM.certify(plan).meets(plan)
    with pytest.raises(synth.BudgetTooSmallError):
        MECHANISM.calibrate(
            pools, domains, RETENTION, plan.epsilon * Fraction(99, 100), delta, prior, guarantee
        )


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
def test_the_smallest_delta_certifies_and_a_smaller_one_does_not(
    guarantee: synth.GuaranteeName, pools: synth.Pools, domains: synth.Domains
) -> None:
    epsilon, prior = Fraction(7), Fraction(1, 20)
    plan = synth.smallest_delta_plan(MECHANISM, pools, domains, RETENTION, epsilon, prior, guarantee)
    assert 0 < plan.delta < Fraction(1, 1000)
    assert MECHANISM.certify(plan).meets(plan)
    with pytest.raises(synth.BudgetTooSmallError):
        MECHANISM.calibrate(
            pools, domains, RETENTION, epsilon, plan.delta * Fraction(98, 100), prior, guarantee
        )


def test_a_prior_that_is_large_enough_needs_no_delta(pools: synth.Pools, domains: synth.Domains) -> None:
    plan = synth.smallest_delta_plan(MECHANISM, pools, domains, RETENTION, Fraction(9), Fraction(1, 20))
    assert plan.delta == 0
    assert MECHANISM.certify(plan).delta == 0


def test_a_prior_that_certifies_nothing_is_refused(pools: synth.Pools, domains: synth.Domains) -> None:
    with pytest.raises(synth.BudgetTooSmallError, match="no delta below 1"):
        synth.smallest_delta_plan(MECHANISM, pools, domains, RETENTION, Fraction(1, 10), Fraction(1, 10**6))
