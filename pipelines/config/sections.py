"""The sections of a release configuration, one model a TOML table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

import synth
from pipelines.config.fields import (
    MOST,
    Columns,
    DeltaNumber,
    Email,
    EpsilonNumber,
    FactorNumber,
    Groupings,
    InputPath,
    JobType,
    Labels,
    Language,
    LevelName,
    LevelNames,
    Line,
    Mechanism,
    NameColumns,
    Names,
    PlaceNames,
    Population,
    PositiveNumber,
    RetentionNumber,
    ShareNumber,
    State,
    SummaryLevels,
    WeightNumber,
    Year,
    expand,
    one_of,
    shown,
    stored,
)
from pipelines.config.implicates import ImplicateSource
from pipelines.config.languages import ENGLISH
from pipelines.config.policies import Categories, FullPolicy, Policy, Protected
from pipelines.storage.stored_names import LONGEST_NAME
from synth.rationals import MAX_RECORDS

Problem: TypeAlias = tuple[str, str]
"""A key of the table, "" for the table itself, and what is wrong with the fix."""

# Columns that the files of a release have beside those named after attributes and levels. Capitals do not
# tell names apart: not in every program that reads these files, nor on every disk.
_OF_JOBS = (
    "place",
    "shared",
    "pool",
    "work",
    "count",
    "n",
    "m",
    "domain",
    "class",
    "noisy",
    "w_geocode",
    "h_geocode",
)
_OF_AREAS = ("latitude", "longitude", "weight", "geometry")


LONGEST_TITLE = LONGEST_NAME - len(", run ") - 16
"""Most characters of the title of a release: a ledger adds the number of the run."""


def tiers_in_ledger(tiers: Iterable[str]) -> str:
    """Return what a ledger adds to the title of a release with tiers; nothing without."""
    names = ", ".join(sorted(tiers))
    return f", tiers {names}" if names else ""


class SectionError(synth.ShownError, ValueError):
    """What the keys of a table must not be together."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = problems
        super().__init__("; ".join(text for _, text in problems))


def repeated(*columns: str | None) -> Iterator[Problem]:
    """Yield the columns that are named for two purposes, which is a slip of the pen."""
    for column, times in Counter(columns).items():
        if column is not None and times > 1:
            yield "", f"{shown(column)} is named {times} times; name a column for one purpose only"


def conflicting_names(key: str, names: Iterable[str], reserved: Sequence[str]) -> Iterator[Problem]:
    """Yield the names that cannot stand beside the others, or beside the columns that are there already."""
    seen: dict[str, str] = {}
    for name in names:
        if (folded := name.casefold()) in reserved:
            yield (
                key,
                f"{shown(name)} is the name of a column of the release; rename the column, in the file and "
                "here",
            )
        elif seen.setdefault(folded, name) != name:
            yield key, f"{shown(seen[folded])} and {shown(name)} differ in capitals only; rename one"


class Section(BaseModel):
    """A table of the configuration: unknown keys refused, types strict, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def _problems(self) -> Iterator[Problem]:
        """Yield what its keys must not be together."""
        yield from ()

    @model_validator(mode="after")
    def _together(self) -> Self:
        if problems := [*self._problems()]:
            raise SectionError(problems)
        return self


def tables_of(
    model: type[Section], path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], type[Section]]]:
    """Yield the tables below one, by path; the format ends the path where a table has one."""
    for name, field in model.model_fields.items():
        for table in _models(field.annotation):
            format_ = table.model_fields.get("format")
            table_path = (*path, name, *(get_args(format_.annotation) if format_ else ()))
            yield table_path, table
            yield from tables_of(table, table_path)


def _models(annotation: object) -> list[type[Section]]:
    """Return the models of a union of models, in whatever it is wrapped."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]


class PublicReleaseSettings(Section):
    """What is released."""

    name: Annotated[Line, stored(LONGEST_TITLE)]
    """Title that people read."""
    state: State
    """First part of the file names: lower-case letters, digits, underscore."""
    year: Year
    """Year of the jobs."""
    job_type: JobType = "JT00"
    """LODES job type, `"JT00"` (all jobs) to `"JT05"`."""
    mechanism: Mechanism | None = None
    """`"dirichlet"` (resampling), `"geometric"` or `"gaussian"` (noise). Left out, the planner takes
    resampling or geometric noise: the one whose best plan loses less over the workload, among those that can
    do all that is asked for. `"gaussian"` is for many releases about the same jobs, whose `rho` adds up; of
    one release it loses more. It protects homes, needs a `delta` above 0, and has no pure guarantee."""
    csv: bool = True
    """Write the origin-destination files as csv.gz too, and blocks, names, areas and flows as CSV. Without
    it, a large release is quicker and smaller: each Parquet table is a folder with a file for each batch,
    and `odsynth export` makes CSV when wanted."""
    implicates: Annotated[int, Field(ge=1, le=99)] = 1
    """Number of synthetic data sets of the same records, 1 to 99. `epsilon` and `delta` are for all of them
    together."""
    implicate_source: ImplicateSource = "independent-runs"
    """Implicates come from independent runs of the mechanism, which combining rules need, or from one urn,
    which costs less."""
    licence: Line | None = None
    """Licence of the released data, such as `"CC-BY-4.0"` or an address. Every exported file has it."""
    publisher: Line | None = None
    """Who publishes the release. Its read-me and its records give this name."""
    contact: Email | None = None
    """E-mail address for questions about the release. It stays in the release for good."""
    citation: Line | None = None
    """How to cite the release. Left out, the citation has publisher, title, date and plan."""
    language: Language = ENGLISH
    """English, `"en"`, or German, `"de"`: the language of the release's pages and records, of its maps,
    figures, exports and intervals, and of its comparison with a release of the same language. The
    certificate, the plan, names of columns and messages of programs are English."""


class ReleaseSettings(PublicReleaseSettings):
    """What is released and where it goes."""

    out: InputPath
    """Folder of the release. It must not exist when a run begins."""


class PrivacySettings(Section):
    """The privacy loss that the whole release may cost one job record."""

    epsilon: EpsilonNumber
    """Largest privacy loss, above 0 and at most 100."""
    delta: DeltaNumber
    """Probability of a loss above `epsilon`; in [0, 1)."""
    guarantee: Literal["pdp", "dp"] = "pdp"
    """The guarantee that must hold with `epsilon` and `delta`: `"pdp"`, probabilistic differential privacy of
    the whole run, or `"dp"`, record-level differential privacy. The certificate states both."""
    protects: Protected = "home"
    """What of a job record is protected. `"record"`, the default for microdata: home, workplace, attributes,
    and whether the record is there at all. `"home"`, the default for LODES: the home; the workplace and the
    attributes of every job are then public, and released exactly. `["home", "earnings"]`: home and these
    attributes, each with `categories` in its `[[attribute]]`."""
    policy: Policy = FullPolicy()
    """Which homes may stand for a home. `"full"`: any. `{ partition = "cty" }`: any in the same unit of a
    level; the unit of each job's home is then public, and reproduced exactly. `{ distance_km = 16 }`: any
    whose block lies within this distance."""

    @property
    def secret(self) -> tuple[str, ...]:
        """Attributes that are protected with homes, where workplaces and other attributes are not."""
        return self.protects[1:] if isinstance(self.protects, tuple) else ()


class LodesJobsSettings(Section):
    """Confidential jobs in the form of a LODES origin-destination file."""

    format: Literal["lodes"]
    file: InputPath
    """The main file (csv, csv.gz or Parquet): workers who live in the geography. A name with * or ? stands
    for all files that match, such as one for each state."""
    aux: InputPath | None = None
    """The aux file, or files: workers who live in external zones (`geography.external_zones`)."""
    records_per_worker: ClassVar[int] = 1
    population: Population = "all"
    """Whose jobs are released. `"all"`: jobs of all workers; needs `aux`. `"residents"`: jobs of people whose
    home lies inside the geography; this is then taken to be public, not protected."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The confidential files."""
        return (*expand(self.file), *(() if self.aux is None else expand(self.aux)))


class MicrodataJobsSettings(Section):
    """Confidential jobs as one row per job."""

    format: Literal["microdata"]
    file: InputPath
    """The csv, csv.gz or Parquet file; a name with * or ? stands for all files that match."""
    home: Line
    """Column of the home block."""
    work: Line
    """Column of the work block."""
    worker: Line | None = None
    """Column that identifies the worker, if there is one."""
    count: Line | None = None
    """Column of the number of jobs of a row. Without it, each row is one job."""
    decimal_point: bool = False
    """A point in `count` is a decimal mark, even where it may separate thousands (1.000)."""
    attributes: Names = ()
    """Columns of attributes of the job."""
    records_per_worker: Annotated[int, Field(ge=1, le=MAX_RECORDS)] = 1
    """The most job records that one worker may have, 1 to 1,000. `privacy` is about one record. A worker with
    several loses more: plan and certificate state this loss, and the ledger is debited with it."""
    population: Population = "all"
    """Whose jobs are released. `"all"`: jobs of all workers; needs `geography.external_zones`. `"residents"`:
    jobs of people whose home lies inside the geography; this is then taken to be public, not protected."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The confidential files."""
        return expand(self.file)

    def _problems(self) -> Iterator[Problem]:
        yield from repeated(self.home, self.work, self.worker, self.count, *self.attributes)
        yield from conflicting_names("attributes", self.attributes, _OF_JOBS)
        if self.worker is not None and self.count is not None:
            yield "count", "rows that count several jobs cannot name one worker; leave count or worker out"


JobsSettings: TypeAlias = LodesJobsSettings | MicrodataJobsSettings


class FlowTable(Section):
    """A public table of flows that informs the plan: one row for each pair of areas."""

    format: Literal["flows"]
    file: InputPath
    """The table."""
    origin: Columns
    """Column of the home area's code, or several whose texts are joined."""
    origin_level: Line
    """Level (or kind of non-nesting area) of the home areas."""
    destination: Columns
    """Column of the work area's code, or several whose texts are joined."""
    destination_level: Line
    """Level (or kind of non-nesting area) of the work areas."""
    flow: Line
    """Column of the public count."""
    margin: Line | None = None
    """Column of its margin of error at 90 %."""
    decimal_point: bool = False
    """A point in `flow` is a decimal mark, even where it may separate thousands (1.000)."""
    same_jobs: bool = False
    """The table counts the same jobs as the release, as an earlier release does. Its totals are then compared
    with the public number of jobs."""

    def _problems(self) -> Iterator[Problem]:
        yield from repeated(*self.origin, *self.destination, self.flow, self.margin)


class CtppTable(Section):
    """A public table of flows of the Census Transportation Planning Products, Part 3."""

    format: Literal["ctpp"]
    file: InputPath
    """The table."""
    levels: SummaryLevels
    """The summary levels to read, each with its level (or kind of non-nesting area) in the geography; a list
    of two where residence and workplace differ."""
    table: Line | None = None
    """The table to read, where the file has several."""
    line: Annotated[int, Field(ge=1, le=MOST)] = 1
    """The line to read: 1 is the total."""


class AcsTable(Section):
    """A public table of county-to-county commuting flows of the American Community Survey."""

    format: Literal["acs"]
    file: InputPath
    """The published workbook, saved as CSV."""
    level: Line
    """The level of the geography whose units are counties."""


class LodesTable(Section):
    """An earlier LODES origin-destination release, added up."""

    format: Literal["lodes"]
    file: InputPath
    """The main file."""
    aux: InputPath | None = None
    """The aux file."""
    origin_level: Line
    """Level (or kind of non-nesting area) to which homes are added up."""
    destination_level: Line
    """Level (or kind of non-nesting area) to which workplaces are added up."""
    same_jobs: bool = True
    """As for `format = "flows"`. Left out, it is false where the file's name has another job type."""


AuxiliaryTable: TypeAlias = FlowTable | CtppTable | AcsTable | LodesTable


class WorkplaceSettings(Section):
    """A public table of jobs by workplace. The release has its totals; totals of records are protected."""

    file: InputPath
    """The table. For microdata: the columns of work block and attributes, named as in `jobs`, and `count`.
    For LODES jobs: the columns of an origin-destination file, without homes."""
    count: Line | None = None
    """For microdata: the column of the number of jobs of a row."""
    fewest: ShareNumber = Fraction(4, 5)
    """For `"dirichlet"`: the fewest confidential jobs expected in a pool, as a share of its public total, in
    (0, 1]. A pool with fewer is filled up with homes drawn from public data."""
    most: FactorNumber = Fraction(5, 4)
    """The same for the most jobs, at least 1. From a pool with more, some are left out at random."""

    @property
    def record_range(self) -> synth.RecordRange:
        """The range of the records of a pool."""
        return synth.RecordRange(self.fewest, self.most)


class WeightsSettings(Section):
    """Public weights, such as population, by which the workers of a cell are spread over its blocks."""

    file: InputPath
    """The table."""
    level: Line
    """Level of its areas."""
    area: Line
    """Column of the area's code."""
    weight: Line
    """Column of the weight."""
    decimal_point: bool = False
    """A point in `weight` is a decimal mark, even where it may separate thousands (1.000)."""

    def _problems(self) -> Iterator[Problem]:
        yield from repeated(self.area, self.weight)


class WorkloadTable(Section):
    """A table that the release is for: jobs counted by home area, work area and attributes.

    Without any the release is for the tables that choosing.md names, in equal weights.
    """

    home: Line | None = None
    """Level (or kind of non-nesting area) of the home areas. An external zone is an area of every level.
    Where whole records are protected, it may be left out: jobs are then counted by workplace alone."""
    work: Line | None = None
    """The same for the work areas, which may be blocks. Left out, the table counts residents, wherever they
    work."""
    attributes: Names = ()
    """Attributes by whose categories jobs are counted; of several, by every combination of categories. At
    most one for LODES jobs."""
    weight: WeightNumber = Fraction(1)
    """How much a misplaced job of this table counts, compared with jobs of other tables; at least 0. With 0,
    the table is only reported."""

    def _problems(self) -> Iterator[Problem]:
        yield from repeated(*self.attributes)


class ShareTable(Section):
    """Public shares of the categories of a protected attribute among jobs: a prior, and no more.

    The key `table` of `[[attribute]]`. It goes without `[workplaces]`, which has the categories too.
    """

    file: InputPath
    """The table: a row for each category, or for each area and category."""
    category: Line
    """Column of the category."""
    count: Line
    """Column of the number of jobs, or of their share."""
    level: Line | None = None
    """Level of the work areas. Left out together with `area`, the table is of the whole region."""
    area: Line | None = None
    """Column of the area's code."""
    decimal_point: bool = False
    """A point in `count` is a decimal mark, even where it may separate thousands (1.000)."""

    def _problems(self) -> Iterator[Problem]:
        yield from repeated(self.area, self.category, self.count)
        present, absent = ("level", "area") if self.area is None else ("area", "level")
        if (self.level is None) != (self.area is None):
            yield absent, f"missing beside {present}; name both, or none for the whole region"


class AttributeSettings(Section):
    """What an attribute of the jobs, or a kind of area, means. The release explains its columns with it.

    Attributes of LODES jobs are known; those of microdata, and levels other than those of LODES, are called
    what their columns are, unless it is said here.
    """

    name: Line
    """The attribute, of `jobs.attributes`; or `geography.block`, a level or a kind of non-nesting areas."""
    meaning: Line | None = None
    """What it is, in a few words: for an attribute, words after "jobs whose", such as "working time"; for a
    kind of area, words after "code of its", such as "output area of the census"."""
    unit: Line | None = None
    """Unit of its categories, such as "hours a week"."""
    labels: Labels = Field(default_factory=dict)
    """What its codes stand for, where they do not explain themselves."""
    categories: Categories | None = None
    """All categories that a job may have; one may stand for a missing value. Needed where the attribute is
    protected (`privacy.protects`): its categories may then not be read from the jobs."""
    table: ShareTable | None = None
    """Where the attribute is protected: a public table of how its categories share jobs."""


class RunSettings(Section):
    """How a run works; nothing here changes what is released."""

    batch_jobs: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """About how many jobs one task draws, which bounds its memory. Left out, 100,000, and more for large
    releases."""
    world_readable: bool = False
    """Accept confidential files that everybody on the machine can read."""


class PublicPolygonTable(Section):
    """A public file of the shapes of the units of a level, kept in the release for maps."""

    level: Line
    """Level of the units."""
    file: InputPath
    """The file: GeoParquet, or any format that GDAL reads."""
    code: Line
    """Column of the unit's code."""


class PolygonTable(PublicPolygonTable):
    """A public file of the shapes of the units of a level, kept in the release for maps."""

    name: Line | None = None
    """Column of the unit's name; these names are kept instead of the crosswalk's."""


class PublicGeographySettings(Section):
    """The public geography: one row per block."""

    file: InputPath
    """The table of blocks, called the crosswalk."""
    block: LevelName
    """Column of the block's code. Like the names of levels, its name becomes part of file names: no slash, no
    backslash, no dot at its beginning."""
    levels: LevelNames
    """Columns of the levels above the block, coarsest first, named like `block`. May be empty."""
    latitude: Line | None = None
    """Column of the latitude of the block's centroid, in degrees; left out where the file has geometry."""
    longitude: Line | None = None
    """Column of the centroid's longitude, in degrees; named or left out together with `latitude`."""
    external_zones: Names = ()
    """Zones outside the crosswalk where workers may live, as prefixes of geocodes. "us-states" stands for
    every state of the United States without a block in the crosswalk."""
    external_workplaces: PlaceNames = Field(default_factory=dict)
    """Work outside the crosswalk, or without a place: prefixes of codes in the column of workplaces, each
    with its name, such as `{ HOME = "at home", NONE = "no fixed place", ABRD = "abroad" }`. Nobody lives
    there, unless `external_zones` has the same prefix."""
    uninhabited: Names = ()
    """Areas where nobody can live, as codes of blocks or of units of any level. They get no homes."""
    without_work: Names = ()
    """Areas where nobody can work, as the same kinds of codes."""
    groupings: Groupings = Field(default_factory=dict)
    """Levels without a column in the crosswalk, each with a number: a unit of the next coarser level is
    divided into so many groups of neighbouring blocks."""
    non_nesting_areas: LevelNames = ()
    """Columns of areas that cut across the levels, such as places. Auxiliary tables and tables of the
    workload may use these areas; maps find them."""
    polygons: Annotated[tuple[PublicPolygonTable, ...], Field(strict=False)] = ()
    """Shapes of the units of levels; those of the blocks are in `file` where that has geometry."""

    @property
    def polygon_levels(self) -> tuple[str, ...]:
        """The levels of which a release has polygons, coarsest first."""
        named = {table.level for table in self.polygons}
        if self.latitude is None:
            named.add(self.block)
        return tuple(level for level in (*self.levels, self.block) if level in named)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of areas of all kinds."""
        return (*self.levels, self.block, *self.non_nesting_areas)

    @property
    def columns_of_names(self) -> tuple[str, ...]:
        """Columns of the names of areas."""
        return ()

    def _problems(self) -> Iterator[Problem]:
        for codes in (self.external_zones, self.uninhabited, self.without_work):
            yield from repeated(*codes)
        yield from repeated(*self.columns, self.latitude, self.longitude, *self.columns_of_names)
        yield from conflicting_names("", self.columns, _OF_AREAS)
        for level, times in Counter(table.level for table in self.polygons).items():
            if times > 1:
                yield "polygons", f"{shown(level)} has {times} tables; name one file for each level"
        for number, table in enumerate(self.polygons, start=1):
            if table.level not in (levels := (*self.levels, self.block)):
                rule = f"{shown(table.level)} is not a level of the geography; use {one_of(levels)}"
                yield f"polygons #{number}.level", f"{rule}, or add it to geography.levels"
        present, absent = ("latitude", "longitude") if self.longitude is None else ("longitude", "latitude")
        if (self.latitude is None) != (self.longitude is None):
            yield absent, f"missing beside {present}; name both, or none where the file has polygons"
        for name in self.groupings:
            if name not in self.levels:
                yield "groupings", f"{shown(name)} is not in geography.levels; add it there, in its order"


class GeographySettings(PublicGeographySettings):
    """The public geography: one row per block."""

    names: NameColumns | None = None
    """Columns of the names of units, by level. The release keeps the names for maps. Left out, each level `X`
    has the column `Xname`, as in LODES, where the file has one; {} for no names."""
    polygons: Annotated[tuple[PolygonTable, ...], Field(strict=False)] = ()

    @property
    def columns_of_names(self) -> tuple[str, ...]:
        """Columns of the names of areas."""
        return tuple((self.names or {}).values())

    def _problems(self) -> Iterator[Problem]:
        yield from super()._problems()
        names = self.names or {}
        with_shapes = [table.level for table in self.polygons if table.name is not None]
        for level in names:
            if level not in self.columns:
                fix = "name its levels and non-nesting areas only"
                yield "names", f"{shown(level)} is not a level of the geography; {fix}"
            if level in self.groupings:
                yield "names", f"{shown(level)} is a grouping, whose units have no names; leave it out"
            if level in with_shapes:
                yield "names", f"{shown(level)} has names in geography.polygons too; leave one of the two out"


class LedgerSettings(Section):
    """The budget that pays for the release, and the ledger in which it is kept."""

    file: InputPath
    """The ledger, made by the first debit. Its folder must exist."""
    data_set: Annotated[Line, stored(LONGEST_NAME)]
    """Public name of the records from which the release is made."""
    period: Annotated[Line, stored(LONGEST_NAME)] | None = None
    """Label of the period that the budget is for. Left out, the budget is for ever."""
    epsilon: PositiveNumber | None = None
    """Budget of the data set in the period, for all releases together: what one person, with all records
    (`records_per_worker`), may lose by them, by plain sums. May be left out where `rho` is named."""
    delta: DeltaNumber
    """The same for delta, beside `epsilon`, `rho`, or each of them."""
    rho: PositiveNumber | None = None
    """The same as zCDP ([ledger.md](ledger.md#budgets-in-rho)). Where `epsilon` is named too, both limit."""
    total_epsilon: PositiveNumber | None = None
    """Budget of the data set over all periods, beside the budget of `period`. Left out with `total_rho`, the
    last total in the ledger, if any, limits all periods."""
    total_delta: DeltaNumber | None = None
    """The same for delta; needed with the others, and with them only."""
    total_rho: PositiveNumber | None = None
    """The same as zCDP."""
    window_years: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Budget of the data set in any so many years, beside the others
    ([ledger.md](ledger.md#a-window-of-years)). Left out, those in the ledger, if any, limit all the same."""
    window_epsilon: PositiveNumber | None = None
    """The most in these years, by plain sums."""
    window_delta: DeltaNumber | None = None
    """The same for delta; needed with `window_years`."""
    window_rho: PositiveNumber | None = None
    """The same as zCDP."""
    witness: Names = ()
    """Hashes of earlier debits, as runs have printed them. A ledger without them, such as a new one or an
    older copy, is refused."""

    def _problems(self) -> Iterator[Problem]:
        if self.epsilon is None and self.rho is None:
            yield "epsilon", "missing; name epsilon, rho, or both"
        limits = {"total_epsilon": self.total_epsilon, "total_rho": self.total_rho}
        named = [key for key, total in limits.items() if total is not None]
        if named and self.total_delta is None:
            yield "total_delta", f"missing beside {named[0]}; name both or neither"
        if not named and self.total_delta is not None:
            yield "total_epsilon", "missing beside total_delta; name both or neither"
        if (named or self.total_delta is not None) and self.period is None:
            rule = "without period, epsilon, delta and rho are the budget over all periods"
            yield [*named, "total_delta"][0], f"{rule}; leave it out, or name a period"
        window = {
            "window_years": self.window_years,
            "window_delta": self.window_delta,
            "window_epsilon": self.window_epsilon or self.window_rho,
        }
        for key, value in window.items() if any(value is not None for value in window.values()) else ():
            if value is None:
                or_rho = " or window_rho" if key == "window_epsilon" else ""
                yield key, f"missing; a window needs window_years, window_delta, and window_epsilon{or_rho}"

    @property
    def over_all_periods(self) -> tuple[Fraction | None, Fraction, Fraction | None] | None:
        """The epsilon, delta and rho that releases of all periods may cost together, if that is stated."""
        if self.period is None:
            return self.epsilon, self.delta, self.rho
        if self.total_delta is None:
            return None
        return self.total_epsilon, self.total_delta, self.total_rho


class HistorySettings(Section):
    """Earlier releases of the same series: their noisy counts are evidence of this year's homes, at no cost.

    What is measured, and its noise, are the same without it. For mechanisms that measure tables of homes.
    """

    release: InputPath
    """Output folder, or public folder, of the last release before this one. It brings those before it."""
    first: Year | None = None
    """Year of the first release of the series, which has no history: of that year `release` is not read."""
    changing: ShareNumber | None = None
    """Share of jobs that change their home or workplace in a year, in (0, 1], from a public table. Left out,
    it is measured on the noisy counts."""


class SignatureSettings(Section):
    """Who signs the release."""

    key: InputPath
    """Private key file, as `odsynth keygen` makes it."""


class WitnessSettings(Section):
    """Who repeats the run before it is published, and who says when it was bound to its commitment."""

    key: InputPath | None = None
    """Public key file of the witness. The run key is then kept until `odsynth seal`
    ([verification.md](verification.md#a-witness))."""
    required: bool = False
    """Publish nothing without the statement of this witness."""
    timestamp: Line | None = None
    """Address of a time-stamp authority (RFC 3161), which is asked before the run is paid for."""
    authority: InputPath | None = None
    """File of the certificates (PEM) of this authority."""

    def _problems(self) -> Iterator[Problem]:
        if self.required and self.key is None:
            yield "key", "missing beside required; name the public key file of the witness"
        if self.timestamp is not None and not self.timestamp.startswith(("https://", "http://")):
            yield "timestamp", "no address of the web; write https://..."
        if (self.timestamp is None) != (self.authority is None):
            pair = ("timestamp", "authority")
            missing, there = pair if self.timestamp is None else pair[::-1]
            yield missing, f"missing beside {there}; name both or neither"


class PlanSettings(Section):
    """Choices of the plan; each has a default."""

    preset: Literal["tuned", "onthemap"] = "tuned"
    """Where the defaults of the other keys come from: what the planner recommends, or what the first release
    of OnTheMap did. `"onthemap"` also has defaults for `privacy.epsilon` and `privacy.delta`."""
    coarsening: Literal["balanced", "threshold", "distance", "share", "units"] | None = None
    """Rule by which blocks are grouped into cells ([planning.md](planning.md)). Left out: "balanced" where
    `split_threshold` is given; else "balanced" or "units", whichever loses less on proxy truth."""
    split_threshold: PositiveNumber | None = None
    """T of the rules "balanced" and "threshold", above 0: how many workers of the pool a cell is expected to
    have. Left out, it is chosen for each size of pools to lose least on proxy truth."""
    cell_level: Line | None = None
    """For the rule "units": the level, or the block, whose units are the cells. Left out, the level of the
    public model."""
    distance_miles: PositiveNumber = Fraction(100)
    """R of the rule "distance", above 0."""
    share: RetentionNumber = Fraction(9, 10)
    """For the rule "share": the part of a destination's public flow that is not coarsened, in (0, 1]."""
    pool_by: Names | None = None
    """Attributes whose categories have pools of their own, [] for none. Left out, chosen to lose least."""
    pool_level: Line | None = None
    """Small work blocks in one unit of this level share a pool. Left out: the level of the public model where
    `pool_below` is given, else chosen like T."""
    pool_below: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Work blocks with fewer jobs share the pool of their unit (1: none does). Left out, chosen like T."""
    retention_min: RetentionNumber = Fraction(1)
    """f_min, the smallest probability with which an empty cell is kept, in (0, 1]."""
    prior: PositiveNumber | None = None
    """Pseudo-count of every cell, above 0. Left out, the smallest that meets the requested privacy."""
    expected_jobs: Annotated[int, Field(ge=1, le=MOST)] | None = None
    """Where whole records are protected: about how many jobs there are, a public number such as from the last
    census. Left out, the number in the tables of `auxiliary` or `workplaces`."""

    def _problems(self) -> Iterator[Problem]:
        yield from repeated(*(self.pool_by or ()))
        if self.cell_level is not None and self.coarsening != "units":
            fix = 'write coarsening = "units", or leave this line out'
            yield "cell_level", f"only cells that are whole units have a level; {fix}"

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("preset") == "onthemap":
            return _ONTHEMAP | values
        return values


# Machanavajjhala et al. 2008: domains within 100 miles, f_min 0.0378, an urn for every work block.
_ONTHEMAP = {
    "coarsening": "distance",
    "distance_miles": "100",
    "retention_min": "0.0378",
    "pool_below": 1,
    "pool_by": [],
}

# Its noise changes odds by at most 100: epsilon is ln(100) + ln(1 / 0.0378). What pruning costs beyond, V,
# is taken from the noise.
ONTHEMAP_PRIVACY = {"epsilon": "7.88", "delta": "1e-5"}
