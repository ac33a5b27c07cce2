"""Plain texts: codes, categories and identifiers of workers that look alike are one."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from geo_data.code_index import in_one_dictionary
from geo_data.errors import InputError, lines_of

FORMULA = "=+-@"
"""Characters with which begins what spreadsheets calculate."""

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
        "texts have several spellings, which differ only in blanks, invisible characters, Unicode form or "
        '".0"' + (f": {first!a} and {second!a}" if shown else ""),
        column=column,
        count=several.nunique(),
        where="" if rows is None else lines_of([int(np.argmax(rows == number)) for number in pair], path),
        fix="write each code and category in the same way in all rows and files",
    )


Names = npt.NDArray[np.object_]


def shared_names(column: pa.ChunkedArray) -> pd.Series:
    """Return a column of names as a categorical, whatever its type; each name is decoded once.

    Bytes are UTF-8, or else Windows-1252; a name is NaN where the column is null.
    """
    if column.null_count == len(column):  # of whatever type
        column = pa.chunked_array([pa.nulls(len(column), pa.string())])
    encoded = in_one_dictionary(column).to_pandas()
    texts = [_decoded(name) if isinstance(name, bytes) else str(name) for name in encoded.cat.categories]
    place, different = pd.factorize(pd.Series(texts, dtype="str"))
    numbers = np.append(place, -1)[encoded.cat.codes]  # the last is what a missing one, -1, finds
    return pd.Series(pd.Categorical.from_codes(numbers, different))


def clean_names(names: pd.Series) -> pd.Series:
    """Return names on one line: spaces, line breaks and control characters in a row become one space.

    A name that is missing or blank is "". None begins with =, +, - or @, as what spreadsheets calculate does.
    """
    lines = names.astype("str").fillna("").str.replace(r"[\s\x00-\x1f\x7f-\x9f]+", " ", regex=True)
    return lines.str.lstrip(f" {FORMULA}").str.strip()


def unit_names(names: pd.Series, codes: Names, starts: npt.NDArray[np.int32]) -> tuple[Names, int]:
    """Return a name for each unit of a level: the one that most of its rows have.

    Names are by block, in block order; cleaned (`clean_names`), and "" where a unit has none: its code is
    none. Of several that equally many rows have, it is the first in the alphabet. Returned with how many
    units have several.
    """
    place, different = pd.factorize(clean_names(names.cat.categories.to_series()), sort=True)
    place[different[place] == ""] = -1
    name = np.append(place, -1)[names.cat.codes]  # the last is what a missing one, -1, finds
    unit = np.repeat(np.arange(starts.size), np.diff(np.append(starts, name.size)))
    # Millions of rows are a few runs of the same name: these are counted, not the rows.
    first = np.flatnonzero(np.r_[True, (unit[1:] != unit[:-1]) | (name[1:] != name[:-1])])
    rows = np.diff(np.append(first, name.size))[name[first] >= 0]
    first = first[name[first] >= 0]
    pair, run = np.unique(unit[first] * len(different) + name[first], return_inverse=True)
    unit_of_pair, which = np.divmod(pair, max(len(different), 1))
    # Stable: of equally many rows, the first in the alphabet.
    order = np.lexsort((-np.bincount(run, rows, pair.size), unit_of_pair))
    most = order[np.diff(unit_of_pair[order], prepend=-1) > 0]
    result = np.full(starts.size, "", object)
    result[unit_of_pair[most]] = np.asarray(different, object)[which[most]]
    result[result == codes] = ""
    return result, int((np.bincount(unit_of_pair) > 1).sum())


def _decoded(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name.decode("cp1252", "replace")
