"""Parameters of addresses, as the API and the pages share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Annotated, Any

from fastapi import Path, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from pipelines.service.caching import STATEMENT
from pipelines.service.refusals import invalid
from pipelines.service.store import ServiceError

LARGEST = 2**31 - 1  # of PostgreSQL's integers

Name = Annotated[str, Path(max_length=200, description="Of the release, as in the list of releases.")]
VersionName = Annotated[
    str, Path(max_length=200, description="As in the list of releases; latest leads to the newest.")
]
RunNumber = Annotated[int, Path(ge=1, le=LARGEST, description="Number of the run.")]
Before = Annotated[int | None, Query(ge=1, le=LARGEST, description="Only what is older than this number.")]
LATEST = "latest"


async def known_parameters(request: Request) -> None:
    """Refuse parameters that an address of the API does not have, and those that are there twice."""
    repeatable = _parameters(request.app, request.scope["route"].path_format, request.method.lower())
    for name, times in Counter(key for key, _ in request.query_params.multi_items()).items():
        if name not in repeatable:
            names = f"it has: {', '.join(repeatable)}" if repeatable else "it has none"
            detail = f"{_shown(name)}: there is no such parameter here; {names}. Leave it out or correct it."
            raise ServiceError(422, "unknown_parameter", detail)
        if times > 1 and not repeatable[name]:
            raise invalid(f"{name}: the parameter is there {times} times; give it once.")


@lru_cache(maxsize=1024)
def _parameters(app: Any, path: str, method: str) -> dict[str, bool]:
    """Parameters of a query that the document describes, and whether they may be there several times."""
    operation = app.openapi()["paths"].get(path, {}).get(method, {})
    queries = (parameter for parameter in operation.get("parameters", ()) if parameter["in"] == "query")
    return {
        parameter["name"]: "array" in str(parameter["schema"].get("type", parameter["schema"]))
        for parameter in queries
    }


def _shown(name: str) -> str:
    """A name that was sent, if it can be one; else not repeated."""
    return name if len(name) <= 40 and name.isidentifier() else "A parameter"


async def latest_version(request: Request) -> None:
    """Lead from the version ``latest`` of a release to its newest, which then has its own address."""
    names = request.path_params
    if names.get("version") != LATEST:
        return
    newest = (await run_in_threadpool(request.app.state.catalog.latest, names["name"])).state
    before = f"/releases/{newest.name}/"
    path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1").partition("?")[0]
    begin, middle, end = path.partition(f"{before}{LATEST}")
    if not middle:  # written in another way than in the list of releases
        raise HTTPException(404)
    if end.startswith("/ogc"):  # QGIS 3.22 follows whole addresses only
        begin = request.app.state.settings.address + begin
    query = request.url.query
    location = f"{begin}{before}{newest.version}{end}{'?' if query else ''}{query}"
    raise HTTPException(307, headers={"Location": location, "Cache-Control": STATEMENT})


def separated(values: Iterable[str]) -> tuple[str, ...]:
    """Return the parts of parameters that may be there several times, or be lists with commas; each once."""
    parts = (part.strip() for value in values for part in value.split(","))
    return tuple(dict.fromkeys(part for part in parts if part))
