"""Which levels have polygons, and reading the files that a configuration names for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from geo_data.geography import Geography
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import PolygonTable, PublicGeographySettings

if TYPE_CHECKING:
    from geo_data.polygons import Polygons


def polygon_levels(geography: PublicGeographySettings) -> tuple[str, ...]:
    """Return the levels of which a release has polygons, coarsest first."""
    named = {table.level for table in geography.polygons}
    if geography.latitude is None:
        named.add(geography.block)
    return tuple(level for level in (*geography.levels, geography.block) if level in named)


def read_polygon_tables(config: ReleaseConfig, geography: Geography) -> dict[str, Polygons]:
    """Read the polygons that a configuration names."""
    from geo_data.polygons import read_polygons

    g = config.geography
    tables = {table.level: table for table in g.polygons}
    if g.latitude is None and g.block not in tables:
        tables[g.block] = PolygonTable.model_construct(level=g.block, file=g.file, code=g.block)
    return {
        level: read_polygons(table.file, geography, level=level, code=table.code, name=table.name)
        for level, table in tables.items()
    }
