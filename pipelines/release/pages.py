"""Pages and sentences of a release: their words are in `templates`, their numbers where a page is asked for.

Every language has a folder there with the same templates, among them `phrases.j2`: what Python puts together
to pages, and how numbers are written. The certificate is English, whatever the language of the pages: its
templates stand beside the folders. The context of a page is plain values; bounds are rounded before they are
in it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from pipelines.config.languages import ENGLISH, TEMPLATES

if TYPE_CHECKING:
    import jinja2


def render(template: str, language: str = ENGLISH, **context: Any) -> str:
    """Return what a template gives in a language."""
    return environment(language).get_template(template).render(context)


def phrases(language: str) -> Any:
    """Return the phrases of a language: the macros of its `phrases.j2` as functions that return text."""
    return environment(language).get_template("phrases.j2").module


def number(text: str, language: str) -> str:
    """Return a number, or several, that is written as Python does as a language writes it."""
    say = phrases(language)
    return text.translate(str.maketrans({",": say.thousands_mark, ".": say.decimal_mark}))


@cache
def environment(language: str) -> jinja2.Environment:
    """Return the environment of the templates of a language."""
    from pipelines.storage.templates import template_environment  # jinja2, only where a page is made

    def written(text: str) -> str:
        return number(text, language)

    # Markdown: nothing is escaped but by `cell`.
    templates = template_environment(TEMPLATES / language, TEMPLATES, keep_trailing_newline=True)
    templates.filters |= {
        "fill": _fill,
        "table": _table,
        "sentence": lambda text: json.dumps(_line(text)),
        "points": points,
        "items": lambda text: json.dumps(points(text)),
        "listed": lambda words: listed(words, language),
        "code": "`{}`".format,
        "cell": lambda text: text.replace("|", "\\|"),
        "quoted": lambda value: json.dumps(value, ensure_ascii=False),  # as Python writes it
        "number": written,
        "thousands": lambda value: written(f"{value:,}"),
        "tenths": lambda value: written(f"{value:.1f}"),
        "percent": lambda share: written(f"{100 * share:.1f} %"),
    }
    return templates


def listed(words: Sequence[str], language: str) -> str:
    """Return words as a list in a sentence."""
    last = f" {phrases(language).conjunction} "
    return last.join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)


def points(text: str) -> list[str]:
    """Return the points of a list of Markdown, each in one line."""
    return [_line(item) for item in re.split(r"(?m)^- ", text)[1:]]


def _line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text).strip()


def _fill(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of 110 characters, all but the first indented."""
    lines = textwrap.fill(
        _line(text), 110, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return f"{lines}\n"


def _table(rows: Sequence[Sequence[str]], heads: Sequence[str], words: int) -> str:
    """Return a table whose columns are as wide as their words; the first so many columns are words."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = []
    for row in (heads, *rows):
        cells = (
            cell.ljust(width) if i < words else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(f"| {' | '.join(cells)} |")
    rules = ("-" * (width + 1) + ("-" if i < words else ":") for i, width in enumerate(widths))
    lines.insert(1, f"|{'|'.join(rules)}|")
    return "\n".join(lines)
