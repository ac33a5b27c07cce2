"""The small release, published and prepared, and applications that show it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines.service import ServiceSettings, create_app, load_settings
from pipelines.service.public.preparation import Prepared, prepare


@pytest.fixture(scope="session")
def service_state(small_release: pipelines.Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """State of a service with the small release, published and prepared. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("service") / "state"
    done = pipelines.publish(small_release.public.parent, folder / "published", version="v1")
    (folder / "cache").mkdir()
    stem = folder / "cache" / done.sha256
    prepare(Path(done.location), Prepared(stem.with_suffix(".map.html"), stem.with_suffix(".duckdb")))
    return folder


@pytest.fixture
def new_state(service_state: Path, tmp_path: Path) -> Path:
    """A copy of what is published and prepared there, to change."""
    for name in ("published", "cache"):
        shutil.copytree(service_state / name, tmp_path / "state" / name)
    return tmp_path / "state"


@pytest.fixture
def make_app(tmp_path: Path) -> Iterator[Callable[..., FastAPI]]:
    """Return an application on a state, without workers; its log is `service.log` of the test's folder."""
    apps = []

    def make(state: Path, **settings: str) -> FastAPI:
        given = {"FOLDER": state, "LOG": tmp_path / "service.log", "WORKERS": "0", **settings}
        loaded: ServiceSettings = load_settings(None, {f"ODSYNTH_{k}": str(v) for k, v in given.items()})
        apps.append(create_app(loaded))
        return apps[-1]

    yield make
    for app in apps:
        app.state.catalog.stop()
        app.state.store.close()
        app.state.log.close()


@pytest.fixture(scope="session")
def client(service_state: Path) -> Iterator[TestClient]:
    """A client of one running service with the small release; nothing that it asks changes anything."""
    given = {"FOLDER": service_state, "LOG": service_state / "service.log", "WORKERS": "0"}
    given["LIMITS__PUBLIC"] = "1000000/minute"
    app = create_app(load_settings(None, {f"ODSYNTH_{k}": str(v) for k, v in given.items()}))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client
    app.state.log.close()


@pytest.fixture(scope="session")
def base() -> str:
    """Where the API has the version."""
    return "/api/v1/releases/demo-region-2019-all-jobs/v1"


@pytest.fixture(scope="session")
def page() -> str:
    """Where people and downloads have it."""
    return "/releases/demo-region-2019-all-jobs/v1"
