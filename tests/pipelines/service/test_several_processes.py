"""Several processes on one PostgreSQL are one service, also while it is away."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from pipelines.service import Store
from pipelines.service.access.tokens import create_token

from .helpers import copy_state, wait_for

pytestmark = pytest.mark.slow
GUESSES = 4
ME, LOGIN = "/api/v1/operator/whoami", "/operator/login"


@pytest.fixture
def two(postgresql: Any, service_state: Path, tmp_path: Path) -> Iterator[tuple[str, str, str]]:
    """Addresses of two processes of a service with the small release, and a token."""
    copy_state(service_state, tmp_path / "state")
    store = Store.open(postgresql.new_database())
    secret, _ = create_token(store, "ann", "operator")
    url = store._engine.url.render_as_string(hide_password=False)
    store.close()
    addresses = []
    with ExitStack() as running:
        for number in range(2):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            config = tmp_path / f"service-{number}.toml"
            config.write_text(
                f'folder = "state"\nport = {port}\nworkers = 0\nlog = "log-{number}"\ndatabase = "{url}"\n'
                f'[limits]\nlogin = "{GUESSES}/hour"\n'
            )
            process = subprocess.Popen([sys.executable, "-m", "pipelines.cli", "serve", str(config)])
            running.callback(process.wait)
            running.callback(process.kill)
            addresses.append(f"http://127.0.0.1:{port}")
        for address in addresses:
            wait_for(lambda address=address: answers(address), 240)
        yield addresses[0], addresses[1], secret


def answers(address: str) -> bool:
    try:
        return requests.get(f"{address}/health", timeout=10).ok
    except requests.ConnectionError:
        return False


def test_two_processes_are_one_service(
    two: tuple[str, str, str], postgresql: Any, base: str, page: str, tmp_path: Path
) -> None:
    one, other, secret = two
    token = {"Authorization": f"Bearer {secret}"}
    browser = requests.Session()  # whose cookies are of the host, whatever the port
    signed_in = browser.post(one + LOGIN, data={"token": secret}, timeout=30)
    assert browser.get(other + ME, timeout=30).json()["person"] == "ann"

    postgresql.stop()
    for address in (one, other):
        for method, path, how, status in (
            ("GET", "/operator", {}, 503),
            ("GET", ME, {"headers": token}, 503),
            ("POST", LOGIN, {"data": {"token": secret}}, 503),
            ("GET", "/ready", {}, 503),
            *(("GET", path, {}, 200) for path in ("/", page, base, f"{base}/flows?work=03001", "/health")),
        ):
            answer = browser.request(method, address + path, timeout=30, **how)
            assert answer.status_code == status, (path, answer.text)
            assert (answer.headers.get("Retry-After") == "5") == (status == 503 and path != "/ready")
    postgresql.start()
    for address in (one, other):
        assert browser.get(address + ME, timeout=30).json()["person"] == "ann"

    csrf = re.search('name="csrf" value="([^"]+)"', signed_in.text)
    assert csrf
    assert browser.post(f"{other}/operator/logout", data={"csrf": csrf[1]}, timeout=30).ok
    assert browser.get(one + ME, timeout=30).status_code == 401

    wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    for number in range(GUESSES):  # in turns, with a program's header and with the form
        if number < GUESSES // 2:
            guess = requests.get(one + ME, headers={"Authorization": f"Bearer {wrong}"}, timeout=30)
        else:
            guess = requests.post(other + LOGIN, data={"token": wrong}, timeout=30)
        assert guess.status_code == 401
    for address in (one, other):
        for refused in (
            requests.get(address + ME, headers=token, timeout=30),
            requests.post(address + LOGIN, data={"token": secret}, timeout=30),
        ):
            assert refused.status_code == 429
            assert 0 < int(refused.headers["Retry-After"]) <= 7200
        assert requests.get(address + base, timeout=30).ok
    lines = [json.loads(line) for n in (0, 1) for line in (tmp_path / f"log-{n}").read_text().splitlines()]
    assert [line["route"] for line in lines if line["event"] == "guess"] == [ME] * 2 + [LOGIN] * 2
    assert requests.get(f"{one}/metrics", timeout=30).text.count("\nodsynth_guesses_total 2.0\n") == 1
