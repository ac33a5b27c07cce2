"""What the utility study measures of a draw: pipelines.views.evaluation on true and synthetic flows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

import geo_data
from pipelines.views import evaluation
from pipelines.views.evaluation.commute_measures import SIZES
from pipelines.views.evaluation.flow_measures import add_up

__all__ = ["MEASURES", "Truth"]

LARGE = 100  # jobs from which a destination is large
TOP = 100  # largest flows
RHO = {"queries_tenth": 0.1, "queries_half": 0.5}
SIZE_COLUMNS = {f"destinations_{begins}": name for name, begins in SIZES.items()}

#: Columns of the results, and what they are; shares between 0 and 1 unless said otherwise.
MEASURES = {
    "tvd_block": "total variation distance of the flows from block to block",
    "tvd_block_group": "the same from block group to block group",
    "tvd_tract": "from tract to tract",
    "tvd_county": "from county to county",
    "tvd_tract_to_block": "from tract to work block",
    "common_tract": "common part of commuters, from tract to tract",
    "js_tract": "Jensen-Shannon divergence from tract to tract, bits",
    "top_tract": f"of the {TOP} largest flows from tract to tract, those found",
    "residence_tract": "total variation of residence totals of tracts",
    "commute": "relative error of the mean commute",
    "emd_km": "earth mover's distance of commute distances, km",
    "large_destinations": f"median error of the mean commute of work blocks with at least {LARGE} jobs",
    **{
        column: f"median error of the mean commute of work blocks with {n}"
        for column, n in SIZE_COLUMNS.items()
    },
    **{
        column: f"count queries answered within {rho} times the root of all jobs"
        for column, rho in RHO.items()
    },
}


@dataclass(frozen=True, eq=False)
class Truth:
    """The true flows from block to block, with which draws are compared."""

    geography: geo_data.Geography
    flows: pd.DataFrame

    @cached_property
    def levels(self) -> dict[str, str]:
        """The four finest levels, by the names that they have in the United States."""
        names = [*self.geography.levels, self.geography.block_level]
        return dict(zip(("county", "tract", "block_group", "block"), names[-4:], strict=True))

    @cached_property
    def places(self) -> pd.DataFrame:
        """Where the blocks are."""
        return pd.DataFrame({"latitude": self.geography.latitude, "longitude": self.geography.longitude})

    @cached_property
    def travel(self) -> pd.DataFrame:
        """The true flows with distances."""
        return evaluation.add_distance(self.flows, self.places, self.places)

    def compare(self, drawn: pd.DataFrame) -> dict[str, float]:
        """Return all measures of synthetic flows from block to block."""
        found = self._of_areas(drawn, self.levels["block"])
        pair = (self.levels["tract"], self.levels["block"])
        found["tvd_tract_to_block"] = self._variation(drawn, self.levels["block"], pair)
        travel = evaluation.add_distance(drawn, self.places, self.places)
        true_km, drawn_km = (evaluation.mean_distance(table) for table in (self.travel, travel))
        found["commute"] = drawn_km / true_km - 1
        found["emd_km"] = evaluation.earth_movers_distance(self.travel, travel)
        errors = evaluation.commute_errors(self.travel, travel)
        found["large_destinations"] = errors["relative"][errors["jobs"] >= LARGE].median()
        size = np.searchsorted(list(SIZES.values()), errors["jobs"], side="right") - 1
        for i, column in enumerate(SIZE_COLUMNS):
            found[column] = errors["relative"][size == i].median()
        n, jobs = self.geography.n_blocks, float(self.flows["S000"].sum())
        wrong = evaluation.query_errors(self.flows, drawn, evaluation.count_queries(n, n))
        return found | {column: evaluation.share_within(wrong, jobs, rho) for column, rho in RHO.items()}

    def compare_tracts(self, drawn: pd.DataFrame) -> dict[str, float]:
        """Return the measures that synthetic flows from tract to tract have."""
        return self._of_areas(drawn, self.levels["tract"])

    def _of_areas(self, drawn: pd.DataFrame, fine: str) -> dict[str, float]:
        known = list(self.levels)[: list(self.levels.values()).index(fine) + 1]
        found = {f"tvd_{name}": self._variation(drawn, fine, (self.levels[name],) * 2) for name in known}
        tract = (self.levels["tract"],) * 2
        tables = self._added_up(drawn, fine, tract)
        return found | {
            "common_tract": evaluation.common_part_of_commuters(*tables),
            "js_tract": evaluation.jensen_shannon_divergence(*tables),
            "top_tract": evaluation.top_flows_recall(*tables, TOP),
            "residence_tract": evaluation.side_variation(*tables),
        }

    def _variation(self, drawn: pd.DataFrame, fine: str, to: tuple[str, str]) -> float:
        return evaluation.total_variation_distance(*self._added_up(drawn, fine, to))

    def _added_up(
        self, drawn: pd.DataFrame, fine: str, to: tuple[str, str]
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return true and synthetic flows at levels of homes and work places."""
        block = self.levels["block"]
        return (
            add_up(self.flows, self.geography, (block, block), to),
            add_up(drawn, self.geography, (fine, fine), to),
        )
