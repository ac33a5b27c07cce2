"""Count queries: how many people live in these areas and work in those, in two tables of flows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray


def count_queries(n_homes: int, n_works: int, queries: int = 1000) -> NDArray[np.int64]:
    """Choose count queries: each a range of home units and a range of work units.

    The four ends follow the Halton sequence, which fills their space evenly and is the same for everybody:
    nothing about the data, and no chance, is in the choice. Units next to each other in a geography lie in
    the same larger area, so that ranges are regions.

    First and last home unit, first and last work unit; both ends belong to the range.
    """
    from scipy.stats import qmc  # takes its time

    sequence = qmc.Halton(4, scramble=False)
    sequence.fast_forward(1)  # the first point is the origin
    ends = np.floor(sequence.random(queries) * [n_homes, n_homes, n_works, n_works]).astype(np.int64)
    return np.hstack([np.sort(ends[:, :2]), np.sort(ends[:, 2:])])


def query_errors(
    truth: pd.DataFrame, release: pd.DataFrame, queries: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return by how many jobs the answers of a release to `count_queries` are wrong, shape (q,).

    The tables of flows are sorted by work.
    """
    return np.abs(_answers(release, queries) - _answers(truth, queries))


def share_within(errors: NDArray[np.float64], jobs: float, rho: float) -> float:
    """Return the share of queries whose error is at most `jobs_within` of the number of jobs."""
    return float((errors <= jobs_within(jobs, rho)).mean())


def jobs_within(jobs: float, rho: float) -> int:
    """Return rho times the root of the number of jobs, in whole jobs.

    Errors of so many are of the order of the chance in which n workers were there to be counted at all
    (Chen, Kifer, LeFevre and Machanavajjhala 2009).
    """
    return math.floor(rho * math.sqrt(jobs))


def _answers(flows: pd.DataFrame, queries: NDArray[np.int64]) -> NDArray[np.float64]:
    work, home, jobs = (flows[name].to_numpy() for name in ("work", "home", "S000"))
    low = np.searchsorted(work, queries[:, 2], side="left")
    high = np.searchsorted(work, queries[:, 3], side="right")
    answers = np.empty(len(queries))
    for i, (first, last) in enumerate(queries[:, :2]):
        homes = home[low[i] : high[i]]
        answers[i] = jobs[low[i] : high[i]][(homes >= first) & (homes <= last)].sum()
    return answers
