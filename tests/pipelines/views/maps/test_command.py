"""The verb `map`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipelines.cli.main import main
from pipelines.views.maps import page
from pipelines.views.release import Release


def test_it_writes_the_map(mapped: Release, map_file: Path, tmp_path: Path) -> None:
    # On a site it is the same, as it is small.
    for way, words in (([], "it needs no network"), (["--site"], "For a web server")):
        target = tmp_path / "new" / "folder" / "my map.html"
        result = CliRunner().invoke(main, ["map", str(mapped.public), "--to", str(target), *way])
        assert result.exit_code == 0, result.output
        assert target.read_bytes() == map_file.read_bytes()
        assert f"{target}: {target.stat().st_size / 1e6:.1f} MB. " in result.output
        assert words in result.output
        assert [path.name for path in target.parent.iterdir()] == [target.name]
        target.unlink()


def test_it_says_what_is_missing(mapped: Release, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(page, "_HERE", tmp_path)
    result = CliRunner().invoke(main, ["map", str(mapped.public), "--to", str(tmp_path / "map.html")])
    assert result.exit_code == 1
    assert "make library" in result.output
    assert not (tmp_path / "map.html").exists()


def test_a_name_that_browsers_show_as_text(mapped: Release, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["map", str(mapped.public), "--to", str(tmp_path / "map")])
    assert result.exit_code == 2
    assert "let the name end in .html" in result.output
    assert not any(tmp_path.iterdir())


def test_a_map_is_replaced_when_the_new_one_is_complete(
    mapped: Release, library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    target = tmp_path / "map.html"
    target.write_text("before")

    def fail(path: Path, *_: object) -> None:
        assert target.read_text() == "before"
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        page.write_map(mapped, target)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
