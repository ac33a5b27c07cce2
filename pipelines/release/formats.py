"""Certificates of every format: reading one as a certificate of today, and writing it as it was stated.

Format 1 (version 0.1.0) has one field, ``person``, for what is of one job record and what is of one person
with several (docs/formats.md).
"""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from packaging.version import Version

import synth
from pipelines.config.implicates import Implicates
from pipelines.release.certificate import (
    CERTIFICATE_FORMAT,
    KINDS,
    Certificate,
    certificate_schema,
)
from pipelines.storage.documents import parse_json, read_json

FIRST_FORMAT = "odsynth certificate 1"


def parse_certificate(content: str | bytes) -> Certificate:
    """Read certificate.json of any format.

    Returns
    -------
    Certificate
        In today's form. What format 1 does not state of one record is bounded from what it does, rounded up.

    Raises
    ------
    ValueError
        If it is of no format (a `pydantic.ValidationError` names the fields).
    """
    document = parse_json(content, "certificate.json")
    stated = document.get("format") if isinstance(document, dict) else None
    if stated != FIRST_FORMAT:
        kind = KINDS.get(stated, Certificate) if isinstance(stated, str) else Certificate
        return kind.model_validate_json(content)
    try:
        document = _from_first(document)
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"not of {FIRST_FORMAT}: {error}") from None
    return Certificate.model_validate_json(json.dumps(document))


def made_before_first(path: Path) -> str | None:
    """Say which version verifies a release of the days before 0.1.0, whose forms had no numbers of their own.

    Parameters
    ----------
    path : Path
        certificate.json, whatever it holds, if it is there.

    Returns
    -------
    str or None
        A sentence for an error, by the commit that the certificate names or else by the fields that it does
        not have yet. None if the release is of no such version.
    """
    try:
        document = read_json(path)
        stated, software = document["format"], document["software"]
        early = Version(software["version"]) < Version("0.1.0")
        missing = [name for name in ("curve",) if name not in document["person"]]
        missing += [name for name in ("implicates",) if name not in document]
        commit = str(software["commit"] or "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if stated != FIRST_FORMAT or not early:
        return None
    if not re.fullmatch("[0-9a-f]{7,64}", commit):
        commit = next((last for name, last in _LAST_WITHOUT.items() if name in missing), "99fd09d")
        commit = f"one up to {commit}, which made it"
    return (
        f"It says that it is of the days before version 0.1.0, which gave the name {FIRST_FORMAT} to other "
        f"forms. Fix: verify it with the program of its time, commit {commit}"
    )


# The last commits whose certificates have not these fields.
_LAST_WITHOUT = {"curve": "8be21e7", "implicates": "1330e6f"}


def _from_first(document: dict[str, Any]) -> dict[str, Any]:
    strange = {"record_level", "user_level", "presence", "population"} & document.keys()
    if strange := strange | ({"sbom_sha256"} & document["software"].keys()):
        raise ValueError(f"{', '.join(sorted(strange))}: not of {FIRST_FORMAT}")
    person, classes = dict(document.pop("person")), document.pop("classes")
    curve, own = person.pop("curve"), (person["epsilon"], person["delta"])
    if person["records"] > 1:  # what stands there is of all of them: of one, the largest delta of any class
        runs = Implicates(**{name: document["implicates"][name] for name in ("number", "source")}).runs
        largest = max(synth.exact(row["person_delta"]) for row in classes)
        own = (
            synth.decimal_up(synth.exact(person["epsilon"]) / person["records"]),
            synth.decimal_up(min(runs * largest, Fraction(1))),
        )
    return document | {
        "format": CERTIFICATE_FORMAT,
        "software": {**document["software"], "sbom_sha256": None},
        "record_level": {"epsilon": own[0], "delta": own[1], "curve": curve},
        "user_level": person,
        "presence": None,
        "population": None,
        "classes": [{_RECORD.get(name, name): value for name, value in row.items()} for row in classes],
    }


_RECORD = {"person_delta": "record_delta"}
_PERSON = {"record_delta": "person_delta"}


def dump_certificate(certificate: Certificate, stated_format: str) -> dict[str, Any]:
    """Return what `json.loads` gives of a certificate.json of the first format or its own."""
    document = certificate.model_dump(mode="json")
    if stated_format != FIRST_FORMAT:
        return document
    curve = document.pop("record_level")["curve"]
    del document["presence"], document["population"], document["software"]["sbom_sha256"]
    rows = [{_PERSON.get(name, name): value for name, value in row.items()} for row in document["classes"]]
    first = document | {"format": FIRST_FORMAT, "classes": rows}
    first["user_level"] |= {"curve": curve}
    return {"person" if name == "user_level" else name: value for name, value in first.items()}


def certificate_text(certificate: Certificate, stated_format: str = CERTIFICATE_FORMAT) -> str:
    """Return the text of certificate.json, of the first format or its own."""
    return json.dumps(dump_certificate(certificate, stated_format), indent=1, ensure_ascii=False) + "\n"


@cache
def schema_text(stated_format: str) -> str:
    """Return the text of the JSON Schema that a release with a certificate of this format carries."""
    if stated_format != FIRST_FORMAT:
        return json.dumps(certificate_schema(stated_format), indent=1) + "\n"
    return files("pipelines.release").joinpath("certificate-1.schema.json").read_text(encoding="utf-8")
