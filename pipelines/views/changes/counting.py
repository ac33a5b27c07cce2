"""Rows of a comparison: what changed from A to B, how sure that is, and whether it is beyond noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipelines.release.intervals import N_DRAWS, interval_ends
from pipelines.storage.progress import Progress
from pipelines.views.changes.sides import Int64, Shape, Side
from pipelines.views.intervals.workplaces import SIDE
from synth.arrays import find_keys
from synth.posterior.differences import differences
from synth.posterior.intervals import LEVEL
from synth.posterior.recalibration import BlockSums

_CELLS = 250_000  # whose draws are in memory at a time, about


@dataclass(frozen=True, eq=False)
class ChangeTable:
    """Differences of a table, B minus A.

    Attributes
    ----------
    home, work : str or None
        Kinds of its areas, as far as it has them.
    by : tuple of str
        The attribute, if it is by one.
    rows : DataFrame
        ``work`` and ``home`` (codes, as far as it has them), the attribute, ``A``, ``B``, ``difference``,
        ``low``, ``high``, ``beyond_noise``.
    exact : bool
        Whether all numbers of A and B are exact.
    unknown : int
        Rows that are left out, as nothing that was published tells of them.
    """

    home: str | None
    work: str | None
    by: tuple[str, ...]
    rows: pd.DataFrame
    exact: bool = False
    unknown: int = 0

    @property
    def file(self) -> str:
        """The name of its file."""
        areas = f"jobs_{self.work}"
        if self.home:
            areas = f"flows_{self.home}_to_{self.work}" if self.work else f"residents_{self.home}"
        return f"{areas}{''.join(f'_by_{name}' for name in self.by)}.csv"

    @property
    def kind(self) -> str | None:
        """Kind of the areas of a table that counts nothing else apart, and can be a map."""
        return None if self.by or (self.home and self.work) else self.home or self.work

    @property
    def beyond(self) -> int:
        """Rows that are beyond noise."""
        return int(self.rows["beyond_noise"].sum())

    @property
    def uncertain(self) -> int:
        """Rows whose interval has more than one number."""
        return int((self.rows["low"] < self.rows["high"]).sum())

    @property
    def by_chance(self) -> int:
        """Rows that would be beyond noise by chance, up to about, if nothing had changed."""
        return math.ceil(self.uncertain * (1 - LEVEL))


def compare_jobs(a: Side, b: Side, level: str, by: tuple[str, ...]) -> ChangeTable:
    """Compare jobs by workplace: exact numbers, or noisy ones; noise is independent, so variances add up."""
    one, other = a.jobs(level, by), b.jobs(level, by)
    middle, variance = other.mean - one.mean, other.variance + one.variance
    can = ~(a.nobody(level, works=True) & b.nobody(level, works=True))
    can = np.broadcast_to(can, variance.shape)
    known = np.isfinite(variance) & can
    category, unit = np.nonzero(known)
    off = SIDE * np.sqrt(variance[known])
    numbers = {
        "A": one.released[known],
        "B": other.released[known],
        "difference": np.rint(middle[known]).astype(np.int64),
        "low": np.floor(middle[known] - off).astype(np.int64),
        "high": np.ceil(middle[known] + off).astype(np.int64),
    }
    columns = {"work": a.areas.codes(level)[unit], **_labels(a, by, category)}
    rows, unknown = _with_verdict(pd.DataFrame(columns | numbers)), int((~known & can).sum())
    return ChangeTable(None, level, by, rows, not variance[can].any(), unknown)


def compare_homes(
    a: Side, b: Side, home: str, work: str | None, by: tuple[str, ...], progress: Progress | None = None
) -> ChangeTable:
    """Compare residents, or flows, draw by draw."""
    shape = shape_of(a, home, work, by)
    parts = []
    for drawn in drawn_changes(a, b, shape, progress):
        low, high = interval_ends(drawn.differences)
        mean = np.rint(drawn.differences.mean(axis=0)).astype(np.int64)
        numbers = {"key": drawn.key, "A": drawn.a, "B": drawn.b, "difference": mean}
        parts.append(pd.DataFrame({**numbers, "low": low, "high": high}))
    rows = pd.concat(parts, ignore_index=True)
    if work is not None:
        empty = (rows[["A", "B", "low", "high"]] == 0).all(axis=1)
        rows = rows[~empty].reset_index(drop=True)
    work_unit, category, home_unit = shape.parts(rows.pop("key").to_numpy())
    columns = {} if work is None else {"work": a.areas.codes(work)[work_unit]}
    columns |= {"home": a.areas.codes(home)[home_unit], **_labels(a, by, category)}
    return ChangeTable(home, work, by, _with_verdict(pd.concat([pd.DataFrame(columns), rows], axis=1)))


def shape_of(a: Side, home: str, work: str | None, by: tuple[str, ...] = ()) -> Shape:
    """Return how the cells of a table are numbered."""
    combinations = len(a.release.categories[by[0]]) if by else 1
    works = 1 if work is None else a.areas.codes(work).size
    return Shape(home, work, by, (works, combinations, a.areas.codes(home).size))


class DrawnChanges(NamedTuple):
    """Cells of a table: their keys, released counts of A and of B, and draws of what changed."""

    key: Int64
    a: Int64
    b: Int64
    differences: Int64  # (draws, cells)


def drawn_changes(a: Side, b: Side, shape: Shape, progress: Progress | None = None) -> Iterator[DrawnChanges]:
    """Yield the cells of some work areas after others: of flows those that occur anywhere, else all."""
    released = [side.released(shape) for side in (a, b)]
    known = [side.unbiased(shape) for side in (a, b)]
    chunks = list(_chunks(a, b, shape))
    for i, areas in enumerate(chunks):
        cells = [side.cells(shape, areas) for side in (a, b)]
        some = []
        for key, jobs in released:
            inside = np.isin(shape.parts(key)[0], areas)
            some.append((key[inside], jobs[inside]))
        keys = np.arange(np.prod(shape.widths), dtype=np.int64)
        if shape.work is not None:
            keys = np.unique(np.concatenate([*(key for key, _ in some), *(each.key for each in cells)]))
        one, other = (_placed(each.key, each.counts, keys) for each in cells)
        of_a, of_b = (_placed(key, jobs, keys) for key, jobs in some)
        yield DrawnChanges(keys, of_a, of_b, differences(one, other, *_unbiased(known, keys)))
        if progress is not None:
            progress(i + 1, len(chunks))


def _placed(key: Int64, counts: Int64, keys: Int64) -> Int64:
    """Return counts of cells among further ones, which have 0."""
    placed = np.zeros((*counts.shape[:-1], keys.size), np.int64)
    placed[..., np.searchsorted(keys, key)] = counts
    return placed


def _unbiased(known: list[BlockSums | None], keys: Int64) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return an unbiased estimate of the difference of each cell, and its variance: 0 where none is known."""
    value, variance, there = np.zeros(keys.size), np.zeros(keys.size), np.ones(keys.size, np.bool_)
    for sign, sums in zip((-1, 1), known, strict=True):
        if sums is None or not sums.number.size:
            return np.zeros(keys.size), np.zeros(keys.size)
        position, has = find_keys(sums.number, keys)
        value += sign * sums.value[position]
        variance += sums.variance[position]
        there &= has
    return value, np.where(there, variance, 0)


def _chunks(a: Side, b: Side, shape: Shape) -> Iterator[Int64]:
    """Yield work areas, so many at a time that the draws of their cells are in memory."""
    if shape.work is None:
        yield np.zeros(1, np.int64)
        return
    most = np.full(shape.widths[0], shape.widths[1] * shape.widths[2])
    jobs = sum(side.jobs(shape.work, ()).released[0] for side in (a, b))
    ends = np.cumsum(np.minimum(most, jobs * N_DRAWS)) // _CELLS
    yield from np.split(np.arange(most.size), np.flatnonzero(np.diff(ends)) + 1)


def _with_verdict(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(beyond_noise=(rows["low"] > 0) | (rows["high"] < 0))


def _labels(a: Side, by: tuple[str, ...], category: NDArray[np.integer]) -> dict[str, NDArray[np.object_]]:
    return {name: np.array(a.release.categories[name], object)[category] for name in by}
