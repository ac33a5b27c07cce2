"""Provenance: git answers for its own checkout only, a built package for what was recorded in it."""

import hashlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import types
from pathlib import Path

import pytest

from pipelines.release.provenance import (
    SBOM,
    SourceState,
    code_sha256,
    dependency_versions,
    source_state,
)

PYPROJECT = '[project]\nname = "certified-commutes"\n'


def git(folder: Path, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    names = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    command = ["git", "-C", str(folder), *names, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source folder of the project; not yet a repository."""
    root = tmp_path / "project"
    for package in ("synth", "geo_data", "pipelines"):
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "requirements.lock").write_text("")
    (root / ".gitignore").write_text("__pycache__/\n_version.py\n")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.3")
    return root


@pytest.fixture
def checkout(folder: Path) -> Path:
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "first")
    return folder


def record(monkeypatch: pytest.MonkeyPatch, version: str, commit: str | None) -> None:
    """Pretend that setuptools-scm wrote these into the package."""
    module = types.ModuleType("pipelines._version")
    vars(module).update(__version__=version, __commit_id__=commit)
    monkeypatch.setitem(sys.modules, "pipelines._version", module)


def test_clean_checkout(checkout: Path) -> None:
    assert source_state(checkout) == SourceState("1.2.3", git(checkout, "rev-parse", "HEAD"), False)


def test_two_checkouts_of_a_commit_have_the_same_code(checkout: Path, tmp_path: Path) -> None:
    """Also if maps were built in one alone: a library of JavaScript brings Python of its own."""
    other = tmp_path / "other"
    git(checkout, "clone", "--quiet", str(checkout), str(other))
    fetched = other / "pipelines" / "views" / "maps" / "node_modules" / "library.py"
    fetched.parent.mkdir(parents=True)
    fetched.write_text("")
    (other / "pipelines" / "_version.py").write_text("")
    assert code_sha256(checkout) == code_sha256(other)
    (other / "synth" / "more.py").write_text("")
    code_sha256.cache_clear()
    assert code_sha256(checkout) != code_sha256(other)


def test_changed_code(checkout: Path) -> None:
    for name in ("synth/__init__.py", "pyproject.toml", "requirements.lock"):
        before = (checkout / name).read_text()
        (checkout / name).write_text(f"{before}# changed\n")
        assert source_state(checkout).modified is True
        (checkout / name).write_text(before)
        assert source_state(checkout).modified is False


def test_staged_and_deleted_code_count(checkout: Path) -> None:
    (checkout / "geo_data" / "__init__.py").unlink()
    assert source_state(checkout).modified is True
    git(checkout, "add", "--all")
    assert source_state(checkout).modified is True


def test_untracked_code_counts(checkout: Path) -> None:
    (checkout / "synth" / "new.py").write_text("")
    assert source_state(checkout).modified is True


def test_what_is_not_code_does_not_count(checkout: Path) -> None:
    for name in ("my_release.toml", "out/x.csv", "notes.py", "synth/_version.py"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text("x")
        assert source_state(checkout).modified is False


def test_changed_example_does_not_count(checkout: Path) -> None:
    (checkout / "examples").mkdir()
    (checkout / "examples" / "demo.toml").write_text("a")
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "--message", "example")
    (checkout / "examples" / "demo.toml").write_text("b")
    assert source_state(checkout).modified is False


def test_worktree(checkout: Path, tmp_path: Path) -> None:
    git(checkout, "worktree", "add", "--quiet", str(tmp_path / "other"))
    assert source_state(tmp_path / "other") == SourceState("1.2.3", git(checkout, "rev-parse", "HEAD"), False)


def test_repository_without_commit(folder: Path) -> None:
    git(folder, "init", "--quiet")
    assert source_state(folder) == SourceState("1.2.3", None, True)


def test_variables_of_a_git_hook_do_not_mislead(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "elsewhere"))
    assert source_state(checkout).commit == git(checkout, "rev-parse", "HEAD")


def test_source_inside_another_repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(folder.parent, "init", "--quiet")
    git(folder.parent, "add", ".")
    git(folder.parent, "commit", "--quiet", "--message", "somebody else's")
    record(monkeypatch, "1.2.3", "g1234567")
    assert source_state(folder) == SourceState("1.2.3", None, None)


def test_source_folder_without_git(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier build recorded in an editable folder may be out of date: unknown, not wrong."""
    record(monkeypatch, "1.2.3", "g1234567")
    assert source_state(folder) == SourceState("1.2.3", None, None)


def test_git_is_missing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(checkout))
    assert source_state(checkout) == SourceState("1.2.3", None, None)


def test_installed_package(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment inside a repository, even the project's own, is not a checkout."""
    installed = checkout / ".venv" / "lib" / "site-packages"
    (installed / "pipelines").mkdir(parents=True)
    for version, commit, expected in (
        ("1.2.3", "g1234567", ("1234567", False)),
        ("1.2.4.dev3+g1234567", "g1234567", ("1234567", False)),
        ("1.2.4.dev3+g1234567.d20261121", "g1234567", ("1234567", True)),
        ("1.2.3+d20261121", "g1234567", ("1234567", True)),
        ("0.1.0", None, (None, None)),
    ):
        record(monkeypatch, version, commit)
        assert source_state(installed) == SourceState("1.2.3", *expected)


def test_only_a_package_has_a_bill_of_materials(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was left behind in a checkout says nothing of the code there."""
    record(monkeypatch, "1.2.3", "g1234567")
    installed = checkout / ".venv" / "lib" / "site-packages"
    for root, said in ((installed, hashlib.sha256(b"{}").hexdigest()), (checkout, None)):
        (root / SBOM).parent.mkdir(parents=True, exist_ok=True)
        (root / SBOM).write_text("{}")
        assert source_state(root).sbom_sha256 == said


def test_nothing_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.2.3")
    monkeypatch.setitem(sys.modules, "pipelines._version", None)
    assert source_state(tmp_path) == SourceState("1.2.3", None, None)


def test_pyproject_of_something_else(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(monkeypatch, "1.2.3", "g1234567")
    for text in ('[project]\nname = "other"\n', "project = 5\n", "not toml", ""):
        (checkout / "pyproject.toml").write_text(text)
        assert source_state(checkout) == SourceState("1.2.3", "1234567", False)


def test_dependency_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = ["pandas>=3.0", "numpy>=2", 'pytest>=8; extra == "test"', 'pywin>1; sys_platform == "none"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: declared)
    versions = dependency_versions.__wrapped__()
    assert list(versions) == ["numpy", "pandas", "python", "zlib"]
    assert versions["python"] == platform.python_version()
    assert versions["numpy"] == importlib.metadata.version("numpy")


def test_the_real_ones() -> None:
    versions = dependency_versions()
    assert list(versions) == sorted(versions)
    assert {"numba", "numpy", "python", "python-flint"} <= set(versions)
    assert "pytest" not in versions
    assert source_state().version == importlib.metadata.version("certified-commutes")
