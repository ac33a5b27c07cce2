"""The life of a run, from submission to publication: who may move it on, and what is kept of it.

::

    submitted -> comparing -> compared          plans beside each other; nothing is spent
    submitted -> planning -> planned            dry run; nothing is spent
    queued -> running -> finished               the release
    approved -> publishing -> published         its publication; or rejected
    withdrawn

An operator lets a planned run go on to the queue, or cancels it; an approver, who is somebody else, decides
about a finished one. What ends in -ing is done by workers (`claims`): what they were interrupted in goes on
where it stopped. A task that fails leaves the run failed; it can be tried again, and is not paid for twice,
or closed, which is the end. What is made and not published yet can be given another version name, and then
an approver decides about it anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, insert, select
from sqlalchemy.exc import IntegrityError

from pipelines.config.loading import ReleaseConfig
from pipelines.publishing.publishing import folder_name
from pipelines.service.access.tokens import Principal, Role
from pipelines.service.queue.outbox import await_decision
from pipelines.service.queue.records import TASKS, add_event, change, run_row
from pipelines.service.refusals import conflict, not_in_state
from pipelines.service.store import ServiceError, Store, approvals, audit, events, record, runs, utc_now

CALENDAR = Principal("calendar", "operator", "calendar")
CANCELLABLE = ("submitted", "planned", "queued")
_LOOK = "read the run again, then decide"


@dataclass(frozen=True)
class NewRun:
    """A run as it is submitted."""

    config: ReleaseConfig  # with a ledger; it is kept: a file that is edited later changes no run
    input: str  # the name under which it is registered
    task: Literal["plan", "release", "compare"] = "plan"
    version: str | None = None  # under which it is published; by default it is named by its content
    variation: str | None = (
        None  # JSON: what is varied, or in what `config` is another than the registered one
    )
    key: str | None = None  # of idempotency: the same person's second submission with it is the first


def submit(
    store: Store,
    principal: Principal,
    new: NewRun,
    *,
    outs: Path | None = None,
    home: Path | None = None,
    signed: bool = False,
) -> tuple[int, bool]:
    """Submit a run: for its dry run, straight to the queue, or to compare plans.

    With `outs` it gets a folder of its own there; paths below `home` are kept relative to it, so that the
    service can be restored elsewhere; with `signed` a configuration without a key is refused.
    """
    principal.must("operator")
    config, task, key = new.config, new.task, new.key
    if config.ledger is None:
        rule, fix = "has no ledger that pays for its releases", "add [ledger] to its configuration"
        raise conflict("no_ledger", f"{new.input} {rule}", fix)
    if signed and config.signature is None:
        rule, fix = "Only signed releases are published here", "add [signature] to its configuration"
        raise conflict("not_signed", rule, fix)
    now = utc_now()
    row: dict[str, Any] = {
        "input": new.input,
        "version": new.version,
        "task": task,
        "data_set": config.ledger.data_set,
        "title": config.release.name,
        "name": folder_name(config.release.name),
        "configuration": "",
        "state": TASKS[task].waiting,
        "submitted_by": principal.person,
        "submitted": now,
        "changed": now,
        "key": key,
        "queued_by": principal.person if task == "release" else None,
        "variation": new.variation,
    }
    try:
        with store.write() as connection:
            made = connection.execute(insert(runs).values(**row).returning(runs.c.id)).scalar_one()
            kept = config if outs is None else config.with_out(outs / f"run-{made:06}")
            # Numbers as they were written, paths as text: the form in which a run keeps its configuration.
            configuration = json.dumps(kept.model_dump(mode="python"), default=lambda v: _text(v, home))
            change(connection, made, configuration=configuration)
            add_event(connection, made, TASKS[task].waiting)
            record(
                connection,
                principal.person,
                principal.credential,
                "submitted",
                f"run {made}",
                f"{new.input}, {task}",
            )
            return made, True
    except IntegrityError as error:  # at this moment, or before, another took the version name or the key
        if not is_submitted(store, principal, key):
            raise _name_taken(store, row["name"], new.version) from error
    with store.read() as connection:
        same = (runs.c.submitted_by == principal.person) & (runs.c.key == key)
        first = connection.execute(select(runs).where(same)).one()
        # It may have gone on from its dry run; what happened to it first says what was asked for.
        begin = select(events.c.event).where(events.c.run == first.id).order_by(events.c.id).limit(1)
        state = connection.execute(begin).scalar_one()
    before = first.input, first.version, first.variation, state
    if before != (new.input, new.version, new.variation, TASKS[task].waiting):
        rule = "This idempotency key stands for another submission"
        raise conflict("idempotency", rule, "send a new key with a new submission")
    return first.id, False


def queue(store: Store, principal: Principal, run: int, plan_sha256: str) -> Row[Any]:
    """Let a planned run go on to its release: from here on it costs privacy."""
    values = {"state": "queued", "task": "release", "queued_by": principal.person}
    return _move(store, principal, run, "queued", ("planned",), values, plan_sha256)


def cancel(store: Store, principal: Principal, run: int) -> Row[Any]:
    """Take back a run that no worker has and whose release was never begun: nothing was spent on it."""
    return _move(store, principal, run, "cancelled", CANCELLABLE, {"state": "cancelled"})


def retry(store: Store, principal: Principal, run: int) -> Row[Any]:
    """Let a failed run try its task again. What has been paid for is not paid for again."""
    values = {"attempts": 0, "error": None, "message": None}
    return _move(store, principal, run, "retried", ("failed",), values)


def close(store: Store, principal: Principal, run: int) -> Row[Any]:
    """End a run that failed, or is not to be published, for good. What it has spent stays spent."""
    values = {"state": "closed", "lease": None}
    return _move(store, principal, run, "closed", ("failed", "finished", "closed"), values)


def rename(store: Store, principal: Principal, run: int, version: str | None) -> Row[Any]:
    """Give what was made, and is not published, another version name; an approver decides about it then."""
    principal.must("operator")
    try:
        with store.write() as connection:
            row = run_row(connection, run, lock=True)
            if row.state != "failed" or row.task != "publish":
                _must_be(row, ("finished",))
            if version == row.version:
                raise conflict("version", f"Run {run} has this version name already", "choose another name")
            same = (approvals.c.run == run) & (approvals.c.version == (version or ""))
            if connection.execute(select(approvals.c.run).where(same)).first() is not None:
                rule = f"Run {run} was approved or rejected under this version name"
                raise conflict("version", rule, "choose another name")
            values = {"state": "finished", "task": "release", "error": None, "message": None, "attempts": 0}
            values |= {"version": version, "lease": None}
            detail = version or "by its content"
            return _change_state(connection, principal, run, "renamed", values, detail, word=version or "")
    except IntegrityError as error:
        raise _name_taken(store, row.name, version) from error


def decide(
    store: Store,
    principal: Principal,
    run: int,
    decision: Literal["approved", "rejected"],
    content: str,
    comment: str = "",
    version: str | None = None,
) -> Row[Any]:
    """Decide whether a finished run is published. Of several decisions at once, exactly one counts."""
    principal.must("approver")
    try:
        with store.write() as connection:
            row = run_row(connection, run, lock=True)
            if decision == "approved":
                _must_be_another(connection, run, principal, "approver")
            _must_be(row, ("finished",))
            if content != row.content:
                raise conflict("content", "This is not the release that was made", _LOOK)
            if version != row.version and (version is not None or _was_renamed(connection, run)):
                rule = "This is not the version name under which it will be published"
                raise conflict("version", rule, _LOOK)
            if decision == "approved":
                _must_be_for_release(row)
                _must_be_as_reviewed(row)
            values = {"decision": decision, "content": content, "comment": comment, "time": utc_now()}
            key = {"run": run, "version": row.version or ""}
            connection.execute(insert(approvals).values(person=principal.person, **key, **values))
            state = {"state": decision} | ({"task": "publish"} if decision == "approved" else {})
            return _change_state(connection, principal, run, decision, state, content)
    except IntegrityError as error:  # the other decision was made in the same moment
        raise conflict("state", f"Run {run} is decided already", _LOOK) from error


def witness(store: Store, principal: Principal, run: int, add: Callable[[Row[Any]], object]) -> Row[Any]:
    """Add the statement of a witness to a finished run, by a function that refuses a wrong one."""
    principal.must("witness")
    with store.write() as connection:
        row = run_row(connection, run, lock=True)
        _must_be_another(connection, run, principal, "witness")
        _must_be(row, ("finished",))
        add(row)
        add_event(connection, run, "witnessed")
        record(connection, principal.person, principal.credential, "witnessed", f"run {run}")
        return row


def get_run(store: Store, run: int) -> Row[Any]:
    """Return a run."""
    with store.read() as connection:
        return run_row(connection, run)


def decision_of(store: Store, run: int) -> Row[Any] | None:
    """Return what was decided about a run under its version name, or None."""
    decided = (approvals.c.run == runs.c.id) & (approvals.c.version == func.coalesce(runs.c.version, ""))
    query = select(approvals).join(runs, decided).where(runs.c.id == run)
    with store.read() as connection:
        return connection.execute(query).one_or_none()


def movers(store: Store, run: int) -> frozenset[str]:
    """Return who submitted, queued, retried or renamed a run: the persons who cannot approve it."""
    with store.read() as connection:
        return _movers(connection, run)


def release_begun(store: Store, run: int) -> bool:
    """Whether a worker has begun the release of a run, which is paid for then, or may be."""
    with store.read() as connection:
        return _release_begun(connection, run)


def is_submitted(store: Store, principal: Principal, key: str | None) -> bool:
    """Whether somebody's submission with a key of idempotency is known."""
    same = (runs.c.submitted_by == principal.person) & (runs.c.key == key)
    with store.read() as connection:
        return key is not None and connection.execute(select(runs.c.id).where(same)).first() is not None


def list_runs(
    store: Store, *, state: str | None = None, before: int | None = None, limit: int = 50
) -> Sequence[Row[Any]]:
    """Return the newest runs, of a state if one is given, with numbers below `before`."""
    query = select(runs).order_by(runs.c.id.desc()).limit(limit)
    if state is not None:
        query = query.where(runs.c.state == state)
    if before is not None:
        query = query.where(runs.c.id < before)
    with store.read() as connection:
        return connection.execute(query).all()


def list_events(store: Store, run: int, after: int = 0, limit: int = 1000) -> Sequence[Row[Any]]:
    """Return what happened to a run since event `after`: states and names of steps."""
    query = select(events).where(events.c.run == run, events.c.id > after).order_by(events.c.id).limit(limit)
    with store.read() as connection:
        run_row(connection, run)
        return connection.execute(query).all()


def counts(store: Store) -> dict[str, int]:
    """Return how many runs are in each state."""
    with store.read() as connection:
        rows = connection.execute(select(runs.c.state, func.count()).group_by(runs.c.state)).all()
    return {row[0]: row[1] for row in rows}


def _name_taken(store: Store, name: str, version: str | None) -> ServiceError:
    """Return the refusal of a version name that the database has refused, and which run has it."""
    same = (runs.c.name == name) & (runs.c.version == version)
    query = select(func.max(runs.c.id)).where(same, runs.c.state.not_in(("cancelled", "closed", "rejected")))
    with store.read() as connection:
        other = connection.execute(query).scalar_one()
    holder = "Another run" if other is None else f"Run {other}"  # none, if that ended this moment
    fix = "choose another name, or cancel, rename or close that run"
    return conflict("version", f"{holder} has the version name {version}", fix)


def _text(value: object, home: Path | None) -> str:
    if home is not None and isinstance(value, Path) and value.is_relative_to(home):
        value = value.relative_to(home)
    return str(value)


def _move(
    store: Store,
    principal: Principal,
    run: int,
    action: str,
    states: tuple[str, ...],
    values: dict[str, Any],
    plan_sha256: str = "",
) -> Row[Any]:
    """Change the state of a run that is in one of `states`, for an operator who may name its plan."""
    principal.must("operator")
    with store.write() as connection:
        row = run_row(connection, run, lock=True)
        _must_be(row, states)
        if plan_sha256 and plan_sha256 != json.loads(row.plan)["plan_sha256"]:
            raise conflict("plan", "This is not the plan that was made", _LOOK)
        if action == "cancelled" and _release_begun(connection, run):
            fix = "let it go on; an approver may reject what it makes"
            raise conflict("state", f"Run {run} may have been paid for already", fix)
        if action == "retried":  # of the task that it has now, whoever else moved it a moment ago
            values = {"state": TASKS[row.task].waiting, **values}
        return _change_state(connection, principal, run, action, values, plan_sha256)


def _change_state(
    connection: Connection,
    principal: Principal,
    run: int,
    action: str,
    values: Mapping[str, Any],
    detail: str,
    word: str = "",
) -> Row[Any]:
    """Change a run, with the event, the messages and the line of the audit trail that belong to it."""
    change(connection, run, **values)
    add_event(connection, run, action, word)
    await_decision(connection, run, values["state"])
    record(connection, principal.person, principal.credential, action, f"run {run}", detail)
    return run_row(connection, run)


def _must_be(row: Row[Any], states: tuple[str, ...]) -> None:
    if row.state not in states:
        raise not_in_state(row.id, row.state, *states)


def _must_be_another(connection: Connection, run: int, principal: Principal, role: Role) -> None:
    if principal.person in _movers(connection, run):
        act = "approve" if role == "approver" else role
        rule = f"A person who submitted, queued, retried or renamed a run cannot {act} it"
        raise ServiceError(403, "four_eyes", f"{rule}; ask another {role}.")


def _movers(connection: Connection, run: int) -> frozenset[str]:
    # Of the audit trail, where nobody is forgotten: a run may be retried more than once.
    acts = audit.c.action.in_(("submitted", "queued", "retried", "renamed"))
    query = select(audit.c.actor).where(audit.c.subject == f"run {run}", acts)
    return frozenset(connection.execute(query).scalars())


def _was_renamed(connection: Connection, run: int) -> bool:
    renamed = select(events.c.id).where(events.c.run == run, events.c.event == "renamed").limit(1)
    return connection.execute(renamed).first() is not None


def _release_begun(connection: Connection, run: int) -> bool:
    begun = events.c.event.in_(("begun", "resumed")) & (events.c.text == "release")
    query = select(events.c.id).where(events.c.run == run, begun).limit(1)
    return connection.execute(query).first() is not None


def _must_be_as_reviewed(row: Row[Any]) -> None:
    """Of a run that was planned before it was queued, the release must have that plan."""
    if row.plan and json.loads(row.plan)["plan_sha256"] != json.loads(row.certificate)["plan_sha256"]:
        rule = "The release was not made with the plan that was reviewed"
        raise conflict("plan", rule, "reject the run")


def _must_be_for_release(row: Row[Any]) -> None:
    certificate = json.loads(row.certificate)
    if not certificate["for_release"]:
        why = "; ".join(certificate["not_for_release_because"])
        rule = f"Its certificate says that it is not for release: {why}"
        raise conflict("not_for_release", rule, "reject the run")
