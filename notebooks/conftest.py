"""Notebooks are tests that take more than a few seconds: every cell must run.

All of them run on an office's data too (tests/test_notebooks.py). In `make test` one runs in a kernel, on the
generated region; the others do in `make deep`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from functools import partial
from pathlib import Path

import pytest
from nbmake import nb_run
from traitlets.config import Config

HERE = Path(__file__).parent
SHORTEST = "03_reading_the_certificate"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.slow if item.path.stem == SHORTEST else pytest.mark.deep)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Run a notebook with a temporary folder of its own, where the sockets of its kernel are, too.

    Ports, the default, are chosen seconds before the kernel takes them; then another process may have been
    quicker, such as the kernel of a notebook beside this one.
    """
    with tempfile.TemporaryDirectory(prefix="odsynth-") as folder, pytest.MonkeyPatch.context() as patch:
        kernel = {"transport": "ipc", "connection_file": f"{folder}/kernel.json"}
        client = partial(nb_run.NotebookClient, config=Config({"KernelManager": kernel}))
        patch.setattr(nb_run, "NotebookClient", client)
        patch.setenv("TMPDIR", folder)
        return (yield)
