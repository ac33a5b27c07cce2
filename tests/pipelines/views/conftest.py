"""What views are made from: the small release, without polygons, and a release with two external zones."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pipelines
from pipelines import PublicRelease, Release, read_public_release

CODES = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")


@pytest.fixture(scope="session")
def release(small_release: Release) -> PublicRelease:
    return read_public_release(small_release.public)


@pytest.fixture(scope="session")
def bare(small_release: Release, tmp_path_factory: pytest.TempPathFactory) -> PublicRelease:
    """The small release without polygons."""
    folder = shutil.copytree(small_release.public, tmp_path_factory.mktemp("bare") / "public")
    shutil.rmtree(folder / "geo")
    return read_public_release(folder)


@pytest.fixture(scope="session")
def zoned_config(
    config_text: Callable[..., str], small_region: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A configuration of the small region, a fifth of whose workers live in two other states."""
    folder = tmp_path_factory.mktemp("zoned")
    jobs = pd.read_csv(small_region["od"], dtype=CODES)
    moved = np.arange(len(jobs)) % 5 == 0
    aux = jobs[moved].copy()
    aux["h_geocode"] = np.where(np.arange(len(aux)) % 3, "25", "09") + aux["h_geocode"].str[2:]
    jobs[~moved].to_csv(folder / "main.csv.gz", index=False)
    aux.to_csv(folder / "aux.csv.gz", index=False)
    files = f'file = "{folder / "main.csv.gz"}"\naux = "{folder / "aux.csv.gz"}"\n'
    text = config_text(
        (f'file = "{small_region["od"]}"\n', files),
        ('longitude = "blklondd"\n', 'longitude = "blklondd"\nexternal_zones = ["09", "25"]\n'),
    )
    (folder / "zoned.toml").write_text(text, encoding="utf-8")
    return folder / "zoned.toml"


@pytest.fixture(scope="session")
def zoned_release(zoned_config: Path, clean_source: object) -> Release:
    """Its release. Copy it before changing it."""
    return pipelines.run(pipelines.load_config(zoned_config))
