"""The release calendar in the service: what is due becomes a run, once, in order, and waits for approval."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

import pipelines
from helpers import NOW, SCHEDULE
from pipelines.service.queue import runs as life
from pipelines.service.queue.claims import finish
from pipelines.service.queue.schedules import read_agenda, submit_due
from pipelines.service.queue.workers import Workers
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError, Store, list_audit, runs

from ..helpers import BOB, FIT, claimed

LEDGER = '\n[ledger]\nfile = "ledger.sqlite"\ndata_set = "jobs"\nepsilon = "100"\ndelta = "0.5"\n'


@pytest.fixture
def planned(
    world: Any, config_text: Callable[..., str], small_region: dict[str, Path], tmp_path: Path
) -> ServiceSettings:
    """Settings with a calendar of two schedules, one of which cannot be paid."""
    folder = tmp_path / "calendar"
    folder.mkdir()
    (tmp_path / "jobs").mkdir()
    for year in (2021, 2022, 2023):
        (tmp_path / "jobs" / f"{year}.csv.gz").write_bytes(small_region["od"].read_bytes())
    (tmp_path / "base.toml").write_text(config_text() + LEDGER)
    (tmp_path / "unpaid.toml").write_text(config_text())
    (folder / "ri.toml").write_text(SCHEDULE)
    (folder / "free.toml").write_text(SCHEDULE.replace("base.toml", "unpaid.toml").replace("out/", "free/"))
    settings: ServiceSettings = world.settings.model_copy(update={"calendar": folder})
    return settings


def statuses(store: Store, settings: ServiceSettings, schedule: str = "ri") -> list[str]:
    return [each.status for each in read_agenda(store, settings, NOW).due if each.schedule == schedule]


def done(store: Store, run: int) -> None:
    work = claimed(store)
    assert (work.id, work.task) == (run, "release")
    assert finish(store, work, certificate=FIT, content="c" * 64)


def test_what_is_due_is_submitted_once_and_in_order(store: Store, planned: ServiceSettings) -> None:
    assert statuses(store, planned) == ["due"] * 3
    (first,) = submit_due(store, planned, NOW)
    row = life.get_run(store, first)
    assert (row.input, row.state, row.submitted_by) == ("ri-2021", "queued", "calendar")
    assert json.loads(row.configuration)["release"]["name"] == "Small region 2021"
    assert json.loads(row.configuration)["release"]["out"].endswith("/out/2021")  # as odsynth due would
    for _ in range(2):
        assert submit_due(store, planned, NOW) == []
    assert statuses(store, planned) == ["queued", "due", "due"]
    done(store, first)
    (second,) = submit_due(store, planned, NOW)
    assert life.get_run(store, second).input == "ri-2022"
    assert statuses(store, planned) == ["finished", "queued", "due"]
    assert [act.actor for act in list_audit(store) if act.action == "submitted"] == ["calendar"] * 2


def test_a_failed_release_keeps_the_later_ones_waiting(store: Store, planned: ServiceSettings) -> None:
    submit_due(store, planned, NOW)
    with store.write() as connection:
        connection.execute(update(runs).values(state="failed"))
    assert submit_due(store, planned, NOW) == []
    assert statuses(store, planned) == ["failed", "due", "due"]


def test_inputs_that_are_missing_are_waited_for(
    store: Store, planned: ServiceSettings, tmp_path: Path
) -> None:
    path, schedule = tmp_path / "jobs" / "2021.csv.gz", tmp_path / "calendar" / "ri.toml"
    content = path.read_bytes()
    path.unlink()
    schedule.write_text("wait_days = 1000\n" + SCHEDULE)
    assert submit_due(store, planned, NOW) == []
    assert statuses(store, planned)[0] == "waiting"
    schedule.write_text(SCHEDULE)  # 30 days: later periods do not wait for it
    (later,) = submit_due(store, planned, NOW)
    assert statuses(store, planned) == ["overdue", "queued", "due"]
    assert life.get_run(store, later).input == "ri-2022"
    path.write_bytes(content)
    assert len(submit_due(store, planned, NOW)) == 1


def test_a_calendar_that_would_publish_is_refused(
    store: Store, planned: ServiceSettings, caplog: pytest.LogCaptureFixture
) -> None:
    """The command would publish what was rejected here."""
    assert planned.calendar is not None
    path = planned.calendar / "ri.toml"
    path.write_text(path.read_text().replace("[set]", 'publish = "elsewhere"\n\n[set]'))
    for ask in (read_agenda, submit_due):
        with pytest.raises(ServiceError, match="ri has publish, so odsynth due would publish") as refused:
            ask(store, planned, NOW)
        assert refused.value.status == 503
    assert life.list_runs(store) == []
    workers = Workers(planned, store)
    with workers._outliving_errors("the release calendar"):
        submit_due(store, planned)
    assert "ri has publish" in caplog.text


def test_the_command_does_not_publish_what_was_rejected(
    store: Store,
    planned: ServiceSettings,
    small_release: pipelines.Release,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (run,) = submit_due(store, planned, NOW)
    done(store, run)
    life.decide(store, BOB, run, "rejected", "c" * 64)
    shutil.copytree(small_release.out, tmp_path / "out" / "2021")
    module = import_module("pipelines.schedule.due")
    monkeypatch.setattr(module, "make_release", lambda *_, **__: None)  # it finds it made already
    published: list[object] = []
    monkeypatch.setattr(module, "publish", lambda *_, **__: published.append(1))
    assert planned.calendar is not None
    (planned.calendar / "free.toml").unlink()
    summary = pipelines.due(planned.calendar, now=NOW.replace(year=2022))
    assert [(each.name, each.status) for each in summary.results] == [("ri-2021", "finished")]
    assert not published
    assert life.get_run(store, run).state == "rejected"


def test_what_has_no_ledger_is_not_submitted_and_says_so(
    store: Store, planned: ServiceSettings, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    assert statuses(store, planned, "free") == ["failed", "behind", "behind"]  # it has the jobs of ri
    assert planned.calendar is not None
    path = planned.calendar / "free.toml"
    path.write_text(path.read_text().replace("jobs/", "others/"))
    shutil.copytree(tmp_path / "jobs", tmp_path / "others")
    assert len(submit_due(store, planned, NOW)) == 1  # of the other schedule
    assert "free-2021 is due and cannot be submitted: no_ledger" in caplog.text
    assert statuses(store, planned, "free") == ["due"] * 3


def test_the_agenda_says_what_is_coming(store: Store, planned: ServiceSettings) -> None:
    agenda = read_agenda(store, planned, NOW)
    assert [f"{each.name} {each.at[:4]}" for each in agenda.coming] == ["free-2024 2025", "ri-2024 2025"]
    assert agenda.problems == 0
    assert planned.calendar is not None
    (planned.calendar / "broken.toml").write_text("cron = 1")
    assert read_agenda(store, planned, NOW).problems > 0


def test_a_calendar_that_cannot_be_read_is_named_without_its_path(
    store: Store, planned: ServiceSettings, tmp_path: Path
) -> None:
    settings = planned.model_copy(update={"calendar": tmp_path / "CANARYempty"})
    with pytest.raises(ServiceError, match="calendar cannot be read") as refused:
        read_agenda(store, settings, NOW)
    assert refused.value.status == 503
    assert "CANARY" not in str(refused.value)
