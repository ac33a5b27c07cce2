"""What a release loses in the tables that it is for, against the truth, beside two baselines."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import geo_data
from geo_data.jobs import join_records
from pipelines.planning.plan import ReleasePlan
from pipelines.planning.simulation import draw_public_model, draw_without_noise
from pipelines.planning.workload import CountedJobs, Table, Workload, jobs_at, resolve_workload
from pipelines.release.reader import PublicRelease

__all__ = ["workload_losses"]

Row = tuple[str, str, str, float]

_SEED = 0  # of the baselines, which are of no release


def workload_losses(release: PublicRelease, source: geo_data.JobSource) -> list[Row]:
    """Measure the loss in each table of the workload of a release.

    Parameters
    ----------
    release : PublicRelease
    source : geo_data.JobSource
        **Confidential**: the truth.

    Returns
    -------
    list of tuple
        **Confidential**, as rows of `measure`: the loss of the release, of homes drawn from the public model
        alone, and of the plan's pools or tables without noise (`draw_without_noise`); the last not where the
        numbers of jobs at workplaces are those of another table. The level is the name of the table. A table
        by several attributes has none: the files of a release count each attribute by itself.
    """
    plan = release.load_plan()
    slots = plan.pools.slots
    workload = resolve_workload(plan.configuration, plan.geography, plan.level, slots, plan.policy.secret)
    tables = [table for table in workload.tables if len(table.attributes) < 2]
    read, at = partial(_read, source, plan), partial(jobs_at, plan.geography, plan.policy)
    drawn = {"public_model": draw_public_model(plan, _SEED)}
    if plan.numeric.record_range is None and len(records := read(plan.attributes)) == len(slots):
        homes = records.home[geo_data.order_records(plan.pools, plan.geography, records)]
        drawn["no_privacy"] = draw_without_noise(plan, homes, _SEED)
    rows: list[Row] = []
    true = CountedJobs(np.zeros(0, np.int32), np.zeros(0, np.int32), {})
    for table in sorted(tables, key=lambda table: table.attributes):  # a LODES file has one at a time
        if not len(true) or not {*table.attributes} <= {*true.attributes}:
            records = read(tuple(name for name in table.attributes if name in slots.attributes))
            true = at(records.work, records.home, records.attributes)
        one = Workload((table,), plan.geography, plan.level)
        compared = {"loss": _released(release, table)}
        compared |= {kind: at(slots.work, homes, slots.attributes) for kind, homes in drawn.items()}
        for kind, jobs in compared.items():
            rows.append((f"workload_{kind}", table.name, "all", float(one.losses(true, jobs)[0])))
    order = [table.name for table in tables]
    return sorted(rows, key=lambda row: order.index(row[1]))


def _read(source: geo_data.JobSource, plan: ReleasePlan, names: tuple[str, ...]) -> geo_data.JobRecords:
    """Return the true jobs of the plan's geography and categories."""
    categories = plan.pools.slots.categories
    parts = []
    for part in source.parts(names, categories, others=plan.numeric.record_range is not None):
        kept = part.work >= 0
        for name in names:
            kept &= part.attributes[name] < len(categories[name])
        attributes = {name: part.attributes[name][kept] for name in names}
        parts.append(geo_data.JobRecords(part.work[kept], part.home[kept], attributes))
    return join_records(parts, names)


def _released(release: PublicRelease, table: Table) -> CountedJobs:
    """Return the jobs of a release, with the categories of the one attribute of a table."""
    columns: Iterator[str] | tuple[str, ...] = ("S000",)
    for name in table.attributes:
        columns = geo_data.count_columns(release.categories)[name]
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
