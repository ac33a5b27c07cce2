"""Domains, pools and plans: what is refused; cells, and values in segments, are where a bisection says."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.arrays import search_segments, segment_indices
from synth.plan import Domains, Plan, Pools, Target

pytestmark = pytest.mark.quick


def domains(n_blocks: int, *cells: list[tuple[int, int]]) -> Domains:
    """Each domain as a list of (first block, stratum)."""
    flat = [cell for domain in cells for cell in domain]
    return Domains(
        n_blocks,
        np.cumsum([0, *map(len, cells)], dtype=np.int64),
        np.array([cut for cut, _ in flat], np.int32),
        np.array([stratum for _, stratum in flat], np.uint8),
    )


@st.composite
def some_domains(draw: st.DrawFn) -> tuple[int, list[list[tuple[int, int]]]]:
    n_blocks = draw(st.integers(1, 40))
    lists = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = sorted({0, *draw(st.sets(st.integers(0, n_blocks - 1)))})
        lists.append([(cut, draw(st.integers(0, 3))) for cut in cuts])
    return n_blocks, lists


@given(some_domains(), st.data())
def test_locate_is_a_bisection(made: tuple[int, list[list[tuple[int, int]]]], data: st.DataObject) -> None:
    n_blocks, lists = made
    wanted = data.draw(
        st.lists(st.tuples(st.integers(0, len(lists) - 1), st.integers(0, n_blocks - 1)), min_size=1)
    )
    domain, blocks = np.array(wanted, np.int32).T
    found = domains(n_blocks, *lists).locate(domain, blocks)
    assert found.dtype == np.int32
    cuts = [[cut for cut, _ in cells] for cells in lists]
    assert found.tolist() == [bisect.bisect_right(cuts[d], b) - 1 for d, b in wanted]


@given(some_domains())
def test_bounds_partition_the_blocks(made: tuple[int, list[list[tuple[int, int]]]]) -> None:
    n_blocks, lists = made
    all_domains = domains(n_blocks, *lists)
    for d, cells in enumerate(lists):
        k = len(cells)
        first, stop = all_domains.bounds(np.full(k, d, np.int32), np.arange(k, dtype=np.int32))
        assert first.dtype == stop.dtype == np.int64
        assert first.tolist() == [cut for cut, _ in cells]
        assert stop.tolist() == [*(cut for cut, _ in cells[1:]), n_blocks]
        # and every block of a cell is located in it
        blocks = np.arange(n_blocks, dtype=np.int32)
        located = all_domains.locate(np.full(n_blocks, d, np.int32), blocks)
        assert np.all((first[located] <= blocks) & (blocks < stop[located]))


@given(some_domains())
def test_strata_are_counted_and_ordered(made: tuple[int, list[list[tuple[int, int]]]]) -> None:
    n_blocks, lists = made
    all_domains = domains(n_blocks, *lists)
    assert all_domains.n_domains == len(lists)
    assert all_domains.n_cells.tolist() == [len(cells) for cells in lists]
    strata = 1 + max(s for cells in lists for _, s in cells)
    counts = all_domains.strata_counts
    assert counts.tolist() == [[sum(s == t for _, s in cells) for t in range(strata)] for cells in lists]
    for d, cells in enumerate(lists):
        order = all_domains.cells_by_stratum[all_domains.offsets[d] : all_domains.offsets[d + 1]]
        assert order.tolist() == sorted(range(len(cells)), key=lambda c: (cells[c][1], c))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_blocks": 0}, "at least one block and one domain"),
        ({"offsets": [0]}, "at least one block and one domain"),
        ({"offsets": [1, 4]}, "at least one block and one domain"),
        ({"offsets": [[0, 4]]}, "at least one block and one domain"),
        ({"offsets": [0, 2, 5]}, "do not match the offsets"),
        ({"stratum": [0, 0, 0]}, "do not match the offsets"),
        ({"offsets": [0, 0, 4]}, "every domain must have at least one cell"),
        ({"offsets": [0, 5, 4]}, "every domain must have at least one cell"),
        ({"cuts": [1, 2, 0, 4]}, "first cell must begin at block 0"),
        ({"cuts": [0, 3, 1, 4]}, "first cell must begin at block 0"),
        ({"cuts": [0, 0, 0, 4]}, "cuts must increase"),
        ({"cuts": [0, 3, 0, -1]}, "cuts must increase"),
        ({"cuts": [0, 3, 0, 9]}, "stay below the number of blocks"),
    ],
)
def test_domains_that_are_no_partition_are_refused(change: dict[str, Any], message: str) -> None:
    parts: dict[str, Any] = {
        "n_blocks": 9,
        "offsets": [0, 2, 4],
        "cuts": [0, 3, 0, 4],
        "stratum": [0, 1, 0, 0],
    }
    types = {"offsets": np.int64, "cuts": np.int32, "stratum": np.uint8}

    def made(values: dict[str, Any]) -> Domains:
        return Domains(**{k: np.array(v, types[k]) if k in types else v for k, v in values.items()})

    assert made(parts).n_domains == 2
    with pytest.raises(ValueError, match=message):
        made(parts | change)


def pools(n: list[int], m: list[int], domain: list[int]) -> Pools:
    return Pools(np.array(n, np.int64), np.array(m, np.int64), np.array(domain, np.int32))


@pytest.mark.parametrize(
    ("n", "m", "domain", "message"),
    [
        ([], [], [], "at least one pool"),
        ([1, 2], [1], [0, 0], "every pool needs n, m and a domain"),
        ([1], [1], [0, 0], "every pool needs n, m and a domain"),
        ([0], [1], [0], "at least one slot and one draw"),
        ([1], [0], [0], "at least one slot and one draw"),
        ([1], [-1], [0], "at least one slot and one draw"),
        ([1], [1], [-1], "at least one slot and one draw"),
        ([[1]], [[1]], [[0]], "at least one pool"),
    ],
)
def test_pools_that_hold_nothing_are_refused(
    n: list[int], m: list[int], domain: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        pools(n, m, domain)


class NoParameters:
    def to_json(self) -> dict[str, Any]:
        return {}


def test_a_plan_checks_domains_and_classes_of_its_pools() -> None:
    some = domains(5, [(0, 0), (2, 0)])
    two = pools([3, 4], [3, 5], [0, 0])
    assert (two.n_pools, two.n_records) == (2, 7)

    def plan(pool_class: list[int], of: Pools = two) -> Plan:
        return Plan("x", Target(1, 0), of, some, np.array(pool_class, np.int32), NoParameters())

    assert repr(plan([0, 0])) == "Plan(x: 2 pools, 7 records, 1 domains, 2 cells)"
    with pytest.raises(ValueError, match="a pool names an unknown domain"):
        plan([0, 0], pools([3, 4], [3, 4], [0, 1]))
    with pytest.raises(ValueError, match="every pool needs a class"):
        plan([0])
    with pytest.raises(ValueError, match="every pool needs a class"):
        plan([0, -1])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": 8.6}, TypeError, "epsilon must be an exact number"),
        ({"delta": 1e-5}, TypeError, "delta must be an exact number"),
        ({"epsilon": 0}, ValueError, "epsilon must be positive"),
        ({"epsilon": -1}, ValueError, "epsilon must be positive"),
        ({"epsilon": 10**12}, ValueError, "at most 100"),
        ({"delta": "-0.1"}, ValueError, "delta in"),
        ({"delta": 1}, ValueError, "delta in"),
        ({"guarantee": "zcdp"}, ValueError, "pdp"),
    ],
)
def test_a_target_outside_its_domain_is_refused(
    change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Target(**({"epsilon": 5, "delta": 0} | change))


# --- segments


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@given(segments=st.lists(st.sets(st.integers(0, 50), min_size=1), min_size=1, max_size=5), data=st.data())
def test_the_last_value_of_a_segment_that_is_at_most_what_is_wanted(
    kind: type, segments: list[set[int]], data: st.DataObject
) -> None:
    rising = [sorted(segment) for segment in segments]
    offsets = np.cumsum([0, *map(len, rising)], dtype=np.int64)
    segment = np.array(data.draw(st.lists(st.integers(0, len(rising) - 1))), np.int64)
    wanted = [data.draw(st.integers(rising[s][0], 60)) for s in segment]
    values = np.array([value for one in rising for value in one], kind)
    found = search_segments(values, np.array(wanted, kind), offsets[segment], offsets[segment + 1])
    assert found.dtype == np.int64
    expected = [
        offsets[s] + bisect.bisect_right(rising[s], value) - 1
        for s, value in zip(segment, wanted, strict=True)
    ]
    assert found.tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_the_entries_of_segments_follow_each_other(segments: list[tuple[int, int]]) -> None:
    first, size = np.array(segments, np.int64).reshape(-1, 2).T
    expected = [place for begin, n in segments for place in range(begin, begin + n)]
    assert segment_indices(first, size).tolist() == expected
