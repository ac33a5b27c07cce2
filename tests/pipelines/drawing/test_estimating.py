"""From measured tables to homes: every slot gets one, tables are kept, a key gives the same homes again."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

import pipelines
import synth
from geo_data.proxy_truth import proxy_homes
from pipelines.drawing import estimating
from pipelines.drawing.estimating import (
    JobLayout,
    PublicModel,
    draw_homes,
    estimate_factors,
    learn,
    restore_estimate,
)
from pipelines.drawing.sampling import measure
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, read_public_inputs
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices, ReleasePlan, batches
from pipelines.plans.utility import total_variation
from synth.geometric.measured import count_cells
from synth.geometric.projection import project
from synth.posterior.counts import reach

pytestmark = pytest.mark.quick

NOISE = {"release.mechanism": "geometric", "plan.retention_min": "1", "privacy.delta": "0"}
EVERYWHERE = 10_000
TABLES = (TableChoice(None, ("SE",), "trct", Fraction(3, 10)),)


@pytest.fixture(scope="module")
def made(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Callable[..., ReleasePlan], PublicInputs]:
    folder = tmp_path_factory.mktemp("estimating")
    inputs = read_public_inputs(pipelines.parse_config(config_text(NOISE), folder, "small.toml"))

    def plan(epsilon: str, tables: tuple[TableChoice, ...] = TABLES, cells: str = "trct") -> ReleasePlan:
        changes = NOISE | {"privacy.epsilon": epsilon}
        config = pipelines.parse_config(config_text(changes), folder, "small.toml")
        choices = Choices("trct", EVERYWHERE, (), cell_level=cells, tables=tables)
        return assemble(config, inputs, inputs.slots, choices, Fraction(0))

    return plan, inputs


@pytest.fixture(params=[False, True], ids=["by work block", "whole groups"])
def whole_groups(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether groups are rounded as a whole, as in a nation."""
    if request.param:
        monkeypatch.setattr(estimating, "_MOST_ROUNDED", 0)
    return bool(request.param)


def drawn(plan: ReleasePlan, homes: np.ndarray, seed: int) -> np.ndarray:
    layout, key = JobLayout(plan), synth.RunKey.from_seed(seed)
    slots = plan.pools.slots
    members = [
        np.repeat(np.arange(plan.pools.n.size), plan.pools.n),
        *(groups.find(slots) for groups in plan.secondary),
    ]
    noisy = [
        measure(count_cells(table, member, homes), table, key, k)
        for k, (table, member) in enumerate(zip(layout.tables, members, strict=True))
    ]
    factors = estimate_factors(plan, layout, noisy, lambda _, cells: np.empty(cells))
    found = []
    for i, part in enumerate(batches(plan, 2_000)):
        rows = layout.rows([part])
        fit = restore_estimate(plan, rows, layout.choose(rows, factors))
        found.append(draw_homes(plan, rows, fit, key, i))
    return np.concatenate(found)


def test_rows_are_the_slots(
    made: tuple[Callable[..., ReleasePlan], PublicInputs], whole_groups: bool
) -> None:
    plan = made[0]("4")
    rows = JobLayout(plan).rows([slice(0, plan.pools.n.size)])
    assert sorted(rows.slot.tolist()) == list(range(len(plan.pools.slots)))
    rows.groups.check(rows.tables)
    work = plan.pools.slots.work[rows.slot]
    assert rows.groups.n.sum() == work.size
    if not whole_groups:
        assert (np.diff(work) >= 0).all()
        assert rows.parts is None
        return
    assert rows.parts is not None
    assert [part.sum() for part in rows.parts] == rows.groups.n.tolist()
    sizes = np.concatenate(rows.parts)
    assert sizes.size > rows.groups.n.size
    ends = np.cumsum(sizes)
    assert (work[ends - sizes] == work[ends - 1]).all()
    assert all(np.unique(own).size == 1 for own in np.split(work, ends[:-1]))


def test_much_epsilon_keeps_every_measured_table(
    made: tuple[Callable[..., ReleasePlan], PublicInputs], whole_groups: bool
) -> None:
    """With next to no noise: flows between units, and residents by the attribute, but for rounding."""
    plan = made[0]("60")
    slots, geography = plan.pools.slots, plan.geography
    homes = proxy_homes(made[1].model, slots.work, 3)
    found = drawn(plan, homes, 5)
    assert found.shape == homes.shape
    counts = []
    for home in (homes, found):
        unit = geography.unit_of("trct", home).astype(np.int64)
        flows = unit * geography.n_units("trct") + geography.unit_of("trct", slots.work)
        residents = unit * 3 + slots.attributes["SE"]
        counts.append(
            [np.bincount(flows, minlength=unit.max() ** 2 * 4), np.bincount(residents, minlength=300)]
        )
    for one, other in zip(*counts, strict=True):
        size = max(one.size, other.size)
        off = np.abs(np.pad(one, (0, size - one.size)) - np.pad(other, (0, size - other.size)))
        assert off.max() <= 2
        assert off.sum() <= 0.05 * homes.size


def test_less_epsilon_loses_more_and_a_key_gives_the_same_homes(
    made: tuple[Callable[..., ReleasePlan], PublicInputs], whole_groups: bool
) -> None:
    losses = []
    for epsilon in ("0.5", "8"):
        plan = made[0](epsilon)
        work = plan.pools.slots.work
        homes = proxy_homes(made[1].model, work, 3)
        found = drawn(plan, homes, 7)
        assert np.array_equal(found, drawn(plan, homes, 7))
        assert not np.array_equal(found, drawn(plan, homes, 8))
        losses.append(total_variation(plan.geography, "trct", work, homes, found))
    assert 0 <= losses[1] < losses[0] < 1


def stay_at_home(plan: ReleasePlan, homes: np.ndarray) -> np.ndarray:
    """Let a third of all live in the tract where they work, whatever the public model says."""
    tract = plan.geography.unit_of("trct", homes)
    at_home = np.random.default_rng(1).random(homes.size) < 1 / 3
    work = plan.geography.unit_of("trct", plan.pools.slots.work)
    first = plan.geography.starts("trct")
    return np.where(at_home & (tract != work), first[work], homes).astype(np.int32)


def released_counts(plan: ReleasePlan, homes: np.ndarray) -> list[np.ndarray]:
    slots = plan.pools.slots
    groups = [np.repeat(np.arange(plan.pools.n.size), plan.pools.n)]
    groups += [secondary.find(slots) for secondary in plan.secondary]
    return [count_cells(t, group, homes) for t, group in zip(JobLayout(plan).tables, groups, strict=True)]


def noisy_counts(
    plan: ReleasePlan, homes: np.ndarray, seed: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    true, key = released_counts(plan, homes), synth.RunKey.from_seed(seed)
    tables = enumerate(zip(true, JobLayout(plan).tables, strict=True))
    return true, [measure(counts, table, key, k) for k, (counts, table) in tables]


@pytest.mark.parametrize("tables", [(), TABLES], ids=["one table", "two tables"])
@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_the_model_learns_who_stays_and_no_count_leaves_the_reach_of_its_noise(
    made: tuple[Callable[..., ReleasePlan], PublicInputs], epsilon: str, tables: tuple[TableChoice, ...]
) -> None:
    plan = made[0](epsilon, tables)
    homes = stay_at_home(plan, proxy_homes(made[1].model, plan.pools.slots.work, 3))
    layout = JobLayout(plan)
    rows = layout.rows([slice(0, plan.pools.n.size)])
    losses = np.zeros((2, len(layout.tables)))
    for seed in range(6):
        true, noisy = noisy_counts(plan, homes, seed)
        factors = estimate_factors(plan, layout, noisy, lambda _, cells: np.empty(cells))
        fit = restore_estimate(plan, rows, layout.choose(rows, factors))
        released = released_counts(plan, draw_homes(plan, rows, fit, synth.RunKey.from_seed(seed), 0))
        for k, (table, margin) in enumerate(zip(layout.tables, fit.margins(), strict=False)):
            nearest, unit = project(noisy[k], table.offsets, table.n)
            for loss, counts in zip(losses, (released[k], nearest / np.repeat(unit, table.k)), strict=True):
                loss[k] += np.abs(counts - true[k]).sum()
            assert np.abs(margin - np.maximum(noisy[k], 0)).max() <= reach(table.law) + 0.01
            if k == 0:  # which rounding keeps within one
                assert np.abs(released[k] - np.maximum(noisy[k], 0)).max() <= reach(table.law)
    # Where most counts have no noise, what another table tells costs the first one some jobs.
    if epsilon != "4" or not tables:
        assert (losses[0] <= 1.03 * losses[1]).all()  # of plain projection
    cuts = plan.geography.starts("trct").astype(np.int32)
    places = np.unique(rows.groups.place).tolist()
    learned, public = (
        np.array([model(place, cuts)[place] for place in places])
        for model in (learn(plan, rows, noisy[0]).prior, PublicModel(plan))
    )
    stay = (1 / 3 + 2 / 3 * public).mean()
    assert learned.mean() == pytest.approx(stay, rel=0.2)
    assert abs(learned.mean() - stay) < 0.7 * abs(public.mean() - stay)


def test_an_estimate_has_the_same_bytes_by_any_number_of_threads(
    made: tuple[Callable[..., ReleasePlan], PublicInputs], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = made[0]("1", (), "bgrp")
    noisy = noisy_counts(plan, proxy_homes(made[1].model, plan.pools.slots.work, 3), 2)[1]
    monkeypatch.setattr(estimating, "batches", lambda of: batches(of, 50))
    assert len(estimating.batches(plan)) > 3
    made_by = []
    for threads in (1, 3):
        monkeypatch.setattr(estimating.os, "cpu_count", lambda threads=threads: threads)
        (factors,) = estimate_factors(plan, JobLayout(plan), noisy, lambda _, cells: np.empty(cells))
        made_by.append(factors[:].tobytes())
    assert made_by[0] == made_by[1]
