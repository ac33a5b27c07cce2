"""Recalibration: sums that a model has wrong are brought to what their noisy counts say, and no others."""

from __future__ import annotations

import numpy as np
import pytest

import synth
from helpers import load
from synth.geometric.measured import MeasuredTable
from synth.geometric.parameters import GeometricParameters
from synth.policy import FULL
from synth.posterior.evidence import Evidence
from synth.posterior.recalibration import (
    Blocks,
    DrawnFlows,
    MeasuredFlows,
    UnitShares,
    recalibrated,
)

UNITS, NEAR, DRAWS = 60, 6, 19
HOME, WORK = (index.ravel() for index in np.meshgrid(np.arange(UNITS), np.arange(UNITS)))
NEIGHBOURS = np.arange(UNITS) // NEAR
held_by_lot = load("benchmarks/by_lot.py").held_by_lot


def flows_of(wrong: float, seed: int) -> tuple[DrawnFlows, MeasuredFlows, np.ndarray, np.ndarray]:
    """Return draws around a model that errs by a factor in each block of neighbours, and the true flows.

    Draws of a pair are its posterior given its noisy count, were the model right: mean and variance of
    normal numbers.
    """
    random = np.random.default_rng(seed)
    model = random.gamma(2.0, 10.0, (UNITS, UNITS))
    block = NEIGHBOURS[:, np.newaxis] * UNITS + NEIGHBOURS
    truth = random.poisson(model * np.exp(wrong * random.standard_normal(UNITS**2))[block])
    parameters = GeometricParameters.of_variance(30.0)
    domains = synth.Domains.of_cells(UNITS, [np.arange(UNITS, dtype=np.int32)], FULL)
    table = MeasuredTable(truth.sum(axis=1), np.zeros(UNITS, np.int32), domains, parameters)
    ratio = float(parameters.ratio)
    noise = random.geometric(1 - ratio, (2, UNITS, UNITS))
    noisy = truth + noise[0] - noise[1]
    weight = model / (model + 30.0)
    mean = model + weight * (noisy - model)
    drawn = mean + np.sqrt(weight * 30.0) * random.standard_normal((DRAWS, UNITS, UNITS))
    measured = MeasuredFlows(
        table,
        Evidence.noise(table, noisy.ravel()),
        np.arange(UNITS),
        np.arange(UNITS),
        np.arange(UNITS),
        exact=False,
    )
    counts = np.maximum(drawn, 0.1).reshape(DRAWS, -1).astype(np.float32)
    return DrawnFlows(HOME, WORK, counts), measured, truth.ravel(), block.ravel()


@pytest.mark.parametrize("wrong", [0.0, 0.2])
def test_sums_that_a_model_has_wrong_are_held_as_often_as_they_should(wrong: float) -> None:
    held, before, off = [], [], []
    for seed in range(4):
        flows, measured, truth, block = flows_of(wrong, seed)
        new = recalibrated(flows, measured, [Blocks(NEIGHBOURS, NEIGHBOURS)])
        random = np.random.default_rng(seed)
        for counts, found in ((flows.counts, before), (new, held)):
            sums = np.stack([np.bincount(block, row) for row in counts])[:, np.unique(block)]
            true = np.bincount(block, truth)[np.unique(block)]
            found.append(held_by_lot(true, np.rint(sums), random).mean())
            off.append(np.sqrt(((sums.mean(axis=0) - true) ** 2).mean()))
    assert 0.84 < np.mean(held) < 0.96
    if wrong:
        assert np.mean(before) < 0.6, "else nothing is shown"
        assert np.mean(off[1::2]) < 0.8 * np.mean(off[::2]), "the estimate is nearer, too"


def test_draws_that_are_too_far_apart_are_left() -> None:
    flows, measured, _, block = flows_of(0.0, 3)
    mean = flows.counts.mean(axis=0)
    wide = np.maximum(mean + 6 * (flows.counts - mean), 0.1)
    new = recalibrated(DrawnFlows(HOME, WORK, wide), measured, [Blocks(NEIGHBOURS, NEIGHBOURS)])
    before, after = (
        np.stack([np.bincount(block, row) for row in counts])[:, np.unique(block)].var(axis=0, ddof=1)
        for counts in (wide, new)
    )
    assert before.mean() > 2 * NEAR**2 * 30.0, "that of the estimates, else nothing is shown"
    assert after.mean() > 0.9 * before.mean()


def test_what_draws_agree_about_stays() -> None:
    """A large flow that was measured well is not moved because its small neighbours are wrong."""
    flows, measured, _, block = flows_of(0.2, 5)
    sure = np.flatnonzero(np.append(True, np.diff(block) != 0))
    mean = flows.counts[:, sure].mean(axis=0)
    flows.counts[:, sure] = mean + (flows.counts[:, sure] - mean) / 10
    new = recalibrated(flows, measured, [Blocks(NEIGHBOURS, NEIGHBOURS)])
    moved = np.abs(new - flows.counts).mean(axis=0)
    assert moved[sure].mean() < 0.1 * np.delete(moved, sure).mean()


def test_exact_numbers_of_jobs_stay() -> None:
    flows, measured, truth, _ = flows_of(0.2, 1)
    counts = (
        flows.counts
        * np.bincount(WORK, truth)[WORK]
        / np.stack([np.bincount(WORK, row)[WORK] for row in flows.counts])
    )
    flows = DrawnFlows(HOME, WORK, counts.astype(np.float32))
    exact = MeasuredFlows(
        measured.table, measured.evidence, measured.first, measured.last, measured.work, exact=True
    )
    new = recalibrated(flows, exact, [Blocks(NEIGHBOURS, NEIGHBOURS)])
    assert not np.allclose(new, flows.counts)
    for row in new:
        np.testing.assert_allclose(np.bincount(WORK, row), np.bincount(WORK, truth), rtol=1e-5)


def test_what_no_draw_has_stays_nobody() -> None:
    flows, measured, _, _ = flows_of(0.2, 2)
    flows.counts[:, ::7] = 0
    assert not recalibrated(flows, measured, [Blocks(NEIGHBOURS, NEIGHBOURS)])[:, ::7].any()


def test_a_cell_of_several_units_divides_as_draws_do() -> None:
    """Cells of two units each, and areas that begin in the middle of a cell."""
    cuts = np.arange(0, UNITS, 2, dtype=np.int32)
    domains = synth.Domains.of_cells(UNITS, [cuts], FULL)
    table = MeasuredTable(
        np.full(UNITS, 100), np.zeros(UNITS, np.int32), domains, GeometricParameters.of_variance(2.0)
    )
    evidence = Evidence.noise(table, np.ones(UNITS * cuts.size, np.int64))
    measured = MeasuredFlows(table, evidence, cuts, cuts + 1, np.arange(UNITS), exact=False)
    areas = np.where(np.arange(UNITS) < 5, 0, 1 + (np.arange(UNITS) >= 20))  # unit 4 and 5 are one cell
    counts = np.random.default_rng(1).gamma(3.0, 1.0, (DRAWS, UNITS**2)).astype(np.float32)
    mean = np.where(HOME % 2 == 0, 3.0, 1.0)
    flows = DrawnFlows(HOME, WORK, counts * (mean / counts.mean(axis=0)).astype(np.float32))
    shares, blocks = UnitShares(flows, measured), [Blocks(areas, np.zeros(UNITS, np.int64))]
    (whole,) = measured.sums(blocks)
    assert whole.number.tolist() == [2], "areas 0 and 1 cut the cell, and nothing unbiased tells how"
    assert whole.value.tolist() == [UNITS * 20]
    (sums,) = measured.sums(blocks, shares)
    assert sums.number.tolist() == [0, 1, 2]
    assert sums.value == pytest.approx([UNITS * jobs for jobs in (2.75, 7.25, 20)])
    assert sums.variance == pytest.approx(
        [UNITS * 2 * cells for cells in (2 + 0.75**2, 7 + 0.25**2, 20)], rel=0.01
    )
    cells = flows.counts[:, ::2] + flows.counts[:, 1::2]
    divided = np.stack([0.75 * cells, 0.25 * cells], axis=2).reshape(DRAWS, -1)
    np.testing.assert_allclose(shares.alike(flows.counts.astype(np.float64)), divided, rtol=1e-5)


def test_groups_of_a_work_unit_may_have_other_cells() -> None:
    """Draws whose cells divide alike have, in the mean, the jobs of the draws."""
    cuts = [np.arange(0, UNITS, wide, dtype=np.int32) for wide in (2, 3)]
    domains = synth.Domains.of_cells(UNITS, cuts, FULL)
    table = MeasuredTable(
        np.array([300, 100] * UNITS),
        np.array([0, 1] * UNITS, np.int32),
        domains,
        GeometricParameters.of_variance(2.0),
    )
    noisy = np.zeros(int(table.offsets[-1]), np.int64)
    first = np.concatenate(cuts).astype(np.int64)
    last = first + np.repeat([1, 2], [cut.size for cut in cuts])
    work = np.repeat(np.arange(UNITS), 2)
    measured = MeasuredFlows(table, Evidence.noise(table, noisy), first, last, work, exact=True)
    counts = np.random.default_rng(2).gamma(2.0, 5.0, (DRAWS, UNITS**2)).astype(np.float32)
    flows = DrawnFlows(HOME, WORK, counts)
    alike = UnitShares(flows, measured).alike(counts.astype(np.float64))
    assert not np.allclose(alike, counts, rtol=0.1)
    np.testing.assert_allclose(alike.mean(axis=0), counts.mean(axis=0, dtype=np.float64), rtol=1e-5)
    sums = (np.bincount(WORK * UNITS + HOME // 6, rows.mean(axis=0)) for rows in (alike, counts))
    np.testing.assert_allclose(*sums, rtol=1e-5)
