"""Pages: jinja2 templates with escaping always on."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, select_autoescape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from pipelines.release.promises import short_bound
from pipelines.storage.templates import template_environment
from pipelines.views.accuracy import percent
from pipelines.views.labels import job_type_words
from synth import decimal_down

HTML = "text/html; charset=utf-8"
"""The media type of pages."""


def render(
    request: Request,
    template: str,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HTMLResponse:
    """Answer with a page."""
    return HTMLResponse(text(template, request=request, **context), status, dict(headers or {}))


def text(template: str, **context: Any) -> str:
    """Return what a template makes of this, which is escaped."""
    return _environment().get_template(template).render(**context)


@cache
def _environment() -> Environment:
    escape = select_autoescape(default=True, default_for_string=True)
    environment = template_environment(Path(__file__).with_name("templates"), autoescape=escape)
    environment.filters |= {
        "capital": _capital,
        "day": _day,
        "job_type": job_type_words,
        "megabytes": _megabytes,
        "percent": percent,
        "short": short_bound,
        "short_down": _short_down,
        "thousands": "{:,}".format,
    }
    return environment


def _day(iso: str) -> str:
    """2026-11-21T10:01:02+00:00 as 21 November 2026; what is no date stays as it is."""
    try:
        time = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{time.day} {time:%B %Y}"


def _capital(words: str) -> str:
    """With a capital at the beginning; the rest stays."""
    return words[:1].upper() + words[1:]


def _short_down(left: str) -> str:
    """What is left of a budget, rounded down to four digits."""
    return decimal_down(Fraction(left), 4)


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
