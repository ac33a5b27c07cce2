"""Shapes of areas that have none of their own, put together from those of their parts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import geopandas as gpd

from pipelines.views.release import Release

_GRID = (
    1e-6  # of a degree, a tenth of a metre: neighbours whose borders differ by less have no gap between them
)


def with_coarser(
    release: Release, polygons: Mapping[str, gpd.GeoDataFrame], levels: Collection[str]
) -> dict[str, gpd.GeoDataFrame]:
    """Return the shapes of levels: their own, else put together from the next finer level that has any.

    In the same form, by level, finest first; levels that have no shapes, nor have their parts, are left out.
    """
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
