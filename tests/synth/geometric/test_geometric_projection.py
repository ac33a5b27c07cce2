"""Projection and order of the geometric mechanism against plain fractions."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from synth.arrays import offsets_of
from synth.geometric import projection
from synth.geometric.projection import MAX_MASS, project, shuffled
from synth.randomness import RunKey, WordStream

from ..noise_reference import nearest

vectors = st.lists(st.integers(-30, 30), min_size=1, max_size=8)


def numbers(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def projected(y: list[int], n: int) -> tuple[list[int], int]:
    mass, unit = project(numbers(*y), numbers(0, len(y)), numbers(n))
    return mass.tolist(), int(unit[0])


@settings(max_examples=150)
@given(vectors, st.integers(1, 40))
def test_the_projection_is_the_plain_one(y: list[int], n: int) -> None:
    mass, unit = projected(y, n)
    assert tuple(Fraction(a, unit) for a in mass) == nearest(tuple(y), n)
    assert sum(mass) == unit * n
    assert unit == sum(a > 0 for a in mass)


@settings(max_examples=100)
@given(st.lists(st.tuples(vectors, st.integers(1, 40)), min_size=1, max_size=6))
def test_pools_are_projected_one_by_one(pools: list[tuple[list[int], int]]) -> None:
    y = numbers(*itertools.chain.from_iterable(v for v, _ in pools))
    mass, unit = project(y, offsets_of(numbers(*(len(v) for v, _ in pools))), numbers(*(n for _, n in pools)))
    alone = [projected(v, n) for v, n in pools]
    assert mass.tolist() == [a for one, _ in alone for a in one]
    assert unit.tolist() == [u for _, u in alone]


@pytest.mark.parametrize("k", [1, 2, 3, 1000])
def test_counts_of_any_size_are_clipped_not_overflowed(k: int) -> None:
    n = MAX_MASS // k
    huge = [2**62, *[-(2**62)] * (k - 1)]
    mass, unit = projected(huge, n)
    assert (mass, unit) == ([n, *[0] * (k - 1)], 1)
    mass, unit = projected([2**62] * k, n)
    assert (mass, unit) == ([n] * k, k)
    mass, unit = projected([-(2**62)] * k, n)
    assert (mass, unit) == ([n] * k, k)


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any), min_size=1, max_size=5))
def test_order_changes_no_count(pools: list[list[int]]) -> None:
    counts, sizes = numbers(*itertools.chain(*pools)), numbers(*map(sum, pools))
    offsets = offsets_of(numbers(*map(len, pools)))
    cells = shuffled(counts, offsets, sizes, RunKey.from_seed(1).stream("order", 0))
    assert cells.dtype == np.int32
    for pool, own in zip(pools, np.split(cells, np.cumsum(sizes)[:-1]), strict=True):
        assert np.bincount(own, minlength=len(pool)).tolist() == pool


def test_every_order_comes_from_as_many_partners(monkeypatch: pytest.MonkeyPatch) -> None:
    found: Counter[tuple[int, ...]] = Counter()
    for partners in itertools.product(*(range(t + 1) for t in range(4))):

        def fixed(bounds: NDArray[np.int64], stream: object, of: tuple[int, ...] = partners) -> object:
            assert bounds.tolist() == [1, 2, 3, 4]
            return numbers(*of)

        monkeypatch.setattr(projection, "uniform_below", fixed)
        cells = shuffled(numbers(1, 1, 1, 1), numbers(0, 4), numbers(4), WordStream(bytes(32)))
        found[tuple(cells.tolist())] += 1
    assert found == Counter(itertools.permutations(range(4)))
