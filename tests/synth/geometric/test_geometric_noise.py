"""The noise sampler: its integer process in full, its compiled form, and the exact probabilities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.geometric import two_sided
from synth.geometric.mechanism import _smallest
from synth.geometric.two_sided import two_sided_noise
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
    monkeypatch.setattr(two_sided, "_MAX_WORDS", 7)
    assert np.array_equal(whole, two_sided_noise(5000, 5, 7, RunKey.from_seed(3).stream("noise", 0)))


@pytest.mark.parametrize("epsilon", ["8.6", "4.6", "2", "1", "1/4"])
def test_a_million_values_fit_the_exact_probabilities(epsilon: str) -> None:
    number, runs = _smallest(Fraction(epsilon)), 1_000_000
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


def test_neighbouring_values_are_independent() -> None:
    noise = two_sided_noise(600_000, 1, 2, RunKey.from_seed(9).stream("noise", 0)).clip(-2, 2) + 2
    pairs = np.bincount(noise[::2] * 5 + noise[1::2], minlength=25)
    single = [Fraction(1, 6), Fraction(1, 6), Fraction(1, 3), Fraction(1, 6), Fraction(1, 6)]
    expected = [float(300_000 * a * b) for a in single for b in single]
    assert chi_square_p(pairs, expected) > 1e-4
