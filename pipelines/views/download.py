"""Downloading a published release from a service, each file once and compared with its hash."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, urlsplit

import pooch  # type: ignore[import-untyped]
import requests

from pipelines.views.folder import PublicReleaseError

_ADDRESS = re.compile(r"(?P<service>https?://.+?)(?:/api/v1)?/releases/(?P<name>[^/]+)/(?P<version>[^/]+)/?")
_SHA256 = re.compile("[0-9a-f]{64}")
_SECONDS = 60


def download(address: str, cache: Path | None = None) -> Path:
    """Download the files of a version that are not here yet, and return their folder."""
    cache = Path(pooch.os_cache("odsynth")) if cache is None else cache
    match = _ADDRESS.fullmatch(address)
    if match is None:
        example = "https://data.example.org/releases/NAME/VERSION"
        raise PublicReleaseError(f"{address}: this is not the address of a version; write one like {example}")
    try:
        service = match["service"]
        entry = _json(f"{service}/api/v1/releases/{match['name']}/{match['version']}")
        # From here on the version itself, whatever becomes the latest meanwhile.
        version_path = f"releases/{quote(str(entry['name']))}/{quote(str(entry['version']))}"
        files = _json(f"{service}/api/v1/{version_path}/files")["files"]
        names = {str(file["name"]): str(file["sha256"]) for file in files}
        content = str(entry["sha256"])
        if not all(_SHA256.fullmatch(digest) for digest in (content, *names.values())):
            raise PublicReleaseError(f"{address}: the answer has no hashes of files. Fix: tell the publisher")
        folder = cache / content
        for name, digest in names.items():
            parts = PurePosixPath(name).parts
            if name.startswith("/") or ".." in parts or "\\" in name:
                rule = f"{name!r} is not the name of a file of a release"
                raise PublicReleaseError(f"{address}: {rule}. Fix: tell the publisher")
            if name.removesuffix(".csv.gz") + ".parquet" not in names or not name.endswith(".csv.gz"):
                url, path = f"{service}/{version_path}/files/{quote(name)}", folder.joinpath(*parts)
                pooch.retrieve(url, f"sha256:{digest}", path.name, path.parent, progressbar=False)
    except requests.RequestException as error:
        host = urlsplit(address).netloc
        rule, fix = f"{host} does not answer ({_reason(error)})", "check the address, or try again later"
        raise PublicReleaseError(f"{address}: {rule}. Fix: {fix}") from error
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, PublicReleaseError):
            raise
        why = (
            "a file does not have its hash"
            if "hash" in str(error)
            else "the server does not answer as odsynth does"
        )
        raise PublicReleaseError(f"{address}: {why}. Fix: try again, or tell the publisher") from error
    return folder


def _json(address: str) -> dict[str, Any]:
    answer = requests.get(address, timeout=_SECONDS)
    if answer.status_code >= 400 and "json" in answer.headers.get("Content-Type", ""):
        raise PublicReleaseError(f"{address}: {answer.json().get('detail', answer.reason)}")
    answer.raise_for_status()
    return dict(answer.json())


def _reason(error: requests.RequestException) -> str:
    return (
        type(error).__name__
        if error.response is None
        else f"{error.response.status_code} {error.response.reason}"
    )
