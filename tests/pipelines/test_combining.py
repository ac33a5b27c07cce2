"""The combining rules: by hand, their example, and how often their intervals hold what they should."""

from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
import scipy.stats

from pipelines import combine, combining


def test_worked_example() -> None:
    assert doctest.testmod(combining).failed == 0
    assert doctest.testmod(combining).attempted >= 3


def test_by_hand() -> None:
    # q = 1, 2, 3: mean 2, B = 1. u = 0.3 each.
    estimates, variances = [1, 2, 3], [0.2, 0.3, 0.4]
    imputed = combine(estimates, variances, "imputed")
    assert imputed.estimate == 2
    assert imputed.variance == pytest.approx(0.3 + 4 / 3)
    assert imputed.degrees_of_freedom == pytest.approx(2 * (1 + 0.3 / (4 / 3)) ** 2)
    fully = combine(estimates, variances, "fully")
    assert fully.variance == pytest.approx(4 / 3 - 0.3)
    assert fully.degrees_of_freedom == pytest.approx(2 * (1 - 0.3 / (4 / 3)) ** 2)
    partially = combine(estimates, variances, "partially")
    assert partially.variance == pytest.approx(0.3 + 1 / 3)
    assert partially.degrees_of_freedom == pytest.approx(2 * (1 + 0.3 / (1 / 3)) ** 2)
    half = scipy.stats.t.ppf(0.95, partially.degrees_of_freedom) * math.sqrt(partially.variance)
    narrow = combine(estimates, variances, "partially", level=0.9).interval
    assert narrow == pytest.approx((2 - half, 2 + half))


def test_negative_variance_is_replaced() -> None:
    result = combine([1.0, 1.1], [1.0, 3.0], "fully")
    assert result.variance == 2
    assert result.degrees_of_freedom == math.inf
    assert result.interval[1] - 1.05 == pytest.approx(1.959964 * math.sqrt(2))


@pytest.mark.parametrize("rule", ["imputed", "partially"])
def test_equal_implicates_are_one_analysis(rule: combining.Rule) -> None:
    result = combine([5, 5, 5], [4, 4, 4], rule)
    assert (result.variance, result.degrees_of_freedom) == (4, math.inf)


@pytest.mark.parametrize(
    ("estimates", "variances", "rule", "level", "said"),
    [
        ([1], [1], "fully", 0.95, "at least two"),
        ([1, 2], [1], "fully", 0.95, "at least two"),
        ([1, np.nan], [1, 1], "fully", 0.95, "finite"),
        ([1, 2], [1, -1], "fully", 0.95, "not negative"),
        ([1, 2], [1, 1], "fully", 1.0, "between 0 and 1"),
        ([1, 2], [1, 1], "other", 0.95, "no rule 'other'"),
    ],
)
def test_refused(estimates: list, variances: list, rule: combining.Rule, level: float, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        combine(estimates, variances, rule, level=level)


def coverage(
    rule: combining.Rule, m: int, repetitions: int, seed: int = 1, *, one_urn: bool = False
) -> float:
    """How often the 95 % interval of a share holds the population's, with implicates as this program makes.

    A third of the population lives in one cell. Of 500 sampled jobs the homes are drawn anew m times from the
    Dirichlet posterior, with 0.01 prior workers a cell; from one distribution if all are of one urn.
    """
    generator, n, share, prior = np.random.default_rng(seed), 500, 1 / 3, 0.01
    true = generator.binomial(n, share, repetitions)
    posterior = generator.beta(true + prior, n - true + prior, (1 if one_urn else m, repetitions))
    estimates = generator.binomial(n, posterior, (m, repetitions)) / n
    variances = estimates * (1 - estimates) / n
    intervals = [combine(q, u, rule).interval for q, u in zip(estimates.T, variances.T, strict=True)]
    return float(np.mean([low <= share <= high for low, high in intervals]))


@pytest.mark.slow
@pytest.mark.parametrize("m", [3, 5, 20])
def test_coverage_of_partially_synthetic_data(m: int) -> None:
    # 4,000 repetitions: a standard error of 0.0034.
    assert coverage("partially", m, 4000) == pytest.approx(0.95, abs=0.012)


@pytest.mark.slow
@pytest.mark.parametrize("m", [100, 200])
def test_coverage_of_fully_synthetic_data(m: int) -> None:
    assert coverage("fully", m, 4000) == pytest.approx(0.95, abs=0.012)


@pytest.mark.slow
def test_few_implicates_err_where_the_docstring_says() -> None:
    assert 0.92 < coverage("partially", 2, 4000) < 0.945
    assert coverage("fully", 20, 4000) > 0.98  # the variance is a difference, and uncertain


@pytest.mark.slow
@pytest.mark.parametrize(("m", "held"), [(3, 0.863), (20, 0.836)])
def test_implicates_of_one_urn_hide_what_they_share(m: int, held: float) -> None:
    """What the urn happened to become is the same in all of them, and in no variance between them."""
    assert coverage("partially", m, 4000, one_urn=True) == pytest.approx(held, abs=0.015)


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
    assert coverage("imputed", 5, 4000) > 0.98
    generator = np.random.default_rng(3)  # one synthetic table, analysed as if it were real
    true = generator.binomial(500, 1 / 3, 4000)
    shares = generator.binomial(500, generator.beta(true + 0.01, 500 - true + 0.01)) / 500
    held = np.abs(shares - 1 / 3) <= 1.96 * np.sqrt(shares * (1 - shares) / 500)
    assert held.mean() < 0.9
