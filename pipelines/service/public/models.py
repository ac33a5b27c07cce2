"""The JSON of the public API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

from pipelines.publishing.publishing import Remark
from pipelines.release.signing import PUBLIC_KEY
from pipelines.service.public.catalog import OpenVersion, Version
from pipelines.views.labels import plural, singular

SYNTHETIC = "Synthetic workers: no row is a real person."


class ReleaseEntry(BaseModel):
    """A published version of a release.

    Attributes
    ----------
    name, version : str
        As in addresses.
    status : str
        complete, withdrawn or damaged; only what is complete should be used.
    published : str
        When its publication began, UTC.
    sha256 : str
        Hash of its SHA256SUMS, and so of all its content.
    title, state, year, job_type
        What was released.
    epsilon, delta : str or None
        Of the whole run, exact decimal text.
    workers : int or None
        Synthetic workers, in each implicate.
    implicates : int or None
        Synthetic data sets.
    plan_sha256 : str or None
        Of the public plan, from which the certificate can be computed again.
    signed : bool or None
        Whether it is signed. Without a signature nobody answers for how its data were drawn.
    withdrawn : Remark or None
    errata : list of Remark
        Oldest first.
    """

    name: str
    version: str
    status: str
    published: str
    sha256: str
    title: str | None = None
    state: str | None = None
    year: int | None = None
    job_type: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    workers: int | None = None
    implicates: int | None = None
    plan_sha256: str | None = None
    signed: bool | None = None
    withdrawn: Remark | None
    errata: list[Remark]

    @classmethod
    def of(cls, version: Version) -> ReleaseEntry:
        """Return the entry of a version."""
        state, certificate = version.state, version.certificate
        described: dict[str, Any] = {}
        if certificate is not None:
            described = {
                "title": certificate.release.name,
                "state": certificate.release.state,
                "year": certificate.release.year,
                "job_type": certificate.release.job_type,
                "epsilon": certificate.run.epsilon,
                "delta": certificate.run.delta,
                "workers": certificate.totals.synthetic_workers,
                "implicates": certificate.implicates.number,
                "plan_sha256": certificate.plan_sha256,
                "signed": PUBLIC_KEY in version.files,
            }
        return cls(
            name=state.name,
            version=state.version,
            status=version.status,
            published=state.begun,
            sha256=state.sha256,
            withdrawn=state.withdrawn,
            errata=list(state.errata),
            **described,
        )


class ReleaseList(BaseModel):
    """Published versions, newest first."""

    releases: list[ReleaseEntry]

    @classmethod
    def of(cls, versions: Iterable[Version]) -> ReleaseList:
        """Return the list of versions."""
        return cls(releases=[ReleaseEntry.of(version) for version in versions])


class FileEntry(BaseModel):
    """A file of a version: name, bytes, hash, and where it is downloaded."""

    name: str
    size: int
    sha256: str
    href: str


class FileList(BaseModel):
    """Files of a version."""

    files: list[FileEntry]

    @classmethod
    def of(cls, version: Version) -> FileList:
        """Return the files of a version."""
        return cls(
            files=[
                FileEntry(name=file.name, size=file.size, sha256=file.sha256, href=version.address(file))
                for file in version.files.values()
            ]
        )


class LevelEntry(BaseModel):
    """A level of areas.

    Attributes
    ----------
    level : str
        As parameters name it.
    one, many : str
        What its areas are called.
    nests : bool
        Whether its areas are made of whole areas of the next finer level; not those that cut across the
        levels, as towns and ZIP code areas do.
    areas : int
        How many there are, external zones included.
    shapes : str
        polygon or point: what areas are on a map. External zones are nothing.
    href, tiles, style : str
        Where its areas are, its TileJSON, and its MapLibre style.
    """

    level: str
    one: str
    many: str
    nests: bool
    areas: int
    shapes: str
    href: str
    tiles: str
    style: str


class AttributeEntry(BaseModel):
    """A column that counts jobs.

    Attributes
    ----------
    attribute : str
        As parameters and columns name it.
    meaning : str
    variable, category : str or None
        Of the jobs that are counted; None for all jobs.
    """

    attribute: str
    meaning: str
    variable: str | None = None
    category: str | None = None


class Contents(BaseModel):
    """What can be asked of a version.

    Attributes
    ----------
    levels : list of LevelEntry
        Coarsest first; then kinds of areas that cut across them.
    attributes : list of AttributeEntry
        S000, all jobs, is the first.
    implicates : int
        Synthetic data sets.
    intervals : list of str
        Tables of which the release has draws. Flows have intervals where their areas are made of whole areas
        of one of these, which tells the attribute apart that was asked for first.
    """

    levels: list[LevelEntry]
    attributes: list[AttributeEntry]
    implicates: int
    intervals: list[str]

    @classmethod
    def of(cls, version: OpenVersion) -> Contents:
        """Return what a version has."""
        release, draws, base = version.release, version.draws, f"/api/v1{version.page}"
        of_attributes = {
            count: {"variable": variable, "category": category}
            for variable, categories in release.categories.items()
            for category in categories
            for count in (category, f"{variable}_{category}")
            if count in release.counts
        }
        return cls(
            levels=[
                LevelEntry(
                    level=level,
                    one=singular(level),
                    many=plural(level),
                    nests=level in release.levels,
                    areas=release.geography.n_units(level),
                    shapes=version.shapes(level).kind,
                    href=f"{base}/areas?level={level}",
                    tiles=f"{base}/tiles/{level}",
                    style=f"{base}/tiles/{level}/style",
                )
                for level in release.kinds_of_areas
            ],
            attributes=[
                AttributeEntry(attribute=count, meaning=meaning, **of_attributes.get(count, {}))
                for count, meaning in release.counts.items()
            ],
            implicates=release.implicates,
            intervals=[] if draws is None else [table.name for table in draws.tables],
        )


class AreaEntry(BaseModel):
    """An area; external: an external zone, which has neither place nor shape.

    home_S000, work_S000, and so on for each attribute: who lives, and who works there, in the first synthetic
    data set.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int]

    code: str
    name: str | None = None
    external: bool
    longitude: float | None = None
    latitude: float | None = None


class AreaList(BaseModel):
    """Areas of a level.

    Attributes
    ----------
    note : str
        What the numbers are.
    name, version : str
        Of the release.
    level : str
    areas : list of AreaEntry
        In the order of the geography.
    returned : int
        How many these are.
    matched : int
        How many there are, on this page and others.
    next : str or None
        Where it goes on, if `limit` was reached.
    """

    note: str = SYNTHETIC
    name: str
    version: str
    level: str
    areas: list[AreaEntry]
    returned: int
    matched: int
    next: str | None = None


class FlowEntry(BaseModel):
    """Jobs between a work area and a home area: a number for each attribute, under its name.

    estimate, low, high: estimate and interval of 90 % of the true number of the first attribute that was
    asked for, where the release has draws of it (`intervals` of /contents); the released count need not lie
    in the interval. With places: names and coordinates of both ends. A side that is a sum is left out.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | float | str]

    work: str | None = None
    home: str | None = None
    estimate: float | None = None
    low: int | None = None
    high: int | None = None


class FlowList(BaseModel):
    """Flows.

    Attributes
    ----------
    note : str
        What the numbers are.
    name, version : str
        Of the release.
    work_level, home_level : str
        Between whose areas jobs are added up.
    attributes : dict of str to str
        What the counts of a flow mean.
    implicate : int
        Of which synthetic data set.
    sums : list of str or None
        Sides all of whose areas are one.
    about_intervals : str or None
        What estimate, low and high are; where flows have none, why.
    flows : list of FlowEntry
        In the order of the geography, by work area or, where only home areas were asked for, by home area;
        with `top` the largest first.
    returned : int
        How many these are.
    matched : int or None
        How many there are, and
    jobs : dict of str to int, or None
        their jobs by attribute; not with `limit`.
    next : str or None
        Where it goes on, if `limit` was reached.
    """

    note: str = SYNTHETIC
    name: str
    version: str
    work_level: str
    home_level: str
    attributes: dict[str, str]
    implicate: int
    sums: list[str] | None = None
    about_intervals: str | None = None
    flows: list[FlowEntry]
    returned: int
    matched: int | None = None
    jobs: dict[str, int] | None = None
    next: str | None = None


class YearEntry(BaseModel):
    """The number of a year: synthetic workers by attribute, and of the first attribute what draws tell.

    Attributes
    ----------
    year : int
    version : str
        The version that stands for the year.
    estimate : float or None
        Of the true number of the first attribute that was asked for, and
    low, high : int or None
        its interval, where the release has draws of it (`intervals` of /contents).
    note : str or None
        Why the year has no number, or what is wrong with the version.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, int | None]

    year: int
    version: str
    estimate: float | None = None
    low: int | None = None
    high: int | None = None
    note: str | None = None


class YearList(BaseModel):
    """A number in every year.

    Attributes
    ----------
    note : str
        What the numbers are.
    name : str
        Of the release.
    work_level, home_level : str
        Of the areas that were asked for.
    attributes : dict of str to str
        What the counts mean.
    about_intervals : str or None
        What estimates and intervals of the newest year are; where it has none, why.
    about_changes : str
        What to know before years are compared.
    years : list of YearEntry
        The first year first.
    """

    note: str = SYNTHETIC
    name: str
    work_level: str
    home_level: str
    attributes: dict[str, str]
    about_intervals: str | None = None
    about_changes: str
    years: list[YearEntry]
