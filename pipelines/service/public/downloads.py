"""Files that go out: those of a version, each compared with SHA256SUMS before, and those of its map."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import FileResponse, Response
from starlette.types import Receive, Scope, Send

from pipelines.service.caching import CONTENT, is_fresh
from pipelines.service.errors import answers
from pipelines.service.parameters import Name, VersionName, latest_version
from pipelines.service.public.catalog import Catalog
from pipelines.service.public.preparation import Prepared
from pipelines.service.refusals import not_found
from pipelines.service.rendering import HTML

_TYPES = {
    ".csv.gz": "application/gzip",
    ".csv": "text/csv; charset=utf-8",
    ".json": "application/json",
    ".md": "text/markdown; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
    ".pem": "application/x-pem-file",
}
_KINDS = {kind.partition(";")[0] for kind in _TYPES.values()} | {"application/octet-stream"}

router = APIRouter(tags=["public"], dependencies=[Depends(latest_version)])


class ServedFile(FileResponse):
    """A file, of which HEAD reads nothing: the method that was asked is known though routes see GET."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await super().__call__({**scope, "method": scope.get("method_asked", "GET")}, receive, send)


@router.get(
    "/releases/{name}/{version}/files/{path:path}",
    response_class=FileResponse,
    responses={
        200: {"content": {kind: {} for kind in sorted(_KINDS)}, "description": "The file"},
        206: {
            "content": {kind: {} for kind in sorted(_KINDS | {"multipart/byteranges"})},
            "description": "The ranges that were asked for",
        },
        304: {"description": "The client holds it"},
        307: {"description": "From latest to the newest version"},
        416: {"description": "The range is not in the file"},
        **answers(404, 410, 422, 429, 503, pages=True),
    },
    summary="Download a file",
)
def download(
    request: Request, name: Name, version: VersionName, path: Annotated[str, Path(max_length=300)]
) -> Response:
    """A file that SHA256SUMS lists, SHA256SUMS itself, or a signature. Its ETag is its SHA-256."""
    catalog: Catalog = request.app.state.catalog
    file = catalog.file(catalog.find_usable(name, version), path)
    headers = {
        "ETag": f'"{file.sha256}"',
        "Cache-Control": CONTENT,
        "Repr-Digest": f"sha-256=:{file.digest}:",
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    if is_fresh(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    kept = kept_name(name, version, file.name.rpartition("/")[2])
    return ServedFile(file.path, headers=headers, media_type=media_type(path), filename=kept)


def kept_name(name: str, version: str, what: str) -> str:
    """Return under which name browsers keep a download of a version: true data have names like its files."""
    return f"{name}_{version}_synthetic_{what}"


def media_type(name: str) -> str:
    """Return the media type of a file of a release, by its name."""
    return next((kind for end, kind in _TYPES.items() if name.endswith(end)), "application/octet-stream")


def map_page(request: Request, prepared: Prepared, headers: Mapping[str, str]) -> Response:
    """Answer with the page of a map, as it was compressed when it was made if the client takes that."""
    path, sent = prepared.map, {**headers, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", "") and prepared.compressed_map.is_file():
        path, sent = prepared.compressed_map, {**sent, "Content-Encoding": "gzip"}
    return _file(request, path, sent, HTML)


def map_part(
    request: Request, prepared: Prepared, name: str, headers: Mapping[str, str], kept: str
) -> Response:
    """Answer with a file that the page of a map names; the map in one file is `kept` under a name."""
    path = prepared.map_part(name)
    if path is None:
        raise not_found("The map of this release has no such part; open its page again.")
    if path.suffix == ".html":  # the map in one file, which its page offers for download
        return _file(
            request, path, {**headers, "Content-Disposition": f'attachment; filename="{kept}"'}, HTML
        )
    return _file(request, path, headers, "application/gzip")


def _file(request: Request, path: FilePath, headers: Mapping[str, str], media_type: str) -> Response:
    if "ETag" in headers and is_fresh(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return ServedFile(path, headers=headers, media_type=media_type)
