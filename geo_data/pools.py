"""Pools: the slots that share an urn, and the order of job records that goes with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geo_data.jobs import JobRecords, Slots

__all__ = ["PoolTable", "build_pools", "group_records"]


@dataclass(frozen=True, eq=False)
class PoolTable:
    """The public pools of a release, sorted by work block and then by stratum.

    Attributes
    ----------
    work : ndarray of int32, shape (n_pools,)
        Work block.
    strata : dict of str to ndarray, shape (n_pools,)
        Category code of each attribute that pools are stratified by.
    n : ndarray of int64, shape (n_pools,)
        Slots of each pool.
    slots : Slots
        The slots, pool after pool.
    """

    work: NDArray[np.int32]
    strata: dict[str, NDArray[np.integer]]
    n: NDArray[np.int64]
    slots: Slots


def build_pools(slots: Slots, by: tuple[str, ...] = ()) -> PoolTable:
    """Group slots into pools: one a work block, or one a work block and combination of attributes.

    Parameters
    ----------
    slots : Slots
        Public.
    by : tuple of str
        Attributes of the slots to stratify by.

    Returns
    -------
    PoolTable

    Raises
    ------
    ValueError
        If an attribute is not one of the slots'.
    """
    unknown = sorted(set(by) - set(slots.attributes))
    if unknown:
        allowed = ", ".join(slots.attributes) or "none"
        raise ValueError(f"pools cannot be made by {', '.join(unknown)}: the attributes are {allowed}")
    key = _key(slots, slots.categories, by)
    order = np.argsort(key, kind="stable")
    ordered = Slots(
        work=slots.work[order],
        attributes={name: codes[order] for name, codes in slots.attributes.items()},
        categories=slots.categories,
    )
    _, first, n = np.unique(key[order], return_index=True, return_counts=True)
    return PoolTable(
        work=ordered.work[first],
        strata={name: ordered.attributes[name][first] for name in by},
        n=n.astype(np.int64),
        slots=ordered,
    )


def group_records(pools: PoolTable, records: JobRecords) -> NDArray[np.int32]:
    """Return the confidential home blocks of the job records, pool after pool.

    Parameters
    ----------
    pools : PoolTable
    records : JobRecords
        With the attributes that the pools are stratified by.

    Returns
    -------
    ndarray of int32, shape (n_records,)

    Raises
    ------
    ValueError
        If the records are not those of the slots.
    """
    by = tuple(pools.strata)
    key = _key(records, pools.slots.categories, by)
    _, n = np.unique(key, return_counts=True)
    slot_key = _key(pools.slots, pools.slots.categories, by)
    if n.size != pools.n.size or not np.array_equal(np.sort(key), slot_key):
        raise ValueError(
            "the job records do not fill the public slots: the two were read from different files"
        )
    return records.home[np.argsort(key, kind="stable")]


def _key(
    rows: Slots | JobRecords, categories: dict[str, tuple[str, ...]], by: tuple[str, ...]
) -> NDArray[np.int64]:
    key = rows.work.astype(np.int64)
    for name in by:
        key = key * len(categories[name]) + rows.attributes[name]
    return key
