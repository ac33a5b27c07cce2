"""The two sides of a comparison: what each release tells of jobs by workplace, of homes and of flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from geo_data.od_files import count_columns
from pipelines.views.changes.areas import ComparedAreas
from pipelines.views.intervals.evidence import measured_flows, work_level
from pipelines.views.intervals.reading import PosteriorDraws
from pipelines.views.intervals.workplaces import WorkplaceIntervals, released_jobs
from pipelines.views.release import Release
from synth.posterior.recalibration import Blocks, BlockSums, MeasuredFlows

if TYPE_CHECKING:
    import geopandas as gpd

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class JobNumbers:
    """Jobs by workplace: a row for each combination of categories, a column for each area.

    The true number has the mean and variance given, which is 0 where it is exact, and infinite where nothing
    is known of it.
    """

    released: Int64
    mean: Float64
    variance: Float64


@dataclass(frozen=True, eq=False)
class Cells:
    """Some cells of a table, rising, and their counts in every draw (rows)."""

    key: Int64
    counts: Int64


@dataclass(frozen=True)
class Shape:
    """A table of draws: its areas and attributes, and how its cells are numbered.

    Attributes
    ----------
    home : str
        Kind of the home areas.
    work : str or None
        Kind of the work areas; None counts jobs wherever they are.
    by : tuple of str
    widths : tuple of int
        Numbers of work areas, of combinations of categories, and of home areas.
    """

    home: str
    work: str | None
    by: tuple[str, ...]
    widths: tuple[int, int, int]

    def key(self, work: Int64, category: Int64, home: Int64) -> Int64:
        """Return the numbers of cells."""
        return (work * self.widths[1] + category) * self.widths[2] + home

    def parts(self, key: Int64) -> tuple[Int64, Int64, Int64]:
        """Return work area, category and home area of cells."""
        row, home = np.divmod(key, self.widths[2])
        work, category = np.divmod(row, self.widths[1])
        return work, category, home


@dataclass(frozen=True, eq=False)
class Side:
    """A release that is compared.

    Attributes
    ----------
    letter : str
        "A" or "B".
    release : Release
    areas : ComparedAreas
        By whose groups areas are numbered on both sides.
    redrawn : Release, optional
        The same release, with draws that have no noise in common with the other side.
    """

    letter: str
    release: Release
    areas: ComparedAreas
    redrawn: Release | None = None

    @property
    def name(self) -> str:
        """What errors call it."""
        return f"{self.letter} ({self.release.public})"

    @property
    def words(self) -> str:
        """What texts and figures call it."""
        return f"{self.release.name}, {self.release.version}"

    @cached_property
    def draws(self) -> PosteriorDraws:
        """The draws that the release carries, or that were made in their place."""
        return (self.redrawn or self.release).draws()

    def jobs(self, level: str, by: tuple[str, ...]) -> JobNumbers:
        """Return what is known of jobs by workplace."""
        plan, area = self.release.plan, self._of_blocks(level)
        released = released_jobs(plan, area, by)
        mean, variance = released.astype(np.float64), np.zeros(released.shape)
        if plan.workplaces and (not plan.policy.secret or {*by} & {*plan.policy.secret}):
            mean, variance = self._workplaces.told(area, by)
            closed = self.nobody(level, works=True)
            mean[:, closed], variance[:, closed] = 0, 0
        return JobNumbers(released, mean, variance)

    def nobody(self, level: str, *, works: bool) -> NDArray[np.bool_]:
        """Say in which areas nobody can work, or live."""
        geography = self.release.geography
        closed = geography.nobody_works if works else geography.nobody_lives
        return np.bincount(self._of_blocks(level), weights=~closed) == 0

    def released(self, shape: Shape) -> tuple[Int64, Int64]:
        """Return the cells of a table that have released jobs, rising, and how many."""
        geography, release = self.release.geography, self.release
        names = [count_columns(release.categories)[name] for name in shape.by]
        columns = list(names[0]) if names else ["S000"]
        # Areas that cut across the levels are counted by units of a level that they gather.
        home_level, work_level = (self._gathered(areas) for areas in (shape.home, shape.work))
        home_of, work_of = (
            self._number(areas)[geography.unit_of(areas, geography.starts(level))]
            if areas is not None
            else np.zeros(geography.n_units(level), np.int64)
            for areas, level in ((shape.home, home_level), (shape.work, work_level))
        )
        keys, jobs = [], []
        for flows in release.flow_batches(home_level, work_level, columns):
            home, work = home_of[flows["home"]], work_of[flows["work"]]
            for category, column in enumerate(columns):
                keys.append(shape.key(work, np.full(len(flows), category), home))
                jobs.append(flows[column].to_numpy())
        summed = pd.Series(np.concatenate(jobs)).groupby(np.concatenate(keys)).sum()
        summed = summed[summed > 0]
        return summed.index.to_numpy(np.int64), summed.to_numpy(np.int64)

    def cells(self, shape: Shape, areas: Int64) -> Cells:
        """Return the cells of a table that have jobs in some draws, of some work areas."""
        work = None if shape.work is None else self._of_blocks(shape.work)
        works = None if work is None else areas
        cells = self.draws.cells(self._of_blocks(shape.home), work, shape.by, works=works)
        category = cells.categories[0] if shape.by else np.zeros(cells.home.size, np.int64)
        return Cells(shape.key(cells.work, category, cells.home), cells.counts)

    def unbiased(self, shape: Shape) -> BlockSums | None:
        """Return unbiased estimates of cells of a table, by key; None where none are known."""
        plan, geography = self.release.plan, self.release.geography
        sides = [(plan.level, shape.home), (work_level(plan), shape.work)]
        if shape.by or not all(areas is None or geography.lie_within(unit, areas) for unit, areas in sides):
            return None
        home, work = (
            np.zeros(geography.n_units(unit), np.int64)
            if areas is None
            else self._of_blocks(areas)[geography.starts(unit)]
            for unit, areas in sides
        )
        return self._measured.sums([Blocks(home, work)])[0]

    def shapes(self, kind: str) -> gpd.GeoDataFrame:
        """Return the shape of each group of areas that has one, by its code; of points their mean."""
        shapes = self.release.shapes(kind).dropna(subset="geometry")
        of_group = self.areas.codes(kind)[self._number(kind)[shapes.index]]
        shapes = shapes[["geometry"]].dissolve(by=of_group)
        points = (shapes.geom_type == "MultiPoint").to_numpy()
        shapes.loc[points, "geometry"] = shapely.centroid(np.asarray(shapes.geometry.array)[points])
        return shapes

    @cached_property
    def _measured(self) -> MeasuredFlows:
        return measured_flows(self.redrawn or self.release)

    @cached_property
    def _workplaces(self) -> WorkplaceIntervals:
        return WorkplaceIntervals(self.release)

    def _gathered(self, areas: str | None) -> str:
        """Return the coarsest level whose units lie in single areas of a kind."""
        levels, geography = self.release.levels, self.release.geography
        if areas is None or areas in levels:
            return areas or levels[0]
        return next(level for level in levels if geography.lie_within(level, areas))

    def _number(self, areas: str) -> Int64:
        """Return the group of each area of this release."""
        return self.areas.groups(areas).of[self.letter]

    def _of_blocks(self, areas: str) -> Int64:
        """Return the group of the area that each block of this release is in."""
        return self._number(areas)[self.release.geography.units_of_blocks(areas)]
