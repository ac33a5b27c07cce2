"""The picture of a release: where workers live, and the largest commutes, as one SVG image.

A site shows it on the page of the release, and a map until it is drawn, or where it cannot be. It has no
styles, no scripts and no background, so that the strictest policy lets it pass; its colours can be told from
light and from dark paper alike.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import shapely
from numpy.typing import NDArray

from pipelines.config.languages import ENGLISH
from pipelines.release.polygons import polygon_file
from pipelines.views.labels import plural
from pipelines.views.maps.shapes import level_shapes
from pipelines.views.pages import map_phrases
from pipelines.views.release import Release

_SIDE = 720  # units of the longer side
_MOST_AREAS, _MOST_POINTS = 2_000, 300  # that can be told apart
_COMMUTES = 50
_AREA, _FLOW = "#2f81c8", "#d86f0a"  # 3:1 and more on white and on the page's dark
_SHADES = (0.1, 0.24, 0.42, 0.66, 0.95)  # opacities, of a fifth of the areas each
_WIDEST, _THINNEST = 6.0, 0.6
_LARGEST = 22.0  # radius


def draw_picture(release: Release) -> str:
    """Return the picture."""
    level, shaped = _level(release)
    places, flows = release.places(level), release.unit_flows(level, level)
    points = places[["longitude", "latitude"]].to_numpy()
    jobs = np.bincount(flows["home"], flows["S000"], len(places)).astype(np.int64)
    shapes, units = _shapes(release, level) if shaped else (None, np.flatnonzero(np.isfinite(points[:, 0])))
    plane = _Plane(points[units] if shapes is None else shapely.get_coordinates(shapes))
    if shapes is None:
        drawn = _circles(plane.of(points[units]), jobs[units])
    else:
        drawn = _filled(plane, shapes, jobs[units])
    flows = flows[flows["home"] != flows["work"]].sort_values("S000", ascending=False, kind="stable")
    homes, works = (plane.of(points[flows[side]]) for side in ("home", "work"))
    shown = np.flatnonzero(np.isfinite(homes + works).all(axis=1))[:_COMMUTES]
    lines = _lines(homes[shown], works[shown], flows["S000"].to_numpy()[shown])
    width, height = plane.size
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, *drawn, *lines, "</svg>\n"])


def picture_words(release: Release, language: str = ENGLISH) -> str:
    """Say what is seen in the picture of a release."""
    level, shaped = _level(release)
    phrase: str = map_phrases(language)["data"]["picture_of_shapes" if shaped else "picture_of_circles"]
    return phrase.format(many=plural(level, language))


def _level(release: Release) -> tuple[str, bool]:
    """The finest level whose areas can be told apart, and whether they have shapes."""
    size = release.geography.n_units
    with_parts = [
        level
        for number, level in enumerate(release.levels)
        if any((release.public / polygon_file(finer)).is_file() for finer in release.levels[number:])
    ]
    shaped = [level for level in with_parts if size(level) <= _MOST_AREAS]
    if shaped:
        return shaped[-1], True
    return [release.levels[0], *(level for level in release.levels if size(level) <= _MOST_POINTS)][-1], False


def _shapes(release: Release, level: str) -> tuple[NDArray[np.object_], NDArray[np.intp]]:
    frame = level_shapes(release, [level])[level]
    west, south, east, north = frame.total_bounds
    simple = shapely.coverage_simplify(
        np.asarray(frame.geometry.array), max(east - west, north - south) / _SIDE
    )
    return simple, frame["unit"].to_numpy()


class _Plane:
    """Degrees as units of the picture; a degree of longitude is as much shorter as in the middle of all."""

    def __init__(self, points: NDArray[np.float64]) -> None:
        low, high = (points.min(axis=0), points.max(axis=0)) if len(points) else np.zeros((2, 2))
        self.squeeze = float(np.cos(np.radians((low[1] + high[1]) / 2)))
        extent = np.maximum((high - low) * [self.squeeze, 1], 1e-3)
        self._scale, self._corner = _SIDE / extent.max(), np.array([low[0], high[1]])
        self._margin = _LARGEST
        self.size = tuple(int(side) for side in np.ceil(extent * self._scale + 2 * self._margin))

    def of(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return x and y."""
        return (points - self._corner) * [self.squeeze, -1] * self._scale + self._margin


def _filled(plane: _Plane, shapes: NDArray[np.object_], jobs: NDArray[np.int64]) -> Iterable[str]:
    """Areas, those of a fifth together."""
    density = jobs / np.maximum(shapely.area(shapes), 1e-12)
    rank = np.zeros(len(jobs), int)
    rank[np.argsort(density, kind="stable")] = np.arange(len(jobs))
    shade = rank * len(_SHADES) // max(len(jobs), 1)
    yield f'<g fill="{_AREA}" fill-rule="evenodd" stroke="{_AREA}" stroke-opacity=".45" stroke-width=".5">'
    for number, opacity in enumerate(_SHADES):
        rings = shapely.get_rings(shapely.get_parts(shapes[shade == number]))
        paths = (_path(plane.of(shapely.get_coordinates(ring))) for ring in rings)
        yield f'<path fill-opacity="{opacity}" d="{"".join(paths)}"/>'
    yield "</g>"


def _path(points: NDArray[np.float64]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points[:-1]) + "Z"


def _circles(points: NDArray[np.float64], jobs: NDArray[np.int64]) -> Iterable[str]:
    yield f'<g fill="{_AREA}" fill-opacity=".5" stroke="{_AREA}">'
    for (x, y), radius in zip(points, _LARGEST * np.sqrt(jobs / max(jobs.max(initial=0), 1)), strict=True):
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
    yield "</g>"


def _lines(homes: NDArray[np.float64], works: NDArray[np.float64], jobs: NDArray[np.int64]) -> Iterable[str]:
    """Curves from home to work, bent to the right, as wide as there are jobs; the largest on top."""
    yield f'<g fill="none" stroke="{_FLOW}" stroke-opacity=".8" stroke-linecap="round">'
    middles = (homes + works) / 2 + (works - homes)[:, ::-1] * [-0.18, 0.18]
    widths = np.maximum(_WIDEST * jobs / max(jobs.max(initial=0), 1), _THINNEST)
    points = np.hstack([homes, middles, works])
    for (x, y, mx, my, to_x, to_y), width in list(zip(points, widths, strict=True))[::-1]:
        curve = f"M{x:.1f} {y:.1f}Q{mx:.1f} {my:.1f} {to_x:.1f} {to_y:.1f}"
        yield f'<path stroke-width="{width:.1f}" d="{curve}"/>'
    yield "</g>"
