"""Release calendars: which release is due when, and the configuration of each.

A calendar is a folder. Every TOML file in it is the schedule of one kind of release: a configuration to start
from, when, which period each time is for, and what the period changes in the configuration. The file
``calendar.toml``, which may be missing, is about the calendar itself.

An occurrence is a schedule and a period, so that editing the hour of a schedule does not release anything
twice; its time is the first of the schedule's times that is for the period. Times are computed by cronsim.
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import dropwhile
from pathlib import Path
from typing import Any

from cronsim import CronSim

from pipelines.config.loading import ReleaseConfig, check_config
from pipelines.config.toml import ConfigError, read_toml
from pipelines.schedule.files import ScheduleFile, SettingsFile, read_model
from pipelines.schedule.notify import Notify
from pipelines.schedule.periods import NEEDED, Period, filled, put
from synth.composition import record_share
from synth.rationals import decimal_down, exact

SETTINGS = "calendar.toml"


@dataclass(frozen=True)
class Schedule:
    """A kind of release and its times."""

    path: Path  # its file
    file: ScheduleFile  # what stands in it
    tables: dict[str, Any]  # the configuration to start from

    @property
    def name(self) -> str:
        """The name of its file, without ``.toml``."""
        return self.path.stem

    def occurrences(self) -> Iterator[Occurrence]:
        """Yield all occurrences since `start`, in order of time, without end unless there are dates."""
        for number, at in enumerate(self._times(), start=1):
            yield Occurrence(self, at, self._period(at).earlier(self.file.lag), number)

    def _period(self, at: datetime) -> Period:
        return Period.of(self.file.period, at.astimezone(self.file.timezone).date())

    def _times(self) -> Iterator[datetime]:
        start = (
            datetime.min.replace(tzinfo=UTC) if self.file.start is None else self._instant(self.file.start)
        )
        if self.file.cron is None:
            yield from sorted(at for at in map(self._instant, self.file.dates) if at >= start)
            return
        after = start.astimezone(self.file.timezone) - timedelta(seconds=1)
        while (at := next(CronSim(self.file.cron, after), None)) is not None:
            yield at.astimezone(UTC)
            day = self._period(at).earlier(-1).first_day  # what else is for this period does not count
            after = datetime.combine(day, time(), self.file.timezone) - timedelta(seconds=1)

    def _instant(self, day: datetime) -> datetime:
        """Return a local time as UTC: the first of two, and the end of a gap, as cronsim has it."""
        here = day if day.tzinfo else day.replace(tzinfo=self.file.timezone)
        while here.astimezone(UTC).astimezone(here.tzinfo).replace(tzinfo=None) != here.replace(tzinfo=None):
            here += timedelta(minutes=1)
        return here.astimezone(UTC)

    def problems(self) -> Iterator[str]:
        """Yield what cannot be right in a file whose single values are."""
        if (self.file.cron is None) == (not self.file.dates):
            yield "cron: name either cron or dates, one of the two"
        if self.file.cron is not None and self.file.start is None:
            yield "start: missing; add a line start = ... with the first date that counts"
        for key in ("privacy.epsilon", "privacy.delta"):
            if self.file.shares is not None and key in self.file.set:
                yield f'set."{key}": with shares, that is the share of each period; leave out one of the two'
        out = self.file.set.get("release.out", "")
        for name in NEEDED[self.file.period]:
            if f"{{{name}}}" not in str(out):
                yield f'set."release.out": needs {{{name}}}, so that each period has a folder of its own'
        if self.file.dates:
            periods = [self._period(self._instant(day)) for day in self.file.dates]
            for period in {p.number: p for p in periods if periods.count(p) > 1}.values():
                label = period.earlier(self.file.lag).label
                yield f"dates: several are for {label}, which is released once; leave one"


@dataclass(frozen=True)
class Occurrence:
    """The release of one period."""

    schedule: Schedule
    at: datetime  # when it is due, in UTC
    period: Period
    number: int  # which of its schedule it is, from 1

    @property
    def name(self) -> str:
        """Name of its record: the schedule's and the period's, such as ``ri-2025``."""
        return f"{self.schedule.name}-{self.period.label}"

    @property
    def local(self) -> str:
        """When it is due, in the time zone of its schedule."""
        return self.at.astimezone(self.schedule.file.timezone).isoformat(" ", "minutes")

    def config(self) -> ReleaseConfig:
        """Return the configuration of the release."""
        data, names = copy.deepcopy(self.schedule.tables), self.period.names()
        problems: list[str] = []
        for key, value in self.schedule.file.set.items():
            try:
                put(data, key, filled(value, names))
            except ValueError as error:
                problems.append(f'set."{key}": {error}')
        where = f"{self.schedule.path.name}, {self.period.label}"
        if problems:
            raise ConfigError(f"{where}: {problem}" for problem in problems)
        config = check_config(data, self.schedule.file.base.parent, where)
        if (shares := self.schedule.file.shares) is None:
            return config
        total = None if config.ledger is None else config.ledger.over_all_periods
        if total is None:
            fix = "add [ledger] without period, or with total_epsilon and total_delta"
            raise ConfigError(f"{where}: shares: there is no budget over all periods to share; {fix}")
        # A certificate rounds up to as many digits, so that no debit is above its share.
        share = [exact(decimal_down(amount / shares)) for amount in total]
        epsilon, delta = record_share(share[0], share[1], config.jobs.records_per_worker)
        privacy = config.privacy.model_copy(update={"epsilon": epsilon, "delta": delta})
        return config.model_copy(update={"privacy": privacy})


@dataclass(frozen=True)
class Calendar:
    """The schedules of a folder."""

    folder: Path
    records: Path  # where it is recorded what was done
    attempts: int  # how often a release is tried
    scheduler: str | None  # address of a Dask cluster to draw on
    signer: Path | None  # public key file: only releases that it has signed are published
    notify: Notify  # who is told
    schedules: tuple[Schedule, ...]  # in order of their names
    # What is wrong with the files that are not among them: one line each, beginning with the file's
    # name.
    problems: tuple[str, ...]

    def due(self, now: datetime) -> Iterator[Occurrence]:
        """Yield the occurrences up to now, done or not, by time and then by name."""
        past: list[Occurrence] = []
        for schedule in self.schedules:
            for occurrence in schedule.occurrences():
                if occurrence.at > now:
                    break
                past.append(occurrence)
        yield from sorted(past, key=_order)

    def coming(self, now: datetime) -> Iterator[Occurrence]:
        """Yield the occurrences after now, by time and then by name, without end where there is a cron."""
        after = (dropwhile(lambda o: o.at <= now, each.occurrences()) for each in self.schedules)
        yield from heapq.merge(*after, key=_order)


def _order(occurrence: Occurrence) -> tuple[datetime, str]:
    return occurrence.at, occurrence.schedule.name


def read_calendar(folder: Path | str) -> Calendar:
    """Read a calendar. A schedule that cannot be used is left out and told of in `problems`."""
    folder = Path(folder).absolute()
    files = sorted(path for path in folder.glob("*.toml") if not path.name.startswith("."))
    settings = SettingsFile()
    if folder / SETTINGS in files:
        files.remove(folder / SETTINGS)
        settings = read_model(folder / SETTINGS, SettingsFile)
    if not files:
        raise ConfigError(f"{folder}: no release calendar; name a folder with the TOML files of schedules")
    schedules: list[Schedule] = []
    problems: list[str] = []
    for path in files:
        try:
            schedules.append(_schedule(path))
        except ConfigError as error:
            problems += error.problems
    own = settings.calendar
    return Calendar(
        folder,
        own.records or folder / "state",
        own.attempts,
        own.scheduler,
        own.signer,
        settings.notify,
        tuple(schedules),
        tuple(problems),
    )


def _schedule(path: Path) -> Schedule:
    """Read a schedule, and try its first configuration."""
    file = read_model(path, ScheduleFile)
    try:
        tables = read_toml(file.base)
    except ConfigError as error:
        raise ConfigError(f"{path.name}: base: {problem}" for problem in error.problems) from None
    schedule = Schedule(path, file, tables)
    if problems := [f"{path.name}: {problem}" for problem in schedule.problems()]:
        raise ConfigError(problems)
    for occurrence in schedule.occurrences():
        occurrence.config()
        return schedule
    raise ConfigError(f"{path.name}: nothing is ever due since start; correct dates, cron or start")
