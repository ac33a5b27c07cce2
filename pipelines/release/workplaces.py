"""Workplaces of a release that measured them: their noisy counts, and the slots that were estimated.

A row of ``measurements/workplaces-1.parquet`` is a cell of the first table of workplaces: a work area and a
category of each of its attributes, with its noisy count, which may be negative. A row of
``measurements/groups.parquet`` are jobs of one work block and the same categories, estimated from these
counts: the groups in which homes are counted are made of them. A row of ``measurements/slots.parquet`` is the
same, estimated again with the noisy counts of homes: these jobs are released. Where homes are resampled there
are no such counts, and the first slots are released.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from geo_data.jobs import Slots
from pipelines.config.fields import MOST
from pipelines.drawing.workplaces import slots_fit, slots_fit_again
from pipelines.plans.plan import ReleasePlan
from pipelines.plans.workplaces import MeasuredWorkplaces
from pipelines.release.description import MEASUREMENT_FOLDER
from pipelines.storage.parquet_bytes import check_parquet_bytes, rewrite
from pipelines.storage.parquet_form import FormError, check_form, is_count, is_text, read_rows
from synth.posterior.estimation import Cells

Int64 = NDArray[np.int64]
GROUP_FILE = f"{MEASUREMENT_FOLDER}/groups.parquet"
SLOT_FILE = f"{MEASUREMENT_FOLDER}/slots.parquet"


def workplace_files(plan: ReleasePlan) -> list[str]:
    """Return the relative names of the files; none where workplaces are public."""
    if not plan.workplaces:
        return []
    numbers = range(1, len(plan.workplaces) + 1)
    slots = [GROUP_FILE, SLOT_FILE] if plan.measures else [SLOT_FILE]
    return [*(f"{MEASUREMENT_FOLDER}/workplaces-{k}.parquet" for k in numbers), *slots]


def write_workplaces(plan: ReleasePlan, noisy: Sequence[Int64], slots: Slots, folder: Path) -> None:
    """Write noisy counts of workplaces, and the slots that follow from them, into the public folder."""
    tables = [_of_cells(measured, counts) for measured, counts in zip(plan.workplaces, noisy, strict=True)]
    for name, table in zip(workplace_files(plan), [*tables, _of_slots(plan, slots)], strict=False):
        (folder / name).parent.mkdir(exist_ok=True)
        pq.write_table(table, folder / name, compression="zstd")


def write_slots(plan: ReleasePlan, slots: Slots, folder: Path) -> None:
    """Write the slots that were estimated again."""
    (folder / SLOT_FILE).parent.mkdir(exist_ok=True)
    pq.write_table(_of_slots(plan, slots), folder / SLOT_FILE, compression="zstd")


def grouped_plan(folder: Path, plan: ReleasePlan) -> ReleasePlan:
    """Return the plan with the first slots that were estimated: those by which homes were sorted."""
    name = GROUP_FILE if plan.measures else SLOT_FILE
    return plan.with_slots(_read_slots(folder / name, plan))


def drawn_plan(folder: Path, plan: ReleasePlan) -> ReleasePlan:
    """Return the plan by which a release was drawn: with the slots that were estimated, where any were."""
    if not plan.workplaces:
        return plan
    grouped = grouped_plan(folder, plan)
    return sized_plan(folder, grouped) if plan.measures else grouped


def sized_plan(folder: Path, grouped: ReleasePlan) -> ReleasePlan:
    """Return a plan that `grouped_plan` made with the slots that were estimated again."""
    slots = _read_slots(folder / SLOT_FILE, grouped)
    try:
        return grouped.with_jobs(slots)
    except ValueError as error:
        raise FormError(f"{SLOT_FILE}: {error}") from None


def read_workplaces(folder: Path, plan: ReleasePlan) -> list[Int64]:
    """Return the noisy counts of every table of workplaces."""
    return [
        _read_noisy(folder / name, plan, k)
        for k, name in enumerate(workplace_files(plan)[: len(plan.workplaces)])
    ]


def check_workplaces(
    folder: Path, plan: ReleasePlan, slots: Slots, of_homes: Sequence[Cells] = ()
) -> tuple[str, list[str]]:
    """Check the files of workplaces, and that slots follow from noisy counts, of homes too if there are any.

    Returned are words, and the files that another version of pyarrow wrote, whose bytes are not compared.
    """
    names, noisy, grouped = workplace_files(plan), read_workplaces(folder, plan), grouped_plan(folder, plan)
    fits = {names[len(noisy)]: slots_fit(plan, noisy, grouped.pools.slots)}
    if plan.measures:
        fits[SLOT_FILE] = slots_fit_again(plan, noisy, grouped, of_homes, slots)
    for name, fit in fits.items():
        if not fit:
            raise FormError(f"{name}: these jobs cannot have been estimated from the noisy counts")
    others = [
        name for name in names if not check_parquet_bytes(folder / name, partial(rewrite, folder / name))
    ]
    cells = sum(counts.size for counts in noisy)
    words = f"{len(slots):,} jobs follow from noisy counts of {cells:,} cells of {len(noisy)} tables"
    return words, others


def _of_cells(measured: MeasuredWorkplaces, counts: Int64) -> pa.Table:
    return pa.table({**measured.labels(), "noisy": pa.array(counts)})


def _of_slots(plan: ReleasePlan, slots: Slots) -> pa.Table:
    alike, times = slots.counted()
    columns = {"work": plan.geography.block_codes.take(pa.array(alike.work))}
    for name, values in slots.categories.items():
        columns[name] = pa.array(values, pa.string()).take(pa.array(alike.attributes[name].astype(np.int32)))
    return pa.table({**columns, "count": pa.array(times)})


def _read_noisy(path: Path, plan: ReleasePlan, k: int) -> Int64:
    labels = plan.workplaces[k].labels()
    check_form(path, {**dict.fromkeys(labels, _is_label), "noisy": is_count})
    table = read_rows(path)
    if table["noisy"].null_count or table.num_rows != plan.numeric.workplaces[k].offsets[-1]:
        raise FormError(f"{path.name}: there must be one noisy count for each cell")
    for name, column in labels.items():
        if table[name].combine_chunks().cast(pa.string()) != column.cast(pa.string()):
            raise FormError(f"{path.name}: the rows are not the cells that the plan measures")
    counts: Int64 = table["noisy"].to_numpy()
    return counts


def _is_label(kind: pa.DataType) -> bool:
    return pa.types.is_dictionary(kind) and is_text(kind.value_type)


def _read_slots(path: Path, plan: ReleasePlan) -> Slots:
    categories = plan.pools.slots.categories
    check_form(path, {**dict.fromkeys(("work", *categories), is_text), "count": is_count})
    table = read_rows(path)
    work = plan.geography.number(table["work"])
    codes = {
        name: pd.Index(values).get_indexer(table[name].to_pandas()) for name, values in categories.items()
    }
    count = table["count"].to_numpy()
    columns: list[NDArray[np.integer]] = [work, *codes.values()]
    if (
        not work.size
        or any(column.min() < 0 for column in columns)
        or plan.geography.nobody_works[work].any()
    ):
        raise FormError(f"{path.name}: there is no job, or a job has no work block or category of the plan")
    rises = np.zeros(work.size - 1, np.bool_)
    for column in reversed(columns):
        step = np.diff(column)
        rises = (step > 0) | ((step == 0) & rises)
    if not rises.all() or count.min() < 1 or count.astype(np.float64).sum() > MOST:
        raise FormError(f"{path.name}: rows are not in order, or do not count jobs")
    return Slots.of_codes(work, codes, categories).repeat(count)
