"""The service under load: flow questions by many clients, many reads at once, memory, 400 versions, idle.

Usage: python benchmarks/service.py OUT [--page benchmarks/service.md]

OUT is the folder of a release that is fit for publication. It is published into a temporary folder, and the
service is started on it as a process of its own, on one processor; its clients have the others. No two
questions are the same. Each client keeps its connection, and asks again as soon as it has an answer; each of
the reads at once has a connection of its own, all open at the same time. Prints a table in about two minutes.
What else the machine does lengthens times; the time of the service's processor it lengthens less.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import click
import numpy as np
import report
from checkouts import ROOT, environment, odsynth

import pipelines
from pipelines.views.release import Release

COMMAND = "python benchmarks/service.py"
CLIENTS, QUESTIONS, READS = 32, 4_000, 1_000
VERSIONS, PAGES, IDLE_SECONDS = 400, 300, 15
CONFIG = """
folder = "state"
port = {port}
log = "service.log"
[limits]        # every client here has the same address
public = "10000000/minute"
"""
Row = tuple[str, str]


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(out: Path, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    load, cores = os.getloadavg()[0], sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:] or cores)
    release = pipelines.open_release(out / "public")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        version = pipelines.publish(out, folder / "state" / "published")
        base = f"/api/v1/releases/{version.name}/{version.version}"
        asked = [base + each for each in itertools.islice(questions(release), QUESTIONS)]
        with service(folder, cores[0]) as running:
            running.wait_for(asked[0])
            rows = [
                *of_questions(running, asked),
                of_reads(running, base, asked),
                *of_tables(running, f"{base}/flows?work_level={release.levels[-1]}"),
            ]
        multiply(Path(version.location))
        with service(folder, cores[0]) as running:
            running.wait_for(asked[0])
            rows += of_many_versions(running)
    jobs = release.certificate.totals.records
    about = (
        f"{version.name}, {jobs:,} jobs, with draws; {len(cores)} processors, of which the service uses one; "
        f"at the beginning other programs were a load of {load:.1f}."
    )
    text = f"{about}\n\n{report.table(['what', 'measured'], rows)}"
    print(text)
    if page is not None:
        report.fill(page, COMMAND, text)


def questions(release: Release, levels: Sequence[str] = ()) -> Iterator[str]:
    """Different questions about areas of levels, by default all, on both sides, of every attribute."""
    for attribute in release.counts:
        for other in release.levels[-3:]:
            for level in levels or release.levels[:-1]:
                codes = release.geography.codes(level)
                for code in codes[:: max(1, len(codes) // 120)]:
                    about = f"attribute={attribute}&top=20"
                    yield f"/flows?work={code}&work_level={level}&home_level={other}&{about}"
                    yield f"/flows?home={code}&home_level={level}&work_level={other}&{about}"


@dataclass(frozen=True)
class Service:
    """A running service."""

    port: int
    process: int

    def get(self, path: str) -> tuple[int, bytes]:
        """Ask, on a new connection."""
        return get(HTTPConnection("127.0.0.1", self.port), path)

    def wait_for(self, question: str, seconds: float = 120) -> None:
        """Wait until it answers, and has made its tables and its map."""
        there = question.split("?")[0].replace("/api/v1", "").replace("/flows", "/map")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if [self.get(path)[0] for path in (question, there)] == [200, 200]:
                    return
            except OSError:
                pass
            time.sleep(0.5)
        raise click.ClickException("the service did not get ready")

    def figure(self, name: str) -> float:
        """One of its metrics."""
        lines = self.get("/metrics")[1].decode().splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))

    @property
    def processor(self) -> float:
        """Seconds of a processor, of the program and of the system for it, that it has used so far."""
        return self.figure("process_cpu_seconds_total")

    @property
    def megabytes(self) -> float:
        """Its memory."""
        return self.figure("process_resident_memory_bytes") / 1e6

    @property
    def most_megabytes(self) -> float:
        """The most memory that it has had so far."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="utf-8")
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


@contextmanager
def service(folder: Path, core: int, program: Path = ROOT) -> Iterator[Service]:
    """The service of a program, by default this one, on a processor, until the end of the context."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    config = folder / "service.toml"
    config.write_text(CONFIG.format(port=port), encoding="utf-8")
    on_core = partial(os.sched_setaffinity, 0, {core})
    command = odsynth(program, "serve", config)
    process = subprocess.Popen(command, env=environment(), cwd=program, preexec_fn=on_core)
    try:
        yield Service(port, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def of_questions(running: Service, asked: list[str]) -> Iterator[Row]:
    """Latency, speed and processor time of flow questions, and what memory they take."""
    first = asked[: len(asked) // 10]
    ask(running.port, first[:100], CLIENTS)  # opens files
    alone = Timed(ask(running.port, first[:200], 1)[0])
    before = running.megabytes
    used = running.processor
    seconds, statuses, took = ask(running.port, asked, CLIENTS)
    used = running.processor - used
    if statuses.keys() != {200}:
        raise click.ClickException(f"not all questions were answered: {dict(statuses)}")
    what = f"{len(asked):,} different flow questions (`top=20`), {CLIENTS} clients"
    yield what, f"{len(asked) / took:.0f} a second; {Timed(seconds)}"
    yield "processor time of the service for one of them", f"{1000 * used / len(asked):.2f} ms"
    yield "flow questions, one client alone", f"{alone}"
    yield f"memory before and after {len(asked):,} questions", f"{before:.0f} and {running.megabytes:.0f} MB"


def of_reads(running: Service, base: str, asked: list[str]) -> Row:
    """Many connections that all ask at the same moment."""
    paths = ["/api/v1/releases", base, f"{base}/certificate", f"{base}/files", base[len("/api/v1") :]]
    paths += asked[:5]
    begun = time.perf_counter()
    answers = asyncio.run(read_at_once(running.port, [paths[i % len(paths)] for i in range(READS)]))
    said = ", ".join(f"{number:,} with {status}" for status, number in answers.items())
    return f"{READS:,} reads at the same moment", f"in {time.perf_counter() - begun:.1f} s: {said}"


def of_tables(running: Service, path: str) -> Iterator[Row]:
    """All flows between blocks, in each format."""
    for form in ("csv", "arrow", "json", "geojson"):
        begun = time.perf_counter()
        status, body = running.get(f"{path}&format={form}")
        if status != 200:
            raise click.ClickException(f"{form}: {status}")
        took = report.seconds(time.perf_counter() - begun)
        yield f"all flows between blocks, as {form}", f"{took}, {len(body) / 1e6:.0f} MB"


def of_many_versions(running: Service) -> Iterator[Row]:
    """The home page, and a service that nobody asks."""
    ask(running.port, ["/"], 1)
    time.sleep(5)  # what is new is read again
    yield f"`/` with {VERSIONS} versions, one client", f"{Timed(ask(running.port, ['/'] * PAGES, 1)[0])}"
    used, begun = running.processor, time.perf_counter()
    time.sleep(IDLE_SECONDS)
    share = (running.processor - used) / (time.perf_counter() - begun)
    yield f"idle, with {VERSIONS} versions", f"{100 * share:.1f} % of a processor"


def multiply(version: Path) -> None:
    """Publish what a version holds under many names."""
    record = version.with_name(f"{version.name}.publication.json")
    for number in range(1, VERSIONS):
        shutil.copytree(version, version.with_name(f"v{number}"), copy_function=os.link)
        shutil.copy(record, record.with_name(f"v{number}.publication.json"))


@dataclass(frozen=True)
class Timed:
    """Times of many."""

    seconds: list[float]

    def __str__(self) -> str:
        p50, p99, most = np.percentile(self.seconds, (50, 99, 100))
        said = (
            f"{word} {report.seconds(time)}" for word, time in (("p50", p50), ("p99", p99), ("most", most))
        )
        return ", ".join(said)


def get(connection: HTTPConnection, path: str) -> tuple[int, bytes]:
    """Ask on a connection."""
    connection.request("GET", path)
    response = connection.getresponse()
    return response.status, response.read()


def ask(port: int, paths: list[str], clients: int) -> tuple[list[float], Counter[int], float]:
    """Ask everything once, by many clients; seconds of each, statuses, seconds of all."""
    seconds: list[float] = []
    statuses: Counter[int] = Counter()
    remaining = iter(paths)

    def client() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        connection.connect()
        for path in remaining:
            begun = time.perf_counter()
            status, body = get(connection, path)
            seconds.append(time.perf_counter() - begun)
            if path.startswith("/api/"):
                json.loads(body)
            statuses[status] += 1

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds, statuses, time.perf_counter() - begun


async def read_at_once(port: int, paths: list[str]) -> Counter[str]:
    """Open a connection for each, then ask on all of them, then read; what they answered."""
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in paths]

    async def read(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
            return answer.split(b" ", 2)[1].decode()
        except (OSError, IndexError) as error:
            return type(error).__name__
        finally:
            writer.close()

    return Counter(await asyncio.gather(*(read(p, *s) for p, s in zip(paths, streams, strict=True))))


if __name__ == "__main__":
    main()
