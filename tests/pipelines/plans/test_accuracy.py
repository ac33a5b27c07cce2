"""What is expected of the numbers of a release, counted another way than the program counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest

import synth
from pipelines import ReleaseConfig, make_plan
from pipelines.drawing.procedures import procedure_of
from pipelines.planning import simulation
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.simulation import draw_public_model, simulate_utility
from pipelines.plans.accuracy import (
    ExpectedAccuracy,
    Risk,
    after_draw,
    expected_accuracy,
    improves_on_model,
    is_noise,
    reported_tables,
)
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import batches
from pipelines.plans.workload import workload_of

Configs = Callable[..., ReleaseConfig]


@pytest.mark.parametrize(
    ("loss", "public_model", "carried", "noise"),
    [
        (0.3, 0.4, True, False),
        (0.3, 0.3, False, True),
        (0.3, 0.29, False, True),
        (0.3, 0.33, False, True),  # less than a tenth better
        (0.1, 0.05, False, False),  # nine in ten jobs are where they should be
        (0.499, 0.9, True, False),
        (0.5, 0.9, True, True),  # better than public data, and wrong in every second job
        (0.0, 0.0, True, False),
    ],
)
def test_two_rules(loss: float, public_model: float, carried: bool, noise: bool) -> None:
    assert (improves_on_model(loss, public_model), is_noise(loss, public_model)) == (carried, noise)


@pytest.mark.parametrize(
    ("work", "residents", "flows"),
    [("nothing measured", 3.0, 3.0), (None, 2.0, 2.0), ("trct", 2.0, 1.25)],
)
def test_a_forecast_is_as_sure_as_what_is_measured_by_its_attributes(
    small_config: Configs, work: str | None, residents: float, flows: float
) -> None:
    plan = make_plan(small_config())
    if work != "nothing measured":
        choice = TableChoice(work, ("SI",), "trct", Fraction(1, 2))
        plan = replace(plan, choices=replace(plan.choices, tables=(choice,)))
    workload = workload_of(plan)
    n = len(reported_tables(workload))
    sheet = expected_accuracy(workload, 600, np.zeros((3, n)), [[]] * n, plan)
    within = {table.table: table.within for table in sheet.tables}
    assert (within["residents of trct by SI"], within["trct to trct by SI"]) == (residents, flows)
    assert (within["residents of trct by SA"], within["trct to trct"], within["cty to cty"]) == (3, 1.25, 3)


@pytest.mark.parametrize("outside", [False, True], ids=["residents", "with external zones"])
@pytest.mark.parametrize("changes", [{}, {"release.mechanism": "geometric", "plan.retention_min": None}])
def test_errors_by_size_are_those_of_the_trial(
    small_config: Configs, changes: dict[str, object], zones: dict[str, Any], outside: bool
) -> None:
    config = small_config(changes, zones if outside else {})
    inputs = read_public_inputs(config)
    plan = make_plan(config, inputs)
    homes = np.random.default_rng(5).permutation(draw_public_model(plan, 3))
    if outside:  # a few, whom public data do not expect
        homes[::7] = plan.geography.external_blocks[0]
    found = simulate_utility(plan, inputs.model, homes, seed=7)
    released, _ = procedure_of(plan).draw(batches(plan), homes, synth.RunKey.from_seed(7))
    public = draw_public_model(plan, 7)
    slots, geography = plan.pools.slots, plan.geography
    losses = {one.table.name: one for one in found.workload}
    levels = [*geography.levels, geography.block_level]
    tables = {one.table: one for one in found.accuracy.tables}
    assert {f"{level} to {level}" for level in levels} <= {*tables}
    assert [one.table for one in found.accuracy.tables if one.workload] == [*losses]
    assert found.accuracy.jobs == len(slots)
    for table in tables.values():
        columns = [geography.unit_of(table.work, slots.work)] if table.work else []
        columns += [slots.attributes[name] for name in table.attributes]
        true, drawn, modelled = (
            Counter(
                zip(geography.unit_of(table.home, h).tolist(), *(c.tolist() for c in columns), strict=True)
            )
            for h in (homes, released, public)
        )
        for other, said in ((drawn, table.loss), (modelled, table.public_model)):
            assert said == pytest.approx(1 - (true & other).total() / len(slots), abs=6e-5)
        if table.workload:
            assert (table.loss, table.public_model) == pytest.approx(
                (losses[table.table].loss, losses[table.table].public_model), abs=6e-5
            )
        assert (table.carried, table.noise) == (
            improves_on_model(table.loss, table.public_model),
            is_noise(table.loss, table.public_model),
        )
        seen = 0
        beyond = {*geography.unit_of(table.home, geography.external_blocks).tolist()}
        assert any(size.external for size in table.sizes) == bool(beyond) == outside
        for size in table.sizes:
            cells = [
                c
                for c, n in drawn.items()
                if size.at_least <= n <= (size.at_most or 10**9) and (c[0] in beyond) == size.external
            ]
            errors = sorted(abs(drawn[c] - true[c]) for c in cells)
            assert size.cells == len(cells)
            assert size.error == pytest.approx(sum(errors) / len(errors), abs=6e-5)
            assert size.error_90 == errors[-(-9 * len(errors) // 10) - 1]
            assert size.relative_error == pytest.approx(sum(errors) / sum(drawn[c] for c in cells), abs=6e-5)
            assert size.empty == pytest.approx(sum(true[c] == 0 for c in cells) / len(cells), abs=6e-5)
            seen += len(cells)
        assert seen == len(drawn)
    text = found.accuracy.as_dict()
    assert ExpectedAccuracy.model_validate(text) == found.accuracy


def test_noisy_counts_correct_a_forecast_as_far_as_they_tell(small_config: Configs) -> None:
    config = small_config()
    inputs = read_public_inputs(config)
    forecast = simulate_utility(make_plan(config, inputs), inputs.model).accuracy
    one = next(table for table in forecast.tables if table.table == "trct to trct")
    where = forecast.tables.index(one)

    def corrected(times: float, deviation: float) -> ExpectedAccuracy:
        risks: list[Risk | None] = [None] * len(forecast.tables)
        risks[where] = Risk(times * one.squares, deviation * one.squares)
        return after_draw(forecast, risks)

    assert not forecast.after_draw
    for times in (0.1, 1.0, 3.0):
        sheet = corrected(times, 1e-6)
        table = sheet.tables[where]
        assert table.squares == pytest.approx(times * one.squares, rel=1e-6)
        assert table.planned == one.loss
        # In proportion where errors are of one job, and as the root where they are large.
        assert min(times, times**0.5) <= table.loss / one.loss * (1 + 1e-3)
        assert table.loss / one.loss <= max(times, times**0.5) * (1 + 1e-3)
        assert table.differs == (times != 1.0)
        assert table.within == pytest.approx(1.1, abs=0.01)
        for old, new in zip(one.sizes, table.sizes, strict=True):
            assert new.error == pytest.approx(old.error * table.loss / one.loss, rel=2e-2)
        assert sheet.tables[:where] + sheet.tables[where + 1 :] == [
            t for t in forecast.tables if t is not one
        ]
        assert ExpectedAccuracy.model_validate(sheet.as_dict()) == sheet
    nothing = corrected(-50.0, 1e6).tables[where]
    assert nothing.squares == pytest.approx(one.squares, rel=1e-3), "counts that tell nothing change nothing"
    low = corrected(-50.0, 10.0).tables[where]
    assert 0 < low.loss < one.loss
    assert low.range[1] > one.loss / one.within


def test_a_part_of_the_jobs_says_nothing_of_the_numbers_of_larger_areas(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "_TRIAL_JOBS", 200)
    monkeypatch.setattr(simulation, "batches", partial(batches, jobs=50))
    config = small_config()
    inputs = read_public_inputs(config)
    plan = make_plan(config, inputs)
    part = simulate_utility(plan, inputs.model).accuracy
    assert part.jobs < len(plan.pools.slots)
    sizes = {one.table: bool(one.sizes) for one in part.tables}
    assert sizes["trct to trct"]
    assert not any(found for table, found in sizes.items() if table == "cty to cty" or "residents" in table)


def test_levels_that_are_noise(small_config: Configs) -> None:
    config = small_config()
    inputs = read_public_inputs(config)
    expected = simulate_utility(make_plan(config, inputs), inputs.model).accuracy
    flows = {one.home: one for one in expected.tables if one.home == one.work and not one.attributes}
    assert expected.noisy_levels == [level for level, one in flows.items() if one.noise]
    assert "tabblk2010" in expected.noisy_levels  # nearly all flows between blocks are of one job
    assert "st" not in expected.noisy_levels
