"""Generated places that nothing was tuned on: a region of blocks, and a country of zones with one large city.

Public files, a configuration, and confidential homes, all drawn by seeded code from nothing real. Their homes
follow no gravity model, as those of real places do not.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from geo_data.demo import Region, draw_region, draw_rows, empty_folder, to_degrees

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

_CONFIG = """\
# {title} Made by `odsynth simulate`; nothing here is real.
[release]
name = "{name}"
state = "{state}"
year = {year}
out = "{out}"

[privacy]
protects = "home"
epsilon = "{epsilon}"
delta = "{delta}"

[jobs]
format = "microdata"
file = "{jobs}.parquet"
home = "home"
work = "work"
attributes = {attributes}
population = "residents"   # nobody comes from elsewhere

[geography]
file = "geography.parquet"
block = "{block}"
levels = {levels}
latitude = "lat"
longitude = "lon"

[weights]
file = "population.parquet"
level = "{weighed}"
area = "{weighed}"
weight = "pop"
"""

_CENSUS = """
[[auxiliary]]              # flows of the last census, ten years before
format = "flows"
file = "census.parquet"
origin = "home"
origin_level = "zone"
destination = "work"
destination_level = "zone"
flow = "workers"
"""

_LEVELS = ["st", "cty", "trct", "bgrp"]
_REGION = {"counties": 5, "tracts": 75, "blocks": 6000, "jobs": 120_000}
_ZONES, _REGIONS, _COUNTRY_JOBS = 300, 12, 150_000
_IN_THE_CITY = 1 / 3  # of all jobs of the country
_IN_OWN_ZONE = 0.05  # of its workers
# Logarithms of factors of pairs of areas are so many times Student's t. Pairs of Rhode Island and Leeds are
# off the nearest gravity model by relative variances of 0.2 to 0.6; most are so here, and some by far more.
_PAIRS, _LONGEST_TAIL = 0.3, 3.0
_CATEGORIES = {
    "age": ["29 or younger", "30 to 54", "55 or older"],
    "earnings": ["low", "middle", "high"],
    "industry": ["goods", "trade", "services"],
}
_SECTORS = {"sector": ["farming and industry", "trade", "services", "public"]}


def simulate_region(folder: str | os.PathLike[str], *, seed: int = 1) -> Path:
    """Write the files of a generated region of 6,000 blocks, and a configuration that releases it.

    Its 120,000 jobs at 2,000 work blocks are by age, earnings and industry; there is no table of flows.
    Homes deviate from gravity in these ways, none of which is in a public file:

    - workers who live in a tract are as many as its population says, by lognormal factors of sigma 0.2, and
      those of blocks inside their tract by factors of sigma 0.5;
    - pairs of tracts by factors exp(0.3 t), t of Student's law with three degrees of freedom, at most
      20 times up or down: a few pairs have far more workers than gravity says;
    - a tract's own residents work there twice as often as gravity says, times a lognormal factor of
      sigma 0.5;
    - the tracts of a work block's workers differ from those of its tract by gamma variables of concentration
      300, as workers of an employer come from the same places;
    - distance counts less for those who earn more, and tracts have residents of an earnings category by
      lognormal factors of sigma 0.3.

    Parameters
    ----------
    folder : str or path
        Made if it is not there; must be empty.
    seed : int
        Equal seeds give equal files.

    Returns
    -------
    Path
        The configuration, ``region.toml``.

    Raises
    ------
    InputError
        If there is anything in the folder.
    """
    folder = empty_folder(folder)
    rng = np.random.default_rng(seed)
    places, jobs = draw_places_and_jobs(rng)
    write_places(folder, places)
    write_jobs(folder / "jobs.parquet", places, jobs)
    return write_region_config(folder / "region.toml", places, len(jobs.home))


@dataclass(frozen=True, eq=False)
class Places:
    """The places of the generated region, and who is drawn to which of them."""

    region: Region
    work: Int64  # the blocks with workplaces; shape (K,)
    size: Float64  # about in proportion to jobs; shape (K,)
    flows: tuple[Float64, ...]  # by earnings, workers of each tract by tract of home; shape (T, T)
    shares: tuple[Float64, ...]  # by earnings, where workers of each workplace live, by tract; shape (K, T)
    weight: Float64  # how many homes each block has, compared with others of its tract; shape (B,)


@dataclass(eq=False)
class RegionJobs:
    """Jobs of the generated region, shape (N,) each."""

    place: Int64  # position among the workplaces
    home: Int64  # block
    attributes: dict[str, Int64]


def draw_places_and_jobs(rng: np.random.Generator) -> tuple[Places, RegionJobs]:
    """Draw the region of `simulate_region`, and its jobs."""
    region, jobs = draw_region(rng, **_REGION), _REGION["jobs"]
    n, tract, blocks = len(region.tract_x), region.tract, len(region.tract)
    population = np.bincount(tract, region.population, n)
    centre = np.exp(-np.hypot(region.x, region.y) / 6.0)
    work = np.sort(rng.choice(blocks, blocks // 3, replace=False, p=_shares(0.25 + centre)))
    size = rng.lognormal(0, 1.9, work.size) * (0.6 + centre[work])
    of_block = 1 + rng.multinomial(jobs - work.size, _shares(size))
    place = np.repeat(np.arange(work.size), of_block)
    attributes = _attributes(rng, rng.dirichlet([0.35, 0.4, 1.1], work.size), place)

    km = np.hypot(region.tract_x[:, None] - region.tract_x, region.tract_y[:, None] - region.tract_y)
    residents = population * rng.lognormal(0, 0.2, n)
    factors = np.exp(_pairs(rng, n))
    factors[np.diag_indices(n)] *= 2 * rng.lognormal(0, 0.5, n)
    jobs_of_tract = np.bincount(tract[work], of_block, n).astype(np.float64)
    home_tract = np.empty(jobs, np.int64)
    all_flows, all_shares = [], []
    for earnings, power in enumerate((1.9, 1.6, 1.3)):
        flows = balanced(factors / (km + 4.0) ** power, jobs_of_tract, residents * rng.lognormal(0, 0.3, n))
        shares = _shares(flows)[tract[work]]
        of_employers = rng.gamma(np.maximum(300 * shares, 1e-9)) + 1e-300
        earners = np.flatnonzero(attributes["earnings"] == earnings)
        home_tract[earners] = draw_rows(rng, np.cumsum(of_employers, axis=1), place[earners])
        all_flows.append(flows)
        all_shares.append(_shares(of_employers))
    weight = (region.population + 0.1) * rng.lognormal(0, 0.5, blocks)
    home = inside(rng, home_tract, weight, tract)
    places = Places(region, work, of_block.astype(float), tuple(all_flows), tuple(all_shares), weight)
    return places, RegionJobs(place, home, attributes)


def write_places(folder: Path, places: Places) -> None:
    """Write the public files of the generated region: its geography, and the population of its tracts."""
    crosswalk, tract = places.region.crosswalk, places.region.tract
    geography = crosswalk[_LEVELS].assign(
        block=crosswalk["tabblk2010"].to_numpy(dtype=object),
        lat=crosswalk["blklatdd"].astype(np.float64),
        lon=crosswalk["blklondd"].astype(np.float64),
    )
    geography.to_parquet(folder / "geography.parquet")
    population = np.bincount(tract, places.region.population)
    tracts = crosswalk["trct"].groupby(tract).first().to_numpy(dtype=object)
    pd.DataFrame({"trct": tracts, "pop": population.astype(np.int64)}).to_parquet(
        folder / "population.parquet"
    )


def write_jobs(path: Path, places: Places, jobs: RegionJobs, **columns: Int64) -> None:
    """Write jobs of the generated region, one a row, perhaps with further columns."""
    codes = places.region.crosswalk["tabblk2010"].to_numpy(dtype=object)
    home, work = codes[jobs.home], codes[places.work[jobs.place]]
    _write_jobs(path, home, work, jobs.attributes, _CATEGORIES, **columns)


def write_region_config(path: Path, places: Places, n_jobs: int, more: str = "", **words: object) -> Path:
    """Write a configuration that releases the generated region; some words of it may be others."""
    blocks = len(places.region.tract)
    usual = {
        "title": f"A generated region of {blocks:,} blocks and {n_jobs:,} workers.",
        "name": "Simulated region",
        "state": "region",
        "attributes": [*_CATEGORIES],
        "block": "block",
        "levels": _LEVELS,
        "weighed": "trct",
    }
    return _write_config(path, more, **(usual | words))


def simulate_country(folder: str | os.PathLike[str], *, seed: int = 1, census: bool = True) -> Path:
    """Write the files of an invented country of 300 zones, and a configuration that releases it.

    One zone, the city, has a third of its 150,000 jobs; they are by sector. Homes deviate from gravity in
    these ways:

    - of a zone's workers a share from a beta law of mean 5 % and concentration 40 live in the zone itself;
    - residents, for all destinations in common, differ from the published population by lognormal factors of
      sigma 0.3;
    - pairs of zones by factors exp(0.3 t), t of Student's law with three degrees of freedom, at most 20 times
      up or down;
    - by sector, pairs differ by lognormal factors of sigma 0.3.

    The census of ten years before counted other workers, with other factors of pairs: their logarithms are
    correlated 0.9 with those of today.

    Parameters
    ----------
    folder : str or path
        Made if it is not there; must be empty.
    seed : int
        Equal seeds give equal files.
    census : bool
        Whether the configuration uses the flows of that census.

    Returns
    -------
    Path
        The configuration, ``country.toml``.

    Raises
    ------
    InputError
        If there is anything in the folder.
    """
    folder = empty_folder(folder)
    rng = np.random.default_rng(seed)
    n = _ZONES
    # Regions are sectors of a disc of 150 km around the city, which is zone 0 of the first.
    region = np.sort(rng.integers(0, _REGIONS, n))
    region[0] = 0
    angle = 2 * np.pi * (region + rng.random(n)) / _REGIONS
    far = 150 * np.sqrt(rng.random(n)) * (np.arange(n) > 0)
    x, y = far * np.cos(angle), far * np.sin(angle)
    within = np.arange(n) - np.searchsorted(region, region)
    codes = np.array([f"Z{r:02}{i:03}" for r, i in zip(region, within, strict=True)], object)
    place = to_degrees(np.column_stack([x, y]))
    names = np.array([f"R{r:02}" for r in region], object)
    table = {"zone": codes, "region": names, "lat": place[:, 1], "lon": place[:, 0]}
    pd.DataFrame(table).to_parquet(folder / "geography.parquet")
    population = rng.lognormal(7.0, 0.7, n) * (1 + 3 * np.exp(-far / 30))
    population[0] = 0.12 * population.sum()
    pd.DataFrame({"zone": codes, "pop": np.rint(population)}).to_parquet(folder / "population.parquet")

    km = np.hypot(x[:, None] - x, y[:, None] - y)
    size = population * rng.lognormal(0, 0.6, n)
    size[0] = size[1:].sum() * _IN_THE_CITY / (1 - _IN_THE_CITY)
    sector = rng.dirichlet([1.2, 1.0, 1.8, 0.8], n)
    usual = np.log(population / (km + 5.0) ** 1.8)
    today, change = _pairs(rng, n), _pairs(rng, n)
    in_zone = rng.beta(40 * _IN_OWN_ZONE, 40 * (1 - _IN_OWN_ZONE), n)
    in_zone_before = np.clip(in_zone * rng.lognormal(0, 0.2, n), 0, 1)
    residents = rng.normal(0, 0.3, n)
    work = np.repeat(np.arange(n), rng.multinomial(_COUNTRY_JOBS, _shares(size)))
    sector_of_job = draw_rows(rng, np.cumsum(sector, axis=1), work)
    home = np.empty(work.size, np.int64)
    for number in range(sector.shape[1]):
        rate = np.exp(usual + residents + today + rng.normal(0, 0.3, (n, n)))
        jobs = np.flatnonzero(sector_of_job == number)
        home[jobs] = draw_rows(rng, np.cumsum(_with_diagonal(rate, in_zone), axis=1), work[jobs])
    _write_jobs(folder / "jobs.parquet", codes[home], codes[work], {"sector": sector_of_job}, _SECTORS)

    rate = np.exp(usual + 0.8 * residents + 0.9 * today + 0.19**0.5 * change)
    counted = rng.poisson(
        _with_diagonal(rate, in_zone_before) * (0.9 * _COUNTRY_JOBS * _shares(size))[:, None]
    )
    row, column = np.nonzero(counted)
    flows = {"home": codes[column], "work": codes[row], "workers": counted[row, column]}
    pd.DataFrame(flows).to_parquet(folder / "census.parquet")
    return _write_config(
        folder / "country.toml",
        _CENSUS if census else "",
        title=f"An invented country of {n} zones and {_COUNTRY_JOBS:,} workers.",
        name="Invented country",
        state="country",
        attributes=["sector"],
        block="zone",
        levels=["region"],
        weighed="zone",
    )


def _shares(weight: Float64) -> Float64:
    return np.asarray(weight / weight.sum(axis=-1, keepdims=True))


def balanced(pull: Float64, rows: Float64, columns: Float64) -> Float64:
    """Return flows in proportion to a pull, with sums in proportion to those of rows and columns."""
    flows, columns = pull, columns * (rows.sum() / columns.sum())
    for _ in range(20):  # more change no sum by a hundredth
        flows = flows * (columns / flows.sum(axis=0))
        flows = flows * (np.maximum(rows, 1e-9) / flows.sum(axis=1))[:, None]
    return flows


def _pairs(rng: np.random.Generator, n: int) -> Float64:
    """Draw the logarithms of the factors of pairs of areas."""
    return np.clip(_PAIRS * rng.standard_t(3, (n, n)), -_LONGEST_TAIL, _LONGEST_TAIL)


def _with_diagonal(rate: Float64, diagonal: Float64) -> Float64:
    """Return the shares of each row's homes, of which a given share is in its own zone."""
    elsewhere = rate.copy()
    np.fill_diagonal(elsewhere, 0.0)
    shares = _shares(elsewhere) * (1 - diagonal)[:, None]
    np.fill_diagonal(shares, diagonal)
    return shares


def _attributes(rng: np.random.Generator, industry: Float64, place: Int64) -> dict[str, Int64]:
    """Draw the categories of jobs: offices pay more than trade, and young workers earn less."""
    industry_of_job = draw_rows(rng, np.cumsum(industry, axis=1), place)
    pay = np.array([[0.12, 0.33, 0.55], [0.30, 0.45, 0.25], [0.27, 0.33, 0.40]])
    earnings = draw_rows(rng, np.cumsum(pay, axis=1), industry_of_job)
    age = np.array([[0.45, 0.37, 0.18], [0.24, 0.54, 0.22], [0.10, 0.63, 0.27]])
    return {
        "age": draw_rows(rng, np.cumsum(age, axis=1), earnings),
        "earnings": earnings,
        "industry": industry_of_job,
    }


def inside(rng: np.random.Generator, unit: Int64, weight: Float64, parent: Int64) -> Int64:
    """Draw a block of each unit by weight; blocks are sorted by their unit."""
    running = np.append(0.0, np.cumsum(weight))
    first = np.searchsorted(parent, np.arange(parent[-1] + 2))
    below, above = running[first[unit]], running[first[unit + 1]]
    block = np.searchsorted(running, below + rng.random(unit.size) * (above - below), side="right") - 1
    return np.clip(block, first[unit], first[unit + 1] - 1)


def _write_jobs(
    path: Path,
    home: NDArray[np.object_],
    work: NDArray[np.object_],
    attributes: dict[str, Int64],
    categories: dict[str, list[str]],
    **columns: Int64,
) -> None:
    named = {name: np.array(categories[name], object)[codes] for name, codes in attributes.items()}
    table = pd.DataFrame({"home": home, "work": work, **named, **columns})
    table.to_parquet(path, compression="zstd")
    path.chmod(0o600)


def _write_config(path: Path, more: str = "", **words: object) -> Path:
    usual = {"year": 2019, "out": "release", "jobs": "jobs", "epsilon": "4.6", "delta": "1e-5"}
    words = usual | words
    texts = {key: json.dumps(value) if isinstance(value, list) else value for key, value in words.items()}
    path.write_text(_CONFIG.format(**texts) + more, encoding="utf-8")
    return path
