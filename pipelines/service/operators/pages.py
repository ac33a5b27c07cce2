"""The operators' pages: signing in, what there is to do, releases, calendar, ledger, audit trail, tokens.

A page shows what the operators' API answers, and its forms do what it does: both call the same functions.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Form, Query, Request
from starlette.responses import HTMLResponse, Response

from pipelines.service.access import auth
from pipelines.service.access.auth import close_session, open_session, start_session
from pipelines.service.access.oidc import CALLBACK, begin_login, finish_login
from pipelines.service.access.tokens import Principal, revoke_token
from pipelines.service.operators import operations, run_pages
from pipelines.service.operators.lookups import find_runs, find_tokens
from pipelines.service.operators.models import RemarkText, RunEntry, SessionsOf
from pipelines.service.operators.page import LOGIN, Approver, Viewer, page, see
from pipelines.service.parameters import Before, Name, VersionName
from pipelines.service.public.catalog import Catalog
from pipelines.service.queue.runs import counts, movers
from pipelines.service.queue.schedules import read_agenda
from pipelines.service.rendering import render
from pipelines.service.store import ServiceError, Store, list_audit

router = APIRouter(prefix="/operator", include_in_schema=False, default_response_class=HTMLResponse)
router.include_router(run_pages.router)
oidc_router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# Where to go after signing in: a page of ours, and nothing else.
_Next = Annotated[str, Query(pattern=r"^/operator(/[A-Za-z0-9._/-]*)?$", max_length=500)]
_BY_OIDC = f"{LOGIN}/oidc"
_ACTS = 100


class _RemarkForm(RemarkText):
    csrf: str = ""


class _WithdrawalForm(_RemarkForm):
    seen: Literal["yes"]


class _SessionsForm(SessionsOf):
    csrf: str = ""


@router.get("/login")
def login(request: Request, next: _Next = "/operator") -> Response:
    """Ask for a token."""
    # Browsers keep the cookie back when they come from another site, as from a link in a letter.
    elsewhere = request.headers.get("sec-fetch-site") == "cross-site"
    return _login_page(request, next, elsewhere=elsewhere)


@router.post("/login")
def sign_in(
    request: Request, token: Annotated[str, Form(max_length=200)], next: _Next = "/operator"
) -> Response:
    """Open a session."""
    response = see(next)
    if open_session(request, response, token) is None:
        return _login_page(request, next, problem="This token is not valid, or not any more.")
    return response


@oidc_router.get(_BY_OIDC)
async def sign_in_elsewhere(request: Request) -> Response:
    """Go to the provider of identities."""
    return await begin_login(request)


@oidc_router.get(CALLBACK)
def come_back(request: Request, who: Annotated[Principal, Depends(finish_login)]) -> Response:
    """Open a session for whom the provider vouches."""
    response = render(request, "operator/signed_in.html")
    start_session(request, response, who)
    return response


@router.post("/logout")
def sign_out(request: Request, _: Viewer) -> Response:
    """Close the session."""
    response = see(LOGIN)
    close_session(request, response)
    return response


@router.get("")
def dashboard(request: Request, who: Viewer) -> Response:
    """What waits for whoever asks, what is at work, and what is coming."""
    state = request.app.state
    try:
        agenda, problem = read_agenda(state.store, state.settings), None
    except ServiceError as error:
        agenda, problem = None, error.detail
    return page(
        request,
        "dashboard.html",
        who,
        counts=counts(state.store),
        mine=_waits_for(state.store, who),
        working=[run for name in run_pages.WORKING for run in find_runs(state.store, name)],
        agenda=agenda,
        problem=problem,
        workers_alive=state.workers.alive,
    )


@router.get("/releases")
def releases(request: Request, who: Viewer) -> Response:
    """What is published."""
    catalog: Catalog = request.app.state.catalog
    return page(request, "releases.html", who, versions=catalog.versions())


@router.get("/releases/{name}/{version}")
def release(request: Request, who: Viewer, name: Name, version: VersionName) -> Response:
    """A published version, with the forms of withdrawal and errata."""
    catalog: Catalog = request.app.state.catalog
    return page(request, "release.html", who, version=catalog.version(name, version))


@router.post("/releases/{name}/{version}/withdraw")
def withdraw(
    request: Request,
    who: Approver,
    name: Name,
    version: VersionName,
    asked: Annotated[_WithdrawalForm, Form()],
) -> Response:
    """Withdraw a version."""
    state = request.app.state
    operations.add_remark(state.store, state.catalog, who, "withdrawn", name, version, asked.text)
    return see(f"/operator/releases/{name}/{version}")


@router.post("/releases/{name}/{version}/errata")
def add_erratum(
    request: Request, who: Approver, name: Name, version: VersionName, asked: Annotated[_RemarkForm, Form()]
) -> Response:
    """Add an erratum."""
    state = request.app.state
    operations.add_remark(state.store, state.catalog, who, "erratum", name, version, asked.text)
    return see(f"/operator/releases/{name}/{version}")


@router.get("/calendar")
def calendar(request: Request, who: Viewer) -> Response:
    """What is due and what is coming."""
    state = request.app.state
    agenda = read_agenda(state.store, state.settings)
    return page(request, "calendar.html", who, agenda=agenda, has_one=state.settings.calendar is not None)


@router.get("/ledger")
def ledger(request: Request, who: Viewer) -> Response:
    """The budgets, as bars."""
    return page(request, "ledger.html", who, budgets=operations.budgets(request.app.state.settings))


@router.get("/audit")
def audit(request: Request, who: Viewer, before: Before = None) -> Response:
    """Who did what."""
    acts = list_audit(request.app.state.store, before=before, limit=_ACTS)
    return page(request, "audit.html", who, acts=acts, more=len(acts) == _ACTS)


@router.get("/tokens")
def tokens(request: Request, who: Viewer) -> Response:
    """The tokens that whoever asks may see."""
    return page(request, "tokens.html", who, tokens=find_tokens(request.app.state.store, who))


@router.post("/tokens/{token}/revoke")
def revoke(request: Request, who: Viewer, token: str) -> Response:
    """Revoke a token."""
    revoke_token(request.app.state.store, token, by=who)
    return see("/operator/tokens")


@router.post("/sessions/end")
def end_sessions(request: Request, who: Approver, asked: Annotated[_SessionsForm, Form()]) -> Response:
    """End the sessions of a person."""
    auth.end_sessions(request.app.state.store, asked.person, by=who)
    return see("/operator/tokens")


def _login_page(
    request: Request, next: str, *, elsewhere: bool = False, problem: str | None = None
) -> Response:
    return render(
        request,
        "operator/login.html",
        status=200 if problem is None else 401,
        next=next,
        elsewhere=elsewhere,
        problem=problem,
        oidc=None if request.app.state.settings.oidc is None else _BY_OIDC,
    )


def _waits_for(store: Store, who: Principal) -> list[RunEntry]:
    """The runs about which this person is to decide."""
    found = []
    if who.may("operator"):
        found = [run for state in ("failed", "planned") for run in find_runs(store, state)]
    if who.may("approver"):
        found += [run for run in find_runs(store, "finished") if who.person not in movers(store, run.id)]
    return found
