"""A real Dask cluster: the same bytes as with threads, also when a worker is killed in the middle."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, Future, LocalCluster
from distributed.utils import get_mp_context

import pipelines
import synth
from helpers import Said, freeze
from pipelines.planning import simulation
from pipelines.running import executor as drawing
from pipelines.running import run as releasing
from pipelines.running.batches import RunBatches
from pipelines.running.folder import RunFolder

from .helpers import (
    GEOMETRIC,
    KILLING,
    Configs,
    but_for_the_debit,
    cluster_of_processes,
    everything,
    interrupted,
    seeded,
)

pytestmark = KILLING
BATCHES = {"run.batch_jobs": 20}


# What a worker loads: whatever Python does with a path below that of all tests ends the worker.
BLIND = """
import os, sys
def look(event, arguments):
    for each in arguments:
        if isinstance(each, (str, bytes)) and os.fsdecode(each).startswith(os.environ["HIDDEN"]):
            os._exit(9)
def dask_setup(worker):
    sys.addaudithook(look)
"""


@pytest.fixture(scope="module", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Fork workers from a process that has imported what they need, which takes each of them seconds."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["pipelines.running.run", "distributed.nanny"])
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two workers that end where they look at a disk that is not theirs."""
    own = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    hidden = {"HIDDEN": str(tmp_path_factory.getbasetemp())}
    with (
        tempfile.TemporaryDirectory(prefix="odsynth-") as folder,
        LocalCluster(n_workers=2, local_directory=folder, preload=BLIND, env=hidden, **own) as running,
    ):
        yield running


@pytest.fixture
def many_batches(small_config: Configs) -> Configs:
    return lambda *changes: small_config(BATCHES, *changes)


def public_bytes(release: pipelines.Release) -> dict[str, bytes]:
    return everything(release.public)


@pytest.fixture(scope="module")
def threads(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The release of `many_batches` with the key of seed 1, drawn by threads."""
    folder = tmp_path_factory.mktemp("threads")
    with pytest.MonkeyPatch.context() as patch:
        freeze(patch)
        return public_bytes(seeded(pipelines.parse_config(config_text(BATCHES), folder, "small.toml")))


def on_disk(cluster: LocalCluster) -> list[Path]:
    """The files of its workers."""
    folders = [Path(worker.local_directory) for worker in cluster.workers.values() if worker.local_directory]
    assert folders
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def test_workers_that_see_no_disk_give_the_bytes_of_threads(
    many_batches: Configs, cluster: LocalCluster, threads: dict[str, bytes], frozen_day: None
) -> None:
    processes = [worker.pid for worker in cluster.workers.values()]
    for changes in ({}, GEOMETRIC):
        drawn = public_bytes(seeded(many_batches(changes))) if changes else threads
        release = seeded(many_batches(changes), scheduler=cluster.scheduler_address)
        assert public_bytes(release) == drawn
        assert not list(release.out.rglob("run.key"))
    assert [worker.pid for worker in cluster.workers.values()] == processes
    assert not [path for path in on_disk(cluster) if b"RunKey" in path.read_bytes()]


def test_tiers_and_refined_releases_are_those_of_threads(
    many_batches: Configs, cluster: LocalCluster, frozen_day: None, tmp_path: Path
) -> None:
    made = []
    for name, scheduler in (("threads", None), ("cluster", cluster.scheduler_address)):
        ledger = {"file": str(tmp_path / f"{name}.sqlite"), "data_set": "jobs", "epsilon": "9", "delta": "0"}
        tiers = {"tiers": {"public": "1", "secure": "4"}, "privacy.epsilon": "4", "privacy.delta": "0"}
        config = many_batches(GEOMETRIC, tiers, {"ledger": ledger, "release.out": str(tmp_path / name)})
        release = seeded(config, scheduler=scheduler)
        key = synth.RunKey.from_seed(2)
        refined = pipelines.refine(release.out, "8", key=key, scheduler=scheduler)
        made.append([everything(release.out / "tiers"), but_for_the_debit(refined.public)])
    assert made[0] == made[1]


def test_few_batches_are_in_the_memory_of_the_scheduler(
    many_batches: Configs, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, keep, waiting, most = Client.submit, RunBatches.keep, set[int](), 0

    def sent(self: Client, function: Any, *arguments: Any, **named: Any) -> Future:
        nonlocal most
        if function is drawing._work:
            waiting.add(arguments[3])
            most = max(most, len(waiting))
        return submit(self, function, *arguments, **named)

    def kept(self: RunBatches, task: Any, batch: int, files: Any) -> None:
        waiting.remove(batch)
        keep(self, task, batch, files)

    monkeypatch.setattr(Client, "submit", sent)
    monkeypatch.setattr(RunBatches, "keep", kept)
    seeded(many_batches(), scheduler=cluster.scheduler_address)
    assert most == 4  # two for each thread


@pytest.mark.parametrize("mechanism", ["dirichlet", "geometric"])
def test_a_cluster_plans_as_threads_do(
    mechanism: str, small_config: Configs, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    call = drawing._ClusterMap.__call__

    def seen(self: Any, function: Any, items: Any) -> list[Any]:
        asked.extend([type(function).__name__] * len(items))
        assert str(config.release.out.parent).encode() not in pickle.dumps((function, items))
        return call(self, function, items)

    monkeypatch.setattr(drawing._ClusterMap, "__call__", seen)
    free = {"plan.split_threshold": None, "plan.retention_min": None}
    config = small_config(
        free, {"release.mechanism": mechanism, "workload": [{"home": "trct", "work": "trct"}]}
    )
    found = []
    for scheduler in (None, cluster.scheduler_address):
        assert not asked
        out = config.release.out.with_name(f"plan-{len(found)}")
        pipelines.plan(config, out, scheduler=scheduler)
        found.append((out / "forecast.json").read_bytes())
    assert found[0] == found[1]  # of the plan its hash
    assert asked.count("Trial") > 4
    # In each world with noise and without.
    assert asked.count("_BatchTrial") == (2 * simulation._MOST_WORLDS if mechanism == "geometric" else 0)


def test_workers_with_other_code_do_nothing(
    many_batches: Configs, frozen_day: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate says what the code is that drew."""
    other, root = tmp_path / "other", Path(pipelines.__file__).parents[1]
    for package in ("synth", "geo_data", "pipelines"):
        shutil.copytree(root / package, other / package, ignore=shutil.ignore_patterns("node_modules"))
    with (other / "synth/dirichlet/urn.py").open("a", encoding="utf-8") as urn:
        urn.write("# one more line\n")
    config = many_batches()
    with cluster_of_processes(tmp_path, path=other) as (address, *_):
        words = r"has other code than this process: code of odsynth \w{16} \(here \w{16}\)"
        with drawing.trying_on(address) as call:
            assert call is not None
            with pytest.raises(ConnectionError, match=f"{words}; nothing was paid. Fix: install"):
                call((tmp_path / "done").touch, [0o600])
        with pytest.raises(ConnectionError, match=f"worker .*: it {words}. Fix: install"):
            seeded(config, scheduler=address)
        monkeypatch.setattr(releasing, "try_workers", lambda *_: None)  # as of a worker that joins later
        with pytest.raises(ConnectionError, match=f"{words}; what was drawn is kept. Fix: .* and resume"):
            seeded(config, scheduler=address)
    assert not (tmp_path / "done").exists()
    assert not [part for part in RunFolder.of(config.release.out).parts.rglob("*") if part.is_file()]


def die_once(mark: Path, number: int) -> int:
    with suppress(FileExistsError):
        mark.touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    return number**2


def test_a_worker_killed_while_planning_changes_nothing(tmp_path: Path) -> None:
    """The only one there was: what was sent to it goes to the next, too."""
    own = {"threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=1, **own) as alone,
        drawing.trying_on(alone.scheduler_address) as call,
    ):
        assert call is not None
        squares = call(partial(die_once, tmp_path / "died"), range(4))
    assert squares == [0, 1, 4, 9]
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("lost", [1, 2])
def test_a_killed_worker_changes_no_byte(
    lost: int,
    many_batches: Configs,
    cluster: LocalCluster,
    threads: dict[str, bytes],
    frozen_day: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two; where both are, what they had drawn and what their tasks share is gone with them."""
    finished, killed = drawing._finished, list[int]()

    def kill(client: Client, futures: list[Future], *more: Any) -> Iterator[Future]:
        for future in finished(client, futures, *more):
            if more and not killed:
                killed.extend(worker.pid for worker in [*cluster.workers.values()][:lost])
                for worker in killed:
                    os.kill(worker, signal.SIGKILL)
            yield future

    monkeypatch.setattr(drawing, "_finished", kill)
    release = seeded(many_batches(), scheduler=cluster.scheduler_address)
    assert killed
    assert public_bytes(release) == threads
    assert sorted(path.name for path in release.out.iterdir()) == ["confidential", "public"]


# A child is killed (-9) after two batches of a release on the cluster, whose workers may still draw what it
# had asked for; its parent resumes it there at once, and makes the same release with threads.
CLIENT = """
import os, signal, sys
from pathlib import Path
import synth
from pipelines import load_config, resume, run
from pipelines.running import executor, run as releasing
from pipelines.running.folder import RunFolder

completed = executor._finished
releasing.time_now = lambda: "2026-01-02T03:04:05Z"

def two(client, futures, *more):
    for number, future in enumerate(completed(client, futures, *more)):
        if more and number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        yield future

whole, killed, address = sys.argv[1:]
if (child := os.fork()) == 0:
    executor._finished = two
    run(load_config(killed), key=synth.RunKey.from_seed(1), scheduler=address)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
out = Path(killed).with_name("release")
assert RunFolder.of(out).begun and not out.exists()
resume(out, scheduler=address)
run(load_config(whole), key=synth.RunKey.from_seed(1))
"""


def test_a_killed_client_changes_no_byte(
    config_text: Callable[..., str], cluster: LocalCluster, tmp_path: Path
) -> None:
    configs = []
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
        configs.append(tmp_path / name / "small.toml")
        configs[-1].write_text(config_text(BATCHES))
    command = [sys.executable, "-c", CLIENT, *map(str, configs), cluster.scheduler_address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    whole, killed = (config.with_name("release") for config in configs)
    assert everything(killed / "public") == everything(whole / "public")
    assert sorted(path.name for path in killed.iterdir()) == ["confidential", "public"]


def test_what_a_cluster_began_threads_can_finish(
    many_batches: Configs, cluster: LocalCluster, threads: dict[str, bytes], frozen_day: None
) -> None:
    """And nothing confidential is on the disks of workers."""
    config = many_batches()
    interrupted(config, scheduler=cluster.scheduler_address)
    assert public_bytes(pipelines.resume(config.release.out)) == threads
    assert not [path for path in on_disk(cluster) if path.suffix == ".npy"]


@pytest.mark.deep
def test_a_large_run_on_many_cores_has_a_cluster_of_its_own(
    many_batches: Configs,
    threads: dict[str, bytes],
    frozen_day: None,
    monkeypatch: pytest.MonkeyPatch,
    said: Said,
) -> None:
    monkeypatch.setattr(drawing, "local_workers", lambda _: 2)
    opened: list[tuple[str, str]] = []
    client_of = drawing._client

    @contextmanager
    def seen(*arguments: Any) -> Iterator[Any]:
        with client_of(*arguments) as client:
            workers = client.scheduler_info()["workers"]
            opened.extend((address, worker["local_directory"]) for address, worker in workers.items())
            yield client

    monkeypatch.setattr(drawing, "_client", seen)
    config = many_batches()
    release = seeded(config)
    assert public_bytes(release) == threads
    assert [line for line in said if line.startswith("Dask dashboard: http://127.0.0.1:")]
    assert len(opened) == 2
    for address, folder in opened:  # encrypted, and nothing outside of the private folder
        assert address.startswith("tls://127.0.0.1")
        assert Path(folder).is_relative_to(RunFolder.of(config.release.out).folder)
    assert sorted(path.name for path in release.out.iterdir()) == ["confidential", "public"]
