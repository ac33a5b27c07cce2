"""A small release with external zones and shapes of tracts, and its map."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest

import pipelines
from pipelines.release.names import NAME_FILE
from pipelines.release.reader import PublicRelease
from pipelines.views.maps import write_map

CODES = {"w_geocode": "str", "h_geocode": "str", "createdate": "str"}


@pytest.fixture(scope="session")
def mapped(
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> PublicRelease:
    """The small region, a fifth of whose workers live in two other states, with shapes of its tracts."""
    folder = tmp_path_factory.mktemp("mapped")
    jobs = pd.read_csv(small_region["od"], dtype=CODES)
    moved = np.arange(len(jobs)) % 5 == 0
    aux = jobs[moved].copy()
    aux["h_geocode"] = np.where(np.arange(len(aux)) % 3, "25", "09") + aux["h_geocode"].str[2:]
    jobs[~moved].to_csv(folder / "main.csv.gz", index=False)
    aux.to_csv(folder / "aux.csv.gz", index=False)
    text = config_text(
        (
            f'file = "{small_region["od"]}"\n',
            f'file = "{folder / "main.csv.gz"}"\naux = "{folder / "aux.csv.gz"}"\n',
        ),
        ('longitude = "blklondd"\n', 'longitude = "blklondd"\noutside = ["09", "25"]\n'),
    )
    release = pipelines.run(pipelines.parse_config(text, folder, "mapped.toml"))
    write_tracts(release.public)
    return pipelines.read_public_release(release.public)


def write_tracts(public: Path) -> None:
    """Give a release boxes around the centroids of each tract's blocks as shapes."""
    release = pipelines.read_public_release(public)
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
def shapeless(mapped: PublicRelease, tmp_path: Path) -> PublicRelease:
    """The same release without shapes."""
    folder = shutil.copytree(mapped.folder, tmp_path / "shapeless" / "public")
    shutil.rmtree(folder / "geo")
    return pipelines.read_public_release(folder)


@pytest.fixture
def nameless(mapped: PublicRelease, tmp_path: Path) -> PublicRelease:
    """The same release without names."""
    folder = shutil.copytree(mapped.folder, tmp_path / "nameless" / "public")
    (folder / NAME_FILE).unlink()
    return pipelines.read_public_release(folder)


@pytest.fixture(scope="session")
def map_file(mapped: PublicRelease, library: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The map of the small release."""
    return write_map(mapped.folder, tmp_path_factory.mktemp("map") / "map.html")
