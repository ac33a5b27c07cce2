"""Noise: its integer process in full, its compiled form, exact probabilities; and counts it hardly gives."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.geometric import noise as sampler
from synth.geometric.mechanism import calibrated_noise
from synth.geometric.noise import (
    added_noise,
    noise_limit,
    rare_residuals,
    rare_zeros,
    refined_noise,
    two_sided_noise,
    unchanged_chance,
)
from synth.randomness import RunKey, WordStream

from ..noise_reference import mass, noise_distribution
from ..reference import chi_square_p

RATIOS = [(1, 2), (1, 3), (2, 3), (3, 4), (1, 9), (5, 7), (6, 7)]


@pytest.mark.parametrize(("numerator", "denominator"), RATIOS)
def test_the_integer_process_has_the_stated_probabilities(numerator: int, denominator: int) -> None:
    found = noise_distribution(numerator, denominator, reach=6)
    p = Fraction(numerator, denominator)
    assert set(range(-6, 7)) <= set(found)
    assert all(found[z] == mass(z, p) for z in range(-6, 7))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("numerator + denominator", "denominator"),
        ("2 * numerator", "numerator"),
        ("u < numerator else -1", "u <= numerator else -1"),
        ("            if u < numerator:\n", "            if u <= numerator:\n"),
    ],
)
def test_a_broken_process_would_be_found(old: str, new: str) -> None:
    def edit(source: str) -> str:
        assert source.count(old) == 1
        return source.replace(old, new)

    found = noise_distribution(2, 5, 3, edit)
    assert any(found.get(z) != mass(z, Fraction(2, 5)) for z in range(-3, 4))


def slowly(size: int, numerator: int, denominator: int, stream: WordStream) -> list[int]:
    """Lemma 19 word by word, with Python integers."""

    def below(bound: int) -> int:
        mask = (1 << (bound - 1).bit_length()) - 1
        while (value := int(stream.words(1)[0]) & mask) >= bound:
            pass
        return value

    noise = []
    for _ in range(size):
        u = below(numerator + denominator)
        z = 0 if u >= 2 * numerator else 1
        while z and below(denominator) < numerator:
            z += 1
        noise.append(z if u < numerator else -z)
    return noise


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 200), st.integers(1, 2**61 - 1), st.integers(1, 2**61), st.integers(0, 9))
def test_the_compiled_kernel_equals_the_slow_one(size: int, a: int, b: int, seed: int) -> None:
    numerator, denominator = min(a, b), max(a, b) + 1
    denominator = min(denominator, 2**62 - numerator)
    if not numerator < denominator - denominator // 64:  # about 64 words a value at most
        numerator = denominator // 2
    arguments = (size, max(numerator, 1), denominator)
    fast = two_sided_noise(*arguments, RunKey.from_seed(seed).stream("noise", 0))
    assert fast.dtype == np.int64
    assert fast.tolist() == slowly(*arguments, RunKey.from_seed(seed).stream("noise", 0))


def test_the_size_of_the_buffer_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = two_sided_noise(5000, 5, 7, RunKey.from_seed(3).stream("noise", 0))
    monkeypatch.setattr(sampler, "_MAX_WORDS", 7)
    assert np.array_equal(whole, two_sided_noise(5000, 5, 7, RunKey.from_seed(3).stream("noise", 0)))


@pytest.mark.parametrize("epsilon", ["8.6", "1/4"])
def test_a_million_values_fit_the_exact_probabilities(epsilon: str) -> None:
    number, runs = calibrated_noise(Fraction(epsilon)), 1_000_000
    p = number.ratio
    noise = two_sided_noise(
        runs, number.numerator, number.denominator, RunKey.from_seed(8).stream("noise", 0)
    )
    # Values that are expected at least ten times, and two tails.
    reach = max(z for z in range(200) if runs * p ** (z + 1) / (1 + p) >= 10)
    inside = range(-reach, reach + 1)
    expected = [float(runs * mass(z, p)) for z in inside] + [float(runs * p ** (reach + 1) / (1 + p))] * 2
    observed = [int((noise == z).sum()) for z in inside]
    observed += [int((noise < -reach).sum()), int((noise > reach).sum())]
    assert sum(observed) == runs
    assert sum(expected) == pytest.approx(runs)
    assert chi_square_p(observed, expected) > 1e-4


def test_the_fit_would_show_noise_of_another_ratio() -> None:
    noise = two_sided_noise(1_000_000, 101, 200, RunKey.from_seed(8).stream("noise", 0))
    expected = [float(1_000_000 * mass(z, Fraction(1, 2))) for z in range(-3, 4)]
    observed = [int((noise == z).sum()) for z in range(-3, 4)]
    assert chi_square_p([*observed, 10**6 - sum(observed)], [*expected, 1e6 - sum(expected)]) < 1e-4


PAIRS = [
    (Fraction(a), Fraction(b)) for a, b in [("1/3", "1/2"), ("1/9", "8/9"), ("5/7", "6/7"), ("99/200", "1/2")]
]


@pytest.mark.parametrize(("strong", "weak"), PAIRS)
def test_the_law_of_a_weaker_tier_is_that_of_a_release_of_its_own(strong: Fraction, weak: Fraction) -> None:
    """Exactly: sums over all noise of the stronger tier, of which what lies beyond the reach is geometric."""
    unchanged = unchanged_chance(strong, weak)
    assert 0 < unchanged < 1

    def added(w: int) -> Fraction:
        return (1 - unchanged) * mass(w, weak) + (unchanged if w == 0 else 0)

    for y in range(-9, 10):
        inside = sum((mass(z, strong) * added(y - z) for z in range(-12, 13)), Fraction(0))
        # Beyond, z and y - z lie on different sides of 0, so both masses fall by their ratio with each step.
        both = strong * weak
        ends = mass(13, strong) * (added(y - 13) + added(y + 13)) / (1 - both)
        assert inside + ends == mass(y, weak)


@pytest.mark.parametrize(("strong", "weak"), PAIRS)
def test_a_million_weakened_values_fit_the_exact_probabilities(strong: Fraction, weak: Fraction) -> None:
    key, runs = RunKey.from_seed(12), 1_000_000
    noise = two_sided_noise(runs, strong.numerator, strong.denominator, key.stream("noise", 0))
    added = added_noise(runs, strong, weak, key.stream("added", 0))
    for values, ratio in ((noise + added, weak), (noise, strong)):
        reach = max(z for z in range(400) if runs * ratio ** (z + 1) / (1 + ratio) >= 10)
        expected = [float(runs * mass(z, ratio)) for z in range(-reach, reach + 1)]
        observed = [int((values == z).sum()) for z in range(-reach, reach + 1)]
        expected, observed = [*expected, runs - sum(expected)], [*observed, runs - sum(observed)]
        assert chi_square_p(observed, expected) > 1e-4
    # What is added does not depend on what is there.
    away = noise != 0
    kept = float(unchanged_chance(strong, weak) + (1 - unchanged_chance(strong, weak)) * mass(0, weak))
    for some in (away, ~away):
        zeros = int((added[some] == 0).sum())
        assert abs(zeros - kept * some.sum()) < 5 * math.sqrt(some.sum() * kept * (1 - kept))


def refined_law(s: int, p: Fraction, q: Fraction, reach: int) -> dict[int, Fraction]:
    """Lemma 58 step by step: the law of z given s, for |z| up to a reach."""
    r, both, b = p / q, p * q, p * (q - p) / (1 - p * q)
    sign, s = (1, s) if s >= 0 else (-1, -s)
    law = {}
    for z in range(-reach, reach + 1):
        if z < 0:
            law[sign * z] = b / (1 + b) * both ** (-1 - z) * (1 - both)
        elif z < s:
            law[sign * z] = r**z * (1 - r) / (1 + b)
        elif z == s:
            law[sign * z] = r**s * (1 - b) / (1 + b)
        else:
            law[sign * z] = r**s * b * both ** (z - s - 1) * (1 - both) / (1 + b)
    return law


@pytest.mark.parametrize(("strong", "weak"), PAIRS)
def test_refining_gives_both_noises_the_law_that_tiers_have(strong: Fraction, weak: Fraction) -> None:
    """Exactly, for each pair: P(weak noise) P(strong | weak) is P(strong noise) P(what is added)."""
    unchanged = unchanged_chance(strong, weak)
    for s in range(-6, 7):
        law = refined_law(s, strong, weak, 12)
        for z, chance in law.items():
            added = (1 - unchanged) * mass(s - z, weak) + (unchanged if s == z else 0)
            assert mass(s, weak) * chance == mass(z, strong) * added


@pytest.mark.parametrize(("strong", "weak"), PAIRS)
def test_refined_values_have_that_law(strong: Fraction, weak: Fraction) -> None:
    runs = 200_000
    for s in (-3, 0, 1, 4):
        values = refined_noise(np.full(runs, s), strong, weak, RunKey.from_seed(s + 9).stream("noise", 0))
        law = refined_law(s, strong, weak, 400)
        inside = [z for z, chance in law.items() if runs * chance >= 10]
        expected = [float(runs * law[z]) for z in inside]
        observed = [int((values == z).sum()) for z in inside]
        rest = runs - sum(expected)
        if rest > 1:
            expected, observed = [*expected, rest], [*observed, runs - sum(observed)]
        assert chi_square_p(observed, expected) > 1e-4


def test_a_million_refined_values_fit_the_joint_law() -> None:
    """Weak noise first, and strong noise given it: as strong noise first, and weak noise made of it."""
    strong, weak, runs, key = Fraction(1, 3), Fraction(3, 5), 1_000_000, RunKey.from_seed(31)
    given = two_sided_noise(runs, weak.numerator, weak.denominator, key.stream("noise", 0))
    refined = refined_noise(given, strong, weak, key.stream("refined", 0))
    unchanged = unchanged_chance(strong, weak)
    expected, observed = [], []
    for s, z in ((s, z) for s in range(-9, 10) for z in range(-6, 7)):
        added = (1 - unchanged) * mass(s - z, weak) + (unchanged if s == z else 0)
        if (times := float(runs * mass(z, strong) * added)) >= 10:
            expected.append(times)
            observed.append(int(((given == s) & (refined == z)).sum()))
    rest = runs - sum(expected), runs - sum(observed)
    assert chi_square_p([*observed, rest[1]], [*expected, rest[0]]) > 1e-4


def test_noise_cannot_be_taken_away() -> None:
    for strong, weak in ((Fraction(1, 2), Fraction(1, 2)), (Fraction(1, 2), Fraction(1, 3))):
        with pytest.raises(ValueError, match="larger ratio"):
            added_noise(3, strong, weak, RunKey.from_seed(1).stream("noise", 0))
        with pytest.raises(ValueError, match="smaller ratio"):
            refined_noise(np.zeros(3, np.int64), strong, weak, RunKey.from_seed(1).stream("noise", 0))


def test_neighbouring_values_are_independent() -> None:
    noise = two_sided_noise(600_000, 1, 2, RunKey.from_seed(9).stream("noise", 0)).clip(-2, 2) + 2
    pairs = np.bincount(noise[::2] * 5 + noise[1::2], minlength=25)
    single = [Fraction(1, 6), Fraction(1, 6), Fraction(1, 3), Fraction(1, 6), Fraction(1, 6)]
    expected = [float(300_000 * a * b) for a in single for b in single]
    assert chi_square_p(pairs, expected) > 1e-4


# --- noisy counts that noise hardly gives


SOME = [Fraction(1, 2), Fraction(4, 5), Fraction(1, 50), Fraction(1, 2**61)]
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


@pytest.mark.parametrize("p", SOME, ids=float)
def test_a_count_is_refused_where_noise_is_rare(p: Fraction) -> None:
    far = noise_limit(p)
    assert 2 * p ** (far + 1) < RARE <= 2 * p**far


@pytest.mark.parametrize("p", SOME[:3], ids=float)
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


@pytest.mark.parametrize("p", SOME[:3], ids=float)
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
    stream = RunKey.from_seed(7).stream("noise", 0)
    noise = two_sided_noise(int(k.sum()), p.numerator, p.denominator, stream)
    residuals = np.add.reduceat(noise, np.cumsum(k) - k)
    assert np.abs(noise).max() <= noise_limit(p)
    assert not rare_residuals(p, k, residuals)
    assert not rare_zeros(p, k, int((residuals == 0).sum()))
