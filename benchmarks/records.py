"""Have the programs that records are for read those of releases: mlcroissant, frictionless, a JSON Schema.

    python benchmarks/records.py                                 every example, released into out/records
    python benchmarks/records.py examples/leeds.toml             one of them
    python benchmarks/records.py out/demo/public                 a release that there is

An example is released with a licence, a publisher and a contact, which DCAT-US asks for. A row for each
release: for Croissant errors, warnings, and tables whose first row was read; for the Data Package errors, and
rows of CSV that were read and checked against it; for DCAT-US errors against what its schema asks.
"""

import json
import logging
import subprocess
import sys
import warnings
from pathlib import Path

import frictionless
import jsonschema
import mlcroissant

import geo_data
import pipelines

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
SCHEMA = json.loads(Path(__file__).with_name("dcat_us.schema.json").read_text(encoding="utf-8"))
ABOUT = '[release]\nlicence = "CC-BY-4.0"\npublisher = "Office of Statistics"\ncontact = "data@example.org"\n'


def released(example: Path) -> Path:
    """Release an example into out/records, unless it is there, and return its public folder."""
    out = ROOT / "out" / "records" / example.stem
    if not out.exists():
        if example.stem == "demo":
            geo_data.write_demo_region(ROOT / "out" / "demo-inputs")
        if example.stem == "workplaces":
            subprocess.run([sys.executable, example.with_suffix(".py")], check=True, capture_output=True)
        text = example.read_text(encoding="utf-8").replace("[release]\n", ABOUT, 1)
        pipelines.run(pipelines.parse_config(text, example.parent, example.name).with_out(out))
    return out / "public"


def croissant(folder: Path) -> str:
    """Read a row of every table but shapes, of which mlcroissant reads no geometry."""
    dataset = mlcroissant.Dataset(jsonld=folder / "croissant.json")
    issues, names = dataset.metadata.ctx.issues, [one.name for one in dataset.metadata.record_sets]
    read = [name for name in names if not name.startswith("shapes") and next(iter(dataset.records(name)))]
    said = "; ".join(sorted(issue.split("] ")[-1] for issue in issues.warnings)) or "no warnings"
    return f"{len(issues.errors)} errors, {said}; {len(read)} of {len(names)} tables"


def data_package(folder: Path) -> str:
    """Check the description, and every row of every CSV file against it."""
    document = json.loads((folder / "datapackage.json").read_text(encoding="utf-8"))
    for resource in document["resources"]:
        if isinstance(resource["path"], list):  # of the standard; frictionless calls the rest by another name
            resource["path"], *resource["extrapaths"] = resource["path"]
    errors, rows = len([*frictionless.Package.metadata_validate(document)]), 0
    for resource in document["resources"]:
        if resource["format"] == "csv":
            found = frictionless.Resource.from_descriptor(resource, basepath=str(folder)).validate()
            errors += found.stats["errors"]
            rows += found.tasks[0].stats["rows"]
    return f"{errors} errors; {rows:,} rows of CSV"


def dcat_us(folder: Path) -> str:
    """Check the record against the schema; a release without publisher and contact has none."""
    path = folder / "dcat-us.json"
    if not path.is_file():
        return "none: no publisher or contact"
    checker = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
    document = json.loads(path.read_text(encoding="utf-8"))
    return f"{len([*checker.iter_errors(document)])} errors; {len(document['distribution'])} files"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| release | croissant.json, by mlcroissant | datapackage.json, by frictionless | dcat-us.json |")
    print("| --- | --- | --- | --- |")
    for given in map(Path, sys.argv[1:] or sorted(EXAMPLES.glob("*.toml"))):
        public = released(given.resolve()) if given.suffix == ".toml" else given
        title = json.loads((public / "datapackage.json").read_text(encoding="utf-8"))["title"]
        print(f"| {title} | {croissant(public)} | {data_package(public)} | {dcat_us(public)} |", flush=True)
