"""Pools: the slots that share an urn, and the order of job records that goes with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from geo_data.geography import Geography
from geo_data.jobs import JobRecords, Slots
from synth.arrays import find_keys
from synth.policy import FULL, Policy


@dataclass(frozen=True)
class Pooling:
    """Which destinations share an urn: a public rule on public workplace totals."""

    level: str  # level whose units gather their small blocks
    # Blocks with fewer jobs than this share the urn of their unit; the others keep their own. 1: every block
    # keeps its own.
    below: int = 1
    by: tuple[str, ...] = ()  # attributes of the slots by which every urn is divided further

    def place(
        self, geography: Geography, jobs: NDArray[np.int64], blocks: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Return the place of each of some blocks: blocks of one place share their urns.

        Twice the number of the block; where it shares, twice that of the first block of its unit, plus 1.
        """
        unshared = 2 * blocks.astype(np.int64)
        starts = geography.starts(self.level)
        if self.below <= 1:
            return unshared
        first = 2 * starts[geography.unit_of(self.level, blocks)].astype(np.int64)
        return np.where(jobs[blocks] < self.below, first + 1, unshared)

    def most_pools(self, geography: Geography, categories: Mapping[str, tuple[str, ...]]) -> int:
        """Return how many pools there can be, whatever jobs there are: of every block and every unit."""
        places = geography.n_blocks + geography.n_units(self.level)
        return places * math.prod(len(categories[name]) for name in self.by)


@dataclass(frozen=True, eq=False)
class PoolTable:
    """The public pools of a release, by place and then by stratum."""

    pooling: Pooling
    # as `Pooling.place` says; half of it is a block of the pool's destination, or of its unit; shape
    # (n_pools,)
    place: NDArray[np.int64]
    # category code of each attribute that pools are stratified by; shape (n_pools,)
    strata: dict[str, NDArray[np.integer]]
    n: NDArray[np.int64]  # slots of each pool; shape (n_pools,)
    slots: Slots  # the slots, pool after pool; inside a pool by work block and attributes
    policy: Policy = FULL  # by whose parts of homes pools are divided too, last
    # Jobs of each block by which blocks share, where they are not those of the slots; shape (n_blocks,)
    sharing: NDArray[np.int64] | None = None

    def __repr__(self) -> str:
        return (
            f"<PoolTable: {self.n.size:,} pools, {int(self.shared.sum()):,} of them shared; {self.slots!r}>"
        )

    def place_of_blocks(self, geography: Geography) -> NDArray[np.int64]:
        """Return the place of every block."""
        jobs = self.slots.jobs(geography.n_blocks) if self.sharing is None else self.sharing
        return self.pooling.place(geography, jobs, np.arange(geography.n_blocks, dtype=np.int32))

    def sized(self, slots: Slots, geography: Geography) -> PoolTable:
        """Return the same pools of other slots, of which each has one at least."""
        pool = PoolFinder(self, geography).find(slots)
        order = np.argsort(pool, kind="stable")
        sharing = self.slots.jobs(geography.n_blocks)
        return replace(self, n=np.bincount(pool).astype(np.int64), slots=slots.take(order), sharing=sharing)

    @property
    def block(self) -> NDArray[np.int32]:
        """A block of each pool's destination: its own, or the first of the unit whose blocks share."""
        return (self.place // 2).astype(np.int32)

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the slots of each pool begin, and the last ones end, shape (n_pools + 1,)."""
        return np.append(0, np.cumsum(self.n))

    @property
    def part(self) -> NDArray[np.int32]:
        """The part that all homes of each pool are in."""
        return self.slots.home_part[self.offsets[:-1]]

    @property
    def keys(self) -> NDArray[np.int64]:
        """Numbers that rise over the pools: one for a place, stratum and part, in any table of pools."""
        slots = self.slots.take(self.offsets[:-1], self.pooling.by)
        return _key(slots, slots.categories, self.pooling.by, self.place, self.policy)

    @property
    def shared(self) -> NDArray[np.bool_]:
        """Whether the pool is shared by the small blocks of a unit."""
        return self.place % 2 == 1


def build_pools(slots: Slots, geography: Geography, pooling: Pooling, policy: Policy = FULL) -> PoolTable:
    """Group slots into pools.

    A ValueError if an attribute is not one of the slots', or there is no such level.
    """
    unknown = sorted(set(pooling.by) - set(slots.attributes))
    if unknown:
        allowed = ", ".join(slots.attributes) or "none"
        raise ValueError(f"pools cannot be made by {', '.join(unknown)}: the attributes are {allowed}")
    alike, times = slots.counted()
    place = pooling.place(geography, alike.jobs(geography.n_blocks, times), alike.work)
    key = _key(alike, slots.categories, pooling.by, place, policy)
    order = np.argsort(key, kind="stable")
    alike, times = alike.take(order), times[order]
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    return PoolTable(
        pooling=pooling,
        place=place[order[first]],
        strata={name: alike.attributes[name][first] for name in pooling.by},
        n=np.add.reduceat(times, first) if first.size else times,
        # Those of a nation take half a gigabyte, and most pools follow one another as their slots do.
        slots=slots if bool((np.diff(order) == 1).all()) else alike.repeat(times),
        policy=policy,
    )


def group_records(pools: PoolTable, geography: Geography, records: JobRecords) -> NDArray[np.int32]:
    """Return the confidential home blocks of the job records, in the order of `order_records`."""
    return records.home[order_records(pools, geography, records)]


def order_records(pools: PoolTable, geography: Geography, records: JobRecords) -> NDArray[np.int64]:
    """Return the order of job records in which they fill the slots of pools: by pool, work block, attributes.

    Records have the attributes that pools are stratified by, and perhaps others; with all of the slots', a
    record is in the place of a slot like it. The order is **confidential**, as the records are. A ValueError
    if the records are not those of the slots.
    """
    pool = PoolFinder(pools, geography).find(records)
    codes = [records.attributes[name] for name in pools.slots.attributes if name in records.attributes]
    order = np.lexsort([*reversed(codes), records.work, pool])
    filled = len(records) == len(pools.slots) and np.array_equal(records.work[order], pools.slots.work)
    if not filled or not np.array_equal(np.bincount(pool), pools.n):
        raise ValueError(
            "the job records do not fill the public slots: the two were read from different files"
        )
    return order


class PoolFinder:
    """Finds the pool of every job record."""

    def __init__(self, pools: PoolTable, geography: Geography) -> None:
        self._pools, self._place, self._keys = pools, pools.place_of_blocks(geography), pools.keys

    def find(self, records: Slots | JobRecords) -> NDArray[np.int64]:
        """Return the pool of each record, int64 of shape (n,); the number of pools where there is none."""
        categories, by = self._pools.slots.categories, self._pools.pooling.by
        place = self._place[records.work]
        key = _key(records, categories, by, place, self._pools.policy)
        # Of jobs that no slot can be for (`JobSource.parts`), no key may be that of another pool.
        key[records.work < 0] = -1
        for name in by:
            key[records.attributes[name] >= len(categories[name])] = -1
        pool, there = find_keys(self._keys, key)
        return np.where(there, pool, self._keys.size)


def _key(
    rows: Slots | JobRecords,
    categories: dict[str, tuple[str, ...]],
    by: tuple[str, ...],
    place: NDArray[np.int64],
    policy: Policy,
) -> NDArray[np.int64]:
    key = place
    for name in by:
        key = key * len(categories[name]) + rows.attributes[name]
    return key * policy.n_parts + rows.part(policy)
