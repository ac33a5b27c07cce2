"""The service: one ASGI application of the public side, the operators' side and the workers."""

from __future__ import annotations

import json
import logging
import resource
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from pipelines.release.provenance import DISTRIBUTION
from pipelines.service import monitoring
from pipelines.service.caching import answer
from pipelines.service.errors import add_error_handlers
from pipelines.service.monitoring import Metrics, RunMetrics, ServiceLog
from pipelines.service.operators import api as operator_api
from pipelines.service.operators import pages as operator_pages
from pipelines.service.operators.review import waiting
from pipelines.service.parameters import known_parameters
from pipelines.service.protocol import LONGEST, TimedProtocol
from pipelines.service.public import api as public_api
from pipelines.service.public import downloads, geo
from pipelines.service.public import pages as public_pages
from pipelines.service.public.answers import Lanes
from pipelines.service.public.catalog import Catalog
from pipelines.service.queue.workers import COMMAND, Workers
from pipelines.service.rates import RateLimits
from pipelines.service.security import add_security
from pipelines.service.settings import ServiceSettings
from pipelines.service.starting import cautions
from pipelines.service.store import Store

_CONNECTIONS = 65_536  # that may be open; each is an open file, of which the usual soft limit is 1,024

_SWITCH_SECONDS = 0.0005  # after which a thread that computes lets the one that answers go on; usually 0.005

_log = logging.getLogger(__name__)
_DESCRIPTION = """
Synthetic commuting data with certificates of differential privacy. No row is a real person.

Everything below `/api/v1/releases` is public and read-only. What operators may do is below `/api/v1/operator`
and needs a token, `Authorization: Bearer ...`.
"""


_ABOUT: dict[str, Any] = {"title": "odsynth", "version": version(DISTRIBUTION), "description": _DESCRIPTION}
_ROUTERS = (
    public_api.router,
    geo.router,
    downloads.router,
    monitoring.router,
    operator_api.router,
    operator_pages.router,
)


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the document of the API."""
        return _document()


@cache
def _document() -> dict[str, Any]:
    """The document of the API, which depends on no setting; a second of work."""
    documented = FastAPI(**_ABOUT)
    for router in _ROUTERS:
        documented.include_router(router)
    return documented.openapi()


def create_app(settings: ServiceSettings, *, worker: Sequence[str] = COMMAND) -> FastAPI:
    """Make the application.

    Parameters
    ----------
    settings : ServiceSettings
        Its folders are made if they are not there.
    worker : sequence of str
        Program of the worker processes; for tests.

    Returns
    -------
    FastAPI
        With ``state.settings``, ``state.store``, ``state.catalog``, ``state.metrics`` and ``state.log``. Its
        lifespan starts and stops the workers.

    Raises
    ------
    ServiceError
        If the database cannot be used.
    """
    settings.make_folders()
    app = _Application(
        lifespan=_lifespan,
        openapi_url=None,  # ours has an ETag; the usual pages load scripts from elsewhere, /api is ours
        redirect_slashes=False,
        **_ABOUT,
    )
    app.state.settings = settings
    app.state.store = Store.open(settings.database)
    app.state.catalog = Catalog(settings)
    app.state.metrics = Metrics()
    app.state.metrics.registry.register(RunMetrics(app.state.store))
    app.state.log = ServiceLog(settings.log)
    app.state.lanes, app.state.limits = Lanes(), RateLimits(settings.limits)
    app.state.workers = Workers(settings, app.state.store, command=worker)
    add_error_handlers(app)
    strict = [Depends(known_parameters)]
    app.add_api_route("/api/v1/openapi.json", _openapi, include_in_schema=False, dependencies=strict)
    for router in _ROUTERS:
        app.include_router(router)
    if settings.oidc is not None:
        app.include_router(operator_pages.oidc_router)
    public_pages.add_pages(app)
    add_security(app)
    return app


def _openapi(request: Request) -> Response:
    document = request.app.openapi()
    # Where the standard's own document has it, QGIS looks how large a page may be; else it asks for 100.
    components = document["components"] | {"parameters": {"limit": geo.LIMIT}}
    return answer(request, json.dumps(document | {"components": components}).encode())


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    app.state.catalog.start(lambda: waiting(app.state.store, app.state.settings.folder))
    await run_in_threadpool(app.state.workers.start)
    try:
        yield
    finally:
        await run_in_threadpool(app.state.workers.stop)
        app.state.catalog.stop()
        app.state.store.close()


def serve(settings: ServiceSettings) -> None:
    """Answer requests until SIGTERM or Ctrl-C; running requests are finished first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _CONNECTIONS if hard == resource.RLIM_INFINITY else min(hard, _CONNECTIONS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    sys.setswitchinterval(_SWITCH_SECONDS)
    app = create_app(settings)
    for name in ("uvicorn", "pipelines.service"):
        logging.getLogger(name).setLevel(logging.INFO)
        logging.getLogger(name).addHandler(app.state.log)
    for sentence in cautions(settings, app.state.store):
        _log.warning(sentence)
        if settings.log is not None:
            print(f"Warning: {sentence}", file=sys.stderr)
    uvicorn.run(app, **server_options(settings))


def server_options(settings: ServiceSettings) -> dict[str, Any]:
    """Return how uvicorn serves the application."""
    return {
        "host": settings.host,
        "port": settings.port,
        "http": TimedProtocol,
        "h11_max_incomplete_event_size": LONGEST,
        "ws": "none",
        "log_config": None,
        "access_log": False,  # ours has a fixed set of fields (security.py)
        "server_header": False,
        "proxy_headers": bool(settings.proxies),
        "forwarded_allow_ips": list(settings.proxies),
        "timeout_keep_alive": 30,
        "timeout_graceful_shutdown": 20,
    }
