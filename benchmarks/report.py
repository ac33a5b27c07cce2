"""Print what `make bench` measured as Markdown, and fill a page with it.

Usage: python benchmarks/report.py out/benchmarks/suite.json [--page benchmarks/report.md]

Times are medians. A page has a pair of marks for each section that a command fills; the rest of it is written
by hand.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import cpuinfo

SUITE = "make bench"
LOAD = os.getloadavg()[0]  # before anything is measured


@click.command()
@click.argument("measured", type=click.Path(path_type=Path, exists=True))
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(measured: Path, page: Path | None) -> None:
    """Print, and fill the page."""
    text = report(json.loads(measured.read_text(encoding="utf-8")))
    print(text)
    if page is not None:
        fill(page, SUITE, text)


def report(found: dict[str, Any]) -> str:
    """Return the tables of a run of the suite, given what pytest-benchmark stored, in the order measured."""
    parts = [machine(found)]
    titles = dict.fromkeys(one["group"] for one in found["benchmarks"])
    for title in titles:
        rows = [one for one in found["benchmarks"] if one["group"] == title]
        median = {one["extra_info"]["row"]: one["stats"]["median"] for one in rows}
        parts.append(f"**{title}**")
        parts.append(table(["what", "time", "speed", "figures"], (row(one, median) for one in rows)))
    return "\n\n".join(parts)


def surroundings(versions: Mapping[str, str]) -> dict[str, Any]:
    """Return what figures depend on besides the processor, as `machine` takes it."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {"gigabytes": gigabytes, "load": LOAD, "versions": dict(versions)}


def commit_measured(code: Path = Path(__file__).parent.parent) -> str:
    """Return the last commit that changed the program of a checkout."""
    git = ["git", "-C", str(code), "log", "-1", "--format=%h", "--", "synth", "geo_data", "pipelines"]
    return subprocess.run(git, capture_output=True, check=True, text=True).stdout.strip()


def this_machine(versions: Mapping[str, str] | None = None) -> str:
    """Return where and when this process measures, and with what: by default, with what odsynth runs on."""
    if versions is None:
        versions = {name: version(name) for name in ("numpy", "numba", "dask")}
    info = {"cpu": cpuinfo.get_cpu_info(), "python_version": platform.python_version()}
    now = datetime.datetime.now().isoformat()
    return machine({"datetime": now, "machine_info": info | surroundings(versions)})


def machine(found: dict[str, Any]) -> str:
    """Return where and when something was measured, and with what."""
    info = found["machine_info"]
    versions = ", ".join(f"{name} {number}" for name, number in info["versions"].items())
    return (
        f"{found['datetime'][:10]}, {info['cpu']['count']} cores ({info['cpu']['brand_raw']}), "
        f"{info['gigabytes']:.0f} GB; Python {info['python_version']}, {versions}; "
        f"load average at the start {info['load']:.1f}."
    )


def row(one: dict[str, Any], median: dict[str, float]) -> list[str]:
    """Return a row: what was timed, its time, its speed or ratio, and the figures beside it."""
    info, took = one["extra_info"], one["stats"]["median"]
    speed = [f"{three_digits(info['workers'] / took)} workers a second"] if info["workers"] else []
    other = median.get(info["against"])
    if other is not None:
        speed.append(
            f"{other / took:,.0f} times faster" if other > 2 * took else f"{took / other:.2f} times the time"
        )
    figures = "; ".join(f"{name} {value}" for name, value in info["figures"].items())
    return [info["row"], seconds(took), ", ".join(speed), figures]


def three_digits(number: float) -> str:
    """Return a large number, rounded."""
    return f"{float(f'{number:.3g}'):,.0f}"


def seconds(took: float) -> str:
    """Return a time with three digits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if took >= size:
            return f"{took / size:.3g} {unit}"
    return f"{took * 1e6:.0f} µs"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, without columns in which there is nothing."""
    filled = list(rows)
    kept = [i for i in range(len(header)) if any(cells[i] for cells in filled)]
    lines = [[header[i] for i in kept], ["---"] * len(kept), *([cells[i] for i in kept] for cells in filled)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a Markdown table, row by row."""
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def fill(page: Path, command: str, text: str) -> None:
    """Put the text between the marks of a command."""
    begin, end = (f"<!-- {mark} `{command}` -->" for mark in ("begin", "end"))
    old = page.read_text(encoding="utf-8")
    new, found = re.subn(
        f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: f"{begin}\n{text}\n{end}", old, flags=re.DOTALL
    )
    if found != 1:
        raise click.ClickException(f"{page}: it must have one pair of marks {begin} and {end}")
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
