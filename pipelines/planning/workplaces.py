"""Workplaces that a plan expects where those of the jobs are protected, from public tables alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import geo_data
from geo_data.geography import Geography
from geo_data.jobs import Slots
from pipelines.config.fields import MOST
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.workload import Table
from pipelines.plans.workplaces import codes_of

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_LEAST = 0.5  # jobs that a table is taken to have where it has none: it need not be of the same year
# The r-th block of a unit has jobs in proportion to e^(-r/20)/r: the first a third of all, ten four fifths,
# as in tracts of Rhode Island.
_BLOCKS_WITH_JOBS = 20.0
_STRIDE, _STRIDES = 2_654_435_761, 2**32  # multiples of the first, less multiples of the second, look random
# Jobs below which noise may hide that a block has any: it has a standard deviation of 4 to 12 with the shares
# that are chosen. If every block had a pool of its own, homes of those that the first estimate takes to be
# empty would be counted nowhere, and it would keep jobs where noise alone put them. Blocks with fewer jobs
# share a pool with the empty ones of their unit, which counts the homes of all; no trial can tell, as it
# knows all blocks. Below 4 or 16 does about as well in Rhode Island.
FEWEST_TOLD = 8
_TOGETHER = 64  # combinations of categories, of more attributes are measured one by one
SHARES = tuple(
    map(Fraction, ("0.01", "0.02", "0.03", "0.05", "0.08", "0.12", "0.18", "0.25"))
)  # that are tried
_OF_ALL = Fraction("0.01")  # share of epsilon of the table of all jobs by all attributes


def expected_slots(
    geography: Geography,
    level: str,
    categories: Mapping[str, tuple[str, ...]],
    tables: Sequence[geo_data.Flows],
    total: int | None,
    shares: Mapping[str, Float64],
) -> Slots:
    """Return jobs as public tables of flows expect them, in whole numbers.

    Categories of an attribute have the shares of each block (`read_shares`) where these are given, whatever
    the other attributes are, and are alike where they are not.

    The finest table divides the jobs of a coarser one among its areas. Without a total there are as many
    jobs as the largest table has. Which blocks of a unit of the level have many jobs nobody knows, but few
    have most: in a public order they have as many as in Rhode Island. Every unit has at least one.
    """
    blocks = np.arange(geography.n_blocks, dtype=np.int32)
    jobs = (~geography.nobody_works).astype(np.float64)
    flows: dict[str, Float64] = {}
    for table in tables:
        name = table.destination_level
        flow = np.bincount(table.destination, table.flow, geography.n_units(name)).astype(np.float64)
        flows[name] = max(flows.get(name, flow), flow, key=np.sum)
    for name in sorted(flows, key=geography.n_units, reverse=True):
        jobs = _brought_to(jobs, geography.units_of_blocks(name), flows[name] + _LEAST)
    if total is None:
        total = int(max(flow.sum() for flow in flows.values()))
    unit = geography.unit_of(level, blocks)
    of_unit = np.bincount(unit, jobs).astype(np.float64)
    rank = _rank(unit, jobs > 0)
    jobs = _brought_to((jobs > 0) / rank * np.exp(-rank / _BLOCKS_WITH_JOBS), unit, of_unit)
    jobs *= min(total, MOST) / jobs.sum()
    of_kinds = jobs[:, np.newaxis] * _shares_of_kinds(categories, shares)
    counts = _whole(of_kinds.ravel()).reshape(of_kinds.shape)
    nobody = np.flatnonzero(np.bincount(unit, counts.sum(axis=1)) == 0)
    inside = np.flatnonzero(jobs > 0)
    first = inside[np.unique(unit[inside], return_index=True)[1]]
    counts[first[np.isin(unit[first], nobody)], 0] = 1
    block, kind = np.nonzero(counts)
    alike = Slots.of_codes(blocks[block], codes_of(kind, categories), categories)
    return alike.repeat(counts[block, kind])


def listed_slots(
    slots: Slots, geography: Geography, level: str, categories: Mapping[str, tuple[str, ...]]
) -> Slots:
    """Return the jobs of a public table with all categories that are declared, and a job in every unit.

    A ValueError that names an attribute if the table has a category that is not declared.
    """
    alike, times = slots.counted()
    codes: dict[str, Int64] = {}
    for name, values in categories.items():
        position = pd.Index(values).get_indexer(pd.Index(slots.categories[name]))
        if (position < 0).any():
            raise ValueError(name)
        codes[name] = position[alike.attributes[name]].astype(np.int64)
    blocks = np.arange(geography.n_blocks, dtype=np.int32)
    inside = blocks[~geography.nobody_works]
    unit = geography.unit_of(level, inside)
    first = inside[np.unique(unit, return_index=True)[1]]
    none = first[~np.isin(geography.unit_of(level, first), geography.unit_of(level, alike.work))]
    listed = Slots.of_codes(
        np.concatenate([alike.work, none]),
        {name: np.append(values, np.zeros(none.size, np.int64)) for name, values in codes.items()},
        categories,
    )
    order = listed.order()
    return listed.take(order).repeat(np.append(times, np.ones(none.size, np.int64))[order])


@dataclass(frozen=True, eq=False)
class WorkplaceShares:
    """Tables of workplaces with shares of epsilon, and what is lost in what they say.

    Parameters
    ----------
    slots : Slots
        That are expected.
    geography : Geography
    level : str
        In whose units jobs are counted by attributes.
    secret : tuple of str
        Attributes that alone are not public; none where workplaces are not, either.
    homes_tell : bool
        Whether tables of homes are measured, which tell of workplaces, too.
    """

    slots: Slots
    geography: Geography
    level: str
    secret: tuple[str, ...] = ()
    homes_tell: bool = True

    @property
    def first(self) -> tuple[TableChoice, ...]:
        """The tables with shares from which others are looked for."""
        return self._tables(SHARES[len(SHARES) // 2], SHARES[len(SHARES) // 2])

    def near(self, tables: Sequence[TableChoice]) -> Iterator[tuple[TableChoice, ...]]:
        """Yield tables of which one share is the next one below or above."""
        of_blocks, of_units = self._shares(tables)
        for share in () if self.secret else _neighbours(of_blocks):
            yield self._tables(share, of_units)
        for share in _neighbours(of_units) if self._by else ():
            yield self._tables(of_blocks, share)

    def loss(self, choices: Choices, epsilon: Fraction, of: Table) -> float:
        """Return what noise loses of a table of the workload; nothing of one of homes.

        That is the mean total variation distance if every cell in which jobs are expected is as far off as
        the noise of all measured tables that tell it, of workplaces and of homes: a prior, and areas without
        jobs, are left aside, which about even out in Rhode Island. What no measured table tells is lost.
        """
        if of.home is not None or (self.secret and not {*of.attributes} & {*self.secret}):
            return 0.0
        cells = self._cells(of.work, of.attributes)
        told = [
            (1 / (_variance(epsilon * share) * number), number)
            for work, by, homes, share in self._counted(choices)
            if {*of.attributes} <= {*by} and self._divides(work, of.work)
            for number in [self._cells(work, by) * homes / cells]  # of which one that is lost is the sum
        ]
        if not told:
            return 1.0
        # Noise of one count is near 0 more often than that of a sum, of the same variance.
        usual = 1 / math.sqrt(2) if max(told)[1] <= 1 else math.sqrt(2 / math.pi)
        off = usual / math.sqrt(sum(precision for precision, _ in told))
        return min(1.0, cells * off / 2 / len(self.slots))

    def _counted(self, choices: Choices) -> Iterator[tuple[str | None, tuple[str, ...], float, Fraction]]:
        """Yield the work areas and attributes of every measured table, its cells of homes, and its share."""
        for table in (*choices.workplaces, *choices.tables):
            homes = 1.0 if table.home is None else self.geography.n_units(table.home)
            yield table.work, table.by, homes, table.share
        # Else cells depend on how many jobs a pool has, which the first estimate has wrong: what a plan saves
        # in tables of workplaces then, it loses in flows.
        if choices.cell_level is None or not self.homes_tell:
            return
        share = 1 - sum((table.share for table in (*choices.workplaces, *choices.tables)), Fraction(0))
        # The few jobs of blocks that share up to there are less than what noise loses of a block.
        alone = choices.pool_below <= FEWEST_TOLD
        work = self.geography.block_level if alone else choices.pool_level
        yield work, choices.pool_by, self.geography.n_units(choices.cell_level), share

    def _cells(self, level: str | None, attributes: Sequence[str]) -> int:
        """Return in how many areas jobs are expected, times combinations of categories."""
        return self._areas(level) * prod(len(self.slots.categories[name]) for name in attributes)

    def _areas(self, level: str | None) -> int:
        """Return in how many areas jobs are expected."""
        if level is None:
            return 1
        return np.unique(self.geography.unit_of(level, self.slots.work)).size

    def _divides(self, level: str | None, coarser: str | None) -> bool:
        if coarser is None or level == coarser:
            return True
        return level is not None and self.geography.lie_within(level, coarser)

    @property
    def _by(self) -> list[tuple[str, ...]]:
        names = tuple(self.slots.categories)
        kinds = prod(map(len, self.slots.categories.values()))
        return [by for by in ([names] if kinds <= _TOGETHER else [(n,) for n in self.secret or names]) if by]

    def _tables(self, of_blocks: Fraction, of_units: Fraction) -> tuple[TableChoice, ...]:
        """Return tables of all jobs by all attributes, of those of blocks, and of units by attributes.

        Where workplaces are public those of blocks are known.
        """
        by, block = self._by, self.geography.block_level
        return (
            TableChoice(None, tuple(self.slots.categories), None, _OF_ALL),
            *([] if self.secret else [TableChoice(block, (), None, of_blocks)]),
            *(TableChoice(self.level, names, None, of_units / len(by)) for names in by),
        )

    @staticmethod
    def _shares(tables: Sequence[TableChoice]) -> tuple[Fraction, Fraction]:
        _, *others = tables
        of_blocks = sum((table.share for table in others if not table.by), Fraction(0))
        return of_blocks, sum((table.share for table in others if table.by), Fraction(0))


def slots_with_categories(
    slots: Slots, secret: Mapping[str, tuple[str, ...]], shares: Mapping[str, Float64]
) -> Slots:
    """Return jobs whose number is public with expected categories of secret attributes, in whole numbers.

    Shares of categories are as of `expected_slots`. Every sum of the first few jobs is nearly as expected.
    """
    alike, times = slots.counted()
    of_kinds = _shares_of_kinds(secret, shares)
    of_kinds = times[:, np.newaxis] * (of_kinds if len(of_kinds) == 1 else of_kinds[alike.work])
    counts = _whole(of_kinds.ravel()).reshape(of_kinds.shape)
    row, kind = np.nonzero(counts)
    codes = {**{name: values[row] for name, values in alike.attributes.items()}, **codes_of(kind, secret)}
    categories = dict(sorted({**slots.categories, **secret}.items()))
    listed = Slots.of_codes(alike.work[row], codes, categories)
    order = listed.order()
    return listed.take(order).repeat(counts[row, kind][order])


def _shares_of_kinds(categories: Mapping[str, tuple[str, ...]], shares: Mapping[str, Float64]) -> Float64:
    """Return the share of each combination of categories in each block, or in one row everywhere."""
    of_kinds = np.ones((1, 1))
    for name, values in categories.items():
        of_name = shares.get(name, np.ones((1, len(values))))
        width = of_kinds.shape[1] * len(values)
        of_kinds = (of_kinds[:, :, np.newaxis] * of_name[:, np.newaxis]).reshape(-1, width)
    return np.asarray(of_kinds / of_kinds.sum(axis=1, keepdims=True))


def _neighbours(share: Fraction) -> tuple[Fraction, ...]:
    number = SHARES.index(share)
    return (*SHARES[max(0, number - 1) : number], *SHARES[number + 1 : number + 2])


def _variance(epsilon: Fraction) -> float:
    """Return the variance of the noise of a count, about."""
    p = math.exp(-float(epsilon) / 2)
    return 2 * p / (1 - p) ** 2


def _rank(unit: NDArray[np.integer], inside: NDArray[np.bool_]) -> Int64:
    """Number the blocks of each unit that are inside, from 1, in an order that says nothing."""
    order = np.lexsort((np.arange(unit.size) * _STRIDE % _STRIDES, ~inside, unit))
    first = np.flatnonzero(np.diff(unit[order], prepend=-1))
    rank = np.empty(unit.size, np.int64)
    rank[order] = np.arange(unit.size) - np.repeat(first, np.diff(np.append(first, unit.size)))
    return rank + 1


def _brought_to(jobs: Float64, area: NDArray[np.integer], flow: Float64) -> Float64:
    """Scale jobs so that areas have them in proportion to a flow; an area without blocks has none."""
    sums = np.bincount(area, jobs, flow.size)
    return jobs * np.where(sums > 0, flow / np.where(sums > 0, sums, 1.0), 0.0)[area]


def _whole(expected: Float64) -> Int64:
    """Round so that every sum of the first few is within a half of what is expected."""
    ends: Int64 = np.floor(np.cumsum(expected) + 0.5).astype(np.int64)
    ends[1:] -= ends[:-1].copy()
    return ends
