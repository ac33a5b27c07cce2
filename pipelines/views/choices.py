"""What can be asked of the views, and what they take where nothing is.

Without a library and without another room, so that the command line knows its options at once.
"""

from __future__ import annotations

FORMATS = {
    "lodes": ("OD (main, aux), RAC, WAC and crosswalk, as LODES", "any LODES program"),
    "csv": ("flows and zones with all counts, draws, blocks, names", "spreadsheets, R, pandas"),
    "geoparquet": ("zones with geometry, flows by code", "DuckDB, GeoPandas, QGIS"),
    "geopackage": ("zones, flows, shapes, blocks and names in one file", "QGIS, ArcGIS"),
    "flatgeobuf": ("zones and flow lines, read in part", "QGIS, web maps"),
    "geojson": ("zones and flow lines as text", "web maps, any GIS"),
    "pmtiles": ("zones as vector tiles in one file", "MapLibre, QGIS"),
    "omx": ("home x work matrices, one for each count", "ActivitySim, AequilibraE, openmatrix"),
    "activitysim": ("land use and flows that calibrate the choice of workplaces", "ActivitySim"),
    "matsim": ("a population with points of home and work", "MATSim"),
    "trips": ("a line from home to work for each worker, as odjitter makes", "routers, any GIS"),
    "flowmap": ("locations.csv, flows.csv and properties.csv", "flowmap.gl, flowmap.blue"),
    "kepler": ("a map with zones and arcs", "kepler.gl"),
}
"""Formats of exports: what each is for, in a line, and what opens it."""

YEARS = "years"
"""Format of several releases: a table of areas and one of flows, with a row for each year."""

KINDS = ("all", "choropleth", "flows", "rose", "distance")
"""Kinds of figures."""
