"""Posteriors of noisy counts against sums written out in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammaln, softmax

from synth.posterior.counts import (
    _log_likelihood,
    _moments,
    _moments_of_ones,
    least_loss,
    likeliest_concentration,
    posterior,
)

from ..measured_reference import log_likelihood, losses, posterior_means

cells = st.lists(st.tuples(st.integers(-6, 14), st.floats(0.01, 5.0)), min_size=2, max_size=6)
ratios = st.sampled_from([0.02, 0.2, 0.6])
kappas = st.sampled_from([0.5, 8.0, 200.0])


def group(case: list[tuple[int, float]], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Noisy counts, offsets, expected counts that add up, and size of one group."""
    expected = np.array([m for _, m in case])
    y = np.array([y for y, _ in case])
    return y, np.array([0, len(case)]), expected * n / expected.sum(), np.array([n])


@settings(max_examples=20, deadline=None)
@given(cells, st.integers(1, 20), kappas, ratios)
def test_posterior_means_are_the_plain_ones(case: list, n: int, kappa: float, p: float) -> None:
    y, offsets, expected, sizes = group(case, n)
    mean, variance = posterior(y, offsets, expected, sizes, kappa, p)
    assert mean.sum() == pytest.approx(n)
    assert (variance >= 0).all()
    assert mean == pytest.approx(
        posterior_means(y.tolist(), expected.tolist(), n, kappa, p), rel=1e-3, abs=1e-3
    )


@pytest.mark.parametrize(
    ("odds", "p", "most"), [(1.0, 0.1, 500), (0.7, 0.9, 40), (6.0, 0.1, 3), (0.5, 1e-14, 1)]
)
def test_moments_of_many_cells_are_those_of_each(odds: float, p: float, most: int) -> None:
    """Bit for bit, whatever a processor computes side by side."""
    shape = np.append(np.geomspace(1e-12, 3.9, 300), 1e-300)
    cells = np.arange(0, 301, 2)
    mean, variance = np.zeros(301), np.zeros(301)
    _moments_of_ones(cells, shape, odds, p, most, mean, variance)
    alone = [_moments(1, shape[c], odds, p, most) for c in cells]
    assert np.stack([mean[cells], variance[cells]], axis=1).tolist() == [list(one) for one in alone]
    assert not mean[1::2].any()


def test_groups_of_several_sizes_have_the_bits_of_each() -> None:
    rng = np.random.default_rng(3)
    k, n = np.array([700, 3, 1, 40]), np.array([900, 7, 5, 60])
    offsets = np.append(0, np.cumsum(k))
    y = rng.geometric(0.5, offsets[-1]) * rng.integers(-1, 2, offsets[-1])
    expected = np.concatenate(
        [rng.dirichlet(np.full(size, 0.3)) * jobs for size, jobs in zip(k, n, strict=True)]
    )
    for function in (
        lambda *given: np.stack(posterior(*given)),
        lambda *given: least_loss(*given)[np.newaxis],
    ):
        together = function(y, offsets, expected, n, 20.0, 0.3)
        for g, (a, b) in enumerate(itertools.pairwise(offsets.tolist())):
            alone = function(y[a:b], np.array([0, b - a]), expected[a:b], n[g : g + 1], 20.0, 0.3)
            assert together[:, a:b].tobytes() == alone.tobytes()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 5), st.floats(0.05, 3.0)), min_size=2, max_size=4),
    st.integers(1, 5),
    kappas,
    ratios,
)
def test_no_whole_counts_lose_less(case: list, n: int, kappa: float, p: float) -> None:
    y, offsets, expected, sizes = group(case, n)
    counts = least_loss(y, offsets, expected, sizes, kappa, p)
    assert counts.sum() == pytest.approx(n)
    assert (counts >= 0).all()
    choices = [*range(n + 1), *counts.tolist()]
    loss = losses(choices, y.tolist(), expected.tolist(), n, kappa, p)
    best = min(
        sum(of[j] for of, j in zip(loss, other, strict=True))
        for other in itertools.product(range(n + 1), repeat=len(case))
        if sum(other) == n
    )
    assert sum(of[j] for of, j in zip(loss, counts.tolist(), strict=True)) <= best + 1e-4


@settings(max_examples=30, deadline=None)
@given(cells, st.integers(1, 20), ratios)
def test_likelihoods_differ_between_concentrations_as_the_plain_ones_do(case: list, n: int, p: float) -> None:
    y, offsets, expected, sizes = group(case, n)
    fast = [_log_likelihood(y, offsets, expected, sizes, k, p) for k in (1.0, 64.0)]
    plain = [log_likelihood(y.tolist(), expected.tolist(), n, k, p) for k in (1.0, 64.0)]
    assert fast[1] - fast[0] == pytest.approx(plain[1] - plain[0], rel=1e-5, abs=1e-6)


def test_a_peak_of_the_likelihood_is_the_highest_of_the_grid() -> None:
    generator = np.random.default_rng(2)
    grid = 2.0 ** np.arange(-1, 15)
    for p in (0.05, 0.3, 0.7):
        for alpha in (0.05, 0.5, 5.0):
            n = generator.integers(3, 400, 25)
            offsets = np.arange(26) * 30
            means = np.concatenate([generator.dirichlet(np.full(30, alpha)) * size for size in n])
            noise = generator.geometric(1 - p, means.size) - generator.geometric(1 - p, means.size)
            noisy = generator.poisson(means * generator.gamma(alpha, 1 / alpha, means.size)) + noise
            logs = [_log_likelihood(noisy, offsets, means, n, k, p) for k in grid]
            assert likeliest_concentration(noisy, offsets, means, n, p) == grid[np.argmax(logs)], (p, alpha)


def means_by_logarithms(y: np.ndarray, expected: np.ndarray, n: int, kappa: float, p: float) -> np.ndarray:
    """Posterior means where weights are larger than floats hold."""
    x = np.arange(n + 1)
    shape = kappa * expected[:, np.newaxis] / n
    logs = gammaln(shape + x) - gammaln(shape) - gammaln(x + 1) + np.abs(y[:, np.newaxis] - x) * np.log(p)

    def means(tilt: float) -> np.ndarray:
        weights = softmax(logs + x * tilt, axis=1)
        return (weights * x).sum(axis=1)

    return means(brentq(lambda tilt: means(tilt).sum() - n, -80.0, 5.0, xtol=1e-12))


@pytest.mark.parametrize(
    ("n", "y", "expected"),
    [
        (900, [300, 100, 40, 5, 0, -2], [500.0, 300, 50, 25, 20, 5]),  # half as many were counted
        (900, [1500, 700, 400, 5, 0, -2], [500.0, 300, 50, 25, 20, 5]),  # three times as many
        (2000, [3, 1990, 0, 1], [1950.0, 10, 20, 20]),  # what was expected is elsewhere
        (2000, [0, 0, 0, 0], [1950.0, 10, 20, 20]),
    ],
)
def test_counts_far_from_what_was_expected_have_a_posterior(
    n: int, y: list[int], expected: list[float]
) -> None:
    """As with a public table of workplaces, or public flows, that are wrong of a large group."""
    counts, means, offsets, sizes = np.array(y), np.array(expected), np.array([0, len(y)]), np.array([n])
    for kappa, p in itertools.product((0.5, 512.0, 16384.0), (0.015, 0.3, 0.9)):
        mean, variance = posterior(counts, offsets, means, sizes, kappa, p)
        assert np.isfinite(variance).all(), (kappa, p)
        # Where nothing was counted, sums go on beyond the size of the group, which costs a little.
        assert mean == pytest.approx(means_by_logarithms(counts, means, n, kappa, p), rel=5e-3, abs=2.0)
        whole = least_loss(counts, offsets, means, sizes, kappa, p)
        assert whole.sum() == pytest.approx(n)
        assert (whole >= 0).all()
    assert likeliest_concentration(counts, offsets, means, sizes, 0.9) in 2.0 ** np.arange(-1, 15)
