"""kill -9 at any moment: the output folder is absent, or whole; and resuming gives what would have been."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers import KILLED, LOADED, released_files
from pipelines import Ledger
from pipelines.release.layout import public_files
from pipelines.running.payment import debits_of

from .helpers import but_for_the_debit

pytestmark = pytest.mark.slow

# Imports once and forks for every run. A number is when the process is killed, as a part of the time that an
# uninterrupted run takes; a name is a function that it does not come back from (after:) or that it does not
# get to (before:). Key and time are fixed, so that releases can be compared; batches are small, so that there
# are many.
SCRIPT = f"""{KILLED}
import sys, time
import pipelines, synth
import pipelines.running.run, pipelines.running.batches, pipelines.release.layout, pipelines.running.folder
from pipelines.cli.main import main

pipelines.running.run.time_now = lambda: "2026-01-02T03:04:05Z"
synth.RunKey.generate = lambda: synth.RunKey.from_seed(7)

def start(moment, *arguments):
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        if ":" in moment:
            arm(moment)
        main(list(arguments))
    if moment and ":" not in moment:
        time.sleep(float(moment) * whole)
        os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]

for moment in " ".join(sys.argv[2:]).split():
    if ":" in moment:
        find(moment)  # a name that is gone would kill nothing, unnoticed
{LOADED.format(config='Path(sys.argv[1]) / "0" / "small.toml"')}
whole = 0
for number, moments in enumerate(sys.argv[2:]):
    folder = Path(sys.argv[1]) / str(number)
    begun, statuses = False, []
    for moment in [*moments.split(), ""]:
        verb = ["resume", str(folder / "release")] if begun else ["run", str(folder / "small.toml")]
        if not statuses or statuses[-1]:
            began = time.monotonic()
            statuses.append(start(moment, *verb))
            if not moments:  # a run that is not interrupted; the last of these counts, for the first is slow
                whole = time.monotonic() - began
        state = Path("confidential") / "state.json"
        begun = any((folder / name / state).exists() for name in (".release.unfinished", "release"))
    print(number, *statuses, flush=True)
"""
MANY = {"run.batch_jobs": 50}
STEPS = [
    "after:running.run.save_plan",
    "before:running.run.keep_homes",
    "after:running.run.keep_homes",
    "after:running.run.commit",
    "after:ledger.ledger.Ledger.debit",
    "before:running.run.sample_release",
    "after:running.batches.sample_batch",
    "before:storage.durable.os.rename",
    "after:storage.durable.os.rename",
    "before:running.run.write_public",
    "before:release.layout.seal",
    "after:release.layout.seal",
    "before:running.run.verify_run",
    "after:running.run._log",
    "before:running.folder.shutil.rmtree",
    "after:running.folder.shutil.rmtree",
    "before:Path.rename",
    "after:Path.rename",
    "after:ledger.ledger.Ledger.outcome",
]


def moments(seed: int) -> list[str]:
    """Five runs, each killed up to three times at random moments."""
    rng = random.Random(seed)
    return [" ".join(f"{rng.uniform(0, 1):.3f}" for _ in range(rng.choice([1, 2, 3]))) for _ in range(5)]


def digest(public: Path) -> str:
    files = sorted(but_for_the_debit(public).items())
    return hashlib.sha256(b"".join(name.encode() + content for name, content in files)).hexdigest()


def killed(config_text: Callable[..., str], tmp_path: Path, plans: list[str]) -> list[int]:
    """Say how often each run was killed; all of them must have ended alike, each paid for once."""
    plans = ["", *plans]  # the first is not killed
    book = tmp_path / "ledger.sqlite"
    paid = {"file": str(book), "data_set": "jobs", "epsilon": f"{8.6 * len(plans)}", "delta": "0.1"}
    for number in range(len(plans)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "small.toml").write_text(config_text(MANY, {"ledger": paid}))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *plans], capture_output=True, text=True, check=True
    )
    statuses = [[int(word) for word in line.split()[1:]] for line in done.stdout.splitlines()]
    assert len(statuses) == len(plans), done.stderr
    kills = [sum(os.WIFSIGNALED(s) and os.WTERMSIG(s) == signal.SIGKILL for s in run) for run in statuses]
    assert kills[0] == 0, done.stderr
    assert not any(run[-1] for run in statuses), done.stderr  # each was resumed until it ended well
    digests = set()
    for number in range(len(plans)):
        folder = tmp_path / str(number)
        assert sorted(path.name for path in folder.iterdir()) == ["release", "small.toml"]
        out = folder / "release"
        assert stat.S_IMODE((out / "confidential").stat().st_mode) == 0o700
        assert not list(out.rglob("run.key"))
        assert public_files(out / "public") == released_files(out / "public")
        digests.add(digest(out / "public"))
    assert len(digests) == 1
    account = Ledger(book).accounts()[0]
    assert (account.debits, account.unfinished) == (len(plans), 0)  # one for each, however often killed
    debits = debits_of(tmp_path / str(number) / "release" for number in range(len(plans)))
    assert len(set(debits)) == len(plans)
    Ledger(book).verify(witness=debits)
    return kills[1:]


@pytest.mark.deep  # the next test kills at the same steps, in one run
@pytest.mark.parametrize("steps", [STEPS[:9], STEPS[9:]], ids=["drawing", "finishing"])
def test_kill_at_a_step_and_resume(config_text: Callable[..., str], tmp_path: Path, steps: list[str]) -> None:
    assert killed(config_text, tmp_path, steps) == [1] * len(steps)


def test_kill_at_one_step_after_the_other(config_text: Callable[..., str], tmp_path: Path) -> None:
    assert killed(config_text, tmp_path, [" ".join(STEPS)])[0] >= 10


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(5))
def test_kill_at_any_moment_and_resume(config_text: Callable[..., str], tmp_path: Path, seed: int) -> None:
    assert sum(killed(config_text, tmp_path, ["", *moments(seed)])) >= 3  # of about ten that are tried
