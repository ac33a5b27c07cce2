"""Names that people write and that are kept: in one Unicode form, on one line, not too long."""

from __future__ import annotations

import unicodedata

__all__ = ["LONGEST_NAME", "one_form", "stored_name"]

LONGEST_NAME = 200
"""Most characters of a name in the ledger."""


def one_form(text: str) -> str:
    """Return a text in Unicode's form NFC, so that two that look alike are one."""
    return unicodedata.normalize("NFC", text)


def stored_name(value: str, longest: int) -> str:
    """Return a name as it is stored.

    Raises
    ------
    ValueError
        If it cannot be stored; the message is the fix.
    """
    text = one_form(value)
    if not text or len(text) > longest or text != text.strip() or not text.isprintable():
        raise ValueError(
            f"1 to {longest} printable characters on one line, without spaces at either end, can be stored"
        )
    return text
