"""What may be shown of an error, whatever it is."""

from __future__ import annotations

from synth import ShownError

__all__ = ["ShownError", "shown_message"]


def shown_message(error: BaseException, *, one_line: bool = False) -> str:
    """Return what may be shown of an error; it may name files of this machine.

    That is the message of a `ShownError`, its lines joined by semicolons for `one_line`; the file and the
    system's reason where the system refuses; of any other error only that its message is withheld.
    """
    if isinstance(error, ShownError):
        return "; ".join(str(error).splitlines()) if one_line else str(error)
    if isinstance(error, OSError):
        reason = error.strerror or "cannot be used"
        return f"{error.filename}: {reason}" if error.filename else reason
    return "its message could show confidential values and is withheld"
