"""Running a release calendar: once, in order, after downtime, kills, failures and beside another copy."""

from __future__ import annotations

import http.server
import json
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helpers import KILLED, LOADED, NOW, SCHEDULE, Said, has_ended, wait_for
from pipelines import published
from pipelines.release import certificate
from pipelines.release.provenance import source_state
from pipelines.release.signing import generate_keys, signature_in_words
from pipelines.running import run as runs
from pipelines.running.folder import RunFolder
from pipelines.running.witness import witness
from pipelines.schedule import due as due_module
from pipelines.schedule.due import due
from pipelines.schedule.notify import Notify, notify
from pipelines.schedule.summary import EXIT_BUSY, EXIT_FAILED
from synth import Cost

from .helpers import CANARY, Office, pay_only, statuses

ONE = SCHEDULE.replace("2022-01-01", "2024-01-01")  # only 2023 is due
FULL = OSError(28, "No space left on device")


@contextmanager
def failing(fault: BaseException, owner: object = runs, name: str = "write_public") -> Iterator[None]:
    """Make a function fail: the writing of a release that is drawn, or another."""

    def fail(*_: object, **__: object) -> None:
        raise fault

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, fail)
        yield


# --- once, in order, after downtime


def test_everything_missed_in_order_and_once(
    world: Office, capfd: pytest.CaptureFixture[str], said: Said
) -> None:
    summary = due(world.calendar, now=NOW)
    assert list(statuses(summary).items()) == [(f"ri-{year}", "finished") for year in (2021, 2022, 2023)]
    assert summary.exit_code == 0
    assert world.years() == ["2021", "2022", "2023"]
    assert world.paid() == (3, 0)
    releases = [entry.release for entry in world.book.entries() if entry.release]
    assert [name.partition(",")[0] for name in releases] == [f"Small region {y}" for y in (2021, 2022, 2023)]
    assert [line for line in said if line.endswith(": finished")] == [
        f"ri-{year}: finished" for year in (2021, 2022, 2023)
    ]
    out, err = capfd.readouterr()
    assert out == ""
    assert err == ""

    before = world.tree()
    again = due(world.calendar, now=NOW)
    assert (again.results, again.exit_code, again.text()) == ((), 0, "Nothing is due.")
    changed = {path for path, content in world.tree().items() if before.get(path) != content}
    assert changed <= {str(world.state / "lock")}

    assert world.record("ri-2021") == {
        "format": "odsynth occurrence 1",
        "name": "ri-2021",
        "due": "2022-02-01T06:00:00+00:00",
        "out": str(world.out / "2021"),
        "status": "finished",
        "attempts": 1,
        "time": "2024-06-01T12:00:00+00:00",
        "error": None,
        "published": None,
    }
    log = world.log("ri-2021")
    assert log[0]["message"] == "ri-2021, due 2022-02-01 06:00+00:00: attempt 1 of 3"
    assert any("Certifying" in line["message"] for line in log)
    assert stat.S_IMODE(world.state.stat().st_mode) == 0o700
    for path in world.state.iterdir():
        assert path.name == "lock" or path.is_dir() or stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(path.name for path in world.state.glob("*.plan")) == [
        f"ri-{y}.plan" for y in (2021, 2022, 2023)
    ]


def test_two_schedules_by_time_then_name(world: Office, paid_only: None) -> None:
    world.write(ri=ONE)
    world.write(aa=ONE.replace("out/", "out/aa"))
    assert list(statuses(due(world.calendar, now=NOW)).values()) == ["finished"] * 2
    releases = [entry.time for entry in world.book.entries() if entry.release]
    assert len(releases) == 2
    assert world.log("aa-2023")[-1]["time"] <= world.log("ri-2023")[0]["time"]
    assert world.years() == ["2023", "aa2023"]


def test_an_edited_hour_releases_nothing_twice(world: Office, paid_only: None) -> None:
    world.write(ri=ONE)
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}
    world.write(ri=ONE.replace("0 6 1 2", "30 7 * 2-5"))
    assert due(world.calendar, now=NOW).results == ()
    assert world.paid() == (1, 0)


def test_a_lost_record_releases_nothing_twice(world: Office, paid_only: None) -> None:
    world.write(ri=ONE)
    due(world.calendar, now=NOW)
    before = world.tree()
    (world.state / "ri-2023.json").unlink()
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}
    assert world.paid() == (1, 0)
    after = world.tree()
    assert all(after[path] == content for path, content in before.items() if str(world.out) in path)


def test_a_release_of_something_else_is_in_the_way(world: Office) -> None:
    world.write(ri=ONE)
    due(world.calendar, now=NOW)
    (world.state / "ri-2023.json").unlink()
    world.edit_base('state = "demo"', 'state = "other"')
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "failed"}
    assert "the output folder exists" in summary.results[0].detail
    assert world.paid() == (1, 0)


def test_two_schedules_may_not_share_a_folder(world: Office, paid_only: None) -> None:
    world.write(ri=ONE, zz=ONE)
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "finished", "zz-2023": "failed"}
    assert "is the output folder of ri-2023 too" in summary.results[1].detail
    (world.calendar / "ri.toml").unlink()  # renamed to zz, as it were
    assert statuses(due(world.calendar, now=NOW)) == {"zz-2023": "failed"}
    assert world.paid() == (1, 0)


def test_the_clock_went_back(world: Office, paid_only: None) -> None:
    world.write(ri=ONE)
    due(world.calendar, now=NOW)
    world.write(ri=SCHEDULE)
    summary = due(world.calendar, now=NOW.replace(month=5))
    assert (summary.results, summary.exit_code) == ((), EXIT_FAILED)
    assert "the clock says 2024-05-01T12:00:00+00:00, before the last attempt" in summary.problems[0]
    assert world.years() == ["2023"]


# --- what cannot go on


def test_waiting_for_inputs(world: Office, paid_only: None) -> None:
    """Not a failure, no attempt; what comes after it in the same file waits, what is in another does not."""
    (world.folder / "jobs" / "2022.csv.gz").unlink()
    world.write(ri="wait_days = 1000\n" + SCHEDULE, zz=ONE.replace("out/", "out/zz"))
    for _ in range(5):
        summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2022": "waiting", "ri-2023": "behind"}
    assert (summary.exit_code, summary.results[0].attempts) == (0, 0)
    assert "jobs/2022.csv.gz" in summary.results[0].detail
    assert summary.results[1].detail == "after ri-2022"
    assert world.years() == ["2021", "zz2023"]
    assert not (world.state / "ri-2022.json").exists()
    world.deliver(2022)
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2022": "finished", "ri-2023": "finished"}
    assert world.paid() == (4, 0)


def test_waiting_for_every_public_file(config_tables: dict[str, Any], tmp_path: Path) -> None:
    """Shapes for maps, too: a run would refuse to begin without them."""
    world = Office(tmp_path, config_tables)
    world.write(ri="wait_days = 1000\n" + ONE)
    for name in ("demo_tracts.geojson", "demo_population.csv"):
        world.edit_base(name, f"later-{name}")
        (result,) = due(world.calendar, now=NOW).results
        assert (result.status, f"later-{name}" in result.detail) == ("waiting", True), name
        world.edit_base(f"later-{name}", name)


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_failures_are_tried_three_times(world: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    world.spoil(2021)
    for attempt in (1, 2, 3):
        summary = due(world.calendar, now=NOW)
        assert statuses(summary) == {"ri-2021": "failed", "ri-2022": "behind", "ri-2023": "behind"}
        failed = summary.results[0]
        assert (failed.attempts, failed.error, summary.exit_code) == (attempt, "InputError", EXIT_FAILED)
        last = world.log("ri-2021", attempt)[-1]
        assert last["error"] == "InputError"
        assert last["message"] in summary.text() or last["message"].split(": ", 2)[2] in summary.text()
        assert world.record("ri-2021")["status"] == "failed"
    for _ in range(2):
        summary = due(world.calendar, now=NOW)
        assert statuses(summary) == {"ri-2021": "given up", "ri-2022": "behind", "ri-2023": "behind"}
        assert (summary.exit_code, summary.results[0].error) == (EXIT_FAILED, "InputError")
    assert not (world.state / "ri-2021.attempt-4.jsonl").exists()
    assert CANARY.encode() not in contents(world.state)
    assert CANARY not in summary.text() + json.dumps(summary.document())

    world.deliver(2021)
    (world.state / "ri-2021.json").unlink()  # somebody has looked at it
    pay_only(monkeypatch)
    assert list(statuses(due(world.calendar, now=NOW)).values()) == ["finished"] * 3
    assert world.paid() == (3, 0)


def test_the_message_of_an_unforeseen_error_is_withheld(world: Office, said: Said) -> None:
    with failing(RuntimeError(CANARY), due_module, "make_release"):
        summary = due(world.calendar, now=NOW)
    assert (summary.results[0].status, summary.results[0].error) == ("failed", "RuntimeError")
    everything = summary.text() + json.dumps(summary.document()) + "".join(said)
    assert CANARY.encode() not in everything.encode() + contents(world.state)


def test_a_disk_that_is_full_is_named(world: Office) -> None:
    with failing(FULL, due_module, "make_release"):
        assert "OSError: No space left on device" in due(world.calendar, now=NOW).text()


def test_attempts_can_be_configured(world: Office) -> None:
    world.write(calendar='[calendar]\nattempts = 1\nrecords = "../records"\n')
    world.spoil(2021)
    assert statuses(due(world.calendar, now=NOW))["ri-2021"] == "failed"
    assert statuses(due(world.calendar, now=NOW))["ri-2021"] == "given up"
    assert not world.state.exists()
    assert (world.folder / "records" / "ri-2021.json").exists()


def test_a_calendar_may_name_a_cluster(world: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    for name in ("plan", "make_release"):
        monkeypatch.setattr(due_module, name, lambda *_, scheduler, **__: asked.append(scheduler))
    world.write(calendar='[calendar]\nscheduler = "tcp://10.0.0.1:8786"\n', ri=ONE)
    due(world.calendar, now=NOW)
    assert asked == ["tcp://10.0.0.1:8786"] * 2


def test_a_failure_after_the_debit_costs_nothing_more(world: Office) -> None:
    world.write(ri=ONE)

    with failing(FULL):
        assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "failed"}
    assert world.paid() == (1, 1)
    assert RunFolder.of(world.out / "2023").begun
    ahead = due(world.calendar, now=NOW, dry_run=True).outlook
    assert ahead is not None
    assert ahead.costs[0].cost == Cost.of_all(())
    assert ahead.costs[0].spent == world.book.spent("jobs")
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "finished"}
    assert summary.results[0].attempts == 2
    assert world.paid() == (1, 0)


def test_what_was_begun_elsewhere_is_not_begun_anew(world: Office) -> None:
    world.write(ri=ONE)
    with failing(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        due(world.calendar, now=NOW)
    world.write(ri=ONE.replace("out/{", "out/new{"))
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "failed"}
    assert f"was begun in {world.out / '2023'}" in summary.results[0].detail
    assert world.paid() == (1, 1)
    world.write(ri=ONE)
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}
    assert world.paid() == (1, 0)


def test_an_unfinished_run_of_something_else_is_in_the_way(world: Office) -> None:
    world.write(ri=ONE)
    with failing(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        due(world.calendar, now=NOW)
    world.edit_base('state = "demo"', 'state = "other"')
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "failed"}
    assert "an unfinished run of this release is there" in summary.results[0].detail
    world.edit_base('state = "other"', 'state = "demo"')
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}
    assert world.paid() == (1, 0)


def test_a_bad_file_does_not_stop_the_others(world: Office, paid_only: None) -> None:
    world.write(bad=SCHEDULE.replace("0 6 1 2 *", "0 6 1 13 *"), ri=ONE)
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "finished"}
    assert summary.exit_code == EXIT_FAILED
    assert len(summary.problems) == 1
    assert summary.problems[0].startswith("bad.toml: cron: ")


RECORD = {
    "format": "odsynth occurrence 1",
    "name": "ri-2021",
    "due": "2022-02-01T06:00:00+00:00",
    "out": "out",
    "status": "begun",
    "attempts": 1,
    "time": "2024-06-01T12:00:00+00:00",
}


def test_a_damaged_record_is_reported_and_not_guessed(world: Office) -> None:
    world.state.mkdir()
    path = world.state / "ri-2021.json"
    wrong = ({"attempts": "1"}, {"time": None}, {"time": "noon"})
    texts = ["{", "[]", '{"format": "odsynth occurrence 2"}', "\xff", "[" * 100_000]
    for content in [*texts, *(json.dumps(RECORD | part) for part in wrong)]:
        path.write_bytes(content.encode("latin-1"))
        summary = due(world.calendar, now=NOW)
        assert statuses(summary) == {"ri-2021": "failed", "ri-2022": "behind", "ri-2023": "behind"}
        assert "ri-2021.json: the record cannot be read" in summary.problems[0]
        assert world.years() == []
        assert path.read_bytes() == content.encode("latin-1")


def test_a_log_that_cannot_be_written_stops_its_schedule_only(world: Office, paid_only: None) -> None:
    world.write(
        calendar='[notify]\ncommand = ["touch", "told"]\n',
        zz=ONE.replace("out/", "out/zz"),
    )
    log = world.state / "ri-2021.attempt-1.jsonl"
    log.mkdir(parents=True)
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {
        "ri-2021": "failed",
        "ri-2022": "behind",
        "ri-2023": "behind",
        "zz-2023": "finished",
    }
    assert summary.exit_code == EXIT_FAILED
    assert str(log) in summary.text()
    assert (world.calendar / "told").exists()
    assert world.years() == ["zz2023"]


def test_a_folder_of_records_that_cannot_be_made_is_told(world: Office) -> None:
    world.write(calendar='[notify]\ncommand = ["touch", "told"]\n')
    world.state.write_text("in the way")
    summary = due(world.calendar, now=NOW)
    assert (summary.results, summary.exit_code) == ((), EXIT_FAILED)
    assert summary.problems == (f"{world.state}: File exists; nothing was begun",)
    assert (world.calendar / "told").exists()
    assert world.years() == []


# --- publishing


def test_publishing(world: Office, clean_source: object, said: Said) -> None:
    world.write(ri='publish = "../published"\n' + ONE)
    (world.folder / "published").write_text("in the way")
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "failed"}
    assert summary.results[0].error == "PublishError"
    assert world.years() == ["2023"]
    (world.folder / "published").unlink()
    summary = due(world.calendar, now=NOW)
    assert statuses(summary) == {"ri-2023": "finished"}
    assert f"WARNING: {signature_in_words(signed=False)}" in summary.text()
    assert f"WARNING: {signature_in_words(signed=False)}" in said
    (version,) = published(world.folder / "published")
    assert (version.status, version.location) == ("complete", world.record("ri-2023")["published"])
    assert world.paid() == (1, 0)


def test_with_a_signer_only_what_it_signed_is_published(world: Office, clean_source: object) -> None:
    """Refused before anything is planned or paid; no attempt is counted."""
    for name in ("ours", "theirs"):
        generate_keys(world.folder / name)
    world.write(calendar='[calendar]\nsigner = "../ours/signing-key.pub"\n')
    text = 'publish = "../published"\n' + ONE
    world.write(ri=text)
    summary = due(world.calendar, now=NOW)
    assert "only signed releases are published here; add [signature]" in summary.text()
    assert (world.years(), list(world.state.glob("*.json"))) == ([], [])
    assert not (world.folder / "published").exists()
    for name, status in (("theirs", "failed"), ("ours", "finished")):
        key = f'"signature.key" = "{world.folder / name / "signing-key.pem"}"\n'
        world.write(ri=text + key)
        shutil.rmtree(world.out, ignore_errors=True)
        shutil.rmtree(world.state, ignore_errors=True)
        summary = due(world.calendar, now=NOW)
        assert statuses(summary) == {"ri-2023": status}, summary.text()
        assert signature_in_words(signed=False) not in summary.text()
        assert bool(list((world.folder / "published").glob("*"))) == (name == "ours")


def test_a_witness_who_has_not_signed_is_waited_for(world: Office, clean_source: object) -> None:
    """However often it is called, no attempt is counted; once there is the statement it is published."""
    private, public = generate_keys(world.folder / "ann")
    required = f'"witness.key" = "{public}"\n"witness.required" = true\n'
    world.write(calendar="[calendar]\nattempts = 1\n", ri='publish = "../published"\n' + ONE + required)
    for _ in range(2):
        assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "waiting"}
        assert not (world.folder / "published").exists()
    witness(world.out / "2023", private)
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}
    assert [version.status for version in published(world.folder / "published")] == ["complete"]
    assert world.paid() == (1, 0)


def test_what_is_not_for_release_is_said_and_not_published(
    world: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    dirty = replace(source_state(), commit=None)
    monkeypatch.setattr(certificate, "source_state", lambda: dirty)
    world.write(ri=ONE)
    assert "(not for release)" in due(world.calendar, now=NOW).text()
    (world.state / "ri-2023.json").unlink()
    world.write(ri='publish = "../published"\n' + ONE)
    summary = due(world.calendar, now=NOW)
    assert (summary.results[0].status, summary.results[0].error) == ("failed", "VerificationError")
    assert not (world.folder / "published").exists()


# --- a dry run


def test_a_dry_run_writes_nothing(world: Office) -> None:
    world.write(calendar='[notify]\non = "always"\ncommand = ["touch", "told"]\n')
    world.write(ri="wait_days = 1000\n" + SCHEDULE)
    (world.folder / "jobs" / "2023.csv.gz").unlink()
    world.spoil(2021)  # is not looked at
    before = world.tree()
    summary = due(world.calendar, now=NOW, dry_run=True)
    assert world.tree() == before
    assert statuses(summary) == {"ri-2021": "due", "ri-2022": "due", "ri-2023": "waiting"}
    assert summary.exit_code == 0
    assert summary.text().splitlines()[0] == (
        f"due       ri-2021, due 2022-02-01 06:00+00:00: writes {world.out / '2021'}"
    )
    world.deliver(2021)
    with failing(KeyboardInterrupt()), pytest.raises(KeyboardInterrupt):
        due(world.calendar, now=NOW)
    before = world.tree()
    with failing(KeyboardInterrupt(), RunFolder, "load"):  # confidential
        summary = due(world.calendar, now=NOW, dry_run=True)
    assert (summary.results[0].status, summary.results[0].detail) == (
        "due",
        f"goes on with {world.out / '2021'}",
    )
    assert world.tree() == before


# --- kills and copies

BASE = LOADED.format(config='Path(sys.argv[1]).with_name("base.toml")')
SCRIPT = f"""{KILLED}
import sys
from datetime import datetime
from pipelines.schedule.due import due
{BASE}
pipelines.running.report.draw_cells = lambda _, path: path.write_bytes(b"no picture")  # as in these tests

folder, *moments = sys.argv[1:]
for moment in moments:  # a fork for each call
    if os.fork() == 0:
        if moment != "none":
            arm(moment)
        summary = due(folder, now=datetime.fromisoformat("2024-06-01T12:00:00+00:00"))
        os._exit(summary.exit_code)
    status = os.wait()[1]
    print("killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status), flush=True)
"""
MOMENTS = [
    "after:schedule.due.Records.save",
    "before:schedule.due.make_release",
    "before:running.run.keep_homes",
    "after:ledger.ledger.Ledger.debit",
    "after:running.batches.sample_batch",
    "before:running.run.write_public",
    "before:Path.rename",
    "after:Path.rename",
    "after:schedule.due.make_release",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [MOMENTS[0], *(pytest.param(moment, marks=pytest.mark.deep) for moment in MOMENTS[1:])],
)
def test_killed_in_the_middle_and_gone_on(world: Office, moment: str) -> None:
    """Killed in the first of two releases, at a step of it; the next call ends it and makes the other."""
    world.write(calendar="[calendar]\nattempts = 2\n", ri=SCHEDULE.replace("2022-01-01", "2023-01-01"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(world.calendar), moment, "none", "none"],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["killed", "0", "0"], done.stderr
    assert world.years() == ["2022", "2023"]
    assert not list(world.out.glob(".*"))
    assert world.paid() == (2, 0)  # one debit for each, and each is finished
    world.book.verify()
    records = [world.record(f"ri-{year}") for year in (2022, 2023)]
    assert [(record["attempts"], record["status"]) for record in records] == [
        (2, "finished"),
        (1, "finished"),
    ]


def test_interrupted_every_time_is_given_up(world: Office) -> None:
    for _ in range(3):
        with failing(KeyboardInterrupt(), due_module, "make_release"), pytest.raises(KeyboardInterrupt):
            due(world.calendar, now=NOW)
    assert world.log("ri-2021", 3)[-1]["message"] == "ri-2021: stopped by SIGINT"
    summary = due(world.calendar, now=NOW)
    assert (summary.results[0].status, summary.results[0].error) == ("given up", "interrupted")


def test_a_second_copy_is_locked_out(world: Office, paid_only: None) -> None:
    """While one is at work, another does nothing and says so; when it was killed, the lock is free."""
    world.write(calendar='[notify]\non = "always"\ncommand = ["touch", "told"]\n', ri=ONE)
    script = (
        "import sys, time; from pipelines.schedule.due import due\n"
        "work = lambda *_, **__: (print('at work', flush=True), time.sleep(600))\n"
        "sys.modules['pipelines.schedule.due'].make_release = work\n"
        "due(sys.argv[1])\n"
    )
    first = subprocess.Popen([sys.executable, "-c", script, str(world.calendar)], stdout=subprocess.PIPE)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"at work\n"
        before = world.tree()
        summary = due(world.calendar)
        assert (summary.busy, summary.exit_code, summary.results) == (True, EXIT_BUSY, ())
        assert "Another odsynth due is at work" in summary.text()
        after = world.tree()
        assert {path for path in after if before.get(path) != after[path]} <= {str(world.state / "lock")}
    finally:
        first.kill()
        first.communicate()
    for record in world.state.glob("*.json"):  # of today
        record.unlink()
    assert statuses(due(world.calendar, now=NOW)) == {"ri-2023": "finished"}


@pytest.mark.slow
def test_copies_at_once(world: Office) -> None:
    world.write(ri=ONE)
    script = (
        "import os, sys; from datetime import *; from pathlib import Path\n"
        f"from pipelines.schedule.due import due\n{BASE}"
        "pipelines.running.report.draw_cells = lambda _, path: path.write_bytes(b'no picture')\n"  # as here
        "children = []\n"
        "ready, go = os.pipe()\n"
        "for _ in range(3):\n"
        "    if (child := os.fork()) == 0:\n"
        "        os.close(go)\n"
        "        os.read(ready, 1)\n"  # all have started; now all begin
        "        summary = due(sys.argv[1], now=datetime(2024, 6, 1, 12, tzinfo=UTC))\n"
        "        os._exit(summary.exit_code)\n"
        "    children.append(child)\n"
        "os.close(go)\n"
        "print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(world.calendar)], capture_output=True, text=True)
    codes = {int(code) for code in done.stdout.split()}
    assert codes <= {0, EXIT_BUSY}, done.stderr
    assert 0 in codes
    assert world.paid() == (1, 0)
    assert world.record("ri-2023")["attempts"] == 1


# --- notifications


class Server(http.server.ThreadingHTTPServer):
    """Answers with a code, or not at all; keeps what it was sent."""

    daemon_threads = True

    def __init__(self, code: int) -> None:
        self.code, self.got, self.over = code, [], threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)

    got: list[tuple[str, str, bytes]]


SLOW = -1  # in place of a code: the answer comes byte by byte, without end


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], body))
        if self.server.code == 0:
            self.server.over.wait(30)
            return
        if self.server.code == SLOW:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.server.over.wait(0.1):
                self.wfile.write(b"X")
            return
        self.send_response(self.server.code)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@contextmanager
def server(code: int) -> Iterator[tuple[Server, str]]:
    with Server(code) as it:
        thread = threading.Thread(target=it.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield it, f"http://127.0.0.1:{it.server_address[1]}/hook/secret-token"
        finally:
            it.over.set()
            it.shutdown()
            thread.join()


def test_who_is_told_of_a_failure(world: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    world.spoil(2021)
    with server(200) as (it, address):
        command = '["sh", "-c", "cat > ../told.json"]'
        world.write(calendar=f'[notify]\ncommand = {command}\nwebhook = "{address}"\n')
        summary = due(world.calendar, now=NOW)
        assert summary.notices == ()
        ((path, kind, body),) = it.got
        assert (path, kind) == ("/hook/secret-token", "application/json")
        assert body == (world.folder / "told.json").read_bytes()
        document = json.loads(body)
        assert document["text"] == ("odsynth due calendar: 1 failed (ri-2021), 2 behind (ri-2022, ri-2023)")
        assert document["failed"] is True
        assert document["occurrences"][0] == {
            "name": "ri-2021",
            "due": "2022-02-01T06:00:00+00:00",
            "status": "failed",
            "error": "InputError",
            "attempts": 1,
        }
        assert str(world.folder) not in body.decode()
        assert CANARY not in body.decode()

        world.deliver(2021)
        pay_only(monkeypatch)
        due(world.calendar, now=NOW)  # all is well: nobody is told
        assert len(it.got) == 1
        world.write(calendar=f'[notify]\nwebhook = "{address}"\non = "always"\n')
        due(world.calendar, now=NOW)
        assert json.loads(it.got[1][2])["text"] == "odsynth due calendar: nothing is due"


@pytest.mark.parametrize(
    ("code", "timeout", "notice"),
    [
        (500, 60, "the server answered 500"),
        (302, 60, "the server answered 302"),
        (0, 1, "no answer within 1 s"),
        (SLOW, 1, "no answer within 1 s"),
    ],
)
def test_a_webhook_that_does_not_work_changes_nothing(
    world: Office, paid_only: None, code: int, timeout: int, notice: str
) -> None:
    world.write(ri=ONE)
    with server(code) as (it, address):
        world.write(calendar=f'[notify]\nwebhook = "{address}"\non = "always"\ntimeout = {timeout}\n')
        summary = due(world.calendar, now=NOW)
        wait_for(lambda: it.got)  # in time or later
        assert len(it.got) == 1
    assert summary.notices == (f"notify.webhook: {notice}",)
    assert (statuses(summary), summary.exit_code) == ({"ri-2023": "finished"}, 0)
    assert "secret-token" not in summary.text()
    assert "notice    notify.webhook" in summary.text()


def test_no_server(tmp_path: Path) -> None:
    with server(200) as (_, address):
        pass
    (notice,) = notify(Notify(webhook=address), {}, tmp_path)
    assert notice == "notify.webhook: the server cannot be reached (ConnectionRefusedError)"


def test_commands_that_do_not_work(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*command: str, timeout: int = 60) -> tuple[str, ...]:
        return notify(Notify(command=list(command), timeout=timeout), {"text": "x" * 1_000_000}, tmp_path)

    assert told("true") == ()  # does not read what it is told
    assert told("sh", "-c", "echo loud; echo loud >&2; cat > told") == ()
    assert json.loads((tmp_path / "told").read_text())["text"][0] == "x"
    assert told("no-such-program") == (
        "notify.command: no-such-program cannot be run: No such file or directory",
    )
    assert told("sh", "-c", "exit 3") == ("notify.command: sh ended with code 3",)
    child, communicate = tmp_path / "child", subprocess.Popen.communicate

    def with_child(process: subprocess.Popen[bytes], *given: Any, **named: Any) -> object:
        wait_for(lambda: child.exists() and child.read_text().endswith("\n"))
        return communicate(process, *given, **named)

    monkeypatch.setattr(subprocess.Popen, "communicate", with_child)  # else its time may end before it begins
    assert told("sh", "-c", "sleep 600 & echo $! > child; wait", timeout=1) == (
        "notify.command: sh was stopped after 1 s",
    )
    wait_for(lambda: has_ended(int(child.read_text())))
    assert capfd.readouterr() == ("", "")
