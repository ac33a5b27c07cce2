"""What monitors ask, and the log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from pipelines.service.monitoring import ServiceLog


def test_it_lives_and_is_ready(client: TestClient) -> None:
    assert client.get("/health").json() == {"status": "ok", "checks": {}}
    response = client.get("/ready")
    assert response.status_code == 200
    assert response.json() == {"status": "ok", "checks": {"database": True, "folders": True, "workers": True}}


@pytest.mark.parametrize("missing", ["database", "folders", "workers"])
def test_it_lives_and_is_not_ready(
    make_app: Callable[..., FastAPI], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    app = make_app(tmp_path / "state", WORKERS="1")
    if missing == "database":
        monkeypatch.setattr(app.state.store, "alive", lambda: False)
    elif missing == "folders":
        (tmp_path / "state" / "published").rmdir()
    else:
        app.state.workers = SimpleNamespace(alive=False)
    client = TestClient(app)
    response = client.get("/ready")
    assert response.status_code == 503
    assert [name for name, well in response.json()["checks"].items() if not well] == [missing]
    assert client.get("/health").status_code == 200


def test_requests_are_counted_by_route(make_app: Callable[..., FastAPI], tmp_path: Path) -> None:
    client = TestClient(make_app(tmp_path / "state"))
    for i in range(5):
        client.get(f"/api/v1/releases/name{i}/version{i}")
        client.request(f"VERB{i}", f"/nowhere{i}")
    families = {f.name: f for f in text_string_to_metric_families(client.get("/metrics").text)}
    counted = {
        tuple(sample.labels[k] for k in ("method", "route", "status")): sample.value
        for sample in families["odsynth_requests"].samples
        if sample.name.endswith("_total")
    }
    # As many series as there are routes, however many addresses somebody tries.
    assert counted == {("GET", "/api/v1/releases/{name}/{version}", "404"): 5, ("other", "none", "404"): 5}
    observed = [s.value for s in families["odsynth_request_seconds"].samples if s.name.endswith("_count")]
    assert sum(observed) == 10


def test_a_full_disk_is_said_of_the_log() -> None:
    log = ServiceLog(Path("/dev/full"))
    with pytest.raises(OSError, match="No space left on device") as caught:
        log.write("request", status=200)
    assert caught.value.filename == "the log, /dev/full"
    with suppress(OSError):  # what is left in its buffer
        log.close()


def test_the_log_takes_nothing_else(tmp_path: Path) -> None:
    log = ServiceLog(tmp_path / "log")
    log.write("request", status=200)
    for event, fields in (
        ("query", {}),
        ("request", {"path": "/secret"}),
        ("request", {"status": "200"}),
        ("request", {"status": True}),
    ):
        with pytest.raises(ValueError, match="the log"):
            log.write(event, **fields)
    record = logging.LogRecord("uvicorn.error", logging.WARNING, "x.py", 1, "Started %s", ("well",), None)
    log.handle(record)
    log.close()
    text = (tmp_path / "log").read_text()
    assert text.count("\n") == 2
    assert '"text": "Started well"' in text
