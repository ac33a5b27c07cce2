"""The page of a map: one HTML file with its program, its library, its data and its certificate inside."""

from __future__ import annotations

import base64
import errno
import hashlib
import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from geo_data.arguments import PathLike, path_of
from pipelines.config.languages import ENGLISH
from pipelines.release.certificate import Certificate, population_in_words
from pipelines.release.pages import number, phrases
from pipelines.release.promises import (
    exact_in_words,
    limits_in_words,
    odds_in_words,
    policy_in_words,
    presence_in_words,
    short_bound,
)
from pipelines.release.provenance import DISTRIBUTION
from pipelines.release.signing import is_signed, signature_in_words
from pipelines.storage.durable import write_whole
from pipelines.views.accuracy import accuracy_words
from pipelines.views.changes.comparable import check_years
from pipelines.views.folder import check_target
from pipelines.views.maps.backdrop import Backdrop
from pipelines.views.maps.payload import Payload, make_payload, make_years
from pipelines.views.maps.picture import picture_words
from pipelines.views.pages import map_phrases, render
from pipelines.views.release import Release

PARTS = "map"
"""The folder beside the page of a site's map, as the page names it."""

_ASKS = ("alone", "beside_link", "beside_versions")  # phrases that say what a page fetches; it has one
_HERE = files("pipelines.views.maps")
# With the library and the page less than 15 MB; only a coarsest level may be larger.
_PAYLOAD_LIMIT = 13_500_000
_FOR_OWN = 1 / 2  # of the limit, for the release that the page opens with, where others share the page


@dataclass(frozen=True)
class SiteMap:
    """The map of a release for a web server: a page, and what it fetches from beside it."""

    page: str  # HTML. Without `parts` it is the map in one file.
    # By name, which is of the content: what is large and not shown at first, compressed once for all, and the
    # map in one file, to keep or to send. The page fetches them from the folder `PARTS` beside it.
    parts: dict[str, bytes] = field(default_factory=dict)


def build_map(release: Release, backdrop: Backdrop | None = None, others: Sequence[Release] = ()) -> str:
    """Return the map of a release as one HTML page that forbids the browser every request (`Release.map`)."""
    return _page(_content(release, backdrop, others))


def build_site_map(
    release: Release,
    backdrop: Backdrop | None = None,
    others: Sequence[Release] = (),
    versions: str = "",
) -> SiteMap:
    """Return the map of a release for a web server: what is large is fetched, from its own site only.

    `versions` is where the site lists what is published on it, if it does, as the service
    (`pipelines.service.public.models.ReleaseList`).
    """
    content = _content(release, backdrop, others, compared=bool(versions))
    large = _large(content)
    if not large:
        return SiteMap(_page(content, versions=versions))
    one_file = _page(content).encode()
    names = {name: _named(name, part, "bin") for name, part in large.items()}
    one_file_name = _named("one-file", one_file, "html")
    page = _page(content, names, (one_file_name, len(one_file)), versions)
    return SiteMap(page, {**{names[name]: part for name, part in large.items()}, one_file_name: one_file})


def levels_of_map(page: str) -> frozenset[str]:
    """Return the levels that a page of a map opens, at once or later."""
    written = re.search('<script type="application/json" id="meta">(.*?)</script>', page, re.DOTALL)
    meta = json.loads(written[1]) if written else {"levels": [], "later": []}
    return frozenset(level["id"] for level in (*meta["levels"], *meta["later"]))


def write_map(
    release: Release,
    target: PathLike | None = None,
    *,
    backdrop: Backdrop | None = None,
    site: bool = False,
    others: Sequence[Release] = (),
) -> Path:
    """Write the map of a release into one HTML file, or for a web server (`Release.map`)."""
    target = release.out / "map.html" if target is None else path_of(target, "target")
    for each in (release, *others):
        check_target(target, each.public)
    if site:
        site_map = build_site_map(release, backdrop, others)
    else:
        site_map = SiteMap(build_map(release, backdrop, others))
    target.parent.mkdir(parents=True, exist_ok=True)
    if site_map.parts:
        write_parts(site_map, target.parent / PARTS)
    write_whole(target, site_map.page, mode=None)
    return target


def write_parts(made: SiteMap, folder: Path) -> None:
    """Write what the page of a map fetches into a folder; what is there already is the same."""
    folder.mkdir(exist_ok=True)
    for name, content in made.parts.items():
        if not (folder / name).is_file():
            write_whole(folder / name, content, mode=None)


def _named(name: str, content: bytes, kind: str) -> str:
    return f"{name}-{hashlib.sha256(content).hexdigest()[:32]}.{kind}"


class _Content(NamedTuple):
    """What a page holds: a release, and others of other years."""

    release: Release
    payload: Payload
    years: list[tuple[Release, Payload]]


def _content(
    release: Release, backdrop: Backdrop | None, others: Sequence[Release], *, compared: bool = False
) -> _Content:
    """Pack what a page holds; a release without others may be `compared` with those on its site."""
    _library("maplibre-gl.js")  # before what takes its time
    if not others:
        return _Content(release, make_payload(release, _PAYLOAD_LIMIT, backdrop, compared=compared), [])
    check_years([release, *others])
    payload = make_payload(release, round(_PAYLOAD_LIMIT * _FOR_OWN), backdrop, compared=True)
    years = make_years(release, payload, others, _PAYLOAD_LIMIT - payload.size)
    return _Content(release, payload, list(zip(others, years, strict=True)))


def _large(content: _Content) -> dict[str, bytes]:
    """What a page does not show at first, where it is large: by the id of its element.

    Of other years it is all, with the year before the id.
    """
    payload = content.payload
    parts = {"draws": payload.draws} if payload.meta.get("draws", {}).get("later") else {}
    if payload.whole is not None:
        parts |= {"whole-arrays": payload.whole.arrays, "whole-texts": payload.whole.texts}
    for release, year in content.years:
        parts[f"{release.year}-arrays"] = year.arrays
        if year.draws:
            parts[f"{release.year}-draws"] = year.draws
    return parts


def _page(
    content: _Content,
    names: Mapping[str, str] | None = None,
    one_file: tuple[str, int] | None = None,
    versions: str = "",
) -> str:
    """Return the page; of a site with `names` of the parts beside it, name and size of the map in one file.

    `versions` is where the site lists what is published.
    """
    release, payload, years = content
    library = {name: _library(name) for name in ("maplibre-gl.js", "maplibre-gl.css", "LICENSE.txt")}
    library_script = _without_addresses(library["maplibre-gl.js"])
    script = "\n" + _library("map.js")
    library_version = re.search(r"maplibre-gl-js/blob/v([\d.]+)/", library["maplibre-gl.js"])
    language = release.language
    words = map_phrases(language)
    # What the phrases of the page leave open.
    values = _values_of(release, payload, language) | {
        "version": html.escape(version(DISTRIBUTION)),
        "library_version": library_version.group(1) if library_version else "",
    }
    if one_file is not None:
        values |= {
            "address": f"{PARTS}/{one_file[0]}",
            "megabytes": number(f"{one_file[1] / 1e6:.1f}", language),
        }
    fetches = one_file is not None or bool(versions)
    asks = words["page"]["beside_link" if one_file else "beside_versions" if versions else "alone"]
    return Template(_text("page.html")).substitute(
        _page_phrases(words, values),
        language=language,
        asks=asks.format(**values),
        versions=versions,
        still=payload.picture,
        picture_words=html.escape(picture_words(release, language)),
        phrases=_json_element({"locale": words["locale"], **words["program"]}),
        policy=_policy(library_script, script, fetches=fetches),
        title=values["title"],
        version=values["version"],
        licence=html.escape(_without_addresses(library["LICENSE.txt"])).replace("--", "- -"),
        library_style=_without_addresses(library["maplibre-gl.css"]),
        style=_text("map.css"),
        **_words_of(release, payload, language),
        data="\n".join(_elements(payload, names or {})),
        years="\n".join(_year(*year, language, values, names or {}) for year in years),
        library=library_script,
        script=script,
    )


def _year(
    release: Release,
    payload: Payload,
    language: str,
    of_page: Mapping[str, str],
    names: Mapping[str, str],
) -> str:
    """Return a release of another year as the element of a page that holds it."""
    prefix = f"{release.year}-"
    own = {name.removeprefix(prefix): file for name, file in names.items() if name.startswith(prefix)}
    values = {**of_page, **_values_of(release, payload, language)}
    return Template(_text("year.html")).substitute(
        _page_phrases(map_phrases(language), values),
        year=release.year,
        title=values["title"],
        **_words_of(release, payload, language),
        data="\n".join(_elements(payload, own)),
    )


def _values_of(release: Release, payload: Payload, language: str) -> dict[str, str]:
    """Return what is of a release in the phrases of a page."""
    drawn = "drawn_records" if release.certificate.protects == "record" else "drawn_homes"
    return {
        "title": html.escape(payload.meta["release"]["name"]),
        "drawn": map_phrases(language)["page"][drawn],
        "release_version": html.escape(payload.meta["release"]["version"]),
    }


def _words_of(release: Release, payload: Payload, language: str) -> dict[str, str]:
    """Return what a page says of a release at length."""
    return {
        "certificate": certificate_words(
            release.certificate, signed=is_signed(release.public), language=language
        ),
        "certificate_sha256": payload.meta["release"]["certificate_sha256"],
        "accuracy": accuracy_words(release.accuracy, release.certificate.policy, language),
    }


def _page_phrases(words: Mapping[str, Any], values: Mapping[str, str]) -> dict[str, str]:
    """Return the phrases that stand in the page when it is opened, some of which its program has too."""
    of_page = {name: phrase.format(**values) for name, phrase in words["page"].items() if name not in _ASKS}
    of_program = {
        name: html.escape(phrase) for name, phrase in words["program"].items() if isinstance(phrase, str)
    }
    return of_program | of_page


def _json_element(value: object) -> str:
    """Return JSON for an element of a page: "<" could end the element."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _text(name: str) -> str:
    return _HERE.joinpath(name).read_text(encoding="utf-8")


def _elements(payload: Payload, names: Mapping[str, str], prefix: str = "") -> Iterator[str]:
    """Yield the elements that hold a payload, or say which file beside the page does."""
    meta = _json_element(payload.meta)
    yield f'<script type="application/json" id="{prefix}meta">{meta}</script>'
    sections = {
        "arrays": payload.arrays,
        "texts": payload.texts,
        "draws": payload.draws,
        "backdrop-shapes": payload.backdrop,
    }
    for name, content in sections.items():
        if not content:
            continue
        address, text = "", base64.b64encode(content).decode("ascii")
        if prefix + name in names:
            address, text = f' data-address="{PARTS}/{names[prefix + name]}" data-bytes="{len(content)}"', ""
        yield f'<script type="text/plain" id="{prefix}{name}"{address}>{text}</script>'
    if payload.whole is not None:
        yield from _elements(payload.whole, names, "whole-")


def _library(name: str) -> str:
    try:
        return _text(f"vendor/{name}")
    except FileNotFoundError as error:
        fix = "the library that draws maps is not set up. Install Node.js with npm, then run: make library"
        raise FileNotFoundError(errno.ENOENT, fix, error.filename) from error


def _without_addresses(text: str) -> str:
    """Take the scheme from every address, so that none can be opened; XML namespaces are names only."""
    text = re.sub(r"(?m)^(//#|/\*#) sourceMappingURL=.*$", "", text)
    return re.sub(r"https?://(?!www\.w3\.org/)", "", text)


def _policy(*scripts: str, fetches: bool) -> str:
    """The browser's orders: run these scripts and the worker made from them, ask nobody else for anything."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "worker-src blob:; base-uri 'none'; form-action 'none'" + ("; connect-src 'self'" if fetches else "")
    )


def certificate_words(certificate: Certificate, *, signed: bool, language: str = ENGLISH) -> str:
    """Return the certificate in plain words."""
    protected = certificate.presence is not None
    not_covered, assumed_public = limits_in_words(certificate, language)
    return render(
        "certificate.html",
        language,
        certificate=certificate,
        reasons=phrases(language).reasons(certificate),
        signature=signature_in_words(signed=signed, language=language),
        odds=odds_in_words(certificate, language),
        paragraphs=(
            exact_in_words(certificate, language),
            presence_in_words(certificate, language),
            population_in_words(certificate.population, protected=protected, language=language),
            policy_in_words(certificate, language),
        ),
        not_covered=not_covered,
        assumed_public=assumed_public,
        short=short_bound,
    )
