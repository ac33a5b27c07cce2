"""The operators' pages of runs: what may be run, what a plan would cost, progress, approval."""

from __future__ import annotations

import secrets
from fractions import Fraction
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Form, Path, Query, Request
from markupsafe import Markup
from pydantic import BaseModel, Field, ValidationError, field_validator
from sqlalchemy import Row
from starlette.responses import FileResponse, HTMLResponse, Response

import synth
from geo_data.od_files import LODES_CATEGORIES
from pipelines.config.sections import LodesJobsSettings
from pipelines.planning.sweep import AUTO
from pipelines.release.certificate import parse_certificate
from pipelines.service.errors import not_found
from pipelines.service.operators import operations, run_operations
from pipelines.service.operators.lookups import find_certificate, find_run, find_runs
from pipelines.service.operators.models import (
    ComparisonAsked,
    InputEntry,
    NewVersion,
    PlanEntry,
    Reviewed,
    RowAsked,
    RunEntry,
    Submission,
    Verdict,
)
from pipelines.service.operators.operations import BudgetLine
from pipelines.service.operators.page import Approver, Operator, Viewer, page, see
from pipelines.service.operators.review import review
from pipelines.service.parameters import LARGEST, Before, Name, RunNumber, separated
from pipelines.service.public import map_files
from pipelines.service.public.catalog import Catalog
from pipelines.service.public.preparation import Prepared
from pipelines.service.queue import runs
from pipelines.service.queue.comparisons import FRONTIER, MOST, comparison_folder
from pipelines.service.queue.records import STATES, TASKS
from pipelines.service.security import POLICY
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError
from pipelines.views.maps import certificate_words

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# States in which a worker has a run, or will take it: the page of such a run follows it.
WORKING = tuple(dict.fromkeys(state for task in TASKS.values() for state in (task.doing, task.waiting)))
# The map brings its own orders to the browser, which allow its scripts by their hashes.
_MAP_HEADERS = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN"}
_STEPS = 50
_FACTORS = Fraction(1, 2), Fraction(1), Fraction(2)  # of epsilon: what the form of a comparison begins with


def _or_none(value: object) -> object:
    """An empty field of a form is none."""
    return value or None


class _SubmissionForm(Submission):
    csrf: str = ""
    key: Annotated[str, Form(pattern="^[!-~]{1,200}$")]

    _none_given = field_validator("version", mode="before")(_or_none)


class _ComparisonForm(BaseModel):
    """Fields as browsers send them: values with commas between, and a list of tables, column by column."""

    csrf: str = ""
    key: Annotated[str, Form(pattern="^[!-~]{1,200}$")]
    input: str
    epsilon: Annotated[str, Form(max_length=500)] = ""
    delta: Annotated[str, Form(max_length=500)] = ""
    mechanism: list[str] = []
    configured: Literal["yes"] | None = None
    home: list[str] = []
    work: list[str] = []
    attribute: list[str] = []
    weight: list[str] = []

    def asked(self) -> ComparisonAsked:
        """Return what is asked for."""
        columns = zip(self.home, self.work, self.attribute, self.weight, strict=False)
        tables = [
            {"home": home, "work": work or None, "attributes": [by] if by else [], "weight": weight or "1"}
            for home, work, by, weight in columns
            if home
        ]
        workload = [[], tables] if self.configured else [tables]
        values: dict[str, Any] = {"input": self.input, "mechanism": self.mechanism}
        values |= {"epsilon": separated([self.epsilon]), "delta": separated([self.delta])}
        try:
            return ComparisonAsked.model_validate(values | ({"workload": workload} if tables else {}))
        except ValidationError as errors:
            fix = "write numbers as 8.6 or 0.00001, several with commas between; weights as 1"
            what = sorted({str(error["loc"][0]) for error in errors.errors(include_url=False)})
            raise ServiceError(422, "invalid", f"{', '.join(what)}: cannot be tried. Fix: {fix}.") from None


class _RowForm(RowAsked):
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


@router.get("/inputs/{name}/comparison")
def vary(request: Request, who: Viewer, name: Name) -> Response:
    """What of an input can be varied, with a form to compare the plans."""
    found = operations.find_input(request.app.state.settings, name)
    if (config := found.config) is None:
        raise ServiceError(409, "input", f"{name} cannot be used: {found.problem}")
    geography, jobs, epsilon = config.geography, config.jobs, config.privacy.epsilon
    return page(
        request,
        "vary.html",
        who,
        name=name,
        title=config.release.name,
        key=secrets.token_urlsafe(16),
        epsilon=", ".join(synth.decimal_up(epsilon * factor, 4) for factor in _FACTORS),
        delta=synth.decimal_up(config.privacy.delta),
        mechanisms=(AUTO, *sorted(synth.MECHANISMS)),
        mechanism=config.release.mechanism or AUTO,
        areas=(*geography.levels, geography.block, *geography.non_nesting_areas),
        attributes=LODES_CATEGORIES if isinstance(jobs, LodesJobsSettings) else jobs.attributes,
        most=MOST,
    )


@router.post("/comparisons")
def submit_comparison(request: Request, who: Operator, form: Annotated[_ComparisonForm, Form()]) -> Response:
    """Compare plans."""
    state, asked = request.app.state, form.asked()
    run, _ = run_operations.submit_comparison(
        state.store, state.settings, who, asked.input, asked.variation, key=form.key
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
        payable=_payable(settings, runs.get_run(store, run), budgets),
        key=secrets.token_urlsafe(16),
    )


@router.get("/runs/{run}/frontier.png")
def frontier(request: Request, who: Viewer, run: RunNumber) -> Response:
    """The picture of a comparison."""
    state = request.app.state
    runs.get_run(state.store, run)
    path = comparison_folder(state.settings.outs, run) / FRONTIER
    if not path.is_file():
        raise not_found("There is no picture of this run, or not yet.")
    return FileResponse(path, media_type="image/png")


@router.post("/runs/{run}/plans")
def submit_row(
    request: Request, who: Operator, run: RunNumber, asked: Annotated[_RowForm, Form()]
) -> Response:
    """Plan with the settings of a row of a comparison."""
    state = request.app.state
    made, _ = run_operations.submit_row(
        state.store, state.settings, who, run, asked.row, version=asked.version, key=asked.key
    )
    return see(f"/operator/runs/{made}")


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
    return map_files.map_page(request, _mapped(request, run), _MAP_HEADERS)


@router.get("/runs/{run}/map/{part}")
def preview_part(
    request: Request, who: Viewer, run: RunNumber, part: Annotated[str, Path(max_length=100)]
) -> Response:
    """What the page of that map fetches when it is opened."""
    return map_files.map_part(request, _mapped(request, run), part, _MAP_HEADERS)


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


def _preview(request: Request, run: RunEntry) -> Prepared | None:
    """What was prepared of what a run made, if its map has been drawn."""
    catalog: Catalog = request.app.state.catalog
    prepared = None if run.content_sha256 is None else catalog.prepared(run.content_sha256)
    return prepared if prepared is not None and prepared.map.is_file() else None


def _mapped(request: Request, run: int) -> Prepared:
    prepared = _preview(request, find_run(request.app.state.store, run))
    if prepared is None:
        raise not_found("There is no map of this run, or not yet.")
    return prepared


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
    return _covers(budget, synth.exact(cost.paid.epsilon), synth.exact(cost.paid.delta))


def _covers(budget: BudgetLine, epsilon: Fraction, delta: Fraction) -> bool:
    return synth.exact(budget.left_epsilon) >= epsilon and synth.exact(budget.left_delta) >= delta


def _payable(settings: ServiceSettings, row: Row[Any], budgets: list[BudgetLine]) -> frozenset[int]:
    """The rows of a comparison that some budget of the data set can pay for."""
    costs = run_operations.row_costs(settings, row)
    return frozenset(
        number for number, cost in costs.items() if any(_covers(each, *cost) for each in budgets)
    )
