"""Posterior draws of the difference of two counts, which do not take a change for an error of the model.

The posterior mean of a count follows its unbiased noisy count by w, the ratio of posterior variance and
variance of the noise, and the public model by 1 - w. Where both models say the same, as they mostly do, the
difference of the two means follows the difference d of the noisy counts by w alone: what changed is taken for
deviations from the models, and smoothed away. But draws that were made apart spread as if each count had
deviations of its own: by w V, where V is the variance of d. If nothing changed, the error of w d is w V w. So
intervals would hold "no change" too often, and a large change too seldom.

Draws are therefore moved: to a mean that follows d by √w, whose error has the variance w V that they have.
They hold "no change" as often as they should, and smooth less of a change away (benchmarks/changes.md).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


def differences(one: Int64, other: Int64, unbiased: Float64, variance: Float64) -> Int64:
    """Return draws of the true difference, the other count minus the first.

    Parameters
    ----------
    one, other : ndarray of int64, shape (n_draws, n)
        Posterior draws of the counts, which were made independently.
    unbiased, variance : ndarray of float64, shape (n,)
        An unbiased estimate of each difference, and its variance: 0 where none is known. Then draws are left
        as they are.

    Returns
    -------
    ndarray of int64, shape (n_draws, n)
    """
    apart = other - one
    spread = one.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)
    known = variance > 0
    root = np.sqrt(np.minimum(np.divide(spread, variance, out=np.zeros(spread.size), where=known), 1))
    # By w already, so √w = w + (1 - w) √w / (1 + √w).
    moved = np.where(known, root / (1 + root) * (unbiased - apart.mean(axis=0)), 0)
    # Some draws by one more than others, and with the other sign if both counts are exchanged.
    n_draws = len(apart)
    rounding = (np.arange(n_draws)[:, np.newaxis] + 0.5) / n_draws - 0.5
    return apart + np.rint(moved + np.sign(moved) * rounding).astype(np.int64)
