"""Choices, simulated utility and sweeps: from public data alone, for the better, and the same every time."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import geo_data
import pipelines
import synth
from geo_data.pools import Pooling, build_pools
from geo_data.proxy_truth import attribute_concentrations
from helpers import Said
from pipelines import ReleaseConfig, make_plan
from pipelines.planning import search, simulation, trials
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import read_public_inputs
from pipelines.planning.search import choose
from pipelines.planning.simulation import simulate_utility
from pipelines.planning.sweep import AUTO, Sweep, draw_frontier, every_mechanism, recommend, tune
from pipelines.planning.trials import Sample, draw_sample, expected_loss
from pipelines.plans.plan import Choices, batches
from pipelines.plans.workload import resolve_workload
from pipelines.running.report import run_cost
from pipelines.running.run import certify
from pipelines.running.steps import PLAN_STEPS
from pipelines.storage.progress import EstimatedTotal

Configs = Callable[..., ReleaseConfig]
FREE = {"plan.split_threshold": None, "plan.pool_below": None}
NO_PRUNING = {"plan.retention_min": "1"}
FLOWS = {"home": "trct", "work": "trct"}


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A region large enough for choices to matter."""
    folder = tmp_path_factory.mktemp("region")
    return geo_data.write_demo_region(folder, counties=3, tracts=24, blocks=700, jobs=12_000)


@pytest.fixture
def config_of(region: dict[str, Path], small_config: Configs) -> Configs:
    """The configuration of the region, with cells and pools for the planner to choose."""
    files = {
        "jobs.file": region["od"],
        "geography.file": region["crosswalk"],
        "geography.polygons.0.file": region["tracts"],
        "auxiliary.0.file": region["county_flows"],
        "auxiliary.1.file": region["tract_flows"],
        "weights.file": region["population"],
    }

    def config(epsilon: str | None = "8.6", change: Mapping[str, object] | None = None) -> ReleaseConfig:
        return small_config(files, FREE, {"privacy.epsilon": epsilon}, change or {})

    return config


def planned(**settings: object) -> dict[str, object]:
    """Return the change of these keys of [plan]."""
    return {f"plan.{name}": value for name, value in settings.items()}


ONTHEMAP = planned(preset="onthemap", retention_min=None)


def test_choices_are_the_same_every_time_and_read_no_homes(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(geo_data.LodesJobs, "parts", pytest.fail)
    config = config_of(change={"workload": [FLOWS]})
    first, second = (choose(config, read_public_inputs(config)) for _ in range(2))
    assert first == second
    assert all(np.log2(t) == round(np.log2(t)) for t in first.thresholds)


def test_candidates_that_are_tried_at_once_are_tried_as_if_alone(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_config(FREE, NO_PRUNING, {"workload": [FLOWS]})
    inputs, threads = read_public_inputs(config), set()
    losses: list[dict[Choices, float]] = []

    def spy(*given: Any) -> float:
        threads.add(threading.get_ident())
        return losses[-1].setdefault(given[-1], expected_loss(*given))

    monkeypatch.setattr(trials, "expected_loss", spy)
    chosen = []
    for parallel_map in (trials.thread_map, map):
        losses.append({})
        chosen.append(choose(config, inputs, parallel_map=parallel_map))
    assert chosen[0] == chosen[1]
    assert losses[0] == losses[1]
    assert threads - {threading.get_ident()}


def test_every_step_says_how_far_it_is(
    small_config: Configs, zones: dict[str, Any], tmp_path: Path, said: Said
) -> None:
    """Files of jobs, candidates, classes of pools, and the trial of the plan: each to its end."""
    told: list[list[tuple[int, int]]] = [[] for _ in PLAN_STEPS]
    pipelines.plan(
        small_config(FREE, zones),
        tmp_path / "plan",
        progress=lambda done, of: told[len(said.steps) - 1].append((done, of)),
    )
    read, chosen, tried = told
    assert read == [(1, 2), (2, 2)]
    candidates = [(done, of) for done, of in chosen if isinstance(of, EstimatedTotal)]
    assert [done for done, _ in candidates] == list(range(1, len(candidates) + 1))
    assert all(done < of for done, of in candidates)
    known = chosen[len(candidates) :]
    assert known[0] == (len(candidates), len(candidates))
    assert known[-1][0] == known[-1][1]
    assert [done for done, _ in tried] == list(range(tried[0][1] + 1))


@pytest.mark.parametrize("limit", [1, 100])
def test_every_candidate_is_tried_on_the_same_proxy_truth(limit: int, config_of: Configs) -> None:
    """Each job keeps its home, in whichever pool it is."""
    inputs = read_public_inputs(config_of())
    slots = inputs.slots
    concentrations = attribute_concentrations(inputs.geography, inputs.model.level, slots)
    workload = resolve_workload((), inputs.geography, inputs.model.level, slots)
    sample = Sample(slots, inputs.model, workload, inputs.policy, concentrations, len(slots))
    pooling = Pooling(inputs.model.level, limit, ("SE",) if limit > 1 else ())
    pools = build_pools(slots, inputs.geography, pooling)
    (homes,) = sample.homes_of(pools)
    keys = [
        sorted(zip(s.work.tolist(), s.attributes["SE"].tolist(), s.attributes["SI"].tolist(), h, strict=True))
        for s, h in ((slots, sample.homes[0].tolist()), (pools.slots, homes.tolist()))
    ]
    assert keys[0] == keys[1]
    moved = not np.array_equal(pools.slots.work, slots.work)
    assert moved == (limit > 1) == (not np.array_equal(homes, sample.homes[0]))


@pytest.mark.deep
@pytest.mark.parametrize("epsilon", ["2", "6"])
def test_the_choice_is_better_than_extreme_ones(epsilon: str, config_of: Configs) -> None:
    """On proxy truth that the search did not see."""
    config = config_of(epsilon, NO_PRUNING)
    inputs = read_public_inputs(config)
    chosen = choose(config, inputs)

    def objective(choices: Choices) -> float:
        release = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
        return float(
            np.mean([simulate_utility(release, inputs.model, seed=seed).objective for seed in (101, 102)])
        )

    best = objective(chosen)
    assert best < objective(replace(chosen, thresholds=(2.0**-7,), cell_level=None))
    assert best < objective(replace(chosen, thresholds=(2.0**8,), cell_level=None))
    assert best <= objective(replace(chosen, pool_below=1)) + 0.01
    assert best <= objective(replace(chosen, pool_below=10_000)) + 0.01


@pytest.mark.deep  # bounds for few cells at epsilon 2 take long
def test_little_privacy_loss_asks_for_fewer_cells(config_of: Configs) -> None:
    sizes = []
    for epsilon in ("2", "8.6"):
        config = config_of(epsilon, NO_PRUNING | planned(coarsening="balanced"))
        release = make_plan(config)
        cells = release.numeric.k
        sizes.append(np.average(cells, weights=release.pools.n))
    assert sizes[0] < sizes[1] / 2


def test_pools_are_shared_as_the_workload_asks(config_of: Configs) -> None:
    """For flows between areas alone, work blocks share all they can; for work blocks, little."""
    noisy = {"release.mechanism": "geometric", "workload": [FLOWS]} | NO_PRUNING
    noisy |= planned(coarsening="units", cell_level="trct")
    config = config_of("2", noisy)
    inputs = read_public_inputs(config)
    release = make_plan(config, inputs)
    assert release.pools.shared.all()
    found = simulate_utility(release, inputs.model)
    assert found.objective == found.total_variation == found.workload[0].loss
    unshared = make_plan(config_of("2", noisy | planned(pool_below=1)), inputs)
    assert not unshared.pools.shared.any()
    assert simulate_utility(unshared, inputs.model).total_variation > 1.3 * found.total_variation
    asked = {"workload": [{"home": "trct", "work": "tabblk2010"}]}
    blocks = config_of("8.6", asked | planned(coarsening="units", cell_level="trct", pool_by=[]))
    resampled = make_plan(blocks, inputs)
    assert resampled.pools.shared.mean() < 0.5
    found = simulate_utility(resampled, inputs.model)
    assert found.objective == found.block_variation
    assert found.workload[0].no_privacy < found.objective < found.workload[0].public_model


@pytest.mark.deep
@pytest.mark.parametrize("mechanism", ["dirichlet", "geometric"])
def test_cells_are_the_better_of_balanced_ones_and_of_units(mechanism: str, config_of: Configs) -> None:
    """On the homes that candidates are tried on, the choice loses no more than any rule that is asked for."""
    rules: list[dict[str, object]] = [{"coarsening": "balanced"}]
    rules += [{"coarsening": "units", "cell_level": level} for level in ("trct", "bgrp")]
    won = set()
    for epsilon in ("8.6", "2"):
        same = {"release.mechanism": mechanism, "workload": [FLOWS]} | NO_PRUNING
        config = config_of(epsilon, same)
        inputs = read_public_inputs(config)
        jobs = np.bincount(inputs.slots.work, minlength=inputs.geography.n_blocks)
        model = inputs.model
        workload = resolve_workload(config.workload, model.geography, model.level, inputs.slots)
        every = tuple(inputs.slots.attributes)
        sample = draw_sample(inputs, jobs, jobs > 0, len(inputs.slots), workload, every)

        def loss(choices: Choices) -> float:
            return expected_loss(config, inputs, sample, choices)  # noqa: B023

        chosen = choose(config, inputs)
        asked = [choose(config_of(epsilon, same | planned(**rule)), inputs) for rule in rules]
        assert chosen in asked
        assert loss(chosen) == min(map(loss, asked))
        assert [choices.cell_level for choices in asked] == [None, "trct", "bgrp"]
        assert [choices.thresholds == () for choices in asked] == [False, True, True]
        won.add(chosen.cell_level)
    assert (None in won) == (mechanism == "dirichlet")  # resampling pays for fewer cells only


def test_what_the_configuration_fixes_is_not_chosen(config_of: Configs) -> None:
    config = config_of(change=planned(split_threshold="3", pool_below=40, pool_level="bgrp"))
    assert choose(config, read_public_inputs(config)) == Choices("bgrp", 40, (3.0,))
    other = config_of(change=planned(coarsening="share"))
    assert choose(other, read_public_inputs(other)) == Choices("trct", 1, (1.0,))


def test_thresholds_serve_their_size_class() -> None:
    choices = Choices("trct", 1, (0.5, 1.0, 2.0))
    assert [choices.threshold(n) for n in (1, 2, 3, 4, 7, 8, 1e6)] == [0.5, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0]


def test_a_budget_that_pays_nothing_is_an_error_not_a_choice(config_of: Configs) -> None:
    with pytest.raises(synth.BudgetTooSmallError):
        make_plan(config_of("0.01", planned(retention_min=None, prior="0.01")))


# --- simulated utility


def test_simulated_utility_of_noise_and_of_none(config_of: Configs) -> None:
    config = config_of("8.6", NO_PRUNING)
    inputs = read_public_inputs(config)
    found = [
        simulate_utility(
            assemble(
                config.model_copy(update={"privacy": config.privacy.model_copy(update={"epsilon": e})}),
                inputs,
                inputs.slots,
                Choices("trct", 1, (0.25,)),
                config.privacy.delta,
            ),
            inputs.model,
        )
        for e in (Fraction(1), Fraction(20))
    ]
    noisy, clean = found
    assert noisy.noise_share > 0.5 > 0.001 > clean.noise_share
    assert noisy.objective > clean.objective
    assert abs(clean.mean_commute_error) < 0.04
    assert noisy.jobs == clean.jobs == 12_000


def test_simulated_utility_takes_given_homes(config_of: Configs) -> None:
    """Homes that are all one block: whatever the plan does, what is lost is the noise."""
    config = config_of("20", planned(split_threshold="0.001", pool_below=1))
    inputs = read_public_inputs(config)
    release = make_plan(config, inputs)
    homes = np.full(len(inputs.slots), 7, np.int32)
    result = simulate_utility(release, inputs.model, homes)
    assert result.total_variation < 0.01


def test_large_plans_are_tried_in_part(config_of: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(change=planned(split_threshold="1", pool_below=1))
    inputs = read_public_inputs(config)
    release = make_plan(config, inputs)
    whole = simulate_utility(release, inputs.model)
    monkeypatch.setattr(simulation, "_TRIAL_JOBS", 3_000)
    monkeypatch.setattr(simulation, "batches", partial(batches, jobs=500))
    part = simulate_utility(release, inputs.model)
    assert 1_500 < part.jobs < 6_000
    assert part.block_variation == pytest.approx(whole.block_variation, abs=0.08)


def test_cost_of_a_run_is_forecast_from_that_of_planning() -> None:
    """Measured for the demo region and for Rhode Island, in processes of their own."""
    assert np.allclose(run_cost(7.0, 0.51, 65_000), (7.6, 0.53), rtol=0.3)
    assert np.allclose(run_cost(8.8, 0.89, 476_789), (9.4, 0.93), rtol=0.3)


# --- sweeps


def test_sweep_gives_every_combination(config_of: Configs) -> None:
    config = config_of(change=planned(pool_by=["SE"]))
    sweep = Sweep(epsilon=("2", "4"), pool_below=(AUTO, "7"), retention_min=("1", "1/3"))
    found = sweep.configurations(config)
    assert len(found) == len({str(c.public) for c in found}) == 8
    assert {c.plan.pool_below for c in found} == {None, 7}
    assert {c.privacy.epsilon for c in found} == {2, 4}
    assert all(c.plan.pool_by == ("SE",) and c.privacy.delta == config.privacy.delta for c in found)


def test_the_level_of_cells_is_kept_for_units_only(config_of: Configs) -> None:
    config = config_of(change=planned(coarsening="units", cell_level="bgrp"))
    found = [c.plan for c in Sweep(coarsening=("balanced", "units", AUTO)).configurations(config)]
    assert [plan.coarsening for plan in found] == ["balanced", "units", None]
    assert [plan.cell_level for plan in found] == [None, "bgrp", None]


def test_bad_values_are_named(config_of: Configs) -> None:
    for name, value in (("epsilon", "0"), ("coarsening", "fine"), ("pool_below", "x"), ("delta", "2")):
        with pytest.raises(pipelines.ConfigError, match=f"{name}: '{value}' cannot be tried"):
            Sweep(**{name: (value,)}).configurations(config_of())


@pytest.mark.parametrize("epsilons", [("0.1",), ("0.1", "0.2")])
def test_nothing_certified_is_an_empty_picture(epsilons: tuple[str, ...], tmp_path: Path) -> None:
    same = ("delta", "mechanism", "coarsening", "split_threshold", "pool_by", "pool_level", "pool_below")
    results = pd.DataFrame(
        {"epsilon": epsilons, **dict.fromkeys(same, "same"), "retention_min": epsilons, "certified": False}
    )
    draw_frontier(results, "none", tmp_path / "frontier.png")
    assert (tmp_path / "frontier.png").stat().st_size > 0


def test_tune_on_the_model_and_on_an_earlier_release(
    config_of: Configs, region: dict[str, Path], tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier.csv.gz"
    pd.read_csv(region["od"], dtype="str").iloc[:-9].to_csv(earlier, index=False)
    config = config_of(change=planned(retention_min=None, pool_below=1, prior="0.5"))
    sweep = Sweep(epsilon=("0.01", "5", "8.6"), split_threshold=("0.5", "200"))
    for truth in (None, earlier):
        results = tune(config, sweep, proxy_truth=truth)
        assert results["certified"].tolist() == [False, False, True, True, True, True]
        done = results[results["certified"]]
        assert done["total_variation"].between(0, 1, inclusive="neither").all()
        fine = done[done["split_threshold"] == "1/2"].set_index("epsilon")["objective"]
        assert fine["8.6"] == fine["5"]  # the prior is given: epsilon decides only whether it is certified
        best = done[done["epsilon"] == "8.6"].sort_values("objective").iloc[0]["split_threshold"]
        text = recommend(results, config)
        recommended = tomllib.loads(text)["plan"]
        assert Fraction(recommended["split_threshold"]) == Fraction(best)
        assert recommended["pool_below"] == 1
        assert recommended["prior"] == "0.5"  # what was not varied is kept


def test_mechanisms_are_compared_each_with_the_settings_that_it_has(config_of: Configs) -> None:
    config = config_of(change=planned(prior="0.5") | {"workload": [FLOWS]})
    both = Sweep(mechanism=("dirichlet", "geometric"), split_threshold=("1",), pool_below=("1",))
    results = tune(config, both)
    assert results["certified"].all()
    assert results["retention_min"].tolist() == ["0.5", "1"]
    for value, retention, said in (
        ("other", (), "write one of dirichlet"),
        ("geometric", ("1", "0.5"), "every"),
    ):
        with pytest.raises(pipelines.ConfigError, match=said):
            Sweep(mechanism=(value,), retention_min=retention).configurations(config)


def test_every_mechanism_that_a_configuration_can_have_is_tried(config_of: Configs) -> None:
    config = config_of(change=planned(pool_by=None, retention_min=None))
    assert every_mechanism(config) == Sweep(mechanism=("dirichlet", "geometric"), pool_by=("none", AUTO))
    urn = config_of(change={"release.implicates": 2, "release.implicate_source": "one-urn"})
    assert every_mechanism(urn) == Sweep(mechanism=("dirichlet",))


def test_strata_and_their_level_are_swept(
    config_of: Configs, region: dict[str, Path], tmp_path: Path
) -> None:
    earlier = tmp_path / "earlier.csv.gz"
    pd.read_csv(region["od"], dtype="str").iloc[:-9].to_csv(earlier, index=False)
    config = config_of(change=planned(split_threshold="1", pool_below=9999))
    sweep = Sweep(pool_by=("none", "SE", "SI"), pool_level=("trct", AUTO))
    results = tune(config, sweep, proxy_truth=earlier).set_index(["pool_by", "pool_level"])
    pools = results["pools"]
    assert pools["none", "trct"] == 24  # tracts
    assert pools["SE", "trct"] == pools["SE", AUTO] > 2 * pools["none", "trct"]
    assert 'pool_by = ["SE"]' in recommend(results.loc[["SE"]].reset_index(), config)
    (free,) = Sweep(pool_by=(AUTO,)).configurations(config)
    assert free.plan.pool_by is None
    with pytest.raises(geo_data.InputError, match=r"plan\.pool_by names wage, which is not an attribute"):
        tune(config, Sweep(pool_by=("wage",)))
    with pytest.raises(pipelines.ConfigError, match=r'plan\.pool_level: "ward" is not a level'):
        tune(config, Sweep(pool_level=("ward",)))


def test_sharing_is_tried_with_the_strata_that_there_are(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to one urn for all jobs of a stratum in a unit."""
    tried = []

    def spy(
        _: object, inputs: object, slots: geo_data.Slots, choices: Choices, *more: object, rough: bool
    ) -> None:
        tried.append((choices.pool_by, tuple(slots.attributes), choices.pool_below))
        raise synth.BudgetTooSmallError("not needed here", lambda: None)

    monkeypatch.setattr(trials, "assemble", spy)
    config = config_of(change=planned(pool_by=["SI"], split_threshold="1"))
    inputs = read_public_inputs(config)
    choose(config, inputs)
    assert {names[0] for names in tried} == {("SI",)}
    assert all("SI" in names[1] for names in tried)
    assert max(limit for _, _, limit in tried) > np.bincount(inputs.slots.work).max()


def test_a_larger_epsilon_costs_less_utility(config_of: Configs) -> None:
    config = config_of(change=planned(split_threshold="1", pool_below=8))  # nothing to search
    results = tune(config, Sweep(epsilon=("4", "8.6"))).set_index("epsilon")
    assert results["objective"]["8.6"] < results["objective"]["4"]
    assert results["noise_share"]["8.6"] < results["noise_share"]["4"]


def test_nothing_is_recommended_where_nothing_is_certified(config_of: Configs) -> None:
    results = tried(mechanism="dirichlet", certified=[False])
    assert recommend(results, config_of()).startswith("# no combination")
    others = results.assign(certified=True, epsilon="2")
    assert recommend(others, config_of()) == (
        "# nothing was tried at epsilon 8.6 and delta 0.00001, which the configuration has: add them to the "
        "values"
    )


@pytest.mark.deep
def test_a_recommendation_that_is_pasted_gives_the_row_again(config_of: Configs) -> None:
    """With the same choices and the same loss, also where all that is recommended is a default."""
    onthemap = config_of(None, planned(preset="onthemap", retention_min=None) | {"privacy.delta": None})
    counted = NO_PRUNING | {"release.mechanism": "geometric"}
    noisy = counted | planned(split_threshold="1")
    fixed = planned(prior="1/3", split_threshold="1/2")
    for config, sweep in [
        (config_of("8.6", NO_PRUNING), Sweep(mechanism=("dirichlet", "geometric"))),
        (config_of("8.6", noisy), Sweep(pool_by=("SI", "none"), coarsening=("threshold", "share"))),
        (config_of("8.6", fixed), Sweep(retention_min=("1/3",), pool_level=("bgrp",))),
        (onthemap, Sweep(pool_below=("20",))),
        (config_of("8.6", counted), Sweep(coarsening=("balanced", AUTO))),
    ]:
        results = tune(config, sweep)
        text = recommend(results, config)
        pasted = tomllib.loads(text)
        assert {"coarsening", "pool_by", "pool_level", "pool_below", "retention_min"} <= pasted["plan"].keys()
        assert (pasted["plan"]["coarsening"] == "units") == ("cell_level" in pasted["plan"])
        again = config_of(change={"release.mechanism": pasted.pop("release")["mechanism"], **pasted})
        inputs = read_public_inputs(again)
        release = make_plan(again, inputs)
        measures = simulate_utility(release, inputs.model)
        (row,) = (row for _, row in results.iterrows() if row["objective"] == measures.objective)
        assert row["mechanism"] == again.release.mechanism
        assert row["total_variation"] == measures.total_variation
        assert row["pools"] == release.pools.n.size
        chosen = (row["chosen_pool_level"], row["chosen_pool_below"])
        assert chosen == (release.choices.pool_level, release.choices.pool_below)
        best = results["objective"].min()
        said = " ".join(text.replace("\n#", "").split())
        assert f"loss is {best:.4f}" in said or f"Loss {best:.4f}: mechanism" in said


def tried(**columns: object) -> pd.DataFrame:
    """Return results as `tune` gives them, with these columns."""
    same = {"epsilon": "8.6", "delta": "0.00001", "certified": True, "coarsening": "balanced"}
    same |= {"split_threshold": AUTO, "pool_by": "none", "pool_level": AUTO, "pool_below": AUTO}
    same |= {"retention_min": "1", "chosen_pool_level": "trct", "chosen_pool_below": 8, "objective": 0.5}
    same |= {"chosen_coarsening": "balanced", "chosen_cell_level": "none", "chosen_pool_by": "none"}
    table = pd.DataFrame(same | columns)
    return table.assign(chosen_mechanism=table["mechanism"], chosen_tables="")


def test_a_recommendation_says_why(config_of: Configs) -> None:
    """Among all mechanisms, by one loss; by how much, where it ties and what was not compared."""

    def said(results: pd.DataFrame) -> str:
        return " ".join(recommend(results, config_of()).replace("\n#", "").split())

    def tables(*losses: list[float]) -> dict[str, object]:
        names = ("trct to trct", "trct to tabblk2010")
        found: dict[str, object] = {"mechanism": ["dirichlet", "geometric"], "objective": losses[0]}
        for name, values in zip(names, losses[1:], strict=True):
            found |= {f"loss: {name}": values, f"public model: {name}": 0.44, f"no privacy: {name}": 0.0}
        return found

    text = said(tried(**tables([0.3, 0.275], [0.2, 0.05], [0.4, 0.5])))
    assert 'mechanism = "geometric"' in text
    assert "Recommended at epsilon 8.6 and delta 0.00001: mechanism geometric." in text
    assert "The loss of each is the weighted mean over the tables of the workload, on proxy truth." in text
    assert "Loss 0.2750: mechanism geometric, the best of its mechanism." in text
    assert "Loss 0.3000, 9.1% more than the recommended one: mechanism dirichlet" in text
    assert "for trct to tabblk2010 dirichlet loses less there: 0.4000, against 0.5000" in text
    assert "trct to trct: 0.0500; public model alone 0.4400, no privacy 0.0000." in text
    assert (
        "trct to tabblk2010: 0.5000; public model alone 0.4400, no privacy 0.0000. The release will not"
        in text
    )
    assert "tie" not in text
    text = said(tried(**tables([0.3, 0.3001], [0.2, 0.1002], [0.4, 0.5])))
    assert 'mechanism = "dirichlet"' in text
    assert "Loss 0.3001, less than 0.1% more than the recommended one: mechanism geometric" in text
    tie = "A tie, as other draws of proxy truth may order these anew: mechanism "
    assert f"{tie}geometric, loss 0.3001" in text

    one = tried(
        mechanism="dirichlet",
        objective=[0.15, 0.2, 0.1501, None, 0.1],
        certified=[True, True, True, False, True],
        epsilon=["8.6", "8.6", "8.6", "8.6", "9"],
        pool_below=["2", "1", "3", "4", "2"],
    )
    text = said(one)
    assert (
        "Its loss is 0.1500. Next: mechanism dirichlet, pool_below 3, loss 0.1501, less than 0.1% more"
        in text
    )
    assert f"{tie}dirichlet, pool_below 3" in text
    assert "cannot be certified at this price: mechanism dirichlet, pool_below 4." in text
    assert "not tried at this price: mechanism geometric." in text
    assert "at another epsilon or delta: 1 combination." in text
    assert "Not varied: coarsening, split_threshold, pool_by, pool_level, retention_min." in text
    assert "Nothing else was certified" in said(one.iloc[:1])


# --- presets


def test_onthemap_preset_fills_in_what_is_not_said(config_of: Configs) -> None:
    plan = config_of(change=ONTHEMAP).plan
    assert (plan.coarsening, plan.distance_miles, plan.pool_below) == ("distance", 100, 1)
    assert plan.retention_min == Fraction("0.0378")
    other = config_of(change=ONTHEMAP | {"plan.distance_miles": "5"}).plan
    assert (other.distance_miles, other.coarsening) == (5, "distance")


@pytest.mark.parametrize("rule", ["distance", "share"])
def test_historical_rules_release(rule: str, config_of: Configs, clean_source: object) -> None:
    release = pipelines.run(config_of(change=planned(coarsening=rule, distance_miles="10")))
    assert release.certificate.for_release
    assert release.certificate.totals.synthetic_workers == 12_000


def test_onthemap_preset_is_certified_by_the_same_code(config_of: Configs) -> None:
    """Where nothing else is said, its noise changes odds by at most 100."""
    silent = ONTHEMAP | {"privacy.delta": None}
    config = config_of(None, silent)
    assert (config.privacy.epsilon, config.privacy.delta) == (Fraction("7.88"), Fraction("1e-5"))
    guarantee = certify(pipelines.make_plan(config))
    assert guarantee.epsilon <= config.privacy.epsilon
    assert Fraction("0.0378") in guarantee.classes[0].retention
    assert any(row.pruning_loss > 0 for row in guarantee.classes)
    noise = max(float(row.block_loss) for row in guarantee.classes) - np.log(1 / 0.0378)
    assert 50 < np.exp(noise) <= 100
    assert config_of(change=ONTHEMAP).privacy.epsilon == Fraction("8.6")  # what is said holds
    with pytest.raises(pipelines.ConfigError, match=r"privacy\.epsilon: missing"):
        config_of(None, silent | {"plan.retention_min": "0.2"})  # other pruning, other cost


def test_where_units_are_too_many_to_measure_one_size_of_cells_is_searched(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a nation: 24 pools of 24 units are too many, and noise does not depend on the size of a pool."""
    monkeypatch.setattr(search, "_SAMPLE_JOBS", 3_000)
    monkeypatch.setattr(trials, "_MOST_MEASURED", 400)
    pure = {"release.mechanism": "geometric", "privacy.delta": "0"}
    config = config_of("2", {**pure, **NO_PRUNING, "workload": [FLOWS]})
    inputs = read_public_inputs(config)
    chosen = choose(config, inputs)
    assert chosen.cell_level is None
    (size,) = chosen.thresholds
    jobs = inputs.slots.jobs(inputs.geography.n_blocks)
    workload = resolve_workload(config.workload, inputs.geography, inputs.model.level, inputs.slots)
    sample = draw_sample(inputs, jobs, jobs > 0, 3_000, workload)
    least, *others = (
        expected_loss(config, inputs, sample, replace(chosen, thresholds=(size * times,)))
        for times in (1, 0.5, 2)
    )
    assert least < np.inf
    assert least <= min(others)


def test_a_small_table_is_not_given_up_for_a_share_that_is_too_small(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it less is lost than with a tenth of epsilon for it, and least with a half."""
    with_share = {
        "3/100": 0.63,
        "1/20": 0.57,
        "1/10": 0.49,
        "1/5": 0.38,
        "3/10": 0.36,
        "1/2": 0.35,
        "7/10": 0.4,
    }

    def lost(_: object, inputs: object, sample: object, candidate: Choices) -> float:
        return with_share[str(candidate.tables[0].share)] if candidate.tables else 0.48

    monkeypatch.setattr(trials, "expected_loss", lost)
    tables = [FLOWS, {"home": "trct", "attributes": ["SI"]}]
    change = NO_PRUNING | {"release.mechanism": "geometric", "privacy.delta": "0", "workload": tables}
    config = config_of("2", change)
    chosen = choose(config, read_public_inputs(config), parallel_map=None)
    assert [str(table.share) for table in chosen.tables] == ["1/2"]


def test_strata_are_tried_in_place_of_the_small_table(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Either is better than neither, and both together are worse than each."""

    def lost(_: object, inputs: object, sample: object, candidate: Choices) -> float:
        if candidate.tables:
            return 0.44
        return 0.4 if candidate.pool_by == ("SI",) else 0.48

    monkeypatch.setattr(trials, "expected_loss", lost)
    tables = [FLOWS, {"home": "trct", "attributes": ["SI"]}]
    pure = {"release.mechanism": "geometric", "privacy.delta": "0", "workload": tables}
    config = config_of("2", NO_PRUNING | pure | planned(pool_by=None))
    chosen = choose(config, read_public_inputs(config))
    assert chosen.pool_by == ("SI",)
    assert not chosen.tables


@pytest.mark.parametrize(("best", "mechanism"), [(0.2, "dirichlet"), (0.4, "geometric")])
def test_a_mechanism_is_chosen_where_the_search_of_each_ends(
    best: float, mechanism: str, config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where it starts: resampling starts a little behind."""
    sizes = set()

    def lost(_: object, inputs: object, sample: Sample, candidate: Choices) -> float:
        sizes.add(len(sample))
        if candidate.mechanism == "geometric":
            return 0.3
        return best if candidate.pool_by == ("SI",) else 0.35

    monkeypatch.setattr(trials, "expected_loss", lost)
    either = {"release.mechanism": None, "workload": [FLOWS]}
    config = config_of("2", NO_PRUNING | either | planned(pool_by=None))
    inputs = read_public_inputs(config)
    assert choose(config, inputs).mechanism == mechanism
    assert sizes == {len(inputs.slots)}  # a small region is tried whole


def test_single_blocks_are_cells_where_little_noise_is_added(config_of: Configs) -> None:
    """A table of flows from few blocks is measured as it is; at a small epsilon its noise would hide it."""
    tables = [{"home": "tabblk2010", "work": "trct"}]
    change = NO_PRUNING | {"release.mechanism": "geometric", "privacy.delta": "0", "workload": tables}
    config = config_of("12", change)
    inputs = read_public_inputs(config)
    assert choose(config, inputs).cell_level == "tabblk2010"
    config = config_of("0.2", change)
    blocks = Choices("trct", 1, (), cell_level="tabblk2010")
    jobs = inputs.slots.jobs(inputs.geography.n_blocks)
    workload = resolve_workload(config.workload, inputs.geography, inputs.model.level, inputs.slots)
    sample = draw_sample(inputs, jobs, jobs > 0, 3_000, workload)
    assert expected_loss(config, inputs, sample, blocks) == np.inf


def test_large_urns_are_tried_with_cells_that_suit_them(
    config_of: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An urn for all jobs of a unit loses least, with cells eight times as large as suit an urn a block."""

    def lost(_: object, inputs: object, sample: object, candidate: Choices) -> float:
        if len(candidate.thresholds) != 1 or candidate.pool_by:
            return 0.5
        shared = candidate.pool_below > 1000
        apart = abs(np.log2(candidate.thresholds[0]) - (6 if shared else 3))
        return (0.29 if shared else 0.30) + 0.02 * float(apart) ** 0.5

    monkeypatch.setattr(trials, "expected_loss", lost)
    config = config_of("1", NO_PRUNING | {"workload": [FLOWS]})
    chosen = choose(config, read_public_inputs(config))
    assert chosen.pool_below > 1000
    assert chosen.thresholds == (64.0,)


def test_cells_of_resampled_pools_may_grow_with_the_root_of_their_jobs(config_of: Configs) -> None:
    """And expect a power of two of workers."""
    same, growing = search._scales(1000, measures=False)
    assert all(len(sizes) == 1 for sizes in same)
    for sizes in growing:
        choices = Choices("trct", 1, sizes)
        assert [choices.threshold(n) / sizes[0] for n in (1, 3, 4, 16, 64, 256, 1000)] == [
            *(1, 1, 2, 4, 8, 16, 16)
        ]
        assert all(np.log2(size) % 1 == 0 for size in sizes)
