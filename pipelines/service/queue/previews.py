"""Finished releases that wait for approval: their maps are drawn already, for whoever decides.

Only the public folder of a run is read. What is made of it is kept under the name of its content, so that it
is there at once when the release is published.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from pipelines.service.queue.runs import list_runs
from pipelines.service.store import Store
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of


def waiting(store: Store, home: Path) -> list[tuple[str, Path]]:
    """Return the finished releases whose files are here, and are those that the runs wrote."""
    releases = []
    try:
        rows = list_runs(store, state="finished")
    except SQLAlchemyError:
        return []
    for row in rows:
        folder = home / json.loads(row.configuration)["release"]["out"] / "public"
        if row.content is not None and (folder / CHECKSUMS).is_file() and _is_whole(folder, row.content):
            releases.append((row.content, folder))
    return releases


@lru_cache(maxsize=256)
def _is_whole(folder: Path, content: str) -> bool:
    """Whether the files are those that the hash stands for. They do not change, so once is enough."""
    try:
        seal = (folder / CHECKSUMS).read_bytes()
        return hashlib.sha256(seal).hexdigest() == content and all(
            sha256_of(folder / name) == digest for name, digest in parse_checksums(seal).items()
        )
    except (OSError, ValueError):
        return False
