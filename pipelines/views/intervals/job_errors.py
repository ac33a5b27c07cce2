"""How far jobs by workplace may be from the estimates that a release has, in every draw.

Where whole records or attributes are protected, jobs by workplace are estimates, too, and draws of homes
alone would give every workplace the same jobs. So each draw multiplies the jobs of a workplace and its
categories by a number about 1. Sums of jobs, from single blocks by an attribute to all jobs, then spread as
much as the noisy counts say that add up to them (`WorkplaceIntervals.told`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geo_data.proxy_truth import variance_of_workplaces
from pipelines.drawing.job_counts import units_of_blocks
from pipelines.views.intervals.evidence import JobDraws
from pipelines.views.intervals.workplaces import WorkplaceIntervals
from pipelines.views.release import Release
from synth.arrays import find_keys, scale_to_sums, sums_by
from synth.posterior.job_totals import draws_of_jobs, untold_jobs
from synth.randomness import RunKey

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JobFactors:
    """Numbers about 1 by which draws multiply jobs, by unit of work and categories."""

    shape: tuple[int, ...]  # of combinations of categories and units
    cell: Int64  # of these those with jobs, rising
    factor: Float64  # (draws, cells)

    def of(self, work: Int64, categories: Sequence[Int64]) -> Float64:
        """Return those of units of work and categories, in each draw."""
        position, present = find_keys(self.cell, np.ravel_multi_index((*categories, work), self.shape))
        assert present.all()
        return np.asarray(self.factor[:, position])


class JobErrors:
    """Draws of how far the jobs of rows of `JobDraws` are off.

    Parameters
    ----------
    release : Release
        Of estimated jobs by workplace.
    jobs : JobDraws
    key : RunKey
    """

    def __init__(self, release: Release, jobs: JobDraws, key: RunKey) -> None:
        self._jobs, self._intervals, self._key = jobs, WorkplaceIntervals(release), key
        self._n = jobs.jobs.astype(np.float64)
        stream = key.stream("errors of jobs", 0)
        self._drawn = draws_of_jobs(self._n, self._scales(), jobs.draws, stream)
        if secret := jobs.plan.policy.secret:  # by all else jobs are public
            public = [name for name in jobs.attributes if name not in secret]
            keys = self._keys(jobs.plan.geography.block_level, public)
            scale_to_sums(self._drawn, np.unique(keys, return_inverse=True)[1], self._n)

    def factors(self, level: str, by: tuple[str, ...]) -> JobFactors:
        """Return what to multiply jobs by, of units of a level and categories of attributes.

        Where no noisy counts tell of jobs by attributes, they are taken to be off as `proxy_workplaces` has
        jobs that are expected.
        """
        plan = self._jobs.plan
        cell, of_row = np.unique(self._keys(level, by), return_inverse=True)
        drawn, told = sums_by(of_row, self._drawn), np.isfinite(self._told(level, by, cell)[1])
        widths, units = self._widths(by), plan.geography.n_units(level)
        if by and not told.all():
            variance = variance_of_workplaces(widths, listed=plan.config.workplaces is not None)
            # The same in every table, in whatever order these are made.
            stream = self._key.stream(f"errors of jobs of {level} by {' and '.join(by)}", 0)
            drawn = untold_jobs(drawn, cell % units, told, variance, stream)
        return JobFactors((*widths, units), cell, drawn / np.bincount(of_row, self._n))

    def _scales(self) -> Iterator[tuple[Int64, Float64, Float64]]:
        """Yield sums of jobs, as `draws_of_jobs` takes them: fine ones first, by each attribute and of all.

        Each level has all several times: noise of all jobs is not taken for that of an attribute, nor the
        other way round, and all jobs come last.
        """
        geography, secret = self._jobs.plan.geography, self._jobs.plan.policy.secret
        names = [(name,) for name in secret or self._jobs.attributes if name in self._jobs.attributes]
        all_jobs: list[tuple[str, ...]] = [] if secret else [()]
        for level in (geography.block_level, *reversed(geography.levels), None):
            scales = {by: self._scale(level, by) for by in (*all_jobs, *names)}
            yield from (scales[by] for by in (*all_jobs, *names, *all_jobs, *names, *all_jobs))

    def _scale(self, level: str | None, by: tuple[str, ...]) -> tuple[Int64, Float64, Float64]:
        cell, of_row = np.unique(self._keys(level, by), return_inverse=True)
        return of_row, *self._told(level, by, cell)

    def _told(self, level: str | None, by: tuple[str, ...], cell: Int64) -> tuple[Float64, Float64]:
        """Return what noisy counts say of some cells, and the variance of that."""
        mean, variance = self._intervals.told(units_of_blocks(self._jobs.plan, level), by)
        return mean.ravel()[cell], variance.ravel()[cell]

    def _keys(self, level: str | None, by: Sequence[str]) -> Int64:
        """Return the combination of categories and the area of each row, as one number."""
        area = units_of_blocks(self._jobs.plan, level)
        codes = [self._jobs.attributes[name] for name in by]
        shape = (*self._widths(by), int(area.max()) + 1)
        return np.asarray(np.ravel_multi_index((*codes, area[self._jobs.work]), shape), np.int64)

    def _widths(self, by: Sequence[str]) -> list[int]:
        return [len(self._jobs.plan.pools.slots.categories[name]) for name in by]
