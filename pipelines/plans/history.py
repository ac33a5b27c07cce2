"""What a plan holds of earlier releases of its series: which they are, and what their noisy counts say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from synth.arrays import offsets_of
from synth.geometric.measured import MeasuredTable
from synth.posterior.history import CarriedCounts

UNIT = 100
"""Means and variances are stored in hundredths: whole numbers, the same on every machine."""

_COLUMNS = ("table", "n", "mean", "variance")


class EarlierRelease(NamedTuple):
    """An earlier release of a series.

    Attributes
    ----------
    name : str
    year : int
    sha256 : str
        Of its SHA256SUMS, which cover all its files.
    """

    name: str
    year: int
    sha256: str


@dataclass(frozen=True, eq=False)
class History:
    """Noisy counts of earlier releases, as evidence of what a plan measures.

    Attributes
    ----------
    releases : tuple of EarlierRelease
        The last one first.
    counts : tuple of CarriedCounts
        Of each measured table, that of the pools first.
    """

    releases: tuple[EarlierRelease, ...]
    counts: tuple[CarriedCounts, ...]

    def years_to(self, year: int) -> int:
        """Return how many years the last release lies before a year."""
        return year - self.releases[0].year

    def to_table(self, tables: Sequence[MeasuredTable]) -> pa.Table:
        """Return a row for each group of each measured table."""
        parts = []
        for k, (counts, table) in enumerate(zip(self.counts, tables, strict=True)):
            offsets = pa.array(table.offsets)
            lists = (
                pa.LargeListArray.from_arrays(offsets, pa.array(np.rint(values * UNIT).astype(np.int64)))
                for values in (counts.mean, counts.variance)
            )
            number = pa.array(np.full(counts.n.size, k, np.int32))
            parts.append(pa.table([number, pa.array(counts.n), *lists], names=[*_COLUMNS]))
        return pa.concat_tables(parts)

    @classmethod
    def from_table(
        cls, releases: Sequence[Sequence[Any]], rows: pa.Table, tables: Sequence[MeasuredTable]
    ) -> History:
        """Read what `to_table` returned; a ValueError if it is not about these tables."""
        known = all([*map(type, of)] == [str, int, str] for of in releases)
        if not known or not releases:
            raise ValueError("plan.json: history is not a name, a year and a hash for each earlier release")
        number = rows["table"].to_numpy()
        if not np.array_equal(number, np.repeat(np.arange(len(tables)), [table.n.size for table in tables])):
            raise ValueError("history.parquet: the rows are not the groups that the plan measures")
        counts = []
        for k, table in enumerate(tables):
            part = rows.filter(pa.array(number == k)).combine_chunks()
            n, mean, variance = (
                part["n"].to_numpy(),
                _numbers(part, "mean", table),
                _numbers(part, "variance", table),
            )
            if n.min() < 0 or variance.min() <= 0:
                raise ValueError("history.parquet: a size is below 0, or a variance not above 0")
            counts.append(CarriedCounts(n, mean, variance))
        return cls(tuple(EarlierRelease(*of) for of in releases), tuple(counts))


def _numbers(part: pa.Table, name: str, table: MeasuredTable) -> NDArray[np.float64]:
    """Return a number for each cell of a table."""
    lists = part[name].chunk(0)
    if (
        not np.array_equal(offsets_of(lists.value_lengths().to_numpy()), table.offsets)
        or lists.values.null_count
    ):
        raise ValueError(f"history.parquet: {name} does not have one number for each cell")
    numbers: NDArray[np.float64] = lists.values.to_numpy() / UNIT
    return numbers
