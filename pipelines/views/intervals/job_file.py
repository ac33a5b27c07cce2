"""Posterior draws of the homes of single jobs, in a file that is there while those of a release are made."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipelines.storage.progress import Progress
from pipelines.views.intervals.evidence import JobDraws, PlaceDraws

Int64 = NDArray[np.int64]

_JOBS, _OF_BLOCKS = 20_000, 2_000  # of a row group, at most, but for a row: of homes by unit, and by block


@dataclass(frozen=True, eq=False)
class JobCells:
    """Some cells of a table, and their count in every draw."""

    home: Int64  # Numbers of units of their levels
    work: Int64
    categories: tuple[Int64, ...]  # By attribute of the table
    counts: Int64


@dataclass(frozen=True, eq=False)
class JobFile:
    """The draws of all jobs: a row for each row of `jobs`, with the homes of its jobs, draw after draw."""

    jobs: JobDraws
    path: Path

    def write(self, places: Iterator[PlaceDraws], done: Progress) -> None:
        """Write the draws, place by place."""
        jobs, geography = self.jobs, self.jobs.plan.geography
        units = geography.n_units(jobs.home_level)
        home = pa.list_(pa.uint16() if units <= 2**16 else pa.int32())
        with pq.ParquetWriter(self.path, pa.schema([("homes", home)]), compression="zstd") as writer:
            most = _OF_BLOCKS if jobs.home_level == geography.block_level else _JOBS
            for part in _gathered(jobs, places, most):
                lists = _lists(jobs, part, units, home)
                writer.write_table(pa.Table.from_arrays([lists], ["homes"]))
                done(part[-1].rows.stop, jobs.jobs.size)

    def cells(self, home: str, work: str, attributes: Sequence[str]) -> Iterator[JobCells]:
        """Yield the cells of a table that have jobs in any draw, all of a work unit together.

        Parameters
        ----------
        home : str
            A level, no finer than that of the homes that are drawn.
        work : str
            A level.
        attributes : sequence of str
        """
        jobs, geography = self.jobs, self.jobs.plan.geography
        home_unit = geography.unit_of(home, geography.starts(jobs.home_level)).astype(np.int64)
        row = geography.units_of_blocks(work)[jobs.work].astype(np.int64)
        with pq.ParquetFile(self.path) as file:
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            last = np.zeros(geography.n_units(work), np.int64)  # the row group in which each work unit ends
            np.maximum.at(last, row, np.repeat(np.arange(len(sizes)), sizes))
            shape = [last.size]
            for name in attributes:
                shape.append(len(jobs.plan.pools.slots.categories[name]))
                row = row * shape[-1] + jobs.attributes[name]
            shape.append(geography.n_units(home))
            pending, pending_counts = np.zeros(0, np.int64), np.zeros((jobs.draws, 0), np.int64)
            begin = 0
            for number, size in enumerate(sizes):
                rows = slice(begin, begin + size)
                homes = file.read_row_group(number)["homes"].combine_chunks().flatten().to_numpy()
                cell, counts = _count(home_unit[homes], row[rows], jobs.jobs[rows], jobs.draws, shape[-1])
                joined = np.union1d(pending, cell)
                total = np.zeros((jobs.draws, joined.size), np.int64)
                total[:, np.searchsorted(joined, pending)] += pending_counts
                total[:, np.searchsorted(joined, cell)] += counts
                whole = last[joined // math.prod(shape[1:])] <= number
                pending, pending_counts = joined[~whole], total[:, ~whole]
                if whole.any():
                    of_work, *codes, of_home = np.unravel_index(joined[whole], shape)
                    yield JobCells(of_home, of_work, tuple(codes), total[:, whole])
                begin += size


def _count(home: Int64, row: Int64, jobs: Int64, draws: int, homes: int) -> tuple[Int64, Int64]:
    """Count the homes of some rows: cells of a table, rising, and their counts in each draw."""
    first, of_row = np.unique(row, return_inverse=True)
    drawn = np.repeat(np.arange(jobs.size), jobs * draws)
    start = np.append(0, np.cumsum(jobs * draws))[:-1]
    draw = (np.arange(home.size) - start[drawn]) // jobs[drawn]
    position, occurring = pd.factorize(
        of_row[drawn] * homes + home, sort=True
    )  # of few: not of all there may be
    counts = np.bincount(draw * occurring.size + position, minlength=draws * occurring.size)
    return first[occurring // homes] * homes + occurring % homes, counts.reshape(draws, occurring.size)


def _gathered(jobs: JobDraws, places: Iterator[PlaceDraws], most: int) -> Iterator[list[PlaceDraws]]:
    """Yield consecutive draws of about so many jobs: parts of large places, and small places together."""
    pending: list[PlaceDraws] = []
    for part in itertools.chain.from_iterable(_cut(place, jobs.jobs, most) for place in places):
        if pending and sum(draws.homes.shape[1] for draws in (*pending, part)) > most:
            yield pending
            pending = []
        pending.append(part)
    if pending:
        yield pending


def _cut(place: PlaceDraws, jobs: NDArray[np.int64], most: int) -> Iterator[PlaceDraws]:
    """Cut the rows of a place into runs of at most so many jobs, or of one row."""
    ends = np.append(0, np.cumsum(jobs[place.rows]))
    begin = 0
    while begin < ends.size - 1:
        end = max(begin + 1, int(np.searchsorted(ends, ends[begin] + most, side="right")) - 1)
        rows = slice(place.rows.start + begin, place.rows.start + end)
        yield PlaceDraws(rows, place.homes[:, ends[begin] : ends[end]])
        begin = end


def _lists(jobs: JobDraws, part: list[PlaceDraws], units: int, kind: pa.DataType) -> pa.ListArray:
    """Return the homes of each row, draw after draw, rising inside a draw: jobs of a row are alike."""
    values, offsets = [], [0]
    for place in part:
        n = jobs.jobs[place.rows]
        key = np.repeat(np.arange(n.size, dtype=np.int64) * units, n) + place.homes
        homes = np.sort(key, axis=1) % units
        ends = np.cumsum(n)
        for begin, end in zip((ends - n).tolist(), ends.tolist(), strict=True):
            values.append(homes[:, begin:end].ravel())
            offsets.append(offsets[-1] + values[-1].size)
    return pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(np.concatenate(values), kind.value_type),
        type=kind,
    )
