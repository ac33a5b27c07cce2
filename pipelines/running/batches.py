"""Batches of pools: homes sorted into them, and each sampled, decoarsened and written by one task."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.planning.plan import ReleasePlan
from pipelines.release.layout import Part, file_names
from pipelines.running.folder import RunState, Staging
from pipelines.storage.checksums import CHECKSUMS, checksum_lines, sha256_of
from pipelines.storage.durable import sync_tree

__all__ = ["RunBatches", "batches", "keep_homes", "sample_batch"]

_OTHERS = "the job records are not those that the plan was made for: a file changed"
_BATCH_JOBS = 100_000
_MOST_BATCHES = 1_500


def batches(release: ReleasePlan, jobs: int | None = None) -> list[slice]:
    """Cut the pools into runs of about so many jobs, never inside a unit whose blocks may share an urn.

    So the jobs of a work block, and all rows between two of its jobs, are in one batch.

    Parameters
    ----------
    release : ReleasePlan
    jobs : int, optional
        A batch ends at the first unit that reaches it: the memory of a task is bounded by this and by the
        largest unit. By default 100,000; more where there would otherwise be more than 1,500 batches.

    Returns
    -------
    list of slice
        Of consecutive pools, covering all.
    """
    pools = release.pools
    jobs = max(jobs or _BATCH_JOBS, -(-pools.slots.work.size // _MOST_BATCHES))
    level = pools.pooling.level if pools.shared.any() else release.geography.block_level
    unit = release.geography.unit_of(level, pools.block)
    first = np.flatnonzero(np.append(True, np.diff(unit) != 0))
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(pools.n)])[first]
    starts = first[np.append(True, np.diff(before // jobs) > 0)]
    stops = [*starts[1:].tolist(), pools.n.size]
    return [slice(a, b) for a, b in zip(starts.tolist(), stops, strict=True)]


def sample_batch(
    release: ReleasePlan, pools: slice, homes: NDArray[np.int32], key: synth.RunKey, batch: int, run: int = 0
) -> NDArray[np.int32]:
    """Run the mechanism on a batch of pools, and return the home blocks of the synthetic workers.

    Parameters
    ----------
    release : ReleasePlan
    pools : slice
        Consecutive pools.
    homes : ndarray of int32
        **Confidential**: home block of every real worker of these pools, pool after pool.
    key : synth.RunKey
    batch : int
        Number of the batch.
    run : int
        Number of the run of the mechanism, below `Implicates.runs`. Each run of a batch has streams of its
        own.

    Returns
    -------
    ndarray of int32, shape (n_implicates, n_slots)
        A row for each implicate that is cut from a run, slot after slot: the t-th draw of a pool belongs to
        its t-th slot.
    """
    plan = release.plan
    domain = np.repeat(plan.pools.domain[pools], plan.pools.n[pools])
    cells = plan.domains.locate(domain, homes)
    of_run = f" {run}" if run else ""  # the first run has the streams of a release of one implicate
    drawn = release.mechanism.sample(plan, pools, cells, key.stream(f"urn{of_run}", batch))
    domain = np.repeat(plan.pools.domain[pools], plan.pools.m[pools])
    stream = key.stream(f"blocks{of_run}", batch)
    blocks = synth.draw_blocks(
        plan.domains, domain, drawn, release.cumulative_weights, release.shares, stream
    )
    return release.implicates.cut(blocks, plan.pools.n[pools])


def keep_homes(
    staging: Staging,
    release: ReleasePlan,
    parts: Iterable[geo_data.JobRecords],
    batch_jobs: int | None = None,
) -> None:
    """Sort the confidential homes into a file for each batch.

    Parameters
    ----------
    staging : Staging
    release : ReleasePlan
    parts : iterable of JobRecords
        **Confidential.** One after another in memory, with the attributes that the pools are stratified by.
    batch_jobs : int, optional
        As for `batches`.

    Raises
    ------
    ValueError
        If the records are not those of the plan's slots.
    """
    pools, geography = release.pools, release.geography
    finder = geo_data.PoolFinder(pools, geography)
    first = np.array([pools.start for pools in batches(release, batch_jobs)])
    of_pool, of_block = np.zeros(pools.n.size + 1, np.int64), np.zeros(geography.n_blocks, np.int64)
    for records in parts:
        pool = finder.find(records)
        of_pool += np.bincount(pool, minlength=of_pool.size)
        of_block += np.bincount(records.work, minlength=of_block.size)
        batch = np.searchsorted(first, pool, side="right") - 1
        order = np.argsort(batch, kind="stable")
        homes = np.stack([pool[order].astype(np.int32), records.work[order], records.home[order]])
        present, begin = np.unique(batch[order], return_index=True)
        for one, a, b in zip(present.tolist(), begin, [*begin[1:], order.size], strict=True):
            staging.add_homes(one, homes[:, a:b])
    slots = np.bincount(pools.slots.work, minlength=of_block.size)
    if not np.array_equal(of_pool[:-1], pools.n) or not np.array_equal(of_block, slots):
        raise ValueError(_OTHERS)


def _checksums(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS)
    return "".join(checksum_lines({path.relative_to(folder).as_posix(): sha256_of(path) for path in files}))


def _offsets(release: ReleasePlan) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(release.pools.n)])


class RunBatches:
    """The batches of a run: what its tasks share, and the task.

    Parameters
    ----------
    staging : Staging
        Private folder of the run, with the homes of every batch.
    release : ReleasePlan
    state : RunState
    key : synth.RunKey
    """

    def __init__(self, staging: Staging, release: ReleasePlan, state: RunState, key: synth.RunKey) -> None:
        self.staging, self.release, self.key = staging, release, key
        self.implicates = release.implicates
        self.createdate = state.certificate.created[:10].replace("-", "")
        self.slices = batches(release, state.config.run.batch_jobs)
        # A folder of the run's own: what a lost task of an earlier run still draws finds no place.
        self.parts = staging.parts / hashlib.sha256(state.name.encode()).hexdigest()[:16]
        self.parts.mkdir(mode=0o700, exist_ok=True)
        self.offsets = _offsets(release)
        names = file_names(release.configuration)
        self.with_csv, self.with_jobs = "od_csv" in names, "jobs_parquet" in names

    def folder(self, batch: int) -> Path:
        """Where the part of a batch goes; it is there when the batch is finished."""
        return self.parts / f"{batch:06}"

    def parts_of(self, folder: Path) -> list[Part]:
        """What a batch writes into a folder, by implicate."""
        aux = bool(self.release.geography.outside)
        return [Part.of(folder / name, aux=aux, jobs=self.with_jobs) for name in self.implicates.folders]

    def draw(self, batch: int) -> None:
        """Draw a batch and write its part.

        Raises
        ------
        ValueError
            If its homes are not those of the plan's slots.
        """
        pools = self.slices[batch]
        pool, work, home = self.staging.read_homes(batch)
        order = np.lexsort((work, pool))  # as the slots are
        own = slice(self.offsets[pools.start], self.offsets[pools.stop])
        if not np.array_equal(work[order], self.release.pools.slots.work[own]):
            raise ValueError(_OTHERS)
        folder = Path(tempfile.mkdtemp(prefix=".", dir=self.parts))
        try:
            waiting = iter(self.parts_of(folder))
            for run in range(self.implicates.runs):
                for drawn in sample_batch(self.release, pools, home[order], self.key, batch, run):
                    self._write(next(waiting), batch, drawn)
            (folder / CHECKSUMS).write_text(_checksums(folder), encoding="utf-8")
            sync_tree(folder)  # so that a part that has its name is whole, also after a power cut
            with suppress(OSError):  # a task that was thought lost has finished: its bytes are the same
                os.rename(folder, self.folder(batch))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if not self.folder(batch).exists():
            raise OSError(errno.EIO, "the part of a batch could not be put in place", str(self.folder(batch)))

    def finished(self, batch: int) -> bool:
        """Whether the part of a batch is there; one that a disk has damaged is removed, to be drawn again."""
        folder = self.folder(batch)
        if folder.exists():
            with suppress(FileNotFoundError):
                if (folder / CHECKSUMS).read_bytes() == _checksums(folder).encode():
                    return True
            shutil.rmtree(folder)
        return False

    def _write(self, part: Part, batch: int, drawn: NDArray[np.int32]) -> None:
        geography, slots = self.release.geography, self.release.pools.slots
        pools = self.slices[batch]
        own = slice(self.offsets[pools.start], self.offsets[pools.stop])
        attributes = {name: codes[own] for name, codes in slots.attributes.items()}
        part.od.parquet.parent.mkdir(exist_ok=True)
        first = batch == 0
        outside = geography.is_outside(drawn)
        for piece, rows in ((part.od, ~outside), (part.aux, outside)):
            if piece is not None:
                chosen = {name: codes[rows] for name, codes in attributes.items()}
                table = geo_data.od_table(
                    geography, slots.work[own][rows], drawn[rows], chosen, slots.categories
                )
                if self.with_csv:
                    geo_data.write_od_csv(table, piece.csv, createdate=self.createdate, header=first)
                od = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata()
                dated = od.append_column("createdate", pa.repeat(self.createdate, len(table)))
                pq.write_table(dated, piece.parquet, compression="zstd")
        if part.jobs is not None:
            columns: dict[str, Any] = {
                "w_geocode": geography.blocks[slots.work[own]],
                "h_geocode": geography.blocks[drawn],
                **{name: np.array(slots.categories[name])[codes] for name, codes in attributes.items()},
            }
            jobs = pa.table({name: pa.array(values) for name, values in columns.items()})
            pq.write_table(jobs, part.jobs, compression="zstd")
