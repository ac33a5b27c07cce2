"""The bytes of a Parquet file: those that this program writes of its rows, and none beside them."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage.parquet_form import FormError, read_rows

ROW_GROUP = 1_048_576
"""Rows of the largest row group that pyarrow writes unless told otherwise."""

_MAGIC = b"PAR1"
_CREATED_BY = re.compile(r"parquet-cpp-arrow version (\d{1,3}\.\d{1,3}\.\d{1,3})", re.ASCII)


def pyarrow_of(path: Path) -> str:
    """Return the version of pyarrow that wrote a file, as the file says."""
    match = _CREATED_BY.fullmatch(pq.read_metadata(path).created_by)
    if match is None:
        raise FormError(f"{path.name}: the file names a program that is not pyarrow")
    return match[1]


def check_parquet_bytes(path: Path, write: Callable[[io.RawIOBase], object]) -> bool:
    """Refuse a file that has other bytes than are written of its rows.

    A file can hold what no reader shows: gaps between its pages, fields of its footer that nobody knows,
    words of a dictionary that no row has. Written again, it would not have them. A file by another version
    of pyarrow may be encoded in another way: of it only the footer, and where columns lie, are compared, and
    False is returned.
    """
    if pyarrow_of(path) != pa.__version__:
        _check_footer(path)
        return False
    with Comparison(path) as comparison:
        write(comparison)
        if not comparison.at_end():
            raise FormError(
                f"{path.name}: the bytes are not those that pyarrow {pa.__version__} writes of its rows"
            )
    return True


def rewrite(path: Path, target: Any) -> None:
    """Write the rows of a file to another one, as a table that is written at once."""
    pq.write_table(read_rows(path), target, compression="zstd")


def row_groups(path: Path) -> Iterator[pa.Table]:
    """Yield the rows of a file as they are grouped in it; a group is small enough to be read whole."""
    file = pq.ParquetFile(path)
    for number in range(file.num_row_groups):
        if file.metadata.row_group(number).num_rows > ROW_GROUP:
            raise FormError(f"{path.name}: a row group has more than {ROW_GROUP:,} rows")
        yield file.read_row_group(number)


class Comparison(io.RawIOBase):
    """A file to write to that keeps nothing: it remembers whether another one has the same bytes."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self.same = True
        self._at = 0

    def writable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """Return how much was written."""
        return self._at

    def write(self, data: Any) -> int:
        """Compare what comes next."""
        view = memoryview(data).cast("B")
        self.same = self.same and self._file.read(len(view)) == bytes(view)  # views go item by item
        self._at += len(view)
        return len(view)

    def has_next(self, data: bytes) -> bool:
        """Whether the other file goes on with these bytes."""
        chunk = self._file.read(len(data))
        self._file.seek(-len(chunk), io.SEEK_CUR)
        return self.same and chunk == data

    def at_end(self) -> bool:
        """Whether all that was written is the whole of the other file."""
        return self.same and self._file.read(1) == b""

    def close(self) -> None:
        """Close the other file."""
        self._file.close()
        super().close()


def _check_footer(path: Path) -> None:
    """Refuse a footer that is not as pyarrow writes it again, and bytes that belong to no column."""
    metadata = pq.read_metadata(path)
    again = io.BytesIO()
    metadata.write_metadata_file(again)
    footer = again.getvalue().removeprefix(_MAGIC)  # with its length and the closing magic
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    end = len(_MAGIC)
    for chunk in (group.column(i) for group in groups for i in range(group.num_columns)):
        # A row group without rows has no data page, and 0 in its place.
        starts = {chunk.dictionary_page_offset, chunk.data_page_offset} - {None, 0}
        if min(starts, default=0) != end:
            raise FormError(f"{path.name}: there are bytes that belong to no column")
        end += chunk.total_compressed_size
    with path.open("rb") as file:
        begins = file.read(len(_MAGIC)) == _MAGIC
        file.seek(end)
        if not begins or file.read(len(footer) + 1) != footer:
            raise FormError(f"{path.name}: the footer says more than pyarrow reads")
