"""What a release says of itself to machines, read by the programs that such records are for."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import frictionless
import jsonschema
import mlcroissant
import pandas as pd
import pytest
import rdflib

import pipelines
import synth
from helpers import edit_json, refused, words_of_release
from pipelines.release.layout import MANIFEST, seal
from pipelines.release.records import CROISSANT, DATA_PACKAGE, DCAT_AP, DCAT_US, RECORDS

ABOUT = {
    "release.licence": "CC-BY-4.0",
    "release.publisher": 'Office of "Data" | Ä',
    "release.contact": "data@example.org",
    "attribute": [
        {"name": "age", "unit": "years", "labels": {"old": "55 | more"}},
        {"name": "trct", "meaning": "tract of the town's own"},
    ],
}

DCAT_US_SCHEMA = Path(__file__).resolve().parents[3] / "benchmarks" / "dcat_us.schema.json"


@pytest.fixture(scope="module")
def releases(
    small_release: pipelines.Release,
    config_text: Callable[..., str],
    microdata_jobs: Callable[..., dict[str, Any]],
    clean_source: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """The public folders of a release of LODES jobs, and of one of microdata in parts, with noisy counts."""
    folder = tmp_path_factory.mktemp("records")
    more = {"release.csv": False, "release.implicates": 2, "run": {"batch_jobs": 200}}
    more |= {"release.mechanism": "geometric", "privacy.delta": "0", "plan.retention_min": "1"}
    text = config_text(microdata_jobs("parquet"), ABOUT, more)
    made = pipelines.run(pipelines.parse_config(text, folder, "r.toml"), key=synth.RunKey.from_seed(1))
    return {"lodes": small_release.public, "parts": made.public}


def record(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / name).read_text(encoding="utf-8")))


def described(releases: dict[str, Path]) -> Iterator[tuple[Path, pipelines.Release]]:
    for folder in releases.values():
        yield folder, pipelines.open_release(folder)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # mlcroissant has not followed rdflib yet
def test_mlcroissant_reads_every_table(releases: dict[str, Path]) -> None:
    for folder, release in described(releases):
        dataset = mlcroissant.Dataset(jsonld=folder / CROISSANT)
        issues = dataset.metadata.ctx.issues
        assert not issues.errors
        assert all("license" in warning for warning in issues.warnings)
        assert bool(issues.warnings) == (release.licence is None)
        tables = {table.name: table for table in release.description.tables}
        assert [one.name for one in dataset.metadata.record_sets] == [*tables]
        for name in tables:
            if not name.startswith("shapes"):  # of shapes it reads no geometry
                first = next(iter(dataset.records(name)))
                assert [*first] == [f"{name}/{column.name}" for column in tables[name].columns]


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # frictionless leaves files open
def test_frictionless_reads_every_row(releases: dict[str, Path]) -> None:
    for folder in releases.values():
        document = record(folder, DATA_PACKAGE)
        texts = {}
        for resource in document["resources"]:
            if isinstance(
                resource["path"], list
            ):  # of the standard; frictionless calls the rest by another name
                resource["path"], *resource["extrapaths"] = resource["path"]
            texts |= {field["name"]: field for field in resource["schema"]["fields"]}
        assert not [*frictionless.Package.metadata_validate(document)]
        assert texts["S000"]["unit"] == "jobs"
        assert (
            {"value": "old", "label": "55 | more"} in texts["age"]["categories"] if "age" in texts else True
        )
        document["resources"] = [one for one in document["resources"] if one["format"] == "csv"]
        for resource in document["resources"]:
            found = frictionless.Resource.from_descriptor(resource, basepath=str(folder)).validate()
            assert found.valid, found.flatten(["note"])
            # No field of a release goes over a line.
            path = folder / resource["path"]
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
                assert found.tasks[0].stats["rows"] == sum(1 for _ in lines) - 1


def test_dcat_us(releases: dict[str, Path]) -> None:
    assert not (releases["lodes"] / DCAT_US).exists()  # which needs to know who publishes, and who answers
    document = record(releases["parts"], DCAT_US)
    schema = json.loads(DCAT_US_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.validate(document, schema, format_checker=jsonschema.FormatChecker())
    files = {entry["path"]: entry for entry in record(releases["parts"], MANIFEST)["files"]}
    for one in document["distribution"]:
        entry = files[one["title"]]
        assert (one["byteSize"], one["checksum"]["checksumValue"]) == (str(entry["bytes"]), entry["sha256"])


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning")  # in rdflib itself
def test_dcat_ap(releases: dict[str, Path]) -> None:
    """A reader of RDF finds what the profile demands, and each file with its hash at a relative address."""
    for folder in releases.values():
        base = "https://data.example/release/"
        graph = rdflib.Graph().parse(folder / DCAT_AP, format="json-ld", publicID=base)
        (dataset,) = graph.subjects(rdflib.RDF.type, rdflib.DCAT.Dataset)
        for demanded in (rdflib.DCTERMS.title, rdflib.DCTERMS.description):
            assert graph.value(dataset, demanded)
        files = {entry["path"]: entry["sha256"] for entry in record(folder, MANIFEST)["files"]}
        hashes = rdflib.Namespace("http://spdx.org/rdf/terms#")
        distributions = [*graph.objects(dataset, rdflib.DCAT.distribution)]
        assert distributions
        for each in distributions:
            address = str(graph.value(each, rdflib.DCAT.accessURL))
            digest = graph.value(graph.value(each, hashes.checksum), hashes.checksumValue)
            assert str(digest).lower() == files[address.removeprefix(base)]
        assert (graph.value(dataset, rdflib.DCTERMS.publisher) is None) == (folder == releases["lodes"])


def test_the_read_me_explains_every_column_and_its_lines_run(
    releases: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder, release in described(releases):
        text = words_of_release(folder)
        for table in release.description.tables:
            path = folder / table.files[-1]
            read = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
            columns = read(path).columns if "shapes" not in table.name else ()
            assert [*columns] in ([], [column.name for column in table.columns])
            assert all(f"| `{column.name}` | " in text for column in table.columns)
        monkeypatch.chdir(folder)
        (lines,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
        found: dict[str, Any] = {}
        with redirect_stdout(io.StringIO()) as printed:
            exec(lines, found)
        flows, draws = found["flows"], [f"draw_{k}" for k in range(1, 20)]
        printed_flows = printed.getvalue().splitlines()[1:6]
        largest = flows.nlargest(5, "estimate")
        for line, row in zip(printed_flows, largest.itertuples(), strict=False):
            assert row.home in line
            assert row.work in line
            assert row.low <= row.estimate <= row.high
        shared = pd.read_parquet("plan/pools.parquet")["shared"].any()
        assert ("of a shared pool" in " ".join(text.split())) == shared, "what is not there is not spoken of"
        assert (flows[draws].sum() == release.certificate.totals.synthetic_workers).all()
        jobs = flows.groupby("work")[draws].sum()
        assert jobs.eq(jobs["draw_1"], axis=0).all(axis=None), "jobs at workplaces are public"
    text = " ".join(words_of_release(releases["parts"]).split())
    assert "T = u + B / 2" in text
    assert "is a synthetic worker of one implicate." in text
    assert "number of homes that the release has for it: n for each of 2 implicates" in text
    said = pipelines.open_release(releases["parts"]).description.summary
    assert "one person with at most 3 job records" in said
    assert "55 \\| more" in text
    assert "code of its tract of the town's own, which consists of whole areas of bgrp;" in text
    assert 'Publisher: Office of "Data" | Ä' in text


def test_a_record_that_says_otherwise_is_refused(releases: dict[str, Path], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(releases["parts"], tmp_path / "public"))
    certificate = pipelines.open_release(copy).certificate
    for name in RECORDS:
        before = (copy / name).read_bytes()
        edit_json(copy / name, lambda document: document.update(description="True."))
        seal(copy, certificate)
        assert refused(copy).reason == f"{name} is not what the plan, the certificate and the files give"
        (copy / name).write_bytes(before)
    (copy / CROISSANT).unlink()
    seal(copy, certificate)
    assert (
        refused(copy).reason == f"files are missing, or do not belong to a release of this kind: {CROISSANT}"
    )
