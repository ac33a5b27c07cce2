"""Clients that take their time, on real connections: who sends or takes nothing for too long is cut."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from helpers import PATIENCE, wait_for
from pipelines.service import protocol

from .helpers import at_once, serving

HEAD = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
LAST = HEAD.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
FORM = b"POST /operator/login HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\nContent-Type: " + (
    b"application/x-www-form-urlencoded\r\n\r\n"
)
LARGE = 200  # megabytes: more than the buffers of both ends hold


@pytest.fixture
def app(make_app: Callable[..., FastAPI], tmp_path: Path) -> FastAPI:
    app = make_app(tmp_path / "state")

    @app.get("/large")
    def large() -> StreamingResponse:
        return StreamingResponse(b"x" * 1_000_000 for _ in range(LARGE))

    return app


@pytest.fixture
def port(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    for name in ("_HEAD_SECONDS", "_BODY_SECONDS", "_ANSWER_SECONDS"):
        monkeypatch.setattr(protocol, name, 3.0)
    with serving(app) as address:
        yield int(urlsplit(address).port or 0)


def each(text: bytes) -> list[bytes]:
    """The bytes of a text."""
    return [text[i : i + 1] for i in range(len(text))]


def test_who_sends_too_slowly_is_cut(port: int) -> None:
    """Whoever sends one byte after the other, without end, is not answered; the others are."""
    cases = (
        ([], 0),
        (each(HEAD[:-1] + b"X-A: " + b"a" * 100), 0),
        ([FORM, *each(b"a" * 99)], 0),
        ([HEAD, *each(HEAD[:-1] + b"X-A: " + b"a" * 100)], 1),
        ([HEAD, LAST], 2),
        ([LAST[:20], LAST[20:]], 1),
    )
    answered = dict.fromkeys(range(len(cases)), -1)

    def talk(number: int) -> None:
        received = b""
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            with suppress(ConnectionError):
                for piece in cases[number][0]:
                    connection.sendall(piece)
                    time.sleep(0.1)
            with suppress(ConnectionError):
                while part := connection.recv(65536):
                    received += part
        answered[number] = received.count(b"HTTP/1.1 200 ")

    at_once(talk, len(cases))
    assert list(answered.values()) == [expected for _, expected in cases]


def test_what_is_no_request_or_too_long_is_answered_in_the_form_of_all_errors(port: int) -> None:
    """With all of the answer, though not all of the request was read."""
    address, header = b"GET /health?x=%s HTTP/1.1\r\nHost: x\r\n\r\n", HEAD[:-2] + b"X-A: %s\r\n\r\n"
    for sent, status, error in (
        (b"NOTHING\r\n\r\n", 400, "invalid"),
        (address % (b"a" * 70_000), 414, "too_large"),
        (address % (b"a" * 3_000_000), 414, "too_large"),
        (header % (b"a" * 3_000_000), 431, "too_large"),
    ):
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
            with suppress(ConnectionError):
                connection.sendall(sent.replace(b"Host: x\r\n", b"Host: x\r\nConnection: close\r\n"))
            received = b"".join(iter(lambda c=connection: c.recv(65536), b""))
        head, _, body = received.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert status == 414 or json.loads(body)["error"] == error
        assert status != 414 or b"longer than 65,536 bytes" in body  # of a page, a page


def test_who_takes_nothing_of_an_answer_is_cut(port: int, tmp_path: Path) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", port))
        connection.sendall(HEAD.replace(b"/health", b"/large"))
        wait_for(lambda: '"route": "/large"' in (tmp_path / "service.log").read_text())
        received = 0
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                received += len(part)
        assert received < LARGE * 1_000_000
