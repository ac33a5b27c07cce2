"""Corrections of a release: what it says of itself otherwise than its plan, since when and why.

A plan quotes the configuration, and the certificate has its hash. So a title, a licence or a label that was
wrong stays there, and the file of corrections has what holds instead. Nothing of it decides a draw, a bound
or a number: `apart` says which keys there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError

from pipelines.config.fields import Line
from pipelines.config.loading import PUBLIC, PublicConfig
from pipelines.config.sections import AttributeSettings, Section
from pipelines.plans.plan import ReleasePlan
from pipelines.release.certificate import Certificate
from pipelines.release.description import Correction, ReleaseDescription, version_of
from pipelines.release.names import NAME_FILE
from pipelines.storage.documents import check_format, read_json

CORRECTION_FILE = "corrections.json"

_FORMAT = "odsynth corrections 1.0"
_OF_RELEASE = ("name", "licence", "publisher", "contact", "citation")
_OF_ATTRIBUTE = ("meaning", "unit", "labels")

Words = dict[str, Any]


@dataclass(frozen=True)
class Corrections:
    """What a release says of itself otherwise than its plan, and the corrections that were made, in order."""

    release: Mapping[str, str | None]  # keys of [release]
    attribute: Mapping[str, Words]  # keys of each [[attribute]], by its name
    made: tuple[Correction, ...]

    def config(self, planned: PublicConfig) -> PublicConfig:
        """Return the configuration that a plan quotes, corrected."""
        if not self.made:
            return planned
        quoted = planned.quoted()
        quoted["release"] |= self.release
        tables = _by_name(quoted)
        for name, words in self.attribute.items():
            tables[name] = _table(tables, name) | words
        return PUBLIC.validate_python(quoted | {"attribute": [*tables.values()]})

    def plan(self, plan: ReleasePlan) -> ReleasePlan:
        """Return a plan with the corrected configuration, for what is said of it."""
        return replace(plan, config=self.config(plan.config))

    def certificate(self, certificate: Certificate) -> Certificate:
        """Return a certificate with the corrected title, for what is said of it."""
        title = self.release.get("name", certificate.release.name)
        return certificate.model_copy(
            update={"release": certificate.release.model_copy(update={"name": title})}
        )

    def description(self, about: ReleaseDescription) -> ReleaseDescription:
        """Return the description of a corrected release with its corrections, and the day of the last one."""
        if not self.made:
            return about
        return replace(about, version=version_of(self.made[-1].date), corrections=self.made)


UNCORRECTED = Corrections({}, {}, ())
"""Of a release as it was drawn."""


def apart(planned: PublicConfig, wanted: PublicConfig) -> tuple[Words, dict[str, Words], list[str]]:
    """Return how a configuration differs from a plan's: of `[release]`, of `[[attribute]]`, and the rest.

    The first two are what holds instead, of keys that can be corrected; the last are names of keys that
    cannot, because data or promises depend on them.
    """
    a, b = planned.quoted(), wanted.quoted()
    release = {key: b["release"][key] for key in _OF_RELEASE if b["release"][key] != a["release"][key]}
    tables, wanted_tables, others = _by_name(a), _by_name(b), []
    attribute = {}
    for name in dict.fromkeys([*tables, *wanted_tables]):
        before, after = _table(tables, name), _table(wanted_tables, name)
        differ = [key for key in before if before[key] != after[key]]
        others += [f"attribute.{key} of {name}" for key in differ if key not in _OF_ATTRIBUTE]
        if words := {key: after[key] for key in differ if key in _OF_ATTRIBUTE}:
            attribute[name] = words
    for section in (name for name in a if name != "attribute"):
        if isinstance(a[section], dict) and isinstance(b[section], dict):
            keys = dict.fromkeys([*a[section], *b[section]])
            differ = [key for key in keys if a[section].get(key) != b[section].get(key)]
            skipped = _OF_RELEASE if section == "release" else ()
            others += [f"{section}.{key}" for key in differ if key not in skipped]
        elif a[section] != b[section]:
            others.append(section)
    return release, attribute, others


def corrections_text(corrections: Corrections) -> str:
    """Return the text of the file of corrections."""
    document = {
        "format": _FORMAT,
        "release": dict(corrections.release),
        "attribute": {name: dict(words) for name, words in corrections.attribute.items()},
        "corrections": [vars(one) | {"changed": list(one.changed)} for one in corrections.made],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def read_corrections(folder: Path, planned: PublicConfig) -> Corrections:
    """Read the corrections of a release, of which there are some, and check them.

    `planned` is the configuration that its plan quotes.
    """
    path = folder / CORRECTION_FILE
    document = read_json(path)
    check_format(document, CORRECTION_FILE, _FORMAT)
    try:
        read = _Document.model_validate(document)
        made = tuple(Correction(**one.model_dump()) for one in read.corrections)
        corrections = Corrections(read.release, read.attribute, made)
        release, attribute, others = apart(planned, corrections.config(planned))
    except ValidationError as error:
        keys = sorted({".".join(map(str, e["loc"])) for e in error.errors(include_url=False)})
        raise ValueError(f"{CORRECTION_FILE}: not of its form: {', '.join(keys)}") from error
    if others or (release, attribute) != (read.release, read.attribute):
        raise ValueError(f"{CORRECTION_FILE}: it has keys that cannot be corrected, or are as in the plan")
    told, dates = {part for one in made for part in one.changed}, [one.date for one in made]
    if not {*_parts(release, attribute)} <= told or dates != sorted(dates):
        raise ValueError(f"{CORRECTION_FILE}: no correction tells of a change, or they are not in order")
    if path.read_bytes() != corrections_text(corrections).encode():
        raise ValueError(f"{CORRECTION_FILE}: it is not written as this program writes it")
    return corrections


def correct_further(
    before: Corrections, release: Words, attribute: dict[str, Words], *, names: bool
) -> tuple[str, ...]:
    """Return what a further correction changes, by which a release then differs so from its plan."""
    parts = _parts(_changed(before.release, release), _changed(before.attribute, attribute))
    return (*parts, *([NAME_FILE] if names else []))


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the keys that came, went or have another value, which may be None."""
    return [key for key in dict.fromkeys([*before, *after]) if before.get(key, ...) != after.get(key, ...)]


def _parts(release: Iterable[str], attribute: Iterable[str]) -> list[str]:
    return [*(f"release.{key}" for key in release), *(f"attribute.{name}" for name in attribute)]


def _by_name(quoted: Mapping[str, Any]) -> dict[str, Words]:
    return {table["name"]: table for table in quoted["attribute"]}


def _table(tables: Mapping[str, Words], name: str) -> Words:
    """Return what a configuration says of an attribute, also where it says nothing."""
    return tables.get(name) or AttributeSettings(name=name).model_dump(mode="json")


_PART = "|".join([rf"release\.({'|'.join(_OF_RELEASE)})", r"attribute\..+", NAME_FILE.replace(".", r"\.")])


class _Correction(Section):
    date: Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    reason: Line
    changed: Annotated[
        tuple[Annotated[Line, StringConstraints(pattern=f"^({_PART})$")], ...],
        Field(strict=False, min_length=1),
    ]
    corrects: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class _Document(Section):
    format: Literal["odsynth corrections 1.0"]
    release: dict[str, str | None]
    attribute: dict[str, Words]
    corrections: Annotated[tuple[_Correction, ...], Field(strict=False, min_length=1)]
