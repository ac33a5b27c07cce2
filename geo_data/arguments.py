"""What functions that users call are given: paths and names as users have them, words for other things."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PathLike = str | os.PathLike[str]
"""A path as users give it: text, or any object that stands for a path."""


def path_of(value: PathLike, name: str) -> Path:
    """Return a path that a function was given.

    A TypeError if it is something else, also bytes; a ValueError if it is a URL.
    """
    text = text_of(value, name)
    try:
        refuse_url(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return Path(text)


def refuse_url(text: str) -> None:
    """Refuse a URL where a path is meant; the error does not show it, as it may hold a password."""
    # A pathlib.Path keeps one slash of two; one letter before a colon may be a drive.
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://|[A-Za-z][A-Za-z0-9+.-]+:/", text):
        raise ValueError(
            "this is a URL; write a path. To read from a store, use odsynth fetch table first; to copy a "
            "release there, use odsynth publish"
        )


def text_of(value: PathLike, name: str) -> str:
    """Return the text of a path or an address that a function was given; a TypeError as of `path_of`."""
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str):
        raise TypeError(f"{name}: a path is expected, as text or pathlib.Path, not {_called(value)}")
    return text


def paths_of(values: PathLike | Iterable[PathLike], name: str) -> list[Path]:
    """Return the paths that a function was given, one or several, as `path_of` does."""
    if isinstance(values, (str, bytes, os.PathLike)) or not isinstance(values, Iterable):
        values = [values]
    return [path_of(value, name) for value in values]


def texts_of(values: str | Iterable[str], name: str) -> tuple[str, ...]:
    """Return the texts that a function was given, one or several.

    A TypeError if one is no text.
    """
    texts = (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"{name}: text is expected, or a sequence of texts, not {_called(text)}")
    return texts


def check_type(value: object, kind: type[Any] | tuple[type[Any], ...], name: str, made_by: str) -> None:
    """Refuse an argument of another type.

    A TypeError names the argument, and the function that makes such objects.
    """
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(expected_type.__name__ for expected_type in kinds)
        raise TypeError(f"{name}: {expected} is expected, as {made_by} returns it, not {_called(value)}")


def _called(value: object) -> str:
    """Name the type of an argument; its content may be anything, and is not shown."""
    return "None" if value is None else f"an object of type {type(value).__name__}"
