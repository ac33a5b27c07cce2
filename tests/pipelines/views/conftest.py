"""What views are made from: the small release, with and without polygons."""

from __future__ import annotations

import shutil

import pytest

from pipelines import Release, open_release


@pytest.fixture(scope="session")
def release(small_release: Release) -> Release:
    return open_release(small_release.public)


@pytest.fixture(scope="session")
def bare(small_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The small release without polygons."""
    folder = shutil.copytree(small_release.public, tmp_path_factory.mktemp("bare") / "public")
    shutil.rmtree(folder / "geo")
    return open_release(folder)
