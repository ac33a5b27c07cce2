"""OGC API Features and vector tiles, read with GDAL's own drivers and with QGIS's, where it is installed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import mapbox_vector_tile
import numpy as np
import pyogrio
import pytest
import requests
from starlette.testclient import TestClient

import pipelines
from helpers import PATIENCE, wait_for
from pipelines import Release
from pipelines.service.public import geo

from ..helpers import NAME, copy_state, free_port

PYTHON_OF_QGIS = "/usr/bin/python3"  # QGIS brings its modules to the system's own
QGIS = """\
import json, sys
from qgis.core import QgsApplication, QgsDataProvider, QgsProviderRegistry, QgsVectorLayer, QgsVectorTileLayer
from qgis.core import QgsCoordinateReferenceSystem, QgsCoordinateTransform, QgsMapRendererParallelJob
from qgis.core import QgsMapSettings, QgsProject, QgsRectangle, QgsWkbTypes
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor
app = QgsApplication([], False)
app.initQgis()
address = sys.argv[1]
found = {"layers": {}}
for name in ("areas_trct", "flows_trct"):
    uri = f"url='{address}/ogc' typename='{name}'"
    # Without a window the network is not ready for the first layer; a provider waits for it.
    QgsProviderRegistry.instance().createProvider("OAPIF", uri, QgsDataProvider.ProviderOptions())
    layer = QgsVectorLayer(uri, name, "OAPIF")
    assert layer.isValid(), name
    values = [each["S000" if "flows" in name else "code"] for each in layer.getFeatures()]
    found["layers"][name] = QgsWkbTypes.displayString(layer.wkbType()), values
zoom, west, south, east, north = (float(each) for each in sys.argv[2:])
source = f"{address}/tiles/trct".replace("/latest/", "/v1/")  # QGIS 3.22 is not led on from tiles
where = f"styleUrl={source}/style&type=xyz&url={source}/{{z}}/{{x}}/{{y}}.mvt&zmin={int(zoom)}&zmax=10"
tiles = QgsVectorTileLayer(where, "tiles")
assert tiles.isValid(), tiles.error().message()
found["style"] = tiles.loadDefaultStyle()[1]
settings = QgsMapSettings()
settings.setLayers([tiles])
settings.setDestinationCrs(tiles.crs())
settings.setOutputSize(QSize(400, 400))
to_mercator = QgsCoordinateTransform(
    QgsCoordinateReferenceSystem("EPSG:4326"), tiles.crs(), QgsProject.instance()
)
settings.setExtent(to_mercator.transformBoundingBox(QgsRectangle(west, south, east, north)))
settings.setBackgroundColor(QColor("white"))
job = QgsMapRendererParallelJob(settings)
job.start()
job.waitForFinished()
image = job.renderedImage()
drawn = [image.pixelColor(i, j).name() for i in range(400) for j in range(400)]
found["drawn"] = {color: drawn.count(color) for color in set(drawn)}
found["classes"] = [style.filterExpression() for style in tiles.renderer().styles()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def address(service_state: Path, base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The latest version on a server of its own: GDAL holds this process while it waits for an answer."""
    folder = copy_state(service_state, tmp_path_factory.mktemp("served"))
    port = free_port()
    (folder / "service.toml").write_text(f'folder = "."\nport = {port}\nworkers = 0\nlog = "log"\n')
    server = subprocess.Popen([sys.executable, "-m", "pipelines.cli", "serve", str(folder / "service.toml")])
    try:
        wait_for(lambda: answers(f"http://127.0.0.1:{port}{base}/tiles/cty"))
        yield f"http://127.0.0.1:{port}" + f"/{NAME}/latest".join(base.split(f"/{NAME}/v1"))
    finally:
        server.terminate()
        server.wait(PATIENCE)


def answers(address: str) -> bool:
    try:
        return requests.get(address, timeout=PATIENCE).ok
    except (requests.ConnectionError, requests.Timeout):
        return False


def first_tile(client: TestClient, base: str, level: str) -> tuple[int, int, int]:
    """The tile with the middle of the region at the first zoom."""
    described = client.get(f"{base}/tiles/{level}").json()
    west, south, east, north = described["bounds"]
    zoom, latitude = described["minzoom"], np.radians((south + north) / 2)
    x = ((west + east) / 2 + 180) / 360
    y = (1 - np.arcsinh(np.tan(latitude)) / np.pi) / 2
    return zoom, int(x * 2**zoom), int(y * 2**zoom)


def test_gdal_reads_features(address: str, published: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"OAPIF:{address}/ogc"
    layers = [f"{what}_{level}" for what in ("areas", "flows") for level in published.levels]
    assert pyogrio.list_layers(source)[:, 0].tolist() == layers
    for level in published.levels[:-1]:
        codes, places = published.geography.codes(level), published.places(level)
        areas = pyogrio.read_dataframe(source, layer=f"areas_{level}")
        assert pyogrio.read_info(source, layer=f"areas_{level}")["features"] == len(areas)
        assert set(areas.geom_type) <= {"Point", "MultiPolygon"}
        assert areas["code"].tolist() == list(codes[places["latitude"].notna()])
        expected, point = published.unit_flows(level, level), places[["longitude", "latitude"]].to_numpy()
        ends = point[expected["home"]], point[expected["work"]]
        drawn = np.isfinite(np.hstack(ends)).all(axis=1) & (ends[0] != ends[1]).any(axis=1)
        if not drawn.any():
            continue
        flows = pyogrio.read_dataframe(source, layer=f"flows_{level}")
        assert set(flows.geom_type) == {"LineString"}
        assert pyogrio.read_info(source, layer=f"flows_{level}")["features"] == len(flows)
        for side in ("work", "home"):
            assert flows[side].tolist() == list(codes[expected[side]][drawn])
        assert flows["S000"].tolist() == expected["S000"][drawn].tolist()
    box = areas.geometry.iloc[0].buffer(1e-4).envelope
    inside = areas[areas.intersects(box)]
    assert 0 < len(inside) < len(areas)
    found = pyogrio.read_dataframe(source, layer=f"areas_{published.levels[-2]}", bbox=box.bounds)
    assert found["code"].tolist() == inside["code"].tolist()
    found = pyogrio.read_dataframe(source, layer=f"flows_{published.levels[-2]}", bbox=box.bounds)
    assert sorted(found["id"]) == sorted(flows[flows.intersects(box)]["id"])


def test_pages_of_features_are_followed(client: TestClient, base: str, published: Release) -> None:
    for name in ("areas_trct", "flows_trct"):
        items = f"{base}/ogc/collections/{name}/items"
        whole = client.get(items).json()["features"]
        rows, address = [], f"{items}?limit=7"
        while address:
            answer = client.get(address)
            assert answer.headers["Content-Type"] == "application/geo+json"
            page = answer.json()
            assert page["numberReturned"] == len(page["features"]) <= 7
            assert page["numberMatched"] == len(whole)
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
    county = published.geography.codes("cty")[1]
    tracts = {each["code"] for each in client.get(f"{base}/areas?level=trct&within={county}").json()["areas"]}
    items = f"{base}/ogc/collections/flows_trct/items"
    whole = client.get(items).json()["features"]
    for side in ("work", "home"):
        mine = {each["id"] for each in client.get(f"{items}?{side}={county}").json()["features"]}
        assert mine == {each["id"] for each in whole if each["properties"][side] in tracts}
        assert 0 < len(mine) < len(whole)


def test_what_the_standard_wants(client: TestClient, base: str) -> None:
    landing = client.get(f"{base}/ogc").json()
    assert {link["rel"] for link in landing["links"]} >= {"self", "service-desc", "conformance", "data"}
    assert any(each.endswith("/core") for each in client.get(f"{base}/ogc/conformance").json()["conformsTo"])
    items = f"{base}/ogc/collections/areas_cty/items"
    whole = client.get(items).json()["features"]
    for query, number in (
        ("bbox=-180,-90,180,90", len(whole)),
        ("bbox=-180,-90,-1e9,180,90,1e9", len(whole)),
        ("bbox=0,-90,1,-89", 0),
        ("bbox=170,-90,-170,-89", 0),
        ("datetime=2019-01-01T00:00:00Z", len(whole)),
        ("datetime=../2019-01-01T00:00:00Z", len(whole)),
    ):
        features = client.get(f"{items}?{query}").json()["features"]
        assert len(features) == number, query
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


def test_tiles_hold_the_areas(client: TestClient, base: str, published: Release, tmp_path: Path) -> None:
    """Read by a decoder that is not ours, and by GDAL's driver."""
    for level in published.levels:
        described = client.get(f"{base}/tiles/{level}").json()
        template = described["tiles"][0].partition("/api")[2]
        zoom, x, y = first_tile(client, base, level)
        areas = {each["code"]: each for each in client.get(f"{base}/areas?level={level}").json()["areas"]}
        codes, by_gdal = set(), set()
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
                path = tmp_path / level / str(zoom) / str(i) / f"{j}.mvt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(answer.content)
                layer = pyogrio.read_dataframe(f"MVT:{path}", layer="areas")
                by_gdal |= set(layer["code"])  # without those in the margin, which are in the next tile
        assert codes == by_gdal == {code for code, area in areas.items() if "longitude" in area}
        styled = client.get(f"{base}/tiles/{level}/style").json()
        assert styled["version"] == 8
        assert styled["sources"]["areas"]["tiles"] == described["tiles"]
        assert {layer["source-layer"] for layer in styled["layers"]} == {"areas"}
        held = {"If-None-Match": answer.headers["ETag"]}
        assert client.get("/api" + template.format(z=zoom, x=x + 1, y=y + 1), headers=held).status_code == 304


def test_a_level_without_tiles_says_so(
    client: TestClient, base: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(geo, "archive", lambda folder, level: folder / "nothing")
    answer = client.get(f"{base}/tiles/cty")
    assert (answer.status_code, "have no tiles" in answer.json()["detail"]) == (404, True)


def test_a_release_is_read_from_its_address(address: str, published: Release, tmp_path: Path) -> None:
    """The same tables as from its folder; files that are here already are not asked for again."""
    own = pipelines.open_release(published.public)
    for source in (address, address.replace("/api/v1", "") + "/"):
        data = pipelines.open_release(source, cache=tmp_path)
        assert data.jobs().equals(own.jobs())
        assert data.flows().equals(own.flows())
        assert data.shapes().equals(own.shapes())
    folder = data.public
    kept = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    there = {
        path.relative_to(published.public).as_posix()
        for path in published.public.rglob("*")
        if path.is_file()
    }
    assert there - kept == {name for name in there if name.endswith(".csv.gz")}
    (folder / "README.md").write_text("changed")
    assert pipelines.open_release(address, cache=tmp_path).public == folder
    assert (folder / "README.md").read_bytes() == (published.public / "README.md").read_bytes()
    with pytest.raises(pipelines.PublicReleaseError, match="No such release was published"):
        pipelines.open_release(address.replace(NAME, "nothing"), cache=tmp_path)


@pytest.mark.slow
def test_qgis_reads_features_and_tiles(
    address: str, client: TestClient, base: str, published: Release, tmp_path: Path
) -> None:
    if (
        shutil.which(PYTHON_OF_QGIS) is None
        or subprocess.run([PYTHON_OF_QGIS, "-c", "import qgis.core"], capture_output=True).returncode
    ):
        pytest.skip("QGIS (Debian: python3-qgis) is not installed")
    described = client.get(f"{base}/tiles/trct").json()
    where = described["minzoom"], *described["bounds"]
    (tmp_path / "read.py").write_text(QGIS)
    environment = {"QT_QPA_PLATFORM": "offscreen", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    command = [PYTHON_OF_QGIS, str(tmp_path / "read.py"), address, *map(str, where)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name, found_there in found["layers"].items():
        features = client.get(f"{base}/ogc/collections/{name}/items").json()["features"]
        key = "S000" if "flows" in name else "code"
        assert sorted(found_there[1]) == sorted(each["properties"][key] for each in features)
        assert found_there[0] == features[0]["geometry"]["type"]
    assert found["style"] is True
    styled = client.get(f"{base}/tiles/trct/style").json()["layers"]
    classes = [layer for layer in styled if "filter" in layer]
    assert 1 < len(classes) == len([each for each in found["classes"] if "work_S000" in each])
    # A colour for each class, and the background.
    shown = {color for color, times in found["drawn"].items() if times > 20}
    assert len(shown) > len(classes)


def test_codes_of_features_may_hold_a_slash(client: TestClient, base: str) -> None:
    """They are looked for; so far such an address led nowhere."""
    for feature in ("a/b", "a%2Fb", "a/b:c/d"):
        answer = client.get(f"{base}/ogc/collections/areas_trct/items/{feature}")
        assert answer.json()["detail"].startswith("There is no such feature; "), feature
