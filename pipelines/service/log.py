"""The log of the service, in the manner of `pipelines.storage.event_log`.

There is no address of a client, no path and no query in it: a route is logged as the program writes it.
"""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

from pipelines.storage.event_log import event_line, open_log

_EVENTS = ("request", "guess", "error", "message")
_FIELDS: dict[str, type] = {
    "id": str,
    "method": str,
    "route": str,
    "status": int,
    "seconds": float,
    "error": str,  # its type and the line of the program; its words may quote what was sent
    "level": str,
    "text": str,  # of the server: that it started, on which port, that it stops
}


class ServiceLog(logging.Handler):
    """Writes events, and the messages of the server and of this package."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(logging.INFO)
        self._line = threading.Lock()
        self._where = "the log, standard output" if path is None else f"the log, {path}"
        self._stream = sys.stdout if path is None else open_log(path)

    def write(self, event: str, **fields: str | int | float) -> None:
        """Append an event with the time."""
        line = event_line(event, fields, _EVENTS, _FIELDS)
        with self._line:
            try:
                self._stream.write(line)
                self._stream.flush()
            except OSError as error:
                raise OSError(error.errno, error.strerror, self._where) from None

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message of the server, without its traceback."""
        self.write("message", level=record.levelname.lower(), text=record.getMessage())

    def close(self) -> None:
        """Close the file."""
        if self._stream is not sys.stdout:
            self._stream.close()
        super().close()
