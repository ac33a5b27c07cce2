"""Plain texts: codes, categories and identifiers of workers that look alike are one."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from geo_data.errors import InputError, lines_of

# The characters of most codes, which are looked at as bytes, ten times as fast.
_COMMON = bytes(range(ord("!"), ord("~") + 1))
_INVISIBLE, _BLANKS = r"\p{Cf}+", r"[\p{Z}\p{Cc}]+"
# Of scripts from Arabic to those of India, where a joiner inside of a word changes how it looks.
_JOINED = r"([\x{600}-\x{1cff}](?:[\x{200c}\x{200d}][\x{600}-\x{1cff}])+)"
_UNPOINTED = _COMMON.replace(b".", b"")
_WHOLE, _DIGITS = r"^([0-9]+)\.0*$", r"\1"


def plain_texts(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return texts in Unicode's form NFC, without invisible characters and blanks at either end.

    Blanks in a row, of any kind, are one space. Joiners stay where they are seen, as in words of Persian.
    Where all texts are so already, they are returned themselves.
    """
    if _consist_of(texts, _COMMON):
        return texts
    visible = pc.replace_substring_regex(texts, f"{_JOINED}|{_INVISIBLE}", r"\1")
    spaced = pc.replace_substring_regex(visible, _BLANKS, " ")
    return pc.utf8_normalize(pc.utf8_trim(spaced, " "), "NFC")


def spellings(texts: pa.LargeStringArray) -> pa.LargeStringArray:
    """Return for each text the one that stands for all its spellings: plain, no joiner, 1 for "1.0"."""
    plain = plain_texts(texts)
    if _consist_of(plain, _UNPOINTED):
        return plain
    return pc.replace_substring_regex(pc.replace_substring_regex(plain, _INVISIBLE, ""), _WHOLE, _DIGITS)


def _consist_of(texts: pa.LargeStringArray, characters: bytes) -> bool:
    """Say whether no text is empty, and none has other characters."""
    _, ends, data = texts.buffers()
    ends = np.frombuffer(ends or b"", np.int64)[texts.offset :][: len(texts) + 1]
    if data is None or (np.diff(ends) == 0).any():
        return not len(texts)
    return not memoryview(data)[ends[0] : ends[-1]].tobytes().translate(None, characters)


def refuse_spellings(
    path: str | os.PathLike[str],
    column: str,
    texts: pa.LargeStringArray,
    rows: npt.NDArray[np.integer] | None = None,
    *,
    shown: bool,
) -> None:
    """Raise an `InputError` if several of some different texts are spellings of one.

    With `rows`, the text of each row of the file, those that no row has do not count. Two of them are named
    if they may be `shown`.
    """
    forms = pd.Series(spellings(texts).to_pylist(), dtype="str")
    used = forms if rows is None else forms.iloc[np.unique(rows)]
    several = used[used.duplicated(keep=False)]
    if several.empty:
        return
    pair = several.index[several == several.iloc[0]][:2].tolist()
    first, second = texts.take(pa.array(pair)).to_pylist()
    raise InputError(
        path,
        "texts are spelled in several ways, which differ in blanks, invisible characters, Unicode form or "
        '".0" only' + (f": {first!a} and {second!a}" if shown else ""),
        column=column,
        count=several.nunique(),
        where="" if rows is None else lines_of([int(np.argmax(rows == number)) for number in pair], path),
        fix="write each code and category in one way in all rows and files",
    )
