"""The geometric mechanism: exact privacy of small cases, plans and certificates, samples, and an audit."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth import MECHANISMS
from synth.auditing import AuditResult, audit
from synth.dirichlet.calibration import BudgetTooSmallError
from synth.dirichlet.mechanism import Dirichlet
from synth.dirichlet.urn import Urns
from synth.geometric import mechanism as geometric
from synth.geometric.mechanism import Geometric, noise_loss
from synth.geometric.noise import two_sided_noise
from synth.geometric.parameters import GeometricParameters
from synth.geometric.projection import MAX_MASS
from synth.plan import Domains, Plan, Pools, Target
from synth.randomness import RunKey, WordStream

from ..builders import pools
from ..enumeration import single_urn
from ..noise_reference import histograms, neighbours, noise_distribution

pytestmark = pytest.mark.quick

MECHANISM = Geometric()
ONE = (Fraction(1),)
RATIOS = [Fraction(1, 4), Fraction(1, 2), Fraction(2, 3)]


def domains(*k: int, strata: int = 1) -> Domains:
    """Domains of k cells, one block a cell at the front."""
    offsets = np.cumsum([0, *k], dtype=np.int64)
    cuts = np.concatenate([np.arange(cells, dtype=np.int32) for cells in k])
    return Domains(max(k) + 2, offsets, cuts, (np.arange(cuts.size) % strata).astype(np.uint8))


def plan_of(epsilon: str, rows: Pools, of: Domains, delta: str = "1e-5", guarantee: str = "pdp") -> Plan:
    return MECHANISM.calibrate(rows, of, ONE, Target(Fraction(epsilon), Fraction(delta), guarantee))  # type: ignore[arg-type]


def some_plan(epsilon: str = "2") -> Plan:
    return plan_of(epsilon, pools((5, 5, 0), (1, 1, 1), (30, 20, 1), (7, 9, 0)), domains(4, 9))


# --- privacy of small cases, exactly


def test_noisy_counts_of_neighbours_differ_by_the_stated_factor_at_most() -> None:
    """With the probabilities that the sampler's own source has; the factor is reached."""
    for p, (n, k) in itertools.product(RATIOS, [(1, 2), (2, 2), (3, 3), (2, 4)]):
        reach = n + 3
        noise = noise_distribution(p.numerator, p.denominator, reach + n)
        largest = Fraction(0)
        for h in histograms(n, k):
            for other in neighbours(h):
                i, j = (next(c for c in range(k) if h[c] - other[c] == sign) for sign in (1, -1))
                # All other cells have the same factor in both.
                for a, b in itertools.product(range(-2, reach), repeat=2):
                    ratio = noise[a - h[i]] * noise[b - h[j]] / (noise[a - other[i]] * noise[b - other[j]])
                    largest = max(largest, ratio, 1 / ratio)
        assert largest == 1 / p**2


# --- plans and certificates


@settings(max_examples=60)
@given(st.fractions(Fraction(1, 1000), 90, max_denominator=10**6))
def test_the_ratio_is_the_smallest_that_epsilon_allows(epsilon: Fraction) -> None:
    plan = plan_of(str(epsilon), pools((3, 3, 0)), domains(2))
    number = plan.parameters
    assert isinstance(number, GeometricParameters)
    guarantee = MECHANISM.certify(plan)
    assert guarantee.meets(plan)
    assert guarantee.epsilon == noise_loss(number.ratio) <= epsilon
    assert number.numerator + number.denominator == 2**62
    if number.numerator > 1:
        assert noise_loss(Fraction(number.numerator - 1, number.denominator + 1)) > epsilon


@settings(max_examples=60)
@given(st.integers(1, 2**61), st.integers(2, 2**61))
def test_the_loss_is_rounded_up(a: int, b: int) -> None:
    numerator, denominator = sorted((a, b + (a == b)))
    with localcontext(prec=80):
        exact = 2 * (Decimal(denominator) / Decimal(numerator)).ln()
        loss = noise_loss(Fraction(numerator, denominator))
        stated = Decimal(loss.numerator) / Decimal(loss.denominator)
        assert exact * (1 - Decimal("1e-75")) <= stated <= exact + Decimal("1e-40")


def test_the_certificate_is_pure() -> None:
    plan = some_plan("2")
    guarantee = MECHANISM.certify(plan)
    assert (guarantee.delta, guarantee.record_delta) == (0, 0)
    assert guarantee.record_epsilon == guarantee.epsilon == guarantee.curve[0][0]
    assert guarantee.curve == ((guarantee.epsilon, 0),)
    (row,) = guarantee.classes
    assert (row.pools, row.n_min, row.n_max, row.m_max, row.cells) == (4, 1, 30, 20, (9,))
    assert row.numbers == {"ratio": (plan.parameters.ratio,)}  # type: ignore[attr-defined]
    assert row.losses == {"noise_loss": guarantee.epsilon}
    assert float(guarantee.epsilon) == pytest.approx(2, abs=1e-15)


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
@pytest.mark.parametrize("delta", ["0", "1e-5"])
def test_any_guarantee_may_be_asked_for(guarantee: str, delta: str) -> None:
    plan = plan_of("1", pools((3, 3, 0)), domains(2), delta, guarantee)
    assert MECHANISM.certify(plan).meets(plan)
    assert plan.parameters == some_plan("1").parameters


def test_a_stored_plan_is_the_plan() -> None:
    plan = some_plan()
    stored = json.loads(json.dumps(plan.parameters.to_json()))
    assert MECHANISM.parameters_from_json(stored) == plan.parameters
    assert MECHANISMS[plan.mechanism].name == "geometric"
    with pytest.raises(TypeError):
        MECHANISM.parameters_from_json({**stored, "numerator": 0.5})


@pytest.mark.parametrize(
    ("numerator", "denominator"), [(0, 5), (-1, 5), (5, 5), (6, 5), (2**61, 2**61 + 1), (1, 2**62)]
)
def test_a_ratio_that_cannot_be_drawn_is_not_certified(numerator: int, denominator: int) -> None:
    plan = replace(some_plan(), parameters=GeometricParameters(numerator, denominator))
    with pytest.raises(ValueError, match="numerator"):
        MECHANISM.certify(plan)


def test_noise_that_would_not_end_is_not_drawn() -> None:
    plan = replace(some_plan(), parameters=GeometricParameters(2**61 - 1, 2**61))
    with pytest.raises(ValueError, match="larger than the sampler"):
        MECHANISM.certify(plan)
    with pytest.raises(ValueError, match="larger than the sampler"):
        two_sided_noise(1, 2**61 - 1, 2**61, RunKey.from_seed(1).stream("noise", 0))


def test_less_noise_does_not_meet_what_was_asked() -> None:
    plan = some_plan()
    number = plan.parameters
    assert isinstance(number, GeometricParameters)
    less = replace(plan, parameters=GeometricParameters(number.numerator - 1, number.denominator))
    assert not MECHANISM.certify(less).meets(less)


def test_other_plans_are_refused() -> None:
    plan = some_plan()
    with pytest.raises(ValueError, match="class"):
        MECHANISM.certify(replace(plan, pool_class=np.array([0, 0, 1, 0], np.int32)))
    dirichlet = Dirichlet().calibrate(plan.pools, plan.domains, ONE, Target(Fraction(9), Fraction(1, 10)))
    for refuse in (MECHANISM.certify, MECHANISM.noise_share):
        with pytest.raises(TypeError, match="geometric"):
            refuse(dirichlet)
    with pytest.raises(TypeError, match="Dirichlet"):
        Dirichlet().certify(plan)


def test_pools_that_do_not_fit_are_refused() -> None:
    n = MAX_MASS // 3
    fits = plan_of("1", pools((n, n, 0)), domains(3))
    assert MECHANISM.certify(fits).meets(fits)
    for larger in (pools((n + 1, n + 1, 0)), pools((2**61, 2**61, 0))):
        with pytest.raises(ValueError, match="61 bits"):
            plan_of("1", larger, domains(3))
        with pytest.raises(ValueError, match="61 bits"):
            MECHANISM.certify(replace(fits, pools=larger))


def test_pruning_is_refused() -> None:
    with pytest.raises(ValueError, match="keeps every cell"):
        MECHANISM.calibrate(pools((3, 3, 0)), domains(2), (Fraction(1, 2),), Target(1, 0))


def test_an_epsilon_too_small_for_the_sampler_is_refused_with_one_that_is_not() -> None:
    with pytest.raises(BudgetTooSmallError) as caught:
        some_plan("0.0001")
    assert caught.value.smallest is not None
    smallest = some_plan(str(caught.value.smallest))
    assert MECHANISM.certify(smallest).meets(smallest)


@pytest.mark.parametrize("epsilon", ["8.6", "1"])
def test_the_share_of_noise_is_what_noisy_counts_show(epsilon: str) -> None:
    plan = plan_of(epsilon, pools(*[(20, 20, 0)] * 2000), domains(200))
    number = plan.parameters
    assert isinstance(number, GeometricParameters)
    counts = np.tile(20 * (np.arange(200) == 0), 2000)
    noisy = counts + number.draw(counts.size, RunKey.from_seed(2).stream("noise", 0))
    noise = (noisy - counts).reshape(2000, 200)
    up = noise.clip(0).sum()
    assert MECHANISM.noise_share(plan) == pytest.approx(up / (up + 40_000), rel=0.05)
    added, paid = MECHANISM.explain(plan, MECHANISM.certify(plan))
    assert float(added.split()[3]) == pytest.approx(np.abs(noise).mean(), rel=0.05)
    assert f"{float(number.ratio):.6g}" in paid


# --- a black-box audit


def sampler_with(number: GeometricParameters, n: int) -> object:
    """Workers of two cells, from noisy counts alone: half of what these differ by."""

    def sampler(urns: Urns, cells: NDArray[np.int32], stream: WordStream) -> NDArray[np.int32]:
        first = np.count_nonzero(cells.reshape(-1, n) == 0, axis=1)
        counts = np.stack([first, n - first], axis=1)
        noisy = counts + number.draw(counts.size, stream).reshape(-1, 2)
        kept = ((noisy[:, 0] - noisy[:, 1] + n) // 2).clip(0, n)
        return (np.arange(n) >= kept[:, np.newaxis]).ravel().astype(np.int32)

    return sampler


def audited(epsilon: Fraction) -> AuditResult:
    """Audit the sampler with the noise that `epsilon` would need."""
    urns = single_urn(1, [1], [0, 0], [(1, 1)], [(12, 12)])._replace(
        cells_by_stratum=np.arange(2, dtype=np.int32)
    )
    before = np.repeat(np.arange(2, dtype=np.int32), 6)
    after = before.copy()
    after[0] = 1
    return audit(
        urns, before, after, runs=300_000, delta=Fraction(0), confidence=1 - Fraction(1, 10**6),
        sampler=sampler_with(geometric.calibrated_noise(epsilon), 12), key=RunKey.from_seed(7),
    )  # type: ignore[arg-type]  # fmt: skip


def test_an_audit_stays_below_the_certificate() -> None:
    plan = plan_of("1", pools((12, 12, 0)), domains(2))
    result = audited(plan.target.epsilon)
    assert Fraction(1, 3) < result.epsilon <= MECHANISM.certify(plan).epsilon


def test_an_audit_catches_noise_of_half_the_scale() -> None:
    """Scale 1/epsilon instead of 2/epsilon: a worker who moves changes two cells."""
    assert audited(Fraction(2)).epsilon > 1
