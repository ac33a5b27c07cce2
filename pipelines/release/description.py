"""What a release is and what is in it: the one model behind its read-me, its records, exports and pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from geo_data.geography import Geography
from geo_data.od_files import LODES_CATEGORIES, count_columns
from pipelines.config.languages import ENGLISH
from pipelines.config.loading import PublicConfig
from pipelines.config.policies import FullPolicy
from pipelines.config.sections import AttributeSettings, MicrodataJobsSettings
from pipelines.release.certificate import Certificate, secret_in_words
from pipelines.release.csv_tables import BLOCK_CSV, NAME_CSV
from pipelines.release.intervals import AREAS_FILE, FLOWS_FILE, INTERVALS_FILE, N_DRAWS
from pipelines.release.names import NAME_FILE
from pipelines.release.pages import phrases
from pipelines.release.polygons import polygon_file


def kinds_of_work(geography: Geography) -> str:
    """Return the names of work outside the crosswalk, or without a place, for a sentence; "" without any."""
    return ", ".join(dict.fromkeys(geography.external_workplaces.values()))


def whose_jobs(geography: Geography, language: str = ENGLISH) -> str:
    """Say what a reader who looks for residents has to know."""
    return phrases(language).whose_jobs(kinds_of_work(geography))


# What the crosswalk of LODES calls blocks.
_LODES_BLOCKS = ("tabblk2010", "tabblk2020")
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
        counts = self.kind in ("integer", "integers")  # of jobs, as its meaning says
        unit = f" ({self.unit})" if self.unit and not counts else ""
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
class Correction:
    """A correction of what a release says of itself, after it was published; its data stayed as they were."""

    date: str  # UTC, ISO 8601
    reason: str
    changed: tuple[str, ...]  # keys of its configuration, by table, or the file of names
    corrects: str  # SHA-256 of the SHA256SUMS of what was corrected


@dataclass(frozen=True)
class ReleaseDescription:
    """What a release says about itself to whoever finds it."""

    language: str  # of what is words in it
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
    corrections: tuple[Correction, ...] = ()  # oldest first

    @property
    def modified(self) -> str | None:
        """When it was last corrected; None if it never was."""
        return self.corrections[-1].date if self.corrections else None

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
    subject = f"{release.job_type}_{release.year}"
    names = {
        "od_csv": f"{release.state}_od_main_{subject}.csv.gz",
        "od_parquet": f"{release.state}_od_main_{subject}.parquet",
    }
    if config.geography.external_zones:
        names["aux_csv"] = names["od_csv"].replace("_main_", "_aux_")
        names["aux_parquet"] = names["od_parquet"].replace("_main_", "_aux_")
    if not release.csv:
        names = {kind: name for kind, name in names.items() if not kind.endswith("csv")}
    # Only job-level input says which attributes belong to one job.
    if isinstance(config.jobs, MicrodataJobsSettings) and len(config.jobs.attributes) > 1:
        names["jobs_parquet"] = f"{release.state}_jobs_{subject}.parquet"  # of main and aux
    return names


def attributes_of(
    categories: Mapping[str, tuple[str, ...]], stated: Iterable[AttributeSettings], language: str = ENGLISH
) -> tuple[Attribute, ...]:
    """Say what the attributes of jobs with these categories mean, by what the configuration states."""
    tables, say = {table.name: table for table in stated}, phrases(language)
    attributes = []
    for name, codes in categories.items():
        if LODES_CATEGORIES.get(name) == tuple(codes):
            meaning, unit = say.lodes_attributes[name]
            labels = {code: say.lodes_counts[code] for code in codes}
        else:
            table = tables.get(name) or AttributeSettings(name=name)
            meaning, unit = table.meaning or name, table.unit
            labels = {code: table.labels.get(code, code) for code in codes}
        attributes.append(Attribute(name, meaning, unit, labels))
    return tuple(attributes)


def count_meanings(
    categories: Mapping[str, tuple[str, ...]], stated: Iterable[AttributeSettings], language: str = ENGLISH
) -> dict[str, str]:
    """Say in words what each count of an OD file counts, by column, in the order of the file."""
    say, columns = phrases(language), count_columns(categories)
    meanings = {"S000": say.lodes_counts["S000"]}
    for attribute in attributes_of(categories, stated, language):
        for column, (code, label) in zip(columns[attribute.name], attribute.labels.items(), strict=True):
            unit = attribute.unit if label != code else None
            lodes = column == code
            meanings[column] = label if lodes else say.jobs_with(attribute.meaning, label, unit)
    return meanings


def describe_release(
    certificate: Certificate,
    config: PublicConfig,
    categories: Mapping[str, tuple[str, ...]],
    geography: Geography,
    *,
    named: bool,
    drawn: bool,
    pooled_by: Sequence[str],
    workplaces: Sequence[Mapping[str, Any]],
    homes: Sequence[Mapping[str, Any]] | None,
    language: str = ENGLISH,
) -> ReleaseDescription:
    """Describe a release by what its public folder holds.

    `named`: it has names of units; `drawn`: it has draws. `pooled_by` are attributes whose categories have
    pools of their own, `workplaces` and `homes` what ``choices.workplaces`` and ``choices.tables`` of its
    plan say; no homes where the release has no noisy counts of them.
    """
    release, attributes = config.release, attributes_of(categories, config.attribute, language)
    publisher, licence = release.publisher, release.licence
    plan = certificate.plan_sha256
    title = certificate.release.title
    title = f"{publisher}: {title}" if publisher else title
    mechanism_fields = certificate.classes[0].model_extra or {}
    version, day, say = certificate.software.version, certificate.created[:10], phrases(language)
    # Wherever it stands, and in whatever language: a release is cited in its own.
    made = phrases(release.language).citation(title, version, day, plan)
    return ReleaseDescription(
        language=language,
        title=certificate.release.title,
        summary=say.summary(
            certificate, secret_in_words(certificate.policy, language), whose_jobs(geography, language)
        ),
        year=certificate.release.year,
        created=certificate.created,
        version=version_of(certificate.created),
        identifier=uuid5(NAMESPACE_URL, f"{plan} {certificate.created}").urn,
        licence=licence,
        publisher=publisher,
        contact=release.contact,
        citation=release.citation or made,
        keywords=tuple(say.keywords),
        extent=_extent(geography),
        attributes=attributes,
        tables=(
            *_tables(config, categories, attributes, geography, language, named=named),
            *(_of_intervals(attributes, say, as_csv=config.release.csv) if drawn else ()),
            *_of_plan(config, attributes, pooled_by, say, strata="retention" in mechanism_fields),
            *_of_workplaces(attributes, workplaces, say, grouped=homes is not None),
            *_of_homes(
                config,
                attributes,
                homes,
                say,
                sized=bool(workplaces),
                gaussian="sigma_squared" in mechanism_fields,
            ),
        ),
    )


def version_of(date: str) -> str:
    """Return a day in the form of a version number."""
    return ".".join(str(int(number)) for number in date[:10].split("-"))


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
    language: str,
    *,
    named: bool,
) -> Iterator[Table]:
    """Yield the tables of the data, of blocks, names and shapes."""
    implicates, names, say = config.implicates, file_names(config), phrases(language)
    several = implicates.number > 1
    work = Column("w_geocode", say.work_column(bool(geography.external_workplaces)))
    home = Column("h_geocode", say.home_column(bool(geography.external_homes)))
    pairs = (
        work,
        home,
        *(
            Column(name, say.count_column(meaning), "integer", say.jobs)
            for name, meaning in count_meanings(categories, config.attribute, language).items()
        ),
        Column("createdate", say.day_column),
    )
    for number, folder in enumerate(implicates.folders, start=1):
        suffix = f"-{number:02}" if several else ""
        for kind in ("od", "aux"):
            forms = [f"{kind}_{form}" for form in ("csv", "parquet")]
            files = tuple(f"{folder}{names[form]}" for form in forms if form in names)
            if files:
                yield Table(f"{kind}{suffix}", say.pairs_row(kind == "aux", several), files, pairs)
        if "jobs_parquet" in names:
            files = (f"{folder}{names['jobs_parquet']}",)
            columns = (work, home, *_coded(attributes))
            yield Table(f"workers{suffix}", say.worker_row(several), files, columns)
    zones = bool(geography.external_zones)
    as_csv = config.release.csv
    files = (*([BLOCK_CSV] if as_csv else []), "plan/blocks.parquet")
    yield Table("blocks", say.blocks_row(zones), files, _of_blocks(geography, config, say))
    if named:
        unit_names = (
            Column("level", say.level_column),
            Column("code", say.code_column),
            Column("name", say.name_column),
        )
        files = (*([NAME_CSV] if as_csv else []), NAME_FILE)
        yield Table("names", say.names_row, files, unit_names)
    for number, level in enumerate(config.geography.polygon_levels, start=1):
        shape = Column(level, say.code_column), Column("geometry", say.shape_column, "geometry")
        yield Table(f"shapes-{number}", say.shapes_row(level), (polygon_file(level),), shape)


def _of_intervals(attributes: tuple[Attribute, ...], say: Any, *, as_csv: bool) -> Iterator[Table]:
    """Yield the table of draws, and those of intervals that follow from it."""
    level, estimate = Column("level", say.level_column), Column("estimate", say.estimate_column, "number")
    ends = Column("low", say.low_column, "integer"), Column("high", say.high_column, "integer")
    home, work = Column("home", say.home_area_column), Column("work", say.drawn_work_column)
    categories = (
        Column(each.name, say.drawn_category_column(each.meaning), unit=each.unit, labels=each.labels)
        for each in attributes
    )
    draws = (Column(f"draw_{k}", say.draw_column(k), "integer", say.jobs) for k in range(1, N_DRAWS + 1))
    columns = (Column("table", say.table_column), home, work, *categories, *draws)
    yield Table("intervals", say.draws_row, (INTERVALS_FILE,), columns)
    if as_csv:
        area = Column("code", say.code_column), Column("name", say.name_column)
        counted = Column("count", say.count_column_of_areas)
        yield Table("areas", say.areas_row, (AREAS_FILE,), (level, *area, counted, estimate, *ends))
        names = Column("home_name", say.home_name_column), Column("work_name", say.work_name_column)
        pair = home, names[0], Column("work", say.work_area_column), names[1]
        yield Table("flows", say.flows_row, (FLOWS_FILE,), (level, *pair, estimate, *ends))


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
    say: Any,
    *,
    strata: bool,
) -> Iterator[Table]:
    """Yield the tables of the plan beside its blocks."""
    expected = config.measures_workplaces
    yield Table(
        "slots",
        say.slots_row(expected),
        ("plan/slots.parquet",),
        (
            Column("pool", say.pool_column, "integer"),
            Column("work", say.work_block_column),
            *_coded(attributes, [attribute.name for attribute in attributes]),
            Column("count", say.slots_column, "integer", say.jobs),
        ),
    )
    yield Table(
        "pools",
        say.pools_row,
        ("plan/pools.parquet",),
        (
            Column("place", say.pool_place_column),
            Column("shared", say.shared_column, "boolean"),
            *_coded(attributes, pooled_by),
            Column("n", say.n_column(expected), "integer", say.jobs),
            Column("m", say.m_column(expected, config.implicates), "integer"),
            Column("domain", say.domain_column, "integer"),
            Column("class", say.class_column, "integer"),
        ),
    )
    yield Table(
        "domains",
        say.domains_row(not isinstance(config.privacy.policy, FullPolicy)),
        ("plan/domains.parquet",),
        (
            Column("destination", say.made_for_column),
            Column("size", say.size_column, "integer", say.jobs),
            Column("cuts", say.cuts_column, "integers"),
            Column("stratum", say.stratum_column(strata), "integers"),
        ),
    )
    yield Table(
        "shares",
        say.shares_row,
        ("plan/shares.parquet",),
        (
            Column("destination", say.work_area_column),
            Column("unit", say.unit_column, "integers"),
            Column("share", say.share_column, "integers"),
        ),
    )
    if config.has_history:
        yield Table(
            "history",
            say.history_row,
            ("plan/history.parquet",),
            (
                Column("table", say.history_table_column, "integer"),
                Column("n", say.history_n_column, "integer", say.jobs),
                Column("mean", say.history_mean_column, "integers"),
                Column("variance", say.history_variance_column, "integers"),
            ),
        )


def _of_homes(
    config: PublicConfig,
    attributes: tuple[Attribute, ...],
    homes: Sequence[Mapping[str, Any]] | None,
    say: Any,
    *,
    sized: bool,
    gaussian: bool,
) -> Iterator[Table]:
    """Yield the tables of noisy counts of homes: that of the pools, and those beyond it.

    `sized`: pools are of jobs that were estimated. `gaussian`: the noise is; otherwise it is geometric.
    """
    if homes is None:
        return
    runs = config.implicates.runs
    first = Column("pool", say.measured_pool_column(sized), "integer")
    for k, table in enumerate([None, *homes], start=1):
        if table is None:
            columns, home = [first], None
        else:
            area, home = say.measured_work_column(table["work"], True), table["home"]
            columns = [Column("work", area), *_coded(attributes, table["by"])]
        noisy = Column("noisy", say.noisy_column(home, gaussian), "integers", say.jobs)
        for run in range(1, runs + 1):
            folder, suffix = (f"run-{run}/", f"-{run}") if runs > 1 else ("", "")
            files = (f"{MEASUREMENT_FOLDER}/{folder}table-{k}.parquet",)
            yield Table(f"noisy-{k}{suffix}", say.noisy_row(table is None), files, (*columns, noisy))


def _of_workplaces(
    attributes: tuple[Attribute, ...], measured: Sequence[Mapping[str, Any]], say: Any, *, grouped: bool
) -> Iterator[Table]:
    """Yield the tables of noisy counts of workplaces, and of the slots that were estimated from them.

    `grouped`: homes were counted in groups of the first of two estimates.
    """
    for k, table in enumerate(measured, start=1):
        noisy = Column("noisy", say.noisy_workplaces_column, "integer", say.jobs)
        area = Column("work", say.measured_work_column(table["work"], False))
        columns = (area, *_coded(attributes, table["by"]), noisy)
        file = f"{MEASUREMENT_FOLDER}/workplaces-{k}.parquet"
        yield Table(f"workplaces-{k}", say.noisy_workplaces_row, (file,), columns)
    if measured:
        columns = (
            Column("work", say.work_block_column),
            *_coded(attributes),
            Column("count", say.slots_column, "integer", say.jobs),
        )
        groups, slots = ("groups", "grouped-slots"), ("slots", "estimated-slots")
        for file, name in (groups, slots) if grouped else (slots,):
            files = (f"{MEASUREMENT_FOLDER}/{file}.parquet",)
            yield Table(name, say.estimated_row(file == "groups"), files, columns)


def _of_blocks(geography: Geography, config: PublicConfig, say: Any) -> tuple[Column, ...]:
    zones = bool(geography.external_zones)
    levels, cutting = geography.levels, geography.non_nesting_areas
    meanings = dict(say.lodes_areas) if geography.block_level in _LODES_BLOCKS else {}
    meanings |= {table.name: table.meaning for table in config.attribute if table.meaning}

    def area(level: str, below: str | None, may_be_empty: bool) -> Column:
        """Say what is known of a kind of area: its name, where its codes are from, how many there are."""
        unnamed = say.unnamed_level(level, level in config.geography.groupings)
        different = int((geography.codes(level) != "").sum())
        words = meanings.get(level, unnamed)
        return Column(level, say.area_column(words, below, may_be_empty, different, zones))

    finer = (*levels, geography.block_level)[1:]
    place = say.place_column(zones)
    return (
        Column(geography.block_level, say.block_column(zones, meanings.get(geography.block_level))),
        *(area(level, below, False) for level, below in zip(levels, finer, strict=True)),
        *(area(kind, None, "" in part.codes) for kind, part in cutting.items()),
        Column("latitude", place, "number", say.degrees),
        Column("longitude", place, "number", say.degrees),
        Column("weight", say.weight_column, "integer"),
    )
