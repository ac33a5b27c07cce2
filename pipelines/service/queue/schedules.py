"""The release calendar in the service: what is due is submitted as a run, once, and published after approval.

Times, periods and what has been made already are told by `pipelines.due` and the calendar itself, so that the
command ``odsynth due`` and the service may keep the same calendar. One with a schedule that publishes is
refused: here a person approves, and the command would publish what they rejected.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select

from pipelines.config.toml import ConfigError
from pipelines.schedule.calendar import read_calendar
from pipelines.schedule.due import look
from pipelines.service.queue.runs import CALENDAR, NewRun, submit
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError, Store, runs

_OVER = ("finished", "approved", "publishing", "published", "withdrawn", "rejected", "cancelled")
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Due:
    """A time of the calendar.

    Attributes
    ----------
    name : str
        Of the schedule and the period, such as ``ri-2025``.
    schedule : str
    at : str
        ISO, UTC.
    status : str
        ``"coming"``; the state of its run, where it has one; or what `pipelines.due` says: ``"due"``,
        ``"waiting"`` (for inputs), ``"overdue"``, ``"skip"`` (cannot be paid), ``"behind"``, ``"failed"``,
        ``"given up"``.
    run : int or None
    """

    name: str
    schedule: str
    at: str
    status: str
    run: int | None


@dataclass(frozen=True)
class Agenda:
    """What the calendar says now.

    Attributes
    ----------
    due : tuple of Due
        Past times that are not finished on the command line, in order.
    coming : tuple of Due
        The next time of every schedule.
    problems : int
        Of the calendar's files; ``odsynth due --dry-run`` names them on the server.
    """

    due: tuple[Due, ...]
    coming: tuple[Due, ...]
    problems: int


def read_agenda(store: Store, settings: ServiceSettings, now: datetime | None = None) -> Agenda:
    """Return what is due, what is coming, and which runs were made of it."""
    if settings.calendar is None:
        return Agenda((), (), 0)
    now = now or datetime.now(UTC)
    try:
        calendar = read_calendar(settings.calendar)
    except ConfigError as error:
        detail = "The release calendar cannot be read. Fix: run odsynth due --dry-run on the server."
        raise ServiceError(503, "calendar", detail) from error
    if publishing := [schedule.name for schedule in calendar.schedules if schedule.file.publish is not None]:
        why = "odsynth due would publish without an approval, even after a rejection"
        fix = "Fix: take publish out of the schedule, as the service publishes after an approval"
        detail = f"The release calendar is not kept: {', '.join(publishing)} has publish, so {why}. {fix}."
        raise ServiceError(503, "calendar", detail)
    summary = look(calendar, now.astimezone(UTC).replace(microsecond=0))
    query = select(runs.c.key, runs.c.id, runs.c.state).where(runs.c.submitted_by == CALENDAR.person)
    with store.read() as connection:
        made = {key: (id, state) for key, id, state in connection.execute(query)}
    schedules = {occurrence.name: occurrence.schedule.name for occurrence in calendar.due(now)}
    past = []
    for result in summary.results:
        run, status = made.get(result.name, (None, result.status))
        past.append(Due(result.name, schedules[result.name], result.due.isoformat(), status, run))
    following = (next((o for o in s.occurrences() if o.at > now), None) for s in calendar.schedules)
    coming = tuple(
        Due(o.name, o.schedule.name, o.at.isoformat(), "coming", None) for o in following if o is not None
    )
    return Agenda(tuple(past), coming, len(summary.problems))


def submit_due(store: Store, settings: ServiceSettings, now: datetime | None = None) -> list[int]:
    """Submit what is due: of each schedule the first that is not over, when its inputs are there."""
    if settings.calendar is None:
        return []
    now = now or datetime.now(UTC)
    agenda = read_agenda(store, settings, now)
    occurrences = {o.name: o for o in read_calendar(settings.calendar).due(now)}
    behind: set[str] = set()
    made = []
    for occasion in agenda.due:
        if occasion.schedule in behind or occasion.status in (*_OVER, "skip", "overdue"):
            continue
        behind.add(occasion.schedule)
        if occasion.status == "due":
            try:
                due = NewRun(occurrences[occasion.name].config(), occasion.name, "release", key=occasion.name)
                signed = settings.signer is not None
                run, new = submit(store, CALENDAR, due, home=settings.folder, signed=signed)
                made += [run] * new
            except ServiceError as error:
                _log.error("%s is due and cannot be submitted: %s", occasion.name, error.error)
    return made
