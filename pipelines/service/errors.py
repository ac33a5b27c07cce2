"""Errors as answers: JSON of one form from the API, a page for people from everywhere else."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from pipelines.service.rendering import render
from pipelines.service.store import ServiceError

LOGIN = "/operator/login"
_OGC = re.compile("/api/v1/releases/[^/]+/[^/]+/ogc(/|$)")


class Problem(BaseModel):
    """What every error of the API says.

    Attributes
    ----------
    error : str
        One word for programs.
    detail : str
        For people: what is wrong, and the fix.
    """

    error: str
    detail: str


def answers(*statuses: int, pages: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route that may also answer with these errors."""
    kind = {"content": {"text/html": {"schema": {"type": "string"}}}} if pages else {"model": Problem}
    return {status: {**kind, "description": HTTPStatus(status).phrase} for status in statuses}


class SignInError(ServiceError):
    """Nobody is signed in: 401 from the API; who asks for a page is sent to sign in, and comes back."""

    def __init__(self, detail: str) -> None:
        super().__init__(401, "unauthorized", detail)


def add_error_handlers(app: FastAPI) -> None:
    """Make every error of an application one of these answers; none shows a path or a trace of the server.

    What nobody foresaw is answered by `pipelines.service.security`, around everything else.
    """
    app.add_exception_handler(SignInError, _signed_out)
    app.add_exception_handler(ServiceError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    for away in (OperationalError, InterfaceError, PoolTimeoutError):
        app.add_exception_handler(away, _database)


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    headers = {"Retry-After": str(error.retry_after)} if error.status in (429, 503) else {}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return refusal(request, error.status, error.error, error.detail, headers)


def _signed_out(request: Request, error: Exception) -> Response:
    if request.url.path.startswith("/api/"):
        return _refused(request, error)
    wanted = request.url.path if request.method == "GET" else "/operator"
    return RedirectResponse(f"{LOGIN}?next={quote(wanted)}", 303)


def _database(request: Request, error: Exception) -> Response:
    """The database is away: what it said may quote anything, so only its kind goes into the log."""
    request.app.state.log.write("error", id=request.scope["request_id"], error=type(error).__name__)
    detail = "The database of the service does not answer. Nothing was changed; try again."
    return _refused(request, ServiceError(503, "database", detail))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    phrase = HTTPStatus(error.status_code).phrase
    detail = {
        307: "It is at the address that Location names.",
        404: "There is nothing at this address.",
        405: "This address does not answer that method.",
        413: "The body of the request is too large.",
    }.get(error.status_code, f"{phrase}.")
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = _allowed(request) or headers.get("Allow", "")
    return refusal(request, error.status_code, phrase.lower().replace(" ", "_"), detail, headers)


def _allowed(request: Request) -> str:
    """What an address of the API answers: several routes may share it, and each knows only its own method."""
    path = getattr(request.scope.get("route"), "path_format", "")
    methods = {method.upper() for method in request.app.openapi()["paths"].get(path, {})}
    return ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))


def _invalid(request: Request, error: Exception) -> Response:
    """Name the parameters and the rules; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
        for problem in error.errors()[:20]
    ]
    return refusal(request, 422, "invalid", "; ".join(problems))


def refusal(
    request: Request, status: int, error: str, detail: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error as the address was asked for: JSON or a page."""
    headers = {"Cache-Control": "no-store", **(headers or {})}
    if status == 422 and _OGC.match(request.url.path):
        status = 400  # which OGC API demands, where others say 422
    if request.url.path.startswith("/api/"):
        return JSONResponse({"error": error, "detail": detail}, status, headers)
    title = HTTPStatus(status).phrase
    return render(request, "error.html", status=status, headers=headers, title=title, detail=detail)
