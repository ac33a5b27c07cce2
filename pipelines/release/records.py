"""What a release says of itself to machines: Data Package, Croissant, DCAT-AP, DCAT-US, of one description.

They are functions of the description and of the other files, so `verify` writes them again and compares.
Names of files are relative: a release does not know its address.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.config.sections import PublicReleaseSettings
from pipelines.release.description import Column, ReleaseDescription, Table
from pipelines.release.pages import phrases

DATA_PACKAGE = "datapackage.json"
CROISSANT = "croissant.json"
DCAT_AP = "dcat-ap.jsonld"
DCAT_US = "dcat-us.json"
RECORDS = (DATA_PACKAGE, CROISSANT, DCAT_AP, DCAT_US)


class _Files:
    """Files of a release, of which those of a folder of parts are one table."""

    def __init__(self, described: Mapping[str, tuple[int, str]]) -> None:
        self._described = described
        self._parts: dict[str, list[str]] = {}
        for name in sorted(described):
            folder = name.rpartition("/")[0]
            self._parts.setdefault(folder if folder.endswith(".parquet") else name, []).append(name)

    def __getitem__(self, name: str) -> tuple[int, str]:
        return self._described[name]

    def parts(self, name: str) -> list[str]:
        """Return the files that a table is in: one, or those of a folder of parts."""
        return self._parts[name]

    def single(self, name: str) -> bool:
        """Say whether a table is one file."""
        return self._parts[name] == [name]


_MEDIA = {".csv.gz": "application/gzip", ".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


def record_files(release: PublicReleaseSettings) -> tuple[str, ...]:
    """Return the names of the records that a release has: DCAT-US needs a publisher and a contact."""
    return RECORDS if release.publisher and release.contact else RECORDS[:-1]


def record_texts(description: ReleaseDescription, described: Mapping[str, tuple[int, str]]) -> dict[str, str]:
    """Return the text of each record of a release."""
    files = _Files(described)
    documents = {
        DATA_PACKAGE: _data_package(description, files),
        CROISSANT: _croissant(description, files),
        DCAT_AP: _dcat_ap(description, files),
    }
    if description.publisher and description.contact:
        documents[DCAT_US] = _dcat_us(description, files)
    return {
        name: json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        for name, document in documents.items()
    }


def _data_package(about: ReleaseDescription, files: _Files) -> dict[str, Any]:
    """Return a Data Package, version 2, with a Table Schema for each table."""
    say, resources = phrases(about.language), []
    for table in about.tables:
        schema = {"fields": [_table_schema_field(column) for column in table.columns]}
        for name in table.files:
            integrity = {}
            if files.single(name):
                integrity = {"bytes": files[name][0], "hash": f"sha256:{files[name][1]}"}
            form = "parquet" if name.endswith(".parquet") else "csv"
            resources.append(
                {
                    "name": f"{table.name}-{form}",
                    "type": "table",
                    "title": say.row(table.meaning),
                    "path": name if integrity else files.parts(name),
                    "format": form,
                    "mediatype": _media_type(name),
                    **({"compression": "gz"} if name.endswith(".gz") else {}),
                    **({"encoding": "utf-8"} if form == "csv" else {}),
                    **integrity,
                    "schema": schema,
                }
            )
    return {
        "$schema": "https://datapackage.org/profiles/2.0/datapackage.json",
        "name": re.sub(r"[^a-z0-9]+", "-", about.title.lower()).strip("-") or "release",
        "id": about.identifier,
        "title": about.title,
        "description": about.summary,
        "created": about.created,
        "version": about.version,
        "keywords": list(about.keywords),
        **({"licenses": [_licence(about.licence)]} if about.licence else {}),
        **_if_known(contributors=_contributors(about)),
        "citation": about.citation,
        "resources": resources,
    }


_TABLE_SCHEMA_TYPES = {"text": "string", "geometry": "any", "integers": "array"}


def _table_schema_field(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": _TABLE_SCHEMA_TYPES.get(column.kind, column.kind),
        "description": column.meaning,
        **_if_known(unit=column.unit),
        **_if_known(categories=[{"value": code, "label": label} for code, label in column.labels.items()]),
    }


def _contributors(about: ReleaseDescription) -> list[dict[str, Any]]:
    if not (about.publisher or about.contact):
        return []
    name = about.publisher or phrases(about.language).unnamed_publisher
    return [{"title": name, **_if_known(email=about.contact), "roles": ["publisher", "contact"]}]


def _licence(licence: str) -> dict[str, str]:
    if licence.startswith(("http://", "https://")):
        return {"path": licence}
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", licence).strip("-") or "other"
    return {"name": name, "title": licence}


# That of the specification, version 1.0, with the name of its vocabulary of responsible AI, but its language.
_CROISSANT_CONTEXT = {
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def _croissant(about: ReleaseDescription, files: _Files) -> dict[str, Any]:
    """Return a Croissant record, which is a schema.org Dataset too."""
    distribution: list[dict[str, Any]] = []
    say = phrases(about.language)
    for table in about.tables:
        for name in table.files:
            if files.single(name):
                size, digest = files[name]
                distribution.append(
                    {
                        "@type": "cr:FileObject",
                        "@id": name,
                        "name": name,
                        "description": say.row(table.meaning),
                        "contentUrl": name,
                        "contentSize": f"{size} B",
                        "encodingFormat": _encoding_format(name),
                        "sha256": digest,
                    }
                )
            else:
                distribution.append(
                    {
                        "@type": "cr:FileSet",
                        "@id": name,
                        "name": name,
                        "description": say.parts_of_rows(table.meaning),
                        "encodingFormat": _encoding_format(name),
                        "includes": f"{name}/*.parquet",
                    }
                )
    owner = {"@type": "sc:Organization", **_if_known(name=about.publisher, email=about.contact)}
    return {
        "@context": {"@language": about.language, **_CROISSANT_CONTEXT},
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": about.title,
        "description": about.summary,
        "identifier": about.identifier,
        **_if_known(license=about.licence),
        **({"publisher": owner, "creator": owner} if len(owner) > 1 else {}),
        "citeAs": about.citation,
        "datePublished": about.created,
        **_if_known(dateModified=about.modified),
        "version": about.version,
        "temporalCoverage": str(about.year),
        **_if_known(spatialCoverage=_box(about)),
        "keywords": list(about.keywords),
        "isLiveDataset": False,
        "rai:personalSensitiveInformation": say.privacy,
        "rai:dataLimitations": say.limits,
        "distribution": distribution,
        "recordSet": [_record_set(table, files, say) for table in about.tables],
    }


_CROISSANT_TYPES = {
    "text": "sc:Text",
    "integer": "sc:Integer",
    "number": "sc:Float",
    "boolean": "sc:Boolean",
    "geometry": "sc:Text",
    "integers": "sc:Integer",
}


def _record_set(table: Table, files: _Files, say: Any) -> dict[str, Any]:
    name = table.files[-1]  # Parquet, which keeps types
    kind = "fileObject" if files.single(name) else "fileSet"
    return {
        "@type": "cr:RecordSet",
        "@id": table.name,
        "name": table.name,
        "description": say.row(table.meaning),
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{table.name}/{column.name}",
                "name": column.name,
                "description": column.words,
                "dataType": _CROISSANT_TYPES[column.kind],
                **_if_known(repeated=column.kind == "integers"),
                "source": {kind: {"@id": name}, "extract": {"column": column.name}},
            }
            for column in table.columns
        ],
    }


def _box(about: ReleaseDescription) -> dict[str, Any] | None:
    if about.box is None:
        return None
    return {"@type": "sc:Place", "geo": {"@type": "sc:GeoShape", "box": about.box}}


def _parts(about: ReleaseDescription, files: _Files) -> Iterator[tuple[Table, str, int, str]]:
    """Yield each file of each table, with its size and its hash."""
    for table in about.tables:
        for name in table.files:
            for part in files.parts(name):
                yield table, part, *files[part]


DCAT_AP_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "gsp": "http://www.opengis.net/ont/geosparql#",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
"""Of the record for catalogues in Europe."""
_AUTHORITY = "http://publications.europa.eu/resource/authority"  # vocabularies of the Publications Office
_MEDIA_TYPES = "http://www.iana.org/assignments/media-types"


def _dcat_ap(about: ReleaseDescription, files: _Files) -> dict[str, Any]:
    """Return a Dataset of DCAT-AP 3.0 for catalogues in Europe; addresses are relative to the folder."""
    say = phrases(about.language)

    def text(words: str) -> dict[str, str]:
        return {"@value": words, "@language": about.language}

    def typed(value: str, kind: str) -> dict[str, str]:
        return {"@value": value, "@type": kind}

    distribution = []
    for table, part, size, digest in _parts(about, files):
        distribution.append(
            {
                "@type": "dcat:Distribution",
                "dct:title": part,
                "dct:description": text(say.row(table.meaning)),
                "dcat:accessURL": {"@id": part},
                "dcat:downloadURL": {"@id": part},
                "dcat:mediaType": {"@id": f"{_MEDIA_TYPES}/{_media_type(part)}"},
                "dcat:byteSize": typed(str(size), "xsd:nonNegativeInteger"),
                "spdx:checksum": {
                    "@type": "spdx:Checksum",
                    "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                    "spdx:checksumValue": typed(digest, "xsd:hexBinary"),
                },
                **({"dct:license": _licence_document(about.licence)} if about.licence else {}),
            }
        )
    optional: dict[str, Any] = {}
    if about.publisher:
        optional["dct:publisher"] = {"@type": "foaf:Agent", "foaf:name": about.publisher}
    if about.contact:
        optional["dcat:contactPoint"] = {
            "@type": "vcard:Organization",
            "vcard:fn": about.publisher or say.unnamed_publisher,
            "vcard:hasEmail": {"@id": f"mailto:{about.contact}"},
        }
    if region := _polygon(about):
        optional["dct:spatial"] = {"@type": "dct:Location", "dcat:bbox": typed(region, "gsp:wktLiteral")}
    return {
        "@context": DCAT_AP_CONTEXT,
        "@id": about.identifier,
        "@type": "dcat:Dataset",
        "dct:title": text(about.title),
        "dct:description": text(f"{about.summary} {say.limits} {say.cite(about.citation)}"),
        "dct:identifier": about.identifier,
        **optional,
        "dcat:theme": [{"@id": f"{_AUTHORITY}/data-theme/{theme}"} for theme in ("SOCI", "TRAN")],
        "dcat:keyword": [text(word) for word in about.keywords],
        "dct:language": {"@id": f"{_AUTHORITY}/language/{say.authority_language}"},
        "dct:accessRights": {"@id": f"{_AUTHORITY}/access-right/PUBLIC"},
        "dct:issued": typed(about.created, "xsd:dateTime"),
        **({"dct:modified": typed(about.modified, "xsd:dateTime")} if about.modified else {}),
        "dcat:version": about.version,
        "dct:temporal": {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": typed(f"{about.year}-01-01", "xsd:date"),
            "dcat:endDate": typed(f"{about.year}-12-31", "xsd:date"),
        },
        "dcat:distribution": distribution,
    }


def _licence_document(licence: str) -> dict[str, str]:
    if licence.startswith(("http://", "https://")):
        return {"@id": licence}
    return {"@type": "dct:LicenseDocument", "dct:title": licence}


def _dcat_us(about: ReleaseDescription, files: _Files) -> dict[str, Any]:
    """Return a Dataset of DCAT-US 3.0, ready for a catalogue that adds the addresses."""
    described = {"@type": "Distribution", "title": DATA_PACKAGE, "mediaType": "application/json"}
    say, distribution = phrases(about.language), []
    for table, part, size, digest in _parts(about, files):
        distribution.append(
            {
                "@type": "Distribution",
                "title": part,
                "description": say.row(table.meaning),
                "mediaType": _media_type(part),
                "byteSize": str(size),
                "checksum": {"@type": "Checksum", "algorithm": "SHA-256", "checksumValue": digest},
                **_if_known(license=about.licence),
                "describedBy": described,
            }
        )
    year = str(about.year)
    return {
        "@type": "Dataset",
        "title": about.title,
        "description": about.summary,
        "identifier": about.identifier,
        "publisher": {"@type": "Organization", "name": about.publisher},
        "contactPoint": {"@type": "Kind", "fn": about.publisher, "hasEmail": f"mailto:{about.contact}"},
        "issued": about.created,
        **_if_known(modified=about.modified),
        "version": about.version,
        "keyword": list(about.keywords),
        "temporal": [{"@type": "PeriodOfTime", "startDate": year, "endDate": year}],
        **_if_known(spatial=_region(about)),
        "accessRights": "public",
        "scopeNote": f"{say.privacy} {say.limits} {say.cite(about.citation)}",
        "describedBy": described,
        "distribution": distribution,
    }


def _region(about: ReleaseDescription) -> dict[str, Any] | None:
    polygon = _polygon(about)
    return None if polygon is None else {"@type": "Location", "bbox": polygon}


def _polygon(about: ReleaseDescription) -> str | None:
    if about.extent is None:
        return None
    west, south, east, north = about.extent
    corners = ((west, south), (east, south), (east, north), (west, north), (west, south))
    ring = ", ".join(f"{x} {y}" for x, y in corners)
    return f"POLYGON(({ring}))"


def _media_type(name: str) -> str:
    return next(kind for ending, kind in _MEDIA.items() if name.endswith(ending))


def _encoding_format(name: str) -> str:
    """Return the name of a media type that Croissant's examples and readers have for Parquet."""
    return _media_type(name).replace("vnd.apache.parquet", "x-parquet")


def _if_known(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
