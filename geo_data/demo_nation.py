"""A generated nation of any size: census-like public files, and job records in a file for each state.

Everything is drawn by seeded code from nothing real. At 140 million workers it has the size of the United
States: 51 states, 3,142 counties, 73,000 tracts, 7.7 million blocks; fewer workers make fewer of each. Tables
of flows have what the jobs are drawn from, as it was in other years: last year's between the tracts of a
county, and a survey between counties. Homes are near workplaces, as a rule, but of the near tracts some have
many workers of a place and most have few.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from geo_data.demo import empty_folder

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_log = logging.getLogger(__name__)
_WORKERS, _COUNTIES, _TRACTS, _STATES = 140_000_000, 3142, 73_000, 51
_BLOCKS_PER_TRACT = 104
_WORK_SHARE = 0.3  # of blocks have jobs
_SIZE_SIGMA = 1.9  # jobs per work block: lognormal, a mean of six times its median
_LARGEST = 30_000
_NEIGHBOURS = 60  # origin tracts of a destination

_CONFIG = """\
# A generated nation of {workers:,} workers. Made by `odsynth simulate`; nothing here is real.
[release]
name = "Simulated nation"
state = "us"
year = 2019
out = "release"
csv = false   # Parquet only, a file for each batch

[privacy]
protects = "home"
epsilon = "4.6"
delta = "1e-5"

[jobs]
format = "microdata"
file = "jobs/state_*.parquet"
home = "home"
work = "work"
population = "residents"   # nobody comes from abroad

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


@dataclass(frozen=True, eq=False)
class _Nation:
    state: Int64  # of each county
    county: Int64  # of each tract
    tract: Int64  # of each block
    place: Float64  # of each tract, in degrees of latitude, shape (tracts, 2)
    code: NDArray[np.object_]  # of each tract
    fips: NDArray[np.object_]  # of each county
    block: pd.Series  # code of each block
    work: Int64  # block number of each work block
    jobs: Int64  # of each work block


def simulate_nation(
    folder: str | os.PathLike[str],
    workers: int,
    *,
    seed: int = 1,
) -> Path:
    """Write the files of a generated nation, and a configuration that releases it.

    Parameters
    ----------
    folder : str or path
        Made if it is not there; must be empty, as files of another nation would be read with its own.
    workers : int
        Job records, at least 1,000; exactly so many are written, in ``jobs/state_*.parquet``.
    seed : int
        Equal seeds give equal files.

    Returns
    -------
    Path
        The configuration, ``nation.toml``.

    Raises
    ------
    ValueError
        If there are too few workers.
    InputError
        If there is anything in the folder.
    """
    if workers < 1000:
        raise ValueError("a nation must have at least 1,000 workers")
    folder = empty_folder(folder)
    (folder / "jobs").mkdir()
    rng = np.random.default_rng(seed)
    _log.info("Places ...")
    nation = _places(rng, folder, workers)
    tracts = nation.code.size
    per_tract = np.bincount(nation.tract[nation.work], nation.jobs, tracts)
    _log.info("Flows of other years ...")
    structure = _structure(rng, nation.place)
    last_year = _flows(structure[0], _perturbed(rng, structure[1]), per_tract)
    inside = nation.county[last_year["h"]] == nation.county[last_year["w"]]
    _write_flows(folder / "tract.parquet", nation.code, last_year[inside])
    survey = _flows(structure[0], _perturbed(rng, structure[1]), per_tract)
    _write_flows(
        folder / "county.parquet",
        nation.fips,
        survey.assign(**{side: nation.county[survey[side]] for side in ("h", "w")}),
    )
    for state in range(int(nation.state.max()) + 1):
        _log.info("Jobs of state %d of %d ...", state + 1, int(nation.state.max()) + 1)
        _write_jobs(rng, folder / "jobs" / f"state_{state:02}.parquet", nation, structure, state)
    config = folder / "nation.toml"
    config.write_text(_CONFIG.format(workers=workers), encoding="utf-8")
    return config


def _places(rng: np.random.Generator, folder: Path, workers: int) -> _Nation:
    scale = min(1.0, workers / _WORKERS)
    counties, tracts = max(4, round(_COUNTIES * scale)), max(20, round(_TRACTS * scale))
    states = max(1, min(_STATES, counties // 2))
    state = np.sort(rng.integers(0, states, counties))
    state[:states] = np.arange(states)
    state.sort()
    centre = np.column_stack([rng.uniform(26, 48, states), rng.uniform(-122, -70, states)])[state]
    centre += rng.normal(0, 1.5, centre.shape)
    weight = rng.pareto(1.2, counties) + 0.3
    more = rng.choice(counties, tracts - counties, p=weight / weight.sum())
    county = np.sort(np.append(np.arange(counties), more))
    place = centre[county] + rng.normal(0, 0.15, (tracts, 2))
    blocks = rng.poisson(_BLOCKS_PER_TRACT, tracts) + 1
    tract = np.repeat(np.arange(tracts), blocks)
    inside = np.arange(tract.size) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    where = place[tract] + rng.normal(0, 0.02, (tract.size, 2))
    fips = np.array([f"{s:02}{c:03}" for s, c in zip(state, _rank(state), strict=True)], object)
    code = np.array([f"{fips[c]}{t:06}" for c, t in zip(county, _rank(county), strict=True)], object)
    number = pd.Series(1000 * (inside % 3 + 1) + inside).astype("str")
    block: pd.Series = pd.Series(code[tract], dtype="str") + number
    levels = {"st": 2, "cty": 5, "trct": 11, "bgrp": 12}
    pd.DataFrame(
        {
            "block": block,
            **{name: block.str[:length] for name, length in levels.items()},
            "lat": where[:, 0],
            "lon": where[:, 1],
        }
    ).to_parquet(folder / "xwalk.parquet")
    population = rng.gamma(4, 1050, tracts).round()
    pd.DataFrame({"trct": code, "pop": population}).to_parquet(folder / "population.parquet")
    work = np.flatnonzero(rng.random(tract.size) < _WORK_SHARE)
    size = rng.lognormal(0, _SIZE_SIGMA, work.size)
    jobs = np.minimum(np.maximum(1, size / size.sum() * workers), _LARGEST).astype(np.int64)
    # What rounding and the largest size left over, or took too much, one job a block.
    while (left := workers - int(jobs.sum())) != 0:
        able = np.flatnonzero(jobs < _LARGEST if left > 0 else jobs > 1)
        chosen = rng.choice(able, min(abs(left), able.size), replace=False)
        jobs[chosen] += np.sign(left)
    plane = place * [1, np.cos(np.radians(place[:, 0].mean()))]
    return _Nation(state, county, tract, plane, code, fips, block, work, jobs)


def _rank(parent: Int64) -> Int64:
    """Return the position of each entry among those of its (sorted) parent, from 1."""
    first = np.flatnonzero(np.append(True, np.diff(parent) != 0))
    return np.arange(parent.size) - np.repeat(first, np.diff(np.append(first, parent.size))) + 1


def _structure(rng: np.random.Generator, place: Float64) -> tuple[Int64, Float64]:
    """Return the origins of every destination, nearer ones more often, and their shares; (areas, 60)."""
    step = np.rint(np.abs(rng.laplace(0, 15, (len(place), _NEIGHBOURS)))).astype(np.int64)
    step = np.minimum(step, len(place) - 1)
    near = cKDTree(place).query(place, k=int(step.max()) + 1)[1].reshape(len(place), -1)
    share = rng.gamma(0.5, 1.0, step.shape) / (1 + step)
    origin: Int64 = np.take_along_axis(near, step, axis=1).astype(np.int64)
    return origin, share / share.sum(axis=1, keepdims=True)


def _perturbed(rng: np.random.Generator, share: Float64) -> Float64:
    """Return the shares of another year."""
    other = share * rng.lognormal(0, 0.3, share.shape)
    return np.asarray(other / other.sum(axis=1, keepdims=True))


def _flows(origin: Int64, share: Float64, jobs: NDArray[np.number]) -> pd.DataFrame:
    """Return flows between numbers of tracts, of so many jobs at each: not in whole jobs."""
    work = np.repeat(np.arange(jobs.size), origin.shape[1])
    return pd.DataFrame({"h": origin.ravel(), "w": work, "flow": (share * jobs[:, None]).ravel()})


def _write_flows(path: Path, code: NDArray[np.object_], flows: pd.DataFrame) -> None:
    """Write a table of flows between areas in whole jobs, of those that have any."""
    sums = flows.groupby(["h", "w"])["flow"].sum().round().reset_index()
    sums = sums[sums["flow"] > 0]
    sums.assign(h=code[sums["h"]], w=code[sums["w"]]).to_parquet(path)


def _write_jobs(
    rng: np.random.Generator, path: Path, nation: _Nation, structure: tuple[Int64, Float64], state: int
) -> None:
    """Draw the jobs of the work blocks of a state: home tract by share, home block evenly inside it."""
    origin, share = structure
    of_block = nation.state[nation.county[nation.tract[nation.work]]]
    in_state = of_block == state
    work = np.repeat(nation.work[in_state], nation.jobs[in_state])
    tract = nation.tract[work]
    # One searchsorted for all rows: row r of the cumulative shares lies in (r, r + 1].
    cumulative = (np.cumsum(share, axis=1) + np.arange(share.shape[0])[:, None]).ravel()
    place = np.searchsorted(cumulative, tract + rng.random(work.size), side="left")
    home_tract = origin.ravel()[np.minimum(place, tract * _NEIGHBOURS + _NEIGHBOURS - 1)]
    first = np.searchsorted(nation.tract, np.arange(nation.code.size + 1))
    home = first[home_tract] + rng.integers(0, first[home_tract + 1] - first[home_tract])
    table = pd.DataFrame({"home": nation.block.to_numpy()[home], "work": nation.block.to_numpy()[work]})
    table.to_parquet(path, compression="zstd")
    path.chmod(0o600)
