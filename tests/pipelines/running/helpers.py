"""What the tests of runs share: files as bytes, faults at a step."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import synth
from pipelines import Release, ReleaseConfig, run
from pipelines.release.layout import file_names
from pipelines.running import run as releasing

Configs = Callable[..., ReleaseConfig]
Table = dict[str, Any]

TABLES: Table = {"release.mechanism": "geometric", "plan.retention_min": None}  # as the planner chooses them
GEOMETRIC: Table = TABLES | {"workload": [{"home": "trct", "work": "trct"}]}  # nothing to search
FULL = OSError(28, "No space left on device")


def everything(folder: Path) -> dict[str, bytes]:
    """The content of every file."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def data_of(release: Release, folder: str = "") -> dict[str, bytes]:
    """The content of the data files, of an implicate where there are several."""
    names = file_names(release.plan.configuration).values()
    return {name: (release.public / folder / name).read_bytes() for name in names}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def left_over(config: ReleaseConfig) -> list[str]:
    """What lies in the folder that the output folder should appear in."""
    parent = config.release.out.parent
    return sorted(path.name for path in parent.iterdir()) if parent.exists() else []


def seeded(config: ReleaseConfig, seed: int = 1, **named: Any) -> Release:
    """A run with a key that gives the same bytes again."""
    return run(config, key=synth.RunKey.from_seed(seed), **named)


def failing(owner: object, name: str, fault: BaseException, patch: pytest.MonkeyPatch) -> list[str]:
    """Make a function fail; the list says whether it was called."""
    called: list[str] = []

    def fail(*_: object, **__: object) -> None:
        called.append(name)
        raise fault

    patch.setattr(owner, name, fail)
    return called


def interrupted(
    config: ReleaseConfig,
    owner: object = releasing,
    name: str = "write_public",
    fault: BaseException = FULL,
    **named: Any,
) -> None:
    """Begin a run that fails when it has drawn, or at another function."""
    with pytest.MonkeyPatch.context() as patch:
        called = failing(owner, name, fault, patch)
        with pytest.raises(type(fault)) as caught:
            seeded(config, **named)
    assert caught.value is fault or str(fault) in str(caught.value)
    assert called
