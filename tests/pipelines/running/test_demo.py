"""The demo's inputs by themselves; the demo as a whole is run by the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import pipelines

pytestmark = pytest.mark.quick


def test_inputs_with_their_configuration(tmp_path: Path) -> None:
    path = pipelines.demo_inputs(tmp_path / "new")
    config = pipelines.load_config(path)
    assert config.release.out == tmp_path / "new" / "out" / "demo"
    assert not config.release.out.exists()
    assert [path.name.split("_")[2] for path in config.jobs.files] == ["main", "aux"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in config.jobs.files)
    public = [config.geography.file, config.weights.file, *(table.file for table in config.auxiliary)]
    before = {file: file.read_bytes() for file in (path, *config.jobs.files, *public)}
    assert pipelines.demo_inputs(tmp_path / "new") == path
    assert {file: file.read_bytes() for file in before} == before
