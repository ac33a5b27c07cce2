"""The public pages: home; each release with its years, each version, its columns, map and flows; the API."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from pipelines.config.languages import ENGLISH
from pipelines.plans.accuracy import ExpectedTable, SizeClass
from pipelines.release.description import whose_jobs
from pipelines.release.readme import file_meaning, file_meanings
from pipelines.release.signing import PUBLIC_KEY
from pipelines.service.caching import CONTENT, answer, tag
from pipelines.service.parameters import Name, VersionName, latest_version
from pipelines.service.public import downloads
from pipelines.service.public.answers import PageQuestion, answered_at_once
from pipelines.service.public.area_answers import NEAR, AreaAnswer, AreaQuestion, AreaSelections
from pipelines.service.public.catalog import Catalog, OpenVersion, Series, Version, opened_version
from pipelines.service.public.charts import Chart
from pipelines.service.public.describing import (
    Licence,
    Offer,
    cite,
    cite_series,
    data_catalog,
    data_series,
    data_set,
)
from pipelines.service.public.flow_queries import ABOUT_INTERVALS, Side
from pipelines.service.public.geo import MOST_FEATURES
from pipelines.service.public.models import FileEntry, FileList
from pipelines.service.public.tiles import zoom_levels
from pipelines.service.public.year_numbers import ABOUT_CHANGES, YearlyQuestion
from pipelines.service.refusals import preparing
from pipelines.service.rendering import HTML, text
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError
from pipelines.views.accuracy import accuracy_words
from pipelines.views.exports.source import column_meanings
from pipelines.views.folder import PublicReleaseError
from pipelines.views.key_figures import KeyFigures
from pipelines.views.labels import job_type_words, plural, singular, unit_names
from pipelines.views.maps.page import certificate_words
from pipelines.views.maps.picture import picture_words
from pipelines.views.pages import phrases
from pipelines.views.release import Release
from pipelines.views.search import Found, find_areas, search, suggested_names

# The map brings its own orders to the browser, which allow its scripts by their hashes.
_MAP_HEADERS = {"Content-Security-Policy": "frame-ancestors 'none'"}
_NOT_FOUND = (
    "There is no area of this code or name, and none like it. Codes are written with their leading zeros; "
    "part of a name is enough."
)

_router = APIRouter(
    include_in_schema=False, default_response_class=HTMLResponse, dependencies=[Depends(latest_version)]
)


def add_pages(app: FastAPI) -> None:
    """Add the pages, and the style sheet that they share with the operators', to an application."""
    app.include_router(_router)
    app.mount("/static", StaticFiles(packages=[("pipelines.service", "static")]), name="static")


@_router.get("/")
def home(request: Request) -> Response:
    """What has been published, with the newest release before the others."""
    catalog: Catalog = request.app.state.catalog
    settings: ServiceSettings = request.app.state.settings
    made = catalog.once("home", lambda versions: _home(catalog, settings, versions))
    return answer(request, made, media_type=HTML)


def _home(catalog: Catalog, settings: ServiceSettings, versions: list[Version]) -> bytes:
    every = Series.every(versions)
    latest = Showcase.newest(catalog, (series.first for series in every))
    return text(
        "home.html",
        settings=settings,
        no_licence=phrases(ENGLISH).no_licence,
        latest=latest,
        citation=latest and cite(latest.version, latest.release.description, settings.address),
        suggested=latest and suggested_names(latest.release),
        every=every,
        described=data_catalog(every, settings),
    ).encode()


@dataclass(frozen=True)
class Showcase:
    """What pages show of a usable version."""

    version: Version
    opened: OpenVersion
    licence: Licence | None
    has_map: bool
    picture: str | None  # What is seen in it, once it is drawn
    figures: KeyFigures | None
    area_word: str | None  # What the areas of the key figures are called
    jobs: str  # Which jobs are counted
    between: list[tuple[str, ExpectedTable]]  # What is expected of flows between areas of a level
    table: ExpectedTable | None  # That of the level of the key figures
    size: SizeClass | None  # In it, of numbers as large as the largest commute
    about_intervals: str = ABOUT_INTERVALS

    @property
    def release(self) -> Release:
        """The release."""
        return self.opened.release

    @classmethod
    def of(cls, catalog: Catalog, version: Version) -> Showcase | None:
        """Return that of a version; None if it cannot be used or read."""
        if version.status != "complete":
            return None
        opened = catalog.opened(version)
        try:
            release, accuracy = opened.release, opened.release.accuracy
        except (ServiceError, PublicReleaseError):
            return None
        prepared, figures = opened.prepared, opened.key_figures
        tables = {} if accuracy is None else {table.flows_of: table for table in accuracy.tables}
        table = tables.get(figures.level) if figures else None
        largest = figures.largest if figures else None
        sizes = table.sizes if table else []
        return cls(
            version=version,
            opened=opened,
            licence=Licence.of(release.licence),
            has_map=prepared.map.is_file(),
            picture=picture_words(release) if prepared.picture.is_file() else None,
            figures=figures,
            area_word=singular(figures.level) if figures else None,
            jobs=job_type_words(release.certificate.release.job_type),
            between=[(plural(level), tables[level]) for level in release.levels if level in tables],
            table=table,
            size=next(
                (
                    size
                    for size in sizes
                    if largest and not size.external and size.holds(round(largest.jobs.number))
                ),
                None,
            ),
        )

    @classmethod
    def newest(cls, catalog: Catalog, versions: Iterable[Version]) -> Showcase | None:
        """Return that of the first version that has one."""
        return next((shown for version in versions if (shown := cls.of(catalog, version))), None)


@_router.get("/releases/{name}")
def series(request: Request, name: Name) -> Response:
    """A release with all its years."""
    catalog: Catalog = request.app.state.catalog
    settings: ServiceSettings = request.app.state.settings
    found = catalog.series(name)
    shown = Showcase.newest(catalog, found.usable)
    figures = {each.page: catalog.opened(each).key_figures for each in found.usable}
    return _page(
        request,
        "series.html",
        series=found,
        shown=shown,
        figures={
            page: of_year
            for page, of_year in figures.items()
            if of_year and shown and shown.figures and of_year.level == shown.figures.level
        },
        no_licence=phrases(ENGLISH).no_licence,
        citation=shown and cite_series(found, shown.release.description, settings.address),
        suggested=shown and suggested_names(shown.release),
        described=shown and data_series(found, shown.version, shown.release, settings),
        about_changes=ABOUT_CHANGES,
    )


@_router.get("/releases/{name}/{version}")
def release(request: Request, name: Name, version: VersionName) -> Response:
    """Everything about a version."""
    catalog: Catalog = request.app.state.catalog
    settings: ServiceSettings = request.app.state.settings
    published, all_years = catalog.version(name, version), catalog.series(name)
    in_place = all_years.year_of(published).version
    shown = Showcase.of(catalog, published)
    return _page(
        request,
        "release.html",
        version=published,
        shown=shown,
        no_licence=phrases(ENGLISH).no_licence,
        series=all_years,
        newer=None if in_place.page == published.page or in_place.status != "complete" else in_place,
        words=_words(published),
        accuracy=shown and _accuracy(shown.release),
        files=(files := FileList.of(published).files),
        alike=_alike(files),
        citation=shown and cite(published, shown.release.description, settings.address),
        suggested=shown and suggested_names(shown.release),
        offers=[Offer.of(published, level) for level in shown.release.levels] if shown else [],
        described=shown and data_set(all_years, published, shown.release, settings),
    )


def _accuracy(shown: Release) -> Markup:
    return Markup(accuracy_words(shown.accuracy, shown.certificate.policy))  # escaped by itself


def _alike(files: Iterable[FileEntry]) -> dict[str, list[FileEntry]]:
    """Files by what they are, data first."""
    alike: dict[str, list[FileEntry]] = {meaning: [] for meaning in file_meanings()}
    for file in files:
        alike.setdefault(file_meaning(file.name), []).append(file)
    return {meaning: of_meaning for meaning, of_meaning in alike.items() if of_meaning}


def _words(published: Version) -> Markup | None:
    if published.certificate is None:
        return None
    return Markup(
        certificate_words(published.certificate, signed=PUBLIC_KEY in published.files)
    )  # escaped by itself


@_router.get("/releases/{name}/{version}/columns")
def columns(request: Request, name: Name, version: VersionName) -> Response:
    """What the columns of its files, of its exports and of the answers of the API mean."""
    catalog: Catalog = request.app.state.catalog
    published = catalog.find_usable(name, version)
    opened = catalog.opened(published).release
    return _page(
        request,
        "columns.html",
        version=published,
        of_files={column.name: column.words for column in opened.description.tables[0].columns},
        of_tables=column_meanings(opened, {"home": "area", "work": "area"}),
        levels=[(level, singular(level), opened.geography.n_units(level)) for level in opened.kinds_of_areas],
        categories=opened.categories,
    )


@_router.get("/releases/{name}/{version}/picture.svg")
def picture(request: Request, name: Name, version: VersionName) -> Response:
    """The map at a glance."""
    path = opened_version(request, name, version).prepared.picture
    if not path.is_file():
        raise preparing("the picture")
    return answer(request, path.read_bytes(), CONTENT, "image/svg+xml")


@_router.get("/releases/{name}/{version}/map")
def map_page(request: Request, name: Name, version: VersionName) -> Response:
    """The page of the map."""
    opened = opened_version(request, name, version)
    prepared = opened.prepared
    if not prepared.map.is_file():
        raise preparing("the map")
    state = tag("map", opened.sha256, prepared.map.stat().st_mtime_ns)
    return downloads.map_page(request, prepared, {"ETag": state, "Cache-Control": CONTENT, **_MAP_HEADERS})


@_router.get("/releases/{name}/{version}/map/{part}")
def map_part(
    request: Request, name: Name, version: VersionName, part: Annotated[str, Path(max_length=100)]
) -> Response:
    """What the page of the map fetches when it is opened, or the map in one file."""
    opened = opened_version(request, name, version)
    headers = {"ETag": f'"{part}"', "Cache-Control": CONTENT, **_MAP_HEADERS}  # its name is of its content
    kept = downloads.kept_name(opened.name, opened.version, "map.html")
    return downloads.map_part(request, opened.prepared, part, headers, kept)


@_router.get("/releases/{name}/{version}/flows")
async def flows(
    request: Request,
    name: Name,
    version: VersionName,
    area: Annotated[str, Query(max_length=100)] = "",
    kind: Annotated[str, Query(max_length=100)] = "",
    side: Annotated[Side, Query()] = "work",
    level: Annotated[str, Query(max_length=100)] = "",
    attribute: Annotated[str, Query(max_length=100)] = "S000",
) -> Response:
    """Who works or lives in an area, and where the other end is, without a script.

    `kind` is the level of the area, if it is known.
    """
    catalog: Catalog = request.app.state.catalog
    asked = {"area": area.strip(), "kind": kind, "side": side, "level": level, "attribute": attribute}

    def find() -> PageQuestion:
        published = catalog.find_usable(name, version)
        opened = catalog.opened(published)
        release = opened.release
        problem, selections, found, years = None, None, None, None
        if asked["area"]:
            try:
                known = kind and kind in release.kinds_of_areas and find_areas(release, kind, asked["area"])
                found = Found([(kind, known[0])], 1, True, False) if known else search(release, asked["area"])
                if found.sure:
                    (at, unit), *_ = found.areas
                    code = str(release.geography.codes(at)[unit])
                    question = AreaQuestion(at, code, side, level or None, attribute)
                    selections = AreaSelections.of(release, question)
                    if len(catalog.series(name).years) > 1:
                        years = YearlyQuestion.find(catalog, opened, question.flows(side))
                    asked.update(area=code, kind=at)
                elif not found.areas:
                    problem = _NOT_FOUND
            except ServiceError as error:
                if error.status not in (404, 422):
                    raise
                problem = error.detail

        def written() -> Response:
            numbers = years.numbers() if years else []
            return _page(
                request,
                "flows.html",
                version=published,
                levels=[(each, singular(each)) for each in release.kinds_of_areas],
                counts=release.counts,
                asked=asked,
                answer=selections and AreaAnswer.of(opened, selections),
                implicates=release.implicates,
                problem=problem,
                found=None if selections or problem else found,
                matches=[_Match.of(release, *each) for each in found.areas] if found else [],
                suggested=suggested_names(release),
                numbers=numbers,
                in_place=catalog.series(name).year_of(published).version,
                chart=Chart.of(numbers),
                about_changes=ABOUT_CHANGES,
                others=_same_state(catalog, published),
                about_intervals=ABOUT_INTERVALS,
                near=NEAR,
            )

        cost = (selections.cost(opened) if selections else 0) + (years.cost if years else 0)
        return PageQuestion(cost, written)

    return await answered_at_once(request, find)


def _same_state(catalog: Catalog, published: Version) -> list[Version]:
    """Versions of other releases that may have the same areas: of the newest year of each."""
    return [
        other
        for other in (series.first for series in Series.every(catalog.versions()))
        if other.status == "complete"
        and other.state.name != published.state.name
        and other.certificate is not None
        and published.certificate is not None
        and other.certificate.release.state == published.certificate.release.state
    ]


@dataclass(frozen=True)
class _Match:
    """An area that may be meant."""

    name: str
    code: str
    level: str
    kind: str

    @classmethod
    def of(cls, release: Release, level: str, unit: int) -> _Match:
        (name,) = unit_names(release, level, np.array([unit]))
        return cls(name, str(release.geography.codes(level)[unit]), level, singular(level))


@_router.get("/api")
def api(request: Request) -> Response:
    """The API in words, made from its OpenAPI document."""
    catalog: Catalog = request.app.state.catalog
    document = request.app.openapi()
    routes = [
        {"method": method.upper(), "path": path, **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "public" in operation.get("tags", ())
    ]
    shown = Showcase.newest(catalog, (series.first for series in Series.every(catalog.versions())))
    return _page(
        request,
        "api.html",
        whose_jobs=whose_jobs(shown.release.geography) if shown else "",
        routes=routes,
        example=shown and shown.version,
        levels=[(level, plural(level)) for level in shown.release.kinds_of_areas] if shown else [],
        level=shown and shown.release.usual_level(),
        about_intervals=ABOUT_INTERVALS,
        areas=_examples(shown.opened) if shown else [],
        # Of the tiles of the usual level, once they are made.
        zooms=shown and zoom_levels(shown.opened.prepared.tiles, shown.release.usual_level()),
        most_features=MOST_FEATURES,
    )


def _examples(version: OpenVersion) -> list[dict[str, Any]]:
    """The two areas with most jobs of a level whose areas have names, towns before counties; [] without."""
    release = version.release
    for level in dict.fromkeys((*release.geography.non_nesting_areas, *release.kinds_of_areas)):
        try:
            rows = version.areas(level).table.to_pylist()
        except ServiceError:  # until its tables are made
            return []
        named = [row | {"level": level} for row in rows if row["name"] and not row["external"]]
        if len(named) > 1:
            return sorted(named, key=lambda row: -row["work_S000"])[:2]
    return []


def _page(request: Request, template: str, **context: Any) -> Response:
    return answer(
        request, text(template, settings=request.app.state.settings, **context).encode(), media_type=HTML
    )
