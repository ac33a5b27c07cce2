"""The kepler.gl map: what is in it, and where. test_kepler_gl.py opens it with its own loader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas as gpd
import numpy as np
import pandas as pd
import pytest
import shapely

from pipelines.views.exports.source import Source

Exporter = Callable[..., tuple[Path, Source]]


def saved_map(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "kepler.gl.json").read_text(encoding="utf-8"))


def tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    return {
        dataset["data"]["id"]: pd.DataFrame(
            dataset["data"]["allData"], columns=[field["name"] for field in dataset["data"]["fields"]]
        )
        for dataset in document["datasets"]
    }


@pytest.mark.parametrize("home", ["trct", "cty"])
def test_layers_refer_to_what_is_there(home: str, exported: Exporter) -> None:
    document = saved_map(exported("kepler", home, "trct")[0])
    found = tables(document)
    state = document["config"]["config"]["visState"]
    assert len({layer["id"] for layer in state["layers"]}) == len(state["layers"]) == len(found)
    for layer in state["layers"]:
        columns = set(found[layer["config"]["dataId"]].columns)
        assert set(layer["config"]["columns"].values()) <= columns
        channels = layer["visualChannels"].values()
        assert {channel["name"] for channel in channels if isinstance(channel, dict)} <= columns
    for name, shown in state["interactionConfig"]["tooltip"]["fieldsToShow"].items():
        assert {field["name"] for field in shown} <= set(found[name].columns)


def test_data(exported: Exporter, tract_flows: pd.Series, public: Path) -> None:
    folder, source = exported("kepler")
    found = tables(saved_map(folder))
    zones, flows = found["zones_trct"], found["flows"]
    given = gpd.read_parquet(public / "geo" / "trct.parquet")
    assert zones["code"].tolist() == given["trct"].tolist()
    shapes = shapely.from_geojson([json.dumps(feature["geometry"]) for feature in zones["_geojson"]])
    assert given.geometry.geom_equals_exact(gpd.GeoSeries(shapes, given.index, crs=4326), 1e-5).all()
    assert zones["work_S000"].tolist() == [tract_flows.groupby("work").sum().get(c, 0) for c in zones["code"]]
    between = tract_flows[
        (tract_flows.index.get_level_values("home").str[:2] == "03")
        & (tract_flows.index.get_level_values("home") != tract_flows.index.get_level_values("work"))
    ]
    counted = flows.set_index(["work", "home"])["S000"]
    pd.testing.assert_series_equal(counted.sort_index(), between.sort_index())
    places = source.release.places("trct").set_index("code")
    for side in ("home", "work"):
        ends = flows[[f"{side}_longitude", f"{side}_latitude"]]
        np.testing.assert_allclose(ends, places.loc[flows[side], ["longitude", "latitude"]], atol=1e-6)


def test_codes_are_text_and_nothing_is_fetched(exported: Exporter) -> None:
    folder, _ = exported("kepler")
    document = saved_map(folder)
    for dataset in document["datasets"]:
        kinds = {field["name"]: field["type"] for field in dataset["data"]["fields"]}
        assert {kinds[name] for name in ("code", "home", "work") if name in kinds} == {"string"}
        assert kinds.get("S000", kinds.get("work_S000")) == "integer"
    assert document["config"]["config"]["mapStyle"] == {"styleType": "no_map"}
    assert "://" not in (folder / "kepler.gl.json").read_text(encoding="utf-8")


def test_the_camera_sees_every_zone(exported: Exporter) -> None:
    folder, source = exported("kepler")
    state = saved_map(folder)["config"]["config"]["mapState"]
    west, south, east, north = source.zones["trct"].total_bounds
    width = 360 / 2 ** state["zoom"]  # in degrees, of a window of 512 pixels
    assert state["longitude"] - width / 2 <= west + 1e-3
    assert east - 1e-3 <= state["longitude"] + width / 2
    assert south < state["latitude"] < north
