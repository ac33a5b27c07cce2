"""Writing the demo region as files, in the formats of real data."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from geo_data.arguments import path_of
from geo_data.crosswalk import read_crosswalk
from geo_data.demo_region import (
    NEIGHBOURS,
    Commuters,
    Region,
    draw_commuters,
    draw_incommuters,
    draw_region,
    to_degrees,
)
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
    _write(region.crosswalk.assign(createdate=_CREATEDATE), paths["crosswalk"])
    _write_od(current, paths["crosswalk"], paths["od"])
    write_od_csv(_aux_table(region, incoming), paths["aux"], createdate=_CREATEDATE)
    _write(_county_flows(rng, region, before, earlier), paths["county_flows"])
    _write(_tract_flows(region, before), paths["tract_flows"])
    _write(_population(region), paths["population"])
    _shapes(region).to_file(paths["tracts"], driver="GeoJSON", COORDINATE_PRECISION=6)
    return paths


def _write(table: pd.DataFrame, path: Path) -> None:
    data = table.to_csv(index=False, lineterminator="\n").encode()
    # Not pandas' own compression: it would put the time and the file's name into the bytes.
    path.write_bytes(gzip.compress(data, 6, mtime=0) if path.suffix == ".gz" else data)


def _write_od(commuters: Commuters, crosswalk: Path, path: Path) -> None:
    geography = read_crosswalk(
        crosswalk,
        block="tabblk2010",
        levels=("st", "cty", "trct", "bgrp"),
        latitude="blklatdd",
        longitude="blklondd",
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


def _shapes(region: Region) -> gpd.GeoDataFrame:
    """Return the tracts as what lies nearest to their blocks, on an island a little larger than these."""
    points = shapely.points(region.x, region.y)
    sea = shapely.points([[-1e3, -1e3], [-1e3, 1e3], [1e3, -1e3], [1e3, 1e3]])  # one block alone has no cell
    cells = shapely.get_parts(shapely.voronoi_polygons(shapely.multipoints([*points, *sea])))
    cell, block = shapely.STRtree(points).query(cells, predicate="contains")
    tract = np.asarray(region.tract)[block]
    island = shapely.union_all(shapely.buffer(points, 2 * _BEACH_KM)).buffer(-_BEACH_KM)
    tracts = [shapely.union_all(cells[cell[tract == t]]) & island for t in range(len(region.tract_x))]
    code = region.crosswalk["trct"].groupby(region.tract).first()
    return gpd.GeoDataFrame({"GEOID": code}, geometry=shapely.transform(tracts, to_degrees), crs="EPSG:4326")
