"""Databases of both kinds, a service with one registered input, and people."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, text

import pipelines
from pipelines.service import ServiceSettings, Store, create_app, load_settings
from pipelines.service.access.tokens import Principal, create_token
from pipelines.service.queue import workers

LEDGER = '\n[ledger]\nfile = "CANARYfolder/ledger.sqlite"\ndata_set = "{}"\nepsilon = "100"\ndelta = "0.5"\n'
CLEAN_WORKER = """\
# A worker process of a checkout without changes; where the file `hold` names a step, it stops there for ever.
import os, sys, time
from pathlib import Path
import pipelines.release.certificate, pipelines.ledger.ledger, pipelines.running.run
from pipelines.release.provenance import SourceState
from pipelines.service.queue.worker_process import main

here = Path(__file__).parent

def clean():
    print("CANARYprinted")
    return SourceState("0.0", "0" * 40, False)

pipelines.release.certificate.source_state = clean

def held(owner, name, after):
    real = getattr(owner, name)
    def wrapped(*a, **k):
        found = real(*a, **k) if after else None
        if (here / "hold").exists() and (here / "hold").read_text() == name:
            (here / "held").write_text(str(os.getpid()))
            time.sleep(600)
        return found if after else real(*a, **k)
    setattr(owner, name, wrapped)

held(pipelines.ledger.Ledger, "debit", True)
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

    def held(self, seconds: float = 60) -> int:
        """Wait until a worker process stopped at the step, and return its number."""
        path = self.folder / "held"
        wait_for(lambda: path.exists() and path.read_text() != "", seconds)
        number = int(path.read_text())
        path.unlink()
        return number

    def release_hold(self) -> None:
        (self.folder / "hold").unlink()


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """URL of a PostgreSQL cluster of this session's own, reached by a socket in its folder; no port."""
    found = shutil.which("initdb") or next(
        (str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), None
    )
    if found is None:
        pytest.skip("PostgreSQL's server (Debian: postgresql) is not installed")
    programs = Path(found).resolve().parent
    user = None
    if os.geteuid() == 0:  # which the server refuses to run as
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = next((name for name in ("postgres", "nobody") if name in names), None)
        if user is None:
            pytest.skip("there is no user besides root to run PostgreSQL's server as")
    folder = Path(tempfile.mkdtemp(prefix="odsynth-pg-"))  # in a folder of pytest's it would not get in
    if user is not None:
        shutil.chown(folder, user)

    def call(program: str, *arguments: str) -> None:
        command = [str(programs / program), *arguments]
        subprocess.run(command, check=True, user=user, cwd=folder, stdout=subprocess.DEVNULL)

    options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=200"
    try:
        call("initdb", "-D", f"{folder}/data", "-U", "odsynth", "-A", "trust", "-E", "UTF8", "--no-locale")
        call("pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w", "start")
        try:
            yield f"postgresql+psycopg://odsynth@/{{}}?host={folder}"
        finally:
            call("pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


_numbers = count()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a new database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.sqlite'}"
    template: str = request.getfixturevalue("postgresql")
    name = f"test_{next(_numbers)}"
    engine = create_engine(template.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return template.format(name)


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    opened = Store.open(database)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def release_config(
    config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], pipelines.ReleaseConfig]:
    """Return the configuration of a release of the small region, paid from the account of a data set."""
    folder = tmp_path_factory.mktemp("configured")
    return lambda data_set="jobs": pipelines.parse_config(
        config_text() + LEDGER.format(data_set), folder, "small.toml"
    )


@pytest.fixture
def world(config_text: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A service with the small region as its registered input."""
    inputs = tmp_path / "CANARYfolder of inputs"
    (inputs / "CANARYfolder").mkdir(parents=True)
    path = inputs / "small.toml"
    path.write_text(config_text() + LEDGER.format("jobs"))
    (tmp_path / "worker.py").write_text(textwrap.dedent(CLEAN_WORKER))
    environment = {
        "ODSYNTH_FOLDER": str(tmp_path / "CANARYstate"),
        "ODSYNTH_LOG": str(tmp_path / "service.log"),
        "ODSYNTH_INPUTS__SMALL": str(path),
    }
    settings = load_settings(None, environment)
    settings.make_folders()
    world = World(tmp_path, settings, path, inputs / "CANARYfolder" / "ledger.sqlite")
    monkeypatch.setattr(workers, "COMMAND", world.worker)
    return world


@pytest.fixture
def app(world: World) -> Iterator[FastAPI]:
    """The application of that service, not started: no worker is at work."""
    made = create_app(world.settings)
    yield made
    made.state.store.close()
    made.state.log.close()


@pytest.fixture
def ann() -> Principal:
    return Principal("ann", "operator", "aaaaaaaa")


@pytest.fixture
def bob() -> Principal:
    return Principal("bob", "approver", "bbbbbbbb")


@pytest.fixture
def people(app: FastAPI) -> dict[str, TestClient]:
    """Clients of the application for a viewer, an operator, an approver, and nobody."""
    clients = {"nobody": TestClient(app)}
    for name, role in (("vic", "viewer"), ("ann", "operator"), ("bob", "approver")):
        secret, _ = create_token(app.state.store, name, role)  # type: ignore[arg-type]
        clients[name] = TestClient(app, headers={"Authorization": f"Bearer {secret}"})
    return clients
