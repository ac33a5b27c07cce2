"""What is wrong with a table of TOML, in words: one line per problem, with the key and a hint."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from pydantic_core import ErrorDetails

from pipelines.config.fields import JOB_TYPE, LINE, STATE, shown
from pipelines.config.sections import SectionError

LISTS = {
    "auxiliary": "[[auxiliary]]",
    "polygons": "[[geography.polygons]]",
    "workload": "[[workload]]",
    "attribute": "[[attribute]]",
}
"""Lists of tables, as they are written."""


_PATTERNS = {
    LINE: "write one line of text",
    STATE: 'use lower-case letters, digits and underscores only, such as "ri"',
    JOB_TYPE: 'use "JT00" (all jobs) to "JT05"',
}
_HINTS = {
    "missing": "add a line {field} = ...",
    "bool_type": "write true or false, without quotes",
    "string_type": "write it in quotes",
    "string_too_short": "write at least one character",
    "int_type": "write it without quotes and point",
    "int_from_float": "write it without quotes and point",
    "tuple_type": 'write for example ["a", "b"], or [] for none',
    "dict_type": "write a table, such as {{ a = ... }}",
    "model_type": "write [{field}] above its keys, in single brackets",
    "model_attributes_type": "write [{field}] above its keys, in single brackets",
}


def describe(error: ErrorDetails, keys: Mapping[tuple[str, ...], Sequence[str]]) -> list[str]:
    """Return an error of pydantic as lines: key, value, pydantic's words, a hint.

    The keys are those of every table, by its path, which ends with the format where there are several.
    """
    loc, kind, written = error["loc"], error["type"], shown(error["input"])
    place = _without_tag(loc, keys)
    key, field = _key(place), str(place[-1]) if place else ""
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, SectionError):
        return [f"{key}{name and '.'}{name}: {text}" for name, text in cause.problems]
    if kind == "value_error":
        return [f"{key}: {cause}"]
    if kind == "extra_forbidden":
        return [f"{key}: unknown key; {_suggestion(loc, keys)}"]
    if kind == "policy":
        return [f"{key}: {written} {error['msg']}"]
    if kind == "string_pattern_mismatch" and (fix := _PATTERNS.get(error["ctx"]["pattern"])):
        return [f"{key}: {written} is not allowed; {fix}"]
    if kind == "union_tag_not_found":
        return [f'{key}.format: missing; add a line format = "..."']
    if kind == "union_tag_invalid":
        key, written = f"{key}.format", shown(error["input"]["format"])
    hint = _HINTS.get(kind, "").format(field=field)
    if kind == "missing":
        return [f"{key}: missing; {hint if len(place) > 1 else f'add a table {_header(field)}'}"]
    if kind.startswith(("model", "tuple")) and (field in LISTS or isinstance(place[-1], int)):
        table = field if field in LISTS else str(place[-2])
        hint = f"write {_header(table)} above its keys, in double brackets"
    words = (
        "Input should be a table" if kind.startswith("model") else error["msg"].replace("valid tuple", "list")
    )
    return [f"{key}: {written}: {words}{hint and '; '}{hint}"]


def _header(table: str) -> str:
    return LISTS.get(table, f"[{table}]")


def _without_tag(
    loc: tuple[int | str, ...], keys: Mapping[tuple[str, ...], Sequence[str]]
) -> list[int | str]:
    """Return the place of an error without the tag that pydantic puts behind what may be of several kinds."""
    place = [*loc]
    if loc[:2] == ("privacy", "policy"):
        del place[2:3]
    elif loc and (loc[0],) not in keys and any(table[:1] == loc[:1] for table in keys):
        index = 2 if any(isinstance(part, int) for part in loc[1:2]) else 1
        del place[index : index + 1]
    return place[:-2] if place[-1:] == ["[key]"] else place  # a key is quoted as the value that it is


def _key(where: Iterable[int | str]) -> str:
    """Return the path of a key; members of a list are counted from 1, as people do: ``auxiliary #1.flow``."""
    return "".join(f" #{part + 1}" if isinstance(part, int) else f".{part}" for part in where).lstrip(".")


def _suggestion(loc: tuple[int | str, ...], keys: Mapping[tuple[str, ...], Sequence[str]]) -> str:
    """Return the key that was probably meant, else the table it belongs to, else the keys there are."""
    *parents, key = (part for part in loc if isinstance(part, str))
    names = keys[tuple(parents)]
    if close := difflib.get_close_matches(key.lower(), names, n=1):
        return f"did you mean {close[0]}?"
    for table, its_keys in sorted(keys.items(), key=lambda entry: entry[0][:1] != tuple(parents[:1])):
        if table and key in its_keys:
            if table[-1] in LISTS and len(table) == 2:
                return f"it belongs to {LISTS[table[-1]]}"
            if len(table) == 2 and "format" not in its_keys:
                return f"it belongs to [{'.'.join(table)}]"
            name = LISTS.get(table[0], f"[{table[0]}]")
            return f"it belongs to {name}" + (f' with format = "{table[1]}"' if len(table) == 2 else "")
    return f"the keys here are {', '.join(names)}"
