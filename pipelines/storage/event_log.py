"""The log of a run: JSON lines with a fixed set of fields, none of which can hold a confidential value.

It lies in the confidential folder all the same. What may be written is listed here and nowhere else: a field
that is not listed, or a value of another kind, is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["EventLog", "check_event"]

# Names of steps and types of errors are words of the program.
_FIELDS: dict[str, type] = {
    "step": str,
    "seconds": float,
    "error": str,
    "version": str,
    "debit": str,
}
_EVENTS = ("first debit", "began", "resumed", "step", "finished", "failed")


def check_event(
    event: str, fields: Mapping[str, object], events: Collection[str], kinds: Mapping[str, type]
) -> None:
    """Refuse what a log may not hold.

    Parameters
    ----------
    event : str
    fields : mapping of str to object
        What is to be written.
    events : collection of str
        All events that the log has.
    kinds : mapping of str to type
        All fields that it has, with the exact type of each.

    Raises
    ------
    ValueError
        If the event or a field is not one of those that may be written; no value is quoted.
    """
    if event not in events:
        raise ValueError(f"{event} is not an event of the log")
    for name, value in fields.items():
        if name not in kinds or type(value) is not kinds[name]:
            raise ValueError(f"the log has no field {name} of this kind")


class EventLog:
    """Appends to a log file, mode 0600, a line at a time.

    Parameters
    ----------
    path : Path
        Made when the first line is written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, event: str, **fields: str | float | int) -> None:
        """Append an event with the time and the process.

        Raises
        ------
        ValueError
            If the event or a field is not one of those that may be written.
        """
        check_event(event, fields, _EVENTS, _FIELDS)
        line = {"time": datetime.now(UTC).isoformat(), "event": event, "process": os.getpid(), **fields}
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
