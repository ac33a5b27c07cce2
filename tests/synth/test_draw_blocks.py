"""Decoarsening: every block of a cell, and no other, with probability proportional to its weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.decoarsening import draw_blocks
from synth.plan import Domains
from synth.randomness import RunKey

from .reference import chi_square_p


def domains(n_blocks: int, *cuts: list[int]) -> Domains:
    flat = [c for domain in cuts for c in domain]
    offsets = np.cumsum([0, *map(len, cuts)], dtype=np.int64)
    return Domains(n_blocks, offsets, np.array(flat, np.int32), np.zeros(len(flat), np.uint8))


def test_blocks_have_exactly_their_share() -> None:
    two = domains(7, [0, 2, 3], [0, 5])
    weights = np.array([3, 1, 9, 1, 2, 3, 4], np.int64)
    each = 100_000
    domain = np.repeat(np.array([0, 0, 0, 1, 1], np.int32), each)
    cells = np.repeat(np.array([0, 1, 2, 0, 1], np.int32), each)
    blocks = draw_blocks(two, domain, cells, weights, RunKey.from_seed(2).stream("blocks", 0))
    assert blocks.dtype == np.int32
    for i, inside in enumerate([range(2), range(2, 3), range(3, 7), range(5), range(5, 7)]):
        counts = np.bincount(blocks[i * each : (i + 1) * each], minlength=7)
        assert counts.sum() == counts[inside.start : inside.stop].sum()
        if len(inside) > 1:
            share = weights[inside.start : inside.stop] / weights[inside.start : inside.stop].sum()
            assert chi_square_p(counts[inside.start : inside.stop], (share * each).tolist()) > 1e-4


class Counting:
    """A stream whose words count up from zero."""

    def __init__(self) -> None:
        self._next = 0

    def words(self, count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        self._next += count
        return np.arange(self._next - count, self._next, dtype=np.uint64)


def test_every_unit_of_weight_is_one_value() -> None:
    # A cell of weight 8: the words 0 .. 7 hit each unit once, so each block as often as it weighs.
    one = domains(6, [0, 1, 5])
    weights = np.array([5, 1, 4, 1, 2, 9], np.int64)
    zeros = np.zeros(8, np.int32)
    blocks = draw_blocks(one, zeros, zeros + 1, weights, Counting())  # type: ignore[arg-type]
    assert blocks.tolist() == [1, 2, 2, 2, 2, 3, 4, 4]


@settings(max_examples=100)
@given(st.data())
def test_blocks_lie_in_their_cells(data: st.DataObject) -> None:
    n_blocks = data.draw(st.integers(1, 30))
    cuts = sorted({0, *data.draw(st.sets(st.integers(0, n_blocks - 1)))})
    weight = st.one_of(st.integers(1, 5), st.just(2**58))
    weights = np.array(data.draw(st.lists(weight, min_size=n_blocks, max_size=n_blocks)), np.int64)
    cells = np.array(data.draw(st.lists(st.integers(0, len(cuts) - 1), min_size=1, max_size=40)), np.int32)
    one = domains(n_blocks, cuts)
    domain = np.zeros(cells.size, np.int32)
    key = RunKey.from_seed(data.draw(st.integers(0, 1000)))
    blocks = draw_blocks(one, domain, cells, weights, key.stream("blocks", 0))
    assert np.array_equal(one.locate(domain, blocks), cells)
    assert np.array_equal(blocks, draw_blocks(one, domain, cells, weights, key.stream("blocks", 0)))


def test_a_cell_of_one_block_is_that_block() -> None:
    one = domains(4, [0, 1, 2, 3])
    cells = np.array([3, 0, 2, 1, 1], np.int32)
    drawn = draw_blocks(
        one, np.zeros(5, np.int32), cells, np.full(4, 7, np.int64), RunKey.from_seed(0).stream("blocks", 1)
    )
    assert drawn.tolist() == cells.tolist()


def test_a_cell_without_weight_is_refused() -> None:
    one = domains(3, [0, 1])
    with pytest.raises(ValueError, match="at least 1"):
        draw_blocks(
            one,
            np.zeros(1, np.int32),
            np.zeros(1, np.int32),
            np.array([0, 1, 1]),
            RunKey.from_seed(0).stream("b", 1),
        )
