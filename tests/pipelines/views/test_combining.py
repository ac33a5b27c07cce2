"""The combining rules: by hand, their example, and how often their intervals hold what they should."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from pipelines import combine
from pipelines.views import combining


def test_by_hand() -> None:
    # q = 1, 2, 3: mean 2, B = 1. u = 0.3 each.
    estimates, variances = [1, 2, 3], [0.2, 0.3, 0.4]
    imputed = combine(estimates, variances, "imputed")
    assert imputed.estimate == 2
    assert imputed.variance == pytest.approx(0.3 + 4 / 3)
    assert imputed.degrees_of_freedom == pytest.approx(2 * (1 + 0.3 / (4 / 3)) ** 2)
    fully = combine(estimates, variances, "fully")
    assert fully.variance == pytest.approx(4 / 3 - 0.3)
    assert fully.degrees_of_freedom == 2
    partially = combine(estimates, variances, "partially")
    assert partially.variance == pytest.approx(0.3 + 1 / 3)
    assert partially.degrees_of_freedom == pytest.approx(2 * (1 + 0.3 / (1 / 3)) ** 2)
    half = scipy.stats.t.ppf(0.95, partially.degrees_of_freedom) * math.sqrt(partially.variance)
    narrow = combine(estimates, variances, "partially", level=0.9).interval
    assert narrow == pytest.approx((2 - half, 2 + half))


@pytest.mark.parametrize(
    ("estimates", "variances"),
    [([1.0, 1.1], [1.0, 3.0]), ([0.29, 0.31, 0.33, 0.35, 0.37], [0.00111] * 5)],
    ids=["negative", "next to nothing"],
)
def test_a_difference_of_variances_is_at_least_that_of_the_data(estimates: list, variances: list) -> None:
    """The published degrees of freedom of the second are 0.007, and its interval has no end."""
    result = combine(estimates, variances, "fully")
    within, m = np.mean(variances), len(estimates)
    assert (result.variance, result.degrees_of_freedom) == (within, m - 1)
    half = scipy.stats.t.ppf(0.975, m - 1) * math.sqrt(within)
    assert result.interval[1] - result.estimate == pytest.approx(half)


@pytest.mark.parametrize("rule", ["imputed", "partially"])
def test_equal_implicates_are_one_analysis(rule: combining.Rule) -> None:
    result = combine([5, 5, 5], [4, 4, 4], rule)
    assert (result.variance, result.degrees_of_freedom) == (4, math.inf)


def test_refused() -> None:
    for estimates, variances, rule, level, said in (
        ([1], [1], "fully", 0.95, "at least two"),
        ([1, 2], [1], "fully", 0.95, "at least two"),
        ([1, np.nan], [1, 1], "fully", 0.95, "finite"),
        ([1, 2], [1, -1], "fully", 0.95, "not negative"),
        ([1, 2], [1, 1], "fully", 1.0, "between 0 and 1"),
        ([1, 2], [1, 1], "other", 0.95, "no rule 'other'"),
    ):
        with pytest.raises(ValueError, match=said):
            combine(estimates, variances, rule, level=level)  # type: ignore[arg-type]


N, SHARE = 500, 1 / 3


def simulate(rule: combining.Rule, m: int, repetitions: int = 4000, *, one_urn: bool = False) -> np.ndarray:
    """95 % intervals of a share, with implicates as this program makes, if there were no noise to speak of.

    A third of the population lives in one cell. Of 500 sampled jobs the homes are drawn anew m times from the
    Dirichlet posterior, with 0.01 prior workers a cell; from one distribution if all are of one urn.
    """
    generator, prior = np.random.default_rng(1), 0.01
    true = generator.binomial(N, SHARE, repetitions)
    posterior = generator.beta(true + prior, N - true + prior, (1 if one_urn else m, repetitions))
    estimates = generator.binomial(N, posterior, (m, repetitions)) / N
    variances = estimates * (1 - estimates) / N
    return np.array([combine(q, u, rule).interval for q, u in zip(estimates.T, variances.T, strict=True)])


def coverage(rule: combining.Rule, m: int, *, one_urn: bool = False) -> float:
    """How often they hold the population's share. 4,000 repetitions: a standard error of 0.0034."""
    low, high = simulate(rule, m, one_urn=one_urn).T
    return float(np.mean((low <= SHARE) & (high >= SHARE)))


@pytest.mark.slow
@pytest.mark.parametrize("m", [3, 20])
def test_coverage_of_partially_synthetic_data(m: int) -> None:
    assert coverage("partially", m) == pytest.approx(0.95, abs=0.012)


def test_two_implicates_err_where_the_docstring_says() -> None:
    assert 0.92 < coverage("partially", 2) < 0.945


@pytest.mark.parametrize(("m", "held", "median", "widest"), [(5, 0.99, 1.45, 3.7), (20, 0.97, 1.1, 1.9)])
def test_coverage_and_width_of_fully_synthetic_data(
    m: int, held: float, median: float, widest: float
) -> None:
    """An interval that always holds the truth may say nothing: widths are of the real data's interval."""
    low, high = simulate("fully", m).T
    assert np.mean((low <= SHARE) & (high >= SHARE)) == pytest.approx(held, abs=0.012)
    width = (high - low) / (2 * 1.96 * math.sqrt(SHARE * (1 - SHARE) / N))
    assert np.median(width) == pytest.approx(median, abs=0.05)
    assert np.quantile(width, 0.99) == pytest.approx(widest, rel=0.1)


@pytest.mark.slow
def test_many_fully_synthetic_implicates_are_near_nominal() -> None:
    assert coverage("fully", 50) == pytest.approx(0.96, abs=0.01)


@pytest.mark.slow
def test_implicates_of_one_urn_hide_what_they_share() -> None:
    """What the urn happened to become is the same in all of them, and in no variance between them."""
    assert coverage("partially", 3, one_urn=True) == pytest.approx(0.863, abs=0.015)


@pytest.mark.slow
def test_coverage_of_imputed_data() -> None:
    """A sample of 500 with 150 values missing at random, filled in from the posterior of the others."""
    generator, n, missing, m, share = np.random.default_rng(2), 500, 150, 5, 1 / 3
    seen = generator.binomial(n - missing, share, 4000)
    posterior = generator.beta(seen + 0.5, n - missing - seen + 0.5, (m, 4000))
    estimates = (seen + generator.binomial(missing, posterior)) / n
    variances = estimates * (1 - estimates) / n
    intervals = [combine(q, u, "imputed").interval for q, u in zip(estimates.T, variances.T, strict=True)]
    held = np.mean([low <= share <= high for low, high in intervals])
    assert held == pytest.approx(0.95, abs=0.012)


@pytest.mark.slow
def test_the_wrong_rule_is_seen() -> None:
    """The simulation can tell: rules for other kinds of implicates miss the nominal coverage."""
    assert coverage("imputed", 5) > 0.98
    generator = np.random.default_rng(3)  # one synthetic table, analysed as if it were real
    true = generator.binomial(500, 1 / 3, 4000)
    shares = generator.binomial(500, generator.beta(true + 0.01, 500 - true + 0.01)) / 500
    held = np.abs(shares - 1 / 3) <= 1.96 * np.sqrt(shares * (1 - shares) / 500)
    assert held.mean() < 0.9


def test_posterior_draws_are_combined_between_their_quantiles() -> None:
    draws = np.random.default_rng(3).permutation(np.arange(100.0))
    result = combine(draws, None, "posterior", level=0.9)
    assert result.interval == (4.0, 95.0), "the fifth and the 96th of 100: as intervals of counts"
    assert (result.estimate, result.degrees_of_freedom) == (49.5, math.inf)
    assert result.variance == pytest.approx(np.var(draws, ddof=1))
    assert combine(draws[:39], None, "posterior").interval == (draws[:39].min(), draws[:39].max())
    for estimates, variances, rule, said in (
        (draws[:38], None, "posterior", "at least 39 draws"),
        (draws, np.ones(100), "posterior", "no variances"),
        ([1, np.inf], None, "posterior", "finite"),
        ([1, 2], None, "partially", "needs the variance"),
    ):
        with pytest.raises(ValueError, match=said):
            combine(estimates, variances, rule)  # type: ignore[arg-type]


def test_combined_posterior_draws_cover() -> None:
    """A third of 500 jobs, seen with noise: the posterior's interval holds it, the other rule's need not."""
    generator, noise, repetitions = np.random.default_rng(4), 12.0, 2_000
    held = {"posterior": 0, "partially": 0}
    for true in generator.binomial(N, SHARE, repetitions):
        seen = true + noise * generator.standard_normal()
        prior = N * SHARE * (1 - SHARE)
        middle = (seen * prior + N * SHARE * noise**2) / (prior + noise**2)
        draws = generator.normal(middle, (1 / (1 / prior + 1 / noise**2)) ** 0.5, 39)
        low, high = combine(draws, None, "posterior").interval
        held["posterior"] += low <= true <= high
        low, high = combine(draws, np.zeros(39), "partially").interval
        held["partially"] += low <= true <= high
    assert held["posterior"] / repetitions == pytest.approx(0.95, abs=0.015)
    assert held["partially"] / repetitions < 0.5
