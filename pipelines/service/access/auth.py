"""Who asks: a bearer token, or a session that a token (or an identity provider) opened in a browser.

The cookie of a session is sealed with a key of the server and holds no secret of the token; whether the token
is still valid, and the session open, is looked up every time. Requests that change something must
carry, besides the cookie, a text that only pages of the service know, and a form on another site does not.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cryptography.fernet import Fernet, InvalidToken
from fastapi import Depends, FastAPI, Request
from fastapi.security import HTTPBearer
from sqlalchemy import delete, insert, select
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from pipelines.service.access.tokens import Principal, Role, person, still_valid
from pipelines.service.errors import SignInError
from pipelines.service.rates import authenticated
from pipelines.service.security import SAFE_METHODS
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError, Store, after, record, sessions, utc_now
from pipelines.storage.durable import write_whole

_SESSION_SECONDS = 8 * 3600
_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
OIDC = "oidc"  # what stands for the id of a token where a provider of identities vouches

# Describes the token in the OpenAPI document; what it finds is looked at below.
_bearer = HTTPBearer(auto_error=False, description="From `odsynth token create`, on the server.")


@dataclass(frozen=True)
class Session:
    """What the cookie says."""

    id: str  # In the table of sessions
    principal: Principal
    csrf: str  # For the hidden field ``csrf`` of every form, or the header ``X-CSRF-Token``


async def principal(request: Request, _: Annotated[object, Depends(_bearer)]) -> Principal:
    """Return who asks."""
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme:
        caller = None
        if scheme.lower() == "bearer":
            caller = await run_in_threadpool(_holder, request, secret)
        if caller is None:
            raise SignInError("This token is not valid, or no longer valid; ask for a new token.")
        return caller
    session = await run_in_threadpool(session_of, request)
    if session is None:
        raise SignInError("This needs a token; send the header Authorization: Bearer TOKEN.")
    if request.method not in SAFE_METHODS and not hmac.compare_digest(
        (await _csrf_sent(request)).encode(errors="replace"), session.csrf.encode()
    ):
        detail = "This form is out of date, or from another site. Fix: load the page again."
        raise ServiceError(403, "csrf", detail)
    return session.principal


def require(role: Role) -> Callable[..., Awaitable[Principal]]:
    """Return the dependency of a route that only this role may use."""

    async def allowed(caller: Annotated[Principal, Depends(principal)]) -> Principal:
        caller.must(role)
        return caller

    return allowed


def open_session(request: Request, response: Response, secret: str) -> Principal | None:
    """Log in with a token.

    As with every other way to show one, what is not valid is counted (`pipelines.service.rates`).
    """
    principal = _holder(request, secret)
    if principal is not None:
        start_session(request, response, principal)
    return principal


def _holder(request: Request, secret: str) -> Principal | None:
    sealer(request.app)  # reads the key
    return authenticated(request, secret.strip(), request.app.state.session_key)


def start_session(request: Request, response: Response, principal: Principal) -> None:
    """Log in somebody who is known already: by their token, or by an identity provider."""
    id = secrets.token_urlsafe(32)
    content = {"id": id, "credential": principal.credential, "csrf": secrets.token_urlsafe(32)}
    if principal.credential == OIDC:
        provider = _fingerprint(request.app.state.settings)
        content |= {"person": principal.person, "role": principal.role, "provider": provider}
    with request.app.state.store.write() as connection:
        connection.execute(delete(sessions).where(sessions.c.begun < after(-_SESSION_SECONDS)))
        connection.execute(insert(sessions).values(id=id, person=principal.person, begun=utc_now()))
        record(connection, principal.person, principal.credential, "logged in", principal.role)
    response.set_cookie(
        _cookie(request.app),
        sealer(request.app).encrypt(json.dumps(content).encode()).decode(),
        max_age=_SESSION_SECONDS,
        path="/",
        secure=request.app.state.settings.https,
        httponly=True,
        samesite="strict",
    )


def close_session(request: Request, response: Response) -> None:
    """Log out: end the session, whoever has a copy of its cookie, and take the cookie away."""
    session = session_of(request)
    if session is not None:
        principal = session.principal
        with request.app.state.store.write() as connection:
            connection.execute(delete(sessions).where(sessions.c.id == session.id))
            record(connection, principal.person, principal.credential, "logged out", principal.person)
    https = request.app.state.settings.https
    response.delete_cookie(_cookie(request.app), path="/", secure=https, httponly=True, samesite="strict")


def end_sessions(store: Store, name: str, *, by: Principal) -> int:
    """Log a person out of all browsers."""
    by.must("approver")
    subject = person(name)
    with store.write() as connection:
        ended = connection.execute(delete(sessions).where(sessions.c.person == subject)).rowcount
        record(connection, by.person, by.credential, "sessions ended", subject, str(ended))
    return ended


def session_of(request: Request) -> Session | None:
    """Return the session of a request, or None if there is none that is valid."""
    cookie = request.cookies.get(_cookie(request.app), "")
    try:
        content = json.loads(sealer(request.app).decrypt(cookie.encode(), ttl=_SESSION_SECONDS))
    except (InvalidToken, ValueError):
        return None
    id, state = content.get("id"), request.app.state
    with state.store.read() as connection:
        if connection.execute(select(sessions.c.id).where(sessions.c.id == id)).first() is None:
            return None
    if content["credential"] != OIDC:
        principal = still_valid(state.store, content["credential"])
    elif content["provider"] == _fingerprint(state.settings):
        principal = Principal(content["person"], content["role"], OIDC)
    else:
        principal = None
    return None if principal is None else Session(id, principal, content["csrf"])


def _fingerprint(settings: ServiceSettings) -> str:
    """Stand for the provider and the roles of its groups: when they are changed, people log in again."""
    rules = settings.model_dump_json(include={"oidc"}, exclude={"oidc": {"client_secret"}})
    return hashlib.sha256(rules.encode()).hexdigest()


async def _csrf_sent(request: Request) -> str:
    if (sent := request.headers.get("x-csrf-token")) is not None:
        return sent
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() in _FORMS:
        value = (await request.form()).get("csrf", "")  # kept by the request: the route reads the same
        return value if isinstance(value, str) else ""
    return ""


def _cookie(app: FastAPI) -> str:
    # With this prefix browsers take the cookie from this host over https only.
    return "__Host-odsynth" if app.state.settings.https else "odsynth"


def sealer(app: FastAPI) -> Fernet:
    """Return what seals cookies, with the key of the server."""
    if not hasattr(app.state, "sealer"):
        app.state.session_key = _key(app.state.settings.folder / "session.key")
        app.state.sealer = Fernet(app.state.session_key)
    return app.state.sealer


def _key(path: Path) -> bytes:
    """Read the key of sessions, which is made once for all servers that share the folder."""
    if not path.exists():
        with suppress(FileExistsError):  # another server was quicker
            write_whole(path, Fernet.generate_key(), new=True)
    return path.read_bytes()
