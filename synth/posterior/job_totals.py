"""Posterior draws of how far estimated numbers of jobs are off, from single rows to the sum of all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


def errors_of_jobs(
    jobs: Float64, sums: Iterable[tuple[Int64, Float64]], draws: int, stream: WordStream
) -> Float64:
    """Return draws of the errors of estimated numbers of jobs, whose sums spread as noisy counts say.

    Parameters
    ----------
    jobs : ndarray of float64, shape (n_rows,)
        Greater than 0.
    sums : iterable of (ndarray of int64, shape (n_rows,), ndarray of float64, shape (n_sums,))
        From small sums to large ones: the sum that each row is in, and the variance that noisy counts give
        each; inf where they say nothing.
    draws : int
    stream : WordStream

    Returns
    -------
    ndarray of float64, shape (draws, n_rows)
        Not below the negative of `jobs`.
    """
    random = np.random.default_rng(int(stream.words(1)[0]))
    error = np.zeros((draws, jobs.size))
    for of_row, variance in sums:
        size = np.bincount(of_row, jobs)
        # No estimate is farther off than its size: negative numbers are not believed.
        target = np.where(np.isfinite(variance), variance, 0.0)
        target *= size**2 / (target + size**2)
        some = target > 0
        drawn = np.stack([np.bincount(of_row, row, size.size) for row in error])
        ratio = (drawn[:, some] ** 2).mean(axis=0).sum() / target[some].sum() if some.any() else 1.0
        if ratio > 1:
            move = drawn * (1 / np.sqrt(ratio) - 1)
        else:
            move = random.standard_normal(drawn.shape) * np.sqrt((1 - ratio) * target)
        error += np.where(some, move / size, 0.0)[:, of_row] * jobs
    return np.maximum(error, -jobs)
