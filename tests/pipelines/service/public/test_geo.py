"""OGC API Features and vector tiles, read with GDAL's own drivers and with QGIS's, where it is installed."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import mapbox_vector_tile
import numpy as np
import pyogrio
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import pipelines
from pipelines import PublicRelease
from pipelines.service.public import geo

from ..helpers import NAME, serving

PYTHON_OF_QGIS = "/usr/bin/python3"  # QGIS brings its modules to the system's own
QGIS = """\
import json, sys
from qgis.core import QgsApplication, QgsDataSourceUri, QgsVectorLayer, QgsVectorTileLayer, QgsTileXYZ
app = QgsApplication([], False)
app.initQgis()
address = sys.argv[1]
found = {}
for name in ("areas_trct", "flows_trct"):
    uri = QgsDataSourceUri()
    uri.setParam("url", f"{address}/ogc")
    uri.setParam("typename", name)
    layer = QgsVectorLayer(uri.uri(False), name, "OAPIF")
    assert layer.isValid(), layer.error().message()
    found[name] = [[f["S000" if "flows" in name else "code"], f.geometry().isNull()] for f in layer.getFeatures()]
zoom, x, y = (int(each) for each in sys.argv[2:])
styled = f"styleUrl={address}/tiles/trct/style&type=xyz&url={address}/tiles/trct/{{z}}/{{x}}/{{y}}.mvt&zmin={zoom}&zmax=10"
tiles = QgsVectorTileLayer(styled, "tiles")
assert tiles.isValid(), tiles.error().message()
found["tile"] = len(bytes(tiles.getRawTile(QgsTileXYZ(x, y, zoom))))
found["style"] = tiles.loadDefaultStyle()[1]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def release(service_state: Path) -> PublicRelease:
    return pipelines.read_public_release(service_state / "published" / NAME / "v1")


@pytest.fixture
def address(make_app: Callable[..., FastAPI], new_state: Path, base: str) -> Iterator[str]:
    """A real server, whose links are right, and on it the latest version."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with serving(make_app(new_state, PORT=port), port) as server:
        yield server + base.replace("/v1", "/latest").replace("/api/latest", "/api/v1")


def first_tile(client: TestClient, base: str, level: str) -> tuple[int, int, int]:
    """The tile with the middle of the region at the first zoom."""
    described = client.get(f"{base}/tiles/{level}").json()
    west, south, east, north = described["bounds"]
    zoom, latitude = described["minzoom"], np.radians((south + north) / 2)
    x = ((west + east) / 2 + 180) / 360
    y = (1 - np.arcsinh(np.tan(latitude)) / np.pi) / 2
    return zoom, int(x * 2**zoom), int(y * 2**zoom)


def test_gdal_reads_features(address: str, release: PublicRelease, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"OAPIF:{address}/ogc"
    layers = [f"{what}_{level}" for what in ("areas", "flows") for level in release.levels]
    assert pyogrio.list_layers(source)[:, 0].tolist() == layers
    for level in release.levels[:-1]:
        areas = pyogrio.read_dataframe(source, layer=f"areas_{level}")
        assert areas["code"].tolist() == list(release.geography.codes(level))
        expected = release.flows(level, level)
        flows = pyogrio.read_dataframe(source, layer=f"flows_{level}")
        assert flows["S000"].tolist() == expected["S000"].tolist()
        codes = release.geography.codes(level)
        assert flows["work"].tolist() == list(codes[expected["work"]])
        assert flows["home"].tolist() == list(codes[expected["home"]])
    placed = areas[areas.geometry.notna()]
    one = placed.geometry.iloc[0]
    box = tuple(one.buffer(1e-4).bounds)
    inside = placed[placed.intersects(one.buffer(1e-4).envelope)]
    assert 0 < len(inside) < len(placed)
    found = pyogrio.read_dataframe(source, layer=f"areas_{release.levels[-2]}", bbox=box)
    assert found["code"].tolist() == inside["code"].tolist()
    lines = flows[flows.geometry.notna()]
    found = pyogrio.read_dataframe(source, layer=f"flows_{release.levels[-2]}", bbox=box)
    assert sorted(found["id"]) == sorted(lines[lines.intersects(one.buffer(1e-4).envelope)]["id"])


def test_pages_of_features_are_followed(client: TestClient, base: str, release: PublicRelease) -> None:
    for name in ("areas_trct", "flows_trct"):
        items = f"{base}/ogc/collections/{name}/items"
        whole = client.get(items).json()["features"]
        rows, address = [], f"{items}?limit=7"
        while address:
            answer = client.get(address)
            assert answer.headers["Content-Type"] == "application/geo+json"
            page = answer.json()
            assert page["numberReturned"] == len(page["features"]) <= 7
            rows += page["features"]
            links = {link["rel"]: link["href"] for link in page["links"]}
            assert {"self", "collection"} <= links.keys()
            address = links.get("next")
        assert rows == whole
        for feature in (whole[0], whole[-1]):
            alone = client.get(f"{items}/{feature['id']}").json()
            assert {link["rel"] for link in alone.pop("links")} == {"self", "collection"}
            assert alone == feature
        assert client.get(f"{items}/nothing").status_code == 404
    county = release.geography.codes("cty")[1]
    flows = client.get(f"{base}/ogc/collections/flows_trct/items?work={county}&limit=10000").json()[
        "features"
    ]
    assert (
        sum(each["properties"]["S000"] for each in flows)
        == release.flows("cty", "cty").query("work == 1")["S000"].sum()
    )


def test_what_the_standard_wants(client: TestClient, base: str) -> None:
    landing = client.get(f"{base}/ogc").json()
    assert {link["rel"] for link in landing["links"]} >= {"self", "service-desc", "conformance", "data"}
    assert any(each.endswith("/core") for each in client.get(f"{base}/ogc/conformance").json()["conformsTo"])
    items = f"{base}/ogc/collections/areas_cty/items"
    whole = client.get(items).json()["features"]
    for query, number in (
        ("bbox=-180,-90,180,90", None),
        ("bbox=-180,-90,-1e9,180,90,1e9", None),
        ("bbox=0,-90,1,-89", 0),
        ("bbox=170,-90,-170,-89", 0),
        ("datetime=2019-01-01T00:00:00Z", len(whole)),
        ("datetime=../2019-01-01T00:00:00Z", len(whole)),
    ):
        features = client.get(f"{items}?{query}").json()["features"]
        placed = sum(each["geometry"] is not None for each in whole)
        assert len(features) == (placed if number is None else number), query
    for query, word in (
        ("colour=red", "colour"),
        ("limit=0", "query.limit"),
        ("bbox=1,2,3", "bbox"),
        ("bbox=a,b,c,d", "bbox"),
        ("bbox=0,1,2,0", "bbox"),
        ("bbox=nan,0,1,1", "bbox"),
        ("datetime=yesterday", "datetime"),
        ("datetime=2019-01-01/2019-01-02/2019-01-03", "datetime"),
        ("work=03001", "work"),
        ("after=nowhere", "after"),
    ):
        answer = client.get(f"{items}?{query}")
        assert (answer.status_code, word in answer.json()["detail"]) == (400, True), query
    for end in ("areas_x", "x", "areas", "flows_"):
        assert client.get(f"{base}/ogc/collections/{end}").status_code == 404


def test_tiles_hold_the_areas(client: TestClient, base: str, release: PublicRelease, tmp_path: Path) -> None:
    """Read by a decoder that is not ours, and by GDAL's driver."""
    for level in release.levels:
        described = client.get(f"{base}/tiles/{level}").json()
        template = described["tiles"][0].partition("/api")[2]
        zoom, x, y = first_tile(client, base, level)
        areas = {each["code"]: each for each in client.get(f"{base}/areas?level={level}").json()["areas"]}
        codes = set()
        for i in (x - 1, x, x + 1):
            for j in (y - 1, y, y + 1):
                answer = client.get("/api" + template.format(z=zoom, x=i, y=j))
                if answer.status_code == 204:
                    continue
                assert answer.headers["Content-Type"] == "application/vnd.mapbox-vector-tile"
                features = mapbox_vector_tile.decode(answer.content)["areas"]["features"]
                for feature in features:
                    said = feature["properties"]
                    assert areas[said["code"]].items() >= said.items()
                    codes.add(said["code"])
                (tmp_path / "0.mvt").write_bytes(answer.content)
                layer = pyogrio.read_dataframe(f"MVT:{tmp_path / '0.mvt'}", layer="areas")
                assert set(layer["code"]) == {each["properties"]["code"] for each in features}
        assert codes == {code for code, area in areas.items() if "longitude" in area}
        styled = client.get(f"{base}/tiles/{level}/style").json()
        assert styled["version"] == 8
        assert styled["sources"]["areas"]["tiles"] == described["tiles"]
        assert {layer["source-layer"] for layer in styled["layers"]} == {"areas"}
        held = {"If-None-Match": answer.headers["ETag"]}
        assert client.get("/api" + template.format(z=zoom, x=x + 1, y=y + 1), headers=held).status_code == 304


def test_a_level_without_tiles_says_so(
    client: TestClient, base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(geo, "_archive_name", lambda level: "nothing")
    answer = client.get(f"{base}/tiles/cty")
    assert (answer.status_code, "have no tiles" in answer.json()["detail"]) == (404, True)


@pytest.mark.slow
def test_qgis_reads_features_and_tiles(
    address: str, client: TestClient, base: str, release: PublicRelease, tmp_path: Path
) -> None:
    if (
        shutil.which(PYTHON_OF_QGIS) is None
        or subprocess.run([PYTHON_OF_QGIS, "-c", "import qgis.core"], capture_output=True).returncode
    ):
        pytest.skip("QGIS (Debian: python3-qgis) is not installed")
    tile = first_tile(client, base, "trct")
    (tmp_path / "read.py").write_text(QGIS)
    environment = {"QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    command = [PYTHON_OF_QGIS, str(tmp_path / "read.py"), address, *map(str, tile)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert [code for code, _ in found["areas_trct"]] == list(release.geography.codes("trct"))
    assert sum(jobs for jobs, _ in found["flows_trct"]) == release.certificate.totals.synthetic_workers
    assert found["tile"] > 100
    assert found["style"] is True
