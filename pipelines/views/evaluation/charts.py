"""Charts of a comparison, as SVG that stands inside a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from pipelines.views.evaluation.comparison import Comparison
from pipelines.views.evaluation.measures import (
    add_up,
    commute_errors,
    count_queries,
    errors_by_size,
    pair_flows,
    query_errors,
)
from pipelines.views.evaluation.measuring import RHO, compared_levels
from pipelines.views.labels import singular

_REFERENCE, _RELEASE = "#444444", "#1f77b4"
_SIZE = (5.4, 3.6)  # inches
_FEW_PAIRS = 500  # are drawn one by one
_FEW_UNITS = 3000  # a chart of flows is of the finest level with no more
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "odsynth",
}
"""Settings of matplotlib for figures of an evaluation: the same numbers give the same bytes."""


def draw(chart: Callable[[Axes, Comparison], bool], comparison: Comparison) -> str | None:
    """Draw a chart."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained")
        if not chart(figure.add_subplot(), comparison):
            return None
        svg = io.BytesIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    text = svg.getvalue().decode()
    return base64.b64encode(text[text.index("<svg") :].encode()).decode()  # without the address of a DTD


def _distances(ax: Axes, comparison: Comparison) -> bool:
    tables = comparison.distances
    if not all(table["S000"].sum() for table in tables):
        return False
    km = np.concatenate([table["km"] for table in tables])
    weight = np.concatenate([table["S000"] for table in tables])
    order = np.argsort(km)
    running = np.cumsum(weight[order])
    longest = km[order][np.searchsorted(running, 0.99 * running[-1])]
    bins = np.linspace(0, max(longest, 1), 41)
    for table, name, colour, style in (
        (tables[0], "compared with", _REFERENCE, "--"),
        (tables[1], "release", _RELEASE, "-"),
    ):
        share = np.histogram(table["km"], bins, weights=table["S000"])[0] / table["S000"].sum()
        ax.stairs(share, bins, color=colour, linestyle=style, linewidth=1.5, label=name)
    ax.set(
        xlabel="distance from home to work, km", ylabel="share of jobs", xlim=(0, bins[-1]), ylim=(0, None)
    )
    ax.yaxis.set_major_formatter(PercentFormatter(1))
    ax.legend()
    return True


def _destinations(ax: Axes, comparison: Comparison) -> bool:
    groups = errors_by_size(commute_errors(*comparison.distances))
    if len(groups) < 2:
        return False
    jobs = groups.index
    ax.fill_between(
        jobs, groups[0.25], groups[0.75], color=_RELEASE, alpha=0.2, linewidth=0, label="middle half"
    )
    ax.plot(jobs, groups[0.5], color=_RELEASE, marker="o", markersize=3, label="median")
    ax.plot(jobs, groups[0.9], color=_RELEASE, linestyle=":", label="one in ten is above")
    ax.set(
        xscale="log",
        xlabel="jobs at the destination",
        ylabel="relative difference of its mean commute",
        ylim=(0, None),
    )
    _whole_numbers(ax.xaxis)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.legend()
    return True


def _flows(ax: Axes, comparison: Comparison) -> bool:
    tables, level, fine = (comparison.reference, comparison.release), "", ""
    if comparison.home_level == comparison.work_level:
        fine, n_units = comparison.home_level, comparison.geography.n_units
        drawable = [name for name in compared_levels(comparison) if n_units(name) <= _FEW_UNITS]
        level = drawable[-1] if drawable else fine
        if level != fine:
            add = (comparison.geography, (fine, fine), (level, level))
            tables = (add_up(tables[0], *add), add_up(tables[1], *add))
    pairs = pair_flows(*tables)
    # What one table lacks stands on the axis, at a half.
    x, y = (np.maximum(pairs[name].to_numpy(), 0.5) for name in ("first", "second"))
    top = max(x.max(), y.max()) * 1.2
    if len(pairs) < _FEW_PAIRS:
        ax.plot(x, y, "o", color=_RELEASE, markersize=3, alpha=0.6)
        ax.set(xscale="log", yscale="log")
    else:
        ax.hexbin(
            x,
            y,
            gridsize=45,
            xscale="log",
            yscale="log",
            mincnt=1,
            norm=LogNorm(),
            cmap="Blues",
            linewidths=0.1,
        )
    ax.plot([0.5, top], [0.5, top], color=_REFERENCE, linewidth=0.8)
    ax.set(
        xlabel=f"jobs of a flow, compared with{f' ({singular(level)})' if level else ''}",
        ylabel="jobs of the flow, release",
    )
    ax.set(xlim=(0.4, top), ylim=(0.4, top))
    for axis in (ax.xaxis, ax.yaxis):
        _whole_numbers(axis)
    return True


def _queries(ax: Axes, comparison: Comparison) -> bool:
    queries = count_queries(len(comparison.homes), len(comparison.works))
    errors = np.sort(query_errors(comparison.reference, comparison.release, queries))
    jobs = float(comparison.release["S000"].sum())
    ax.step(errors, np.arange(1, errors.size + 1) / errors.size, where="post", color=_RELEASE)
    end = max(errors[-1], max(RHO) * np.sqrt(jobs)) * 1.08
    for rho in RHO:
        allowed = rho * np.sqrt(jobs)
        ax.axvline(allowed, color=_REFERENCE, linewidth=0.8, linestyle=":")
        if rho == max(RHO) or allowed > end / 20:  # else the words lie on each other
            ax.text(allowed, 0.02, rf" $\rho$ = {rho:g}", color=_REFERENCE, fontsize=8)
    ax.set(
        xlabel="difference of the answers, jobs",
        ylabel="count queries with at most this difference",
        ylim=(0, 1.02),
    )
    ax.set_xlim(0, end)
    ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    return True


def _whole_numbers(axis: Axis) -> None:
    """Label a logarithmic axis 1, 2, 5, 10 ... where it is short, else 1, 10, 100."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 50 * low else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


#: Title and chart.
CHARTS: dict[str, Callable[[Axes, Comparison], bool]] = {
    "How far people commute": _distances,
    "Difference of the mean commute, by size of the destination": _destinations,
    "Each flow in the two tables (darker: more flows; at 0.5: half a job or less, or none)": _flows,
    "Differences of count queries": _queries,
}
