"""From the noisy counts of a plan's measured tables to a home for every slot.

`measure_tables` is the one function here that sees homes: it gives noisy counts, which may be published. All
that follows is post-processing of them and of public numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import synth
from pipelines.planning.plan import ReleasePlan
from synth.estimation import Estimate, estimate
from synth.geometric import GeometricParameters
from synth.measured import JobGroups, MeasuredTable, measure
from synth.rounding import Rounding

__all__ = ["JobRows", "draw_homes", "estimate_homes", "lay_out_jobs", "measure_tables"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JobRows:
    """The slots of a plan in rows of jobs that no measured table tells apart.

    Attributes
    ----------
    tables : tuple of MeasuredTable
        That of the pools, then the further ones.
    groups : JobGroups
        By work block and by the attributes of the tables; places are units of the public model.
    slot : ndarray of int64, shape (n_slots,)
        The slot of each job, row after row.
    """

    tables: tuple[MeasuredTable, ...]
    groups: JobGroups
    slot: Int64


def lay_out_jobs(plan: ReleasePlan) -> JobRows:
    """Return the rows of a plan's jobs, and its measured tables.

    Parameters
    ----------
    plan : ReleasePlan
        Of a mechanism that measures tables.
    """
    numeric, slots, geography = plan.numeric, plan.pools.slots, plan.geography
    if not isinstance(numeric.parameters, GeometricParameters):
        raise TypeError("the mechanism of the plan measures no tables")
    first = synth.Table(numeric.pools.n, numeric.pools.domain, numeric.domains)
    ratios = (replace(numeric.parameters, further=()), *numeric.parameters.further)
    tables = tuple(
        MeasuredTable(table.n, table.domain, table.domains, ratio)
        for table, ratio in zip((first, *numeric.further), ratios, strict=True)
    )
    names = dict.fromkeys((*plan.choices.pool_by, *(name for t in plan.choices.tables for name in t.by)))
    by = [slots.attributes[name] for name in names]
    order = np.lexsort([*reversed(by), slots.work])
    member = np.stack(
        [
            np.repeat(np.arange(plan.pools.n.size), plan.pools.n)[order],
            *(groups.find(slots)[order] for groups in plan.further),
        ]
    ).astype(np.int32)
    keys = np.stack([slots.work[order], *(codes[order].astype(np.int32) for codes in by)])
    begins = np.append(True, (np.diff(keys, axis=1) != 0).any(axis=0))
    start = np.flatnonzero(begins)
    work = slots.work[order][start]
    levels = [*geography.levels, geography.block_level]
    finer = levels[levels.index(plan.level) + 1 :]
    groups = JobGroups(
        np.diff(np.append(start, order.size)),
        geography.unit_of(plan.level, work).astype(np.int32),
        member[:, start],
        tuple(geography.unit_of(level, work).astype(np.int32) for level in finer),
    )
    return JobRows(tables, groups, order)


def measure_tables(
    plan: ReleasePlan, rows: JobRows, members: NDArray[np.int32], homes: Int32, key: synth.RunKey
) -> list[Int64]:
    """Count the jobs in the cells of every measured table, and add noise to every count.

    Lemma 20 of docs/privacy.md.

    Parameters
    ----------
    plan : ReleasePlan
    rows : JobRows
    members : ndarray of int32, shape (n_tables, n_jobs)
        Group of each job in every table; their numbers of jobs are confidential where workplaces are.
    homes : ndarray of int32, shape (n_jobs,)
        **Confidential**: home block of each job.
    key : synth.RunKey

    Returns
    -------
    list of ndarray of int64
        Noisy counts of each table; they may be published.
    """
    return [
        measure(table, group, homes, key.stream(f"noise {k}", 0))
        for k, (table, group) in enumerate(zip(rows.tables, members, strict=True))
    ]


def estimate_homes(plan: ReleasePlan, rows: JobRows, noisy: list[Int64]) -> Estimate:
    """Fit expected homes to noisy counts, from the public model on."""
    shares, cumulative = plan.destination_shares, plan.cumulative_weights
    ends = np.append(shares.starts[1:], plan.geography.n_blocks)
    unit_weight = cumulative[ends] - cumulative[shares.starts]

    def prior(place: int, cuts: Int32) -> NDArray[np.float64]:
        row = int(np.searchsorted(plan.destinations, place))
        own = slice(int(shares.offsets[row]), int(shares.offsets[row + 1]))
        listed = np.zeros(shares.starts.size)
        listed[shares.unit[own]] = shares.share[own]
        bounds = np.append(cuts, plan.geography.n_blocks).astype(np.int64)
        unit = np.searchsorted(shares.starts, bounds, side="right") - 1
        before = np.append(0.0, np.cumsum(listed))
        part = (cumulative[bounds] - cumulative[shares.starts[unit]]) / unit_weight[unit]
        up_to = before[unit] + listed[unit] * part
        return np.diff(up_to) / before[-1]

    return estimate(rows.tables, noisy, rows.groups, prior)


def draw_homes(plan: ReleasePlan, rows: JobRows, fit: Estimate, key: synth.RunKey) -> Int32:
    """Draw a home block for every slot from an estimate.

    Returns
    -------
    ndarray of int32, shape (n_slots,)
        Slot after slot.
    """
    rounding, stream = Rounding(fit), key.stream("rounding", 0)
    cells = np.concatenate([rounding.homes(i, stream) for i in range(rows.groups.n_places)])
    first = rows.groups.starts[:-1]
    place = np.repeat(np.arange(first.size, dtype=np.int32), np.add.reduceat(rows.groups.n, first))
    row = np.searchsorted(plan.destinations, rows.groups.place[first]).astype(np.int32)
    blocks = synth.draw_blocks(
        fit.domains(plan.geography.n_blocks),
        place,
        cells,
        plan.cumulative_weights,
        replace(plan.destination_shares, row=row),
        key.stream("blocks", 0),
    )
    homes = np.empty_like(blocks)
    homes[rows.slot] = blocks
    return homes
