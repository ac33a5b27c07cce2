"""The plans that are chosen for Rhode Island 2019, and what they lose against the truth.

Usage: python benchmarks/planning.py [--search | --page benchmarks/planning.md]

Plans are chosen on public data only; the truth (LODES, which is public here) is looked at once, to print what
each plan loses. The memory of planning is printed too. Measures are those of
pipelines/plans/utility.py: total variation between tract-to-tract flows, error of the mean commute, and
the median error of the mean commute of work blocks with at least 100 jobs. Beside the first two stands the
simulated utility that `odsynth plan` shows.
Then come the jobs of people from the two neighbouring states, also without a table that knows them, and last
the public model alone, also with a table between places, which cut tracts, or towns.

With --search it prints instead what the search alone finds for Rhode Island, Leeds, the demo region and a
simulated nation: the plan, its loss over the workload as forecast on proxy truth and as reached on the true
homes, and the candidates tried and the seconds of processors that the search took.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from report import commit_measured, fill, table
from study_methods import draw

import geo_data
import pipelines
import synth
from geo_data.pools import group_records, order_records
from geo_data.proxy_truth import proxy_origins
from pipelines.drawing.procedures import procedure_of
from pipelines.planning.assembling import assemble
from pipelines.planning.public_inputs import PublicInputs, job_source, read_public_inputs
from pipelines.planning.search import choose
from pipelines.planning.simulation import simulate_utility
from pipelines.planning.sweep import changed as varied
from pipelines.planning.sweep import with_every_attribute
from pipelines.plans.plan import batches
from pipelines.plans.utility import (
    commutes,
    count_variation,
    destination_commute_error,
    mean_commute,
    mean_km,
    total_variation,
)
from pipelines.plans.workload import CountedJobs, resolve_workload
from pipelines.running.demo import demo_inputs
from pipelines.running.run import certify
from pipelines.storage.progress import ProgressCounter

COMMAND = "python benchmarks/planning.py"
COLUMNS = (
    *("plan", "epsilon", "flows", "flows simulated", "mean commute", "commute simulated"),
    *("large destinations", "noise", "cells of a job"),
)
ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
ALONE = "[[auxiliary]]                 # last year"
SURVEY = "[[auxiliary]]                 # American"
DRAWN_JOBS = 400_000  # of which losses are means
LAST_YEAR = "../../shared/data/ri_2019/ri_lodes2018_within_county_tract_flows.csv"


def main(page: Path | None = None) -> None:
    """Plan, draw, measure, print, and fill the page."""
    text = (EXAMPLES / "rhode_island.toml").read_text(encoding="utf-8")
    first, rest = text.split(ALONE)
    without = first + rest[rest.index("# Public weights") :]
    noisy = text.replace('mechanism = "dirichlet"', 'mechanism = "geometric"')
    every, without_the_smallest = ("8.6", "4.6", "2", "1"), ("8.6", "4.6", "2")
    plans = [
        *(("chosen", changed(text, epsilon)) for epsilon in every),
        *(("geometric, chosen", changed(noisy, epsilon)) for epsilon in every),
        *(("geometric, balanced", changed(noisy, epsilon, 'coarsening = "balanced"')) for epsilon in every),
        *(("geometric, unshared", changed(noisy, epsilon, "pool_below = 1")) for epsilon in every),
        *(("chosen, without the 2018 table", changed(without, epsilon)) for epsilon in without_the_smallest),
        *(
            ("threshold rule, T chosen", changed(text, epsilon, 'coarsening = "threshold"'))
            for epsilon in without_the_smallest
        ),
        ("90 % of the flow uncoarsened", changed(text, "8.6", 'coarsening = "share"')),
        ("preset onthemap", (EXAMPLES / "onthemap.toml").read_text(encoding="utf-8")),
    ]
    rows = table(COLUMNS, [reached(*plan) for plan in plans])
    print(rows, flush=True)
    if page is not None:
        fill(page, COMMAND, f"{rows}\n\nCommit {commit_measured()}.")
    from_neighbours("chosen", text)
    from_neighbours("no table from other states", first[: first.index(SURVEY)] + ALONE + rest)
    model_alone("2018 and survey", text)
    model_alone("survey", without)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("stplc", "ctycsub"):
            model_alone(f"survey and {name}", with_areas(without, name, Path(folder)))
            model_alone(f"2018, survey and {name}", with_areas(text, name, Path(folder)))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def compare_searches() -> None:
    """Print what the search finds in each region, by mechanism and epsilon."""
    print("| region | plan | forecast | reached | tried | seconds |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        regions = {
            "demo": demo_inputs(Path(folder) / "demo"),
            "Leeds": EXAMPLES / "leeds.toml",
            "Rhode Island": EXAMPLES / "rhode_island.toml",
            "nation": geo_data.simulate_nation(Path(folder) / "nation", 300_000),
        }
        for (region, path), mechanism, epsilon in product(
            regions.items(), ("dirichlet", "geometric"), ("8.6", "2")
        ):
            config = varied(pipelines.load_config(path), {"mechanism": mechanism, "epsilon": epsilon})
            print(f"| {region}, {mechanism}, {epsilon} | {searched(config)} |", flush=True)


def searched(config: pipelines.ReleaseConfig) -> str:
    """Return the cells of a row: what was chosen, its losses, and what the search took."""
    inputs, tried = read_public_inputs(config), list[int]()
    begin = time.process_time()
    choices = choose(config, inputs, ProgressCounter(lambda done, _: tried.append(done)))
    seconds = time.process_time() - begin
    plan = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
    names, source = [*inputs.slots.attributes], job_source(config, inputs.geography)
    lodes = isinstance(source, geo_data.LodesJobs)
    records = with_every_attribute(source, names) if lodes else source.records(names)
    order = order_records(plan.pools, plan.geography, records)
    true = {name: codes[order] for name, codes in records.attributes.items()}
    draws = max(1, DRAWN_JOBS // len(order))
    forecast, reached = (
        np.mean([loss(plan, inputs, homes, attributes, seed) for seed in range(draws)])
        for homes, attributes in ((None, plan.pools.slots.attributes), (records.home[order], true))
    )
    cells = choices.cell_level or "T " + " ".join(f"{t:g}" for t in choices.thresholds)
    pools = f"{choices.pool_level} below {choices.pool_below} by {'+'.join(choices.pool_by) or 'none'}"
    tables = "".join(f"; {name} {float(share):.2f}" for name, share in plan.tables[1:])
    return f"{cells}; {pools}{tables} | {forecast:.4f} | {reached:.4f} | {len(tried)} | {seconds:.0f}"


def loss(
    plan: pipelines.ReleasePlan,
    inputs: PublicInputs,
    homes: np.ndarray | None,
    attributes: dict[str, np.ndarray],
    seed: int,
) -> float:
    """Return what one draw loses over the workload, of homes that are given or of proxy truth."""
    model, slots, policy = inputs.model, plan.pools.slots, plan.policy
    workload = resolve_workload(plan.config.workload, model.geography, model.level, slots, policy.secret)
    if homes is None:
        named = {name: attributes[name] for name in workload.attributes}
        homes = proxy_origins(
            model, slots.work, slots.home_part, policy, 100 + seed, named, inputs.concentrations
        )
    drawn = procedure_of(plan).draw(batches(plan), homes, synth.RunKey.from_seed(seed))[0]
    true, released = (CountedJobs(slots.work, origins, attributes) for origins in (homes, drawn))
    return workload.objective(workload.losses(true, released))


def changed(text: str, epsilon: str, plan: str = "") -> str:
    """Return the configuration with another epsilon and a line of the plan."""
    return text.replace('epsilon = "8.6"', f'epsilon = "{epsilon}"').replace(
        "\n[plan]\n", f"\n[plan]\n{plan}\n"
    )


def reached(name: str, text: str) -> list[str]:
    """Return the row of a plan."""
    config = pipelines.parse_config(text, EXAMPLES, name)
    inputs = read_public_inputs(config)
    plan = pipelines.make_plan(config, inputs)
    guarantee = certify(plan)
    work, homes = truth(config, plan)
    drawn = draw(plan, homes)
    cells = np.average(plan.numeric.k, weights=plan.pools.n)
    return [
        name,
        f"{float(guarantee.epsilon):.2f}",
        *compared(plan, inputs.model, work, homes, drawn),
        f"{plan.mechanism.noise_share(plan.numeric):.1%}",
        f"{cells:,.0f}",
    ]


def from_neighbours(name: str, text: str) -> None:
    """Print how many jobs a release gives to people from the two neighbouring states."""
    config = pipelines.parse_config(text, EXAMPLES, name)
    plan = pipelines.make_plan(config)
    _, homes = truth(config, plan)
    for state, code in {"Massachusetts": "25", "Connecticut": "09"}.items():
        unit = plan.geography.unit_number("st", [code])[0]
        jobs = [np.sum(plan.geography.unit_of("st", blocks) == unit) for blocks in (homes, draw(plan, homes))]
        print(f"{name}, jobs of people from {state}: {jobs[1]:,}, truth {jobs[0]:,}")


def truth(config: pipelines.ReleaseConfig, plan: pipelines.ReleasePlan) -> tuple[np.ndarray, np.ndarray]:
    """Return work and home block of every job, pool after pool."""
    records = job_source(config, plan.geography).records(plan.attributes)
    homes = group_records(plan.pools, plan.geography, records)
    return plan.pools.slots.work, homes


def compared(
    plan: pipelines.ReleasePlan,
    model: geo_data.PublicModel,
    work: np.ndarray,
    homes: np.ndarray,
    drawn: np.ndarray,
) -> list[str]:
    """Return the measures, and the simulated utility of two of them."""
    geography, expected = plan.geography, simulate_utility(plan, model)
    means = [mean_commute(geography, work, h) for h in (homes, drawn)]
    km = [commutes(geography, work, h) for h in (homes, drawn)]
    return [
        f"{total_variation(geography, 'trct', work, homes, drawn):.4f}",
        f"{expected.total_variation:.4f}",
        f"{means[1] / means[0] - 1:+.2%}",
        f"{expected.mean_commute_error:+.2%}",
        f"{destination_commute_error(work, *km):.3f}",
    ]


def with_areas(text: str, name: str, folder: Path) -> str:
    """Return the configuration with a table between areas of the crosswalk, made of that of 2018.

    Its flows between tracts are shared out to areas by public population and jobs. Like that table it shows
    pairs within counties only, of areas by where most of them lies, and nothing outside of any place.
    """
    config = pipelines.parse_config(text, EXAMPLES, "areas")
    inputs = read_public_inputs(config)
    geography = inputs.geography
    blocks = np.arange(geography.n_blocks)
    tract, area, county = (geography.unit_of(level, blocks) for level in ("trct", name, "cty"))

    def spread(measure: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Return the measure of each unit in each area, shape (units, areas)."""
        result = np.zeros((unit.max() + 1, area.max() + 1))
        np.add.at(result, (unit, area), measure)
        return result

    jobs = np.bincount(inputs.slots.work, minlength=blocks.size)
    homes, works = (spread(measure, tract) for measure in (inputs.weights.weights, jobs))
    homes, works = (parts / np.maximum(parts.sum(axis=1, keepdims=True), 1) for parts in (homes, works))
    flows = pd.read_csv(EXAMPLES / LAST_YEAR, dtype={"h_tract": "str", "w_tract": "str"})
    pairs = np.zeros((homes.shape[0],) * 2)
    pairs[tuple(geography.unit_number("trct", flows[side]) for side in ("h_tract", "w_tract"))] = flows[
        "jobs"
    ]
    between = np.rint(homes.T @ pairs @ works)
    codes, main = geography.codes(name), spread(inputs.weights.weights, county).argmax(axis=0)
    somewhere = np.array([bool(code.strip("9")) for code in codes])
    between[(main[:, None] != main) | ~(somewhere[:, None] & somewhere)] = 0
    home, work = np.nonzero(between)
    table = pd.DataFrame({"home": codes[home], "work": codes[work], "jobs": between[home, work]})
    table.to_csv(folder / f"{name}.csv", index=False)
    return (
        text
        + f"""
[[auxiliary]]
format = "flows"
file = "{folder / name}.csv"
origin = "home"
origin_level = "{name}"
destination = "work"
destination_level = "{name}"
flow = "jobs"
"""
    )


def model_alone(name: str, text: str) -> float:
    """Print how far the public model is from the truth, as expected flows, without any draw."""
    config = pipelines.parse_config(text, EXAMPLES, "model")
    inputs = read_public_inputs(config)
    records = job_source(config, inputs.geography).records()
    model = inputs.model
    pair = model.units(records.work).astype(np.int64) * model.n_units + model.units(records.home)
    true = np.bincount(pair, minlength=model.n_units**2).reshape(model.n_units, model.n_units)
    expected = model.shares(np.arange(model.n_units)) * model.jobs[:, None]
    variation = count_variation(true, expected)
    km = model.distance_km(np.arange(model.n_units))
    commute = mean_km(km, expected) / mean_km(km, true) - 1
    print(
        f"public model alone, {name}: flows {variation:.4f}, mean commute {commute:+.1%}; "
        f"{model.decay}, concentration {model.concentration}"
    )
    return variation


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--search"]:
            compare_searches()
        case ["--page", page]:
            main(Path(page))
        case _:
            main()
