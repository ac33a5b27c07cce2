"""What the utility study measures of a draw: losses of the workload, and a few figures of evaluation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.plans.workload import CountedJobs, Table, Workload
from pipelines.views.evaluation.measures import (
    add_distance,
    add_up,
    count_queries,
    mean_distance,
    query_errors,
    side_variation,
    top_flows_recall,
)

TOP = 100  # largest flows

#: Column of the weighted mean of the losses, which the planner minimises.
MEAN = "weighted mean"

#: Columns of the results beside the losses of tables, and what they are.
MEASURES = {
    "top_tract": f"of the {TOP} largest flows between units, the share that is among the {TOP} largest again",
    "residence_tract": "total variation of the totals of residents of units",
    "commute": "relative error of the mean commute of those who live in the region",
    "query_error": "median error of 1,000 count queries at blocks, in jobs",
}

LARGE = 1_000  # jobs of a large work block

#: How often homes are guessed right by somebody who knows the others.
GUESSES = {
    "guess": "share of home units guessed right by somebody who knows all other homes of the work block",
    "guess_one": "the same of work blocks of one job",
    "guess_large": f"the same of work blocks of {LARGE:,} jobs or more",
    "guess_all": "the same by somebody who knows all other homes and sees all that is published",
}


def guess_figures(released: NDArray[np.bool_], size: NDArray[np.integer]) -> dict[str, float]:
    """Return the share of right guesses, and that in small and in large work blocks of so many jobs."""
    kinds = {"guess": size > 0, "guess_one": size == 1, "guess_large": size >= LARGE}
    return {name: float(released[kind].mean()) for name, kind in kinds.items() if kind.any()}


@dataclass(frozen=True, eq=False)
class Truth:
    """The true jobs, with which draws are compared, and the tables of the workload."""

    jobs: CountedJobs
    workload: Workload

    def losses(self, drawn: CountedJobs) -> dict[str, float]:
        """Return the loss of every table, by its name, and their weighted mean."""
        found = self.workload.losses(self.jobs, drawn)
        names = self.workload.names
        return {MEAN: self.workload.objective(found)} | dict(zip(names, map(float, found), strict=True))

    def losses_of_units(self, drawn: CountedJobs) -> dict[str, float]:
        """Return the losses that jobs have whose homes and work places are known by unit of the model.

        Parameters
        ----------
        drawn : CountedJobs
            At any block of their units, with the attributes that they have.
        """
        tables = tuple(table for table in self.workload.tables if self._tells(table, drawn))
        known = Workload(tables, self.workload.geography, self.workload.level)
        return dict(zip(known.names, map(float, known.losses(self.jobs, drawn)), strict=True))

    def _tells(self, table: Table, drawn: CountedJobs) -> bool:
        levels = self.workload.geography.levels
        known = {None, *levels[: levels.index(self.workload.level) + 1]}
        return {table.home, table.work} <= known and {*table.attributes} <= {*drawn.attributes}

    def figures_of_units(self, drawn: CountedJobs) -> dict[str, float]:
        """Return the other measures of flows between units."""
        tables = self._between_units(self._flows), self._between_units(self._count(drawn))
        return {
            "top_tract": top_flows_recall(*tables, TOP),
            "residence_tract": side_variation(*tables),
        }

    def figures(self, drawn: CountedJobs) -> dict[str, float]:
        """Return all measures beside losses."""
        flows = self._count(drawn)
        km = [mean_distance(self._with_distance(table)) for table in (self._flows, flows)]
        n = self.workload.geography.n_blocks
        wrong = query_errors(self._flows, flows, count_queries(n, n))
        return self.figures_of_units(drawn) | {
            "commute": km[1] / km[0] - 1,
            "query_error": float(np.median(wrong)),
        }

    @cached_property
    def _flows(self) -> pd.DataFrame:
        return self._count(self.jobs)

    def _count(self, jobs: CountedJobs) -> pd.DataFrame:
        """Return jobs counted by pair of blocks, as a table of flows."""
        n = self.workload.geography.n_blocks
        pair, count = np.unique(jobs.work.astype(np.int64) * n + jobs.home, return_counts=True)
        work, home = (one.astype(np.int32) for one in np.divmod(pair, n))
        return pd.DataFrame({"work": work, "home": home, "S000": count.astype(np.int64)})

    def _between_units(self, flows: pd.DataFrame) -> pd.DataFrame:
        geography, level = self.workload.geography, self.workload.level
        return add_up(flows, geography, (geography.block_level,) * 2, (level, level))

    def _with_distance(self, flows: pd.DataFrame) -> pd.DataFrame:
        geography = self.workload.geography
        places = pd.DataFrame({"latitude": geography.latitude, "longitude": geography.longitude})
        return add_distance(flows, places, places)
