"""What an exported file is, for all formats: where its data come from, and what its columns mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from pipelines.storage.checksums import sha256_of
from pipelines.views.labels import singular
from pipelines.views.release import Release

NO_LICENCE = "not stated in the release: ask who published it"


def provenance(release: Release) -> dict[str, str]:
    """Return what belongs to every copy of the data.

    ``title``, ``description`` (`one_sentence`), ``synthetic``, ``licence``, ``citation``, ``publisher`` and
    ``contact`` where the release names them, ``version`` (`Release.version`), ``created``, ``epsilon``,
    ``delta``, ``plan_sha256``, ``certificate_sha256``, and, of several, which ``implicate``.
    """
    certificate, description = release.certificate, release.description
    about = {
        "title": certificate.release.name,
        "description": one_sentence(release),
        "synthetic": "yes: no row is a real person",
        "licence": release.licence or NO_LICENCE,
        "citation": description.citation,
        **{key: text for key in ("publisher", "contact") if (text := getattr(description, key))},
        "version": release.version,
        "created": certificate.created,
        "epsilon": certificate.run.epsilon,
        "delta": certificate.run.delta,
        "plan_sha256": certificate.plan_sha256,
        "certificate_sha256": sha256_of(release.public / "certificate.json"),
    }
    if release.implicates > 1:
        about["implicate"] = f"{release.implicate} of {release.implicates}"
    return about


def one_sentence(release: Release) -> str:
    """Return the most important of `provenance` in one sentence, for formats that have one place for it."""
    certificate = release.certificate
    status = "" if certificate.for_release else "NOT FOR RELEASE. "
    return (
        f"{status}Synthetic workers: no row is a real person. {certificate.release.name}; epsilon "
        f"{certificate.run.epsilon}, delta {certificate.run.delta}, plan {certificate.plan_sha256}."
    )


def column_meanings(release: Release, levels: Mapping[str, str]) -> dict[str, str]:
    """Return the meaning of every column that a table of an export, or an answer of the service, can have."""
    home, work = (f"{singular(levels[side])} where they {verb}" for side, verb in _SIDES.items())
    return {
        "zone": "number of the zone, by which zones and matrices are in order: its code, where those of all "
        "are whole numbers without leading zeros; else from 1",
        "code": "code of the zone, text",
        "name": "name of the zone",
        "external": "whether the zone is an external one, which has no place",
        "latitude": "of the zone's point, the mean of its blocks' centroids; degrees, WGS84",
        "longitude": "of the zone's point, the mean of its blocks' centroids; degrees, WGS84",
        "home": f"code of the zone ({home}), text",
        "work": f"code of the zone ({work}), text",
        "home_name": f"name of the zone ({home})",
        "work_name": f"name of the zone ({work})",
        **{
            f"{side}_{axis}": f"{axis} of the point of the zone ({end}); degrees, WGS84"
            for side, end in (("home", home), ("work", work))
            for axis in ("longitude", "latitude")
        },
        **{name: f"{meaning}: number of synthetic workers" for name, meaning in release.counts.items()},
        **{
            f"{side}_{name}": f"{meaning}: number of synthetic workers who {verb} in the zone"
            for side, verb in _SIDES.items()
            for name, meaning in release.counts.items()
        },
        "low": "lower end of the interval of the first count, in which the released one need not lie",
        "high": "upper end of the interval of the first count, in which the released one need not lie",
    }


def interval_columns(count: str) -> tuple[str, str]:
    """Return the columns of flows that have the ends of the interval of a count."""
    after = "" if count == "S000" else f"_{count}"
    return f"low{after}", f"high{after}"


_SIDES = {"home": "live", "work": "work"}


def describe_csv(
    path: Path, head: pd.DataFrame, about: Mapping[str, str], meanings: Mapping[str, str], *more: str
) -> None:
    """Write beside a CSV file what it is: CSV on the Web, and GDAL's types.

    The file itself has rows and nothing else, so that every reader reads it.
    """
    columns = [
        {"name": name, "titles": name, "dc:description": meanings[str(name)], "datatype": _datatype(column)}
        for name, column in head.items()
    ]
    document: dict[str, Any] = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": "en"}],
        "url": path.name,
        "dc:title": about["title"],
        "dc:description": about["description"],
        "dc:rights": about["licence"],
        "notes": [dict(about), *more],
        "tableSchema": {"columns": columns},
    }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    path.with_name(f"{path.name}-metadata.json").write_text(f"{text}\n", encoding="utf-8")
    if path.suffix == ".csv":
        path.with_suffix(".csvt").write_text(f"{','.join(_csvt(head))}\n", encoding="utf-8")


def _datatype(column: pd.Series) -> str:
    if pd.api.types.is_integer_dtype(column):
        return "integer"
    return "double" if pd.api.types.is_float_dtype(column) else "string"


def _csvt(head: pd.DataFrame) -> list[str]:
    points = {"longitude": "CoordX", "lon": "CoordX", "latitude": "CoordY", "lat": "CoordY"}
    types = {"string": "String", "integer": "Integer64", "double": "Real"}
    return [points.get(str(name), types[_datatype(column)]) for name, column in head.items()]
