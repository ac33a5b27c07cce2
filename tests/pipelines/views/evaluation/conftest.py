"""The small release and its configuration; an evaluation of it of either kind, made once."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

import pipelines
from pipelines.views.evaluation import report


def contents(folder: Path) -> dict[str, str]:
    """Hash and mode of everything in a folder."""
    return {
        f"{path.relative_to(folder)} {path.stat().st_mode}": hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    } | {f"{path.relative_to(folder)}/": "" for path in folder.rglob("*") if path.is_dir()}


@pytest.fixture(autouse=True)
def _no_charts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate without charts, which take longer than all else; those made once for all tests have them."""
    monkeypatch.setattr(report, "draw", lambda *_: None)


@dataclass
class Evaluation:
    """A release before and after its evaluation. Copy it before changing it."""

    out: Path
    public_before: dict[str, str]
    measures: pd.DataFrame
    folder: Path

    @property
    def page(self) -> str:
        return (self.folder / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def config_file(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "small.toml"
    path.write_text(config_text(), encoding="utf-8")
    return path


@pytest.fixture
def out(small_release: pipelines.Release, tmp_path: Path) -> Path:
    """A copy of the small release, public and confidential."""
    return Path(shutil.copytree(small_release.out, tmp_path / "release"))


def evaluation(
    release: pipelines.Release, folder: Path, make: Callable[[Path], pd.DataFrame], where: str
) -> Evaluation:
    out = Path(shutil.copytree(release.out, folder / "release"))
    before = contents(out / "public")
    return Evaluation(out, before, make(out), out / where)


@pytest.fixture(scope="session")
def closed(
    small_release: pipelines.Release, config_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Evaluation:
    """Against the confidential truth."""
    folder = tmp_path_factory.mktemp("closed")
    make = lambda out: pipelines.open_release(out).evaluate(config_file)  # noqa: E731
    return evaluation(small_release, folder, make, "confidential/evaluation")


@pytest.fixture(scope="session")
def opened(
    small_release: pipelines.Release, config_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Evaluation:
    """Against public tables."""
    folder = tmp_path_factory.mktemp("opened")
    make = lambda out: pipelines.open_release(out).evaluate_public([config_file])  # noqa: E731
    return evaluation(small_release, folder, make, "evaluation")
