"""Rows of runs and of what happened to them: shared by people's acts (`runs`) and by workers (`claims`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from pipelines.service.refusals import not_found
from pipelines.service.store import events, runs, utc_now


@dataclass(frozen=True)
class Task:
    """What a worker does to a run: the state in which it waits, the one meanwhile, the one after it."""

    waiting: str
    doing: str
    done: str


TASKS = {
    "compare": Task("submitted", "comparing", "compared"),
    "plan": Task("submitted", "planning", "planned"),
    "release": Task("queued", "running", "finished"),
    "publish": Task("approved", "publishing", "published"),
}
STATES = (
    *dict.fromkeys(state for task in TASKS.values() for state in (task.waiting, task.doing, task.done)),
    "cancelled",
    "closed",
    "failed",
    "rejected",
    "withdrawn",
)


def run_row(connection: Connection, run: int, *, lock: bool = False) -> Row[Any]:
    """Return a run; with `lock`, nobody else changes it in this transaction."""
    query = select(runs).where(runs.c.id == run)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise not_found("There is no such run.")
    return row


def change(connection: Connection, run: int, **values: Any) -> None:
    """Change columns of a run."""
    connection.execute(update(runs).where(runs.c.id == run).values(changed=utc_now(), **values))


def add_event(connection: Connection, run: int, word: str, text: str = "") -> None:
    """Add to what happened to a run: a word and, where it needs one, a text; both are the program's."""
    connection.execute(insert(events).values(run=run, time=utc_now(), event=word, text=text))
