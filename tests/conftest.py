"""Fixtures of the whole suite: reproducible properties, real data, a small region and its release."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import geo_data
import pipelines
from pipelines.release.provenance import SourceState

# The same cases on every machine and every day, and no failure because a machine was busy.
settings.register_profile("odsynth", derandomize=True, deadline=None)
settings.load_profile("odsynth")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
CLEAN = SourceState("0.0", "0" * 40, False)


@pytest.fixture(scope="session", autouse=True)
def _closed_files() -> Iterator[None]:
    """Files that tests write are not for everybody to read, as confidential files must not be."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real public data beside the project."""
    folder = EXAMPLES.parent.parent / "shared" / "data"
    if not (folder / "ri_2019").is_dir():
        pytest.skip("the real public data (../shared/data/ri_2019) is not beside this checkout")
    return folder


@pytest.fixture(scope="session")
def clean_source() -> Iterator[SourceState]:
    """Make releases say that they come from an unmodified commit, whatever state this checkout is in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.release.certificate.source_state", lambda: CLEAN)
        yield CLEAN


@pytest.fixture(scope="session")
def small_region(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of a region of 120 blocks and 600 jobs."""
    folder = tmp_path_factory.mktemp("small-region")
    return geo_data.write_demo_region(folder, counties=2, tracts=6, blocks=120, jobs=600)


@pytest.fixture(scope="session")
def config_text(small_region: dict[str, Path]) -> Callable[..., str]:
    """Return the TOML text of a release of the small region; `change` pairs are (old, new) parts of it.

    The text is examples/demo.toml with the files of the small region, "release" as output folder, and cells
    and pools fixed, which spares each test the search for the best; some urns are shared, some are not.
    """

    def text(*change: tuple[str, str], jobs: Path | None = None) -> str:
        whole = (EXAMPLES / "demo.toml").read_text(encoding="utf-8")
        whole = re.sub(r"[ ]*#.*", "", whole)
        files = {f"../out/demo-inputs/{path.name}": path for path in small_region.values()}
        if jobs is not None:
            files[f"../out/demo-inputs/{small_region['od'].name}"] = jobs
        fixed = ("[plan]", '[plan]\nsplit_threshold = "1"\npool_below = 8')
        for old, new in [
            ('../out/demo"', 'release"'),
            fixed,
            *((old, str(new)) for old, new in files.items()),
        ]:
            assert old in whole
            whole = whole.replace(old, new)
        for old, new in change:
            assert whole.count(old) == 1, old
            whole = whole.replace(old, new)
        return whole

    return text


@pytest.fixture
def small_config(config_text: Callable[..., str], tmp_path: Path) -> Callable[..., pipelines.ReleaseConfig]:
    """Return the configuration of a release of the small region into a new folder of the test's own."""
    numbers = itertools.count()

    def config(*change: tuple[str, str], jobs: Path | None = None) -> pipelines.ReleaseConfig:
        folder = tmp_path / f"run{next(numbers)}"
        folder.mkdir()
        return pipelines.parse_config(config_text(*change, jobs=jobs), folder, "small.toml")

    return config


@pytest.fixture(scope="session")
def small_release(
    config_text: Callable[..., str], clean_source: SourceState, tmp_path_factory: pytest.TempPathFactory
) -> pipelines.Release:
    """A finished release of the small region, fit for publication. Copy it before changing it."""
    folder = tmp_path_factory.mktemp("small-release")
    return pipelines.run(pipelines.parse_config(config_text(), folder, "small.toml"))
