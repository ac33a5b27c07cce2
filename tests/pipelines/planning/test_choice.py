"""What the planner chooses where a configuration leaves it open: the mechanism, and tables to measure."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import inf
from pathlib import Path

import numpy as np
import pytest

import pipelines
from pipelines import ReleaseConfig, make_plan
from pipelines.config.toml import ConfigError
from pipelines.planning import search, trials
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import choose
from pipelines.planning.trials import draw_sample, expected_loss
from pipelines.plans.measured import TableChoice
from pipelines.plans.plan import Choices
from pipelines.plans.storage import load_plan, save_plan
from pipelines.plans.workload import resolve_workload
from pipelines.release.verification import contradictions
from pipelines.running.report import plan_details

Configs = Callable[..., ReleaseConfig]
OPEN = {"release.mechanism": None, "plan.retention_min": "1", "privacy.epsilon": "4"}
MEASURED = OPEN | {"release.mechanism": "geometric", "privacy.delta": "0"}
CELLS = {"plan.split_threshold": None, "plan.coarsening": "units"}
FLOWS = {"home": "trct", "work": "trct"}


def test_mechanisms_are_those_that_have_what_is_asked_for(small_config: Configs) -> None:
    assert small_config(OPEN).mechanisms == ("dirichlet", "geometric")
    assert small_config(MEASURED).mechanisms == ("geometric",)
    for change in (
        {"plan.prior": "0.5"},
        {"plan.retention_min": "0.5"},
        {"release.implicates": 2, "release.implicate_source": "one-urn"},
        {"workplaces": {"file": "table.csv", "fewest": "0.9"}},
    ):
        assert small_config(OPEN, change).mechanisms == ("dirichlet",)
    assert small_config(OPEN, {"workplaces": {"file": "table.csv"}}).mechanisms == ("dirichlet", "geometric")


def test_the_mechanism_is_the_one_that_loses_less(small_config: Configs) -> None:
    """On the same proxy truth; and so it stays where it is written down."""
    config = small_config(OPEN, CELLS)
    inputs = read_public_inputs(config)
    chosen = choose(config, inputs)
    tables = resolve_workload(config.workload, inputs.geography, inputs.model.level, inputs.slots)
    every = tuple(inputs.slots.attributes)
    jobs = np.bincount(inputs.slots.work, minlength=inputs.geography.n_blocks)
    sample = draw_sample(inputs, jobs, jobs > 0, len(inputs.slots), tables, every)
    found = {}
    for name in ("dirichlet", "geometric"):
        own = small_config(OPEN, CELLS, {"release.mechanism": name})
        found[name] = expected_loss(own, inputs, sample, choose(own, inputs))
    assert chosen.mechanism == min(found, key=found.__getitem__)
    assert expected_loss(config, inputs, sample, chosen) == min(found.values())


def test_the_coarsest_cells_are_chosen_where_nothing_is_certified(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without another mechanism, planning with them says why there is no plan."""

    def loss(_: object, __: object, sample: object, candidate: Choices) -> float:
        return 0.1 if candidate.mechanism == "geometric" else inf

    monkeypatch.setattr(trials, "expected_loss", loss)
    free = {"plan.split_threshold": None}
    both, alone = (small_config(OPEN, free, change) for change in ({}, {"release.mechanism": "dirichlet"}))
    assert choose(both, read_public_inputs(both)).mechanism == "geometric"
    assert choose(alone, read_public_inputs(alone)).thresholds == (2.0**8,)


def test_a_plan_keeps_the_mechanism_that_was_chosen(small_config: Configs, tmp_path: Path) -> None:
    config = small_config(OPEN)
    plan = make_plan(config)
    assert plan.config.release.mechanism is None
    assert plan.choices.mechanism == plan.numeric.mechanism == plan.mechanism.name
    assert contradictions(config, plan) == []
    other = next(name for name in config.mechanisms if name != plan.numeric.mechanism)
    named = small_config(OPEN, {"release.mechanism": other})
    assert "mechanism" in contradictions(named, plan)
    told: list[tuple[int, int]] = []
    measured = make_plan(small_config(MEASURED), progress=lambda *parts: told.append(parts))
    # Candidates, whose number is known in the end: this mechanism is calibrated at once.
    assert [done for done, _ in told] == [*range(1, len(told)), len(told) - 1]
    assert [done < of for done, of in told] == [True] * (len(told) - 1) + [False]
    assert len(told) > 2
    assert "mechanism" not in contradictions(small_config(OPEN), measured)
    assert "mechanism" in contradictions(small_config(OPEN, {"plan.prior": "0.5"}), measured)  # it has none
    folder = tmp_path / "plan"
    save_plan(plan, folder)
    assert load_plan(folder).choices == plan.choices


def test_residents_by_attributes_are_measured_beside_flows(
    small_config: Configs, microdata_jobs: Callable[..., dict[str, object]]
) -> None:
    """By the attributes of the workload together, at its home level; and plans say so."""
    residents = [{"home": "trct", "attributes": [name], "weight": "1/2"} for name in ("age", "sector")]
    base = [microdata_jobs("csv"), MEASURED, CELLS, {"plan.pool_by": [], "privacy.epsilon": "20"}]
    plan = make_plan(small_config(*base, {"workload": [FLOWS | {"weight": "1/10"}, *residents]}))
    (table,) = plan.choices.tables
    assert table == TableChoice(None, ("age", "sector"), "trct", table.share)
    assert 0 < table.share < 1
    assert [share for _, share in plan.tables] == [1 - table.share, table.share]
    text = plan_details(plan, plan.certify())
    assert "measured  residents of trct by age and sector, with" in text
    assert text.count("  measured  ") == 2
    # Not of the workers: homes are estimated from all noisy counts together.
    assert "% of what the noisy counts of pools hold is noise" in text
    assert "workers are noise" not in text
    assert make_plan(small_config(*base, {"workload": [FLOWS]})).choices.tables == ()


def test_a_small_table_is_compared_with_the_share_that_suits_it(
    small_config: Configs, microdata_jobs: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its first share it loses more than strata."""

    def loss(_: object, __: object, sample: object, candidate: Choices) -> float:
        share = sum((table.share for table in candidate.tables), Fraction(0))
        return float(abs(share - Fraction("0.2"))) if share else 0.1 if candidate.pool_by else 0.3

    monkeypatch.setattr(trials, "expected_loss", loss)
    residents = {"workload": [FLOWS, *({"home": "trct", "attributes": [name]} for name in ("age", "sector"))]}
    config = small_config(microdata_jobs("csv"), MEASURED, CELLS, {"plan.pool_by": None}, residents)
    (table,) = choose(config, read_public_inputs(config)).tables
    assert table == TableChoice(None, ("age", "sector"), "trct", Fraction("0.2"))


def test_a_small_table_says_of_larger_areas_only(
    small_config: Configs, microdata_jobs: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a table of counties leaves of tracts is not what its noise leaves of counties."""
    monkeypatch.setattr(trials, "_FEWEST_UNITS", 1)
    residents = [{"home": "trct", "attributes": ["age"]}, {"home": "cty", "attributes": ["sector"]}]
    config = small_config(microdata_jobs("csv"), MEASURED, CELLS, {"workload": residents})
    inputs = read_public_inputs(config)
    tables = resolve_workload(config.workload, inputs.geography, inputs.model.level, inputs.slots)
    jobs = np.bincount(inputs.slots.work, minlength=inputs.geography.n_blocks)
    sample = draw_sample(inputs, jobs, jobs > 0, len(inputs.slots) // 2, tables, ("age", "sector"))
    assert sample.share < 1
    flows = Choices("trct", 10_000, (), (), "trct")
    lost = [
        expected_loss(
            config,
            inputs,
            sample,
            replace(flows, tables=(TableChoice(None, ("age", "sector"), home, Fraction("0.9")),)),
        )
        for home in ("trct", "cty")
    ]
    assert lost[0] < lost[1]
    (table,) = choose(config, inputs).tables
    assert table.home == "trct"


def test_coarser_units_are_tried_as_cells_where_all_homes_are(small_config: Configs) -> None:
    flows = [{"home": home, "work": "cty"} for home in ("cty", "trct")]
    for tables, coarse in ((flows[:1], ["cty"]), (flows, [])):
        config = small_config(MEASURED, {"plan.split_threshold": None, "workload": tables})
        inputs = read_public_inputs(config)
        workload = resolve_workload(config.workload, inputs.geography, "trct", inputs.slots)
        for finest in ([], ["tabblk2010"]):  # single blocks only where tables are measured
            levels = search._cell_levels(config, inputs, workload, measures=bool(finest))
            assert levels == [*coarse, "trct", "bgrp", *finest]


def test_measured_pools_lie_in_units_of_the_model(small_config: Configs) -> None:
    coarse = {"plan.pool_level": "cty", "plan.pool_below": 100}
    for mechanism in ("geometric", None):
        with pytest.raises(ConfigError, match=r'plan\.pool_level = "cty": .*write "trct" or a finer level'):
            make_plan(small_config(MEASURED, coarse, {"release.mechanism": mechanism}))
    assert make_plan(small_config(coarse)).choices.pool_level == "cty"


def test_jobs_with_one_attribute_at_a_time_are_counted_by_one(small_config: Configs) -> None:
    """Of LODES margins nobody knows which job has which two attributes."""
    residents = [{"home": "trct", "attributes": [name]} for name in ("SE", "SI")]
    for by in (None, ["SE"], []):
        plan = make_plan(small_config(MEASURED, CELLS, {"plan.pool_by": by, "workload": [FLOWS, *residents]}))
        assert len({*plan.choices.pool_by, *(name for t in plan.choices.tables for name in t.by)}) <= 1
        assert by is None or plan.choices.pool_by == tuple(by)
        assert plan.met_by(plan.certify())
        assert sum((share for _, share in plan.tables), Fraction(0)) == 1


def test_tune_names_the_mechanism_and_the_tables(small_config: Configs) -> None:
    results = pipelines.tune(
        small_config(OPEN, {"plan.split_threshold": "1"}), pipelines.Sweep(mechanism=("auto", "geometric"))
    )
    assert results["mechanism"].tolist() == ["auto", "geometric"]
    assert set(results["chosen_mechanism"]) <= {"dirichlet", "geometric"}
    assert all("of" in row or "to" in row for row in results["chosen_tables"][1:])
    text = pipelines.recommend(results, small_config(OPEN))
    assert f'mechanism = "{results.sort_values("objective").iloc[0]["chosen_mechanism"]}"' in text


@pytest.mark.parametrize("policy", [{"partition": "cty"}, {"distance_km": "0.5"}])
def test_tune_and_its_recommendation_keep_the_policy(small_config: Configs, policy: object) -> None:
    """Whoever pastes what is recommended promises what was promised before."""
    config = small_config(MEASURED, {"plan.split_threshold": "1", "privacy.policy": policy})
    (candidate,) = pipelines.Sweep(epsilon=("2",)).configurations(config)
    assert (candidate.privacy.epsilon, candidate.privacy.policy) == (2, config.privacy.policy)
    text = pipelines.recommend(pipelines.tune(config, pipelines.Sweep(epsilon=("4",))), config)
    assert tomllib.loads(text)["privacy"] == config.privacy.model_dump(mode="json")
