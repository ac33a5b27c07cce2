"""The generated demo region: an island that does not exist, its commuters, and files as of real data.

Everything here is public: seeded code that anyone can run again. The "confidential" jobs of the demo are
confidential by declaration, so that the pipeline can be tried without data that deserve protection.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import geopandas as gpd
import numpy as np
import numpy.typing as npt
import pandas as pd
import shapely

from geo_data.arguments import path_of
from geo_data.crosswalk import read_crosswalk
from geo_data.errors import InputError
from geo_data.od_files import LODES_CATEGORIES, od_rows, write_od_csv

_CREATEDATE = "20211018"
_SURVEY_SHARE = 0.1  # share of workers that the generated survey asks
_Z90 = 1.645  # margins of error of the American Community Survey are at 90 %
_PEOPLE_PER_HOUSING_UNIT = 2.4
_BEACH_KM = 1.0  # land around the blocks by the sea


def write_demo_region(
    folder: str | os.PathLike[str],
    *,
    counties: int = 4,
    tracts: int = 60,
    blocks: int = 4000,
    jobs: int = 60_000,
    seed: int = 2019,
) -> dict[str, Path]:
    """Generate a region and write it as LODES, survey and population files.

    Parameters
    ----------
    folder : str or path
        Created if absent. Files of the same names are replaced.
    counties, tracts, blocks, jobs : int
        Sizes; ``1 <= counties <= tracts <= blocks``, ``jobs >= 1``. Jobs are those of people who live in the
        region; people who live in two other states have one for every 12 of them.
    seed : int
        Seed of the generator, not negative. Equal arguments give equal bytes.

    Returns
    -------
    dict of str to Path
        ``"crosswalk"``      demo_xwalk.csv.gz: LODES crosswalk, 2010 blocks, state code 03.
        ``"od"``             demo_od_main_JT00_2019.csv.gz: jobs of residents, exactly in LODES form.
        ``"aux"``            demo_od_aux_JT00_2019.csv.gz: jobs of people from states 07 and 14, in the same.
        ``"county_flows"``   demo_acs_county_flows.csv: h_county, w_county, flow, moe; from other states, too.
        ``"tract_flows"``    demo_lodes2018_tract_flows.csv: h_tract, w_tract, jobs; within one county.
        ``"population"``     demo_population.csv: GEOID, POP10, HU10, INTPTLAT, INTPTLONG by tract.
        ``"tracts"``         demo_tracts.geojson: GEOID and shape of each tract.

    Raises
    ------
    ValueError
        If the sizes are not possible.

    Notes
    -----
    The flow tables do not derive from the records of the OD file, as no auxiliary table may: they describe
    an older generation of workers, drawn independently with the same structure, perturbed. The county table
    is a 10 % survey of it, scaled up, with a margin of error; the tract table counts it, for pairs inside one
    county only, as in the real files.
    """
    folder = path_of(folder, "folder")
    rng = np.random.default_rng(seed)
    region = draw_region(rng, counties=counties, tracts=tracts, blocks=blocks, jobs=jobs)
    current, before = draw_commuters(rng, region, jobs=jobs)
    # Each from a generator of its own: the other files do not depend on who comes from elsewhere.
    incoming, earlier = (
        draw_incommuters(np.random.default_rng([seed, i]), region, year)
        for i, year in enumerate((current, before))
    )
    folder.mkdir(parents=True, exist_ok=True)
    names = {
        "crosswalk": "demo_xwalk.csv.gz",
        "od": "demo_od_main_JT00_2019.csv.gz",
        "aux": "demo_od_aux_JT00_2019.csv.gz",
        "county_flows": "demo_acs_county_flows.csv",
        "tract_flows": "demo_lodes2018_tract_flows.csv",
        "population": "demo_population.csv",
        "tracts": "demo_tracts.geojson",
    }
    paths = {kind: folder / name for kind, name in names.items()}
    write_csv(region.crosswalk.assign(createdate=_CREATEDATE), paths["crosswalk"])
    _write_od(current, paths["crosswalk"], paths["od"])
    write_od_csv(_aux_table(region, incoming), paths["aux"], createdate=_CREATEDATE)
    write_csv(_county_flows(rng, region, before, earlier), paths["county_flows"])
    write_csv(_tract_flows(region, before), paths["tract_flows"])
    write_csv(_population(region), paths["population"])
    of_block = region.crosswalk["trct"]
    write_shapes(region.x, region.y, region.tract, of_block, paths["tracts"], beach_km=_BEACH_KM)
    return paths


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV, compressed where the path ends so: equal tables give equal bytes."""
    data = table.to_csv(index=False, lineterminator="\n").encode()
    # Not pandas' own compression: it would put the time and the file's name into the bytes.
    path.write_bytes(gzip.compress(data, 6, mtime=0) if path.suffix == ".gz" else data)


def _write_od(commuters: Commuters, crosswalk: Path, path: Path) -> None:
    geography = read_crosswalk(
        crosswalk,
        block="tabblk2010",
        levels=("st", "cty", "trct", "bgrp"),
        centroid=("blklatdd", "blklondd"),
    )
    # The region's blocks are in code order, which is the order of the geography.
    table = od_rows(geography, commuters.work, commuters.home, commuters.attributes, LODES_CATEGORIES)
    write_od_csv(table, path, createdate=_CREATEDATE)


def _aux_table(region: Region, incoming: Commuters) -> pd.DataFrame:
    """Return the jobs of people from other states as an OD table; their blocks are invented, too."""
    blocks = region.crosswalk["tabblk2010"].to_numpy(dtype=object)
    number = np.arange(len(incoming.work)) * 37 % 1_000  # spreads them over 20 tracts of 50 blocks
    home = [
        f"{NEIGHBOURS[state]}001{100 * (n // 50 + 1):06}{1001 + n % 50}"
        for state, n in zip(incoming.home.tolist(), number.tolist(), strict=True)
    ]
    table = pd.DataFrame({"w_geocode": blocks[incoming.work], "h_geocode": home}, dtype="str").assign(S000=1)
    for group, names in LODES_CATEGORIES.items():
        for code, name in enumerate(names):
            table[name] = (incoming.attributes[group] == code).astype(np.int64)
    return table.groupby(["w_geocode", "h_geocode"], as_index=False).sum()


def _pairs(region: Region, commuters: Commuters, level: str, columns: tuple[str, str]) -> pd.DataFrame:
    codes = region.crosswalk[level].to_numpy(dtype=object)
    return _count(codes[commuters.home], codes[commuters.work], columns)


def _count(home: np.ndarray, work: np.ndarray, columns: tuple[str, str]) -> pd.DataFrame:
    frame = pd.DataFrame({columns[0]: home, columns[1]: work}, dtype="str")
    return frame.value_counts(sort=False).rename("n").reset_index().sort_values([*columns], ignore_index=True)


def _county_flows(
    rng: np.random.Generator, region: Region, before: Commuters, earlier: Commuters
) -> pd.DataFrame:
    sampled = rng.random(len(before.home)) < _SURVEY_SHARE
    if not sampled.any():
        sampled[0] = True  # a table needs a row, also for the smallest region
    county = region.crosswalk["cty"].to_numpy(dtype=object)
    elsewhere = np.array([f"{state}001" for state in NEIGHBOURS], dtype=object)
    sampled_outside = rng.random(len(earlier.home)) < _SURVEY_SHARE
    home = np.concatenate([county[before.home[sampled]], elsewhere[earlier.home[sampled_outside]]])
    work = np.concatenate([county[before.work[sampled]], county[earlier.work[sampled_outside]]])
    table = _count(home, work, ("h_county", "w_county"))
    answers = table.pop("n")
    table["flow"] = np.rint(answers / _SURVEY_SHARE).astype(np.int64)
    # The variance of a count drawn with probability p is n p (1 - p).
    deviation = np.sqrt(answers * (1 - _SURVEY_SHARE)) / _SURVEY_SHARE
    table["moe"] = np.rint(_Z90 * deviation).astype(np.int64)
    return table


def _tract_flows(region: Region, before: Commuters) -> pd.DataFrame:
    county = region.crosswalk["cty"].to_numpy(dtype=object)
    inside = county[before.home] == county[before.work]
    if not inside.any():
        inside[:] = True
    table = _pairs(
        region, Commuters(before.work[inside], before.home[inside], {}), "trct", ("h_tract", "w_tract")
    )
    return table.rename(columns={"n": "jobs"})


def _population(region: Region) -> pd.DataFrame:
    frame = region.crosswalk[["trct"]].assign(
        population=region.population,
        latitude=region.crosswalk["blklatdd"].astype(np.float64),
        longitude=region.crosswalk["blklondd"].astype(np.float64),
    )
    tracts = frame.groupby("trct", as_index=False).agg(
        {"population": "sum", "latitude": "mean", "longitude": "mean"}
    )
    return pd.DataFrame(
        {
            "GEOID": tracts["trct"],
            "POP10": tracts["population"],
            "HU10": np.rint(tracts["population"] / _PEOPLE_PER_HOUSING_UNIT).astype(np.int64),
            "INTPTLAT": tracts["latitude"].round(7),
            "INTPTLONG": tracts["longitude"].round(7),
        }
    )


def write_shapes(x: Floats, y: Floats, unit: Ints, codes: pd.Series, path: Path, *, beach_km: float) -> None:
    """Write units as what lies nearest to their points, on an island a little larger than these.

    Of each point its unit, sorted, and the unit's code.
    """
    points = shapely.points(x, y)
    sea = shapely.points([[-1e3, -1e3], [-1e3, 1e3], [1e3, -1e3], [1e3, 1e3]])  # one point alone has no cell
    cells = shapely.get_parts(shapely.voronoi_polygons(shapely.multipoints([*points, *sea])))
    cell, point = shapely.STRtree(points).query(cells, predicate="contains")
    of_point = np.asarray(unit)[point]
    island = shapely.union_all(shapely.buffer(points, 2 * beach_km)).buffer(-beach_km)
    units = [shapely.union_all(cells[cell[of_point == u]]) & island for u in range(int(unit[-1]) + 1)]
    geometry = shapely.transform(units, to_degrees)
    shapes = gpd.GeoDataFrame({"GEOID": codes.groupby(unit).first()}, geometry=geometry, crs="EPSG:4326")
    shapes.to_file(path, driver="GeoJSON", COORDINATE_PRECISION=6)


NEIGHBOURS = ("07", "14")
"""Two other states, west and east across the water; their codes are of no state either."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_STATE = "03"  # a FIPS code that no state has, and that loses its zero when read as a number
_LATITUDE, _LONGITUDE = 40.0, -40.0  # open sea
_KM_PER_DEGREE = 111.2
_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
_MAX_BLOCKS_PER_TRACT = 9 * 999  # block codes have four digits, the first of which is the block group

# Share of blocks without residents (water, parks, business parks) and with jobs; a third, as in Rhode Island.
_EMPTY_SHARE = 0.3
_WORK_SHARE = 1 / 3
_MAX_WORK_SHARE_OF_JOBS = 0.2  # at least 5 jobs per work block on average
# Job counts per work block: lognormal of this sigma has a mean of six times its median.
_SIZE_SIGMA = 1.9
# Commuting falls off as exp(-km / scale), by earnings class: better paid jobs draw from further away.
_SCALES_KM = np.array([5.0, 7.0, 11.0])
_PAIR_SIGMA = 0.7  # how far (work block, home tract) pairs stray from gravity
_NEIGHBOURS_KM = np.array([-45.0, 40.0])  # where their ferries leave, east of the region's centre
_RESIDENTS_PER_INCOMMUTER = 12


@dataclass(frozen=True, eq=False)
class Region:
    """The places of the demo region; positions in kilometres east and north of its centre."""

    # one row per block with the columns of a LODES crosswalk, sorted by block code, all text
    crosswalk: pd.DataFrame
    tract: Ints  # tract number of each block; shape (B,)
    # block centroids; shape (B,)
    x: Floats
    y: Floats
    # tract centres; shape (T,)
    tract_x: Floats
    tract_y: Floats
    population: Ints  # residents; 0 in water, parks and business parks; shape (B,)


@dataclass(frozen=True, eq=False)
class Commuters:
    """Workers of one year, one row per job."""

    # block numbers; of people who live in other states, `home` is the state; shape (N,)
    work: Ints
    home: Ints
    attributes: dict[str, Ints]  # ``"SA"``, ``"SE"``, ``"SI"``: codes 0, 1, 2; shape (N,) each


def draw_region(rng: np.random.Generator, *, counties: int, tracts: int, blocks: int, jobs: int) -> Region:
    """Draw the places of the region.

    ``1 <= counties <= tracts <= blocks``, at most 500 counties, and few enough blocks per tract for four-
    digit block codes; else a ValueError. Its population is about twice its jobs.
    """
    if not 1 <= counties <= tracts <= blocks or counties > 500 or jobs < 1:
        raise ValueError(
            "sizes must satisfy 1 <= counties <= tracts <= blocks, counties <= 500 and jobs >= 1"
        )
    # The central county comes first and has the most tracts; the others lie around it.
    county = np.sort(_spread(tracts, 1.0 / np.sqrt(np.arange(1, counties + 1))))
    in_county = _rank(county)
    of_county = np.bincount(county)[county]
    angle = 2 * np.pi * county / max(counties - 1, 1)
    ring = np.where(county == 0, 0.0, 18.0 + 3.0 * np.sqrt(counties))
    # Sunflower layout of tracts around the county seat, close together near it.
    reach = np.where(county == 0, 9.0, 8.0) * ((in_county + 0.5) / of_county) ** 0.8
    tract_x = ring * np.cos(angle) + reach * np.cos(_GOLDEN_ANGLE * in_county) + rng.normal(0, 0.3, tracts)
    tract_y = ring * np.sin(angle) + reach * np.sin(_GOLDEN_ANGLE * in_county) + rng.normal(0, 0.3, tracts)

    tract = np.sort(_spread(blocks, rng.uniform(0.6, 1.4, tracts)))
    if np.bincount(tract).max() > _MAX_BLOCKS_PER_TRACT:
        raise ValueError(f"a tract has more than {_MAX_BLOCKS_PER_TRACT:,} blocks: ask for more tracts")
    in_tract = _rank(tract)
    of_tract = np.bincount(tract)[tract]
    # Tracts hold about as many people each, so they are small where people are many.
    radius = (0.6 + 0.18 * reach)[tract] * np.sqrt((in_tract + 0.5) / of_tract)
    turn = _GOLDEN_ANGLE * in_tract + rng.uniform(0, 2 * np.pi, tracts)[tract]
    x = tract_x[tract] + radius * np.cos(turn) + rng.normal(0, 0.05, blocks)
    y = tract_y[tract] + radius * np.sin(turn) + rng.normal(0, 0.05, blocks)

    # Some tracts are far fuller than others, and within a tract a few blocks hold most people.
    weight = rng.lognormal(0, 0.4, tracts)[tract] * rng.lognormal(0, 0.9, blocks)
    weight[rng.random(blocks) < _EMPTY_SHARE] = 0.0
    if not weight.any():
        weight[0] = 1.0
    population = rng.multinomial(2 * jobs, weight / weight.sum())
    crosswalk = _crosswalk(county, tract, in_tract, of_tract, x, y)
    return Region(crosswalk, tract, x, y, tract_x, tract_y, population.astype(np.int64))


def draw_commuters(rng: np.random.Generator, region: Region, *, jobs: int) -> tuple[Commuters, Commuters]:
    """Draw the jobs of the region in its year, and an older generation of jobs for surveys to look at.

    The two share structure (places, the sizes of workplaces up to noise, who is drawn to where up to noise)
    and no worker: the older one is drawn independently, so a table of it tells nothing about any record.

    The older generation has 4 % fewer jobs.
    """
    n_blocks, n_tracts = len(region.tract), len(region.tract_x)
    n_work = max(1, min(int(n_blocks * _WORK_SHARE), int(jobs * _MAX_WORK_SHARE_OF_JOBS)))
    centre = np.hypot(region.x, region.y)
    work_blocks = np.sort(rng.choice(n_blocks, n_work, replace=False, p=_share(0.25 + np.exp(-centre / 6.0))))
    size = rng.lognormal(0, _SIZE_SIGMA, n_work) * (0.6 + np.exp(-centre[work_blocks] / 4.0))
    industry = rng.dirichlet([0.35, 0.4, 1.1], n_work)
    pair = rng.normal(0, _PAIR_SIGMA, (n_work, n_tracts))
    current = draw_year(rng, region, work_blocks, size, industry, pair, jobs=jobs)
    before = draw_year(
        rng,
        region,
        work_blocks,
        size * rng.lognormal(0, 0.25, n_work),
        industry,
        # The same variance as `pair`, correlated 0.8 with it: places keep most of their ties over some years.
        0.8 * pair + 0.6 * rng.normal(0, _PAIR_SIGMA, (n_work, n_tracts)),
        jobs=max(1, round(0.96 * jobs)),
    )
    return current, before


def draw_year(
    rng: np.random.Generator,
    region: Region,
    work_blocks: Ints,
    size: Floats,
    industry: Floats,
    pair: Floats,
    *,
    jobs: int,
) -> Commuters:
    """Draw the jobs of one year.

    Of K work blocks, sorted: relative sizes > 0, industry shares (K, 3), and the logarithm of how much more
    each of T home tracts is drawn to each than gravity says (K, T). Every workplace has a job as long as
    there are enough. Sorted by work block.
    """
    n_work = len(work_blocks)
    counts = rng.multinomial(max(jobs - n_work, 0), _share(size)) + (np.arange(n_work) < jobs)
    place = np.repeat(np.arange(n_work), counts)
    si = draw_rows(rng, np.cumsum(industry, axis=1), place)
    # Goods and services in offices pay more than trade; young workers earn less.
    pay = np.array([[0.12, 0.33, 0.55], [0.30, 0.45, 0.25], [0.27, 0.33, 0.40]])
    se = draw_rows(rng, np.cumsum(pay, axis=1), si)
    age = np.array([[0.45, 0.37, 0.18], [0.24, 0.54, 0.22], [0.10, 0.63, 0.27]])
    sa = draw_rows(rng, np.cumsum(age, axis=1), se)

    tract_population = np.bincount(region.tract, weights=region.population, minlength=len(region.tract_x))
    distance = np.hypot(
        region.x[work_blocks, None] - region.tract_x, region.y[work_blocks, None] - region.tract_y
    )
    home_tract = np.empty(len(place), dtype=np.int64)
    for earnings, scale in enumerate(_SCALES_KM):
        in_industry = np.flatnonzero(se == earnings)
        gravity = tract_population * np.exp(pair - distance / scale)
        home_tract[in_industry] = draw_rows(rng, np.cumsum(gravity, axis=1), place[in_industry])
    # Inside the tract a home is drawn by population: positions in one running sum over all blocks.
    running = np.cumsum(region.population)
    before_tract = np.r_[0, np.cumsum(tract_population)].astype(np.int64)
    person = before_tract[home_tract] + rng.integers(0, tract_population[home_tract].astype(np.int64))
    home = np.searchsorted(running, person, side="right")
    return Commuters(work_blocks[place], home.astype(np.int64), {"SA": sa, "SE": se, "SI": si})


def draw_incommuters(rng: np.random.Generator, region: Region, commuters: Commuters) -> Commuters:
    """Draw jobs of people who live in other states, beside those of a year's residents.

    A job for every 12 of residents, at least one; where there are more jobs, more are held by people from
    elsewhere. Homes are positions in `NEIGHBOURS`.
    """
    like = rng.integers(0, len(commuters.work), max(1, len(commuters.work) // _RESIDENTS_PER_INCOMMUTER))
    work = commuters.work[like]
    pull = np.exp(-np.abs(region.x[work, None] - _NEIGHBOURS_KM) / _SCALES_KM[-1])
    home = draw_rows(rng, np.cumsum(pull, axis=1), np.arange(len(work)))
    return Commuters(work, home, {name: codes[like] for name, codes in commuters.attributes.items()})


def empty_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder that is made if it is not there, and refused if anything is in it."""
    folder = path_of(folder, "folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(folder, "the folder is not empty", fix="name another folder, or empty it")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def to_degrees(kilometres: Floats) -> Floats:
    """Return positions in the region, kilometres east and north, as longitude and latitude; shape (n, 2)."""
    per_degree = _KM_PER_DEGREE * np.array([np.cos(np.radians(_LATITUDE)), 1.0])
    return np.array([_LONGITUDE, _LATITUDE]) + kilometres / per_degree


def draw_rows(rng: np.random.Generator, cumulative: Floats, rows: Ints) -> Ints:
    """Draw one column per entry of `rows`, by the row's cumulative weights."""
    scaled = cumulative / cumulative[:, -1:]
    # Rows laid end to end make one increasing array: row r spans (r, r + 1].
    flat = (scaled + np.arange(len(scaled))[:, None]).ravel()
    width = cumulative.shape[1]
    drawn = np.searchsorted(flat, rows + rng.random(len(rows)), side="right") - rows * width
    return np.minimum(drawn, width - 1).astype(np.int64)  # rounding may step past the last column


def _share(weight: Floats) -> Floats:
    return weight / weight.sum()


def _spread(total: int, weight: Floats) -> Ints:
    """Return `total` labels 0..len(weight)-1 in about the proportions of `weight`, each at least once."""
    n = len(weight)
    edges = np.cumsum(_share(weight)) * (total - n)
    counts = np.diff(np.rint(edges), prepend=0.0).astype(np.int64) + 1
    return np.repeat(np.arange(n), counts)


def _rank(labels: Ints) -> Ints:
    """Return the position of each entry within its run of equal labels (sorted)."""
    return np.arange(len(labels)) - np.searchsorted(labels, labels)


def _crosswalk(
    county: Ints, tract: Ints, in_tract: Ints, of_tract: Ints, x: Floats, y: Floats
) -> pd.DataFrame:
    # Odd county codes and tract codes in steps of 100, as the Census Bureau numbers them.
    county_code = [f"{_STATE}{2 * number + 1:03d}" for number in range(county[-1] + 1)]
    tract_code = [f"{county_code[c]}{100 * (n + 1):06d}" for c, n in zip(county, _rank(county), strict=True)]
    county_name = ["Centre County", *(f"Shore County {number}" for number in range(1, county[-1] + 1))]
    # One to four block groups, more where a group would have more blocks than three digits can number.
    groups = np.clip(of_tract // 20, 1, 4)
    groups = np.maximum(groups, -(-of_tract // 999))
    group = in_tract * groups // of_tract
    in_group = in_tract - -(-group * of_tract // groups)
    tract_of_block = np.array(tract_code, dtype=object)[tract]
    suffix = [f"{g + 1}{b + 1:03d}" for g, b in zip(group.tolist(), in_group.tolist(), strict=True)]
    frame = pd.DataFrame({"trct": tract_of_block, "suffix": suffix}, dtype="str")
    county_of_block = county[tract]
    names = np.array([f"{name}, DM" for name in county_name], dtype=object)[county_of_block]
    block_group = frame["suffix"].str[:1]
    tract_number = (_rank(county)[tract] + 1).astype(str)
    degrees = to_degrees(np.column_stack([x, y]))
    return pd.DataFrame(
        {
            "tabblk2010": frame["trct"] + frame["suffix"],
            "st": _STATE,
            "stusps": "DM",
            "stname": "Demo State",
            "cty": np.array(county_code, dtype=object)[county_of_block],
            "ctyname": names,
            "trct": frame["trct"],
            "trctname": pd.Series(tract_number, dtype="str") + " (" + pd.Series(names, dtype="str") + ")",
            "bgrp": frame["trct"] + block_group,
            "bgrpname": block_group + " (Tract " + pd.Series(tract_number, dtype="str") + ")",
            "blklatdd": [f"{value:.7f}" for value in degrees[:, 1]],
            "blklondd": [f"{value:.7f}" for value in degrees[:, 0]],
        }
    )
