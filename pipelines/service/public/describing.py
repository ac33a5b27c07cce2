"""How a release is described to others: in a sentence, its licence, its citation, as a Dataset, in a feed."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from pipelines.release.certificate import Certificate
from pipelines.release.description import ReleaseDescription
from pipelines.release.promises import short_bound
from pipelines.service.public.catalog import Series, Version
from pipelines.service.public.downloads import media_type
from pipelines.service.public.formats import MEDIA_TYPES, Format
from pipelines.service.rendering import text
from pipelines.service.settings import ServiceSettings
from pipelines.views.labels import job_type_words, plural
from pipelines.views.release import Release

SITE = "Synthetic commuting data"
_CONTEXT = "https://schema.org/"
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"} | {
    character: rf"\{character}" for character in "{}$&%#_"
}
ATOM = "application/atom+xml"
_MOST_ENTRIES = 100  # of the feed
_NOT_XML = re.compile(
    "[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]"
)  # may be in an erratum
# What a release with several years says as its newest version does
_OF_ALL_YEARS = (
    *("@context", "keywords", "measurementTechnique", "isAccessibleForFree", "includedInDataCatalog"),
    *("license", "creator", "publisher", "spatialCoverage"),
)
_OFFERED: tuple[Format, ...] = ("csv", "geojson", "arrow")


def in_one_sentence(certificate: Certificate) -> str:
    """Say what a release is."""
    released = certificate.release
    return (
        f"{certificate.totals.synthetic_workers:,} synthetic workers of {released.year}, where they live and "
        f"where they work ({job_type_words(released.job_type)}). No row is a real person: homes were drawn "
        f"at random, with a certificate of differential privacy, epsilon "
        f"{short_bound(certificate.run.epsilon)} and delta {short_bound(certificate.run.delta)}."
    )


def in_a_series(series: Series) -> str:
    """Say what a release with several years is."""
    newest = _sentence(series.first)
    return f"Synthetic data sets of where people live and work, of {series.span}. The newest: {newest}"


@dataclass(frozen=True)
class Licence:
    """A licence: what it is called, and an address where it can be read, if one is known."""

    name: str
    address: str | None

    @classmethod
    def of(cls, words: str | None) -> Licence | None:
        """Understand what a configuration names: an address, a name such as CC-BY-4.0, or other words."""
        if words is None:
            return None
        if re.fullmatch(r"https?://\S+", words):
            return cls(words, words)
        try:
            identifier = canonicalize_license_expression(words)
        except InvalidLicenseExpression:
            return cls(words, None)
        single = re.fullmatch(r"[\w.-]+", identifier) and not identifier.startswith("LicenseRef-")
        return cls(identifier, f"https://spdx.org/licenses/{identifier}.html" if single else None)


@dataclass(frozen=True)
class Citation:
    """A citation, in words and for BibTeX."""

    words: str
    bibtex: str


def cite(version: Version, about: ReleaseDescription, address: str) -> Citation:
    """Return how to cite a version: as its release says, with where it is."""
    state, title, where = version.state, version.title, f"{address}{version.page}"
    fields = {
        "title": f"{{{_tex(title)}}}",
        "author": None if about.publisher is None else f"{{{_tex(about.publisher)}}}",
        "year": state.begun[:4],
        "note": f"Synthetic data set, version {_tex(state.version)}, SHA-256 {version.sha256}",
        "howpublished": rf"\url{{{where}}}",
    }
    return Citation(
        words=f"{about.citation.rstrip('. ')}. Version {state.version} [synthetic data set]. {where}",
        bibtex=_bibtex(f"{state.name}-{state.version}", fields),
    )


def cite_series(series: Series, about: ReleaseDescription, address: str) -> Citation:
    """Return how to cite a release with all its years, by what its newest version says."""
    where, years = f"{address}{series.page}", series.span
    title = f"{about.publisher}: {series.title}" if about.publisher else series.title
    fields = {
        "title": f"{{{_tex(series.title)}}}",
        "author": None if about.publisher is None else f"{{{_tex(about.publisher)}}}",
        "note": f"Synthetic data sets of {years}",
        "howpublished": rf"\url{{{where}}}",
    }
    return Citation(f"{title}. Synthetic data sets of {years}. {where}", _bibtex(series.name, fields))


def _bibtex(key: str, fields: Mapping[str, str | None]) -> str:
    key = re.sub(r"\W", "-", key, flags=re.ASCII)
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value is not None]
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def _tex(words: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in words)


@dataclass(frozen=True)
class Offer:
    """The tables of a level: what its areas are called; addresses from the root of the service, by format."""

    areas: str
    of_flows: dict[Format, str]
    of_areas: dict[Format, str]

    @classmethod
    def of(cls, version: Version, level: str) -> Offer:
        """Return those of a version."""

        def formats(question: str) -> dict[Format, str]:
            return {form: f"/api/v1{version.page}/{question}&format={form}" for form in _OFFERED}

        flows = formats(f"flows?work_level={level}&home_level={level}")
        return cls(plural(level), flows, formats(f"areas?level={level}"))


def data_set(series: Series, version: Version, release: Release, settings: ServiceSettings) -> dict[str, Any]:
    """Describe a version as schema.org's Dataset, for search engines."""
    certificate, about, address = release.certificate, release.description, settings.address
    licence = Licence.of(about.licence)
    # Who made the release, as it says itself, and who publishes it here; where only one is known, that one.
    organizations = (about.publisher, about.contact), (settings.publisher, settings.contact)
    creator, publisher = (_organization(*organization) for organization in organizations)
    described: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "Dataset",
        "@id": f"{address}{version.page}",
        "url": f"{address}{version.page}",
        "identifier": f"{address}{version.page}",
        "name": version.title,
        "description": in_one_sentence(certificate),
        "version": version.state.version,
        "datePublished": version.state.begun,
        "temporalCoverage": str(about.year),
        "keywords": list(about.keywords),
        "measurementTechnique": certificate.definition.words,
        "isAccessibleForFree": True,
        "variableMeasured": [
            {"@type": "PropertyValue", "name": name, "description": meaning}
            for name, meaning in release.counts.items()
        ],
        "includedInDataCatalog": {"@type": "DataCatalog", "name": SITE, "url": f"{address}/"},
        "distribution": [*_questions(version, release, address), *_files(version, address)],
    }
    if licence is not None:
        described["license"] = licence.address or {"@type": "CreativeWork", "name": licence.name}
    if creator or publisher:
        described |= {"creator": creator or publisher, "publisher": publisher or creator}
    if len(series.usable) > 1:
        described["isPartOf"] = _series(series, settings)
    if about.box is not None:
        described["spatialCoverage"] = {"@type": "Place", "geo": {"@type": "GeoShape", "box": about.box}}
    return described


def data_series(
    series: Series, version: Version, release: Release, settings: ServiceSettings
) -> dict[str, Any]:
    """Describe a release with its years as schema.org's Dataset, by what its newest version says."""
    newest = data_set(series, version, release, settings)
    if len(series.usable) == 1:
        return newest
    address = f"{settings.address}/api/v1{series.page}/years?format=csv"
    return _series(series, settings) | {
        **{key: newest[key] for key in _OF_ALL_YEARS if key in newest},
        "hasPart": [_entry(version, settings) for version in series.usable],
        "distribution": [
            {
                "@type": "DataDownload",
                "name": "jobs in every year, csv",
                "contentUrl": address,
                "encodingFormat": MEDIA_TYPES["csv"],
            }
        ],
    }


def data_catalog(every: Iterable[Series], settings: ServiceSettings) -> dict[str, Any]:
    """Describe the site as schema.org's DataCatalog, with the releases that can be used."""
    publisher = _organization(settings.publisher, settings.contact)
    return {
        "@context": _CONTEXT,
        "@type": "DataCatalog",
        "name": SITE,
        "url": f"{settings.address}/",
        **({} if publisher is None else {"publisher": publisher}),
        "dataset": [_series(series, settings) for series in every if series.usable],
    }


def _series(series: Series, settings: ServiceSettings) -> dict[str, Any]:
    """A release with its years, or its only version."""
    if len(series.usable) == 1:
        return _entry(series.first, settings)
    where = f"{settings.address}{series.page}"
    return {
        "@type": "Dataset",
        "@id": where,
        "url": where,
        "identifier": where,
        "name": series.title,
        "description": in_a_series(series),
        "temporalCoverage": f"{series.usable_years[0]}/{series.usable_years[-1]}",
    }


def _entry(version: Version, settings: ServiceSettings) -> dict[str, Any]:
    """A version, in short."""
    where = f"{settings.address}{version.page}"
    return {
        "@type": "Dataset",
        "@id": where,
        "url": where,
        "name": version.title,
        "description": _sentence(version),
        "version": version.state.version,
    }


def _sentence(version: Version) -> str:
    return "" if version.certificate is None else in_one_sentence(version.certificate)


def _questions(version: Version, release: Release, address: str) -> list[dict[str, str]]:
    offer = Offer.of(version, release.usual_level())
    return [
        {
            "@type": "DataDownload",
            "name": f"{content}, {form}",
            "contentUrl": f"{address}{where}",
            "encodingFormat": MEDIA_TYPES[form],
        }
        for content, formats in (
            (f"flows between {offer.areas}", offer.of_flows),
            (offer.areas, offer.of_areas),
        )
        for form, where in formats.items()
    ]


def _files(version: Version, address: str) -> list[dict[str, str]]:
    return [
        {
            "@type": "DataDownload",
            "name": file.name,
            "contentUrl": f"{address}{version.address(file)}",
            "encodingFormat": media_type(file.name),
            "contentSize": f"{file.size} B",
            "sha256": file.sha256,
        }
        for file in version.files.values()
        if file.name.endswith((".csv.gz", ".parquet")) and "_od_" in file.name
    ]


def _organization(name: str | None, contact: str | None) -> dict[str, Any] | None:
    if name is None:
        return None
    described: dict[str, Any] = {"@type": "Organization", "name": name}
    if contact is not None:
        kind = "url" if contact.startswith("http") else "email"
        described["contactPoint"] = {
            "@type": "ContactPoint",
            "contactType": "customer service",
            kind: contact,
        }
    return described


def atom(versions: Iterable[Version], address: str, author: str) -> bytes:
    """Write the feed."""
    entries = sorted(((_updated(version), version) for version in versions), key=lambda entry: entry[0])
    # Of the content: it stays when the service moves.
    latest = [
        (_id(v.state.name, v.state.version, v.sha256), when, v) for when, v in entries[::-1][:_MOST_ENTRIES]
    ]
    updated = latest[0][1] if latest else "1970-01-01T00:00:00+00:00"
    feed = text("feed.xml", address=address, author=author, id=_id(address), updated=updated, entries=latest)
    return _NOT_XML.sub("", feed).encode()


def _updated(version: Version) -> str:
    remarks = [remark.date for remark in version.state.errata]
    withdrawn = [] if version.state.withdrawn is None else [version.state.withdrawn.date]
    return max([version.state.begun, *remarks, *withdrawn])


def _id(*parts: str) -> str:
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(parts))}"
