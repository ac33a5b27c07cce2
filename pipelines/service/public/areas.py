"""Areas of a release at a level: codes, names, places, shapes, and how many live and work in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray
from shapely import MultiPolygon

from pipelines.service.public.flow_queries import FlowQuestion, FlowTables, Int64, flow_batches, select
from pipelines.views.labels import unit_names
from pipelines.views.maps.shapes import level_shapes
from pipelines.views.release import Release

_DECIMALS = 6  # of a degree: a tenth of a metre
_MOST_COUNTED = 5_000_000  # rows of a table of flows


@dataclass(frozen=True, eq=False)
class Areas:
    """The areas of a level, in the order of the geography."""

    level: str
    # A row for each: ``code``, ``name`` (null where there is none), ``external``, ``longitude`` and
    # ``latitude`` (null for external zones), ``home_S000`` and ``work_S000`` (who lives, and who works
    # there, in the first synthetic data set)
    table: pa.RecordBatch
    _points: NDArray[np.float64]

    @property
    def codes(self) -> pa.Array:
        """Codes, as text."""
        return self.table.column("code")

    def points(self, units: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return longitude and latitude of some of them, of shape (n, 2); NaN without a place."""
        return self._points[units]

    def column(self, name: str, units: NDArray[np.integer]) -> pa.Array:
        """Return a column of `table` for some of them."""
        return self.table.column(name).take(pa.array(units))


def read_areas(release: Release, tables: FlowTables, level: str) -> Areas:
    """Read the areas of a level."""
    places, geography = release.places(level), release.geography
    points = np.round(places[["longitude", "latitude"]].to_numpy(), _DECIMALS)
    names = unit_names(release, level)
    # An area that cuts across levels may gather external zones; none has other blocks beside them.
    external = np.isin(np.arange(len(places)), geography.unit_of(level, geography.external_blocks))
    columns: dict[str, Any] = {
        "code": pa.array(places["code"], pa.string()),
        "name": pa.array([name or None for name in names], pa.string()),
        "external": pa.array(external),
        "longitude": pa.array(points[:, 0], from_pandas=True),
        "latitude": pa.array(points[:, 1], from_pandas=True),
    }
    jobs = area_jobs(release, tables, level, "S000")
    columns |= {f"{side}_S000": pa.array(counts) for side, counts in zip(("home", "work"), jobs, strict=True)}
    return Areas(level, pa.RecordBatch.from_pydict(columns), points)


def area_jobs(release: Release, tables: FlowTables, level: str, count: str) -> tuple[Int64, Int64]:
    """Return how many jobs have their homes, and their workplaces, in each area of a level."""
    coarsest, jobs = release.levels[0], []
    for side, question in (
        ("home", FlowQuestion(work_level=coarsest, home_level=level, attributes=(count,))),
        ("work", FlowQuestion(work_level=level, home_level=coarsest, attributes=(count,))),
    ):
        total = np.zeros(release.geography.n_units(level), np.int64)
        for flows in flow_batches(tables, select(release, question)):
            np.add.at(total, flows.units[side], flows.counts[0])  # type: ignore[index]
        jobs.append(total)
    homes, works = jobs
    return homes, works


def joined(homes: NDArray[np.float64], works: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say between which pairs of points, of shape (n, 2), a line can be drawn: both are there, and differ."""
    return np.asarray(np.isfinite(homes + works).all(axis=1) & (homes != works).any(axis=1))


def count_lines(release: Release, tables: FlowTables, areas: Areas) -> int | None:
    """Return how many flows between areas have a line; None where counting would take seconds."""
    selection = select(release, FlowQuestion(work_level=areas.level, home_level=areas.level))
    if tables.open(selection).n_rows > _MOST_COUNTED:
        return None
    return sum(
        int(joined(*(areas.points(flows.units[side]) for side in ("home", "work"))).sum())
        for flows in flow_batches(tables, selection)
    )


@dataclass(frozen=True, eq=False)
class Shapes:
    """Shapes of the areas of a level, None where an area has no place.

    Polygons as the release has them, all of several parts each; for a level without its own, put together
    from simplified ones of a finer level; without any, and for areas that cut across levels, the point in the
    middle of its blocks.
    """

    shapes: NDArray[np.object_]
    kind: str

    @classmethod
    def of(cls, release: Release, areas: Areas) -> Shapes:
        """Read them."""
        polygons = release.polygons(areas.level)
        if polygons is None and areas.level in release.levels:
            polygons = level_shapes(release, [areas.level]).get(areas.level)
        shapes = np.full(len(areas.codes), None, object)
        if polygons is None:
            points = areas.points(np.arange(len(shapes)))
            placed = np.isfinite(points).all(axis=1)
            shapes[placed] = shapely.points(points[placed])
            return cls(shapes, "point")
        within = (polygons["unit"] >= 0).to_numpy()
        rounded = shapely.transform(
            np.asarray(polygons.geometry.array[within], object), lambda xy: np.round(xy, _DECIMALS)
        )
        # All of one kind, for programs that take the kind of a layer from its first shapes.
        single = shapely.get_type_id(rounded) == shapely.GeometryType.POLYGON
        rounded[single] = [MultiPolygon([shape]) for shape in rounded[single]]
        shapes[polygons["unit"][within]] = rounded
        return cls(shapes, "polygon")

    def bounds(self) -> tuple[float, float, float, float]:
        """Return west, south, east and north of all."""
        west, south, east, north = shapely.total_bounds(self.shapes)
        return float(west), float(south), float(east), float(north)

    @cached_property
    def _tree(self) -> shapely.STRtree:
        return shapely.STRtree(self.shapes)

    def within(self, box: shapely.Polygon) -> NDArray[np.intp]:
        """Return which of them have a point in common with a box."""
        return np.sort(self._tree.query(box, predicate="intersects"))
