"""A service with something of everything: published and withdrawn, runs in every state, people of every role.

It is shared by all tests here, so none changes it. Folders and files of the server that nobody should hear of
have CANARY in their names and in what they hold.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import FastAPI
from sqlalchemy import update

import pipelines
from pipelines.service import create_app
from pipelines.service.access.tokens import Role, create_token, revoke_token
from pipelines.service.queue.claims import fail, finish
from pipelines.service.store import runs, tokens

from ..helpers import ANN, NAME, PLAN, claimed, copy_state, settings_of, submitted

LEDGER = '\n[ledger]\nfile = "CANARYledger.sqlite"\ndata_set = "{}"\nepsilon = "100"\ndelta = "0.5"\n'
SCHEDULE = """\
base = "../CANARYinputs/small.toml"
start = 2022-01-01
cron = "0 6 1 2 *"
period = "year"
[set]
"release.year" = "{year}"
"release.out" = "../CANARYouts/{year}"
"""


@dataclass(frozen=True)
class Answer:
    """What came back: status, headers in lower case, body."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in self.headers if key == name), default)

    @cached_property
    def text(self) -> str:
        compressed = self.header("content-encoding") == "gzip" and self.body
        return (gzip.decompress(self.body) if compressed else self.body).decode("utf-8", "replace")


@dataclass
class Whole:
    """The service and who may use it.

    Requests are given to the application as a server would, so that nothing on the way tidies them up.
    """

    app: FastAPI
    folder: Path
    tokens: dict[str, str]
    portal: BlockingPortal  # one loop for all requests: else each would start threads anew
    asked: int = 0

    def ask(
        self,
        method: str,
        target: str,
        *,
        token: str | None = None,
        headers: list[tuple[str, str | bytes]] | None = None,
        body: bytes | list[bytes] | None = None,
        announced: bool = True,
    ) -> Answer:
        """Ask, by the name of a token if one is given; a list is a body that comes in pieces."""
        self.asked += 1
        path, _, query = target.partition("?")
        pieces = [body] if isinstance(body, bytes) else list(body or [b""])
        lines: list[tuple[str, str | bytes]] = [("host", "testserver")] + (headers or [])
        if headers and any(name.lower() == "host" for name, _ in headers):
            del lines[0]
        if token is not None:
            lines.append(("authorization", f"Bearer {self.tokens[token]}"))
        if body is not None and announced:
            lines.append(("content-length", str(sum(map(len, pieces)))))
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path, errors="replace"),
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": [(n.lower().encode(), v if isinstance(v, bytes) else v.encode()) for n, v in lines],
            "client": ("192.0.2.1", 1234),
            "server": ("testserver", 80),
            "state": {},
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            if pieces:
                return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}
            await asyncio.Event().wait()  # whoever asks stays until the answer is there
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        self.portal.call(self.app, scope, receive, send)
        start = sent[0]
        found = [
            (name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in start["headers"]
        ]
        return Answer(start["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


@pytest.fixture(scope="session")
def make_whole(
    config_text: Callable[..., str],
    service_state: Path,
    small_release: pipelines.Release,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Whole]]:
    """Return a new service like that; with other settings, if they are given."""
    made: list[Whole] = []

    def make(**settings: str) -> Whole:
        folder = tmp_path_factory.mktemp("CANARYwhole")
        (folder / "CANARYinputs").mkdir()
        (folder / "CANARYcalendar").mkdir()
        for name in ("small", "other"):
            (folder / "CANARYinputs" / f"{name}.toml").write_text(config_text() + LEDGER.format(name))
        (folder / "CANARYinputs" / "broken.toml").write_text('[release]\nname = "CANARY" "')
        (folder / "CANARYcalendar" / "yearly.toml").write_text(SCHEDULE)
        (folder / "CANARYcalendar" / "broken.toml").write_text("CANARY = 1")
        copy_state(service_state, folder / "CANARYstate")
        given = {
            "FOLDER": str(folder / "CANARYstate"),
            "LOG": str(folder / "service.log"),
            "CALENDAR": str(folder / "CANARYcalendar"),
            "WORKERS": "0",
            **{f"INPUTS__{name}": str(folder / "CANARYinputs" / f"{name}.toml") for name in _INPUTS},
            **{f"LIMITS__{rule}": "900000000/hour" for rule in ("PUBLIC", "OPERATOR", "LOGIN")},
            **settings,
        }
        app = create_app(settings_of(**given))
        _publish_and_withdraw(app, small_release)
        _submit(app, small_release)
        made.append(Whole(app, folder, _people(app), portal))
        return made[-1]

    with start_blocking_portal() as portal:
        yield make
    for each in made:
        each.app.state.catalog.stop()
        each.app.state.store.close()
        each.app.state.log.close()


_INPUTS = ("small", "other", "broken")


@pytest.fixture(scope="session")
def whole(make_whole: Callable[..., Whole]) -> Iterator[Whole]:
    """The service that all tests share."""
    made = make_whole()
    yield made
    print(f"\n{made.asked} requests to the whole service")


def _publish_and_withdraw(app: FastAPI, release: pipelines.Release) -> None:
    place = app.state.settings.releases
    pipelines.publish(release.out, place, version="v0")
    pipelines.erratum(place, NAME, "v1", "Block 7 is in the wrong county.")
    pipelines.withdraw(place, NAME, "v0", "The wrong year.")


def _submit(app: FastAPI, release: pipelines.Release) -> None:
    """Run 1 finished, 2 failed, 3 published, 4 rejected, 5 running, 6 planned, 7 cancelled, 8 queued."""
    store, settings = app.state.store, app.state.settings
    for number in range(1, 9):
        name = "other" if number == 5 else "small"
        run = submitted(store, settings, ANN, name, dry_run=number in (6, 7))
        assert run == number
        if number > 5:
            continue
        work = claimed(store, 3600)
        folder = settings.outs / f"run-{number:06}" / "confidential"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text("CANARY")
        if number == 2:
            fail(store, work, "InputError", "small.csv: line 3: the block is not in the geography")
        elif number != 5:
            certificate = (release.public / "certificate.json").read_text()
            finish(store, work, certificate=certificate, content="c" * 64)
    finish(store, claimed(store, 3600), plan=json.dumps(PLAN))
    with store.write() as connection:
        for number, state in ((3, "published"), (4, "rejected"), (7, "cancelled")):
            values = {"state": state} | (
                {"published_name": NAME, "published_version": "v1"} if number == 3 else {}
            )
            connection.execute(update(runs).where(runs.c.id == number).values(values))


def _people(app: FastAPI) -> dict[str, str]:
    store = app.state.store
    secrets = {}
    for role in get_args(Role):
        secrets[role], _ = create_token(store, role, role)
    secrets["expired"], old = create_token(store, "gone", "approver")
    secrets["revoked"], gone = create_token(store, "gone", "operator")
    revoke_token(store, gone.id)
    with store.write() as connection:
        past = "2020-01-01T00:00:00.000000Z"
        connection.execute(update(tokens).where(tokens.c.id == old.id).values(expires=past))
    secrets["wrong"] = secrets["approver"][:-1] + ("A" if secrets["approver"][-1] != "A" else "B")
    secrets["unknown"] = "odsynth_00000000_" + "A" * 43
    return secrets
