"""Kills at random moments and at steps of the end: all runs are resumed, and must end in the same release.

Usage: python benchmarks/kills.py [--kills 50] [--each 5] [--workers 60000] [--page benchmarks/kills.md]

Simulates (`odsynth simulate`) and makes one release without a kill. Then, again and again, a run of the same
configuration is killed (SIGKILL, kill -9) at a random moment of the time that the first one took, and gone on
with as a person would: with `odsynth resume` where there is something to resume, else with `odsynth run`.
Further runs are killed at each of `STEPS`, and so is their resumption where it gets there. All debit one
ledger. Key and time of day are fixed here, so that all public folders must be equal, byte for byte, but for
the debits that certificates name, and for files with the hash of the certificate.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
from report import fill, table, this_machine

import geo_data
import pipelines
import pipelines.running.run
import synth
from pipelines.cli.main import main as odsynth
from pipelines.release import verification
from pipelines.release.layout import MANIFEST
from pipelines.release.records import RECORDS
from pipelines.running.folder import RunFolder
from pipelines.storage.checksums import CHECKSUMS

COMMAND = "python benchmarks/kills.py"
# No search for the best cells, and many batches: more of the time is spent with what has been paid for.
SETTINGS = """
[plan]
split_threshold = "20"
pool_below = 50

[run]
batch_jobs = 400

[ledger]
file = "ledger.sqlite"
data_set = "jobs"
epsilon = "100000"
delta = "0.5"
"""
MOMENTS = (
    "before the debit was noted",
    "while drawing, writing or checking",
    "with the release in its place",
)
STEPS = (
    "while it checks",
    "checked, before the rename",
    "after the rename, before the ledger",
    "after the ledger",
)


@click.command()
@click.option("--kills", default=50, show_default=True, help="At random moments.")
@click.option("--each", default=5, show_default=True, help="Runs killed at each step of the end.")
@click.option("--workers", default=60_000, show_default=True)
@click.option("--seed", default=1, show_default=True, help="Of the moments.")
@click.option("--page", type=click.Path(path_type=Path, exists=True), help="Also fill its section.")
def main(kills: int, each: int, workers: int, seed: int, page: Path | None) -> None:
    """Simulate, release, kill, resume and print; an error if anything is not as it must be."""
    fix_key_and_time()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = geo_data.simulate_nation(folder / "nation", workers)
        config.write_text(config.read_text(encoding="utf-8") + SETTINGS, encoding="utf-8")
        begin = time.perf_counter()
        go_on(config, folder / "whole")
        took = time.perf_counter() - begin
        print(f"{workers:,} jobs, not killed: {took:.1f} s", flush=True)
        digests, moments = {digest(folder / "whole")}, Counter[str]()
        rng, runs = random.Random(seed), 1
        while moments.total() < kills:
            out, runs = folder / "killed", runs + 1
            if moment := killed(config, out, rng.uniform(0, took)):
                moments[moment] += 1
                print(f"kill {moments.total()}: {moment}", flush=True)
                go_on(config, out)
            digests.add(digest(out))
            shutil.rmtree(out)
        steps, again = Counter[str](), Counter[str]()
        for step in STEPS * each:
            out, runs, number = folder / "killed", runs + 1, rng.randrange(10)
            steps[step] += killed_at(step, number, out, "run", str(config), "--out", str(out))
            again[step] += killed_at(step, rng.randrange(10), out, "resume", str(out))
            go_on(config, out)
            digests.add(digest(out))
            shutil.rmtree(out)
        ledger = pipelines.Ledger(config.with_name("ledger.sqlite"))
        ledger.verify()
        (account,) = ledger.accounts()
    rows = [
        ("jobs of a run; seconds that it takes", f"{workers:,}; {took:.1f}"),
        *((f"kills {moment}", str(moments[moment])) for moment in MOMENTS),
        *((f"kills {step}; of resumptions there", f"{steps[step]}; {again[step]}") for step in STEPS),
        ("releases; different public folders", f"{runs}; {len(digests)}"),
        ("debits; of these, not finished", f"{account.debits}; {account.unfinished}"),
    ]
    total = kills + steps.total() + again.total()
    counts = table([f"{total} kills", ""], rows)
    print(counts)
    if (len(digests), account.debits, account.unfinished) != (1, runs, 0):
        raise SystemExit("the releases are not the same, or not each is paid for once")
    line = (
        f"{total} kills, {kills} at random moments, {steps.total()} of runs and {again.total()} of "
        f"resumptions at {len(STEPS)} steps of the end: {runs} releases, all equal, each paid for once."
    )
    print(line)
    if page is not None:
        fill(page, COMMAND, f"{this_machine()}\n\n{line}\n\n{counts}")


def fix_key_and_time() -> None:
    """Make all runs of this process, and of its children, draw the same and carry the same time."""
    pipelines.running.run.time_now = lambda: "2026-01-02T03:04:05Z"
    synth.RunKey.generate = classmethod(lambda _: synth.RunKey.from_seed(7))


def begun(out: Path, *arguments: str, step: str | None = None, number: int = 0) -> int:
    """Begin a command in a child, which need not import anything again; what it says goes to a file.

    With a step it kills itself there; `number` says after which check.
    """
    child = os.fork()
    if child == 0:
        said = os.open(out.with_name("said"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        if step is not None:
            arm(step, number, out)
        try:
            os._exit(odsynth(arguments, standalone_mode=False) or 0)
        except Exception as error:
            print(error, flush=True)
        finally:  # whatever happened: what this function was called from must not go on in the child
            os._exit(1)
    return child


def arm(step: str, number: int, out: Path) -> None:
    """Let this process kill itself at a step, or after so many checks of its release."""
    outcome, rename = pipelines.Ledger.outcome, Path.rename
    checks = verification._PublicFolder.checks

    def die(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def checking(release: verification._PublicFolder) -> Iterator[verification.Check]:
        for done, check in enumerate(checks(release)):
            if done == number:
                die()
            yield check

    if step == STEPS[0]:
        verification._PublicFolder.checks = checking
    elif step == STEPS[1]:
        Path.rename = lambda made, to: die() if Path(to) == out else rename(made, to)
    else:
        before = step == STEPS[2]
        pipelines.Ledger.outcome = die if before else lambda *a, **k: (outcome(*a, **k), die())


def killed_at(step: str, number: int, out: Path, *arguments: str) -> bool:
    """Run a command that kills itself at a step; say whether it got there."""
    return os.WIFSIGNALED(os.waitpid(begun(out, *arguments, step=step, number=number), 0)[1])


def killed(config: Path, out: Path, moment: float) -> str | None:
    """Run, kill after so many seconds, and say where it was by then; None if it had ended."""
    child = begun(out, "run", str(config), "--out", str(out))
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    if not os.WIFSIGNALED(os.waitpid(child, 0)[1]):
        return None
    if out.exists():
        return MOMENTS[2]
    staging = RunFolder.of(out)
    return MOMENTS[1] if staging.begun and staging.load().debit else MOMENTS[0]


def go_on(config: Path, out: Path) -> None:
    """Resume what is there, or run."""
    again = out.exists() or RunFolder.of(out).begun
    command = ("resume", str(out)) if again else ("run", str(config), "--out", str(out))
    if os.waitpid(begun(out, *command), 0)[1]:
        raise SystemExit(f"odsynth {' '.join(command)}: {out.with_name('said').read_text(encoding='utf-8')}")


def digest(out: Path) -> str:
    """Return a hash of the public folder, but for what follows from the debit."""
    files = sorted(path for path in (out / "public").rglob("*") if path.is_file())
    whole = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        if path.name == "certificate.json":
            content = json.dumps(json.loads(content) | {"commitment": None}).encode()
        if path.name not in (MANIFEST, CHECKSUMS, *RECORDS):
            whole.update(f"{path.relative_to(out)}\n{hashlib.sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
