"""Names that people write and that are kept: in one Unicode form, on one line, not too long."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from functools import cache, partial

LONGEST_NAME = 200
"""Most characters of a name in the ledger."""


# Printable, and seen by nobody: what Unicode's Default_Ignorable_Code_Point has, and the empty Braille cell.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def one_form(text: str) -> str:
    """Return a text in Unicode's form NFC, so that two that look alike are one."""
    return unicodedata.normalize("NFC", text)


def stored_name(value: str, longest: int) -> str:
    """Return a name as it is stored."""
    text = one_form(value)
    if not text or len(text) > longest or text != text.strip() or not text.isprintable():
        raise ValueError(
            f"write 1 to {longest} printable characters on one line, without spaces at either end"
        )
    return text


def look_alike(name: str, other: str) -> bool:
    """Say whether two names look the same: whether they have one skeleton, by UTS 39 and docs/ledger.md."""
    return name == other or _skeleton(name) == _skeleton(other)


@cache
def _skeleton(text: str) -> str:
    stand_for, letters_of = _prototypes(), partial(unicodedata.normalize, "NFKD")  # K for full width
    # By K an accent alone is a blank with a mark.
    text = "".join(
        stand_for.get(letter, letter) if letters_of(letter)[0] == " " else letter for letter in text
    )
    text = letters_of(_INVISIBLE.sub("", letters_of(text)))
    while (alike := letters_of("".join(stand_for.get(letter, letter) for letter in text))) != text:
        text = alike  # what stands for a letter may have letters for which others stand
    return " ".join(text.split())


@cache
def _prototypes() -> dict[str, str]:
    """Return by character what Unicode has in place of all that look like it."""
    from confusable_homoglyphs.confusables import confusables_data  # a large table, which few commands need

    alike: dict[str, set[str]] = defaultdict(set)
    for text, others in confusables_data.items():  # both ways; a mark of direction is about others
        alike[text.strip("\u200e")] |= {other["c"].strip("\u200e") for other in others}
    # What stands for several has them all; of two that have each other only, either may.
    return {
        text: max((text, *others), key=lambda candidate: (len(candidate), len(alike[candidate]), candidate))
        for text, others in alike.items()
        if len(others) == 1
    }
