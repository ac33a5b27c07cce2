"""Fixtures of the whole suite: reproducible properties, real data, a small region and its release."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import itertools
import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tomlkit
from hypothesis import settings

# The threads of NumPy's linear algebra wait for work busily, which may be a quarter of all processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pyproj

import geo_data
import pipelines
from helpers import same_key, with_values
from pipelines.config.loading import check_config
from pipelines.config.toml import read_toml
from pipelines.planning import trials
from pipelines.release import certificate
from pipelines.release.provenance import SourceState
from pipelines.running import report
from synth import randomness

# The same cases on every machine and every day, and no failure because a machine was busy.
settings.register_profile("odsynth", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("odsynth")

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
MOST_DRAWS = trials._MOST_DRAWS
CLEAN = SourceState("0.0", "0" * 40, False)


def pytest_configure() -> None:
    """Do not look for garbage among what is loaded and collected, which stays: a tenth of all time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _closed_files() -> Iterator[None]:
    """Files that tests write are not for everybody to read, as confidential files must not be."""
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """No test cuts the power: what a killed process wrote is there without waiting, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _same_keys_every_day() -> Iterator[None]:
    """Make run keys from the name of the test that asks for them, so that no test fails by chance.

    No two are alike. Other processes ask the operating system still.
    """
    asked: Counter[str | None] = Counter()

    def token_bytes(number: int) -> bytes:
        test = os.environ.get("PYTEST_CURRENT_TEST")
        asked[test] += 1
        return hashlib.sha256(f"{test} {asked[test]}".encode()).digest()[:number]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "secrets", SimpleNamespace(token_bytes=token_bytes))
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_figure_of_cells() -> Iterator[None]:
    """Make plans without drawing their cells, which takes longer than all else of a small plan."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "draw_cells", lambda _, path: path.write_bytes(b"no picture"))
        yield


@pytest.fixture(scope="session", autouse=True)
def _each_candidate_once() -> Iterator[None]:
    """Try the planner's candidates on one draw, not on up to four as it does in small regions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "_MOST_DRAWS", 1)
        yield


@pytest.fixture
def each_candidate_on_every_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try the planner's candidates as often as the planner does, where a test asks how good its choice is."""
    monkeypatch.setattr(trials, "_MOST_DRAWS", MOST_DRAWS)


@pytest.fixture(scope="session", autouse=True)
def _each_coordinate_system_once() -> Iterator[None]:
    """Build equal coordinate systems once: each of them takes as long as a whole step of a small release."""
    made: dict[str, pyproj.CRS] = {}
    make = pyproj.CRS.from_user_input

    def once(value: Any, **more: Any) -> pyproj.CRS:
        if more or not isinstance(value, str | int | dict):
            return make(value, **more)
        name = repr(value)
        if name not in made:
            made[name] = make(value)
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pyproj.CRS, "from_user_input", once)
        yield


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
        patch.setattr(certificate, "source_state", lambda: CLEAN)
        yield CLEAN


@pytest.fixture(scope="session")
def small_region(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Files of a region of 120 blocks and 600 jobs."""
    folder = tmp_path_factory.mktemp("small-region")
    return geo_data.write_demo_region(folder, counties=2, tracts=6, blocks=120, jobs=600)


@pytest.fixture(scope="session")
def config_tables(small_region: dict[str, Path]) -> dict[str, Any]:
    """The tables of the configuration of a release of the small region, for `helpers.with_values`.

    They are those of examples/demo.toml with the files of the small region, jobs of its residents, "release"
    as output folder, and cells and pools fixed, which spares each test the search for the best; some urns are
    shared, some are not.
    """
    tables = read_toml(EXAMPLES / "demo.toml")
    files = {path.name: str(path) for path in small_region.values()}
    tables["jobs"] = {"format": "lodes", "file": tables["jobs"]["file"], "population": "residents"}
    tables["geography"].pop("external_zones", None)
    geography, named = tables["geography"], ("jobs", "geography", "weights")
    for table in (*(tables[name] for name in named), *tables["auxiliary"], *geography["polygons"]):
        table["file"] = files[Path(table["file"]).name]
    plan = {"split_threshold": "1", "pool_below": 8, "pool_by": [], **tables["plan"]}
    return with_values(tables, {"release.out": "release", "plan": plan})


@pytest.fixture(scope="session")
def config_text(config_tables: dict[str, Any]) -> Callable[..., str]:
    """Return the TOML text of the configuration; changes are as of `helpers.with_values`."""

    def text(*change: Mapping[str, object], jobs: Path | None = None) -> str:
        return tomlkit.dumps(with_values(config_tables, {"jobs.file": jobs} if jobs else {}, *change))

    return text


@pytest.fixture
def small_config(config_text: Callable[..., str], tmp_path: Path) -> Callable[..., pipelines.ReleaseConfig]:
    """Return a configuration as `config_text` writes it, of a release into a new folder of the test's own."""
    numbers = itertools.count()

    def config(*change: Mapping[str, object], jobs: Path | None = None) -> pipelines.ReleaseConfig:
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
    return pipelines.run(pipelines.parse_config(config_text(), folder, "small.toml"), key=same_key())


@pytest.fixture(scope="session")
def rhode_island(
    shared_data: Path, clean_source: SourceState, tmp_path_factory: pytest.TempPathFactory
) -> pipelines.Release:
    """The release of examples/rhode_island.toml, made once for all processes of a test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    made = folder / "rhode-island.pickle"
    with (folder / "rhode-island.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            path = EXAMPLES / "rhode_island.toml"  # with cells and pools like those that the search ends with
            plan = {"plan.split_threshold": "0.0625", "plan.pool_below": 1, "plan.pool_by": ["SE"]}
            config = check_config(with_values(read_toml(path), plan), path.parent, path.name)
            made.write_bytes(
                pickle.dumps(pipelines.run(config.with_out(folder / "rhode-island"), key=same_key()))
            )
    return pickle.loads(made.read_bytes())
