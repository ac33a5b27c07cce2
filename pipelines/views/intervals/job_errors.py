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
from synth.posterior.job_totals import draws_of_jobs, untold_jobs
from synth.randomness import RunKey

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class JobErrors:
    """Numbers about 1 by which draws multiply the jobs of rows of `JobDraws`.

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
        self._listed = release.plan.config.workplaces is not None

        def sums() -> Iterator[tuple[Int64, Float64, Float64]]:
            for level, by in _scales(jobs):
                cell, of_row = np.unique(self._keys(level, by), return_inverse=True)
                yield of_row, *self._told(level, by, cell)

        self._drawn = draws_of_jobs(self._n, sums(), jobs.draws, key.stream("errors of jobs", 0))
        if secret := jobs.plan.policy.secret:  # by all else jobs are public
            public = [name for name in jobs.attributes if name not in secret]
            keys = self._keys(jobs.plan.geography.block_level, public)
            of_row = np.unique(keys, return_inverse=True)[1]
            size = np.bincount(of_row, self._n)[of_row]
            for row in self._drawn:
                now = np.bincount(of_row, row)[of_row]
                # Where all categories were drawn 0, they are as estimated.
                row[:] = np.divide(row * size, now, out=self._n.copy(), where=now > 0)
        self._made: tuple[str, tuple[str, ...]] | None = None

    def of(self, level: str, by: tuple[str, ...], work: Int64, categories: Sequence[Int64]) -> Float64:
        """Return what to multiply cells by, in each draw: of units of work, and categories of attributes.

        Where no noisy counts tell of jobs by attributes, they are taken to be off as `proxy_workplaces` has
        jobs that are expected.
        """
        if self._made != (level, by):
            self._made, (self._cell, self._factor) = (level, by), self._factors(level, by)
        shape = (*self._widths(by), self._jobs.plan.geography.n_units(level))
        position, present = find_keys(self._cell, np.ravel_multi_index((*categories, work), shape))
        assert present.all()
        return np.asarray(self._factor[:, position])

    def _factors(self, level: str, by: tuple[str, ...]) -> tuple[Int64, Float64]:
        """Return combinations of categories and units, rising, and what to multiply their jobs by."""
        cell, of_row = np.unique(self._keys(level, by), return_inverse=True)
        drawn, told = self._added(of_row), np.isfinite(self._told(level, by, cell)[1])
        if by and not told.all():
            variance = variance_of_workplaces(self._widths(by), listed=self._listed)
            unit = cell % self._jobs.plan.geography.n_units(level)
            # The same in every table, in whatever order these are made.
            stream = self._key.stream(f"errors of jobs of {level} by {' and '.join(by)}", 0)
            drawn = untold_jobs(drawn, unit, told, variance, stream)
        return cell, drawn / np.bincount(of_row, self._n)

    def _added(self, of_row: Int64) -> Float64:
        return np.stack([np.bincount(of_row, row) for row in self._drawn])

    def _told(self, level: str | None, by: Sequence[str], cell: Int64) -> tuple[Float64, Float64]:
        """Return what noisy counts say of some cells, and the variance of that."""
        mean, variance = self._intervals.told(units_of_blocks(self._jobs.plan, level), tuple(by))
        return mean.ravel()[cell], variance.ravel()[cell]

    def _keys(self, level: str | None, by: Sequence[str]) -> Int64:
        """Return the combination of categories and the area of each row, as one number."""
        area = units_of_blocks(self._jobs.plan, level)
        codes = [self._jobs.attributes[name] for name in by]
        shape = (*self._widths(by), int(area.max()) + 1)
        return np.asarray(np.ravel_multi_index((*codes, area[self._jobs.work]), shape), np.int64)

    def _widths(self, by: Sequence[str]) -> list[int]:
        return [len(self._jobs.plan.pools.slots.categories[name]) for name in by]


def _scales(jobs: JobDraws) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return levels of work areas, fine first and then everywhere, with each attribute and with none.

    Each level has all several times: noise of all jobs is not taken for that of an attribute, nor the other
    way round, and all jobs come last.
    """
    plan, geography = jobs.plan, jobs.plan.geography
    levels = [geography.block_level, *reversed(geography.levels), None]
    secret = plan.policy.secret
    by = [(name,) for name in secret or jobs.attributes if name in jobs.attributes]
    all_jobs: list[tuple[str, ...]] = [] if secret else [()]
    return [*itertools.product(levels, [*all_jobs, *by, *all_jobs, *by, *all_jobs])]
