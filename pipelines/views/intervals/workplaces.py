"""Intervals of jobs by workplace, of a release that estimated these from noisy counts.

What an area has of a kind of jobs is told by every measured table whose cells add up to it, of workplaces and
of homes: each sum is the true number with the noise of these cells. An interval of 90 % goes 1.645 standard
deviations to each side of their mean by precision. Nothing is expected in it but noise, whose law is known;
the released number, for which more is expected, need not be in it.
"""

from __future__ import annotations

from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.drawing.estimating import JobLayout
from pipelines.drawing.job_counts import counted_homes, counted_workplaces, units_of_blocks
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_plan
from pipelines.plans.workplaces import codes_of, combined
from pipelines.release.measurements import read_measurements
from pipelines.release.workplaces import grouped_plan, read_workplaces
from pipelines.storage.parquet_form import FormError
from pipelines.views.folder import not_as_released
from pipelines.views.release import Release

Float64 = NDArray[np.float64]

Int64 = NDArray[np.int64]

SIDE = 1.645
"""Standard deviations of a normal error that it is within, to either side, 90 times of 100."""


def released_jobs(plan: ReleasePlan, area: Int64, by: tuple[str, ...]) -> Int64:
    """Return the released jobs of every combination of categories (rows) in every area (columns).

    `area` is the number of the area of each block.
    """
    slots = plan.pools.slots
    alike, times = slots.counted()
    codes = {name: alike.attributes[name] for name in by}
    jobs = np.zeros((prod(len(slots.categories[name]) for name in by), int(area.max()) + 1), np.int64)
    np.add.at(jobs, (combined(codes, slots.categories, len(alike)), area[alike.work]), times)
    return jobs


class WorkplaceIntervals:
    """The measured tables of a release, and intervals of sums of their cells.

    Parameters
    ----------
    release : Release
        Of whole records.

    Raises
    ------
    PublicReleaseError
        If its measurements are not those of its plan.
    """

    def __init__(self, release: Release) -> None:
        self._plan: ReleasePlan = release.plan
        public = release.public
        try:
            planned = load_plan(public / "plan")
            self._counted = [*counted_workplaces(planned, read_workplaces(public, planned))]
            if planned.measures:
                (of_homes,) = read_measurements(public, self._plan, JobLayout(self._plan))
                self._counted += counted_homes(grouped_plan(public, planned), of_homes)
        except FormError as error:
            raise not_as_released(public, error) from error

    @property
    def tables(self) -> list[tuple[str | None, tuple[str, ...]]]:
        """Levels of work areas, coarse first and the blocks last, each with no attribute and each alone.

        Where secret attributes alone are estimated, each with one of these.
        """
        geography, secret = self._plan.geography, self._plan.policy.secret
        names = [
            *([] if secret else [()]),
            *((name,) for name in secret or self._plan.pools.slots.categories),
        ]
        return [(level, by) for level in (None, *geography.levels, geography.block_level) for by in names]

    def jobs(self, level: str | None, by: tuple[str, ...] = ()) -> pd.DataFrame | None:
        """Return the jobs of work areas, by attributes, with the ends of intervals of 90 %.

        Parameters
        ----------
        level : str or None
            None counts jobs wherever they are.
        by : tuple of str

        Returns
        -------
        DataFrame or None
            None if no measured table tells of any of them. Else ``work`` (code of the area), the attributes,
            ``S000``, ``low``, ``high``: without ends where no table tells. Areas in which nobody can work
            have no row.
        """
        geography, slots = self._plan.geography, self._plan.pools.slots
        area = units_of_blocks(self._plan, level)
        mean, variance = self.told(area, by)
        if not (variance < np.inf).any():
            return None
        some = np.unique(area[~geography.nobody_works])
        kind, column = (
            index.ravel()
            for index in np.meshgrid(np.arange(variance.shape[0]), np.arange(some.size), indexing="ij")
        )
        names = np.array([""]) if level is None else geography.codes(level)
        frame = pd.DataFrame({"work": names[some[column]]})
        for name, of_kind in codes_of(kind, {name: slots.categories[name] for name in by}).items():
            frame[name] = np.array(slots.categories[name], object)[of_kind]
        middle, off = mean[:, some].ravel(), SIDE * np.sqrt(variance[:, some].ravel())
        frame["S000"] = released_jobs(self._plan, area, by)[:, some].ravel()
        for end, value in (("low", np.floor(middle - off)), ("high", np.ceil(middle + off))):
            frame[end] = pd.Series(np.maximum(value, 0)).where(np.isfinite(off)).astype("Int64")
        return frame

    def told(self, area: Int64, by: tuple[str, ...]) -> tuple[Float64, Float64]:
        """Return the mean of what tables tell of every combination in every area, and its variance.

        `area` is the number of the area of each block. Both have a row for each combination of categories and
        a column for each area. The variance is infinite where none tells. A table of homes does where it has
        a group for every part.
        """
        categories = self._plan.pools.slots.categories
        shape = prod(len(categories[name]) for name in by), int(area.max()) + 1
        total, precision = np.zeros(shape), np.zeros(shape)
        for table in self._counted:
            everywhere = table._replace(known=np.ones(table.known.shape, np.bool_))
            known, whole = table.parts(by, area, categories), everywhere.parts(by, area, categories)
            if known is None or whole is None:
                continue
            sums, size, parts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
            np.add.at(sums, known[1], table.counts[known[0]])
            np.add.at(size, known[1], 1)
            np.add.at(parts, whole[1], 1)
            weight = np.divide(
                1, size * table.variance, out=np.zeros(shape), where=(size > 0) & (size == parts)
            )
            total, precision = total + weight * sums, precision + weight
        mean = np.divide(total, precision, out=np.zeros(shape), where=precision > 0)
        return mean, np.divide(1, precision, out=np.full(shape, np.inf), where=precision > 0)
