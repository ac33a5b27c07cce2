"""What the tests of the service share: a service in a folder, its runs and workers, pages read strictly."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient
from sqlalchemy import Row, Table, delete, insert, update
from sqlalchemy.exc import DBAPIError

import pipelines
from helpers import PATIENCE, wait_for
from pipelines.service import ServiceSettings, Store, load_settings
from pipelines.service.access.tokens import Principal, create_token
from pipelines.service.app import server_options
from pipelines.service.operators import api
from pipelines.service.operators.desk import Desk
from pipelines.service.operators.models import Submission
from pipelines.service.public.catalog import Catalog
from pipelines.service.public.preparation import Prepared, prepare
from pipelines.service.queue.claims import claim
from pipelines.service.queue.runs import get_run, list_events
from pipelines.service.queue.workers import Workers

ANN, BOB = Principal("ann", "operator", "aaaaaaaa"), Principal("bob", "approver", "bbbbbbbb")
NAME = "demo-region-2019-all-jobs"
LEDGER = '\n[ledger]\nfile = "CANARYfolder/ledger.sqlite"\ndata_set = "{}"\nepsilon = "100"\ndelta = "0.5"\n'
CONTENT, PLAN_SHA256 = "c" * 64, "a" * 64
FIT = json.dumps({"for_release": True, "not_for_release_because": [], "plan_sha256": PLAN_SHA256})
PLAN = {
    "plan_sha256": PLAN_SHA256, "epsilon": "8.6", "delta": "0.00001", "total_variation": 0.1,
    "block_variation": 0.2, "mean_commute_error": -0.01, "destination_error": None, "noise_share": 0.02,
    "jobs": 600, "report": "All of <it>", "inputs": {"geography.file blocks.csv": "b" * 64},
}  # fmt: skip
CLEAN_WORKER = """\
# A worker process of a checkout without changes. It counts plans, and does not draw their cells, which takes
# longer than the rest; where `hold` names a step, it stops there.
import os, sys, time
from pathlib import Path
import pipelines.planning.search

here = Path(__file__).parent
make_plan = pipelines.planning.search.make_plan

def counted(*a, **k):
    with open(here / "planned", "a") as file:
        print("once", file=file)
    return make_plan(*a, **k)

pipelines.planning.search.make_plan = counted  # before anything else takes it from there
import pipelines.release.certificate, pipelines.ledger.ledger, pipelines.running.run, pipelines.running.report
pipelines.running.report.draw_cells = lambda _, path: path.write_bytes(b"no picture")
from pipelines.release.provenance import SourceState
from pipelines.service.queue.worker_process import main

def clean():
    print("CANARYprinted")
    return SourceState("0.0", "0" * 40, False)

pipelines.release.certificate.source_state = clean

def held(owner, name, after):
    real = getattr(owner, name)
    def wrapped(*a, **k):
        found = real(*a, **k) if after else None
        if (here / "hold").exists() and (here / "hold").read_text() == name and not k.get("rehearse"):
            (here / "held").write_text(str(os.getpid()))
            time.sleep(600)
        return found if after else real(*a, **k)
    setattr(owner, name, wrapped)

held(pipelines.ledger.ledger.Ledger, "debit", True)
held(pipelines.running.run, "write_public", False)
held(pipelines.running.run, "_put_in_place", True)
sys.exit(main())
"""


@dataclass
class World:
    """A service that is not started: its settings, its registered input, what its workers run."""

    folder: Path
    settings: ServiceSettings
    input: Path
    ledger: Path

    @property
    def store(self) -> Store:
        return Store.open(self.settings.database)

    @property
    def worker(self) -> tuple[str, str]:
        return sys.executable, str(self.folder / "worker.py")

    def hold(self, step: str) -> None:
        (self.folder / "hold").write_text(step)

    def held(self) -> int:
        """Wait until a worker process stopped at the step, and return its number."""
        path = self.folder / "held"
        wait_for(lambda: path.exists() and path.read_text() != "")
        number = int(path.read_text())
        path.unlink()
        return number

    def release_hold(self) -> None:
        (self.folder / "hold").unlink()

    def plans(self) -> int:
        """How many plans worker processes have made."""
        path = self.folder / "planned"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def submit(self, store: Store, who: Principal, **how: Any) -> int:
        return submitted(store, self.settings, who, "small", **how)

    @contextmanager
    def at_work(self, store: Store, code: str | None = None, **how: Any) -> Iterator[Workers]:
        """Workers of the service; their processes do nothing but `code`, if that is given."""
        says = f"import sys, time; sys.stdin.readline()\n{code}"
        command = self.worker if code is None else (sys.executable, "-c", says)
        workers = Workers(self.settings, store, command=command, **how)
        workers.start()
        try:
            yield workers
        finally:
            workers.stop()


def desk_of(store: Store, settings: ServiceSettings, who: Principal) -> Desk:
    """What the routes of the API are given."""
    return Desk(store, settings, Catalog(settings), who)


def submitted(store: Store, settings: ServiceSettings, who: Principal, name: str, **how: Any) -> int:
    """Submit a run of a registered input; its number."""
    desk = desk_of(store, settings, who)
    return api.submit_run(Response(), Submission(input=name, **how), desk).id


def settings_of(**given: object) -> ServiceSettings:
    """Settings by the names of their variables, without the prefix."""
    return load_settings(None, {f"ODSYNTH_{name}": str(value) for name, value in given.items()})


def state_with(release: pipelines.Release, folder: Path) -> Path:
    """Return a state of a service with a release, published and prepared."""
    done = pipelines.publish(release.public.parent, folder / "published", version="v1")
    (folder / "cache").mkdir()
    prepare(Path(done.location), Prepared(folder / "cache" / done.sha256))
    return folder


def copy_state(source: Path, target: Path) -> Path:
    """Copy what is published and prepared."""
    for name in ("published", "cache"):
        shutil.copytree(source / name, target / name)
    return target


def free_port() -> int:
    """A port that nobody takes before a server does.

    It is below those that whoever asks for any is given, and none of the processes of tests beside this one.
    """
    while True:
        port = next(_ports)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


_ports = count(10_000 + os.getpid() % 1000 * 20)


def claimed(store: Store, seconds: float = 60) -> Row[Any]:
    """What a worker takes, of which there must be something."""
    found = claim(store, seconds)
    assert found is not None
    return found


def state(store: Store, run: int) -> str:
    return str(get_run(store, run).state)


def words(store: Store, run: int) -> str:
    """What happened to a run: its events without their texts."""
    return " ".join(event.event for event in list_events(store, run))


def client_of(app: FastAPI, name: str, role: str) -> TestClient:
    """A client with a new token."""
    secret, _ = create_token(app.state.store, name, role)  # type: ignore[arg-type]
    return TestClient(app, headers={"Authorization": f"Bearer {secret}"})


def at_once(act: Callable[[int], object], number: int) -> None:
    """Call a function with each number in a thread of its own."""
    threads = [threading.Thread(target=act, args=(each,)) for each in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)


@contextmanager
def serving(app: FastAPI, port: int = 0) -> Iterator[str]:
    """The address of a real server of an application."""
    server = uvicorn.Server(uvicorn.Config(app, **{**server_options(app.state.settings), "port": port}))
    thread = threading.Thread(target=server.run)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        app.state.log.close()


def spend_quarter(ledger: Path, config: Path, release: str = "first", plan_sha256: str = "0" * 64) -> None:
    """Pay a quarter of the budget that a configuration names, as an unfinished release."""
    named = pipelines.load_config(config).ledger
    assert named is not None
    charge = pipelines.Charge(named.data_set, named.epsilon / 4, named.delta / 4, plan_sha256, release)
    pipelines.Ledger(ledger).debit(charge, pipelines.Budget(named.epsilon, named.delta))


def assert_append_only(store: Store, table: Table, **line: object) -> None:
    """Nothing changes the table, in whose place of a line that is there stands `line`."""
    replace = insert(table).values(**line).prefix_with("OR REPLACE", dialect="sqlite")
    with pytest.raises(DBAPIError), store.write() as connection:
        connection.execute(replace)
    for statement in (update(table).values(line), delete(table)):
        with pytest.raises(DBAPIError, match=f"nothing is changed in {table}"), store.write() as connection:
            connection.execute(statement)


EMPTY = {"meta", "link", "input", "br", "img", "hr"}


class Page(HTMLParser):
    """A page, parsed strictly: every element is closed, ids are unique, references lead somewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.fields: list[tuple[str, str | None]] = []
        self.headings: list[int] = []
        self.described: Any = None  # linked data, which is no script
        self.feed(text)
        assert self.open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in EMPTY:
            self.open.append(tag)
        names = dict(attrs)
        assert tag != "script" or names == {"type": "application/ld+json"}
        assert not any(name.startswith("on") or name == "style" for name in names)
        self.ids += [names["id"] or ""] if "id" in names else []
        self.addresses += [names[key] or "" for key in ("href", "src", "action") if key in names]
        if tag in ("input", "select") and names.get("type") != "radio":
            self.fields.append((tag, names.get("id")))
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.described = json.loads(data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
