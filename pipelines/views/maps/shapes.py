"""Where a map draws areas, simplified together so that neighbours still fit, and zones, on a ring."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import geopandas as gpd
import numpy as np
import shapely
from numpy.typing import NDArray

from geo_data.distance import bearing
from pipelines.views.release import Release

Float64 = NDArray[np.float64]

_MARGIN = 0.12  # of the ring around the region, as a part of its larger side
_FULL = 0.6  # of the ring that many zones may fill; the rest lets them be nearer to their directions
_ROOMY = 16  # so many zones and fewer are never closer than this part of the ring

# Detail finer than this part of the region's extent is left out: half a pixel of a large screen.
_DETAIL = 1 / 5000
_BORDER_DETAIL = 1 / 2000  # the same of borders halfway between centroids, which are no finer
_DECIMALS = 5  # of a degree: about a metre
# Of a degree, a tenth of a metre: neighbours whose borders differ by less have no gap between them.
_GRID = 1e-6
MOST_CELLS = 50_000  # from which cells are made; they take a second for every 10,000
_MOST_DRAWN = 3_000  # cells of a level; of more, points show more


def level_shapes(release: Release, levels: Sequence[str]) -> dict[str, gpd.GeoDataFrame]:
    """Return ``unit`` and geometry, simplified, of the levels that have shapes or whose parts have them."""
    polygons = {level: release.polygons(level) for level in release.levels}
    simplified = {
        level: _simplified(_unbroken(release, shapes[shapes["unit"] >= 0]))
        for level, shapes in polygons.items()
        if shapes is not None
    }
    return with_coarser(release, simplified, levels)


def centroid_cells(
    release: Release, levels: Sequence[str], most_drawn: int = _MOST_DRAWN
) -> dict[str, gpd.GeoDataFrame]:
    """Return cells around centroids, for a release without polygons, of levels of few enough areas.

    A place belongs to the area of the nearest centroid (Voronoi) in reach: these are not the true borders.
    """
    n_units = {level: release.geography.n_units(level) for level in levels}
    small = [level for level in levels if n_units[level] <= MOST_CELLS]
    drawn = [level for level in levels if n_units[level] <= most_drawn]
    if not drawn:
        return {}
    cells = _Cells(release, small[-1])
    shapes = with_coarser(release, {small[-1]: cells.whole}, drawn)
    return {level: cells.clipped(whole) for level, whole in shapes.items()}


def layer_shapes(
    release: Release, level: str, area_of: Mapping[str, NDArray[np.int32]]
) -> dict[str, gpd.GeoDataFrame]:
    """Return the areas of layers, as ``unit`` and geometry: of each unit of a level their number says, or -1.

    They have no shapes of their own: they are drawn around the centroids that they hold, to the borders of
    the region where it has any.
    """
    cells = _Cells(release, level, level_shapes(release, release.levels[:1]).get(release.levels[0]))
    found = {}
    for name, area in area_of.items():
        numbers = area[cells.whole["unit"]]
        inside = cells.whole[numbers >= 0].assign(area=numbers[numbers >= 0])
        together = inside.groupby("area")["geometry"].agg(shapely.coverage_union_all)
        simple = shapely.coverage_simplify(together.to_numpy(), cells.side * _BORDER_DETAIL)
        found[name] = cells.clipped(gpd.GeoDataFrame({"unit": together.index}, geometry=simple))
    return found


class _Cells:
    """What is nearest to the centroid of each unit of a level, as far as there is land."""

    def __init__(self, release: Release, level: str, region: gpd.GeoDataFrame | None = None) -> None:
        places = release.places(level).dropna().drop_duplicates(["latitude", "longitude"])
        # Degrees of longitude are shorter than those of latitude: the plane is squeezed while cells are made.
        self._squeeze = np.cos(np.radians(places["latitude"].mean()))
        centroids = shapely.points(places["longitude"] * self._squeeze, places["latitude"])
        if region is None:
            reach = _neighbourhood(centroids)
            self._land = shapely.union_all(shapely.buffer(centroids, 1.5 * reach)).buffer(-reach / 2)
        else:
            land = shapely.union_all(np.asarray(region.geometry.array))
            self._land = shapely.transform(land, lambda xy: xy * [self._squeeze, 1])
        west, south, east, north = self._land.bounds
        self.side = max(east - west, north - south)
        cells = np.array([self._land])
        if len(centroids) > 1:
            around = shapely.box(west, south, east, north)
            diagram = shapely.voronoi_polygons(shapely.multipoints(centroids), extend_to=around, ordered=True)
            cells = shapely.get_parts(diagram)
        self.whole = gpd.GeoDataFrame({"unit": places.index.to_numpy()}, geometry=cells)

    def clipped(self, whole: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
        """Return shapes made of these, on land: last, as only whole ones share their borders exactly."""
        inside = shapely.intersection(np.asarray(whole.geometry.array), self._land)
        unsqueezed = shapely.transform(inside, lambda xy: xy / [self._squeeze, 1])
        return gpd.GeoDataFrame({"unit": whole["unit"]}, geometry=unsqueezed, crs="EPSG:4326")


def with_coarser(
    release: Release, polygons: Mapping[str, gpd.GeoDataFrame], levels: Collection[str]
) -> dict[str, gpd.GeoDataFrame]:
    """Return the shapes of levels: their own, else put together from the next finer level that has any."""
    geography = release.geography
    dissolved: dict[str, gpd.GeoDataFrame] = {}
    latest: tuple[str, gpd.GeoDataFrame] | None = None
    for level in reversed(release.levels):
        if level in polygons:
            latest = level, polygons[level]
        elif latest is not None:
            finer, shapes = latest
            unit = geography.unit_of(level, geography.starts(finer)[shapes["unit"]])
            together = shapes.assign(unit=unit).dissolve("unit", grid_size=_GRID)
            latest = level, together.reset_index()[["unit", "geometry"]]
        if latest is not None and level in levels:
            dissolved[level] = latest[1]
    return dissolved


def ring_places(
    latitude: Float64, longitude: Float64, weight: Float64, bounds: tuple[float, float, float, float]
) -> Float64:
    """Place external zones around a region."""
    west, south, east, north = bounds
    middle = ((south + north) / 2, (west + east) / 2)
    squeeze = np.cos(np.radians(middle[0]))  # of a degree of longitude
    box = shapely.box(west * squeeze, south, east * squeeze, north)
    margin = max(_MARGIN * max((east - west) * squeeze, north - south), 0.01)
    ring = shapely.LineString(box.buffer(margin).exterior.coords)
    if np.isfinite(latitude).all():
        centre = np.array([middle[1] * squeeze, middle[0]])
        turn = np.radians(bearing(*middle, latitude, longitude))
        ends = centre + 10 * ring.length * np.column_stack([np.sin(turn), np.cos(turn)])
        rays = shapely.linestrings([[centre, end] for end in ends])
        position = _apart(
            shapely.line_locate_point(ring, shapely.intersection(rays, ring)), weight, ring.length
        )
    else:
        position = np.arange(latitude.size) * (ring.length / max(1, latitude.size))
    x, y = shapely.get_coordinates(shapely.line_interpolate_point(ring, position % ring.length)).T
    return np.column_stack([x / squeeze, y])


def _apart(direction: Float64, weight: Float64, length: float) -> Float64:
    """Return places on a ring, as near to those wanted as can be, in their order, with room between them."""
    from scipy.optimize import isotonic_regression  # takes its time

    n = direction.size
    order = np.argsort(direction, kind="stable")
    gaps = np.diff(np.append(direction[order], direction[order[:1]] + length))
    order = np.roll(order, -1 - int(np.argmax(gaps)))  # the ring is cut open where it is emptiest
    line = direction[order] + np.where(direction[order] < direction[order[0]], length, 0.0)
    for room in (min(length / _ROOMY, _FULL * length / n), length / n):
        steps = room * np.arange(n)
        position = isotonic_regression(line - steps, weights=weight[order]).x + steps
        if position[-1] - position[0] <= length - room * (1 - 1e-9):
            break
    else:
        position = steps + np.average(line - steps, weights=weight[order])
    result = np.empty(n)
    result[order] = position
    return result


def geojson(shapes: gpd.GeoDataFrame) -> dict[str, Any]:
    """Return the shapes of a level as GeoJSON, rounded to about a metre; the id of a feature is its unit."""
    # Corners that are shared stay shared: equal numbers are rounded alike.
    rounded = shapely.transform(np.asarray(shapes.geometry.array), lambda xy: np.round(xy, _DECIMALS))
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "id": int(unit),
                "properties": {},
                "geometry": shapely.geometry.mapping(shape),
            }
            for unit, shape in zip(shapes["unit"], rounded, strict=True)
            if not shape.is_empty
        ],
    }


def _unbroken(release: Release, shapes: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    def moved(xy: Float64) -> Float64:
        return np.column_stack([release.unbroken(xy[:, 0]), xy[:, 1]])

    return shapes.set_geometry(shapes.geometry.transform(moved))


def _simplified(shapes: gpd.GeoDataFrame) -> gpd.GeoDataFrame:
    west, south, east, north = shapes.total_bounds
    detail = max(east - west, north - south) * _DETAIL
    # All at once: a border that two areas share stays one line (Visvalingam-Whyatt on the whole coverage).
    simple = shapely.coverage_simplify(np.asarray(shapes.geometry.array), detail)
    return shapes.set_geometry(gpd.GeoSeries(simple, index=shapes.index, crs=shapes.crs))


def _neighbourhood(centroids: np.ndarray) -> float:
    """Three times the usual distance to the nearest other centroid, which closes gaps inside a town."""
    if len(centroids) < 2:
        return 0.01
    tree = shapely.STRtree(centroids)
    _, distance = tree.query_nearest(centroids, exclusive=True, all_matches=False, return_distance=True)
    return 3 * float(np.quantile(distance, 0.9))
