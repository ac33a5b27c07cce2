"""What a release shows of confidential records without noise: how many jobs there are of each kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geo_data.jobs import Slots


@dataclass(frozen=True)
class ExactNumbers:
    """Numbers of jobs by work block, by the part of the home that a policy makes public, and by attributes.

    Attributes
    ----------
    attributes : tuple of str
    joint : bool
        Whether jobs are counted by all attributes together; LODES counts them by each, beside all jobs.
    numbers : int
        How many of these are above 0.
    of_one_job : int
        And how many are 1.
    """

    attributes: tuple[str, ...]
    joint: bool
    numbers: int
    of_one_job: int


def count_exact(batches: Iterable[Slots], attributes: Sequence[str], *, joint: bool) -> ExactNumbers:
    """Return what slots show, given batches of them that have no work block in common."""
    tables = [[*attributes]] if joint else [[], *([name] for name in attributes)]
    numbers = of_one_job = 0
    for slots in batches:
        alike, times = slots.counted()
        for names in tables:
            counts = _count([alike.work, alike.home_part, *(alike.attributes[name] for name in names)], times)
            numbers += counts.size
            of_one_job += int(np.count_nonzero(counts == 1))
    return ExactNumbers(tuple(attributes), joint, numbers, of_one_job)


def _count(columns: Sequence[NDArray[np.integer]], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many jobs there are of each combination that occurs."""
    order = np.lexsort(columns)
    changed = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return np.add.reduceat(times[order], np.append(0, np.flatnonzero(changed) + 1))
