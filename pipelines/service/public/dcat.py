"""The site as a catalogue of DCAT-AP 3, for data portals: records of releases, with addresses and series."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from pipelines.release.records import DCAT_AP, DCAT_AP_CONTEXT
from pipelines.service.public.catalog import Catalog, Series, Version
from pipelines.service.public.describing import SITE, in_a_series
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError

JSON_LD = "application/ld+json"
_CONTEXT = DCAT_AP_CONTEXT | {"adms": "http://www.w3.org/ns/adms#"}
_WHAT = "Where people live and where they work: synthetic data with certificates of differential privacy."

Node = dict[str, Any]


def dcat_catalog(catalog: Catalog, every: list[Series], settings: ServiceSettings) -> bytes:
    """Write the catalogue: the versions to be used, in a series where a release has several years."""
    nodes = [node for series in every for node in _of_series(catalog, series, settings.address)]
    site = {
        "@id": f"{settings.address}/",
        "@type": "dcat:Catalog",
        "dct:title": _text(SITE),
        "dct:description": _text(_WHAT),
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": settings.publisher or settings.address},
        "foaf:homepage": {"@id": f"{settings.address}/"},
        "dcat:dataset": [{"@id": node["@id"]} for node in nodes],
    }
    return json.dumps({"@context": _CONTEXT, "@graph": [site, *nodes]}, ensure_ascii=False).encode()


def _of_series(catalog: Catalog, series: Series, address: str) -> Iterator[Node]:
    nodes = []
    for version in series.usable:
        with suppress(ServiceError):  # its record is damaged
            nodes.append(_data_set(catalog, version, series, address))
    if len(nodes) < 2:
        yield from nodes
        return
    newest, where = nodes[0], {"@id": f"{address}{series.page}"}
    first, last = series.usable_years[0], series.usable_years[-1]
    yield {
        **where,
        "@type": "dcat:DatasetSeries",
        "dct:title": newest["dct:title"] | {"@value": series.title},  # in the language of its releases
        "dct:description": _text(in_a_series(series)),
        "dcat:landingPage": where,
        "dct:temporal": {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": _typed(f"{first}-01-01", "xsd:date"),
            "dcat:endDate": _typed(f"{last}-12-31", "xsd:date"),
        },
        "dcat:last": {"@id": newest["@id"]},
        **{
            key: newest[key] for key in ("dct:publisher", "dcat:contactPoint", "dct:spatial") if key in newest
        },
    }
    one_each = len(nodes) == len(series.usable_years)  # else there are several types of jobs
    for node, before in itertools.zip_longest(nodes, nodes[1:] if one_each else ()):
        yield node | {"dcat:inSeries": where} | ({"dcat:prev": {"@id": before["@id"]}} if before else {})


def _data_set(catalog: Catalog, version: Version, series: Series, address: str) -> Node:
    """The record of a version, with addresses, the version that it replaces, and errata."""
    record = json.loads(catalog.file(version, DCAT_AP).path.read_bytes())
    del record["@context"]
    where = {"@id": f"{address}{version.page}"}
    for part in record["dcat:distribution"]:
        address_of_file = f"{address}{version.address(version.files[part['dcat:downloadURL']['@id']])}"
        part |= {"dcat:accessURL": {"@id": address_of_file}, "dcat:downloadURL": {"@id": address_of_file}}
    before = [other for other in series.year_of(version).others if other.state.begun <= version.state.begun]
    return {
        **record,
        **where,
        "dct:title": record["dct:title"] | {"@value": version.title},
        "dcat:landingPage": where,
        "dcat:version": version.state.version,
        **({"dcat:previousVersion": {"@id": f"{address}{before[0].page}"}} if before else {}),
        # Officers write errata in the language that they like.
        **({"adms:versionNotes": errata} if (errata := [each.text for each in version.state.errata]) else {}),
    }


def _text(words: str) -> Node:
    return {"@value": words, "@language": "en"}


def _typed(value: str, kind: str) -> Node:
    return {"@value": value, "@type": kind}
