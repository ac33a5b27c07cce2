"""What a release is and what is in it: the one model behind its read-me, its records, exports and pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from geo_data.geography import Geography
from geo_data.od_files import LODES_CATEGORIES, count_columns
from pipelines.config.loading import PublicConfig
from pipelines.config.policies import FullPolicy
from pipelines.config.sections import AttributeSettings, MicrodataJobsSettings
from pipelines.release.certificate import AttributeField, Certificate
from pipelines.release.names import NAME_FILE
from pipelines.release.polygons import polygon_file


def kinds_of_work(geography: Geography) -> str:
    """Return the names of work outside the crosswalk, or without a place, for a sentence; "" without any."""
    return ", ".join(dict.fromkeys(geography.external_workplaces.values()))


def whose_jobs(geography: Geography) -> str:
    """Say what a reader who looks for residents has to know."""
    kinds = kinds_of_work(geography)
    beside = f"; and jobs without a work block there: {kinds}" if kinds else ""
    others = "in the region and work anywhere else" if kinds else "there and work elsewhere"
    return f"Counted are jobs at work blocks of the region{beside}. Those who live {others} are not in it."


_LODES_MEANING = {
    "S000": "all jobs",
    "SA01": "age 29 or younger",
    "SA02": "age 30 to 54",
    "SA03": "age 55 or older",
    "SE01": "earnings of 1,250 dollars a month or less",
    "SE02": "earnings of 1,251 to 3,333 dollars a month",
    "SE03": "earnings of more than 3,333 dollars a month",
    "SI01": "goods producing industries",
    "SI02": "trade, transportation and utilities",
    "SI03": "all other services",
}

# What LODES calls its groups of counts: meaning and unit.
_LODES_ATTRIBUTES = {
    "SA": ("age of the worker", "years"),
    "SE": ("earnings from the job", "US dollars a month"),
    "SI": ("industry of the employer", None),
}

# What the columns of the crosswalk of LODES are, which has these names for blocks.
_LODES_BLOCKS = ("tabblk2010", "tabblk2020")
_LODES_AREAS = {
    "st": "state",
    "cty": "county",
    "trct": "census tract",
    "bgrp": "census block group",
    "cbsa": "metropolitan or micropolitan area (CBSA)",
    "zcta": "ZIP code tabulation area",
    "stplc": "place (city, town or other)",
    "ctycsub": "county subdivision",
}

_KEYWORDS = ("commuting", "jobs", "origin-destination", "synthetic data", "differential privacy")

JOBS = "jobs"
"""The unit of every count."""

MEASUREMENT_FOLDER = "measurements"
"""Of a release whose mechanism measures tables: it has the noisy counts."""

VERIFIER = "verify.py"
"""The program of one file that every release carries."""


@dataclass(frozen=True)
class Attribute:
    """An attribute of the jobs: the column of its codes, and what it and each code, in order, stand for."""

    name: str
    meaning: str
    unit: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Column:
    """A column of a table; `labels` are of its codes, where it has codes of a few categories."""

    name: str
    meaning: str
    # Geometry is WKB, in degrees WGS84; integers are a list of them.
    kind: Literal["text", "integer", "number", "boolean", "geometry", "integers"] = "text"
    unit: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def words(self) -> str:
        """Meaning, unit and labels of codes in one line."""
        unit = f" ({self.unit})" if self.unit and self.unit != JOBS else ""
        labels = "; ".join(f"{code}: {label}" for code, label in self.labels.items() if code != label)
        return f"{self.meaning}{unit}{f'. {labels}' if labels else ''}"


@dataclass(frozen=True)
class Table:
    """A table of a release: what a row is, and its files, each with all rows, or a folder of parts."""

    name: str
    meaning: str
    files: tuple[str, ...]
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ReleaseDescription:
    """What a release says about itself to whoever finds it."""

    title: str
    summary: str
    year: int
    created: str  # UTC, ISO 8601
    version: str  # its day, in the form of a version number
    identifier: str  # URN, of the plan and the time
    licence: str | None
    publisher: str | None
    contact: str | None
    citation: str
    keywords: tuple[str, ...]
    extent: tuple[float, float, float, float] | None  # west, south, east, north; east may be beyond 180
    attributes: tuple[Attribute, ...]
    tables: tuple[Table, ...]  # the synthetic data first, then what is joined to them

    @property
    def box(self) -> str | None:
        """South, west, north and east, as schema.org's GeoShape has them."""
        if self.extent is None:
            return None
        west, south, east, north = self.extent
        return f"{south} {west} {north} {east}"

    def table(self, name: str) -> Table:
        """Return the table of a name, such as ``"od"``."""
        return next(table for table in self.tables if table.name == name)


def file_names(config: PublicConfig) -> dict[str, str]:
    """Return the names of the data files of a release, by kind; each implicate has files of these names.

    od_csv and od_parquet; aux_csv and aux_parquet, where workers may live outside; jobs_parquet, where jobs
    have attributes that the OD files count apart. Without CSV, each Parquet file is a folder of parts.
    """
    release = config.release
    tail = f"main_{release.job_type}_{release.year}"
    names = {
        "od_csv": f"{release.state}_od_{tail}.csv.gz",
        "od_parquet": f"{release.state}_od_{tail}.parquet",
    }
    if config.geography.external_zones:
        names["aux_csv"] = names["od_csv"].replace("_main_", "_aux_")
        names["aux_parquet"] = names["od_parquet"].replace("_main_", "_aux_")
    if not release.csv:
        names = {kind: name for kind, name in names.items() if not kind.endswith("csv")}
    # Only job-level input says which attributes belong to one job.
    if isinstance(config.jobs, MicrodataJobsSettings) and len(config.jobs.attributes) > 1:
        names["jobs_parquet"] = f"{release.state}_jobs_{tail}.parquet"
    return names


def attributes_of(
    categories: Mapping[str, tuple[str, ...]], stated: Iterable[AttributeSettings]
) -> tuple[Attribute, ...]:
    """Say what the attributes of jobs with these categories mean, by what the configuration states."""
    tables = {table.name: table for table in stated}
    attributes = []
    for name, codes in categories.items():
        if LODES_CATEGORIES.get(name) == tuple(codes):
            meaning, unit = _LODES_ATTRIBUTES[name]
            labels = {code: _LODES_MEANING[code] for code in codes}
        else:
            table = tables.get(name) or AttributeSettings(name=name)
            meaning, unit = table.meaning or name, table.unit
            labels = {code: table.labels.get(code, code) for code in codes}
        attributes.append(Attribute(name, meaning, unit, labels))
    return tuple(attributes)


def count_meanings(
    categories: Mapping[str, tuple[str, ...]], stated: Iterable[AttributeSettings]
) -> dict[str, str]:
    """Say in words what each count of an OD file counts, by column, in the order of the file."""
    meanings = {"S000": _LODES_MEANING["S000"]}
    columns = count_columns(categories)
    for attribute in attributes_of(categories, stated):
        for column, (code, label) in zip(columns[attribute.name], attribute.labels.items(), strict=True):
            unit = f" {attribute.unit}" if attribute.unit and label != code else ""
            lodes = column == code
            meanings[column] = label if lodes else f"jobs whose {attribute.meaning} is {label}{unit}"
    return meanings


def describe_release(
    certificate: Certificate,
    config: PublicConfig,
    categories: Mapping[str, tuple[str, ...]],
    geography: Geography,
    *,
    named: bool,
    pooled_by: Sequence[str],
    workplaces: Sequence[Mapping[str, Any]],
    homes: Sequence[Mapping[str, Any]] | None,
) -> ReleaseDescription:
    """Describe a release by what its public folder holds.

    `named`: it has names of units. `pooled_by` are attributes whose categories have pools of their own,
    `workplaces` and `homes` what ``choices.workplaces`` and ``choices.tables`` of its plan say; no homes
    where the release has no noisy counts of them.
    """
    release, attributes = config.release, attributes_of(categories, config.attribute)
    publisher, licence = release.publisher, release.licence
    plan = certificate.plan_sha256
    title = f"{publisher}: {certificate.release.name}" if publisher else certificate.release.name
    mechanism_fields = certificate.classes[0].model_extra or {}
    version, day = certificate.software.version, certificate.created[:10]
    made = f"{title}. Synthetic data made with odsynth {version}, {day}. Plan {plan}"
    return ReleaseDescription(
        title=certificate.release.name,
        summary=_summary(certificate, geography),
        year=certificate.release.year,
        created=certificate.created,
        version=".".join(str(int(number)) for number in certificate.created[:10].split("-")),
        identifier=uuid5(NAMESPACE_URL, f"{plan} {certificate.created}").urn,
        licence=licence,
        publisher=publisher,
        contact=release.contact,
        citation=release.citation or made,
        keywords=_KEYWORDS,
        extent=_extent(geography),
        attributes=attributes,
        tables=(
            *_tables(config, categories, attributes, geography, named=named),
            *_of_plan(config, attributes, pooled_by, strata="retention" in mechanism_fields),
            *_of_workplaces(attributes, workplaces, grouped=homes is not None),
            *_of_homes(config, attributes, homes, sized=bool(workplaces)),
        ),
    )


def _summary(certificate: Certificate, geography: Geography) -> str:
    status = "" if certificate.for_release else "NOT FOR RELEASE. "
    user = certificate.user_level
    several = f" with at most {user.records} job records" if user.records > 1 else ""
    drawn = "homes"
    if certificate.protects == "record":
        drawn = "homes, workplaces and attributes"
    elif isinstance(certificate.policy, AttributeField):
        drawn = f"homes, with {certificate.policy.listed},"
    return (
        f"{status}{certificate.totals.synthetic_workers:,} synthetic workers: where they live and where they "
        f"work. No row is a real person. {whose_jobs(geography)} The {drawn} were drawn at random under "
        "(epsilon, delta)-probabilistic differential privacy with "
        f"epsilon {certificate.run.epsilon} and delta {certificate.run.delta}; for "
        f"one person{several} the release is differentially private with epsilon {user.epsilon} and delta "
        f"{user.delta}. The file certificate.json says what that covers, and can be computed again from the "
        "public plan."
    )


def _extent(geography: Geography) -> tuple[float, float, float, float] | None:
    if not (np.isfinite(geography.longitude) & np.isfinite(geography.latitude)).any():
        return None
    east, north = geography.unbroken(geography.longitude), geography.latitude
    west, south = np.nanmin(east), np.nanmin(north)
    return float(west), float(south), float(np.nanmax(east)), float(np.nanmax(north))


def _tables(
    config: PublicConfig,
    categories: Mapping[str, tuple[str, ...]],
    attributes: tuple[Attribute, ...],
    geography: Geography,
    *,
    named: bool,
) -> Iterator[Table]:
    implicates, names = config.implicates, file_names(config)
    outside = ", or of the external zone or kind of work" if geography.external_workplaces else ""
    work = Column("w_geocode", f"code of the work block{outside}")
    zone = ", or of the external zone where they live" if geography.external_homes else ""
    home = Column("h_geocode", f"code of the home block of the synthetic workers{zone}")
    pairs = (
        work,
        home,
        *(
            Column(name, f"number of jobs: {meaning}", "integer", JOBS)
            for name, meaning in count_meanings(categories, config.attribute).items()
        ),
        Column("createdate", "day of this release, YYYYMMDD"),
    )
    kinds = {"od": "home block", "aux": "external zone, where workers live,"}
    for number, folder in enumerate(implicates.folders, start=1):
        suffix = f"-{number:02}" if implicates.number > 1 else ""
        in_words = " of one implicate" if implicates.number > 1 else ""
        for kind, homes in kinds.items():
            forms = [f"{kind}_{form}" for form in ("csv", "parquet")]
            files = tuple(f"{folder}{names[form]}" for form in forms if form in names)
            if files:
                meaning = f"a pair of work block and {homes} with its jobs{in_words}"
                yield Table(f"{kind}{suffix}", meaning, files, pairs)
        if "jobs_parquet" in names:
            files = (f"{folder}{names['jobs_parquet']}",)
            yield Table(
                f"workers{suffix}", f"a synthetic worker{in_words}", files, (work, home, *_coded(attributes))
            )
    zones = " or an external zone" if geography.external_zones else ""
    blocks = _of_blocks(geography, config)
    yield Table("blocks", f"a block{zones}", ("plan/blocks.parquet",), blocks)
    if named:
        unit_names = (
            Column("level", "level of the area, or kind of area that cuts across levels"),
            Column("code", "code of the area"),
            Column("name", "name of the area"),
        )
        yield Table("names", "a named area", (NAME_FILE,), unit_names)
    for number, level in enumerate(config.geography.polygon_levels, start=1):
        shape = Column(level, "code of the area"), Column("geometry", "its shape", "geometry")
        meaning = f"an area of level {level} with its shape"
        yield Table(f"shapes-{number}", meaning, (polygon_file(level),), shape)


def _coded(attributes: tuple[Attribute, ...], names: Iterable[str] | None = None) -> list[Column]:
    """Return the columns of attributes: of all in their order, or of some in that of their names."""
    column_of = {
        attribute.name: Column(
            attribute.name, attribute.meaning, unit=attribute.unit, labels=attribute.labels
        )
        for attribute in attributes
    }
    return [column_of[name] for name in (column_of if names is None else names)]


def _of_plan(
    config: PublicConfig,
    attributes: tuple[Attribute, ...],
    pooled_by: Sequence[str],
    *,
    strata: bool,
) -> Iterator[Table]:
    """Yield the tables of the plan beside its blocks."""
    implicates = config.implicates
    kind = "entry of prior and retention in certificate.json, from 0" if strata else "always 0 here"
    draws = f"n times {implicates.number}, for all implicates" if implicates.of_run > 1 else "n"
    draws += f" for each of {implicates.runs} implicates" if implicates.runs > 1 else ""
    expected = " that are expected" if config.measures_workplaces else ""
    homes = "as n" if expected else f"number of homes that the release has for it: {draws}"
    yield Table(
        "slots",
        f"some jobs{expected} of one pool, that are alike",
        ("plan/slots.parquet",),
        (
            Column("pool", "row of plan/pools.parquet, from 0", "integer"),
            Column("work", "code of the work block"),
            *_coded(attributes, [attribute.name for attribute in attributes]),
            Column("count", "number of these jobs", "integer", JOBS),
        ),
    )
    yield Table(
        "pools",
        "a pool: jobs for which homes are drawn together",
        ("plan/pools.parquet",),
        (
            Column(
                "place", "its work block, or the first block of the area whose small work blocks share it"
            ),
            Column("shared", "whether small work blocks of an area share it", "boolean"),
            *_coded(attributes, pooled_by),
            Column("n", f"number of its jobs{expected}", "integer", JOBS),
            Column("m", homes, "integer"),
            Column(
                "domain", "row of plan/domains.parquet, from 0: the cells that its homes are in", "integer"
            ),
            Column("class", "entry of classes in certificate.json, from 0: its bounds", "integer"),
        ),
    )
    divided = (
        "all blocks" if isinstance(config.privacy.policy, FullPolicy) else "the blocks of one part of homes"
    )
    cuts = "first block of each cell: rows of plan/blocks.parquet, from 0, rising"
    yield Table(
        "domains",
        f"a division of {divided} into cells, in which homes are counted",
        ("plan/domains.parquet",),
        (
            Column("destination", "code of the work area that it was made for, the first if for several"),
            Column(
                "size",
                "number of jobs of the pools that it was made for; 1 if for all",
                "integer",
                JOBS,
            ),
            Column("cuts", cuts, "integers"),
            Column(
                "stratum",
                f"kind of each cell: {kind}",
                "integers",
            ),
        ),
    )
    yield Table(
        "shares",
        "a work area with the public model of its workers' homes",
        ("plan/shares.parquet",),
        (
            Column("destination", "code of the work area"),
            Column(
                "unit",
                "home areas that have a share: positions among all areas of model_level of "
                "plan/plan.json as plan/blocks.parquet has them, from 0, rising",
                "integers",
            ),
            Column("share", "expected share of each of these in the homes, out of 65,536", "integers"),
        ),
    )


def _of_homes(
    config: PublicConfig,
    attributes: tuple[Attribute, ...],
    homes: Sequence[Mapping[str, Any]] | None,
    *,
    sized: bool,
) -> Iterator[Table]:
    """Yield the tables of noisy counts of homes: that of the pools, and those beyond it.

    `sized`: pools are of jobs that were estimated.
    """
    if homes is None:
        return
    runs = config.implicates.runs
    pools = "pool of the jobs in measurements/slots.parquet" if sized else "row of plan/pools.parquet"
    first = Column("pool", f"{pools}, from 0", "integer")
    for k, table in enumerate([None, *homes], start=1):
        if table is None:
            group, columns, cells = "a pool", [first], "cells of its domain (plan/domains.parquet)"
        else:
            area = (
                f"code of the {table['work']} of the work block"
                if table["work"]
                else "empty: all work blocks"
            )
            columns = [Column("work", area), *_coded(attributes, table["by"])]
            group, cells = "jobs that are alike in these columns", f"areas of {table['home']}, in their order"
        noisy = Column(
            "noisy", f"jobs with homes in each of the {cells}, with random noise", "integers", JOBS
        )
        files = tuple(
            f"{MEASUREMENT_FOLDER}/{f'run-{run + 1}/' if runs > 1 else ''}table-{k}.parquet"
            for run in range(runs)
        )
        for run, file in enumerate(files, start=1):
            suffix = f"-{run}" if runs > 1 else ""
            yield Table(
                f"noisy-{k}{suffix}", f"{group}, with noisy counts of homes", (file,), (*columns, noisy)
            )


def _of_workplaces(
    attributes: tuple[Attribute, ...], measured: Sequence[Mapping[str, Any]], *, grouped: bool
) -> Iterator[Table]:
    """Yield the tables of noisy counts of workplaces, and of the slots that were estimated from them.

    `grouped`: homes were counted in groups of the first of two estimates.
    """
    for k, table in enumerate(measured, start=1):
        area = f"code of the {table['work']}" if table["work"] else "empty: all work blocks"
        noisy = Column("noisy", "jobs of this kind, with random noise", "integer", JOBS)
        columns = (Column("work", area), *_coded(attributes, table["by"]), noisy)
        file = f"{MEASUREMENT_FOLDER}/workplaces-{k}.parquet"
        yield Table(f"workplaces-{k}", "a noisy count of jobs by workplace", (file,), columns)
    if measured:
        columns = (
            Column("work", "code of the work block"),
            *_coded(attributes),
            Column("count", "number of these jobs", "integer", JOBS),
        )
        groups = "groups", "grouped-slots", "estimated from counts of workplaces, by which homes are grouped"
        slots = "slots", "estimated-slots", "estimated from noisy counts, and released"
        for file, name, meaning in (groups, slots) if grouped else (slots,):
            files = (f"{MEASUREMENT_FOLDER}/{file}.parquet",)
            yield Table(name, f"jobs that are alike, {meaning}", files, columns)


def _of_blocks(geography: Geography, config: PublicConfig) -> tuple[Column, ...]:
    code, place = "code of the block", "of its centroid, WGS84"
    if geography.external_zones:
        code, place = f"{code}; prefix and 9s for an external zone", f"{place}; missing for an external zone"
    levels, cutting = geography.levels, geography.non_nesting_areas
    meanings = dict(_LODES_AREAS) if geography.block_level in _LODES_BLOCKS else {}
    meanings |= {table.name: table.meaning for table in config.attribute if table.meaning}
    groupings = config.geography.groupings

    def area(level: str, form: str) -> str:
        """Say what is known of a kind of area: its name, where its codes are from, how many there are."""
        source = (
            "neighbouring blocks, put together by odsynth" if level in groupings else "as in the crosswalk"
        )
        words = meanings.get(level, f"{level} ({source})")
        different = int((geography.codes(level) != "").sum())
        return f"code of its {words}{form}; {different:,} different codes{zones}"

    zones = ", with external zones" if geography.external_zones else ""
    finer = (*levels, geography.block_level)[1:]
    block = f"; {meanings[geography.block_level]}" if geography.block_level in meanings else ""
    return (
        Column(geography.block_level, f"{code}{block}"),
        *(
            Column(level, area(level, f", which consists of whole areas of {below}"))
            for level, below in zip(levels, finer, strict=True)
        ),
        *(
            Column(kind, area(kind, f"{', or empty' * ('' in part.codes)}; such areas cut across the levels"))
            for kind, part in cutting.items()
        ),
        Column("latitude", place, "number", "degrees"),
        Column("longitude", place, "number", "degrees"),
        Column("weight", "public weight with which homes are spread over blocks", "integer"),
    )
