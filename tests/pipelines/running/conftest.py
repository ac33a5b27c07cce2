"""Configurations of the small region as dictionaries."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import tomlkit

import pipelines

from .helpers import Configs, Table, freeze, given, merged, seeded


@pytest.fixture(scope="session")
def small_toml(config_text: Callable[..., str]) -> Callable[..., str]:
    """Return the TOML text of a release of the small region, with changes of its tables."""
    whole = tomllib.loads(config_text())
    return lambda **changes: tomlkit.dumps(given(merged(whole, changes)))


@pytest.fixture
def configure(small_toml: Callable[..., str], tmp_path: Path) -> Configs:
    """Return the configuration of a release into a new folder, with changes of its tables."""
    numbers = itertools.count()

    def config(**changes: Table) -> pipelines.ReleaseConfig:
        folder = tmp_path / f"run{next(numbers)}"
        folder.mkdir()
        return pipelines.parse_config(small_toml(**changes), folder, "small.toml")

    return config


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def paid_config(configure: Configs, book: Path) -> Configs:
    """Return the configuration of a release that a budget of epsilon 20 pays for."""
    ledger = {"file": str(book), "data_set": "jobs", "epsilon": "20", "delta": "1e-4"}
    return lambda **changes: configure(**merged({"ledger": ledger}, changes))


@pytest.fixture(scope="session")
def microdata_jobs(microdata_jobs: Callable[[Path], dict[str, Table]]) -> Callable[..., Table]:
    """Return the table of jobs of a file of microdata."""
    return lambda path, **changes: merged(microdata_jobs(path)["jobs"], changes)


@pytest.fixture(scope="session")
def whole(small_toml: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> pipelines.Release:
    """A release with the key of seed 1 and the day of `frozen_day`. Copy it before changing it."""
    config = pipelines.parse_config(small_toml(), tmp_path_factory.mktemp("whole"), "small.toml")
    with pytest.MonkeyPatch.context() as patch:
        freeze(patch)
        return seeded(config)
