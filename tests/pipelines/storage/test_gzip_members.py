"""Gzip files are read strictly, and no faster than whoever reads them asks for."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from pipelines.storage.gzip_members import read_members

pytestmark = pytest.mark.quick


def test_a_bomb_comes_out_in_small_pieces(tmp_path: Path) -> None:
    """Whoever compares the pieces stops at the first that is not what it should be."""
    path, size = tmp_path / "bomb.gz", 2**24
    content = bytearray(gzip.compress(bytes(size), 9, mtime=0))
    content[8:10] = b"\0\xff"  # the head that this program writes
    path.write_bytes(content)
    assert len(content) < size // 500
    for level in (None, 6):
        pieces = [len(piece) for _, piece in read_members(path, level, 2**16)]
        assert sum(pieces) == size
        assert max(pieces) <= 2**16
