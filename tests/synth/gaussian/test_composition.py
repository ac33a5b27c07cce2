"""Releases that all have discrete Gaussian noise: their epsilon is above the exact one, and not by much."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_discrete_gaussian_mechanism

import synth
from synth.concentrated import epsilon_of, rho_within
from synth.gaussian.composition import gaussian_epsilon_of, gaussian_rho_within, rounding_variance
from synth.gaussian.parameters import GaussianParameters
from synth.tails import rigorous

pytestmark = pytest.mark.quick
DELTA = Fraction("1e-5")


def law(variance: float, around: int = 0, reach: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """The numbers around 0, and the probabilities of discrete Gaussian noise around another."""
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-((x - around) ** 2) / (2 * variance))
    return x, weights / weights.sum()


@pytest.mark.parametrize("variance", ["1", "1.5", "4", "13.5", "100"])
def test_discrete_gaussian_noise_is_rounded_gaussian_noise(variance: str) -> None:
    """By an integral over a grid, which is exact to the last digits for such functions."""
    with rigorous() as balls:
        less = float(rounding_variance(Fraction(variance), balls))
    of_y, step = float(Fraction(variance)) - less, 1 / 64
    reach = math.ceil(9 * math.sqrt(float(Fraction(variance))))
    y = np.arange(-reach, reach, step)
    density = np.exp(-(y**2) / (2 * of_y)) / math.sqrt(2 * math.pi * of_y)
    near = np.arange(-reach - 20, reach + 21)
    normalizer = np.exp(-((near[:, None] - y) ** 2) / (2 * less)).sum(axis=0)
    x, exact = law(float(Fraction(variance)), reach=reach)
    rounded = np.array(
        [(density * np.exp(-((k - y) ** 2) / (2 * less)) / normalizer).sum() * step for k in x]
    )
    likely = exact > 1e-9
    assert np.abs(np.log(rounded[likely] / exact[likely])).max() < 5 * math.exp(-12) / float(
        Fraction(variance)
    )


def exact_delta(variance: float, releases: int, epsilon: float, times: int = 1) -> float:
    """Of two counts a release that change by one or more, by all sums of their noise, which tell the loss."""
    counts = 2 * releases
    _, one = law(variance, reach=math.ceil(12 * math.sqrt(variance)))
    total = np.array([1.0])
    for _ in range(counts):
        total = np.convolve(total, one)
    x = np.arange(total.size) - total.size // 2
    above = [total[times * x > epsilon * variance + side * times**2 * counts / 2].sum() for side in (-1, 1)]
    return float(above[0] - math.exp(epsilon) * above[1])


@pytest.mark.parametrize(("variance", "releases"), [(1, 1), (2, 2), (5, 7), (14, 20), (40, 10), (554, 20)])
@pytest.mark.parametrize("delta", [DELTA, Fraction("1e-3")])
def test_the_exact_epsilon_is_smaller_and_not_much(variance: int, releases: int, delta: Fraction) -> None:
    stated = gaussian_epsilon_of([Fraction(1, variance)] * releases, delta)
    assert stated is not None
    assert exact_delta(variance, releases, float(stated)) <= delta
    assert exact_delta(variance, releases, float(stated / (1 + Fraction(3, 2 + variance)))) > delta
    if variance > 5:
        assert stated < epsilon_of(Fraction(releases, variance), delta)


@pytest.mark.parametrize(("variance", "releases", "times"), [(7, 10, 2), (20, 3, 3), (554, 20, 5)])
def test_a_person_with_several_records(variance: int, releases: int, times: int) -> None:
    """Both counts change by all of them at most; noise is no smaller for that."""
    stated = gaussian_epsilon_of([Fraction(1, variance)] * releases, DELTA, times)
    assert stated is not None
    assert exact_delta(variance, releases, float(stated), times) <= DELTA
    assert exact_delta(variance, releases, float(stated) / 1.11, times) > DELTA


def test_dp_accounting_says_less_of_noise_that_is_not_equal() -> None:
    """It composes privacy loss distributions, which it rounds up; these numbers are above it all the same."""
    variances = [6, 9, 9, 20, 50]
    loss = None
    for variance in (v for v in variances for _ in range(2)):  # both counts
        one = from_discrete_gaussian_mechanism(math.sqrt(variance), value_discretization_interval=1e-3)
        loss = one if loss is None else loss.compose(one)
    assert loss is not None
    stated = gaussian_epsilon_of([Fraction(1, variance) for variance in variances], DELTA)
    assert stated is not None
    known = loss.get_epsilon_for_delta(float(DELTA))
    assert known < stated < 1.12 * known
    assert stated < epsilon_of(sum((Fraction(1, v) for v in variances), Fraction(0)), DELTA)


def test_what_twenty_yearly_releases_may_have() -> None:
    """The figures of docs/scheduling.md, docs/ledger.md and docs/privacy.md."""
    for cap, variance, by_zcdp in (("8.6", 13.54, 14.41), ("1", 557.7, 654.6)):
        rho = gaussian_rho_within(Fraction(cap), DELTA, 20)
        together = gaussian_epsilon_of([rho / 20] * 20, DELTA)
        assert together is not None
        assert Fraction(cap) * Fraction("0.999") < together <= Fraction(cap)
        found = GaussianParameters.of_rho(rho / 20).law.variance
        assert variance - 0.1 < found < variance
        assert by_zcdp - 0.1 < 20 / rho_within(Fraction(cap), DELTA) < by_zcdp
    assert synth.decimal_down(rho, 6) == "0.0358655"


def test_a_larger_delta_and_less_rho_need_less_epsilon() -> None:
    rhos, deltas = (
        (Fraction(1, 100), Fraction(1, 10), Fraction(1)),
        (Fraction("1e-9"), DELTA, Fraction(1, 10)),
    )
    table = {(r, d): gaussian_epsilon_of([r, r], d) for r, d in product(rhos, deltas)}
    for (r, d), epsilon in table.items():
        assert epsilon is not None
        for (other, weaker), less in table.items():
            assert less is not None
            assert not (other <= r and weaker >= d) or less <= epsilon


def test_what_the_lemma_says_nothing_of() -> None:
    assert gaussian_epsilon_of([Fraction(1, 2), Fraction(11, 10)], DELTA) is None
    assert gaussian_epsilon_of([], Fraction(0)) == gaussian_epsilon_of([Fraction(0)], Fraction(0)) == 0
    with pytest.raises(ValueError, match="delta must be above 0"):
        gaussian_epsilon_of([Fraction(1, 2)], Fraction(0))
    with pytest.raises(TypeError, match="exact number"):
        gaussian_epsilon_of([0.5], DELTA)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="at least one release"):
        gaussian_rho_within(Fraction(1), DELTA, 0)
