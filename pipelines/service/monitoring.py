"""What monitors ask and read: health, metrics, and the log, in the manner of `pipelines.storage.event_log`.

There is no address of a client, no path and no query in them: a route is named as the program writes it.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter, Request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, Response

from pipelines.service.queue.records import STATES
from pipelines.service.queue.runs import counts
from pipelines.service.store import Store
from pipelines.storage.event_log import event_line, open_log

router = APIRouter(tags=["monitoring"])
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
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


class Metrics:
    """Counts of one application; routes are counted, not addresses, so that their number is bounded."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Counter(
            "odsynth_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        self._guesses = Counter(
            "odsynth_guesses", "Attempts to sign in with a token that is not valid.", registry=self.registry
        )
        self._seconds = Histogram(
            "odsynth_request_seconds",
            "Time until an answer was sent.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )

    def count_guess(self) -> None:
        """Count an attempt to sign in that failed."""
        self._guesses.inc()

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)


class RunMetrics(Collector):
    """How many runs are in each state; nothing while the database is away, which ``/ready`` says."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Count them."""
        family = GaugeMetricFamily("odsynth_runs", "Runs in each state.", labels=["state"])
        with suppress(SQLAlchemyError):
            numbers = counts(self._store)
            for state in STATES:
                family.add_metric([state], numbers.get(state, 0))
        yield family


class Health(BaseModel):
    """Whether the service can do something, and what of it."""

    status: str
    checks: dict[str, bool]


@router.get("/health", response_model=Health, summary="Whether the process lives")
async def health() -> Health:
    """Answers as long as the process does."""
    return Health(status="ok", checks={})


@router.get(
    "/ready",
    response_model=Health,
    responses={503: {"model": Health, "description": "Something is missing"}},
    summary="Whether the service can do its work",
)
def ready(request: Request) -> Response:
    """Looks at the database, the folders and the workers."""
    state = request.app.state
    settings = state.settings
    checks = {
        "database": state.store.alive(),
        "folders": all(os.access(f, os.R_OK | os.W_OK) for f in (settings.folder, settings.outs))
        and os.access(settings.releases, os.R_OK),
        "workers": state.workers.alive if settings.workers else True,
    }
    whole = all(checks.values())
    health = Health(status="ok" if whole else "not ready", checks=checks)
    return JSONResponse(health.model_dump(), 200 if whole else 503)


@router.get("/metrics", response_class=Response, include_in_schema=False)
def metrics(request: Request) -> Response:
    """Metrics in the text format of Prometheus. Nothing in them is confidential."""
    return Response(generate_latest(request.app.state.metrics.registry), media_type=CONTENT_TYPE_LATEST)
