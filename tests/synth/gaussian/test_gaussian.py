"""The mechanism of discrete Gaussian noise: its exact loss in small cases, plans, certificates, refusals."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism
from numpy.typing import NDArray

from synth import MECHANISMS
from synth.composition import compose
from synth.concentrated import epsilon_of, rho_of_group, rho_within
from synth.dirichlet.calibration import BudgetTooSmallError
from synth.gaussian.mechanism import Gaussian, neighbours
from synth.gaussian.parameters import GaussianParameters
from synth.geometric.mechanism import calibrated_noise
from synth.plan import Domains, Plan, Pools, RecordRange, Table, Target
from synth.policy import Policy
from synth.rationals import decimal_up

from ..builders import pools
from ..geometric.test_geometric import domains

pytestmark = pytest.mark.quick

MECHANISM = Gaussian()
ONE = (Fraction(1),)
DELTA = Fraction(1, 10**5)


def plan_of(
    epsilon: str = "2",
    shares: tuple[str, ...] = (),
    guarantee: str = "dp",
    cells: tuple[int, ...] = (4, 9),
    second: tuple[int, ...] = (3, 3),
) -> Plan:
    target = Target(Fraction(epsilon), DELTA, guarantee)  # type: ignore[arg-type]
    rows = pools((5, 5, 0), (1, 1, 1), (30, 20, 1))
    secondary = [(Table(rows.n, rows.domain, _of(second)), Fraction(share)) for share in shares]
    return MECHANISM.calibrate(rows, _of(cells), ONE, target, secondary=secondary)


def _of(cells: tuple[int, ...]) -> Domains:
    """Domains of so many cells of the same eleven blocks."""
    return replace(domains(*cells), n_blocks=11)


# --- the loss, by sums over all outputs


def mass(variance: float, far: int) -> NDArray[np.float64]:
    odds = np.exp(-(np.arange(-far, far + 1) ** 2.0) / (2 * variance))
    return odds / odds.sum()


def losses_of_a_move(variances: list[float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Loss of another home in every table, and its chance, for all noise that is not negligible."""
    loss, chance = np.zeros(1), np.ones(1)
    for variance in variances:
        far = math.ceil(9 * math.sqrt(variance)) + 2
        z, p = np.arange(-far, far + 1), mass(variance, far)
        # One count has one more, one has one less: ln P(z) - ln P(z + 1) and ln P(z) - ln P(z - 1).
        for step in (1, -1):
            own = ((z + step) ** 2 - z**2) / (2 * variance)
            loss = (loss[:, np.newaxis] + own).ravel()
            chance = (chance[:, np.newaxis] * p).ravel()
    return loss, chance


@pytest.mark.parametrize("variances", [["1/2"], ["2"], ["9"], ["1", "3"], ["1/3", "2"]])
def test_bounds_are_above_the_exact_loss_and_near_it(variances: list[str]) -> None:
    first, *others = (Fraction(text) for text in variances)
    numbers = [GaussianParameters(v.numerator, v.denominator) for v in others]
    plan = plan_of("3", ("1/2",) * len(others))
    own = GaussianParameters(first.numerator, first.denominator, tuple(numbers))
    guarantee = MECHANISM.certify(replace(plan, parameters=own))
    assert guarantee.rho == sum(1 / Fraction(text) for text in variances)
    loss, chance = losses_of_a_move([float(Fraction(text)) for text in variances])
    for alpha in (1.001, 1.5, 2, 4, 9):  # the Renyi divergence of every order
        divergence = math.log(float((chance * np.exp((alpha - 1) * loss)).sum())) / (alpha - 1)
        assert divergence <= alpha * float(guarantee.rho) * (1 + 1e-9)
    points = [(guarantee.record_epsilon, guarantee.record_delta), *guarantee.curve]
    for epsilon, delta in points:
        true = float((chance * np.maximum(0, 1 - np.exp(float(epsilon) - loss))).sum())
        assert true <= float(delta) * (1 + 1e-9)
        assert float(delta) < 8 * true + 1e-12, "near the truth, but for deltas that float sums do not see"
    of_all = neighbours(plan.pools, plan.domains)
    beyond = float(chance[np.abs(loss) > float(guarantee.epsilon)].sum())
    assert of_all * beyond <= guarantee.delta


def test_another_home_changes_the_groups_of_every_table_by_the_square_of_two() -> None:
    """Counts of all groups and all moves of a job: in no table is the squared distance above 2."""
    for shares in ((), ("1/4", "1/4")):
        plan = plan_of("2", shares)
        guarantee = MECHANISM.certify(plan)
        worst = Fraction(0)
        for group, (i, j) in itertools.product(range(3), itertools.combinations(range(11), 2)):
            rho = Fraction(0)
            for table in MECHANISM.tables(plan):
                domain = np.array([table.domain[group]] * 2, np.int32)
                before, after = table.domains.locate(domain, np.array([i, j], np.int32)).tolist()
                rho += Fraction(2 * (before != after)) / (2 * table.parameters.ratio)
            worst = max(worst, rho)
        assert guarantee.rho == worst


def test_of_c_records_that_move_alike_the_rho_is_that_of_their_group() -> None:
    """c jobs from one cell to another one: c^2 times the divergence of one, for whole c."""
    for c, variance in itertools.product((2, 3), (Fraction(2), Fraction(5))):
        far = math.ceil(30 * math.sqrt(variance)) + 40
        z, odds = np.arange(-far, far + 1), np.exp(-(np.arange(-far, far + 1) ** 2.0) / float(2 * variance))
        p = odds / odds.sum()
        for alpha in (1.5, 3.0):
            own = ((z + c) ** 2 - z**2) / float(2 * variance)
            divergence = 2 * math.log(float((p * np.exp((alpha - 1) * own)).sum())) / (alpha - 1)
            assert divergence <= alpha * float(rho_of_group(1 / variance, c)) * (1 + 1e-9)


# --- plans and certificates


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
@pytest.mark.parametrize("epsilon", ["0.05", "1", "8.6"])
@pytest.mark.parametrize("shares", [(), ("3/10",), ("1/5", "1/5")])
def test_a_plan_meets_what_is_asked_for_and_spends_it(
    guarantee: str, epsilon: str, shares: tuple[str, ...]
) -> None:
    plan = plan_of(epsilon, shares, guarantee)
    certified = MECHANISM.certify(plan)
    assert certified.meets(plan)
    assert certified.tightened() == certified
    assert certified.rho is not None
    if guarantee == "dp":
        assert 0.999 * float(DELTA) < float(certified.record_delta) <= float(DELTA)
    else:
        assert certified.delta == DELTA
        assert 0.999 * float(epsilon) < float(certified.epsilon) <= float(epsilon)
    # Shares of rho, and every number is one that a plan holds.
    every = [1 - sum(map(Fraction, shares)), *map(Fraction, shares)]
    for row, share, table in zip(certified.classes, every, MECHANISM.tables(plan), strict=True):
        assert row.numbers["rho"] == (1 / table.parameters.ratio,)
        assert float(row.numbers["rho"][0] / certified.rho) == pytest.approx(float(share), rel=1e-6)
    read = MECHANISM.parameters_from_json(json.loads(json.dumps(plan.parameters.to_json())))
    assert read == plan.parameters
    assert "sigma^2" in repr(read)


def test_a_table_that_no_edge_changes_costs_nothing() -> None:
    plan = plan_of("2", ("1/2",), cells=(1, 1))
    certified = MECHANISM.certify(plan)
    assert [row.numbers["rho"][0] > 0 for row in certified.classes] == [False, True]
    assert certified.rho == certified.classes[1].numbers["rho"][0]
    nothing = MECHANISM.certify(plan_of("2", cells=(1, 1)))
    assert (nothing.rho, nothing.epsilon, nothing.delta, nothing.record_delta) == (0, 0, 0, 0)


def test_of_a_person_with_very_many_records_delta_is_one_and_no_error() -> None:
    certified = MECHANISM.certify(plan_of("8.6"))
    assert certified.of_person(1000) == (1000 * certified.record_epsilon, 1)


@pytest.mark.parametrize(("ratio", "deviation"), [("1/8", 0.19), ("1/2", 0.71), ("4", 2.0)])
def test_the_standard_deviation_that_people_read_is_that_of_the_noise(ratio: str, deviation: float) -> None:
    """Of sigma^2 = 1/8 it is the root of 2 e^-4, and not of 1/8."""
    plan = replace(plan_of(), parameters=GaussianParameters(*Fraction(ratio).as_integer_ratio()))
    added, _ = MECHANISM.explain(plan, MECHANISM.certify(plan))
    assert f"noise, {deviation:.2g} workers up or down as a standard deviation;" in added


def test_the_cost_of_several_runs_is_not_said_to_be_that_of_one() -> None:
    plan = plan_of()
    guarantee = MECHANISM.certify(plan).repeated(2)
    assert guarantee.rho is not None
    _, paid = MECHANISM.explain(plan, guarantee)
    assert paid.endswith(f"the release is {decimal_up(guarantee.rho, 6)}-zCDP")
    assert f"{float(2 / guarantee.rho):.6g}; " in paid  # sigma^2, of one run


def test_several_runs_add_up_in_rho_too() -> None:
    certified = MECHANISM.certify(plan_of())
    three = certified.repeated(3)
    assert three.rho == 3 * certified.rho  # type: ignore[operator]
    assert (three.record_epsilon, three.record_delta) == compose(
        [(certified.record_epsilon, certified.record_delta)] * 3
    )


def test_what_is_wrong_of_a_plan_is_refused() -> None:
    plan = plan_of()
    other = MECHANISMS["geometric"].calibrate(plan.pools, plan.domains, ONE, Target("2", "0"))
    with pytest.raises(TypeError, match="not one of the mechanism gaussian"):
        MECHANISM.certify(replace(plan, parameters=other.parameters))
    with pytest.raises(ValueError, match="from 1/128"):
        MECHANISM.certify(replace(plan, parameters=GaussianParameters(1, 200)))
    with pytest.raises(ValueError, match="its own noise"):
        MECHANISM.certify(replace(plan, parameters=GaussianParameters(1, 1, (GaussianParameters(1, 1),))))
    with pytest.raises(ValueError, match="a delta of 0"):
        MECHANISM.calibrate(plan.pools, plan.domains, ONE, Target("2", "0"))
    unknown = Target("2", "1e-5", record_range=RecordRange(Fraction(1), Fraction(1)))
    with pytest.raises(ValueError, match="homes alone"):
        MECHANISM.calibrate(plan.pools, plan.domains, ONE, unknown)
    with pytest.raises(ValueError, match="homes alone"):
        MECHANISM.certify(replace(plan, target=unknown))


@pytest.mark.parametrize("guarantee", ["pdp", "dp"])
def test_the_smallest_epsilon_that_would_do_does(guarantee: str) -> None:
    with pytest.raises(BudgetTooSmallError) as error:
        plan_of("0.0001", ("1/3",), guarantee)
    smallest = error.value.smallest
    assert smallest is not None
    plan = plan_of(str(smallest), ("1/3",), guarantee)
    assert MECHANISM.certify(plan).meets(plan)


def test_a_policy_of_parts_costs_no_more_and_changes_only_its_part() -> None:
    policy = Policy("parts", np.array([0, 6], np.int32))
    of_parts = Domains.of_parts(11, np.array([0, 3, 6, 8]), policy)
    rows = Pools(np.array([4, 5]), np.array([4, 5]), np.array([0, 1], np.int32))
    plan = MECHANISM.calibrate(rows, of_parts, ONE, Target("2", "1e-5", "dp"))
    full = plan_of("2")
    assert MECHANISM.certify(plan).rho == MECHANISM.certify(full).rho


# --- what it is for


def test_twenty_releases_cost_less_than_with_geometric_noise() -> None:
    """Variance of a count under a cap for all twenty: that of one table, one home, delta 1e-5."""
    found = {}
    for cap in (Fraction("8.6"), Fraction(1)):
        together = GaussianParameters.of_rho(rho_within(cap, DELTA) / 20)
        assert epsilon_of(20 * together.rho, DELTA) <= cap
        found[cap] = together.variance, calibrated_noise(cap / 20).variance
        alone = GaussianParameters.of_rho(rho_within(cap, DELTA))
        assert alone.variance > 4 * calibrated_noise(cap).variance, "of one release, geometric noise is less"
    assert found[Fraction("8.6")][0] < 15 < 43 < found[Fraction("8.6")][1] + 1
    assert found[Fraction(1)][0] < 660 < 3_198 < found[Fraction(1)][1]


@pytest.mark.parametrize("releases", [1, 20])
@pytest.mark.parametrize("epsilon", ["1", "8.6"])
def test_dp_accounting_says_less_of_the_same_noise_and_not_much_less(releases: int, epsilon: str) -> None:
    """By the privacy loss distribution of discrete Gaussian noise in two counts, rounded down."""
    certified = MECHANISM.certify(plan_of(epsilon))
    assert certified.rho is not None
    count = from_discrete_gaussian_mechanism(
        float(1 / certified.rho) ** 0.5, pessimistic_estimate=False, value_discretization_interval=1e-3
    )
    theirs = count.self_compose(2 * releases).get_epsilon_for_delta(float(DELTA))
    ours = float(epsilon_of(releases * certified.rho, DELTA))
    assert theirs < ours < 1.25 * theirs
