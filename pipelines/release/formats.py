"""Certificates of every format: reading one as a certificate of today, and writing it as it was stated.

Format 1 (version 0.1.0) has one field, ``person``, for what is of one job record and what is of one person
with several (docs/formats.md).
"""

from __future__ import annotations

import json
from fractions import Fraction
from importlib.resources import files
from typing import Any

import synth
from pipelines.config.implicates import Implicates
from pipelines.release.certificate import (
    CERTIFICATE_FORMAT,
    PROTECTED_FORMAT,
    Certificate,
    ProtectedCertificate,
    certificate_schema,
)

__all__ = ["FIRST_FORMAT", "dump_certificate", "parse_certificate", "schema_of"]

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
    document = json.loads(content)
    if isinstance(document, dict) and document.get("format") == PROTECTED_FORMAT:
        return ProtectedCertificate.model_validate_json(content)
    if not isinstance(document, dict) or document.get("format") != FIRST_FORMAT:
        return Certificate.model_validate_json(content)
    try:
        document = _from_first(document)
    except (KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ValueError(f"not of {FIRST_FORMAT}: {error}") from None
    return Certificate.model_validate_json(json.dumps(document))


def _from_first(document: dict[str, Any]) -> dict[str, Any]:
    if strange := {"record_level", "user_level"} & document.keys():
        raise ValueError(f"{', '.join(sorted(strange))}: not of {FIRST_FORMAT}")
    person, classes = dict(document.pop("person")), document.pop("classes")
    curve, own = person.pop("curve"), (person["epsilon"], person["delta"])
    if person["records"] > 1:  # what stands there is of all of them: of one, the largest delta of any class
        runs = Implicates(**{name: document["implicates"][name] for name in ("number", "source")}).runs
        largest = max(Fraction(row["person_delta"]) for row in classes)
        own = (
            synth.decimal_up(Fraction(person["epsilon"]) / person["records"]),
            synth.decimal_up(min(runs * largest, Fraction(1))),
        )
    return document | {
        "format": CERTIFICATE_FORMAT,
        "record_level": {"epsilon": own[0], "delta": own[1], "curve": curve},
        "user_level": person,
        "classes": [{_RECORD.get(name, name): value for name, value in row.items()} for row in classes],
    }


_RECORD = {"person_delta": "record_delta"}
_PERSON = {"record_delta": "person_delta"}


def dump_certificate(certificate: Certificate, stated_format: str) -> dict[str, Any]:
    """Return what `json.loads` gives of a certificate.json of a format, the first or one of today's."""
    document = certificate.model_dump(mode="json")
    if stated_format != FIRST_FORMAT:
        return document
    curve = document.pop("record_level")["curve"]
    rows = [{_PERSON.get(name, name): value for name, value in row.items()} for row in document["classes"]]
    person = document.pop("user_level") | {"curve": curve}
    return document | {"format": FIRST_FORMAT, "person": person, "classes": rows}


def schema_of(stated_format: str) -> dict[str, Any]:
    """Return the JSON Schema that a release with a certificate of this format carries."""
    if stated_format != FIRST_FORMAT:
        return certificate_schema(stated_format)
    text = files("pipelines.release").joinpath("certificate-1.schema.json").read_text(encoding="utf-8")
    return dict(json.loads(text))
