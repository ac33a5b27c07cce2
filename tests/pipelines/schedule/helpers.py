"""A calendar with inputs and a ledger; and a stand-in for runs, which pays and makes a folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomlkit

from helpers import SCHEDULE, with_values
from pipelines.config.loading import ReleaseConfig
from pipelines.ledger.chain import LedgerError
from pipelines.ledger.ledger import Charge, Ledger
from pipelines.running.payment import budgets_in
from pipelines.schedule import due as due_module
from pipelines.schedule.summary import Summary
from synth.rationals import decimal_up, exact

FIT = SimpleNamespace(certificate=SimpleNamespace(for_release=True))
CANARY = "CANARY440070001"


class Office:
    """A calendar of years from 2021, its inputs, a ledger, and what comes out."""

    def __init__(
        self, folder: Path, tables: dict[str, Any], jobs: bytes = b"confidential", **ledger: Any
    ) -> None:
        self.folder, self.calendar, self.out = folder, folder / "calendar", folder / "out"
        self.state, self.jobs = self.calendar / "state", jobs
        self.book = Ledger(folder / "ledger.sqlite")
        for made in (self.calendar, folder / "jobs"):
            made.mkdir(parents=True)
        table = {"file": "ledger.sqlite", "data_set": "jobs", "epsilon": "8", "delta": "1e-5"} | ledger
        changed = with_values(
            tables, {"privacy": {"protects": "home", "epsilon": "8", "delta": "1e-5"}, "ledger": table}
        )
        (folder / "base.toml").write_text(tomlkit.dumps(changed))
        self.write(ri=SCHEDULE)
        self.deliver(2021, 2022, 2023)

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.calendar / f"{name}.toml").write_text(text)

    def edit_base(self, old: str, new: str) -> None:
        path = self.folder / "base.toml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    def budget(self, **ledger: str) -> None:
        """Change keys of [ledger]."""
        path = self.folder / "base.toml"
        tables = tomlkit.parse(path.read_text()).unwrap()
        tables["ledger"] |= ledger
        path.write_text(tomlkit.dumps(tables))

    def deliver(self, *periods: object, content: bytes | None = None) -> None:
        """Put the inputs of periods in place."""
        for period in periods:
            path = self.folder / "jobs" / f"{period}.csv.gz"
            path.write_bytes(self.jobs if content is None else content)
            path.chmod(0o600)

    def spoil(self, period: int) -> None:
        """Put an input in place that cannot be used and says something confidential."""
        self.deliver(period, content=f"{CANARY},{CANARY}\n{CANARY}\n".encode())

    def record(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.state / f"{name}.json").read_text()))

    def log(self, name: str, attempt: int = 1) -> list[dict[str, str]]:
        lines = (self.state / f"{name}.attempt-{attempt}.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def told(self) -> list[dict[str, Any]]:
        path = self.calendar / "told"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def years(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir()) if self.out.exists() else []

    def paid(self) -> tuple[int, int]:
        """Debits, and how many of them are for releases that have not finished."""
        (account,) = self.book.accounts()
        return account.debits, account.unfinished

    def debits(self) -> list[str]:
        """Names of the releases that were paid."""
        entries = self.book.entries() if self.book.path.exists() else []
        return [(entry.release or "").partition(",")[0] for entry in entries if entry.kind == "debit"]

    def tree(self) -> dict[str, tuple[int, int, bytes]]:
        """Everything there, with modes, times of change and content."""
        return {
            str(path): (
                path.stat().st_mode,
                path.stat().st_mtime_ns,
                path.read_bytes() if path.is_file() else b"",
            )
            for path in self.folder.rglob("*")
        }


def release(
    config: ReleaseConfig,
    *,
    plan: Path,
    moment: Callable[[str], None] = lambda _: None,
    now: datetime | None = None,
    **_: object,
) -> None:
    """Pay for a release as a run does, and make its folder; a second call goes on where the first stopped."""
    out, settings = config.release.out, config.ledger
    staging = out.parent / f".{out.name}.unfinished"
    state = staging / "confidential" / "state.json"
    if (out / "confidential" / "run.json").exists():
        return
    assert settings is not None
    state.parent.mkdir(parents=True, exist_ok=True)
    state.touch()
    moment("before the debit")
    number = hashlib.sha256(str(out).encode()).hexdigest()[:16]
    name, book = f"{config.release.name}, run {number}", Ledger(settings.file)
    if not (settings.file.exists() and any(entry.release == name for entry in book.entries())):
        try:
            epsilon, delta = (exact(decimal_up(x)) for x in (config.privacy.epsilon, config.privacy.delta))
            charge = Charge(settings.data_set, epsilon, delta, "0" * 64, name)
            book.debit(charge, *budgets_in(settings), now=now)
        except LedgerError:
            shutil.rmtree(staging)
            raise
    moment("after the debit")
    (paid,) = (entry for entry in book.entries() if entry.kind == "debit" and entry.release == name)
    book.outcome(paid.hash, "finished", now=now)
    state.with_name("run.json").touch()
    state.unlink()
    staging.rename(out)
    moment("after the release")


def pay_only(patch: pytest.MonkeyPatch) -> None:
    """Replace planning by nothing, and runs by their debit."""
    patch.setattr(due_module, "make_release", release)
    patch.setattr(due_module, "plan", lambda *_, **__: None)
    patch.setattr(due_module.RunFolder, "load", lambda _: FIT)


def statuses(summary: Summary) -> dict[str, str]:
    return {result.name: result.status for result in summary.results}
