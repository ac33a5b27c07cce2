"""Reading TOML: configurations of releases, of calendars and of the service, with one kind of error."""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipelines.config.fields import WrittenFloat
from synth.errors import ShownError

_DEEPEST = 20  # levels of tables and lists
_LARGEST = 2**24  # bytes of a file


class ConfigError(ShownError, ValueError):
    """A configuration cannot be used.

    Attributes
    ----------
    problems : tuple of str
        One line per problem: file name, key, what is wrong, the fix. The message is these lines.
    """

    def __init__(self, problems: str | Iterable[str]) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Decimal numbers are `WrittenFloat`.
    """
    try:
        status = path.stat()
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # opening a pipe would wait
            raise ConfigError(f"{path}: this is a pipe, socket or device; give the path of a TOML file")
        if status.st_size > _LARGEST:
            raise ConfigError(f"{path}: the file is larger than {_LARGEST:,} bytes; give a TOML file")
        text = path.read_bytes().decode("utf-8-sig")  # some editors put a mark before the first letter
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file; give the path of a TOML file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: this is a folder; give the path of a TOML file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name}: the text is not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        fix = "check the path and its permissions"
        raise ConfigError(f"{path}: the file cannot be read ({error.strerror}); {fix}") from None
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        # A NUL in it.
        raise ConfigError(f"{str(path)!r}: this is not a path; give the path of a TOML file") from None
    return parse_toml(text, path.name)


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse TOML as `read_toml` does; `name` is what the text is called in messages, which quote the line."""
    try:
        tables = tomllib.loads(text, parse_float=WrittenFloat)
        if _is_deep(tables):  # which a line of dots makes without recursion
            raise RecursionError
        return tables
    except tomllib.TOMLDecodeError as error:
        message, fix = str(error), "complete the last line"
        match = re.search(r"at line (\d+)", message)
        lines = text.splitlines()
        if match and int(match[1]) <= len(lines):
            fix = f"correct this line: {lines[int(match[1]) - 1].strip()}"
        raise ConfigError(f"{name}: not valid TOML: {message}; {fix}") from None
    except RecursionError:
        raise ConfigError(f"{name}: lists or tables are nested too deep; correct the brackets") from None
    except ValueError:
        raise ConfigError(f"{name}: a whole number has more digits than any key takes; correct it") from None


def _is_deep(tables: dict[str, Any]) -> bool:
    """Return whether values lie deeper than those of any key do, so that whoever follows them could fail."""
    below: list[Any] = [tables]
    for _ in range(_DEEPEST):
        below = [
            value
            for container in below
            if isinstance(container, dict | list)
            for value in (container.values() if isinstance(container, dict) else container)
        ]
    return bool(below)
