"""The base class of the errors that may be shown to anybody."""

from __future__ import annotations


class ShownError(Exception):
    """An error whose message may be shown to anybody who uses the program, on a screen or in a log.

    The message names files, columns, keys, rules and counts, and the fix; it never quotes a confidential
    value. Whoever raises it must keep it so. The messages of all other errors are withheld
    (`pipelines.storage.errors`).
    """
