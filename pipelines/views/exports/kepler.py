"""A map for kepler.gl: one file with data and configuration, which its file dialog opens."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import shapely
from numpy.typing import NDArray

from pipelines.views.exports.source import DECIMALS, ENDS, Source, column_type

_INK = [37, 52, 148]
_COLOR_RANGE = {
    "name": "ColorBrewer YlGnBu-6",
    "type": "sequential",
    "category": "ColorBrewer",
    "colors": ["#ffffcc", "#c7e9b4", "#7fcdbb", "#41b6c4", "#2c7fb8", "#253494"],
}
_GEOMETRY = "_geojson"
_TYPES = {
    "integer": {"type": "integer", "analyzerType": "INT"},
    "double": {"type": "real", "analyzerType": "FLOAT"},
    "string": {"type": "string", "analyzerType": "STRING"},
}


def write_kepler(source: Source, folder: Path) -> list[str]:
    """Write ``kepler.gl.json``: zones coloured by jobs, flows as arcs, no base map."""
    journeys = (lines.round(dict.fromkeys(ENDS, DECIMALS)) for lines in source.journeys())
    first = next(journeys)
    datasets, layers = (
        [_dataset("flows", source.say.kepler_flows, first[:0])],
        [_arcs(source.say.kepler_flows)],
    )
    corners = []
    for level, zones in source.placed_zones.items():
        shapes = shapely.transform(zones.geometry.to_numpy(), lambda points: _rounded(source, points))
        corners.append(shapely.get_coordinates(shapes))
        table = pd.DataFrame(zones.drop(columns="geometry"))
        features = [
            {"type": "Feature", "properties": {}, "geometry": json.loads(text)}
            for text in shapely.to_geojson(shapes)
        ]
        table[_GEOMETRY] = pd.Series(features, index=table.index, dtype=object)
        identifier = f"zones_{level}"
        datasets.append(_dataset(identifier, source.say.kepler_zones(level), table))
        layers.append(_areas(identifier, "work_S000" if "work_S000" in table else "home_S000"))
    document = {
        "datasets": datasets,
        "config": {
            "version": "v1",
            "config": {
                "visState": {
                    "filters": [],
                    "layers": layers,
                    "interactionConfig": {"tooltip": _tooltip(datasets)},
                    "layerBlending": "normal",
                    "splitMaps": [],
                },
                "mapState": _view(np.vstack(corners)),
                "mapStyle": {"styleType": "no_map"},  # any other would be loaded from a network
            },
        },
        "info": {
            "app": "kepler.gl",
            "source": "kepler.gl",
            "created_at": source.release.certificate.created,
            **source.about,
            "columns": source.meanings_of(name for dataset in datasets for name in _names(dataset)),
        },
    }
    # The rows of the flows, the first data set, are put where the text has none, a batch at a time.
    before, after = _json(document).split('"allData":[', maxsplit=1)
    drawn, comma = 0, ""
    with (folder / "kepler.gl.json").open("w", encoding="utf-8", newline="\n") as file:
        file.write(f'{before}"allData":[')
        for table in itertools.chain([first], journeys):
            if len(table):
                file.write(comma + _json(_rows(table))[1:-1])
                drawn, comma = drawn + int(table["S000"].sum()), ","
        file.write(f"{after}\n")
    return [*source.without_shape("not on map"), *source.not_drawn(drawn)]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _rows(table: pd.DataFrame) -> list[list[Any]]:
    return [list(row) for row in zip(*(table[name].tolist() for name in table), strict=True)]


def _dataset(identifier: str, label: str, table: pd.DataFrame) -> dict[str, Any]:
    """Return a table as kepler.gl saves one: named and typed fields, and rows."""
    fields = []
    for name, column in table.items():
        if name == _GEOMETRY:
            kind = {"type": "geojson", "analyzerType": "GEOMETRY"}
        else:  # also of text, because it would take codes for numbers
            kind = _TYPES[column_type(column)]
        fields.append({"name": name, "format": "", **kind})
    data = {"id": identifier, "label": label, "color": _INK, "allData": _rows(table), "fields": fields}
    return {"version": "v1", "data": data}


def _names(dataset: dict[str, Any]) -> list[str]:
    return [field["name"] for field in dataset["data"]["fields"]]


def _areas(identifier: str, count: str) -> dict[str, Any]:
    return {
        "id": f"layer_{identifier}",
        "type": "geojson",
        "config": {
            "dataId": identifier,
            "label": f"{identifier}: {count}",
            "color": _INK,
            "columnMode": "geojson",
            "columns": {"geojson": _GEOMETRY},
            "isVisible": True,
            "visConfig": {"opacity": 0.7, "filled": True, "stroked": True, "colorRange": _COLOR_RANGE},
        },
        "visualChannels": {"colorField": {"name": count, "type": "integer"}, "colorScale": "quantile"},
    }


def _arcs(label: str) -> dict[str, Any]:
    return {
        "id": "layer_flows",
        "type": "arc",
        "config": {
            "dataId": "flows",
            "label": f"{label}: S000",
            "color": _INK,
            "columnMode": "points",
            "columns": dict(zip(("lng0", "lat0", "lng1", "lat1"), ENDS, strict=True)),
            "isVisible": False,  # as many as there are hide the zones; one click shows them
            "visConfig": {"opacity": 0.2, "thickness": 2, "sizeRange": [0, 10]},
        },
        "visualChannels": {"sizeField": {"name": "S000", "type": "integer"}, "sizeScale": "linear"},
    }


def _tooltip(datasets: list[dict[str, Any]]) -> dict[str, Any]:
    fields = {
        dataset["data"]["id"]: [
            {"name": field["name"], "format": None}
            for field in dataset["data"]["fields"]
            if field["name"] not in (*ENDS, _GEOMETRY)
        ]
        for dataset in datasets
    }
    return {"enabled": True, "fieldsToShow": fields}


def _rounded(source: Source, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round coordinates; longitudes go on beyond 180 degrees, as those of the arcs do."""
    return np.column_stack([source.release.unbroken(points[:, 0]), points[:, 1]]).round(DECIMALS)


def _view(corners: NDArray[np.float64]) -> dict[str, Any]:
    """Return the camera that sees everything: the world is 360 degrees wide at zoom 0, half of it at 1."""
    west, south = corners.min(axis=0)
    east, north = corners.max(axis=0)
    zoom = np.log2(360 / max(east - west, north - south, 0.01))
    return {
        "latitude": round((south + north) / 2, DECIMALS),
        "longitude": round((west + east) / 2, DECIMALS),
        "zoom": round(float(zoom), 2),
        "bearing": 0,
        "pitch": 0,
        "dragRotate": False,
        "isSplit": False,
    }
