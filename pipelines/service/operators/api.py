"""What operators ask for and do, each once: submit, follow, approve, withdraw; budgets, audit trail, tokens.

A function here is a route of the API, and what it returns is the JSON. `pages` shows the same to people, and
its forms call the same functions. Registered inputs are named, never sent.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Response
from sqlalchemy import Row, update
from starlette.responses import PlainTextResponse

from pipelines.config.toml import ConfigError
from pipelines.publishing import publishing
from pipelines.publishing.destination import PublishError
from pipelines.release.certificate import Certificate
from pipelines.release.witness import add_statement
from pipelines.running.folder import RunFolder
from pipelines.running.unfinished import unfinished_runs, wipe_run
from pipelines.service.access.auth import end_sessions, principal
from pipelines.service.access.tokens import Token, list_tokens, revoke_token
from pipelines.service.errors import answers
from pipelines.service.operators.desk import Approving, Desk, Operating, Viewing, Witnessing
from pipelines.service.operators.inputs import budgets, registered_inputs, usable_config
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
    PlanEntry,
    ProgressEntry,
    RemarkText,
    Reviewed,
    RowAsked,
    RunEntry,
    RunList,
    SessionsOf,
    StatementText,
    Submission,
    TokenList,
    Verdict,
)
from pipelines.service.parameters import LARGEST, Before, Name, RunNumber, VersionName, known_parameters
from pipelines.service.public.models import ReleaseEntry
from pipelines.service.queue import runs
from pipelines.service.queue.comparisons import MOST, Variation, varied
from pipelines.service.queue.records import STATES
from pipelines.service.queue.runs import NewRun
from pipelines.service.queue.schedules import Agenda, read_agenda
from pipelines.service.refusals import conflict, not_found, not_in_state
from pipelines.service.store import ServiceError, list_audit, record, utc_now
from pipelines.service.store import runs as run_table
from pipelines.storage.errors import shown_message
from synth.errors import ShownError

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


_SUBMITTED: dict[str, Any] = {
    "status_code": 201,
    "responses": {200: {"model": RunEntry, "description": "Submitted before"}, **answers(404, 409), **_BODY},
}


@router.get("/whoami", summary="Who the token says you are")
def whoami(desk: Viewing) -> Person:
    """Your name, your role and what it includes."""
    return Person.of(desk.who)


@router.get("/inputs", summary="Registered inputs")
def list_inputs(desk: Viewing) -> InputList:
    """What may be run. The files themselves stay on the server."""
    return InputList(inputs=[InputEntry.of(registered) for registered in registered_inputs(desk.settings)])


@router.post("/runs", summary="Submit a run", **_SUBMITTED)
def submit_run(
    response: Response, body: Submission, desk: Operating, idempotency_key: _Key = None
) -> RunEntry:
    """By default a dry run: what the release would cost and is expected to lose. Nothing is spent by it."""
    config, task = usable_config(desk.settings, body.input), "plan" if body.dry_run else "release"
    new = NewRun(config, body.input, task, body.version, key=idempotency_key)  # type: ignore[arg-type]
    return _submit(desk, response, new)


@router.post("/comparisons", summary="Compare plans of an input", **_SUBMITTED)
def submit_comparison(
    response: Response, body: ComparisonAsked, desk: Operating, idempotency_key: _Key = None
) -> RunEntry:
    """Every combination is planned and tried, as by `odsynth tune`: from public inputs, at no price."""
    config, variation = usable_config(desk.settings, body.input), body.variation
    try:
        number = len(variation.configurations(config))
    except ConfigError as error:
        raise conflict("comparison", shown_message(error, one_line=True)) from None
    if number > MOST:
        rule = f"{number} combinations are more than the {MOST} that are compared at once"
        raise conflict("comparison", rule, "vary fewer values")
    text = variation.model_dump_json()
    return _submit(desk, response, NewRun(config, body.input, "compare", variation=text, key=idempotency_key))


@router.post("/runs/{run}/plans", summary="Make a plan that was compared", **_SUBMITTED)
def submit_row(
    response: Response, run: RunNumber, body: RowAsked, desk: Operating, idempotency_key: _Key = None
) -> RunEntry:
    """Submits a dry run with the settings of a row of the comparison `run`."""
    compared = runs.get_run(desk.store, run)
    if compared.state != "compared":
        raise not_in_state(run, compared.state, "compared")
    rows = json.loads(compared.comparison)["rows"]
    if body.row > len(rows):
        raise not_found(f"Run {run} has compared no such plan; choose a row of its comparison.")
    row = rows[body.row - 1]
    if not row["certified"]:
        raise conflict("comparison", "This plan could not be certified", "choose another plan")
    variation = Variation.model_validate_json(compared.variation)
    try:
        config = varied(desk.config_of(compared), variation, row)
    except ConfigError as error:
        raise conflict("comparison", shown_message(error, one_line=True)) from None
    names = (name for name in ("epsilon", "delta", "mechanism", "workload") if getattr(variation, name))
    chosen = json.dumps({"comparison": run, "row": body.row, "settings": {name: row[name] for name in names}})
    new = NewRun(config, compared.input, version=body.version, variation=chosen, key=idempotency_key)
    return _submit(desk, response, new)


@router.get("/runs", summary="Runs, newest first")
def list_runs(desk: Viewing, state: _State = None, before: Before = None, limit: _Limit = 50) -> RunList:
    """All runs, or those of a state; without the decisions about them."""
    rows = runs.list_runs(desk.store, state=state, before=before, limit=limit)
    return RunList(runs=[RunEntry.of(row) for row in rows])


@router.get("/runs/{run}", responses=answers(404), summary="One run")
def get_run(run: RunNumber, desk: Viewing) -> RunEntry:
    """What it is, where it stands, what it costs, what was decided."""
    return desk.entry(run)


@router.get("/runs/{run}/events", responses=answers(404), summary="Progress of a run")
def get_events(
    run: RunNumber, desk: Viewing, after: Annotated[int, Query(ge=0, le=LARGEST)] = 0
) -> EventList:
    """What happened since the event `after`: states and names of steps; and how far it is."""
    row = runs.get_run(desk.store, run)
    entries = [EventEntry(**event._mapping) for event in runs.list_events(desk.store, run, after)]
    return EventList(state=row.state, progress=ProgressEntry.of_run(row), events=entries)


@router.get(
    "/runs/{run}/log",
    response_class=Response,  # has no type of its own, so that the document gives errors theirs
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **answers(404)},
    summary="Log of a run, as text",
)
def get_log(run: RunNumber, desk: Viewing) -> PlainTextResponse:
    """The same as its progress, a line an event."""
    rows = runs.list_events(desk.store, run)
    lines = (f"{row.time} {row.event} {row.text}".rstrip() for row in rows)
    return PlainTextResponse("".join(f"{line}\n" for line in lines))


@router.get(
    "/runs/{run}/certificate",
    response_model=Certificate,
    responses=answers(404),
    summary="Certificate of a finished run",
)
def get_certificate(run: RunNumber, desk: Viewing) -> Response:
    """The file certificate.json, byte for byte: what an approver should read; the release has it."""
    content = runs.get_run(desk.store, run).certificate
    if content is None:
        raise not_found("This run has no certificate yet.")
    return Response(content, media_type="application/json")


@router.post(
    "/runs/{run}/queue", responses=answers(404, 409) | _BODY, summary="Let a planned run go on to its release"
)
def queue_run(run: RunNumber, body: Reviewed, desk: Operating) -> RunEntry:
    """From here on it costs privacy. The release is drawn from the plan that is named, and from no other."""
    row = runs.get_run(desk.store, run)
    if row.state == "planned" and row.plan:  # else it would be paid for, and could not be published
        desk.check_payable(desk.config_of(row), PlanEntry.model_validate_json(row.plan).paid.price)
        desk.check_free(row.title, row.version)
    return RunEntry.of(runs.queue(desk.store, desk.who, run, body.plan_sha256))


@router.post("/runs/{run}/cancel", responses=answers(404, 409), summary="Take back a run")
def cancel_run(run: RunNumber, desk: Operating) -> RunEntry:
    """Of one whose release was never begun: nothing was spent on it."""
    return RunEntry.of(runs.cancel(desk.store, desk.who, run))


@router.post("/runs/{run}/retry", responses=answers(404, 409), summary="Let a failed run try again")
def retry_run(run: RunNumber, desk: Operating) -> RunEntry:
    """It goes on where it failed; what has been paid for is not paid for again."""
    return RunEntry.of(runs.retry(desk.store, desk.who, run))


@router.post(
    "/runs/{run}/close", responses=answers(404, 409, 503), summary="Close a run that failed or is finished"
)
def close_run(run: RunNumber, desk: Operating) -> RunEntry:
    """For good: what is unfinished on the server is removed, homes included. What was spent stays spent."""
    row = runs.close(desk.store, desk.who, run)
    config = desk.config_of(row)
    try:  # a release that was made and could not be published stays where it is
        staging = RunFolder.of(config.release.out)
        for unfinished in unfinished_runs(config.release.out) if staging.folder.is_dir() else ():
            wipe_run(unfinished)
        _seal(desk, row)
    except (ShownError, OSError) as error:
        rule = f"Run {run} is closed, but its folder is still there: {desk.words_of(error, config)}"
        fix = f"Fix: close run {run} again, or use odsynth runs --wipe on the server"
        raise ServiceError(503, "storage", f"{rule}. {fix}.") from error
    return RunEntry.of(row)


@router.post(
    "/runs/{run}/rename",
    responses=answers(404, 409) | _BODY,
    summary="Publish a run under another version name",
)
def rename_run(run: RunNumber, body: NewVersion, desk: Operating) -> RunEntry:
    """Of what is made and not published. An approver decides about it anew: not whoever gave the name."""
    row = runs.get_run(desk.store, run)
    desk.check_free(row.title, body.version, row.content)
    runs.rename(desk.store, desk.who, run, body.version)
    return desk.entry(run)


@router.post(
    "/runs/{run}/witness",
    responses=answers(404, 409) | _BODY,
    summary="Add the statement of a witness to a finished run",
)
def witness_run(run: RunNumber, body: StatementText, desk: Witnessing) -> RunEntry:
    """Needs somebody who has not submitted, queued, retried or renamed it; it was made again elsewhere."""
    line = f"{body.statement}\n"

    def add(row: Row[Any]) -> None:
        desk.witnesses(row, more=line)
        add_statement(desk.config_of(row).release.out / "public", line)

    return RunEntry.of(runs.witness(desk.store, desk.who, run, add))


@router.post(
    "/runs/{run}/approve", responses=answers(404, 409) | _BODY, summary="Approve the publication of a run"
)
def approve_run(run: RunNumber, body: Verdict, desk: Approving) -> RunEntry:
    """Needs somebody who has not submitted, queued, retried or renamed it, and what they have seen."""
    row = runs.get_run(desk.store, run)
    if row.state == "finished" and body.content_sha256 == row.content:
        desk.check_free(row.title, row.version, row.content)
        if (json.loads(row.certificate).get("commitment") or {}).get("witness"):
            desk.witnesses(row)
    return _decide(desk, run, "approved", body)


@router.post(
    "/runs/{run}/reject", responses=answers(404, 409) | _BODY, summary="Decide that a run is not published"
)
def reject_run(run: RunNumber, body: Verdict, desk: Approving) -> RunEntry:
    """For good. What it has spent stays spent."""
    return _decide(desk, run, "rejected", body)


@router.post(
    "/releases/{name}/{version}/withdraw",
    responses=answers(404, 409, 503) | _BODY,
    summary="Withdraw a version",
)
def withdraw(name: Name, version: VersionName, body: RemarkText, desk: Approving) -> ReleaseEntry:
    """It stays in the catalog, with the reason, and is not given out any more."""
    return _remark(desk, "withdrawn", name, version, body.text)


@router.post(
    "/releases/{name}/{version}/errata", responses=answers(404, 409, 503) | _BODY, summary="Add an erratum"
)
def add_erratum(name: Name, version: VersionName, body: RemarkText, desk: Approving) -> ReleaseEntry:
    """A correction in words, beside the version."""
    return _remark(desk, "erratum", name, version, body.text)


@router.get("/calendar", responses=answers(503), summary="What is due and what is coming")
def get_calendar(desk: Viewing) -> Agenda:
    """Times of the release calendar, with the runs that were made of them."""
    return read_agenda(desk.store, desk.settings)


@router.get("/ledger", responses=answers(503), summary="Budgets of privacy")
def get_ledger(desk: Viewing) -> BudgetList:
    """What was spent on each data set and what is left, from the ledgers, whose chains are checked."""
    return BudgetList(budgets=budgets(desk.settings))


@router.get("/audit", summary="Who did what")
def get_audit(desk: Viewing, before: Before = None, limit: _Limit = 100) -> AuditList:
    """The audit trail, newest first; nothing in it is ever changed."""
    rows = list_audit(desk.store, before=before, limit=limit)
    return AuditList(acts=[AuditEntry(**row._mapping) for row in rows])


@router.get("/tokens", summary="Tokens")
def get_tokens(desk: Viewing) -> TokenList:
    """An approver sees all, everybody else their own. They are made on the server: odsynth token create."""
    owner = None if desk.who.may("approver") else desk.who.person
    return TokenList(tokens=list_tokens(desk.store, owner))


@router.post("/tokens/{token}/revoke", responses=answers(404), summary="Revoke a token")
def revoke(token: Annotated[str, Path(pattern="^[0-9a-f]{8}$")], desk: Viewing) -> Token:
    """At once, and for good. An approver may revoke any, everybody their own."""
    return revoke_token(desk.store, token, by=desk.who)


@router.post("/sessions/end", responses=_BODY, summary="End the sessions of a person")
def end_all_sessions(body: SessionsOf, desk: Approving) -> EndedSessions:
    """At once, in every browser. A token, or the identity provider, may open new ones."""
    return EndedSessions(ended=end_sessions(desk.store, body.person, by=desk.who))


def _submit(desk: Desk, response: Response, new: NewRun) -> RunEntry:
    run, is_new = desk.submit(new)
    response.status_code = 201 if is_new else 200
    return desk.entry(run)


def _decide(desk: Desk, run: int, decision: Literal["approved", "rejected"], body: Verdict) -> RunEntry:
    runs.decide(desk.store, desk.who, run, decision, body.content_sha256, body.comment, body.version)
    _seal(desk, runs.get_run(desk.store, run))
    return desk.entry(run)


def _seal(desk: Desk, row: Row[Any]) -> None:
    """Destroy the key of a run, which was kept for a witness: it has been decided about."""
    RunFolder(desk.config_of(row).release.out).forget_key()


def _remark(
    desk: Desk, action: Literal["withdrawn", "erratum"], name: str, version: str, text: str
) -> ReleaseEntry:
    """Withdraw what is published, or say beside it what is wrong with it; everybody sees the text."""
    catalog, principal = desk.catalog, desk.who
    catalog.refresh()  # a worker may have published it a moment ago
    catalog.version(name, version)
    try:
        with desk.store.write() as connection:  # a remark that is refused is not in the audit trail
            record(connection, principal.person, principal.credential, action, f"{name}/{version}", text)
            if action == "erratum":
                publishing.erratum(catalog.place, name, version, text)
            else:
                publishing.withdraw(catalog.place, name, version, text)
                same = (run_table.c.published_name == name) & (run_table.c.published_version == version)
                withdrawn = update(run_table).where(same, run_table.c.state == "published")
                connection.execute(withdrawn.values(state="withdrawn", changed=utc_now()))
    except PublishError as error:
        raise conflict("publication", desk.words_of(error)) from None
    except OSError as error:
        fix = "Fix: check its permissions and free space on the server"
        detail = f"The folder of publications cannot be written to. {fix}."
        raise ServiceError(503, "storage", detail) from error
    catalog.refresh()
    return ReleaseEntry.of(catalog.version(name, version))
