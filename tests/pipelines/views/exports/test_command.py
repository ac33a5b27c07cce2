"""The command `odsynth export`."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

from pipelines.cli.main import main
from pipelines.views.exports.exporting import FORMATS


def export(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["export", *arguments])


def test_several_formats_at_once(public: Path, tmp_path: Path) -> None:
    options = ["--format", "csv", "--format", "omx", "--to", str(tmp_path / "out"), "--home-level", "cty"]
    done = export(str(public), *options)
    assert done.exit_code == 0, done.output
    assert [line.split()[0] for line in done.output.splitlines()] == ["csv", "omx"]
    assert str(tmp_path / "out" / "csv") in done.output
    assert " kB " in done.output
    assert "0.00" not in done.output
    assert (tmp_path / "out" / "omx" / "demo_flows_cty_to_cty_JT00_2019.omx").is_file()


def test_help_names_every_format() -> None:
    text = export("--help").output
    for name, form in FORMATS.items():
        assert f"{name:11} {form.meaning}" in text


def test_an_error_writes_nothing(public: Path, tmp_path: Path) -> None:
    done = export(str(public), "--format", "csv", "--home-level", "ward", "--to", str(tmp_path / "out"))
    assert done.exit_code == 1
    assert not (tmp_path / "out").exists()


def test_an_unknown_format(public: Path) -> None:
    done = export(str(public), "--format", "shapefile")
    assert done.exit_code == 2
    assert "'lodes'" in done.output
