"""Workers with processes of their own: whoever is killed, the run is finished, and paid for once."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import runpy
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from distributed import LocalCluster
from fastapi import Response
from sqlalchemy import select

import pipelines
from helpers import has_ended, wait_for
from pipelines.plans.form import plan_hash
from pipelines.running.folder import RunFolder
from pipelines.running.payment import debits_of
from pipelines.service.operators import api
from pipelines.service.operators.models import ComparisonAsked, RowAsked
from pipelines.service.queue import claims, progress, worker_process, workers
from pipelines.service.queue import runs as life
from pipelines.service.queue.comparisons import VariedTable
from pipelines.service.queue.progress import Progress
from pipelines.service.queue.worker_process import check_plan, keep_plan, without_paths
from pipelines.service.queue.workers import COMMAND
from pipelines.service.store import Store, runs

from ..helpers import ANN, BOB, World, desk_of, state, words

# A service in a process of its own, without the web: its workers, until it is told to end.
SERVER = """\
import signal, sys, threading
from pathlib import Path
from pipelines.service import Store, load_settings
from pipelines.service.queue.workers import Workers
settings = load_settings(None)
service = Workers(settings, Store.open(settings.database), command=(sys.executable, sys.argv[1]), lease=2)
ending = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ending.set())
service.start()
print("started", flush=True)
while not ending.wait(1):  # a signal that another thread was given ends no wait
    pass
service.stop()
print("stopped", flush=True)
"""
PLANNED = json.dumps({"done": {"plan": "{}"}})


@pytest.fixture
def store(world: World) -> Iterator[Store]:
    opened = Store.open(world.settings.database)
    yield opened
    opened.close()


@pytest.mark.deep  # test_browser_walk.py goes the same way, without a comparison before and a changed file
def test_a_run_from_its_dry_run_to_its_publication(
    world: World, store: Store, small_region: dict[str, Path]
) -> None:
    """From a comparison, which reads no home; and a public file that changed after the plan was reviewed.

    That is refused, until it is as it was.
    """
    read = world.input.with_name("population.csv")
    read.write_bytes(small_region["population"].read_bytes())
    world.input.write_text(world.input.read_text().replace(str(small_region["population"]), str(read)))
    jobs = world.input.with_name("jobs.csv.gz")
    whole = pd.read_csv(shutil.copy(small_region["od"], jobs), dtype="str")
    whole.assign(h_geocode="CANARYhome").to_csv(jobs, index=False)
    world.input.write_text(world.input.read_text().replace(str(small_region["od"]), str(jobs)))
    workload = ((VariedTable(home="trct", weight="2"),),)
    asked = ComparisonAsked(input="small", epsilon=("4", "8.6"), workload=workload)
    desk = desk_of(store, world.settings, ANN)
    compared = api.submit_comparison(Response(), asked, desk).id
    with world.at_work(store):
        wait_for(lambda: state(store, compared) == "compared")
        rows = json.loads(life.get_run(store, compared).comparison)["rows"]
        assert [row["epsilon"] for row in rows] == ["4", "8.6"]
        # Of one draw of 600 jobs: which of the two loses less is chance.
        assert all(0 < row["objective"] < 1 for row in rows)
        assert [table["table"] for table in rows[1]["tables"]] == ["residents of trct"]
        picture = world.settings.outs / f"run-{compared:06}-comparison" / "frontier.png"
        assert picture.read_bytes().startswith(b"\x89PNG")
        whole.to_csv(jobs, index=False)
        run = api.submit_row(Response(), compared, RowAsked(row=2, version="v1"), desk).id
        wait_for(lambda: state(store, run) == "planned")
        plan = json.loads(life.get_run(store, run).plan)
        assert float(plan["epsilon"]) <= 8.6
        assert 0 < plan["total_variation"] < 1
        assert not world.ledger.exists()  # nothing is spent by it
        with read.open("a") as file:
            file.write("\n")
        life.queue(store, ANN, run, plan["plan_sha256"])
        wait_for(lambda: state(store, run) == "failed")
        row = life.get_run(store, run)
        assert row.message.startswith("weights.file population.csv: changed since the plan was made")
        assert not world.ledger.exists()
        read.write_bytes(small_region["population"].read_bytes())
        life.retry(store, ANN, run)
        wait_for(lambda: state(store, run) == "finished")
        assert (
            world.plans() == 3
        )  # two were compared; what was reviewed is released, and is not planned again
        out = world.settings.outs / f"run-{run:06}"
        row = life.get_run(store, run)
        assert row.content == hashlib.sha256((out / "public" / "SHA256SUMS").read_bytes()).hexdigest()
        assert json.loads(row.certificate) == json.loads((out / "public" / "certificate.json").read_text())
        assert json.loads(row.certificate)["plan_sha256"] == plan["plan_sha256"]
        assert not list(world.settings.releases.iterdir())
        life.decide(store, BOB, run, "approved", row.content)
        wait_for(lambda: state(store, run) == "published")
    (version,) = pipelines.published(world.settings.releases)
    row = life.get_run(store, run)
    assert (version.status, version.sha256) == ("complete", row.content)
    assert (version.name, version.version) == (row.published_name, row.published_version)
    assert version.version == "v1"
    (account,) = pipelines.Ledger(world.ledger).accounts()
    assert (account.debits, account.unfinished) == (1, 0)
    steps = [event.text for event in life.list_events(store, run) if event.event == "step"]
    assert steps == [
        "Reading public inputs",
        "Choosing cells and pools, and planning",
        "Trying the plan on homes drawn from the public model",
        "Reading the plan",
        "Certifying the plan",
        "Reading the confidential origins",
        "Drawing synthetic workers",
        "Writing the release",
        "Describing the release",
        "Checking the release",
        "Verifying and copying the public files",
    ]
    log = world.settings.outs / f"run-{run:06}.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "CANARYprinted" in log.read_text()  # what a process prints is kept, for the server's console only
    with store.read() as connection:
        kept = str(connection.execute(select(runs.c.plan, runs.c.certificate, runs.c.message)).all())
        kept += str(life.list_events(store, run))
    assert "CANARY" not in kept


@pytest.mark.deep
def test_killed_at_any_point_with_or_without_the_service(world: World, store: Store) -> None:
    """The process after the debit, the service while it writes, both after the last rename: one debit."""
    run = world.submit(store, ANN, dry_run=False)
    out = world.settings.outs / f"run-{run:06}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ODSYNTH_")}
    environment |= {"ODSYNTH_FOLDER": str(world.settings.folder), "ODSYNTH_INPUTS__SMALL": str(world.input)}

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SERVER, str(world.folder / "worker.py")]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    world.hold("debit")
    server = start()
    held = world.held()
    world.hold("write_public")
    os.kill(held, signal.SIGKILL)  # the process alone: the service goes on with the run
    held = world.held()
    assert held != 0
    assert RunFolder.of(out).begun
    server.kill()  # the service alone: its process ends with it
    server.communicate()
    wait_for(lambda: has_ended(held))
    assert not out.exists()
    assert state(store, run) == "running"
    world.hold("_put_in_place")
    server = start()
    held = world.held()
    assert out.exists()  # the release is in its place, and neither ledger nor service know
    os.kill(held, signal.SIGKILL)
    server.kill()
    server.communicate()
    world.release_hold()
    server = start()
    wait_for(lambda: state(store, run) == "finished")
    server.terminate()
    said, _ = server.communicate()
    assert server.returncode == 0
    assert said.splitlines() == ["started", "stopped"]
    (account,) = pipelines.Ledger(world.ledger).accounts()
    assert (account.debits, account.unfinished) == (1, 0)
    kinds = [entry.kind for entry in pipelines.Ledger(world.ledger).entries()]
    assert kinds.count("debit") == kinds.count("finished") == 1
    pipelines.Ledger(world.ledger).verify(witness=debits_of([out]))
    list(pipelines.verify(out / "public"))
    events = words(store, run).replace(" step", "")
    assert events == "queued begun interrupted resumed resumed resumed finished"


@pytest.mark.slow
def test_a_failure_is_named_without_a_path_or_a_value(world: World, store: Store) -> None:
    text = world.input.read_text()
    jobs = world.input.with_name("jobs CANARYfolder")
    jobs.mkdir()
    (jobs / "jobs.csv").write_text("h_geocode,w_geocode,S000\nCANARY440070001,CANARY44,1\n")
    old = next(line for line in text.splitlines() if line.startswith("file") and "_od_" in line)
    world.input.write_text(text.replace(old, f'file = "{jobs}/jobs.csv"'))
    run = world.submit(store, ANN, dry_run=False)
    with world.at_work(store):
        wait_for(lambda: state(store, run) == "failed")
    row = life.get_run(store, run)
    assert row.error == "InputError"
    assert row.message.startswith("jobs.csv")
    assert "CANARY" not in row.message
    assert "/" not in row.message
    assert not world.ledger.exists()


@pytest.mark.deep
# What distributed itself leaves behind.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_run_draws_on_a_cluster_and_is_not_paid_for_where_none_answers(
    world: World, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "1s")  # of the worker process
    world.settings = world.settings.model_copy(update={"scheduler": "tcp://127.0.0.1:1"})
    run = world.submit(store, ANN, dry_run=False)
    with world.at_work(store):
        wait_for(lambda: state(store, run) == "failed")
    row = life.get_run(store, run)
    assert "no Dask scheduler can be used at the address given" in row.message
    assert not world.ledger.exists()
    with LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", dashboard_address="127.0.0.1:0"
    ) as cluster:
        assert cluster.scheduler_address.startswith("tcp://")
        world.settings = world.settings.model_copy(update={"scheduler": cluster.scheduler_address})
        life.retry(store, ANN, run)
        with world.at_work(store):
            wait_for(lambda: state(store, run) in ("finished", "failed"))
        assert "draw" in cluster.scheduler.task_prefixes
    assert state(store, run) == "finished"
    assert pipelines.Ledger(world.ledger).accounts()[0].debits == 1


# --- what the threads do, with processes that only say something


def after(mark: Path, code: str) -> str:
    """The code of a process that waits until there is a file."""
    return f"import os\nwhile not os.path.exists({str(mark)!r}): time.sleep(0.01)\n{code}"


def test_two_services_do_one_run_of_a_data_set_at_a_time(world: World, store: Store) -> None:
    done = {"done": {"certificate": "{}", "content": "c" * 64}}
    code = f"time.sleep(0.1); print({json.dumps(done)!r})"
    made = [world.submit(store, ANN, dry_run=False) for _ in range(4)]
    other = Store.open(world.settings.database)
    with world.at_work(store, code), world.at_work(other, code):
        wait_for(lambda: life.counts(store) == {"finished": 4})
    other.close()
    begun_and_finished = [[event.id for event in life.list_events(store, run)][1:] for run in made]
    assert all(len(each) == 2 for each in begun_and_finished)  # each by one of the two, once
    spans = sorted(begun_and_finished)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(spans))


def test_a_name_that_was_published_meanwhile_is_not_paid_for(
    world: World, store: Store, small_release: pipelines.Release
) -> None:
    """On the command line, of which the queue knows nothing: the worker looks before the debit."""
    run = world.submit(store, ANN, version="v1", dry_run=False)
    pipelines.publish(small_release.out, world.settings.releases, version="v1")
    with world.at_work(store):
        wait_for(lambda: state(store, run) == "failed")
    assert "v1 stands for another content. Fix: " in life.get_run(store, run).message
    assert not world.ledger.exists()
    assert life.close(store, ANN, run).state == "closed"


def test_a_process_that_fails_without_a_word_is_interrupted(world: World, store: Store) -> None:
    run = world.submit(store, ANN)
    with world.at_work(store, "print('CANARY no JSON', flush=True); sys.exit(3)", look=0.05):
        wait_for(lambda: state(store, run) == "failed")
    row = life.get_run(store, run)
    assert (row.error, row.message) == ("Interrupted", "its worker was interrupted 5 times")


def test_a_busy_release_is_waited_for(world: World, store: Store) -> None:
    run = world.submit(store, ANN)
    with world.at_work(store, "sys.exit(75)", look=0.05, lease=0.2):
        wait_for(lambda: len(life.list_events(store, run)) >= 15)
    assert state(store, run) == "planning"  # more than five times, and not failed


def test_a_long_task_keeps_its_lease(
    world: World, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that this test sets: by the true one, a busy machine may take longer than a lease."""
    now = 0
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(claims, "utc_now", lambda: at(now))
    monkeypatch.setattr(claims, "after", lambda seconds: at(now + seconds))
    mark, run, how = tmp_path / "ending", world.submit(store, ANN), {"lease": 60, "look": 0.05}
    code = after(mark, f"print({PLANNED!r})")

    def renewed() -> bool:
        return bool(life.get_run(store, run).leased_until == at(now + 60))

    with world.at_work(store, code, **how), world.at_work(store, code, **how):
        while now < 200:
            wait_for(renewed)
            now += 50
        mark.touch()
        wait_for(lambda: state(store, run) == "planned")
    assert words(store, run) == "submitted begun planned"


def test_a_worker_that_lost_its_lease_ends_its_process(world: World, store: Store, tmp_path: Path) -> None:
    mark, run = tmp_path / "pid", world.submit(store, ANN)
    code = f"import os; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    with world.at_work(store, code, lease=1):
        wait_for(lambda: mark.exists() and mark.read_text())
        with store.write() as connection:
            connection.execute(runs.update().values(lease="another's", leased_until="9999"))
        wait_for(lambda: has_ended(int(mark.read_text())))
    assert state(store, run) == "planning"


def test_the_end_of_the_service_gives_the_run_back(world: World, store: Store) -> None:
    run = world.submit(store, ANN)
    with world.at_work(store, "time.sleep(600)", grace=0.2) as workers:
        wait_for(lambda: state(store, run) == "planning")
        assert workers.alive
    assert not workers.alive
    row = life.get_run(store, run)
    assert (row.state, row.attempts) == ("planning", 0)
    assert row.leased_until <= time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1))


def test_what_is_nearly_done_at_the_end_of_the_service_is_finished(
    world: World, store: Store, tmp_path: Path
) -> None:
    """Though it outlasts the look that the worker was taking when the end came."""
    mark, run = tmp_path / "ending", world.submit(store, ANN)
    with world.at_work(store, after(mark, f"time.sleep(0.4); print({PLANNED!r})")):
        wait_for(lambda: state(store, run) == "planning")
        mark.touch()
    assert state(store, run) == "planned"


def test_the_program_of_workers_starts_without_a_warning() -> None:
    """Which every run's log would begin with; `python -m` warns as this does."""
    found = runpy.run_module(COMMAND[-1], run_name="not run")
    assert found["main"] is worker_process.main


def test_a_database_that_is_away_for_a_while_ends_no_worker(world: World, store: Store) -> None:
    class Away:
        """The database, which fails when it is first asked, twice."""

        failures = 0

        def __getattr__(self, name: str) -> object:
            if self.failures < 2:
                self.failures += 1
                raise RuntimeError("CANARY")
            return getattr(store, name)

    run = world.submit(store, ANN)
    said = json.dumps({"failed": "E", "message": "m"})
    with world.at_work(Away(), f"print({said!r})", look=0.05):  # type: ignore[arg-type]
        wait_for(lambda: state(store, run) == "failed")


def test_messages_name_files_without_their_folders() -> None:
    for text, said in (
        ("/srv/conf/jobs 2019/od.csv: 3 lines", "od.csv: 3 lines"),
        ("/srv/conf/jobs 2019/new.csv: no such file", "new.csv: no such file"),
        ("see /etc/x/y.toml, '/a/b' and /c", "see y.toml, 'b' and c"),
        ("epsilon/delta, 1/2, https://example.org/a/b", "epsilon/delta, 1/2, https://example.org/a/b"),
    ):
        assert without_paths(text, ["/srv/conf/jobs 2019/od.csv"]) == said


def test_what_changed_since_the_review_is_refused_by_its_name(
    config_text: Callable[..., str], small_region: dict[str, Path], tmp_path: Path
) -> None:
    """Every public file by itself: changed, or gone. The confidential file is another matter."""
    text = config_text()
    for path in small_region.values():
        text = text.replace(str(path), str(shutil.copy(path, tmp_path)))
    config, folder = pipelines.parse_config(text, tmp_path, "small.toml"), tmp_path / "plan"
    reviewed = json.loads(json.dumps(keep_plan(config, folder)))
    assert reviewed["plan_sha256"] == plan_hash(folder / "plan")
    assert reviewed["report"] in (folder / "plan.txt").read_text()
    keys = {
        "geography.file": "crosswalk",
        "geography.polygons #1.file": "tracts",
        "auxiliary #1.file": "county_flows",
        "auxiliary #2.file": "tract_flows",
        "weights.file": "population",
    }
    names = {f"{key} {small_region[kind].name}": kind for key, kind in keys.items()}
    assert reviewed["inputs"].keys() == names.keys()
    assert {"od", "aux", *names.values()} == small_region.keys()
    check_plan(config, folder, reviewed)
    for name, kind in names.items():
        path = tmp_path / small_region[kind].name
        content = path.read_bytes()
        for change in (lambda path=path: path.write_bytes(path.read_bytes() + b"\n"), path.unlink):
            change()
            with pytest.raises(pipelines.ConfigError) as refused:
                check_plan(config, folder, reviewed)
            assert str(refused.value).startswith(f"{name}: changed after the plan was made. Fix: submit"), (
                name
            )
            path.write_bytes(content)
    check_plan(config, folder, reviewed)

    # Another plan in the place of the reviewed one, also where its own numbers agree with it.
    numbers, plan = folder / "forecast.json", folder / "plan" / "plan.json"
    for path, old, new in (
        (numbers, reviewed["plan_sha256"], "0" * 64),
        (numbers, '"epsilon": "', '"epsilon": "0'),
        (numbers, "{", ""),
        (plan, "{", "{ "),
    ):
        content = path.read_text()
        path.write_text(content.replace(old, new, 1))
        with pytest.raises(pipelines.ConfigError, match="this is not the plan that was reviewed"):
            check_plan(config, folder, reviewed)
        path.write_text(content)
    check_plan(config, folder, reviewed)
    shutil.rmtree(folder)
    with pytest.raises(pipelines.ConfigError, match="this is not the plan that was reviewed"):
        check_plan(config, folder, reviewed)


def test_all_parts_of_a_shapefile_count(
    config_text: Callable[..., str], small_region: dict[str, Path], tmp_path: Path
) -> None:
    import geopandas as gpd

    gpd.read_file(small_region["tracts"]).to_file(tmp_path / "tracts.shp")
    text = config_text({"geography.polygons.0.file": tmp_path / "tracts.shp"})
    config, folder = pipelines.parse_config(text, tmp_path, "small.toml"), tmp_path / "plan"
    reviewed = keep_plan(config, folder)
    path = tmp_path / "tracts.dbf"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(pipelines.ConfigError, match=r"^geography.polygons #1.file tracts.dbf: changed"):
        check_plan(config, folder, reviewed)


def at(second: int) -> str:
    return f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000000Z"


COUNTED = Progress(
    step="Drawing", number=4, of=6, done=10, total=20, first=5, since=at(0), at=at(50)
)  # ten seconds each


def test_a_time_is_left_only_where_it_was_measured() -> None:
    assert COUNTED.percent == 50
    assert COUNTED.seconds_left(at(50)) == 100
    assert COUNTED.seconds_left(at(70)) == 80
    for changes, now in (
        ({"done": 8}, 50),  # three parts say little
        ({"done": 20}, 50),
        ({"total": 0}, 50),  # of a step without parts
        ({}, 150),  # the next one takes longer than all that were measured let expect
    ):
        assert COUNTED.model_copy(update=changes).seconds_left(at(now)) is None


def test_the_rate_is_that_of_the_worker_that_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on after an interruption begins with parts that others have done."""
    times = iter((at(0), at(8)))
    monkeypatch.setattr(progress, "utc_now", lambda: next(times))
    counted = Progress(step="Drawing", number=1, of=3).counted(12, 20).counted(16, 20)
    assert (counted.percent, counted.seconds_left(at(8))) == (80, 8)
