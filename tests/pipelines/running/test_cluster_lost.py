"""A Dask cluster that is lost: a run ends with one clear error in time, and is resumed to the same bytes."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dask
import psutil
import pytest
from distributed import Client, LocalCluster

import pipelines
from pipelines.running import executor
from pipelines.running.folder import RunFolder

from .helpers import (
    KILLING,
    Configs,
    but_for_the_debit,
    cluster_of_processes,
    kill_when_drawing,
    left_over,
    seeded,
)

pytestmark = KILLING
LIMIT = "distributed.scheduler.no-workers-timeout"
CONNECT = "distributed.comm.timeouts.connect"
QUICK = {LIMIT: "6s", CONNECT: "4s"}


@pytest.fixture
def batches(paid_config: Configs) -> Configs:
    return lambda: paid_config({"run.batch_jobs": 20})


def test_the_last_worker_killed_in_the_middle(
    batches: Configs, frozen_day: None, tmp_path: Path, book: Path
) -> None:
    whole = but_for_the_debit(seeded(batches()).public)
    config = batches()
    with cluster_of_processes(tmp_path, slow=True) as (address, _, [worker]), dask.config.set(QUICK):
        thread = kill_when_drawing(config, worker)
        began = time.monotonic()
        rule = "no worker of the Dask cluster was there for 6 s.* what was drawn is kept. Fix: .*, and resume"
        with pytest.raises(ConnectionError, match=rule):
            seeded(config, scheduler=address)
        thread.join()
        assert time.monotonic() - began < 120
    assert RunFolder.of(config.release.out).begun
    assert but_for_the_debit(pipelines.resume(config.release.out).public) == whole
    assert [account.debits for account in pipelines.Ledger(book).accounts()] == [2]


def test_a_verb_says_one_sentence_of_a_scheduler_that_is_killed(
    config_text: Callable[..., str], tmp_path: Path, book: Path
) -> None:
    """And what it drew is kept: the run is resumed, and paid for once."""
    ledger = {"file": str(book), "data_set": "jobs", "epsilon": "20", "delta": "1e-4"}
    text = config_text({"run.batch_jobs": 20, "ledger": ledger})
    (file := tmp_path / "small.toml").write_text(text, encoding="utf-8")
    config = pipelines.load_config(file)
    quick = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "4s"}
    with cluster_of_processes(tmp_path, slow=True) as (address, scheduler, _):
        thread = kill_when_drawing(config, scheduler)
        command = [sys.executable, "-m", "pipelines.cli", "run", str(file), "--scheduler", address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | quick)
        thread.join()
    assert done.returncode == 1
    *_, kept, error = done.stderr.splitlines()
    assert "odsynth resume" in kept
    assert f"Error: {address}: the Dask scheduler is gone or does not answer" in error
    assert "what was drawn is kept" in error
    assert "distributed" not in done.stderr
    assert [path for path in RunFolder.of(config.release.out).parts.rglob("*") if path.is_file()]
    again = [sys.executable, "-m", "pipelines.cli", "resume", str(config.release.out)]
    subprocess.run(again, capture_output=True, check=True)  # by the program that began it
    assert pipelines.open_release(config.release.out / "public").plan.numeric.pools.n_records == 600
    assert [account.debits for account in pipelines.Ledger(book).accounts()] == [1]


def test_a_password_in_an_address_is_not_shown() -> None:
    with (
        dask.config.set({CONNECT: "1s"}),
        pytest.raises(ConnectionError, match="no Dask scheduler can be used") as caught,
    ):
        executor.connect("tcp://user:CANARY/1@127.0.0.1:9")
    assert caught.value.filename == "tcp://127.0.0.1:9"
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("configured", ["client", "scheduler"])
def test_a_scheduler_without_workers(configured: str, batches: Configs, frozen_day: None) -> None:
    """The limit may be set where the run is, or where the scheduler is."""
    config = batches()
    limit = [dask.config.set({LIMIT: "2s"}), dask.config.set({})]
    at_start, at_run = limit if configured == "scheduler" else reversed(limit)
    with (
        at_start,
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster,
        at_run,
        pytest.raises(ConnectionError, match="no worker of the Dask cluster was there for 2 s") as caught,
    ):
        seeded(config, scheduler=cluster.scheduler_address)
    assert caught.value.filename == cluster.scheduler_address
    assert RunFolder.of(config.release.out).begun
    pipelines.resume(config.release.out)
    assert left_over(config) == ["release"]


def test_something_that_is_no_scheduler_costs_nothing(batches: Configs, book: Path) -> None:
    """It lets everybody connect, and says nothing."""
    config = batches()
    with socket.create_server(("127.0.0.1", 0)) as silent, dask.config.set({CONNECT: "1s"}):
        began = time.monotonic()
        with pytest.raises(ConnectionError, match="no Dask scheduler can be used"):
            seeded(config, scheduler=f"tcp://127.0.0.1:{silent.getsockname()[1]}")
        assert time.monotonic() - began < 60
    assert not book.exists()
    assert left_over(config) == []


def test_a_worker_that_hangs_is_not_taken_for_the_scheduler(
    batches: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_require_code", lambda _: time.sleep(5))
    alone = LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0")
    with alone, dask.config.set(QUICK | {LIMIT: "2s"}):
        words = "a worker of the Dask cluster did not answer in time; nothing was paid"
        with pytest.raises(ConnectionError, match=words):
            seeded(batches(), scheduler=alone.scheduler_address)
    assert not book.exists()


def core_of(_: object = None) -> tuple[object, int]:
    return resource.getrlimit(resource.RLIMIT_CORE), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)


def test_processes_of_its_own_listen_here_only_and_dump_no_core(
    batches: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "local_workers", lambda _: 2)
    finished: Callable[..., Iterator[object]] = executor._finished
    heard, cores = set[str](), list[object]()

    def looked(client: Client, futures: list[object], *more: object) -> Iterator[object]:
        yield from finished(client, futures, *more)
        if not more:
            return
        cores.extend(client.run(core_of).values())
        mine = psutil.Process()
        for process in (mine, *mine.children(recursive=True)):
            heard.update(c.laddr.ip for c in process.net_connections("inet") if c.status == "LISTEN")

    monkeypatch.setattr(executor, "_finished", looked)
    seeded(batches())
    assert heard == {"127.0.0.1"}
    assert len(cores) == 2
    assert set(cores) == {((0, 0), 0 if sys.platform == "linux" else -1)}
