"""Pages and texts that are made of a release: their English is in `templates`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jinja2


def render(template: str, **context: Any) -> str:
    """Return what a template gives; in pages, what is no markup is escaped."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
