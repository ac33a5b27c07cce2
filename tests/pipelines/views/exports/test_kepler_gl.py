"""The kepler.gl map, opened by kepler.gl: its own loader and reducers, in Node.js, without a browser.

npm fetches them, exactly the versions and contents of kepler/package-lock.json, into pytest's cache: 600
packages, 600 MB, about a minute the first time. So these tests are among those of `make deep`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.views.exports.source import Source

pytestmark = pytest.mark.deep

Exporter = Callable[..., tuple[Path, Source]]
Opener = Callable[[dict[str, Any]], dict[str, Any]]
SETUP = Path(__file__).parent / "kepler"
CI = ["npm", "ci", "--ignore-scripts", "--legacy-peer-deps", "--omit=optional", "--no-audit", "--no-fund"]


@pytest.fixture(scope="module")
def modules(pytestconfig: pytest.Config) -> Path:
    """The folder of modules that npm has fetched."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("there is no Node.js with npm, which runs kepler.gl")
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("kepler.gl")
    lock, fetched = SETUP / "package-lock.json", folder / "package-lock.json"
    with (folder / "busy").open("w") as busy:  # tests may run in several processes
        fcntl.flock(busy, fcntl.LOCK_EX)
        done = folder / "done"
        if not done.is_file() or fetched.read_bytes() != lock.read_bytes():
            done.unlink(missing_ok=True)
            for name in ("package.json", "package-lock.json"):
                shutil.copyfile(SETUP / name, folder / name)
            if subprocess.run(["npm", "ping"], cwd=folder, capture_output=True, check=False).returncode:
                pytest.skip("npm reaches no registry, from which it would fetch kepler.gl")
            subprocess.run(CI, cwd=folder, capture_output=True, check=True)
            done.touch()
    return folder / "node_modules"


@pytest.fixture
def opened(modules: Path, tmp_path: Path) -> Opener:
    """Open a map in kepler.gl; return its data sets, its layers and its style as they are then."""

    def run(document: dict[str, Any]) -> dict[str, Any]:
        saved, result = tmp_path / "map.json", tmp_path / "result.json"
        saved.write_text(json.dumps(document), encoding="utf-8")
        command = ["node", str(SETUP / "open.js"), str(saved), str(result)]
        environment = {**os.environ, "NODE_PATH": str(modules)}
        subprocess.run(command, env=environment, capture_output=True, check=True, timeout=300)
        return json.loads(result.read_text(encoding="utf-8"))

    return run


def saved_map(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "kepler.gl.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("levels", [("trct", "trct"), ("cty", "trct"), ("st", "st")])
def test_kepler_gl_opens_it(levels: tuple[str, str], exported: Exporter, opened: Opener) -> None:
    """Every row, field and layer arrives, and layers draw all of their rows."""
    folder, source = exported("kepler", *levels)
    found = opened(saved_map(folder))
    assert found["style"] == "no_map"
    datasets = {dataset["id"]: dataset for dataset in found["datasets"]}
    layers = {layer["dataset"]: layer for layer in found["layers"]}
    zones = source.placed_zones
    assert set(datasets) == set(layers) == {"flows", *(f"zones_{level}" for level in zones)}
    assert all(layer["isValid"] for layer in found["layers"])

    flows = datasets["flows"]
    ends = ["home_longitude", "home_latitude", "work_longitude", "work_latitude"]
    assert flows["fields"] == [
        *([side, "string"] for side in ("work", "home", "work_name", "home_name")),
        *([end, "real"] for end in ends),
        *([name, "real" if name.startswith("estimate") else "integer"] for name in source.columns),
    ]
    expected = [list(row) for lines in source.journeys() for row in lines.round(6).itertuples(index=False)]
    assert flows["rows"] == expected
    arcs = layers["flows"]
    assert arcs["columns"] == dict(zip(("lng0", "lat0", "lng1", "lat1"), ends, strict=True))
    assert (arcs["type"], arcs["size"], arcs["isVisible"]) == ("arc", "S000", False)
    assert arcs["drawn"] == len(expected)

    for level, table in zones.items():
        dataset, layer = datasets[f"zones_{level}"], layers[f"zones_{level}"]
        words = ["code", "name"]
        counts = [name for name in table.columns if name not in (*words, "geometry")]
        kinds = [*([name, "string"] for name in words), *([name, "integer"] for name in counts)]
        assert dataset["fields"] == [*kinds, ["_geojson", "geojson"]]
        assert [row[:-1] for row in dataset["rows"]] == table[[*words, *counts]].to_numpy().tolist()
        color = "work_S000" if level == levels[1] else "home_S000"
        assert (layer["type"], layer["color"], layer["isVisible"]) == ("geojson", color, True)
        assert layer["drawn"] == len(table)
        assert layer["bounds"] == pytest.approx(table.total_bounds, abs=1e-6)


def test_kepler_gl_would_notice(exported: Exporter, opened: Opener) -> None:
    """What is wrong in a file is missing, or another thing, when kepler.gl has opened it."""

    def broken(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> dict[str, Any]:
        document = json.loads(text)
        change(document, document["config"]["config"]["visState"]["layers"])
        return opened(document)

    text = json.dumps(saved_map(exported("kepler")[0]))
    arcs_lost = broken(lambda _, layers: layers[0]["config"]["columns"].update(lng0="nowhere"))
    assert [layer["id"] for layer in arcs_lost["layers"]] == ["layer_zones_trct"]
    zones_lost = broken(lambda _, layers: layers[1]["config"].update(dataId="nowhere"))
    assert [layer["id"] for layer in zones_lost["layers"]] == ["layer_flows"]
    data_lost = broken(lambda document, _: document["datasets"][0].update(version="v9"))
    assert [dataset["id"] for dataset in data_lost["datasets"]] == ["zones_trct"]
    unshaped = broken(lambda document, _: [row.pop() for row in document["datasets"][1]["data"]["allData"]])
    assert [layer["drawn"] for layer in unshaped["layers"] if layer["type"] == "geojson"] in ([], [0])
    untyped = broken(lambda document, _: document["datasets"][0]["data"]["fields"][0].pop("analyzerType"))
    assert untyped["datasets"][0]["fields"][0] == ["work", "integer"]
    unstyled = broken(lambda document, _: document["config"].update(version="v9"))
    assert unstyled["style"] != "no_map"
