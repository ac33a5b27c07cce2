"""The queue, as workers see it: a run is claimed with a lease, and finished, failed or given back."""

from __future__ import annotations

import secrets
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, or_, select, update
from sqlalchemy.exc import IntegrityError

from pipelines.service.queue.outbox import await_decision
from pipelines.service.queue.progress import Progress
from pipelines.service.queue.records import TASKS, add_event, change, run_row
from pipelines.service.store import Store, after, record, runs, utc_now

_INTERRUPTIONS = 5  # of one task in a row; then somebody should look


def claim(store: Store, seconds: float) -> Row[Any] | None:
    """Take the oldest run that waits for a worker, or whose worker let its lease run out."""
    try:
        with store.write() as connection:
            while (row := connection.execute(_claimable()).one_or_none()) is not None:
                if row.attempts < _INTERRUPTIONS:
                    break
                message = f"its worker was interrupted {_INTERRUPTIONS} times"
                values = {"state": "failed", "lease": None, "error": "Interrupted", "message": message}
                change(connection, row.id, progress=None, **values)
                add_event(connection, row.id, "failed", message)
                await_decision(connection, row.id, "failed")
            if row is None:
                return None
            change(
                connection,
                row.id,
                state=TASKS[row.task].doing,
                lease=secrets.token_hex(16),
                leased_until=after(seconds),
                attempts=row.attempts + 1,
            )
            word = "begun" if row.attempts == 0 and row.lease is None else "resumed"
            add_event(connection, row.id, word, row.task)
            return run_row(connection, row.id)
    except IntegrityError:  # another worker took a run of the same data set at the same moment
        return None


def renew(store: Store, claimed: Row[Any], seconds: float) -> bool:
    """Lengthen a lease; False if it was lost, and the work must stop."""
    with store.write() as connection:
        return _update_leased(connection, claimed, leased_until=after(seconds))


def give_back(store: Store, claimed: Row[Any], *, interrupted: bool, wait: float = 0) -> None:
    """Let go of a run that is not done; the next claim goes on with it."""
    with store.write() as connection:
        attempts = claimed.attempts if interrupted else claimed.attempts - 1
        if _update_leased(connection, claimed, leased_until=after(wait), attempts=attempts, progress=None):
            add_event(connection, claimed.id, "interrupted")


def note(store: Store, claimed: Row[Any], step: str, number: int = 1, of: int | None = None) -> Progress:
    """Record that a step began; its name is one of the program's."""
    progress = Progress(step=step, number=number, of=of)
    with store.write() as connection:
        add_event(connection, claimed.id, "step", step)
        _update_leased(connection, claimed, progress=progress.model_dump_json())
    return progress


def count(store: Store, claimed: Row[Any], progress: Progress, done: int, total: int) -> Progress:
    """Record how many parts of the step are done; return its progress."""
    counted = progress.counted(done, total)
    with store.write() as connection:
        _update_leased(connection, claimed, progress=counted.model_dump_json())
    return counted


def finish(store: Store, claimed: Row[Any], **result: str) -> bool:
    """Record what a task came to, once; False if the lease was lost."""
    state = TASKS[claimed.task].done
    with store.write() as connection:
        ended = {"state": state, "lease": None, "attempts": 0, "progress": None}
        leased = _update_leased(connection, claimed, **ended, **result)
        if leased:
            add_event(connection, claimed.id, state)
            await_decision(connection, claimed.id, state)
            record(connection, "service", "worker", state, f"run {claimed.id}")
        return leased


def fail(store: Store, claimed: Row[Any], error: str, message: str) -> bool:
    """Record that a task failed, and why; False if the lease was lost."""
    with store.write() as connection:
        values = {"state": "failed", "lease": None, "error": error[:100], "message": message[:2000]}
        leased = _update_leased(connection, claimed, progress=None, **values)
        if leased:
            add_event(connection, claimed.id, "failed", error)
            await_decision(connection, claimed.id, "failed")
            record(connection, "service", "worker", "failed", f"run {claimed.id}", error)
        return leased


def _claimable() -> Any:
    """Return the query of the run to take next."""
    other = runs.alias()
    busy = select(other.c.id).where(other.c.data_set == runs.c.data_set, other.c.state == "running").exists()
    tasks = [and_(runs.c.state == task.waiting, runs.c.task == name) for name, task in TASKS.items()]
    free = or_(runs.c.state != TASKS["release"].waiting, ~busy)
    lost = and_(runs.c.state.in_([t.doing for t in TASKS.values()]), runs.c.leased_until < utc_now())
    query = select(runs).where(or_(and_(or_(*tasks), free), lost)).order_by(runs.c.id).limit(1)
    return query.with_for_update(skip_locked=True, of=runs)


def _update_leased(connection: Connection, claimed: Row[Any], **values: Any) -> bool:
    mine: ColumnElement[bool] = (runs.c.id == claimed.id) & (runs.c.lease == claimed.lease)
    return connection.execute(update(runs).where(mine).values(changed=utc_now(), **values)).rowcount == 1
