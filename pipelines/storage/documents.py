"""JSON documents that somebody else may have written: plans, certificates, lists of files."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

_LARGEST = 2**28  # bytes; a plan of a nation has a thousandth


def read_json(path: Path) -> Any:
    """Read a JSON document in UTF-8, as `parse_json` does."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST:
        raise ValueError(f"{path.name}: this is not a file, or has more than {_LARGEST:,} bytes")
    return parse_json(path.read_bytes(), path.name)


def parse_json(content: str | bytes, name: str = "the text") -> Any:
    """Parse JSON; nothing in it may stand for what takes for ever to compute."""
    try:
        text = content.decode("utf-8") if isinstance(content, bytes) else content
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        pass
    except ValueError:
        raise ValueError(f"{name}: this is not JSON in UTF-8, or has invalid numbers") from None
    raise ValueError(f"{name}: lists or tables are nested too deep")


def check_format(document: Any, name: str, expected: str) -> None:
    """Refuse a document of another format than the one that is read."""
    stated = document.get("format") if isinstance(document, dict) else None
    if stated != expected:
        is_ours = isinstance(stated, str) and re.fullmatch(r"odsynth [a-z]{1,20} [0-9.]{1,9}", stated)
        raise ValueError(
            f"{name}: its format is {stated if is_ours else 'none of odsynth'}, and this version reads "
            f"{expected}. Fix: use the version that wrote it, or make it again with this version"
        )


def _refuse(text: str) -> None:
    raise ValueError(text)


def _finite(text: str) -> float:
    if abs(number := float(text)) == float("inf"):
        raise ValueError(text)
    return number
