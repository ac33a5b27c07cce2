"""Tables of workplaces that are measured before homes are: who is counted together, and in which cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import prod

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import synth
from geo_data.geography import Geography
from geo_data.jobs import JobRecords, Slots
from pipelines.plans.measured import TableChoice

Int64 = NDArray[np.int64]


class MeasuredWorkplaces:
    """A table of workplaces: every job is in the cell of its work area and categories.

    Parameters
    ----------
    choice : TableChoice
        Without a home.
    categories : mapping of str to tuple of str
        Of every attribute of the jobs.
    geography : Geography
    jobs : int
        How many are expected.

    Attributes
    ----------
    table : synth.Table
        One group. Its cells are those of the first combination of categories by work area, then of the next;
        the last attribute changes fastest.
    areas : int
        Number of work areas.

    Raises
    ------
    ValueError
        If the geography does not have the level, or the jobs an attribute; or if cells are too many.
    """

    def __init__(
        self, choice: TableChoice, categories: Mapping[str, tuple[str, ...]], geography: Geography, jobs: int
    ) -> None:
        if unknown := sorted(set(choice.by) - categories.keys()):
            raise ValueError(f"workplaces cannot be measured by {', '.join(unknown)}: no such attribute")
        self.choice, self._geography = choice, geography
        self._categories = {name: categories[name] for name in choice.by}
        self.areas = 1 if choice.work is None else geography.n_units(choice.work)
        cells = self.areas * self.combinations
        if cells > np.iinfo(np.int32).max:
            raise ValueError("a table of workplaces has more than 2^31 - 1 cells")
        domains = synth.Domains(
            cells, np.array([0, cells]), np.arange(cells, dtype=np.int32), np.zeros(cells, np.uint8)
        )
        self.table = synth.Table(np.array([jobs]), np.array([0], np.int32), domains)

    @cached_property
    def combinations(self) -> int:
        """Number of combinations of categories."""
        return prod(map(len, self._categories.values()))

    def count(self, records: JobRecords) -> Int64:
        """Count the **confidential** jobs of each cell; those of no work block or category are in none."""
        combination, none = combination_of(records, self._categories)
        none |= records.work < 0
        area = self._area(records.work)
        index = (combination * self.areas + area)[~none]
        return np.bincount(index, minlength=self.areas * self.combinations).astype(np.int64)

    def labels(self) -> dict[str, pa.DictionaryArray]:
        """Return the work area, under "work", and the category of each attribute of every cell, by name.

        Of all jobs wherever they are "work" is empty.
        """
        level, geography = self.choice.work, self._geography
        kind, area = np.divmod(np.arange(self.areas * self.combinations), self.areas)
        if level is None:
            codes: pa.Array = pa.array([""])
        elif level == geography.block_level:
            codes = geography.block_codes
        else:
            codes = pa.array(geography.codes(level), pa.string())
        columns = {"work": _coded(codes, area)}
        for name, of_cell in codes_of(kind, self._categories).items():
            columns[name] = _coded(pa.array(self._categories[name], pa.string()), of_cell)
        return columns

    def _area(self, work: NDArray[np.int32]) -> NDArray[np.integer]:
        if self.choice.work is None:
            return np.zeros(work.size, np.int64)
        return self._geography.unit_of(self.choice.work, work)


def _coded(values: pa.Array, codes: NDArray[np.integer]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), values.cast(pa.string()))


def combination_of(
    jobs: Slots | JobRecords, categories: Mapping[str, tuple[str, ...]]
) -> tuple[Int64, NDArray[np.bool_]]:
    """Return each job's combination of categories, and whether it has another one of any attribute."""
    codes, none = {name: jobs.attributes[name] for name in categories}, np.zeros(len(jobs), np.bool_)
    for name, values in categories.items():
        none |= codes[name] >= len(values)
    return combined(codes, categories, len(jobs)), none


def combined(
    codes: Mapping[str, NDArray[np.integer]], categories: Mapping[str, tuple[str, ...]], size: int
) -> Int64:
    """Return the combination of codes of some attributes, of so many entries."""
    number = np.zeros(size, np.int64)
    for name, of_attribute in codes.items():
        number = number * len(categories[name]) + of_attribute
    return number


def codes_of(combination: Int64, categories: Mapping[str, tuple[str, ...]]) -> dict[str, Int64]:
    """Return the category of each attribute of combinations."""
    codes = {}
    for name in reversed([*categories]):
        combination, codes[name] = np.divmod(combination, len(categories[name]))
    return dict(reversed(codes.items()))


def measured_workplaces(
    choices: Iterable[TableChoice], slots: Slots, geography: Geography
) -> tuple[MeasuredWorkplaces, ...]:
    """Return every table of workplaces; errors are those of `MeasuredWorkplaces`."""
    return tuple(MeasuredWorkplaces(choice, slots.categories, geography, len(slots)) for choice in choices)
