"""The public API: releases, certificates, files, flows. Read-only; what it knows is what was published."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from pipelines.release.certificate import Certificate
from pipelines.service.caching import CONTENT, answer, is_fresh, tag
from pipelines.service.errors import answers
from pipelines.service.parameters import Name, VersionName
from pipelines.service.public.catalog import Catalog
from pipelines.service.public.flow_queries import FlowQuestion
from pipelines.service.public.models import (
    FileEntry,
    FileList,
    FlowEntry,
    FlowList,
    ReleaseEntry,
    ReleaseList,
)
from pipelines.service.store import ServiceError
from pipelines.views.intervals import COVERAGE_WORDS

__all__ = ["flow_question", "router"]

_MOST_FLOWS = 1_000

router = APIRouter(prefix="/api/v1/releases", tags=["public"], responses=answers(404, 422, 429))

_Code = Annotated[str | None, Query(min_length=1, max_length=100)]
_Level = Annotated[str | None, Query(min_length=1, max_length=100)]


@router.get("", response_model=ReleaseList, summary="List what has been published")
def list_releases(request: Request) -> Response:
    """All versions, newest first. Withdrawn ones stay in the list, with the reason."""
    catalog: Catalog = request.app.state.catalog
    return answer(request, ReleaseList(releases=[ReleaseEntry.of(v) for v in catalog.versions()]))


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
    found = catalog.version(name, version)
    return answer(request, catalog.file(found, "certificate.json").path.read_bytes(), CONTENT)


@router.get(
    "/{name}/{version}/files",
    response_model=FileList,
    responses=answers(410, 503),
    summary="Files, with hashes",
)
def list_files(request: Request, name: Name, version: VersionName) -> Response:
    """Every file that SHA256SUMS lists, and where to download it. Range requests are answered."""
    catalog: Catalog = request.app.state.catalog
    found = catalog.find_usable(name, version)
    files = [
        FileEntry(name=file.name, size=file.size, sha256=file.sha256, href=found.address(file))
        for file in found.files.values()
    ]
    return answer(request, FileList(files=files))


async def flow_question(
    work: Annotated[_Code, Query(description="Code of a work area: where do its workers live?")] = None,
    home: Annotated[_Code, Query(description="Code of a home area: where do its residents work?")] = None,
    work_level: Annotated[_Level, Query(description="Level of the workplaces, such as trct.")] = None,
    home_level: Annotated[_Level, Query(description="Level of the homes.")] = None,
    attribute: Annotated[
        str, Query(min_length=1, max_length=100, description="Which jobs: S000 is all, SA01 the young, ...")
    ] = "S000",
    implicate: Annotated[int, Query(ge=1, le=1_000, description="Which synthetic data set.")] = 1,
    top: Annotated[int, Query(ge=1, le=_MOST_FLOWS, description="How many flows, the largest first.")] = 20,
) -> FlowQuestion:
    """Return the query of `get_flows` as a question: one area, on one side."""
    if (work is None) == (home is None):
        raise ServiceError(422, "invalid", "Give one area: either work=CODE or home=CODE.")
    return FlowQuestion(
        area=work or home or "",
        of="residents" if work is None else "workers",
        level=home_level if work is None else work_level,
        other_level=work_level if work is None else home_level,
        attribute=attribute,
        implicate=implicate,
        top=top,
    )


@router.get(
    "/{name}/{version}/flows",
    response_model=FlowList,
    responses=answers(410, 503),
    summary="Flows of an area",
)
async def get_flows(
    request: Request, name: Name, version: VersionName, ask: Annotated[FlowQuestion, Depends(flow_question)]
) -> Response:
    """Where the workers of a work area live, or where the residents of a home area work.

    The level of the area is the coarsest that has the code, unless it is given; the level of the other side
    is the same, unless it is given.
    """
    # A few threads of their own: more would only wait for each other, and others not wait for them.
    return await to_thread.run_sync(
        _flows, request, name, version, ask, limiter=request.app.state.flow_limiter
    )


def _flows(request: Request, name: str, version: str, ask: FlowQuestion) -> Response:
    catalog: Catalog = request.app.state.catalog
    found = catalog.find_usable(name, version)
    said = catalog.flows(found, ask)
    headers = {"ETag": tag(found.sha256, ask, catalog.draws_mark(found)), "Cache-Control": CONTENT}
    if is_fresh(request, headers["ETag"]):  # not before: of an area that there is not, nothing is fresh
        return Response(status_code=304, headers=headers)
    flows = FlowList(
        name=name,
        version=version,
        side="work" if ask.of == "workers" else "home",
        area=said.area.code,
        level=said.area.level,
        other_level=said.other_level,
        attribute=ask.attribute,
        meaning=catalog.release(found).counts[ask.attribute],
        implicate=ask.implicate,
        jobs=said.jobs,
        areas=said.areas,
        flows=[
            FlowEntry(code=f.code, jobs=f.jobs, external=f.external, low=f.low, high=f.high)
            for f in said.flows
        ],
        about_intervals=" ".join(COVERAGE_WORDS) if said.bounded else None,
    )
    return Response(flows.model_dump_json(exclude_none=True), headers=headers, media_type="application/json")
