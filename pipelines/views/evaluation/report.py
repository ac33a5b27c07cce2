"""The report of an evaluation: one HTML file that asks nothing of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandas as pd

import geo_data
from pipelines.release.certificate import this_software
from pipelines.views.evaluation.charts import CHARTS, draw
from pipelines.views.evaluation.comparison import Comparison
from pipelines.views.evaluation.measures import SHORT_KM
from pipelines.views.evaluation.measuring import MEASURES
from pipelines.views.evaluation.verdict import (
    EXPLANATION,
    Headline,
    Verdict,
    level_name,
    measure_title,
    number_words,
    table_words,
    within_jobs,
)
from pipelines.views.labels import singular
from pipelines.views.pages import render
from pipelines.views.release import Release

_CONFIDENTIAL = (
    "CONFIDENTIAL",
    "derived from confidential jobs: never publish, never put into the public folder",
    "What is below, but forecasts and figures of the release alone, is computed from the true homes of "
    "workers, outside the mechanism and its guarantee. "
    "Choosing epsilon, cells or pools of the same data by it would break the guarantee.",
)
_PUBLIC = (
    "PUBLIC",
    "made from the release and public tables only: may be published",
    "No confidential data were read. A public table is another survey, or another year; a difference from it "
    "is no error of the release.",
)
_FLOWS = [
    name
    for name in MEASURES
    if name.startswith(("total", "jensen", "common", "top", "lost", "spurious", "implicate"))
]
_TOTALS = [name for name in MEASURES if name.startswith(("residence", "workplace"))]
_ERRORS = [name for name in MEASURES if name.startswith("destination")]
_WORKLOAD = [name for name in MEASURES if name.startswith("workload")]
_WHOLE = [name for name in MEASURES if name not in {*_FLOWS, *_TOTALS, *_ERRORS, *_WORKLOAD}]


def report_html(
    release: Release,
    comparisons: Sequence[Comparison],
    measures: Sequence[pd.DataFrame],
    verdicts: Sequence[Verdict],
    *,
    confidential: bool,
) -> str:
    """Write the report."""
    certificate = release.certificate
    banner, banner_text, standing = _CONFIDENTIAL if confidential else _PUBLIC
    return render(
        "evaluation.html",
        confidential=confidential,
        banner=banner,
        banner_text=banner_text,
        standing=standing,
        title=certificate.release.title,
        jobs=certificate.totals.synthetic_workers,
        implicates=release.implicates,
        epsilon=certificate.run.epsilon,
        delta=certificate.run.delta,
        version=this_software().version,
        date=datetime.now(UTC).date().isoformat(),
        parts=[_part(*pair) for pair in zip(comparisons, measures, verdicts, strict=True)],
    )


def _part(comparison: Comparison, measures: pd.DataFrame, verdict: Verdict) -> dict[str, Any]:
    jobs = float(comparison.release["S000"].sum())
    level = measures.loc[measures["measure"] == "mean_commute_release", "level"].iloc[0]
    drawn = {title: draw(chart, comparison) for title, chart in CHARTS.items()}
    return {
        "name": comparison.name,
        "levels": f"Homes at level {singular(comparison.home_level)}, workplaces at level "
        f"{singular(comparison.work_level)}; distances are between the points of these.",
        "notes": comparison.notes,
        "cards": [_card(headline) for headline in verdict.headlines],
        "verdict": verdict.words if verdict.tables else None,
        "workload": _workload(measures, verdict, comparison.geography) if verdict.tables else None,
        "tables": [
            _by_level(
                "Flows",
                "Tables of flows from each area to each. The finer the level, the fewer jobs a flow has, "
                "and the more of a difference is chance.",
                measures[measures["measure"].isin(_FLOWS)],
            ),
            _by_level(
                "Totals of areas",
                "How many live, and work, in each area.",
                measures[measures["measure"].isin(_TOTALS)],
            ),
            _destinations(measures[measures["measure"].isin(_ERRORS)], level),
            _by_level(
                "The whole table",
                "Distances from home to work; 1,000 fixed count queries (how many live in these areas and "
                "work in those); and how well a model tells the two tables apart.",
                measures[measures["measure"].isin(_WHOLE)],
                jobs,
            ),
        ],
        "charts": [{"title": title, "svg": svg} for title, svg in drawn.items() if svg],
    }


def _card(headline: Headline) -> dict[str, str]:
    """Show a headline figure with the level that it is of."""
    return {
        "title": headline.title,
        "value": number_words(headline.measure, headline.value),
        "meaning": f"{level_name(headline.level)}: {MEASURES[headline.measure].meaning}",
    }


def _workload(measures: pd.DataFrame, verdict: Verdict, geography: geo_data.Geography) -> dict[str, Any]:
    """Return the table that a report against the truth begins with."""
    values = {
        (m, level): v for m, level, v in measures[["measure", "level", "value"]].itertuples(index=False)
    }
    rows = [
        [
            table_words(table.table, geography),
            *(number_words(m, values.get((m, table.table), math.nan)) for m in _WORKLOAD),
            table.words,
        ]
        for table in verdict.tables
    ]
    return {
        "title": "The tables that the release is for",
        "text": f"{EXPLANATION} Beside it what is lost by homes drawn from the public model, which sees "
        "nothing confidential, and by the pools or measured tables of the plan without any privacy.",
        "head": ["Table", *(MEASURES[name].title for name in _WORKLOAD), "Verdict"],
        "rows": rows,
        "meanings": False,
    }


def _by_level(title: str, text: str, measures: pd.DataFrame, jobs: float = 0.0) -> dict[str, Any]:
    levels = list(dict.fromkeys(measures["level"]))
    values = {(m, g, v): x for m, v, g, x in measures.itertuples(index=False)}
    kinds = sorted(dict.fromkeys(key[:2] for key in values), key=lambda key: list(MEASURES).index(key[0]))
    rows = []
    for name, group in kinds:
        documentation = MEASURES[name]
        cells = [
            number_words(name, values[name, group, i]) if (name, group, i) in values else "" for i in levels
        ]
        within = within_jobs(group, jobs)
        title_of_row = measure_title(name, within, " to ".join(levels))
        suffix = "" if group == "all" or within is not None else f", {group}"
        rows.append([title_of_row + suffix, *cells, documentation.meaning])
    return {
        "title": title,
        "text": text,
        "head": ["Measure", *map(level_name, levels), "In words"],
        "rows": rows,
        "meanings": True,
    }


def _destinations(measures: pd.DataFrame, level: str) -> dict[str, Any]:
    groups = list(dict.fromkeys(measures["group"]))
    values = {(m, g): v for m, g, v in measures[["measure", "group", "value"]].itertuples(index=False)}
    return {
        "title": f"Mean commute to a destination ({level_name(level)})",
        "text": "For each destination, the mean commute of its workers in the release against that of the "
        "table compared with. Dense: the tenth nearest other place is closer than the median destination has "
        f"it. The rows of commutes up to and above {SHORT_KM:g} km compare only these. Destinations with "
        "such commutes in one of the two tables only have no difference of means: they are counted beside. "
        f"Share: by how much the share of commutes above {SHORT_KM:g} km differs, on average over jobs.",
        "head": [
            "Destinations",
            "Number",
            "Only compared with",
            "Only release",
            "Median difference",
            "Median relative difference",
            "Worst tenth, relative",
            "Share of long ones, difference",
        ],
        "rows": [[group, *(number_words(name, values[name, group]) for name in _ERRORS)] for group in groups],
        "meanings": False,
    }
