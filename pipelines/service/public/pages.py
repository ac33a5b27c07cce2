"""The public pages: the list of releases, a page for each, its map, answers about an area, and the API."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from pipelines.release.signing import PUBLIC_KEY
from pipelines.service.caching import CONTENT, answer, is_fresh, tag
from pipelines.service.parameters import Name, VersionName, latest_version
from pipelines.service.public.catalog import Catalog, Version
from pipelines.service.public.downloads import ServedFile
from pipelines.service.public.flow_queries import FlowQuestion, Side, select
from pipelines.service.rendering import HTML, text
from pipelines.service.store import ServiceError
from pipelines.views.accuracy import accuracy_words
from pipelines.views.intervals import COVERAGE_WORDS
from pipelines.views.labels import singular
from pipelines.views.maps import certificate_words

__all__ = ["add_pages"]

# The map brings its own orders to the browser, which allow its scripts by their hashes.
_MAP_POLICY = "frame-ancestors 'none'"
_TOP = 25

_router = APIRouter(
    include_in_schema=False, default_response_class=HTMLResponse, dependencies=[Depends(latest_version)]
)


def add_pages(app: FastAPI) -> None:
    """Add the pages, and the style sheet that they share with the operators', to an application."""
    app.include_router(_router)
    app.mount("/static", StaticFiles(packages=[("pipelines.service", "static")]), name="static")


@_router.get("/")
def releases(request: Request) -> Response:
    """The list of releases, those to be used first."""
    catalog: Catalog = request.app.state.catalog
    return answer(request, catalog.once("home", _home), media_type=HTML)


def _home(versions: list[Version]) -> bytes:
    versions = sorted(versions, key=lambda version: version.status != "complete")
    return text("releases.html", versions=versions).encode()


@_router.get("/releases/{name}/{version}")
def release(request: Request, name: Name, version: VersionName) -> Response:
    """Everything about a version."""
    catalog: Catalog = request.app.state.catalog
    found = catalog.version(name, version)
    levels = catalog.release(found).levels if found.status == "complete" else ()
    return _page(
        request,
        "release.html",
        version=found,
        words=_words(found),
        accuracy=_accuracy(catalog, found),
        files=[(file, found.address(file)) for file in found.files.values()],
        has_map=found.status == "complete" and catalog.prepared(found.sha256).map.is_file(),
        levels=[(level, singular(level)) for level in levels],
        address=request.app.state.settings.address,
    )


def _words(found: Version) -> Markup | None:
    if found.certificate is None:
        return None
    return Markup(certificate_words(found.certificate, signed=PUBLIC_KEY in found.files))  # escaped by itself


def _accuracy(catalog: Catalog, found: Version) -> Markup | None:
    if found.status != "complete":  # a withdrawn one should not be used
        return None
    return Markup(accuracy_words(catalog.release(found).accuracy))  # escaped by itself


@_router.get("/releases/{name}/{version}/map")
def map_page(request: Request, name: Name, version: VersionName) -> Response:
    """The map, in one file."""
    catalog: Catalog = request.app.state.catalog
    found = catalog.find_usable(name, version)
    path = catalog.prepared(found.sha256).map
    if not path.is_file():
        raise ServiceError(
            503, "preparing", "No map of this release has been drawn yet; try again in a minute."
        )
    headers = {
        "ETag": tag("map", found.sha256, path.stat().st_mtime_ns),
        "Cache-Control": CONTENT,
        "Content-Security-Policy": _MAP_POLICY,
    }
    if is_fresh(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return ServedFile(path, headers=headers, media_type=HTML)


@_router.get("/releases/{name}/{version}/flows")
def flows(
    request: Request,
    name: Name,
    version: VersionName,
    area: Annotated[str, Query(max_length=100)] = "",
    side: Annotated[str, Query(pattern="^(work|home)$")] = "work",
    level: Annotated[str, Query(max_length=100)] = "",
    attribute: Annotated[str, Query(max_length=100)] = "S000",
) -> Response:
    """The largest flows of an area, without a script."""
    catalog: Catalog = request.app.state.catalog
    found = catalog.find_usable(name, version)
    opened = catalog.release(found)
    problem, said = None, None
    if area.strip():
        try:
            said = _largest(catalog, found, area.strip(), side, level or None, attribute)
        except ServiceError as error:
            if error.status != 404:
                raise
            problem = error.detail
    return _page(
        request,
        "flows.html",
        version=found,
        levels=[(each, singular(each)) for each in opened.levels],
        counts=opened.counts,
        asked={"area": area.strip(), "side": side, "level": level, "attribute": attribute},
        said=said,
        other_word=singular(said["other_level"]) if said else "",
        implicates=opened.implicates,
        problem=problem,
        about_intervals=" ".join(COVERAGE_WORDS),
    )


def _largest(
    catalog: Catalog, found: Version, area: str, side: str, level: str | None, attribute: str
) -> dict[str, Any]:
    """The largest flows of an area, with names."""
    own_side: Side = "work" if side == "work" else "home"
    other: Side = "home" if side == "work" else "work"
    question = {side: (area,), f"{other}_level": level, "attributes": (attribute,)}
    selection = select(catalog.release(found), FlowQuestion(**question))  # type: ignore[arg-type]
    largest = catalog.largest_flows(found, selection, _TOP)
    areas = {each: catalog.areas(found, selection.levels[each]).table for each in ("work", "home")}
    (own,) = areas[side].take(selection.units[own_side]).to_pylist()
    flows = areas[other].take(largest.flows.units[other]).to_pylist()
    low, high = largest.flows.bounds or ([None] * len(flows),) * 2
    for flow, jobs, *bounds in zip(flows, largest.flows.counts[0], low, high, strict=True):
        flow.update(jobs=jobs, low=bounds[0], high=bounds[1])
    return {
        "area": own,
        "other_level": selection.levels[other],
        "jobs": largest.jobs[0],
        "areas": largest.number,
        "flows": flows,
        "bounded": largest.flows.bounds is not None,
    }


@_router.get("/api")
def api(request: Request) -> Response:
    """The API in words, made from its OpenAPI document."""
    document = request.app.openapi()
    routes = [
        {"method": method.upper(), "path": path, **operation}
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "public" in operation.get("tags", ())
    ]
    return _page(request, "api.html", routes=routes, address=request.app.state.settings.address)


def _page(request: Request, template: str, **context: Any) -> Response:
    return answer(request, text(template, request=request, **context).encode(), media_type=HTML)
