"""Minnesota, simulated: invented blocks and workplaces in its public tracts, for comparing plans.

There is no public file of its blocks beside the project. Tracts, their population and tables of flows are the
public ones; blocks lie anywhere in their tract, and sizes of work blocks are lognormal. One tract in ten has
jobs, as many as the tables of flows tell, so that plans are tried in minutes; homes may be in all tracts and
in other states. Plans are made and compared without homes, so every job has its own work block for a home.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from geo_data.demo import draw_rows

DATA = Path(__file__).parent.parent.parent / "shared" / "data" / "mn_2018"
FLOWS, SURVEY, TRACTS = (
    DATA / f"mn_{name}.csv"
    for name in ("lodes2018_within_county_tract_flows", "acs2011_2015_county_flows", "tract_gazetteer_2010")
)
ONE_IN = 10  # tracts has jobs
BLOCKS = 194  # of a tract, in the mean, as in the census of 2010
WORK_SHARE, SIZE_SIGMA = 0.3, 1.9  # of blocks have jobs, and how these differ, as `odsynth simulate` has them
CONCENTRATION = {"age": 20.0, "earnings": 8.0, "industry": 1.0}  # of shares of categories in a work block
CATEGORIES = 3

CONFIG = f"""\
[release]
name = "Minnesota, simulated"
state = "mn"
year = 2018
out = "release"

[privacy]
protects = "home"
epsilon = "4.6"
delta = "1e-5"

[jobs]
format = "microdata"
file = "jobs.parquet"
home = "home"
work = "work"
attributes = ["age", "earnings", "industry"]

[geography]
file = "geography.parquet"
block = "block"
levels = ["st", "cty", "trct", "bgrp"]
latitude = "lat"
longitude = "lon"
external_zones = ["us-states"]

[[auxiliary]]
format = "flows"
file = "{SURVEY}"
origin = "h_county"
origin_level = "cty"
destination = "w_county"
destination_level = "cty"
flow = "flow"
margin = "moe"

[[auxiliary]]
format = "flows"
file = "{FLOWS}"
origin = "h_tract"
origin_level = "trct"
destination = "w_tract"
destination_level = "trct"
flow = "jobs"
same_jobs = true

[weights]
file = "{TRACTS}"
level = "trct"
area = "GEOID"
weight = "POP10"
"""


def simulate_minnesota(folder: Path) -> Path:
    """Write the files into an empty folder, and return the configuration."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    tracts = pd.read_csv(TRACTS, dtype={"GEOID": "str"}).sort_values("GEOID", ignore_index=True)
    tract = np.repeat(np.arange(len(tracts)), rng.poisson(BLOCKS, len(tracts)) + 1)
    number = np.arange(tract.size) - np.searchsorted(tract, tract)
    digits = pd.Series(1000 * (1 + number % 3) + number).astype("str")
    block = tracts["GEOID"].take(tract).reset_index(drop=True) + digits
    degrees = np.sqrt(tracts["ALAND"].to_numpy() / np.pi)[tract] / 111_000
    far, angle = degrees * np.sqrt(rng.random(tract.size)), 2 * np.pi * rng.random(tract.size)
    latitude = tracts["INTPTLAT"].to_numpy()[tract] + far * np.sin(angle)
    longitude = tracts["INTPTLONG"].to_numpy()[tract] + far * np.cos(angle) / np.cos(np.radians(latitude))
    lengths = {"st": 2, "cty": 5, "trct": 11, "bgrp": 12}
    levels = {name: block.str[:length] for name, length in lengths.items()}
    geography = pd.DataFrame({"block": block, **levels, "lat": latitude, "lon": longitude})
    geography.to_parquet(folder / "geography.parquet")

    jobs = jobs_of_tracts().reindex(tracts["GEOID"], fill_value=0.0).to_numpy()
    work = np.flatnonzero((rng.random(tract.size) < WORK_SHARE) & (jobs[tract] > 0))
    size = rng.lognormal(0, SIZE_SIGMA, work.size)
    share = size / np.bincount(tract[work], size)[tract[work]]
    of_block = np.maximum(1, np.rint(share * jobs[tract[work]])).astype(np.int64)
    place = np.repeat(np.arange(work.size), of_block)
    codes = block.to_numpy()[work[place]]
    attributes = {}
    for name, concentration in CONCENTRATION.items():
        shares = rng.dirichlet(np.full(CATEGORIES, concentration / CATEGORIES), work.size)
        attributes[name] = draw_rows(rng, np.cumsum(shares, axis=1), place).astype("str")
    path = folder / "jobs.parquet"
    pd.DataFrame({"home": codes, "work": codes, **attributes}).to_parquet(path)
    path.chmod(0o600)  # as a confidential file would be
    config = folder / "minnesota.toml"
    config.write_text(CONFIG, encoding="utf-8")
    return config


def jobs_of_tracts() -> pd.Series:
    """Return the jobs at one tract in so many: those of the table, and as many more as the survey tells."""
    flows = pd.read_csv(FLOWS, dtype={"h_tract": "str", "w_tract": "str"})
    survey = pd.read_csv(SURVEY, dtype={"h_county": "str", "w_county": "str"})
    inside = survey[survey["h_county"] == survey["w_county"]].set_index("w_county")["flow"]
    more = survey.groupby("w_county")["flow"].sum() / inside
    jobs = flows.groupby("w_tract")["jobs"].sum().iloc[::ONE_IN]
    return jobs * more.loc[jobs.index.str[:5]].to_numpy()
