"""`odsynth serve` as a process: real connections, malformed requests, many readers, an end in good order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import requests

from helpers import PATIENCE, wait_for
from pipelines.service import Store, create_app, load_settings
from pipelines.service.access.tokens import create_token

from .helpers import copy_state, free_port, serving

pytestmark = pytest.mark.slow
READERS = 300
Served = tuple[subprocess.Popen, int, Path]  # the process, its port and its folder
# Pages like any other, whatever else was sent.
HARMLESS = (b"GET /?", b"GET http:", b"GET / HTTP/1.1\r\nHost: x\r\nX: ")


@pytest.fixture(scope="module")
def served(service_state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    copy_state(service_state, folder / "state")
    port = free_port()
    config = folder / "service.toml"
    config.write_text(f'folder = "state"\nport = {port}\nlog = "service.log"\n')
    few = partial(
        resource.setrlimit, resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    command = [sys.executable, "-m", "pipelines.cli", "serve", str(config)]
    with (folder / "errors").open("w") as errors:
        unsafe = {**os.environ, "ODSYNTH_DEBUG": "1"}
        process = subprocess.Popen(command, preexec_fn=few, env=unsafe, stderr=errors)
    wait_for(lambda: answers(port))
    yield process, port, folder
    process.kill()
    process.wait()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
    assert found, answer[:100]
    return int(found[1])


def test_half_sent_requests_keep_nobody_out(served: Served) -> None:
    """More connections than the soft limit of open files that the process was started with."""
    with contextlib.ExitStack() as held:
        for _ in range(400):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", served[1]), PATIENCE))
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        assert status(raw(served[1], b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) == 200


def test_a_connection_answers_one_after_the_other(served: Served, base: str, page: str) -> None:
    """HEAD and 304 leave nothing on the line that the next answer would be mistaken for."""
    connection = HTTPConnection("127.0.0.1", served[1], timeout=PATIENCE)
    for method, address, headers, expected in (
        ("GET", "/ready", {}, 200),
        ("HEAD", base, {}, 200),
        ("HEAD", f"{page}/files/README.md", {}, 200),
        ("GET", base, {"If-None-Match": "*"}, 304),
        ("GET", f"{page}/files/README.md", {"Range": "bytes=2-5"}, 206),
        ("HEAD", "/nothing", {}, 404),
        ("POST", base, {}, 405),
        ("GET", base, {}, 200),
    ):
        connection.request(method, address, headers=headers)
        response = connection.getresponse()
        body = response.read()
        assert response.status == expected
        assert "server" not in {name.lower() for name in response.headers}
        if method == "HEAD" or expected == 304:
            assert body == b""
    assert json.loads(body)["version"] == "v1"
    connection.close()


def test_malformed_requests(served: Served) -> None:
    for request_lines in (
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Bad: a\r\n b\x00\r\n",
        b"GET /\r\nX-Injected: yes HTTP/1.1\r\nHost: x\r\n",
        b"GET /%0d%0aX-Injected:%20yes HTTP/1.1\r\nHost: x\r\n",
        b"GET /api/v1/releases/a%0d%0aX-Injected:%20yes/b HTTP/1.1\r\nHost: x\r\n",
        b"GET /?x=%0d%0aX-Injected:%20yes HTTP/1.1\r\nHost: x\r\nOrigin: a\rX-Injected: yes\r\n",
        b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: x\r\n",
        b"GET /static/../../../../../etc/passwd HTTP/1.1\r\nHost: x\r\n",
        b"GET /static/..%2f..%2f..%2fsettings.py HTTP/1.1\r\nHost: x\r\n",
        b"GET //etc/passwd HTTP/1.1\r\nHost: x\r\n",
        b"GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\nX-Forwarded-Host: y\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 100_000 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n",
        b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nTransfer-Encoding: chunked\r\n",
        b"POST /api/v1/operator/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n",
        b"POST /api/v1/operator/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n",
    ):
        answer = raw(served[1], request_lines + b"Connection: close\r\n\r\n")
        head = answer.partition(b"\r\n\r\n")[0].lower()
        assert b"\nx-injected" not in head
        assert b"root:" not in answer
        assert b"Traceback" not in answer
        assert status(answer) < 500
        if not request_lines.startswith(HARMLESS):
            assert status(answer) >= 400


def test_many_readers_at_once(served: Served, base: str, page: str) -> None:
    """benchmarks/service.py has a thousand."""
    paths = ["/", base, f"{base}/certificate", page, f"{page}/files/README.md", "/api/v1/releases"]

    async def read(path: str) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", served[1])
        writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return status(answer)

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(read(paths[i % len(paths)]) for i in range(READERS)))

    assert asyncio.run(all_of_them()) == [200] * READERS


def test_it_ends_in_good_order(served: Served) -> None:
    process, port, folder = served
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
    with pytest.raises(OSError):  # noqa: PT011 - whatever the system says
        socket.create_connection(("127.0.0.1", port), 5)
    log = [json.loads(line) for line in (folder / "service.log").read_text().splitlines()]
    assert {line["event"] for line in log} == {"request", "message"}
    assert "Finished server process" in log[-1]["text"]
    (warned,) = [line["text"] for line in log if line.get("level") == "warning" and "DEBUG" in line["text"]]
    assert (folder / "errors").read_text() == f"Warning: {warned}\n"
    assert os.stat(folder / "state").st_mode & 0o077 == 0


@pytest.fixture(autouse=True)
def clock() -> None:
    """The true time, which other processes have."""


GUESSES = 4
ME, LOGIN = "/api/v1/operator/whoami", "/operator/login"


@pytest.fixture
def two(postgresql: Any, service_state: Path, tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """Addresses of two processes of a service with the small release, this one the second, and a token."""
    copy_state(service_state, tmp_path / "state")
    store = Store.open(postgresql.new_database())
    secret, _ = create_token(store, "ann", "operator")
    url = store._engine.url.render_as_string(hide_password=False)
    store.close()
    port = free_port()
    configs = [tmp_path / f"service-{number}.toml" for number in range(2)]
    for number, config in enumerate(configs):
        config.write_text(
            f'folder = "state"\nport = {port}\nworkers = 0\nlog = "log-{number}"\ndatabase = "{url}"\n'
            f'[limits]\nlogin = "{GUESSES}/hour"\n'
        )
    with ExitStack() as running:
        process = subprocess.Popen([sys.executable, "-m", "pipelines.cli", "serve", str(configs[0])])
        running.callback(process.wait)
        running.callback(process.kill)
        app = create_app(load_settings(configs[1]))
        running.callback(app.state.store.close)
        here = running.enter_context(serving(app))
        address = f"http://127.0.0.1:{port}"
        for each in (address, here):
            wait_for(lambda each=each: is_healthy(each))
        if (left := 3600 - time.time() % 3600) < 60:  # a window of guesses may not end in the test
            time.sleep(left)
        yield address, here, secret


def is_healthy(address: str) -> bool:
    try:
        return requests.get(f"{address}/health", timeout=PATIENCE).ok
    except (requests.ConnectionError, requests.Timeout):
        return False


def test_two_processes_are_one_service(
    two: tuple[str, str, str], postgresql: Any, base: str, page: str, tmp_path: Path
) -> None:
    one, other, secret = two
    token = {"Authorization": f"Bearer {secret}"}
    browser = requests.Session()  # whose cookies are of the host, whatever the port
    signed_in = browser.post(one + LOGIN, data={"token": secret}, timeout=PATIENCE)
    assert browser.get(other + ME, timeout=PATIENCE).json()["person"] == "ann"

    postgresql.stop()
    for address in (one, other):
        for method, path, how, status in (
            ("GET", "/operator", {}, 503),
            ("GET", ME, {"headers": token}, 503),
            ("POST", LOGIN, {"data": {"token": secret}}, 503),
            ("GET", "/ready", {}, 503),
            *(("GET", path, {}, 200) for path in ("/", page, base, f"{base}/flows?work=03001", "/health")),
        ):
            answer = browser.request(method, address + path, timeout=PATIENCE, **how)
            assert answer.status_code == status, (path, answer.text)
            assert (answer.headers.get("Retry-After") == "5") == (status == 503 and path != "/ready")
    postgresql.start()
    for address in (one, other):
        assert browser.get(address + ME, timeout=PATIENCE).json()["person"] == "ann"

    csrf = re.search('name="csrf" value="([^"]+)"', signed_in.text)
    assert csrf
    assert browser.post(f"{other}/operator/logout", data={"csrf": csrf[1]}, timeout=PATIENCE).ok
    assert browser.get(one + ME, timeout=PATIENCE).status_code == 401

    wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for number in range(GUESSES):  # in turns, with a program's header and with the form
        if number < GUESSES // 2:
            guess = requests.get(one + ME, headers={"Authorization": f"Bearer {wrong}"}, timeout=PATIENCE)
        else:
            guess = requests.post(other + LOGIN, data={"token": wrong}, timeout=PATIENCE)
        assert guess.status_code == 401
    for address in (one, other):
        for refused in (
            requests.get(address + ME, headers=token, timeout=PATIENCE),
            requests.post(address + LOGIN, data={"token": secret}, timeout=PATIENCE),
        ):
            assert refused.status_code == 429
            assert 0 < int(refused.headers["Retry-After"]) <= 7200
        assert requests.get(address + base, timeout=PATIENCE).ok
    lines = [json.loads(line) for n in (0, 1) for line in (tmp_path / f"log-{n}").read_text().splitlines()]
    assert [line["route"] for line in lines if line["event"] == "guess"] == [ME] * 2 + [LOGIN] * 2
    assert requests.get(f"{one}/metrics", timeout=PATIENCE).text.count("\nodsynth_guesses_total 2.0\n") == 1
