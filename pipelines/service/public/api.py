"""The public API: releases, certificates, files, areas, flows. It reads what was published, and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from pipelines.release.certificate import Certificate
from pipelines.service.caching import CONTENT, STATEMENT, answer, is_fresh, tag
from pipelines.service.errors import answers
from pipelines.service.parameters import (
    Name,
    VersionName,
    known_parameters,
    latest_version,
    separated,
)
from pipelines.service.public.answers import (
    AFTER,
    FORMAT,
    LIMIT,
    AreaQuestion,
    Codes,
    Paging,
    Question,
    answered,
    area_table,
    flow_table,
)
from pipelines.service.public.catalog import Catalog, Series, opened_version
from pipelines.service.public.dcat import JSON_LD, dcat_catalog
from pipelines.service.public.describing import ATOM, atom
from pipelines.service.public.downloads import kept_name
from pipelines.service.public.flow_queries import SIDES, FlowQuestion, no_level, select
from pipelines.service.public.formats import ENDINGS, MEDIA_TYPES, Format, Written
from pipelines.service.public.models import (
    AreaList,
    Contents,
    FileList,
    FlowList,
    ReleaseEntry,
    ReleaseList,
    YearList,
)
from pipelines.service.public.year_numbers import YearlyQuestion
from pipelines.service.refusals import invalid
from pipelines.service.settings import ServiceSettings

MOST_CODES = 1_000
_MOST_TOP = 1_000

router = APIRouter(
    prefix="/api/v1/releases",
    tags=["public"],
    responses=answers(404, 422, 429),
    dependencies=[Depends(known_parameters), Depends(latest_version)],
)

_IN_FORMATS: dict[int | str, dict[str, Any]] = {
    200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}, "description": "In the format asked for"},
    304: {"description": "The client holds it"},
    307: {"description": "From latest to the newest version"},
    **answers(410, 503),
}


@router.get("", response_model=ReleaseList, summary="List what has been published")
def list_releases(request: Request) -> Response:
    """All versions, newest first. Withdrawn ones stay in the list, with the reason."""
    catalog: Catalog = request.app.state.catalog

    return answer(request, catalog.once("list", lambda v: ReleaseList.of(v).model_dump_json().encode()))


@router.get(
    ".atom",
    response_class=Response,
    responses={200: {"content": {ATOM: {}}, "description": "The feed"}},
    summary="Releases as an Atom feed",
)
def get_feed(request: Request) -> Response:
    """What was published, withdrawn or corrected, newest first, for readers of feeds."""
    catalog: Catalog = request.app.state.catalog
    settings: ServiceSettings = request.app.state.settings
    address, author = settings.address, settings.publisher or settings.address
    content = catalog.once("feed", lambda versions: atom(versions, address, author))
    return answer(request, content, media_type=ATOM)


@router.get(
    ".jsonld",
    response_class=Response,
    responses={200: {"content": {JSON_LD: {}}, "description": "The catalogue"}},
    summary="Releases as a catalogue for data portals",
)
def get_catalogue(request: Request) -> Response:
    """The versions to be used, as DCAT-AP 3; those of one name and several years are a series."""
    catalog: Catalog = request.app.state.catalog
    settings: ServiceSettings = request.app.state.settings
    content = catalog.once("dcat", lambda versions: dcat_catalog(catalog, Series.every(versions), settings))
    return answer(request, content, media_type=JSON_LD)


@router.get("/{name}/years", response_model=YearList, responses=_IN_FORMATS, summary="A number in every year")
async def get_years(request: Request, name: Name, query: Annotated[YearQuery, Query()]) -> Response:
    """Jobs of a release in every year: all of them, or those between the areas that are asked for.

    Areas are named as for flows, and all areas of a side are added up: home=44007 counts who lives there,
    work=44007 who works there, both together who does both. A year has the number of the version to be used
    for it. It has none, and says why, if that was withdrawn, is damaged or not prepared yet, has no such
    area, or has other blocks in it than the newest year.
    """
    catalog: Catalog = request.app.state.catalog

    def find() -> Question | Response:
        asked = YearlyQuestion.find(catalog, catalog.opened(catalog.latest(name)), query.question())
        stated = [(each.version.page, each.version.sha256, each.note) for each in asked.years]
        etag = tag(request.app.version, stated, query)
        headers = {"ETag": etag, "Cache-Control": STATEMENT}
        if is_fresh(request, etag):
            return Response(status_code=304, headers=headers)
        headers |= kept(name, "years", query.format, "flows")
        return Question(asked.cost, lambda: asked.table().written(query.format, headers))

    return await answered(request, find)


@router.get("/{name}/{version}", response_model=ReleaseEntry, summary="One version")
def get_release(request: Request, name: Name, version: VersionName) -> Response:
    """What it is, what its publication cost, and what was said about it since."""
    catalog: Catalog = request.app.state.catalog
    return answer(request, ReleaseEntry.of(catalog.version(name, version)))


@router.get(
    "/{name}/{version}/certificate",
    response_model=Certificate,
    responses=answers(503),
    summary="The certificate of privacy",
)
def get_certificate(request: Request, name: Name, version: VersionName) -> Response:
    """The file certificate.json of the release, byte for byte; also of what was withdrawn."""
    catalog: Catalog = request.app.state.catalog
    published = catalog.version(name, version)
    return answer(request, catalog.file(published, "certificate.json").path.read_bytes(), CONTENT)


@router.get(
    "/{name}/{version}/files",
    response_model=FileList,
    responses=answers(410, 503),
    summary="Files, with hashes",
)
def list_files(request: Request, name: Name, version: VersionName) -> Response:
    """Every file that SHA256SUMS lists, and where to download it. Range requests are answered."""
    catalog: Catalog = request.app.state.catalog
    return answer(request, FileList.of(catalog.find_usable(name, version)))


@router.get(
    "/{name}/{version}/contents",
    response_model=Contents,
    responses=answers(410, 503),
    summary="Levels and attributes",
)
def get_contents(request: Request, name: Name, version: VersionName) -> Response:
    """What can be asked of a version: levels of areas, and counts of jobs, with what they are called."""
    return answer(request, Contents.of(opened_version(request, name, version)))


@router.get(
    "/{name}/{version}/areas", response_model=AreaList, responses=_IN_FORMATS, summary="Areas of a level"
)
async def get_areas(
    request: Request,
    name: Name,
    version: VersionName,
    ask: Annotated[AreaQuestion, Query()],
) -> Response:
    """Codes, names, coordinates, and how many live and work there; as GeoJSON with their shapes.

    Columns are home_ and work_ with each attribute, such as home_S000: who lives, and who works there.
    External zones, homes of commuters from outside or work without a place in the region, have neither
    coordinates nor a shape.
    """

    def find() -> Question | Response:
        opened = opened_version(request, name, version)
        if ask.level not in opened.release.kinds_of_areas:
            raise no_level(opened.release, "level")
        parts = request.app.version, opened.sha256, ask.level, ask.within, ask.name, ask.counts
        headers = {"ETag": tag(*parts, ask.format, ask.limit, ask.after), "Cache-Control": CONTENT}
        if is_fresh(request, headers["ETag"]):
            return Response(status_code=304, headers=headers)

        headers |= kept(opened.name, opened.version, ask.format, f"areas_{ask.level}")

        def written() -> Written:
            return area_table(opened, ask, Paging(request, ask.limit, ask.after)).written(ask.format, headers)

        return Question(opened.cost_of_areas(ask.level), written)

    return await answered(request, find)


def kept(name: str, version: str, form: Format, what: str) -> dict[str, str]:
    """Say under which name browsers keep an answer; JSON, which says what it is, they show."""
    if form == "json":
        return {}
    file = kept_name(name, version, f"{what}.{ENDINGS[form]}")
    return {"Content-Disposition": f'attachment; filename="{file}"'}


_Level = Annotated[str | None, Field(min_length=1, max_length=100)]


class _AreasQuery(BaseModel):
    """What queries about flows have in common."""

    work: Annotated[
        Codes,
        Field(
            description="Work areas, codes or whole names, separated by commas: who works there; left out, "
            "everywhere."
        ),
    ] = []
    home: Annotated[
        Codes, Field(description="Home areas, as for work: who lives there; left out, everywhere.")
    ] = []
    work_level: Annotated[
        _Level,
        Field(
            description="Level of the workplaces in the answer, such as trct; by default that of the areas."
        ),
    ] = None
    home_level: Annotated[_Level, Field(description="Level of the homes in the answer.")] = None
    attribute: Annotated[
        Codes,
        Field(
            description="Which jobs, separated by commas: S000 is all; the others are in contents. "
            "estimate, low and high are of the first."
        ),
    ] = ["S000"]

    def question(self) -> FlowQuestion:
        """Return it as a question, whose areas are not looked up yet."""
        for name in ("work", "home", "attribute"):
            if (number := len(separated(getattr(self, name)))) > MOST_CODES:
                raise invalid(
                    f"{name}: {number:,} codes are more than the {MOST_CODES:,} that are answered at once. "
                    "Name areas of a coarser level, or ask in parts."
                )
        return FlowQuestion(
            tuple(self.work),
            tuple(self.home),
            self.work_level,
            self.home_level,
            separated(self.attribute) or ("S000",),
        )


class YearQuery(_AreasQuery):
    """The query of `get_years`."""

    format: Annotated[
        Literal["json", "csv", "arrow"],
        Field(description="json, csv, or arrow (a stream of Apache Arrow)."),
    ] = "json"


class FlowQuery(_AreasQuery):
    """The query of `get_flows`."""

    top: Annotated[
        int | None,
        Field(
            ge=1,
            le=_MOST_TOP,
            description="Only so many pairs of a work and a home area, of all that are asked for together, "
            "those with the largest number of the first attribute first.",
        ),
    ] = None
    format: Annotated[Format, FORMAT] = "json"
    places: Annotated[bool, Field(description="With names and coordinates of both ends.")] = False
    limit: Annotated[int | None, LIMIT] = None
    after: Annotated[str | None, AFTER] = None
    sum: Annotated[
        list[Literal["work", "home", "work,home", "home,work"]],
        Field(
            description="Sides that are added up, work, home or work,home: all areas asked for there are "
            "one, with one interval. With both there is one row, the total.",
        ),
    ] = []
    implicate: Annotated[int, Field(ge=1, le=1_000, description="Which synthetic data set.")] = 1

    def question(self) -> FlowQuestion:
        """Return it as a question, whose areas are not looked up yet."""
        sums = tuple(side for side in SIDES if side in separated(self.sum))
        return replace(super().question(), implicate=self.implicate, sums=sums)


@router.get(
    "/{name}/{version}/flows", response_model=FlowList, responses=_IN_FORMATS, summary="Flows between areas"
)
async def get_flows(
    request: Request, name: Name, version: VersionName, query: Annotated[FlowQuery, Query()]
) -> Response:
    """Where the workers of work areas live, where the residents of home areas work, or all of it.

    Jobs are added up between areas of two levels. Levels are by default that of the areas asked for (the
    coarsest that has the first code), the other side's, or the finest that is usual for the release. An area
    may be of another level than the answer, if it is made of whole areas of that: work=44007&work_level=trct
    asks for the tracts of a county. estimate, low and high are an estimate of the true number of the first
    attribute and its interval; the released count need not lie in it. They are missing where the release has
    no draws of a table (intervals of /contents) whose areas those that are asked for are made of.
    """

    def find() -> Question | Response:
        ask = query.question()
        opened = opened_version(request, name, version)
        selection = select(opened.release, ask)
        parts = ask, query.top, query.format, query.places, query.limit, query.after
        etag = tag(request.app.version, opened.sha256, *parts)
        headers = {"ETag": etag, "Cache-Control": CONTENT}
        if is_fresh(request, etag):  # not before: of an area that there is not, nothing is fresh
            return Response(status_code=304, headers=headers)
        what = "_".join(("flows", *(selection.levels[side] for side in SIDES)))
        headers |= kept(opened.name, opened.version, query.format, what)
        few = query.top is not None or ask.sums != ()

        def written() -> Written:
            paging = Paging(request, query.limit, query.after)
            table = flow_table(opened, selection, paging, top=query.top, places=query.places)
            return table.written(query.format, headers)

        return Question(opened.cost(selection, written=not few, limit=query.limit), written)

    return await answered(request, find)
