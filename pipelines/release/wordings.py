"""Wordings of the texts of a certificate: what earlier versions said in other words (docs/formats.md).

A text that has been released stays true and stays known. The texts of today are in `certificate` and where
these are from; here is only what each wording said otherwise than the one after it.
"""

from __future__ import annotations

from typing import Any

from pipelines.release.certificate import (
    ATTRIBUTE_FORMAT,
    CERTIFICATE_FORMAT,
    DISTANCE_FORMAT,
    POLICY_FORMAT,
)
from pipelines.release.formats import FIRST_FORMAT

CERTIFICATE_WORDINGS = {FIRST_FORMAT: (1,)} | dict.fromkeys(
    (CERTIFICATE_FORMAT, POLICY_FORMAT, DISTANCE_FORMAT, ATTRIBUTE_FORMAT), (2,)
)
"""Wordings of each format, newest first: a change of wording is not a change of format."""

# By wording: its sentences, and in their place those of the wording before.
_BEFORE: dict[int, dict[str, str]] = {
    2: {
        "the geography, the auxiliary flows and the weights; none of them is derived from the same records, "
        "but for releases whose epsilon and delta add to these": "the geography, the auxiliary flows and the "
        "weights, none of them derived from the same records",
        "Releases of the same records add up their epsilon and their delta, also where one is planned from "
        "another.": "Releases of the same records add up their epsilon and their delta.",
    },
}


def in_wording(document: Any, wording: int) -> Any:
    """Return part of a certificate, as JSON has it, in the words of a wording.

    Parameters
    ----------
    document : dict, list or text
        In today's words. Whole sentences are replaced; numbers and names have none.
    wording : int
        1 is that of version 0.1.0.
    """
    if isinstance(document, dict):
        return {name: in_wording(value, wording) for name, value in document.items()}
    if isinstance(document, list):
        return [in_wording(value, wording) for value in document]
    if isinstance(document, str):
        for number in range(max(_BEFORE), wording, -1):
            for sentence, before in _BEFORE[number].items():
                document = document.replace(sentence, before)
    return document


def without_words(document: Any) -> Any:
    """Return part of a certificate without its sentences: what is left is numbers and names."""
    if isinstance(document, dict):
        return {name: without_words(value) for name, value in document.items()}
    if isinstance(document, list):
        return [without_words(value) for value in document]
    return "" if isinstance(document, str) and " " in document else document
