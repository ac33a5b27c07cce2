"""What an approver weighs: how far off a release may be, what differs from the one before, and its map."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from pipelines.plans.accuracy import ExpectedAccuracy, ExpectedTable
from pipelines.publishing.publishing import folder_name
from pipelines.release.accuracy import read_accuracy
from pipelines.release.certificate import Certificate
from pipelines.service.public.catalog import Catalog, Version
from pipelines.service.queue.runs import list_runs
from pipelines.service.store import Store
from pipelines.storage.checksums import CHECKSUMS, parse_checksums, sha256_of
from pipelines.views.accuracy import table_title


@dataclass(frozen=True)
class Review:
    """A release, beside the latest version of the same name that is published and not withdrawn."""

    # Each with its title, and the loss that the version before expected of it, if it said one; perhaps none.
    tables: tuple[tuple[str, ExpectedTable, float | None], ...]
    previous: Version | None
    # What differs from the version before: what it is, there and here
    changes: tuple[tuple[str, str, str], ...]


def review(catalog: Catalog, public: Path, certificate: Certificate, published: str | None) -> Review:
    """Put together what is known of a release that waits for approval, or was published."""
    name = folder_name(certificate.release.name)
    usable = (
        version
        for version in catalog.versions()
        if version.state.name == name and version.status == "complete" and version.state.version != published
    )
    previous = next(usable, None)
    now, then = _sheet(public, certificate.plan_sha256), None
    if previous is not None and previous.certificate is not None:
        then = _sheet(previous.folder, previous.certificate.plan_sha256)
    before = {_key(table): table.loss for table in (then.tables if then else ())}
    tables = tuple(
        (table_title(table), table, before.get(_key(table))) for table in (now.tables if now else ())
    )
    return Review(tables, previous, _changes(previous, certificate))


def _changes(previous: Version | None, certificate: Certificate) -> tuple[tuple[str, str, str], ...]:
    if previous is None or previous.certificate is None:
        return ()
    before, now = _facts(previous.certificate), _facts(certificate)
    return tuple((fact, before[fact], now[fact]) for fact in now if before[fact] != now[fact])


def _facts(certificate: Certificate) -> dict[str, str]:
    return {
        "Year": str(certificate.release.year),
        "Job type": certificate.release.job_type,
        "Mechanism": certificate.mechanism,
        "\u03b5 of the run": str(certificate.run.epsilon),
        "\u03b4 of the run": str(certificate.run.delta),
        "Most jobs of a person": str(certificate.user_level.records),
        "Protected of a job": "all of it" if certificate.protects == "record" else "its home",
        "Presence of a job": "not protected" if certificate.presence is None else "protected",
        "Synthetic workers": f"{certificate.totals.synthetic_workers:,}",
        "Version of odsynth": certificate.software.version,
    }


def _sheet(folder: Path, plan_sha256: str) -> ExpectedAccuracy | None:
    try:
        return read_accuracy(folder, plan_sha256)
    except (OSError, ValueError):
        return None


def _key(table: ExpectedTable) -> tuple[str | None, str | None, tuple[str, ...]]:
    return table.home, table.work, tuple(table.attributes)


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
