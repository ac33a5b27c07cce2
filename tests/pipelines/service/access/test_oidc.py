"""Logging in with a provider of identities: a real one over HTTP, that lies in every way it can."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from pipelines.service.access.oidc import CALLBACK
from pipelines.service.operators.pages import oidc_router
from pipelines.service.settings import Oidc

KEY = RSAKey.generate_key(2048, parameters={"kid": "1"}, private=True)
OTHER = RSAKey.generate_key(2048, parameters={"kid": "1"}, private=True)

SECRET = OctKey.import_key("what only the two know")


class Provider(http.server.BaseHTTPRequestHandler):
    """Knows one person, who has just agreed to log in; `lie` changes what it says."""

    challenge = ""
    nonce = ""
    lie: dict[str, Any] = {}  # noqa: RUF012 - set by tests
    answer: dict[str, Any] = {}  # noqa: RUF012 - instead of an identity token

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"  # type: ignore[index]

    def do_GET(self) -> None:
        if self.path == "/jwks":
            self.say({"keys": [KEY.as_dict(private=False)]})
        else:
            endpoints = {"authorization": "authorize", "token": "token"}
            found = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in endpoints.items()}
            listed = {"id_token_signing_alg_values_supported": ["RS256", "HS256", "none"]}
            self.say({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks", **found, **listed})

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        digest = hashlib.sha256(asked["code_verifier"][0].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != self.challenge or asked["code"] != [
            "c0de"
        ]:
            self.say({"error": "invalid_grant"}, 400)
            return
        claims = {
            "iss": self.issuer,
            "aud": "odsynth",
            "exp": int(time.time()) + 60,
            "iat": int(time.time()),
            "nonce": self.nonce,
            "sub": "248289",
            "email": "Ann@Example.org",
            "email_verified": True,
            "groups": ["staff", "curators"],
        }
        claims = {k: v for k, v in (claims | self.lie).items() if v is not None}
        answer = self.answer or {"id_token": jwt.encode({"alg": "RS256", "kid": "1"}, claims, KEY)}
        self.say({"access_token": "x", "token_type": "Bearer", **answer})

    def say(self, document: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(document).encode())

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def provider(app: FastAPI) -> Iterator[type[Provider]]:
    class Fresh(Provider):
        pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fresh)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    oidc = Oidc(
        issuer=f"http://127.0.0.1:{server.server_address[1]}",
        client_id="odsynth",
        client_secret=str(SECRET.raw_value, "ascii"),
        roles={"curators": "approver", "staff": "viewer"},
    )
    app.state.settings = app.state.settings.model_copy(update={"oidc": oidc})

    app.include_router(oidc_router)  # as where the settings name one from the beginning
    yield Fresh
    server.shutdown()
    server.server_close()


def begun(client: TestClient, provider: type[Provider]) -> str:
    """Begin a login; return its state."""
    answer = client.get("/operator/login/oidc", follow_redirects=False)
    assert answer.status_code == 303
    asked = parse_qs(urlsplit(answer.headers["location"]).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == [f"http://127.0.0.1:8765{CALLBACK}"]
    assert "openid" in asked["scope"][0].split()
    provider.challenge, provider.nonce = asked["code_challenge"][0], asked["nonce"][0]
    return asked["state"][0]


def came_back(app: FastAPI, provider: type[Provider], status: int = 200, **lie: Any) -> TestClient:
    """A browser after a login, about which the provider lies; with the status of its end."""
    client = TestClient(app)
    state, provider.lie = begun(client, provider), lie
    assert client.get(CALLBACK, params={"state": state, "code": "c0de"}).status_code == status, lie
    return client


def test_a_login_ends_with_the_settings_that_it_was_made_by(app: FastAPI, provider: type[Provider]) -> None:
    client = came_back(app, provider)
    me = client.get("/api/v1/operator/whoami").json()
    assert (me["person"], me["role"], me["credential"]) == ("ann@example.org", "approver", "oidc")
    # An address that is not verified names nobody.
    other = came_back(app, provider, email_verified=False, groups="staff")
    me = other.get("/api/v1/operator/whoami").json()
    assert (me["person"], me["role"]) == ("248289", "viewer")
    settings = app.state.settings
    roles = {"roles": {"curators": "operator"}}
    for oidc in (None, settings.oidc.model_copy(update=roles), settings.oidc):
        app.state.settings = settings.model_copy(update={"oidc": oidc})
        status = client.get("/api/v1/operator/whoami").status_code
        assert status == (200 if oidc is settings.oidc else 401)


def test_what_is_not_for_this_login_lets_nobody_in(app: FastAPI, provider: type[Provider]) -> None:
    lies: list[tuple[dict[str, Any], int]] = [
        ({"iss": "http://127.0.0.1:1"}, 401),
        ({"aud": "another"}, 401),
        ({"nonce": "of another login"}, 401),
        ({"nonce": None}, 401),
        ({"exp": 1}, 401),
        ({"exp": None}, 401),
        ({"iat": None}, 401),
        ({"sub": None}, 401),
        ({"groups": ["visitors"]}, 403),
        ({"groups": None}, 403),
        ({"groups": {"curators": 1}}, 403),
        ({"email": {"Ann": 1}}, 401),
        ({"email": True}, 401),
        ({"sub": 248289, "email": None}, 401),
    ]
    for lie, status in lies:
        assert not came_back(app, provider, status, **lie).cookies.get("odsynth"), lie


def test_what_is_not_signed_with_a_key_of_the_provider_lets_nobody_in(
    app: FastAPI, provider: type[Provider]
) -> None:
    """Somebody else's key, the secret that both know, no key at all, and no identity token."""
    claims = {"iss": app.state.settings.oidc.issuer, "aud": "odsynth", "sub": "1", "groups": ["curators"]}
    client = TestClient(app)
    for forgery in ("another key", "the secret", "no signature", "no token"):
        state = begun(client, provider)
        now = int(time.time())
        whole = claims | {"nonce": provider.nonce, "iat": now, "exp": now + 60}
        head = {"alg": "HS256" if forgery == "the secret" else "RS256", "kid": "1"}
        token = jwt.encode(head, whole, SECRET if forgery == "the secret" else OTHER)
        if forgery == "no signature":
            none = base64.urlsafe_b64encode(b'{"alg": "none"}').decode().rstrip("=")
            token = f"{none}.{token.split('.')[1]}."
        provider.answer = {"userinfo": whole} if forgery == "no token" else {"id_token": token}
        assert client.get(CALLBACK, params={"state": state, "code": "c0de"}).status_code == 401, forgery


def test_only_the_browser_that_asked_brings_the_answer(app: FastAPI, provider: type[Provider]) -> None:
    client = TestClient(app)
    state = begun(client, provider)
    for params in ({"state": "x", "code": "c0de"}, {"state": state}, {"state": state, "code": "wrong"}, {}):
        assert client.get(CALLBACK, params=params).status_code == 401
    assert TestClient(app).get(CALLBACK, params={"state": state, "code": "c0de"}).status_code == 401


def test_a_login_ends_once(app: FastAPI, provider: type[Provider]) -> None:
    """Whoever has its cookie, and a provider that takes its code twice."""
    client = TestClient(app)
    answer = {"state": begun(client, provider), "code": "c0de"}
    cookies = {"odsynth-login": client.cookies["odsynth-login"]}
    assert client.get(CALLBACK, params=answer).status_code == 200
    assert "odsynth-login" not in client.cookies
    again = TestClient(app, cookies=cookies)
    assert again.get(CALLBACK, params=answer).status_code == 401
    assert not again.cookies.get("odsynth")


def test_a_provider_that_is_away_is_named(app: FastAPI, provider: type[Provider]) -> None:
    oidc = app.state.settings.oidc.model_copy(update={"issuer": "http://127.0.0.1:1"})
    app.state.settings = app.state.settings.model_copy(update={"oidc": oidc})
    assert TestClient(app).get("/operator/login/oidc").status_code == 503
    app.state.settings = app.state.settings.model_copy(update={"oidc": None})
    assert TestClient(app).get("/operator/login/oidc").status_code == 404
