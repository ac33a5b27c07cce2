"""The files of a release calendar: what may stand in them, checked like the configuration of a release."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import Field, PlainValidator, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from pipelines.config.fields import InputPath, absolute, shown
from pipelines.config.problems import describe
from pipelines.config.sections import Section
from pipelines.config.toml import ConfigError, read_toml
from pipelines.schedule.notify import Notify


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
        found = errors.errors(include_url=False)
        lines = (line for error in found for line in _described(error, _TABLES[model]))
        raise ConfigError(f"{path.name}: {line}" for line in lines) from None


def _described(error: ErrorDetails, keys: Mapping[tuple[str, ...], tuple[str, ...]]) -> list[str]:
    if error["type"] == "missing" and error["loc"] != ("set",):
        return [f"{error['loc'][0]}: missing; add a line {error['loc'][0]} = ..."]
    return describe(error, keys)
