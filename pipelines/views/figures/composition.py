"""Composing the panels of a figure, and writing it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from pipelines.views.figures.charts import draw_distances, draw_rose
from pipelines.views.figures.maps import draw_choropleth, draw_flows
from pipelines.views.figures.subject import FigureSubject

_PANELS = {
    "choropleth": draw_choropleth,
    "flows": draw_flows,
    "rose": draw_rose,
    "distance": draw_distances,
}
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "text.parse_math": False,  # a name is no formula
    "svg.hashsalt": "odsynth",  # the same figure gives the same bytes
    "svg.fonttype": "none",  # words that can be searched, read aloud and edited, not their outlines
    "pdf.fonttype": 42,  # the same
}
# What matplotlib would write of its own: the day, and where it can be had.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    ".pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


def write_figure(subject: FigureSubject, kind: str, path: Path) -> None:
    """Draw one panel, or "all", and write the figure to a path that ends with .png, .svg or .pdf."""
    with matplotlib.rc_context(_STYLE):
        figure = _compose(subject, list(_PANELS) if kind == "all" else [kind])
        path.parent.mkdir(parents=True, exist_ok=True)
        suffix = path.suffix.lower()
        words = {"Title": subject.title, "Subject": subject.source} if suffix == ".pdf" else {}
        figure.savefig(path, dpi=200, metadata=_METADATA[suffix] | words)


def _compose(subject: FigureSubject, kinds: list[str]) -> Figure:
    one = len(kinds) == 1
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, hspace=0.03, wspace=0.03)
    figure = Figure(figsize=(6.5, 6.6) if one else (10.8, 10.8), layout=layout)
    grid = figure.add_gridspec(1, 1) if one else figure.add_gridspec(2, 2, height_ratios=(5.5, 4.3))
    for number, kind in enumerate(kinds):
        cell = grid[number // 2, number % 2]
        _PANELS[kind](figure.add_subplot(cell, projection="polar" if kind == "rose" else None), subject)
    title = _wrapped(subject.title, 76 if one else 110)
    source = _wrapped(subject.source, 100 if one else 170)
    figure.suptitle(title, x=0.015, ha="left", fontsize=11 if one else 13, fontweight="bold")
    figure.supxlabel(source, x=0.015, ha="left", fontsize=7.5, color="0.35")
    return figure


def _wrapped(text: str, width: int) -> str:
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())
