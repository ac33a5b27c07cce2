"""A signed release, and the keys that it was signed with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import pipelines
from helpers import with_values
from pipelines.config.loading import check_config
from pipelines.release.signing import generate_keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return generate_keys(tmp_path_factory.mktemp("keys") / "own")


@pytest.fixture(scope="session")
def signed_release(
    config_tables: dict[str, Any],
    clean_source: object,
    keys: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> pipelines.Release:
    tables = with_values(config_tables, {"signature.key": keys[0]})
    return pipelines.run(check_config(tables, tmp_path_factory.mktemp("signed"), "signed.toml"))


@pytest.fixture
def signed(signed_release: pipelines.Release, tmp_path: Path) -> Path:
    return Path(shutil.copytree(signed_release.public, tmp_path / "public"))
