"""kill -9 at any moment: the output folder is absent, or whole."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import pipelines
from pipelines import VerificationError, verify
from pipelines.release_files import expected_files, public_files

pytestmark = pytest.mark.slow

# Imports once and forks for every kill. A number is a delay in seconds; a name is a function that the process
# does not come back from (after:) or that it does not get to (before:).
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import pipelines, pipelines.releasing, pipelines.sampling, pipelines.release_files
from pipelines.cli import main

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def arm(moment):
    when, name = moment.split(":")
    owner, _, attribute = name.rpartition(".")
    target = Path if owner == "Path" else sys.modules["pipelines." + owner]
    real = getattr(target, attribute)
    setattr(target, attribute, die if when == "before" else lambda *a, **k: (real(*a, **k), die()))

for number, moment in enumerate(sys.argv[2:]):
    config = Path(sys.argv[1]) / str(number) / "small.toml"
    child = os.fork()
    if child == 0:
        if ":" in moment:
            arm(moment)
        main(["run", str(config)])
    if ":" not in moment:
        time.sleep(float(moment))
        os.kill(child, signal.SIGKILL)
    print(os.waitpid(child, 0)[1])
"""
STEPS = [
    "after:releasing.save_plan",
    "before:releasing.sample_release",
    "after:sampling.sample_batch",
    "after:sampling._batch_task",
    "before:releasing.write_public",
    "before:release_files.seal",
    "after:release_files.seal",
    "before:releasing.verify",
    "after:releasing._log",
    "before:Path.rename",
    "after:Path.rename",
]
DELAYS = [f"{0.03 * step:.2f}" for step in range(20)]


def result(public: Path) -> str:
    """The last check that passed, or "not" and the one that failed. This checkout may be modified."""
    last = ""
    try:
        for check in verify(public):
            last = check.name
    except VerificationError as error:
        return f"not {error.check}"
    return last


def test_kill_at_any_moment(config_text: Callable[..., str], tmp_path: Path) -> None:
    moments = [*STEPS, *DELAYS]
    for number in range(len(moments)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "small.toml").write_text(config_text())
    script = [sys.executable, "-c", SCRIPT, str(tmp_path), *moments]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    status = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    assert len(status) == len(moments)
    assert all(os.WIFSIGNALED(s) and os.WTERMSIG(s) == signal.SIGKILL for s in status[: len(STEPS)]), (
        done.stderr
    )

    finished = []
    for number, moment in enumerate(moments):
        folder = tmp_path / str(number)
        for path in folder.iterdir():
            if path.name.startswith("."):  # what a killed run leaves is closed to others
                assert stat.S_IMODE(path.stat().st_mode) == 0o700 or moment == "before:Path.rename"
        out = folder / "release"
        if out.exists():
            finished.append(moment)
            configuration = pipelines.load_plan(out / "public" / "plan").configuration
            assert public_files(out / "public") == expected_files(configuration)
            assert result(out / "public") in {"for release", "not for release"}
    assert [moment for moment in finished if ":" in moment] == ["after:Path.rename"]
