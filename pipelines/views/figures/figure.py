"""Figures of a release for reports: their panels composed, and written as PNG, SVG or PDF."""

from __future__ import annotations

import textwrap
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from geo_data.arguments import PathLike, path_of
from pipelines.views.choices import KINDS
from pipelines.views.figures.charts import draw_distances, draw_rose
from pipelines.views.figures.maps import draw_choropleth, draw_flows
from pipelines.views.figures.subject import FigureSubject, Side
from pipelines.views.folder import PublicReleaseError, check_target
from pipelines.views.release import Release

_PANELS = {
    "choropleth": draw_choropleth,
    "flows": draw_flows,
    "rose": draw_rose,
    "distance": draw_distances,
}
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "text.parse_math": False,  # a name is no formula
    "svg.hashsalt": "odsynth",  # the same figure gives the same bytes
    "svg.fonttype": "none",  # words that can be searched, read aloud and edited, not their outlines
    "pdf.fonttype": 42,  # the same
}
# What matplotlib would write of its own: the day, and where it can be had.
METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    ".pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
}


DOTS = 200  # per inch, of a PNG


def draw_figure(
    release: Release,
    path: PathLike,
    *,
    area: str | None = None,
    of: Side = "workers",
    level: str | None = None,
    count: str = "S000",
    kind: str = "all",
) -> None:
    """Draw the commutes of an area (`Release.figure`)."""
    path = path_of(path, "path")
    suffix = path.suffix.lower()
    if kind not in KINDS:
        raise PublicReleaseError(f"there is no kind {kind!r}; there are: {', '.join(KINDS)}")
    if suffix not in METADATA:
        fix = "let the name end with .png, .svg or .pdf"
        raise PublicReleaseError(f"{path.name}: this is not the name of a figure; {fix}")
    check_target(path, release.public)
    subject = FigureSubject(release, None if area is None else release.find_area(area), of, count, level)
    with matplotlib.rc_context(STYLE):
        figure = _compose(subject, list(_PANELS) if kind == "all" else [kind])
        path.parent.mkdir(parents=True, exist_ok=True)
        words = {"Title": subject.title, "Subject": subject.source} if suffix == ".pdf" else {}
        figure.savefig(path, dpi=DOTS, metadata=METADATA[suffix] | words)


def _compose(subject: FigureSubject, kinds: list[str]) -> Figure:
    single = len(kinds) == 1
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, hspace=0.03, wspace=0.03)
    figure = Figure(figsize=(6.5, 6.6) if single else (10.8, 10.8), layout=layout)
    grid = figure.add_gridspec(1, 1) if single else figure.add_gridspec(2, 2, height_ratios=(5.5, 4.3))
    for number, kind in enumerate(kinds):
        cell = grid[number // 2, number % 2]
        _PANELS[kind](figure.add_subplot(cell, projection="polar" if kind == "rose" else None), subject)
    title = wrapped(subject.title, 76 if single else 110)
    source = wrapped(subject.source, 100 if single else 170)
    figure.suptitle(title, x=0.015, ha="left", fontsize=11 if single else 13, fontweight="bold")
    figure.supxlabel(source, x=0.015, ha="left", fontsize=7.5, color="0.35")
    return figure


def wrapped(text: str, width: int) -> str:
    """Return a text with lines of so many characters at most."""
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())
