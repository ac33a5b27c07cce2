"""What a Parquet file of a release may hold: its columns, their types, and nothing beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from geo_data.delimited import most_bytes
from synth.errors import ShownError

Kind = Callable[[pa.DataType], bool]
_ALLOWED = {b"ARROW:schema"}


class FormError(ShownError, ValueError):
    """A file is not of the form that it must have; the message quotes no content."""


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_count(kind: pa.DataType) -> bool:
    """Whether a column holds 64-bit counts."""
    return pa.types.is_int64(kind)


def any_kind(_: pa.DataType) -> bool:
    """Whether a column holds anything: where what reads it looks at its type."""
    return True


def check_form(
    path: Path, columns: Mapping[str, Kind], metadata: frozenset[bytes] = frozenset()
) -> pq.FileMetaData:
    """Refuse a file that has other columns, of other types, or notes of its own.

    A reader takes the columns that it knows, and a library may hide one as an index; so a file could carry
    more than anybody has looked at.
    """
    file_metadata, schema = pq.read_metadata(path), pq.read_schema(path)
    size = sum(file_metadata.row_group(i).total_byte_size for i in range(file_metadata.num_row_groups))
    if max(size, 8 * file_metadata.num_rows) > most_bytes(path.stat().st_size):
        raise FormError(f"{path.name}: the file unpacks to far more bytes than a table of a release has")
    if schema.names != list(columns):
        raise FormError(f"{path.name}: columns are not {', '.join(columns)}")
    for field, kind in zip(schema, columns.values(), strict=True):
        if not kind(field.type):
            raise FormError(f"{path.name}: column {field.name} is of another type")
        if field.metadata or not field.nullable:  # nor may it be said that no cell is empty
            raise FormError(f"{path.name}: column {field.name} has notes of its own")
    if {*(file_metadata.metadata or {}), *(schema.metadata or {})} - _ALLOWED - metadata:
        raise FormError(f"{path.name}: the file has notes of its own")
    return file_metadata


def read_rows(path: Path, columns: list[str] | None = None, as_dictionary: Sequence[str] = ()) -> pa.Table:
    """Read a file, or some columns of it: without what pyarrow loads to look for rows in many files."""
    with pq.ParquetFile(path, read_dictionary=as_dictionary, page_checksum_verification=True) as file:
        return file.read(columns)
