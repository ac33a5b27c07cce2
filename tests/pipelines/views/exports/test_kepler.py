"""The kepler.gl map.

kepler.gl publishes no JSON Schema (its issue 885 asks for one). The schema here states what its loader
requires of a saved map of version 1: the types SavedMap and SavedDatasetV1, and the layers' own limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import geopandas as gpd
import jsonschema
import numpy as np
import pandas as pd
import pytest
import shapely

from pipelines.views.exports.source import Source

Exporter = Callable[..., tuple[Path, Source]]


def record(**properties: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT, NUMBER, FLAG = {"type": "string", "minLength": 1}, {"type": "number"}, {"type": "boolean"}
SHARE = {"type": "number", "minimum": 0, "maximum": 1}
COLOR = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 255},
    "minItems": 3,
    "maxItems": 4,
}
FIELD = record(
    name=TEXT,
    type={"enum": ["boolean", "date", "geojson", "integer", "real", "string", "timestamp", "point"]},
    format={"type": "string"},
    analyzerType={"enum": ["STRING", "INT", "FLOAT", "GEOMETRY"]},
)
DATASET = record(
    version={"const": "v1"},
    data=record(
        id=TEXT,
        label=TEXT,
        color=COLOR,
        allData={"type": "array", "items": {"type": "array"}},
        fields={"type": "array", "items": FIELD, "minItems": 1},
    ),
)
CHANNEL = record(name=TEXT, type={"enum": ["string", "real", "timestamp", "integer", "boolean", "date"]})
IDENTIFIER = {"type": "string", "pattern": r"^\S+$"}
COMMON = {"dataId": TEXT, "label": TEXT, "color": COLOR, "isVisible": FLAG}
GEOJSON_LAYER = record(
    id=IDENTIFIER,
    type={"const": "geojson"},
    config=record(
        **COMMON,
        columnMode={"const": "geojson"},
        columns=record(geojson=TEXT),
        visConfig=record(
            opacity=SHARE,
            filled=FLAG,
            stroked=FLAG,
            colorRange=record(
                name=TEXT,
                type={"enum": ["sequential", "qualitative", "diverging", "cyclical", "custom"]},
                category=TEXT,
                colors={"type": "array", "items": {"type": "string", "pattern": "^#[0-9a-f]{6}$"}},
            ),
        ),
    ),
    visualChannels=record(
        colorField=CHANNEL, colorScale={"enum": ["ordinal", "quantize", "quantile", "custom"]}
    ),
)
ARC_LAYER = record(
    id=IDENTIFIER,
    type={"const": "arc"},
    config=record(
        **COMMON,
        columnMode={"const": "points"},
        columns=record(lat0=TEXT, lng0=TEXT, lat1=TEXT, lng1=TEXT),
        visConfig=record(
            opacity=SHARE,
            thickness={"type": "number", "minimum": 0, "maximum": 100},
            sizeRange={"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 200}},
        ),
    ),
    visualChannels=record(sizeField=CHANNEL, sizeScale={"enum": ["point", "linear", "sqrt", "log"]}),
)
SAVED_MAP = record(
    datasets={"type": "array", "items": DATASET, "minItems": 1},
    config=record(
        version={"const": "v1"},
        config=record(
            visState=record(
                filters={"type": "array"},
                layers={"type": "array", "items": {"anyOf": [GEOJSON_LAYER, ARC_LAYER]}, "minItems": 1},
                interactionConfig=record(
                    tooltip=record(
                        enabled=FLAG,
                        fieldsToShow={
                            "type": "object",
                            "additionalProperties": {
                                "type": "array",
                                "items": {"required": ["name", "format"]},
                            },
                        },
                    )
                ),
                layerBlending={"enum": ["normal", "additive", "subtractive"]},
                splitMaps={"type": "array"},
            ),
            mapState=record(
                latitude={"type": "number", "minimum": -90, "maximum": 90},
                longitude={"type": "number", "minimum": -180, "maximum": 180},
                zoom={"type": "number", "minimum": 0, "maximum": 24},
                bearing=NUMBER,
                pitch={"type": "number", "minimum": 0, "exclusiveMaximum": 90},
                dragRotate=FLAG,
                isSplit=FLAG,
            ),
            mapStyle=record(styleType=TEXT),
        ),
    ),
    info=record(app={"const": "kepler.gl"}, created_at=TEXT, title=TEXT, description=TEXT),
)


def saved_map(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "kepler.gl.json").read_text(encoding="utf-8"))


def tables(document: dict[str, Any]) -> dict[str, pd.DataFrame]:
    return {
        dataset["data"]["id"]: pd.DataFrame(
            dataset["data"]["allData"], columns=[field["name"] for field in dataset["data"]["fields"]]
        )
        for dataset in document["datasets"]
    }


def test_it_is_a_saved_map(exported: Exporter) -> None:
    jsonschema.Draft202012Validator.check_schema(SAVED_MAP)
    for levels in ("trct", "trct"), ("cty", "trct"), ("cty", "cty"), ("st", "st"):
        folder, source = exported("kepler", *levels)
        document = saved_map(folder)
        jsonschema.validate(document, SAVED_MAP, jsonschema.Draft202012Validator)
        assert document["info"]["description"] == source.sentence


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
