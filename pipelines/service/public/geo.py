"""For geographic information systems: OGC API Features (Part 1, core, GeoJSON), and vector tiles.

A version is a service of its own, with a collection of areas and one of flows for each level, and each kind
of areas that cut across them. Both hold what can be drawn, so that programs see at once what kind of shape
they are: no external zones, and no flows that begin and end in one area.
"""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path as FilePath
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import shapely
from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field
from pydantic_core import to_json
from shapely import Polygon
from starlette.responses import Response

from pipelines.service.caching import CONTENT, answer, is_fresh, tag
from pipelines.service.errors import answers
from pipelines.service.parameters import Name, VersionName, known_parameters, latest_version
from pipelines.service.public.answers import (
    AreaQuestion,
    Paging,
    Question,
    answered,
    area_part,
    area_table,
    flow_ends,
    flow_table,
)
from pipelines.service.public.catalog import opened_version
from pipelines.service.public.flow_queries import (
    SIDES,
    FlowQuestion,
    Int64,
    Selection,
    Side,
    no_level,
    select,
)
from pipelines.service.public.formats import MEDIA_TYPES, Part, Table, Written, one_feature
from pipelines.service.public.models import SYNTHETIC
from pipelines.service.public.tiles import archive, read_tile, style, tile_json
from pipelines.service.refusals import invalid, not_found, preparing
from pipelines.views.labels import plural

_CONFORMS_TO = [
    f"http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/{part}" for part in ("core", "geojson")
]
MOST_FEATURES = 10_000
"""Of a page, which has as many where no `limit` is said."""

LIMIT = {
    "name": "limit",
    "in": "query",
    "description": "Features of a page.",
    "schema": {"type": "integer", "minimum": 1, "maximum": MOST_FEATURES, "default": MOST_FEATURES},
}
"""The parameter of collections, as the document of the API names it."""

_CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
_GEOJSON, _TILE = MEDIA_TYPES["geojson"], "application/vnd.mapbox-vector-tile"
_WORLD = shapely.box(-540, -90, 540, 90)  # what has a place: a region may go on beyond 180 degrees

router = APIRouter(
    prefix="/api/v1/releases/{name}/{version}",
    tags=["public"],
    responses={
        304: {"description": "The client holds it"},
        307: {"description": "From latest to the newest version"},
        **answers(400, 404, 410, 422, 429, 503),
    },
    dependencies=[Depends(known_parameters), Depends(latest_version)],
)


class Link(BaseModel):
    """A link."""

    href: str
    rel: str
    type: str
    title: str | None = None


class Landing(BaseModel):
    """The beginning of a service."""

    title: str
    description: str
    links: list[Link]


class Conformance(BaseModel):
    """Which parts of the standard hold."""

    conformsTo: list[str]  # noqa: N815 - as the standard has it


class Collection(BaseModel):
    """A collection of areas or of flows."""

    id: str
    title: str
    description: str
    itemType: str = "feature"  # noqa: N815
    crs: list[str] = [_CRS84]
    extent: dict[str, Any]
    links: list[Link]


class Collections(BaseModel):
    """All collections."""

    links: list[Link]
    collections: list[Collection]


class Feature(BaseModel):
    """A feature of GeoJSON."""

    type: str
    id: str
    geometry: dict[str, Any] | None
    properties: dict[str, Any]
    links: list[Link] | None = None


class Features(BaseModel):
    """A page of features."""

    type: str
    features: list[Feature]
    links: list[Link]
    numberReturned: int  # noqa: N815
    numberMatched: int | None = None  # noqa: N815


CollectionName = Annotated[str, Path(max_length=150, description="areas_ or flows_, and a level.")]


class _Service:
    """The service of a version: what its links begin with, and what it has."""

    def __init__(self, request: Request, name: str, version: str) -> None:
        self.version = opened_version(request, name, version)
        self.release = self.version.release
        self.title = self.release.certificate.release.name
        self.here = f"/api/v1{self.version.page}"
        self.address: str = request.app.state.settings.address

    def link(self, rel: str, end: str, title: str | None = None, kind: str = "application/json") -> Link:
        return Link(href=f"{self.address}{self.here}/ogc{end}", rel=rel, type=kind, title=title)

    def collection(self, identity: str) -> Collection:
        kind, level = self.parts(identity)
        bounds = self.version.shapes(self.release.levels[0]).bounds()
        many = plural(level)
        title = many.capitalize() if kind == "areas" else f"Flows between {many}"
        words = {
            "areas": f"{many.capitalize()}, and how many synthetic workers live (home) and work there.",
            "flows": "Synthetic workers, as lines from home to work; not those who stay in one area.",
        }[kind]
        if self.release.geography.external_zones:
            words += " Without the external zones, which have no place."
        return Collection(
            id=identity,
            title=title,
            description=f"{words} {SYNTHETIC}",
            extent={"spatial": {"bbox": [bounds], "crs": _CRS84}},
            links=[
                self.link("self", f"/collections/{identity}"),
                self.link("items", f"/collections/{identity}/items", title, _GEOJSON),
            ],
        )

    def parts(self, identity: str) -> tuple[str, str]:
        """What a collection holds, and of which level."""
        kind, _, level = identity.partition("_")
        if kind not in ("areas", "flows") or level not in self.release.kinds_of_areas:
            raise not_found(f"There is no such collection; there are: {', '.join(self.names())}.")
        return kind, level

    def names(self) -> list[str]:
        return [f"{kind}_{level}" for kind in ("areas", "flows") for level in self.release.kinds_of_areas]


@router.get("/ogc", response_model=Landing, summary="OGC API Features: the service of a version")
def landing(request: Request, name: Name, version: VersionName) -> Response:
    """The address to give to QGIS and GDAL."""
    service = _Service(request, name, version)
    document = Link(
        href=f"{service.address}/api/v1/openapi.json", rel="service-desc", type="application/json"
    )
    page = Link(href=f"{service.address}/api", rel="service-doc", type="text/html")
    links = [
        service.link("self", ""),
        document,
        page,
        service.link("conformance", "/conformance"),
        service.link("data", "/collections"),
    ]
    return answer(request, _plain(Landing(title=service.title, description=SYNTHETIC, links=links)))


@router.get("/ogc/conformance", response_model=Conformance, summary="OGC API Features: conformance")
def conformance(request: Request, name: Name, version: VersionName) -> Response:
    """Which parts of the standard the service of a version follows."""
    _Service(request, name, version)
    return answer(request, Conformance(conformsTo=_CONFORMS_TO))


@router.get("/ogc/collections", response_model=Collections, summary="OGC API Features: collections")
def collections(request: Request, name: Name, version: VersionName) -> Response:
    """Areas and flows, a collection for each level."""
    service = _Service(request, name, version)
    content = [service.collection(identity) for identity in service.names()]
    return answer(
        request, _plain(Collections(links=[service.link("self", "/collections")], collections=content))
    )


@router.get(
    "/ogc/collections/{collection}", response_model=Collection, summary="OGC API Features: a collection"
)
def collection(request: Request, name: Name, version: VersionName, collection: CollectionName) -> Response:
    """What a collection holds, and where."""
    return answer(request, _plain(_Service(request, name, version).collection(collection)))


class FeatureQuestion(BaseModel):
    """The query of `items`."""

    limit: Annotated[int, Field(ge=1, le=MOST_FEATURES, description="Features of a page.")] = MOST_FEATURES
    bbox: Annotated[
        str | None,
        Field(max_length=200, description="West, south, east and north, in degrees: what is in it."),
    ] = None
    datetime: Annotated[
        str | None,
        Field(max_length=100, description="As the standard has it; nothing here has a time of its own."),
    ] = None
    work: Annotated[
        str | None, Field(max_length=20_000, description="Work areas, as for flows; of flows only.")
    ] = None
    home: Annotated[
        str | None, Field(max_length=20_000, description="Home areas, as for flows; of flows only.")
    ] = None
    after: Annotated[str | None, Field(max_length=300, description="As a next link has it.")] = None


@router.get(
    "/ogc/collections/{collection}/items",
    response_model=Features,
    responses={200: {"content": {_GEOJSON: {"schema": {"$ref": "#/components/schemas/Features"}}}}},
    summary="OGC API Features: features",
)
async def items(
    request: Request,
    name: Name,
    version: VersionName,
    collection: CollectionName,
    ask: Annotated[FeatureQuestion, Query()],
) -> Response:
    """A page of areas or flows, as GeoJSON; flows have all counts."""

    def find() -> Question | Response:
        service = _Service(request, name, version)
        kind, level = service.parts(collection)
        if kind == "areas" and (ask.work is not None or ask.home is not None):
            raise invalid(
                f"{'home' if ask.work is None else 'work'}: areas have no such parameter. Leave it out."
            )
        box = _box(ask.bbox)
        _check_time(ask.datetime)
        ends = [() if areas is None else (areas,) for areas in (ask.work, ask.home)]
        question = FlowQuestion(ends[0], ends[1], level, level, tuple(service.release.counts))
        selection = select(service.release, question)
        parts = (
            service.version.sha256,
            collection,
            ask.limit,
            ask.bbox,
            ask.work,
            ask.home,
            ask.after,
            service.address,
        )
        headers = {
            "ETag": tag(request.app.version, *parts),
            "Cache-Control": CONTENT,
        }
        if is_fresh(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)
        cost = service.version.cost_of_areas(level)
        if kind == "flows":  # in a box there may be few of all
            limit = ask.limit if ask.bbox is None else None
            cost = service.version.cost(selection, written=True, limit=limit)

        def written() -> Written:
            paging = Paging(request, ask.limit, ask.after)
            table = (
                area_table(service.version, AreaQuestion(level=level), paging, box)
                if kind == "areas"
                else flow_table(service.version, selection, paging, places=True, box=box)
            )
            if kind == "flows" and (ask.bbox, ask.work, ask.home) == (None,) * 3:
                table.tail["matched"] = service.version.number_of_lines(level)
            return _features(service, collection, table, request).written("geojson", headers)

        return Question(cost, written)

    return await answered(request, find)


def _features(service: _Service, collection: str, table: Table, request: Request) -> Table:
    """The table with what the standard wants to be said around it."""
    query = f"?{request.url.query}" if request.url.query else ""
    links = [service.link("self", f"/collections/{collection}/items{query}", kind=_GEOJSON)]
    links += [service.link("collection", f"/collections/{collection}")]
    if table.next is not None:
        further = f"/collections/{collection}/items?{table.next.partition('?')[2]}"
        links += [service.link("next", further, kind=_GEOJSON)]
    table.head = {}
    matched = table.tail.get("matched")
    table.tail = {
        "numberReturned": table.tail["returned"],
        **({} if matched is None else {"numberMatched": matched}),
        "links": [link.model_dump(exclude_none=True) for link in links],
    }
    table.next = None
    return table


@router.get(
    "/ogc/collections/{collection}/items/{feature:path}",  # codes may hold a slash
    response_model=Feature,
    responses={200: {"content": {_GEOJSON: {"schema": {"$ref": "#/components/schemas/Feature"}}}}},
    summary="OGC API Features: a feature",
)
async def item(
    request: Request,
    name: Name,
    version: VersionName,
    collection: CollectionName,
    feature: Annotated[str, Path(max_length=300, description="Code of an area; WORK:HOME of a flow.")],
) -> Response:
    """An area or a flow, as GeoJSON."""

    def feature_alone() -> Response:
        service = _Service(request, name, version)
        kind, level = service.parts(collection)
        part = _area(service, level, feature) if kind == "areas" else _flow(service, level, feature, request)
        if part is None:
            raise not_found("There is no such feature; .../items lists all features of the collection.")
        links = [
            service.link("self", f"/collections/{collection}/items/{quote(feature)}", kind=_GEOJSON),
            service.link("collection", f"/collections/{collection}"),
        ]
        return answer(
            request,
            one_feature(part, [link.model_dump(exclude_none=True) for link in links]),
            CONTENT,
            _GEOJSON,
        )

    return await answered(request, feature_alone)


def _area(service: _Service, level: str, code: str) -> Part | None:
    units = service.release.geography.unit_number(level, [code])
    areas, shapes = service.version.areas(level), service.version.shapes(level)
    return area_part(areas, shapes, units) if units[0] >= 0 and shapes.shapes[units[0]] is not None else None


def _flow(service: _Service, level: str, pair: str, request: Request) -> Part | None:
    units = [service.release.geography.find_unit(level, code) for code in flow_ends(pair)]
    if len(units) != len(SIDES) or min(units) < 0:
        return None
    question = FlowQuestion(work_level=level, home_level=level, attributes=tuple(service.release.counts))
    ends: dict[Side, Int64 | None] = {side: np.array([unit]) for side, unit in zip(SIDES, units, strict=True)}
    selection = Selection(question, service.release, dict.fromkeys(SIDES, level), ends)
    paging = Paging(request, 1)
    table = flow_table(service.version, selection, paging, places=True, box=_WORLD)
    return next(iter(table.parts), None)


def _box(text: str | None) -> Polygon:
    if text is None:
        return _WORLD
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) == 6:  # with heights, which nothing here has
        numbers = numbers[:2] + numbers[3:5]
    if len(numbers) != 4 or not all(map(math.isfinite, numbers)) or numbers[1] > numbers[3]:
        raise invalid("bbox: this is no box. Write four degrees with commas: west, south, east and north.")
    west, south, east, north = numbers
    if west > east:  # across 180 degrees
        return shapely.union(shapely.box(west, south, 180, north), shapely.box(-180, south, east, north))
    return shapely.box(west, south, east, north)


def _check_time(text: str | None) -> None:
    """Refuse what is no time; what has no time of its own is of every one."""
    ends = [] if text is None else text.split("/")
    try:
        times = [datetime.fromisoformat(end) for end in ends if end not in ("", "..")]
    except ValueError:
        times = []
    if ends and (len(ends) > 2 or (not times and set(ends) != {".."}) or (len(ends) == 1 and not times)):
        raise invalid(
            "datetime: this is no time. Write 2019-01-01T00:00:00Z, or two times with a slash between."
        )


def _plain(content: BaseModel) -> bytes:
    return content.model_dump_json(exclude_none=True).encode()


class TileJson(BaseModel):
    """Where tiles are, and what is in them (TileJSON 3.0)."""

    tilejson: str
    name: str
    description: str
    tiles: list[str]
    minzoom: int
    maxzoom: int
    bounds: list[float]
    vector_layers: list[dict[str, Any]]


LevelName = Annotated[str, Path(max_length=100, description="Level of the areas.")]
_Zoom = Annotated[int, Path(ge=0, le=22)]
_Step = Annotated[int, Path(ge=0, le=2**22)]


def _archive(service: _Service, level: str) -> FilePath:
    if level not in service.release.kinds_of_areas:
        raise no_level(service.release, "level")
    folder = service.version.prepared.tiles
    if not folder.is_dir():
        raise preparing("the tiles")
    path = archive(folder, level)
    if not path.is_file():
        raise not_found(
            "The areas of this level have no tiles: they are too many, or have no place on a map."
        )
    return path


def _described(service: _Service, level: str) -> dict[str, Any]:
    tiles = f"{service.address}{service.here}/tiles/{quote(level)}/{{z}}/{{x}}/{{y}}.mvt"
    return tile_json(_archive(service, level), level, service.title, tiles, SYNTHETIC)


@router.get(
    "/tiles/{level}", response_model=TileJson, summary="Vector tiles: TileJSON of the areas of a level"
)
def get_tile_json(request: Request, name: Name, version: VersionName, level: LevelName) -> Response:
    """Where the tiles are, for map libraries."""
    return answer(request, to_json(_described(_Service(request, name, version), level)))


@router.get("/tiles/{level}/style", response_model=dict[str, Any], summary="Vector tiles: a MapLibre style")
def get_style(request: Request, name: Name, version: VersionName, level: LevelName) -> Response:
    """Areas, darker where more people work; for MapLibre and QGIS."""
    service = _Service(request, name, version)
    described, kind = _described(service, level), service.version.shapes(level).kind
    return answer(request, to_json(style(described, service.version.areas(level), kind)))


@router.get(
    "/tiles/{level}/{z}/{x}/{y}.mvt",
    response_class=Response,
    responses={
        200: {"content": {_TILE: {}}, "description": "The tile"},
        204: {"description": "Nothing is in this tile"},
    },
    summary="Vector tiles: a tile",
)
def get_tile(
    request: Request, name: Name, version: VersionName, level: LevelName, z: _Zoom, x: _Step, y: _Step
) -> Response:
    """A Mapbox Vector Tile with the layer areas."""
    service = _Service(request, name, version)
    if max(x, y) >= 2**z:
        raise not_found("There is no such tile: x and y are below two to the power of z.")
    tile = read_tile(_archive(service, level), z, x, y)
    headers = {"ETag": tag(service.version.sha256, level, z, x, y), "Cache-Control": CONTENT}
    if is_fresh(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    if tile is None:
        return Response(status_code=204, headers=headers)
    return Response(tile, headers=headers, media_type=_TILE)
