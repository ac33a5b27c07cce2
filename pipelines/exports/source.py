"""What every export is made from: a public release at a pair of levels, and the words that go with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import geopandas as gpd
import numpy as np
import pandas as pd

from pipelines.polygons import polygon_file
from pipelines.public_release import PublicRelease, PublicReleaseError

__all__ = ["MOST_ZONES", "ExportError", "Source", "usual_level"]

MOST_ZONES = 20_000
"""Of a level that is chosen by default, and of a matrix: its reader needs 1.6 GB for each count."""

_WORKERS_PER_ZONE = 1_000  # about what a census tract has


class ExportError(PublicReleaseError):
    """An export that cannot be made: an unknown format, a file in its way, too many zones."""


def usual_level(release: PublicRelease) -> str:
    """Return the level at which a release is exported unless another is asked for.

    Parameters
    ----------
    release : PublicRelease

    Returns
    -------
    str
        The finest level with polygons; without polygons, the finest whose zones have 1,000 workers on
        average. Levels of more than `MOST_ZONES` zones are passed over; the coarsest is what remains.
    """
    fine_enough = [level for level in release.levels if release.geography.n_units(level) <= MOST_ZONES]
    with_shapes = [level for level in fine_enough if (release.folder / polygon_file(level)).is_file()]
    workers = release.certificate.totals.synthetic_workers
    large = [
        level for level in fine_enough if workers >= _WORKERS_PER_ZONE * release.geography.n_units(level)
    ]
    return [release.levels[0], *large, *with_shapes][-1]


@dataclass(frozen=True, eq=False)
class Source:
    """A release at a pair of levels; what several formats need is made once.

    Attributes
    ----------
    release : PublicRelease
    home_level, work_level : str
        Of ``release.levels``.
    """

    release: PublicRelease
    home_level: str
    work_level: str

    @property
    def counts(self) -> list[str]:
        """Columns that count jobs; S000 is the first."""
        return list(self.release.counts)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """All flows of the pair of levels, outside areas included, as `PublicRelease.flows` gives them."""
        return self.release.flows(self.home_level, self.work_level, self.counts)

    @cached_property
    def zones(self) -> dict[str, gpd.GeoDataFrame]:
        """Zones with their totals, by level: one level where homes and workplaces have the same, else two.

        A row for each unit, in order: ``code`` (text), ``home_<count>`` where homes have this level,
        ``work_<count>`` where workplaces have it (int64), and geometry, EPSG:4326: polygons where the release
        has them for the level, else points. None for outside areas and units without a shape.
        """
        return {level: self._zones(level) for level in dict.fromkeys([self.home_level, self.work_level])}

    @property
    def placed_zones(self) -> dict[str, gpd.GeoDataFrame]:
        """The same without those that have no geometry."""
        return {level: zones[zones.geometry.notna()] for level, zones in self.zones.items()}

    def _zones(self, level: str) -> gpd.GeoDataFrame:
        places = self.release.places(level)
        columns: dict[str, pd.Series] = {"code": places["code"]}
        for side, side_level in {"home": self.home_level, "work": self.work_level}.items():
            if level == side_level:
                totals = self.flows.groupby(side)[self.counts].sum().reindex(places.index, fill_value=0)
                columns |= {f"{side}_{name}": totals[name] for name in self.counts}
        shapes = self.release.polygons(level)
        if shapes is None:
            longitude = places["longitude"] - 360 * np.sign(places["longitude"]) * (
                places["longitude"].abs() > 180
            )
            geometry = gpd.GeoSeries.from_xy(longitude, places["latitude"])
            geometry[places["latitude"].isna()] = None
        else:
            geometry = shapes.set_index("unit").geometry.reindex(places.index)
        return gpd.GeoDataFrame(columns, geometry=geometry.array, crs="EPSG:4326")

    def flow_table(self) -> pd.DataFrame:
        """Return the flows with codes instead of numbers.

        Returns
        -------
        DataFrame
            The rows of `flows`: ``work`` and ``home`` (categorical, of text), and the counts (int64).
        """
        table = self.flows.copy()
        for side, level in {"work": self.work_level, "home": self.home_level}.items():
            codes = pd.Index(self.release.geography.codes(level), dtype="str")
            table[side] = pd.Categorical.from_codes(self.flows[side], categories=codes)
        return table

    def journeys(self) -> pd.DataFrame:
        """Return the flows that can be drawn as lines: both ends have a place, and not the same.

        Returns
        -------
        DataFrame
            Rows of `flow_table`, with ``home_longitude``, ``home_latitude``, ``work_longitude`` and
            ``work_latitude`` (degrees, WGS84) of the zones' points before the counts. Where a region crosses
            180 degrees, longitudes go on beyond, so that lines do not go round the earth.
        """
        table, ends = self.flow_table(), {}
        for side, level in {"home": self.home_level, "work": self.work_level}.items():
            places = self.release.places(level)
            for axis in ("longitude", "latitude"):
                ends[f"{side}_{axis}"] = places[axis].to_numpy()[self.flows[side]]
        for position, (name, values) in enumerate(ends.items(), start=2):
            table.insert(position, name, values)
        home, work = (
            table[[f"{side}_longitude", f"{side}_latitude"]].to_numpy() for side in ("home", "work")
        )
        drawn = np.isfinite(home).all(axis=1) & np.isfinite(work).all(axis=1) & (home != work).any(axis=1)
        return table[drawn].reset_index(drop=True)

    def not_drawn(self, table: pd.DataFrame) -> list[str]:
        """Say in words which workers have no line, if there are any.

        Parameters
        ----------
        table : DataFrame
            From `journeys`.

        Returns
        -------
        list of str
            A remark for the read-me, or none.
        """
        total, left_out = int(self.flows["S000"].sum()), int(self.flows["S000"].sum() - table["S000"].sum())
        where = "they live and work in the same zone, or live in an area outside that has no place on a map"
        return [f"{left_out:,} of {total:,} workers have no line: {where}."] if left_out else []

    def without_shape(self, what: str) -> list[str]:
        """Say in words which zones have no geometry, if there are any.

        Parameters
        ----------
        what : str
            What that means for them in a format, as in "are left out".

        Returns
        -------
        list of str
            A remark for the read-me for each level that has such zones.
        """
        remarks = []
        for level, zones in self.zones.items():
            bare = zones[zones.geometry.isna()]
            if len(bare):
                homes = (
                    f" Workers who live there: {bare['home_S000'].sum():,}." if "home_S000" in bare else ""
                )
                which = f"Zones of {level} that are outside areas or have no shape {what}"
                remarks.append(f"{which}: {len(bare):,} of {len(zones):,}.{homes}")
        return remarks

    def name(self, what: str, suffix: str) -> str:
        """Return the name of a file in the manner of LODES, such as ``ri_zones_trct_JT00_2019.fgb``.

        Parameters
        ----------
        what, suffix : str
            As ``zones_trct`` and ``fgb`` there.

        Returns
        -------
        str
        """
        subject = self.release.certificate.release
        return f"{subject.state}_{what}_{subject.job_type}_{subject.year}.{suffix}"

    @property
    def flows_name(self) -> str:
        """What a file of flows is called: ``flows_<home level>_to_<work level>``."""
        return f"flows_{self.home_level}_to_{self.work_level}"

    @property
    def about(self) -> dict[str, str]:
        """What belongs to every copy of the data, for formats that hold metadata."""
        certificate = self.release.certificate
        return {
            "title": certificate.release.name,
            "description": self.sentence,
            "epsilon": certificate.run.epsilon,
            "delta": certificate.run.delta,
            "plan_sha256": certificate.plan_sha256,
        }

    @property
    def sentence(self) -> str:
        """The same as `about` in one sentence."""
        certificate = self.release.certificate
        status = "" if certificate.for_release else "NOT FOR RELEASE. "
        return (
            f"{status}Synthetic workers: no row is a real person. {certificate.release.name}; epsilon "
            f"{certificate.run.epsilon}, delta {certificate.run.delta}, plan {certificate.plan_sha256}."
        )
