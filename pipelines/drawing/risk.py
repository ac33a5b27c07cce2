"""How far a release is from the truth, by its noisy counts: Stein's unbiased estimate of squared errors.

Let y = x + e be a noisy count, and r what is released of it. The mean of (r - x)^2 is that of (r - y)^2, less
the variance of e, plus twice the covariance of r and e; and so of sums of counts. The covariance is how much
a release follows its noise, which is seen by giving counts more noise, of the same law, and drawing again
(Stein 1981; Ramani, Blu and Unser 2008). No public model is believed for it. It costs no privacy: it sees
noisy counts and public numbers only, and has lots of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.jobs import Slots
from pipelines.drawing.estimating import JobLayout, JobRows, draw_homes, estimate_homes
from pipelines.plans.accuracy import Risk
from pipelines.plans.plan import ReleasePlan, batches, slots_of, spread
from pipelines.plans.workload import Table, Workload
from synth.arrays import segment_indices
from synth.geometric.measured import MeasuredTable, count_cells
from synth.posterior.estimation import Cells

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_MOST_JOBS, _MOST_CELLS = 1_000_000, 2**23  # that are drawn once more, in memory; of larger releases a part
_DISTURBED = 1 / 4  # of the counts get more noise: so few that the rest is as it was,
_LEAST_TIMES, _MOST_TIMES = 2, 4  # as often: by one alone, sums of many counts say little; as often as makes
_ENOUGH = 2**16  # counts in all


class _Counts(NamedTuple):
    """Of the cells of a measured table: noisy counts, what is drawn, further noise, and what that changes.

    `group` is that of each job; further noise comes several times.
    """

    table: MeasuredTable
    group: NDArray[np.int32]
    noisy: Int64
    drawn: Int64
    noise: list[Int64]
    change: list[Int64]


def estimate_risks(
    plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Cells], workload: Workload
) -> list[Risk | None]:
    """Estimate the errors of tables from the noisy counts of one run of the mechanism.

    None of a table that no measured one has. Where there are so many jobs or cells that only a part of them
    is looked at, none of a table that gathers others, too, and none at all if there are several measured
    tables; nor where records need not be those of the slots, so that noise is not all that counts are off by.
    """
    risks: list[Risk | None] = [None] * len(workload.tables)
    every = len(plan.pools.slots)
    part = min(1.0, _MOST_JOBS / every, _MOST_CELLS / int(plan.numeric.k.sum()))
    parts = spread(batches(plan), part)
    slots = slots_of(plan, parts)
    whole = slots.size == every
    if not plan.fills_slots or (plan.secondary and not whole):
        return risks
    rows = layout.rows(parts)
    jobs = plan.pools.slots.take(slots[rows.slot])
    measured = _draw_again(plan, rows, layout.choose(rows, noisy))
    for i, table in enumerate(workload.tables):
        if table.home is None or (not whole and workload.gathers(table)):
            continue
        finer = []
        for counts in measured:
            cell = _cells(plan, jobs, counts, table, table.home)
            if cell is not None:
                finer.append((cell.size * counts.table.law.variance, counts, cell))
        if finer:
            _, counts, cell = min(finer, key=itemgetter(0))  # the one with the least noise
            risks[i] = _risk(counts, cell, len(jobs))
    return risks


def _draw_again(plan: ReleasePlan, rows: JobRows, noisy: Sequence[Int64]) -> list[_Counts]:
    """Draw from counts as they are, and then with more noise, by the same lots."""
    generator, key = np.random.default_rng(0), synth.RunKey.from_seed(0)
    groups = [np.repeat(member, rows.groups.n) for member in rows.groups.member[: len(noisy)]]

    def draw(counts: Sequence[Int64]) -> list[Int64]:
        homes = draw_homes(plan, rows, estimate_homes(plan, rows, counts), key, 0)[rows.slot]
        of_tables = zip(rows.measured, groups, strict=True)
        return [count_cells(table, group, homes) for table, group in of_tables]

    of_tables = zip(rows.measured, groups, noisy, draw(noisy), strict=True)
    measured = [_Counts(*of_table, [], []) for of_table in of_tables]
    times = _ENOUGH // sum(counts.size for counts in noisy)
    for _ in range(min(_MOST_TIMES, max(_LEAST_TIMES, times))):
        noise = [_more_noise(generator, table) for table in rows.measured]
        drawn = draw([y + e for y, e in zip(noisy, noise, strict=True)])
        for counts, e, cells in zip(measured, noise, drawn, strict=True):
            counts.noise.append(e)
            counts.change.append(cells - counts.drawn)
    return measured


def _more_noise(generator: np.random.Generator, table: MeasuredTable) -> Int64:
    chances, cells = table.law.chances(), int(table.offsets[-1])
    both = np.concatenate([chances[:0:-1], chances])
    noise = generator.choice(np.arange(1 - chances.size, chances.size), cells, p=both / both.sum())
    noise[generator.random(cells) >= _DISTURBED] = 0
    return noise


def _cells(plan: ReleasePlan, jobs: Slots, counts: _Counts, table: Table, level: str) -> Int64 | None:
    """Return the cell of a table that each measured cell lies in; None where one lies in several."""
    geography, policy, measured = plan.geography, plan.policy, counts.table
    kind = np.zeros(len(jobs), np.int64)
    for name in table.attributes:
        kind = kind * len(jobs.categories[name]) + jobs.attributes[name]
    if table.work is not None:
        kind = kind * geography.n_units(table.work) + geography.unit_of(table.work, jobs.work)
    of_group = np.zeros(measured.n.size, np.int64)
    of_group[counts.group] = kind
    if not np.array_equal(of_group[counts.group], kind):
        return None
    domains = measured.domains
    last = np.append(domains.cuts[1:], 0) - 1
    last[domains.offsets[1:] - 1] = policy.ends(plan.geography.n_blocks)[domains.part] - 1
    home = geography.unit_of(level, domains.cuts).astype(np.int64)
    if np.any(home != geography.unit_of(level, last.astype(np.int32))):
        return None
    rows, row = np.unique(of_group, return_inverse=True)
    columns, column = np.unique(home, return_inverse=True)
    index = segment_indices(domains.offsets[measured.domain], measured.k)
    cell: Int64 = np.repeat(row, measured.k) * columns.size + column[index]
    return cell if rows.size * columns.size <= cell.size else np.unique(cell, return_inverse=True)[1]


def _risk(counts: _Counts, cell: Int64, jobs: int) -> Risk | None:
    """Add up over the cells of a table, `cell` being that of each measured one; None if too little is known.

    The covariance is the variance of the noise, times the slope of what changes on what was added.
    """

    def total(values: NDArray[Any]) -> Float64:
        return np.asarray(np.bincount(cell, values), np.float64)

    variance, fourth = counts.table.law.cumulants
    off, merged = total(counts.drawn - counts.noisy), np.bincount(cell)
    noise, change = (np.stack([*map(total, values)]) for values in (counts.noise, counts.change))
    added, of_all = float((noise * noise).sum()), variance * cell.size
    if added == 0:
        return None
    slope = float((noise * change).sum()) / added
    squares = float((off * off).sum()) + (2 * slope - 1) * of_all
    # Of the squared noise, of its product with the error, and of the slope.
    of_noise = fourth * cell.size + 2 * variance**2 * float(np.square(merged, dtype=np.float64).sum())
    of_product = 4 * of_all * max(squares, 0.0) / np.count_nonzero(merged)
    of_slope = float(np.square(noise * (change - slope * noise)).sum()) / added**2
    deviation = (of_noise + of_product + 4 * of_all**2 * of_slope) ** 0.5
    return Risk(squares / jobs, float(deviation) / jobs)
