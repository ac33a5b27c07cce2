"""A release on a Dask cluster of 1, 2 and 4 workers of one thread: processor seconds, tasks and bytes sent.

Usage: python benchmarks/cluster.py [--jobs 1400000] [--page benchmarks/cluster.md]

Simulates a country (`odsynth simulate`, not counted). Then `odsynth plan` and `odsynth run --plan` are
started as a user starts them: without a cluster, and with one whose scheduler and workers are processes of
this machine, new for each number of workers. What is counted does not depend on how
many cores there are, and hardly on what else they do: seconds of processors of every process, and bytes that
the scheduler and the workers read from their sockets. From these it computes what 64 workers would take, and
says how.

Scheduler and workers load this file, too (`dask_setup`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
from distributed import Client, Scheduler, SchedulerPlugin, Worker

sys.path.insert(0, str(Path(__file__).parent))  # for the scheduler
from processes import completed
from report import fill, table, this_machine
from tornado.iostream import IOStream

COMMAND = "python benchmarks/cluster.py"
ODSYNTH = [sys.executable, "-m", "pipelines.cli"]
WORKERS = (1, 2, 4)
MANY = 64


class Counting(SchedulerPlugin):
    """Counts bytes that its process reads from sockets and, on the scheduler, seconds of tasks."""

    name = "counting"

    def __init__(self) -> None:
        self._bytes = 0
        self._groups: list[set[Any]] = []  # of tasks that do not wait for one another
        self._name = ""  # of the tasks of the last group
        self._seconds: dict[Any, float] = {}

    def update_graph(self, scheduler: Scheduler, *, tasks: Sequence[Any], **_: Any) -> None:
        names = {str(key).partition("-")[0] for key in tasks}
        if (
            self._groups and names == {self._name} and names <= {"measure", "draw"}
        ):  # which are sent one by one
            self._groups[-1] |= set(tasks)
        else:
            self._groups.append(set(tasks))
        self._name = names.pop() if len(names) == 1 else ""

    def transition(self, key: Any, start: str, finish: str, *_: Any, **how: Any) -> None:
        if (start, finish) == ("processing", "memory"):
            spans = (one for one in how.get("startstops") or () if one["action"] == "compute")
            self._seconds[key] = sum(one["stop"] - one["start"] for one in spans)

    def read(self, number: int) -> None:
        self._bytes += number

    def take(self) -> tuple[int, list[list[float]]]:
        """Return the bytes, and the seconds of each group, since it was last asked."""
        groups = [[self._seconds[key] for key in each if key in self._seconds] for each in self._groups]
        found = self._bytes, [each for each in groups if each]
        self._bytes, self._groups, self._seconds = 0, [], {}
        return found


def dask_setup(process: Scheduler | Worker) -> None:
    """Begin to count; called by a scheduler and by a worker as it starts."""
    counting = process.counting = Counting()
    if isinstance(process, Scheduler):
        process.add_plugin(counting)
    read = IOStream.read_from_fd

    def counted(stream: IOStream, buffer: Any) -> int | None:
        number = read(stream, buffer)
        counting.read(number or 0)
        return number

    IOStream.read_from_fd = counted


@dataclass(frozen=True)
class Took:
    """What a command took: seconds of processors of its own process, the scheduler's and each worker's."""

    own: float
    scheduler: float
    workers: list[float]
    groups: list[list[float]]
    to_scheduler: int
    to_workers: int

    @property
    def total(self) -> float:
        return self.own + self.scheduler + sum(self.workers)

    @property
    def tasks(self) -> int:
        return sum(map(len, self.groups))

    @property
    def in_line(self) -> float:
        """The share of the tasks' time that any number of workers takes: the longest of each group."""
        return sum(map(max, self.groups)) / sum(map(sum, self.groups))


@click.command()
@click.option("--jobs", default=1_400_000)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(jobs: int, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    with tempfile.TemporaryDirectory() as name:
        where = Path(name)
        simulate = [*ODSYNTH, "simulate", str(where), "--workers", str(jobs)]
        subprocess.run(simulate, check=True, stdout=subprocess.DEVNULL)
        found: dict[int, dict[str, Took]] = {}
        plans = set()
        for number in (0, *WORKERS):
            config = where / f"with-{number}.toml"
            said = (where / "nation.toml").read_text(encoding="utf-8")
            config.write_text(said.replace('out = "release"', f'out = "{config.stem}"'), encoding="utf-8")
            found[number] = measure(config, number)
            plans.add(
                json.loads((where / f"{config.stem}-plan" / "forecast.json").read_text())["plan_sha256"]
            )
        if len(plans) != 1:
            raise click.ClickException("the plans differ")
    text = "\n\n".join(
        [
            f"{jobs:,} jobs; the same plan, byte for byte, each time. Seconds are of processors.",
            *(
                f"**`odsynth {name}`**\n\n{rows_of({n: took[name] for n, took in found.items()})}"
                for name in found[0]
            ),
        ]
    )
    print(text)
    if page is not None:
        fill(page, COMMAND, f"{this_machine()}\n\n{text}")


def measure(config: Path, number: int) -> dict[str, Took]:
    """Plan and run a configuration, on a new cluster of so many workers or, for 0, without one."""
    commands = {
        "plan": ["plan", str(config)],
        "run --plan": ["run", str(config), "--plan", str(config.with_name(f"{config.stem}-plan"))],
    }
    found = {}
    with cluster(number) as (address, processes):
        for name, command in commands.items():
            before = [seconds(process) for process in processes]
            extra = ["--scheduler", address] if number else []
            own = completed([*ODSYNTH, *command, *extra]).processor
            spent = [seconds(process) - was for process, was in zip(processes, before, strict=True)]
            scheduler, *workers = spent or [0.0]
            to_scheduler, groups, to_workers = taken(address) if number else (0, [], 0)
            found[name] = Took(own, scheduler, workers, groups, to_scheduler, to_workers)
    return found


def taken(address: str) -> tuple[int, list[list[float]], int]:
    """Return what was counted since this was last called; asking is counted too, with some kilobytes."""
    with Client(address) as client:
        to_scheduler, groups = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.counting.take())
        each = client.run(lambda dask_worker: dask_worker.counting.take())
    return to_scheduler, groups, sum(number for number, _ in each.values())


def seconds(process: psutil.Process) -> float:
    """Return the seconds of processors that a process has had."""
    times = process.cpu_times()
    return float(times.user + times.system)


@contextmanager
def cluster(number: int) -> Iterator[tuple[str, list[psutil.Process]]]:
    """Start a scheduler and workers; give the address, and the processes, the scheduler's first."""
    if not number:
        yield "", []
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        dask = [sys.executable, "-W", "ignore", "-m", "dask"]
        more = ["--scheduler-file", str(file), "--no-dashboard", "--preload", __file__]
        head = ["scheduler", "--host", "127.0.0.1", "--port", "0"]
        worker = ["worker", "--no-nanny", "--nthreads", "1", "--local-directory", folder]
        started = []
        try:
            for each in (head, *[worker] * number):
                started.append(
                    subprocess.Popen(
                        [*dask, *each, *more], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
                    )
                )
            until = time.monotonic() + 120
            # Dask does not write it in one piece.
            while not (file.exists() and file.read_text().endswith("}")) and time.monotonic() < until:
                time.sleep(0.1)
            address = json.loads(file.read_text())["address"]
            with Client(address) as client:
                client.wait_for_workers(number, timeout=120)
            yield address, [psutil.Process(process.pid) for process in started]
        finally:
            for process in started:
                process.kill()
                process.wait()


def rows_of(found: dict[int, Took]) -> str:
    """Return the table of a command, with what is computed of 64 workers."""
    alone, on = found[0], {n: found[n] for n in WORKERS}
    slope, rest = np.polyfit(WORKERS, [sum(on[n].workers) for n in WORKERS], 1)
    first, rest = max(0.0, float(slope)), max(0.0, float(rest))
    tasks = [on[n].tasks for n in WORKERS]
    # Tasks of a group wait for the longest of them, and for their turn where there are more than workers.
    share = max(on[1].in_line, turns(on[1].groups, MANY))
    other = on[WORKERS[-1]]
    expected = other.own + first + rest * share
    rows = [
        ["its own process", f"{alone.own:.1f} s", *(f"{on[n].own:.1f} s" for n in WORKERS)],
        ["scheduler", "", *(f"{on[n].scheduler:.1f} s" for n in WORKERS)],
        ["workers together", "", *(f"{sum(on[n].workers):.1f} s" for n in WORKERS)],
        ["the busiest worker", "", *(f"{max(on[n].workers):.1f} s" for n in WORKERS)],
        ["all", f"{alone.total:.1f} s", *(f"{on[n].total:.1f} s" for n in WORKERS)],
        [
            "efficiency: all without a cluster, of all with it",
            "",
            *(f"{alone.total / on[n].total:.0%}" for n in WORKERS),
        ],
        ["tasks", "", *(f"{number:,}" for number in tasks)],
        *bytes_of("the scheduler", [on[n].to_scheduler for n in WORKERS], tasks),
        *bytes_of("workers together", [on[n].to_workers for n in WORKERS], tasks),
    ]
    header = ["", "threads", *(f"{n} worker{'s' if n > 1 else ''}" for n in WORKERS)]
    return table(header, rows) + (
        f"\n\nWith {MANY} workers: {other.own:.1f} s of its own process, {first:.1f} s that each worker "
        f"takes besides its tasks, and {share:.1%} of the {rest:.1f} s of tasks, for which all others wait: "
        f"{expected:.1f} s in all, {alone.total / expected:.1f} times as fast as one core."
    )


def bytes_of(whose: str, read: Sequence[int], tasks: Sequence[int]) -> Iterator[list[str]]:
    """Yield rows of the bytes that were read, in all and for a task."""
    yield [f"bytes that {whose} read", "", *(f"{number / 1e6:.2f} MB" for number in read)]
    yield ["the same for a task", "", *(f"{n / t / 1e3:,.1f} kB" for n, t in zip(read, tasks, strict=True))]


def turns(groups: Sequence[Sequence[float]], workers: int) -> float:
    """Return the share of the tasks' time that so many workers take, were those of a group equally long."""
    waited = sum(-(-len(each) // workers) * sum(each) / len(each) for each in groups)
    return waited / sum(map(sum, groups))


if __name__ == "__main__":
    main()
