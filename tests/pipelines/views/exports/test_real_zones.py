"""All formats with the real zones of Leeds: codes that begin with letters, multipolygons, one count."""

from __future__ import annotations

import gzip
from pathlib import Path

import geopandas as gpd
import mapbox_vector_tile
import openmatrix
import pandas as pd
import pyogrio
import pytest
from pmtiles.reader import MmapSource, all_tiles

import pipelines
from pipelines.release.polygons import polygon_file
from pipelines.views.exports.exporting import FORMATS

CONFIG = Path(__file__).resolve().parents[4] / "examples" / "leeds.toml"
COMMUTES = "geo_code_to_geo_code_JT01_2011"


@pytest.mark.slow
def test_leeds(shared_data: Path, clean_source: object, tmp_path: Path) -> None:
    release = pipelines.run(pipelines.load_config(CONFIG).with_out(tmp_path / "release"))
    zones = gpd.read_file(shared_data / "leeds_2011" / "leeds_msoa_zones.geojson")
    path = release.public / polygon_file("geo_code")
    path.parent.mkdir(exist_ok=True)
    zones.rename(columns={"msoa11cd": "geo_code"})[["geo_code", "geometry"]].to_parquet(path)
    found = release.export(list(FORMATS), tmp_path)
    assert set(found) == set(FORMATS)
    truth = pd.read_csv(shared_data / "leeds_2011" / "leeds_msoa_od_2011.csv")
    jobs = truth.groupby("geo_code2")["all"].sum().astype(int)

    file = tmp_path / "geopackage" / f"leeds_flows_{COMMUTES}.gpkg"
    layer = pyogrio.read_dataframe(file, layer="zones_geo_code").set_index("code")
    assert layer["work_S000"].to_dict() == jobs.reindex(layer.index, fill_value=0).to_dict()
    assert set(layer.geom_type) <= {"Polygon", "MultiPolygon"}
    given = zones.set_index("msoa11cd").to_crs("EPSG:27700").area.loc[layer.index]
    pd.testing.assert_series_equal(layer.to_crs("EPSG:27700").area, given, check_names=False, rtol=1e-9)

    tiles: dict[int, set[str]] = {}
    with (tmp_path / "pmtiles" / "leeds_zones_geo_code_JT01_2011.pmtiles").open("rb") as archive:
        for (zoom, _, _), content in all_tiles(MmapSource(archive)):
            features = mapbox_vector_tile.decode(gzip.decompress(content))["zones"]["features"]
            tiles.setdefault(zoom, set()).update(feature["properties"]["code"] for feature in features)
    assert all(codes == set(layer.index) for codes in tiles.values())  # also the small ones, also from afar

    with openmatrix.open_file(str(tmp_path / "omx" / f"leeds_flows_{COMMUTES}.omx")) as matrices:
        assert matrices.list_matrices() == ["S000"]
        zone = [code.decode() for code in matrices.root.zones.zone.code]
        columns = pd.Series(matrices["S000"][:].sum(axis=0), index=zone)
    assert columns[columns > 0].to_dict() == jobs[jobs > 0].to_dict()
