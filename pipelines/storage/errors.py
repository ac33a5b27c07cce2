"""What may be shown of an error, whatever it is."""

from __future__ import annotations

from synth import ShownError

__all__ = ["ShownError", "shown_message"]


def shown_message(error: BaseException, *, one_line: bool = False) -> str:
    """Return what may be shown of an error.

    Parameters
    ----------
    error : BaseException
    one_line : bool
        Whether to join the lines of a message by semicolons.

    Returns
    -------
    str
        The message of a `ShownError`; the name of the file and the system's reason where the system refuses;
        of any other error only that its message is withheld, as it might quote a confidential value. It may
        name files of this machine.
    """
    if isinstance(error, ShownError):
        return "; ".join(str(error).splitlines()) if one_line else str(error)
    if isinstance(error, OSError):
        reason = error.strerror or "cannot be used"
        return f"{error.filename}: {reason}" if error.filename else reason
    return "its message could show confidential values and is withheld"
