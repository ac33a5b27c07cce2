"""Reading CSV, gzipped CSV and Parquet tables, with one clear error for what can be wrong with a file.

Every reader of this package goes through `read_table`. A column is asked for with its kind:

========  ==============================================================================
code      a geocode: text, never a number (a number has lost its leading zeros)
label     a category or an identifier: text; integers of a Parquet file become text
count     a whole number, not negative, never written as a decimal
number    a finite number; "1,234" with thousands separators is accepted
margin    a margin of error: a number, not negative, also as "+/-56"; NaN where it is
          blank or asterisks, which say that it is unknown
text      anything, as it stands; "" where it is blank. `numbers` and `margins` read the
          numbers in the rows that are wanted
name      text that many rows share, such as that of a county: a categorical, missing where
          it is blank; what is not UTF-8 is read as Windows-1252
========  ==============================================================================

The first four may not have missing values. Nothing here shows a value of the data: errors of the libraries
underneath quote the offending row, so they are replaced, not chained.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from geo_data.errors import InputError, refuse_any
from geo_data.unit_names import shared_names

__all__ = ["Kind", "margins", "numbers", "read_table"]

Kind = Literal["code", "label", "count", "number", "margin", "text", "name"]

_NAME = pa.dictionary(pa.int32(), pa.binary())  # each name is kept once, however many rows have it
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_TRUNCATED = "the file is truncated or corrupt"
_COPY_AGAIN = "copy or download it again and compare checksums"
_NO_ROWS = "the file is empty: it has a header and no rows"
_ENCODING = "the text is not UTF-8"
_SAVE_UTF8 = "save it as UTF-8"
_READ_FAULTS = (OSError, EOFError, zlib.error, pa.ArrowException)


def read_table(
    path: str | os.PathLike[str],
    columns: Mapping[str, Kind],
    *,
    schema: Collection[str] | None = None,
    present: Collection[str] = (),
    optional: Mapping[str, Kind] | None = None,
    sha256: dict[str, str] | None = None,
) -> pd.DataFrame:
    """Read columns of a table as text, whole numbers or numbers, or say what is wrong with the file.

    Parameters
    ----------
    path : str or path
        CSV (UTF-8, comma, one header line), the same gzipped, or Parquet; told apart by content.
    columns : mapping of str to Kind
        The columns to read and the kind of each. No other column is parsed.
    schema : collection of str, optional
        All columns the file must have, neither more nor fewer. Default: further columns are ignored.
    present : collection of str
        Further columns that the header must have; they are not parsed.
    optional : mapping of str to Kind
        Further columns that are read where the header has them.
    sha256 : dict, optional
        The SHA-256 of the file, hexadecimal, is entered under its path: of text, of the bytes as they are
        read.

    Returns
    -------
    DataFrame
        One row per row of the file in its order, the columns in the order asked for: code, label and text as
        pandas ``str``, name as a categorical of ``str``, count as int64 (>= 0), number as float64 (finite),
        margin as float64 (>= 0, or NaN).
        At least one row.

    Raises
    ------
    InputError
        File absent, empty, truncated, corrupt or not UTF-8; columns missing, unknown or double; rows
        with another number of fields than the header; values that are not of the column's kind.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(path, "there is no such file", fix="check the path in the configuration")
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic:
        raise InputError(path, "the file is empty", fix=_COPY_AGAIN)
    wanted = dict.fromkeys([*columns, *present])
    if magic == _PARQUET:
        header = _parquet_header(path)
        _check_header(path, header, wanted, schema)
        columns = _with(columns, optional, header)
        table = _read_parquet(path, columns)
        if sha256 is not None:  # Parquet is not read from its beginning to its end
            with path.open("rb") as file:
                sha256[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
    else:
        header = _csv_header(path, magic)
        _check_header(path, header, wanted, schema)
        columns = _with(columns, optional, header)
        table = _read_csv(path, magic, columns, sha256)
    if table.num_rows == 0:
        raise InputError(path, _NO_ROWS, fix=_COPY_AGAIN)
    return pd.DataFrame({name: _values(path, name, kind, table[name]) for name, kind in columns.items()})


def _with(
    columns: Mapping[str, Kind], optional: Mapping[str, Kind] | None, header: Sequence[str]
) -> dict[str, Kind]:
    return {**columns, **{name: kind for name, kind in (optional or {}).items() if name in header}}


def _csv_header(path: Path, magic: bytes) -> list[str]:
    fault = fix = ""
    header: list[str] = []
    more = b""
    try:
        with gzip.open(path) if magic.startswith(_GZIP) else path.open("rb") as raw:
            line, more = raw.readline(), raw.read(1)
        # Only this line is decoded: columns that nobody reads may be in any encoding.
        header = next(csv.reader([line.decode("utf-8-sig")]), [])
    except UnicodeDecodeError:
        fault, fix = _ENCODING, _SAVE_UTF8
    except (*_READ_FAULTS, csv.Error):
        fault, fix = _TRUNCATED, _COPY_AGAIN
    # Raised after the handler, here and below: a chained error would carry the file's content along.
    if not fault and not more:
        fault, fix = (_NO_ROWS if header else "the file is empty"), _COPY_AGAIN
    if fault:
        raise InputError(path, fault, fix=fix)
    return header


def _parquet_header(path: Path) -> list[str]:
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except _READ_FAULTS:
        pass
    raise InputError(path, _TRUNCATED, fix=_COPY_AGAIN)


def _check_header(
    path: Path, header: Sequence[str], columns: Collection[str], schema: Collection[str] | None
) -> None:
    wanted = columns if schema is None else schema
    missing = [name for name in wanted if name not in header]
    if missing:
        # A file without a header would show its first record here, so only a line that has one of the names
        # counts as a header.
        found = ", ".join(header) if len(missing) < len(wanted) else f"{len(header)} columns, none of these"
        raise InputError(
            path,
            f"missing columns: {', '.join(missing)}; the file has: {found}",
            fix="name the columns of this file, or use the file that has them",
        )
    double = sorted({name for name in header if header.count(name) > 1})
    if double:
        raise InputError(path, f"columns named twice: {', '.join(double)}", fix="rename one of them")
    unknown = [] if schema is None else [name for name in header if name not in schema]
    if unknown:
        raise InputError(
            path,
            f"unknown columns: {', '.join(unknown)}; the format has: {', '.join(wanted)}",
            fix="remove them, or use the reader for this format",
        )


def _read_csv(
    path: Path, magic: bytes, columns: Mapping[str, Kind], sha256: dict[str, str] | None
) -> pa.Table:
    """Return the columns as text, counts as int64 where all of them convert."""
    text = {name: _NAME if kind == "name" else pa.string() for name, kind in columns.items()}
    fast = {name: pa.int64() if kind == "count" else text[name] for name, kind in columns.items()}
    table, fault = _parse_csv(path, magic, fast, sha256)
    if table is None and "count" in columns.values():
        # Either a count is not a whole number (to be counted by `_values`) or the file cannot be read at all.
        table, fault = _parse_csv(path, magic, text, sha256)
    if table is None:
        raise InputError(path, fault, fix=_SAVE_UTF8 if fault == _ENCODING else _COPY_AGAIN)
    return table


class _Hashed:
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._sha256, self.closed = file, hashlib.sha256(), False

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._sha256.update(data)
        return data

    def close(self) -> None:
        self.closed = True

    def hexdigest(self) -> str:
        """Return the hash of the whole file, whose rest is read for it."""
        self.read()
        return self._sha256.hexdigest()


def _parse_csv(
    path: Path, magic: bytes, types: Mapping[str, pa.DataType], sha256: dict[str, str] | None
) -> tuple[pa.Table | None, str]:
    ragged: list[int] = []

    def skip(row: object) -> str:
        ragged.append(1)
        return "skip"

    table, fault = None, ""
    try:
        compression = "gzip" if magic.startswith(_GZIP) else None
        with path.open("rb") as file:
            hashed = _Hashed(file)
            with pa.input_stream(file if sha256 is None else hashed, compression=compression) as stream:
                table = pyarrow.csv.read_csv(
                    stream,
                    parse_options=pyarrow.csv.ParseOptions(invalid_row_handler=skip),
                    convert_options=pyarrow.csv.ConvertOptions(
                        include_columns=list(types),
                        column_types=types,
                        null_values=[""],
                        strings_can_be_null=True,
                    ),
                )
            if sha256 is not None:
                sha256[str(path)] = hashed.hexdigest()
    except _READ_FAULTS as error:
        fault = _ENCODING if "UTF8" in str(error) else _TRUNCATED
    if table is not None and ragged:
        raise InputError(
            path,
            "rows do not have as many fields as the header",
            count=len(ragged),
            fix="quote text that contains commas; if the file was cut off, copy it again",
        )
    return table, fault


def _read_parquet(path: Path, columns: Mapping[str, Kind]) -> pa.Table:
    try:
        shared = [name for name, kind in columns.items() if kind == "name"]
        return pyarrow.parquet.read_table(path, columns=list(columns), read_dictionary=shared)
    except _READ_FAULTS:
        pass
    raise InputError(path, _TRUNCATED, fix=_COPY_AGAIN)


def _values(path: Path, name: str, kind: Kind, column: pa.ChunkedArray) -> pd.Series:
    """Return a column as its kind, after the checks that the kind promises."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
        column = column.cast(type_) if kind != "name" else column
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_)
    if kind == "code" and not is_text:
        raise InputError(
            path,
            f"geocodes are stored as {type_}, not as text",
            column=name,
            fix="store the column as text, with its leading zeros",
        )
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    allowed = {
        "code": False,
        "label": pa.types.is_integer(type_),
        "count": pa.types.is_integer(type_),
        "name": not pa.types.is_nested(type_),
    }.get(kind, is_number)
    if not is_text and not allowed:
        raise InputError(
            path,
            f"a {kind} cannot be stored as {type_}",
            column=name,
            fix="store labels as text, counts as integers, numbers as integers or decimals",
        )
    if kind == "name":
        return shared_names(column)
    if kind in ("margin", "text"):
        if not is_text and kind == "margin":
            return margins(path, name, column.cast(pa.float64(), safe=False).to_pandas())
        text = column.cast(pa.string()).to_pandas().astype("str").fillna("")
        return margins(path, name, text) if kind == "margin" else text
    missing = column.null_count
    if is_text:
        text = column.to_pandas().astype("str")
        distinct = pd.Series(text.dropna().unique(), dtype="str")  # a geocode comes many times over
        missing += int(text.isin(distinct[distinct.str.strip() == ""]).sum())
    if missing:
        raise InputError(
            path,
            "values are missing or blank",
            column=name,
            count=missing,
            fix="fill them or remove the rows",
        )
    if kind == "count":
        return _counts(path, name, text if is_text else column.to_pandas())
    if kind == "number":
        return numbers(path, name, text if is_text else column.cast(pa.float64(), safe=False).to_pandas())
    if not is_text:
        return column.cast(pa.string()).to_pandas().astype("str")
    if kind == "code":
        decimal = distinct.str.fullmatch(r"\d+\.0*|\d(\.\d*)?[eE]\+\d+")
        refuse_any(
            path,
            "geocodes are written as decimal numbers",
            text.isin(distinct[decimal]).sum(),
            column=name,
            fix="keep geocodes as text in the program that wrote the file",
        )
    return text


def _counts(path: Path, name: str, column: pd.Series) -> pd.Series:
    whole = column.astype("str").str.fullmatch(r"\s*\d{1,18}\s*") if column.dtype == "str" else column >= 0
    if not whole.all():
        raise InputError(
            path,
            "values are not whole numbers from 0 up (negative, fractional, or no number)",
            column=name,
            count=int((~whole).sum()),
            fix="correct the counts; a count is written without sign, point or separator",
        )
    return column.astype(np.int64)


def numbers(path: str | os.PathLike[str], name: str, column: pd.Series) -> pd.Series:
    """Return a column of text or floats as finite numbers.

    Parameters
    ----------
    path, name : str
        File and column, named in errors.
    column : Series of str or float64, shape (n,)

    Returns
    -------
    Series of float64, shape (n,)

    Raises
    ------
    InputError
        If values are missing or no finite numbers.
    """
    if column.dtype == "str":
        # Only true thousands separators: "1,5" is a decimal comma somewhere, and 15 would be wrong.
        separated = column.str.fullmatch(r"\s*[+-]?\d{1,3}(,\d{3})+(\.\d*)?\s*")
        column = pd.to_numeric(
            column.where(~separated, column.str.replace(",", "", regex=False)), errors="coerce"
        ).astype(np.float64)
    finite = np.isfinite(column.to_numpy())
    if not finite.all():
        raise InputError(
            path,
            "values are not finite numbers",
            column=name,
            count=int((~finite).sum()),
            fix="write plain numbers such as 1234.5",
        )
    return column


def margins(path: str | os.PathLike[str], name: str, column: pd.Series) -> pd.Series:
    """Return a column of margins of error as numbers, NaN where they are unknown.

    Parameters
    ----------
    path, name : str
        File and column, named in errors.
    column : Series of str or float64, shape (n,)
        Text may begin with "+/-"; blank, asterisks or NaN mean unknown.

    Returns
    -------
    Series of float64, shape (n,)
        Not negative, or NaN.

    Raises
    ------
    InputError
        If values are no finite numbers, or negative.
    """
    if column.dtype == "str":
        column = column.str.strip().str.removeprefix("+/-").str.strip()
        known = ~column.str.fullmatch(r"\**")
    else:
        known = column.notna()
    result = pd.Series(np.nan, index=column.index)
    result[known] = numbers(path, name, column[known])
    refuse_any(
        path,
        "margins of error are negative",
        (result < 0).sum(),
        column=name,
        fix="leave unknown margins empty; some tables write them as codes such as -222222222",
    )
    return result
