"""The verdict on a release: for each table that it is for, what was reached beside what was forecast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

import geo_data
from pipelines.plans.accuracy import ExpectedTable
from pipelines.views.evaluation.measures import jobs_within
from pipelines.views.evaluation.measuring import MEASURES
from pipelines.views.labels import plural, singular

_RELATIVE, _ABSOLUTE = 0.15, 0.005
# Measures that stand above all others, each at one level: the middle one, or the one that it is measured at.
_HEADLINES = (
    ("total_variation", "all"),
    ("residence_variation", "all"),
    ("mean_commute_release", "all"),
    ("destination_relative_error", "all"),
    ("query_share", "rho 1"),
    ("query_error", "all"),
)


def is_inside(error: float, forecast: float) -> bool:
    """Say whether an error is inside what was promised: at most 15 % or 0.005 above its forecast."""
    return error <= max((1 + _RELATIVE) * forecast, forecast + _ABSOLUTE)


@dataclass(frozen=True)
class TableVerdict:
    """What became of one table, **confidential**."""

    table: str  # Its name
    error: float | None  # Share of jobs counted elsewhere than in truth; None where it is not measured
    forecast: float | None  # The same as the accuracy sheet of the release expects it; None without one
    # The same for homes drawn from the public model alone, and for the plan's pools or tables without noise;
    # None where they are not measured
    public_model: float | None
    no_privacy: float | None

    @property
    def inside(self) -> bool | None:
        """Whether the error is inside what was promised; None where there is no error or no forecast."""
        if self.error is None or self.forecast is None:
            return None
        return is_inside(self.error, self.forecast)

    @property
    def words(self) -> str:
        """The verdict in a word or two."""
        if self.error is None:
            return "not measured"
        return {None: "not forecast", True: "inside", False: "outside"}[self.inside]


@dataclass(frozen=True)
class Headline:
    """One number that stands above all others. **Confidential** where the measures are."""

    measure: str
    level: str
    within_jobs: int | None  # Of a share of count queries: by how many jobs these are off at most
    value: float

    @property
    def title(self) -> str:
        """What it is called."""
        return measure_title(self.measure, self.within_jobs, self.level)


@dataclass(frozen=True)
class Verdict:
    """What a release officer has to know first. **Confidential** where a truth was compared with."""

    tables: tuple[TableVerdict, ...]  # None of a comparison with public tables
    headlines: tuple[Headline, ...]

    @property
    def words(self) -> str:
        """The verdict in a sentence."""
        judged = [table.inside for table in self.tables if table.inside is not None]
        unmeasured = sum(table.error is None for table in self.tables)
        but = f" Not measured: {_tables(unmeasured)}; {_WITHOUT}." if unmeasured else ""
        if not judged:
            return (
                "No table of the workload was both forecast and measured, so there is nothing to hold the "
                f"release against.{but}"
            )
        were = "was" if len(judged) == 1 else "were"
        several = f"{_tables(len(judged))} of the workload that {were} forecast and measured.{but}"
        if all(judged):
            return f"Inside what was promised: all {several}"
        return f"Outside what was promised: {judged.count(False)} of {several}"

    def document(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "verdict": self.words,
            "tables": [asdict(table) | {"inside": table.inside} for table in self.tables],
            "headlines": [
                {k: None if v != v else v for k, v in asdict(headline).items()} | {"title": headline.title}
                for headline in self.headlines
            ],
        }

    def text(self, geography: geo_data.Geography) -> str:
        """Return it for a terminal or a letter."""
        titles = {table.table: table_words(table.table, geography) for table in self.tables}
        wide = max(map(len, (*titles.values(), "table")))
        head = ("error", "forecast", "public model alone", "no privacy")
        lines = [self.words, "", "  ".join([f"{'table':{wide}}", *(f"{x:>8}" for x in head), "verdict"])]
        for table in self.tables:
            cells = [
                f"{'-' if value is None else f'{100 * value:.1f} %':>{max(8, len(title))}}"
                for title, value in zip(
                    head, (table.error, table.forecast, table.public_model, table.no_privacy), strict=True
                )
            ]
            lines.append("  ".join([f"{titles[table.table]:{wide}}", *cells, table.words]))
        lines += ["", EXPLANATION, ""]
        for headline in self.headlines:
            value = number_words(headline.measure, headline.value)
            lines.append(f"{level_name(headline.level)}: {headline.title}: {value}")
        return "\n".join(lines) + "\n"


def _tables(number: int) -> str:
    return f"{number} table{'s' * (number != 1)}"


_WITHOUT = "the truth that was named counts each attribute by itself, or by other categories"
EXPLANATION = (
    "Error: share of the jobs counted elsewhere than in truth (total variation). Inside: at most "
    f"{100 * _RELATIVE:g} % above the forecast, or at most {100 * _ABSOLUTE:g} points above it."
)


def judge(measures: pd.DataFrame, expected: Sequence[ExpectedTable], jobs: float) -> Verdict:
    """Sum up what was measured."""
    rows = measures[["measure", "level", "group", "value"]].itertuples(index=False)
    values = {(m, level, group): x for m, level, group, x in rows}
    forecast = {table.table: table.loss for table in expected if table.workload}
    tables = tuple(
        TableVerdict(
            name,
            None if math.isnan(error) else error,
            forecast.get(name),
            values.get(("workload_public_model", name, "all")),
            values.get(("workload_no_privacy", name, "all")),
        )
        for (kind, name, _), error in values.items()
        if kind == "workload_loss"
    )
    headlines = []
    for name, group in _HEADLINES:
        levels = [level for m, level, g in values if (m, g) == (name, group)]
        if levels and not math.isnan(value := values[name, level := levels[(len(levels) - 1) // 2], group]):
            headlines.append(Headline(name, level, within_jobs(group, jobs), float(value)))
    return Verdict(tables, tuple(headlines))


def within_jobs(group: str, jobs: float) -> int | None:
    """Return the jobs that count queries of a group, such as "rho 0.5", may be off by; None of another."""
    kind, _, rho = group.partition(" ")
    return jobs_within(jobs, float(rho)) if kind == "rho" else None


def level_name(levels: str) -> str:
    """Return what readers call the level of a measure, or the two ("cty to trct")."""
    return " to ".join(map(singular, levels.split(" to ")))


def measure_title(name: str, within: int | None, levels: str) -> str:
    """Return what a measure is called, with the jobs of count queries, and what mean commutes are between."""
    title = MEASURES[name].title
    if name.startswith("mean_commute"):
        return f"{title}, between points of {' and '.join(map(plural, levels.split(' to ')))}"
    return title if within is None else f"{title} {within:,} {'job' if within == 1 else 'jobs'}"


def table_words(name: str, geography: geo_data.Geography) -> str:
    """Return the name of a table with words for its levels."""
    levels = {*geography.levels, geography.block_level}
    return " ".join(singular(word) if word in levels else word for word in name.split(" "))


def number_words(name: str, value: float) -> str:
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
