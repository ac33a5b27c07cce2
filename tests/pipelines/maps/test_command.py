"""The verb `map`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.maps import page
from pipelines.maps.command import map_command
from pipelines.public_release import PublicRelease


def test_it_writes_the_map(mapped: PublicRelease, map_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "my map.html"
    result = CliRunner().invoke(map_command, [str(mapped.folder), "--to", str(target)])
    assert result.exit_code == 0, result.output
    assert target.read_bytes() == map_file.read_bytes()
    assert str(target) in result.output
    assert "MB" in result.output


def test_it_says_what_is_missing(
    mapped: PublicRelease, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page, "_HERE", tmp_path)
    result = CliRunner().invoke(map_command, [str(mapped.folder), "--to", str(tmp_path / "map.html")])
    assert result.exit_code == 1
    assert "make library" in result.output
    assert not (tmp_path / "map.html").exists()


def test_not_a_public_folder(tmp_path: Path) -> None:
    result = CliRunner().invoke(map_command, [str(tmp_path)])
    assert result.exit_code == 1
    assert "OUT/public" in result.output
