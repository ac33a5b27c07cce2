"""Large downloads beside small questions: how long a visitor waits meanwhile, and what memory it takes.

Usage: python benchmarks/downloads.py OUT [--before REVISION] [--page benchmarks/downloads.md]

OUT is the folder of a release that is fit for publication, with the draws of `odsynth intervals` in it, so
that flows have intervals. It is published into a temporary folder, and the service is started on it as a
process of its own, on one processor; its clients have the others. Each client has an address of its own.
Those who download ask for a whole table again as soon as they have it. Beside them one visitor asks for the
largest flows of tracts and block groups, and another for those of counties and external zones, one question
after the other, no two of them the same. With --before the same is measured of that revision of the program,
too. Takes about four minutes for each.
"""

from __future__ import annotations

import itertools
import os
import random
import tempfile
import threading
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import click
import report
from checkouts import checkout
from service import Service, Timed, get, questions, service

import pipelines
from pipelines.views.release import Release

COMMAND = "python benchmarks/downloads.py"
SECONDS, REST = 40, 30
PAUSES = 0.1, 2.0  # of the visitors after an answer


@dataclass
class Visit:
    """What those saw who asked at the same time: seconds of each answer."""

    small: list[float] = field(default_factory=list)
    county: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)  # tables
    statuses: set[int] = field(default_factory=set)


@click.command()
@click.argument("out", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--before", metavar="REVISION", help="Also measure that revision of the program.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(out: Path, before: str | None, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    load, cores = os.getloadavg()[0], sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:] or cores)
    release = pipelines.open_release(out / "public")
    columns: dict[str, dict[str, str]] = {}
    for revision in (before, None) if before else (None,):
        with checkout(revision) as program:
            columns[f"{before} before" if revision else "now"] = measured(out, release, cores[0], program)
    rows = [[what, *(column[what] for column in columns.values())] for what in columns["now"]]
    name, jobs = release.certificate.release.name, release.certificate.totals.records
    about = (
        f"{name}, {jobs:,} jobs, with draws; {len(cores)} processors, of which the service uses one; at the "
        f"beginning other programs were a load of {load:.1f}."
    )
    text = f"{about}\n\n{report.table(['what', *columns], rows)}"
    print(text)
    if page is not None:
        report.fill(page, COMMAND, text)


def measured(out: Path, release: Release, core: int, program: Path | None) -> dict[str, str]:
    """What is measured of a program."""
    rows: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        version = pipelines.publish(out, folder / "state" / "published")
        base = f"/api/v1/releases/{version.name}/{version.version}"
        block, group = release.geography.block_level, release.levels[-2]
        small, counties = (
            [base + each for each in questions(release, levels)]
            for levels in (release.levels[-3:-1], release.levels[1:2])
        )
        for asked in (small, counties):
            random.Random(0).shuffle(asked)
        tables = (
            (4, f"{group} to {group}", f"{base}/flows?work_level={group}&home_level={group}&format=csv"),
            (12, f"{group} to {block}", f"{base}/flows?work_level={block}&home_level={group}&format=csv"),
        )
        with service(folder, core, program) as running:
            running.wait_for(small[0])
            visit(running, small, counties, None, 0, seconds=5)  # opens files
            alone = visit(running, small, counties, None, 0)
            rows["nobody else: small questions"] = f"{Timed(alone.small)}"
            rows["nobody else: counties"] = f"{Timed(alone.county)}"
            rows["nobody else: memory"] = f"{running.megabytes:.0f} MB"
            for clients, title, path in tables:
                seen = visit(running, small, counties, path, clients)
                who = f"{clients} download {title}"
                rows[f"{who}: small questions"] = f"{Timed(seen.small)}"
                rows[f"{who}: counties"] = f"{Timed(seen.county)}"
                rows[f"{who}: downloads that ended"] = f"{len(seen.whole)}"
                rows[f"{who}: most memory so far"] = f"{running.most_megabytes:.0f} MB"
                time.sleep(REST)
                rows[f"{who}: memory {REST} s later"] = f"{running.megabytes:.0f} MB"
    return rows


def visit(
    running: Service,
    small: list[str],
    counties: list[str],
    path: str | None,
    clients: int,
    *,
    seconds: float = SECONDS,
) -> Visit:
    """Ask for a while, beside clients who download."""
    seen, end = Visit(), time.monotonic() + seconds

    def ask(questions: list[str], waited: list[float], pause: float) -> None:
        connection = HTTPConnection("127.0.0.1", running.port)
        for question in itertools.cycle(questions):
            if time.monotonic() > end:
                return
            begun = time.perf_counter()
            seen.statuses.add(get(connection, question)[0])
            waited.append(time.perf_counter() - begun)
            time.sleep(pause)

    def download(number: int) -> None:
        while time.monotonic() < end:
            address = (f"127.0.0.{number + 2}", 0)
            connection = HTTPConnection("127.0.0.1", running.port, source_address=address)
            begun = time.perf_counter()
            connection.request("GET", path or "/")
            response = connection.getresponse()
            seen.statuses.add(response.status)
            while response.read1(1 << 16):
                if time.monotonic() > end:
                    break
            else:
                seen.whole.append(time.perf_counter() - begun)
            connection.close()

    threads = [threading.Thread(target=download, args=(number,)) for number in range(clients)]
    threads += [
        threading.Thread(target=ask, args=arguments)
        for arguments in zip((small, counties), (seen.small, seen.county), PAUSES, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if seen.statuses != {200}:
        raise click.ClickException(f"not all questions were answered: {sorted(seen.statuses)}")
    return seen


if __name__ == "__main__":
    main()
