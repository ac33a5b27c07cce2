"""Pages and texts that are made of a release: their words are in `templates`, in a folder for each language.

As those of the release itself (`pipelines.release.pages`): every language has the same templates, among them
`phrases.j2`, what Python puts together, and `map.json`, the words of maps. `evaluation.html` is beside the
folders: it is for those who have the truth, whose programs speak English.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.config.languages import ENGLISH
from pipelines.release import pages as of_release

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).with_name("templates")
"""Where every language has a folder."""


def render(template: str, language: str = ENGLISH, **context: Any) -> str:
    """Return what a template gives in a language; in pages, what is no markup is escaped."""
    return environment(language).get_template(template).render(context)


def phrases(language: str) -> Any:
    """Return the phrases of a language: macros of `phrases.j2`, as functions, and its lists of words."""
    return environment(language).get_template("phrases.j2").module


@cache
def map_phrases(language: str) -> dict[str, dict[str, Any]]:
    """Return the words of maps: those that only the `page` has, and those of its `program`."""
    return dict(json.loads((TEMPLATES / language / "map.json").read_text(encoding="utf-8")))


@cache
def environment(language: str) -> jinja2.Environment:
    """Return the environment of the templates of a language: that of a release's, in another folder."""
    import jinja2  # only where a page is made

    return of_release.environment(language).overlay(
        loader=jinja2.FileSystemLoader([TEMPLATES / language, TEMPLATES]),
        autoescape=jinja2.select_autoescape(["html"]),
        keep_trailing_newline=False,
    )
