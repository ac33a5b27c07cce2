"""How homes of a plan are drawn in memory: by resampling, or by an estimate from noisy counts.

`procedure_of` is the one place that chooses. A run does the same batch by batch, on disk
(`pipelines.running.batches`); what sees homes beside randomness is in `pipelines.drawing.sampling` for both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import synth
from geo_data.jobs import JobRecords
from geo_data.pools import PoolFinder
from pipelines.drawing.estimating import JobLayout, JobRows, draw_homes, estimate_homes
from pipelines.drawing.sampling import bring_into_range, measure, sample_batch
from pipelines.plans.plan import ReleasePlan, slots_of
from synth.arrays import find_keys
from synth.geometric.measured import count_cells
from synth.noise import Noise
from synth.posterior.estimation import Estimate

Homes = NDArray[np.int32]
Done = Callable[[], None]
Again = Callable[[ReleasePlan, Sequence[NDArray[np.int64]]], ReleasePlan]
"""Gives a plan the slots that noisy counts of all of its tables of homes show."""


@dataclass(frozen=True, eq=False)
class Procedure(ABC):
    """Draws batches of a plan as if there were no others; homes are given and returned slot after slot."""

    plan: ReleasePlan

    @property
    @abstractmethod
    def worth_sending(self) -> bool:
        """Whether batches may be drawn one by one (`draw_batch`), and take longer than to be sent."""

    @abstractmethod
    def draw_batch(
        self, part: slice, homes: Homes, key: synth.RunKey, number: int, *, noisy: bool = True
    ) -> Homes:
        """Return what is drawn of a batch of this number, of one implicate, with noise or without."""

    @abstractmethod
    def draw_without_noise(
        self, parts: Sequence[slice], homes: Homes, key: synth.RunKey, done: Done = lambda: None
    ) -> Homes:
        """Return what would be drawn if there were no privacy."""

    @abstractmethod
    def draw_records(
        self,
        parts: Sequence[slice],
        records: JobRecords,
        key: synth.RunKey,
        again: Again | None = None,
        done: Done = lambda: None,
        *,
        noisy: bool = True,
    ) -> tuple[ReleasePlan, Homes]:
        """Draw homes from records, of which there may be others than slots, with noise or without.

        Where tables are measured, slots may be estimated `again`; parts are then all pools. Returned is the
        plan with the slots that the homes are of, too.
        """

    def stages(self, parts: int) -> int:
        """Return how often so many batches call `done`."""
        return parts

    def draw(
        self, parts: Sequence[slice], homes: Homes, key: synth.RunKey, done: Done = lambda: None
    ) -> tuple[Homes, Estimate | None]:
        """Return what is drawn, of one implicate; and the estimate of all batches, if there is one."""
        drawn = []
        for i, (part, batch) in enumerate(zip(parts, split_homes(self.plan, homes, parts), strict=True)):
            drawn.append(self.draw_batch(part, batch, key, i))
            done()
        return np.concatenate(drawn), None


class Resampling(Procedure):
    """The mechanism draws cells of each batch, and blocks of these are drawn."""

    worth_sending = False

    def draw_batch(
        self, part: slice, homes: Homes, key: synth.RunKey, number: int, *, noisy: bool = True
    ) -> Homes:
        """Draw a batch; one implicate is as good as another."""
        if not noisy:
            return self.draw_without_noise([part], homes, key)
        return sample_batch(self.plan, part, homes, key, number)[0]

    def draw_without_noise(
        self, parts: Sequence[slice], homes: Homes, key: synth.RunKey, done: Done = lambda: None
    ) -> Homes:
        """Draw anew from the homes of each pool, as by an urn without fake workers.

        Shares are Dirichlet with the pool's counts. Cells then lose nothing.
        """
        pool = pools_of(self.plan, slots_of(self.plan, parts))
        words = key.stream("without noise", 0).words(2 * pool.size)
        chance, other = np.split(words.astype(np.float64) / 2**64, 2)
        running = np.append(0, np.cumsum(-np.log1p(-chance.clip(max=1 - 2**-53))))
        first = np.flatnonzero(np.append(True, pool[1:] != pool[:-1]))
        last = np.append(first[1:], pool.size)
        size = last - first
        low, high = (np.repeat(running[ends], size) for ends in (first, last))
        drawn = np.searchsorted(running, low + other * (high - low), side="right") - 1
        for _ in parts:
            done()
        return homes[drawn.clip(np.repeat(first, size), np.repeat(last - 1, size))]

    def draw_records(
        self,
        parts: Sequence[slice],
        records: JobRecords,
        key: synth.RunKey,
        again: Again | None = None,
        done: Done = lambda: None,
        *,
        noisy: bool = True,
    ) -> tuple[ReleasePlan, Homes]:
        """Draw from the records of each pool, some of which lots may leave out; slots are never others."""
        plan, drawn = self.plan, []
        pool = PoolFinder(plan.pools, plan.geography).find(records)
        order = np.argsort(pool, kind="stable")
        homes, sizes = records.home[order], np.bincount(pool, minlength=plan.pools.n.size + 1)[:-1]
        ends = np.append(0, np.cumsum(sizes))
        for i, part in enumerate(parts):
            of_part, size = homes[ends[part.start] : ends[part.stop]], sizes[part]
            if noisy:
                drawn.append(sample_batch(plan, part, of_part, key, i, sizes=size)[0])
            else:
                n = plan.pools.n[part]
                of_part, _ = bring_into_range(plan, part, of_part, size, (n, n), key, i)
                drawn.append(self.draw_without_noise([part], of_part, key))
            done()
        return plan, np.concatenate(drawn)


class Estimation(Procedure):
    """Tables are measured, homes estimated from their noisy counts, and jobs drawn from the estimate.

    One table is estimated batch by batch; several are, of all batches together.
    """

    @property
    def worth_sending(self) -> bool:
        """Whether there is one table."""
        return not self.plan.secondary

    def stages(self, parts: int) -> int:
        """Return how often `done` is called: of several tables after measuring, estimating and drawing."""
        return 3 if self.plan.secondary else parts

    @cached_property
    def _layout(self) -> JobLayout:
        return JobLayout(self.plan)

    @cached_property
    def _without_noise(self) -> Estimation:
        """The same of a plan whose noise is 0 but once in 2^59 counts."""
        noise = self.plan.numeric.parameters
        assert isinstance(noise, Noise)
        none = type(noise).least()
        parameters = replace(none, secondary=(none,) * len(self.plan.secondary))
        return Estimation(replace(self.plan, numeric=replace(self.plan.numeric, parameters=parameters)))

    def draw(
        self, parts: Sequence[slice], homes: Homes, key: synth.RunKey, done: Done = lambda: None
    ) -> tuple[Homes, Estimate | None]:
        """Draw batch by batch from one table, or all together."""
        if self.plan.secondary:
            return self._draw_together(parts, homes, key, 0, done)
        return super().draw(parts, homes, key, done)

    def draw_batch(
        self, part: slice, homes: Homes, key: synth.RunKey, number: int, *, noisy: bool = True
    ) -> Homes:
        """Draw a batch from the estimate of its own counts."""
        return (self if noisy else self._without_noise)._draw_together([part], homes, key, number)[0]

    def draw_without_noise(
        self, parts: Sequence[slice], homes: Homes, key: synth.RunKey, done: Done = lambda: None
    ) -> Homes:
        """Draw jobs from the true counts of their cells as from noisy ones."""
        return self._without_noise.draw(parts, homes, key, done)[0]

    def _draw_together(
        self,
        parts: Sequence[slice],
        homes: Homes,
        key: synth.RunKey,
        number: int,
        done: Done = lambda: None,
    ) -> tuple[Homes, Estimate]:
        """Measure, estimate and draw the jobs of batches that are estimated together."""
        rows = self._layout.rows(parts)
        by_row = homes[rows.slot]
        counts = [
            count_cells(table, np.repeat(member, rows.groups.n), by_row)
            for table, member in zip(rows.measured, rows.groups.member, strict=False)
        ]
        noisy = _measured(rows, counts, key, number)
        done()
        return self._draw_from(rows, noisy, key, number, done)

    def draw_records(
        self,
        parts: Sequence[slice],
        records: JobRecords,
        key: synth.RunKey,
        again: Again | None = None,
        done: Done = lambda: None,
        *,
        noisy: bool = True,
    ) -> tuple[ReleasePlan, Homes]:
        """Draw from noisy or true counts of records."""
        if not noisy:
            return self._without_noise.draw_records(parts, records, key, again, done)
        plan, rows = self.plan, self._layout.rows(parts)
        pools = PoolFinder(plan.pools, plan.geography).find(records)
        groups: list[NDArray[np.integer]] = [pools, *(table.find(records) for table in plan.secondary)]
        counts = []
        for table, chosen, group in zip(rows.measured, rows.chosen, groups, strict=True):
            position, there = find_keys(chosen, group)
            counts.append(count_cells(table, position[there].astype(np.int32), records.home[there]))
        measured = _measured(rows, counts, key, 0)
        done()
        if again is None:
            return plan, self._draw_from(rows, measured, key, 0, done)[0]
        resized = Estimation(again(plan, measured))
        rows = resized._layout.rows(parts)
        kept = resized._layout.choose(rows, measured)
        return resized.plan, resized._draw_from(rows, kept, key, 0, done)[0]

    def _draw_from(
        self, rows: JobRows, noisy: Sequence[NDArray[np.int64]], key: synth.RunKey, number: int, done: Done
    ) -> tuple[Homes, Estimate]:
        """Estimate homes from noisy counts of every table, and draw."""
        fit = estimate_homes(self.plan, rows, noisy)
        done()
        drawn = draw_homes(self.plan, rows, fit, key, number)
        done()
        return drawn, fit


def _measured(
    rows: JobRows, counts: Sequence[NDArray[np.int64]], key: synth.RunKey, number: int
) -> list[NDArray[np.int64]]:
    """Return counts of every table with noise."""
    tables = enumerate(zip(rows.measured, counts, strict=True))
    return [measure(of_table, table, key, k, number) for k, (table, of_table) in tables]


def procedure_of(plan: ReleasePlan) -> Procedure:
    """Return how a plan draws: with noisy counts where its mechanism measures tables.

    Without its history, which is of true homes, and trials are on others.
    """
    return Estimation(replace(plan, history=None)) if plan.measures else Resampling(plan)


def split_homes(plan: ReleasePlan, homes: Homes, parts: Sequence[slice]) -> list[Homes]:
    """Return the homes of each of some batches."""
    return np.split(homes, np.cumsum([int(plan.pools.n[part].sum()) for part in parts])[:-1])


def pools_of(plan: ReleasePlan, slots: slice | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the pool of each of some slots; a nation has many that are not asked for."""
    if isinstance(slots, slice):
        return np.repeat(np.arange(plan.pools.n.size), plan.pools.n)[slots]
    return np.searchsorted(np.cumsum(plan.pools.n), slots, side="right")
