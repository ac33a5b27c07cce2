"""Workers that do not see the disk of a run, and get from an object store what they draw from."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import dask
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import pipelines
from pipelines.running import run as releasing
from pipelines.running.folder import RunFolder
from pipelines.running.store import RunStore
from pipelines.running.unfinished import unfinished_runs, wipe_run

from .helpers import (
    BUCKET,
    FULL,
    KILLING,
    SECRETS,
    TABLES,
    Configs,
    Table,
    cluster_of_processes,
    everything,
    failing,
    interrupted,
    kill_when_drawing,
    left_over,
    seeded,
)

pytestmark = KILLING
STORE = f"s3://{BUCKET}/secret"
# What a worker loads: whatever Python does with a path of the run's folder ends the worker.
BLIND = """
import os, sys
HIDDEN = os.environ["HIDDEN"]
def look(event, arguments):
    for each in arguments:
        if isinstance(each, (str, bytes)) and os.fsdecode(each).startswith(HIDDEN):
            os._exit(9)
def dask_setup(worker):
    sys.addaudithook(look)
"""


@pytest.fixture
def batches(paid_config: Configs) -> Configs:
    return lambda *changes: paid_config({"run.batch_jobs": 20}, *changes)


@pytest.fixture
def blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What starts a cluster of two workers that do not see the folder in which a release is made."""

    def start(config: pipelines.ReleaseConfig, script: str = BLIND) -> Any:
        folder = tmp_path / "cluster"
        folder.mkdir()
        (preload := folder / "blind.py").write_text(script)
        monkeypatch.setenv("HIDDEN", str(RunFolder.of(config.release.out).folder))
        return cluster_of_processes(folder, 2, "--preload", str(preload))

    return start


def objects(bucket: Any) -> list[str]:
    # Of the whole bucket: of a folder s3fs lists itself where its first object comes while it looks.
    bucket.invalidate_cache()
    return [str(name) for name in bucket.find(BUCKET) if name.startswith(f"{BUCKET}/secret/")]


def confidential(bucket: Any) -> list[str]:
    return [name for name in objects(bucket) if "/parts/" not in name]


@pytest.mark.parametrize("mechanism", [{}, TABLES], ids=["resampling", "tables"])
def test_a_release_by_way_of_a_store_is_that_of_threads(
    mechanism: Table, bucket: Any, batches: Configs, blind: Any, frozen_day: None
) -> None:
    local = seeded(batches(mechanism))
    config = batches(mechanism, {"run.confidential_store": STORE})
    with blind(config) as (address, _, workers):
        release = seeded(config, scheduler=address)
        assert [worker.poll() for worker in workers] == [None, None]
    assert everything(release.public) == everything(local.public)
    assert objects(bucket) == []
    for content in everything(release.out).values():
        assert not any(secret.encode() in content for secret in SECRETS)
    assert not any(BUCKET.encode() in content for content in everything(release.public).values())


def test_workers_that_see_no_disk_need_the_store(batches: Configs, blind: Any) -> None:
    """Or the test above says nothing."""
    config = batches()
    quick = {"distributed.scheduler.no-workers-timeout": "6s"}
    with blind(config) as (address, _, workers), dask.config.set(quick):
        with pytest.raises(ConnectionError, match="what was drawn is kept"):
            seeded(config, scheduler=address)
        assert [worker.wait(60) for worker in workers] == [9, 9]


@pytest.mark.parametrize("lost", ["a worker", "the scheduler"])
def test_what_is_killed_changes_no_byte(
    lost: str, bucket: Any, batches: Configs, blind: Any, frozen_day: None, book: Path
) -> None:
    local = everything(seeded(batches()).public)
    config = batches({"run.confidential_store": STORE})
    out = config.release.out
    with blind(config) as (address, scheduler, workers):
        thread = kill_when_drawing(config, workers[0] if lost == "a worker" else scheduler)
        if lost == "a worker":
            seeded(config, scheduler=address)
        else:
            with pytest.raises(ConnectionError, match=r"the Dask scheduler is gone .*what was drawn is kept"):
                seeded(config, scheduler=address)
            assert not confidential(bucket)
            pipelines.resume(out)
        thread.join()
    assert everything(out / "public") == local
    assert objects(bucket) == []
    assert [account.debits for account in pipelines.Ledger(book).accounts()] == [2]


@pytest.mark.parametrize("mechanism", [{}, TABLES], ids=["resampling", "tables"])
def test_a_run_whose_batches_are_all_drawn_is_resumed_there(
    mechanism: Table, bucket: Any, batches: Configs, blind: Any, frozen_day: None
) -> None:
    config = batches(mechanism, {"run.confidential_store": STORE})
    with blind(config) as (address, *_):
        interrupted(config, scheduler=address)
        assert objects(bucket) == []
        resumed = pipelines.resume(config.release.out, scheduler=address)
    assert objects(bucket) == []
    assert everything(resumed.public) == everything(seeded(batches(mechanism)).public)


KILLED = """
import sys, os
from pipelines.running.store import RunStore
take = RunStore.take
def killed(self, *arguments):
    take(self, *arguments)
    os._exit(9)
RunStore.take = killed
import pipelines
pipelines.run(pipelines.load_config(sys.argv[1]), scheduler=sys.argv[2])
"""


def test_what_a_killed_run_left_in_the_store_is_removed(
    bucket: Any, config_text: Any, blind: Any, tmp_path: Path
) -> None:
    """By who resumes it, with or without a cluster; and by who gives it up."""
    file = tmp_path / "small.toml"
    file.write_text(config_text({"run.batch_jobs": 20, "run.confidential_store": STORE}))
    config = pipelines.load_config(file)
    with blind(config) as (address, *_):
        for end in ("resumed", "resumed there", "given up"):
            command = [sys.executable, "-c", KILLED, str(file), address]
            assert subprocess.run(command, check=False).returncode == 9
            left = objects(bucket)
            assert {name.split("/")[3] for name in left} >= {"confidential", "homes", "plan.tar"}
            assert len({name.split("/")[2] for name in left}) == 1
            (run,) = unfinished_runs(config.release.out)
            assert f"what workers got from {STORE}/{left[0].split('/')[2]}" in run.holds
            if end == "given up":
                wipe_run(run)
                assert not config.release.out.exists()
            else:
                # By a process of its own, as fixtures may have changed what this one says of its version.
                code = "import sys, pipelines; pipelines.resume(sys.argv[1], scheduler=sys.argv[2] or None)"
                where = address if "there" in end else ""
                subprocess.run([sys.executable, "-c", code, str(config.release.out), where], check=True)
                assert sorted(path.name for path in config.release.out.iterdir()) == [
                    "confidential",
                    "public",
                ]
                config.release.out.rename(tmp_path / end)
            assert objects(bucket) == []


def test_a_store_that_cannot_be_used_costs_nothing(
    bucket: Any, batches: Configs, blind: Any, book: Path
) -> None:
    config = batches({"run.confidential_store": "s3://no-such-bucket/secret"})
    with blind(config) as (address, *_):
        with pytest.raises(
            ConnectionError, match="the confidential store of the run cannot be used"
        ) as caught:
            seeded(config, scheduler=address)
        assert caught.value.filename == "s3://no-such-bucket/secret"
    assert not any(secret in str(caught.value) for secret in SECRETS)
    assert not book.exists()
    assert left_over(config) == []


def test_a_full_disk_of_a_worker_is_not_blamed_on_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(MemoryFileSystem, "get_file", FULL, monkeypatch)
    with pytest.raises(OSError, match="No space left on device") as caught:
        RunStore("memory://secret/3f").unpack("plan.tar", tmp_path / "plan")
    assert caught.value.filename == str(tmp_path)


REFUSED = BLIND.replace("os._exit(9)", 'raise PermissionError(13, "Permission denied")')
NO_CREDENTIALS = """
import os
os.environ.pop("AWS_SECRET_ACCESS_KEY", None)
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
"""
ANOTHER = """
import fsspec
from fsspec.implementations.memory import MemoryFileSystem
fsspec.register_implementation("s3", MemoryFileSystem, clobber=True)
"""


@pytest.mark.parametrize(
    ("script", "store", "says"),
    [
        (REFUSED, None, r"\.release\.unfinished: Permission denied\. Fix: let workers see it"),
        (
            NO_CREDENTIALS,
            STORE,
            r"secret: the confidential store .*\(PartialCredentialsError\)\. Fix: check run",
        ),
        (ANOTHER, STORE, r"secret: this is another store than that of the process that makes the release"),
    ],
    ids=["disk", "store", "another store"],
)
def test_workers_that_cannot_use_what_they_draw_from_cost_nothing(
    script: str, store: str | None, says: str, bucket: Any, batches: Configs, blind: Any, book: Path
) -> None:
    config = batches({"run.confidential_store": store} if store else {})
    with (
        blind(config, script) as (address, *_),
        pytest.raises(
            ConnectionError, match=rf"^\[Errno \d+\] worker tcp://\S+ of the Dask cluster: .*{says}"
        ),
    ):
        seeded(config, scheduler=address)
    assert not book.exists()
    assert left_over(config) == []
    assert objects(bucket) == []


def test_a_folder_of_the_same_path_on_another_disk_is_no_folder_of_the_run(batches: Configs) -> None:
    staging = RunFolder.of(batches().release.out)
    with staging.fresh():
        with staging.marked() as marker:
            staging.check(marker)
        with pytest.raises(FileNotFoundError, match="let workers see it under the same path") as caught:
            staging.check(marker)
    assert caught.value.filename == str(staging.folder)


def test_workers_that_come_while_it_is_planned_are_tried_before_it_is_paid(
    batches: Configs, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, answers = batches(), iter([None])
    monkeypatch.setattr(releasing, "try_workers", lambda *_: next(answers))
    with pytest.raises(StopIteration):
        seeded(config)
    assert (book.exists(), left_over(config)) == (False, [])


def test_a_part_that_comes_back_damaged_is_refused(
    bucket: Any, batches: Configs, blind: Any, frozen_day: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = batches({"run.confidential_store": STORE})
    unpack = RunStore.unpack

    def damaged(self: RunStore, name: str, folder: Path) -> None:
        unpack(self, name, folder)
        file = next(path for path in folder.rglob("*.parquet"))
        file.write_bytes(file.read_bytes()[:-1])

    with blind(config) as (address, *_):
        with monkeypatch.context() as patch:
            patch.setattr(RunStore, "unpack", damaged)
            with pytest.raises(ConnectionError, match=r"did not come back as it was. Fix: resume"):
                seeded(config, scheduler=address)
        assert not confidential(bucket)
        resumed = pipelines.resume(config.release.out, scheduler=address)
    assert everything(resumed.public) == everything(seeded(batches()).public)


@pytest.mark.parametrize(
    "address", [f"s3://{':'.join(SECRETS)}@{BUCKET}/x", "https://a/b", "secret", 3, f"{STORE}?x"]
)
def test_an_address_that_is_none_is_refused(address: object, batches: Configs) -> None:
    with pytest.raises(
        pipelines.ConfigError, match=r"run.confidential_store: this is not the address"
    ) as caught:
        batches({"run.confidential_store": address})
    assert not any(secret in str(caught.value) for secret in SECRETS)
