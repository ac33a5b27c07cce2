"""Pages and texts that are made of a release: their English is in `templates`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from pipelines.storage.templates import template_environment


def render(template: str, **context: Any) -> str:
    """Return what a template gives; in pages, what is no markup is escaped."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> jinja2.Environment:
    folder = Path(__file__).with_name("templates")
    return template_environment(folder, autoescape=jinja2.select_autoescape(["html"]))
