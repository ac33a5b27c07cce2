"""Batches of pools: homes sorted into them, and each measured or sampled, and written, by one task.

Where tables are measured, a batch is first counted, with noise; when all are, homes are estimated from what
was measured, and every batch is drawn from the estimate.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import geo_data
import synth
from geo_data.errors import ChangedFileError
from geo_data.od_files import od_rows, write_od_csv
from geo_data.pools import PoolFinder
from pipelines.drawing.estimating import JobLayout, draw_homes, estimate_factors, restore_estimate
from pipelines.drawing.procedures import Estimation, Procedure, Resampling, procedure_of
from pipelines.drawing.risk import estimate_risks
from pipelines.drawing.sampling import measure, sample_batch
from pipelines.drawing.workplaces import estimate_again
from pipelines.plans.accuracy import after_draw, reported_tables
from pipelines.plans.plan import ReleasePlan, batches
from pipelines.plans.workload import workload_of
from pipelines.release.accuracy import ACCURACY_FILE, read_accuracy, write_accuracy
from pipelines.release.description import file_names
from pipelines.release.layout import Part
from pipelines.release.measurements import write_measurements
from pipelines.release.workplaces import read_workplaces, sized_plan, write_slots
from pipelines.running.folder import RunFolder, RunState
from pipelines.storage.cell_file import CellFile, CellSpan, JoinedFiles, keep_numbers, new_numbers
from pipelines.storage.checksums import CHECKSUMS, checksum_lines, sha256_of
from pipelines.storage.durable import whole_folder
from pipelines.storage.parquet_form import is_text
from synth.geometric.measured import count_cells
from synth.posterior.estimation import Cells

Task = Literal["measure", "estimate", "draw"]
"""What is done of a batch: its homes are counted with noise, or its synthetic workers drawn. An estimate is
made of all batches together."""

TaskInputs = NDArray[np.int32] | list[list[Cells]] | tuple[NDArray[np.int32], list[list[Cells]]]
"""What a task needs: **confidential** homes of a batch, shape (3, n), noisy counts of another release, or
both; or factors of each run's tables."""

_ESTIMATED = "estimated"
OTHER_JOBS = "the job records differ from those that the plan was made for: a file changed"


def keep_homes(
    staging: RunFolder,
    plan: ReleasePlan,
    parts: Iterable[geo_data.JobRecords],
    batch_jobs: int | None,
) -> NDArray[np.int64]:
    """Sort the confidential homes into a file for each batch.

    Records come part after part, with the attributes that the pools are stratified by and those of
    secondary tables, whose cells are counted here. Returned is how many are in each pool and, last, in
    none; where the plan has a range of records this is **confidential**, and the last are left out: those
    of a work block or category that the public slots do not have. Else records that are not those of the
    slots are a ChangedFileError.
    """
    pools, geography = plan.pools, plan.geography
    exact_totals = plan.fills_slots
    slots = pools.slots.jobs(geography.n_blocks)
    finder = PoolFinder(pools, geography)
    slices = batches(plan, batch_jobs)
    sizes = [part.stop - part.start for part in slices]
    sizes[-1] += 1  # for those of no pool
    # Numbers of two bytes, as those of batches mostly are, are sorted ten times as fast.
    batch_of_pool = np.repeat(np.arange(len(slices), dtype=np.min_scalar_type(len(slices))), sizes)
    if not exact_totals:  # a batch may have no record at all
        for number in range(len(slices)):
            staging.add_homes(number, np.zeros((3, 0), np.int32))
    of_pool, of_block = np.zeros(pools.n.size + 1, np.int64), np.zeros(geography.n_blocks, np.int64)
    counts = [np.zeros(int(groups.table.offsets[-1]), np.int64) for groups in plan.secondary]
    for records in parts:
        pool = finder.find(records)
        if exact_totals:
            of_block += np.bincount(records.work, minlength=of_block.size)
        elif not plan.workplaces:  # a block without public slots may not join the pool of its neighbours
            pool[(records.work < 0) | (slots[records.work] == 0)] = pools.n.size
        of_pool += np.bincount(pool, minlength=of_pool.size)
        for groups, count in zip(plan.secondary, counts, strict=True):
            group = groups.find(records)
            counted = group < groups.table.n.size
            if not plan.workplaces:
                counted &= pool < pools.n.size
            count += count_cells(groups.table, group[counted], records.home[counted])
        batch = batch_of_pool[pool]
        order = np.argsort(batch, kind="stable")
        if not exact_totals:
            order = order[pool[order] < pools.n.size]
        homes = np.stack([pool[order].astype(np.int32), records.work[order], records.home[order]])
        present, begin = np.unique(batch[order], return_index=True)
        for number, a, b in zip(present.tolist(), begin, np.append(begin, order.size)[1:], strict=True):
            staging.add_homes(number, np.ascontiguousarray(homes[:, a:b]))  # else number by number
    if exact_totals and (not np.array_equal(of_pool[:-1], pools.n) or not np.array_equal(of_block, slots)):
        raise ChangedFileError(OTHER_JOBS)
    for table, count in enumerate(counts, start=1):
        staging.keep_counts(table, count)
    return of_pool


def differences(plan: ReleasePlan, of_pool: NDArray[np.int64]) -> dict[str, int]:
    """Count how confidential jobs differ from the public totals of workplaces.

    **Confidential**, from what `keep_homes` returned: the jobs of the file; of these, those of a work
    block or category that the public table does not have; jobs that are left out by lot, and homes that
    are filled in from the public model.
    """
    numeric, present = plan.numeric, of_pool[:-1]
    out = {"jobs": int(of_pool.sum()), "jobs_of_no_slot": int(of_pool[-1])}
    if numeric.target.record_range is not None and "record_range" in plan.mechanism.settings:
        fewest_jobs, most_jobs = numeric.target.record_range.limits(numeric.pools.n)
        out["jobs_left_out"] = int(np.maximum(present - most_jobs, 0).sum())
        out["homes_filled_in"] = int(np.maximum(fewest_jobs - present, 0).sum())
    return out


def estimated_factors(staging: RunFolder) -> list[list[CellFile]] | None:
    """Return the estimates of a run, by run of the mechanism and table, if there are any."""
    folder = staging.parts / _ESTIMATED
    estimates: list[list[CellFile]] = []
    while (folder / _factors(len(estimates), 0)).exists():
        run = len(estimates)
        of_run: list[CellFile] = []
        while (file := folder / _factors(run, len(of_run))).exists():
            of_run.append(CellFile(file, np.float64))
        estimates.append(of_run)
    return estimates or None


def _noisy(run: int, table: int) -> str:
    return f"noisy-{run}-{table}"


def _factors(run: int, table: int) -> str:
    return f"factors-{run}-{table}"


def _checksums(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return "".join(checksum_lines({path.relative_to(folder).as_posix(): sha256_of(path) for path in files}))


class BatchWork:
    """What all tasks of a run share, but its homes and its key; it is sent to workers of a cluster."""

    def __init__(self, plan: ReleasePlan, createdate: str, batch_jobs: int | None) -> None:
        self.plan, self.createdate, self.batch_jobs = plan, createdate, batch_jobs
        self.slices = batches(plan, batch_jobs)
        names = file_names(plan.config)
        self.with_csv, self.with_jobs = "od_csv" in names, "jobs_parquet" in names

    def do(self, task: Task, batch: int, inputs: TaskInputs, key: synth.RunKey, folder: Path) -> None:
        """Do a task, and write what it makes into an empty folder."""
        for part, homes in zip(self.parts_of(folder), self._drawn(batch, inputs, key), strict=True):
            self._write(part, batch, homes)

    def parts_of(self, folder: Path) -> list[Part]:
        """What a batch writes into a folder, by implicate."""
        aux = bool(self.plan.geography.external_homes)
        folders = self.plan.implicates.folders
        return [Part.of(folder / name, aux=aux, jobs=self.with_jobs) for name in folders]

    def _drawn(self, batch: int, inputs: Any, key: synth.RunKey) -> Iterator[NDArray[np.int32]]:
        """Yield the homes of each implicate."""
        pools, homes, sizes = self._sorted(batch, inputs)
        for run in range(self.plan.implicates.runs):
            yield from sample_batch(self.plan, pools, homes, key, batch, run, sizes)

    def _sorted(
        self, batch: int, homes: NDArray[np.int32]
    ) -> tuple[slice, NDArray[np.int32], NDArray[np.int64] | None]:
        """Return the pools of a batch, its homes pool after pool, and how many each has if not its slots."""
        pools = self.slices[batch]
        pool, work, home = homes
        order = np.lexsort((work, pool))  # as the slots are
        sizes = None
        if not self.plan.fills_slots:
            sizes = np.bincount(pool - pools.start, minlength=pools.stop - pools.start)
        elif not np.array_equal(work[order], self.plan.pools.slots.work[self._slots(batch)]):
            raise ValueError(OTHER_JOBS)
        return pools, home[order], sizes

    def _slots(self, batch: int) -> slice:
        offsets, pools = self.plan.pools.offsets, self.slices[batch]
        return slice(offsets[pools.start], offsets[pools.stop])

    def _write(self, part: Part, batch: int, drawn: NDArray[np.int32]) -> None:
        geography, slots = self.plan.geography, self.plan.pools.slots
        batch_slots = self._slots(batch)
        attributes = {name: codes[batch_slots] for name, codes in slots.attributes.items()}
        categories = slots.categories
        part.od.parquet.parent.mkdir(exist_ok=True)
        first = batch == 0
        outside = geography.is_external(drawn)
        for piece, rows in ((part.od, ~outside), (part.aux, outside)):
            if piece is not None:
                chosen = {name: codes[rows] for name, codes in attributes.items()}
                table = od_rows(geography, slots.work[batch_slots][rows], drawn[rows], chosen, categories)
                if self.with_csv:
                    write_od_csv(table, piece.csv, createdate=self.createdate, header=first)
                dated = table.append_column("createdate", pa.repeat(self.createdate, len(table)))
                self._write_rows(dated, piece.parquet)
        if part.jobs is not None:
            columns: dict[str, Any] = {
                "w_geocode": geography.block_codes.take(pa.array(slots.work[batch_slots])),
                "h_geocode": geography.block_codes.take(pa.array(drawn)),
                **{
                    name: pa.array(categories[name], pa.string()).take(pa.array(codes))
                    for name, codes in attributes.items()
                },
            }
            self._write_rows(pa.table(columns), part.jobs)

    def _write_rows(self, rows: pa.Table, path: Path) -> None:
        """Write rows as they are published; in half of the time where they are joined and written again."""
        if not self.with_csv:
            pq.write_table(rows, path, compression="zstd")
            return
        text = [field.name for field in rows.schema if is_text(field.type)]
        packed = {name: "DELTA_BINARY_PACKED" for name in rows.column_names if name not in text}
        pq.write_table(
            rows,
            path,
            compression="lz4",
            use_dictionary=text,
            column_encoding=packed,
            write_statistics=False,
        )


class MeasuredWork(BatchWork):
    """That of a run whose mechanism measures tables."""

    def __init__(self, plan: ReleasePlan, createdate: str, batch_jobs: int | None) -> None:
        super().__init__(plan, createdate, batch_jobs)
        self.layout = JobLayout(plan)

    def do(self, task: Task, batch: int, inputs: TaskInputs, key: synth.RunKey, folder: Path) -> None:
        """Do a task: one that measures keeps noisy counts of the cells of the pools."""
        if task != "measure":
            super().do(task, batch, inputs, key, folder)
            return
        for run, noisy in enumerate(self._measured(batch, inputs, key)):
            CellFile(folder / _noisy(run, 0), np.int64)[:] = noisy

    def _measured(self, batch: int, inputs: Any, key: synth.RunKey) -> Iterator[NDArray[np.int64]]:
        """Yield noisy counts of the cells of the pools, of each run."""
        counts = self._counted(batch, inputs)
        for run in range(self.plan.implicates.runs):
            yield measure(counts, self.layout.tables[0], key, 0, batch, run)

    def _counted(self, batch: int, homes: NDArray[np.int32]) -> NDArray[np.int64]:
        """Count the homes in the cells of the pools: **confidential**."""
        pools, home, sizes = self._sorted(batch, homes)
        numeric = self.plan.numeric
        table = synth.Table(numeric.pools.n[pools], numeric.pools.domain[pools], numeric.domains)
        if sizes is None:
            sizes = table.n
        return count_cells(table, np.repeat(np.arange(sizes.size, dtype=np.int32), sizes), home)

    def needed(self, batch: int) -> list[slice]:
        """Return the run of cells of each measured table that a batch is drawn from."""
        pools, batch_slots = self.slices[batch], self._slots(batch)
        slots = self.plan.pools.slots.take(np.arange(batch_slots.start, batch_slots.stop))
        groups = [
            np.array([pools.start, pools.stop - 1]),
            *(table.find(slots) for table in self.plan.secondary),
        ]
        ends = zip(self.layout.tables, ((index.min(), index.max() + 1) for index in groups), strict=True)
        return [slice(int(table.offsets[a]), int(table.offsets[b])) for table, (a, b) in ends]

    def _drawn(self, batch: int, inputs: Any, key: synth.RunKey) -> Iterator[NDArray[np.int32]]:
        rows = self.layout.rows([self.slices[batch]])
        for run, factors in enumerate(inputs):
            fit = restore_estimate(self.plan, rows, self.layout.choose(rows, factors))
            for i in range(self.plan.implicates.of_run):
                name = f" {run} {i}" if run or i else ""
                yield draw_homes(self.plan, rows, fit, key, batch, name)


class RunBatches:
    """The batches of a run, in its private folder, which has the homes of each."""

    tasks: tuple[Task, ...] = ("draw",)
    """In their order."""

    def __init__(self, staging: RunFolder, key: synth.RunKey, work: BatchWork) -> None:
        self.staging, self.plan, self.key, self.work = staging, work.plan, key, work

    @staticmethod
    def of(
        staging: RunFolder, planned: ReleasePlan, plan: ReleasePlan, state: RunState, key: synth.RunKey
    ) -> RunBatches:
        """Return those of a plan, by how it draws: that which was planned, or the same of other slots."""
        kind, kind_of_work = _KINDS[type(procedure_of(plan))]
        createdate = state.certificate.created[:10].replace("-", "")
        work = kind_of_work(plan, createdate, state.config.run.batch_jobs)
        if plan.workplaces and plan.measures:
            return RecordBatches(staging, key, work, planned)
        return kind(staging, key, work)

    def __len__(self) -> int:
        return len(self.work.slices)

    def made(self, task: Task, batch: int) -> Path:
        """Where what a task makes of a batch goes; it is there when that is finished."""
        return self.staging.parts / f"{'measured-' if task == 'measure' else ''}{batch:06}"

    @property
    def estimated(self) -> Path:
        """Where noisy counts of secondary tables, and the estimate made of all, go."""
        return self.staging.parts / _ESTIMATED

    def estimate(self) -> None:
        """Estimate homes from what was measured, where anything is, unless that is done."""

    def correct_accuracy(self, plan_sha256: str) -> None:
        """Correct the accuracy sheet of the public folder by noisy counts, where there are any."""

    def publish_counts(self) -> None:
        """Write noisy counts into the public folder, where there are any."""

    def to_do(self, task: Task) -> list[int]:
        """Return the batches that are not finished."""
        return [batch for batch in range(len(self)) if not self.finished(self.made(task, batch))]

    def inputs(self, task: Task, batch: int) -> TaskInputs:
        """Return what a task needs, read as it is used."""
        return self.staging.read_homes(batch)

    def packed(self, task: Task, batch: int) -> TaskInputs:
        """Return what a task needs in memory, to be sent."""
        return self.inputs(task, batch)

    def do(self, task: Task, batch: int) -> None:
        """Do a task here."""
        with self._keeping(task, batch) as folder:
            self.work.do(task, batch, self.inputs(task, batch), self.key, folder)

    def keep(self, task: Task, batch: int, files: Mapping[str, bytes]) -> None:
        """Keep the files that a worker made."""
        with self._keeping(task, batch) as folder:
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)

    @contextmanager
    def _keeping(self, task: Task, batch: int) -> Iterator[Path]:
        with whole_folder(self.made(task, batch), sweep=False) as folder:  # threads work side by side
            yield folder
            (folder / CHECKSUMS).write_text(_checksums(folder), encoding="utf-8")

    @staticmethod
    def finished(folder: Path) -> bool:
        """Whether a folder is there whole; one that a disk has damaged is removed, to be made again."""
        if folder.exists():
            with suppress(FileNotFoundError):
                if (folder / CHECKSUMS).read_bytes() == _checksums(folder).encode():
                    return True
            shutil.rmtree(folder)
        return False


class MeasuredBatches(RunBatches):
    """The batches of a run whose mechanism measures tables: homes are estimated from noisy counts of all."""

    tasks = ("measure", "estimate", "draw")
    work: MeasuredWork

    def __init__(self, staging: RunFolder, key: synth.RunKey, work: MeasuredWork) -> None:
        super().__init__(staging, key, work)
        self._measured = len(self)

    def inputs(self, task: Task, batch: int) -> TaskInputs:
        """Return homes, to be measured; to be drawn from, the files of factors."""
        return super().inputs(task, batch) if task == "measure" else self._factor_files()

    def packed(self, task: Task, batch: int) -> TaskInputs:
        """Return the same, of the factors those of the batch."""
        if task == "measure":
            return super().packed(task, batch)
        spans = self.work.needed(batch)
        return [
            [CellSpan(cells.start, factors[cells]) for factors, cells in zip(of_run, spans, strict=True)]
            for of_run in self._factor_files()
        ]

    def _factor_files(self) -> list[list[Cells]]:
        tables = range(len(self.work.layout.tables))
        return [
            [CellFile(self.estimated / _factors(run, k), np.float64) for k in tables]
            for run in range(self.plan.implicates.runs)
        ]

    def estimate(self) -> None:
        """Measure secondary tables, and fit homes to all noisy counts, unless that is done."""
        if self.finished(self.estimated):
            return
        with whole_folder(self.estimated) as folder:
            for run in range(self.plan.implicates.runs):
                noisy = self._noisy_counts(run, folder)
                for k in range(1, len(noisy)):
                    noisy[k][:] = self._measure_whole(k, run)
                self._size(noisy)
                (fitting := folder / "fitting").mkdir()
                layout, noisy = self.work.layout.with_history(noisy)
                fitted = estimate_factors(self.plan, layout, noisy, partial(new_numbers, fitting))
                for k, factors in enumerate(fitted):
                    keep_numbers(factors, folder / _factors(run, k))
                shutil.rmtree(fitting)
            (folder / CHECKSUMS).write_text(_checksums(folder), encoding="utf-8")

    def _measure_whole(self, k: int, run: int) -> NDArray[np.int64]:
        """Return noisy counts of a secondary table."""
        return measure(self.staging.read_counts(k), self.work.layout.tables[k], self.key, k, 0, run)

    def _size(self, noisy: Sequence[Cells]) -> None:
        """Find out how many jobs there are, where that is protected, before homes are fitted."""

    def correct_accuracy(self, plan_sha256: str) -> None:
        """Correct the sheet by the noisy counts of the first run; one that was corrected stays."""
        forecast = read_accuracy(self.staging.public, plan_sha256)
        if forecast is None or forecast.after_draw:
            return
        workload = workload_of(self.plan)
        reported = replace(workload, tables=tuple(table for table, _ in reported_tables(workload)))
        noisy = self._noisy_counts(0, self.estimated)
        risks = estimate_risks(self.plan, self.work.layout, noisy, reported)
        if self.staging.confidential.is_dir():  # not of a weaker tier, which no witness repeats
            shutil.copyfile(self.staging.public / ACCURACY_FILE, self.staging.forecast)
        write_accuracy(after_draw(forecast, risks), plan_sha256, self.staging.public)

    def publish_counts(self) -> None:
        """Write the noisy counts of every run and table into the public folder."""
        runs = range(self.plan.implicates.runs)
        noisy = [self._noisy_counts(run, self.estimated) for run in runs]
        write_measurements(self.plan, self.work.layout, noisy, self.staging.public)

    def _noisy_counts(self, run: int, folder: Path) -> list[Cells]:
        """Return those of the first table as its batches keep them, and the others of a folder."""
        batches = [self.made("measure", batch) / _noisy(run, 0) for batch in range(self._measured)]
        secondary = [folder / _noisy(run, k) for k in range(1, len(self.work.layout.tables))]
        first = JoinedFiles([CellFile(path, np.int64) for path in batches])
        return [first, *(CellFile(path, np.int64) for path in secondary)]


class RecordBatches(MeasuredBatches):
    """Those of a run that protects whole records: slots are estimated again when homes are measured."""

    def __init__(
        self, staging: RunFolder, key: synth.RunKey, work: MeasuredWork, planned: ReleasePlan
    ) -> None:
        super().__init__(staging, key, work)
        self._planned = planned

    def estimate(self) -> None:
        """Do as `MeasuredBatches`, and draw by the slots that were estimated."""
        super().estimate()
        if self.plan.pools.sharing is None:  # of an earlier attempt
            self._take_slots()

    def _size(self, noisy: Sequence[Cells]) -> None:
        """Estimate slots from noisy counts of workplaces and homes."""
        folder, planned = self.staging.workplaces, self._planned
        slots = estimate_again(planned, read_workplaces(folder, planned), self.plan, noisy)
        write_slots(self.plan, slots, folder)
        self._take_slots()

    def _take_slots(self) -> None:
        self.plan = sized_plan(self.staging.workplaces, self.plan)
        self.work = MeasuredWork(self.plan, self.work.createdate, self.work.batch_jobs)


_KINDS: dict[type[Procedure], tuple[type[RunBatches], Callable[[ReleasePlan, str, int | None], Any]]] = {
    Resampling: (RunBatches, BatchWork),
    Estimation: (MeasuredBatches, MeasuredWork),
}
