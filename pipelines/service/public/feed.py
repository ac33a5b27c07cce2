"""The feed of releases, in Atom (RFC 4287): what was published, withdrawn and corrected."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

from pipelines.service.public.catalog import Version
from pipelines.service.rendering import text

MEDIA_TYPE = "application/atom+xml"
_MOST = 100
_NOT_XML = re.compile(
    "[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]"
)  # may be in an erratum


def atom(versions: Iterable[Version], address: str, author: str) -> bytes:
    """Write the feed."""
    entries = sorted(((_updated(version), version) for version in versions), key=lambda each: each[0])
    # Of the content: it stays when the service moves.
    latest = [(_id(v.state.name, v.state.version, v.sha256), when, v) for when, v in entries[::-1][:_MOST]]
    updated = latest[0][1] if latest else "1970-01-01T00:00:00+00:00"
    feed = text("feed.xml", address=address, author=author, id=_id(address), updated=updated, entries=latest)
    return _NOT_XML.sub("", feed).encode()


def _updated(version: Version) -> str:
    remarks = [remark.date for remark in version.state.errata]
    withdrawn = [] if version.state.withdrawn is None else [version.state.withdrawn.date]
    return max([version.state.begun, *remarks, *withdrawn])


def _id(*parts: str) -> str:
    return f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, ' '.join(parts))}"
