"""Make the small releases that later versions have to verify, with the version of the program that runs this.

    python tests/golden/make.py tests/golden/v0.1.0

Run from a clean checkout of the version in question, for a release of modified code is not for
release, and never changed afterwards. The inputs are invented here.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import geo_data
import pipelines

CODES = {"w_geocode": "str", "h_geocode": "str", "createdate": "str"}

COMMON = """
[release]
name = "{name}"
state = "demo"
year = 2019
job_type = "JT00"
out = "{out}"
{release}

[privacy]
epsilon = "{epsilon}"
delta = "{delta}"
{privacy}

[jobs]
{jobs}

[geography]
file = "xwalk.csv"
block = "tabblk2010"
levels = ["st", "cty", "trct", "bgrp"]
latitude = "blklatdd"
longitude = "blklondd"
{geography}

[[auxiliary]]
format = "flows"
file = "demo_lodes2018_tract_flows.csv"
origin = "h_tract"
origin_level = "trct"
destination = "w_tract"
destination_level = "trct"
flow = "jobs"
{auxiliary}

[weights]
file = "demo_population.csv"
level = "trct"
area = "GEOID"
weight = "POP10"

[plan]
split_threshold = "2"
pool_below = 8
{plan}
{more}
"""

LODES = 'format = "lodes"\nfile = "demo_od_main_JT00_2019.csv.gz"'
SPLIT = 'format = "lodes"\nfile = "main.csv"\naux = "aux.csv"'
MICRODATA = """format = "microdata"
file = "jobs.csv"
home = "live"
work = "toil"
worker = "person"
attributes = ["sector", "age"]
records_per_worker = 3"""
TRACTS = '[[geography.polygons]]\nlevel = "trct"\nfile = "demo_tracts.geojson"\ncode = "GEOID"'
SIGNATURE = '[signature]\nkey = "keys/signing-key.pem"'
PLACES = '\n[[auxiliary]]\nformat = "ctpp"\nfile = "places.csv"\nlevels = { C45 = "stplc" }'

RELEASES = {
    "dirichlet-signed": {
        "jobs": LODES,
        "geography": TRACTS,
        "plan": 'retention_min = "0.5"',
        "more": SIGNATURE,
    },
    "dirichlet-external": {"jobs": SPLIT, "geography": 'outside = ["09", "25"]', "epsilon": "4.6"},
    "dirichlet-microdata-implicates": {
        "jobs": MICRODATA,
        "release": 'implicates = 2\nimplicate_source = "one-urn"',
        "privacy": 'guarantee = "dp"',
        "plan": 'pool_by = ["age"]\nretention_min = "0.25"',
    },
    "dirichlet-parquet-only": {
        "jobs": MICRODATA,
        "release": "csv = false",
        "geography": 'partitions = ["stplc"]\nnames = {}',
        "auxiliary": PLACES,
        "more": "[run]\nbatch_jobs = 200",
    },
    "geometric-external-signed": {
        "jobs": SPLIT,
        "release": 'mechanism = "geometric"',
        "delta": "0",
        "epsilon": "2",
        "geography": 'outside = ["09", "25"]\n' + TRACTS,
        "more": SIGNATURE,
    },
    "geometric-microdata-implicates": {
        "jobs": MICRODATA,
        "release": 'mechanism = "geometric"\nimplicates = 2',
        "delta": "0",
        "plan": 'pool_by = ["sector", "age"]',
    },
}


def write_inputs(folder: Path) -> None:
    """Write a region of 120 blocks and 600 jobs in every form that the releases read."""
    paths = geo_data.write_demo_region(folder, counties=2, tracts=6, blocks=120, jobs=600)
    crosswalk = pd.read_csv(paths["crosswalk"], dtype="str")
    strip = pd.qcut(crosswalk["blklatdd"].astype(float), 3, labels=False)
    crosswalk["stplc"] = np.array(["0311000", "0312000", "9999999"])[strip]
    crosswalk.to_csv(folder / "xwalk.csv", index=False)
    rows = [
        f"C4500US031{i}000031{j}000,A302100,1,{90 if i == j else 30},+/-50" for i in (1, 2) for j in (1, 2)
    ]
    (folder / "places.csv").write_text("\n".join(["GEOID,TBLID,LINENO,EST,MOE", *rows, ""]))

    jobs = pd.read_csv(paths["od"], dtype=CODES)
    moved = np.arange(len(jobs)) % 5 == 0
    aux = jobs[moved].copy()
    aux["h_geocode"] = np.where(np.arange(len(aux)) % 3, "25", "09") + aux["h_geocode"].str[2:]
    jobs[~moved].to_csv(folder / "main.csv", index=False)
    aux.to_csv(folder / "aux.csv", index=False)

    one = jobs.loc[jobs.index.repeat(jobs["S000"])].reset_index(drop=True)
    row = np.arange(len(one))
    microdata = pd.DataFrame(
        {
            "live": one["h_geocode"],
            "toil": one["w_geocode"],
            "age": np.array(["young", "middle", "old"])[row * 7 % 3],
            "sector": np.array(["office", "field"])[row // 5 % 2],
            "person": [f"worker{i // 2:05}" for i in row],
        }
    )
    microdata.to_csv(folder / "jobs.csv", index=False)


def main(target: Path) -> None:
    """Make every release into a folder that is not there yet."""
    target.mkdir(parents=True)
    os.umask(0o027)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_inputs(folder)
        _, public_key = pipelines.generate_keys(folder / "keys")
        for name, parts in RELEASES.items():
            empty = dict.fromkeys(("release", "privacy", "geography", "auxiliary", "plan", "more"), "")
            values = {"epsilon": "8.6", "delta": "1e-5", **empty, **parts, "name": name, "out": name}
            release = pipelines.run(pipelines.parse_config(COMMON.format(**values), folder, f"{name}.toml"))
            shutil.copytree(release.public, target / name)
        shutil.copyfile(public_key, target / public_key.name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
