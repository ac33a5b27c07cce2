"""Parquet files that another pyarrow wrote: not compared, but nothing may be beside the rows."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.storage.parquet_bytes import check_parquet_bytes, rewrite
from pipelines.storage.parquet_form import FormError
from pipelines.storage.parquet_pages import check_pages

pytestmark = pytest.mark.quick

VERSION = f"parquet-cpp-arrow version {pa.__version__}".encode()
ANOTHER = VERSION[:-1] + bytes([VERSION[-1] ^ 1])


def checked(path: Path) -> bool:
    return check_parquet_bytes(path, partial(rewrite, path))


def test_a_file_of_another_pyarrow_has_pages_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1, 2, 2], "b": ["x", "y", "x"]}), path, compression="zstd")
    whole = path.read_bytes()
    assert checked(path)
    path.write_bytes(whole.replace(VERSION, ANOTHER))
    assert not checked(path), "said to be not compared"
    at = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    for name in (VERSION, ANOTHER):
        file = whole.replace(VERSION, name)
        more = file[at:-9] + b"\x08\x50\x10home of worker 7\0"
        for changed in (
            file[:at] + b"home" + file[at:],
            file[:at] + more + len(more).to_bytes(4, "little") + b"PAR1",
            file[:at].replace(b"\x15", b"\x16", 1) + file[at:],
        ):
            path.write_bytes(changed)
            with pytest.raises((FormError, OSError)):
                checked(path)
    for program in (b"home of worker 7".ljust(len(VERSION)), VERSION[:-2] + b".x"):
        path.write_bytes(whole.replace(VERSION, program))
        with pytest.raises(FormError, match="not pyarrow"):
            checked(path)


def test_groups_without_rows_have_no_page_of_data(tmp_path: Path) -> None:
    """As where no worker of a batch, or of a release, lives in an external zone."""
    rows, path = pa.table({"a": ["x", "y"], "n": [1, 2]}), tmp_path / "x.parquet"

    def write(groups: list[pa.Table], target: object) -> None:
        with pq.ParquetWriter(target, rows.schema, compression="zstd") as writer:
            for group in groups:
                writer.write_table(group)

    for groups in ([rows[:0]], [rows[:0], rows], [rows, rows[:0]]):
        write(groups, path)
        assert check_parquet_bytes(path, partial(write, groups))


def test_a_page_is_a_header_of_known_fields_and_one_frame() -> None:
    frame = pa.compress(b"home", codec="zstd", asbytes=True)
    skipped = b"\x50\x2a\x4d\x18\x04\0\0\0home"

    def page(data: bytes, before: bytes = b"", behind: bytes = b"", kind: bytes = b"\x15\x00") -> bytes:
        assert 2 * len(data) < 128
        return before + kind + b"\x15\x08\x15" + bytes([2 * len(data)]) + behind + b"\0" + data

    def check(chunk: bytes) -> None:
        check_pages(io.BytesIO(chunk), len(chunk), "ZSTD", "x.parquet")

    check(page(frame) + page(frame))
    for chunk in (
        page(frame + skipped),
        page(skipped + frame),
        page(frame + frame),
        page(frame) + b"\0",
        page(frame)[:-1],
        page(frame, behind=b"\xf8\x04home"),  # field 18, which nobody knows
        page(frame, kind=b"\x15\x80\x00"),  # 0 in two bytes
        page(b""),
    ):
        with pytest.raises(FormError, match="belong to no page"):
            check(chunk)
    with pytest.raises(FormError, match="not compressed with zstd"):
        check_pages(io.BytesIO(b""), 0, "SNAPPY", "x.parquet")
