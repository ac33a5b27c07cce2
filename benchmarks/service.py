"""The service under load: latency of flow queries with concurrent clients, and many reads at the same moment.

Usage: python benchmarks/service.py OUT [--clients 32] [--queries 2000] [--reads 1000]

OUT is the folder of a release that is fit for publication. It is published into a temporary folder, and the
service is started on it in a process of its own; the clients are another process on the same machine, and
take from the service what they use of the processors. No two queries are the same. Each client keeps its
connection, and asks again as soon as it has an answer; each of the reads has a connection of its own, all
open at the same time.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import click
import numpy as np

import pipelines

CONFIG = """
folder = "state"
port = {port}
workers = 0
log = "service.log"
[limits]        # every client here has the same address
public = "10000000/minute"
"""


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--clients", default=32, show_default=True)
@click.option("--queries", default=2000, show_default=True)
@click.option("--reads", default=1000, show_default=True)
def main(out: Path, clients: int, queries: int, reads: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        version = pipelines.publish(out, Path(folder) / "state" / "published")
        base = f"/api/v1/releases/{version.name}/{version.version}"
        asked = list(itertools.islice(questions(out / "public"), queries))
        with service(Path(folder)) as port:
            wait_for(port, f"{base}{asked[0]}")
            used = processor_seconds(port)
            seconds, statuses, took = ask(port, [base + question for question in asked], clients)
            print(f"{len(seconds):,} flow queries by {clients} clients: {dict(statuses)}")
            for percent in (50, 99, 100):
                print(f"  p{percent} {1000 * np.percentile(seconds, percent):.0f} ms")
            used = processor_seconds(port) - used
            each = 1000 * used / len(seconds)
            print(
                f"  {len(seconds) / took:.0f} a second; the service uses {each:.1f} ms of a processor for one"
            )
            alone = ask(port, [base + question for question in asked[:200]], 1)[0]
            print(f"  one client alone: p50 {1000 * np.percentile(alone, 50):.1f} ms")
            paths = ["/api/v1/releases", base, f"{base}/certificate", f"{base}/files", base[len("/api/v1") :]]
            paths += [base + question for question in asked[:5]]
            begun = time.perf_counter()
            answers = asyncio.run(read_at_once(port, [paths[i % len(paths)] for i in range(reads)]))
            print(f"{reads:,} reads at once: {dict(answers)}, in {time.perf_counter() - begun:.1f} s")


def questions(public: Path) -> Iterator[str]:
    """Different queries, large areas and small ones, on both sides, of every attribute."""
    release = pipelines.read_public_release(public)
    levels = release.levels
    for attribute in release.counts:
        for other in levels[-3:]:
            for level in levels[:-1]:
                codes = release.geography.codes(level)
                for code in codes[:: max(1, len(codes) // 40)]:
                    about = f"attribute={attribute}&top=20"
                    yield f"/flows?work={code}&work_level={level}&home_level={other}&{about}"
                    yield f"/flows?home={code}&home_level={level}&work_level={other}&{about}"


@contextmanager
def service(folder: Path) -> Iterator[int]:
    """The service, until the end of the context; its port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    config = folder / "service.toml"
    config.write_text(CONFIG.format(port=port), encoding="utf-8")
    command = [sys.executable, "-m", "pipelines.cli", "serve", str(config)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ODSYNTH_")}
    process = subprocess.Popen(command, env=environment)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def wait_for(port: int, path: str, seconds: float = 120) -> None:
    """Wait until the service answers, and has made its tables and its map."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            pages = [get(HTTPConnection("127.0.0.1", port), each)[0] for each in (path, map_of(path))]
            if pages == [200, 200]:
                return
        except OSError:
            pass
        time.sleep(0.5)
    raise click.ClickException("the service did not get ready")


def processor_seconds(port: int) -> float:
    """What the service has used of the processors so far."""
    text = get(HTTPConnection("127.0.0.1", port), "/metrics")[1].decode()
    return float(
        next(line.split()[1] for line in text.splitlines() if line.startswith("process_cpu_seconds_total"))
    )


def map_of(path: str) -> str:
    return path.split("?")[0].replace("/api/v1", "").replace("/flows", "/map")


def get(connection: HTTPConnection, path: str) -> tuple[int, bytes]:
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
