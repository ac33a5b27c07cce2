"""The JSON of the operators' API. Nothing in it comes from a confidential folder."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from sqlalchemy import Row

import synth
from pipelines.planning.sweep import AUTO
from pipelines.release.certificate import EpsilonDelta, UserLevel
from pipelines.running.payment import Debited, most_cost_of
from pipelines.service.access.tokens import Principal, Token
from pipelines.service.operators.inputs import BudgetLine, RegisteredInput
from pipelines.service.queue.comparisons import MOST, Variation, VariedTable
from pipelines.service.queue.progress import Progress

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


# Exact: what is tried is what is written. As many digits as a budget may have, and then some.
_Number = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,6}(\.[0-9]{1,30})?$")]
_Mechanism = Annotated[str, StringConstraints(pattern=f"^({'|'.join((AUTO, *sorted(synth.MECHANISMS)))})$")]
_Tables = Annotated[tuple[VariedTable, ...], Field(max_length=12)]


class ComparisonAsked(_Asked):
    """Plans that are to be compared: of what is left out, all have what the configuration says."""

    input: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    epsilon: Annotated[tuple[_Number, ...], Field(max_length=MOST)] = ()
    delta: Annotated[tuple[_Number, ...], Field(max_length=MOST)] = ()
    mechanism: Annotated[
        tuple[_Mechanism, ...], Field(max_length=MOST, description="auto is the planner's choice.")
    ] = ()
    workload: Annotated[
        tuple[_Tables, ...],
        Field(max_length=4, description="Tables that a release may be for; [] for the configuration's."),
    ] = ()

    @property
    def variation(self) -> Variation:
        """What is varied, each value once."""
        once = {name: tuple(dict.fromkeys(getattr(self, name))) for name in ("epsilon", "delta", "mechanism")}
        workload = tuple(tables for n, tables in enumerate(self.workload) if tables not in self.workload[:n])
        return Variation(**once, workload=workload)


class RowAsked(_Asked):
    """A plan that was compared, by the number of its row, and the version it would be published under."""

    row: Annotated[int, Field(ge=1, le=MOST)]
    version: _VersionName | None = None


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


class StatementText(_Asked):
    """What `odsynth witness` wrote: a line of witness.intoto.jsonl."""

    statement: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[ -~]+$")]


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
    def of(cls, principal: Principal) -> Person:
        """Describe a principal."""
        may = [role for role in ("viewer", "operator", "witness", "approver") if principal.may(role)]
        return cls(person=principal.person, role=principal.role, credential=principal.credential, may=may)


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
    def of(cls, registered: RegisteredInput) -> InputEntry:
        """Describe a registered input."""
        entry = cls(name=registered.name, usable=registered.config is not None, problem=registered.problem)
        if (config := registered.config) is None or config.ledger is None:
            return entry
        release = config.release
        privacy = config.privacy.model_dump(mode="json")
        described = {"title": release.name, "year": release.year, "job_type": release.job_type}
        account = {"data_set": config.ledger.data_set, "period": config.ledger.period}
        cost = {name: privacy[name] for name in ("epsilon", "delta")}
        price = most_cost_of(config)
        most = EpsilonDelta(epsilon=synth.decimal_up(price.epsilon), delta=synth.decimal_up(price.delta))
        return entry.model_copy(update=described | account | cost | {"most_debit": most})


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
        Debited | None, Field(description="What the ledger is debited: what one person is promised.")
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
    def paid(self) -> Debited:
        """What a ledger is debited for it; a plan that was stored before it said so is of one record."""
        return self.debit or Debited(epsilon=self.epsilon, delta=self.delta)


class ComparedTable(BaseModel):
    """A table that a plan is for: share of its jobs counted elsewhere, and with public data alone."""

    table: str
    loss: float
    public_model: float


class ComparedPlan(BaseModel):
    """A plan of a comparison: its settings, what the planner chose, and what it is expected to lose.

    One that the privacy asked for cannot pay is not `certified`, and has nothing but its settings.
    """

    row: int
    epsilon: str
    delta: str
    mechanism: str
    workload: str
    certified: bool
    chosen_mechanism: str | None = None
    chosen_tables: str | None = None
    chosen_coarsening: str | None = None
    chosen_pool_level: str | None = None
    chosen_pool_by: str | None = None
    total_variation: float | None = None
    block_variation: float | None = None
    mean_commute_error: float | None = None
    destination_error: float | None = None
    noise_share: float | None = None
    objective: float | None = None
    tables: list[ComparedTable] = []


class Comparison(BaseModel):
    """Plans beside each other; from public inputs, without a home and without a price.

    Attributes
    ----------
    asked : Variation
        What is varied.
    rows : list of ComparedPlan
        Empty until all were tried.
    recommended : str or None
        The combination that loses least at the configured price, as text for a configuration, and why.
    """

    asked: Variation
    rows: list[ComparedPlan] = []
    recommended: str | None = None


class Chosen(BaseModel):
    """Of a run that was asked for from a comparison: which row, and what it was that was varied."""

    comparison: int
    row: int
    settings: dict[str, str]


class ProgressEntry(BaseModel):
    """How far the task of a run is; only while a worker has it.

    Attributes
    ----------
    step : str
        What it does, by a name of the program's.
    number, of : int
        Which step that is, and of how many, where that is known.
    done, total, percent
        Parts of this step that are done; none where it is not counted.
    seconds_left : float or None
        Of this step, at the rate measured so far; none where nothing was measured.
    words : str
    """

    step: str
    number: int
    of: int | None
    done: int | None
    total: int | None
    percent: int | None
    seconds_left: float | None
    words: str

    @classmethod
    def of_run(cls, row: Row[Any]) -> ProgressEntry | None:
        """Describe the progress of a run."""
        if row.progress is None:
            return None
        progress = Progress.model_validate_json(row.progress)
        counted = (progress.done, progress.total) if progress.total else (None, None)
        return cls(
            step=progress.step,
            number=progress.number,
            of=progress.of,
            done=counted[0],
            total=counted[1],
            percent=progress.percent,
            seconds_left=progress.seconds_left(),
            words=progress.words,
        )


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
        Why it failed; of what is published, the message is what its verification did not compare.
    published_name, published_version : str or None
    progress : ProgressEntry or None
    comparison : Comparison or None
        Of a run that compares plans.
    chosen : Chosen or None
        Of a run whose plan was chosen from such a comparison.
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
    progress: ProgressEntry | None = None
    comparison: Comparison | None = None
    chosen: Chosen | None = None
    decision: Decision | None = None

    @classmethod
    def of(cls, row: Row[Any], decision: Row[Any] | None = None) -> RunEntry:
        """Describe a run, with the decision about it."""
        documents = ("plan", "progress", "comparison")
        values = {k: v for k, v in row._mapping.items() if k in cls.model_fields and k not in documents}
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
            progress=ProgressEntry.of_run(row),
            comparison=_comparison(row) if row.task == "compare" else None,
            chosen=Chosen.model_validate_json(row.variation)
            if row.variation and row.task != "compare"
            else None,
            decision=None
            if decision is None
            else Decision(**{name: decision._mapping[name] for name in Decision.model_fields}),
        )


def _comparison(row: Row[Any]) -> Comparison:
    document = json.loads(row.comparison or "{}")
    rows = [
        ComparedPlan(row=number, **values) for number, values in enumerate(document.get("rows", ()), start=1)
    ]
    variation = Variation.model_validate_json(row.variation)
    return Comparison(asked=variation, rows=rows, recommended=document.get("recommended"))


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
    """What happened to a run, and its `state` and `progress` now; more comes `after` the last event."""

    state: str
    progress: ProgressEntry | None
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
