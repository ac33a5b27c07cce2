"""What may be shown of an error, whatever it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from synth import ShownError

_ADDRESS = re.compile(r"((?:[\w+.-]+::)*[\w+.-]+://)?(.*)", re.DOTALL)
MEMORY_ERRORS = (MemoryError, SystemError)
"""What is raised where memory runs out: the second by compiled code that does not say why it failed."""


def shown_message(error: BaseException, *, one_line: bool = False) -> str:
    """Return what may be shown of an error; it may name files of this machine.

    That is the message of a `ShownError`, its lines joined by semicolons for `one_line`; the file and the
    system's reason where the system refuses, memory too; of any other error only that it is withheld.
    """
    if isinstance(error, ShownError):
        return "; ".join(str(error).splitlines()) if one_line else str(error)
    if isinstance(error, OSError):
        reason = error.strerror or "cannot be used"
        return f"{error.filename}: {reason}" if error.filename else reason
    if isinstance(error, MemoryError):
        return "the memory of the machine, or the memory that the system allows this process, is too small"
    if isinstance(error, SystemError):
        return "compiled code failed without a reason (SystemError), as it does where memory is too small"
    return "its message could show confidential values and is withheld"


def private_message(error: BaseException, *, one_line: bool = False) -> str:
    """Return `shown_message`, and where the first few rows are that an error is about.

    For the operator's own terminal and private log: where a row of a confidential file stands says something
    of it.
    """
    where, message = getattr(error, "where", ""), shown_message(error, one_line=one_line)
    return f"{message} Look at {where}." if where else message


def shown_address(address: object) -> str:
    """Return an address without user, password and query, of which each may be a secret.

    Where a query cannot be told from a password, only what stands before both is shown.
    """
    kind, rest = _ADDRESS.fullmatch(str(address)).groups("")  # type: ignore[union-attr]  # matches any text
    before, mark, query = rest.partition("?")
    return kind + ("..." if mark and "@" in query else before.rpartition("@")[2])


def what_is_at(path: Path) -> str:
    """Say what has a name: a link and where it leads, a file, a release or another folder."""
    if path.is_symlink():
        return f"a symbolic link to {os.readlink(path)}"
    if not path.is_dir():
        return "a file" if path.is_file() else "neither a file nor a folder"
    ours = os.path.isfile(path / "public" / "certificate.json")  # False, too, where nobody may look
    return "a release of odsynth" if ours else "a folder that holds no release of odsynth"


def refuse_no_folder(folder: Path, kind: type[ShownError]) -> None:
    """Refuse a folder that cannot be made because something else has its name, or the name of one above."""
    for path in (*reversed(folder.parents), folder):
        if os.path.lexists(path) and not path.is_dir():
            raise kind(f"{path}: {what_is_at(path)} is where a folder must be. Fix: choose another place")


@contextmanager
def blame(kind: type[ShownError], rule: str, fix: str) -> Iterator[None]:
    """Say of whatever goes wrong with public files that it is them; nothing of it has to be withheld."""
    try:
        yield
    except (kind, *MEMORY_ERRORS):
        raise
    except Exception as error:  # a file that was damaged may do anything to its reader
        missing = isinstance(error, FileNotFoundError) and error.filename is None  # of Parquet
        if isinstance(error, OSError) and error.errno is not None and not missing:
            raise
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise kind(with_fix(f"{rule}: {reason}", fix)) from error


def with_fix(rule: str, fix: str) -> str:
    """Return a message with this fix, unless an error that it quotes has one."""
    return rule if "Fix: " in rule else f"{rule}. Fix: {fix}"
