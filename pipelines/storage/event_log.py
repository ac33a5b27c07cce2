"""Logs: JSON lines with a fixed set of fields, none of which can hold a confidential value.

The log of a run lies in the confidential folder all the same. What may be written is listed here, and for the
service in `pipelines.service.monitoring`: a field that is not listed, or a value of another kind, is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

# Names of steps and types of errors are words of the program.
_FIELDS: dict[str, type] = {
    "process": int,
    "step": str,
    "seconds": float,
    "error": str,
    "version": str,
    "debit": str,
}
_EVENTS = ("first debit", "began", "resumed", "step", "finished", "failed", "witnessed", "sealed")


def event_line(
    event: str, fields: Mapping[str, object], events: Collection[str], kinds: Mapping[str, type]
) -> str:
    """Return the line of a log for an event, with the time; refuse what the log may not hold.

    The log has these `events` only, and fields of exactly these `kinds`.
    """
    if event not in events:
        raise ValueError(f"{event} is not an event of the log")
    for name, value in fields.items():
        if name not in kinds or type(value) is not kinds[name]:
            raise ValueError(f"the log has no field {name} of this kind")
    return json.dumps({"time": datetime.now(UTC).isoformat(), "event": event, **fields}) + "\n"


def open_log(path: Path) -> TextIO:
    """Open a log to append to it, made with mode 0600; each line is written at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    return open(descriptor, "a", encoding="utf-8", buffering=1)


class EventLog:
    """The log of a run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, event: str, **fields: str | float | int) -> None:
        """Append an event with the time and the process."""
        line = event_line(event, {"process": os.getpid(), **fields}, _EVENTS, _FIELDS)
        with open_log(self._path) as file:
            file.write(line)
