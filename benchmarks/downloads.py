"""Large downloads beside small questions: how long a visitor waits meanwhile, and what memory it takes.

Usage: python benchmarks/downloads.py CONFIG [--before REVISION] [--page benchmarks/downloads.md]

CONFIG is the configuration of a release that is fit for publication. The release is made and published into
a temporary folder, and the service is started on it as a process of its own, on one processor; its clients
have the others. Each client has an address of its own. Those who download ask for a whole table again as soon
as they have it. Beside them one visitor asks for the largest flows of tracts and block groups, one for those
of counties and external zones, and one for answer pages of the site about areas of all these and towns, one
question after the other, no two of them the same. With --before the same is measured of that revision of the
program, too, with the release that it makes. Takes about five minutes for each.
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
from checkouts import ROOT, checkout, publish, releases
from service import Service, Timed, get, questions, service

import pipelines
from pipelines.views.release import Release

COMMAND = "python benchmarks/downloads.py"
SECONDS, REST = 40, 30
PAUSES = {"small questions": 0.1, "counties": 2.0, "answer pages": 1.0}  # of visitors after an answer


@dataclass
class Visit:
    """What those saw who asked at the same time: seconds of each answer."""

    waited: dict[str, list[float]]  # By who asks
    whole: list[float] = field(default_factory=list)  # tables
    statuses: set[int] = field(default_factory=set)


@click.command()
@click.argument("config", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--before", metavar="REVISION", help="Also measure that revision of the program.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(config: Path, before: str | None, page: Path | None) -> None:
    """Measure, print, and fill the page."""
    load, cores = os.getloadavg()[0], sorted(os.sched_getaffinity(0))
    columns: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (ours,) = releases(ROOT, [config], folder / "now")
        opened = pipelines.open_release(ours / "public")
        if before is not None:
            with checkout(before) as program:
                (theirs,) = releases(program, [config], folder / "before")
                os.sched_setaffinity(0, cores[1:] or cores)
                columns[f"{before} before"] = measured(theirs, opened, cores[0], program)
        os.sched_setaffinity(0, cores[1:] or cores)
        columns["now"] = measured(ours, opened, cores[0], ROOT)
    rows = [[what, *(column[what] for column in columns.values())] for what in columns["now"]]
    name, jobs = opened.certificate.release.name, opened.certificate.totals.records
    about = (
        f"{name}, {jobs:,} jobs, with draws; {len(cores)} processors, of which the service uses one; at the "
        f"beginning other programs were a load of {load:.1f}."
    )
    text = f"{about}\n\n{report.table(['what', *columns], rows)}"
    print(text)
    if page is not None:
        report.fill(page, COMMAND, text)


def measured(out: Path, opened: Release, core: int, program: Path) -> dict[str, str]:
    """What is measured of a program, with a release that it made."""
    rows: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        place = folder / "state" / "published"
        publish(program, out, place, "1")
        page = f"/releases/{next(place.iterdir()).name}/1"
        base = f"/api/v1{page}"
        tract, group, block = opened.levels[-3:]
        small = [base + each for each in questions(opened, opened.levels[-3:-1])]
        asked = {
            "small questions": small,
            "counties": [base + each for each in questions(opened, opened.levels[1:2])],
            "answer pages": [page + each for each in pages(opened)],
        }
        for several in asked.values():
            random.Random(0).shuffle(several)
        tables = [  # of tracts by blocks flows have intervals, too
            (clients, f"{homes} to {works}", f"{base}/flows?work_level={works}&home_level={homes}&format=csv")
            for clients, homes, works in ((4, group, group), (12, group, block), (12, tract, block))
        ]
        with service(folder, core, program) as running:
            running.wait_for(small[0])
            visit(running, asked, None, 0, seconds=5)  # opens files
            alone = visit(running, asked, None, 0)
            rows |= {f"nobody else: {what}": f"{Timed(waited)}" for what, waited in alone.waited.items()}
            rows["nobody else: memory"] = f"{running.megabytes:.0f} MB"
            for clients, title, path in tables:
                seen = visit(running, asked, path, clients)
                who = f"{clients} download {title}"
                rows |= {f"{who}: {what}": f"{Timed(waited)}" for what, waited in seen.waited.items()}
                rows[f"{who}: downloads that ended"] = f"{len(seen.whole)}"
                rows[f"{who}: most memory so far"] = f"{running.most_megabytes:.0f} MB"
                time.sleep(REST)
                rows[f"{who}: memory {REST} s later"] = f"{running.megabytes:.0f} MB"
    return rows


def pages(opened: Release) -> list[str]:
    """Answer pages about areas of every kind but states and blocks, on both sides."""
    kinds = [*opened.levels[1:-1], *opened.geography.non_nesting_areas]
    codes = [(kind, code) for kind in kinds for code in opened.geography.codes(kind)]
    return [
        f"/flows?kind={kind}&area={code}&side={side}" for kind, code in codes for side in ("work", "home")
    ]


def visit(
    running: Service, asked: dict[str, list[str]], path: str | None, clients: int, *, seconds: float = SECONDS
) -> Visit:
    """Ask for a while, beside clients who download."""
    seen, end = Visit({what: [] for what in asked}), time.monotonic() + seconds

    def ask(what: str) -> None:
        connection, waited = HTTPConnection("127.0.0.1", running.port), seen.waited[what]
        for question in itertools.cycle(asked[what]):
            if time.monotonic() > end:
                return
            begun = time.perf_counter()
            seen.statuses.add(get(connection, question)[0])
            waited.append(time.perf_counter() - begun)
            time.sleep(PAUSES[what])

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
    threads += [threading.Thread(target=ask, args=(what,)) for what in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if seen.statuses != {200}:
        raise click.ClickException(f"not all questions were answered: {sorted(seen.statuses)}")
    return seen


if __name__ == "__main__":
    main()
