"""The paper's calibrations: its tables, and the bracketed maximum against all counts x."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.config.sections import PlanSettings
from synth.dirichlet.losses import PoolClass
from synth.dirichlet.paper import paper_prior, theorem1_prior
from synth.dirichlet.pruning import pruning_gain
from synth.tails import rigorous, upper_fraction

MILLION = 10**6


@pytest.mark.parametrize(("gain", "printed"), [(5, "0.25"), (10, "0.11"), (20, "0.053"), (50, "0.020")])
def test_theorem_1_gives_the_tutorials_table(gain: int, printed: str) -> None:
    prior = theorem1_prior(MILLION, Fraction(gain))
    assert prior == Fraction(MILLION, gain - 1)
    assert f"{float(prior) / 1e6:#.2g}" == printed or f"{float(prior) / 1e6:.3f}" == printed


@pytest.mark.parametrize(
    ("gain", "tutorial", "digits"),
    [(5, 17.5, 17.49), (10, 5.5, 5.52), (20, 2.16, 2.16), (50, 0.74, 0.742)],
)
def test_the_probabilistic_calibration_gives_the_tutorials_table(
    gain: int, tutorial: float, digits: float
) -> None:
    prior = paper_prior(MILLION, MILLION, 10**4, Fraction(gain), Fraction(1, MILLION))
    assert float(f"{prior:.4g}" if gain == 5 else f"{prior:.3g}") == digits
    assert abs(prior - tutorial) <= {5: 0.05, 10: 0.05, 20: 0.005, 50: 0.005}[gain]


@pytest.mark.parametrize(("gain", "digits"), [(5, 2.68), (10, 1.37), (20, 0.759), (50, 0.37)])
def test_the_caption_of_the_tutorials_table_belongs_to_other_numbers(gain: int, digits: float) -> None:
    """Eight million blocks and delta = 1e-5, as it says, ask for a sixth to a half of the printed noise."""
    prior = paper_prior(MILLION, MILLION, 8 * MILLION, Fraction(gain), Fraction(1, 10**5))
    assert float(f"{prior:.3g}") == digits
    printed = paper_prior(MILLION, MILLION, 10**4, Fraction(gain), Fraction(1, MILLION))
    assert 0.15 < prior / printed < 0.51


def test_what_pruning_costs_is_both_of_the_tutorials_losses_not_the_larger() -> None:
    """OnTheMap's f_min = 0.0378 and noise of one: 3.95, where ln(1/f_min) is 3.28 and the tutorial says 4."""
    kept = Fraction(PlanSettings(preset="onthemap").retention_min)
    q, cells = 10**6, (2,)
    one = PoolClass(MILLION, MILLION, MILLION, cells, cells, (0,), Fraction(2), (q,), (kept,), q)
    with rigorous() as balls:
        gain = float(upper_fraction(pruning_gain(one, balls)))
    least = math.log(1 / kept)
    assert round(least, 2) == 3.28
    assert round(least + math.log(gain), 2) == 3.95
    assert math.log(max(2, 1 / kept)) == least
    assert least < least + math.log(gain) < math.log(2 / kept)


def largest_log_mass(n: int, m: int, k: int, odds: float, a: float) -> float:
    """The maximum over all x, one after the other, counts whose f(x) reaches m left out."""
    worst = -math.inf
    for x in range(n + 1):
        f = odds * (a + max(x - 1, 0))
        b = n - x + (k - 1) * a
        if f >= m or b <= 0:
            continue
        w = x + a
        parts = [
            (1, m + 1), (-1, f + 1), (-1, m - f + 1), (1, w + f), (1, b + m - f), (-1, w + b + m),
            (-1, w), (-1, b), (1, w + b),
        ]  # fmt: skip
        worst = max(worst, sum(sign * math.lgamma(z) for sign, z in parts))
    return worst


@settings(max_examples=150)
@given(
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(2, 300),
    st.sampled_from([Fraction(5, 2), Fraction(5), Fraction(10), Fraction(50)]),
    st.sampled_from([Fraction(1, 10), Fraction(1, 1000), Fraction(1, 10**9)]),
)
def test_the_maximum_is_over_all_counts(n: int, m: int, k: int, gain: Fraction, delta: Fraction) -> None:
    prior = paper_prior(n, m, k, gain, delta)
    assert 0 < prior <= float(theorem1_prior(m, gain))
    limit = math.log(float(delta * (gain - 2) / (2 * k * gain)))
    odds = float(gain - 1)
    assert largest_log_mass(n, m, k, odds, prior * (1 + 1e-9)) <= limit + 1e-6
    assert largest_log_mass(n, m, k, odds, prior * (1 - 1e-8)) > limit - 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("gain", [5, 50])
def test_the_maximum_is_over_all_counts_of_a_million(gain: int) -> None:
    delta = Fraction(1, MILLION)
    prior = paper_prior(MILLION, MILLION, 10**4, Fraction(gain), delta)
    limit = math.log(float(delta * (gain - 2) / (2 * 10**4 * gain)))
    assert largest_log_mass(MILLION, MILLION, 10**4, gain - 1, prior) == pytest.approx(limit, abs=1e-4)


def test_a_pool_of_one_worker_needs_theorem_1() -> None:
    assert paper_prior(1, 1, 200, Fraction(5), Fraction(1, 10**9)) == pytest.approx(0.25)
