"""A small release with external zones and shapes of tracts, and its map."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

import pipelines
from helpers import edit_json, same_key
from pipelines import PosteriorDraws, Release, open_release
from pipelines.release.accuracy import ACCURACY_FILE
from pipelines.release.names import NAME_FILE

from .layers import add_areas


@pytest.fixture(scope="session")
def mapped(zoned_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The release with external zones, with shapes of its tracts and without a forecast of accuracy."""
    folder = Path(shutil.copytree(zoned_release.public, tmp_path_factory.mktemp("mapped") / "public"))
    write_tracts(folder)
    (folder / ACCURACY_FILE).unlink()
    return open_release(folder)


@pytest.fixture(scope="session")
def layered(mapped: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The same release with areas that cut across its levels."""
    folder = Path(shutil.copytree(mapped.public, tmp_path_factory.mktemp("layered") / "public"))
    write_areas(folder)
    return open_release(folder)


@pytest.fixture(scope="session")
def layered_file(layered: Release, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its map, with numbers alone."""
    return without_draws(layered.map(tmp_path_factory.mktemp("layered-map") / "map.html"))


@pytest.fixture(scope="session")
def noisy(mapped: Release, zoned_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The same release with a forecast: flows between block groups and between blocks are noise."""
    folder = Path(shutil.copytree(mapped.public, tmp_path_factory.mktemp("noisy") / "public"))

    def say(sheet: dict[str, Any]) -> None:
        for table in sheet["tables"]:
            noise = table["home"] == table["work"] and table["home"] in ("bgrp", "tabblk2010")
            losses = (
                {"loss": 0.7139, "public_model": 0.8422} if noise else {"loss": 0.05, "public_model": 0.3}
            )
            table.update(losses, carried=True, noise=noise)

    shutil.copyfile(zoned_release.public / ACCURACY_FILE, folder / ACCURACY_FILE)
    edit_json(folder / ACCURACY_FILE, say)
    return open_release(folder)


def write_areas(public: Path) -> None:
    """Give a release towns, which cut across tracts, and ZIP areas, which do not cover it."""
    blocks = pd.read_parquet(public / "plan" / "blocks.parquet").set_index("tabblk2010")
    inside = blocks[blocks["latitude"].notna()]
    west = inside["longitude"] < inside["longitude"].median()
    names = {"4400374300": "Warwick city (Kent, RI)", "4400378440": "Westerly town (Kent, RI)"}
    codes = pd.Series(np.where(west, *names), inside.index)
    add_areas(public, "ctycsub", codes, names)
    north = inside["latitude"].rank(pct=True)
    zips = pd.Series(np.select([north > 0.8, north > 0.4], ["02903", "02905"], "99999"), inside.index)
    add_areas(public, "zcta", zips, {})


def write_tracts(public: Path) -> None:
    """Give a release boxes around the centroids of each tract's blocks as shapes."""
    release = open_release(public)
    geography = release.geography
    points = geography.points().geometry
    unit = geography.unit_of("trct", np.arange(geography.n_blocks))
    boxes = points[~points.is_empty].groupby(unit[~points.is_empty]).apply(lambda p: p.union_all().envelope)
    shapes = gpd.GeoDataFrame(
        {"trct": geography.codes("trct")[boxes.index]}, geometry=list(boxes.buffer(0.002)), crs="EPSG:4326"
    )
    (public / "geo").mkdir(exist_ok=True)
    shapes.to_parquet(public / "geo" / "trct.parquet")


@pytest.fixture
def shapeless(mapped: Release, tmp_path: Path) -> Release:
    """The same release without shapes."""
    folder = shutil.copytree(mapped.public, tmp_path / "shapeless" / "public")
    shutil.rmtree(folder / "geo")
    return open_release(folder)


@pytest.fixture
def nameless(mapped: Release, tmp_path: Path) -> Release:
    """The same release without names."""
    folder = shutil.copytree(mapped.public, tmp_path / "nameless" / "public")
    (folder / NAME_FILE).unlink()
    return open_release(folder)


@pytest.fixture(scope="session")
def noisy_file(noisy: Release, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its map, with numbers alone."""
    return without_draws(noisy.map(tmp_path_factory.mktemp("noisy-map") / "map.html"))


@pytest.fixture(scope="session")
def bounded_file(mapped: Release, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of the small release."""
    return mapped.map(tmp_path_factory.mktemp("bounded") / "map.html")


@pytest.fixture(scope="session")
def bounded(mapped: Release, bounded_file: Path) -> tuple[PosteriorDraws, Path]:
    """Posterior draws of the small release, and its map."""
    return mapped.draws(), bounded_file


@pytest.fixture(scope="session")
def map_file(bounded_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same map, with numbers alone."""
    return without_draws(Path(shutil.copy(bounded_file, tmp_path_factory.mktemp("map"))))


def of_year(release: Release, folder: Path, year: int, name: str | None = None) -> Release:
    """Copy a release as one of another year; its data are the same."""
    before = str(release.year)
    public = Path(shutil.copytree(release.public, folder / str(year) / "public"))
    for path in [*public.glob(f"*_{before}.*")]:
        path.rename(path.with_name(path.name.replace(before, str(year))))

    def say(release: dict[str, Any]) -> None:
        release.update(year=year, **({} if name is None else {"name": name}))

    edit_json(public / "certificate.json", lambda certificate: say(certificate["release"]))
    edit_json(public / "plan" / "plan.json", lambda plan: say(plan["configuration"]["release"]))
    sums = public / "SHA256SUMS"
    sums.write_text(sums.read_text() + "\n")
    return open_release(public)


@pytest.fixture(scope="session")
def years_file(mapped: Release, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of the small release, and of the same one as of another year."""
    folder = tmp_path_factory.mktemp("years")
    return mapped.map(folder / "map.html", others=[of_year(mapped, folder, 2016)])


def without_draws(file: Path) -> Path:
    """Make a map one without draws, as maps were of releases that had none."""
    text = file.read_text(encoding="utf-8")
    assert '"draws":{"n":' in text
    file.write_text(text.replace('"draws":{"n":', '"none":{"n":'), encoding="utf-8")
    return file


SCATTERED = {"25": 40, "09": 24, "36": 16, "23": 9, "33": 6, "50": 5}  # states, and their shares of 100


@pytest.fixture(scope="session")
def scattered(
    config_text: Callable[..., str],
    zones: dict[str, Any],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> Release:
    """A release with six external zones, and shapes of its tracts."""
    folder = tmp_path_factory.mktemp("scattered")
    aux = pd.read_csv(zones["jobs.aux"], dtype=dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str"))
    states = np.repeat(list(SCATTERED), list(SCATTERED.values()))[np.arange(len(aux)) * 37 % 100]
    aux["h_geocode"] = states + aux["h_geocode"].str[2:]
    aux.to_csv(folder / "aux.csv.gz", index=False)
    change = zones | {"jobs.aux": folder / "aux.csv.gz", "geography.external_zones": sorted(SCATTERED)}
    path = folder / "scattered.toml"
    path.write_text(config_text(change), encoding="utf-8")
    release = pipelines.run(pipelines.load_config(path), key=same_key())
    write_tracts(release.public)
    return open_release(release.public)
