"""General synthesizers on the same table as odsynth: time, memory, and distance from the true flows.

Usage: python benchmarks/comparison.py --python ENVIRONMENT/bin/python [--page docs/benchmarks.md]

The tools need an environment of their own (they want other versions of what this project uses):

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install mbi==2.0.0 sdv==2.0.0 torch==2.13.0 pyarrow

The table has a row for each of Rhode Island's 476,789 jobs of 2019: home, work, age, earnings and industry,
where home and work are census tracts (at which a general tool is at home) or census blocks (what is
published); a home in another state is that state. Every tool is a process of its own with a limit of time and
memory; odsynth has the same limits and gets the same table, and mbi the same epsilon and delta. Distances are
between tracts, half the L1 distance of two tables as shares, as in pipelines/utility.py.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import pandas as pd
from processes import Usage, measured
from report import fill, seconds, table

from pipelines.planning.utility import count_variation

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "shared" / "data" / "ri_2019"
RESULTS = HERE.parent / "out" / "benchmarks" / "comparison.json"
COMMAND = "python benchmarks/comparison.py"
EPSILON, DELTA = "8.6", "1e-5"
MINUTES, GIGABYTES = 10.0, 16.0
DIGITS = {"tract": 11, "block": 15}
ATTRIBUTES = {"age": "SA", "earnings": "SE", "industry": "SI"}
TOOLS = {
    "odsynth": "odsynth",
    "mbi_flows": "mbi 2.0.0, Gaussian noise on the flows",
    "sdv": "SDV 2.0.0, Gaussian copula (no privacy)",
}
CONFIG = """
[release]
name = "Rhode Island 2019"
state = "ri"
year = 2019
job_type = "JT00"
out = "release"
mechanism = "dirichlet"

[privacy]
epsilon = "{epsilon}"
delta = "{delta}"

[jobs]
format = "microdata"
file = "{folder}/coded.parquet"
home = "home"
work = "work"
attributes = ["age", "earnings", "industry"]

[geography]
file = "{folder}/crosswalk.csv"
block = "{block}"
levels = {levels}
latitude = "blklatdd"
longitude = "blklondd"
external_zones = ["us-states"]

[[auxiliary]]
format = "flows"
file = "{data}/ri_acs2011_2015_county_flows.csv"
origin = "h_county"
origin_level = "cty"
destination = "w_county"
destination_level = "cty"
flow = "flow"
margin = "moe"

[[auxiliary]]
format = "flows"
file = "{data}/ri_lodes2018_within_county_tract_flows.csv"
origin = "h_tract"
origin_level = "trct"
destination = "w_tract"
destination_level = "trct"
flow = "jobs"
same_jobs = true

[weights]
file = "{data}/ri_tract_gazetteer_2010.csv"
level = "trct"
area = "GEOID"
weight = "POP10"

[run]
world_readable = true
"""


@click.command()
@click.option("--python", default=sys.executable, help="Python of the environment that has the tools.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
@click.option("--only", multiple=True, help="TOOL or TOOL/LEVEL; the others keep what was measured before.")
def main(python: str, page: Path | None, only: tuple[str, ...]) -> None:
    """Measure, print and store."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for level in DIGITS:
        with tempfile.TemporaryDirectory() as name:
            folder, truth = Path(name), jobs(level)
            prepare(folder, level, truth)
            for tool in TOOLS:
                if not only or {tool, f"{tool}/{level}"} & set(only):
                    results[f"{tool}/{level}"] = row(tool, level, folder, truth, python)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1), encoding="utf-8")
    text = table(
        [
            "tool",
            "home and work",
            "load before",
            "time",
            "peak memory",
            "flows",
            "homes by earnings",
            "work by earnings",
        ],
        [results[key] for key in keys() if key in results],
    )
    print(text)
    if page is not None:
        fill(page, COMMAND, text)


def keys() -> Iterator[str]:
    """Yield tool and level of every row."""
    for level in DIGITS:
        yield from (f"{tool}/{level}" for tool in TOOLS)


def jobs(level: str) -> pd.DataFrame:
    """Return a row a job; attributes of a pair's jobs, where it has more than one, are matched in order."""
    files = [DATA / f"ri_od_{part}_JT00_2019.csv.gz" for part in ("main", "aux")]
    main, aux = (pd.read_csv(file, dtype={"w_geocode": "str", "h_geocode": "str"}) for file in files)
    # As odsynth releases it: the code of an external zone is the state's, filled up with 9s.
    aux = aux.assign(h_geocode=aux["h_geocode"].str[:2].str.ljust(DIGITS["block"], "9"))
    rows = pd.concat([main, aux], ignore_index=True)
    codes = {"home": rows["h_geocode"], "work": rows["w_geocode"]}
    found = {
        name: code.str[: DIGITS[level]].astype("int64").repeat(rows["S000"]).to_numpy()
        for name, code in codes.items()
    }
    for name, group in ATTRIBUTES.items():
        counts = rows[[f"{group}0{i}" for i in (1, 2, 3)]].to_numpy()
        found[name] = np.repeat(np.tile([1, 2, 3], len(rows)), counts.ravel())
    return pd.DataFrame(found)


def prepare(folder: Path, level: str, truth: pd.DataFrame) -> None:
    """Write the table, and for odsynth its geography and configuration."""
    truth.to_parquet(folder / "table.parquet", index=False)
    coded = truth.astype("str")
    for side in ("home", "work"):
        coded[side] = coded[side].str.zfill(DIGITS[level])
    coded.to_parquet(folder / "coded.parquet", index=False)
    blocks = pd.read_csv(DATA / "ri_xwalk.csv.gz", dtype={"tabblk2010": "str"})
    code = blocks["tabblk2010"]
    blocks = blocks.assign(st=code.str[:2], cty=code.str[:5], trct=code.str[:11], bgrp=code.str[:12])
    levels = ["st", "cty", "trct", "bgrp"]
    block = "tabblk2010"
    if level == "tract":
        levels, block = ["st", "cty"], "trct"
        blocks = blocks.groupby(["trct", *levels], as_index=False)[["blklatdd", "blklondd"]].mean()
    blocks[[block, *levels, "blklatdd", "blklondd"]].to_csv(folder / "crosswalk.csv", index=False)
    text = CONFIG.format(
        epsilon=EPSILON, delta=DELTA, folder=folder, data=DATA, block=block, levels=json.dumps(levels)
    )
    (folder / "release.toml").write_text(text, encoding="utf-8")


def row(tool: str, level: str, folder: Path, truth: pd.DataFrame, python: str) -> list[str]:
    """Run a tool within the limits and return its row."""
    synthetic, release = folder / f"{tool}.parquet", folder / "release"
    if tool == "odsynth":
        command = [sys.executable, "-m", "pipelines.cli", "run", str(folder / "release.toml")]
    else:
        script = str(HERE / "comparison_tools.py")
        command = [python, script, tool, str(folder / "table.parquet"), str(synthetic), EPSILON, DELTA]
    load = f"{os.getloadavg()[0]:.1f}"
    usage = measured(command, seconds=60 * MINUTES, gigabytes=GIGABYTES)
    took = failure(usage) if usage.status else seconds(usage.seconds)
    cells = [TOOLS[tool], level, load, took, f"{usage.gigabytes:.2f} GB"]
    if usage.status:
        return [*cells, "", "", ""]
    drawn = released(release) if tool == "odsynth" else pd.read_parquet(synthetic)
    measures = (["work", "home"], ["home", "earnings"], ["work", "earnings"])
    tract = 10 ** (DIGITS[level] - DIGITS["tract"])
    tables = [one.assign(home=one["home"] // tract, work=one["work"] // tract) for one in (truth, drawn)]
    return [*cells, *(f"{distance(*(one[columns] for one in tables)):.4f}" for columns in measures)]


def released(release: Path) -> pd.DataFrame:
    """Return the synthetic jobs of a release of odsynth in the form of the table."""
    parts = [pd.read_parquet(path) for path in (release / "public").glob("*_jobs_*.parquet")]
    drawn = pd.concat(parts).rename(columns={"w_geocode": "work", "h_geocode": "home"})
    return drawn[["home", "work", *ATTRIBUTES]].astype("str").astype("int64")


def distance(truth: pd.DataFrame, drawn: pd.DataFrame) -> float:
    """Return the total variation distance of the joint distributions of two tables' columns."""
    counts = pd.concat([one.value_counts() for one in (truth, drawn)], axis=1).fillna(0)
    return count_variation(*counts.to_numpy().T)


def failure(usage: Usage) -> str:
    """Return why a tool did not finish."""
    if usage.timed_out:
        return f"not in {MINUTES:.0f} min"
    last = usage.errors.splitlines()[-1] if usage.errors else f"status {usage.status}"
    if "ModuleNotFoundError" in last:
        raise click.ClickException(
            f"{last}; give --python the environment that has the tools ({COMMAND} --help)"
        )
    memory = "MemoryError" in last or "RESOURCE_EXHAUSTED" in usage.errors or "bad_alloc" in usage.errors
    return f"not in {GIGABYTES:.0f} GB" if memory else f"failed: {last[:80]}"


if __name__ == "__main__":
    main()
