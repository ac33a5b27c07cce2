"""All measures of a comparison as one tidy table, and what each of them means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pipelines.views.evaluation.comparison import Comparison
from pipelines.views.evaluation.measures import (
    add_up,
    common_part_of_commuters,
    count_queries,
    earth_movers_distance,
    group_errors,
    implicate_variance,
    jensen_shannon_divergence,
    lost_pairs,
    mean_distance,
    propensity,
    query_errors,
    share_within,
    side_error,
    side_variation,
    top_flows_recall,
    total_variation_distance,
)
from pipelines.views.release import Release

TOP = (10, 100, 1000)
RHO = (0.1, 0.5, 1.0)
_EVERYTHING = "all"
_GROUPS = {  # columns of `group_errors`
    "destinations": "destinations",
    "destinations_only_reference": "only_reference",
    "destinations_only_release": "only_release",
    "destination_absolute_error": "absolute",
    "destination_relative_error": "relative",
    "destination_worst_tenth": "worst_tenth",
    "destination_long_share_error": "long_share",
}


@dataclass(frozen=True)
class Measure:
    """What a measure is called, its unit, and how to read it against the truth and against surveys."""

    title: str
    unit: str
    meaning: str


#: By the name in column ``measure``, in the order of reports.
MEASURES: dict[str, Measure] = {
    "workload_loss": Measure(
        "Error", "%", "Share of jobs that would have to be counted elsewhere in the table."
    ),
    "workload_forecast": Measure(
        "Forecast", "%", "The same as the plan expected it, on homes drawn from the public model."
    ),
    "workload_public_model": Measure(
        "Public model alone", "%", "What is lost by homes that see nothing confidential."
    ),
    "workload_no_privacy": Measure(
        "No privacy", "%", "What is lost by the pools or tables of the plan without noise."
    ),
    "total_variation": Measure(
        "Total variation distance", "%", "Share of jobs whose pair of home and work would have to change."
    ),
    "jensen_shannon": Measure(
        "Jensen-Shannon divergence",
        "bits",
        "What one job tells about the table it is from: 0 nothing, 1 everything.",
    ),
    "common_part": Measure("Common part of commuters", "%", "Share of commuters that both tables have."),
    "top_recall": Measure(
        "Largest flows found",
        "%",
        "Share of the largest flows of the table compared with that are among the largest of the release.",
    ),
    "lost_pairs": Measure(
        "Lost pairs",
        "%",
        "Share of the pairs with jobs in the table compared with that have none in the release.",
    ),
    "lost_jobs": Measure("Jobs in lost pairs", "%", "Share of its jobs that are in such pairs."),
    "spurious_pairs": Measure(
        "Spurious pairs", "%", "Share of the release's pairs that have no job in the table compared with."
    ),
    "spurious_jobs": Measure(
        "Jobs in spurious pairs", "%", "Share of the release's jobs that are in such pairs."
    ),
    "implicate_deviation": Measure(
        "Spread between implicates",
        "jobs",
        "Standard deviation of a flow between the implicates, root mean square over all that have jobs.",
    ),
    "residence_variation": Measure(
        "Residence totals, variation",
        "%",
        "Share of workers who would have to move to make residence totals equal.",
    ),
    "residence_error": Measure(
        "Residence totals, mean difference",
        "jobs",
        "By how many workers the totals of an area differ, on average.",
    ),
    "workplace_variation": Measure(
        "Workplace totals, variation",
        "%",
        "Share of workers who would have to work elsewhere to make workplace totals equal.",
    ),
    "mean_commute_reference": Measure(
        "Mean commute, compared with", "km", "Mean distance of home and work in the table compared with."
    ),
    "mean_commute_release": Measure(
        "Mean commute, release", "km", "Mean distance of home and work in the release."
    ),
    "earth_movers_distance": Measure(
        "Earth mover's distance",
        "km",
        "How much commutes must be stretched or cut, on average, to get the same lengths.",
    ),
    "destinations": Measure(
        "Destinations", "", "How many there are in the group, with such commutes in both tables."
    ),
    "destinations_only_reference": Measure(
        "Destinations, only compared with",
        "",
        "How many more have such commutes in the table compared with only.",
    ),
    "destinations_only_release": Measure(
        "Destinations, only release", "", "How many more have such commutes in the release only."
    ),
    "destination_absolute_error": Measure(
        "Mean commute to a destination, difference",
        "km",
        "Half of the destinations differ by no more.",
    ),
    "destination_relative_error": Measure(
        "Mean commute to a destination, relative difference",
        "%",
        "Half of the destinations differ by no more than this share of the mean compared with.",
    ),
    "destination_worst_tenth": Measure(
        "Mean commute to a destination, worst tenth", "%", "One destination in ten differs by more."
    ),
    "destination_long_share_error": Measure(
        "Destinations, difference of the share of long commutes",
        "%",
        "By how much the share of long commutes differs, on average over jobs.",
    ),
    "query_share": Measure(
        "Count queries answered within",
        "%",
        "Share of count queries whose two answers differ by no more jobs.",
    ),
    "query_error": Measure(
        "Count queries, median difference",
        "jobs",
        "The answers to half of the count queries differ by no more.",
    ),
    "pmse": Measure(
        "Propensity score, pMSE",
        "",
        "How well a model tells released commutes from those compared with: 0 not at all, 0.25 always.",
    ),
    "pmse_ratio": Measure(
        "Propensity score, ratio to chance",
        "",
        "1: as close as a redraw of the jobs compared with; 2: as another sample.",
    ),
}


def compared_levels(comparison: Comparison) -> list[str]:
    """Return the levels at which both sides can be added up and that have several units, coarsest first."""
    geography = comparison.geography
    names = [*geography.levels, geography.block_level]
    finest = min(names.index(comparison.home_level), names.index(comparison.work_level))
    return [level for level in names[: finest + 1] if geography.n_units(level) > 1]


def measure(comparison: Comparison) -> pd.DataFrame:
    """Measure how far a release is from what it is compared with: rows of measure, level, group and value."""
    rows = [*_flow_rows(comparison), *_commute_rows(comparison), *_query_rows(comparison)]
    return measures_table(rows)


def measure_implicates(release: Release, levels: Sequence[str]) -> pd.DataFrame:
    """Measure how much the flows of a release vary between its implicates; nothing of a single one."""
    rows: list[Row] = []
    numbers = range(1, release.implicates + 1)
    for level in levels if release.implicates > 1 else ():
        tables = [replace(release, implicate=number).unit_flows(level, level) for number in numbers]
        deviation = math.sqrt(implicate_variance(tables)["variance"].mean())
        rows.append(("implicate_deviation", level, _EVERYTHING, deviation))
    return measures_table(rows)


Row = tuple[str, str, str, float]


def measures_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows of measure, level, group and value as a table (`measure`)."""
    return pd.DataFrame(rows, columns=["measure", "level", "group", "value"]).astype({"value": np.float64})


def _flow_rows(comparison: Comparison) -> Iterator[Row]:
    fine = (comparison.home_level, comparison.work_level)
    levels = {level: (level, level) for level in compared_levels(comparison)}
    if len(set(fine)) > 1:
        levels[_levels(comparison)] = fine
    for name, to in levels.items():
        tables = (comparison.reference, comparison.release)
        if to != fine:
            tables = tuple(add_up(table, comparison.geography, fine, to) for table in tables)  # type: ignore[assignment]
        yield "total_variation", name, _EVERYTHING, total_variation_distance(*tables)
        yield "jensen_shannon", name, _EVERYTHING, jensen_shannon_divergence(*tables)
        yield "common_part", name, _EVERYTHING, common_part_of_commuters(*tables)
        for k in TOP:
            if k < len(tables[0]):
                yield "top_recall", name, f"top {k:,}", top_flows_recall(*tables, k)
        for kind, pair in (("lost", tables), ("spurious", tables[::-1])):
            pairs, jobs = lost_pairs(*pair)
            yield f"{kind}_pairs", name, _EVERYTHING, pairs
            yield f"{kind}_jobs", name, _EVERYTHING, jobs
        yield "residence_variation", name, _EVERYTHING, side_variation(*tables)
        yield "residence_error", name, _EVERYTHING, side_error(*tables)
        yield "workplace_variation", name, _EVERYTHING, side_variation(*tables, "work")


def _commute_rows(comparison: Comparison) -> Iterator[Row]:
    level = _levels(comparison)
    reference, release = comparison.distances
    yield "mean_commute_reference", level, _EVERYTHING, mean_distance(reference)
    yield "mean_commute_release", level, _EVERYTHING, mean_distance(release)
    yield "earth_movers_distance", level, _EVERYTHING, earth_movers_distance(reference, release)
    for row in group_errors(reference, release, comparison.works).itertuples():
        group = str(row.group)
        for name, column in _GROUPS.items():
            yield name, level, group, float(getattr(row, column))


def _query_rows(comparison: Comparison) -> Iterator[Row]:
    level, jobs = _levels(comparison), float(comparison.release["S000"].sum())
    errors = query_errors(
        comparison.reference, comparison.release, count_queries(len(comparison.homes), len(comparison.works))
    )
    for rho in RHO:
        yield "query_share", level, f"rho {rho:g}", share_within(errors, jobs, rho)
    yield "query_error", level, _EVERYTHING, float(np.median(errors))
    score = propensity(comparison.reference, comparison.release, comparison.homes, comparison.works)
    yield "pmse", level, _EVERYTHING, score.pmse
    yield "pmse_ratio", level, _EVERYTHING, score.ratio


def _levels(comparison: Comparison) -> str:
    """Return the level of both sides, or the two."""
    home, work = comparison.home_level, comparison.work_level
    return home if home == work else f"{home} to {work}"
