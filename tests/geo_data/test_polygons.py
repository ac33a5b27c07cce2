"""Places from polygons: centroids where they belong, in any format and reference system; clear refusals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import geopandas as gpd
import numpy as np
import pytest
import shapely

from geo_data import read_crosswalk

Refused = Callable[..., AbstractContextManager[None]]


def squares() -> gpd.GeoDataFrame:
    """Four squares of a tenth of a degree near Leeds, in two districts."""
    corners = [(-1.6, 53.8), (-1.5, 53.8), (-1.6, 53.7), (-1.5, 53.7)]
    return gpd.GeoDataFrame(
        {"zone": ["E02", "E01", "E03", "E04"], "district": ["N", "N", "S", "S"]},
        geometry=[shapely.box(x, y, x + 0.1, y + 0.1) for x, y in corners],
        crs="EPSG:4326",
    )


@pytest.mark.parametrize("suffix", ["geojson", "gpkg", "parquet", "shp"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:27700"])
def test_blocks_lie_at_the_centroids(suffix: str, crs: str, tmp_path: Path) -> None:
    path = tmp_path / f"zones.{suffix}"
    frame = squares() if suffix == "geojson" else squares().to_crs(crs)
    frame.to_parquet(path) if suffix == "parquet" else frame.to_file(path)
    geography = read_crosswalk(path, block="zone", levels=("district",))
    assert geography.blocks.tolist() == ["E01", "E02", "E03", "E04"]
    assert geography.codes("district").tolist() == ["N", "S"]
    np.testing.assert_allclose(geography.latitude, [53.85, 53.85, 53.75, 53.75], atol=1e-3)
    np.testing.assert_allclose(geography.longitude, [-1.45, -1.55, -1.55, -1.45], atol=1e-3)


def test_leeds_zones_lie_where_their_centroids_are_published(shared_data: Path) -> None:
    folder = shared_data / "leeds_2011"
    ours = read_crosswalk(folder / "leeds_msoa_zones.geojson", block="msoa11cd", levels=())
    theirs = read_crosswalk(
        folder / "leeds_msoa_centroids.csv", block="geo_code", levels=(), latitude="lat", longitude="lon"
    )
    assert ours.blocks.tolist() == theirs.blocks.tolist()
    # Theirs are weighted by population, so they may be some way off, but inside the same city.
    assert np.abs(ours.latitude - theirs.latitude).max() < 0.03
    assert np.abs(ours.longitude - theirs.longitude).max() < 0.06


def test_what_cannot_be_used_is_refused(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "zones.geojson"
    with refused(path, "there is no such file"):
        read_crosswalk(path, block="zone", levels=())
    path.write_text("zone,x\nE01,1\n", encoding="utf-8")
    with refused(path, "the file has no polygons that can be read"):
        read_crosswalk(path, block="zone", levels=())
    squares().to_file(path)
    with refused(path, "there is no column ward", count=1):
        read_crosswalk(path, block="zone", levels=("ward",))
    squares().assign(zone=range(4)).to_file(path)
    with refused(path, "codes are numbers", column="zone", count=4):
        read_crosswalk(path, block="zone", levels=())
    parquet = tmp_path / "zones.parquet"
    squares().assign(zone=["E01", " ", None, "E04"]).to_parquet(parquet)
    with refused(parquet, "codes are missing", column="zone", count=2):
        read_crosswalk(parquet, block="zone", levels=())
    bare = squares()
    bare.geometry = [*bare.geometry[:3], None]
    bare.to_parquet(parquet)
    with refused(parquet, "rows have no geometry", count=1):
        read_crosswalk(parquet, block="zone", levels=())
    squares().set_crs(None, allow_override=True).to_parquet(parquet)
    with refused(parquet, "no coordinate reference system is named"):
        read_crosswalk(parquet, block="zone", levels=())
