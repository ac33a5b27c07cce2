"""Running what a release calendar says is due: once, in order, and on from where it stopped.

A record is written before an attempt and after it. Whether a release was made is told by the release itself,
so that neither a kill between the two nor a lost record makes a second one of the same period.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TextIO

from pipelines.config.fields import expand
from pipelines.config.loading import ConfigError, ReleaseConfig
from pipelines.planning.guards import public_files
from pipelines.publishing.publishing import publish
from pipelines.running.folder import RunFolder
from pipelines.running.report import plan
from pipelines.running.run import make_release
from pipelines.schedule.calendar import Calendar, Occurrence, read_calendar
from pipelines.schedule.notify import notify
from pipelines.schedule.records import Record, Records
from pipelines.schedule.summary import EXIT_BUSY, EXIT_FAILED, Result, Summary
from pipelines.storage.errors import private_message, shown_message

__all__ = ["EXIT_BUSY", "EXIT_FAILED", "Result", "Summary", "due"]


def due(
    folder: Path | str,
    *,
    now: datetime | None = None,
    dry_run: bool = False,
    report: Callable[[str], None] | None = None,
) -> Summary:
    """Make the releases of a calendar that are due and not made yet, and tell whom the calendar names.

    They are made in order of their times, the missed ones too. One that fails does not keep other schedules
    waiting, but the later ones of its own; it is tried again by the next call, as often as the calendar
    allows.

    Parameters
    ----------
    folder : Path or str
        The calendar.
    now : datetime, optional
        For tests. By default the clock.
    dry_run : bool
        Only say what would be done: writes nothing, tells nobody and reads no confidential file.
    report : callable, optional
        Told each step as it begins.

    Returns
    -------
    Summary

    Raises
    ------
    ConfigError
        If the folder is no calendar, or what it says about itself cannot be used.
    """
    calendar = read_calendar(folder)
    now = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    if dry_run:
        return _Call(calendar, now, True, report).summary()
    try:
        with Records(calendar.records).locked() as free:
            if not free:
                return Summary(calendar.folder.name, now, busy=True)
            summary = _Call(calendar, now, False, report).summary()
    except OSError as error:  # no folder for records, or no lock
        where = "" if error.filename else f"{calendar.records}: "
        problem = f"{where}{shown_message(error)}; nothing was begun"
        summary = Summary(calendar.folder.name, now, problems=(problem,))
    if summary.failed or calendar.notify.on == "always":
        notices = notify(calendar.notify, summary.document(), calendar.folder)
        summary = replace(summary, notices=notices)
    return summary


@dataclass
class _Call:
    """One call: what is recorded, and what is done about it."""

    calendar: Calendar
    now: datetime
    dry_run: bool
    report: Callable[[str], None] | None

    def __post_init__(self) -> None:
        self.store = Records(self.calendar.records)
        self.records, self.damaged = self.store.read()
        self.owners = {record.out: record.name for record in self.records.values()}

    def summary(self) -> Summary:
        fix = "cannot be read; remove it, and the occurrence is looked at anew"
        problems = [*self.calendar.problems, *(f"{self.store.path(n)}: {fix}" for n in sorted(self.damaged))]
        last = max((record.time for record in self.records.values()), default="")
        results: list[Result] = []
        if last > self.now.isoformat():
            fix = f"set it right or, if it was ahead then, remove those records in {self.store.folder}"
            problems.append(f"the clock is at {self.now.isoformat()}, before the last attempt, {last}: {fix}")
        else:
            blocked: dict[str, str] = {}
            for occurrence in self.calendar.due(self.now):
                record, schedule = self.records.get(occurrence.name), occurrence.schedule.name
                if record is not None and record.status == "finished":
                    continue
                if schedule in blocked:
                    result = _result(occurrence, "behind", f"after {blocked[schedule]}", record)
                else:
                    try:
                        result = self._one(occurrence, record)
                    except Exception as error:  # a record or log that cannot be written: others go on
                        result = _result(occurrence, "failed", self._unforeseen(error), record, error)
                    if result.status not in ("finished", "due"):
                        blocked[schedule] = occurrence.name
                results.append(result)
        name = self.calendar.folder.name
        return Summary(name, self.now, tuple(results), tuple(problems), dry_run=self.dry_run)

    def _unforeseen(self, error: Exception) -> str:
        where = "" if getattr(error, "filename", None) else f" ({self.store.folder})"
        return f"{type(error).__name__}: {shown_message(error, one_line=True)}{where}"

    def _one(self, occurrence: Occurrence, record: Record | None) -> Result:
        """Do what is to be done about an occurrence that is not finished."""
        if occurrence.name in self.damaged:
            return _result(occurrence, "failed", "its record cannot be read", record)
        tried = record.attempts if record else 0
        if tried >= self.calendar.attempts:
            fix = f"when the cause is removed, remove {self.store.path(occurrence.name)}"
            return _result(occurrence, "given up", f"{tried} attempts; {fix}", record)
        try:
            config = occurrence.config()
            out = config.release.out
            if (owner := self.owners.setdefault(str(out), occurrence.name)) != occurrence.name:
                raise ConfigError(f"{occurrence.name}: {out} is the output folder of {owner} too")
            if record is not None and record.out != str(out):
                fix = f"put release.out back, or remove {self.store.path(occurrence.name)} to begin anew"
                raise ConfigError(f"{occurrence.name}: was begun in {record.out}; {fix}")
        except ConfigError as error:
            return _result(occurrence, "failed", shown_message(error, one_line=True), record, error)
        on = RunFolder.of(out).begun or RunFolder(out).checked
        if not on and (missing := [str(path) for path in _inputs(config) if _missing(path)]):
            return _result(occurrence, "waiting", f"there is no {', '.join(missing)}", record)
        if self.dry_run:
            return _result(occurrence, "due", f"{'goes on with' if on else 'writes'} {out}", record)
        return self._attempt(occurrence, config, tried + 1)

    def _attempt(self, occurrence: Occurrence, config: ReleaseConfig, number: int) -> Result:
        name, out = occurrence.name, config.release.out
        record = Record(
            name, occurrence.at.isoformat(), str(out), "begun", number, self.now.isoformat(timespec="seconds")
        )
        self.store.save(record)
        log = self.store.log(name, number)
        with log.open("a", encoding="utf-8") as file:
            log.chmod(0o600)
            self._tell(file, f"{name}, due {occurrence.local}: attempt {number} of {self.calendar.attempts}")
            try:
                tell, planned = partial(self._tell, file), self.store.plan(name)
                if not (RunFolder.of(out).begun or RunFolder(out).checked):  # no attempt got as far as paying
                    shutil.rmtree(planned, ignore_errors=True)
                    plan(config, planned, report=tell)
                make_release(config, plan=planned, report=tell, scheduler=self.calendar.scheduler)
                if (destination := occurrence.schedule.file.publish) is not None:
                    self._tell(file, "Publishing the release ...")
                    record = replace(record, published=publish(out, destination).location)
            except Exception as error:
                kind, said = type(error).__name__, shown_message(error, one_line=True)
                self._tell(file, f"{name}: failed ({kind}): {said}", error=kind)
                if (private := private_message(error, one_line=True)) != said:
                    file.write(f"{private}\n")  # into this log only
                self.store.save(replace(record, status="failed", error=kind))
                return _result(occurrence, "failed", f"{kind}: {said} (log: {log})", record, error)
            self._tell(file, f"{name}: finished")
        self.store.save(replace(record, status="finished"))
        fit = RunFolder(out).load().certificate.for_release
        return _result(occurrence, "finished", f"{out}{'' if fit else ' (not for release)'}", record)

    def _tell(self, file: TextIO, message: str, **more: str) -> None:
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "message": message} | more
        file.write(json.dumps(line) + "\n")
        file.flush()
        if self.report is not None:
            self.report(message)


def _result(
    occurrence: Occurrence,
    status: str,
    detail: str,
    record: Record | None,
    error: Exception | None = None,
) -> Result:
    kind = type(error).__name__ if error else None
    if record is not None and kind is None and status == "given up":
        kind = record.error or "interrupted"
    attempts = record.attempts if record else 0
    return Result(occurrence.name, occurrence.at, status, occurrence.local, detail, kind, attempts)


def _inputs(config: ReleaseConfig) -> Iterator[Path]:
    """Yield the files that a run reads, the confidential ones first."""
    for named in (*config.jobs.files, *(path for _, path in public_files(config))):
        yield from expand(named)


def _missing(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # no reason to wait for the file: the run will say what is wrong with it
    return False
