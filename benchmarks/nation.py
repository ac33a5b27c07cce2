"""Planning a nation: time and memory of the public plan of 140 million jobs.

Usage: python benchmarks/nation.py [--scale 1.0] [--epsilon 4.6]

Simulates the public side of a country of the size of the United States: 51 states, 3,142 counties, 73,000
tracts, 7.7 million blocks, 2.3 million work blocks, 140 million jobs, a county table and a tract table of an
earlier release. Crosswalk and tables are written to files and read back; the slots stay in memory. Then the
plan is made and certified as for any release.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import numpy as np
import pandas as pd

import geo_data
import pipelines
from pipelines.choosing import choose
from pipelines.planning import assemble
from pipelines.public_inputs import public_inputs_for, read_geography

_CONFIG = """
[release]
name = "Simulated nation"
state = "us"
year = 2019
out = "out"
[privacy]
epsilon = "{epsilon}"
delta = "1e-5"
[jobs]
format = "lodes"
file = "none.csv"
[geography]
file = "xwalk.parquet"
block = "block"
levels = ["st", "cty", "trct", "bgrp"]
latitude = "lat"
longitude = "lon"
[weights]
file = "population.parquet"
level = "trct"
area = "trct"
weight = "pop"
[[auxiliary]]
format = "flows"
file = "county.parquet"
origin = "h"
origin_level = "cty"
destination = "w"
destination_level = "cty"
flow = "flow"
[[auxiliary]]
format = "flows"
file = "tract.parquet"
origin = "h"
origin_level = "trct"
destination = "w"
destination_level = "trct"
flow = "flow"
same_jobs = true
"""


@click.command()
@click.option("--scale", default=1.0, help="Size, as a part of the nation's.")
@click.option("--epsilon", default="4.6")
def main(scale: float, epsilon: str) -> None:
    """Simulate, plan, certify and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with step("simulating and writing public files (not part of planning)"):
            simulate(folder, scale)
        begin = time.perf_counter()
        config = pipelines.parse_config(_CONFIG.format(epsilon=epsilon), folder, "nation.toml")
        with step("reading geography, weights and tables, fitting the public model"):
            slots = np.load(folder / "slots.npy")
            inputs = public_inputs_for(config, read_geography(config), geo_data.Slots(slots, {}, {}))
        print(f"  {inputs.model.geography!r}, {len(slots):,} jobs, decay {inputs.model.decay}")
        with step("choosing cells and pools"):
            choices = choose(config, inputs)
        print(f"  {choices}")
        with step("making the plan"):
            release = assemble(config, inputs, inputs.slots, choices, config.privacy.delta)
        print(f"  {release.plan!r}, {release.shares.unit.size:,} shares")
        with step("certifying"):
            guarantee = pipelines.certified(release)
        print(f"  epsilon {float(guarantee.epsilon):.6f}, delta {float(guarantee.delta):.3e}")
        print(f"planning took {(time.perf_counter() - begin) / 60:.1f} minutes in all")


def simulate(folder: Path, scale: float) -> None:
    """Write the public files of a nation, and the work block of every job."""
    rng = np.random.default_rng(1)
    counties, tracts = max(4, round(3142 * scale)), max(20, round(73_000 * scale))
    states = min(51, counties // 2)
    state = np.sort(rng.integers(0, states, counties))
    state[:states] = np.arange(states)
    state.sort()
    centre = np.column_stack([rng.uniform(26, 48, states), rng.uniform(-122, -70, states)])[state]
    centre += rng.normal(0, 1.5, centre.shape)
    county = np.sort(
        np.append(np.arange(counties), rng.choice(counties, tracts - counties, p=skewed(rng, counties)))
    )
    place = centre[county] + rng.normal(0, 0.15, (tracts, 2))
    population = rng.gamma(4, 1050, tracts).round()
    blocks = rng.poisson(104, tracts) + 1
    tract = np.repeat(np.arange(tracts), blocks)
    inside = np.arange(tract.size) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    where = place[tract] + rng.normal(0, 0.02, (tract.size, 2))
    fips = pd.Series(state).map("{:02}".format) + pd.Series(rank(state)).map("{:03}".format)
    code = (fips.to_numpy()[county] + pd.Series(rank(county)).map("{:06}".format)).to_numpy()
    number = (1000 * (inside % 3 + 1) + inside).astype(str)
    block = pd.Series(code[tract]) + number
    pd.DataFrame(
        {
            "block": block,
            "st": block.str[:2],
            "cty": block.str[:5],
            "trct": block.str[:11],
            "bgrp": block.str[:12],
            "lat": where[:, 0],
            "lon": where[:, 1],
        }
    ).to_parquet(folder / "xwalk.parquet")
    pd.DataFrame({"trct": code, "pop": population}).to_parquet(folder / "population.parquet")
    # Work blocks: three in ten, jobs by a heavy tail.
    work = np.flatnonzero(rng.random(tract.size) < 0.3)
    jobs = np.maximum(1, (rng.lognormal(2.32, 1.9, work.size)).astype(np.int64))
    jobs = np.minimum(jobs, 30_000)
    np.save(folder / "slots.npy", np.repeat(work.astype(np.int32), jobs))
    per_tract = np.bincount(tract[work], jobs, tracts)
    # Flows fall with distance; each destination has some 60 origin tracts of its own and nearby counties.
    flows(rng, folder / "tract.parquet", code, county, per_tract, within=True)
    flows(
        rng,
        folder / "county.parquet",
        fips.to_numpy(),
        state,
        np.bincount(county, per_tract, counties),
        within=False,
    )


def flows(
    rng: np.random.Generator,
    path: Path,
    code: np.ndarray,
    parent: np.ndarray,
    jobs: np.ndarray,
    *,
    within: bool,
) -> None:
    """Write a table of flows from neighbours in order, with shares that fall off."""
    each = 60
    step = np.rint(rng.laplace(0, 15, (code.size, each))).astype(np.int64)
    origin = np.clip(np.arange(code.size)[:, None] + step, 0, code.size - 1)
    share = rng.gamma(0.5, 1.0, origin.shape) / (1 + np.abs(step))
    share /= share.sum(axis=1, keepdims=True)
    table = pd.DataFrame(
        {
            "h": origin.ravel(),
            "w": np.repeat(np.arange(code.size), each),
            "flow": np.rint(share * jobs[:, None] * (0.65 if within else 1.0)).ravel(),
        }
    )
    table = table[table["flow"] > 0]
    if within:
        table = table[parent[table["h"]] == parent[table["w"]]]
    table = table.groupby(["h", "w"], as_index=False)["flow"].sum()
    table["h"], table["w"] = code[table["h"]], code[table["w"]]
    table.to_parquet(path)


def skewed(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return shares with a long tail."""
    weight = rng.pareto(1.2, size) + 0.3
    return weight / weight.sum()


def rank(parent: np.ndarray) -> np.ndarray:
    """Return the position of each entry among those of its (sorted) parent, from 1."""
    first = np.flatnonzero(np.append(True, np.diff(parent) != 0))
    return np.arange(parent.size) - np.repeat(first, np.diff(np.append(first, parent.size))) + 1


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print the time of a step, and the peak memory so far."""
    begin = time.perf_counter()
    yield
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{what}: {time.perf_counter() - begin:.1f} s; peak memory so far {memory:.2f} GB", flush=True)


if __name__ == "__main__":
    main()
