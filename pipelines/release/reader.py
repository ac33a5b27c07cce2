"""A release as its readers have it: what maps, figures and exports are made from, the public folder only."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pyarrow.dataset as ds
from dask.base import compute
from dask.delayed import delayed
from numpy.typing import NDArray

import geo_data
from geo_data.arguments import PathLike, path_of
from pipelines.config.fields import check_level_name
from pipelines.config.implicates import Implicates
from pipelines.plans.accuracy import ExpectedAccuracy
from pipelines.plans.form import read_document
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.storage import load_geography, load_plan
from pipelines.release.accuracy import ACCURACY_FILE, read_accuracy
from pipelines.release.certificate import Certificate
from pipelines.release.description import (
    MEASUREMENT_FOLDER,
    Attribute,
    ReleaseDescription,
    attributes_of,
    count_meanings,
    describe_release,
)
from pipelines.release.formats import made_before_first, parse_certificate
from pipelines.release.layout import file_names, not_public, version_name
from pipelines.release.names import NAME_FILE, read_names
from pipelines.release.polygons import polygon_file
from pipelines.storage.checksums import CHECKSUMS, sha256_of
from pipelines.storage.errors import blame, refuse_no_folder, what_is_at
from synth.errors import ShownError

_AT_ONCE = 4  # groups of rows, of about 100,000 jobs each, that are in memory


class PublicReleaseError(ShownError, ValueError):
    """The folder is not the public folder of a release, or what was asked of it is not there."""


@dataclass(frozen=True, eq=False)
class PublicRelease:
    """A public folder, opened; rows are read when asked for.

    Attributes
    ----------
    folder : Path
    certificate : Certificate
    plan_document : dict
        The plan.json of the release.
    geography : geo_data.Geography
        Its blocks; the external zones are among them.
    implicate : int
        Which of its synthetic data sets rows and flows are of; the first has number 1.
    """

    folder: Path
    certificate: Certificate
    plan_document: dict
    geography: geo_data.Geography
    implicate: int = 1

    def __repr__(self) -> str:
        one = f", implicate {self.implicate} of {self.implicates}" if self.implicates > 1 else ""
        return (
            f"<PublicRelease: {self.certificate!r}; levels {', '.join(self.levels)}{one}; in {self.folder}>"
        )

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
        return count_meanings(self.categories, self._configuration)

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """What the attributes of the jobs mean, with units and labels of their codes."""
        return attributes_of(self.categories, self._configuration)

    @cached_property
    def description(self) -> ReleaseDescription:
        """What the release says about itself: title, licence, contact, citation, its tables and columns."""
        configuration, noisy = self._configuration, (self.folder / MEASUREMENT_FOLDER).is_dir()
        return describe_release(
            self.certificate,
            configuration,
            self.categories,
            self.geography,
            file_names(configuration),
            named=(self.folder / NAME_FILE).is_file(),
            pooled_by=self.plan_document["pooling"]["by"],
            measured=self.plan_document["choices"].get("tables", []) if noisy else None,
        )

    def load_plan(self) -> ReleasePlan:
        """Return the whole plan of the release.

        Raises
        ------
        PublicReleaseError
            If a file of it is missing, altered, or not of its form.
        """
        try:
            return load_plan(self.folder / "plan", self.plan_document)
        except (ValueError, OSError) as error:  # a plan is public: nothing is withheld
            raise PublicReleaseError(f"{self.folder / 'plan'}: {error}") from None

    @property
    def _configuration(self) -> dict[str, Any]:
        return self.plan_document["configuration"]

    @property
    def _below(self) -> str:
        """The folder of the implicate, below that of the release."""
        return Implicates.of(self._configuration).folders[self.implicate - 1]

    @cached_property
    def rows(self) -> dict[str, ds.Dataset]:
        """Rows of the release: ``main``, and ``aux`` where workers may live outside.

        Columns w_geocode and h_geocode (text), then `counts`, then createdate.
        """
        names = file_names(self._configuration)
        rows = {}
        for kind, key in {"main": "od_parquet", "aux": "aux_parquet"}.items():
            if key in names:
                path = self.folder / self._below / names[key]
                with blame_release(path):
                    rows[kind] = ds.dataset(path, format="parquet")
                    if "w_geocode" not in rows[kind].schema.names:  # as of a folder without parts
                        raise ValueError("there is no column w_geocode")
        return rows

    def flows(
        self,
        home_level: str,
        work_level: str,
        counts: str | Sequence[str] = ("S000",),
        kinds: str | Sequence[str] = (),
    ) -> pd.DataFrame:
        """Add up jobs by home and work area.

        Parameters
        ----------
        home_level, work_level : str
            Of `levels`.
        counts : str or sequence of str
            Of `counts`.
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
            If there is no such level or count, rows are not of the geography, or not in its order.

        Examples
        --------
        >>> import pipelines
        >>> release = pipelines.read_public_release("out/demo/public")
        >>> flows = release.flows("cty", "cty")
        >>> flows.columns.to_list()
        ['work', 'home', 'S000']
        >>> bool(flows["S000"].sum() == release.certificate.totals.synthetic_workers)
        True
        """
        flows = self.unit_flows(
            home_level,
            work_level,
            (counts,) if isinstance(counts, str) else counts,
            (kinds,) if isinstance(kinds, str) else kinds,
        )
        return with_codes(flows, self.geography, home_level, work_level)

    def unit_flows(
        self, home_level: str, work_level: str, counts: Sequence[str] = ("S000",), kinds: Sequence[str] = ()
    ) -> pd.DataFrame:
        """Return `flows` with units as `geo_data.Geography` numbers them (int32) in place of codes."""
        return pd.concat(self.flow_batches(home_level, work_level, counts, kinds), ignore_index=True)

    def flow_batches(
        self, home_level: str, work_level: str, counts: Sequence[str] = ("S000",), kinds: Sequence[str] = ()
    ) -> Iterator[pd.DataFrame]:
        """Add up jobs by home and work unit, some groups of rows at a time, with Dask.

        Memory is bounded by these groups and by the largest work unit, not by the number of flows: rows of a
        release are in the order of their work blocks, so the flows to a unit are complete when the next one
        begins.

        Parameters
        ----------
        home_level, work_level, counts, kinds
            As for `unit_flows`.

        Yields
        ------
        DataFrame
            At least one, as `unit_flows` returns them: together they are what it returns. All flows to a work
            unit are in the same one.

        Raises
        ------
        PublicReleaseError
            As `flows`.
        """
        for level in (home_level, work_level):
            if level not in self.levels:
                raise PublicReleaseError(f"there is no level {level!r}; there are: {', '.join(self.levels)}")
        unknown = [name for name in counts if name not in self.counts]
        if unknown:
            raise PublicReleaseError(f"there is no count {unknown[0]!r}; there are: {', '.join(self.counts)}")
        read = delayed(self._flows_of, pure=False, traverse=False)
        waiting = {kind: self._groups(kind) for kind in kinds or self.rows}
        reached = dict.fromkeys(waiting, -1)  # the work unit in which each kind's rows stopped
        held = pd.DataFrame(
            {
                **dict.fromkeys(["work", "home"], np.array([], np.int32)),
                **dict.fromkeys(counts, np.array([], np.int64)),
            }
        )
        while waiting:
            behind = min(waiting, key=reached.__getitem__)
            groups = list(islice(waiting[behind], _AT_ONCE))
            tasks = [read(group, home_level, work_level, list(counts)) for group in groups]
            tables = [table for table in compute(*tasks, scheduler="threads") if len(table)]
            for table in tables:
                if table["work"].iloc[0] < reached[behind]:
                    raise PublicReleaseError(
                        f"{behind} rows are not in the order of their work blocks: not as they were released"
                    )
                reached[behind] = table["work"].iloc[-1]
            if not groups:
                del waiting[behind]
            held = _add([held, *tables])
            if waiting:
                complete = held["work"].searchsorted(min(reached[kind] for kind in waiting))
                if complete:
                    yield held[:complete]
                    held = held[complete:]
        yield held

    def jobs(self, by: str | Sequence[str]) -> Iterator[geo_data.JobRecords]:
        """Read the synthetic jobs one by one, with attributes that belong to one job each.

        Parameters
        ----------
        by : str or sequence of str
            Of `categories`.

        Yields
        ------
        geo_data.JobRecords
            Some million jobs at a time, attributes coded as in `categories`.

        Raises
        ------
        PublicReleaseError
            If the release has no file of jobs, as one made from files of flows has none.
        """
        names, by = file_names(self._configuration), (by,) if isinstance(by, str) else tuple(by)
        if "jobs_parquet" not in names:
            raise PublicReleaseError(f"{self.folder}: this release counts each attribute by itself")
        path = self.folder / self._below / names["jobs_parquet"]
        with blame_release(path):
            for file in ds.dataset(path, format="parquet").files:
                source = geo_data.MicrodataJobs(file, self.geography, "h_geocode", "w_geocode", attributes=by)
                yield from source.parts(by, self.categories)

    @cached_property
    def names(self) -> dict[str, NDArray[np.object_]]:
        """Names of the units of each of `levels`, and of non-nesting areas, text of shape (U,); "": none."""
        with blame_release(self.folder / NAME_FILE):
            return read_names(self.folder, self.geography)

    @property
    def licence(self) -> str | None:
        """The licence of the data; None where its configuration names none."""
        return self._configuration["release"].get("licence")

    @property
    def version(self) -> str:
        """What `publish` calls this content, unless its publisher gives it another name."""
        with blame_release(self.folder / CHECKSUMS):
            try:
                return version_name(self.certificate.release, sha256_of(self.folder / CHECKSUMS))
            except FileNotFoundError:
                raise ValueError("there is no such file") from None

    @cached_property
    def accuracy(self) -> ExpectedAccuracy | None:
        """How far its numbers are expected to be from the truth; None where that was not forecast."""
        with blame_release(self.folder / ACCURACY_FILE):
            return read_accuracy(self.folder, self.certificate.plan_sha256)

    @property
    def noisy_levels(self) -> list[str]:
        """Levels between whose units flows are noise, as far as that was forecast."""
        return [] if self.accuracy is None else self.accuracy.noisy_levels

    def polygons(self, level: str) -> gpd.GeoDataFrame | None:
        """Return the shapes of the units of a level, where the release has them.

        Parameters
        ----------
        level : str

        Returns
        -------
        GeoDataFrame or None
            A row for each unit that has a shape: ``unit`` (int32) and geometry, EPSG:4326.
        """
        path = self.folder / polygon_file(level)
        if not path.is_file():
            return None
        with blame_release(path):
            shapes = gpd.read_parquet(path)
            units = self.geography.unit_number(level, shapes[level])
            return gpd.GeoDataFrame({"unit": units}, geometry=shapes.geometry.array, crs=shapes.crs)

    def places(self, level: str) -> pd.DataFrame:
        """Return a point for each unit of a level: the mean of its blocks' centroids.

        Parameters
        ----------
        level : str
            Of `kinds_of_areas`.

        Returns
        -------
        DataFrame
            A row for each unit, in order: ``code`` (text), ``latitude`` and ``longitude`` in degrees WGS84
            (`unbroken`), NaN for external zones.
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

    def _groups(self, kind: str) -> Iterator[ds.Fragment]:
        """Yield the groups of rows of the files of a kind, in order."""
        for fragment in self.rows[kind].get_fragments():
            with blame_release(Path(fragment.path)):
                groups = fragment.split_by_row_group()
            yield from groups

    def _flows_of(
        self, group: ds.Fragment, home_level: str, work_level: str, counts: list[str]
    ) -> pd.DataFrame:
        with blame_release(Path(group.path)):
            table = group.to_table(columns=["w_geocode", "h_geocode", *counts]).to_pandas(
                categories=["w_geocode", "h_geocode"]
            )
            pairs = {
                "work": self._units(table["w_geocode"], work_level),
                "home": self._units(table["h_geocode"], home_level),
            }
            frame = pd.DataFrame({**pairs, **{name: table[name] for name in counts}})
            return frame.groupby(["work", "home"], as_index=False).sum()

    def _units(self, codes: pd.Series, level: str) -> np.ndarray:
        block = self.geography.number(pd.Series(codes.cat.categories, dtype="str"))
        if (block < 0).any():
            raise ValueError("there are blocks that are not in the plan's geography")
        return self.geography.unit_of(level, block)[codes.cat.codes]


def with_codes(
    flows: pd.DataFrame, geography: geo_data.Geography, home_level: str, work_level: str
) -> pd.DataFrame:
    """Return flows between numbered units with the codes of the units, as text."""
    named = {
        side: pd.array(geography.codes(level), dtype="str").take(flows[side].to_numpy())
        for side, level in (("work", work_level), ("home", home_level))
    }
    return flows.assign(**named)


def with_units(
    flows: pd.DataFrame, geography: geo_data.Geography, home_level: str, work_level: str
) -> pd.DataFrame:
    """Return flows between areas with their numbers in place of codes; numbers stay as they are.

    Raises
    ------
    PublicReleaseError
        If a code is of no unit of the level.
    """
    numbered = {}
    for side, level in (("work", work_level), ("home", home_level)):
        if not pd.api.types.is_integer_dtype(flows[side]):
            numbered[side] = geography.unit_number(level, flows[side])
            if (unknown := numbered[side] < 0).any():
                raise PublicReleaseError(f"there is no {level} {flows[side][unknown].iloc[0]!r}")
    return flows.assign(**numbered)


def read_public_release(folder: PathLike, implicate: int = 1) -> PublicRelease:
    """Open the public folder of a release. It is not verified: `verify` does that.

    Parameters
    ----------
    folder : str or path
        With what `run` wrote to ``public``.
    implicate : int
        Which of its synthetic data sets to read, from 1.

    Returns
    -------
    PublicRelease

    Raises
    ------
    PublicReleaseError
        If a file is missing or not of this program, the plan is of another release than the certificate, a
        level has a name that cannot name a file, or there is no such implicate.

    Examples
    --------
    >>> import pipelines
    >>> release = pipelines.read_public_release("out/demo/public")
    >>> release.levels
    ('st', 'cty', 'trct', 'bgrp', 'tabblk2010')
    >>> release.geography.codes("cty")[0]
    '03001'
    """
    folder = path_of(folder, "folder")
    certificate, plan = folder / "certificate.json", folder / "plan" / "plan.json"
    for path in (certificate, plan):
        if not path.is_file():
            raise PublicReleaseError(not_public(folder, path.name))
    early = made_before_first(certificate)
    try:
        certified = parse_certificate(certificate.read_bytes())
    except ValueError:
        why = "not a certificate of this program" if early is None else f"not of a form that is read. {early}"
        raise PublicReleaseError(f"{certificate}: {why}") from None
    with blame_release(plan):
        try:
            document = read_document(folder / "plan")
            _check_names(certified, document)
        except ValueError as error:  # which names the file
            raise PublicReleaseError(
                f"{folder / 'plan'}: {error}" + (f". {early}" if early else "")
            ) from None
    with blame_release(folder / "plan" / "blocks.parquet"):
        geography = load_geography(folder / "plan", document)
    release = PublicRelease(folder, certified, document, geography, implicate)
    if not 1 <= implicate <= release.implicates:
        raise PublicReleaseError(
            f"{folder}: there is no implicate {implicate}; there are {release.implicates}"
        )
    return release


def blame_release(path: Path) -> AbstractContextManager[None]:
    """Say of whatever goes wrong with a file of a release that it is this file (`blame`)."""
    fix = "Fix: take a whole copy; odsynth verify checks it"
    return blame(PublicReleaseError, f"{path}: damaged, or not as it was released", fix)


def check_target(target: Path, folder: Path, *, new: bool = False) -> None:
    """Refuse to write into a public folder, whose files are sealed by its checksums.

    Parameters
    ----------
    target : Path
        The file or folder to be written.
    folder : Path
        The public folder.
    new : bool
        Whether nothing may be at the target.

    Raises
    ------
    PublicReleaseError
        If the target is the public folder or lies in it; if a file has the name of a folder above it; with
        `new`, if it is there.
    """
    if target.resolve().is_relative_to(folder.resolve()):
        raise PublicReleaseError(
            f"{target}: a file more in the public folder would make it fail `verify`; choose another place"
        )
    refuse_no_folder(target.parent, PublicReleaseError)
    if new and os.path.lexists(target):
        raise PublicReleaseError(
            f"{target}: {what_is_at(target)} is there already. Fix: move it away, or choose another folder"
        )


def _check_names(certificate: Certificate, document: dict[str, Any]) -> None:
    """Refuse a plan of another release, or whose names could lead out of a folder: it may be unverified."""
    said = document["configuration"]["release"]
    for name, value in certificate.release.model_dump().items():
        if said.get(name) != value:
            raise ValueError(f"plan.json: {name} of the release is not that of certificate.json")
    if said.get("implicates") != certificate.implicates.number:
        raise ValueError("plan.json: implicates of the release are not those of certificate.json")
    names = document["geography"]
    areas = document["configuration"]["geography"].get("non_nesting_areas", ())
    for level in (*names["levels"], names["block"], *areas):
        check_level_name(str(level))


def _add(tables: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables, ignore_index=True).groupby(["work", "home"], as_index=False).sum()
