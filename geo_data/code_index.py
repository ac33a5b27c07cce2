"""Geocodes, which come many times: each is looked at once, and found among those of its level."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

_DIGITS = 18  # of a number that an int64 holds, whatever it is


class CodeIndex:
    """The position of every code of a level.

    Codes of digits, all of one length, are looked up as numbers, as those of censuses are: texts take eight
    times the time and five times the memory.
    """

    def __init__(self, codes: npt.NDArray[np.object_] | pa.Array) -> None:
        texts = pa.array(codes, pa.large_string())
        lengths = pc.unique(pc.utf8_length(texts)).to_pylist()
        self.longest = max(lengths, default=0)
        of_numbers = lengths == [self.longest] and 0 < self.longest <= _DIGITS
        self._of_numbers = of_numbers and bool(pc.all(pc.ascii_is_decimal(texts)).as_py())
        self._index = (
            pd.Index(texts.cast(pa.int64()).to_numpy()) if self._of_numbers else pd.Index(codes, dtype="str")
        )

    def find(self, codes: npt.ArrayLike | pd.Series | pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """Return the position of each code, -1 where it is none of the level's."""
        if not self._of_numbers:
            texts = codes.to_pandas() if isinstance(codes, pa.ChunkedArray) else codes
            return self._index.get_indexer(pd.Index(pd.Series(texts, dtype="str"))).astype(np.int32)
        if not isinstance(codes, pa.ChunkedArray):
            codes = pa.array(pd.Series(codes, dtype="str"))
        # Of so many digits: a sign, a blank or a digit of another script is no part of a code.
        whole = pc.and_(pc.ascii_is_decimal(codes), pc.equal(pc.binary_length(codes), self.longest))
        whole = pc.fill_null(whole, False)
        if not pc.all(whole).as_py():
            codes = pc.if_else(whole, codes, "-1")
        return self._index.get_indexer(codes.cast(pa.int64()).to_numpy()).astype(np.int32)

    def find_one(self, code: str) -> int:
        """Return the position of one code, in a hundredth of the time."""
        if self._of_numbers and not (code.isascii() and code.isdecimal() and len(code) == self.longest):
            return -1
        try:
            position = self._index.get_loc(int(code) if self._of_numbers else code)
        except KeyError:
            return -1
        assert isinstance(position, int)  # codes are unique
        return position


def has_repeats(codes: pa.Array) -> bool:
    """Say whether a code comes twice.

    Fastest where they are mostly sorted, as geographies are: a third of the time of hashes.
    """
    ordered = codes.take(pc.sort_indices(codes))
    return bool(pc.any(pc.equal(ordered[1:], ordered[:-1])).as_py())


def in_one_dictionary(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column encoded with one dictionary for all its chunks.

    Of a column that is encoded already, each dictionary is looked through once, not once a chunk: pyarrow
    reads a row group of a Parquet file in many chunks of one dictionary.
    """

    def memory(chunk: pa.DictionaryArray) -> tuple[object, ...]:
        whole = chunk.dictionary
        return (whole.offset, len(whole), *(part and part.address for part in whole.buffers()))

    column = column.dictionary_encode()
    alike = [list(chunks) for _, chunks in groupby(column.chunks, memory)]
    merged = [
        pa.DictionaryArray.from_arrays(
            pa.concat_arrays([chunk.indices for chunk in chunks]), chunks[0].dictionary
        )
        for chunks in alike
    ]
    return pa.chunked_array(merged, column.type).unify_dictionaries()
