"""Noisy counts that noise hardly gives: bounds against exact probabilities, and honest noise passes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import synth
from synth.geometric.residuals import noise_limit, rare_residuals, rare_zeros
from synth.geometric.two_sided import two_sided_noise

RATIOS = [Fraction(1, 2), Fraction(4, 5), Fraction(1, 50), Fraction(1, 2**61)]
RARE = 2.0**-64


def sums(p: Fraction, k: int, most: int) -> NDArray[np.float64]:
    """The probability of every sum from 0 to `most` of k noises; of positive terms, so floats will do."""
    reach = most + math.ceil(-60 / math.log(float(p)))
    own = float((1 - p) / (1 + p)) * float(p) ** np.abs(np.arange(-reach, reach + 1.0))
    every = own
    for _ in range(k - 1):
        every = np.convolve(every, own)
    middle = every.size // 2
    return every[middle : middle + most + 1]


@pytest.mark.parametrize("p", RATIOS, ids=float)
def test_a_count_is_refused_where_noise_is_rare(p: Fraction) -> None:
    far = noise_limit(p)
    assert 2 * p ** (far + 1) < RARE <= 2 * p**far


@pytest.mark.parametrize("p", RATIOS[:3], ids=float)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_bounds_are_above_the_truth_and_not_far(p: Fraction, k: int) -> None:
    """Rare is less than 2^-64; and what is rarer by 2^-14 is called so."""
    most = 2 * noise_limit(p) + 20
    every = sums(p, k, most)
    assert abs(every[0] + 2 * every[1:].sum() - 1) < 1e-12
    tails = 2 * np.cumsum(every[::-1])[::-1][1:]
    called = [rare_residuals(p, np.array([k]), np.array([-t])) for t in range(1, most + 1)]
    assert called == sorted(called)
    assert called[-1]
    assert all(tail < RARE for tail, rare in zip(tails, called, strict=True) if rare)
    assert all(tail > RARE / 2**14 for tail, rare in zip(tails, called, strict=True) if not rare)


@pytest.mark.parametrize("p", RATIOS[:3], ids=float)
@pytest.mark.parametrize("k", [1, 4, 100])
def test_groups_without_noise_are_refused_where_they_are_many(p: Fraction, k: int) -> None:
    zero = sums(p, k, 0)[0]
    needed = 64 / -math.log2(zero)
    groups = next(g for g in range(1, 10_000) if rare_zeros(p, np.full(g, k), g))
    assert needed <= groups <= max(1.05 * needed, 27)  # b is at least a sixth
    some = 10 * groups  # of which half of those are exact that are not by chance
    assert rare_zeros(p, np.full(some, k), int(some * (1 + zero) / 2))
    assert not rare_zeros(p, np.full(some, k), int(some * zero))


@pytest.mark.parametrize("epsilon", ["0.01", "1", "8.6", "40"])
def test_honest_noise_passes(epsilon: str) -> None:
    """Of 20,000 groups."""
    p = Fraction(math.exp(-float(epsilon) / 2)).limit_denominator(2**30)
    k = np.tile([1, 2, 3, 10, 100], 4000)
    stream = synth.RunKey.from_seed(7).stream("noise", 0)
    noise = two_sided_noise(int(k.sum()), p.numerator, p.denominator, stream)
    residuals = np.add.reduceat(noise, np.cumsum(k) - k)
    assert np.abs(noise).max() <= noise_limit(p)
    assert not rare_residuals(p, k, residuals)
    assert not rare_zeros(p, k, int((residuals == 0).sum()))
