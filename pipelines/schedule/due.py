"""Running what a release calendar says is due: once, in order, and on from where it stopped.

A record is written before an attempt and after it. Whether a release was made is told by the release itself,
so that neither a kill between the two nor a lost record makes a second one of the same period.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import synth
from geo_data.arguments import PathLike, path_of
from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.ledger.budgets import OverBudgetError, Price, excess
from pipelines.planning.guards import public_files
from pipelines.publishing.publishing import publish
from pipelines.release.signing import is_signed, signature_in_words
from pipelines.release.witness import awaits_statement, statements_in
from pipelines.running.folder import RunFolder
from pipelines.running.payment import left_in, most_cost_of, read_ledger
from pipelines.running.process import exit_code
from pipelines.running.report import plan
from pipelines.running.run import make_release
from pipelines.running.steps import logged_to, words_of
from pipelines.schedule.calendar import Calendar, Occurrence, read_calendar
from pipelines.schedule.costs import outlook, period_price
from pipelines.schedule.notify import notify
from pipelines.schedule.records import Record, Records
from pipelines.schedule.summary import Result, Summary
from pipelines.storage.checksums import sha256_of
from pipelines.storage.errors import private_message, shown_message
from pipelines.storage.progress import Progress
from pipelines.storage.stored_names import one_form
from synth.rationals import exact

_log = logging.getLogger(__name__)


def due(
    folder: PathLike,
    *,
    now: datetime | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Summary:
    """Make the releases of a calendar that are due and not made yet, and tell whom the calendar names.

    They are made in order of their times, the missed ones too. One that fails does not keep other schedules
    waiting, but the later ones of its own; it is tried again by the next call, as often as the calendar
    allows. One that cannot be paid is set aside, and one whose inputs are overdue is passed over.

    Parameters
    ----------
    folder : str or path
        The calendar.
    now : datetime, optional
        For tests. By default the clock.
    dry_run : bool
        Only say what would be done, and what periods would cost: writes nothing, tells nobody and reads no
        confidential file.
    progress : Progress, optional
        As for `run`.

    Returns
    -------
    Summary

    Raises
    ------
    ConfigError
        If the folder is no calendar, or what it says about itself cannot be used.
    """
    folder = path_of(folder, "folder")
    calendar = read_calendar(folder)
    now = (now or datetime.now(UTC)).astimezone(UTC).replace(microsecond=0)
    if dry_run:
        return look_ahead(calendar, now)
    try:
        with Records(calendar.records).locked() as free:
            if not free:
                return Summary(calendar.folder.name, now, busy=True)
            call = _Call(calendar, now, False, progress)
            return _tell(calendar, call.summary(), looked=call.looked)
    except OSError as error:  # no folder for records, or no lock
        where = "" if error.filename else f"{calendar.records}: "
        problem = f"{where}{shown_message(error)}; nothing was begun"
        return _tell(calendar, Summary(calendar.folder.name, now, problems=(problem,)), looked=False)


def look(calendar: Calendar, now: datetime) -> Summary:
    """Say what is to be done, as a dry run does, but not what it would cost."""
    return _Call(calendar, now, True, None).summary()


def look_ahead(calendar: Calendar, now: datetime, *times: timedelta) -> Summary:
    """Say what is to be done and what it would cost, as a dry run does; the times are those of `outlook`."""
    summary = look(calendar, now)
    ahead = outlook(calendar, [o for o in calendar.due(now) if o.name in summary.names], now, *times)
    return replace(summary, outlook=ahead, problems=summary.problems + ahead.problems)


def _tell(calendar: Calendar, summary: Summary, *, looked: bool) -> Summary:
    """Tell each whom the calendar names what they were not told before, and return what the caller is told.

    It is noted afterwards, so that nothing goes untold when the call is killed in between. What is over is
    forgotten, unless no occurrence was looked at.
    """
    store = Records(calendar.records)
    before, news = store.told(), summary.news
    notices: list[str] = []
    announced = (
        {"summary": news} if looked else before | {"summary": before.get("summary", frozenset()) | news}
    )
    for channel, other in (("command", "webhook"), ("webhook", "command")):
        settings = calendar.notify.model_copy(update={other: None})
        if getattr(settings, channel) is None:
            continue
        told_before = before.get(channel, frozenset())
        announced[channel] = news if looked else news | told_before
        if settings.on == "always" or news - told_before:
            problems = notify(settings, summary.without(told_before).document(), calendar.folder)
            notices += problems
            if problems:
                announced[channel] = announced[channel] & told_before
    announced = {channel: items for channel, items in announced.items() if items}
    try:
        if announced != before:
            store.save_told(announced)
    except OSError as error:
        notices.append(f"{shown_message(error, one_line=True)}; what was told now is told again")
    return replace(summary.without(before.get("summary", frozenset())), notices=tuple(notices))


@dataclass
class _Call:
    """One call: what is recorded, and what is done about it."""

    calendar: Calendar
    now: datetime
    dry_run: bool
    progress: Progress | None

    def __post_init__(self) -> None:
        self.looked = False  # at occurrences
        self.coming: set[Path] = set()  # output folders that a dry run takes for made
        self.store = Records(self.calendar.records)
        self.records, self.damaged = self.store.read()
        self.owners = {record.out: record.name for record in self.records.values()}

    def summary(self) -> Summary:
        fix = "the record cannot be read; remove it, and the occurrence is looked at again"
        problems = [*self.calendar.problems, *(f"{self.store.path(n)}: {fix}" for n in sorted(self.damaged))]
        last = max((record.time for record in self.records.values()), default="")
        results: list[Result] = []
        if last > self.now.isoformat():
            fix = f"set the clock; if it was ahead then, remove the later records in {self.store.folder}"
            problems.append(f"the clock says {self.now.isoformat()}, before the last attempt ({last}); {fix}")
        else:
            blocked: dict[str, str] = {}
            self.looked = True
            for occurrence in self.calendar.due(self.now):
                record, schedule = self.records.get(occurrence.name), occurrence.schedule.name
                if record is not None and record.status == "finished":
                    continue
                if schedule in blocked:
                    result = _result(occurrence, "behind", f"after {blocked[schedule]}", record)
                else:
                    try:
                        result = self._try(occurrence, record)
                    except Exception as error:  # a record or log that cannot be written: others go on
                        result = _result(occurrence, "failed", self._unforeseen(error), record, error)
                    if result.status not in ("finished", "due", "skip", "overdue"):
                        blocked[schedule] = occurrence.name
                results.append(result)
            problems += self._problems_ahead(set(blocked))
        name = self.calendar.folder.name
        return Summary(name, self.now, tuple(results), tuple(problems), dry_run=self.dry_run)

    def _problems_ahead(self, stopped: set[str]) -> Iterator[str]:
        """Yield what is wrong with the next period of each schedule, but of those that are stopped anyway."""
        for schedule in self.calendar.schedules:
            if schedule.name in stopped:
                continue
            following = (candidate for candidate in schedule.occurrences() if candidate.at > self.now)
            if (occurrence := next(following, None)) is not None:
                try:
                    _refuse_wrong_paths(occurrence, absent_files(occurrence.config()))
                except ConfigError as error:
                    yield from error.problems

    def _unforeseen(self, error: Exception) -> str:
        where = "" if getattr(error, "filename", None) else f" ({self.store.folder})"
        return f"{type(error).__name__}: {shown_message(error, one_line=True)}{where}"

    def _try(self, occurrence: Occurrence, record: Record | None) -> Result:
        """Do what is to be done about an occurrence that is not finished."""
        if occurrence.name in self.damaged:
            return _result(occurrence, "failed", "its record cannot be read", record)
        tried = record.attempts if record else 0
        if tried >= self.calendar.attempts:
            fix = f"correct the cause, then remove {self.store.path(occurrence.name)}"
            return _result(occurrence, "given up", f"{tried} attempts; {fix}", record)
        try:
            config, note = occurrence.config_and_note()
            out = config.release.out
            if (owner := self.owners.setdefault(str(out), occurrence.name)) != occurrence.name:
                fix = "give each release its own release.out"
                raise ConfigError(f"{occurrence.name}: {out} is the output folder of {owner} too; {fix}")
            if occurrence.schedule.file.publish and self.calendar.signer and config.signature is None:
                fix = "add [signature] with the key to its base, or leave publish out"
                raise ConfigError(f"{occurrence.name}: only signed releases are published here; {fix}")
            on = _goes_on(out)
            shares = occurrence.schedule.file.shares
            if shares is not None and occurrence.number > shares and not on:
                reason = f"the budget is shared by the first {shares} periods, and this is number"
                reason = f"{reason} {occurrence.number}"
                return self._set_aside(occurrence, record, reason, tried, out, fix="raise shares")
            skipped = record is not None and record.status == "skip" and not RunFolder(out).checked
            if record is not None and skipped and not self._payable(config, record):
                return self._set_aside(occurrence, record, record.reason or "", tried, out)
            if record is not None and record.out != str(out) and record.status != "skip":
                fix = f"put release.out back, or remove {self.store.path(occurrence.name)} to begin again"
                raise ConfigError(f"{occurrence.name}: the release was begun in {record.out}; {fix}")
            absent = [] if on else absent_files(config)
            _refuse_wrong_paths(occurrence, absent)
            if not on and not absent:
                _refuse_no_history(occurrence, config, self.coming)
            if not on:
                self._refuse_undeclared(occurrence, config)
        except ConfigError as error:
            return _result(occurrence, "failed", shown_message(error, one_line=True), record, error)
        if absent:
            days = occurrence.schedule.file.wait_days
            late = self.now > occurrence.at + timedelta(days=days)
            detail = f"there is no {', '.join(map(str, absent))}"
            detail += f", more than {days} days after its time; later periods go on without it" * late
            return _result(occurrence, "overdue" if late else "waiting", detail, record)
        if self.dry_run:
            self.coming.add(out)
            return _result(occurrence, "due", f"{'goes on with' if on else 'writes'} {out}", record)
        return self._attempt(occurrence, config, note, tried + 1)

    def _refuse_undeclared(self, occurrence: Occurrence, config: ReleaseConfig) -> None:
        """Refuse the jobs of another release of the calendar if the costs of both are not added up together.

        Files of the same content are the same jobs; a dry run reads none. Whether other files are about the
        same people nobody can see. A release without a ledger that was not tried yet keeps nobody waiting:
        it is itself refused in its turn.
        """
        own = {path.stat().st_size: path for path in config.jobs.files if path.is_file()}
        for other in self.calendar.due(self.now):
            try:
                declared = other.config()
            except ConfigError:  # told in its turn
                continue
            if _account(declared) == _account(config):
                continue
            if (
                declared.ledger is None
                and other.name not in self.records
                and not _goes_on(declared.release.out)
            ):
                continue
            for path in filter(Path.is_file, declared.jobs.files):
                if (same := own.get(path.stat().st_size)) is None:
                    continue
                if same.samefile(path) or (not self.dry_run and sha256_of(same) == sha256_of(path)):
                    rule = f"{same} has the jobs of {other.name}, and their costs are not added up together"
                    fix = "name the same ledger.file and ledger.data_set for both"
                    raise ConfigError(f"{occurrence.name}: {rule}; {fix}")

    def _payable(self, config: ReleaseConfig, record: Record) -> bool:
        """Say whether the budget now suffices for a period that was set aside."""
        if config.ledger is None or record.epsilon is None or record.delta is None:
            return True
        left = left_in(read_ledger(config.ledger, dry_run=self.dry_run), config.ledger, self.now)
        rho = None if record.rho is None else exact(record.rho)
        recorded = synth.Cost.of(exact(record.epsilon), exact(record.delta), rho)
        return not excess(synth.Cost(*map(min, synth.Cost.of(*most_cost_of(config)), recorded)), left)

    def _set_aside(
        self,
        occurrence: Occurrence,
        record: Record | None,
        reason: str,
        tried: int,
        out: Path,
        price: Price | None = None,
        fix: str = "raise the budget",
    ) -> Result:
        """Record that a period cannot be paid, unless that is known: later ones go on."""
        path = self.store.path(occurrence.name)
        if not self.dry_run and (record is None or record.status != "skip"):
            recorded_at = self.now.isoformat(timespec="seconds")
            record = Record(occurrence.name, occurrence.at.isoformat(), str(out), "skip", tried, recorded_at)
            epsilon, delta, rho = (None if x is None else str(x) for x in price or (None, None, None))
            record = replace(record, reason=reason, epsilon=epsilon, delta=delta, rho=rho)
            self.store.save(record)
        detail = f"{reason}; set aside, later periods go on. To take it up again, {fix}, or remove {path}"
        return _result(occurrence, "skip", detail, record)

    def _attempt(self, occurrence: Occurrence, config: ReleaseConfig, note: str, number: int) -> Result:
        name, out = occurrence.name, config.release.out
        record = Record(
            name, occurrence.at.isoformat(), str(out), "begun", number, self.now.isoformat(timespec="seconds")
        )
        self.store.save(record)
        log = self.store.log(name, number)
        with log.open("a", encoding="utf-8") as file, logged_to(private := _AttemptLog(file)):
            log.chmod(0o600)
            planned = self.store.plan(name)
            attempts = self.calendar.attempts
            _log.info("%s, due %s: attempt %d of %d", name, occurrence.local, number, attempts)
            try:
                if not (RunFolder.of(out).begun or RunFolder(out).checked):  # no attempt got as far as paying
                    shutil.rmtree(planned, ignore_errors=True)
                    notes, scheduler = [note] if note else [], self.calendar.scheduler
                    plan(config, planned, progress=self.progress, scheduler=scheduler, notes=notes)
                make_release(config, plan=planned, progress=self.progress, scheduler=self.calendar.scheduler)
                if (destination := occurrence.schedule.file.publish) is not None:
                    if awaits_statement(RunFolder(out).load().certificate, statements_in(out / "public")):
                        detail = f"its witness has not signed; call odsynth witness {out}"
                        self.store.save(record := replace(record, attempts=number - 1))
                        return _result(occurrence, "waiting", detail, record)
                    _log.info("Publishing the release ...")
                    placed = publish(out, destination, key=self.calendar.signer).location
                    record = replace(record, published=placed)
                    if not is_signed(out / "public"):
                        _log.warning(signature_in_words(signed=False))
            except OverBudgetError as error:
                message = shown_message(error, one_line=True)
                _log.info("%s: set aside: %s", name, message, extra={"error": type(error).__name__})
                price, _ = period_price(config, planned)
                return self._set_aside(occurrence, record, message, number - 1, out, price)
            except Exception as error:
                kind, message = type(error).__name__, shown_message(error, one_line=True)
                _log.error("%s: failed (%s): %s", name, kind, message, extra={"error": kind})
                if (whole := private_message(error, one_line=True)) != message:
                    private.write(whole)
                self.store.save(replace(record, status="failed", error=kind))
                return _result(occurrence, "failed", f"{kind}: {message} (log: {log})", record, error)
            except KeyboardInterrupt as stop:
                private.write(f"{name}: stopped by {exit_code(stop)[0]}", error=type(stop).__name__)
                raise
            _log.info("%s: finished", name)
        self.store.save(replace(record, status="finished"))
        for_release = RunFolder(out).load().certificate.for_release
        detail = f"{out}{'' if for_release else ' (not for release)'}"
        if record.published is not None and not is_signed(out / "public"):
            detail += f"; published at {record.published}. WARNING: {signature_in_words(signed=False)}"
        return _result(occurrence, "finished", detail, record)


class _AttemptLog(logging.Handler):
    """Writes what is logged during an attempt into its private log, a line of JSON each."""

    def __init__(self, file: TextIO) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        error = getattr(record, "error", None)
        self.write(words_of(record), **({"error": error} if error else {}))

    def write(self, message: str, **more: str) -> None:
        """Write what is for this log only."""
        line = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "message": message} | more
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


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
    tried = record.time if record else ""
    return Result(occurrence.name, occurrence.at, status, occurrence.local, detail, kind, attempts, tried)


def _account(config: ReleaseConfig) -> tuple[Path, str] | None:
    """Return where the cost of a release is added up."""
    return None if config.ledger is None else (config.ledger.file, one_form(config.ledger.data_set))


def _goes_on(out: Path) -> bool:
    """Whether a release is made already, or was begun and can be resumed."""
    return RunFolder.of(out).begun or RunFolder(out).checked


def absent_files(config: ReleaseConfig) -> list[Path]:
    """Return the files that a run reads and that are not there."""
    return [path for path in _inputs(config) if _missing(path)]


def _refuse_wrong_paths(occurrence: Occurrence, absent: list[Path]) -> None:
    """Refuse files that are not there if their folder is not either: nothing can be delivered to it.

    A folder that is called after the period may come with the file. Which these are, another period shows.
    """
    if not absent:
        return
    years = 7 if occurrence.period.kind == "year" else 31  # another year, quarter and month
    other_period = replace(occurrence, period=occurrence.period.earlier(-years))
    other_inputs = list(_inputs(other_period.config()))
    problems = []
    for path in absent:
        common = max(
            (Path(os.path.commonpath([path, path_then])) for path_then in other_inputs),
            key=lambda path_then: len(path_then.parts),
        )
        folder = path.parent if common == path else common
        if _missing(folder) or folder.is_file():
            rule = f"the folder {folder} is not there, so {path.name} cannot be delivered"
            problems.append(f"{occurrence.name}: {rule}; correct the path, or make the folder")
    if problems:
        raise ConfigError(problems)


def _refuse_no_history(occurrence: Occurrence, config: ReleaseConfig, coming: Set[Path]) -> None:
    """Refuse a period whose history is not made, as of a year that was passed over: no try helps.

    `coming` are the output folders of releases that a dry run would make before.
    """
    if not config.has_history or config.history is None:
        return
    folder = config.history.release
    if _missing(folder) and coming.isdisjoint({folder, folder.parent}):
        fix = "make it, or name the last release there is"
        raise ConfigError(f"{occurrence.name}: history.release: there is no {folder}; {fix}")


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
