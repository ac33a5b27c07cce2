"""The built-in demonstration: a generated region through the whole pipeline."""

from __future__ import annotations

import json
import logging
import shutil
from importlib import resources
from pathlib import Path

import geo_data
from geo_data.arguments import PathLike, check_type, path_of
from pipelines.config.loading import ReleaseConfig, parse_config
from pipelines.config.toml import ConfigError
from pipelines.planning.public_inputs import job_source
from pipelines.release.layout import MANIFEST
from pipelines.running.folder import RunFolder
from pipelines.running.run import run
from pipelines.storage.progress import Progress
from pipelines.views.release import Release

_log = logging.getLogger(__name__)

REGION, CENSUS = "demo.toml", "census_demo.toml"
"""The demonstrations, by their configurations in ``examples``."""

_WHAT = {REGION: "a region of 65,000 jobs", CENSUS: "a census of 200,000 persons"}


def demo(
    out: PathLike | None = None,
    *,
    which: str = REGION,
    folder: PathLike | None = None,
    progress: Progress | None = None,
) -> Release:
    """Generate the demo region, or another demonstration, and release it.

    The configuration is ``examples/demo.toml``; its paths are taken as if it lay in ``examples`` of the
    working folder, so inputs go to ``out/demo-inputs`` and the release to ``out/demo``. An earlier demo
    release there is replaced; any other folder is left alone and refused.

    Parameters
    ----------
    out : str or path, optional
        Another output folder.
    which : str
        `REGION` or `CENSUS`.
    folder : str or path, optional
        Another folder than the working folder. The configuration is written there, too.
    progress : Progress, optional
        As for `run`.

    Returns
    -------
    Release

    Raises
    ------
    ConfigError
        If the output folder holds something else than an earlier demo.
    """
    config = _config(which, Path.cwd() if folder is None else path_of(folder, "folder"))
    if out is not None:
        config = config.with_out(path_of(out, "out"))
    target = config.release.out
    if target.exists():
        if not _is_demo(target, config.release.name):
            raise ConfigError(
                f"{target}: the output folder exists and is not an earlier demo. Fix: choose another with "
                "--out"
            )
        shutil.rmtree(target)
    _log.info("Generating %s ...", _WHAT[which])
    if folder is None:
        _write_inputs(which, config)
    else:
        demo_inputs(folder, which=which)
    shutil.rmtree(RunFolder.of(target).folder, ignore_errors=True)  # of an interrupted demo
    return run(config, progress=progress)


def demo_inputs(folder: PathLike, *, which: str = REGION, **size: int) -> Path:
    """Generate the demo region in a folder, with a configuration that releases it, to try things out on.

    Parameters
    ----------
    folder : str or path
        Made where it is not there. Files of an earlier call are replaced by the same.
    which : str
        The configuration: "demo.toml", or "census_demo.toml" for the generated census.
    **size : int
        Of `geo_data.write_demo_region` or `geo_data.write_demo_census`, for fewer jobs.

    Returns
    -------
    Path
        The configuration, ``examples/demo.toml`` in the folder. Its inputs are in ``out/demo-inputs`` there.
    """
    folder = path_of(folder, "folder")
    path = folder / "examples" / which
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(which), encoding="utf-8")
    _write_inputs(which, _config(which, folder), **size)
    return path


def demo_truth(
    release: Release, *, which: str = REGION, folder: PathLike | None = None
) -> geo_data.JobRecords:
    """Return the demo's true jobs. They are generated, so comparing with them tells nothing of anyone.

    Parameters are as of `demo`.
    """
    check_type(release, Release, "release", "demo")
    config = _config(which, Path.cwd() if folder is None else path_of(folder, "folder"))
    return job_source(config, release.geography).records()


def _config(which: str, folder: Path) -> ReleaseConfig:
    return parse_config(_text(which), folder / "examples", which)


def _text(which: str) -> str:
    return (resources.files("pipelines.examples") / which).read_text(encoding="utf-8")


def _write_inputs(which: str, config: ReleaseConfig, **size: int) -> None:
    write = geo_data.write_demo_census if which == CENSUS else geo_data.write_demo_region
    write(config.jobs.file.parent, **size)
    for path in config.jobs.files:
        path.chmod(0o600)  # as a confidential file would be


def _is_demo(folder: Path, name: str) -> bool:
    try:
        manifest = json.loads((folder / "public" / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["release"]["name"] == name)
    except (OSError, ValueError, KeyError, TypeError):
        return False
