"""Names of public units, from a column that says in every row what the unit of that row is called."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from geo_data.code_index import in_one_dictionary

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

    A name that is missing or blank is "".
    """
    return names.astype("str").fillna("").str.replace(r"[\s\x00-\x1f\x7f-\x9f]+", " ", regex=True).str.strip()


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
