"""The bytes of a gzip file: members with nothing in their heads, one after another, and nothing behind."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from synth.errors import ShownError

# No flags, and so no name, comment or extra field; no time; no word on the compression; unknown system.
_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
_PIECE = 2**16  # compressed bytes that are read at a time


class GzipFormError(ShownError, ValueError):
    """There is something in a gzip file beside what it compresses."""


@dataclass
class Member:
    """What is known of a member when its last piece has been read.

    Attributes
    ----------
    ended : bool
    same : bool
        Whether zlib compresses the content to the very same bytes here. Another version of zlib may not:
        what a reader sees is the same all the same.
    """

    ended: bool = False
    same: bool = True


def read_members(path: Path, level: int | None, most: int) -> Iterator[tuple[Member, bytes]]:
    """Decompress a gzip file, strictly.

    Parameters
    ----------
    path : Path
    level : int or None
        That the program compresses with; None not to compress again, which takes most of the time.
    most : int
        Bytes of a piece, at most: memory is bounded by it however well the file is compressed.

    Yields
    ------
    (Member, bytes)
        The next piece and the member that it is of. The last piece of each member is empty.

    Raises
    ------
    GzipFormError
        If a head has anything of its own, a checksum is wrong, or there is something else than members.
    """
    with path.open("rb") as file, path.open("rb") as again:
        while head := file.read(len(_HEAD)):
            if head != _HEAD:
                raise GzipFormError
            again.seek(file.tell())
            member, checksum, size = Member(), 0, 0
            inner = zlib.decompressobj(-zlib.MAX_WBITS)
            outer = None if level is None else zlib.compressobj(level, wbits=-zlib.MAX_WBITS)
            while not inner.eof:
                data = inner.unconsumed_tail or file.read(_PIECE)
                if not data:
                    raise GzipFormError
                try:
                    piece = inner.decompress(data, most)
                except zlib.error:
                    raise GzipFormError from None
                checksum, size = zlib.crc32(piece, checksum), size + len(piece)
                if outer is not None and member.same:
                    compressed = outer.compress(piece)
                    member.same = again.read(len(compressed)) == compressed
                if piece:
                    yield member, piece
            file.seek(-len(inner.unused_data), 1)
            if outer is not None and member.same:
                compressed = outer.flush()
                member.same = again.read(len(compressed)) == compressed and again.tell() == file.tell()
            tail = checksum.to_bytes(4, "little") + (size % 2**32).to_bytes(4, "little")
            if file.read(len(tail)) != tail:
                raise GzipFormError
            member.ended = True
            yield member, b""
