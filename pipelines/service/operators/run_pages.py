"""The operators' pages of runs: what may be run, what a plan would cost, progress, approval."""

from __future__ import annotations

import secrets
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Form, Query, Request
from markupsafe import Markup
from pydantic import BaseModel, Field, field_validator
from starlette.responses import HTMLResponse, Response

import synth
from pipelines.release.formats import parse_certificate
from pipelines.service.errors import not_found
from pipelines.service.operators import operations, run_operations
from pipelines.service.operators.lookups import find_certificate, find_run, find_runs
from pipelines.service.operators.models import (
    InputEntry,
    NewVersion,
    PlanEntry,
    Reviewed,
    RunEntry,
    Submission,
    Verdict,
)
from pipelines.service.operators.operations import BudgetLine
from pipelines.service.operators.page import Approver, Operator, Viewer, page, see
from pipelines.service.operators.review import review
from pipelines.service.parameters import LARGEST, Before, RunNumber
from pipelines.service.public.catalog import Catalog
from pipelines.service.public.downloads import ServedFile
from pipelines.service.queue import runs
from pipelines.service.queue.records import STATES, TASKS
from pipelines.service.security import POLICY
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError
from pipelines.views.maps import certificate_words

__all__ = ["WORKING", "router"]

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# States in which a worker has a run, or will take it: the page of such a run follows it.
WORKING = tuple(state for task in TASKS.values() for state in (task.doing, task.waiting))
_STEPS = 50


def _or_none(value: object) -> object:
    """An empty field of a form is none."""
    return value or None


class _SubmissionForm(Submission):
    csrf: str = ""
    key: Annotated[str, Form(pattern="^[!-~]{1,200}$")]

    _none_given = field_validator("version", mode="before")(_or_none)


class _ReviewedForm(Reviewed):
    csrf: str = ""
    seen: Literal["yes"]


class _VerdictForm(Verdict):
    csrf: str = ""

    _none_given = field_validator("version", mode="before")(_or_none)


class _RejectionForm(_VerdictForm):
    seen: Literal["yes"]


class _ApprovalForm(_VerdictForm):
    """With what has to be looked at, each ticked."""

    certificate: Literal["yes"]
    accuracy: Literal["yes"]
    map: Literal["yes"]
    name: Literal["yes"]


class _NewVersionForm(NewVersion):
    csrf: str = ""

    _none_given = field_validator("version", mode="before")(_or_none)


class _SeenForm(BaseModel):
    """What cannot be undone: who sends it has ticked that they know what it does."""

    csrf: str = ""
    seen: Literal["yes"]


@router.get("/inputs")
def inputs(request: Request, who: Viewer) -> Response:
    """What may be run, with a form to plan it."""
    # A form that is sent twice, by two clicks, submits one run.
    key = secrets.token_urlsafe(16)
    found = [InputEntry.of(each) for each in operations.registered_inputs(request.app.state.settings)]
    return page(request, "inputs.html", who, inputs=found, key=key)


@router.post("/runs")
def submit(request: Request, who: Operator, asked: Annotated[_SubmissionForm, Form()]) -> Response:
    """Submit a dry run."""
    state = request.app.state
    run, _ = run_operations.submit_input(
        state.store,
        state.settings,
        who,
        asked.input,
        version=asked.version,
        dry_run=asked.dry_run,
        key=asked.key,
    )
    return see(f"/operator/runs/{run}")


@router.get("/runs")
def list_runs(
    request: Request,
    who: Viewer,
    state: Annotated[str, Query(pattern=f"^({'|'.join(STATES)})?$")] = "",
    before: Before = None,
) -> Response:
    """The runs, newest first."""
    found = find_runs(request.app.state.store, state or None, before, _STEPS)
    return page(
        request,
        "runs.html",
        who,
        runs=found,
        state=state,
        counts=runs.counts(request.app.state.store),
        more=len(found) == _STEPS,
    )


@router.get("/compare")
def compare(
    request: Request,
    who: Viewer,
    run: Annotated[list[Annotated[int, Field(ge=1, le=LARGEST)]], Query(max_length=8)] = [],  # noqa: B006
) -> Response:
    """Plans side by side."""
    chosen = [find_run(request.app.state.store, each) for each in dict.fromkeys(run)]
    return page(request, "compare.html", who, runs=[each for each in chosen if each.plan is not None])


@router.get("/runs/{run}")
def get_run(request: Request, who: Viewer, run: RunNumber) -> Response:
    """A run: what it would cost, how far it is, what may be done with it."""
    store, settings = request.app.state.store, request.app.state.settings
    found = find_run(store, run)
    # A release that was begun before, and failed, may have been paid for; that the ledger shows.
    begun = runs.release_begun(store, run)
    unpaid = found.plan if found.state in ("planned", "queued") and not begun else None
    budgets, problem = _budgets(settings, found.data_set)
    return page(
        request,
        "run.html",
        who,
        run=found,
        events=runs.list_events(store, run),
        working=found.state in WORKING,
        cancellable=found.state in runs.CANCELLABLE and not begun,
        renamable=found.state == "finished" or (found.state, found.task) == ("failed", "publish"),
        begun=begun,
        unpaid=unpaid,
        taken=unpaid and run_operations.why_taken(store, settings, runs.get_run(store, run)),
        remaining=unpaid and _remaining(budgets, unpaid),
        budgets=budgets,
        problem=problem,
        short=unpaid is not None and not any(_pays(budget, unpaid) for budget in budgets),
    )


@router.post("/runs/{run}/queue")
def queue(
    request: Request, who: Operator, run: RunNumber, asked: Annotated[_ReviewedForm, Form()]
) -> Response:
    """Let a planned run go on to its release."""
    state = request.app.state
    run_operations.queue_run(state.store, state.settings, who, run, asked.plan_sha256)
    return see(f"/operator/runs/{run}")


@router.post("/runs/{run}/cancel")
def cancel(request: Request, who: Operator, run: RunNumber) -> Response:
    """Take a run back."""
    runs.cancel(request.app.state.store, who, run)
    return see(f"/operator/runs/{run}")


@router.post("/runs/{run}/retry")
def retry(request: Request, who: Operator, run: RunNumber) -> Response:
    """Let a failed run try again."""
    runs.retry(request.app.state.store, who, run)
    return see(f"/operator/runs/{run}")


@router.post("/runs/{run}/close")
def close(request: Request, who: Operator, run: RunNumber, _: Annotated[_SeenForm, Form()]) -> Response:
    """End a failed run for good."""
    state = request.app.state
    run_operations.close_run(state.store, state.settings, who, run)
    return see(f"/operator/runs/{run}")


@router.post("/runs/{run}/rename")
def rename(
    request: Request, who: Operator, run: RunNumber, asked: Annotated[_NewVersionForm, Form()]
) -> Response:
    """Give what was made another version name."""
    state = request.app.state
    run_operations.rename_run(state.store, state.settings, who, run, asked.version)
    return see(f"/operator/runs/{run}")


@router.get("/runs/{run}/approval")
def approval(request: Request, who: Viewer, run: RunNumber) -> Response:
    """A finished release with its certificate and its map, and the form that decides about it."""
    state = request.app.state
    store, settings = state.store, state.settings
    found, certificate = find_run(store, run), parse_certificate(find_certificate(store, run))
    public = run_operations.config_of(settings, runs.get_run(store, run)).release.out / "public"
    budgets, problem = _budgets(settings, found.data_set)
    response = page(
        request,
        "approval.html",
        who,
        run=found,
        certificate=certificate,
        words=Markup(certificate_words(certificate, signed=found.signed)),  # escaped by itself
        has_map=_preview(request, found) is not None,
        own=who.person in runs.movers(store, run),
        review=review(state.catalog, public, certificate, found.published_version),
        budgets=budgets,
        problem=problem,
    )
    response.headers["Content-Security-Policy"] = f"{POLICY}; frame-src 'self'"
    return response


@router.get("/runs/{run}/map")
def preview(request: Request, who: Viewer, run: RunNumber) -> Response:
    """The map of a release before it is published, for the page of its approval."""
    path = _preview(request, find_run(request.app.state.store, run))
    if path is None:
        raise not_found("There is no map of this run, or not yet.")
    # The map brings its own orders to the browser, which allow its scripts by their hashes.
    headers = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN"}
    return ServedFile(path, headers=headers, media_type="text/html; charset=utf-8")


@router.post("/runs/{run}/approve")
def approve(
    request: Request, who: Approver, run: RunNumber, asked: Annotated[_ApprovalForm, Form()]
) -> Response:
    """Approve the publication; a worker then publishes."""
    state = request.app.state
    run_operations.approve(
        state.store, state.settings, who, run, asked.content_sha256, asked.comment, asked.version
    )
    return see(f"/operator/runs/{run}")


@router.post("/runs/{run}/reject")
def reject(
    request: Request, who: Approver, run: RunNumber, asked: Annotated[_RejectionForm, Form()]
) -> Response:
    """Decide that it is not published."""
    store = request.app.state.store
    runs.decide(store, who, run, "rejected", asked.content_sha256, asked.comment, asked.version)
    return see(f"/operator/runs/{run}")


def _preview(request: Request, run: RunEntry) -> Path | None:
    """The map of what a run made, if it has been drawn."""
    catalog: Catalog = request.app.state.catalog
    path = None if run.content_sha256 is None else catalog.prepared(run.content_sha256).map
    return path if path is not None and path.is_file() else None


def _budgets(settings: ServiceSettings, data_set: str) -> tuple[list[BudgetLine], str | None]:
    """The budgets of a data set, or why they cannot be shown."""
    try:
        found = operations.budgets(settings)
    except ServiceError as error:
        return [], error.detail
    return [budget for budget in found if budget.data_set == data_set], None


def _remaining(budgets: list[BudgetLine], cost: PlanEntry) -> str:
    """What is left, once a plan is paid for, of the budgets that can pay for it; rounded down."""
    paying = [each for each in budgets if _pays(each, cost)]
    return ", ".join(
        f"\u03b5 {_less(each.left_epsilon, cost.paid.epsilon)}"
        f" and \u03b4 {_less(each.left_delta, cost.paid.delta)}"
        + (f" of {each.period}" if each.period else "")
        for each in paying
    )


def _less(left: str, cost: str) -> str:
    return synth.decimal_down(synth.exact(left) - synth.exact(cost), 4)


def _pays(budget: BudgetLine, cost: PlanEntry) -> bool:
    left = Decimal(budget.left_epsilon), Decimal(budget.left_delta)
    return left[0] >= Decimal(cost.paid.epsilon) and left[1] >= Decimal(cost.paid.delta)
