"""Workplaces of a run that protects more than homes: measured first, so that homes can be sorted by slots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

import geo_data
import synth
from geo_data.errors import ChangedFileError
from pipelines.drawing.sampling import measure
from pipelines.drawing.workplaces import estimate_slots
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import combination_of
from pipelines.release.workplaces import grouped_plan, workplace_files, write_workplaces
from pipelines.running.batches import OTHER_JOBS, differences, keep_homes
from pipelines.running.folder import RunFolder
from pipelines.storage.durable import whole_folder, write_whole
from synth.arrays import find_keys

Int64 = NDArray[np.int64]


def keep_records(staging: RunFolder, plan: ReleasePlan, parts: Iterable[geo_data.JobRecords]) -> None:
    """Keep whole records, part after part, and count those of every cell of workplaces.

    All of it is **confidential**. A record of a work block or a category that the plan does not have is
    counted nowhere. Where workplaces are public records that are not those of the slots, but for secret
    attributes, are a ChangedFileError.
    """
    totals = _Totals(plan.pools.slots, plan.public_categories) if plan.policy.secret else None
    counts = [np.zeros(int(measured.table.offsets[-1]), np.int64) for measured in plan.workplaces]
    categories = plan.pools.slots.categories
    if plan.policy.secret and not plan.measures:  # pools that are resampled have their public numbers of jobs
        categories = plan.public_categories
    staging.records.touch()  # there may be none
    for records in parts:
        if totals is not None:
            totals.add(records)
        _, unknown = combination_of(records, categories)
        in_order = {name: records.attributes[name] for name in plan.pools.slots.categories}
        records = geo_data.JobRecords(np.where(unknown, -1, records.work), records.home, in_order)
        staging.add_records(records)
        for measured, count in zip(plan.workplaces, counts, strict=True):
            count += measured.count(records)
    if totals is not None:
        totals.check()
    for number, count in zip(_numbers(plan), counts, strict=True):
        staging.keep_counts(number, count)


class _Totals:
    """Public numbers of jobs by work block and public attributes, with which records are compared."""

    def __init__(self, slots: geo_data.Slots, public: dict[str, tuple[str, ...]]) -> None:
        self._public, self._kinds = public, prod(map(len, public.values()))
        self._keys, self._jobs = np.unique(self._key(slots), return_counts=True)
        self._counted = np.zeros(self._jobs.size, np.int64)

    def add(self, records: geo_data.JobRecords) -> None:
        position, there = find_keys(self._keys, self._key(records))
        if not there.all():
            raise ChangedFileError(OTHER_JOBS)
        self._counted += np.bincount(position, minlength=self._jobs.size)

    def check(self) -> None:
        if not np.array_equal(self._counted, self._jobs):
            raise ChangedFileError(OTHER_JOBS)

    def _key(self, jobs: geo_data.Slots | geo_data.JobRecords) -> Int64:
        kind, none = combination_of(jobs, self._public)
        return np.where(none, -1, jobs.work.astype(np.int64) * self._kinds + kind)


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
