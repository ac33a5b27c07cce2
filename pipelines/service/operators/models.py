"""The JSON of the operators' API. Nothing in it comes from a confidential folder."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Row

import synth
from pipelines.release.certificate import EpsilonDelta, UserLevel
from pipelines.running.payment import most_cost_of
from pipelines.service.access.tokens import Principal, Token
from pipelines.service.operators.operations import BudgetLine, RegisteredInput

__all__ = [
    "AuditList",
    "BudgetList",
    "Decision",
    "EndedSessions",
    "EventList",
    "InputEntry",
    "InputList",
    "NewVersion",
    "Person",
    "RemarkText",
    "Reviewed",
    "RunEntry",
    "RunList",
    "SessionsOf",
    "Submission",
    "TokenList",
]

# Line breaks and tabs, but no other control characters.
_PLAIN = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$"


def _no_record(version: str) -> str:
    if version.endswith(".json"):
        raise ValueError("a version does not end in .json")
    return version


_VersionName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$", max_length=100),
    AfterValidator(_no_record),
]


_Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Submission(_Asked):
    """A run that is asked for: of which registered input, and under which version it will be published."""

    input: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    version: _VersionName | None = None
    dry_run: bool = True


class Reviewed(_Asked):
    """What an operator lets go on: the plan that they have seen."""

    plan_sha256: _Sha256


class NewVersion(_Asked):
    """The name under which what a run made is to be published; null names it by its content."""

    version: _VersionName | None


class Verdict(_Asked):
    """What an approver decides about: the content, and the version name, that they have seen."""

    content_sha256: _Sha256
    version: Annotated[
        _VersionName | None,
        Field(description="Needed where the run was given another name, unless that of its content."),
    ] = None
    comment: Annotated[str, StringConstraints(strip_whitespace=True, max_length=2000, pattern=_PLAIN)] = ""


class RemarkText(_Asked):
    """A text beside a publication, for everybody."""

    text: Annotated[
        str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000, pattern=_PLAIN)
    ]


class SessionsOf(_Asked):
    """Whose sessions are to end."""

    person: Annotated[str, StringConstraints(min_length=1, max_length=200)]


class EndedSessions(BaseModel):
    """How many sessions were ended."""

    ended: int


class Person(BaseModel):
    """Who asks, and what they may do."""

    person: str
    role: str
    credential: str
    may: list[str]

    @classmethod
    def of(cls, who: Principal) -> Person:
        """Describe a principal."""
        may = [role for role in ("viewer", "operator", "approver") if who.may(role)]
        return cls(person=who.person, role=who.role, credential=who.credential, may=may)


class InputEntry(BaseModel):
    """A registered input; `problem` says why it cannot be used, if it cannot."""

    name: str
    usable: bool
    problem: str
    title: str | None = None
    year: int | None = None
    job_type: str | None = None
    data_set: str | None = None
    period: str | None = None
    epsilon: str | None = None
    delta: str | None = None
    most_debit: Annotated[
        EpsilonDelta | None,
        Field(description="What a ledger is debited at most: for all records of a person."),
    ] = None

    @classmethod
    def of(cls, found: RegisteredInput) -> InputEntry:
        """Describe a registered input."""
        entry = cls(name=found.name, usable=found.config is not None, problem=found.problem)
        if (config := found.config) is None or config.ledger is None:
            return entry
        release = config.release
        privacy = config.canonical()["privacy"]
        described = {"title": release.name, "year": release.year, "job_type": release.job_type}
        account = {"data_set": config.ledger.data_set, "period": config.ledger.period}
        cost = {"epsilon": str(privacy["epsilon"]), "delta": str(privacy["delta"])}
        most = dict(zip(("epsilon", "delta"), map(synth.decimal_up, most_cost_of(config)), strict=True))
        return entry.model_copy(update=described | account | cost | {"most_debit": EpsilonDelta(**most)})


class InputList(BaseModel):
    """What may be run."""

    inputs: list[InputEntry]


class PlanEntry(BaseModel):
    """What a dry run found: cost and expected loss, from public data only; the closer to zero, the better."""

    plan_sha256: str
    epsilon: str
    delta: str
    user_level: UserLevel | None = None
    debit: Annotated[
        EpsilonDelta | None, Field(description="What the ledger is debited: what one person is promised.")
    ] = None
    total_variation: float | None
    block_variation: float | None
    mean_commute_error: float | None
    destination_error: float | None
    noise_share: float | None
    jobs: int
    report: str
    inputs: Annotated[dict[str, str], Field(description="SHA-256 of each public file it was made from.")] = {}

    @property
    def paid(self) -> EpsilonDelta:
        """What a ledger is debited for it; a plan that was stored before it said so is of one record."""
        return self.debit or EpsilonDelta(epsilon=self.epsilon, delta=self.delta)


class Decision(BaseModel):
    """What was decided about a finished run, by whom."""

    person: str
    decision: str
    comment: str
    time: str


class RunEntry(BaseModel):
    """A run and what is known of it.

    Attributes
    ----------
    id : int
    input : str
        Registered input, or the name of a time in the calendar.
    data_set : str
        In the ledger.
    title, version : str
        Of the release; the version is named by the content if it is None.
    state, task : str
        See docs/service.md.
    submitted_by, submitted, queued_by, changed : str
    plan : PlanEntry or None
        Of its dry run.
    plan_sha256 : str or None
        Of the plan that an operator reviews, and that the release is drawn from.
    epsilon, delta, workers, for_release, not_for_release_because
        Of its certificate, once it is finished.
    signed : bool
        Whether its configuration names a key that signs the release.
    content_sha256 : str or None
        Hash of the SHA256SUMS of its release: what an approver quotes.
    error, message : str or None
        Why it failed.
    published_name, published_version : str or None
    decision : Decision or None
    """

    id: int
    input: str
    data_set: str
    title: str
    version: str | None
    state: str
    task: str
    submitted_by: str
    submitted: str
    queued_by: str | None
    changed: str
    plan: PlanEntry | None
    epsilon: str | None
    delta: str | None
    plan_sha256: str | None
    workers: int | None
    for_release: bool | None
    not_for_release_because: list[str]
    signed: bool
    content_sha256: str | None
    error: str | None
    message: str | None
    published_name: str | None
    published_version: str | None
    decision: Decision | None = None

    @classmethod
    def of(cls, row: Row[Any], decision: Row[Any] | None = None) -> RunEntry:
        """Describe a run, with the decision about it."""
        values = {k: v for k, v in row._mapping.items() if k in cls.model_fields and k != "plan"}
        document = json.loads(row.certificate) if row.certificate else {}
        run, totals = document.get("run", {}), document.get("totals", {})
        plan = PlanEntry.model_validate_json(row.plan) if row.plan else None
        return cls(
            **values,
            plan=plan,
            epsilon=run.get("epsilon"),
            delta=run.get("delta"),
            plan_sha256=document.get("plan_sha256", plan and plan.plan_sha256),
            workers=totals.get("synthetic_workers"),
            for_release=document.get("for_release"),
            not_for_release_because=document.get("not_for_release_because", []),
            signed=bool(json.loads(row.configuration).get("signature")),
            content_sha256=row.content,
            decision=None
            if decision is None
            else Decision(**{name: decision._mapping[name] for name in Decision.model_fields}),
        )


class RunList(BaseModel):
    """Runs, newest first; the next page is `before` the last of them."""

    runs: list[RunEntry]


class EventEntry(BaseModel):
    """What happened to a run: a state, or the name of a step that began."""

    id: int
    time: str
    event: str
    text: str


class EventList(BaseModel):
    """The progress of a run; `state` is that of now, and more comes `after` the last event."""

    state: str
    events: list[EventEntry]


class BudgetList(BaseModel):
    """All budgets."""

    budgets: list[BudgetLine]


class AuditEntry(BaseModel):
    """An act: when, who, by which credential, what."""

    id: int
    time: str
    actor: str
    credential: str
    action: str
    subject: str
    detail: str


class AuditList(BaseModel):
    """Acts, newest first."""

    acts: list[AuditEntry]


class TokenList(BaseModel):
    """Tokens, in the order in which they were made."""

    tokens: list[Token]
