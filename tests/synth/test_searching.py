"""The search inside stretches is that of `bisect`, stretch by stretch."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.searching import entries_of, last_at_most


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@given(stretches=st.lists(st.sets(st.integers(0, 50), min_size=1), min_size=1, max_size=5), data=st.data())
def test_the_last_value_of_a_stretch_that_is_at_most_what_is_wanted(
    kind: type, stretches: list[set[int]], data: st.DataObject
) -> None:
    rising = [sorted(stretch) for stretch in stretches]
    offsets = np.cumsum([0, *map(len, rising)], dtype=np.int64)
    stretch = np.array(data.draw(st.lists(st.integers(0, len(rising) - 1))), np.int64)
    wanted = [data.draw(st.integers(rising[s][0], 60)) for s in stretch]
    values = np.array([value for one in rising for value in one], kind)
    found = last_at_most(values, np.array(wanted, kind), offsets[stretch], offsets[stretch + 1])
    assert found.dtype == np.int64
    expected = [
        offsets[s] + bisect.bisect_right(rising[s], value) - 1
        for s, value in zip(stretch, wanted, strict=True)
    ]
    assert found.tolist() == expected


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5))))
def test_the_entries_of_stretches_follow_each_other(stretches: list[tuple[int, int]]) -> None:
    first, size = np.array(stretches, np.int64).reshape(-1, 2).T
    expected = [place for begin, n in stretches for place in range(begin, begin + n)]
    assert entries_of(first, size).tolist() == expected
