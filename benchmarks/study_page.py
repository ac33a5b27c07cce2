"""The page and the figures of the utility study, made from its results alone.

The words are those of utility_study.md.j2. Every number on the page is computed from the results, and a
sentence that says how numbers compare is preceded by a check (`sure`): results that no longer support it
stop the page, so that somebody rewrites the sentence.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import jinja2
import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter
from report import table
from study_measures import MEASURES, SIZE_COLUMNS
from study_methods import METHODS

from pipelines.views.evaluation.charts import STYLE

__all__ = ["Results", "render", "write_page"]

TEMPLATE = Path(__file__).parent / "utility_study.md.j2"
FLOW_COLUMNS = {
    "tvd_block": "block",
    "tvd_block_group": "block group",
    "tvd_tract": "tract",
    "tvd_county": "county",
    "tvd_tract_to_block": "tract to work block",
    "js_tract": "J-S, bits",
    "residence_tract": "homes by tract",
    "top_tract": "top 100",
}
COMMUTE_COLUMNS = {
    "commute": "mean commute",
    "emd_km": "earth mover's, km",
    "large_destinations": "large destinations",
    "queries_tenth": "queries, 0.1",
    "queries_half": "queries, 0.5",
    "noise": "noise",
    "cells": "cells of a job",
    "pools": "pools",
}
# Names and lines of the methods in figures; those that promise nothing, or see nothing, are grey.
LINES = {
    "dirichlet": ("Dirichlet resampling", "#1f77b4", "o-"),
    "onthemap": ("OnTheMap's choices", "#9467bd", "D-"),
    "geometric_same": ("geometric, plan of Dirichlet", "#ff7f0e", "v-"),
    "geometric": ("geometric, own plan", "#d62728", "s-"),
    "geometric_blocks": ("geometric, unshared", "#d62728", "s--"),
    "mbi": ("mbi on tracts", "#2ca02c", "^-"),
    "model": ("public model alone", "#444444", ":"),
    "resampling": ("resampling alone, no privacy", "#999999", "--"),
}
FLOWS_FIGURE, DESTINATIONS_FIGURE = "study_flows.svg", "study_destinations.svg"


class Results:
    """The results of a study: means and spreads of its draws."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.epsilons: list[str] = list(dict.fromkeys(rows["epsilon"]))
        self.repetitions = int(rows["repetition"].max())
        self.notes: dict[tuple[str, str], str] = {
            (row.method, row.epsilon): row.note for row in rows.itertuples() if row.note
        }
        groups = (
            rows[rows["repetition"] > 0].drop(columns=["note", "repetition"]).groupby(["method", "epsilon"])
        )
        self._mean, self._spread = groups.mean(), groups.std()

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read what utility_study.py wrote."""
        rows = pd.read_csv(path, dtype={"epsilon": "str", "note": "str"})
        return cls(rows.fillna({"note": ""}))

    def has(self, method: str, epsilon: str) -> bool:
        """Say whether a method was drawn at an epsilon."""
        return (method, epsilon) in self._mean.index

    def mean(self, method: str, epsilon: str, column: str) -> float:
        """Return the mean of a measure over the draws."""
        return float(self._mean.loc[(method, epsilon), column])

    def spread(self, method: str, epsilon: str, column: str) -> float:
        """Return the standard deviation of a measure over the draws; NaN of a single one."""
        return float(self._spread.loc[(method, epsilon), column])

    def below(
        self, method: str, other: str, column: str, epsilons: Sequence[str] | None = None, by: float = 0.0
    ) -> bool:
        """Say whether a method's mean is below another's, at every epsilon (given) where both were drawn."""
        asked = [e for e in epsilons or self.epsilons if self.has(method, e) and self.has(other, e)]
        return bool(asked) and all(
            self.mean(method, e, column) + by < self.mean(other, e, column) for e in asked
        )

    def series(self, method: str, column: str) -> tuple[list[float], list[float], list[float]]:
        """Return epsilon, mean and spread of a measure where the method was drawn."""
        there = [e for e in self.epsilons if self.has(method, e)]
        means, spreads = ([f(method, e, column) for e in there] for f in (self.mean, self.spread))
        return [float(e) for e in there], means, np.nan_to_num(spreads).tolist()


def write_page(results: Path, page: Path, figures: Path) -> None:
    """Write the page and its figures from a file of results."""
    found = Results.read(results)
    figures.mkdir(parents=True, exist_ok=True)
    draw_flows(found, figures / FLOWS_FIGURE)
    draw_destinations(found, figures / DESTINATIONS_FIGURE)
    page.write_text(render(found), encoding="utf-8")


def render(results: Results, template: str | None = None) -> str:
    """Return the page."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    page = environment.from_string(template or TEMPLATE.read_text(encoding="utf-8"))
    return page.render(
        results=results,
        methods=METHODS,
        measures=MEASURES,
        sure=sure,
        n=lambda method, epsilon, column, digits=3: f"{results.mean(method, epsilon, column):.{digits}f}",
        p=lambda method, epsilon, column, digits=1: percent(results.mean(method, epsilon, column), digits),
        below=results.below,
        flow_table=lambda epsilon: method_table(results, epsilon, FLOW_COLUMNS),
        commute_table=lambda epsilon: method_table(results, epsilon, COMMUTE_COLUMNS),
        figures=(FLOWS_FIGURE, DESTINATIONS_FIGURE),
    )


def sure(condition: bool, sentence: str) -> str:
    """Return nothing if the results support a sentence.

    Raises
    ------
    ValueError
        If not: the template has to be rewritten.
    """
    if not condition:
        raise ValueError(f"the results do not support this any more; rewrite {TEMPLATE.name}: {sentence}")
    return ""


def percent(value: float, digits: int = 1, *, signed: bool = False) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:{'+' if signed else ''}.{digits}f} %"


def method_table(results: Results, epsilon: str, columns: dict[str, str]) -> str:
    """Return the table of all methods at an epsilon: means, and spreads where there are several draws."""
    rows = []
    for method, about in METHODS.items():
        if results.has(method, epsilon):
            cells = [cell(results, method, epsilon, column) for column in columns]
        else:
            cells = [results.notes.get((method, epsilon), "not run"), *[""] * (len(columns) - 1)]
        rows.append([about.title, *cells])
    return table(["", *columns.values()], rows)


def cell(results: Results, method: str, epsilon: str, column: str) -> str:
    """Return a measure as text."""
    value, spread = (f(method, epsilon, column) for f in (results.mean, results.spread))
    if value != value:
        return ""
    match column:
        case "pools" | "cells":
            return f"{value:,.0f}"
        case "noise":
            return percent(value)
        case "commute" | "large_destinations" | "top_tract" | "queries_tenth" | "queries_half":
            return percent(value, signed=column == "commute") + (
                f" ± {100 * spread:.1f}" if spread == spread else ""
            )
        case "emd_km":
            return f"{value:.2f}" + (f" ± {spread:.2f}" if spread == spread else "")
        case _:
            return f"{value:.4f}" + (f" ± {spread:.4f}" if spread == spread else "")


def draw_flows(results: Results, path: Path) -> None:
    """Draw three measures against epsilon, a line a method."""
    panels = {
        "tvd_tract": "flows from tract to tract:\ntotal variation distance",
        "tvd_tract_to_block": "flows from tract to work block:\ntotal variation distance",
        "large_destinations": "mean commute of large work blocks:\nmedian error",
    }
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 4.3), layout="constrained")
        axes = figure.subplots(1, len(panels))
        for ax, (column, title) in zip(axes, panels.items(), strict=True):
            for method, (label, colour, style) in LINES.items():
                epsilons, means, spreads = results.series(method, column)
                if epsilons and np.isfinite(means).any():
                    ax.errorbar(
                        epsilons,
                        means,
                        spreads,
                        fmt=style,
                        color=colour,
                        label=label,
                        ms=4,
                        lw=1.4,
                        capsize=2,
                    )
            ax.set(xscale="log", xlabel="epsilon", title=title, ylim=(0, None))
            ticks = [float(e) for e in results.epsilons]
            ax.set_xticks(ticks, results.epsilons)
            ax.minorticks_off()
            ax.title.set_fontsize(9)
        axes[-1].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        save(figure, path)


def draw_destinations(results: Results, path: Path) -> None:
    """Draw the error of a destination's mean commute against its size, at the extremes of epsilon."""
    ends: Sequence[str] = list(dict.fromkeys([results.epsilons[0], results.epsilons[-1]]))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 4), layout="constrained")
        axes = figure.subplots(1, len(ends), sharey=True, squeeze=False)[0]
        places = np.arange(len(SIZE_COLUMNS))
        for ax, epsilon in zip(axes, ends, strict=True):
            for method, (label, colour, style) in LINES.items():
                if not results.has(method, epsilon) or method == "mbi":
                    continue
                means = [results.mean(method, epsilon, column) for column in SIZE_COLUMNS]
                spreads = np.nan_to_num([results.spread(method, epsilon, column) for column in SIZE_COLUMNS])
                ax.errorbar(
                    places, means, spreads, fmt=style, color=colour, label=label, ms=4, lw=1.4, capsize=2
                )
            ax.set_xticks(places, [name.replace(" jobs", "") for name in SIZE_COLUMNS.values()])
            ax.set(title=f"epsilon {epsilon}", xlabel="jobs at the work block", yscale="log")
        axes[0].set_ylabel("error of its mean commute, median")
        axes[0].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g} %"))
        axes[0].yaxis.set_minor_formatter(NullFormatter())
        figure.legend(*axes[-1].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG that names no program, no date and no address of a DTD."""
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = svg.getvalue()
    path.write_text(text[text.index("<svg") :], encoding="utf-8")
