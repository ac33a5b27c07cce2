"""The report of an evaluation: one HTML file that asks nothing of a network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

import geo_data
from pipelines.release.reader import PublicRelease
from pipelines.views.evaluation.charts import CHARTS, draw
from pipelines.views.evaluation.commute_measures import SHORT_KM
from pipelines.views.evaluation.comparison import Comparison
from pipelines.views.evaluation.measuring import MEASURES
from pipelines.views.labels import singular

__all__ = ["report_html"]

_CONFIDENTIAL = (
    "CONFIDENTIAL",
    "derived from confidential jobs: never publish, never put into the public folder",
    "Everything below is computed from the true homes of workers, outside the mechanism and its guarantee. "
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
    release: PublicRelease,
    comparisons: Sequence[Comparison],
    measures: Sequence[pd.DataFrame],
    *,
    confidential: bool,
) -> str:
    """Write the report.

    Parameters
    ----------
    release : PublicRelease
    comparisons : sequence of Comparison
    measures : sequence of DataFrame
        The measures of each.
    confidential : bool
        Whether the truth is in it; every page says so.

    Returns
    -------
    str
        HTML without scripts and without references to anything outside it.
    """
    certificate = release.certificate
    banner, banner_text, standing = _CONFIDENTIAL if confidential else _PUBLIC
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("report.html").render(
        confidential=confidential,
        banner=banner,
        banner_text=banner_text,
        standing=standing,
        title=certificate.release.name,
        jobs=certificate.totals.synthetic_workers,
        implicates=release.implicates,
        epsilon=certificate.run.epsilon,
        delta=certificate.run.delta,
        version=certificate.software.version,
        date=datetime.now(UTC).date().isoformat(),
        parts=[_part(*pair) for pair in zip(comparisons, measures, strict=True)],
    )


def _part(comparison: Comparison, measures: pd.DataFrame) -> dict[str, Any]:
    level = measures.loc[measures["measure"] == "mean_commute_release", "level"].iloc[0]
    drawn = {title: draw(chart, comparison) for title, chart in CHARTS.items()}
    return {
        "name": comparison.name,
        "levels": f"Homes at level {singular(comparison.home_level)}, workplaces at level "
        f"{singular(comparison.work_level)}; distances are between the points of these.",
        "notes": comparison.notes,
        "cards": _cards(measures),
        "tables": [
            *_workload(measures[measures["measure"].isin(_WORKLOAD)], comparison.geography),
            _by_level(
                "Flows",
                "Tables of flows from each area to each, added up to several levels. The finer the "
                "level, the fewer jobs a flow has, and the more of a difference is chance.",
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
                "Distances of all jobs; 1,000 fixed count queries (how many live in these areas and work in "
                "those), n being the number of jobs; and how well a model tells the two tables apart.",
                measures[measures["measure"].isin(_WHOLE)],
            ),
        ],
        "charts": [{"title": title, "svg": svg} for title, svg in drawn.items() if svg],
    }


def _cards(measures: pd.DataFrame) -> list[dict[str, str]]:
    """Show what matters most: the flows at the middle level, commutes, queries."""
    levels = measures.loc[measures["measure"] == "total_variation", "level"].tolist()
    middle = levels[(len(levels) - 1) // 2]
    wanted = [
        ("total_variation", middle, "all"),
        ("residence_variation", middle, "all"),
        ("mean_commute_release", None, "all"),
        ("earth_movers_distance", None, "all"),
        ("destination_relative_error", None, "all"),
        ("query_share", None, "rho 1"),
    ]
    cards = []
    for name, level, group in wanted:
        rows = measures[(measures["measure"] == name) & (measures["group"] == group)]
        rows = rows if level is None else rows[rows["level"] == level]
        if len(rows) and not math.isnan(rows["value"].iloc[0]):
            about = MEASURES[name]
            meaning = f"{_level_name(level)}: {about.meaning}" if level else about.meaning
            cards.append(
                {"title": about.title, "value": _number(name, rows["value"].iloc[0]), "meaning": meaning}
            )
    return cards


def _workload(measures: pd.DataFrame, geography: geo_data.Geography) -> list[dict[str, Any]]:
    values = {
        (m, level): v for m, level, v in measures[["measure", "level", "value"]].itertuples(index=False)
    }
    if not values:
        return []
    levels = {*geography.levels, geography.block_level}
    rows = [
        [
            " ".join(singular(word) if word in levels else word for word in name.split(" ")),
            *(_number(m, values[m, name]) if (m, name) in values else "" for m in _WORKLOAD),
        ]
        for name in dict.fromkeys(measures["level"])
    ]
    return [
        {
            "title": "The tables that the release is for",
            "text": "Total variation distance: the share of jobs that would have to be counted elsewhere. "
            "Beside it what is lost by homes drawn from the public model, which sees nothing confidential, "
            "and by the pools of the plan without any privacy, neither noise nor cells.",
            "head": ["Table", *(MEASURES[name].title for name in _WORKLOAD)],
            "rows": rows,
            "meanings": False,
        }
    ]


def _by_level(title: str, text: str, measures: pd.DataFrame) -> dict[str, Any]:
    levels = list(dict.fromkeys(measures["level"]))
    values = {(m, g, v): x for m, v, g, x in measures.itertuples(index=False)}
    found = sorted(dict.fromkeys(key[:2] for key in values), key=lambda key: list(MEASURES).index(key[0]))
    rows = []
    for name, group in found:
        about = MEASURES[name]
        cells = [_number(name, values[name, group, i]) if (name, group, i) in values else "" for i in levels]
        rows.append([about.title if group == "all" else f"{about.title}, {group}", *cells, about.meaning])
    return {
        "title": title,
        "text": text,
        "head": ["Measure", *map(_level_name, levels), "In words"],
        "rows": rows,
        "meanings": True,
    }


def _destinations(measures: pd.DataFrame, level: str) -> dict[str, Any]:
    groups = list(dict.fromkeys(measures["group"]))
    values = {(m, g): v for m, g, v in measures[["measure", "group", "value"]].itertuples(index=False)}
    return {
        "title": f"Mean commute to a destination ({_level_name(level)})",
        "text": "For each destination, the mean commute of its workers in the release against that of the "
        "table compared with. Dense: the tenth nearest other place is closer than the median destination has "
        "it. The last two rows compare only commutes of such a length. Destinations that have such commutes "
        "in one of the two tables only have no error of a mean: they are counted beside. Share: by how much "
        f"the share of commutes above {SHORT_KM:g} km is off, on average over jobs.",
        "head": [
            "Destinations",
            "Number",
            "Only compared with",
            "Only release",
            "Median error",
            "Median relative error",
            "Worst tenth, relative",
            "Share of long ones, error",
        ],
        "rows": [[group, *(_number(name, values[name, group]) for name in _ERRORS)] for group in groups],
        "meanings": False,
    }


def _level_name(levels: str) -> str:
    """Return what readers call the level of a measure, or the two ("cty to trct")."""
    return " to ".join(map(singular, levels.split(" to ")))


def _number(name: str, value: float) -> str:
    """Write a value with its unit, to about three digits."""
    unit = MEASURES[name].unit
    if math.isnan(value):
        return "–"
    if unit == "%":
        return f"{100 * value:.1f} %"
    if name.startswith("destinations"):
        return f"{value:,.0f}"
    if unit == "km":
        return f"{value:,.2f} km"
    if unit == "bits":
        return f"{value:.4f} bits"
    return f"{value:,.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}".strip()
