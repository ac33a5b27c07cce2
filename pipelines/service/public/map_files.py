"""The map of a release as it goes out: a page, and what it fetches from beside it when that is opened."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from pipelines.service.caching import is_fresh
from pipelines.service.public.downloads import ServedFile
from pipelines.service.public.preparation import Prepared
from pipelines.service.refusals import not_found
from pipelines.service.rendering import HTML


def map_page(request: Request, prepared: Prepared, headers: Mapping[str, str]) -> Response:
    """Answer with the page of a map, as it was compressed when it was made if the client takes that."""
    path, sent = prepared.map, {**headers, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and prepared.compressed_map.is_file():
        path, sent = prepared.compressed_map, {**sent, "Content-Encoding": "gzip"}
    return _file(request, path, sent, HTML)


def map_part(request: Request, prepared: Prepared, name: str, headers: Mapping[str, str]) -> Response:
    """Answer with a file that the page of a map names."""
    path = prepared.map_part(name)
    if path is None:
        raise not_found("The map of this release has no such part; open its page again.")
    if path.suffix == ".html":  # the map in one file, which its page offers for download
        return _file(request, path, {**headers, "Content-Disposition": "attachment"}, HTML)
    return _file(request, path, headers, "application/gzip")


def _file(request: Request, path: Path, headers: Mapping[str, str], media_type: str) -> Response:
    if "ETag" in headers and is_fresh(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return ServedFile(path, headers=headers, media_type=media_type)
