"""Releases of the small region that a ledger pays for, and one that is always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from moto.server import ThreadedMotoServer

import pipelines
from helpers import freeze

from .helpers import BUCKET, SECRETS, Configs, seeded


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


@pytest.fixture(scope="session")  # there is one such server in a process
def bucket() -> Iterator[Any]:
    """A file system of the server, which has an empty bucket; what reads it finds credentials by itself."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), SECRETS, strict=True):
            patch.setenv(name, value)
        store = fsspec.filesystem("s3")
        store.mkdir(BUCKET)
        yield store
    server.stop()
