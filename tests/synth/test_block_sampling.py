"""Decoarsening: units of a cell by shares, blocks of a unit by weights, with exactly these probabilities."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from synth.block_sampling import OriginShares, cumulative_weights, draw_blocks
from synth.plan import Domains
from synth.randomness import RunKey

from .reference import chi_square_p

Int32 = NDArray[np.int32]


def domains(n_blocks: int, *cuts: list[int]) -> Domains:
    flat = [c for domain in cuts for c in domain]
    offsets = np.cumsum([0, *map(len, cuts)], dtype=np.int64)
    return Domains(n_blocks, offsets, np.array(flat, np.int32), np.zeros(len(flat), np.uint8))


def origin_shares(starts: list[int], rows: list[dict[int, int]], row: list[int]) -> OriginShares:
    """Return shares from one dictionary of unit and share for each row."""
    return OriginShares(
        np.array(starts, np.int64),
        np.cumsum([0, *map(len, rows)], dtype=np.int64),
        np.array([unit for one in rows for unit in one], np.int32),
        np.array([share for one in rows for share in one.values()], np.int32),
        np.array(row, np.int32),
    )


def no_shares(n_domains: int = 1) -> OriginShares:
    """One unit only: cells are shared by weights."""
    return origin_shares([0], [{0: 1}], [0] * n_domains)


def zeros(n: int) -> Int32:
    return np.zeros(n, np.int32)


def probabilities(
    blocks: range, weights: list[int], starts: list[int], share: dict[int, int]
) -> dict[int, Fraction]:
    """The documented distribution of a cell's block, from the definition."""
    of_block = {b: max(u for u, first in enumerate(starts) if first <= b) for b in blocks}
    here = {u: share.get(u, 0) for u in of_block.values()}
    if len(here) == 1 or sum(here.values()) == 0:
        return {b: Fraction(weights[b], sum(weights[b] for b in blocks)) for b in blocks}
    inside = {u: sum(weights[b] for b in blocks if of_block[b] == u) for u in here}
    total = sum(here.values())
    return {b: Fraction(here[u], total) * Fraction(weights[b], inside[u]) for b, u in of_block.items()}


class Words:
    """A stream of given words; afterwards zeros."""

    def __init__(self, words: list[int]) -> None:
        self._words = words

    def words(self, count: int) -> NDArray[np.uint64]:
        given_words, self._words = self._words[:count], self._words[count:]
        return np.array([*given_words, *[0] * (count - len(given_words))], np.uint64)


def draw(
    of: Domains, domain: Int32, cells: Int32, weights: ArrayLike, shares: OriginShares, stream: Any
) -> Int32:
    """Draw a block of each cell by the weights of blocks."""
    return draw_blocks(of, domain, cells, cumulative_weights(np.asarray(weights)), shares, stream)


# --- by hand


def test_every_unit_of_weight_is_one_value() -> None:
    """A cell of weight 8: the words 0 to 7 hit each block as often as it weighs."""
    cells = domains(6, [0, 1, 5])
    blocks = draw(cells, zeros(8), zeros(8) + 1, [5, 1, 4, 1, 2, 9], no_shares(), Words([*range(8)]))
    assert blocks.tolist() == [1, 2, 2, 2, 2, 3, 4, 4]


def test_a_unit_is_drawn_first_and_a_block_of_it_then() -> None:
    """Units of blocks 0-1, 2-4, 5 with shares 3, 4 and 1: eight words for units, eight for blocks."""
    shares = origin_shares([0, 2, 5], [{0: 3, 1: 4, 2: 1}], [0])
    words = Words([*range(8), 0, 1, 3, 0, 1, 2, 3, 9])
    blocks = draw(domains(6, [0]), zeros(8), zeros(8), [1, 3, 2, 1, 1, 77], shares, words)
    assert blocks.tolist() == [0, 1, 1, 2, 2, 3, 4, 5]


def test_units_without_a_share_are_not_drawn() -> None:
    shares = origin_shares([0, 1, 2, 3], [{1: 1, 3: 1}, {}, {3: 1}], [0, 1, 2])
    whole, weights = domains(4, [0], [0], [0]), [1000, 1, 1000, 1]

    def drawn(domain: int) -> set[int]:
        stream = RunKey.from_seed(4).stream("blocks", 0)
        return {*draw(whole, zeros(500) + domain, zeros(500), weights, shares, stream).tolist()}

    assert drawn(0) == {1, 3}
    assert drawn(2) == {3}
    # Where no unit of a cell has a share, weights decide.
    assert drawn(1) == {0, 2}


def test_a_cell_inside_a_unit_is_not_narrowed() -> None:
    """Shares of units have no say in it, and no word is spent."""
    shares = origin_shares([0, 4], [{0: 1, 1: 9}], [0])
    first, stop = np.array([0, 1, 4]), np.array([2, 4, 6])
    stream: Any = None
    for found, given_bounds in zip(shares.narrow(zeros(3), first, stop, stream), (first, stop), strict=True):
        np.testing.assert_array_equal(found, given_bounds)


def test_narrow_returns_the_unit_inside_the_cell() -> None:
    """Also where the cell holds parts of units: blocks 1-6 of units 0-2, 3-5, 6-9; share 0 first."""
    shares = origin_shares([0, 3, 6], [{0: 1, 1: 1, 2: 2}], [0])
    stream: Any = Words([0, 1, 2, 3])
    first, stop = shares.narrow(zeros(4), np.full(4, 1), np.full(4, 7), stream)
    assert list(zip(first.tolist(), stop.tolist(), strict=True)) == [(1, 3), (3, 6), (6, 7), (6, 7)]


def test_a_cell_of_one_block_is_that_block() -> None:
    cells = np.array([3, 0, 2, 1, 1], np.int32)
    stream = RunKey.from_seed(0).stream("blocks", 1)
    blocks = domains(4, [0, 1, 2, 3])
    assert draw(blocks, zeros(5), cells, [7] * 4, no_shares(), stream).tolist() == cells.tolist()
    assert draw(blocks, zeros(0), zeros(0), [7] * 4, no_shares(), stream).size == 0


def test_cells_that_are_drawn_from_often_give_what_they_give_one_by_one() -> None:
    shares = origin_shares([0, 2, 4, 5], [{0: 3, 1: 1, 2: 2}, {1: 5, 3: 2}], [0, 1])
    two, cumulative = domains(8, [0, 2, 5], [0, 4]), cumulative_weights(np.array([3, 1, 9, 1, 2, 3, 4, 5]))
    domain, cells = np.array([0, 1, 0, 1, 0], np.int32), np.array([0, 0, 2, 1, 1], np.int32)
    times = np.array([3, 40, 0, 25, 1])
    found = [
        draw_blocks(two, *given, cumulative, shares, RunKey.from_seed(2).stream("blocks", 0), *often)
        for given, often in (
            ((domain, cells), (times,)),
            ((np.repeat(domain, times), np.repeat(cells, times)), ()),
        )
    ]
    assert found[0].tolist() == found[1].tolist()


# --- frequencies


def test_blocks_have_exactly_their_probabilities() -> None:
    starts, each = [0, 2, 4, 5], 20_000
    rows = [{0: 3, 1: 1, 2: 2}, {1: 5, 3: 2}]
    two = domains(8, [0, 2, 5], [0, 4])
    weights = [3, 1, 9, 1, 2, 3, 4, 5]
    shares = origin_shares(starts, rows, [0, 1])
    cases = [(0, 0, range(2)), (0, 1, range(2, 5)), (0, 2, range(5, 8))]
    cases += [(1, 0, range(4)), (1, 1, range(4, 8))]
    domain = np.repeat(np.array([d for d, _, _ in cases], np.int32), each)
    cells = np.repeat(np.array([c for _, c, _ in cases], np.int32), each)
    stream = RunKey.from_seed(2).stream("blocks", 0)
    blocks = draw(two, domain, cells, weights, shares, stream)
    assert blocks.dtype == np.int32
    for i, (d, _, inside) in enumerate(cases):
        chance = {b: p for b, p in probabilities(inside, weights, starts, rows[d]).items() if p > 0}
        counts = np.bincount(blocks[i * each : (i + 1) * each], minlength=8)
        assert counts[list(chance)].sum() == each
        assert chi_square_p(counts[list(chance)], [float(p * each) for p in chance.values()]) > 1e-4


@settings(max_examples=30)
@given(st.data())
def test_all_words_together_give_exactly_the_probabilities(data: st.DataObject) -> None:
    """Every pair of an accepted word for the unit and one for the block, enumerated."""
    n = data.draw(st.integers(1, 8))
    starts = sorted({0, *data.draw(st.sets(st.integers(0, n - 1)))})
    weights = data.draw(st.lists(st.integers(1, 6), min_size=n, max_size=n))
    a = data.draw(st.integers(0, n - 1))
    b = data.draw(st.integers(a + 1, n))
    drawn_share = data.draw(st.dictionaries(st.integers(0, len(starts) - 1), st.integers(1, 6)))
    share = dict(sorted(drawn_share.items()))
    expected = probabilities(range(a, b), weights, starts, share)
    cell = domains(n, sorted({0, a, b} - {n}))
    number = np.array([cell.cuts.tolist().index(a)], np.int32)
    shares = origin_shares(starts, [{0: 5}, share], [1])

    units = {max(u for u, first in enumerate(starts) if first <= x) for x in range(a, b)}
    total = sum(share.get(u, 0) for u in units) if len(units) > 1 else 0
    found: dict[int, Fraction] = dict.fromkeys(range(a, b), Fraction(0))
    for first_word in range(max(total, 1)):
        lead = [first_word] if total else []
        stream: Any = Words(list(lead))
        begin, stop = shares.narrow(zeros(1), np.array([a]), np.array([b]), stream)
        weight = sum(weights[int(begin[0]) : int(stop[0])])
        for word in range(weight):
            stream = Words([*lead, word])
            block = int(draw(cell, zeros(1), number, weights, shares, stream)[0])
            found[block] += Fraction(1, max(total, 1) * weight)
    assert found == expected


@settings(max_examples=30)
@given(st.data())
def test_blocks_lie_in_their_cells(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 30))
    number = st.integers(0, n - 1)
    cuts, starts = (sorted({0, *data.draw(st.sets(number))}) for _ in range(2))
    weight = st.one_of(st.integers(1, 5), st.just(2**58))
    weights = np.array(data.draw(st.lists(weight, min_size=n, max_size=n)), np.int64)
    share = data.draw(st.dictionaries(st.integers(0, len(starts) - 1), st.integers(1, 2**16)))
    shares = origin_shares(starts, [dict(sorted(share.items()))], [0])
    cells = np.array(data.draw(st.lists(st.integers(0, len(cuts) - 1), min_size=1, max_size=40)), np.int32)
    one, key = domains(n, cuts), RunKey.from_seed(data.draw(st.integers(0, 1000)))

    def drawn() -> Int32:
        return draw(one, zeros(cells.size), cells, weights, shares, key.stream("blocks", 0))

    assert np.array_equal(one.locate(zeros(cells.size), drawn()), cells)
    assert np.array_equal(drawn(), drawn())


# --- errors


def test_a_cell_without_weight_is_refused() -> None:
    stream = RunKey.from_seed(0).stream("b", 1)
    with pytest.raises(ValueError, match="at least 1"):
        draw(domains(3, [0, 1]), zeros(1), zeros(1), [0, 1, 1], no_shares(), stream)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"starts": []}, "begin at block 0 and increase"),
        ({"starts": [1, 2, 3]}, "begin at block 0 and increase"),
        ({"starts": [0, 2, 2]}, "begin at block 0 and increase"),
        ({"offsets": [1, 2, 4]}, "do not match their offsets"),
        ({"offsets": [0, 5, 4]}, "do not match their offsets"),
        ({"offsets": [0, 2, 3]}, "do not match their offsets"),
        ({"share": [1, 2, 3]}, "share must be at least 1"),
        ({"share": [1, 2, 0, 4]}, "share must be at least 1"),
        ({"unit": [0, 1, 0, 3]}, "name an unknown unit"),
        ({"unit": [0, -1, 0, 2]}, "name an unknown unit"),
        ({"unit": [1, 0, 0, 2]}, "increase inside a row"),
        ({"unit": [1, 1, 0, 2]}, "increase inside a row"),
        ({"row": [0, 2]}, "names an unknown row of origin shares"),
        ({"row": [-1, 0]}, "names an unknown row of origin shares"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, list[int]], message: str) -> None:
    good = {"starts": [0, 2, 4], "offsets": [0, 2, 4], "row": [0, 1]}
    good |= {"unit": [0, 1, 0, 2], "share": [1, 2, 3, 4]}
    kinds = {"starts": np.int64, "offsets": np.int64, "unit": np.int32, "share": np.int32, "row": np.int32}

    def made(values: dict[str, list[int]]) -> OriginShares:
        return OriginShares(**{name: np.array(values[name], kind) for name, kind in kinds.items()})

    made(good)
    with pytest.raises(ValueError, match=message):
        made(good | change)
