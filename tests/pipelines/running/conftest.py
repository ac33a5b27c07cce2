"""Releases of the small region that a ledger pays for, and one that is always the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pytest
from moto.server import ThreadedMotoServer

import pipelines
from geo_data.geography import Geography
from helpers import freeze, same_key

from .forgeries import AGES
from .helpers import BUCKET, SECRETS, Configs, Table, seeded
from .kinds import KIND, SECTORS, Kind, blur


@pytest.fixture
def book(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def paid_config(small_config: Configs, book: Path) -> Configs:
    """Return the configuration of a release that a budget of epsilon 20 pays for."""
    ledger = {"file": str(book), "data_set": "jobs", "epsilon": "20", "delta": "1e-4"}
    return lambda *changes: small_config({"ledger": ledger}, *changes)


@pytest.fixture(scope="session")
def whole(config_text: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> pipelines.Release:
    """A release with the key of seed 1 and the day of `frozen_day`. Copy it before changing it."""
    config = pipelines.parse_config(config_text(), tmp_path_factory.mktemp("whole"), "small.toml")
    with pytest.MonkeyPatch.context() as patch:
        freeze(patch)
        return seeded(config)


@pytest.fixture(scope="session")  # there is one such server in a process
def bucket() -> Iterator[Any]:
    """A file system of the server, which has an empty bucket; what reads it finds credentials by itself."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://{}:{}".format(*server.get_host_and_port()))
        for name, value in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), SECRETS, strict=True):
            patch.setenv(name, value)
        store = fsspec.filesystem("s3")
        store.mkdir(BUCKET)
        yield store
    server.stop()


@pytest.fixture(scope="session")
def blurred(small_region: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public table for the LODES jobs of the small region."""
    path = tmp_path_factory.mktemp("workplaces") / "public.csv"
    blur(pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"}), path)
    return path


@pytest.fixture(scope="session")
def last_year(microdata: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public table for the jobs one by one: other numbers, and a category less."""
    jobs = pd.read_csv(microdata["csv"], dtype="str")
    jobs = jobs[jobs["age"] != "old"]
    table = jobs.groupby(["toil", "age", "sector"], as_index=False).size().rename(columns={"size": "jobs"})
    path = tmp_path_factory.mktemp("workplaces") / "last_year.csv"
    table.assign(jobs=table["jobs"] + np.arange(len(table)) % 3).to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def shares(microdata: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    """Attributes with public tables for the jobs one by one: by age in tracts of work, by sector of all."""
    jobs = pd.read_csv(microdata["csv"], dtype="str")
    jobs = jobs.assign(trct=jobs["toil"].str[:11])[jobs["age"] != "old"]
    folder = tmp_path_factory.mktemp("shares")
    jobs.groupby(["trct", "age"], as_index=False).size().to_csv(folder / "ages.csv", index=False)
    jobs.groupby("sector", as_index=False).size().to_csv(folder / "sectors.csv", index=False)
    ages = {"file": str(folder / "ages.csv"), "category": "age", "count": "size"}
    sectors = {"file": str(folder / "sectors.csv"), "category": "sector", "count": "size"}
    return [
        {"name": "age", "categories": AGES, "table": {**ages, "level": "trct", "area": "trct"}},
        {"name": "sector", "categories": SECTORS, "table": sectors},
    ]


@pytest.fixture(scope="session")
def elsewhere(
    microdata: dict[str, Path],
    microdata_jobs: Callable[..., Table],
    config_tables: dict[str, Any],
    small_geography: Geography,
    tmp_path_factory: pytest.TempPathFactory,
) -> Table:
    """Microdata of which some work at home or abroad; a tract where nobody can live, in which some do."""
    jobs = pd.read_parquet(microdata["parquet"])
    row = np.arange(len(jobs))
    jobs["toil"] = np.where(row % 7 == 0, "HOME", np.where(row % 31 == 0, "ABRD", jobs["toil"]))
    path = tmp_path_factory.mktemp("elsewhere") / "jobs.parquet"
    tract, block = str(small_geography.codes("trct")[1]), str(small_geography.blocks[0])
    jobs[jobs["toil"] != block].to_parquet(path, index=False)
    return {
        **microdata_jobs(str(path)),
        "auxiliary": [of for of in config_tables["auxiliary"] if "trct" not in of.values()],
        "geography.external_workplaces": {"HOME": "at home", "ABRD": "abroad"},
        "geography.uninhabited": [tract],
        "geography.without_work": [block],
    }


@pytest.fixture(scope="session")
def inputs(
    microdata_jobs: Callable[..., Table],
    zones: Table,
    strips: Table,
    elsewhere: Table,
    blurred: Path,
    last_year: Path,
    shares: list[Table],
) -> dict[str, Table]:
    """The changes of a configuration by which kinds of releases read other files."""
    return {
        "lodes": {},
        "microdata": microdata_jobs("parquet"),
        "zones": zones,
        "strips": strips,
        "elsewhere": elsewhere,
        "workplaces": {"workplaces": {"file": str(blurred)}},
        "shares": {**microdata_jobs("parquet"), "attribute": shares},
        "last year": {**microdata_jobs("parquet"), "workplaces": {"file": str(last_year), "count": "jobs"}},
    }


@pytest.fixture(scope="session")
def kind_config(
    config_text: Callable[..., str], inputs: dict[str, Table], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., pipelines.ReleaseConfig]:
    """Return the configuration of a kind of release, in a file of a new folder."""

    def config(kind: Kind) -> pipelines.ReleaseConfig:
        path = tmp_path_factory.mktemp("kind") / "kind.toml"
        text = config_text(inputs[kind.inputs], {"run.batch_jobs": 200}, kind.changes)
        path.write_text(text, encoding="utf-8")
        return pipelines.load_config(path)

    return config


@pytest.fixture(scope="session")
def released(
    kind_config: Callable[..., pipelines.ReleaseConfig], clean_source: object
) -> Callable[[str], pipelines.Release]:
    """Return the release of a kind, made once, of the day of `frozen_day`. Copy it before changing it."""
    made: dict[str, pipelines.Release] = {}

    def release(name: str) -> pipelines.Release:
        if name not in made:
            with pytest.MonkeyPatch.context() as patch:
                freeze(patch)
                KIND[name].choose(patch)
                made[name] = pipelines.run(kind_config(KIND[name]), key=same_key())
        return made[name]

    return release
