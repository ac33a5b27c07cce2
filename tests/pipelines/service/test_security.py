"""What stands before every request: headers, limits, an account of what was asked; and what monitors ask."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request
from starlette.testclient import TestClient

from pipelines.service.monitoring import ServiceLog
from pipelines.service.rates import RateLimits
from pipelines.service.settings import Limits


@pytest.fixture
def small_app(make_app: Callable[..., FastAPI], tmp_path: Path) -> FastAPI:
    """A service with nothing published, with a route that reads what is sent."""
    app = make_app(tmp_path / "state", LIMITS__BODY="1000")

    @app.post("/api/read")
    async def read(request: Request) -> int:
        return len(await request.body())

    return app


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413), (1_000_000, 413)])
def test_the_body_has_a_limit(small_app: FastAPI, size: int, status: int) -> None:
    response = TestClient(small_app).post("/api/read", content=b"x" * size)
    assert response.status_code == status
    if status == 413:
        assert response.json().keys() == {"error", "detail"}


@pytest.mark.parametrize("length", ["-1", "1e3", "abc", "0x10", "99999999999999999999", "1 000", "²"])
def test_a_length_that_is_none(small_app: FastAPI, length: str) -> None:
    headers = {"Content-Length": length.encode()}
    assert TestClient(small_app).post("/api/read", content=b"", headers=headers).status_code == 413


def test_the_log_has_nothing_of_the_client(small_app: FastAPI, tmp_path: Path) -> None:
    client = TestClient(small_app)
    secret = "CANARY"
    headers = {
        "Authorization": f"Bearer {secret}",
        "User-Agent": secret,
        "Cookie": f"x={secret}",
        "Referer": secret,
    }
    client.get(f"/api/v1/releases/{secret}/{secret}/flows?work={secret}", headers=headers)
    client.get(f"/{secret}")
    client.request(secret, "/")
    client.post("/api/read", content=secret, headers=headers)
    client.get("/health")
    text = (tmp_path / "service.log").read_text()
    assert secret not in text
    assert "testclient" not in text  # the client's address here
    assert [(line["method"], line["route"], line["status"]) for line in lines(tmp_path / "service.log")] == [
        ("GET", "/api/v1/releases/{name}/{version}/flows", 404),
        ("GET", "none", 404),
        ("other", "/", 405),
        ("POST", "/api/read", 200),
    ]
    assert (tmp_path / "service.log").stat().st_mode & 0o077 == 0


def test_too_many_requests(make_app: Callable[..., FastAPI], tmp_path: Path) -> None:
    app = make_app(
        tmp_path / "state", LIMITS__PUBLIC="3/hour", LIMITS__OPERATOR="2/hour", LIMITS__LOGIN="1/hour"
    )
    client = TestClient(app)
    assert [client.get("/api/v1/releases").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    assert [client.get("/api/v1/operator/whoami").status_code for _ in range(3)] == [401] * 2 + [429]
    assert [client.get("/health").status_code for _ in range(5)] == [200] * 5  # monitors are not counted
    response = client.get("/")
    assert response.status_code == 429
    assert response.headers["Content-Type"].startswith("text/html")
    assert 0 < int(response.headers["Retry-After"]) <= 3600
    # A header cannot make somebody else of a client: only a proxy that is named in the settings is believed.
    spoofed = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9", "X-Real-IP": "203.0.113.9"}
    assert client.get("/", headers=spoofed).status_code == 429
    other = TestClient(app, client=("198.51.100.7", 1))
    assert other.get("/").status_code == 200


def test_an_address_with_a_control_character_is_none(
    make_app: Callable[..., FastAPI], tmp_path: Path
) -> None:
    """A proxy that keeps /metrics inside lets /metrics%0a pass, and so far the route took it."""
    client = TestClient(make_app(tmp_path / "state"))
    assert client.get("/metrics").status_code == 200
    for path in ("/metrics%0a", "/ready%0A", "/api/v1/releases%0a", "/%00", "/%7f", "/%C2%85"):
        assert client.get(path).status_code == 404, path


def test_windows_fade(clock: list[float]) -> None:
    limits = RateLimits(Limits(public="10/minute"))

    def allowed() -> int:
        count = 0
        while limits.wait("public", "192.0.2.1") == 0:
            count += 1
        return count

    assert allowed() == 10
    assert limits.wait("public", "192.0.2.1") == 59
    assert limits.wait("public", "192.0.2.2") == 0
    assert limits.wait("operator", "192.0.2.1") == 0
    clock[0] += 58
    assert limits.wait("public", "192.0.2.1") == 1
    clock[0] += 1  # a new window begins, the old one still counts whole
    assert allowed() == 0
    clock[0] += 30
    assert allowed() == 5
    clock[0] += 120
    assert allowed() == 10


def test_nobody_is_remembered_longer_than_two_windows(clock: list[float]) -> None:
    limits = RateLimits(Limits(public="10/second"))
    for seconds, remembered in ((0, 100), (1, 101), (1, 2), (2, 1)):
        clock[0] += seconds
        for number in range(1 if seconds else 100):
            assert limits.wait("public", f"192.0.2.{number}") == 0
        _, before, now = limits._counts["public"]
        assert len(before) + len(now) == remembered


def test_an_ipv6_client_is_a_network(clock: list[float]) -> None:
    limits = RateLimits(Limits(public="1/minute"))
    assert limits.wait("public", "2001:db8::1") == 0
    assert limits.wait("public", "2001:db8::ffff:2") > 0
    assert limits.wait("public", "2001:db8:0:1::1") == 0
    assert limits.wait("public", "::ffff:192.0.2.1") == 0  # IPv4, where the service listens on both
    assert limits.wait("public", "::ffff:192.0.2.2") == 0
    assert limits.wait("public", "192.0.2.1") > 0


def test_what_a_page_of_another_site_sends_changes_nothing(
    make_app: Callable[..., FastAPI], tmp_path: Path
) -> None:
    """Whatever it brings with it. Programs send no such headers, browsers always do."""
    app = make_app(tmp_path / "state", PUBLIC_URL="https://data.example.org")
    client = TestClient(app, base_url="http://tunnel:8765")
    for path in (
        "/operator/login",
        "/operator/logout",
        "/api/v1/operator/runs",
        "/api/v1/operator/runs/1/queue",
    ):
        for name, value, refused in (
            ("Origin", "https://evil.example", True),
            ("Origin", "https://data.example.org.evil.example", True),
            ("Origin", "null", True),
            ("Origin", "", True),
            ("Origin", "https://data.example.org", False),
            ("Origin", "http://tunnel:8765", False),
            ("Sec-Fetch-Site", "cross-site", True),
            ("Sec-Fetch-Site", "same-site", True),
            ("Sec-Fetch-Site", "none", True),
            ("Sec-Fetch-Site", "same-origin", False),
            ("X-Nothing", "", False),
        ):
            answer = client.post(path, headers={name: value}, follow_redirects=False)
            assert (answer.status_code == 403) == refused, (path, name, value)
            assert ("by a page of another site" in answer.text) == refused
    answer = client.get("/", headers={"Origin": "https://evil.example"})
    assert answer.status_code == 200
    assert answer.headers["Strict-Transport-Security"] == "max-age=31536000"


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
