"""Every file says what it is: where its data are from, and what each column means."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from xml.etree import ElementTree

import h5py
import pandas as pd
import pyarrow.parquet as pq
import pyogrio
import pytest
from pmtiles.reader import MmapSource, Reader

from helpers import edit_json
from pipelines.views.exports.exporting import FORMATS
from pipelines.views.exports.source import Source
from pipelines.views.folder import PublicReleaseError
from pipelines.views.release import open_release

Exporter = Callable[..., tuple[Path, Source]]
Described = dict[str, tuple[dict[str, str], list[str], dict[str, str]]]


def described_csv(path: Path) -> Described:
    document = json.loads(path.with_name(f"{path.name}-metadata.json").read_text(encoding="utf-8"))
    assert document["url"] == path.name
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        header = file.readline().rstrip("\n").split(",")
    columns = {column["name"]: column["dc:description"] for column in document["tableSchema"]["columns"]}
    assert list(columns) == header
    return {path.name: (document["notes"][0], header, columns)}


def described_parquet(path: Path) -> Described:
    schema = pq.read_schema(path)
    about = {key.decode(): value.decode() for key, value in schema.metadata.items()}
    names = [name for name in schema.names if name not in ("geometry", "bbox")]
    for name, meaning in json.loads(about["columns"]).items():
        assert schema.field(name).metadata[b"GDAL:OGR:comment"].decode() == meaning
    return {path.name: (about, names, json.loads(about["columns"]))}


def described_layers(path: Path) -> Described:
    found = {}
    for layer in pyogrio.list_layers(path)[:, 0]:
        info = pyogrio.read_info(path, layer=layer)
        _, table = pyogrio.read_arrow(path, layer=layer, max_features=1)
        comments = {
            field.name: field.metadata[b"GDAL:OGR:comment"].decode()
            for field in table.schema
            if b"GDAL:OGR:comment" in (field.metadata or {})
        }
        found[f"{path.name} {layer}"] = (info["layer_metadata"], list(info["fields"]), comments)
    return found


def described_geojson(path: Path) -> Described:
    document = json.loads(path.read_text(encoding="utf-8"))
    names = list(document["features"][0]["properties"])
    return {path.name: (document, names, document["columns"])}


def described_pmtiles(path: Path) -> Described:
    with path.open("rb") as file:
        metadata = Reader(MmapSource(file)).metadata()
    fields = metadata["vector_layers"][0]["fields"]
    return {path.name: (metadata, list(fields), fields)}


def described_omx(path: Path) -> Described:
    with h5py.File(path) as file:
        about = {name: bytes(file.attrs[name]).decode() for name in file.attrs if name != "SHAPE"}
        tables = [*file["data"].values(), *file["lookup"].values()]
        columns = {table.name: bytes(table.attrs["description"]).decode() for table in tables}
    return {path.name: (about, list(columns), columns)}


def described_kepler(path: Path) -> Described:
    document = json.loads(path.read_text(encoding="utf-8"))
    fields = [field["name"] for data in document["datasets"] for field in data["data"]["fields"]]
    names = [name for name in fields if name != "_geojson"]
    return {path.name: (document["info"], names, document["info"]["columns"])}


def described_population(path: Path) -> Described:
    with gzip.open(path) as file:
        root = ElementTree.parse(file).getroot()
    about, columns = (
        {attribute.attrib["name"]: attribute.text or "" for attribute in element}
        for element in (root.find("attributes"), root.find("person/attributes"))
        if element is not None
    )
    return {path.name: (about, list(columns), json.loads(about["columns"]))}


READERS: dict[str, Callable[[Path], Described]] = {
    ".csv": described_csv,
    ".xml.gz": described_population,
    ".gz": described_csv,
    ".parquet": described_parquet,
    ".gpkg": described_layers,
    ".fgb": described_layers,
    ".geojson": described_geojson,
    ".pmtiles": described_pmtiles,
    ".omx": described_omx,
}


def test_every_file_says_what_it_is(exported: Exporter) -> None:
    for name, form in FORMATS.items():
        folder, source = exported(name, *(() if form.blocks or form.one_level else ("cty", "trct")))
        described = [
            next(read for ending, read in READERS.items() if path.name.endswith(ending))(path)
            for path in folder.iterdir()
            if path.suffix in READERS
        ]
        if name == "kepler":
            described = [described_kepler(folder / "kepler.gl.json")]
        assert described, name
        assert all(described), name
        found = {key: value for of_file in described for key, value in of_file.items()}
        for file, (about, columns, meanings) in found.items():
            lost = {key: text for key, text in source.about.items() if about.get(key) != text}
            # FlatGeobuf has places of its own for these two.
            renamed = {"title": about.get("TITLE"), "description": about.get("DESCRIPTION")}
            assert all(renamed.get(key) == text for key, text in lost.items()), (file, lost)
            assert columns
            assert all(meanings.get(column) for column in columns), file


def test_what_is_said(public: Path, exported: Exporter) -> None:
    _, source = exported("csv")
    about = source.about
    assert about["certificate_sha256"] == sha256((public / "certificate.json").read_bytes()).hexdigest()
    assert about["version"] == f"2019-JT00-{sha256((public / 'SHA256SUMS').read_bytes()).hexdigest()[:12]}"
    assert about["synthetic"].startswith("yes")
    assert about["licence"] == "not stated in the release: ask who published it"
    assert "implicate" not in about


def test_types_beside_csv_leave_codes_text(exported: Exporter) -> None:
    """GDAL alone would take all digits for numbers, and lose leading zeros."""
    for name in ("csv", "flowmap", "omx"):
        for path in exported(name)[0].glob("*.csv"):
            found = pyogrio.read_dataframe(path)
            truth = pd.read_csv(path, dtype="str", keep_default_na=False)
            for column in {"code", "home", "work", "id", "origin", "dest", "name"} & set(truth):
                assert found[column].tolist() == truth[column].tolist(), (path, column)
            for column in {"S000", "home_S000", "count"} & set(truth):
                assert found[column].tolist() == truth[column].astype(int).tolist(), (path, column)


def test_without_checksums_there_is_no_version(public: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    (copy / "SHA256SUMS").unlink()
    with pytest.raises(PublicReleaseError, match=r"SHA256SUMS: .* there is no such file"):
        open_release(copy).export(["csv"], tmp_path / "exports")
    assert not list((tmp_path / "exports").iterdir())


def test_the_licence_of_the_configuration(public: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(public, tmp_path / "public"))
    edit_json(
        copy / "plan" / "plan.json",
        lambda plan: plan["configuration"]["release"].update(licence="CC-BY-4.0"),
    )
    open_release(copy).export(["csv"], tmp_path / "exports", home_level="cty")
    assert "\nlicence CC-BY-4.0\n" in (tmp_path / "exports/csv/README.txt").read_text(encoding="utf-8")
    ((about, _, _),) = described_csv(next((tmp_path / "exports/csv").glob("*flows*.csv"))).values()
    assert about["licence"] == "CC-BY-4.0"
