"""Draws of differences hold "no change" as often as they should, where models err alike in both counts."""

from __future__ import annotations

import numpy as np
import pytest

from synth.posterior.differences import differences

DRAWS = 19


def test_without_an_unbiased_estimate_draws_are_subtracted() -> None:
    one, other = np.random.default_rng(1).poisson(5, (2, DRAWS, 4))
    assert np.array_equal(differences(one, other, np.full(4, 99.0), np.zeros(4)), other - one)


@pytest.mark.parametrize("w", [0.05, 0.3, 0.9])
def test_no_change_is_held_in_nine_of_ten(w: float) -> None:
    """A model that errs alike in both counts: deviations that are shared, noise that is not."""
    random = np.random.default_rng(2)
    n, noise = 20_000, 10_000.0  # so much that whole numbers do not matter
    deviation = random.normal(0, np.sqrt(noise * w / (1 - w)), n)
    noisy = deviation + random.normal(0, np.sqrt(noise), (2, n))
    drawn = w * noisy[:, np.newaxis] + random.normal(0, np.sqrt(w * noise), (2, DRAWS, n))
    one, other = np.rint(drawn).astype(np.int64)

    def held(draws: np.ndarray) -> float:
        return float(((draws.min(axis=0) <= 0) & (draws.max(axis=0) >= 0)).mean())

    moved = differences(one, other, noisy[1] - noisy[0], np.full(n, 2 * noise))
    assert 0.89 < held(moved) < 0.93  # of 20,000, of which 0.2 % are chance
    assert held(other - one) > held(moved) + (0.05 if w < 0.5 else 0.005)
    back = differences(other, one, noisy[0] - noisy[1], np.full(n, 2 * noise))
    assert np.array_equal(back, -moved)
