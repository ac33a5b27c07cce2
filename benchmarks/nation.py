"""Releasing a nation: what planning, running and verifying take as it grows, step by step.

Usage: python benchmarks/nation.py [--jobs 1400000 --jobs 14000000 ...] [--mechanism dirichlet] [--write]

Simulates countries with the form of the United States (`odsynth simulate`, not counted): at 140 million jobs
51 states, 3,142 counties, 73,000 tracts, 7.7 million blocks, 2.3 million work blocks, a file of jobs for each
state, a county table, and a tract table of an earlier release; smaller ones have as many jobs less of each.
Then three commands run as a user starts them, whole, one after the other, for each mechanism and size:

- `odsynth plan` reads the public inputs, chooses, certifies, tries the plan on homes drawn from the public
  model, draws the picture, and writes plan and report;
- `odsynth run --plan` reads that plan, certifies it again, reads and sorts the homes, measures and estimates
  or resamples, writes, checks;
- `odsynth verify` checks the public folder, as anybody may.

Of each step stands beside what it took what pyarrow alone takes to read, or to write, the same columns of the
same files, and numpy to multiply two numbers of each pair of units and add them up, where a step must look at
all pairs: less than that no program could take that uses them.

Results are kept in out/benchmarks/nation.json, a column for each mechanism and size, so that a long
measurement can be made in parts; --write makes the page and the picture from it.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click
import matplotlib
import numpy as np
import psutil
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from processes import GB
from report import fill, table, this_machine

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "out" / "benchmarks" / "nation.json"
PAGE = ROOT / "benchmarks" / "nation.md"
PICTURE = ROOT / "docs" / "images" / "growth.svg"
COMMAND = "python benchmarks/nation.py"
ODSYNTH = [sys.executable, "-m", "pipelines.cli"]
MECHANISMS = ("dirichlet", "geometric")
JOBS = (1_400_000, 14_000_000, 140_000_000)
ON_PAPER = 1_400_000_000
ROWS = 2000  # of pairs of units that are looked at to say how long all take
PAUSE = 0.25  # seconds between two looks at memory and processor time


@dataclass
class Took:
    """What a command took, all its processes together, and of its steps, in their order."""

    wall: float = 0.0
    processors: float = 0.0
    gigabytes: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)
    """Seconds of processors."""


@click.command()
@click.option("--jobs", "sizes", type=int, multiple=True, default=JOBS, show_default=True)
@click.option("--mechanism", "mechanisms", type=click.Choice(MECHANISMS), multiple=True, default=MECHANISMS)
@click.option("--write", is_flag=True, help=f"Only write {PAGE.name} and the picture, from what is kept.")
def main(sizes: tuple[int, ...], mechanisms: tuple[str, ...], write: bool) -> None:
    """Simulate, plan, run, verify, keep, and print."""
    kept = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    for jobs in () if write else sizes:
        with tempfile.TemporaryDirectory() as name:
            where = Path(name)
            simulate = [*ODSYNTH, "simulate", str(where), "--workers", str(jobs)]
            subprocess.run(simulate, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for mechanism in mechanisms:
                found = column(where, mechanism, jobs)
                kept = [one for one in kept if (one["mechanism"], one["jobs"]) != (mechanism, jobs)] + [found]
                RESULTS.parent.mkdir(parents=True, exist_ok=True)
                RESULTS.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    text = "\n\n".join(described(sorted(kept, key=lambda one: one["jobs"])))
    print(text)
    if write:
        draw_picture(kept)
        fill(PAGE, COMMAND, f"{this_machine()}\n\n{text}")


def column(where: Path, mechanism: str, jobs: int) -> dict[str, object]:
    """Make a release, and return what is said of it."""
    config, out = where / f"{mechanism}.toml", where / f"release-{mechanism}"
    said = (where / "nation.toml").read_text(encoding="utf-8")
    here = f'out = "{out.name}"\nmechanism = "{mechanism}"'
    config.write_text(said.replace('out = "release"', here), encoding="utf-8")
    load = os.getloadavg()[0]
    commands = {
        "plan": ["plan", str(config)],
        "run --plan": ["run", str(config), "--plan", f"{out}-plan"],
        "verify": ["verify", str(out / "public")],
    }
    return {
        "mechanism": mechanism,
        "jobs": jobs,
        "load": load,
        "took": {name: asdict(measured([*ODSYNTH, *command])) for name, command in commands.items()},
        "sizes": dict(sizes_of(out)),
        "least": dict(least(where, out)),
    }


def measured(command: Sequence[str]) -> Took:
    """Run a command, and look at it and all that it starts while it runs."""
    took, begin, earlier = Took(), time.perf_counter(), of_children()
    title, before, said = "", 0.0, list[str]()
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with psutil.Popen(command, text=True, **pipes) as process, ThreadPoolExecutor(1) as thread:
        reading, seen = thread.submit(said.extend, process.stderr), 0
        while True:
            ended = reading.done()
            resident, took.processors = looked_at(process, took.processors)
            took.gigabytes = max(took.gigabytes, resident / GB)
            for line in said[seen:]:
                if line.rstrip().endswith("..."):
                    if title:
                        took.steps[title] = took.processors - before
                    title, before = re.sub(r"\d[\d,]* ", "", line.rstrip(" .\n")), took.processors
                seen += 1
            if ended:
                break
            time.sleep(PAUSE)
    if process.returncode:
        raise click.ClickException(f"{' '.join(command)} ended with status {process.returncode}: {said[-1:]}")
    took.wall, took.processors = time.perf_counter() - begin, of_children() - earlier
    if title:
        took.steps[title] = took.processors - before
    return took


def of_children() -> float:
    """Return the seconds of processors of all processes that this one has waited for, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def looked_at(process: psutil.Process, before: float) -> tuple[int, float]:
    """Return the resident bytes of a process and its children, and their seconds of processors.

    What they share is counted in each. The time is that of before where they have just ended.
    """
    try:
        every = [process, *process.children(recursive=True)]
        times = [(one.memory_info().rss, one.cpu_times()) for one in every]
    except psutil.NoSuchProcess:
        return 0, before
    # Of children that have ended, as the kernel adds them up.
    ended = times[0][1]
    total = sum(t.user + t.system for _, t in times) + ended.children_user + ended.children_system
    return sum(rss for rss, _ in times), max(before, total)


def sizes_of(out: Path) -> Iterator[tuple[str, str]]:
    """Yield how large everything is."""
    public = out / "public"
    totals = json.loads((public / "certificate.json").read_text(encoding="utf-8"))["totals"]
    blocks = pq.read_metadata(public / "plan" / "blocks.parquet").num_rows
    yield "blocks of the domain", f"{blocks:,}"
    yield "pools; domains; cells", "; ".join(f"{totals[name]:,}" for name in ("pools", "domains", "cells"))
    yield "size of the plan; of the release with it", f"{megabytes(public / 'plan')}; {megabytes(public)}"


def megabytes(folder: Path) -> str:
    """Return the size of all files in a folder."""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.0f} MB"


def least(where: Path, out: Path) -> Iterator[tuple[str, float]]:
    """Yield the seconds of processors that pyarrow and numpy take for what a step must do."""
    jobs, public = sorted((where / "jobs").iterdir()), out / "public"
    released = sorted(path for folder in public.glob("*_main_*") for path in folder.iterdir())
    plan = sorted((public / "plan").glob("*.parquet"))
    tables = [where / f"{name}.parquet" for name in ("xwalk", "county", "tract", "population")]
    units = pq.read_table(where / "xwalk.parquet", columns=["trct"])["trct"]
    pairs = seconds_of_pairs(len(units.unique()))
    yield "Reading public inputs", seconds_of(jobs, ["work"]) + seconds_of(tables) + pairs
    yield "Choosing cells and pools, and planning", pairs
    yield "Reading the plan", seconds_of(plan)
    yield "Reading the confidential origins", seconds_of(jobs, ["home", "work"])
    both = seconds_of(released, write=True)
    yield "Drawing synthetic workers", both - seconds_of(released)
    yield "Checking the release", both + seconds_of(plan)


def seconds_of(files: Sequence[Path], columns: list[str] | None = None, *, write: bool = False) -> float:
    """Return the seconds of processors of reading columns of Parquet files, and of writing them again."""
    begin = time.process_time()
    for path in files:
        found = pq.read_table(path, columns=columns)
        if write:
            pq.write_table(found, io.BytesIO(), compression="zstd")
    return time.process_time() - begin


def seconds_of_pairs(units: int) -> float:
    """Return the seconds of processors of a product for each pair of units, added up by unit."""
    rows = min(units, ROWS)
    one, other, product = np.random.default_rng(1).random((3, units), np.float32)
    begin = time.process_time()
    for _ in range(rows):
        np.multiply(one, other, out=product).sum()
    return (time.process_time() - begin) * units / rows


def described(kept: Sequence[dict]) -> Iterator[str]:
    """Yield the parts of the page."""
    memory = psutil.virtual_memory().total / GB
    yield f"{os.cpu_count()} cores, {memory:.0f} GB. Memory is the peak of all processes of a command."
    for mechanism in MECHANISMS:
        found = [one for one in kept if one["mechanism"] == mechanism]
        if not found:
            continue
        yield f"**{mechanism}**"
        header = ["", *(f"{one['jobs']:,} jobs" for one in found), f"{ON_PAPER:,}, on paper"]
        yield table(header, rows_of(found))
        last = found[-1]
        yield f"Of {last['jobs']:,} jobs, by step, in seconds of processors:"
        yield table(["", "takes", "at least", "times the least"], steps_of(last))


def rows_of(found: Sequence[dict]) -> Iterator[list[str]]:
    """Yield the rows of a mechanism."""
    yield ["load of the machine before", *(f"{one['load']:.1f}" for one in found), ""]
    for name in found[0]["sizes"]:
        yield [name, *(one["sizes"][name] for one in found), ""]
    of = {
        "by the clock": ("wall", "s"),
        "seconds of processors": ("processors", "s"),
        "peak memory": ("gigabytes", "GB"),
    }
    for name in found[0]["took"]:
        for words, (key, unit) in of.items():
            values = [one["took"][name][key] for one in found]
            row = [f"`odsynth {name}`: {words}", *(number(value, unit) for value in values)]
            paper = None if key == "wall" else extrapolated([one["jobs"] for one in found], values)
            yield [*row, number(paper, unit)]
    sums = [sum(one["took"][name]["wall"] for name in ("plan", "run --plan")) for one in found]
    yield ["plan and run together, by the clock", *(number(one, "s") for one in sums), ""]


def extrapolated(jobs: Sequence[int], values: Sequence[float]) -> float | None:
    """Return what the line through the last two sizes says of 1.4 billion jobs."""
    if len(jobs) < 2:
        return None
    slope = (values[-1] - values[-2]) / (jobs[-1] - jobs[-2])
    return values[-1] + slope * (ON_PAPER - jobs[-1])


def number(value: float | None, unit: str) -> str:
    """Return a number of seconds, minutes from two hundred on, or gigabytes."""
    if value is None:
        return ""
    if unit == "s" and value >= 200:
        return f"{value / 60:,.1f} min"
    return f"{value:.2f} GB" if unit == "GB" else f"{value:.1f} s"


def steps_of(one: dict) -> Iterator[list[str]]:
    """Yield the steps of planning and running, beside the least."""
    for name in ("plan", "run --plan"):
        took = one["took"][name]
        for title, seconds in took["steps"].items():
            floor = one["least"].get(title)
            ratio = "" if floor is None else f"{seconds / floor:.1f}"
            yield [
                f"{name}: {title[0].lower()}{title[1:]}",
                number(seconds, "s"),
                number(floor, "s"),
                ratio,
            ]
        rest = took["processors"] - sum(took["steps"].values())
        yield [f"{name}: starting", number(max(rest, 0.0), "s"), "", ""]


def draw_picture(kept: Sequence[dict]) -> None:
    """Draw time and memory against jobs, a line a command and mechanism."""
    matplotlib.rcParams["svg.hashsalt"] = "odsynth"
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    colours = {"plan": "#0072b2", "run --plan": "#d55e00", "verify": "#009e73"}
    styles = {"dirichlet": "-", "geometric": "--"}
    for axis, key, label in zip(
        axes, ("processors", "gigabytes"), ("seconds of processors", "peak memory, GB"), strict=True
    ):
        for mechanism, style in styles.items():
            found = sorted((one["jobs"], one["took"]) for one in kept if one["mechanism"] == mechanism)
            for name, colour in colours.items():
                values = [took[name][key] for _, took in found]
                axis.plot([jobs for jobs, _ in found], values, style, color=colour, marker="o", markersize=3)
        axis.set(xscale="log", yscale="log", xlabel="jobs", ylabel=label)
        axis.grid(alpha=0.3)
    for name, colour in colours.items():
        axes[0].plot([], [], color=colour, label=name)
    for mechanism, style in styles.items():
        axes[0].plot([], [], style, color="black", label=mechanism)
    linear = [min(JOBS), max(JOBS)]
    axes[0].plot(
        linear, [4 * one / linear[0] for one in linear], ":", color="#999999", label="linear in jobs"
    )
    axes[0].legend(fontsize=8)
    figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
