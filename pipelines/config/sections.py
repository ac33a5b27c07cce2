"""The sections of a release configuration, one model a TOML table."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pipelines.config.fields import (
    Columns,
    DeltaNumber,
    Groupings,
    InputPath,
    JobType,
    LevelName,
    LevelNames,
    Line,
    Mechanism,
    NameColumns,
    Names,
    PositiveNumber,
    RetentionNumber,
    State,
    SummaryLevels,
    Year,
    expand,
)
from pipelines.config.implicates import ImplicateSource

__all__ = [
    "ONTHEMAP_PRIVACY",
    "AcsTable",
    "CtppTable",
    "FlowTable",
    "GeographySettings",
    "LedgerSettings",
    "LodesJobsSettings",
    "LodesTable",
    "MicrodataJobsSettings",
    "PlanSettings",
    "PolygonTable",
    "PrivacySettings",
    "ReleaseSettings",
    "RunSettings",
    "Section",
    "SignatureSettings",
    "WeightsSettings",
]


class Section(BaseModel):
    """A table of the configuration: unknown keys refused, types strict, immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ReleaseSettings(Section):
    """What is released and where it goes.

    Attributes
    ----------
    name : str
        Title, for people.
    state : str
        First part of the file names: lower-case letters, digits, underscore.
    year : int
        Year of the jobs.
    job_type : str
        LODES job type, ``"JT00"`` (all jobs) to ``"JT05"``.
    out : Path
        Folder of the release. It must not exist when a run begins.
    mechanism : str
        Name of the mechanism.
    csv : bool
        Write the OD files as csv.gz too. Without it a release of many jobs is quicker and smaller: each of
        its Parquet files is a folder of a file for each batch, and `odsynth export` makes CSV when wanted.
    implicates : int
        Synthetic data sets of the same records, 1 to 99; epsilon and delta are of all of them together.
    implicate_source : {"independent-runs", "one-urn"}
        Whether each is a run of the mechanism of its own, as combining rules need, or all are cut from one
        urn, which costs less.
    """

    name: Line
    state: State
    year: Year
    job_type: JobType = "JT00"
    out: InputPath
    mechanism: Mechanism = "dirichlet"
    csv: bool = True
    implicates: Annotated[int, Field(ge=1, le=99)] = 1
    implicate_source: ImplicateSource = "independent-runs"


class PrivacySettings(Section):
    """The privacy loss that the whole release may cost.

    Attributes
    ----------
    epsilon : Fraction
        Largest privacy loss, above 0.
    delta : Fraction
        Probability of a loss above `epsilon`; in [0, 1).
    guarantee : {"pdp", "dp"}
        What the two are asked of: probabilistic differential privacy of the whole run, or differential
        privacy of one job record. The certificate states both, whichever was asked for.
    """

    epsilon: PositiveNumber
    delta: DeltaNumber
    guarantee: Literal["pdp", "dp"] = "pdp"


class LodesJobsSettings(Section):
    """Confidential jobs in the form of a LODES origin-destination file.

    Attributes
    ----------
    format : {"lodes"}
        Says which form the jobs have.
    file : Path
        The csv, csv.gz or Parquet file: the main file, of workers who live in the geography. A name with * or
        ? stands for all files that match: one for each state, say.
    aux : Path or None
        The aux file, or files: workers who live in the external zones of the geography.
    """

    format: Literal["lodes"]
    file: InputPath
    aux: InputPath | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The confidential files."""
        return (*expand(self.file), *(() if self.aux is None else expand(self.aux)))


class MicrodataJobsSettings(Section):
    """Confidential jobs as one row per job.

    Attributes
    ----------
    format : {"microdata"}
        Says which form the jobs have.
    file : Path
        The csv, csv.gz or Parquet file; a name with * or ? stands for all files that match.
    home, work : str
        Columns of the home and the work block.
    worker : str or None
        Column that tells workers apart, if there is one.
    count : str or None
        Column with the number of jobs of a row; without it, a row is one job.
    attributes : tuple of str
        Columns that are public attributes of a job.
    records_per_worker : int
        The most job records that one worker may have.
    """

    format: Literal["microdata"]
    file: InputPath
    home: Line
    work: Line
    worker: Line | None = None
    count: Line | None = None
    attributes: Names = ()
    records_per_worker: Annotated[int, Field(ge=1)] = 1

    @property
    def files(self) -> tuple[Path, ...]:
        """The confidential files."""
        return expand(self.file)


class FlowTable(Section):
    """A public table of flows that shapes the domains: one row for each pair of areas.

    Attributes
    ----------
    format : {"flows"}
        Says which form the table has.
    file : Path
        The table.
    origin, destination : tuple of str
        Columns of the home and the work area; the texts of several are joined.
    origin_level, destination_level : str
        Levels or non-nesting areas of the geography that these areas are of.
    flow : str
        Column of the public count.
    margin : str or None
        Column of its margin of error at 90 %.
    same_jobs : bool
        The table counts the same jobs as the release, as an earlier release does: its totals are then
        compared with the public number of jobs.
    """

    format: Literal["flows"]
    file: InputPath
    origin: Columns
    origin_level: Line
    destination: Columns
    destination_level: Line
    flow: Line
    margin: Line | None = None
    same_jobs: bool = False


class CtppTable(Section):
    """A public table of flows of the Census Transportation Planning Products, Part 3.

    Attributes
    ----------
    format : {"ctpp"}
        Says which form the table has.
    file : Path
        The table.
    levels : dict of str to str or tuple of str
        The summary levels to read, and the level or non-nesting area that each has; both, where
        residence and workplace have different ones.
    table : str or None
        The table to read, where the file has several.
    line : int
        The line to read: 1 is the total.
    """

    format: Literal["ctpp"]
    file: InputPath
    levels: SummaryLevels
    table: Line | None = None
    line: Annotated[int, Field(ge=1)] = 1


class AcsTable(Section):
    """A public table of county-to-county commuting flows of the American Community Survey.

    Attributes
    ----------
    format : {"acs"}
        Says which form the table has.
    file : Path
        The published workbook, saved as CSV.
    level : str
        Level of the geography whose units are counties.
    """

    format: Literal["acs"]
    file: InputPath
    level: Line


class LodesTable(Section):
    """An earlier LODES origin-destination release, added up.

    Attributes
    ----------
    format : {"lodes"}
        Says which form the table has.
    file : Path
        The main file.
    aux : Path or None
        The aux file.
    origin_level, destination_level : str
        Levels or non-nesting areas of the geography to which homes and workplaces are added up.
    same_jobs : bool
        As for "flows".
    """

    format: Literal["lodes"]
    file: InputPath
    aux: InputPath | None = None
    origin_level: Line
    destination_level: Line
    same_jobs: bool = True


class WeightsSettings(Section):
    """A public table of weights by which a cell is shared among its blocks.

    Attributes
    ----------
    file : Path
        The table.
    level : str
        Level of the geography that the areas are of.
    area, weight : str
        Columns of the area's code and of the weight.
    """

    file: InputPath
    level: Line
    area: Line
    weight: Line


class RunSettings(Section):
    """How a run works; nothing of it decides what is released.

    Attributes
    ----------
    batch_jobs : int or None
        Jobs that one task draws, about; bounds its memory. None means 100,000, and more for large releases.
    world_readable : bool
        Confidential files that everybody on the machine can read are accepted.
    """

    batch_jobs: Annotated[int, Field(ge=1)] | None = None
    world_readable: bool = False


class PolygonTable(Section):
    """A public file of the shapes of the units of a level, kept in the release for maps.

    Attributes
    ----------
    level : str
        The level of the geography.
    file : Path
        The file, in any format that GDAL reads, or GeoParquet.
    code : str
        Column of the unit's code.
    name : str or None
        Column of the unit's name; these names are kept instead of the crosswalk's.
    """

    level: Line
    file: InputPath
    code: Line
    name: Line | None = None


class GeographySettings(Section):
    """The public geography: one row per block.

    Attributes
    ----------
    file : Path
        The crosswalk.
    block : str
        Column of the block's code. Files are named after it and after the levels: no slash or backslash in
        it, and no dot first.
    levels : tuple of str
        Columns of the hierarchy above the block, coarsest first; may be empty. The same holds for them.
    latitude, longitude : str or None
        Columns of the block's centroid, in degrees; None where the file has geometry.
    external_zones : tuple of str
        External zones: where else workers may live, as prefixes of geocodes; "us-states" stands for all
        states of the United States of which the crosswalk has no block.
    groupings : dict of str to int
        Levels that are no columns of the crosswalk: the number of parts into which each unit of the next
        coarser level is divided by place.
    non_nesting_areas : tuple of str
        Columns of the crosswalk with areas that need not nest with the levels, such as places; auxiliary
        tables may be of them.
    names : dict of str to str or None
        Columns of the names of units, by level: names are kept in the release for maps. Without this key,
        each level's column with "name" behind it where the file has one, as in LODES; {} for no names.
    polygons : tuple of PolygonTable
        Shapes of the units of levels; those of the blocks are in `file` where that has geometry.
    """

    file: InputPath
    block: LevelName
    levels: LevelNames
    latitude: Line | None = None
    longitude: Line | None = None
    external_zones: Names = ()
    groupings: Groupings = Field(default_factory=dict)
    non_nesting_areas: Names = ()
    names: NameColumns | None = None
    polygons: Annotated[tuple[PolygonTable, ...], Field(strict=False)] = ()


class LedgerSettings(Section):
    """Which ledger records what a release costs, and the budget that pays for it.

    Attributes
    ----------
    file : Path
        The ledger; made by the first debit. Its folder must exist.
    data_set : str
        Public name of the records that are released from.
    period : str or None
        Label of the period that the budget is for; None means for ever.
    epsilon, delta : Fraction
        The budget of the data set in the period, over all releases.
    witness : tuple of str
        Debits, as runs have printed them, that must be in the ledger: neither a new one nor an older copy is
        then taken for it.
    """

    file: InputPath
    data_set: Line
    period: Line | None = None
    epsilon: PositiveNumber
    delta: DeltaNumber
    witness: Names = ()


class SignatureSettings(Section):
    """Who signs the release.

    Attributes
    ----------
    key : Path
        Private key file, as `odsynth keygen` makes it.
    """

    key: InputPath


class PlanSettings(Section):
    """Choices of the plan; each has a default.

    Attributes
    ----------
    preset : {"tuned", "onthemap"}
        Where the defaults of the other keys come from: what the planner recommends, or what OnTheMap's first
        release did. That one has an epsilon and a delta, too, for a configuration without.
    coarsening : {"balanced", "threshold", "distance", "share"}
        Rule that makes the cells (`geo_data.coarsening`).
    split_threshold : Fraction or None
        Expected public count T of the first two rules, above 0; None means chosen for each class of pools to
        lose least on proxy truth.
    distance_miles : Fraction
        R of "distance", above 0.
    share : Fraction
        Part of a destination's public flow that "share" does not coarsen, in (0, 1].
    pool_by : tuple of str
        Attributes by which the jobs of a pool are pooled separately.
    pool_level : str or None
        Level whose units gather their small blocks; None means the level of the public model.
    pool_below : int or None
        Work blocks with fewer jobs share the urn of their unit (1: none does); None means chosen like T.
    retention_min : Fraction
        Smallest retention probability of an empty cell, f_min, in (0, 1].
    prior : Fraction or None
        Pseudo-count of every cell, above 0; None means calibrated to the requested privacy.
    """

    preset: Literal["tuned", "onthemap"] = "tuned"
    coarsening: Literal["balanced", "threshold", "distance", "share"] = "balanced"
    split_threshold: PositiveNumber | None = None
    distance_miles: PositiveNumber = Fraction(100)
    share: RetentionNumber = Fraction(9, 10)
    pool_by: Names = ()
    pool_level: Line | None = None
    pool_below: Annotated[int, Field(ge=1)] | None = None
    retention_min: RetentionNumber = Fraction(1)
    prior: PositiveNumber | None = None

    @model_validator(mode="before")
    @classmethod
    def _apply_preset(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("preset") == "onthemap":
            return _ONTHEMAP | values
        return values


# Machanavajjhala et al. 2008: domains within 100 miles, f_min 0.0378, an urn for every work block.
_ONTHEMAP = {"coarsening": "distance", "distance_miles": "100", "retention_min": "0.0378", "pool_below": 1}

# Its noise changes odds by at most 100: epsilon is ln(100) + ln(1 / 0.0378). What pruning costs beyond, V,
# is taken from the noise.
ONTHEMAP_PRIVACY = {"epsilon": "7.88", "delta": "1e-5"}
