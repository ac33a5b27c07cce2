"""The reference of configurations, written from the models that check them."""

from __future__ import annotations

import inspect
import json
import re
from fractions import Fraction

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

import synth
from pipelines.config.loading import ReleaseConfig
from pipelines.config.problems import LISTS
from pipelines.config.sections import Section, tables_of

_HEAD = """\
# Configuration

Every key of a release configuration (TOML), written by `make reference` from the program itself.
Paths are relative to the folder of the file. *Exact numbers* are written as text, `"8.6"`, `"1e-5"`
or `"1/3"`, so that what is certified is what was asked for. An unknown key, or a number that is not
exact, is refused; all problems of a file are reported at once. How each input must look is in
[inputs.md](inputs.md), what the planner chooses by itself in [planning.md](planning.md);
`examples/` has whole configurations: a built-in region, Rhode Island, a British city.
"""

_KINDS = {
    "str": "text",
    "int": "whole number",
    "bool": "true or false",
    "Path": "path",
    "Fraction": "exact number",
    "tuple of str": "list of texts",
    "dict of str to str": "table of texts",
    "dict of str to str or tuple of str": "table of texts or lists of two",
    "dict of str to int": "table of whole numbers",
}


def configuration_reference() -> str:
    """Write the reference of all keys of a release configuration.

    Returns
    -------
    str
        Markdown: for each table its purpose and its keys, each with what it holds, its default and its
        meaning, from the docstrings and the defaults of the models.
    """
    return "\n".join([_HEAD, *(_table(path, model) for path, model in tables_of(ReleaseConfig))])


def _table(path: tuple[str, ...], model: type[Section]) -> str:
    about, fields, format_ = inspect.getdoc(model) or "", model.model_fields, ""
    base = model.__base__
    inherited = inspect.getdoc(base) or "" if base is not Section else ""
    if "format" in fields:
        path, format_ = path[:-1], f', `format = "{path[-1]}"`'
    name = LISTS.get(path[-1], f"[{'.'.join(path)}]")
    lines = [f"## `{name}`{format_}\n", about.partition("\n")[0], ""]
    if all(not field.is_required() for field in fields.values()):
        lines[1] += " The whole table may be left out."
    not_here = {"format", *(inner[0] for inner, _ in tables_of(model))}  # what has a table of its own
    lines += ["| key | holds | default | meaning |", "| --- | --- | --- | --- |"]
    for names, kind, meaning in [*_attributes(inherited), *_attributes(about)]:
        for key in names:
            if key not in not_here:
                default = "required" if fields[key].is_required() else _default(fields[key])
                lines.append(f"| `{key}` | {kind} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _attributes(about: str) -> list[tuple[list[str], str, str]]:
    """Return the entries of the section Attributes of a docstring: names, type, text."""
    section = about.partition("Attributes\n----------\n")[2]
    found = re.findall(r"^(\w[\w, ]*) : (.+)\n((?:    .+\n?)+)", section, re.MULTILINE)
    return [
        (re.split(r", ", names), _kind(kind), " ".join(text.split()).replace("``", "`"))
        for names, kind, text in found
    ]


def _kind(kind: str) -> str:
    kind = kind.removesuffix(" or None")
    if kind.startswith("{"):
        return " or ".join(f"`{choice}`" for choice in kind.strip("{}").split(", "))
    return _KINDS.get(kind, kind)


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or value == {}:
        return "none"
    if isinstance(value, Fraction):
        value = str(value) if value.denominator == 1 else synth.decimal_up(value)
    return f"`{json.dumps(to_jsonable_python(value))}`"
