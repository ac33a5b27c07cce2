"""HTTP with clients that take their time: what the server (uvicorn) leaves open for ever is cut here.

A connection is cut when a request's head has not come within `_HEAD_SECONDS` of the connection or of its
first byte, when its body has not come within `_BODY_SECONDS` of its head, and when the client has taken
nothing of an answer for `_ANSWER_SECONDS`. Between requests it is kept for uvicorn's ``timeout_keep_alive``.
What is no request, or too long for one, is answered in the form of all errors.
"""

from __future__ import annotations

import asyncio
import json
import socket

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

_HEAD_SECONDS = 20.0
_BODY_SECONDS = 60.0  # for at most `limits.body`
_ANSWER_SECONDS = 60.0
_END_SECONDS = 2.0  # for a client to take its refusal
LONGEST = 65_536  # of a request without its body, in bytes
ADDRESS_TOO_LONG = f"The address is longer than {LONGEST:,} bytes; ask in parts."


class TimedProtocol(H11Protocol):
    """A connection."""

    _refused = False
    _cut: asyncio.TimerHandle | None = None
    _awaited: object = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        if hasattr(socket, "TCP_USER_TIMEOUT") and connection.family != socket.AF_UNIX:
            # The system's own account of what the client has taken; ours ends at the system's buffers.
            milliseconds = int(1000 * _ANSWER_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        self._await("head", _HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        """Read, and wait for what is missing of the request, for as long as it may take altogether."""
        if self._refused:
            return
        super().data_received(data)
        cycle = self.cycle
        if self._refused:
            self._await("end", _END_SECONDS)
        elif cycle is None or cycle.response_complete:
            self._await("head", _HEAD_SECONDS)
        elif cycle.more_body:
            self._await(cycle, _BODY_SECONDS)
        else:
            self._await(None)

    def send_400_response(self, msg: str) -> None:
        """Answer, and read on for a moment: closed at once, a connection takes the answer away with it."""
        head, _ = self.conn.trailing_data
        status, error, detail = 400, "invalid", "This is no request of HTTP/1.1; correct it."
        if len(head) >= LONGEST:
            status, error = 431, "too_large"
            detail = f"The headers have more than {LONGEST:,} bytes; send fewer or shorter ones."
            if b"\n" not in head[:LONGEST]:
                status, detail = 414, ADDRESS_TOO_LONG
        body = json.dumps({"error": error, "detail": detail}).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        answer = h11.Response(status_code=status, headers=[*headers, ("Connection", "close")])
        for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.write_eof()
        self._refused = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._await(None)
        super().connection_lost(exc)

    def _await(self, awaited: object, seconds: float = 0) -> None:
        if awaited is self._awaited:  # it has its time already
            return
        self._awaited = awaited
        if self._cut is not None:
            self._cut.cancel()
        self._cut = None if awaited is None else self.loop.call_later(seconds, self.transport.abort)
