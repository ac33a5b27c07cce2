"""The charts of a figure, directions as a rose and distances as a histogram, and the titles of panels."""

from __future__ import annotations

import itertools
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipelines.plans.utility import mean_km
from pipelines.views.figures.subject import FigureSubject
from pipelines.views.labels import singular

# Edges of the distance classes in km; the bars of the histogram are a twentieth of the last.
_CLASSES = ((1, 2, 5, 10), (2, 5, 10, 20), (5, 10, 25, 50), (10, 25, 50, 100), (25, 50, 100, 200))
_BARS = 20
_SECTORS = 16
_COLOURS = "viridis_r"  # perceptually uniform and colour-blind safe


def title_panel(axis: Axes, title: str, *remarks: str, lift: float = 0.0) -> None:
    """Put a title above a panel, and remarks between the two; `lift` is points, for labels above it."""
    axis.set_title(title, loc="left", fontweight="bold", pad=18 + lift)
    below = axis.annotate(
        "; ".join(remarks),
        (0, 1),
        (0, 5 + lift),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize="small",
        color="0.35",
    )
    below.set_in_layout(False)  # a long one may reach beyond its panel


def draw_rose(axis: Any, subject: FigureSubject) -> None:
    """Draw the share of commutes in each direction as a rose diagram, by distance."""
    flows = subject.flows.dropna(subset="km")
    directed = flows.dropna(subset="to_home" if subject.of == "workers" else "to_work")
    towards = directed["to_home" if subject.of == "workers" else "to_work"].to_numpy()
    width = 360 / _SECTORS
    sector = np.floor((towards + width / 2) / width).astype(np.int64) % _SECTORS  # the first is around north
    edges = _distance_classes(flows["km"].to_numpy(), flows["jobs"].to_numpy())
    classes = np.searchsorted(edges, directed["km"], side="right")
    jobs = np.zeros((len(edges) + 1, _SECTORS))
    np.add.at(jobs, (classes, sector), directed["jobs"].to_numpy())
    share = 100 * jobs / max(1, flows["jobs"].sum())
    angle, base = np.radians(width * np.arange(_SECTORS)), np.zeros(_SECTORS)
    for part, colour, label in zip(share, _colours(len(edges) + 1), _labels(edges, subject), strict=True):
        axis.bar(
            angle,
            part,
            width=np.radians(width) * 0.9,
            bottom=base,
            color=colour,
            edgecolor="white",
            linewidth=0.4,
            label=label,
        )
        base += part
    axis.set_theta_zero_location("N")
    axis.set_theta_direction(-1)
    axis.set_thetagrids(np.arange(0, 360, 45), subject.say.compass)
    top = max(1e-9, float(base.max()))
    rings = [ring for ring in MaxNLocator(3, min_n_ticks=2).tick_values(0, top) if 1e-6 < ring <= top]
    axis.set_rgrids(rings, labels=[])
    axis.set_rmax(1.03 * top)
    free = angle[np.argmin(base + np.roll(base, 1) + np.roll(base, -1))]
    for ring in rings:  # not as labels of the axis, which would lie below the bars
        halo = [withStroke(linewidth=2.5, foreground="white")]
        axis.text(
            free,
            ring,
            f"{subject.number(f'{ring:g}')}{subject.say.percent_mark}",
            ha="center",
            va="center",
            fontsize="small",
            path_effects=halo,
        )
    axis.tick_params(pad=1)
    axis.grid(color="0.85", linewidth=0.6)
    axis.spines["polar"].set_visible(False)
    axis.set_axisbelow(True)
    axis.set_anchor("W")
    legend = axis.legend(
        title=subject.say.rose_legend,
        loc="center left",
        bbox_to_anchor=(1.1, 0.5),
        frameon=False,
        fontsize="small",
    )
    legend.set_in_layout(False)  # there is room beside a circle
    still = (flows["jobs"].sum() - directed["jobs"].sum()) / max(1, flows["jobs"].sum())
    remarks = [subject.say.share_still(subject.percent(still))] if still >= 0.005 else []
    title_panel(axis, subject.say.rose_title(subject.of), subject.share_of, *remarks, lift=14)


def draw_distances(axis: Axes, subject: FigureSubject) -> None:
    """Draw a histogram of the distances between home and work."""
    flows, say = subject.flows.dropna(subset="km"), subject.say
    km, jobs = flows["km"].to_numpy(), flows["jobs"].to_numpy()
    edges = _distance_classes(km, jobs)
    width, end = edges[-1] / _BARS, 1.5 * edges[-1]
    bars = np.append(np.arange(round(end / width)) * width, end)
    share = 100 * np.histogram(km, bars, weights=jobs)[0] / max(1, jobs.sum())
    colours = _colours(len(edges) + 1)
    classes = np.searchsorted(edges, bars[:-1], side="right")
    axis.bar(bars[:-1], share, width=width * 0.92, align="edge", color=[colours[c] for c in classes])
    if jobs.sum():
        order = np.argsort(km)
        middle = km[order][np.searchsorted(np.cumsum(jobs[order]), jobs.sum() / 2)]
        mean = mean_km(km, jobs)
        labels = say.median(f"{middle:.1f}"), say.mean(f"{mean:.1f}")
        for value, label, style in zip((middle, mean), labels, ("-", "--"), strict=True):
            axis.axvline(value, color="#D55E00", lw=1.3, ls=style, label=label)
        axis.legend(frameon=False)
    axis.set_xlabel(say.distance_axis(singular(subject.release.levels[-1], subject.language)))
    axis.yaxis.set_major_formatter(lambda x, _: f"{subject.number(f'{x:g}')}{say.percent_mark}")
    axis.set_xlim(0, end)
    axis.grid(axis="y", color="0.9", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    further = jobs[km > end].sum() / max(1, jobs.sum())
    remarks = [say.share_further(subject.percent(further, 1), f"{end:g}")] if further >= 0.0005 else []
    title_panel(axis, say.distances_title, say.per_km(subject.share_of, f"{width:g}"), *remarks)


def _distance_classes(km: NDArray[np.float64], jobs: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the edges whose last is first beyond nine tenths of the commutes."""
    for edges in _CLASSES:
        if jobs[km <= edges[-1]].sum() >= 0.9 * jobs.sum():
            return edges
    return _CLASSES[-1]


def _labels(edges: tuple[int, ...], subject: FigureSubject) -> list[str]:
    return [
        subject.say.class_of_distance(low, high) for low, high in itertools.pairwise((None, *edges, None))
    ]


def _colours(n: int) -> NDArray[np.float64]:
    return np.asarray(matplotlib.colormaps[_COLOURS](np.linspace(0.05, 0.95, n)))
