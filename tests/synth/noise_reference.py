"""Two-sided geometric noise and projection written a second time, in plain fractions."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from synth.geometric import noise as sampler

Counts = tuple[int, ...]


@cache
def mass(z: int, p: Fraction) -> Fraction:
    """P(noise = z)."""
    return (1 - p) / (1 + p) * p ** abs(z)


@cache
def largest_ratio(x: int, z: int, p: Fraction) -> Fraction:
    """The largest P(noisy count | x) / P(noisy count | z) of all noisy counts from -5 to 7."""
    return max(mass(y - x, p) / mass(y - z, p) for y in range(-5, 8))


def histograms(n: int, k: int) -> Iterator[Counts]:
    """All ways to put n workers into k cells."""
    for bars in itertools.combinations(range(n + k - 1), k - 1):
        edges = (-1, *bars, n + k - 1)
        yield tuple(b - a - 1 for a, b in itertools.pairwise(edges))


def neighbours(h: Counts) -> Iterator[Counts]:
    """All histograms in which one worker of h is in another cell."""
    for i, j in itertools.permutations(range(len(h)), 2):
        if h[i]:
            yield tuple(x - (c == i) + (c == j) for c, x in enumerate(h))


@cache
def nearest(y: Counts, n: int) -> tuple[Fraction, ...]:
    """The nearest point of the simplex: the water level of every number of largest entries is tried."""
    falling = sorted(y, reverse=True)
    level = max(Fraction(sum(falling[:j]) - n, j) for j in range(1, len(y) + 1))
    return tuple(max(Fraction(0), c - level) for c in y)


def noise_distribution(
    numerator: int, denominator: int, reach: int, edit: Callable[[str], str] = lambda source: source
) -> dict[int, Fraction]:
    """P(z) for |z| <= reach by running the kernel's own source through all values of its bounded integers.

    Given one integer at a time and then none, the kernel stops with all that it knows in its state.
    """
    source = inspect.getsource(sampler._draw.py_func).removeprefix("@_compiled\n")  # type: ignore[attr-defined]
    script: list[int] = []
    asked: list[int] = []

    def bounded(words: object, position: int, bound: int) -> tuple[int, int]:
        asked.append(bound)
        return (script.pop(0), position) if script else (-1, position)

    space: dict[str, Any] = {"_DONE": 0, "_VALUE": 1, "_bounded": bounded}
    exec(compile(edit(source), "kernel", "exec"), space)
    found: dict[int, Fraction] = {}
    waiting = {0: Fraction(1)}
    while waiting:
        value, chance = waiting.popitem()
        script.clear()
        state, noise = np.array([0, value]), np.zeros(1, np.int64)
        space["_draw"](numerator, denominator, None, state, noise)
        assert state.tolist() == [0, value]
        bound = asked[-1]
        for integer in range(bound):
            state, noise = np.array([0, value]), np.zeros(1, np.int64)
            script[:] = [integer]
            space["_draw"](numerator, denominator, None, state, noise)
            assert not script
            if state[0]:
                z = int(noise[0])
                found[z] = found.get(z, Fraction(0)) + chance / bound
            elif abs(state[1]) <= reach:
                z = int(state[1])
                waiting[z] = waiting.get(z, Fraction(0)) + chance / bound
    return found
