"""What the operators' pages share: who may see them, and how they are shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Depends, HTTPException, Request
from starlette.responses import HTMLResponse, RedirectResponse

from pipelines.service.access.auth import principal, session_of
from pipelines.service.access.tokens import Principal, Role
from pipelines.service.rendering import render
from pipelines.service.store import ServiceError

LOGIN = "/operator/login"


def _may(role: Role) -> Callable[..., Awaitable[Principal]]:
    """As `auth.require`, but who is not signed in is sent to do so, and comes back."""

    async def allowed(request: Request) -> Principal:
        try:
            who = await principal(request, None)
        except ServiceError as error:
            if error.status != 401:
                raise
            wanted = request.url.path if request.method == "GET" else "/operator"
            raise HTTPException(303, headers={"Location": f"{LOGIN}?next={quote(wanted)}"}) from None
        who.must(role)
        return who

    return allowed


Viewer = Annotated[Principal, Depends(_may("viewer"))]
Operator = Annotated[Principal, Depends(_may("operator"))]
Approver = Annotated[Principal, Depends(_may("approver"))]


def page(request: Request, template: str, who: Principal, **context: Any) -> HTMLResponse:
    """Answer with a page of `templates/operator`."""
    session = session_of(request)
    csrf = "" if session is None else session.csrf
    return render(request, f"operator/{template}", who=who, csrf=csrf, **context)


def see(address: str) -> RedirectResponse:
    """Answer a form: what came of it is at another address, which may be loaded again without harm."""
    return RedirectResponse(address, 303)
