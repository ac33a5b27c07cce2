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
from pipelines.release.layout import MANIFEST
from pipelines.running.folder import RunFolder
from pipelines.running.run import run
from pipelines.storage.progress import Progress
from pipelines.views.release import Release

_log = logging.getLogger(__name__)

_NAME = "demo.toml"


def demo(out: PathLike | None = None, *, progress: Progress | None = None) -> Release:
    """Generate the demo region, and release it.

    The configuration is ``examples/demo.toml``; its paths are taken as if it lay in ``examples`` of the
    working folder, so inputs go to ``out/demo-inputs`` and the release to ``out/demo``. An earlier demo
    release there is replaced; any other folder is left alone and refused.

    Parameters
    ----------
    out : str or path, optional
        Another output folder.
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
    out = None if out is None else path_of(out, "out")
    config = parse_config(_text(), Path.cwd() / "examples", _NAME)
    if out is not None:
        config = config.with_out(out)
    target = config.release.out
    if target.exists():
        if not _is_demo(target, config.release.name):
            raise ConfigError(
                f"{target}: the output folder exists and is not an earlier demo. Choose another with --out"
            )
        shutil.rmtree(target)
    _log.info("Generating a region of 65,000 jobs ...")
    _write_region(config)
    shutil.rmtree(RunFolder.of(target).folder, ignore_errors=True)  # of an interrupted demo
    return run(config, progress=progress)


def demo_inputs(folder: PathLike, **size: int) -> Path:
    """Generate the demo region in a folder, with a configuration that releases it, to try things out on.

    Parameters
    ----------
    folder : str or path
        Made where it is not there. Files of an earlier call are replaced by the same.
    **size : int
        Of `geo_data.write_demo_region`, for a smaller region.

    Returns
    -------
    Path
        The configuration, ``examples/demo.toml`` in the folder. Its inputs are in ``out/demo-inputs`` there.
    """
    folder = path_of(folder, "folder")
    path = folder / "examples" / _NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(), encoding="utf-8")
    _write_region(parse_config(_text(), path.parent, _NAME), **size)
    return path


def demo_truth(release: Release) -> geo_data.JobRecords:
    """Return the demo's true jobs. They are generated, so comparing with them tells nothing of anyone."""
    check_type(release, Release, "release", "demo")
    folder, plan = Path.cwd() / "out" / "demo-inputs", release.plan
    config = parse_config(_text(), folder, _NAME)
    names = [path.name for path in config.jobs.files]
    source = geo_data.LodesJobs(folder / names[0], plan.geography, folder / names[1])
    return source.records(plan.attributes)


def _text() -> str:
    return (resources.files("pipelines.examples") / _NAME).read_text(encoding="utf-8")


def _write_region(config: ReleaseConfig, **size: int) -> None:
    geo_data.write_demo_region(config.jobs.file.parent, **size)
    for path in config.jobs.files:
        path.chmod(0o600)  # as a confidential file would be


def _is_demo(folder: Path, name: str) -> bool:
    try:
        manifest = json.loads((folder / "public" / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest["release"]["name"] == name)
    except (OSError, ValueError, KeyError, TypeError):
        return False
