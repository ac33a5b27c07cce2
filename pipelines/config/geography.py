"""The section of a release configuration that names the public geography."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pipelines.config.fields import Groupings, InputPath, LevelName, LevelNames, Line, NameColumns, Names
from pipelines.config.sections import Section

__all__ = ["Geography", "PolygonTable"]


class PolygonTable(Section):
    """A public file of the shapes of the units of a level, kept in the release for maps.

    Attributes
    ----------
    level : str
        The level of the geography.
    file : Path
        The file, in any format that GDAL reads, or GeoParquet.
    code : str
        Column of the unit's code.
    name : str or None
        Column of the unit's name; these names are kept instead of the crosswalk's.
    """

    level: Line
    file: InputPath
    code: Line
    name: Line | None = None


class Geography(Section):
    """The public geography: one row per block.

    Attributes
    ----------
    file : Path
        The crosswalk.
    block : str
        Column of the block's code. Files are named after it and after the levels: no slash or backslash in
        it, and no dot first.
    levels : tuple of str
        Columns of the hierarchy above the block, coarsest first; may be empty. The same holds for them.
    latitude, longitude : str or None
        Columns of the block's centroid, in degrees; None where the file has geometry.
    outside : tuple of str
        Outside areas in which workers may live, as prefixes of geocodes; "us-states" stands for all states of
        the United States of which the crosswalk has no block.
    groupings : dict of str to int
        Levels that are no columns of the crosswalk: the number of parts into which each unit of the next
        coarser level is divided by place.
    partitions : tuple of str
        Columns of the crosswalk with areas that need not nest with the levels, such as places; auxiliary
        tables may be of them.
    names : dict of str to str or None
        Columns of the names of units, by level: names are kept in the release for maps. Without this key,
        each level's column with "name" behind it where the file has one, as in LODES; {} for no names.
    polygons : tuple of PolygonTable
        Shapes of the units of levels; those of the blocks are in `file` where that has geometry.
    """

    file: InputPath
    block: LevelName
    levels: LevelNames
    latitude: Line | None = None
    longitude: Line | None = None
    outside: Names = ()
    groupings: Groupings = Field(default_factory=dict)
    partitions: Names = ()
    names: NameColumns | None = None
    polygons: Annotated[tuple[PolygonTable, ...], Field(strict=False)] = ()
