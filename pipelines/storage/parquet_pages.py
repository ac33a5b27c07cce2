"""The pages of a column in a Parquet file: one after another, with nothing beside them.

Each has a header in Thrift's compact protocol, of which a reader skips every field that it does not know, and
is compressed with zstd, whose readers skip what a frame says is to be skipped. Neither may be there.
"""

from __future__ import annotations

from typing import Any, BinaryIO

from pipelines.storage.parquet_form import FormError

# Fields of a page header by number: the type in the compact protocol, or the fields of a structure.
_BOOLEAN, _I32, _I64, _BINARY, _STRUCT = 1, 5, 6, 8, 12
_STATISTICS: dict[int, Any] = {
    **dict.fromkeys((1, 2, 5, 6), _BINARY),
    **dict.fromkeys((3, 4), _I64),
    **dict.fromkeys((7, 8), _BOOLEAN),
}
_DATA = {**dict.fromkeys((1, 2, 3, 4), _I32), 5: _STATISTICS}
_DICTIONARY = {1: _I32, 2: _I32, 3: _BOOLEAN}
_HEADER = {**dict.fromkeys((1, 2, 3, 4), _I32), 5: _DATA, 7: _DICTIONARY}
_ZSTD = b"\x28\xb5\x2f\xfd"
_LARGEST_HEADER = 65_536
_BLOCK = {0: 1, 1: 0, 2: 1}  # raw, run-length and compressed blocks: whether their size is what is stored


def check_pages(file: BinaryIO, size: int, compression: str, name: str) -> None:
    """Refuse anything but pages in the next bytes of a file.

    Parameters
    ----------
    file : binary file
        At the beginning of a column chunk.
    size : int
        Of the chunk, in bytes.
    compression : str
        As the footer names it.
    name : str
        Of the file, for errors.

    Raises
    ------
    FormError
        If there is something else; no content is quoted.
    """
    if compression != "ZSTD":
        raise FormError(f"{name}: a column is not compressed with zstd")
    begin, at = file.tell(), 0
    try:
        while at < size:
            file.seek(begin + at)
            reader = _Reader(file.read(min(_LARGEST_HEADER, size - at)))
            fields = reader.structure(_HEADER)
            stored, page = reader.at, fields[3]
            file.seek(begin + at + stored)
            if page < 0 or stored + page > size - at:
                raise ValueError
            _check_frame(file, page)
            at += stored + page
    except (ValueError, IndexError, KeyError):
        raise FormError(f"{name}: there are bytes that belong to no page") from None


class _Reader:
    """Reads structures, strictly: each number in its shortest form, fields by rising number, none unknown."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def structure(self, known: dict[int, Any]) -> dict[int, int]:
        """Read a structure and return its whole numbers."""
        numbers, number = {}, 0
        while (head := self._byte()) != 0:
            step, kind = head >> 4, head & 15
            if step == 0 or (number := number + step) not in known:
                raise ValueError
            expected = known[number]
            if isinstance(expected, dict):
                if kind != _STRUCT:
                    raise ValueError
                self.structure(expected)
            elif expected == _BOOLEAN:
                if kind not in (1, 2):  # the value is in the type
                    raise ValueError
            elif kind != expected:
                raise ValueError
            elif kind == _BINARY:
                length = self._varint()
                if self.at + length > len(self.data):
                    raise ValueError
                self.at += length
            else:
                folded = self._varint()
                numbers[number] = (folded >> 1) ^ -(folded & 1)
        return numbers

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                if (byte == 0 and shift) or value >= 2**64:
                    raise ValueError
                return value
            shift += 7


def _check_frame(file: BinaryIO, size: int) -> None:
    """Refuse anything but one zstd frame of this size (RFC 8878, 3.1.1)."""
    head = file.read(5)
    if head[:4] != _ZSTD:
        raise ValueError
    descriptor = head[4]
    single, checksum, dictionary = descriptor >> 5 & 1, descriptor >> 2 & 1, descriptor & 3
    if descriptor & 0b11000 or dictionary:
        raise ValueError
    window = 0 if single else 1
    content = (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    file.seek(window + content, 1)
    left = size - 5 - window - content
    last = 0
    while not last:
        header = int.from_bytes(file.read(3), "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        stored = length if _BLOCK[kind] else 1
        left -= 3 + stored
        if left < 0:
            raise ValueError
        file.seek(stored, 1)
    if left != 4 * checksum:
        raise ValueError
