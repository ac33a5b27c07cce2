"""The measurement file of a release: the noisy counts that its homes were estimated from, table by table.

They are what the mechanism published; everything else of the data follows from them, public numbers and
lots. A row of ``measurements/table-1.parquet`` is a pool of the plan; of a secondary table, a group, in order
of work areas and then of categories. `noisy` has one whole number for each cell, which may be negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.drawing.estimating import (
    JobLayout,
    JobRows,
    drawn_cells,
    estimate_factors,
    estimate_part,
    homes_fit,
    learn_from_batches,
    restore_estimate,
)
from pipelines.plans.plan import ReleasePlan, batches
from pipelines.release.description import MEASUREMENT_FOLDER
from pipelines.storage.cell_file import new_numbers
from pipelines.storage.parquet_bytes import check_parquet_bytes
from pipelines.storage.parquet_form import FormError, check_form
from synth.posterior.estimation import Cells, Estimate

Factors = Sequence[Sequence[Cells]]
_COUNTS = pa.large_list(pa.int64())


def measurement_files(plan: ReleasePlan) -> list[list[str]]:
    """Return the relative names of the files, by run of the mechanism and by table; none without tables."""
    if not plan.measures:
        return []
    runs = plan.implicates.runs
    of_run = [f"run-{run + 1}/" if runs > 1 else "" for run in range(runs)]
    tables = range(1, len(plan.secondary) + 2)
    return [[f"{MEASUREMENT_FOLDER}/{below}table-{k}.parquet" for k in tables] for below in of_run]


def write_measurements(
    plan: ReleasePlan, layout: JobLayout, noisy: Sequence[Sequence[Cells]], folder: Path
) -> None:
    """Write the noisy counts of every run and table into the public folder."""
    for names, of_run in zip(measurement_files(plan), noisy, strict=True):
        for k, (name, values) in enumerate(zip(names, of_run, strict=True)):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(plan, layout, k, values, path)


def _write(plan: ReleasePlan, layout: JobLayout, k: int, values: Cells, target: Any) -> None:
    groups = _groups(plan, k)
    schema = groups.schema.append(pa.field("noisy", _COUNTS))
    offsets = layout.tables[k].offsets
    with pq.ParquetWriter(target, schema, compression="zstd", use_dictionary=groups.column_names) as writer:
        for part in _parts(plan, k):  # so that a nation is not in memory at once
            part_offsets = offsets[part.start : part.stop + 1]
            counts = pa.array(values[int(part_offsets[0]) : int(part_offsets[-1])])
            lists = pa.LargeListArray.from_arrays(pa.array(part_offsets - part_offsets[0]), counts)
            rows = groups.slice(part.start, part.stop - part.start)
            writer.write_table(rows.append_column(schema.field("noisy"), lists))


def _parts(plan: ReleasePlan, k: int) -> list[slice]:
    return batches(plan) if k == 0 else [slice(0, plan.secondary[k - 1].table.n.size)]


def _groups(plan: ReleasePlan, k: int) -> pa.Table:
    """Return the columns that say which group a row of a table is."""
    if k == 0:
        return pa.table({"pool": pa.array(np.arange(plan.pools.n.size, dtype=np.int32))})
    return pa.table(plan.secondary[k - 1].labels())


def read_measurements(folder: Path, plan: ReleasePlan, layout: JobLayout) -> list[list[Cells]]:
    """Check the noisy counts of a public folder, by run and table; they are read as they are looked at.

    Lemma 42 of docs/privacy.md: counts that noise hardly gives are refused.
    """
    stored = _stored(folder, plan, layout)
    for of_run in stored:
        for counts in of_run.values():
            counts.check()
            counts.check_zeros()
    return [[*of_run.values()] for of_run in stored]


def check_measurements(
    folder: Path, plan: ReleasePlan, layout: JobLayout
) -> tuple[list[list[Cells]], list[str]]:
    """Do what `read_measurements` does, and refuse files with other bytes than are written of their rows.

    Gives the names of files that another version of pyarrow wrote, too, whose bytes are not compared.
    """
    stored, others = _stored(folder, plan, layout), []
    for of_run in stored:
        for k, (name, counts) in enumerate(of_run.items()):
            # What is written is read from the file, and checked, in the same pass.
            if not check_parquet_bytes(folder / name, partial(_write, plan, layout, k, counts)):
                counts.check()
                others.append(name)
            counts.check_zeros()
    return [[*of_run.values()] for of_run in stored], others


def _stored(folder: Path, plan: ReleasePlan, layout: JobLayout) -> list[dict[str, _StoredCounts]]:
    return [
        {name: _StoredCounts(folder / name, plan, layout, k) for k, name in enumerate(names)}
        for names in measurement_files(plan)
    ]


class _StoredCounts:
    """The noisy counts of a table in a public folder: row groups are read and checked when needed."""

    def __init__(self, path: Path, plan: ReleasePlan, layout: JobLayout, k: int) -> None:
        self._path, self._table, self._groups = path, layout.tables[k], _groups(plan, k)
        kinds = zip(self._groups.column_names, self._groups.schema.types, strict=True)
        columns = {name: partial(_is, kind) for name, kind in kinds}
        metadata = self._metadata = check_form(path, columns | {"noisy": partial(_is, _COUNTS)})
        rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if sum(rows) != self._groups.num_rows:
            raise self._other_rows()
        self._ends = [0, *itertools.accumulate(rows)]
        # Where records need not be those of the slots, nothing tells what counts add up to.
        self._public = plan.fills_slots
        self._noise = self._table.parameters
        self._limit = self._noise.limit()
        self._zeros = [0] * len(rows)  # groups of each row group whose counts add up to their public sizes

    def _other_rows(self) -> FormError:
        return FormError(f"{self._path.name}: the rows are not the groups that the plan measures")

    def check(self) -> None:
        """Read all counts, and keep none."""
        for i in range(self._metadata.num_row_groups):
            self._read(i)

    def check_zeros(self) -> None:
        """Refuse counts that have no noise, once all were read."""
        if self._public and self._noise.rare_zeros(self._table.k, sum(self._zeros)):
            raise self._rare("so many groups whose counts add up to exactly their public sizes")

    def _rare(self, event: str) -> FormError:
        return FormError(
            f"{self._path.name}: {event} has a probability below 2^-64 under the noise of the plan; "
            "the release was not made as it says"
        )

    def _check_noise(self, i: int, counts: NDArray[np.int64]) -> None:
        """Refuse counts of a row group that noise hardly gives; no sum of them is beyond 63 bits."""
        rows, limit = slice(self._ends[i], self._ends[i + 1]), self._limit
        n, k, first = self._table.n[rows], self._table.k[rows], self._table.offsets[rows]
        if np.any(counts < -limit) or np.any(counts > np.repeat(n, k) + limit):
            raise self._rare("a noisy count so far below 0, or above the public size of its group,")
        residuals = np.add.reduceat(counts, first - first[:1]) - n
        if self._noise.rare_residuals(k, residuals):
            raise self._rare("a group whose noisy counts add up to so much more or less than its public size")
        self._zeros[i] = int((residuals == 0).sum())

    def _read(self, i: int) -> NDArray[np.int64]:
        """Return the counts of a row group."""
        rows = slice(self._ends[i], self._ends[i + 1])
        file = pq.ParquetFile(self._path, metadata=self._metadata)
        part = file.read_row_group(i, use_threads=False)  # threads wait for each other, which costs as much
        noisy = part["noisy"].combine_chunks()
        labels = part.drop_columns("noisy").combine_chunks()
        if noisy.null_count or noisy.values.null_count or labels != self._groups[rows].combine_chunks():
            raise self._other_rows()
        if not np.array_equal(noisy.value_lengths().to_numpy(), self._table.k[rows]):
            raise FormError(f"{self._path.name}: a group does not have one count for each of its cells")
        counts: NDArray[np.int64] = noisy.values.to_numpy()
        if self._public:
            self._check_noise(i, counts)
        return counts

    def __getitem__(self, cells: slice) -> NDArray[np.int64]:
        offsets = self._table.offsets
        begin, stop, _ = cells.indices(int(offsets[-1]))
        parts = []
        for i, (first, last) in enumerate(itertools.pairwise(offsets[self._ends].tolist())):
            if first < stop and begin < last:
                parts.append(self._read(i)[max(begin - first, 0) : stop - first])
        return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])

    def __setitem__(self, cells: slice, values: NDArray[np.int64]) -> None:
        raise TypeError("a release cannot be changed")


def _is(kind: pa.DataType, other: pa.DataType) -> bool:
    return bool(kind == other)


class Measurements:
    """The noisy counts of a release, and what they make of the totals of every unit of the public model.

    `factors` are what `estimate_factors` makes of them, where that is known; else several tables are fitted
    in the empty folder `scratch`. `words` say what was measured.
    """

    def __init__(
        self,
        plan: ReleasePlan,
        layout: JobLayout,
        noisy: Sequence[Sequence[Cells]],
        factors: Factors | None = None,
        scratch: Path | None = None,
    ) -> None:
        if plan.history is not None:  # of one run
            layout, counts = layout.with_history(noisy[0])
            noisy = [counts]
        self._plan, self._layout, self._noisy = plan, layout, noisy
        self._factors = factors
        self._learned = (
            [] if plan.secondary else [learn_from_batches(plan, layout, of_run) for of_run in noisy]
        )
        if factors is None and plan.secondary:
            if scratch is None:
                raise ValueError("several tables can be fitted in a folder only")
            for run in range(len(noisy)):
                (scratch / str(run)).mkdir()
            self._factors = [
                estimate_factors(plan, layout, of_run, partial(new_numbers, scratch / str(run)))
                for run, of_run in enumerate(noisy)
            ]
        cells = sum(table.offsets[-1] for table in layout.tables)
        runs = f", {len(noisy)} times" if len(noisy) > 1 else ""
        tables = f"{len(layout.tables)} tables" if len(layout.tables) > 1 else "one table"
        self.words = f"noisy counts of {cells:,} cells of {tables}{runs}, which homes are estimated from"

    def of(self, run: int, pools: slice) -> Rounded:
        """Return what homes of one of the `batches` of the plan, in a run of the mechanism, came from."""
        plan, layout = self._plan, self._layout
        rows = layout.rows([pools])
        if self._factors is None:
            factors = estimate_part(plan, layout, self._noisy[run], pools, self._learned[run])
        else:
            factors = layout.choose(rows, self._factors[run])
        return Rounded(plan, rows, restore_estimate(plan, rows, factors), layout.attributes)


class Rounded:
    """The estimate of some places, and the cells (`domains`, with `shares` of units) of their whole jobs."""

    def __init__(self, plan: ReleasePlan, rows: JobRows, fit: Estimate, attributes: tuple[str, ...]) -> None:
        self.attributes = attributes
        self._plan, self._rows, self._fit = plan, rows, fit
        self._places = rows.groups.place[rows.groups.starts[:-1]]
        self.domains, self.shares = drawn_cells(plan, rows, fit)

    def domain(self, work: NDArray[np.int32], home: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the domain of the jobs of each work block whose homes are in the part of such a home."""
        unit, policy = self._plan.geography.unit_of(self._plan.level, work), self._plan.policy
        return np.searchsorted(self._places, unit * policy.n_parts + policy.part(home)).astype(np.int32)

    def fits(self, homes: NDArray[np.int32], *, by_slot: bool) -> bool:
        """Say whether homes could have been rounded from the estimate (`homes_fit`)."""
        return homes_fit(self._plan, self._rows, self._fit, homes, by_slot=by_slot)
