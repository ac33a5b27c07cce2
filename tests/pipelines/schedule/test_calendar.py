"""Release calendars: when what is due, for which period, and one clear line for what cannot be."""

from __future__ import annotations

import configparser
import itertools
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from pipelines.config.toml import ConfigError
from pipelines.schedule.calendar import Period, Schedule, ScheduleFile, filled, put, read_calendar

pytestmark = pytest.mark.quick

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Asia/Tehran"]
GOOD = """\
base = "../base.toml"
start = 2022-01-01
cron = "0 6 1 2 *"
period = "year"

[set]
"release.year" = "{year}"
"release.out" = "../out/{year}"
"""

Write = Callable[..., Path]


@pytest.fixture
def write(config_text: Callable[..., str], tmp_path: Path) -> Write:
    """Write a calendar: a file for each keyword, with the base beside its folder."""

    def calendar(**files: str) -> Path:
        (tmp_path / "base.toml").write_text(config_text())
        folder = tmp_path / "calendar"
        folder.mkdir(exist_ok=True)
        for name, text in files.items():
            (folder / f"{name}.toml").write_text(text)
        return folder

    return calendar


def schedule(**values: object) -> Schedule:
    """A schedule whose configuration does not matter."""
    given_ = {"base": "b.toml", "period": "year", "set": {"release.out": "{year}{quarter}{month}"}} | values
    file = ScheduleFile.model_validate(given_, context={"folder": Path("/")})
    return Schedule(Path("/s.toml"), file, {})


def times(many: int, **values: object) -> list[str]:
    found = itertools.islice(schedule(**values).occurrences(), many)
    return [f"{occurrence.local} {occurrence.period.label}" for occurrence in found]


# --- periods


@given(
    st.dates(min_value=date(1990, 1, 1), max_value=date(2900, 1, 1)),
    st.sampled_from(["year", "quarter", "month"]),
)
def test_periods_follow_each_other(day: date, kind: str) -> None:
    period = Period.of(kind, day)
    following = period.earlier(-1)
    assert period.first_day <= day < following.first_day
    assert Period.of(kind, following.first_day - timedelta(days=1)) == period
    assert following.names()["previous_year"] == period.names()["year"]


def test_names_of_periods() -> None:
    assert Period.of("year", date(2026, 2, 1)).earlier(1).label == "2025"
    assert Period.of("quarter", date(2026, 2, 1)).earlier(1).label == "2025Q4"
    assert Period.of("month", date(2026, 1, 31)).earlier(1).label == "2025-12"
    assert Period.of("year", date(2026, 2, 1)).names() == {"year": "2026", "previous_year": "2025"}
    assert Period.of("month", date(2026, 1, 1)).names() == {
        "year": "2026",
        "quarter": "1",
        "month": "01",
        "previous_year": "2025",
        "previous_quarter": "4",
        "previous_month": "12",
    }


# --- times


def test_times_and_periods() -> None:
    start = date(2022, 2, 1)
    assert times(2, cron="0 6 1 2 *", start=start, timezone="America/New_York") == [
        "2022-02-01 06:00-05:00 2021",  # the first day counts
        "2023-02-01 06:00-05:00 2022",
    ]
    assert times(2, cron="0 6 1 2 *", start=start, lag=0)[0] == "2022-02-01 06:00+00:00 2022"
    assert times(3, cron="30 7 * * 1", start=start, period="quarter", lag=2) == [
        "2022-02-07 07:30+00:00 2021Q3",
        "2022-04-04 07:30+00:00 2021Q4",
        "2022-07-04 07:30+00:00 2022Q1",
    ]
    days = [datetime(2026, 4, 1, 6), date(2026, 1, 1), datetime(2026, 7, 1, tzinfo=UTC)]
    assert times(9, dates=days, period="quarter", timezone="Europe/Berlin") == [
        "2026-01-01 00:00+01:00 2025Q4",
        "2026-04-01 06:00+02:00 2026Q1",
        "2026-07-01 02:00+02:00 2026Q2",
    ]
    assert len(times(9, dates=days, period="quarter", start=date(2026, 2, 1))) == 2


def test_the_first_time_of_a_period_is_the_one() -> None:
    start = date(2022, 1, 1)
    often = times(3, cron="* * * * *", start=start)  # does not go through half a million minutes a year
    assert often == [f"{year}-01-01 00:00+00:00 {year - 1}" for year in (2022, 2023, 2024)]


def test_leap_days() -> None:
    assert times(2, cron="0 6 29 2 *", start=date(2023, 1, 1)) == [
        "2024-02-29 06:00+00:00 2023",
        "2028-02-29 06:00+00:00 2027",
    ]
    assert times(2, cron="0 6 L * *", start=date(2024, 2, 1), period="month")[0].startswith("2024-02-29")


def test_clocks_that_change() -> None:
    new_york = {"timezone": "America/New_York", "period": "month"}
    skipped = times(1, cron="30 2 8 3 *", start=date(2026, 3, 1), **new_york)
    assert skipped == ["2026-03-08 03:00-04:00 2026-02"]  # 2:30 does not exist: as soon as the gap is over
    assert times(1, dates=[datetime(2026, 3, 8, 2, 30)], **new_york) == skipped
    twice = times(2, cron="30 1 1 11 *", start=date(2026, 11, 1), **new_york)
    assert twice == ["2026-11-01 01:30-04:00 2026-10", "2027-11-01 01:30-04:00 2027-10"]  # the first of two
    assert times(1, dates=[datetime(2026, 11, 1, 1, 30)], **new_york) == twice[:1]


@given(
    zone=st.sampled_from(ZONES),
    start=st.dates(min_value=date(2015, 1, 1), max_value=date(2035, 1, 1)),
    minute=st.integers(0, 59),
    hour=st.integers(0, 23),
    day=st.integers(1, 28),
    period=st.sampled_from(["month", "quarter", "year"]),
)
def test_once_a_period_wherever_the_clocks_change(
    zone: str, start: date, minute: int, hour: int, day: int, period: str
) -> None:
    """Every period has one time; it is the first that cronsim gives in it, at the hour asked for or later."""
    cron = f"{minute} {hour} {day} * *"
    here = ZoneInfo(zone)
    found = list(
        itertools.islice(
            schedule(cron=cron, start=start, timezone=zone, period=period, lag=0).occurrences(), 15
        )
    )
    numbers = [occurrence.period.number for occurrence in found]
    assert numbers == list(range(numbers[0], numbers[0] + 15))
    first = datetime(start.year, start.month, start.day, tzinfo=here)
    expected: dict[str, datetime] = {}
    for at in CronSim(cron, first - timedelta(seconds=1)):
        if (label := Period.of(period, at.date()).label) not in expected:
            if len(expected) == 15:
                break
            expected[label] = at.astimezone(UTC)
    assert {occurrence.period.label: occurrence.at for occurrence in found} == expected
    for occurrence in found:
        local = occurrence.at.astimezone(here).replace(tzinfo=None)
        asked = local.replace(minute=minute, hour=hour, day=day)
        assert timedelta(0) <= local - asked <= timedelta(hours=1)
        if local != asked:  # only where what was asked for does not exist
            wanted = asked.replace(tzinfo=here)
            assert wanted.astimezone(UTC).astimezone(here).replace(tzinfo=None) != asked


@given(
    zone=st.sampled_from(ZONES),
    cron=st.sampled_from(["*/30 * * * *", "0 * * * *", "*/7 2 * * *", "15 */2 * * SUN", "0 0 * * *"]),
    start=st.dates(min_value=date(2020, 1, 1), max_value=date(2030, 1, 1)),
)
def test_times_grow_whatever_the_clocks_do(zone: str, cron: str, start: date) -> None:
    found = [
        occurrence.at
        for occurrence in itertools.islice(
            schedule(cron=cron, start=start, timezone=zone, period="month").occurrences(), 30
        )
    ]
    assert all(before < after for before, after in itertools.pairwise(found))
    assert found[0].astimezone(ZoneInfo(zone)).date() >= start


def test_order_and_what_is_past(write: Write) -> None:
    """By time, then by name; without a time zone, UTC; what is due at this very second is due."""
    early = GOOD.replace("0 6 1 2", "0 5 1 2").replace("/{year}", "/c{year}")
    folder = write(b=GOOD, a=GOOD.replace("/{year}", "/a{year}"), c=early)
    now = datetime(2023, 2, 1, 6, tzinfo=UTC)
    names = [occurrence.name for occurrence in read_calendar(folder).due(now)]
    assert names == ["c-2021", "a-2021", "b-2021", "c-2022", "a-2022", "b-2022"]
    names = [occurrence.name for occurrence in read_calendar(folder).due(now - timedelta(seconds=1))]
    assert names == ["c-2021", "a-2021", "b-2021", "c-2022"]


# --- configurations


def test_configuration_of_an_occurrence(write: Write, tmp_path: Path) -> None:
    more = """
"release.name" = "Region {year} after {previous_year}"
"auxiliary.2.file" = "lodes/{previous_year}.csv"
geography.levels = ["st", "cty", "trct", "bgrp"]
plan.pool_below = 9
ledger.file = "ledger.sqlite"
ledger.data_set = "jobs"
ledger.period = "{year}"
ledger.epsilon = "9"
ledger.delta = "0.5"
"""
    calendar = read_calendar(write(ri=GOOD + more))
    assert calendar.problems == ()
    assert calendar.records == tmp_path / "calendar" / "state"
    config = next(calendar.schedules[0].occurrences()).config()
    assert (config.release.year, config.release.name) == (2021, "Region 2021 after 2020")
    assert config.release.out == tmp_path.parent / "out" / "2021"  # relative to the base
    assert config.auxiliary[1].file == tmp_path / "lodes" / "2020.csv"
    assert config.auxiliary[0].file.name == "demo_acs_county_flows.csv"  # as in the base
    assert config.plan.pool_below == 9
    assert config.ledger is not None
    assert config.ledger.period == "2021"


def test_settings(write: Write, tmp_path: Path) -> None:
    folder = write(ri=GOOD, calendar='[calendar]\nrecords = "../elsewhere"\nattempts = 7\n')
    calendar = read_calendar(folder)
    assert (calendar.records, calendar.attempts, calendar.notify.on) == (tmp_path / "elsewhere", 7, "failure")
    assert [each.name for each in calendar.schedules] == ["ri"]


BAD = [
    ('"0 6 1 2 *"', '"0 25 * * *"', 'cron: "0 25 * * *" is not a cron expression (Bad hour)'),
    ('"0 6 1 2 *"', '"0 6 * *"', "(Wrong number of fields)"),
    ('"0 6 1 2 *"', '"0 6 30 2 *"', "(Bad day-of-month)"),
    ('"0 6 1 2 *"', "6", "cron: 6 is not a cron expression"),
    ('cron = "0 6 1 2 *"', "", "cron: name either cron or dates"),
    ("cron =", "dates = [2026-01-01]\ncron =", "cron: name either cron or dates"),
    ('cron = "0 6 1 2 *"', "dates = []", "dates: [] is not a list of dates"),
    ('cron = "0 6 1 2 *"', 'dates = ["2026-01-01"]', "is not a date; write it without quotes"),
    ('cron = "0 6 1 2 *"', "dates = [2020-01-01]", "nothing is ever due after start"),
    ('cron = "0 6 1 2 *"', "dates = [2026-01-01, 2026-12-31]", "dates: several are for 2025"),
    ("start = 2022-01-01\n", "", "start: missing; add a line start = ..."),
    ("start = 2022-01-01", 'start = "2022"', 'start: "2022" is not a date'),
    ("start = 2022-01-01", "start = 0001-01-01", "start: 0001-01-01 00:00:00 is not a date"),
    ('base = "../base.toml"\n', "", "base: missing; add a line base = ..."),
    ("../base.toml", "../none.toml", "none.toml: there is no such file"),
    ('"year"\n', '"week"\n', 'period: "week": Input should be'),
    ('period = "year"\n', "", "period: missing; add a line period = ..."),
    ("cron", 'timezon = "UTC"\ncron', "timezon: unknown key; did you mean timezone?"),
    ("cron", "lag = -1\ncron", "lag: -1: Input should be greater"),
    ("cron", 'timezone = "Mars/Olympus"\ncron', 'timezone: "Mars/Olympus" is not a time zone'),
    ("cron", 'timezone = "../etc/passwd"\ncron', "is not a time zone"),
    ("cron", 'timezone = "America"\ncron', "is not a time zone"),
    ("cron", 'publish = ""\ncron', 'publish: "" is not a destination'),
    (GOOD[GOOD.index("[set]") :], "", "set: missing; add a table [set]"),
    ("out/{year}", "out/all", 'set."release.out": needs {year}'),
    ('period = "year"', 'period = "month"', 'set."release.out": needs {month}'),
    ('"{year}"', '"{quarter}"', "has other braces than {year}, {previous_year}"),
    ('"{year}"', '"{year.__class__}"', "has other braces than"),
    ('"{year}"', '"{year!r}"', "has other braces than"),
    ('"{year}"', '"{"', "has other braces than"),
    ("release.year", "release.yaer", "ri.toml, 2021: release.yaer: unknown key; did you mean year?"),
    ("release.year", "privacy.epsilon.x", 'set."privacy.epsilon.x": the base has no table there'),
    ("release.year", "auxiliary.9.file", 'set."auxiliary.9.file": the base has no table "9" there'),
    ('"{year}"', '"{year}."', 'release.year: "2021.": Input should be a valid integer'),
    ("[set]", "[set", "not valid TOML"),
    (GOOD, '[release]\nname = "x"\n[privacy]\nepsilon = "1"\n', "move it to another folder"),
]


def test_a_bad_file_is_one_clear_line(write: Write) -> None:
    for old, new, problem in BAD:
        assert old in GOOD
        calendar = read_calendar(write(ri=GOOD.replace(old, new, 1), good=GOOD))
        assert [each.name for each in calendar.schedules] == ["good"]
        (line,) = calendar.problems
        assert line.startswith("ri.toml")
        assert problem in line
        assert "\n" not in line


def test_all_problems_at_once(write: Write) -> None:
    calendar = read_calendar(write(ri=GOOD.replace("0 6 1 2 *", "never").replace("year", "age", 1)))
    assert len(calendar.problems) == 2
    bad = GOOD.encode() + b"# \xff"
    folder = write(ok=GOOD)
    (folder / "ri.toml").write_bytes(bad)
    (folder / ".hidden.toml").write_bytes(bad)
    assert read_calendar(folder).problems == ("ri.toml: the text is not UTF-8; save the file as UTF-8",)


BAD_SETTINGS = [
    ("[calendar]\nrecrds = 'x'", "calendar.recrds: unknown key; did you mean records?"),
    ("records = 'x'", "records: unknown key; it belongs to [calendar]"),
    ("[calendar]\nattempts = 0", "calendar.attempts: 0: Input should be greater"),
    ("[notify]\non = 'success'", 'notify.on: "success": Input should be'),
    ("[notify]\ncommand = 'mail'", "notify.command"),
    ("[notify]\ncommand = []", "notify.command"),
    ("[notify]\nwebhook = 'ftp://secret-token'", "notify.webhook: this is not the address of a webhook"),
    ("[notify]\nwebhook = 'https://secret-token:x/'", "notify.webhook: this is not the address"),
    ("[notify]\nwebhook = 3", "notify.webhook: this is not the address of a webhook"),
    ("[notify]\ntimeout = 0", "notify.timeout: 0: Input should be greater"),
]


def test_bad_settings_stop_everything(write: Write) -> None:
    for text, problem in BAD_SETTINGS:
        with pytest.raises(ConfigError) as error:
            read_calendar(write(ri=GOOD, calendar=text))
        (line,) = error.value.problems
        assert problem in line
        assert "secret-token" not in str(error.value)


def test_no_calendar(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no release calendar"):
        read_calendar(tmp_path / "mistyped")
    with pytest.raises(ConfigError, match="no release calendar"):
        read_calendar(tmp_path)


def test_filling() -> None:
    names = {"year": "2025"}
    assert filled(["{year}", 3, "x{year}"], names) == ["2025", 3, "x2025"]
    data = {"release": {"year": 2019}, "plan": {"pool_below": 8}, "list": [{"year": "x"}]}
    put(data, "release.year", "2025")
    put(data, "plan.pool_below", "9")
    put(data, "list.1.year", "2025")
    put(data, "ledger.period", "2025")
    assert data == {
        "release": {"year": 2025},
        "plan": {"pool_below": 9},
        "list": [{"year": "2025"}],
        "ledger": {"period": "2025"},  # text, where there was no whole number
    }


# --- the examples


def test_example_calendar() -> None:
    calendar = read_calendar(EXAMPLES / "calendar")
    assert calendar.problems == ()
    assert [each.name for each in calendar.schedules] == ["demo_quarters", "rhode_island"]
    for each in calendar.schedules:
        for occurrence in itertools.islice(each.occurrences(), 8):
            occurrence.config()


def units() -> dict[str, configparser.ConfigParser]:
    read = {}
    for name in ("odsynth-due.service", "odsynth-due.timer"):
        read[name] = configparser.ConfigParser(interpolation=None, strict=True)
        read[name].optionxform = str  # type: ignore[assignment,method-assign]
        read[name].read_string((EXAMPLES / "deploy" / name).read_text())
    return read


def test_systemd_units_say_what_they_should() -> None:
    service, timer = units().values()
    assert service["Service"]["SuccessExitStatus"] == "75"
    assert service["Service"]["ExecStart"].split()[1] == "due"
    cache = f"/var/cache/{service['Service']['CacheDirectory']}/"
    assert f"NUMBA_CACHE_DIR={cache}" in service["Service"]["Environment"]
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on this machine")
    for path in (EXAMPLES / "deploy").glob("odsynth-due.*"):
        text = path.read_text().replace("/opt/odsynth/bin/odsynth", sys.executable)  # must be there
        (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, sorted(tmp_path.iterdir()))], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "odsynth-due" not in done.stderr
    when = units()["odsynth-due.timer"]["Timer"]["OnCalendar"]
    subprocess.run(["systemd-analyze", "calendar", when], check=True, capture_output=True)


def crontab() -> tuple[str, str]:
    (line,) = [
        line
        for line in (EXAMPLES / "deploy" / "crontab").read_text().splitlines()
        if line and not line.startswith(("#", "MAILTO="))
    ]
    *fields, command = line.split(maxsplit=5)
    return " ".join(fields), command


@pytest.mark.parametrize(("code", "mailed"), [(0, False), (75, False), (1, True)])
def test_crontab(tmp_path: Path, code: int, mailed: bool) -> None:
    """The times parse, and cron would mail when something failed, not otherwise."""
    expression, command = crontab()
    next(CronSim(expression, datetime(2026, 1, 1)))
    assert "%" not in command  # a new line, to cron
    tool = tmp_path / "odsynth"
    tool.write_text(f'#!/bin/sh\necho "$@"\nexit {code}\n')
    tool.chmod(0o755)
    command = command.replace("/srv/odsynth", str(tmp_path)).replace("/opt/odsynth/bin/odsynth", str(tool))
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.stdout == ("due calendar\n" if mailed else "")
    assert done.stderr == ""


def test_cronjob() -> None:
    yaml = pytest.importorskip("yaml", reason="no YAML library to parse examples/deploy/cronjob.yaml with")
    job = yaml.safe_load((EXAMPLES / "deploy" / "cronjob.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    next(CronSim(job["spec"]["schedule"], datetime(2026, 1, 1)))
    ZoneInfo(job["spec"]["timeZone"])
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    assert container["command"][:2] == ["odsynth", "due"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    (cache,) = [entry["value"] for entry in container["env"] if entry["name"] == "NUMBA_CACHE_DIR"]
    assert any(cache.startswith(mount["mountPath"] + "/") for mount in container["volumeMounts"])
    assert {mount["name"] for mount in container["volumeMounts"]} == {
        volume["name"] for volume in pod["volumes"]
    }
