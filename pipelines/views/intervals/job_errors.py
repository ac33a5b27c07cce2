"""How far jobs by workplace may be from the estimates that a release has, in every draw.

Where whole records or attributes are protected, jobs by workplace are estimates, too, and draws of homes
alone would give every workplace the same jobs. So each draw multiplies the jobs of a workplace and its
categories by a number about 1. Sums of jobs, from single blocks by an attribute to all jobs, then spread as
much as the noisy counts say that add up to them (`WorkplaceIntervals.told`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from geo_data.proxy_truth import variance_of_workplaces
from pipelines.drawing.job_counts import units_of_blocks
from pipelines.views.intervals.evidence import JobDraws
from pipelines.views.intervals.workplaces import WorkplaceIntervals
from pipelines.views.release import Release
from synth.arrays import find_keys
from synth.posterior.job_totals import draws_of_jobs
from synth.randomness import WordStream

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class JobErrors:
    """Numbers about 1 by which draws multiply the jobs of rows of `JobDraws`, shape (n_draws, n_rows).

    Where no noisy counts tell of jobs, they are taken to be off as the plan was tried on them
    (`proxy_workplaces`).

    Parameters
    ----------
    release : Release
        Of estimated jobs by workplace.
    jobs : JobDraws
    stream : WordStream
    """

    def __init__(self, release: Release, jobs: JobDraws, stream: WordStream) -> None:
        self._jobs = jobs
        listed = release.plan.config.workplaces is not None
        intervals, n = WorkplaceIntervals(release), jobs.jobs.astype(np.float64)

        def sums() -> Iterator[tuple[Int64, Float64, Float64]]:
            for level, by in _scales(jobs):
                area = units_of_blocks(jobs.plan, level)
                cell, of_row = np.unique(self._keys(area, by), return_inverse=True)
                counted, variance = (each.ravel()[cell] for each in intervals.told(area, by))
                told = np.isfinite(variance)
                assumed = (
                    variance_of_workplaces(self._widths(by), listed=listed) * np.bincount(of_row, n) ** 2
                )
                yield of_row, np.where(told, counted, np.nan), np.where(told, variance, assumed)

        self._drawn = draws_of_jobs(n, sums(), jobs.draws, stream)

    def of(self, level: str, by: Sequence[str], work: Int64, categories: Sequence[Int64]) -> Float64:
        """Return what to multiply cells by, in each draw: of units of work, and categories of attributes."""
        widths = self._widths(by)
        area = self._jobs.plan.geography.units_of_blocks(level).astype(np.int64)
        cell, of_row = np.unique(self._keys(area, by), return_inverse=True)
        size = np.bincount(of_row, self._jobs.jobs)
        factor = np.stack([np.bincount(of_row, row) for row in self._drawn]) / size
        key = np.ravel_multi_index((*categories, work), (*widths, int(area.max()) + 1))
        position, present = find_keys(cell, key)
        assert present.all()
        return np.asarray(factor[:, position])

    def _keys(self, area: Int64, by: Sequence[str]) -> Int64:
        """Return the combination of categories and the area of each row, as one number."""
        codes = [self._jobs.attributes[name] for name in by]
        shape = (*self._widths(by), int(area.max()) + 1)
        return np.asarray(np.ravel_multi_index((*codes, area[self._jobs.work]), shape), np.int64)

    def _widths(self, by: Sequence[str]) -> list[int]:
        return [len(self._jobs.plan.pools.slots.categories[name]) for name in by]


def _scales(jobs: JobDraws) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return levels of work areas, fine first and then everywhere, with each attribute and with none."""
    plan, geography = jobs.plan, jobs.plan.geography
    levels = [geography.block_level, *reversed(geography.levels), None]
    secret = plan.policy.secret
    by = [(name,) for name in secret or jobs.attributes if name in jobs.attributes]
    return [*itertools.product(levels, [*by, *([] if secret else [()])])]
