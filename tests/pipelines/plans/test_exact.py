"""What a release shows without noise, counted by hand."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from geo_data.jobs import Slots
from pipelines.plans.exact import count_exact

JOBS = st.lists(st.tuples(*[st.integers(0, 3)] * 2, *[st.integers(0, 2)] * 2), min_size=1, max_size=30)


@given(JOBS, st.booleans(), st.integers(0, 4))
def test_numbers_are_those_of_a_dictionary(
    jobs: list[tuple[int, int, int, int]], joint: bool, cut: int
) -> None:
    """Whatever the batches, of which no two have a work block in common."""
    numbers = Counter[tuple[object, ...]]()
    for work, part, age, sector in jobs:
        kinds = [(age, sector)] if joint else [(), ("age", age), ("sector", sector)]
        numbers.update((work, part, *kind) for kind in kinds)
    parts = [slots_of([job for job in jobs if (job[0] < cut) == first]) for first in (True, False)]
    exact = count_exact(filter(len, parts), ["age", "sector"], joint=joint)
    assert (exact.numbers, exact.of_one_job) == (len(numbers), [*numbers.values()].count(1))


def slots_of(jobs: list[tuple[int, int, int, int]]) -> Slots:
    work, part, *codes = np.array(jobs, np.int32).reshape(-1, 4).T
    attributes = {
        name: column.astype(np.uint8) for name, column in zip(("age", "sector"), codes, strict=True)
    }
    return Slots(work, attributes, dict.fromkeys(attributes, ("a", "b", "c")), part).sorted()
