"""Maps of what changed between two releases: by how much, where that is beyond noise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import geopandas as gpd
import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from numpy.typing import NDArray
from pyproj import CRS

from pipelines.views.figures.charts import title_panel
from pipelines.views.figures.figure import DOTS, METADATA, STYLE, wrapped
from pipelines.views.figures.maps import frame_map
from pipelines.views.labels import singular
from pipelines.views.pages import phrases

if TYPE_CHECKING:
    from pipelines.views.changes.counting import ChangeTable
    from pipelines.views.changes.sides import Side

# ColorBrewer's PuOr, which the colour-blind tell apart: orange is fewer, purple is more; darker is further.
_FEWER, _MORE = ("#fdb863", "#e08214", "#b35806"), ("#b2abd2", "#8073ac", "#542788")
_BORDER = "#8a8a8a"
_SAME: dict[str, Any] = {"facecolor": "#e4e4e0"}
_WITHIN: dict[str, Any] = {"facecolor": "#f7f7f5", "hatch": "////"}
_BLANK: dict[str, Any] = {"facecolor": "#ffffff"}
_LAND = "#f9f9f8"
_CLASSES = len(_MORE)
_SIZE = 60.0  # square points of an area that has no polygon
_LEAST = 3_000.0  # metres that a map shows
_WIDE, _NARROW, _LEGEND = 12.5, 7.5, 2.0  # inches: widths
_LOW, _HIGH, _WORDS = 2.5, 6.0, 1.9  # heights, of maps and of the words around them


@dataclass(frozen=True)
class ChangeMap:
    """What a map of changes is about: the kind of its areas, A and B; and its language."""

    kind: str
    sides: tuple[Side, Side]
    language: str

    @property
    def say(self) -> Any:
        """What Python puts together to texts, in this language."""
        return phrases(self.language)


def draw_changes(side: Side, about: ChangeMap, tables: list[ChangeTable], path: Path) -> bool:
    """Draw a map of each table by area, with the shapes of a side; say whether any area has a place on it."""
    release, shapes = side.release, side.shapes(about.kind)
    placed = shapes[shapes.geometry.notna()]
    if not len(placed):
        return False
    placed = placed.to_crs(_crs(placed))
    land = None
    if (placed.geom_type == "Point").any():  # then shapes of another level say where they are
        finest_first = (release.polygons(level) for level in reversed(release.levels))
        land = next((polygons.to_crs(placed.crs) for polygons in finest_first if polygons is not None), None)
    bounds = np.array([shapes.total_bounds for shapes in (placed, land) if shapes is not None])
    (west, south), (east, north) = bounds[:, :2].min(axis=0), bounds[:, 2:].max(axis=0)
    pad = max(0.04 * max(east - west, north - south), (_LEAST - min(east - west, north - south)) / 2)
    wide = _WIDE if len(tables) > 1 else _NARROW
    high = (north - south + 2 * pad) / (east - west + 2 * pad) * (wide - _LEGEND) / len(tables)
    edges = _edges(np.concatenate([table.rows["difference"][table.rows["beyond_noise"]] for table in tables]))
    with matplotlib.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12, hspace=0.03, wspace=0.03)
        figure = Figure(figsize=(wide, min(max(high, _LOW), _HIGH) + _WORDS), layout=layout)
        for axis, table in zip(figure.subplots(1, len(tables), squeeze=False)[0], tables, strict=True):
            if land is not None:
                land.plot(ax=axis, color=_LAND, edgecolor="#d8d8d8", linewidth=0.35)
            _draw_panel(axis, placed, table, edges, about.say)
            frame_map(axis, (west - pad, south - pad, east + pad, north + pad), about.language)
        _finish(figure, about, tables, placed.index, edges)
        figure.savefig(path, dpi=DOTS, metadata=METADATA[".png"])
    return True


def _draw_panel(
    axis: Axes, placed: gpd.GeoDataFrame, table: ChangeTable, edges: NDArray[np.int64], say: Any
) -> None:
    """Colour each area by its class."""
    side = _side(table)
    rows = table.rows.set_index(side).reindex(placed.index)
    difference = rows["difference"].fillna(0).to_numpy().astype(np.int64)
    beyond = rows["beyond_noise"].eq(True).to_numpy()
    known = rows["difference"].notna().to_numpy()
    classes = np.where(beyond, np.sign(difference) * np.searchsorted(edges, np.abs(difference)), 0)
    same = (rows["low"].eq(0) & rows["high"].eq(0)).to_numpy()
    _draw_areas(axis, placed[~known], _BLANK)
    _draw_areas(axis, placed[same], _SAME)
    # Points may lie upon each other: those that changed most are on top.
    for number, style, _ in sorted(_classes(edges, say), key=lambda each: abs(each[0])):
        _draw_areas(axis, placed[known & ~same & (classes == number)], style)
    title_panel(axis, say.changed[side], say.areas_changed(table))


def _side(table: ChangeTable) -> str:
    """Return the column of the areas of a table."""
    return "home" if table.work is None else "work"


def _draw_areas(axis: Axes, areas: gpd.GeoDataFrame, style: dict[str, Any]) -> None:
    """Draw polygons, and areas that have none as points."""
    points = areas.geom_type == "Point"
    if not points.all():
        areas[~points].plot(ax=axis, edgecolor=_BORDER, linewidth=0.35, **style)
        if "hatch" in style:  # its colour is that of edges, which are drawn again
            areas[~points].boundary.plot(ax=axis, color=_BORDER, linewidth=0.35)
    if points.any():
        place = areas[points].geometry
        axis.scatter(place.x, place.y, s=_SIZE, edgecolors=_BORDER, linewidths=0.6, **style)


def _finish(
    figure: Figure, about: ChangeMap, tables: list[ChangeTable], placed: pd.Index, edges: NDArray[np.int64]
) -> None:
    """Add title, legend and what the colours mean."""
    single, say = len(tables) == 1, about.say
    classes = [(style, label) for _, style, label in reversed(_classes(edges, say))]
    classes.append((_SAME, say.no_change))
    if any(not placed.isin(table.rows[_side(table)]).all() for table in tables):
        classes.append((_BLANK, say.no_number))
    handles = [Patch(edgecolor=_BORDER, linewidth=0.5, label=label, **style) for style, label in classes]
    figure.legend(handles=handles, title=say.b_minus_a, loc="outside right center", frameon=False)
    title = say.change_title(singular(about.kind, about.language), *about.sides)
    title = wrapped(title, 76 if single else 110)
    figure.suptitle(title, x=0.015, ha="left", fontsize=11 if single else 12, fontweight="bold")
    unplaced = len({code for table in tables for code in table.rows[_side(table)]} - {*placed})
    source = wrapped(say.change_source(about.sides, unplaced), 100 if single else 170)
    figure.supxlabel(source, x=0.015, ha="left", fontsize=7.5, color="0.35")


def _classes(edges: NDArray[np.int64], say: Any) -> list[tuple[int, dict[str, Any], str]]:
    """Return number, style and words of each class, from fewest to most."""
    ends = list(zip((edges[:-1] + 1).tolist(), edges[1:].tolist(), strict=True))
    steps = _FEWER[-len(ends) :], _MORE[-len(ends) :]
    fewer, more = (
        [
            (sign * (i + 1), {"facecolor": colours[i]}, say.size_of_change(*end, sign))
            for i, end in enumerate(ends)
        ]
        for sign, colours in zip((-1, 1), steps, strict=True)
    )
    return [*reversed(fewer), (0, _WITHIN, say.within_noise), *more]


def _edges(differences: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return edges of classes of sizes: 0, and up to three of 1, 2, 5, 10 ...; none is larger."""
    most = int(np.abs(differences).max(initial=0))
    if not most:
        return np.zeros(1, np.int64)
    series = [step * 10**power for power in range(len(str(most)) + 1) for step in (1, 2, 5)]
    top = next(i for i, value in enumerate(series) if value >= most)
    return np.array([0, *series[max(0, top - _CLASSES + 1) : top + 1]], np.int64)


def _crs(placed: gpd.GeoDataFrame) -> CRS:
    """Return a metric, equal-area reference system with its centre in the middle of the areas."""
    west, south, east, north = placed.total_bounds
    return CRS.from_proj4(
        f"+proj=laea +lat_0={(south + north) / 2:.4f} +lon_0={(west + east) / 2:.4f} +datum=WGS84 +units=m"
    )
