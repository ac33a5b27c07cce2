"""Messages that a decision waits: sent once to whom it concerns, retried, and in nobody's way."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_string
from typing import Any

import pytest
from sqlalchemy import select, update

from helpers import wait_for
from pipelines.service import ServiceSettings, Store
from pipelines.service.queue import outbox as sending
from pipelines.service.queue import runs as life
from pipelines.service.queue import workers
from pipelines.service.queue.claims import fail, finish
from pipelines.service.queue.outbox import send_next
from pipelines.service.store import after, outbox

from ..helpers import ANN, BOB, CONTENT, FIT, World, claimed, settings_of, words

KEY = bytes(range(24))
NOTICES = {
    "NOTICES__SENDER": "odsynth@agency.example",
    "NOTICES__OPERATORS": "ann@agency.example",
    "NOTICES__APPROVERS": "bob@agency.example,bea@agency.example",
    "NOTICES__WEBHOOK_SECRET": f"whsec_{base64.b64encode(KEY).decode()}",
    "PUBLIC_URL": "https://data.example.org/od",
}


class Mail(socketserver.StreamRequestHandler):
    """A mail server that takes what it is given, unless it is told to refuse it."""

    def handle(self) -> None:
        server: Any = self.server
        people: list[str] = []
        self.say("220 here")
        for line in iter(self.rfile.readline, b""):
            verb = line.strip().decode().upper()
            if verb.startswith("RCPT"):
                people.append(line.decode().partition("<")[2].partition(">")[0])
            if verb == "DATA":
                self.say("354 go on")
                lines = iter(lambda: self.rfile.readline().decode(), ".\r\n")
                server.got.append((people, "".join(lines)))
            # Also to QUIT, which is no reason to send a mail again.
            self.say(server.refuses if server.refuses and verb.startswith("MAIL") else "250 ok")

    def say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class Hook(http.server.BaseHTTPRequestHandler):
    """A webhook that takes what it is given."""

    def do_POST(self) -> None:
        server: Any = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening(kind: type[socketserver.TCPServer], handler: Any) -> Iterator[Any]:
    with kind(("127.0.0.1", 0), handler) as server:
        server.got, server.refuses = [], ""  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def mail() -> Iterator[Any]:
    with listening(socketserver.ThreadingTCPServer, Mail) as server:
        yield server


@pytest.fixture
def hook() -> Iterator[Any]:
    with listening(http.server.ThreadingHTTPServer, Hook) as server:
        yield server


def told(world: World, mail: Any, hook: Any) -> ServiceSettings:
    ports = [server.server_address[1] for server in (mail, hook)]
    places = {"FOLDER": world.settings.folder, "INPUTS__SMALL": world.input}
    places |= {"NOTICES__SMTP": f"smtp://127.0.0.1:{ports[0]}"}
    places |= {"NOTICES__WEBHOOK": f"http://127.0.0.1:{ports[1]}/x"}
    return settings_of(**places, **NOTICES)


def finished(world: World, store: Store) -> int:
    run = world.submit(store, ANN, dry_run=False)
    assert finish(store, claimed(store), certificate=FIT, content=CONTENT)
    return run


def send_all(store: Store, settings: ServiceSettings) -> None:
    while send_next(store, settings):
        pass


def test_who_is_to_decide_is_told_once(world: World, store: Store, mail: Any, hook: Any) -> None:
    """With a link and nothing of the run; whoever reads the webhook can check that it is ours."""
    settings = told(world, mail, hook)
    run = finished(world, store)
    send_all(store, settings)
    send_all(store, settings)
    ((people, letter),) = mail.got
    assert people == ["bob@agency.example", "bea@agency.example"]
    read = message_from_string(letter)
    link = f"https://data.example.org/od/operator/runs/{run}/approval"
    assert read["Subject"] == f"Run {run} waits for an approver"
    said = (
        f"Run {run} is finished.\nIt waits for an approver, who decides whether it is published:\n\n{link}\n"
    )
    assert str(read.get_payload()).replace("\r", "") == said
    ((headers, body),) = hook.got
    assert json.loads(body) == {
        "type": "decision.waits", "run": run, "state": "finished", "waits_for": "approver", "link": link
    }  # fmt: skip
    signed = ".".join((headers["webhook-id"], headers["webhook-timestamp"], body.decode()))
    digest = hmac.new(KEY, signed.encode(), hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
    for sent in (letter, str(headers), body.decode()):
        assert "CANARY" not in sent
        assert life.get_run(store, run).title not in sent
    assert words(store, run).endswith("finished told told")
    with store.read() as connection:
        assert connection.execute(select(outbox)).all() == []


def test_each_is_told_of_what_is_theirs(world: World, store: Store, mail: Any, hook: Any) -> None:
    """Operators of failures and plans; of what was renamed, approvers anew; nobody of what is decided."""
    settings = told(world, mail, hook)
    run = world.submit(store, ANN, dry_run=False)
    fail(store, claimed(store), "InputError", "CANARY")
    send_all(store, settings)
    life.retry(store, ANN, run)
    finish(store, claimed(store), certificate=FIT, content=CONTENT)
    life.rename(store, ANN, run, "v2")
    send_all(store, settings)
    life.rename(store, ANN, run, "v3")
    life.decide(store, BOB, run, "rejected", CONTENT, version="v3")
    send_all(store, settings)
    assert [people[0] for people, _ in mail.got] == ["ann@agency.example", "bob@agency.example"]
    assert len(hook.got) == 2
    assert "CANARY" not in str(mail.got) + str(hook.got)


def test_a_mail_server_that_fails_is_asked_again_and_is_in_nobodys_way(
    world: World, store: Store, mail: Any, hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings = told(world, mail, hook)
    run = finished(world, store)
    for answer, said in (("451 CANARY@agency.example", "answered 451"), ("250 ok", "")):
        mail.refuses = answer if said else ""
        send_all(store, settings)
        assert not send_next(store, settings)  # not before its time
        if said:
            assert (len(mail.got), len(hook.got)) == (0, 1)
            (event,) = [e for e in life.list_events(store, run) if e.event == "not told"]
            assert event.text == f"mail: the mail server {said}"
            other = finished(world, store)
            life.decide(store, BOB, other, "rejected", CONTENT)
        with store.write() as connection:
            connection.execute(update(outbox).values(due=after(0)))
    assert [people[0] for people, _ in mail.got] == ["bob@agency.example"]
    assert "CANARY" not in caplog.text


def test_workers_send_and_a_service_without_settings_keeps(
    world: World, store: Store, mail: Any, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits when somebody is named for the first time is told of then."""
    monkeypatch.setattr(workers, "_MESSAGE_SECONDS", 0.05)
    run = finished(world, store)
    assert not send_next(store, world.settings)
    world.settings = told(world, mail, hook)
    with world.at_work(store, "raise SystemExit"):
        wait_for(lambda: words(store, run).endswith("told told"))
    assert (len(mail.got), len(hook.got)) == (1, 1)


def test_one_message_is_sent_by_one_of_several(
    world: World, store: Store, mail: Any, hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is being sent, nobody else takes it."""
    settings = told(world, mail, hook)
    finished(world, store)
    real = sending._send
    monkeypatch.setattr(sending, "_send", lambda *a: (send_next(store, settings), real(*a))[1])
    send_all(store, settings)
    assert (len(mail.got), len(hook.got)) == (1, 1)
