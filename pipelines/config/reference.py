"""The reference of configurations, written from the models that check them."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

import synth
from pipelines.config.loading import PublicConfig, ReleaseConfig
from pipelines.config.problems import LISTS
from pipelines.config.sections import Section, tables_of

_HEAD = """\
# Configuration

This page has every key of a release configuration (TOML); `make reference` writes it from the program.
Paths are relative to the folder of the file. Write *exact numbers* as text, `"8.6"`, `"1e-5"` or `"1/3"`:
what is certified is then what you asked for. The program refuses unknown keys and numbers that are not
exact, and reports all problems of a file at once. [inputs.md](inputs.md) says how each input must look,
[planning.md](planning.md) what the planner chooses by itself. `examples/` has whole configurations: a
built-in region, Rhode Island, a British city, and that city as a census whose whole records are protected.
"""

_KINDS = {
    str: "text",
    int: "whole number",
    bool: "true or false",
    Path: "path",
    Fraction: "exact number",
    tuple: "list of texts",
}
_DEFAULTS = {"protects": '`"record"` or `"home"`'}  # which of them, the format of the jobs decides


def configuration_reference() -> str:
    """Write the reference of all keys of a release configuration."""
    tables = [_table(path, model) for path, model in tables_of(ReleaseConfig)]
    return "\n".join([_HEAD, *tables, *_tables_of_free_keys()])


def _tables_of_free_keys() -> Iterator[str]:
    """Yield the tables whose keys are names that the configuration gives."""
    for name, meaning in _meanings(PublicConfig).items():
        field = PublicConfig.model_fields[name]
        if get_origin(field.annotation) is dict:
            kind = _kind(get_args(field.annotation)[1])
            yield f"## `[{name}]`\n\n{meaning} Keys are names of your choice, and each holds an {kind}.\n"


def _table(path: tuple[str, ...], model: type[Section]) -> str:
    fields, format_ = model.model_fields, ""
    if "format" in fields:
        path, format_ = path[:-1], f', `format = "{path[-1]}"`'
    name = LISTS.get(path[-1], f"[{'.'.join(path)}]")
    lines = [f"## `{name}`{format_}\n", (inspect.getdoc(model) or "").partition("\n")[0], ""]
    if all(not field.is_required() for field in fields.values()):
        lines[1] += " The whole table may be left out."
    with_table = {inner[0] for inner, _ in tables_of(model)}
    lines += ["| key | holds | default | meaning |", "| --- | --- | --- | --- |"]
    for key, meaning in _meanings(model).items():
        if key not in with_table:
            field = fields[key]
            default = "required" if field.is_required() else _DEFAULTS.get(key, _default(field))
            lines.append(f"| `{key}` | {_kind(field.annotation)} | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _meanings(model: type[Section]) -> dict[str, str]:
    """Return the docstrings below the fields of a model, its parent's first."""
    parent = model.__base__
    meanings = _meanings(parent) if parent is not None and parent is not Section else {}
    (definition,) = ast.parse(inspect.getsource(model)).body
    for field, text in itertools.pairwise(definition.body):  # type: ignore[attr-defined]
        match field, text:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(meaning))):
                meanings[name] = " ".join(meaning.split())
    return meanings


def _kind(annotation: Any) -> str:
    """Return in words what a key holds."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if (kind := _KINDS.get(annotation, _KINDS.get(get_origin(annotation)))) is not None:
        return kind
    if get_origin(annotation) is dict:
        kind = _kind(get_args(annotation)[1])
        return f"table of {kind}s" if kind in _KINDS.values() else "table of texts or lists of two"
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if get_origin(annotation) is Literal:
        return " or ".join(f'`"{choice}"`' for choice in kinds)
    if len(kinds) == 1:
        return _kind(kinds[0])
    return "text or list of texts" if str in kinds else '"full" or table'  # what is protected, or a policy


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or value == {}:
        return "none"
    if isinstance(value, Fraction):
        value = str(value) if value.denominator == 1 else synth.decimal_up(value)
    return f"`{json.dumps(to_jsonable_python(value))}`"
