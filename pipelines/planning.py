"""From a configuration to a public plan. No function here can be handed a confidential array."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.config import MicrodataJobs, ReleaseConfig

__all__ = ["ReleasePlan", "job_source", "make_plan", "read_geography"]

# Columns of the plan and of the jobs file; an attribute or level of the same name would overwrite them.
_OWN_JOB_COLUMNS = frozenset({"work", "n", "m", "domain", "class", "pool", "count", "w_geocode", "h_geocode"})
_OWN_BLOCK_COLUMNS = frozenset({"latitude", "longitude", "weight"})


@dataclass(frozen=True, eq=False)
class ReleasePlan:
    """Everything that is public about a release before it is drawn, and all that the draw needs.

    Attributes
    ----------
    configuration : dict
        The canonical configuration (`ReleaseConfig.canonical`).
    geography : geo_data.Geography
    weights : ndarray of int64, shape (n_blocks,)
        Public weights by which a cell is shared among its blocks.
    pools : geo_data.PoolTable
        Work block, stratum and slots of every pool.
    domain_group, domain_size : ndarray, shape (n_domains,)
        First block of the destination group, and pool size, for which each domain was made.
    plan : synth.Plan
        The numbers.
    notes : tuple of str
        What reading and planning had to report: repairs, rows left out, fall-backs.
    """

    configuration: dict[str, Any]
    geography: geo_data.Geography
    weights: NDArray[np.int64]
    pools: geo_data.PoolTable
    domain_group: NDArray[np.int32]
    domain_size: NDArray[np.int64]
    plan: synth.Plan
    notes: tuple[str, ...]

    @property
    def mechanism(self) -> synth.Mechanism:
        """The mechanism that the plan names."""
        return synth.MECHANISMS[self.plan.mechanism]


def read_geography(config: ReleaseConfig) -> geo_data.Geography:
    """Read the public geography that a configuration names."""
    g = config.geography
    return geo_data.read_crosswalk(
        g.file, block=g.block, levels=g.levels, latitude=g.latitude, longitude=g.longitude
    )


def job_source(config: ReleaseConfig, geography: geo_data.Geography) -> geo_data.JobSource:
    """Return the source of the jobs; nothing is read yet."""
    jobs = config.jobs
    if isinstance(jobs, MicrodataJobs):
        return geo_data.MicrodataJobs(
            jobs.file,
            geography,
            home=jobs.home,
            work=jobs.work,
            worker=jobs.worker,
            attributes=jobs.attributes,
            records_per_worker=jobs.records_per_worker,
        )
    return geo_data.LodesJobs(jobs.file, geography)


def make_plan(config: ReleaseConfig) -> ReleasePlan:
    """Read the public inputs and make the plan of a release.

    Of the job file only the public side is parsed: work blocks and attributes, never the column of
    origins.

    Parameters
    ----------
    config : ReleaseConfig

    Returns
    -------
    ReleasePlan

    Raises
    ------
    geo_data.InputError
        If a public input is unusable.
    synth.BudgetTooSmallError
        If no prior certifies the requested epsilon and delta.
    """
    geography = read_geography(config)
    _check_names(
        config.geography.file, "level", {geography.block_level, *geography.levels} & _OWN_BLOCK_COLUMNS
    )
    tables = [
        geo_data.read_flows(
            a.file,
            geography,
            origin=a.origin,
            origin_level=a.origin_level,
            destination=a.destination,
            destination_level=a.destination_level,
            flow=a.flow,
        )
        for a in config.auxiliary
    ]
    if config.weights is None:
        weights = geo_data.uniform_weights(geography)
    else:
        w = config.weights
        weights = geo_data.read_weights(w.file, geography, level=w.level, area=w.area, weight=w.weight)
    slots = job_source(config, geography).slots()
    _check_names(config.jobs.file, "attribute", slots.attributes.keys() & _OWN_JOB_COLUMNS)
    _check_categories(config, slots)
    _check_pool_by(config, slots)
    pools = geo_data.build_pools(slots, config.plan.pool_by)
    model = geo_data.build_model(geography, tables, weights.weights)
    coarse = geo_data.coarsen(
        model, pools.work, pools.n, config.plan.split_threshold, config.plan.retention_min
    )
    plan = synth.MECHANISMS[config.release.mechanism].calibrate(
        synth.Pools(pools.n, pools.n, coarse.domain),
        synth.Domains(geography.n_blocks, coarse.offsets, coarse.cuts, coarse.stratum),
        coarse.retention,
        config.privacy.epsilon,
        config.privacy.delta,
        config.plan.prior,
        config.privacy.guarantee,
    )
    first_of_group = np.unique(model.group_of_block, return_index=True)[1]
    return ReleasePlan(
        configuration=config.canonical(),
        geography=geography,
        weights=weights.weights,
        pools=pools,
        domain_group=first_of_group[coarse.group].astype(np.int32),
        domain_size=coarse.size,
        plan=plan,
        notes=_notes(config, geography, tables, weights, coarse, pools),
    )


def _check_names(file: Path, what: str, taken: Set[str]) -> None:
    if taken:
        raise geo_data.InputError(
            file,
            f"the {what} {', '.join(sorted(taken))} has the name of a column that the release has already",
            cure="rename the column, in the file and in the configuration",
        )


def _check_categories(config: ReleaseConfig, slots: geo_data.Slots) -> None:
    """Refuse categories that cannot name a column of the OD file, before anything is drawn."""
    for attribute, categories in slots.categories.items():
        bad = sum(any(mark in category for mark in ',"\r\n') for category in categories)
        if bad or any(mark in attribute for mark in ',"'):
            raise geo_data.InputError(
                config.jobs.file,
                "categories cannot name a column of the OD file: they, or the attribute, contain a comma, "
                "a quote or a line break",
                column=attribute,
                count=bad or len(categories),
                cure="rename them; the OD file has one column for each category",
            )
    columns = [f"{name}_{value}" for name, values in slots.categories.items() for value in values]
    if len(set(columns)) < len(columns):
        raise geo_data.InputError(
            config.jobs.file,
            "categories of different attributes give the same column of the OD file",
            count=len(columns) - len(set(columns)),
            cure="rename an attribute",
        )


def _check_pool_by(config: ReleaseConfig, slots: geo_data.Slots) -> None:
    if config.jobs.format == "lodes" and len(config.plan.pool_by) > 1:
        raise geo_data.InputError(
            config.jobs.file,
            "pools cannot be made by more than one attribute: the OD format counts each attribute by itself",
            cure="name one attribute in plan.pool_by, or use job-level microdata",
        )
    unknown = sorted(set(config.plan.pool_by) - set(slots.attributes))
    if unknown:
        raise geo_data.InputError(
            config.jobs.file,
            f"plan.pool_by names {', '.join(unknown)}, which is not an attribute of the jobs",
            cure=f"the attributes are: {', '.join(slots.attributes) or 'none'}",
        )


def _notes(
    config: ReleaseConfig,
    geography: geo_data.Geography,
    tables: list[geo_data.Flows],
    weights: geo_data.BlockWeights,
    coarse: geo_data.Coarsening,
    pools: geo_data.PoolTable,
) -> tuple[str, ...]:
    notes = list(geography.repairs)
    if config.weights is not None:  # notes are published, and a folder may have a telling name
        notes += [line.replace(str(config.weights.file), config.weights.file.name) for line in weights.report]
    notes += [
        f"{Path(table.source).name}: {table.dropped['rows']:,} rows outside the geography left out"
        for table in tables
        if table.dropped["rows"]
    ]
    if coarse.uncovered_pools:
        notes.append(
            f"{coarse.uncovered_pools:,} of {pools.n.size:,} pools have no flow in any auxiliary table: "
            "their domains follow the public weights alone"
        )
    return tuple(notes)
