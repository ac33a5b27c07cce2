"""The base class of the errors that may be shown to anybody."""

from __future__ import annotations

__all__ = ["ShownError"]


class ShownError(Exception):
    """An error whose message may be shown to anybody who uses the program, on a screen or in a log.

    The message names files, columns, keys, rules and counts, and the fix. It never quotes a value of a
    confidential file, nor anything else that depends on one. Whoever raises it must keep it so; the messages
    of all other errors are withheld (`pipelines.storage.errors`).
    """
