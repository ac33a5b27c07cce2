"""Secondary measured tables of a plan: who is counted together, in which cells, with which share of epsilon.

They follow from public slots and the geography, so a stored plan holds the choice alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import synth
from geo_data.geography import Geography
from geo_data.jobs import JobRecords, Slots
from synth.arrays import find_keys
from synth.policy import FULL


def table_in_words(home: str | None, work: str | None, by: Sequence[str]) -> str:
    """Return what reports call a table that counts jobs by home area, work area and attributes."""
    if home is None:
        areas = "all jobs" if work is None else f"jobs of {work}"
    else:
        areas = f"residents of {home}" if work is None else f"{home} to {work}"
    return areas + (f" by {' and '.join(by)}" if by else "")


@dataclass(frozen=True)
class TableChoice:
    """A table that is measured: beside that of the pools or, of workplaces, before it.

    Attributes
    ----------
    work : str or None
        Level whose units, or the blocks, are its work areas; None counts jobs wherever they are.
    by : tuple of str
        Attributes whose combinations of categories are counted apart.
    home : str or None
        Level whose units, external zones among them, are its cells; None in a table of workplaces, whose
        cells are work areas and categories.
    share : Fraction
        Of epsilon, in (0, 1).
    """

    work: str | None
    by: tuple[str, ...]
    home: str | None
    share: Fraction

    def to_json(self) -> dict[str, Any]:
        """Return texts and lists that `from_json` reads."""
        return {"work": self.work, "by": list(self.by), "home": self.home, "share": str(self.share)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TableChoice:
        """Read what `to_json` returned."""
        if data.keys() != {"work", "by", "home", "share"}:
            raise ValueError("a measured table must have the keys work, by, home and share")
        work, by, home, share = data["work"], data["by"], data["home"], data["share"]
        texts = [share, *by, *(level for level in (home, work) if level is not None)]
        if not all(isinstance(text, str) for text in texts):
            raise TypeError("levels, attributes and the share of a measured table must be texts")
        return cls(work, tuple(by), home, synth.exact(share, "the share of a measured table"))


class MeasuredGroups:
    """The groups of a secondary table, found among public slots; and those that jobs are in.

    Parameters
    ----------
    choice : TableChoice
    slots : Slots
        All of them.
    geography : Geography
    policy : synth.Policy
        Groups are of homes of one part, whose number is public.

    Attributes
    ----------
    choice : TableChoice
    table : synth.Table
        Groups by work area, then by category and then by part; every group of a part has the same cells.

    Raises
    ------
    ValueError
        If the geography does not have a level, or the slots an attribute.
    """

    def __init__(
        self, choice: TableChoice, slots: Slots, geography: Geography, policy: synth.Policy = FULL
    ) -> None:
        unknown = sorted(set(choice.by) - slots.categories.keys())
        if unknown:
            raise ValueError(
                f"tables cannot be measured by {', '.join(unknown)}: jobs have no such attribute"
            )
        self.choice, self._geography, self._policy = choice, geography, policy
        if choice.home is None:
            raise ValueError("a table of homes needs a level of homes")
        self._widths = [len(slots.categories[name]) for name in choice.by]
        self._categories = [slots.categories[name] for name in choice.by]
        self._keys, n = np.unique(self._key(slots), return_counts=True)
        domains = synth.Domains.of_parts(geography.n_blocks, geography.starts(choice.home), policy)
        domain = (self._keys % policy.n_parts).astype(np.int32)
        self.table = synth.Table(n.astype(np.int64), domain, domains)

    def sized(self, slots: Slots) -> MeasuredGroups:
        """Return the same groups of other slots, of which each has one at least."""
        groups = copy(self)
        groups.table = replace(self.table, n=np.bincount(self.find(slots)).astype(np.int64))
        return groups

    def find(self, jobs: Slots | JobRecords) -> NDArray[np.int32]:
        """Return the group of each job, int32 of shape (n,); the number of groups where there is none."""
        group, there = find_keys(self._keys, self._key(jobs))
        return np.where(there, group, self._keys.size).astype(np.int32)

    def labels(self) -> dict[str, list[str]]:
        """Return the work area, under "work", and the category of each attribute of every group, by name.

        Of a table that counts jobs wherever they are, and by no attribute, "work" is empty. Where homes have
        several parts, "home" is the first block of the part.
        """
        work, category, part = self._codes()
        level = self.choice.work
        codes = [""] if level is None else self._geography.codes(level)
        columns = {"work": [str(codes[i]) for i in work.tolist()]}
        for name, values, of_group in zip(self.choice.by, self._categories, category, strict=True):
            columns[name] = [values[i] for i in of_group.tolist()]
        if self._policy.n_parts > 1:
            columns["home"] = self._geography.block_codes.take(pa.array(self._policy.parts[part])).to_pylist()
        return columns

    def areas_and_combinations(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of the work area of every group, and of its combination of categories."""
        area, combination = np.divmod(self._keys // self._policy.n_parts, math.prod(self._widths))
        return area, combination

    def margins(self) -> NDArray[np.int64]:
        """Return, by attribute, a number for each group's work area and category: (kinds, n_groups)."""
        work, category, _ = self._codes()
        numbers = [work * width + codes for width, codes in zip(self._widths, category, strict=True)]
        return np.array(numbers, np.int64).reshape(len(numbers), work.size)

    def _codes(self) -> tuple[NDArray[np.int64], list[NDArray[np.int64]], NDArray[np.int64]]:
        """Return work area, categories by attribute, and part of every group."""
        rest, part = np.divmod(self._keys, self._policy.n_parts)
        category = []
        for width in reversed(self._widths):
            rest, codes = np.divmod(rest, width)
            category.append(codes)
        return rest, category[::-1], part

    def _key(self, jobs: Slots | JobRecords) -> NDArray[np.int64]:
        work = self.choice.work
        key = np.zeros(len(jobs), np.int64)
        if work is not None:
            key += self._geography.unit_of(work, jobs.work)
        none = jobs.work < 0
        for name, width in zip(self.choice.by, self._widths, strict=True):
            codes = jobs.attributes[name]
            key = key * width + codes
            none |= codes >= width
        key = key * self._policy.n_parts + jobs.part(self._policy)
        key[none] = -1
        return key


def group_jobs(
    choices: Iterable[TableChoice], slots: Slots, geography: Geography, policy: synth.Policy
) -> tuple[MeasuredGroups, ...]:
    """Return the groups of every table; errors are those of `MeasuredGroups`."""
    return tuple(MeasuredGroups(choice, slots, geography, policy) for choice in choices)
