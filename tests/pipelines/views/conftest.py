"""What views are made from: the small release, with and without polygons."""

from __future__ import annotations

import shutil

import pytest

from pipelines import PublicRelease, Release, read_public_release


@pytest.fixture(scope="session")
def release(small_release: Release) -> PublicRelease:
    return read_public_release(small_release.public)


@pytest.fixture(scope="session")
def bare(small_release: Release, tmp_path_factory: pytest.TempPathFactory) -> PublicRelease:
    """The small release without polygons."""
    folder = shutil.copytree(small_release.public, tmp_path_factory.mktemp("bare") / "public")
    shutil.rmtree(folder / "geo")
    return read_public_release(folder)
