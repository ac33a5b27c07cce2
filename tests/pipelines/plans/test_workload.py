"""The workload: defaults from what is there, losses against slow loops, and the planner's use of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import geo_data
from geo_data.geography import Partition
from geo_data.jobs import inside_share
from pipelines import ReleaseConfig, make_plan
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import choose
from pipelines.planning.simulation import draw_public_model, draw_without_noise, simulate_utility
from pipelines.planning.trials import draw_sample, expected_loss
from pipelines.plans.accuracy import improves_on_model
from pipelines.plans.measured import TableChoice
from pipelines.plans.utility import cell_variation
from pipelines.plans.workload import CountedJobs, Table, Workload, most_telling, resolve_workload

Configs = Callable[..., ReleaseConfig]
ONE = Fraction(1)


def places(levels: int, areas: bool = False) -> geo_data.Geography:
    """Return eight blocks under none to three levels, of two units a step; areas that cut across them."""
    names = ("state", "county", "tract")[3 - levels :]
    starts = [np.arange(0, 8, 8 // 2**k, dtype=np.int32) for k in range(1, 4)][:levels]
    cut = Partition(np.array(["p", "q"], object), np.array([0, 0, 0, 1, 1, 1, 0, 1], np.int32))
    return geo_data.Geography(
        block_level="block",
        block_codes=pa.array("abcdefgh"),
        levels=names,
        unit_codes=tuple(
            np.array([f"{n}{i}" for i in range(s.size)], object) for n, s in zip(names, starts, strict=True)
        ),
        unit_starts=tuple(starts),
        latitude=np.zeros(8),
        longitude=np.arange(8.0),
        non_nesting_areas={"place": cut} if areas else {},
    )


def jobs(n: int, seed: int) -> CountedJobs:
    rng = np.random.default_rng(seed)
    work, home = rng.integers(0, 8, (2, n)).astype(np.int32)
    codes = {"age": rng.integers(0, 3, n).astype(np.uint8), "pay": rng.integers(0, 2, n).astype(np.uint8)}
    return CountedJobs(work, home, codes)


def slots(categories: int = 2) -> geo_data.Slots:
    """Return public jobs with attributes a and b; b tells units apart, and varies inside blocks."""
    work = np.repeat(np.arange(8, dtype=np.int32), 6)
    inside = np.tile(np.arange(6), 8)
    codes = {
        "a": (inside % 2).astype(np.uint8),
        "b": (inside < np.where(work < 4, 2, 4)).astype(np.uint8),
        "c": (work % 4 < 2).astype(np.uint8),  # whole blocks, so told by the block
    }
    names = list(codes)[:categories]
    return geo_data.Slots(work, {n: codes[n] for n in names}, dict.fromkeys(names, ("x", "y")))


def test_losses_are_those_of_slow_loops() -> None:
    geography = places(3, areas=True)
    sides = (None, "block", "tract", "county", "place")
    by: list[tuple[str, ...]] = [(), ("age",), ("age", "pay")]
    tables = [Table(home, work, names, ONE) for home, work, names in itertools.product(sides[1:], sides, by)]  # type: ignore[arg-type]
    found = Workload(tuple(tables), geography, "tract").losses(true := jobs(60, 1), other := jobs(90, 2))
    for table, loss in zip(tables, found, strict=True):
        counted = []
        for one in (true, other):
            keys = []
            for i in range(len(one)):
                key: list[Any] = [geography.unit_of(table.home, one.home[i : i + 1])[0]]
                if table.work is not None:
                    key.append(geography.unit_of(table.work, one.work[i : i + 1])[0])
                keys.append((*key, *(one.attributes[name][i] for name in table.attributes)))
            counted.append(Counter(keys))
        cells = set(counted[0]) | set(counted[1])
        expected = sum(abs(counted[0][c] / 60 - counted[1][c] / 90) for c in cells) / 2
        assert loss == pytest.approx(expected, abs=1e-12), table.name
    assert len({table.name for table in tables}) == len(tables)


def test_cells_beyond_any_number_are_numbered_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.plans import workload

    tables = (Table("block", "block", ("age", "pay"), ONE), Table("place", None, ("pay",), ONE))
    whole = Workload(tables, places(2, areas=True), "tract")
    expected = whole.losses(jobs(50, 3), jobs(50, 4))
    monkeypatch.setattr(workload, "_MOST_CELLS", 60)
    assert whole.losses(jobs(50, 3), jobs(50, 4)).tolist() == expected.tolist()


def test_variation_of_cells() -> None:
    first, second = np.array([5, 5, 9, 2**61]), np.array([9, 5])
    assert cell_variation(first, second) == pytest.approx((0 + 1 / 4 + 1 / 4) / 2)
    assert cell_variation(first, first[::-1]) == 0


def test_the_default_is_what_is_there() -> None:
    def names(levels: int, level: str, categories: int = 0) -> list[str]:
        known = slots(categories)
        return resolve_workload((), places(levels), level, known).names

    assert names(0, "block") == ["block to block"]
    assert names(1, "tract") == ["tract to tract", "block to block", "tract to block"]
    assert names(3, "tract", 0) == ["tract to tract", "block to block", "tract to block"]
    assert names(3, "county") == ["county to county", "tract to tract", "county to block"]
    found = resolve_workload((), places(3), "county", slots(2))
    assert found.names[3:] == [
        "residents of county by a",
        "residents of county by b",
        "county to county by b",
    ]
    assert [table.weight for table in found.tables] == [1, 1, 1, Fraction(1, 2), Fraction(1, 2), 1]
    assert found.attributes == ("a", "b")
    assert found.objective([1, 0, 0, 0, 0, 0]) == pytest.approx(1 / 5)
    assert found.objective([0, 0, 0, 1, 1, 0]) == pytest.approx(1 / 5)


def test_the_most_telling_attribute_is_not_that_of_whole_blocks() -> None:
    assert inside_share(slots(3), "c") == 0
    assert inside_share(slots(3), "a") == 1
    assert most_telling(places(1), "tract", slots(3)) == "b"
    assert most_telling(places(1), "tract", slots(0)) is None


def test_a_workload_of_a_configuration(
    small_config: Configs, microdata_jobs: Callable[..., dict[str, object]], zones: dict[str, Any]
) -> None:
    config = small_config(
        microdata_jobs("csv"),
        {
            "geography.non_nesting_areas": ["ctyname"],
            "workload": [
                {"home": "ctyname", "work": "tabblk2010", "weight": "1/3"},
                {"home": "trct", "attributes": ["age", "sector"], "weight": "0"},
            ],
        },
    )
    inputs = read_public_inputs(config)
    plan = make_plan(config, inputs)
    found = simulate_utility(plan, inputs.model)
    assert [one.table.name for one in found.workload] == [
        "ctyname to tabblk2010",
        "residents of trct by age and sector",
    ]
    assert found.objective == found.workload[0].loss  # the other one is only reported
    assert 0 < found.workload[1].loss < 1
    zoned = small_config(zones)
    outside = simulate_utility(make_plan(zoned), read_public_inputs(zoned).model)
    assert outside.workload[0].table.name == "trct to trct"


def test_a_sample_tells_what_the_whole_loses() -> None:
    """Where an area gathers units: noise evens out in the sum, and what all units have in common does not."""
    rng = np.random.default_rng(5)
    units = 400
    geography = geo_data.Geography(
        block_level="block",
        block_codes=pa.array([f"{i:03}" for i in range(units)]),
        levels=("area",),
        unit_codes=(np.array([f"u{i:03}" for i in range(units)], object),),
        unit_starts=(np.arange(units, dtype=np.int32),),
        latitude=np.zeros(units),
        longitude=np.zeros(units),
    )
    work = np.repeat(np.arange(units, dtype=np.int32), 50)
    share = rng.dirichlet(np.ones(20))
    home = rng.choice(20, work.size, p=share).astype(np.int32)
    for bias in (0.0, 0.05):
        moved = rng.random(work.size) < bias
        drawn = np.where(moved, 0, rng.choice(20, work.size, p=share)).astype(np.int32)
        tables = (Table("block", None, (), ONE), Table("block", "block", (), ONE))
        workload = Workload(tables, geography, "area")
        true, other = (CountedJobs(work, h, {}) for h in (home, drawn))
        whole = workload.losses(true, other)
        chosen = np.isin(work, rng.permutation(units)[:100])
        some = [CountedJobs(work[chosen], h[chosen], {}) for h in (home, drawn)]
        plain = workload.losses(*some)
        part = workload.losses(*some, share=0.25)
        assert part[1] == plain[1]
        assert abs(part[0] - whole[0]) < abs(plain[0] - whole[0]) + 0.002
        assert part[0] == pytest.approx(whole[0], abs=0.012)


def test_without_noise_homes_stay_in_their_pools(small_config: Configs) -> None:
    plan = make_plan(small_config({"plan.retention_min": "1"}))
    pool = np.repeat(np.arange(plan.pools.n.size), plan.pools.n)
    homes = np.random.default_rng(1).integers(0, plan.geography.n_blocks, pool.size).astype(np.int32)
    drawn = draw_without_noise(plan, homes, 1)
    pairs = [set(zip(pool.tolist(), h.tolist(), strict=True)) for h in (homes, drawn)]
    assert pairs[1] < pairs[0]
    # Drawn anew, the first home of a pool comes as often as any other.
    again = np.stack(
        [draw_without_noise(plan, np.arange(pool.size, dtype=np.int32), seed) for seed in range(300)]
    )
    large = int(np.argmax(plan.pools.n))
    own = again[:, pool == large]
    counts = np.bincount(own.ravel() - np.flatnonzero(pool == large)[0], minlength=plan.pools.n[large])
    assert abs(counts - 300).max() < 7 * 600**0.5


def test_without_noise_tables_are_as_they_are(
    small_config: Configs, microdata_jobs: Callable[..., dict[str, object]]
) -> None:
    """The small table by home and age, and the large one by work block and home unit."""
    tables = [{"home": "trct", "attributes": ["age"]}, {"home": "trct", "work": "tabblk2010"}]
    plain = {"plan.pool_below": 1, "plan.split_threshold": None, "plan.retention_min": "1"}
    change = {"release.mechanism": "geometric", "plan.coarsening": "units", "workload": tables}
    config = small_config(microdata_jobs("csv"), plain, change)
    inputs = read_public_inputs(config)
    choices = replace(choose(config, inputs), tables=(TableChoice(None, ("age",), "trct", Fraction("0.1")),))
    plan = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
    found = [simulate_utility(plan, inputs.model, seed=seed).workload for seed in range(5)]
    losses, no_privacy = (
        np.mean([[getattr(one, of) for one in each] for each in found], axis=0)
        for of in ("loss", "no_privacy")
    )
    assert (no_privacy < 0.01).all()  # whole jobs, so near to both tables
    assert (losses > 3 * no_privacy).all()


def test_the_public_model_alone_is_the_model(small_config: Configs) -> None:
    config = small_config()
    inputs = read_public_inputs(config)
    plan = make_plan(config, inputs)
    drawn = np.concatenate([draw_public_model(plan, seed) for seed in range(40)])
    unit = inputs.model.units(np.tile(plan.pools.slots.work, 40))
    busiest = int(np.argmax(np.bincount(unit)))
    homes = np.bincount(inputs.model.units(drawn[unit == busiest]), minlength=inputs.model.n_units)
    expected = inputs.model.shares(np.array([busiest]))[0] * homes.sum()
    assert (abs(homes - expected) < 6 * np.sqrt(expected) + 6).all()


def test_a_table_is_carried_if_it_is_better_than_what_is_public() -> None:
    assert improves_on_model(0.09, 0.1)
    assert not improves_on_model(0.0901, 0.1)
    assert improves_on_model(0.0, 0.0)


@pytest.mark.usefixtures("each_candidate_on_every_draw")
def test_residents_alone_are_measured_as_such(small_config: Configs) -> None:
    """Not as sums of flows, each of which has noise of its own."""
    asked = {"release.mechanism": "geometric", "privacy.epsilon": "1", "plan.retention_min": None}
    cells = {"plan.split_threshold": "1"}
    plan = make_plan(small_config(asked, FREE, cells, {"workload": [{"home": "trct"}]}))
    ((table,), level) = plan.choices.tables, plan.level
    assert (table.work, table.by, table.home) == (None, (), level)


def test_strata_are_chosen_for_the_tables_that_need_them(
    small_config: Configs, microdata_jobs: Callable[..., dict[str, object]]
) -> None:
    free = {"plan.pool_by": None, "plan.retention_min": "1", "release.mechanism": "geometric"}
    residents = {"workload": [{"home": "trct", "attributes": ["age"]}]}
    flows = {"workload": [{"home": "trct", "work": "trct"}]}
    chosen = [make_plan(small_config(microdata_jobs("csv"), free, one)) for one in (residents, flows)]
    assert "age" in chosen[0].attributes  # of pools, or of a small table
    assert chosen[1].attributes == ()
    lodes = make_plan(small_config(free, {"workload": [{"home": "trct", "attributes": ["SE"]}]}))
    assert lodes.attributes == ("SE",)
    assert lodes.config.plan.pool_by is None


BY_HAND = [
    {"plan.pool_below": below, "plan.pool_by": by, **cells}
    for below, by, cells in itertools.product(
        (1, 10_000),
        ([], ["age", "sector"]),
        (
            {"plan.split_threshold": "1/4"},
            {"plan.split_threshold": "16"},
            {"plan.coarsening": "units", "plan.cell_level": "bgrp"},
        ),
    )
]
FREE = dict.fromkeys(["plan.split_threshold", "plan.pool_below", "plan.pool_by"])


ASKED: list[list[dict[str, Any]]] = [
    [],
    [{"home": "trct", "work": "trct"}],
    [{"home": "trct", "attributes": ["age"]}, {"home": "trct", "work": "tabblk2010", "weight": "1/2"}],
]


@pytest.mark.usefixtures("each_candidate_on_every_draw")
@pytest.mark.parametrize(
    ("mechanism", "workload"),
    [
        *(("dirichlet", workload) for workload in ASKED),
        *(pytest.param("geometric", workload, marks=pytest.mark.deep) for workload in ASKED),
    ],
)
def test_no_setting_by_hand_is_better_than_the_choice(
    mechanism: str,
    workload: list[dict[str, Any]],
    small_config: Configs,
    microdata_jobs: Callable[..., dict[str, object]],
) -> None:
    """In the loss of the workload, on the draws of proxy truth on which candidates are tried, of all jobs."""
    release = {"plan.retention_min": "1", "release.mechanism": mechanism, "privacy.epsilon": "4"}
    asked = [microdata_jobs("csv"), release, {"workload": workload}]
    config = small_config(*asked, FREE)
    inputs = read_public_inputs(config)
    jobs = np.bincount(inputs.slots.work, minlength=inputs.geography.n_blocks)
    tables = resolve_workload(config.workload, inputs.geography, inputs.model.level, inputs.slots)
    sample = draw_sample(inputs, jobs, jobs > 0, len(inputs.slots), tables, ("age", "sector"))
    assert sample.share == 1

    def loss(change: dict[str, Any]) -> float:
        config = small_config(*asked, FREE | change)
        return expected_loss(config, inputs, sample, choose(config, inputs))

    chosen = loss(FREE)
    by_hand = [loss(settings) for settings in BY_HAND]
    assert max(by_hand) > 1.2 * chosen  # or the grid would say nothing
    assert chosen <= min(by_hand) * 1.01
