"""Threads or a cluster: what decides, and what happens where a cluster fails."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dask
import distributed
import numpy as np
import pytest

from pipelines import Release, make_plan, run
from pipelines.release.provenance import code_in_use
from pipelines.running import executor as drawing
from pipelines.running import run as releasing
from pipelines.running.batches import BatchWork
from pipelines.running.executor import _Confidential, _work, local_workers

from .helpers import Configs, data_of, left_over, seeded

MANY = 10_000_000
GIB = 2**30


def nation(jobs: int = MANY) -> Any:
    """What `local_workers` looks at, of a plan of so many jobs: 100 MB of arrays."""
    array = np.broadcast_to(np.zeros(1, np.int8), 20_000_000)
    return SimpleNamespace(
        numeric=SimpleNamespace(
            pools=SimpleNamespace(n_records=jobs), domains=SimpleNamespace(cuts=array, stratum=array)
        ),
        pools=SimpleNamespace(slots=SimpleNamespace(work=array, attributes={})),
        shares=SimpleNamespace(unit=array, share=array[:0]),
        cumulative_weights=array,
    )


def test_one_process_for_four_cores_and_as_many_as_memory_has_room_for() -> None:
    assert local_workers(nation(MANY - 1), cores=64, memory=64 * GIB) == 1  # few jobs are for threads
    for cores, memory, workers in (
        *((cores, 64 * GIB, workers) for cores, workers in ((7, 1), (8, 2), (15, 3), (64, 16))),
        *((64, memory, workers) for memory, workers in ((4 * 10**9, 5), (10**9, 1), (10**6, 1))),
    ):
        assert local_workers(nation(), cores=cores, memory=memory) == workers


def test_the_memory_of_the_machine_is_asked_for() -> None:
    assert 1 <= local_workers(nation(), cores=64) <= 16


def test_a_real_plan_has_what_is_looked_at(small_config: Configs, monkeypatch: pytest.MonkeyPatch) -> None:
    release = make_plan(small_config())
    assert local_workers(release) == 1
    monkeypatch.setattr(drawing, "_CLUSTER_JOBS", 1)
    assert local_workers(release, cores=8, memory=GIB) == 2


@pytest.mark.parametrize("error", [RuntimeError("Nanny failed to start."), OSError(24, "x"), TimeoutError()])
def test_threads_draw_where_no_cluster_starts(
    error: Exception,
    small_config: Configs,
    whole: Release,
    frozen_day: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken(**_: object) -> None:
        raise error

    monkeypatch.setattr(drawing, "local_workers", lambda _: 2)
    monkeypatch.setattr(distributed, "LocalCluster", broken)
    release = seeded(small_config())
    words = capsys.readouterr().err
    assert f"A Dask cluster of 2 processes does not start ({type(error).__name__})" in words
    assert 'if __name__ == "__main__":' in words
    assert data_of(release) == data_of(whole)


def test_a_scheduler_that_does_not_answer_costs_nothing(paid_config: Configs, book: Path) -> None:
    config = paid_config()
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "100ms"}),
        pytest.raises(ConnectionError, match="no Dask scheduler") as caught,
    ):
        run(config, scheduler="tcp://127.0.0.1:1")
    assert caught.value.filename == "tcp://127.0.0.1:1"
    assert not book.exists()
    assert left_over(config) == []


def test_the_first_error_is_told_when_the_scheduler_is_gone(
    small_config: Configs, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone:
        """A client whose scheduler dies while it is given work."""

        def __init__(self, _: str) -> None: ...

        def __enter__(self) -> Gone:
            return self

        def __exit__(self, *_: object) -> None: ...

        def close(self) -> None: ...

        dashboard_link = "http://127.0.0.1:8787/status"
        status = "running"  # as far as it knows

        def submit(self, *_: object, **__: object) -> None:
            raise OSError("the first error")

        def cancel(self, _: object) -> None:
            raise RuntimeError("the scheduler is gone")

    monkeypatch.setattr(distributed, "Client", Gone)
    monkeypatch.setattr(releasing, "try_workers", lambda *_: None)
    with pytest.raises(OSError, match="the first error"):
        run(small_config(), scheduler="tcp://127.0.0.1:1")


def test_a_cluster_that_is_lost_while_planning_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(status="closed", _start_arg="tcp://127.0.0.1:1")
    monkeypatch.setattr(drawing, "connect", lambda _: nullcontext(client))
    for error, rule in (
        (
            OSError("closed"),
            "the Dask scheduler is gone or does not answer; nothing was paid. Fix: start a Dask cluster",
        ),
        (drawing._NoWorkersError(5), "was there for 5 s .*; nothing was paid. Fix: start workers, and begin"),
    ):

        def fail(*_: object, error: Exception = error, **__: object) -> None:
            raise error

        client.submit = fail
        with (
            drawing.trying_on("tcp://127.0.0.1:1") as call,
            pytest.raises(ConnectionError, match=rule) as caught,
        ):
            call(len, ["a candidate"])  # type: ignore[misc]
        assert caught.value.filename == "tcp://127.0.0.1:1"


@pytest.mark.slow
def test_a_script_without_a_guard_makes_its_release(config_text: Callable[..., str], tmp_path: Path) -> None:
    """Processes that Dask starts import it again, and would begin the run again."""
    script = tmp_path / "script.py"
    (tmp_path / "small.toml").write_text(config_text(), encoding="utf-8")
    script.write_text(
        "import pathlib, pipelines, pipelines.running.executor\n"
        "pipelines.running.executor.local_workers = lambda _: 2\n"
        "pipelines.run(pipelines.load_config(pathlib.Path(__file__).parent / 'small.toml'))\n",
        encoding="utf-8",
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "does not start (RuntimeError): threads" in done.stderr
    assert sorted(path.name for path in (tmp_path / "release").iterdir()) == ["confidential", "public"]


def test_an_error_on_a_worker_says_nothing_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard, which every user of the machine can open, shows the texts of errors; a log arguments."""

    class Broken(BatchWork):
        def __init__(self) -> None: ...

        def do(self, *_: object) -> None:
            raise KeyError("CANARY lives in 440070001001000")

    monkeypatch.setattr(drawing, "_scratch", lambda: tmp_path)
    sent = _Confidential(np.full((3, 1), 4400700), bytes(range(32)), secure=False)
    assert "4400700" not in repr(sent)
    assert "31" not in repr(sent)
    for task in ("draw", "measure"):
        with pytest.raises(RuntimeError, match=rf"^batch 3: {task} failed \(KeyError\)$") as caught:
            _work(dict(code_in_use()), Broken(), task, 3, sent)  # type: ignore[arg-type]
        assert caught.value.__context__ is None, "Dask would send what it quotes to the scheduler"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("addresses", "refused"),
    [
        (["tls://10.0.0.1:8786", "tls://10.0.0.1:8786", "tls://10.0.0.2:34567"], None),
        (["tcp://127.0.0.1:8786", "inproc://127.0.0.1/1/1", "tcp://[::1]:34567"], None),
        (["tls://10.0.0.1:8786", "tcp://10.0.0.1:8787", "tls://10.0.0.2:34567"], "tcp://10.0.0.1:8787"),
        (["tls://10.0.0.1:8786", "tls://10.0.0.1:8786", "tcp://127.evil:34567"], "tcp://127.evil:34567"),
        (["tls://10.0.0.1:8786", "tcp://127.0.0.1:1@evil:2", "tls://10.0.0.2:34567"], "tcp://evil:2"),
    ],
)
def test_homes_are_sent_encrypted_or_not_at_all(
    addresses: list[str], refused: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, cluster, worker = addresses
    identity = {"address": cluster, "workers": {worker: {"nthreads": 3}}}
    monkeypatch.setattr(drawing, "_cluster_now", lambda _: identity)
    monkeypatch.setattr(drawing, "_wait_limit", lambda: 1.0)
    asked: Any = SimpleNamespace(scheduler=SimpleNamespace(address=client), status="running")
    if refused is None:
        assert drawing._refuse_unencrypted(asked) == 3
        return
    with pytest.raises(ConnectionError, match=r"this cluster has no TLS\. Fix: start") as caught:
        drawing._refuse_unencrypted(asked)
    assert caught.value.filename == refused
