"""Full disks and limits of the system at every step: after each, the next call ends in the same release.

Usage: python benchmarks/limits.py [--every 1] [--workers 3000] [--page benchmarks/limits.md]

Needs Linux, the right to mount a file system (root), and a checkout without changes. Makes one release on a
disk of its own, publishes it, and makes it again by a calendar. Then, again and again, from the moment at
which a step begins, the disk fills up (some bytes left), or files may not grow (`ulimit -f`) or be opened
(`ulimit -n`), or memory be had (`ulimit -v`). The call must end with a clear error, or get through, or be
ended by the system; the next call, without the limit, must end in the same public folder, byte for byte, paid
once. Key and time of day are fixed here.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from kills import SETTINGS, fix_key_and_time
from report import fill, table, this_machine

import geo_data
import pipelines
import synth
from pipelines.cli.main import main as odsynth
from pipelines.publishing.destination import Place
from pipelines.running.folder import RunFolder
from pipelines.running.steps import Progress
from pipelines.storage.checksums import sha256_of

COMMAND = "python benchmarks/limits.py"
SCHEDULE = """
base = "nation/nation.toml"
cron = "0 6 1 2 *"
period = "year"
start = 2026-01-01
publish = "there"
[set]
"release.year" = "{year}"
"release.out" = "due_{year}"
"""
SECONDS = 300  # in which a call has to end
LEFT = {
    "full disk": (0, 8192, 131_072, 1_000_000),  # bytes left
    "ulimit -f": (0, 4096, 65_536, 1_000_000),  # bytes of a file
    "ulimit -n": (0, 1, 3, 10),  # files more than are open
    "ulimit -v": (0, 4_000_000, 32_000_000, 128_000_000),  # bytes more than are had
}
THROUGH, REFUSED, KILLED = "went through", "a clear error", "ended by the system"


@dataclass(frozen=True)
class Limit:
    """What runs out, how much is left, and from which moment of the call, counted from 0."""

    kind: str
    left: int
    moment: int

    def impose(self, disk: Path) -> None:
        """Impose it on this process, or on the disk."""
        if self.kind == "full disk":
            fill_up(disk, self.left)
        elif self.kind == "ulimit -f":
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.left, resource.RLIM_INFINITY))
        elif self.kind == "ulimit -n":
            most = max(map(int, os.listdir("/proc/self/fd"))) + 1 + self.left
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        else:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            most = pages * resource.getpagesize() + self.left
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def fill_up(disk: Path, left: int) -> None:
    """Leave so many bytes free."""
    free = os.statvfs(disk)
    with (disk / "ballast").open("wb") as ballast, suppress(OSError):
        os.posix_fallocate(ballast.fileno(), 0, max(1, free.f_bavail * free.f_frsize - left))


@click.command()
@click.option("--every", default=1, show_default=True, help="Try one case in so many.")
@click.option("--workers", default=3000, show_default=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(every: int, workers: int, page: Path | None) -> None:
    """Try, go on, compare and print; an error if anything is not as it must be."""
    fix_key_and_time()
    key = bytes(range(32))  # which calls itself secure here, for a seeded release is not published
    synth.RunKey.generate = classmethod(lambda _: synth.RunKey(key, secure=True))
    with tempfile.TemporaryDirectory() as name, mounted(Path(name)) as disk:
        text = try_limits(disk, every, workers)
    print(text)
    if page is not None:
        fill(page, COMMAND, f"{this_machine()}\n\n{text}")


@contextmanager
def mounted(folder: Path) -> Iterator[Path]:
    """A small disk in memory."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def try_limits(disk: Path, every: int, workers: int) -> str:
    """Return the table of what was tried; an error at the first thing that is not as it must be."""
    config = geo_data.simulate_nation(disk / "nation", workers)
    config.write_text(config.read_text(encoding="utf-8") + SETTINGS, encoding="utf-8")
    out, calendar, there = disk / "out", disk / "calendar", disk / "there"
    calendar.mkdir()
    schedule = SCHEDULE.replace('"there"', f'"{there}"').replace("nation/nation.toml", str(config))
    (calendar / "nation.toml").write_text(schedule.replace("due_", f"{disk}/due_"), encoding="utf-8")
    due = disk / "due_2025"

    def run() -> tuple[str, ...]:
        again = out.exists() or RunFolder.of(out).begun
        return ("resume", str(out)) if again else ("run", str(config), "--out", str(out))

    calls: dict[str, tuple[Callable[[], tuple[str, ...]], Iterable[Path]]] = {
        "run": (run, [out]),
        "publish": (lambda: ("publish", str(out), str(there)), [there]),
        "due": (lambda: ("due", str(calendar)), [due, there, calendar / "state"]),
    }
    rows, wrong = [], 0
    for verb, (call, made) in calls.items():
        outcomes: dict[str, Counter[str]] = {kind: Counter() for kind in LEFT}
        remove(made)
        moments = int(attempt(disk, call(), None)[1].rsplit("moments ", 1)[1])
        whole = results(made)
        cases = [Limit(k, left, moment) for moment in range(moments) for k in LEFT for left in LEFT[k]]
        for limit in cases[::every]:
            remove(made)
            outcome, said = attempt(disk, call(), limit)
            (disk / "ballast").unlink(missing_ok=True)
            # What is done is not called again: `odsynth resume` says so, and ends with an error.
            after, then = (outcome, said) if outcome == THROUGH else attempt(disk, call(), None)
            outcomes[limit.kind][outcome] += 1
            good = outcome in (THROUGH, REFUSED, KILLED) and after == THROUGH and results(made) == whole
            wrong += not good
            print(
                f"{verb}, {limit}: {outcome}{'' if good else f': WRONG: {said}; {after}: {then}'}", flush=True
            )
            if not good:
                remove([*made, *disk.glob(".out*"), *disk.glob(".due*")])
                if after != THROUGH or results(made) != whole:
                    attempt(disk, call(), None)
        for kind, counts in outcomes.items():
            numbers = (counts[THROUGH], counts[REFUSED], counts[KILLED])
            rows.append((f"{verb}, {kind}", f"{moments}", *(f"{number:,}" for number in numbers)))
    ledger = pipelines.Ledger(config.with_name("ledger.sqlite"))
    ledger.verify()
    (account,) = ledger.accounts()
    if wrong or account.unfinished:
        raise SystemExit(
            f"{wrong} calls are not as they must be, {account.unfinished} paid ones not finished"
        )
    return table(["", "moments", THROUGH, REFUSED, KILLED], rows)


def attempt(disk: Path, arguments: tuple[str, ...], limit: Limit | None) -> tuple[str, str]:
    """Call the program in a child, under a limit; return how it ended, and what it said."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        os.dup2(writes, 1)
        os.dup2(writes, 2)
        signal.alarm(SECONDS)
        moments = watch(disk, limit)
        try:
            code = odsynth(arguments, standalone_mode=False) or 0
        except click.ClickException as error:
            error.show()
            code = 1
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:  # what must not happen; the parent tells
            os.write(2, f"Traceback: {error!r}".encode())
            code = 1
        os.write(2, f"moments {moments()}".encode())
        os._exit(code)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == 0:
        return THROUGH, said
    if status < 0:
        return ("hung" if -status == signal.SIGALRM else KILLED), said
    unclear = "Traceback" in said or "not foreseen" in said
    return ("an unclear error" if unclear else REFUSED), said


def watch(disk: Path, limit: Limit | None) -> Callable[[], int]:
    """Impose the limit at its moment: when a step begins, or something is published. Return how many came."""
    come = 0

    def moment() -> None:
        nonlocal come
        if limit is not None and come == limit.moment:
            limit.impose(disk)
        come += 1

    for owner, name in ((Progress, "step"), (Place, "create"), (Place, "copy"), (Place, "replace")):
        setattr(owner, name, before(getattr(owner, name), moment))
    return lambda: come


def before(function: Callable[..., Any], moment: Callable[[], None]) -> Callable[..., Any]:
    """Return the function with something to be done before it."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        moment()
        return function(*arguments, **named)

    return wrapped


def results(made: Iterable[Path]) -> str:
    """Return the names and hashes of all files of every sealed folder that was made."""
    sealed = sorted(seal.parent for path in made for seal in path.rglob("SHA256SUMS"))
    files = (file for folder in sealed for file in sorted(folder.rglob("*")) if file.is_file())
    return "".join(f"{sha256_of(file)}  {file}\n" for file in files)


def remove(made: Iterable[Path]) -> None:
    """Remove what a call made."""
    for path in made:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
