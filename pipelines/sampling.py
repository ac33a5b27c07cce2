"""The Dask part of a run: batches of pools, each sampled, decoarsened and written by one task."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from dask.base import compute
from dask.delayed import delayed
from dask.diagnostics.progress import ProgressBar
from numpy.typing import NDArray

import geo_data
import synth
from pipelines.planning import ReleasePlan

__all__ = ["Part", "Piece", "batches", "sample_batch", "sample_release"]

_BATCH_JOBS = 100_000  # the memory of a task is bounded by this and by the largest work block


@dataclass(frozen=True)
class Piece:
    """A part of an OD file, as CSV and as Parquet."""

    csv: Path
    parquet: Path


@dataclass(frozen=True)
class Part:
    """What one task wrote: its part of the OD files, and of the jobs if asked for.

    `aux` is there if the geography has outside areas: the rows of workers who live in them.
    """

    od: Piece
    aux: Piece | None
    jobs: Path | None


def batches(release: ReleasePlan, jobs: int = _BATCH_JOBS) -> list[slice]:
    """Cut the pools into runs of about `jobs` jobs, never inside a unit whose blocks may share an urn.

    So the jobs of a work block, and all rows between two of its jobs, are in one batch.

    Parameters
    ----------
    release : ReleasePlan
    jobs : int
        A batch ends at the first unit that reaches it.

    Returns
    -------
    list of slice
        Of consecutive pools, covering all.
    """
    pools = release.pools
    level = pools.pooling.level if pools.shared.any() else release.geography.block_level
    unit = release.geography.unit_of(level, pools.block)
    first = np.flatnonzero(np.append(True, np.diff(unit) != 0))
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(pools.n)])[first]
    starts = first[np.append(True, np.diff(before // jobs) > 0)]
    stops = [*starts[1:].tolist(), pools.n.size]
    return [slice(a, b) for a, b in zip(starts.tolist(), stops, strict=True)]


def sample_batch(
    release: ReleasePlan, pools: slice, homes: NDArray[np.int32], key: synth.RunKey, batch: int
) -> NDArray[np.int32]:
    """Return the home block of every synthetic worker of a batch of pools, slot after slot.

    Parameters
    ----------
    release : ReleasePlan
    pools : slice
        Consecutive pools.
    homes : ndarray of int32
        **Confidential**: home block of every real worker of these pools, pool after pool.
    key : synth.RunKey
    batch : int
        Number of the batch; gives it streams of its own.

    Returns
    -------
    ndarray of int32, shape (n_draws,)
        The t-th draw of a pool belongs to its t-th slot.
    """
    plan = release.plan
    domain = np.repeat(plan.pools.domain[pools], plan.pools.n[pools])
    cells = plan.domains.locate(domain, homes)
    drawn = release.mechanism.sample(plan, pools, cells, key.stream("urn", batch))
    domain = np.repeat(plan.pools.domain[pools], plan.pools.m[pools])
    return synth.draw_blocks(
        plan.domains, domain, drawn, release.weights, release.shares, key.stream("blocks", batch)
    )


def sample_release(
    release: ReleasePlan,
    homes: NDArray[np.int32],
    key: synth.RunKey,
    folder: Path,
    *,
    createdate: str,
    with_jobs: bool,
    progress: bool = False,
) -> Sequence[Part]:
    """Sample all pools with Dask and write the parts of the OD file.

    Parameters
    ----------
    release : ReleasePlan
    homes : ndarray of int32, shape (n_records,)
        **Confidential**: home block of every real worker, pool after pool.
    key : synth.RunKey
    folder : Path
        Where the parts go; private until the release is final.
    createdate : str
        ``YYYYMMDD``.
    with_jobs : bool
        Also write one row a job with its attributes.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    sequence of Part
        In the order of the pools.
    """
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(release.pools.n)])
    # The cumulative keys are made once, here, rather than by two tasks at the same time.
    release.plan.domains.locate(release.plan.pools.domain[:1], homes[:1])
    task = delayed(_batch_task, pure=False, traverse=False)
    tasks = [
        task(
            release,
            pools,
            homes[offsets[pools.start] : offsets[pools.stop]],
            key,
            i,
            folder,
            createdate,
            with_jobs,
        )
        for i, pools in enumerate(batches(release))
    ]
    with ProgressBar(out=sys.stderr) if progress else nullcontext():
        return list(compute(*tasks, scheduler="threads"))


def _batch_task(
    release: ReleasePlan,
    pools: slice,
    homes: NDArray[np.int32],
    key: synth.RunKey,
    batch: int,
    folder: Path,
    createdate: str,
    with_jobs: bool,
) -> Part:
    drawn = sample_batch(release, pools, homes, key, batch)
    slots = release.pools.slots
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(release.pools.n)])
    own = slice(offsets[pools.start], offsets[pools.stop])
    attributes = {name: codes[own] for name, codes in slots.attributes.items()}
    table = geo_data.od_table(release.geography, slots.work[own], drawn, attributes, slots.categories)
    outside = release.geography.is_outside(release.geography.number(table["h_geocode"]))
    first = batch == 0
    part = Part(
        _write_piece(table[~outside], folder / f"{batch:06}.od", createdate, header=first),
        _write_piece(table[outside], folder / f"{batch:06}.aux", createdate, header=first)
        if release.geography.outside
        else None,
        folder / f"{batch:06}.jobs.parquet" if with_jobs else None,
    )
    if part.jobs is not None:
        columns: dict[str, Any] = {
            "w_geocode": release.geography.blocks[slots.work[own]],
            "h_geocode": release.geography.blocks[drawn],
            **{name: np.array(slots.categories[name], object)[codes] for name, codes in attributes.items()},
        }
        pq.write_table(pa.table({name: pa.array(values) for name, values in columns.items()}), part.jobs)
    return part


def _write_piece(table: pd.DataFrame, stem: Path, createdate: str, *, header: bool) -> Piece:
    piece = Piece(stem.with_suffix(f"{stem.suffix}.csv.gz"), stem.with_suffix(f"{stem.suffix}.parquet"))
    geo_data.write_od_csv(table, piece.csv, createdate=createdate, header=header)
    od = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(od.append_column("createdate", pa.repeat(createdate, len(table))), piece.parquet)
    return piece
