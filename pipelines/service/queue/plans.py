"""The plan of a run: made once, kept beside the run, and the only plan that its release is drawn from.

The folder is what `odsynth plan` writes. What was reviewed is in the run's record: the numbers of the plan,
its SHA-256 among them, and the SHA-256 of every public file that it was made from.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.config.fields import expand
from pipelines.config.loading import ReleaseConfig
from pipelines.config.toml import ConfigError
from pipelines.planning.guards import public_files
from pipelines.running.preflight import plan_numbers
from pipelines.running.report import plan
from pipelines.storage.checksums import sha256_of

_AGAIN = "Submit the run again, so that it is planned again"


def keep_plan(config: ReleaseConfig, folder: Path, scheduler: str | None = None) -> dict[str, Any]:
    """Plan a release; no home is read."""
    shutil.rmtree(folder, ignore_errors=True)
    inputs = _inputs(config)  # before they are read: what changes from here on is noticed
    written = plan(config, folder, scheduler=scheduler)
    return {**plan_numbers(folder)[0], "report": written.text(), "inputs": inputs}


def check_plan(config: ReleaseConfig, folder: Path, reviewed: Mapping[str, Any]) -> None:
    """Refuse a plan that is not the reviewed one, and public files that it was not made from."""
    try:
        numbers, _ = plan_numbers(folder)
    except ConfigError:
        numbers = {}
    if not numbers or any(reviewed.get(name) != value for name, value in numbers.items()):
        raise ConfigError([f"{folder}: this is not the plan that was reviewed. {_AGAIN}"])
    before, now = reviewed.get("inputs", {}), _inputs(config)
    if changed := [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]:
        raise ConfigError([f"{', '.join(changed)}: changed since the plan was made. {_AGAIN}"])


def _inputs(config: ReleaseConfig) -> dict[str, str]:
    """Return the SHA-256 of every public file, by its key in the configuration and its name."""
    return {
        f"{key} {part.relative_to(path.parent)}": sha256_of(part)
        for key, named in public_files(config)
        for path in expand(named)
        for part in _parts(path)
        if part.is_file()
    }


def _parts(path: Path) -> list[Path]:
    """Return all that is read with a file: the parts of a shapefile, or of a database that is a folder."""
    if path.suffix.lower() == ".shp":
        return sorted(path.parent.glob(f"{path.stem}.*"))
    return sorted(path.rglob("*")) if path.is_dir() else [path]
