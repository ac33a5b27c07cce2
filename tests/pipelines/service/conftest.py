"""The small release, published and prepared; applications that show it; databases of both kinds; people."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from sqlalchemy import create_engine, text
from starlette.testclient import TestClient

import pipelines
from pipelines.service import Store, create_app, rates

from .helpers import CLEAN_WORKER, LEDGER, NAME, World, client_of, copy_state, settings_of, state_with


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time by which requests are counted, which a test sets: a second after a window of a minute began.

    By the true time, a window may begin in the middle of a test.
    """
    now = [3661.0]
    monkeypatch.setattr(rates, "time", SimpleNamespace(time=lambda: now[0]))
    return now


@pytest.fixture(scope="session")
def service_state(small_release: pipelines.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State of a service with the small release, published and prepared. Copy it before changing it."""
    return state_with(small_release, tmp_path_factory.mktemp("service") / "state")


@pytest.fixture
def new_state(service_state: Path, tmp_path: Path) -> Path:
    """A copy of what is published and prepared there, to change."""
    return copy_state(service_state, tmp_path / "state")


@pytest.fixture
def make_app(tmp_path: Path) -> Iterator[Callable[..., FastAPI]]:
    """Return an application on a state, without workers; its log is `service.log` of the test's folder."""
    apps = []

    def make(state: Path, **settings: str) -> FastAPI:
        given = {"FOLDER": state, "LOG": tmp_path / "service.log", "WORKERS": "0", **settings}
        apps.append(create_app(settings_of(**given)))
        return apps[-1]

    yield make
    for app in apps:
        app.state.catalog.stop()
        app.state.store.close()
        app.state.log.close()


@pytest.fixture(scope="session")
def client(service_state: Path) -> Iterator[TestClient]:
    """A client of one running service with the small release; nothing that it asks changes anything."""
    where = {"FOLDER": service_state, "LOG": service_state / "service.log"}
    app = create_app(settings_of(**where, WORKERS=0, LIMITS__PUBLIC="1000000/minute"))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client
    app.state.log.close()


@pytest.fixture(scope="session")
def base() -> str:
    """Where the API has the version."""
    return f"/api/v1/releases/{NAME}/v1"


@pytest.fixture(scope="session")
def page() -> str:
    """Where people and downloads have it."""
    return f"/releases/{NAME}/v1"


@pytest.fixture(scope="session")
def published(service_state: Path) -> pipelines.Release:
    """The small release, as the service has published it."""
    return pipelines.open_release(service_state / "published" / NAME / "v1")


@dataclass(frozen=True)
class Cluster:
    """A PostgreSQL cluster; `url` lacks the name of a database."""

    url: str
    start: Callable[[], None]
    stop: Callable[[], None]

    def new_database(self) -> str:
        """The URL of one that was just made."""
        name = f"test_{next(_numbers)}"
        engine = create_engine(self.url.format("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return self.url.format(name)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Cluster]:
    """A cluster of this session's own, reached by a socket in its folder; no port."""
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
        control = partial(call, "pg_ctl", "-D", f"{folder}/data", "-w")
        start = partial(control, "-o", options, "-l", f"{folder}/log", "start")
        stop = partial(control, "-m", "immediate", "stop")
        start()
        try:
            yield Cluster(f"postgresql+psycopg://odsynth@/{{}}?host={folder}", start, stop)
        finally:
            stop()
    finally:
        shutil.rmtree(folder)


_numbers = count()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of a new database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.sqlite'}"
    cluster: Cluster = request.getfixturevalue("postgresql")
    return cluster.new_database()


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
def world(config_text: Callable[..., str], tmp_path: Path) -> World:
    """A service with the small region as its registered input."""
    inputs = tmp_path / "CANARYfolder of inputs"
    (inputs / "CANARYfolder").mkdir(parents=True)
    path = inputs / "small.toml"
    path.write_text(config_text() + LEDGER.format("jobs"))
    (tmp_path / "worker.py").write_text(CLEAN_WORKER)
    where = {"FOLDER": tmp_path / "CANARYstate", "LOG": tmp_path / "service.log"}
    settings = settings_of(**where, INPUTS__SMALL=path)
    settings.make_folders()
    return World(tmp_path, settings, path, inputs / "CANARYfolder" / "ledger.sqlite")


@pytest.fixture
def app(world: World) -> Iterator[FastAPI]:
    """The application of that service, not started: no worker is at work."""
    made = create_app(world.settings)
    yield made
    made.state.store.close()
    made.state.log.close()


@pytest.fixture
def people(app: FastAPI) -> dict[str, TestClient]:
    """Clients of the application for a viewer, an operator, an approver, and nobody."""
    clients = {"nobody": TestClient(app)}
    for name, role in (("vic", "viewer"), ("ann", "operator"), ("bob", "approver")):
        clients[name] = client_of(app, name, role)
    return clients
