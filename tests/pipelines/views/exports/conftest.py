"""A small release with external zones and with polygons of all tracts but one, for exports to read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

from pipelines import Release, open_release
from pipelines.release.polygons import polygon_file
from pipelines.views.exports.exporting import FORMATS, Format
from pipelines.views.exports.source import Source

Exporter = Callable[..., tuple[Path, Source]]


def one_level(form: Format) -> bool:
    """Say whether homes and workplaces have the same level in a format."""
    return form.blocks or form.one_level


@pytest.fixture(scope="session")
def public(zoned_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public folder that stands alone: nothing else of the release is beside it."""
    folder = Path(shutil.copytree(zoned_release.public, tmp_path_factory.mktemp("exported") / "public"))
    geography = open_release(folder).geography
    tract = geography.codes("trct")[geography.unit_of("trct", np.arange(geography.n_blocks))]
    places = pd.DataFrame({"x": geography.longitude, "y": geography.latitude}).groupby(tract)
    low, high = places.min().dropna() - 0.01, places.max().dropna() + 0.01
    boxes = shapely.box(*low.to_numpy().T, *high.to_numpy().T)
    shapes = gpd.GeoDataFrame({"trct": low.index}, geometry=boxes, crs="EPSG:4326").iloc[1:]
    path = folder / polygon_file("trct")
    shutil.rmtree(path.parent)  # those that the region came with
    path.parent.mkdir()
    shapes.to_parquet(path)
    return folder


@pytest.fixture(scope="session")
def rows(public: Path) -> pd.DataFrame:
    """All rows of the release, main and aux, as pandas reads its csv.gz files."""
    codes = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
    return pd.concat([pd.read_csv(path, dtype=codes) for path in sorted(public.glob("demo_od_*.csv.gz"))])


@pytest.fixture(scope="session")
def exported(public: Path, tmp_path_factory: pytest.TempPathFactory) -> Exporter:
    """Export in all formats, once for a pair of levels; return the folder of one, and its source."""

    @cache
    def export(home_level: str, work_level: str, *names: str) -> tuple[Path, Source]:
        folder, release = tmp_path_factory.mktemp("exported"), open_release(public)
        one = home_level == work_level
        names = names or tuple(name for name, form in FORMATS.items() if one or not one_level(form))
        release.export(names, folder / "exports", home_level=home_level, work_level=work_level)
        return folder / "exports", Source(release, home_level, work_level, folder)

    def run(name: str, home_level: str = "trct", work_level: str = "trct") -> tuple[Path, Source]:
        in_all = (home_level, work_level) in (("trct", "trct"), ("cty", "trct"))
        folder, source = export(home_level, work_level, *(() if in_all else (name,)))
        if FORMATS[name].blocks:
            source = replace(source, home_level="tabblk2010", work_level="tabblk2010")
        return folder / name, source

    return run


@pytest.fixture(scope="session")
def british_exports(british_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A British release in all formats: other levels, other codes, no LODES categories, no polygons."""
    folder = tmp_path_factory.mktemp("british-exports")
    two_levels = [name for name, form in FORMATS.items() if not form.one_level]
    british_release.export(two_levels, folder, home_level="lsoa", work_level="lad")
    british_release.export([name for name in FORMATS if name not in two_levels], folder, home_level="lsoa")
    return folder


@pytest.fixture(scope="session")
def tract_flows(rows: pd.DataFrame) -> pd.Series:
    """Workers by tract of work and tract of home, cut from the codes of the rows with pandas alone."""
    flows = rows.groupby([rows["w_geocode"].str[:11], rows["h_geocode"].str[:11]])["S000"].sum()
    return flows.rename_axis(["work", "home"])
