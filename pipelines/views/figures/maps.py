"""The maps of a figure: a choropleth (or sized points) of one end of the commutes, and the largest flows."""

from __future__ import annotations

from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar  # type: ignore[import-untyped]
from numpy.typing import NDArray

from pipelines.config.languages import ENGLISH
from pipelines.release.pages import number
from pipelines.views.figures.charts import title_panel
from pipelines.views.figures.subject import FigureSubject
from pipelines.views.labels import level_words, singular

# Colour-blind safe: ColorBrewer's YlGnBu, and vermillion and blue of Okabe and Ito.
_SEQUENCE = "YlGnBu"
_AREA, _FLOW = "#D55E00", "#0072B2"
_LAND, _BORDER = "#f4f4f2", "#b8b8b8"
_CLASSES = 7
_MOST_FLOWS = 60
_WIDEST = 5.0  # points
_LARGEST = 400.0  # square points


def draw_choropleth(axis: Axes, subject: FigureSubject) -> None:
    """Draw where the workers live, or the residents work: per square kilometre, or as sized points."""
    say, shapes = subject.say, subject.shapes
    in_areas = say.in_areas(subject.of, singular(subject.level, subject.language))
    if shapes is None:
        _draw_land(axis, subject)
        _draw_points(axis, subject, in_areas)
    else:
        jobs = subject.jobs.reindex(shapes.index, fill_value=0).to_numpy()
        density = jobs / (shapes.area.to_numpy() / 1e6)
        edges = _edges(density[density > 0])
        norm = BoundaryNorm(edges, len(edges) - 1)
        colours = matplotlib.colormaps[_SEQUENCE].resampled(len(edges) + 1)(np.arange(2, len(edges) + 1))
        scale = ScalarMappable(norm, matplotlib.colors.ListedColormap(colours))
        filled = scale.to_rgba(np.clip(density, edges[0], edges[-1] * (1 - 1e-9)))
        filled[jobs == 0] = matplotlib.colors.to_rgba(_LAND)
        shapes.plot(ax=axis, color=filled, edgecolor=_BORDER, linewidth=0.35)
        # Inside the axes' own box: beside it, the legend of the other map would push it down.
        below = axis.inset_axes((0.1, -0.06, 0.8, 0.03))
        bar = axis.figure.colorbar(scale, cax=below, orientation="horizontal", spacing="uniform")
        bar.set_ticks(edges[1:-1].tolist(), labels=[subject.number(f"{edge:,g}") for edge in edges[1:-1]])
        bar.ax.tick_params(length=0)
        bar.outline.set_visible(False)
        bar.set_label(say.density_of(in_areas))
    _finish(axis, subject, say.where_they(subject.of))


def draw_flows(axis: Axes, subject: FigureSubject) -> None:
    """Draw the largest flows between units, as wide as they are large."""
    _draw_land(axis, subject)
    pairs, places = subject.pairs, subject.places
    inside = pairs["home"] == pairs["work"]
    placed = np.isfinite(np.hstack([places[pairs["home"]], places[pairs["work"]]])).all(axis=1)
    between = pairs[np.asarray(placed) & ~inside]
    flows = between.nlargest(_MOST_FLOWS, "jobs", keep="first")
    near = "work" if subject.of == "workers" else "home"
    star = flows[near].nunique() == 1  # then the direction needs no arrows
    most = flows["jobs"].max() if len(flows) else 1
    for home, work, jobs in flows[::-1][["home", "work", "jobs"]].to_numpy().tolist():
        width = _line(jobs / most)
        axis.add_patch(
            FancyArrowPatch(
                places[home],
                places[work],
                arrowstyle="-" if star else "-|>",
                connectionstyle=f"arc3,rad={0 if star else 0.18}",
                mutation_scale=4 + 1.2 * width,
                shrinkA=0,
                shrinkB=0,
                linewidth=width,
                color=_FLOW,
                alpha=0.65,
                capstyle="round",
            )
        )
    if star:
        ends = places[flows[subject.far]]
        axis.plot(ends[:, 0], ends[:, 1], "o", color="white", mec=_FLOW, mew=0.8, ms=3.2)
    sizes = _round_sizes(most, flows["jobs"].min() if len(flows) else 1)
    handles = [Line2D([], [], color=_FLOW, alpha=0.65, lw=_line(size / most)) for size in sizes]
    say, words = subject.say, level_words(subject.level, subject.language)
    _legend(axis, handles, [subject.number(f"{size:,}") for size in sizes], say.workers_of_flows)
    share = flows["jobs"].sum() / subject.total
    within = pairs.loc[inside, "jobs"].sum() / subject.total
    remarks = [say.share_of_workers(subject.percent(share))]
    if within >= 0.005:  # what is rounded to 0 % need not be said
        remarks.append(say.share_within(subject.percent(within), words["one"]))
    title = say.flows_title(None if len(flows) == len(between) else len(flows), words["between"])
    _finish(axis, subject, title, *remarks)


def _draw_land(axis: Axes, subject: FigureSubject) -> None:
    if subject.background is not None:
        subject.background.plot(ax=axis, color=_LAND, edgecolor=_BORDER, linewidth=0.35)


def _draw_points(axis: Axes, subject: FigureSubject, title: str) -> None:
    jobs = subject.jobs
    most = jobs.max()
    order = jobs.index[np.argsort(-jobs.to_numpy())]
    x, y = subject.places[order].T
    style: dict[str, Any] = {"color": _FLOW, "alpha": 0.55, "linewidths": 0.4, "edgecolors": "white"}
    axis.scatter(x, y, s=_LARGEST * jobs[order] / most, **style)
    sizes = _round_sizes(most, jobs.min())
    handles = [axis.scatter([], [], s=_LARGEST * size / most, **style) for size in sizes]
    _legend(
        axis,
        handles,
        [subject.number(f"{size:,}") for size in sizes],
        title,
    )


def _finish(axis: Axes, subject: FigureSubject, title: str, *remarks: str) -> None:
    """Add the area, the frame, scale bar, north arrow and titles."""
    if subject.outline is not None:
        subject.outline.boundary.plot(ax=axis, color=_AREA, linewidth=1.8, zorder=5)
    elif subject.centre is not None:
        axis.plot(*subject.centre, "*", color=_AREA, mec="white", mew=0.8, ms=15, zorder=6)
    frame_map(axis, subject.frame, subject.language)
    if subject.beyond >= 0.005:
        remarks = (*remarks, subject.say.off_the_map(subject.of, subject.percent(subject.beyond)))
    title_panel(axis, title, *remarks)


def frame_map(axis: Axes, frame: tuple[float, float, float, float], language: str = ENGLISH) -> None:
    """Show what lies between west, south, east and north, in metres, with a scale bar and a north arrow."""
    west, south, east, north = frame
    axis.set(xlim=(west, east), ylim=(south, north), xticks=[], yticks=[], xlabel="", ylabel="")
    axis.set_aspect("equal", anchor="NW")
    for spine in axis.spines.values():
        spine.set(color=_BORDER, linewidth=0.6)
    length = _round_length((east - west) / 4000)
    axis.add_artist(
        AnchoredSizeBar(
            axis.transData,
            length * 1000,
            number(f"{length:g} km", language),
            "lower right",
            frameon=False,
            pad=0.6,
            sep=3,
        )
    )
    axis.annotate(
        "N",
        (0.965, 0.975),
        (0.965, 0.885),
        xycoords="axes fraction",
        ha="center",
        va="center",
        arrowprops={"arrowstyle": "-|>", "color": "black", "lw": 1},
    )


def _legend(axis: Axes, handles: list[Any], labels: list[str], title: str) -> None:
    axis.legend(
        handles,
        labels,
        title=title,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.01),
        ncols=len(handles),
        frameon=False,
        columnspacing=3,
        handletextpad=1,
    )


def _line(share: float) -> float:
    """Return the width of the line of a flow, by its share of the largest, in points."""
    return max(0.4, _WIDEST * share)


def _edges(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the edges of classes: 1, 2, 5, 10 ... up to the largest value, the lowest class open to 0."""
    if not values.size:
        return np.array([0.0, 1.0])
    power = np.arange(-6, 10)
    series = np.sort((np.array([1.0, 2.0, 5.0])[:, None] * 10.0**power).ravel())
    top = int(np.searchsorted(series, values.max(), side="left"))
    bottom = max(top - _CLASSES + 1, int(np.searchsorted(series, values.min(), side="right")) - 1)
    return np.append(0.0, series[min(bottom, top - 1) : top + 1])


def _round_length(value: float) -> float:
    """Return the largest of 1, 2, 5, 10 ... that is not above a value."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(power * max(step for step in (1, 2, 5) if step * power <= value * (1 + 1e-9)))


def _round_sizes(most: float, least: float) -> list[int]:
    """Return up to three round numbers for a legend of sizes, largest first."""
    least = max(least, most / 20)  # thinner ones cannot be told apart
    sizes = [most, np.sqrt(most * least), least]
    return list(dict.fromkeys(int(_round_length(max(1.0, size))) for size in sizes))
