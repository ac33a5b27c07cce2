"""A small release with workers from outside and with polygons of all tracts but one, for exports to read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

import pipelines
from pipelines.release.polygons import polygon_file
from pipelines.views.exports import Source, export

Exporter = Callable[..., tuple[Path, Source]]


@pytest.fixture(scope="session")
def public(
    config_text: Callable[..., str],
    small_region: dict[str, Path],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    jobs = pd.read_csv(small_region["od"], dtype={"w_geocode": "str", "h_geocode": "str"})
    moved = np.arange(len(jobs)) % 5 == 0
    aux = jobs[moved].copy()
    aux["h_geocode"] = np.where(np.arange(len(aux)) % 3, "25", "09") + aux["h_geocode"].str[2:]
    jobs[~moved].to_csv(folder / "main.csv", index=False)
    aux.to_csv(folder / "aux.csv", index=False)
    text = config_text(
        (
            f'file = "{small_region["od"]}"\n',
            f'file = "{folder / "main.csv"}"\naux = "{folder / "aux.csv"}"\n',
        ),
        ('longitude = "blklondd"\n', 'longitude = "blklondd"\noutside = ["09", "25"]\n'),
    )
    run = pipelines.run(pipelines.parse_config(text, folder, "exported.toml"))
    # Nothing but the public folder is there for the tests of the exports.
    moved_to = folder / "elsewhere" / "public"
    moved_to.parent.mkdir()
    run.public.rename(moved_to)
    geography = pipelines.read_public_release(moved_to).geography
    tract = geography.codes("trct")[geography.unit_of("trct", np.arange(geography.n_blocks))]
    places = pd.DataFrame({"x": geography.longitude, "y": geography.latitude}).groupby(tract)
    west, east = places["x"].min().dropna() - 0.01, places["x"].max().dropna() + 0.01
    south, north = places["y"].min().dropna() - 0.01, places["y"].max().dropna() + 0.01
    boxes = shapely.box(*(side.to_numpy() for side in (west, south, east, north)))
    shapes = gpd.GeoDataFrame({"trct": west.index}, geometry=boxes, crs="EPSG:4326").iloc[1:]
    path = moved_to / polygon_file("trct")
    shutil.rmtree(path.parent, ignore_errors=True)  # those that the region came with, if it did
    path.parent.mkdir()
    shapes.to_parquet(path)
    return moved_to


@pytest.fixture(scope="session")
def rows(public: Path) -> pd.DataFrame:
    """All rows of the release, main and aux, as pandas reads its csv.gz files."""
    codes = dict.fromkeys(["w_geocode", "h_geocode", "createdate"], "str")
    return pd.concat([pd.read_csv(path, dtype=codes) for path in sorted(public.glob("demo_od_*.csv.gz"))])


@pytest.fixture
def exported(public: Path, tmp_path: Path) -> Exporter:
    """Export in one format; return its folder and what it was made from."""

    def run(name: str, home_level: str = "trct", work_level: str = "trct") -> tuple[Path, Source]:
        levels = {} if name == "lodes" else {"home_level": home_level, "work_level": work_level}
        export(public, [name], tmp_path / "exports", **levels)
        source = Source(pipelines.read_public_release(public), home_level, work_level, tmp_path)
        return tmp_path / "exports" / name, source

    return run


@pytest.fixture(scope="session")
def tract_flows(rows: pd.DataFrame) -> pd.Series:
    """Workers by tract of work and tract of home, cut from the codes of the rows with pandas alone."""
    flows = rows.groupby([rows["w_geocode"].str[:11], rows["h_geocode"].str[:11]])["S000"].sum()
    return flows.rename_axis(["work", "home"])
