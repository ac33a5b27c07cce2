"""What is checked of the confidential files before their content is."""

from __future__ import annotations

import filecmp
import stat
from collections.abc import Iterator
from pathlib import Path

from geo_data.errors import refuse_any
from pipelines.config.fields import expand
from pipelines.config.loading import ConfigError, ReleaseConfig
from pipelines.config.sections import Section

__all__ = ["public_files", "refuse_as_public", "refuse_copies", "refuse_open_files"]


def refuse_as_public(config: ReleaseConfig, proxy_truth: Path | None = None) -> None:
    """Refuse confidential files that are named as public ones: the plan would say who lives where.

    Parameters
    ----------
    config : ReleaseConfig
    proxy_truth : Path, optional
        A further file that is taken for public.

    Raises
    ------
    ConfigError
        If a public file is one of the confidential ones, under whatever name, or has the same bytes.

    Notes
    -----
    A file that was made from the confidential one (a part of it, or the same compressed anew) is not
    recognised.
    """
    confidential = [path for path in config.jobs.files if path.exists()]
    public = [*public_files(config), *([] if proxy_truth is None else [("proxy truth", proxy_truth)])]
    problems = [
        f"{key}: {named.name} is a confidential file of [jobs], or a copy of one, and nothing public may "
        "derive from it; name a table that is public, such as an earlier release"
        for key, named in public
        if any(_same(path, other) for path in expand(named) if path.exists() for other in confidential)
    ]
    if problems:
        raise ConfigError(problems)


def public_files(config: ReleaseConfig) -> Iterator[tuple[str, Path]]:
    """Yield every file that is read as public, with its key, whatever the keys of a table are called."""
    geography = config.geography
    sections: dict[str, Section | None] = {"geography": geography, "weights": config.weights}
    if config.workplaces is not None:
        sections["workplaces"] = config.workplaces
    sections |= {f"geography.polygons #{i}": table for i, table in enumerate(geography.polygons, start=1)}
    sections |= {f"auxiliary #{i}": table for i, table in enumerate(config.auxiliary, start=1)}
    for where, section in sections.items():
        for key, value in section or ():
            if isinstance(value, Path):
                yield f"{where}.{key}", value


def _same(path: Path, other: Path) -> bool:
    """Say whether two files are one, or have the same bytes; those of different sizes are not read."""
    return path.samefile(other) or filecmp.cmp(path, other, shallow=False)


def refuse_open_files(config: ReleaseConfig) -> None:
    """Refuse confidential files that everybody on the machine can read.

    Raises
    ------
    ConfigError
        Names all; the configuration may allow it.
    """
    if config.run.world_readable:
        return
    problems = [
        f"{path}: everybody on this machine can read the confidential jobs; chmod o-r the file, "
        "or, if it is public or its folder is closed, write world_readable = true in [run]"
        for path in config.jobs.files
        if path.exists() and path.stat().st_mode & stat.S_IROTH
    ]
    if problems:
        raise ConfigError(problems)


def refuse_copies(sha256: dict[str, str]) -> None:
    """Refuse the same file under two names, by the SHA-256 of each: its jobs would be counted twice."""
    refuse_any(
        Path(next(iter(sha256))).parent,
        "files of jobs are the same, byte for byte, as another one",
        len(sha256) - len(set(sha256.values())),
        fix="name each file once; see what * and ? in jobs.file match",
    )
