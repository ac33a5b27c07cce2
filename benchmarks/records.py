"""Have the programs that records are for read those of releases: mlcroissant and frictionless.

    python benchmarks/records.py out/demo/public out/leeds/public

A row for each release: for Croissant errors, warnings, and tables whose first row was read; for the Data
Package errors, and rows of CSV that were read and checked against it.
"""

import json
import logging
import sys
import warnings
from pathlib import Path

import frictionless
import mlcroissant


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


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| release | croissant.json, by mlcroissant | datapackage.json, by frictionless |")
    print("| --- | --- | --- |")
    for given in sys.argv[1:]:
        public = Path(given)
        title = json.loads((public / "datapackage.json").read_text(encoding="utf-8"))["title"]
        print(f"| {title} | {croissant(public)} | {data_package(public)} |", flush=True)
