"""The search inside segments is that of `bisect`, segment by segment."""

from __future__ import annotations

import bisect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.segments import search_segments, segment_indices


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
