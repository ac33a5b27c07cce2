"""Rounding of matrices: sums within one, expectations kept, or what is likeliest."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.posterior.flows import _NONE, _UNIT, _flow, divide, round_flow, share_out
from synth.randomness import RunKey

from ..measured_reference import subsets


def numbered(values: list[int]) -> np.ndarray:
    return np.cumsum(np.append(0, np.diff(np.sort(values)) > 0))


@st.composite
def matrices(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rows, width = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    n = np.array(draw(st.lists(st.integers(1, 9), min_size=rows, max_size=rows)))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    x = generator.dirichlet(np.full(width, 0.4), rows) * n[:, np.newaxis]
    parts, areas = (
        numbered(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))) for size in (rows, width)
    )
    return x, n, parts, areas


@settings(max_examples=60, deadline=None)
@given(matrices(), st.sampled_from([None, 0.0, 5.0]))
def test_every_sum_stays_within_one(case: tuple, lacking: float | None) -> None:
    """By lot or as is likeliest, whatever cells lack."""
    x, n, parts, areas = case
    lack = None if lacking is None else np.random.default_rng(1).normal(0, lacking, areas.size)
    y = round_flow(x, n, [parts], [areas], RunKey.from_seed(3).stream("round", 0), lack)
    assert y.sum(axis=1).tolist() == n.tolist()
    assert y.min() >= 0
    for entries in subsets(x, parts.tolist(), areas.tolist()):
        index = tuple(np.array(entries).T)
        assert abs(y[index].sum() - x[index].sum()) < 1 + 1e-5


def expected_error(x: np.ndarray, y: np.ndarray, parts: np.ndarray, areas: np.ndarray) -> float:
    """Of all sums that are kept, where a part is f: f if it is rounded down, and 1 - f if up."""
    total = 0.0
    for entries in subsets(x, parts.tolist(), areas.tolist()):
        index = tuple(np.array(entries).T)
        part = x[index].sum() % 1
        if 1e-6 < part < 1 - 1e-6:
            total += 1 - part if y[index].sum() > x[index].sum() else part
    return total


@settings(max_examples=60, deadline=None)
@given(matrices())
def test_what_is_likeliest_loses_no_more_than_lots_do(case: tuple) -> None:
    x, n, parts, areas = case
    stream = RunKey.from_seed(4).stream("round", 0)
    likeliest = round_flow(x, n, [parts], [areas], stream, np.zeros(areas.size))
    lots = [round_flow(x, n, [parts], [areas], stream) for _ in range(40)]
    losses = [expected_error(x, y, parts, areas) for y in lots]
    # No step loses more than it is expected to by lot, whose mean this is, but for luck.
    assert expected_error(x, likeliest, parts, areas) <= np.mean(losses) + 3 * np.std(losses) / 40**0.5 + 1e-4


def test_what_is_likeliest_is_taken_and_equals_are_drawn() -> None:
    x = np.array([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.2, 0.1, 0.7]])
    stream = RunKey.from_seed(5).stream("round", 0)
    for _ in range(20):
        assert round_flow(x, np.ones(3, np.int64), [], [], stream, np.zeros(3)).tolist() == np.eye(3).tolist()
    halves = np.full((2, 2), 0.5)
    drawn = [round_flow(halves, np.ones(2, np.int64), [], [], stream, np.zeros(2))[0, 0] for _ in range(200)]
    assert 60 < sum(drawn) < 140


def test_a_cell_that_lacks_jobs_gets_more_of_them() -> None:
    x, stream = np.array([[0.4, 0.6]]), RunKey.from_seed(6).stream("round", 0)
    for lacking, job in ((0.0, 1), (1.0, 0)):
        lack = np.array([lacking, 0.0])
        assert round_flow(x, np.array([1]), [], [], stream, lack)[0].argmax() == job


def test_expectations_are_kept_exactly() -> None:
    """Halves need one fair bit a cycle, so that all outcomes can be tried."""
    generator = np.random.default_rng(5)
    for _ in range(12):
        rows, width = generator.integers(2, 4, 2)
        halves = generator.integers(0, 4, (rows, width))
        halves[:, 0] += halves.sum(axis=1) % 2
        parts, areas = (numbered(generator.integers(0, 2, size).tolist()) for size in (rows, width))
        bits = 8
        found = np.zeros((rows, width), np.int64)
        for words in itertools.product([0, _UNIT // 2], repeat=bits):
            y = _flow(halves * (_UNIT // 2), parts[np.newaxis], areas[np.newaxis], _NONE, np.array(words))
            assert y[0, 0] >= 0
            found += y
        assert (2 * found == halves * 2**bits).all()


@settings(max_examples=60, deadline=None)
@given(matrices(), st.booleans())
def test_shares_have_both_sums(case: tuple, pulled: bool) -> None:
    """Whatever is expected: entries of 0 too."""
    x, n, _, _ = case
    generator = np.random.default_rng(int(n.sum()))
    counts = generator.multinomial(n.sum(), np.ones(x.shape[1]) / x.shape[1])
    cells = counts > 0
    expected = np.where(x < 0.2, 0.0, x)[:, cells]
    pull = generator.normal(size=expected.shape) * pulled
    y = share_out(counts[cells], n, expected, pull, RunKey.from_seed(3).stream("round", 0))
    assert y.min() >= 0
    assert y.sum(axis=1).tolist() == n.tolist()
    assert y.sum(axis=0).tolist() == counts[cells].tolist()


@settings(max_examples=50, deadline=None)
@given(matrices())
def test_whole_counts_are_divided_in_proportion(case: tuple) -> None:
    """Both sums are exact, and each row has its part of every cell and area, up to one job."""
    x, n, _, areas = case
    counts = np.random.default_rng(int(n.sum())).multinomial(n.sum(), np.ones(x.shape[1]) / x.shape[1])
    cells = counts > 0
    area = numbered(areas[cells].tolist())
    y = divide(counts[cells], n, [area], RunKey.from_seed(3).stream("round", 0))
    assert y.min() >= 0
    assert y.sum(axis=1).tolist() == n.tolist()
    assert y.sum(axis=0).tolist() == counts[cells].tolist()
    for own, size in zip(y, n, strict=True):
        for of in (np.arange(area.size), area):
            due = np.bincount(of, counts[cells]) * size / n.sum()
            assert np.abs(np.bincount(of, own) - due).max() < 1 + 1e-5


FIT = np.array([[0.5, 1.25, 0.25], [1.5, 0.75, 0.75]])  # has both of its sums
PARTS, AREAS = [np.array([0, 0, 1])], [np.array([0, 0, 1])]


@pytest.mark.parametrize(
    ("draw", "expected"),
    [
        (
            lambda x, stream: round_flow(x, np.array([1, 2, 4]), PARTS, AREAS, stream),
            np.outer([1, 2, 4], [1, 4, 2]) / 7,
        ),
        (lambda x, stream: share_out(np.array([2, 2, 1]), np.array([2, 3]), x, 0 * x, stream), FIT),
        (
            lambda _, stream: divide(np.array([1, 4, 2]), np.array([1, 2, 4]), AREAS, stream),
            np.outer([1, 2, 4], [1, 4, 2]) / 7,
        ),
    ],
    ids=["rounded", "shared out", "divided"],
)
def test_expectations_are_kept(draw: Any, expected: np.ndarray) -> None:
    stream, draws = RunKey.from_seed(4).stream("round", 0), 2_000
    total = sum(draw(expected, stream) for _ in range(draws))
    part = expected - np.floor(expected)
    assert (np.abs(total / draws - expected) < 5 * np.sqrt(part * (1 - part) / draws) + 1e-6).all()
