"""What a release loses in the tables that it is for, against the truth, beside two baselines."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import numpy as np

import geo_data
from geo_data.jobs import JobSource, join_records
from geo_data.od_files import LODES_CATEGORIES, count_columns
from geo_data.pools import order_records
from pipelines.planning.simulation import draw_public_model, draw_without_noise
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workload import CountedJobs, Table, Workload, workload_of
from pipelines.views.release import Release

Row = tuple[str, str, str, float]

_SEED = 0  # of the baselines, which are of no release


def workload_losses(release: Release, source: JobSource) -> list[Row]:
    """Measure the loss in each table of the workload of a release; it is **confidential**.

    That is the loss of the release and, where workplaces are public, of homes drawn from the public model
    alone, and of the plan's pools or tables without noise. A table that the truth does not have has one row:
    a loss of NaN.
    """
    plan = release.plan
    slots = plan.pools.slots
    workload = workload_of(plan)
    read_truth, counted = partial(_read, source, plan), CountedJobs
    drawn = {} if plan.workplaces else {"public_model": draw_public_model(plan, _SEED)}
    pooled_by = plan.attributes
    if plan.fills_slots and _has(source, slots, pooled_by):
        records = read_truth(pooled_by)
        order = None
        with suppress(ValueError):  # other jobs have no place in the pools
            order = order_records(plan.pools, plan.geography, records)
        if order is not None:
            drawn["no_privacy"] = draw_without_noise(plan, records.home[order], _SEED)
    rows: list[Row] = []
    true = CountedJobs(np.zeros(0, np.int32), np.zeros(0, np.int32), {})
    for table in sorted(workload.tables, key=lambda table: table.attributes):
        public = tuple(name for name in table.attributes if name in slots.attributes)
        if not _has(source, slots, public):
            rows.append(("workload_loss", table.name, "all", math.nan))
            continue
        if not len(true) or not {*table.attributes} <= {*true.attributes}:
            records = read_truth(public)
            true = counted(records.work, records.home, records.attributes)
        if not len(true):
            rows.append(("workload_loss", table.name, "all", math.nan))
            continue
        alone = Workload((table,), plan.geography, plan.level)
        compared = {"loss": _released(release, table)}
        compared |= {kind: counted(slots.work, homes, slots.attributes) for kind, homes in drawn.items()}
        for kind, jobs in compared.items():
            rows.append((f"workload_{kind}", table.name, "all", float(alone.losses(true, jobs)[0])))
    return sorted(rows, key=lambda row: workload.names.index(row[1]))


def _has(source: JobSource, slots: geo_data.Slots, names: tuple[str, ...]) -> bool:
    """Say whether the truth has some attributes of one job together, in the categories of the release."""
    if not isinstance(source, geo_data.LodesJobs):
        return True
    same = [LODES_CATEGORIES.get(name) == slots.categories[name] for name in names]
    return len(same) < 2 and all(same)


def _read(source: JobSource, plan: ReleasePlan, names: tuple[str, ...]) -> geo_data.JobRecords:
    """Return the true jobs of the plan's geography and categories; none where all should be, and are not."""
    categories, unmatched = plan.pools.slots.categories, not plan.fills_slots
    parts = []
    for part in source.parts(names, categories, unmatched=unmatched):
        kept = part.work >= 0
        for name in names:
            kept &= part.attributes[name] < len(categories[name])
        if not (unmatched or kept.all()):
            nothing = {name: part.attributes[name][:0] for name in names}
            return geo_data.JobRecords(part.work[:0], part.home[:0], nothing)
        attributes = {name: part.attributes[name][kept] for name in names}
        parts.append(geo_data.JobRecords(part.work[kept], part.home[kept], attributes))
    return join_records(parts, names)


def _released(release: Release, table: Table) -> CountedJobs:
    """Return the jobs of a release, with the categories of the attributes of a table."""
    if len(table.attributes) > 1:
        jobs = join_records(list(release.job_records(table.attributes)), table.attributes)
        return CountedJobs(jobs.work, jobs.home, jobs.attributes)
    columns: Iterator[str] | tuple[str, ...] = ("S000",)
    for name in table.attributes:
        columns = count_columns(release.categories)[name]
    columns = tuple(columns)
    block = release.levels[-1]
    flows = release.unit_flows(block, block, columns)
    parts = [np.repeat(np.arange(len(flows)), flows[column]) for column in columns]
    rows = np.concatenate(parts)
    codes = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    return CountedJobs(
        flows["work"].to_numpy(np.int32)[rows],
        flows["home"].to_numpy(np.int32)[rows],
        dict.fromkeys(table.attributes, codes),
    )
