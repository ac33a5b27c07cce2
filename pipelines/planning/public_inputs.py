"""Reading everything public that a plan is made from. No function here can be handed a confidential array."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

import geo_data
import synth
from geo_data.arguments import check_type
from geo_data.attribute_shares import read_shares
from geo_data.delimited import count_rows
from geo_data.errors import counted, refuse_any
from geo_data.jobs import JobSource, Reading
from geo_data.od_files import OD_COLUMNS, count_columns
from geo_data.proxy_truth import attribute_concentrations
from geo_data.weights import BlockWeights, uniform_weights
from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.sections import (
    AcsTable,
    AuxiliaryTable,
    CtppTable,
    LodesTable,
    MicrodataJobsSettings,
    PolygonTable,
    Section,
)
from pipelines.planning.guards import (
    refuse_as_public,
    refuse_one_file_twice,
    refuse_open_files,
    refuse_other_names,
    refuse_other_states,
)
from pipelines.planning.workplaces import expected_slots, listed_slots, slots_with_categories
from pipelines.plans.plan import policy_of
from pipelines.storage.progress import Progress
from synth.block_sampling import cumulative_weights

if TYPE_CHECKING:  # many a configuration has no polygons
    import geopandas as gpd

    from geo_data.polygons import Polygons


@dataclass(frozen=True, eq=False)
class PublicInputs:
    """What is public before a plan is made.

    Attributes
    ----------
    geography : geo_data.Geography
    weights : BlockWeights
    slots : geo_data.Slots
        The public side of the jobs.
    policy : synth.Policy
    model : geo_data.PublicModel
        Where the workers of each destination are expected to live.
    notes : tuple of str
        What reading had to report: repairs, rows left out, fall-backs.
    polygons : dict of str to GeoDataFrame
        Shapes of the units of levels, for maps of the release.
    names : dict of str to ndarray of str objects
        Names of the units of levels, likewise (`geo_data.Geography`).
    rows : dict of str to int
        Rows that were read of each public file, by path.
    unknown : tuple of str
        Attributes of which nothing public tells how jobs differ in them.
    """

    geography: geo_data.Geography
    weights: BlockWeights
    slots: geo_data.Slots
    policy: synth.Policy
    model: geo_data.PublicModel
    notes: tuple[str, ...]
    polygons: dict[str, gpd.GeoDataFrame]
    names: dict[str, npt.NDArray[np.object_]]
    rows: dict[str, int] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @cached_property
    def concentrations(self) -> dict[str, float]:
        """How much residents of units are taken to differ, by attribute (`attribute_concentrations`)."""
        return attribute_concentrations(self.geography, self.model.level, self.slots, self.unknown)

    @cached_property
    def cumulative_weights(self) -> npt.NDArray[np.int64]:
        """Running total of the weights: that of every plan that is made."""
        return cumulative_weights(self.weights.weights)

    def __repr__(self) -> str:
        return f"<PublicInputs: {self.geography!r}, {self.slots!r}, {self.model!r}; notes: {len(self.notes)}>"


def read_public_inputs(config: ReleaseConfig, progress: Progress | None = None) -> PublicInputs:
    """Read the public inputs that a configuration names, and fit the public model to them.

    Of the job file only the public side is parsed: work blocks and attributes, never the column of
    origins, unless a policy makes public in which part each home is, and then nothing else is kept of it.
    With a public table of workplaces nothing of the file is parsed.

    Parameters
    ----------
    config : ReleaseConfig
    progress : Progress, optional
        Told how many of several files of jobs have been read, and how many there are.

    Returns
    -------
    PublicInputs

    Raises
    ------
    geo_data.InputError
        If a public input is unusable.
    ConfigError
        If a public input is a confidential file, or the name of a file contradicts the configuration.
    """
    check_type(config, ReleaseConfig, "config", "load_config")
    refuse_as_public(config)
    refuse_other_names(config)
    with count_rows() as rows:
        geography = read_geography(config)
    refuse_other_states(config, geography)
    _check_codes(config, geography)
    slots = None
    if config.workplaces is not None or not config.protects_records:
        files = config.jobs.files if config.workplaces is None else expand(config.workplaces.file)
        with count_job_files(files, progress):
            slots = slot_source(config, geography).slots(read_policy(config, geography))
    # Not the rows of jobs: there is one for each pair of home and workplace.
    with count_rows() as more:
        inputs = public_inputs_for(config, geography, slots)
    return replace(inputs, rows=rows | more)


def public_inputs_for(
    config: ReleaseConfig, geography: geo_data.Geography, slots: geo_data.Slots | None
) -> PublicInputs:
    """Read the public tables and fit the public model for slots from elsewhere, such as a simulation.

    Where whole records are protected, slots are those of a public table of workplaces, or None: then as
    many jobs are expected as public flows have.
    """
    shapes = read_polygon_tables(config, geography)
    tables = read_auxiliary(config, geography)
    if config.weights is None:
        weights = uniform_weights(geography)
    else:
        weights = geo_data.read_weights(config.weights.file, geography, **reader_settings(config.weights))
    level = _model_level(config, geography, tables)
    if config.measures_workplaces:
        slots = _expected(config, geography, tables, level, slots)
    assert slots is not None
    _check_categories(config, slots)
    check_pool_by(config, slots)
    jobs = slots.jobs(geography.n_blocks)
    model = geo_data.build_model(geography, tables, weights.weights, jobs, level)
    notes = _notes(config, geography, tables, weights, model)
    notes += tuple(note for polygons in shapes.values() for note in polygons.notes)
    return PublicInputs(
        geography,
        weights,
        slots,
        read_policy(config, geography),
        model,
        notes,
        {level: polygons.shapes for level, polygons in shapes.items()},
        names_of(geography, shapes),
        unknown=config.unknown_attributes,
    )


def _expected(
    config: ReleaseConfig,
    geography: geo_data.Geography,
    tables: list[geo_data.Flows],
    level: str,
    listed: geo_data.Slots | None,
) -> geo_data.Slots:
    """Return the slots that are expected where more than homes is protected."""
    categories = config.declared_categories
    shares = {
        of.name: read_shares(of.table.file, geography, categories[of.name], **reader_settings(of.table))
        for of in config.attribute
        if of.table is not None
    }
    if config.secret:
        assert listed is not None
        return slots_with_categories(listed, config.secret, shares)
    if listed is None:
        return expected_slots(geography, level, categories, tables, config.plan.expected_jobs, shares)
    try:
        return listed_slots(listed, geography, level, categories)
    except ValueError as error:
        rule = f"the table has categories of {error} that the configuration does not list"
        fix = "list these categories in [[attribute]], or correct the table"
        raise geo_data.InputError(_slot_file(config), rule, fix=fix) from None


def read_polygon_tables(config: ReleaseConfig, geography: geo_data.Geography) -> dict[str, Polygons]:
    """Read the polygons that a configuration names."""
    from geo_data.polygons import read_polygons

    g = config.geography
    tables = {table.level: table for table in g.polygons}
    if g.latitude is None and g.block not in tables:
        tables[g.block] = PolygonTable.model_construct(level=g.block, file=g.file, code=g.block)
    return {
        level: read_polygons(table.file, geography, level=level, code=table.code, name=table.name)
        for level, table in tables.items()
    }


def names_of(
    geography: geo_data.Geography, shapes: Mapping[str, Polygons]
) -> dict[str, npt.NDArray[np.object_]]:
    """Return the names of the units of levels: those of a file of polygons instead of the crosswalk's."""
    of_shapes = {level: polygons.names for level, polygons in shapes.items() if polygons.names is not None}
    return {**geography.names, **of_shapes}


def reader_settings(section: Section, *, without: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the keys of a section, which its reader has as arguments, but for the file and some others."""
    return {key: value for key, value in section if key not in {"format", "file", *without}}


def read_auxiliary(config: ReleaseConfig, geography: geo_data.Geography) -> list[geo_data.Flows]:
    """Read every auxiliary table of a configuration, in its order; a CTPP file gives one a summary level.

    Tables of non-nesting areas that the geography does not have are left out.
    """
    absent = set(config.geography.non_nesting_areas) - geography.non_nesting_areas.keys()
    return [flows for table in config.auxiliary for flows in _read_table(table, geography, absent)]


def _read_table(
    table: AuxiliaryTable, geography: geo_data.Geography, absent: Set[str]
) -> list[geo_data.Flows]:
    if isinstance(table, CtppTable):
        levels = {
            summary: sides
            for summary, sides in table.levels.items()
            if absent.isdisjoint([sides] if isinstance(sides, str) else sides)
        }
        if not levels:
            return []
        return geo_data.read_ctpp(table.file, geography, levels, table=table.table, line=table.line)
    if isinstance(table, AcsTable):
        return [] if table.level in absent else [geo_data.read_acs(table.file, geography, level=table.level)]
    sides = table.origin_level, table.destination_level
    if not absent.isdisjoint(sides):
        return []
    if isinstance(table, LodesTable):
        flows = geo_data.read_lodes_flows(table.file, geography, sides, aux=table.aux)
    else:
        settings = reader_settings(table, without={"same_jobs", "origin_level", "destination_level"})
        flows = geo_data.read_flows(table.file, geography, sides, **settings)
    return [replace(flows, same_jobs=table.same_jobs)]


def read_geography(config: ReleaseConfig) -> geo_data.Geography:
    """Read the public geography that a configuration names."""
    settings = config.geography
    centroid = (settings.latitude, settings.longitude) if settings.latitude and settings.longitude else None
    others = reader_settings(settings, without={"polygons", "latitude", "longitude"})
    return geo_data.read_crosswalk(settings.file, centroid=centroid, **others)


def read_policy(config: ReleaseConfig, geography: geo_data.Geography) -> synth.Policy:
    """Return the policy that a configuration names."""
    try:
        return policy_of(config, geography)
    except ValueError as error:
        fix = 'name a level with several units, or another distance, or write policy = "full"'
        raise geo_data.InputError(config.geography.file, str(error), fix=fix) from None


def job_source(
    config: ReleaseConfig,
    geography: geo_data.Geography,
    reading: Reading | None = None,
    *,
    checked: bool = False,
) -> JobSource:
    """Return the source of the jobs, unless everybody can read them; nothing is read yet.

    Of files of which slots have been read, `checked`, no more is read than is asked for.
    """
    refuse_open_files(config)
    refuse_one_file_twice(config)
    jobs = config.jobs
    if isinstance(jobs, MicrodataJobsSettings):
        return geo_data.MicrodataJobs(
            jobs.files,
            geography,
            **reader_settings(jobs, without={"population"}),
            secret=tuple(config.secret),
            reading=reading,
        )
    aux = None if jobs.aux is None else expand(jobs.aux)
    return geo_data.LodesJobs(expand(jobs.file), geography, aux, checked=checked, reading=reading)


def slot_source(config: ReleaseConfig, geography: geo_data.Geography) -> JobSource:
    """Return what the slots are read from: the public table of workplaces, or else the jobs.

    Of a table of workplaces there are no records.
    """
    if (workplaces := config.workplaces) is None:
        return job_source(config, geography)
    refuse_open_files(config)
    files, jobs = expand(workplaces.file), config.jobs
    if isinstance(jobs, MicrodataJobsSettings):
        return geo_data.MicrodataJobs(
            files,
            geography,
            None,
            jobs.work,
            count=workplaces.count,
            attributes=jobs.attributes,
            decimal_point=jobs.decimal_point,
        )
    return geo_data.LodesJobs(files, geography, homes=False)


def _slot_file(config: ReleaseConfig) -> Path:
    """Return the file to be named where something is wrong with the slots."""
    return config.jobs.file if config.workplaces is None else config.workplaces.file


@contextmanager
def count_job_files(files: Sequence[Path], progress: Progress | None) -> Iterator[dict[str, int]]:
    """Do what `count_rows` does, and tell how many of several files have been read."""

    def report_rows(done: int) -> None:
        if progress is not None and len(files) > 1:
            progress(done, len(files))

    with count_rows(report_rows) as rows:
        yield rows


def _model_level(config: ReleaseConfig, geography: geo_data.Geography, tables: list[geo_data.Flows]) -> str:
    """Return the finest level of any table or of the weights; weights of blocks count for the level above.

    Blocks tell the model nothing of distances that units just above them do not: their weights act inside
    these units, without a model that grows with the square of the number of blocks. A partition counts for
    the coarsest level with at least as many units as it has areas.
    """
    levels = [*config.geography.levels, config.geography.block]
    above = levels[max(len(levels) - 2, 0)]
    fine_levels = [level for table in tables for level in (table.origin_level, table.destination_level)]
    for i, name in enumerate(fine_levels):
        if name in geography.non_nesting_areas:
            areas = geography.n_units(name)
            fine_levels[i] = next(
                (level for level in levels[:-1] if geography.n_units(level) >= areas), above
            )
    fine_levels.append(min(config.weights.level if config.weights else above, above, key=levels.index))
    return max(fine_levels, key=levels.index)


def _check_codes(config: ReleaseConfig, geography: geo_data.Geography) -> None:
    """Refuse codes of blocks that an OD file cannot hold: LODES quotes nothing in its CSV."""
    if config.release.csv:
        bad = pc.match_substring_regex(geography.block_codes, r'[",\r\n]')
        refuse_any(
            config.geography.file,
            "codes of blocks or external zones contain a comma, a quote or a line break",
            pc.sum(bad).as_py() or 0,
            column=geography.block_level,
            fix="rename these codes, or write csv = false in [release]",
        )


def _check_categories(config: ReleaseConfig, slots: geo_data.Slots) -> None:
    """Refuse categories that cannot name a column of the OD file, before anything is drawn."""
    attributes = slots.categories
    for attribute, categories in attributes.items():
        bad = sum(any(mark in category for mark in ',"\r\n') for category in categories)
        if bad or any(mark in attribute for mark in ',"'):
            raise geo_data.InputError(
                _slot_file(config),
                "categories cannot name a column of the OD file, as they or the attribute contain a comma, a "
                "quote or a line break",
                column=attribute,
                count=bad or len(categories),
                fix="rename the categories, or the attribute",
            )
    # "h_geocode" would take the place of the homes.
    counts = itertools.chain(*count_columns(attributes).values())
    columns = [name.casefold() for name in (*OD_COLUMNS, *counts)]
    if len(set(columns)) < len(columns):
        raise geo_data.InputError(
            _slot_file(config),
            "categories name the same column of the OD file as another category, but for capitals, or one of "
            f"its columns {', '.join(OD_COLUMNS)}",
            count=len(columns) - len(set(columns)),
            fix="rename an attribute or a category",
        )


def check_pool_by(config: ReleaseConfig, slots: geo_data.Slots) -> None:
    """Refuse attributes that pools cannot be made by."""
    by = config.plan.pool_by or ()
    if config.jobs.format == "lodes" and len(by) > 1:
        raise geo_data.InputError(
            _slot_file(config),
            "pools cannot be made by several attributes, as the OD format counts each attribute by itself",
            fix="name one attribute in plan.pool_by, or use job-level microdata",
        )
    unknown = sorted(set(by) - set(slots.attributes))
    if unknown:
        raise geo_data.InputError(
            _slot_file(config),
            f"plan.pool_by names {', '.join(unknown)}, which is not an attribute of the jobs",
            fix=f"name attributes of the jobs ({', '.join(slots.attributes) or 'none'})",
        )


def _notes(
    config: ReleaseConfig,
    geography: geo_data.Geography,
    tables: list[geo_data.Flows],
    weights: BlockWeights,
    model: geo_data.PublicModel,
) -> tuple[str, ...]:
    notes = list(geography.repairs)
    if config.weights is not None:  # notes are published, and a folder may have a telling name
        notes += [line.replace(str(config.weights.file), config.weights.file.name) for line in weights.report]
    notes += [
        f"{Path(table.source).name}: {counted(dropped, 'rows are outside the geography: left out')}"
        for table in tables
        if (dropped := table.dropped["rows"])
    ]
    places = np.flatnonzero(model.jobs > 0)
    uncovered = int((~model.covered(places)).sum())
    if tables and uncovered:
        notes.append(
            f"{uncovered:,} of {places.size:,} {model.level} units with jobs have no flow in any auxiliary "
            "table: their domains follow population and distance alone"
        )
    return (*notes, *_external_notes(geography, tables))


def _external_notes(geography: geo_data.Geography, tables: list[geo_data.Flows]) -> Iterator[str]:
    """Say of how many external zones no table tells, and of how many nothing does."""
    homes = geography.external_blocks[~geography.nobody_lives[geography.external_blocks]]
    silent = np.ones(homes.size, bool)
    for table in tables:
        silent &= ~np.isin(geography.unit_of(table.origin_level, homes), table.origin)
    if silent.any():
        population = geography.external_facts.population[~geography.nobody_lives[geography.external_blocks]]
        unknown = int((silent & np.isnan(population)).sum())
        yield (
            f"no auxiliary table has flows from {silent.sum():,} of {silent.size:,} external zones: what "
            "is expected from them follows population and distance alone"
            + (f", unknown for {unknown:,} of them" if unknown else "")
        )
