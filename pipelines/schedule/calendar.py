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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import dropwhile
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import Field, PlainValidator, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from pipelines.config.fields import InputPath, absolute, shown
from pipelines.config.loading import ReleaseConfig, check_config
from pipelines.config.problems import describe
from pipelines.config.sections import Section
from pipelines.config.toml import ConfigError, read_toml
from pipelines.schedule.notify import Notify
from pipelines.schedule.shares import share_of

# --- periods

_PARTS = {"year": 1, "quarter": 4, "month": 12}  # of a year
_LABELS = {"year": "{year}", "quarter": "{year}Q{quarter}", "month": "{year}-{month}"}
NEEDED = {"year": ("year",), "quarter": ("year", "quarter"), "month": ("year", "month")}


@dataclass(frozen=True)
class Period:
    """A year, a quarter or a month."""

    kind: str
    number: int  # counted from the year 0

    @classmethod
    def of(cls, kind: str, day: date) -> Period:
        """Return the period that a day is in."""
        parts = _PARTS[kind]
        return cls(kind, day.year * parts + (day.month - 1) * parts // 12)

    def earlier(self, by: int) -> Period:
        """Return the period that many before this one."""
        return Period(self.kind, self.number - by)

    @property
    def first_day(self) -> date:
        """The day on which it begins."""
        year, part = divmod(self.number, _PARTS[self.kind])
        return date(year, part * 12 // _PARTS[self.kind] + 1, 1)

    @property
    def label(self) -> str:
        """``2025``, ``2025Q4`` or ``2025-12``."""
        return _LABELS[self.kind].format(**self._names())

    def _names(self) -> dict[str, str]:
        day = self.first_day
        names = {"year": f"{day.year}", "quarter": f"{(day.month + 2) // 3}", "month": f"{day.month:02}"}
        return dict(list(names.items())[: 1 + list(_PARTS).index(self.kind)])

    def names(self) -> dict[str, str]:
        """Return what stands for what in a template; ``previous_`` names the period before."""
        return self._names() | {f"previous_{n}": text for n, text in self.earlier(1)._names().items()}


def filled(value: Any, names: Mapping[str, str]) -> Any:
    """Put the period into a text, or into those of a list."""
    if isinstance(value, list):
        return [filled(part, names) for part in value]
    if not isinstance(value, str):
        return value
    try:
        fields = [part[1:] for part in Formatter().parse(value) if part[1] is not None]
    except ValueError:
        fields = [("", "", None)]
    for name, form, conversion in fields:
        if name not in names or form or conversion:
            choices = ", ".join(f"{{{choice}}}" for choice in names)
            raise ValueError(f"{shown(value)} has other braces than {choices}; write only these")
    return value.format(**names)


def put(data: dict[str, Any], key: str, value: Any) -> None:
    """Replace one value of a configuration; members of a list are counted from 1."""
    *tables, last = key.split(".")
    inside: Any = data
    for part in tables:
        if isinstance(inside, list) and part.isdecimal() and 1 <= int(part) <= len(inside):
            inside = inside[int(part) - 1]
        elif isinstance(inside, dict):
            inside = inside.setdefault(part, {})
        else:
            raise ValueError(f'the base has no table "{part}" there; name a key of the base')
    if not isinstance(inside, dict):
        raise ValueError("the base has no table there; name a key of the base")
    whole = key == "release.year" or type(inside.get(last)) is int
    inside[last] = int(value) if whole and isinstance(value, str) and value.isdecimal() else value


# --- files


def _cron(value: object) -> str:
    try:
        if isinstance(value, str) and next(CronSim(value, datetime(2000, 1, 1)), None) is not None:
            return value
        reason = "it never happens"
    except CronSimError as error:
        reason = str(error)
    raise ValueError(f'{shown(value)} is not a cron expression ({reason}); write for example "0 6 1 2 *"')


def _zone(value: object) -> ZoneInfo:
    try:
        return ZoneInfo(value if isinstance(value, str) else "")
    except (LookupError, ValueError, OSError):
        raise ValueError(f'{shown(value)} is not a time zone; write for example "America/New_York"') from None


def _day(value: object) -> datetime:
    """Return a date or a time of the file; without an offset, it is in the schedule's time zone."""
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime) or not 1990 <= value.year <= 2900:
        raise ValueError(f"{shown(value)} is not a date; write it without quotes: 2026-02-01")
    return value


def _days(value: object) -> tuple[datetime, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"{shown(value)} is not a list of dates; write [2026-02-01, 2027-02-01]")
    return tuple(_day(day) for day in value)


def _place(value: object, info: ValidationInfo) -> str:
    if not isinstance(value, str) or not value.strip() or value.startswith("~"):
        raise ValueError(f"{shown(value)} is not a destination; write a folder or a URL")
    return value if "://" in value else str(absolute((info.context or {})["folder"], value))


def _overrides(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{shown(value)} is not a table; write [set] above its keys")
    return dict(_flat("", value))


def _flat(above: str, tables: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in tables.items():
        yield from _flat(f"{above}{key}.", value) if isinstance(value, dict) else [(above + key, value)]


class ScheduleFile(Section):
    """A schedule as it stands in its file."""

    base: InputPath  # the configuration to begin with
    period: Literal["year", "quarter", "month"]  # what is released once
    lag: Annotated[int, Field(ge=0, le=1200)] = 1  # how many periods before that of its time is released
    cron: Annotated[str | None, PlainValidator(_cron)] = None  # when; this or `dates`
    # When, in the time zone where they have no offset.
    dates: Annotated[tuple[datetime, ...], PlainValidator(_days)] = ()
    start: Annotated[datetime | None, PlainValidator(_day)] = None  # the first that counts
    timezone: Annotated[ZoneInfo, PlainValidator(_zone)] = ZoneInfo("UTC")
    # Over how many periods, from the first, the budget of all periods is shared equally.
    shares: Annotated[int | None, Field(ge=1, le=10_000)] = None
    # How many days after its time an input may be missing before somebody is told.
    wait_days: Annotated[int, Field(ge=0, le=36_500)] = 30
    publish: Annotated[str | None, PlainValidator(_place)] = None  # folder or URL to publish to
    # What the period changes: values by the keys of the configuration, joined by dots.
    set: Annotated[dict[str, Any], PlainValidator(_overrides)]


class _Settings(Section):
    records: InputPath | None = None
    attempts: Annotated[int, Field(ge=1, le=1000)] = 3
    scheduler: Annotated[str, Field(min_length=1)] | None = None
    signer: InputPath | None = None


class SettingsFile(Section):
    """What a calendar says about itself."""

    # Folder of the records, how often a release is tried, the Dask cluster that draws, and the public
    # key of the one signer whose releases are published.
    calendar: _Settings = _Settings()
    notify: Notify = Notify()  # who is told


_Model = TypeVar("_Model", bound=Section)
_TABLES: dict[type[Section], dict[tuple[str, ...], tuple[str, ...]]] = {
    ScheduleFile: {(): tuple(ScheduleFile.model_fields)},
    SettingsFile: {
        (): tuple(SettingsFile.model_fields),
        ("calendar",): tuple(_Settings.model_fields),
        ("notify",): tuple(Notify.model_fields),
    },
}


def read_model(path: Path, model: type[_Model]) -> _Model:
    """Read and check a file of a calendar; raises `ConfigError` with one line per problem."""
    data = read_toml(path)
    if {"release", "privacy"} <= data.keys():
        fix = "move it to another folder and name it as base"
        raise ConfigError(f"{path.name}: this is the configuration of a release; {fix}")
    try:
        return model.model_validate(data, context={"folder": path.parent})
    except ValidationError as errors:
        problems = errors.errors(include_url=False)
        lines = (line for error in problems for line in _described(error, _TABLES[model]))
        raise ConfigError(f"{path.name}: {line}" for line in lines) from None


def _described(error: ErrorDetails, keys: Mapping[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    if error["type"] == "missing" and error["loc"] != ("set",):
        return [f"{error['loc'][0]}: missing; add a line {error['loc'][0]} = ..."]
    return describe(error, keys)


# --- schedules


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
        for number, moment in enumerate(self._times(), start=1):
            yield Occurrence(self, moment, self._period(moment).earlier(self.file.lag), number)

    def _period(self, moment: datetime) -> Period:
        return Period.of(self.file.period, moment.astimezone(self.file.timezone).date())

    def _times(self) -> Iterator[datetime]:
        start = (
            datetime.min.replace(tzinfo=UTC) if self.file.start is None else self._instant(self.file.start)
        )
        if self.file.cron is None:
            yield from sorted(moment for moment in map(self._instant, self.file.dates) if moment >= start)
            return
        after = start.astimezone(self.file.timezone) - timedelta(seconds=1)
        while (moment := next(CronSim(self.file.cron, after), None)) is not None:
            yield moment.astimezone(UTC)
            day = self._period(moment).earlier(-1).first_day  # what else is for this period does not count
            after = datetime.combine(day, time(), self.file.timezone) - timedelta(seconds=1)

    def _instant(self, day: datetime) -> datetime:
        """Return a local time as UTC: the first of two, and the end of a gap, as cronsim has it."""
        local = day if day.tzinfo else day.replace(tzinfo=self.file.timezone)
        zone = local.tzinfo
        while local.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local.replace(tzinfo=None):
            local += timedelta(minutes=1)
        return local.astimezone(UTC)

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
        return self.config_and_note()[0]

    def config_and_note(self) -> tuple[ReleaseConfig, str]:
        """Return the configuration, and a note of what the calendar chose in it, which may be empty."""
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
        if config.tiers:
            rule = "a calendar publishes one release of each period, for one kind of readers"
            fix = "leave [tiers] out, or make these releases with odsynth run"
            raise ConfigError(f"{where}: tiers: {rule}; {fix}")
        if (shares := self.schedule.file.shares) is None:
            return config, ""
        try:
            share = share_of(config, shares)
        except ValueError as error:
            raise ConfigError(f"{where}: shares: {error}") from None
        release = config.release.model_copy(update={"mechanism": share.mechanism})
        return config.model_copy(update={"privacy": share.privacy, "release": release}), share.note


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
        after = (dropwhile(lambda o: o.at <= now, schedule.occurrences()) for schedule in self.schedules)
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
        fix = "name a folder with the TOML files of schedules"
        raise ConfigError(f"{folder}: this is no release calendar; {fix}")
    schedules: list[Schedule] = []
    problems: list[str] = []
    for path in files:
        try:
            schedules.append(_schedule(path))
        except ConfigError as error:
            problems += error.problems
    about = settings.calendar
    return Calendar(
        folder,
        about.records or folder / "state",
        about.attempts,
        about.scheduler,
        about.signer,
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
    raise ConfigError(f"{path.name}: nothing is ever due after start; correct dates, cron or start")
