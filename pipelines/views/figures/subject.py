"""What a figure shows: the commutes of an area, the units of a level on a map, and words for both."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import geopandas as gpd
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pyproj import CRS

from pipelines.config.languages import ENGLISH
from pipelines.release.pages import number
from pipelines.views.accuracy import noise_warning
from pipelines.views.flows import PAIR, add_travel
from pipelines.views.folder import PublicReleaseError
from pipelines.views.labels import ends_beyond, singular, unit_names
from pipelines.views.pages import phrases
from pipelines.views.release import Area, Release
from synth import decimal_up

Side = Literal["workers", "residents"]
_MOST_POINTS = 500  # units of a level that are told apart as points
_CORE = 0.95  # of the commutes lie inside the frame of a map, in each direction
_ASPECT = 1.25  # width of a map by its height
_LEAST_KM = 3.0


@dataclass(frozen=True, eq=False)
class FigureSubject:
    """The commutes of an area, ready to be drawn."""

    release: Release
    area: Area | None
    of: Side
    count: str
    chosen_level: str | None = None

    def __post_init__(self) -> None:
        if self.chosen_level is not None:
            self.release.check_level(self.chosen_level)
        if self.flows.empty:
            raise PublicReleaseError(f"there are no {self.of} of {self.place(ENGLISH)}: nothing can be drawn")

    @cached_property
    def flows(self) -> pd.DataFrame:
        """Jobs (above 0) by work and home block, with distances and directions (`add_travel`)."""
        block, near = self.release.levels[-1], "work" if self.far == "home" else "home"
        areas = {} if self.area is None else {near: self.area}
        flows = self.release.unit_flows(block, block, [self.count], areas=areas)
        flows = flows.rename(columns={self.count: "jobs"})
        return add_travel(flows[flows["jobs"] > 0].reset_index(drop=True), self._blocks, self._blocks)

    @cached_property
    def level(self) -> str:
        """Level of the units on the maps."""
        if self.chosen_level is not None:
            return self.chosen_level
        drawn = [level for level in self.release.levels if self.release.polygons(level) is not None]
        n_units = self.release.geography.n_units
        distinct = [level for level in self.release.levels if n_units(level) <= _MOST_POINTS]
        return self.release.worth_showing((drawn or distinct or self.release.levels[:1])[-1])

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """Flows between units of the level: columns work, home, jobs."""
        unit_of = self.release.geography.unit_of
        pairs = self.flows[[*PAIR, "jobs"]].assign(
            work=unit_of(self.level, self.flows["work"]), home=unit_of(self.level, self.flows["home"])
        )
        return pairs.groupby(PAIR, as_index=False).sum()

    @cached_property
    def jobs(self) -> pd.Series:
        """Jobs by unit of the level at the other end: where workers live, where residents work."""
        return self.pairs.groupby(self.far)["jobs"].sum()

    @property
    def far(self) -> str:
        """The other end of the commutes: "home" of workers, "work" of residents."""
        return "home" if self.of == "workers" else "work"

    @property
    def total(self) -> int:
        """Number of jobs."""
        return int(self.flows["jobs"].sum())

    # --- on the map

    @cached_property
    def crs(self) -> CRS:
        """A metric, equal-area reference system with its centre in the middle of the commutes."""
        blocks = self._blocks.iloc[pd.unique(self.flows[["home", "work"]].to_numpy().ravel())]
        middle = blocks[["latitude", "longitude"]].median()
        centre = f"+lat_0={middle['latitude']:.4f} +lon_0={middle['longitude']:.4f}"
        return CRS.from_proj4(f"+proj=laea {centre} +datum=WGS84 +units=m")

    @cached_property
    def places(self) -> NDArray[np.float64]:
        """Metres east and north of each unit of the level, shape (U, 2); NaN for external zones."""
        return self._metres(self.release.places(self.level))

    @cached_property
    def shapes(self) -> gpd.GeoDataFrame | None:
        """Shapes of the units of the level in `crs`, indexed by unit, where the release has them."""
        polygons = self.release.polygons(self.level)
        return None if polygons is None else polygons.set_index("unit").to_crs(self.crs)

    @cached_property
    def background(self) -> gpd.GeoDataFrame | None:
        """The shapes, or else those of the finest level that has any, in `crs`."""
        if self.shapes is not None:
            return self.shapes
        finest_first = (self.release.polygons(level) for level in reversed(self.release.levels))
        polygons = next((shapes for shapes in finest_first if shapes is not None), None)
        return None if polygons is None else polygons.set_index("unit").to_crs(self.crs)

    @cached_property
    def outline(self) -> gpd.GeoSeries | None:
        """Shape of the area in `crs`, where it can be made from shapes of its own or of a finer level."""
        if self.area is None:
            return None
        geography = self.release.geography
        for level in (self.area.level, self.level):
            polygons = self.release.polygons(level)
            if polygons is None or self.release.levels.index(level) < self.release.levels.index(
                self.area.level
            ):
                continue
            first = geography.starts(level)[polygons["unit"]]
            inside = polygons[geography.unit_of(self.area.level, first) == self.area.unit]
            if len(inside):
                return gpd.GeoSeries([inside.to_crs(self.crs).union_all()], crs=self.crs)
        return None

    @cached_property
    def centre(self) -> NDArray[np.float64] | None:
        """Metres east and north of the area."""
        if self.area is None:
            return None
        return self._metres(self.release.places(self.area.level).iloc[[self.area.unit]])[0]

    @cached_property
    def frame(self) -> tuple[float, float, float, float]:
        """West, south, east and north of the maps in metres: where nearly all commutes lie, and the area."""
        points, weight = self._far_points
        low, high = np.full(2, np.inf), np.full(2, -np.inf)
        for axis in (0, 1) if len(points) else ():
            order = np.argsort(points[:, axis])
            running = np.cumsum(weight[order]) / weight.sum()
            ends = np.searchsorted(running, [(1 - _CORE) / 2, (1 + _CORE) / 2])
            low[axis], high[axis] = points[order[np.minimum(ends, len(points) - 1)], axis]
        if self.outline is not None:
            bounds = self.outline.total_bounds
            low, high = np.minimum(low, bounds[:2]), np.maximum(high, bounds[2:])
        elif self.centre is not None and np.isfinite(self.centre).all():
            low, high = np.minimum(low, self.centre), np.maximum(high, self.centre)
        size = np.maximum((high - low) * 1.12, _LEAST_KM * 1000)
        size = np.maximum(size, [size[1] * _ASPECT, size[0] / _ASPECT])
        (west, south), (east, north) = (low + high - size) / 2, (low + high + size) / 2
        return float(west), float(south), float(east), float(north)

    @cached_property
    def beyond(self) -> float:
        """Share of the commutes whose other end is not inside the frame, or at no known place."""
        points, weight = self._far_points
        west, south, east, north = self.frame
        inside = (points > [west, south]).all(axis=1) & (points < [east, north]).all(axis=1)
        return 1.0 - float(weight[inside].sum()) / self.total

    # --- in words

    @property
    def language(self) -> str:
        """Language of the figure: that of the release."""
        return self.release.language

    @property
    def say(self) -> Any:
        """What Python puts together to texts, in this language."""
        return phrases(self.language)

    def number(self, text: str) -> str:
        """Return a number that is written as Python does as this language writes it."""
        return number(text, self.language)

    def percent(self, share: float, decimals: int = 0) -> str:
        """Return a share of one in percent."""
        return self.number(f"{100 * share:.{decimals}f}{self.say.percent_mark}")

    @property
    def share_of(self) -> str:
        """Whose commutes have a distance: all workers, or those with no end in an external zone."""
        placed = self.flows["jobs"][self.flows["km"].notna()].sum()
        share = "" if placed == self.total else self.percent(placed / self.total, 1)
        return str(self.say.share_of(share, ends_beyond(self.release.geography)))

    def place(self, language: str) -> str:
        """Return the area: its name, where the release has one, and its code."""
        say = phrases(language)
        if self.area is None:
            return str(say.whole_region)
        code = say.coded(singular(self.area.level, language), self.area.code)
        name = unit_names(self.release, self.area.level, np.array([self.area.unit]))[0]
        block = self.release.geography.starts(self.area.level)[self.area.unit]
        if block in self.release.geography.external_blocks and self.release.geography.nobody_lives[block]:
            return str(say.named_zone(name, code))
        return f"{name} ({code})" if name else str(code)

    @property
    def title(self) -> str:
        """What the figure shows, and how many."""
        meaning = self.release.counts_in(self.language)[self.count]
        title = self.say.figure_title(self.of, self.place(self.language))
        return f"{title}\n{self.say.figure_counted(self.total, meaning)}"

    @property
    def source(self) -> str:
        """Where it is from, with what guarantee."""
        certificate = self.release.certificate
        run = certificate.run
        epsilon, delta = (decimal_up(Fraction(str(x)), 3) for x in (run.epsilon, run.delta))
        words = self.say.figure_source(certificate, epsilon, delta)
        return " ".join(filter(None, [words, noise_warning(self.release, self.level, self.level)]))

    @cached_property
    def _blocks(self) -> pd.DataFrame:
        return self.release.places(self.release.levels[-1])

    @cached_property
    def _far_points(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Places of the other ends that have one, in metres, and the jobs at each."""
        jobs = self.flows.groupby(self.far)["jobs"].sum()
        points = self._metres(self._blocks.iloc[jobs.index.to_numpy()])
        placed = np.isfinite(points).all(axis=1)
        return points[placed], jobs.to_numpy()[placed]

    def _metres(self, places: pd.DataFrame) -> NDArray[np.float64]:
        points = gpd.GeoSeries.from_xy(places["longitude"], places["latitude"], crs="EPSG:4326").to_crs(
            self.crs
        )
        metres = np.column_stack([points.x, points.y])
        metres[places["latitude"].isna().to_numpy()] = np.nan
        return metres
