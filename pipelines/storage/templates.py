"""Templates of texts and pages, in which a name that does not exist is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2


def template_environment(*folders: Path, **options: Any) -> jinja2.Environment:
    """Return the environment of the templates in folders; of several of a name, of that in the first."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        **options,
    )
    environment.tests["none"] = _is_none
    return environment


def _is_none(value: object) -> bool:
    """Say whether a value is None: Jinja's own test takes what does not exist for a value."""
    if isinstance(value, jinja2.Undefined):
        str(value)  # raises, and names it
    return value is None
