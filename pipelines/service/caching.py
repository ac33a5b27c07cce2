"""What caches are told: what a version holds never changes, what is said about it may."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

CONTENT = "public, max-age=86400, immutable"
"""For content, which is named by its version. A day, so that a withdrawal reaches every cache within one."""

STATEMENT = "public, no-cache"
"""For lists, withdrawals and errata: kept, but asked for again, which costs an ETag."""


def tag(*parts: object) -> str:
    """Return the ETag of what is determined by these parts: weak, as answers may be sent compressed."""
    return f'W/"{hashlib.sha256(repr(parts).encode()).hexdigest()[:32]}"'


def is_fresh(request: Request, etag: str) -> bool:
    """Whether the client holds this content (If-None-Match)."""
    held = request.headers.get("if-none-match", "")
    return held.strip() == "*" or etag.removeprefix("W/") in {
        value.strip().removeprefix("W/") for value in held.split(",")
    }


def answer(
    request: Request,
    content: BaseModel | bytes,
    kind: str = STATEMENT,
    media_type: str = "application/json",
) -> Response:
    """Answer with JSON (or another type), or with 304 if the client holds it."""
    body = content if isinstance(content, bytes) else content.model_dump_json().encode()
    headers = {"ETag": tag(hashlib.sha256(body).digest()), "Cache-Control": kind}
    if is_fresh(request, headers["ETag"]):
        return Response(status_code=304, headers=headers)
    return Response(body, headers=headers, media_type=media_type)
