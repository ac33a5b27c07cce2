"""Other tools at the same job as odsynth, on the same machine in one run: time, memory, loss and promise.

Usage: python benchmarks/comparison.py --python ENVIRONMENT/bin/python [--page benchmarks/comparison.md]

The tools need an environment of their own (they want other versions of what this project uses):

    python -m venv ENVIRONMENT
    ENVIRONMENT/bin/pip install mbi==2.0.0 inf-tda==0.1 opendp==0.12.1 pyarrow

The job: of a file with home and work of each of Rhode Island's 476,789 jobs of 2019, make a file of synthetic
jobs. Home and work are census tracts (at which general tools are at home) or census blocks (what is
published); a home in another state is that state; every home of the geography is possible, whether somebody
lives there or not. Each tool is a whole process with the same input, the same epsilon and, if it needs one,
the same delta, and the same limits of processor time and memory. Its time is that of the processors, as the
system counts it for the process and its children: other programs change it less than time by the clock.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import pandas as pd
import report
from processes import Usage, completed, measured

from geo_data.external_zones import fill, find_external_zones
from pipelines.plans.utility import count_variation

HERE = Path(__file__).parent
DATA = HERE.parent.parent / "shared" / "data" / "ri_2019"
COMMAND = "python benchmarks/comparison.py"
EPSILON, DELTA = "8.6", "1e-5"
SECONDS, GIGABYTES = 120, 8.0
DIGITS = {"tract": 11, "block": 15}


@dataclass(frozen=True)
class Tool:
    """A row of the table.

    Attributes
    ----------
    title : str
    beside : str
        Mechanism of odsynth that it is compared with, whose own rows are of that name.
    promise : str
    reason : str
        Why its time is what it is.
    levels : tuple of str
        At which it runs.
    """

    title: str
    beside: str
    promise: str
    reason: str
    levels: tuple[str, ...] = tuple(DIGITS)


TOOLS = {
    "dirichlet": Tool(
        "odsynth, resampling",
        "dirichlet",
        "pDP; exact; certificate",
        "reads public tables, chooses a plan and tries it, certifies, draws, writes and checks a release",
    ),
    "numpy_resampling": Tool(
        "numpy, a gamma variable for each cell, and a multinomial",
        "dirichlet",
        "pure DP on paper; floats",
        "draws only; every home of every work place, whether a job is there or not",
    ),
    "geometric": Tool(
        "odsynth, measured tables",
        "geometric",
        "pure DP; exact; certificate",
        "as resampling, and estimates all counts together from the noisy ones",
    ),
    "numpy_geometric": Tool(
        "numpy, geometric noise on each count",
        "geometric",
        "pure DP on paper; floats",
        "adds noise only, and rounds",
    ),
    "opendp": Tool(
        "OpenDP, geometric noise on each count",
        "geometric",
        "pure DP; exact",
        "adds noise only, and rounds; the noise of each count is drawn exactly, bit by bit",
    ),
    "inftda": Tool(
        "InfTDA, Gaussian noise on each count",
        "geometric",
        "approximate DP; exact noise, its scale in floats",
        "adds noise by OpenDP, and makes counts fit in Python, one by one",
        ("tract",),
    ),
    "mbi_flows": Tool(
        "mbi, Gaussian noise on each count",
        "geometric",
        "approximate DP; floats",
        "thousands of passes over numbers for all pairs, to fit a model",
    ),
}
CONFIG = """
[release]
name = "Rhode Island 2019"
state = "ri"
year = 2019
job_type = "JT00"
out = "release"
mechanism = "{mechanism}"

[privacy]
protects = "home"
epsilon = "{epsilon}"
delta = "{delta}"

[jobs]
format = "microdata"
file = "{folder}/coded.parquet"
home = "home"
work = "work"

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
@click.option("--python", required=True, help="Python of the environment that has the tools.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(python: str, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    head = machine(python)
    rows = []
    for level in DIGITS:
        with tempfile.TemporaryDirectory() as name:
            rows += compared(level, Path(name), python)
    header = ["tool", "of processors", "times odsynth's", "peak memory", "flows lost", "promise", "why"]
    text = f"{head}\n\n{report.table(['home and work', *header], rows)}"
    print(text)
    if page is not None:
        report.fill(page, COMMAND, text)


def machine(python: str) -> str:
    """Return where and when this runs, and the versions that are compared."""
    names = ["numpy", "opendp", "inf_tda", "mbi", "jax"]
    code = f"import json, importlib.metadata as m; print(json.dumps({{n: m.version(n) for n in {names}}}))"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True)
    if asked.returncode:
        raise click.ClickException(f"{asked.stderr.splitlines()[-1]}; {COMMAND} --help says what to install")
    return report.this_machine(json.loads(asked.stdout))


def compared(level: str, folder: Path, python: str) -> list[list[str]]:
    """Run all tools at a level and return their rows."""
    truth = jobs(level)
    prepare(folder, level, truth)
    found: dict[str, Usage] = {}
    rows = []
    for name, tool in TOOLS.items():
        if level not in tool.levels:
            continue
        target, release = folder / f"{name}.parquet", folder / name
        if name == tool.beside:
            command = [sys.executable, "-m", "pipelines.cli", "run", str(folder / f"{name}.toml")]
            if level == "tract":  # not counted: it keeps compiled kernels, as any first run does
                completed([*command, "--out", f"{release}-first"])
            command += ["--out", str(release)]
        else:
            files = [
                str(folder / "table.parquet"),
                str(target),
                EPSILON,
                DELTA,
                str(folder / "homes.parquet"),
            ]
            command = [python, str(HERE / "comparison_tools.py"), name, *files]
        usage = found[name] = measured(command, processor=SECONDS, gigabytes=GIGABYTES)
        ratio, lost, why = usage.processor / found[tool.beside].processor, "", tool.reason
        times = f"{ratio:.2g}"
        if usage.status:
            times = f"more than {times}" if usage.timed_out else ""
            why = f"**{how_far(usage)}**; {why}"
        else:
            drawn = released(release) if name == tool.beside else pd.read_parquet(target)
            lost = f"{distance(flows(truth, level), flows(drawn, level)):.4f}"
        took = report.seconds(usage.processor)
        rows.append([level, tool.title, took, times, f"{usage.gigabytes:.2f} GB", lost, tool.promise, why])
        print(*rows[-1], sep=" | ", file=sys.stderr)
    return rows


def jobs(level: str) -> pd.DataFrame:
    """Return home and work of each job."""
    files = [DATA / f"ri_od_{part}_JT00_2019.csv.gz" for part in ("main", "aux")]
    main, aux = (pd.read_csv(file, dtype={"w_geocode": "str", "h_geocode": "str"}) for file in files)
    # As odsynth releases it: the code of an external zone is the state's, filled up with 9s.
    aux = aux.assign(h_geocode=aux["h_geocode"].str[:2].str.ljust(DIGITS["block"], "9"))
    rows = pd.concat([main, aux], ignore_index=True)
    codes = {"home": rows["h_geocode"], "work": rows["w_geocode"]}
    return pd.DataFrame(
        {
            name: code.str[: DIGITS[level]].astype("int64").repeat(rows["S000"]).to_numpy()
            for name, code in codes.items()
        }
    )


def prepare(folder: Path, level: str, truth: pd.DataFrame) -> None:
    """Write the table and the homes that are possible, and for odsynth its geography and configurations."""
    digits = DIGITS[level]
    truth.to_parquet(folder / "table.parquet", index=False)
    coded = truth.astype("str").apply(lambda codes: codes.str.zfill(digits))
    coded.to_parquet(folder / "coded.parquet", index=False)
    blocks = pd.read_csv(DATA / "ri_xwalk.csv.gz", dtype={"tabblk2010": "str"})
    code = blocks["tabblk2010"]
    blocks = blocks.assign(st=code.str[:2], cty=code.str[:5], trct=code.str[:11], bgrp=code.str[:12])
    levels, block = ["st", "cty", "trct", "bgrp"], "tabblk2010"
    if level == "tract":
        levels, block = ["st", "cty"], "trct"
        blocks = blocks.groupby(["trct", *levels], as_index=False)[["blklatdd", "blklondd"]].mean()
    blocks[[block, *levels, "blklatdd", "blklondd"]].to_csv(folder / "crosswalk.csv", index=False)
    zones = find_external_zones(["us-states"], blocks[block])
    homes = sorted([*blocks[block], *(fill(zone, digits) for zone in zones)])
    pd.DataFrame({"home": homes}).astype("int64").to_parquet(folder / "homes.parquet", index=False)
    named = {"folder": folder, "data": DATA, "block": block, "levels": json.dumps(levels)}
    for name, tool in TOOLS.items():
        if name == tool.beside:
            text = CONFIG.format(epsilon=EPSILON, delta=DELTA, mechanism=name, **named)
            (folder / f"{name}.toml").write_text(text, encoding="utf-8")


def released(release: Path) -> pd.DataFrame:
    """Return the synthetic jobs of a release of odsynth in the form of the table."""
    rows = pd.concat([pd.read_parquet(path) for path in (release / "public").glob("*_od_*.parquet")])
    names = {"home": "h_geocode", "work": "w_geocode"}
    return pd.DataFrame(
        {name: np.repeat(rows[code].astype("int64"), rows["S000"]) for name, code in names.items()}
    )


def flows(table: pd.DataFrame, level: str) -> pd.Series:
    """Return the number of jobs by home and work tract."""
    return (table[["home", "work"]] // 10 ** (DIGITS[level] - DIGITS["tract"])).value_counts()


def distance(truth: pd.Series, drawn: pd.Series) -> float:
    """Return the total variation distance of two tables as shares."""
    return count_variation(*pd.concat([truth, drawn], axis=1).fillna(0).to_numpy().T)


def how_far(usage: Usage) -> str:
    """Return why a tool did not finish, and the last step that it told."""
    lines = usage.errors.splitlines() or [f"status {usage.status}"]
    steps = [line for line in lines if " of " in line and line[0].isdigit()]
    if usage.timed_out:
        why = f"not in {SECONDS / 60:.0f} minutes"
    elif any(
        word in usage.errors for word in ("MemoryError", "RESOURCE_EXHAUSTED", "Out of memory", "bad_alloc")
    ):
        why = f"not in {GIGABYTES:.0f} GB"
    else:
        raise click.ClickException(f"a tool failed: {lines[-1]}")
    return f"{why}: {steps[-1]}" if steps else why


if __name__ == "__main__":
    main()
