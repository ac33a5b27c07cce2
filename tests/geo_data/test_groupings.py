"""Levels made from places: parts of equal size, neighbours together, whatever the parents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geo_data import MicrodataJobs, read_crosswalk
from geo_data.crosswalk import group_places

Refused = Callable[..., AbstractContextManager[None]]


@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 4), st.integers(0, 1000))
def test_every_parent_has_its_parts_and_they_are_even(n: int, parts: int, parents: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parent = rng.integers(0, parents, n)
    group = group_places(rng.uniform(50, 55, n), rng.uniform(-3, 3, n), parent, parts)
    assert set(group) == set(range(group.max() + 1))
    for one in np.unique(parent):
        sizes = np.bincount(group[parent == one])[np.unique(group[parent == one])]
        assert sizes.size == min(parts, (parent == one).sum())
        assert sizes.max() - sizes.min() <= max(1, np.ceil(np.log2(parts)))
        assert not set(group[parent == one]) & set(group[parent != one])


def test_neighbours_are_together() -> None:
    # Two rows of four, long from west to east: first cut between the second and the third column.
    east, north = (g.ravel().astype(float) for g in np.meshgrid(np.arange(4), np.arange(2) / 10))
    group = group_places(north, east, np.zeros(8, np.int64), 2)
    assert group.tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert group_places(north, east, np.zeros(8, np.int64), 4).tolist() == [0, 1, 2, 3, 0, 1, 2, 3]
    # A degree of longitude is short near the pole: the same shape, now long from south to north.
    group = group_places(89.8 + north, east / 2, np.zeros(8, np.int64), 2)
    assert group.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


ZONES = "zone,ward,lat,lon\n" + "".join(f"E{i:03},W{i // 6},{50 + i / 100},{i % 3}\n" for i in range(24))


def test_groupings_are_levels_that_nest(write: Callable[..., Path]) -> None:
    path = write(ZONES)
    geography = read_crosswalk(
        path, block="zone", levels=("ward", "part"), latitude="lat", longitude="lon", groupings={"part": 2}
    )
    assert geography.n_units("ward") == 4
    assert geography.codes("part").tolist() == [f"part{i}" for i in range(8)]
    every = np.arange(geography.n_blocks)
    assert np.bincount(geography.unit_of("part", every)).tolist() == [3] * 8
    alone = read_crosswalk(
        path,
        block="zone",
        levels=("area", "part"),
        latitude="lat",
        longitude="lon",
        groupings={"area": 3, "part": 4},
    )
    assert (alone.n_units("area"), alone.n_units("part")) == (3, 12)


def test_a_grouping_that_cuts_through_units_is_refused(write: Callable[..., Path], refused: Refused) -> None:
    path = write(ZONES)
    with refused(path, "units lie in more than one unit of area", column="ward", count=4):
        read_crosswalk(
            path,
            block="zone",
            levels=("area", "ward"),
            latitude="lat",
            longitude="lon",
            groupings={"area": 3},
        )


@pytest.mark.parametrize("written", ["66", "66.0"])
def test_rows_may_count_jobs(written: str, write: Callable[..., Path]) -> None:
    geography = read_crosswalk(write(ZONES), block="zone", levels=(), latitude="lat", longitude="lon")
    path = write(f"h,w,mode,n\nE001,E002,bus,{written}\nE003,E002,foot,0\nE002,E001,bus,2\n", "jobs.csv")
    jobs = MicrodataJobs(path, geography, home="h", work="w", count="n", attributes=("mode",))
    slots, records = jobs.slots(), jobs.records(("mode",))
    assert len(records) == slots.work.size == 68
    assert np.bincount(slots.work).tolist() == [0, 2, 66]
    assert np.bincount(records.home).tolist() == [0, 66, 2]
    assert slots.categories == {"mode": ("bus",)}  # nobody walks


def test_what_is_no_count_of_jobs_is_refused(write: Callable[..., Path], refused: Refused) -> None:
    geography = read_crosswalk(write(ZONES), block="zone", levels=(), latitude="lat", longitude="lon")
    path = write("h,w,n\nE001,E002,1.5\nE001,E002,-1\nE001,E002,1\n", "jobs.csv")
    with refused(path, "numbers of jobs are negative or not whole", column="n", count=2):
        MicrodataJobs(path, geography, home="h", work="w", count="n").slots()
    path = write("h,w,n\nE001,E002,0\n", "none.csv")
    with refused(path, "there is no job", column="n"):
        MicrodataJobs(path, geography, home="h", work="w", count="n").slots()
    with refused(path, "rows that count jobs cannot name workers"):
        MicrodataJobs(path, geography, home="h", work="w", worker="p", count="n")
