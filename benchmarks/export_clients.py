"""What the programs that exports are made for read in them; prints the table of benchmarks/export_clients.md.

Usage: python benchmarks/export_clients.py PUBLIC [--level LEVEL] [--python PYTHON ...] [--modules FOLDER]

PUBLIC is the public folder of a release. It is exported in all formats, and each client reads what it is
for, in a process of its own: with this Python, or with the first of those named with --python that has the
client's library (ActivitySim and QGIS do not go into one environment with this program). flowmap.gl and
esbuild are in the folder node_modules that --modules names. What a client has read is compared with sums
over the rows of the release, with its names and with the hash of its certificate; a difference ends the
program with an error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

ONE = "--client"
NOT_THERE = 77  # how a process ends whose Python has no such client
Read = Iterator[tuple[str, dict[str, Any]]]
"""Format and file, and what was found by what it is called in `truth`."""

FLOWMAP = """
import {readFileSync} from 'node:fs';
import {LocalFlowmapDataProvider} from '@flowmap.gl/data';
const {locations, flows} = JSON.parse(readFileSync(0, 'utf8'));
const selectors = new LocalFlowmapDataProvider({
  getLocationId: l => l.id, getLocationName: l => l.name,
  getLocationLat: l => +l.lat, getLocationLon: l => +l.lon,
  getFlowOriginId: f => f.origin, getFlowDestId: f => f.dest, getFlowMagnitude: f => +f.count,
}).getSelectors();
const data = {locations, flows};
const state = {filter: {}, settings: {
  adaptiveScalesEnabled: false, clusteringAuto: true, clusteringEnabled: false, colorScheme: 'Teal',
  darkMode: false, fadeAmount: 0, fadeEnabled: false, flowEndpointsInViewportMode: 'any',
  flowLinesRenderingMode: 'straight',
  flowLineThicknessScale: 1, locationsEnabled: true, locationTotalsEnabled: true, maxTopFlowsDisplayNum: 1e9,
}, viewport: {width: 1000, height: 1000, latitude: +locations[0].lat, longitude: +locations[0].lon, zoom: 4}};
const totals = [...selectors.getLocationTotals(state, data).values()];
const sum = (...keys) => totals.reduce((total, one) => keys.reduce((all, key) => all + one[key], total), 0);
console.log(JSON.stringify({
  unknown: [...(selectors.getUnknownLocations(state, data) ?? [])].length,
  invalid: (selectors.getInvalidLocationIds(state, data) ?? []).length,
  arriving: sum('incomingCount', 'internalCount'), leaving: sum('outgoingCount', 'internalCount'),
  lines: selectors.getLayersData(state, data).lineAttributes.length,
}));
"""


def only(folder: Path, pattern: str) -> Path:
    """Return the one file of a name."""
    (path,) = folder.glob(pattern)
    return path


def activitysim(folder: Path) -> Read:
    """Read matrices by ActivitySim's own skims, of a model of one zone system."""
    import shutil

    import numpy as np
    import pandas as pd
    from activitysim.core import los, workflow

    zones = pd.read_csv(only(folder / "omx", "*zones*.csv"))["zone"].to_numpy()
    with tempfile.TemporaryDirectory() as place:
        model = Path(place)
        for name in ("configs", "data", "output"):
            (model / name).mkdir()
        (model / "configs/settings.yaml").write_text("inherit_settings: false\n")
        periods = {"time_window": 1440, "period_minutes": 1440, "periods": [0, 1], "labels": ["DAY"]}
        network = {"zone_system": 1, "taz_skims": "flows.omx", "skim_time_periods": periods}
        (model / "configs/network_los.yaml").write_text(json.dumps(network))
        shutil.copy(only(folder / "omx", "*.omx"), model / "data/flows.omx")
        network_los = los.Network_LOS(workflow.State.make_default(model))
        network_los.load_data()
        skims = network_los.get_default_skim_dict()
    homes, works = np.meshgrid(zones, zones, indexing="ij")
    found = skims.lookup(homes.ravel(), works.ravel(), "S000").reshape(homes.shape)
    yield (
        "omx",
        {
            "all": int(found.sum(dtype=float)),
            "home": found.sum(axis=1).tolist(),
            "work": found.sum(axis=0).tolist(),
        },
    )


def aequilibrae(folder: Path) -> Read:
    """Read matrices by AequilibraE, and take the index that it works with."""
    import pandas as pd
    from aequilibrae.matrix import AequilibraeMatrix

    matrix = AequilibraeMatrix()
    matrix.load(only(folder / "omx", "*.omx"))
    zones = pd.read_csv(only(folder / "omx", "*zones*.csv"))["zone"]
    assert matrix.index.tolist() == zones.tolist()
    matrix.computational_view(["S000"])
    found = matrix.matrix_view
    yield (
        "omx",
        {
            "all": int(found.sum()),
            "home": matrix.columns().tolist(),  # it calls so the sums over all columns
            "work": matrix.rows().tolist(),
        },
    )


def openmatrix(folder: Path) -> Read:
    """Read matrices, the lookup, names and attributes by openmatrix."""
    import openmatrix as omx

    with omx.open_file(str(only(folder / "omx", "*.omx"))) as file:
        found = file["S000"][:]
        assert file.map_entries("zone") == list(range(1, len(found) + 1))
        yield (
            "omx",
            {
                "all": int(found.sum()),
                "home": found.sum(axis=1).tolist(),
                "work": found.sum(axis=0).tolist(),
                "names": sum(name != b"" for name in file.root.zones.zone.name),
                "certificate": bytes(file.root._v_attrs["certificate_sha256"]).decode(),
                "counts": {name: int(file[name][:].sum()) for name in file.list_matrices()},
            },
        )


def pygris(folder: Path) -> Read:
    """Read LODES files by get_lodes, from its cache: it would download them, and looks there first."""
    import shutil

    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        import platformdirs
        from pygris.data import get_lodes

        place = Path(platformdirs.user_cache_dir("pygris"))
        place.mkdir(parents=True)
        for path in (folder / "lodes").glob("*.csv.gz"):
            shutil.copy(path, place)
        state, _, _, job_type, year = (
            only(folder / "lodes", "*_od_main_*.csv.gz").name.split(".")[0].split("_")
        )
        given = {"state": state, "year": int(year), "job_type": job_type, "cache": True, "version": "LODES7"}
        parts = [get_lodes(**given, lodes_type="od", part=part) for part in od_parts(folder)]
        yield "lodes: od", {"all": sum(int(part["S000"].sum()) for part in parts)}
        residents = get_lodes(**given, lodes_type="rac", agg_level="county")
        yield "lodes: rac, by county", {"main": int(residents["C000"].sum())}
        jobs = get_lodes(**given, lodes_type="wac", agg_level="tract")
        yield "lodes: wac, by tract", {"all": int(jobs["C000"].sum())}


def od_parts(folder: Path) -> list[str]:
    """Return main and, if it is there, aux."""
    return [part for part in ("main", "aux") if list((folder / "lodes").glob(f"*_od_{part}_*.csv.gz"))]


def duckdb(folder: Path) -> Read:
    """Query Parquet and CSV by DuckDB."""
    import duckdb

    def query(text: str, path: Path) -> list[tuple]:
        return duckdb.execute(text, [str(path)]).fetchall()

    for kind, read in (("geoparquet", "read_parquet(?)"), ("csv", "read_csv(?, types = {TYPES})")):
        suffix = "parquet" if kind == "geoparquet" else "csv"
        flows, zones = (only(folder / kind, f"*{what}*.{suffix}") for what in ("flows", "zones"))
        of_flows = read.replace("TYPES", "'work': 'VARCHAR', 'home': 'VARCHAR'")
        of_zones = read.replace("TYPES", "'code': 'VARCHAR'")
        ((total, text),) = query(
            f"SELECT sum(S000), bool_and(typeof(home) = 'VARCHAR') FROM {of_flows}", flows
        )
        assert text
        found: dict[str, Any] = {"all": int(total)}
        if kind == "geoparquet":
            metadata = query("SELECT key, value FROM parquet_kv_metadata(?)", flows)
            found["certificate"] = dict(metadata)[b"certificate_sha256"].decode()
        yield f"{kind}: flows", found
        rows = query(f"SELECT home_S000, work_S000, name FROM {of_zones} ORDER BY code", zones)
        homes, works, names = zip(*rows, strict=True)
        yield f"{kind}: zones", {"home": homes, "work": works, "names": sum(bool(name) for name in names)}


def layers(folder: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield the tables that geographic information systems open: what, path, layer."""
    for kind, suffix in (
        *(("csv", "csv"), ("flowmap", "csv"), ("geopackage", "gpkg"), ("geoparquet", "parquet")),
        *(("flatgeobuf", "fgb"), ("geojson", "geojson")),
    ):
        for path in sorted((folder / kind).glob(f"*.{suffix}")):
            if kind == "geopackage":
                zones = path.name.split("_flows_")[1].split("_to_")[0]
                yield f"{kind}: zones", path, f"zones_{zones}"
                yield f"{kind}: flows", path, "flows"
            elif path.stem in ("flows", "locations") or "_flows_" in path.stem or "_zones_" in path.stem:
                what = "flows" if "flows" in path.stem else "zones"
                yield f"{kind}: {what}", path, ""


def of_layer(what: str, table: dict[str, list]) -> dict[str, Any]:
    """Return what is compared of a layer, given its columns."""
    kind, part = what.split(": ")
    text = {"csv: zones": ["code"], "flowmap: flows": ["origin", "dest"], "flowmap: zones": ["id"]}
    for column in text.get(what, ["home", "work"] if part == "flows" else ["code"]):
        assert all(isinstance(value, str) for value in table[column]), (what, column)
    if part == "flows":
        within = {"flowmap": "placed", "flatgeobuf": "lines", "geojson": "lines"}.get(kind, "all")
        return {within: sum(table["count" if kind == "flowmap" else "S000"])}
    named = sum(bool(name) for name in table["name"])
    if kind == "flowmap":
        without = sum(name == code for name, code in zip(table["name"], table["id"], strict=True))
        return {"pointed": len(table["id"]), "names_pointed": named - without}
    if kind in ("flatgeobuf", "geojson"):
        totals = {f"{side}_shaped": sum(table[f"{side}_S000"]) for side in ("home", "work")}
        return totals | {"names_shaped": named}
    return {"home": table["home_S000"], "work": table["work_S000"], "names": named}


def geopandas(folder: Path) -> Read:
    """Read GeoParquet by GeoPandas, and what it says by PyArrow."""
    import geopandas
    import pyarrow.parquet as pq

    path = only(folder / "geoparquet", "*zones*.parquet")
    zones = geopandas.read_parquet(path)
    found = of_layer(
        "geoparquet: zones", {name: zones[name].tolist() for name in zones if name != "geometry"}
    )
    shaped = zones[zones.geometry.notna()]
    totals = {f"{side}_shaped": int(shaped[f"{side}_S000"].sum()) for side in ("home", "work")}
    said = pq.read_schema(path).metadata[b"certificate_sha256"].decode()
    yield "geoparquet: zones", found | totals | {"certificate": said}


def gdal(folder: Path) -> Read:
    """Read every layer by GDAL."""
    import pyogrio

    for what, path, layer in layers(folder):
        if path.suffix == ".parquet" and "Parquet" not in pyogrio.list_drivers():
            yield what, {"refused": "this GDAL has no driver for Parquet"}
            continue
        table = pyogrio.read_dataframe(path, layer=layer or None)
        found = of_layer(what, {name: table[name].tolist() for name in table if name != "geometry"})
        metadata = pyogrio.read_info(path, layer=layer or None)["layer_metadata"] or {}
        if what.split(":")[0] in ("geopackage", "flatgeobuf"):
            found["certificate"] = metadata["certificate_sha256"]
        yield what, found


def qgis(folder: Path) -> Read:
    """Open every layer in QGIS, without a window."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from qgis.core import QgsApplication, QgsVectorLayer

    application = QgsApplication([], False)
    application.initQgis()
    for what, path, name in layers(folder):
        layer = QgsVectorLayer(f"{path}|layername={name}" if name else str(path), what, "ogr")
        if not layer.isValid():
            yield what, {"refused": "its GDAL has no driver for Parquet"}
            continue
        names = [field.name() for field in layer.fields()]
        rows = zip(*(feature.attributes() for feature in layer.getFeatures()), strict=True)
        found = of_layer(what, {name: list(values) for name, values in zip(names, rows, strict=True)})
        if what in ("csv: zones", "flowmap: zones"):
            assert layer.isSpatial(), "no points"
        yield what, found


def pmtiles(folder: Path) -> Read:
    """Read every tile of the closest zoom."""
    import gzip

    import mapbox_vector_tile
    from pmtiles.reader import MmapSource, Reader, all_tiles

    with only(folder / "pmtiles", "*.pmtiles").open("rb") as file:
        source = MmapSource(file)
        metadata = Reader(source).metadata()
        closest = Reader(source).header()["max_zoom"]
        zones = {}
        for (zoom, _, _), tile in all_tiles(source):
            if zoom == closest:
                for feature in mapbox_vector_tile.decode(gzip.decompress(tile))["zones"]["features"]:
                    zones[feature["properties"]["code"]] = feature["properties"]
    found = {
        f"{side}_shaped": sum(zone[f"{side}_S000"] for zone in zones.values()) for side in ("home", "work")
    }
    found["names_shaped"] = sum(bool(zone.get("name")) for zone in zones.values())
    yield "pmtiles: zones", found | {"certificate": metadata["certificate_sha256"]}


def csvw(folder: Path) -> Read:
    """Read CSV files by what CSV on the Web says of them."""
    import csvw

    for kind, pattern in (("csv", "*flows*.csv"), ("csv", "*zones*.csv"), ("flowmap", "flows.csv")):
        path = only(folder / kind, pattern)
        table = csvw.Table.from_file(f"{path}-metadata.json")
        rows = list(table)
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        what = f"{kind}: {'flows' if 'flows' in path.name else 'zones'}"
        yield (
            what,
            of_layer(what, columns) | {"certificate": table.notes[0]["certificate_sha256"]},
        )


def flowmap(folder: Path) -> Read:
    """Give locations and flows to flowmap.gl, which adds them up and makes lines, without a screen."""
    import pandas as pd

    modules = os.environ.get("EXPORT_CLIENTS_MODULES", "")
    if not modules or not (Path(modules) / "@flowmap.gl").is_dir():
        raise ImportError("no folder with flowmap.gl")
    tables = {
        name: pd.read_csv(folder / "flowmap" / f"{name}.csv", dtype="str").to_dict("records")
        for name in ("locations", "flows")
    }
    with tempfile.TemporaryDirectory() as place:
        bundle = f"{place}/flowmap.cjs"
        esbuild = [f"{modules}/.bin/esbuild", "--bundle", "--platform=node", "--log-level=error"]
        command = [*esbuild, "--format=cjs", f"--outfile={bundle}"]
        subprocess.run(command, input=FLOWMAP, text=True, check=True, cwd=Path(modules).parent)
        done = subprocess.run(
            ["node", bundle], input=json.dumps(tables), text=True, check=True, capture_output=True
        )
    found = json.loads(done.stdout)
    assert found["unknown"] == found["invalid"] == 0
    assert found["arriving"] == found["leaving"]
    assert found["lines"] == sum(row["origin"] != row["dest"] for row in tables["flows"])
    yield "flowmap", {"placed": found["arriving"], "pointed": len(tables["locations"])}


CLIENTS: dict[str, tuple[str, Callable[[Path], Read], str]] = {
    "activitysim": ("ActivitySim", activitysim, "activitysim"),
    "aequilibrae": ("AequilibraE", aequilibrae, "aequilibrae"),
    "openmatrix": ("openmatrix", openmatrix, "openmatrix"),
    "pygris": ("pygris", pygris, "pygris"),
    "duckdb": ("DuckDB", duckdb, "duckdb"),
    "geopandas": ("GeoPandas", geopandas, "geopandas"),
    "gdal": ("GDAL (pyogrio)", gdal, "pyogrio"),
    "qgis": ("QGIS", qgis, "qgis"),
    "pmtiles": ("pmtiles", pmtiles, "pmtiles"),
    "csvw": ("csvw", csvw, "csvw"),
    "flowmap": ("flowmap.gl", flowmap, "@flowmap.gl/data"),
}
"""What it is called, what it does, and the package that has its version."""

WORDS = {
    "all": "all jobs",
    "main": "jobs of residents",
    "lines": "jobs with a line",
    "placed": "jobs between places",
    "pointed": "places",
    "home": "residents of every zone",
    "work": "jobs of every zone",
    "home_shaped": "residents of zones with a shape",
    "work_shaped": "jobs in zones with a shape",
    **dict.fromkeys(("names", "names_pointed", "names_shaped"), "names"),
    "certificate": "hash of the certificate",
    "counts": "every count",
}


def version(name: str) -> str:
    """Return the version of a client."""
    package = CLIENTS[name][2]
    if name == "qgis":
        from qgis.core import Qgis

        return str(Qgis.QGIS_VERSION.split("-")[0])
    if name == "gdal":
        import pyogrio

        return str(pyogrio.__gdal_version_string__)
    if name == "flowmap":
        path = Path(os.environ["EXPORT_CLIENTS_MODULES"]) / package / "package.json"
        return str(json.loads(path.read_text(encoding="utf-8"))["version"])
    from importlib.metadata import version as installed

    return installed(package)


def run_one(name: str, folder: Path) -> None:
    """Let one client read, and print what it has found, as JSON."""
    try:
        with redirect_stdout(sys.stderr):
            found = list(CLIENTS[name][1](folder))
            said = version(name)
    except ImportError as error:
        print(error, file=sys.stderr)
        raise SystemExit(NOT_THERE) from error
    print(json.dumps({"version": said, "found": found}, default=lambda number: number.item()))
    sys.stdout.flush()
    os._exit(0)  # QGIS may crash when its libraries are unloaded, long after it has read


def truth(public: Path, level: str) -> dict[str, Any]:
    """Return what there is to be read, from the release and not from its exports."""
    import hashlib

    import numpy as np

    from pipelines import open_release
    from pipelines.views.labels import unit_names

    release = open_release(public)
    geography = release.geography
    flows = release.unit_flows(level, level)
    units = geography.n_units(level)
    points = release.places(level)["latitude"].notna().to_numpy()
    # A zone has a shape if it or a part of it has a polygon; without any polygons a point is its shape.
    shaped = points.copy()
    for finer in release.levels[release.levels.index(level) :]:
        polygons = release.polygons(finer)
        if polygons is not None:
            shaped = np.zeros(units, bool)
            shaped[geography.unit_of(level, geography.starts(finer)[polygons["unit"]])] = True
            break
    home, work, jobs = (flows[name].to_numpy() for name in ("home", "work", "S000"))
    totals = {side: np.bincount(flows[side], jobs, units).astype(int) for side in ("home", "work")}
    placed = points[home] & points[work]
    named = unit_names(release, level) != ""
    counts = release.flows(release.levels[0], release.levels[0], list(release.counts))
    certificate = (public / "certificate.json").read_bytes()
    return {
        "all": int(jobs.sum()),
        "main": int(release.flows(level, level, kinds=["main"])["S000"].sum()),
        "lines": int(jobs[placed & (home != work)].sum()),
        "placed": int(jobs[placed].sum()),
        "pointed": int(points.sum()),
        **{side: total.tolist() for side, total in totals.items()},
        **{f"{side}_shaped": int(total[shaped].sum()) for side, total in totals.items()},
        "names": int(named.sum()),
        "names_pointed": int((named & points).sum()),
        "names_shaped": int((named & shaped).sum()),
        "certificate": hashlib.sha256(certificate).hexdigest(),
        "counts": {name: int(counts[name].sum()) for name in release.counts},
    }


def main() -> None:
    """Export, let all clients read, and print the table."""
    if sys.argv[1:2] == [ONE]:
        run_one(sys.argv[2], Path(sys.argv[3]))
    from pipelines import open_release
    from pipelines.views.exports.exporting import FORMATS

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("public", type=Path)
    parser.add_argument("--level")
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--modules", type=Path)
    given = parser.parse_args()
    level = given.level or open_release(given.public).usual_level()
    expected = truth(given.public, level)
    wrong = 0
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if given.modules:
        environment["EXPORT_CLIENTS_MODULES"] = str(given.modules.resolve())
    print("| client | format | read, and equal to the release |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as place:
        open_release(given.public).export(list(FORMATS), Path(place) / "exports", home_level=level)
        for name, (title, _, _) in CLIENTS.items():
            for python in [sys.executable, *given.python]:
                command = [python, __file__, ONE, name, f"{place}/exports"]
                done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
                if done.returncode != NOT_THERE:
                    break
            if done.returncode:
                print(f"| {title} | | {'not installed' if done.returncode == NOT_THERE else 'FAILED'} |")
                wrong += done.returncode != NOT_THERE
                print(done.stderr[-2000:], file=sys.stderr)
                continue
            answer = json.loads(done.stdout)
            read: dict[str, list[str]] = {}
            for what, found in answer["found"]:
                if "refused" in found:
                    read.setdefault(f"not read: {found['refused']}", []).append(what)
                    continue
                unequal = [key for key, value in found.items() if value != expected[key]]
                wrong += bool(unequal)
                words = ", ".join(f"NOT {WORDS[key]}" if key in unequal else WORDS[key] for key in found)
                read.setdefault(words, []).append(what)
            for words, formats in read.items():
                print(f"| {title} {answer['version']} | {'; '.join(formats)} | {words} |", flush=True)
    raise SystemExit(wrong > 0)


if __name__ == "__main__":
    main()
