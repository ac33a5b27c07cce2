"""Slots that are estimated from noisy counts of workplaces."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import synth
from geo_data.geography import ordered_geography
from geo_data.jobs import JobRecords, Slots
from geo_data.pools import Pooling, build_pools
from pipelines.drawing.job_counts import JobCounts, reconciled
from pipelines.drawing.sampling import measure
from pipelines.drawing.workplaces import estimate_slots, slots_fit
from pipelines.plans.measured import TableChoice
from pipelines.plans.workplaces import combination_of, measured_workplaces
from synth.geometric.measured import MeasuredTable
from synth.geometric.parameters import GeometricParameters

pytestmark = pytest.mark.quick

UNITS, IN_UNIT = 8, 12
BLOCKS = UNITS * IN_UNIT
CATEGORIES = {"age": ("old", "young"), "mode": ("bus", "car", "foot")}
ALL = TableChoice(None, ("age", "mode"), None, Fraction(1, 10))
OF_BLOCKS = TableChoice("block", (), None, Fraction(1, 10))
OF_UNITS = TableChoice("unit", ("age", "mode"), None, Fraction(1, 10))
EVERYTHING = TableChoice("block", ("age", "mode"), None, Fraction(1, 10))
Counts = list[NDArray[np.int64]]


class AsPlan:
    """What of a plan slots are estimated from."""

    def __init__(
        self,
        expected: Slots,
        choices: tuple[TableChoice, ...],
        *p: str,
        listed: object = None,
        informs: bool = False,
    ) -> None:
        codes = pa.chunked_array([[f"{i:03}" for i in range(BLOCKS)]])
        units = pa.chunked_array([[f"u{i // IN_UNIT}" for i in range(BLOCKS)]])
        places = np.zeros(BLOCKS)
        self.geography = ordered_geography("block", codes, {"unit": units}, places, places)
        self.pools = build_pools(expected, self.geography, Pooling("unit"))
        self.level, self.policy = "unit", synth.Policy("full", np.zeros(1, np.int32))
        self.config = SimpleNamespace(workplaces=listed, informs_attributes=informs or listed is not None)
        self.workplaces = measured_workplaces(choices, expected, self.geography)
        ratios = [GeometricParameters(*Fraction(ratio).as_integer_ratio()) for ratio in p]
        tables = tuple(
            MeasuredTable(w.table.n, w.table.domain, w.table.domains, ratio)
            for w, ratio in zip(self.workplaces, itertools.cycle(ratios), strict=False)
        )
        self.numeric = SimpleNamespace(workplaces=tables)

    def measure(self, jobs: Slots, seed: int) -> Counts:
        key, records = synth.RunKey.from_seed(seed), JobRecords(jobs.work, jobs.work, jobs.attributes)
        pairs = zip(self.workplaces, self.numeric.workplaces, strict=True)
        return [measure(one.count(records), table, key, k) for k, (one, table) in enumerate(pairs)]


def jobs_of(seed: int, n: int = 3000, concentration: float = 0.1) -> Slots:
    """Jobs that few blocks have most of."""
    random = np.random.default_rng(seed)
    shares = random.dirichlet(np.full(BLOCKS, concentration))
    work = random.choice(BLOCKS, n, p=shares).astype(np.int32)
    modes = random.dirichlet(np.ones(3), UNITS)
    mode = np.array([random.choice(3, p=modes[unit]) for unit in work // IN_UNIT])
    codes = {"age": random.integers(0, 2, n).astype(np.uint8), "mode": mode.astype(np.uint8)}
    return Slots(work, codes, CATEGORIES).sorted()


def even() -> Slots:
    """Expected jobs: as many in every block."""
    work = np.repeat(np.arange(BLOCKS, dtype=np.int32), 6 * 5)
    kind = np.tile(np.repeat(np.arange(6), 5), BLOCKS)
    codes = {"age": (kind // 3).astype(np.uint8), "mode": (kind % 3).astype(np.uint8)}
    return Slots(work, codes, CATEGORIES)


def even_with(times: NDArray[np.int64]) -> Slots:
    """Expected jobs, in each unit so many of each combination; which block they are in says nothing."""
    kind = np.concatenate([np.repeat(np.arange(6), row) for row in times])
    work = np.repeat(np.arange(UNITS, dtype=np.int32) * IN_UNIT, times.sum(axis=1))
    codes = {"age": (kind // 3).astype(np.uint8), "mode": (kind % 3).astype(np.uint8)}
    return Slots(work, codes, CATEGORIES).sorted()


def counted(slots: Slots, *, by_block: bool) -> NDArray[np.float64]:
    kinds, _ = combination_of(slots, CATEGORIES)
    area = slots.work if by_block else slots.work // IN_UNIT
    return np.bincount(area * 6 + kinds, minlength=BLOCKS * 6).astype(float)


def of_blocks(slots: Slots) -> NDArray[np.float64]:
    return np.bincount(slots.work, minlength=BLOCKS).astype(float)


def variation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def test_counts_without_noise_give_the_jobs_that_they_count() -> None:
    true = jobs_of(1)
    plan = AsPlan(even(), (ALL, EVERYTHING), "1/1000000000000000000")
    slots = estimate_slots(plan, plan.measure(true, 1))  # type: ignore[arg-type]
    assert np.array_equal(counted(slots, by_block=True), counted(true, by_block=True))
    assert slots.categories == CATEGORIES


@pytest.mark.parametrize("p", ["1/20", "1/2", "9/10"])
def test_estimates_are_no_worse_than_noisy_counts_scaled_to_their_total(p: str) -> None:
    """Of the tables that are measured; nonnegative counts. Means of five draws."""
    lost: dict[str, list[float]] = {"block": [], "unit": [], "plain block": [], "plain unit": []}
    for seed in range(5):
        true = jobs_of(seed)
        plan = AsPlan(even(), (ALL, OF_BLOCKS, OF_UNITS), p)
        noisy = plan.measure(true, seed)
        slots = estimate_slots(plan, noisy)  # type: ignore[arg-type]
        blocks = [of_blocks(slots), of_blocks(true)]
        lost["block"].append(variation(*blocks))
        lost["plain block"].append(variation(np.maximum(noisy[1], 0).astype(float), blocks[1]))
        units = [counted(s, by_block=False)[: UNITS * 6] for s in (slots, true)]
        plain = np.maximum(noisy[2], 0).reshape(6, UNITS).T.ravel().astype(float)
        lost["unit"].append(variation(*units))
        lost["plain unit"].append(variation(plain, units[1]))
    means = {name: np.mean(values) for name, values in lost.items()}
    assert means["block"] <= means["plain block"] + 0.002, means
    assert means["unit"] <= means["plain unit"] + 0.002, means


def test_a_public_table_that_is_nearly_right_is_believed_where_noise_is_large() -> None:
    true = jobs_of(3, concentration=1.0)
    factors = np.random.default_rng(3).uniform(0.85, 1.15, BLOCKS)
    alike, times = true.counted()
    listed = alike.repeat(np.maximum(np.rint(times * factors[alike.work]), 1).astype(int))
    lost = []
    for expected, known in ((even(), None), (listed, "last year")):
        plan = AsPlan(expected, (ALL, OF_BLOCKS, OF_UNITS), "19/20", listed=known)
        slots = estimate_slots(plan, plan.measure(true, 5))  # type: ignore[arg-type]
        lost.append(variation(of_blocks(slots), of_blocks(true)))
    assert lost[1] < 0.6 * lost[0]


def test_shares_that_are_nearly_right_are_believed_where_noise_is_large() -> None:
    """Of combinations everywhere, and in units: those of the region help, and those of units more."""
    lost: dict[str, list[float]] = {"none": [], "region": [], "units": []}
    for seed in range(4):
        true = jobs_of(seed, concentration=1.0)
        counts = counted(true, by_block=False)[: UNITS * 6].reshape(UNITS, 6)
        counts *= np.random.default_rng(seed).uniform(0.8, 1.2, counts.shape)
        for name, shares in (("none", np.ones((1, 6))), ("region", counts.sum(axis=0)), ("units", counts)):
            rows = np.broadcast_to(shares, (UNITS, 6))
            times = np.rint(360 * rows / rows.sum(axis=1, keepdims=True)).astype(int)
            plan = AsPlan(even_with(times), (ALL, OF_BLOCKS, OF_UNITS), "995/1000", informs=name != "none")
            slots = estimate_slots(plan, plan.measure(true, seed))  # type: ignore[arg-type]
            units = [counted(s, by_block=False)[: UNITS * 6] for s in (slots, true)]
            lost[name].append(variation(*units))
    none, region, units = map(np.mean, lost.values())
    assert region < 0.9 * none, lost
    assert units < 0.6 * none, lost


def test_wrong_shares_do_little_harm_where_noise_is_small() -> None:
    true = jobs_of(3, concentration=1.0)
    wrong = even_with(np.tile([300, 50, 1, 1, 1, 7], (UNITS, 1)))
    lost = []
    for expected, informs in ((even(), False), (wrong, True)):
        plan = AsPlan(expected, (ALL, OF_BLOCKS, OF_UNITS), "1/2", informs=informs)
        slots = estimate_slots(plan, plan.measure(true, 1))  # type: ignore[arg-type]
        units = [counted(s, by_block=False)[: UNITS * 6] for s in (slots, true)]
        lost.append(variation(*units))
    assert lost[1] < lost[0] + 0.005, lost


def test_the_most_certain_table_says_how_many_jobs_there_are() -> None:
    """Of all, and of each combination, though the table of them alone has much noise."""
    for seed in range(5):
        true = jobs_of(seed)
        plan = AsPlan(even(), (ALL, EVERYTHING), "99/100", "1/20")
        slots = estimate_slots(plan, plan.measure(true, seed))  # type: ignore[arg-type]
        off = np.bincount(combination_of(slots, CATEGORIES)[0], minlength=6).astype(float)
        off -= np.bincount(combination_of(true, CATEGORIES)[0], minlength=6)
        assert 0 < np.abs(off).max() < 20  # noise of 140 a cell, or of 3
        assert abs(off.sum()) < 40


@pytest.mark.parametrize("counts", [0, -50, 10**4])
def test_whatever_is_counted_there_are_jobs(counts: int) -> None:
    plan = AsPlan(even(), (ALL, OF_BLOCKS, OF_UNITS), "1/2")
    noisy = [np.full(int(table.offsets[-1]), counts) for table in plan.numeric.workplaces]
    slots = estimate_slots(plan, noisy)  # type: ignore[arg-type]
    totals = [max(1, int(count.sum())) for count in noisy]
    assert min(totals) <= len(slots) <= max(totals)
    assert slots_fit(plan, noisy, slots)  # type: ignore[arg-type]


def test_they_are_the_same_each_time_and_others_do_not_fit() -> None:
    plan = AsPlan(even(), (ALL, OF_BLOCKS, OF_UNITS), "1/2")
    noisy = plan.measure(jobs_of(1), 1)
    slots, again = (estimate_slots(plan, noisy) for _ in range(2))  # type: ignore[arg-type]
    assert np.array_equal(slots.work, again.work)
    assert slots_fit(plan, noisy, slots)  # type: ignore[arg-type]
    elsewhere = replace(slots, work=np.roll(slots.work, len(slots) // 2)).sorted()
    for other in (slots.take(np.arange(len(slots) - 1)), elsewhere, jobs_of(2)):
        assert not slots_fit(plan, noisy, other)  # type: ignore[arg-type]


def test_tables_without_noise_are_reconciled_with_each_other() -> None:
    """Public totals correct two tables of the same cells, which then have no noise either."""
    area, known = np.arange(3), np.ones((1, 3), np.bool_)
    rows = ([4, 5, 6], 0.0), ([9, 9, 9], 2.0), ([1, 2, 3], 2.0)
    of = [JobCounts((), area, np.array([row]), known, variance) for row, variance in rows]
    (left,) = reconciled(of, CATEGORIES)
    assert left.counts.tolist() == [[4, 5, 6]]
    assert left.variance == 0
