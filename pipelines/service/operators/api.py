"""What operators ask for and do, each once: submit, follow, approve, withdraw; budgets, audit trail, tokens.

A function here is a route of the API, and what it returns is the JSON. `pages` shows the same to people, and
its forms call the same functions. Registered inputs are named, never sent.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.responses import PlainTextResponse

from pipelines.release.certificate import Certificate
from pipelines.service.access.auth import Approver, Operator, Viewer, end_sessions, principal
from pipelines.service.access.tokens import Token, list_tokens, revoke_token
from pipelines.service.errors import answers, not_found
from pipelines.service.operators import operations, run_operations
from pipelines.service.operators.models import (
    AuditEntry,
    AuditList,
    BudgetList,
    ComparisonAsked,
    EndedSessions,
    EventEntry,
    EventList,
    InputEntry,
    InputList,
    NewVersion,
    Person,
    ProgressEntry,
    RemarkText,
    Reviewed,
    RowAsked,
    RunEntry,
    RunList,
    SessionsOf,
    Submission,
    TokenList,
    Verdict,
)
from pipelines.service.parameters import LARGEST, Before, Name, RunNumber, VersionName, known_parameters
from pipelines.service.public.models import ReleaseEntry
from pipelines.service.queue import runs
from pipelines.service.queue.records import STATES
from pipelines.service.queue.schedules import Agenda, read_agenda
from pipelines.service.store import Store, list_audit

router = APIRouter(
    prefix="/api/v1/operator",
    tags=["operator"],
    dependencies=[Depends(principal), Depends(known_parameters)],
    responses=answers(401, 403, 422, 429),
)

_BODY = answers(400, 413)  # of routes that read a body
_Limit = Annotated[int, Query(ge=1, le=200)]
_State = Annotated[str | None, Query(pattern=f"^({'|'.join(STATES)})$", description="Only of this state.")]
_Key = Annotated[
    str | None, Header(pattern="^[!-~]{1,200}$", description="A second submission with it is the first.")
]


@router.get("/whoami", summary="Who the token says you are")
def whoami(who: Viewer) -> Person:
    """Your name, your role and what it includes."""
    return Person.of(who)


@router.get("/inputs", summary="Registered inputs")
def list_inputs(request: Request, _: Viewer) -> InputList:
    """What may be run. The files themselves stay on the server."""
    inputs = operations.registered_inputs(request.app.state.settings)
    return InputList(inputs=[InputEntry.of(each) for each in inputs])


@router.post(
    "/runs",
    status_code=201,
    responses={200: {"model": RunEntry, "description": "Submitted before"}, **answers(404, 409), **_BODY},
    summary="Submit a run",
)
def submit_run(
    request: Request, response: Response, asked: Submission, who: Operator, idempotency_key: _Key = None
) -> RunEntry:
    """By default a dry run: what the release would cost and is expected to lose. Nothing is spent by it."""
    state = request.app.state
    run, new = run_operations.submit_input(
        state.store,
        state.settings,
        who,
        asked.input,
        version=asked.version,
        dry_run=asked.dry_run,
        key=idempotency_key,
    )
    response.status_code = 201 if new else 200
    return _entry(state.store, run)


@router.post(
    "/comparisons",
    status_code=201,
    responses={200: {"model": RunEntry, "description": "Submitted before"}, **answers(404, 409), **_BODY},
    summary="Compare plans of an input",
)
def submit_comparison(
    request: Request, response: Response, asked: ComparisonAsked, who: Operator, idempotency_key: _Key = None
) -> RunEntry:
    """Every combination is planned and tried, as by `odsynth tune`: from public inputs, at no price."""
    state = request.app.state
    run, new = run_operations.submit_comparison(
        state.store, state.settings, who, asked.input, asked.variation, key=idempotency_key
    )
    response.status_code = 201 if new else 200
    return _entry(state.store, run)


@router.post(
    "/runs/{run}/plans",
    status_code=201,
    responses={200: {"model": RunEntry, "description": "Submitted before"}, **answers(404, 409), **_BODY},
    summary="Make a plan that was compared",
)
def submit_row(
    request: Request,
    response: Response,
    run: RunNumber,
    asked: RowAsked,
    who: Operator,
    idempotency_key: _Key = None,
) -> RunEntry:
    """Submits a dry run with the settings of a row of the comparison `run`."""
    state = request.app.state
    made, new = run_operations.submit_row(
        state.store, state.settings, who, run, asked.row, version=asked.version, key=idempotency_key
    )
    response.status_code = 201 if new else 200
    return _entry(state.store, made)


@router.get("/runs", summary="Runs, newest first")
def list_runs(
    request: Request, _: Viewer, state: _State = None, before: Before = None, limit: _Limit = 50
) -> RunList:
    """All runs, or those of a state; without the decisions about them."""
    rows = runs.list_runs(request.app.state.store, state=state, before=before, limit=limit)
    return RunList(runs=[RunEntry.of(row) for row in rows])


@router.get("/runs/{run}", responses=answers(404), summary="One run")
def get_run(request: Request, run: RunNumber, _: Viewer) -> RunEntry:
    """What it is, where it stands, what it costs, what was decided."""
    return _entry(request.app.state.store, run)


@router.get("/runs/{run}/events", responses=answers(404), summary="Progress of a run")
def get_events(
    request: Request, run: RunNumber, _: Viewer, after: Annotated[int, Query(ge=0, le=LARGEST)] = 0
) -> EventList:
    """What happened since the event `after`: states and names of steps; and how far it is."""
    store: Store = request.app.state.store
    row = runs.get_run(store, run)
    entries = [EventEntry(**each._mapping) for each in runs.list_events(store, run, after)]
    return EventList(state=row.state, progress=ProgressEntry.of_run(row), events=entries)


@router.get(
    "/runs/{run}/log",
    response_class=Response,  # has no type of its own, so that the document gives errors theirs
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **answers(404)},
    summary="Log of a run, as text",
)
def get_log(request: Request, run: RunNumber, _: Viewer) -> PlainTextResponse:
    """The same as its progress, a line an event."""
    rows = runs.list_events(request.app.state.store, run)
    lines = (f"{row.time} {row.event} {row.text}".rstrip() for row in rows)
    return PlainTextResponse("".join(f"{line}\n" for line in lines))


@router.get(
    "/runs/{run}/certificate",
    response_model=Certificate,
    responses=answers(404),
    summary="Certificate of a finished run",
)
def get_certificate(request: Request, run: RunNumber, _: Viewer) -> Response:
    """The file certificate.json, byte for byte: what an approver should read; the release has it."""
    content = runs.get_run(request.app.state.store, run).certificate
    if content is None:
        raise not_found("This run has no certificate yet.")
    return Response(content, media_type="application/json")


@router.post(
    "/runs/{run}/queue", responses=answers(404, 409) | _BODY, summary="Let a planned run go on to its release"
)
def queue_run(request: Request, run: RunNumber, asked: Reviewed, who: Operator) -> RunEntry:
    """From here on it costs privacy. The release is drawn from the plan that is named, and from no other."""
    state = request.app.state
    return RunEntry.of(run_operations.queue_run(state.store, state.settings, who, run, asked.plan_sha256))


@router.post("/runs/{run}/cancel", responses=answers(404, 409), summary="Take back a run")
def cancel_run(request: Request, run: RunNumber, who: Operator) -> RunEntry:
    """Of one whose release was never begun: nothing was spent on it."""
    return RunEntry.of(runs.cancel(request.app.state.store, who, run))


@router.post("/runs/{run}/retry", responses=answers(404, 409), summary="Let a failed run try again")
def retry_run(request: Request, run: RunNumber, who: Operator) -> RunEntry:
    """It goes on where it failed; what has been paid for is not paid for again."""
    return RunEntry.of(runs.retry(request.app.state.store, who, run))


@router.post("/runs/{run}/close", responses=answers(404, 409, 503), summary="Close a failed run")
def close_run(request: Request, run: RunNumber, who: Operator) -> RunEntry:
    """For good: what it left on the server is removed, homes included. What it has spent stays spent."""
    state = request.app.state
    return RunEntry.of(run_operations.close_run(state.store, state.settings, who, run))


@router.post(
    "/runs/{run}/rename",
    responses=answers(404, 409) | _BODY,
    summary="Publish a run under another version name",
)
def rename_run(request: Request, run: RunNumber, asked: NewVersion, who: Operator) -> RunEntry:
    """Of what is made and not published. An approver decides about it anew: not whoever gave the name."""
    state = request.app.state
    run_operations.rename_run(state.store, state.settings, who, run, asked.version)
    return _entry(state.store, run)


@router.post(
    "/runs/{run}/approve", responses=answers(404, 409) | _BODY, summary="Approve the publication of a run"
)
def approve_run(request: Request, run: RunNumber, asked: Verdict, who: Approver) -> RunEntry:
    """Needs somebody who has not submitted, queued, retried or renamed it, and what they have seen."""
    state = request.app.state
    run_operations.approve(
        state.store, state.settings, who, run, asked.content_sha256, asked.comment, asked.version
    )
    return _entry(state.store, run)


@router.post(
    "/runs/{run}/reject", responses=answers(404, 409) | _BODY, summary="Decide that a run is not published"
)
def reject_run(request: Request, run: RunNumber, asked: Verdict, who: Approver) -> RunEntry:
    """For good. What it has spent stays spent."""
    store: Store = request.app.state.store
    runs.decide(store, who, run, "rejected", asked.content_sha256, asked.comment, asked.version)
    return _entry(store, run)


@router.post(
    "/releases/{name}/{version}/withdraw",
    responses=answers(404, 409, 503) | _BODY,
    summary="Withdraw a version",
)
def withdraw(
    request: Request, name: Name, version: VersionName, asked: RemarkText, who: Approver
) -> ReleaseEntry:
    """It stays in the catalog, with the reason, and is not given out any more."""
    state = request.app.state
    done = operations.add_remark(state.store, state.catalog, who, "withdrawn", name, version, asked.text)
    return ReleaseEntry.of(done)


@router.post(
    "/releases/{name}/{version}/errata", responses=answers(404, 409, 503) | _BODY, summary="Add an erratum"
)
def add_erratum(
    request: Request, name: Name, version: VersionName, asked: RemarkText, who: Approver
) -> ReleaseEntry:
    """A correction in words, beside the version."""
    state = request.app.state
    done = operations.add_remark(state.store, state.catalog, who, "erratum", name, version, asked.text)
    return ReleaseEntry.of(done)


@router.get("/calendar", responses=answers(503), summary="What is due and what is coming")
def get_calendar(request: Request, _: Viewer) -> Agenda:
    """Times of the release calendar, with the runs that were made of them."""
    return read_agenda(request.app.state.store, request.app.state.settings)


@router.get("/ledger", responses=answers(503), summary="Budgets of privacy")
def get_ledger(request: Request, _: Viewer) -> BudgetList:
    """What was spent on each data set and what is left, from the ledgers, whose chains are checked."""
    return BudgetList(budgets=operations.budgets(request.app.state.settings))


@router.get("/audit", summary="Who did what")
def get_audit(request: Request, _: Viewer, before: Before = None, limit: _Limit = 100) -> AuditList:
    """The audit trail, newest first; nothing in it is ever changed."""
    rows = list_audit(request.app.state.store, before=before, limit=limit)
    return AuditList(acts=[AuditEntry(**row._mapping) for row in rows])


@router.get("/tokens", summary="Tokens")
def get_tokens(request: Request, who: Viewer) -> TokenList:
    """An approver sees all, everybody else their own. They are made on the server: odsynth token create."""
    owner = None if who.may("approver") else who.person
    return TokenList(tokens=list_tokens(request.app.state.store, owner))


@router.post("/tokens/{token}/revoke", responses=answers(404), summary="Revoke a token")
def revoke(request: Request, token: Annotated[str, Path(pattern="^[0-9a-f]{8}$")], who: Viewer) -> Token:
    """At once, and for good. An approver may revoke any, everybody their own."""
    return revoke_token(request.app.state.store, token, by=who)


@router.post("/sessions/end", responses=_BODY, summary="End the sessions of a person")
def end_all_sessions(request: Request, asked: SessionsOf, who: Approver) -> EndedSessions:
    """At once, in every browser. A token, or the identity provider, may open new ones."""
    return EndedSessions(ended=end_sessions(request.app.state.store, asked.person, by=who))


def _entry(store: Store, run: int) -> RunEntry:
    """A run, with the decision about it."""
    return RunEntry.of(runs.get_run(store, run), runs.decision_of(store, run))
