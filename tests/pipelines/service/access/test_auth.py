"""Sessions of browsers: sealed cookies that end with their tokens, and forms that only our pages can send."""

from __future__ import annotations

import stat
from typing import Annotated, Any

import pytest
from cryptography.fernet import Fernet
from fastapi import Depends, FastAPI, Form, Request, Response
from fastapi.testclient import TestClient
from sqlalchemy import select

from pipelines.service.access import auth
from pipelines.service.access.auth import close_session, end_sessions, open_session, require, session_of
from pipelines.service.access.tokens import Principal, create_token, list_tokens, revoke_token, still_valid
from pipelines.service.store import ServiceError, list_audit, sessions

from ..helpers import ANN, BOB

Browser = tuple[TestClient, str, str]


def signed_in(pages: FastAPI, name: str, role: str) -> TestClient:
    secret, _ = create_token(pages.state.store, name, role)  # type: ignore[arg-type]
    client = TestClient(pages)
    assert client.post("/test/login", data={"token": secret}).json() == {"in": True}
    return client


@pytest.fixture
def pages(world: Any, app: FastAPI) -> FastAPI:
    """The service with a few pages as the operators' side has them."""

    @app.post("/test/login")
    def login(request: Request, response: Response, token: Annotated[str, Form()]) -> dict[str, bool]:
        return {"in": open_session(request, response, token) is not None}

    @app.post("/test/logout")
    def logout(request: Request, response: Response) -> None:
        close_session(request, response)

    @app.get("/test/page")
    def page(request: Request, who: Annotated[Principal, Depends(require("viewer"))]) -> dict[str, str]:
        session = session_of(request)
        assert session is not None
        return {"person": who.person, "csrf": session.csrf}

    @app.post("/test/act")
    def act(
        who: Annotated[Principal, Depends(require("operator"))], what: Annotated[str, Form()]
    ) -> dict[str, str]:
        return {"person": who.person, "what": what}

    return app


@pytest.fixture
def browser(pages: FastAPI) -> Browser:
    """A browser that is logged in; the id of its token; the text of its forms."""
    client = signed_in(pages, "ann", "operator")
    return client, list_tokens(pages.state.store)[0].id, client.get("/test/page").json()["csrf"]


def test_a_session_is_opened_by_a_token(browser: Browser, pages: FastAPI) -> None:
    client, token, csrf = browser
    assert client.get("/test/page").json() == {"person": "ann", "csrf": csrf}
    assert len(csrf) == 43
    assert [(act.actor, act.credential, act.action) for act in list_audit(pages.state.store, limit=1)] == [
        ("ann", token, "logged in")
    ]
    cookie = {"Cookie": f"odsynth={client.cookies['odsynth']}"}
    client.post("/test/logout")
    assert client.get("/test/page").status_code == 401
    assert client.get("/test/page", headers=cookie).status_code == 401  # nor for who has a copy
    assert list_audit(pages.state.store, limit=1)[0].action == "logged out"


def test_the_cookie_is_for_this_site_only_and_no_secret_of_the_token(pages: FastAPI) -> None:
    secret, _ = create_token(pages.state.store, "ann", "operator")
    cookie = TestClient(pages).post("/test/login", data={"token": secret}).headers["set-cookie"]
    assert {"HttpOnly", "SameSite=strict", "Path=/", "Max-Age=28800"} <= set(cookie.split("; "))
    assert secret not in cookie
    assert cookie.startswith("odsynth=")
    assert "Secure" not in cookie
    settings = pages.state.settings
    pages.state.settings = settings.model_copy(update={"public_url": "https://data.example.org"})
    cookie = TestClient(pages).post("/test/login", data={"token": secret}).headers["set-cookie"]
    assert cookie.startswith("__Host-odsynth=")
    assert "Secure" in cookie.split("; ")


def test_a_session_ends_with_its_token(browser: Browser, pages: FastAPI) -> None:
    client, token, csrf = browser
    revoke_token(pages.state.store, token)
    assert client.get("/test/page").status_code == 401
    assert client.post("/test/act", data={"what": "x", "csrf": csrf}).status_code == 401


def test_an_approver_ends_the_sessions_of_a_person(browser: Browser, pages: FastAPI) -> None:
    client, token, _ = browser
    store = pages.state.store
    with pytest.raises(ServiceError, match="needs the role approver"):
        end_sessions(store, "ann", by=ANN)
    assert end_sessions(store, "zoe", by=BOB) == 0
    assert client.get("/test/page").status_code == 200
    assert end_sessions(store, " ANN", by=BOB) == 1
    assert client.get("/test/page").status_code == 401
    act = list_audit(store, limit=1)[0]
    assert (act.actor, act.action, act.subject, act.detail) == ("bob", "sessions ended", "ann", "1")
    assert still_valid(store, token) is not None  # with it she may sign in again


def test_a_session_ends_after_a_day_of_work(
    browser: Browser, pages: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, *_ = browser
    monkeypatch.setattr(auth, "_SESSION_SECONDS", -1)
    assert client.get("/test/page").status_code == 401
    secret, _ = create_token(pages.state.store, "zoe", "viewer")
    client.post("/test/login", data={"token": secret})
    with pages.state.store.read() as connection:  # and what is known of it goes with the next login
        assert connection.execute(select(sessions.c.person)).scalars().all() == ["zoe"]


def test_forms_need_the_text_of_the_page(browser: Browser, pages: FastAPI) -> None:
    client, _, csrf = browser
    act, form = "/test/act", {"what": "x"}
    assert client.post(act, data={**form, "csrf": csrf}).json() == {"person": "ann", "what": "x"}
    assert client.post(act, data=form, headers={"X-CSRF-Token": csrf}).status_code == 200
    multipart = {"what": (None, "x"), "csrf": (None, csrf)}
    assert client.post(act, files=multipart).status_code == 200
    wrong: list[dict[str, Any]] = [
        {"data": form},
        {"data": {**form, "csrf": ""}},
        {"data": {**form, "csrf": csrf[:-1]}},
        {"data": {**form, "csrf": "ö"}},
        {"data": form, "headers": {"X-CSRF-Token": ""}},
        {"files": {"what": (None, "x"), "csrf": ("name", csrf)}},  # a file is no text
        {"data": form, "params": {"csrf": csrf}},
    ]
    for how in wrong:
        answer = client.post(act, **how)
        assert answer.status_code == 403, how
    other = signed_in(pages, "zoe", "operator")
    assert other.post(act, data={**form, "csrf": csrf}).status_code == 403  # of somebody else's session


def test_the_api_takes_sessions_with_the_same_rule(browser: Browser) -> None:
    client, _, csrf = browser
    path, body = "/api/v1/operator/runs", {"input": "small"}
    assert client.get("/api/v1/operator/whoami").json()["person"] == "ann"
    assert client.post(path, json=body).json()["error"] == "csrf"
    assert client.post(path, json={**body, "csrf": csrf}).json()["error"] == "csrf"
    assert client.post(path, json=body, headers={"X-CSRF-Token": csrf}).status_code == 201


def test_a_wrong_token_is_not_rescued_by_a_session(browser: Browser) -> None:
    client, *_ = browser
    assert client.get("/test/page", headers={"Authorization": "Bearer x"}).status_code == 401


def test_a_session_needs_its_role(pages: FastAPI) -> None:
    client = signed_in(pages, "vic", "viewer")
    csrf = client.get("/test/page").json()["csrf"]
    answer = client.post("/test/act", data={"what": "x", "csrf": csrf})
    assert answer.status_code == 403
    assert "needs the role operator" in answer.text


@pytest.mark.parametrize(
    "cookie",
    ["", "x", "gAAAAA", Fernet(Fernet.generate_key()).encrypt(b"{}").decode()],
    ids=["none", "short", "begun", "of another key"],  # the last is random, and xdist compares names
)
def test_a_cookie_that_is_not_ours_opens_nothing(pages: FastAPI, cookie: str) -> None:
    answer = TestClient(pages).get("/test/page", headers={"Cookie": f"odsynth={cookie}"})
    assert answer.status_code == 401


def test_the_key_is_made_once_for_all_servers_and_nobody_else(browser: Browser, pages: FastAPI) -> None:
    client, *_ = browser
    path = pages.state.settings.folder / "session.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    del pages.state.sealer  # as after a restart
    assert client.get("/test/page").status_code == 200
    assert not [each for each in path.parent.iterdir() if each.name.startswith("tmp")]
