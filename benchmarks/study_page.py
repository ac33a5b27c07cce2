"""The pages and the figure of the utility study, made from its results alone.

The words are those of utility_study.md.j2 and utility_study_tables.md.j2. Every number is computed from the
results, and a sentence that says how numbers compare is preceded by a check (`sure`): results that no longer
support it stop the page, so that somebody rewrites the sentence.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from report import table
from study_measures import GUESSES, LARGE, MEAN, MEASURES
from study_methods import GOALS, METHODS
from study_office import OFFICES

from pipelines.views.evaluation.charts import STYLE

TEMPLATE = Path(__file__).parent / "utility_study.md.j2"
TABLES_TEMPLATE = Path(__file__).parent / "utility_study_tables.md.j2"
FIGURE_COLUMNS = {
    "top_tract": "100 largest flows",
    "residence_tract": "totals of residents",
    "commute": "mean commute",
    "query_error": "count queries, jobs",
}
GUESS_COLUMNS = {
    "guess": "all",
    "guess_one": "blocks of 1 job",
    "guess_large": f"blocks of {LARGE:,} jobs or more",
    "guess_all": "who knows all other homes",
}
ROWS = {**METHODS, **OFFICES}
NOT_MEASURES = ("epsilon", "method", "repetition", "note", "plan", MEAN)
AIMED = ("8.6", "4.6", "2", "1")  # epsilons of the aims of `Goal`
SMALLER = (0.35, 0.15, 0.05, 0.05)  # by which (a) was to lose less than (c), at these
# What (b) was to lose at most; no figure where there was no aim.
RESAMPLED = {"T1": (0.130, 0.143, 0.191, 0.233), "R": (0.028, np.nan, np.nan, np.nan)}
FIGURE = "study_losses.svg"


class Results:
    """The results of a study: means and spreads of its draws."""

    def __init__(self, rows: pd.DataFrame) -> None:
        self.epsilons: list[str] = sorted(set(rows["epsilon"]), key=float, reverse=True)
        self.repetitions = int(rows["repetition"].max())
        self.tables = [name for name in rows.columns if name not in (*NOT_MEASURES, *MEASURES, *GUESSES)]
        keys = [*zip(rows["method"], rows["epsilon"], strict=True)]
        self.notes: dict[tuple[str, str], str] = dict(zip(keys, rows["note"], strict=True))
        self.plans: dict[tuple[str, str], str] = dict(zip(keys, rows["plan"], strict=True))
        measures = [MEAN, *self.tables, *MEASURES, *GUESSES]
        groups = rows[rows["note"] == ""].groupby(["method", "epsilon"])[measures]
        self._mean, self._spread = groups.mean(), groups.std()

    @classmethod
    def read(cls, path: Path) -> Results:
        """Read what utility_study.py wrote."""
        rows = pd.read_csv(path, dtype={"epsilon": "str", "note": "str", "plan": "str"})
        return cls(rows.fillna({"note": "", "plan": ""}))

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


def write_pages(results: Path, page: Path, tables: Path, figures: Path) -> None:
    """Write the page, that of its tables, and its figure from a file of results."""
    found = Results.read(results)
    figures.mkdir(parents=True, exist_ok=True)
    draw_losses(found, figures / FIGURE)
    page.write_text(render(found), encoding="utf-8")
    tables.write_text(render(found, TABLES_TEMPLATE.read_text(encoding="utf-8")), encoding="utf-8")


def render(results: Results, template: str | None = None) -> str:
    """Return the page."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    page = environment.from_string(template or TEMPLATE.read_text(encoding="utf-8"))
    return page.render(
        results=results,
        methods=ROWS,
        measures={**MEASURES, **GUESSES},
        MEAN=MEAN,
        sure=sure,
        n=lambda method, epsilon, column, digits=3: f"{results.mean(method, epsilon, column):.{digits}f}",
        p=lambda method, epsilon, column: percent(results.mean(method, epsilon, column)),
        mean=lambda method, epsilon, *columns: float(
            np.mean([results.mean(method, epsilon, column) for column in columns])
        ),
        each=lambda method, column: in_turn(
            f"{results.mean(method, e, column):.3f}" for e in results.epsilons if results.has(method, e)
        ),
        less=lambda method, other, column: in_turn(
            f"{1 - results.mean(method, e, column) / results.mean(other, e, column):.0%}"
            for e in results.epsilons
        ),
        in_turn=in_turn,
        below=results.below,
        loss_table=lambda epsilon: method_table(
            results, epsilon, {name: name for name in (MEAN, *results.tables)}, ROWS
        ),
        guessed=lambda epsilon: guessed(results, epsilon),
        guess_table=lambda epsilon: method_table(results, epsilon, GUESS_COLUMNS, guessed(results, epsilon)),
        figure_table=lambda epsilon: method_table(results, epsilon, FIGURE_COLUMNS, METHODS),
        goal_table=lambda: goal_table(results),
        figure=FIGURE,
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


def in_turn(values: Iterable[str]) -> str:
    """Return values in words."""
    *first, last = values
    return f"{', '.join(first)} and {last}" if first else last


def percent(value: float, digits: int = 1, *, signed: bool = False) -> str:
    """Return a share as a percentage."""
    return f"{100 * value:{'+' if signed else ''}.{digits}f} %"


def method_table(results: Results, epsilon: str, columns: dict[str, str], methods: Iterable[str]) -> str:
    """Return a table of methods at an epsilon: means, and spreads where there are several draws."""
    rows = []
    for method in methods:
        if results.has(method, epsilon):
            cells = [cell(results, method, epsilon, column) for column in columns]
        else:
            cells = [results.notes.get((method, epsilon), "not run"), *[""] * (len(columns) - 1)]
        rows.append([ROWS[method].title, *cells])
    return table(["", *columns.values()], rows)


def guessed(results: Results, epsilon: str) -> list[str]:
    """Return the methods from whose releases homes were guessed."""
    there = (method for method in ROWS if results.has(method, epsilon))
    return [method for method in there if results.mean(method, epsilon, "guess") >= 0]


def cell(results: Results, method: str, epsilon: str, column: str) -> str:
    """Return a measure as text."""
    value, spread = (f(method, epsilon, column) for f in (results.mean, results.spread))
    if value != value:
        return ""
    match column:
        case "commute" | "top_tract":
            return percent(value, signed=column == "commute") + (
                f" ± {100 * spread:.1f}" if spread == spread else ""
            )
        case "query_error":
            return f"{value:.0f}" + (f" ± {spread:.0f}" if spread == spread else "")
        case _:
            bound = "≤ " if column in GUESSES and method in METHODS and method != "model" else ""
            return f"{bound}{value:.3f}" + (f" ± {spread:.4f}" if spread == spread else "")


def goal_table(results: Results) -> str:
    """Return what plans lose in the tables that they were made for, and in brackets what was aimed at."""

    def losses(method: str, columns: Sequence[str]) -> list[float]:
        """Return the largest of these losses at every epsilon; NaN where the method was not drawn."""
        return [
            max(results.mean(method, e, name) for name in columns) if results.has(method, e) else np.nan
            for e in AIMED
        ]

    rows = []
    for method, goal in GOALS.items():
        for kind, aims in goal.aims.items():
            rows.append([method, kind, *with_aims(losses(method, of_kind(results, kind)), aims)])
    planned, before = (losses(method, [MEAN]) for method in ("geometric", "geometric_before"))
    most = [(1 - share) * loss for share, loss in zip(SMALLER, before, strict=True)]
    rows.append(["(a)", MEAN, *with_aims(planned, most)])
    for name, columns in (("T1", of_kind(results, "T1")), ("R", of_kind(results, "R")), (MEAN, [MEAN])):
        aims = RESAMPLED.get(name, losses("dirichlet_before", columns))
        rows.append(["(b)", name, *with_aims(losses("dirichlet", columns), aims)])
    return table(["plan", "table", *AIMED], rows)


def with_aims(losses: Sequence[float], aims: Sequence[float]) -> list[str]:
    """Return losses as texts, each with what was aimed at; bold where it is more."""
    found = []
    for loss, aim in zip(losses, aims, strict=True):
        text = f"**{loss:.3f}**" if round(loss, 3) > round(aim, 3) else f"{loss:.3f}"
        text += f" ({aim:.3f})" if aim == aim else ""
        found.append(text if loss == loss else "")
    return found


def of_kind(results: Results, kind: str) -> list[str]:
    """Return the names of the tables of a short name, which stand in the order of the default workload."""
    residents = [name for name in results.tables if name.startswith("residents of ")]
    return residents if kind == "R" else [results.tables[("T1", "BG", "T2").index(kind)]]


def draw_losses(results: Results, path: Path) -> None:
    """Draw the weighted mean and the loss of every table against epsilon, a line a method."""
    panels = [MEAN, *results.tables]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(11, 6.4), layout="constrained")
        axes = figure.subplots(2, -(-len(panels) // 2), squeeze=False).ravel()
        for ax, column in zip(axes, panels, strict=False):
            for method, about in METHODS.items():
                epsilons, means, spreads = results.series(method, column)
                if not about.line or not np.isfinite(means).any():
                    continue
                colour, style = about.line.split()
                title = about.title.replace("`", "")
                ax.errorbar(
                    epsilons, means, spreads, fmt=style, color=colour, label=title, ms=4, lw=1.3, capsize=2
                )
            ax.set(xscale="log", title=column, ylim=(0, None), xlabel="epsilon")
            ax.set_xticks([float(e) for e in results.epsilons], results.epsilons)
            ax.minorticks_off()
            ax.title.set_fontsize(9)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        labels: dict[str, Any] = {}
        for ax in axes:
            lines, names = ax.get_legend_handles_labels()
            labels |= {name: line for name, line in zip(names, lines, strict=True) if name not in labels}
        figure.legend(labels.values(), labels, loc="outside lower center", ncols=4)
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG that names no program, no date and no address of a DTD."""
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = svg.getvalue()
    path.write_text(text[text.index("<svg") :], encoding="utf-8")
