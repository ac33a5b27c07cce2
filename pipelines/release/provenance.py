"""Which code made a release: version, commit, whether it was modified, its SBOM, and its libraries."""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import os
import platform
import re
import subprocess
import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType

from pipelines.storage.checksums import sha256_of

SBOM = "pipelines/sbom.cdx.json"
"""Where a package has its bill of materials (CycloneDX); `make dist` writes it, and no checkout has one."""

DISTRIBUTION = "certified-commutes"
"""What pip calls this project. Its command is `odsynth`; on the public index that is a stranger's program."""

# What counts as code. A user's own configurations, notebooks and outputs lie in the same checkout and say
# nothing about the mechanism, so they must not mark a release as made by modified code.
_PACKAGES = ("synth", "geo_data", "pipelines")
_CODE = (*_PACKAGES, "pyproject.toml", "requirements.lock")
_ROOT = Path(__file__).resolve().parents[2]

# How setuptools-scm ends the version of a build from changed files: "+g1a2b3c4.d20261121".
_BUILT_FROM_MODIFIED = re.compile(r"[+.]d\d{8}$")


@dataclass(frozen=True)
class SourceState:
    """The state of the code that is running; None where it is unknown.

    The commit is in full from a checkout, shortened from a built package, which alone has an SBOM.
    """

    version: str
    commit: str | None
    modified: bool | None
    sbom_sha256: str | None = None


def source_state(root: Path = _ROOT) -> SourceState:
    """Return the version, commit and modification state of the running code.

    Run from a git checkout of the project, git says what is there now. Run from an installed package, what
    was recorded when the package was built counts. A source folder that git cannot speak for (an unpacked
    archive, git missing) is unknown: what an earlier build recorded there may since have been edited.
    """
    version = importlib.metadata.version(DISTRIBUTION)
    if _is_source_folder(root):
        return SourceState(version, *_checkout_state(root))
    sbom = root / SBOM
    return SourceState(version, *_recorded_state(), sha256_of(sbom) if sbom.is_file() else None)


@cache  # what runs was imported at the start, and stays
def dependency_versions() -> Mapping[str, str]:
    """Return the versions of Python, zlib and the direct dependencies, by name in sorted order."""
    from packaging.requirements import Requirement  # takes its time

    # Python says nothing of its zlib, which decides the bytes of CSV files.
    versions = {"python": platform.python_version(), "zlib": zlib.ZLIB_RUNTIME_VERSION}
    for text in importlib.metadata.requires(DISTRIBUTION) or []:
        requirement = Requirement(text)
        # Without an extra, the marker of a test dependency is false.
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            versions[requirement.name] = importlib.metadata.version(requirement.name)
    return MappingProxyType(dict(sorted(versions.items())))


@cache  # asked before a process does anything for another: it goes on with what it has loaded by then
def code_sha256(root: Path = _ROOT) -> str:
    """Return the SHA-256 of the program: of a line for each of its Python files, with path and SHA-256.

    What npm fetched, where maps were built, is not part of it, nor when a package was built.
    """
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if path.name != "_version.py" and "node_modules" not in path.relative_to(root).parts:
                digest.update(f"{path.relative_to(root).as_posix()}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def code_in_use() -> Mapping[str, str]:
    """Return what two processes that work on one release must have in common."""
    return MappingProxyType({"code of odsynth": code_sha256()[:16], **dependency_versions()})


def _is_source_folder(root: Path) -> bool:
    """Return whether `root` holds this project's pyproject.toml (site-packages does not)."""
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return False
    return isinstance(project, dict) and project.get("name") == DISTRIBUTION


def _checkout_state(root: Path) -> tuple[str | None, bool | None]:
    """Return commit and modification state of the checkout with top folder `root`; (None, None) if none."""
    top = _git(root, "rev-parse", "--show-toplevel")
    # A source folder unpacked inside some other repository would be answered for by that repository.
    if top is None or Path(top).resolve() != root.resolve():
        return None, None
    commit = _git(root, "rev-parse", "--verify", "--quiet", "HEAD")
    if commit is None:  # a repository without any commit
        return None, True
    changes = _git(root, "status", "--porcelain", "--untracked-files=all", "--", *_CODE)
    return commit, None if changes is None else bool(changes)


def _recorded_state() -> tuple[str | None, bool | None]:
    """Return commit and modification state that setuptools-scm wrote into the package when it was built."""
    try:
        recorded = importlib.import_module("pipelines._version")
    except ImportError:
        return None, None
    commit = recorded.__commit_id__
    if commit is None:  # built without git
        return None, None
    modified = _BUILT_FROM_MODIFIED.search(recorded.__version__) is not None
    return str(commit).removeprefix("g"), modified


def _git(folder: Path, *arguments: str) -> str | None:
    """Return the output of a git command in `folder`, or None if there is no git or it fails."""
    # Inside a git hook, GIT_DIR and its like point at the repository of the hook.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_OPTIONAL_LOCKS"] = "0"  # asking must not write, the checkout may be read-only
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            check=True,
            encoding="utf-8",
            errors="surrogateescape",
            env=environment,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
