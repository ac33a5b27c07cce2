"""What stands before every request: limits, headers of security, an account of what was asked."""

from __future__ import annotations

import re
import secrets
import time
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.service.caching import STATEMENT
from pipelines.service.errors import refusal
from pipelines.service.protocol import ADDRESS_TOO_LONG, LONGEST
from pipelines.service.settings import ServiceSettings

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
"""Which change nothing."""

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with no-referrer the forms of our own pages had no Origin
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    # Unless a route says otherwise: what a person is shown after login is nobody else's.
    "Cache-Control": "no-store",
}
_NUMBER = re.compile("[0-9]{1,18}")  # of a length; Python refuses to read numbers of thousands of digits
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_CLIENT_WENT = 499  # in the log, as others write it
_MONITORING = ("/health", "/ready", "/metrics")
_FILE = re.compile("/releases/[^/]+/[^/]+/(files|map)/|/operator/runs/[^/]+/map/")
_COMPRESSION = 5  # of 1 to 9: beyond it answers hardly get smaller
EXPOSED = (
    "Content-Disposition",
    "Content-Range",
    "ETag",
    "Link",
    "Repr-Digest",
    "Retry-After",
    "X-Request-ID",
)
"""Headers of public answers that scripts of other sites may read, beside those that they always may."""
_PUBLIC = ("/api/v1/releases", "/api/v1/openapi.json", "/releases")


class _Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, owner: FastAPI) -> None:
        self._app, self._state = app, owner.state
        self._settings: ServiceSettings = owner.state.settings
        headers = dict(_HEADERS)
        if self._settings.https:
            headers["Strict-Transport-Security"] = "max-age=31536000"
        self._headers = [(name.lower().encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, identity, method, status = time.perf_counter(), secrets.token_hex(8), scope["method"], 0
        # Routes know GET only; HEAD is the same without the content.
        inner = {**scope, "method": "GET" if method == "HEAD" else method, "method_asked": method}
        inner["request_id"] = identity
        # What looks for the name gzip further inside finds it where it is allowed, and only there.
        inner["headers"] = [header for header in scope["headers"] if header[0] != b"accept-encoding"]
        if _takes_gzip(Headers(scope=scope)):
            inner["headers"].append((b"accept-encoding", b"gzip"))

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message["headers"])
                names = {name for name, _ in headers}
                if scope["path"].startswith("/static/") and b"cache-control" not in names:  # they have ETags
                    headers.append((b"cache-control", STATEMENT.encode()))
                    names.add(b"cache-control")
                headers += [header for header in self._headers if header[0] not in names]
                message = {**message, "headers": [*headers, (b"x-request-id", identity.encode())]}
            elif message["type"] == "http.response.body" and method == "HEAD":
                message = {**message, "body": b""}
            await send(message)

        try:
            answer = self._refused(inner)
            if answer is not None:
                await answer(inner, receive, sent)
            else:
                await self._app(inner, self._limited(receive), sent)
        except ClientDisconnect:  # before all of the request had come; nobody waits for an answer
            status = _CLIENT_WENT
        except Exception as error:
            self._state.log.write("error", id=identity, error=_where(error))
            if status:  # too late for an answer; the server breaks the connection
                raise
            detail = f"An error that was not foreseen. Tell the operator its name in the log: {identity}."
            await refusal(Request(inner), 500, "unforeseen", detail)(inner, receive, sent)
        finally:
            self._account(inner, identity, method, status, time.perf_counter() - begun)

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to a request that goes no further."""
        headers = Headers(scope=scope)
        if _CONTROL.search(scope["path"]):  # a last line feed, which routes ignore and proxies do not
            return refusal(Request(scope), 404, "not_found", "There is nothing at this address.")
        if len(scope["raw_path"]) + len(scope["query_string"]) > LONGEST:
            return refusal(Request(scope), 414, "too_large", ADDRESS_TOO_LONG)
        length = headers.get("content-length", "0")
        if not (_NUMBER.fullmatch(length) and int(length) <= self._settings.limits.body):
            return refusal(Request(scope), 413, "too_large", f"The largest body is {self._body_words}.")
        rule = _rule(scope)
        wait = 0 if rule is None else self._state.limits.wait(rule, (scope.get("client") or ("",))[0])
        if wait:
            detail = f"Too many requests from this address; try again in {wait} seconds."
            return refusal(Request(scope), 429, "too_many", detail, {"Retry-After": str(wait)})
        if scope["method"] not in SAFE_METHODS and self._came_from_elsewhere(headers):
            fix = "use the pages of this service; if a proxy is before it, set public_url"
            detail = f"This was sent by a page of another site. Fix: {fix}."
            return refusal(Request(scope), 403, "origin", detail)
        return None

    def _came_from_elsewhere(self, headers: Headers) -> bool:
        """Whether a browser says that a page of another site had it send this. Programs say nothing of it.

        Our pages may be seen at the public address, and at the one that was asked, as through a tunnel.
        """
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return True
        if (origin := headers.get("origin")) is None:
            return False
        site = origin.partition("://")[2]  # nothing of "null"
        ours = (urlsplit(self._settings.address).netloc.lower(), headers.get("host", "").lower())
        return not site or site not in ours

    @property
    def _body_words(self) -> str:
        return f"{self._settings.limits.body:,} bytes"

    def _limited(self, receive: Receive) -> Receive:
        """Count a body that comes in pieces, whatever length was announced."""
        size = 0

        async def received() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._settings.limits.body:
                raise HTTPException(413)
            return message

        return received

    def _account(self, scope: Scope, identity: str, method: str, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "none")
        verb = method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS") else "other"
        self._state.metrics.count(verb, route, status, seconds)
        if route not in _MONITORING:
            entry: dict[str, Any] = {"id": identity, "method": verb, "route": route, "status": status}
            self._state.log.write("request", **entry, seconds=round(seconds, 4))


class _Compression(GZipMiddleware):
    """Answers with gzip, for who takes it.

    Files go out as they are: the list of files has their digests, and parts of maps are compressed already.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _FILE.match(scope["path"]):
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def _takes_gzip(headers: Headers) -> bool:
    """Whether a client takes gzip: with a weight of 0 it does not (RFC 9110, 12.5.3)."""
    weights = {}
    for coding in ",".join(headers.getlist("accept-encoding")).lower().split(","):
        name, _, weight = coding.replace(" ", "").partition(";q=")
        weights[name] = weight or "1"
    return weights.get("gzip", weights.get("*", "0")).strip("0.") != ""


class _PublicCors(CORSMiddleware):
    """Scripts of other sites may read the public side, and nothing else."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"].startswith(_PUBLIC):
            await super().__call__(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def add_security(app: FastAPI) -> None:
    """Put these layers around an application."""
    app.add_middleware(_Compression, minimum_size=1_000, compresslevel=_COMPRESSION)
    app.add_middleware(
        _PublicCors,
        allow_origins=app.state.settings.cors_origins,
        allow_methods=("GET", "HEAD"),
        allow_headers=("If-None-Match", "If-Range", "Range"),
        expose_headers=EXPOSED,
    )
    app.add_middleware(_Guard, owner=app)


def _rule(scope: Scope) -> str | None:
    path = scope["path"]
    if path in _MONITORING:
        return None
    return "operator" if path.startswith(("/api/v1/operator", "/operator")) else "public"


def _where(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    return (
        f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
        if last
        else type(error).__name__
    )
