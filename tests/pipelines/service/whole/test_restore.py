"""A service is backed up at work, destroyed, and restored in another folder, as docs/deployment.md says."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from starlette.testclient import TestClient

import pipelines
from helpers import wait_for
from pipelines.service import Store, create_app, load_settings
from pipelines.service.access.tokens import create_token
from pipelines.service.queue import runs
from pipelines.service.queue.claims import finish
from pipelines.service.store import runs as table

from ..helpers import ANN, BOB, NAME, claimed, spend_quarter, submitted

ROOT = Path(__file__).resolve().parents[4]
LEDGER = '\n[ledger]\nfile = "../ledger/agency.db"\ndata_set = "{}"\nepsilon = "100"\ndelta = "0.5"\n'
SERVICE = (
    'folder = "."\ncors_origins = []\n[inputs]\nsmall = "inputs/small.toml"\nother = "inputs/other.toml"\n'
)


def restoring_commands() -> str:
    """The commands of the document, which are for a service in /srv/odsynth."""
    text = (ROOT / "docs" / "deployment.md").read_text().replace("agency.sqlite", "agency.db")
    (found,) = re.findall(r"```sh\n([^`]*--extract[^`]*)```", text)
    return str(found)


def backed_up(folder: Path, backup: Path) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "examples" / "deploy" / "backup.sh", folder, backup]
    environment = {**os.environ, "PYTHON": sys.executable}
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_paths_in_the_folder_of_the_service_are_kept_relative(whole: Any) -> None:
    """Those elsewhere, as of the inputs here, are not."""
    kept = json.loads(runs.get_run(whole.app.state.store, 1).configuration)
    assert kept["release"]["out"] == "runs/run-000001"
    assert kept["ledger"]["file"] == str(whole.folder / "CANARYinputs" / "CANARYledger.sqlite")


def test_a_damaged_ledger_is_no_backup(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = folder / "a [ledger].db"
    budget = pipelines.Budget(Fraction(1), Fraction(1, 2))
    charge = pipelines.Charge("jobs", budget.epsilon, budget.delta, "0" * 64, "first")
    pipelines.Ledger(path).debit(charge, budget)
    with closing(sqlite3.connect(folder / "an input.sqlite")) as other:
        other.execute("CREATE TABLE jobs (home TEXT)")
    done = backed_up(folder, tmp_path / "good")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "good" / "databases" / "an input.sqlite").exists()
    pipelines.Ledger(tmp_path / "good" / "databases" / "a [ledger].db").verify()
    with tarfile.open(tmp_path / "good" / "files.tar") as files:
        assert files.getnames() == ["."]
    with closing(sqlite3.connect(path)) as ledger:
        for (trigger,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            ledger.execute(f'DROP TRIGGER "{trigger}"')
        ledger.execute("UPDATE spends SET epsilon = '1/2' WHERE kind = 'debit'")
        ledger.commit()
    assert backed_up(folder, tmp_path / "bad").returncode != 0
    path.write_bytes(b"SQLite format 3\0" + b"no database" * 1000)
    assert backed_up(folder, tmp_path / "worse").returncode != 0


@pytest.mark.slow
def test_a_restored_service_goes_on(
    config_text: Callable[..., str], small_release: pipelines.Release, tmp_path: Path
) -> None:
    folder = tmp_path / "srv" / "odsynth"
    for name in ("inputs", "ledger"):
        (folder / name).mkdir(parents=True)
    for name in ("small", "other"):
        (folder / "inputs" / f"{name}.toml").write_text(config_text() + LEDGER.format(name))
    (folder / "service.toml").write_text(SERVICE)
    settings = load_settings(folder / "service.toml", {})
    settings.make_folders()

    # One version published, a release approved, a run at work, one that waits, and what was paid.
    pipelines.publish(small_release.out, settings.releases, version="v1")
    pipelines.erratum(settings.releases, NAME, "v1", "Block 7 is in the wrong county.")
    store = Store.open(settings.database)
    approved = submitted(store, settings, ANN, "small", dry_run=False)
    work = claimed(store)
    shutil.copytree(small_release.out, settings.outs / f"run-{approved:06}")
    content = hashlib.sha256((small_release.public / "SHA256SUMS").read_bytes()).hexdigest()
    finish(store, work, certificate=(small_release.public / "certificate.json").read_text(), content=content)
    runs.decide(store, BOB, approved, "approved", content)
    at_work = submitted(store, settings, ANN, "other", dry_run=False)
    with store.write() as connection:  # as its worker left it
        past = {"state": "running", "lease": "x", "leased_until": "2020-01-01", "attempts": 1}
        connection.execute(update(table).where(table.c.id == at_work).values(past))
    planned = submitted(store, settings, ANN, "small")
    unfinished = settings.outs / f".run-{at_work:06}.unfinished" / "confidential"
    unfinished.mkdir(parents=True)
    (unfinished / "run.key").write_text("CANARYkey")
    plan = small_release.certificate.plan_sha256
    spend_quarter(folder / "ledger" / "agency.db", settings.inputs["small"], NAME, plan)
    secret, _ = create_token(store, "ann", "operator")

    backup = tmp_path / "backup"
    done = backed_up(folder, backup)
    assert done.returncode == 0, done.stderr
    store.close()
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    assert b"CANARYkey" not in b"".join(path.read_bytes() for path in backup.rglob("*") if path.is_file())
    assert backed_up(folder, backup).returncode != 0  # nothing is overwritten

    shutil.rmtree(folder)
    elsewhere = tmp_path / "new machine" / "odsynth"
    elsewhere.parent.mkdir()
    commands = (
        restoring_commands()
        .replace("/srv/odsynth", f"'{elsewhere}'")
        .replace("/backup/2026-11-21", f"'{backup}'")
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-eu", "-c", commands], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o700

    settings = load_settings(elsewhere / "service.toml", {})
    app = create_app(settings)
    store = app.state.store
    with TestClient(app) as client:  # and its worker
        wait_for(lambda: runs.counts(store) == {"published": 1, "finished": 1, "planned": 1})
        assert client.get("/ready").status_code == 200
        shown = client.get("/api/v1/releases").json()["releases"]
        who = client.get("/api/v1/operator/whoami", headers={"Authorization": f"Bearer {secret}"})
    assert who.json()["person"] == "ann"
    assert sorted(each["status"] for each in shown) == ["complete", "complete"]
    (corrected,) = [each for each in shown if each["version"] == "v1"]
    assert len(corrected["errata"]) == 1
    for each in shown:
        pipelines.verify(settings.releases / each["name"] / each["version"])
    pipelines.verify(settings.outs / f"run-{at_work:06}" / "public")
    assert not folder.exists()  # nothing was written where it was before
    ledger = pipelines.Ledger(elsewhere / "ledger" / "agency.db")
    ledger.verify()
    accounts = {account.data_set: (account.debits, account.unfinished) for account in ledger.accounts()}
    assert accounts == {"small": (1, 1), "other": (1, 0)}
    assert runs.get_run(store, planned).state == "planned"
