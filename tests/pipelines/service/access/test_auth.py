"""Sessions of browsers: sealed cookies that end with their tokens, and forms that only our pages can send."""

from __future__ import annotations

import re
import stat
from typing import Any

import pytest
from cryptography.fernet import Fernet
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from pipelines.service.access import auth
from pipelines.service.access.auth import end_sessions
from pipelines.service.access.tokens import create_token, list_tokens, revoke_token, still_valid
from pipelines.service.store import ServiceError, attempts, list_audit, sessions

from ..helpers import ANN, BOB, PLAN_SHA256

Browser = tuple[TestClient, str, str]
ME, ACT = "/api/v1/operator/whoami", "/operator/runs/1/queue"  # of which there is none: 404 to who may


def signed_in(app: FastAPI, name: str, role: str) -> tuple[TestClient, str]:
    """A browser that is logged in, and the text of its forms."""
    secret, _ = create_token(app.state.store, name, role)  # type: ignore[arg-type]
    client = TestClient(app)
    page = client.post("/operator/login", data={"token": secret})
    found = re.search('name="csrf" value="([^"]+)"', page.text)
    assert found
    return client, found[1]


@pytest.fixture
def browser(app: FastAPI) -> Browser:
    """A browser that is logged in; the id of its token; the text of its forms."""
    client, csrf = signed_in(app, "ann", "operator")
    return client, list_tokens(app.state.store)[0].id, csrf


def test_a_session_is_opened_by_a_token(browser: Browser, app: FastAPI) -> None:
    client, token, csrf = browser
    assert client.get(ME).json()["person"] == "ann"
    assert len(csrf) == 43
    assert [(act.actor, act.credential, act.action) for act in list_audit(app.state.store, limit=1)] == [
        ("ann", token, "logged in")
    ]
    cookie = {"Cookie": f"odsynth={client.cookies['odsynth']}"}
    client.post("/operator/logout", data={"csrf": csrf})
    assert client.get(ME).status_code == 401
    assert client.get(ME, headers=cookie).status_code == 401  # nor for who has a copy
    assert list_audit(app.state.store, limit=1)[0].action == "logged out"


def test_the_cookie_is_for_this_site_only_and_no_secret_of_the_token(app: FastAPI) -> None:
    secret, _ = create_token(app.state.store, "ann", "operator")
    browser = TestClient(app, follow_redirects=False)
    cookie = browser.post("/operator/login", data={"token": secret}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=28800"} <= set(cookie.split("; "))
    assert secret not in cookie
    assert cookie.startswith("odsynth=")
    assert "Secure" not in cookie
    settings = app.state.settings
    app.state.settings = settings.model_copy(update={"public_url": "https://data.example.org"})
    cookie = browser.post("/operator/login", data={"token": secret}).headers["set-cookie"]
    assert cookie.startswith("__Host-odsynth=")
    assert "Secure" in cookie.split("; ")


def test_a_session_ends_with_its_token(browser: Browser, app: FastAPI) -> None:
    client, token, csrf = browser
    revoke_token(app.state.store, token)
    assert client.get(ME).status_code == 401
    cancel = "/api/v1/operator/runs/1/cancel"
    assert client.post(cancel, headers={"X-CSRF-Token": csrf}).status_code == 401


def test_an_approver_ends_the_sessions_of_a_person(browser: Browser, app: FastAPI) -> None:
    client, token, _ = browser
    store = app.state.store
    with pytest.raises(ServiceError, match="needs the role approver"):
        end_sessions(store, "ann", by=ANN)
    assert end_sessions(store, "zoe", by=BOB) == 0
    assert client.get(ME).status_code == 200
    assert end_sessions(store, " ANN", by=BOB) == 1
    assert client.get(ME).status_code == 401
    act = list_audit(store, limit=1)[0]
    assert (act.actor, act.action, act.subject, act.detail) == ("bob", "sessions ended", "ann", "1")
    assert still_valid(store, token) is not None  # with it she may sign in again


def test_a_session_ends_after_a_day_of_work(
    browser: Browser, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, *_ = browser
    monkeypatch.setattr(auth, "_SESSION_SECONDS", -1)
    assert client.get(ME).status_code == 401
    secret, _ = create_token(app.state.store, "zoe", "viewer")
    client.post("/operator/login", data={"token": secret})
    with app.state.store.read() as connection:  # and what is known of it goes with the next login
        assert connection.execute(select(sessions.c.person)).scalars().all() == ["zoe"]


def test_forms_need_the_text_of_the_page(browser: Browser, app: FastAPI) -> None:
    client, _, csrf = browser
    form = {"plan_sha256": PLAN_SHA256, "seen": "yes"}
    assert client.post(ACT, data={**form, "csrf": csrf}).status_code == 404
    assert client.post(ACT, data=form, headers={"X-CSRF-Token": csrf}).status_code == 404
    multipart = {name: (None, value) for name, value in {**form, "csrf": csrf}.items()}
    assert client.post(ACT, files=multipart).status_code == 404
    wrong: list[dict[str, Any]] = [
        {"data": form},
        {"data": {**form, "csrf": ""}},
        {"data": {**form, "csrf": csrf[:-1]}},
        {"data": {**form, "csrf": "ö"}},
        {"data": form, "headers": {"X-CSRF-Token": ""}},
        {"files": {"plan_sha256": (None, PLAN_SHA256), "csrf": ("name", csrf)}},  # a file is no text
        {"data": form, "params": {"csrf": csrf}},
    ]
    for how in wrong:
        answer = client.post(ACT, **how)
        assert answer.status_code == 403, how
    other, _ = signed_in(app, "zoe", "operator")
    assert other.post(ACT, data={**form, "csrf": csrf}).status_code == 403  # of somebody else's session


def test_the_api_takes_sessions_with_the_same_rule(browser: Browser) -> None:
    client, _, csrf = browser
    path, body = "/api/v1/operator/runs", {"input": "small"}
    assert client.get("/api/v1/operator/whoami").json()["person"] == "ann"
    assert client.post(path, json=body).json()["error"] == "csrf"
    assert client.post(path, json={**body, "csrf": csrf}).json()["error"] == "csrf"
    assert client.post(path, json=body, headers={"X-CSRF-Token": csrf}).status_code == 201


def test_a_wrong_token_is_not_rescued_by_a_session(browser: Browser) -> None:
    client, *_ = browser
    assert client.get(ME, headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_cookie_that_is_not_ours_opens_nothing(app: FastAPI) -> None:
    of_another_key = Fernet(Fernet.generate_key()).encrypt(b"{}").decode()
    for cookie in ("", "x", "gAAAAA", of_another_key):
        answer = TestClient(app).get(ME, headers={"Cookie": f"odsynth={cookie}"})
        assert answer.status_code == 401, cookie


def test_the_key_is_made_once_for_all_servers_and_nobody_else(browser: Browser, app: FastAPI) -> None:
    client, *_ = browser
    path = app.state.settings.folder / "session.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    del app.state.sealer  # as after a restart
    assert client.get(ME).status_code == 200
    assert not [each for each in path.parent.iterdir() if each.name.startswith("tmp")]


def test_guesses_are_counted_however_they_come(app: FastAPI) -> None:
    """Of one address, with a program's header and with the form; what is valid does not count."""
    secret, _ = create_token(app.state.store, "ann", "operator")
    settings = app.state.settings
    app.state.settings = settings.model_copy(
        update={"limits": settings.limits.model_copy(update={"login": "3/hour"})}
    )
    valid, wrong = {"Authorization": f"Bearer {secret}"}, {"Authorization": f"Bearer {secret[:-2]}"}
    client, elsewhere = TestClient(app), TestClient(app, client=("198.51.100.7", 1))
    assert [client.get(ME, headers=valid).status_code for _ in range(5)] == [200] * 5
    assert [client.get(ME, headers=wrong).status_code for _ in range(2)] == [401] * 2
    assert client.post("/operator/login", data={"token": "x"}).status_code == 401
    for answer in (
        client.get(ME, headers=wrong),
        client.get(ME, headers=valid),
        client.post("/operator/login", data={"token": secret}),
        client.get("/operator", headers=valid),
    ):
        assert answer.status_code == 429
        assert 0 < int(answer.headers["Retry-After"]) <= 7200
    assert client.get("/").status_code == 200
    assert elsewhere.get(ME, headers=valid).status_code == 200
    with app.state.store.read() as connection:  # nothing that leads back to an address
        kept = connection.execute(select(attempts)).all()
    assert [(len(row.source), row.number) for row in kept] == [(64, 3)]
