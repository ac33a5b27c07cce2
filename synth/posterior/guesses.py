"""What somebody guesses who knows every home but one: the unit that published counts make likeliest.

A *candidate* is a home cell. What was published changes its odds by one factor for each table: the likelihood
of the table's count there with the job, over that without it. So the attacker multiplies a belief by these
factors, adds up the candidates of each unit, and takes the largest sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from synth._words import compiled as _compiled
from synth.geometric.measured import JobGroups, layouts
from synth.noise import Law
from synth.plan import Table

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_EQUAL = 1 - 1e-12  # sums of a unit are as large as others but for rounding


@dataclass(frozen=True, eq=False)
class CellOdds:
    """What was published of a table: a factor of the odds of every cell.

    Attributes
    ----------
    table : Table
    elsewhere : ndarray of float64, shape (n_cells,)
        Of a job that is not counted there: likelihood of what was published with one job more, over that
        with the jobs that there are.
    home : ndarray of float64, shape (n_cells,)
        Of a job that is counted there: likelihood with the jobs that there are, over that with one less.
    """

    table: Table
    elsewhere: Float64
    home: Float64


class _Candidates(NamedTuple):
    """The home cells of one place with belief and unit; the home of each job, and where its odds stand.

    Table t has cell ``cell[which[t, job]]`` of each candidate, whose odds begin at ``start[t, job]``.
    """

    belief: Float64
    unit: Int32
    cell: Int32
    which: Int32
    start: Int64
    homes: Int32


def noise_odds(noise: Int64, law: Law) -> tuple[Float64, Float64]:
    """Return `elsewhere` and `home` of noisy counts.

    Parameters
    ----------
    noise : ndarray of int64
        What the published counts have more than the true ones.
    law : Law
    """
    return law.likelier(noise), law.likelier(noise + 1)


def urn_odds(
    jobs: Int64, prior: Float64, drawn: Int64, kept: NDArray[np.bool_], retention: Float64
) -> tuple[Float64, Float64]:
    """Return `elsewhere` and `home` of draws from an urn, given which cells it had.

    Draws are Dirichlet-multinomial with weights of jobs and prior, so one job more makes them 1 + y / (c + a)
    times as likely, where c jobs are and y were drawn; and it makes a cell certain that would be kept with
    probability f.

    Parameters
    ----------
    jobs : ndarray of int64
        c of every cell.
    prior : ndarray of float64
        a of every cell, positive.
    drawn : ndarray of int64
        y of every cell.
    kept : ndarray of bool
        Whether the urn has the cell.
    retention : ndarray of float64
        f of every cell.
    """
    odds = [
        (1 + drawn / (others + prior)) * kept / np.where(others > 0, 1.0, retention)
        for others in (jobs, np.maximum(jobs - 1, 0))
    ]
    return odds[0], odds[1]


def guess_units(
    evidence: Sequence[CellOdds],
    member: Int32,
    prior: Callable[[Int32], Float64],
    unit_of: Callable[[Int32], Int32],
    homes: Int32,
) -> tuple[Float64, Float64]:
    """Return how likely the home unit of each job of one place is guessed right; of equal sums, any is taken.

    Parameters
    ----------
    evidence : sequence of CellOdds
        At least one; no cell of the common refinement of its tables is in two units.
    member : ndarray of int32, shape (n_tables, n_jobs)
        Group of each job in each table.
    prior : callable
        Share of each cell in the belief, given the first block of each.
    unit_of : callable
        Unit of each of some blocks.
    homes : ndarray of int32, shape (n_jobs,)
        Home block of each job.

    Returns
    -------
    public, released : ndarray of float64, shape (n_jobs,)
        From the belief alone, and with the evidence: 0, or 1 over the number of the largest sums.
    """
    jobs = homes.size
    groups = JobGroups(np.ones(jobs, np.int64), np.zeros(jobs, np.int32), member)
    (layout,) = layouts([odds.table for odds in evidence], groups)
    belief = prior(layout.cuts)
    unit = np.unique(unit_of(layout.cuts), return_inverse=True)[1].astype(np.int32)
    cell = (np.searchsorted(layout.cuts, homes, side="right") - 1).astype(np.int32)
    sums = np.bincount(unit, belief)
    first = np.cumsum([0, *(odds.elsewhere.size for odds in evidence[:-1])])
    right = np.zeros(jobs)
    likeliest = sums >= _EQUAL * sums.max()
    public = likeliest[unit[cell]] / np.count_nonzero(likeliest)
    starts = layout.start + first[:, np.newaxis]
    _guess(
        _Candidates(belief, unit, layout.cell, layout.which, starts, cell),
        np.concatenate([odds.elsewhere for odds in evidence]),
        np.concatenate([odds.home for odds in evidence]),
        np.empty_like(sums),
        right,
    )
    return public, right


@_compiled
def _guess(candidates, elsewhere, home, sums, right):  # type: ignore[no-untyped-def]
    belief, unit, cell, which, start, homes = candidates
    for job in range(homes.size):
        sums[:] = 0.0
        for candidate in range(belief.size):
            weight = belief[candidate]
            for table in range(start.shape[0]):
                cells = cell[which[table, job]]
                i = start[table, job] + cells[candidate]
                weight *= home[i] if cells[candidate] == cells[homes[job]] else elsewhere[i]
            sums[unit[candidate]] += weight
        likeliest = sums >= _EQUAL * sums.max()
        right[job] = likeliest[unit[homes[job]]] / likeliest.sum()
