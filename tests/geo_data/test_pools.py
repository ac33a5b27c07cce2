"""Pools: the same as a dictionary of lists, and no record is put among slots that are not its own."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from geo_data import Geography, JobRecords, Slots
from geo_data.pools import Pooling, PoolTable, build_pools, group_records

from .plain import geography

pytestmark = pytest.mark.quick

CATEGORIES = {"age": ("old", "young"), "sector": ("a", "b", "c")}
PLACES = geography([2, 3, 1], [2, 1])  # blocks 0 1 | 2 3 4 || 5
Job = tuple[int, int, int, int]  # work, age, sector, home

jobs_lists = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(0, 2), st.integers(0, 5)),
    min_size=1,
    max_size=60,
)
poolings = st.builds(
    Pooling,
    st.sampled_from(["region", "area", "block"]),
    st.integers(1, 20),
    st.sampled_from([(), ("age",), ("sector",), ("age", "sector"), ("sector", "age")]),
)


def columns(jobs: list[Job]) -> list[NDArray[np.int64]]:
    return [np.array(column) for column in zip(*jobs, strict=True)]


def slots_of(jobs: list[Job]) -> Slots:
    work, age, sector, _ = columns(sorted(jobs, key=lambda job: job[:3]))
    codes = {"age": age.astype(np.uint8), "sector": sector.astype(np.uint8)}
    return Slots(work.astype(np.int32), {**codes}, CATEGORIES)


def records_of(jobs: list[Job], by: tuple[str, ...]) -> JobRecords:
    work, age, sector, home = columns(jobs)
    attributes = {"age": age.astype(np.uint8), "sector": sector.astype(np.uint8)}
    return JobRecords(work.astype(np.int32), home.astype(np.int32), {name: attributes[name] for name in by})


def place_of(block: int, pooling: Pooling, jobs: list[Job], places: Geography) -> int:
    """Twice the block's number; for a small block, twice the number of its unit's first block plus 1."""
    if sum(job[0] == block for job in jobs) >= pooling.below:
        return 2 * block
    unit = places.unit_of(pooling.level, np.arange(places.n_blocks)).tolist()
    return 2 * int(unit.index(unit[block])) + 1


def key_of(job: Job, pooling: Pooling, jobs: list[Job]) -> tuple[int, ...]:
    strata = (job[1 + list(CATEGORIES).index(name)] for name in pooling.by)
    return (place_of(job[0], pooling, jobs, PLACES), *strata)


def pools_by_hand(pools: PoolTable) -> list[list[tuple[int, int, int]]]:
    """Return the slots (work, age, sector) of each pool, in order."""
    rows = list(
        zip(pools.slots.work.tolist(), *(pools.slots.attributes[a].tolist() for a in CATEGORIES), strict=True)
    )
    stops = np.cumsum(pools.n).tolist()
    return [rows[a:b] for a, b in zip([0, *stops[:-1]], stops, strict=True)]


def homes_by_work(homes: NDArray[np.int32], pools: PoolTable) -> Counter[tuple[int, int, int]]:
    """Count (pool, work, home)."""
    pool = np.repeat(np.arange(pools.n.size), pools.n)
    return Counter(zip(pool.tolist(), pools.slots.work.tolist(), homes.tolist(), strict=True))


# --- by hand


def test_small_blocks_of_a_unit_share_an_urn() -> None:
    """Blocks of 3, 1 and 2, 0, 1 and 1 jobs; below 2, urns are shared in areas."""
    jobs = [(b, 0, 0, 0) for b, n in enumerate([3, 1, 2, 0, 1, 1]) for _ in range(n)]
    pools = build_pools(slots_of(jobs), PLACES, Pooling("area", 2))
    # Own: 0, 2. Shared: 1 (with 0 as the area's first block), 4 (with 2), 5.
    assert pools.place.tolist() == [0, 1, 4, 5, 11]
    assert pools.block.tolist() == [0, 0, 2, 2, 5]
    assert pools.shared.tolist() == [False, True, False, True, True]
    assert pools.n.tolist() == [3, 1, 2, 1, 1]
    assert pools.slots.work.tolist() == [0, 0, 0, 1, 2, 2, 4, 5]
    # In regions, blocks 1 and 4 are together; from 4 jobs on nothing is left out.
    assert build_pools(slots_of(jobs), PLACES, Pooling("region", 2)).n.tolist() == [3, 2, 2, 1]
    assert build_pools(slots_of(jobs), PLACES, Pooling("region", 4)).n.tolist() == [7, 1]
    own = build_pools(slots_of(jobs), PLACES, Pooling("region"))
    assert own.place.tolist() == [0, 2, 4, 8, 10]
    assert not own.shared.any()


# --- against dictionaries


@given(jobs_lists, poolings, st.randoms(use_true_random=False))
def test_agrees_with_dictionaries(jobs: list[Job], pooling: Pooling, draw: random.Random) -> None:
    pools = build_pools(slots_of(jobs), PLACES, pooling)
    expected = Counter(key_of(job, pooling, jobs) for job in jobs)
    keys = list(zip(pools.place.tolist(), *(codes.tolist() for codes in pools.strata.values()), strict=True))
    assert keys == sorted(expected)
    assert pools.n.tolist() == [expected[key] for key in keys]
    assert tuple(pools.strata) == pooling.by
    assert pools.pooling == pooling

    # The slots of each pool are its jobs', by work block and attributes: no stratum mixed, no job lost.
    for key, slots in zip(keys, pools_by_hand(pools), strict=True):
        assert slots == sorted(job[:3] for job in jobs if key_of(job, pooling, jobs) == key)

    # A record keeps its pool and its work block, in whatever order the records come.
    shuffled = list(jobs)
    draw.shuffle(shuffled)
    homes = group_records(pools, PLACES, records_of(shuffled, pooling.by))
    assert homes.dtype == np.int32
    assert homes_by_work(homes, pools) == Counter(
        (keys.index(key_of(job, pooling, jobs)), job[0], job[3]) for job in jobs
    )


@given(jobs_lists, poolings, st.data())
def test_records_of_other_slots_are_refused(jobs: list[Job], pooling: Pooling, data: st.DataObject) -> None:
    pools = build_pools(slots_of(jobs), PLACES, pooling)
    number = data.draw(st.integers(0, len(jobs) - 1))
    work, age, sector, home = jobs[number]
    changed = [
        jobs[:number] + jobs[number + 1 :],
        [*jobs, jobs[number]],
        [*jobs[:number], ((work + 1) % 6, age, sector, home), *jobs[number + 1 :]],
    ]
    if "age" in pooling.by:
        changed.append([*jobs[:number], (work, 1 - age, sector, home), *jobs[number + 1 :]])
    for other in changed:
        if other:
            with pytest.raises(ValueError, match="do not fill the public slots") as caught:
                group_records(pools, PLACES, records_of(other, pooling.by))
            assert not any(character.isdigit() for character in str(caught.value))


# --- errors


def test_an_unknown_attribute_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="by wage: the attributes are age, sector"):
        build_pools(slots_of([(0, 0, 0, 0)]), PLACES, Pooling("area", 1, ("age", "wage")))
    with pytest.raises(ValueError, match="the attributes are none"):
        build_pools(Slots(np.zeros(1, np.int32), {}, {}), PLACES, Pooling("area", 1, ("age",)))


@pytest.mark.parametrize("below", [1, 2])
def test_an_unknown_level_is_refused_by_name(below: int) -> None:
    with pytest.raises(ValueError, match="no level 'tract'; the geography has: region, area, block"):
        build_pools(slots_of([(0, 0, 0, 0)]), PLACES, Pooling("tract", below))
