"""Posterior draws of the difference of two counts, of which both draws borrow from models that err alike.

Take a count whose posterior variance is s, and whose unbiased noisy count has the variance v. With w = s / v,
the posterior mean follows the noisy count by w and the model by 1 - w. Errors of noise are independent. What
the true count differs from the model is much the same in both counts where little changed, and so are the
errors that follow from it. So errors are taken to be correlated by (1 - w)(1 - w'): fully where both means
follow the model, not at all where one follows its noisy count. That is below what nothing but the same
deviation from the model gives, sqrt((1 - w)(1 - w')), and leaves room for what changed; benchmarks/changes.md
has what it holds.

Draws of both counts are made apart, so their difference is too far apart by the factor that follows: its
deviations from the mean are scaled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


def differences(one: Int64, other: Int64, noise: tuple[Float64, Float64]) -> Int64:
    """Return draws of the true difference, the other count minus the first.

    Parameters
    ----------
    one, other : ndarray of int64, shape (n_draws, n)
        Posterior draws of the counts, which were made independently.
    noise : (ndarray of float64, ndarray of float64), shape (n,) each
        Variance of an unbiased estimate of each count; where it is 0, none is known, and draws are left.

    Returns
    -------
    ndarray of int64, shape (n_draws, n)
    """
    apart = other - one
    spread = [draws.var(axis=0, ddof=1) for draws in (one, other)]
    by_model = np.ones(apart.shape[1])
    for variance, known in zip(spread, noise, strict=True):
        by_noise = np.divide(variance, known, out=np.ones(variance.size), where=known > 0)
        by_model *= 1 - np.minimum(by_noise, 1)
    total, shared = spread[0] + spread[1], 2 * by_model * np.sqrt(spread[0] * spread[1])
    factor = np.sqrt(1 - np.divide(shared, total, out=np.zeros(total.size), where=total > 0))
    mean = apart.mean(axis=0)
    # Rounded up as often as down, and exchanging both counts changes the sign alone.
    n_draws = len(apart)
    rounding = (np.arange(n_draws)[:, np.newaxis] + 0.5) / n_draws - 0.5
    scaled = np.rint(mean + factor * (apart - mean) + np.sign(mean) * rounding).astype(np.int64)
    return np.where(by_model > 0, scaled, apart)
