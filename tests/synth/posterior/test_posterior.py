"""Posteriors of noisy counts against sums written out in plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import gammaln, softmax

from synth.noise import Law
from synth.posterior.counts import (
    Deviations,
    _log_likelihoods,
    _moments,
    _moments_of_ones,
    bring_within_reach,
    least_loss,
    likeliest_deviations,
    posterior,
    reach,
)

from ..measured_reference import (
    at_least,
    gaussian,
    limits_of,
    log_likelihood,
    log_odds,
    losses,
    posterior_means,
)

cells = st.lists(st.tuples(st.integers(-6, 14), st.floats(0.01, 5.0)), min_size=2, max_size=6)
laws = st.sampled_from([Law(0.02), Law(0.2), Law(0.6), gaussian(0.2), gaussian(1.5), gaussian(9.0)])
mixtures = st.sampled_from(
    [Deviations(8.0, 0.5, 0.3), Deviations(200.0, 8.0, 0.05), Deviations(200.0, 0.5, 1e-4)]
)
SOME = Deviations(20.0, 2.0, 0.1)


def group(case: list[tuple[int, float]], n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Noisy counts, offsets, expected counts that add up, and size of one group."""
    expected = np.array([m for _, m in case])
    y = np.array([y for y, _ in case])
    return y, np.array([0, len(case)]), expected * n / expected.sum(), np.array([n])


@settings(max_examples=10, deadline=None)
@given(cells, st.integers(1, 20), mixtures, laws)
@example([(0, 1.0), (0, 2.0)], 10, Deviations(200.0, 8.0, 0.05), Law(0.2))  # a shape above the group's size
def test_posterior_means_are_the_plain_ones(case: list, n: int, deviations: Deviations, p: Law) -> None:
    y, offsets, expected, sizes = group(case, n)
    mean, variance = posterior(y, offsets, expected, sizes, deviations, p)
    assert mean.sum() == pytest.approx(n)
    assert (variance >= 0).all()
    assert mean == pytest.approx(
        posterior_means(y.tolist(), expected.tolist(), n, deviations, p), rel=1e-3, abs=1e-3
    )


@pytest.mark.parametrize(
    ("odds", "p", "most"), [(1.0, 0.1, 500), (0.7, 0.9, 40), (6.0, 0.1, 3), (0.5, 1e-14, 1)]
)
def test_moments_of_many_cells_are_those_of_each(odds: float, p: float, most: int) -> None:
    """Bit for bit, whatever a processor computes side by side."""
    shape = np.append(np.geomspace(1e-12, 3.9, 300), 1e-300)
    cells = np.arange(0, 301, 2)
    total, mean, variance = np.zeros((3, 301))
    _moments_of_ones(cells, shape, odds, p, most, total, mean, variance)
    alone = [_moments(1, shape[c], odds, Law(p), most) for c in cells]
    assert np.stack([total, mean, variance], axis=1)[cells].tolist() == [list(one) for one in alone]
    assert not mean[1::2].any()


@pytest.mark.parametrize("law", [Law(0.3), gaussian(2.0)])
def test_groups_of_several_sizes_have_the_bits_of_each(law: Law) -> None:
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
        together = function(y, offsets, expected, n, SOME, law)
        for g, (a, b) in enumerate(itertools.pairwise(offsets.tolist())):
            alone = function(y[a:b], np.array([0, b - a]), expected[a:b], n[g : g + 1], SOME, law)
            assert together[:, a:b].tobytes() == alone.tobytes()


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 5), st.floats(0.05, 3.0)), min_size=2, max_size=4),
    st.integers(1, 5),
    mixtures,
    laws,
)
def test_no_whole_counts_lose_less(case: list, n: int, deviations: Deviations, p: Law) -> None:
    y, offsets, expected, sizes = group(case, n)
    counts = least_loss(y, offsets, expected, sizes, deviations, p)
    assert counts.sum() == pytest.approx(n)
    assert (counts >= 0).all()
    choices = [*range(n + 1), *counts.tolist()]
    loss = losses(choices, y.tolist(), expected.tolist(), n, deviations, p)
    within = [range(low, high + 1) for low, high in limits_of(y.tolist(), n, p)]
    best = min(
        sum(of[j] for of, j in zip(loss, other, strict=True))
        for other in itertools.product(*within)
        if sum(other) == n
    )
    assert sum(of[j] for of, j in zip(loss, counts.tolist(), strict=True)) <= best + 1e-4


@settings(max_examples=30, deadline=None)
@given(cells, st.integers(1, 20), laws)
def test_likelihoods_differ_between_concentrations_as_the_plain_ones_do(case: list, n: int, p: Law) -> None:
    y, offsets, expected, sizes = group(case, n)
    fast, plain = [], []
    for kappa in (1.0, 64.0):
        logs = np.empty(y.size)
        _log_likelihoods(y, offsets, expected, sizes, kappa, p, np.empty(0), logs)
        fast.append(logs.sum())
        one = Deviations(kappa, kappa, 0.5)
        plain.append(log_likelihood(y.tolist(), expected.tolist(), n, one, p))
    assert fast[1] - fast[0] == pytest.approx(plain[1] - plain[0], rel=1e-5, abs=1e-6)


def counted(share: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Noisy counts of 300 groups of ratio 0.3, of which a share deviates much more from what is expected."""
    generator = np.random.default_rng(seed)
    n, k = generator.integers(50, 400, 300), 30
    shares = generator.dirichlet(np.full(k, 2.0), n.size)
    kappa = np.where(generator.random(shares.shape) < share, 2.0, 256.0)
    mean = shares * n[:, np.newaxis]
    counts = generator.poisson(mean * generator.gamma(kappa * shares) / (kappa * shares))
    noise = generator.geometric(0.7, counts.shape) - generator.geometric(0.7, counts.shape)
    return (counts + noise).ravel(), np.arange(n.size + 1) * k, mean.ravel(), n


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_what_deviates_much_is_told_from_what_does_not(share: float) -> None:
    found = likeliest_deviations(*counted(share, 2), Law(0.3))
    assert 1 <= found.far <= 8
    assert 64 <= found.near <= 1024
    assert 0.6 * share < found.share < 1.7 * share


def test_a_count_24_deviations_of_noise_off_survives_among_many_that_are_near() -> None:
    """As the flow of Rhode Island that had 106 jobs, a noisy count of 107, and was released with 23."""
    p = np.exp(-0.5)  # epsilon 1: noise has a deviation of 2.8
    generator = np.random.default_rng(1)
    n, k = np.full(60, 2000), 100
    mean = generator.dirichlet(np.full(k, 1.0), n.size) * 2000
    true = generator.poisson(mean)
    cell, other = np.argsort(mean[0])[[50, 99]]
    true[0, [cell, other]] += [70, -70]
    noise = generator.geometric(1 - p, true.shape) - generator.geometric(1 - p, true.shape)
    given = (true + noise).ravel(), np.arange(n.size + 1) * k, mean.ravel(), n
    deviations = likeliest_deviations(*given, Law(p))
    assert deviations.near >= 1024
    for find in (lambda *of: posterior(*of)[0], least_loss):
        counts = find(*given, deviations, Law(p)).reshape(true.shape)
        assert abs(counts[0, cell] - true[0, cell]) < 10
        assert np.abs(counts - true).sum() < 0.9 * np.abs(noise).sum()  # others are still near


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-40, 60), st.floats(0.01, 5.0)), min_size=1, max_size=6),
    st.integers(1, 60),
    mixtures,
    st.sampled_from([Law(1e-9), Law(0.02), Law(0.3), Law(0.6), gaussian(0.02), gaussian(4.0)]),
)
def test_no_count_is_farther_from_its_noisy_one_than_noise_goes(
    case: list, n: int, deviations: Deviations, p: Law
) -> None:
    y, offsets, expected, sizes = group(case, n)
    limits = limits_of(y.tolist(), n, p)
    low, high = map(np.array, zip(*limits, strict=True))
    moved = expected.copy()
    off = bring_within_reach(moved, y, offsets, sizes, p)
    assert off == pytest.approx(max(0.0, (low - expected).max(), (expected - high).max()))
    means, _ = posterior(y, offsets, expected, sizes, deviations, p)
    for counts in (means, least_loss(y, offsets, expected, sizes, deviations, p), moved):
        assert counts.sum() == pytest.approx(n)
        assert (counts >= low - 1e-9).all()
        assert (counts <= high + 1e-9).all()


@pytest.mark.parametrize(
    "law", [*map(Law, (1e-18, 0.01, 0.3, 0.6065, 0.95)), *map(gaussian, (0.01, 0.3, 5.0, 900.0))]
)
def test_noise_is_out_of_reach_once_in_a_million_times(law: Law) -> None:
    far = reach(law)
    assert at_least(far + 1, law) <= 1e-6
    assert far == 0 or at_least(far, law) > 1e-6


def means_by_logarithms(
    y: np.ndarray, expected: np.ndarray, n: int, deviations: Deviations, p: Law
) -> np.ndarray:
    """Posterior means where weights are larger than floats hold."""
    x = np.arange(n + 1)
    low, high = map(np.array, zip(*limits_of(y.tolist(), n, p), strict=True))
    each = []
    for kappa, chance in ((deviations.near, 1 - deviations.share), (deviations.far, deviations.share)):
        shape, z = kappa * expected[:, np.newaxis] / n, n / (n + kappa)
        log = gammaln(shape + x) - gammaln(shape) - gammaln(x + 1) + x * np.log(z) + shape * np.log(1 - z)
        each.append(log + np.log(chance))
    logs = np.logaddexp(*each) + log_odds(y[:, np.newaxis] - x, p)

    def means(tilt: float) -> np.ndarray:
        weights = softmax(logs + x * tilt, axis=1)
        return np.clip((weights * x).sum(axis=1), low, high)

    return means(brentq(lambda tilt: means(tilt).sum() - n, -250.0, 250.0, xtol=1e-12))


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
    mixtures = Deviations(512.0, 0.5, 0.1), Deviations(16384.0, 512.0, 1e-3)
    laws = Law(0.015), Law(0.3), Law(0.9), gaussian(4.0), gaussian(30.0)
    for deviations, p in itertools.product(mixtures, laws):
        mean, variance = posterior(counts, offsets, means, sizes, deviations, p)
        assert np.isfinite(variance).all(), (deviations, p)
        # Where nothing was counted, sums go on beyond the size of the group, which costs a little.
        assert mean == pytest.approx(means_by_logarithms(counts, means, n, deviations, p), rel=5e-3, abs=2.0)
        whole = least_loss(counts, offsets, means, sizes, deviations, p)
        assert whole.sum() == pytest.approx(n)
        assert (whole >= 0).all()
    found = likeliest_deviations(counts, offsets, means, sizes, Law(0.9))
    assert 0 < found.share < 1
    assert found.far < found.near


def test_counts_with_variances_of_their_own_have_the_posterior_of_a_grid() -> None:
    """Counts need not be whole, and no cell's noise need be that of another."""
    rng = np.random.default_rng(8)
    n, k = 60, 7
    expected = rng.dirichlet(np.full(k, 2.0)) * n
    seen = expected + rng.normal(0, 2, k)
    own = rng.uniform(0.4, 8, k)
    law, offsets, sizes = gaussian(9.0), np.array([0, k]), np.array([n])
    mean, variance = posterior(seen, offsets, expected, sizes, SOME, law, own)
    x = np.arange(n + 1)

    def moments(tilt: float) -> tuple[np.ndarray, np.ndarray]:
        means, variances = np.empty(k), np.empty(k)
        for c in range(k):
            logs = []
            for kappa, part in ((SOME.near, 1 - SOME.share), (SOME.far, SOME.share)):
                shape = kappa * expected[c] / n
                of_count = gammaln(shape + x) - gammaln(shape) - gammaln(x + 1)
                of_count += shape * np.log(kappa / (n + kappa)) + x * np.log(n / (n + kappa))
                logs.append(np.log(part) + of_count)
            log = np.logaddexp(*logs) - (x - seen[c]) ** 2 / (2 * own[c]) + tilt * x
            weight = np.exp(log - log.max())
            weight /= weight.sum()
            means[c] = weight @ x
            variances[c] = weight @ x**2 - means[c] ** 2
        return means, variances

    tilt = brentq(lambda tilt: moments(tilt)[0].sum() - n, -5, 5)
    means, variances = moments(tilt)
    assert mean == pytest.approx(means, abs=2e-3)
    assert variance == pytest.approx(variances, rel=2e-2)
    whole = least_loss(seen, offsets, expected, sizes, SOME, law, own)
    assert whole.sum() == pytest.approx(n)
    assert np.abs(whole - means).max() < 2


@pytest.mark.parametrize("law", [gaussian(2.0), gaussian(9.0)])
def test_variances_that_are_those_of_the_law_change_nothing(law: Law) -> None:
    y, offsets, expected, sizes = group([(3, 2.0), (-2, 1.0), (9, 4.0), (0, 0.1)], 11)
    own = np.full(y.size, -0.5 / np.log(law.first))
    for function in (lambda *of: posterior(*of)[0], least_loss):
        given = offsets, expected, sizes, SOME, law
        assert function(y.astype(np.float64), *given, own) == pytest.approx(function(y, *given), abs=1e-9)
    alone = likeliest_deviations(y, offsets, expected, sizes, law)
    assert likeliest_deviations(y.astype(np.float64), offsets, expected, sizes, law, own)[:2] == alone[:2]
