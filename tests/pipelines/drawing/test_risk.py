"""What noisy counts tell of the errors of what is drawn from them, where a plan's forecast does not know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

import pipelines
import synth
from pipelines.drawing import risk
from pipelines.drawing.estimating import JobLayout
from pipelines.drawing.procedures import procedure_of
from pipelines.drawing.sampling import measure
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.planning.simulation import simulate_accuracy
from pipelines.plans import plan as plans
from pipelines.plans.accuracy import ExpectedAccuracy, after_draw, reported_tables
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices, ReleasePlan, batches
from pipelines.plans.utility import squared_error
from pipelines.plans.workload import CountedJobs, Workload, resolve_workload
from synth.geometric.measured import count_cells

Int64 = NDArray[np.int64]
Homes = NDArray[np.int32]
NOISE = {"release.mechanism": "geometric", "plan.retention_min": "1", "privacy.epsilon": "2"}
OF_RESIDENTS = TableChoice(None, ("SE",), "trct", Fraction(3, 10))


@pytest.fixture(scope="module")
def inputs(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[pipelines.ReleaseConfig, PublicInputs]:
    config = pipelines.parse_config(config_text(NOISE), tmp_path_factory.mktemp("risk"), "small.toml")
    return config, read_public_inputs(config)


@pytest.fixture(params=["trct", "tabblk2010"])
def plan(request: pytest.FixtureRequest, inputs: tuple[pipelines.ReleaseConfig, PublicInputs]) -> ReleasePlan:
    config, public = inputs
    choices = Choices("trct", 10_000, (), cell_level=request.param, tables=(OF_RESIDENTS,))
    return assemble(config, public, public.slots, choices, Fraction(0))


def reported(plan: ReleasePlan) -> Workload:
    workload = resolve_workload((), plan.geography, plan.level, plan.pools.slots)
    return replace(workload, tables=tuple(table for table, _ in reported_tables(workload)))


def groups_of(plan: ReleasePlan) -> list[Homes]:
    pool = np.repeat(np.arange(plan.pools.n.size, dtype=np.int32), plan.pools.n)
    return [pool, *(groups.find(plan.pools.slots) for groups in plan.secondary)]


def noisy_counts(plan: ReleasePlan, homes: Homes, seed: int) -> list[Int64]:
    tables, key = plan.mechanism.tables(plan.numeric), synth.RunKey.from_seed(seed)
    return [
        measure(count_cells(table, group, homes), table, key, k)
        for k, (table, group) in enumerate(zip(tables, groups_of(plan), strict=True))
    ]


def test_sums_of_measured_cells_are_the_tables_that_they_are_said_to_be(plan: ReleasePlan) -> None:
    rng, slots, workload = np.random.default_rng(1), plan.pools.slots, reported(plan)
    homes = rng.integers(plan.geography.n_blocks, size=len(slots)).astype(np.int32)
    jobs = CountedJobs(slots.work, homes, slots.attributes)
    tables, found = plan.mechanism.tables(plan.numeric), []
    for table, group in zip(tables, groups_of(plan), strict=True):
        nothing = np.zeros(int(table.offsets[-1]), np.int64)
        counts = risk._Counts(table, group, nothing, nothing, [], [])
        for of in workload.tables:
            if (cell := risk._cells(plan, slots, counts, of, str(of.home))) is not None:
                sums = np.bincount(cell, count_cells(table, group, homes))
                _, expected = np.unique(workload.cells(of, [jobs])[0], return_counts=True)
                assert sorted(sums[sums > 0]) == sorted(expected)
                found.append((table is tables[0], of.name))
    assert (True, "trct to trct") in found
    assert (False, "residents of trct by SE") in found
    assert (True, "residents of trct by SE") not in found
    assert (False, "trct to trct") not in found
    assert (True, "tabblk2010 to tabblk2010") not in found, "pools are of tracts"


def test_errors_are_found_that_no_public_model_expects(
    plan: ReleasePlan, inputs: tuple[object, PublicInputs]
) -> None:
    """Nobody lives where the public model expects it; estimates are as good as they say they are."""
    slots, workload, rng = plan.pools.slots, reported(plan), np.random.default_rng(2)
    few = rng.choice(plan.geography.n_blocks, 12, replace=False)
    homes = few[(slots.work + rng.integers(3, size=len(slots))) % few.size].astype(np.int32)
    forecast = simulate_accuracy(plan, inputs[1].model, None, None)
    seen: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(4):
        drawn, _ = procedure_of(plan).draw(batches(plan), homes, synth.RunKey.from_seed(seed))
        noisy = noisy_counts(plan, homes, seed)  # that it was drawn from
        risks = risk.estimate_risks(plan, JobLayout(plan), noisy, workload)
        sides = [CountedJobs(slots.work, one, slots.attributes) for one in (homes, drawn)]
        for table, found in zip(workload.tables, risks, strict=True):
            if found is not None:
                true = squared_error(*workload.cells(table, sides))
                seen.setdefault(table.name, []).append((found.squares, found.deviation, true))
    assert risk.estimate_risks(plan, JobLayout(plan), noisy, workload) == risks
    sheet = after_draw(forecast, risks)
    for old, new, found in zip(forecast.tables, sheet.tables, risks, strict=True):
        assert (new.planned is None) == (found is None or old.squares == 0)
        assert new.planned in (None, old.loss)
    assert ExpectedAccuracy.model_validate(sheet.as_dict()) == sheet
    for name in ("trct to trct", "residents of trct by SE"):
        found, deviation, true = np.transpose(seen[name])
        assert abs((found - true) / deviation).max() < 4, name
        # The slope is seen from the same noise each time, so that it does not even out.
        assert abs(found.mean() - true.mean()) < deviation.mean(), name


def test_nothing_is_told_of_numbers_of_records_that_are_confidential(
    plan: ReleasePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = replace(plan.numeric.target, record_range=synth.RecordRange(Fraction(1, 2), Fraction(2)))
    other = replace(plan, numeric=replace(plan.numeric, target=target))
    assert {*risk.estimate_risks(other, JobLayout(other), [], reported(plan))} == {None}


def test_a_part_of_a_large_release_tells_of_what_is_in_it(
    inputs: tuple[pipelines.ReleaseConfig, PublicInputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "_BATCH_JOBS", 50)
    monkeypatch.setattr(risk, "_MOST_JOBS", 200)
    config, public = inputs
    known = []
    for tables in ((), (OF_RESIDENTS,)):
        choices = Choices("trct", 10_000, (), cell_level="trct", tables=tables)
        plan = assemble(config, public, public.slots, choices, Fraction(0))
        homes = np.zeros(len(plan.pools.slots), np.int32)
        workload = reported(plan)
        risks = risk.estimate_risks(plan, JobLayout(plan), noisy_counts(plan, homes, 1), workload)
        pairs = zip(workload.tables, risks, strict=True)
        known.append({table.name for table, found in pairs if found is not None})
    assert "trct to trct" in known[0]
    assert not known[0] & {"cty to cty", "residents of trct by SE"}
    assert known[1] == set()
