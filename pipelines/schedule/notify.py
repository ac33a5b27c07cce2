"""Telling somebody what a call of `odsynth due` did: a command, a webhook. Neither changes what happened."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, PlainValidator

from pipelines.config.fields import shown
from pipelines.config.sections import Section


def _command(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(part, str) for part in value):
        raise ValueError(
            f'{shown(value)} is not a command; write program and arguments: ["mail", "-s", "due", "ops"]'
        )
    if not value[0].strip() or any("\0" in part for part in value):
        raise ValueError("the command cannot be run; name a program first")
    return tuple(value)


def _webhook(value: object) -> str:
    """Check an address. It is often a secret, so that no message quotes it."""
    with suppress(ValueError):
        address = urlsplit(value if isinstance(value, str) else "")
        if address.scheme in ("http", "https") and address.hostname and address.port != 0:
            return str(value)
    raise ValueError('this is not the address of a webhook; write it as "https://..."')


class Notify(Section):
    """Who is told, and when."""

    # Program and arguments, run in the folder of the calendar with the summary as JSON on its standard
    # input.
    command: Annotated[tuple[str, ...] | None, PlainValidator(_command)] = None
    # Address to which the same JSON is posted.
    webhook: Annotated[str | None, PlainValidator(_webhook)] = None
    # After calls in which something was wrong, or after every call.
    on: Literal["failure", "always"] = "failure"
    timeout: Annotated[int, Field(ge=1, le=600)] = 30  # seconds that each of the two may take


def notify(settings: Notify, document: Mapping[str, Any], folder: Path) -> tuple[str, ...]:
    """Run the command and call the webhook, if there are any, each with the same document.

    Returned is what did not work, one line each. Nothing is raised, and the address of the webhook is not
    shown.
    """
    body = json.dumps(document).encode()
    problems = []
    if settings.command is not None and (problem := _run(settings.command, body, settings.timeout, folder)):
        problems.append(f"notify.command: {problem}")
    if settings.webhook is not None and (problem := post(settings.webhook, body, settings.timeout)):
        problems.append(f"notify.webhook: {problem}")
    return tuple(problems)


def _run(command: tuple[str, ...], body: bytes, timeout: int, folder: Path) -> str | None:
    """Run a program in a session of its own, which ends with it; what it prints is nobody's business."""
    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=null, stderr=null, cwd=folder, start_new_session=True
        )
    except OSError as error:
        return f"{command[0]} cannot be run: {error.strerror}"
    with process:
        try:
            process.communicate(body, timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"{command[0]} was stopped after {timeout} s"
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
    return f"{command[0]} ended with code {process.returncode}" if process.returncode else None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the message."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def post(address: str, body: bytes, timeout: int, headers: Mapping[str, str] | None = None) -> str | None:
    """Call a webhook.

    Returned is what did not work. Nothing is raised, and neither the address nor what was answered is
    shown.
    """
    answers: list[str | None] = []

    def ask() -> None:
        answers.append(_answer(address, body, timeout, headers or {}))

    # In a thread that is not waited for longer: the timeout of urllib is for each byte.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout)
    return answers[0] if answers else f"no answer within {timeout} s"


def _answer(address: str, body: bytes, timeout: int, headers: Mapping[str, str]) -> str | None:
    defaults = {"Content-Type": "application/json", "User-Agent": "odsynth"}
    request = urllib.request.Request(address, body, {**defaults, **headers}, method="POST")
    try:
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=timeout):
            return None
    except urllib.error.HTTPError as error:
        with error:
            return f"the server answered {error.code}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            return f"no answer within {timeout} s"
        return f"the server cannot be reached ({type(reason).__name__})"
