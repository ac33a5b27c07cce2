"""Workers: threads that claim runs from the queue and have each done by a process of its own.

The thread renews the lease while the process works, and records what it says. Whoever is killed, process or
service, at whatever point: the run is claimed again, and goes on where it stopped.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any

from sqlalchemy import Row
from sqlalchemy.exc import SQLAlchemyError

from pipelines.service.queue.claims import claim, count, fail, finish, give_back, note, renew
from pipelines.service.queue.comparisons import comparison_folder
from pipelines.service.queue.outbox import send_next
from pipelines.service.queue.progress import Progress
from pipelines.service.queue.schedules import submit_due
from pipelines.service.queue.worker_process import EXIT_BUSY, Job
from pipelines.service.settings import ServiceSettings
from pipelines.service.store import ServiceError, Store

COMMAND = (sys.executable, "-m", "pipelines.service.queue.worker_main")
_CALENDAR_SECONDS = 60.0
_MESSAGE_SECONDS = 2.0
_LONGEST_ANSWER = 10_000_000

_log = logging.getLogger(__name__)


class Workers:
    """The workers of one service."""

    def __init__(
        self,
        settings: ServiceSettings,
        store: Store,
        *,
        command: Sequence[str] = COMMAND,
        lease: float = 30.0,
        look: float = 1.0,
        grace: float = 5.0,
    ) -> None:
        self._settings, self._store, self._command = settings, store, command
        self._lease, self._look, self._grace = lease, look, grace
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self._messenger: threading.Thread | None = None

    def start(self) -> None:
        """Begin to work, to submit what the release calendar says is due, and to tell who is to decide."""
        self._end.clear()
        jobs = [self._work] * self._settings.workers
        if jobs and self._settings.calendar is not None:
            jobs.append(self._keep_calendar)
        self._threads = [threading.Thread(target=job, daemon=True, name="worker") for job in jobs]
        for thread in self._threads:
            thread.start()
        if jobs and self._settings.notices is not None:
            self._messenger = threading.Thread(target=self._send_messages, daemon=True, name="messenger")
            self._messenger.start()

    def stop(self) -> None:
        """Claim nothing more, and return a few seconds later; what is not done by then is resumed."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        if self._messenger is not None:  # a mail server may be silent for longer
            self._messenger.join(self._grace)

    @property
    def alive(self) -> bool:
        """Whether all workers that were started are at work."""
        return all(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while not self._end.is_set():
            with self._outliving_errors("a worker"):
                if (claimed := claim(self._store, self._lease)) is not None:
                    self._carry_out(claimed)
                    continue
            self._end.wait(self._look)

    def _keep_calendar(self) -> None:
        while not self._end.is_set():
            with self._outliving_errors("the release calendar"):
                submit_due(self._store, self._settings)
            self._end.wait(_CALENDAR_SECONDS)

    def _send_messages(self) -> None:
        while not self._end.is_set():
            with self._outliving_errors("the sending of messages"):
                if send_next(self._store, self._settings):
                    continue
            self._end.wait(_MESSAGE_SECONDS)

    @contextmanager
    def _outliving_errors(self, task: str) -> Iterator[None]:
        """Outlive errors, as of a database that is away; their words may quote anything."""
        try:
            yield
        except ServiceError as error:
            _log.error("%s was stopped: %s", task, error.detail)
        except Exception as error:
            _log.error("%s was stopped by %s; it goes on", task, type(error).__name__)

    def _carry_out(self, claimed: Row[Any]) -> None:
        settings = self._settings
        job = Job(
            task=claimed.task,
            configuration=json.loads(claimed.configuration),
            folder=settings.folder,
            plan=claimed.plan and json.loads(claimed.plan),
            variation=claimed.variation and json.loads(claimed.variation),
            content=claimed.content,
            version=claimed.version,
            plan_folder=settings.outs / f"run-{claimed.id:06}-plan",
            comparison_folder=comparison_folder(settings.outs, claimed.id),
            outs=settings.outs,
            releases=settings.releases,
            signer=settings.signer,
            scheduler=settings.scheduler,
        )
        with self._private_log(claimed) as log:
            process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(),
                start_new_session=True,  # Ctrl-C is for the service, which ends it in order
            )
        outcome: dict[str, Any] = {}
        assert process.stdin is not None
        assert process.stdout is not None
        reader = threading.Thread(target=self._listen, args=(claimed, process.stdout, outcome), daemon=True)
        reader.start()
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps(job.model_dump(), default=str).encode() + b"\n")
                process.stdin.flush()
            self._watch(claimed, process)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            reader.join()
            for pipe in (process.stdin, process.stdout):
                with suppress(BrokenPipeError):
                    pipe.close()
        if "done" in outcome:
            finish(self._store, claimed, **outcome["done"])
        elif "failed" in outcome:
            fail(self._store, claimed, outcome["failed"], outcome["message"])
        elif process.returncode == EXIT_BUSY:
            give_back(self._store, claimed, interrupted=False, wait=self._lease)
        else:
            give_back(self._store, claimed, interrupted=not self._end.is_set())

    def _watch(self, claimed: Row[Any], process: subprocess.Popen[bytes]) -> None:
        """Renew the lease until the process ends, the lease is lost, or the service ends."""
        renewed = time.monotonic()
        while True:
            ending = self._end.is_set()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=self._grace if ending else min(0.2, self._lease / 10))
                return
            if ending:
                return
            if (now := time.monotonic()) - renewed > self._lease / 3:
                try:
                    if not renew(self._store, claimed, self._lease):
                        return
                    renewed = now
                except SQLAlchemyError:  # the database may come back before the lease is over
                    if now - renewed > self._lease * 0.9:
                        return

    def _listen(self, claimed: Row[Any], answers: IO[bytes], outcome: dict[str, Any]) -> None:
        progress: Progress | None = None
        while line := answers.readline(_LONGEST_ANSWER):
            with self._outliving_errors("progress"):
                message = json.loads(line)
                if "step" in message:
                    progress = note(self._store, claimed, message["step"], message["number"], message["of"])
                elif "parts" in message:
                    if progress is not None:
                        progress = count(self._store, claimed, progress, *message["parts"])
                else:
                    outcome.update(message)

    @contextmanager
    def _private_log(self, claimed: Row[Any]) -> Iterator[IO[bytes]]:
        """Open the file of what a run's processes print, which nobody is shown over the network."""
        path = self._settings.outs / f"run-{claimed.id:06}.log"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with open(descriptor, "ab") as file:
            yield file


def _environment() -> dict[str, str]:
    """What a process is told of ours: the service's settings, which may hold passwords, are not for it."""
    return {k: v for k, v in os.environ.items() if not k.startswith("ODSYNTH_") or k == "ODSYNTH_DEBUG"}
