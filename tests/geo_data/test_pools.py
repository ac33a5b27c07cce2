"""Pools: the same as a dictionary of lists, and no record is put among slots that are not its own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import JobRecords, Slots, build_pools, group_records

CATEGORIES = {"age": ("old", "young"), "sector": ("a", "b", "c")}
Job = tuple[int, int, int, int]  # work, age, sector, home

jobs_lists = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 2), st.integers(0, 30)),
    min_size=1,
    max_size=60,
)
strata = st.sampled_from([(), ("age",), ("sector",), ("age", "sector"), ("sector", "age")])


def columns(jobs: list[Job]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*jobs, strict=True)]


def slots_of(jobs: list[Job]) -> Slots:
    work, age, sector, _ = columns(sorted(jobs, key=lambda job: job[:3]))
    attributes = {"age": age.astype(np.uint8), "sector": sector.astype(np.uint8)}
    return Slots(work.astype(np.int32), attributes, CATEGORIES)


def records_of(jobs: list[Job], by: tuple[str, ...]) -> JobRecords:
    work, age, sector, home = columns(jobs)
    attributes = {"age": age.astype(np.uint8), "sector": sector.astype(np.uint8)}
    return JobRecords(work.astype(np.int32), home.astype(np.int32), {name: attributes[name] for name in by})


def key_of(job: Job, by: tuple[str, ...]) -> tuple[int, ...]:
    return (job[0], *(job[1 + list(CATEGORIES).index(name)] for name in by))


@given(jobs_lists, strata, st.randoms(use_true_random=False))
def test_agrees_with_dictionaries(jobs: list[Job], by: tuple[str, ...], draw: object) -> None:
    pools = build_pools(slots_of(jobs), by)
    expected = Counter(key_of(job, by) for job in jobs)
    keys = list(zip(pools.work.tolist(), *(codes.tolist() for codes in pools.strata.values()), strict=True))
    assert keys == sorted(expected)
    assert pools.n.tolist() == [expected[key] for key in keys]
    assert tuple(pools.strata) == by

    # The slots of each pool are its jobs' attributes; none is lost, none moved.
    stops = np.cumsum(pools.n)
    for key, first, stop in zip(keys, stops - pools.n, stops, strict=True):
        own = slice(first, stop)
        found = Counter(
            zip(
                pools.slots.work[own].tolist(),
                pools.slots.attributes["age"][own].tolist(),
                pools.slots.attributes["sector"][own].tolist(),
                strict=True,
            )
        )
        assert found == Counter(job[:3] for job in jobs if key_of(job, by) == key)

    shuffled = list(jobs)
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    homes = group_records(pools, records_of(shuffled, by))
    assert homes.dtype == np.int32
    for key, first, stop in zip(keys, stops - pools.n, stops, strict=True):
        assert Counter(homes[first:stop].tolist()) == Counter(j[3] for j in jobs if key_of(j, by) == key)


@given(jobs_lists, strata, st.data())
def test_records_of_other_slots_are_refused(
    jobs: list[Job], by: tuple[str, ...], data: st.DataObject
) -> None:
    pools = build_pools(slots_of(jobs), by)
    number = data.draw(st.integers(0, len(jobs) - 1))
    work, age, sector, home = jobs[number]
    changed = [
        jobs[:number] + jobs[number + 1 :],
        [*jobs, jobs[number]],
        [*jobs[:number], (work + 1, age, sector, home), *jobs[number + 1 :]],
    ]
    if "age" in by:
        changed.append([*jobs[:number], (work, 1 - age, sector, home), *jobs[number + 1 :]])
    for other in changed:
        if other:
            with pytest.raises(ValueError, match="do not fill the public slots") as caught:
                group_records(pools, records_of(other, by))
            assert not any(character.isdigit() for character in str(caught.value))


def test_an_unknown_attribute_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="by wage: the attributes are age, sector"):
        build_pools(slots_of([(0, 0, 0, 0)]), ("age", "wage"))
    with pytest.raises(ValueError, match="the attributes are none"):
        build_pools(Slots(np.zeros(1, np.int32), {}, {}), ("age",))


def test_order_inside_a_pool_does_not_come_from_the_origins() -> None:
    """Slots know nothing of homes: permuting the records leaves every public array as it was."""
    jobs = [(w, a, s, 3 * w + a) for w in range(3) for a in range(2) for s in range(3)]
    one, other = build_pools(slots_of(jobs), ("age",)), build_pools(slots_of(jobs[::-1]), ("age",))
    np.testing.assert_array_equal(one.slots.work, other.slots.work)
    for name in CATEGORIES:
        np.testing.assert_array_equal(one.slots.attributes[name], other.slots.attributes[name])
