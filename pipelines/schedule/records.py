"""The records of a release calendar: what became of each occurrence, and who is at work.

    RECORDS/lock                        held by the call that is at work
    RECORDS/NAME.json                   what became of the occurrence NAME; removed, it is looked at anew
    RECORDS/NAME.attempt-1.jsonl        log of an attempt
    RECORDS/told                        what somebody was told of, so that nobody is told twice

What has its name is whole. A record names output folders and kinds of error; it holds no confidential value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic_core import from_json

from pipelines.storage.durable import hold_lock, write_whole
from synth.rationals import exact

_FORMAT = "odsynth occurrence 1"
_Status = Literal["begun", "finished", "failed", "skip"]


@dataclass(frozen=True)
class Record:
    """What became of an occurrence."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")

    name: str
    due: str  # its time, UTC
    out: str  # the output folder
    # Of the last attempt; begun and not at work means interrupted. Skip: set aside, because it cannot
    # be paid.
    status: _Status
    # How many were begun, without those that could not be paid.
    attempts: Annotated[int, Field(strict=True, ge=0)]
    time: str  # time of the call that made the last (UTC)
    error: str | None = None  # type of the error that ended it
    published: str | None = None  # where the release was published
    reason: str | None = None  # why it was set aside
    epsilon: str | None = None  # what it would have cost, where the ledger refused it
    delta: str | None = None
    rho: str | None = None

    def document(self) -> dict[str, object]:
        """Return what is written, and why it was set aside if it was."""
        written = asdict(self)
        more = {key: written.pop(key) for key in ("reason", "epsilon", "delta", "rho")}
        return {"format": _FORMAT} | written | (more if self.status == "skip" else {})


_RECORD = TypeAdapter(Record)


class Records:
    """The records in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Return the file of an occurrence's record."""
        return self.folder / f"{name}.json"

    def log(self, name: str, attempt: int) -> Path:
        """Return the file of an attempt's log."""
        return self.folder / f"{name}.attempt-{attempt}.jsonl"

    def plan(self, name: str) -> Path:
        """Return the folder of the plan that an occurrence is released with, and its report."""
        return self.folder / f"{name}.plan"

    def locked(self) -> AbstractContextManager[bool]:
        """Hold the lock, or find it held."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return hold_lock(self.folder / "lock")

    def read(self) -> tuple[dict[str, Record], set[str]]:
        """Return the records by name, and the names of those that cannot be read."""
        records, damaged = {}, set()
        for path in sorted(self.folder.glob("*.json")):
            try:
                document = from_json(path.read_bytes())  # also limits how deep it is nested
                if document.pop("format") != _FORMAT:
                    raise ValueError("another format")
                record = _RECORD.validate_python(document)
                if record.name != path.stem or datetime.fromisoformat(record.time).tzinfo is None:
                    raise ValueError("another record")
                for amount in (record.epsilon, record.delta, record.rho):
                    exact(amount or "0")
                records[record.name] = record
            except (OSError, ValueError, TypeError, KeyError, AttributeError):
                damaged.add(path.stem)
        return records, damaged

    def save(self, record: Record) -> None:
        """Write a record, which is there whole or not at all."""
        write_whole(self.path(record.name), json.dumps(record.document(), indent=1) + "\n")

    def told(self) -> dict[str, frozenset[str]]:
        """Return what was told, by who was told; nothing if that is not known."""
        try:
            document = from_json((self.folder / "told").read_bytes())
            return {str(channel): frozenset(map(str, news)) for channel, news in document.items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}

    def save_told(self, announced: Mapping[str, frozenset[str]]) -> None:
        """Write what `told` returns."""
        document = {channel: sorted(news) for channel, news in announced.items()}
        write_whole(self.folder / "told", json.dumps(document, indent=1) + "\n")
