"""Pages and sentences of a release: their English is in `templates`, their numbers where a page is asked for.

The context of a page is plain values; bounds are rounded before they are in it.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


def render(template: str, **context: Any) -> str:
    """Return what a template gives."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> jinja2.Environment:
    from pipelines.storage.templates import template_environment  # jinja2, only where a page is made

    # Markdown: nothing is escaped but by `cell`.
    environment = template_environment(Path(__file__).with_name("templates"), keep_trailing_newline=True)
    environment.filters |= {
        "fill": _fill,
        "table": _table,
        "sentence": lambda text: json.dumps(_line(text)),
        "items": lambda text: json.dumps([_line(item) for item in re.split(r"(?m)^- ", text)[1:]]),
        "listed": _listed,
        "code": "`{}`".format,
        "cell": lambda text: text.replace("|", "\\|"),
        "quoted": lambda value: json.dumps(value, ensure_ascii=False),  # as Python writes it
        "thousands": "{:,}".format,
        "percent": lambda share: f"{100 * share:.1f} %",
    }
    return environment


def _line(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text).strip()


def _fill(text: str, indent: str = "") -> str:
    """Return a paragraph in lines of 110 characters, all but the first indented."""
    lines = textwrap.fill(
        _line(text), 110, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )
    return f"{lines}\n"


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)


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
