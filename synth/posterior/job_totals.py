"""Posterior draws of estimated numbers of jobs, from single rows to the sum of all."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from synth.arrays import scale_to_sums, sums_by
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]


def draws_of_jobs(
    jobs: Float64, sums: Iterable[tuple[Int64, Float64, Float64]], draws: int, stream: WordStream
) -> Float64:
    """Return draws of numbers of jobs whose sums spread as noisy counts say.

    Sums are taken one scale after the other. Of each, the draws of a sum are moved to where `_centre` puts
    it, and spread or drawn together; its rows are multiplied, so that none is below 0.

    Parameters
    ----------
    jobs : ndarray of float64, shape (n_rows,)
        Estimates, greater than 0.
    sums : iterable of (ndarray of int64, shape (n_rows,), two ndarrays of float64, shape (n_sums,))
        Scales, from small sums to large ones: the sum that each row is in, what noisy counts say of each, and
        the variance of that; inf where they say nothing, which leaves a sum as it is.
    draws : int
    stream : WordStream

    Returns
    -------
    ndarray of float64, shape (draws, n_rows)
    """
    random = np.random.default_rng(int(stream.words(1)[0]))
    drawn = np.tile(jobs, (draws, 1))
    for of_row, counted, variance in sums:
        some = np.isfinite(variance)
        size, variance = np.bincount(of_row, jobs)[some].astype(np.float64), variance[some]
        # No estimate is farther off than its size: negative numbers are not believed.
        believed = size**2 / (variance + size**2)
        target = variance * believed
        before = sums_by(of_row, drawn)[:, some]
        off = before - before.mean(axis=0)
        # Few draws of a single sum say little of their variance. Sums from a power of 4 up to the next spread
        # alike; binary exponents tell these apart on every processor, as logarithms need not.
        alike = np.unique((np.frexp(size)[1] - 1) // 2, return_inverse=True)[1]
        spread, wanted = (np.bincount(alike, each)[alike] for each in ((off**2).mean(axis=0), target))
        ratio = np.divide(spread, wanted, out=np.full(size.size, np.inf), where=wanted > 0)
        off /= np.sqrt(np.maximum(ratio, 1))
        off += random.standard_normal(off.shape) * np.sqrt(np.maximum(1 - ratio, 0) * target)
        after = np.maximum(_centre(size, counted[some], variance, believed) + off, 0)
        factor = np.ones((draws, some.size))
        factor[:, some] = np.divide(after, before, out=np.zeros(before.shape), where=before > 0)
        drawn *= factor[:, of_row]
    return drawn


def _centre(size: Float64, counted: Float64, variance: Float64, believed: Float64) -> Float64:
    """Return where the draws of sums have their centre, between estimates and noisy counts.

    Estimates are not negative, and many small ones that are too large take from the large. The more noisy
    counts differ from estimates, beyond their noise, the more they are followed.
    """
    square = float(((counted - size) ** 2).sum())
    beyond = max(0.0, 1 - float(variance.sum()) / square) if square > 0 else 0.0
    return size + beyond * believed * (counted - size)


def untold_jobs(drawn: Float64, area: Int64, told: Bool, variance: float, stream: WordStream) -> Float64:
    """Return draws of jobs by category in which those that no noisy counts tell deviate, too.

    Parameters
    ----------
    drawn : ndarray of float64, shape (draws, n_cells)
    area : ndarray of int64, shape (n_cells,)
        Work area of each cell. The jobs of all its categories together stay as they are.
    told : ndarray of bool, shape (n_cells,)
    variance : float
        Relative, of the deviations.
    stream : WordStream
    """
    random = np.random.default_rng(int(stream.words(1)[0]))
    off = np.where(told, 1.0, random.gamma(1 / variance, variance, drawn.shape)) * drawn
    scale_to_sums(off, area, drawn)
    return off
