"""What is checked of the confidential files before their content is."""

from __future__ import annotations

import stat
from pathlib import Path

import geo_data
from pipelines.config import ConfigError, ReleaseConfig

__all__ = ["refuse_copies", "refuse_open_files"]


def refuse_open_files(config: ReleaseConfig) -> None:
    """Refuse confidential files that everybody on the machine can read.

    Raises
    ------
    ConfigError
        At the first; the configuration may allow it.
    """
    if config.run.world_readable:
        return
    for path in config.jobs.files:
        if path.exists() and path.stat().st_mode & stat.S_IROTH:
            raise ConfigError(
                [
                    f"{path}: everybody on this machine can read the confidential jobs; chmod o-r the file, "
                    "or, if it is public or its folder is closed, write world_readable = true in [run]"
                ]
            )


def refuse_copies(sha256: dict[str, str]) -> None:
    """Refuse the same file under two names: its jobs would be counted twice, here and in the slots.

    Parameters
    ----------
    sha256 : dict of str to str
        Of each file.

    Raises
    ------
    geo_data.InputError
        With the number of copies.
    """
    copies = len(sha256) - len(set(sha256.values()))
    if copies:
        raise geo_data.InputError(
            Path(next(iter(sha256))).parent,
            "files of jobs are the same, byte for byte, as another one",
            count=copies,
            cure="name each file once; see what * and ? in jobs.file match",
        )
