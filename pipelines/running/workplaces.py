"""Workplaces of a run that protects whole records: measured first, so that homes can be sorted by slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.drawing.sampling import measure
from pipelines.drawing.workplaces import estimate_slots
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import combination_of
from pipelines.release.workplaces import grouped_plan, workplace_files, write_workplaces
from pipelines.running.batches import differences, keep_homes
from pipelines.running.folder import RunFolder
from pipelines.storage.durable import whole_folder, write_whole

Int64 = NDArray[np.int64]


def keep_records(staging: RunFolder, plan: ReleasePlan, parts: Iterable[geo_data.JobRecords]) -> None:
    """Keep whole records, part after part, and count those of every cell of workplaces.

    All of it is **confidential**. A record of a work block or a category that the plan does not have is
    counted nowhere.
    """
    counts = [np.zeros(int(measured.table.offsets[-1]), np.int64) for measured in plan.workplaces]
    staging.records.touch()  # there may be none
    for records in parts:
        _, unknown = combination_of(records, plan.pools.slots.categories)
        in_order = {name: records.attributes[name] for name in plan.pools.slots.categories}
        records = geo_data.JobRecords(np.where(unknown, -1, records.work), records.home, in_order)
        staging.add_records(records)
        for measured, count in zip(plan.workplaces, counts, strict=True):
            count += measured.count(records)
    for number, count in zip(_numbers(plan), counts, strict=True):
        staging.keep_counts(number, count)


def measure_workplaces(
    staging: RunFolder, plan: ReleasePlan, key: synth.RunKey, batch_jobs: int | None
) -> ReleasePlan:
    """Measure workplaces, estimate slots, and sort homes by them; return the plan of these slots.

    What is done already is not done again. Noisy counts and slots are kept as they will be published.
    """
    folder = staging.workplaces
    if not folder.exists():
        noisy = [
            measure(staging.read_counts(number), table, key, number)
            for number, table in zip(_numbers(plan), plan.numeric.workplaces, strict=True)
        ]
        with whole_folder(folder) as unfinished:
            write_workplaces(plan, noisy, estimate_slots(plan, noisy), unfinished)
    grouped = grouped_plan(folder, plan)
    if not (staging.parts / "sorted").exists():
        for path in staging.homes.glob("[0-9]*.npy"):  # of a run that was interrupted while it sorted
            path.unlink()
        records = staging.read_records([*plan.pools.slots.categories])
        sizes = keep_homes(staging, grouped, records, batch_jobs)
        staging.note_differences(differences(grouped, sizes))
        write_whole(staging.parts / "sorted", "")
    return grouped


def publish_workplaces(staging: RunFolder, plan: ReleasePlan) -> None:
    """Copy what was measured and estimated of workplaces into the public folder, where anything was."""
    for name in workplace_files(plan):
        (staging.public / name).parent.mkdir(exist_ok=True)
        (staging.public / name).write_bytes((staging.workplaces / name).read_bytes())


def _numbers(plan: ReleasePlan) -> Iterator[int]:
    """Yield the numbers of the tables of workplaces, after those of the others."""
    first = 1 + len(plan.choices.tables)
    yield from range(first, first + len(plan.workplaces))
