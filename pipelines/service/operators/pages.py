"""The operators' pages: templates of what the API answers, and forms that call its functions."""

from __future__ import annotations

import inspect
import json
import secrets
from collections.abc import Callable
from fractions import Fraction
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Form, Path, Query, Request
from markupsafe import Markup
from pydantic import BaseModel, Field, ValidationError, create_model, field_validator
from sqlalchemy import Row
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response

import synth
from geo_data.od_files import LODES_CATEGORIES
from pipelines.config.sections import LodesJobsSettings
from pipelines.ledger.budgets import Amounts, Price, amounts_in_words, excess
from pipelines.planning.sweep import AUTO
from pipelines.release.certificate import parse_certificate
from pipelines.running.payment import most_cost_of
from pipelines.service.access.auth import close_session, open_session, session_of, start_session
from pipelines.service.access.oidc import CALLBACK, begin_login, end_login, finish_login
from pipelines.service.access.tokens import Principal
from pipelines.service.errors import LOGIN
from pipelines.service.operators import api
from pipelines.service.operators.desk import Desk, Viewing
from pipelines.service.operators.inputs import BudgetLine, usable_config
from pipelines.service.operators.models import ComparisonAsked, RunEntry
from pipelines.service.operators.review import review
from pipelines.service.parameters import LARGEST, Before, Name, RunNumber, VersionName, separated
from pipelines.service.public import downloads
from pipelines.service.public.preparation import Prepared
from pipelines.service.queue import runs
from pipelines.service.queue.comparisons import FRONTIER, MOST, Variation, comparison_folder, varied
from pipelines.service.queue.records import STATES, TASKS
from pipelines.service.refusals import invalid, not_found
from pipelines.service.rendering import render
from pipelines.service.security import POLICY
from pipelines.service.store import ServiceError
from pipelines.views.maps.page import certificate_words

T = TypeVar("T")
router = APIRouter(prefix="/operator", include_in_schema=False, default_response_class=HTMLResponse)
oidc_router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

# Where to go after signing in: a page of ours, and nothing else.
_Next = Annotated[str, Query(pattern=r"^/operator(/[A-Za-z0-9._/-]*)?$", max_length=500)]
_Key = Annotated[str, Field(pattern="^[!-~]{1,200}$")]
_BY_OIDC = f"{LOGIN}/oidc"
# States in which a worker has a run, or will take it: the page of such a run follows it.
_WORKING = tuple(dict.fromkeys(state for task in TASKS.values() for state in (task.doing, task.waiting)))
# The map brings its own orders to the browser, which allow its scripts by their hashes.
_MAP_HEADERS = {"Content-Security-Policy": "frame-ancestors 'self'", "X-Frame-Options": "SAMEORIGIN"}
_PER_PAGE = {"runs": 50, "acts": 100}
_FACTORS = Fraction(1, 2), Fraction(1), Fraction(2)  # of epsilon: what the form of a comparison begins with


class _ComparisonForm(BaseModel):
    """Fields as browsers send them: values with commas between, and a list of tables, column by column."""

    csrf: str = ""
    key: _Key
    input: str
    epsilon: Annotated[str, Field(max_length=500)] = ""
    delta: Annotated[str, Field(max_length=500)] = ""
    mechanism: list[str] = []
    configured: Literal["yes"] | None = None
    home: list[str] = []
    work: list[str] = []
    attribute: list[str] = []
    weight: list[str] = []

    def body(self) -> ComparisonAsked:
        """Return what the API would be sent; 422 if it cannot be."""
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
            fields = sorted({str(error["loc"][0]) for error in errors.errors(include_url=False)})
            raise invalid(f"{', '.join(fields)}: cannot be tried. Fix: {fix}.") from None


class _Act(NamedTuple):
    """A form: an address, the function of the API that it calls, the page that shows what came of it.

    What cannot be undone has fields that must be ticked: who sends them has seen what it does.
    """

    path: str
    function: Callable[..., Any]
    then: str
    ticked: tuple[str, ...] = ()


_RUN, _RELEASE, _TOKENS = "/operator/runs/{id}", "/operator/releases/{name}/{version}", "/operator/tokens"
_ACTS = (
    _Act("/runs", api.submit_run, _RUN),
    _Act("/comparisons", api.submit_comparison, _RUN),
    _Act("/runs/{run}/plans", api.submit_row, _RUN),
    _Act("/runs/{run}/queue", api.queue_run, _RUN, ("seen",)),
    _Act("/runs/{run}/cancel", api.cancel_run, _RUN),
    _Act("/runs/{run}/retry", api.retry_run, _RUN),
    _Act("/runs/{run}/close", api.close_run, _RUN, ("seen",)),
    _Act("/runs/{run}/rename", api.rename_run, _RUN),
    _Act("/runs/{run}/witness", api.witness_run, "/operator/runs/{id}/approval"),
    _Act("/runs/{run}/approve", api.approve_run, _RUN, ("certificate", "accuracy", "map", "name")),
    _Act("/runs/{run}/reject", api.reject_run, _RUN, ("seen",)),
    _Act("/releases/{name}/{version}/withdraw", api.withdraw, _RELEASE, ("seen",)),
    _Act("/releases/{name}/{version}/errata", api.add_erratum, _RELEASE),
    _Act("/tokens/{token}/revoke", api.revoke, _TOKENS),
    _Act("/sessions/end", api.end_all_sessions, _TOKENS),
)


def _add_act(act: _Act) -> None:
    """Register a form; its fields are those of what the API is sent, with an empty version as none."""
    parameters = dict(inspect.signature(act.function, eval_str=True).parameters)
    body, key = parameters.pop("body", None), parameters.pop("idempotency_key", None)
    fields: dict[str, Any] = {"csrf": (str, ""), **dict.fromkeys(act.ticked, (Literal["yes"], ...))}
    if key is not None:
        fields["key"] = (_Key, ...)
    form: type[BaseModel] = _ComparisonForm
    if body is None or body.annotation is not ComparisonAsked:
        or_none = field_validator("version", mode="before", check_fields=False)(lambda value: value or None)
        form = create_model(
            "Form",
            __base__=BaseModel if body is None else body.annotation,
            __validators__={"or_none": or_none},
            **fields,
        )

    def answer(**values: Any) -> Response:
        sent = values.pop("form")
        if body is not None:
            values["body"] = sent.body() if isinstance(sent, _ComparisonForm) else sent
        if key is not None:
            values["idempotency_key"] = sent.key
        return _see(act.then.format_map(vars(act.function(**values))))

    sent = inspect.Parameter("form", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[form, Form()])
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters.values()]
    answer.__signature__ = inspect.Signature([*keywords, sent])  # type: ignore[attr-defined]
    router.add_api_route(act.path, answer, methods=["POST"])


for _act in _ACTS:
    _add_act(_act)


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
    response = _see(next)
    if open_session(request, response, token) is None:
        return _login_page(request, next, problem="This token is not valid, or no longer valid.")
    return response


@oidc_router.get(_BY_OIDC)
async def sign_in_elsewhere(request: Request) -> Response:
    """Go to the provider of identities."""
    return await begin_login(request)


@oidc_router.get(CALLBACK)
def come_back(request: Request, principal: Annotated[Principal, Depends(finish_login)]) -> Response:
    """Open a session for whom the provider vouches."""
    response = render(request, "operator/signed_in.html")
    start_session(request, response, principal)
    end_login(request, response)
    return response


@router.post("/logout")
def sign_out(request: Request, _: Viewing) -> Response:
    """Close the session."""
    response = _see(LOGIN)
    close_session(request, response)
    return response


@router.get("")
def dashboard(request: Request, desk: Viewing) -> Response:
    """What waits for whoever asks, what is at work, and what is coming."""
    agenda, problem = _or_problem(lambda: api.get_calendar(desk))
    return _page(
        request,
        "dashboard.html",
        desk.who,
        counts=runs.counts(desk.store),
        mine=_waits_for(desk),
        working=[run for name in _WORKING for run in api.list_runs(desk, name).runs],
        agenda=agenda,
        problem=problem,
        workers_alive=request.app.state.workers.alive,
    )


@router.get("/releases")
def releases(request: Request, desk: Viewing) -> Response:
    """What is published."""
    return _page(request, "releases.html", desk.who, versions=desk.catalog.versions())


@router.get("/releases/{name}/{version}")
def release(request: Request, desk: Viewing, name: Name, version: VersionName) -> Response:
    """A published version, with the forms of withdrawal and errata."""
    return _page(request, "release.html", desk.who, version=desk.catalog.version(name, version))


@router.get("/inputs")
def inputs(request: Request, desk: Viewing) -> Response:
    """What may be run, with a form to plan it."""
    return _page(request, "inputs.html", desk.who, inputs=api.list_inputs(desk).inputs)


@router.get("/calendar")
def calendar(request: Request, desk: Viewing) -> Response:
    """What is due and what is coming."""
    has_one = desk.settings.calendar is not None
    return _page(request, "calendar.html", desk.who, agenda=api.get_calendar(desk), has_one=has_one)


@router.get("/ledger")
def ledger(request: Request, desk: Viewing) -> Response:
    """The budgets, as bars."""
    return _page(request, "ledger.html", desk.who, budgets=api.get_ledger(desk).budgets)


@router.get("/audit")
def audit(request: Request, desk: Viewing, before: Before = None) -> Response:
    """Who did what."""
    acts = api.get_audit(desk, before, most := _PER_PAGE["acts"]).acts
    return _page(request, "audit.html", desk.who, acts=acts, more=len(acts) == most)


@router.get("/tokens")
def tokens(request: Request, desk: Viewing) -> Response:
    """The tokens that whoever asks may see."""
    return _page(request, "tokens.html", desk.who, tokens=api.get_tokens(desk).tokens)


@router.get("/inputs/{name}/comparison")
def vary(request: Request, desk: Viewing, name: Name) -> Response:
    """What of an input can be varied, with a form to compare the plans."""
    config = usable_config(desk.settings, name)
    geography, jobs, epsilon = config.geography, config.jobs, config.privacy.epsilon
    return _page(
        request,
        "vary.html",
        desk.who,
        name=name,
        title=config.release.name,
        epsilon=", ".join(synth.decimal_up(epsilon * factor, 4) for factor in _FACTORS),
        delta=synth.decimal_up(config.privacy.delta),
        mechanisms=(AUTO, *sorted(synth.MECHANISMS)),
        mechanism=config.release.mechanism or AUTO,
        areas=(*geography.levels, geography.block, *geography.non_nesting_areas),
        attributes=LODES_CATEGORIES if isinstance(jobs, LodesJobsSettings) else jobs.attributes,
        most=MOST,
    )


@router.get("/runs")
def list_runs(
    request: Request,
    desk: Viewing,
    state: Annotated[str, Query(pattern=f"^({'|'.join(STATES)})?$")] = "",
    before: Before = None,
) -> Response:
    """The runs, newest first."""
    entries = api.list_runs(desk, state or None, before, most := _PER_PAGE["runs"]).runs
    counts = runs.counts(desk.store)
    more = len(entries) == most
    return _page(request, "runs.html", desk.who, runs=entries, state=state, counts=counts, more=more)


@router.get("/compare")
def compare(
    request: Request,
    desk: Viewing,
    run: Annotated[list[Annotated[int, Field(ge=1, le=LARGEST)]], Query(max_length=8)] = [],  # noqa: B006
) -> Response:
    """Plans side by side."""
    entries = [api.get_run(number, desk) for number in dict.fromkeys(run)]
    return _page(
        request, "compare.html", desk.who, runs=[entry for entry in entries if entry.plan is not None]
    )


@router.get("/runs/{run}")
def get_run(request: Request, desk: Viewing, run: RunNumber) -> Response:
    """A run: what it would cost, how far it is, what may be done with it."""
    store = desk.store
    entry, row = api.get_run(run, desk), runs.get_run(store, run)
    # A release that was begun before, and failed, may have been paid for; that the ledger shows.
    begun = runs.release_begun(store, run)
    unpaid = entry.plan if entry.state in ("planned", "queued") and not begun else None
    budgets, problem = _budgets(desk, entry.data_set)
    paying = [] if unpaid is None else [budget for budget in budgets if _pays(budget, unpaid.paid.price)]
    costs = _row_costs(desk, row)
    return _page(
        request,
        "run.html",
        desk.who,
        run=entry,
        events=runs.list_events(store, run),
        working=entry.state in _WORKING,
        cancellable=entry.state in runs.CANCELLABLE and not begun,
        renamable=entry.state == "finished" or (entry.state, entry.task) == ("failed", "publish"),
        begun=begun,
        unpaid=unpaid,
        cost=unpaid and _shown(synth.Cost.of(*unpaid.paid.price)),
        taken=unpaid and desk.why_taken(row),
        remaining=unpaid and ", ".join(_remaining(budget, unpaid.paid.price) for budget in paying),
        budgets=budgets,
        problem=problem,
        short=unpaid is not None and not _affordable(budgets, unpaid.paid.price),
        payable={number for number, price in costs.items() if _affordable(budgets, price)},
    )


@router.get("/runs/{run}/frontier.png")
def frontier(desk: Viewing, run: RunNumber) -> Response:
    """The picture of a comparison."""
    runs.get_run(desk.store, run)
    path = comparison_folder(desk.settings.outs, run) / FRONTIER
    if not path.is_file():
        raise not_found("There is no picture of this run, or not yet.")
    return FileResponse(path, media_type="image/png")


@router.get("/runs/{run}/approval")
def approval(request: Request, desk: Viewing, run: RunNumber) -> Response:
    """A finished release with its certificate and its map, and the form that decides about it."""
    store = desk.store
    entry = api.get_run(run, desk)
    certificate = parse_certificate(bytes(api.get_certificate(run, desk).body))
    public = desk.config_of(runs.get_run(store, run)).release.out / "public"
    budgets, problem = _budgets(desk, entry.data_set)
    response = _page(
        request,
        "approval.html",
        desk.who,
        run=entry,
        certificate=certificate,
        words=Markup(certificate_words(certificate, signed=entry.signed)),  # escaped by itself
        has_map=_preview(desk, entry) is not None,
        own=desk.who.person in runs.movers(store, run),
        witnesses=_witnesses(desk, runs.get_run(store, run)),
        review=review(desk.catalog, public, certificate, entry.published_version),
        budgets=budgets,
        problem=problem,
    )
    response.headers["Content-Security-Policy"] = f"{POLICY}; frame-src 'self'"
    return response


def _witnesses(desk: Desk, row: Row[Any]) -> str | None:
    """Say who has repeated a run; nothing of one whose statement is missing, or whose files are not here."""
    try:
        return desk.witnesses(row)
    except (ServiceError, OSError):
        return None


@router.get("/runs/{run}/map")
def preview(request: Request, desk: Viewing, run: RunNumber) -> Response:
    """The map of a release before it is published, for the page of its approval."""
    return downloads.map_page(request, _mapped(run, desk), _MAP_HEADERS)


@router.get("/runs/{run}/map/{part}")
def preview_part(
    request: Request, desk: Viewing, run: RunNumber, part: Annotated[str, Path(max_length=100)]
) -> Response:
    """What the page of that map fetches when it is opened."""
    kept = downloads.kept_name("run", str(run), "map.html")
    return downloads.map_part(request, _mapped(run, desk), part, _MAP_HEADERS, kept)


def _page(request: Request, template: str, principal: Principal, **context: Any) -> HTMLResponse:
    """Answer with a page of `templates/operator`; by `key`, two clicks on a form of it are one."""
    session, key = session_of(request), secrets.token_urlsafe(16)
    csrf = "" if session is None else session.csrf
    return render(request, f"operator/{template}", who=principal, csrf=csrf, key=key, **context)


def _see(address: str) -> RedirectResponse:
    """Answer a form: what came of it is at another address, which may be loaded again without harm."""
    return RedirectResponse(address, 303)


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


def _waits_for(desk: Desk) -> list[RunEntry]:
    """The runs about which this person is to decide."""
    user = desk.who
    states = ("failed", "planned") if user.may("operator") else ("finished",) if user.may("approver") else ()
    entries = [run for state in states for run in api.list_runs(desk, state).runs]
    return [
        run
        for run in entries
        if run.state != "finished" or user.person not in runs.movers(desk.store, run.id)
    ]


def _preview(desk: Desk, run: RunEntry) -> Prepared | None:
    """What was prepared of what a run made, if its map has been drawn."""
    prepared = None if run.content_sha256 is None else desk.catalog.prepared(run.content_sha256)
    return prepared if prepared is not None and prepared.map.is_file() else None


def _mapped(run: int, desk: Desk) -> Prepared:
    prepared = _preview(desk, api.get_run(run, desk))
    if prepared is None:
        raise not_found("There is no map of this run, or not yet.")
    return prepared


def _or_problem(read: Callable[[], T]) -> tuple[T | None, str | None]:
    """What is shown on a page of something else, or why it cannot be."""
    try:
        return read(), None
    except ServiceError as error:
        return None, error.detail


def _budgets(desk: Desk, data_set: str) -> tuple[list[BudgetLine], str | None]:
    """The budgets of a data set, or why they cannot be shown."""
    ledger, problem = _or_problem(lambda: api.get_ledger(desk))
    return [budget for budget in (ledger.budgets if ledger else ()) if budget.data_set == data_set], problem


def _row_costs(desk: Desk, row: Row[Any]) -> dict[int, Price]:
    """What a ledger is debited at most for the rows of a comparison, by their numbers from 1."""
    if row.task != "compare" or not row.comparison:
        return {}
    config, variation = desk.config_of(row), Variation.model_validate_json(row.variation)
    rows = enumerate(json.loads(row.comparison)["rows"], start=1)
    return {number: most_cost_of(varied(config, variation, values)) for number, values in rows}


def _shown(cost: synth.Cost) -> dict[str, str]:
    return {name: synth.decimal_up(amount) for name, amount in cost._asdict().items()}


def _left(budget: BudgetLine) -> Amounts:
    """What is left of a budget, of the accounts that it limits."""
    texts = {name: getattr(budget, f"left_{name}") for name in synth.Cost._fields}
    return {name: synth.exact(text) for name, text in texts.items() if text is not None}


def _pays(budget: BudgetLine, price: Price) -> bool:
    return not excess(synth.Cost.of(*price), _left(budget))


def _affordable(budgets: list[BudgetLine], price: Price) -> bool:
    """Whether a budget pays, and each that counts the debits of all periods."""
    return any(_pays(budget, price) for budget in budgets) and all(
        _pays(budget, price) for budget in budgets if budget.period is None
    )


def _remaining(budget: BudgetLine, price: Price) -> str:
    """What is left of a budget that pays, rounded down."""
    cost = synth.Cost.of(*price)
    left = {name: amount - getattr(cost, name) for name, amount in _left(budget).items()}
    words = amounts_in_words(left, synth.decimal_down, 4)
    return words + (f" of {budget.label}" if budget.label else "")
