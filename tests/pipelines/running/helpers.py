"""What the tests of runs share: files as bytes, faults at a step."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import synth
from helpers import PATIENCE, wait_for
from pipelines import Release, ReleaseConfig, run
from pipelines.release.description import file_names
from pipelines.release.layout import MANIFEST
from pipelines.release.records import RECORDS
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.storage.checksums import CHECKSUMS

Configs = Callable[..., ReleaseConfig]
Table = dict[str, Any]
Process = subprocess.Popen[bytes]

TABLES: Table = {"release.mechanism": "geometric", "plan.retention_min": None}  # as the planner chooses them
GEOMETRIC: Table = TABLES | {"workload": [{"home": "trct", "work": "trct"}]}  # nothing to search
BUCKET, SECRETS = "agency-bucket", ("CANARYKEYID", "CANARYsecretkey")  # of a store, and for it
FULL = OSError(28, "No space left on device")
KILLING = [
    pytest.mark.slow,
    # What distributed itself leaves behind when a scheduler or a worker is killed.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def everything(folder: Path) -> dict[str, bytes]:
    """The content of every file."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def but_for_the_debit(folder: Path) -> dict[str, bytes]:
    """The content of every file of a public folder, without what follows from the debit of this run."""
    files = {name: data for name, data in everything(folder).items() if name not in (MANIFEST, CHECKSUMS)}
    certificate = json.loads(files["certificate.json"])
    if certificate["commitment"] is not None:  # a weaker tier has none
        certificate["commitment"] |= dict.fromkeys(["previous", "draw", "debit"])
    files["certificate.json"] = json.dumps(certificate).encode()
    return {name: data for name, data in files.items() if name not in RECORDS}


def but_for_the_input(certificate: bytes) -> bytes:
    """A certificate without its one value that follows from homes, under a secret of the run."""
    before, after = certificate.split(json.loads(certificate)["commitment"]["input"].encode())
    return before + after


def data_of(release: Release, folder: str = "") -> dict[str, bytes]:
    """The content of the data files, of an implicate where there are several."""
    names = file_names(release.plan.config).values()
    return {name: (release.public / folder / name).read_bytes() for name in names}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def left_over(config: ReleaseConfig) -> list[str]:
    """What lies in the folder that the output folder should appear in."""
    parent = config.release.out.parent
    return sorted(path.name for path in parent.iterdir()) if parent.exists() else []


def seeded(config: ReleaseConfig, seed: int = 1, **named: Any) -> Release:
    """A run with a key that gives the same bytes again."""
    return run(config, key=synth.RunKey.from_seed(seed), **named)


def failing(owner: object, name: str, fault: BaseException, patch: pytest.MonkeyPatch) -> list[str]:
    """Make a function fail; the list says whether it was called."""
    called: list[str] = []

    def fail(*_: object, **__: object) -> None:
        called.append(name)
        raise fault

    patch.setattr(owner, name, fail)
    return called


def interrupted(
    config: ReleaseConfig,
    owner: object = releasing,
    name: str = "write_public",
    fault: BaseException = FULL,
    **named: Any,
) -> None:
    """Begin a run that fails when it has drawn, or at another function."""
    with pytest.MonkeyPatch.context() as patch:
        called = failing(owner, name, fault, patch)
        with pytest.raises(type(fault)) as caught:
            seeded(config, **named)
    assert caught.value is fault or str(fault) in str(caught.value)
    assert called


# What slow workers load: others may have drawn all batches before a kill after the first ones.
_SLOW = """
import time
from pipelines.running.batches import BatchWork
def slowed(do):
    def slowly(*arguments):
        time.sleep(0.2)
        do(*arguments)
    return slowly
BatchWork.do = slowed(BatchWork.do)  # Dask loads this twice
"""


@contextmanager
def cluster_of_processes(
    folder: Path, workers: int = 1, *options: str, path: Path | None = None, slow: bool = False
) -> Iterator[tuple[str, Process, list[Process]]]:
    """Start a scheduler and workers without nannies; give the address and the processes.

    Workers take modules from `path`, where one is given, and their time for each batch if they are slow.
    """
    file = folder / "scheduler.json"
    command = [sys.executable, "-W", "ignore", "-m", "dask"]
    more = ["--scheduler-file", str(file), "--no-dashboard"]
    started = [subprocess.Popen([*command, "scheduler", "--host", "127.0.0.1", "--port", "0", *more])]
    try:
        worker = ["worker", "--no-nanny", "--nthreads", "1", "--local-directory", str(folder), *more]
        if slow:
            (folder / "slow.py").write_text(_SLOW, encoding="utf-8")
            worker += ["--preload", str(folder / "slow.py")]
        started += [subprocess.Popen([*command, *worker, *options], cwd=path) for _ in range(workers)]
        # Dask does not write it in one piece.
        wait_for(lambda: file.exists() and file.read_text(encoding="utf-8").endswith("}"))
        address = json.loads(file.read_text(encoding="utf-8"))["address"]
        with Client(address) as client:
            client.wait_for_workers(workers, timeout=PATIENCE)
        yield address, started[0], started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def kill_when_drawing(config: ReleaseConfig, process: Process) -> threading.Thread:
    parts = RunFolder.of(config.release.out).parts

    def two_are_drawn() -> bool:
        with suppress(OSError):  # parts get their names meanwhile
            return sum(path.name.isdigit() for path in parts.glob("*")) >= 2
        return False

    def watch() -> None:
        wait_for(two_are_drawn)
        process.kill()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread
