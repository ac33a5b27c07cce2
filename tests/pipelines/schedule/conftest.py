"""Calendars whose releases are made, and such whose releases are only paid for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers import with_values

from .helpers import Office, pay_only

# What takes most time of a small release and has nothing to do with calendars.
WITHOUT = {"auxiliary": [], "geography.polygons": []}
COMMAND = '[notify]\ncommand = ["sh", "-c", "cat >> told; echo >> told"]\n'


@pytest.fixture
def world(config_tables: dict[str, Any], small_region: dict[str, Path], tmp_path: Path) -> Office:
    """A calendar with real jobs and a large budget."""
    tables, jobs = with_values(config_tables, WITHOUT), small_region["od"].read_bytes()
    return Office(tmp_path, tables, jobs, epsilon="1000", delta="0.5")


@pytest.fixture
def paid_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are replaced by their debit."""
    pay_only(monkeypatch)


@pytest.fixture
def office(config_tables: dict[str, Any], tmp_path: Path, paid_only: None) -> Callable[..., Office]:
    """Return a calendar whose releases are only paid for, and that tells everything to a file."""

    def calendar(**ledger: Any) -> Office:
        made = Office(tmp_path / "office", config_tables, **ledger)
        made.write(calendar=COMMAND)
        return made

    return calendar
