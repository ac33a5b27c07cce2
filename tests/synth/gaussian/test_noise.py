"""Discrete Gaussian noise: every branch of its sampler exactly, compiled, and counts it hardly gives."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.gaussian import noise as sampler
from synth.gaussian.noise import (
    check_variance,
    gaussian_limit,
    gaussian_noise,
    rare_gaussian_residuals,
    rare_gaussian_zeros,
)
from synth.gaussian.parameters import GaussianParameters
from synth.randomness import RunKey, WordStream
from synth.tails import exp_up

from ..reference import chi_square_p

Edit = Callable[[str], str]
RARE = 2.0**-64


class _AskedError(Exception):
    """A branch asks for one more choice than its script has."""


def source_of(kernel: Any, edit: Edit = lambda text: text) -> str:
    return edit(inspect.getsource(kernel.py_func).removeprefix("@_compiled\n"))


def branches(run: Callable[[Callable[..., Any]], Any], most: int) -> Iterator[tuple[Any, list[Any]]]:
    """Everything that comes out of at most so many choices, and which choices it came of."""
    waiting: list[list[Any]] = [[]]
    while waiting:
        script = waiting.pop()
        left, options = [*script], list[Any]()

        def choose(every: list[Any], left: list[Any] = left, options: list[Any] = options) -> Any:
            if left:
                return left.pop(0)
            options[:] = every
            raise _AskedError

        try:
            result = run(choose)
        except _AskedError:
            if len(script) < most:
                waiting += [[*script, option] for option in options]
            continue
        yield result, script


def law_of_values(
    numerator: int, denominator: int, reach: int, edit: Edit = lambda text: text
) -> dict[int, list[tuple[Fraction, Fraction]]]:
    """Of each value that one proposal of the kernel's own source may end with: its chances.

    A chance is c e^-g (1 - 1/e), given as c and g, and e^-g that of an event; each ended proposal has one
    event of 1/e that failed. Proposals are independent, so values have the law of one that is accepted.
    """
    # The first integer of a proposal says where it begins; the second beginning is where one was refused.
    text = source_of(sampler._value, edit).replace("_bounded(", "begin(", 1)
    scale = sampler._scale(numerator, denominator)
    found: dict[int, list[tuple[Fraction, Fraction]]] = {}

    def run(choose: Callable[..., Any]) -> Any:
        chance, exponent, begun, failed = Fraction(1), Fraction(0), 0, 0

        def bounded(words: None, position: int, bound: int) -> tuple[int, int]:
            nonlocal chance
            chance /= bound
            return choose([*range(bound)]), position

        def begin(words: None, position: int, bound: int) -> tuple[int, int]:
            nonlocal begun
            begun += 1
            return bounded(words, position, bound) if begun == 1 else (-1, position)

        def happens(n: int, d: int, words: None, position: int) -> tuple[int, int]:
            nonlocal exponent, failed
            assert 0 <= n <= d
            yes = choose([1, 0] if n else [1])  # what has the chance 1 does not fail
            exponent += Fraction(n, d) if yes else 0
            failed += not yes
            return yes, position

        space: dict[str, Any] = {"_bounded": bounded, "begin": begin, "_happens": happens}
        space["_square_over"] = lambda root, d: divmod(root * root, d)
        exec(compile(text, "kernel", "exec"), space)
        state, value, _ = space["_value"](numerator, denominator, scale, None, 0)
        assert state < 0 or failed == 1
        return None if state < 0 else (value, chance, exponent)

    far = 1 + reach // scale + 4 + (reach + scale) ** 2 * denominator // numerator
    for result, _ in branches(run, int(far)):
        if result is not None and abs(result[0]) <= reach:
            found.setdefault(result[0], []).append(result[1:])
    return found


PARAMETERS = [(1, 2), (1, 1), (2, 1), (5, 2), (7, 3), (1, 5)]


@pytest.mark.parametrize(("numerator", "denominator"), PARAMETERS)
def test_every_branch_of_a_proposal_has_the_chance_of_its_value(numerator: int, denominator: int) -> None:
    """c_y e^-g_y / (c_0 e^-g_0) is e^(-y^2/(2 sigma^2)), as fractions."""
    found = law_of_values(numerator, denominator, 3)
    ((chance, constant),) = found[0]
    for y in range(-3, 4):
        ((own, exponent),) = found[y]
        assert own == chance
        assert exponent - constant == Fraction(y * y * denominator, 2 * numerator)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sign == 1 and far == 0", "sign == 1 and far == 1"),
        ("far += scale * yes", "far += yes"),
        ("denominator - numerator)", "denominator + numerator)"),
        ("whole > 0", "whole > 1"),
        ("_happens(u, scale,", "_happens(u, scale + 1,"),
    ],
)
def test_a_broken_proposal_would_be_found(old: str, new: str) -> None:
    def edit(text: str) -> str:
        assert text.count(old) == 1
        return text.replace(old, new)

    assert law_of_values(5, 2, 6, edit) != law_of_values(5, 2, 6)


def chance_of_event(n: int, d: int, turns: int, edit: Edit = lambda text: text) -> tuple[Fraction, Fraction]:
    """Bounds of the chance that `_happens` says 1, by all that comes out of so many integers."""
    text = source_of(sampler._happens, edit)
    known = {0: Fraction(0), 1: Fraction(0)}

    def run(choose: Callable[..., Any]) -> tuple[int, Fraction]:
        chance = Fraction(1)

        def bounded(words: None, position: int, bound: int) -> tuple[int, int]:
            nonlocal chance
            chance /= bound
            return choose([*range(bound)]), position

        space: dict[str, Any] = {"_bounded": bounded}
        exec(compile(text, "kernel", "exec"), space)
        return space["_happens"](n, d, None, 0)[0], chance

    for (yes, chance), _ in branches(run, turns):
        known[yes] += chance
    return known[1], 1 - known[0]


@pytest.mark.parametrize(("n", "d"), [(0, 1), (1, 1), (1, 2), (1, 3), (2, 3), (0, 5)])
def test_an_event_has_the_chance_of_its_exponent(n: int, d: int) -> None:
    low, high = chance_of_event(n, d, 13 if n < d else 9)
    true = 1 / exp_up(Fraction(n, d))  # within 2^-180
    assert low <= true * (1 + Fraction(1, 2**170))
    assert true <= high
    assert high - low < Fraction(1, 5_000)


def test_a_broken_event_would_be_found() -> None:
    for old, new in (("u >= numerator", "u > numerator"), ("turn > 1", "turn > 2"), ("u > 0", "u > 1")):

        def edit(text: str, old: str = old, new: str = new) -> str:
            assert text.count(old) == 1
            return text.replace(old, new)

        low, high = chance_of_event(1, 3, 13, edit)
        assert not low <= 1 / exp_up(Fraction(1, 3)) <= high


@given(st.integers(0, 2**62 - 1), st.integers(1, 2**62))
def test_a_square_is_divided_whatever_its_size(root: int, denominator: int) -> None:
    if root * root // denominator < 2**62:
        assert sampler._square_over(root, denominator) == divmod(root * root, denominator)


@given(st.integers(0, 2**33), st.integers(2**20, 2**62))
def test_a_square_that_just_does_not_fit_a_word_is_divided(root: int, denominator: int) -> None:
    assert sampler._square_over(root, denominator) == divmod(root * root, denominator)


def slowly(size: int, variance: Fraction, stream: WordStream) -> list[int]:
    """Lemma 49 word by word, with fractions."""
    t = 1 + math.isqrt(variance.numerator // variance.denominator)

    def below(bound: int) -> int:
        mask = (1 << (bound - 1).bit_length()) - 1
        while (value := int(stream.words(1)[0]) & mask) >= bound:
            pass
        return value

    def event(g: Fraction, denominator: int) -> bool:
        while g > 1:
            if not event(Fraction(1), 1):
                return False
            g -= 1
        k = 1
        while (g == 1 or below(denominator) < g * denominator) and (k == 1 or below(k) == 0):
            k += 1
        return k % 2 == 1

    noise: list[int] = []
    while len(noise) < size:
        u = below(t)
        if not event(Fraction(u, t), t):
            continue
        y = u
        while event(Fraction(1), 1):
            y += t
        minus = below(2)
        if minus and y == 0:
            continue
        whole = 2 * variance.numerator * variance.denominator * t * t
        if event((y - variance / t) ** 2 / (2 * variance), whole):
            noise.append(-y if minus else y)
    return noise


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 60),
    st.fractions(Fraction(1, 100), 10**6).map(lambda x: GaussianParameters.of_rho(1 / x)),
    st.integers(0, 9),
)
def test_the_compiled_kernel_equals_the_slow_one(size: int, number: GaussianParameters, seed: int) -> None:
    fast = gaussian_noise(
        size, number.numerator, number.denominator, RunKey.from_seed(seed).stream("noise", 0)
    )
    # The kernel's denominators are of the ratio as it stands, which need not be in lowest terms.
    lowest = Fraction(number.numerator, number.denominator)
    if lowest.denominator == number.denominator:
        assert fast.tolist() == slowly(size, lowest, RunKey.from_seed(seed).stream("noise", 0))


def test_the_size_of_the_buffer_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = gaussian_noise(3000, 29, 3, RunKey.from_seed(3).stream("noise", 0))
    monkeypatch.setattr(sampler, "_MAX_WORDS", 7)
    assert np.array_equal(whole, gaussian_noise(3000, 29, 3, RunKey.from_seed(3).stream("noise", 0)))


def fit(variance: Fraction, runs: int, seed: int = 8) -> float:
    """The p-value of values that are expected at least ten times, and of two tails."""
    number = GaussianParameters.of_rho(1 / variance)
    noise = number.draw(runs, RunKey.from_seed(seed).stream("noise", 0))
    chances = mass(number.ratio)
    tails = np.cumsum(chances[::-1])[::-1]
    reach = int(np.count_nonzero(runs * tails >= 10)) - 2
    inside = np.arange(-reach, reach + 1)
    expected = [*(runs * chances[np.abs(inside)]), *[runs * tails[reach + 1]] * 2]
    counted = np.bincount(np.clip(noise, -reach - 1, reach + 1) + reach + 1, minlength=2 * reach + 3)
    observed = [*counted[1:-1].tolist(), int(counted[0]), int(counted[-1])]
    assert sum(expected) == pytest.approx(runs)
    return chi_square_p(observed, expected)


def mass(variance: Fraction) -> NDArray[np.float64]:
    """P(z) for z = 0, 1, 2, ..., term by term."""
    far = math.ceil(40 * math.sqrt(variance)) + 40
    odds = np.exp(-(np.arange(far) ** 2.0) / (2 * float(variance)))
    return odds / (2 * odds.sum() - 1)


@pytest.mark.parametrize("variance", ["1/5", "0.72", "15", "620.5"])
def test_a_million_values_fit_the_exact_probabilities(variance: str) -> None:
    assert fit(Fraction(variance), 1_000_000) > 1e-4


@pytest.mark.deep
@pytest.mark.parametrize("variance", ["1/20", "0.72", "3", "15", "654", "20000"])
def test_ten_million_values_fit_the_exact_probabilities(variance: str) -> None:
    assert fit(Fraction(variance), 10_000_000, seed=1) > 1e-4


def test_the_fit_would_show_noise_of_another_variance() -> None:
    noise = gaussian_noise(1_000_000, 101, 100, RunKey.from_seed(8).stream("noise", 0))
    chances = mass(Fraction(1))
    expected = [1e6 * chances[abs(z)] for z in range(-3, 4)]
    observed = [int((noise == z).sum()) for z in range(-3, 4)]
    assert chi_square_p([*observed, 10**6 - sum(observed)], [*expected, 1e6 - sum(expected)]) < 1e-4


def test_neighbouring_values_are_independent() -> None:
    noise = gaussian_noise(600_000, 1, 1, RunKey.from_seed(9).stream("noise", 0)).clip(-2, 2) + 2
    pairs = np.bincount(noise[::2] * 5 + noise[1::2], minlength=25)
    chances = mass(Fraction(1))
    single = [chances[2:].sum(), chances[1], chances[0], chances[1], chances[2:].sum()]
    expected = [300_000 * a * b for a in single for b in single]
    assert chi_square_p(pairs, expected) > 1e-4


@pytest.mark.parametrize(
    ("numerator", "denominator", "rule"),
    [
        (1, 129, "from 1/128"),
        (2**24 + 1, 1, "from 1/128"),
        (1, 0, "from 1/128"),
        (2**31 + 1, 2**31, "too many digits"),
    ],
)
def test_what_cannot_be_drawn_is_refused(numerator: int, denominator: int, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        check_variance(numerator, denominator)
    with pytest.raises(ValueError, match=rule):
        gaussian_noise(1, numerator, denominator, RunKey.from_seed(1).stream("noise", 0))


@given(st.fractions(Fraction(1, 2**24), 10**4))
def test_the_least_noise_of_a_rho_is_drawn_and_costs_no_more(rho: Fraction) -> None:
    number = GaussianParameters.of_rho(rho)
    number.check()
    assert number.rho <= rho
    assert number.rho >= min(rho, 127) * (1 - Fraction(1, 2**20))


def test_the_least_noise_is_none() -> None:
    number = GaussianParameters.least()
    number.check()
    assert not number.draw(100_000, RunKey.from_seed(1).stream("noise", 0)).any()


# --- noisy counts that noise hardly gives


SOME = [Fraction(1, 10), Fraction(1, 2), Fraction(2), Fraction(25)]


def sums(variance: Fraction, k: int) -> NDArray[np.float64]:
    """The probability of every sum of k noises from 0 on; of positive terms, so floats will do."""
    one = mass(variance)
    own = np.concatenate([one[:0:-1], one])
    every = own
    for _ in range(k - 1):
        every = np.convolve(every, own)
    return every[every.size // 2 :]


@pytest.mark.parametrize("variance", SOME, ids=float)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_what_is_called_rare_is(variance: Fraction, k: int) -> None:
    every = sums(variance, k)
    tails = 2 * np.cumsum(every[::-1])[::-1]
    called = [rare_gaussian_residuals(variance, np.array([k]), np.array([-t])) for t in range(tails.size)]
    assert called == sorted(called)
    assert all(tail < RARE for tail, rare in zip(tails[1:], called[1:], strict=True) if rare)
    first = called.index(True)
    assert tails[min(math.ceil(1.1 * first) + 2, tails.size - 1)] < RARE
    assert tails[math.floor(0.85 * first) - 1] > RARE, "what is likelier is not far below"
    if k == 1:
        assert gaussian_limit(variance) + 1 == first


@pytest.mark.parametrize("variance", SOME, ids=float)
@pytest.mark.parametrize("k", [1, 4, 100])
def test_groups_without_noise_are_refused_where_they_are_many(variance: Fraction, k: int) -> None:
    zero = sums(variance, k)[0]
    groups = next(g for g in range(1, 100_000) if rare_gaussian_zeros(variance, np.full(g, k), g))
    assert groups >= 64 / -math.log2(zero)
    assert groups <= max(1.05 * 64 / -math.log2(max(zero, 1 / 6)), 27)
    some = 10 * groups
    assert rare_gaussian_zeros(variance, np.full(some, k), int(some * (1 + max(zero, 1 / 6)) / 2))
    assert not rare_gaussian_zeros(variance, np.full(some, k), int(some * zero))


@pytest.mark.parametrize("variance", ["1/50", "0.72", "30", "20000"])
def test_honest_noise_passes(variance: str) -> None:
    """Of 20,000 groups."""
    number = GaussianParameters.of_rho(1 / Fraction(variance))
    k = np.tile([1, 2, 3, 10, 100], 4000)
    noise = number.draw(int(k.sum()), RunKey.from_seed(7).stream("noise", 0))
    residuals = np.add.reduceat(noise, np.cumsum(k) - k)
    assert np.abs(noise).max() <= number.limit()
    assert not number.rare_residuals(k, residuals)
    assert not number.rare_zeros(k, int((residuals == 0).sum()))
