"""Delimited text, read so that every line is accounted for.

A parser that meets a stray quotation mark takes the lines after it for one field, and drops what it cannot
make sense of. So the bytes are checked on their way to the parser, a block at a time: a row is a line, a
quotation mark that opens a field closes it in the same line, and there are as many rows as lines.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from geo_data.errors import InputError, lines_of

BLOCK = 2**20  # bytes that are read at a time; no line may be longer
TRUNCATED = "the file is truncated or corrupt"
COPY_AGAIN = "copy or download it again and compare checksums"
READ_FAULTS = (OSError, EOFError, zlib.error, pa.ArrowException)

_GZIP = b"\x1f\x8b"
_MARK = b"\xef\xbb\xbf"  # of UTF-8, which some editors put first
_QUOTE, _RETURN, _FEED, _EQUALS = b'"\r\n='
OTHER_MARKS = ";\t|"  # between fields, of other forms of text
NO_COMMAS = (
    "the fields are separated by semicolons, tabs or bars, not by commas",
    "save it as CSV with commas",
)
# The first bytes of files that are taken for tables.
_FORMS = {
    b"PK\x03\x04": "a workbook (xlsx) or a zip archive",
    b"\xd0\xcf\x11\xe0": "a workbook (xls)",
    b"BZh": "compressed with bzip2",
    b"\xfd7zX": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstd",
    b"<": "a web page",
}
# What comes out of a file: real tables of jobs shrink to a tenth, and to a fiftieth if they say little.
_RATIO, _ANYWAY = 200, 2**26
TOO_DENSE = "the file unpacks to far more bytes than a table has"
_TOO_LONG = f"a line is longer than {BLOCK:,} bytes"
_LINES = 3  # that an error names
_rows: ContextVar[tuple[dict[str, int], Callable[[int], None]] | None] = ContextVar("rows", default=None)


@contextmanager
def count_rows(report: Callable[[int], None] = lambda files: None) -> Iterator[dict[str, int]]:
    """Count the rows of every table that is read meanwhile; gives a dict that is filled, by path.

    A file that is read twice is counted once. `report` is told after each file how many have been read.
    """
    counts: dict[str, int] = {}
    token = _rows.set((counts, report))
    try:
        yield counts
    finally:
        _rows.reset(token)


def note_rows(path: str | os.PathLike[str], rows: int) -> None:
    """Count the rows of a file for `count_rows`, if anybody asks."""
    if (counted := _rows.get()) is not None:
        counts, report = counted
        counts[os.fspath(path)] = rows
        report(len(counts))


def refuse_no_file(path: str | os.PathLike[str]) -> None:
    """Refuse what is no regular file: opening a named pipe would wait for ever, a device never end."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        mode = None
    if mode is None:
        raise InputError(path, "there is no such file", fix="check the path in the configuration")
    if not stat.S_ISREG(mode):
        rule = "this is a folder, not a file" if stat.S_ISDIR(mode) else "this is a pipe, socket or device"
        raise InputError(path, rule, fix="name a file")


def form_of(path: str | os.PathLike[str]) -> bytes:
    """Return the first four bytes of a table, which tell its form.

    Refused if it is no regular file, empty, or of a form that is no table.
    """
    refuse_no_file(path)
    with Path(path).open("rb") as file:
        first = file.read(4)
    if not first:
        raise InputError(path, "the file is empty", fix=COPY_AGAIN)
    for begin, form in _FORMS.items():
        if first.startswith(begin):
            fix = "save the sheet as CSV UTF-8, unpack the archive, or download the file again"
            raise InputError(path, f"the file is {form}, neither CSV nor Parquet", fix=fix)
    return first


def most_bytes(size: int) -> int:
    """Return how many bytes may come out of a compressed file of this size; more is an attack."""
    return _ANYWAY + _RATIO * size


class CheckedLines(io.RawIOBase):
    """The bytes of a delimited file, checked and counted as they are read.

    After the first fault nothing more is given, as at the end of a file; whoever reads asks for `fault` then.
    Nothing is raised while a parser reads, because the parser may read in a thread of its own.

    `lines` counts the lines so far, without blank ones at the end; `fault` and `fix` say what is wrong and
    what to do about it, and are empty while nothing is. More than `limit` bytes are a fault.
    """

    def __init__(self, file: BinaryIO, limit: int, delimiter: str) -> None:
        super().__init__()
        self._file, self._left, self._delimiter = file, limit, ord(delimiter)
        self._tail, self._first = b"", True
        self._blank = 0  # blank lines after the last other one
        self._returns: bool | None = None  # whether lines end with a carriage return before the feed
        self.lines, self.fault, self.fix = 0, "", ""
        self._line = 0  # of the fault

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none at the end, or from a fault on."""
        if self.fault:
            return b""
        try:
            data = self._file.read(size)
        except READ_FAULTS:
            self._stop(self._tail.count(b"\n"), TRUNCATED, COPY_AGAIN)
            return b""
        self._check(data)
        return b"" if self.fault else data

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, for `io.BufferedReader`."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def raise_fault(self, path: str | os.PathLike[str]) -> None:
        """Raise the fault, if there is one."""
        if self.fault:
            raise InputError(path, self.fault, where=lines_of([self._line]), fix=self.fix)

    def _stop(self, before: int, fault: str, fix: str) -> None:
        """Keep a fault, so many lines after those that are counted."""
        self._line, self.fault, self.fix = self.lines + self._blank + before + 1, fault, fix

    def _check(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self._stop(0, TOO_DENSE, "unpack it and look at it")
        elif not data and self._tail:
            fix = f"{COPY_AGAIN}; if it is whole, add a line break after the last line"
            self._stop(0, "the last line has no line break at its end: the file may have been cut off", fix)
        if self.fault or not data:
            return
        whole = self._tail + data
        if self._first:
            self._first, whole = False, whole.removeprefix(_MARK)
        end = whole.rfind(b"\n") + 1
        lines, self._tail = whole[:end], whole[end:]
        feeds = np.flatnonzero(np.frombuffer(lines, np.uint8) == _FEED)
        if (position := whole.find(b"\0")) >= 0:
            fix = "save it as UTF-8 (UTF-16 has such bytes), or copy it again"
            self._stop(int(np.searchsorted(feeds, position)), "there is a NUL byte in the text", fix)
        elif feeds.size and feeds[0] > BLOCK:
            self._stop(0, _TOO_LONG, COPY_AGAIN)
        elif len(self._tail) > BLOCK:
            self._stop(feeds.size, _TOO_LONG, COPY_AGAIN)
        elif feeds.size and self._good_ends(lines, feeds) and self._good_quotes(lines, feeds):
            self._count(feeds)

    def _count(self, feeds: NDArray[np.intp]) -> None:
        """Count whole lines; blank ones may only come last."""
        blank = np.diff(feeds, prepend=-1) == (2 if self._returns else 1)
        text = np.flatnonzero(~blank)
        if not text.size:
            self._blank += feeds.size
            return
        rows = int(text[-1]) + 1
        if self._blank or rows > text.size:
            offset = -self._blank if self._blank else int(np.argmax(blank))
            self._stop(offset, "there are blank lines between rows", "remove them, or fill them in")
            return
        self.lines += rows
        self._blank = feeds.size - rows

    def _good_ends(self, lines: bytes, feeds: NDArray[np.intp]) -> bool:
        """Whether all lines end alike, and no carriage return stands elsewhere."""
        if self._returns is None:
            self._returns = lines[: feeds[0]].endswith(b"\r")
        if b"\r" not in lines and not self._returns:
            return True
        characters = np.frombuffer(lines, np.uint8)
        returns = np.flatnonzero(characters == _RETURN)
        lone = returns[characters[returns + 1] != _FEED]
        if lone.size:
            fix = 'end lines with a line feed ("\\n" or "\\r\\n"), and leave line breaks out of fields'
            offset = int(np.searchsorted(feeds, lone[0]))
            self._stop(offset, "a carriage return does not end its line", fix)
            return False
        other = np.flatnonzero((characters[feeds - 1] == _RETURN) != self._returns)
        if other.size:
            fix = "end all lines alike; if files were joined, or the file was damaged, make it again"
            rule = "a line does not end like the first line (with or without a carriage return)"
            self._stop(int(other[0]), rule, fix)
            return False
        return True

    def _good_quotes(self, lines: bytes, feeds: NDArray[np.intp]) -> bool:
        """Whether every quotation mark opens or closes a field, or stands twice inside one, in its line."""
        if b'"' not in lines:
            return True
        characters = np.frombuffer(lines, np.uint8)
        quotes = np.flatnonzero(characters == _QUOTE)
        odd = np.flatnonzero(np.diff(np.searchsorted(quotes, feeds), prepend=0) % 2)
        fix = "write each field on one line, and double a quotation mark inside a field"
        if odd.size:
            self._stop(int(odd[0]), "a quotation mark is not closed in its line", fix)
            return False
        # Every line has pairs, so each second one closes what the one before it opened.
        opening, closing = quotes[::2], quotes[1::2]
        before = characters[opening - 1]  # of the first character of all: the last, which is a line feed
        begins = np.isin(before, (self._delimiter, _FEED, _QUOTE))
        ends = np.isin(characters[closing + 1], (self._delimiter, _RETURN, _FEED, _QUOTE))
        if not (begins & ends).all():
            first = np.argmin(begins & ends)
            offset, rule = (
                int(np.searchsorted(feeds, opening[first])),
                "a quotation mark stands inside a field",
            )
            if before[first] == _EQUALS:
                rule = 'a field is a formula of a spreadsheet (="44")'
                fix = "write the text alone, without = and quotation marks"
            elif not (self.lines or offset) and characters[closing[first] + 1] in OTHER_MARKS.encode():
                rule, fix = NO_COMMAS
            self._stop(offset, rule, fix)
            return False
        return True


class _Hashed(io.RawIOBase):
    """A file whose bytes are hashed as they are read."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file, self._sha256 = file, hashlib.sha256()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._sha256.update(data)
        return data

    def hexdigest(self) -> str:
        """Return the hash of the whole file, whose rest is read for it."""
        while self.read(BLOCK):
            pass
        return self._sha256.hexdigest()


@contextmanager
def open_lines(
    path: str | os.PathLike[str], sha256: dict[str, str] | None = None, delimiter: str = ","
) -> Iterator[CheckedLines]:
    """Open a delimited file, gzipped or not, to read lines that are checked and counted.

    With `sha256`, the hash of the bytes as they are read is entered under the path at the end. A fault that
    `CheckedLines` found is raised at the end.
    """
    refuse_no_file(path)
    with Path(path).open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        raw = file if sha256 is None else cast(BinaryIO, _Hashed(file))
        text = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
        lines = CheckedLines(text, most_bytes(os.fstat(file.fileno()).st_size), delimiter)
        yield lines
        lines.raise_fault(path)
        if sha256 is not None:
            sha256[str(path)] = cast(_Hashed, raw).hexdigest()


def lines_of_other_widths(path: str | os.PathLike[str], delimiter: str) -> list[int]:
    """Return the first lines of a file that have more or fewer fields than its first."""
    numbers: list[int] = []
    with open_lines(path, delimiter=delimiter) as lines:
        width = 0
        for number, line in enumerate(io.BufferedReader(lines, BLOCK), start=1):
            fields = (re.sub(rb'"[^"]*"', b"", line) if b'"' in line else line).count(delimiter.encode()) + 1
            width = width or fields
            if fields != width and line.strip(b"\r\n"):
                numbers.append(number)
                if len(numbers) > _LINES:
                    break
    return numbers
