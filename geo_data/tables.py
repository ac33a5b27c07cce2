"""Reading CSV, gzipped CSV and Parquet tables, with one clear error for what can be wrong with a file.

Every reader of this package goes through `read_table`. A column is asked for with its kind:

========  ==============================================================================
code      a geocode: text, never a number (a number has lost its leading zeros)
home      the same of a worker's home, which must not decide whether the row is there
label     a category or an identifier: text; integers of a Parquet file become text
secret    the same of a category that must not decide whether the row is there
count     a whole number up to 10^15, written in the digits 0 to 9 and nothing else
number    a finite number; "1,234" with thousands separators is accepted
decimal   the same, where a point is known to be a decimal mark: 1.000 is no thousand
margin    a margin of error: a number, not negative, also as "+/-56"; NaN where it is
          blank, NA or asterisks, which say that it is unknown
text      anything, as it stands; "" where it is blank. `numbers` and `margins` read the
          numbers in the rows that are wanted
name      text that many rows share, such as that of a county: a categorical, missing where
          it is blank; what is not UTF-8 is read as Windows-1252
========  ==============================================================================

The first five may not have missing values. A row of CSV is a line; all of them are accounted for
(`geo_data.delimited`). Nothing here shows a value of the data: errors of the libraries
underneath quote the offending row, so they are replaced, not chained.
"""

from __future__ import annotations

import csv
import hashlib
import os
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from geo_data.code_index import in_one_dictionary
from geo_data.delimited import (
    BLOCK,
    COPY_AGAIN,
    NO_COMMAS,
    OTHER_MARKS,
    READ_FAULTS,
    TOO_DENSE,
    TRUNCATED,
    form_of,
    lines_of_other_widths,
    most_bytes,
    note_rows,
    open_lines,
)
from geo_data.errors import InputError, lines_of, refuse_any
from geo_data.texts import plain_texts, refuse_spellings, shared_names, spellings

Kind = Literal["code", "home", "label", "secret", "count", "number", "decimal", "margin", "text", "name"]

_NAME = pa.dictionary(pa.int32(), pa.binary())  # each name is kept once, however many rows have it
# Each distinct count is looked at once: most rows of a table of jobs have one of a few.
_TEXTS = pa.dictionary(pa.int32(), pa.string())
_PARQUET = b"PAR1"
_BEGIN = 2**12  # bytes that are read at a time for the first line
_MOST_COLUMNS = 10_000  # of a table; a thousand is many, and each costs time even where nobody reads it
_LARGEST = 10**15  # of a count: no sum of a few passes the largest int64, and floats hold it exactly
_SUPPRESSED = "for a suppressed number write an estimate, as a row that is left out counts as zero"
_NO_ROWS = "the file has a header and no rows"
_ENCODING = "the text is not UTF-8"
_SAVE_UTF8 = "save it as UTF-8"
# What a program of tables makes of a geocode, and how it writes text that it is to leave alone.
_DECIMAL = r"^([0-9]+\.0*|[0-9]([.,][0-9]*)?[eE]\+[0-9]+|[0-9][.,][0-9]+[eE][0-9]+)$"
_FORMULA = "^[='][^='].*"
_THOUSANDS = r"\s*[+-]?[1-9][0-9]{0,2}\.[0-9]{3}\s*"  # or a number with three decimals
_PLAIN = r"^[+-]?[0-9]+(\.[0-9]*)?$"  # a number as most programs write it
_NUMBER = r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\s*"


@dataclass(frozen=True)
class TableSchema:
    """What a format of tables declares: its columns, and what may be shown of a file."""

    columns: Mapping[str, Kind]  # The columns to read and the kind of each. No other column is parsed.
    # All columns the file must have, neither more nor fewer. Default: further columns are ignored.
    only: Collection[str] | None = None
    present: Collection[str] = ()  # further columns that the header must have; they are not parsed
    # further columns that are read where the header has them
    optional: Mapping[str, Kind] = field(default_factory=dict)
    # columns of codes and labels that come many times over, as in a table of jobs: each different text is
    # kept, and looked at, once
    shared: Collection[str] = ()
    # errors show nothing of the file, and a header without rows is a table, as of one of several files of
    # jobs: nobody need live there
    confidential: bool = False
    # Columns of codes and labels in which all spellings (`geo_data.texts`) are read as one. A file that
    # has several in another column is refused.
    any_spelling: Collection[str] = ()
    delimiter: str = ","  # between the fields of text

    def checked(self, path: Path, header: Sequence[str]) -> dict[str, Kind]:
        """Return the columns to read of a file with this header, or refuse it."""
        required = dict.fromkeys([*self.columns, *self.present])
        expected = required if self.only is None else self.only
        if len(header) > _MOST_COLUMNS:
            rule = f"the file has {len(header):,} columns, and at most {_MOST_COLUMNS:,} are read"
            raise InputError(path, rule, fix="write the columns that you need to another file")
        missing = [name for name in expected if name not in header]
        if missing and len(header) == 1 and any(mark in header[0] for mark in OTHER_MARKS):
            raise InputError(path, NO_COMMAS[0], fix=NO_COMMAS[1])
        if missing:
            # A file without a header would show its first record here, so only a line that has one of the
            # names counts as a header.
            some = len(missing) < len(expected)
            columns = ", ".join(header) if some else f"{len(header)} columns, none of these"
            raise InputError(
                path,
                f"missing columns: {', '.join(missing)}; the file has: {columns}",
                fix="name the columns of this file, or use the file that has them",
            )
        double = sorted(name for name, times in Counter(header).items() if times > 1)
        if double:
            rule = f"columns have the same name: {', '.join(double)}"
            raise InputError(path, rule, fix="give each column its own name")
        unknown = [] if self.only is None else [name for name in header if name not in self.only]
        if unknown:
            raise InputError(
                path,
                f"unknown columns: {', '.join(unknown)}; the format has: {', '.join(expected)}",
                fix="remove these columns, or use the reader of this format",
            )
        return {**self.columns, **{name: kind for name, kind in self.optional.items() if name in header}}


def read_table(
    path: str | os.PathLike[str],
    schema: TableSchema | Mapping[str, Kind],
    sha256: dict[str, str] | None = None,
) -> pd.DataFrame:
    """Read columns of a table as text, whole numbers or numbers, or say what is wrong with the file.

    CSV (UTF-8, comma, one header line), the same gzipped, or Parquet; told apart by content. With `sha256`,
    the SHA-256 of the file is entered under its path: of text, of the bytes as they are read.

    Returned is one row per row of the file in its order, the columns in the order asked for: code, label
    and text as pandas ``str``, name, and what is shared, as a categorical of ``str``, count as int64 (>=
    0), number as float64 (finite), margin as float64 (>= 0, or NaN). Codes and labels are plain texts. At
    least one row, unless the schema is confidential.
    """
    path = Path(path)
    schema = schema if isinstance(schema, TableSchema) else TableSchema(schema)
    if form_of(path) == _PARQUET:
        columns = schema.checked(path, _parquet_header(path))
        table = _read_parquet(path, columns, schema.shared)
        if sha256 is not None:  # Parquet is not read from its beginning to its end
            with path.open("rb") as file:
                sha256[str(path)] = hashlib.file_digest(file, "sha256").hexdigest()
    else:
        columns = schema.checked(path, _csv_header(path, schema.delimiter))
        table = _read_csv(path, columns, schema, sha256)
    if table.num_rows == 0:
        if not schema.confidential:
            raise InputError(path, _NO_ROWS, fix=COPY_AGAIN)
        note_rows(path, 0)
        return _no_rows(columns, schema.shared)
    note_rows(path, table.num_rows)
    return pd.DataFrame(
        {name: _values(path, name, kind, table[name], schema) for name, kind in columns.items()}
    )


def _no_rows(columns: Mapping[str, Kind], shared: Collection[str]) -> pd.DataFrame:
    """Return columns of jobs without rows: those of Parquet files have no types then."""
    kinds = {"count": "int64", "number": "float64"}
    frame = pd.DataFrame(
        {name: pd.Series([], dtype=kinds.get(kind, "object")) for name, kind in columns.items()}
    )
    return frame.astype({name: "category" for name in columns if name in shared})


def read_header(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the columns of a table; of text with other marks than commas, its first line."""
    path = Path(path)
    return _parquet_header(path) if form_of(path) == _PARQUET else _csv_header(path, ",")


def _csv_header(path: Path, delimiter: str) -> list[str]:
    with open_lines(path, delimiter=delimiter) as lines:
        data = b""
        while b"\n" not in data and (more := lines.read(_BEGIN)):
            data += more
    line = data.partition(b"\n")[0]
    fault = fix = ""
    header: list[str] = []
    try:
        # Only this line is decoded: columns that nobody reads may be in any encoding.
        text = line.decode("utf-8-sig").removesuffix("\r")
        header = next(csv.reader([text], strict=True, delimiter=delimiter), [])
    except UnicodeDecodeError:
        fault, fix = _ENCODING, _SAVE_UTF8
    except csv.Error:
        fault, fix = TRUNCATED, COPY_AGAIN
    # Raised after the handler, here and below: a chained error would carry the file's content along.
    if not fault and not header:
        fault, fix = "the file is empty", COPY_AGAIN
    if fault:
        raise InputError(path, fault, fix=fix)
    return header


def _parquet_header(path: Path) -> list[str]:
    names = None
    with suppress(*READ_FAULTS):
        metadata = pyarrow.parquet.read_metadata(path)
        names = list(pyarrow.parquet.read_schema(path).names)
    if names is None:
        raise InputError(path, TRUNCATED, fix=COPY_AGAIN)
    size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    if max(size, 8 * metadata.num_rows) > most_bytes(path.stat().st_size):
        fix = "check where the file comes from, or write it without compression"
        raise InputError(path, TOO_DENSE, fix=fix)
    return names


def _read_csv(
    path: Path, columns: Mapping[str, Kind], schema: TableSchema, sha256: dict[str, str] | None
) -> pa.Table:
    """Return the columns as text, of which counts, names and what is shared are dictionaries."""
    of_kind = {"name": _NAME, "count": _TEXTS}
    types = {
        name: _TEXTS if name in schema.shared else of_kind.get(kind, pa.string())
        for name, kind in columns.items()
    }
    ragged: list[int] = []

    def skip(_: object) -> str:
        ragged.append(1)
        return "skip"

    table, fault = None, ""
    with open_lines(path, sha256, schema.delimiter) as lines:
        try:
            table = pyarrow.csv.read_csv(
                lines,
                read_options=pyarrow.csv.ReadOptions(block_size=BLOCK),
                parse_options=pyarrow.csv.ParseOptions(delimiter=schema.delimiter, invalid_row_handler=skip),
                convert_options=pyarrow.csv.ConvertOptions(
                    include_columns=list(types),
                    column_types=types,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        except READ_FAULTS as error:
            fault = _ENCODING if "UTF8" in str(error) else TRUNCATED
            while not lines.fault and lines.read(BLOCK):  # to the line with the cause, if it is one of those
                pass
    if table is None:
        raise InputError(path, fault, fix=_SAVE_UTF8 if fault == _ENCODING else COPY_AGAIN)
    if ragged:
        raise InputError(
            path,
            "rows do not have as many fields as the header",
            count=len(ragged),
            where=lines_of(lines_of_other_widths(path, schema.delimiter)),
            fix="quote text that contains commas, or copy the file again if it was cut off",
        )
    if table.num_rows != lines.lines - 1:
        raise InputError(
            path,
            f"there are {lines.lines - 1:,} lines below the header, but {table.num_rows:,} rows could be "
            "read",
            fix="open the file with another program, and write it again",
        )
    return table


def _read_parquet(path: Path, columns: Mapping[str, Kind], shared: Collection[str]) -> pa.Table:
    table = None
    with suppress(*READ_FAULTS):
        encoded = [name for name, kind in columns.items() if kind == "name" or name in shared]
        table = pyarrow.parquet.read_table(
            path, columns=list(columns), read_dictionary=encoded, page_checksum_verification=True
        )
    if table is None or table.num_rows != pyarrow.parquet.read_metadata(path).num_rows:
        raise InputError(path, TRUNCATED, fix=COPY_AGAIN)
    fault = None
    for name in columns:  # reading does not look at what texts hold
        try:
            table[name].validate(full=True)
        except pa.ArrowInvalid:
            fault = InputError(path, _ENCODING, column=name, fix=_SAVE_UTF8)
    if fault:
        raise fault
    return table


def _values(path: Path, name: str, kind: Kind, column: pa.ChunkedArray, schema: TableSchema) -> pd.Series:
    """Return a column as its kind, after the checks that the kind promises."""
    type_, shared = column.type, name in schema.shared
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
        column = column if kind in ("name", "count") or shared else column.cast(type_)
    if pa.types.is_string_view(type_):
        type_, column = pa.string(), column.cast(pa.string())
    is_text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    if kind in ("code", "home") and not is_text:
        raise InputError(
            path,
            f"geocodes are stored as {type_}, not as text",
            column=name,
            fix="store the column as text, with its leading zeros",
        )
    is_number = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    allowed = {
        "code": False,
        "home": False,
        "label": pa.types.is_integer(type_),
        "secret": pa.types.is_integer(type_),
        "count": pa.types.is_integer(type_),
        "name": pa.types.is_integer(type_) or pa.types.is_binary(type_) or column.null_count == len(column),
    }.get(kind, is_number)
    if not is_text and not allowed:
        raise InputError(
            path,
            f"a {'category' if kind in ('label', 'secret') else kind} cannot be stored as {type_}",
            column=name,
            fix="store names and categories as text, counts as integers, numbers as integers or decimals",
        )
    if kind == "name":
        return shared_names(column)
    if kind in ("margin", "text"):
        if not is_text and kind == "margin":
            return margins(path, name, column.cast(pa.float64(), safe=False).to_pandas())
        text = column.cast(pa.string()).to_pandas().astype("str").fillna("")
        return margins(path, name, text) if kind == "margin" else text
    if kind == "count":
        return _counts(path, name, in_one_dictionary(column))
    index = None  # of each row in what is looked at
    if shared:
        column = column.cast(pa.string()) if is_number else column
        column = in_one_dictionary(column)
        index = pa.chunked_array([chunk.indices for chunk in column.chunks], pa.int32())
        is_text, column = True, column.chunk(0).dictionary
    missing = column.is_null() if index is None else index.is_null()
    if is_text:
        column = column.cast(pa.large_string())
        distinct = column if shared else pc.unique(column).drop_null()  # a geocode comes many times over

        def having(texts: pa.Array) -> pa.ChunkedArray:
            rows = pc.is_in(column, texts)
            return rows if index is None else pc.fill_null(rows.take(index), False)

        plain = plain_texts(distinct)
        if plain is not distinct:
            blank = distinct.filter(pc.equal(plain, ""))
            missing = pc.or_(missing, having(blank)) if len(blank) else missing
    if pc.any(missing).as_py():
        _refuse_missing(path, name, missing.to_pandas(), kind)
    if kind in ("number", "decimal") and not is_text:
        return numbers(path, name, column.cast(pa.float64(), safe=False).to_pandas())
    if kind in ("code", "home"):
        for rule, written in (("decimal numbers", _DECIMAL), ("a formula of a spreadsheet", _FORMULA)):
            matches = distinct.filter(pc.match_substring_regex(distinct, written))
            refuse_any(
                path,
                f"geocodes are written as {rule}",
                having(matches).to_pandas() if len(matches) else 0,
                column=name,
                fix="keep geocodes as text in the program that wrote the file",
            )
    if is_text and kind not in ("number", "decimal"):
        forms = spellings(plain) if kind in ("label", "secret") else plain
        if forms is not distinct:
            rows = (pc.index_in(column, distinct) if index is None else index).to_numpy()
            if name not in schema.any_spelling:
                refuse_spellings(path, name, distinct, rows, shown=not schema.confidential)
                forms = plain
            of_text, distinct_forms = pd.factorize(forms.to_pandas())
            texts = pd.Series(pd.Categorical.from_codes(of_text[rows], pd.Index(distinct_forms, dtype="str")))
            return texts if shared else texts.astype("str")
    text = column.cast(pa.large_string()).to_pandas().astype("str")
    if index is not None:
        return pd.Series(pd.Categorical.from_codes(index.to_numpy(), pd.Index(text)))
    of_numbers = kind in ("number", "decimal")
    return numbers(path, name, text, decimal_point=kind == "decimal") if of_numbers else text


def _refuse_missing(path: Path, name: str, missing: pd.Series, kind: Kind = "count") -> None:
    rule, fix = "values are missing or blank", "write the values, or remove the rows"
    if kind in ("count", "number", "decimal"):
        fix = f"write the values; {_SUPPRESSED}"
    elif kind == "home":  # the number of jobs that remain would tell of those without
        fix = "write the codes, and for unknown homes the code of an external zone that stands for unknown"
    elif kind == "label":
        fix = (
            "write the values, and for unknown values a category that stands for unknown, or remove the rows"
        )
    elif kind == "secret":
        fix = "write the values, and for unknown values a category of [[attribute]] that stands for unknown"
    refuse_any(path, rule, missing, column=name, fix=fix)


def _counts(path: Path, name: str, column: pa.ChunkedArray) -> pd.Series:
    """Return counts, from a dictionary of texts or of integers."""
    if column.null_count:
        _refuse_missing(path, name, column.is_null().to_pandas())
    distinct = column.chunk(0).dictionary if column.num_chunks else pa.array([], pa.int64())
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks] or [np.zeros(0, np.int32)])
    if pa.types.is_integer(distinct.type):
        values = distinct.to_pylist()  # of any width and sign: Python's do not wrap around
    else:
        texts = [text or "" for text in distinct.to_pylist()]
        blank = [not text.strip() for text in texts]
        if any(blank):
            _refuse_missing(path, name, pd.Series(np.array(blank)[codes]))
        whole = pc.match_substring_regex(distinct, "^[0-9]{1,16}$").to_pylist()
        values = [int(text) if good else -1 for text, good in zip(texts, whole, strict=True)]
    broken = np.array([not 0 <= value <= _LARGEST for value in values])
    refuse_any(
        path,
        "values are not whole numbers from 0 to 10^15",
        pd.Series(broken[codes]) if broken.any() else 0,
        column=name,
        fix="write each count in digits, without sign, point, separator or space",
    )
    return pd.Series(np.array(values, np.int64)[codes])


def numbers(
    path: str | os.PathLike[str],
    name: str,
    column: pd.Series,
    fix: str = f"write plain numbers such as 1234.5; {_SUPPRESSED}",
    *,
    decimal_point: bool = False,
) -> pd.Series:
    """Return a column of text or floats as finite numbers.

    Refused if values are missing or no finite numbers; or if all that have a point have three digits behind
    it and no zero before: 1.000 is one, or a thousand, unless a point is known to be a decimal mark.
    """
    if column.dtype == "str":
        if not decimal_point:
            _refuse_thousands(path, name, column)
        # Nearly all numbers are written so, and the expressions of Python take ten times the time.
        if not pc.all(pc.match_substring_regex(pa.array(column), _PLAIN)).as_py():
            # Only true thousands separators: "1,5" is a decimal comma somewhere, and 15 would be wrong.
            if column.str.contains(",", regex=False).any():
                separated = column.str.fullmatch(r"\s*[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?\s*")
                column = column.where(~separated, column.str.replace(",", "", regex=False))
            column = column.where(column.str.fullmatch(_NUMBER))
        column = pd.to_numeric(column, errors="coerce").astype(np.float64)
    refuse_any(path, "values are not finite numbers", ~np.isfinite(column), column=name, fix=fix)
    return column


def _refuse_thousands(path: str | os.PathLike[str], name: str, column: pd.Series) -> None:
    """Refuse numbers of which none tells whether the point in them is one of thousands."""
    pointed = column.str.contains(".", regex=False)
    # Mostly the first tells, and no further one is looked at.
    unclear = pointed.any() and all(re.fullmatch(_THOUSANDS, text) for text in column[pointed])
    refuse_any(
        path,
        "values have a point before three digits, so 1.000 may be one or a thousand",
        pointed if unclear else 0,
        column=name,
        fix="write thousands without a point; if the point is a decimal point, write decimal_point = true "
        "where the configuration names this column",
    )


def margins(path: str | os.PathLike[str], name: str, column: pd.Series) -> pd.Series:
    """Return a column of margins of error as numbers, NaN where they are unknown.

    Text may begin with "+/-"; blank, asterisks, NA or NaN mean unknown. Refused if negative, or no numbers.
    """
    if column.dtype == "str":
        column = column.str.strip().str.removeprefix("+/-").str.strip()
        is_known = ~column.str.fullmatch(r"\**|NA|N/A|NaN")
    else:
        is_known = column.notna()
    result = pd.Series(np.nan, index=column.index)
    unknown = 'write plain numbers such as 1234.5, and nothing, "NA" or asterisks for an unknown number'
    result[is_known] = numbers(path, name, column[is_known], unknown, decimal_point=True)
    refuse_any(
        path,
        "margins of error are negative",
        result < 0,
        column=name,
        fix="leave unknown margins empty, which some tables write as codes such as -222222222",
    )
    return result
