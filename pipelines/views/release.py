"""A published release, opened: what maps, exports, figures, evaluation and the service are made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow.dataset as ds
from numpy.typing import NDArray
from pydantic import ValidationError

import geo_data
from geo_data.arguments import PathLike, path_of
from pipelines.config.fields import check_level_name
from pipelines.config.languages import ENGLISH
from pipelines.config.loading import PublicConfig
from pipelines.plans.accuracy import ExpectedAccuracy, ExpectedTable
from pipelines.plans.form import quoted_config, read_document
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_geography, load_plan
from pipelines.release.accuracy import ACCURACY_FILE, read_accuracy
from pipelines.release.certificate import Certificate, parse_certificate
from pipelines.release.corrections import CORRECTION_FILE, UNCORRECTED, Corrections, read_corrections
from pipelines.release.description import (
    MEASUREMENT_FOLDER,
    Attribute,
    ReleaseDescription,
    attributes_of,
    count_meanings,
    describe_release,
    file_names,
)
from pipelines.release.intervals import INTERVALS_FILE
from pipelines.release.layout import not_public, version_name
from pipelines.release.names import NAME_FILE, read_names
from pipelines.release.polygons import polygon_file
from pipelines.release.verification import VerificationReport, verify
from pipelines.release.workplaces import drawn_plan
from pipelines.storage.checksums import CHECKSUMS, sha256_of
from pipelines.storage.progress import Progress
from pipelines.views.flows import flow_batches, with_codes
from pipelines.views.folder import WHOLE_COPY, PublicReleaseError, blame_release, not_as_released
from pipelines.views.labels import unit_names
from pipelines.views.search import areas_like

if TYPE_CHECKING:
    from pipelines.views.figures.subject import Side
    from pipelines.views.intervals.reading import PosteriorDraws
    from pipelines.views.maps.backdrop import Backdrop

_MOST_ZONES = 20_000
"""Of a level that is chosen by default: who loads a matrix of so many needs 1.6 GB for each count."""

_WORKERS_PER_ZONE = 1_000  # about what a census tract has


@dataclass(frozen=True)
class Area:
    """A unit of a level of a release: its level, its number there, and its code."""

    level: str
    unit: int
    code: str


@dataclass(frozen=True, eq=False)
class Release:
    """A release, opened by `open_release` or just made by `run`; what is in it is read when asked for.

    Attributes
    ----------
    public : Path
        Its public folder, which may be published. Nothing else is read.
    implicate : int
        Which of its synthetic data sets rows and flows are of; the first has number 1.
    """

    public: Path
    implicate: int = 1

    def __repr__(self) -> str:
        which = f", implicate {self.implicate} of {self.implicates}" if self.implicates > 1 else ""
        return f"<Release: {self.certificate!r}; levels {', '.join(self.levels)}{which}; in {self.public}>"

    @classmethod
    def just_made(cls, public: Path, plan: ReleasePlan) -> Release:
        """Return a release whose plan is in memory, and need not be read again."""
        release = cls(public)
        vars(release)["plan"] = plan  # where `cached_property` keeps it
        return release

    # --- what it says of itself

    @property
    def out(self) -> Path:
        """The folder around the public one; where the release was made, ``confidential`` is in it too."""
        return self.public.resolve().parent

    @cached_property
    def certificate(self) -> Certificate:
        """What was promised about privacy, with the title of the release, which may have been corrected."""
        return self.corrections.certificate(self.stated)

    @cached_property
    def stated(self) -> Certificate:
        """The certificate as it stands in the folder, which no correction changes."""
        path = self._present("certificate.json")
        try:
            return parse_certificate(path.read_bytes())
        except ValidationError as error:
            rule = "this is not a certificate of this program"
            raise PublicReleaseError(f"{path}: {rule}. Fix: {WHOLE_COPY}") from error
        except ValueError as error:  # which names the file
            raise not_as_released(path.parent, error) from error

    @cached_property
    def plan_document(self) -> dict[str, Any]:
        """The plan.json of the release."""
        certificate, path = self.stated, self._present("plan/plan.json")
        with blame_release(path):
            try:
                document = read_document(path.parent)
                _check_names(certificate, document)
            except ValueError as error:  # which names the file
                raise not_as_released(path.parent, error) from error
        return document

    @cached_property
    def geography(self) -> geo_data.Geography:
        """Its blocks; the external zones are among them."""
        document = self.plan_document
        with blame_release(self.public / "plan" / "blocks.parquet"):
            return load_geography(self.public / "plan", document)

    @cached_property
    def plan(self) -> ReleasePlan:
        """The whole plan, which may be large, with the slots that the release has."""
        try:
            plan = drawn_plan(self.public, load_plan(self.public / "plan", self.plan_document))
        except (ValueError, OSError) as error:  # a plan is public: nothing is withheld
            raise not_as_released(self.public / "plan", error) from error
        return self.corrections.plan(plan)

    @property
    def name(self) -> str:
        """What it is called."""
        return self.certificate.release.name

    @property
    def title(self) -> str:
        """Its name with its year."""
        return self.certificate.release.title

    @property
    def year(self) -> int:
        """The year of its jobs."""
        return self.certificate.release.year

    @property
    def language(self) -> str:
        """Language in which it speaks to its readers, as its configuration names it: "en" or "de"."""
        return self.config.release.language

    @property
    def licence(self) -> str | None:
        """The licence of the data; None where its configuration names none."""
        return self.config.release.licence

    @property
    def citation(self) -> str:
        """How to cite it."""
        return self.description.citation

    @property
    def version(self) -> str:
        """What `publish` calls this content, unless its publisher gives it another name."""
        return version_name(self.certificate.release, self.content_sha256)

    @property
    def content_sha256(self) -> str:
        """The hash of all its content: that of its file of checksums, hexadecimal."""
        path = self.public / CHECKSUMS
        with blame_release(path):
            try:
                return sha256_of(path)
            except FileNotFoundError as error:
                raise ValueError("there is no such file") from error

    @property
    def implicates(self) -> int:
        """How many synthetic data sets the release has."""
        return self.certificate.implicates.number

    @property
    def levels(self) -> tuple[str, ...]:
        """Levels at which flows can be asked for, coarsest first; the last is the block."""
        return (*self.geography.levels, self.geography.block_level)

    @property
    def kinds_of_areas(self) -> tuple[str, ...]:
        """`levels`, and then kinds of areas that cut across them: towns, ZIP code areas."""
        return (*self.levels, *self.geography.non_nesting_areas)

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Categories of each attribute of the jobs."""
        return {name: tuple(values) for name, values in self.plan_document["attributes"].items()}

    @property
    def counts(self) -> dict[str, str]:
        """Columns that count jobs, in the order of the files, each with its meaning; S000 is the first."""
        return self.counts_in(ENGLISH)

    def counts_in(self, language: str) -> dict[str, str]:
        """Return `counts` with their meanings in a language, "en" or "de"."""
        return count_meanings(self.categories, self.config.attribute, language)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What the attributes of the jobs mean, with units and labels of their codes."""
        return attributes_of(self.categories, self.config.attribute)

    @cached_property
    def description(self) -> ReleaseDescription:
        """What the release says about itself: title, licence, contact, citation, its tables and columns."""
        return self.description_in(ENGLISH)

    def description_in(self, language: str) -> ReleaseDescription:
        """Return `description` in a language, "en" or "de"."""
        measured = any((self.public / MEASUREMENT_FOLDER).rglob("table-1.parquet"))
        choices = self.plan_document["choices"]
        about = describe_release(
            self.certificate,
            self.config,
            self.categories,
            self.geography,
            named=(self.public / NAME_FILE).is_file(),
            drawn=(self.public / INTERVALS_FILE).is_file(),
            pooled_by=self.plan_document["pooling"]["by"],
            workplaces=choices["workplaces"],
            homes=choices["tables"] if measured else None,
            language=language,
        )
        return self.corrections.description(about)

    @cached_property
    def accuracy(self) -> ExpectedAccuracy | None:
        """How far its numbers are expected to be from the truth; None where that was not forecast."""
        with blame_release(self.public / ACCURACY_FILE):
            return read_accuracy(self.public, self.certificate.plan_sha256)

    @property
    def expected_tables(self) -> tuple[ExpectedTable, ...]:
        """What is expected of each of its tables; none where that was not forecast."""
        return () if self.accuracy is None else tuple(self.accuracy.tables)

    @property
    def noisy_levels(self) -> list[str]:
        """Levels between whose units flows are noise, as far as that was forecast."""
        return [] if self.accuracy is None else self.accuracy.noisy_levels

    def verify(self, key: PathLike | None = None) -> VerificationReport:
        """Check the public folder (`pipelines.verify`).

        Parameters
        ----------
        key : str or path, optional
            Public key file of the signer who is expected.

        Returns
        -------
        VerificationReport

        Raises
        ------
        VerificationError
            At the first check that fails.
        """
        return verify(self.public, key)

    # --- its tables

    def flows(
        self,
        home_level: str | None = None,
        work_level: str | None = None,
        counts: str | Sequence[str] = "S000",
        *,
        home: str | None = None,
        work: str | None = None,
        kinds: str | Sequence[str] = (),
    ) -> pd.DataFrame:
        """Add up jobs by home and work area.

        Parameters
        ----------
        home_level, work_level : str, optional
            Of `levels`; one alone stands for both. By default `usual_level`.
        counts : str or sequence of str
            Of `counts`.
        home, work : str, optional
            The code of an area of any level: only of those who live, or work, in it. Only its rows are read.
        kinds : {"main", "aux"} or sequence of them
            Rows to count; by default all there are.

        Returns
        -------
        DataFrame
            A row for each pair of areas with jobs, in the geography's order of work and then home: ``work``
            and ``home``, the codes of the areas as text, and the counts (int64).

        Raises
        ------
        PublicReleaseError
            If there is no such level, area, count or kind, or rows are not of the geography or in its order.

        Examples
        --------
        >>> import pipelines
        >>> release = pipelines.open_release("out/demo")
        >>> flows = release.flows("cty")
        >>> flows.columns.to_list()
        ['work', 'home', 'S000']
        >>> bool(flows["S000"].sum() == release.certificate.totals.synthetic_workers)
        True
        >>> release.flows("cty", work="03001")["work"].unique().tolist()
        ['03001']
        """
        default = home_level or work_level or self.usual_level()
        home_level, work_level = home_level or default, work_level or default
        areas = {side: self.find_area(code) for side, code in (("home", home), ("work", work)) if code}
        flows = self.unit_flows(
            home_level,
            work_level,
            (counts,) if isinstance(counts, str) else counts,
            (kinds,) if isinstance(kinds, str) else kinds,
            areas,
        )
        return with_codes(flows, self.geography, home_level, work_level)

    def unit_flows(
        self,
        home_level: str,
        work_level: str,
        counts: Sequence[str] = ("S000",),
        kinds: Sequence[str] = (),
        areas: Mapping[str, Area] = MappingProxyType({}),
    ) -> pd.DataFrame:
        """Return `flows` with units as `geo_data.Geography` numbers them (int32) in place of codes.

        `areas` are those of the sides, "home" and "work", that rows must lie in.
        """
        batches = self.flow_batches(home_level, work_level, counts, kinds, areas)
        return pd.concat(batches, ignore_index=True)

    def flow_batches(
        self,
        home_level: str,
        work_level: str,
        counts: Sequence[str] = ("S000",),
        kinds: Sequence[str] = (),
        areas: Mapping[str, Area] = MappingProxyType({}),
    ) -> Iterator[pd.DataFrame]:
        """Yield `unit_flows` in parts, at least one, all flows to a work unit in the same part.

        Memory is bounded by some groups of rows, read with Dask, and by the largest work unit, not by the
        number of flows: rows of a release are in the order of their work blocks, so the flows to a unit are
        complete when the next one begins.
        """
        return flow_batches(self, home_level, work_level, counts, kinds, areas)

    def jobs(self) -> pd.DataFrame:
        """Return the synthetic jobs, a row for each.

        Returns
        -------
        DataFrame
            ``work`` and ``home`` (text): blocks of the workplace and the home. With a column (text) for each
            attribute where the release says which belong to one job; where it counts each by itself, as those
            made of LODES files do, only `flows` has them.
        """
        columns = {"w_geocode": "work", "h_geocode": "home"}
        if (rows := self.job_rows) is not None:
            with blame_release(Path(rows.files[0])):
                return rows.to_table().to_pandas().rename(columns=columns)
        tables = [data.to_table(columns=[*columns, "S000"]).to_pandas() for data in self.rows.values()]
        pairs = pd.concat(tables, ignore_index=True).rename(columns=columns)
        return pairs[["work", "home"]].loc[pairs.index.repeat(pairs["S000"])].reset_index(drop=True)

    def job_records(self, by: Sequence[str]) -> Iterator[geo_data.JobRecords]:
        """Yield some million jobs at a time with attributes that belong to one job each, coded.

        Raises
        ------
        PublicReleaseError
            If the release has no file of jobs, as one made from files of flows has none.
        """
        path = self._job_file
        if path is None:
            rule = "this release counts each attribute by itself, so it has no file of jobs"
            raise PublicReleaseError(f"{self.public}: {rule}. Fix: use its flows")
        with blame_release(path):
            for file in ds.dataset(path, format="parquet").files:
                source = geo_data.MicrodataJobs(
                    file, self.geography, "h_geocode", "w_geocode", attributes=tuple(by)
                )
                yield from source.parts(tuple(by), self.categories)

    @cached_property
    def rows(self) -> dict[str, ds.Dataset]:
        """Rows of the release: ``main``, and ``aux`` where workers may live outside.

        Columns w_geocode and h_geocode (text), then `counts`, then createdate.
        """
        names = file_names(self.config)
        rows = {}
        for kind, key in {"main": "od_parquet", "aux": "aux_parquet"}.items():
            if key in names:
                path = self.public / self._below / names[key]
                with blame_release(path):
                    rows[kind] = ds.dataset(path, format="parquet")
                    if "w_geocode" not in rows[kind].schema.names:  # as of a folder without parts
                        raise ValueError("there is no column w_geocode")
        return rows

    @property
    def job_rows(self) -> ds.Dataset | None:
        """A row for each job, where the release says which attributes belong to one job; else None.

        Columns w_geocode and h_geocode, then the attributes (text).
        """
        if (path := self._job_file) is None:
            return None
        with blame_release(path):
            return ds.dataset(path, format="parquet")

    @property
    def has_draws(self) -> bool:
        """Whether it carries posterior draws."""
        return (self.public / INTERVALS_FILE).is_file()

    def draws(self) -> PosteriorDraws:
        """Open the posterior draws that the release carries, for intervals of its counts and of their sums.

        Returns
        -------
        PosteriorDraws

        Raises
        ------
        PublicReleaseError
            If the folder has none.

        Examples
        --------
        Flows between towns, of which the release knows nothing::

            draws = pipelines.open_release("out/demo").draws()
            towns = {"10001000100": "Northton", "10001000200": "Northton", "10001000300": "Southton"}
            draws.flows(towns, towns)
        """
        from pipelines.views.intervals.reading import PosteriorDraws

        return PosteriorDraws(self)

    # --- its areas

    def areas(self, level: str | None = None) -> pd.DataFrame:
        """Return the areas of a level.

        Parameters
        ----------
        level : str, optional
            Of `kinds_of_areas`; by default `usual_level`.

        Returns
        -------
        DataFrame
            A row for each area, in the order of `geography`: ``code`` and ``name`` (text; "" where it has no
            name), ``external`` (whether it is an external zone), ``longitude`` and ``latitude`` (degrees,
            WGS84: the mean of its blocks; NaN for external zones).
        """
        level = self.check_level(self.usual_level() if level is None else level, self.kinds_of_areas)
        places, geography = self.places(level), self.geography
        # An area that cuts across levels may gather external zones; none has other blocks beside them.
        external = geography.unit_of(level, geography.external_blocks)
        west = places["longitude"] - 360 * np.sign(places["longitude"]) * (places["longitude"].abs() > 180)
        return pd.DataFrame(
            {
                "code": places["code"].astype("str"),
                "name": pd.array(unit_names(self, level), dtype="str"),
                "external": np.isin(places.index, external),
                "longitude": west,
                "latitude": places["latitude"],
            }
        )

    def shapes(self, level: str | None = None) -> gpd.GeoDataFrame:
        """Return `areas` with their geometry.

        Parameters
        ----------
        level : str, optional
            As of `areas`.

        Returns
        -------
        GeoDataFrame
            `areas` with geometry, EPSG:4326: the polygon where the release has polygons of the level or of
            its parts, else the point; None for external zones and areas without a shape.
        """
        from pipelines.views.maps.shapes import with_coarser

        level = self.usual_level() if level is None else level
        areas, polygons = self.areas(level), {}
        for finer in self.levels[self.levels.index(level) :] if level in self.levels else ():
            if (shapes := self.polygons(finer)) is not None:
                polygons[finer] = shapes[shapes["unit"] >= 0]
        whole = with_coarser(self, polygons, [level])
        if level in whole:
            geometry = whole[level].set_index("unit").geometry.reindex(areas.index)
        else:
            geometry = gpd.GeoSeries.from_xy(areas["longitude"], areas["latitude"])
            geometry[areas["latitude"].isna()] = None
        return gpd.GeoDataFrame(areas, geometry=np.asarray(geometry.array), crs="EPSG:4326")

    @cached_property
    def names(self) -> dict[str, NDArray[np.object_]]:
        """Names of the units of each of `levels`, and of non-nesting areas, text of shape (U,); "": none."""
        with blame_release(self.public / NAME_FILE):
            return read_names(self.public, self.geography)

    def polygons(self, level: str) -> gpd.GeoDataFrame | None:
        """Return ``unit`` (int32) and geometry, EPSG:4326, of the units of a level, where it has polygons."""
        path = self.public / polygon_file(level)
        if not path.is_file():
            return None
        with blame_release(path):
            shapes = gpd.read_parquet(path)
            units = self.geography.unit_number(level, shapes[level])
            return gpd.GeoDataFrame({"unit": units}, geometry=shapes.geometry.array, crs=shapes.crs)

    def places(self, level: str) -> pd.DataFrame:
        """Return a point for each unit of a kind of areas: the mean of its blocks' centroids.

        ``code``, and ``latitude`` and ``longitude`` in degrees WGS84 (`unbroken`), NaN for external zones.
        """
        geography = self.geography
        unit = geography.units_of_blocks(level)
        longitude = self.unbroken(geography.longitude)
        blocks = pd.DataFrame({"latitude": geography.latitude, "longitude": longitude})
        places = blocks.groupby(unit).mean()
        places.insert(0, "code", np.asarray(geography.codes(level), object))
        return places

    def unbroken(self, longitude: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return longitudes as `geo_data.Geography.unbroken` does, of its geography."""
        return self.geography.unbroken(longitude)

    def find_area(self, code: str) -> Area:
        """Return the area of a code, at the coarsest level that has it."""
        for level in self.levels:
            unit = self.geography.find_unit(level, code)
            if unit >= 0:
                return Area(level, unit, code)
        if named := areas_like(self, code, self.levels):
            raise PublicReleaseError(
                f"{code!r} is not the code of an area. Fix: name it by its code: {named}"
            )
        example = self.geography.codes(self.levels[-1])[0]
        raise PublicReleaseError(
            f"there is no area {code!r} at any level ({', '.join(self.levels)}); codes are text, with their "
            f"leading zeros, as in {example!r}"
        )

    def check_level(self, level: str, present: Sequence[str] = ()) -> str:
        """Return a level, or refuse it if it is none of those present, by default of `levels`."""
        present = present or self.levels
        if level not in present:
            raise PublicReleaseError(f"there is no level {level!r}; there are: {', '.join(present)}")
        return level

    def usual_level(self, most_zones: int = _MOST_ZONES, workers_per_zone: float = _WORKERS_PER_ZONE) -> str:
        """Return the level of flows, shapes and exports where no other is asked for.

        The finest with polygons; without polygons, the finest whose zones have 1,000 workers on average.
        Levels of more than 20,000 zones are passed over, then those at which flows are noise; the coarsest is
        what remains.
        """
        fine_enough = [level for level in self.levels if self.geography.n_units(level) <= most_zones]
        with_shapes = [level for level in fine_enough if (self.public / polygon_file(level)).is_file()]
        workers = self.certificate.totals.synthetic_workers
        large = [
            level for level in fine_enough if workers >= workers_per_zone * self.geography.n_units(level)
        ]
        return self.worth_showing([self.levels[0], *large, *with_shapes][-1])

    def worth_showing(self, level: str) -> str:
        """Return a level, or, where the release calls flows at it noise, the finest coarser one that is none.

        Where all are noise, that is the coarsest.
        """
        upward = self.levels[: self.levels.index(level) + 1]
        return [self.levels[0], *(above for above in upward if above not in self.noisy_levels)][-1]

    # --- what is made of it

    def map(
        self,
        target: PathLike | None = None,
        *,
        backdrop: Backdrop | None = None,
        site: bool = False,
        others: Sequence[Release] = (),
    ) -> Path:
        """Write a map of the release: one HTML file that needs nothing else, or files for a web server.

        Its numbers have intervals, as far as the draws of the release have room in it.

        Parameters
        ----------
        target : str or path, optional
            By default ``map.html`` beside the public folder, whose files are sealed by its checksums. Its
            folder is made if it is not there; a map that is there is replaced when the new one is complete.
        backdrop : Backdrop, optional
            Files of water and roads, for orientation (``pipelines.views.maps``).
        site : bool
            Whether what is large is written into a folder ``map`` beside the file, from which the page
            fetches it when it is opened. What is in that folder stays there, for pages that are open.
        others : sequence of Release
            Releases of the same jobs and areas in other years: the map has a slider over the years.

        Returns
        -------
        Path
            The file. The finest levels are left out, and the page says so, where they would make it larger
            than 15 MB; the coarsest level is always there, however large.

        Raises
        ------
        PublicReleaseError
            If the target lies in a public folder, a file of a release is missing or damaged, or `others` are
            not of different years of the same jobs and areas.
        InputError
            If a file of the backdrop cannot be drawn.
        FileNotFoundError
            If the library that draws the map has not been set up.
        """
        from pipelines.views.maps.page import write_map

        return write_map(self, target, backdrop=backdrop, site=site, others=others)

    def figure(
        self,
        path: PathLike,
        *,
        area: str | None = None,
        of: Side = "workers",
        level: str | None = None,
        count: str = "S000",
        kind: str = "all",
    ) -> None:
        """Draw the commutes of an area, as PNG, SVG or PDF.

        Parameters
        ----------
        path : str or path
            The file; its name ends with .png, .svg or .pdf. Its folder is made if it is not there.
        area : str, optional
            Code of an area or a work block, at any level; by default the whole release.
        of : {"workers", "residents"}
            Those who work in the area (then maps show where they live), or those who live there.
        level : str, optional
            Level of the units on the maps; by default the finest that has polygons, or else the finest with
            at most 500 units, as points; a coarser one where flows at it are noise.
        count : str
            Who is counted, of `counts`.
        kind : {"all", "choropleth", "flows", "rose", "distance"}
            One panel, or all four.

        Raises
        ------
        PublicReleaseError
            If there is no such area, level, count or kind, nobody is in the area, the name of the file ends
            otherwise, or it lies in the public folder.
        """
        from pipelines.views.figures.figure import draw_figure

        draw_figure(self, path, area=area, of=of, level=level, count=count, kind=kind)

    def export(
        self,
        formats: str | Sequence[str],
        to: PathLike | None = None,
        *,
        home_level: str | None = None,
        work_level: str | None = None,
        seed: int | None = None,
        sample: float = 1.0,
        decimal_comma: bool = False,
    ) -> dict[str, list[Path]]:
        """Write the release in formats of other programs, each in a folder of its own, with a read-me.

        In formats that have a place for them, flows have intervals where the release has draws of them:
        ``low`` and ``high`` of all jobs, ``low_SE01`` and ``high_SE01`` of a count by an attribute.

        Parameters
        ----------
        formats : str or sequence of str
            Of ``odsynth export --help``: lodes, csv, geoparquet, geopackage, flatgeobuf, geojson, pmtiles,
            omx, activitysim, matsim, trips, flowmap, kepler.
        to : str or path, optional
            Gets a folder for each format; by default ``exports`` beside the public folder.
        home_level, work_level : str, optional
            Levels of the zones, as of `flows`.
        seed : int, optional
            Of the points of single workers, in formats that have them (matsim, trips); by default from the
            hash of the plan, so that everybody draws the same points.
        sample : float
            The share of the workers that these formats have.
        decimal_comma : bool
            Whether csv has semicolons between columns, commas in decimals and a byte-order mark, as Excel
            expects where decimals have commas.

        Returns
        -------
        dict of str to list of Path
            The files of each format. Each is written under another name, and renamed when all are complete.

        Raises
        ------
        ExportError
            If there is no such format or level, a level is none of a format, a seed, a sample or decimal
            commas have no place in one, or files would be overwritten. Then nothing is written.
        PublicReleaseError
            If `to` lies in the public folder, or a file of the release is missing or damaged.
        """
        from pipelines.views.exports.exporting import export

        return export(
            self,
            formats,
            to,
            home_level=home_level,
            work_level=work_level,
            seed=seed,
            sample=sample,
            decimal_comma=decimal_comma,
        )

    def write_intervals(
        self, to: PathLike | None = None, *, progress: Progress | None = None
    ) -> dict[str, Path]:
        """Write intervals of jobs by workplace, of a release that estimates these.

        They follow from the noisy counts and the law of their noise alone. The release has intervals of homes
        and flows (`draws`). Nothing but the public folder is read, so it costs no privacy.

        Parameters
        ----------
        to : str or path, optional
            A new folder for the files; by default ``intervals`` beside the public one.
        progress : Progress, optional
            Told how many tables are done, and how many there are.

        Returns
        -------
        dict of str to Path
            The files: a CSV file for each table, and a read-me, by what they are.

        Raises
        ------
        PublicReleaseError
            If jobs by workplace are exact, the release is damaged, or files would be overwritten.
        """
        from pipelines.views.intervals.writing import write_intervals

        return write_intervals(self, to, progress)

    def evaluate(self, truth: PathLike, to: PathLike | None = None) -> pd.DataFrame:
        """Measure how far the release is from the confidential truth, and write a confidential report.

        Parameters
        ----------
        truth : str or path
            The release's configuration (``.toml``), which names its jobs, or a LODES origin-destination file
            of the true jobs.
        to : str or path, optional
            Folder to make (mode 0700, its files 0600); by default ``confidential/evaluation`` in `out`. An
            earlier evaluation there is replaced.

        Returns
        -------
        DataFrame
            **Confidential.** One row a number: ``compared_with``, ``measure``, ``level``, ``group`` (text)
            and ``value`` (float64). docs/evaluation.md says what each measure is.

        Raises
        ------
        ConfigError
            If the folder would lie in a public folder, or holds something else.
        PublicReleaseError, geo_data.InputError
            If the release, or the truth, cannot be read.
        """
        from pipelines.views.evaluation.evaluating import evaluate

        return evaluate(self, truth, to)

    def evaluate_public(
        self, tables: PathLike | Iterable[PathLike], to: PathLike | None = None
    ) -> pd.DataFrame:
        """Measure how far the release is from public tables, and write a report that may be published.

        Parameters
        ----------
        tables : str, path or sequence of them
            Configurations (``.toml``), of which only the auxiliary tables are read, or LODES
            origin-destination files that are published, such as last year's.
        to : str or path, optional
            Folder to make; by default ``evaluation`` beside the public folder. An earlier evaluation there is
            replaced.

        Returns
        -------
        DataFrame
            As `evaluate`; public.

        Raises
        ------
        ConfigError, PublicReleaseError, geo_data.InputError
            As `evaluate`; also where a table seems to be of the confidential jobs of the release.
        """
        from pipelines.views.evaluation.evaluating import evaluate_public

        return evaluate_public(self, tables, to)

    # --- its files

    @cached_property
    def config(self) -> PublicConfig:
        """The configuration that its plan quotes, with what was corrected since."""
        return self.corrections.config(quoted_config(self.plan_document))

    @cached_property
    def corrections(self) -> Corrections:
        """What it says of itself otherwise than its plan."""
        if not (self.public / CORRECTION_FILE).is_file():
            return UNCORRECTED
        with blame_release(self.public / CORRECTION_FILE):
            return read_corrections(self.public, quoted_config(self.plan_document))

    @property
    def _below(self) -> str:
        """The folder of the implicate, below that of the release."""
        return self.config.implicates.folders[self.implicate - 1]

    @property
    def _job_file(self) -> Path | None:
        name = file_names(self.config).get("jobs_parquet")
        return None if name is None else self.public / self._below / name

    def _present(self, name: str) -> Path:
        path = self.public / name
        if not path.is_file():
            raise PublicReleaseError(not_public(self.public, path.name))
        return path


def open_release(source: PathLike, implicate: int = 1, *, cache: PathLike | None = None) -> Release:
    """Open a release. It is not verified: `Release.verify` does that.

    Parameters
    ----------
    source : str or path
        The public folder of a release, the folder around it, or the address of a version at a service, as in
        ``https://data.example.org/releases/NAME/VERSION``; VERSION may be ``latest``.
    implicate : int
        Which of its synthetic data sets, from 1.
    cache : str or path, optional
        Where files of an address are kept, by default in the user's cache. Each is downloaded once and
        compared with the hash that the service gives; csv.gz files are not, where the same rows are there as
        Parquet.

    Returns
    -------
    Release

    Raises
    ------
    PublicReleaseError
        If a file is missing or not of this program, the plan is of another release than the certificate, a
        level has a name that cannot name a file, there is no such implicate, the service does not answer, or
        a file is not what was published.

    Examples
    --------
    >>> import pipelines
    >>> release = pipelines.open_release("out/demo")
    >>> release.levels
    ('st', 'cty', 'trct', 'bgrp', 'tabblk2010')
    >>> release.areas("cty")["code"][0]
    '03001'
    """
    if isinstance(source, str) and source.startswith(("http://", "https://")):
        from pipelines.views.download import download  # what it needs takes its time

        folder = download(source, None if cache is None else path_of(cache, "cache"))
    else:
        folder = path_of(source, "source")
        if not (folder / "certificate.json").is_file() and (folder / "public").is_dir():
            folder = folder / "public"
    release = Release(folder, implicate)
    for name in ("certificate.json", "plan/plan.json"):
        release._present(name)
    assert release.geography
    if not 1 <= implicate <= release.implicates:
        raise PublicReleaseError(
            f"{folder}: there is no implicate {implicate}; name one from 1 to {release.implicates}"
        )
    return release


def _check_names(certificate: Certificate, document: dict[str, Any]) -> None:
    """Refuse a plan of another release, or whose names could lead out of a folder: it may be unverified."""
    config = quoted_config(document)
    for name, value in certificate.release.model_dump().items():
        if getattr(config.release, name) != value:
            raise ValueError(f"plan.json: {name} of the release is not that of certificate.json")
    if config.release.implicates != certificate.implicates.number:
        raise ValueError("plan.json: implicates of the release are not those of certificate.json")
    names = document["geography"]
    for level in (*names["levels"], names["block"]):
        check_level_name(str(level))
