"""The service: releases on request, on schedule and on the web (docs/service.md)."""

from pipelines.service.app import create_app, serve
from pipelines.service.public.catalog import Catalog, Version
from pipelines.service.settings import Limits, Oidc, ServiceSettings, load_settings
from pipelines.service.store import ServiceError, Store

__all__ = [
    "Catalog",
    "Limits",
    "Oidc",
    "ServiceError",
    "ServiceSettings",
    "Store",
    "Version",
    "create_app",
    "load_settings",
    "serve",
]
