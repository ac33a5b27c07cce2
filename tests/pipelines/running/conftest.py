"""Releases of the small region that a ledger pays for, and one that is always the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import pipelines
from helpers import freeze

from .helpers import Configs, seeded


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def paid_config(small_config: Configs, book: Path) -> Configs:
    """Return the configuration of a release that a budget of epsilon 20 pays for."""
    ledger = {"file": str(book), "data_set": "jobs", "epsilon": "20", "delta": "1e-4"}
    return lambda *changes: small_config({"ledger": ledger}, *changes)


@pytest.fixture(scope="session")
def whole(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> pipelines.Release:
    """A release with the key of seed 1 and the day of `frozen_day`. Copy it before changing it."""
    config = pipelines.parse_config(config_text(), tmp_path_factory.mktemp("whole"), "small.toml")
    with pytest.MonkeyPatch.context() as patch:
        freeze(patch)
        return seeded(config)
